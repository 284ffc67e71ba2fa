"""minsep in PyTorch 1.13 and later: the rule of docs/noise.md, and a batch sampler."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator

import numpy as np
import torch

from ._batches import OwnerBatch
from ._guard import StepGuard
from ._reader import NoiseReader
from ._run import Run, need_run
from ._torchnoise import DeviceNoise as DeviceNoise, device_noise as device_noise
from ._torchsum import Batches as Batches, add_noise as add_noise, clip_and_sum as clip_and_sum, clipped_sum as clipped_sum, gather as gather, per_example as per_example
from .errors import MissingPackageError, TrainingError

if TYPE_CHECKING:  # it needs PyTorch 2
    from ._private import Private


def private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    run: Run,
    *,
    loss: Callable[..., torch.Tensor],
    key: str | os.PathLike[str] | None = None,
    microbatch: int | None = None,
    clipping: str = "example",
    scheduler: Any = None,
    folder: str | os.PathLike[str] | None = None,
    checkpoint: str | None = None,
    checkpoint_steps: int = 100,
    device_noise: bool = False,
) -> Private:
    """A private training of a model, as one object. `loader(data)` gives the batches, `step(x, y)`
    trains on one, and `state_dict` and `load_state_dict` save all that a resume needs. It needs
    PyTorch 2 or later.

    loss(model, x, y) is the loss of a batch of one example, a number. It is called with the model
    and one example of the tensors that `step` got, each with a first dimension of 1. The parameters
    that require a gradient are trained, such as those of LoRA, and must be the optimizer's; frozen
    ones have no gradient and no noise. Each step makes the gradients of microbatch examples at a
    time, by vmap or, with microbatch 1, one by one. It clips and sums them like `clipped_sum`,
    takes the guard's step, adds the noise, divides by the expected batch size, puts the mean into
    p.grad, and lets the optimizer, and the scheduler if one is given, step. If owners are sampled,
    the mean of each owner's gradients is clipped.

    The gradient of a weight of a Linear, Embedding or convolution layer is made of the layer's
    input and the gradient of its output, and is not kept if it is larger than they are
    (docs/formulas.md, F2.1). With microbatch 1 all gradients are kept, of one example at a time.
    clipping="ghost" sums the clipped gradients of a microbatch by one product for each layer, which
    is faster, and rounds the sum of a step once. It clips to a little less than the clip norm, and
    another number of processes may round a coordinate otherwise.

    If torch.distributed has a group of several processes, as torchrun starts them, they train
    together: docs/large-models.md says how, and how fully_shard divides the model.

    key, checkpoint and checkpoint_steps are as in `read_noise`, and folder is as in `StepGuard`.
    With device_noise=True, the device of the model makes the noise, as in `device_noise`. Random
    numbers, such as those of dropout, are seeded by step. The model's mode stays as it is.

    docs/python.md says what it refuses.
    """
    if importlib.util.find_spec("torch.func") is None:
        raise MissingPackageError(f"private: needs PyTorch 2 or later, and this is {torch.__version__}: install a newer one, or take clipped_sum, read_noise and add_noise")
    from ._private import Private

    return Private(model, optimizer, run, loss=loss, key=key, microbatch=microbatch, clipping=clipping, scheduler=scheduler, folder=folder, checkpoint=checkpoint, checkpoint_steps=checkpoint_steps,
        device_noise=device_noise)


def scale_by_step_noise(optimizer: torch.optim.Optimizer, run: Run) -> torch.optim.Optimizer:
    """The optimizer, with the learning rate of each of its parameter groups times `run.step_noise`.

    For Adam with a learning rate that was found with DP-SGD's noise (docs/python.md). Call it before
    there is a scheduler, which takes the rates as they are then. Not for SGD.
    """
    ratio = need_run(run, "scale_by_step_noise(optimizer, run)").step_noise
    for group in optimizer.param_groups:
        if "minsep_step_noise" in group or "initial_lr" in group:
            raise ValueError("optimizer: its learning rates are scaled already, or a scheduler sets them: call scale_by_step_noise once, before there is a scheduler")
    for group in optimizer.param_groups:
        group["lr"], group["minsep_step_noise"] = ratio * group["lr"], ratio
    return optimizer


def collate(empty: Any) -> Any:
    """A collate_fn that gives empty, such as torch.zeros(0, 28, 28), torch.zeros(0,
    dtype=torch.long), if a batch has no example."""
    return functools.partial(_collated, empty)  # which a worker process can be given, however it is started


def _collated(empty: Any, examples: Any) -> Any:
    from torch.utils.data.dataloader import default_collate

    return default_collate(examples) if examples else empty


_OTHER_BATCH = (
    "step {}: the gradients are not those of the batch of this step, whose noise they would have. Call step once for each batch of the loader, for an empty one too, "
    "after one backward pass of all its examples, or after accumulate for each part of them; after a fault in between, begin again from a checkpoint"
)


class NoisyOptimizer:
    """Opacus: the run's noise in place of that of Opacus.

    optimizer is the DPOptimizer that PrivacyEngine.make_private gave, with poisson_sampling=False,
    noise_multiplier=0, max_grad_norm run.clip_norm and loss_reduction "sum" or "mean". noise is a
    reader of `read_noise(run, list(model.parameters()), guard=guard, …)`: its tree must be the list
    of the parameters that the optimizer trains, in the optimizer's order, or ValueError is raised.
    Each `step` takes the guard's next step: it clips and sums the per-example gradients that Opacus
    has left in p.grad_sample, adds the noise, divides by the expected batch size and lets the
    optimizer inside do the update. Call it for empty batches too, and loop over the loader alone: a
    loop over the guard is refused. Gradients of more or fewer examples than the batch of the step
    has are refused too: a batch was left out, cut, or read twice. Each gradient is taken once.

    Where the gradients of a batch do not fit the memory, call `accumulate` after the backward pass
    of each part of it, and then `step`.

    Where owners are sampled, the gradients must be in the order of the loader's examples, and the
    mean of each owner's is clipped. Parts may end anywhere: the gradients of an owner who has more
    in the next part are kept till then.
    """

    def __init__(self, optimizer: Any, run: Run, noise: Any, guard: StepGuard) -> None:
        need_run(run, "NoisyOptimizer(optimizer, run, noise, guard)")
        if not isinstance(noise, NoiseReader) or not isinstance(guard, StepGuard):
            raise TypeError("noise, guard: must come from read_noise(run, list(model.parameters()), guard=guard) and StepGuard(run): NoisyOptimizer(optimizer, run, noise, guard)")
        self.optimizer, self.run, self.noise, self.guard = optimizer, run, noise, guard
        noise.check_tree(self._parameters(), "list(model.parameters()), of those that are trained, in the optimizer's order")
        guard.taken_by("NoisyOptimizer.step")
        self._parts: list[tuple[list[int], Any]] = []  # of the batch so far: how many gradients each parameter had, and their sum
        self._held: list[torch.Tensor] = []  # gradients of an owner who may have more in the next part

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    def accumulate(self) -> None:
        """Clips and adds the gradients of a part of the batch, after its backward pass, and frees
        them. The sum is exact, whatever the parts."""
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
        for p in parameters:
            p.grad_sample = None  # they are summed once, whether zero_grad is called or not
        part = self._sum(gradients)
        self._parts.append(([len(g) for g in gradients], part))
        if len(self._parts) > 1:
            (before, sums), (more, found) = self._parts
            self._parts = [([a + b for a, b in zip(before, more)], [a + b for a, b in zip(sums, found)])]

    def _sum(self, gradients: list[torch.Tensor]) -> Any:
        """The sum of the clipped gradients of a part; where owners are sampled, of the owners whose
        last gradient it has."""
        norm, grid, step = self.run.clip_norm, self.run.grid, self.guard.next_step
        if self.run.examples_per_owner is None:
            return clip_and_sum(gradients, norm, grid, np.zeros(len(gradients[0]), dtype=bool))
        if step >= self.run.steps:  # which the guard refuses
            return [torch.zeros(g.shape[1:], dtype=torch.float64) for g in gradients]
        before = self._parts[0][0][0] if self._parts else 0
        held = len(self._held[0]) if self._held else 0
        if held:
            gradients = [torch.cat([h, g]) for h, g in zip(self._held, gradients)]
        batch = self.run.batch(step)
        first, end = before - held, before - held + len(gradients[0])
        if end > len(batch.rows) or len({len(g) for g in gradients}) > 1:
            self._parts, self._held = [], []
            raise TrainingError(_OTHER_BATCH.format(step))
        whole = int(batch.offsets[np.searchsorted(batch.offsets, end, side="right") - 1]) - first  # gradients of owners who have no more
        self._held = [g[whole:].clone() for g in gradients]
        return clip_and_sum([g[:whole] for g in gradients], norm, grid, owners=batch.owners[first : first + whole])

    def _total(self, parameters: list[Any], step: int) -> Any:
        """The sum of the gradients of a step."""
        self._add(parameters)
        (counts, total), self._parts, self._held = self._parts[0], [], []
        if step < self.run.steps and any(n != len(self._rows(step)) for n in counts):
            raise TrainingError(_OTHER_BATCH.format(step))
        return total

    def _rows(self, step: int) -> Any:
        batch = self.run.batch(step)
        return batch.rows if isinstance(batch, OwnerBatch) else batch

    def zero_grad(self) -> None:
        """Forgets the gradients of the batch, with the parts that were accumulated: call it before
        the first part, not between them."""
        self._parts, self._held = [], []
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
