"""A training in JAX as one object: its gradients beside one gradient for each example, its resumes, and what it refuses."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import unittest.mock

import numpy as np

import minsep

from . import runs

needs_optax = runs.needs("jax", "optax")


class Training(runs.Case):
    """A small model of 5 * 4 + 4 + 4 * 3 = 36 coordinates, its data in the order of the run's table, and its training."""

    def setUp(self):
        super().setUp()
        runs.warnings.simplefilter("ignore", minsep.NotJoinedWarning)  # the data are in the order of the table

    @staticmethod
    def data():
        rng = np.random.default_rng(2)
        return 3 * rng.normal(size=(100, 5)).astype(np.float32), rng.integers(0, 3, 100)

    @staticmethod
    def params():
        rng = np.random.default_rng(3)
        return {"first": {"w": rng.normal(size=(5, 4)).astype(np.float32), "b": np.zeros(4, np.float32)}, "last": [rng.normal(size=(4, 3)).astype(np.float32)]}

    @staticmethod
    def loss(params, x, y, rng=None):
        import jax

        hidden = jax.numpy.tanh(x @ params["first"]["w"] + params["first"]["b"])
        if rng is not None:
            hidden = hidden * jax.random.bernoulli(rng, 0.5, hidden.shape) * 2
        return -jax.nn.log_softmax(hidden @ params["last"][0])[y]

    def begin(self, run, optimizer=None, loss=None, **options):
        import optax

        import minsep.jax as dp

        training = dp.private(loss or self.loss, optimizer or optax.adam(0.05), run, **options)
        self.addCleanup(training.close)
        return training

    @staticmethod
    @functools.cache
    def gradient(loss):
        """The gradient of an example, compiled once for a loss."""
        import jax

        return jax.jit(jax.grad(loss))

    def by_hand(self, run, step, params, loss, batch, owners=None):
        """The noisy mean of a step from one gradient for each example, by NumPy's clip_and_sum and add_noise."""
        import jax

        one = self.gradient(loss)
        leaves, tree = jax.tree_util.tree_flatten(params)
        found = [np.zeros((len(batch[0]), *leaf.shape)) for leaf in leaves]
        for i in range(len(batch[0])):
            for all_, g in zip(found, jax.tree_util.tree_leaves(one(params, *(x[i] for x in batch)))):
                all_[i] = g
        total = minsep.clip_and_sum(found, run.clip_norm, run.grid, np.zeros(len(batch[0]), bool) if owners is None else None, owners=owners)
        flat, at, noise = np.array(run.noise(step)), 0, []
        for leaf in leaves:
            noise.append(flat[at : at + leaf.size].reshape(leaf.shape))
            at += leaf.size
        self.assertEqual(at, run.coordinates)
        return tree.unflatten(minsep.add_noise(total, noise, run.grid, run.expected_batch_size, "float32"))


