"""What is in the place of a file: links, folders and pipes, names with control characters, and Parquet files that claim too much."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import numpy as np

import minsep
from minsep.errors import printable

from . import runs


def put(kind: str, path: pathlib.Path, victim: pathlib.Path) -> None:
    """Something that is no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a folder":
        victim.mkdir()
        path.symlink_to(victim)
    else:  # a link to a file, or to nothing
        if kind == "link":
            victim.write_text("mine")
        path.symlink_to(victim)


KINDS = "pipe", "folder", "link", "dangling link", "link to a folder"


class Places(runs.Case):
    def use(self, path):
        """As a trainer does, with two readers."""
        run = minsep.Run(path)
        guard = minsep.StepGuard(run)
        try:
            noise = minsep.read_noise(run, guard=guard)
            guard.take(0)
            minsep.add_noise(np.zeros(33), noise.step(0), run.grid, 1)
        finally:
            guard.close()
        guard = minsep.StepGuard(run, guard.state_dict())
        try:
            minsep.read_noise(run, guard=guard, shard=0, shards=3)
        finally:
            guard.close()

    def test_of_what_a_training_writes(self):
        """It is refused by name, or nothing is kept there, and nothing is written through a link."""
        source = self.own_noisy()
        run_id = minsep.Run(source).run_id
        refused = 0
        for name in "training.json", "training.sums", "training.sums/0-of-1", "training.shards", "training.shards/shard-0-of-3", "lock", f"trainings/{run_id}.json":
            for kind in KINDS:
                with self.subTest(name, kind=kind):
                    path, victim, state = self.folder / "copy", self.folder / "victim", self.folder / "state"
                    for left in path, victim, state:
                        shutil.rmtree(left, ignore_errors=True)
                        left.unlink(missing_ok=True)
                    shutil.copytree(source, path)
                    put(kind, (state / "minsep" if name.startswith("trainings/") else path) / name, victim)
                    with unittest.mock.patch.dict(os.environ, XDG_STATE_HOME=str(state)):
                        try:
                            self.use(path)
                        except minsep.TrainingError as err:
                            self.assertIn(str(path / name) if not name.startswith("trainings/") else name, str(err))
                            refused += 1
                    if victim.is_dir():
                        self.assertEqual(os.listdir(victim), [])
                    elif kind == "link":
                        self.assertEqual(victim.read_text(), "mine")
                    else:
                        self.assertFalse(victim.exists())
        self.assertGreaterEqual(refused, 12)

    def test_a_folder_that_is_only_read(self):
        run = minsep.Run(self.own_noisy())
        with unittest.mock.patch("os.open", side_effect=PermissionError(13, "Permission denied")), self.assertRaisesRegex(minsep.TrainingError, r"training.json: cannot be written \(Permission denied\).*StepGuard\(…, folder=…\)"):
            minsep.StepGuard(run)

    def test_names_that_are_shown(self):
        self.assertEqual(printable("a\x1b[2Jb\r\n\u202ec\ud800é\t"), "a\\x1b[2Jb\\r\n\\u202ec\\ud800é\t")
        self.assertEqual(str(minsep.RunDirectoryError("x\x1b")), "x\\x1b")
        path = self.formed()
        forged = "\r\x1b[2J\x1b[Hcertified: (8, 1e-05)-DP"
        (path / "batches" / forged).write_text("")
        text = minsep.Run(path).verdict().text
        self.assertTrue(text.isprintable(), repr(text))
        runs.edit_index(path / "batches", lambda index: index["files"].append({"name": forged, "bytes": 0, "sha256": "0" * 64}))
        text = minsep.Run(path).verdict().text
        self.assertTrue(text.isprintable(), repr(text))


@runs.needs("pyarrow")
class Parquet(runs.Case):
    def materialized(self, *more):
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.own_noisy()
        ids = runs.ids_of("numbers", 100)
        pq.write_table(pa.table({"example_id": ids, "text": [f"t{i}" for i in ids]}), self.folder / "data.parquet")
        runs.minsep("materialize", "--run", path, "--examples", self.folder / "data.parquet", "--key", runs.key(), "--quiet", *more)
        return path

    def read(self, path):
        return list(minsep.read_examples(minsep.Run(path)))

    def test_files_that_claim_too_much(self):
        """They are refused before they are read, whatever a row group or a column says."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.materialized("--pad", "16")
        self.assertEqual({len(table) % 16 for _, table in self.read(path)}, {0})
        (name,) = (f.name for f in (path / "materialized").glob("*.parquet"))
        table = pq.read_table(path / "materialized" / name)
        zeros = np.zeros(10**7, np.int32)
        many = pa.table({"step": zeros, "slot": zeros, "row": pa.array(zeros.astype(np.int64)), "example_id": pa.array(zeros.astype(np.int64)), "text": pa.repeat("", 10**7)})
        large = table.set_column(4, "text", pa.array(["x" * 10**6] * len(table)))
        for words, changed, options in [
            ("does not have the rows of its index and the batches", many, {"use_dictionary": False}),
            ("does not have the rows", table.slice(0, len(table) - 1), {"use_dictionary": False}),
            ("has a dictionary encoding", table, {}),
            ("has a dictionary encoding", large, {}),
            ("claims more values than a file of its size holds", large, {"use_dictionary": False, "compression": "zstd"}),
        ]:
            pq.write_table(changed, self.folder / "changed.parquet", **options)
            runs.replace(path / "materialized", name, (self.folder / "changed.parquet").read_bytes())
            with self.subTest(words, **options), self.assertRaisesRegex(minsep.RunDirectoryError, words):
                self.read(path)
        pq.write_table(table, self.folder / "changed.parquet", use_dictionary=False)
        runs.replace(path / "materialized", name, (self.folder / "changed.parquet").read_bytes())
        self.assertEqual(len(self.read(path)), 20)

    def test_the_memory_that_a_claim_takes(self):
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.materialized()
        (name,) = (f.name for f in (path / "materialized").glob("*.parquet"))
        zeros = pa.chunked_array([np.zeros(10**6, np.int32)] * 50)
        pq.write_table(pa.table({"step": zeros, "slot": zeros, "row": zeros.cast(pa.int64())}), self.folder / "changed.parquet")
        runs.replace(path / "materialized", name, (self.folder / "changed.parquet").read_bytes())
        program = f"""
