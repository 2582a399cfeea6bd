#!/usr/bin/env bash
# Goes from a fresh machine to generated text: installs, builds, trains configs/quickstart.json on 2 ranks, and samples from the checkpoint.
# Arguments go to trainrun: scripts/quickstart.sh --name=other --train.steps=200
# The run is written to runs/NAME under the current folder; a second call resumes it.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

name=quickstart
ranks=(--nproc 2)
previous=
for argument in "$@"; do
  case "$previous" in --name) name="$argument" ;; esac
  case "$argument" in
    --name=*) name="${argument#--name=}" ;;
    --nproc | --nproc=*) ranks=() ;;
  esac
  previous="$argument"
done

"$root/scripts/install.sh"
"$root/scripts/build.sh" trainrun
trainrun="$root/build/bin/trainrun"

"$trainrun" "${ranks[@]}" "$root/configs/quickstart.json" "$@"
echo
echo "--- how the model goes on from \"The \" after its few minutes of training:"
"$trainrun" generate "runs/$name" --prompt "The " --tokens 400 --temperature 0.8 --seed 1
echo "--- next: export PATH=$root/build/bin:\$PATH; trainrun report runs/$name; docs/tutorial.md"
