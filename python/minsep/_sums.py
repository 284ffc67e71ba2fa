"""Digests of what a training has released at each step: a step that is repeated must release the
same."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, Callable

FOLDER, SIZE = "training.sums", 16  # bytes of a digest
_HEAD = 64  # bytes of a file before the first digest, with the token of the training
_NONE = bytes(SIZE)


def of_bytes(data: Any) -> bytes:
    """The digest of contiguous bytes."""
    return hashlib.sha256(data).digest()[:SIZE]


class Released:
    """The noisy sum of a step, for a part of the noise: each of its leaves gets a function that
    gives a digest of it.

    What is digested is the mean with its noise, which the training releases: so the digest tells
    nothing of the sum below.
    """

    def __init__(self, sums: Sums, step: int) -> None:
        self._sums, self.step, self.leaves = sums, step, 0
        self._found: dict[int, Callable[[], bytes]] = {}

    def put(self, leaf: int, digest: Callable[[], bytes]) -> None:
        self._found[leaf] = digest
        if len(self._found) == self.leaves:
            self._sums.put(self)

    def digest(self) -> bytes:
        return of_bytes(b"".join(self._found[leaf]() for leaf in range(self.leaves)))


class Sums:
    """The digests of the steps of a training, for a part of the noise, in a file; with path None
    the last one only.

    repeats is the first step that was not taken before: the digests of earlier ones are compared at
    once, and others where `settle` says so, since an accelerator may still compute them. refused is
    called with what is wrong, and raises.
    """

    def __init__(self, path: str | None, token: str, repeats: int, refused: Callable[[str], None]) -> None:
        self._repeats, self._refused = repeats, refused
        self._waiting: list[Released] = []
        self.last = -1, _NONE  # step and digest
        self._fd, self._keeps = -1, path is not None
        if path is not None:
            try:
                self._fd = _open(path, token)
            except OSError:  # a folder that is only read: nothing is kept
                pass

    def known(self, step: int) -> bytes:
        """The digest of a step that was taken before, zeros where none was made."""
        found = os.pread(self._fd, SIZE, _HEAD + SIZE * step) if self._fd >= 0 else b""
        return found if len(found) == SIZE else _NONE

    def put(self, released: Released) -> None:
        self._waiting.append(released)
        if released.step < self._repeats:
            self.settle(released.step + 1)

    def settle(self, before: int) -> None:
        """Writes down what was released before a step, and compares it with what is known."""
        while self._waiting and self._waiting[0].step < before:
            released = self._waiting.pop(0)
            step, digest, known = released.step, released.digest(), self.known(released.step)
            if known not in (digest, _NONE):
                self._refused(
                    f"step {step}: releases another sum than when it was taken before, with the same noise, and the difference of the two shows what the noise must hide. "
                    "This trainer does not repeat its steps bit for bit, so that replay=True is wrong here: discard what it made of this step"
                )
            if self._keeps and step < self._repeats and known == _NONE:
                self._refused(
                    f"step {step}: was taken before, and no digest tells what it released, so that the new sum cannot be compared with the first one: two sums with the same noise reveal their difference: "
                    "discard what this trainer made of this step"
                )
            self.last = step, digest
            if self._fd >= 0 and known == _NONE:
                os.pwrite(self._fd, digest, _HEAD + SIZE * step)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open(path: str, token: str) -> int:
    """The file of a part, emptied where it is of another training."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("not a regular file")
        head = token.encode().ljust(_HEAD - 1) + b"\n"
        if os.pread(fd, _HEAD, 0) != head:
            os.ftruncate(fd, 0)
            os.pwrite(fd, head, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


