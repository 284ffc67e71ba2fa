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
        host = _hosts.Host(0, count, 5, "1" * 32, "2" * 64, "3" * 32, "4" * 64, shards, (), "5" * 64, bytes([6]) * _hosts.AHEAD * _hosts.STEP_BYTES)
        return [dataclasses.replace(host, rank=i, parts=((i % shards, 0),) if shards else (), **more) for i in range(count)]

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
            self.assertEqual(self.check(hosts), next(h for h in hosts if h.rank == 0))
        begin = [dataclasses.replace(h, token="" if h.rank else "3" * 32) for h in self.hosts()]
        self.assertEqual(self.check(begin), begin[0])
        replicas = [dataclasses.replace(h, parts=((h.rank % 2, h.rank // 2),)) for h in self.hosts(4, 2)]
        self.assertEqual(self.check(replicas), replicas[0])
        two = [dataclasses.replace(h, shards=4, parts=((2 * h.rank, 0), (2 * h.rank + 1, 0))) for h in self.hosts(2)]
        self.assertEqual(self.check(two), two[0])

    def test_one_host_that_differs(self):
        """Of each field, one host that says something else: each is refused, and the message tells which host."""
        for words, change in {
            "hosts 0, 1 at step 5; host 2 at step 6: resume all": {"step": 6},
            f"hosts 0, 1 with run {'1' * 32}; host 2 with run {'9' * 32}: open": {"run_id": "9" * 32},
            r"hosts 0, 1 with batches and a recipe of noise of digest 22222222; host 2 .*copy the run directory": {"fingerprint": "9" * 64},
            "host 2 has a checkpoint of another training than host 0": {"token": "9" * 32},
            "hosts 0, 1 with steps taken with bytes of digest 55555555; host 2 .*resume all of them from one checkpoint: they would go on with different noise": {"taken": "9" * 64},
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
            noise = minsep.read_noise(run, like, guard=guard, shard=rank, shards=shards, key=runs.key())
            rows = []
            for t in guard:
                rows.append(noise.step(t)["w"].tolist())
                if t == stop:
                    break
            noise.close()
            return guard.state_dict(), rows

        first = self.together(hosts, train)
        states, rows = [f[0] for f in first], [f[1] for f in first]
        self.assertEqual(len({s["token"] for s in states}), 1)  # the others have it from the first host
        self.assertEqual([len(s["steps"]) for s in states], [9 * 32] * 3)
        self.assertEqual(len({s["steps"] for s in states}), 1)  # and the bytes of steps
        run = minsep.Run(path)
        with runs.Reader(run, steps=bytes.fromhex(states[0]["steps"]) + bytes(11 * 16), key=runs.key()) as whole:
            for t in range(9):
                self.assertEqual([v for host in rows for v in host[t]], whole.step(t).tolist())

        # One host resumes from an older checkpoint: nobody takes a step, and the record stays.
        stale = [dict(s, steps=s["steps"][: 7 * 32]) if rank == 2 else s for rank, s in enumerate(states)]
        for said in self.together(hosts, lambda rank, gather: train(rank, gather, stale[rank])):
            self.assertRegex(said, "hosts 0, 1 at step 9; host 2 at step 7: resume all of them from the checkpoint of one step")
        # One whose steps had other bytes, as of another start of the same training.
        fork = [dict(s, steps=s["steps"][: 8 * 32] + "0" * 32) if rank == 2 else s for rank, s in enumerate(states)]
        for said in self.together(hosts, lambda rank, gather: train(rank, gather, fork[rank])):
            self.assertRegex(said, "hosts 0, 1 with steps taken with bytes of digest .*; host 2 with .*resume all of them from one checkpoint")
        # One of another training, which sees no record of this one.
        alone = self.folder / "alone"
        shutil.copytree(path, alone)
        (alone / "training.json").unlink()
        other = [dict(s, token="0" * 31 + "1") if rank == 1 else s for rank, s in enumerate(states)]

        for said in self.together(hosts, lambda rank, gather: train(rank, gather, other[rank], alone if rank == 1 else path)):
            self.assertIn("host 1 has a checkpoint of another training than host 0", said)
        # One whose directory is of another run.
        elsewhere = runs.make_noisy(self.folder / "elsewhere")
        for said in self.together(hosts, lambda rank, gather: train(rank, gather, None if rank == 2 else states[rank], elsewhere if rank == 2 else path)):
            self.assertRegex(said, "hosts 0, 1 with run [0-9a-f]{32}; host 2 with run [0-9a-f]{32}: open the run directory of one run")
        self.assertEqual(max(int(end) for _, end in json.loads((path / "training.json").read_text())["starts"].values()), 9)
        self.assertEqual([len(f[0]["steps"]) // 32 for f in self.together(hosts, lambda rank, gather: train(rank, gather, states[rank], stop=19))], [20] * 3)

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
            "model, or like: has other names, shapes or order": {"state": state, "name": "v"},
            "shard 3 of 3": {"state": state, "shard": 3},
            "step 2: step 1 comes first": {"state": state, "take": 2},
        }.items():
            with self.subTest(words):
                said = self.together(hosts, lambda rank, gather: second(rank, gather, mine))
                self.assertRegex(said[1], "Error: .*" + words)
                for other in said[0], said[2]:
                    self.assertRegex(other, rf"TrainingError: hosts: host {mine.get('number', 1)} takes no step, so no other host may: .*{words}")
        for found in self.together(hosts, lambda rank, gather: self.step(path, rank, gather, state=state)):
            self.assertEqual(len(found["steps"]), 2 * 32)

    def step(self, path, rank, gather, state=None, number=None, shard=None, width=11, name="w", take=None):
        """A step of one of three hosts, and its state after it."""
        guard = minsep.StepGuard(minsep.Run(path), state, rank=rank if number is None else number, ranks=3, gather=gather)
        noise = minsep.read_noise(minsep.Run(path), {name: np.zeros(width)}, guard=guard, shard=rank if shard is None else shard, shards=3, key=runs.key())
        t = guard.next_step
        guard.take(t if take is None else take)
        noise.step(t)
        return guard.state_dict()

    def test_a_folder_without_locks(self):
        """No record is kept there, and that is said; the noise of two trainings that begin there is not the same."""
        import fcntl

        run = minsep.Run(self.own_noisy())
        rows = []
        with unittest.mock.patch.object(fcntl, "flock", side_effect=OSError(errno.ENOLCK, "No locks available")):
            for _ in range(2):
                with self.assertWarnsRegex(minsep.NotCountedWarning, r"starts are not counted: .*No locks available"):
                    guard = minsep.StepGuard(run)
                with minsep.read_noise(run, guard=guard, key=runs.key()) as noise:
                    guard.take(0)
                    rows.append(noise.step(0).tolist())
        self.assertNotEqual(*rows)

    def test_host_0_that_draws_again(self):
        """Other bytes for steps that a host knows already are refused: its stream would have other noise."""
        run = minsep.Run(self.own_noisy())
        guard = minsep.StepGuard(run, rank=1, ranks=2, gather=runs.agreeing)
        guard.take(0)

        def other(word):
            words = runs.agreeing(word)
            (host,) = _hosts.read(words[0])
            words[0] = dataclasses.replace(host, ahead=bytes([99]) + host.ahead[1:]).word()
            return words

        guard._gather = other
        with self.assertRaisesRegex(minsep.TrainingError, "host 0 has drawn other bytes for the steps from 1 on than host 1 knows"):
            guard.take(1)

    def test_hosts_without_an_all_gather(self):
        run = minsep.Run(self.own_noisy())
        for more in {"rank": 1, "ranks": 2}, {"ranks": 2}, {"rank": 0, "ranks": 2}:
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
            runs.Reader(run, replica=-1)
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
        paths, address = [str(runs.make_noisy(self.folder / name, 20, 34)) for name in ("agree", "differ")], f"127.0.0.1:{free_port()}"
        processes = [
            subprocess.Popen([sys.executable, "-c", program.format(paths=paths, key=str(runs.key()), address=address, rank=rank)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        found = [p.communicate(timeout=300) for p in processes]
        self.assertEqual([out.strip().splitlines()[-2:] for out, _ in found], [["took 20", "refused"]] * 2, [err for _, err in found])

    body = """
for path, step in zip({paths}, (0, {rank})):
    run = minsep.Run(path)
    guard = minsep.StepGuard(run, rank={rank}, ranks=2, gather=dp.gather)
    noise = minsep.read_noise(run, guard=guard, shard={rank}, shards=2, key={key!r})
    guard.next_step = step
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
