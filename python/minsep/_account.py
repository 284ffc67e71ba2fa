"""The accountant and the planner of the command, as functions."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any, Sequence, Union

from . import _command
from .errors import NotCertifiedError

Flag = Union[str, int, float, bool, list[str]]


@dataclass(frozen=True)
class Account:
    """A verified claim: (epsilon, delta) at a noise multiplier, in units of the clip norm.

    certificate is the content of certificate.json. out is the run directory with it and its ledger,
    or None if it was not kept.
    """

    epsilon: float
    delta: float
    noise_multiplier: float
    certificate: dict[str, Any]
    out: str | None


def account(*, out: str | None = None, command: str | None = None, **flags: Flag) -> Account:
    """Runs `minsep account` with its flags as keywords: epsilon=8, min_sep=16,
    strategy="strategy.json", …

    out is the run directory for the certificate and its ledger. Without it, they are made in a
    temporary folder and dropped, and the next call draws samples again. Raises UsageError and
    NotVerifiedError with the command's words (exit codes 2 and 3), and NotCertifiedError for an
    accounting that is not proven.
    """
    arguments = ["account", *_arguments(flags)]
    if out is not None:
        result = _command.output([*arguments, f"--out={out}"], command)
    else:
        with tempfile.TemporaryDirectory(prefix="minsep-account-") as folder:
            result = _command.output([*arguments, f"--out={folder}/run"], command)
    certificate = result.get("certificate")
    if not certificate or certificate.get("status") != "verified":
        raise NotCertifiedError("minsep account: nothing was certified: a dry run, or an accounting that is not proven")
    return Account(float(certificate["epsilon"]), float(certificate["delta"]), float(certificate["noise_multiplier"]), certificate, out)


@dataclass(frozen=True)
class Candidate:
    """A way to train that `minsep plan` has ranked.

    noise_multiplier is proven, or estimated with the standard error noise_error. relative is the
    root mean square noise in the models of the training, or in the sums of another workload, in
    units of the batch. tied says that the candidate and the first one are equal within the errors
    of their estimates. row has everything that the command prints about it.
    """

    rank: int
    tied: bool
    scheme: str
    strategy: str
    noise_multiplier: float
    noise_error: float
    proven: bool
    relative: float
    row: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The result of `minsep plan`: candidates, the best first, and the reasons in words. It
    certifies nothing."""

    candidates: list[Candidate]
    why: list[str]


def plan(*, command: str | None = None, **flags: Flag) -> Plan:
    """Runs `minsep plan` with its flags as keywords: examples=50000, steps=1000,
    batch_size="128:1024", epsilon=8, …

    Raises UsageError with the command's words.
    """
    result = _command.output(["plan", *_arguments(flags)], command)
    return Plan([_candidate(row) for row in result["rows"]], list(result.get("why") or []))


@dataclass(frozen=True)
class Composition:
    """The joint guarantee of several trainings, against somebody who sees all that they released.

    protected says whom the claim protects, and notes has remarks on the runs. result has everything
    that `minsep compose` prints (docs/schemas/composition.schema.json).
    """

    epsilon: float
    delta: float
    trainings: int
    protected: str
    notes: list[str]
    result: dict[str, Any]


def compose(
    *runs: str | os.PathLike[str], delta: float | None = None, epsilon: float | None = None, times: int | Sequence[int] = 1, command: str | None = None
) -> Composition:
    """Runs `minsep compose` for run directories: epsilon of all trainings together at a delta, or
    delta at an epsilon.

    times is the number of trainings of each run: one number for all, or one for each. Raises
    UsageError with the command's words, for example for runs that share participations.
    """
    counts = [times] if isinstance(times, int) else list(times)
    folders = [os.fspath(run) for run in runs]
    arguments = ["compose", *[f"./{folder}" if folder.startswith("-") else folder for folder in folders], f"--times={','.join(map(str, counts))}"]
    if delta is not None:
        arguments.append(f"--delta={delta!r}")
    if epsilon is not None:
        arguments.append(f"--epsilon={epsilon!r}")
    result = _command.output(arguments, command)
    return Composition(
        float(result["epsilon"]), float(result["delta"]), int(result["trainings"]), result["protected"], list(result.get("notes") or []), result
    )  # fmt: skip


def _candidate(row: dict[str, Any]) -> Candidate:
    noise = row["noise"]
    return Candidate(
        int(row["rank"]), bool(row["tied"]), row["scheme"]["scheme"], row["strategy"]["kind"], float(noise["noise_multiplier"]),
        float(noise.get("std_err", 0)), bool(noise["proven"]), float(row["relative"]), row,
    )  # fmt: skip


def _arguments(flags: dict[str, Flag]) -> list[str]:
    """Keywords as flags: min_sep=16 is --min-sep=16, and True is a flag without a value. False and
    None leave a flag out."""
    arguments = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            arguments.append(flag if one is True else f"{flag}={one}")
    return arguments
