#!/usr/bin/env bash
# Builds the documentation as a site into build/site: open build/site/index.html. Needs a built trainrun; the generator comes from PyPI.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
trainrun="$root/build/bin/trainrun"
[[ -x "$trainrun" ]] || { echo "site.sh: no $trainrun; scripts/build.sh makes it" >&2; exit 2; }
venv="$root/packages/site"
if [[ ! -x "$venv/bin/mkdocs" ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "mkdocs-material==9.8.1"
fi
rm -rf "$root/build/site-pages"
python3 "$root/scripts/site_pages.py" "$root" "$root/build/site-pages" "$trainrun"
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --config-file "$root/mkdocs.yml"
echo "build/site/index.html"
