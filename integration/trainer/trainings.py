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
import re
import shutil
import subprocess
from typing import Any

import digits
import table

import minsep
from minsep import _command

STEPS, BATCH_SIZE, DELTA = 200, 64, 1e-4
EPOCH = digits.EXAMPLES // BATCH_SIZE
PER_OWNER = 2  # images 2 i and 2 i + 1 belong to owner i, where owners have several

# The programs by name, with the Python package that each needs, and a learning rate by epsilon.
PROGRAMS = {"jax": "jax", "torch": "opacus", "owners": "numpy"}
LEARNING_RATES = {"jax": {2: 1.0, 8: 2.0}, "torch": {2: 1.0, 8: 2.0}, "owners": {2: 0.5, 8: 1.0}}


def mechanism(scheme: str, kind: str, bands: int = 1, min_sep: int = 1) -> dict[str, Any]:
    """A plan's parts but privacy, with a scheme for the given min-sep and a strategy of so many bands."""
    strategy = {"kind": kind} | ({"bands": bands} if kind != "identity" else {})
    size = {} if scheme == "balls-in-bins" else {"batch_size": BATCH_SIZE}  # the epoch says it
    return {
        "examples": digits.EXAMPLES, "scheme": {"scheme": scheme, "steps": STEPS, "min_sep": min_sep} | size, "strategy": strategy,
        "noise": {"coordinates": digits.COORDINATES},
    }  # fmt: skip


def of_owners(plan: dict[str, Any], sampled: bool = False) -> dict[str, Any]:
    """The same for owners of several images: with sampled, owners take part in place of images, and bring all that they have."""
    plan = plan | {"graph": {"paths": ["edges.csv"]}, "bound": {"max_examples_per_owner": PER_OWNER}}
    del plan["examples"]
    if sampled:
        plan["scheme"] = plan["scheme"] | {"sample": "owners", "examples_per_owner": PER_OWNER, "batch_size": BATCH_SIZE // PER_OWNER}
    return plan


# account's own search ended at 1.65 with 20,000 samples; a little more than the estimate of `minsep plan` is certified in seconds.
BALANCED = {"noise_multiplier": 1.38, "samples": 20000}

# By epsilon: strategies and min-seps are those with the least error of `minsep plan`, or close to it, in each scheme.
OF_EXAMPLES = {
    "DP-SGD, Poisson": dict.fromkeys((2, 8), mechanism("poisson", "identity")),
    "BandMF, cyclic Poisson": {2: mechanism("cyclic-poisson", "banded-toeplitz", 4, 4), 8: mechanism("cyclic-poisson", "banded-toeplitz", 8, 8)},
    "balls-in-bins": {2: mechanism("balls-in-bins", "bsr", 12, EPOCH), 8: mechanism("balls-in-bins", "banded-toeplitz", EPOCH, EPOCH)},
    "b-min-sep 4": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 4, 4)),
    "b-min-sep 8": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 8, 8)),
    "b-min-sep 16": {2: mechanism("b-min-sep", "bsr", 16, 16) | {"privacy": {"samples": 20000}}, 8: mechanism("b-min-sep", "bsr", 16, 16)},
    "epoch-min-sep": {2: mechanism("epoch-min-sep", "bsr", 5, 5), 8: mechanism("epoch-min-sep", "bsr", 12, 12)},
    "balanced-min-sep": {2: mechanism("balanced-min-sep", "bsr", 5, 5), 8: mechanism("balanced-min-sep", "bsr", 9, 9) | {"privacy": BALANCED}},
}
# Owners of two images, the same at both epsilon.
OF_OWNERS = {
    "images: DP-SGD, Poisson": of_owners(mechanism("poisson", "identity")),
    "images: b-min-sep 8": of_owners(mechanism("b-min-sep", "bsr", 8, 8)),
    "owners: DP-SGD, Poisson": of_owners(mechanism("poisson", "identity"), sampled=True),
    "owners: b-min-sep 8": of_owners(mechanism("b-min-sep", "bsr", 8, 8), sampled=True),
    "owners: epoch-min-sep 8": of_owners(mechanism("epoch-min-sep", "bsr", 8, 8), sampled=True),
}
# Plans without privacy, by program, mechanism and epsilon.
MECHANISMS = {"jax": OF_EXAMPLES, "torch": OF_EXAMPLES, "owners": {name: dict.fromkeys((2, 8), plan) for name, plan in OF_OWNERS.items()}}


