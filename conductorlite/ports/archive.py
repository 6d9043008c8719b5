"""Executions that have left the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

__all__ = [
    "ArchiveReads",
    "ArchiveWrites",
    "Archived",
]


@attrs.frozen(kw_only=True, slots=True)
class Archived:
    """An archived execution: `document` is its compressed JSON, `size` the bytes of that JSON. Instants are epoch ms."""

    workflow_id: str
    name: str
    status: str
    ended_at: int
    archived_at: int
    size: int
    document: bytes


class ArchiveReads(Protocol):
    """Finding archived executions."""

    def archived(self, workflow_id: str) -> Archived | None:
        """An archived execution, or None."""
        ...

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        """A page of ids in ascending order, greater than `after`."""
        ...


class ArchiveWrites(Protocol):
    """Keeping and deleting archived executions."""

    def archive(self, archived: Archived) -> None:
        """Keep an execution, in the place of one of the same id."""
        ...

    def drop_archived(self, workflow_id: str) -> bool:
        """Delete an archived execution; False when there is none."""
        ...
