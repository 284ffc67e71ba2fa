"""The training in PyTorch with Opacus, whose noise is replaced by the run's."""

from __future__ import annotations

import contextlib

import training  # first: it sets the number of threads
import digits
import opacus
import torch
from torch.utils.data import DataLoader, TensorDataset

import minsep
import minsep.torch as dp


def new_model(params) -> torch.nn.Sequential:
    model = torch.nn.Sequential(torch.nn.Linear(64, digits.HIDDEN), torch.nn.ReLU(), torch.nn.Linear(digits.HIDDEN, digits.CLASSES))
    with torch.no_grad():
        for p, name in zip(model.parameters(), ("w1", "b1", "w2", "b2")):
            p.copy_(torch.tensor(params[name].T))
    return model


def weights_of(model):
    return {name: p.detach().numpy().T for name, p in zip(("w1", "b1", "w2", "b2"), model.parameters())}


def train(path: str, progress: training.Progress, learning_rate: float, key: str | None = None) -> None:
    """Trains on the digits in PyTorch with Opacus, on the batches and with the noise of a run directory."""
    data = digits.load()
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    run = minsep.Run(path).join(range(digits.EXAMPLES))
    model = new_model(progress.params)
    private, inner, _ = opacus.PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), learning_rate), data_loader=DataLoader(TensorDataset(x, y)),
        poisson_sampling=False, noise_multiplier=0.0, max_grad_norm=run.clip_norm, loss_reduction="sum",
    )  # fmt: skip
    # Sums are exact and updates the same on every repetition, so a step after the last checkpoint may be repeated.
    with contextlib.closing(minsep.StepGuard(run, progress.state)) as guard:
        with minsep.read_noise(run, list(model.parameters()), guard=guard, key=key) as noise:
            optimizer = dp.NoisyOptimizer(inner, run, noise, guard)
            first = guard.next_step
            batches = DataLoader(TensorDataset(x, y), batch_sampler=dp.Batches(run, guard), collate_fn=dp.collate((x[:0], y[:0])))
            for t, (a, b) in enumerate(batches, first):
                optimizer.zero_grad()
                if len(a) > 0:
                    torch.nn.functional.cross_entropy(private(a), b, reduction="sum").backward()
                optimizer.step()
                progress.done(t, weights_of(model), guard)


if __name__ == "__main__":
    training.main(digits, train)
