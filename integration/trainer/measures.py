"""Tables of rankings.py's trainings: how well measures of noise predict which mechanism leaves the least loss.

    python measures.py ../../out/rankings [MEASURE …]

"ceiling" is the rank correlation that a measure without an error would have with losses of so many seeds: from the correlation r
between halves of the seeds, √(2r/(1+r)). "parted" is of the pairs whose difference has an interval without 0: those in the right order
less those in the wrong one, over all of them. The measures were written down before the first training, but for "last half n/2", which
follows from "last half n/4" and the memory that plan assumes.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any, Iterable, Iterator

import numpy as np
from scipy.stats import spearmanr, t as student

from rankings import OPTIMIZERS, SEEDS, STEPS, TUNING, Mechanism, best_rate, lines, mechanisms, schedule, step_noise, tasks

KNOWN = "digits, hidden layer", "digits, linear", "made up, linear"  # by which a measure may be chosen; the others judge it
SPLITS = 50
STUDENT = {n: student.ppf(0.975, n - 1) for n in range(2, 100)}


def workload(momentum: float, rates: np.ndarray, forgetting: float) -> np.ndarray:
    """docs/formulas.md, F1.1."""
    a, velocity, model = np.zeros((STEPS, STEPS)), np.zeros(STEPS), np.zeros(STEPS)
    for i in range(STEPS):
        velocity = momentum * velocity - forgetting * (1 - momentum) * model
        velocity[i] += 1
        model = model + rates[i] * velocity
        a[i] = model
    return a


class Measures:
    """The noise of mechanisms by every measure, for an optimizer."""

    def __init__(self, optimizer: str):
        self.momentum, self.rates = 0.9 if optimizer in ("momentum", "adam") else 0.0, schedule(optimizer)
        self.sums = workload(0, np.ones(STEPS), 0)
        self.with_memory = {k: workload(self.momentum, self.rates, k / STEPS) for k in (1, 2, 4, 8, 16, 32)}
        self.curvatures = [workload(self.momentum, self.rates, kappa) for kappa in np.geomspace(1 / STEPS, 1 / 4, 12)]

    def of(self, m: Mechanism) -> dict[str, float]:
        inverse = np.linalg.inv(m.matrix)

        def energy(a: np.ndarray) -> np.ndarray:
            return m.sigma**2 * np.square(a @ inverse).sum(1)

        by_memory = {k: energy(a) for k, a in self.with_memory.items()}
        of_all, step = sum(map(energy, self.curvatures)), step_noise(m)
        squares = {
            "prefix": energy(self.sums).mean(), "n/2": by_memory[2].mean(), "n/4": by_memory[4].mean(), "n/8": by_memory[8].mean(),
            "n/16": by_memory[16].mean(), "last n": by_memory[1][-1], **{f"last n/{k}": by_memory[k][-1] for k in (2, 4, 8, 16, 32)},
            "last half n/2": by_memory[2][-STEPS // 2 :].mean(), "last half n/4": by_memory[4][-STEPS // 2 :].mean(), "last tenth n/4": by_memory[4][-STEPS // 10 :].mean(),
            "last tenth n/8": by_memory[8][-STEPS // 10 :].mean(), "all curvatures": of_all.mean(), "last, all curvatures": of_all[-1],
            "last tenth, all curvatures": of_all[-STEPS // 10 :].mean(), "step": step**2, "√(step · n/2)": step * np.sqrt(by_memory[2].mean()),
        }  # fmt: skip
        return {key: float(np.sqrt(value)) for key, value in squares.items()}


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The mean, and half of the width of its interval of 95 %."""
    n = len(differences)
    return float(differences.mean()), float(STUDENT[n] * differences.std(ddof=1) / n**0.5)


