"""Rows of noise that a reader gave: each is for one sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

from ._marks import Marks
from .errors import TrainingError


@dataclass(eq=False)
class _Given:
    """What an array was given for."""

    step: int
    run_id: str
    added: bool = False


given = Marks[_Given]()


def give(arrays: Iterable[Any], step: int, run_id: str) -> None:
    """Says that a reader gives arrays for a step of a run now. An array that it gives again has other
    noise."""
    for array in arrays:
        given.put(array, _Given(step, run_id))


def not_added(arrays: Iterable[Any], divisor: float) -> list[_Given]:
    """What is known of some arrays. TrainingError if one was added to a sum already, or is there
    twice, or is of another run than the divisor."""
    found: list[_Given] = []
    for array in arrays:
        row = given.of(array)
        if row is None:
            continue
        if row.added or row in found:
            raise TrainingError(
                f"noise of step {row.step}: was added to a sum already: the difference of two sums with the same noise shows what it must hide. Add up all sums of a step, "
                "of microbatches and hosts too, then call add_noise once; go on with the next step"
            )
        run_id = getattr(divisor, "run_id", "")
        if run_id and run_id != row.run_id:
            raise TrainingError(
                f"noise of step {row.step}: is of run {row.run_id}, and the divisor of run {run_id}: batches, clip norm, noise and divisor must be of one run, for which its certificate is. "
                "Take all of them from the run of the guard"
            )
        found.append(row)
    return found


def added(rows: list[_Given]) -> None:
    """Says that rows were added to sums."""
    for row in rows:
        row.added = True
