#!/bin/sh
# What the Jobs do, on this machine: rehearse.sh URL MODEL PROMPTS FOLDER [CLIENTS] runs the clients side by side and
# then the last step. OPTIONS are options of spec-profile for every client.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export URL="$1" MODEL="$2" PROMPTS="$3" RUNS="$4" CLIENTS="${5:-3}" OPTIONS="${OPTIONS:---temperature 0}"
export POLL_SECONDS=0.2 START_IN="${START_IN:-10}"
rm -rf "$RUNS/done" "$RUNS/start-at"
mkdir -p "$RUNS"
index=0
while [ "$index" -lt "$CLIENTS" ]; do
  JOB_COMPLETION_INDEX=$index sh "$here/client.sh" > "$RUNS/client-$index.log" 2>&1 &
  index=$((index + 1))
done
sh "$here/report.sh"
wait
