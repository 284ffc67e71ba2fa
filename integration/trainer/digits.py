"""What the trainings share: scikit-learn's handwritten digits, the model, checkpoints, and the programs' command line."""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
from typing import Any, Callable, NamedTuple

import numpy as np

EXAMPLES = 1280  # of 1797: those of the training, with the example ids 0, 1, …; the others are for tests
HIDDEN, CLASSES = 32, 10
EVERY = 20  # steps between two points of a loss curve


class Digits(NamedTuple):
    """Images as float32 [n, 64] from 0 to 1, and their digits, int64 [n]."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


@functools.cache
def load() -> Digits:
    """The digits in one fixed random order."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
    return Digits(x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:])


def initial(seed: int) -> dict[str, np.ndarray]:
    """The model's 2,410 parameters: one hidden layer with rectifiers, in float32."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
    zeros = lambda n: np.zeros(n, np.float32)
    return {"w1": normal(64, HIDDEN), "b1": zeros(HIDDEN), "w2": normal(HIDDEN, CLASSES), "b2": zeros(CLASSES)}


COORDINATES = sum(p.size for p in initial(0).values())


def evaluate(params: dict[str, Any]) -> tuple[float, float]:
    """Mean loss, in nats, and accuracy on the test images."""
    data, p = load(), {name: np.asarray(value, np.float64) for name, value in params.items()}
    logits = np.maximum(data.test_x @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]
    top = logits.max(axis=1)
    losses = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(top)), data.test_y]
    return float(losses.mean()), float((logits.argmax(axis=1) == data.test_y).mean())


class Progress:
    """Where a training is: its parameters, the guard's state, and the loss curve, kept in a checkpoint.

    Without checkpoint nothing is kept. after_step is called once a step is done and kept.
    """

    def __init__(self, seed: int, checkpoint: pathlib.Path | None = None, after_step: Callable[[int], None] = lambda step: None) -> None:
        self.params, self.state, self.curve = initial(seed), None, []
        self._checkpoint, self._after_step = checkpoint, after_step
        if checkpoint is not None and checkpoint.exists():
            with np.load(checkpoint) as kept:
                self.params = {name: kept[name] for name in self.params}
                self.state, self.curve = json.loads(str(kept["guard"])), kept["curve"].tolist()

    def done(self, step: int, params: dict[str, Any], guard: Any) -> None:
        """Says that step is done, of which params are the result."""
        self.params = {name: np.asarray(value) for name, value in params.items()}
        if (step + 1) % EVERY == 0:
            self.curve.append(evaluate(self.params)[0])
        if self._checkpoint is not None:
            new = self._checkpoint.with_suffix(".new.npz")
            np.savez(new, guard=json.dumps(guard.state_dict()), curve=self.curve, **self.params)
            os.replace(new, self._checkpoint)
        self._after_step(step)


def main(train: Callable[..., None]) -> None:
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
    progress = Progress(flags.seed, flags.checkpoint, show)
    train(flags.run, progress, flags.learning_rate, flags.key)
    loss, accuracy = evaluate(progress.params)
    print(f"test loss {loss:.4f}, accuracy {accuracy:.4f}")