class Sums(Training):
    @needs_optax
    def test_gradients_by_hand(self):
        """With SGD of rate 1 a step moves the parameters by the noisy mean."""
        import jax
        import optax

        for microbatch, pad_to in (None, [4, 30]), (4, 5):
            with self.subTest(microbatch=microbatch, pad_to=pad_to):
                run = minsep.Run(runs.make_noisy(self.folder / f"{microbatch}-{pad_to}", 20, 36))
                training, largest = self.begin(run, optax.sgd(1.0), microbatch=microbatch, pad_to=pad_to), 0
                state = training.init(self.params())
                for step, batch in enumerate(training.batches(*self.data())):
                    largest = max(largest, len(batch[0]))
                    want, before = self.by_hand(run, step, state.params, self.loss, batch), state.params
                    if step % 2:  # with padding of its own
                        rows = minsep.pad(run.batch(step), 8)
                        state = training.step(state, *(x[rows] for x in self.data()), rows=rows)
                    else:
                        state = training.step(state, *batch)
                    jax.tree.map(lambda p, q, g: np.testing.assert_allclose(p - q, g, atol=3e-5), before, state.params, want)
                self.assertGreater(largest, 1)
                self.assertEqual((state.step, training.guard.next_step), (20, 20))
                with self.assertRaisesRegex(minsep.TrainingError, "step 20: the run has steps 0 to 19"):
                    training.step(state, *(x[:0] for x in self.data()))

    @needs_optax
    def test_frozen_parameters(self):
        """They have no gradient, no noise and no state, move by no bit, and the others have what they have where the frozen ones come into the loss by themselves. A checkpoint has all."""
        import jax
        import optax

        params = {**self.params(), "table": np.arange(3, dtype=np.int32)}  # whole numbers too
        loss = lambda p, x, y: self.loss(p, x, jax.numpy.asarray(p["table"])[y])
        for name, frozen, count, microbatch in (("beginning", {"first": True, "last": False, "table": True}, 12, 4), ("whole", {"first": {"w": False, "b": True}, "last": [True], "table": True}, 20, None)):
            with self.subTest(name, microbatch=microbatch):
                path = runs.make_noisy(self.folder / f"{name}-{microbatch}", 20, count)
                run = minsep.Run(path)
                training = self.begin(run, optax.sgd(1.0, momentum=0.5), loss, frozen=frozen, microbatch=microbatch)
                state = training.load(path / "state.npz", params)
                self.assertEqual(sum(x.size for x in jax.tree.leaves(state.optimizer)), count)
                key = "first" if count == 20 else "last"
                part = lambda p: p["first"]["w"] if count == 20 else p["last"][0]
                whole = lambda t: {**params, "first": {**params["first"], "w": t}} if count == 20 else {**params, "last": [t]}
                moved, of_part = 0, lambda t, x, y: loss(whole(t), x, y)
                for step, batch in enumerate(training.batches(*self.data())):
                    mean = self.by_hand(run, step, part(state.params), of_part, batch)
                    before, moved = part(state.params), mean + 0.5 * moved
                    state = training.step(state, *batch)
                    np.testing.assert_allclose(before - part(state.params), moved, atol=1e-4)
                    for (where, p), (_, q) in zip(*(jax.tree_util.tree_flatten_with_path(tree)[0] for tree in (params, state.params))):
                        if where[0].key != key or getattr(where[1], "key", "w") != "w":
                            self.assertEqual((np.asarray(p).tobytes(), p.dtype), (np.asarray(q).tobytes(), q.dtype), where)
                    training.save(path / "state.npz", state)
                    if step == 5:
                        break
                training.close()
                other = {**params, "first": jax.tree.map(np.zeros_like, params["first"]), "last": [np.zeros((4, 3), np.float32)]}
                again = self.begin(run, optax.sgd(1.0, momentum=0.5), loss, frozen=frozen, microbatch=microbatch)
                loaded = again.load(path / "state.npz", other)  # all of it is in the file
                jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), loaded, state)
                again.close()
                with self.assertRaisesRegex((minsep.TrainingError, ValueError), "model, or like: has other names|params: have|params: has no array|must be floating"):
                    self.begin(run, optax.sgd(1.0, momentum=0.5), loss, frozen={**frozen, "last": not frozen["last"]}).load(path / "state.npz", params)

    @needs_optax
    def test_names_of_trained_leaves(self):
        import jax

        from minsep import _optax

        tree = {"a": [np.array([i]) for i in range(12)], "b": (np.array([12]), {"c": np.array([13])})}
        trained = _optax._Trained({"a": [i % 5 == 0 for i in range(12)], "b": (False, True)})
        part = trained.of(tree)
        self.assertEqual(jax.tree.leaves(part), [x for i, x in enumerate(jax.tree.leaves(tree)) if i not in (0, 5, 10, 13)])
        names = trained.named(part)
        back = trained.unnamed({name: -names[name] for name in sorted(names)}, part)
        jax.tree.map(lambda x, y: self.assertEqual(x, -y), part, back)
        self.assertEqual([int(x[0]) for x in jax.tree.leaves(trained.put(back, tree))], [i if i in (0, 5, 10, 13) else -i for i in range(14)])

    @needs_optax
    def test_parts_of_a_batch(self):
        """Sums of microbatches are exact: they are those of a whole batch, bit for bit, where the gradients are."""
        import jax
        import optax

        x, found = np.random.default_rng(4).integers(-8, 9, size=(100, 36)).astype(np.float32), []
        for microbatch in None, 1, 4:
            path = runs.shutil.copytree(self.noisy(20, 36), self.folder / f"copy-{microbatch}")
            training = self.begin(minsep.Run(path), optax.adam(0.1), lambda p, x: p @ x, microbatch=microbatch, folder=self.folder / str(microbatch))
            (self.folder / str(microbatch)).mkdir()
            with runs.warnings.catch_warnings():
                runs.warnings.simplefilter("ignore")
                sums = jax.jit(lambda p, rows, x, t=training: t._sum(p, rows, x))(np.zeros(36, np.float32), np.arange(100), x)
            found.append(np.asarray(sums))
        self.assertTrue(all(np.array_equal(found[0], other) for other in found[1:]))

    @needs_optax
    def test_sampled_owners(self):
        import optax

        from .test_private import Sums as Torch

        x = np.random.default_rng(5).normal(size=(200, 5)).astype(np.float32)
        loss = lambda p, x: (p @ x - 1) ** 2
        for microbatch in None, 2:
            with self.subTest(microbatch=microbatch):
                run = minsep.Run(Torch.copied_owned(self, f"owned-{microbatch}"))
                training = self.begin(run, optax.sgd(1.0), loss, microbatch=microbatch)
                state = training.init(np.zeros(5, np.float32))
                for step, (examples,) in zip(range(8), training.batches(x)):
                    want = self.by_hand(run, step, state.params, loss, (examples,), run.batch(step).owners)
                    before = state.params
                    batch = minsep.pad(run.batch(step), 16)
                    for wrong in batch.rows, minsep.pad(run.batch(step + 1), 16):
                        with self.assertRaisesRegex(minsep.TrainingError, f"step {step}: rows: are not the rows of this step's batch"):
                            training.step(state, x[batch.rows], rows=wrong)
                    state = training.step(state, x[batch.rows], rows=batch) if step % 2 else training.step(state, examples)
                    np.testing.assert_allclose(before - state.params, want, atol=3e-5)

    @needs_optax
    def test_an_empty_batch(self):
        """It takes its noise, and no other gradient: padding never counts, with a loss that is not a number there either."""
        import optax

        from .test_private import Sums as Torch

        out = self.folder / "sparse"
        with runs.unittest.mock.patch.object(Torch, "folder", self.folder, create=True):
            out = Torch.noisy_with_empty(self)
        run, empty = minsep.Run(out), 0
        training = self.begin(run, optax.sgd(1.0), lambda p, x: (p @ x) / x[0])  # 0 / 0 for padding
        state = training.init(np.zeros(39, np.float32))
        for step, (x,) in enumerate(training.batches(np.ones((100, 39), np.float32))):
            before, state = state, training.step(state, x)
            if len(x) == 0:
                empty += 1
                np.testing.assert_allclose(before.params - state.params, (np.array(run.noise(step), float) / run.expected_batch_size).astype(np.float32), atol=3e-5)
            self.assertTrue(np.isfinite(state.params).all())
        self.assertGreater(empty, 0)

    @needs_optax
    def test_parameters_that_are_not_finite(self):
        """They are told by the parameters alone, one step later; gradients that are not finite are not."""
        import jax.numpy as jnp
        import optax

        training = self.begin(minsep.Run(self.own_noisy(20, 5)), optax.sgd(1.0), lambda p, x, y: jnp.where(y > 0, jnp.nan, 1.0) * p @ x)
        state, batches = training.init(np.zeros(5, np.float32)), training.batches(*self.data())
        with runs.warnings.catch_warnings():
            runs.warnings.simplefilter("error", RuntimeWarning)
            for _ in range(3):
                state = training.step(state, *next(batches))
            state = training.step(state._replace(params=state.params * np.inf), *next(batches))
        with self.assertWarnsRegex(RuntimeWarning, "^model: has parameters that are not finite.*noise alone"):
            training.step(state, *next(batches))

    @needs_optax
    def test_types(self):
        """Parameters keep their type; trees of other kinds train too."""
        import jax
        import optax

        for i, (dtype, wrap) in enumerate(((jax.numpy.bfloat16, tuple), (np.float32, lambda x: {"a": x[0], "b": [x[1]]}))):
            run = minsep.Run(runs.make_noisy(self.folder / str(i), 20, 36))
            params = wrap((jax.numpy.ones((5, 6), dtype), jax.numpy.ones(6, dtype)))
            training = self.begin(run, optax.adam(0.1), lambda p, x, y: sum(jax.numpy.sum(leaf) * x[0] for leaf in jax.tree.leaves(p)))
            state = training.init(params)
            kinds = [(x.dtype, x.weak_type) for x in jax.tree.leaves(state[1:])]
            for batch in training.batches(*self.data()):
                state = training.step(state, *batch)
                self.assertEqual([(x.dtype, x.weak_type) for x in jax.tree.leaves(state[1:])], kinds)  # so that a checkpoint goes on with the same program
                if state.step == 3:
                    break
            self.assertEqual([x.dtype for x in jax.tree.leaves(state.params)], [x.dtype for x in jax.tree.leaves(params)])
            self.assertEqual(jax.tree.structure(state.params), jax.tree.structure(params))


