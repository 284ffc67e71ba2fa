"""One host of several: trains in some cases, one after the other, and prints for each, as a line of JSON, what came of it.

    host.py jax|torch|alone RANK RANKS ADDRESS CASES

CASES is a file with a list. Each case has a name, and for each host what it does: the keys of `Case`, or null for a host that leaves it out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import sys
import time
from typing import Any

import training  # one thread, before NumPy and the frameworks

import numpy as np

import minsep

NAME = "w"  # of the parameter
ROWS = 96  # of a batch on all hosts, with padding: compilers see one size


@dataclasses.dataclass
class Case:
    """What a host does in a case. Without what is given here it does as it must."""

    run: str  # its run directory
    steps: int = 1 << 62  # to take at most
    state: str | None = None  # the case from whose end the training goes on, or the name of a checkpoint
    next_step: int | None = None  # as if its checkpoint were of another step
    replay: bool = False
    primary: bool | None = None
    rank: int | None = None
    ranks: int | None = None
    shard: int = 0
    shards: int = 1
    replica: int = 0
    name: str = NAME
    more: int = 0  # coordinates too many
    dtype: str = "float32"
    key: str | None = None
    keep: str | None = None  # the folder of its checkpoints
    pause: int = -1  # the step that it does not end


class Alone:
    """A training on one host, in NumPy."""

    gather: Any = None

    def __init__(self, rank: int, ranks: int, address: str) -> None:
        pass

    def clip_and_sum(self, gradients: np.ndarray, padding: np.ndarray, run: minsep.Run) -> Any:
        """The sum of all hosts."""
        return minsep.clip_and_sum(gradients, run.clip_norm, run.grid, padding)

    def add_noise(self, total: Any, noise: Any, run: minsep.Run) -> Any:
        return minsep.add_noise(total, noise, run.grid, run.expected_batch_size)

    def each(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all hosts, stacked."""
        return array[None]

    def end(self) -> None:
        """Leaves the other hosts."""


class Torch(Alone):
    def __init__(self, rank: int, ranks: int, address: str) -> None:
        import torch.distributed

        import minsep.torch

        self._torch, self._dp, self.gather, self._ranks = torch, minsep.torch, minsep.torch.gather, ranks
        torch.distributed.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=ranks)

    def clip_and_sum(self, gradients: np.ndarray, padding: np.ndarray, run: minsep.Run) -> Any:
        total = self._dp.clip_and_sum(self._torch.from_numpy(gradients), run.clip_norm, run.grid, padding)
        self._torch.distributed.all_reduce(total)
        return total

    def add_noise(self, total: Any, noise: Any, run: minsep.Run) -> Any:
        return self._dp.add_noise(total, noise, run.grid, run.expected_batch_size).numpy()

    def each(self, array: np.ndarray) -> np.ndarray:
        found = [self._torch.empty(array.shape) for _ in range(self._ranks)]
        self._torch.distributed.all_gather(found, self._torch.from_numpy(array))
        return np.stack(found)

    def end(self) -> None:
        self._torch.distributed.destroy_process_group()  # a process that ends while its threads run is ended by an abort, at times


