"""A store and its two transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from conductorlite.ports.executions import ExecutionReads, ExecutionWrites
from conductorlite.ports.metadata import MetadataReads, MetadataWrites
from conductorlite.ports.queues import QueueReads, QueueWrites
from conductorlite.ports.relay import RelayReads, RelayWrites
from conductorlite.ports.schemas import SchemaReads, SchemaWrites

__all__ = [
    "Backend",
    "ReadingTransaction",
    "WritingTransaction",
]


class ReadingTransaction(ExecutionReads, QueueReads, RelayReads, MetadataReads, SchemaReads, Protocol):
    """One consistent view of the store."""


class WritingTransaction(
    ReadingTransaction, ExecutionWrites, QueueWrites, RelayWrites, MetadataWrites, SchemaWrites, Protocol
):
    """One atomic, serialised change of the store; sees its own writes."""


class Backend(Protocol):
    """A store. Thread-safe; every instant it compares is an argument."""

    #: Whether `apply` commits the outgoing part with the rest; if not, it lies in the outbox until delivered.
    one_commit: bool

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; released when the block ends, so keep blocks short."""
        ...

    def writing(self) -> AbstractContextManager[WritingTransaction]:
        """An atomic change: committed when the block ends, undone when it raises."""
        ...

    def data_version(self) -> int:
        """A number that changes when another connection or process has committed."""
        ...

    def close(self) -> None:
        """Release files and connections; idempotent."""
        ...
