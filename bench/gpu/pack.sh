#!/usr/bin/env bash
# Packs what a machine with GPUs needs to run and measure: programs, configs, the token file, the peers, the scripts.
#   bench/gpu/pack.sh [--out .gpu] [--tokens FILE] [--runtime SCRIPT] [--archive FILE.tar.gz|.tar.xz] [--limit MIB]
#                     BINARY ...
# Binaries are stripped copies. --runtime: a script that is called as SCRIPT OUT/rt BINARY ... and collects MPI and the
# shared libraries for a machine that has none, with an activate.sh. --archive: OUT as one file too, a third of the
# size, by xz less; what counts against --limit is then the file. Afterwards, there: OUT/run.sh, or: tar xf FILE &&
# OUT/run.sh
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=.gpu tokens="" runtime="" archive="" limit=60
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --tokens) tokens=$2; shift 2 ;;
    --runtime) runtime=$2; shift 2 ;;
    --archive) archive=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    -*) echo "pack.sh: $1 is no option of it; see the head of this file" >&2; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo "pack.sh: name the binaries to pack, trainrun among them" >&2; exit 2; }
for binary in "$@"; do
  [ -x "$binary" ] || { echo "pack.sh: $binary is no program; build it first" >&2; exit 2; }
done
if [ -n "$tokens" ]; then
  [ -f "$tokens" ] || { echo "pack.sh: no $tokens; make it with bench/gpu/make_tokens.py" >&2; exit 2; }
  size=$(stat -Lc %s "$tokens")
  [ "$size" -le $((40 << 20)) ] || { echo "pack.sh: $tokens has $size bytes, more than 40 MiB; make it with fewer --tokens" >&2; exit 2; }
fi
rm -rf "${out:?}/bin" "$out/configs" "$out/peers" "$out/data"
mkdir -p "$out/bin" "$out/configs" "$out/peers" "$out/data"
for binary in "$@"; do strip -o "$out/bin/$(basename "$binary")" "$binary"; done
cp "$source_root"/configs/*.json "$out/configs/"
cp "$source_root"/bench/peers/*.py "$out/peers/"
cp "$source_root"/bench/gpu/{run.sh,tables.sh,measure.py,rows.py,rows.json,processes.py,floor.py,curve.py} "$out/"
cp "$source_root"/bench/gpu/{checkpoint_times.py,host_memory.py} "$out/"
[ -z "$tokens" ] || cp -L "$tokens" "$out/data/tokens.bin"
if [ -n "$runtime" ]; then
  rm -rf "$out/rt"
  "$runtime" "$out/rt" "$@"
fi
du -sh "$out"/*
packed=$out
if [ -n "$archive" ]; then
  tar caf "$archive" -C "$(dirname "$out")" "$(basename "$out")"
  packed=$archive
fi
kib=$(du -sk "$packed" | cut -f1)
[ "$kib" -le $((limit << 10)) ] || { echo "pack.sh: $packed has $((kib >> 10)) MiB, more than --limit $limit; pack fewer binaries or fewer tokens" >&2; exit 1; }
echo "$packed: $((kib >> 10)) MiB"
