"""Batches of sampled owners: against the files, padded, and clipped once for each owner."""

from __future__ import annotations

import json
import shutil

import numpy as np

import minsep
from minsep import _batches

from . import runs


def groups_of(path, step):
    """The rows of each owner of a step, read from the files one number after the other."""
    facts = json.loads((path / "batches" / "index.json").read_text())["facts"]
    for shard in range(facts["shards"]):
        indptr, rows, owners = (np.load(path / "batches" / f"{kind}-{shard:05d}-of-{facts['shards']:05d}.npy").tolist() for kind in ("indptr", "rows", "owners"))
        if step >= len(indptr) - 1:
            step -= len(indptr) - 1
            continue
        found = []
        for first, end in zip(owners[:-1], owners[1:]):
            if indptr[step] <= first < indptr[step + 1]:
                found.append([row for row in rows[first:end] if row >= 0])
        return [group for group in found if group]


class Batches(runs.Case):
    def test_groups_are_those_of_the_files(self):
        for extra in (), ("--max-batch-size", "9", "--pad"):
            path = self.owned(*extra)
            run = minsep.Run(path)
            self.assertEqual((run.examples_per_owner, run.expected_batch_size), (3, json.loads((path / "batches" / "index.json").read_text())["facts"]["expected_batch_size"]))
            several = 0
            for t in [*range(12), 3]:
                batch = run.batch(t)
                want = groups_of(path, t)
                self.assertEqual([group.tolist() for group in batch], want)
                self.assertEqual(len(batch), len(want))
                self.assertEqual(batch.rows.tolist(), [row for group in want for row in group])
                self.assertEqual(batch.owners.tolist(), [i for i, group in enumerate(want) for _ in group])
                several += any(len(group) > 1 for group in want)
            self.assertGreater(several, 6)

    def test_max_rows(self):
        self.assertIsNone(minsep.Run(self.owned()).max_rows)
        for extra in ("--max-batch-size", "9", "--pad"), ("--max-batch-size", "2"):
            run = minsep.Run(self.owned(*extra))
            self.assertEqual((run.max_batch_size, run.max_rows), (int(extra[1]), 3 * int(extra[1])))
            self.assertEqual({len(minsep.pad(run.batch(t), run.max_rows).rows) for t in range(run.steps)}, {run.max_rows})
            self.assertLessEqual(max(len(run.batch(t)) for t in range(run.steps)), run.max_batch_size)

    def test_rows_are_of_one_owner_each(self):
        run = minsep.Run(self.owned())
        owner = lambda e: e // 6 if e % 7 else e // 6 + 1000
        for t in range(run.steps):
            of = [set(map(owner, run.example_ids(group).tolist())) for group in run.batch(t)]
            self.assertTrue(all(len(owners) == 1 for owners in of))
            self.assertEqual(len(set().union(*of)), len(of))

    @runs.needs("pyarrow")
    def test_joined(self):
        run = minsep.Run(self.owned())
        ids = np.random.default_rng(1).permutation(200)
        joined = run.join(ids)
        for t in range(run.steps):
            batch = joined.batch(t)
            self.assertEqual(ids[batch.rows].tolist(), run.example_ids(run.batch(t).rows).tolist())
            self.assertEqual(batch.offsets.tolist(), run.batch(t).offsets.tolist())

    def test_certificate_and_noise(self):
        run = minsep.Run(self.owned())
        self.assertEqual((run.epsilon, run.delta), (8, 1e-3))
        self.assertTrue(run.inspect().certified)
        self.assertEqual(run.noise(0).shape, (5,))
        copy = self.copied(self.owned())
        text = (copy / "certificate.json").read_text()
        (copy / "certificate.json").write_text(text.replace('"format": 2', '"format": 1'))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "one of the certificate and the batches samples owners"):
            minsep.Run(copy).epsilon

    def test_is_no_array_of_rows(self):
        batch = minsep.Run(self.owned()).batch(0)
        for use in np.asarray, np.array, lambda b: np.zeros(300)[b], lambda b: b >= np.zeros(len(b.rows)):
            with self.assertRaisesRegex(TypeError, "owners=batch.owners"):
                use(batch)

    def test_damaged(self):
        def spoil(change):
            path = self.folder / "spoilt"
            runs.shutil.rmtree(path, ignore_errors=True)
            runs.shutil.copytree(self.owned(), path)
            name = "owners-00000-of-00002.npy"
            owners = change(np.load(path / "batches" / name), np.load(path / "batches" / "indptr-00000-of-00002.npy"))
            np.save(self.folder / "owners.npy", owners)
            runs.replace(path / "batches", name, (self.folder / "owners.npy").read_bytes())
            return minsep.Run(path)

        def merged(owners, indptr):  # across the steps
            return np.delete(owners, np.searchsorted(owners, indptr[indptr > 0][0]))  # the first step may be empty

        for words, change in {
            "rise from 0": lambda o, _: o + 1,
            "rise from 0 to": lambda o, _: o[:-1],
            "rise from 0 ": lambda o, _: np.insert(o, 3, o[3]),
            "more than 3 rows": lambda o, _: o[[0, *range(4, len(o))]],
            "in two steps|more than 3 rows": merged,
            "one dimension": lambda o, _: o.reshape(-1, 1),
            "must hold <i8": lambda o, _: o.astype(np.int32),
            "not rise from 0 to the": lambda o, _: o[:0],
        }.items():
            with self.assertRaisesRegex(minsep.RunDirectoryError, words):
                spoil(change).batch(0)
        self.assertEqual(len(spoil(lambda o, _: o).batch(0)), len(minsep.Run(self.owned()).batch(0)))
        path = self.copied(self.owned())
        runs.edit_index(path / "batches", lambda ix: ix.__setitem__("format", "minsep-batches/1"))
        with self.assertRaisesRegex(minsep.RunDirectoryError, "facts that this version cannot read"):
            minsep.Run(path)

    def test_adapters_of_examples_refuse_them(self):
        run = minsep.Run(self.owned())
        with self.assertRaisesRegex(ValueError, "owners are sampled, and a loader clips each example"):
            run._need_examples("a loader")


