#!/bin/sh
# The last step: waits until every client has ended, then reports on them as on one run.
set -eu
while :; do
  ended=0
  for mark in "$RUNS"/done/*; do
    [ -f "$mark" ] && ended=$((ended + 1))
  done
  [ "$ended" -ge "$CLIENTS" ] && break
  sleep "${POLL_SECONDS:-5}"
done
spec-profile report "$RUNS" --pool --format json --output "$RUNS/pooled.json"
exec spec-profile report "$RUNS" --pool
