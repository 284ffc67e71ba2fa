"""Reads noise step by step, from files or from a stream, by parameter tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _command, _rows
from ._arguments import shown, whole
from ._guard import StepGuard
from ._noise import shard_range
from ._run import Run, need_run
from ._tree import Layout, flatten
from .errors import RunDirectoryError, TrainingError, UsageError

HEAD_BYTES, FORMAT = 4096, "minsep-noise-stream/2"
_TYPES = {"float32": "<f4", "float64": "<f8"}


class NoiseReader:
    """The noise of a run's steps, one after the other. See `read_noise`."""

    def __init__(self, run: Run, like: Any, guard: StepGuard, shard: int, shards: int, replica: int, key: str | None, dtype: str | None, checkpoint: str | None, checkpoint_steps: int) -> None:
        noise = run._need_noise()
        shard, shards, replica = whole(shard, "shard"), whole(shards, "shards"), whole(replica, "replica")
        if dtype is not None and (not isinstance(dtype, str) or dtype not in _TYPES):
            raise ValueError(
                f"dtype {dtype!r}: must be float32 or float64. A bfloat16 does not hold the noise on its grid: add it in float32, and round the sum (add_noise)"
            )
        guard.use_run(run)
        if replica < 0:
            raise ValueError(f"replica {replica}: must be at least 0")
        if not 1 <= shards <= noise.coordinates or not 0 <= shard < shards:
            raise ValueError(f"shard {shard} of {shards}: must be one of 1 to {noise.coordinates} shards")
        lo, hi = shard_range(noise.coordinates, shard, shards)
        self._layout = None if like is None else Layout(like)
        if self._layout is not None:
            if self._layout.size != hi - lo:
                what, way_out = "the noise", f"for a model of so many, plan and run with `--coordinates {self._layout.size}` and another `--out`; else give the parameters that are trained, and no others"
                if shards > 1:
                    what = f"shard {shard} of {shards} of the noise"
                    way_out = "give the parameters that this host holds, divided as the shards are; for a model of another size, plan and run with its number as `--coordinates` and another `--out`"
                raise ValueError(f"like: has {self._layout.size} coordinates, {what} has {hi - lo}: {way_out}")
            self._use_layout(guard, self._layout)
        guard.use_shard(shard, shards, replica)
        self._run, self._guard, self._noise, self._dtype = run, guard, noise, np.dtype(_TYPES[dtype or "float32"])
        self._shard, self._shards, self._replica = shard, shards, replica
        self.width = hi - lo
        self.next_step = guard.next_step
        self._stream: _Stream | None = None
        self._open(key, dtype, checkpoint, checkpoint_steps)

    def _use_layout(self, guard: StepGuard, layout: Layout) -> None:
        """Tells the guard what the parameters are."""
        guard.use_layout(layout.digest)

    def _open(self, key: str | None, dtype: str | None, checkpoint: str | None, checkpoint_steps: int) -> None:
        """Begins a stream, or looks at the files."""
        noise = self._noise
        if key is None and noise.shards == 0:
            key = self._run.key
        if key is not None:
            kept = [] if checkpoint is None else ["--checkpoint", str(checkpoint), "--checkpoint-steps", str(checkpoint_steps)]
            try:
                self._stream = _Stream(self, key, kept)
            except UsageError as err:
                if dtype is not None or "--dtype float32: must be float64" not in str(err):
                    raise
                self._dtype = np.dtype(_TYPES["float64"])
                self._stream = _Stream(self, key, kept)
        elif checkpoint is not None:
            raise ValueError("checkpoint: is for noise that is made during the training: give key too")
        elif noise.shards == 0:
            raise ValueError("key: must be given, since the run directory has only the recipe of the noise: give the file of the root key, with which the noise is made during the training, or name it in MINSEP_KEY")
        else:
            self._open_files(dtype)

    def _open_files(self, dtype: str | None) -> None:
        self._guard.use_files()
        start = self.next_step
        if start < self._noise.steps and np.dtype(self._noise.dtype).itemsize > self._dtype.itemsize:
            try:
                self._from_files(start)  # so that a fault uses no step up
            except ValueError:
                if dtype is not None:
                    raise
                self._dtype = np.dtype(_TYPES["float64"])

    def step(self, step: int) -> Any:
        """The noise of a step, which must be the next one: a tree as like, or an array [width].
        `add_noise` takes it once."""
        if step != self.next_step:
            way_out = "a row is given once: to take the step again, with other noise, make guard and reader again, from the checkpoint before it"
            if step > self.next_step:
                way_out = f"what was made of a sum without its noise is not private: discard it, and begin again from the last checkpoint before step {self.next_step}"
            raise TrainingError(f"noise of step {step}: the next step is {self.next_step}: noise is read in order, once. Read every step, those with an empty batch too; {way_out}")
        if step >= self._noise.steps:
            raise TrainingError(f"noise of step {step}: the run has steps 0 to {self._noise.steps - 1}: to train longer, make a run with more steps")
        self._guard.use_noise(step, self._shard, self._replica)
        self.next_step = step + 1  # at once: a row that an interrupt loses is not given again
        given = self._given(step)
        _rows.give([leaf for _, leaf in flatten(given)[0]], step, self._run.run_id)
        return given

    def _given(self, step: int) -> Any:
        """The noise of the next step, as `step` gives it."""
        row = self._from_files(step) if self._stream is None else self._stream.row(step)
        return row if self._layout is None else self._layout.split(row)

    def _from_files(self, step: int) -> NDArray[Any]:
        """The row of a step. Noise that a float32 would round is refused: the low bits of sums
        would show through."""
        row = self._run._row(step, self._shard, self._shards)
        given = row.astype(self._dtype, copy=False)
        if self._noise.grid and given.dtype.itemsize < row.dtype.itemsize and not np.array_equal(given, row):
            raise ValueError(
                f"dtype float32: must be float64: a float32 does not hold the noise on its grid, {self._noise.grid}, and the low bits of sums would show through. "
                "For a trainer that adds noise in float32, such as one in JAX, make it with --dtype float32"
            )
        return given

    def check_tree(self, like: Any, said: str) -> None:
        """Refuses a tree of other names or shapes than that with which the reader was made; said is
        what that should have been."""
        if self._layout is None or self._layout.digest != Layout(like).digest:
            raise ValueError(f"noise: was made for another tree of parameters: give read_noise as like: {said}")

    def close(self) -> None:
        """Ends the stream."""
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> NoiseReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_noise(
    run: Run,
    like: Any = None,
    *,
    guard: StepGuard,
    shard: int = 0,
    shards: int = 1,
    replica: int = 0,
    key: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_steps: int = 100,
) -> NoiseReader:
    """A reader of the noise of the steps from the guard's next step on.

    like is a tree of arrays (dicts, lists, tuples; with JAX any of its trees), and `step` gives
    trees of the same shapes. Leaves take their coordinates in order, with the keys of a dict
    sorted. Without like, steps are arrays of shape [width]. These are refused: a tree with other
    names or shapes than at the training's first step; a step that the guard has not taken, or that
    another reader of the guard has given; a guard of another run; and a guard that has taken steps
    without a reader. To look at noise in files without a training, take `run.noise`.

    key is the file of the root key: `minsep noise --stream` then makes the noise while the trainer
    computes, one row ahead, from the random bytes of the guard's steps. Where the run has the recipe
    only, it is `run.key` by default. Without a key rows are read from the run directory's files, which have the same noise after every start: each row is given once,
    so that a training with them goes on only from a checkpoint after its last step, and **a copy of
    the files can be used twice, which nothing notices**.

    If several hosts hold different parameters, each reads its own shard of the coordinates, and
    like is the tree of its parameters. Hosts that hold the same parameters, and add the same noise
    to the same sums, number themselves by replica, from 0; with shards=1, where every host holds
    all, they need not. Hosts that disagree are refused. dtype is float32 or float64; the default is
    float32 if it holds the noise on its grid, else float64.

    If the strategy needs all earlier steps for a step, their noise is made again when a training
    goes on. checkpoint is a folder, secret like the noise, in which the command keeps its state
    every checkpoint_steps steps, to begin there: for large models, of which that takes minutes.
    """
    need_run(run, "read_noise(run, like, guard=guard)")
    if not isinstance(guard, StepGuard):
        raise TypeError(f"guard {shown(guard)}: must be the training's StepGuard, and not {type(guard).__name__}: guard = minsep.StepGuard(run), then read_noise(run, like, guard=guard)")
    with guard.telling():
        return NoiseReader(run, like, guard, shard, shards, replica, None if key is None else os.fspath(key), dtype, None if checkpoint is None else os.fspath(checkpoint), checkpoint_steps)


