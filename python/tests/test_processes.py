"""Processes of torch.distributed with gloo that train together: the same weights for any number of them, kills, and what is refused."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

from minsep import Run

from . import runs

needs_processes = runs.needs("torch", "torch.func", "torch.distributed")
COORDINATES = {"numbers": 39, "words": 27}


class Processes(runs.Case):
    def run_of(self, kind, owners=False):
        """A run directory of its own; every test takes copies of it, each for one training."""
        if not owners:
            return self.own_noisy(20, COORDINATES[kind])
        out = self.folder / "own"
        shutil.copytree(self.owned(), out)
        for folder in "noise", "batches":
            shutil.rmtree(out / folder)
        for file in "run.json", "certificate.json":
            (out / file).unlink()
        common = "--steps", 12, "--key", runs.key(), "--out", out, "--quiet"
        runs.minsep("form", "--bounded", out, "--scheme", "poisson", "--batch-size", 8, "--sample", "owners", "--examples-per-owner", 3, *common)
        runs.minsep("noise", "--strategy", runs.ROOT / "owned.json", "--noise-multiplier", "1.3", "--coordinates", COORDINATES[kind], *common)
        return out

    def train(self, run, count, name="", **what):
        """What each of count processes printed, and its exit code."""
        rendezvous = self.folder / f"rendezvous-{time.monotonic_ns()}"
        common = {"run": str(run), "checkpoint": str(pathlib.Path(run) / f"state{name}.pt"), "count": count, "rendezvous": str(rendezvous), "kind": "numbers", "options": {"microbatch": 3}, **what}
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "GLOO_SOCKET_IFNAME": "lo"}
        program = str(pathlib.Path(__file__).with_name("process.py"))
        started = [
            subprocess.Popen([sys.executable, program, json.dumps({**common, "rank": rank})], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
            for rank in range(count)
        ]
        found = []
        for process in started:
            try:
                out, err = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                err += "\ntimed out"
            lines = [line for line in out.splitlines() if line.startswith("{")]
            found.append((process.returncode, json.loads(lines[-1]) if lines else None, err))
        return found

    def weights(self, found):
        """The weights at the end, the same in all processes."""
        for code, said, err in found:
            self.assertEqual(code, 0, err)
        ends = {(said["steps"], said["weights"]) for _, said, _ in found}
        self.assertEqual(len(ends), 1, ends)
        return ends.pop()

    def copies(self, run, names):
        """Copies of a run directory, each as if it were the only one: with a folder of records of its own."""
        return [pathlib.Path(shutil.copytree(run, self.folder / name)) for name in names]

    def same_for_any_number(self, kind, counts, owners=False, **options):
        run, ends = self.run_of(kind, owners), {}
        for count, copy in zip(counts, self.copies(run, [f"copy{c}" for c in counts])):
            with runs.unittest.mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(self.folder / f"records{count}")}):
                # random numbers come from the seed, which a copy has
                (copy / "training.seed").write_text("0" * 31 + "7\n")
                found = self.train(copy, count, kind=kind, options={"microbatch": 3, **options})
            ends[count] = self.weights(found)
            widths = [said["width"] for _, said, _ in found]
            self.assertEqual(sum(widths), COORDINATES[kind])
            self.assertLessEqual(max(widths) - min(widths), 1)
        self.assertEqual(len(set(ends.values())), 1, ends)

    @needs_processes
    def test_same_weights_for_any_number(self):
        self.same_for_any_number("numbers", (1, 2, 4))

    @needs_processes
    def test_ghost_clipping(self):
        self.same_for_any_number("words", (1, 3), clipping="ghost")

    @needs_processes
    def test_sampled_owners(self):
        self.same_for_any_number("numbers", (1, 3), owners=True)

    @needs_processes
    def test_kills_with_other_numbers(self):
        run = self.run_of("numbers")
        whole, killed = self.copies(run, ["whole", "killed"])
        for copy in whole, killed:
            (copy / "training.seed").write_text("0" * 31 + "7\n")
        with runs.unittest.mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(self.folder / "records")}):
            want = self.weights(self.train(whole, 1))
        with runs.unittest.mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(self.folder / "others")}):
            for count, kill in (2, 3), (3, 4), (1, 9):
                found = self.train(killed, count, kill=kill)
                self.assertTrue(all(code == 7 for code, _, _ in found), found)
            self.assertEqual(want, self.weights(self.train(killed, 2)))

    @needs_processes
    def test_a_repeated_step_of_another_sum_is_refused(self):
        run = self.run_of("numbers")
        self.train(run, 1, kill=3)
        (run / "training.seed").write_text("0" * 31 + "7\n")  # other random numbers than before
        found = self.train(run, 2)
        self.assertTrue(all(code == 1 for code, _, _ in found), found)
        self.assertIn("step 3: releases another sum than when it was taken before", found[0][2])

    @needs_processes
    def test_faults(self):
        for fault, words in {
            "double": r"shard 0 of 2: another process of this training reads it: two sums with the same noise",
            "missing": r"no host takes shard 2 of 3 of the noise",
            "weights": r"model: process 1 has other weights than process 0",
            "unclipped": r"model: has 41 trained coordinates",
            "sum": r"batch: must have one example for each of the rows",
        }.items():
            with self.subTest(fault):
                self.folder = self.folder / fault
                self.folder.mkdir()
                found = self.train(self.run_of("numbers"), 2, fault=fault)
                self.assertTrue(all(code == 1 for code, _, _ in found), found)
                for rank, (_, _, err) in enumerate(found):  # a constructor fails alone, and the others see that it has ended
                    self.assertRegex(err, words if rank == 1 or fault != "unclipped" else "Connection")

    @needs_processes
    def test_two_trainings_apart(self):
        """Processes that know nothing of each other are two trainings."""
        run = self.run_of("numbers")
        self.weights(self.train(run, 1, "a", until=2))
        (code, _, err), = self.train(run, 1, "b")
        self.assertEqual(code, 1)
        self.assertIn("serves a training already", err)
        found = self.train(run, 2, options={})
        self.assertIn("microbatch: must be given with several processes", found[0][2])
        self.assertEqual(Run(run).steps, 20)
