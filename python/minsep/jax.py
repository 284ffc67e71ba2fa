"""minsep in JAX: the rule of docs/noise.md in whole numbers, steps for Grain, and jax_privacy's
interfaces."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Iterator

import jax
import numpy as np

from ._arguments import shown
from ._batches import OwnerBatch
from ._guard import StepGuard, check_batch, check_guard
from ._jaxclip import NOISE_HELD as NOISE_HELD, SLACK as SLACK, add_noise as add_noise, clip_and_sum as clip_and_sum, clipped_sum as clipped_sum
from ._jaxnoise import DeviceNoise as DeviceNoise, device_noise as device_noise
from ._optax import Private
from ._pad import pad
from ._reader import NoiseReader
from ._run import Run, need_run


def private(
    loss: Callable[..., Any],
    optimizer: Any,
    run: Run,
    *,
    key: str | os.PathLike[str] | None = None,
    microbatch: int | None = 16,
    pad_to: Any = None,
    rng: bool = False,
    frozen: Any = None,
    folder: str | os.PathLike[str] | None = None,
    checkpoint: str | None = None,
    checkpoint_steps: int = 100,
    device_noise: bool = False,
) -> Private:
    """A private training with an optimizer of optax, as one object. `init(params)` begins it,
    `batches(x, y)` gives the examples of its steps, `step(state, x, y)` trains on one of them, and
    `save` and `load` keep all that a resume needs. In a checkpoint of your own, keep `state`, the
    guard's.

    loss(params, x, y) is the loss of one example, a number, as in `clipped_sum`. All of params is
    trained, except the parts that frozen names: a tree of True and False like params or like its
    upper levels, such as {"base": True, "adapters": False}. Frozen parts have no gradient, no noise
    and no state in the optimizer, and the run's coordinates are those of the others. Each step
    makes the gradients of microbatch examples at a time, or of all with None, clips and sums them
    like `clipped_sum`, takes the guard's step, adds the noise, divides by the expected batch size
    and updates params. If owners are sampled, the mean of each owner's gradients is clipped.

    Parameters may be on several devices of one process, by a NamedSharding, if microbatch is not None.
    Each device gathers them for whole microbatches of a batch, and keeps its part of noise,
    parameters and optimizer. The weights are those of one device, bit for bit, and a training may
    go on with another mesh.

    Batches are padded to the smallest multiple of pad_to that holds them or, if pad_to is a list of
    sizes, to the smallest size that does; each size is compiled once. The default is
    `run.max_rows`, else the largest multiple of microbatch up to 64. With rng=True, loss gets rng=, a key of jax.random,
    for dropout and the like. It follows from a secret of this start, the step and the example.

    key, checkpoint and checkpoint_steps are as in `read_noise`, and folder is as in `StepGuard`.
    With device_noise=True, the devices that hold params make their noise, as in `device_noise`.
    """
    return Private(loss, optimizer, run, key=key, microbatch=microbatch, pad_to=pad_to, rng=rng, frozen=frozen, folder=folder, checkpoint=checkpoint, checkpoint_steps=checkpoint_steps,
        device_noise=device_noise)


def scale_by_step_noise(rate: Any, run: Run) -> Any:
    """A learning rate, or a schedule of rates, times `run.step_noise`.

    It is for Adam with a rate that was found with DP-SGD's noise (docs/python.md), not for SGD. rate
    is a number, or a function of the step, as in optax; so is the result.
    """
    ratio = need_run(run, "scale_by_step_noise(rate, run)").step_noise
    if callable(rate):
        return lambda step: ratio * rate(step)
    return ratio * rate


class Steps:
    """The steps of a run as records, for grain.MapDataset.source: record t has the examples of step
    t.

    source has an example at each position that `run.batch` gives: run is one that `join` gave,
    unless source is in the order of the table. A record is a dict: rows, shape [n], padded as `pad`
    does, with -1; examples, source[row] stacked as trees (row 0 in place of padding); step; and,
    where owners are sampled, owners, shape [n], with -1. Grain's state of an iterator over it is
    {'next_index': t}: it resumes at any step. With worker processes it has
    the next step of each.

    guard is the training's: take the steps by `guard.take(record["step"])`, which refuses the
    record of any step but the next. A record of a step that is over, such as the first where the
    state of an iterator was forgotten, is refused when it is made. Without a training, guard is
    None.
    """

    def __init__(self, run: Run, source: Any, guard: StepGuard | None, multiple: int, rank: int = 0, ranks: int = 1) -> None:
        need_run(run, "Steps(run, source, guard, multiple)")
        run._use.padded = True
        self._guard, self._taken = check_guard(guard, 0 if guard is None else None, "Steps(run, source, guard, multiple)"), 0
        self._run, self._source, self._pad = run, source, (multiple, rank, ranks)
        if guard is not None:
            guard.begin_batches(run)

    def __getstate__(self) -> dict[str, Any]:
        """For a worker process: with the guard's next step in place of the guard, which takes the
        steps of the main process."""
        return {**self.__dict__, "_guard": None, "_taken": self._taken if self._guard is None else self._guard.next_step}

    def __len__(self) -> int:
        return self._run.steps

    def __getitem__(self, step: Any) -> dict[str, Any]:
        check_batch(int(step), self._taken if self._guard is None else self._guard.next_step)
        batch = pad(self._run.batch(step), *self._pad)
        rows = batch.rows if isinstance(batch, OwnerBatch) else batch
        owners = {"owners": batch.owners} if isinstance(batch, OwnerBatch) else {}
        examples = [self._source[int(row)] for row in np.maximum(rows, 0)]
        return {"rows": rows, "examples": jax.tree_util.tree_map(lambda *e: np.stack(e), *examples), "step": int(step), **owners}


def batch_selection(run: Run, guard: StepGuard | None) -> Any:
    """jax_privacy's BatchSelectionStrategy of a run: its batches are those of the run, from the
    guard's next step on, and the rng is not used.

    Call batch_iterator before the guard takes a step: `for t, batch in zip(guard,
    strategy.batch_iterator(n))`. Without a training, guard is None, and the batches begin at step
    0."""
    from jax_privacy import batch_selection as base

    need_run(run, "batch_selection(run, guard)")
    run._need_examples("a batch selection strategy")
    check_guard(guard, 0 if guard is None else None, "batch_selection(run, guard)")

    @dataclasses.dataclass(frozen=True)
    class FromRun(base.BatchSelectionStrategy):  # type: ignore[misc, unused-ignore]
        run: Run

        def batch_iterator(self, num_examples: int, rng: Any = None) -> Iterator[Any]:
            if num_examples < self.run.examples:
                raise ValueError(f"num_examples {num_examples}: the run is of {self.run.examples} examples")
            return self._batches(0 if guard is None else guard.begin_batches(self.run))

        def _batches(self, start: int) -> Iterator[Any]:
            for step in range(start, self.run.steps):
                if guard is not None:
                    guard.check_batch(step)
                yield self.run.batch(step)

    return FromRun(run)


def privatizer(run: Run, noise: NoiseReader) -> Any:
    """The run's noise as jax_privacy's privatizer: an optax GradientTransformation that turns sums
    into noisy means.

    Its updates are what `clip_and_sum` of this module gives, and its state is the next step. It
    calls the host, and so cannot be jitted: jit what comes before it and after it.
    """
    import optax

    need_run(run, "privatizer(run, noise)")
    if not isinstance(noise, NoiseReader):
        raise TypeError(f"noise {shown(noise)}: must be the result of read_noise(run, params, guard=guard), and not {type(noise).__name__}")

    def init(params: Any) -> Any:
        return noise.next_step

    def update(total: Any, state: Any, params: Any = None) -> Any:
        return add_noise(total, noise.step(int(state)), run.grid, run.expected_batch_size), state + 1

    return optax.GradientTransformation(init, update)


def gather(word: Any) -> Any:
    """The words of all hosts, for `StepGuard(run, gather=minsep.jax.gather)`: an all-gather of
    JAX's processes."""
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(np.asarray(word))
