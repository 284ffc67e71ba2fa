"""The adapters with the real packages, where they are installed."""

from __future__ import annotations

import json
import os

import numpy as np

import minsep

from . import runs


class Numbered:
    """An example at each position: its number, and the process that it was read in."""

    def __getitem__(self, i):
        return {"x": np.array([i, 2 * i], np.int64), "process": np.int64(os.getpid())}

    def __len__(self):
        return 100


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
            iterator = iter(grain.MapDataset.source(Steps(run, source, None, 4, rank, 2)).to_iter_dataset())
            first = [next(iterator) for _ in range(7)]
            state = iterator.get_state()
            rest = list(iterator)
            resumed = iter(grain.MapDataset.source(Steps(run, source, None, 4, rank, 2)).to_iter_dataset())
            resumed.set_state(state)
            again = list(resumed)
            self.assertEqual([r["step"] for r in first + rest], list(range(20)))
            self.assertEqual([r["step"] for r in again], list(range(7, 20)))
            parts.append([[int(x[0]) for x, row in zip(r["examples"]["x"], r["rows"]) if row >= 0] for r in first + again])
            self.assertTrue(all(len(r["rows"]) % 2 == 0 and len(r["rows"]) == len(r["examples"]["x"]) for r in first))
        self.assertEqual([a + b for a, b in zip(*parts)], wanted)

    @runs.needs("jax", "grain", "pyarrow")
    def test_grain_that_begins_elsewhere_than_the_guard(self):
        import grain

        from minsep.jax import Steps

        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run)

        def records(options=None):
            data = grain.MapDataset.source(Steps(run, np.arange(run.examples), guard, 4))
            return iter(data.to_iter_dataset(options or grain.ReadOptions()))

        iterator = records()  # with threads that read ahead
        for _ in range(5):
            guard.take(next(iterator)["step"])
        state = iterator.get_state()
        for options in None, grain.ReadOptions(num_threads=0, prefetch_buffer_size=0):
            with self.assertRaisesRegex(minsep.TrainingError, "batch of step 0: the guard has taken step 4.*Begin the loader anew at the guard's next step, 5"):
                next(records(options))
        resumed = records()
        resumed.set_state(state)
        for record in resumed:
            guard.take(record["step"])
        self.assertEqual(guard.next_step, 20)

    @runs.needs("jax", "grain", "absl")
    def test_grain_with_worker_processes(self):
        """Two processes make the records: each step comes once and in order, and resumed from a state the rest is the same to the byte."""
        import absl.flags
        import grain

        from minsep.jax import Steps

        if not absl.flags.FLAGS.is_parsed():
            absl.flags.FLAGS.mark_as_parsed()  # as absl.app.run does; Grain reads flags
        run = minsep.Run(self.own_noisy())
        alone, processes = Steps(run, Numbered(), None, 4), set()

        def train(state, last):
            """To a step and no further, from a state or from the beginning. The state after it."""
            guard = minsep.StepGuard(run, state and state["guard"])
            data = grain.MapDataset.source(Steps(run, Numbered(), guard, 4)).to_iter_dataset()
            records = iter(data.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
            if state is not None:
                records.set_state(state["records"])
            for record in records:
                step = guard.next_step
                guard.take(record["step"])
                self.assertEqual(record["rows"].tobytes(), alone[step]["rows"].tobytes())
                self.assertEqual(record["examples"]["x"].tobytes(), alone[step]["examples"]["x"].tobytes())
                processes.update(record["examples"]["process"].tolist())
                if step == last:
                    break
            self.assertEqual(guard.next_step, last + 1)
            state = {"guard": guard.state_dict(), "records": records.get_state()}
            records.close()
            guard.close()
            return json.loads(json.dumps(state))

        train(train(None, 6), 19)
        self.assertEqual((len(processes), os.getpid() in processes), (4, False))

    @runs.needs("jax")
    def test_a_record_in_a_worker_process(self):
        from minsep.jax import Steps

        guard = minsep.StepGuard(minsep.Run(self.own_noisy()))
        steps = Steps(guard._run, np.arange(100), guard, 4)
        for t in range(5):
            guard.take(t)
        there = object.__new__(Steps)
        there.__dict__.update(steps.__getstate__())
        self.assertIsNone(there._guard)
        self.assertEqual(there[4]["step"], 4)
        with self.assertRaisesRegex(minsep.TrainingError, "batch of step 3: the guard has taken step 4"):
            there[3]
        with self.assertRaisesRegex(TypeError, r"guard 64: must be the training's StepGuard, Steps\(run, source, guard, multiple\)"):
            Steps(guard._run, np.arange(100), 64, 1)

    @runs.needs("jax", "jax_privacy", "optax")
    def test_jax_privacy_begins_at_the_guard(self):
        from minsep import jax as ours

        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run)
        strategy = ours.batch_selection(run, guard)
        for rng in 0, 7:
            for t, batch in zip(guard, strategy.batch_iterator(run.examples)):
                self.assertEqual(batch.tolist(), run.batch(t).tolist())
                if t == rng:
                    break
        late = strategy.batch_iterator(run.examples)
        guard.take(8)
        guard.take(9)
        with self.assertRaisesRegex(minsep.TrainingError, "batch of step 8: the guard has taken step 9"):
            next(late)
        with self.assertRaisesRegex(TypeError, "guard 3: must be the training's StepGuard"):
            ours.batch_selection(run, 3)

    @runs.needs("jax", "jax_privacy", "optax")
    def test_jax_privacy(self):
        import jax
        from jax_privacy import batch_selection as base

        from minsep import jax as ours

        run = minsep.Run(self.noisy())
        strategy = ours.batch_selection(run, None)
        self.assertIsInstance(strategy, base.BatchSelectionStrategy)
        for rng in None, 7:
            got = [b.tolist() for b in strategy.batch_iterator(run.examples, rng)]
            self.assertEqual(got, [run.batch(t).tolist() for t in range(20)])
        with self.assertRaisesRegex(ValueError, "the run is of"):
            next(strategy.batch_iterator(run.examples - 1))

        params = {"w": jax.numpy.zeros((11, 3))}
        reader = runs.Reader(run, params)
        transform = ours.privatizer(run, reader.noise)
        state = transform.init(params)
        total = ours.clip_and_sum({"w": jax.numpy.ones((2, 11, 3))}, run.clip_norm, run.grid)
        for t in range(20):
            reader.guard.take(t)
            mean, state = transform.update(total, state)
            want = (np.asarray(total["w"]) * run.grid + run.noise(t).reshape(11, 3)) / run.expected_batch_size
            np.testing.assert_allclose(np.asarray(mean["w"]), want, rtol=1e-6, atol=1e-7)
        self.assertEqual(state, 20)

    @runs.needs("jax")
    def test_scale_by_step_noise(self):
        from minsep.jax import scale_by_step_noise

        run = minsep.Run(self.owned())
        self.assertEqual(scale_by_step_noise(0.5, run), 0.5 * run.step_noise)
        self.assertEqual(scale_by_step_noise(lambda step: 2.0 * step, run)(3), 6 * run.step_noise)
        with self.assertRaisesRegex(TypeError, r"run = minsep\.Run\('somewhere'\), then scale_by_step_noise\(rate, run\)"):
            scale_by_step_noise(0.5, "somewhere")
        with self.assertRaises(minsep.NotCertifiedError):
            scale_by_step_noise(0.5, minsep.Run(self.noisy()))


