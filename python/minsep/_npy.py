"""Arrays in .npy files, as views of the memory that holds the file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import Buffer
from .errors import RunDirectoryError


def view(data: Buffer, dtype: str, where: str) -> NDArray[Any]:
    """The array of an .npy file of format 1.0, read-only. Its type must be dtype, and its size that
    of its header."""
    head = io.BytesIO(data[: 1 << 16])
    try:
        if np.lib.format.read_magic(head) != (1, 0):
            raise ValueError("not of format 1.0")
        shape, fortran, found = np.lib.format.read_array_header_1_0(head)
    except Exception as err:  # NumPy raises what its parser raises
        raise RunDirectoryError(f"{where}: not an .npy file: {err}") from None
    if fortran or found != np.dtype(dtype) or len(shape) not in (1, 2) or any(n < 0 for n in shape):
        raise RunDirectoryError(f"{where}: must hold {dtype} of one or two dimensions in C order")
    count = 1
    for n in shape:
        count *= n
    if len(data) != head.tell() + count * found.itemsize:
        raise RunDirectoryError(f"{where}: its size does not fit its header")
    return np.frombuffer(data, dtype=found, count=count, offset=head.tell()).reshape(shape)
