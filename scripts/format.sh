#!/usr/bin/env bash
# Formats the tree with the clang-format version that .clang-format names: scripts/format.sh [--check] [FILE...]
# --check changes nothing and fails on a file that would change. The tool is installed from PyPI into packages/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^# Version \([0-9.]*\).*/\1/p' .clang-format)

check=(-i)
if [[ "${1:-}" == --check ]]; then check=(--dry-run --Werror); shift; fi

is_it() { "$1" --version 2>/dev/null | grep -q "version $version\b"; }
tool=""
for place in packages/clang-format/clang_format/data/bin/clang-format clang-format; do
  if is_it "$place"; then tool=$place; break; fi
done
if [[ -z "$tool" ]]; then
  python=packages/python/bin/python  # of scripts/install.sh; Debian's python3 has no pip
  [[ -x "$python" ]] || python=python3
  "$python" -m pip install -q --upgrade --target packages/clang-format "clang-format==$version" >/tmp/clang-format.$$ 2>&1 || true
  tool=packages/clang-format/clang_format/data/bin/clang-format
  if ! is_it "$tool"; then
    echo "format: clang-format $version could not be fetched: $(tail -n 1 /tmp/clang-format.$$)" >&2
    rm -f /tmp/clang-format.$$
    exit 3
  fi
  rm -f /tmp/clang-format.$$
fi

# In a checkout the tracked files; in an unpacked archive, or without git, all files outside of builds and packages.
sources() {
  git ls-files -- '*.h' '*.cpp' 2>/dev/null || find . -type d \( -name 'build*' -o -name packages -o -name '.*' ! -name . \) -prune -o \( -name '*.h' -o -name '*.cpp' \) -print
}
if (($#)); then files=("$@"); else mapfile -t files < <(sources); fi
if ! printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P "$(nproc)" "$tool" "${check[@]}" 2>/tmp/format.$$; then
  grep -E '(error|warning):' /tmp/format.$$ | sed 's/: .*//' | cut -d: -f1 | sort -u | sed 's/^/format: would change /' >&2
  rm -f /tmp/format.$$
  echo "format: scripts/format.sh formats them" >&2
  exit 1
fi
rm -f /tmp/format.$$
echo "format: ${#files[@]} files, clang-format $version"
