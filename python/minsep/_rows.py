"""Rows of noise that a reader gave: each is for one sum."""

from __future__ import annotations

import weakref
from typing import Any, Iterable

from .errors import TrainingError


class _Given:
    """An array that a reader gave for a step. It is not kept in memory."""

    def __init__(self, array: Any, step: int, run_id: str) -> None:
        key = id(array)
        self.array, self.step, self.run_id, self.added = weakref.ref(array, lambda ref: _forget(key, ref)), step, run_id, False


_given: dict[int, _Given] = {}  # by id of the array


def give(arrays: Iterable[Any], step: int, run_id: str) -> None:
    """Says that a reader gives arrays for a step of a run now. An array that it gives again has other
    noise."""
    for array in arrays:
        _given[id(array)] = _Given(array, step, run_id)


def _forget(key: int, ref: Any) -> None:
    found = _given.get(key)
    if found is not None and found.array is ref:
        del _given[key]


def not_added(arrays: Iterable[Any], divisor: float) -> list[_Given]:
    """Those of some arrays that a reader gave. TrainingError if one was added to a sum already, or is
    there twice, or is of another run than the divisor. Copies, views and arrays of other packages are
    not known."""
    found: list[_Given] = []
    for array in arrays:
        given = _given.get(id(array))
        if given is None or given.array() is not array:
            continue
        if given.added or given in found:
            raise TrainingError(
                f"noise of step {given.step}: was added to a sum already: the difference of two sums with the same noise shows what it must hide. Add up all sums of a step, "
                "of microbatches and hosts too, then call add_noise once; go on with the next step"
            )
        run_id = getattr(divisor, "run_id", "")
        if run_id and run_id != given.run_id:
            raise TrainingError(
                f"noise of step {given.step}: is of run {given.run_id}, and the divisor of run {run_id}: batches, clip norm, noise and divisor must be of one run, for which its certificate is. "
                "Take all of them from the run of the guard"
            )
        found.append(given)
    return found


def added(rows: list[_Given]) -> None:
    """Says that rows were added to sums."""
    for row in rows:
        row.added = True
