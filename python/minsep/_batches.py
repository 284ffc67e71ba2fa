"""The batches of a run directory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterator, TypeGuard

import numpy as np
from numpy.typing import NDArray

from . import _npy
from ._files import Directory, Folder
from .errors import RunDirectoryError

FOLDER, FORMAT = "batches", "minsep-batches/1"
OWNERS_FORMAT = "minsep-batches/1.1"  # owners take part, each with some of its examples
PADDING = -1  # the row of an entry that is no example


def is_count(value: object, least: int) -> TypeGuard[int]:
    """Whether a value of JSON is a whole number of at least least."""
    return type(value) is int and value >= least


@dataclass(frozen=True, eq=False)
class OwnerBatch:
    """A batch of owners, each with some of its examples: m owners with n examples in all, m at
    least 0.

    rows, shape [n], are rows of the example table or, of a joined run, positions in the user's
    data. Owner i of the batch has rows[offsets[i]:offsets[i + 1]], at least one; offsets has shape
    [m + 1]. After `pad`, rows of -1 follow the last owner's.

    The guarantee is for owners. Give the gradients of all rows to `clip_and_sum` with
    `owners=batch.owners`, which averages the gradients of each owner and clips the mean. To clip
    each example would be wrong, so an OwnerBatch is not an array of rows.
    """

    rows: NDArray[Any]
    offsets: NDArray[np.int64]

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of each row's owner in the batch, 0 to m - 1, and -1 for padding: shape [n]."""
        numbers = np.full(len(self.rows), PADDING, dtype=np.int64)
        numbers[: self.offsets[-1]] = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return numbers

    def __len__(self) -> int:
        """The number of owners."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """The rows of each owner."""
        return (self.rows[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:]))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("batch: holds owners, and the rows of one owner belong together: use batch.rows, and clip_and_sum with owners=batch.owners")


class Batches:
    """The folder `batches`: steps, examples and rows_of as its index has them, and the rows of
    every step."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory, FOLDER, FORMAT, OWNERS_FORMAT)
        facts = self.folder.facts
        self.of_owners = self.folder.format == OWNERS_FORMAT
        self.examples_per_owner: int = facts.get("examples_per_owner", 0)
        kinds = ("indptr", "rows", "owners") if self.of_owners else ("indptr", "rows")
        self.steps: int = facts.get("steps")
        self.examples: int = facts.get("examples")
        self.shards: int = facts.get("shards")
        self.row_type: str = facts.get("row_type")
        self.rows_of: str = facts.get("rows_of")
        self.expected_batch_size: float | None = facts.get("expected_batch_size")
        expected = self.expected_batch_size
        scheme = self.folder.params.get("scheme")
        truncation = scheme.get("truncation") if isinstance(scheme, dict) else None
        self.max_batch_size: int | None = truncation.get("max_batch_size") if isinstance(truncation, dict) else None
        fixed = scheme.get("fixed") if isinstance(scheme, dict) else None
        if isinstance(fixed, dict):  # every batch has so many
            self.max_batch_size = fixed.get("batch_size")
        valid = (
            is_count(self.steps, 1)
            and is_count(self.examples, 0)
            and is_count(self.shards, 1)
            and self.shards <= self.steps
            and self.row_type in ("<i4", "<i8")
            and self.rows_of in ("bounded", "range")
            and (expected is None or type(expected) in (int, float) and expected > 0)
            and (truncation is None and fixed is None or is_count(self.max_batch_size, 1))
            and is_count(self.examples_per_owner, int(self.of_owners))
            and is_count(facts.get("owners", 0), int(self.of_owners))
            and (self.of_owners or not self.examples_per_owner and not facts.get("owners"))
            and len(kinds) * self.shards <= len(self.folder.files)
        )
        if not valid:
            raise RunDirectoryError(f"{directory.where(FOLDER)}: its index has facts that this version cannot read: {facts}")
        for kind in kinds:
            for shard in range(self.shards):
                if self._name(kind, shard) not in self.folder.files:
                    raise RunDirectoryError(f"{directory.where(FOLDER)}: {self._name(kind, shard)} is not in the index")
        self._open: dict[int, tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]] = {}

    @property
    def most(self) -> int:
        """A number of examples, or owners, that a batch exceeds with a probability below 1e-280. It
        depends on no batch."""
        if self.max_batch_size:
            return self.max_batch_size
        scheme = self.folder.params.get("scheme", {})
        cold = scheme.get("b-min-sep", {"warm_start": True})
        peak = 1 if cold.get("warm_start") else 1 + (cold["min_sep"] - 1) * cold["prob"]  # of the rate, over its mean
        if "law" in scheme:
            peak = self.steps
        return math.ceil(4 * max(peak * (self.expected_batch_size or 0), 256))

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which maps the files and checks them itself."""
        return {**self.__dict__, "_open": {}}

    def _name(self, kind: str, shard: int) -> str:
        return f"{kind}-{shard:05d}-of-{self.shards:05d}.npy"

    def _start(self, shard: int) -> int:
        return self.steps * shard // self.shards

    def rows(self, step: int) -> NDArray[Any]:
        """The rows of a step, without padding: a read-only view of the file. Not for batches of
        owners."""
        assert not self.of_owners
        rows, _ = self._step(step)
        end = len(rows)
        if end and rows[-1] == PADDING:
            end = int(np.searchsorted(rows == PADDING, True))
        return rows[:end]

    def owners(self, step: int) -> OwnerBatch:
        """The owners of a step with their rows, without padding."""
        rows, ends = self._step(step)
        assert ends is not None
        taken = rows != PADDING
        sizes = np.add.reduceat(taken, ends[:-1], dtype=np.int64) if len(ends) > 1 else np.zeros(0, np.int64)
        if not taken.all():
            rows = rows[taken]
            rows.flags.writeable = False
        return OwnerBatch(rows, np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64))

    def _step(self, step: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """The rows of a step, and of owners where those of each begin in them, and the last ones
        end."""
        shard = ((step + 1) * self.shards - 1) // self.steps
        indptr, rows, owners = self._open.get(shard) or self._load(shard)
        at = step - self._start(shard)
        first, end = indptr[at], indptr[at + 1]
        if owners is not None:
            a, b = np.searchsorted(owners, (first, end))
            owners = owners[a : b + 1] - first
        return rows[first:end], owners

    def _load(self, shard: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        indptr = self._array("indptr", shard, "<i8")
        rows = self._array("rows", shard, self.row_type)
        steps = self._start(shard + 1) - self._start(shard)
        if len(indptr) != steps + 1:
            raise self._fault("indptr", shard, "does not have its shard's steps")
        if indptr[0] != 0 or indptr[-1] != len(rows) or np.any(np.diff(indptr) < 0):
            raise self._fault("indptr", shard, "does not rise from 0 to the number of rows")
        if len(rows) and (rows.min() < PADDING or rows.max() >= self.examples):
            raise self._fault("rows", shard, "has rows outside the table")
        owners = None
        if self.of_owners:
            owners = self._array("owners", shard, "<i8")
            sizes = np.diff(owners)
            if len(owners) == 0 or owners[0] != 0 or owners[-1] != len(rows) or np.any(sizes < 1):
                raise self._fault("owners", shard, "does not rise from 0 to the number of rows")
            if np.any(sizes > self.examples_per_owner):
                raise self._fault("owners", shard, f"has owners with more than {self.examples_per_owner} rows, the most that the index allows")
            if not np.array_equal(owners[np.searchsorted(owners, indptr)], indptr):
                raise self._fault("owners", shard, "has an owner with rows in two steps")
        self._open[shard] = indptr, rows, owners
        return self._open[shard]

    def _array(self, kind: str, shard: int, dtype: str) -> NDArray[Any]:
        name = self._name(kind, shard)
        array = _npy.view(self.folder.read(name), dtype, f"{self.folder.directory.where(FOLDER)}/{name}")
        if array.ndim != 1:
            raise self._fault(kind, shard, "is not of one dimension")
        return array

    def _fault(self, kind: str, shard: int, what: str) -> RunDirectoryError:
        return RunDirectoryError(f"{self.folder.directory.where(FOLDER)}: {self._name(kind, shard)} {what}")