import resource, minsep
run = minsep.Run({str(path)!r})
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(minsep.read_examples(run))
except minsep.RunDirectoryError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertLess(int(done.stdout), 64 << 10)  # KiB, where 50 million rows of int32 are 195 MiB

    def test_flipped_bytes(self):
        """Whatever Arrow makes of them, it is an error that names the file, or the examples are the same."""
        path = self.materialized()
        (name,) = (f.name for f in (path / "materialized").glob("*.parquet"))
        whole = (path / "materialized" / name).read_bytes()
        rng = random.Random(7)
        caught = 0
        for trial in range(250):
            data = bytearray(whole)
            for _ in range(rng.choice([1, 1, 3])):
                at = rng.choice([rng.randrange(len(data)), len(data) - 1 - rng.randrange(700)])
                data[at] = rng.randrange(256)
            if trial % 10 == 0:
                data = data[: rng.randrange(len(data))]
            runs.replace(path / "materialized", name, bytes(data))
            try:
                self.read(path)
            except minsep.RunDirectoryError as err:
                self.assertIn(name, str(err))
                self.assertTrue(str(err).isprintable(), repr(str(err)))
                caught += 1
        self.assertGreater(caught, 100)

    def test_a_footer_as_arrow_reads_it(self):
        import pyarrow.parquet as pq

        from minsep._footer import Footer

        path = self.materialized()
        largest = []
        for name in (path / "materialized").glob("*.parquet"):
            footer, metadata = Footer(name.read_bytes()), pq.read_metadata(name)
            self.assertEqual((footer.rows, len(footer.groups)), (metadata.num_rows, metadata.num_row_groups))
            for g, group in enumerate(footer.groups):
                row_group = metadata.row_group(g)
                columns = [row_group.column(c) for c in range(row_group.num_columns)]
                self.assertEqual(group.rows, row_group.num_rows)
                self.assertEqual([c.uncompressed for c in group.columns], [c.total_uncompressed_size for c in columns])
                self.assertEqual([c.dictionary for c in group.columns], [c.has_dictionary_page for c in columns])
                largest.append((int.from_bytes(group.columns[0].largest, "little", signed=True), columns[0].statistics.max))
        self.assertTrue(largest)
        self.assertEqual([ours for ours, _ in largest], [theirs for _, theirs in largest])

    def test_flips_in_a_footer(self):
        """None ends the process, as pyarrow does where the metadata of a column contradict the schema."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from minsep import _parquet

        table = pa.table({"step": pa.array(range(300), pa.int32()), "text": ["a"] * 300, "pools": pa.array([[1, 2]] * 300, pa.list_(pa.int32()))})
        pq.write_table(table, self.folder / "whole.parquet", use_dictionary=False, row_group_size=150)
        whole = (self.folder / "whole.parquet").read_bytes()
        size = int.from_bytes(whole[-8:-4], "little")
        refused = 0
        for at in range(len(whole) - 8 - size, len(whole)):
            for value in whole[at] ^ 1, whole[at] ^ 2, 255 - whole[at]:
                data = whole[:at] + bytes([value]) + whole[at + 1 :]
                try:
                    file, _ = _parquet.open_file(data, "whole.parquet", 300, 32)
                    with _parquet.faults("whole.parquet"):
                        self.assertEqual(file.read(["step"]).num_rows, 300)
                except minsep.RunDirectoryError as err:
                    self.assertIn("whole.parquet", str(err))
                    refused += 1
        self.assertGreater(refused, size)

    def test_a_table_that_claims_too_much(self):
        import pyarrow as pa
        import pyarrow.parquet as pq

        from minsep._files import Directory
        from minsep._join import Table

        source = self.formed("text")
        name = "part-00000.parquet"
        table = pq.read_table(source / "bounded" / name)
        for words, changed in [
            ("has another number of examples than its index says", pa.table({"example_id": pa.repeat("", 10**6)})),
            ("has another number of examples", table.slice(1)),
            ("has a dictionary encoding", pa.table({"example_id": pa.repeat("x" * 10**6, len(table))})),
        ]:
            pq.write_table(changed, self.folder / "changed.parquet", use_dictionary=["example_id"] if "dictionary" in words else False)
            runs.replace(source / "bounded", name, (self.folder / "changed.parquet").read_bytes())
            with self.subTest(words), self.assertRaisesRegex(minsep.RunDirectoryError, words):
                Table(Directory(source)).ids()


if __name__ == "__main__":
    unittest.main()
