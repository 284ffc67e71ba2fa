"""A training in PyTorch as one object: its gradients beside a loop of backward passes, its resumes, and what it refuses."""

from __future__ import annotations

import gc
import io
import json
import weakref

from unittest import mock

import numpy as np

import minsep
from minsep import _guard, _seeds

from . import frozen, runs

needs_func = runs.needs("torch", "torch.func")


class Training(runs.Case):
    """A small model, its data in the order of the run's table, and its training."""

    def setUp(self):
        super().setUp()
        if not runs.has("torch"):
            return
        import torch

        runs.warnings.simplefilter("ignore", minsep.NotJoinedWarning)  # the data are in the order of the table
        torch.set_num_threads(1)
        torch.manual_seed(1)

    def mlp(self, dropout=0.0):
        """A model of 5 * 4 + 4 + 4 * 3 + 3 = 39 coordinates."""
        import torch

        return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(4, 3))

    def data(self):
        import torch

        generator = torch.Generator().manual_seed(2)
        return torch.utils.data.TensorDataset(3 * torch.randn(100, 5, generator=generator), torch.randint(0, 3, (100,), generator=generator))

    @staticmethod
    def loss(model, x, y):
        import torch

        return torch.nn.functional.cross_entropy(model(x), y)

    def begin(self, run, model=None, optimizer=None, **options):
        import torch

        import minsep.torch as dp

        model = model or self.mlp()
        optimizer = optimizer or torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
        training = dp.private(model, optimizer, run, **{"loss": self.loss, **options})
        self.addCleanup(training.close)
        return training

    def by_hand(self, run, step, model, loss, batch, owners=None):
        """The noisy mean of a step from one backward pass for each example, by NumPy's clip_and_sum and add_noise."""
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        found = {name: np.zeros((len(batch[0]), *p.shape)) for name, p in trained.items()}
        for i in range(len(batch[0])):
            model.zero_grad()
            loss(model, *(x[i : i + 1] for x in batch)).backward()
            for name, p in trained.items():
                if p.grad is not None:
                    found[name][i] = p.grad.detach().double().numpy()
        total = minsep.clip_and_sum(found, run.clip_norm, run.grid, np.zeros(len(batch[0]), bool) if owners is None else None, owners=owners)
        flat, at, noise = np.array(run.noise(step)), 0, {}
        for name in sorted(trained):
            noise[name] = flat[at : at + trained[name].numel()].reshape(trained[name].shape)
            at += trained[name].numel()
        self.assertEqual(at, run.coordinates)
        return minsep.add_noise(total, noise, run.grid, run.expected_batch_size, "float32")

    def check_steps(self, run, training, loss, data, steps, exact):
        """Every step's gradients are those by hand, bit for bit where the examples were taken one by one."""
        largest = 0
        for step in range(steps):
            batch = run.batch(step)
            rows = batch.rows if run.examples_per_owner else batch
            owners = batch.owners if run.examples_per_owner else None
            examples = [x[rows] for x in data]
            largest = max(largest, len(rows))
            want = self.by_hand(run, step, training.model, loss, examples, owners)
            training.step(*examples)
            for name, p in training.model.named_parameters():
                if not p.requires_grad:
                    self.assertIsNone(p.grad)
                elif exact:
                    np.testing.assert_array_equal(p.grad.numpy(), want[name], name)
                else:
                    np.testing.assert_allclose(p.grad.numpy(), want[name], atol=2e-5, err_msg=name)
        self.assertGreater(largest, 1)


