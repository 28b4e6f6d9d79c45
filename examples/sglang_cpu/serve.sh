#!/bin/sh
# Serve a model with SGLang on a CPU, as "tiny": no GPU, and no AMX needed.
#
#   sh examples/sglang_cpu/serve.sh FOLDER PORT [options of SGLang]
#
# FOLDER keeps engine and model (4 GB of disk). Without options the server drafts with an n-gram drafter.
# SGLANG_PYTHON names a Python for which this script has installed SGLang before; MODEL names a model, else a tiny random
# one is made.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
port=$2
shift 2

if [ -z "${SGLANG_PYTHON:-}" ]; then
  SGLANG_PYTHON=$folder/venv/bin/python
  if [ ! -e "$folder/venv/installed" ]; then
    python3 -m venv "$folder/venv"
    "$SGLANG_PYTHON" -m pip install -q -r "$here/requirements.txt"
    # What they depend on holds much that only a GPU needs.
    "$SGLANG_PYTHON" -m pip install -q --no-deps torchvision==0.28.0 sglang==0.5.23
    site=$("$SGLANG_PYTHON" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
    # Its operators were built for another torch, and a text model needs none of them.
    : > "$site/torchvision/_meta_registrations.py"
    # The other attention for CPUs knows no draft trees; see sgl_kernel.
    sed -i 's/        and not get_platform().has_amx/        and False/' "$site/sglang/srt/arg_groups/overrides.py"
    touch "$folder/venv/installed"
  fi
fi

if [ -z "${MODEL:-}" ]; then
  MODEL=$folder/model
  [ -e "$MODEL/config.json" ] || "$SGLANG_PYTHON" "$here/../vllm_cpu/make_model.py" "$MODEL"
fi

[ $# -gt 0 ] || set -- --speculative-algorithm NGRAM --speculative-num-draft-tokens 8
export SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
PATH=$(dirname "$SGLANG_PYTHON"):$PATH exec "$SGLANG_PYTHON" -m sglang.launch_server --model-path "$MODEL" \
  --served-model-name tiny --device cpu --dtype float32 --host 127.0.0.1 --port "$port" --enable-metrics \
  --skip-server-warmup --context-length 2048 --max-total-tokens 16384 --mem-fraction-static 0.6 "$@"
