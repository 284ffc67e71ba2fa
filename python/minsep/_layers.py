"""Gradients by example of a model in PyTorch 2: of layers from their inputs and the gradients of
their outputs, of other parameters from a copy for each example."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterator, Sequence

import torch
import torch.nn.functional as F

from ._arguments import NO_GRADIENT
from ._torchclip import Part, Product, Stored

_CHECKPOINT = "torch.utils.checkpoint makes activations again in the backward pass, in which torch.func cannot"


@dataclass
class _Layer:
    """A layer whose weight's gradient is a sum of products."""

    name: str  # of its weight
    kind: str
    module: torch.nn.Module


@dataclass
class _Call:
    """A call of a layer in the loss of an example."""

    module: torch.nn.Module
    kind: torch.Tensor  # of no size, of the type and on the device of what the layer gave
    shape: tuple[int, ...]


class Layers:
    """Makes the gradients of a model by example, as parts that can be clipped."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._calls: dict[Any, list[_Call]] = {}

    def gradients(self, loss: Callable[..., torch.Tensor], together: Callable[..., Any], trained: dict[str, torch.Tensor], alone: Collection[str] = ()) -> Callable[..., dict[str, Part]]:
        """A function of the parameters and the examples of a microbatch. together is vmap, and
        alone names weights that loss is not given, as their layers have them."""
        layers = self._layers(trained)

        def make(weights: dict[str, torch.Tensor], *batch: torch.Tensor) -> dict[str, Part]:
            params = {name: p for name, p in weights.items() if name not in alone}
            calls = self._called(loss, layers, params, [x[0] for x in batch])
            used = {call.module: layers[call.module] for call in calls}
            whole = {layer.name for layer in used.values()}
            held = {name: params[name] for name in whole if name in params}
            # Of each example its own, in no memory: vmap lets it see no other's.
            small = {name: p.expand(len(batch[0]), *p.shape).requires_grad_() for name, p in params.items() if name not in whole}
            probes = [call.kind.new_zeros(()).expand(len(batch[0]), *call.shape).requires_grad_() for call in calls]

            def of_one(small: Any, probes: Any, *one: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
                with _listening(calls, used, probes) as inputs:
                    value = loss({**held, **small}, *one)
                return value, inputs

            with torch.enable_grad(), torch.autograd.graph.disable_saved_tensors_hooks(_CHECKPOINT):
                values, inputs = together(of_one, small, probes, *batch)
            variables = [*small.values(), *probes]
            given = gradients_of(values, variables)
            found = [torch.zeros_like(x) if g is None else g for x, g in zip(variables, given)]
            parts: dict[str, Part] = {name: Stored(g) for name, g in zip(small, found)}
            parts |= _products([layers[call.module] for call in calls], inputs, found[len(small) :])
            parts |= {name: _none(len(batch[0]), p) for name, p in weights.items() if name not in parts}  # whose layers have no call
            return {name: parts[name] for name in weights}

        return make

    def _layers(self, trained: dict[str, torch.Tensor]) -> dict[torch.nn.Module, _Layer]:
        """The layers whose trained weights have gradients that are sums of products."""
        names = {id(p): name for name, p in trained.items()}
        found: dict[torch.nn.Module, _Layer] = {}
        for module in self._model.modules():
            weight = module._parameters.get("weight")
            kind = kind_of(module)
            if weight is not None and id(weight) in names and kind:
                found[module] = _Layer(names[id(weight)], kind, module)
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
    """What a layer does with its weight, if its forward is the one that is known."""
    if "forward" in module.__dict__:  # another program has put its own there
        return ""
    if isinstance(module, torch.nn.Linear) and type(module).forward is torch.nn.Linear.forward:
        return "linear"
    if isinstance(module, torch.nn.Embedding) and type(module).forward is torch.nn.Embedding.forward:
        return "" if module.scale_grad_by_freq or module.sparse or module.max_norm is not None else "embedding"
    if type(module) in (torch.nn.Conv1d, torch.nn.Conv2d):
        return "convolution" if module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str) else ""
    if any(kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils" for kind in type(module).__mro__):
        return "transposed"
    return ""


def _trace(loss: Any, layers: dict[torch.nn.Module, _Layer], params: dict[str, torch.Tensor], one: list[torch.Tensor]) -> list[_Call]:
    """The calls of layers in the loss of one example, without those whose weights are used outside
    of them too."""
    calls: list[_Call] = []
    weights = {name: p.detach().requires_grad_() for name, p in params.items()}
    hidden: list[tuple[torch.nn.Module, Any]] = []

    def hide(module: torch.nn.Module, _: Any) -> None:
        hidden.append((module, module._parameters["weight"]))
        module._parameters["weight"] = module._parameters["weight"].detach()

    def show(module: torch.nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        module._parameters["weight"] = hidden.pop()[1]
        calls.append(_Call(module, output.detach().new_empty(0), tuple(output.shape)))
        return output if output.requires_grad else output.detach().requires_grad_().clone()  # so that the loss tells whether it depends on it

    hooks = [h for m in layers for h in (m.register_forward_pre_hook(hide), m.register_forward_hook(show, prepend=True))]
    try:
        with torch.enable_grad():
            value = loss(weights, *one)
    finally:
        for hook in hooks:
            hook.remove()
        for module, weight in hidden:
            module._parameters["weight"] = weight
    if not value.requires_grad:
        raise ValueError(NO_GRADIENT)
    given = sorted({layers[call.module].name for call in calls} & {*weights})
    others = torch.autograd.grad(value, [weights[name] for name in given], allow_unused=True) if given else []
    elsewhere = {name for name, other in zip(given, others) if other is not None}
    return [call for call in calls if layers[call.module].name not in elsewhere]


def gradients_of(loss: torch.Tensor, variables: list[torch.Tensor]) -> Sequence[torch.Tensor | None]:
    """The gradients of the losses of examples. A loss that depends on no variable is refused, whatever
    other weights it depends on."""
    given = torch.autograd.grad(loss, variables, torch.ones_like(loss), allow_unused=True) if loss.requires_grad else ()
    if all(g is None for g in given):
        raise ValueError(NO_GRADIENT)
    return given


@contextlib.contextmanager
def _listening(calls: list[_Call], layers: Collection[torch.nn.Module], probes: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Adds a probe to what each call of a layer gives, and keeps its input."""
    inputs: list[torch.Tensor] = []
    changed = "model: does not always call its layers in the same way{}: give microbatch=1, which makes the gradients one by one"

    def keep(module: torch.nn.Module, given: Any, named: Any, output: torch.Tensor) -> torch.Tensor:
        i = len(inputs)
        if i == len(calls) or calls[i].module is not module or output.shape != probes[i].shape:
            raise ValueError(changed.format(f", as {type(module).__name__} is"))
        inputs.append(given[0] if given else named["input"])
        return output + probes[i]

    hooks = [module.register_forward_hook(keep, prepend=True, with_kwargs=True) for module in layers]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()
    if len(inputs) != len(calls):
        raise ValueError(changed.format(""))


