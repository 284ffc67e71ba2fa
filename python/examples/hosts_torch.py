"""torch.distributed on several hosts, which all run this program, started by torchrun. docs/python.md makes its run directory."""

import torch, torch.distributed
import minsep, minsep.torch as dp

torch.distributed.init_process_group("gloo")  # or "nccl"
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(0)
ids, x = range(30000), torch.randn(30000, 11)  # the same on all hosts
params = {"w": torch.zeros(11, 2)}
loss = lambda params, x: ((x @ params["w"] - 1) ** 2).sum()

run = minsep.Run("run-hosts-torch").join(ids)
guard = minsep.StepGuard(run, rank=rank, ranks=ranks, gather=dp.gather)
noise = minsep.read_noise(run, params, guard=guard, key="key")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_sampler=dp.Batches(run, guard, rank, ranks),
                                     collate_fn=dp.collate((x[:0],)))
for t, (a,) in zip(guard, loader):
    total = dp.clip_and_sum(dp.per_example(loss)(params, a), run.clip_norm, run.grid)
    for part in total.values():
        torch.distributed.all_reduce(part)    # float64, which is exact for whole multiples of the grid
    mean = dp.add_noise(total, noise.step(t), run.grid, run.expected_batch_size)
    params = {name: p - 0.1 * mean[name] for name, p in params.items()}
