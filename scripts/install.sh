#!/usr/bin/env bash
# Installs the Debian packages that are missing; a second run installs nothing. Needs root, or a user with sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache                                 # the build, and the compiler of generated kernels
  libopenmpi-dev openmpi-bin                                   # collectives and launch
  libdnnl-dev                                                  # contractions
  libboost-dev libboost-filesystem-dev                         # Process, Asio, Interprocess
  nlohmann-json3-dev libcli11-dev libspdlog-dev libxxhash-dev  # config, command line, logs, checksums
  libgtest-dev libgmock-dev libbenchmark-dev                   # tests and benchmarks
  fortunes                                                     # the text of the quickstart
)

missing=()
for package in "${packages[@]}"; do
  if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]]; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  echo "install: all ${#packages[@]} packages are there"
  exit 0
fi

as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install: missing: ${missing[*]}; run this as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
fi
echo "install: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
