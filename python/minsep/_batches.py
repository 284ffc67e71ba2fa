"""The batches of a run directory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _npy
from ._files import Directory, Folder
from .errors import RunDirectoryError

FOLDER, FORMAT = "batches", "minsep-batches/1"
PADDING = -1  # the row of an entry that is no example


def is_count(value: object, least: int) -> bool:
    """Whether a value of JSON is a whole number of at least least."""
    return type(value) is int and value >= least


class Batches:
    """The folder `batches`: steps, examples and rows_of as its index says, and the rows of every step."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory, FOLDER, FORMAT)
        facts = self.folder.facts
        self.steps: int = facts.get("steps")
        self.examples: int = facts.get("examples")
        self.shards: int = facts.get("shards")
        self.row_type: str = facts.get("row_type")
        self.rows_of: str = facts.get("rows_of")
        self.expected_batch_size: float | None = facts.get("expected_batch_size")
        expected = self.expected_batch_size
        valid = (
            is_count(self.steps, 1)
            and is_count(self.examples, 0)
            and is_count(self.shards, 1)
            and self.shards <= self.steps
            and self.row_type in ("<i4", "<i8")
            and self.rows_of in ("bounded", "range")
            and (expected is None or type(expected) in (int, float) and expected > 0)
            and 2 * self.shards <= len(self.folder.files)
        )
        if not valid:
            raise RunDirectoryError(f"{directory.where(FOLDER)}: its index has facts that this version cannot read: {facts}")
        for kind in "indptr", "rows":
            for shard in range(self.shards):
                if self._name(kind, shard) not in self.folder.files:
                    raise RunDirectoryError(f"{directory.where(FOLDER)}: {self._name(kind, shard)} is not in the index")
        self._open: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def _name(self, kind: str, shard: int) -> str:
        return f"{kind}-{shard:05d}-of-{self.shards:05d}.npy"

    def _start(self, shard: int) -> int:
        return self.steps * shard // self.shards

    def rows(self, step: int) -> NDArray[Any]:
        """The rows of a step, without padding: a read-only view of the file."""
        shard = ((step + 1) * self.shards - 1) // self.steps
        indptr, rows = self._open.get(shard) or self._load(shard)
        at = step - self._start(shard)
        batch = rows[indptr[at] : indptr[at + 1]]
        end = len(batch)
        if end and batch[-1] == PADDING:
            end = int(np.searchsorted(batch == PADDING, True))
        return batch[:end]

    def _load(self, shard: int) -> tuple[NDArray[Any], NDArray[Any]]:
        where = self.folder.directory.where(FOLDER)
        names = self._name("indptr", shard), self._name("rows", shard)
        indptr = _npy.view(self.folder.read(names[0]), "<i8", f"{where}/{names[0]}")
        rows = _npy.view(self.folder.read(names[1]), self.row_type, f"{where}/{names[1]}")
        steps = self._start(shard + 1) - self._start(shard)
        if indptr.ndim != 1 or rows.ndim != 1 or len(indptr) != steps + 1:
            raise RunDirectoryError(f"{where}: {names[0]} does not have its shard's steps")
        if indptr[0] != 0 or indptr[-1] != len(rows) or np.any(np.diff(indptr) < 0):
            raise RunDirectoryError(f"{where}: {names[0]} does not rise from 0 to the number of rows")
        if len(rows) and (rows.min() < PADDING or rows.max() >= self.examples):
            raise RunDirectoryError(f"{where}: {names[1]} has rows that the table does not have")
        self._open[shard] = indptr, rows
        return indptr, rows
