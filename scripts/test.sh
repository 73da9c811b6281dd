#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: lit, GoogleTest and
# pytest. The last line is "N passed, N failed"; exits non-zero on any failure.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh --tests || exit 1
scripts/build.sh all || { echo "0 passed, 1 failed"; exit 1; }
exec build/venv/bin/python test/run_all.py build
