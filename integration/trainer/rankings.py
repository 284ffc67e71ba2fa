"""Which ranking of mechanisms predicts the loss: small trainings in NumPy, with noise drawn here.

    python rankings.py ../../bin/minsep ../../out/rankings

It can be stopped at any time, and goes on where it was. First the learning rates of every mechanism are tuned: tuning.jsonl has a line
for each task, epsilon, mechanism and seed, with the losses of four optimizers at eight rates. Then trainings.jsonl gets the losses at
the best of them, with other seeds. measures.py makes tables of these. Nothing here is private: keys are seeds, noise has no certificate,
and noise multipliers are estimates of `minsep plan`.

Tasks, mechanisms, rates and measures were written down before the first training with a mechanism other than DP-SGD; the lowest rates
after a look at single trainings with DP-SGD.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any, Iterable, Iterator, NamedTuple

import numpy as np

STEPS, EPOCH, RATE = 200, 20, 0.05  # every example takes part once in an epoch, on average
EPSILONS, DELTA = (1, 2, 4, 8), 1e-4
TUNING, SEEDS = (0, 1, 2, 3, 10, 11, 12), 20
EXAMPLES, BATCH = 1280, 64  # for which noise multipliers are estimated; those of other tasks have the same quotient
HIDDEN, RATES, MOST_LOSS = 32, 8, 5.0
OPTIMIZERS = "constant", "cosine", "momentum", "adam"  # SGD with constant and cosine rates and with momentum .9; Adam with .9 and .999
TRAININGS = {  # what minsep plan is told of each, and of prefix sums
    "prefix": ["--memory=inf"],
    "constant": [],
    "cosine": ["--schedule=cosine"],
    "momentum": ["--momentum=0.9"],
    "adam": ["--optimizer=adam"],
}


class Task(NamedTuple):
    """Examples for training and for tests, float32 [n, inputs] and int64 [n], and the lowest rates of SGD, of SGD with momentum and of
    Adam. The others are each twice the one before."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    hidden: bool
    lowest: tuple[float, float, float]

    def rates(self) -> np.ndarray:
        """Float32 [optimizers, rates]."""
        sgd, momentum, adam = self.lowest
        return np.outer([sgd, sgd, momentum, adam], 2.0 ** np.arange(RATES)).astype(np.float32)


def digits(hidden: bool, *lowest: float) -> Task:
    from sklearn.datasets import load_digits

    all_ = load_digits()
    order = np.random.default_rng(7).permutation(len(all_.data))
    return task(all_.data[order] / 16.0, all_.target[order], EXAMPLES, hidden, lowest)


def spectrum(*lowest: float) -> Task:
    """Made up: features whose variances fall as 1/i, and four classes of a softmax."""
    rng, dimensions, classes = np.random.default_rng(5), 60, 4
    x = rng.normal(size=(2 * EXAMPLES, dimensions)) / np.sqrt(1 + np.arange(dimensions))
    x /= np.sqrt((x**2).sum(1).mean())
    scores = x @ (6 * rng.normal(size=(dimensions, classes)))
    return task(x, (scores + rng.gumbel(size=scores.shape)).argmax(1), EXAMPLES, False, lowest)


def letters(*lowest: float) -> Task:
    """Python's manual, which Python has: the next of 26 letters and a space, by the three before it. Anything else is a space."""
    from pydoc_data.topics import topics

    text = " ".join(topics[key] for key in sorted(topics)).lower()
    text = " ".join("".join(c if "a" <= c <= "z" else " " for c in text).split())
    codes = np.array([0 if c == " " else ord(c) - ord("a") + 1 for c in text])
    at = np.random.default_rng(11).choice(len(codes) - 3, 4 * EXAMPLES, replace=False)
    x = np.concatenate([np.eye(27)[codes[at + i]] for i in range(3)], 1)
    return task(x, codes[at + 3], 2 * EXAMPLES, True, lowest)


