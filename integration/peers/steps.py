"""Processor time and memory of a training step, by minsep and by its peers in turn: the table of docs/background/comparison.md.

Each method is a process of its own. The loader, the noise, its process and the optimizer are counted; start, compilation and
the first steps are not. A row shows the median of the rounds, in milliseconds of user and system time a step, and the most
memory that a step takes beyond program, data and model.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Callable, Iterator

BATCH, EXAMPLES = 64, 2048
MODELS = "mlp", "cnn", "lora"
METHODS = {
    "torch": ["plain", "minsep", "minsep, microbatch 16", "minsep ghost", "opacus ghost", "opacus"],
    "jax": ["plain", "minsep", "minsep, microbatch None", "jax_privacy"],
}


def cpu(pid: str = "self") -> float:
    """Seconds of processor time of a process and its children that live."""
    found = 0.0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found += int((task / "schedstat").read_text().split()[0]) / 1e9
            found += sum(cpu(child) for child in (task / "children").read_text().split())
        except FileNotFoundError:  # it has ended
            pass
    return found


def memory(name: str) -> float:
    """VmRSS or VmHWM of this process, in MiB."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


# What is trained


def torch_problem(model: str) -> tuple[Any, Any, Any]:
    """A model, its data set, and the loss of a batch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (EXAMPLES,))
    cross_entropy = nn.functional.cross_entropy
    if model == "mlp":
        net: Any = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
        return net, torch.utils.data.TensorDataset(torch.randn(EXAMPLES, 64), labels), lambda net, x, y: cross_entropy(net(x), y)
    if model == "cnn":
        net = nn.Sequential(nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(800, 112), nn.ReLU(), nn.Linear(112, 10))
        return net, torch.utils.data.TensorDataset(torch.randn(EXAMPLES, 1, 28, 28), labels), lambda net, x, y: cross_entropy(net(x), y)
    import peft
    import transformers

    config = transformers.GPT2Config(n_layer=4, n_embd=128, n_head=4, vocab_size=1024, n_positions=32, attn_implementation="eager", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    net = peft.get_peft_model(transformers.GPT2LMHeadModel(config), peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True))
    words = torch.randint(0, 1024, (EXAMPLES, 32))
    return net, torch.utils.data.TensorDataset(words), lambda net, x: net(input_ids=x, labels=x).loss


def jax_problem(model: str) -> tuple[Any, Any, Any]:
    """Parameters, data, and the loss of an example."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    rng = np.random.default_rng(0)
    some = lambda *shape: jnp.asarray(rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]) or 1), jnp.float32)
    labels = rng.integers(0, 10, EXAMPLES)
    if model == "mlp":
        sizes = 64, 256, 256, 10
        params: Any = [{"w": some(a, b), "b": jnp.zeros(b)} for a, b in zip(sizes, sizes[1:])]

        def net(params: Any, x: Any) -> Any:
            for layer in params[:-1]:
                x = jax.nn.relu(x @ layer["w"] + layer["b"])
            return x @ params[-1]["w"] + params[-1]["b"]

        data = rng.standard_normal((EXAMPLES, 64)).astype(np.float32), labels
    else:
        params = {"a": some(5, 5, 1, 16), "b": some(3, 3, 16, 32), "c": some(800, 112), "d": some(112, 10)}

        def net(params: Any, x: Any) -> Any:
            for name in "ab":
                x = jax.nn.relu(jax.lax.conv_general_dilated(x[None], params[name], (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0])
            return jax.nn.relu(x.reshape(-1) @ params["c"]) @ params["d"]

        data = rng.standard_normal((EXAMPLES, 28, 28, 1)).astype(np.float32), labels
    return params, data, lambda params, x, y: optax.softmax_cross_entropy_with_integer_labels(net(params, x), y)


# Methods: each gives an endless iterator, of which a step is taken by next


def microbatch(method: str) -> dict[str, int | None]:
    """The option, if a method is named with one."""
    return {"microbatch": None if method.endswith("None") else int(method.split()[-1])} if "microbatch" in method else {}


def torch_steps(method: str, model: str, run_of: Callable[[int], Any]) -> Iterator[None]:
    import torch

    net, data, loss = torch_problem(model)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01)
    if method.startswith("minsep"):
        import minsep.torch as dp

        run = run_of(sum(p.numel() for p in trained))
        training = dp.private(net, optimizer, run, loss=loss, key=pathlib.Path(run.path) / "../key", clipping="ghost" if "ghost" in method else "example", **microbatch(method))
        yield
        for batch in training.loader(data):
            training.step(*batch)
            yield
    elif method.startswith("opacus"):
        import opacus

        engine = opacus.PrivacyEngine(accountant="rdp")
        loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
        net.train()
        given = dict(module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
        if "ghost" in method:  # which clips by a loss of its own, of outputs and labels
            given |= dict(criterion=torch.nn.CrossEntropyLoss(), grad_sample_mode="ghost")
            net, optimizer, criterion, loader = engine.make_private(**given)
            loss = lambda net, x, *y: criterion(net(x), *y) if y else criterion(net(x).logits[:, :-1].flatten(0, 1), x[:, 1:].flatten(), shape=x[:, 1:].shape)
        else:
            net, optimizer, loader = engine.make_private(**given)
        yield
        while True:
            for batch in loader:
                optimizer.zero_grad()
                loss(net, *batch).backward()
                optimizer.step()
                yield
    else:
        yield
        while True:
            for batch in torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True):
                optimizer.zero_grad()
                loss(net, *batch).backward()
                optimizer.step()
                yield


