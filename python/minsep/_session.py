"""What a private training holds besides its weights: guard, reader of noise and the secret seed of
random numbers."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from . import _seeds
from ._batches import PADDING, OwnerBatch
from ._device import keyed
from ._guard import StepGuard
from ._reader import NoiseReader, read_noise
from ._run import Run
from ._tree import Layout, counted
from .errors import TrainingError


NO_CHECKPOINT = "{}: is no checkpoint that save of a private training wrote, or was cut: give the path of one, or of no file, where a training begins"


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A file to write, which takes the place of the one at a path when it is whole and safe."""
    new = os.fspath(path) + ".new"
    with open(new, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


class Session:
    """The guard of a training on a run directory, its noise, and the rows of its batches. One
    process trains, or processes that each read a part of the noise."""

    def __init__(self, run: Run, key: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None, checkpoint: str | None, checkpoint_steps: int, dtype: str | None = None, processes: Any = None,
        device_noise: Callable[..., NoiseReader] | None = None) -> None:
        self.run, self._folder, self._processes, self._device_noise = run, folder, processes, device_noise
        self._key = None if key is None else os.fspath(key)
        if self._key is not None and "://" not in self._key:
            keyed(run, self._key)
        if self._key is None and device_noise is not None:
            self._key = run.key
        self._noise: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_steps": checkpoint_steps, "dtype": dtype}
        if device_noise is not None and (self._key is None or checkpoint is not None):
            raise ValueError("device_noise: needs key, the file of the root key, or MINSEP_KEY, and has no checkpoint: it makes the noise itself, and what its strategy keeps is made again when a training goes on")
        self.guard: StepGuard | None = None
        self._reader: NoiseReader | None = None
        self.seed = ""  # of random numbers, of this start
        self._finite: Any = True  # of the parameters before the step that was taken last
        self._warned = False

    def begin(self, like: Any, state: dict[str, Any] | None, row: Any = None) -> StepGuard:
        """Begins the training of a tree of parameters, or goes on from the state of its guard. The
        noise is a tree as like; or, where row is given, an array of so many coordinates, this
        process' part of those of all processes."""
        processes = self._processes
        several = processes is not None and processes.count > 1
        hosts = {"rank": processes.rank, "ranks": processes.count, "gather": processes.gather} if several else {}
        guard = StepGuard(self.run, state, folder=self._folder, **hosts)
        try:
            guard.taken_by("private(…).step")
            with guard.telling():
                self.seed = processes.seed(_seeds.fresh) if several else _seeds.fresh()
            part = {}
            if row is not None:
                guard.use_layout(Layout(like).digest)
                part = {"shard": processes.rank, "shards": processes.count}
            if self._device_noise is not None:
                self._reader = self._device_noise(self.run, like if row is None else row, guard=guard, key=self._key, **part)
            else:
                self._reader = read_noise(self.run, like if row is None else None, guard=guard, key=self._key, **part, **self._noise)
        except BaseException:
            guard.close()
            raise
        self.guard = guard
        return guard

    def check_coordinates(self, count: int, whose: str, way_out: str) -> None:
        """Refuses another number of trained coordinates than the noise has."""
        if count != self.run.coordinates:
            raise ValueError(
                f"{whose} {counted(count, 'trained coordinate')}, and the noise of {self.run.path} has {self.run.coordinates}: prepare or run it again at another path, with this model or `--coordinates {count}`; or {way_out}"
            )

    def next_step(self) -> int:
        """The step of the guard that comes next; TrainingError if there is none."""
        assert self.guard is not None
        step = self.guard.next_step
        if step >= self.run.steps:
            self.guard.take(step)  # which refuses it
        return step

    def noise(self, step: int) -> Any:
        """Takes a step, and gives its noise, as `begin` says."""
        assert self.guard is not None and self._reader is not None
        self.guard.take(step)
        return self._reader.step(step)

    def check_finite(self, finite: Any) -> None:
        """Warns once of parameters that are not finite, which are public as all releases are. Whether
        the gradients of a batch are finite would tell of its examples. finite is a truth value that a
        device may still compute: nobody waits for it before the next step."""
        before, self._finite = self._finite, finite
        if not self._warned and not before:
            self._warned = True
            warnings.warn(
                "model: has parameters that are not finite, with which gradients are NaN and count as zero: the training goes on with noise alone. Go back to a checkpoint, with a smaller learning rate; "
                "steps that are taken again after a look at the model count twice (docs/noise.md)",
                RuntimeWarning,
                stacklevel=4,
            )

    def rows(self, step: int, rows: Any, examples: Iterable[Any]) -> Any:
        """The rows of the examples of a step, an array or an `OwnerBatch`. rows are those with
        padding, if there is any. Examples of another step or run are refused."""
        assert self.guard is not None
        self.guard.check_examples(examples, rows is None)
        batch = self.run.batch(step)
        given = batch if rows is None else rows
        whose = isinstance(batch, OwnerBatch)
        own = np.asarray(given.rows if isinstance(given, OwnerBatch) else given)
        same = isinstance(given, OwnerBatch) == whose and np.array_equal(own[own != PADDING], batch.rows if whose else batch)
        if not same or whose and not np.array_equal(given.offsets, batch.offsets):
            raise TrainingError(f"step {step}: rows: are not the rows of this step's batch, and would get its noise: give minsep.pad(run.batch({step}), …), or leave them out where there is no padding")
        return given

    def close(self) -> None:
        """Ends the stream of noise, and gives the record of the training to the next process."""
        if self._reader is not None:
            self._reader.close()
        if self.guard is not None:
            self.guard.close()
