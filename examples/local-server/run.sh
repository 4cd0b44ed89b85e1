#!/usr/bin/env bash
# A server of your own that speaks OpenAI's API: vLLM listens on http://127.0.0.1:8000/v1,
# Ollama on http://127.0.0.1:11434/v1. No key is needed, and no limit need be known. Here the
# mock stands in for it, on a free port; it serves one request at a time and refuses others.
llmbatch mock --addr 127.0.0.1:0 --cap 1 --ra ms --cap-retry-after 20ms 2>server.log &
server=$!
trap 'kill $server' EXIT
until [ -s server.log ]; do sleep 0.1; done
url=$(grep -o 'http://[0-9.]*:[0-9]*' server.log | head -n 1)

llmbatch run prompts.jsonl --provider openai --base-url "$url/v1" --model my-model -q
llmbatch export prompts.results.jsonl --format csv --ordered --columns id,status,provider,model,text