def jax_steps(method: str, model: str, run_of: Callable[[int], Any]) -> Iterator[None]:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    params, data, loss = jax_problem(model)
    optimizer = optax.sgd(0.01)
    count = sum(p.size for p in jax.tree_util.tree_leaves(params))
    if method.startswith("minsep"):
        import minsep.jax as dp

        run = run_of(count)
        training = dp.private(loss, optimizer, run, key=pathlib.Path(run.path) / "../key", pad_to=16, **microbatch(method))
        state = training.init(params)
        yield
        for batch in training.batches(*data):
            state = training.step(state, *batch)
            jax.block_until_ready(state.params)
            yield
    rng, state = np.random.default_rng(1), optimizer.init(params)
    if method == "jax_privacy":
        from jax_privacy import clipping, noise_addition

        gradient = jax.jit(clipping.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2), normalize_by=BATCH, keep_batch_dim=False))
        privatizer = noise_addition.gaussian_privatizer(stddev=1.0 / BATCH, prng_key=jax.random.key(1))
        held = privatizer.init(params)
        noisy = jax.jit(privatizer.update)
    else:
        gradient = jax.jit(jax.grad(lambda params, x, y, is_padding_example: jnp.mean(jax.vmap(loss, (None, 0, 0))(params, x, y) * ~is_padding_example)))
    update = jax.jit(lambda params, state, mean: (optax.apply_updates(params, optimizer.update(mean, state)[0]), state))
    yield
    while True:
        rows = np.flatnonzero(rng.random(EXAMPLES) < BATCH / EXAMPLES)
        padding = np.arange(len(rows) + -len(rows) % 16) >= len(rows)
        rows = np.append(rows, np.zeros(padding.sum(), np.int64))
        mean = gradient(params, *(x[rows] for x in data), is_padding_example=padding)
        if method == "jax_privacy":
            mean, held = noisy(mean, held)
        params, state = update(params, state, mean)
        jax.block_until_ready(params)
        yield


def worker(package: str, method: str, model: str, folder: pathlib.Path) -> None:
    def run_of(coordinates: int) -> Any:
        import minsep

        minsep_("noise", "--strategy", folder / "strategy.json", "--noise-multiplier", 1, "--steps", 500, "--coordinates", coordinates,
            "--clip-norm", 1, "--key", folder / "key", "--out", folder / "run")  # fmt: skip
        return minsep.Run(folder / "run").join(range(EXAMPLES))

    def minsep_(*arguments: Any) -> None:
        subprocess.run(["minsep", *map(str, arguments), "--quiet"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    subprocess.run(["minsep", "keygen", str(folder / "key")], check=True, stdout=subprocess.DEVNULL)
    minsep_("strategy", "--kind", "identity", "--steps", 500, "--out", folder / "strategy.json")
    minsep_("form", "--examples", EXAMPLES, "--scheme", "poisson", "--steps", 500, "--batch-size", BATCH, "--key", folder / "key", "--out", folder / "run")
    steps = {"torch": torch_steps, "jax": jax_steps}[package](method, model, run_of)
    next(steps)
    before = memory("VmRSS")
    for line in sys.stdin:
        count = int(line)
        begin = cpu()
        for _ in range(count):
            next(steps)
        print(json.dumps([1e3 * (cpu() - begin) / count, memory("VmHWM") - before]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=METHODS)
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn"], choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a round")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.package, options.worker[0], options.worker[1], pathlib.Path(options.worker[2]))
        return
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            workers = {}
            for i, method in enumerate(METHODS[options.package]):
                own = pathlib.Path(folder) / str(i)
                own.mkdir()
                command = [sys.executable, __file__, options.package, "--worker", method, model, str(own)]
                workers[method] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            rounds = []
            for count in [options.steps, *[options.steps] * options.rounds]:  # the first is not counted
                found = {}
                for method, process in workers.items():
                    assert process.stdin is not None and process.stdout is not None
                    process.stdin.write(f"{count}\n")
                    process.stdin.flush()
                    found[method] = json.loads(process.stdout.readline())
                rounds.append(found)
            for process in workers.values():
                process.communicate()
        peer = METHODS[options.package][-1]
        print(f"\n| {model} | CPU ms a step | to {peer} | memory, MiB |\n|---|---|---|---|")
        for method in workers:
            times = [found[method][0] for found in rounds[1:]]
            ratio = statistics.median(found[method][0] / found[peer][0] for found in rounds[1:])
            print(f"| {method} | {statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f}) | {ratio:.2f} | {rounds[-1][method][1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
