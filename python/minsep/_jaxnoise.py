"""Noise made by JAX on the devices that hold the parameters."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from . import _device, _devicereader
from ._device import BLOCK, DeviceRecipe
from ._devicereader import check_devices, opening
from ._guard import StepGuard
from ._run import Run

_PART = 1 << 18  # coordinates that are made at once, a multiple of BLOCK: what is beside the result is some hundred bytes of each


class _JaxOps(_device.Ops):
    """JAX, with 64 bits on. zero is a number that the compiler does not know to be 0: it keeps
    products apart from sums."""

    def __init__(self, zero: Any) -> None:
        self._zero = zero

    def bits(self, x: Any) -> Any:
        return jax.lax.bitcast_convert_type(x, jnp.int64)

    def unbits(self, x: Any) -> Any:
        return jax.lax.bitcast_convert_type(x, jnp.float64)

    def unfused(self, x: Any) -> Any:
        return self.unbits(self.bits(x) ^ self._zero)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return jnp.where(condition, x, y)

    def sqrt(self, x: Any) -> Any:
        return jnp.sqrt(x)

    def stack(self, arrays: Any) -> Any:
        return jnp.stack(arrays, axis=-1)

    def repeat(self, times: int, change: Any, x: Any) -> Any:
        """As a loop of the program: compiled as one expression, the rounds take minutes."""
        return jax.lax.fori_loop(0, times, lambda _, x: change(x), x)


def _short_radii(ops: _JaxOps, tails: Any, words: list[Any], blocks: tuple[Any, Any], step: Any, radii: Any, short: Any) -> Any:
    """radii with those of short pairs, of which there are hardly ever more than are looked at: NaN,
    where there are."""
    room = BLOCK + short.size // (1 << 18)
    short = short.reshape(-1)
    at = jnp.nonzero(short, size=room, fill_value=0)[0]
    block, pair = at // 4, at % 4
    drawn = _device.chacha(ops, tails, (blocks[0][block], blocks[1][block]), (step, jnp.uint32(0)))

    def number(table: list[Any], place: Any, part: int) -> Any:
        rows = jnp.stack(table)  # [16, …]
        low, high = (rows[4 * pair + i, place].astype(jnp.uint64) for i in (part, part + 1))
        return low | high << 32

    first = number(words, block, 0)
    more = [number(drawn, jnp.arange(room), part) for part in (0, 2)]
    vanished = first == 0  # once in 2^64 pairs
    high, low = jnp.where(vanished, more[0], first), jnp.where(vanished, more[1], more[0])
    zeros = jax.lax.clz(high)
    bits = jnp.where(zeros == 0, high, high << zeros | low >> jnp.where(zeros == 0, jnp.uint64(63), 64 - zeros))
    u = _device.whole(ops, *_device.split(bits))
    exponent = 64 + zeros.astype(jnp.int64) + jnp.where(vanished, 64, 0)
    tail = jnp.where(high == 0, jnp.nan, _device.radius(ops, jnp.where(high == 0, 2.0**63, u), exponent))
    count = jnp.sum(short)
    place = jnp.where(jnp.arange(room) < count, at, short.size)
    flat = radii.reshape(-1).at[place].set(tail, mode="drop")
    return jnp.where(count > room, jnp.nan, flat).reshape(radii.shape)


def _segment(ops: _JaxOps, keys: Any, step: Any, length: int, place: tuple[Any, Any, Any]) -> Any:
    """The normals of a range of coordinates: place has the first block, low and high word, and
    where in it the range begins."""
    count = (length + 2 * BLOCK - 2) // BLOCK  # wherever the range begins
    low, high, offset = place
    number = (low.astype(jnp.uint64) | high.astype(jnp.uint64) << 32) + jnp.arange(count, dtype=jnp.uint64)
    blocks = _device.split(number)
    words = _device.chacha(ops, keys[0], blocks, (step, jnp.uint32(0)))
    radii, cosines, sines, short = _device.polar(ops, words)
    radii = _short_radii(ops, keys[1], words, blocks, step, radii, short)
    z = _device.cartesian(ops, radii, cosines, sines).reshape(-1)
    return jax.lax.dynamic_slice(z, (offset,), (length,))


@dataclasses.dataclass(frozen=True)
class _Program:
    """What decides the program of a leaf: leaves that agree here share one."""

    kind: str
    bands: int
    grid: float
    length: int  # of a segment
    shape: tuple[int, ...]  # of a device's part of the leaf
    sharding: Any  # of the leaf
    dtype: str

    def make(self, old: Any, kept: Any, keys: Any, zero: Any, step: Any, c: Any, scale: Any, places: Any) -> Any:
        """The noise of a step in one device's part of a leaf, and the rows of the state that are
        new: they take the place of the old ones."""
        places = tuple(p.reshape(-1) for p in places)
        ops, size = _JaxOps(zero), math.prod(self.shape)

        def draw(at: Any, j: Any) -> Any:
            segment = functools.partial(_segment, ops, [k[j] for k in keys], at, self.length)
            return jax.lax.map(segment, places, batch_size=max(1, _PART // self.length)).reshape(-1)[:size]

        if self.kind == "filter":
            newest = jnp.minimum(self.bands - 1, step.astype(jnp.int32))

            def add(i: Any, u: Any) -> Any:
                j = newest - i
                return ops.unfused(c[j] * draw((step - j).astype(jnp.uint32), j)) + u

            u, state = jax.lax.fori_loop(0, newest + 1, add, jnp.zeros(size, jnp.float64)), list[Any]()
        else:
            u, state = _device.correlate(self.kind, ops, c, [draw(step, 0)], [row.reshape(-1) for row in (*kept, *old)])
        u, *new = jax.lax.optimization_barrier((u, *state[: len(old)]))  # made once, not for each use
        value = _device.rounded(ops, u, scale, self.grid, jnp.round, jnp.abs)
        return value.astype(self.dtype).reshape(self.shape), tuple(row.reshape(self.shape) for row in new)


@functools.partial(jax.jit, static_argnames="program", donate_argnames="old")
def _make(old: Any, kept: Any, keys: Any, zero: Any, step: Any, c: Any, scale: Any, places: Any, *, program: _Program) -> Any:
    """A leaf of the noise of a step, and the new rows of the state. The keys are arguments:
    constants would be in the text of the program."""
    same, own, leaf = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(*program.sharding.mesh.axis_names), program.sharding.spec
    mapped = jax.shard_map(program.make, mesh=program.sharding.mesh, in_specs=(leaf, leaf, same, same, same, same, same, own), out_specs=leaf, check_vma=False)
    return mapped(old, kept, keys, zero, step, c, scale, places)


class _Leaf:
    """The noise of the coordinates from first on, in the shape of a leaf and with its sharding."""

    def __init__(self, recipe: DeviceRecipe, shape: tuple[int, ...], sharding: Any, first: int, dtype: str = "float32") -> None:
        if isinstance(sharding, jax.sharding.SingleDeviceSharding):
            mesh = jax.sharding.Mesh(np.array(list(sharding.device_set)), ("device",))
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        if not isinstance(sharding, jax.sharding.NamedSharding):
            raise TypeError(f"like: has a leaf with a {type(sharding).__name__}: must be on one device, or have a NamedSharding")
        self.recipe, self.mesh, self.shape, self.dtype = recipe, sharding.mesh, shape, dtype
        self._size = math.prod(shape)
        part = sharding.shard_shape(shape)
        indices = sharding.devices_indices_map(shape)
        segments = {device: _segments(shape, part, index, first) for device, index in indices.items()}
        lengths = {length for _, length in segments.values()}
        count = {len(starts) for starts, _ in segments.values()}
        assert len(lengths) == len(count) == 1  # all parts are of one shape
        starts = np.stack([segments[device][0] for device in self.mesh.devices.flat]).reshape(*self.mesh.devices.shape, *count)
        blocks = starts // np.uint64(BLOCK)
        own = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*self.mesh.axis_names))
        self._places = tuple(self._put(p, own) for p in (*_device.split(blocks), (starts % np.uint64(BLOCK)).astype(np.int32)))
        bands = len(recipe.filter) if recipe.kind == "filter" else recipe.state_rows
        self._program = _Program(recipe.kind, bands, recipe.grid, max(lengths), part, sharding, dtype)
        self._zero = self._everywhere(np.int64(0))
        self._state = [self._put(np.zeros(shape), sharding) for _ in range(recipe.state_rows)]

    def _put(self, x: NDArray[Any], sharding: Any) -> Any:
        """An array of which each process gives the parts of its devices."""
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    def _everywhere(self, x: Any) -> Any:
        return self._put(np.asarray(x), jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec()))

    def arguments(self, step: int) -> tuple[Any, ...]:
        """Those of the program of a step."""
        recipe = self.recipe
        c = recipe.filter if recipe.kind == "filter" else _device.coefficients(recipe, step)
        oldest = 0 if recipe.kind == "blt" else len(self._state) - 1  # the first row whose place a new one takes
        state = tuple(self._state[max(0, oldest) :]), tuple(self._state[: max(0, oldest)])
        needed = [recipe.keys(max(0, step - j)) for j in range(len(recipe.filter) or 1)]  # the latest first
        keys = tuple(self._everywhere(np.stack(k)) for k in zip(*needed))
        return (*state, keys, self._zero, *map(self._everywhere, (np.uint32(step), c, recipe.scale[step])), self._places)

    def step(self, step: int) -> Any:
        """The noise of a step, which follows the last one."""
        if self._size == 0:
            return self._put(np.zeros(self.shape, self.dtype), self._program.sharding)
        old, kept, *rest = self.arguments(step)
        value, new = _make(old, kept, *rest, program=self._program)
        self._state = [*new, *kept]
        return value

    def parts(self, step: int) -> list[tuple[Any, Any]]:
        """The noise of a step, of each device of this process."""
        return [(shard.device, np.asarray(shard.data)) for shard in self.step(step).addressable_shards]

    def rows(self) -> Any:
        """The state after the last step, [rows, …], the latest first, with the sharding of the
        leaf."""
        laid = self._laid()
        if self._size == 0 or not self._state:
            return self._put(np.zeros((len(self._state), *self.shape)), laid)
        return jax.jit(jnp.stack, out_shardings=laid)(self._state)

    def put(self, rows: Any, step: int) -> None:
        """Begins at a step, with the state before it."""
        if self._state and self._size:
            given = jax.device_put(rows, self._laid()) if isinstance(rows, jax.Array) else self._put(np.asarray(rows), self._laid())
            self._state = list(jax.jit(list, out_shardings=self._program.sharding)(given))

    def _laid(self) -> Any:
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(None, *self._program.sharding.spec))


def _segments(shape: tuple[int, ...], part: tuple[int, ...], index: tuple[slice, ...], first: int) -> tuple[NDArray[Any], int]:
    """Where the ranges of coordinates of a part of a leaf begin, and how long each is."""
    split = len(shape)  # dimensions from here on are whole
    while split > 0 and part[split - 1] == shape[split - 1]:
        split -= 1
    length = math.prod(part[max(0, split - 1) :])
    starts = np.array([first], np.uint64)
    for d in range(split):
        start = index[d].indices(shape[d])[0]
        along = np.arange(start, start + (1 if d == split - 1 else part[d]), dtype=np.uint64)
        starts = (starts[:, None] + along * np.uint64(math.prod(shape[d + 1 :]))).reshape(-1)
    if len(starts) == 1 and length > _PART:
        return starts + np.arange(0, length, _PART, dtype=np.uint64), _PART
    return starts, max(1, length)


def _check_devices(recipe: DeviceRecipe, devices: Any) -> None:
    """Refuses devices that do not make the bits of the recipe."""
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    check_devices(recipe, lambda known, first, count: _Leaf(known, (count,), everywhere, first, "float64"))


class DeviceNoise(_devicereader.DeviceNoise):
    """The noise of a run's steps, made by JAX on the devices of the parameters. See `device_noise`."""

    def _wide(self) -> Any:
        return jax.enable_x64(True)

    def _leaves_of(self, recipe: DeviceRecipe, like: list[Any], firsts: list[int]) -> list[Any]:
        if recipe.held > 2.0**24:
            raise ValueError(f"noise: its grid, {recipe.grid}, is for float64, and JAX adds float32: make the noise with --dtype float32")
        shardings = [leaf.sharding if isinstance(leaf, jax.Array) else jax.sharding.SingleDeviceSharding(jax.local_devices()[0]) for leaf in like]
        _check_devices(recipe, sorted(set().union(*(s.device_set for s in shardings)), key=lambda d: d.id))
        return [_Leaf(recipe, tuple(leaf.shape), sharding, first) for leaf, sharding, first in zip(like, shardings, firsts)]