# A training in a process of its own, which kills itself at some steps: before it, between its step and its checkpoint, or while that is written.
PROGRAM = """
import os, signal, sys
import numpy as np, optax
import minsep, minsep.jax as dp
from tests import frozen
from tests.test_optax import Training
path, key, kills = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
frozen.freeze()
training = dp.private(Training.loss, optax.adam(0.05), minsep.Run(path), rng=True, microbatch=4, key=key)
def dies(step, where):
    if f"{step}:{where}" in kills and not os.path.exists(path + f"/died-{step}"):
        open(path + f"/died-{step}", "x")
        os.kill(os.getpid(), signal.SIGKILL)
state = training.load(path + "/state.npz", Training.params())
replace = os.replace
os.replace = lambda a, b: (dies(state.step, "write"), replace(a, b))
for batch in training.batches(*Training.data()):
    dies(state.step, "before")
    state = training.step(state, *batch)
    dies(state.step, "after")
    if state.step % 3 == 0 or state.step == training.run.steps:
        training.save(path + "/state.npz", state)
"""


class Resumes(Training):
    def begin(self, *given, **options):
        return super().begin(*given, **{"key": runs.key(), **options})

    @needs_optax
    def test_kill_at_any_step(self):
        """A training that is killed, in whatever step, ends with the same bytes as one that is not, dropout and all."""
        path = self.own_noisy(20, 36)
        killed = runs.shutil.copytree(path, self.folder / "killed")  # a run of another id has other noise
        file = self.folder / "program.py"
        file.write_text(PROGRAM)

        def train(kills):
            deaths = 0
            while True:
                done = subprocess.run([sys.executable, "-W", "ignore", file, path, runs.key(), kills], capture_output=True, text=True, env={**runs.os.environ, "PYTHONPATH": runs.os.pathsep.join(sys.path)})
                if done.returncode == 0:
                    with np.load(path / "state.npz") as found:
                        return deaths, {name: found[name].tobytes() for name in found.files if name != "minsep"}
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                deaths += 1

        _, want = train("")
        path = killed
        self.assertEqual(train("0:before,8:after,18:write"), (3, want))
        starts = [[int(a), int(b)] for a, b in json.loads((path / "training.json").read_text())["starts"].values()]
        self.assertEqual(len(starts), 4)
        self.assertEqual(starts[-1][1], 20)

    @needs_optax
    def test_states_and_files(self):
        import optax

        path = self.own_noisy(20, 36)
        training = self.begin(minsep.Run(path))
        for call in lambda: training.guard, lambda: training.state, lambda: training.batches(*self.data()):
            with self.assertRaisesRegex(minsep.TrainingError, r"^guard: the training begins with init\(params\)"):
                call()
        state = training.load(path / "state.npz", self.params())
        with self.assertRaisesRegex(minsep.TrainingError, "^init: the training has begun already"):
            training.init(self.params())
        batches = training.batches(*self.data())
        after = training.step(state, *next(batches))
        for old, error, words in (state, minsep.TrainingError, "^state: is of step 0, the next step is 1: give the last result of step"), (None, TypeError, "^state: must be the result of init, load or step"):
            with self.assertRaisesRegex(error, words):
                training.step(old, *next(training.batches(*self.data())))
            with self.assertRaisesRegex(error, words):
                training.save(path / "state.npz", old)
        training.save(path / "state.npz", after)
        self.assertEqual([p.name for p in path.glob("state*")], ["state.npz"])
        self.assertNotIn(training._session.seed, (path / "state.npz").read_bytes().decode("latin1"))
        training.close()
        with self.assertRaisesRegex(minsep.TrainingError, "serves a training already"):
            self.begin(minsep.Run(path)).init(self.params())
        np.savez(path / "other.npz", np.zeros(3))
        (path / "cut.npz").write_bytes((path / "state.npz").read_bytes()[:-99])
        for name in "other.npz", "cut.npz":
            with self.assertRaisesRegex(ValueError, f"{name}: is no checkpoint that save of a private training wrote, or was cut"):
                self.begin(minsep.Run(path)).load(path / name, self.params())
        with self.assertRaisesRegex(ValueError, "state.npz: has other parameters or another optimizer"):
            self.begin(minsep.Run(path), optax.sgd(0.1)).load(path / "state.npz", self.params())
        with self.assertRaisesRegex(minsep.TrainingError, "model, or like: has other names, shapes or order"):
            self.begin(minsep.Run(path), loss=lambda p, x, y: p.sum()).load(path / "state.npz", np.zeros(36, np.float32))
        goes_on = self.begin(minsep.Run(path))
        self.assertEqual(goes_on.load(path / "state.npz", self.params()).step, 1)
        again = self.begin(minsep.Run(path), microbatch=3)
        goes_on.close()
        state = again.init(self.params(), goes_on.state)
        self.assertEqual(state.step, 1)