class Sums(Training):
    @needs_func
    def test_gradients_by_hand(self):
        for microbatch, exact in (None, False), (1, True), (3, False):
            with self.subTest(microbatch=microbatch):
                self.folder = self.folder / str(microbatch)
                self.folder.mkdir()
                run = minsep.Run(self.own_noisy(20, 39))
                training = self.begin(run, microbatch=microbatch)
                self.check_steps(run, training, self.loss, self.data().tensors, 20, exact)
                self.assertEqual(training.guard.next_step, 20)
                with self.assertRaisesRegex(minsep.TrainingError, "step 20: the run has steps 0 to 19"):
                    training.step(*(x[:0] for x in self.data().tensors))

    @needs_func
    def test_sampled_owners(self):
        import torch

        for microbatch, exact in (None, False), (2, False), (1, True):
            with self.subTest(microbatch=microbatch):
                run = minsep.Run(self.copied_owned(str(microbatch)))
                model = torch.nn.Linear(4, 1)  # five coordinates
                x = torch.randn(run.examples, 4)
                loss = lambda model, x: (model(x) - 1).square().sum()
                training = self.begin(run, model, loss=loss, microbatch=microbatch)
                self.check_steps(run, training, loss, (x,), 6, exact)
                batch = minsep.pad(run.batch(6), 32)
                want = self.by_hand(run, 6, model, loss, (x[run.batch(6).rows],), run.batch(6).owners)
                for wrong in batch.rows, run.batch(6).rows, minsep.pad(run.batch(7), 32):
                    with self.assertRaisesRegex(minsep.TrainingError, "step 6: rows: are not the rows of this step's batch"):
                        training.step(x[:3], rows=wrong)
                training.step(x[batch.rows], rows=batch)
                np.testing.assert_allclose(model.weight.grad.numpy(), want["weight"], atol=2e-5)

    def copied_owned(self, name):
        """Owners that are sampled, with noise of their own, for a training."""
        out = self.folder / name
        runs.shutil.copytree(self.owned(), out)
        runs.shutil.rmtree(out / "batches")
        runs.shutil.rmtree(out / "noise")
        for file in "run.json", "certificate.json":
            (out / file).unlink()
        runs.minsep("form", "--bounded", out, "--scheme", "poisson", "--steps", 12, "--batch-size", 4, "--sample", "owners",
                    "--examples-per-owner", 3, "--key", runs.key(), "--out", out, "--quiet")  # fmt: skip
        runs.minsep("noise", "--files", "--strategy", runs.ROOT / "owned.json", "--noise-multiplier", 1, "--steps", 12, "--coordinates", 5, "--key", runs.key(), "--out", out, "--quiet")
        return out

    @needs_func
    def test_padding_and_empty_batches(self):
        """Padded rows count for nothing; an empty batch takes its noise."""
        data, sizes = self.data().tensors, []
        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run, microbatch=2)
        for step in range(20):
            rows = minsep.pad(run.batch(step), 8)
            sizes.append(len(run.batch(step)))
            want = self.by_hand(run, step, training.model, self.loss, [x[run.batch(step)] for x in data])
            for wrong in minsep.pad(run.batch((step + 1) % 20), 8), rows[::-1].copy():
                if not np.array_equal(wrong[wrong >= 0], rows[rows >= 0]):  # one row and padding are the same in any order
                    with self.assertRaisesRegex(minsep.TrainingError, f"step {step}: rows: are not the rows of this step's batch"):
                        training.step(*(x[wrong] for x in data), rows=wrong)
            with self.assertRaisesRegex(ValueError, "batch: must have one example for each of the rows"):
                training.step(*(x[rows] for x in data), rows=rows[:-1] if rows[-1] < 0 else np.append(rows, -1))
            self.assertEqual(training.guard.next_step, step)
            training.step(*(x[rows] for x in data), rows=rows)
            np.testing.assert_allclose(training.model[0].weight.grad.numpy(), want["0.weight"], atol=2e-5)

    @needs_func
    def test_an_empty_batch(self):
        run = minsep.Run(self.noisy_with_empty())
        training = self.begin(run)
        empty = 0
        for step, (x, y) in enumerate(training.loader(self.data())):
            empty += len(x) == 0
            training.step(x, y)
            if len(x) == 0:
                noise = np.concatenate([p.grad.numpy().ravel() for _, p in sorted(training.model.named_parameters())])
                np.testing.assert_array_equal(noise, (np.array(run.noise(step), float) / run.expected_batch_size).astype(np.float32))
        self.assertGreater(empty, 0)
        self.assertEqual(training.guard.next_step, run.steps)

    def noisy_with_empty(self):
        """A run of which some batches are empty: of 100 examples half a one a step on average."""
        out = self.folder / "sparse"
        runs.minsep("form", "--examples", 100, "--scheme", "poisson", "--steps", 12, "--batch-size", 0.5, "--key", runs.key(), "--out", out, "--quiet")
        runs.minsep("strategy", "--kind", "identity", "--steps", 12, "--out", self.folder / "one.json", "--quiet")
        runs.minsep("noise", "--files", "--strategy", self.folder / "one.json", "--noise-multiplier", 1, "--steps", 12, "--coordinates", 39, "--key", runs.key(), "--out", out, "--quiet")
        return out

    @needs_func
    def test_tied_and_frozen_parameters(self):
        """A tied parameter is one, with the gradient of both uses; a frozen one has no gradient and no noise."""
        import torch

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.frozen = torch.nn.Linear(5, 5, bias=False), torch.nn.Linear(5, 5, bias=False), torch.nn.Linear(5, 5)
                self.second.weight = self.first.weight
                self.frozen.requires_grad_(False)

            def forward(self, x):
                return self.second(torch.tanh(self.frozen(self.first(x))))

        run = minsep.Run(self.own_noisy(20, 25))
        model = Tied()
        frozen = model.frozen.weight.clone()
        self.check_steps(run, self.begin(run, model), self.loss, self.data().tensors, 8, False)
        self.assertTrue(torch.equal(model.frozen.weight, frozen))

    @needs_func
    def test_methods_of_the_model_in_the_loss(self):
        """All that a loss asks of the model has gradients, also what is no call of it, or of a name outside."""
        model = self.mlp()
        run = minsep.Run(self.own_noisy(20, 39))
        loss = lambda m, x, y: self.loss(lambda x: model[3](m[1](m[0](x))), x, y)
        self.check_steps(run, self.begin(run, model, loss=loss), self.loss, self.data().tensors, 4, False)


    @needs_func
    def test_layers(self):
        """Each kind of layer, and layers that are used twice or not at all, one by one and together."""
        import torch

        nn = torch.nn

        class Words(nn.Module):
            """Looks at x as four words of six, by a layer that gives features for each."""

            def __init__(self, layer):
                super().__init__()
                self.words, self.layer, self.out = nn.Embedding(6, 4), layer, nn.Linear(4, 3)

            def forward(self, x):
                found = self.layer(self.words((x[:, :4] * 10).long() % 6))
                return self.out((found[0] if isinstance(found, tuple) else found).mean(1))

        class Across(nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                return self.layer(x.transpose(1, 2)).transpose(1, 2)

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

            def forward(self, x):
                return self.layer(x, x, x, need_weights=False)

        class Tied(nn.Module):
            """The words' weights are those of the last layer too, and one layer is used three times, another never."""

            def __init__(self):
                super().__init__()
                self.words, self.layer, self.never, self.out = nn.Embedding(6, 4, padding_idx=0), nn.Linear(4, 4), nn.Linear(2, 2), nn.Linear(4, 6, bias=False)
                self.out.weight = self.words.weight

            def forward(self, x):
                x = self.words((x[:, :4] * 10).long() % 6)
                for _ in range(3):
                    x = torch.tanh(self.layer(x))
                return self.out(x.mean(1))

        data = self.data().tensors
        for i, model in enumerate((
            nn.Linear(5, 3, bias=False), Words(nn.LayerNorm(4)), Words(Across(nn.Conv1d(4, 4, 3, padding=1, groups=2))), Words(Across(nn.GroupNorm(2, 4))),
            Words(Across(nn.InstanceNorm1d(4, affine=True))), Words(nn.LSTM(4, 4, batch_first=True)), Words(Attention()), Tied(),
            Words(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))), Words(nn.PReLU()),
        )):  # fmt: skip
            count = sum(p.numel() for p in model.parameters())
            for microbatch, exact in (1, True), (None, False):
                with self.subTest(str(model), microbatch=microbatch), runs.warnings.catch_warnings():
                    runs.warnings.simplefilter("ignore")  # layers without a rule for vmap are slow
                    run = minsep.Run(runs.make_noisy(self.folder / f"{i}-{microbatch}", 20, count))
                    self.check_steps(run, self.begin(run, model, microbatch=microbatch), self.loss, data, 3, exact)


    @needs_func
    def test_layers_that_vmap_cannot_run(self):
        import torch

        class Last(torch.nn.GRU):
            def forward(self, x):
                return super().forward(x[:, :, None])[0][:, -1]

        model = Last(1, 3, batch_first=True)
        run = minsep.Run(self.own_noisy(20, sum(p.numel() for p in model.parameters())))
        self.check_steps(run, self.begin(run, model), self.loss, self.data().tensors, 3, True)

        class Filled(torch.nn.Linear):
            def forward(self, x):
                made = torch.zeros(len(x), 3)
                made[:] = super().forward(x)
                return made

        run = minsep.Run(runs.make_noisy(self.folder / "other", 20, 18))
        training = self.begin(run, Filled(5, 3))
        with self.assertRaisesRegex(ValueError, r"at line \d+ of .*test_private.py: a tensor is changed in place.*Give microbatch=1, which makes them one by one"):
            training.step(*[x[run.batch(0)] for x in self.data().tensors])
        training.close()


