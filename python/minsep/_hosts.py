"""The messages of the hosts of a training at each step, and the rules that they must satisfy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .errors import TrainingError

MOST_PARTS = 16  # parts of the noise that a host may read
STEP_BYTES = 16  # random bytes of a step, which are part of the key of its noise
AHEAD = 34  # steps whose bytes are known before the first of them: a stream makes one row before it is wanted, with the bytes of 32 steps after it

_WORD = np.dtype([
    ("version", "<i8"), ("rank", "<i8"), ("ranks", "<i8"), ("step", "<i8"), ("shards", "<i8"), ("parts", "<i8", (MOST_PARTS, 2)), ("run_id", "u1", 16), ("fingerprint", "u1", 32),
    ("token", "u1", 16), ("layout", "u1", 32), ("taken", "u1", 32), ("ahead", "u1", AHEAD * STEP_BYTES), ("refused", "u1", 480),
])  # fmt: skip
SIZE = _WORD.itemsize
_VERSION = 4


@dataclass(frozen=True)
class Host:
    """The next step of a host, and the part of the noise that it reads."""

    rank: int
    ranks: int
    step: int
    run_id: str
    fingerprint: str
    token: str  # of the training; "" if not known yet
    layout: str  # SHA-256 of the names and shapes of its parameters; "" if not known
    shards: int  # the number of shards of the noise; 0 if the host reads no noise
    parts: tuple[tuple[int, int], ...]  # shard and replica of each part that it reads
    taken: str = ""  # SHA-256 of the bytes of the steps before
    ahead: bytes = b""  # of this step and the next ones: those that host 0 has drawn, or that another host knows
    refused: str = ""  # the reason why it takes no step; "" if it takes one

    def word(self) -> NDArray[np.uint8]:
        """This host in bytes, shape [SIZE], for an all-gather of any library."""
        w = np.zeros((), _WORD)
        w["version"], w["rank"], w["ranks"], w["step"], w["shards"] = _VERSION, self.rank, self.ranks, self.step, self.shards
        w["parts"] = -1
        for i, part in enumerate(self.parts):
            w["parts"][i] = part
        w["ahead"][: len(self.ahead)] = np.frombuffer(self.ahead, np.uint8)
        for name in "run_id", "fingerprint", "token", "layout", "taken":
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
        text = {name: "" if not w[name].any() else bytes(w[name]).hex() for name in ("run_id", "fingerprint", "token", "layout", "taken")}
        parts = tuple((int(shard), int(replica)) for shard, replica in w["parts"] if shard >= 0)
        refused = w["refused"].tobytes().rstrip(b"\0").decode("utf-8", "ignore")
        hosts.append(Host(int(w["rank"]), int(w["ranks"]), int(w["step"]), shards=int(w["shards"]), parts=parts, ahead=w["ahead"].tobytes(), refused=refused, **text))
    return hosts


def tell(gather: Callable[[NDArray[np.uint8]], Any], host: Host) -> None:
    """Sends the word of a host that takes no step. The others read it in their comparison, and do
    not wait for the host."""
    sys.stderr.write(f"minsep: host {host.rank} takes no step, and tells the others: {host.refused}\n")  # at once, however long that takes
    try:
        gather(host.word())
    except Exception:  # of any library: the others have ended
        pass


def check(hosts: Sequence[Host]) -> Host:
    """Refuses hosts unless all take the same step of the same training, with the same bytes of the
    steps before, and together read the noise of every coordinate. Returns host 0."""
    count = len(hosts)
    for h in hosts:
        if h.refused:
            raise TrainingError(f"hosts: host {h.rank} takes no step, so no other host may: {h.refused}")
    if sorted(h.rank for h in hosts) != list(range(count)) or any(h.ranks != count for h in hosts):
        said = ", ".join(f"{h.rank} of {h.ranks}" for h in hosts)
        raise TrainingError(f"hosts: {count} have answered, as ranks {said}: give each host a rank of its own, from 0, and the number of hosts as ranks")
    _alike(hosts, "run_id", "run {}", "open the run directory of one run on all of them")
    _alike(hosts, "fingerprint", "batches and a recipe of noise of digest {:.8}", "copy the run directory to all of them again")
    first = next(h for h in hosts if h.rank == 0)
    for h in hosts:
        if h.token not in ("", first.token):
            raise TrainingError(f"hosts: host {h.rank} has a checkpoint of another training than host 0: resume all of them from checkpoints of one training")
    _alike(hosts, "step", "step {}", "resume all of them from the checkpoint of one step")
    _alike(hosts, "taken", "steps taken with bytes of digest {:.8}", "resume all of them from one checkpoint: they would go on with different noise")
    _check_noise([h for h in hosts if h.shards])
    return first


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
    missing = sorted(set(range(shards)) - {shard for shard, _ in takers}) if shards > 1 else []
    if missing:
        raise TrainingError(f"hosts: no host takes shard {missing[0]} of {shards} of the noise: its parameters would have no noise. Let a host read it")
