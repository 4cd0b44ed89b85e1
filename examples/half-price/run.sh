# The same file at half price, through the provider's Batch API. One item goes live first, to see that it passes; a
# batch takes minutes mostly, and a day at most. Stopped with ctrl-C, the same command again collects: nothing is
# bought twice. ./crontab is for those who don't want to wait in front of it.
llmbatch plan prompts.jsonl --batch --provider mock --price-input 1 --price-output 4 | grep -E '^(batches|cost)'
llmbatch run prompts.jsonl --batch --batch-poll 200ms --provider mock --mock-scenario batch-ok --price-input 1 --price-output 4 -q
llmbatch export prompts.mock.jsonl --format csv --ordered | cut -d, -f1,2

# How many attempts went through a batch, and that no journal of open batches is left.
grep -c '"batch_id"' prompts.mock.jsonl
ls prompts.mock.batches.jsonl 2>/dev/null || echo "no batch is open"
