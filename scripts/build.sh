#!/usr/bin/env bash
# Configures and builds everything into build/; binaries are in build/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -f build/build.ninja ]; then
  cmake -G Ninja -B build -S . -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 >build.configure.log 2>&1 ||
    { cat build.configure.log >&2; echo "build: error: cmake failed" >&2; exit 1; }
  rm -f build.configure.log
elif grep -qs '^DTC_PYTHON_PACKAGE:.*=OFF' build/CMakeCache.txt && build/venv/bin/python -c 'import nanobind' 2>/dev/null; then
  cmake build >/dev/null # what the Python package needs has come since
fi
ninja -C build "$@"
