"""The training in JAX, with the clipping of jax_privacy."""

from __future__ import annotations

import contextlib
import functools

import training  # first: it sets the number of threads
import digits
import jax
import jax.numpy as jnp
from jax_privacy.clipping import clip_pytree

import minsep
import minsep.jax as dp


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return -jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])[y]


@functools.partial(jax.jit, static_argnames=("clip_norm", "grid"))
def clipped_sum(params, x, y, is_padding, clip_norm, grid):
    gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(params, x, y)
    clipped, _ = jax.vmap(lambda gradient: clip_pytree(gradient, clip_norm))(gradients)
    return dp.clip_and_sum(clipped, clip_norm, grid, is_padding)  # whose part here is to round to the grid and to sum exactly


@functools.partial(jax.jit, static_argnames=("grid", "divisor"))
def update(params, total, noise, learning_rate, grid, divisor):
    mean = dp.add_noise(total, noise, grid, divisor)
    return jax.tree.map(lambda p, g: p - learning_rate * g, params, mean)


def train(path: str, progress: training.Progress, learning_rate: float, key: str | None = None) -> None:
    """Trains on the digits in JAX, on the batches and with the noise of a run directory."""
    data = digits.load()
    run = minsep.Run(path).join(range(digits.EXAMPLES))
    # Sums are exact and updates the same on every repetition, so a step after the last checkpoint may be repeated.
    with contextlib.closing(minsep.StepGuard(run, progress.state)) as guard:
        params = jax.tree.map(jnp.asarray, progress.params)
        with minsep.read_noise(run, params, guard=guard, key=key) as noise:
            for t in guard:
                rows = minsep.pad(run.batch(t), 128)
                total = clipped_sum(params, data.x[rows], data.y[rows], rows < 0, run.clip_norm, run.grid)
                params = update(params, total, noise.step(t), learning_rate, run.grid, run.expected_batch_size)
                progress.done(t, params, guard)


if __name__ == "__main__":
    training.main(digits, train)
