"""Noise that is made on devices: the bits of the command, whatever the strategy and the sharding."""

from __future__ import annotations

import math
import os
import unittest

import numpy as np

import minsep
from minsep import _device
from minsep.errors import MinsepError, RunDirectoryError, TrainingError
from tests import runs

if runs.has("jax"):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    import jax

    from minsep import _jaxnoise
    from minsep.jax import add_noise, device_noise

STEPS, SHAPES = 9, {"a": (6, 8, 3), "b": (), "c": (0, 4), "d": (12,)}
SIZE = sum(math.prod(shape) for shape in SHAPES.values())
STRATEGIES = {
    "identity": ("--kind", "identity"),
    "banded": ("--kind", "banded-toeplitz", "--bands", "4", "--min-sep", "4"),
    "columns": ("--kind", "banded", "--bands", "3", "--min-sep", "3"),
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
            recipe = _device.open_recipe(run, runs.key())
            for t in range(STEPS):
                for lo, hi in (0, SIZE), (5, 6), (17, 100):
                    np.testing.assert_array_equal(recipe.host_row(t, lo, hi).astype(np.float32), run.noise(t)[lo:hi], f"{name}, step {t}")

    def test_refusals(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE))
        with self.assertRaisesRegex(RunDirectoryError, "aes-128.*--words chacha12"):
            _device.open_recipe(run, runs.key())
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["identity"]))
        other = self.folder / "other"
        runs.minsep("keygen", other)
        with self.assertRaisesRegex(MinsepError, "is not the key that the noise"):
            _device.open_recipe(run, other)
        other.chmod(0o644)
        with self.assertRaisesRegex(MinsepError, "0600"):
            _device.open_recipe(run, other)
        short = self.folder / "short"
        short.write_bytes(b"x" * 31)
        short.chmod(0o600)
        for path, said in (short, "exactly 32 bytes"), (self.folder, "regular file"), (self.folder / "none", "cannot be read"):
            with self.assertRaisesRegex(MinsepError, said):
                _device.open_recipe(run, path)

    def test_recipes_are_shown_without_their_keys(self) -> None:
        recipe = _device.open_recipe(minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["identity"])), runs.key())
        for word in (*recipe.normals, *recipe.tails):
            self.assertNotIn(str(word), repr(recipe) + str(recipe))


