"""JAX on several hosts, which all run this program. docs/python.md makes its run directory."""

import jax, jax.numpy as jnp, numpy as np
from jax.experimental import multihost_utils
import minsep, minsep.jax as dp

# jax.distributed.initialize()  first, where there are several hosts
rank, ranks = jax.process_index(), jax.process_count()
ids, x = np.arange(30000), np.random.default_rng(0).normal(size=(30000, 11)).astype(np.float32)  # the same on all hosts
params = {"w": jnp.zeros((11, 2))}
loss = lambda params, x: jnp.sum((x @ params["w"] - 1) ** 2)

run = minsep.Run("run-hosts-jax").join(ids)
guard = minsep.StepGuard(run, rank=rank, ranks=ranks, gather=dp.gather)
noise = minsep.read_noise(run, params, guard=guard, key="key")
gradients = jax.vmap(jax.grad(loss), (None, 0))
clipped = jax.jit(lambda params, x, padding: dp.clip_and_sum(gradients(params, x), run.clip_norm, run.grid, padding))
for t in guard:                                                # compares the hosts
    rows = minsep.pad(run.batch(t), 64 * ranks, rank, ranks)   # this host's part of the batch
    part = clipped(params, x[rows], rows < 0)
    parts = multihost_utils.process_allgather(part)            # whole multiples of the grid: exact in any order
    total = jax.tree.map(lambda s, one: jnp.reshape(s, (-1, *one.shape)).sum(0, dtype=jnp.int32), parts, part)
    mean = dp.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, mean)
