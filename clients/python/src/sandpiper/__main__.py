"""Runs the program sandpiper with the arguments of this process, which it replaces."""

from __future__ import annotations

import os
import sys

from ._errors import BinaryNotFound
from ._stdio import find_binary


def main() -> None:
    try:
        program = find_binary(None)
    except BinaryNotFound as e:
        sys.exit(f"error: {e}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
