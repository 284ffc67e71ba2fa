"""Memory in which the command makes rows of noise for this process, without a pipe between."""

from __future__ import annotations

import mmap
import os
import sys
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .errors import RunDirectoryError

# Whether this system has memory without a name that a process can share with one that it starts.
AVAILABLE = hasattr(os, "memfd_create") and hasattr(mmap, "MADV_DONTFORK") and sys.byteorder == "little"

# Whether an object's references are counted, and the count of one that only a list holds.
COUNTS = sys.implementation.name == "cpython" and bool(getattr(sys, "_is_gil_enabled", lambda: True)())
_alone = [np.empty(1)]
ALONE = sys.getrefcount(_alone[0]) if COUNTS else 0

_SLOT, _SLOTS = 4096, 3  # what the size of a slot is a multiple of; one that the command fills, and two that callers hold


class Rows:
    """Rows that the command makes one after the other, each in a slot that nobody holds any more.

    The memory has no name, so that no other program finds it, and is gone with the two processes. A
    process that is forked does not have it: it would see a row become that of another step.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], first: int, end: int) -> None:
        size = -(-width * dtype.itemsize // _SLOT) * _SLOT
        self.descriptor = os.memfd_create("minsep-noise", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, _SLOTS * size)
            memory = mmap.mmap(self.descriptor, _SLOTS * size)
        except BaseException:
            os.close(self.descriptor)
            raise
        memory.madvise(mmap.MADV_DONTFORK)
        self._slots = [np.frombuffer(memory, dtype, width, i * size) for i in range(_SLOTS)]
        self._step, self._end, self._slot = first, end, 0

    def ask(self, to: IO[bytes]) -> None:
        """Asks the command for the next row, if there is one."""
        if self._step < self._end:
            try:
                to.write(bytes([self._slot]))
            except BrokenPipeError:  # it has ended: its output has, too
                pass

    def take(self, said: bytes | bytearray, to: IO[bytes]) -> NDArray[Any]:
        """The row that the command has made, said being its word for it. The next one is asked for."""
        if int.from_bytes(said, "little") != self._step:
            raise RunDirectoryError(f"the stream of noise gave step {int.from_bytes(said, 'little')} in place of {self._step}")
        here = self._slot
        self._step += 1
        free = [i for i in range(_SLOTS) if i != here and COUNTS and sys.getrefcount(self._slots[i]) == ALONE]
        row = self._slots[here]
        if free:
            self._slot = free[0]
        else:  # the caller holds the rows before
            row = row.copy()
        self.ask(to)
        return row
