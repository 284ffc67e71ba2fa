"""PyTorch on several processes that divide the model, started by torchrun. docs/large-models.md makes its run directory."""

import torch, minsep, minsep.torch as dp
from torch.distributed.fsdp import fully_shard

torch.distributed.init_process_group("gloo")  # or "nccl"
words = torch.randint(0, 100, (1000, 8), generator=torch.Generator().manual_seed(0))  # your data, the same on all processes
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(100, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 100))
loss = lambda model, x: torch.nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:])  # of one example: a batch of one

fully_shard(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
training = dp.private(model, optimizer, minsep.Run("run-divided"), loss=loss, microbatch=8, key="key-large")
training.load("run-divided/state.pt")
for x, in training.loader(torch.utils.data.TensorDataset(words)):
    training.step(x)
    training.save("run-divided/state.pt")
