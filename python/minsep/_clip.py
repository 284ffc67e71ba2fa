"""What a trainer adds for a batch, in NumPy: the rule of docs/noise.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _rows
from ._batches import PADDING
from ._tree import ClipNorm, check_clip, check_divisor, check_grid, flatten, map_leaves, rows_of

# Clipping is to a little less than the clip norm: by more than the roundings of norm, factor and
# products can add.
SLACK = 2.0**-20

# A float64 holds sums exactly up to this many multiples of the grid.
HELD = 2.0**53


def clip_and_sum(gradients: Any, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> Any:
    """The sum of a batch's clipped gradients, on the grid of the noise, exact in float64.

    gradients is a tree of per-example gradients, each leaf of shape [n, ...] and of any
    floating-point type; n may be 0. Each example's gradient, over all leaves, is clipped to
    clip_norm, `run.clip_norm` as it comes, and each of its coordinates is rounded toward zero to a
    multiple of grid, `run.grid`; 0 stands for no grid. A plain number is refused as clip norm.
    Gradients with another number of coordinates than the run's are refused too: if layers were
    clipped each by itself, the sum could move by more than clip_norm. A gradient with a norm that
    is not finite counts as zero, and so does a gradient for which is_padding, shape [n], is true.
    The result is a tree of leaves [...] in float64.

    If owners are sampled, owners, shape [n], must have the number of each gradient's owner, or -1
    for padding (`OwnerBatch.owners`). The mean of each owner's gradients is then clipped and
    rounded, once for each owner. One call must have all gradients of an owner: an owner of two
    calls would be clipped twice. If examples are sampled, owners are refused.

    Give the sum to `add_noise`, once. Raises ValueError for shapes that do not fit each other.
    """
    leaves, build = flatten(gradients, "gradients")
    count = rows_of(leaves)
    check_clip(clip_norm, grid, [leaf.shape for _, leaf in leaves], HELD, owners, is_padding)
    if owners is not None:
        leaves, count = _means(leaves, whole_numbers(owners, count), padding_of(is_padding, count))
        is_padding = None
    squares = np.zeros(count)
    with np.errstate(over="ignore", invalid="ignore"):
        for _, leaf in leaves:
            x = np.asarray(leaf, dtype=np.float64).reshape(count, math.prod(leaf.shape[1:]))
            squares += np.sum(np.square(x), axis=1)
        norms = np.sqrt(squares)
        limit = clip_norm * (1 - SLACK)
        factors = limit / np.maximum(norms, limit)
    keep = np.isfinite(norms)
    keep &= ~padding_of(is_padding, count)
    return build([_sum(np.asarray(leaf), keep, factors, grid) for _, leaf in leaves])


def padding_of(is_padding: Any, count: int) -> NDArray[np.bool_]:
    """Which of count gradients are padding; none where is_padding is None."""
    padding = np.zeros(count, dtype=bool) if is_padding is None else np.asarray(is_padding, dtype=bool)
    if padding.shape != (count,):
        raise ValueError("is_padding: must have one entry for each of the gradients, and has more or fewer: give rows < 0, with the rows of these gradients")
    return padding


def whole_numbers(owners: Any, count: int) -> NDArray[np.int64]:
    """The owners of count gradients: at least -1."""
    numbers = np.asarray(owners)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu" and count:
        raise ValueError("owners: must be one whole number for each of the gradients, such as batch.owners")
    numbers = numbers.astype(np.int64)
    if count and numbers.min() < PADDING:
        raise ValueError(f"owners {numbers.min()}: must be at least 0, or -1 for padding")
    return numbers


def _means(leaves: list[tuple[str, Any]], owners: NDArray[np.int64], padding: NDArray[np.bool_]) -> tuple[list[tuple[str, Any]], int]:
    """The mean of each owner's gradients, in float64, in the order of the owners' numbers, and how
    many owners there are."""
    keep = np.flatnonzero((owners != PADDING) & ~padding)
    numbers, place, counts = np.unique(owners[keep], return_inverse=True, return_counts=True)
    means = []
    for path, leaf in leaves:
        leaf = np.asarray(leaf)
        total = np.zeros((len(numbers), *leaf.shape[1:]))
        with np.errstate(over="ignore", invalid="ignore"):
            for i, at in zip(keep, place):
                total[at] += leaf[i]
        means.append((path, total / counts.reshape(-1, *[1] * (leaf.ndim - 1))))
    return means, len(numbers)


def _sum(leaf: NDArray[Any], keep: NDArray[np.bool_], factors: NDArray[np.float64], grid: float) -> NDArray[np.float64]:
    total = np.zeros(leaf.shape[1:])
    one = np.empty(leaf.shape[1:])  # one example at a time: no second copy of all gradients
    for i in np.flatnonzero(keep):
        np.multiply(leaf[i], factors[i] / (grid or 1), out=one, dtype=np.float64)
        total += np.trunc(one, out=one) if grid else one
    return total * (grid or 1)


def add_noise(total: Any, noise: Any, grid: float, divisor: float, dtype: str = "float32") -> Any:
    """The noisy mean: (total + noise) / divisor, a tree like total.

    total is the finished sum of `clip_and_sum`, over all hosts and microbatches, and noise is the
    noise of the step, a tree of the same shapes. Both must be whole multiples of grid, `run.grid`:
    a sum that was not clipped and rounded is refused. With a grid of 0 this cannot be checked.
    divisor is `run.expected_batch_size`, or 1 for the noisy sum, which you may divide by any
    constant that does not depend on the batch. Other numbers are refused. The addition is in
    float64; the result is rounded to dtype: "float32", "float64" or "bfloat16". bfloat16 is
    ml_dtypes' type if that package is installed, and else uint16 with the same bits.

    Noise is for one sum: an array that `read_noise` gave is refused a second time. Copies and views
    of it are not recognised.

    Noise is never rounded before it is added: a bfloat16 holds 256 multiples of the grid, and sums
    would show through.
    """
    check_divisor(divisor)
    check_grid(grid)
    flatten(total, "total")
    rows = _rows.not_added((z for _, z in flatten(noise, "noise")[0]), divisor)

    def one(s: Any, z: Any) -> Any:
        held = {"total": held_by(np.asarray(s).dtype.itemsize), "noise": held_by(np.asarray(z).dtype.itemsize)}
        s, z = _exact(s, "total"), _exact(z, "noise")
        if s.shape != z.shape:
            raise ValueError(f"noise: of shape {z.shape}, the sum is of {s.shape}: give the noise of the same tree")
        check_on_grid(s, z, grid, held)
        return cast((s + z) / divisor, dtype)

    mean = map_leaves(one, total, noise)
    _rows.added(rows)
    return mean


def check_on_grid(total: Any, noise: Any, grid: float, held: dict[str, float]) -> None:
    """Refuses a sum or noise, arrays of NumPy or tensors, with values that are not whole multiples
    of the grid, or are more multiples than the type holds. A grid of 0 is none."""
    if grid:
        for name, values, of in ("total", total, "clip_and_sum"), ("noise", noise, "read_noise"):
            multiples = values / grid
            if (multiples.round() != multiples).any() or 0 not in multiples.shape and max(multiples.max(), -multiples.min()) > held[name]:
                raise ValueError(
                    f"{name}: has values that are not whole multiples of the grid, {grid}, or larger ones than its type holds: their low bits would show through the noise. "
                    f"Give what {of} gave, of this run, before any division or other rounding"
                )


def held_by(size: int) -> float:
    """The number of multiples of the grid up to which a floating-point number of so many bytes is
    exact: more of them were rounded."""
    return {2: 2.0**8, 4: 2.0**24}.get(size, HELD)


def _exact(values: Any, name: str) -> NDArray[np.float64]:
    """Floating-point values, in float64. Whole numbers are sums of minsep.jax, in multiples of the
    grid."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        raise ValueError(f"{name}: of type {array.dtype}: must be floating-point, as clip_and_sum gives it; sums of minsep.jax go to its add_noise")
    return array.astype(np.float64, copy=False)


def cast(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Values as float32, float64 or bfloat16."""
    if dtype in ("float32", "float64"):
        return values.astype(dtype)
    if dtype != "bfloat16":
        raise ValueError(f"dtype {dtype!r}: must be float32, float64 or bfloat16")
    single = values.astype(np.float32)
    try:
        import ml_dtypes
    except ImportError:
        bits = single.view(np.uint32)
        rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
        return np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype(np.uint16)
    return single.astype(ml_dtypes.bfloat16)
