"""minsep in PyTorch 1.13 and later: the rule of docs/noise.md, and a batch sampler."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Iterator

import numpy as np
import torch

from . import _rows
from ._batches import PADDING
from ._clip import HELD, SLACK, check_on_grid, digest, held_by, padding_of, whole_numbers
from ._guard import StepGuard, check_guard
from ._pad import pad
from ._reader import NoiseReader
from ._run import Run, need_run
from ._tree import ClipNorm, check_clip, check_divisor, check_grid, check_microbatch, flatten, map_leaves, rows_of
from .errors import TrainingError


def clip_and_sum(gradients: Any, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> Any:
    """The sum of a batch's clipped gradients, on the grid of the noise, exact in float64.

    gradients is a tree of per-example gradients, such as the dict that vmap(grad(…)) of functorch or torch.func gives, each leaf of
    shape [n, ...]; n may be 0. The rest is as in `minsep.clip_and_sum`, on the tensors' device, which must have float64.
    """
    leaves, build = flatten(gradients, "gradients")
    count = rows_of(leaves)
    check_clip(clip_norm, grid, [tuple(leaf.shape) for _, leaf in leaves], HELD, owners)
    with torch.no_grad():
        flat = [leaf.detach().to(torch.float64).reshape(count, math.prod(leaf.shape[1:])) for _, leaf in leaves]
        if owners is not None:
            flat = _means(flat, _on_host(owners), _on_host(is_padding), count)
            is_padding = None
        squares = [torch.sum(torch.square(x), dim=1) for x in flat]
        norms = torch.sqrt(torch.stack(squares).sum(dim=0))
        limit = clip_norm * (1 - SLACK)
        factors = torch.where(norms > limit, limit / norms, torch.ones_like(norms))
        keep = torch.isfinite(norms)
        if is_padding is not None:
            keep &= ~torch.as_tensor(np.asarray(is_padding), dtype=torch.bool, device=keep.device)
        sums = []
        for x, (_, leaf) in zip(flat, leaves):
            clipped = torch.where(keep[:, None], x * factors[:, None], torch.zeros_like(x))
            if grid:
                clipped = torch.trunc(clipped / grid) * grid
            sums.append(clipped.sum(dim=0).reshape(leaf.shape[1:]))
        return build(sums)


def _on_host(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


def _means(flat: list[torch.Tensor], owners: Any, is_padding: Any, count: int) -> list[torch.Tensor]:
    """The mean of each owner's gradients, in the order of the owners' numbers. No two additions may change their order."""
    numbers = whole_numbers(owners, count)
    numbers[padding_of(is_padding, count)] = PADDING
    groups = [np.flatnonzero(numbers == owner) for owner in np.unique(numbers[numbers != PADDING])]
    return [torch.stack([x[torch.as_tensor(rows, device=x.device)].mean(dim=0) for rows in groups]) if groups else x[:0] for x in flat]


def per_example(loss: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The gradients of loss(params, *example) by params for every example of a batch: f(params, *batch).

    params is a dict of tensors, and each array of the batch has the examples as its first dimension, of which there may be
    none. It is vmap(grad(loss)) of torch.func or, before PyTorch 2, of functorch.
    """
    try:
        from torch.func import grad, vmap
    except ImportError:
        from functorch import grad, vmap

    def gradients(params: Any, *batch: torch.Tensor) -> Any:
        if len(batch[0]) == 0:
            return map_leaves(lambda p: torch.zeros((0, *p.shape), dtype=p.dtype, device=p.device), params)
        return vmap(grad(loss), (None, *(0 for _ in batch)))(params, *batch)

    return gradients


def clipped_sum(loss: Callable[..., torch.Tensor], clip_norm: ClipNorm, grid: float, microbatch: int | None = None) -> Callable[..., Any]:
    """The sum of a batch's clipped gradients of loss, with memory for the gradients of microbatch examples: f(params, *batch, is_padding=None).

    loss and batch are those of `per_example`. f gives what `clip_and_sum` gives of all gradients: the parts are added in whole
    multiples of the grid, without rounding. microbatch is at least 1; without one, all gradients are made at once. A microbatch that is padding only is left
    out. Where owners are sampled it is refused: an owner's gradients are clipped together, by `clip_and_sum`.
    """
    check_microbatch(clip_norm, microbatch)
    gradients = per_example(loss)

    def total(params: Any, *batch: torch.Tensor, is_padding: Any = None) -> Any:
        count = len(batch[0])
        if any(len(x) != count for x in batch):
            raise ValueError("batch: every tensor must have the examples as its first dimension")
        check_clip(clip_norm, grid, [(count, *p.shape) for _, p in flatten(params)[0]], HELD, None)  # of the whole batch
        padding = padding_of(_on_host(is_padding), count)
        size = min(microbatch or count, count)
        sums = map_leaves(lambda p: torch.zeros(p.shape, dtype=torch.float64, device=p.device), params)
        for first in range(0, count, max(size, 1)):
            part = slice(first, first + size)
            if not padding[part].all():
                found = clip_and_sum(gradients(params, *(x[part] for x in batch)), clip_norm, grid, padding[part])
                sums = map_leaves(torch.add, sums, found)
        return sums

    return total


