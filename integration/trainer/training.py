"""What the trainings share: one thread, checkpoints, loss curves, and the programs' command line."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import Any, Callable, Protocol

# Before NumPy, JAX and PyTorch are loaded: with several threads the order of additions, and so the last bit, would depend on the machine.
for _name, _value in {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}.items():
    os.environ.setdefault(_name, _value)

import numpy as np


class Task(Protocol):
    """Data with a model, such as the module `digits`."""

    EVERY: int  # steps between two points of a loss curve

    def initial(self, seed: int) -> dict[str, np.ndarray]:
        """First parameters, in float32."""

    def evaluate(self, params: dict[str, Any]) -> tuple[float, float]:
        """Mean loss, in nats, and accuracy on test data."""


class Progress:
    """Where a training is: its parameters, the guard's state, and the loss curve, kept in a checkpoint.

    Without checkpoint nothing is kept. after_step is called once a step is done and kept.
    """

    def __init__(
        self, task: Task, seed: int, checkpoint: pathlib.Path | None = None, after_step: Callable[[int], None] = lambda step: None
    ) -> None:
        self.params, self.state, self.curve = task.initial(seed), None, []
        self._task, self._checkpoint, self._after_step = task, checkpoint, after_step
        if checkpoint is not None and checkpoint.exists():
            with np.load(checkpoint) as kept:
                self.params = {name: kept[name] for name in self.params}
                self.state, self.curve = json.loads(str(kept["guard"])), kept["curve"].tolist()

    def done(self, step: int, params: dict[str, Any], guard: Any) -> None:
        """Says that step is done, of which params are the result."""
        self.params = {name: np.asarray(value) for name, value in params.items()}
        if (step + 1) % self._task.EVERY == 0:
            self.curve.append(self._task.evaluate(self.params)[0])
        if self._checkpoint is not None:
            new = self._checkpoint.with_suffix(".new.npz")
            np.savez(new, guard=json.dumps(guard.state_dict()), curve=self.curve, **self.params)
            os.replace(new, self._checkpoint)
        self._after_step(step)


def main(task: Task, train: Callable[..., None]) -> None:
    """The command line of a training on one run directory, which goes on from its checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=train.__doc__)
    parser.add_argument("--run", required=True, help="run directory with batches, a certificate and noise")
    parser.add_argument("--key", help="file of the root key, for noise as a stream")
    parser.add_argument("--seed", type=int, default=0, help="of the first parameters")
    parser.add_argument("--learning-rate", type=float, default=1.0)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help=".npz file with parameters and the guard's state")
    parser.add_argument("--show-steps", action="store_true", help="print a line as each step is done")
    flags = parser.parse_args()
    show = (lambda step: print(f"step {step}", flush=True)) if flags.show_steps else lambda step: None
    progress = Progress(task, flags.seed, flags.checkpoint, show)
    train(flags.run, progress, flags.learning_rate, flags.key)
    loss, accuracy = task.evaluate(progress.params)
    print(f"test loss {loss:.4f}, accuracy {accuracy:.4f}")
