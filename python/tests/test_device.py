"""Noise that is made on devices: the bits of the command, whatever the strategy and the sharding."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import pickle
import shutil
import unittest
import unittest.mock

import numpy as np

import minsep
from minsep import _device
from minsep.errors import MinsepError, RunDirectoryError, TrainingError
from tests import runs

if runs.has("jax"):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    import jax

    from minsep import _jaxnoise
    import minsep.jax

if runs.has("torch"):
    import torch

    import minsep.torch
    from minsep import _torchnoise

STEPS, SHAPES = 9, {"a": (6, 8, 3), "b": (), "c": (0, 4), "d": (12,)}
SIZE = sum(math.prod(shape) for shape in SHAPES.values())
STRATEGIES = {
    "identity": ("--kind", "identity"),
    "banded": ("--kind", "banded-toeplitz", "--bands", "4", "--min-sep", "4"),
    "columns": ("--kind", "banded", "--bands", "4", "--min-sep", "4"),  # with the programs of the one before
    "inverse": ("--kind", "bisr", "--bands", "3"),
    "blt": ("--kind", "blt", "--buffers", "2"),
}
WORDS = ("--words", "chacha12")


def tree(place=lambda name, array: array):
    return {name: place(name, np.zeros(shape, np.float32)) for name, shape in SHAPES.items()}


class Recipes(runs.Case):
    def test_numpy_makes_the_bits_of_the_command(self) -> None:
        for name, strategy in STRATEGIES.items():
            run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=strategy))
            recipe = _device.open_recipe(run, runs.key(), runs.bytes_of(run))
            for t in range(STEPS):
                for lo, hi in (0, SIZE), (5, 6), (17, 100):
                    np.testing.assert_array_equal(recipe.host_row(t, lo, hi).astype(np.float32), run.noise(t)[lo:hi], f"{name}, step {t}")

    def test_refusals(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE))
        with self.assertRaisesRegex(RunDirectoryError, "aes-128.*--words chacha12"):
            _device.open_recipe(run, runs.key(), runs.bytes_of(run))
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["identity"]))
        other = self.folder / "other"
        runs.minsep("keygen", other)
        with self.assertRaisesRegex(MinsepError, "is not the key that the noise"):
            _device.open_recipe(run, other, bytes)
        other.chmod(0o644)
        with self.assertRaisesRegex(MinsepError, "0600"):
            _device.open_recipe(run, other, bytes)
        short = self.folder / "short"
        short.write_bytes(b"x" * 31)
        short.chmod(0o600)
        for path, said in (short, "exactly 32 bytes"), (self.folder, "regular file"), (self.folder / "none", "cannot be read"):
            with self.assertRaisesRegex(MinsepError, said):
                _device.open_recipe(run, path, bytes)

    def test_recipes_are_shown_without_their_keys(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["identity"]))
        recipe = _device.open_recipe(run, runs.key(), runs.bytes_of(run))
        for word in np.concatenate(recipe.keys(0)):
            self.assertNotIn(str(word), repr(recipe) + str(recipe))


class Devices:
    """Tests of `device_noise` of any package. A subclass says how to make a reader, and has trees of arrays on other devices."""

    def reader(self, run, like, **options):
        raise NotImplementedError

    def begun(self, name, strategy="banded", size=SIZE, steps=STEPS, like=None):
        """A run of its own with a guard and a reader."""
        run = minsep.Run(runs.make_noisy(self.folder / name, steps, size, STRATEGIES[strategy], WORDS))
        guard = runs.known(run)
        return run, guard, self.reader(run, tree() if like is None else like, guard=guard, key=runs.key())

    def flat(self, given):
        return np.concatenate([np.asarray(given[name]).reshape(-1) for name in sorted(given)])

    def check(self, run, noise, steps) -> None:
        for t in steps:
            self.assertEqual(self.flat(noise.step(t)).tobytes(), run.noise(t).tobytes(), f"step {t}")  # zeros are positive too

    def test_the_bits_of_the_command_after_a_resume_too(self) -> None:
        """On other devices, from the beginning and from a state that was saved."""
        for name in STRATEGIES:
            likes = {"banded": (tree(), self.other_tree()), "columns": (tree(),)}.get(name, ({"x": np.zeros(SIZE)},))
            for like in likes:
                for with_state in False, True:
                    with self.subTest(strategy=name, other=like is not likes[0], state=with_state):
                        run, guard, noise = self.begun(f"{name}-{type(like.get('a')).__name__}-{with_state}", name, like=like)
                        for step in guard:
                            self.check(run, noise, [step])
                            if step == 3:
                                break
                        saved, state = guard.state_dict(), None
                        if with_state:
                            self.assertFalse(any(str(int(w)) in repr(noise.state_dict()) for w in _device.open_recipe(run, runs.key(), runs.bytes_of(run)).keys(0)[0]))
                            state = self.loaded(pickle.loads(pickle.dumps(self.saved(noise.state_dict()))))
                        guard.close()
                        guard = runs.known(run, saved)
                        noise = self.reader(run, likes[0], guard=guard, key=runs.key(), state=state)
                        for step in guard:
                            self.check(run, noise, [step])

    def test_states_that_are_refused(self) -> None:
        run, guard, noise = self.begun("own")
        for step in range(3):
            guard.take(step)
            noise.step(step)
        saved, state = guard.state_dict(), noise.state_dict()
        guard.close()
        _, other_guard, other = self.begun("other")
        other_guard.take(0)
        other.step(0)
        rows = state["rows"]
        cases = {
            "the result of state_dict of this noise": {"rows": rows},
            "its run_id is .* it is of another run": other.state_dict(),
            "its recipe is .* it is of another recipe of noise": {**state, "recipe": "0" * 64},
            "its layout is .* other names or shapes": {**state, "layout": "0" * 64},
            "its first is 7, and must be 0": {**state, "first": 7},
            "its format is .* none that this version reads": {**state, "format": "x"},
            "its step is 4, and the training goes on with step 3": {**state, "step": 4},
            "its step is -1": {**state, "step": -1},
            "is of other steps than the training has taken": {**state, "steps": "0" * 64},
            "other shapes": {**state, "rows": rows[:-1]},
            "not float64": {**state, "rows": [np.asarray(r, np.float32) for r in rows]},
        }
        guard = runs.known(run, saved)
        for said, wrong in cases.items():
            with self.subTest(said), self.assertRaisesRegex(ValueError, said):
                self.reader(run, tree(), guard=guard, key=runs.key(), state=wrong)
        noise = self.reader(run, tree(), guard=guard, key=runs.key(), state=state)
        for step in guard:
            self.check(run, noise, [step])

    def test_short_pairs_are_made_beyond_the_check(self) -> None:
        """The pair that every device is tested with, in a leaf of its own."""
        public = np.arange(8, dtype=np.uint32)
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["identity"]))
        recipe = dataclasses.replace(_device.open_recipe(run, runs.key(), runs.bytes_of(run)), keys=lambda step: (public, public), grid=0.0)
        for first in range(0, 1 << 27, 1 << 20):
            found = np.flatnonzero(_device.polar(_device.Ops(), _device.chacha(_device.Ops(), list(public), _device.split(np.arange(first, first + (1 << 20), dtype=np.uint64)), _device.split(np.uint64(0))))[3].any(1))
            if len(found):
                break
        self.assertTrue(len(found))
        at, count = 8 * (first + int(found[0])), 1032  # as many as of the check, whose program has been compiled
        for device, made in self.parts(recipe, at, count):
            np.testing.assert_array_equal(made, recipe.host_row(0, at, at + count))

    def test_long_leaves_are_made_in_parts(self) -> None:
        size = 3 * (1 << 18) // 2 + 5
        run, guard, noise = self.begun("own", "identity", size, 2, {"x": np.zeros(size)})
        for step in guard:
            np.testing.assert_array_equal(noise.step(step)["x"], run.noise(step))

    def test_misuse(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["banded"], WORDS))
        with self.assertRaisesRegex(TypeError, "StepGuard"):
            self.reader(run, tree(), guard=None, key=runs.key())
        guard = runs.known(run)
        with self.assertRaisesRegex(ValueError, "coordinates"):
            self.reader(run, {"a": np.zeros(3)}, guard=guard, key=runs.key())
        noise = self.reader(run, tree(), guard=guard, key=runs.key())
        with self.assertRaisesRegex(TrainingError, "has not taken"):
            noise.step(0)
        guard.take(0)
        given = noise.step(0)
        mean = self.added(given, run.grid)
        np.testing.assert_array_equal(self.flat(mean), run.noise(0))
        with self.assertRaisesRegex(TrainingError, "was added"):
            self.added(given, run.grid)
        with self.assertRaisesRegex(TrainingError, "next step is 1"):
            noise.step(0)
        with self.assertRaises(TrainingError):  # a second training
            self.reader(run, tree(), guard=minsep.StepGuard(run), key=runs.key()).step(0)


@runs.needs("jax")
class Jax(Devices, runs.Case):
    def reader(self, run, like, **options):
        return minsep.jax.device_noise(run, like, **options)

    def parts(self, recipe, first, count):
        with jax.enable_x64(True):
            return _jaxnoise._Leaf(recipe, (count,), jax.sharding.SingleDeviceSharding(jax.devices()[0]), first, "float64").parts(0)

    def saved(self, state):
        return {**state, "rows": [np.asarray(r) for r in state["rows"]]}

    def loaded(self, state):
        return state

    def other_tree(self):
        return self.sharded()

    def added(self, given, grid):
        return minsep.jax.add_noise({name: np.zeros(x.shape, np.int32) for name, x in given.items()}, given, grid, 1)

    def mesh(self):
        return jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))

    def sharded(self):
        specs = {"a": ("y", "x", None), "b": (), "c": (None, "x"), "d": (("x", "y"),)}
        spec = {name: jax.sharding.NamedSharding(self.mesh(), jax.sharding.PartitionSpec(*axes)) for name, axes in specs.items()}
        return tree(lambda name, array: jax.device_put(array, spec[name]))

    def test_leaves_and_states_stay_where_they_are(self) -> None:
        like = self.sharded()
        run, guard, noise = self.begun("own", like=like)
        guard.take(0)
        given = noise.step(0)
        for (name, leaf), rows in zip(sorted(given.items()), noise.state_dict()["rows"]):
            self.assertEqual((leaf.dtype, leaf.shape), (np.float32, like[name].shape))
            self.assertTrue(leaf.sharding.is_equivalent_to(like[name].sharding, leaf.ndim), (name, leaf.sharding))
            self.assertEqual((rows.shape, rows.dtype), ((3, *leaf.shape), np.float64))
            self.assertEqual(tuple(rows.sharding.spec[1:]), tuple(leaf.sharding.spec), name)
        saved, state = guard.state_dict(), noise.state_dict()
        guard.close()
        guard = runs.known(run, saved)
        noise = self.reader(run, like, guard=guard, key=runs.key(), state=state)  # arrays as they are
        for step in guard:
            self.check(run, noise, [step])
        self.assertFalse(jax.config.jax_enable_x64)

    def short_radii(self):
        """The function that makes the radii of short pairs, as one program, whose zero the compiler does not know."""
        made = jax.jit(lambda zero, *given: _jaxnoise._short_radii(_jaxnoise._JaxOps(zero), *given))
        return lambda *given: made(np.int64(0), *given)

    def test_more_short_pairs_than_there_is_room_for_are_nan(self) -> None:
        with jax.enable_x64(True):
            numbers = np.arange(40, dtype=np.uint32)
            radii = self.short_radii()(np.arange(8, dtype=np.uint32), [np.ones(40, np.uint32)] * 16, (numbers, numbers), np.uint32(0), np.zeros((40, 4)), np.ones((40, 4), bool))
        self.assertTrue(np.isnan(radii).all())

    def test_short_pairs_of_any_number_of_zeros(self) -> None:
        """Radius words with 24 to 64 leading zeros, against the radius from all of their bits."""
        tails, step, short_radii = np.arange(8, dtype=np.uint32), 5, self.short_radii()
        for word in [1 << k for k in range(40)] + [0, (1 << 40) - 1, 0x3FF]:
            low, high = np.uint32(word & 0xFFFFFFFF), np.uint32(word >> 32)
            words = [np.full(2, w, np.uint32) for w in [1 << 31] * 4 + [low, high] + [1 << 31] * 10]
            short = np.zeros((2, 4), bool)
            short[1, 1] = True
            with jax.enable_x64(True):
                made = short_radii(tails, words, (np.array([7, 8], np.uint32), np.zeros(2, np.uint32)), np.uint32(step), np.ones((2, 4)), short)
            want = np.ones((2, 4))
            want[1, 1] = _device.tail_radius(word, lambda r: _device._pair_words(tails, step, 8 * 4 + 1 + (r << 48)))
            np.testing.assert_array_equal(np.asarray(made), want)

    def test_a_device_with_other_arithmetic_is_refused(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["banded"]))
        recipe = _device.open_recipe(run, runs.key(), runs.bytes_of(run))
        exact, others = _jaxnoise._JaxOps.sqrt, jax.devices()[1:3]  # which have no program of another test
        with jax.enable_x64(True), unittest.mock.patch.object(_jaxnoise._JaxOps, "sqrt", lambda self, x: exact(self, x) * (1 + 2.0**-52)):
            with self.assertRaisesRegex(MinsepError, "IEEE 754"):
                _jaxnoise._check_devices(recipe, others)

    def test_the_key_is_no_constant_of_the_program(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["banded"], WORDS))
        guard = runs.known(run)
        noise = minsep.jax.device_noise(run, tree(), guard=guard, key=runs.key())
        leaf = noise._leaves[0]
        recipe = leaf.recipe
        with jax.enable_x64(True):
            text = _jaxnoise._make.lower(*leaf.arguments(0), program=leaf._program).as_text()
        self.assertIn("1634760805", text)  # a constant of ChaCha12, so that the test sees constants
        for word in np.concatenate(recipe.keys(0)):
            self.assertNotIn(str(int(word)), text)


@runs.needs("torch")
class Torch(Devices, runs.Case):
    def reader(self, run, like, **options):
        return minsep.torch.device_noise(run, like, **options)

    def parts(self, recipe, first, count):
        return _torchnoise._Leaf(recipe, (count,), torch.device("cpu"), first, _torchnoise._each, torch.float64).parts(0)

    def saved(self, state):
        file = io.BytesIO()
        torch.save(state, file)
        return file.getvalue()

    def loaded(self, state):
        return torch.load(io.BytesIO(state))

    def other_tree(self):
        return tree(lambda name, array: torch.tensor(array))

    def added(self, given, grid):
        return minsep.torch.add_noise({name: torch.zeros(x.shape, dtype=torch.float64) for name, x in given.items()}, given, grid, 1)

    def test_shards(self) -> None:
        """Each process has its own coordinates, at any strategy's state."""
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE + 1, STRATEGIES["banded"], WORDS))
        guard, half = runs.known(run), (SIZE + 1) // 2
        parts = [self.reader(run, {"a": np.zeros(5), "b": torch.zeros(half - 5)}, guard=guard, key=runs.key(), shard=shard, shards=2) for shard in range(2)]
        for step in guard:
            np.testing.assert_array_equal(np.concatenate([self.flat(noise.step(step)) for noise in parts]), run.noise(step))
        self.assertEqual([noise.state_dict()["first"] for noise in parts], [0, half])

    def test_a_device_with_other_arithmetic_is_refused(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["banded"]))
        recipe, exact = _device.open_recipe(run, runs.key(), runs.bytes_of(run)), _torchnoise._TorchOps.sqrt
        with unittest.mock.patch.object(_torchnoise._TorchOps, "sqrt", lambda self, x: exact(self, x) * (1 + 2.0**-52)), self.assertRaisesRegex(MinsepError, "IEEE 754"):
            _torchnoise._check_device(recipe, torch.device("cpu"), _torchnoise._each)
        with self.assertRaisesRegex(MinsepError, "device mps: has no numbers of 64 bits"):
            _torchnoise._check_device(recipe, torch.device("mps"), _torchnoise._each)

    def test_noise_of_float64(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["banded"], (*WORDS, "--dtype", "float64")))
        guard = runs.known(run)
        noise = self.reader(run, torch.zeros(SIZE), guard=guard, key=runs.key())
        for step in guard:
            given = noise.step(step)
            self.assertEqual(given.dtype, torch.float64)
            np.testing.assert_array_equal(given.numpy(), run.noise(step))

    @runs.needs("torch", "torch._inductor")
    def test_one_program_makes_the_same_bits(self) -> None:
        if shutil.which("g++") is None:
            self.skipTest("no g++")
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["banded"], WORDS))
        guard = runs.known(run)
        noise = self.reader(run, self.other_tree(), guard=guard, key=runs.key(), fuse=True)
        for step in guard:
            self.check(run, noise, [step])


if __name__ == "__main__":
    unittest.main()
