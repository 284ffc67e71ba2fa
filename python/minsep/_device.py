"""Noise made where it is used: the arithmetic of a recipe with words by ChaCha12, for any package
of arrays.

The package comment of internal/noise gives every operation. Here each is written once, over the
few functions of `Ops` that NumPy, JAX and PyTorch have under other names. All of them make the bits
of the command: a product is rounded before it is added, which `Ops.unfused` sees to where a
compiler might add it unrounded.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import stat
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ._files import parse
from ._noise import hexadecimal
from ._run import Run
from .errors import MinsepError, RunDirectoryError

BLOCK = 8  # normals of one block of ChaCha12
_TWO_LN2 = float.fromhex("0x1.62e42fefa39efp+0")
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of √½
_LOG = "0x1.5555555555558p+0 0x1.99999999952e2p-1 0x1.2492492df148dp-1 0x1.c71c62e5800a1p-2 0x1.7462b4ab2ef6bp-2 0x1.39fe606542ddep-2 0x1.2b584aae78a57p-2"
_SIN = "0x1.921fb54442d18p-1 -0x1.4abbce625be41p-4 0x1.466bc677587f8p-9 -0x1.32d2cce2e5b19p-15 0x1.50782fda12d96p-22 -0x1.e30071afc3e59p-30 0x1.e3f38399551bfp-38"
_COS = "0x1p+0 -0x1.3bd3cc9be458bp-2 0x1.03c1f081b0780p-6 -0x1.55d3c7dbfd139p-12 0x1.e1f4fb60281f6p-19 -0x1.a6c9c1be9eb49p-26 0x1.f3dbcea61b1a4p-34"
_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4")  # of RFC 8439
_HELD = 2.0**24  # multiples of the grid that a float32 holds


class Ops:
    """The functions that noise is made of, for NumPy, which rounds every operation; another package
    has its own in place of some. Words are arrays of uint32, which add modulo 2^32."""

    def words(self, numbers: Any) -> Sequence[Any]:
        """Numbers of 32 bits, each to be combined with words."""
        return list(numbers)

    def rotate(self, x: Any, n: int) -> Any:
        """Words rotated to the left by n bits, 0 < n < 32."""
        return x << np.uint32(n) | x >> np.uint32(32 - n)

    def shift(self, x: Any, n: int) -> Any:
        """Words shifted to the right by n bits, zeros following."""
        return x >> np.uint32(n)

    def double(self, x: Any) -> Any:
        """Words, or whole numbers of 64 bits, as float64."""
        return x.astype(np.float64)

    def bits(self, x: Any) -> Any:
        """The bits of float64 as whole numbers of 64 bits."""
        return x.view(np.int64)

    def unbits(self, x: Any) -> Any:
        """The float64 of such bits."""
        return x.view(np.float64)

    def unfused(self, x: Any) -> Any:
        """x, a product, which no compiler adds before it is rounded."""
        return x

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def stack(self, arrays: Sequence[Any]) -> Any:
        """Arrays beside each other along a new last axis."""
        return np.stack(arrays, axis=-1)

    def repeat(self, times: int, change: Callable[[list[Any]], list[Any]], x: list[Any]) -> list[Any]:
        """Arrays that were changed so many times."""
        for _ in range(times):
            x = change(x)
        return x


def chacha(ops: Ops, key: Sequence[Any], counter: tuple[Any, Any], step: tuple[Any, Any]) -> list[Any]:
    """The 16 words of each block of ChaCha12: key has 8 words, counter and step the low and the
    high word of a number."""
    like = counter[0]
    first = [*(like ^ like ^ c for c in ops.words(_CONSTANTS)), *(like ^ like ^ k for k in key), *counter, *(like ^ like ^ s for s in step)]

    def two_rounds(x: list[Any]) -> list[Any]:
        x = list(x)
        for turn in range(2):  # columns, then diagonals
            for i in range(4):
                a, b, c, d = i, 4 + (i + turn) % 4, 8 + (i + 2 * turn) % 4, 12 + (i + 3 * turn) % 4
                for p, q, r, left in (a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7):
                    x[p] = x[p] + x[q]
                    x[r] = ops.rotate(x[r] ^ x[p], left)
        return x

    return [a + b for a, b in zip(ops.repeat(6, two_rounds, first), first)]


def _add(ops: Ops, x: Any, y: Any, z: Any) -> Any:
    """x y + z, each rounded."""
    return ops.unfused(x * y) + z


def _polynomial(ops: Ops, text: str, x: Any) -> Any:
    highest, *rest = [float.fromhex(c) for c in reversed(text.split())]
    p: Any = highest
    for c in rest:
        p = _add(ops, p, x, c)
    return p


def whole(ops: Ops, low: Any, high: Any) -> Any:
    """Numbers of 64 bits as float64, rounded once."""
    return ops.double(high) * 2.0**32 + ops.double(low)


def radius(ops: Ops, u: Any, exponent: Any) -> Any:
    """sqrt(-2 ln(u 2^-exponent)) of float64 u from 2^40 to 2^64."""
    b = ops.bits(u)
    k = (b - _SQRT_HALF) >> 52
    m = ops.unbits(b - (k << 52))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    t = _add(ops, s * q, _polynomial(ops, _LOG, q), 4.0 * s)
    return ops.sqrt(_add(ops, ops.double(exponent - k), _TWO_LN2, -t))


def circle(ops: Ops, low: Any, high: Any) -> tuple[Any, Any]:
    """Cosine and sine of the angles of words of 64 bits."""
    x = (ops.double(high) * 2.0**20 + ops.double(ops.shift(low, 12)) + 0.5) * 2.0**-52  # exact
    y = x * x
    sin, cos = x * _polynomial(ops, _SIN, y), _polynomial(ops, _COS, y)
    swap = (low & 1) != 0
    sin, cos = ops.where(swap, cos, sin), ops.where(swap, sin, cos)
    return ops.where((low & 2) != 0, -cos, cos), ops.where((low & 4) != 0, -sin, sin)


def polar(ops: Ops, words: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """The 4 pairs of each block along a new last axis: radii, cosines, sines, and which are short,
    so that `tail_radius` has the radius."""
    found = []
    for pair in range(4):
        low, high, angle_low, angle_high = words[4 * pair : 4 * pair + 4]
        found.append((radius(ops, whole(ops, low, high), 64), *circle(ops, angle_low, angle_high), ops.shift(high, 8) == 0))  # short: below 2^40
    radii, cosines, sines, short = (ops.stack(column) for column in zip(*found))
    return radii, cosines, sines, short


def cartesian(ops: Ops, radii: Any, cosines: Any, sines: Any) -> Any:
    """The 8 normals of each block along the last axis."""
    both = ops.stack([ops.unfused(radii * cosines), ops.unfused(radii * sines)])
    return both.reshape(*both.shape[:-2], BLOCK)


def tail_radius(word: int, more: Callable[[int], Sequence[int]]) -> float:
    """The radius of a short pair: more(r) gives the two words that follow for r = 0, 1, …"""
    number, size, r = word, 64, 0
    while number.bit_length() < 64:
        for w in more(r):
            number, size = number << 64 | int(w), size + 64
        r += 1
    first = number >> (number.bit_length() - 64)
    return float(radius(Ops(), np.array([float(first)]), 64 + size - number.bit_length())[0])


@dataclass(frozen=True)
class DeviceRecipe:
    """What a device needs of a recipe with words by ChaCha12, and of the key: the keys of normals
    and of tails of each step, which are secret."""

    keys: Callable[[int], tuple[NDArray[Any], NDArray[Any]]]  # of a step: each [8], uint32
    steps: int
    coordinates: int
    scale: NDArray[Any]  # [steps]: σ ζ D_t
    grid: float  # 0 for none
    gain: NDArray[Any]  # [1] or [steps]
    feedback: NDArray[Any]  # [1 or steps, bands - 1], the nearest step first
    filter: NDArray[Any]  # [bands]
    blt: NDArray[Any]  # [2, buffers]: scales and decays
    kind: str  # feedback, filter or blt
    digest: str  # of the parameters of the noise

    def __repr__(self) -> str:  # without the keys
        return f"DeviceRecipe({self.digest[:16]})"

    @property
    def state_rows(self) -> int:
        """Rows of float64 that are kept from step to step."""
        rows = {"feedback": self.feedback.shape[1], "filter": 0, "blt": self.blt.shape[1]}
        return int(rows[self.kind])

    @property
    def held(self) -> float:
        """How many multiples of the grid the noise may be: those that a float32 holds or, where the
        grid is for float64, such a number."""
        wide = self.grid > 0 and float(self.scale.max()) > self.grid * _HELD
        return 2.0**53 if wide else _HELD

    def short(self, step: int, pair: int) -> float:
        """The radius of a short pair, on the host."""
        normals, tails = self.keys(step)
        word = _pair_words(normals, step, pair)[0]
        return tail_radius(word, lambda r: _pair_words(tails, step, pair + (r << 48)))

    def host_normals(self, step: int, first: int, end: int) -> NDArray[Any]:
        """z[step, first:end], by NumPy."""
        low, high = first // BLOCK, (end + BLOCK - 1) // BLOCK
        blocks = np.arange(low, high, dtype=np.uint64)
        ops = Ops()
        radii, cosines, sines, short = polar(ops, chacha(ops, list(self.keys(step)[0]), split(blocks), split(np.uint64(step))))
        for block, pair in zip(*np.nonzero(short)):
            radii[block, pair] = self.short(step, (low + int(block)) * 4 + int(pair))
        flat: NDArray[Any] = cartesian(ops, radii, cosines, sines).reshape(-1)[first - low * BLOCK :][: end - first]
        return flat

    def host_row(self, step: int, first: int, end: int) -> NDArray[Any]:
        """The noise of a step, from step 0 on where a strategy needs it, by NumPy: to compare a
        device with."""
        row, state = np.zeros(0), [np.zeros(end - first)] * self.state_rows
        for t in range(0 if self.state_rows else step, step + 1):
            row, state = correlate(self.kind, Ops(), coefficients(self, t), [self.host_normals(s, first, end) for s in needed(self, t)], state)
        return np.asarray(rounded(Ops(), row, self.scale[step], self.grid, np.rint, np.abs, self.held), np.float64)


def needed(recipe: DeviceRecipe, t: int) -> range:
    """The steps whose normals step t takes, besides the state."""
    return range(max(0, t - len(recipe.filter) + 1), t + 1) if recipe.kind == "filter" else range(t, t + 1)


def coefficients(recipe: DeviceRecipe, t: int) -> NDArray[Any]:
    """Those of step t, which `correlate` takes."""
    if recipe.kind == "filter":
        return recipe.filter[: len(needed(recipe, t))]
    if recipe.kind == "blt":
        return recipe.blt
    gain, f = recipe.gain[t % len(recipe.gain)], recipe.feedback[t % len(recipe.feedback)] if len(recipe.feedback) else np.zeros(0)
    return np.concatenate([[gain], f])


def correlate(kind: str, ops: Ops, c: Any, z: Sequence[Any], state: Any) -> tuple[Any, list[Any]]:
    """A row of u, and the state after it. z are the normals of the needed steps, oldest first;
    state has the rows, the latest first for feedback. Sums begin with the oldest row."""
    if kind == "filter":
        u = ops.unfused(c[len(z) - 1] * z[0]) + 0.0
        for j in range(len(z) - 2, -1, -1):
            u = _add(ops, c[j], z[len(z) - 1 - j], u)
        return u, []
    if kind == "blt":
        u = z[0]
        for m, row in enumerate(state):
            u = _add(ops, -c[0][m], row, u)
        return u, [_add(ops, c[1][m], row, u) for m, row in enumerate(state)]
    u = ops.unfused(c[0] * z[0])
    for j in range(len(state), 0, -1):
        u = _add(ops, c[j], state[j - 1], u)
    return u, [u, *state][: len(state)]


def rounded(ops: Ops, u: Any, scale: Any, grid: float, rint: Callable[[Any], Any], absolute: Callable[[Any], Any], held: float = _HELD) -> Any:
    """ζ σ D u on the grid; NaN where it is more than held multiples of it."""
    value = ops.unfused(u * scale)
    if grid:
        multiples = rint(value * (1 / grid))
        value = ops.where(absolute(multiples) <= held, multiples * grid, float("nan"))
    return ops.where(value == 0, 0.0, value)  # every zero is positive


def split(number: Any) -> tuple[Any, Any]:
    """The low and the high word of numbers."""
    return (number & np.uint64(0xFFFFFFFF)).astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32)


def _pair_words(key: NDArray[Any], step: int, pair: int) -> list[int]:
    words = chacha(Ops(), list(key), split(np.array([pair // 4], np.uint64)), split(np.uint64(step)))
    at = 4 * (pair % 4)
    return [int(words[at + i][0]) | int(words[at + i + 1][0]) << 32 for i in (0, 2)]


def _expand(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) of 32 bytes."""
    extracted = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def _read_key(path: str | os.PathLike[str]) -> bytes:
    """The root key in a file, by the rules of the command."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as e:
        raise MinsepError(f"key {path}: cannot be read: {e.strerror}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise MinsepError(f"key {path}: must be a regular file")
        if os.name == "posix" and mode & 0o077:
            raise MinsepError(f"key {path}: other users may read or write it: its mode must be 0600 (chmod 600)")
        key = os.read(descriptor, 1 << 10)
    finally:
        os.close(descriptor)
    if len(key) != 32 or len(set(key)) == 1:
        raise MinsepError(f"key {path}: is no key: must have exactly 32 bytes; minsep keygen FILE makes one")
    return key


def keyed(run: Run, key: str | os.PathLike[str]) -> tuple[Any, bytes]:
    """The recipe of a run's noise, and the secret of its words. Another key is a MinsepError."""
    noise = run._need_noise()
    recipe: Any = parse(bytes(noise.folder.read_once("recipe.json")).decode(), f"{run.path}/noise/recipe.json")
    secret = _expand(_read_key(key), bytes.fromhex(noise.folder.run_id) + bytes.fromhex(noise.params_digest), b"noise")
    if _expand(secret, b"", b"commitment").hex() != recipe.get("key_commitment"):
        raise MinsepError(f"key {key}: is not the key that the noise of {run.path} was made with")
    return recipe, secret


