"""Schema 3: when the store was driven."""

from __future__ import annotations

from typing import Final

__all__ = ["V3"]

#: One row for each stretch in which a driver of an owner (empty: everybody's) drove, epoch ms.
V3: Final = """
CREATE TABLE driven (
    owner TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (owner, since)
) STRICT, WITHOUT ROWID;
"""
