"""Trainings on several hosts that share one folder, or none: they agree, are refused together, and go on after one of them was killed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Any

import apart
import numpy as np

import minsep
from minsep import _command

HERE = pathlib.Path(__file__).parent
HOSTS, COORDINATES, STEPS = 3, 30, 12
BOUND = 60.0  # seconds in which a refusal reaches every host, and a killed host the others


class Case:
    """What the hosts do in a case, and what they must say: one pattern for each, or for all; none where they train."""

    def __init__(self, name: str, hosts: list[dict[str, Any] | None], *said: str) -> None:
        self.name, self.hosts, self.said = name, hosts, list(said) * (HOSTS if len(said) == 1 else 1)


class Together:
    """The tests with one framework."""

    framework: str

    @classmethod
    def setUpClass(cls) -> None:
        if importlib.util.find_spec(cls.framework) is None:
            raise unittest.SkipTest(f"{cls.framework} not installed")
        folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        missing = apart.why_not(folder / "try")
        if missing:
            raise unittest.SkipTest(missing)
        cls.hosts = apart.Hosts(folder / "hosts", HOSTS + 1)
        cls.addClassCleanup(cls.hosts.close)
        cls.shared, cls.own, cls.port = cls.hosts.shared, cls.hosts.own, 29500
        cls.command("keygen", "key")
        (cls.shared / "edges.csv").write_text("example_id,owner_id\n" + "".join(f"{n},{n}\n" for n in range(3000)))
        cls.command("bound", "--graph", "edges.csv", "--max-per-owner", 1, "--key", "key", "--out", "table")
        cls.command("strategy", "--kind", "banded-toeplitz", "--steps", STEPS, "--bands", 3, "--out", "strategy.json")

    @classmethod
    def command(cls, *arguments: object) -> None:
        done = subprocess.run([_command.find(), *map(str, arguments)], cwd=cls.shared, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @classmethod
    def make(cls, name: str, *noise: object, coordinates: int = COORDINATES, strategy: str = "strategy.json", steps: int = STEPS) -> pathlib.Path:
        """A run directory in the shared folder, as docs/python.md makes those of its programs."""
        form = "--scheme", "b-min-sep", "--steps", steps, "--min-sep", 3, "--batch-size", 20, "--key", "key", "--out", name, "--quiet"
        cls.command("form", "--bounded", "table", *form)
        made = "--noise-multiplier", 1, "--steps", steps, "--coordinates", coordinates, "--key", "key", "--out", name, "--quiet"
        cls.command("noise", "--strategy", strategy, *made, *noise)
        return cls.shared / name

    def copy_to(self, run: pathlib.Path, *hosts: int) -> pathlib.Path:
        """Copies a run directory to hosts, each to its own folder. Where they see it."""
        for host in hosts:
            shutil.copytree(run, self.hosts.of(host, run.name))
        return self.own / run.name

    def start(self, host: int, program: list[Any], **variables: str) -> subprocess.Popen[str]:
        """Starts a program on a host."""
        path = f"{HERE}:{pathlib.Path(minsep.__file__).parent.parent}"
        return self.hosts.start(host, [sys.executable, *program], 300, PYTHONPATH=path, MINSEP_COMMAND=os.path.abspath(_command.find()), **variables)

    def begin(self, cases: list[Case]) -> list[subprocess.Popen[str]]:
        """Starts the hosts in cases, one after the other."""
        type(self).port += 1
        file = self.shared / f"cases-{self.port}.json"
        file.write_text(json.dumps([{"name": c.name, "hosts": c.hosts} for c in cases]))
        address = f"{self.hosts.address(0)}:{self.port}"
        return [self.start(host, [HERE / "host.py", self.framework, host, HOSTS, address, file]) for host in range(HOSTS)]

    def alone(self, host: int, does: dict[str, Any]) -> dict[str, Any]:
        """What comes of a training of one host."""
        file = self.shared / "alone.json"
        file.write_text(json.dumps([{"name": "alone", "hosts": [does]}]))
        return self.ended(self.start(host, [HERE / "host.py", "alone", 0, 1, "", file]))["alone"]

    def ended(self, process: subprocess.Popen[str], heard: str = "") -> dict[str, Any]:
        """What a host said in each case, besides what was heard, once it has ended without a fault."""
        out, err = process.communicate()
        out = heard + out
        self.assertEqual(process.returncode, 0, out + err)
        return {line["case"]: line for line in map(json.loads, re.findall(r"^\{.*\}$", out, re.M))}

    def together(self, cases: list[Case]) -> list[dict[str, Any]]:
        """What each host said in cases, which is what it should."""
        found = [self.ended(p) for p in self.begin(cases)]
        for case in cases:
            with self.subTest(case.name):
                for host in range(HOSTS):
                    self.check(case, host, found[host].get(case.name))
        return found

    def check(self, case: Case, host: int, found: dict[str, Any] | None) -> None:
        if case.hosts[host] is None:
            self.assertIsNone(found)
        elif case.said:
            self.assertRegex(found.get("said", "trained"), case.said[host])
            self.assertLess(found["seconds"], BOUND)
        else:
            self.assertNotIn("said", found)

    def trained(self, found: list[dict[str, Any]], case: str, run: pathlib.Path, parts: list[tuple[int, int]], first: int = 0) -> None:
        """Hosts have the same weights at the end, and each the noise of its part of the coordinates."""
        self.assertEqual(len({f[case]["weights"] for f in found}), 1)
        noise = minsep.Run(run)
        warnings.simplefilter("ignore", minsep.NoGuardWarning)  # it is only looked at
        for f, (shard, shards) in zip(found, parts):
            rows = [hashlib.sha256(noise.noise(first + t, shard, shards).tobytes()).hexdigest() for t in range(len(f[case]["rows"]))]
            self.assertEqual(f[case]["rows"], rows)
            self.assertGreater(len(rows), 0)

    def test_agree_and_disagree(self) -> None:
        whole, parts, each, elsewhere = self.make("whole"), self.make("parts"), self.make("each"), self.make("elsewhere")
        local, used = self.copy_to(self.make("local"), *range(HOSTS)), self.make("used")
        spoiled = self.copy_to(used, 1)

        def all_do(run: pathlib.Path, **more: Any) -> list[dict[str, Any]]:
            return [{"run": str(run), "shard": rank, "shards": HOSTS, **more} for rank in range(HOSTS)]

        def but(host: int, **more: Any) -> list[dict[str, Any]]:
            return [{**does, **(more if rank == host else {})} for rank, does in enumerate(all_do(parts, state="begun", steps=1))]

        replicas = [{"run": str(each), "shard": min(rank, 1), "shards": 2, "replica": rank // 2} for rank in range(HOSTS)]
        one = [{"run": str(local), "name": "v" if rank == 2 else "w"} for rank in range(HOSTS)]
        twice = [{**does, "shard": min(rank, 1)} for rank, does in enumerate(all_do(local, state="copies"))]
        told = "hosts: host {} takes no step, so no other host may: .*"

        def alone(host: int, said: str) -> list[str]:
            """One host is refused for what it alone sees, and the others by its word."""
            return [said if rank == host else told.format(host) + said for rank in range(HOSTS)]

        cases = [
            Case("one replica", all_do(whole, shards=1, shard=0)),
            Case("replicas", replicas),
            Case("trees of other names", one, "hosts 0 and 2 take shard 0 of 1 of the noise for parameters of different names"),
            Case("copies", all_do(local, steps=3)),
            Case("one shard twice", twice, "hosts 1 and 2 take shard 1 of 3 of the noise"),
            Case("begun", all_do(parts, steps=4)),
            Case("another step", but(2, next_step=3), "hosts 0, 1 at step 4; host 2 at step 3: resume all"),
            Case("no checkpoint", but(2, state=None), *alone(2, "serves a training already")),
            Case("no checkpoint on the first", but(0, state=None), *alone(0, "serves a training already")),
            Case("an old checkpoint", all_do(parts, state="begun", next_step=2), *alone(0, "steps 2 to 3 were taken after this checkpoint")),
            Case("another run", but(1, run=str(elsewhere), state=None), "hosts 0, 2 with run .*; host 1 with run"),
            Case("a checkpoint of another run", but(1, run=str(elsewhere)), *alone(1, "the checkpoint belongs to run")),
            Case("a shard of another host", but(2, shard=1), *[told.format(1) + ".*|" + told.format(2) + ".*|another process of this training reads it"]),
            Case("another tree", but(1, name="v"), *alone(1, "like: has other names, shapes or order")),
            Case("another size", but(1, more=1), *alone(1, "like: has 11 coordinates")),
            Case("another type", but(2, dtype="float16"), *alone(2, "dtype 'float16': must be float32 or float64")),
            Case("two that keep the record", but(2, primary=True), "another process of this training holds it"),
            Case("another number of hosts", but(2, rank=1, ranks=2), "3 have answered, as ranks 0 of 3, 1 of 3, 1 of 2"),
            Case("no such rank", but(2, rank=3), "host 3 takes no step.*rank 3: must be 0 to 2|^rank 3: must be 0 to 2"),
            Case("a copy that was used", [{**does, "run": str(spoiled if rank == 1 else used)} for rank, does in enumerate(all_do(used))], *alone(1, "serves a training already")),
            Case("resumed", all_do(parts, state="begun", dtype="float64")),
        ]
        self.assertEqual(len(self.alone(1, {"run": str(spoiled), "steps": 1})["rows"]), 1)
        found = self.together(cases)
        self.trained(found, "one replica", whole, [(0, 1)] * HOSTS)
        self.trained(found, "replicas", each, [(0, 2), (1, 2), (1, 2)])
        self.trained(found, "copies", self.shared / "local", [(rank, HOSTS) for rank in range(HOSTS)])
        self.trained(found, "begun", parts, [(rank, HOSTS) for rank in range(HOSTS)])
        self.trained(found, "resumed", parts, [(rank, HOSTS) for rank in range(HOSTS)], first=4)
        self.assertEqual({f["resumed"]["next_step"] for f in found}, {STEPS})

    def test_killed_and_resumed(self) -> None:
        """A host loses its power in a step; all go on from their last common checkpoint, and end with the weights of hosts that were not killed."""
        run, kept = self.make("killed"), self.shared / "kept"
        shutil.copytree(run, kept)

        def shares(**more: Any) -> list[dict[str, Any]]:
            return [{"run": str(run), "shard": rank, "shards": HOSTS, "key": str(self.shared / "key"), **more} for rank in range(HOSTS)]

        whole = self.together([Case("whole", shares())])
        self.trained(whole, "whole", run, [(rank, HOSTS) for rank in range(HOSTS)])
        shutil.rmtree(run)
        shutil.copytree(kept, run)  # the same training again, so far not begun; hosts begin with empty records
        for host in range(HOSTS):
            shutil.rmtree(self.hosts.of(host, ".local"))
        stop = random.randrange(1, STEPS)
        with self.subTest(killed_in=stop):
            checkpoints = self.own / "checkpoints"
            paused = shares(keep=str(checkpoints))
            paused[1]["pause"] = stop
            hosts = self.begin([Case("killed", paused)])
            assert hosts[1].stdout is not None
            for line in hosts[1].stdout:
                if line == "paused\n":
                    break
            self.assertIn("another process of this training holds it", self.alone(3, {"run": str(run)})["said"])
            hosts[1].kill()
            began = time.monotonic()
            for host in hosts:
                out, _ = host.communicate()
                self.assertNotIn("weights", out)
                self.assertNotEqual(host.returncode, 0)
            self.assertLess(time.monotonic() - began, BOUND)
            self.assertIn("serves a training already", self.alone(3, {"run": str(run)})["said"])
            had = [{int(p.stem) for p in self.hosts.of(host, "checkpoints").glob("*.npz")} for host in range(HOSTS)]
            self.assertIn(stop, set.intersection(*had))
            last = str(checkpoints / f"{stop}.npz")
            resumed = self.together([
                Case("without replay", shares(state=last), f"step {stop} was taken after this checkpoint"),
                Case("resumed", shares(state=last, replay=True)),
                Case("again", shares(), "serves a training already"),
            ])
            self.trained(resumed, "resumed", run, [(rank, HOSTS) for rank in range(HOSTS)], first=stop)
            self.assertEqual(resumed[0]["resumed"]["weights"], whole[0]["whole"]["weights"])

    def test_what_nothing_sees(self) -> None:
        """As docs/python.md says: trainings on two hosts that share nothing."""
        copy = self.copy_to(self.make("apart"), 0, 1)
        one, other = (self.alone(host, {"run": str(copy)}) for host in range(2))
        self.assertEqual(one["rows"], other["rows"])
        self.assertIn("serves a training already", self.alone(0, {"run": str(copy)})["said"])

    def test_the_programs_for_several_hosts(self) -> None:
        """The program for several hosts leaves the same weights on all of them."""
        program = (HERE.parent.parent / "python" / "examples" / f"hosts_{self.framework}.py").read_text()
        address = f"{self.hosts.address(0)}:29499"
        join = f'jax.distributed.initialize("{address}", {HOSTS}, int(os.environ["RANK"]))'
        program, replaced = re.subn(r"# jax\.distributed\.initialize\(\).*", join, program)
        self.assertEqual(replaced, self.framework == "jax")
        program = program.replace("30000", "3000") + '\nprint(np.asarray(params["w"]).tobytes().hex())\n'
        (self.shared / "program.py").write_text("import os\nimport numpy as np\n" + program)
        self.make(f"run-hosts-{self.framework}", "--recipe-only", coordinates=22)
        begin = "import os, runpy; os.chdir(os.environ['SHARED']); runpy.run_path('program.py')"
        variables = {"SHARED": str(self.shared), "MASTER_ADDR": "host0", "MASTER_PORT": "29499", "WORLD_SIZE": str(HOSTS)}
        hosts = [self.start(rank, ["-c", begin], RANK=str(rank), **variables) for rank in range(HOSTS)]
        said = []
        for host in hosts:
            out, err = host.communicate()
            self.assertEqual(host.returncode, 0, err)
            said.append(out.splitlines()[-1])
        self.assertEqual(len(set(said)), 1)
        self.assertGreater(np.abs(np.frombuffer(bytes.fromhex(said[0]), np.float32)).min(), 0)


class Torch(Together, unittest.TestCase):
    framework = "torch"


class Jax(Together, unittest.TestCase):
    framework = "jax"


if __name__ == "__main__":
    unittest.main()
