#!/usr/bin/env bash
# Runs tests under sanitizers: scripts/sanitize.sh asan|tsan [LABEL...]. Labels: unit error ranks process python, unless told.
# asan finds wrong addresses, leaks and undefined behaviour (g++), tsan races (clang with libomp, whose barriers Archer tells it of).
# What is left out, and why, stands in tests/sanitizers. CMAKE_ARGS="-DLOCKSTEP_CUDA_WANTED=OFF" leaves CUDA's half out of the build.
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
