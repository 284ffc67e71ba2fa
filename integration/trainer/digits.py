"""Scikit-learn's handwritten digits, and a model of them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

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
