"""Trainings of one model on meshes of CPU devices: mesh.py CASES, JSON of a list of `train`'s arguments."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import minsep
import minsep.jax as dp
from tests import frozen


def loss(params, x, y, rng):
    hidden = jnp.tanh(x @ params["w"] + params["b"]) * jax.random.bernoulli(rng, 0.8, (8,))
    return -jax.nn.log_softmax(hidden @ params["v"] * params["scale"])[y]


def params_on(mesh):
    rng = np.random.default_rng(3)
    params = {"w": rng.normal(size=(8, 8)), "b": np.zeros(8), "v": rng.normal(size=(8, 8)), "scale": np.array(1.5)}
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params)
    if mesh is None:
        return params
    first, last = mesh.axis_names[0], mesh.axis_names[-1]
    both = PartitionSpec(first, last if last != first else None)
    specs = {"w": both, "b": PartitionSpec(last), "v": both}  # and scale on one device
    return {name: jax.device_put(x, NamedSharding(mesh, specs[name])) if name in specs else x for name, x in params.items()}


def train(run, shape=None, kill=None, kind="Mesh", checkpoint="state.npz", **options):
    """Trains to the end, or saves no step from kill on and dies three steps later. Prints what was found."""
    mesh = None
    if shape is not None:
        names = "abc"[: len(shape)]
        mesh = Mesh(np.array(jax.devices()[: np.prod(shape)]).reshape(shape), tuple(names)) if kind == "Mesh" else jax.make_mesh(tuple(shape), tuple(names))
    training = dp.private(loss, optax.adam(0.05), minsep.Run(run), rng=True, **{"microbatch": 3, **options})
    rng = np.random.default_rng(2)
    data = 3 * rng.normal(size=(100, 8)).astype(np.float32), rng.integers(0, 4, 100)
    path = os.path.join(run, checkpoint)
    given = params_on(mesh)
    state = training.load(path, given)
    for batch in training.batches(*data):
        state = training.step(state, *batch)
        if kill is None or state.step <= kill:
            training.save(path, state)
        elif state.step == kill + 3:
            os._exit(7)
    leaves = jax.tree_util.tree_leaves(state[1:])
    digest = hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves)).hexdigest()
    parts = {name: [x.addressable_shards[0].data.size, x.size] for name, x in state.params.items()}
    moments = {name: x.addressable_shards[0].data.size for name, x in state.optimizer[0].mu.items()}
    print(json.dumps({"weights": digest, "steps": state.step, "parts": parts, "moments": moments}), flush=True)
    training.close()


def one_more():
    """A row more or less moves the sum of a mesh by its own part."""
    from minsep import _mesh
    from minsep._tree import ExamplesClipNorm
    from tests.test_clip import OneMore

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
    params = jax.device_put(jnp.zeros(8), NamedSharding(mesh, PartitionSpec("a")))

    def compiled(microbatch):
        sums = dp.clipped_sum(lambda params, x: params @ x, ExamplesClipNorm(1.0), OneMore.GRID, microbatch)
        return jax.jit(lambda params, rows, x: _mesh.total(sums, mesh, params, rows, (x,)))

    functions = {microbatch: compiled(microbatch) for microbatch in (1, 2)}

    def total(x, rows, owners, microbatch):
        filled = np.zeros((16, 8), np.float32)  # whole microbatches on each device, and a coordinate that is 0
        filled[: len(x), :7] = x
        return np.asarray(functions[microbatch](params, minsep.pad(rows, 16), filled))[:7]

    OneMore().check(total, False, range(2), (1, 2))
    print(json.dumps({"one": "more"}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    frozen.freeze()
    for case in json.loads(sys.argv[1]):
        try:
            train(**case) if case else one_more()
        except Exception as err:
            print(json.dumps({"error": f"{type(err).__name__}: {err}"}), flush=True)
