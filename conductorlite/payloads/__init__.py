"""Where documents lie that are too large for the store: a folder, this process's memory, anything fsspec reaches.

Each is a `ports.PayloadStorage`: bytes by key, and no opinion on what they are.
"""

from __future__ import annotations

import os
from pathlib import Path

from conductorlite.payloads.local import LocalPayloads
from conductorlite.payloads.memory import MemoryPayloads
from conductorlite.payloads.remote import FsspecPayloads
from conductorlite.ports import PayloadStorage

__all__ = ["FsspecPayloads", "LocalPayloads", "MemoryPayloads", "open_payloads"]


def open_payloads(place: str | os.PathLike[str] | PayloadStorage) -> PayloadStorage:
    """The storage at a place: a folder, a URL (`s3://bucket/folder`), or a storage, which is returned as it is.

    Raises MissingExtra and InvalidInput as `FsspecPayloads` does.
    """
    if isinstance(place, str) and "://" in place:
        return FsspecPayloads(place)
    if isinstance(place, str | os.PathLike):
        return LocalPayloads(Path(place))
    return place
