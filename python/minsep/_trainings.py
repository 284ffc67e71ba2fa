"""Records of trainings: files that one process at a time holds."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
import warnings
from typing import Any

from . import _records
from .errors import TrainingError

RECORD_NAME, RECORD_FORMAT = "training.json", "minsep-training/1"
STATE_FOLDER = "trainings"  # of the records on this machine, below that of run ids
_DIGITS = 16
_TOKEN = re.compile(r"[0-9a-f]{32}")

NEXT = "make the plan's next run, with new batches and noise: `minsep run --again PLAN.json`, or `minsep run` with another --out"


def on_this_machine(run_id: str) -> str | None:
    """The path of the record outside of run directories, which tells of a training in copies as
    well; None where no home is known."""
    folder = _records.state_folder()
    return None if folder is None else os.path.join(folder, STATE_FOLDER, run_id + ".json")


_DAMAGED = (
    "{}: is not a record of a training, or was cut or emptied, and whether a training has used this noise cannot be seen. The records of a training are alike: put a copy of the other one in its place, of "
    f"{RECORD_NAME} or of {STATE_FOLDER} below $XDG_STATE_HOME/minsep, by default ~/.local/state/minsep; if no training of this run began, remove it; else {NEXT}"
)
_NO_FILE = "{}: is a link, a folder or something else that is no file, and a record of the training is kept there: move it elsewhere"
_held: set[tuple[int, int]] = set()  # files that this process has locked


class Lock:
    """A file that one process at a time holds. BlockingIOError where another one does, or this one."""

    def __init__(self, path: str, wait: bool = False) -> None:
        self.path, self._id = path, (-1, -1)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            self._lock(wait)
        except BaseException:
            os.close(self._fd)
            self._fd = -1
            raise
        found = os.fstat(self._fd)
        self._id = found.st_dev, found.st_ino
        _held.add(self._id)

    def _lock(self, wait: bool) -> None:
        try:
            import fcntl
        except ImportError:  # nothing keeps two processes apart there
            return
        tries = 20 if wait else 1  # a process that looks whether another one holds it has it for an instant
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                tries -= 1
                if tries == 0:
                    raise
                time.sleep(0.05)
            except OSError as err:
                if err.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
                    raise
                warnings.warn(f"{self.path}: no file can be locked there ({err.strerror}), so that two trainings that begin there at once are noticed at their next steps only, if at all: begin only one", stacklevel=7)
                return

    def close(self) -> None:
        if self._fd >= 0:
            _held.discard(self._id)
            os.close(self._fd)
            self._fd = -1


class Record(Lock):
    """A record of a training: its token, "" where there is none or it is of another run, and the
    number of steps taken.

    A file that is empty was emptied: a new one tells of no run.
    """

    def __init__(self, path: str, run_id: str) -> None:
        try:
            _make(path)
            super().__init__(path)
        except BlockingIOError:
            if _is_held(path):
                raise TrainingError(f"{path}: a StepGuard of this process holds it: go on with that one; to resume from a checkpoint, call its close() first; for another training, {NEXT}") from None
            raise TrainingError(f"{path}: another process of this training holds it: stop that process, or wait for its end; on several hosts, give each its rank and the number of ranks") from None
        except OSError:
            if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
                raise TrainingError(_NO_FILE.format(path)) from None
            raise
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise TrainingError(_NO_FILE.format(path))
        self.run_id, self.token, self.taken = run_id, "", 0
        try:
            text = os.pread(self._fd, 4096, 0).decode("utf-8", "replace")
            found = parse(json.loads(text))
            if found is None:
                raise ValueError
            if found[0] == run_id:
                _, self.token, self.taken = found
        except ValueError:
            self.close()
            raise TrainingError(_DAMAGED.format(path)) from None

    def _read(self) -> tuple[str, str, int] | None:
        try:
            return parse(json.loads(os.pread(self._fd, 4096, 0).decode("utf-8", "replace")))
        except (OSError, ValueError):
            return None

    def write(self, token: str, taken: int) -> None:
        """Writes the record in place, always of the same length."""
        found = self._read()
        if found is not None and found[0] == self.run_id and found[1] != self.token:  # where files are not locked
            raise TrainingError(f"{self.path}: another training has begun since, perhaps on another host, and the noise must not hide two trainings. Go on with one of them; for the other, {NEXT}")
        self.token = token
        data = _encoded(self.run_id, token, taken)
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))
        if taken <= 1:  # that there is a training outlives a loss of power; of later steps the last may be lost with it
            os.fsync(self._fd)
            _sync_folder(os.path.dirname(self.path) or ".")


def _encoded(run_id: str, token: str, taken: int) -> bytes:
    return json.dumps({"format": RECORD_FORMAT, "run_id": run_id, "token": token, "taken": f"{taken:0{_DIGITS}d}"}).encode() + b"\n"


def _make(path: str) -> None:
    """Makes a record that tells of no run, where there is no file: whole at once, unless the file
    system knows no links."""
    if os.path.lexists(path):
        return
    none = _encoded("0" * 32, "0" * 32, 0)
    fresh = os.path.join(os.path.dirname(path), f".minsep-tmp-training-{secrets.token_hex(8)}")
    try:
        _write_new(fresh, none)
        try:
            os.link(fresh, path)
        except FileExistsError:
            raise
        except OSError:
            _write_new(path, none)
    except FileExistsError:  # of another process, which was first
        pass
    finally:
        with contextlib.suppress(OSError):
            os.unlink(fresh)


def _write_new(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def no_link(folder: str) -> str:
    """A folder in which a training keeps files; TrainingError where it is a link, through which
    nothing is written."""
    if os.path.islink(folder):
        raise TrainingError(f"{folder}: is a link, and a training writes nothing through a link: remove it")
    return folder


def _sync_folder(path: str) -> None:
    """Makes a new file's name as durable as its content, where the system has such."""
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        pass


def read(path: str) -> tuple[str, str, int] | None:
    """Run id, token and steps of a record; None where there is no file. TrainingError for one that
    is there and is no record."""
    try:
        found = parse(_records._json(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        found = None
    if found is None:
        raise TrainingError(_DAMAGED.format(path))
    return found


def tells_of(path: str, run_id: str) -> bool:
    """Whether a file is a guard's record of the run. One that is there and is no record counts as
    one."""
    try:
        record = read(path)
    except TrainingError:
        return True
    return record is not None and record[0] == run_id


def _is_held(path: str) -> bool:
    found = os.stat(path)
    return (found.st_dev, found.st_ino) in _held


def parse(record: Any) -> tuple[str, str, int] | None:
    """Run id, token and steps of a record; None for what is none."""
    try:
        taken = int(record["taken"])
        if record["format"] == RECORD_FORMAT and isinstance(record["run_id"], str) and _TOKEN.fullmatch(record["token"]) and taken >= 0:
            return record["run_id"], record["token"], taken
    except (ValueError, KeyError, TypeError):
        pass
    return None