@runs.needs("jax")
class Jax(runs.Case):
    def mesh(self):
        return jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))

    def sharded(self):
        specs = {"a": ("y", "x", None), "b": (), "c": (None, "x"), "d": (("x", "y"),)}
        spec = {name: jax.sharding.NamedSharding(self.mesh(), jax.sharding.PartitionSpec(*axes)) for name, axes in specs.items()}
        return tree(lambda name, array: jax.device_put(array, spec[name]))

    def check(self, run, noise, steps) -> None:
        for t in steps:
            given, want = noise.step(t), run.noise(t)
            flat = np.concatenate([np.asarray(given[name]).reshape(-1) for name in sorted(given)])
            self.assertEqual(flat.tobytes(), want.tobytes(), f"step {t}")  # zeros are positive too

    def test_the_bits_of_the_command_on_any_sharding(self) -> None:
        for name, strategy in STRATEGIES.items():
            for like in (tree(), self.sharded()) if name == "banded" else (tree(),):
                with self.subTest(strategy=name, sharded=isinstance(like["a"], jax.Array)):
                    directory = self.folder / f"{name}-{type(like['a']).__name__}"
                    run = minsep.Run(runs.make_noisy(directory, STEPS, SIZE, strategy, WORDS))
                    guard = minsep.StepGuard(run)
                    noise = device_noise(run, like, guard=guard, key=runs.key())
                    for step in guard:
                        self.check(run, noise, [step])
                        if step == 3:
                            saved = guard.state_dict()
                            break
                    guard.close()
                    # Another process goes on, with another sharding.
                    guard = minsep.StepGuard(run, saved)
                    noise = device_noise(run, tree(), guard=guard, key=runs.key())
                    for step in guard:
                        self.check(run, noise, [step])

    def test_leaves_stay_where_they_are(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["identity"], WORDS))
        like, guard = self.sharded(), minsep.StepGuard(run)
        noise = device_noise(run, like, guard=guard, key=runs.key())
        guard.take(0)
        for name, leaf in noise.step(0).items():
            self.assertEqual((leaf.dtype, leaf.shape), (np.float32, like[name].shape))
            self.assertTrue(leaf.sharding.is_equivalent_to(like[name].sharding, leaf.ndim), (name, leaf.sharding))
        self.assertFalse(jax.config.jax_enable_x64)

    def test_long_leaves_are_made_in_parts(self) -> None:
        size = 3 * _jaxnoise._PART // 2 + 5
        run = minsep.Run(runs.make_noisy(self.folder / "own", 2, size, STRATEGIES["identity"], WORDS))
        guard = minsep.StepGuard(run)
        noise = device_noise(run, {"x": np.zeros(3), "y": np.zeros(size - 3)}, guard=guard, key=runs.key())
        for step in guard:
            given = noise.step(step)
            np.testing.assert_array_equal(np.concatenate([given["x"], given["y"]]), run.noise(step))

    def test_more_short_pairs_than_there_is_room_for_are_nan(self) -> None:
        with jax.enable_x64(True):
            ops, short = _jaxnoise._JaxOps(0), np.ones((40, 4), bool)
            words = [jax.numpy.ones(40, np.uint32)] * 16
            radii = _jaxnoise._short_radii(ops, jax.numpy.arange(8, dtype=np.uint32), words, (jax.numpy.arange(40, dtype=np.uint32),) * 2, np.uint32(0), jax.numpy.zeros((40, 4)), short)
        self.assertTrue(np.isnan(radii).all())

    def test_short_pairs_of_any_number_of_zeros(self) -> None:
        """Radius words with 24 to 64 leading zeros, against the radius from all of their bits."""
        tails, step = np.arange(8, dtype=np.uint32), 5
        for word in [1 << k for k in range(40)] + [0, (1 << 40) - 1, 0x3FF]:
            low, high = np.uint32(word & 0xFFFFFFFF), np.uint32(word >> 32)
            words = [np.full(2, w, np.uint32) for w in [1 << 31] * 4 + [low, high] + [1 << 31] * 10]
            short = np.zeros((2, 4), bool)
            short[1, 1] = True
            with jax.enable_x64(True):
                made = _jaxnoise._short_radii(_jaxnoise._JaxOps(0), jax.numpy.asarray(tails), words, (jax.numpy.array([7, 8], np.uint32), jax.numpy.zeros(2, np.uint32)), np.uint32(step), jax.numpy.ones((2, 4)), short)
            want = np.ones((2, 4))
            want[1, 1] = _device.tail_radius(word, lambda r: _device._pair_words(tails, step, 8 * 4 + 1 + (r << 48)))
            np.testing.assert_array_equal(np.asarray(made), want)

    def test_a_device_with_other_arithmetic_is_refused(self) -> None:
        run = minsep.Run(self.noisy(STEPS, SIZE, *WORDS, strategy=STRATEGIES["banded"]))
        recipe = _device.open_recipe(run, runs.key())
        exact = _jaxnoise._JaxOps.sqrt
        try:
            _jaxnoise._JaxOps.sqrt = lambda self, x: exact(self, x) * (1 + 2.0**-52)
            jax.clear_caches()
            with jax.enable_x64(True), self.assertRaisesRegex(MinsepError, "IEEE 754"):
                _jaxnoise._check_devices(recipe, jax.devices()[:1])
        finally:
            _jaxnoise._JaxOps.sqrt = exact
            jax.clear_caches()

    def test_the_key_is_no_constant_of_the_program(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["banded"], WORDS))
        guard = minsep.StepGuard(run)
        noise = device_noise(run, tree(), guard=guard, key=runs.key())
        leaf = noise._leaves[0]
        recipe = leaf.recipe
        with jax.enable_x64(True):
            text = _jaxnoise._make.lower(*leaf.arguments(0), program=leaf._program).as_text()
        self.assertIn("1634760805", text)  # a constant of ChaCha12, so that the test sees constants
        for word in (*recipe.normals, *recipe.tails):
            self.assertNotIn(str(int(word)), text)

    def test_misuse(self) -> None:
        run = minsep.Run(runs.make_noisy(self.folder / "own", STEPS, SIZE, STRATEGIES["identity"], WORDS))
        with self.assertRaisesRegex(TypeError, "StepGuard"):
            device_noise(run, tree(), guard=None, key=runs.key())
        guard = minsep.StepGuard(run)
        with self.assertRaisesRegex(ValueError, "coordinates"):
            device_noise(run, {"a": np.zeros(3)}, guard=guard, key=runs.key())
        noise = device_noise(run, tree(), guard=guard, key=runs.key())
        with self.assertRaisesRegex(TrainingError, "has not taken"):
            noise.step(0)
        guard.take(0)
        given = noise.step(0)
        total = jax.tree_util.tree_map(lambda x: np.zeros(x.shape, np.int32), given)
        add_noise(total, given, run.grid, 1)
        with self.assertRaisesRegex(TrainingError, "was added"):
            add_noise(total, given, run.grid, 1)
        with self.assertRaisesRegex(TrainingError, "next step is 1"):
            noise.step(0)
        with self.assertRaises(TrainingError):  # a second training
            device_noise(run, tree(), guard=minsep.StepGuard(run), key=runs.key()).step(0)


if __name__ == "__main__":
    unittest.main()
