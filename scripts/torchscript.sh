#!/usr/bin/env bash
# Builds build/bin/dtc-torchscript, which reads TorchScript (.pt) for dtc. LibTorch is that of
# PyPI's torch, installed into build/libtorch, or the package of the Python interpreter that is
# given. Of what torch depends on, libtorch_cpu.so needs two libraries of CUDA. Safe to repeat.
#
#   scripts/torchscript.sh [PYTHON_WITH_TORCH]
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "torchscript: error: $*" >&2; exit 1; }

[ -f build/build.ninja ] || fail "build dtc first: scripts/build.sh"
if [ $# -gt 0 ]; then
  torch=$("$1" -c 'import torch; print(torch.__path__[0])') || fail "$1 has no torch"
else
  torch=$PWD/build/libtorch/torch
  if [ ! -f "$torch/lib/libtorch_cpu.so" ]; then
    python=build/venv/bin/python
    [ -x "$python" ] || { python3 -m venv build/venv; }
    echo "torchscript: PyPI's torch into build/libtorch"
    "$python" -m pip install -q --disable-pip-version-check --no-deps --target build/libtorch \
      torch nvidia-cuda-runtime nvidia-cuda-cupti || fail "pip could not install torch"
  fi
fi
[ -f "$torch/lib/libtorch_cpu.so" ] || fail "$torch has no lib/libtorch_cpu.so"
cmake -B build -DDTC_LIBTORCH="$torch" >/dev/null
ninja -C build dtc-torchscript
