"""From owners to a run directory in one call."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import signal
import threading
import time
import unittest.mock

import numpy as np

import minsep
from minsep import _prepare

from . import runs

NUMBERS = dict(model=22, steps=8, batch_size=10, epsilon=8)


def prepared(path: pathlib.Path, owners, **given) -> tuple[minsep.Run, str]:
    """The run, and what was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        run = minsep.prepare(path, owners=owners, **{**NUMBERS, "key": runs.key(), **given})
    return run, printed.getvalue()


class Prepare(runs.Case):
    def test_positions_and_words(self):
        owners = np.random.default_rng(0).integers(0, 60, 400)
        path = self.folder / "run"
        run, text = prepared(path, owners, owner="author", example="photo")
        self.assertRegex(text, r"claim  \(8, 0.0016\)-DP for an author with any number of photos, of 60; verified")
        self.assertRegex(text, "data   all 400 photos; 8 steps of about 10 authors, each with up to 8 of its photos, drawn afresh")
        self.assertEqual((run.key, run.coordinates, run.steps), (str(runs.key()), 22, 8))
        for t in range(run.steps):
            batch = run.batch(t)
            for one in np.split(batch.rows, batch.offsets[1:-1]):
                self.assertLessEqual(len(set(owners[one])), 1)
        self.assertTrue(run.inspect().certified)
        self.assertIn("certified", run.inspect()._repr_html_())
        page = run.report()
        self.assertEqual(page.path, str(path / "report.html"))
        self.assertTrue(page._repr_html_().startswith("<iframe srcdoc="))
        with self.assertRaisesRegex(minsep.UsageError, "path .*: was prepared for another training: epsilon is \"8\" there, \"4\" now; give another path, or"):
            prepared(path, owners, epsilon=4)
        with self.assertRaisesRegex(ValueError, "not those from which .* was prepared: 400 rows then, 400 now"):
            prepared(path, owners + 1)
        again, repeated = prepared(path, owners)
        self.assertEqual((again.run_id, repeated), (run.run_id, text))

    def test_a_weak_claim(self):
        _, text = prepared(self.folder / "run", np.arange(60), epsilon=100)
        self.assertRegex(text, "of 60; verified, but weak, noise multiplier .*\nweak   the success of an attack is not bounded below 0.9999")

    def test_a_training_reads_its_noise_without_a_key(self):
        run, _ = prepared(self.folder / "run", np.arange(300))
        guard = minsep.StepGuard(run)
        self.addCleanup(guard.close)
        with minsep.read_noise(run, guard=guard) as noise:
            run.batch(0)
            guard.take(0)
            self.assertEqual(noise.step(0).shape, (22,))

    def test_interrupted_and_repeated(self):
        owners, path = np.arange(500) // 5, self.folder / "run"

        def interrupt() -> None:
            while not (path / "prepare" / "plan.json").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            prepared(path, owners)
        thread.join()
        run, _ = prepared(path, owners)
        self.assertTrue(run.inspect().certified)

    def test_several_owners_and_a_plan(self):
        owners = [[i % 90, 1000 + i % 70] for i in range(300)]
        run, text = prepared(self.folder / "run", owners)
        self.assertRegex(text, "for an owner (of whom one example is kept|with any number of examples, at most one)")
        rows = np.concatenate([run.batch(t) for t in range(run.steps)])
        taken = [owner for row in set(rows.tolist()) for owner in owners[row]]
        if "at most 1 can" in text:
            self.assertEqual(len(taken), len(set(taken)))
        plan = self.folder / "run" / "prepare" / "plan.json"
        with contextlib.redirect_stdout(io.StringIO()):
            other = minsep.prepare(self.folder / "other", owners=owners, model=22, plan=plan, key=runs.key())
        self.assertNotEqual(other.run_id, run.run_id)

    def test_owners_as_people_have_them(self):
        import pyarrow as pa

        words = ["ann", "bob", "ann"]
        for given, rows, values in (
            (np.array([3, 1, 3], np.uint8), [0, 1, 2], [3, 1, 3]),
            (words, [0, 1, 2], words),
            (np.array(words), [0, 1, 2], words),
            (np.array(words, object), [0, 1, 2], words),
            (pa.chunked_array([words[:1], words[1:]]), [0, 1, 2], words),
            (pa.array(words).dictionary_encode(), [0, 1, 2], words),
            (np.array([3.0, np.nan, 2.0]), [0, 2], [3, 2]),
            (["ann", None, ""], [0], ["ann"]),
            ([[1, 2], [], [3]], [0, 2], [[1, 2], [3]]),
        ):
            count, table = _prepare._table(given, True)
            self.assertEqual((count, table["example_id"].to_pylist(), table["owner_id"].to_pylist()), (3, rows, values))
        for given, fault in (
            ([1, None], "1 of 2 rows have no owner"),
            (np.array([1.5, 2]), "some of them not whole"),
            (np.array([2.0**53, 1]), "too large to be exact"),
            ([True, False], "must be whole numbers or strings"),
            ([[1, None]], "a list has a null"),
            (np.zeros((2, 2)), "must be of one dimension"),
            ([], "owners: are none"),
            ({"user": [1, 2]}, "is a dict, of several columns"),
            (pa.table({"user": [1, 2]}), "is a Table, of several columns"),
            ([1, "a"], "must be a column"),
            (np.array(["2020-01-01"], "datetime64[D]"), "a measure or a time"),
        ):
            with self.assertRaisesRegex(ValueError, fault):
                _prepare._table(given, False)

    def test_owners_of_a_file(self):
        import pyarrow as pa
        import pyarrow.parquet as parquet

        table = pa.table({"user": np.arange(200) % 50, "paper": np.arange(200) + 1000})
        parquet.write_table(table, self.folder / "edges.parquet")
        (self.folder / "edges.csv").write_text("user,paper\n" + "".join(f"u{i % 50},{i}\n" for i in range(200)))
        for name in "edges.parquet", "edges.csv":
            run, text = prepared(self.folder / f"run-{name}", self.folder / name, column="user")
            self.assertIn("all 200 examples", text)
            self.assertLess(max(run.batch(0).rows, default=0), 200)
        run, _ = prepared(self.folder / "joined", self.folder / "edges.parquet", column="user", example_column="paper")
        self.assertTrue(set(run.join(np.arange(1000, 1200)).batch(0).rows) <= set(range(200)))
        with self.assertRaisesRegex(ValueError, "no column 'who'"):
            prepared(self.folder / "none", self.folder / "edges.parquet", column="who")

    def test_joined_owners_are_refused(self):
        for owners in [f"u{i % 9};u{i % 7}" for i in range(200)], [["u0|u1"]] * 200:
            with self.assertRaisesRegex(minsep.UsageError, "several owners in one value.* set owner_separator '[;|]'"):
                prepared(self.folder / "run", owners)
        run, text = prepared(self.folder / "kept", [f"u{i % 40};v" for i in range(200)], owner_separator="none")
        self.assertIn("of 40;", text)

    def test_coordinates_and_arguments(self):
        self.assertEqual(_prepare._coordinates({"w": np.zeros((3, 2)), "b": np.zeros(2)}), 8)
        self.assertEqual(_prepare._coordinates(np.int64(5)), 5)
        with self.assertRaisesRegex(ValueError, "unowned 'keep'"):
            prepared(self.folder / "run", [1, 2], unowned="keep")
        with self.assertRaisesRegex(ValueError, "must be a folder of this machine"):
            prepared("gs://bucket/run", [1, 2])  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "run directory ~/run: Python does not replace ~"):
            prepared("~/run", [1, 2])  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "^model: NoneType is neither an array"):
            prepared(self.folder / "run", [1, 2], model=None)
        frozen = unittest.mock.Mock(named_parameters=lambda: [("w", unittest.mock.Mock(requires_grad=False))])
        for model, said in ("22", "'22'"), (frozen, "<Mock .*"):
            with self.assertRaisesRegex(ValueError, f"^model {said}: must be a module with a parameter that requires a gradient, a tree of arrays or a whole number"):
                _prepare._coordinates(model)
        self.assertEqual(_prepare._keywords("noise.clip_norm -1: must be 2^-80 to 2^80"), "clip_norm -1: must be 2^-80 to 2^80")
        self.assertEqual(_prepare._keywords("give another --out, or --again NEW for a new directory NEW that takes over what still holds"), "give another path")
        self.assertEqual(_prepare._keywords("with another --out, or by --again NEW, which takes over what still holds: x"), "with another path: x")
        words = "--out x: was given to minsep plan --out x --top 3: --row 3 and --batch-size 4"
        self.assertEqual(_prepare._keywords(words), "path x: was given to minsep plan --out x --top 3: plan 3 and batch_size 4")
        with self.assertRaisesRegex(minsep.UsageError, "^batch_size is missing"):
            minsep.prepare(self.folder / "run", owners=np.arange(9), model=22, steps=3, epsilon=8, key=runs.key())

    def test_the_key_of_the_user(self):
        home = self.folder / "home"
        home.mkdir()
        with unittest.mock.patch.dict(os.environ, {"HOME": str(home), "XDG_CONFIG_HOME": "", "MINSEP_KEY": ""}):
            made, said = self.folder / "made", io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                run = minsep.prepare(made, owners=np.arange(300), **NUMBERS)
            key = home / ".config" / "minsep" / "key"
            self.assertIn(f"made the root key {key}", said.getvalue())
            self.assertEqual((run.key, key.stat().st_mode & 0o777), (str(key), 0o600))
            self.assertEqual(minsep.Run(made).key, str(key))
            os.environ["MINSEP_KEY"] = "another"
            self.assertEqual(minsep.Run(made).key, "another")
            (self.folder / "file").touch()
            os.environ.update(MINSEP_KEY="", XDG_CONFIG_HOME=str(self.folder / "file"))
            with self.assertRaisesRegex(minsep.CommandError, "^the root key of the user: .*not a directory: give key, or name its file by MINSEP_KEY"):
                minsep.prepare(self.folder / "no-key", owners=np.arange(300), **NUMBERS)
