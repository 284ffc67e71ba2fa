"""Tables of rankings.py's trainings: how well measures of noise predict which mechanism leaves the least loss.

    python measures.py ../../out/rankings [constant|cosine|momentum|adam …]

"ceiling" is the rank correlation that a measure without an error would have with losses of so many seeds: from the correlation r
between halves of the seeds, √(2r/(1+r)). "parted" is of the pairs whose difference has an interval without 0: those in the right order
less those in the wrong one, over all of them. The measures were written down before the first training.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any, Iterator

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
            "last half n/4": by_memory[4][-STEPS // 2 :].mean(), "last tenth n/4": by_memory[4][-STEPS // 10 :].mean(),
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("optimizers", nargs="*", default=OPTIMIZERS)
    args = parser.parse_args()
    all_ = [c for c in cells(args.folder) if c["optimizer"] in args.optimizers]
    print("| task | optimizer | ε | seeds | prefix sums | n/2 | n/4 | ceiling | parted | prefix sums | n/2 | first less DP-SGD | first less that of prefix sums |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for c in all_:
        r, p = c["ranks"], c["parted"]
        differences = ["{:+.4f} ± {:.4f}".format(*c[key]) if c[key][1] else "the same" for key in ("less_dpsgd", "less_prefix")]
        print("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} of {} | {:.2f} | {:.2f} | {} | {} |".format(
            c["task"], c["optimizer"], c["epsilon"], c["seeds"], r["prefix"], r["n/2"], r["n/4"], c["ceiling"], c["pairs"], c["of_pairs"],
            p["prefix"], p["n/2"], *differences))  # fmt: skip
    for optimizer in args.optimizers:
        for which, some in ("known", [c for c in all_ if c["task"] in KNOWN]), ("held-out", [c for c in all_ if c["task"] not in KNOWN]):
            some = [c for c in some if c["optimizer"] == optimizer]
            print(f"\n{optimizer}, {which} tasks, means: rank correlation (ceiling {np.mean([c['ceiling'] for c in some]):.3f}), parted, regret")
            for key in some[0]["ranks"]:
                more = [f"{np.mean([c[of][key] for c in some]):.3f}" for of in ("usual", "scaled") if of in some[0]]
                print(f"  {key:30s}", *(f"{np.nanmean([c[of][key] for c in some]):.3f}" for of in ("ranks", "parted", "regret")), *more)


if __name__ == "__main__":
    main()
