"""Runs the command `minsep`, and passes its words and numbers on."""

from __future__ import annotations

import functools
import html
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
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
    try:
        words = "\n".join(json.loads(next(line for line in stderr.splitlines() if line.startswith('{"error"')))["error"])
    except (StopIteration, TypeError, ValueError):  # of a command without --json
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


def watched(arguments: Sequence[str], command: str | None = None) -> Any:
    """The output of a command that takes long, with --json, while its messages go to the standard
    error of this process as they come. An interrupt stops the command first, once, so that what it
    has done is kept."""
    words = [find(command), *arguments, "--json"]
    lines: list[str] = []
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(line)
                if not line.startswith('{"error"'):
                    print(printable(line.removeprefix("minsep: "), "\n"), end="", file=sys.stderr, flush=True)
            printed = process.stdout.read()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if process.returncode != 0:
        raise failure("".join(lines), process.returncode)
    return json.loads(printed)


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

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.text)}</b></p>"


@dataclass(frozen=True)
class Page:
    """The page that `minsep report` has written to path, with its verdict in one line."""

    path: str
    verdict: str

    def _repr_html_(self) -> str:
        text = html.escape(pathlib.Path(self.path).read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{text}" width="100%" height="800" sandbox></iframe>'


def report(path: str, arguments: Sequence[str], command: str | None = None) -> Page:
    """Writes the page of a run directory, of a broken one too."""
    written = output(["report", path, *arguments], command, accept=(0, 3))
    return Page(written["page"], printable(written["verdict"], ""))


def inspect(path: str, command: str | None = None) -> Verdict:
    """The verdict on a run directory: every file is read, and the certificate is computed again
    from its ledger."""
    report = output(["inspect", path], command, accept=(0, 3))
    return Verdict(report["state"], printable(report["verdict"], ""), report["folders"], report.get("taken"))