class Torch(runs.Case):
    @runs.needs("torch")
    def test_scale_by_step_noise(self):
        import torch

        from minsep.torch import scale_by_step_noise

        run = minsep.Run(self.owned())
        weights = [torch.zeros(2, requires_grad=True) for _ in range(2)]
        optimizer = torch.optim.Adam([{"params": [weights[0]]}, {"params": [weights[1]], "lr": 0.3}], lr=0.1)
        self.assertIs(scale_by_step_noise(optimizer, run), optimizer)
        self.assertEqual([g["lr"] for g in optimizer.param_groups], [run.step_noise * 0.1, run.step_noise * 0.3])
        with self.assertRaisesRegex(ValueError, "scaled already"):
            scale_by_step_noise(optimizer, run)
        again = torch.optim.Adam(weights, lr=0.1)
        torch.optim.lr_scheduler.StepLR(again, 1)
        with self.assertRaisesRegex(ValueError, "a scheduler sets them"):
            scale_by_step_noise(again, run)
        self.assertEqual([g["lr"] for g in again.param_groups], [0.1])

    @runs.needs("torch")
    def test_batch_sampler(self):
        import torch

        from minsep.torch import Batches, collate

        run = minsep.Run(self.noisy())
        data = torch.utils.data.TensorDataset(torch.arange(run.examples))
        for start, ranks in (0, 1), (13, 1), (5, 3):
            parts = []
            for rank in range(ranks):
                loader = torch.utils.data.DataLoader(data, batch_sampler=Batches(run, None, rank, ranks, start=start), collate_fn=collate([torch.zeros(0, dtype=torch.long)]))
                self.assertEqual(len(loader), 20 - start)
                parts.append([b.tolist() for (b,) in loader])
            self.assertEqual([sum(p, []) for p in zip(*parts)], [run.batch(t).tolist() for t in range(start, 20)])

    @runs.needs("torch")
    def test_batches_are_those_of_the_guard(self):
        import torch

        from minsep.torch import Batches, collate

        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run)
        data = torch.utils.data.TensorDataset(torch.arange(run.examples))

        def loader(workers):
            return torch.utils.data.DataLoader(data, batch_sampler=Batches(run, guard), collate_fn=collate([torch.zeros(0, dtype=torch.long)]), num_workers=workers)

        def train(loader, last):
            for t, (batch,) in zip(guard, loader):
                self.assertEqual(batch.tolist(), run.batch(t).tolist())
                if t == last:
                    return

        one = loader(0)
        train(one, 2)
        train(one, 4)  # a second loop goes on
        state = guard.state_dict()
        guard.close()
        guard = minsep.StepGuard(run, state)
        two = loader(2)  # which read ahead
        self.assertEqual(len(two), 15)
        train(two, 9)
        for t in guard:
            with self.assertRaisesRegex(minsep.TrainingError, "batch of step 11: the loader begins inside a loop over the guard, which has taken step 10.*zip"):
                next(iter(loader(0)))
            break
        late = iter(loader(0))
        guard.take(11)
        guard.take(12)
        with self.assertRaisesRegex(minsep.TrainingError, "batch of step 11: the guard has taken step 12"):
            next(late)
        train(loader(2), 19)
        self.assertEqual(guard.next_step, 20)

    @runs.needs("torch")
    def test_worker_processes(self):
        """Forked or begun anew, they only read: each batch comes once and in order, after a resume too."""
        import torch

        from minsep.torch import Batches, collate

        run = minsep.Run(self.own_noisy())
        state, processes, got = None, set(), []
        for way, last in ("fork", 6), ("spawn", 19):
            guard = minsep.StepGuard(run, state)
            loader = torch.utils.data.DataLoader(Numbered(), batch_sampler=Batches(run, guard), collate_fn=collate(None), num_workers=2, multiprocessing_context=way)
            for t, batch in zip(guard, loader):
                got.append([] if batch is None else batch["x"][:, 0].tolist())
                processes.update([] if batch is None else batch["process"].tolist())
                if t == last:
                    break
            state = json.loads(json.dumps(guard.state_dict()))
            guard.close()
        self.assertEqual(got, [run.batch(t).tolist() for t in range(20)])
        self.assertEqual((len(processes), os.getpid() in processes), (4, False))

    @runs.needs("torch")
    def test_batches_without_the_guard(self):
        from minsep.torch import Batches

        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run)
        with self.assertRaises(TypeError):
            Batches(run)
        for arguments, options in ((3,), {}), ((None,), {}), ((guard,), {"start": 3}):
            with self.assertRaisesRegex(TypeError, r"guard.*: must be the training's StepGuard, Batches\(run, guard\)"):
                Batches(run, *arguments, **options)
        with self.assertRaisesRegex(ValueError, "guard: belongs to the run in .*, and the batches to another run"):
            Batches(minsep.Run(self.noisy()), guard)

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
        guard = minsep.StepGuard(run)
        loader = torch.utils.data.DataLoader(data, batch_sampler=ours.Batches(run, guard), collate_fn=ours.collate([torch.zeros(0, 10), torch.zeros(0, dtype=torch.long)]))
        wrapped, inner, _ = opacus.PrivacyEngine().make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), data_loader=torch.utils.data.DataLoader(data),
            poisson_sampling=False, noise_multiplier=0.0, max_grad_norm=run.clip_norm, loss_reduction="sum")
        for like in dict(model.named_parameters()), list(model.parameters())[::-1], None:
            guard.close()  # a reader for each tree
            guard = minsep.StepGuard(run)
            noise = minsep.read_noise(run, like, guard=guard)
            with self.assertRaisesRegex(ValueError, r"another tree of parameters: give read_noise as like: list\(model.parameters\(\)\)"):
                ours.NoisyOptimizer(inner, run, noise, guard)
        guard.close()
        guard = minsep.StepGuard(run)
        loader = torch.utils.data.DataLoader(data, batch_sampler=ours.Batches(run, guard), collate_fn=ours.collate([torch.zeros(0, 10), torch.zeros(0, dtype=torch.long)]))
        like = list(model.parameters())
        optimizer = ours.NoisyOptimizer(inner, run, minsep.read_noise(run, like, guard=guard), guard)
        for both in zip(guard, loader), zip(loader, guard):
            with self.assertRaisesRegex(minsep.TrainingError, r"step 0: NoisyOptimizer.step takes the steps of this guard.*loop over the loader alone.*not over `zip\(guard, loader\)`"):
                next(both)
        self.assertEqual(guard.next_step, 0)
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

    @runs.needs("torch")
    def test_gradients_of_another_batch(self):
        """A batch that a loop leaves out or cuts is refused before the step is taken; gradients are for one step."""
        import torch

        import minsep.torch as ours

        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run)
        parameter = torch.nn.Parameter(torch.zeros(33))
        optimizer = ours.NoisyOptimizer(torch.optim.SGD([parameter], lr=0.5), run, minsep.read_noise(run, [parameter], guard=guard), guard)
        for t in range(run.steps):
            count = len(run.batch(t))
            for wrong in {count - 1, count + 1, 0} - {count, -1}:
                parameter.grad_sample = torch.ones(wrong, 33)
                with self.assertRaisesRegex(minsep.TrainingError, f"step {t}: the gradients are not those of the batch of this step") as refused:
                    optimizer.step()
                self.assertNotRegex(str(refused.exception).replace(f"step {t}:", ""), "[0-9]")  # sizes are secret
                self.assertEqual(guard.next_step, t)
            parameter.grad_sample = [torch.ones(count, 33)] * 2
            with self.assertRaisesRegex(ValueError, r"grad_sample: of several backward passes: call optimizer.accumulate\(\) after each, or optimizer.zero_grad\(\) before the one backward pass of each batch, and optimizer.step\(\) after it"):
                optimizer.step()
            parameter.grad_sample = torch.ones(count, 33) if count else None
            optimizer.step()
            self.assertIsNone(parameter.grad_sample)

    @runs.needs("torch")
    def test_parts_of_a_batch(self):
        """Parts that are accumulated give the bits of the whole batch; a part that is left out is refused, and zero_grad forgets parts."""
        import torch

        import minsep.torch as ours

        found = []
        for size in None, 1, 2:
            self.folder = self.folder / str(size)
            self.folder.mkdir()
            run = minsep.Run(self.own_noisy())
            guard = minsep.StepGuard(run)
            parameter = torch.nn.Parameter(torch.zeros(33))
            inner = torch.optim.SGD([parameter], lr=0.5)
            optimizer = ours.NoisyOptimizer(inner, run, minsep.read_noise(run, [parameter], guard=guard), guard)
            sums = []
            for t in range(run.steps):
                rows = run.batch(t)
                gradients = torch.tensor(np.random.default_rng(t).standard_normal((len(rows), 33)), dtype=torch.float32)
                if size is not None and len(rows) > 1:
                    parameter.grad_sample = gradients[:1]
                    optimizer.accumulate()
                    with self.assertRaisesRegex(minsep.TrainingError, f"step {t}: the gradients are not those of the batch.*accumulate for each part"):
                        optimizer.step()  # without the others
                    parameter.grad_sample = gradients[:1]
                    optimizer.accumulate()
                    optimizer.zero_grad()
                optimizer.zero_grad()
                for part in () if size is None else gradients.split(size):
                    parameter.grad_sample = part
                    optimizer.accumulate()
                    self.assertIsNone(parameter.grad_sample)
                if size is None and len(rows):
                    parameter.grad_sample = gradients
                optimizer.step()
                want = minsep.clip_and_sum(gradients.numpy(), run.clip_norm, run.grid)
                sums.append(minsep.add_noise(want, np.array(run.noise(t)), run.grid, run.expected_batch_size))
                np.testing.assert_array_equal(parameter.grad.numpy(), sums[-1])
            self.assertEqual(guard.next_step, run.steps)


