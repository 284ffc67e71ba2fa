"""Models whose parameters torch.distributed.fsdp.fully_shard has divided: each process holds some
rows of each of them, and of the optimizer's state.

A weight of a Linear or Embedding layer, unless it is trained with gradients that are made one by
one, is gathered where its layer is computed, forward and backward, and not kept.
Other parameters are gathered for a step. The sums of each microbatch go to the processes that make
the noise of their coordinates, and the noisy mean to those that hold them. So no process holds the
whole model, sum or mean.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Callable, Iterable, Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ._layers import kind_of
from ._noise import shard_range
from ._processes import Processes
from .errors import TrainingError

try:
    from torch.distributed.tensor import DTensor, Shard
except ImportError:  # before PyTorch 2.5, or without torch.distributed: nothing is divided
    DTensor = Shard = None


def is_divided(x: Any) -> bool:
    """Whether a tensor is one of which each process holds a part."""
    return DTensor is not None and isinstance(x, DTensor)


def local(x: torch.Tensor) -> torch.Tensor:
    """What this process holds of a tensor."""
    if not is_divided(x):
        return x
    with torch.no_grad():
        return x.to_local()


class Sharded:
    """A model whose parameters are divided over the processes."""

    def __init__(self, model: torch.nn.Module, processes: Processes, plain: bool, owners: bool) -> None:
        self._model, self._processes, self._plain = model, processes, plain
        self._by_layer = not (plain and owners)  # examples of an owner are computed one by one, and processes would not gather equally often
        self._gathers = 0
        self.layers: list[_Layer] = []
        self.check()

    @classmethod
    def of(cls, model: torch.nn.Module, processes: Processes, plain: bool, owners: bool) -> Sharded | None:
        """The model, where fully_shard has divided it. plain says that examples are computed one by
        one, owners that these are sampled."""
        reshard(model)
        return cls(model, processes, plain, owners) if any(is_divided(p) for p in model.parameters()) else None

    def check(self) -> None:
        """Refuses parameters that are divided otherwise than fully_shard divides them over all
        processes, and finds the layers that gather their own."""
        for name, p in self._model.named_parameters():
            if not is_divided(p):
                continue
            mesh = p.device_mesh.mesh.reshape(-1).tolist()
            lo, hi = self._rows(p, self._processes.rank) if p.ndim else (0, 0)
            if p.placements != (Shard(0),) or mesh != list(range(self._processes.count)) or len(p.to_local()) != hi - lo:
                raise ValueError(f"model: the parameter {name} is divided as {p.placements} over processes {mesh}: must be divided by its first dimension over all {self._processes.count}, as fully_shard(model) does without a mesh of your own")
        for module in self._model.modules():
            policy = getattr(_state(module), "_mp_policy", None)
            if getattr(policy, "param_dtype", None) is not None or getattr(policy, "output_dtype", None) is not None:
                raise ValueError("model: fully_shard has a mp_policy, which per-example gradients ignore: leave it out, and compute in bfloat16 by torch.autocast in loss")
        self.layers = [_Layer(self, i, name, module) for i, (name, module) in enumerate(self._model.named_modules()) if self._gathers_alone(module)]

    def _gathers_alone(self, module: torch.nn.Module) -> bool:
        weight = module._parameters.get("weight")
        return self._by_layer and is_divided(weight) and kind_of(module) in ("linear", "transposed", "embedding") and not (self._plain and weight.requires_grad)

    @property
    def alone(self) -> set[int]:
        """The parameters that their layers gather, by id."""
        return {id(layer.weight) for layer in self.layers}

    def _rows(self, p: torch.Tensor, rank: int) -> tuple[int, int]:
        """The rows of a parameter that a process holds."""
        size = -(-p.shape[0] // self._processes.count)
        return min(rank * size, p.shape[0]), min((rank + 1) * size, p.shape[0])

    # Gathering

    def whole(self) -> dict[str, torch.Tensor]:
        """The parameters as a loss is given them, by name: whole ones, but for those that their
        layers gather."""
        alone = self.alone
        return {name: self.gathered(p) if is_divided(p) else p for name, p in self._model.named_parameters() if id(p) not in alone}

    def gathered(self, p: Any, layer: int = 0) -> torch.Tensor:
        """A divided tensor as a whole one. All processes gather the same at the same time, or
        TrainingError is raised."""
        mine, count = p.to_local().detach().contiguous(), self._processes.count
        if count == 1:
            return mine
        most, size = -(-p.shape[0] // count), p.element_size() * (p.numel() // max(p.shape[0], 1))
        given = torch.zeros(most * size, dtype=torch.uint8, device=mine.device)
        given[: len(mine) * size] = mine.reshape(-1).view(torch.uint8)
        rows = [self._rows(p, rank) for rank in range(count)]
        self.meet(mine.device, layer)
        all_of = torch.empty(count * len(given), dtype=torch.uint8, device=mine.device)
        dist.all_gather_into_tensor(all_of, given)
        whole = torch.cat([part[: (b - a) * size] for part, (a, b) in zip(all_of.reshape(count, -1), rows)])
        return whole.view(p.dtype).reshape(p.shape)

    def meet(self, device: torch.device, layer: int = -1) -> None:
        """Waits for all processes: each has gathered as often as the others, and is about to gather
        the weight of the same layer, or, without one, to add up sums; or TrainingError is
        raised."""
        if self._processes.count == 1:
            return
        self._gathers += 1
        mine = torch.tensor([self._gathers, layer], dtype=torch.int64, device=device)
        all_of = torch.empty(2 * self._processes.count, dtype=torch.int64, device=device)
        dist.all_gather_into_tensor(all_of, mine)
        if not torch.equal(all_of.reshape(-1, 2), mine.expand(self._processes.count, -1)):
            raise TrainingError(
                "model: the processes call its layers in different orders, as where a layer depends on the example, and would compute with each other's weights: leave fully_shard out for such a model, so that "
                "each process holds it whole"
            )

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Where gradients are made: fully_shard's own hooks gather nothing, and layers gather their
        weights."""
        hooks = [(of, key, hook) for m in self._model.modules() for of in (m._forward_pre_hooks, m._forward_hooks) for key, hook in of.items() if _is_of_fsdp(hook)]
        orders = {id(of): (of, dict(of)) for of, _, _ in hooks}
        for of, key, _ in hooks:
            del of[key]
        for layer in self.layers:
            layer.module.forward = types.MethodType(layer.forward(self._plain), layer.module)
        try:
            yield
        except RuntimeError as err:
            if "DTensor" not in str(err):
                raise
            names = ", ".join(layer.name for layer in self.layers[:3])
            raise ValueError(
                f"model: a weight is used outside of its Linear or Embedding layer, and fully_shard has divided it (of {names}, …): give fully_shard(model, ignored_params={{…}}) that weight, so that each process "
                f"holds it whole ({str(err).splitlines()[0]})"
            ) from err
        finally:
            for layer in self.layers:
                del layer.module.forward
            for of, before in orders.values():
                of.clear()
                of.update(before)

    # Gradients

    def put(self, mean: torch.Tensor, trained: dict[str, torch.Tensor]) -> None:
        """Gives each parameter the gradient of what this process holds, of the mean of the
        coordinates whose noise it makes."""
        count, rank = self._processes.count, self._processes.rank
        places = Places(trained, count)
        held = [[(places.first[name], *self._held(trained[name], r)) for name in places.names] for r in range(count)]
        sent = [[(a, b) for a, b in _met(held[r], places.ranges[rank])] for r in range(count)]
        lo = places.ranges[rank][0]
        out = torch.cat([mean[:0], *(mean[a - lo : b - lo] for to in sent for a, b in to)])
        got = [sum(b - a for a, b in _met(held[rank], places.ranges[r])) for r in range(count)]
        mine = torch.empty(sum(got), dtype=mean.dtype, device=mean.device)
        if count == 1:
            mine = out
        else:
            dist.all_to_all_single(mine, out, got, [sum(b - a for a, b in to) for to in sent])
        # what came is by process, and each has coordinates after those of the one before
        values = torch.split(mine, [b - a for _, a, b in held[rank]])
        for name, value in zip(places.names, values):
            p = trained[name]
            if is_divided(p):
                held_here = value.to(p.dtype).reshape(p.to_local().shape).clone()
                p.grad = DTensor.from_local(held_here, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride())
            else:
                p.grad = value.to(p.dtype).reshape(p.shape).clone()

    def _held(self, p: torch.Tensor, rank: int) -> tuple[int, int]:
        """The coordinates of a parameter that a process holds."""
        if not is_divided(p):
            return 0, p.numel()
        a, b = self._rows(p, rank)
        width = p.numel() // max(p.shape[0], 1)
        return a * width, b * width

    # Checkpoints

    def saved(self, state: Any) -> Any:
        """A state with whole tensors in the place of divided ones, on the processor of process 0;
        the others have none of them. All processes must ask for it."""
        if isinstance(state, dict):
            return {key: self.saved(value) for key, value in state.items()}
        if isinstance(state, (list, tuple)):
            return type(state)(self.saved(value) for value in state)
        if not isinstance(state, torch.Tensor):
            return state
        if is_divided(state):
            if state.placements != (Shard(0),):
                raise ValueError(f"optimizer: keeps a state that is divided as {state.placements}: must work coordinate by coordinate, as Adam and SGD do, where fully_shard divides the parameters")
            state = self.gathered(state)
        return state.detach().cpu() if self._processes.rank == 0 else None

    def loaded_model(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a whole model as that of this one."""
        own = self._model.state_dict()
        return {name: self._cut(value, own.get(name)) for name, value in state.items()}

    def loaded_optimizer(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of an optimizer of whole parameters as that of one of these."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        return {**state, "state": {i: {name: self._cut(value, params[i]) for name, value in of.items()} for i, of in state["state"].items()}}

    def _cut(self, value: Any, like: Any) -> Any:
        """What this process holds of a whole tensor, where like is divided and of its shape."""
        if not is_divided(like) or not isinstance(value, torch.Tensor) or is_divided(value) or value.shape != like.shape:
            return value
        a, b = self._rows(like, self._processes.rank)
        return DTensor.from_local(value[a:b].to(like.device).clone(), like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride())


class Places:
    """Where the coordinates of parameters are: those of a name side by side, in the order of the
    names; and which of them each process makes the noise of."""

    def __init__(self, trained: dict[str, torch.Tensor], count: int) -> None:
        self.names = sorted(trained)
        self.first: dict[str, int] = {}
        self.coordinates = 0
        for name in self.names:
            self.first[name] = self.coordinates
            self.coordinates += trained[name].numel()
        self.ranges = [shard_range(self.coordinates, rank, count) for rank in range(count)]


class Collected:
    """The sum of all microbatches of all processes, of the coordinates whose noise this process
    makes."""

    def __init__(self, trained: dict[str, torch.Tensor], processes: Processes, device: torch.device, meet: Callable[[torch.device], None]) -> None:
        self._places, self._processes, self._meet = Places(trained, processes.count), processes, meet
        lo, hi = self._places.ranges[processes.rank]
        self.total = torch.zeros(hi - lo, dtype=torch.float64, device=device)

    def __call__(self, found: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Adds the sum of a microbatch of each process, name by name."""
        self._meet(self.total.device)
        for name, part in found:
            first = self._places.first[name]
            flat = part.reshape(-1)
            for rank, (lo, hi) in enumerate(self._places.ranges):
                for a, b in _met([(first, 0, len(flat))], (lo, hi)):
                    piece = flat[a - first : b - first]
                    if self._processes.count > 1:
                        dist.reduce(piece, dst=rank)
                    if rank == self._processes.rank:
                        self.total[a - lo : b - lo] += piece


def _met(intervals: list[tuple[int, int, int]], within: tuple[int, int]) -> list[tuple[int, int]]:
    """Parts of [first + a, first + b) that are within another interval, in order."""
    met = ((max(first + a, within[0]), min(first + b, within[1])) for first, a, b in intervals)
    return [(a, b) for a, b in met if a < b]


def reshard(model: torch.nn.Module) -> None:
    """Lets modules of fully_shard hold their parts again, which they gather for an evaluation."""
    for module in model.modules():
        if _state(module) is not None:
            module.reshard()


def _state(module: torch.nn.Module) -> Any:
    """What fully_shard keeps of a module; None where it is none of its own."""
    found = getattr(module, "_get_fsdp_state", None)
    return None if found is None else found()


def _is_of_fsdp(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed.fsdp.") or type(getattr(hook, "__self__", None)).__name__ == "FSDPState"


# Layers


class _Layer:
    """A layer that gathers its weight where it is computed."""

    def __init__(self, sharded: Sharded, number: int, name: str, module: torch.nn.Module) -> None:
        self._sharded, self._number, self.name, self.module, self._kind = sharded, number + 1, name, module, kind_of(module)

    @property
    def weight(self) -> Any:
        return self.module._parameters["weight"]

    def gather(self) -> torch.Tensor:
        return self._sharded.gathered(self.weight, self._number)

    def times(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        weight = self.gather().to(x.dtype)
        if self._kind == "linear":
            return F.linear(x, weight, bias)
        flat = x.reshape(-1, x.shape[-1])
        made = flat @ weight if bias is None else torch.addmm(bias, flat, weight)
        return made.reshape(*x.shape[:-1], weight.shape[1])

    def times_transposed(self, g: torch.Tensor) -> torch.Tensor:
        weight = self.gather().to(g.dtype)
        return g @ (weight if self._kind == "linear" else weight.T)

    def forward(self, plain: bool) -> Callable[..., torch.Tensor]:
        """The forward of the module. plain says that examples are computed one by one: then bias
        and products are one operation, as in PyTorch's own."""

        def embedding(module: Any, input: torch.Tensor) -> torch.Tensor:
            return _Looked.apply(input, self)

        def linear(module: Any, input: torch.Tensor) -> torch.Tensor:
            kind, bias = input.device.type, getattr(module, "bias", None)
            if torch.is_autocast_enabled(kind):
                dtype = torch.get_autocast_dtype(kind)
                input, bias = input.to(dtype), None if bias is None else bias.to(dtype)
            if plain or bias is None:
                return _Product.apply(input, bias, self)
            return _Product.apply(input, None, self) + bias

        return embedding if self._kind == "embedding" else linear


class _Product(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The input of a layer times its weight, of which nothing is kept."""

    @staticmethod
    def forward(x: torch.Tensor, bias: torch.Tensor | None, layer: _Layer) -> torch.Tensor:
        return layer.times(x, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.layer = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        of_x = _Transposed.apply(g, ctx.layer) if ctx.needs_input_grad[0] else None
        return of_x, g.reshape(-1, g.shape[-1]).sum(0) if ctx.needs_input_grad[1] else None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor, bias: Any, layer: _Layer) -> Any:
        return _Product.apply(x.movedim(in_dims[0], 0), bias, layer), 0


class _Transposed(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The gradient of a layer's output times its weight."""

    @staticmethod
    def forward(g: torch.Tensor, layer: _Layer) -> torch.Tensor:
        return layer.times_transposed(g)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        raise RuntimeError("model: fully_shard divides its weights, which rules out second derivatives")

    @staticmethod
    def vmap(info: Any, in_dims: Any, g: torch.Tensor, layer: _Layer) -> Any:
        return _Transposed.apply(g.movedim(in_dims[0], 0), layer), 0


class _Looked(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The rows of a weight that were looked up."""

    @staticmethod
    def forward(ids: torch.Tensor, layer: _Layer) -> torch.Tensor:
        return F.embedding(ids, layer.gather())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, ids: torch.Tensor, layer: _Layer) -> Any:
        return _Looked.apply(ids.movedim(in_dims[0], 0), layer), 0
