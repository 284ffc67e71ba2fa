"""Opacus, where the run's noise replaces Opacus' own. docs/python.md makes its run directory."""

import torch, opacus
import minsep, minsep.torch as dp

ids, x = range(30000), torch.randn(30000, 10)  # your data
y = (x[:, 0] > 0).long()
model, loss = torch.nn.Linear(10, 2), torch.nn.CrossEntropyLoss(reduction="sum")
data = torch.utils.data.TensorDataset(x, y)

run = minsep.Run("run-opacus").join(ids)
guard = minsep.StepGuard(run)
private, inner, _ = opacus.PrivacyEngine().make_private(
    module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), data_loader=torch.utils.data.DataLoader(data),
    poisson_sampling=False, noise_multiplier=0.0, max_grad_norm=run.clip_norm, loss_reduction="sum")
noise = minsep.read_noise(run, list(model.parameters()), guard=guard, key="key")
optimizer = dp.NoisyOptimizer(inner, run, noise, guard)
for a, b in torch.utils.data.DataLoader(data, batch_sampler=dp.Batches(run, guard), collate_fn=dp.collate((x[:0], y[:0]))):
    optimizer.zero_grad()
    for i in range(0, len(a), 32):      # parts whose gradients fit the memory
        loss(private(a[i:i + 32]), b[i:i + 32]).backward()
        optimizer.accumulate()
    optimizer.step()                    # for an empty batch too
    checkpoint = {"model": model.state_dict(), "optimizer": inner.state_dict(), "minsep": guard.state_dict()}
