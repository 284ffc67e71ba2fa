"""The record of a training in its folder: its starts, and the steps that each of them has taken."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

from .errors import TrainingError

NAME, FORMAT = "training.json", "minsep-training/2"
NEXT = "make another run, with batches of its own: minsep.prepare or `minsep run` at another path"
_DIGITS = 12  # of a step, so that a record keeps its length from step to step
_MOST = 1 << 24  # bytes

# Of each start the steps that it has taken, from the first one on and before the second.
Starts = dict[str, tuple[int, int]]


class Record:
    """training.json in a folder, which one process at a time holds.

    token is the training's, "" if none has begun there. OSError if the record cannot be kept there:
    the folder is only read, or has no locks. TrainingError if another process holds it, or if it is
    no record.
    """

    def __init__(self, folder: str, run_id: str) -> None:
        self.path, self._run_id = os.path.join(folder, NAME), run_id
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            self._lock()
            self.token, self.starts = self._read()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise TrainingError(f"{self.path}: is no regular file, and the record of the training is kept there: move it elsewhere")
        try:
            import fcntl
        except ImportError:  # nothing keeps two processes apart there
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(
                f"{self.path}: a StepGuard holds it, of this process or another one: stop that training, or wait for its end; in one process, as in a notebook, call close() of the training or guard first; on several hosts, give each its rank and "
                f"the number of ranks; for another training, {NEXT}"
            ) from None

    def _read(self) -> tuple[str, Starts]:
        text = os.pread(self._fd, _MOST, 0)
        if not text:  # a new file
            return "", {}
        try:
            record = json.loads(text)
            if record["format"] != FORMAT or not re.fullmatch("[0-9a-f]{32}", record["token"]):
                raise ValueError
            starts = read_starts(record["starts"])
        except (ValueError, KeyError, TypeError):
            raise TrainingError(
                f"{self.path}: is not a record of a training, or was cut, so that nobody can tell how often its steps were taken: put a copy of it back; if no training of this run began, remove it; else {NEXT}"
            ) from None
        return (record["token"], starts) if record["run_id"] == self._run_id else ("", {})

    def write(self, token: str, starts: Starts, durable: bool) -> None:
        """Writes the record in place. If it is durable, it outlives a loss of power from now on."""
        found, _ = self._read()
        if found not in ("", self.token):  # where files are not locked
            raise TrainingError(f"{self.path}: another training has begun there since, perhaps on another host: go on with one of them; for the other, {NEXT}")
        self.token = token
        padded = {name: [f"{first:0{_DIGITS}d}", f"{end:0{_DIGITS}d}"] for name, (first, end) in starts.items()}
        data = json.dumps({"format": FORMAT, "run_id": self._run_id, "token": token, "starts": padded}).encode() + b"\n"
        if len(data) < os.fstat(self._fd).st_size:  # of another run, or of starts without a step: a kill must not leave its end
            os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)
        if durable:
            os.fsync(self._fd)
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_starts(found: Any) -> Starts:
    """Starts as JSON has them. ValueError, KeyError or TypeError if they are none."""
    starts = {str(name): (int(first), int(end)) for name, (first, end) in found.items()}
    if any(not re.fullmatch("[0-9a-f]{16}", name) or not 0 <= first <= end for name, (first, end) in starts.items()):
        raise ValueError
    return starts


def merged(a: Starts, b: Starts) -> Starts:
    """The starts that one of two records has, with the steps that either knows."""
    found = dict(a)
    for name, (first, end) in b.items():
        found[name] = first, max(end, found.get(name, (first, end))[1])
    return found
