"""Clipping, summing and adding noise, against rational numbers, in every framework that is here."""

from __future__ import annotations

import collections
import json
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np

import minsep
from minsep import _clip
from minsep._tree import ExamplesClipNorm, ExpectedBatchSize, OwnersClipNorm

from . import runs

EIGHT = ExpectedBatchSize(8)
ONE = minsep.ClipNorm(1.0)
ZETAS = [ONE, minsep.ClipNorm(0.3), minsep.ClipNorm(2.0**-70), minsep.ClipNorm(7e4)]


def cases(rng, trials, width):
    """Batches with corners: none, one, zeros, exactly on the norm, huge, tiny, not finite, padding. With a width, of few shapes and grids: each is compiled."""
    for trial in range(trials):
        zeta = ZETAS[trial % len(ZETAS)]
        grid = 2.0 ** int(np.floor(np.log2(zeta)) - (rng.integers(3, 18) if width is None else (3, 8, 12, 17)[trial % 4]))
        n, d = (int(rng.integers(0, 6)), int(rng.integers(1, 40))) if width is None else (5, width)
        x = rng.standard_normal((n, d)) * zeta * np.exp(rng.normal(0, 3, (n, 1)))
        for i in range(n):
            corner = rng.integers(0, 8)
            if corner == 0:
                x[i] = 0
            elif corner == 1:
                x[i] *= zeta / np.linalg.norm(x[i])
            elif corner == 2:
                x[i] = np.sign(x[i]) * zeta
            elif corner == 3:
                x[i, 0] = [np.nan, np.inf, -np.inf][trial % 3]
            elif corner == 4:
                x[i] = np.rint(x[i] / grid) * grid
        padding = rng.integers(0, 4, n) == 0
        yield zeta, grid, x.astype(np.float32), padding


def exact(x, zeta, slack):
    """One clipped gradient in rational numbers, before the grid: clipped to a norm within slack below zeta."""
    if not np.isfinite(x).all():
        return [Fraction(0)] * len(x)
    values = [Fraction(float(v)) for v in x]
    norm2 = sum(v * v for v in values)
    limit = Fraction(zeta) * (1 - Fraction(slack))
    if norm2 <= limit * limit:
        return values
    root = Fraction(float(np.sqrt(np.float64(float(norm2 / Fraction(zeta) ** 2))))) * Fraction(zeta)
    return [v * limit / root for v in values]


