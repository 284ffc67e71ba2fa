"""Parameter trees: dicts, lists and tuples of arrays, or any other tree of JAX."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from typing import Any, Callable, Mapping, Sequence, TypeVar

from numpy.typing import NDArray

from ._arguments import is_number, shown


def flatten(tree: Any, name: str = "tree") -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]:
    """The leaves of a tree, each with its path, and a function that puts other leaves in their
    places. name is the name of the tree in messages.

    The keys of a dict are sorted, as JAX does, so that the order of insertion does not matter.
    """
    if hasattr(tree, "shape"):
        return [("", tree)], lambda leaves: leaves[0]
    if isinstance(tree, Mapping) and type(tree).__module__ in ("builtins", "collections"):
        keys = sorted(tree)
        parts = [(f"/{k}", flatten(tree[k], name)) for k in keys]
        return _joined(parts, lambda values: dict(zip(keys, values)))
    if isinstance(tree, (list, tuple)):
        kind: Any = type(tree)
        make = (lambda values: kind(*values)) if hasattr(tree, "_fields") else kind
        return _joined([(f"/{i}", flatten(v, name)) for i, v in enumerate(tree)], make)
    jax = sys.modules.get("jax")
    if jax is not None:
        found, structure = jax.tree_util.tree_flatten_with_path(tree)
        if all(hasattr(leaf, "shape") for _, leaf in found) and found:
            return [(jax.tree_util.keystr(path), leaf) for path, leaf in found], lambda leaves: jax.tree_util.tree_unflatten(structure, leaves)
    hint = ": its step(t) gives the noise of a step" if hasattr(tree, "next_step") else ""
    raise ValueError(f"{name}: {type(tree).__name__} is neither an array nor a dict, list or tuple of arrays{hint}")


def _joined(parts: list[tuple[str, Any]], make: Callable[[list[Any]], Any]) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]:
    leaves = [(name + path, leaf) for name, (inside, _) in parts for path, leaf in inside]
    sizes = [len(inside) for _, (inside, _) in parts]

    def build(values: list[Any]) -> Any:
        at, built = 0, []
        for size, (_, (_, inner)) in zip(sizes, parts):
            built.append(inner(values[at : at + size]))
            at += size
        return make(built)

    return leaves, build


class Layout:
    """The places of the coordinates of a flat array in a tree: leaf after leaf, each in C order."""

    def __init__(self, like: Any) -> None:
        leaves, self._build = flatten(like, "like")
        self.shapes = [tuple(int(n) for n in leaf.shape) for _, leaf in leaves]
        self.size = sum(math.prod(shape) for shape in self.shapes)
        names = [[path, list(shape)] for (path, _), shape in zip(leaves, self.shapes)]
        self.digest = hashlib.sha256(json.dumps(names).encode()).hexdigest()

    def split(self, flat: NDArray[Any]) -> Any:
        """The tree whose leaves are views of a flat array."""
        at, leaves = 0, []
        for shape in self.shapes:
            size = math.prod(shape)
            leaves.append(flat[at : at + size].reshape(shape))
            at += size
        return self.build(leaves)

    def build(self, leaves: list[Any]) -> Any:
        """The tree of leaves in their order."""
        return self._build(leaves)


def map_leaves(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree that f makes of the leaves of trees of the same layout."""
    leaves, build = flatten(tree)
    rest = [flatten(other)[0] for other in others]
    for other in rest:
        if [path for path, _ in other] != [path for path, _ in leaves]:
            raise ValueError("tree: the trees have different leaves")
    return build([f(leaf, *(other[i][1] for other in rest)) for i, (_, leaf) in enumerate(leaves)])


def rows_of(leaves: list[tuple[str, Any]]) -> int:
    """The number of examples of per-example gradients: the first dimension of every leaf."""
    counts = {int(leaf.shape[0]) if len(leaf.shape) else -1 for _, leaf in leaves}
    if len(counts) != 1 or -1 in counts:
        raise ValueError("gradients: every leaf must have the examples as its first dimension")
    return counts.pop()


_Norm = TypeVar("_Norm", bound="ClipNorm")


class ClipNorm(float):
    """The norm to which `clip_and_sum` clips: `run.clip_norm`, for which the noise of the run is
    made.

    A number that is computed from it is a plain number, which `clip_and_sum` refuses. Without a
    run, as in a test of your own code, `minsep.ClipNorm(5.0)` says that the norm is meant.

    The clip norm of a run knows how many coordinates a whole gradient has, and `clip_and_sum`
    refuses gradients with fewer or more.
    """

    coordinates: int | None = None  # of a gradient; None without a run
    use: Any = None  # facts about the use of the run, such as padding

    def of(self: _Norm, coordinates: int, use: Any) -> _Norm:
        """The same norm, for gradients of so many coordinates."""
        self.coordinates, self.use = coordinates, use
        return self


class Grid(float):
    """The grid of a run, which knows the clip norm for which the noise is made."""

    clip_norm = 0.0

    def of(self, clip_norm: float) -> Grid:
        """The same grid, of noise for a clip norm."""
        self.clip_norm = clip_norm
        return self


class OwnersClipNorm(ClipNorm):
    """The clip norm of a run that samples owners: clip_and_sum then asks for the owner of each
    gradient."""


class ExamplesClipNorm(ClipNorm):
    """The clip norm of a run that samples examples: clip_and_sum then refuses owners."""


