"""Makes minsep's noise from a recipe with NumPy alone, and compares it with what minsep wrote.

    noise_recipe.py --key FILE NOISE_DIR     every shard in NOISE_DIR
    noise_recipe.py --vectors FILE           frozen test vectors

With words by AES-128 values agree to 1e-12 of their size or of the deviation of independent noise, whichever is larger,
before they are rounded to the grid; after it to that and one step of the grid. With words by ChaCha12 they agree to the
last bit. Exit codes: 0 all values agree; 1 some differ; 2 a fault in the command line; 3 nothing to compare, without
noise --files. Use `rows` in a trainer that makes its own noise, and `contribution` in every trainer.
"""

import argparse
import hashlib
import json
import pathlib
import re
import sys

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FORMAT = "minsep-noise-recipe/4"
NOTHING_TO_COMPARE = 3  # exit code


def expand(secret, salt, info):
    return HKDF(hashes.SHA256(), 32, salt, info.encode()).derive(secret)


def check(recipe):
    """Checks the hashes of a recipe."""
    if recipe["format"] != FORMAT or recipe["params"]["words"] not in ("aes-128", "chacha12"):
        raise ValueError(f"format {recipe['format']!r} with words {recipe['params'].get('words')!r}: this script reads {FORMAT}, with words aes-128 or chacha12")

    def digest(value):
        return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()

    if digest(recipe["noising"]) != recipe["params"]["noising_sha256"]:
        raise ValueError("the coefficients are not those of noising_sha256")
    if digest(recipe["params"]) != recipe["params_sha256"]:
        raise ValueError("the parameters are not those of params_sha256")


def noise_key(recipe, root):
    """Derives the key of the noise and checks that it is the one of the recipe."""
    salt = bytes.fromhex(recipe["run_id"]) + bytes.fromhex(recipe["params_sha256"])
    key = expand(root, salt, "noise")
    if expand(key, None, "commitment").hex() != recipe["key_commitment"]:
        raise ValueError("the key is not the one that the recipe was made with")
    return key