def open_recipe(run: Run, key: str | os.PathLike[str], step_bytes: Callable[[int], bytes]) -> DeviceRecipe:
    """The recipe of a run, and its keys from the file of the root key and the random bytes of steps.

    Raises RunDirectoryError for words by AES-128, or a recipe that this version cannot read."""
    noise = run._need_noise()
    where = f"{run.path}/noise/recipe.json"
    if noise.words != "chacha12":
        raise RunDirectoryError(
            f'{where}: has random words by {noise.words}: a device makes noise from random words by chacha12 only: make the noise with --words chacha12 (in a plan: "words": "chacha12" in noise)'
        )
    recipe, secret = keyed(run, key)
    noising = recipe.get("noising")
    if not isinstance(noising, dict):
        raise RunDirectoryError(f"{where}: has no noising")

    def numbers(values: Any) -> NDArray[Any]:
        return np.array([hexadecimal(v, where) for v in values], np.float64)

    kind = "filter" if "filter" in noising else "blt" if "scales" in noising else "feedback"
    rows = noising.get("feedback", [])

    @functools.lru_cache(maxsize=1024)
    def keys(step: int) -> tuple[NDArray[Any], NDArray[Any]]:
        normals, tails = (np.frombuffer(_expand(secret, step_bytes(step), purpose), "<u4") for purpose in (b"normals", b"tails"))
        return normals, tails

    return DeviceRecipe(
        keys=keys,
        steps=noise.steps,
        coordinates=noise.coordinates,
        scale=noise.noise_multiplier * noise.clip_norm * (numbers(noising["row_scale"]) if "row_scale" in noising else np.ones(noise.steps)),
        grid=noise.grid,
        gain=numbers(noising.get("gain", [])),
        feedback=_table([numbers(row) for row in rows]),
        filter=numbers(noising.get("filter", [])),
        blt=np.stack([numbers(noising.get("scales", [])), numbers(noising.get("decays", []))]),
        kind=kind,
        digest=noise.params_digest,
    )


def _table(rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Rows of coefficients, the shorter ones of the first steps filled with zeros: they meet rows
    of zeros."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)))
    for row, values in zip(table, rows):
        row[: len(values)] = values
    return table
