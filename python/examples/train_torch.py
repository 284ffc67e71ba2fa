"""PyTorch, 1.13 or later, with a loop of its own. docs/python.md makes its run directory."""

import torch
import minsep, minsep.torch as dp

ids, x = range(30000), torch.randn(30000, 10)  # your data
y = (x[:, 0] > 0).long()
loss = lambda params, x, y: -torch.log_softmax(x @ params["w"] + params["b"], 0).gather(0, y[None])[0]
params = {"w": torch.zeros(10, 2), "b": torch.zeros(2)}

run = minsep.Run("run-torch").join(ids)
guard = minsep.StepGuard(run)
noise = minsep.read_noise(run, params, guard=guard, key="key")
batches = dp.Batches(run, guard)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_sampler=batches, collate_fn=dp.collate((x[:0], y[:0])))
clipped = dp.clipped_sum(loss, run.clip_norm, run.grid, microbatch=32)
for t, (a, b) in zip(guard, loader):
    total = clipped(params, batches.rows(t), a, b)
    mean = dp.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
    params = {name: p - 0.5 * mean[name] for name, p in params.items()}
