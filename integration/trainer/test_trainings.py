"""Trainings that are killed, resumed, or wrongly begun again, with the programs that this Python has."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import trainings

HERE = pathlib.Path(__file__).parent


class Trainings:
    """The tests of one program, on run directories in a folder of their own."""

    program: str
    mechanisms: list[str]  # two of them

    @classmethod
    def setUpClass(cls) -> None:
        package = trainings.PROGRAMS[cls.program]
        if importlib.util.find_spec(package) is None:
            raise unittest.SkipTest(f"{package} not installed")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.runs = trainings.Runs(cls.folder / "runs", "5s")

    def start(self, run: pathlib.Path, checkpoint: str, *more: object) -> subprocess.Popen[str]:
        command = [sys.executable, HERE / f"{self.program}_digits.py", "--run", run, "--checkpoint", self.folder / checkpoint, *more]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> str:
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        return out

    def refused(self, process: subprocess.Popen[str], message: str) -> None:
        _, err = process.communicate()
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, message)

    def weights(self, checkpoint: str) -> dict[str, bytes]:
        with np.load(self.folder / checkpoint) as kept:
            return {name: kept[name].tobytes() for name in kept if name != "guard"}

    def test_comparison(self) -> None:
        """Two mechanisms, two trainings each. The command is resumable: the second time it trains nothing."""
        command = [sys.executable, HERE / "trainings.py", "--out", self.runs.out, "--program", self.program, "--epsilon", "8"]
        command += ["--mechanism", *self.mechanisms, "--seeds", "2", "--cpu-time", self.runs.cpu_time]
        first = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        file = self.runs.out / "results.jsonl"
        lines = file.read_text()
        results = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(len(results), 4)
        for r in results:
            self.assertLess(r["loss"], 0.7, r)  # without training it is 2.3
            self.assertGreater(r["accuracy"], 0.8, r)
        self.assertEqual(len({r["loss"] for r in results}), 4)
        again = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.assertEqual((file.read_text(), again), (lines, first))
        self.assertEqual(len([line for line in first.splitlines() if line.startswith(f"| {self.program} | 8 | ")]), 2)

    def test_killed_and_resumed(self) -> None:
        """A killed training ends with the weights of one that was not; its noise is a stream, that of the other in files."""
        run = self.runs.make(self.program, self.mechanisms[1], 8, "killed")
        key, kept = run.with_name(f"{run.name}.key"), shutil.copytree(run, self.folder / "kept")
        whole = self.finish(self.start(run, "whole.npz"))
        self.refused(self.start(run, "second.npz"), "serves a training already")
        shutil.rmtree(run)
        shutil.copytree(kept, run)  # the same training again, so far not begun
        stop = random.randrange(trainings.STEPS - 1)
        with self.subTest(killed_after=stop):
            killed = self.start(run, "killed.npz", "--key", key, "--show-steps")
            for line in killed.stdout:
                if line == f"step {stop}\n":
                    killed.kill()
            killed.communicate()
            self.assertEqual(killed.returncode, -signal.SIGKILL)
            resumed = self.finish(self.start(run, "killed.npz", "--key", key))
            self.assertEqual(self.weights("killed.npz"), self.weights("whole.npz"))
            self.assertEqual(resumed, whole)


class Jax(Trainings, unittest.TestCase):
    program, mechanisms = "jax", ["DP-SGD, Poisson", "b-min-sep 8"]


class Torch(Trainings, unittest.TestCase):
    program, mechanisms = "torch", ["DP-SGD, Poisson", "b-min-sep 8"]


class Owners(Trainings, unittest.TestCase):
    program, mechanisms = "owners", ["images: b-min-sep 8", "owners: epoch-min-sep 8"]


if __name__ == "__main__":
    unittest.main()
