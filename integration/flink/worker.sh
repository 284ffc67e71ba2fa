#!/usr/bin/env bash
# Starts a worker of a pipeline for Flink's PROCESS environment: the "command" of --environment_config, whose "env" names
#   BEAM_BOOT  Beam's boot program for Go, which fetches the worker binary and starts it
#   BEAM_WORK  a folder for the workers' files, of this machine
# The boot program leaves the worker that it started, and a copy of its binary in /tmp, behind when it is killed. So another process
# waits until the boot program or its TaskManager is gone, then kills what is left of the boot program's process group and
# removes the files. Where that process was killed too, the next worker that starts removes them. Linux only.
set -eu
dir=$(mktemp -d "$BEAM_WORK/worker.$$.XXXXXX")
for old in "$BEAM_WORK"/worker.*; do
  pid=${old##*/worker.} pid=${pid%%.*}
  [ -e "/proc/$pid" ] || rm -rf "$old" || true
done
cd "$dir"
setsid bash -c '
  boot=$1 taskmanager=$2 dir=$3 copy=
  while kill -0 "$boot" && kill -0 "$taskmanager"; do
    sleep 0.5
    for pid in $(pgrep -g "$boot"); do
      binary=$(readlink "/proc/$pid/exe")
      case $binary in /tmp/bin*/worker) copy=${binary%/worker} ;; esac
    done
  done
  kill -9 -- "-$boot" "$boot"
  for _ in {1..300}; do # a process that is not gone yet may still write
    rm -rf ${copy:+"$copy"} "$dir" && break
    sleep 0.1
  done
' worker.sh $$ $PPID "$dir" > /dev/null 2>&1 < /dev/null &
export TMPDIR=$dir
exec setsid "$BEAM_BOOT" --semi_persist_dir="$dir" "$@" # in this process, as the leader of a group
