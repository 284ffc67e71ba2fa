"""Read a run directory with NumPy and pyarrow alone and check what it promises.

Usage: check_run.py RUN

Prints one line and exits with 0 if the files are what their indices say, batches are in order and b-min-sep holds
for every example.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np
import pyarrow.parquet as pq


def index(folder):
    ix = json.loads((folder / "index.json").read_text())
    for f in ix["files"]:
        data = (folder / f["name"]).read_bytes()
        assert len(data) == f["bytes"], f["name"]
        assert hashlib.sha256(data).hexdigest() == f["sha256"], f["name"]
    return ix


def batches(folder, ix):
    shards = ix["facts"]["shards"]
    for s in range(shards):
        indptr = np.load(folder / f"indptr-{s:05d}-of-{shards:05d}.npy", mmap_mode="r")
        rows = np.load(folder / f"rows-{s:05d}-of-{shards:05d}.npy", mmap_mode="r")
        assert indptr[0] == 0 and indptr[-1] == len(rows)
        for t in range(len(indptr) - 1):
            yield rows[indptr[t] : indptr[t + 1]]


def main(run):
    bounded, folder = run / "bounded", run / "batches"
    table = pq.read_table([bounded / f["name"] for f in index(bounded)["files"]])
    ids = table["example_id"].to_pylist()
    assert table["row"].to_pylist() == list(range(len(ids)))
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert all(len(o) > 0 for o in table["owners"].to_pylist())

    ix = index(folder)
    ((_, scheme),) = ((k, v) for k, v in ix["params"]["scheme"].items() if k != "truncation")
    b = scheme["min_sep"]
    assert 0 < ix["facts"]["expected_batch_size"] < ix["facts"]["examples"]
    last = np.full(ix["facts"]["examples"], -b, dtype=np.int64)
    steps = 0
    for t, rows in enumerate(batches(folder, ix)):
        rows = np.asarray(rows)
        assert np.all(np.diff(rows) > 0)
        assert np.all(t - last[rows] >= b), f"step {t}"
        last[rows] = t
        steps += 1
    assert steps == scheme["steps"]
    print(f"{steps} batches of {len(ids)} examples hold")


main(pathlib.Path(sys.argv[1]))
