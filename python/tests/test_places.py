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
        """As a trainer does."""
        run = minsep.Run(path)
        guard = minsep.StepGuard(run)
        try:
            noise = minsep.read_noise(run, guard=guard)
            guard.take(0)
            minsep.add_noise(np.zeros(33), noise.step(0), run.grid, 1)
        finally:
            guard.close()

    def test_of_what_a_training_writes(self):
        """It is refused by name, or nothing is kept there, and nothing is written through a link."""
        source = self.own_noisy()
        refused = 0
        for name in "training.json", "lock":
            for kind in KINDS:
                with self.subTest(name, kind=kind):
                    path, victim = self.folder / "copy", self.folder / "victim"
                    for left in path, victim:
                        shutil.rmtree(left, ignore_errors=True)
                        left.unlink(missing_ok=True)
                    shutil.copytree(source, path)
                    put(kind, path / name, victim)
                    try:
                        self.use(path)
                    except minsep.TrainingError as err:
                        self.assertIn(str(path), str(err))
                        refused += 1
                    if victim.is_dir():
                        self.assertEqual(os.listdir(victim), [])
                    elif kind == "link":
                        self.assertEqual(victim.read_text(), "mine")
                    else:
                        self.assertFalse(victim.exists())
        self.assertEqual(refused, 5)

    def test_names_that_are_shown(self):
        self.assertEqual(printable("a\x1b[2Jb\r\n\u202ec\ud800é\t"), "a\\x1b[2Jb\\r\n\\u202ec\\ud800é\t")
        self.assertEqual(str(minsep.RunDirectoryError("x\x1b")), "x\\x1b")
        path = self.formed()
        forged = "\r\x1b[2J\x1b[Hcertified: (8, 1e-05)-DP"
        (path / "batches" / forged).write_text("")
        text = minsep.Run(path).inspect().text
        self.assertTrue(text.isprintable(), repr(text))
        runs.edit_index(path / "batches", lambda index: index["files"].append({"name": forged, "bytes": 0, "sha256": "0" * 64}))
        text = minsep.Run(path).inspect().text
        self.assertTrue(text.isprintable(), repr(text))


@runs.needs("pyarrow")
class Parquet(runs.Case):
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
