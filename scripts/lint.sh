#!/usr/bin/env bash
# Checks the layout of changed lines (clang-format) and changed files for
# mistakes (clang-tidy). Changed is what differs from BASE: the commit where this
# branch left origin/main, or the last commit where there is none. Needs a build.
#
#   scripts/lint.sh [BASE]
#   scripts/lint.sh --layout [BASE]     clang-format alone: seconds, and no build
set -euo pipefail
cd "$(dirname "$0")/.."
llvm=/usr/lib/llvm-22/bin

layout_alone=false
if [ "${1:-}" = --layout ]; then
  layout_alone=true
  shift
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

mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'lib/*.cpp' 'tools/*.cpp')
if [ ${#files[@]} -gt 0 ]; then
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 "$llvm/clang-tidy" -p build --quiet 2>/dev/null || status=1
fi
[ "$status" = 0 ] && echo "lint: ${#files[@]} changed files are clean"
exit "$status"
