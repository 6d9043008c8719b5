"""The seams: what the engine asks of a backend, a lock, a payload store. Protocols only.

**Storage has no opinion on workflows.** A backend stores the rows of a `Decision` and finds them again; it reads no clock
(instants are arguments), computes no status, raises no timer. Two transactions carry everything: `reading()` is one
consistent snapshot that takes no write lock; `writing()` is one atomic, serialised change that can also read.

Errors every implementation raises: `StorageBusy` when another writer holds the store for longer than its busy timeout,
`StorageFull`, `StorageReadOnly`, `StorageCorrupt`, `EngineClosed` after `close()`. After any error nothing of the transaction
is stored.
"""

from __future__ import annotations

from conductorlite.ports.archive import Archived, ArchiveReads, ArchiveWrites
from conductorlite.ports.backend import Backend, ReadingTransaction, WritingTransaction
from conductorlite.ports.changes import Change, ChangeReads, ChangeWrites, Feed
from conductorlite.ports.driven import DrivenReads, DrivenWrites
from conductorlite.ports.events import EventPlace, EventReads, EventWrites
from conductorlite.ports.executions import ExecutionFilter, ExecutionReads, ExecutionWrites
from conductorlite.ports.holders import HolderReads, HolderRow, HolderWrites, Life, Presence
from conductorlite.ports.index import IndexDAO, IndexWrites
from conductorlite.ports.limits import LimitReads, LimitWrites
from conductorlite.ports.lock import Lock
from conductorlite.ports.marks import Marks
from conductorlite.ports.metadata import MetadataReads, MetadataWrites
from conductorlite.ports.owners import OwnerReads, OwnerRow, OwnerWrites
from conductorlite.ports.payloads import (
    ExternalStorageLocation,
    LoosePayload,
    PayloadCodec,
    PayloadReads,
    PayloadStorage,
    PayloadWrites,
    StoredPayload,
)
from conductorlite.ports.queues import QueueReads, QueueWrites
from conductorlite.ports.relay import RelayItem, RelayReads, RelayWrites
from conductorlite.ports.schedules import ScheduleReads, ScheduleRow, ScheduleWrites
from conductorlite.ports.schemas import SchemaReads, SchemaWrites
from conductorlite.ports.secrets import SecretProvider
from conductorlite.ports.sources import EventMessage, EventSource
from conductorlite.ports.upkeep import Size, Sizes, UpkeepReads

__all__ = [
    "ArchiveReads",
    "ArchiveWrites",
    "Archived",
    "Backend",
    "Change",
    "ChangeReads",
    "ChangeWrites",
    "DrivenReads",
    "DrivenWrites",
    "EventMessage",
    "EventPlace",
    "EventReads",
    "EventSource",
    "EventWrites",
    "ExecutionFilter",
    "ExecutionReads",
    "ExecutionWrites",
    "ExternalStorageLocation",
    "Feed",
    "HolderReads",
    "HolderRow",
    "HolderWrites",
    "IndexDAO",
    "IndexWrites",
    "Life",
    "LimitReads",
    "LimitWrites",
    "Lock",
    "LoosePayload",
    "Marks",
    "MetadataReads",
    "MetadataWrites",
    "OwnerReads",
    "OwnerRow",
    "OwnerWrites",
    "PayloadCodec",
    "PayloadReads",
    "PayloadStorage",
    "PayloadWrites",
    "Presence",
    "QueueReads",
    "QueueWrites",
    "ReadingTransaction",
    "RelayItem",
    "RelayReads",
    "RelayWrites",
    "ScheduleReads",
    "ScheduleRow",
    "ScheduleWrites",
    "SchemaReads",
    "SchemaWrites",
    "SecretProvider",
    "Size",
    "Sizes",
    "StoredPayload",
    "UpkeepReads",
    "WritingTransaction",
]
