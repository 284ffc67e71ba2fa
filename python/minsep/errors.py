"""What the package raises besides ValueError, TypeError and OSError.

A value that breaks a rule of a function is a ValueError that names the parameter, the value and the rule.
"""

from __future__ import annotations


class MinsepError(Exception):
    """Every error of this package that is not a fault of an argument or of the machine."""


class RunDirectoryError(MinsepError):
    """A run directory is not what minsep writes, was changed since, or mixes results of several runs."""


class NotCertifiedError(MinsepError):
    """A certified value was asked for, and nothing in the run directory certifies it."""


class NotCertifiedWarning(UserWarning):
    """A training begins with noise that nothing in the run directory certifies."""


class NoGuardWarning(UserWarning):
    """Noise is read without a guard: nothing notices a second training with it, nor a step that is left out."""


class NotJoinedWarning(UserWarning):
    """Batches are rows of the bounded table, and nothing has looked up which of the trainer's examples these are."""


class TrainingError(MinsepError):
    """A step was taken twice or skipped, or a run directory serves another training already."""


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
