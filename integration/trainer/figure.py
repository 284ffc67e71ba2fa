"""Draws loss curves of a program: python figure.py results.jsonl jax curves.svg"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import table
import trainings

COLORS = ("#888888", "#c03a2b", "#d18f00", "#8fb4e8", "#1f5fbf", "#123a75", "#2a8f4a", "#8a4fbf")  # of mechanisms, as trainings.py lists them
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 240, 46, 40, 40


def svg(results: list[dict[str, Any]], program: str) -> str:
    """A panel for each epsilon at the program's learning rate, with a line of mean losses for each mechanism."""
    of = trainings.PROGRAMS[program]
    colors = dict(zip(of.mechanisms, COLORS, strict=False))
    parts = ['<rect width="100%" height="100%" fill="white"/>']
    for panel, (epsilon, rate) in enumerate(of.learning_rates.items()):
        chosen = [r for r in results if (r["program"], r["epsilon"], r["learning_rate"]) == (program, epsilon, rate)]
        curves = {name: np.mean([r["curve"] for r in group], axis=0) for (name,), group in table.grouped(chosen, "mechanism").items()}
        x0 = LEFT + panel * (WIDTH + GAP)
        parts.append(f'<text x="{x0}" y="{TOP - 14}">ε = {epsilon}, learning rate {rate:g}</text>')
        least = math.floor(10 * min((curve.min() for curve in curves.values()), default=0)) / 10
        most = max(math.ceil(10 * max((curve[1:].max() for curve in curves.values()), default=1)) / 10, least + 0.1)
        x = lambda step: x0 + WIDTH * step / of.steps
        y = lambda loss: TOP + HEIGHT * (most - loss) / (most - least)
        for loss in np.linspace(least, most, 6):
            parts.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#dddddd"/>')
            parts.append(f'<text x="{x0 - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
        for step in range(0, of.steps + 1, of.steps // 4):
            parts.append(f'<text x="{x(step):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{step}</text>')
        for name, curve in curves.items():
            steps = of.task.EVERY * np.arange(1, len(curve) + 1)
            points = [f"{x(s):.1f},{y(c):.1f}" for s, c in zip(steps, curve) if c <= most]
            parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colors[name]}" stroke-width="2"/>')
    left = LEFT + len(of.learning_rates) * (WIDTH + GAP)
    for i, (name, color) in enumerate(colors.items()):
        height = TOP + 10 + 22 * i
        parts.append(f'<line x1="{left}" x2="{left + 18}" y1="{height}" y2="{height}" stroke="{color}" stroke-width="3"/><text x="{left + 24}" y="{height + 4}">{name}</text>')
    size = f'width="{left + 190}" height="{TOP + HEIGHT + 30}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source, open(sys.argv[3], "w") as target:
        target.write(svg([json.loads(line) for line in source], sys.argv[2]))
