"""Example ids: those of the bounded table, and where they are in the user's data."""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _npy, _parquet
from ._batches import is_count
from ._files import Directory, Folder
from ._tree import counted
from .errors import RunDirectoryError

FOLDER, FORMAT = "bounded", "minsep-bounded/1"
POOLS_FORMAT = "minsep-bounded/1.1"  # the rows say in which pools of rotation they are


class Table:
    """The ids of the bounded table, in the order of its rows: int64, or text or bytes as an Arrow array."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory, FOLDER, FORMAT, POOLS_FORMAT)
        self._ids: Any = None

    def ids(self) -> Any:
        """All example ids: a NumPy array of int64, or an Arrow array of strings or bytes. They ascend."""
        if self._ids is None:
            self._ids = self._load()
        return self._ids

    def _column(self, column: str, like: str) -> Any:
        """A column of all parts as an Arrow array; of type like without any row."""
        import pyarrow as pa

        where = self.folder.directory.where(FOLDER)
        kept, rows, parts = self.folder.facts.get("kept"), 0, []
        if not is_count(kept, 0):
            raise RunDirectoryError(f"{where}: its index has no number of examples")
        for i, name in enumerate(sorted(self.folder.files)):
            if name != f"part-{i:05d}.parquet":
                raise RunDirectoryError(f"{where}: {name} in place of part-{i:05d}.parquet")
            path = f"{where}/{name}"
            file, _ = _parquet.open_file(self.folder.read_once(name), path, None, 1024)  # zstd, which makes few of ids that ascend
            rows += file.metadata.num_rows
            if rows > kept:
                break
            with _parquet.faults(path):
                parts.append(file.read(columns=[column])[column])
        if rows != kept:
            raise RunDirectoryError(f"{where}: has another number of examples than its index says")
        chunks = [c for part in parts for c in part.chunks]
        with _parquet.faults(where):
            return pa.concat_arrays(chunks) if chunks else pa.array([], like)

    def pools(self) -> list[NDArray[np.int64]]:
        """The rows of each pool, ascending, of a table with pools; otherwise there are none."""
        if self.folder.format != POOLS_FORMAT:
            return []
        import pyarrow as pa

        where = self.folder.directory.where(FOLDER)
        column = self._column("pools", "list<int32>") if self.folder.files else None
        number = self.folder.params.get("pools")
        if type(number) is not int or not 1 <= number <= 4096:
            raise RunDirectoryError(f"{where}: pools {number!r} in its params: must be a whole number from 1 to 4096")
        if column is None:
            return [np.empty(0, np.int64)] * number
        if not pa.types.is_list(column.type) or not pa.types.is_int32(column.type.value_type) or column.null_count or column.flatten().null_count:
            raise RunDirectoryError(f"{where}: pools is of type {column.type}: must be lists of int32")
        counts, pools = np.diff(column.offsets.to_numpy()), column.flatten().to_numpy()
        if len(pools) and (pools.min() < 0 or pools.max() >= number) or len(counts) and counts.min() < 1:
            raise RunDirectoryError(f"{where}: an example is in no pool, or in one that is not 0 to {number - 1}")
        rows = np.repeat(np.arange(len(counts)), counts)
        return [rows[pools == p] for p in range(number)]

    def _load(self) -> Any:
        whole = self._column("example_id", "int64")
        import pyarrow as pa

        where = self.folder.directory.where(FOLDER)
        if whole.null_count:
            raise RunDirectoryError(f"{where}: an example has no id")
        if pa.types.is_int64(whole.type):
            return whole.to_numpy(zero_copy_only=False)
        if pa.types.is_binary(whole.type):
            return whole.cast(pa.large_binary())
        if not pa.types.is_string(whole.type):
            raise RunDirectoryError(f"{where}: example_id is of type {whole.type}: must be int64, string or binary")
        return whole.cast(pa.large_string())

    def take(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The ids of some rows: int64, or str or bytes as objects."""
        ids = self.ids()
        if isinstance(ids, np.ndarray):
            return np.asarray(ids[rows])
        taken = np.empty(len(rows), dtype=object)
        taken[:] = ids.take(np.asarray(rows)).to_pylist()
        return taken

    def positions(self, ids: Any, cache: str | os.PathLike[str] | None) -> NDArray[np.int64]:
        """For every row the position of its id in ids, of any order. With a folder in cache it is
        computed once, and mapped."""
        mine = self.ids()
        theirs = _as_numbers(ids) if isinstance(mine, np.ndarray) else _as_arrow(ids, mine.type)
        if cache is None:
            return _match(mine, theirs)
        name = f"positions-{_digest(self.folder.digest, theirs)}.npy"
        path = os.path.join(cache, name)
        if not os.path.exists(path):
            found = _match(mine, theirs)
            os.makedirs(cache, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=cache, prefix=".minsep-tmp-", delete=False) as f:
                np.save(f, found)
            os.replace(f.name, path)
        found = _npy.view(Directory(cache).read(name, os.path.getsize(path)), "<i8", path)
        if found.shape != (len(mine),) or len(found) and (found.min() < 0 or found.max() >= len(theirs)):
            raise RunDirectoryError(f"{path}: does not hold the positions of this table: remove it")
        return found


