#!/usr/bin/env bash
# Starts a worker of a pipeline for Flink's PROCESS environment: the "command" of --environment_config, whose "env" names
#   BEAM_BOOT  Beam's boot program for Go, which fetches the worker binary and starts it
#   BEAM_WORK  a folder for the workers' files
# The boot program leaves the worker that it started behind when it is killed, and a copy of its binary: so everything is in one
# process group and one folder, which go when the worker ends, when Flink asks for it, or when the TaskManager is gone.
set -u
dir=$(mktemp -d "$BEAM_WORK/worker.XXXXXX") && cd "$dir" || exit 1
taskmanager=$PPID
set -m
TMPDIR=$dir "$BEAM_BOOT" --semi_persist_dir="$dir" "$@" &
boot=$!
end() {
  trap - TERM INT
  for pid in $(pgrep -g "$boot"); do
    binary=$(readlink "/proc/$pid/exe")
    case $binary in /tmp/bin*/worker) rm -rf "${binary%/worker}" ;; esac
  done
  kill -9 -- "-$boot" 2>/dev/null
  cd /
  rm -rf "$dir"
  exit "$1"
}
trap 'end 143' TERM INT
while kill -0 "$boot" 2>/dev/null; do
  [ "$(ps -o ppid= -p $$ | tr -d ' ')" = "$taskmanager" ] || end 1
  sleep 1 &
  wait -n "$boot" $! 2>/dev/null
done
wait "$boot"
end $?
