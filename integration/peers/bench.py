"""Processor time of minsep beside jax_privacy, in turn, and of commands with a budget: the table of `make bench`.

What jax_privacy does too runs on one core, without start and compilation: of minsep it is the difference between a long and
a short run of a Go benchmark. A figure is the median of the rounds, a ratio that of neighbouring runs.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

ROUNDS = 3
COORDINATES = 1_000_000
FORM = "form --examples 1000000 --scheme b-min-sep --steps 1000 --min-sep 16 --batch-size 1024 --key key --quiet"
PRODUCTION = "--steps 7200 --min-sep 256 --batch-size 1793 --examples 14745600 --bands 256 --epsilon 10 --delta 1.301e-8"
ONE_PASS = "--scheme epoch-min-sep --steps 10000 --epoch-steps 10000 --min-sep 10000 --examples 10000000 --bands 16"
NOISE = "--steps 128 --strategy bands.json --noise-multiplier 1 --key key"
CLAIM = "--steps 1000 --min-sep 16 --batch-size 50 --examples 50000 --bands 16"


def root(bands: int) -> list[float]:
    """The first column of the banded square root of prefix sums."""
    column = [1.0]
    for j in range(1, bands):
        column.append(column[-1] * (1 - 0.5 / j))
    return column


# jax_privacy's side: each returns a function that does so many units of work


def sample(steps: int, bands: int, prob: float, sigma: float) -> Callable[[int], object]:
    import numpy as np
    from jax_privacy import batch_selection
    from jax_privacy.experimental.monte_carlo import sample_generation

    strategy = batch_selection.BMinSepSampling(sampling_prob=prob, iterations=steps, min_sep=bands)
    column, seed = np.array(root(bands)), np.random.default_rng(1)
    column /= np.linalg.norm(column)
    # A hundred at a time, which is faster than one by one.
    return lambda units: [sample_generation.get_privacy_loss_sample(strategy, sigma, column, seed=seed, num_samples=100) for _ in range(units // 100)]


def form(steps: int, min_sep: int, batch: float, examples: int) -> Callable[[int], object]:
    from jax_privacy import batch_selection

    prob = 1 / (examples / batch - min_sep + 1)
    strategy = batch_selection.BMinSepSampling(sampling_prob=prob, iterations=steps, min_sep=min_sep)
    return lambda units: [sum(len(rows) for rows in strategy.batch_iterator(examples, rng=seed)) for seed in range(units)]


def noise(bands: int) -> Callable[[int], object]:
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import toeplitz

    matrix = toeplitz.inverse_as_streaming_matrix(jnp.array(root(bands), jnp.float32))
    privatizer: Any = noise_addition.gaussian_privatizer(stddev=1.0, prng_key=1)
    if bands > 1:
        privatizer = noise_addition.matrix_factorization_privatizer(matrix, stddev=1.0, prng_key=1)
    zeros = jnp.zeros(COORDINATES, jnp.float32)
    update = jax.jit(privatizer.update, donate_argnums=1)
    state = privatizer.init(zeros)

    def work(units: int) -> None:
        nonlocal state
        for _ in range(units):
            row, state = update(zeros, state)
        jax.block_until_ready(row)

    return work


def peer(kind: str, numbers: list[float], warm: int, units: int) -> float:
    """CPU seconds of a unit of work by jax_privacy, in a process of its own."""
    out = subprocess.run([sys.executable, __file__, json.dumps([kind, numbers, warm, units])], check=True, capture_output=True, text=True)
    return float(out.stdout)


# minsep's side


def run(args: list[str], folder: str, given: bytes = b"") -> tuple[float, float, int, bytes]:
    """CPU seconds, peak in MB and the number of bytes that a command printed, with the first of them."""
    process = subprocess.Popen(args, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(given)
    process.stdin.close()
    printed, head = 0, b""
    while part := os.read(process.stdout.fileno(), 1 << 20):
        printed += len(part)
        head += part[: (1 << 20) - len(head)]
    fault = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(args)}: {fault}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, printed, head


def benchmark(program: str, pattern: str, units: int) -> float:
    """CPU seconds of an operation of a Go benchmark."""

    def seconds(times: int) -> float:
        cpu, _, _, head = run([f"{os.getcwd()}/{program}", "-test.run", "^$", "-test.cpu", "1", "-test.bench", pattern, "-test.benchtime", f"{times}x"], ".")
        assert b"ns/op" in head, f"{program} has no benchmark {pattern}"
        return cpu

    return (seconds(units) - seconds(1)) / (units - 1)


def beside(name: str, ours: Callable[[], float], theirs: Callable[[], float], figure: Callable[[float], str], bar: str) -> None:
    pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
    a, b = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(theirs / ours for ours, theirs in pairs)
    print(f"| {name} | {figure(a)} | {figure(b)} | {ratio:.3g} × | {bar} |", flush=True)


def main() -> None:
    minsep = f"{os.getcwd()}/bin/minsep"
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        run([minsep, "keygen", "key", "--quiet"], folder)
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        print("| work, one core | minsep | jax_privacy | ratio | bar |\n|---|---|---|---|---|")
        for steps, bands, prob, sigma in (7200, 256, 1.255e-4, 0.45), (1024, 16, 0.0204, 0.8), (1000, 32, 0.03, 1.0):
            go = 64 * 100 if steps < 7200 else 64 * 20  # a benchmark's operation is 64 samples
            beside(
                f"sample of P, {steps}/{bands}",
                lambda: benchmark("out/montecarlo.test", f"Losses/n={steps},b={bands}$", go // 64) / 64,
                lambda: peer("sample", [steps, bands, prob, sigma], 100, 1000),
                lambda seconds: f"{seconds * 1e6:.3g} µs",
                "28 ×",
            )
        beside(
            "batches of 1024 of 1e6, 16/1000",
            lambda: run([minsep, *FORM.split(), "--out", tempfile.mkdtemp(dir=folder) + "/run"], folder)[0],
            lambda: peer("form", [1000, 16, 1024, 1_000_000], 0, 1),
            lambda seconds: f"{seconds:.3g} s",
            "12 ×",
        )
        for bands, name, bar in (1, "iid", "4 ×"), (16, "bands=16", "14 ×"):
            beside(
                f"noise of 1e6 coordinates, {name}",
                lambda: benchmark("out/noise.test", f"Noise/^{name}$", 9) / 64,  # an operation is 64 rows
                lambda: peer("noise", [bands], 64, 64),
                lambda seconds: f"{COORDINATES / seconds / 1e6:.3g} M/s",
                bar,
            )
        os.sched_setaffinity(0, cores)
        print("\n| command | CPU-s | MB | result | bar |\n|---|---|---|---|---|")
        commands(minsep, folder)
    print(f"\n{(time.time() - begin) / 60:.1f} minutes")


def commands(minsep: str, folder: str) -> None:
    """The commands with a budget, each once."""
    path = pathlib.Path(folder)
    for name, flags, bar in (
        ("account, 16/1000, (1, 1e-5), 15 s", f"account {CLAIM} --epsilon 1 --delta 1e-5 --cpu-time 15s --out short", "17.5 s"),
        ("account, production, 10 s", f"account {PRODUCTION} --cpu-time 10s --out production", "σ .450"),
        ("account, eight an owner", f"account {CLAIM} --max-per-owner 8 --epsilon 8 --delta 1e-5 --out eight", "120 s"),
        ("dry run, one pass, (2, 1.1e-10)", f"account {ONE_PASS} --epsilon 2 --delta 1.1e-10 --dry-run --out pass", "3 s"),
        ("plan, 60 epochs of 50,000", "plan --examples 50000 --epochs 60 --batch-size 1024 --epsilon 2 --delta 1e-5", "15 s"),
        ("", "strategy --kind banded-toeplitz --bands 16 --steps 128 --out bands.json", ""),
        ("noise in files, 128 × 1e6", f"noise --files {NOISE} --coordinates 1000000 --out files", "110 M/s"),
        ("", f"noise {NOISE} --coordinates 100000000 --out streamed", ""),
        ("noise, a stream of 1/8 of 1e8", "noise --stream --shard 0/8 --key key --out streamed", "120 M/s, 300 MB"),
    ):
        stream = "--stream" in flags
        args = [minsep, *flags.split(), "--quiet"] + ([] if stream else ["--json"])
        cpu, peak, printed, head = run(args, folder, os.urandom(16 * 128) if stream else b"")
        if not name:
            continue
        result = ""
        if flags.startswith("account") and "--dry-run" not in flags:
            claim = json.loads(head).get("certificate") or {}
            result = f"σ {claim.get('noise_multiplier') or 'none'}"
        elif flags.startswith("noise"):
            values = printed / 4 if stream else sum(f.stat().st_size for f in path.glob("files/noise/**/*.npy")) / 4
            result = f"{values / cpu / 1e6:.3g} M/s"
        print(f"| {name} | {cpu:.3g} | {peak:.0f} | {result} | {bar} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kind, numbers, warm, units = json.loads(sys.argv[1])
        makers: dict[str, Callable[..., Callable[[int], object]]] = {"sample": sample, "form": form, "noise": noise}
        work = makers[kind](*numbers)
        work(warm)
        start = time.process_time()
        work(units)
        print((time.process_time() - start) / units)
    else:
        main()
