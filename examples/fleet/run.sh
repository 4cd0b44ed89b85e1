#!/usr/bin/env bash
# On a cluster:
#   kubectl apply -f server.yaml -f workers.yaml
#   llmbatch fleet run prompts.jsonl --nats tls://llmbatch-nats:4222 --nats-token-file token --nats-ca tls.crt --run night
#   llmbatch fleet status --nats … --run night --watch
# On Slurm, with the server on this host: sbatch workers.sbatch

# Here the server, the coordinator and a worker are three processes on one machine.
llmbatch fleet serve --store store --listen 127.0.0.1:0 2>served &
server=$!
trap 'kill $server' EXIT
until grep -q 'token of' served; do sleep 0.05; done
export NATS_URL="nats://$(sed -n 's/.*NATS is served on \([^,]*\),.*/\1/p' served)" FLEET_TOKEN=store/token FLEET_RUN=night
bash workers.sbatch &
worker=$!
llmbatch fleet run prompts.jsonl --provider mock --nats "$NATS_URL" --nats-token-file store/token --run night -q
wait $worker
llmbatch export prompts.mock.jsonl --format csv --columns id,status --ordered
