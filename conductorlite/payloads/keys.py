"""What a key may look like: it becomes the path of a file."""

from __future__ import annotations

import re
from typing import Final

from conductorlite.errors import InvalidInput

__all__ = ["checked_key", "checked_operation"]

_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


def checked_key(key: str) -> str:
    """A key that names a place inside the storage; raises InvalidInput."""
    if not _KEY.fullmatch(key) or len(key) > 255:
        raise InvalidInput(f"{key[:80]!r} is not a key of a payload storage")
    return key


def checked_operation(operation: str) -> str:
    """READ or WRITE; raises InvalidInput."""
    if operation not in ("READ", "WRITE"):
        raise InvalidInput(f"operation {operation!r} is neither READ nor WRITE")
    return operation
