"""Bound a graph by a sequential pass with NumPy and numba: a yardstick for minsep bound.

    python pass.py GRAPH.parquet K OUT.parquet

GRAPH has integer columns example_id and owner_id. As minsep does, it merges equal edges, takes the
examples with the fewest owners first and equal ones at random, keeps at most K of an owner, and
writes the kept ones with their owners. It counts no neighbourhoods. It needs numpy, numba and
pyarrow, and prints what it kept and its processor time with that of reading and writing.
"""

import resource
import sys

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@numba.njit(cache=True)
def greedy(order, starts, owners, room, kept):
    for x in order:
        fits = True
        for j in range(starts[x], starts[x + 1]):
            if room[owners[j]] == 0:
                fits = False
                break
        if fits:
            for j in range(starts[x], starts[x + 1]):
                room[owners[j]] -= 1
            kept[x] = True


def main(graph, k, out):
    edges = pq.read_table(graph)
    examples, of = np.unique(edges["example_id"].to_numpy(), return_inverse=True)
    owners, by = np.unique(edges["owner_id"].to_numpy(), return_inverse=True)
    pairs = np.sort(of * np.int64(len(owners)) + by)
    pairs = pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])]
    of, by = pairs // len(owners), (pairs % len(owners)).astype(np.int32)
    starts = np.searchsorted(of, np.arange(len(examples) + 1))
    priority = np.random.default_rng(0).integers(0, 2**63, len(examples))
    order = np.lexsort((priority, np.diff(starts)))
    kept = np.zeros(len(examples), bool)
    greedy(order, starts, by, np.full(len(owners), k, np.int32), kept)

    rows = np.flatnonzero(kept)
    lengths = np.diff(starts)[rows]
    ends = np.cumsum(lengths)
    at = np.repeat(starts[rows] - (ends - lengths), lengths) + np.arange(lengths.sum())
    lists = pa.ListArray.from_arrays(np.concatenate([[0], ends]).astype(np.int32), owners[by[at]])
    table = pa.table({"row": np.arange(len(rows)), "example_id": examples[rows], "owners": lists})
    pq.write_table(table, out, compression="zstd")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"kept {len(rows)}, {used.ru_utime + used.ru_stime:.1f} CPU-s, {used.ru_maxrss / 2**20:.2f} GiB")


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
