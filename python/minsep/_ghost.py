"""Ghost clipping: norms and sums of gradients of which no example's own is made, with a bound on
their rounding (docs/formulas.md, F2.1).

Of each layer the book holds the input a and the gradient b of its output, for each example and
position: the example's gradient is the sum of the products of a and b over the positions, as real
numbers. Linear layers, embeddings and LoRA are of this kind; every other parameter, such as a bias
or the weight of a norm, has its gradient by example.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterator

import torch
from torch.func import grad

from ._clip import SLACK
from ._tree import ClipNorm

# What the rounding of the sum of a microbatch may take of the clip norm.
SHARE = 2.0**-12

# What all rounding may take of it. Beyond, noise on a finer grid costs less.
MOST = 2.0**-7

# Of examples at once, in numbers of 8 bytes, where gradients are made one after the other for their
# norms.
_ROOM = 2**22


def gamma(k: int) -> float:
    """The relative error of a sum of products of k factors and terms in float64, in any order
    (Higham, section 3.1), rounded up."""
    return 1.01 * k * 2.0**-53


@dataclass
class Product:
    """What a parameter of shape [rows, cols] has of n examples: the dense left [n, places, rows]
    and right [n, places, cols], and the rows ids [n, more places] that looked [n, more places,
    cols] is added to."""

    left: torch.Tensor
    right: torch.Tensor
    ids: torch.Tensor
    looked: torch.Tensor

    @property
    def places(self) -> int:
        return int(self.left.shape[1] + self.ids.shape[1])

    def norms(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For each example, a bound of the square of its gradient's norm, and the sum of the
        products of the norms of its factors, both up to relative errors far below SLACK. What is
        not finite is so here."""
        squares, majorants = zip(*(self._part(part)._norms() for part in self._few()))
        return torch.cat(squares), torch.cat(majorants)

    def _few(self) -> Iterator[slice]:
        """Examples whose numbers have room in float64 together."""
        count = len(self.left)
        size = max(_ROOM // max(self.left[0].numel() + self.right[0].numel() + self.looked[0].numel(), 1), 1)
        return (slice(first, first + size) for first in range(0, count, size))

    def _part(self, part: slice) -> Product:
        return Product(self.left[part], self.right[part], self.ids[part], self.looked[part])

    def _norms(self) -> tuple[torch.Tensor, torch.Tensor]:
        left, right, looked = (x.to(torch.float64) for x in (self.left, self.right, self.looked))
        dense = (left.norm(dim=2) * right.norm(dim=2)).sum(1)
        rows = looked.norm(dim=2).sum(1)
        square = self._dense(left, right, dense) + self._rows(looked, rows)
        if left.shape[1] and looked.shape[1]:
            places = self.ids[:, None, :].expand(-1, left.shape[1], -1)
            cross = (left.gather(2, places) * (right @ looked.transpose(1, 2))).sum((1, 2))
            square = square + 2 * (cross + gamma(left.shape[1] * looked.shape[1] + right.shape[2] + 4) * dense * rows)
        return square.clamp(min=0), dense + rows

    def _dense(self, left: torch.Tensor, right: torch.Tensor, majorant: torch.Tensor) -> torch.Tensor:
        """Of left and right alone: by Gram matrices, or by the gradients of a few examples at a
        time, whichever takes fewer products."""
        (count, places, rows), cols = left.shape, right.shape[2]
        if places * (rows + cols) <= rows * cols:
            gram = (left @ left.transpose(1, 2)) * (right @ right.transpose(1, 2))
            return gram.sum((1, 2)) + gamma(rows + cols + places**2 + 4) * majorant**2
        size = max(_ROOM // (rows * cols), 1)
        found = [(left[i : i + size].transpose(1, 2) @ right[i : i + size]).flatten(1).norm(dim=1) for i in range(0, count, size)]
        return (torch.cat(found) + gamma(places + 4) * majorant) ** 2

    def _rows(self, looked: torch.Tensor, majorant: torch.Tensor) -> torch.Tensor:
        """Of the rows that were looked up alone: those of one id are added first."""
        count, places = self.ids.shape
        if not places:
            return torch.zeros_like(majorant)
        rows = self.left.shape[2]
        keys, at = torch.unique((torch.arange(count, device=self.ids.device)[:, None] * rows + self.ids).flatten(), return_inverse=True)
        sums = _added((len(keys), looked.shape[2]), at, looked.flatten(0, 1))
        square = _added((count,), keys // rows, sums.square().sum(1))
        return (square.sqrt() + gamma(places + 4) * majorant) ** 2

    def sum(self, shape: tuple[int, ...], factors: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        """The sum over the examples, each times its factor. An example that is not kept has no part
        in it."""
        total = torch.zeros(shape, dtype=torch.float64, device=factors.device)
        for few in self._few():
            part, factor, kept = self._part(few), factors[few, None, None], keep[few, None, None]
            left, right, looked = (torch.where(kept, x, 0).to(torch.float64) for x in (part.left, part.right, part.looked))
            total.addmm_((left * factor).flatten(0, 1).T, right.flatten(0, 1))
            total.index_put_((part.ids.flatten(),), (looked * factor).flatten(0, 1), accumulate=True)
        return total


def _added(shape: tuple[int, ...], at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values added at places of the first dimension, in one order on every device."""
    return torch.zeros(shape, dtype=torch.float64, device=values.device).index_put_((at,), values, accumulate=True)


@dataclass
class Book:
    """What is known of the gradients of n examples: of some parameters products, of the others the
    gradients [n, ...]."""

    count: int
    shapes: dict[str, tuple[int, ...]]
    products: dict[str, Product]
    gradients: dict[str, torch.Tensor]


def clip_and_sum(book: Book, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> dict[str, torch.Tensor]:
    """The sum of a microbatch's clipped gradients, rounded to the grid, in float64.

    Zero in the place of one example's gradient moves it by at most clip_norm: what rounding adds is
    taken from the norm to which gradients are clipped (docs/formulas.md, F2.1). An example whose
    norm is not finite counts as zero.
    """
    return dict(each_sum(book, clip_norm, grid, is_padding))


def each_sum(book: Book, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> Iterator[tuple[str, torch.Tensor]]:
    """The same, one parameter after the other, so that none needs to be kept."""
    with torch.no_grad():
        limit, most = limits(book, clip_norm, grid)
        norms, majorants = (x.sqrt() for x in _squares(book))
        keep = torch.isfinite(norms) & torch.isfinite(majorants)
        if is_padding is not None:
            keep &= ~torch.as_tensor(is_padding, dtype=torch.bool, device=keep.device)
        factors = torch.minimum(torch.where(norms > limit, limit / norms, 1.0), torch.where(majorants > most, most / majorants, 1.0))
        factors = torch.where(keep, factors, 0.0)
    for name, shape in book.shapes.items():
        with torch.no_grad():
            if name in book.products:
                total = book.products[name].sum(shape, factors, keep)
            else:
                flat = torch.where(keep[:, None], book.gradients[name].to(torch.float64).reshape(book.count, -1), 0)
                total = (factors[:, None] * flat).sum(0).reshape(shape)
            if grid:
                total = torch.round(total / grid) * grid
        yield name, total


def _squares(book: Book) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds of the squares of norm and majorant of each example's whole gradient."""
    some = next(iter([*book.gradients.values(), *(p.right if p.right.shape[1] else p.looked for p in book.products.values())]))
    squares = torch.zeros(2, book.count, dtype=torch.float64, device=some.device)
    for g in book.gradients.values():
        squares += g.to(torch.float64).reshape(book.count, -1).square().sum(1)
    for product in book.products.values():
        square, majorant = product.norms()
        squares += torch.stack([square, majorant.square()])
    return squares[0], squares[1]


def limits(book: Book, clip_norm: ClipNorm, grid: float) -> tuple[float, float]:
    """To what norm, and to what majorant, the gradients of a microbatch are clipped, so that its
    rounded sum moves by at most clip_norm (F2.1)."""
    limit = limit_of(sum(math.prod(shape) for shape in book.shapes.values()), clip_norm, grid)
    places = max([1, *(product.places for product in book.products.values())])
    error = 2 * gamma(book.count * places + 4) * book.count
    return limit * (1 - SLACK), SHARE * clip_norm / error * (1 - SLACK)


def limit_of(coordinates: int, clip_norm: float, grid: float) -> float:
    """The clip norm without what rounding takes of it. Refused where that is much."""
    limit = clip_norm * (1 - SHARE) - grid * math.sqrt(coordinates)
    if limit < clip_norm * (1 - MOST):
        raise ValueError(
            f'clipping "ghost": rounding the sums of {coordinates} coordinates to multiples of the grid, {grid}, takes {1 - limit / clip_norm:.1%} of the clip norm, and may take {MOST:.1%}: '
            'make the noise with --dtype float64, whose grid is finer; or give clipping="examples", which rounds each gradient toward zero'
        )
    return limit


# Books


@dataclass
class _Layer:
    """A layer whose weight's gradient is a sum of products."""

    name: str  # of its weight
    kind: str
    padding: int | None  # the id whose row has no gradient


@dataclass
class _Call:
    """A call of a layer in the loss of an example."""

    module: torch.nn.Module
    kind: torch.Tensor  # of no size, of the type and on the device of what the layer gave
    shape: tuple[int, ...]


class Ghost:
    """Makes books of a model's gradients."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._calls: dict[Any, list[_Call]] = {}

    def books(self, loss: Callable[..., torch.Tensor], together: Callable[..., Any] | None, trained: dict[str, torch.Tensor], alone: Collection[str] = ()) -> Callable[..., Book]:
        """A function of the parameters and the examples of a microbatch. together is vmap; without
        it, examples are taken one by one. alone names weights that loss is not given, as their
        layers have them."""
        layers = self._layers(trained)

        def make(given: dict[str, torch.Tensor], *batch: torch.Tensor) -> Book:
            shapes, params = {name: tuple(p.shape) for name, p in given.items()}, {name: p for name, p in given.items() if name not in alone}
            calls = self._called(loss, layers, params, [x[0] for x in batch])
            whole = {layers[call.module].name for call in calls}
            parts = {"small": {name: p for name, p in params.items() if name not in whole}, "probes": [call.kind.new_zeros(call.shape) for call in calls]}
            held = {name: params[name] for name in whole if name in params}

            def of_one(parts: Any, *one: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
                with _listening(calls, layers, parts["probes"]) as inputs:
                    value = loss({**held, **parts["small"]}, *one)
                return value, inputs

            if together is None:
                found, inputs = _stacked([_gradient(of_one, parts, [x[i] for x in batch]) for i in range(len(batch[0]))])
            else:
                found, inputs = together(grad(of_one, has_aux=True), parts, *batch)
            products = _products([layers[call.module] for call in calls], shapes, inputs, found["probes"])
            unused = [name for name in alone if name in shapes and name not in products]
            zero = torch.zeros(len(batch[0]), 0, 1, device=batch[0].device)
            products |= {name: Product(zero.expand(-1, -1, shapes[name][0]), zero.expand(-1, -1, shapes[name][1]), zero[..., 0].long(), zero.expand(-1, -1, shapes[name][1])) for name in unused}
            return Book(len(batch[0]), shapes, products, found["small"])

        return make

    def _layers(self, trained: dict[str, torch.Tensor]) -> dict[torch.nn.Module, _Layer]:
        """The layers whose trained weights have gradients that are sums of products."""
        names = {id(p): name for name, p in trained.items()}
        found: dict[torch.nn.Module, _Layer] = {}
        for module in self._model.modules():
            weight = module._parameters.get("weight")
            kind = kind_of(module)
            if weight is not None and id(weight) in names and kind:
                found[module] = _Layer(names[id(weight)], kind, getattr(module, "padding_idx", None))
        return found

    def _called(self, loss: Any, layers: dict[torch.nn.Module, _Layer], params: dict[str, torch.Tensor], one: list[torch.Tensor]) -> Any:
        """The calls of layers in the loss of one example, with shape and type of what they give.
        Found once for examples of one shape."""
        key = (tuple((x.shape, x.dtype) for x in one), tuple(sorted(params)), tuple(m.training for m in self._model.modules()))
        if key not in self._calls:
            devices = {p.device for p in params.values() if p.device.type == "cuda"}
            with torch.random.fork_rng([*devices]):  # a step that is repeated has it in its cache, or has not
                self._calls[key] = _trace(loss, layers, params, one)
        return self._calls[key]


def kind_of(module: torch.nn.Module) -> str:
    """What a layer does with its weight, where its forward is the one that is known."""
    if "forward" in module.__dict__:  # another program has put its own there
        return ""
    if isinstance(module, torch.nn.Linear) and type(module).forward is torch.nn.Linear.forward:
        return "linear"
    if isinstance(module, torch.nn.Embedding) and type(module).forward is torch.nn.Embedding.forward:
        return "" if module.scale_grad_by_freq or module.sparse or module.max_norm is not None else "embedding"
    if any(kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils" for kind in type(module).__mro__):
        return "transposed"
    return ""


def _trace(loss: Any, layers: dict[torch.nn.Module, _Layer], params: dict[str, torch.Tensor], one: list[torch.Tensor]) -> list[_Call]:
    """The calls of layers in the loss of one example. Weights that are used outside of them too are
    refused."""
    calls: list[_Call] = []
    weights = {name: p.detach().requires_grad_() for name, p in params.items()}
    hidden: list[tuple[torch.nn.Module, Any]] = []

    def hide(module: torch.nn.Module, _: Any) -> None:
        hidden.append((module, module._parameters["weight"]))
        module._parameters["weight"] = module._parameters["weight"].detach()

    def show(module: torch.nn.Module, _: Any, output: torch.Tensor) -> None:
        module._parameters["weight"] = hidden.pop()[1]
        calls.append(_Call(module, output.detach().new_empty(0), tuple(output.shape)))

    hooks = [h for m in layers for h in (m.register_forward_pre_hook(hide), m.register_forward_hook(show, prepend=True))]
    try:
        with torch.enable_grad():
            value = loss(weights, *one)
    finally:
        for hook in hooks:
            hook.remove()
        for module, weight in hidden:
            module._parameters["weight"] = weight
    names = sorted({layers[call.module].name for call in calls})
    given = [name for name in names if name in weights]
    others = torch.autograd.grad(value, [weights[name] for name in given], allow_unused=True) if given and value.requires_grad else [None] * len(given)
    for name, other in zip(given, others):
        if other is not None:
            raise ValueError(
                f'clipping "ghost": the parameter {name} is used outside its layer too, and ghost clipping knows the uses by Linear and Embedding layers only: give clipping="examples"'
            )
    return calls


@contextlib.contextmanager
def _listening(calls: list[_Call], layers: dict[torch.nn.Module, _Layer], probes: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Adds a probe to what each call of a layer gives, and keeps its input."""
    inputs: list[torch.Tensor] = []

    def keep(module: torch.nn.Module, given: Any, named: Any, output: torch.Tensor) -> torch.Tensor:
        i = len(inputs)
        if i == len(calls) or calls[i].module is not module or output.shape != probes[i].shape:
            raise ValueError(f'clipping "ghost": the model does not always call its layers in the same way, as {type(module).__name__} is: give clipping="examples"')
        inputs.append(given[0] if given else named["input"])
        return output + probes[i]

    hooks = [module.register_forward_hook(keep, prepend=True, with_kwargs=True) for module in layers]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()
    if len(inputs) != len(calls):
        raise ValueError('clipping "ghost": the model does not always call its layers in the same way: give clipping="examples"')


def _gradient(of_one: Any, given: Any, one: list[torch.Tensor]) -> Any:
    """What grad(of_one, has_aux=True) gives, for models that torch.func cannot run."""
    held: dict[str, Any] = {"small": {name: p.detach().requires_grad_() for name, p in given["small"].items()}, "probes": [p.clone().requires_grad_() for p in given["probes"]]}
    flat = [*held["small"].values(), *held["probes"]]
    with torch.enable_grad():
        value, inputs = of_one(held, *one)
        found = torch.autograd.grad(value, flat, allow_unused=True)
    whole = [torch.zeros_like(p) if g is None else g for p, g in zip(flat, found)]
    count = len(held["small"])
    return {"small": dict(zip(held["small"], whole[:count])), "probes": whole[count:]}, [x.detach() for x in inputs]


def _stacked(found: list[Any]) -> Any:
    small = {name: torch.stack([one["small"][name] for one, _ in found]) for name in found[0][0]["small"]}
    probes = [torch.stack([one["probes"][i] for one, _ in found]) for i in range(len(found[0][0]["probes"]))]
    return {"small": small, "probes": probes}, [torch.stack([inputs[i] for _, inputs in found]) for i in range(len(found[0][1]))]


def _products(layers: list[_Layer], shapes: dict[str, tuple[int, ...]], inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> dict[str, Product]:
    """The products of each weight, over all calls of all layers that have it."""
    parts: dict[str, list[Product]] = {}
    for layer, x, b in zip(layers, inputs, outputs):
        rows, cols = shapes[layer.name]
        count = len(b)
        b = _single(b).reshape(count, -1, b.shape[-1])
        if layer.kind == "embedding":
            ids = x.reshape(count, -1)
            if layer.padding is not None:
                b = torch.where((ids == layer.padding)[..., None], 0, b)
            found = Product(b.new_zeros(count, 0, rows), b.new_zeros(count, 0, cols), ids, b)
        else:
            a = _single(x).reshape(count, -1, x.shape[-1])
            left, right = (b, a) if layer.kind == "linear" else (a, b)
            found = Product(left, right, torch.zeros(count, 0, dtype=torch.long, device=b.device), b.new_zeros(count, 0, cols))
        parts.setdefault(layer.name, []).append(found)
    return {name: _joined(all_of) if len(all_of) > 1 else all_of[0] for name, all_of in parts.items()}


def _joined(parts: list[Product]) -> Product:
    return Product(*(torch.cat([getattr(p, field) for p in parts], dim=1) for field in ("left", "right", "ids", "looked")))


def _single(x: torch.Tensor) -> torch.Tensor:
    """At most a float32: the squares and products of two are in the range of float64."""
    return x.detach().to(torch.float32) if x.dtype == torch.float64 else x.detach()
