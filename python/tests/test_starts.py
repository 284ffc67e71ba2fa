"""A model of what happens to trainings: starts, kills, copies, forks, hosts and interrupts in random order. Whatever happens, no row of
normals meets two sums, every row is made from the steps that its training has taken, and steps that are taken twice are counted.

A failure names its seed: MINSEP_SEED=N runs that sequence alone. MINSEP_LONG=1 tries many more, and more with real processes."""

from __future__ import annotations

import copy
import io
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import minsep
from minsep import _guard, _hosts, _reader, _starts

from . import runs

LONG = bool(os.environ.get("MINSEP_LONG"))
STEPS, SIZE = 20, _hosts.STEP_BYTES


class Killed(BaseException):
    """As by kill -9: nothing after it is done."""


class Broken(AssertionError):
    """A rule of the model that was broken."""


class Fault:
    """Ends a training at one of the next events, of which a file operation, a draw, an all-gather and a row are some."""

    def __init__(self) -> None:
        self.left = -1

    def event(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= self.left > 0


class Stream:
    """In place of the command: a row is the list of the bytes that it is made from."""

    given: dict[int, tuple[bytes, ...]] = {}  # by the number that a row holds
    world: "World"

    def __init__(self, reader, key, more) -> None:
        self._reader, self._next = reader, reader.next_step

    def row(self, step):
        self.world.fault.event()
        known = self._reader._guard.step_bytes()
        ahead = min(STEPS, step + 1 + 32)  # the command waits for so many
        if len(known) < SIZE * ahead:
            raise Broken(f"the stream waits for the bytes of step {ahead - 1} and would not end")
        if step != self._next:
            raise minsep.TrainingError("the stream is at another step")
        self._next += 1
        number = len(self.given) + 1
        self.given[number] = tuple(known[SIZE * t : SIZE * (t + 1)] for t in range(step + 1))
        return np.full(self._reader.width, number, np.float64)

    def close(self) -> None:
        pass


class AllGather:
    """An all-gather of threads, whose hosts may end."""

    def __init__(self, count: int, fault: Fault) -> None:
        self._words, self.barrier, self._fault = [None] * count, threading.Barrier(count, timeout=60), fault

    def of(self, rank: int):
        def gather(word):
            if rank == 0:
                self._fault.event()
            self._words[rank] = word
            self.barrier.wait()
            found = list(self._words)
            self.barrier.wait()
            return found

        return gather


class Training:
    """The hosts of a training, and what they released."""

    def __init__(self, world: "World", folder: pathlib.Path, states: list, released: list) -> None:
        self.world, self.folder, self.released = world, folder, list(released)  # the rows of its line of descent
        count = len(states)
        gather = self._gather = AllGather(count, world.fault)
        self.guards, self.readers = [None] * count, [None] * count

        def begin(rank: int) -> None:
            more = {} if count == 1 else {"rank": rank, "ranks": count, "gather": gather.of(rank)}
            guard = minsep.StepGuard(world.run(folder), states[rank], **more)
            self.guards[rank] = guard
            self.readers[rank] = minsep.read_noise(world.run(folder), guard=guard, key="key", dtype="float64")

        try:
            self._each(begin)
        except BaseException:
            self.kill()
            raise
        self.start = self.guards[0]._start
        world.starts[self.start] = [len(self.released), len(self.released), len(self.released)]  # first step, released and begun before

    def _each(self, do) -> None:
        """Does something on each host. The first fault is raised."""
        faults: list = []

        def one(rank: int) -> None:
            try:
                do(rank)
            except BaseException as err:
                faults.append(err)
                self._gather.barrier.abort()  # who waits for this host hears that it has ended

        if len(self.guards) == 1:
            return do(0)
        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(self.guards))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for kind in Broken, Killed, BaseException:
            for err in faults:
                if isinstance(err, kind):
                    raise err
        return None

    def step(self, interrupt: bool) -> None:
        """Takes a step; unless it is interrupted between row and release, each host releases the sum with its row."""
        t = self.guards[0].next_step
        self.world.starts[self.start][2] = t + 1
        rows = [None] * len(self.guards)

        def take(rank: int) -> None:
            self.guards[rank].take(t)
            rows[rank] = self.readers[rank].step(t)

        self._each(take)
        made = [Stream.given[int(row[0])] for row in rows]
        for row in made:
            if row != made[0]:
                raise Broken(f"hosts have different noise at step {t}")
        if made[0][:t] != tuple(self.released):
            raise Broken(f"the row of step {t} is not made from the steps that its training has released")
        if interrupt:
            return
        self.world.release(self.world.key_of(self.guards[0]._run.run_id, t, made[0][t]), t)
        self.released.append(made[0][t])
        self.world.starts[self.start][1] = t + 1

    def state(self):
        return json.loads(json.dumps(self.guards[0].state_dict())), list(self.released)

    def kill(self) -> None:
        for guard in self.guards:
            if guard is not None and guard._record is not None:
                guard._record.close()  # the system gives the lock back


