"""Trainings with bytes of steps and a seed that everybody knows, so that two of them make the same weights."""

from __future__ import annotations

import hashlib

from minsep import _guard, _hosts, _seeds

SEED = "0" * 31 + "7"


def fixed(steps: int) -> bytes:
    """The bytes of steps."""
    return b"".join(hashlib.sha256(b"%d" % t).digest()[: _hosts.STEP_BYTES] for t in range(steps))


def draw(guard: _guard.StepGuard) -> None:
    """In place of StepGuard's own."""
    if guard._rank == 0:
        guard._bytes += fixed(guard._run.steps)[len(guard._bytes) :]


def freeze() -> None:
    """For a process that trains and ends."""
    _guard.StepGuard._draw = draw
    _seeds.fresh = lambda: SEED
