#!/usr/bin/env bash
# Builds Release into build/ with Ninja. Arguments are targets (default: all); a second run rebuilds nothing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

if [[ ! -f "$root/build/build.ninja" ]]; then
  cmake -G Ninja -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release
fi
ninja -C "$root/build" -j "$(nproc)" "$@"
