"""The noise of a run directory: its recipe, and its files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _npy
from ._batches import is_count
from ._files import Directory, Folder, compact, is_digest, members, parse, sha256
from .errors import RunDirectoryError

FOLDER, FORMAT = "noise", "minsep-noise/1"
RECIPE_NAME = "recipe.json"
RECIPE_FORMAT = "minsep-noise-recipe/4"


def shard_range(coordinates: int, shard: int, shards: int) -> tuple[int, int]:
    """The coordinates [lo, hi) of a shard: the first coordinates mod shards of them have one more
    than the others."""
    size, more = divmod(coordinates, shards)
    lo = shard * size + min(shard, more)
    return lo, lo + size + (shard < more)


def hexadecimal(value: object, where: str) -> float:
    """A number of a recipe."""
    try:
        if isinstance(value, str):
            return float.fromhex(value)
    except (ValueError, OverflowError):
        pass
    raise RunDirectoryError(f"{where}: {value!r} is not a hexadecimal number")


class Noise:
    """The folder `noise`: what its recipe says, and, unless it holds the recipe only, the values."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory, FOLDER, FORMAT)
        where = directory.where(f"{FOLDER}/{RECIPE_NAME}")
        text = bytes(self.folder.read_once(RECIPE_NAME)).decode("utf-8", "replace")
        self.recipe_digest: str = self.folder.files[RECIPE_NAME]["sha256"]
        recipe = parse(text, where)
        if not isinstance(recipe, dict) or recipe.get("format") != RECIPE_FORMAT:
            raise RunDirectoryError(f"{where}: not a recipe of the format that this version reads, {RECIPE_FORMAT}")
        params: Any = recipe.get("params")
        if not isinstance(params, dict) or params.get("words") not in ("aes-128", "chacha12"):
            raise RunDirectoryError(f"{where}: names no random words that this version knows")
        self.words: str = params["words"]
        digest = recipe.get("params_sha256")
        same = params == self.folder.params and recipe.get("run_id") == self.folder.run_id and is_digest(digest)
        if not same or sha256(compact(members(text)["params"]).encode()) != digest:
            raise RunDirectoryError(f"{where}: its parameters or its run id differ from the index")
        self.params_digest: str = digest
        training, steps, coordinates = params.get("training"), params.get("steps"), params.get("coordinates")
        if not isinstance(training, dict) or not is_count(steps, 1) or not is_count(coordinates, 1):
            raise RunDirectoryError(f"{where}: has no steps, coordinates or training")
        self.training: dict[str, Any] = training
        self.steps: int = steps
        self.coordinates: int = coordinates
        self.noise_multiplier = hexadecimal(params.get("noise_multiplier"), where)
        self.clip_norm = hexadecimal(params.get("clip_norm"), where)
        self.grid = hexadecimal(params.get("grid"), where)
        if not 0 < self.noise_multiplier < float("inf") or not 0 < self.clip_norm < float("inf") or not 0 <= self.grid < float("inf"):
            raise RunDirectoryError(f"{where}: noise multiplier and clip norm must be above 0, the grid at least 0")
        self._facts(directory)
        self._open: dict[tuple[int, int], NDArray[Any]] = {}

    def _facts(self, directory: Directory) -> None:
        facts = self.folder.facts
        self.shards: int = facts.get("shards")
        self.steps_per_file: int = facts.get("steps_per_file", 0)
        self.dtype: str = facts.get("dtype", "")
        valid = facts.get("steps") == self.steps and facts.get("coordinates") == self.coordinates and is_count(self.shards, 0)
        if valid and self.shards:
            valid = self.dtype in ("<f4", "<f8") and is_count(self.steps_per_file, 1) and self.shards <= self.coordinates
        self.step_noise: float | None = facts.get("step_noise")
        valid = valid and (self.step_noise is None or type(self.step_noise) in (int, float) and 0 < self.step_noise < float("inf"))
        if not valid:
            raise RunDirectoryError(f"{directory.where(FOLDER)}: its index has facts that this version cannot read: {facts}")

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which maps and compares the files itself."""
        return {**self.__dict__, "_open": {}}

    def files(self, step: int, lo: int, hi: int) -> NDArray[Any]:
        """The noise of a step, coordinates [lo, hi), from the files. The caller must have looked at
        shards."""
        parts = []
        for shard in range(self.shards):
            first, end = shard_range(self.coordinates, shard, self.shards)
            if first < hi and end > lo:
                row = self._file(shard, step)
                parts.append(row[max(lo, first) - first : min(hi, end) - first])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _file(self, shard: int, step: int) -> NDArray[Any]:
        first = step - step % self.steps_per_file
        key = shard, first
        if key not in self._open:
            steps = min(self.steps_per_file, self.steps - first)
            lo, hi = shard_range(self.coordinates, shard, self.shards)
            name = f"shard-{shard:05d}-of-{self.shards:05d}/steps-{first:06d}-{first + steps - 1:06d}.npy"
            where = f"{self.folder.directory.where(FOLDER)}/{name}"
            values = _npy.view(self.folder.read_once(name), self.dtype, where)
            if values.shape != (steps, hi - lo):
                raise RunDirectoryError(f"{where}: its shape does not fit its shard and steps")
            # Steps are read in order: of each shard one file stays open.
            self._open = {k: v for k, v in self._open.items() if k[0] != shard}
            self._open[key] = values
        return np.asarray(self._open[key][step - first])
