"""Pools of rotation, and batches of them."""

import unittest

import numpy as np

import minsep

from . import runs


class Rotation(runs.Case):
    """Each period has the batches of one pool."""

    def test_pools(self) -> None:
        """Rows of pools are disjoint in their owners' examples, and batches of a period are those of its pool, each once."""
        out, edges = self.folder / "run", self.folder / "edges.tsv"
        edges.write_text("example_id\towner_id\n" + "".join(f"{e}\t{e % 9}\n" for e in range(40)) + "7\t3\n")
        runs.minsep("bound", "--graph", edges, "--pools", 3, "--key", runs.key(), "--out", out, "--quiet")
        runs.minsep("form", "--bounded", out, "--scheme", "rotation", "--steps", 20, "--epoch-steps", 5, "--key", runs.key(), "--out", out, "--quiet")
        run = minsep.Run(out)
        pools = run.pools()
        self.assertEqual(len(pools), 3)
        self.assertEqual(len({len(p) for p in pools}), 1)
        for pool in pools:
            owners = [int(i) % 9 for i in run.example_ids(pool)]
            self.assertEqual(len(owners), len(set(owners)))
        for period in range(4):
            rows = np.sort(np.concatenate([run.batch(step) for step in range(5 * period, 5 * period + 5)]))
            np.testing.assert_array_equal(rows, pools[period % 3])

    def test_without_pools(self) -> None:
        """Other tables have none."""
        self.assertEqual(minsep.Run(self.formed()).pools(), [])