class Jax(Alone):
    def __init__(self, rank: int, ranks: int, address: str) -> None:
        import jax
        from jax.experimental import multihost_utils

        import minsep.jax

        jax.distributed.initialize(address, ranks, rank, heartbeat_timeout_seconds=10, shutdown_timeout_seconds=10)
        self._dp, self.gather, self._all = minsep.jax, minsep.jax.gather, multihost_utils.process_allgather
        self._clip = jax.jit(minsep.jax.clip_and_sum, static_argnums=(1, 2))

    def clip_and_sum(self, gradients: np.ndarray, padding: np.ndarray, run: minsep.Run) -> Any:
        return self._all(self._clip(gradients, run.clip_norm, run.grid, padding)).sum(0, dtype=np.int32)

    def add_noise(self, total: Any, noise: Any, run: minsep.Run) -> Any:
        return np.asarray(self._dp.add_noise(total, noise, run.grid, run.expected_batch_size))

    def each(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(self._all(array))


def data(run: minsep.Run) -> np.ndarray:
    """A gradient for each row of the table, the same on all hosts, before the parameters have a part in it."""
    return np.random.default_rng(0).normal(size=(run.examples, run.coordinates)).astype(np.float32)


class Host:
    def __init__(self, framework: str, rank: int, ranks: int, address: str) -> None:
        self.rank, self.ranks = rank, ranks
        self.framework = {"alone": Alone, "torch": Torch, "jax": Jax}[framework](rank, ranks, address)
        self.kept: dict[str, tuple[np.ndarray, dict[str, Any]]] = {}  # weights and state at the end of cases

    def begin(self, case: Case) -> tuple[np.ndarray | None, dict[str, Any] | None]:
        if case.state is None:
            return None, None
        if case.state not in self.kept:
            with np.load(case.state) as file:
                self.kept[case.state] = file["weights"], json.loads(str(file["guard"]))
        weights, state = self.kept[case.state]
        return weights.copy(), state if case.next_step is None else {**state, "next_step": case.next_step}

    def train(self, name: str, case: Case) -> dict[str, Any]:
        """Trains, and tells of weights and noise by their digests."""
        run = minsep.Run(case.run)
        x, width = data(run), run.coordinates // case.shards
        weights, state = self.begin(case)
        weights = np.zeros(run.coordinates, np.float32) if weights is None else weights
        rank, ranks = case.rank if case.rank is not None else self.rank, case.ranks or self.ranks
        guard = minsep.StepGuard(run, state, replay=case.replay, primary=case.primary, rank=rank, ranks=ranks, gather=self.framework.gather)
        rows = []
        try:
            like = {case.name: np.zeros(width + case.more, np.float32)}
            noise = minsep.read_noise(run, like, guard=guard, shard=case.shard, shards=case.shards, replica=case.replica, dtype=case.dtype, key=case.key)
            for t in guard:
                if t == case.pause:
                    print("paused", flush=True)
                    time.sleep(600)
                batch = minsep.pad(run.batch(t), ROWS, self.rank, self.ranks)
                total = self.framework.clip_and_sum(x[batch] + weights, batch < 0, run)
                row = noise.step(t)[case.name]
                rows.append(hashlib.sha256(row.astype(np.float32).tobytes()).hexdigest())
                lo = case.shard * width
                mean = self.framework.add_noise(total[lo : lo + width], row, run)
                parts = self.framework.each(weights[lo : lo + width] - np.float32(0.1) * mean)
                shards = self.framework.each(np.array([case.shard], np.float32))  # those of all hosts
                for part, (shard,) in zip(parts, shards.astype(int)):
                    weights[shard * width : (shard + 1) * width] = part
                self.keep(case, t, weights, guard.state_dict())
                if len(rows) == case.steps:
                    break
            self.kept[name] = weights, guard.state_dict()
        finally:
            guard.close()
        return {"weights": weights.tobytes().hex(), "rows": rows, "next_step": guard.next_step}

    def keep(self, case: Case, step: int, weights: np.ndarray, state: dict[str, Any]) -> None:
        """Writes a checkpoint, and removes the one before the last: hosts may be killed one step apart."""
        if case.keep is None:
            return
        folder = pathlib.Path(case.keep)
        folder.mkdir(exist_ok=True)
        np.savez(folder / "new.npz", weights=weights, guard=json.dumps(state))
        os.replace(folder / "new.npz", folder / f"{step + 1}.npz")
        (folder / f"{step - 1}.npz").unlink(missing_ok=True)

    def tell(self, name: str, case: Case) -> None:
        began = time.monotonic()
        try:
            found = self.train(name, case)
        except (minsep.MinsepError, ValueError, TypeError) as err:
            found = {"error": type(err).__name__, "said": str(err)}
        print(json.dumps({"case": name, "seconds": time.monotonic() - began, **found}), flush=True)
        self.framework.each(np.zeros(1, np.float32))  # so that all have given their locks back before the next case


def main() -> None:
    framework, rank, ranks, address, cases = sys.argv[1:]
    host = Host(framework, int(rank), int(ranks), address)
    for case in json.loads(pathlib.Path(cases).read_text()):
        mine = case["hosts"][int(rank)]
        if mine is not None:
            host.tell(case["name"], Case(**mine))
    host.framework.end()


if __name__ == "__main__":
    main()
