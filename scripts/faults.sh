#!/usr/bin/env bash
# Runs the fault tests and writes their results to docs/faults.md. Arguments go to ctest: scripts/faults.sh -R Row06
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

"$root/scripts/build.sh"
[[ $# -gt 0 ]] || rm -rf "$root/build/faults"
mkdir -p "$root/build/faults"
status=0
ctest --test-dir "$root/build" -L faults --output-on-failure -j 2 "$@" || status=$?
ctest --test-dir "$root/build" -L faults -N | sed -n 's/^ *Test *#[0-9]*: *[A-Za-z]*\.//p' >"$root/build/faults/tests.txt"
"$root/build/bin/faults_report" "$root/tests/faults/catalogue.txt" "$root/build/faults/tests.txt" "$root/build/faults" >"$root/docs/faults.md"
sed -n '/rows hold/,/^$/p' "$root/docs/faults.md"
exit "$status"
