#!/usr/bin/env bash
# Goodput under kills: steps that a run of 4 ranks gets done while a random rank is killed (SIGKILL) every EVERY seconds, beside an undisturbed run.
#   bench/goodput.sh TRAINRUN [SECONDS=180] [EVERY=30]
# The kills come at EVERY * (0.7 to 1.3), from a fixed seed. Windows alternate: undisturbed, killed, undisturbed. Files go to a temporary folder.
set -eu
trainrun=$(realpath "${1:?usage: bench/goodput.sh TRAINRUN [SECONDS] [EVERY]}") seconds=${2:-180} every=${3:-30}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for _ in $(seq 4000); do echo "the quick brown fox jumps over the lazy dog and runs far away from $RANDOM other animals"; done > text.txt
cat > c.json <<'CONFIG'
{"name": "run", "model": {"kind": "gpt", "width": 64, "depth": 2, "context": 32, "heads": 2},
 "data": {"kind": "text", "paths": ["text.txt"]}, "batch": {"global": 8, "micro": 2},
 "train": {"steps": 1000000, "device": "cpu"}, "checkpoint": {"every": 50}, "log": {"every": 10, "hash_every": 500}}
CONFIG
timeout 60 "$trainrun" --nproc 4 c.json --name=warm --train.steps=2 > /dev/null 2>&1  # kernels are compiled once
last_step() { tail -n 1 "runs/$1/metrics.jsonl" 2>/dev/null | sed -n 's/.*"step": \([0-9]*\).*/\1/p'; }
RANDOM=7
window() {  # NAME KILLS: prints steps and kills
  local name=$1 kills=0 next end
  "$trainrun" --nproc 4 --max-restarts 1000 c.json --name="$name" > "$name.log" 2>&1 &
  local run=$!
  end=$(($(date +%s%N) + seconds * 1000000000))
  wait_ns() { echo $((every * 1000000 * (700 + RANDOM % 601))); }
  next=$(($(date +%s%N) + $(wait_ns)))
  while (($(date +%s%N) < end)); do
    if (($2)) && (($(date +%s%N) > next)); then
      local folder; folder=$(ls -dt runs/"$name"/logs/attempt-* | head -n 1)
      local victim; victim=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$folder/worker-$((RANDOM % 4)).json" 2>/dev/null || true)
      if [[ -n $victim ]] && kill -9 "$victim" 2>/dev/null; then kills=$((kills + 1)); fi
      next=$(($(date +%s%N) + $(wait_ns)))
    fi
    sleep 0.05
  done
  local steps; steps=$(last_step "$name")
  kill -TERM $run
  wait $run || true
  echo "${steps:-0} $kills"
}
read -r before _ < <(window before 0)
read -r killed kills < <(window killed 1)
read -r after _ < <(window after 0)
python3 - "$before" "$killed" "$after" "$kills" "$seconds" "$every" <<'REPORT'
import json, sys
before, killed, after, kills, seconds, every = map(int, sys.argv[1:])
hashes = lambda name: {r["step"]: r["state_hash"] for r in map(json.loads, open(f"runs/{name}/metrics.jsonl")) if "state_hash" in r}
a, b = hashes("before"), hashes("killed")
common = [s for s in b if s in a]
print(f"kill every {every} s, {seconds} s: {killed} steps of {before} and {after} undisturbed: {100 * killed / ((before + after) / 2):.1f} %; "
      f"{kills} kills; {sum(a[s] == b[s] for s in common)} of {len(common)} state hashes equal")
REPORT