def photographs(*lowest: float) -> Task:
    """The two photographs that scikit-learn has: which of them, and which half of it, 8 × 8 pixels are from, by the three colors."""
    from sklearn.datasets import load_sample_images

    x, y = [], []
    for i, image in enumerate(load_sample_images().images):
        pixels = image[:424, :640].reshape(53, 4, 2, 80, 4, 2, 3).mean((2, 5)) / 255 - 0.5  # means of 2 × 2
        x.append(pixels.transpose(0, 2, 1, 3, 4).reshape(53 * 80, 48))
        y.append(np.repeat(2 * i + (np.arange(53) >= 27), 80))
    order = np.random.default_rng(13).permutation(2 * 53 * 80)[: 2 * EXAMPLES]
    return task(np.concatenate(x)[order], np.concatenate(y)[order], EXAMPLES, True, lowest)


def task(x: np.ndarray, y: np.ndarray, examples: int, hidden: bool, lowest: tuple[float, ...]) -> Task:
    x = x.astype(np.float32)
    return Task(x[:examples], y[:examples], x[examples:], y[examples:], hidden, lowest)  # type: ignore[arg-type]


def tasks() -> dict[str, Task]:
    """The first three are those by which measures were compared before; the others are held out."""
    return {
        "digits, hidden layer": digits(True, 0.125, 0.0125, 0.002),
        "digits, linear": digits(False, 0.5, 0.05, 0.004),
        "made up, linear": spectrum(0.5, 0.05, 0.004),
        "letters": letters(0.125, 0.0125, 0.002),
        "photographs": photographs(0.125, 0.0125, 0.002),
    }


