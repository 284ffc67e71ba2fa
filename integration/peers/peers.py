"""A case of integration/peers for jax_privacy: prints the CPU seconds of a unit of work, and the error of the strategy that it made or 0.

The process has one core. Compilation and first calls are not counted.
"""

import json
import sys
import time

import numpy as np
from jax_privacy import batch_selection


def strategy(case):
    return batch_selection.BMinSepSampling(sampling_prob=case["prob"], iterations=case["steps"], min_sep=case["min_sep"])


def sample(case):
    """Monte Carlo samples of the privacy loss, a hundred at a time, which is faster than one by one."""
    from jax_privacy.experimental.monte_carlo import sample_generation

    rng = np.random.default_rng(1)
    column = np.array(case["column"])

    def work(units):
        for first in range(0, units, 100):
            sample_generation.get_privacy_loss_sample(
                strategy(case), case["noise_multiplier"], column, seed=rng, num_samples=min(100, units - first))

    return work


def form(case):
    """All batches of a run, in memory."""

    def work(units):
        for seed in range(units):
            for _ in strategy(case).batch_iterator(case["examples"], rng=seed):
                pass

    return work


def noise(case):
    """Rows of correlated noise, float32, by the privatizer, compiled."""
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import toeplitz

    column = jnp.array(case["column"], jnp.float32)
    matrix = toeplitz.inverse_as_streaming_matrix(column)
    privatizer = noise_addition.gaussian_privatizer(stddev=1.0, prng_key=1) if len(column) == 1 else noise_addition.matrix_factorization_privatizer(
        matrix, stddev=1.0, prng_key=1)
    zeros = jnp.zeros(case["coordinates"], jnp.float32)
    update = jax.jit(privatizer.update, donate_argnums=1)
    held = [privatizer.init(zeros)]

    def work(units):
        for _ in range(units):
            row, held[0] = update(zeros, held[0])
        jax.block_until_ready(row)

    return work


def optimize(case):
    """The best strategy of a kind for prefix sums; work returns its error times its sensitivity."""
    from jax_privacy.matrix_factorization import banded, dense, toeplitz

    n, size = case["steps"], case["size"]

    def work(units):
        for _ in range(units):
            if case["kind"] == "toeplitz":
                column = np.zeros(n)
                column[:size] = toeplitz.optimize_banded_toeplitz(n, size)
                c = np.zeros((n, n))
                for i in range(size):
                    c += np.diag(np.full(n - i, column[i]), -i)
            elif case["kind"] == "banded":
                c = np.array(banded.optimize(n, bands=size).materialize())
            else:
                c = np.array(dense.optimize(n, epochs=size))
        return c

    return work


def error_of(case, c):
    """The root mean square error of prefix sums times the sensitivity: for one participation, or for `size` of a dense strategy, evenly apart."""
    n = case["steps"]
    gram = np.abs(c.T @ c)
    apart = n // case["size"] if case["kind"] == "dense" else n
    sensitivity = np.sqrt(max(gram[first::apart, first::apart].sum() for first in range(apart)))
    return float(np.sqrt((np.linalg.solve(c.T, np.tri(n).T) ** 2).sum() / n) * sensitivity)


def compose(case):
    """The privacy loss distribution of DP-SGD, in both directions, and its epsilon."""
    from dp_accounting.pld import privacy_loss_distribution

    def work(units):
        for _ in range(units):
            one = privacy_loss_distribution.from_gaussian_mechanism(
                case["noise_multiplier"], sampling_prob=case["prob"], value_discretization_interval=1e-4, use_connect_dots=False)
            one.self_compose(case["steps"]).get_epsilon_for_delta(1e-5)

    return work


def main():
    case = json.loads(sys.argv[1])
    kinds = {"sample": sample, "form": form, "noise": noise, "toeplitz": optimize, "banded": optimize, "dense": optimize, "compose": compose}
    work = kinds[case["kind"]](case)
    if case["warm_up"]:
        work(case["warm_up"])
    begin = time.process_time()
    made = work(case["units"])
    seconds = (time.process_time() - begin) / case["units"]
    print(seconds, 0 if made is None else error_of(case, made))


main()
