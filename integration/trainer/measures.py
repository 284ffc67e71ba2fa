"""Tables of rankings.py's trainings: how well measures of noise predict which mechanism leaves the least loss.

    python measures.py ../../out/rankings [constant|cosine|momentum|adam …] [--held-out]

Losses are those at the best learning rate of a mechanism: the least of a parabola through the best rate and both beside it, each seed by
the same weights. "ceiling" is the rank correlation that a measure without an error would have with losses of so many seeds: from
the correlation r between halves of the seeds, √(2r/(1+r)). "parted" is of the pairs whose difference has an interval without 0: those in
the right order less those in the wrong one, over all of them. The measures were written down before the first training.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any, Callable, Iterator

import numpy as np
from scipy.stats import spearmanr, t as student

from rankings import OPTIMIZERS, STEPS, Mechanism, mechanisms, schedule

KNOWN = "digits, hidden layer", "digits, linear", "made up, linear"  # by which a measure may be chosen; the others judge it
SPLITS = 50


def workload(momentum: float, rates: np.ndarray, forgetting: float) -> np.ndarray:
    """docs/formulas.md, F1.1."""
    a, velocity, model = np.zeros((STEPS, STEPS)), np.zeros(STEPS), np.zeros(STEPS)
    for i in range(STEPS):
        velocity = momentum * velocity - forgetting * (1 - momentum) * model
        velocity[i] += 1
        model = model + rates[i] * velocity
        a[i] = model
    return a


def measures(optimizer: str) -> dict[str, Callable[[Mechanism], float]]:
    """Each gives a mechanism's noise by some measure."""
    momentum, rates = 0.9 if optimizer in ("momentum", "adam") else 0.0, schedule(optimizer)
    with_memory = {k: workload(momentum, rates, 1 / (STEPS / k)) for k in (1, 2, 4, 8, 16, 32)}
    curvatures = [workload(momentum, rates, kappa) for kappa in np.geomspace(1 / STEPS, 1 / 4, 12)]

    def energy(a: np.ndarray, m: Mechanism) -> np.ndarray:
        return m.sigma**2 * np.square(a @ np.linalg.inv(m.matrix)).sum(1)

    def step(m: Mechanism) -> float:
        return float(m.sigma * np.sqrt(np.square(np.linalg.inv(m.matrix)).sum() / STEPS))

    def mean(a: np.ndarray) -> Callable[[Mechanism], float]:
        return lambda m: float(np.sqrt(energy(a, m).mean()))

    def late(a: np.ndarray, part: int) -> Callable[[Mechanism], float]:
        return lambda m: float(np.sqrt(energy(a, m)[-STEPS // part :].mean()))

    def spectrum(rows: int) -> Callable[[Mechanism], float]:
        return lambda m: float(np.sqrt(sum(energy(a, m)[-rows:].mean() for a in curvatures)))

    memory = mean(with_memory[2])
    return {
        "prefix": mean(workload(0, np.ones(STEPS), 0)),
        "n/2": memory, "n/4": mean(with_memory[4]), "n/8": mean(with_memory[8]), "n/16": mean(with_memory[16]),
        "last n": lambda m: float(np.sqrt(energy(with_memory[1], m)[-1])),
        **{f"last n/{k}": (lambda m, k=k: float(np.sqrt(energy(with_memory[k], m)[-1]))) for k in (2, 4, 8, 16, 32)},
        "last half n/4": late(with_memory[4], 2), "last tenth n/4": late(with_memory[4], 10), "last tenth n/8": late(with_memory[8], 10),
        "all curvatures": spectrum(STEPS), "last, all curvatures": spectrum(1), "last tenth, all curvatures": spectrum(STEPS // 10),
        "step": step, "√(step · n/2)": lambda m: float(np.sqrt(step(m) * memory(m))),
    }  # fmt: skip


def tuned(losses: np.ndarray) -> np.ndarray:
    """Of losses [seeds, rates], the loss of each seed at the best rate."""
    mean = losses.mean(0)
    at = min(max(int(mean.argmin()), 1), losses.shape[1] - 2)
    low, middle, high = mean[at - 1 : at + 2]
    bend = low + high - 2 * middle
    if bend <= 0 or high > 2 * middle or low > 2 * middle:  # no parabola
        return losses[:, int(mean.argmin())]
    x = float(np.clip((low - high) / (2 * bend), -1, 1))
    return losses[:, at - 1 : at + 2] @ np.array([x * (x - 1) / 2, 1 - x * x, x * (x + 1) / 2])


def interval(differences: np.ndarray) -> tuple[float, float]:
    n = len(differences)
    return float(differences.mean()), float(student.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5)


def ceiling(losses: np.ndarray, rng: np.random.Generator) -> float:
    """Of losses [mechanisms, seeds, rates]."""
    seeds, all_ = losses.shape[1], []
    for _ in range(SPLITS):
        order = rng.permutation(seeds)
        halves = [[tuned(m[half]).mean() for m in losses] for half in (order[: seeds // 2], order[seeds // 2 :])]
        all_.append(spearmanr(*halves)[0])
    r = float(np.mean(all_))
    return float(np.sqrt(max(0, 2 * r / (1 + r))))


def cells(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A dict for each task, optimizer and epsilon."""
    kept = json.loads((folder / "mechanisms.json").read_text())
    losses: dict[tuple[str, int], dict[str, dict[int, Any]]] = {}
    for line in (folder / "trainings.jsonl").read_text().splitlines():
        one = json.loads(line)
        task, epsilon, name, seed = one["of"]
        losses.setdefault((task, epsilon), {}).setdefault(name, {})[seed] = one["losses"]
    by_measure: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for (task, epsilon), of in losses.items():
        some = [m for m in mechanisms("", folder)[epsilon] if m.name in of]
        seeds = sorted(set.intersection(*(set(of[m.name]) for m in some)))
        all_ = np.array([[of[m.name][s] for s in seeds] for m in some])  # [mechanisms, seeds, optimizers, rates]
        names = [m.name for m in some]
        for i, optimizer in enumerate(OPTIMIZERS):
            if (optimizer, epsilon) not in by_measure:
                by_measure[optimizer, epsilon] = {key: np.array([f(m) for m in some]) for key, f in measures(optimizer).items()}
            values, own = by_measure[optimizer, epsilon], all_[:, :, i]
            at_best = np.array([tuned(m) for m in own])  # [mechanisms, seeds]
            mean, first = at_best.mean(1), kept[str(epsilon)]["first"]
            pairs = [(j, k) for j in range(len(some)) for k in range(j) if np.greater(*map(abs, interval(at_best[j] - at_best[k])))]

            def right(value: np.ndarray) -> float:
                return float(np.mean([np.sign(value[j] - value[k]) * np.sign(mean[j] - mean[k]) for j, k in pairs])) if pairs else np.nan

            row, prefix, independent = (at_best[names.index(n)] for n in (first[optimizer], first["prefix"], names[0]))
            yield {
                "task": task, "optimizer": optimizer, "epsilon": epsilon, "seeds": len(seeds), "names": names, "loss": mean,
                "ranks": {key: float(spearmanr(value, mean)[0]) for key, value in values.items()},
                "parted": {key: right(value) for key, value in values.items()}, "pairs": len(pairs), "of_pairs": len(some) * (len(some) - 1) // 2,
                "regret": {key: float(mean[value.argmin()] - mean.min()) for key, value in values.items()},
                "ceiling": ceiling(own, np.random.default_rng(3)), "first": first[optimizer], "first_of_prefix": first["prefix"],
                "less_dpsgd": interval(row - independent), "less_prefix": interval(row - prefix),
                "edges": [n for n, m in zip(names, own) if m.mean(0).argmin() in (0, m.shape[1] - 1)],
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("optimizers", nargs="*", default=OPTIMIZERS)
    parser.add_argument("--held-out", action="store_true", help="the means over the tasks by which no measure was chosen")
    args = parser.parse_args()
    all_ = [c for c in cells(args.folder) if c["optimizer"] in args.optimizers]
    print("| task | optimizer | ε | seeds | prefix sums | n/2 | n/4 | ceiling | parted | prefix sums | n/2 | first less DP-SGD | first less that of prefix sums |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for c in all_:
        r, p = c["ranks"], c["parted"]
        differences = ["{:+.4f} ± {:.4f}".format(*c[key]) if c[key][1] else "the same" for key in ("less_dpsgd", "less_prefix")]
        print("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} of {} | {:.2f} | {:.2f} | {} | {} |".format(
            c["task"], c["optimizer"], c["epsilon"], c["seeds"], r["prefix"], r["n/2"], r["n/4"], c["ceiling"], c["pairs"], c["of_pairs"],
            p["prefix"], p["n/2"], *differences), "edges: " + "; ".join(c["edges"]) if c["edges"] else "")  # fmt: skip
    for optimizer in args.optimizers:
        some = [c for c in all_ if c["optimizer"] == optimizer and (c["task"] not in KNOWN) == args.held_out]
        if not some:
            continue
        print(f"\n{optimizer}, {'held-out' if args.held_out else 'known'} tasks: mean rank correlation, of pairs that are parted, regret")
        print(f"  {'ceiling':30s} {np.mean([c['ceiling'] for c in some]):.3f}")
        for key in some[0]["ranks"]:
            print(f"  {key:30s}", *(f"{np.nanmean([c[of][key] for c in some]):.3f}" for of in ("ranks", "parted", "regret")))


if __name__ == "__main__":
    main()
