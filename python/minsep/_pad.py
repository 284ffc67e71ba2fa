"""Batches of sizes that a compiler knows, split by host."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
from numpy.typing import NDArray

from ._batches import PADDING


def pad(batch: NDArray[Any], multiple: int | Sequence[int], rank: int = 0, ranks: int = 1) -> NDArray[Any]:
    """A host's slice of a batch that is padded with -1.

    batch holds rows, shape [n], n at least 0. With a number, the padded size is the smallest multiple of it that is at
    least n, and at least once the number; with a sequence of sizes, the smallest of them that is at least n. So the
    number of shapes is known before training, and an empty batch has a shape too: it is a step as any other. ranks must divide
    every size, and the host rank in [0, ranks) gets one of ranks contiguous slices of equal length.

    The result has the type of batch. Count an entry of -1 as a gradient of zero: `clip_and_sum` does, given
    `is_padding=rows < 0`. Sizes of batches are secret, padded or not.
    """
    batch = np.asarray(batch)
    if batch.ndim != 1 or batch.dtype.kind not in "iu":
        raise ValueError(f"batch: must be whole numbers of one dimension, not {batch.dtype} of {batch.ndim}")
    sizes = [multiple] if isinstance(multiple, (int, np.integer)) else list(multiple)
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"multiple {multiple}: must be at least 1, or some sizes of at least 1")
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank}: must be 0 to {ranks - 1}, below ranks")
    for size in sizes:
        if size % ranks:
            raise ValueError(f"multiple {size}: must be a multiple of ranks, {ranks}")
    if isinstance(multiple, (int, np.integer)):
        size = int(multiple) * max(1, -(-len(batch) // int(multiple)))
    else:
        size = min((s for s in sizes if s >= len(batch)), default=0)
        if size == 0:
            raise ValueError("multiple: a batch is larger than the largest size; leaving examples out would break the guarantee: give a larger one")
    if batch.dtype.kind == "u":
        batch = batch.astype(np.int64)
    padded = np.full(size, PADDING, dtype=batch.dtype)
    padded[: len(batch)] = batch
    part = size // ranks
    return padded[rank * part : (rank + 1) * part]
