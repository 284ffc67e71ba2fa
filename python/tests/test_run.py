"""Batches, noise and certificates, against NumPy's own reading of the files."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import warnings

import numpy as np

import minsep

from . import runs


def every_batch(run):
    """The batches of a run directory, read without the package."""
    index = json.loads((run / "batches" / "index.json").read_text())
    shards = index["facts"]["shards"]
    for s in range(shards):
        indptr = np.load(run / "batches" / f"indptr-{s:05d}-of-{shards:05d}.npy")
        rows = np.load(run / "batches" / f"rows-{s:05d}-of-{shards:05d}.npy")
        for a, b in zip(indptr, indptr[1:]):
            yield [int(r) for r in rows[a:b] if r != -1]


class Batches(runs.Case):
    def test_every_step_of_every_split(self):
        for steps, shards, extra in [(1, 1, ()), (7, 7, ()), (20, 3, ()), (20, 1, ("--max-batch-size", "7", "--pad")), (31, 13, ())]:
            with self.subTest(steps=steps, shards=shards):
                path = runs._formed("numbers", steps, shards, extra)
                want = list(every_batch(path))
                self.assertEqual(len(want), steps)
                order = [*range(steps - 1, -1, -1), *range(steps)]  # from any step
                run = minsep.Run(path)
                self.assertEqual([run.batch(t).tolist() for t in order], [want[t] for t in order])
                self.assertEqual(len(run), steps)

    def test_padding_is_there_and_taken_away(self):
        path = runs._formed("numbers", 20, 1, ("--max-batch-size", "7", "--pad"))
        raw = np.load(path / "batches" / "rows-00000-of-00001.npy")
        self.assertTrue((raw == -1).any(), "the case has no padding")
        run = minsep.Run(path)
        self.assertTrue(all((run.batch(t) >= 0).all() for t in range(20)))

    def test_a_batch_is_a_view_that_cannot_be_written(self):
        run = minsep.Run(self.formed())
        batch = next(b for b in map(run.batch, range(20)) if len(b))
        self.assertFalse(batch.flags.owndata)
        with self.assertRaises(ValueError):
            batch[0] = 1

    def test_steps_that_there_are_not(self):
        run = minsep.Run(self.formed())
        for step in (-1, 20, 10**30):
            with self.assertRaises(IndexError):
                run.batch(step)
        for step in (1.0, "1", None):
            with self.assertRaises(TypeError):
                run.batch(step)
        self.assertEqual(run.batch(np.int32(3)).tolist(), run.batch(3).tolist())

    def test_expected_batch_size(self):
        self.assertAlmostEqual(minsep.Run(self.formed()).expected_batch_size, 6.0)

    def test_max_batch_size(self):
        run = minsep.Run(self.formed())
        self.assertEqual((run.max_batch_size, run.max_rows), (None, None))
        for extra in (("--max-batch-size", "7"), ("--max-batch-size", "7", "--pad")):
            run = minsep.Run(runs._formed("numbers", 20, 3, extra))
            self.assertEqual(run.max_batch_size, 7)
            self.assertEqual(max(len(run.batch(t)) for t in range(run.steps)), 7)
            self.assertLess(min(len(run.batch(t)) for t in range(run.steps)), 7)  # padding is left out
            self.assertEqual({len(minsep.pad(run.batch(t), run.max_batch_size)) for t in range(run.steps)}, {7})
            self.assertEqual(run.max_rows, 7)

    def test_max_batch_size_of_fixed_batches(self):
        out = self.folder / "run"
        runs.minsep("form", "--examples", 90, "--scheme", "fixed", "--steps", 20, "--min-sep", 3, "--batch-size", 6, "--key", runs.key(), "--out", out, "--quiet")
        run = minsep.Run(out)
        self.assertEqual((run.max_batch_size, run.max_rows, run.expected_batch_size), (6, 6, 6.0))
        self.assertEqual({len(run.batch(t)) for t in range(run.steps)}, {6})
        runs.edit_index(out / "batches", lambda index: index["params"]["scheme"]["fixed"].pop("batch_size"))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "facts that this version cannot read"):
            minsep.Run(out)

    def test_fingerprint_differs_by_run(self):
        a, b = minsep.Run(runs._formed("numbers", 20, 3, ())), minsep.Run(runs._formed("text", 20, 3, ()))
        self.assertNotEqual(a.fingerprint, b.fingerprint)
        self.assertEqual(a.fingerprint, minsep.Run(self.copied(runs._formed("numbers", 20, 3, ()))).fingerprint)

    @runs.needs("fsspec")
    def test_through_fsspec(self):
        import fsspec

        path = self.formed()
        memory = fsspec.filesystem("memory")
        memory.put(str(path), "/minsep-test", recursive=True)
        self.addCleanup(memory.rm, "/minsep-test", recursive=True)
        there, here = minsep.Run("memory://minsep-test"), minsep.Run(path)
        self.assertEqual([there.batch(t).tolist() for t in range(20)], [here.batch(t).tolist() for t in range(20)])
        memory.pipe("/minsep-test/batches/rows-00000-of-00003.npy", bytes(len(memory.cat("/minsep-test/batches/rows-00000-of-00003.npy"))))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "SHA-256 differs from the SHA-256 in the index"):
            minsep.Run("memory://minsep-test").batch(0)


class Join(runs.Case):
    @runs.needs("pyarrow")
    def test_positions_are_those_of_the_ids(self):
        for kind in "numbers", "text":
            run = minsep.Run(runs._formed(kind, 20, 3, ()))
            ids = runs.ids_of(kind, 100)
            more = ids + ([7 * 10**12, -(7 * 10**12)] if kind == "numbers" else ["zz", ""])
            for given in ids, more, more[::-1], np.array(more), sorted(more):
                for cache in None, self.folder / "cache":
                    joined = run.join(given, cache)
                    for t in range(20):
                        got = [given[p] for p in joined.batch(t)]
                        self.assertEqual(got, run.example_ids(run.batch(t)).tolist())
            self.assertGreater(sum(len(run.batch(t)) for t in range(20)), 50)

    @runs.needs("pyarrow")
    def test_cache_is_used_and_is_of_its_ids(self):
        run, ids = minsep.Run(runs._formed("numbers", 20, 3, ())), runs.ids_of("numbers", 100)
        cache = self.folder / "cache"
        first = run.join(ids, cache).batch(0).tolist()
        (file,) = cache.iterdir()
        before = file.stat()
        self.assertEqual(run.join(ids, cache).batch(0).tolist(), first)
        self.assertEqual(file.stat().st_mtime_ns, before.st_mtime_ns)
        self.assertEqual(run.join(ids[::-1], cache).batch(0).tolist(), [99 - p for p in first])
        self.assertEqual(len(list(cache.iterdir())), 2)
        file.write_bytes(file.read_bytes()[:-8])
        with self.assertRaisesRegex(minsep.RunDirectoryError, "size does not fit"):
            run.join(ids, cache)

    @runs.needs("pyarrow")
    def test_ids_that_do_not_serve(self):
        import pyarrow

        for kind, other in ("numbers", "text"), ("text", "numbers"):
            run, ids = minsep.Run(runs._formed(kind, 20, 3, ())), runs.ids_of(kind, 100)
            kept = set(run.example_ids(range(run.examples)).tolist())
            first = next(i for i in ids if i in kept)
            for given, words in [
                (ids + [first], "1 example of the run is in them more than once, the first is .*: an id must name one position in your data"),
                ([first] + ids, "more than once"),
                ([i for i in ids if i != first], f"1 of the {len(kept)} examples of the run is missing from them, the first is .*: give the ids of all examples"),
                ([], "are missing from them"),
                (runs.ids_of(other, 100), "as the run has them"),
                ([float(n) for n in range(100)], "as the run has them"),
                (pyarrow.table({"id": ids}), "must be one column, such as"),
            ]:
                with self.subTest(kind=kind, words=words), self.assertRaisesRegex(ValueError, words):
                    run.join(given)

    def test_numbered_examples_need_no_table(self):
        run = minsep.Run(runs._formed("numbered", 20, 3, ()))
        ids = np.random.default_rng(1).permutation(95)
        joined = run.join(ids)
        for t in range(20):
            self.assertEqual(ids[joined.batch(t)].tolist(), run.batch(t).tolist())
            self.assertEqual(run.example_ids(run.batch(t)).tolist(), run.batch(t).tolist())
        with self.assertRaisesRegex(ValueError, "1 of the 90"):
            run.join(np.arange(1, 91))

    @runs.needs("pyarrow")
    def test_rows_that_there_are_not(self):
        run = minsep.Run(runs._formed("numbers", 20, 3, ()))
        for rows in ([-1], [run.examples], [0.5], [[0]]):
            with self.assertRaises(ValueError):
                run.example_ids(rows)


class Noise(runs.Case):
    def test_values_of_every_split(self):
        for extra in ("--shards", "1"), ("--shards", "4", "--steps-per-file", "7"), ("--shards", "5", "--dtype", "float64"):
            path = self.noisy(20, 33, *extra)
            facts = json.loads((path / "noise" / "index.json").read_text())["facts"]
            n, size = facts["shards"], facts["steps_per_file"]
            want = np.concatenate([
                np.concatenate([np.load(f) for f in sorted((path / "noise" / f"shard-{s:05d}-of-{n:05d}").iterdir())]) for s in range(n)
            ], axis=1)
            self.assertEqual(want.shape, (20, 33))
            run = minsep.Run(path)
            for step in [*range(20), 3, 19, 0]:
                self.assertTrue(np.array_equal(run.noise(step), want[step]))
                for shards in (1, 2, 7, 33):
                    parts = [run.noise(step, s, shards) for s in range(shards)]
                    self.assertEqual({len(p) for p in parts} - {33 // shards, 33 // shards + 1}, set())
                    self.assertTrue(np.array_equal(np.concatenate(parts), want[step]))
            self.assertEqual(size, 7 if "7" in extra else 1000)
            self.assertEqual((run.noise_multiplier, run.clip_norm, run.coordinates), (1.3, 1.0, 33))
            self.assertTrue(np.array_equal(np.rint(want / run.grid) * run.grid, want))

    def test_only_the_recipe(self):
        run = minsep.Run(self.noisy(20, 33, runs.RECIPE_ONLY))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "only the recipe"):
            run.noise(0)
        self.assertEqual(run.noise_multiplier, 1.3)

    def test_arguments(self):
        run = minsep.Run(self.noisy())
        for arguments in (-1,), (20,), (0, 1, 1), (0, -1, 2):
            with self.assertRaises(IndexError):
                run.noise(*arguments)
        for shards in (0, 34):
            with self.assertRaises(ValueError):
                run.noise(0, 0, shards)
        with self.assertRaises(ValueError):
            run.noise(0)[0] = 1


class Pickled(runs.Case):
    @runs.needs("pyarrow")
    def test_a_run_that_was_read_goes_to_another_process(self):
        """As those of a loader: mapped files cannot, and are mapped there anew."""
        joined = minsep.Run(self.noisy()).join(runs.ids_of("numbers", 100)[::-1])
        for run in minsep.Run(self.noisy()), joined, minsep.Run(self.owned()):
            before = len(pickle.dumps(run))
            rows = lambda r, t: (r.batch(t).rows if r.examples_per_owner else r.batch(t)).tolist()
            batches, noise, ids = [rows(run, t) for t in range(run.steps)], run.noise(3).tobytes(), run.example_ids([5, 7]).tolist()
            text = pickle.dumps(run)
            self.assertEqual(len(text), before)  # nothing that was read goes along
            there = pickle.loads(text)
            self.assertEqual([rows(there, t) for t in range(run.steps)], batches)
            self.assertEqual((there.noise(3).tobytes(), there.example_ids([5, 7]).tolist()), (noise, ids))
            self.assertEqual(there.fingerprint, run.fingerprint)


class Certificate(runs.Case):
    def test_what_is_not_certified_is_not_claimed(self):
        run = minsep.Run(self.noisy())
        for name in "epsilon", "delta":
            with self.assertRaisesRegex(minsep.NotCertifiedError, "minsep account makes one"):
                getattr(run, name)
        verdict = run.inspect()
        self.assertEqual((verdict.state, verdict.certified), ("not certified", False))
        self.assertTrue(verdict.text.startswith("NOT CERTIFIED: "))

    def test_certified(self):
        path = self.noisy(20, 33, runs.RECIPE_ONLY, "--grid", "none")
        copy = self.copied(path)
        strategy = runs.ROOT / f"{path.name}.json"
        (copy / "noise" / "recipe.json").unlink()
        (copy / "noise" / "index.json").unlink()
        (copy / "noise").rmdir()
        runs.minsep("account", "--bounded", copy, "--scheme", "b-min-sep", "--steps", 20, "--min-sep", 3, "--batch-size", 6, "--strategy", strategy,
                    "--epsilon", 8, "--delta", "1e-3", "--samples", 20000, "--out", copy, "--quiet")
        run = minsep.Run(copy)
        self.assertEqual((run.epsilon, run.delta), (8.0, 1e-3))
        self.assertEqual(run.noise_multiplier, json.loads((copy / "certificate.json").read_text())["noise_multiplier"])
        self.assertTrue(run.inspect().certified)
        text = (copy / "certificate.json").read_text()
        (copy / "certificate.json").write_text(text.replace('"status": "verified"', '"status": "estimated"'))
        with self.assertRaisesRegex(minsep.NotCertifiedError, "estimated"):
            minsep.Run(copy).epsilon
        (copy / "certificate.json").write_text(text.replace('"epsilon": 8', '"epsilon": 7'))
        broken = minsep.Run(copy).inspect()
        self.assertEqual((broken.state, broken.certified), ("broken", False))

    def test_step_noise(self):
        """Of DP-SGD itself it is that of DP-SGD; noise that was made without a certificate does not say."""
        path = self.copied(self.owned())
        self.assertAlmostEqual(minsep.Run(path).step_noise, 1, delta=0.01)
        with self.assertRaisesRegex(minsep.NotCertifiedError, "made without a certificate"):
            minsep.Run(self.noisy()).step_noise
        index = path / "noise" / "index.json"
        whole = index.read_text()
        for wrong in "0", "-1", "true", '"1"', "1e999":
            index.write_text(re.sub(r'"step_noise": [0-9.e-]+', f'"step_noise": {wrong}', whole))
            with self.assertRaises(minsep.RunDirectoryError, msg=wrong):
                minsep.Run(path)
        index.write_text(re.sub(r'"step_noise": [0-9.e-]+', '"step_noise": 1.2', whole))
        self.assertIn("the noise of one step relative to DP-SGD's is as the index says", minsep.Run(path).inspect().text)

    def test_a_training_that_nothing_certifies(self):
        warnings.simplefilter("default", minsep.NotCertifiedWarning)
        path = self.own_noisy()
        with self.assertWarnsRegex(minsep.NotCertifiedWarning, f"^nothing certifies the noise of this training.*: {path}/certificate.json: there is no certificate: minsep account makes one.*make the run by") as caught:
            minsep.StepGuard(minsep.Run(path))
        self.assertEqual(caught.filename, __file__)
        self.assertEqual(len(caught.warnings), 1)

        def silent(run, **options):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                minsep.StepGuard(run, folder=self.folder, **options).close()
            self.assertEqual([w for w in caught if w.category is minsep.NotCertifiedWarning], [])

        silent(minsep.Run(self.owned()))
        silent(minsep.Run(self.formed()))  # it has no noise: whose else, the package does not know
        silent(minsep.Run(path), rank=1, ranks=2, gather=runs.agreeing)  # the host that keeps the record says it
        copy = self.copied(self.owned())
        text = (copy / "certificate.json").read_text()
        multiplier = minsep.Run(copy)._certificate()["noise_multiplier"]
        for words, changed in {
            rf"is for a noise multiplier of {1.01 * multiplier:.6g}, and that of the noise is ": text.replace(f'"noise_multiplier": {multiplier}', f'"noise_multiplier": {1.01 * multiplier}'),
            "has status 'estimated', which certifies nothing": text.replace('"verified"', '"estimated"'),
            "one of the certificate and the batches samples owners": text.replace('"format": 2', '"format": 1'),
            "is for another sampler than that of the batches": re.sub(r'("prob": ?)[0-9.e-]+', r"\g<1>0.5", text),
            "not JSON": text[:-9],
        }.items():
            self.assertNotEqual(changed, text)
            (copy / "certificate.json").write_text(changed)
            self.assertRegex(minsep.Run(copy)._uncertified(), words)

    def test_the_command_is_named_where_it_is_missing(self):
        run = minsep.Run(self.formed(), command="no-such-command")
        with self.assertRaisesRegex(minsep.MissingPackageError, "MINSEP_COMMAND"):
            run.inspect()

    def test_words_of_the_command(self):
        from minsep import _command

        with self.assertRaises(minsep.UsageError) as caught:
            _command.output(["inspect", str(self.folder / "nothing")])
        self.assertEqual(caught.exception.code, 2)
        self.assertNotRegex(str(caught.exception), "^minsep: ")


class Pad(runs.Case):
    def test_against_enumeration(self):
        for n, multiple, ranks in itertools.product(range(0, 14), (1, 2, 4, 6), (1, 2)):
            batch = np.arange(100, 100 + n, dtype=np.int32)
            if multiple % ranks:
                with self.assertRaises(ValueError):
                    minsep.pad(batch, multiple, 0, ranks)
                continue
            parts = [minsep.pad(batch, multiple, r, ranks) for r in range(ranks)]
            whole = np.concatenate(parts)
            size = next(s for s in itertools.count(multiple, multiple) if s >= n)
            self.assertEqual(whole.tolist(), batch.tolist() + [-1] * (size - n))
            self.assertEqual({len(p) for p in parts}, {size // ranks})
            self.assertEqual(whole.dtype, np.int32)

    def test_sizes(self):
        for n, want in (0, 4), (4, 4), (5, 16), (16, 16):
            self.assertEqual(len(minsep.pad(np.arange(n), [16, 4])), want)
        with self.assertRaisesRegex(ValueError, "larger than the largest of the sizes"):
            minsep.pad(np.arange(17), [4, 16])

    def test_unsigned_and_empty(self):
        self.assertEqual(minsep.pad(np.array([3], np.uint32), 2).tolist(), [3, -1])
        self.assertEqual(minsep.pad(np.array([], np.int64), 3).tolist(), [-1, -1, -1])

    def test_faults(self):
        batch = np.arange(3)
        for arguments in (0,), ([],), ([4, 0],), (4, 2, 2), (4, -1, 2), (5, 0, 2):
            with self.assertRaises(ValueError):
                minsep.pad(batch, *arguments)
        for bad in (np.arange(3.0), np.zeros((2, 2), int)):
            with self.assertRaises(ValueError):
                minsep.pad(bad, 4)