class Pad(runs.Case):
    def batch(self, *sizes):
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return minsep.OwnerBatch(np.arange(100, 100 + offsets[-1], dtype=np.int32), offsets)

    def test_keeps_owners_whole(self):
        rng = np.random.default_rng(2)
        for _ in range(300):
            batch = self.batch(*rng.integers(1, 5, rng.integers(0, 9)))
            ranks = int(rng.integers(1, 5))
            multiple = ranks * int(rng.integers(1, 4))
            parts = [minsep.pad(batch, multiple, rank, ranks) for rank in range(ranks)]
            self.assertEqual([g.tolist() for part in parts for g in part], [g.tolist() for g in batch])
            sizes = {len(part.rows) for part in parts}
            self.assertEqual(len(sizes), 1)
            self.assertEqual(sizes.pop() * ranks % multiple, 0)
            for part in parts:
                self.assertTrue((part.rows[part.owners < 0] == -1).all())
                self.assertTrue((part.rows[part.owners >= 0] >= 0).all())
                self.assertEqual(part.rows.dtype, batch.rows.dtype)

    def test_sizes(self):
        self.assertEqual(len(minsep.pad(self.batch(), 6).rows), 6)
        self.assertEqual(len(minsep.pad(self.batch(3, 3), 6).rows), 6)
        self.assertEqual(len(minsep.pad(self.batch(2, 2, 2), 6, 0, 2).rows), 6)  # 3 for each host hold no two owners
        self.assertEqual(len(minsep.pad(self.batch(2, 2, 2), [6, 8], 1, 2).rows), 4)
        with self.assertRaisesRegex(ValueError, "larger than the largest of the sizes"):
            minsep.pad(self.batch(2, 2, 2), [6], 0, 2)