class World:
    """Folders, checkpoints and trainings, in random order."""

    def __init__(self, test: "Model", seed: int) -> None:
        self.test, self.rng, self.fault = test, random.Random(seed), Fault()
        self.root = test.folder / str(seed)
        self.root.mkdir()
        self.opened: dict[pathlib.Path, minsep.Run] = {}
        self.folders: list[pathlib.Path] = []
        self.knows: dict[pathlib.Path, set[str]] = {}  # the starts that a folder's record must have
        self.alive: list[Training] = []
        self.kept: list = []  # checkpoints
        self.starts: dict[str, list[int]] = {}
        self.met: dict[tuple, int] = {}  # how many sums each row of normals has met
        self.sums = self.done = 0
        self.new_folder()

    def key_of(self, run_id: str, step: int, step_bytes: bytes) -> tuple:
        """What the key of a white row is made from."""
        return run_id, step, step_bytes

    def release(self, key: tuple, step: int) -> None:
        self.sums += 1  # each release is of another sum
        self.met[key] = self.met.get(key, 0) + 1
        if self.met[key] > 1:
            raise Broken(f"a row of normals of step {step} meets {self.met[key]} sums")

    def run(self, folder: pathlib.Path) -> minsep.Run:
        if folder not in self.opened:
            run = copy.copy(self.test.bases[int(folder.suffix[1:])])  # opening the files anew takes most of the time
            run._directory = copy.copy(run._directory)
            run._directory.path = str(folder)
            self.opened[folder] = run
        return self.opened[folder]

    def new_folder(self) -> None:
        base = self.rng.randrange(len(self.test.bases))  # a run id: `run` made it
        folder = self.root / f"{len(self.opened)}-{len(self.folders)}-{self.rng.random()}.{base}"
        folder.mkdir()
        self.folders.append(folder)
        self.knows[folder] = set()

    # What happens

    def act(self) -> None:
        actions = {self.begin: 3, self.resume: 8, self.step: 30, self.save: 6, self.kill: 4, self.end: 2, self.copy: 2, self.move: 1, self.new_folder: 1, self.restore: 1}
        action = self.rng.choices([*actions], [*actions.values()])[0]
        self.fault.left = self.rng.randrange(12) if self.rng.random() < 0.15 else -1
        before = len(self.alive)
        try:
            action()
        except (minsep.TrainingError, threading.BrokenBarrierError):
            pass
        except Killed:
            pass
        self.fault.left = -1
        self.done += before != len(self.alive) or action == self.step

    def begin(self) -> None:
        folder, hosts = self.rng.choice(self.folders), self.rng.choice([1, 1, 1, 2])
        self.alive.append(self.started(folder, [None] * hosts, []))

    def resume(self) -> None:
        if not self.kept:
            return
        state, released = self.rng.choice(self.kept)
        hosts = self.rng.choice([1, 1, 2, 3])
        states = [state] * hosts
        if hosts > 1 and self.rng.random() < 0.3:  # one host has another checkpoint, as of a fork
            forks = [s for s, _ in self.kept if s["token"] == state["token"] and len(s["steps"]) == len(state["steps"]) and s["steps"] != state["steps"]]
            states[-1] = self.rng.choice(forks or [s for s, _ in self.kept])
        fits = [f for f in self.folders if self.run(f).run_id == state["run_id"]]
        if fits:
            self.alive.append(self.started(self.rng.choice(fits), states, released))

    def started(self, folder, states, released) -> Training:
        """Whatever was refused or killed, a guard that began has counted itself."""
        training = Training(self, folder, states, released)
        self.knows[folder].add(training.start)
        return training

    def step(self) -> None:
        if not self.alive:
            return
        training = self.rng.choice(self.alive)
        interrupt = self.rng.random() < 0.05
        try:
            for _ in range(1 if interrupt else self.rng.choice([1, 1, 2, 5])):
                training.step(interrupt)
        except BaseException:
            training.kill()
            self.alive.remove(training)
            raise
        if interrupt and len(training.guards) == 1:  # asking again is refused
            for ask in lambda: training.guards[0].take(training.guards[0].next_step - 1), lambda: training.readers[0].step(training.readers[0].next_step - 1):
                try:
                    ask()
                except minsep.TrainingError:
                    continue
                raise Broken("a step that was handed out is given again")
        if interrupt:
            training.kill()
            self.alive.remove(training)

    def save(self) -> None:
        if self.alive:
            self.kept.append(self.rng.choice(self.alive).state())

    def kill(self) -> None:
        if self.alive:
            self.alive.pop(self.rng.randrange(len(self.alive))).kill()

    def end(self) -> None:
        if self.alive:
            training = self.alive.pop(self.rng.randrange(len(self.alive)))
            self.kept.append(training.state())
            for guard in training.guards:
                guard.close()

    def copy(self) -> None:
        """With its record, or without it, as an artifact that was made before the start."""
        source = self.rng.choice(self.folders)
        target = source.with_name(f"copy{len(self.opened)}-{self.rng.random()}{source.suffix}")
        target.mkdir()
        self.folders.append(target)
        self.knows[target] = set()
        if self.rng.random() < 0.5 and (source / _starts.NAME).exists():
            shutil.copy(source / _starts.NAME, target)
            self.knows[target] = {s for s in self.knows[source] if s not in {t.start for t in self.alive}}

    def move(self) -> None:
        source = self.rng.choice(self.folders)
        if any(t.folder == source for t in self.alive):
            return
        target = source.with_name(f"moved{len(self.opened)}-{self.rng.random()}{source.suffix}")
        source.rename(target)
        self.folders[self.folders.index(source)] = target
        self.knows[target] = self.knows.pop(source)

    def restore(self) -> None:
        """A record is lost, or one of before is put back."""
        folder = self.rng.choice(self.folders)
        if (folder / _starts.NAME).exists() and not any(t.folder == folder for t in self.alive):
            (folder / _starts.NAME).unlink()
            self.knows[folder] = set()

    # The count

    def check_counts(self) -> None:
        """Every start that a folder must know has the steps that it released, and none that it did not begin."""
        for folder in self.folders:
            path = folder / _starts.NAME
            if not path.exists():
                continue
            text = path.read_text()
            record = _starts.read_starts(json.loads(text)["starts"]) if text else {}
            for start in self.knows[folder]:
                first, released, begun = self.starts[start]
                if start not in record and released > first:
                    raise Broken(f"{folder.name}: a start is not counted")
                if start in record and not (record[start][0] == first and released <= record[start][1] <= begun):
                    raise Broken(f"{folder.name}: a start from step {first} that released the steps before {released} is counted as {record[start]}")


