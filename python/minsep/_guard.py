"""Gives each step of a training noise of its own, in order, and counts how often a step was taken."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import warnings
from typing import Any, Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from . import _hosts, _starts
from ._arguments import shown, whole
from ._hosts import AHEAD, STEP_BYTES
from ._marks import Marks
from ._run import Run, need_run
from ._starts import NEXT, Record, Starts
from .errors import NotCertifiedWarning, NotCountedWarning, NotJoinedWarning, TrainingError, WeakClaimWarning

_lent = Marks[tuple[str, str, int]]()  # examples that loaders gave: run id, path and step
_LATE = "batch: is of step {}, and the next step is {}: give each batch to step once, and take the next one from the loader; give rows= too with batches of your own"


def draw() -> bytes:
    """The random bytes of a step."""
    return os.urandom(STEP_BYTES)


class StepGuard:
    """The steps of one training on a run directory: each is taken once, in order.

    Every step has 16 random bytes of its own, which are part of the key of its noise. state_dict has
    those of the steps taken, and belongs into the trainer's checkpoint. A start, and a resume from
    state, draw new bytes for every step from there on. So no row of noise meets two sums, whatever
    was copied, killed or taken twice, and whether or not a repeated step makes the same sum.

    state is the result of `state_dict`, or None for the first start. A second start without a state
    in one folder is refused: one certificate is for one training, and its noise alone would not tell.
    `training.json` in folder, by default the run directory, says which training there is, and which
    steps each of its starts has taken. If a step was taken more than once, and somebody may have seen
    what was thrown away, the claim is weaker (docs/noise.md): `minsep inspect` counts. Where no
    record can be kept, as in an object store without folder, a NotCountedWarning says so.

    On several hosts, each gives its rank in [0, ranks), and gather, the trainer's all-gather: a
    function that takes an array of bytes and returns the arrays of all hosts. Host 0 draws the bytes
    and keeps the record. The guard compares the hosts when it is made and before each step, and a
    fault of one host is refused on all.

    One process at a time holds the guard of a training, until the process ends or calls `close`.
    After that, and in a process that was forked since, the guard takes no step. It cannot be copied
    or pickled. Raises TrainingError. If no certificate in the run directory is for its noise, a
    NotCertifiedWarning says that a model of this training has no guarantee. If the claim protects
    hardly anybody, because delta is not below one over the owners or the success of an attack is
    not bounded, a WeakClaimWarning says so.
    """

    def __init__(
        self,
        run: Run,
        state: dict[str, Any] | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        rank: int = 0,
        ranks: int = 1,
        gather: Callable[[NDArray[np.uint8]], Any] | None = None,
    ) -> None:
        need_run(run, "StepGuard(run)")
        rank, ranks = whole(rank, "rank"), whole(ranks, "ranks")
        if gather is not None and not callable(gather):
            raise TypeError(f"gather {shown(gather)}: must be a function that takes the bytes of this host and returns the bytes of all hosts, such as minsep.jax.gather, and not {type(gather).__name__}")
        if gather is None and ranks > 1:
            raise ValueError(
                f"gather: must be given with ranks {ranks}: a function that takes the bytes of this host and returns the bytes of all hosts, such as minsep.jax.gather. Without it the hosts "
                "would have different noise. On the only host, leave rank and ranks out"
            )
        self._record: Record | None = None
        self._process, self._closed = os.getpid(), False
        self._turn = threading.Lock()  # of threads that take a step
        self._inside = False  # of a loop over the guard
        self._taker = ""  # what takes the steps in place of such a loop
        self._lent: int | None = None  # the step of the batch that a loader gave last
        self._run, self._rank, self._ranks, self._gather = run, rank, ranks, gather
        self.next_step = self._began = 0
        self._bytes = bytearray()  # of steps from 0 on, as far as they are known
        self._layout = self._token = ""
        self._starts: Starts = {}
        self._start = secrets.token_hex(8)
        self._durable = False  # whether the record must outlive a loss of power at every step
        self._shards, self._parts = 0, tuple[tuple[int, int], ...]()
        self._read: dict[tuple[int, int], int] = {}  # by part, the steps before which its noise was given
        try:
            with self.telling():
                self._begin(state, folder)
            if gather is not None:
                self._compare(gather(self._host().word()))
        except BaseException:
            self.close()
            raise
        if rank == 0:
            self._warn_of_claim()

    def _warn_of_claim(self) -> None:
        run = self._run
        why = run._uncertified()
        if why is not None:
            warnings.warn(
                f"nothing certifies the noise of this training, so its model has no guarantee: {why}. For a private model, make the run by `minsep run`, or by `minsep account` before "
                "`minsep noise`; for a trial, ignore minsep.NotCertifiedWarning",
                NotCertifiedWarning,
                stacklevel=3,
            )
        weak = run._weak() if why is None else None
        if weak is not None:
            warnings.warn(
                f"the certificate of this training holds, but protects hardly anybody: {weak}; `minsep inspect {run.path}` says more. For a trial, ignore minsep.WeakClaimWarning",
                WeakClaimWarning,
                stacklevel=3,
            )

    def _begin(self, state: dict[str, Any] | None, folder: str | os.PathLike[str] | None) -> None:
        """Checks the arguments, and on host 0 the record."""
        if not 0 <= self._rank < self._ranks:
            raise ValueError(f"rank {self._rank}: must be 0 to {self._ranks - 1}, below ranks")
        if state is not None:
            self._load(state)
        self._began = self.next_step
        if self._rank > 0:
            return
        kept = None if folder is None and "://" in self._run.path else os.fspath(folder or self._run.path)
        self._record = self._open(kept)
        if self._record is not None:
            self._check_record(self._record, state is not None)
        self._token = self._token or secrets.token_hex(16)
        self._count(self.next_step, True)
        self._draw()

    def _load(self, state: dict[str, Any]) -> None:
        wrong = ValueError("state: must be the result of state_dict")
        if not isinstance(state, dict) or set(state) != {"run_id", "token", "steps", "starts", "layout"} or not all(isinstance(state[name], str) for name in ("token", "steps", "layout")):
            raise wrong
        if state["run_id"] != self._run.run_id:
            raise TrainingError(
                f"{self._run.path}: the checkpoint belongs to run {state['run_id']}, and the directory to run {self._run.run_id}: "
                "begin the training of this run without the checkpoint, or give the directory of the checkpoint's run"
            )
        try:
            self._bytes = bytearray.fromhex(state["steps"])
            self._starts = _starts.read_starts(state["starts"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise wrong from None
        self.next_step, rest = divmod(len(self._bytes), STEP_BYTES)
        if rest or self.next_step > self._run.steps:
            raise wrong
        self._token, self._layout = state["token"], state["layout"]

    def _open(self, folder: str | None) -> Record | None:
        """The record in a folder; None with a warning if none can be kept."""
        why = "the run directory is in an object store"
        if folder is not None:
            try:
                return Record(folder, self._run.run_id)
            except OSError as err:
                why = f"no record of the training can be kept in {folder} ({err.strerror or err})"
        warnings.warn(
            f"{self._run.path}: starts are not counted: {why}. A second training of this run would not be refused, and steps that are taken twice are not counted: give a folder on this machine, always the "
            "same: StepGuard(…, folder=…)",
            NotCountedWarning,
            stacklevel=4,
        )
        return None

    def _check_record(self, record: Record, resumed: bool) -> None:
        """Compares the training with the one that the record has."""
        taken = max((end for _, end in record.starts.values()), default=0)
        if not resumed:
            if taken > 0:
                raise TrainingError(
                    f"{self._run.path}: serves a training already, as {record.path} says: one certificate is for one training. To go on with that training, give the state of its checkpoint; for another "
                    f"training, {NEXT}. If that training was lost before its first checkpoint, and nothing of it was kept or seen, remove {record.path}"
                )
            return  # a start that took no step has used nothing
        if record.token not in ("", self._token) and taken > 0:
            raise TrainingError(f"{self._run.path}: serves another training than the checkpoint, as {record.path} says: {NEXT}")
        if record.token != self._token:
            if self.next_step > 0:
                warnings.warn(
                    f"{record.path}: has no record of this training, so that steps which were taken after its checkpoint are not counted: go on in the folder where the training began, or copy its {_starts.NAME}",
                    NotCountedWarning,
                    stacklevel=4,
                )
            return
        self._starts = _starts.merged(record.starts, self._starts)

    def _count(self, end: int, durable: bool) -> None:
        """Counts the steps before end as taken by this start."""
        self._starts[self._start] = self._began, end
        if self._record is not None:
            self._record.write(self._token, self._starts, durable)

    # Steps

    def take(self, step: int) -> None:
        """Says that a step is taken now: call it before its noise is added, once for each step, in
        order. With gather, the hosts are compared first."""
        step = whole(step, "step")
        self._check_process(f"step {step}")
        with self._turn:
            self._take_in_turn(step)

    def _check_process(self, what: str) -> None:
        if self._closed:
            raise TrainingError(f"{what}: this guard was closed, and another one may take its steps: make a new one, with the state of a checkpoint")
        if self._process != os.getpid():
            raise TrainingError(f"{what}: this process was forked since the guard was made, and both would take the same steps: make the guard in the process that trains, and one only")

    def _take_in_turn(self, step: int) -> None:
        with self.telling():
            self._check_step(step)
            if self._rank == 0:
                self._count(step + 1, self._durable)  # before its noise is used: a step that is counted and not used costs nothing
        if self._gather is not None:
            self._compare(self._gather(self._host().word()))
        if step == self._began + 1:  # the first batch has been read
            self._warn_of_rows()
        self.next_step = step + 1
        self._draw()

    def _draw(self) -> None:
        """Draws the bytes of the steps that come, on host 0."""
        while self._rank == 0 and len(self._bytes) < STEP_BYTES * min(self.next_step + AHEAD, self._run.steps):
            self._bytes += draw()

    def _check_step(self, step: int) -> None:
        """Refuses a step that is not the next one."""
        if step < self.next_step:
            raise TrainingError(f"step {step}: was taken already: go on with step {self.next_step}; to take it again, with other noise, begin from the checkpoint before it")
        if step >= self._run.steps:
            raise TrainingError(f"step {step}: the run has steps 0 to {self._run.steps - 1}: to train longer, make a run with more steps")
        if step > self.next_step:
            raise TrainingError(f"step {step}: step {self.next_step} comes first: a step that is left out changes what the noise hides. Take every step, and steps with an empty batch too")

    def _warn_of_rows(self) -> None:
        why = self._run._not_joined()
        if why is not None:
            warnings.warn(f"{self._run.path}: {why}. Where the rows are meant, ignore minsep.NotJoinedWarning", NotJoinedWarning, stacklevel=4)

    def __iter__(self) -> Iterator[int]:
        """The steps that are left, each taken as it comes."""
        if self._taker:
            raise TrainingError(f"step {self.next_step}: {self._taker} takes the steps of this guard, with their noise: loop over the loader alone, `for batch in loader`, and not over `zip(guard, loader)`")
        while self.next_step < self._run.steps:
            step = self.next_step
            self.take(step)
            self._inside = True
            try:
                yield step
            finally:
                self._inside = False

    def taken_by(self, what: str) -> None:
        """Names the caller that takes the steps from now on. A loop over the guard would take them
        too, and is refused before it takes one."""
        self._taker = what

    # Loaders

    def begin_batches(self, run: Run) -> int:
        """The step with which a loader of the run's batches begins now: the next one."""
        if run.run_id != self._run.run_id:
            raise ValueError(f"guard: belongs to the run in {self._run.path}, and the batches to another run, in {run.path}: give the loader the guard of its own run, StepGuard(run)")
        if self._inside:
            raise TrainingError(
                f"batch of step {self.next_step}: the loader begins inside a loop over the guard, which has taken step {self.next_step - 1}: its batches would meet the noise of the steps before them. "
                "Begin it before: `for step, batch in zip(guard, loader)`"
            )
        return self.next_step

    def check_batch(self, step: int) -> None:
        """Refuses the batch of a step that is over: it would meet the noise of a later step. Loaders
        may run ahead of the guard."""
        check_batch(step, self.next_step)

    def lend(self, step: int, examples: Iterable[Any]) -> None:
        """Says that a loader gives the examples of a step now, some arrays, and refuses to if the step
        before was not taken."""
        if step != self.next_step:
            raise TrainingError(
                f"batch of step {step}: the next step is {self.next_step}: give each batch to step once, an empty one too, before the next one is taken; a step that is left out changes what the noise hides"
            )
        self._lent = step
        for array in examples:
            _lent.put(array, (self._run.run_id, self._run.path, step))

    def check_examples(self, examples: Iterable[Any], loaded: bool) -> None:
        """Refuses examples that a loader gave for a step of another run, or for another step than the
        next. loaded says that a loader that has given one gives them all."""
        step = self.next_step
        for array in examples:
            run_id, path, of = _lent.of(array) or (self._run.run_id, "", step)
            if run_id != self._run.run_id:
                raise TrainingError(f"batch: is of step {of} of the run in {path}, and the training is of the run in {self._run.path}: the noise of one run hides its own batches alone. Give step the batches of its own training's loader")
            if of != step:
                raise TrainingError(_LATE.format(of, step))
        if loaded and self._lent not in (None, step):
            raise TrainingError(_LATE.format(self._lent, step))

    # Hosts

    def _host(self, refused: str = "") -> _hosts.Host:
        """The next step of this host: its run, training, step, part and bytes of the noise."""
        taken = self._taken()
        ahead = bytes(self._bytes[len(taken) :][: AHEAD * STEP_BYTES])
        return _hosts.Host(self._rank, self._ranks, self.next_step, self._run.run_id, self._run.fingerprint, self._token, self._layout, self._shards, self._parts,
            hashlib.sha256(taken).hexdigest(), ahead, refused)

    def _taken(self) -> bytes:
        """The bytes of the steps taken."""
        return bytes(self._bytes[: STEP_BYTES * self.next_step])

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """With gather, tells the other hosts of an error on this host alone. They hear of it in their
        next comparison, and take no step. Their next all-gather must be that comparison."""
        try:
            yield
        except Exception as err:
            if self._gather is not None and not self._closed:
                self.close()
                _hosts.tell(self._gather, self._host(str(err)))
            raise

    def _compare(self, gathered: Any) -> None:
        """Compares the hosts before a step, and takes the bytes of the next steps from host 0.
        gathered is the result of the all-gather of their words, shape [hosts, bytes].

        These are refused: hosts with other batches or another recipe; checkpoints of several
        trainings or steps, or with other bytes of the steps taken. Of hosts that have read_noise
        with the guard, these are refused too: another number of shards, a shard that two hosts take
        or none takes, and parameters of other names or shapes for one shard.
        """
        first = _hosts.check(_hosts.read(gathered))
        self._token = first.token
        begin = STEP_BYTES * self.next_step
        ahead = first.ahead[: STEP_BYTES * self._run.steps - begin]
        known = bytes(self._bytes[begin:])
        if self._rank > 0 and not ahead.startswith(known):
            raise TrainingError(f"hosts: host 0 has drawn other bytes for the steps from {self.next_step} on than host {self._rank} knows: they would have different noise. Resume all of them from one checkpoint")
        self._bytes += ahead[len(known) :]

    def use_run(self, run: Run) -> None:
        """Refuses the noise of another run: its record would not tell that it was used. A copy of
        the run has the same."""
        mine, other = self._run, run
        if other.run_id != mine.run_id or mine._noise is not None and other._noise is not None and other._noise.recipe_digest != mine._noise.recipe_digest:
            raise ValueError(f"guard: belongs to the run in {mine.path}, and the noise to another run, in {other.path}: give read_noise a guard of its own run, StepGuard(run)")

    def use_layout(self, digest: str) -> None:
        """Refuses a parameter tree other than that of the training's first steps: each coordinate
        keeps its noise."""
        if self._layout and self._layout != digest:
            raise TrainingError(
                "model, or like: has other names, shapes or order than the parameters with which this training began: each must keep its coordinates of the noise. "
                f"Give the parameters as they were then; for another model, {NEXT}"
            )
        self._layout = digest

    def use_files(self) -> None:
        """Says that noise is read from files, whose rows do not change from start to start: each is
        given once, after the record that it was is safe from a loss of power."""
        if self._rank > 0:
            return  # host 0 refuses for all, before the next step
        if self._record is None:
            raise TrainingError(f"{self._run.path}: has noise in files, of which a row must not be given twice, and no record can tell: give a folder on this machine, always the same: StepGuard(…, folder=…); or give key, and the noise is made during the training")
        taken = max((end for name, (_, end) in self._starts.items() if name != self._start), default=0)
        if taken > self.next_step:
            raise TrainingError(
                f"{self._run.path}: has noise in files, of which the rows of {_steps(self.next_step, taken - 1)} given after this checkpoint, and two sums with the same noise reveal their difference: "
                f"give read_noise key=, and the noise is made anew during the training; else {NEXT}"
            )
        self._durable = True

    def use_shard(self, shard: int, shards: int, replica: int) -> None:
        """Says that this host reads a part of the noise from now on. It is refused after steps of
        this guard without that part. Hosts are compared by `_compare`."""
        part = shard, replica
        given = self._read.get(part, self._began)
        if given < self.next_step:
            raise TrainingError(
                f"noise: {_steps(given, self.next_step - 1)} taken, and no reader with this guard has given their noise: the weights since then are not private. Discard them, and begin again from "
                f"the last checkpoint before step {given}: make guard and reader before the loop, and read the noise of every step. Without such a checkpoint, {NEXT}"
            )
        if part in self._parts and shards == self._shards:
            return
        if self._shards not in (0, shards):
            raise TrainingError(f"shards {shards}: this host reads the noise in {self._shards} shards already: give read_noise the same number of shards each time")
        other = next((r for s, r in self._parts if s == shard and r != replica), None)
        if other is not None:
            raise TrainingError(
                f"replica {replica}: a reader with this guard has replica {other} of the same noise: two sums with it reveal their difference. Replicas are for hosts that hold the same parameters, one each: "
                "in one process, make one reader, and give its rows to the finished sum"
            )
        if len(self._parts) == _hosts.MOST_PARTS:
            raise ValueError(f"shard {shard}: a host reads at most {_hosts.MOST_PARTS} parts of the noise with one guard: give the host fewer and larger parts")
        self._shards, self._parts = shards, (*self._parts, part)

    def use_noise(self, step: int, shard: int, replica: int) -> None:
        """Says that the noise of a step is given now, for a part that this host reads. It is
        refused a second time."""
        self._check_process(f"noise of step {step}")
        if step >= self.next_step:
            raise TrainingError(f"noise of step {step}: the guard has not taken this step: take it first, with `for step in guard` or guard.take({step})")
        part = shard, replica
        if step < self._read.get(part, 0):
            raise TrainingError(f"noise of step {step}: another reader with this guard has given it, and it must not hide a second sum. Make one reader of the noise for a training; {NEXT}")
        self._read[part] = step + 1

    def step_bytes(self) -> bytes:
        """The random bytes of the steps from 0 on, as far as they are known: of the steps taken, and
        of some that follow."""
        return bytes(self._bytes)

    # State

    def state_dict(self) -> dict[str, Any]:
        """The content for a checkpoint, which is saved after the update of the last taken step: for
        JSON, with 32 digits for each step taken."""
        return {"run_id": self._run.run_id, "token": self._token, "steps": self._taken().hex(), "starts": {name: list(start) for name, start in self._starts.items()}, "layout": self._layout}

    def __reduce__(self) -> Any:
        """No copy and no pickle: both guards would take the same steps, and the one that ends would
        close the files of the other."""
        raise TypeError("StepGuard: cannot be copied or pickled: a second guard would give the noise of each step to a second sum. Make it in the process that trains; for a checkpoint, save state_dict()")

    def close(self) -> None:
        """Gives the record back to the next process of this training. This guard takes no more
        steps."""
        self._closed = True
        if self._record is not None:
            self._record.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (AttributeError, TypeError):  # never opened; or the interpreter ends, and its modules are gone: so is the file
            pass


def check_guard(guard: Any, start: int | None, call: str) -> StepGuard | None:
    """The guard that a loader was given. It may be None only if the first step is given."""
    if guard is not None and not isinstance(guard, StepGuard):
        raise TypeError(f"guard {guard!r}: must be the training's StepGuard, {call}, so that batches and noise belong to the same steps; without a training, None with start=, the first step")
    if (guard is None) == (start is None):
        raise TypeError(f"guard: must be the training's StepGuard, {call}, which knows the first step; start= is for guard=None, where there is no training")
    return guard


def check_batch(step: int, next_step: int) -> None:
    """Refuses the batch of a step before the one that was taken last."""
    if step < next_step - 1:
        raise TrainingError(
            f"batch of step {step}: the guard has taken step {next_step - 1}, whose noise must hide the batch of its own step. Begin the loader anew at the guard's next step, {next_step}, "
            "with the state of the same checkpoint, and take one batch for each step"
        )


def _steps(first: int, last: int) -> str:
    return f"step {first} was" if first == last else f"steps {first} to {last} were"
