#!/usr/bin/env bash
# cron: put the line of ./crontab into `crontab -e`. systemd: copy llmbatch-night.service and
# llmbatch-night.timer to ~/.config/systemd/user/, then
#   systemctl --user enable --now llmbatch-night.timer
#   loginctl enable-linger            # runs also while you are not logged in
#   journalctl --user -u llmbatch-night
# Both run nightly.sh, which turns each exit code into a sentence.

# A good night says nothing.
NIGHTLY_ARGS="--provider mock" ./nightly.sh && echo "exit 0"

# A spend cap stops the run after its first answer; the file is whole, and the next night goes on.
NIGHTLY_ARGS="--provider mock --mock-scenario spend-cap --fresh" ./nightly.sh 2>night.log || echo "exit $?"
NIGHTLY_ARGS="--provider mock" ./nightly.sh && echo "exit 0"

# What it logged holds no control characters: it reads well in a mail or a journal.
LC_ALL=C grep '[[:cntrl:]]' night.log || grep -o '^llmbatch: stopped: [^:]*' night.log
