"""Hosts of one training: what each tells the others at a step, and what is refused."""

from __future__ import annotations

import dataclasses
import errno
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import traceback
import unittest
import unittest.mock

import numpy as np

import minsep
from minsep import _hosts

from . import runs

_fork = multiprocessing.get_context("fork")


class Words(unittest.TestCase):
    """What the words of several hosts must say."""

    def hosts(self, count=3, shards=0, **more):
        host = _hosts.Host(0, count, False, 5, "1" * 32, "2" * 64, "3" * 32, "4" * 64, shards, ())
        return [dataclasses.replace(host, rank=i, primary=i == 0, parts=((i % shards, 0),) if shards else (), **more) for i in range(count)]

    def check(self, hosts):
        return _hosts.check(_hosts.read([h.word() for h in hosts]))

    def refused(self, words, hosts):
        with self.assertRaisesRegex(minsep.TrainingError, "^hosts: " + words):
            self.check(hosts)

    def test_words_say_it_all(self):
        for h in self.hosts(4, 4) + self.hosts(2, token="", layout=""):
            self.assertEqual(_hosts.read(h.word()), [h])
            self.assertEqual(h.word().shape, (_hosts.SIZE,))
        words = np.stack([h.word() for h in self.hosts(3)])
        self.assertEqual(_hosts.read(words), self.hosts(3))
        self.assertEqual(_hosts.read(words.astype(np.int32)), self.hosts(3))  # a library without bytes
        for bad in words[:, :-1], [], np.zeros(0), "words":
            with self.assertRaises(ValueError):
                _hosts.read(bad)

    def test_hosts_that_agree(self):
        for hosts in self.hosts(1), self.hosts(3), self.hosts(3, 3), self.hosts(3, 1), self.hosts(3)[::-1]:
            self.assertEqual(self.check(hosts), "3" * 32)
        begin = [dataclasses.replace(h, token="" if h.rank else "3" * 32) for h in self.hosts()]
        self.assertEqual(self.check(begin), "3" * 32)
        replicas = [dataclasses.replace(h, parts=((h.rank % 2, h.rank // 2),)) for h in self.hosts(4, 2)]
        self.assertEqual(self.check(replicas), "3" * 32)
        two = [dataclasses.replace(h, shards=4, parts=((2 * h.rank, 0), (2 * h.rank + 1, 0))) for h in self.hosts(2)]
        self.assertEqual(self.check(two), "3" * 32)

    def test_one_host_that_differs(self):
        """Of each field, one host that says something else: each is refused, and the message tells which host."""
        for words, change in {
            "hosts 0, 1 at step 5; host 2 at step 6: resume all": {"step": 6},
            f"hosts 0, 1 with run {'1' * 32}; host 2 with run {'9' * 32}: open": {"run_id": "9" * 32},
            r"hosts 0, 1 with batches and a recipe of noise of digest 22222222; host 2 .*copy the run directory": {"fingerprint": "9" * 64},
            "host 2 has a checkpoint of another training than host 0": {"token": "9" * 32},
            "hosts 0, 2 would keep the record": {"primary": True},
            "3 have answered, as ranks 0 of 3, 1 of 3, 2 of 4: give each": {"ranks": 4},
            "3 have answered, as ranks 0 of 3, 1 of 3, 1 of 3": {"rank": 1},
            "hosts 0, 1 with the noise in 3 shards; host 2 with the noise in 4 shards: give read_noise the same shards": {"shards": 4},
            "hosts 1 and 2 take shard 1 of 3 of the noise: two sums .*replica=1": {"parts": ((1, 0),)},
            "hosts 1 and 2 take shard 1 of 3 of the noise for parameters of different names": {"parts": ((1, 1),), "layout": "9" * 64},
            "no host takes shard 2 of 3 of the noise": {"parts": ((1, 1),)},
        }.items():
            with self.subTest(words):
                hosts = self.hosts(3, 3)
                hosts[2] = dataclasses.replace(hosts[2], **change)
                self.refused(words, hosts)
        self.refused("no host would keep the record", [dataclasses.replace(h, primary=False) for h in self.hosts()])
        self.refused("2 have answered, as ranks 0 of 3, 1 of 3", self.hosts(3)[:2])
        whole = self.hosts(2, 1)
        whole[1] = dataclasses.replace(whole[1], layout="9" * 64)
        self.refused("hosts 0 and 1 take shard 0 of 1 of the noise for parameters of different names", whole)
        self.refused("no host takes shard 2 of 4 of the noise", [dataclasses.replace(h, shards=4) for h in self.hosts(2, 2)])

    def test_a_host_that_takes_no_step(self):
        """It is the first that is said, whatever else differs; long words in letters of several bytes are cut."""
        hosts = self.hosts(3, step=4)
        hosts[2] = dataclasses.replace(hosts[2], rank=0, step=7, refused="like: " + "é" * 300)
        self.refused("host 0 takes no step, so no other host may: like: é{230,240}…$", hosts)

    def test_another_version(self):
        word = self.hosts(1)[0].word().copy()
        word[0] = 9
        with self.assertRaisesRegex(minsep.TrainingError, "different versions of this package"):
            _hosts.read(word)


class Gather:
    """An all-gather of processes of one parent."""

    def __init__(self, hosts):
        self.hosts, self.words, self.barrier = hosts, _fork.Array("B", hosts * _hosts.SIZE), _fork.Barrier(hosts, timeout=60)

    def of(self, rank):
        def gather(word):
            words = np.frombuffer(self.words.get_obj(), np.uint8).reshape(self.hosts, -1)
            words[rank] = word
            self.barrier.wait()
            found = words.copy()
            self.barrier.wait()
            return found

        return gather


class Processes(runs.Case):
    def together(self, hosts, program):
        """What program(rank, gather) returns in a process of each host, or the last line of its exception."""
        gather, queue = Gather(hosts), _fork.SimpleQueue()

        def run(rank):
            try:
                found = program(rank, gather.of(rank))
            except BaseException:
                found = traceback.format_exc().strip().splitlines()[-1]
            queue.put((rank, found))

        processes = [_fork.Process(target=run, args=(rank,)) for rank in range(hosts)]
        for p in processes:
            p.start()
        found = dict(queue.get() for _ in processes)
        for p in processes:
            p.join()
        return [found[rank] for rank in range(hosts)]

    def test_a_training_on_three_hosts(self):
        path, hosts = self.own_noisy(20, 33), 3
        like = {"w": np.zeros(11)}

        def train(rank, gather, state=None, path=path, shards=hosts, stop=8):
            run = minsep.Run(path)
            guard = minsep.StepGuard(run, state, rank=rank, ranks=hosts, gather=gather)
            noise = minsep.read_noise(run, like, guard=guard, shard=rank, shards=shards)
            rows = []
            for t in guard:
                rows.append(noise.step(t)["w"].tolist())
                if t == stop:
                    break
            return guard.state_dict(), rows

        first = self.together(hosts, train)
        states, rows = [f[0] for f in first], [f[1] for f in first]
        self.assertEqual(len({s["token"] for s in states}), 1)  # the others have it from the first host
        self.assertEqual([s["next_step"] for s in states], [9] * 3)
        run = minsep.Run(path)
        for t in range(9):
            self.assertEqual([v for host in rows for v in host[t]], run.noise(t).tolist())

        # One host resumes from an older checkpoint: nobody takes a step, and the record stays.
        stale = [dict(s, next_step=7) if rank == 2 else s for rank, s in enumerate(states)]
        for said in self.together(hosts, lambda rank, gather: train(rank, gather, stale[rank])):
            self.assertRegex(said, "hosts 0, 1 at step 9; host 2 at step 7: resume all of them from the checkpoint of one step")
        # One of another training, which sees no record of this one.
        alone = self.folder / "alone"
        shutil.copytree(path, alone)
        (alone / "training.json").unlink()
        other = [dict(s, token="0" * 31 + "1") if rank == 1 else s for rank, s in enumerate(states)]

        def elsewhere_too(rank, gather):
            if rank == 1:
                os.environ["XDG_STATE_HOME"] = str(self.folder / "state")  # of this process, which is a fork
            return train(rank, gather, other[rank], alone if rank == 1 else path)

        for said in self.together(hosts, elsewhere_too):
            self.assertIn("host 1 has a checkpoint of another training than host 0", said)
        # One whose directory is of another run.
        elsewhere = runs.make_noisy(self.folder / "elsewhere")
        for said in self.together(hosts, lambda rank, gather: train(rank, gather, None if rank == 2 else states[rank], elsewhere if rank == 2 else path)):
            self.assertRegex(said, "hosts 0, 1 with run [0-9a-f]{32}; host 2 with run [0-9a-f]{32}: open the run directory of one run")
        self.assertIn('"taken": "0000000000000009"', (path / "training.json").read_text())
        self.assertEqual([f[0]["next_step"] for f in self.together(hosts, lambda rank, gather: train(rank, gather, states[rank], stop=19))], [20] * 3)

    def test_what_one_host_sees_alone(self):
        """Where one host is refused for what it alone can see, the others hear of it, at once, and nobody takes a step."""
        path, hosts = self.own_noisy(20, 33), 3
        state = self.together(hosts, lambda rank, gather: self.step(path, rank, gather))[0]
        foreign = dict(state, run_id="0" * 32)

        def second(rank, gather, mine, **more):
            """Host 1 has a state or part of the noise of its own."""
            return self.step(path, rank, gather, **(mine if rank == 1 else {"state": state}), **more)

        for words, mine in {
            "the checkpoint belongs to run 0{32}": {"state": foreign},
            "rank 7: must be 0 to 2": {"state": state, "number": 7},
            "state: must be the result of state_dict": {"state": {}},
            "like: has 12 coordinates, shard 1 of 3 of the noise has 11": {"state": state, "width": 12},
            "like: has other names, shapes or order": {"state": state, "name": "v"},
            "shard 3 of 3": {"state": state, "shard": 3},
            "step 2: step 1 comes first": {"state": state, "take": 2},
        }.items():
            with self.subTest(words):
                said = self.together(hosts, lambda rank, gather: second(rank, gather, mine))
                self.assertRegex(said[1], "Error: .*" + words)
                for other in said[0], said[2]:
                    self.assertRegex(other, rf"TrainingError: hosts: host {mine.get('number', 1)} takes no step, so no other host may: .*{words}")
        self.assertIn('"taken": "0000000000000001"', (path / "training.json").read_text())
        for found in self.together(hosts, lambda rank, gather: self.step(path, rank, gather, state=state)):
            self.assertEqual(found["next_step"], 2)
        said = self.together(hosts, lambda rank, gather: self.step(path, rank, gather, state=state))  # the first host sees that it is old
        self.assertIn("step 1 was taken after this checkpoint", said[0])
        self.assertRegex(said[2], "hosts: host 0 takes no step.*step 1 was taken after this checkpoint")

    def step(self, path, rank, gather, state=None, number=None, shard=None, width=11, name="w", take=None):
        """A step of one of three hosts, and its state after it."""
        guard = minsep.StepGuard(minsep.Run(path), state, rank=rank if number is None else number, ranks=3, gather=gather)
        noise = minsep.read_noise(minsep.Run(path), {name: np.zeros(width)}, guard=guard, shard=rank if shard is None else shard, shards=3)
        t = guard.next_step
        guard.take(t if take is None else take)
        noise.step(t)
        return guard.state_dict()

    def test_a_host_whose_copy_was_used(self):
        """A host that keeps no record refuses its copy of the run directory where that tells of another training."""
        path, copy = self.own_noisy(20, 33), self.folder / "copy"
        shutil.copytree(path, copy)
        (copy / "training.json").write_text(json.dumps({"format": "minsep-training/1", "run_id": minsep.Run(path).run_id, "token": "5" * 32, "taken": "0000000000000001"}))
        said = self.together(3, lambda rank, gather: self.step(copy if rank == 1 else path, rank, gather))
        self.assertRegex(said[1], f"^minsep.errors.TrainingError: {copy}: serves a training already: .*give the state of its checkpoint on all hosts")
        for other in said[0], said[2]:
            self.assertRegex(other, "hosts: host 1 takes no step, so no other host may: .*serves a training already")
        self.assertIn('"taken": "0000000000000000"', (path / "training.json").read_text())

    def test_hosts_that_see_one_folder(self):
        """A shard that two processes take, or another number of shards, is refused in the shared folder, whatever their all-gather tells."""
        path = self.own_noisy(20, 36)
        run = minsep.Run(path)
        first = minsep.StepGuard(run)
        minsep.read_noise(run, guard=first, shard=1, shards=4)
        minsep.read_noise(run, guard=first, shard=1, shards=4)  # once more on the same host
        with self.assertRaisesRegex(minsep.TrainingError, "shards 3: this host reads the noise in 4 shards already"):
            minsep.read_noise(run, guard=first, shard=1, shards=3)
        program = f"""
import minsep
from tests import runs
run = minsep.Run({str(path)!r})
for shard, shards, replica in (1, 4, 0), (0, 3, 0), (2, 4, 0), (1, 4, 1):
    guard = minsep.StepGuard(run, rank=1, ranks=2, gather=runs.agreeing)
    try:
        minsep.read_noise(run, guard=guard, shard=shard, shards=shards, replica=replica)
        print("taken")
    except minsep.TrainingError as err:
        print(err)
    guard.close()
"""
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertRegex(said[0], "shard 1 of 4: another process of this training reads it: .*replica=1")
        self.assertRegex(said[1], "shards 3: another process of this training reads the noise in 4 shards: give read_noise the same number on all hosts")
        self.assertEqual(said[2:], ["taken", "taken"])
        first.close()
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(said, ["taken"] * 4)
        self.assertNotEqual(run.verdict().state, "broken")
        self.assertEqual((path / "training.shards").stat().st_mode & 0o777, 0o700)

    def test_a_folder_without_locks(self):
        """Of two trainings that begin there at once the first takes no step once the second has begun, and nothing tells before."""
        import fcntl

        run = minsep.Run(self.own_noisy())

        def none(fd, how):
            raise OSError(errno.ENOLCK, "No locks available")

        with unittest.mock.patch.object(fcntl, "flock", none):
            with self.assertWarnsRegex(UserWarning, r"training.json: no file can be locked there \(No locks available\)") as warned:
                first = minsep.StepGuard(run)
            self.assertEqual(warned.filename, __file__)
            second = minsep.StepGuard(run)
            second.take(0)
            with self.assertRaisesRegex(minsep.TrainingError, "another training has begun since, perhaps on another host"):
                first.take(0)
            second.take(1)

    def test_a_host_with_a_checkpoint_of_another_training(self):
        path = self.own_noisy()
        run = minsep.Run(path)
        guard = minsep.StepGuard(run)
        guard.take(0)
        state = guard.state_dict()
        two = {"rank": 1, "ranks": 2, "gather": runs.agreeing}
        minsep.StepGuard(run, state, **two).take(1)
        guard.take(1)
        with self.assertRaisesRegex(minsep.TrainingError, "than this host's checkpoint"):
            minsep.StepGuard(run, dict(state, token="0" * 32), **two)

    def test_a_host_without_a_checkpoint(self):
        """Of two trainings, as of two points of a sweep, the second is refused on a host that keeps no record, wherever it sees one."""
        path = self.own_noisy()
        run = minsep.Run(path)
        two = {"rank": 1, "ranks": 2, "gather": runs.agreeing}
        minsep.StepGuard(run, **two).close()
        first = minsep.StepGuard(run)
        minsep.StepGuard(run, **two).close()  # the first host has begun, and taken no step
        first.take(0)
        (path / "training.json").rename(path / "kept.json")
        for seen in "trainings", "training.json":
            with self.subTest(seen), self.assertRaisesRegex(minsep.TrainingError, "serves a training already: .*give the state of its checkpoint on all hosts"):
                minsep.StepGuard(run, **two)
            if seen == "trainings":
                (path / "kept.json").rename(path / "training.json")
                (runs.ROOT / "state" / "minsep" / "trainings" / f"{run.run_id}.json").unlink()
        minsep.StepGuard(run, folder=self.folder, **two)  # it sees neither: the first host does

    def test_hosts_without_an_all_gather(self):
        run = minsep.Run(self.own_noisy())
        for more in {"rank": 1, "ranks": 2}, {"ranks": 2}, {"rank": 1, "ranks": 2, "primary": True}, {"primary": False, "ranks": 2}:
            with self.subTest(more), self.assertRaisesRegex(ValueError, "^gather: must be given with ranks 2: .*minsep.jax.gather.*On the only host, leave rank and ranks out"):
                minsep.StepGuard(run, **more)
        with self.assertRaisesRegex(minsep.TrainingError, "^hosts: 1 have answered, as ranks 0 of 2"):
            minsep.StepGuard(run, ranks=2, gather=lambda word: [word])
        with self.assertRaisesRegex(minsep.TrainingError, "^hosts: 2 have answered, as ranks 1 of 2, 1 of 2"):
            minsep.StepGuard(run, rank=1, ranks=2, gather=lambda word: [word, word])

    def test_ranks_that_cannot_be(self):
        run = minsep.Run(self.own_noisy())
        for rank, ranks in (-1, 2), (2, 2), (0, 0):
            with self.assertRaisesRegex(ValueError, "must be 0 to"):
                minsep.StepGuard(run, rank=rank, ranks=ranks, gather=runs.agreeing)
        with self.assertRaisesRegex(ValueError, "replica -1"):
            minsep.read_noise(run, replica=-1)
        for found in "word", "words":
            minsep.StepGuard(run, gather=lambda word: word if found == "word" else [word]).close()
        with self.assertRaisesRegex(ValueError, "gathered: must hold the word of every host"):
            minsep.StepGuard(run, gather=lambda word: [1, 2])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Frameworks(runs.Case):
    """Two processes of each framework, with its own all-gather: one training, and one with hosts that disagree."""

    def two(self, program):
        env = dict(os.environ, XLA_FLAGS="--xla_cpu_multi_thread_eigen=false", OMP_NUM_THREADS="1")
        for name, step, said in ("agree", "0", [["took 20"]] * 2), ("differ", "rank", [["refused"]] * 2):
            path, address = runs.make_noisy(self.folder / name, 20, 34), f"127.0.0.1:{free_port()}"
            processes = [
                subprocess.Popen([sys.executable, "-c", program.format(path=str(path), address=address, rank=rank, step=step)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for rank in range(2)
            ]
            found = [p.communicate(timeout=300) for p in processes]
            self.assertEqual([out.strip().splitlines()[-1:] for out, _ in found], said, [err for _, err in found])

    body = """
run = minsep.Run({path!r})
guard = minsep.StepGuard(run, rank={rank}, ranks=2, gather=dp.gather)
noise = minsep.read_noise(run, guard=guard, shard={rank}, shards=2)
guard.next_step = (lambda rank: {step})({rank})
try:
    print("took", len([noise.step(t) for t in guard]))
except minsep.TrainingError as err:
    print("refused" if "host 0 at step 0; host 1 at step 1" in str(err) else err)
"""

    @runs.needs("torch")
    def test_torch(self):
        self.two("""
import torch.distributed
import minsep, minsep.torch as dp
torch.distributed.init_process_group("gloo", init_method="tcp://{address}", rank={rank}, world_size=2)
""" + self.body)

    @runs.needs("jax")
    def test_jax(self):
        self.two("""
import jax
jax.distributed.initialize("{address}", num_processes=2, process_id={rank})
import minsep, minsep.jax as dp
""" + self.body)
