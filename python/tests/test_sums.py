"""What a step releases when it is repeated: the same, or it is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import unittest
import warnings

import numpy as np

import minsep

from . import runs


class Sums(runs.Case):
    def setUp(self):
        super().setUp()
        self.path = self.own_noisy(20, 33)
        self.run_ = minsep.Run(self.path)

    def train(self, state, steps, factor=1, like=None, replay=True, add=minsep.add_noise, wrap=np.asarray, **more):
        """Takes steps whose sums are factor times a multiple of the grid, and returns the states after them."""
        guard = minsep.StepGuard(self.run_, state, replay=replay and state is not None, **more)
        noise = minsep.read_noise(self.run_, np.zeros(33) if like is None else like, guard=guard)
        states = [guard.state_dict()]
        for _ in range(steps):
            t = guard.next_step
            guard.take(t)
            rows = noise.step(t)
            one = lambda z: wrap((t + 1) * self.run_.grid * (factor if t == 3 else 1) * np.ones(z.shape))
            total = {name: one(z) for name, z in rows.items()} if like is not None else one(rows)
            add(total, rows, self.run_.grid, 1)
            states.append(guard.state_dict())
        guard.close()
        return states

    def refused(self, *args, **more):
        with self.assertRaisesRegex(minsep.TrainingError, f"^{self.path}: step 3: releases another sum than when it was taken before, .*replay=True is wrong here: discard .*minsep run --again"):
            self.train(*args, **more)

    def test_steps_that_are_repeated(self):
        states = self.train(None, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", minsep.NotCertifiedWarning)
            for start in 0, 2, 4, 5:
                self.train(states[start], 5 - start)  # the same
        self.refused(states[2], 3, factor=2)
        self.train(states[2], 3)  # of what was refused nothing was kept
        self.refused(states[2], 3, factor=2)
        states = self.train(states[5], 2)  # and the training goes on
        self.assertEqual(states[-1]["next_step"], 7)
        file = self.path / "training.sums" / "0-of-1"
        self.assertEqual(file.stat().st_size, 64 + 16 * 7)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.assertNotEqual(self.run_.verdict().state, "broken")

    def test_a_guard_that_refused_takes_no_step(self):
        states = self.train(None, 5)
        guard = minsep.StepGuard(self.run_, states[3], replay=True)
        noise = minsep.read_noise(self.run_, guard=guard)
        guard.take(3)
        with self.assertRaisesRegex(minsep.TrainingError, "step 3: releases another sum"):
            minsep.add_noise(np.zeros(33), noise.step(3), self.run_.grid, 1)
        with self.assertRaisesRegex(minsep.TrainingError, "step 4: this guard was closed"):
            guard.take(4)

    def test_trees(self):
        like = {"b": np.zeros(3), "a": np.zeros((6, 5))}
        states = self.train(None, 5, like=like)
        self.train(states[1], 4, like=dict(reversed(like.items())))
        self.refused(states[1], 4, factor=2, like=like)

    def test_a_tree_whose_leaves_are_added_one_by_one(self):
        like = {"a": np.zeros((6, 5)), "b": np.zeros(3)}

        def one_by_one(total, rows, grid, divisor):
            for name in sorted(rows, reverse=True):
                minsep.add_noise(total[name], rows[name], grid, divisor)

        states = self.train(None, 5, like=like, add=one_by_one)
        self.train(states[1], 4, like=like)
        self.refused(states[1], 4, factor=2, like=like, add=one_by_one)

    def test_sums_that_nobody_saw(self):
        """As in a trainer that adds the noise itself: nothing could compare a repeated step, which is refused."""
        unseen = lambda total, rows, grid, divisor: minsep.add_noise(total, np.array(rows), grid, divisor)
        states = self.train(None, 5, add=unseen)
        with self.assertRaisesRegex(minsep.TrainingError, "step 2: was taken before, and no digest tells what it released.*discard.*minsep run --again"):
            self.train(states[2], 3)
        path = runs.make_noisy(self.folder / "seen")
        self.run_ = minsep.Run(path)
        states = self.train(None, 5)
        with self.assertRaisesRegex(minsep.TrainingError, "step 2 was taken before, and add_noise did not see what it releases now.*give add_noise the rows"):
            self.train(states[2], 3, add=unseen)

    def test_another_training_of_the_directory(self):
        """Digests of a training that was given up are none of the next one, and a link is not followed."""
        self.train(None, 5)
        (self.path / "training.json").unlink()
        (runs.ROOT / "state" / "minsep" / "trainings" / f"{self.run_.run_id}.json").unlink()
        states = self.train(None, 5, factor=7)
        self.refused(states[2], 3, factor=1)
        file, victim = self.path / "training.sums" / "0-of-1", self.folder / "victim"
        victim.write_text("mine")
        file.unlink()
        file.symlink_to(victim)
        with self.assertRaisesRegex(minsep.TrainingError, "step 2: was taken before, and no digest"):
            self.train(states[2], 3)
        self.assertEqual(victim.read_text(), "mine")

    def test_a_killed_process(self):
        program = f"""
