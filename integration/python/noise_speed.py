"""Values of noise a processor-second: of the command's stream, of device_noise in JAX and PyTorch, and of jax_privacy, in one run.

    noise_speed.py --command bin/minsep --jax .venv-jax/bin/python --torch .venv-hf/bin/python

Makers take turns, on one processor each, and a line has the median of the rounds with the least and the largest. Compilation and the first two
steps are not counted; of the stream everything is. jax_privacy makes float32 by Threefry, adds a sum of gradients, and is given the same coefficients.
A Python that is left out, or has no such package, is skipped.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, COORDINATES = 64, 1 << 20
STRATEGIES = {
    "identity": ("--kind", "identity"),
    "banded, 16 bands": ("--kind", "banded-toeplitz", "--bands", "16", "--min-sep", "16"),
    "inverse-banded, 4": ("--kind", "bisr", "--bands", "4"),
    "BLT, 3 buffers": ("--kind", "blt", "--buffers", "3"),
}
SIGMA = 1.3


def stream(command, folder):
    """The command alone, its rows thrown away."""
    arguments = [command, "noise", "--stream", "--key", folder / "key", "--out", folder / "run"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull, "wb") as nowhere:
        subprocess.run(list(map(str, arguments)), check=True, input=bytes(16 * STEPS), stdout=nowhere, stderr=nowhere, env={**os.environ, "GOMAXPROCS": "1", "GODEBUG": "asyncpreemptoff=1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return STEPS * COORDINATES / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def timed(step, first, count=4):
    """The values a second of a function that makes the noise of a step and waits for it."""
    begin = time.process_time()
    for t in range(first, first + count):
        step(t)
    return count * COORDINATES / (time.process_time() - begin)


def recipe(folder):
    import minsep
    from minsep import _device

    return _device.open_recipe(minsep.Run(folder / "run"), folder / "key", lambda step: step.to_bytes(16, "big"))


def jax_device(folder):
    import jax
    from minsep import _jaxnoise

    with jax.enable_x64(True):
        leaf = _jaxnoise._Leaf(recipe(folder), (COORDINATES,), jax.sharding.SingleDeviceSharding(jax.devices()[0]), 0)

    def step(t):
        with jax.enable_x64(True):
            leaf.step(t).block_until_ready()

    return step


def torch_device(folder, fuse=False):
    import torch
    from minsep import _torchnoise

    torch.set_num_threads(1)
    return _torchnoise._Leaf(recipe(folder), (COORDINATES,), torch.device("cpu"), 0, _torchnoise._fused() if fuse else _torchnoise._each).step


def torch_fused(folder):
    return torch_device(folder, True)


def jax_privacy(folder):
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix, toeplitz

    strategy = json.loads((folder / "strategy.json").read_text())
    if "blt" in strategy:
        built = buffered_toeplitz.BufferedToeplitz.build(strategy["blt"]["decays"], strategy["blt"]["scales"], jnp.float32)
        matrix = built.inverse_as_streaming_matrix()
    elif "inverse_toeplitz" in strategy:  # a row has as many coefficients, of normals that are made again
        c = jnp.array(strategy["inverse_toeplitz"], jnp.float32)
        matrix = sum(x * jnp.eye(STEPS, k=-i) for i, x in enumerate(c))
    elif strategy["kind"] == "identity":
        matrix = streaming_matrix.identity()
    else:
        matrix = toeplitz.inverse_as_streaming_matrix(jnp.array(strategy["toeplitz"], jnp.float32))
    privatizer = noise_addition.matrix_factorization_privatizer(matrix, stddev=SIGMA, prng_key=0)
    total = jnp.zeros(COORDINATES, jnp.float32)
    held = [privatizer.init(total)]
    update = jax.jit(privatizer.update, donate_argnums=1)

    def step(t):
        noisy, held[0] = update(total, held[0])
        noisy.block_until_ready()

    return step


MAKERS = {"minsep.jax.device_noise": (jax_device, "jax"), "jax_privacy": (jax_privacy, "jax"), "minsep.torch.device_noise": (torch_device, "torch"), "the same, fuse=True": (torch_fused, "torch")}


def work(maker):
    """Answers each folder on standard input by a rate: a worker's program is compiled once."""
    made = {}
    for line in sys.stdin:
        folder = pathlib.Path(line.strip())
        if folder not in made:
            made[folder] = [MAKERS[maker][0](folder), 0]
            for t in range(20):  # so that a strategy with state, or that draws earlier normals again, has all that it takes
                made[folder][0](t)
            made[folder][1] = 20
        step, first = made[folder]
        print(timed(step, first), flush=True)
        made[folder][1] += 4


def runs(command, folder):
    """A run directory with a recipe for each strategy."""
    for name, arguments in STRATEGIES.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()

        def call(*arguments):
            subprocess.run([command, *map(str, arguments), "--quiet"], check=True, stderr=subprocess.DEVNULL)

        call("keygen", place / "key")
        call("strategy", *arguments, "--steps", STEPS, "--out", place / "strategy.json")
        call("form", "--examples", 1000, "--scheme", "b-min-sep", "--steps", STEPS, "--min-sep", 16, "--batch-size", 32, "--key", place / "key", "--out", place / "run")
        call("noise", "--strategy", place / "strategy.json", "--noise-multiplier", SIGMA, "--steps", STEPS, "--coordinates", COORDINATES, "--words", "chacha12", "--recipe-only",
             "--key", place / "key", "--out", place / "run")  # fmt: skip
        yield name, place


def worker(maker, python):
    """A process that makes noise on one processor, or None where its packages are not there."""
    package = {"jax": "jax", "torch": "torch"}[MAKERS[maker][1]]
    needs = "jax_privacy" if maker == "jax_privacy" else package
    if python is None or subprocess.run([python, "-c", f"import {needs}"], stderr=subprocess.DEVNULL).returncode:
        print(f"{maker}: skipped: no Python with {needs}", file=sys.stderr)
        return None
    one = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([python, __file__, "--work", maker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **one})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="bin/minsep")
    parser.add_argument("--jax")
    parser.add_argument("--torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    workers = {maker: worker(maker, getattr(arguments, kind)) for maker, (_, kind) in MAKERS.items()}
    workers = {maker: process for maker, process in workers.items() if process is not None}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.environ["XDG_STATE_HOME"] = folder + "/state"
        for process in workers.values():
            stack.callback(process.kill)
        for name, place in runs(arguments.command, pathlib.Path(folder)):
            found = {}
            for _ in range(arguments.rounds):
                found.setdefault("minsep noise --stream", []).append(stream(arguments.command, place))
                for maker, process in workers.items():
                    process.stdin.write(f"{place}\n")
                    process.stdin.flush()
                    found.setdefault(maker, []).append(float(process.stdout.readline()))
            for maker, rates in found.items():
                print(f"{name:18} {maker:26} {statistics.median(rates) / 1e6:6.1f} ({min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f})", flush=True)


if __name__ == "__main__":
    main()
