"""`python -m minsep`: the command `minsep`, in the place of this process."""

import os
import sys

from ._command import find
from .errors import MissingPackageError


def main() -> None:
    try:
        command = find()
    except MissingPackageError as err:
        sys.exit(f"minsep: {err}")
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