class Model(runs.Case):
    def setUp(self) -> None:
        super().setUp()
        warnings.simplefilter("ignore")
        self.bases = [minsep.Run(runs.make_noisy(self.folder / f"base{i}", STEPS, 5, runs.BANDED, (runs.RECIPE_ONLY,))) for i in range(2)]
        for name, module, wrapped in ("pwrite", os, os.pwrite), ("ftruncate", os, os.ftruncate):
            self.enterContext(mock.patch.object(module, name, self.faulty(wrapped)))
        self.enterContext(mock.patch.object(_guard, "draw", self.faulty(_guard.draw)))
        self.enterContext(mock.patch.object(os, "fsync", lambda fd: None))
        self.enterContext(mock.patch.object(_reader, "_Stream", Stream))
        self.enterContext(mock.patch.object(sys, "stderr", io.StringIO()))

    def faulty(self, do):
        def wrapped(*given):
            if hasattr(Stream, "world"):
                Stream.world.fault.event()
            return do(*given)

        return wrapped

    def play(self, seed: int, kind: type = World) -> int:
        """How much happened."""
        Stream.given = {}
        world = Stream.world = kind(self, seed)
        try:
            for _ in range(60):
                world.act()
                world.check_counts()
        except Broken as err:
            raise Broken(f"seed {seed}: {err}") from None
        finally:
            for training in world.alive:
                training.kill()
            del Stream.world
            shutil.rmtree(world.root)
        return world.sums

    def seeds(self, count: int):
        return [int(os.environ["MINSEP_SEED"])] if "MINSEP_SEED" in os.environ else range(count)

    def test_random_sequences(self) -> None:
        """Thousands where MINSEP_LONG is set."""
        sums = sum(self.play(seed) for seed in self.seeds(20000 if LONG else 100))
        self.assertTrue("MINSEP_SEED" in os.environ or sums > 1000, sums)

    def broken(self, words: str, kind: type = World) -> None:
        """One of some sequences fails."""
        with self.assertRaisesRegex(Broken, words):
            for seed in range(300):
                self.play(seed, kind)

    def test_bytes_that_stay_over_a_resume(self) -> None:
        def draw(guard) -> None:
            if guard._rank == 0:
                guard._bytes += runs.fixed(STEPS)[len(guard._bytes) :]

        with mock.patch.object(minsep.StepGuard, "_draw", draw):
            self.broken("seed .*: a row of normals of step .* meets 2 sums")

    def test_bytes_that_are_not_in_the_key(self) -> None:
        class Keyless(World):
            def key_of(self, run_id, step, step_bytes):
                return run_id, step

        self.broken("seed .*: a row of normals of step .* meets 2 sums", Keyless)

    def test_hosts_that_are_not_compared(self) -> None:
        real = _hosts._alike
        with mock.patch.object(_hosts, "_alike", lambda hosts, name, *more: name == "taken" or real(hosts, name, *more)):
            self.broken("seed .*: hosts have different noise at step")

    def test_a_row_that_is_given_again(self) -> None:
        with mock.patch.object(minsep.StepGuard, "_check_step", lambda guard, step: None):
            self.broken("seed .*: a step that was handed out is given again")

    def test_steps_that_are_not_counted(self) -> None:
        real = minsep.StepGuard._count
        with mock.patch.object(minsep.StepGuard, "_count", lambda guard, end, durable: real(guard, guard._began, durable)):
            self.broken("seed .*: .* is counted as")

    def test_a_checkpoint_of_another_list(self) -> None:
        real = minsep.StepGuard.state_dict

        def late(guard):
            state = real(guard)
            return {**state, "steps": state["steps"][:-32] + "00" * SIZE} if state["steps"] else state

        with mock.patch.object(minsep.StepGuard, "state_dict", late):
            self.broken("seed .*: the row of step .* is not made from the steps that its training has released")


