"""Tables and figures of the results of trainings.py."""

from __future__ import annotations

import math
import statistics
from typing import Any

# Student's t for 95 % by degrees of freedom, from 1 on.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % confidence interval (infinite for one value)."""
    n = len(values)
    if n == 1:
        return values[0], math.inf
    t = T[n - 2] if n - 2 < len(T) else 1.96 + 2.7 / (n - 1)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(n)


def markdown(results: list[dict[str, Any]]) -> str:
    """A table with a row for each program, epsilon and mechanism, by test loss."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for r in results:
        groups.setdefault((r["program"], r["epsilon"], r["mechanism"]), []).append(r)
    mean = lambda group, field: interval([r[field] for r in group])
    lines = ["| | ε | mechanism | σ | test loss | accuracy | trainings |", "|---|---|---|---|---|---|---|"]
    order = lambda item: (item[0][:2], mean(item[1], "loss"))
    for (program, epsilon, name), group in sorted(groups.items(), key=order):
        (loss, half), (accuracy, wide) = mean(group, "loss"), mean(group, "accuracy")
        sigma = group[0]["noise_multiplier"]
        row = [program, epsilon, name, f"{sigma:.4g}", f"{loss:.3f} ± {half:.3f}", f"{100 * accuracy:.1f} ± {100 * wide:.1f} %", len(group)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)