class Clip(runs.Case):
    def cases(self):
        rng = np.random.default_rng(4)
        for trial in range(40):
            n, d = int(rng.integers(0, 9)), 7
            owners = rng.integers(-1, 4, n) * (1 if trial % 2 else 10**6 + 1)
            owners[owners < 0] = -1
            x = (rng.standard_normal((n, d)) * np.exp(rng.normal(0, 2, (n, 1)))).astype(np.float32)
            padding = rng.integers(0, 5, n) == 0
            if n and trial % 4 == 0:
                x[rng.integers(n)] = np.nan
            yield x, owners, padding

    def check(self, clip, tolerance):
        """clip(x, zeta, grid, padding, owners) is the sum of the owners' clipped means, each rounded to the grid."""
        grid, several, cut = 2.0**-12, 0, 0
        for x, owners, padding in self.cases():
            want, groups = np.zeros(x.shape[1]), 0
            for owner in sorted(set(owners.tolist()) - {-1}):
                own = x[(owners == owner) & ~padding].astype(np.float64)
                if len(own) == 0 or not np.isfinite(own).all():
                    continue
                mean = own.sum(axis=0) / len(own)
                several, cut, groups = several + (len(own) > 1), cut + (np.linalg.norm(mean) > 1), groups + 1
                want += mean / max(1, np.linalg.norm(mean))
            total = clip(x, minsep.ClipNorm(1), grid, padding, owners)
            self.assertEqual(total.shape, want.shape)
            self.assertTrue((total / grid == np.rint(total / grid)).all())
            self.assertLessEqual(np.abs(total - want).max(initial=0), groups * (grid + tolerance))
            for owner in set(owners.tolist()) - {-1}:  # of one owner the norm is never above zeta, however many gradients it has
                alone = clip(x * 1e3, minsep.ClipNorm(1), grid, padding | (owners != owner), owners)
                self.assertLessEqual(np.linalg.norm(alone), 1.0)
        self.assertGreater(several, 20)
        self.assertGreater(cut, 20)

    def test_numpy(self):
        self.check(minsep.clip_and_sum, 1e-5)
        x = np.ones((3, 2))
        for words, owners in {"one whole number": [0, 1], "one whole number ": [0.0, 1.0, 1.0], "at least 0, or -1": [0, -2, 0]}.items():
            with self.assertRaisesRegex(ValueError, words):
                minsep.clip_and_sum(x, minsep.ClipNorm(1), 0, owners=owners)
        self.assertEqual(minsep.clip_and_sum(x, minsep.ClipNorm(1e9), 0, owners=[0, 0, 0]).tolist(), [1, 1])
        self.assertEqual(minsep.clip_and_sum({"a": x, "b": x[:, 0]}, minsep.ClipNorm(1e9), 0, owners=[0, -1, 7])["b"].tolist(), 2)
        batch = _batches.OwnerBatch(np.arange(3), np.array([0, 2, 3]))
        self.assertEqual(minsep.clip_and_sum(np.array([[2.0], [0.0], [5.0]]), minsep.ClipNorm(1e9), 0, owners=batch.owners).tolist(), [6])

    def must_have_owners(self, clip, array):
        """The clip norm of a run that samples owners is a number, of which clip_and_sum asks for the owners."""
        of_owners, of_examples = minsep.Run(self.owned()), minsep.Run(self.noisy())
        self.assertEqual((of_owners.clip_norm, of_examples.clip_norm), (1.0, 1.0))
        x = array(np.ones((3, of_owners.coordinates), np.float32))
        with self.assertRaisesRegex(ValueError, "owners: must be given for this run, which samples owners: .* Give owners=batch.owners"):
            clip(x, of_owners.clip_norm, of_owners.grid)
        clip(x, of_owners.clip_norm, of_owners.grid, None, array(np.array([0, 0, 1])))
        x = array(np.ones((3, of_examples.coordinates), np.float32))
        clip(x, of_examples.clip_norm, of_owners.grid)
        with self.assertRaisesRegex(ValueError, "owners: must be left out for this run, which samples examples: .*twice the clip norm.*form --sample owners"):
            clip(x, of_examples.clip_norm, of_owners.grid, None, array(np.array([0, 0, 1])))

    def test_numpy_must_have_owners(self):
        self.must_have_owners(minsep.clip_and_sum, np.asarray)

    @runs.needs("jax")
    def test_jax_must_have_owners(self):
        import jax

        from minsep import jax as ours

        self.must_have_owners(ours.clip_and_sum, np.asarray)
        run = minsep.Run(self.owned())
        with self.assertRaisesRegex(ValueError, "owners: must be given"):
            jax.jit(lambda x: ours.clip_and_sum(x, run.clip_norm, run.grid))(np.ones((3, run.coordinates), np.float32))

    @runs.needs("torch")
    def test_torch_must_have_owners(self):
        import torch

        from minsep import torch as ours

        self.must_have_owners(ours.clip_and_sum, torch.tensor)

    @runs.needs("jax")
    def test_jax(self):
        import jax

        from minsep import jax as ours

        jitted = jax.jit(ours.clip_and_sum, static_argnums=(1, 2))

        def clip(x, zeta, grid, padding, owners):
            more = -len(x) % 4  # filled to one of three shapes, each of which is compiled
            x, padding, owners = np.pad(x, ((0, more), (0, 0))), np.pad(padding, (0, more), constant_values=True), np.pad(owners, (0, more), constant_values=-1)
            return np.asarray(jitted(x, zeta, grid, padding, owners)).astype(np.float64) * grid

        self.check(clip, 1e-4)
        with self.assertRaisesRegex(ValueError, "one whole number"):
            ours.clip_and_sum(np.ones((3, 2)), minsep.ClipNorm(1), 0, owners=np.zeros(2, np.int32))

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        def clip(x, zeta, grid, padding, owners):
            return ours.clip_and_sum(torch.tensor(x), zeta, grid, torch.tensor(padding), torch.tensor(owners)).numpy()

        self.check(clip, 1e-5)