PROGRAM = """
import hashlib, json, os, socket, sys
import numpy as np
import minsep
run = minsep.Run(sys.argv[1])
state = json.loads(open(sys.argv[3]).read()) if os.path.exists(sys.argv[3]) else None
rank, hosts, several = int(sys.argv[6]), int(sys.argv[7]), {}
if hosts > 1:
    peer = socket.socket(fileno=int(sys.argv[8]))
    def gather(word):
        peer.sendall(word.tobytes())
        other = np.frombuffer(peer.recv(len(word), socket.MSG_WAITALL), np.uint8)
        return np.stack([word, other] if rank == 0 else [other, word])
    several = {"rank": rank, "ranks": hosts, "gather": gather}
guard = minsep.StepGuard(run, state, **several)
log = os.open(f"{sys.argv[4]}{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with minsep.read_noise(run, guard=guard, key=sys.argv[2], replica=rank) as noise:
    for t in guard:
        total = run.grid * np.full(33, os.getpid())  # another sum in every process
        row = minsep.add_noise(total, noise.step(t), run.grid, 1)
        os.write(log, f"{t} {hashlib.sha256((row - total).astype(np.float32).tobytes()).hexdigest()}\\n".encode())
        with open(f"{sys.argv[5]}/{os.getpid()}-{t}.new", "w") as file:
            json.dump(guard.state_dict(), file)
        os.replace(file.name, file.name[:-4])
        print(t, flush=True)
"""


