#!/usr/bin/env bash
# Installs clang with its sanitizers, libFuzzer and libomp, for scripts/fuzz.sh and scripts/sanitize.sh; a second run installs nothing.
# The distribution's plain clang, 14, lacks parts of C++20 that Lockstep uses.
set -euo pipefail
packages=(clang-19 libclang-rt-19-dev libomp-19-dev)
if [[ "$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -c '^installed$')" == "${#packages[@]}" ]]; then exit 0; fi
as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then as_root=(sudo env DEBIAN_FRONTEND=noninteractive); fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}"
