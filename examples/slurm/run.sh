#!/usr/bin/env bash
# On a cluster:
#   sbatch --wait array.sbatch && llmbatch merge prompts.*-of-4.results.jsonl -o results.jsonl

# Here the four tasks run one after the other, with the variables that Slurm sets.
export SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_STEP=1 SLURM_ARRAY_TASK_COUNT=4
for task in 0 1 2 3; do
  SLURM_ARRAY_TASK_ID=$task RUN_ARGS="--provider mock -q" bash array.sbatch
done
for f in prompts.*-of-4.mock.jsonl; do echo "$f $(wc -l <"$f" | tr -d ' ')"; done

# One file, in the order of the input.
llmbatch merge prompts.*-of-4.mock.jsonl -o results.jsonl -q
llmbatch export results.jsonl --format csv --ordered --columns id,status
