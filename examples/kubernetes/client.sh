#!/bin/sh
# One client: takes every CLIENTS-th prompt, starting with its own index, and writes RUNS/client-INDEX.
set -eu
index=${JOB_COMPLETION_INDEX:?set by an Indexed Job}
share=$(mktemp -d)
trap 'rm -r "$share"' EXIT
awk -v n="$CLIENTS" -v i="$index" '(NR - 1) % n == i' "$PROMPTS" > "$share/prompts.jsonl"
# Each client would see the steps of all of them in the server's counters, so none of them reads those.
# OPTIONS is split into words on purpose.
# shellcheck disable=SC2086
status=0
spec-profile --url "$URL" --model "$MODEL" --input-file "$share/prompts.jsonl" --no-server-metrics \
  --artifact-dir "$RUNS/client-$index" --overwrite $OPTIONS || status=$?
# The report waits for all clients, however they ended.
mkdir -p "$RUNS/done"
echo "$status" > "$RUNS/done/$index"
exit "$status"
