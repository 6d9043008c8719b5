"""An index: what executions are searched by. It holds nothing that the store does not, and may be lost at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from conductorlite.search import Asked, Document, SearchResult, TaskSummary, WorkflowSummary

__all__ = [
    "IndexDAO",
    "IndexWrites",
]


class IndexWrites(Protocol):
    """One atomic change of an index, seen when its block ends."""

    #: Names the index; a new or emptied one has a name nobody had before.
    identity: str
    #: How often it was fed, as `settle` said last; 0 for a new one.
    position: int

    def put(self, documents: Iterable[Document]) -> None:
        """Index executions and attempts, in the place of what was known of them."""
        ...

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""
        ...

    def remove_tasks(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> None:
        """Forget attempts of an execution."""
        ...

    def settle(self, position: int) -> None:
        """Keep how often the index was fed."""
        ...

    def clear(self) -> None:
        """Forget everything, the position too."""
        ...


class IndexDAO(Protocol):
    """An index. Whatever it raises stops no execution: the engine keeps what it would have told it, and tries again later.

    It answers as `conductorlite.search.answer` does: what that finds among the documents that were put is the right answer.
    """

    def changing(self) -> AbstractContextManager[IndexWrites]:
        """A change: one at a time among all processes. Raises StorageBusy at once when another one is made, and StorageErrors.

        What is read of the store inside is what the index will hold, so that a slower feeder can never put back older rows.
        """
        ...

    def standing(self) -> tuple[str, int]:
        """Identity and position, as `IndexWrites` has them; raises StorageErrors."""
        ...

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search; raises StorageErrors."""
        ...

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search; raises StorageErrors."""
        ...

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids greater than `after` of up to `limit` executions of which anything is known, ascending; raises StorageErrors."""
        ...

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution, as it was put, in any order; raises StorageErrors.

        Each value once, in any order. What an attempt inherits (`Subject.inherited`) is what is known of its execution.
        """
        ...

    def start_over(self) -> str | None:
        """Set a damaged index aside and begin an empty one; returns where the damaged one lies, if anywhere."""
        ...

    def close(self) -> None:
        """Release files and connections; idempotent."""
        ...
