"""Run directories for the tests, made by the command `minsep`, once each and copied."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
import warnings

import minsep as package
from minsep import Run, _command, _hosts
from minsep.errors import NotCertifiedWarning

from .frozen import fixed

ROOT = pathlib.Path(tempfile.mkdtemp(prefix="minsep-python-"))
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)

# JAX compiles each program once for all processes of the tests.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
KEY = ROOT / "key"


_output = _command.output


def _without_own_samples(arguments, *more, **named):
    """Of the command: inspect draws samples of its own for five seconds."""
    own = ["--own-samples=0"] if arguments[0] == "inspect" else []
    return _output([*arguments, *own], *more, **named)


_command.output = _without_own_samples


def has(*packages: str) -> bool:
    """Whether packages, or modules of them, are installed."""
    return all(importlib.util.find_spec(".".join(p.split(".")[: i + 1])) is not None for p in packages for i in range(p.count(".") + 1))


def needs(*packages: str):
    """Skips a test by the name of a package that is not installed."""
    missing = [p for p in packages if not has(p)]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed")


def minsep(*arguments: object, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([_command.find(), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def key() -> pathlib.Path:
    if not KEY.exists():
        minsep("keygen", KEY)
    return KEY


def ids_of(kind: str, count: int) -> list:
    """count distinct ids in random order."""
    rng = random.Random(kind)
    numbers = rng.sample(range(-(10**12), 10**12), count)
    if kind == "text":
        return [f"é{n:x}"[: 1 + n % 13] + f"-{i}" for i, n in enumerate(numbers)]
    return numbers


@functools.cache
def _formed(kind: str, steps: int, shards: int, extra: tuple[str, ...]) -> pathlib.Path:
    name = f"{kind}-{steps}-{shards}-{abs(hash(extra))}"
    out = ROOT / name
    common = ["--steps", steps, "--min-sep", 3, "--batch-size", 6, "--shards", shards, "--key", key(), "--out", out, "--quiet", *extra]
    if kind == "numbered":
        minsep("form", "--examples", 90, "--scheme", "b-min-sep", *common)
        return out
    rng = random.Random(1)
    edges = ROOT / f"{name}.tsv"
    lines = [f"{e}\t{rng.randrange(70)}\n" for e in ids_of(kind, 100) for _ in range(rng.choice([1, 2]))]
    edges.write_text("example_id\towner_id\n" + "".join(lines))
    minsep("bound", "--graph", edges, "--max-per-owner", 2, "--key", key(), "--out", out, "--quiet")
    minsep("form", "--bounded", out, "--scheme", "b-min-sep", *common)
    return out


@functools.cache
def _owned(extra: tuple[str, ...]) -> pathlib.Path:
    """Owners with one to six examples each, of which up to three take part, in two shards."""
    out = ROOT / f"owned-{abs(hash(extra))}"
    edges = ROOT / f"{out.name}.tsv"
    edges.write_text("example_id\towner_id\n" + "".join(f"{e}\t{e // 6 if e % 7 else e // 6 + 1000}\n" for e in range(200)))
    minsep("bound", "--graph", edges, "--max-per-owner", 6, "--key", key(), "--out", out, "--quiet")
    minsep("form", "--bounded", out, "--scheme", "poisson", "--steps", 12, "--batch-size", 4, "--sample", "owners",
           "--examples-per-owner", 3, "--shards", 2, "--key", key(), "--out", out, "--quiet", *extra)  # fmt: skip
    (ROOT / "owned.json").unlink(missing_ok=True)
    minsep("strategy", "--kind", "identity", "--steps", 12, "--out", ROOT / "owned.json", "--quiet")
    if not extra:
        minsep("account", "--bounded", out, "--scheme", "poisson", "--steps", 12, "--batch-size", 4, "--sample", "owners",
               "--examples-per-owner", 3, "--strategy", ROOT / "owned.json", "--epsilon", 8, "--delta", 1e-3, "--out", out, "--quiet")  # fmt: skip
        minsep("noise", "--files", "--strategy", ROOT / "owned.json", "--steps", 12, "--coordinates", 5, "--key", key(), "--out", out, "--quiet")
    return out


RECIPE_ONLY = "recipe only"  # in the place of an argument: noise without files
BANDED = ("--kind", "banded-toeplitz", "--bands", "3", "--min-sep", "3")


@functools.cache
def _noisy(steps: int, coordinates: int, strategy: tuple[str, ...], extra: tuple[str, ...]) -> pathlib.Path:
    return make_noisy(ROOT / f"noisy-{abs(hash((steps, coordinates, strategy, extra)))}", steps, coordinates, strategy, extra)


def make_noisy(out: pathlib.Path, steps: int = 20, coordinates: int = 33, strategy: tuple[str, ...] = BANDED, extra: tuple[str, ...] = ()) -> pathlib.Path:
    shutil.copytree(_formed("numbers", steps, 1, ()), out)
    file = out.with_name(f"{out.name}.json")
    minsep("strategy", "--steps", steps, *strategy, "--out", file, "--quiet")
    first = 0
    while first < 2:  # a run directory of its own, with another run id; tests of the first step need examples
        shutil.rmtree(out / "batches")
        (out / "run.json").unlink()
        minsep("form", "--bounded", out, "--scheme", "b-min-sep", "--steps", steps, "--min-sep", 3, "--batch-size", 6, "--key", key(), "--out", out, "--quiet")
        first = len(Run(out).batch(0))
    extra = tuple(a for a in extra if a != RECIPE_ONLY) if RECIPE_ONLY in extra else ("--files", *extra)
    minsep("noise", "--strategy", file, "--noise-multiplier", "1.3", "--steps", steps, "--coordinates", coordinates,
           "--key", key(), "--out", out, "--quiet", *extra)
    return out


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=ROOT))
        own = warnings.catch_warnings()
        own.__enter__()
        self.addCleanup(own.__exit__, None, None, None)
        warnings.simplefilter("ignore", NotCertifiedWarning)  # most runs of the tests have no certificate

    def formed(self, kind: str = "numbers", steps: int = 20, shards: int = 3, *extra: str) -> pathlib.Path:
        """A run directory with batches, which the test may spoil."""
        return pathlib.Path(shutil.copytree(_formed(kind, steps, shards, extra), self.folder / "run"))

    def noisy(self, steps: int = 20, coordinates: int = 33, *extra: str, strategy: tuple[str, ...] = ()) -> pathlib.Path:
        """A run directory with batches and noise in its own place, which the test must not spoil."""
        return _noisy(steps, coordinates, strategy or BANDED, extra)

    def own_noisy(self, steps: int = 20, coordinates: int = 33, *extra: str) -> pathlib.Path:
        """A run directory with batches and noise of its own, for a training."""
        return make_noisy(self.folder / "own", steps, coordinates, BANDED, extra)

    def owned(self, *extra: str) -> pathlib.Path:
        """A run directory whose batches are of sampled owners, which the test must not spoil; with a certificate where there is no extra."""
        return _owned(extra)

    def copied(self, run: pathlib.Path) -> pathlib.Path:
        return pathlib.Path(shutil.copytree(run, self.folder / "copy", symlinks=True))


def agreeing(word):
    """An all-gather in which the other hosts agree with the one that asks, and host 0 has bytes for the steps that follow."""
    (host,) = _hosts.read(word)
    ahead = host.ahead
    if host.rank > 0:
        of = [ahead[i : i + _hosts.STEP_BYTES] for i in range(0, len(ahead), _hosts.STEP_BYTES)]
        ahead = b"".join(b if any(b) else bytes([i + 1]) * _hosts.STEP_BYTES for i, b in enumerate(of, host.step))
    return [dataclasses.replace(host, rank=rank, token=host.token or "7" * 32, ahead=ahead, parts=host.parts if rank == host.rank else ()).word() for rank in range(host.ranks)]


def recorded(run: Run) -> bytes:
    """The bytes of the steps of noise in files."""
    return b"".join(bytes.fromhex(b) for b in json.loads((pathlib.Path(run.path) / "noise" / "recipe.json").read_text())["step_bytes"])


def known(run: Run, state=None, **more):
    """A guard whose steps have the bytes of noise in files."""
    guard = package.StepGuard(run, state, **more)
    guard._bytes[:] = recorded(run)
    return guard


def bytes_of(run: Run):
    """The bytes of a step of noise in files, by its number."""
    steps = recorded(run)
    return lambda step: steps[_hosts.STEP_BYTES * step :][: _hosts.STEP_BYTES]


class Reader:
    """A reader of noise whose guard has taken the steps before start, with bytes that the test knows."""

    def __init__(self, run: Run, like=None, start: int = 0, steps: bytes | None = None, read=None, **more) -> None:
        steps = fixed(run.steps) if steps is None else steps
        taken = steps[: start * _hosts.STEP_BYTES]
        state = {"run_id": run.run_id, "token": "1" * 32, "steps": taken.hex(), "starts": {}, "layout": ""}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.guard = package.StepGuard(run, state, folder=tempfile.mkdtemp(dir=ROOT))
        self.guard._bytes[:] = steps
        try:
            self.noise = (read or package.read_noise)(run, like, guard=self.guard, **more)
        except BaseException:
            self.guard.close()
            raise

    def step(self, t: int):
        self.guard.take(t)
        return self.noise.step(t)

    def close(self) -> None:
        self.noise.close()
        self.guard.close()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def edit_index(folder: pathlib.Path, change) -> None:
    """Changes an index by a function, as somebody would who can also write the hash of its parameters."""
    path = folder / "index.json"
    index = json.loads(path.read_text())
    change(index)
    index["params_sha256"] = hashlib.sha256(json.dumps(index["params"], separators=(",", ":")).encode()).hexdigest()
    path.write_text(json.dumps(index))


def replace(folder: pathlib.Path, name: str, content: bytes) -> None:
    """Puts other content in place of a file, with the size and SHA-256 that the index then says."""
    (folder / name).write_bytes(content)

    def change(index):
        (entry,) = (f for f in index["files"] if f["name"] == name)
        entry["bytes"], entry["sha256"] = len(content), hashlib.sha256(content).hexdigest()

    edit_index(folder, change)
