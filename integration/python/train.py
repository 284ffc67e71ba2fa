"""Trains a classifier with the run directory "run" of edges.csv: the last step of the wheel's test, by the Python that has it."""

import shutil
import subprocess
import sys

import minsep
import numpy as np

ids = np.arange(30_000)
rng = np.random.default_rng(0)
truth = rng.normal(size=10)
x = rng.normal(size=(len(ids), 10))
y = (x @ truth > 0).astype(float)

run = minsep.Run("run").join(ids)
assert run.inspect().certified, run.inspect().text
guard = minsep.StepGuard(run)
params = np.zeros(11)
noise = minsep.read_noise(run, params, guard=guard, key="key")
for t in guard:
    rows = run.batch(t)
    inputs = np.column_stack([x[rows], np.ones(len(rows))])
    gradients = (1 / (1 + np.exp(-inputs @ params)) - y[rows])[:, None] * inputs
    total = minsep.clip_and_sum(gradients, run.clip_norm, run.grid)
    params -= 4 * minsep.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
right = np.mean((x @ params[:10] + params[10] > 0) == y)
assert right > 0.85, right

own = shutil.which("minsep")
assert own and own.startswith(sys.prefix), own
for arguments in ["--version"], ["inspect", "run"]:
    said = [subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout for command in ([own], [sys.executable, "-m", "minsep"])]
    assert said[0] == said[1] and said[0], said
print(f"epsilon {run.epsilon} at delta {run.delta}: {right:.3f} of {len(ids)} right")
