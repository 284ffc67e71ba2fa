"""What a trainer in JAX adds for a batch: the rule of docs/noise.md in whole numbers."""

from __future__ import annotations

import math
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np

from . import _rows
from ._reader import NoiseReader
from ._tree import ClipNorm, check_clip, check_divisor, check_grid, check_microbatch, check_rows


# Clipping is to a little less than the clip norm: by more than float32's roundings of squares, of a
# sum in pairs over up to 2^40 coordinates in any number of leaves, of its root, the factor and the
# products can add (27 units of 2^-24).
SLACK = 2.0**-18

# Sums must stay below this many multiples of the grid: the noise, at most 2^24 of them, is added in
# int32.
HELD = 2.0**30

# A float32 holds noise up to this many multiples of the grid. More were rounded, and the low bits
# of sums would show through.
NOISE_HELD = 2.0**24


def clip_and_sum(gradients: Any, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> Any:
    """The sum of a batch's clipped gradients: a tree of int32 leaves [...], in multiples of the
    grid. It can be jitted.

    gradients is a tree of per-example gradients, each leaf of shape [n, ...], as
    jax.vmap(jax.grad(…)) gives them; n may be 0. All else is as in `minsep.clip_and_sum`, in
    float32. Whole numbers are added without rounding in any order, so sums of microbatches and
    hosts (jax.lax.psum) may be added. With a grid of 0, the sum is float32, and the floating-point
    channel is open.
    """
    leaves, structure = jax.tree_util.tree_flatten(gradients)
    counts = {leaf.shape[0] if leaf.ndim else -1 for leaf in leaves}
    if len(counts) != 1 or -1 in counts:
        raise ValueError("gradients: every leaf must have the examples as its first dimension")
    count = counts.pop()
    check_clip(clip_norm, grid, [leaf.shape for leaf in leaves], HELD, owners, is_padding)
    _, exponent = math.frexp(clip_norm)  # norms in units of about the clip norm: squares neither vanish nor overflow
    unit = math.ldexp(1.0, exponent)
    flat = [leaf.astype(jnp.float32).reshape(count, math.prod(leaf.shape[1:])) / unit for leaf in leaves]
    if owners is not None:
        flat, is_padding = _means(flat, owners, is_padding), None
    squares = _in_pairs(jnp.stack([_in_pairs(jnp.square(x)) for x in flat], axis=1))  # added one by one, leaves would round too often
    norms = jnp.sqrt(squares)
    limit = clip_norm * (1 - SLACK) / unit
    factors = jnp.where(norms > limit, limit / norms, 1.0)
    keep = jnp.isfinite(norms)
    if is_padding is not None:
        keep &= ~jnp.asarray(is_padding)

    def total(x: Any, leaf: Any) -> Any:
        clipped = jnp.where(keep[:, None], x * factors[:, None], 0.0)
        if grid:
            clipped = jnp.trunc(clipped * (unit / grid)).astype(jnp.int32)
        else:
            clipped = clipped * unit
        return jnp.sum(clipped, axis=0, dtype=clipped.dtype).reshape(leaf.shape[1:])  # int32, with jax_enable_x64 too

    return jax.tree_util.tree_unflatten(structure, [total(x, leaf) for x, leaf in zip(flat, leaves)])


def clipped_sum(loss: Callable[..., Any], clip_norm: ClipNorm, grid: float, microbatch: int | None = None) -> Callable[..., Any]:
    """The sum of a batch's clipped gradients of loss, with memory for the gradients of microbatch
    examples: f(params, rows, *batch, owners=None).

    loss(params, *example) is the loss of one example. rows, shape [n], are the rows of the batch,
    as `run.batch` or `pad` gave them, and each of batch is a tree of arrays [n, ...] of the
    examples at these rows. An example of row -1 is padding, and has no part in the sum. n may be 0
    and need not be a multiple of microbatch, which is at least 1; without microbatch, all gradients
    are made at once. A microbatch of padding only is left out. The result of f is that of
    `clip_and_sum` for all gradients: the parts are added in whole multiples of the grid, without
    rounding. f can be jitted.

    If owners are sampled, rows are `batch.rows`, and owners=`batch.owners` must be given. The mean
    of each owner's gradients is clipped, even if they are in several microbatches. That takes
    memory for the gradients of microbatch + 2 examples, twice.

    Raises ValueError for shapes that do not fit each other.
    """
    check_microbatch(microbatch)
    gradients = jax.grad(loss)

    def total(params: Any, rows: Any, *batch: Any, owners: Any = None) -> Any:
        counts = {leaf.shape[0] if jnp.ndim(leaf) else -1 for leaf in jax.tree_util.tree_leaves(batch)}
        if len(counts) != 1 or -1 in counts:
            raise ValueError("batch: every array must have the examples as its first dimension")
        count = counts.pop()
        check_rows(rows, count, owners)
        padding = jnp.asarray(rows) < 0
        check_clip(clip_norm, grid, [(count, *jnp.shape(p)) for p in jax.tree_util.tree_leaves(params)], HELD, owners, padding)  # of the whole batch
        none = jax.tree_util.tree_map(lambda p: jnp.zeros(jnp.shape(p), jnp.int32 if grid else jnp.float32), params)
        if count == 0:
            return none
        if owners is not None:
            numbers = _owners_of(owners, padding)
            order = jnp.argsort(jnp.where(numbers < 0, jnp.iinfo(numbers.dtype).max, numbers), stable=True)  # each owner's rows together
            padding, numbers, batch = padding[order], numbers[order], jax.tree_util.tree_map(lambda x: x[order], batch)
        size = min(microbatch or count, count)
        more = -count % size  # rows that fill the last part: examples that count as padding

        def parts(x: Any, filled: Any) -> Any:
            return jnp.concatenate([x, filled]).reshape(-1, size, *x.shape[1:])

        examples = jax.tree_util.tree_map(lambda x: parts(jnp.asarray(x), x[:more]), batch)
        marks = parts(padding, jnp.ones(more, bool))

        def found(examples: Any) -> Any:
            return jax.vmap(gradients, (None, *(0 for _ in examples)))(params, *examples)

        def add(sums: Any, part: Any) -> Any:
            examples, marked = part
            return jax.tree_util.tree_map(jnp.add, sums, clip_and_sum(found(examples), clip_norm, grid, marked))

        def step(sums: Any, part: Any) -> Any:
            return jax.lax.cond(jnp.all(part[1]), lambda sums, _: sums, add, sums, part), None

        if owners is None:
            return jax.lax.scan(step, none, (examples, marks))[0]
        of_owners = _OwnerSums(params, none, ClipNorm(clip_norm), grid, found)
        return of_owners.all(examples, parts(numbers, jnp.full(more, -1, numbers.dtype)))

    return total


def _owners_of(owners: Any, padding: Any) -> Any:
    """The owners of rows, -1 for padding."""
    owners = jnp.asarray(owners)
    if owners.shape != padding.shape or not jnp.issubdtype(owners.dtype, jnp.integer):
        raise ValueError("owners: must be one whole number for each of the rows, such as batch.owners")
    return jnp.where(padding | (owners < 0), -1, owners)


class _OwnerSums:
    """The sum of clipped means of owners, whose rows are together and may be of several parts."""

    def __init__(self, params: Any, none: Any, clip_norm: ClipNorm, grid: float, gradients: Callable[[Any], Any]) -> None:
        self._params, self._none, self._gradients = params, none, gradients
        self._norm, self._grid = clip_norm, grid

    def _clip(self, means: Any, padding: Any) -> Any:
        return clip_and_sum(means, self._norm, self._grid, padding)

    def all(self, examples: Any, numbers: Any) -> Any:
        """The sum of all parts: examples [parts, size, ...] with the numbers of their owners,
        ascending, and then -1."""
        held = jax.tree_util.tree_map(lambda p: jnp.zeros(jnp.shape(p), jnp.float32), self._params)
        begin = self._none, held, jnp.float32(0), jnp.asarray(-1, numbers.dtype)
        sums, held, count, _ = jax.lax.scan(lambda state, part: (self._part(state, *part), None), begin, (examples, numbers))[0]
        last = jax.tree_util.tree_map(lambda h: (h / jnp.maximum(count, 1))[None], held)
        return jax.tree_util.tree_map(jnp.add, sums, self._clip(last, (count == 0)[None]))

    def _part(self, state: Any, examples: Any, numbers: Any) -> Any:
        """Adds the owners that end in a part. Of the last one the next part may have more: the sum
        of its gradients is held."""
        sums, held, held_count, owner = state
        keep = numbers >= 0
        before = jnp.concatenate([owner[None], numbers[:-1]])
        place = jnp.cumsum(numbers != before)  # 0 is the owner whose gradients are held
        last = place[-1]

        def table(held: Any, x: Any) -> Any:
            zeros = jnp.zeros((len(numbers) + 1, *jnp.shape(held)), jnp.float32).at[0].set(held)
            return zeros.at[place].add(jnp.where(keep.reshape(-1, *[1] * jnp.ndim(held)), x.astype(jnp.float32), 0))

        counts = table(held_count, keep)
        tables = jax.tree_util.tree_map(table, held, self._gradients(examples))
        means = jax.tree_util.tree_map(lambda t: t / jnp.maximum(counts, 1).reshape(-1, *[1] * (t.ndim - 1)), tables)
        ended = (jnp.arange(len(counts)) < last) & (counts > 0)
        sums = jax.tree_util.tree_map(jnp.add, sums, self._clip(means, ~ended))
        return sums, jax.tree_util.tree_map(lambda t: t[last], tables), counts[last], numbers[-1]


def _means(flat: list[Any], owners: Any, is_padding: Any) -> list[Any]:
    """The mean of each owner's gradients, one row an owner, and rows of zeros after them."""
    owners = jnp.asarray(owners)
    count = len(flat[0])
    if owners.shape != (count,) or not jnp.issubdtype(owners.dtype, jnp.integer):
        raise ValueError("owners: must be one whole number for each of the gradients, such as batch.owners")
    if count == 0:
        return flat
    keep = owners >= 0
    if is_padding is not None:
        keep &= ~jnp.asarray(is_padding)
    _, place = jnp.unique(owners, return_inverse=True, size=count)  # a number above count must not be dropped

    def total(x: Any) -> Any:
        return jax.ops.segment_sum(x, place.reshape(count), num_segments=count)

    counts = jnp.maximum(total(keep.astype(jnp.float32)), 1.0)
    return [total(jnp.where(keep[:, None], x, 0.0)) / counts[:, None] for x in flat]


def _in_pairs(x: Any) -> Any:
    """The sums of rows, of which each addition is one rounding of two halves."""
    while x.shape[1] > 1:
        if x.shape[1] % 2:
            x = jnp.pad(x, ((0, 0), (0, 1)))
        half = x.shape[1] // 2
        x = x[:, :half] + x[:, half:]
    return x[:, 0] if x.shape[1] else jnp.zeros(x.shape[0], x.dtype)


def add_noise(total: Any, noise: Any, grid: float, divisor: float) -> Any:
    """The noisy mean, a tree of float32: (total · grid + noise) / divisor. It can be jitted.

    total is the finished sum of `clip_and_sum`, noise is the noise of the step, a tree of the same
    shapes in float32, and divisor is `run.expected_batch_size` (in jax.jit a static argument), or 1
    for the noisy sum. The addition is exact, in multiples of the grid; the division rounds. If
    noise is beyond 2^24 multiples, which a float32 does not hold, the mean is NaN: make the noise
    with --dtype float32, and a --grid, if any, for that type. An array that `read_noise` gave is
    refused a second time, but not in jax.jit, nor after it was made an array of JAX.
    """
    check_divisor(divisor)
    check_grid(grid)
    if isinstance(noise, NoiseReader):
        raise TypeError("noise: must be the noise of a step, noise.step(t), and not its reader")
    rows = _rows.not_added(jax.tree_util.tree_leaves(noise), divisor)
    divisor = float(divisor)
    if grid == 0:
        mean = jax.tree_util.tree_map(lambda s, z: (s + z) / divisor, total, noise)
        _rows.added(rows)
        return mean

    def one(s: Any, z: Any) -> Any:
        if s.dtype != jnp.int32 or s.shape != z.shape:
            raise ValueError(f"total: {s.dtype}{s.shape} with noise {z.dtype}{z.shape}: must be the result of clip_and_sum, in the noise's shape")
        if isinstance(z, np.ndarray) and z.dtype == np.float64 and not np.array_equal(z.astype(np.float32), z):
            raise ValueError("noise: of float64, on a grid too fine for float32, and JAX adds noise in float32: make it with minsep noise --dtype float32, and not with a finer --grid")
        if isinstance(z, np.ndarray) and isinstance(s, jax.Array) and not isinstance(s, jax.core.Tracer) and s.sharding.num_devices > 1:
            z = jax.device_put(z, s.sharding)  # each device has its part
        multiples = jnp.asarray(z, jnp.float32) / grid
        exact = s + multiples.astype(jnp.int32)
        return jnp.where(jnp.abs(multiples) <= NOISE_HELD, exact.astype(jnp.float32) * (grid / divisor), jnp.nan)

    mean = jax.tree_util.tree_map(one, total, noise)
    _rows.added(rows)
    return mean
