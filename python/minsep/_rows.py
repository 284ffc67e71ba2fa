"""Rows of noise that a reader gave: each is for one sum."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable

from ._sums import Released
from .errors import TrainingError


class _Given:
    """An array that a reader gave for a step. It is not kept in memory."""

    def __init__(self, array: Any, step: int, released: Released | None, leaf: int) -> None:
        key = id(array)
        self.array, self.step, self.added = weakref.ref(array, lambda ref: _forget(key, ref)), step, False
        self.released, self.leaf = released, leaf


_given: dict[int, _Given] = {}  # by id of the array


def give(arrays: list[Any], step: int, released: Released | None) -> None:
    """Says that a reader gives arrays for a step now, and what is to be told of their sums. An
    array that it gives again has other noise."""
    if released is not None:
        released.leaves = len(arrays)
    for leaf, array in enumerate(arrays):
        _given[id(array)] = _Given(array, step, released, leaf)


def _forget(key: int, ref: Any) -> None:
    found = _given.get(key)
    if found is not None and found.array is ref:
        del _given[key]


def not_added(arrays: Iterable[Any]) -> list[tuple[int, _Given]]:
    """Those of some arrays that a reader gave, with their places. TrainingError where one was added
    to a sum already, or is there twice. Copies, views and arrays of other packages are not
    known."""
    found: list[tuple[int, _Given]] = []
    for place, array in enumerate(arrays):
        given = _given.get(id(array))
        if given is None or given.array() is not array:
            continue
        if given.added or any(given is other for _, other in found):
            raise TrainingError(
                f"noise of step {given.step}: was added to a sum already: the difference of two sums with the same noise shows what it must hide. Add up all sums of a step, "
                "of microbatches and hosts too, then call add_noise once; go on with the next step"
            )
        found.append((place, given))
    return found


def add(rows: list[tuple[int, _Given]], sums: list[Any], digest: Callable[[Any], Callable[[], bytes] | None]) -> None:
    """Says that rows were added to sums. digest gives a function for the digest of such a noisy
    sum, or None for one that is not known yet. TrainingError where the step was taken before, and
    released another one."""
    for _, row in rows:
        row.added = True
    for place, row in rows:
        told = digest(sums[place]) if row.released is not None else None
        if row.released is not None and told is not None:
            row.released.put(row.leaf, told)
