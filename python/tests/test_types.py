"""Arguments of other types than functions take: each is refused by its name, in words that say what to give."""

from __future__ import annotations

import pathlib

import numpy as np

import minsep

from . import runs

WRONG = "a word", 1.5, [1.5], {"a": "word"}, b"bytes", object(), np.zeros(2), pathlib.Path("a path")


class Types(runs.Case):
    def refused(self, name: str, function, good: dict, wrong=WRONG, **more) -> None:
        for value in wrong:
            with self.subTest(f"{function.__qualname__}({name}={value!r})"), self.assertRaises((TypeError, ValueError)) as caught:
                function(**{**good, name: value}, **more)
            self.assertRegex(str(caught.exception), f"^{name}\\b")

    def test_paths_in_place_of_runs(self):
        for function, more in (minsep.StepGuard, {}), (minsep.read_noise, {"guard": None}):
            for run in "run", pathlib.Path("run"):
                with self.assertRaises(TypeError) as caught:
                    function(run, **more)
                self.assertIn(f"run {run!r}: must be an opened run directory, and not {type(run).__name__}: run = minsep.Run({run!r}), then {function.__name__}(run", str(caught.exception))
            self.refused("run", function, {}, [5, None, *WRONG], **more)

    def test_guards_and_readers(self):
        run = minsep.Run(self.own_noisy(20, 33))
        self.refused("guard", minsep.read_noise, {"run": run}, [5, run, *WRONG])
        for name in "rank", "ranks", "gather":
            self.refused(name, minsep.StepGuard, {"run": run})
        guard = minsep.StepGuard(run)
        for name in "shard", "shards", "replica", "dtype":
            self.refused(name, minsep.read_noise, {"run": run, "guard": guard})
        self.refused("like", minsep.read_noise, {"run": run, "guard": guard}, [5, run, *WRONG])
        self.refused("step", guard.take, {})
        noise = minsep.read_noise(run, guard=guard)
        total, row = np.zeros(33), np.zeros(33, np.float32)
        with self.assertRaisesRegex(ValueError, r"^noise: NoiseReader is neither .*: its step\(t\) gives the noise of a step"):
            minsep.add_noise(total, noise, run.grid, 1)
        good = {"total": total, "noise": row, "grid": run.grid, "divisor": 1}
        self.refused("grid", minsep.add_noise, good, [None, "a word", [1.5], {"a": 1}, object(), run])
        for name in "total", "noise":
            self.refused(name, minsep.add_noise, good, [5, run, "a word", 1.5, object()])
        self.refused("step", run.batch, {})
        for name in "step", "shard", "shards":
            self.refused(name, run.noise, {"step": 0})

    def test_numbers(self):
        run = minsep.Run(self.noisy())
        for name in "batch", "multiple", "rank", "ranks":
            self.refused(name, minsep.pad, {"batch": np.arange(3), "multiple": 8})
        good = {"gradients": np.zeros((2, 33)), "clip_norm": run.clip_norm, "grid": run.grid}
        for name in "clip_norm", "grid":
            self.refused(name, minsep.clip_and_sum, good)
        self.refused("gradients", minsep.clip_and_sum, good, [5, run, "a word", 1.5, object()])
        self.assertEqual(minsep.pad(np.arange(3), np.int64(8), np.int32(1), np.int8(2)).tolist(), [-1] * 4)  # any integer
        self.assertEqual(len(minsep.pad(np.arange(3), (2, np.int64(4)))), 4)

    @runs.needs("torch")
    def test_torch(self):
        import minsep.torch as dp

        self.refused("run", dp.Batches, {"guard": None, "start": 0})
        self.refused("run", dp.NoisyOptimizer, {"optimizer": None, "noise": None, "guard": None})
        with self.assertRaisesRegex(TypeError, "^noise, guard: must "):
            dp.NoisyOptimizer(None, minsep.Run(self.noisy()), None, None)

    @runs.needs("jax")
    def test_jax(self):
        import minsep.jax as dp

        self.refused("run", dp.Steps, {"source": [], "guard": None, "multiple": 1})
        run = minsep.Run(self.noisy())
        with self.assertRaisesRegex(TypeError, "^noise: must be the noise of a step"):
            dp.add_noise(np.zeros(33, np.int32), runs.Reader(run).noise, run.grid, 1)
        if runs.has("optax"):
            self.refused("run", dp.privatizer, {"noise": None})
            self.refused("noise", dp.privatizer, {"run": run})
        if runs.has("jax_privacy"):
            self.refused("run", dp.batch_selection, {"guard": None})
