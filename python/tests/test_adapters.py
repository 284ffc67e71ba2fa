"""The adapters with the real packages, where they are installed."""

from __future__ import annotations

import numpy as np

import minsep

from . import runs


class Jax(runs.Case):
    @runs.needs("jax", "grain", "pyarrow")
    def test_grain(self):
        import grain

        from minsep.jax import Steps

        path = self.noisy()
        ids = runs.ids_of("numbers", 100)
        run = minsep.Run(path).join(ids)
        source = [{"x": np.array([i, 2 * i], np.int64)} for i in ids]
        wanted = [[ids[p] for p in run.batch(t)] for t in range(20)]
        parts = []
        for rank in range(2):
            iterator = iter(grain.MapDataset.source(Steps(run, source, 4, rank, 2)).to_iter_dataset())
            first = [next(iterator) for _ in range(7)]
            state = iterator.get_state()
            rest = list(iterator)
            resumed = iter(grain.MapDataset.source(Steps(run, source, 4, rank, 2)).to_iter_dataset())
            resumed.set_state(state)
            again = list(resumed)
            self.assertEqual([r["step"] for r in first + rest], list(range(20)))
            self.assertEqual([r["step"] for r in again], list(range(7, 20)))
            parts.append([[int(x[0]) for x, row in zip(r["examples"]["x"], r["rows"]) if row >= 0] for r in first + again])
            self.assertTrue(all(len(r["rows"]) % 2 == 0 and len(r["rows"]) == len(r["examples"]["x"]) for r in first))
        self.assertEqual([a + b for a, b in zip(*parts)], wanted)

    @runs.needs("jax", "jax_privacy", "optax")
    def test_jax_privacy(self):
        import jax
        from jax_privacy import batch_selection as base

        from minsep import jax as ours

        run = minsep.Run(self.noisy())
        strategy = ours.batch_selection(run)
        self.assertIsInstance(strategy, base.BatchSelectionStrategy)
        for rng in None, 7:
            got = [b.tolist() for b in strategy.batch_iterator(run.examples, rng)]
            self.assertEqual(got, [run.batch(t).tolist() for t in range(20)])
        with self.assertRaisesRegex(ValueError, "the run is of"):
            next(strategy.batch_iterator(run.examples - 1))

        params = {"w": jax.numpy.zeros((11, 3))}
        noise = minsep.read_noise(run, params)
        transform = ours.privatizer(run, noise)
        state = transform.init(params)
        for t in range(20):
            total = ours.clip_and_sum({"w": jax.numpy.ones((2, 11, 3))}, run.clip_norm, run.grid)
            mean, state = transform.update(total, state)
            want = (np.asarray(total["w"]) * run.grid + run.noise(t).reshape(11, 3)) / run.expected_batch_size
            np.testing.assert_allclose(np.asarray(mean["w"]), want, rtol=1e-6, atol=1e-7)
        self.assertEqual(state, 20)

    @runs.needs("jax")
    def test_hosts_that_disagree(self):
        from minsep import jax as ours

        run = minsep.Run(self.noisy())
        ours.same_on_all_hosts(run)
        ours.same_on_all_hosts(run, lambda mine: np.stack([mine, mine]))
        with self.assertRaisesRegex(ValueError, "hosts have other batches"):
            ours.same_on_all_hosts(run, lambda mine: np.stack([mine, mine ^ 1]))


class Torch(runs.Case):
    @runs.needs("torch")
    def test_batch_sampler(self):
        import torch

        from minsep.torch import Batches, collate

        run = minsep.Run(self.noisy())
        data = torch.utils.data.TensorDataset(torch.arange(run.examples))
        for start, ranks in (0, 1), (13, 1), (5, 3):
            parts = []
            for rank in range(ranks):
                loader = torch.utils.data.DataLoader(data, batch_sampler=Batches(run, start, rank, ranks), collate_fn=collate([torch.zeros(0, dtype=torch.long)]))
                self.assertEqual(len(loader), 20 - start)
                parts.append([b.tolist() for (b,) in loader])
            self.assertEqual([sum(p, []) for p in zip(*parts)], [run.batch(t).tolist() for t in range(start, 20)])

    @runs.needs("torch", "opacus")
    def test_opacus(self):
        import opacus
        import torch

        from minsep import torch as ours

        run = minsep.Run(self.own_noisy(20, 33))
        torch.manual_seed(1)
        x, y = torch.randn(run.examples, 10), torch.randint(0, 3, (run.examples,))
        data = torch.utils.data.TensorDataset(x, y)
        model = torch.nn.Linear(10, 3)
        start = [p.detach().clone() for p in model.parameters()]
        loader = torch.utils.data.DataLoader(data, batch_sampler=ours.Batches(run), collate_fn=ours.collate([torch.zeros(0, 10), torch.zeros(0, dtype=torch.long)]))
        wrapped, inner, _ = opacus.PrivacyEngine().make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), data_loader=torch.utils.data.DataLoader(data),
            poisson_sampling=False, noise_multiplier=0.0, max_grad_norm=run.clip_norm, loss_reduction="sum")
        guard = minsep.StepGuard(run)
        for like in dict(model.named_parameters()), list(model.parameters())[::-1], None:
            with self.assertRaisesRegex(ValueError, r"another tree of parameters: give read_noise as like: list\(model.parameters\(\)\)"):
                ours.NoisyOptimizer(inner, run, minsep.read_noise(run, like), guard)
        like = list(model.parameters())
        optimizer = ours.NoisyOptimizer(inner, run, minsep.read_noise(run, like, guard=guard), guard)
        for a, b in loader:
            optimizer.zero_grad()
            if len(a):
                torch.nn.functional.cross_entropy(wrapped(a), b, reduction="sum").backward()
            optimizer.step()
        self.assertEqual(guard.next_step, 20)

        # The same by hand: gradients of each example, NumPy's clipping.
        weight, bias = (p.double().numpy() for p in start)
        for t in range(20):
            rows = run.batch(t)
            logits = x[rows].double().numpy() @ weight.T + bias
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(rows)), y[rows].numpy()] -= 1
            gradients = [p[:, :, None] * x[rows].double().numpy()[:, None, :], p]
            total = minsep.clip_and_sum(gradients, run.clip_norm, run.grid)
            flat = run.noise(t)
            mean = minsep.add_noise(total, [flat[:30].reshape(3, 10), flat[30:]], run.grid, run.expected_batch_size, "float64")
            weight, bias = weight - 0.5 * mean[0], bias - 0.5 * mean[1]
        for got, want in zip(model.parameters(), (weight, bias)):
            np.testing.assert_allclose(got.detach().numpy(), want, atol=2e-4)


class HuggingFace(runs.Case):
    @runs.needs("datasets", "pyarrow")
    def test_rows_of_a_dataset(self):
        import datasets

        ids = runs.ids_of("text", 100)
        data = datasets.Dataset.from_dict({"id": ids, "text": [i * 2 for i in ids]})
        run = minsep.Run(runs._formed("text", 20, 3, ()))
        for given in ids, data["id"]:
            joined = run.join(given)
            for t in range(20):
                self.assertEqual(data[joined.batch(t)]["id"], run.example_ids(run.batch(t)).tolist())
