"""Ghost clipping beside exact gradients: norms, what zero in the place of an example does to a sum, and layers of every kind."""

from __future__ import annotations

import copy
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


def gradients(book, i):
    """The gradient of an example as the book has it, without rounding."""
    found = {}
    for name, shape in book.shapes.items():
        if name in book.gradients:
            found[name] = exact(book.gradients[name][i])
            continue
        p = book.products[name]
        total = np.full(shape, Fraction(0), dtype=object)
        for left, right in zip(exact(p.left[i]), exact(p.right[i])):
            total = total + np.outer(left, right)
        for row, values in zip(p.ids[i].tolist(), exact(p.looked[i])):
            total[row] = total[row] + values
        found[name] = total
    return found


def square(tree):
    return sum((sum(x * x for x in np.ravel(leaf)) for leaf in tree.values()), Fraction(0))


def without(book, i):
    """The book with zero in the place of the gradient of an example."""
    from minsep import _ghost

    def zero(x):
        x = x.clone()
        x[i] = 0
        return x

    products = {name: _ghost.Product(zero(p.left), zero(p.right), p.ids, zero(p.looked)) for name, p in book.products.items()}
    return _ghost.Book(book.count, book.shapes, products, {name: zero(g) for name, g in book.gradients.items()})


def moves(book, norm, grid):
    """The square of the farthest that zero in the place of one example moves the sum."""
    from minsep import _ghost

    whole = _ghost.clip_and_sum(book, norm, grid)
    rest = [_ghost.clip_and_sum(without(book, i), norm, grid) for i in range(book.count)]
    return max(square({name: exact(whole[name]) - exact(other[name]) for name in whole}) for other in rest)


class Books:
    def book(self, model, loss, *batch, together=True):
        from minsep import _ghost, _private

        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        module = _private._Loss(model, loss)

        def one(params, *example):
            import torch

            return torch.func.functional_call(module, {f"model.{name}": p for name, p in params.items()}, tuple(x[None] for x in example))

        make = _ghost.Ghost(model).books(one, _private._mapped if together else None, trained)
        return make({name: p.detach() for name, p in trained.items()}, *batch)


