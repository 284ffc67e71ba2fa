"""Random numbers of a training, such as those of dropout and augmentation, from a secret seed."""

from __future__ import annotations

import hashlib
import secrets


def fresh() -> str:
    """A seed for one start of a training. It is in no checkpoint, which may be published, so that no
    guarantee rests on random numbers that others know."""
    return secrets.token_hex(16)


def number(seed: str, *place: int) -> int:
    """A number of 56 bits for a step, or for an example of a step."""
    return int.from_bytes(hashlib.sha256(" ".join([seed, *map(str, place)]).encode()).digest()[:7], "big")
