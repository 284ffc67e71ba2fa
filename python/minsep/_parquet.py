"""Parquet files that minsep wrote, read without trusting what they claim."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ._files import Buffer
from .errors import MinsepError, RunDirectoryError

_LITTLE = 1 << 20  # bytes that the values of any file may take


@contextlib.contextmanager
def faults(where: str) -> Iterator[None]:
    """Says of whatever Arrow raises that the file cannot be read: its errors are of many types, also those of Python, and name sizes, which
    are secret."""
    try:
        yield
    except MinsepError:
        raise
    except Exception as err:
        raise RunDirectoryError(f"{where}: not a Parquet file that can be read ({type(err).__name__})") from None


def open_file(data: Buffer, where: str, rows: int | None, ratio: int) -> Any:
    """A file of so many rows, of any number where that is None, that cannot need more memory than its size allows: no value stands for
    many, and the values are at most ratio times as large as the file. Its codec is not looked at: one that Arrow does not know would end
    the process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with faults(where):
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data)))
        metadata = file.metadata
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        if metadata.num_rows != sum(group.num_rows for group in groups) or rows is not None and metadata.num_rows != rows:
            raise RunDirectoryError(f"{where}: does not have the rows that its index and the batches say")
        size = 0
        for group in groups:
            for column in (group.column(c) for c in range(group.num_columns)):
                size += column.total_uncompressed_size
                if column.has_dictionary_page:
                    raise RunDirectoryError(f"{where}: is encoded in another way than minsep does: with a dictionary of its values")
        if size > ratio * len(data) + _LITTLE:
            raise RunDirectoryError(f"{where}: claims more values than a file of its size holds")
        return file
