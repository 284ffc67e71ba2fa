"""Clipped sums of gradients that are not made before: bounds of norms, what an example more moves, and layers of every kind."""

from __future__ import annotations

import math
import unittest
from fractions import Fraction
from unittest import mock

import numpy as np

import minsep

from . import runs
from .test_private import Training, needs_func


def exact(values):
    """Numbers of a tensor as fractions, in an array of objects."""
    array = values.detach().double().numpy()
    return np.array([Fraction(float(x)) for x in array.ravel()], dtype=object).reshape(array.shape)


def gradient(part, i):
    """The gradient of an example as a part has it, without rounding."""
    from minsep._torchclip import Stored

    if isinstance(part, Stored):
        return exact(part.values[i])
    total = np.full((part.left.shape[2], part.right.shape[2]), Fraction(0), dtype=object)
    for left, right in zip(exact(part.left[i]), exact(part.right[i])):
        total = total + np.outer(left, right)
    for row, values in zip(part.ids[i].tolist(), exact(part.looked[i])):
        total[row] = total[row] + values
    return total.reshape(part.shape)


def gradients(parts, i):
    return {name: gradient(part, i) for name, part in parts.items()}


def square(tree):
    return sum((sum(x * x for x in np.ravel(leaf)) for leaf in tree.values()), Fraction(0))


def summed(parts, norm, grid, padding=None, owners=None, ghost=None):
    from minsep._torchclip import each_sum

    return dict(each_sum(parts, norm, grid, padding, owners, ghost))


def moves(parts, norm, grid, owners=None):
    """The square of the farthest that one example more, or one owner, moves the sum."""
    whole, farthest = summed(parts, norm, grid, None, owners), Fraction(0)
    numbers = np.arange(next(iter(parts.values())).count) if owners is None else owners
    for j in np.unique(numbers):
        rest = summed(parts, norm, grid, numbers == j, owners)
        farthest = max(farthest, square({name: exact(whole[name]) - exact(rest[name]) for name in whole}))
    return farthest


def ghost_sum(parts, keep, owners, size, norm, grid, most=1024):
    """The sum of a step of ghost clipping of the rows keep, in microbatches of a size, and where owners are given of whole owners."""
    from minsep._torchclip import Ghost, each_sum, round_once
    from minsep._torchsum import microbatches

    ghost = Ghost.of(most, 1 if owners is None else len(owners), size)
    if owners is not None:
        keep = keep[np.argsort(owners[keep], kind="stable")]
    total = {name: 0 for name in parts}
    for a, b in microbatches(len(keep), size, None if owners is None else owners[keep]):
        few = {name: part.chosen(keep[a:b, None]) for name, part in parts.items()}
        for name, found in each_sum(few, norm, grid, None, None if owners is None else owners[keep[a:b]], ghost):
            total[name] = total[name] + found
    return {name: round_once(x, grid) for name, x in total.items()}


def ghost_moves(parts, owners, size, norm, grid):
    """The square of the farthest that one example more, or one owner, moves the sum of a step of ghost clipping."""
    numbers = np.arange(parts["w"].count) if owners is None else owners
    whole, farthest = ghost_sum(parts, np.arange(len(numbers)), owners, size, norm, grid), Fraction(0)
    for j in np.unique(numbers):
        keep = np.flatnonzero(numbers != j)
        rest = ghost_sum(parts, keep, owners, size, norm, grid) if len(keep) else {name: x * 0 for name, x in whole.items()}
        farthest = max(farthest, square({name: exact(whole[name]) - exact(rest[name]) for name in whole}))
    return farthest


class Parts:
    def parts(self, model, loss, *batch):
        import torch

        from minsep import _layers, _private

        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        module = _private._Loss(model, loss)

        def one(params, *example):
            return torch.func.functional_call(module, {f"model.{name}": p for name, p in params.items()}, tuple(x[None] for x in example))

        make = _layers.Layers(model).gradients(one, _private._mapped, trained)
        return make({name: p.detach() for name, p in trained.items()}, *batch)


