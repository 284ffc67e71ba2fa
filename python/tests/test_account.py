"""The command's accountant and planner as functions."""

from __future__ import annotations

import json
import os

import minsep

from . import runs

POISSON = {"scheme": "poisson", "steps": 20, "examples": 1000, "batch_size": 20, "epsilon": 2, "delta": 1e-5}


class Account(runs.Case):
    def setUp(self):
        super().setUp()
        self.strategy = str(self.folder / "s.json")
        runs.minsep("strategy", "--kind", "identity", "--steps", 20, "--out", self.strategy)

    def test_is_what_the_command_says(self):
        out = str(self.folder / "run")
        got = minsep.account(strategy=self.strategy, out=out, **POISSON)
        certificate = json.loads((self.folder / "run" / "certificate.json").read_text())
        self.assertEqual((got.epsilon, got.delta, got.out), (2.0, 1e-5, out))
        self.assertEqual(got.noise_multiplier, certificate["noise_multiplier"])
        self.assertEqual(got.certificate["run"], certificate["run"])
        before = set(os.listdir(self.folder))
        self.assertEqual(minsep.account(strategy=self.strategy, **POISSON).noise_multiplier, got.noise_multiplier)
        self.assertEqual(set(os.listdir(self.folder)), before)

    def test_words_of_the_command(self):
        for change, words in ({"batch_size": 2000}, "--batch-size 2000"), ({"delta": 2}, "--delta 2"), ({"no_such": 1}, "unknown flag"), ({"strategy": "none.json"}, "none.json"):
            with self.assertRaisesRegex(minsep.UsageError, words) as caught:
                minsep.account(**{"strategy": self.strategy, **POISSON, **change})
            self.assertEqual(caught.exception.code, 2)
            self.assertNotIn("minsep: ", str(caught.exception))

    def test_what_is_not_proven_is_not_given(self):
        with self.assertRaises(minsep.NotCertifiedError):
            minsep.account(strategy=self.strategy, dry_run=True, **POISSON)

    def test_flags(self):
        from minsep._account import _arguments

        self.assertEqual(_arguments({"min_sep": 3, "dry_run": True, "pad": False, "unit": None, "kind": ["a", "b"]}), ["--min-sep=3", "--dry-run", "--kind=a", "--kind=b"])


class Plan(runs.Case):
    def test_is_what_the_command_says(self):
        flags = dict(examples=1000, steps=20, batch_size=20, epsilon=2, delta=1e-5, scheme=["poisson", "fixed"], kind="identity")
        got = minsep.plan(**flags)
        self.assertEqual([c.rank for c in got.candidates], list(range(1, len(got.candidates) + 1)))
        self.assertLessEqual({c.scheme for c in got.candidates}, {"poisson", "fixed"})
        self.assertEqual(got.candidates[0].row["noise"]["noise_multiplier"], got.candidates[0].noise_multiplier)
        with self.assertRaises(minsep.UsageError):
            minsep.plan(**dict(flags, epsilon=-1))


class Compose(runs.Case):
    def test_is_what_the_command_says(self):
        strategy, out = str(self.folder / "s.json"), self.folder / "run"
        runs.minsep("strategy", "--kind", "identity", "--steps", 20, "--out", strategy)
        minsep.account(strategy=strategy, out=str(out), **POISSON)
        one = minsep.compose(out, delta=1e-5)
        self.assertEqual((one.trainings, one.delta), (1, 1e-5))
        self.assertAlmostEqual(one.epsilon, 2, places=2)
        four = minsep.compose(out, delta=1e-4, times=4)
        self.assertEqual((four.trainings, four.result["runs"][0]["times"]), (4, 4))
        self.assertTrue(one.epsilon < four.epsilon < 8, four.epsilon)
        self.assertEqual(minsep.compose(out, delta=1e-4, times=[4]).epsilon, four.epsilon)
        self.assertLessEqual(minsep.compose(out, epsilon=four.epsilon, times=4).delta, 1.001e-4)
        for flags, words in ({"delta": 1e-5, "epsilon": 1.0}, "exactly one"), ({"delta": 1e-5, "times": [1, 2]}, "one for each"):
            with self.assertRaisesRegex(minsep.UsageError, words):
                minsep.compose(out, **flags)
        with self.assertRaises(minsep.UsageError):
            minsep.compose(out, out, delta=1e-3)