class Clip(runs.Case):
    def check(self, clip, slack, error, trials=60, width=None):
        """clip(x, zeta, grid, padding) gives multiples of the grid, as many as rational numbers give or one less, and none too large."""
        rng = np.random.default_rng(3)
        clipped = 0
        for zeta, grid, x, padding in cases(rng, trials, width):
            total = clip(x, zeta, grid, padding)
            self.assertEqual(total.shape, x.shape[1:])
            alone = np.zeros(x.shape[1])
            for i in range(len(x)):
                one = clip(x[i : i + 1], zeta, grid, padding[i : i + 1])
                alone += one
                units = [Fraction(v) / Fraction(grid) for v in one.tolist()]
                self.assertTrue(all(u.denominator == 1 for u in units), "off the grid")
                self.assertLessEqual(sum(u * u for u in units) * Fraction(grid) ** 2, Fraction(zeta) ** 2, "the norm is above zeta")
                want = exact(x[i], zeta, slack) if not padding[i] else [Fraction(0)] * x.shape[1]
                for u, w in zip(units, want):
                    self.assertLessEqual(abs(u), abs(w) / Fraction(grid) * (1 + Fraction(error)), "a coordinate has grown")
                    self.assertGreater(abs(u), abs(w) / Fraction(grid) * (1 - Fraction(error)) - 1, "a coordinate was cut too much")
                norm = np.linalg.norm(x[i].astype(np.float64))
                clipped += np.isfinite(norm) and norm > zeta
            self.assertEqual(total.tolist(), alone.tolist(), "sums are not exact")
        self.assertGreater(clipped, trials // 2)

    def check_tree(self, clip, array):
        """The norm is over all leaves."""
        total = clip({"b": array([[3.0]]), "a": array([[[4.0, 0.0]]])}, ONE, 2.0**-10)
        self.assertAlmostEqual(float(np.asarray(total["b"])[0]), 0.6, delta=2.0**-9)
        self.assertAlmostEqual(float(np.asarray(total["a"])[0, 0]), 0.8, delta=2.0**-9)
        for bad in ({"a": array([[1.0]]), "b": array([[1.0], [2.0]])}, {"a": array(1.0)}):
            with self.assertRaisesRegex(ValueError, "examples as its first dimension"):
                clip(bad, ONE, 2.0**-10)
        for zeta, grid in (0.0, 0.5), (-1.0, 0.5), (1.0, 0.3), (1.0, -0.5), (float("nan"), 0.5):
            with self.assertRaises(ValueError):
                clip({"a": array([[1.0]])}, minsep.ClipNorm(zeta), grid)

    def takes_the_norm_of_the_run(self, clip, array):
        """As it comes, or as ClipNorm: a plain number would not be what the noise is for, nor know that owners are sampled."""
        for run in minsep.Run(self.noisy()), minsep.Run(self.owned()):
            owners = None if run.examples_per_owner is None else array([0, 1])
            gradients = np.zeros((2, run.coordinates))
            gradients[:, 0] = 3, 4
            for norm in run.clip_norm, pickle.loads(pickle.dumps(run.clip_norm)), ONE:
                clip(array(gradients), norm, run.grid, None, owners)
            for norm in 5.0, 1, run.clip_norm * 1.0, float(run.clip_norm), np.float64(run.clip_norm), None, minsep.ClipNorm(5.0), minsep.ClipNorm(0.5):
                with self.assertRaisesRegex(ValueError, r"clip_norm .*: must be run.clip_norm, as it comes.*minsep noise --clip-norm.*minsep.ClipNorm\("):
                    clip(array(gradients), norm, pickle.loads(pickle.dumps(run.grid)), None, owners)
            self.takes_whole_gradients(clip, array, run, owners)

    def takes_whole_gradients(self, clip, array, run, owners):
        """Layers that are clipped each on its own, or the parts of hosts, make the sum larger than the noise is for."""
        for d in (0, run.coordinates - 1, run.coordinates + 1):
            for gradients in {"w": array(np.ones((2, d)))}, {"b": array(np.ones((2, d // 2))), "w": array(np.ones((2, d - d // 2)))}:
                for norm in run.clip_norm, pickle.loads(pickle.dumps(run.clip_norm)):
                    with self.assertRaisesRegex(ValueError, rf"gradients: have {d} coordinates? for each example, and a gradient of this run has {run.coordinates}: .*all parameters in one call.*over all hosts"):
                        clip(gradients, norm, run.grid, None, owners)
        clip({"w": array(np.ones((2, run.coordinates + 1)))}, minsep.ClipNorm(run.clip_norm), run.grid, None, owners)

    def test_numpy_takes_the_norm_of_the_run(self):
        self.takes_the_norm_of_the_run(minsep.clip_and_sum, np.asarray)

    @runs.needs("torch")
    def test_torch_takes_the_norm_of_the_run(self):
        import torch

        from minsep import torch as ours

        self.takes_the_norm_of_the_run(ours.clip_and_sum, torch.tensor)

    @runs.needs("jax")
    def test_jax_takes_the_norm_of_the_run(self):
        import jax

        from minsep import jax as ours

        compiled = jax.jit(ours.clip_and_sum, static_argnums=(1, 2))
        self.takes_the_norm_of_the_run(compiled, np.asarray)
        compiled(np.ones((2, 1), np.float32), ExamplesClipNorm(1.0), 0.5)
        with self.assertRaisesRegex(ValueError, "owners: must be given for this run"):  # though the number is the same
            compiled(np.ones((2, 1), np.float32), OwnersClipNorm(1.0), 0.5)
        with self.assertRaisesRegex(ValueError, "in jax.jit as a static argument"):
            jax.jit(lambda x, norm: ours.clip_and_sum(x, norm, 0.5))(np.ones((2, 1), np.float32), ONE)

    def test_numpy(self):
        self.check(lambda x, z, g, p: minsep.clip_and_sum(x, z, g, p), _clip.SLACK, 2.0**-45)
        self.check_tree(minsep.clip_and_sum, np.array)
        with self.assertRaisesRegex(ValueError, "one entry for each"):
            minsep.clip_and_sum(np.zeros((3, 2)), ONE, 0, [True])

    def test_without_a_grid(self):
        x = np.random.default_rng(1).standard_normal((5, 7))
        want = sum(row / max(1, np.linalg.norm(row)) for row in x)
        np.testing.assert_allclose(minsep.clip_and_sum(x, ONE, 0), want, rtol=1e-5)

    @runs.needs("jax")
    def test_jax(self):
        import jax

        from minsep import jax as ours

        compiled = jax.jit(ours.clip_and_sum, static_argnums=(1, 2))

        def clip(x, zeta, grid, padding):
            total = compiled(x, zeta, grid, padding)
            self.assertEqual(total.dtype, np.int32)
            return np.asarray(total).astype(np.float64) * grid

        self.check(clip, ours.SLACK, 2.0**-18, trials=12, width=37)
        self.check_tree(lambda *a: jax.tree_util.tree_map(lambda v: np.asarray(v) * a[2], ours.clip_and_sum(*a)), jax.numpy.array)
        with self.assertRaisesRegex(ValueError, "larger --grid"):
            ours.clip_and_sum(jax.numpy.zeros((1025, 2)), ONE, 2.0**-20)
        small = np.full((1, 1), 0.9999 * 2.0**-12.5, np.float32)  # added one by one to 1, the squares of such leaves would be lost
        total = ours.clip_and_sum([np.ones((1, 1), np.float32), *[small] * 400], ONE, 2.0**-28)
        self.assertLess(np.linalg.norm(np.asarray(total, np.float64) * 2.0**-28), 1.0)
        wide = np.full((1, 2**22), 1.0, np.float32)  # added one by one, the norm would come out too small
        units = np.asarray(compiled(wide, ONE, 2.0**-26)).astype(np.float64) * 2.0**-26
        self.assertLessEqual(np.linalg.norm(units), 1.0)
        self.assertGreater(np.linalg.norm(units), 0.99)

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        self.check(lambda x, z, g, p: ours.clip_and_sum(torch.tensor(x), z, g, p).numpy(), _clip.SLACK, 2.0**-45)
        self.check_tree(ours.clip_and_sum, torch.tensor)


class OneMore(runs.Case):
    """One example or owner more moves a sum by no more than the clip norm, and by its own part alone, whatever is computed together."""

    GRID = 2.0**-12

    def adversarial(self, seed):
        """Gradients that rounding changes most: on the norm and around it, halves of the grid, huge, tiny, opposite, not finite."""
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((9, 7))
        x /= np.linalg.norm(x, axis=1)[:, None]
        x[1] *= 1 + 2.0**-22
        x[2] *= 1e30
        x[3] = (np.arange(7) * 64 + 0.5) * self.GRID
        x[4] = -x[0]
        x[5, 2] = [np.nan, np.inf, -np.inf][seed % 3]
        x[6] = 7**-0.5
        x[7] *= 1e-30
        return x.astype(np.float32)

    def check(self, total, owners, seeds=range(4), microbatches=(1, 2, 4, None)):
        """total(x, rows, owners, microbatch) gives multiples of the grid. A row that is absent is padding, or left out with an odd seed."""
        farthest = 0.0
        for seed in seeds:
            x = self.adversarial(seed)
            numbers = np.array([3, 0, 1, 0, 0, 2, 3, 1, 4]) if owners else np.arange(len(x))
            for microbatch in microbatches:
                def moved(keep):
                    rows = np.where(keep, np.arange(len(x)), -1)[: len(x) if seed % 2 else None]
                    given = np.flatnonzero(keep) if seed % 2 else np.arange(len(x))  # left out, or padding
                    return np.asarray(total(x[given], rows[given], np.where(keep, numbers, -1)[given] if owners else None, microbatch), np.float64)

                whole = moved(numbers >= 0)
                for j in np.unique(numbers):
                    difference = whole - moved(numbers != j)
                    self.assertLessEqual(sum(Fraction(v) ** 2 for v in difference.tolist()) * Fraction(self.GRID) ** 2, 1)
                    np.testing.assert_array_equal(difference, moved(numbers == j))
                    farthest = max(farthest, float(np.linalg.norm(difference)) * self.GRID)
        self.assertGreater(farthest, 0.98)

    @staticmethod
    def norm(owners):
        return OwnersClipNorm(1.0) if owners else ExamplesClipNorm(1.0)

    def test_numpy(self):
        for owners in False, True:
            self.check(lambda x, rows, of, microbatch: minsep.clip_and_sum(x, self.norm(owners), self.GRID, rows < 0, of) / self.GRID, owners)

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        for owners in False, True:
            def total(x, rows, of, microbatch):
                clipped = ours.clipped_sum(lambda params, x: (params["a"] * x).sum(), self.norm(owners), self.GRID, microbatch)
                return clipped({"a": torch.zeros(7)}, rows, torch.tensor(x), owners=of)["a"] / self.GRID

            self.check(total, owners)

    @runs.needs("jax")
    def test_jax(self):
        import jax

        from minsep import jax as ours

        for owners in False, True:
            functions = {m: jax.jit(ours.clipped_sum(lambda params, x: (params * x).sum(), self.norm(owners), self.GRID, m)) for m in (2,)}
            self.check(lambda x, rows, of, microbatch: functions[microbatch](np.zeros(7, np.float32), rows, x, owners=of), owners, range(2), (2,))


class Microbatches(runs.Case):
    """Parts of a batch add up to the bits of the whole, padding in any place."""

    def problem(self, rng, count):
        x = rng.standard_normal((count, 7)).astype(np.float32) * np.exp(rng.normal(0, 2, (count, 1))).astype(np.float32)
        if count > 2:
            x[1, 3] = np.nan
        return x, rng.integers(0, 3, count) == 0

    @runs.needs("jax")
    def test_jax(self):
        import jax
        import jax.numpy as jnp

        from minsep import jax as ours

        rng, grid = np.random.default_rng(5), 2.0**-12
        params = {"a": jnp.zeros(7), "b": (jnp.zeros((2, 3)), jnp.zeros(()))}

        def loss(params, x, label):  # linear, so that its gradients are the same whatever is computed beside them
            return params["a"] @ x["v"] + (params["b"][0] * label).sum() + params["b"][1] * x["v"][0]

        gradients, clip = jax.vmap(jax.grad(loss), (None, 0, 0)), jax.jit(ours.clip_and_sum, static_argnums=(1, 2))
        for count, sizes in (0, [2]), (1, [2]), (7, [1, 3, None]):
            x, padding = self.problem(rng, count)
            batch = {"v": jnp.asarray(x)}, jnp.asarray(rng.standard_normal((count, 2, 3)), jnp.float32)
            found = jax.jit(gradients)(params, *batch)
            for size in sizes:
                total = jax.jit(ours.clipped_sum(loss, ONE, grid, size))
                for marks in padding, np.arange(count) > 1:
                    parts = total(params, np.where(marks, -1, np.arange(count)), *batch)
                    jax.tree_util.tree_map(np.testing.assert_array_equal, parts, clip(found, ONE, grid, marks))
                    self.assertEqual({leaf.dtype.name for leaf in jax.tree_util.tree_leaves(parts)}, {"int32"})
        without = jax.jit(ours.clipped_sum(loss, ONE, 0, 2))(params, np.arange(7), *batch)
        jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), without, clip(found, ONE, 0))
        self.refused(ours.clipped_sum, loss, params, batch)

    @runs.needs("jax")
    def test_jax_in_64_bits(self):
        """Sums are int32 where a program has switched on jax_enable_x64, and take noise."""
        program = (
            "import jax, numpy as np, minsep, minsep.jax as dp\n"
            "jax.config.update('jax_enable_x64', True)\n"
            "total = dp.clip_and_sum(np.ones((3, 2)), minsep.ClipNorm(1.0), 2.0**-10)\n"
            "parts = dp.clipped_sum(lambda p, x: (p * x).sum(), minsep.ClipNorm(1.0), 2.0**-10, 2)(np.zeros(2), np.arange(3), np.ones((3, 2)))\n"
            "assert total.dtype == parts.dtype == np.int32 and (total == parts).all()\n"
            "print(dp.add_noise(parts, np.zeros(2, np.float32), 2.0**-10, 1).dtype)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.stdout.strip(), "float32", done.stderr)

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        rng, grid = np.random.default_rng(6), 2.0**-12
        params = {"a": torch.zeros(7), "b": torch.zeros(2, 3)}

        def loss(params, x, label):
            return (params["a"] * x).sum() + (params["b"] * label).sum()

        for count in 0, 1, 6, 7:
            x, padding = self.problem(rng, count)
            batch = torch.tensor(x), torch.tensor(rng.standard_normal((count, 2, 3)), dtype=torch.float32)
            for marks in padding, torch.tensor(padding), None, np.arange(count) > 1:
                whole = ours.clip_and_sum(ours.per_example(loss)(params, *batch), ONE, grid, marks)
                for microbatch in 1, 2, 3, 6, 100, None:
                    rows = np.arange(count) if marks is None else np.where(np.asarray(marks), -1, np.arange(count))
                    parts = ours.clipped_sum(loss, ONE, grid, microbatch)(params, torch.tensor(rows) if microbatch == 2 else rows, *batch)
                    for name, value in whole.items():
                        self.assertTrue(torch.equal(parts[name], value), (count, microbatch, name))
        self.refused(ours.clipped_sum, loss, params, batch)

    def refused(self, clipped_sum, loss, params, batch):
        for wrong in 0, -1, 2.0, True, "8":
            with self.assertRaisesRegex(ValueError, "microbatch .*at least 1, or None"):
                clipped_sum(loss, ONE, 0, wrong)
        rows = np.arange(len(batch[1]))
        with self.assertRaisesRegex(ValueError, "must be run.clip_norm"):
            clipped_sum(loss, 1.0, 0, 2)(params, rows, *batch)
        with self.assertRaisesRegex(ValueError, "larger --grid"):  # of the whole batch, and not of a part
            clipped_sum(loss, minsep.ClipNorm(2.0**30), 2.0**-23, 1)(params, rows, *batch)
        with self.assertRaisesRegex(ValueError, "owners: must be given for this run"):
            clipped_sum(loss, OwnersClipNorm(1.0), 0, 2)(params, rows, *batch)
        with self.assertRaisesRegex(ValueError, "owners: must be left out for this run"):
            clipped_sum(loss, ExamplesClipNorm(1.0), 0, 2)(params, rows, *batch, owners=rows)
        with self.assertRaisesRegex(ValueError, "owners: must be one whole number for each"):
            clipped_sum(loss, OwnersClipNorm(1.0), 0, 2)(params, rows, *batch, owners=rows[1:])
        with self.assertRaisesRegex(ValueError, "must have one example for each of the rows"):
            clipped_sum(loss, ONE, 0, 2)(params, rows[1:], *batch)
        for wrong in rows[:, None], rows < 3, rows.astype(float), list(rows), batch[1], 3:
            with self.assertRaisesRegex(ValueError, "rows: must be the rows of the batch, .*f\\(params, rows"):
                clipped_sum(loss, ONE, 0, 2)(params, wrong, *batch)
        with self.assertRaisesRegex(ValueError, "rows: must be batch.rows where owners are sampled, with owners=batch.owners"):
            clipped_sum(loss, ONE, 0, 2)(params, minsep.OwnerBatch(rows, np.arange(len(rows) + 1)), *batch)
        with self.assertRaisesRegex(ValueError, "examples as its first dimension"):
            clipped_sum(loss, ONE, 0, 2)(params, rows, batch[0], batch[1][:3])

    def of_owners(self, clipped_sum, clip_and_sum, gradients, array, loss, params):
        """The sum of the clipped means of owners, whatever the parts: one that is in several of them, rows of padding, and rows that are not together."""
        rng, grid = np.random.default_rng(8), 2.0**-10
        functions = [clipped_sum(loss, OwnersClipNorm(1.0), grid, microbatch) for microbatch in (1, 3, None)]
        for case in range(12):
            sizes = rng.integers(1, 6, rng.integers(1, 5))
            numbers = np.repeat(np.arange(len(sizes)), sizes)
            if case % 3 == 2:
                rng.shuffle(numbers)
            owners = np.concatenate([numbers, np.full(20 - len(numbers), -1)]).astype(np.int32)
            rows = np.where(owners < 0, -1, np.arange(len(owners)))
            x = array((3 * rng.standard_normal((len(owners), 7))).astype(np.float32))
            y = array(rng.standard_normal((len(owners), 2, 3)).astype(np.float32))
            want = clip_and_sum(gradients(params, x, y), OwnersClipNorm(1.0), grid, None, owners)
            for function in functions:
                found = function(params, rows, x, y, owners=owners)
                for name in want:
                    a, b = (np.asarray(tree[name], np.float64) / (grid if np.asarray(tree[name]).dtype.kind == "f" else 1) for tree in (found, want))
                    np.testing.assert_allclose(a, b, rtol=0, atol=len(sizes), err_msg=f"{case} {name}")  # in multiples of the grid
            exact = sum(np.clip(1 / np.linalg.norm(g), 0, 1) * g for g in (np.concatenate([np.asarray(x)[owners == o].mean(0), np.asarray(y)[owners == o].mean(0).ravel()]) for o in range(len(sizes))))
            got = np.concatenate([np.asarray(found[name], np.float64).ravel() * (1 if np.asarray(found[name]).dtype.kind == "f" else grid) for name in ("a", "b")])
            np.testing.assert_allclose(got, exact, rtol=0, atol=2 * grid * len(sizes))

    @runs.needs("jax")
    def test_jax_of_owners(self):
        import jax
        import jax.numpy as jnp

        from minsep import jax as ours

        loss = lambda params, x, label: params["a"] @ x + (params["b"] * label).sum()
        params = {"a": jnp.zeros(7), "b": jnp.zeros((2, 3))}
        clip = jax.jit(ours.clip_and_sum, static_argnums=(1, 2))
        self.of_owners(lambda *more: jax.jit(ours.clipped_sum(*more)), clip, jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0))), jnp.asarray, loss, params)

    @runs.needs("torch")
    def test_torch_of_owners(self):
        import torch

        from minsep import _torchsum, torch as ours

        loss = lambda params, x, label: (params["a"] * x).sum() + (params["b"] * label).sum()
        params = {"a": torch.zeros(7), "b": torch.zeros(2, 3)}
        self.of_owners(ours.clipped_sum, ours.clip_and_sum, ours.per_example(loss), torch.tensor, loss, params)
        for numbers, size, want in ([0, 0, 1, 1, 2], 3, [(0, 2), (2, 5)]), ([0] * 5 + [1], 2, [(0, 5), (5, 6)]), ([], 3, []), ([4, 7, 9], 1, [(0, 1), (1, 2), (2, 3)]):
            self.assertEqual(list(_torchsum._whole_owners(np.array(numbers, int), size)), want)


class Padded(runs.Case):
    """A run whose batches are padded: gradients that do not say which are padding are refused."""

    def refusals(self, clip, array, pad=lambda run: minsep.pad(run.batch(3), 64)):
        run = minsep.Run(self.own_noisy())
        x = array(np.ones((64, 33), np.float32))
        clip(x, run.clip_norm, run.grid)  # nothing was padded yet
        minsep.pad(np.arange(3), 64)  # of another batch
        clip(x, run.clip_norm, run.grid)
        joined = run.join(runs.ids_of("numbers", 100)) if runs.has("pyarrow") else run
        rows = pad(joined)
        for norm in run.clip_norm, joined.clip_norm, minsep.Run(run.path).clip_norm:
            if norm.use is run._use:
                with self.assertRaisesRegex(ValueError, "^is_padding: must be given for this run: minsep.pad has filled its batches .*is_padding=rows < 0"):
                    clip(x, norm, run.grid)
            clip(x, norm, run.grid, array(np.zeros(64, bool)) if rows is None else rows < 0)
        clip(x, minsep.ClipNorm(run.clip_norm), run.grid)

    def test_numpy(self):
        self.refusals(minsep.clip_and_sum, np.asarray)

    @runs.needs("jax")
    def test_jax(self):
        import jax

        import minsep.jax as dp

        self.refusals(dp.clip_and_sum, np.asarray)
        run = minsep.Run(self.folder / "own")
        dp.Steps(run, np.zeros((100, 33)), None, 64)
        with self.assertRaisesRegex(ValueError, "is_padding: must be given"):
            jax.jit(lambda x: dp.clip_and_sum(x, run.clip_norm, run.grid))(np.ones((64, 33), np.float32))

    @runs.needs("torch")
    def test_torch(self):
        import torch

        import minsep.torch as dp

        self.refusals(dp.clip_and_sum, torch.tensor)
        run = minsep.Run(self.folder / "own")
        list(dp.Batches(run, None, 0, 2, start=0))  # leaves padding out
        dp.clip_and_sum(torch.ones(3, 33), run.clip_norm, run.grid)


class AddNoise(runs.Case):
    def test_numpy(self):
        rng = np.random.default_rng(1)
        grid = 2.0**-18
        total = {"a": np.trunc(rng.standard_normal((3, 2)) / grid) * grid, "b": np.zeros(2)}
        noise = {"b": np.ones(2, np.float32), "a": (np.trunc(rng.standard_normal((3, 2)) / grid) * grid).astype(np.float32)}
        mean = minsep.add_noise(total, noise, grid, EIGHT)
        self.assertEqual(mean["a"].tolist(), ((total["a"] + noise["a"]) / 8).astype(np.float32).tolist())
        self.assertEqual(mean["b"].tolist(), [0.125, 0.125])
        for bad in {"a": noise["a"]}, {"a": noise["a"], "b": np.zeros(3)}, {"a": noise["a"], "c": noise["b"]}:
            with self.assertRaises(ValueError):
                minsep.add_noise(total, bad, grid, EIGHT)

    def divides(self, add, array):
        """By the expected batch size of a run as it comes, or by 1; the size of a batch is refused, and what is computed."""
        run = minsep.Run(self.noisy())
        expected = run.expected_batch_size
        total, noise = [array(np.full((3, 2), 1.0))], [np.full((3, 2), 0.5, np.float32)]
        self.assertEqual(np.asarray(add(total, noise, 0.5, expected)[0]).tolist(), [[np.float32(1.5 / 6)] * 2] * 3)
        self.assertEqual(np.asarray(add(total, noise, 0.5, pickle.loads(pickle.dumps(expected)))[0]).tolist(), [[np.float32(1.5 / 6)] * 2] * 3)
        for one in 1, 1.0:
            self.assertEqual(np.asarray(add(total, noise, 0.5, one)[0]).tolist(), [[1.5] * 2] * 3)
        for divisor in 0, -1, float("nan"), float("inf"), 6, 6.0, np.float64(6), np.int64(1), expected * 1, 2 + len(run.batch(1)), None, True:
            with self.assertRaisesRegex(ValueError, "divisor .*: must be run.expected_batch_size, as it comes.*divide the noisy sum yourself"):
                add(total, noise, 0.5, divisor)

    def test_numpy_divides_by_a_constant(self):
        self.divides(minsep.add_noise, np.asarray)

    @runs.needs("torch")
    def test_torch_divides_by_a_constant(self):
        import torch

        from minsep import torch as ours

        self.divides(ours.add_noise, torch.tensor)

    @runs.needs("jax")
    def test_jax_refuses_what_a_float32_does_not_hold(self):
        import minsep.jax as ours

        total, grid = np.zeros(3, np.int32), 2.0**-40
        with self.assertRaisesRegex(ValueError, "^noise: of float64, on a grid too fine for float32.*minsep noise --dtype float32"):
            ours.add_noise(total, np.full(3, 1 + grid), grid, 1)
        ours.add_noise(total, np.full(3, 2.0**-20), grid, 1)

    @runs.needs("jax")
    def test_jax_divides_by_a_constant(self):
        import jax

        from minsep import jax as ours

        self.divides(ours.add_noise, lambda x: jax.numpy.asarray(x * 2, jax.numpy.int32))
        self.divides(jax.jit(ours.add_noise, static_argnums=(2, 3)), lambda x: jax.numpy.asarray(x * 2, jax.numpy.int32))
        expected = ExpectedBatchSize(6)
        total, noise = jax.numpy.ones(2, jax.numpy.int32), jax.numpy.ones(2)
        self.assertEqual(jax.jit(lambda s, z: ours.add_noise(s, z, 1.0, expected))(total, noise).tolist(), [np.float32(2 / 6)] * 2)
        for grid in 0, 1.0:
            with self.assertRaisesRegex(ValueError, "in jax.jit as a static argument"):
                jax.jit(lambda s, z, d: ours.add_noise(s, z, grid, d))(total, noise, expected)

    def test_the_expected_batch_size_is_printed_as_it_is_meant(self):
        expected = ExpectedBatchSize(127.99999999999999)
        self.assertEqual((str(expected), f"{expected}", repr(expected), json.dumps(expected)), ("128", "128", "127.99999999999999", "127.99999999999999"))
        self.assertEqual(expected, 127.99999999999999)

    def refuses(self, add, array):
        """Sums and noise that are not on the grid, in one coordinate of many, and types that are no sums of this module."""
        grid, rng = 2.0**-18, np.random.default_rng(3)
        good = np.trunc(rng.standard_normal((50, 40)) / grid) * grid
        add([array(good)], [good], grid, EIGHT)
        add([array(good / 3)], [good / 7], 0, EIGHT)  # of noise without a grid nothing can be told
        for off in grid / 2, 1e-12, float("nan"), float("inf"), 2.0**53:
            bad = good.copy()
            bad[31, 7] += off
            with self.assertRaisesRegex(ValueError, "total: has values that are not whole multiples of the grid"):
                add([array(bad)], [good], grid, EIGHT)
            with self.assertRaisesRegex(ValueError, "noise: has values that are not whole multiples of the grid.*what read_noise gave"):
                add([array(good)], [bad], grid, EIGHT)
        for kind, most in ("float32", 2**24), ("float16", 2**8):  # beyond, its numbers were rounded: whole multiples all the same
            bad = np.full((50, 40), most, kind)
            add([array(bad)], [bad], 1.0, EIGHT)
            bad[31, 7] *= 2
            with self.assertRaisesRegex(ValueError, "total: has values .*, or larger ones than its type holds"):
                add([array(bad)], [good * 0], 1.0, EIGHT)
            with self.assertRaisesRegex(ValueError, "noise: has values .*, or larger ones than its type holds"):
                add([array(good * 0)], [bad], 1.0, EIGHT)
        with self.assertRaisesRegex(ValueError, "total: of type .*int32: must be floating-point"):
            add([array((good / grid).astype(np.int32))], [good], grid, EIGHT)

    def test_numpy_refuses_what_is_not_rounded(self):
        self.refuses(minsep.add_noise, np.asarray)

    @runs.needs("torch")
    def test_torch_refuses_what_is_not_rounded(self):
        import torch

        from minsep import torch as ours

        self.refuses(ours.add_noise, torch.tensor)

    def test_bfloat16(self):
        values = np.concatenate([np.random.default_rng(1).standard_normal(1000) * 1e3, [0, -0.0, np.inf, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3895e38]])
        got = _clip.cast(values, "bfloat16")
        with unittest_without("ml_dtypes"):
            bits = _clip.cast(values, "bfloat16")
        self.assertEqual(bits.dtype, np.uint16)
        if runs.has("ml_dtypes"):
            self.assertEqual(got.dtype.name, "bfloat16")
            self.assertEqual(got.view(np.uint16).tolist(), bits.tolist())
        back = (bits.astype(np.uint32) << 16).view(np.float32)
        self.assertTrue((abs(back[:1000] - values[:1000]) <= abs(values[:1000]) * 2.0**-8).all())
        with self.assertRaisesRegex(ValueError, "must be float32"):
            _clip.cast(values, "float16")

    @runs.needs("jax")
    def test_jax_adds_exactly(self):
        import jax

        from minsep import jax as ours

        grid, rng = 2.0**-20, np.random.default_rng(2)
        total = rng.integers(-(2**30), 2**30, (5, 200), dtype=np.int32)
        noise = (rng.integers(-(2**24), 2**24 + 1, (5, 200)) * grid).astype(np.float32)
        got = jax.jit(ours.add_noise, static_argnums=(2, 3))({"w": total}, {"w": noise}, grid, 1.0)["w"]
        want = (total.astype(np.float64) * grid + noise).astype(np.float32)
        self.assertEqual(np.asarray(got).tolist(), want.tolist())
        for beyond in (2**24 + 2, 2**31, 2**40):  # would be rounded, or end at the largest int32, and show the sum
            one = {"w": np.array([[beyond, -beyond, 2**24, -(2**24)]]) * grid}
            mean = np.asarray(jax.jit(ours.add_noise, static_argnums=(2, 3))({"w": total[:1, :4]}, one, grid, 1.0)["w"])
            self.assertEqual(np.isnan(mean).tolist(), [[True, True, False, False]])
        for bad in total.astype(np.float32), total[0]:
            with self.assertRaisesRegex(ValueError, "must be the result of clip_and_sum"):
                ours.add_noise({"w": bad}, {"w": noise}, grid, 1.0)

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        total, noise = torch.ones(3, 2, dtype=torch.float64), np.full((3, 2), 0.5, np.float32)
        noise.flags.writeable = False
        got = ours.add_noise([total], [noise], 0.5, ExpectedBatchSize(4))
        self.assertEqual((got[0].dtype, got[0].tolist()), (torch.float32, [[0.375] * 2] * 3))
        self.assertEqual(ours.add_noise(total, noise, 0.5, ExpectedBatchSize(4), torch.bfloat16).dtype, torch.bfloat16)
        with self.assertRaises(ValueError):
            ours.add_noise(total, noise[0], 0.5, ExpectedBatchSize(4))


class unittest_without:
    """Hides a package."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        import sys

        self.kept = sys.modules.get(self.name)
        sys.modules[self.name] = None

    def __exit__(self, *_):
        import sys

        if self.kept is None:
            del sys.modules[self.name]
        else:
            sys.modules[self.name] = self.kept


class Trees(runs.Case):
    def test_round_trip(self):
        from minsep import _tree

        Pair = collections.namedtuple("Pair", "x y")
        tree = {"b": [np.zeros(2), (np.ones(3),)], "a": Pair(np.zeros(1), {"z": np.zeros(4)}), "c": {}}
        leaves, build = _tree.flatten(tree)
        self.assertEqual([p for p, _ in leaves], ["/a/0", "/a/1/z", "/b/0", "/b/1/0"])
        again = build([leaf for _, leaf in leaves])
        self.assertEqual(list(again), ["a", "b", "c"])
        self.assertIsInstance(again["a"], Pair)
        self.assertIs(again["b"][1][0], tree["b"][1][0])

    @runs.needs("jax")
    def test_order_is_that_of_jax(self):
        import jax

        from minsep import _tree

        tree = {"b": [np.zeros(2), (np.ones(3),)], "a": {"z": np.zeros(4), "y": np.zeros(5)}}
        self.assertEqual([leaf.size for _, leaf in _tree.flatten(tree)[0]], [leaf.size for leaf in jax.tree_util.tree_leaves(tree)])
