"""Keeps a training to its run directory, and its steps to one sum each."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Iterator

from ._run import Run
from .errors import TrainingError

RECORD_NAME, RECORD_FORMAT = "training.json", "minsep-training/1"
_DIGITS = 16

_NEXT = "make the plan's next run, with new batches and noise: `minsep run --again PLAN.json`, or `minsep run` with another --out"


class StepGuard:
    """The steps of one training on a run directory: each is taken once, in order.

    The noise of a run directory hides one training. The first StepGuard of a run directory takes it: it leaves a token in
    `training.json` there, and in `state_dict`, which belongs into the trainer's checkpoint. Later ones need the state of a
    checkpoint; without it, and with that of another training, they are refused, whatever the learning rate or the seed. The
    next training needs another run: `minsep run --again` with the same plan, or a run directory of its own.

    state is what `state_dict` gave, or None for the first start. The record also counts the steps taken. A checkpoint from before
    some of them would give their noise to other sums, unless the trainer repeats them bit for bit; then say replay=True.
    Processes of one training with primary=False (all hosts but one) only count: the first host keeps the record. folder is where
    the record is kept, by default the run directory; it must be given for a run directory in an object store, always the same.

    One process at a time holds the guard of a training, until it ends or `close` is called. Raises TrainingError.
    """

    def __init__(
        self,
        run: Run,
        state: dict[str, Any] | None = None,
        *,
        replay: bool = False,
        primary: bool = True,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._run, self._fd = run, -1
        self.next_step = 0
        self._layout = ""
        self._token = ""
        if state is not None:
            self._load(state)
        if not primary:
            return
        if folder is None and "://" in run.path:
            raise ValueError("folder: must be given for a run directory in an object store: a folder on this machine for the record of the training")
        self._path = os.path.join(os.fspath(folder) if folder is not None else run.path, RECORD_NAME)
        try:
            self._take(state is not None, replay)
        except BaseException:
            self.close()
            raise

    def _load(self, state: dict[str, Any]) -> None:
        known = {"run_id", "token", "next_step", "layout"}
        if not isinstance(state, dict) or set(state) != known:
            raise ValueError("state: must be what state_dict gave")
        if state["run_id"] != self._run.run_id:
            raise TrainingError(
                f"{self._run.path}: the checkpoint is of run {state['run_id']}, the directory of run {self._run.run_id}: "
                "begin the training of this run without the checkpoint; the checkpoint needs the directory of its own run"
            )
        if type(state["next_step"]) is not int or not 0 <= state["next_step"] <= self._run.steps:
            raise ValueError(f"state: next_step {state['next_step']}: must be 0 to {self._run.steps}")
        self._token, self.next_step, self._layout = state["token"], state["next_step"], state["layout"]

    def _take(self, resumed: bool, replay: bool) -> None:
        """Makes the record, or compares with it."""
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
        _lock(self._fd, self._path)
        text = os.pread(self._fd, 4096, 0).decode("utf-8", "replace")
        record = None
        if text:
            try:
                record = json.loads(text)
                taken = int(record["taken"])
                valid = record["format"] == RECORD_FORMAT and isinstance(record["token"], str)
            except (ValueError, KeyError, TypeError):
                valid = False
            if not valid:
                raise TrainingError(f"{self._path}: is not a record of a training, or was cut: if no training began, remove it")
        if record is None or record["run_id"] != self._run.run_id:  # none, or of an earlier run of this directory
            if resumed:
                raise TrainingError(f"{self._path}: has no record of this training: the checkpoint is of another copy of the run directory, or the record was removed")
            self._token = secrets.token_hex(16)
            self._write(0)
            return
        if not resumed:
            raise TrainingError(
                f"{self._run.path}: serves a training already: its noise must not hide another one. To go on with that training, give the state of its checkpoint; for another training, "
                f"{_NEXT}. If that training was lost before its first checkpoint, and nothing "
                f"of it was kept or seen, remove {self._path}"
            )
        if record["token"] != self._token:
            raise TrainingError(f"{self._run.path}: serves another training than that of the checkpoint: {_NEXT}")
        if self.next_step < taken and not replay:
            raise TrainingError(
                f"{self._run.path}: steps {self.next_step} to {taken - 1} were taken after this checkpoint. The same noise with other sums reveals their difference: "
                "repeat them only in a trainer that gives the same sums bit for bit, and say so by replay=True"
            )
        self._write(max(taken, self.next_step))

    def _write(self, taken: int) -> None:
        """Writes the record in place, always of the same length."""
        record = {"format": RECORD_FORMAT, "run_id": self._run.run_id, "token": self._token, "taken": f"{taken:0{_DIGITS}d}"}
        self._taken = taken
        data = json.dumps(record).encode() + b"\n"
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def take(self, step: int) -> None:
        """Says that a step is taken now: call it before its noise is added, once for each step, in order."""
        if step < self.next_step:
            raise TrainingError(f"step {step}: was taken already: its noise must not hide a second sum")
        if step >= self._run.steps:
            raise TrainingError(f"step {step}: the run has steps 0 to {self._run.steps - 1}")
        if step > self.next_step:
            raise TrainingError(f"step {step}: step {self.next_step} comes first: a step that is left out changes what the noise hides")
        if self._fd >= 0 and step >= self._taken:
            self._write(step + 1)  # before its noise is used: a step that is counted and not used costs nothing
        self.next_step = step + 1

    def __iter__(self) -> Iterator[int]:
        """The steps that are left, each taken as it comes."""
        while self.next_step < self._run.steps:
            step = self.next_step
            self.take(step)
            yield step

    def use_layout(self, digest: str) -> None:
        """Refuses a parameter tree other than that of the training's first steps: each coordinate keeps its noise."""
        if self._layout and self._layout != digest:
            raise TrainingError("tree: other names, shapes or order than those with which this training began: each parameter must keep its coordinates of the noise")
        self._layout = digest

    def state_dict(self) -> dict[str, Any]:
        """What belongs into a checkpoint, saved after the last taken step's update: strings and a number."""
        return {"run_id": self._run.run_id, "token": self._token, "next_step": self.next_step, "layout": self._layout}

    def close(self) -> None:
        """Gives the record back to the next process of this training."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        try:
            self.close()
        except (AttributeError, TypeError):  # never opened; or the interpreter ends, and its modules are gone: so is the file
            pass


def _lock(fd: int, path: str) -> None:
    try:
        import fcntl
    except ImportError:  # nothing keeps two processes apart there
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise TrainingError(f"{path}: another process of this training holds it") from None
