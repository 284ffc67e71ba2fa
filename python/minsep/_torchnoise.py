"""Noise made by PyTorch on the devices that hold the parameters."""

from __future__ import annotations

import functools
import math
import os
from typing import Any, Sequence

import numpy as np
import torch

from . import _device, _devicereader
from ._device import BLOCK, DeviceRecipe
from ._devicereader import check_devices, opening
from ._guard import StepGuard
from ._run import Run
from ._tree import Layout
from .errors import MinsepError, MissingPackageError

_PARTS = {"cpu": 1 << 17}  # coordinates that are made at once, multiples of BLOCK: what is beside the result is some hundred bytes of each
_PART = 1 << 22


class _TorchOps(_device.Ops):
    """PyTorch, each operation by itself, so that none is fused. Words are int32, as few operations
    take uint32: sums and products are modulo 2^32 too."""

    def words(self, numbers: Any) -> Sequence[Any]:
        return [int(n) - (int(n) >> 31 << 32) for n in numbers]

    def rotate(self, x: Any, n: int) -> Any:
        return x << n | self.shift(x, 32 - n)

    def shift(self, x: Any, n: int) -> Any:
        return x >> n & (1 << 32 - n) - 1

    def double(self, x: Any) -> Any:
        return (x.to(torch.int64) & 0xFFFFFFFF if x.dtype == torch.int32 else x).to(torch.float64)

    def bits(self, x: Any) -> Any:
        return x.view(torch.int64)

    def unbits(self, x: Any) -> Any:
        return x.view(torch.float64)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return torch.where(condition, x, y)

    def sqrt(self, x: Any) -> Any:
        """Rounded to the nearest: PyTorch's own are not on a processor, where Intel's library makes
        them."""
        return torch.from_numpy(np.sqrt(x.numpy())) if x.device.type == "cpu" else torch.sqrt(x)

    def stack(self, arrays: Any) -> Any:
        return torch.stack(arrays, dim=-1)


class _FusedOps(_TorchOps):
    """Operations in torch.compile. zero is a number that the compiler does not know to be 0: it
    keeps products apart from sums."""

    def __init__(self, zero: torch.Tensor) -> None:
        self._zero = zero

    def words(self, numbers: Any) -> Sequence[Any]:
        return _CONSTANTS

    def unfused(self, x: Any) -> Any:
        return self.unbits(self.bits(x) ^ self._zero)

    def sqrt(self, x: Any) -> Any:
        return torch.sqrt(x)


_OPS = _TorchOps()
_CONSTANTS = _OPS.words(_device._CONSTANTS)  # as numbers of Python, which a compiler takes


def _polar(ops: _TorchOps, key: torch.Tensor, number: torch.Tensor, step: torch.Tensor) -> Any:
    """The pairs of blocks of numbers. step is a word."""
    counter = number.to(torch.int32), (number >> 32).to(torch.int32)
    words = _device.chacha(ops, [key[i] for i in range(8)], counter, (step, step ^ step))
    return _device.polar(ops, words)


def _each(key: torch.Tensor, number: torch.Tensor, step: torch.Tensor) -> Any:
    return _polar(_OPS, key, number, step)


@functools.lru_cache(maxsize=1)
def _fused() -> Any:
    """The same in one program."""
    compiled = torch.compile(lambda key, number, step, zero: _polar(_FusedOps(zero), key, number, step), dynamic=True)

    def pairs(key: torch.Tensor, number: torch.Tensor, step: torch.Tensor) -> Any:
        return compiled(key, number, step, torch.zeros((), dtype=torch.int64, device=key.device))

    return pairs


class _Part:
    """The noise of coordinates [first, end), and the state of their strategy."""

    def __init__(self, recipe: DeviceRecipe, device: torch.device, pairs: Any, first: int, end: int) -> None:
        self._recipe, self._device, self._pairs, self.first, self.end = recipe, device, pairs, first, end
        self.state: list[torch.Tensor] = [torch.zeros(end - first, dtype=torch.float64, device=device)] * recipe.state_rows

    def _draw(self, step: int) -> torch.Tensor:
        """The normals of a step."""
        low, high = self.first // BLOCK, -(-self.end // BLOCK)
        number = torch.arange(low, high, dtype=torch.int64, device=self._device)
        key = torch.tensor(_OPS.words(self._recipe.keys(step)[0]), dtype=torch.int32, device=self._device)
        radii, cosines, sines, short = self._pairs(key, number, torch.tensor(step, dtype=torch.int32, device=self._device))
        for pair in short.reshape(-1).nonzero()[:, 0].tolist():  # once in 2^24
            radii.view(-1)[pair] = self._recipe.short(step, 4 * low + pair)
        return _device.cartesian(_OPS, radii, cosines, sines).reshape(-1)[self.first - low * BLOCK :][: self.end - self.first]

    def step(self, step: int) -> torch.Tensor:
        """The noise of the next step."""
        recipe = self._recipe
        drawn = [self._draw(s) for s in _device.needed(recipe, step)]
        u, self.state = _device.correlate(recipe.kind, _OPS, _device.coefficients(recipe, step).tolist(), drawn, self.state)
        return _device.rounded(_OPS, u, float(recipe.scale[step]), recipe.grid, torch.round, torch.abs, recipe.held)


