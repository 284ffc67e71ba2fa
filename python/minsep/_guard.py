"""Keeps each run directory to one training, and the noise of each step to one sum."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import threading
import warnings
from typing import Any, Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from . import _hosts, _records, _sums
from ._arguments import shown, whole
from ._run import Run, need_run
from ._trainings import NEXT, RECORD_NAME, Lock, Record, no_link, on_this_machine, read
from .errors import NoGuardWarning, NotCertifiedWarning, NotJoinedWarning, TrainingError, WeakClaimWarning

SHARDS_FOLDER = "training.shards"
_WHOLE = -1, 0  # in the place of a shard and its replica: all of the noise
_SHARD = re.compile(r"shard-\d+-of-(\d+)(-replica-\d+)?")


class StepGuard:
    """The steps of one training on a run directory: each is taken once, in order.

    The noise of a run directory hides one training. The first step of a StepGuard in a run
    directory binds the directory to its training by a token. The token is in `training.json` there,
    in the user's folder of records on this machine (`$XDG_STATE_HOME/minsep/trainings`, by default
    below `~/.local/state`), and in `state_dict`, which belongs into the trainer's checkpoint. A
    later StepGuard needs the state of a checkpoint. Without it, or with the state of another
    training, it is refused, even with another learning rate or seed. It is also refused in a copy
    of the run directory, if the records on this machine show that it is a copy. The next training needs another
    run: `minsep run --again` with the same plan, or another run directory.

    state is the result of `state_dict`, or None for the first start. The record also counts the
    steps taken. A checkpoint from before some of these steps would give their noise to other sums,
    unless the trainer repeats them bit for bit; then give replay=True. folder is the folder of
    training.json, by default the run directory. It must be given for a run directory in an object
    store, always the same folder. For a copy of a run directory beside the original, give the
    original.

    On several hosts, each gives its rank in [0, ranks), and gather, the trainer's all-gather: a
    function that takes an array of bytes and returns the arrays of all hosts. The guard compares the
    hosts when it is made and before each step, and a fault of one host is refused on all. Host 0 keeps the
    record, or the host with primary=True. The others only count; if they see a record of steps,
    they need the state of a checkpoint too. Hosts that added the same noise to different sums are
    refused at the next step.

    The folder training.sums beside training.json has, for each step that `add_noise` has seen
    outside of jax.jit, a digest of the released values. With replay=True, a step that releases
    other values is refused.

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
        replay: bool = False,
        primary: bool | None = None,
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
                f"gather: must be given with ranks {ranks}: a function that takes the bytes of this host and returns the bytes of all hosts, such as minsep.jax.gather. Without it this host does not hear of the "
                "others, and a second training with the same noise would not be refused. On the only host, leave rank and ranks out"
            )
        self._records: list[Record] = []
        self._claims: list[Lock] = []
        self._process, self._closed = os.getpid(), False
        self._turn = threading.Lock()  # of threads that take a step
        self._inside = False  # of a loop over the guard
        self._taker = ""  # what takes the steps in place of such a loop
        self._run, self._rank, self._ranks, self._gather = run, rank, ranks, gather
        self._primary = rank == 0 if primary is None else primary
        self.next_step = self._began = 0
        self._layout = ""
        self._token = ""
        self._shards, self._parts = 0, tuple[tuple[int, int], ...]()
        self._read: dict[tuple[int, int], int] = {}  # by part, the steps before which its noise was given
        self._sums: dict[tuple[int, int], _sums.Sums] = {}  # by part
        self._repeats = 0  # the steps before it were taken before
        try:
            with self.telling():
                self._begin(state, replay, primary, folder)
            if gather is not None:
                self._compare(gather(self._word()))
        except BaseException:
            self.close()
            raise
        if self._primary and state is None and _records.was_streamed(run.run_id):
            warnings.warn(
                f"{run.path}: its noise was read before, without a guard. If a training used it, this one must not: two sums with the same noise reveal their difference; {NEXT}. "
                "If it was only looked at, ignore minsep.NoGuardWarning",
                NoGuardWarning,
                stacklevel=2,
            )
        why = run._uncertified() if self._primary else None
        if why is not None:
            warnings.warn(
                f"nothing certifies the noise of this training, so its model has no guarantee: {why}. For a private model, make the run by `minsep run`, or by `minsep account` before "
                "`minsep noise`; for a trial, ignore minsep.NotCertifiedWarning",
                NotCertifiedWarning,
                stacklevel=2,
            )
        weak = run._weak() if self._primary and why is None else None
        if weak is not None:
            warnings.warn(
                f"the certificate of this training holds, but protects hardly anybody: {weak}; `minsep inspect {run.path}` says more. For a trial, ignore minsep.WeakClaimWarning",
                WeakClaimWarning,
                stacklevel=2,
            )

    def _begin(self, state: dict[str, Any] | None, replay: bool, primary: bool | None, folder: str | os.PathLike[str] | None) -> None:
        """Checks the arguments and the records that this host can see by itself."""
        rank, ranks, run = self._rank, self._ranks, self._run
        if not 0 <= rank < ranks:
            raise ValueError(f"rank {rank}: must be 0 to {ranks - 1}, below ranks")
        if ranks == 1 and primary is False:
            raise ValueError(
                "primary False: must be left out on the only host (ranks=1): without a record of the training, a second training with the same noise would not be refused. "
                "On one of several hosts, give its rank and the number of hosts as ranks"
            )
        if state is not None:
            self._load(state)
        self._began = self.next_step
        if folder is None and "://" in run.path:
            if self._primary:
                raise ValueError("folder: must be given for a run directory in an object store: a folder on this machine for the record of the training")
            self._folder = None
        else:
            self._folder = os.fspath(folder) if folder is not None else run.path
        if self._primary:
            self._take(state is not None, replay)
        elif self._folder is not None:
            self._look(state is not None)

    def _load(self, state: dict[str, Any]) -> None:
        known = {"run_id", "token", "next_step", "layout"}
        if not isinstance(state, dict) or set(state) != known or not isinstance(state["token"], str) or not isinstance(state["layout"], str):
            raise ValueError("state: must be the result of state_dict")
        if state["run_id"] != self._run.run_id:
            raise TrainingError(
                f"{self._run.path}: the checkpoint belongs to run {state['run_id']}, and the directory to run {self._run.run_id}: "
                "begin the training of this run without the checkpoint, or give the directory of the checkpoint's run"
            )
        if type(state["next_step"]) is not int or not 0 <= state["next_step"] <= self._run.steps:
            raise ValueError(f"state: next_step {state['next_step']}: must be 0 to {self._run.steps}")
        self._token, self.next_step, self._layout = state["token"], state["next_step"], state["layout"]

    def _take(self, resumed: bool, replay: bool) -> None:
        """Makes the records, or compares with them."""
        assert self._folder is not None
        run_id = self._run.run_id
        original = _records.copy_of(self._run)
        if original is not None and not _records.same(self._folder, original):
            raise TrainingError(
                f"{self._run.path}: is a copy of {original}: both have the same batches and the same noise, which must not hide two trainings. Train in the original; or give this copy batches and noise of its own: "
                f"`minsep run --again --out {self._run.path} PLAN.json`; or read this copy, and keep the record of the training in the original: StepGuard(…, folder={original!r})"
            )
        path = os.path.join(self._folder, RECORD_NAME)
        try:
            self._records.append(Record(path, run_id))
        except OSError as err:
            raise TrainingError(f"{path}: cannot be written ({err.strerror or err}), and the record of the training belongs there: keep it in another folder, always the same: StepGuard(…, folder=…)") from None
        self._remember()
        known = [r for r in self._records if r.token]
        taken = max((r.taken for r in known), default=0)
        paths = " and ".join(r.path for r in known)
        if resumed and not known:
            raise TrainingError(
                f"{self._records[0].path}: has no record of this training: the checkpoint belongs to another copy of the run directory, or the record was removed: "
                f"copy {RECORD_NAME} from the directory in which this training began, or give that directory as folder"
            )
        if not resumed:
            if taken > 0:
                raise TrainingError(
                    f"{self._run.path}: serves a training already: its noise must not hide another one. To go on with that training, give the state of its checkpoint; for another training, "
                    f"{NEXT}. If that training was lost before its first checkpoint, and nothing of it was kept or seen, remove {paths}"
                )
            self._token = secrets.token_hex(16)  # no step was taken: a start before has used nothing
            self._write(0)
            return
        for r in known:
            if r.token != self._token:
                raise TrainingError(f"{self._run.path}: serves another training than the checkpoint, as {r.path} says: {NEXT}")
        if self.next_step < taken and not replay:
            raise TrainingError(
                f"{self._run.path}: {_steps(self.next_step, taken - 1)} taken after this checkpoint. The same noise with other sums reveals their difference: "
                "repeat them only in a trainer that gives the same sums bit for bit, and say so by replay=True; else "
                f"{NEXT}"
            )
        self._write(max(taken, self.next_step))
        self._repeats = taken

    def _remember(self) -> None:
        """Opens the record in the user's folder of records: it is outside of the run directory, so
        that a training is known in copies of the directory too."""
        path = on_this_machine(self._run.run_id)
        folder = None if path is None else os.path.dirname(path)
        try:
            if path is None or folder is None:
                raise FileNotFoundError(errno.ENOENT, "no home directory is known")
            os.makedirs(folder, 0o700, exist_ok=True)
            self._records.append(Record(path, self._run.run_id))
        except OSError as err:
            warnings.warn(
                f"{folder}: no record of the training can be kept there ({err.strerror or err}): a copy of the run directory will not be refused on this machine; set {_records.VARIABLE} to a folder that can be written to",
                stacklevel=5,
            )

    def _look(self, resumed: bool) -> None:
        """Compares with the record of the training's first host, where that can be seen. It may not
        be there yet."""
        assert self._folder is not None
        record = None
        for path in os.path.join(self._folder, RECORD_NAME), on_this_machine(self._run.run_id):
            found = None if path is None else read(path)
            if found is not None and found[0] == self._run.run_id and (record is None or found[2] > record[2]):
                record = found
        if record is None:
            return
        _, token, taken = record
        if not resumed and taken > 0:
            raise TrainingError(
                f"{self._run.path}: serves a training already: its noise must not hide another one. To go on with that training, give the state of its checkpoint on all hosts; for another training, {NEXT}"
            )
        self._repeats = taken
        if resumed and token != self._token:
            raise TrainingError(f"{self._run.path}: serves another training than this host's checkpoint: resume all hosts from checkpoints of one training")

    def _write(self, taken: int) -> None:
        for record in self._records:
            record.write(self._token, taken)
        self._taken = taken

    def take(self, step: int) -> None:
        """Says that a step is taken now: call it before its noise is added, once for each step, in
        order. With gather, the hosts are compared first."""
        step = whole(step, "step")
        if self._closed:
            raise TrainingError(f"step {step}: this guard was closed, and another one may take its steps: make a new one, with the state of a checkpoint")
        if self._process != os.getpid():
            raise TrainingError(f"step {step}: this process was forked since the guard was made, and both would take the same steps: make the guard in the process that trains, and one only")
        with self._turn:
            self._take_in_turn(step)

    def _take_in_turn(self, step: int) -> None:
        with self.telling():
            self._check_step(step)
            for sums in self._sums.values():
                sums.settle(step if self._gather is not None else step - 1)  # an accelerator may still compute the last one
                if self._began < step <= self._repeats and sums.last[0] != step - 1:
                    self.close()
                    raise TrainingError(
                        f"{self._run.path}: step {step - 1} was taken before, and add_noise did not see what it releases now, so that nothing compares the two sums with the same noise. "
                        f"Discard what this trainer made of it; give add_noise the rows of noise.step(t) as they come, outside of jax.jit; else {NEXT}"
                    )
        if self._gather is not None:
            self._compare(self._gather(self._word()))
        if self._records and step >= self._taken:
            self._write(step + 1)  # before its noise is used: a step that is counted and not used costs nothing
        if step == self._began + 1:  # the first batch has been read
            self._warn_of_rows()
        self.next_step = step + 1

    def _check_step(self, step: int) -> None:
        """Refuses a step that is not the next one."""
        if step < self.next_step:
            raise TrainingError(
                f"step {step}: was taken already: its noise must not hide a second sum. Go on with step {self.next_step}; to repeat steps bit for bit, begin from the checkpoint before them, with replay=True"
            )
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

    # Hosts

    def _word(self) -> NDArray[np.uint8]:
        """The next step of this host, in bytes of one size on all hosts: its run, training, step and
        part of the noise."""
        return self._host().word()

    def _host(self, refused: str = "") -> _hosts.Host:
        sums = tuple(self._sums[part].last for part in self._parts)
        return _hosts.Host(
            self._rank, self._ranks, self._primary, self.next_step, self._run.run_id, self._run.fingerprint, self._token, self._layout, self._shards, self._parts, sums, refused
        )

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
        """Compares the hosts before a step. gathered is the result of the all-gather of their
        words, shape [hosts, bytes].

        These are refused: hosts with other batches or another recipe; checkpoints of several
        trainings or steps; no host, or two, that keep the record. Of hosts that have read_noise
        with the guard, these are refused too: another number of shards, a shard that two hosts take
        or none takes, and parameters of other names or shapes for one shard. A host without a token
        gets the token of the training.
        """
        token = _hosts.check(_hosts.read(gathered))
        if not self._token:
            self._token = token

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
                "like: has other names, shapes or order than the parameters with which this training began: each parameter must keep its coordinates of the noise. "
                f"Give read_noise the parameters as they were at the beginning; for another model, {NEXT}"
            )
        self._layout = digest

    def use_shard(self, shard: int, shards: int, replica: int) -> None:
        """Says that this host reads a part of the noise from now on. It is refused after steps of
        this guard without that part. It is also refused if a process that sees the same folder
        reads the same part, or another number of shards. Hosts that do not see each other's folders
        are compared by `_compare`."""
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
        if self._folder is not None and shards > 1:
            self._claim(no_link(os.path.join(self._folder, SHARDS_FOLDER)), shard, shards, replica)
        self._sums[part] = self._released(shard, shards, replica)
        self._shards, self._parts = shards, (*self._parts, part)

    def use_whole(self) -> None:
        """Makes digests of the whole release of all hosts, as `released_whole` records it, in place
        of each host's part: so they can be compared for any number of hosts."""
        self._sums[_WHOLE] = self._released(0, 1, 0)

    def released_whole(self, step: int) -> _sums.Released:
        """The object that records the whole release of a step, after `use_whole`."""
        return _sums.Released(self._sums[_WHOLE], step)

    def use_noise(self, step: int, shard: int, replica: int) -> _sums.Released:
        """Says that the noise of a step is given now, for a part that this host reads. It is
        refused a second time. The returned object records the sum to which the noise is added."""
        part = shard, replica
        if step < self._read.get(part, 0):
            raise TrainingError(f"noise of step {step}: another reader with this guard has given it, and it must not hide a second sum. Make one reader of the noise for a training; {NEXT}")
        self._read[part] = step + 1
        return _sums.Released(self._sums[part], step)

    def _released(self, shard: int, shards: int, replica: int) -> _sums.Sums:
        """The digests of the values that the training releases with a part of the noise. One host
        keeps the digests of each part."""
        keeps = self._folder is not None and _WHOLE not in self._sums and (self._primary if shards == 1 else replica == 0)
        path = os.path.join(no_link(os.path.join(self._folder, _sums.FOLDER)), f"{shard}-of-{shards}") if keeps and self._folder is not None else None

        def refused(words: str) -> None:
            with self.telling():
                try:
                    raise TrainingError(f"{self._run.path}: {words}; {NEXT}")
                finally:
                    if self._gather is None:
                        self.close()

        sums = _sums.Sums(path, self._token, self._repeats, refused)
        return sums

    def _claim(self, folder: str, shard: int, shards: int, replica: int) -> None:
        """Locks a part of the noise. It refuses a locked part, and another number of shards than
        other processes have."""
        name = f"shard-{shard}-of-{shards}" + (f"-replica-{replica}" if replica else "")
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            mine = Lock(os.path.join(folder, name), wait=True)
        except BlockingIOError:
            raise TrainingError(
                f"shard {shard} of {shards}: another process of this training reads it: two sums with the same noise reveal their difference. Give each host a shard of its own; hosts that hold the same "
                "parameters, and so the same sums, say so by read_noise(…, replica=1) and so on"
            ) from None
        except OSError:  # a folder that is only read, or without locks: nothing is known of the other hosts here
            return
        self._claims.append(mine)
        for other in os.listdir(folder):
            found = _SHARD.fullmatch(other)
            if found is None or int(found[1]) == shards:
                continue
            try:
                Lock(os.path.join(folder, other), wait=True).close()
            except BlockingIOError:
                raise TrainingError(f"shards {shards}: another process of this training reads the noise in {found[1]} shards: give read_noise the same number on all hosts") from None
            except OSError:
                pass

    # State

    def state_dict(self) -> dict[str, Any]:
        """The content for a checkpoint, which is saved after the update of the last taken step:
        strings and a number."""
        self._settle()
        return {"run_id": self._run.run_id, "token": self._token, "next_step": self.next_step, "layout": self._layout}

    def __reduce__(self) -> Any:
        """No copy and no pickle: both guards would take the same steps, and the one that ends would
        close the files of the other."""
        raise TypeError("StepGuard: cannot be copied or pickled: a second guard would give the noise of each step to a second sum. Make it in the process that trains; for a checkpoint, save state_dict()")

    def close(self) -> None:
        """Gives the record back to the next process of this training. This guard takes no more
        steps."""
        closed, self._closed = self._closed, True
        try:
            if not closed and self._process == os.getpid():
                self._settle()
        finally:
            self._release()

    def _release(self) -> None:
        self._closed = True
        for lock in [*self._records, *self._claims]:
            lock.close()
        for sums in self._sums.values():
            sums.close()
        self._records, self._claims = [], []

    def _settle(self) -> None:
        """Writes the digests of the released values of all steps."""
        for sums in self._sums.values():
            sums.settle(self.next_step)

    def __del__(self) -> None:
        try:
            self._release()
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
