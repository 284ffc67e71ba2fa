"""What is known of arrays that a program was given, none of which is kept in memory for it."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

Mark = TypeVar("Mark")


class Marks(Generic[Mark]):
    """Marks of arrays of any library, each as long as there is its array. Copies, views and arrays
    of other packages are not known."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Mark]] = {}  # by id of the array

    def put(self, array: Any, mark: Mark) -> None:
        """Marks an array, in the place of the mark that it had."""
        key = id(array)
        self._found[key] = weakref.ref(array, lambda ref: self._forget(key, ref)), mark

    def _forget(self, key: int, ref: Any) -> None:
        if key in self._found and self._found[key][0] is ref:
            del self._found[key]

    def of(self, array: Any) -> Mark | None:
        """The mark of an array; None if it has none."""
        known = self._found.get(id(array))
        return known[1] if known is not None and known[0]() is array else None

    def __len__(self) -> int:
        return len(self._found)
