#!/usr/bin/env bash
# Builds the documentation site with one folder per version: build/site/VERSION, a link `latest` to it, and
# build/site/index.html, which redirects there. Folders of other versions in build/site stay, and the pages' menu
# lists them. Needs a built trainrun; the generator comes from PyPI.
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
site="$root/build/site"
version=$("$trainrun" --version | cut -d' ' -f2)
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --config-file "$root/mkdocs.yml" --site-dir "$site/$version"
ln -sfn "$version" "$site/latest"
echo '<!doctype html><meta http-equiv="refresh" content="0; url=latest/index.html"><a href="latest/index.html">Lockstep</a>' >"$site/index.html"
# The data of the version menu, newest first.
newest=latest
for folder in $(find "$site" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort -Vr); do
  printf '{"version": "%s", "title": "%s", "aliases": ["%s"]}\n' "$folder" "$folder" "$newest"
  newest=""
done | sed 's/\[""\]/[]/' | paste -sd, | sed 's/.*/[&]/' >"$site/versions.json"
echo "build/site/index.html"