class Models:
    """Many softmaxes, each behind a hidden layer of rectifiers or none, that see the same batches. Weights have an axis of models."""

    def __init__(self, task: Task, models: int, rng: np.random.Generator):
        self.task, inputs, classes = task, task.x.shape[1], int(task.y.max()) + 1
        shapes = [(inputs, HIDDEN), (HIDDEN,), (HIDDEN, classes), (classes,)] if task.hidden else [(inputs, classes), (classes,)]
        self.weights = [np.zeros((models, *shape), np.float32) for shape in shapes]
        self.size = sum(int(np.prod(shape)) for shape in shapes)
        if task.hidden:
            self.weights[0] += rng.normal(size=shapes[0]) * np.sqrt(2 / inputs)
            self.weights[2] += rng.normal(size=shapes[2]) * np.sqrt(1 / HIDDEN)

    def scores(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the hidden layer, float32 [models, batch, units], and of the classes; without a hidden layer, the former are the inputs."""
        z = np.broadcast_to(x, (len(self.weights[0]), *x.shape))
        if self.task.hidden:
            z = np.maximum(np.matmul(x, self.weights[0]) + self.weights[1][:, None], 0)
        scores = np.matmul(z, self.weights[-2]) + self.weights[-1][:, None]
        return z, scores - scores.max(2, keepdims=True)

    def clipped(self, drawn: np.ndarray) -> list[np.ndarray]:
        """The sum of the gradients of some examples, each clipped to norm 1."""
        x = self.task.x[drawn]
        z, error = self.scores(x)
        error = np.exp(error)
        error /= error.sum(2, keepdims=True)
        error[:, np.arange(len(drawn)), self.task.y[drawn]] -= 1
        inputs, back = np.einsum("bi,bi->b", x, x) + 1, error
        square = np.einsum("mbc,mbc->mb", error, error)
        if self.task.hidden:
            back = np.matmul(error, self.weights[2].transpose(0, 2, 1)) * (z > 0)
            square *= np.einsum("mbh,mbh->mb", z, z) + 1
            square += np.einsum("mbh,mbh->mb", back, back) * inputs
        else:
            square *= inputs
        clip = (1 / np.maximum(1, np.sqrt(square)))[:, :, None]
        back = back * clip
        first = [np.matmul(x.T, back), back.sum(1)]
        if not self.task.hidden:
            return first
        error = error * clip
        return [*first, np.matmul(z.transpose(0, 2, 1), error), error.sum(1)]

    def losses(self) -> np.ndarray:
        """The mean loss on the tests of each model, at most MOST_LOSS."""
        _, scores = self.scores(self.task.test_x)
        right = scores[:, np.arange(len(self.task.test_y)), self.task.test_y]
        loss = (np.log(np.exp(scores).sum(2)) - right).mean(1)
        return np.where(loss < MOST_LOSS, loss, MOST_LOSS)


class Mechanism(NamedTuple):
    """A row of `minsep plan`, with C as float64 [steps, steps]."""

    name: str
    scheme: str
    min_sep: int
    sigma: float
    std_err: float  # of sigma
    matrix: np.ndarray


def batches(scheme: str, min_sep: int, examples: int, rng: np.random.Generator) -> list[np.ndarray]:
    n = examples
    if scheme == "poisson":
        return [np.flatnonzero(rng.random(n) < RATE) for _ in range(STEPS)]
    if scheme == "cyclic-poisson":
        part = rng.integers(min_sep, size=n)
        return [np.flatnonzero((part == t % min_sep) & (rng.random(n) < RATE * min_sep)) for t in range(STEPS)]
    if scheme == "balls-in-bins":
        bins = rng.integers(EPOCH, size=n)
        return [np.flatnonzero(bins == t % EPOCH) for t in range(STEPS)]
    if scheme == "b-min-sep":
        prob = RATE / (1 - (min_sep - 1) * RATE)
        wait, out = np.where(rng.random(n) < (min_sep - 1) * RATE, rng.integers(1, max(2, min_sep), size=n), 0), []
        for _ in range(STEPS):
            take = (wait <= 0) & (rng.random(n) < prob)
            wait -= 1
            wait[take] = min_sep - 1
            out.append(np.flatnonzero(take))
        return out
    taken = np.zeros((STEPS, n), bool)
    if scheme == "epoch-min-sep":  # once in each epoch, at least min_sep after the last (docs/formulas.md, F3.8)
        place = rng.integers(EPOCH, size=n)
        for start in range(0, STEPS, EPOCH):
            taken[start + place, np.arange(n)] = True
            free = np.maximum(0, place + min_sep - EPOCH)
            waited = free + rng.geometric(1 / (EPOCH - min_sep + 1), size=n) - 1
            place = np.where(waited < min_sep - 1, waited, rng.integers(min_sep - 1, EPOCH, size=n))
    else:
        raise ValueError(scheme)
    return [np.flatnonzero(row) for row in taken]


def schedule(name: str) -> np.ndarray:
    return (1 + np.cos(np.pi * np.arange(STEPS) / STEPS)) / 2 if name == "cosine" else np.ones(STEPS)


Generators = tuple[np.random.Generator, np.random.Generator, np.random.Generator]  # of first weights, batches and normals


def train(task: Task, mechanism: Mechanism, rates: list[np.ndarray], generators: Generators) -> list[np.ndarray]:
    """The losses of models with the same batches and noise, by optimizers and their rates."""
    plain, last = len(rates[0]) + len(rates[1]), len(rates[3])
    of = np.concatenate(rates).astype(np.float32)
    models = Models(task, len(of), generators[0])
    drawn = batches(mechanism.scheme, mechanism.min_sep, len(task.x), generators[1])
    noise = generators[2].standard_normal((STEPS, models.size), np.float32)
    noise = (mechanism.sigma * np.linalg.inv(mechanism.matrix)).astype(np.float32) @ noise
    first, second = ([np.zeros_like(w) for w in models.weights] for _ in range(2))
    cosine = schedule("cosine").astype(np.float32)
    with np.errstate(all="ignore"):  # a rate that is too large
        for t in range(STEPS):
            factor = of.copy()
            factor[len(rates[0]) : plain] *= cosine[t]
            at = 0
            for i, (w, gradient) in enumerate(zip(models.weights, models.clipped(drawn[t]))):
                size, shape = w[0].size, (-1,) + (1,) * (w.ndim - 1)
                step = (gradient + noise[t, at : at + size].reshape(w.shape[1:])) / np.float32(len(task.x) * RATE)
                at += size
                velocity, square, adam = first[i], second[i], step[-last:]
                velocity[plain:-last] = 0.9 * velocity[plain:-last] + step[plain:-last]
                velocity[-last:] = 0.9 * velocity[-last:] + 0.1 * adam
                square[-last:] = 0.999 * square[-last:] + 0.001 * adam * adam
                step[plain:-last] = velocity[plain:-last]
                step[-last:] = velocity[-last:] / (1 - 0.9 ** (t + 1)) / (np.sqrt(square[-last:] / (1 - 0.999 ** (t + 1))) + 1e-8)
                w -= factor.reshape(shape) * step
        return np.split(models.losses(), np.cumsum([len(r) for r in rates])[:-1])


def tune(task: Task, mechanism: Mechanism, seed: int) -> list[list[float]]:
    """Losses [optimizers, rates]."""
    rng = np.random.default_rng(1000 * seed + 17)
    return [losses.round(5).tolist() for losses in train(task, mechanism, list(task.rates()), (rng, rng, rng))]


def best_rate(rates: np.ndarray, losses: np.ndarray) -> float:
    """Where the parabola through the least mean loss and both beside it is least. Losses are [seeds, rates]."""
    mean = losses.mean(0)
    at = min(max(int(mean.argmin()), 1), len(rates) - 2)
    low, middle, high = mean[at - 1 : at + 2]
    bend = low + high - 2 * middle
    if bend <= 0 or max(low, high) > 2 * middle:  # no parabola
        return float(rates[int(mean.argmin())])
    return float(rates[at] * 2 ** np.clip((low - high) / (2 * bend), -1, 1))


def step_noise(mechanism: Mechanism) -> float:
    """The standard deviation of the noise of a step."""
    return float(mechanism.sigma * np.sqrt(np.square(np.linalg.inv(mechanism.matrix)).sum() / STEPS))


def rows(command: str, epsilon: float, of: str) -> list[dict[str, Any]]:
    """The table of `minsep plan` for a training."""
    flags = [f"--examples={EXAMPLES}", f"--steps={STEPS}", f"--batch-size={BATCH}", f"--epsilon={epsilon}", f"--delta={DELTA}"]
    out = subprocess.run([command, "plan", *flags, *TRAININGS[of], "--all", "--json", "--quiet"], capture_output=True, text=True, check=True)
    return [row for row in json.loads(out.stdout)["rows"] if not row.get("refused") and row.get("rank")]


def matrix(command: str, params: dict[str, Any], file: pathlib.Path) -> np.ndarray | None:
    """C of a strategy in a plan, of those that are Toeplitz."""
    flags = [f"--{key.replace('_', '-')}={value}".replace("=True", "") for key, value in params.items()]
    subprocess.run([command, "strategy", *flags, "--out", str(file), "--overwrite", "--quiet"], capture_output=True, check=True)
    strategy = json.loads(file.read_text())
    column = np.zeros(STEPS)
    if "toeplitz" not in strategy:
        return None
    column[: len(strategy["toeplitz"])] = strategy["toeplitz"]
    out = np.tril(column[np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS)))])
    return out / np.linalg.norm(out, axis=0) if strategy.get("normalized") else out


def chosen(tables: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Of the tables of an epsilon, by name: DP-SGD, the first rows, and of the usual table the best, the narrowest and the widest of the
    square roots of two schemes, and the best of the others. Rows of several tables are taken from the one that knows them best."""
    usual = tables["constant"]

    def some(scheme: str, *kinds: str) -> list[dict[str, Any]]:
        return [r for r in usual if r["scheme"]["scheme"] == scheme and r["strategy"]["kind"] in kinds and not r["strategy"].get("normalized")]

    def spread(all_: list[dict[str, Any]]) -> list[dict[str, Any]]:
        by_bands = sorted(all_, key=lambda r: (r["bands"], r["rank"]))
        return [all_[0], by_bands[0], by_bands[-1]]

    taken = [*some("poisson", "identity"), *(table[0] for table in tables.values()), *some("cyclic-poisson", "banded-toeplitz")[:1],
             *some("balls-in-bins", "bsr", "banded-toeplitz")[:1], *spread(some("b-min-sep", "bsr")), *spread(some("epoch-min-sep", "bsr"))]  # fmt: skip
    for scheme in ("b-min-sep", "epoch-min-sep"):
        taken += some(scheme, "amplified-toeplitz")[:1] + some(scheme, "banded-toeplitz")[:1]
    out: dict[str, dict[str, Any]] = {}
    for row in taken:
        out.setdefault(name_of(row), row)
    for table in tables.values():
        for row in table:
            same = out.get(name_of(row))
            if same and same["strategy"] == row["strategy"] and row["noise"]["std_err"] < same["noise"]["std_err"]:
                out[name_of(row)] = row
    return out


def name_of(row: dict[str, Any]) -> str:
    """Strategies that are made for a training differ by it."""
    strategy, of = dict(row["strategy"]), ""
    if strategy["kind"] in ("amplified-toeplitz", "banded-toeplitz"):
        of = strategy.get("optimizer") or strategy.get("schedule") or ("momentum" if strategy.get("momentum") else "")
        of = " prefix" if strategy.get("memory") == "inf" else of and f" {of}"
    normalized = "normalized " if strategy.get("normalized") else ""
    scheme = f"{row['scheme']['scheme']} {row['scheme'].get('min_sep') or ''}".strip()
    return f"{scheme}, {normalized}{strategy['kind']} {row['bands']}{of}"


def mechanisms(command: str, folder: pathlib.Path) -> dict[int, list[Mechanism]]:
    """By epsilon. They are kept in mechanisms.json, with the names of the first rows by training."""
    file = folder / "mechanisms.json"
    if not file.exists():
        kept = {}
        for epsilon in EPSILONS:
            tables = {of: rows(command, epsilon, of) for of in TRAININGS}
            all_ = [(name, row, matrix(command, row["strategy"], folder / "strategy.json")) for name, row in chosen(tables).items()]
            kept[epsilon] = {
                "first": {of: name_of(table[0]) for of, table in tables.items()},
                "mechanisms": [(name, row["scheme"]["scheme"], row["scheme"].get("min_sep", 1), row["noise"]["noise_multiplier"],
                                row["noise"]["std_err"], c.tolist()) for name, row, c in all_ if c is not None]}  # fmt: skip
        file.write_text(json.dumps(kept))
    kept = json.loads(file.read_text())
    return {int(e): [Mechanism(*m[:5], np.array(m[5])) for m in of["mechanisms"]] for e, of in kept.items()}


def lines(file: pathlib.Path) -> dict[tuple[str, int, str, int], Any]:
    """Losses by task, epsilon, mechanism and seed."""
    text = file.read_text().splitlines() if file.exists() else []
    return {tuple(one["of"]): one["losses"] for one in map(json.loads, text)}


def main(command: str, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    all_, of_tasks, file = mechanisms(command, folder), tasks(), folder / "tuning.jsonl"
    each = [(name, epsilon, mechanism) for name in of_tasks for epsilon, some in all_.items() for mechanism in some]

    def missing(seeds: Iterable[int]) -> Iterator[tuple[str, int, Mechanism, int]]:
        done = lines(file)
        return ((*one, seed) for seed in seeds for one in each if (one[0], one[1], one[2].name, seed) not in done)

    def add(name: str, epsilon: int, mechanism: Mechanism, seed: int, losses: Any) -> None:
        with file.open("a") as out:
            print(json.dumps({"of": (name, epsilon, mechanism.name, seed), "losses": losses}), file=out)

    for name, epsilon, mechanism, seed in missing(TUNING):
        add(name, epsilon, mechanism, seed, tune(of_tasks[name], mechanism, seed))
    known = lines(file)
    best = {(name, epsilon, m.name): [best_rate(rates, np.array([known[name, epsilon, m.name, s][i] for s in TUNING]))
                                     for i, rates in enumerate(of_tasks[name].rates())] for name, epsilon, m in each}  # fmt: skip
    (folder / "rates.json").write_text(json.dumps([[*key, *rates] for key, rates in best.items()]))
    file = folder / "trainings.jsonl"
    for name, epsilon, mechanism, seed in missing(range(SEEDS)):
        independent, rates = all_[epsilon][0], [np.array([rate]) for rate in best[name, epsilon, mechanism.name]]
        usual = best[name, epsilon, independent.name][3]
        rates[3] = np.append(rates[3], [usual, usual * step_noise(mechanism) / step_noise(independent)])
        generators = tuple(np.random.default_rng([seed, i]) for i in range(3))  # the same for all mechanisms
        losses = np.concatenate(train(of_tasks[name], mechanism, rates, generators))  # type: ignore[arg-type]
        add(name, epsilon, mechanism, seed, losses.round(5).tolist())


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
