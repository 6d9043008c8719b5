"""Files that only their owner may read: what a store keeps may be anything.

A file that is there keeps its mode, and so do those that SQLite makes beside it, which take the database's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

__all__ = ["PRIVATE", "PRIVATE_FOLDER", "make_private"]

PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file that only its owner may read and write, unless there is one; where it cannot be made nothing happens."""
    # Of a link that points nowhere the place it points to. Never opens what is there: closing it would drop SQLite's locks.
    with suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), PRIVATE))
