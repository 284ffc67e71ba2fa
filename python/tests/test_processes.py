"""Processes of torch.distributed with gloo that train together: the same weights for any number of them, kills, and what is refused."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import types

from minsep import Run, _device

from . import runs

needs_processes = runs.needs("torch", "torch.func", "torch.distributed")
needs_fsdp = runs.needs("torch", "torch.distributed.fsdp", "torch.distributed.tensor")
COORDINATES = {"numbers": 39, "words": 27, "lora": 34, "order": 12, "often": 12, "elsewhere": 43, "one": 14}
HELD = {"numbers": 78, "words": 54, "lora": 2 * 34 + 54}  # parameters, and one of the optimizer's numbers for each that is trained


class Processes(runs.Case):
    @classmethod
    def setUpClass(cls):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        program = str(pathlib.Path(__file__).with_name("process.py"))
        cls.trainer = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) if runs.has("torch.func") else None

    @classmethod
    def tearDownClass(cls):
        if cls.trainer is not None:
            cls.trainer.communicate()

    def run_of(self, kind, owners=False, *noise):
        """A run directory of its own; every test takes copies of it, each for one training."""
        if not owners:
            return self.own_noisy(20, COORDINATES[kind], *noise)
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
        common = {"run": str(run), "checkpoint": str(pathlib.Path(run) / f"state{name}.pt"), "count": count, "rendezvous": str(rendezvous), "kind": "numbers", **what}
        common["options"] = {"microbatch": 3, "key": str(runs.key()), **common.get("options", {})}
        common["env"] = {"GLOO_SOCKET_IFNAME": "lo"}
        self.trainer.stdin.write(json.dumps(common) + "\n")
        self.trainer.stdin.flush()
        return json.loads(self.trainer.stdout.readline())

    def weights(self, found):
        """The weights at the end, the same in all processes."""
        for code, said, err in found:
            self.assertEqual(code, 0, err)
        ends = {(said["steps"], said["weights"]) for _, said, _ in found}
        self.assertEqual(len(ends), 1, ends)
        return ends.pop()

    def copies(self, run, names):
        return [pathlib.Path(shutil.copytree(run, self.folder / name)) for name in names]

    def same_for_any_number(self, kind, counts, owners=False, divided=(), **options):
        """Trains on each of counts, and with the model divided over each of divided."""
        run, ends = self.run_of(kind, owners), {}
        cases = [(count, False) for count in counts] + [(count, True) for count in divided]
        for (count, parted), copy in zip(cases, self.copies(run, [f"copy{i}" for i in range(len(cases))])):
            found = self.train(copy, count, kind=kind, divided=parted, options={"microbatch": 3, **options})
            ends[count, parted] = self.weights(found)
            if parted:
                held = [said["held"] for _, said, _ in found]
                whole = 2 * (count - 1) if kind == "lora" else 0  # a number that is not divided
                self.assertEqual(sum(held), HELD[kind] + whole)
                self.assertLess(max(held), HELD[kind] // count + 50)
            widths = [said["width"] for _, said, _ in found]
            self.assertEqual(sum(widths), COORDINATES[kind])
            self.assertLessEqual(max(widths) - min(widths), 1)
        self.assertEqual(len(set(ends.values())), 1, ends)

    @needs_processes
    def test_same_weights_for_any_number(self):
        self.same_for_any_number("numbers", (1, 2, 4))

    @needs_fsdp
    def test_ghost_clipping(self):
        """Other numbers of processes round some coordinates of a sum otherwise, and train alike."""
        run, ends = self.run_of("numbers"), []
        for (count, divided), copy in zip([(1, False), (2, False), (2, True)], self.copies(run, ["one", "two", "divided"])):
            found = self.train(copy, count, divided=divided, options={"clipping": "ghost"})
            self.weights(found)
            ends.append(found[0][1]["sums"])
        for other in ends[1:]:
            for one, first in zip(other, ends[0]):
                self.assertAlmostEqual(one, first, delta=1e-3 * (1 + abs(first)))

    @needs_processes
    def test_words(self):
        self.same_for_any_number("words", (1, 3))

    @needs_processes
    def test_sampled_owners(self):
        self.same_for_any_number("numbers", (1, 3), owners=True)

    @needs_fsdp
    def test_divided(self):
        self.same_for_any_number("numbers", (1,), divided=(1, 2, 3))

    @needs_fsdp
    def test_divided_words(self):
        self.same_for_any_number("words", (1,), divided=(3,))

    @needs_fsdp
    def test_divided_with_frozen_layers_and_sampled_owners(self):
        self.same_for_any_number("lora", (1,), divided=(2,))
        self.folder = self.folder / "owners"
        self.folder.mkdir()
        self.same_for_any_number("lora", (2,), owners=True, divided=(3,), microbatch=1)

    @needs_fsdp
    def test_divided_one_by_one(self):
        self.same_for_any_number("words", (1,), divided=(2,), microbatch=1)

    @needs_fsdp
    def test_one_more_row(self):
        found = self.train(self.run_of("one"), 2, kind="one", divided=True, options={"microbatch": 2})
        self.assertTrue(all(code == 0 for code, _, _ in found), found)

    @needs_fsdp
    def test_noise_of_devices(self):
        """The bits of the command, on a grid of float64, of rows and of trees."""
        run = self.run_of("words", False, "--words", "chacha12", "--dtype", "float64")
        ends = set()
        for copy, (count, divided, device) in zip(self.copies(run, "abcd"), ((1, False, False), (1, False, True), (2, False, True), (2, True, True))):
            found = self.train(copy, count, kind="words", divided=divided, options={"microbatch": 3, "device_noise": device})
            ends.add(self.weights(found))
            recipe = _device.open_recipe(Run(copy), runs.key(), lambda step: runs.fixed(20)[16 * step :][:16])
            secret = runs.key().read_bytes().strip(), *(key.tobytes() for key in recipe.keys(0))
            for file in copy.rglob("*"):  # the checkpoint, and all else that is kept
                self.assertFalse(file.is_file() and any(word in file.read_bytes() for word in secret), file)
        self.assertEqual(len(ends), 1)

    @needs_fsdp
    def test_layers_that_gather_make_the_bits_of_pytorch(self):
        import torch
        from torch.func import functional_call, grad, vmap

        from minsep import _sharded

        class Whole:
            def gathered(self, weight, number):
                return weight.detach()

        layers = [torch.nn.Linear(9, 7), torch.nn.Linear(32, 65, bias=False), torch.nn.Linear(64, 48)]
        if runs.has("transformers"):
            from transformers.pytorch_utils import Conv1D

            layers += [Conv1D(24, 33), Conv1D(64, 16)]
        torch.manual_seed(0)
        for layer, cast, (count, places), plain in itertools.product(layers, (False, True), ((1, 1), (2, 19), (5, 6)), (False, True)):
            layer.requires_grad_(False)
            size = layer.weight.shape[0 if type(layer).__name__ == "Conv1D" else 1]
            x, scale, bias = torch.randn(count, 1, places, size), torch.randn(size), getattr(layer, "bias", None)
            given = [scale] if bias is None else [scale, torch.randn_like(bias)]

            def loss(parts, one):
                with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    y = functional_call(layer, {} if bias is None else {"bias": parts[1]}, (one * parts[0],))
                    return torch.tanh(y.float()).square().sum()

            def gradients():
                if not plain:
                    return vmap(grad(loss), (None, 0))(given, x)
                held = [p.clone().requires_grad_() for p in given]
                return [g for one in x for g in torch.autograd.grad(loss(held, one), held)]

            want = gradients()
            layer.forward = types.MethodType(_sharded._Layer(Whole(), 0, "layer", layer).forward(plain), layer)
            found = gradients()
            del layer.forward
            for a, b in zip(want, found):
                self.assertTrue(torch.equal(a, b), (layer, cast, count, places, plain))

    def kills(self, *cases, last):
        """Trains with each number of processes, and the model divided or not, till a kill; and to the end."""
        run = self.run_of("numbers")
        whole, killed = self.copies(run, ["whole", "killed"])
        want = self.weights(self.train(whole, 1))
        for count, divided, kill in cases:
            found = self.train(killed, count, kill=kill, divided=divided)
            self.assertTrue(all(code == 7 for code, _, _ in found), found)
        count, divided = last
        self.assertEqual(want, self.weights(self.train(killed, count, divided=divided)))

    @needs_processes
    def test_kills_with_other_numbers(self):
        self.kills((2, False, 3), (3, False, 4), (1, False, 9), last=(2, False))

    @needs_fsdp
    def test_kills_with_divided_models(self):
        self.kills((3, True, 3), (1, False, 4), (2, True, 9), last=(3, True))

    @needs_processes
    def test_faults(self):
        for fault, words in {
            "double": r"hosts 0 and 1 take shard 0 of 2 of the noise: two sums with the same noise",
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

    @needs_fsdp
    def test_faults_of_divided_models(self):
        for fault, (kind, options, words) in {
            "double": ("numbers", {}, r"hosts 0 and 1 take shard 0 of 2 of the noise"),
            "missing": ("numbers", {}, r"no host takes shard 2 of 3 of the noise"),
            "shapes": ("numbers", {}, r"batch: the examples of process [01] have other shapes or types than those of process"),
            "policy": ("numbers", {}, r"model: fully_shard has a mp_policy"),
            "backward": ("numbers", {}, r"optimizer.step: gradients were changed or put away since the noise was added"),
            "order": ("order", {"microbatch": 1}, r"model: the processes call its layers in different orders"),
            "often": ("often", {"microbatch": 1}, r"model: the processes call its layers in different orders"),
            "elsewhere": ("elsewhere", {}, r"model: a weight is used outside of its Linear or Embedding layer"),
            "none": ("numbers", {"microbatch": None}, r"microbatch: must be given with several processes"),
        }.items():
            with self.subTest(fault):
                self.folder = self.folder / fault
                self.folder.mkdir()
                found = self.train(self.run_of(kind), 2, fault=fault, kind=kind, divided=True, options={"microbatch": 3, **options})
                self.assertTrue(all(code == 1 for code, _, _ in found), found)
                self.assertTrue(any(re.search(words, err) for _, _, err in found), found)

    @needs_processes
    def test_two_trainings_apart(self):
        """Processes that know nothing of each other are two trainings."""
        run = self.run_of("numbers")
        self.weights(self.train(run, 1, "a", until=2))
        (code, _, err), = self.train(run, 1, "b")
        self.assertEqual(code, 1)
        self.assertIn("serves a training already", err)
        found = self.train(run, 2, options={"microbatch": None})
        # One that ends first may keep another from joining.
        self.assertTrue(any("microbatch: must be given with several processes" in err for _, _, err in found), found)
        self.assertEqual(Run(run).steps, 20)
