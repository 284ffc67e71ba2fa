"""Clipped sums in PyTorch: the gradient of each example, or the mean of each owner, is clipped and
rounded by itself, a block of coordinates at a time, so that no second copy of all gradients is
made.

The gradient of a weight that a layer multiplies with its input need not be made before: it is a sum
of products of the input and of the gradient of the output over the places where the layer was used
(docs/formulas.md, F2.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterator, Union

import numpy as np
import torch
from numpy.typing import NDArray

from ._batches import PADDING
from ._clip import SLACK, padding_of, whole_numbers


def gamma(k: int) -> float:
    """The relative error of a sum of products of k factors and terms in float64, in any order
    (Higham, section 3.1), rounded up."""
    return 1.01 * k * 2.0**-53


def _room(device: torch.device) -> int:
    """How many numbers of 8 bytes are computed together: on a processor as many as its cache
    holds."""
    return 2**16 if device.type == "cpu" else 2**24


def _blocks(array: torch.Tensor) -> Iterator[tuple[slice, slice]]:
    """Blocks of an array [n, size]: several rows, or a part of one."""
    (count, size), room = array.shape, _room(array.device)
    few = max(room // max(size, 1), 1)
    for first in range(0, count, few):
        for at in range(0, size, room):
            yield slice(first, first + few), slice(at, at + room)


@dataclass
class Stored:
    """The gradients of a parameter, [n, ...], one for each example."""

    values: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    @property
    def count(self) -> int:
        return int(self.values.shape[0])

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def places(self) -> int:
        return 1

    def squares(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The square of the norm of each, in float64, twice."""
        flat = self.values.reshape(self.count, math.prod(self.shape))
        squares = torch.zeros(self.count, dtype=torch.float64, device=flat.device)
        for rows, places in _blocks(flat):
            squares[rows] += flat[rows, places].to(torch.float64).square().sum(1)
        return squares, squares

    def chosen(self, rows: torch.Tensor) -> Stored:
        """The means of rows [m, k], each of k examples."""
        values = self.values[rows]
        return Stored(values[:, 0] if rows.shape[1] == 1 else values.to(torch.float64).mean(1))

    def add(self, total: torch.Tensor, factors: torch.Tensor, rounded: bool) -> None:
        """Adds each times its factor, rounded toward zero or as it is, to total."""
        flat, sums = self.values.reshape(self.count, math.prod(self.shape)), total.reshape(-1)
        for rows, places in _blocks(flat):
            block = flat[rows, places].to(torch.float64, copy=True)
            if rounded:
                _add_rounded(sums[places], block.mul_(factors[rows, None]))
            else:
                sums[places] += factors[rows] @ block


