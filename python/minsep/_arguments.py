"""Refuses arguments of another type, in words that say what to give."""

from __future__ import annotations

import os
import traceback
from types import ModuleType
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


NO_GRADIENT = (
    "loss: does not depend on the trained parameters, so that the training would go on with noise alone: must be computed from what the model that it is given gives, and no other model, without detach, no_grad, stop_gradient, argmax or "
    "the like, and of every example"
)


def place(err: BaseException, *libraries: ModuleType) -> str:
    """Where in a program's own code an exception arose, which is not in these libraries."""
    ours = tuple(os.path.dirname(file or "") + os.sep for file in (__file__, *(library.__file__ for library in libraries)))
    frames = [frame for frame in traceback.extract_tb(err.__traceback__) if not frame.filename.startswith(ours)]
    return f", at line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
