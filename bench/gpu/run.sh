#!/usr/bin/env bash
# Measures on a machine with GPUs, from a folder that pack.sh made: floors, then interleaved runs of ours and of PyTorch, and a table.
#   .gpu/run.sh [RANKS [WORKLOAD,...]] [-- --key=VALUE ...]       RANKS 1 or 4; config keys after -- change our runs
# Environment: OUT (folder for results), RUNS (5), STEPS (45), BUDGET (seconds for the runs, 420), LIMIT (seconds for one, 150),
# ONLY (both, ours, torch), FLOOR (1; 0 leaves the floors out), TORCH_ARGS ("--compile --bf16").
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here
[ -d "$root/bin" ] || root=$PWD/.gpu
[ -x "$root/bin/trainrun" ] || { echo "run.sh: no $root/bin/trainrun; make the folder with bench/gpu/pack.sh" >&2; exit 2; }
ranks=1 workloads=""
[ $# -gt 0 ] && [ "$1" != -- ] && { ranks=$1; shift; }
[ $# -gt 0 ] && [ "$1" != -- ] && { workloads=$1; shift; }
[ $# -gt 0 ] && [ "$1" = -- ] && shift
[ -n "$workloads" ] || workloads=gpt2_124m
out=${OUT:-$PWD/out}
mkdir -p "$out"
# shellcheck disable=SC1091
[ -f "$root/rt/activate.sh" ] && source "$root/rt/activate.sh"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export LOCKSTEP_CACHE=${LOCKSTEP_CACHE:-/tmp/lockstep-kernels} TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-/tmp/inductor}
{
  date -u
  timeout 30 nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm --format=csv
  timeout 30 nvidia-smi topo -m
  timeout 60 "$root/bin/trainrun" env
  timeout 60 python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "cudnn", torch.backends.cudnn.version())'
} >"$out/machine.txt" 2>&1
sed -n 1,6p "$out/machine.txt"

if [ "${FLOOR:-1}" = 1 ]; then
  # The libraries alone, through PyTorch; and our own bench programs, where they are packed, to the log.
  timeout 150 python3 "$root/floor.py" ${workloads//,/ } 2>>"$out/log.txt" | tee -a "$out/results.jsonl"
  for program in "$root"/bin/bench-gpu-*; do
    [ -x "$program" ] || continue
    echo "== $(basename "$program")" | tee -a "$out/floor.txt"
    timeout 90 "$program" >>"$out/floor.txt" 2>&1 || echo "exit $?" | tee -a "$out/floor.txt"
  done
fi
for workload in ${workloads//,/ }; do
  config=$workload; [ "$ranks" = 1 ] || config=${workload}_${ranks}gpu
  timeout 60 "$root/bin/trainrun" plan --long --nproc "$ranks" "$root/configs/$config.json" >>"$out/plan.txt" 2>&1 || echo "plan of $config: exit $?"
done
timeout $((${BUDGET:-420} + ${LIMIT:-150} + 30)) python3 "$root/measure.py" --root "$root" --out "$out" --workloads "$workloads" --ranks "$ranks" \
  --runs "${RUNS:-5}" --steps "${STEPS:-45}" --budget "${BUDGET:-420}" --limit "${LIMIT:-150}" --only "${ONLY:-both}" \
  --torch-args="${TORCH_ARGS:---compile --bf16}" -- "$@"
