#!/usr/bin/env bash
# alone.sh SECONDS COMMAND...: COMMAND in namespaces of its own, in which it and all that it starts end together, after SECONDS
# at the latest.
set -eu
seconds=$1
shift
exec timeout -s KILL "$seconds" unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc "$@"