import os, minsep, numpy as np
run = minsep.Run({str(self.path)!r})
guard = minsep.StepGuard(run)
noise = minsep.read_noise(run, guard=guard)
for t in guard:
    minsep.add_noise(np.ones(33) * (t + 1) * run.grid, noise.step(t), run.grid, 1)
    if t == 0:
        print(__import__("json").dumps(guard.state_dict()), flush=True)
    if t == 5:
        os.kill(os.getpid(), 9)
"""
        said = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True).stdout
        state = json.loads(said)
        self.refused(state, 4, factor=2)
        with self.assertRaisesRegex(minsep.TrainingError, "step 4: was taken before, and no digest"):  # of the last two steps
            self.train(state, 5)

    def test_hosts_that_add_noise_to_other_sums(self):
        """As of two points of a sweep that began as hosts of one training."""
        for theirs, words in {1: "", 2: "hosts 0 and 1 added the noise of step 0 to different sums.*give the whole sum to add_noise on each host. For several trainings, such as a sweep, .*minsep run --again"}.items():
            path = runs.make_noisy(self.folder / f"hosts{theirs}")
            run = minsep.Run(path)
            kept = {}

            def gather(word, other=None):
                (host,) = minsep._hosts.read(word)
                return [word, dataclasses.replace(host, rank=1, primary=False, sums=kept.get("sums", ())).word()]

            guard = minsep.StepGuard(run, ranks=2, gather=gather)
            noise = minsep.read_noise(run, guard=guard)
            guard.take(0)
            row = noise.step(0)
            minsep.add_noise(np.ones(33) * run.grid, row, run.grid, 1)
            mean = (np.ones(33) * run.grid * theirs + row).astype(np.float32)
            kept["sums"] = ((0, minsep._sums.of_bytes(minsep._sums.of_bytes(mean))),)
            with self.subTest(theirs):
                if words:
                    with self.assertRaisesRegex(minsep.TrainingError, words):
                        guard.take(1)
                else:
                    guard.take(1)
                guard.close()

    def test_replicas_of_one_process(self):
        for shards in 1, 3:
            guard = minsep.StepGuard(self.run_)
            minsep.read_noise(self.run_, guard=guard, shards=shards)
            with self.assertRaisesRegex(minsep.TrainingError, "replica 1: a reader with this guard has replica 0 of the same noise: two sums .*make one reader"):
                minsep.read_noise(self.run_, guard=guard, shards=shards, replica=1)
            guard.close()

    @runs.needs("torch")
    def test_torch(self):
        import torch

        import minsep.torch as dp

        for dtype in torch.float32, torch.bfloat16:
            with self.subTest(dtype):
                self.path = runs.make_noisy(self.folder / str(dtype))
                self.run_ = minsep.Run(self.path)
                more = {"add": lambda *args: dp.add_noise(*args, dtype=dtype), "wrap": torch.tensor}
                states = self.train(None, 5, **more)
                self.train(states[1], 4, **more)
                self.refused(states[1], 4, factor=2**20, **more)

    @runs.needs("jax")
    def test_jax(self):
        import jax.numpy as jnp

        import minsep.jax as dp

        more = {"add": dp.add_noise, "wrap": lambda x: jnp.asarray(np.round(x / self.run_.grid), jnp.int32)}
        states = self.train(None, 5, **more)
        self.train(states[1], 4, **more)
        self.refused(states[1], 4, factor=2, **more)

    @runs.needs("jax")
    def test_checksums(self):
        """Of any bit, of two places, of two signs, of one length."""
        import minsep.jax as dp

        rng = np.random.default_rng(3)
        x = rng.normal(size=37).astype(np.float32)
        found = {np.asarray(dp._on_device(x)).tobytes()}
        changed = 1
        for at in range(37):
            for bit in range(32):
                y = x.copy()
                y.view(np.uint32)[at] ^= np.uint32(1 << bit)
                found.add(np.asarray(dp._on_device(y)).tobytes())
                changed += 1
        for _ in range(200):
            a, b = rng.choice(37, 2, replace=False)
            y = x.copy()
            y[[a, b]] = y[[b, a]]
            z = x.copy()
            z[[a, b]] *= -1
            found |= {np.asarray(dp._on_device(v)).tobytes() for v in (y, z)}
        self.assertGreater(len(found), changed + 2 * 120)
        self.assertEqual(np.asarray(dp._on_device(x)).tobytes(), np.asarray(dp._on_device(x.copy())).tobytes())


class Unguarded(runs.Case):
    """Noise that run.noise gives twice, or after a training."""

    def setUp(self):
        super().setUp()
        self.path = self.own_noisy(20, 33)
        warnings.simplefilter("always", minsep.NoGuardWarning)

    def said(self, do):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", minsep.NoGuardWarning)
            do()
        found = [w for w in caught if w.category is minsep.NoGuardWarning]
        self.assertEqual([w.filename for w in found], [__file__] * len(found))
        return [str(w.message) for w in found]

    def all(self, **more):
        for t in range(20):
            minsep.Run(self.path).noise(t, **more)

    def another_process(self, program):
        done = subprocess.run([sys.executable, "-c", f"import minsep\nrun = minsep.Run({str(self.path)!r})\n{program}"], capture_output=True, text=True, check=True)
        return [line for line in done.stderr.splitlines() if "NoGuardWarning: " in line]

    def stream(self, *more):
        """What the command says while it gives the last step."""
        command = [minsep._command.find(), "noise", "--stream", "--key", str(runs.key()), "--out", str(self.path), "--from-step", "19", *more]
        return subprocess.run(command, capture_output=True, check=True).stderr.decode()

    def test_a_loop_and_a_second_one(self):
        self.assertEqual(self.said(self.all), [])
        (second,) = self.said(self.all)
        self.assertRegex(second, f"^{self.path}: the noise of step 0 was given before, without a guard, in this process. Two sums .*StepGuard.*minsep run --again.*ignore minsep.NoGuardWarning")
        self.assertEqual(self.said(self.all), [])  # it is said once

    def test_parts_that_meet(self):
        self.assertEqual(self.said(lambda: self.all(shard=0, shards=2)), [])
        self.assertEqual(self.said(lambda: self.all(shard=1, shards=2)), [])
        self.assertEqual(len(self.said(lambda: self.all(shard=1, shards=3))), 1)

    def test_another_process(self):
        self.assertEqual(self.another_process("for t in range(20): run.noise(t)"), [])
        (said,) = self.another_process("for t in range(20): run.noise(t)")
        self.assertRegex(said, "its noise was read before, without a guard")
        self.assertRegex(self.stream(), "its noise was streamed before")
        (said,) = self.said(lambda: minsep.StepGuard(minsep.Run(self.path)).close())
        self.assertRegex(said, "^.*: its noise was read before, without a guard. If a training used it, this one must not")

    def test_a_reader_of_files_in_another_process(self):
        program = "noise = minsep.read_noise(run)\nfor t in range(20): noise.step(t)"
        (said,) = self.another_process(program)
        self.assertRegex(said, "noise is read without a guard")
        _, said = self.another_process(program)
        self.assertRegex(said, "its noise was read before, without a guard")
        (said,) = self.said(lambda: minsep.StepGuard(minsep.Run(self.path)).close())
        self.assertRegex(said, "its noise was read before, without a guard. If a training used it, this one must not")

    def test_after_a_stream(self):
        self.stream("--shard", "0/2")
        self.assertEqual(self.another_process("run.noise(0, 1, 2)"), [])
        self.assertEqual(len(self.another_process("run.noise(0, 1, 4)")), 1)

    def test_after_a_training(self):
        guard = minsep.StepGuard(minsep.Run(self.path))
        guard.take(0)
        guard.close()
        (said,) = self.said(self.all)
        self.assertRegex(said, f"^{self.path}: serves a training, as {self.path}/training.json says, and its noise is read by run.noise. ")

    def test_a_training_with_a_guard_says_nothing(self):
        for key in None, str(runs.key()):
            self.path = runs.make_noisy(self.folder / f"{key is None}")

            def train():
                run = minsep.Run(self.path)
                guard = minsep.StepGuard(run)
                with minsep.read_noise(run, guard=guard, key=key) as noise:
                    for t in guard:
                        noise.step(t)

            self.assertEqual(self.said(train), [])

    def test_a_backup_of_an_earlier_run(self):
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({
            "examples": 100, "scheme": {"scheme": "poisson", "steps": 8, "batch_size": 2}, "strategy": {"kind": "identity"}, "privacy": {"epsilon": 4, "delta": 1e-3},
            "noise": {"coordinates": 3, "recipe_only": True}, "key": str(runs.key()), "out": str(self.folder / "run"),
        }))  # fmt: skip
        runs.minsep("run", plan)
        shutil.copytree(self.folder / "run", self.folder / "kept")
        runs.minsep("run", plan, "--again")
        run = minsep.Run(self.folder / "run")
        self.assertIsNone(run.verdict().later_run)
        shutil.rmtree(self.folder / "run")
        shutil.move(self.folder / "kept", self.folder / "run")
        self.assertEqual(minsep.Run(self.folder / "run").verdict().later_run, run.run_id)


if __name__ == "__main__":
    unittest.main()
