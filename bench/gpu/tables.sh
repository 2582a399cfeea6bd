#!/usr/bin/env bash
# Times steps with sparse and dense tables on one GPU, from a folder that pack.sh made with bench-embedding-update and bench-models: a table of
# 2 M x 16 alone beside PyTorch's, then DLRM of 26 tables. Lines of JSON, in $OUT/tables.jsonl, too.
#   .gpu/tables.sh
# Environment: OUT (folder for results), DEVICE (cuda), STEPS (100 of a table, 30 of a model), ROWS (2000000), LIMIT (seconds for one, 60).
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for name in bench-embedding-update bench-models; do
  [ -x "$root/bin/$name" ] || { echo "tables.sh: no $root/bin/$name; pack it with bench/gpu/pack.sh" >&2; exit 2; }
done
out=${OUT:-$PWD/out} device=${DEVICE:-cuda} limit=${LIMIT:-60} rows=${ROWS:-2000000}
mkdir -p "$out"
# shellcheck disable=SC1091
[ -f "$root/rt/activate.sh" ] && source "$root/rt/activate.sh"
export CUDA_VISIBLE_DEVICES=0 LOCKSTEP_CACHE=${LOCKSTEP_CACHE:-/tmp/lockstep-kernels} PYTHONDONTWRITEBYTECODE=1
label=""  # members in front of those that a program prints
timed() {  # COMMAND...: its lines of JSON are kept; what else it says goes to the log
  timeout -s KILL "$limit" "$@" < /dev/null 2>>"$out/tables.log" | tee -a "$out/tables.log" | grep '^{' | sed "s/^{/{$label/" | tee -a "$out/tables.jsonl"
  local code=${PIPESTATUS[0]}
  [ "$code" = 0 ] || echo "tables.sh: $* ended with $code; see $out/tables.log" >&2
}
for ids in 2048 65536; do
  timed "$root/bin/bench-embedding-update" "$rows" 16 $ids "${STEPS:-100}" "$device"
  timed python3 "$root/peers/torch_table.py" "$rows" 16 $ids "${STEPS:-50}" "$device"
done
model() {  # ROWS SPARSE BATCH PRECISION: 26 tables of so many rows
  label="\"rows\":$1,\"sparse\":$2,"
  timed "$root/bin/bench-models" dlrm \
    "{\"rows\": [$(yes "$1" | head -n 26 | paste -sd,)], \"width\": 16, \"bottom\": [64, 16], \"top\": [64], \"sparse\": $2}" \
    "$3" "$4" "${STEPS:-30}" "$device"
}
few=$((rows / 20))
for sparse in false true; do
  for precision in fp32 bf16; do model $few $sparse 2048 $precision; done
  model "$rows" $sparse 2048 fp32
  model $few $sparse 16384 bf16
done
