"""A Hugging Face data set, and NumPy in place of a model. docs/python.md makes its run directory."""

import datasets
import numpy as np
import minsep

data = datasets.Dataset.from_dict({"id": range(30000), "x": np.random.default_rng(0).normal(size=(30000, 11)).tolist()})
params = np.zeros((11, 2))

run = minsep.Run("run-hf").join(data["id"])
guard = minsep.StepGuard(run)
noise = minsep.read_noise(run, params, guard=guard, key="key")
for t in guard:
    x = np.reshape(data[run.batch(t)]["x"], (-1, 11))
    gradients = (x @ params - 1)[:, None, :] * x[:, :, None]  # one for each example, shape [n, 11, 2]
    total = minsep.clip_and_sum(gradients, run.clip_norm, run.grid)
    params -= 0.1 * minsep.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
