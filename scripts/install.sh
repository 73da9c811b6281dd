#!/usr/bin/env bash
# Installs what dtc needs on Debian 12: the packages that are missing. With
# --tests also a Python environment for the tests in build/venv. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "install: error: $*" >&2; exit 1; }

packages=(
  clang-22 lld-22 liblld-22-dev llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  cmake ninja-build ccache git
  libprotobuf-dev protobuf-compiler
  libdnnl-dev libflatbuffers-dev flatbuffers-compiler libminizip-dev zlib1g-dev libssl-dev
  libcli11-dev libasio-dev nlohmann-json3-dev libyaml-cpp-dev libre2-dev libmimalloc-dev libgtest-dev
  python3
)
if [ "${1:-}" = --tests ]; then
  packages+=(python3-venv python3-dev clang-format-22 clang-tidy-22 openmpi-bin)
fi

[ -r /etc/debian_version ] || fail "this script knows Debian 12 only; install by hand: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then sudo=(); else
    command -v sudo >/dev/null || fail "run as root, or install sudo; missing packages: ${missing[*]}"
    sudo=(sudo)
  fi
  echo "install: Debian packages: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq || fail "apt-get update failed"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install: ${missing[*]} (Debian 12 with its security updates has them)"
fi

[ "${1:-}" = --tests ] || exit 0
venv=build/venv
stamp=$venv/.requirements
if ! cmp -s test/requirements.txt "$stamp"; then
  echo "install: Python packages for the tests"
  /usr/bin/python3 -m venv "$venv" || fail "cannot make $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r test/requirements.txt ||
    fail "pip could not install test/requirements.txt"
  cp test/requirements.txt "$stamp"
fi
