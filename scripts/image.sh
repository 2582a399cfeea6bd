#!/usr/bin/env bash
# Builds the image of Containerfile and trains in it: scripts/image.sh cpu|cuda [OPTION of `buildah build`...]. Needs
# buildah, and no GPU. The base is Debian's image from a registry, or the image that BASE names; with BASE=debootstrap
# root makes it from Debian's archive. Where namespaces are not allowed: BUILDAH_ISOLATION=chroot scripts/image.sh cpu.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
version=$(sed -n 's/^project(lockstep VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
image=localhost/lockstep:$version
options=()
case "${1:-}" in
  cpu) ;;
  cuda) image+=-cuda options+=(--build-arg CUDA=1) ;;
  *) echo "usage: scripts/image.sh cpu|cuda [OPTION of \`buildah build\`...]" >&2; exit 2 ;;
esac
kind=$1
shift
command -v buildah >/dev/null || { echo "image.sh: no buildah; apt-get install buildah" >&2; exit 2; }

work=$(mktemp -d)
container=
trap '[[ -z "$container" ]] || buildah rm "$container" >/dev/null; rm -rf "$work"' EXIT
case "${BASE:-}" in
  "") ;;
  debootstrap)
    base=localhost/lockstep-base
    if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
      ((EUID == 0)) || { echo "image.sh: root alone may run debootstrap" >&2; exit 2; }
      command -v debootstrap >/dev/null || { echo "image.sh: no debootstrap; apt-get install debootstrap" >&2; exit 2; }
      debootstrap --variant=minbase bookworm "$work/bare" >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }
      rm -rf "$work/bare/var/cache/apt" "$work"/bare/var/lib/apt/lists/*
      tar -C "$work/bare" -cf "$work/base.tar" .
      rm -rf "$work/bare"
      printf 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n' >"$work/Containerfile"
      buildah build --tag "$base" --file "$work/Containerfile" "$work"
    fi
    options+=(--build-arg "BASE=$base") ;;
  *) options+=(--build-arg "BASE=$BASE") ;;
esac

buildah build --layers --tag "$image" "${options[@]}" "$@" --file "$root/Containerfile" "$root"
container=$(buildah from "$image")
within() { buildah run "$container" -- "$@"; }  # a program in the image
within test -s /usr/local/share/doc/lockstep/LICENSE -a -s /usr/local/share/doc/lockstep/NOTICE
libraries=$(within trainrun env | grep -cE '^  (NVRTC|cuBLASLt|cuDNN|NCCL) +[0-9]' || true)
if [[ $kind == cuda ]] && ((libraries != 4)); then
  within trainrun env | sed -n '/^CUDA/,/^$/p' >&2
  echo "image.sh: $image has $libraries of the 4 libraries of CUDA" >&2
  exit 1
fi
for ranks in 1 2; do
  within trainrun --nproc $ranks --train.device=cpu --train.steps=20 --name=on$ranks \
    /usr/local/share/lockstep/configs/quickstart.json >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  hashes[ranks]=$(sed -n 's/^step 20: state //p' "$work/log")
  echo "$ranks ranks: ${hashes[ranks]}"
done
[[ -n "${hashes[1]}" && "${hashes[1]}" == "${hashes[2]}" ]] || { echo "image.sh: not the same bits" >&2; exit 1; }
buildah images "$image"
