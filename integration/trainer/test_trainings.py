"""Trainings that are killed, resumed, or wrongly begun again, with the frameworks that this Python has."""

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

FRAMEWORKS = [name for name in trainings.FRAMEWORKS if importlib.util.find_spec(name) is not None]
HERE = pathlib.Path(__file__).parent


class Trainings(unittest.TestCase):
    """The fixtures are one certificate and, for each test, a run directory of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.runs = trainings.Runs(cls.folder / "runs", "3s")

    def make(self, name: str) -> tuple[pathlib.Path, pathlib.Path]:
        """A run directory, and its key."""
        run = self.runs.make("b-min-sep 8", 8, name)
        return run, run.with_name(run.name + ".key")

    def start(self, framework: str, run: pathlib.Path, checkpoint: str, *more: object) -> subprocess.Popen[str]:
        command = [sys.executable, HERE / f"{framework}_digits.py", "--run", run, "--checkpoint", self.folder / checkpoint, "--learning-rate", "2", *more]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> str:
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        return out

    def refused(self, process: subprocess.Popen[str], message: str) -> None:
        _, err = process.communicate()
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, message)

    def contents(self, checkpoint: str) -> dict[str, bytes]:
        with np.load(self.folder / checkpoint) as kept:
            return {name: kept[name].tobytes() for name in kept if name != "guard"}

    def test_comparison(self) -> None:
        """Two mechanisms, two trainings each. The command is resumable: the second time it trains nothing."""
        for framework in FRAMEWORKS:
            command = [sys.executable, HERE / "trainings.py", "--out", self.runs.out, "--framework", framework, "--epsilon", "8"]
            command += ["--mechanism", "DP-SGD, Poisson", "b-min-sep 8", "--seeds", "2", "--cpu-time", self.runs.cpu_time]
            first = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            file = self.runs.out / "results.jsonl"
            lines = file.read_text()
            results = [r for r in map(json.loads, lines.splitlines()) if r["framework"] == framework]
            self.assertEqual(len(results), 4)
            for r in results:
                self.assertLess(r["loss"], 0.5, r)  # 0.2 are expected; that of chance is 2.3
                self.assertGreater(r["accuracy"], 0.85, r)
            self.assertEqual(len({r["loss"] for r in results}), 4)
            again = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            self.assertEqual((file.read_text(), again), (lines, first))
            self.assertEqual(len([line for line in first.splitlines() if line.startswith(f"| {framework} | 8 | ")]), 2)

    def test_killed_and_resumed(self) -> None:
        for framework in FRAMEWORKS:
            stop = random.randrange(trainings.STEPS - 1)
            with self.subTest(framework, killed_after=stop):
                run, key = self.make(framework)
                kept = shutil.copytree(run, self.folder / "kept" / framework)
                whole = self.finish(self.start(framework, run, "whole.npz"))
                shutil.rmtree(run)
                shutil.copytree(kept, run)  # the same training again, so far not begun; now with the noise as a stream
                killed = self.start(framework, run, "killed.npz", "--key", key, "--show-steps")
                for line in killed.stdout:
                    if line == f"step {stop}\n":
                        killed.kill()
                killed.communicate()
                self.assertEqual(killed.returncode, -signal.SIGKILL)
                resumed = self.finish(self.start(framework, run, "killed.npz", "--key", key))
                self.assertEqual(self.contents("killed.npz"), self.contents("whole.npz"))
                self.assertEqual(resumed, whole)

    def test_second_training_is_refused(self) -> None:
        for framework in FRAMEWORKS:
            with self.subTest(framework):
                run, _ = self.make(f"{framework}-second")
                self.finish(self.start(framework, run, f"{framework}-first.npz"))
                self.refused(self.start(framework, run, f"{framework}-second.npz"), "serves a training already")


if __name__ == "__main__":
    unittest.main()
