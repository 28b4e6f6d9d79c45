#!/bin/sh
# One client: sends its share of the requests and writes RUNS/client-INDEX.
set -eu
index=${JOB_COMPLETION_INDEX:?set by an Indexed Job}
mkdir -p "$RUNS/done"
# All clients start at one time. The first one that gets here says when: noclobber (-C) lets only one write the file.
(set -C && echo $(($(date +%s) + ${START_IN:-60})) > "$RUNS/start-at") 2> /dev/null || true
while [ ! -s "$RUNS/start-at" ]; do sleep 1; done
# Each client would see the steps of all of them in the server's counters, so none of them reads those.
# OPTIONS is split into words on purpose.
# shellcheck disable=SC2086
status=0
spec-profile --url "$URL" --model "$MODEL" --input-file "$PROMPTS" --share "$index/$CLIENTS" \
  --start-at "$(cat "$RUNS/start-at")" --no-server-metrics --artifact-dir "$RUNS/client-$index" --overwrite $OPTIONS \
  || status=$?
# The report waits for all clients, however they ended.
echo "$status" > "$RUNS/done/$index"
exit "$status"
