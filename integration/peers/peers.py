"""A case of integration/peers for jax_privacy: prints the CPU seconds of a unit of work, JSON of one number.

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


def main():
    case = json.loads(sys.argv[1])
    work = {"sample": sample, "form": form, "noise": noise}[case["kind"]](case)
    if case["kind"] != "form":
        work(case["warm_up"])
    begin = time.process_time()
    work(case["units"])
    print((time.process_time() - begin) / case["units"])


main()