class _Stream:
    """A process that makes noise, and a thread that reads one row ahead of the step that is wanted.

    The process gets the random bytes of the steps on its standard input.
    """

    def __init__(self, reader: NoiseReader, key: str, more: list[str]) -> None:
        self._reader, self._sent = reader, 0
        dtype = "float32" if reader._dtype.itemsize == 4 else "float64"
        arguments = ["noise", "--stream", "--key", key, "--out", reader._run.path, "--from-step", str(reader.next_step)]
        arguments += ["--shard", f"{reader._shard}/{reader._shards}", "--dtype", dtype, *more]
        self._process = subprocess.Popen([_command.find(reader._run._command), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self._said: deque[str] = deque(maxlen=50)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._steps = iter(range(reader.next_step, reader._noise.steps))
        self._ready, self._wanted = threading.Semaphore(0), threading.Semaphore(1)
        self._row: tuple[int, NDArray[Any]] | None = None
        self._made: list[NDArray[Any]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._read_ahead, daemon=True)
        try:
            self._check_head()
            self._send()
        except BaseException:
            self.close()
            raise
        _enlarge(self._process)
        self._thread.start()

    def _send(self) -> None:
        """Gives the process the bytes that are known since the last time."""
        known = self._reader._guard.step_bytes()
        rest, self._sent = memoryview(known)[self._sent :], len(known)
        while rest:
            try:
                rest = rest[self._process.stdin.write(rest) :]  # type: ignore[union-attr]
            except BrokenPipeError:  # it has ended: its output has, too
                return

    def row(self, step: int) -> NDArray[Any]:
        """The row of a step, the next one."""
        self._send()
        self._ready.acquire()
        found, self._row = self._row, None
        if found is None:
            self._ready.release()  # so it is for the next call
            self._fail()
        assert found is not None
        made, row = found
        if made != step:
            raise TrainingError(f"noise of step {step}: the stream is at step {made}, as after an interrupt: make guard and reader again, from the last checkpoint")
        self._wanted.release()
        return row

    def _read_ahead(self) -> None:
        for step in self._steps:
            self._wanted.acquire()
            if self._closed:
                return
            row = self._room()
            filled = self._fill(row.view(np.uint8).data)
            self._row = (step, row) if filled else None
            del row  # from here on it is the caller's, who may take it at once
            self._ready.release()
            if not filled:
                return

    def _room(self) -> NDArray[Any]:
        """An array for a row: one of earlier ones that nobody holds any more, no view of it either.
        New memory takes as long as the copy."""
        if _COUNTS:
            for i in range(len(self._made)):
                if sys.getrefcount(self._made[i]) == _ALONE:
                    return self._made[i]
        row = np.empty(self._reader.width, self._reader._dtype)
        if _COUNTS:
            self._made = [*self._made[-2:], row]
        return row

    def _listen(self) -> None:
        """Shows what the command says of its progress, and keeps what it says of faults."""
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode("utf-8", "replace")
            warning = line.startswith("minsep: warning: ")
            if not warning:
                self._said.append(line)
            if warning or not line.startswith(("minsep: ", "  ")):
                sys.stderr.write(line)

    def _fill(self, target: memoryview) -> bool:
        """Whether target could be filled."""
        out: Any = self._process.stdout
        at = 0
        while at < len(target):
            n = out.readinto(target[at:])
            if not n:
                return False
            at += n
        return True

    def _check_head(self) -> None:
        head = bytearray(HEAD_BYTES)
        if not self._fill(memoryview(head)):
            self._fail()
        r = self._reader
        lo, hi = shard_range(r._noise.coordinates, r._shard, r._shards)
        want = {
            "format": FORMAT, "run_id": r._run.run_id, "recipe_sha256": r._noise.recipe_digest, "dtype": r._dtype.str, "from_step": r.next_step, "steps": r._noise.steps,
            "coordinates": r._noise.coordinates, "shard": r._shard, "shards": r._shards, "first": lo, "end": hi,
        }  # fmt: skip
        try:
            have = json.loads(head)
        except ValueError:
            have = None
        if have != want:
            raise RunDirectoryError(f"{r._run.path}: the stream holds other noise than the opened recipe: open the run again")

    def _fail(self) -> None:
        code = self._process.wait()
        self._listener.join(timeout=5)
        said = "".join(self._said)
        at = said.find("minsep: ")
        raise _command.failure(said[max(at, 0) :] or "the stream of noise ended early", code)

    def close(self) -> None:
        self._closed = True
        self._process.kill()  # so that the thread reads no more
        self._process.wait()
        self._wanted.release()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._listener.join(timeout=5)
        for pipe in self._process.stdin, self._process.stdout, self._process.stderr:
            if pipe is not None:
                pipe.close()


# Whether an object's references are counted, and the count of one that only a list holds.
_COUNTS = sys.implementation.name == "cpython" and bool(getattr(sys, "_is_gil_enabled", lambda: True)())
_alone = [np.empty(1)]
_ALONE = sys.getrefcount(_alone[0]) if _COUNTS else 0


def _enlarge(process: subprocess.Popen[bytes]) -> None:
    """A larger pipe, where the system has such: fewer turns between the processes."""
    try:
        import fcntl

        assert process.stdout is not None
        fcntl.fcntl(process.stdout.fileno(), getattr(fcntl, "F_SETPIPE_SZ", 1031), 1 << 20)
    except (ImportError, OSError):
        pass
