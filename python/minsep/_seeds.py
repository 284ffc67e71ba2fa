"""The secret seed of a training's random numbers, such as those of dropout and augmentation."""

from __future__ import annotations

import hashlib
import os
import re
import secrets

from .errors import TrainingError

NAME = "training.seed"


def secret(folder: str) -> str:
    """The seed that is kept in a folder, beside the record of the training; a new one where there
    is none.

    Checkpoints, which may be published, do not have it, so that no guarantee rests on random
    numbers that others know. A repeated step has the same again.
    """
    path = os.path.join(folder, NAME)
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return _new(path)
    except OSError as err:
        raise TrainingError(f"{path}: cannot be read ({err.strerror or err}), and the seed of the training's random numbers is kept there") from None
    with open(fd, encoding="ascii", errors="replace") as file:
        seed = file.read(100).strip()
    if not re.fullmatch("[0-9a-f]{32}", seed):
        raise TrainingError(f"{path}: is no seed of a training, or was cut: remove it; repeated steps with random numbers then differ, and are refused")
    return seed


def _new(path: str) -> str:
    seed, new = secrets.token_hex(16), path + ".new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    with open(fd, "w", encoding="ascii") as file:
        file.write(seed + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    return seed


def number(seed: str, *place: int) -> int:
    """A number of 56 bits for a step, or for an example of a step."""
    return int.from_bytes(hashlib.sha256(" ".join([seed, *map(str, place)]).encode()).digest()[:7], "big")