class _Leaf:
    """The noise of the coordinates from first on, in the shape of a leaf and on its device."""

    def __init__(self, recipe: DeviceRecipe, shape: tuple[int, ...], device: torch.device, first: int, pairs: Any, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.device, self.dtype, self._recipe = shape, device, dtype, recipe
        end, size = first + math.prod(shape), _PARTS.get(device.type, _PART)
        edges = [first, *range((first // size + 1) * size, end, size), end]
        self._parts = [_Part(recipe, device, pairs, a, b) for a, b in zip(edges, edges[1:]) if b > a]
        self._places = [slice(p.first - first, p.end - first) for p in self._parts]

    def step(self, step: int) -> torch.Tensor:
        """The noise of a step, which follows the last one."""
        given = torch.empty(math.prod(self.shape), dtype=self.dtype, device=self.device)
        with torch.no_grad():
            for part, place in zip(self._parts, self._places):
                given[place] = part.step(step)
        return given.reshape(self.shape)

    def parts(self, step: int) -> list[tuple[Any, Any]]:
        return [(self.device, self.step(step).cpu().numpy())]

    def rows(self) -> torch.Tensor:
        """The state after the last step, [rows, …], the latest first."""
        found = torch.empty((self._recipe.state_rows, math.prod(self.shape)), dtype=torch.float64, device=self.device)
        for part, place in zip(self._parts, self._places):
            for row, of in zip(found, part.state):
                row[place] = of
        return found.reshape(-1, *self.shape) if found.numel() else found.new_empty((self._recipe.state_rows, *self.shape))

    def put(self, rows: Any, step: int) -> None:
        """Begins at a step, with the state before it."""
        rows = torch.as_tensor(rows).reshape(len(rows), -1) if len(rows) and math.prod(self.shape) else []
        for part, place in zip(self._parts, self._places):
            part.state = [row[place].to(self.device, copy=True) for row in rows]


class DeviceNoise(_devicereader.DeviceNoise):
    """The noise of a run's steps, made by PyTorch on the devices of the parameters. See
    `device_noise`."""

    def __init__(self, run: Run, like: Any, guard: StepGuard, key: str, state: Any, shard: int, shards: int, replica: int, fuse: bool) -> None:
        if fuse and not hasattr(torch, "compile"):
            raise MissingPackageError(f"fuse: needs PyTorch 2 or later, and this is {torch.__version__}: install a newer one, or leave fuse out")
        self._pairs = _fused() if fuse else _each
        super().__init__(run, like, guard, key, state, shard, shards, replica)

    def _leaves_of(self, recipe: DeviceRecipe, like: list[Any], firsts: list[int]) -> list[Any]:
        devices = [leaf.device if isinstance(leaf, torch.Tensor) else torch.device("cpu") for leaf in like]
        for device in dict.fromkeys(devices):
            _check_device(recipe, device, self._pairs)
        dtype = torch.float64 if recipe.held > 2.0**24 else torch.float32
        return [_Leaf(recipe, tuple(leaf.shape), device, first, self._pairs, dtype) for leaf, device, first in zip(like, devices, firsts)]


class RowNoise(DeviceNoise):
    """The noise of a part of the coordinates as one row, of a training whose parameters the guard
    knows."""

    def _use_layout(self, guard: StepGuard, layout: Layout) -> None:
        pass


def _check_device(recipe: DeviceRecipe, device: torch.device, pairs: Any) -> None:
    """Refuses a device that does not make the bits of the recipe."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, TypeError) as err:
        raise MinsepError(f"device {device}: has no numbers of 64 bits: read the noise with minsep.read_noise(…, key=key), which makes it on the processor") from err
    check_devices(recipe, lambda known, first, count: _Leaf(known, (count,), device, first, pairs, torch.float64))


def device_noise(
    run: Run,
    like: Any,
    *,
    guard: StepGuard,
    key: str | os.PathLike[str],
    state: Any = None,
    shard: int = 0,
    shards: int = 1,
    replica: int = 0,
    fuse: bool = False,
) -> DeviceNoise:
    """A reader like that of `minsep.read_noise(run, like, guard=guard, key=key)`, whose noise is
    made by PyTorch on the devices that hold like.

    like is a tree of the trained parameters, a list or a dict. Each leaf of the noise is a tensor
    on the leaf's device, of float32 or, for noise with --dtype float64, float64. Otherwise it is as
    `minsep.jax.device_noise`: the bits of the command, for noise with words by ChaCha12; state is
    what `noise.state_dict()` gave at the checkpoint, with tensors on any device. shard, shards and
    replica are those of `read_noise`. With fuse=True, torch.compile makes one program of the cipher
    and the normals, which takes a minute at first, and then less memory and time for each value. It
    needs PyTorch 2.
    """
    with opening(run, guard):
        return DeviceNoise(run, like, guard, os.fspath(key), state, shard, shards, replica, fuse)
