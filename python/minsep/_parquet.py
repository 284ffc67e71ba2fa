"""Parquet files that minsep wrote, read without trusting what they claim."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ._files import Buffer
from ._footer import Footer
from .errors import MinsepError, RunDirectoryError

_LITTLE = 1 << 20  # bytes that the values of any file may take


@contextlib.contextmanager
def faults(where: str) -> Iterator[None]:
    """Says of whatever Arrow raises that the file cannot be read: its errors are of many types,
    also those of Python, and name sizes, which are secret."""
    try:
        yield
    except MinsepError:
        raise
    except Exception as err:
        raise RunDirectoryError(f"{where}: not a Parquet file that can be read ({type(err).__name__})") from None


def open_file(data: Buffer, where: str, rows: int | None, ratio: int) -> tuple[Any, Footer]:
    """A file of so many rows, of any number where that is None, that cannot need more memory than
    its size allows: no value stands for many, and the values are at most ratio times as large as
    the file. With its footer: ask pyarrow for no column's metadata, since it ends the process where
    they contradict each other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with faults(where):
        footer = Footer(data)
        if footer.rows != sum(group.rows for group in footer.groups) or rows is not None and footer.rows != rows:
            raise RunDirectoryError(f"{where}: does not have the rows of its index and the batches")
        columns = [column for group in footer.groups for column in group.columns]
        if any(column.dictionary for column in columns):
            raise RunDirectoryError(f"{where}: has a dictionary encoding, which minsep does not write")
        if sum(column.uncompressed for column in columns) > ratio * len(data) + _LITTLE:
            raise RunDirectoryError(f"{where}: claims more values than a file of its size holds")
        return pq.ParquetFile(pa.BufferReader(pa.py_buffer(data))), footer
