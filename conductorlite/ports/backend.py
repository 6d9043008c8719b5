"""A store and its two transactions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from conductorlite.ports.archive import ArchiveReads, ArchiveWrites
from conductorlite.ports.changes import ChangeReads, ChangeWrites
from conductorlite.ports.driven import DrivenReads, DrivenWrites
from conductorlite.ports.events import EventReads, EventWrites
from conductorlite.ports.executions import ExecutionReads, ExecutionWrites
from conductorlite.ports.holders import HolderReads, HolderWrites, Life, Presence
from conductorlite.ports.limits import LimitReads, LimitWrites
from conductorlite.ports.marks import Marks
from conductorlite.ports.metadata import MetadataReads, MetadataWrites
from conductorlite.ports.owners import OwnerReads, OwnerWrites
from conductorlite.ports.payloads import PayloadReads, PayloadStorage, PayloadWrites
from conductorlite.ports.queues import QueueReads, QueueWrites
from conductorlite.ports.relay import RelayReads, RelayWrites
from conductorlite.ports.schedules import ScheduleReads, ScheduleWrites
from conductorlite.ports.schemas import SchemaReads, SchemaWrites
from conductorlite.ports.upkeep import UpkeepReads

__all__ = [
    "Backend",
    "ReadingTransaction",
    "WritingTransaction",
]


class ReadingTransaction(
    ExecutionReads,
    QueueReads,
    LimitReads,
    RelayReads,
    MetadataReads,
    EventReads,
    ScheduleReads,
    PayloadReads,
    ChangeReads,
    ArchiveReads,
    UpkeepReads,
    SchemaReads,
    OwnerReads,
    DrivenReads,
    HolderReads,
    Protocol,
):
    """One consistent view of the store."""


class WritingTransaction(
    ReadingTransaction,
    ExecutionWrites,
    QueueWrites,
    LimitWrites,
    RelayWrites,
    MetadataWrites,
    EventWrites,
    ScheduleWrites,
    PayloadWrites,
    ChangeWrites,
    ArchiveWrites,
    SchemaWrites,
    OwnerWrites,
    DrivenWrites,
    HolderWrites,
    Protocol,
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

    def commits(self) -> int:
        """How many changes were committed through this object."""
        ...

    def checkpoint(self) -> None:
        """Put the store in order, as far as that keeps nobody waiting; for idle moments."""
        ...

    def faults(self) -> Sequence[str]:
        """What the store itself finds wrong with how it keeps rows, in words; nothing for a sound one. Reads all of it."""
        ...

    def rebuild_indexes(self) -> None:
        """Make every index anew from the rows it is of."""
        ...

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Copy the whole store, as it is at one instant, into a new file that appears when it is complete.

        With `documents` those in the payload storage that is the store's own (see `payload_storage`) are copied too.

        Raises InvalidInput when the store has no such form, AlreadyExists when there is something at `path`, StorageErrors.
        """
        ...

    def payload_storage(self) -> PayloadStorage | None:
        """Where payloads past the soft barrier lie unless the engine is told otherwise; None: all of them in the store."""
        ...

    def marks(self) -> Marks | None:
        """Where turns under way are marked; None where nothing outlives the process. Closed with the backend."""

    def appear(self) -> Presence:
        """The presence of an engine that is about to hand out tasks: it ends with the process, or with this store's closing."""
        ...

    def look(self, place: str) -> Life:
        """What is known of a holder by the place of its presence."""
        ...

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""
        ...

    def make_room(self) -> bool:
        """Give back whatever is kept so that a full store can be emptied; whether a removal that met StorageFull may do now.

        Outside every transaction.
        """
        ...

    def compact(self) -> None:
        """Give back the space of what was deleted, as far as the store can; outside every transaction."""
        ...

    def close(self) -> None:
        """Release files and connections; idempotent."""
        ...
