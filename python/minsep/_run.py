"""A run directory, as a trainer uses it."""

from __future__ import annotations

import hashlib
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _command, _keys
from ._arguments import shown, whole
from ._batches import Batches, OwnerBatch
from ._files import Directory, compact, is_digest, is_run_id, members, parse, sha256
from ._join import Table, match_range
from ._noise import Noise, shard_range
from ._pad import give
from ._tree import ClipNorm, ExamplesClipNorm, ExpectedBatchSize, Grid, OwnersClipNorm
from .errors import MinsepError, MissingPackageError, NotCertifiedError, RunDirectoryError

RUN_NAME, RUN_FORMAT = "run.json", "minsep-run/2"
CERTIFICATE_NAME = "certificate.json"


class _Use:
    """What a program has done with the rows of a run. A run that join gave has that of the run
    before it."""

    def __init__(self) -> None:
        self.rows: NDArray[Any] | None = None  # the first that were given as rows of the table
        self.looked_up = False  # join or example_ids was called
        self.padded = False  # its batches get rows of -1

_WEAK = 0.9999  # what a bound of an attack must be below to be worth anything


class Run:
    """A run directory that minsep wrote.

    path is a folder on this machine, or a URL such as gs://bucket/run if fsspec is installed.
    command is the command minsep, which some methods run; by default MINSEP_COMMAND, or minsep on
    the PATH.

    Opening checks run.json and the indexes of batches and noise against each other. A file is
    compared with the size and SHA-256 of its index when it is first read. Nothing is sampled or
    recomputed; `inspect` does that.
    """

    def __init__(self, path: str | os.PathLike[str], *, command: str | None = None) -> None:
        self._directory = Directory(path)
        self._command = command
        self._key: str | None = None
        self._positions: NDArray[np.int64] | None = None
        self._joined: int | None = None  # how many ids join had
        self._use = _Use()
        where = self._directory.where(RUN_NAME)
        try:
            text, _ = self._directory.text(RUN_NAME)
        except FileNotFoundError:
            raise RunDirectoryError(f"{where}: is missing, and every run directory has it: minsep run or minsep form makes a run directory") from None
        record = parse(text, where)
        if not isinstance(record, dict) or record.get("format") != RUN_FORMAT:
            raise RunDirectoryError(f"{where}: is not a record of format {RUN_FORMAT!r}")
        self.run_id = str(record.get("run_id"))
        _check_record(record, text, where)
        if record.get("test"):
            raise RunDirectoryError(f"{where}: is of a test, which has fixed its run id: it serves no training")
        self._batches: Batches | None = self._folder(Batches, "batches")
        self._noise: Noise | None = self._folder(Noise, "noise")
        self._table_cache: Table | None = None
        self._check_one_run(record)

    def _folder(self, kind: Any, name: str) -> Any:
        """A folder of the run, or None where its stage has not been run."""
        if not self._directory.exists(f"{name}/index.json") and not self._directory.exists(f"{name}/incomplete.json"):
            return None
        found = kind(self._directory)
        if found.folder.run_id != self.run_id:
            raise RunDirectoryError(f"{self._directory.where(name)}: belongs to run {found.folder.run_id}, and run.json to run {self.run_id}")
        return found

    def _check_one_run(self, record: dict[str, Any]) -> None:
        """Batches and noise must be of the same examples, sampler and steps."""
        batches, noise, where = self._batches, self._noise, self._directory.where
        examples = record.get("examples")
        if batches is not None:
            named = f"numbered {batches.examples}" if batches.rows_of == "range" else f"bounded {batches.folder.inputs.get('bounded')}"
            if examples is not None and examples != named:
                raise RunDirectoryError(f"{where('batches')}: belongs to other examples than run.json")
            examples = named
        if noise is None:
            return
        of = noise.training.get("examples")
        if examples is not None and of != "not known" and of != examples:
            raise RunDirectoryError(f"{where('noise')}: was made for other examples than the run: the two are not parts of one training")
        if batches is None:
            return
        sampler = noise.training.get("sampler")
        scheme = batches.folder.params.get("scheme")
        if sampler != "not known" and (not isinstance(sampler, str) or parse(sampler, where("noise")) != scheme):
            raise RunDirectoryError(f"{where('noise')}: was made for another sampler than the batches: the two are not parts of one training")
        if noise.steps != batches.steps:
            raise RunDirectoryError(f"{where('noise')}: has {noise.steps} steps, and the batches have {batches.steps}")

    def __getstate__(self) -> dict[str, Any]:
        """For another process, such as the worker of a loader: without the ids of the table, which
        it reads itself if it needs them."""
        return {**self.__dict__, "_table_cache": None, "_use": _Use()}

    def __repr__(self) -> str:
        return f"Run({self._directory.path!r}, run_id={self.run_id!r})"

    @property
    def path(self) -> str:
        """The path that was given."""
        return self._directory.path

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that are the same on every host that has the same batches and the
        same recipe of noise."""
        parts = [self.run_id]
        parts += [self._batches.folder.digest if self._batches else "", self._noise.recipe_digest if self._noise else ""]
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    def inspect(self) -> _command.Verdict:
        """The verdict of `minsep inspect` on the directory. It reads every file, so call it once,
        before training."""
        return _command.inspect(self.path, self._command)

    def report(self, out: str | os.PathLike[str] | None = None, title: str | None = None) -> _command.Page:
        """Writes the page of `minsep report` for people who must be convinced: to out, or to
        report.html in the directory. A notebook shows the result."""
        given = [f"--{name}={os.fspath(value)}" for name, value in (("out", out), ("title", title)) if value is not None]
        return _command.report(self.path, given, self._command)

    @property
    def key(self) -> str | None:
        """The file of the root key where the training finds one without being told: that of
        `prepare`, or of MINSEP_KEY, or ~/.config/minsep/key. None where there is none."""
        return self._key or _keys.found()

    # Batches

    def _need_batches(self) -> Batches:
        if self._batches is None:
            raise RunDirectoryError(f"{self._directory.where('batches')}: there are no batches: minsep form makes them")
        return self._batches

    @property
    def steps(self) -> int:
        """The number of training steps."""
        if self._batches is None and self._noise is not None:
            return self._noise.steps
        return self._need_batches().steps

    def __len__(self) -> int:
        return self.steps

    @property
    def examples(self) -> int:
        """The number of rows of the example table: rows are in [0, examples)."""
        return self._need_batches().examples

    @property
    def expected_batch_size(self) -> float:
        """The expected number of examples of a batch, or of owners if they are sampled. It is
        public. Divide noisy sums by it, never by the size of a batch: `add_noise` takes no other
        number but 1."""
        expected = self._need_batches().expected_batch_size
        if expected is None:
            raise RunDirectoryError(f"{self._directory.where('batches')}: its index has no expected batch size: form the batches again")
        return ExpectedBatchSize(expected).of(self.run_id)

    @property
    def max_batch_size(self) -> int | None:
        """The largest number of examples of a batch, or of owners if they are sampled: `form
        --max-batch-size`, or the size of all batches with the scheme fixed. None if batches are not
        cut. It is public."""
        return self._need_batches().max_batch_size

    @property
    def most(self) -> int:
        """The most that a batch has, as far as that is known without looking at one. It is
        public."""
        return self._need_batches().most

    @property
    def max_rows(self) -> int | None:
        """The largest number of rows of a batch, which `pad` counts: `max_batch_size`, or if owners
        are sampled `max_batch_size` times `examples_per_owner`. None if batches are not cut. It is
        public."""
        batches = self._need_batches()
        return batches.max_batch_size and batches.max_batch_size * max(1, batches.examples_per_owner)

    @property
    def examples_per_owner(self) -> int | None:
        """The largest number of examples that an owner brings, if owners are sampled; otherwise
        None."""
        batches = self._need_batches()
        return batches.examples_per_owner if batches.of_owners else None

    def batch(self, step: int) -> Any:
        """The examples of a step in [0, steps): shape [n], n at least 0, int32 or int64, without
        padding.

        They are rows of the example table, in a read-only view of the file. For a run from `join`,
        they are positions in the user's data. A row is there once for each copy that takes part. If
        owners are sampled, the result is an `OwnerBatch`, in which the rows of each owner belong
        together. Batches and their sizes are secret.
        """
        batches = self._need_batches()
        step = _whole(step, "step", batches.steps)
        if batches.of_owners:
            owners = batches.owners(step)
            return OwnerBatch(self._placed(owners.rows), owners.offsets)
        return self._placed(batches.rows(step))

    def _placed(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of the table as positions in the user's data, if that is joined."""
        if self._positions is not None:
            return give(np.asarray(self._positions[rows]), self._use)
        if self._use.rows is None and len(rows):
            self._use.rows = np.array(rows)
        return give(np.asarray(rows), self._use)

    def _not_joined(self) -> str | None:
        """Why the trainer may take rows of the table for places in its own data; None where it does
        not look like that."""
        rows = self._use.rows
        if rows is None or self._use.looked_up or self._need_batches().rows_of == "range":
            return None
        try:
            ids = self._table.take(rows.astype(np.int64))
        except MissingPackageError:
            ids = None
        if ids is not None and np.array_equal(ids, rows):
            return None
        return (
            "its batches have been read as rows of the bounded table, and no row was looked up by run.join(ids) or run.example_ids(rows). "
            "If your data are in another order, other examples take part than those that were bounded, and nothing protects their owners. "
            "Give the loop or the loader run.join(ids), where ids are the example ids in the order of your data"
        )

    def _need_examples(self, what: str) -> None:
        """Refuses batches of owners, for what takes every example for itself."""
        if self._need_batches().of_owners:
            raise ValueError(f"run {self.path}: owners are sampled, and {what} clips each example: use run.batch and clip_and_sum with owners=batch.owners")

    @property
    def _table(self) -> Table:
        if self._table_cache is None:
            batches = self._need_batches()
            table = Table(self._directory)
            if table.folder.digest != batches.folder.inputs.get("bounded"):
                raise RunDirectoryError(f"{self._directory.where('bounded')}: is not the table from which the batches were formed")
            self._table_cache = table
        return self._table_cache

    def example_ids(self, rows: Any) -> NDArray[Any]:
        """The example ids of some rows of the table, shape [n]: int64, or str as objects."""
        batches = self._need_batches()
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" and len(rows):
            raise ValueError(f"rows: must be whole numbers of one dimension, not {rows.dtype} of {rows.ndim} dimensions")
        rows = rows.astype(np.int64)
        if len(rows) and (rows.min() < 0 or rows.max() >= batches.examples):
            raise ValueError(f"rows: must be 0 to {batches.examples - 1}")
        self._use.looked_up = True
        if batches.rows_of == "range":
            return np.array(rows, dtype=np.int64)
        return self._table.take(rows)

    def pools(self) -> list[NDArray[np.int64]]:
        """The examples of each pool of rotation, which minsep bound --pools makes; without pools
        the list is empty.

        They are rows of the example table; for a run that `join` gave, positions in the user's
        data. Period e of a training has batches of pool e modulo the number of pools. In a pool no
        owner has two examples.
        """
        if self._need_batches().rows_of != "bounded":
            return []
        pools = self._table.pools()
        return pools if self._positions is None else [np.asarray(self._positions[rows]) for rows in pools]

    def join(self, ids: Any, cache: str | os.PathLike[str] | None = None) -> Run:
        """The same run with batches of positions in the user's data, whose example ids are ids, in
        any order.

        ids are whole numbers or strings, as the bounded table has them: a list, an array or an
        Arrow array of one dimension. Every example of the table must be among them, once; others
        may be too. With cache, a folder, positions are kept there as a file, which is mapped into
        memory and serves every process with the same table and ids. Batches of numbered examples
        (form --examples) are of the numbers 0, 1, ….
        """
        batches = self._need_batches()
        if hasattr(ids, "columns"):
            raise ValueError("ids: must be one column, such as frame['example_id'], not a data frame")
        if batches.rows_of == "range":
            positions = match_range(batches.examples, ids)
        else:
            positions = self._table.positions(ids, cache)
            if len(positions) != batches.examples:
                raise RunDirectoryError(f"{self._directory.where('bounded')}: has other examples than the batches")
        self._use.looked_up = True
        joined = object.__new__(Run)
        joined.__dict__.update(self.__dict__)
        joined._positions, joined._joined = positions, len(ids)
        return joined

    def _check_data(self, count: int) -> None:
        """Refuses data with another number of examples than the ids that join was given, or with fewer
        than the run has."""
        if self._joined is None and count < self.examples:
            raise ValueError(f"data: has {count} examples, and the run has {self.examples}: give run.join the ids of these data, in their order")
        if self._joined is not None and count != self._joined:
            raise ValueError(f"data: has {count} examples, and the run the ids, or rows of owners, of {self._joined}: give the data of those, or run.join or prepare their own, in their order")

    # Noise

    def _need_noise(self) -> Noise:
        if self._noise is None:
            raise RunDirectoryError(f"{self._directory.where('noise')}: there is no noise: minsep noise makes it")
        return self._noise

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a gradient."""
        return self._need_noise().coordinates

    @property
    def clip_norm(self) -> ClipNorm:
        """ζ: the norm to which each example's gradient is clipped or, if owners are sampled, the
        mean of each owner's. `clip_and_sum` takes it as it comes, and refuses a plain number and
        gradients with another number of coordinates than `coordinates`. If owners are sampled, it
        refuses gradients without owners; if examples are, it refuses owners."""
        noise, kind = self._need_noise(), ClipNorm
        if self._batches is not None:
            kind = OwnersClipNorm if self._batches.of_owners else ExamplesClipNorm
        return kind(noise.clip_norm).of(noise.coordinates, self._use)

    @property
    def grid(self) -> float:
        """g: each clipped gradient is rounded toward zero to multiples of it. 0 for noise without a
        grid."""
        noise = self._need_noise()
        return Grid(noise.grid).of(noise.clip_norm)

    @property
    def noise_multiplier(self) -> float:
        """σ of the noise, in units of the clip norm; without noise, σ of the certificate."""
        if self._noise is not None:
            return self._noise.noise_multiplier
        return float(self._certificate()["noise_multiplier"])

    @property
    def step_noise(self) -> float:
        """ρ: the noise of one step in units of DP-SGD's with the same claim, steps and expected
        batch size. It is above 1 for correlated noise, and public. Methods that look at single
        steps, such as Adam and clipping of updates, see so much more noise: see
        `minsep.jax.scale_by_step_noise` and `minsep.torch.scale_by_step_noise`.
        """
        noise = self._need_noise()
        if noise.step_noise is None:
            raise NotCertifiedError(
                f"{self._directory.where('noise')}: its index does not say how its noise compares with DP-SGD's: it was made without a certificate, or there is none to compare with"
            )
        return float(noise.step_noise)

    def noise(self, step: int, shard: int = 0, shards: int = 1) -> NDArray[Any]:
        """The noise of a step from the files: coordinates of shard of shards, float32 or float64,
        read-only. They are the leaves of the tree of parameters one after the other, each in C
        order; the keys of a dict, such as the names of PyTorch's parameters, are sorted.

        shards need not be the number of the files. It is only to look at: noise is secret, and each
        row serves one sum, which `read_noise` and its guard see to.
        """
        return self._row(step, shard, shards)

    def _row(self, step: int, shard: int, shards: int) -> NDArray[Any]:
        noise = self._need_noise()
        if noise.shards == 0:
            raise RunDirectoryError(f"{self._directory.where('noise')}: has only the recipe of the noise, and no noise")
        step = _whole(step, "step", noise.steps)
        shards = whole(shards, "shards")
        if not 1 <= shards <= noise.coordinates:
            raise ValueError(f"shards {shards}: must be 1 to {noise.coordinates}")
        lo, hi = shard_range(noise.coordinates, _whole(shard, "shard", shards), shards)
        values = noise.files(step, lo, hi)
        values.flags.writeable = False
        return values

    # The certificate

    def _certificate(self) -> dict[str, Any]:
        """The certificate as it was written: that it follows from its ledger is for inspect to say."""
        where = self._directory.where(CERTIFICATE_NAME)
        try:
            text, _ = self._directory.text(CERTIFICATE_NAME)
        except FileNotFoundError:
            raise NotCertifiedError(f"{where}: there is no certificate: minsep account makes one") from None
        certificate = parse(text, where)
        if not isinstance(certificate, dict) or certificate.get("format") not in (1, 2):
            raise RunDirectoryError(f"{where}: is not a certificate that this version reads")
        if self._batches is not None and self._batches.of_owners != (certificate["format"] == 2):
            raise RunDirectoryError(f"{where}: one of the certificate and the batches samples owners, and the other examples")
        if certificate.get("status") != "verified":
            raise NotCertifiedError(f"{where}: has status {certificate.get('status')!r}, which certifies nothing")
        for name in "epsilon", "delta", "noise_multiplier":
            if type(certificate.get(name)) not in (int, float):
                raise RunDirectoryError(f"{where}: has no {name}")
        return certificate

    @property
    def epsilon(self) -> float:
        """ε of the certificate. NotCertifiedError where nothing is certified."""
        return float(self._certificate()["epsilon"])

    @property
    def delta(self) -> float:
        """δ of the certificate. NotCertifiedError where nothing is certified."""
        return float(self._certificate()["delta"])

    def _uncertified(self) -> str | None:
        """Why no certificate in the directory is for its noise, as far as its numbers tell; None
        where one is, or there is no noise."""
        if self._noise is None:
            return None
        try:
            certificate = self._certificate()
        except MinsepError as err:
            return str(err)
        where, needed, have = self._directory.where(CERTIFICATE_NAME), float(certificate["noise_multiplier"]), self._noise.noise_multiplier
        if have < needed:
            return f"{where}: is for a noise multiplier of {needed:.6g}, and that of the noise is {have:.6g}"
        run = certificate.get("run")
        if self._batches is not None and (run.get("sampler") if isinstance(run, dict) else None) != self._batches.folder.params.get("scheme"):
            return f"{where}: is for another sampler than that of the batches"
        return None

    def _weak(self) -> str | None:
        """Why the certificate, which there is, protects next to nobody; None where it does, as far
        as that can be told."""
        try:
            certificate = self._certificate()
            points = [(float(p["epsilon"]), float(p["delta"])) for p in certificate["points"]]
            protected = self._protected(certificate.get("unit"))
        except (MinsepError, KeyError, TypeError, ValueError):
            return None
        if not points:
            return None
        least = min(delta for _, delta in points)
        if protected and least * protected >= 1:
            return f"delta {least:.3g} is not below 1/{protected}, one over the number of those whom it protects: choose a much smaller delta"
        if min(_bounds(points)) >= _WEAK:
            return f"the success of an attack is not bounded below {_WEAK}: choose a smaller epsilon, or have smaller ones certified too (--also-epsilon)"
        return None

    def _protected(self, unit: Any) -> int:
        """How many owners there are, or examples where a claim is for those; 0 where that is not
        known."""
        if self._batches is None:
            return 0
        if self._batches.rows_of == "range" or unit == "example":
            return int(self._batches.examples)
        facts = self._table.folder.facts
        none = sum(int(b["count"]) for b in facts["kept_examples_per_owner"] if b["value"] == 0)
        return int(facts["owners"]) - none


def _bounds(points: list[tuple[float, float]]) -> list[float]:
    """Bounds of attacks that follow of points (epsilon, delta): the advantage, and true positive
    rates (formulas F6.1)."""

    def rate(fpr: float) -> float:
        found = [1.0]
        for epsilon, delta in points:
            found += [delta + math.exp(min(epsilon, 700.0)) * fpr, 1 - math.exp(-epsilon) * (1 - delta - fpr)]
        return max(fpr, min(found))

    lines = [(1.0, 0.0)]
    for epsilon, delta in points:
        less = math.exp(-min(epsilon, 700.0))
        lines += [(delta, 1 / less), (1 - less * (1 - delta), less)]
    corners = [0.0] + [(b[0] - a[0]) / (a[1] - b[1]) for i, a in enumerate(lines) for b in lines[:i] if a[1] != b[1]]
    return [max(rate(x) - x for x in corners if 0 <= x <= 1), *(rate(x) for x in (0.001, 0.01, 0.1))]


def _check_record(record: dict[str, Any], text: str, where: str) -> None:
    """run.json has its own SHA-256, taken with zeros in its place, and that of its plan."""
    digest = record.get("sha256")
    if not is_run_id(record.get("run_id")) or not is_digest(digest):
        raise RunDirectoryError(f"{where}: has no run id or no SHA-256")
    before, found, after = text.rpartition(f'"{digest}"')
    if sha256(f'{before}"{"0" * 64}"{after}'.encode()) != digest:
        raise RunDirectoryError(f"{where}: has been changed since it was written: it does not match its SHA-256")
    if "plan" in record:
        plan = record["plan"]
        whole = isinstance(plan, dict) and "plan" in plan
        if not whole or sha256(compact(members(members(text)["plan"])["plan"]).encode()) != plan.get("sha256"):
            raise RunDirectoryError(f"{where}: its plan does not match its SHA-256")


def _whole(value: Any, name: str, below: int) -> int:
    """A whole number in [0, below), of any integer type."""
    number = whole(value, name)
    if not 0 <= number < below:
        raise IndexError(f"{name} {number}: must be 0 to {below - 1}")
    return number


def need_run(run: Any, call: str) -> Run:
    """Refuses what is no Run, such as its path; call is how the function is called, with `run` in
    it."""
    if isinstance(run, Run):
        return run
    opened = f"minsep.Run({run!r})" if isinstance(run, (str, os.PathLike)) else "minsep.Run(path)"
    raise TypeError(f"run {shown(run)}: must be an opened run directory, and not {type(run).__name__}: run = {opened}, then {call}")
