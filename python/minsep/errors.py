"""What the package raises besides ValueError, TypeError and OSError.

A value that breaks a rule of a function is a ValueError that names the parameter, the value and the
rule.
"""

from __future__ import annotations


def printable(text: str, kept: str = "\n\t") -> str:
    """A text with escapes for characters that are not shown as themselves, such as control
    characters, but for those in kept."""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class MinsepError(Exception):
    """Every error of this package that is not a fault of an argument or of the machine. Names in
    its words that somebody else wrote, such as those of files, do nothing on a terminal but to be
    read."""

    def __init__(self, words: str = "") -> None:
        super().__init__(printable(words))


class RunDirectoryError(MinsepError):
    """A run directory is not what minsep writes, was changed since, or mixes results of several
    runs."""


class NotCertifiedError(MinsepError):
    """A certified value was asked for, and nothing in the run directory certifies it."""


class NotCertifiedWarning(UserWarning):
    """A training begins with noise that nothing in the run directory certifies."""


class WeakClaimWarning(NotCertifiedWarning):
    """A training begins with noise whose certificate holds, and protects next to nobody."""


class NotCountedWarning(UserWarning):
    """No record tells how often the steps of a training are taken, nor that a second training begins
    with the same run."""


class NotJoinedWarning(UserWarning):
    """Batches are rows of the bounded table, and nothing has looked up which of the trainer's
    examples these are."""


class TrainingError(MinsepError):
    """A step is not the next one, or a run directory serves another training already."""


class MissingPackageError(MinsepError, ImportError):
    """A package is needed that is not installed; the message names it."""


class CommandError(MinsepError):
    """The command `minsep` failed. The message has its own words; `code` is its exit code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


class UsageError(CommandError, ValueError):
    """The command refused its flags, a plan or its input (exit code 2)."""


class NotVerifiedError(CommandError):
    """A guarantee could not be verified (exit code 3)."""
