"""Tables and figures of the results of trainings.py."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from typing import Any, Iterable

import numpy as np

# Student's t for 95 % by degrees of freedom, from 1 on.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]


def noise_error(toeplitz: list[float], noise_multiplier: float, steps: int, batch_size: float) -> float:
    """The root mean square error of the sums of gradients up to each step, in clip norms, over the expected batch size.

    toeplitz is the first column of the strategy C. This is σ ‖AC⁻¹‖_F / (√n B) of docs/planner.md with the workload of prefix sums.
    """
    column = np.zeros(steps)
    column[: len(toeplitz)] = toeplitz
    sums = np.ones(steps)  # the first column of AC⁻¹, by forward substitution
    for i in range(steps):
        sums[i] = (1 - column[1 : i + 1] @ sums[:i][::-1]) / column[0]
    squares = np.sum(np.square(sums) * np.arange(steps, 0, -1))
    return float(noise_multiplier * np.sqrt(squares / steps) / batch_size)


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % confidence interval (infinite for one value)."""
    n = len(values)
    if n == 1:
        return values[0], math.inf
    t = T[n - 2] if n - 2 < len(T) else 1.96 + 2.7 / (n - 1)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(n)


def grouped(results: Iterable[dict[str, Any]], *fields: str) -> dict[Any, list[dict[str, Any]]]:
    """Results by the values of fields, in their order."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for r in sorted(results, key=lambda r: [r[f] for f in fields]):
        groups.setdefault(tuple(r[f] for f in fields), []).append(r)
    return groups


def loss_of(group: list[dict[str, Any]]) -> tuple[float, float]:
    return interval([r["loss"] for r in group])


def markdown(results: list[dict[str, Any]]) -> str:
    """A table for each program and epsilon: mechanisms by their noise, and the test loss at each learning rate.

    Where examples have several owners, it says how many examples took part in a training on average."""
    return "\n\n".join(_table(program, epsilon, group) for (program, epsilon), group in grouped(results, "program", "epsilon").items())


def _table(program: str, epsilon: int, results: list[dict[str, Any]]) -> str:
    rates = [rate for (rate,) in grouped(results, "learning_rate")]
    counted = any(r.get("examples") for r in results)
    head = [f"{program}, ε = {epsilon}", "σ", "noise", *(["examples"] if counted else []), *(f"loss at {rate:g}" for rate in rates)]
    head += ["accuracy at the best", "trainings"]
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    mean = lambda group, field: statistics.fmean(r[field] for r in group)
    for name, group in sorted(((name, group) for (name,), group in grouped(results, "mechanism").items()), key=lambda g: mean(g[1], "noise_error")):
        by_rate = {rate: of_rate for (rate,), of_rate in grouped(group, "learning_rate").items()}
        losses = [_with_error(*loss_of(by_rate[rate]), digits=3) if rate in by_rate else "" for rate in rates]
        best = min(by_rate.values(), key=loss_of)
        accuracy = _with_error(*interval([100 * r["accuracy"] for r in best]), digits=1) + " %"
        counts = sorted({len(of_rate) for of_rate in by_rate.values()})
        examples = [f"{mean(group, 'examples'):,.0f}"] if counted else []
        row = [name, f"{group[0]['noise_multiplier']:.4g}", f"{mean(group, 'noise_error'):.4f}", *examples, *losses, accuracy, " to ".join(map(str, {counts[0]: 0, counts[-1]: 0}))]
        rows.append("| " + " | ".join(row) + " |")
    return "\n".join(rows)


def _with_error(mean: float, half: float, digits: int) -> str:
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def together(results: list[dict[str, Any]], programs: list[str]) -> list[dict[str, Any]]:
    """The results with those of some programs as of one."""
    return [r | {"program": " and ".join(programs)} if r["program"] in programs else r for r in results]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", help="results.jsonl of trainings.py")
    parser.add_argument("--together", nargs="+", default=[], metavar="PROGRAM", help="programs that train the same model, as one")
    flags = parser.parse_args()
    with open(flags.results) as f:
        print(markdown(together([json.loads(line) for line in f], flags.together)))


if __name__ == "__main__":
    main()
