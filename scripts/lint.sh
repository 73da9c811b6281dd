#!/usr/bin/env bash
# Checks the layout of changed lines (clang-format) and changed files for
# mistakes (clang-tidy). Changed is what differs from BASE: the commit where this
# branch left origin/main, or the last commit where there is none. Needs a build.
#
#   scripts/lint.sh [BASE]
#   scripts/lint.sh --within SECONDS [BASE]   what clang-tidy checks in so long; the rest is counted
#   scripts/lint.sh --layout [BASE]           clang-format alone: seconds, and no build
set -euo pipefail
cd "$(dirname "$0")/.."
llvm=/usr/lib/llvm-22/bin

layout_alone=false
within=0 # no limit
if [ "${1:-}" = --layout ]; then
  layout_alone=true
  shift
elif [ "${1:-}" = --within ]; then
  within=$2
  shift 2
fi
base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
if [ -z "${1:-}" ] && { [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; }; then
  base=$(git rev-parse -q --verify HEAD~1) || { echo "lint: there is nothing to compare with"; exit 0; }
fi

status=0
code=0
layout=$(PATH=$llvm:$PATH timeout 100 "$llvm/git-clang-format" --diff --extensions h,cpp "$base") || code=$?
if [ "$code" = 124 ]; then
  echo "lint: the change is too large: its layout isn't checked"
elif [ "$code" != 0 ]; then
  printf '%s\n' "$layout"
  echo "lint: error: the lines above are laid out differently; run $llvm/git-clang-format $base"
  status=1
fi
if $layout_alone; then
  exit "$status"
fi

mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'lib/*.cpp' 'tools/*.cpp')
files=()
for file in "${changed[@]}"; do # what needs LibTorch isn't compiled everywhere
  if grep -q "/$file\"" build/compile_commands.json; then
    files+=("$file")
  else
    echo "lint: not read, as this build doesn't compile it: $file"
  fi
done
checked=0
if [ ${#files[@]} -gt 0 ]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # A file that is done leaves a line of its own, so that those can be counted that time was left for.
  printf '%s\n' "${files[@]}" | timeout "$within" xargs -P "$(nproc)" -I FILE \
    sh -c '"$0" -p build --quiet "$1" 2>/dev/null; echo "checked $1"' "$llvm/clang-tidy" FILE >"$log" || true
  checked=$(grep -c '^checked ' "$log" || true)
  grep -v '^checked ' "$log" || true
  if grep -q ' error: ' "$log"; then
    status=1
  fi
fi
if [ "$within" = 0 ] && [ "$checked" != ${#files[@]} ]; then
  echo "lint: error: clang-tidy ended after $checked of ${#files[@]} files"
  status=1
fi
[ "$status" = 0 ] && echo "lint: clang-tidy read $checked of ${#files[@]} changed files and found no mistake"
exit "$status"
