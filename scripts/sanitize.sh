#!/usr/bin/env bash
# Runs tests under sanitizers: scripts/sanitize.sh asan|tsan [LABEL...]. Default labels: unit error ranks process python.
# asan finds wrong addresses, leaks and undefined behaviour (g++), tsan finds races (clang with libomp, whose barriers Archer reports to it).
# tests/sanitizers lists the exclusions and their reasons. CMAKE_ARGS="-DLOCKSTEP_CUDA_WANTED=OFF" builds without CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-}
[[ "$preset" == asan || "$preset" == tsan ]] || { echo "usage: scripts/sanitize.sh asan|tsan [LABEL...]" >&2; exit 2; }
shift
labels=("$@"); if ((${#labels[@]} == 0)); then labels=(unit error ranks process python); fi
scripts/install.sh
scripts/install_for.sh "$preset"
read -ra options <<<"${CMAKE_ARGS:-}"
cmake --preset "$preset" ${options[@]+"${options[@]}"} >/dev/null
cmake --build --preset "$preset" --target "${labels[@]/#/tests_}"
exec ctest --test-dir "build-$preset" --output-on-failure -L "^($(IFS='|'; echo "${labels[*]}"))\$"
