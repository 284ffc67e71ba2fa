"""Runs commands that end with this process, however that ends."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

# What the child runs first. On Linux it asks for SIGTERM when its parent ends (PR_SET_PDEATHSIG is 1), which lasts
# through exec; a parent that ended before is not its parent any more.
_FIRST = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""


def run(command: list[str], cwd: str | pathlib.Path) -> None:
    """Runs a command, which begins with a whole path, and raises where it fails. Elsewhere than on Linux it only ends with
    signals to the group of this process."""
    first = [sys.executable, "-c", _FIRST, str(os.getpid())] if sys.platform == "linux" else []
    subprocess.run([*first, *command], check=True, cwd=cwd)
