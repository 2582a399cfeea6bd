#!/usr/bin/env bash
# Kill -9 at random moments of saves that are written beside the training: what was committed before the kill is there after it, and all that is
# there is whole.
#   bench/kill_saves.sh TRAINRUN [KILLS=500] [RANKS=2]
# A run of 2 ranks saves every step and keeps two checkpoints. It is started, killed with all its ranks 0 to 60 ms after its first new save, looked
# at by trainrun ckpt verify, and started again, which goes on from the newest one. Moments come from a fixed seed. Files go to a temporary folder.
set -eu
trainrun=$(realpath "${1:?usage: bench/kill_saves.sh TRAINRUN [KILLS] [RANKS]}") kills=${2:-500} ranks=${3:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for _ in $(seq 400); do echo "the quick brown fox jumps over the lazy dog and runs far away from $RANDOM other animals"; done > text.txt
cat > c.json <<'CONFIG'
{"name": "run", "model": {"kind": "gpt", "width": 64, "depth": 2, "context": 32, "heads": 2},
 "data": {"kind": "text", "paths": ["text.txt"]}, "batch": {"global": 8, "micro": 2},
 "train": {"steps": 1000000, "device": "cpu"}, "checkpoint": {"every": 1, "keep": 2}, "log": {"every": 100}}
CONFIG
newest() { ls runs/run/ckpt 2>/dev/null | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }
RANDOM=11
lost=0 broken=0 interrupted=0 saves=0
for ((k = 1; k <= kills; ++k)); do
  before=$(newest)
  setsid "$trainrun" --nproc "$ranks" c.json > run.log 2>&1 &
  run=$!
  for _ in $(seq 3000); do
    now=$(newest)
    if [[ -n $now && $now != "${before:-none}" ]]; then break; fi
    if ! kill -0 $run 2>/dev/null; then cat run.log; echo "the run ended"; exit 1; fi
    sleep 0.01
  done
  [[ $(newest) != "${before:-none}" ]] || { cat run.log; echo "no save in 30 s"; exit 1; }
  sleep "$(printf "0.%03d" $((RANDOM % 60)))"
  committed=$(newest)
  kill -9 -- -$run 2>/dev/null || true
  wait $run 2>/dev/null || true
  found=$(newest)
  if ((found < committed)); then lost=$((lost + 1)) && echo "kill $k: step $committed was committed, step $found is there"; fi
  if ls runs/run/ckpt | grep -q '\.tmp$'; then interrupted=$((interrupted + 1)); fi
  if ! "$trainrun" ckpt verify runs/run > verify.log 2>&1; then broken=$((broken + 1)) && cat verify.log; fi
  saves=$((saves + found - ${before:-0}))
done
echo "$kills kills, $interrupted of them in the middle of a save, about $saves saves: $lost committed checkpoints lost, $broken folders broken"
[[ $lost == 0 && $broken == 0 ]]
