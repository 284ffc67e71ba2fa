"""Refuses arguments of another type, in words that say what to give."""

from __future__ import annotations

from typing import Any


def whole(value: Any, name: str) -> int:
    """A whole number, of any integer type."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{name} {shown(value)}: must be a whole number, and not {type(value).__name__}") from None


def is_number(value: Any) -> bool:
    """Whether a value is a number, as Python or NumPy have them."""
    return hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0


def shown(value: Any) -> str:
    """A value as it is shown in a message, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:59] + "…"
