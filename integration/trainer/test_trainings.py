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
import table
import trainings

import minsep

HERE = pathlib.Path(__file__).parent


@unittest.skipUnless(sys.platform == "linux", "asks the kernel of Linux")
class Children(unittest.TestCase):
    def test_end_with_their_parent(self) -> None:
        """What a killed program runs ends with it, and does not hold what it wrote to."""
        child = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60); print('outlived')"]
        parent = [sys.executable, "-c", f"import children; children.run({child!r}, '.')"]
        process = subprocess.Popen(parent, cwd=HERE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "begun\n")
        process.kill()
        self.assertEqual(process.communicate()[0], "")  # to the end of the last that writes there


class Trainings:
    """The tests of one program, on run directories in a folder of their own."""

    program: str
    mechanisms: list[str]  # some of them
    steps = 40  # of the training that is killed
    worst = 0.7, 0.8  # a larger loss, or a smaller accuracy, is none of a training; without training the loss is 2.3

    @classmethod
    def setUpClass(cls) -> None:
        for package in trainings.PROGRAMS[cls.program].packages:
            if importlib.util.find_spec(package) is None:
                raise unittest.SkipTest(f"{package} not installed")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.runs = trainings.Runs(cls.folder / "runs", 20000)

    def start(self, run: pathlib.Path, checkpoint: str, *more: object) -> subprocess.Popen[str]:
        command = [sys.executable, HERE / f"{trainings.PROGRAMS[self.program].module}.py", "--run", run, "--checkpoint", self.folder / checkpoint, *more]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> str:
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        self.assertNotIn("NotCertifiedWarning", err)
        return out

    def refused(self, process: subprocess.Popen[str], message: str) -> None:
        _, err = process.communicate()
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, message)

    def weights(self, checkpoint: str) -> dict[str, bytes]:
        with np.load(self.folder / checkpoint) as kept:
            return {name: kept[name].tobytes() for name in kept if name != "guard"}

    def compare(self, out: pathlib.Path, mechanisms: list[str], seeds: int) -> tuple[str, list[str]]:
        """What the comparison prints, and its results in out, a line each."""
        command = [sys.executable, HERE / "trainings.py", "--out", out, "--program", self.program, "--epsilon", "8"]
        command += ["--mechanism", *mechanisms, "--seeds", str(seeds), "--samples", str(self.runs.samples)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return printed, (out / "results.jsonl").read_text().splitlines()

    def test_comparison(self) -> None:
        """Some trainings with each mechanism; the command is resumable."""
        names, most, least = self.mechanisms, *self.worst
        printed, lines = self.compare(self.runs.out, names, 2)
        results = [json.loads(line) for line in lines]
        self.assertEqual(len(results), 2 * len(names))
        for r in results:
            self.assertLess(r["loss"], most, r)
            self.assertGreater(r["accuracy"], least, r)
        self.assertEqual(len({r["loss"] for r in results}), len(results))
        self.assertEqual(self.compare(self.runs.out, names, 2), (printed, lines))
        self.assertEqual(len([line for line in printed.splitlines() if line.startswith(tuple(f"| {name} |" for name in names))]), len(names))

    def test_killed_and_resumed(self) -> None:
        """A killed training goes on from its checkpoint, with fresh noise, and a second start is refused."""
        run = self.runs.make(self.program, self.mechanisms[-1], 8, "killed", self.steps)
        key, stop = run.with_name(f"{run.name}.key"), random.randrange(self.steps - 1)
        with self.subTest(killed_after=stop):
            killed = self.start(run, "killed.npz", "--key", key, "--show-steps")
            for line in killed.stdout:
                if line == f"step {stop}\n":
                    killed.kill()
            killed.communicate()
            self.assertEqual(killed.returncode, -signal.SIGKILL)
            self.finish(self.start(run, "killed.npz", "--key", key))
            self.refused(self.start(run, "second.npz", "--key", key), "serves a training already")


class Jax(Trainings, unittest.TestCase):
    program, mechanisms = "jax", ["DP-SGD, Poisson", "b-min-sep 8"]


class Torch(Trainings, unittest.TestCase):
    program, mechanisms = "torch", ["DP-SGD, Poisson", "b-min-sep 8"]


class Owners(Trainings, unittest.TestCase):
    program, mechanisms = "owners", ["images: b-min-sep 8", "owners: epoch-min-sep 8"]


class Texts(Trainings, unittest.TestCase):
    program, mechanisms, steps = "texts", ["b-min-sep 8"], 20
    test_comparison = None  # a whole training takes ten times as long as with digits


class HuggingFace(unittest.TestCase):
    def test_short(self) -> None:
        """A few steps of GPT-2, on a certified run; a second start finds that all steps are taken, and trains none."""
        for package in "transformers", "peft", "awscli":
            if importlib.util.find_spec(package) is None:
                raise unittest.SkipTest(f"{package} not installed")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, HERE / "hf_texts.py", "--out", folder, "--steps", "6", "--samples", "20000", "--mechanism", "DP-SGD, Poisson"]
            first, again = (json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]) for _ in range(2))
        self.assertEqual((first["steps"], first["coordinates"], first["epsilon"]), (6, 108864, 8))
        self.assertLess(first["loss"], first["loss before"])
        self.assertEqual(again["loss"], first["loss"])


