"""The training in NumPy, on the articles of the demo's graph."""

from __future__ import annotations

import contextlib

import training  # first: it sets the number of threads
import genes
import numpy as np

import minsep


def train(path: str, progress: training.Progress, learning_rate: float, key: str | None = None) -> None:
    """Trains a logistic regression on articles in NumPy, on the batches and with the noise of a run directory."""
    data, params = genes.load(), progress.params
    run = minsep.Run(path).join(data.ids)
    # Updates are the same on every repetition, so a step after the last checkpoint may be repeated.
    with contextlib.closing(minsep.StepGuard(run, progress.state)) as guard:
        with minsep.read_noise(run, params, guard=guard, key=key) as noise:
            for t in guard:
                rows = run.batch(t)
                error = 1 / (1 + np.exp(-data.x[rows] @ params["w"])) - data.y[rows]
                total = minsep.clip_and_sum({"w": error[:, None] * data.x[rows]}, run.clip_norm, run.grid)
                mean = minsep.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
                params = {"w": params["w"] - np.float32(learning_rate) * mean["w"]}
                progress.done(t, params, guard)


if __name__ == "__main__":
    training.main(genes, train)