def _products(layers: list[_Layer], inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> dict[str, Part]:
    """The parts of each weight, over all calls of all layers that have it."""
    found: dict[str, list[Product]] = {}
    for layer, x, b in zip(layers, inputs, outputs):
        found.setdefault(layer.name, []).append(_product(layer, x, _single(b)))
    return {name: _smaller(products[0] if len(products) == 1 else _joined(products)) for name, products in found.items()}


def _product(layer: _Layer, x: torch.Tensor, b: torch.Tensor) -> Product:
    """What one call says of the weight's gradient, of its input and the gradient of its output."""
    count, module = len(b), layer.module
    shape = tuple(module.weight.shape)
    rows, cols = shape[0], math.prod(shape[1:])
    if layer.kind == "embedding":
        ids, b = x.reshape(count, -1), b.reshape(count, -1, cols)
        if module.padding_idx is not None:
            b = torch.where((ids == module.padding_idx)[..., None], 0, b)
        return Product(b.new_zeros(count, 0, rows), b.new_zeros(count, 0, cols), ids, b, shape)
    if layer.kind == "convolution":
        left, right = _unfolded(module, _single(x), b)
    else:
        left, right = b.reshape(count, -1, b.shape[-1]), _single(x).reshape(count, -1, x.shape[-1])
        if layer.kind == "transposed":
            left, right = right, left
    return Product(left, right, torch.zeros(count, 0, dtype=torch.long, device=b.device), b.new_zeros(count, 0, cols), shape)


def _unfolded(module: Any, x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The windows of a convolution's input, and the gradients of what it made of them, [n, places,
    …]."""
    size, dilation, padding, stride = module.kernel_size, module.dilation, module.padding, module.stride
    if len(size) == 1:  # a convolution of images of height 1
        size, dilation, padding, stride = (1, *size), (1, *dilation), (0, *padding), (1, *stride)
        x = x[..., None, :]
    images = x.reshape(-1, *x.shape[-3:])
    windows = F.unfold(images, size, dilation, padding, stride).transpose(1, 2)
    outputs = b.reshape(len(images), module.out_channels, -1).transpose(1, 2)
    return outputs.reshape(len(x), -1, module.out_channels), windows.reshape(len(x), -1, windows.shape[2])


def _smaller(product: Product) -> Part:
    """The gradients themselves, if they take no more memory than what they are made of."""
    (count, places, rows), cols = product.left.shape, product.right.shape[2]
    if product.ids.shape[1] or places * (rows + cols) <= rows * cols:
        return product
    return Stored((product.left.float().transpose(1, 2) @ product.right.float()).reshape(count, *product.shape))


def _none(count: int, weight: torch.Tensor) -> Product:
    """Gradients of zeros."""
    rows, cols = weight.shape
    left, right = (torch.zeros(count, 0, size, device=weight.device) for size in (rows, cols))
    return Product(left, right, torch.zeros(count, 0, dtype=torch.long, device=weight.device), right, (rows, cols))


def _joined(parts: list[Product]) -> Product:
    left, right, ids, looked = (torch.cat([getattr(p, field) for p in parts], dim=1) for field in ("left", "right", "ids", "looked"))
    return Product(left, right, ids, looked, parts[0].shape)


def _single(x: torch.Tensor) -> torch.Tensor:
    """At most a float32: the squares and products of two are in the range of float64."""
    return x.detach().to(torch.float32) if x.dtype == torch.float64 else x.detach()
