"""Processes of torch.distributed that train together: each has a part of every batch, and of the
coordinates of the noise.

Which microbatches a batch has does not depend on the number of processes, each microbatch is summed
by one of them, and their sums are whole multiples of the grid. So any number of processes makes the
same weights, bit for bit, unless ghost clipping rounds the sum of all.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable

import numpy as np
import torch
import torch.distributed as dist

from . import _hosts, _torchsum
from ._batches import OwnerBatch
from ._noise import shard_range
from .errors import TrainingError


class Processes:
    """The processes of the default group of torch.distributed, or this one alone."""

    def __init__(self) -> None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        self.rank: int = dist.get_rank() if several else 0
        self.count: int = dist.get_world_size() if several else 1
        self.gather: Callable[[Any], Any] | None = _torchsum.gather if several else None

    def check_microbatch(self, microbatch: int | None, divided: bool) -> None:
        """Without a size of microbatches, sums would depend on the number of processes. divided
        says whether the model is, as it may be over one."""
        if (self.count > 1 or divided) and microbatch is None:
            raise ValueError("microbatch: must be given with several processes: the number of examples computed together, the same for any number of processes")

    # Batches

    def part(self, batch: Any, microbatch: int | None) -> tuple[Any, int]:
        """This process' part of a batch, whole microbatches, and the most of them that a process
        has."""
        ranges = _torchsum.microbatches(len(batch.rows) if isinstance(batch, OwnerBatch) else len(batch), microbatch, batch.owners if isinstance(batch, OwnerBatch) else None)
        rounds = -(-len(ranges) // self.count)
        if self.count == 1:
            return batch, rounds
        first, end = (rank * len(ranges) // self.count for rank in (self.rank, self.rank + 1))
        a, b = (ranges[first][0], ranges[end - 1][1]) if first < end else (0, 0)
        if not isinstance(batch, OwnerBatch):
            return batch[a:b], rounds
        inside = batch.offsets[(batch.offsets >= a) & (batch.offsets <= b)]
        return OwnerBatch(batch.rows[a:b], inside - a), rounds

    # What all know

    def seed(self, mine: Callable[[], str]) -> str:
        """The secret seed, which process 0 draws."""
        if self.gather is None:
            return mine()
        words = self.gather(np.frombuffer(mine().encode() if self.rank == 0 else bytes(32), np.uint8))
        return bytes(_of_one_size(words)[0]).decode()

    def check_alike(self, model: torch.nn.Module) -> None:
        """Refuses processes whose models have other weights than each other. Of those that are
        divided there is only one."""
        if self.gather is None:
            return
        found = hashlib.sha256()
        for name, x in sorted(model.state_dict().items()):
            if isinstance(x, torch.Tensor):
                found.update(f"{name} {x.dtype} {tuple(x.shape)} ".encode())
            if isinstance(x, torch.Tensor) and not hasattr(x, "placements"):
                found.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        words = _of_one_size(self.gather(np.frombuffer(found.digest(), np.uint8)))
        others = [rank for rank, word in enumerate(words) if not np.array_equal(word, words[0])]
        if others:
            raise TrainingError(f"model: process {others[0]} has other weights than process 0: begin with the same weights on all processes, by torch.manual_seed or one checkpoint")

    def check_examples(self, examples: list[torch.Tensor]) -> None:
        """Refuses processes whose examples have other shapes or types than each other."""
        if self.gather is None:
            return
        mine = hashlib.sha256(repr([(tuple(x.shape[1:]), str(x.dtype)) for x in examples]).encode()).digest()
        for rank, word in enumerate(_of_one_size(self.gather(np.frombuffer(mine, np.uint8)))):
            if word.tobytes() != mine:  # without the shapes, which are of examples
                raise TrainingError(f"batch: the examples of process {rank} have other shapes or types than those of process {self.rank}: where fully_shard divides the model, pad every example to one length")

    # Sums

    def mean(self, total: dict[str, torch.Tensor], row: Any, add_noise: Callable[..., torch.Tensor]) -> dict[str, torch.Tensor]:
        """The noisy mean of the sums of all processes. row is the noise of this process'
        coordinates, of all names in their order, which add_noise adds to their sum."""
        names = sorted(total)
        flat = [total[name].reshape(-1) for name in names]
        coordinates = sum(x.numel() for x in flat)
        mine: list[torch.Tensor] = []
        for rank in range(self.count):
            for piece in _pieces(flat, *shard_range(coordinates, rank, self.count)):
                dist.reduce(piece, dst=rank)
                if rank == self.rank:
                    mine.append(piece)
        own = add_noise(torch.cat(mine), row)
        most = -(-coordinates // self.count)
        filled = torch.zeros(most, dtype=own.dtype, device=own.device)
        filled[: len(own)] = own
        parts = [torch.empty_like(filled) for _ in range(self.count)]
        dist.all_gather(parts, filled)
        ranges = [shard_range(coordinates, rank, self.count) for rank in range(self.count)]
        whole = torch.cat([part[: hi - lo] for part, (lo, hi) in zip(parts, ranges)])
        split = torch.split(whole, [x.numel() for x in flat])
        return {name: x.reshape(total[name].shape).clone() for name, x in zip(names, split)}


def _pieces(flat: list[torch.Tensor], lo: int, hi: int) -> list[torch.Tensor]:
    """Views of the values [lo, hi) of arrays that are laid side by side."""
    found, first = [], 0
    for x in flat:
        a, b = max(lo - first, 0), min(hi - first, x.numel())
        if a < b:
            found.append(x[a:b])
        first += x.numel()
    return found


def _of_one_size(words: list[Any]) -> list[Any]:
    """Words of all processes. One that takes no step has given its guard's in place of it."""
    for word in words:
        if len(word) == _hosts.SIZE:
            (host,) = _hosts.read(word)
            raise TrainingError(f"hosts: host {host.rank} takes no step, so no other host may: {host.refused}")
    return words
