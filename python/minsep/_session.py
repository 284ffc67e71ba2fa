"""What a private training holds besides its weights: guard, reader of noise and the secret seed of random numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import _rows, _seeds
from ._batches import PADDING, OwnerBatch
from ._guard import StepGuard
from ._reader import NoiseReader, read_noise
from ._run import Run
from ._tree import Layout
from .errors import TrainingError


class Session:
    """The guard of a training on a run directory, its noise, and the rows of its batches. One process trains, or processes that
    each read a part of the noise."""

    def __init__(self, run: Run, key: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None, checkpoint: str | None, checkpoint_steps: int, dtype: str | None = None, processes: Any = None) -> None:
        self.run, self._folder, self._processes = run, folder, processes
        self._noise: dict[str, Any] = {"key": None if key is None else os.fspath(key), "checkpoint": checkpoint, "checkpoint_steps": checkpoint_steps, "dtype": dtype}
        self.guard: StepGuard | None = None
        self._reader: NoiseReader | None = None
        self.seed = ""

    def begin(self, like: Any, state: dict[str, Any] | None, replay: bool) -> StepGuard:
        """Begins the training of a tree of parameters, or goes on from the state of its guard."""
        several = self._processes is not None and self._processes.count > 1
        hosts = {"rank": self._processes.rank, "ranks": self._processes.count, "gather": self._processes.gather} if several else {}
        guard = StepGuard(self.run, state, replay=replay, folder=self._folder, **hosts)
        try:
            guard.taken_by("private(…).step")
            if several:
                with guard.telling():
                    self.seed = self._processes.seed(lambda: _seeds.secret(guard._folder or ""))
                guard.use_layout(Layout(like).digest)
                guard.use_whole()
                self._reader = read_noise(self.run, guard=guard, shard=self._processes.rank, shards=self._processes.count, **self._noise)
            else:
                assert guard._folder is not None  # one process keeps the record
                self.seed = _seeds.secret(guard._folder)
                self._reader = read_noise(self.run, like, guard=guard, **self._noise)
        except BaseException:
            guard.close()
            raise
        self.guard = guard
        return guard

    def noise(self, step: int) -> Any:
        """Takes a step, and gives its noise: a tree, or the row of this process' part."""
        assert self.guard is not None and self._reader is not None
        self.guard.take(step)
        return self._reader.step(step)

    def rows(self, step: int, rows: Any) -> Any:
        """The rows of the examples of a step, an array or an `OwnerBatch`. rows are those with padding, if there is any."""
        batch = self.run.batch(step)
        given = batch if rows is None else rows
        whose = isinstance(batch, OwnerBatch)
        own = np.asarray(given.rows if isinstance(given, OwnerBatch) else given)
        same = isinstance(given, OwnerBatch) == whose and np.array_equal(own[own != PADDING], batch.rows if whose else batch)
        if not same or whose and not np.array_equal(given.offsets, batch.offsets):
            raise TrainingError(f"step {step}: rows: are not those of the batch of this step, whose noise they would have: give minsep.pad(run.batch({step}), …), or leave them out where there is no padding")
        return given

    def close(self) -> None:
        """Ends the stream of noise, and gives the record of the training to the next process."""
        if self._reader is not None:
            self._reader.close()
        if self.guard is not None:
            self.guard.close()