@dataclass
class Product:
    """What a weight has of n examples: its gradient is, as a matrix of rows x cols, the sum over
    places of the products of left [n, places, rows] and right [n, places, cols], and of looked
    [n, more places, cols] in the rows ids [n, more places]. shape is the weight's own."""

    left: torch.Tensor
    right: torch.Tensor
    ids: torch.Tensor
    looked: torch.Tensor
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return int(self.left.shape[0])

    @property
    def device(self) -> torch.device:
        return self.left.device

    @property
    def places(self) -> int:
        """The number of products of which an example's gradient is the sum."""
        return int(self.left.shape[1] + self.ids.shape[1])

    def squares(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A bound of the square of the norm of each example's gradient, as `add` computes it, and
        the square of the sum of the norms of its products."""
        found = [part._squares() for _, part in self._few()]
        if len(found) == 1:
            return found[0]
        none = torch.zeros(0, dtype=torch.float64, device=self.device)
        norms, absolute = zip((none, none), *found)
        return torch.cat(norms), torch.cat(absolute)

    def chosen(self, rows: torch.Tensor) -> Product:
        """The means of rows [m, k], each of k examples: of their places together."""
        k = rows.shape[1]

        def places(x: torch.Tensor) -> torch.Tensor:
            return x[rows].flatten(1, 2)

        if k == 1:
            return Product(places(self.left), places(self.right), places(self.ids), places(self.looked), self.shape)
        return Product(places(self.left).to(torch.float64) / k, places(self.right), places(self.ids), places(self.looked).to(torch.float64) / k, self.shape)

    def _few(self) -> Iterator[tuple[slice, Product]]:
        """Examples whose numbers have room in float64 together."""
        numbers = self.left.numel() + self.right.numel() + self.looked.numel()
        size = max(2**22 * self.count // max(numbers, 1), 1)
        if size >= self.count:
            yield slice(None), self
            return
        for first in range(0, self.count, size):
            few = slice(first, first + size)
            yield few, Product(self.left[few], self.right[few], self.ids[few], self.looked[few], self.shape)

    def _squares(self) -> tuple[torch.Tensor, torch.Tensor]:
        places, more = self.left.shape[1], self.looked.shape[1]
        absolute = dense = (_norms(self.left) * _norms(self.right)).sum(1)
        slack, apart = gamma(self.left.shape[2] + self.right.shape[2] + places**2 + 4), gamma(places + more + 4)
        if places == 1 and not more:
            return (dense * (math.sqrt(1 + slack) + apart)) ** 2, dense**2
        left, right = self.left.to(torch.float64), self.right.to(torch.float64)
        square = ((left @ left.transpose(1, 2)) * (right @ right.transpose(1, 2))).sum((1, 2)) + slack * dense**2
        if more:
            looked, rows = self.looked.to(torch.float64), _norms(self.looked).sum(1)
            sums, _, example = self._rows(looked)
            found = torch.zeros_like(rows).index_add_(0, example, sums.square().sum(1))
            square = square + (found.sqrt() + gamma(self.right.shape[2] + 2 * more + 4) * rows) ** 2
            absolute = dense + rows
            if places:
                at = self.ids[:, None, :].expand(-1, places, -1)
                cross = (left.gather(2, at) * (right @ looked.transpose(1, 2))).sum((1, 2))
                square = square + 2 * (cross + gamma(places * more + self.right.shape[2] + 4) * dense * rows)
        return (square.clamp(min=0).sqrt() + apart * absolute) ** 2, absolute**2

    def _rows(self, looked: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The rows of each example's gradient that were looked up, each once, with their numbers
        and examples."""
        count, rows = len(self.ids), self.left.shape[2]
        keys, at = torch.unique((torch.arange(count, device=self.ids.device)[:, None] * rows + self.ids).flatten(), return_inverse=True)
        sums = torch.zeros(len(keys), looked.shape[2], dtype=torch.float64, device=looked.device)
        sums.index_put_((at,), looked.flatten(0, 1), accumulate=True)
        return sums, keys % rows, torch.div(keys, rows, rounding_mode="floor")

    def add(self, total: torch.Tensor, factors: torch.Tensor, rounded: bool) -> None:
        """Adds each times its factor, rounded toward zero or as it is, to total."""
        matrix = total.reshape(self.left.shape[2], self.right.shape[2])
        for few, part in self._few():
            left = part.left.to(torch.float64) * factors[few, None, None]
            looked = part.looked.to(torch.float64) * factors[few, None, None] if part.ids.shape[1] else part.looked
            if not rounded:
                if part.left.shape[1]:
                    matrix.addmm_(left.flatten(0, 1).T, part.right.flatten(0, 1).to(torch.float64))
                if part.ids.shape[1]:
                    matrix.index_put_((part.ids.flatten(),), looked.flatten(0, 1), accumulate=True)
            elif not part.left.shape[1]:
                sums, numbers, _ = part._rows(looked.to(torch.float64))
                matrix.index_put_((numbers,), _truncate(sums), accumulate=True)
            elif part.ids.shape[1]:
                for one, right, ids, rows in zip(left, part.right, part.ids, looked):
                    _add_rounded(matrix, (one.T @ right.to(torch.float64)).index_put_((ids,), rows, accumulate=True)[None])
            else:
                _add_products(matrix, left, part.right.to(torch.float64))


def _norms(x: torch.Tensor) -> torch.Tensor:
    """The norms of the last dimension, in float64."""
    return torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)


