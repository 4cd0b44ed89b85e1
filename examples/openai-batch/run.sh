#!/usr/bin/env bash
# A file made for OpenAI's Batch API runs here as it is …
llmbatch run batch.jsonl --provider mock -q

# … and what reads the Batch API's output reads this.
llmbatch export batch.mock.jsonl --format openai-batch --ordered | sed -E 's/"id":"(batch_req|chatcmpl|resp)[^"]*"/"id":"…"/g' | cut -c1-120
