"""Trains the same model with every mechanism, many times, and compares the losses.

Run directories come from the command minsep, with certified noise multipliers. Each training adds a line of JSON to the
results; those that are there already are not repeated.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib
import json
import os
import pathlib
import re
import shutil
import warnings
from typing import Any, Callable, NamedTuple

import training  # first: it sets the number of threads
import children
import digits
import genes
import numpy as np
import table
import texts

import minsep
from minsep import _command

STEPS = 200  # of every training on digits and texts

Plan = dict[str, Any]  # of `minsep run`, without privacy


def mechanism(scheme: str, kind: str, bands: int = 1, min_sep: int = 1, **more: Any) -> Plan:
    """A plan's scheme and strategy."""
    strategy = {"kind": kind} | ({"bands": bands} if kind != "identity" else {})
    return {"scheme": {"scheme": scheme, "steps": STEPS, "min_sep": min_sep} | more, "strategy": strategy}


def with_batch_size(plan: Plan, size: int) -> Plan:
    """The same with an expected batch size, which balls-in-bins has from its epoch."""
    return plan | {"scheme": plan["scheme"] | ({"batch_size": size} if plan["scheme"]["scheme"] != "balls-in-bins" else {})}


DIGITS_BATCH = 64
EPOCH = digits.EXAMPLES // DIGITS_BATCH
IMAGES_PER_OWNER = 2  # images 2 i and 2 i + 1 belong to owner i, where owners have several


def of_images(plan: Plan) -> Plan:
    """Each image is its own owner."""
    return with_batch_size(plan, DIGITS_BATCH) | {"examples": digits.EXAMPLES, "noise": {"coordinates": digits.COORDINATES}}


