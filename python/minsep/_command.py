"""Runs the command `minsep`, and passes its words and numbers on."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Iterator, Sequence

from .errors import CommandError, MissingPackageError, NotVerifiedError, UsageError, printable

VARIABLE = "MINSEP_COMMAND"


def find(command: str | None = None) -> str:
    """The path of the command: the one given, or of the variable MINSEP_COMMAND, or the one that
    came with this package, or `minsep` on the PATH."""
    name = command or os.environ.get(VARIABLE) or _own() or "minsep"
    found = shutil.which(name)
    if found is None:
        raise MissingPackageError(
            f"command {name}: not found: install minsep from a wheel, which has the command in it, or build it with `make build` and"
            f" name it in {VARIABLE}"
        )
    return found


@functools.cache
def _own() -> str | None:
    """The command that was installed together with this package, if it has one."""
    return next((str(path) for path in _places() if os.access(path, os.X_OK)), None)


def _places() -> Iterator[pathlib.Path]:
    """Where an installer may have put the command: where it says so, else where scripts go, beside
    this package."""
    package = pathlib.Path(__file__).resolve().parent
    for installed in metadata.distributions(name="minsep"):
        if pathlib.Path(str(installed.locate_file("minsep"))).resolve() == package:
            for file in installed.files or []:
                if file.name == "minsep" and file.parent.name == "bin":
                    yield pathlib.Path(str(file.locate()))
            yield pathlib.Path(sysconfig.get_path("scripts"), "minsep")
            yield package.parent / "bin" / "minsep"  # pip install --target


def failure(stderr: str, code: int) -> CommandError:
    """The exception with the command's own words."""
    words = "\n".join(line[2:] if line.startswith("  ") else line for line in stderr.strip().splitlines())
    words = words.removeprefix("minsep: ") or f"minsep ended with exit code {code}"
    kind = {2: UsageError, 3: NotVerifiedError}.get(code, CommandError)
    return kind(words, code)


def output(arguments: Sequence[str], command: str | None = None, accept: Sequence[int] = (0,)) -> Any:
    """The output of the command with --json. A CommandError if it ends with a code that is not
    accepted, or prints nothing."""
    done = subprocess.run(
        [find(command), *arguments, "--json", "--log-level", "off"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode not in accept or not done.stdout.strip():
        raise failure(done.stderr, done.returncode)
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Verdict:
    """The verdict of `minsep inspect` on a run directory.

    state is "certified", "not certified" or "broken", and text is the verdict in one line. folders
    has every check, as `minsep inspect --json` prints it. taken says how often the training has taken
    its steps, as its record counts them, in the words of the command: "starts", "most", "repeated",
    "noise_multiplier"; None without a record.
    """

    state: str
    text: str
    folders: list[dict[str, Any]]
    taken: dict[str, Any] | None = None

    @property
    def certified(self) -> bool:
        """Whether every check holds and a verified certificate is there."""
        return self.state == "certified"


def inspect(path: str, command: str | None = None) -> Verdict:
    """The verdict on a run directory: every file is read, and the certificate is computed again
    from its ledger."""
    report = output(["inspect", path], command, accept=(0, 3))
    return Verdict(report["state"], printable(report["verdict"], ""), report["folders"], report.get("taken"))