class Loaders(Training):
    @needs_func
    def test_an_example_depends_on_no_other(self):
        """Each is collated alone, with random numbers of its own, the same wherever it stands and whoever reads it; a program's own are left as they were."""
        import random

        import torch

        from minsep._alone import Alone, Loader

        noisy = lambda examples: torch.stack([x + torch.rand(5) + np.random.rand() + random.random() for x, _ in examples])
        data = self.data()
        state = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
        read = lambda seed, *places: Alone(data, noisy, seed).__getitems__([*places])
        a, b = read("seed", (3, 8), (3, 9))
        for other, same in (read("seed", (3, 9))[0], True), (read("seed", (3, 2), (3, 9))[1], True), (read("seed", (4, 9))[0], False), (read("other", (3, 9))[0], False):
            self.assertEqual(torch.equal(other, b), same)
        self.assertFalse(torch.equal(a - data[8][0], b - data[9][0]))
        self.assertTrue(torch.equal(torch.get_rng_state(), state[0]) and np.array_equal(np.random.get_state()[1], state[1]) and random.getstate() == state[2])
        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run)
        batches = [[x for _, x in zip(range(1), Loader(run, data, noisy, training.secrets, None, num_workers=n))] for n in (0, 2)]
        self.assertTrue(len(batches[0][0]) and torch.equal(batches[0][0], batches[1][0]))

    @needs_func
    def test_examples_that_differ_in_shape(self):
        import torch

        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run)
        for data, words in (
            ([torch.zeros(1 + i) for i in range(100)], "^collate_fn: gives examples of several shapes: it is called with one example at a time"),
            ([{"a": torch.zeros(1), f"b{i}": torch.zeros(1)} for i in range(100)], "^collate_fn: gives examples with different keys"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                list(training.loader(data))
        for collate, words in (lambda x: torch.zeros(2, 3), "first dimension is not 1"), (lambda x: torch.zeros(()), "first dimension is not 1"), (lambda x: "text", "gives str"):
            with self.assertRaisesRegex((ValueError, TypeError), words):
                list(training.loader(self.data(), collate_fn=collate))
        with self.assertRaisesRegex(ValueError, "^data: has 99 examples, and the run the ids, or rows of owners, of 100"):
            self.begin(run.join(runs.ids_of("numbers", 100))).loader([0] * 99)

    @needs_func
    def test_the_seed_is_a_secret(self):
        """It is in no checkpoint, and in no file; another start has another one."""
        import torch

        path, seeds = self.own_noisy(20, 39), []
        for _ in range(2):
            training = self.begin(minsep.Run(path))
            file = io.BytesIO()
            torch.save(training.state_dict(), file)
            seeds.append(training.secrets()[1])
            self.assertEqual(len(seeds[-1]), 32)
            for kept in file.getvalue(), *(p.read_bytes() for p in path.rglob("*") if p.is_file()):
                self.assertNotIn(seeds[-1].encode(), kept)
            training.close()
        self.assertNotEqual(*seeds)


class Resumes(Training):
    def begin(self, *given, **options):
        return super().begin(*given, **{"key": runs.key(), **options})

    def train(self, path, steps, saved=None, save_at=None, **options):
        """Trains to a step, from a checkpoint if there is one: the weights, and the checkpoint of a step before."""
        import torch

        torch.manual_seed(7)
        model = self.mlp(dropout=0.5)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        training = self.begin(minsep.Run(path), model, optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.7), microbatch=2)
        torch.manual_seed(len(path.name) if saved is None else 99)  # other programs draw other numbers
        if saved is not None:
            saved.seek(0)
            training.load_state_dict(torch.load(saved), **options)
        file = io.BytesIO()
        for x, y in training.loader(self.data()):
            training.step(x, y)
            if training.guard.next_step == save_at:
                torch.save(training.state_dict(), file)
            if training.guard.next_step == steps:
                break
        training.close()
        return [p.detach().clone() for p in model.parameters()], file

    @needs_func
    def test_kill_and_resume(self):
        """A training that is killed after steps beyond its checkpoint takes them again with fresh noise; with the same bytes of steps
        and seed, which only a test has, it ends with the weights of one that was not killed."""
        import torch

        path = self.own_noisy(20, 39)
        before, saved = self.train(path, 11, save_at=8)
        again, _ = self.train(path, 11, saved)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(before, again)))
        with self.assertRaisesRegex(minsep.TrainingError, "serves a training already"):
            self.train(path, 20)
        starts = json.loads((path / "training.json").read_text())["starts"].values()
        self.assertEqual([[int(a), int(b)] for a, b in starts], [[0, 11], [8, 11]])
        path = runs.make_noisy(self.folder / "frozen", 20, 39)
        with mock.patch.object(_guard.StepGuard, "_draw", frozen.draw), mock.patch.object(_seeds, "fresh", lambda: frozen.SEED):
            before, saved = self.train(path, 11, save_at=8)
            again, _ = self.train(path, 11, saved)
        for a, b in zip(before, again):
            self.assertTrue(torch.equal(a, b))

    @needs_func
    def test_files(self):
        """load begins a training and writes its file, or goes on; a training that is killed before its first save goes on too."""
        import torch

        path, found = self.own_noisy(20, 39), []
        drawn = mock.patch.object(_guard.StepGuard, "_draw", frozen.draw)  # the same noise at every start
        seeded = mock.patch.object(_seeds, "fresh", lambda: frozen.SEED)
        drawn.start()
        seeded.start()
        self.addCleanup(drawn.stop)
        self.addCleanup(seeded.stop)
        for last in 3, 7, 20, 20:
            torch.manual_seed(last)  # other weights each time, of which the first count
            training = self.begin(minsep.Run(path), self.mlp(0.5), loss=self.loss)
            extra = training.load(path / "state.pt")
            self.assertEqual({name: x.tolist() for name, x in extra.items()}, {} if last < 20 else {"mean": [5.0]})
            for x, y in training.loader(self.data()):
                training.step(x, y)
                if last == 7 and training.guard.next_step == 5:
                    training.save(path / "state.pt", extra={"mean": torch.tensor([5.0])})
                if training.guard.next_step == last:
                    break
            training.close()
            found.append(training.model[0].weight.detach())
        self.assertTrue(torch.equal(found[2], found[3]))
        self.assertEqual([p.name for p in path.glob("state*")], ["state.pt"])

    @needs_func
    def test_states_that_are_none(self):
        import torch

        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run)
        for state in None, {}, {"model": {}}:
            with self.assertRaisesRegex(ValueError, "^state: must be the result of"):
                training.load_state_dict(state)
        for state in None, {}, {"token": 3}:
            with self.assertRaisesRegex(ValueError, "^state: must be the result of "):
                training.load_training_state(state)
        path = self.folder / "state.pt"
        for extra, words in ({"mean": np.float64(3)}, r"^extra\['mean'\]: is of type float64"), ({"of": [1, {"x": training}]}, r"^extra\['of'\]\[1\]\['x'\]: is of type Private"):
            with self.assertRaisesRegex(TypeError, words + ": must be a tensor, a number or a text"):
                training.save(path, extra)
        self.assertFalse(path.exists())
        training.save(path, {"a": [1, 2.5, None, True, ("b", torch.ones(2))]})
        for content in b"garbage", path.read_bytes()[:-99], b"":
            path.write_bytes(content)
            with self.assertRaisesRegex(ValueError, "state.pt: is no checkpoint that save of a private training wrote, or was cut"):
                training.load(path)
        state = training.state_dict()
        with self.assertRaisesRegex(minsep.TrainingError, "begun already: call it once, before"):
            training.load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "^state: only one of the checkpoint and this training has a scheduler"):
            training.load_state_dict({**state, "scheduler": {}})
        training.close()
        model = self.mlp()
        other = self.begin(run, model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(ValueError, "^state: is of a training with the optimizer Adam, and this one has SGD"):
            other.load_state_dict(state)
        with self.assertRaisesRegex(OSError, "typo/state.pt: is no file, so that a training begins: .*No such file"):
            other.load(self.folder / "typo" / "state.pt")
        other.close()

    @needs_func
    def test_a_path_that_is_mistyped(self):
        """It is named where the run has a training already, and so is a key of another run, before the first step."""
        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run)
        training.step(*(x[run.batch(0)] for x in self.data().tensors))
        with self.assertRaisesRegex(minsep.TrainingError, r"a StepGuard holds it.* in one process, as in a notebook, call close\(\) of the training or guard first"):
            self.begin(run).guard
        training.close()
        with self.assertRaisesRegex(minsep.TrainingError, "^.*stale.pt: is no file, so that a training begins: .* serves a training already"):
            self.begin(run).load(self.folder / "stale.pt")
        key = self.folder / "wrong"
        runs.minsep("keygen", key)
        with self.assertRaisesRegex(minsep.MinsepError, "key .*wrong: is not the key that the noise of .* was made with"):
            self.begin(run, key=key)


