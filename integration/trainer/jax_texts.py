"""The training on texts in JAX: a language model of bytes, with sampled owners."""

from __future__ import annotations

import contextlib
import functools

import training  # first: it sets the number of threads
import jax
import jax.numpy as jnp
import texts

import minsep
import minsep.jax as dp

SIZES = [384, 512, 1024]  # of padded batches, of 256 windows on average: one program is compiled, unless a batch is by far larger


def loss(params, window):
    """The mean loss of a window's bytes."""
    before = jnp.stack([window[i : i + texts.WINDOW] for i in range(texts.CONTEXT)], axis=1)
    hidden = jax.nn.relu(params["embedding"][before].reshape(texts.WINDOW, -1) @ params["w1"] + params["b1"])
    logits = jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])
    return -jnp.take_along_axis(logits, window[texts.CONTEXT :, None], axis=1).mean()


@functools.partial(jax.jit, static_argnames=("clip_norm", "grid"))
def clipped_sum(params, windows, owners, clip_norm, grid):
    gradients = jax.vmap(jax.grad(loss), (None, 0))(params, windows)
    return dp.clip_and_sum(gradients, clip_norm, grid, owners=owners)


@functools.partial(jax.jit, static_argnames=("grid", "divisor"))
def update(params, total, noise, learning_rate, grid, divisor):
    mean = dp.add_noise(total, noise, grid, divisor)
    return jax.tree.map(lambda p, g: p - learning_rate * g, params, mean)


def train(path: str, progress: training.Progress, learning_rate: float, key: str | None = None) -> None:
    """Trains a language model of bytes in JAX, on the batches of owners and with the noise of a run directory."""
    windows = texts.load().windows.astype("int32")
    run = minsep.Run(path).join(range(len(windows)))
    # Sums are exact and updates the same on every repetition, so a step after the last checkpoint may be repeated.
    with contextlib.closing(minsep.StepGuard(run, progress.state)) as guard:
        params = jax.tree.map(jnp.asarray, progress.params)
        with minsep.read_noise(run, params, guard=guard, key=key) as noise:
            for t in guard:
                batch = minsep.pad(run.batch(t), SIZES)
                total = clipped_sum(params, windows[batch.rows], batch.owners, run.clip_norm, run.grid)
                params = update(params, total, noise.step(t), learning_rate, run.grid, run.expected_batch_size)
                progress.done(t, params, guard)


if __name__ == "__main__":
    training.main(texts, train)