def check_clip(clip_norm: Any, grid: float, shapes: Sequence[tuple[int, ...]], held: float, owners: Any, is_padding: Any) -> None:
    """Refuses arguments of a clipped sum for which the guarantee would not hold.

    These are a clip norm that is a plain number or not above 0; gradients of a part of the
    coordinates; a grid that is no power of two; sums that may exceed held multiples of the grid,
    and would be rounded; gradients without owners where owners are sampled, and with owners where
    examples are; and gradients of a padded batch without is_padding.

    shapes are the shapes of all leaves of the gradients, [examples, ...].
    """
    if not isinstance(clip_norm, ClipNorm) or getattr(grid, "clip_norm", clip_norm) != clip_norm:
        raise ValueError(
            f"clip_norm {clip_norm}: must be run.clip_norm, as it comes; in jax.jit as a static argument. The noise is made for this norm, and hides no larger gradient; a smaller norm "
            "needs noise of its own: minsep noise --clip-norm. Without a run, give minsep.ClipNorm(…)"
        )
    examples, coordinates = shapes[0][0], sum(math.prod(shape[1:]) for shape in shapes)
    if clip_norm.coordinates not in (None, coordinates):
        raise ValueError(
            f"gradients: have {counted(coordinates, 'coordinate')} for each example, and a gradient of this run has {clip_norm.coordinates}: the clip norm is for a whole gradient. Layers or parts that "
            "are clipped one by one move the sum by more than the noise hides. Give the gradients of all parameters in one call; where a host holds a part of them, clip by the norm over all "
            "hosts first, then give minsep.ClipNorm(run.clip_norm)"
        )
    if owners is None and isinstance(clip_norm, OwnersClipNorm):
        raise ValueError(
            "owners: must be given for this run, which samples owners: clipping each example would let an owner count several times. "
            "Give owners=batch.owners, with the gradients of all rows of the batch, in their order"
        )
    if owners is not None and isinstance(clip_norm, ExamplesClipNorm):
        raise ValueError(
            "owners: must be left out for this run, which samples examples: one example less moves the mean of its owner's gradients, and so the sum, by up to twice the clip norm, which "
            "the noise does not hide. To average the gradients of each owner, sample owners: minsep form --sample owners"
        )
    if owners is None and is_padding is None and getattr(clip_norm.use, "padded", False):
        raise ValueError(
            "is_padding: must be given for this run: minsep.pad has filled its batches with rows of -1, which NumPy and JAX read as the last example, and it would enter the sum many times. "
            "Give is_padding=rows < 0 with the gradients of all rows, or give rows to the function of clipped_sum. If no row is padding, give an array of False"
        )
    check_grid(grid)
    if not 0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm {clip_norm}: must be above 0")
    if grid != 0 and (not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5):
        raise ValueError(f"grid {grid}: must be a power of two, or 0 for noise without a grid")
    if grid != 0 and examples * clip_norm / grid > held:
        raise ValueError(  # without their number, which is secret
            f"gradients: the sum of so many gradients of norm {clip_norm} may reach more multiples of the grid, {grid}, than the {held:.3g} that are held exactly: "
            "make noise with a larger --grid, or sum fewer at a time in a wider type"
        )


def check_microbatch(microbatch: Any) -> None:
    """Refuses a size of microbatches that is not a whole number from 1 on."""
    if microbatch is not None and (isinstance(microbatch, bool) or not isinstance(microbatch, int) or microbatch < 1):
        raise ValueError(f"microbatch {microbatch!r}: must be a whole number of examples, at least 1, or None for all at once")


def check_rows(rows: Any, count: int, owners: Any) -> None:
    """Refuses rows other than the rows of count examples, as `run.batch` or `pad` gave them."""
    if hasattr(rows, "offsets"):
        raise ValueError("rows: must be batch.rows where owners are sampled, with owners=batch.owners")
    dtype = getattr(rows, "dtype", None)
    whole = getattr(dtype, "kind", None) in ("i", "u") or str(dtype).startswith(("torch.int", "torch.uint"))
    if not whole or len(rows.shape) != 1:
        raise ValueError("rows: must be the rows of the batch, whole numbers of one dimension, as run.batch(t) or minsep.pad gave them, before the examples: f(params, rows, x[rows], …)")
    if rows.shape[0] != count:  # without the numbers, which are secret
        raise ValueError("batch: must have one example for each of the rows: examples were left out, or belong to another batch")


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def check_grid(grid: Any) -> None:
    """Refuses a grid that is not a number."""
    if not is_number(grid):
        raise TypeError(f"grid {shown(grid)}: must be run.grid, a number, and not {type(grid).__name__}")


class ExpectedBatchSize(float):
    """The expected batch size of a run, by which noisy sums are divided. A number that is computed
    from it is a plain number, which `add_noise` refuses."""

    run_id = ""  # of which it is; none without a run

    def of(self, run_id: str) -> ExpectedBatchSize:
        """The same size, of a run."""
        self.run_id = run_id
        return self

    def __str__(self) -> str:
        """Twelve digits, so that 128 is shown where the product of probability and examples is
        rounded to the next float64 below."""
        return f"{float(self):.12g}"


def check_divisor(divisor: Any) -> None:
    """Refuses a divisor that may depend on the batch: all but a run's expected batch size, and 1."""
    if isinstance(divisor, ExpectedBatchSize) or type(divisor) in (int, float) and divisor == 1:
        return
    raise ValueError(
        f"divisor {divisor}: must be run.expected_batch_size, as it comes; in jax.jit as a static argument. The size of a batch is secret, and to divide by it would break the guarantee. "
        "For another constant, which does not depend on the batch, give 1, and divide the noisy sum yourself"
    )
