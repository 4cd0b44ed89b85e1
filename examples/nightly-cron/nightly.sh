#!/bin/sh
# Runs the night's prompts until six in the morning and acts on how it ended.
# cron mails what is printed, so nothing is printed when all is well.
#
# Keys come from a file that only you can read: chmod 600 key.
# The night's arguments may be replaced: NIGHTLY_ARGS="--provider mock" ./nightly.sh
: "${NIGHTLY_ARGS:=--provider anthropic --api-key-file key --model claude-sonnet-4-5 --max-tokens 1024 --until 06:00}"

# shellcheck disable=SC2086
llmbatch run prompts.jsonl -o results.jsonl -q $NIGHTLY_ARGS
code=$?

case $code in
0) ;; # every item has its answer
1) echo "done, but some items have no answer; llmbatch report results.jsonl tells why" ;;
2) echo "nothing was sent: the command or the input is wrong, or last night still runs" ;;
3) echo "stopped early: spend cap, key, or a wrong setting; mend it and run again" ;;
4) echo "the night was too short; the next one goes on where this one stopped" ;;
5) echo "results could not be written; is the disk full?" ;;
*) echo "ended with exit code $code; run again to continue" ;;
esac
exit $code
