"""Processes that train a model together: process.py reads a line of JSON for each training, `what` of `main` below, forks its processes, so that PyTorch is imported once, and prints what became of them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

import minsep
import minsep.torch as dp
from minsep import _sharded

from tests import frozen


def model_of(kind):
    torch.manual_seed(1)
    if kind == "words":
        words, head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
        head.weight = words.weight
        return torch.nn.Sequential(words, torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(3, 3), head)
    if kind == "lora":
        return torch.nn.Sequential(torch.nn.Linear(5, 5).requires_grad_(False), Adapted(torch.nn.Linear(5, 4), 5), torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(4, 3))
    if kind in ("order", "often"):
        return torch.nn.Sequential(Routed(kind), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    if kind == "one":
        return torch.nn.Sequential(torch.nn.Linear(7, 2, bias=False), torch.nn.Flatten(0))
    if kind == "elsewhere":
        return torch.nn.Sequential(Elsewhere(), torch.nn.Linear(5, 3))
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(4, 3))


class Adapted(torch.nn.Module):
    """A frozen layer, and a trained change of it of low rank, as LoRA's."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = torch.nn.Linear(width, 2, bias=False), torch.nn.Linear(2, 4, bias=False)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))  # which fully_shard does not divide

    def forward(self, x):
        return self.layer(x) + self.scale * self.up(self.down(x))


class Routed(torch.nn.Module):
    """One of two layers, by the example; or a layer once or twice."""

    def __init__(self, of):
        super().__init__()
        self.of = of
        self.layers = torch.nn.ModuleList(torch.nn.Linear(5, 3) for _ in range(2)).requires_grad_(False)

    def forward(self, x):
        chosen = int(x.sum() > 0)
        return self.layers[chosen](x) if self.of == "order" else sum(self.layers[0](x) for _ in range(1 + chosen))


class Elsewhere(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Linear(5, 5, bias=False)

    def forward(self, x):
        return self.inside(x) @ self.inside.weight


def divide(model, **options):
    """Each of the layers by itself, but for those that share a weight."""
    from torch.distributed.fsdp import fully_shard

    for module in [*model][1:-1]:
        if [*module.parameters()]:
            fully_shard(module, ignored_params={p for p in module.parameters() if not p.ndim})
    fully_shard(model, ignored_params={p for p in model.parameters() if not p.ndim}, **options)


def data_of(kind):
    generator = torch.Generator().manual_seed(2)
    if kind == "words":
        return torch.utils.data.TensorDataset(torch.randint(0, 5, (200, 6), generator=generator))
    return torch.utils.data.TensorDataset(3 * torch.randn(200, 5, generator=generator), torch.randint(0, 3, (200,), generator=generator))


def loss_of(model, x, y=None):
    if y is None:
        return torch.nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:])
    return torch.nn.functional.cross_entropy(model(x), y)


def one_more(training):
    """A row more or less, in a model that processes have divided, moves their sum by its own part."""
    from tests.test_clip import OneMore

    training._loss.loss = lambda model, x: model(x) @ torch.tensor([0.6, 0.8])  # the gradient of a row is the row, twice
    training.guard  # begins
    case = OneMore()
    case.GRID = training.run.grid

    def total(x, rows, owners, microbatch):
        own, rounds = training._processes.part(np.arange(len(x)), microbatch)
        parts = [None] * training._processes.count
        torch.distributed.all_gather_object(parts, training._sum(training._trained(), 0, [], [torch.tensor(x[own])], rows[own], rounds).total)
        return torch.cat(parts).numpy() / case.GRID

    case.check(total, False, (1, 3), (2,))  # batches of processes have no padding


def main(what):
    """what: run, checkpoint, rank, count, rendezvous, kind, options of private, until (the step before which it stops), kill (the step from which on there is no checkpoint, after three of which it dies), fault."""
    rank, count, fault = what["rank"], what["count"], what.get("fault")
    warnings.simplefilter("ignore")
    frozen.freeze()
    torch.set_num_threads(1)
    if count > 1 or what.get("divided"):
        torch.distributed.init_process_group("gloo", init_method=f"file://{what['rendezvous']}", rank=rank, world_size=count)
    model = model_of(what["kind"])
    if fault == "weights" and rank == 1:
        with torch.no_grad():
            next(model.parameters()).add_(1)
    if fault == "unclipped" and rank == 1:
        model.add_module("more", torch.nn.Linear(1, 1))
    if what.get("divided"):
        from torch.distributed.fsdp import MixedPrecisionPolicy

        divide(model, **({"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)} if fault == "policy" else {}))
    training = dp.private(model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05), minsep.Run(what["run"]), loss=loss_of, **what["options"])
    if fault in ("double", "missing"):
        processes = training._processes
        real = minsep._session.read_noise

        def other(*given, shard, shards, **named):
            return real(*given, shard=0 if fault == "double" else shard, shards=shards if fault == "double" else count + 1, **named)

        minsep._session.read_noise = other
        assert processes.count == count
    if what["kind"] == "one":
        one_more(training)
        return
    training.load(what["checkpoint"])
    for batch in training.loader(data_of(what["kind"])):
        step = training.guard.next_step
        if step == what.get("until"):
            break
        if fault == "sum" and step == 1:
            batch = [x[:0] for x in batch] if rank == 1 else batch
        if fault == "shapes" and rank == 1:
            batch = [x.double() for x in batch]
        if fault == "backward":
            training.make_gradients(*batch)
            loss_of(model, *(x[:1] for x in data_of(what["kind"])[:2])).backward()
            training.optimizer.step()
        training.step(*batch)
        if what.get("kill") is None or step < what["kill"]:
            training.save(what["checkpoint"])
        elif step == what["kill"] + 2:
            os._exit(7)  # three steps that no checkpoint knows
        if what.get("divided") and step % 4 == 0:  # an evaluation, after which fully_shard leaves whole parameters in the model
            model(data_of(what["kind"])[:2][0])
    _sharded.reshard(model) if what.get("divided") else None
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole)).hexdigest()
    here = [p.to_local() if hasattr(p, "to_local") else p for p in [*model.parameters(), *(s["exp_avg"] for s in training.optimizer.state.values())]]
    print(json.dumps({"steps": training.guard.next_step, "weights": weights, "sums": [float(p.double().sum()) for p in whole], "width": training._session._reader.width, "held": sum(p.numel() for p in here)}), flush=True)
    training.close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def forked(what, rank, out, err):
    """One of the processes."""
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    os.environ.update(what["env"])
    main({**what, "rank": rank})


def together(what):
    """What each process printed, and its exit code."""
    files = [(tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")) for _ in range(what["count"])]
    running, codes, end = {}, {}, time.monotonic() + 300
    for rank, (out, err) in enumerate(files):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                forked(what, rank, out, err)
                code = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        running[pid] = rank
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > end:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
        else:
            time.sleep(0.02)
    found = []
    for rank, (out, err) in enumerate(files):
        out.seek(0), err.seek(0)
        lines = [line for line in out.read().splitlines() if line.startswith("{")]
        found.append((codes[rank], json.loads(lines[-1]) if lines else None, err.read()))
    return found


def prepare():
    """Imports what each process would import by itself: it takes seconds."""
    from minsep import _private
    import torch.distributed.fsdp
    import torch.distributed.tensor

    p = torch.nn.Parameter(torch.zeros(1))
    p.grad = torch.zeros(1)
    torch.optim.Adam([p]).step()
    assert _private.Private


if __name__ == "__main__":
    torch.set_num_threads(1)
    prepare()
    for given in sys.stdin:
        print(json.dumps(together(json.loads(given))), flush=True)