def _as_numbers(ids: Any) -> NDArray[np.int64]:
    array = np.asarray(ids)
    if array.ndim == 1 and len(array) == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"ids: must be whole numbers of one dimension, as the run has them, not {_kind(array)}")
    return array.astype(np.int64, copy=False)


def _kind(array: NDArray[Any]) -> str:
    return f"of type {array.dtype}" if array.ndim == 1 else f"{array.ndim} of them"


def _as_arrow(ids: Any, kind: Any) -> Any:
    """Strings or bytes as an Arrow array of the large type that the run has."""
    import pyarrow as pa

    text = pa.types.is_large_string(kind)
    wanted = "strings" if text else "bytes"
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "S":
        if text:
            ids = np.char.decode(ids, "utf-8")
        else:  # all of one length: NumPy does not tell a NUL at the end from padding
            width = pa.binary(ids.dtype.itemsize)
            ids = pa.FixedSizeBinaryArray.from_buffers(width, len(ids), [None, pa.py_buffer(np.ascontiguousarray(ids))])
    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        array = ids
    else:
        try:
            array = pa.array(ids)
        except (pa.ArrowException, TypeError, UnicodeError) as err:
            raise ValueError(f"ids: must be {wanted}, as the run has them: {err}") from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_null(array.type) and len(array) == 0:
        array = array.cast(kind)
    types = pa.types
    tests = (types.is_string, types.is_large_string) if text else (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if array.null_count or not any(test(array.type) for test in tests):
        raise ValueError(f"ids: must be {wanted}, as the run has them, not {array.type}")
    return array.cast(kind)


def _match(mine: Any, theirs: Any) -> NDArray[np.int64]:
    """Positions of mine in theirs; every one of mine must be there, once."""
    if isinstance(mine, np.ndarray):
        order = np.argsort(theirs, kind="stable")
        ordered = theirs[order]
        at = np.searchsorted(ordered, mine, side="left")
        found = np.append(ordered, 0)[at] == mine
        found &= at < len(ordered)
        twice = np.zeros(len(mine), dtype=bool)
        inside = at + 1 < len(ordered)
        twice[inside] = ordered[at[inside] + 1] == mine[inside]
        where = np.append(order, 0)[at].astype(np.int64)
    else:
        import pyarrow.compute as pc

        where = np.asarray(pc.fill_null(pc.index_in(mine, value_set=theirs), -1)).astype(np.int64)
        found = where >= 0
        # An id that theirs has twice is found at its first place: counted from the end it is at
        # another one.
        last = np.asarray(pc.fill_null(pc.index_in(mine, value_set=theirs[::-1] if len(theirs) else theirs), -1)).astype(np.int64)
        twice = found & (where != len(theirs) - 1 - last)
    if not found.all():
        missing = np.flatnonzero(~found)
        are = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f"ids: {len(missing)} of the {counted(len(mine), 'example')} of the run {are} missing from them, the first is {_one(mine, missing[0])!r}: give the ids of all examples, "
            "or make the run from a graph of the examples that you have"
        )
    if (found & twice).any():
        again = np.flatnonzero(found & twice)
        are = "is" if len(again) == 1 else "are"
        raise ValueError(f"ids: {counted(len(again), 'example')} of the run {are} in them more than once, the first is {_one(mine, again[0])!r}: an id must name one position in your data")
    return where


def _one(ids: Any, at: int) -> Any:
    return int(ids[at]) if isinstance(ids, np.ndarray) else ids[int(at)].as_py()


def _digest(table: str, ids: Any) -> str:
    sum = hashlib.sha256(table.encode())
    if isinstance(ids, np.ndarray):
        sum.update(b"numbers")
        sum.update(np.ascontiguousarray(ids).data)
    else:
        import pyarrow as pa
        import pyarrow.compute as pc

        sum.update(str(ids.type).encode())
        sum.update(np.asarray(pc.binary_length(ids)).astype(np.int64).data)
        for first in range(0, len(ids), 1 << 16):
            sum.update(b"".join(ids.slice(first, 1 << 16).cast(pa.large_binary()).to_pylist()))
    return sum.hexdigest()


def match_range(examples: int, ids: Any) -> NDArray[np.int64]:
    """The positions of the numbers 0 to examples-1 in ids."""
    return _match(np.arange(examples, dtype=np.int64), _as_numbers(ids))
