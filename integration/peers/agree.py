"""Answers to the questions of integration/peers/agree.go by jax_privacy and dp_accounting: lists of numbers."""

import itertools
import json
import sys

import dp_accounting
import numpy as np
from absl import logging
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from jax_privacy import batch_selection
from jax_privacy.experimental.monte_carlo import sample_generation
from jax_privacy.matrix_factorization import banded, buffered_toeplitz, dense, sensitivity, toeplitz

GRID = 1e-3
logging.set_verbosity(logging.ERROR)  # orders of Rényi divergences that are left out


def both(make, steps, delta):
    """Epsilon by a distribution that is dominated, and by one that dominates."""
    return [float(make(pessimistic).self_compose(steps).get_epsilon_for_delta(delta)) for pessimistic in (False, True)]


def poisson(q, steps):
    def make(pessimistic):
        return pld.from_gaussian_mechanism(q["sigma"], sampling_prob=q["prob"], pessimistic_estimate=pessimistic, value_discretization_interval=GRID, use_connect_dots=pessimistic)

    event = dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(q["prob"], dp_accounting.GaussianDpEvent(q["sigma"])), steps)
    return both(make, steps, q["delta"]) + [float(RdpAccountant().compose(event).get_epsilon(q["delta"]))]


def owner(q):
    k = q["examples"]
    weights = [float(np.exp(np.sum(np.log(np.arange(k - j + 1, k + 1))) - np.sum(np.log(np.arange(1, j + 1))))) * q["prob"] ** j * (1 - q["prob"]) ** (k - j) for j in range(k + 1)]
    weights = list(np.array(weights) / sum(weights))

    def make(pessimistic):
        return pld.from_mixture_gaussian_mechanism(
            q["sigma"], list(range(k + 1)), weights, pessimistic_estimate=pessimistic, value_discretization_interval=GRID, use_connect_dots=pessimistic)

    return both(make, q["steps"], q["delta"])


def cut(q):
    one = pld.from_truncated_subsampled_gaussian_mechanism(
        q["examples"], q["prob"], q["max"], q["sigma"], value_discretization_interval=GRID, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    return [0.0, float(one.self_compose(q["steps"]).get_epsilon_for_delta(q["delta"]))]


def loss(q):
    n, b = q["steps"], q["min_sep"]
    strategy = {
        "b-min-sep": lambda: batch_selection.BMinSepSampling(sampling_prob=q["prob"], iterations=n, min_sep=b, warm_start=q.get("warm", False)),
        "balls-in-bins": lambda: batch_selection.BallsInBinsSampling(iterations=n, cycle_length=b),
        "secret-parts": lambda: batch_selection.CyclicPoissonSampling(
            sampling_prob=q["prob"], iterations=n, cycle_length=b, partition_type=batch_selection.PartitionType.INDEPENDENT),
    }[q["kind"]]()
    found = sample_generation.compute_privacy_loss(strategy, np.array(q["y"])[:, None], q["sigma"], np.array(q["column"]))
    # With three bands and more, the peer has the norms of the last columns of C in reverse order.
    return [float(np.ravel(found)[0])] + ([enumerated(q)] if len(q["column"]) > 2 and q["kind"] == "b-min-sep" else [])


def enumerated(q):
    """The privacy loss of an output of b-min-sep, over all participations."""
    n, b, p, c = q["steps"], q["min_sep"], q["prob"], q["column"]
    matrix = sum(np.diag(np.full(n - i, c[i]), -i) for i in range(min(n, len(c))))
    y = np.array(q["y"])

    def ratio(t, probability, mean):
        if t >= n:
            return probability * np.exp((y @ mean - mean @ mean / 2) / q["sigma"] ** 2)
        return ratio(t + 1, probability * (1 - p), mean) + ratio(t + b, probability * p, mean + matrix[:, t])

    warm = 1 + (b - 1) * p
    if not q.get("warm"):
        return float(np.log(ratio(0, 1.0, np.zeros(n))))
    total = ratio(0, 1 / warm, np.zeros(n)) + sum(ratio(first, p / warm, np.zeros(n)) for first in range(1, b))
    return float(np.log(total))


def truth(c, q):
    """The largest norm of a sum of columns with signs over all participations, or 0 where they are too many."""
    n, most = len(c), q.get("max") or len(c)
    if n > 8:
        return 0.0
    gram, best = c.T @ c, 0.0
    phases = q["kind"] == "sensitivity-phases"
    for chosen in itertools.product((0, 1), repeat=n):
        at = np.flatnonzero(chosen)
        apart = np.diff(at)
        if len(at) == 0 or not phases and (len(at) > most or (apart < q["min_sep"]).any()) or phases and (apart != q["min_sep"]).any():
            continue
        g = gram[np.ix_(at, at)]
        best = max(best, max(float(np.array(s) @ g @ np.array(s)) for s in itertools.product((-1, 1), repeat=len(at))))
    return best**0.5


def sensitive(q):
    n, most = q["steps"], q.get("max") or None
    if q["kind"] == "sensitivity-toeplitz":
        c = np.array(toeplitz.materialize_lower_triangular(np.array(q["column"]), n))
        found = toeplitz.minsep_sensitivity_squared(np.array(q["column"]), q["min_sep"], n=n, max_participations=most) ** 0.5
        return [float(found), truth(c, q)]
    c = np.array(q["matrix"])
    if q["kind"] == "sensitivity-banded":
        found = sensitivity.get_sensitivity_banded(c, q["min_sep"], most)
    elif q["kind"] == "sensitivity-any":
        found = sensitivity.get_min_sep_sensitivity_upper_bound(c, q["min_sep"], most)
    else:
        found = sensitivity.fixed_epoch_sensitivity(c, q["size"])
    return [float(found), truth(c, q)]


def best(q):
    import jax.numpy as jnp

    n, size, reduce = q["steps"], q["size"], jnp.max if q["error"] == "max" else jnp.mean
    if q["kind"] == "best-banded-toeplitz":
        return [float(x) for x in toeplitz.optimize_banded_toeplitz(n, size, reduction_fn=reduce)]
    if q["kind"] == "best-band-inv":
        return [float(x) for x in toeplitz.optimize_banded_inverse_toeplitz(n, q["min_sep"], size, max_participations=q.get("max") or None, reduction_fn=reduce)]
    if q["kind"] == "best-blt":
        blt = buffered_toeplitz.optimize(n=n, min_sep=q["min_sep"], max_participations=q["max"], error=q["error"], min_buffers=size, max_buffers=size)
        return [float(x) for x in blt.output_scale] + [float(x) for x in blt.buf_decay]
    if q["kind"] == "best-banded":
        c = np.array(banded.optimize(n, bands=size).materialize())
    else:
        c = np.array(dense.optimize(n, epochs=size))
    return [float(c[i, j]) for j in range(n) for i in range(j, n)]


def answer(q):
    kind = q["kind"]
    if kind == "poisson":
        return poisson(q, q["steps"])
    if kind == "cyclic":
        return poisson(q, -(-q["steps"] // q["min_sep"]))
    if kind == "owner":
        return owner(q)
    if kind == "cut":
        return cut(q)
    if kind.startswith("sensitivity-"):
        return sensitive(q)
    return best(q) if kind.startswith("best-") else loss(q)


print(json.dumps([answer(q) for q in json.load(sys.stdin)]))
