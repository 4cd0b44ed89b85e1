#!/usr/bin/env bash
# "params" is merged into the body that is made of a prompt; a line with "messages" is the body
# itself. Either way all that an API knows can be asked of it, and goes to it as it is written:
# a JSON Schema for the answer ("ticket-1", for OpenAI), or a tool ("ticket-2", for Anthropic).
llmbatch plan prompts.jsonl --provider mock | grep -E '^(input|formats)'
llmbatch run prompts.jsonl --provider mock -q

# The answer is the row's text, a tool call is in its response. (The mock says OK to anything.)
llmbatch export prompts.mock.jsonl --format csv --ordered --columns id,status,stop_reason,text
