#!/usr/bin/env bash
# Installs, checks the format, builds everything and runs the tests; ends with CTest's summary. Arguments go to ctest: scripts/test.sh -L unit
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

"$root/scripts/install.sh"
"$root/scripts/format.sh" --check || { status=$?; ((status == 3)) && [[ -z "${CI:-}" ]] || exit $status; }
"$root/scripts/build.sh"
exec ctest --test-dir "$root/build" --output-on-failure -j 2 "$@"
