#!/usr/bin/env bash
# On a cluster:
#   kubectl apply -f job.yaml && kubectl wait --for=condition=complete job/llmbatch --timeout=12h
#   llmbatch merge prompts.*-of-4.results.jsonl -o results.jsonl       # where the volume is mounted

# Here the four pods run one after the other, with the variables of job.yaml.
for index in 0 1 2 3; do
  JOB_COMPLETION_INDEX=$index JOB_COMPLETIONS=4 llmbatch run prompts.jsonl --shard auto --provider mock -q
done
llmbatch merge prompts.*-of-4.mock.jsonl -o results.jsonl -q

# A pod without JOB_COMPLETIONS says what is missing, before anything is sent.
JOB_COMPLETION_INDEX=2 llmbatch run prompts.jsonl --shard auto --provider mock 2>said || echo "exit $?"
cat said
llmbatch export results.jsonl --format csv --ordered --columns id,status
