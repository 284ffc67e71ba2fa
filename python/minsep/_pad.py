"""Batches of sizes that a compiler knows, split by host."""

from __future__ import annotations

from typing import Any, Protocol, Sequence

import numpy as np
from numpy.typing import NDArray

from ._arguments import shown, whole
from ._batches import PADDING, OwnerBatch
from ._marks import Marks


class Use(Protocol):
    """What is remembered of a run."""

    padded: bool  # its batches get rows of -1


_given = Marks[Use]()  # batches that runs gave


def give(rows: NDArray[Any], use: Use) -> NDArray[Any]:
    """Remembers of which run a batch is, as long as there is the array."""
    _given.put(rows, use)
    return rows


def pad(batch: Any, multiple: int | Sequence[int], rank: int = 0, ranks: int = 1) -> Any:
    """A host's slice of a batch that is padded with -1.

    batch holds rows, shape [n], n at least 0. If multiple is a number, the padded size is the
    multiple of it that is at least n, and at least one multiple. If it is a sequence, the padded
    size is the smallest of its numbers that is at least n. So the number of shapes is known before
    training. An empty batch has a shape too: it is a step like any other. ranks must divide every
    size, and the host rank in [0, ranks) gets one of ranks contiguous slices of equal length.

    Of an `OwnerBatch` the n rows count, not the owners: `Run.max_rows` is a size that fits every
    batch on one host. Each host's slice is an `OwnerBatch`: whole owners, then padding. If they do
    not fit, the next size is taken.

    The result has the type of batch. An entry of -1 must count as a gradient of zero: `clipped_sum`
    does this, as it takes the rows, and so does `clip_and_sum` with `is_padding=rows < 0`. To NumPy
    and JAX, x[-1] is the last example: it would enter every padded step, once for each entry of -1,
    and its owner would have no guarantee. So from now on `clip_and_sum` refuses gradients of this
    run without is_padding. Sizes of batches are secret, padded or not.
    """
    use = _given.of(batch)
    if use is not None:
        use.padded = True
    return padded(batch, multiple, rank, ranks)


def padded(batch: Any, multiple: int | Sequence[int], rank: int, ranks: int, name: str = "multiple") -> Any:
    """As pad, of which no run is told. name is that of multiple in messages."""
    owners = batch if isinstance(batch, OwnerBatch) else None
    batch = np.asarray(batch if owners is None else owners.rows)
    if batch.ndim != 1 or batch.dtype.kind not in "iu":
        raise ValueError(f"batch: must be whole numbers of one dimension, not {batch.dtype} of {batch.ndim} dimensions")
    rank, ranks = whole(rank, "rank"), whole(ranks, "ranks")
    if not isinstance(multiple, (int, np.integer, Sequence, np.ndarray)) or isinstance(multiple, (str, bytes)):
        raise TypeError(f"{name} {shown(multiple)}: must be a whole number, or some sizes in a list, and not {type(multiple).__name__}")
    sizes = [multiple] if isinstance(multiple, (int, np.integer)) else [whole(size, name) for size in multiple]
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"{name} {multiple}: must be at least 1, or some sizes of at least 1")
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank}: must be 0 to {ranks - 1}, below ranks")
    for size in sizes:
        if size % ranks:
            raise ValueError(f"{name} {size}: must be a multiple of ranks, {ranks}")
    if batch.dtype.kind == "u":
        batch = batch.astype(np.int64)
    if owners is not None:
        return _pad_owners(batch, owners.offsets, multiple, rank, ranks)
    part = _size(multiple, len(batch), 0) // ranks
    return _filled(batch[rank * part : (rank + 1) * part], part)


def _size(multiple: int | Sequence[int], least: int, above: int) -> int:
    """The smallest padded size that is at least least and more than above."""
    if isinstance(multiple, (int, np.integer)):
        m = int(multiple)
        return m * max(1, -(-least // m), above // m + 1)
    size = min((s for s in multiple if s >= least and s > above), default=0)
    if size == 0:
        raise ValueError("batch: is larger than the largest of the sizes to pad to, and leaving examples out would break the guarantee: give a larger one")
    return size


def _filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    padded = np.full(size, PADDING, dtype=rows.dtype)
    padded[: len(rows)] = rows
    return padded


def _pad_owners(rows: NDArray[Any], offsets: NDArray[np.int64], multiple: int | Sequence[int], rank: int, ranks: int) -> OwnerBatch:
    """The smallest size of which each host's part holds whole owners, put into the parts in their
    order."""
    size = 0
    while True:
        size = _size(multiple, len(rows), size)
        cuts = [0]  # the owners with which parts begin
        for _ in range(ranks):
            cuts.append(int(np.searchsorted(offsets, offsets[cuts[-1]] + size // ranks, side="right")) - 1)
        if cuts[-1] == len(offsets) - 1:
            break
    own = offsets[cuts[rank] : cuts[rank + 1] + 1]
    return OwnerBatch(_filled(rows[own[0] : own[-1]], size // ranks), own - own[0])
