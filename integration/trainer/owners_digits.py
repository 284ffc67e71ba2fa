"""The training in NumPy, on the digits of owners: of sampled owners, or of sampled examples of owners with several."""

from __future__ import annotations

import contextlib

import training  # first: it sets the number of threads
import digits
import numpy as np

import minsep


def gradients(params, x, y):
    """The gradient of the loss of each example: leaves [n, ...]."""
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    logits = hidden @ params["w2"] + params["b2"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    back = (p @ params["w2"].T) * (hidden > 0)
    return {"w1": x[:, :, None] * back[:, None, :], "b1": back, "w2": hidden[:, :, None] * p[:, None, :], "b2": p}


def train(path: str, progress: training.Progress, learning_rate: float, key: str | None = None) -> None:
    """Trains on the digits of owners in NumPy, on the batches and with the noise of a run directory."""
    data, params = digits.load(), progress.params
    run = minsep.Run(path).join(range(digits.EXAMPLES))
    # Updates are the same on every repetition, so a step after the last checkpoint may be repeated.
    with contextlib.closing(minsep.StepGuard(run, progress.state)) as guard:
        with minsep.read_noise(run, params, guard=guard, key=key) as noise:
            for t in guard:
                batch = run.batch(t)
                sampled = isinstance(batch, minsep.OwnerBatch)
                rows, owners = (batch.rows, batch.owners) if sampled else (batch, None)
                total = minsep.clip_and_sum(gradients(params, data.x[rows], data.y[rows]), run.clip_norm, run.grid, owners=owners)
                mean = minsep.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
                params = {name: p - np.float32(learning_rate) * mean[name] for name, p in params.items()}
                progress.done(t, params, guard)


if __name__ == "__main__":
    training.main(digits, train)
