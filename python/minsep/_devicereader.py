"""A reader of noise that is made on devices, and the state of its strategy, for any package of
arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from typing import Any, Callable, ContextManager, Iterator

import numpy as np

from . import _device
from ._arguments import shown
from ._device import DeviceRecipe
from ._guard import StepGuard
from ._hosts import STEP_BYTES
from ._noise import shard_range
from ._reader import NoiseReader
from ._run import Run, need_run
from ._tree import flatten
from .errors import MinsepError

STATE_FORMAT = "minsep-device-noise/2"
SHORT_PAIR = 2 * 38038298  # a coordinate of which the pair is short at step 0, with the key that everybody knows
_FACTS = {
    "format": "is none that this version reads",
    "run_id": "is of another run",
    "recipe": "is of another recipe of noise",
    "layout": "is of parameters of other names or shapes",
    "first": "is of other coordinates",
}


class DeviceNoise(NoiseReader):
    """The noise of a run's steps, made on the devices of the parameters. See `device_noise`."""

    def __init__(self, run: Run, like: Any, guard: StepGuard, key: str, state: Any, shard: int = 0, shards: int = 1, replica: int = 0) -> None:
        self._begins = [leaf for _, leaf in flatten(like, "like")[0]], state
        super().__init__(run, like, guard, shard, shards, replica, key, None, None, 0)
        del self._begins

    def _wide(self) -> ContextManager[Any]:
        """Where arrays may be of 64 bits."""
        return contextlib.nullcontext()

    def _leaves_of(self, recipe: DeviceRecipe, like: list[Any], firsts: list[int]) -> list[Any]:
        """What makes the noise of each leaf: step(t) gives that of the next step, rows() the state
        after the last one, [rows, ...] in float64, the latest first, and put(rows, t) begins at
        step t with such a state. Devices that round otherwise are refused."""
        raise NotImplementedError

    def _open(self, key: Any, dtype: Any, checkpoint: Any, checkpoint_steps: int) -> None:
        assert self._layout is not None
        (like, state), begin = self._begins, self.next_step
        recipe = _device.open_recipe(self._run, key, self._bytes_of)
        self._first = shard_range(self._noise.coordinates, self._shard, self._shards)[0]
        firsts = np.cumsum([self._first, *map(math.prod, self._layout.shapes)]).tolist()
        with self._wide():
            self._leaves = self._leaves_of(recipe, like, firsts)
            made = 0 if state is None else self._put(recipe, state)
            if recipe.state_rows:
                for step in range(made, begin):  # what was made before is the state of what follows
                    for leaf in self._leaves:
                        leaf.step(step)

    def _bytes_of(self, step: int) -> bytes:
        found = self._guard.step_bytes()[STEP_BYTES * step :][:STEP_BYTES]
        assert len(found) == STEP_BYTES  # of a step that was taken
        return found

    def _given(self, step: int) -> Any:
        assert self._layout is not None
        with self._wide():
            return self._layout.build([leaf.step(step) for leaf in self._leaves])

    # State

    def _facts(self) -> dict[str, Any]:
        assert self._layout is not None
        return {"format": STATE_FORMAT, "run_id": self._run.run_id, "recipe": self._noise.recipe_digest, "layout": self._layout.digest, "first": self._first}

    def _steps(self, before: int) -> str:
        """A digest of the bytes of the steps before one."""
        return hashlib.sha256(self._guard.step_bytes()[: STEP_BYTES * before]).hexdigest()

    def state_dict(self) -> dict[str, Any]:
        """The state of the strategy after the last step that was read, for `device_noise(…,
        state=)`: of each leaf an array [rows, …] of float64, on its devices, and numbers and
        strings. It has no key, and is as secret as the noise: who has it can take the noise off
        what the training released."""
        with self._wide():
            return {**self._facts(), "step": self.next_step, "steps": self._steps(self.next_step), "rows": [leaf.rows() for leaf in self._leaves]}

    def _put(self, recipe: DeviceRecipe, state: Any) -> int:
        """Begins with a state, and gives its step."""
        if not isinstance(state, dict) or set(state) != {*_FACTS, "step", "steps", "rows"}:
            raise ValueError("state: must be the result of state_dict of this noise, from a checkpoint")
        for name, have in self._facts().items():
            if state[name] != have:
                raise ValueError(f"state: its {name} is {state[name]}, and must be {have}: it {_FACTS[name]}. Give the state of the checkpoint from which this training goes on, or leave it out, and the steps before are made again")
        step = state["step"]
        if type(step) is not int or not 0 <= step <= self.next_step:
            raise ValueError(f"state: its step is {step}, and the training goes on with step {self.next_step}: give the state of the same checkpoint or of an earlier one, or leave it out, and the noise of the earlier steps is made again")
        if state["steps"] != self._steps(step):
            raise ValueError("state: is of other steps than the training has taken, as after a resume from an earlier checkpoint: give the state of the same checkpoint, or leave it out, and the noise of the earlier steps is made again")
        assert self._layout is not None
        shapes = [(recipe.state_rows, *shape) for shape in self._layout.shapes]
        if [tuple(getattr(r, "shape", ())) for r in state["rows"]] != shapes or any(str(r.dtype).removeprefix("torch.") != "float64" for r in state["rows"]):
            raise ValueError("state: its rows have other shapes, or are not float64: read them as they were saved; with JAX inside of `with jax.enable_x64(True)`")
        for leaf, rows in zip(self._leaves, state["rows"]):
            leaf.put(rows, step)
        return int(step)


def check_devices(recipe: DeviceRecipe, make: Callable[[DeviceRecipe, int, int], Any]) -> None:
    """Refuses devices that do not make the bits of the recipe, with a key that everybody knows.
    make(recipe, first, count) gives a leaf of so many coordinates in float64, of which parts(t)
    gives what each device made."""
    public, count = np.frombuffer(bytes(range(32)), "<u4"), 1032
    known = dataclasses.replace(recipe, keys=lambda step: (public, public), grid=0.0)  # the grid would hide the last bits
    for first in SHORT_PAIR - 35, 8 * (1 << 32) - 20, 3:
        leaf = make(known, first, count)
        for t in range(min(recipe.steps, 3)):
            want = known.host_row(t, first, first + count)
            for device, made in leaf.parts(t):
                if not np.array_equal(made, want, equal_nan=True):
                    raise MinsepError(
                        f"device {device}: does not round 64-bit numbers by IEEE 754, as TPUs do not, and would make other noise than the recipe gives: "
                        "read the noise with minsep.read_noise(…, key=key), which makes it on the processor"
                    )


@contextlib.contextmanager
def opening(run: Any, guard: Any) -> Iterator[None]:
    """Where a reader is made: refuses what is no run or no guard, and tells the other hosts of a
    fault."""
    need_run(run, "device_noise(run, params, guard=guard, key=key)")
    if not isinstance(guard, StepGuard):
        raise TypeError(f"guard {shown(guard)}: must be the training's StepGuard, and not {type(guard).__name__}: guard = minsep.StepGuard(run)")
    with guard.telling():
        yield
