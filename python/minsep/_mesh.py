"""Parameters on several devices of one process, and sums of gradients that each device makes a part
of, with the bits of one device."""

from __future__ import annotations

from typing import Any, Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def mesh_of(params: Any) -> Mesh | None:
    """The mesh over which parameters are divided; None where they are on one device. Its axes are
    for the compiler to use, whatever they were."""
    found: dict[Mesh, str] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None or sharding.num_devices == 1:
            continue
        if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
            raise ValueError(f"params: {jax.tree_util.keystr(path)} is on {sharding.num_devices} devices by a {type(sharding).__name__}: must be put there by a NamedSharding, as jax.device_put(x, NamedSharding(mesh, spec)) does")
        found.setdefault(Mesh(sharding.mesh.devices, sharding.mesh.axis_names), jax.tree_util.keystr(path))
    if len(found) > 1:
        raise ValueError(f"params: {' and '.join([*found.values()][:2])} are on different meshes: put all on one")
    return next(iter(found), None)


def put(tree: Any, mesh: Mesh | None) -> Any:
    """A tree whose arrays are on a mesh, as they are or, where they are not yet, whole on each
    device."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, x.sharding.spec if isinstance(x.sharding, NamedSharding) else PartitionSpec())), tree)


def kept(tree: Any, shardings: Any) -> Any:
    """In jax.jit, a tree whose arrays are where those before were."""
    return tree if shardings is None else jax.lax.with_sharding_constraint(tree, shardings)


def total(sums: Callable[..., Any], mesh: Mesh, params: Any, rows: Any, batch: Any) -> Any:
    """The sum that sums(params, rows, *batch) gives in whole numbers, of examples that are divided
    over the devices of a mesh: each gathers the parameters, and computes whole microbatches as one
    device would."""
    axes, whole = tuple(mesh.axis_names), PartitionSpec()

    def part(params: Any, rows: Any, batch: Any) -> Any:
        return jax.tree.map(lambda x: jax.lax.psum(x, axes), sums(params, rows, *batch))

    spread = PartitionSpec(axes)
    return _shard_map(part, mesh, (whole, spread, spread), whole)(params, rows, batch)


def _shard_map(f: Callable[..., Any], mesh: Mesh, given: Any, gives: Any) -> Callable[..., Any]:
    if hasattr(jax, "shard_map"):
        return jax.shard_map(f, mesh=mesh, in_specs=given, out_specs=gives, check_vma=False)  # type: ignore[no-any-return, unused-ignore]
    from jax.experimental.shard_map import shard_map

    return shard_map(f, mesh=mesh, in_specs=given, out_specs=gives, check_rep=False)  # type: ignore[no-any-return, unused-ignore]


def sizes_for(sizes: Any, microbatch: int, mesh: Mesh) -> Any:
    """Sizes of batches that are whole microbatches on each device: those given, rounded up."""
    step = microbatch * mesh.size
    if isinstance(sizes, (int, np.integer)):
        return -(-int(sizes) // step) * step
    return sorted({-(-int(n) // step) * step for n in sizes})