def scale_by_step_noise(optimizer: torch.optim.Optimizer, run: Run) -> torch.optim.Optimizer:
    """The optimizer, with the learning rate of each of its parameter groups times `run.step_noise`.

    For Adam with a learning rate that was found with DP-SGD's noise: Adam divides by the root of the mean square of single steps, which is
    mostly noise, so that with ρ times the noise of a step its steps are 1/ρ as long. Call it before there is a scheduler, which takes
    the rates as they are then. A threshold that updates are clipped to grows likewise. Not for SGD, whose steps do not depend on
    the noise of a step.

    Raises ValueError for an optimizer whose rates have been scaled, or that has a scheduler.
    """
    ratio = need_run(run, "scale_by_step_noise(optimizer, run)").step_noise
    for group in optimizer.param_groups:
        if "minsep_step_noise" in group or "initial_lr" in group:
            raise ValueError("optimizer: its learning rates are scaled already, or a scheduler has them: call scale_by_step_noise once, before there is a scheduler")
    for group in optimizer.param_groups:
        group["lr"], group["minsep_step_noise"] = ratio * group["lr"], ratio
    return optimizer


def add_noise(total: Any, noise: Any, grid: float, divisor: float, dtype: torch.dtype = torch.float32) -> Any:
    """The noisy mean: (total + noise) / divisor, a tree of tensors as total is, of any dtype.

    total is the finished sum of `clip_and_sum`, noise the step's, a tree of arrays of the same shapes, both in whole multiples of
    grid, `run.grid`, and divisor `run.expected_batch_size`, or 1 for the noisy sum. The addition is in float64; what follows is rounded to dtype.
    What `read_noise` gave is refused a second time; of copies of it, such as tensors, nothing is known.
    """
    check_divisor(divisor)
    check_grid(grid)
    flatten(total, "total")
    rows = _rows.not_added(z for _, z in flatten(noise, "noise")[0])

    def one(s: torch.Tensor, z: Any) -> torch.Tensor:
        added = torch.tensor(np.asarray(z), dtype=torch.float64, device=s.device)  # a copy: files cannot be written
        if not s.is_floating_point():
            raise ValueError(f"total: of type {s.dtype}: must be floating-point, as clip_and_sum gives it")
        if s.shape != added.shape:
            raise ValueError(f"noise: of shape {tuple(added.shape)}, the sum is of {tuple(s.shape)}: give the noise of the same tree")
        held = {"total": held_by(s.element_size()), "noise": held_by(np.asarray(z).dtype.itemsize)}
        s = s.to(torch.float64)
        check_on_grid(s, added, grid, held)
        return ((s + added) / divisor).to(dtype)

    with torch.no_grad():
        mean = map_leaves(one, total, noise)
    _rows.add(rows, [x for _, x in flatten(mean)[0]], lambda x: digest((x.view(torch.int16) if x.dtype == torch.bfloat16 else x).cpu().numpy()))
    return mean


class Batches(torch.utils.data.Sampler):  # type: ignore[misc, unused-ignore]
    """A batch_sampler for torch.utils.data.DataLoader: the batches of a run from the guard's next step on, of one of ranks processes.

    Every loop over the loader begins at the step that is then the guard's next, after a resume too, so begin it before the guard takes the
    step: `for t, batch in zip(guard, loader)`. It may read ahead, with any number of workers; a batch of a step that is over is refused.
    Where no training is kept by a guard, as in an evaluation, guard is None, and start the first step.

    run is one that `join` gave, unless the data set is in the order of the table. A batch may be empty, for which the loader's
    collate_fn must be ready: `collate` is, for data sets of tensors.
    """

    def __init__(self, run: Run, guard: StepGuard | None, rank: int = 0, ranks: int = 1, *, start: int | None = None) -> None:
        need_run(run, "Batches(run, guard)")
        run._need_examples("a loader of examples")
        self.guard, self.start = check_guard(guard, start, "Batches(run, guard)"), start or 0
        self.run, self.rank, self.ranks = run, rank, ranks
        if guard is not None:
            guard.begin_batches(run)

    def __len__(self) -> int:
        return self.run.steps - (self.start if self.guard is None else self.guard.next_step)

    def __iter__(self) -> Iterator[list[int]]:
        # Not a generator: the first step is that of now, before `zip(guard, loader)` takes it.
        return self._batches(self.start if self.guard is None else self.guard.begin_batches(self.run))

    def _batches(self, start: int) -> Iterator[list[int]]:
        for step in range(start, self.run.steps):
            if self.guard is not None:
                self.guard.check_batch(step)
            rows = pad(self.run.batch(step), self.ranks, self.rank, self.ranks)
            yield rows[rows >= 0].tolist()


