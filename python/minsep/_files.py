"""Reads the files of a run directory without trusting them.

Local files are opened without waiting, must be regular files, and are mapped into memory. A path
with a scheme, such as `gs://bucket/run`, is read with fsspec, whole, into memory.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import stat
from typing import Any, Iterator, Mapping, NoReturn, Union

from .errors import MissingPackageError, RunDirectoryError

INDEX_NAME = "index.json"
INCOMPLETE_NAME = "incomplete.json"
MAX_TEXT = 64 << 20  # bytes of an index, a certificate or run.json

Buffer = Union[bytes, mmap.mmap]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_STRING_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+')


def is_digest(value: object) -> bool:
    """Whether a value is a SHA-256 as indexes have it: 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_run_id(value: object) -> bool:
    """Whether a value is a run id: 32 lower-case hexadecimal digits."""
    return isinstance(value, str) and _RUN_ID.fullmatch(value) is not None


def sha256(data: Buffer) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    with memoryview(data) as view:
        return hashlib.sha256(view).hexdigest()


def compact(text: str) -> str:
    """JSON text without the spaces between its tokens; nothing else changes."""
    return _STRING_OR_SPACE.sub(lambda m: m.group() if m.group()[0] == '"' else "", text)


def parse(text: str, where: str) -> Any:
    """Strict JSON. An object with the same name twice, in capitals or not, is refused, and so are
    NaN and infinities."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name.lower() for name, _ in pairs}) != len(pairs):
            raise ValueError("an object has a name twice")
        return dict(pairs)

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=constant)
    except (ValueError, RecursionError) as err:
        raise RunDirectoryError(f"{where}: is not JSON as minsep writes it: {err}") from None


def members(text: str) -> dict[str, str]:
    """The members of a JSON object that `parse` has accepted, each as its text."""
    decoder = json.JSONDecoder()
    found: dict[str, str] = {}
    at = text.index("{") + 1
    while True:
        at = _skip(text, at, " \t\r\n,")
        if text[at] == "}":
            return found
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, at, " \t\r\n:")
        _, end = decoder.raw_decode(text, at)
        found[name] = text[at:end]
        at = end


def _skip(text: str, at: int, characters: str) -> int:
    while text[at] in characters:
        at += 1
    return at


class Directory:
    """A run directory, or another folder, on this machine or in an object store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"run directory {path!r}: must be a path")
        if self.path.startswith("~"):
            raise ValueError(f"run directory {self.path}: Python does not replace ~: give os.path.expanduser of it, or ./~ for a folder of this name")
        self.remote = "://" in self.path
        if self.remote:
            self._fs, self._root = _filesystem(self.path)

    def where(self, name: str) -> str:
        """The path of a file in the directory."""
        return f"{self.path.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        if self.remote:
            return bool(self._fs.exists(f"{self._root}/{name}"))
        return os.path.exists(os.path.join(self.path, name))

    def read(self, name: str, size: int | None = None) -> Buffer:
        """The whole content of a file of exactly size bytes, or of at most MAX_TEXT bytes if size
        is None.

        Raises FileNotFoundError if there is no such file. The message has no size: the sizes of
        batches are secret.
        """
        try:
            return self._read_remote(name, size) if self.remote else self._read_local(name, size)
        except FileNotFoundError:
            raise
        except OSError as err:
            raise RunDirectoryError(f"{self.where(name)}: cannot be read: {err.strerror or err}") from err

    def _read_remote(self, name: str, size: int | None) -> bytes:
        path, most = f"{self._root}/{name}", MAX_TEXT if size is None else size
        with self._fs.open(path, "rb") as f:
            data: bytes = f.read(most + 1)
        self._check_size(name, len(data), size)
        return data

    def _read_local(self, name: str, size: int | None) -> Buffer:
        # Without waiting: a named pipe in place of a file must not hang the trainer.
        fd = os.open(os.path.join(self.path, name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise RunDirectoryError(f"{self.where(name)}: is not a regular file")
            self._check_size(name, info.st_size, size)
            if info.st_size == 0:
                return b""
            return mmap.mmap(fd, info.st_size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)

    def _check_size(self, name: str, have: int, want: int | None) -> None:
        if want is None and have > MAX_TEXT:
            raise RunDirectoryError(f"{self.where(name)}: is larger than {MAX_TEXT} bytes, the most for a text file of a run directory")
        if want is not None and have != want:
            raise RunDirectoryError(f"{self.where(name)}: its size differs from the size in the index")

    def text(self, name: str) -> tuple[str, str]:
        """A file of text, and its SHA-256."""
        data = bytes(self.read(name))
        try:
            return data.decode("utf-8"), sha256(data)
        except UnicodeDecodeError:
            raise RunDirectoryError(f"{self.where(name)}: is not UTF-8 text") from None


def _filesystem(path: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise MissingPackageError(f"run directory {path}: reading it needs fsspec, which is not installed") from None
    fs, root = fsspec.core.url_to_fs(path)
    return fs, str(root).rstrip("/")


class Folder:
    """A finished folder of a run directory: its index, and files that are compared with it when
    they are first read."""

    def __init__(self, directory: Directory, name: str, *formats: str) -> None:
        self.directory, self.name = directory, name
        where = directory.where(f"{name}/{INDEX_NAME}")
        if directory.exists(f"{name}/{INCOMPLETE_NAME}"):
            raise RunDirectoryError(f"{directory.where(name)}: the stage that writes this folder was stopped: run it again")
        try:
            text, self.digest = directory.text(f"{name}/{INDEX_NAME}")
        except FileNotFoundError:
            raise RunDirectoryError(f"{where}: is missing: the folder was removed, or copied in part") from None
        index = parse(text, where)
        self.format = index.get("format") if isinstance(index, dict) else None
        if not isinstance(index, dict) or self.format not in formats:
            raise RunDirectoryError(f"{where}: format {self.format!r}: this version reads {' and '.join(map(repr, formats))}")
        self.run_id: Any = index.get("run_id")
        self.params: Any = index.get("params")
        self.facts: Any = index.get("facts")
        self.inputs: Any = index.get("inputs", {})
        if not is_run_id(self.run_id) or not isinstance(self.params, dict) or not isinstance(self.facts, dict) or not isinstance(self.inputs, dict):
            raise RunDirectoryError(f"{where}: has no run id, params or facts")
        if sha256(compact(members(text)["params"]).encode()) != index.get("params_sha256"):
            raise RunDirectoryError(f"{where}: its params do not match its params_sha256")
        self.files = dict(self._files(index.get("files"), where))
        self._read: dict[str, Buffer] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which maps and compares the files itself."""
        return {**self.__dict__, "_read": {}}

    def _files(self, files: object, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not isinstance(files, list):
            raise RunDirectoryError(f"{where}: has no list of files")
        seen = set()
        for f in files:
            if not isinstance(f, dict) or not isinstance(f.get("name"), str) or type(f.get("bytes")) is not int or not is_digest(f.get("sha256")):
                raise RunDirectoryError(f"{where}: an entry of files does not have name, bytes and sha256")
            name = f["name"]
            if name in seen:
                raise RunDirectoryError(f"{where}: file {name!r} is listed twice")
            if name.startswith("/") or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
                raise RunDirectoryError(f"{where}: file name {name!r} leads out of the folder")
            seen.add(name)
            yield name, f

    def read(self, name: str) -> Buffer:
        """The content of a file that the index lists, compared with its size and SHA-256 when it is
        first read."""
        if name not in self._read:
            self._read[name] = self.read_once(name)
        return self._read[name]

    def read_once(self, name: str) -> Buffer:
        """As read; the content is not kept."""
        if name not in self.files:
            raise RunDirectoryError(f"{self.directory.where(self.name)}: {name} is not in the index")
        path = f"{self.name}/{name}"
        try:
            data = self.directory.read(path, self.files[name]["bytes"])
        except FileNotFoundError:
            raise RunDirectoryError(f"{self.directory.where(path)}: is missing, and the index lists it") from None
        if sha256(data) != self.files[name]["sha256"]:
            raise RunDirectoryError(f"{self.directory.where(path)}: its SHA-256 differs from the SHA-256 in the index")
        return data