class Processes(runs.Case):
    def test_kills(self) -> None:
        """Real processes, alone or as two hosts, with the stream of the command, killed at any time, go on from any checkpoint, in the folder or in a copy: no row is that of another release."""
        base = runs.make_noisy(self.folder / "base", STEPS, 33, runs.BANDED, (runs.RECIPE_ONLY,))
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        for seed in range(200 if LONG else 2):
            rng = random.Random(seed)
            root = self.folder / str(seed)
            kept, log = root / "kept", root / "log"
            kept.mkdir(parents=True)
            folders = [pathlib.Path(shutil.copytree(base, root / "run"))]
            for i in range(8):
                checkpoints = sorted(p for p in kept.iterdir() if p.suffix != ".new")
                given = rng.choice(checkpoints) if checkpoints and rng.random() < 0.8 else root / "none"
                if rng.random() < 0.25:
                    folders.append(pathlib.Path(shutil.copytree(rng.choice(folders), root / f"copy{i}")))
                hosts = rng.choice([1, 1, 2])
                arguments = [rng.choice(folders), runs.key(), given, log, kept]
                ends = socket.socketpair()
                started = []
                for rank in range(hosts):
                    words = map(str, [sys.executable, "-W", "ignore", program, *arguments, rank, hosts, ends[rank].fileno()])
                    started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[ends[rank].fileno()]))
                for end in ends:
                    end.close()
                killed = rng.choice(started)
                for _ in range(rng.randrange(8)):
                    killed.stdout.readline()
                killed.send_signal(signal.SIGKILL)
                for process in started:  # the other host hears that this one has ended
                    _, said = process.communicate(timeout=60)
                    ended = process.returncode in (0, -signal.SIGKILL)  # 0: with its last step, before the signal came
                    self.assertTrue(ended or "TrainingError" in said or process is not killed, (seed, process.returncode, said))
            for rank in range(2):  # of one start, hosts have the same rows
                lines = log.with_name(f"log{rank}").read_text().splitlines() if log.with_name(f"log{rank}").exists() else []
                self.assertTrue(rank or len(lines) > 3, seed)
                self.assertEqual(len({line.split()[1] for line in lines}), len(lines), f"seed {seed}")
                whole = whole if rank else lines
            lines = whole
            taken = [0] * STEPS
            for path in root.glob("run/training.json"):
                for first, end in _starts.read_starts(json.loads(path.read_text())["starts"]).values():
                    for t in range(first, end):
                        taken[t] += 1
            if len(folders) == 1:
                released = [sum(line.split()[0] == str(t) for line in lines) for t in range(STEPS)]
                self.assertTrue(all(a >= b for a, b in zip(taken, released)), (seed, taken, released))


if __name__ == "__main__":
    unittest.main()