def of_owners(plan: Plan, sampled: bool = False) -> Plan:
    """Owners have two images; with sampled, owners take part in place of images, and bring both."""
    plan = with_batch_size(plan, DIGITS_BATCH // IMAGES_PER_OWNER if sampled else DIGITS_BATCH)
    if sampled:
        plan["scheme"] |= {"sample": "owners", "examples_per_owner": IMAGES_PER_OWNER}
    bound = {"max_examples_per_owner": IMAGES_PER_OWNER}
    return plan | {"graph": {"paths": ["digits.csv"]}, "bound": bound, "noise": {"coordinates": digits.COORDINATES}}


TEXTS_BATCH = 128


def of_texts(plan: Plan) -> Plan:
    """Texts take part, and bring two of their windows each time."""
    plan = with_batch_size(plan, TEXTS_BATCH)
    plan["scheme"] |= {"sample": "owners", "examples_per_owner": 2}
    return plan | {"graph": {"paths": ["texts.csv"]}, "bound": {"max_examples_per_owner": 32}, "noise": {"coordinates": texts.COORDINATES}}


GENES_SCHEMES = {  # batches of about 143; with k = 2 each article takes part half as often
    "one bound, k = 1": (1, {}, {"scheme": "epoch-min-sep", "min_sep": 16, "epoch_steps": 132}),
    "one bound, k = 1, random order": (1, {"order": "random"}, {"scheme": "epoch-min-sep", "min_sep": 16, "epoch_steps": 120}),
    "one bound, k = 2": (2, {}, {"scheme": "epoch-min-sep", "min_sep": 16, "epoch_steps": 238}),
    "rotation": (1, {}, {"scheme": "rotation", "epoch_steps": 125}),
    "rotation, random order": (1, {"order": "random"}, {"scheme": "rotation", "epoch_steps": 112}),
    "multi-owner, k = 2, not proven": (2, {}, {"scheme": "multi-owner", "min_sep": 16, "batch_size": 143}),
    "DP-SGD, k = 1": (1, {}, {"scheme": "poisson", "min_sep": 1, "prob": 0.00755}),
}
# A training without a certificate has the noise of this one of one example for each owner, which takes part with the probability that
# one of two examples does in multi-owner's batches: its published accounting (docs/formulas.md, F4.1) asks for a little more.
STAND_IN = {
    "examples": 17012, "scheme": {"scheme": "b-min-sep", "steps": genes.STEPS, "min_sep": 16, "prob": 0.00895, "cold": True},
}  # fmt: skip


def of_genes(k: int, bound: Plan, scheme: Plan) -> Plan:
    """Articles of the demo's graph that are not for tests; a bound keeps k of each gene."""
    strategy = {"kind": "identity"} if scheme["scheme"] == "poisson" else {"kind": "banded-toeplitz", "bands": 16}
    bound = {"max_examples_per_owner": k} | bound
    noise = {"coordinates": genes.COORDINATES}
    return {"graph": {"paths": ["genes.csv"]}, "bound": bound, "scheme": {"steps": genes.STEPS} | scheme, "strategy": strategy, "noise": noise}


# By epsilon. Strategies and min-seps are those with the least error of `minsep plan`, or close to it, in each scheme.
OF_IMAGES = {
    "DP-SGD, Poisson": dict.fromkeys((2, 8), mechanism("poisson", "identity")),
    "BandMF, cyclic Poisson": {2: mechanism("cyclic-poisson", "banded-toeplitz", 4, 4), 8: mechanism("cyclic-poisson", "banded-toeplitz", 8, 8)},
    "balls-in-bins": {2: mechanism("balls-in-bins", "bsr", 12, EPOCH), 8: mechanism("balls-in-bins", "banded-toeplitz", EPOCH, EPOCH)},
    "b-min-sep 4": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 4, 4)),
    "b-min-sep 8": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 8, 8)),
    "b-min-sep 16": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 16, 16)),
    "epoch-min-sep": {2: mechanism("epoch-min-sep", "bsr", 5, 5), 8: mechanism("epoch-min-sep", "bsr", 12, 12)},
}
OF_OWNERS = {
    "images: DP-SGD, Poisson": of_owners(mechanism("poisson", "identity")),
    "images: b-min-sep 8": of_owners(mechanism("b-min-sep", "bsr", 8, 8)),
    "owners: DP-SGD, Poisson": of_owners(mechanism("poisson", "identity"), sampled=True),
    "owners: b-min-sep 8": of_owners(mechanism("b-min-sep", "bsr", 8, 8), sampled=True),
    "owners: epoch-min-sep 8": of_owners(mechanism("epoch-min-sep", "bsr", 8, 8), sampled=True),
}
OF_TEXTS = {
    "DP-SGD, Poisson": dict.fromkeys((2, 8), mechanism("poisson", "identity")),
    "BandMF, cyclic Poisson": dict.fromkeys((2, 8), mechanism("cyclic-poisson", "banded-toeplitz", 8, 8, secret_partition=True)),
    "balls-in-bins": dict.fromkeys((2, 8), mechanism("balls-in-bins", "banded-toeplitz", 32, texts.OWNERS // TEXTS_BATCH)),
    "b-min-sep 8": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 8, 8)),
    "b-min-sep 16": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 16, 16)),
    "b-min-sep 32": dict.fromkeys((2, 8), mechanism("b-min-sep", "bsr", 32, 32)),
    "epoch-min-sep": {2: mechanism("epoch-min-sep", "bsr", 9, 9), 8: mechanism("epoch-min-sep", "bsr", 18, 18)},
}


def each(make: Callable[[Plan], Plan], mechanisms: dict[str, dict[int, Plan]]) -> dict[str, dict[int, Plan]]:
    return {name: {epsilon: make(plan) for epsilon, plan in plans.items()} for name, plans in mechanisms.items()}


class Program(NamedTuple):
    """A program, and what it is trained on."""

    module: str  # which has the function train
    packages: tuple[str, ...]  # of Python that it needs
    task: training.Task
    delta: float
    learning_rates: dict[int, float]  # by epsilon
    mechanisms: dict[str, dict[int, Plan]]  # by name and epsilon
    steps: int = STEPS
    samples: int = 100_000  # budget of each certificate


IMAGES, RATES = each(of_images, OF_IMAGES), {2: 1.0, 8: 2.0}
OWNERS = {name: dict.fromkeys((2, 8), plan) for name, plan in OF_OWNERS.items()}
GENES = {name: {8: of_genes(*how)} for name, how in GENES_SCHEMES.items()}
PROGRAMS = {
    "jax": Program("jax_digits", ("jax_privacy", "sklearn"), digits, 1e-4, RATES, IMAGES),
    "torch": Program("torch_digits", ("opacus", "sklearn"), digits, 1e-4, RATES, IMAGES),
    "owners": Program("owners_digits", ("sklearn",), digits, 1e-4, {2: 0.5, 8: 1.0}, OWNERS),
    "texts": Program("jax_texts", ("jax", "awscli"), texts, 1e-5, {2: 2.0, 8: 4.0}, each(of_texts, OF_TEXTS)),
    "genes": Program("genes_articles", ("pyarrow",), genes, 1e-5, {8: 4.0}, GENES, genes.STEPS, 1_000_000),
}


