"""One of several processes that train a model together: process.py WHAT, a JSON of `what` below, from test_processes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings

import torch

import minsep
import minsep.torch as dp


def model_of(kind):
    torch.manual_seed(1)
    if kind == "words":
        words, head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
        head.weight = words.weight
        return torch.nn.Sequential(words, torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(3, 3), head)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(4, 3))


def data_of(kind):
    generator = torch.Generator().manual_seed(2)
    if kind == "words":
        return torch.utils.data.TensorDataset(torch.randint(0, 5, (200, 6), generator=generator))
    return torch.utils.data.TensorDataset(3 * torch.randn(200, 5, generator=generator), torch.randint(0, 3, (200,), generator=generator))


def loss_of(model, x, y=None):
    if y is None:
        return torch.nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:])
    return torch.nn.functional.cross_entropy(model(x), y)


def main(what):
    """what: run, checkpoint, rank, count, rendezvous, kind, options of private, until (the step before which it stops), kill (the step from which on there is no checkpoint, after three of which it dies), fault."""
    rank, count, fault = what["rank"], what["count"], what.get("fault")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if count > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{what['rendezvous']}", rank=rank, world_size=count)
    model = model_of(what["kind"])
    if fault == "weights" and rank == 1:
        with torch.no_grad():
            next(model.parameters()).add_(1)
    if fault == "unclipped" and rank == 1:
        model.add_module("more", torch.nn.Linear(1, 1))
    training = dp.private(model, torch.optim.Adam(model.parameters(), lr=0.05), minsep.Run(what["run"]), loss=loss_of, **what["options"])
    if fault in ("double", "missing"):
        processes = training._processes
        real = minsep._session.read_noise

        def other(*given, shard, shards, **named):
            return real(*given, shard=0 if fault == "double" else shard, shards=shards if fault == "double" else count + 1, **named)

        minsep._session.read_noise = other
        assert processes.count == count
    training.load(what["checkpoint"])
    for batch in training.loader(data_of(what["kind"])):
        step = training.guard.next_step
        if step == what.get("until"):
            break
        if fault == "sum" and step == 1:
            batch = [x[:0] for x in batch] if rank == 1 else batch
        training.step(*batch)
        if what.get("kill") is None or step < what["kill"]:
            training.save(what["checkpoint"])
        elif step == what["kill"] + 2:
            os._exit(7)  # three steps that no checkpoint knows
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    print(json.dumps({"steps": training.guard.next_step, "weights": weights, "width": training._session._reader.width}), flush=True)
    training.close()
    if count > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
