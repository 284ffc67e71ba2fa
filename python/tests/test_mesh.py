"""Trainings in JAX on meshes of eight CPU devices: the weights of one device, kills, and what is refused."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

from . import runs

needs_optax = runs.needs("jax", "optax")
COORDINATES = 137


class Meshes(runs.Case):
    def train(self, *cases, code=0):
        """What each of some trainings printed."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        program = str(pathlib.Path(__file__).with_name("mesh.py"))
        done = subprocess.run([sys.executable, program, json.dumps(cases)], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def copies(self, count, *noise):
        """Copies of a run directory."""
        run = self.own_noisy(20, COORDINATES, *noise)
        return [{"run": str(shutil.copytree(run, self.folder / f"copy{i}")), "key": str(runs.key())} for i in range(count)]

    @needs_optax
    def test_same_weights_on_any_mesh(self):
        """With noise of the devices too, and after a kill on another mesh."""
        cases = {"shape": [4, 2], "device_noise": True}, {}
        copies = self.copies(len(cases), "--words", "chacha12")
        self.train({**copies[-1], "shape": [2, 2, 2], "kind": "make_mesh", "kill": 8}, code=7)
        found = self.train(*({**copy, **case} for copy, case in zip(copies, cases)))
        self.assertEqual(len(found), len(cases), found)
        for case, said in zip(cases, found):
            self.assertNotIn("error", said, case)
            self.assertEqual((said["steps"], said["weights"]), (20, found[0]["weights"]), case)
        self.assertEqual({name: size for name, (size, _) in found[0]["parts"].items()}, {"w": 8, "b": 4, "v": 8, "scale": 1})
        self.assertEqual(found[0]["moments"], {"w": 8, "b": 4, "v": 8, "scale": 1})

    @needs_optax
    def test_refused_and_one_more_row(self):
        (wide,) = self.copies(1, "--words", "chacha12", "--dtype", "float64")
        grid, microbatch, more = self.train({**wide, "device_noise": True}, {**wide, "shape": [2], "microbatch": None}, {})
        self.assertEqual(more, {"one": "more"})
        self.assertRegex(grid["error"], "ValueError: noise: its grid, .*, is for float64, and JAX adds float32")
        self.assertRegex(microbatch["error"], "ValueError: microbatch: must be given for parameters on several devices")
