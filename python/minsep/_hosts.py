"""The messages of the hosts of a training at each step, and the rules that they must satisfy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ._trainings import NEXT
from .errors import TrainingError

MOST_PARTS = 16  # parts of the noise that a host may read

_WORD = np.dtype([
    ("version", "<i8"), ("rank", "<i8"), ("ranks", "<i8"), ("primary", "<i8"), ("step", "<i8"), ("shards", "<i8"),
    ("parts", "<i8", (MOST_PARTS, 2)), ("summed", "<i8", MOST_PARTS), ("sums", "u1", (MOST_PARTS, 16)), ("run_id", "u1", 16), ("fingerprint", "u1", 32), ("token", "u1", 16), ("layout", "u1", 32), ("refused", "u1", 480),
])  # fmt: skip
SIZE = _WORD.itemsize
_VERSION = 3


@dataclass(frozen=True)
class Host:
    """The next step of a host, and the part of the noise that it reads."""

    rank: int
    ranks: int
    primary: bool
    step: int
    run_id: str
    fingerprint: str
    token: str  # of the training; "" if not known yet
    layout: str  # SHA-256 of the names and shapes of its parameters; "" if not known
    shards: int  # the number of shards of the noise; 0 if the host reads no noise
    parts: tuple[tuple[int, int], ...]  # shard and replica of each part that it reads
    sums: tuple[tuple[int, bytes], ...] = ()  # for each part: a step, -1 for none, and the digest of the values that it released
    refused: str = ""  # the reason why it takes no step; "" if it takes one

    def word(self) -> NDArray[np.uint8]:
        """This host in bytes, shape [SIZE], for an all-gather of any library."""
        w = np.zeros((), _WORD)
        w["version"], w["rank"], w["ranks"], w["primary"], w["step"], w["shards"] = _VERSION, self.rank, self.ranks, self.primary, self.step, self.shards
        w["parts"] = -1
        for i, part in enumerate(self.parts):
            w["parts"][i] = part
        w["summed"] = -1
        for i, (step, digest) in enumerate(self.sums):
            w["summed"][i], w["sums"][i] = step, np.frombuffer(digest, np.uint8)
        for name in "run_id", "fingerprint", "token", "layout":
            text = getattr(self, name)
            if text:
                w[name] = np.frombuffer(bytes.fromhex(text), np.uint8)
        said, most = self.refused.encode(), w["refused"].size
        if len(said) > most:  # its own log has the rest
            said = (said[: most - 3].decode("utf-8", "ignore") + "…").encode()
        w["refused"][: len(said)] = np.frombuffer(said, np.uint8)
        return np.frombuffer(w.tobytes(), np.uint8)


def read(gathered: Any) -> list[Host]:
    """The hosts, from the result of an all-gather of their words: an array of shape [hosts, SIZE],
    or a sequence of words."""
    words = np.asarray(gathered)
    if words.dtype == object or words.size == 0 or words.size % SIZE:
        raise ValueError(f"gathered: must hold the word of every host, {SIZE} bytes each: the result of an all-gather of the guards' words")
    rows = np.ascontiguousarray(words.reshape(-1, SIZE).astype(np.uint8))
    hosts = []
    for row in rows:
        w = np.frombuffer(row.tobytes(), _WORD)[0]
        if w["version"] != _VERSION:
            raise TrainingError("hosts: have different versions of this package: install the same one on all of them")
        text = {name: "" if not w[name].any() else bytes(w[name]).hex() for name in ("run_id", "fingerprint", "token", "layout")}
        parts = tuple((int(shard), int(replica)) for shard, replica in w["parts"] if shard >= 0)
        sums = tuple((int(step), digest.tobytes()) for step, digest in zip(w["summed"][: len(parts)], w["sums"])) if (w["summed"] >= 0).any() else ()
        refused = w["refused"].tobytes().rstrip(b"\0").decode("utf-8", "ignore")
        hosts.append(Host(int(w["rank"]), int(w["ranks"]), bool(w["primary"]), int(w["step"]), shards=int(w["shards"]), parts=parts, sums=sums, refused=refused, **text))
    return hosts


def tell(gather: Callable[[NDArray[np.uint8]], Any], host: Host) -> None:
    """Sends the word of a host that takes no step. The others read it in their comparison, and do
    not wait for the host."""
    sys.stderr.write(f"minsep: host {host.rank} takes no step, and tells the others: {host.refused}\n")  # at once, however long that takes
    try:
        gather(host.word())
    except Exception:  # of any library: the others have ended
        pass


def check(hosts: Sequence[Host]) -> str:
    """Refuses hosts unless all take the same step of the same training, and together read the noise
    of every coordinate. Returns the token of the training."""
    count = len(hosts)
    for h in hosts:
        if h.refused:
            raise TrainingError(f"hosts: host {h.rank} takes no step, so no other host may: {h.refused}")
    if sorted(h.rank for h in hosts) != list(range(count)) or any(h.ranks != count for h in hosts):
        said = ", ".join(f"{h.rank} of {h.ranks}" for h in hosts)
        raise TrainingError(f"hosts: {count} have answered, as ranks {said}: give each host a rank of its own, from 0, and the number of hosts as ranks")
    _alike(hosts, "run_id", "run {}", "open the run directory of one run on all of them")
    _alike(hosts, "fingerprint", "batches and a recipe of noise of digest {:.8}", "copy the run directory to all of them again")
    primaries = [h.rank for h in hosts if h.primary]
    if len(primaries) != 1:
        said = "no host" if not primaries else "hosts " + ", ".join(map(str, primaries))
        raise TrainingError(f"hosts: {said} would keep the record of the training: exactly one must: host 0, or the host with primary=True")
    token = next(h.token for h in hosts if h.primary)
    for h in hosts:
        if h.token not in ("", token):
            raise TrainingError(f"hosts: host {h.rank} has a checkpoint of another training than host {primaries[0]}, or a record of one in its run directory: resume all of them from checkpoints of one training")
    _alike(hosts, "step", "step {}", "resume all of them from the checkpoint of one step")
    _check_noise([h for h in hosts if h.shards])
    return token


def _alike(hosts: Sequence[Host], name: str, words: str, way_out: str) -> None:
    """Refuses hosts that differ in a field."""
    values: dict[Any, list[int]] = {}
    for h in hosts:
        values.setdefault(getattr(h, name), []).append(h.rank)
    if len(values) > 1:
        said = "; ".join(f"{_ranks(ranks)} at {words.format(value)}" if name == "step" else f"{_ranks(ranks)} with {words.format(value)}" for value, ranks in values.items())
        raise TrainingError(f"hosts: {said}: {way_out}")


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:4])) + (", …" if len(ranks) > 4 else "")
    return ("host " if len(ranks) == 1 else "hosts ") + shown


def _check_noise(hosts: Sequence[Host]) -> None:
    """Refuses hosts that divide the noise in different ways, leave a part out, or take one twice."""
    if not hosts:
        return
    _alike(hosts, "shards", "the noise in {} shards", "give read_noise the same shards on all of them")
    shards = hosts[0].shards
    takers: dict[tuple[int, int], int] = {}
    layouts: dict[int, Host] = {}
    for h in hosts:
        for part in h.parts:
            if shards > 1 and takers.setdefault(part, h.rank) != h.rank:
                raise TrainingError(
                    f"hosts: hosts {takers[part]} and {h.rank} take shard {part[0]} of {shards} of the noise: two sums with the same noise reveal their difference. Give each host a shard of its own; "
                    "hosts that hold the same parameters, and so the same sums, say so by read_noise(…, replica=1) and so on"
                )
            other = layouts.setdefault(part[0], h)
            if other.layout and h.layout and other.layout != h.layout:
                raise TrainingError(f"hosts: hosts {other.rank} and {h.rank} take shard {part[0]} of {shards} of the noise for parameters of different names or shapes: each parameter must have noise of its own")
    _check_sums(hosts)
    missing = sorted(set(range(shards)) - {shard for shard, _ in takers}) if shards > 1 else []
    if missing:
        raise TrainingError(f"hosts: no host takes shard {missing[0]} of {shards} of the noise: its parameters would have no noise. Let a host read it")


def _check_sums(hosts: Sequence[Host]) -> None:
    """Refuses hosts that added the noise of a step to different sums."""
    seen: dict[tuple[int, int], tuple[bytes, int]] = {}
    for h in hosts:
        for (shard, _), (step, digest) in zip(h.parts, h.sums):
            if step < 0:
                continue
            other, rank = seen.setdefault((shard, step), (digest, h.rank))
            if other != digest:
                raise TrainingError(
                    f"hosts: hosts {rank} and {h.rank} added the noise of step {step} to different sums, and the difference of the two results shows what the noise must hide: discard the training. "
                    f"Add up the sums of all hosts first, and give the whole sum to add_noise on each host. For several trainings, such as a sweep, {NEXT}"
                )