def device_noise(run: Run, like: Any, *, guard: StepGuard, key: str | os.PathLike[str], state: Any = None) -> DeviceNoise:
    """A reader like `minsep.read_noise(run, like, guard=guard, key=key)`, with noise that JAX makes
    on the devices that hold like.

    like is a tree of the trained parameters. Each leaf of the noise is a float32 array with the
    leaf's sharding, and every device makes its own part of it; with several processes, each makes
    the parts of its devices. The bits are the same as the command's, whatever the sharding. The
    run's noise must have words by ChaCha12 (`minsep noise --words chacha12`), and needs no files. key is
    the file of the root key, which goes to the devices as an argument of
    their programs, and into no checkpoint. A value that a float32 does not hold on the grid is NaN.

    A strategy with state, such as a banded one, keeps bands - 1 numbers of 8 bytes for each
    coordinate on the devices. A reader that goes on makes all earlier steps again, or begins from
    state, the result of `noise.state_dict()` at the checkpoint, with arrays of JAX or NumPy of any
    sharding. From the state of an earlier step it makes the steps between. The state is as secret
    as the noise. Inverse-banded strategies keep nothing, and make bands rows of normals a step.

    Raises RunDirectoryError for noise with other words; ValueError for a state of another run,
    recipe, tree or a later step; MinsepError for another key, and for a device that does not round
    numbers of 64 bits as IEEE 754 says, such as a TPU.
    """
    with opening(run, guard):
        return DeviceNoise(run, like, guard, os.fspath(key), state)
