#!/usr/bin/env bash
# Installs what is missing, builds dtc and dtc-run, compiles a GPT-2 for four ranks of this
# machine and trains it for 100 steps on real text.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh
scripts/build.sh dtc dtc-run
export PATH=$PWD/build/bin:$PATH
mkdir -p build/quickstart
set -x
dtc compile test/models/gpt2.onnx --devices 4 --target cpu --loss cross_entropy \
  --optimizer adamw --lr 3e-4 --global-batch 8 -o build/quickstart/gpt2.dtc
dtc-run build/quickstart/gpt2.dtc --data test/models/text.bin --steps 100 \
  --log build/quickstart/run.jsonl
