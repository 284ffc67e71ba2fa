"""Reads the examples that `minsep materialize` wrote in the order of the steps."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
from numpy.typing import NDArray

from . import _parquet
from ._batches import PADDING, OwnerBatch, is_count
from ._files import Folder
from ._footer import Footer
from ._run import Run, need_run
from .errors import MissingPackageError, RunDirectoryError

FOLDER, FORMAT = "materialized", "minsep-materialized/1"
_PART = 4096  # rows that are read at a time


def read_examples(run: Run, start: int = 0, *, pad: int | None = None) -> Iterator[tuple[int, Any]]:
    """The steps from start on, in order, each with its examples as an Arrow table. It needs
    pyarrow.

    The tables have the columns step, slot, row, owner if owners are sampled, and the columns of
    your data. The entries of a step are in the order in which materialize put them. A step in which
    nobody takes part has an empty table: it is a step like any other. Entries of padding have row
    -1, owner -1 and nulls. With pad, every table has a multiple of pad entries, at least one
    multiple, whatever padding the files have. Without it, the padding of the files stays.

    Files are compared with the index when they are reached, and the rows of each step with its
    batch. Only the rows of one step are held, with some thousands that were read together with
    them.

    Raises RunDirectoryError for files that were changed, or that belong to other batches than those
    beside them; ValueError for an impossible start or pad.
    """
    need_run(run, "read_examples(run, start)")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingPackageError("reading materialized examples needs pyarrow, which is not installed") from None
    batches = run._need_batches()
    if not is_count(start, 0) or start > batches.steps:
        raise ValueError(f"start {start}: must be 0 to {batches.steps}")
    if pad is not None and not is_count(pad, 1):
        raise ValueError(f"pad {pad}: must be at least 1")
    return _Steps(run, pad).each(start)


class _Steps:
    """The folder `materialized` of a run."""

    def __init__(self, run: Run, pad: int | None) -> None:
        directory, batches = run._directory, run._need_batches()
        self.where = directory.where(FOLDER)
        if not directory.exists(f"{FOLDER}/index.json") and not directory.exists(f"{FOLDER}/incomplete.json"):
            raise RunDirectoryError(f"{self.where}: there are no examples in the order of the steps: minsep materialize writes them")
        folder = Folder(directory, FOLDER, FORMAT)
        if folder.run_id != run.run_id or folder.inputs.get("batches") != batches.folder.digest:
            raise RunDirectoryError(f"{self.where}: belongs to other batches than the ones beside it: repeat minsep materialize with --overwrite")
        steps, shards = folder.facts.get("steps"), folder.facts.get("shards")
        names = [f"examples-{s:05d}-of-{shards:05d}.parquet" for s in range(shards)] if is_count(shards, 1) else []
        if steps != batches.steps or not names or list(folder.files) != names or bool(folder.facts.get("owners", False)) != batches.of_owners:
            raise RunDirectoryError(f"{self.where}: its index has facts or files that this version cannot read")
        written = folder.params.get("pad", 0)
        if not is_count(written, 0):
            raise RunDirectoryError(f"{self.where}: its index has parameters that this version cannot read")
        self.folder, self.batches, self.pad, self.names, self.written = folder, batches, pad, names, written

    def each(self, start: int) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa

        steps, shards = self.batches.steps, len(self.names)
        for shard, name in enumerate(self.names):
            first, end = steps * shard // shards, steps * (shard + 1) // shards
            if end <= start:
                continue
            file, footer = self._open(name, sum(self._entries(t) for t in range(first, end)))
            step, held = max(first, start), [file.schema_arrow.empty_table()]
            for part in self._parts(file, footer, name, step):
                numbers = self._numbers(part, "step", name)
                if len(numbers) and (numbers[0] < step or numbers[-1] >= end or (numbers[1:] < numbers[:-1]).any()):
                    raise RunDirectoryError(f"{self.where}/{name}: its steps do not ascend, or belong to another file")
                at = 0
                while at < len(numbers):
                    until = int(np.searchsorted(numbers, step, side="right"))
                    held.append(part.slice(at, until - at))
                    at = until
                    if at < len(numbers):  # of a later step
                        yield step, self._step(step, pa.concat_tables(held), name)
                        step, held = step + 1, held[:1]
            while step < end:
                yield step, self._step(step, pa.concat_tables(held), name)
                step, held = step + 1, held[:1]

    def _entries(self, step: int) -> int:
        """The number of entries that materialize wrote for a step, padding among them."""
        count = len(self.batches.owners(step).rows if self.batches.of_owners else self.batches.rows(step))
        return max(1, -(-count // self.written)) * self.written if self.written else count

    def _open(self, name: str, entries: int) -> tuple[Any, Footer]:
        file, footer = _parquet.open_file(self.folder.read_once(name), f"{self.where}/{name}", entries, 32)  # Snappy makes bytes at most 22 times fewer
        want = ["step", "slot", "row"] + (["owner"] if self.batches.of_owners else [])
        if file.schema_arrow.names[: len(want)] != want:
            raise RunDirectoryError(f"{self.where}/{name}: its first columns must be {', '.join(want)}")
        return file, footer

    def _parts(self, file: Any, footer: Footer, name: str, start: int) -> Iterator[Any]:
        """The file's rows from a step on, some at a time."""
        import pyarrow as pa

        with _parquet.faults(f"{self.where}/{name}"):
            largest = [group.columns[0].largest for group in footer.groups]
            groups = [g for g, step in enumerate(largest) if step is None or int.from_bytes(step, "little", signed=True) >= start]
            batches = file.iter_batches(batch_size=_PART, row_groups=groups)
        while True:
            with _parquet.faults(f"{self.where}/{name}"):
                batch = next(batches, None)
                if batch is None:
                    return
                part = pa.Table.from_batches([batch], file.schema_arrow)
            yield part.slice(int(np.searchsorted(self._numbers(part, "step", name), start)))

    def _numbers(self, table: Any, column: str, name: str) -> NDArray[np.int64]:
        values = table.column(column).to_numpy()
        if values.dtype.kind not in "iu":
            raise RunDirectoryError(f"{self.where}/{name}: column {column} must hold integers and no nulls")
        return np.asarray(values, dtype=np.int64)

    def _step(self, step: int, table: Any, name: str) -> Any:
        """The table of a step, after a comparison with its batch."""
        rows = self._numbers(table, "row", name)
        taking = rows != PADDING
        batch = self.batches.owners(step) if self.batches.of_owners else self.batches.rows(step)
        want = batch.rows if isinstance(batch, OwnerBatch) else batch
        count = int(taking.sum())
        slots = self._numbers(table, "slot", name)
        if not np.array_equal(np.sort(rows[taking]), np.sort(want[want != PADDING])) or not np.array_equal(slots, np.arange(len(slots))) or not taking[:count].all():
            raise RunDirectoryError(f"{self.where}/{name}: step {step} has other entries than its batch")
        if self.pad is None:
            return table
        return self._padded(step, table.slice(0, count), max(1, -(-count // self.pad)) * self.pad)

    def _padded(self, step: int, table: Any, size: int) -> Any:
        import pyarrow as pa

        more = size - len(table)
        added = {"step": np.full(more, step), "slot": np.arange(len(table), size), "row": np.full(more, PADDING)}
        if self.batches.of_owners:
            added["owner"] = np.full(more, PADDING)
        schema = pa.schema([f.with_nullable(True) for f in table.schema], table.schema.metadata)
        columns = [
            pa.array(added[f.name]).cast(f.type) if i < len(added) and f.name in added else pa.nulls(more, f.type)
            for i, f in enumerate(schema)
        ]
        return pa.concat_tables([pa.Table.from_arrays(table.columns, schema=schema), pa.Table.from_arrays(columns, schema=schema)])
