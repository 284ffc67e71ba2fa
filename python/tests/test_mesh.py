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
COORDINATES = 209


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
        shapes = (None, "Mesh"), ([2], "Mesh"), ([8], "Mesh"), ([4, 2], "Mesh"), ([2, 2, 2], "make_mesh")
        found = self.train(*({**copy, "shape": shape, "kind": kind} for copy, (shape, kind) in zip(self.copies(5), shapes)))
        self.assertEqual(len(found), 5, found)
        for (shape, _), said in zip(shapes, found):
            self.assertNotIn("error", said, shape)
            self.assertEqual((said["steps"], said["weights"]), (20, found[0]["weights"]), shape)
        self.assertEqual({name: size for name, (size, _) in found[3]["parts"].items()}, {"w": 16, "b": 8, "v": 16, "scale": 1})
        self.assertEqual(found[3]["moments"], {"w": 16, "b": 8, "v": 16, "scale": 1})

    @needs_optax
    def test_noise_of_devices(self):
        cases = {}, {"device_noise": True}, {"shape": [4, 2], "device_noise": True}
        found = self.train(*({**copy, **case} for copy, case in zip(self.copies(3, "--words", "chacha12"), cases)))
        self.assertEqual([said.get("weights", said) for said in found], [found[0]["weights"]] * 3)

    @needs_optax
    def test_kills_with_other_meshes(self):
        whole, killed = self.copies(2)
        (want,) = self.train(whole)
        for shape, kill in ([8], 3), (None, 8):
            self.train({**killed, "shape": shape, "kill": kill}, code=7)
        (said,) = self.train({**killed, "shape": [4]})
        self.assertEqual(said["weights"], want["weights"])

    @needs_optax
    def test_refused(self):
        (wide,) = self.copies(1, "--words", "chacha12", "--dtype", "float64")
        (said,) = self.train({**wide, "device_noise": True})
        self.assertRegex(said["error"], "ValueError: noise: its grid, .*, is for float64, and JAX adds float32")
        self.folder = self.folder / "other"
        self.folder.mkdir()
        (copy,) = self.copies(1)
        (said,) = self.train({**copy, "shape": [2], "microbatch": None})
        self.assertRegex(said["error"], "ValueError: microbatch: must be given for parameters on several devices")
