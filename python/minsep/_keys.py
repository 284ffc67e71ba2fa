"""Where a user's root key is."""

from __future__ import annotations

import os

VARIABLE = "MINSEP_KEY"


def found() -> str | None:
    """The file that MINSEP_KEY names, or ~/.config/minsep/key if it is there, as `minsep prepare`
    has them; otherwise None."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = os.path.join(config, "minsep", "key")
    return path if os.path.exists(path) else None
