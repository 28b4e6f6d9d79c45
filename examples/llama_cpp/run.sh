#!/bin/sh
# Profile a real llama.cpp on a CPU: built from source, a tiny random model, a draft model.
#
#   sh examples/llama_cpp/run.sh [FOLDER]     FOLDER (llama_cpp_demo) keeps server, models and results
#
# LLAMA_SERVER names a llama-server that is there already; PORT (8000) is where it serves; SPEC_PROFILE is the command to
# run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-llama_cpp_demo}
port=${PORT:-8000}
url=http://127.0.0.1:$port

mkdir -p "$folder"
echo "llama.cpp is starting on $url (its log: $folder/llama_cpp.log)"
sh "$here/serve.sh" "$folder" "$port" > "$folder/llama_cpp.log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM
until python3 -c "import urllib.request as r; r.urlopen('$url/health', timeout=2)" 2> /dev/null; do
  kill -0 $server 2> /dev/null || { tail -n 5 "$folder/llama_cpp.log" >&2; exit 1; }
  sleep 1
done

${SPEC_PROFILE:-spec-profile} --url "$url" --model tiny --input-file "$here/../prompts.jsonl" --concurrency 2 \
  --warmup-request-count 2 --max-tokens 128 --temperature 0 --extra-inputs ignore_eos:true,timings_per_token:true \
  --use-server-token-count --artifact-dir "$folder/profile" --overwrite --full