def gather(word: Any) -> list[Any]:
    """The words of all hosts, for `StepGuard(run, gather=minsep.torch.gather)`: an all-gather of torch.distributed's default group,
    with any backend."""
    import torch.distributed as dist

    words: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(words, np.asarray(word).tobytes())
    return [np.frombuffer(w, np.uint8) for w in words]


def collate(empty: Any) -> Any:
    """A collate_fn that gives empty, such as torch.zeros(0, 28, 28), torch.zeros(0, dtype=torch.long), where a batch has no example."""
    return functools.partial(_collated, empty)  # which a worker process can be given, however it is started


def _collated(empty: Any, examples: Any) -> Any:
    from torch.utils.data.dataloader import default_collate

    return default_collate(examples) if examples else empty


class NoisyOptimizer:
    """Opacus: the run's noise in place of that of Opacus.

    optimizer is the DPOptimizer that PrivacyEngine.make_private gave, with poisson_sampling=False, noise_multiplier=0, max_grad_norm
    run.clip_norm and loss_reduction "sum" or "mean". noise is a reader of `read_noise(run, list(model.parameters()), guard=guard, …)`: its tree
    must be the list of the parameters that the optimizer trains, in the optimizer's order, or ValueError is raised. Each `step` takes the guard's next step: it clips and sums the per-example gradients that Opacus has left in p.grad_sample, adds the
    noise, divides by the expected batch size and lets the optimizer inside do the update. Call it for empty batches too, and loop over the
    loader alone: a loop over the guard is refused. Gradients of more or fewer examples than the batch of the step has are refused too: a batch
    was left out, cut, or read twice. Each gradient is taken once.

    Where the gradients of a batch do not fit the memory, call `accumulate` after the backward pass of each part of it, and then `step`.
    """

    def __init__(self, optimizer: Any, run: Run, noise: Any, guard: StepGuard) -> None:
        need_run(run, "NoisyOptimizer(optimizer, run, noise, guard)")
        if not isinstance(noise, NoiseReader) or not isinstance(guard, StepGuard):
            raise TypeError("noise, guard: must be those of read_noise(run, list(model.parameters()), guard=guard) and StepGuard(run): NoisyOptimizer(optimizer, run, noise, guard)")
        run._need_examples("Opacus")
        self.optimizer, self.run, self.noise, self.guard = optimizer, run, noise, guard
        noise.check_tree(self._parameters(), "list(model.parameters()), of those that are trained, in the optimizer's order")
        guard.taken_by("NoisyOptimizer.step")
        self._parts: list[tuple[list[int], Any]] = []  # of the batch so far: how many gradients each parameter had, and their sum

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    def accumulate(self) -> None:
        """Clips and adds the gradients of a part of the batch, after its backward pass, and frees them. The sum is exact, whatever the parts."""
        with self.guard.telling():
            self._add(self._parameters())

    def step(self) -> None:
        parameters, step = self._parameters(), self.guard.next_step
        with self.guard.telling():
            total = self._total(parameters, step)
        self.guard.take(step)
        noise = self.noise.step(step)
        for p, mean in zip(parameters, add_noise(total, noise, self.run.grid, self.run.expected_batch_size)):
            p.grad = mean.to(p.dtype)
        getattr(self.optimizer, "original_optimizer", self.optimizer).step()

    def _add(self, parameters: list[Any]) -> None:
        """Adds the gradients that the parameters have, and takes them away."""
        gradients = [_per_example(p) for p in parameters]
        part = clip_and_sum(gradients, self.run.clip_norm, self.run.grid)
        self._parts.append(([len(g) for g in gradients], part))
        for p in parameters:
            p.grad_sample = None  # they are summed once, whether zero_grad is called or not
        if len(self._parts) > 1:
            (before, sums), (more, found) = self._parts
            self._parts = [([a + b for a, b in zip(before, more)], [a + b for a, b in zip(sums, found)])]

    def _total(self, parameters: list[Any], step: int) -> Any:
        """The sum of the gradients of a step."""
        self._add(parameters)
        (counts, total), self._parts = self._parts[0], []
        if step < self.run.steps and any(n != len(self.run.batch(step)) for n in counts):
            raise TrainingError(
                f"step {step}: the gradients are not those of the batch of this step, whose noise they would have. Call step once for each batch of the loader, for an empty one too, "
                "after one backward pass of all its examples, or after accumulate for each part of them; after a fault in between, begin again from a checkpoint"
            )
        return total

    def zero_grad(self) -> None:
        """Forgets the gradients of the batch, with the parts that were accumulated: call it before the first part, not between them."""
        self._parts = []
        self.optimizer.zero_grad()


def _per_example(p: Any) -> torch.Tensor:
    """The per-example gradients of a parameter; none where no example has been seen."""
    found = getattr(p, "grad_sample", None)
    if found is None:
        return torch.zeros((0, *p.shape), device=p.device)
    if isinstance(found, list):
        if len(found) != 1:
            raise ValueError("grad_sample: of several backward passes: call optimizer.accumulate() after each, or optimizer.zero_grad() before the one backward pass of each batch, and optimizer.step() after it")
        found = found[0]
    return found
