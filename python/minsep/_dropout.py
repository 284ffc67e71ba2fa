"""Dropout of examples that are computed together, with random numbers of each example's own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode


class Dropout(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Makes the dropout of one example from its seed, an int64. Torch's own random numbers are for
    all examples of a microbatch, so that one example less would change those of the others."""

    def __init__(self, seed: torch.Tensor) -> None:
        super().__init__()
        self._seed = seed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (self._dropped if func is F.dropout else func)(*args, **(kwargs or {}))

    def _dropped(self, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if not training or p == 0:
            return input
        self._seed = mixed(self._seed + 1)
        words = mixed(self._seed + torch.arange(input.numel(), device=input.device).reshape(input.shape)) >> 32
        kept = (words >= round(p * 2.0**32) - 2**31) / (1 - p) if p < 1 else torch.zeros_like(input)
        return input.mul_(kept) if inplace else input * kept.to(input.dtype)


def mixed(z: torch.Tensor) -> torch.Tensor:
    """Words of 64 bits that are mixed from each number (splitmix64, Steele et al. 2014)."""
    z = z * -0x61C8864680B583EB
    z = (z ^ (z >> 30 & 2**34 - 1)) * -0x40A7B892E31B1A47
    z = (z ^ (z >> 27 & 2**37 - 1)) * -0x6B2FB644ECCEEE15
    return z ^ (z >> 31 & 2**33 - 1)
