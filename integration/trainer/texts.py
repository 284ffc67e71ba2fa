"""Texts by owner, and a model of them: the examples in the manual of the AWS command line, which the package awscli has.

Each text is an owner, and its windows of bytes are that owner's examples.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import pathlib
from typing import Any, NamedTuple

import numpy as np

OWNERS = 5120  # of the texts, those of the training; the others are for tests
CONTEXT, WINDOW = 8, 32  # the model sees 8 bytes, and a window has 32 that it must predict
SYMBOLS, EMBEDDING, HIDDEN = 97, 8, 48
EVERY = 20  # steps between two points of a loss curve

PACKAGE, DIGEST = "awscli==1.40.0", "6010ff0932638bfd3d575104060586cb88bded33f3a6c9775e627fc21feb8647"


class Texts(NamedTuple):
    """Windows as uint8 [n, CONTEXT + WINDOW], and the owner of each, int64 [n], from 0 on without gaps."""

    windows: np.ndarray
    owners: np.ndarray
    test_windows: np.ndarray


@functools.cache
def load() -> Texts:
    """The texts in one fixed random order."""
    folder = pathlib.Path(importlib.util.find_spec("awscli").origin).parent / "examples"
    texts = sorted({file.read_bytes() for file in folder.rglob("*.rst")})
    if hashlib.sha256(b"\0".join(texts)).hexdigest() != DIGEST:
        raise RuntimeError(f"{folder}: must be of {PACKAGE}, to give the same trainings again")
    order = np.random.default_rng(0).permutation(len(texts))
    windows = [windows_of(texts[i]) for i in order]
    owners = np.repeat(np.arange(OWNERS), [len(w) for w in windows[:OWNERS]])
    return Texts(np.concatenate(windows[:OWNERS]), owners, np.concatenate([w[len(w) // 2 :][:2] for w in windows[OWNERS:]]))


def windows_of(text: bytes) -> np.ndarray:
    """A text's windows one after another, each with the bytes before it; what is left at the end is not used."""
    data = np.frombuffer(text, np.uint8)
    symbols = np.where((data >= 32) & (data < 127), data - 32, np.where(data == 10, 95, 96)).astype(np.uint8)
    count = max(1, len(symbols) // WINDOW)
    symbols = np.concatenate([np.full(CONTEXT, 95, np.uint8), symbols, np.full(WINDOW, 95, np.uint8)])
    return np.stack([symbols[i * WINDOW :][: CONTEXT + WINDOW] for i in range(count)])


def initial(seed: int) -> dict[str, np.ndarray]:
    """The model's 8,649 parameters: an embedding of the bytes before, and one hidden layer with rectifiers, in float32."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
    zeros = lambda n: np.zeros(n, np.float32)
    return {
        "embedding": rng.normal(size=(SYMBOLS, EMBEDDING)).astype(np.float32), "w1": normal(CONTEXT * EMBEDDING, HIDDEN), "b1": zeros(HIDDEN),
        "w2": normal(HIDDEN, SYMBOLS), "b2": zeros(SYMBOLS),
    }  # fmt: skip


COORDINATES = sum(p.size for p in initial(0).values())


def evaluate(params: dict[str, Any]) -> tuple[float, float]:
    """Mean loss of a byte, in nats, and accuracy on windows of the other texts."""
    windows, p = load().test_windows, {name: np.asarray(value) for name, value in params.items()}
    before = np.lib.stride_tricks.sliding_window_view(windows, CONTEXT, axis=1)[:, :-1]
    y = windows[:, CONTEXT:].astype(np.int64).ravel()
    hidden = np.maximum(p["embedding"][before].reshape(len(y), -1) @ p["w1"] + p["b1"], 0)
    logits = hidden @ p["w2"] + p["b2"]
    top = logits.max(axis=1)
    losses = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(y)), y]
    return float(losses.mean(dtype=np.float64)), float((logits.argmax(axis=1) == y).mean())
