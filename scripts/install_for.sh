#!/usr/bin/env bash
# Installs what scripts/sanitize.sh and scripts/fuzz.sh need in addition to scripts/install.sh: install_for.sh asan|tsan|fuzz; a second run
# installs nothing.
set -euo pipefail
case "${1:-}" in
  asan) packages=(libc6-dbg) ;;  # names of libc's functions, by which tests/sanitizers/leaks.txt knows what Open MPI keeps
  # The distribution's plain clang, 14, lacks parts of C++20 that Lockstep uses.
  tsan | fuzz) packages=(clang-19 libclang-rt-19-dev libomp-19-dev) ;;
  *) echo "usage: scripts/install_for.sh asan|tsan|fuzz" >&2; exit 2 ;;
esac
if [[ "$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -c '^installed$')" == "${#packages[@]}" ]]; then exit 0; fi
as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then as_root=(sudo env DEBIAN_FRONTEND=noninteractive); fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}"
