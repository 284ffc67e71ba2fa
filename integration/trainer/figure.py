"""Draws loss curves: python figure.py results.jsonl curves.svg"""

from __future__ import annotations

import json
import sys
from typing import Any

import digits
import numpy as np
import table

PROGRAM, EPSILON, RATES = "jax", 8, (2.0, 4.0)
COLORS = {
    "DP-SGD, Poisson": "#888888", "BandMF, cyclic Poisson": "#c03a2b", "balls-in-bins": "#d18f00", "b-min-sep 4": "#8fb4e8",
    "b-min-sep 8": "#1f5fbf", "b-min-sep 16": "#123a75", "epoch-min-sep": "#2a8f4a", "balanced-min-sep": "#8a4fbf",
}  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, GAP, HIGHEST = 300, 240, 46, 40, 26, 0.8


def svg(results: list[dict[str, Any]]) -> str:
    """A panel for each learning rate, with a line of mean losses for each mechanism."""
    parts = ['<rect width="100%" height="100%" fill="white"/>']
    for panel, rate in enumerate(RATES):
        x0 = LEFT + panel * (WIDTH + GAP)
        parts.append(f'<text x="{x0}" y="{TOP - 14}">learning rate {rate:g}</text>')
        for loss in np.arange(0, HIGHEST + 0.01, 0.2):
            y = TOP + HEIGHT * (1 - loss / HIGHEST)
            parts.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
            if panel == 0:
                parts.append(f'<text x="{x0 - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
        for step in range(0, 201, 50):
            parts.append(f'<text x="{x0 + WIDTH * step / 200:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{step}</text>')
        chosen = [r for r in results if (r["program"], r["epsilon"], r["learning_rate"]) == (PROGRAM, EPSILON, rate)]
        for (name,), group in table.grouped(chosen, "mechanism").items():
            curve = np.mean([r["curve"] for r in group], axis=0)
            steps = digits.EVERY * np.arange(1, len(curve) + 1)
            points = [f"{x0 + WIDTH * s / 200:.1f},{TOP + HEIGHT * (1 - c / HIGHEST):.1f}" for s, c in zip(steps, curve) if c <= HIGHEST]
            parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
    x = LEFT + len(RATES) * (WIDTH + GAP)
    for i, (name, color) in enumerate(COLORS.items()):
        y = TOP + 10 + 22 * i
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="3"/><text x="{x + 24}" y="{y + 4}">{name}</text>')
    size = f'width="{x + 190}" height="{TOP + HEIGHT + 30}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as target:
        target.write(svg([json.loads(line) for line in source]))
