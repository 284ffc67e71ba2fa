"""Trains the same model on digits with every mechanism, many times, and compares the losses.

Run directories come from the command minsep, with certified noise multipliers. Each training adds a line of JSON to the
results; those that are there already are not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

import digits

import minsep

FRAMEWORKS = ["jax"]
STEPS, BATCH_SIZE, DELTA = 200, 64, 1e-4
EPOCH = digits.EXAMPLES // BATCH_SIZE
LEARNING_RATES = {2: 1.0, 8: 2.0}  # by epsilon


def mechanism(scheme: str, kind: str, bands: int = 1, min_sep: int = 1) -> dict[str, Any]:
    """The parts scheme and strategy of a plan."""
    strategy = {"kind": kind} | ({"bands": bands} if kind != "identity" else {})
    size = {} if scheme == "balls-in-bins" else {"batch_size": BATCH_SIZE}  # the epoch says it
    return {"scheme": {"scheme": scheme, "steps": STEPS, "min_sep": min_sep} | size, "strategy": strategy}


# By epsilon: strategies and min-seps are those with the least error of `minsep plan`, or close to it, in each scheme.
MECHANISMS = {
    "DP-SGD, Poisson": dict.fromkeys((2, 8), mechanism("poisson", "identity")),
    "BandMF, cyclic Poisson": {2: mechanism("cyclic-poisson", "banded-toeplitz", 4, 4), 8: mechanism("cyclic-poisson", "banded-toeplitz", 8, 8)},
    "balls-in-bins": {2: mechanism("balls-in-bins", "bsr", 12, EPOCH), 8: mechanism("balls-in-bins", "banded-toeplitz", EPOCH, EPOCH)},
    "b-min-sep 4": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 4, 4)),
    "b-min-sep 8": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 8, 8)),
    "b-min-sep 16": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 16, 16)),
    "epoch-min-sep": {2: mechanism("epoch-min-sep", "bsr", 5, 5), 8: mechanism("epoch-min-sep", "bsr", 12, 12)},
    "balanced-min-sep": {2: mechanism("balanced-min-sep", "bsr", 5, 5), 8: mechanism("balanced-min-sep", "bsr", 9, 9)},
}


class Runs:
    """Makes run directories, with keys and run ids that follow from the seed so that results can be made again.

    Keys that protect something come from `minsep keygen`.
    """

    def __init__(self, out: pathlib.Path, cpu_time: str) -> None:
        self.out, self.cpu_time = out, cpu_time
        out.mkdir(parents=True, exist_ok=True)
        os.environ["XDG_STATE_HOME"] = str((out / "state").absolute())  # records of run ids, apart from the user's

    def make(self, name: str, epsilon: int, training: str) -> pathlib.Path:
        """The run directory of one training with a mechanism, made afresh."""
        label = f"{name.replace(', ', '-').replace(' ', '-')}-epsilon-{epsilon}"
        certified, run = self.out / f"certificate-{label}", self.out / f"run-{label}-{training}"
        plan = MECHANISMS[name][epsilon] | {"examples": digits.EXAMPLES, "noise": {"coordinates": digits.COORDINATES}}
        privacy = {"epsilon": epsilon, "delta": DELTA}
        budget = {} if plan["scheme"]["scheme"] in ("poisson", "cyclic-poisson") else {"cpu_time": self.cpu_time}
        self._run(plan | {"privacy": privacy | budget}, certified, label, "--until", "account")
        shutil.rmtree(run, ignore_errors=True)
        self._run(plan | {"privacy": privacy | {"from": str(certified)}}, run, f"{label} {training}")
        return run

    def _run(self, plan: dict[str, Any], out: pathlib.Path, identity: str, *more: str) -> None:
        key, file = self.out / f"{out.name}.key", self.out / f"{out.name}.json"
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(hashlib.sha256(f"key of {identity}".encode()).digest())
        file.write_text(json.dumps(plan))
        run_id = hashlib.sha256(f"run of {identity}".encode()).hexdigest()[:32]
        command = [os.environ.get("MINSEP_COMMAND", "minsep"), "run", file, "--key", key, "--out", out, "--run-id", run_id, "--quiet", *more]
        subprocess.run(command, check=True)


def train(runs: Runs, framework: str, name: str, epsilon: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """One training, and what it gave."""
    path = runs.make(name, epsilon, f"{framework}-{learning_rate}-{seed}")
    run = minsep.Run(path)
    verdict = run.verdict()
    if not verdict.certified or (run.epsilon, run.delta) != (epsilon, DELTA):
        raise RuntimeError(f"{path}: {verdict.text}")
    progress = digits.Progress(seed)
    importlib.import_module(f"{framework}_digits").train(str(path), progress, learning_rate)
    loss, accuracy = digits.evaluate(progress.params)
    shutil.rmtree(path)
    return {
        "framework": framework, "mechanism": name, "epsilon": epsilon, "learning_rate": learning_rate, "seed": seed, "noise_multiplier": run.noise_multiplier,
        "loss": loss, "accuracy": accuracy, "curve": progress.curve,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for certificates, run directories and results.jsonl")
    parser.add_argument("--framework", default="jax", choices=FRAMEWORKS)
    parser.add_argument("--epsilon", type=int, nargs="+", default=[2, 8], choices=[2, 8])
    parser.add_argument("--mechanism", nargs="+", default=list(MECHANISMS), choices=list(MECHANISMS))
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0], help="multiples of the learning rates 1 (epsilon 2) and 2 (epsilon 8)")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cpu-time", default="20s", help="budget of each certificate")
    flags = parser.parse_args()
    runs, file = Runs(flags.out, flags.cpu_time), flags.out / "results.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    identity = lambda r: (r["framework"], r["mechanism"], r["epsilon"], r["learning_rate"], r["seed"])
    done = {identity(r) for r in results}
    for factor in flags.factor:
        for seed in range(flags.seeds):
            for epsilon in flags.epsilon:
                for name in flags.mechanism:
                    training = flags.framework, name, epsilon, factor * LEARNING_RATES[epsilon], seed
                    if training not in done:
                        results.append(train(runs, *training))
                        with file.open("a") as f:
                            f.write(json.dumps(results[-1]) + "\n")
    import table

    print(table.markdown(results))


if __name__ == "__main__":
    main()
