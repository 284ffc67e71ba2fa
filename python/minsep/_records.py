"""Records on this machine, outside of run directories: which directory a run id serves, and which
training."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from typing import Any

from ._run import RUN_NAME, Run

VARIABLE = "XDG_STATE_HOME"
MAX_RECORD = 1 << 20  # bytes
_RANGE = re.compile(r"(\d+)-(\d+)")  # of coordinates


def state_folder() -> str | None:
    """The folder of the user's records, which the command uses too; None where no home is known.
    ValueError for a relative one."""
    base = os.environ.get(VARIABLE, "")
    if base and not os.path.isabs(base):
        raise ValueError(f"{VARIABLE} {base}: must be an absolute path: records of trainings are kept there, and must be found from every folder; give the whole path, or unset it for ~/.local/state")
    base = base or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "minsep") if os.path.isabs(base) else None


def _json(path: str, most: int = MAX_RECORD) -> Any:
    """The content of a file of JSON. ValueError for what is none; OSError where it cannot be read."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        return json.loads(file.read(most))


def copy_of(run: Run) -> str | None:
    """The directory of which a run directory is a copy, with the same noise, as far as the
    command's records on this machine tell.

    That directory is there, and has or had the run id. The result is None for a directory that was
    moved, and without a record: on another machine, for another user, or while the run has no noise
    yet. A directory in an object store is not compared.
    """
    folder = state_folder()
    if folder is None or "://" in run.path:
        return None
    copied = None
    for path in _of_run(folder, run.run_id):
        try:
            recorded, params = _place(path)
        except (OSError, ValueError, KeyError, TypeError):  # damaged names it
            continue
        if not isinstance(recorded, str) or "://" in recorded or run._noise is not None and params != run._noise.params_digest:
            continue
        if same(recorded, run.path):
            return None
        if _has_had(recorded, run.run_id):
            copied = recorded
    return copied


def _of_run(folder: str, run_id: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(folder), "runs", "*", run_id + ".json"))


def _place(path: str) -> tuple[Any, Any]:
    record = _json(path)
    return record["directory"], record["params_sha256"]


def damaged(run: Run) -> list[str]:
    """The command's records of a run on this machine that are there and cannot be read: copy_of
    does not see what they told."""
    folder = state_folder()
    paths = []
    for path in [] if folder is None else _of_run(folder, run.run_id):
        try:
            _place(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError):
            paths.append(path)
    return paths


def streamed(run_id: str, first: int, end: int, mine: list[tuple[int, int]]) -> bool:
    """Whether coordinates [first, end) of a run's noise were read before without a guard, as far as
    this machine's records tell, also by `minsep noise --stream`; mine are the ranges that this
    process has read. From now on they were."""
    folder = _streams(run_id)
    if folder is None:
        return False
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        os.close(os.open(os.path.join(folder, f"{first}-{end}"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError:
        return True
    except OSError:  # nothing can be kept
        return False
    others = [(int(found[1]), int(found[2])) for name in os.listdir(folder) if (found := _RANGE.fullmatch(name))]
    return any(a < end and first < b for a, b in others if (a, b) != (first, end) and (a, b) not in mine)


def was_streamed(run_id: str) -> bool:
    """Whether any of a run's noise was read before without a guard, as far as this machine's
    records tell."""
    folder = _streams(run_id)
    try:
        return folder is not None and any(_RANGE.fullmatch(name) for name in os.listdir(folder))
    except OSError:
        return False


def _streams(run_id: str) -> str | None:
    folder = state_folder()
    return None if folder is None else os.path.join(folder, "streams", run_id)


def same(a: str, b: str) -> bool:
    """Whether two paths are of one folder."""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def _has_had(directory: str, run_id: str) -> bool:
    """Whether a directory is there and has a run id, or had it before. One that cannot be read
    counts as one that has it."""
    try:
        record = _json(os.path.join(directory, RUN_NAME), 64 << 20)
        return run_id in [record["run_id"], *record.get("earlier_run_ids", []), *record.get("replaced_run_ids", [])]
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return True