class BinaryIDs(runs.Case):
    @runs.needs("pyarrow")
    def test_ids_of_bytes(self):
        import hashlib

        import pyarrow as pa
        import pyarrow.parquet as pq

        ids = [hashlib.md5(str(i).encode()).digest()[:15] + bytes([i % 2]) for i in range(40)]  # many end in NUL
        for kind in pa.binary(16), pa.binary():
            out = runs.ROOT / f"bytes-{kind}"
            edges = f"{out}.parquet"
            pq.write_table(pa.table({"example_id": pa.array(ids, kind), "owner_id": [i % 7 for i in range(40)]}), edges)
            runs.minsep("bound", "--graph", edges, "--max-per-owner", 2, "--key", runs.key(), "--out", out, "--quiet")
            runs.minsep("form", "--bounded", out, "--scheme", "poisson", "--steps", 5, "--batch-size", 3, "--key", runs.key(), "--out", out, "--quiet")
            part = pq.read_table(out / "bounded" / "part-00000.parquet")
            self.assertEqual(part.schema.field("example_id").type, pa.binary())
            self.assertLessEqual(set(part["example_id"].to_pylist()), set(ids))
            run = minsep.Run(out)
            for given in ids, np.array(ids, "S16"), pa.array(ids, kind), pa.chunked_array([pa.array(ids, pa.large_binary())]):
                joined = run.join(given)
                for t in range(5):
                    self.assertEqual([ids[i] for i in joined.batch(t)], run.example_ids(run.batch(t)).tolist())
            with self.assertRaisesRegex(ValueError, "ids: must be bytes, as the run has them, not string"):
                run.join([f"{i}" for i in range(40)])


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
