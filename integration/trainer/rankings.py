"""Which ranking of mechanisms predicts the loss: small trainings in NumPy, with noise drawn here.

    python rankings.py ../../bin/minsep 6 > rankings.jsonl

Each line is a cell: a task, an optimizer and an epsilon, with the loss of every mechanism at its best learning rate, and the rank
correlation of these with what `minsep plan` would rank by. Learning rates, steps and seeds were written down before the first
training. Nothing here is private: keys are seeds, and noise has no certificate. docs/background/trainings.md has the results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Iterator

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

STEPS, EXAMPLES, BATCH, EPOCH, RATE = 200, 1280, 64, 20, 0.05
HIDDEN, RATES, MOST_LOSS = 32, 7, 5.0
CELLS = ("sgd", "constant", 0.0), ("sgd", "cosine", 0.0), ("sgd", "constant", 0.9), ("adam", "constant", 0.9)

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]


def digits() -> Data:
    all_ = load_digits()
    order = np.random.default_rng(7).permutation(len(all_.data))
    x, y = all_.data[order] / 16.0, all_.target[order]
    return x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:], 10


def spectrum() -> Data:
    """Made up: features whose variances fall as 1/i, and four classes of a softmax."""
    rng, dimensions, classes = np.random.default_rng(5), 60, 4
    x = rng.normal(size=(2 * EXAMPLES, dimensions)) / np.sqrt(1 + np.arange(dimensions))
    x /= np.sqrt((x**2).sum(1).mean())
    scores = x @ (6 * rng.normal(size=(dimensions, classes)))
    y = (scores + rng.gumbel(size=scores.shape)).argmax(1)
    return x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:], classes


class Model:
    """A softmax, behind a hidden layer of rectifiers or none."""

    def __init__(self, hidden: bool, inputs: int, classes: int, rng: np.random.Generator):
        self.hidden = hidden
        if hidden:
            first = rng.normal(size=(inputs, HIDDEN)) * np.sqrt(2 / inputs)
            self.weights = [first, np.zeros(HIDDEN), rng.normal(size=(HIDDEN, classes)) * np.sqrt(1 / HIDDEN), np.zeros(classes)]
        else:
            self.weights = [np.zeros((inputs, classes)), np.zeros(classes)]

    def scores(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = np.maximum(x @ self.weights[0] + self.weights[1], 0) if self.hidden else x
        scores = z @ self.weights[-2] + self.weights[-1]
        return z, scores - scores.max(1, keepdims=True)

    def clipped(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """The sum of gradients, each clipped to norm 1."""
        z, scores = self.scores(x)
        error = np.exp(scores)
        error /= error.sum(1, keepdims=True)
        error[np.arange(len(y)), y] -= 1
        square = (error**2).sum(1) * ((z**2).sum(1) + 1)
        if not self.hidden:
            error *= (1 / np.maximum(1, np.sqrt(square)))[:, None]
            return [x.T @ error, error.sum(0)]
        back = (error @ self.weights[2].T) * (z > 0)
        clip = (1 / np.maximum(1, np.sqrt(square + (back**2).sum(1) * ((x**2).sum(1) + 1))))[:, None]
        error, back = error * clip, back * clip
        return [x.T @ back, back.sum(0), z.T @ error, error.sum(0)]

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        _, scores = self.scores(x)
        return float(np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(y)), y]))


def batches(scheme: str, min_sep: int, rng: np.random.Generator) -> list[np.ndarray]:
    n = EXAMPLES
    if scheme == "poisson":
        taken = rng.random((STEPS, n)) < RATE
        return [np.flatnonzero(row) for row in taken]
    if scheme == "cyclic-poisson":
        part, out = rng.integers(min_sep, size=n), []
        for t in range(STEPS):
            mine = np.flatnonzero(part == t % min_sep)
            out.append(mine[rng.random(len(mine)) < RATE * min_sep])
        return out
    if scheme == "balls-in-bins":
        bins = rng.integers(EPOCH, size=n)
        return [np.flatnonzero(bins == t % EPOCH) for t in range(STEPS)]
    if scheme == "b-min-sep":
        prob = RATE / (1 - (min_sep - 1) * RATE)
        wait, out = np.where(rng.random(n) < (min_sep - 1) * RATE, rng.integers(1, min_sep, size=n), 0), []
        for t in range(STEPS):
            take = (wait <= 0) & (rng.random(n) < prob)
            wait -= 1
            wait[take] = min_sep - 1
            out.append(np.flatnonzero(take))
        return out
    out, last = [np.empty(0, int)] * STEPS, np.full(n, -(10**6))  # once in each epoch, at least min_sep after the last
    for start in range(0, STEPS, EPOCH):
        low = np.maximum(start, last + min_sep)
        last = low + np.floor(rng.random(n) * (start + EPOCH - low)).astype(int)
        for t in range(start, min(start + EPOCH, STEPS)):
            out[t] = np.flatnonzero(last == t)
    return out


def schedule(name: str) -> np.ndarray:
    return np.ones(STEPS) if name == "constant" else (1 + np.cos(np.pi * np.arange(STEPS) / STEPS)) / 2


def train(data: Data, hidden: bool, mechanism: Mechanism, rate: float, cell: tuple[str, str, float], seed: int, scale: float = 1) -> float:
    (x, y, others, answers, classes), (optimizer, name, momentum) = data, cell
    _, scheme, min_sep, sigma, column = mechanism
    rng = np.random.default_rng(seed)
    model = Model(hidden, x.shape[1], classes, rng)
    drawn = batches(scheme, min_sep, rng)
    noise = rng.normal(size=(STEPS, sum(w.size for w in model.weights))).astype(np.float32)
    noise = sigma * lfilter([1.0], np.asarray(column, float), noise, axis=0)
    rates = scale * rate * schedule(name)
    velocity, square = [np.zeros_like(w) for w in model.weights], [np.zeros_like(w) for w in model.weights]
    for t in range(STEPS):
        at = 0
        for i, (w, gradient) in enumerate(zip(model.weights, model.clipped(x[drawn[t]], y[drawn[t]]))):
            step = (gradient + noise[t, at : at + w.size].reshape(w.shape)) / BATCH
            at += w.size
            if optimizer == "sgd":
                velocity[i] = momentum * velocity[i] + step
                w -= rates[t] * velocity[i]
                continue
            velocity[i] = 0.9 * velocity[i] + 0.1 * step
            square[i] = 0.999 * square[i] + 0.001 * step * step
            w -= rates[t] * (velocity[i] / (1 - 0.9 ** (t + 1))) / (np.sqrt(square[i] / (1 - 0.999 ** (t + 1))) + 1e-8)
    loss = model.loss(others, answers)
    return min(loss, MOST_LOSS) if np.isfinite(loss) else MOST_LOSS


Mechanism = tuple[str, str, int, float, list[float]]  # a name, scheme, min-sep, noise multiplier, first column of C


def mechanisms(command: str) -> dict[float, list[Mechanism]]:
    """By epsilon. Noise multipliers are those of the certificates in docs/background/trainings.md; of the last two at epsilon 2,
    estimates of `minsep plan`."""

    def root(bands: int) -> list[float]:
        column = [1.0]
        for j in range(1, bands):
            column.append(column[-1] * (j - 0.5) / j)
        return column

    def best(bands: int) -> list[float]:
        arguments = ["strategy", "--kind=banded-toeplitz", f"--steps={STEPS}", f"--bands={bands}", f"--min-sep={bands}", "--workload=prefix", "--json"]
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout)["strategy"]["toeplitz"])

    def epochs(name: str, bands: int, sigma: float) -> Mechanism:
        return f"{name} {bands}", "epoch-min-sep", bands, sigma, root(bands)

    def b_min_sep(*sigmas: float) -> list[Mechanism]:
        return [(f"b-min-sep {b}", "b-min-sep", b, sigma, root(b)) for b, sigma in zip((4, 8, 16), sigmas)]

    return {
        2: [("DP-SGD", "poisson", 1, 1.485, [1.0]), ("BandMF 4", "cyclic-poisson", 4, 2.683, best(4)),
            ("balls-in-bins", "balls-in-bins", EPOCH, 4.933, root(12)), *b_min_sep(2.896, 4.015, 5.475), epochs("epoch-min-sep", 5, 3.107),
            epochs("balanced-min-sep", 5, 3.103), epochs("epoch-min-sep", 2, 1.918), epochs("epoch-min-sep", 3, 2.365)],
        8: [("DP-SGD", "poisson", 1, 0.7312, [1.0]), ("BandMF 8", "cyclic-poisson", 8, 1.304, best(8)),
            ("balls-in-bins", "balls-in-bins", EPOCH, 1.496, best(20)), *b_min_sep(1.097, 1.37, 1.737), epochs("epoch-min-sep", 12, 1.51),
            epochs("balanced-min-sep", 9, 1.353)],
    }  # fmt: skip


def workload(momentum: float, rates: np.ndarray, forgetting: float) -> np.ndarray:
    """docs/formulas.md, F1.1."""
    a = np.zeros((STEPS, STEPS))
    for j in range(STEPS):
        velocity = model = 0.0
        for i in range(j, STEPS):
            velocity = momentum * velocity + (i == j) - forgetting * (1 - momentum) * model
            model = model + rates[i] * velocity
            a[i, j] = model
    return a


def inverse(column: list[float]) -> np.ndarray:
    return lfilter([1.0], np.asarray(column), np.eye(1, STEPS)[0])


def cells(command: str, seeds: int) -> Iterator[dict[str, Any]]:
    tasks = {"digits, hidden layer": (digits(), True), "digits, linear": (digits(), False), "made up, linear": (spectrum(), False)}
    for task, (data, hidden) in tasks.items():
        for cell in CELLS:
            optimizer, name, momentum = cell
            lowest = (0.125 if hidden else 0.5) if optimizer == "sgd" else (0.002 if hidden else 0.004)
            rates = (lowest / 10 if momentum and optimizer == "sgd" else lowest) * 2.0 ** np.arange(RATES)
            for epsilon, all_ in mechanisms(command).items():
                step = np.array([sigma * np.linalg.norm(inverse(column)) / all_[0][3] for _, _, _, sigma, column in all_])

                def losses(scales: np.ndarray) -> np.ndarray:
                    return np.array([[[train(data, hidden, m, rate, cell, 1000 * seed + 17, scale) for seed in range(seeds)]
                                      for rate in rates] for m, scale in zip(all_, scales)])  # fmt: skip

                loss = losses(np.ones(len(all_)))
                mean = loss.mean(2)
                best, at, usual = mean.min(1), mean.argmin(1), int(mean[0].argmin())
                objectives = {"prefix": workload(0, np.ones(STEPS), 0), "n/2": workload(momentum, schedule(name), 2 / STEPS), "n/4": workload(momentum, schedule(name), 4 / STEPS)}
                noise = {key: [m[3] * np.linalg.norm(a @ toeplitz(inverse(m[4]), np.zeros(STEPS))) for m in all_] for key, a in objectives.items()}

                def ranks(of: np.ndarray) -> dict[str, float]:
                    return {key: round(float(spearmanr(value, of)[0]), 3) for key, value in {**noise, "step": step}.items()}

                out = {"task": task, "optimizer": optimizer, "schedule": name, "momentum": momentum, "epsilon": epsilon, "names": [m[0] for m in all_],
                       "loss": best.round(4).tolist(), "error": [float(loss[i, k].std(ddof=1) / seeds**0.5) for i, k in enumerate(at)],
                       "rate": rates[at].tolist(), "tuned": ranks(best), "at_the_rate_of_dpsgd": ranks(mean[:, usual])}  # fmt: skip
                if optimizer == "adam":
                    out["at_that_rate_times_step"] = ranks(losses(step).mean(2)[:, usual])
                yield out


if __name__ == "__main__":
    for one in cells(sys.argv[1], int(sys.argv[2])):
        print(json.dumps(one), flush=True)