class Refused(Training):
    def refused(self, words, model=None, optimizer=None, error=ValueError, **options):
        with self.assertRaisesRegex(error, words):
            self.begin(self.run_, model, optimizer, **options)

    @needs_func
    def test_models_and_optimizers(self):
        import torch

        self.run_ = minsep.Run(self.own_noisy(20, 39))
        nn, optim = torch.nn, torch.optim
        model = self.mlp()
        sgd = lambda parameters: optim.SGD(parameters, lr=0.1)
        self.refused("optimizer: does not have the parameter 3.bias", model, sgd(list(model.parameters())[:-1]))
        self.refused(r"optimizer: has a parameter of shape \(2,\) that is not in the model", model, sgd([*model.parameters(), nn.Parameter(torch.zeros(2))]))
        model[0].requires_grad_(False)
        self.refused("optimizer: has the parameter 0.weight, which is frozen", model, sgd(model.parameters()))
        self.refused("model: has 15 trained coordinates, and the noise of .* has 39: prepare or run it again at another path, with this model or `--coordinates 15`", model)
        self.refused("optimizer: LBFGS asks for several gradients", model, optim.LBFGS(model.parameters()))
        for layer, words in (
            (nn.BatchNorm1d(4), "model: BatchNorm1d at 1: normalises by the statistics of a batch"),
            (nn.SyncBatchNorm(4), "model: SyncBatchNorm at 1"),
            (nn.LazyBatchNorm1d(), "model: LazyBatchNorm1d at 1|lazy|uninitialized"),
            (nn.BatchNorm1d(4, track_running_stats=False).eval(), "model: BatchNorm1d at 1"),
            (nn.InstanceNorm1d(4, track_running_stats=True), "model: InstanceNorm1d at 1"),
            (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), "model: _SpectralNorm at 1"),
            (nn.Embedding(4, 4, sparse=True), "model: Embedding at 1: has sparse gradients"),
            (nn.DataParallel(nn.Linear(4, 4)), "model: DataParallel at 1: give the model itself, which is its attribute module"),
            (type("DistributedDataParallel", (nn.Linear,), {})(4, 4), "model: DistributedDataParallel at 1: give the model itself, .*: private finds the processes"),
            (type("FullyShardedDataParallel", (nn.Linear,), {})(4, 4), "model: FullyShardedDataParallel at 1: divide the model by torch.distributed.fsdp.fully_shard"),
        ):
            with self.subTest(words):
                self.refused(words, nn.Sequential(nn.Linear(5, 4), layer))
        for options, words in (
            ({"loss": 3}, "^loss: must be a function"),
            ({"microbatch": 0}, "^microbatch 0: must be"),
            ({"scheduler": 3}, "^scheduler: must be"),
            ({"scheduler": optim.lr_scheduler.StepLR}, "^scheduler: must be .*, and not <class"),
            ({"loss": nn.CrossEntropyLoss()}, "^loss: is torch.nn.CrossEntropyLoss, a function of outputs and targets"),
        ):
            self.refused(words, error=(TypeError, ValueError), **options)
        self.refused("^model: must be a torch.nn.Module", 3, sgd(self.mlp().parameters()), error=TypeError)
        self.refused("^optimizer: must be one of torch.optim", self.mlp(), 3, error=TypeError)
        with runs.warnings.catch_warnings():
            runs.warnings.simplefilter("ignore", DeprecationWarning)
            self.refused("^model: is a module of TorchScript", torch.jit.script(self.mlp()), error=TypeError)
        with self.assertRaisesRegex(TypeError, r"run = minsep.Run\('run'\), then private\(model, optimizer, run"):
            self.begin("run")
        self.assertFalse((self.folder / "own" / "training.json").exists())  # nothing of it began a training

    @needs_func
    def test_batch_norm_in_eval_mode_trains_until_it_is_in_training_mode(self):
        import torch

        run = minsep.Run(self.own_noisy(20, 32))
        model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4).eval())
        training = self.begin(run, model, loss=lambda m, x, y: m(x).square().sum())
        x, y = (x[run.batch(0)] for x in self.data().tensors)
        training.step(x, y)
        model.train()
        with self.assertRaisesRegex(ValueError, "BatchNorm1d at 1"):
            training.step(*(x[run.batch(1)] for x in self.data().tensors))
        self.assertEqual(training.guard.next_step, 1)

    @needs_func
    def test_buffers_that_change(self):
        import torch

        class Counts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(5, 3)
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                self.seen += 1.0
                return self.inner(x)

        run = minsep.Run(self.own_noisy(20, 18))
        for microbatch in None, 1:
            model = Counts()
            training = self.begin(run, model, microbatch=microbatch)
            with self.assertRaisesRegex(ValueError, "model: its buffer.* changes in forward, as running statistics do"):
                training.step(*(x[run.batch(0)] for x in self.data().tensors))
            self.assertEqual((training.guard.next_step, float(model.seen)), (0, 0))
            training.close()

    @needs_func
    def test_weights_that_forward_changes(self):
        """An embedding that shortens its rows does so to those that examples look up, without noise."""
        import torch

        nn = torch.nn
        for layer in nn.Embedding(6, 3, max_norm=0.1), nn.EmbeddingBag(6, 3, max_norm=0.1):
            self.run_ = minsep.Run(self.noisy(20, 18))
            self.refused("model: Embedding.* at 0: rescales in forward, without noise, the rows of weights that an example looks up", nn.Sequential(layer))

        class Changes(nn.Module):
            def __init__(self, frozen):
                super().__init__()
                self.inner, self.other = nn.Linear(5, 3), nn.Parameter(torch.ones(3), requires_grad=not frozen)

            def forward(self, x):
                with torch.no_grad():
                    self.other.mul_(0.5)
                return self.inner(x) * self.other

        for frozen in True, False:
            model = Changes(frozen)
            run = minsep.Run(runs.make_noisy(self.folder / str(frozen), 20, 18 if frozen else 21))
            training = self.begin(run, model, microbatch=1)
            with self.assertRaisesRegex(minsep.TrainingError, "model: its parameter other changes in forward"):
                training.step(*(x[run.batch(0)] for x in self.data().tensors))
            self.assertEqual(training.guard.next_step, 0)

    @needs_func
    def test_losses_that_are_modules(self):
        """A loss with layers is looked at as a model is; its weights are no others than the model's."""
        import torch

        nn = torch.nn

        class Loss(nn.Module):
            def __init__(self, layer, count=False):
                super().__init__()
                self.layer, self.count = layer, count
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, model, x, y):
                if self.count:
                    self.seen += 1
                return nn.functional.cross_entropy(self.layer(model(x)), y)

        self.run_ = minsep.Run(self.own_noisy(20, 39))
        self.refused("model: BatchNorm1d at layer", loss=Loss(nn.BatchNorm1d(3, affine=False)))
        self.refused("^loss: has a parameter of its own, layer.weight, which requires a gradient", loss=Loss(nn.Linear(3, 3)))
        training = self.begin(self.run_, loss=Loss(nn.Identity(), True), microbatch=1)
        with self.assertRaisesRegex(ValueError, "model: its buffer loss.seen changes in forward"):
            training.step(*(x[self.run_.batch(0)] for x in self.data().tensors))
        training.close()
        self.check_steps(self.run_, self.begin(self.run_, loss=Loss(nn.Identity())), Loss(nn.Identity()), self.data().tensors, 3, False)

    @needs_func
    def test_closures_and_the_end(self):
        """A closure would make another backward pass; after close the optimizer is the program's again."""
        import torch

        run = minsep.Run(self.own_noisy(20, 39))
        model = self.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = self.begin(run, model, optimizer)
        for step, call in enumerate((lambda c: optimizer.step(c), lambda c: optimizer.step(closure=c))):
            training.make_gradients(*(x[run.batch(step)] for x in self.data().tensors))
            with self.assertRaisesRegex(minsep.TrainingError, "optimizer.step: has a closure"):
                call(lambda: self.fail("was called"))
        training.close()
        optimizer.step()
        other = self.begin(minsep.Run(runs.make_noisy(self.folder / "next", 20, 39)), model, optimizer)
        other.step(*(x[other.run.batch(0)] for x in self.data().tensors))

    @needs_func
    def test_gradients_that_step_did_not_make(self):
        import torch

        run = minsep.Run(self.own_noisy(20, 39))
        model = self.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = self.begin(run, model, optimizer)
        examples = lambda t: [x[run.batch(t)] for x in self.data().tensors]
        with self.assertRaisesRegex(minsep.TrainingError, "optimizer.step: no noisy gradients were made"):
            optimizer.step()
        training.step(*examples(0))
        weights = model[0].weight.clone()
        with self.assertRaisesRegex(minsep.TrainingError, "a second one in the same step"):
            optimizer.step()
        for step, spoil in enumerate(
            (
                lambda: self.loss(model, *self.data()[:3]).backward(),
                lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3),
                lambda: optimizer.zero_grad(),
                lambda: setattr(model[3].bias, "grad", torch.ones(3)),
            ),
            1,
        ):
            training.make_gradients(*examples(step))
            spoil()
            with self.assertRaisesRegex(minsep.TrainingError, "optimizer.step: gradients were changed or put away since the noise was added"):
                optimizer.step()
        hook = optimizer.register_step_pre_hook(lambda *_: [p.grad.add_(1) for p in model.parameters()] and None)
        with self.assertRaisesRegex(minsep.TrainingError, "optimizer.step: gradients were changed or put away since the noise was added"):
            training.step(*examples(5))
        hook.remove()
        self.assertTrue(torch.equal(model[0].weight, weights))
        model[0].bias.requires_grad_(False)
        with self.assertRaisesRegex(minsep.TrainingError, "model: requires_grad of 0.bias has changed since the beginning of the training"):
            training.step(*examples(6))

    @needs_func
    def test_another_optimizer(self):
        """It steps on no parameter that is trained before the last step; those that the training's own has inside do."""
        import torch

        class Outer(torch.optim.Optimizer):
            def __init__(self, inner):
                super().__init__(inner.param_groups, {})
                self.parts = [inner]

            def step(self, closure=None):
                self.parts[0].step()

        run = minsep.Run(self.own_noisy(20, 39))
        model = torch.nn.Sequential(torch.nn.Linear(2, 5).requires_grad_(False), self.mlp())
        loss = lambda m, x, y: self.loss(m[1], x, y)
        training = self.begin(run, model, Outer(torch.optim.SGD(model[1].parameters(), lr=0.1)), loss=loss)
        examples = lambda t: [x[run.batch(t)] for x in self.data().tensors]
        others = torch.nn.Linear(2, 2)
        unrelated = torch.optim.SGD(others.parameters(), lr=0.1)
        for step, (parameter, name) in enumerate(((model[1][0].weight, "1.0.weight"), (model[0].bias, "0.bias"))):
            training.step(*examples(step))
            unrelated.step()
            torch.optim.SGD([p for p in model.parameters() if not p.requires_grad], lr=0.1).step()
            parameter.requires_grad_().grad = torch.ones_like(parameter)
            with self.assertRaisesRegex(minsep.TrainingError, f"optimizer.step: of another Adam than the training's, which has the parameter {name} of its model"):
                torch.optim.Adam([*others.parameters(), parameter]).step()
            parameter.requires_grad_(step == 0)
        other = self.begin(minsep.Run(runs.make_noisy(self.folder / "other", 20, 39)), model[1])
        other.step(*(x[other.run.batch(0)] for x in self.data().tensors))
        training.close()
        torch.optim.Adam([model[0].bias]).step()
        kept = weakref.ref(self.begin(minsep.Run(runs.make_noisy(self.folder / "next", 20, 39))))
        self.doCleanups()
        gc.collect()
        self.assertIsNone(kept())

    @needs_func
    def test_dropped_by_the_program(self):
        """The optimizer keeps the training, and refuses raw gradients after a function that trained has returned."""
        import torch

        import minsep.torch as dp

        model = self.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        dp.private(model, optimizer, minsep.Run(self.own_noisy(20, 39)), loss=self.loss)
        gc.collect()
        model(self.data().tensors[0]).sum().backward()
        with self.assertRaisesRegex(minsep.TrainingError, "no noisy gradients were made"):
            optimizer.step()

    @needs_func
    def test_batches_of_another_step_or_run(self):
        """Examples that a loader gave belong to its run and step, whatever their number, and copies of them to its step."""
        data, trainings = self.data(), []
        for name in "q", "r":
            out = self.folder / name
            runs.minsep("form", "--examples", 100, "--scheme", "fixed", "--min-sep", 1, "--steps", 12, "--batch-size", 5, "--key", runs.key(), "--out", out, "--quiet")
            runs.minsep("strategy", "--kind", "identity", "--steps", 12, "--out", self.folder / f"{name}.json", "--quiet")
            runs.minsep("noise", "--strategy", self.folder / f"{name}.json", "--noise-multiplier", 1, "--steps", 12, "--coordinates", 39, "--key", runs.key(), "--out", out, "--quiet")
            trainings.append(self.begin(minsep.Run(out), key=runs.key()))
        (q, of_q), (r, of_r) = ((training, iter(training.loader(data))) for training in trainings)
        x, y = next(of_q)
        with self.assertRaisesRegex(minsep.TrainingError, f"batch: is of step 0 of the run in {q.run.path}, and the training is of the run in {r.run.path}"):
            r.step(x, y)
        q.make_gradients(x, y)
        with self.assertRaisesRegex(minsep.TrainingError, "make_gradients: was called before, and the optimizer has made no step since"):
            q.make_gradients(x, y)
        q.optimizer.step()
        for again in (x, y), (x.clone(), y.clone()):
            with self.assertRaisesRegex(minsep.TrainingError, "batch: is of step 0, and the next step is 1: give each batch to step once"):
                q.step(*again)
        q.step(*next(of_q))
        with self.assertRaisesRegex(minsep.TrainingError, "batch: is of step 0, and the next step is 2"):
            q.step(x, y, rows=q.run.batch(2))
        r.step(*next(of_r))
        self.assertEqual((q.guard.next_step, r.guard.next_step), (2, 1))

    @needs_func
    def test_loaders_and_batches(self):
        run = minsep.Run(self.own_noisy(20, 39))
        training = self.begin(run)
        data = self.data()
        for name, value in ("batch_size", 4), ("shuffle", True), ("sampler", []), ("drop_last", True), ("batch_sampler", []):
            with self.assertRaisesRegex(ValueError, f"^{name}: must be left out: the batches are those of the run"):
                training.loader(data, **{name: value})
        with self.assertRaisesRegex(TypeError, "^data: is a tuple: must be a data set"):
            training.loader(data.tensors)
        with self.assertRaisesRegex(ValueError, f"^data: has 50 examples, and the run has {run.examples}: give run.join"):
            training.loader([0] * 50)
        batches = iter(training.loader(data))
        x, y = next(batches)
        for wrong in (), (3,), (x.numpy(), y):
            with self.assertRaisesRegex(ValueError, "^batch: "):
                training.step(*wrong)
        for wrong in (x[:-1], y[:-1]), (x.repeat(2, 1), y.repeat(2)), (x, y[:-1]):
            with self.assertRaisesRegex(ValueError, "batch: "):
                training.step(*wrong)
        with self.assertRaisesRegex(minsep.TrainingError, "batch of step 1: the next step is 0: give each batch to step once"):
            next(batches)
        self.assertEqual(training.guard.next_step, 0)
        with self.assertRaisesRegex(minsep.TrainingError, r"private\(…\).step takes the steps of this guard"):
            next(iter(training.guard))

    @needs_func
    def test_losses(self):
        run = minsep.Run(self.own_noisy(20, 39))
        for loss, words in (
            (lambda m, x, y: m(x), r"not a tensor of shape \(1, 3\)"),
            (lambda m, x, y: 3.0, "not float"),
            (lambda m, x, y: self.loss(m, x, y).detach(), "^loss: does not depend on the trained parameters"),
            (lambda m, x, y: (m(x).argmax(1) == y).float().mean(), "^loss: does not depend on the trained parameters"),
            (lambda m, x, y: self.loss(m, x, y) if m(x).sum() > 0 else m(x).sum(), "Give microbatch=1, which makes them one by one"),
        ):
            training = self.begin(run, loss=loss)
            with self.assertRaisesRegex(ValueError, words):
                training.step(*(x[run.batch(0)] for x in self.data().tensors))
            training.close()
        old = self.mlp()
        for given, options in (lambda x: old(x).detach(), {"microbatch": 1}), *((old, options) for options in ({}, {"microbatch": 1}, {"clipping": "ghost"})):
            training = self.begin(run, loss=lambda m, x, y: self.loss(given, x, y), **options)
            with self.assertRaisesRegex(ValueError, "^loss: does not depend on the trained parameters, .* and no other model"):
                training.step(*(x[run.batch(0)] for x in self.data().tensors))
            self.assertEqual(training.guard.next_step, 0)
            training.close()
        self.check_steps(run, self.begin(run, loss=loss, microbatch=1), loss, self.data().tensors, 3, True)


class Older(runs.Case):
    @runs.needs("torch")
    @runs.unittest.skipIf(runs.has("torch.func"), "PyTorch 2 is installed")
    def test_an_older_pytorch(self):
        import torch

        import minsep.torch as dp

        model = torch.nn.Linear(3, 3)
        with self.assertRaisesRegex(minsep.MissingPackageError, "private: needs PyTorch 2 or later, and this is 1"):
            dp.private(model, torch.optim.SGD(model.parameters(), lr=0.1), minsep.Run(self.noisy()), loss=lambda m, x: m(x).sum())
