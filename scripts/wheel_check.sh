#!/usr/bin/env bash
# Shows that a wheel installs and trains in a bare Debian 12 with only Python and g++: scripts/wheel_check.sh
# WHEEL. Needs root and debootstrap. Checks its size, how fast trainrun and `import lockstep` start, and that 1, 2 and 3
# ranks have the same bits.
set -euo pipefail
wheel=$(realpath "${1:?usage: scripts/wheel_check.sh WHEEL}")
((EUID == 0)) || { echo "wheel_check: root alone may make a chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "wheel_check: no debootstrap; apt-get install debootstrap" >&2; exit 2; }
size=$(stat -c %s "$wheel")
((size <= 40000000)) || { echo "wheel_check: $wheel has $size bytes; at most 40,000,000" >&2; exit 1; }

bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,g++ bookworm "$bare" >"$bare.log" 2>&1 || { tail "$bare.log" >&2; exit 1; }
rm -f "$bare.log"
mkdir "$bare/given"
cp "$wheel" "$(dirname "$0")/../examples/mlp.py" "$bare/given"
python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --no-deps --python-version 3.11 --dest "$bare/given" numpy
cat >"$bare/given/check.sh" <<'CHECK'
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv there
there/bin/pip install --quiet --no-index --find-links /given lockstep
bin=$PWD/there/bin
fast() {  # the second start of a command, in at most 0.3 s
  "$@" >/dev/null
  local begin end
  begin=$(date +%s%N)
  "$@" >/dev/null
  end=$(date +%s%N)
  echo "$(((end - begin) / 1000000)) ms: ${*##*/}"
  ((end - begin <= 300000000)) || { echo "that is more than 300 ms" >&2; exit 1; }
}
fast "$bin/trainrun" --version
fast "$bin/python" -c 'import lockstep'
python3 -c 'print("".join(chr(97 + i * i % 23 % 7) for i in range(100000)))' >text.txt
cat >c.json <<'CONFIG'
{"model": {"kind": "gpt", "vocab": 256, "context": 32, "width": 32, "depth": 2, "heads": 2},
 "data": {"kind": "text", "paths": ["text.txt"], "tokenizer": "bytes"}, "batch": {"global": 12, "micro": 2}, "train": {"steps": 10}}
CONFIG
for ranks in 1 2 3; do
  "$bin/trainrun" --nproc $ranks --name=on$ranks c.json >log 2>&1 || { cat log; exit 1; }
  hashes+=("$(sed -n 's/^step 10: state //p' log)")
  echo "$ranks ranks: ${hashes[-1]}"
  ((ranks > 1)) || echo "from pip install to a first trained model: $SECONDS s"
done
[[ -n "${hashes[0]}" && "${hashes[0]}" == "${hashes[1]}" && "${hashes[0]}" == "${hashes[2]}" ]]
for ranks in 1 2; do
  "$bin/trainrun" --nproc $ranks /given/mlp.py runs/mlp$ranks 20 >log 2>&1 || { cat log; exit 1; }
  hashes[ranks]=$(sed -n 's/^step 20: state //p' log)
  echo "mlp.py, $ranks ranks: ${hashes[ranks]}"
done
[[ -n "${hashes[1]}" && "${hashes[1]}" == "${hashes[2]}" ]]
CHECK
unshare --mount --pid --fork --kill-child bash -c '
  mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --bind /dev "$1/dev" && mount -t tmpfs shm "$1/dev/shm"
  exec chroot "$1" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 bash /given/check.sh' _ "$bare"
echo "wheel_check: $(basename "$wheel"), $size bytes: all well"