class Genes(Trainings, unittest.TestCase):
    program, mechanisms = "genes", ["multi-owner, k = 2, not proven", "one bound, k = 1", "rotation"]
    worst = 0.75, 0.53  # of two classes that can hardly be told apart


class Tables(unittest.TestCase):
    def test_noise_error(self) -> None:
        """σ ‖AC⁻¹‖_F / (√n B) by matrices."""
        column, n = [2.0, 1.0, 0.5], 7
        c = sum(np.diag(np.full(n - i, x), -i) for i, x in enumerate(column))
        want = 1.5 * np.linalg.norm(np.tril(np.ones((n, n))) @ np.linalg.inv(c)) / np.sqrt(n) / 64
        self.assertAlmostEqual(table.noise_error(column, 1.5, n, 64), want, places=12)

    def test_interval(self) -> None:
        mean, half = table.interval([1.0, 2.0, 4.0])
        self.assertAlmostEqual(mean, 7 / 3)
        self.assertAlmostEqual(half, 4.303 * np.std([1, 2, 4], ddof=1) / np.sqrt(3), places=3)

    def test_rows_and_columns(self) -> None:
        result = lambda name, rate, noise, loss: {
            "program": "jax", "mechanism": name, "epsilon": 8, "learning_rate": rate, "noise_multiplier": 1.0, "noise_error": noise, "loss": loss,
            "accuracy": 1 - loss, "curve": [1.0, loss],
        }  # fmt: skip
        results = [result("b-min-sep 8", rate, 0.1, loss) for rate, loss in ((2.0, 0.2), (2.0, 0.4), (4.0, 0.5), (4.0, 0.7))]
        results += [result("DP-SGD, Poisson", 2.0, noise, loss) for noise, loss in ((0.19, 0.5), (0.21, 0.5))]
        want = ["| b-min-sep 8 | 1 | 0.1000 | 0.300 ± 1.271 | 0.600 ± 1.271 | 70.0 ± 127.1 % | 2 |"]
        want += ["| DP-SGD, Poisson | 1 | 0.2000 | 0.500 ± 0.000 |  | 50.0 ± 0.0 % | 2 |"]
        self.assertEqual(table.markdown(results).splitlines()[2:], want)
        counted = table.markdown([r | {"examples": 999 + i} for i, r in enumerate(results)]).splitlines()
        self.assertEqual([counted[0].split(" | ")[3], counted[2].split(" | ")[3], counted[3].split(" | ")[3]], ["examples", "1,000", "1,004"])
        twice = table.together(results + [r | {"program": "torch"} for r in results], ["jax", "torch"])
        self.assertEqual(table.markdown(twice).splitlines()[0].split(" | ")[0], "| jax and torch, ε = 8")
        self.assertIn("| 0.300 ± 0.184 | 0.600 ± 0.184 |", table.markdown(twice))  # 3.182 · 0.115 / 2


if __name__ == "__main__":
    unittest.main()
