"""minsep for trainers: batches, correlated noise and certificates of a run directory, in NumPy.

    run = minsep.prepare("run", owners=table["user"], model=model, epochs=3, batch_size=256, epsilon=8)
    training = minsep.torch.private(model, optimizer, run, loss=loss)
    for batch in training.loader(dataset):
        training.step(*batch)

docs/python.md has whole programs. The rules that the guarantee rests on are in docs/noise.md.
"""

from ._account import Account, Candidate, Composition, Plan, account, compose, plan
from ._batches import OwnerBatch
from ._clip import add_noise, clip_and_sum
from ._command import Page, Verdict
from ._guard import StepGuard
from ._pad import pad
from ._prepare import prepare
from ._reader import NoiseReader, read_noise
from ._run import Run
from ._tree import ClipNorm
from ._version import VERSION as __version__
from .errors import (
    CommandError,
    MinsepError,
    MissingPackageError,
    NotCertifiedError,
    NotCertifiedWarning,
    NotCountedWarning,
    NotJoinedWarning,
    NotVerifiedError,
    RunDirectoryError,
    TrainingError,
    WeakClaimWarning,
    UsageError,
)

__all__ = [
    "Account",
    "Candidate",
    "Composition",
    "ClipNorm",
    "CommandError",
    "MinsepError",
    "MissingPackageError",
    "NoiseReader",
    "NotCertifiedError",
    "NotCertifiedWarning",
    "NotCountedWarning",
    "NotJoinedWarning",
    "NotVerifiedError",
    "OwnerBatch",
    "Page",
    "Plan",
    "Run",
    "RunDirectoryError",
    "StepGuard",
    "TrainingError",
    "WeakClaimWarning",
    "UsageError",
    "Verdict",
    "__version__",
    "account",
    "add_noise",
    "clip_and_sum",
    "compose",
    "pad",
    "plan",
    "prepare",
    "read_noise",
]
