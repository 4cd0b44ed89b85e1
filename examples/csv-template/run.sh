#!/usr/bin/env bash
# Rows of a CSV file become prompts. plan shows what a run would do, and sends nothing.
llmbatch plan reviews.csv -t 'Is this review positive? {{.stars}} stars: {{.text}}' --provider mock | head -n 1

llmbatch run reviews.csv -t 'Is this review positive? {{.stars}} stars: {{.text}}' --provider mock -q
llmbatch export reviews.csv.mock.jsonl --format csv --ordered --columns id,status,text