class Ghosts(Training, Books):
    def random_book(self, rng, kind):
        """A book of few small numbers, of parameters of every kind; of huge ones that cancel, of none, of one place, and so on."""
        import torch

        from minsep import _ghost

        n, places, more = (1 if kind == "one" else int(rng.integers(1, 5)), 1 if kind == "place" else int(rng.integers(0, 5)), int(rng.integers(0, 4)))
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
        product = _ghost.Product(left, right, ids, some(n, more, cols))
        return _ghost.Book(n, {"b": (cols,), "s": (), "w": (rows, cols)}, {"w": product}, {"b": some(n, cols), "s": some(n)})

    KINDS = "plain", "one", "place", "zero", "huge", "bfloat16", "cancels"

    @needs_func
    def test_norms_are_bounds(self):
        rng = np.random.default_rng(1)
        for trial in range(140):
            book = self.random_book(rng, self.KINDS[trial % 7])
            for product in book.products.values():
                self.check_norms(product, book.shapes["w"])

    def check_norms(self, product, shape):
        from minsep import _ghost

        squares, majorants = product.norms()
        count = len(squares)
        book = _ghost.Book(count, {"w": shape}, {"w": product}, {})
        for i in range(count):
            want = square(gradients(book, i))
            bound = Fraction(float(squares[i])) * (1 + Fraction(2) ** -40)
            self.assertGreaterEqual(bound, want)
            self.assertLessEqual(float(squares[i]), float(want) * (1 + 1e-9) + 1e-12 * float(majorants[i]) ** 2 + 1e-300)
            self.assertGreaterEqual(float(majorants[i]) ** 2 * (1 + 1e-9), float(want))

    @needs_func
    def test_norms_without_their_bound_are_too_small(self):
        from minsep import _ghost

        rng = np.random.default_rng(2)
        with mock.patch.object(_ghost, "gamma", lambda k: 0.0), self.assertRaises(AssertionError):
            for _ in range(100):
                book = self.random_book(rng, "cancels")
                self.check_norms(book.products["w"], book.shapes["w"])

    @needs_func
    def test_zero_in_the_place_of_an_example(self):
        """The sum moves by no more than the clip norm, in exact arithmetic."""
        rng = np.random.default_rng(3)
        norm, farthest = minsep.ClipNorm(1.5), Fraction(0)
        for trial in range(140):
            book = self.random_book(rng, self.KINDS[trial % 7])
            for grid in 2.0**-12, 2.0**-30, 0.0:
                moved = moves(book, norm, grid)
                self.assertLessEqual(moved, Fraction(norm) ** 2)
                farthest = max(farthest, moved)
        self.assertGreater(farthest, Fraction(norm * 0.999) ** 2)

    @needs_func
    def test_rounding_that_nothing_is_taken_for_moves_the_sum_too_far(self):
        """An example of norm 1 whose coordinates are all just above a half of the grid, so that rounding lengthens it most."""
        import torch

        from minsep import _ghost

        coordinates, grid = 4096, 2.0**-14
        g = torch.full((1, coordinates), 255.501 * grid)
        book, norm = _ghost.Book(1, {"b": (coordinates,)}, {}, {"b": g}), minsep.ClipNorm(float(g.double().norm()) * (1 + 2e-6))
        self.assertLessEqual(moves(book, norm, grid), Fraction(norm) ** 2)
        with mock.patch.object(_ghost, "limit_of", lambda coordinates, clip_norm, grid: clip_norm):
            self.assertGreater(moves(book, norm, grid), Fraction(norm) ** 2)

    @needs_func
    def test_terms_that_cancel(self):
        import torch

        from minsep import _ghost

        def book(seed):  # its first example's terms are 2^60 times its gradient
            g = torch.Generator().manual_seed(seed)
            left, right = torch.randn(4, 6, 3, generator=g), torch.randn(4, 6, 2, generator=g)
            left[0, 3:], right[0, :3] = -left[0, :3] * 2.0**30, right[0, :3] * 2.0**30
            left[0, :3], right[0, 3:] = left[0, :3] * 2.0**30, right[0, :3]
            none = torch.zeros(4, 0, 2)
            return _ghost.Book(4, {"w": (3, 2)}, {"w": _ghost.Product(left, right, torch.zeros(4, 0, dtype=torch.long), none)}, {})

        norm, grid = minsep.ClipNorm(1.0), 2.0**-30
        books = [book(seed) for seed in range(20)]
        for one in books:
            self.assertLessEqual(moves(one, norm, grid), Fraction(norm) ** 2)
        with mock.patch.object(_ghost, "gamma", lambda k: 1e-300):  # neither norms nor majorants know of roundings
            self.assertGreater(max(moves(one, norm, grid) for one in books), Fraction(norm) ** 2)

    @needs_func
    def test_what_is_not_finite_counts_as_zero(self):
        import torch

        from minsep import _ghost

        rng, norm = np.random.default_rng(5), minsep.ClipNorm(1.0)
        for bad in math.inf, -math.inf, math.nan:
            for where in "left", "right", "looked", "b":
                book = self.random_book(rng, "plain")
                while book.count < 2 or not book.products["w"].left.shape[1] or not book.products["w"].looked.shape[1]:
                    book = self.random_book(rng, "plain")
                want = _ghost.clip_and_sum(without(book, 0), norm, 2.0**-20)
                (book.gradients["b"] if where == "b" else getattr(book.products["w"], where))[0].flatten()[0] = bad
                found = _ghost.clip_and_sum(book, norm, 2.0**-20)
                padded = _ghost.clip_and_sum(book, norm, 2.0**-20, np.arange(book.count) == 0)
                for name in want:
                    self.assertTrue(torch.equal(found[name], want[name]), (bad, where))
                    self.assertTrue(torch.equal(padded[name], want[name]))

    # Models

    def models(self):
        """Models of layers of every kind, with a loss and examples, for tests of books."""
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

        g = torch.Generator().manual_seed(3)
        words = torch.randint(0, 7, (6, 5), generator=g)
        conv = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(6, 2), nn.GroupNorm(1, 2))
        frozen = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 2, bias=False))
        frozen[0].weight.requires_grad_(False)
        attention = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
        squares = lambda model, x: model(x).square().sum()
        yield "tied", Tied(), lambda model, x: nn.functional.cross_entropy(model(x)[0, :-1], x[0, 1:]), (words,)
        yield "conv", conv, squares, (torch.randn(6, 1, 5, generator=g),)
        yield "frozen", frozen, squares, (torch.randn(6, 5, generator=g),)
        yield "attention", attention, squares, (torch.randn(3, 6, 4, generator=g),)
        yield "long", nn.Linear(3, 2), squares, (torch.randn(4, 50, 3, generator=g),)

    @needs_func
    def test_books_of_models(self):
        import torch

        for name, model, loss, batch in self.models():
            for together in True, False:
                if name == "attention" and together:
                    continue  # its fast path looks at values
                with self.subTest(name, together=together):
                    book = self.book(model, loss, *batch, together=together)
                    self.assertEqual({"tied": 3, "conv": 1, "frozen": 1, "attention": 2, "long": 1}[name], len(book.products))
                    twin = {n: p for n, p in model.named_parameters() if p.requires_grad}
                    for i in range(len(batch[0])):
                        value = loss(model, *(x[i : i + 1] for x in batch))
                        want = dict(zip(twin, torch.autograd.grad(value, list(twin.values()))))
                        for n, g in gradients(book, i).items():
                            np.testing.assert_allclose(g.astype(float), want[n].double().numpy(), atol=3e-5 * (1 + float(want[n].abs().max())), err_msg=n)

    @needs_func
    def test_steps_by_hand(self):
        for name, model, loss, batch in self.models():
            if name in ("attention", "long"):
                continue
            for microbatch in None, 2, 1:
                with self.subTest(name, microbatch=microbatch):
                    self.folder = self.folder / f"{name}{microbatch}"
                    self.folder.mkdir()
                    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
                    run = minsep.Run(self.own_fixed(20, count))
                    data = [x[np.arange(100) % len(x)] for x in batch]
                    training = self.begin(run, model, loss=loss, microbatch=microbatch, clipping="ghost")
                    largest = 0.0
                    for step in range(4):
                        rows = np.array(run.batch(step))
                        examples = [x[rows] for x in data]
                        want = self.by_hand(run, step, model, loss, examples)
                        training.step(*examples)
                        for n, p in model.named_parameters():
                            if p.requires_grad:
                                most = 1e-4 + len(rows) * 3e-4 * run.clip_norm / run.expected_batch_size
                                np.testing.assert_allclose(p.grad.numpy(), want[n], atol=most, err_msg=n)
                                largest = max(largest, float(p.grad.abs().max()))
                    self.assertGreater(largest, 0.1)
                    training.close()

    @needs_func
    def test_dropout_is_the_same_again(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
        self.assertEqual(39, sum(p.numel() for p in model.parameters()))
        run, data, found = minsep.Run(self.own_fixed(20, 39)), self.data().tensors, []
        saved = None
        for first in 0, 1:
            training = self.begin(run, model, clipping="ghost")
            if saved is not None:
                training.load_state_dict(saved)
            for step in range(first, 3):
                training.step(*(x[np.array(run.batch(step))] for x in data))
                if step == 0:
                    saved = copy.deepcopy(training.state_dict())
            found.append([p.detach().clone() for p in model.parameters()])
            training.close()
        for a, b in zip(*found):
            self.assertTrue(torch.equal(a, b))

    @needs_func
    def test_refused(self):
        import torch

        class Elsewhere(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(5, 3)

            def forward(self, x):
                return self.layer(x) + torch.nn.functional.linear(x, self.layer.weight)

        run = minsep.Run(self.own_fixed(20, 18))
        batch = [x[run.batch(0)] for x in self.data().tensors]
        with self.assertRaisesRegex(ValueError, 'clipping "ghost": the parameter layer.weight is used outside its layer too'):
            self.begin(run, Elsewhere(), clipping="ghost").step(*batch)
        with self.assertRaisesRegex(ValueError, "clipping 'gohst': must be"):
            self.begin(run, Elsewhere(), clipping="gohst")
        owners = minsep.Run(self.owned())
        with self.assertRaisesRegex(ValueError, "this one samples owners"):
            self.begin(owners, torch.nn.Linear(4, 1), clipping="ghost")
        random = minsep.Run(runs.make_noisy(self.folder / "random", 20, 18))
        with self.assertRaisesRegex(ValueError, 'clipping "ghost": is for the scheme fixed, and the batches of .*random take examples at random: .*give clipping="examples"'):
            self.begin(random, Elsewhere(), clipping="ghost")
        coarse = minsep.Run(runs.make_noisy(self.folder / "coarse", 20, 18, runs.BANDED, ("--grid", "0.015625"), "fixed"))
        with self.assertRaisesRegex(ValueError, "takes 6.7% of the clip norm, and may take 0.8%: make the noise with --dtype float64"):
            self.begin(coarse, Elsewhere(), clipping="ghost")


if __name__ == "__main__":
    unittest.main()