def is_proven(plan: Plan) -> bool:
    return bool(plan["scheme"]["scheme"] != "multi-owner")


class Runs:
    """Makes run directories, with keys and run ids that follow from the seed so that results can be made again.

    Keys that protect something come from `minsep keygen`.
    """

    def __init__(self, out: pathlib.Path, samples: int) -> None:
        self.out, self.samples, self._command = out, samples, os.path.abspath(_command.find())
        self._certified: set[str] = set()  # labels of certificates that this process has seen
        out.mkdir(parents=True, exist_ok=True)
        os.environ["XDG_STATE_HOME"] = str((out / "state").absolute())  # records of run ids, apart from the user's

    def make(self, program: str, name: str, epsilon: int, which: str, steps: int | None = None) -> pathlib.Path:
        """The run directory of one training with a mechanism, made afresh."""
        of = PROGRAMS[program]
        label = re.sub("[^A-Za-z0-9-]+", "-", f"{name}-epsilon-{epsilon}")
        if program in ("texts", "genes", "hf"):
            label = f"{program}-{label}"  # the programs of images have certificates in common
        if steps is not None and steps != of.steps:
            label = f"{label}-{steps}"
        certified, run = self.out / f"certificate-{label}", self.out / f"run-{label}-{which}"
        plan, privacy = of.mechanisms[name][epsilon], {"epsilon": epsilon, "delta": of.delta}
        plan = plan | {"scheme": plan["scheme"] | {"steps": steps or of.steps}}
        if "graph" in plan:
            self._write_edges(plan["graph"]["paths"][0])
        proven = is_proven(plan)
        claimed = plan if proven else {"strategy": plan["strategy"], "noise": plan["noise"]} | STAND_IN
        single = claimed.get("bound", {}).get("max_examples_per_owner", 1) == 1 or "sample" in plan["scheme"]  # one, or the mean of several
        without_samples = single and plan["scheme"]["scheme"] in ("poisson", "cyclic-poisson") and "secret_partition" not in plan["scheme"]
        budget = {} if without_samples else {"samples": self.samples}
        if label not in self._certified:
            with open(self.out / f"{certified.name}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # other programs may want the same certificate at the same time
                self._run(claimed | {"privacy": privacy | budget}, certified, label, "--until", "account")
            self._certified.add(label)
        shutil.rmtree(run, ignore_errors=True)
        if proven:
            self._run(plan | {"privacy": privacy | budget}, certified, label, "--again", run.name)
        else:
            self._by_stages(plan, certified, run, f"{label} {which}")
        return run

    def _write_edges(self, name: str) -> None:
        """Writes the table of examples and owners, once."""
        file = self.out / name
        if file.exists():
            return
        if name == "genes.csv":
            edges = genes.load().edges
        else:
            owners = texts.load().owners if name == "texts.csv" else np.arange(digits.EXAMPLES) // IMAGES_PER_OWNER
            edges = np.stack([np.arange(len(owners)), owners], axis=1)
        new = file.with_name(f"{name}.{os.getpid()}")
        new.write_text("example_id,owner_id\n" + "".join(f"{example},{owner}\n" for example, owner in edges.tolist()))
        os.replace(new, file)

    def _key(self, run: pathlib.Path, identity: str) -> str:
        """The name of a run directory's key file."""
        key = run.with_name(f"{run.name}.key")
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(hashlib.sha256(f"key of {identity}".encode()).digest())
        return key.name

    def _run(self, plan: dict[str, Any], run: pathlib.Path, identity: str, *more: str) -> None:
        key, file = self._key(run, identity), run.with_name(f"{run.name}.json")
        file.write_text(json.dumps(plan))
        command = [self._command, "run", file.name, "--key", key, "--out", run.name, "--quiet", *more]
        children.run(command, self.out)

    def _by_stages(self, plan: dict[str, Any], certified: pathlib.Path, run: pathlib.Path, identity: str) -> None:
        """Makes a run directory with the strategy and noise multiplier of a certificate that is for another sampler."""
        key = self._key(run, identity)
        scheme, steps = plan["scheme"], ["--steps", plan["scheme"]["steps"]]
        noise_multiplier = json.loads((certified / "certificate.json").read_text())["noise_multiplier"]
        shutil.copytree(certified / "strategy", run / "strategy")
        for stage in (
            ["bound", "--graph", *plan["graph"]["paths"], "--max-per-owner", plan["bound"]["max_examples_per_owner"]],
            ["form", "--bounded", run.name, "--scheme", scheme["scheme"], *steps, "--min-sep", scheme["min_sep"], "--batch-size", scheme["batch_size"]],
            ["noise", "--strategy", f"{run.name}/strategy/strategy.json", *steps, "--noise-multiplier", noise_multiplier, "--coordinates", plan["noise"]["coordinates"]],
        ):
            children.run([self._command, *map(str, stage), "--key", key, "--out", run.name, "--quiet"], self.out)


def train(runs: Runs, program: str, name: str, epsilon: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """One training, and what it gave."""
    of = PROGRAMS[program]
    path = runs.make(program, name, epsilon, f"{program}-{learning_rate}-{seed}")
    run = minsep.Run(path)
    verdict, proven = run.inspect(), is_proven(of.mechanisms[name][epsilon])
    if verdict.certified != proven or (proven and (run.epsilon, run.delta) != (epsilon, of.delta)):
        raise RuntimeError(f"{path}: {verdict.text}")
    strategy = json.loads((path / "strategy" / "strategy.json").read_text())
    progress = training.Progress(of.task, seed)
    with warnings.catch_warnings():
        if not proven:
            warnings.simplefilter("ignore", minsep.NotCertifiedWarning)
        importlib.import_module(of.module).train(str(path), progress, learning_rate)
    loss, accuracy = of.task.evaluate(progress.params)
    took_part = [run.batch(t) for t in range(run.steps)]
    examples = np.unique(np.concatenate([b.rows if isinstance(b, minsep.OwnerBatch) else b for b in took_part]))
    shutil.rmtree(path)
    return {
        "program": program, "mechanism": name, "epsilon": epsilon, "learning_rate": learning_rate, "seed": seed,
        "noise_multiplier": run.noise_multiplier,
        "noise_error": table.noise_error(strategy["toeplitz"], run.noise_multiplier, run.steps, run.expected_batch_size),
        "examples": len(examples), "loss": loss, "accuracy": accuracy, "curve": progress.curve,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for certificates, run directories and results.jsonl")
    parser.add_argument("--program", default="jax", choices=PROGRAMS)
    parser.add_argument("--epsilon", type=int, nargs="+", choices=[2, 8], help="default: all of the program")
    parser.add_argument("--mechanism", nargs="+", help="default: all of the program")
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0], help="multiples of the learning rate")
    parser.add_argument("--seeds", type=int, default=10, help="trainings with each mechanism (default: 10)")
    parser.add_argument("--samples", type=int, help="budget of each certificate (default: the program's)")
    flags = parser.parse_args()
    mechanisms = PROGRAMS[flags.program].mechanisms
    for name in flags.mechanism or []:
        if name not in mechanisms:
            parser.error(f"--mechanism {name!r}: must be one of {', '.join(map(repr, mechanisms))}")
    runs, file = Runs(flags.out, flags.samples or PROGRAMS[flags.program].samples), flags.out / "results.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    identity = lambda r: (r["program"], r["mechanism"], r["epsilon"], r["learning_rate"], r["seed"])
    done = {identity(r) for r in results}
    for factor in flags.factor:
        for seed in range(flags.seeds):
            for epsilon in flags.epsilon or PROGRAMS[flags.program].learning_rates:
                for name in flags.mechanism or mechanisms:
                    one = flags.program, name, epsilon, factor * PROGRAMS[flags.program].learning_rates[epsilon], seed
                    if one not in done:
                        results.append(train(runs, *one))
                        with file.open("a") as f:
                            f.write(json.dumps(results[-1]) + "\n")
    print(table.markdown(results))


if __name__ == "__main__":
    main()
