"""What a trainer in PyTorch adds for a batch, and the batches: the rule of docs/noise.md."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import numpy as np
import torch

from . import _rows
from ._batches import PADDING, OwnerBatch
from ._clip import HELD, check_on_grid, held_by, whole_numbers
from ._guard import StepGuard, check_guard
from ._pad import padded
from ._run import Run, need_run
from ._torchclip import Part, Stored, as_array, each_sum, on_host
from ._tree import ClipNorm, check_clip, check_divisor, check_grid, check_microbatch, check_rows, flatten, map_leaves, rows_of



def clip_and_sum(gradients: Any, clip_norm: ClipNorm, grid: float, is_padding: Any = None, owners: Any = None) -> Any:
    """The sum of a batch's clipped gradients, on the grid of the noise, exact in float64.

    gradients is a tree of per-example gradients, such as the dict that vmap(grad(…)) of functorch
    or torch.func gives, each leaf of shape [n, ...]; n may be 0. The rest is as in
    `minsep.clip_and_sum`, on the tensors' device, which must have float64.
    """
    leaves, build = flatten(gradients, "gradients")
    count = rows_of(leaves)
    check_clip(clip_norm, grid, [tuple(leaf.shape) for _, leaf in leaves], HELD, owners, is_padding)
    parts: dict[Any, Part] = {i: Stored(leaf.detach()) for i, (_, leaf) in enumerate(leaves)}
    totals = dict(each_sum(parts, clip_norm, grid, is_padding, owners))
    return build([totals[i] for i in parts])


def per_example(loss: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The gradients of loss(params, *example) by params for every example of a batch: f(params,
    *batch).

    params is a dict of tensors, and each array of the batch has the examples as its first
    dimension, of which there may be none. It is vmap(grad(loss)) of torch.func or, before PyTorch
    2, of functorch.
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
    """The sum of a batch's clipped gradients of loss, with memory for the gradients of microbatch
    examples: f(params, rows, *batch, owners=None).

    loss and batch are those of `per_example`. rows, shape [n], are those of the batch, as
    `run.batch`, `Batches.rows` or `pad` gave them: an example of row -1 is padding, and has no part
    in the sum. f gives what `clip_and_sum` gives of all gradients: the parts are added in whole
    multiples of the grid, without rounding. microbatch is at least 1; without one, all gradients
    are made at once. A microbatch that is padding only is left out. Where owners are sampled, rows
    are `batch.rows`, and owners=`batch.owners` must be given: the mean of each owner's gradients is
    clipped. A microbatch then has whole owners, and is larger for an owner who has more examples.
    """
    return summed(per_example(loss), clip_norm, grid, microbatch)


def summed(gradients: Callable[..., Any], clip_norm: ClipNorm, grid: float, microbatch: int | None, clip: Callable[..., Any] = clip_and_sum) -> Callable[..., Any]:
    """The function of `clipped_sum`, of a function for the gradients of the examples of a
    microbatch, and one that clips and sums them.

    It takes collect too, which is then given what clip gave of each microbatch, in place of a sum
    of them, and rounds, how many microbatches others have: those that are not here are of one
    example that is padding.
    """
    check_microbatch(microbatch)

    def total(params: Any, rows: Any, *batch: torch.Tensor, owners: Any = None, collect: Callable[[Any], None] | None = None, rounds: int = 0) -> Any:
        count = len(batch[0])
        if any(len(x) != count for x in batch):
            raise ValueError("batch: every tensor must have the examples as its first dimension")
        check_rows(rows, count, owners)
        padding = np.asarray(on_host(rows)) < 0
        check_clip(clip_norm, grid, [(count, *p.shape) for _, p in flatten(params)[0]], HELD, owners, padding)  # of the whole batch
        sums = None
        numbers, order = None, np.arange(count)
        if owners is not None:
            numbers = whole_numbers(on_host(owners), count)
            numbers[padding] = PADDING
            order = np.argsort(numbers, kind="stable")[np.count_nonzero(numbers == PADDING) :]  # each owner's rows together
        parts = microbatches(len(order), microbatch, None if numbers is None else numbers[order])
        for a, b in parts:
            if padding[order[a:b]].all():
                continue
            more = -(b - a) % (microbatch or 1)  # every microbatch is of one shape, since kernels round otherwise in another one
            part = np.append(order[a:b], np.full(more, order[a]))
            marks = np.append(padding[order[a:b]], np.ones(more, bool))
            found = clip(gradients(params, *(x[part] for x in batch)), clip_norm, grid, marks, None if numbers is None else numbers[part])
            if collect is not None:
                collect(found)
            else:
                sums = found if sums is None else map_leaves(torch.add, sums, found)
        for _ in range(rounds - len(parts)):
            assert collect is not None
            nobody = None if owners is None else np.array([PADDING])
            collect(clip(gradients(params, *(x.new_zeros((1, *x.shape[1:])) for x in batch)), clip_norm, grid, None if nobody is not None else np.array([True]), nobody))
        if sums is None and collect is None:
            return map_leaves(lambda p: torch.zeros(p.shape, dtype=torch.float64, device=p.device), params)
        return sums

    return total


def microbatches(count: int, microbatch: int | None, owners: Any) -> list[tuple[int, int]]:
    """The parts [a, b) of count rows that are computed together; of owners, whose numbers ascend,
    whole ones."""
    size = max(min(microbatch or count, count), 1)
    return [(a, min(a + size, count)) for a in range(0, count, size)] if owners is None else list(_whole_owners(owners, size))


def _whole_owners(numbers: Any, size: int) -> Iterator[tuple[int, int]]:
    """Parts [a, b) of rows whose owners' numbers ascend: whole owners, of as many as size rows, or
    one who has more."""
    ends = np.append(np.flatnonzero(np.diff(numbers)) + 1, len(numbers))[: len(numbers)].tolist()
    first = last = 0
    for end in ends:
        if end - first > size and last > first:
            yield first, last
            first = last
        last = end
    if last > first:
        yield first, last


def add_noise(total: Any, noise: Any, grid: float, divisor: float, dtype: torch.dtype = torch.float32) -> Any:
    """The noisy mean: (total + noise) / divisor, a tree of tensors like total, of any dtype.

    total is the finished sum of `clip_and_sum`, and noise is the noise of the step, a tree of
    arrays of the same shapes, both in whole multiples of grid, `run.grid`. divisor is
    `run.expected_batch_size`, or 1 for the noisy sum. The addition is in float64; the result is
    rounded to dtype. An array of `read_noise` is refused a second time; copies are not.
    """
    return noisy_mean(total, noise, grid, divisor, dtype)


def noisy_mean(total: Any, noise: Any, grid: float, divisor: float, dtype: torch.dtype = torch.float32, prepare: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Any:
    """The noisy mean of `add_noise`, of what prepare makes of the values of the sum."""
    check_divisor(divisor)
    check_grid(grid)
    leaves, build = flatten(total, "total")
    given, _ = flatten(noise, "noise")
    if [path for path, _ in leaves] != [path for path, _ in given]:
        raise ValueError("noise: has other leaves than the sum: give the noise of the same tree")
    rows = _rows.not_added((z for _, z in given), divisor)
    for (_, s), (_, z) in zip(leaves, given):
        if not s.is_floating_point():
            raise ValueError(f"total: of type {s.dtype}: must be floating-point, as clip_and_sum gives it")
        if s.shape != z.shape:
            raise ValueError(f"noise: of shape {tuple(z.shape)}, the sum is of {tuple(s.shape)}: give the noise of the same tree")
    means: list[torch.Tensor] = []
    with torch.no_grad():
        for few in _several([s for _, s in leaves]):
            sums = [s for _, s in leaves[few]]
            row = _joined([z for _, z in given[few]])
            held = {"total": held_by(min(s.element_size() for s in sums)), "noise": held_by(row.element_size())}
            values = prepare(torch.cat([s.reshape(-1) for s in sums]).to(torch.float64))
            added = row.to(values.device, torch.float64)
            check_on_grid(as_array(values), as_array(added), grid, held)
            mean = values.add_(added).div_(divisor).to(dtype)
            means += [part.reshape(s.shape) for part, s in zip(mean.split([s.numel() for s in sums]), sums)]
    _rows.added(rows)
    return build(means)


def _several(leaves: list[torch.Tensor]) -> Iterator[slice]:
    """Parts of a list of tensors, each of one device, whose values fit a processor's cache together,
    or one tensor."""
    first, size = 0, 0
    for i, leaf in enumerate(leaves):
        if i > first and (size + leaf.numel() > 2**17 or leaf.device != leaves[first].device):
            yield slice(first, i)
            first, size = i, 0
        size += leaf.numel()
    if leaves:
        yield slice(first, len(leaves))


def _joined(noise: list[Any]) -> torch.Tensor:
    """The values of noise side by side, as a copy: files cannot be written."""
    if isinstance(noise[0], torch.Tensor):
        return torch.cat([z.reshape(-1) for z in noise])
    return torch.from_numpy(np.concatenate([np.asarray(z).reshape(-1) for z in noise]))


class Batches(torch.utils.data.Sampler):  # type: ignore[misc, unused-ignore]
    """A batch_sampler for torch.utils.data.DataLoader: the batches of a run from the guard's next
    step on, of one of ranks processes.

    Every loop over the loader begins at the step that is then the guard's next, after a resume too,
    so begin it before the guard takes the step: `for t, batch in zip(guard, loader)`. It may read
    ahead, with any number of workers; a batch of a step that is over is refused. Where no training
    is kept by a guard, as in an evaluation, guard is None, and start the first step.

    run is one that `join` gave, unless the data set is in the order of the table. A batch may be
    empty, for which the loader's collate_fn must be ready: `collate` is, for data sets of tensors.
    Where owners are sampled, a batch has the examples of whole owners, one after the other, and
    `rows` says whose they are.
    """

    def __init__(self, run: Run, guard: StepGuard | None, rank: int = 0, ranks: int = 1, *, start: int | None = None) -> None:
        need_run(run, "Batches(run, guard)")
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
            rows = self.rows(step)
            yield (rows.rows if isinstance(rows, OwnerBatch) else rows).tolist()

    def rows(self, step: int) -> Any:
        """The rows of a step that this process has, without padding: an array or, where owners are
        sampled, an `OwnerBatch` of whole owners. Those of the loader's examples are the same, in
        the same order: give them to `clipped_sum` with the examples."""
        part = padded(self.run.batch(step), self.ranks, self.rank, self.ranks)
        if isinstance(part, OwnerBatch):
            return OwnerBatch(part.rows[: part.offsets[-1]], part.offsets)
        return part[part >= 0]


def gather(word: Any) -> list[Any]:
    """The words of all hosts, for `StepGuard(run, gather=minsep.torch.gather)`: an all-gather of
    torch.distributed's default group, with any backend."""
    import torch.distributed as dist

    words: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(words, np.asarray(word).tobytes())
    return [np.frombuffer(w, np.uint8) for w in words]
