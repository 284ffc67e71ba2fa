"""200 rows in every step. Started again, it resumes from its checkpoint. docs/python.md makes its run directory."""

import json, os
import minsep
import numpy as np

ids, x = np.arange(30000), np.random.default_rng(0).normal(size=(30000, 11))  # your data, in one order
params, state, saved = np.zeros((11, 2)), None, "run-fixed/trainer.npz"
if os.path.exists(saved):
    with np.load(saved) as checkpoint:
        params, state = checkpoint["params"], json.loads(str(checkpoint["minsep"]))

run = minsep.Run("run-fixed").join(ids)
guard = minsep.StepGuard(run, state)

def save():
    """Leaves the old checkpoint or the new one, whenever it is killed."""
    with open(saved + ".new", "wb") as file:
        np.savez(file, params=params, minsep=json.dumps(guard.state_dict()))
        file.flush()
        os.fsync(file.fileno())
    os.replace(saved + ".new", saved)

noise = minsep.read_noise(run, params, guard=guard, key="key")
if state is None:
    save()                                            # before the first step: from here on a start goes on
for t in guard:
    rows = minsep.pad(run.batch(t), run.max_rows)          # always 200, filled with -1
    gradients = (x[rows] @ params - 1)[:, None, :] * x[rows][:, :, None]
    total = minsep.clip_and_sum(gradients, run.clip_norm, run.grid, is_padding=rows < 0)
    params = params - 0.1 * minsep.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
    if guard.next_step % 10 == 0 or guard.next_step == run.steps:
        save()
print(guard.next_step, "steps")
