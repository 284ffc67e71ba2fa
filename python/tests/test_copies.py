"""Run directories that are copies, or were moved: which of them may begin a training."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import unittest
import warnings
from unittest import mock

import minsep

from . import runs


class Copies(runs.Case):
    def setUp(self):
        super().setUp()
        self.path = self.own_noisy()
        self.copy = self.folder / "copy"

    def refused(self, path, words, **more):
        with self.assertRaisesRegex(minsep.TrainingError, words):
            minsep.StepGuard(minsep.Run(path), **more)

    def taken(self, path, state=None, **more):
        """The state after one more step."""
        guard = minsep.StepGuard(minsep.Run(path), state, **more)
        guard.take(guard.next_step)
        guard.close()
        return guard.state_dict()

    def test_a_copy_beside_the_original(self):
        shutil.copytree(self.path, self.copy)
        self.refused(self.copy, f"is a copy of {self.path}: both have the same batches .*Train in the original; or .*minsep run --again --out {self.copy} PLAN.json`; or.*folder='{self.path}'")
        self.assertFalse((self.copy / "training.json").exists())
        self.assertEqual(minsep.Run(self.copy).verdict().copy_of, str(self.path))
        self.assertIsNone(minsep.Run(self.path).verdict().copy_of)
        state = self.taken(self.path)
        self.refused(self.copy, "is a copy of")
        self.refused(self.copy, "is a copy of", state=state)
        shutil.copytree(self.path, self.folder / "later")
        self.refused(self.folder / "later", "is a copy of", state=state)
        self.taken(self.path, state)

    def test_a_copy_that_is_opened(self):
        shutil.copytree(self.path, self.copy)
        warnings.simplefilter("always", minsep.CopyWarning)
        with self.assertWarnsRegex(minsep.CopyWarning, f"^{self.copy}: is a copy of {self.path}, with the same batches and the same noise: train in one of the two only") as caught:
            minsep.Run(self.copy)
        self.assertEqual(caught.filename, __file__)
        warnings.simplefilter("error", minsep.CopyWarning)
        minsep.Run(self.path)
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder / "other")):
            minsep.Run(self.copy)
        with mock.patch.dict(os.environ, XDG_STATE_HOME="relative"):
            minsep.Run(self.copy)
        shutil.rmtree(self.path)
        minsep.Run(self.copy)  # it was moved

    def test_a_record_that_somebody_emptied(self):
        """What the record told, that a directory is a copy, is not known any more, and somebody is told."""
        shutil.copytree(self.path, self.copy)
        (record,) = (runs.ROOT / "state" / "minsep" / "runs").glob(f"*/{minsep.Run(self.path).run_id}.json")
        for text in "", "{}", '{"directory": ':
            record.write_text(text)
            warnings.simplefilter("always", minsep.CopyWarning)
            with self.subTest(text), self.assertWarnsRegex(minsep.CopyWarning, f"^{record}: was changed, cut or emptied, so that nothing shows whether {self.copy} is a copy") as caught:
                minsep.Run(self.copy)
            self.assertEqual(caught.filename, __file__)
            warnings.simplefilter("ignore", minsep.CopyWarning)
            self.assertEqual(minsep.Run(self.copy).verdict().damaged_records, (str(record),))

    def test_a_copy_whose_original_went_on_with_the_next_run(self):
        shutil.copytree(self.path, self.copy)
        self.taken(self.path)
        text = (self.path / "run.json").read_text()
        (self.path / "run.json").write_text(text.replace(f'"run_id": "{minsep.Run(self.copy).run_id}"', f'"run_id": "{"0" * 32}", "earlier_run_ids": ["{minsep.Run(self.copy).run_id}"]'))
        self.refused(self.copy, "is a copy of")

    def test_a_copy_that_is_read_in_place_of_the_original(self):
        shutil.copytree(self.path, self.copy)
        state = self.taken(self.copy, folder=self.path)
        self.assertFalse((self.copy / "training.json").exists())
        self.refused(self.path, "serves a training already")
        self.taken(self.copy, state, folder=self.path)

    def test_a_directory_that_was_moved(self):
        os.rename(self.path, self.copy)
        state = self.taken(self.copy)
        shutil.move(self.copy, self.path)
        self.refused(self.path, "serves a training already")
        self.taken(self.path, state)

    def test_a_stream_of_a_directory_that_was_moved(self):
        os.rename(self.path, self.copy)
        for words in "minsep: warning: .*counts as moved here", "^minsep: warning: .*its noise was streamed before":  # what the command says is no fault, and is shown once
            with contextlib.redirect_stderr(io.StringIO()) as said:
                with minsep.read_noise(minsep.Run(self.copy), key=str(runs.key())) as noise:
                    for t in range(20):
                        noise.step(t)
            self.assertRegex(said.getvalue(), words)
            self.assertEqual(said.getvalue().count("counts as moved"), words.count("counts as moved"))

    def test_a_copy_whose_original_is_gone_begins_no_second_training(self):
        shutil.copytree(self.path, self.copy)
        state = self.taken(self.path)
        shutil.rmtree(self.path)
        self.refused(self.copy, "serves a training already.*trainings")
        self.assertEqual(self.taken(self.copy, state)["next_step"], 2)  # the training goes on there

    def test_the_same_directory_by_another_path(self):
        link = self.folder / "link"
        link.symlink_to(self.path)
        state = self.taken(link)
        self.taken(f"{self.folder}/../{self.folder.name}/own", state)

    def test_a_machine_without_records(self):
        shutil.copytree(self.path, self.copy)
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder / "other")):
            state = self.taken(self.copy)
            self.refused(self.copy, "serves a training already")
            shutil.copytree(self.path, self.folder / "third")  # without training.json
            self.refused(self.folder / "third", "serves a training already")
            self.taken(self.copy, state)

    def test_records_that_are_none_say_nothing(self):
        shutil.copytree(self.path, self.copy)
        run = minsep.Run(self.path)
        state = self.folder / "state"
        (state / "minsep" / "runs" / "k").mkdir(parents=True)
        record = state / "minsep" / "runs" / "k" / f"{run.run_id}.json"
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(state)):
            for text in ("{", "[]", '{"directory": 3, "params_sha256": "x"}', f'{{"directory": "{self.path}", "params_sha256": "{"0" * 64}"}}',
                         f'{{"directory": "gs://bucket/run", "params_sha256": "{run._noise.params_digest}"}}'):  # fmt: skip
                record.write_text(text)
                minsep.StepGuard(minsep.Run(self.copy)).close()
            record.write_text(f'{{"directory": "{self.path}", "params_sha256": "{run._noise.params_digest}"}}')
            self.refused(self.copy, "is a copy of")
            (self.path / "run.json").write_text("{")  # it cannot be known what is there
            self.refused(self.copy, "is a copy of")
            (self.path / "run.json").unlink()
            minsep.StepGuard(minsep.Run(self.copy)).close()

    def test_no_folder_for_records(self):
        (self.folder / "file").write_text("")
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder / "file")):
            with self.assertWarnsRegex(UserWarning, "no record of the training can be kept there .*set XDG_STATE_HOME"):
                guard = minsep.StepGuard(minsep.Run(self.path))
            guard.take(0)
            guard.close()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.refused(self.path, "serves a training already")

    def test_the_record_is_secret_and_of_one_process(self):
        run = minsep.Run(self.path)
        guard = minsep.StepGuard(run)
        record = runs.ROOT / "state" / "minsep" / "trainings" / f"{run.run_id}.json"
        self.assertEqual(record.stat().st_mode & 0o777, 0o600)
        self.assertEqual(record.parent.stat().st_mode & 0o777, 0o700)
        other = self.folder / "elsewhere"
        other.mkdir()
        program = f"import minsep\nminsep.StepGuard(minsep.Run({str(self.path)!r}), folder={str(other)!r})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertIn("another process of this training holds it", done.stderr)
        guard.close()


if __name__ == "__main__":
    unittest.main()
