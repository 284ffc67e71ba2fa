"""The articles of the demo's graph with the genes that they are about, and a logistic regression that tells when they appeared.

An article is an example, and its genes are its owners: a third of the articles have several. The graph has no texts, so an article's
features are what the graph says of its genes. Its label is whether it is in the later half of all: numbers of articles grow with time.
"""

from __future__ import annotations

import functools
import gzip
import pathlib
from typing import Any, NamedTuple

import numpy as np

STEPS = 1000  # of a training
EVERY = 100  # steps between two points of a loss curve
GRAPH = pathlib.Path(__file__).parents[1] / "testdata" / "gene2pubmed.tsv.gz"
SIZES = 2, 3, 4, 10, 100  # the least number of genes in each class of articles but the first
DEGREES, NUMBERS = 15, 64  # classes of genes: by the binary logarithm of their articles, and by the order of their numbers
COORDINATES = len(SIZES) + 1 + DEGREES + NUMBERS


class Articles(NamedTuple):
    """Articles in the order of their numbers, with features of norm at most 1; a tenth of them are for tests."""

    ids: np.ndarray  # int64 [n]
    x: np.ndarray  # float32 [n, COORDINATES]
    y: np.ndarray  # float32 [n], 0 or 1
    test: np.ndarray  # bool [n]
    edges: np.ndarray  # int64 [edges, 2]: article and gene, of the articles that are not for tests


@functools.cache
def load() -> Articles:
    """All articles; which are for tests follows from a fixed seed."""
    with gzip.open(GRAPH) as file:
        file.readline()
        edges = np.fromstring(file.read(), np.int64, sep=" ").reshape(-1, 2)
    ids, article = np.unique(edges[:, 0], return_inverse=True)
    genes, gene = np.unique(edges[:, 1], return_inverse=True)
    size, degree = np.bincount(article), np.bincount(gene)
    x = np.zeros((len(ids), COORDINATES), np.float32)
    x[np.arange(len(ids)), np.digitize(size, SIZES)] = 1
    of_degree = len(SIZES) + 1 + np.log2(degree).astype(np.int64)
    of_number = COORDINATES - NUMBERS + np.arange(len(genes)) * NUMBERS // len(genes)
    for column in (of_degree, of_number):  # the mean over an article's genes
        np.add.at(x, (article, column[gene]), (1 / size[article]).astype(np.float32))
    test = np.random.default_rng(0).random(len(ids)) < 0.1
    return Articles(ids, x / np.float32(np.sqrt(3)), (ids > np.median(ids)).astype(np.float32), test, edges[~test[article]])


def initial(seed: int) -> dict[str, np.ndarray]:
    """The model's 85 parameters: zero, whatever the seed."""
    return {"w": np.zeros(COORDINATES, np.float32)}


def evaluate(params: dict[str, Any]) -> tuple[float, float]:
    """Mean loss, in nats, and accuracy on the articles for tests."""
    data = load()
    margin = (data.x[data.test] @ np.asarray(params["w"])).astype(np.float64) * (2 * data.y[data.test] - 1)
    return float(np.logaddexp(0, -margin).mean()), float((margin > 0).mean())


def without_privacy() -> tuple[float, float]:
    """Loss and accuracy of a fit to all articles that are not for tests: the best that there is to learn."""
    from sklearn.linear_model import LogisticRegression

    data = load()
    fit = LogisticRegression(C=1, fit_intercept=False, max_iter=300).fit(data.x[~data.test], data.y[~data.test])
    return evaluate({"w": fit.coef_[0]})


if __name__ == "__main__":
    print("without privacy, on all articles that are not for tests: loss {:.3f}, accuracy {:.3f}".format(*without_privacy()))
