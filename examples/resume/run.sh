#!/usr/bin/env bash
# Two to begin with: a bill of two requests.
llmbatch run prompts.jsonl --provider mock -q --limit 2
echo "rows: $(wc -l <prompts.mock.jsonl)"

# The next run meets a spend cap at its first answer: it stops, and says so with exit code 3.
llmbatch run prompts.jsonl --provider mock --mock-scenario spend-cap 2>said.txt || echo "exit $?"
grep '^llmbatch: stopped' said.txt

# The cap is raised; the same command does the rest, and nothing twice.
llmbatch plan prompts.jsonl --provider mock | grep '^to do'
llmbatch run prompts.jsonl --provider mock -q
llmbatch export prompts.mock.jsonl --format csv --ordered --columns id,status,attempts
