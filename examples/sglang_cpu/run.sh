#!/bin/sh
# Profile a real SGLang on a machine without a GPU: its release from PyPI, a tiny random model, an n-gram drafter.
#
#   sh examples/sglang_cpu/run.sh [FOLDER]   4 GB of disk; FOLDER (sglang_cpu_demo) keeps engine, model and results
#
# SGLANG_PYTHON names a Python for which serve.sh has installed SGLang before; PORT (8000) is where it serves;
# SPEC_PROFILE is the command to run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-sglang_cpu_demo}
port=${PORT:-8000}
url=http://127.0.0.1:$port

mkdir -p "$folder"
echo "SGLang is starting on $url (its log: $folder/sglang.log)"
sh "$here/serve.sh" "$folder" "$port" > "$folder/sglang.log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM
until python3 -c "import urllib.request as r; r.urlopen('$url/health', timeout=5)" 2> /dev/null; do
  kill -0 $server 2> /dev/null || { tail -n 5 "$folder/sglang.log" >&2; exit 1; }
  sleep 1
done

${SPEC_PROFILE:-spec-profile} --url "$url" --model tiny --input-file "$here/../prompts.jsonl" --concurrency 2 \
  --warmup-request-count 2 --max-tokens 128 --temperature 0 --use-server-token-count \
  --extra-inputs return_spec_tokens_details:true,ignore_eos:true \
  --artifact-dir "$folder/profile" --overwrite --full
