"""Noise by step and tree: streams against files, and what does not match."""

from __future__ import annotations

import collections
import copy
import gc
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import threading
import time
import unittest
import warnings
import weakref
from unittest import mock

import numpy as np

import minsep
from minsep import _command, _hosts, _reader, _starts

from . import runs

KINDS = {
    "banded": ("--kind", "banded-toeplitz", "--bands", "3", "--min-sep", "3"),
    "inverse-banded": ("--kind", "bisr", "--bands", "4"),
    "independent": ("--kind", "identity"),
}


def said_by_child(do):
    """What a forked process writes to the descriptor that do has, and then the words of its TrainingError."""
    answer, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            do(said)
        except minsep.TrainingError as err:
            os.write(said, str(err).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(said)
    with os.fdopen(answer) as words:
        return words.read()


class Stream(runs.Case):
    def test_has_the_bits_of_the_files(self):
        for name, strategy in KINDS.items():
            path = self.noisy(20, 33, "--shards", "2", strategy=strategy)
            run = minsep.Run(path)
            for start, shard, shards in [(0, 0, 1), (7, 0, 1), (13, 2, 4), (19, 32, 33)]:
                with self.subTest(name, start=start, shard=shard, shards=shards):
                    with runs.Reader(run, start=start, steps=runs.recorded(run), shard=shard, shards=shards, key=runs.key()) as noise:
                        for t in range(start, 20):
                            got, want = noise.step(t), run.noise(t, shard, shards)
                            self.assertEqual(got.dtype, np.float32)
                            self.assertEqual(got.tobytes(), want.tobytes())
                        with self.assertRaises(minsep.TrainingError):
                            noise.step(20)

    def test_files_that_a_float32_does_not_hold(self):
        """Noise that is rounded leaves low bits of the sum to see: 11 of them in each coordinate, where this was read as float32."""
        run = minsep.Run(self.noisy(20, 33, "--dtype", "float64"))
        self.assertEqual(runs.Reader(run).step(0).dtype, np.float64)
        with self.assertRaisesRegex(ValueError, "dtype float32: must be float64: a float32 does not hold the noise on its grid"):
            runs.Reader(run, dtype="float32")
        for more in {}, {"dtype": "float64"}, {"key": runs.key()}:
            with runs.Reader(run, steps=runs.recorded(run), **more) as noise:
                self.assertEqual(noise.step(0).tolist(), run.noise(0).tolist())
        with self.assertRaisesRegex(minsep.UsageError, "--dtype float32: must be float64"):
            runs.Reader(run, dtype="float32", key=runs.key())
        for grid in ("0.0009765625", "none"):  # which a float32 holds, or which has nothing to hold
            run = minsep.Run(self.noisy(20, 33, "--dtype", "float64", "--grid", grid))
            self.assertEqual(runs.Reader(run).step(0).tolist(), run.noise(0).astype(np.float32).tolist())

    def test_from_the_recipe_alone_in_float64(self):
        run = minsep.Run(self.noisy(20, 33, runs.RECIPE_ONLY, "--grid", "0.0009765625"))
        with runs.Reader(run, key=runs.key()) as single, runs.Reader(run, key=runs.key(), dtype="float64") as double:
            for t in range(20):
                a, b = single.step(t), double.step(t)
                self.assertEqual((a.dtype, b.dtype), (np.float32, np.float64))
                self.assertEqual(a.tolist(), b.tolist())
        with mock.patch.dict(os.environ, HOME=str(self.folder), XDG_CONFIG_HOME="", MINSEP_KEY=""), self.assertRaisesRegex(ValueError, "key: must be given"):
            runs.Reader(run)

    def test_by_tree(self):
        run = minsep.Run(self.noisy())
        Pair = collections.namedtuple("Pair", "w b")
        like = {"b": [np.zeros((2, 3)), np.zeros(())], "a": Pair(np.zeros((4, 5), np.float16), np.zeros(6))}
        for key in None, str(runs.key()):
            with runs.Reader(run, like, steps=runs.recorded(run), key=key) as noise:
                tree, flat = noise.step(0), run.noise(0)
                self.assertEqual(list(tree), ["a", "b"])
                self.assertIsInstance(tree["a"], Pair)
                got = [tree["a"].w, tree["a"].b, *tree["b"]]
                self.assertEqual([g.shape for g in got], [(4, 5), (6,), (2, 3), ()])
                self.assertEqual(np.concatenate([g.reshape(-1) for g in got]).tolist(), flat.tolist())
        with self.assertRaisesRegex(ValueError, "like: has 32 coordinates, the noise has 33: .*run with `--coordinates 32` and another `--out`; else give the parameters that are trained"):
            runs.Reader(run, np.zeros(32))
        with self.assertRaisesRegex(ValueError, "shard 1 of 2 of the noise has 16: give the parameters that this host holds.*`--coordinates` and another `--out`"):
            runs.Reader(run, np.zeros(17), shard=1, shards=2)
        with self.assertRaisesRegex(ValueError, "neither an array"):
            runs.Reader(run, {"a": 3})

    def test_in_order_once(self):
        run = minsep.Run(self.noisy())
        for key in None, runs.key():
            with runs.Reader(run, key=key) as reader:
                reader.step(0)
                for step in 0, 2:
                    with self.assertRaisesRegex(minsep.TrainingError, "the next step is 1: noise is read in order, once. Read every step"):
                        reader.noise.step(step)

    def test_bfloat16_noise_is_refused(self):
        with self.assertRaisesRegex(ValueError, "bfloat16 does not hold the noise"):
            runs.Reader(minsep.Run(self.noisy()), dtype="bfloat16")

    def test_words_of_the_command(self):
        run = minsep.Run(self.noisy())
        other = self.folder / "other"
        runs.minsep("keygen", other)
        with self.assertRaisesRegex(minsep.UsageError, "made with another root key"):
            runs.Reader(run, key=other)

    def test_from_a_checkpoint(self):
        """The state that the command keeps serves the same steps, and no others."""
        path, kept = self.noisy(20, 33, runs.RECIPE_ONLY, strategy=KINDS["banded"]), self.folder / "kept"
        run = minsep.Run(path)
        with runs.Reader(run, key=runs.key(), checkpoint=kept, checkpoint_steps=6) as noise:
            want = [noise.step(t).tobytes() for t in range(20)]
        self.assertEqual(sorted(f.name[-6:] for f in kept.iterdir()), ["000012", "000018"])
        with runs.Reader(run, start=14, key=runs.key(), checkpoint=kept) as noise:
            self.assertEqual([noise.step(t).tobytes() for t in range(14, 20)], want[14:])
        steps = runs.fixed(20)
        other = steps[: 16 * 11] + bytes(16) + steps[16 * 12 :]
        with runs.Reader(run, start=14, steps=other, key=runs.key()) as plain, runs.Reader(run, start=14, steps=other, key=runs.key(), checkpoint=kept) as noise:
            found = [noise.step(t).tobytes() for t in range(14, 20)]
            self.assertEqual(found, [plain.step(t).tobytes() for t in range(14, 20)])
        with self.assertRaisesRegex(ValueError, "checkpoint: is for noise that is made during the training"):
            runs.Reader(minsep.Run(self.noisy()), checkpoint=kept)

    def test_rows_that_are_held_stay(self):
        run = minsep.Run(self.noisy(20, 33))
        want = [run.noise(t).tobytes() for t in range(20)]
        for hold in (lambda row: row), (lambda row: row[3:].reshape(-1, 2)), memoryview, (lambda row: {"a": row[:5]}):
            with runs.Reader(run, steps=runs.recorded(run), key=runs.key()) as noise:
                rows = [(row, hold(row))[1] for row in (noise.step(t) for t in range(20))]
            for row, bytes_ in zip(rows, want):
                got = row["a"].tobytes() if isinstance(row, dict) else row.tobytes()
                self.assertIn(got, bytes_)
                self.assertGreaterEqual(len(got), 20)

    def held_elsewhere(self, hold):
        run = minsep.Run(self.noisy(20, 33))
        with runs.Reader(run, steps=runs.recorded(run), key=runs.key()) as noise:
            rows = [hold(noise.step(t)) for t in range(20)]
        self.assertEqual([np.asarray(row).tobytes() for row in rows], [run.noise(t).tobytes() for t in range(20)])

    @runs.needs("torch")
    def test_rows_that_torch_holds_stay(self):
        import torch

        self.held_elsewhere(torch.from_numpy)

    @runs.needs("jax")
    def test_rows_that_jax_holds_stay(self):
        import jax

        for hold in jax.numpy.asarray, jax.device_put, jax.jit(lambda row: row):
            self.held_elsewhere(hold)

    def test_rows_that_nobody_holds_are_used_again(self):
        places = set()
        with runs.Reader(minsep.Run(self.noisy(20, 33)), key=runs.key()) as noise:
            for t in range(20):
                places.add(noise.step(t).ctypes.data)
        self.assertLessEqual(len(places), 4)

    def test_a_row_that_is_taken_at_once(self):
        """A piped reader goes on when its caller takes a row before the reader has looked again whether there is one."""
        run = minsep.Run(self.noisy(20, 33))
        with runs.Reader(run, steps=runs.recorded(run), key=runs.key()) as noise:
            stream, rows = noise.noise._stream, []
            release = stream._ready.release

            def released():
                release()
                while stream._row is not None:
                    time.sleep(0.001)

            stream._ready.release = released
            late = threading.Timer(60, lambda: (noise.close(), release()))  # in place of waiting without end
            late.start()
            for t in range(20):
                rows.append(noise.step(t).tobytes())
            late.cancel()
        self.assertEqual(rows, [run.noise(t).tobytes() for t in range(20)])

    def test_a_stream_of_another_recipe_is_refused(self):
        run = minsep.Run(self.noisy())
        run._noise.recipe_digest = "0" * 64
        with self.assertRaisesRegex(minsep.RunDirectoryError, "other noise than the opened recipe"):
            runs.Reader(run, key=runs.key())

    def test_a_stream_that_ends_early(self):
        script = self.folder / "minsep"
        script.write_text(f'#!/bin/sh\n{_command.find()} "$@" 2>/dev/null | head -c 4300\necho "minsep: the disk is gone" >&2\nexit 1\n')
        script.chmod(0o755)
        run = minsep.Run(self.noisy(), command=str(script))
        with runs.Reader(run, key=runs.key()) as noise:
            noise.step(0)
            with self.assertRaisesRegex(minsep.CommandError, "^the disk is gone$"):
                noise.step(1)

    def test_closing_ends_the_process(self):
        noise = runs.Reader(minsep.Run(self.noisy(20, 300000, runs.RECIPE_ONLY)), key=runs.key())
        noise.step(0)
        process = noise.noise._stream._process
        noise.close()
        self.assertIsNotNone(process.poll())

    def test_a_trainer_that_ends_leaves_no_process(self):
        path = self.noisy(20, 300000, runs.RECIPE_ONLY)
        program = f"""
import minsep
run = minsep.Run({str(path)!r})
guard = minsep.StepGuard(run, folder={str(self.folder)!r})
noise = minsep.read_noise(run, guard=guard, key={str(runs.key())!r})
guard.take(0)
noise.step(0)
print(noise._stream._process.pid)
"""
        done = subprocess.run([sys.executable, "-W", "ignore::UserWarning", "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for _ in range(1000):  # its pipe is closed: it ends when it next writes
            try:
                os.kill(int(done.stdout), 0)
            except ProcessLookupError:
                return
            state = pathlib.Path(f"/proc/{int(done.stdout)}/stat")
            if state.exists() and state.read_text().split(")")[1].split()[0] == "Z":
                return
            time.sleep(0.01)
        self.fail("the stream is still there")

    def test_bytes_are_no_arguments(self):
        """The bytes of steps go to the command by its standard input: other users see arguments."""
        with mock.patch.object(subprocess, "Popen", wraps=subprocess.Popen) as started, runs.Reader(minsep.Run(self.noisy()), start=3, key=runs.key()) as noise:
            noise.step(3)
        (call,) = [c for c in started.call_args_list if "--stream" in c.args[0]]
        self.assertFalse([a for a in call.args[0] if runs.fixed(20)[:16].hex() in a])

    def test_an_interrupt_loses_a_row_and_gives_none_twice(self):
        with runs.Reader(minsep.Run(self.noisy()), key=runs.key()) as noise:
            noise.step(0)
            noise.guard.take(1)
            with mock.patch.object(_reader._Stream, "row", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                noise.noise.step(1)
            with self.assertRaisesRegex(minsep.TrainingError, "the next step is 2: noise is read in order, once"):
                noise.noise.step(1)
            with self.assertRaisesRegex(minsep.TrainingError, "noise of step 2: the stream is at step 1, as after an interrupt"):
                noise.step(2)


class Guard(runs.Case):
    def setUp(self):
        super().setUp()
        self.path = self.own_noisy()
        self.run_ = minsep.Run(self.path)
        self.record = self.path / "training.json"

    def starts(self):
        """The steps that each start has taken, as the record has them."""
        return sorted([int(first), int(end)] for first, end in json.loads(self.record.read_text())["starts"].values())

    def test_each_step_once_and_in_order(self):
        guard = minsep.StepGuard(self.run_)
        guard.take(0)
        for step, words in (0, "was taken already: go on with step 1;"), (2, "step 1 comes first"), (20, "has steps 0 to 19"), (-1, "was taken already"):
            with self.assertRaisesRegex(minsep.TrainingError, words):
                guard.take(step)
        self.assertEqual(list(guard), list(range(1, 20)))
        with self.assertRaises(minsep.TrainingError):
            guard.take(20)

    def test_a_second_training_is_refused(self):
        guard = minsep.StepGuard(self.run_)
        guard.take(0)
        state = guard.state_dict()
        guard.close()
        with self.assertRaisesRegex(minsep.TrainingError, f"serves a training already, as {self.record} says: one certificate is for one training.*at another path.*remove {self.record}$"):
            minsep.StepGuard(self.run_)
        with self.assertRaisesRegex(minsep.TrainingError, "another training than the checkpoint, as .* says"):
            minsep.StepGuard(self.run_, dict(state, token="0" * 32))
        minsep.StepGuard(self.run_, state).close()
        self.record.unlink()
        with self.assertWarnsRegex(minsep.NotCountedWarning, "has no record of this training.*copy its training.json"):
            minsep.StepGuard(self.run_, state).close()
        self.record.unlink()
        self.assertNotEqual(minsep.StepGuard(self.run_).state_dict()["token"], state["token"])

    def test_a_start_without_a_step_uses_nothing_up(self):
        first = minsep.StepGuard(self.run_)
        state = first.state_dict()
        first.close()
        second = minsep.StepGuard(self.run_)
        second.take(0)
        second.close()
        with self.assertRaisesRegex(minsep.TrainingError, "serves a training already"):
            minsep.StepGuard(self.run_)
        with self.assertRaisesRegex(minsep.TrainingError, "another training than the checkpoint"):
            minsep.StepGuard(self.run_, state)

    def test_two_guards_of_one_process(self):
        guard = minsep.StepGuard(self.run_)
        with self.assertRaisesRegex(minsep.TrainingError, r"training.json: a StepGuard holds it, of this process or another one: .* call close\(\) of the training or guard first; .*for another training, make another run"):
            minsep.StepGuard(self.run_)
        guard.close()
        minsep.StepGuard(self.run_)

    def test_a_guard_that_was_closed(self):
        first = minsep.StepGuard(self.run_)
        first.close()
        second = minsep.StepGuard(self.run_)
        second.take(0)
        with self.assertRaisesRegex(minsep.TrainingError, "step 0: this guard was closed, and another one may take its steps"):
            first.take(0)
        self.assertEqual(first.next_step, 0)

    def test_threads(self):
        """Of two threads that take a step, while hosts are compared for instance, one is refused."""

        def gather(word):
            time.sleep(0.1)
            return [word]

        guard = minsep.StepGuard(self.run_, gather=gather)
        took = []

        def take():
            try:
                guard.take(0)
                took.append("")
            except minsep.TrainingError as err:
                took.append(str(err))

        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(took)[0], "")
        self.assertRegex(sorted(took)[1], "step 0: was taken already")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_process_that_was_forked(self):
        """As in a sweep: each child would have taken all steps, with the same noise."""
        guard = minsep.StepGuard(self.run_)
        noise = minsep.read_noise(self.run_, guard=guard)

        def train(_):
            for step in guard:
                noise.step(step)

        self.assertIn("step 0: this process was forked since the guard was made", said_by_child(train))
        guard.take(0)
        with self.assertRaisesRegex(minsep.TrainingError, "holds it"):  # the child's end gave nothing back
            minsep.StepGuard(self.run_)

    def test_no_copy_of_a_guard(self):
        guard = minsep.StepGuard(self.run_)
        for again in (copy.copy, copy.deepcopy, pickle.dumps, lambda g: copy.deepcopy({"trainer": [g]})):
            with self.assertRaisesRegex(TypeError, r"StepGuard: cannot be copied or pickled.*save state_dict\(\)"):
                again(guard)
        guard.take(0)

    def test_a_resumed_training_goes_on(self):
        guard = minsep.StepGuard(self.run_)
        for t in range(5):
            guard.take(t)
        state = guard.state_dict()
        guard.close()
        guard = minsep.StepGuard(self.run_, state)
        self.assertEqual(next(iter(guard)), 5)

    def test_steps_after_the_checkpoint(self):
        """They are taken again with fresh noise, and counted."""
        run = minsep.Run(self.own("fresh", runs.RECIPE_ONLY))
        self.record = pathlib.Path(run.path) / "training.json"

        def train(state, steps):
            guard, rows = minsep.StepGuard(run, state), []
            with minsep.read_noise(run, guard=guard, key=runs.key()) as noise:
                for t in range(guard.next_step, guard.next_step + steps):
                    guard.take(t)
                    rows.append(noise.step(t).tolist())
            state = guard.state_dict()
            guard.close()
            return rows, state

        first, state = train(None, 2)
        seen = [train(state, 3)[0] for _ in range(2)]
        rows, later = train(state, 5)
        seen.append(rows[:3])
        for i in range(3):
            self.assertEqual(len({str(rows[i]) for rows in seen}), 3)
        self.assertEqual(self.starts(), [[0, 2], [2, 5], [2, 5], [2, 7]])
        self.assertEqual(sorted(later["starts"].values()), self.starts())
        # The noise is correlated with that of the steps that the checkpoint has: it is the row of their list.
        with runs.Reader(run, start=2, steps=bytes.fromhex(later["steps"]) + bytes(16 * 13), key=runs.key()) as noise:
            self.assertEqual([noise.step(t).tolist() for t in range(2, 7)], rows)
        # A record that was put back from a backup knows less than the checkpoint.
        self.record.write_text(self.record.read_text().replace("000000000007", "000000000003"))
        minsep.StepGuard(run, later).close()
        self.assertEqual(self.starts(), [[0, 2], [2, 5], [2, 5], [2, 7], [7, 7]])

    def own(self, name, *extra):
        return runs.make_noisy(self.folder / name, 20, 33, runs.BANDED, extra)

    def test_noise_in_files_is_given_once(self):
        guard = minsep.StepGuard(self.run_)
        noise = minsep.read_noise(self.run_, guard=guard)
        guard.take(0)
        noise.step(0)
        state = guard.state_dict()
        with mock.patch.object(os, "fsync") as synced:
            guard.take(1)
        self.assertTrue(synced.called)  # a loss of power must not make the row another sum's
        guard.close()
        guard = minsep.StepGuard(self.run_, state)
        with self.assertRaisesRegex(minsep.TrainingError, "has noise in files, of which the rows of step 1 was given after this checkpoint.*give read_noise key=, and the noise is made anew"):
            minsep.read_noise(self.run_, guard=guard)
        with minsep.read_noise(self.run_, guard=guard, key=runs.key()) as noise:
            guard.take(1)
            self.assertNotEqual(noise.step(1).tolist(), self.run_.noise(1).tolist())
        guard.close()
        with mock.patch.object(_starts.Record, "__init__", side_effect=PermissionError(13, "Permission denied")), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guard = minsep.StepGuard(minsep.Run(self.own("other")))
            with self.assertRaisesRegex(minsep.TrainingError, "noise in files, of which a row must not be given twice, and no record can tell"):
                minsep.read_noise(guard._run, guard=guard)

    def test_where_no_record_can_be_kept(self):
        with mock.patch("os.open", side_effect=PermissionError(13, "Permission denied")), self.assertWarnsRegex(minsep.NotCountedWarning, r"starts are not counted: no record of the training can be kept in .*Permission denied.*folder=") as caught:
            guard = minsep.StepGuard(self.run_)
        self.assertEqual(caught.filename, __file__)
        with minsep.read_noise(self.run_, guard=guard, key=runs.key()) as noise:
            guard.take(0)
            noise.step(0)
        self.assertFalse(self.record.exists())

    def test_copies_have_other_noise(self):
        """Of one key, one run id and one certificate, and in another home: nothing sees the other training, and no row is the same."""
        found = []
        path = self.own("original", runs.RECIPE_ONLY)
        for name in "copy", "another":
            copy = pathlib.Path(shutil.copytree(path, self.folder / name))
            key = self.folder / f"key-{name}"
            shutil.copy(runs.key(), key)
            with mock.patch.dict(os.environ, HOME=str(self.folder / name)):
                guard = minsep.StepGuard(minsep.Run(copy))
                with minsep.read_noise(guard._run, guard=guard, key=key) as noise:
                    found.append([noise.step(t).tolist() for t in guard])
                guard.close()
        self.assertLess(len(np.intersect1d(*found)), 10)  # of 660: single values on the grid may meet by chance

    def test_what_copies_share(self):
        """Files of noise that were copied have the same rows, and a snapshot the bytes that are drawn ahead, as docs/noise.md says."""
        rows = []
        for path in self.path, shutil.copytree(self.path, self.folder / "copied-files"):
            guard = minsep.StepGuard(minsep.Run(path))
            with minsep.read_noise(guard._run, guard=guard) as noise:
                guard.take(0)
                rows.append(noise.step(0).tolist())
            guard.close()
        self.assertEqual(*rows)
        self.assertEqual(_hosts.AHEAD, 34)

    def test_two_processes(self):
        program = f"import minsep\nguard = minsep.StepGuard(minsep.Run({str(self.path)!r}))\nprint('held', flush=True)\ninput()"
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "held\n")
            with self.assertRaisesRegex(minsep.TrainingError, "a StepGuard holds it, of this process or another one: stop that training"):
                minsep.StepGuard(self.run_)
            holder.communicate("\n")
        guard = minsep.StepGuard(self.run_)
        other = minsep.StepGuard(self.run_, rank=1, ranks=2, gather=runs.agreeing)
        other.take(0)
        self.assertEqual(other.next_step, 1)

    def test_a_program_that_ends_says_nothing(self):
        program = f"import minsep\nguard = minsep.StepGuard(minsep.Run({str(self.path)!r}))\nkept = lambda: guard\nimport sys; sys.modules['kept'] = kept"
        done = subprocess.run([sys.executable, "-W", "ignore::UserWarning", "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        guard = object.__new__(minsep.StepGuard)
        guard.__del__()

    def test_records_that_are_none(self):
        guard = minsep.StepGuard(self.run_)
        guard.take(0)
        guard.close()
        good = self.record.read_text()
        for text in "{}", "{", '{"format": "x"}', "[]", good[:-9], good.replace('"000000000001"', '"-1"'), good.replace("minsep-training/2", "minsep-training/1"):
            self.record.write_text(text)
            with self.subTest(text), self.assertRaisesRegex(minsep.TrainingError, f"^{self.record}: is not a record of a training, or was cut"):
                minsep.StepGuard(self.run_)
        self.record.unlink()
        self.record.mkdir()
        with self.assertWarns(minsep.NotCountedWarning):
            minsep.StepGuard(self.run_)

    def test_record_of_an_earlier_run_of_the_directory(self):
        guard = minsep.StepGuard(self.run_)
        guard.take(0)
        guard.close()
        self.record.write_text(self.record.read_text().replace(self.run_.run_id, "0" * 32))
        minsep.StepGuard(self.run_).take(0)

    def test_a_claim_that_protects_next_to_nobody(self):
        for epsilon, delta, words in (20, 1e-2, "the success of an attack is not bounded below 0.9999"), (1, 0.05, "delta 0.05 is not below 1/60"), (2, 1e-3, ""):
            plan, out = self.folder / "plan.json", self.folder / f"of-{epsilon}"
            plan.write_text(json.dumps({
                "examples": 60, "scheme": {"scheme": "poisson", "steps": 8, "batch_size": 6}, "strategy": {"kind": "identity"},
                "privacy": {"epsilon": epsilon, "delta": delta}, "noise": {"coordinates": 40}, "key": str(runs.key()), "out": str(out),
            }))  # fmt: skip
            runs.minsep("run", plan)
            run = minsep.Run(out)
            with self.subTest(epsilon), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", minsep.WeakClaimWarning)
                minsep.StepGuard(run).close()
                said = [str(w.message) for w in caught if w.category is minsep.WeakClaimWarning]
                self.assertEqual(len(said), bool(words))
                self.assertTrue(all(words in text for text in said), said)
                self.assertEqual(run.inspect().text.startswith("certified, but weak: "), bool(words))

    def test_states_that_are_none(self):
        state = minsep.StepGuard(self.run_).state_dict()
        for bad in {}, dict(state, more=1), dict(state, steps="00" * 16 * 21), dict(state, steps="00"), dict(state, steps="no"), dict(state, steps=3), dict(state, starts=[]), dict(state, starts={"0": [1, 2]}), dict(state, starts={"0" * 16: [2, 1]}):
            with self.assertRaises(ValueError):
                minsep.StepGuard(self.run_, bad)
        with self.assertRaisesRegex(minsep.TrainingError, "checkpoint belongs to run"):
            minsep.StepGuard(self.run_, dict(state, run_id="0" * 32))

    def test_noise_of_a_step_that_was_not_taken(self):
        guard = minsep.StepGuard(self.run_)
        noise = minsep.read_noise(self.run_, guard=guard)
        with self.assertRaisesRegex(minsep.TrainingError, "noise of step 0: the guard has not taken this step"):
            noise.step(0)
        for t in guard:
            np.testing.assert_array_equal(noise.step(t), self.run_.noise(t))  # nor is the refused step lost
            with self.assertRaisesRegex(minsep.TrainingError, "the guard has not taken" if t < 19 else "has steps 0 to 19"):
                noise.step(t + 1)

    def test_noise_of_another_run(self):
        """The record of that run would not tell that its noise was used."""
        guard = minsep.StepGuard(self.run_)
        other = minsep.Run(runs.make_noisy(self.folder / "other", 20, 33, runs.BANDED, ()))
        with self.assertRaisesRegex(ValueError, f"guard: belongs to the run in {self.path}, and the noise to another run, in {other.path}: give read_noise a guard of its own run"):
            minsep.read_noise(other, guard=guard)
        self.assertEqual(minsep.read_noise(minsep.Run(self.copied(self.path)), guard=guard).next_step, 0)

    def test_a_reader_needs_a_guard(self):
        with self.assertRaises(TypeError):
            minsep.read_noise(self.run_)
        with self.assertRaisesRegex(TypeError, r"guard 3: must be the training's StepGuard, and not int: guard = minsep.StepGuard\(run\)"):
            minsep.read_noise(self.run_, guard=3)

    def test_rows_that_nobody_looked_up(self):
        """As places in the user's data they would be other examples than those that were bounded."""
        ids = self.run_.example_ids(np.arange(self.run_.examples))
        state = None

        def warned(read, begin=lambda run: run):
            nonlocal state
            data = begin(minsep.Run(self.path))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                guard = minsep.StepGuard(data, state)
                for _ in range(4):
                    guard.take(guard.next_step)
                    read(data, guard.next_step - 1)
                state = guard.state_dict()
                guard.close()
            return [str(w.message) for w in caught if w.category is minsep.NotJoinedWarning]

        batch = lambda data, step: data.batch(step)  # noqa: E731
        (words,) = warned(batch)
        self.assertRegex(words, r"/own: its batches have been read as rows of the bounded table.*run\.join\(ids\)")
        self.assertEqual(warned(batch, lambda run: run.join(ids)), [])
        self.assertEqual(warned(lambda data, step: data.example_ids(data.batch(step))), [])

    def test_rows_that_are_example_ids(self):
        """Rows are the ids themselves where examples are only numbered, and where the table has 0, 1, … in order."""
        for path in self.formed("numbered"), self.numbered():
            with self.subTest(path), warnings.catch_warnings():
                warnings.simplefilter("error", minsep.NotJoinedWarning)
                run = minsep.Run(path)
                for step in minsep.StepGuard(run):
                    run.batch(step)

    def numbered(self):
        """A run whose example ids are 0, 1, … in the order of its table."""
        edges, out = self.folder / "numbered.csv", self.folder / "numbered"
        edges.write_text("example_id,owner_id\n" + "".join(f"{e},{e}\n" for e in range(100)))
        runs.minsep("bound", "--graph", edges, "--max-per-owner", 1, "--key", runs.key(), "--out", out, "--quiet")
        runs.minsep("form", "--bounded", out, "--scheme", "b-min-sep", "--steps", 20, "--min-sep", 3, "--batch-size", 6, "--key", runs.key(), "--out", out, "--quiet")
        ids = minsep.Run(out).example_ids(np.arange(100))
        self.assertEqual(ids.tolist(), list(range(100)))
        return out

    def test_two_readers_of_one_guard(self):
        guard = minsep.StepGuard(self.run_)
        first, second = (minsep.read_noise(self.run_, guard=guard) for _ in range(2))
        guard.take(0)
        first.step(0)
        with self.assertRaisesRegex(minsep.TrainingError, "noise of step 0: another reader with this guard has given it, and it must not hide a second sum"):
            second.step(0)
        guard.take(1)
        first.step(1)
        first.close()
        first = minsep.read_noise(self.run_, guard=guard)  # of the steps that come
        guard.take(2)
        first.step(2)

    def test_steps_without_noise(self):
        """A new reader does not go on behind them."""
        guard = minsep.StepGuard(self.run_)
        noise = minsep.read_noise(self.run_, guard=guard)
        guard.take(0)
        noise.step(0)
        state = guard.state_dict()
        for t in 1, 2, 3:
            guard.take(t)
        with self.assertRaisesRegex(minsep.TrainingError, "noise of step 3: the next step is 1.*is not private: discard it, and begin again from the last checkpoint before step 1$"):
            noise.step(3)
        for _ in range(2):
            with self.assertRaisesRegex(minsep.TrainingError, "steps 1 to 3 were taken, and no reader with this guard.*begin again from the last checkpoint before step 1:.*make another run"):
                minsep.read_noise(self.run_, guard=guard)
        for t in 1, 2, 3:
            noise.step(t)  # late, and in order
        self.assertEqual(minsep.read_noise(self.run_, guard=guard).next_step, 4)
        guard.close()
        guard = minsep.StepGuard(self.run_, state)
        self.assertEqual(minsep.read_noise(self.run_, guard=guard, key=runs.key()).next_step, 1)
        guard.take(1)
        with self.assertRaisesRegex(minsep.TrainingError, "noise: step 1 was taken, and no reader"):
            minsep.read_noise(self.run_, guard=guard)

    def test_a_part_of_the_noise_that_comes_late(self):
        guard = minsep.StepGuard(self.run_)
        parts = [minsep.read_noise(self.run_, guard=guard, shard=shard, shards=3) for shard in (0, 1)]
        guard.take(0)
        for part in parts:
            part.step(0)
        with self.assertRaisesRegex(minsep.TrainingError, "noise: step 0 was taken, and no reader"):
            minsep.read_noise(self.run_, guard=guard, shard=2, shards=3)
        self.assertEqual(minsep.read_noise(self.run_, guard=guard, shard=1, shards=3).next_step, 1)

    def test_another_tree_is_refused(self):
        guard = minsep.StepGuard(self.run_)
        noise = minsep.read_noise(self.run_, {"a": np.zeros(30), "b": np.zeros(3)}, guard=guard)
        guard.take(0)
        noise.step(0)
        state = guard.state_dict()
        guard.close()
        guard = minsep.StepGuard(self.run_, state)
        self.assertEqual(minsep.read_noise(self.run_, {"b": np.ones(3), "a": np.ones(30)}, guard=guard).next_step, 1)
        for like in {"a": np.zeros(3), "b": np.zeros(30)}, {"a": np.zeros(30), "c": np.zeros(3)}, np.zeros(33):
            with self.assertRaisesRegex(minsep.TrainingError, "keep its coordinates.*for another model"):
                minsep.read_noise(self.run_, like, guard=guard)

    def test_the_directory_stays_sound(self):
        minsep.StepGuard(self.run_).take(0)
        self.assertNotEqual(self.run_.inspect().state, "broken")
        self.assertEqual((self.path / "training.json").stat().st_mode & 0o777, 0o600)


class Once(runs.Case):
    """A row that a reader gave is added to one sum."""

    def adds_once(self, add, total):
        for options in {}, {"key": runs.key()}:
            run = minsep.Run(self.noisy())
            with runs.Reader(run, {"a": np.zeros(30), "b": np.zeros(3)}, steps=runs.recorded(run), **options) as noise:
                for t in range(20):
                    row = noise.step(t)
                    with self.assertRaises(ValueError):
                        add({"a": total(np.zeros(30)), "b": total(np.zeros(4))}, row, run.grid, 1)  # a refusal uses nothing up
                    sums = {"a": total(np.zeros(30)), "b": total(np.zeros(3))}
                    mean = add(sums, row, run.grid, 1)
                    self.assertEqual(np.asarray(mean["b"]).tolist(), run.noise(t)[30:].tolist())
                    with self.assertRaisesRegex(minsep.TrainingError, f"noise of step {t}: was added to a sum already.*then call add_noise once"):
                        add(sums, row, run.grid, 1)
                    del row
            flat = runs.Reader(run, **options)
            for t in range(20):  # the same array again, of another step
                row = flat.step(t)
                with self.assertRaisesRegex(minsep.TrainingError, f"noise of step {t}: was added"):
                    add([total(np.zeros(33))] * 2, [row, row], run.grid, 1)
                add(total(np.zeros(33)), row, run.grid, 1)
                with self.assertRaisesRegex(minsep.TrainingError, f"noise of step {t}: was added"):
                    add(total(np.zeros(33)), row, run.grid, 1)
                del row
            flat.close()
            own = np.array(run.noise(0))
            for _ in range(2):  # an array of the program's own, which it may fill anew
                add(total(np.zeros(33)), own, run.grid, 1)

    def test_numpy(self):
        self.adds_once(minsep.add_noise, np.asarray)

    @runs.needs("torch")
    def test_torch(self):
        import torch

        from minsep import torch as ours

        self.adds_once(ours.add_noise, torch.tensor)

    @runs.needs("jax")
    def test_jax(self):
        import jax

        from minsep import jax as ours

        self.adds_once(ours.add_noise, lambda x: jax.numpy.asarray(x, jax.numpy.int32))

    def test_the_divisor_of_another_run(self):
        run, other = minsep.Run(self.noisy()), minsep.Run(self.owned())
        with runs.Reader(run, key=runs.key()) as noise:
            row, total = noise.step(0), np.zeros(33)
            with self.assertRaisesRegex(minsep.TrainingError, f"noise of step 0: is of run {run.run_id}, and the divisor of run {other.run_id}: .*must be of one run"):
                minsep.add_noise(total, row, run.grid, other.expected_batch_size)
            minsep.add_noise(total, row, run.grid, minsep.Run(run.path).expected_batch_size)

    def test_rows_are_not_kept(self):
        from minsep import _rows

        gc.collect()
        before = len(_rows.given)
        noise = runs.Reader(minsep.Run(self.noisy()), {"a": np.zeros(33)}, key=runs.key())
        for t in range(10):
            row = noise.step(t)
            minsep.add_noise({"a": np.zeros(33)}, row, noise.noise._run.grid, 1)
        self.assertEqual(len(_rows.given), before + 1)
        self.assertLessEqual(len(noise.noise._stream._made), 3)
        kept = weakref.ref(row["a"])
        del row
        noise.close()
        self.assertIsNone(kept())
        self.assertEqual(len(_rows.given), before)