class Sums(Training, Parts):
    def random_parts(self, rng, kind, most=4):
        """Parts of few small numbers, of every kind; of huge ones that cancel, of none, of one place, and so on."""
        import torch

        from minsep._torchclip import Product, Stored

        n, places, more = (1 if kind == "one" else int(rng.integers(1, most + 1)), 1 if kind == "place" else int(rng.integers(0, 5)), 0 if kind == "place" else int(rng.integers(0, 4)))
        rows, cols = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32

        def some(*shape):
            x = rng.standard_normal(shape) * float(rng.choice([1e-3, 1, 30, 1e15 if kind == "huge" else 1]))
            return torch.tensor(x, dtype=dtype) * (0 if kind == "zero" else 1)

        left, right = some(n, places, rows), some(n, places, cols)
        if kind == "cancels" and places:
            left, right = torch.cat([left * 1e6, -left * 1e6], 1), torch.cat([right * 1e6, right * 1e6], 1)
            left[:, 0, 0] += 1
        ids = torch.tensor(rng.integers(0, rows, (n, more)))
        return {"w": Product(left, right, ids, some(n, more, cols), (rows, cols)), "b": Stored(some(n, cols)), "s": Stored(some(n))}

    KINDS = "plain", "one", "place", "zero", "huge", "bfloat16", "cancels"

    @needs_func
    def test_norms_are_bounds(self):
        rng = np.random.default_rng(1)
        for trial in range(140):
            self.check_norms(self.random_parts(rng, self.KINDS[trial % 7])["w"])

    def check_norms(self, product):
        squares, _ = product.squares()
        terms = (product.left.double().norm(dim=2) * product.right.double().norm(dim=2)).sum(1) + product.looked.double().norm(dim=2).sum(1)
        for i in range(product.count):
            want = square({"w": gradient(product, i)})
            self.assertGreaterEqual(Fraction(float(squares[i])) * (1 + Fraction(2) ** -40), want)
            self.assertLessEqual(float(squares[i]), float(want) * (1 + 1e-9) + 1e-12 * float(terms[i]) ** 2 + 1e-300)

    @needs_func
    def test_norms_without_their_bound_are_too_small(self):
        from minsep import _torchclip

        rng = np.random.default_rng(2)
        with mock.patch.object(_torchclip, "gamma", lambda k: 0.0), self.assertRaises(AssertionError):
            for _ in range(100):
                self.check_norms(self.random_parts(rng, "cancels")["w"])

    @needs_func
    def test_an_example_or_owner_more(self):
        """The sum moves by no more than the clip norm, in exact arithmetic, and by what the example alone has."""
        rng = np.random.default_rng(3)
        norm, farthest = minsep.ClipNorm(1.5), Fraction(0)
        for trial in range(140):
            parts = self.random_parts(rng, self.KINDS[trial % 7])
            for room in 2**16, 3, 1:  # blocks of several examples, and of a part of one
                for owners in None, rng.integers(-1, 3, parts["s"].count):
                    for grid in 2.0**-12, 2.0**-30:
                        with mock.patch("minsep._torchclip._room", lambda device: room):
                            moved = moves(parts, norm, grid, owners)
                        self.assertLessEqual(moved, Fraction(norm) ** 2)
                        farthest = max(farthest, moved)
        self.assertGreater(farthest, Fraction(norm * 0.999) ** 2)

    @needs_func
    def test_ghost_clipping_an_example_or_owner_more(self):
        """The rounded sum of a step moves by no more than the clip norm, though later examples move to other microbatches."""
        rng = np.random.default_rng(6)
        norm, farthest = minsep.ClipNorm(1.5), Fraction(0)
        for trial in range(105):
            parts = self.random_parts(rng, self.KINDS[trial % 7], 7)
            for owners in None, rng.integers(0, 4, parts["s"].count):
                for size, grid in (1, 2.0**-12), (2, 2.0**-6), (3, 2.0**-30), (None, 2.0**-6):
                    moved = ghost_moves(parts, owners, size, norm, grid)
                    self.assertLessEqual(moved, Fraction(norm) ** 2)
                    farthest = max(farthest, moved)
        self.assertGreater(farthest, Fraction(norm * 0.998) ** 2)

    @needs_func
    def test_ghost_clipping_needs_smaller_factors(self):
        import torch

        from minsep import _torchclip

        def few(count, cancels):  # the rows that every second example looked up are huge, and add up to nothing
            looked = torch.randn(count, 2, 9, generator=torch.Generator().manual_seed(count))
            if cancels:
                looked[1::2, 0] *= 1e16
                looked[1::2, 1] = -looked[1::2, 0]
            return {"w": _torchclip.Product(torch.zeros(count, 0, 2), torch.zeros(count, 0, 9), torch.zeros(count, 2, dtype=torch.long), looked, (2, 9))}

        norm = minsep.ClipNorm(1.0)
        far = lambda grid, cancels: max(ghost_moves(few(count, cancels), None, 2, norm, grid) for count in range(3, 12))
        for cancels in False, True:
            self.assertLessEqual(far(2.0**-6, cancels), Fraction(norm) ** 2)
            self.assertLessEqual(far(2.0**-40, cancels), Fraction(norm) ** 2)
        with mock.patch.object(_torchclip.Ghost, "norm", lambda self, norm, grid, coordinates: norm):
            self.assertGreater(far(2.0**-6, False), Fraction(norm) ** 2)
        with mock.patch.object(_torchclip.Ghost, "absolute", lambda self, norm, places: math.inf):
            self.assertGreater(far(2.0**-40, True), Fraction(norm) ** 2)

    @needs_func
    def test_a_tied_weight_whose_uses_cancel(self):
        """Its coordinates that are left are too small to show in the norm of all: one place, and lookups that take the others away."""
        import torch

        from minsep._torchclip import Ghost, Product, round_once

        for count, rows in (1, 2000), (4, 2000), (4, 9000):
            left = torch.full((1, 1, rows), 2.0**-26.6)
            left[0, 0, :count] = 1
            right = torch.tensor([[[2.0**30, 0]]])
            parts = {"w": Product(left, right, torch.arange(count)[None], -right.expand(1, count, 2).clone(), (rows, 2))}
            for ghost in None, Ghost.of(256, 1, 8):
                found = summed(parts, minsep.ClipNorm(1.0), 2.0**-30, ghost=ghost)["w"]
                moved = float((round_once(found, 2.0**-30) / 2.0**-30).square().sum()) * 2.0**-60  # of integers: exact
                self.assertLessEqual(moved, 1)
                self.assertGreater(moved, 1e-3)

    @needs_func
    def test_blocks_and_products_of_integers(self):
        """Sums by parts are those of the gradients themselves, bit for bit, where no product rounds, whatever the size of blocks."""
        import torch

        from minsep._torchclip import Product, Stored

        rng, norm, grid = np.random.default_rng(4), minsep.ClipNorm(2.0**20), 2.0**-8
        for trial in range(40):
            n, places, more, rows, cols = (int(x) for x in rng.integers([1, 0, 0, 1, 1], [4, 4, 4, 6, 6]))
            few = lambda *shape: torch.tensor(rng.integers(-9, 10, shape), dtype=torch.float32)
            product = Product(few(n, places, rows), few(n, places, cols), torch.tensor(rng.integers(0, rows, (n, more))), few(n, more, cols), (rows, cols))
            stored = Stored(torch.tensor(np.array([gradient(product, i).astype(float) for i in range(n)])))
            owners = rng.integers(0, 2, n) if trial % 2 else None
            want = summed({"w": stored}, norm, grid, None, owners)["w"]
            for room in 2**16, 7, 1:
                with mock.patch("minsep._torchclip._room", lambda device: room):
                    for part in stored, product:
                        self.assertTrue(torch.equal(summed({"w": part}, norm, grid, None, owners)["w"], want) or owners is not None)
                        np.testing.assert_allclose(summed({"w": part}, norm, grid, None, owners)["w"], want, atol=3 * grid)

    @needs_func
    def test_terms_that_cancel(self):
        import torch

        from minsep import _torchclip

        def parts(seed):  # its first example's terms are 2^60 times its gradient
            g = torch.Generator().manual_seed(seed)
            left, right = torch.randn(4, 6, 3, generator=g), torch.randn(4, 6, 2, generator=g)
            left[0, 3:], right[0, :3] = -left[0, :3] * 2.0**30, right[0, :3] * 2.0**30
            left[0, :3], right[0, 3:] = left[0, :3] * 2.0**30, right[0, :3]
            return {"w": _torchclip.Product(left, right, torch.zeros(4, 0, dtype=torch.long), torch.zeros(4, 0, 2), (3, 2))}

        norm, grid = minsep.ClipNorm(1.0), 2.0**-30
        books = [parts(seed) for seed in range(20)]
        for one in books:
            self.assertLessEqual(moves(one, norm, grid), Fraction(norm) ** 2)
        with mock.patch.object(_torchclip, "gamma", lambda k: 1e-300):  # no norm knows of roundings
            self.assertGreater(max(moves(one, norm, grid) for one in books), Fraction(norm) ** 2)

    @needs_func
    def test_what_is_not_finite_counts_as_zero(self):
        import torch

        rng, norm, grid = np.random.default_rng(5), minsep.ClipNorm(1.0), 2.0**-20
        for bad in math.inf, -math.inf, math.nan:
            for where in "left", "right", "looked", "b":
                parts = self.random_parts(rng, "plain")
                while parts["b"].count < 2 or not parts["w"].left.shape[1] or not parts["w"].looked.shape[1]:
                    parts = self.random_parts(rng, "plain")
                first = np.arange(parts["b"].count) == 0
                want = summed(parts, norm, grid, first)
                (parts["b"].values if where == "b" else getattr(parts["w"], where))[0].flatten()[0] = bad
                for padding in None, first:
                    found = summed(parts, norm, grid, padding)
                    for name in want:
                        self.assertTrue(torch.equal(found[name], want[name]), (bad, where))

    # Models

    def models(self):
        """Models of layers of every kind, with a loss and examples."""
        import torch
        from torch import nn

        class Tied(nn.Module):
            """A language model whose head is its embedding, with two uses of one more layer."""

            def __init__(self):
                super().__init__()
                self.words, self.places, self.norm = nn.Embedding(7, 4, padding_idx=2), nn.Embedding(5, 4), nn.LayerNorm(4)
                self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 7, bias=False)
                self.head.weight, self.scale = self.words.weight, nn.Parameter(torch.tensor(1.5))

            def forward(self, x):
                h = self.words(x) + self.places(torch.arange(x.shape[1])[None])
                h = self.norm(torch.tanh(self.inner(torch.tanh(self.inner(input=h)))) * self.scale)
                return self.head(h)

        class Elsewhere(nn.Module):
            """A layer whose weight is used outside of it too."""

            def __init__(self):
                super().__init__()
                self.layer, self.other = nn.Linear(5, 5), nn.Linear(5, 2)

            def forward(self, x):
                return self.other(torch.tanh(self.layer(x)) + nn.functional.linear(x, self.layer.weight))

        g = torch.Generator().manual_seed(3)
        words = torch.randint(0, 7, (6, 5), generator=g)
        line = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(6, 2), nn.GroupNorm(1, 2))
        image = nn.Sequential(nn.Conv2d(2, 3, (3, 2), (2, 1), (1, 0), (1, 2)), nn.Tanh(), nn.Conv2d(3, 9, 2, bias=False), nn.Tanh(), nn.Conv2d(9, 9, 2, groups=3), nn.Flatten())
        frozen = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 2, bias=False))
        frozen[0].weight.requires_grad_(False)
        attention = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
        squares = lambda model, x: model(x).square().sum()
        yield "tied", Tied(), lambda model, x: nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:]), (words,)
        yield "line", line, squares, (torch.randn(6, 1, 5, generator=g),)
        yield "image", image, squares, (torch.randn(6, 2, 6, 6, generator=g),)
        yield "frozen", frozen, squares, (torch.randn(6, 5, generator=g),)
        yield "elsewhere", Elsewhere(), squares, (torch.randn(6, 5, generator=g),)
        yield "attention", attention, squares, (torch.randn(3, 6, 4, generator=g),)
        yield "long", nn.Linear(3, 2), squares, (torch.randn(4, 50, 3, generator=g),)

    @needs_func
    def test_parts_of_models(self):
        import torch

        for name, model, loss, batch in self.models():
            if name == "attention":
                continue  # its fast path looks at values
            with self.subTest(name):
                parts = self.parts(model, loss, *batch)
                trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
                self.assertEqual(list(parts), list(trained))
                for i in range(len(batch[0])):
                    value = loss(model, *(x[i : i + 1] for x in batch))
                    want = dict(zip(trained, torch.autograd.grad(value, list(trained.values()))))
                    for n, g in gradients(parts, i).items():
                        np.testing.assert_allclose(g.astype(float), want[n].double().numpy(), atol=3e-5 * (1 + float(want[n].abs().max())), err_msg=n)

    @needs_func
    def test_steps_by_hand(self):
        for name, model, loss, batch in self.models():
            if name in ("attention", "long"):
                continue
            for microbatch, clipping in (None, "example"), (2, "example"), (1, "example"), (None, "ghost"), (2, "ghost"):
                with self.subTest(name, microbatch=microbatch, clipping=clipping):
                    self.folder = self.folder / f"{name}{microbatch}{clipping}"
                    self.folder.mkdir()
                    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
                    run = minsep.Run(self.own_noisy(20, count))
                    data = [x[np.arange(100) % len(x)] for x in batch]
                    training = self.begin(run, model, loss=loss, microbatch=microbatch, clipping=clipping)
                    largest = 0.0
                    for step in range(4):
                        rows = np.array(run.batch(step))
                        examples = [x[rows] for x in data]
                        want = self.by_hand(run, step, model, loss, examples)
                        training.step(*examples)
                        for n, p in model.named_parameters():
                            if p.requires_grad:
                                most = 1e-4 + len(rows) * (3e-4 if clipping == "example" else 1e-3) * run.clip_norm / run.expected_batch_size
                                np.testing.assert_allclose(p.grad.numpy(), want[n], atol=most, err_msg=n)
                                largest = max(largest, float(p.grad.abs().max()))
                    self.assertGreater(largest, 0.1)
                    training.close()

    @needs_func
    def test_an_example_more_of_a_training(self):
        """It moves the sum by no more than the clip norm, whatever the microbatches: dropout's random numbers are those of the row."""
        import itertools

        import torch

        from minsep._torchclip import round_once

        model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
        run, data, rows = minsep.Run(self.own_noisy(20, 39)), self.data().tensors, np.arange(14)

        def farthest(training):
            def total(rows):
                found = training._sum(training._trained(), 0, [], [x[rows] for x in data], rows, 0)
                return round_once(torch.cat([found[name].flatten() for name in sorted(found)]), run.grid)

            return max(float((total(rows) - total(np.delete(rows, j))).norm()) for j in rows)

        for microbatch, clipping in (None, "example"), (1, "example"), (4, "example"), (None, "ghost"), (4, "ghost"):
            with self.subTest(microbatch, clipping=clipping):
                training = self.begin(run, model, microbatch=microbatch, clipping=clipping)
                self.assertLess(farthest(training), run.clip_norm * (1 + 2**-16))
                calls = itertools.count()
                # random numbers of a place, in the batch or in time
                for wrong in (lambda rows: torch.arange(len(rows)), lambda rows: rows + next(calls)):
                    with mock.patch("minsep._private.mixed", wrong):
                        self.assertGreater(farthest(training), run.clip_norm * 1.2)
                training.close()

    @needs_func
    def test_dropout(self):
        """Each value is kept with probability 1 - p, independently of other values, calls and rows."""
        import torch

        from minsep._dropout import Dropout

        def three(seed, x):
            with Dropout(seed):
                return [torch.nn.functional.dropout(x, p) for p in (0.25, 0.25, 0.9)]

        seeds = torch.tensor(np.random.default_rng(1).integers(0, 2**56, 50))
        first, again, few = torch.func.vmap(three)(seeds, torch.ones(50, 40, 50))
        self.assertEqual({0.0, float(torch.tensor(1.0) / 0.75)}, {*first.unique().tolist()})
        for found, kept in (first, 0.75), (again, 0.75), (few, 0.1):
            error = math.sqrt(kept * (1 - kept) / found.numel())
            self.assertLess(abs(float((found > 0).double().mean()) - kept), 6 * error)
        a, b = (first > 0).double() - 0.75, (again > 0).double() - 0.75
        for other in b, a.roll(1, 0), a.roll(1, 1), a.roll(1, 2):
            self.assertLess(abs(float((a * other).mean())), 6 * 0.75 * 0.25 / math.sqrt(a.numel()))
        alone = torch.func.vmap(three)(seeds[7:8], torch.ones(1, 40, 50))
        self.assertTrue(torch.equal(alone[1][0], again[7]))
        x = torch.ones(8)
        with Dropout(seeds[0]):
            self.assertTrue(torch.equal(torch.nn.functional.dropout(x, 1.0), torch.zeros(8)))
            self.assertIs(torch.nn.functional.dropout(x, 0.5, training=False), x)
            torch.nn.functional.dropout(x, 0.5, inplace=True)
        self.assertEqual({0.0, 2.0}, {*x.tolist()})

    @needs_func
    def test_refused(self):
        import torch

        class Sometimes(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.calls = torch.nn.Linear(3, 3), 0

            def forward(self, x):
                self.calls += 1
                return self.layer(x) if self.calls % 2 else self.layer(self.layer(x))

        class Noisy(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x + torch.rand_like(x))

        class Looking(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x) * x.sum().item()

        class Checkpointed(torch.nn.Linear):
            def forward(self, x):
                return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

        run = minsep.Run(self.own_noisy(20, 12))
        batch = [torch.randn(len(run.batch(0)), 3)]
        squares = lambda model, x: model(x).square().sum()
        with self.assertRaisesRegex(ValueError, "does not always call its layers in the same way.*microbatch=1"):
            training = self.begin(run, Sometimes(), loss=squares)
            training.step(*batch)
        training.close()
        with self.assertRaisesRegex(ValueError, "random numbers other than those of dropout.*microbatch=1"):
            training = self.begin(run, Noisy(3, 3), loss=squares)
            training.step(*batch)
        training.close()
        for layer, why in (Looking, r"model or loss calls .item\(\)"), (Checkpointed, "uses torch.utils.checkpoint"):
            with self.assertRaisesRegex(ValueError, rf"cannot make the gradients of several examples at once, at line \d+ of .*test_layers.py.*{why}.* Give microbatch=1"):
                training = self.begin(run, layer(3, 3), loss=squares)
                training.step(*batch)
            training.close()
        with self.assertRaisesRegex(ValueError, 'clipping \'hooks\': must be "example" or "ghost"'):
            self.begin(run, torch.nn.Linear(3, 3), loss=squares, clipping="hooks")
        ghost = self.begin(run, torch.nn.Linear(3, 3), loss=squares, clipping="ghost")._ghost
        with self.assertRaisesRegex(ValueError, r"rounding of a sum of up to \d+ examples and 1 microbatches is too large: give a smaller microbatch"):
            ghost.absolute(run.clip_norm, 2**24)
        with mock.patch("minsep._torchclip.Ghost.norm", lambda self, norm, grid, coordinates: 0.4 * norm), self.assertRaisesRegex(ValueError, "the grid of the noise, .*, is too coarse for 12 coordinates"):
            self.begin(run, torch.nn.Linear(3, 3), loss=squares, clipping="ghost")
        ghost.most = len(batch[0]) - 1
        with mock.patch("minsep._private.Ghost.of", lambda *given: ghost):
            training = self.begin(run, torch.nn.Linear(3, 3), loss=squares, clipping="ghost")
        with self.assertRaisesRegex(ValueError, f'clipping="ghost": a batch has more than {ghost.most}, for which the rounding of its sum is bounded'):
            training.step(*batch)


if __name__ == "__main__":
    unittest.main()
