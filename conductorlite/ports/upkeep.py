"""How much a store holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

__all__ = [
    "Size",
    "Sizes",
    "UpkeepReads",
]


@attrs.frozen(slots=True)
class Size:
    """Rows of a kind, and the bytes of the texts in them: what they hold, not what the file needs to keep it."""

    rows: int
    bytes: int


@attrs.frozen(kw_only=True, slots=True)
class Sizes:
    """What a store holds: by kind of row, and by name and status of the execution (what belongs to it included).

    `free_bytes` of `file_bytes` are kept for later rows: `compact` gives them back. Both are 0 for a store that is no file.
    """

    kinds: Mapping[str, Size]
    executions: Mapping[tuple[str, str], Size]
    file_bytes: int = 0
    free_bytes: int = 0


class UpkeepReads(Protocol):
    """Measuring."""

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
        ...
