"""A training in JAX as one object: gradients by example, clipping, noise, guard and checkpoint,
with an optimizer of optax."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any, Callable, Iterator, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from . import _jaxclip, _jaxnoise, _mesh, _seeds
from ._arguments import NO_GRADIENT, place, shown
from ._batches import OwnerBatch
from ._guard import StepGuard
from ._pad import padded
from ._run import Run, need_run
from ._session import NO_CHECKPOINT, Session, replaced
from ._tree import Layout, check_clip, check_microbatch
from .errors import TrainingError


class State(NamedTuple):
    """A training between two steps, a tree of arrays: the next step, the parameters and the state
    of the optimizer."""

    step: int
    params: Any
    optimizer: Any


class _Trained:
    """Which of the leaves of parameters are trained. The others are None in the trees of trained
    ones, where JAX sees no leaf."""

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen
        for path, leaf in jax.tree_util.tree_flatten_with_path(frozen)[0]:
            if not isinstance(leaf, (bool, np.bool_)):
                raise TypeError(f"frozen: {jax.tree_util.keystr(path)} is {shown(leaf)}: must be True or False, in a tree as params or the beginning of one: frozen={{\"base\": True, \"head\": False}}")

    def of(self, params: Any) -> Any:
        """The tree of those that are trained."""
        if self._frozen is None:
            return params
        try:
            return jax.tree.map(lambda frozen, part: jax.tree.map(lambda p: None if frozen else p, part), self._frozen, params)
        except ValueError as err:
            raise ValueError("frozen: must be a tree of True and False as params are, or the beginning of one: {\"base\": True, \"head\": False} for params with base and head") from err

    def put(self, trained: Any, params: Any) -> Any:
        """The parameters with those that were trained."""
        return trained if self._frozen is None else jax.tree.map(lambda t, p: p if t is None else t, trained, params, is_leaf=lambda x: x is None)

    def named(self, trained: Any) -> Any:
        """The same as a tree that noise may have."""
        return trained if self._frozen is None else {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(trained)[0]}

    def unnamed(self, named: Any, trained: Any) -> Any:
        """The other way round, for a tree like trained."""
        return named if self._frozen is None else jax.tree_util.tree_structure(trained).unflatten([named[name] for name in self.named(trained)])


class Private:
    """A private training of parameters. See `minsep.jax.private`."""

    def __init__(self, loss: Callable[..., Any], optimizer: Any, run: Run, *, key: str | os.PathLike[str] | None, microbatch: int | None, pad_to: Any, rng: bool,
        frozen: Any, folder: str | os.PathLike[str] | None, checkpoint: str | None, checkpoint_steps: int, device_noise: bool = False) -> None:
        self.run = need_run(run, "private(loss, optimizer, run)")
        if not callable(loss):
            raise TypeError(f"loss: must be a function of the parameters and one example, loss(params, x, y), and not {type(loss).__name__}")
        if not callable(getattr(optimizer, "init", None)) or not callable(getattr(optimizer, "update", None)):
            raise TypeError(f"optimizer: must be one of optax, such as optax.adam(0.001), and not {type(optimizer).__name__}")
        check_microbatch(microbatch)
        if jax.process_count() > 1:
            raise ValueError("private: trains in one process: for several, take minsep.jax.clipped_sum and add_noise, as in docs/python.md")
        one = microbatch or 64
        self._sizes = self.run.max_rows or one * max(1, 64 // one) if pad_to is None else pad_to
        padded(np.empty(0, np.int64), self._sizes, 0, 1, "pad_to")  # which refuses what is no size
        self._rng, self._optimizer = rng, optimizer
        self._trained, self._loss, self._microbatch = _Trained(frozen), _scalar(loss, rng), microbatch
        self._mesh: Any = None  # of the parameters, where they are on several devices
        self._traced = False
        self._places: Any = None  # the shardings of what is trained, and of the optimizer's state
        self._sum = jax.jit(self._summed)
        self._session = Session(run, key, folder, checkpoint, checkpoint_steps, "float32", device_noise=_jaxnoise.device_noise if device_noise else None)
        self._update = jax.jit(self._updated)
        self._are_finite = jax.jit(lambda params: jnp.all(jnp.stack([jnp.isfinite(x).all() for x in jax.tree_util.tree_leaves(params)])))

    def _summed(self, params: Any, rows: Any, *batch: Any, owners: Any = None) -> Any:
        """The sum of the clipped gradients of what is trained."""

        def total(params: Any, rows: Any, *batch: Any, **named: Any) -> Any:
            one = _jaxclip.clipped_sum(lambda trained, *example, **more: self._loss(self._trained.put(trained, params), *example, **more), self.run.clip_norm, self.run.grid, self._microbatch)
            return one(self._trained.of(params), rows, *batch, **named)

        if self._mesh is None:
            return total(params, rows, *batch, owners=owners)
        check_clip(self.run.clip_norm, self.run.grid, [(len(rows), self.run.coordinates)], _jaxclip.HELD, None, False)  # of the batch on all devices
        return _mesh.kept(_mesh.total(total, self._mesh, params, rows, batch), self._places and self._places[0])

    def _updated(self, params: Any, state: Any, mean: Any) -> Any:
        updates, state = self._optimizer.update(jax.tree.map(lambda g, p: g.astype(p.dtype), mean, params), state, params)
        return _mesh.kept((jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates), state), self._places)

    # The beginning, and checkpoints

    def init(self, params: Any, state: dict[str, Any] | None = None) -> State:
        """Begins the training of params, or goes on from a checkpoint with state, the checkpoint's
        `state`: then put the checkpoint's arrays into the result.

        Steps that were taken after the checkpoint are taken again, with fresh noise and other random
        numbers.
        """
        if self._session.guard is not None:
            raise TrainingError("init: the training has begun already: call it once, or load")
        params = self._placed(jax.tree.map(_strong, params))
        trained = self._trained.of(params)
        self._check(trained)
        optimizer = _mesh.put(jax.tree.map(_strong, self._optimizer.init(trained)), self._mesh)
        self._places = None if self._mesh is None else jax.tree.map(lambda x: x.sharding, (trained, optimizer))
        guard = self._session.begin(self._trained.named(trained), state)
        return State(guard.next_step, params, optimizer)

    def _placed(self, params: Any) -> Any:
        """The parameters, all on one mesh where some are."""
        mesh = _mesh.mesh_of(params)
        if mesh is not None:
            if self._microbatch is None:
                raise ValueError("microbatch: must be given for parameters on several devices: the number of examples computed together, the same on any number of devices")
            if self.run.examples_per_owner is not None:
                raise ValueError("params: are on several devices, and this run samples owners, whose examples one device must have: put params on one device")
            self._sizes = _mesh.sizes_for(self._sizes, self._microbatch, mesh)
        self._mesh = mesh
        return _mesh.put(params, mesh)

    def _check(self, params: Any) -> None:
        """Refuses parameters that cannot be trained, and an optimizer that needs more than
        gradients, before a step is used up."""
        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        if not leaves:
            raise ValueError("params: has no array that is trained: give the arrays of the model, and leave out of frozen= what is to be trained")
        for path, leaf in leaves:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise ValueError(f"params: {jax.tree_util.keystr(path)} is of type {leaf.dtype}: must be floating-point; give frozen= what is not trained")
        count = sum(leaf.size for _, leaf in leaves)
        self._session.check_coordinates(count, "params: have", "give frozen= what is not trained")
        named = self._trained.named(params)
        given = Layout(named).split(np.zeros(count, np.int8))
        if jax.tree_util.tree_structure(given) != jax.tree_util.tree_structure(named):
            raise ValueError("params: must be a tree of dicts, lists and tuples, or another tree of JAX that fixes the order of its leaves, which OrderedDict does not")
        try:
            jax.eval_shape(self._updated, params, jax.eval_shape(self._optimizer.init, params), params)
        except (TypeError, ValueError, AssertionError) as err:
            raise ValueError(
                f"optimizer: cannot make an update of the noisy mean and the parameters alone ({str(err).splitlines()[0] if str(err) else type(err).__name__}): the loss of examples, which some optimizers ask for, has "
                "no noise: take another optimizer, such as optax.adam(0.001)"
            ) from err

    @property
    def guard(self) -> StepGuard:
        """The training's guard, from `init` or `load` on."""
        if self._session.guard is None:
            raise TrainingError("guard: the training begins with init(params) or load(path, params)")
        return self._session.guard

    @property
    def state(self) -> dict[str, Any]:
        """The state of the training's guard, for JSON: for a checkpoint, with the `State` of the same
        step."""
        return self.guard.state_dict()

    def save(self, path: str | os.PathLike[str], state: State) -> None:
        """Writes a checkpoint. A kill leaves the earlier file or this one."""
        self._check_state(state)
        arrays = {f"leaf-{i}": np.frombuffer(np.asarray(x).tobytes(), np.uint8) for i, x in enumerate(jax.tree_util.tree_leaves(state[1:]))}
        with replaced(path) as file:
            np.savez(file, minsep=np.array(json.dumps([self.state, _shapes(state)])), **arrays)  # type: ignore[arg-type]

    def load(self, path: str | os.PathLike[str], params: Any) -> State:
        """Goes on from the file that save wrote, as init does. If there is no file, the training of
        params begins, and the file is written at once, so that a start after a kill finds it.
        params have the shapes of those in the file."""
        if not os.path.exists(path):
            state = self.init(params)
            self.save(path, state)
            return state
        try:
            with np.load(path, allow_pickle=False) as file:
                saved, shapes = json.loads(str(file["minsep"]))
                found = [np.frombuffer(file[f"leaf-{i}"].tobytes(), jnp.dtype(dtype)).reshape(shape) for i, (_, dtype, shape) in enumerate(shapes)]
        except (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as err:
            raise ValueError(NO_CHECKPOINT.format(os.fspath(path))) from err
        state = self.init(params, saved)
        if [[name, shape] for name, _, shape in _shapes(state)] != [[name, shape] for name, _, shape in shapes]:
            self.close()
            raise ValueError(f"{os.fspath(path)}: has other parameters or another optimizer: give private and load the ones of the checkpoint")
        tree = jax.tree_util.tree_structure(state[1:])
        placed = [jnp.asarray(x) if self._mesh is None else jax.device_put(x, was.sharding) for x, was in zip(found, jax.tree_util.tree_leaves(state[1:]))]
        return State(state.step, *tree.unflatten(placed))

    def close(self) -> None:
        """Ends the training here: the stream of noise ends, and the record of the training is for
        the next process."""
        self._session.close()

    # Batches and steps

    def batches(self, *data: Any) -> Iterator[tuple[Any, ...]]:
        """The examples of each step that is left, for `step`: of arrays, or trees of them, that
        have the examples as their first dimension, in the order of the ids that `run.join` had.

        Each must be given to `step` before the next is taken.
        """
        guard = self.guard
        for path, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
            if not isinstance(leaf, (np.ndarray, jax.Array)) or leaf.ndim == 0 or leaf.dtype.kind in "OSUMm":
                given = f"of {leaf.dtype}" if isinstance(leaf, np.ndarray) else type(leaf).__name__
                raise TypeError(f"data{jax.tree_util.keystr(path)}: must be an array of numbers that has the examples as its first dimension, such as np.asarray(x) or frame.to_numpy(), and not {given}")
            self.run._check_data(len(leaf))  # JAX would take the last example in the place of those that are not there
        return self._given(guard, data)

    def _given(self, guard: StepGuard, data: Any) -> Iterator[tuple[Any, ...]]:
        for step in range(guard.next_step, self.run.steps):
            batch = self.run.batch(step)
            rows = batch.rows if isinstance(batch, OwnerBatch) else batch
            examples = jax.tree.map(lambda x: x[rows], data)
            guard.lend(step, jax.tree_util.tree_leaves(examples))
            yield examples

    def step(self, state: State, *batch: Any, rows: Any = None) -> State:
        """The training after the next step, with the examples of its batch: arrays, or trees of
        them, with the examples as their first dimension, in the order of the batch's rows.

        `batches` gives them. A batch with padding comes with rows, the result of
        `minsep.pad(run.batch(t), …)`. state is the result of init, load or the step before. Do not
        call it in jax.jit: it compiles the parts that can be compiled.
        """
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree_util.tree_leaves((state, batch))):
            raise TypeError("step: must be called outside of jax.jit: each call takes a step of the guard; step compiles its computations itself")
        self._check_state(state)
        step = self._session.next_step()
        if not jax.tree_util.tree_leaves(batch):
            raise ValueError("batch: must be given: step(state, x, y), the examples that loss takes after the parameters")
        where, owners, examples = self._padded(step, self._session.rows(step, rows, jax.tree_util.tree_leaves(batch)), batch)
        self._session.check_finite(self._are_finite(self._trained.of(state.params)))
        if not self._traced:
            self._trace(state.params, examples)
        total = self._sum(state.params, where, *examples, owners=owners)
        mean = _jaxclip.add_noise(self._trained.named(total), self._session.noise(step), self.run.grid, self.run.expected_batch_size)
        trained = self._trained.of(state.params)
        trained, optimizer = self._update(trained, state.optimizer, self._trained.unnamed(mean, trained))
        return State(step + 1, self._trained.put(trained, state.params), optimizer)

    def _trace(self, params: Any, batch: tuple[Any, ...]) -> None:
        """Refuses, before the first step, a loss that JAX cannot trace, or without a gradient."""
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), batch)
        trained = self._trained.of(params)
        try:
            found = jax.make_jaxpr(jax.grad(lambda trained, *example: self._loss(self._trained.put(trained, params), *example)))(trained, *one).jaxpr
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError) as err:
            raise ValueError(
                f"loss: looks at a value of an example or parameter{place(err, jax)}: it calls NumPy, float() or the like, or has an if on it, which JAX cannot compile: take jax.numpy in the place of NumPy, and "
                "jnp.where or jax.lax.cond in the place of if"
            ) from err
        given = {*found.invars}
        for equation in found.eqns:
            if any(not isinstance(x, Literal) and x in given for x in equation.invars):
                given.update(equation.outvars)
        if not any(not isinstance(x, Literal) and x in given for x in found.outvars):
            raise ValueError(NO_GRADIENT)
        self._traced = True

    def _padded(self, step: int, given: Any, batch: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
        """Rows, owners and examples of a size that was compiled before, mostly: rows of padding,
        with zeros for examples, come after the others."""
        count = len(given.rows if isinstance(given, OwnerBatch) else given)
        if any(not np.ndim(x) or len(x) != count for x in jax.tree_util.tree_leaves(batch)):  # without the numbers, which are secret
            raise ValueError("batch: must have one example for each of the rows, as the first dimension: examples were left out, or belong to another batch")
        filled = padded(given, self._sizes, 0, 1, "pad_to")
        rows, owners = (filled.rows, filled.owners) if isinstance(filled, OwnerBatch) else (filled, None)
        if self._rng:  # two words for each example
            numbers = np.array([_seeds.number(self._session.seed, step, int(row)) for row in rows[:count]], np.uint64)
            batch = *batch, np.stack([numbers >> np.uint64(32), numbers & np.uint64(2**32 - 1)], 1).astype(np.uint32)

        def fill(x: Any) -> Any:
            of = jnp if isinstance(x, jax.Array) else np
            return of.concatenate([x, of.zeros((len(rows) - count, *x.shape[1:]), x.dtype)])

        return rows, owners, jax.tree.map(fill, batch)

    def _check_state(self, state: Any) -> None:
        """Refuses what is not the training at the guard's next step."""
        if not isinstance(state, State):
            raise TypeError(f"state: must be the result of init, load or step, and not {type(state).__name__}")
        if int(state.step) != self.guard.next_step:
            raise TrainingError(f"state: is of step {int(state.step)}, the next step is {self.guard.next_step}: give the last result of step: state = training.step(state, x, y)")


def _shapes(state: State) -> list[Any]:
    """Names, types and shapes of the arrays of a state."""
    return [[jax.tree_util.keystr(path), str(x.dtype), list(x.shape)] for path, x in jax.tree_util.tree_flatten_with_path(state[1:])[0]]


def _scalar(loss: Callable[..., Any], rng: bool) -> Callable[..., Any]:
    """The loss of one example, refused where it is not a number."""

    def one(params: Any, *example: Any) -> Any:
        value = loss(params, *example[:-1], rng=jax.random.wrap_key_data(example[-1], impl="threefry2x32")) if rng else loss(params, *example)
        if not hasattr(value, "shape") or value.shape:
            given = f"an array of shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(f"loss: must give one number for one example, and not {given}: anything else, such as statistics of batches, would carry data of the examples without noise")
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(f"loss: gives a number of type {value.dtype}, which has no gradient: must be floating-point, such as the cross entropy in the place of a count of errors")
        return value

    return one


def _strong(x: Any) -> Any:
    """An array of a type that arithmetic does not change, so that one of a checkpoint is the same."""
    return jnp.asarray(np.asarray(x)) if getattr(x, "weak_type", True) else x
