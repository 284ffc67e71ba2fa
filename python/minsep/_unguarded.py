"""Noise that is read without a guard: what this process and the records on this machine tell of it."""

from __future__ import annotations

import os
import warnings

from . import _records
from ._run import Run
from ._trainings import NEXT, RECORD_NAME, on_this_machine, tells_of
from .errors import NoGuardWarning, TrainingError


def recorded(run: Run) -> str | None:
    """The record of a guard that tells of a training of the run; None for none."""
    in_run = None if "://" in run.path else os.path.join(run.path, RECORD_NAME)
    for path in in_run, on_this_machine(run.run_id):
        if path is not None and tells_of(path, run.run_id):
            return path
    return None


def check(run: Run) -> None:
    """Refuses a reader without a guard where a guard has recorded a training of the run, and warns
    elsewhere."""
    path = recorded(run)
    if path is not None:
        raise TrainingError(
            f"{run.path}: serves a training, as {path} says: its noise must not hide another one, and without a guard nobody would notice. In that training give "
            f"read_noise(…, guard=guard), with the state of its checkpoint in StepGuard(run, state) to go on with it; for another training, {NEXT}; only to look at noise in files, take run.noise(t)"
        )
    warnings.warn(
        "noise is read without a guard: nothing notices a second training with it, nor a step that is left out, and each can reveal what the noise must hide. "
        "To train, give read_noise(…, guard=StepGuard(run)); where nothing is trained, ignore minsep.NoGuardWarning",
        NoGuardWarning,
        stacklevel=3,
    )


class _Given:
    """What this process was given of a run's noise from files, without a guard."""

    def __init__(self) -> None:
        self.steps: dict[tuple[int, int], set[int]] = {}  # by range of coordinates
        self.warned = False


_given: dict[str, _Given] = {}  # by run id


def give(run: Run, step: int, first: int, end: int, by: str) -> None:
    """Warns, once in a process, where the noise of a step is given that a training has had, as a
    guard has recorded, or that was given before, in this process or, as far as the records on this
    machine tell, an earlier one."""
    given = _given.setdefault(run.run_id, _Given())
    why = None
    if (first, end) not in given.steps:
        path = recorded(run)
        if path is not None:
            why = f"{run.path}: serves a training, as {path} says, and its noise is read by {by}"
        if _records.streamed(run.run_id, first, end, list(given.steps)) and why is None:
            why = f"{run.path}: its noise was read before, without a guard"
    again = any(step in steps for (a, b), steps in given.steps.items() if a < end and first < b)
    given.steps.setdefault((first, end), set()).add(step)
    if why is None and again:
        why = f"{run.path}: the noise of step {step} was given before, without a guard, in this process"
    if why is None or given.warned:
        return
    given.warned = True
    warnings.warn(
        f"{why}. Two sums with the same noise reveal their difference: train with read_noise(run, like, guard=StepGuard(run)), which gives each row once; for another training, {NEXT}. "
        "Where nothing is trained, ignore minsep.NoGuardWarning",
        NoGuardWarning,
        stacklevel=3,
    )