class Runs:
    """Makes run directories, with keys and run ids that follow from the seed so that results can be made again.

    Keys that protect something come from `minsep keygen`.
    """

    def __init__(self, out: pathlib.Path, cpu_time: str) -> None:
        self.out, self.cpu_time, self._command = out, cpu_time, os.path.abspath(_command.find())
        out.mkdir(parents=True, exist_ok=True)
        edges = "".join(f"{image},{image // PER_OWNER}\n" for image in range(digits.EXAMPLES))
        (out / "edges.csv").write_text("example_id,owner_id\n" + edges)
        os.environ["XDG_STATE_HOME"] = str((out / "state").absolute())  # records of run ids, apart from the user's

    def make(self, program: str, name: str, epsilon: int, training: str) -> pathlib.Path:
        """The run directory of one training with a mechanism, made afresh."""
        label = re.sub("[^A-Za-z0-9-]+", "-", f"{name}-epsilon-{epsilon}")
        certified, run = self.out / f"certificate-{label}", self.out / f"run-{label}-{training}"
        plan, privacy = MECHANISMS[program][name][epsilon], {"epsilon": epsilon, "delta": DELTA}
        single = "examples" in plan or "sample" in plan["scheme"]  # one image, or one mean of them, for each owner
        without_samples = single and plan["scheme"]["scheme"] in ("poisson", "cyclic-poisson")
        budget = {} if without_samples else {"cpu_time": self.cpu_time}
        self._run(plan | {"privacy": privacy | plan.get("privacy", budget)}, certified, label, "--until", "account")
        shutil.rmtree(run, ignore_errors=True)
        self._run(plan | {"privacy": privacy | {"from": certified.name}}, run, f"{label} {training}")
        return run

    def _run(self, plan: dict[str, Any], run: pathlib.Path, identity: str, *more: str) -> None:
        key, file = run.with_name(f"{run.name}.key"), run.with_name(f"{run.name}.json")
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(hashlib.sha256(f"key of {identity}".encode()).digest())
        file.write_text(json.dumps(plan))
        run_id = hashlib.sha256(f"run of {identity}".encode()).hexdigest()[:32]
        command = [self._command, "run", file.name, "--key", key.name, "--out", run.name, "--run-id", run_id, "--quiet", *more]
        subprocess.run(command, check=True, cwd=self.out)


def train(runs: Runs, program: str, name: str, epsilon: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """One training, and what it gave."""
    path = runs.make(program, name, epsilon, f"{program}-{learning_rate}-{seed}")
    run = minsep.Run(path)
    verdict = run.verdict()
    if not verdict.certified or (run.epsilon, run.delta) != (epsilon, DELTA):
        raise RuntimeError(f"{path}: {verdict.text}")
    strategy = json.loads((path / "strategy" / "strategy.json").read_text())
    progress = digits.Progress(seed)
    importlib.import_module(f"{program}_digits").train(str(path), progress, learning_rate)
    loss, accuracy = digits.evaluate(progress.params)
    shutil.rmtree(path)
    return {
        "program": program, "mechanism": name, "epsilon": epsilon, "learning_rate": learning_rate, "seed": seed,
        "noise_multiplier": run.noise_multiplier,
        "noise_error": table.noise_error(strategy["toeplitz"], run.noise_multiplier, STEPS, run.expected_batch_size),
        "loss": loss, "accuracy": accuracy, "curve": progress.curve,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for certificates, run directories and results.jsonl")
    parser.add_argument("--program", default="jax", choices=PROGRAMS)
    parser.add_argument("--epsilon", type=int, nargs="+", default=[2, 8], choices=[2, 8])
    parser.add_argument("--mechanism", nargs="+", help="default: all of the program")
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0], help="multiples of the learning rate")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cpu-time", default="10s", help="budget of each certificate")
    flags = parser.parse_args()
    for name in flags.mechanism or []:
        if name not in MECHANISMS[flags.program]:
            parser.error(f"--mechanism {name!r}: must be one of {', '.join(map(repr, MECHANISMS[flags.program]))}")
    runs, file = Runs(flags.out, flags.cpu_time), flags.out / "results.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    identity = lambda r: (r["program"], r["mechanism"], r["epsilon"], r["learning_rate"], r["seed"])
    done = {identity(r) for r in results}
    for factor in flags.factor:
        for seed in range(flags.seeds):
            for epsilon in flags.epsilon:
                for name in flags.mechanism or MECHANISMS[flags.program]:
                    training = flags.program, name, epsilon, factor * LEARNING_RATES[flags.program][epsilon], seed
                    if training not in done:
                        results.append(train(runs, *training))
                        with file.open("a") as f:
                            f.write(json.dumps(results[-1]) + "\n")
    print(table.markdown(results))


if __name__ == "__main__":
    main()
