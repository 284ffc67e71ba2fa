"""Batches for PyTorch in which no example depends on another: each is collated alone, with random
numbers of its own."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import Any, Callable, Iterator

import numpy as np
import torch

from . import _seeds, _torchsum
from ._guard import StepGuard
from ._run import Run


class Loader:
    """The batches of a run from the guard's next step on. Each must be given to a step before the
    next one is taken.

    own gives this process' part of a batch. training gives the guard and the secret seed when a
    loop begins. The length is that of the whole run, however many steps are left.
    """

    def __init__(self, run: Run, data: Any, collate: Callable[[list[Any]], Any] | None, training: Callable[[], tuple[StepGuard, str]], length: int | None, *, own: Callable[[Any], Any] | None = None,
        **options: Any) -> None:
        _check_data(run, data)
        self._own = own
        self._run, self._data, self._collate, self._training, self._length, self._options = run, data, collate, training, length, options

    def __len__(self) -> int:
        return self._run.steps - self._training()[0].next_step if self._length is None else self._length

    def __iter__(self) -> Iterator[Any]:
        guard, seed = self._training()
        examples = Alone(self._data, self._collate, seed)
        loader = torch.utils.data.DataLoader(examples, batch_sampler=_Places(self._run, guard, self._own), collate_fn=Joined(examples), **self._options)
        return _given(iter(loader), guard, guard.next_step)


def _given(batches: Iterator[Any], guard: StepGuard, step: int) -> Iterator[Any]:
    for batch in batches:
        guard.lend(step, _tensors(batch))
        yield batch
        step += 1


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    """The tensors of a batch as `join` makes it."""
    if isinstance(batch, torch.Tensor):
        yield batch
    else:
        for part in batch.values() if hasattr(batch, "values") else batch:
            yield from _tensors(part)


def _check_data(run: Run, data: Any) -> None:
    """Refuses a data set without positions, or with other examples than those given to run.join."""
    if isinstance(data, torch.utils.data.IterableDataset) or not hasattr(data, "__getitem__"):
        raise ValueError("data: must be indexed by position, in the order of the ids given to run.join: a stream has no positions")
    if hasattr(data, "iloc") or isinstance(data, (tuple, torch.Tensor)) and len(data) and isinstance(data[0], torch.Tensor):
        raise TypeError(f"data: is a {type(data).__name__}: must be a data set, of which data[i] is example i, such as torch.utils.data.TensorDataset(x, y) of tensors x and y")
    if hasattr(data, "__len__"):
        run._check_data(len(data))


class _Places(torch.utils.data.Sampler):  # type: ignore[misc, unused-ignore]
    """The places of the examples of each step: (step, row)."""

    def __init__(self, run: Run, guard: StepGuard, own: Callable[[Any], Any] | None) -> None:
        self._batches, self._guard = _Parts(run, guard), guard
        self._batches.own = own

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        first, batches = self._guard.next_step, iter(self._batches)
        return ([(step, row) for row in rows] for step, rows in zip(itertools.count(first), batches))


class _Parts(_torchsum.Batches):
    """Batches, of which this process has its own part."""

    own: Callable[[Any], Any] | None = None

    def rows(self, step: int) -> Any:
        batch = self.run.batch(step)
        return batch if self.own is None else self.own(batch)


class Alone:
    """A data set of (step, row): the example at a row, as a batch of one. Its random numbers depend
    on the seed, the step and the row alone."""

    def __init__(self, data: Any, collate: Callable[[list[Any]], Any] | None, seed: str) -> None:
        self._data, self._collate, self._seed = data, collate, seed
        self.plain = type(data) is torch.utils.data.TensorDataset and collate is None  # examples of one shape, without random numbers

    def __getitems__(self, places: list[tuple[int, int]]) -> list[Any]:
        if self.plain:
            rows = torch.tensor([row for _, row in places], dtype=torch.long)
            return [[x[rows] for x in self._data.tensors]]
        collate = self._collate or torch.utils.data.default_collate
        with restored():
            found = []
            for step, row in places:
                sow(_seeds.number(self._seed, step, row))
                found.append(collate([self._data[row]]))
            return found


class Joined:
    """A collate_fn of batches of one, and of none: it has the shapes of the first example of all."""

    def __init__(self, examples: Alone) -> None:
        self._examples = examples

    def __call__(self, ones: list[Any]) -> Any:
        if self._examples.plain:
            return ones[0]
        return join(ones) if ones else join(self._examples.__getitems__([(0, 0)]), slice(0))


def join(ones: list[Any], part: slice = slice(None)) -> Any:
    """One batch of batches of one."""
    first = ones[0]
    if isinstance(first, torch.Tensor):
        if any(x.shape != first.shape for x in ones):  # without the shapes, which are of examples
            raise ValueError(
                "collate_fn: gives examples of several shapes: it is called with one example at a time, so that no example depends on another; padding to the longest of a batch would make it depend: pad every example to one length, such as tokenizer(text, padding=\"max_length\", truncation=True, max_length=…)"
            )
        if not first.ndim or len(first) != 1:
            raise ValueError("collate_fn: gives for one example a tensor whose first dimension is not 1: must have the examples as its first dimension")
        return torch.cat(ones)[part]
    if hasattr(first, "keys"):
        if any(set(x.keys()) != set(first.keys()) for x in ones):
            raise ValueError("collate_fn: gives examples with different keys: give every example the same keys, so that no example depends on another")
        return {name: join([x[name] for x in ones], part) for name in first.keys()}
    if isinstance(first, (list, tuple)):
        return [join(list(parts), part) for parts in zip(*ones)]
    raise TypeError(f"collate_fn: gives {type(first).__name__}, and must give tensors, or lists and dicts of tensors")


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Leaves the random numbers of a program as they are: those of torch on a CPU, NumPy and
    Python."""
    state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])
        random.setstate(state[2])


def sow(number: int) -> None:
    """Seeds the random numbers that `restored` keeps."""
    torch.default_generator.manual_seed(number)
    np.random.seed(number % 2**32)
    random.seed(number)