class Adapters(runs.Case):
    """Runs in which owners are sampled, in loaders, microbatches and optimizers: the means that NumPy makes of whole batches."""

    def own(self):
        """A run of its own, for a training."""
        path = self.folder / "own"
        shutil.copytree(self.owned() / "bounded", path / "bounded")
        scheme = ["--steps", 12, "--key", runs.key(), "--out", path, "--quiet"]
        runs.minsep("form", "--bounded", path, "--scheme", "poisson", "--batch-size", 4, "--sample", "owners", "--examples-per-owner", 3, *scheme)
        runs.minsep("noise", "--files", "--strategy", runs.ROOT / "owned.json", "--noise-multiplier", 1, "--coordinates", 5, *scheme)
        return minsep.Run(path)

    def data(self, run):
        return (3 * np.random.default_rng(2).standard_normal((run.examples, 5))).astype(np.float32)

    def wanted(self, run, x, t):
        batch = run.batch(t)
        return minsep.clip_and_sum(x[batch.rows], run.clip_norm, run.grid, owners=batch.owners)

    def close(self, run, found, t, x):
        np.testing.assert_allclose(np.asarray(found, np.float64), self.wanted(run, x, t), rtol=0, atol=run.grid * (1 + len(run.batch(t))))

    @runs.needs("torch")
    def test_a_loader_and_microbatches(self):
        import torch

        import minsep.torch as dp

        run = self.own()
        x = self.data(run)
        for ranks in 1, 2:
            batches = [dp.Batches(run, None, rank, ranks, start=0) for rank in range(ranks)]
            clipped = dp.clipped_sum(lambda params, row: (params["w"] * row).sum(), run.clip_norm, run.grid, microbatch=2)
            loaders = [torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(x)), batch_sampler=b, collate_fn=dp.collate((torch.zeros(0, 5),))) for b in batches]
            for t, parts in enumerate(zip(*loaders)):
                total = np.zeros(5)
                for b, (rows,) in zip(batches, parts):
                    mine = b.rows(t)
                    self.assertTrue((mine.rows >= 0).all())
                    total += clipped({"w": torch.zeros(5)}, mine.rows, rows, owners=mine.owners)["w"].numpy()
                self.close(run, total, t, x)
            self.assertEqual(t, 11)

    @runs.needs("torch")
    def test_opacus(self):
        """Parts end anywhere, also within an owner; a part that is left out is refused."""
        import torch

        import minsep.torch as dp

        run = self.own()
        x = self.data(run)
        guard = minsep.StepGuard(run)
        parameter = torch.nn.Parameter(torch.zeros(5))
        optimizer = dp.NoisyOptimizer(torch.optim.SGD([parameter], lr=0.5), run, minsep.read_noise(run, [parameter], guard=guard), guard)
        for t in range(run.steps):
            rows = run.batch(t).rows
            gradients = torch.tensor(x[rows])
            for wrong in {max(len(rows) - 1, 0), len(rows) + 1} - {len(rows)}:
                parameter.grad_sample = torch.ones(wrong, 5)
                with self.assertRaisesRegex(minsep.TrainingError, f"step {t}: the gradients are not those of the batch of this step"):
                    optimizer.step()
                optimizer.zero_grad()
            for part in gradients.split(1 + t % 3) if len(rows) and t % 4 else ():
                parameter.grad_sample = part
                optimizer.accumulate()
            if t % 4 == 0 and len(rows):
                parameter.grad_sample = gradients
            optimizer.step()
            row = run._row(t, 0, 1)
            self.close(run, np.round((parameter.grad.double().numpy() * run.expected_batch_size - row) / run.grid) * run.grid, t, x)
        with self.assertRaisesRegex(minsep.TrainingError, "the run has steps 0 to 11"):
            optimizer.step()

    @runs.needs("jax")
    def test_steps_and_microbatches(self):
        import jax
        import jax.numpy as jnp

        import minsep.jax as dp

        run = self.own()
        x = self.data(run)
        clipped = jax.jit(dp.clipped_sum(lambda w, row: w @ row, run.clip_norm, run.grid, microbatch=4))
        steps = dp.Steps(run, x, None, 24)
        for t in range(run.steps):
            record = steps[t]
            batch = minsep.pad(run.batch(t), 24)
            np.testing.assert_array_equal(record["rows"], batch.rows)
            np.testing.assert_array_equal(record["owners"], batch.owners)
            total = clipped(jnp.zeros(5), record["rows"], record["examples"], owners=record["owners"])
            self.close(run, np.asarray(total, np.float64) * run.grid, t, x)
