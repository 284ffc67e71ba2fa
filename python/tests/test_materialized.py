"""Examples in the order of the steps, as minsep materialize writes them."""

from __future__ import annotations

import os
import shutil
from unittest import mock

import numpy as np

import minsep

from . import runs


@runs.needs("pyarrow")
class Materialized(runs.Case):
    def examples(self, path, *extra):
        """The run with its examples materialized, of which each has its id in a text and in a list."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        run = minsep.Run(path)
        rows = np.random.default_rng(1).permutation(run.examples)
        ids = run.example_ids(rows)
        data = self.folder / "data"
        data.mkdir()
        for i, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
            table = {"example_id": [ids[k] for k in part], "text": [f"of row {rows[k]}" for k in part], "list": [[int(rows[k])] * 2 for k in part]}
            pq.write_table(pa.table(table), data / f"{i}.parquet", row_group_size=7)
        key = shutil.copy(runs.key(), self.folder / "key")  # on another machine, where nothing tells that the run is a copy
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder / "state")):
            runs.minsep("materialize", "--run", path, "--examples", data, "--key", key, "--quiet", *extra)
        return minsep.Run(path)

    def check(self, run, steps, start, pad):
        self.assertEqual([t for t, _ in steps], list(range(start, run.steps)))
        for t, table in steps:
            rows = np.array(table["row"])
            taking = rows >= 0
            batch = run.batch(t)
            batch = batch.rows if isinstance(batch, minsep.OwnerBatch) else batch
            self.assertEqual(sorted(rows[taking]), sorted(batch))
            self.assertEqual(table["slot"].to_pylist(), list(range(len(rows))))
            self.assertEqual(table["step"].to_pylist(), [t] * len(rows))
            for row, text, values in zip(rows, table["text"].to_pylist(), table["list"].to_pylist()):
                want = (None, None) if row < 0 else (f"of row {row}", [row, row])
                self.assertEqual((text, list(values) if values is not None else None), want)
            if pad:
                self.assertEqual(len(rows), max(1, -(-len(batch) // pad)) * pad)
            else:
                self.assertEqual(len(rows), len(batch))

    def test_every_step_from_any_step(self):
        for kind in "numbers", "text":
            run = self.examples(self.formed(kind), "--shards", "3")
            for start in 0, 1, 6, 7, 13, 19, 20:
                for pad in None, 1, 4:
                    with self.subTest(kind, start=start, pad=pad):
                        self.check(run, list(minsep.read_examples(run, start, pad=pad)), start, pad)
            self.setUp()

    def test_files_with_padding(self):
        run = self.examples(self.formed(), "--pad", "5")
        self.check(run, list(minsep.read_examples(run, 3)), 3, 5)
        self.check(run, list(minsep.read_examples(run, pad=3)), 0, 3)

    def test_owners(self):
        run = self.examples(self.owned("--shards", "1"), "--shards", "2")  # no other test has these; a copy is refused
        steps = list(minsep.read_examples(run, 2, pad=4))
        self.check(run, steps, 2, 4)
        for t, table in steps:
            batch = run.batch(t)
            groups = {}
            for row, owner in zip(table["row"].to_pylist(), table["owner"].to_pylist()):
                groups.setdefault(owner, []).append(row)
            groups.pop(-1, None)
            self.assertEqual(sorted(sorted(g) for g in groups.values()), sorted(sorted(map(int, g)) for g in batch))

    def test_refusals(self):
        path = self.formed()
        with self.assertRaisesRegex(minsep.RunDirectoryError, "minsep materialize writes them"):
            minsep.read_examples(minsep.Run(path))
        run = self.examples(path, "--shards", "2")
        for start in -1, 21, 1.0, True:
            with self.assertRaisesRegex(ValueError, "start"):
                minsep.read_examples(run, start)
        for pad in 0, 1.5:
            with self.assertRaisesRegex(ValueError, "pad"):
                minsep.read_examples(run, pad=pad)
        folder = path / "materialized"
        runs.edit_index(folder, lambda index: index["inputs"].update(batches="0" * 64))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "belongs to other batches"):
            minsep.read_examples(run)

    def test_planted_faults(self):
        """A row that is dropped, an example of another row, entries that are ordered otherwise, and a file that was changed."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.formed()
        run = self.examples(path, "--shards", "2")
        folder, name = path / "materialized", "examples-00001-of-00002.parquet"
        table = pq.read_table(folder / name)
        kept = shutil.copytree(folder, self.folder / "kept")

        def other(table, column, change):
            values = table[column].to_numpy().copy()
            change(values)
            at = table.schema.get_field_index(column)
            return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))

        def swap(values):
            values[[0, -1]] = values[[-1, 0]]

        def row(values):
            values[0] = (values[0] + 1) % run.examples

        for what, changed in {
            "dropped": table.slice(1), "the last one dropped": table.slice(0, len(table) - 1), "another row": other(table, "row", row),
            "another order": table.take(list(range(len(table)))[::-1]), "steps exchanged": other(table, "step", swap),
            "slots exchanged": other(table, "slot", lambda v: v.__setitem__(slice(0, 2), v[1::-1])),
            "of the other file": pq.read_table(folder / "examples-00000-of-00002.parquet"),
        }.items():  # fmt: skip
            with self.subTest(what):
                shutil.rmtree(folder)
                shutil.copytree(kept, folder)
                pq.write_table(changed, self.folder / "changed.parquet", use_dictionary=False)
                runs.replace(folder, name, (self.folder / "changed.parquet").read_bytes())
                with self.assertRaises(minsep.RunDirectoryError):
                    list(minsep.read_examples(minsep.Run(path)))
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        data = bytearray((folder / name).read_bytes())
        data[100] ^= 1
        (folder / name).write_bytes(data)
        with self.assertRaisesRegex(minsep.RunDirectoryError, "SHA-256"):
            list(minsep.read_examples(minsep.Run(path)))
