"""Grain and its worker processes, each of which imports this file. docs/python.md makes its run directory."""

from absl import flags
import grain
import jax, jax.numpy as jnp, numpy as np
import minsep, minsep.jax as dp

ids, x = np.arange(30000), np.random.default_rng(0).normal(size=(30000, 11)).astype(np.float32)  # your data
loss = lambda params, x: jnp.sum((x @ params["w"] - 1) ** 2)


def train():
    params = {"w": jnp.zeros((11, 2))}
    run = minsep.Run("run-grain").join(ids)
    guard = minsep.StepGuard(run)
    noise = minsep.read_noise(run, params, guard=guard, key="key")
    clipped = jax.jit(dp.clipped_sum(loss, run.clip_norm, run.grid))
    data = grain.MapDataset.source(dp.Steps(run, x, guard, 64)).to_iter_dataset()
    flags.FLAGS(["train"])  # Grain reads flags for its workers
    records = iter(data.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
    for record in records:
        guard.take(record["step"])
        total = clipped(params, record["rows"], record["examples"])
        mean = dp.add_noise(total, noise.step(record["step"]), run.grid, run.expected_batch_size)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, mean)
        checkpoint = {"params": params, "minsep": guard.state_dict(), "grain": records.get_state()}
    print(guard.next_step, "steps")


if __name__ == "__main__":  # each worker imports this file
    train()
