#!/usr/bin/env bash
# A first run against the built-in mock API: no key, no network.
llmbatch run prompts.jsonl --provider mock -q

# What came back, in the order of the input.
llmbatch export prompts.mock.jsonl --format csv --ordered --columns id,status,text

# The same command again has nothing to do: no request is sent.
llmbatch run prompts.jsonl --provider mock -q
llmbatch report prompts.mock.jsonl --json | grep -o '"sent": *[0-9]*' | head -n 1