def at_best(losses: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Of losses [seeds, rates], those of each seed at the best rate, by the parabola that tuned it."""
    x = float(np.log2(best_rate(rates, losses) / rates[0]))
    at = min(max(int(losses.mean(0).argmin()), 1), len(rates) - 2)
    if abs(x - round(x)) < 1e-6:
        return losses[:, round(x)]
    x -= at
    return losses[:, at - 1 : at + 2] @ np.array([x * (x - 1) / 2, 1 - x * x, x * (x + 1) / 2])


def ceiling(losses: np.ndarray, rng: np.random.Generator) -> float:
    """Of losses [mechanisms, seeds]."""
    seeds, all_ = losses.shape[1], []
    for _ in range(SPLITS):
        order = rng.permutation(seeds)
        all_.append(spearmanr(losses[:, order[: seeds // 2]].mean(1), losses[:, order[seeds // 2 :]].mean(1))[0])
    r = float(np.mean(all_))
    return float(np.sqrt(max(0, 2 * r / (1 + r))))


def right(pairs: list[tuple[int, int]], value: np.ndarray, mean: np.ndarray) -> float:
    return float(np.mean([np.sign(value[j] - value[k]) * np.sign(mean[j] - mean[k]) for j, k in pairs])) if pairs else np.nan


def cells(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A dict for each task, optimizer and epsilon: of the seeds that tuned the rates, and of others that all mechanisms have."""
    kept, tuning, of = json.loads((folder / "mechanisms.json").read_text()), lines(folder / "tuning.jsonl"), lines(folder / "trainings.jsonl")
    all_, of_tasks = mechanisms("", folder), tasks()
    missing = {seed for seed in range(SEEDS) for task in of_tasks for e, some in all_.items() for m in some if (task, e, m.name, seed) not in of}
    seeds = [seed for seed in range(SEEDS) if seed not in missing]
    for i, optimizer in enumerate(OPTIMIZERS):
        of_measures = Measures(optimizer)
        for epsilon, some in all_.items():
            names, first = [m.name for m in some], kept[str(epsilon)]["first"]
            by_name = [of_measures.of(m) for m in some]
            values = {key: np.array([one[key] for one in by_name]) for key in by_name[0]}
            for task, data in of_tasks.items():
                tuned = [at_best(np.array([tuning[task, epsilon, name, seed][i] for seed in TUNING]), data.rates()[i]) for name in names]
                losses = np.array([[of[task, epsilon, name, seed] for seed in seeds] for name in names]).reshape(len(names), len(seeds), 6)
                own = np.concatenate([np.array(tuned), losses[:, :, i]], 1)  # [mechanisms, seeds]
                mean = own.mean(1)
                pairs = [(j, k) for j in range(len(some)) for k in range(j) if np.greater(*map(abs, interval(own[j] - own[k])))]
                row, prefix, independent = (own[names.index(n)] for n in (first[optimizer], first["prefix"], names[0]))
                out = {
                    "task": task, "optimizer": optimizer, "epsilon": epsilon, "seeds": own.shape[1], "names": names, "loss": mean,
                    "ranks": {key: float(spearmanr(value, mean)[0]) for key, value in values.items()},
                    "parted": {key: right(pairs, value, mean) for key, value in values.items()},
                    "regret": {key: float(mean[value.argmin()] - mean.min()) for key, value in values.items()},
                    "pairs": len(pairs), "of_pairs": len(some) * (len(some) - 1) // 2, "ceiling": ceiling(own, np.random.default_rng(3)),
                    "less_dpsgd": interval(row - independent), "less_prefix": interval(row - prefix),
                    "best_less_dpsgd": {key: interval(own[value.argmin()] - independent) for key, value in values.items()},
                    "best_less_prefix": {key: interval(own[value.argmin()] - prefix) for key, value in values.items()},
                }  # fmt: skip
                if optimizer == "adam" and seeds:  # at the rate of DP-SGD, and at that times the noise of a step
                    for key, at in ("usual", 4), ("scaled", 5):
                        other = losses[:, :, at].mean(1)
                        out[key] = {name: float(spearmanr(value, other)[0]) for name, value in values.items()}
                        out[f"better_{key}"] = float(np.mean(other[1:] < other[0]))
                yield out


def short(x: float) -> str:
    return f"{x:.2f}".replace("0.", ".").replace("1.00", "1.0")


def table(head: str, rows: Iterable[Iterable[str]]) -> None:
    print(head, "|---" * (head.count("|") - 1) + "|", *("| " + " | ".join(row) + " |" for row in rows), "", sep="\n")


def pooled(cells: list[dict[str, Any]], key: str) -> float:
    return sum(c["parted"][key] * c["pairs"] for c in cells if c["pairs"]) / sum(c["pairs"] for c in cells)


def main(folder: pathlib.Path, kept: list[str]) -> None:
    all_ = list(cells(folder))
    by = {(c["task"], c["optimizer"]): [d for d in all_ if (d["task"], d["optimizer"]) == (c["task"], c["optimizer"])] for c in all_}
    by = {key: by[key] for task in tasks() for key in by if key[0] == task}
    print(all_[0]["seeds"], "seeds\n")
    table("| task | optimizer | prefix sums | all models | second half | last model | ceiling |", ((
        *key, *(", ".join(short(c["ranks"][k]) for c in some) for k in ("prefix", "n/2", "last half n/2", "last n/2")), ", ".join(short(c["ceiling"]) for c in some))
        for key, some in by.items()))  # fmt: skip
    means = []
    for optimizer in OPTIMIZERS:
        for which in "known", "held-out":
            some = [c for c in all_ if c["optimizer"] == optimizer and (c["task"] in KNOWN) == (which == "known")]
            pairs = f"{short(float(np.mean([c['ceiling'] for c in some])))}, {sum(c['pairs'] for c in some)} of {sum(c['of_pairs'] for c in some)}"
            columns = kept or ["prefix", "n/2", "n/4", "last half n/2", "last n/2", "step"]
            means.append((optimizer, which, pairs, *(f"{short(float(np.mean([c['ranks'][k] for c in some])))}, {short(pooled(some, k))}" for k in columns)))
    table("| optimizer | tasks | ceiling; pairs | " + " | ".join(kept or ["prefix sums", "all models", "all, memory n/4", "second half", "last model", "one step"]) + " |", means)
    chosen = [c["best_less_dpsgd"]["last half n/2"] if c["optimizer"] == "cosine" else c["less_dpsgd"] for c in all_]
    of = {(c["task"], c["optimizer"], c["epsilon"]): one for c, one in zip(all_, chosen)}
    table("| task | optimizer | ε = 1 | 2 | 4 | 8 |", ((*key, *("{:+.3f} ± {:.3f}".format(*of[(*key, c["epsilon"])]) for c in some)) for key, some in by.items()))
    count("first rows less DP-SGD", chosen)
    for optimizer in OPTIMIZERS:
        some = [c for c in all_ if c["optimizer"] == optimizer]
        count(f"{optimizer}: less the first row of prefix sums", [c["best_less_prefix"]["last half n/2"] if optimizer == "cosine" else c["less_prefix"] for c in some])
    for key in "usual", "scaled":
        some = [c for c in all_ if key in c]
        if some:
            ranks = [c[key]["step"] for c in some]
            print(f"adam, {key} rate: one step {np.mean(ranks):.2f}, at least {min(ranks):.2f}; better than DP-SGD {np.mean([c['better_' + key] for c in some]):.2f}")


def count(name: str, of: list[tuple[float, float]]) -> None:
    lower, higher = sum(m < 0 for m, _ in of), sum(m > 0 for m, _ in of)
    print(f"{name}: mean {np.mean([m for m, _ in of]):+.4f}, of {len(of)} lower {lower} ({sum(m + h < 0 for m, h in of)} parted), higher {higher} ({sum(m - h > 0 for m, h in of)})")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