class Refused(Training):
    @needs_optax
    def test_arguments(self):
        import collections

        import jax
        import optax

        run = minsep.Run(self.own_noisy(20, 36))
        for options, words in (
            ({"loss": 3}, "^loss: must be a function"),
            ({"optimizer": 3}, "^optimizer: must be one of optax"),
            ({"microbatch": 0}, "^microbatch 0: must be"),
            ({"pad_to": 0}, "^pad_to 0: must be"),
            ({"pad_to": "many"}, "^pad_to .*must be"),
            ({"frozen": {"first": 1}}, r"^frozen: \['first'\] is 1: must be True or False"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                self.begin(run, **options)
        with self.assertRaisesRegex(TypeError, r"run = minsep.Run\('run'\), then private\(loss, optimizer, run\)"):
            self.begin("run")
        params = self.params()
        for optimizer, params, words in (
            (optax.adam(0.1), {**params, "more": np.zeros(2, np.float32)}, "^params: have 38 trained coordinates, and the noise of .* has 36: prepare or run it again at another path, with this model or `--coordinates 38`"),
            (optax.adam(0.1), {**params, "more": np.zeros(0, int)}, r"^params: \['more'\] is of type int"),
            (optax.adam(0.1), collections.OrderedDict(b=np.zeros(30, np.float32), a=np.zeros(6, np.float32)), "^params: must be a tree of dicts"),
            (optax.lbfgs(), params, "^optimizer: cannot make an update of the noisy mean and the parameters alone"),
            (optax.contrib.reduce_on_plateau(), params, "^optimizer: cannot make an update"),
            (optax.polyak_sgd(), params, "^optimizer: cannot make an update"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                self.begin(run, optimizer).init(params)
        for frozen in {"first": True}, {"first": {"w": True}, "last": False}, [True, False]:
            with self.assertRaisesRegex(ValueError, "^frozen: must be a tree of True and False as params are"):
                self.begin(run, frozen=frozen).init(self.params())
        with self.assertRaisesRegex(ValueError, "^params: have 12 trained coordinates, and the noise of .* has 36"):
            self.begin(run, frozen={"first": True, "last": False}).init(self.params())
        with self.assertRaisesRegex(ValueError, "^params: has no array that is trained"):
            self.begin(run, frozen=True).init(self.params())
        self.assertFalse((self.folder / "own" / "training.json").exists())  # nothing of it began a training
        fine = self.begin(minsep.Run(runs.make_noisy(self.folder / "fine", 20, 36, extra=("--dtype", "float64"))))
        with self.assertRaisesRegex(ValueError, "dtype float32: must be float64|--dtype float32"):
            fine.init(self.params())
        self.assertEqual(jax.process_count(), 1)

    @needs_optax
    def test_losses_and_batches(self):
        import jax

        run = minsep.Run(self.own_noisy(20, 36))
        x, y = self.data()
        for loss, words in (
            (lambda p, x, y: (self.loss(p, x, y), {"mean": x}), "^loss: must give one number for one example, and not tuple"),
            (lambda p, x, y: x * p["first"]["b"][0], r"^loss: must give one number .* not an array of shape \(5,\)"),
            (lambda p, x, y: 3.0, "^loss: must give one number .* not float"),
            (lambda p, x, y: (x @ p["first"]["w"] > 0).sum(), "^loss: gives a number of type int32, which has no gradient"),
            (lambda p, x, y: jax.lax.stop_gradient(self.loss(p, x, y)), "^loss: does not depend on the trained parameters"),
            (lambda p, x, y: x.sum(), "^loss: does not depend on the trained parameters"),
            (lambda p, x, y: self.loss(p, x, y) if x[0] > 0 else 0.0, r"^loss: looks at a value of an example or parameter, at line \d+ of .*test_optax.py: .*jax.lax.cond"),
            (lambda p, x, y: self.loss(p, np.abs(x), np.asarray(y)), r"^loss: looks at a value of an example or parameter, at line \d+ of .*test_optax.py: .*take jax.numpy"),
        ):
            training = self.begin(run, loss=loss)
            state = training.init(self.params())
            with self.assertRaisesRegex(ValueError, words):
                training.step(state, *next(training.batches(x, y)))
            self.assertEqual(training.guard.next_step, 0)
            training.close()
        training = self.begin(run)
        state = training.init(self.params())
        with self.assertRaisesRegex(ValueError, "^data: has 50 examples, and the run has [0-9]+:"):
            training.batches(jax.numpy.asarray(x[:50]), y)
        for wrong in [1.0] * 100, np.array(["a"] * 100), np.float32(3):
            with self.assertRaisesRegex(TypeError, r"^data\[0\].*: must be an array of numbers that has the examples as its first dimension"):
                training.batches(wrong, y)
        other = self.begin(minsep.Run(runs.make_noisy(self.folder / "other", 20, 36)))
        other.init(self.params())
        with self.assertRaisesRegex(minsep.TrainingError, "^batch: is of step 0 of the run in .*other, and the training is of the run in .*own"):
            training.step(state, *next(other.batches(x, y)))
        batch = next(training.batches(x, y))
        for wrong in (), (batch[0][:-1], batch[1][:-1]), (batch[0], batch[1][:-1]), (batch[0], 3), (np.repeat(batch[0], 2, 0), np.repeat(batch[1], 2)):
            with self.assertRaisesRegex(ValueError, "^batch: must"):
                training.step(state, *wrong)
        with self.assertRaisesRegex(TypeError, "^step: must be called outside of jax.jit"):
            jax.jit(lambda s: training.step(s, *batch))(state)
        batches = training.batches(x, y)
        next(batches)
        after = training.step(state, *batch)
        next(batches)
        training.step(after, *(a[run.batch(1)] for a in (x, y)))
        self.assertEqual(training.guard.next_step, 2)
        late = training.batches(x, y)
        next(late)
        with self.assertRaisesRegex(minsep.TrainingError, "batch of step 3: the next step is 2: give each batch to step once"):
            next(late)
        with self.assertRaisesRegex(minsep.TrainingError, r"private\(…\).step takes the steps of this guard"):
            next(iter(training.guard))
        training.close()
        joined = self.begin(run.join(runs.ids_of("numbers", 100)))
        joined.init(self.params(), training.state)
        with self.assertRaisesRegex(ValueError, "^data: has 99 examples, and the run the ids, or rows of owners, of 100"):
            joined.batches(x[:99], y)

    @needs_optax
    def test_random_numbers(self):
        """They are those of an example and a step, wherever it stands in its batch; others have others."""
        import jax
        import optax

        run = minsep.Run(self.own_noisy(20, 36))
        training = self.begin(run, optax.sgd(1.0), lambda p, x, y, rng: p["last"][0][0, 0] * jax.random.uniform(rng), rng=True, microbatch=2)
        training.init(self.params())
        words = lambda step, rows: np.asarray(training._padded(step, np.array(rows), (np.zeros((len(rows), 5)),))[2][-1])
        a, b = words(3, [8, 9]), words(3, [9])
        np.testing.assert_array_equal(a[1], b[0])
        for other in words(4, [9]), words(3, [8]):
            self.assertFalse(np.array_equal(other[0], b[0]))
        numbers = jax.vmap(lambda w: jax.random.uniform(jax.random.wrap_key_data(w, impl="threefry2x32")))(words(0, list(range(100)))[:100])
        self.assertEqual(len(set(np.asarray(numbers).tolist())), 100)
