#!/usr/bin/env bash
# Fuzzes the parsers of untrusted bytes: scripts/fuzz.sh [SECONDS] [TARGET...]. Default: 60 seconds for each target of tests/fuzz.
# Inputs that reach new code go to build-fuzz/corpus/TARGET, findings to build-fuzz/findings/TARGET. scripts/fuzz.sh minimize [TARGET...]
# adds inputs that the stored corpus lacks to tests/fuzz/corpus. Exit code 1 when there is a finding.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=(config manifest safetensors tokens cache_entry kernel_cache flight_record hf_config tokenizer records archive hosts npy picture s3_answer run_logs json)
seconds=60 minimize=
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
if [[ "${1:-}" == minimize ]]; then minimize=1; shift; fi
targets=("${@:-${all[@]}}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || { echo "fuzz: no target $target; there are: ${all[*]}" >&2; exit 2; }
done

scripts/install_for.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"

export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1 TMPDIR=/dev/shm  # readers of paths read from memory
found=0 summary=()
for target in "${targets[@]}"; do
  kept=tests/fuzz/corpus/$target new=build-fuzz/corpus/$target findings=build-fuzz/findings/$target log=build-fuzz/$target.log
  mkdir -p "$kept" "$new" "$findings"
  dictionary=(); if [[ -e tests/fuzz/dictionary/$target.dict ]]; then dictionary=(-dict="tests/fuzz/dictionary/$target.dict"); fi
  if [[ -n "$minimize" ]]; then
    # Keeps only small inputs: a set with the same coverage as all of them.
    small=$(mktemp -d); find "$new" -type f -size -3 -exec cp -t "$small" {} +
    build-fuzz/bin/fuzz_"$target" -set_cover_merge=1 "$kept" "$small" 2>&1 | grep -E 'MERGE-OUTER|MERGE-.*new files' | tail -n 1
    rm -rf "$small"
    continue
  fi
  rc=0
  # Further limits in addition to the target's own second of processor time: 30 s of wall time (an endless loop), 2 GiB of memory.
  build-fuzz/bin/fuzz_"$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$findings/" "${dictionary[@]}" "$new" "$kept" >"$log" 2>&1 || rc=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  last=$(grep -E '^#[0-9]+' "$log" | tail -n 1)
  cov=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$last") ft=$(sed -n 's/.* ft: \([0-9]*\).*/\1/p' <<<"$last")
  verdict=clean; if ((rc)); then verdict="FINDING, see $log and $findings"; found=1; fi
  summary+=("fuzz: $target: ${runs:-?} runs in $seconds s, coverage ${cov:-?} edges, ${ft:-?} features, corpus $(ls "$kept" "$new" | grep -vc -e ':$' -e '^$') files: $verdict")
done
if ((${#summary[@]})); then printf '%s\n' "${summary[@]}"; fi
exit $found
