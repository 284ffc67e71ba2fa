"""A training in PyTorch as one object: gradients by example, clipping, noise, guard and checkpoint."""

from __future__ import annotations

import contextlib
import os
import pickle
import weakref
from typing import Any, Callable

import numpy as np
import torch
from torch.func import functional_call, vjp, vmap
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import _seeds, _torchsum
from ._alone import Loader, restored, sow
from ._arguments import place
from ._batches import OwnerBatch
from ._clip import HELD
from ._devicereader import opening
from ._dropout import Dropout, mixed
from ._guard import StepGuard
from ._layers import Layers, gradients_of
from ._models import check_modules, check_parameters, check_types
from ._noise import shard_range
from ._processes import Processes
from ._run import Run, need_run
from ._session import NO_CHECKPOINT, Session, replaced
from ._sharded import Collected, Sharded, local, reshard
from ._torchclip import Ghost, Part, Stored, each_sum, round_once
from ._torchnoise import DeviceNoise, RowNoise
from ._tree import check_clip, check_microbatch, check_rows
from .errors import TrainingError

_CHANGES = (
    "model: its {} changes in forward, as running statistics do: it would hold what examples gave it without clipping and noise. Put its layer into eval mode, or take one without such a buffer"
)


class Private:
    """A private training of a model. See `minsep.torch.private`."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, run: Run, *, loss: Callable[..., torch.Tensor], key: str | os.PathLike[str] | None,
        microbatch: int | None, clipping: str, scheduler: Any, folder: str | os.PathLike[str] | None, checkpoint: str | None, checkpoint_steps: int, device_noise: bool = False) -> None:
        self.run, self.model, self.optimizer, self.scheduler = need_run(run, "private(model, optimizer, run, loss=loss)"), model, optimizer, scheduler
        check_types(model, optimizer, loss, scheduler)
        check_microbatch(microbatch)
        self._loss, self._microbatch, self._ghost = _Loss(model, loss), microbatch, _ghost(clipping, microbatch, run)
        self._layers = Layers(model)
        self._processes = Processes()
        self._sharded = Sharded.of(model, self._processes, microbatch == 1, self.run.examples_per_owner is not None)
        self._processes.check_microbatch(microbatch, self._sharded is not None)
        self._session = Session(run, key, folder, checkpoint, checkpoint_steps, processes=self._processes, device_noise=_noise_on_devices if device_noise else None)
        self._alike = False
        self._shapes: list[tuple[int, ...]] | None = None  # of an example
        self._made: list[tuple[torch.Tensor, torch.Tensor, int]] = []  # parameters with the gradients that a step made, and their versions
        self._names = list(self._trained())
        self._check()
        # The optimizer keeps the training, so that it refuses raw gradients after the program has dropped it.
        self._hook = self._watched()
        _trainings.add(self)

    # Guard and checkpoint

    @property
    def guard(self) -> StepGuard:
        """The training's guard. It is made when it is first needed, without a checkpoint if
        load_state_dict was not called before."""
        return self._session.guard or self._begin(None)

    def training_state(self) -> dict[str, Any]:
        """The guard's state, for JSON: for a program that saves model, optimizer and scheduler
        itself."""
        return self.guard.state_dict()

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Goes on from what training_state gave, with model, optimizer and scheduler of the same
        step. It must come before the first step and loader."""
        if self._session.guard is not None:
            raise TrainingError("load_state_dict: the training has begun already: call it once, before state_dict, loader and step")
        if not isinstance(state, dict):
            raise ValueError("state: must be the result of training_state, which is \"minsep\" in the result of state_dict")
        self._begin(state)

    def _begin(self, state: dict[str, Any] | None) -> StepGuard:
        trained = self._trained()
        row = None
        if self._sharded is not None or self._processes.count > 1:
            lo, hi = shard_range(sum(p.numel() for p in trained.values()), self._processes.rank, self._processes.count)
            row = torch.empty(1, device=self._device()).expand(hi - lo)
        return self._session.begin(trained, state, row)

    def _device(self) -> torch.device:
        """The device on which the model is."""
        return next(iter(self._trained().values())).device

    def state_dict(self) -> dict[str, Any]:
        """Model, optimizer, scheduler and guard, for torch.save: all that the training needs to go
        on.

        If fully_shard divides the model, all processes must call it. The tensors are then those of
        the whole model, in the memory of process 0; the other processes have None in their place.
        """
        saved: Callable[[Any], Any] = (lambda x: x) if self._sharded is None else self._sharded.saved
        return {
            "model": saved(dict(self.model.state_dict()) if self._sharded else self.model.state_dict()),
            "optimizer": saved(self.optimizer.state_dict()),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "minsep": self.training_state(),
            "kind": type(self.optimizer).__name__,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint, before the first step and before a loader.

        Steps that were taken after the checkpoint are taken again, with fresh noise and other random
        numbers.
        """
        if not isinstance(state, dict) or set(state) - {"extra", "kind"} != {"model", "optimizer", "scheduler", "minsep"}:
            raise ValueError("state: must be the result of state_dict of a private training, with its model, optimizer and guard: model.state_dict() alone does not go on")
        if (state["scheduler"] is None) != (self.scheduler is None):
            raise ValueError("state: only one of the checkpoint and this training has a scheduler: give private the same scheduler= as before")
        own = type(self.optimizer).__name__
        if state.get("kind", own) != own:
            raise ValueError(f"state: is of a training with the optimizer {state['kind']}, and this one has {own}: give private the optimizer of before")
        self.load_training_state(state["minsep"])
        self.model.load_state_dict(state["model"] if self._sharded is None else self._sharded.loaded_model(state["model"]))
        self.optimizer.load_state_dict(state["optimizer"] if self._sharded is None else self._sharded.loaded_optimizer(state["optimizer"], self.optimizer))
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Writes state_dict to a file, and with it what else the program needs to go on, such as an
        average of weights: tensors, numbers, texts, and dicts and lists of them. A kill leaves the
        earlier file or this one."""
        _check_extra(extra or {}, "extra")
        state = self.state_dict() | {"extra": dict(extra or {})}
        if self._processes.rank > 0:
            return  # all processes have the same
        with replaced(path) as file:
            torch.save(state, file)

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Goes on from the file that save wrote, as load_state_dict does, and returns its extra. If
        there is no file, the training begins, and the file is written at once, so that a start after
        a kill finds it; the result is then empty."""
        if not os.path.exists(path):
            try:
                self.save(path)
            except (TrainingError, OSError) as err:
                raise type(err)(f"{os.fspath(path)}: is no file, so that a training begins: {err}") from None
            return {}
        try:
            state = torch.load(path, map_location=self._device()) if self._sharded is None else torch.load(path, map_location="cpu", mmap=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError) as err:
            raise ValueError(NO_CHECKPOINT.format(os.fspath(path))) from err
        extra: dict[str, Any] = state.get("extra", {}) if isinstance(state, dict) else {}
        self.load_state_dict(state)
        return extra

    def close(self) -> None:
        """Ends the training here: the stream of noise ends, the record of the training is for the
        next process, and the optimizer is as it was."""
        self._hook.remove()
        _trainings.discard(self)
        self._session.close()

    # Batches

    def loader(self, data: Any, *, collate_fn: Callable[[list[Any]], Any] | None = None, **options: Any) -> Loader:
        """The batches that are left, from a torch.utils.data.DataLoader. Its data must be in the
        order of the ids that `run.join` had.

        collate_fn gets each example alone, in a list, and makes a batch of one. So no example
        depends on another, as it would if all were padded to the longest. Random numbers of torch,
        NumPy and Python in data and collate_fn are seeded by step and example. options are those of
        DataLoader. Give each batch to `step` before you take the next.
        """
        for name in "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "worker_init_fn", "generator":
            if name in options:
                raise ValueError(f"{name}: must be left out: the batches are those of the run, whose guarantee is for them and no others, and its random numbers are those of the training")
        return Loader(self.run, data, collate_fn, self.secrets, None, own=lambda batch: self._processes.part(batch, self._microbatch)[0], **options)

    def secrets(self) -> tuple[StepGuard, str]:
        """The guard and the seed of the training, for a loader."""
        return self.guard, self._session.seed

    # Steps

    def step(self, *batch: Any, rows: Any = None, **named: Any) -> None:
        """Trains on the batch of the next step: tensors with the examples as their first dimension,
        in the order of the batch's rows.

        loss gets them with one example at a time. Give a batch of the loader as it comes, even an
        empty one. A batch with padding comes with rows, the result of `minsep.pad(run.batch(t),
        …)`.
        """
        self.make_gradients(*batch, rows=rows, **named)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()

    def make_gradients(self, *batch: Any, rows: Any = None, **named: Any) -> None:
        """The first half of step: it leaves the noisy mean in p.grad, for one step of the optimizer
        that the program makes itself."""
        if self._made:
            raise TrainingError("make_gradients: was called before, and the optimizer has made no step since: call optimizer.step() once after each")
        guard = self.guard
        step = self._session.next_step()
        with guard.telling():
            trained = self._check()
            self._session.check_finite(torch.stack([local(p.detach()).sum(dtype=torch.promote_types(p.dtype, torch.float32)) for p in trained.values()]).isfinite().all())
            names = sorted(named)
            examples = [_tensor(x, f"argument {i + 1}") for i, x in enumerate(batch)] + [_tensor(named[name], name) for name in names]
            shapes = [tuple(x.shape[1:]) for x in examples]
            if self._ghost is not None and self._shapes not in (None, shapes):
                raise ValueError(f'clipping="ghost": the examples of step {step} have another shape than those before, and their factors would tell: pad every example to one length')
            self._shapes = shapes
            if not examples:
                raise ValueError("batch: must be given: step(x, y), the tensors that loss takes after the model")
            if rows is not None and self._processes.count > 1:
                raise ValueError("rows: must be left out with several processes: each has its part of the batch, as the loader gives it, without padding")
            if not self._alike:
                self._processes.check_alike(self.model)
                self._alike = True
            batch_of_all = self._session.rows(step, rows, examples)
            self._check_sum(batch_of_all)
            given = self._processes.part(batch_of_all, self._microbatch)
            if self._sharded is None:
                total = self._sum(trained, step, names, examples, *given)
            else:
                self._processes.check_examples(examples)
        if self._sharded is not None:  # processes compute together, and one that fails now ends, which the others see
            total = self._sum(trained, step, names, examples, *given)
            trained = self._trained()
        self._put(total, self._session.noise(step), trained)
        self._made = [(p, p.grad, local(p.grad)._version) for p in trained.values() if p.grad is not None]
        self._hook.remove()
        self._hook = self._watched()

    def _check_sum(self, batch: Any) -> None:
        """Refuses a batch of which the sum of all processes would not be exact or, for ghost
        clipping, near enough."""
        count, owners = (len(batch.rows), batch.owners) if isinstance(batch, OwnerBatch) else (len(batch), None)
        check_clip(self.run.clip_norm, self.run.grid, [(count, self.run.coordinates)], HELD, owners, False)
        if self._ghost is None:
            return
        taking = batch if owners is None else np.unique(owners)
        if np.count_nonzero(np.asarray(taking) >= 0) > self._ghost.most:
            raise ValueError(f'clipping="ghost": a batch has more than {self._ghost.most}, for which the rounding of its sum is bounded: give clipping="example"')

    def _put(self, total: Any, noise: Any, trained: dict[str, torch.Tensor]) -> None:
        """Adds the noise of a step to its sum, and leaves the noisy mean in p.grad."""

        def add_noise(total: Any, noise: Any) -> Any:
            more = {} if self._ghost is None else {"prepare": lambda sums: round_once(sums, self.run.grid)}
            return _torchsum.noisy_mean(total, noise, self.run.grid, self.run.expected_batch_size, **more)

        if self._sharded is not None:
            self._sharded.put(add_noise(total.total, noise), trained)
            return
        mean = self._processes.mean(total, noise, add_noise) if self._processes.count > 1 else add_noise(total, noise)
        for name, p in trained.items():
            p.grad = mean[name].to(p.dtype)

    def _sum(self, trained: dict[str, torch.Tensor], step: int, names: list[str], examples: list[torch.Tensor], given: Any, rounds: int) -> Any:
        """The sum of the clipped gradients of given rows; where processes compute together, in as
        many microbatches as rounds. Changes of buffers or weights are refused."""
        rows, owners = (given.rows, given.owners) if isinstance(given, OwnerBatch) else (given, None)
        buffers = {name: b.detach().clone() for name, b in self._loss.named_buffers()}
        weights = dict(self._loss.named_parameters())

        def loss(params: Any, seed: torch.Tensor, *one: torch.Tensor) -> torch.Tensor:
            plain = len(one) - len(names)
            parts = [x[None] for x in one]
            values = {f"model.{name}": p for name, p in {**frozen, **params}.items()} | buffers
            with contextlib.nullcontext() if self._microbatch == 1 else Dropout(seed):
                return functional_call(self._loss, values, tuple(parts[:plain]), dict(zip(names, parts[plain:])))

        whole, alone = dict[str, torch.Tensor](), set[str]()
        if self._sharded is not None:
            self._sharded.check()
            whole, alone = self._sharded.whole(), {name for name, p in trained.items() if id(p) in self._sharded.alone}
        frozen = {name: p for name, p in whole.items() if name not in trained}
        weights |= {f"model.{name}": p for name, p in whole.items()}
        versions = {name: x._version for name, x in [*buffers.items(), *weights.items()]}
        make = _one_by_one(loss) if self._microbatch == 1 else self._layers.gradients(loss, _mapped, trained, alone)
        collect = None if self._sharded is None else Collected(trained, self._processes, self._device(), self._sharded.meet)

        def clip(parts: dict[str, Part], norm: float, grid: float, padding: Any, owners: Any) -> Any:  # of each name, one after the other, where they are collected
            found = each_sum(parts, norm, grid, padding, owners, self._ghost)
            return dict(found) if collect is None else found

        def sown(*given: Any) -> Any:  # for random numbers outside of dropout, which no example may change
            sow(_seeds.number(self._session.seed, step))
            return make(*given)

        total = _torchsum.summed(sown, self.run.clip_norm, self.run.grid, self._microbatch, clip)
        check_rows(rows, len(examples[0]), owners)
        seeds = mixed(torch.as_tensor(rows, dtype=torch.int64) + _seeds.number(self._session.seed, step, -1)).to(examples[0].device)
        params = {name: (p if name in alone else whole.get(name, p).detach()) for name, p in trained.items()}
        devices = {p.device for p in params.values() if p.device.type == "cuda"}
        with restored(), torch.random.fork_rng([*devices]), contextlib.nullcontext() if self._sharded is None else self._sharded.computing():
            found = total(params, rows, seeds, *examples, owners=owners, collect=collect, rounds=rounds if collect else 0)
        for name, b in buffers.items():
            if b._version != versions[name] and not torch.equal(b, self._loss.get_buffer(name)):
                raise ValueError(_CHANGES.format(f"buffer {name.removeprefix('model.')}"))
        for name, p in weights.items():
            if p._version != versions[name]:
                raise TrainingError(
                    f"model: its parameter {name.removeprefix('model.')} changes in forward, and has been changed by the examples of this step without clipping and noise: discard it, and begin again from "
                    "a checkpoint, with a model that changes none"
                )
        return found if collect is None else collect

    # Checks

    def _trained(self) -> dict[str, torch.Tensor]:
        """The parameters that are trained, by name, tied ones once."""
        if self._sharded is not None:
            reshard(self.model)
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def _check(self) -> dict[str, torch.Tensor]:
        """The trained parameters. Refuses a model and an optimizer that cannot be trained privately,
        at every step, as modes and parameters change."""
        trained = self._trained()
        if list(trained) != self._names:
            changed = sorted({*trained} ^ {*self._names})[0]
            raise TrainingError(f"model: requires_grad of {changed} has changed since the beginning of the training: set requires_grad before private(model, optimizer, run), and make a run of as many coordinates")
        check_parameters(trained, self.model, self._loss.loss, self.optimizer)
        for part in self.model, self._loss.loss:
            if isinstance(part, torch.nn.Module):
                check_modules(part)
        self._session.check_coordinates(sum(p.numel() for p in trained.values()), "model: has", "set requires_grad of the parameters that are not trained to False")
        return trained

    def check_other(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuses a step of another optimizer than the training's with trained parameters of the model,
        until the training has made its last step."""
        guard = self._session.guard
        if guard is not None and guard.next_step >= self.run.steps or _has_inside(vars(self.optimizer), optimizer):
            return
        theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
        name = next((name for name, p in self.model.named_parameters() if p.requires_grad and id(p) in theirs), None)
        if name is not None:
            raise TrainingError(
                f"optimizer.step: of another {type(optimizer).__name__} than the training's, which has the parameter {name} of its model: its step would have neither clipping nor noise. "
                "Leave it out, or call close() of the training first"
            )

    def _watched(self) -> Any:
        """Lets check_gradients see each step of the optimizer, after the hooks that there are."""
        return self.optimizer.register_step_pre_hook(lambda _, given, named: self.check_gradients(*given, **named))

    def check_gradients(self, *given: Any, **named: Any) -> None:
        """Refuses a step of the optimizer with gradients that are not those that a step has just
        made. given are the optimizer and a closure, if there is one."""
        made, self._made = self._made, []
        if len(given) > 1 and given[1] is not None or named.get("closure") is not None:
            raise TrainingError("optimizer.step: has a closure, whose backward pass would add gradients of examples without noise: leave it out")
        if not made:
            raise TrainingError(
                "optimizer.step: no noisy gradients were made for it: each step of the training has one step of the optimizer, which step makes itself. Leave out optimizer.step, "
                "and a second one in the same step"
            )
        if any(p.grad is not g or local(g)._version != version for p, g, version in made):
            raise TrainingError(
                "optimizer.step: gradients were changed or put away since the noise was added: a backward pass would add gradients of examples without noise. Leave out backward, zero_grad, "
                "gradient clipping and scaling between noise and step: gradients are clipped by example, and averaged already"
            )


def _ghost(clipping: str, microbatch: int | None, run: Run) -> Ghost | None:
    """What ghost clipping has to know of a training; None if examples are clipped one by one."""
    if clipping not in ("example", "ghost"):
        raise ValueError(f'clipping {clipping!r}: must be "example" or "ghost"')
    if clipping == "example":
        return None
    ghost = Ghost.of(run.most, run.examples_per_owner or 1, microbatch)
    if ghost.norm(run.clip_norm, run.grid, run.coordinates) < run.clip_norm / 2:
        raise ValueError(f'clipping="ghost": the grid of the noise, {run.grid}, is too coarse for {run.coordinates} coordinates: give clipping="example", or make the run with a finer --grid')
    return ghost


_trainings: weakref.WeakSet[Private] = weakref.WeakSet()  # that have not ended


def _has_inside(value: Any, optimizer: torch.optim.Optimizer) -> bool:
    """Whether attributes of an optimizer have another one inside, in lists and dicts too."""
    if isinstance(value, dict):
        value = list(value.values())
    return value is optimizer or isinstance(value, (list, tuple)) and any(_has_inside(of, optimizer) for of in value)


def _before_step(optimizer: torch.optim.Optimizer, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Lets the trainings look at each step of another optimizer before it is made."""
    if not any(training.optimizer is optimizer for training in _trainings):
        for training in _trainings:
            training.check_other(optimizer)


register_optimizer_step_pre_hook(_before_step)


class _Loss(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """The loss of an example as a module, so that all that the loss asks of the model has the
    parameters of functional_call."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *batch: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        value = self.loss(self.model, *batch, **named)
        if not isinstance(value, torch.Tensor) or value.ndim:
            given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(f"loss: must give one number, a tensor without dimensions, for a batch of one example, and not {given}")
        return value


def _mapped(function: Callable[..., tuple[Any, Any]], *batch: Any, apart: bool = False) -> Any:
    """The two results of a function of each example. apart divides layers such as LSTM, of which
    vmap knows the parts alone, as a derivative inside of it does."""

    def of_one(*one: Any) -> tuple[Any, Any]:
        if not apart:
            return function(*one)
        value, _, more = vjp(lambda _: function(*one), torch.zeros(()), has_aux=True)
        return value, more

    try:
        return vmap(of_one, randomness="error")(*batch)
    except RuntimeError as err:
        if "Batching rule not implemented" in str(err) and not apart:
            return _mapped(function, *batch, apart=True)
        if "mutate a captured Tensor" in str(err):
            raise ValueError(_CHANGES.format("buffer, or another tensor of its own,")) from err
        if "randomness error mode" in str(err):
            raise ValueError("model: draws random numbers other than those of dropout (torch.nn.functional.dropout), which would depend on the examples computed beside it: give microbatch=1, which makes the gradients one by one") from err
        if not any(words in str(err) for words in ("vmap", "broadcast shape", "torch.func", "functorch")):
            raise
        why = next((what for words, what in _NOT_MAPPED if words in str(err)), "its forward looks at values, changes tensors in place, or uses torch.utils.checkpoint")
        raise ValueError(
            f"model: cannot make the gradients of several examples at once{place(err, torch)}: {why}. "
            'Give microbatch=1, which makes them one by one; or, for a model of transformers with an attention_mask, attn_implementation="eager"'
        ) from err


# What torch.func says of a model that vmap cannot run, and what the model does.
_NOT_MAPPED = (
    (".item()", "model or loss calls .item(), float() or the like, or has an if on a value of an example"),
    ("data-dependent control flow", "model or loss has an if on a value of an example"),
    *((words, "a tensor is changed in place, such as one of torch.zeros") for words in ("in-place", "inplace", "broadcast shape")),
)


def _noise_on_devices(run: Run, like: Any, *, guard: StepGuard, key: str, shard: int | None = None, shards: int = 1) -> DeviceNoise:
    """A reader whose noise PyTorch makes: a tree or, of a shard, a row."""
    with opening(run, guard):
        return DeviceNoise(run, like, guard, key, None, 0, 1, 0, False) if shard is None else RowNoise(run, like, guard, key, None, shard, shards, 0, False)


def _one_by_one(loss: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The gradients of a microbatch one after the other, for models that vmap cannot run."""

    def gradients(params: Any, *batch: torch.Tensor) -> Any:
        found = [one(params, *(x[i] for x in batch)) for i in range(len(batch[0]))]
        return {name: Stored(torch.stack([g[name] for g in found])) for name in params}

    def one(params: Any, seed: torch.Tensor, *example: torch.Tensor) -> Any:
        sow(int(seed))
        torch.manual_seed(int(seed))
        held = {name: p.detach().requires_grad_() for name, p in params.items()}
        with torch.enable_grad():
            given = gradients_of(loss(held, seed, *example), list(held.values()))
        return {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(held.items(), given)}

    return gradients


def _check_extra(value: Any, name: str) -> None:
    """Refuses what `load` would not read again."""
    if isinstance(value, dict):
        for key, of in value.items():
            _check_extra(of, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, of in enumerate(value):
            _check_extra(of, f"{name}[{i}]")
    elif type(value) not in (int, float, str, bool, bytes, type(None)) and not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: is of type {type(value).__name__}: must be a tensor, a number or a text, or a dict or list of such, which load reads again: torch.as_tensor(…) for arrays, state_dict() for objects")


def _tensor(value: Any, name: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.ndim == 0:
        raise ValueError(f"batch: {name}: must be a tensor that has the examples as its first dimension, and not {type(value).__name__}")
    return value