def blocks(key, step, counters):
    """The two words of each block (step, counter): uint64 [counters, 2]."""
    plain = np.empty((len(counters), 2), dtype=">u8")
    plain[:, 0] = step
    plain[:, 1] = counters
    cipher = Cipher(algorithms.AES(key[:16]), modes.ECB()).encryptor()
    return np.frombuffer(cipher.update(plain.tobytes()), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def tail_radius(key, word, step, pair):
    """sqrt(-2 ln U) for a radius word with 12 leading zeros or more, from all of its bits."""
    number, size, r = word, 64, 0
    while number.bit_length() < 64:
        for w in blocks(key, step, np.array([pair + (r << 48)], dtype=np.uint64))[0]:
            number, size = number << 64 | int(w), size + 64
        r += 1
    shift = number.bit_length() - 64
    return np.sqrt(-2 * (np.log(float(number >> shift) / 2.0**64) - (size - number.bit_length()) * np.log(2.0)))


def chacha(key, step, counters):
    """The two words of each pair of a step by ChaCha12: uint64 [counters, 2]."""
    numbers, place = np.unique(counters // np.uint64(4), return_inverse=True)
    x = np.empty((16, len(numbers)), dtype=np.uint32)
    x[:4] = np.frombuffer(b"expand 32-byte k", dtype="<u4")[:, None]
    x[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    x[12], x[13] = numbers & np.uint64(0xFFFFFFFF), numbers >> np.uint64(32)
    x[14], x[15] = step & 0xFFFFFFFF, step >> 32
    first = x.copy()

    def quarter(a, b, c, d):
        for p, q, r, left in (a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7):
            x[p] += x[q]
            x[r] ^= x[p]
            x[r] = x[r] << np.uint32(left) | x[r] >> np.uint32(32 - left)

    for _ in range(6):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    words = np.ascontiguousarray((x + first).T).astype("<u4").view("<u8")  # [blocks, 8]
    pair = (counters % np.uint64(4)).astype(np.int64)
    return np.stack([words[place, 2 * pair], words[place, 2 * pair + 1]], axis=1).astype(np.uint64)


# 2 ln 2, and the coefficients of M, S and C of the derivation, from the lowest degree.
TWO_LN2 = float.fromhex("0x1.62e42fefa39efp+0")
POLYNOMIALS = {
    "M": "0x1.5555555555558p+0 0x1.99999999952e2p-1 0x1.2492492df148dp-1 0x1.c71c62e5800a1p-2 0x1.7462b4ab2ef6bp-2 0x1.39fe606542ddep-2 0x1.2b584aae78a57p-2",
    "S": "0x1.921fb54442d18p-1 -0x1.4abbce625be41p-4 0x1.466bc677587f8p-9 -0x1.32d2cce2e5b19p-15 0x1.50782fda12d96p-22 -0x1.e30071afc3e59p-30 0x1.e3f38399551bfp-38",
    "C": "0x1p+0 -0x1.3bd3cc9be458bp-2 0x1.03c1f081b0780p-6 -0x1.55d3c7dbfd139p-12 0x1.e1f4fb60281f6p-19 -0x1.a6c9c1be9eb49p-26 0x1.f3dbcea61b1a4p-34",
}


def polynomial(name, x):
    highest, *rest = [float.fromhex(c) for c in reversed(POLYNOMIALS[name].split())]
    p = np.full_like(x, highest)
    for c in rest:
        p = p * x + c
    return p


def exact_radius(u, exponent):
    """sqrt(-2 ln(u 2^-exponent)), to the bit."""
    bits = u.view(np.uint64)
    k = (bits - np.uint64(0x3FE6A09E667F3BCD)) >> np.uint64(52)
    m = (bits - (k << np.uint64(52))).view(np.float64)
    s = (m - 1) / (m + 1)
    q = s * s
    return np.sqrt((exponent - k.astype(np.float64)) * TWO_LN2 - ((s * q) * polynomial("M", q) + 4 * s))


def exact_normals(keys, step, lo, hi):
    """z[step, lo:hi] of words by ChaCha12, to the bit."""
    main, tails = keys
    pairs = np.arange(lo // 2, (hi + 1) // 2, dtype=np.uint64)
    w0, w1 = np.ascontiguousarray(chacha(main, step, pairs).T)
    radius = exact_radius(w0.astype(np.float64), 64.0)
    for i in np.flatnonzero(w0 < np.uint64(1 << 40)):
        number, size, r = int(w0[i]), 64, 0
        while number.bit_length() < 64:
            for w in chacha(tails, step, np.array([int(pairs[i]) + (r << 48)], dtype=np.uint64))[0]:
                number, size = number << 64 | int(w), size + 64
            r += 1
        first = number >> (number.bit_length() - 64)
        radius[i] = exact_radius(np.array([float(first)]), 64.0 + size - number.bit_length())[0]
    x = ((w1 >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    y = x * x
    cos, sin = polynomial("C", y), x * polynomial("S", y)
    swap = (w1 & np.uint64(1)) != 0
    cos, sin = np.where(swap, sin, cos), np.where(swap, cos, sin)
    cos = np.where((w1 & np.uint64(2)) != 0, -cos, cos)
    sin = np.where((w1 & np.uint64(4)) != 0, -sin, sin)
    z = np.stack([radius * cos, radius * sin], axis=1).reshape(-1)
    return z[lo - 2 * (lo // 2) :][: hi - lo]


def normals(keys, step, lo, hi):
    """z[step, lo:hi] of words by AES-128."""
    main, tails = keys
    pairs = np.arange(lo // 2, (hi + 1) // 2, dtype=np.uint64)
    w0, w1 = blocks(main, step, pairs).T
    u = w0.astype(np.float64) * 2.0**-64
    near_one = u > 0.5
    with np.errstate(divide="ignore"):
        log_u = np.log(u)
    log_u[near_one] = np.log1p(u[near_one] - 1)
    radius = np.sqrt(-2 * log_u)
    for i in np.flatnonzero(w0 < np.uint64(1 << 52)):
        radius[i] = tail_radius(tails, int(w0[i]), step, int(pairs[i]))
    x = ((w1 >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    cos, sin = np.cos(np.pi / 4 * x), np.sin(np.pi / 4 * x)
    swap = (w1 & np.uint64(1)) != 0
    cos, sin = np.where(swap, sin, cos), np.where(swap, cos, sin)
    cos = np.where((w1 & np.uint64(2)) != 0, -cos, cos)
    sin = np.where((w1 & np.uint64(4)) != 0, -sin, sin)
    z = np.stack([radius * cos, radius * sin], axis=1).reshape(-1)
    return z[lo - 2 * (lo // 2) :][: hi - lo]


def correlated(noising, normals, first, steps):
    """u[first : first+steps], one row at a time, of the rows of normals(step). Sums are in the order of the package, the oldest first."""

    def floats(name):
        return [float.fromhex(v) for v in noising.get(name, [])]

    def at(rows, t):
        return rows[0] if len(rows) == 1 else rows[t]

    if "filter" in noising:
        h = floats("filter")
        z = {}
        for t in range(max(0, first - len(h) + 1), first + steps):
            z[t] = normals(t)
            z.pop(t - len(h), None)
            if t >= first:
                u = np.zeros_like(z[t])
                for j in reversed(range(len(h))):
                    if t - j in z:
                        u = h[j] * z[t - j] + u
                yield u
    elif "scales" in noising:
        scales, decays = floats("scales"), floats("decays")
        buffers = [0.0] * len(scales)
        for t in range(first + steps):
            u = normals(t)
            for scale, s in zip(scales, buffers):
                u = u - scale * s
            for m, decay in enumerate(decays):
                buffers[m] = decay * buffers[m] + u
            if t >= first:
                yield u
    else:
        gain = floats("gain")
        feedback = [[float.fromhex(v) for v in row] for row in noising.get("feedback", [])]
        bands = 1 + max((len(row) for row in feedback), default=0)
        past = []  # the latest first
        for t in range(0 if feedback else first, first + steps):
            u = at(gain, t) * normals(t)
            for f, v in reversed(list(zip(at(feedback, t) if feedback else [], past))):
                u = u + f * v
            past = [u, *past][: bands - 1]
            if t >= first:
                yield u


def contribution(gradient, clip_norm, grid):
    """What a trainer adds for one example: its gradient, clipped and rounded toward zero to multiples of the grid, in float64.

    The gradient is of any floating-point type; from here on all is float64. clip_norm is lowered by more than the roundings of the norm,
    of the factor and of the products can raise the result, for up to 2**32 coordinates and any order of summation: the norm of
    what is returned is at most clip_norm. A gradient whose norm is not finite counts as zero. Grid 0 is none.
    """
    x = np.asarray(gradient, dtype=np.float64)
    with np.errstate(over="ignore"):
        norm = np.sqrt(np.sum(np.square(x)))
    if not np.isfinite(norm):
        return np.zeros_like(x)
    limit = clip_norm * (1 - 2.0**-20)
    if norm > limit:
        x = x * (limit / norm)
    return np.trunc(x / grid) * grid if grid else x


def is_exact(recipe):
    """Whether every implementation of the recipe makes the same bits."""
    return recipe["params"]["words"] == "chacha12"


def value_error(recipe, value, scale):
    """How far the implementations may differ before rounding to the grid."""
    return 0 if is_exact(recipe) else 1e-12 * np.maximum(np.abs(value), scale)


def rows(recipe, root, first, steps, lo, hi, rounded=True):
    """Yields the noise of steps [first, first+steps) and coordinates [lo, hi), one float64 row a step."""
    key = noise_key(recipe, root)
    step_bytes = [bytes.fromhex(b) for b in recipe["step_bytes"]]
    params, noising = recipe["params"], recipe["noising"]
    scale = float.fromhex(params["noise_multiplier"]) * float.fromhex(params["clip_norm"])
    grid = float.fromhex(params["grid"])
    row_scale = [float.fromhex(v) for v in noising.get("row_scale", [])]
    draw = exact_normals if is_exact(recipe) else normals
    for t, u in enumerate(correlated(noising, lambda step: draw([expand(key, step_bytes[step], use) for use in ("normals", "tails")], step, lo, hi), first, steps), first):
        value = u * (scale * row_scale[t] if row_scale else scale)
        yield np.rint(value / grid) * grid if rounded and grid else value


def compare(what, got, want, tolerance):
    """Prints and returns whether got is within tolerance of want."""
    off = np.abs(np.asarray(got, dtype=np.float64) - want)
    if off.shape != np.shape(want) or not np.all(off <= tolerance):
        print(f"{what}: differs by up to {off.max():.3g}")
        return False
    return True


def check_vectors(path):
    ok, values = True, 0
    for v in json.loads(path.read_text()):
        recipe, root = v["recipe"], bytes.fromhex(v["root_key"])
        check(recipe)
        scale = float.fromhex(recipe["params"]["noise_multiplier"]) * float.fromhex(recipe["params"]["clip_norm"])
        grid = float.fromhex(recipe["params"]["grid"])
        shape = v["steps"], v["hi"] - v["lo"]
        for name, rounded in ("unrounded", False), ("rounded", True):
            want = np.array([float.fromhex(x) for x in v[name]]).reshape(shape)
            got = np.array(list(rows(recipe, root, v["first_step"], v["steps"], v["lo"], v["hi"], rounded)))
            tolerance = value_error(recipe, want, scale) + (grid if rounded and not is_exact(recipe) else 0)
            ok = compare(f"vector {v['name']}, {name}", got, want, tolerance) and ok
            values += want.size
    print(f"{values} values of {path.name}: {'agree' if ok else 'DIFFER'}")
    return ok


def shard_range(coordinates, shard, shards):
    """Coordinates of a shard: the first coordinates mod shards of them have one more than the others."""
    size, more = divmod(coordinates, shards)
    lo = shard * size + min(shard, more)
    return lo, lo + size + (shard < more)


def check_shards(folder, root):
    recipe = json.loads((folder / "recipe.json").read_text())
    check(recipe)
    coordinates = recipe["params"]["coordinates"]
    grid = float.fromhex(recipe["params"]["grid"])
    scale = float.fromhex(recipe["params"]["noise_multiplier"]) * float.fromhex(recipe["params"]["clip_norm"])
    files = sorted(folder.glob("shard-*/steps-*.npy"))
    if not files:
        noise_key(recipe, root)
        print(f"{folder}: the recipe is sound and the key is the one it was made with; there are no files of noise to compare")
        sys.exit(NOTHING_TO_COMPARE)
    ok, values, equal = True, 0, 0
    for path in files:
        shard, shards = map(int, re.fullmatch(r"shard-(\d+)-of-(\d+)", path.parent.name).groups())
        first, last = map(int, re.fullmatch(r"steps-(\d+)-(\d+)", path.stem).groups())
        lo, hi = shard_range(coordinates, shard, shards)
        stored = np.load(path, mmap_mode="r")
        if stored.shape != (last - first + 1, hi - lo):
            print(f"{path}: shape {stored.shape}")
            ok = False
            continue
        for t, row in enumerate(rows(recipe, root, first, last - first + 1, lo, hi)):
            if is_exact(recipe):
                row, tolerance = row.astype(stored.dtype), 0
            else:
                tolerance = value_error(recipe, row, scale) + grid + (2.0**-23 * np.abs(row) if stored.dtype == np.float32 and not grid else 0)
            ok = compare(f"{path} step {first + t}", stored[t], row, tolerance) and ok
            values, equal = values + row.size, equal + np.count_nonzero(stored[t] == row.astype(stored.dtype))
    print(f"{values} values, {equal} of them equal, the rest within rounding: {'agree' if ok else 'DIFFER'}")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", type=pathlib.Path, help="file of the root key")
    parser.add_argument("--vectors", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    args = parser.parse_args()
    if (args.vectors is None) == (args.folder is None) or (args.folder is not None and args.key is None):
        parser.error("give --vectors FILE, or --key FILE and a folder")
    ok = check_vectors(args.vectors) if args.vectors else check_shards(args.folder, args.key.read_bytes())
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