def _add_products(matrix: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Adds the products of left and right to matrix, rounded: those of several examples together,
    or some rows of one."""
    (rows, cols), (count, places, _) = matrix.shape, left.shape
    room = _room(matrix.device)
    few, step = max(room // (rows * cols), 1), max(room // cols, 1)
    memory = matrix.new_empty(min(few, count), min(step, rows), cols)
    left, right = (left.transpose(1, 2), right) if places > 1 else (left.reshape(count, rows, 1), right)
    product = torch.mul if places == 1 else torch.bmm
    for first in range(0, rows, step):
        total = matrix[first : first + step]
        block = memory.resize_(memory.shape[0], total.shape[0], cols)
        for i in range(0, count - few + 1, few):
            product(left[i : i + few, first : first + step], right[i : i + few], out=block)
            _add_rounded(total, block)
        if count % few:
            _add_rounded(total, product(left[count - count % few :, first : first + step], right[count - count % few :]))


def _add_rounded(total: torch.Tensor, block: torch.Tensor) -> None:
    """Adds the rows of a block, rounded toward zero, to total."""
    _truncate(block)
    total.add_(block[0] if block.shape[0] == 1 else block.sum(0))


def _truncate(block: torch.Tensor) -> torch.Tensor:
    """Rounds toward zero, in place."""
    array = as_array(block)
    if isinstance(array, torch.Tensor):
        return array.trunc_()
    np.trunc(array, out=array)
    return block


def as_array(x: torch.Tensor) -> Any:
    """On processors, an array of NumPy in the same memory, which rounds and compares several times
    as fast as PyTorch 2.15."""
    return x.numpy() if x.device.type == "cpu" else x


Part = Union[Stored, Product]


@dataclass
class Ghost:
    """Ghost clipping: the products of all examples of a microbatch are summed together, and the
    sum of a step is rounded once, by `round_once`. What one example more moves it by stays within
    the clip norm, since factors are smaller (docs/formulas.md, F2.1).

    most is the most examples, or owners, of a step, rows the most examples of a microbatch, and
    parts the most microbatches of a step.
    """

    most: int
    rows: int
    parts: int

    @classmethod
    def of(cls, most: int, per_owner: int, microbatch: int | None) -> Ghost:
        """For steps of so many examples, or of owners who have up to per_owner examples."""
        if microbatch is None:
            return cls(most, most * per_owner, 1)
        return cls(most, max(microbatch, per_owner), 2 * (most * per_owner // microbatch) + 1)  # of whole owners, two in a row have more than microbatch

    def norm(self, clip_norm: float, grid: float, coordinates: int) -> float:
        """What gradients are clipped to: less than the clip norm by what roundings can add."""
        return clip_norm * (1 - 2.0**-10) - grid * math.sqrt(coordinates)

    def absolute(self, clip_norm: float, places: int) -> float:
        """The most that the norms of the clipped products of an example may add up to, at so many
        places."""
        most = 2.0**-12 * clip_norm / (self.most * gamma(self.rows * places + self.parts + 4))
        if most < clip_norm * math.sqrt(places):
            raise ValueError(f'clipping="ghost": the rounding of a sum of up to {self.rows} examples and {self.parts} microbatches is too large: give a smaller microbatch or, if there are many, a larger one; or clipping="example"')
        return most


def round_once(total: torch.Tensor, grid: float) -> torch.Tensor:
    """The sum of all microbatches of a step of ghost clipping, rounded to the grid."""
    return total.div(grid).round_().mul_(grid) if grid else total


def each_sum(parts: dict[Any, Part], clip_norm: float, grid: float, is_padding: Any, owners: Any, ghost: Ghost | None = None) -> Iterator[tuple[Any, torch.Tensor]]:
    """The sums of the clipped gradients of examples, or of the clipped means of their owners, one
    parameter after the other, in some order: on the grid, unless they are of ghost clipping."""
    count = next(iter(parts.values())).count
    limit, absolute = clip_norm * (1 - SLACK), math.inf
    rounded = grid > 0 and ghost is None
    unit = grid if rounded else 1.0
    if ghost is not None:
        limit = ghost.norm(clip_norm, grid, sum(math.prod(part.shape) for part in parts.values()))
        absolute = ghost.absolute(clip_norm, max(part.places for part in parts.values()))
    with torch.no_grad():
        groups = [(names, _of(names, parts)) for names in _together(parts)]
        chosen = [_kept([part for _, part in groups], rows, limit, absolute) for rows in _rows_of_means(count, on_host(is_padding), on_host(owners))]
    for names, part in groups:
        with torch.no_grad():
            sums = torch.zeros(part.shape, dtype=torch.float64, device=part.device)
            for rows, factors in chosen:
                _chosen(part, rows).add(sums, factors / unit, rounded)
            if rounded:
                sums.mul_(unit)
        if len(names) == 1:
            yield names[0], sums
        else:
            shapes = [parts[name].shape for name in names]
            yield from zip(names, (x.reshape(shape) for x, shape in zip(sums.split([math.prod(shape) for shape in shapes]), shapes)))


def _together(parts: dict[Any, Part]) -> list[list[Any]]:
    """The names of parts, those of small stored gradients together."""
    groups: dict[Any, list[Any]] = {}
    for name, part in parts.items():
        small = isinstance(part, Stored) and math.prod(part.shape) <= 1024
        groups.setdefault(part.device if small else name, []).append(name)
    return [*groups.values()]


def _of(names: list[Any], parts: dict[Any, Part]) -> Part:
    """The parts of some names as one."""
    if len(names) == 1:
        return parts[names[0]]
    stored = [part.values.reshape(part.count, math.prod(part.shape)) for part in (parts[name] for name in names) if isinstance(part, Stored)]
    return Stored(torch.cat(stored, dim=1))


def _rows_of_means(count: int, is_padding: Any, owners: Any) -> list[NDArray[np.int64] | None]:
    """The rows [m, k] whose means are clipped, for each number k of rows of one mean: without
    owners, single ones. None stands for all."""
    padding = padding_of(is_padding, count)
    if owners is None:
        return [np.flatnonzero(~padding)[:, None] if padding.any() else None]
    numbers = whole_numbers(owners, count)
    numbers[padding] = PADDING
    order = np.argsort(numbers, kind="stable")[np.count_nonzero(numbers == PADDING) :]
    _, first, sizes = np.unique(numbers[order], return_index=True, return_counts=True)
    return [order[first[sizes == k][:, None] + np.arange(k)] for k in np.unique(sizes)]


def _kept(parts: list[Part], rows: NDArray[np.int64] | None, limit: float, absolute: float) -> tuple[Any, torch.Tensor]:
    """Those of the rows whose gradients are finite, and their factors."""
    single = rows is None or rows.shape[1] == 1
    found = [(part if single else _chosen(part, rows)).squares() for part in parts]  # of padding too: kernels may add otherwise in another shape
    norms, terms = (torch.stack(of).sum(0).sqrt() for of in zip(*found))
    if single and rows is not None:
        kept = torch.as_tensor(rows[:, 0], device=norms.device)
        norms, terms = norms[kept], terms[kept]
    factors = torch.where(norms > limit, limit / norms, 1.0).minimum(absolute / terms)
    keep = torch.isfinite(norms)
    if not keep.all():
        mask = keep.cpu().numpy()
        rows, factors = (np.arange(len(mask))[:, None] if rows is None else rows)[mask], factors[keep]
    return rows, factors


def _chosen(part: Part, rows: NDArray[np.int64] | None) -> Part:
    return part if rows is None else part.chosen(torch.as_tensor(rows, device=part.device))


def on_host(values: Any) -> Any:
    """Values as NumPy has them."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
