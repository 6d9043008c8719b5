"""What stands in the rows of a store beside executions and definitions, and what is asked for by value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, TypeVar
from zlib import crc32

import attrs

from conductorlite.model.decisions import Outgoing
from conductorlite.model.statuses import WorkflowStatus

__all__ = [
    "Archived",
    "Change",
    "EventPlace",
    "ExecutionFilter",
    "ExternalStorageLocation",
    "Feed",
    "FeedKind",
    "HolderRow",
    "Life",
    "OrphanPayload",
    "OwnerRow",
    "Parameters",
    "RelayItem",
    "Rows",
    "ScheduleRow",
    "Share",
    "Size",
    "Sizes",
    "StoredPayload",
]


#: What stands for the `?` or `:name` of an application's statement.
Parameters = Sequence[Any] | Mapping[str, Any]


class Rows(list[tuple[Any, ...]]):
    """The result of an application's statement: its rows, how many it has changed (-1: none), the last row's id, column names."""

    __slots__ = ("columns", "lastrowid", "rowcount")

    def __init__(self, rows: Iterable[tuple[Any, ...]], rowcount: int, lastrowid: int | None, columns: Sequence[str]) -> None:
        super().__init__(rows)
        self.rowcount, self.lastrowid, self.columns = rowcount, lastrowid, tuple(columns)


@attrs.frozen(kw_only=True, slots=True)
class ExecutionFilter:
    """The conditions on executions to list; a condition that is None is not checked."""

    name: str | None = None
    status: WorkflowStatus | None = None
    correlation_id: str | None = None
    parent_workflow_id: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class ScheduleRow:
    """One schedule as it is kept: two texts that mean nothing to the store."""

    name: str
    #: The inbox its events are in.
    address: str
    #: What is wanted.
    text: str
    #: How far it has come.
    progress: str
    #: Whether the end of an execution it has started is to be reported to it.
    waits: bool = False
    #: The fence that was read; 0 for one that is not stored yet.
    fence: int = 0
    #: The engine that alone drives it; empty: any.
    owner: str = ""


#: Place in listings: instant, handler, event, message, number of the action.
EventPlace = tuple[int, str, str, str, int]


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


@attrs.frozen(kw_only=True, slots=True)
class StoredPayload:
    """One object of a storage; `size` is what it takes there, in bytes."""

    key: str
    size: int


@attrs.frozen(kw_only=True, slots=True)
class ExternalStorageLocation:
    """The location at which an object can be read or written directly: `uri`, signed where the storage can; `path`, its key.
    Conductor's words.
    """

    uri: str
    path: str


@attrs.frozen(kw_only=True, slots=True)
class OrphanPayload:
    """An object that may be in the storage without a row that refers to it: put there for a turn of `workflow_id`, at `at`."""

    key: str
    workflow_id: str
    at: int


class FeedKind(IntEnum):
    """The index that is fed: the one in the store's own file, or an external one.

    Of external ones there are two while one is built beside the one that is searched; they change places then.
    """

    OWN = 0
    EXTERNAL = 1
    BESIDE = 2


@attrs.frozen(kw_only=True, slots=True)
class Feed:
    """How far an index is. `reader` names it, `position` counts its batches; `complete`: everything was indexed once."""

    reader: str
    position: int = 0
    complete: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Change:
    """An execution that is to be indexed as it is at `fence`, `live` if it has not ended.

    Without a fence it was removed from the store, archived or not, or comes later, as one that is new. `since` is the fence at
    which it was indexed last, None when all that is known of it is to be replaced.
    """

    workflow_id: str
    fence: int | None = None
    live: bool = True
    since: int | None = None
    #: Where it stands in the order of indexing; 0: before the others.
    place: int = 0
    #: Numbers of the pending entries that ask for it.
    pending: tuple[int, ...] = ()
    #: The highest fence of what was removed; below it every fence of a removed one, above it each of what comes under its id.
    removed: int = 0

    @property
    def version(self) -> int:
        """How late this state of the execution is: greater than that of every state before it, another life of its id included."""
        return 2 * self.removed + 1 if self.fence is None else 2 * self.fence


@attrs.frozen(kw_only=True, slots=True)
class OwnerRow:
    """Counts of one engine's executions by status, and of its events in inboxes (timers and schedules included)."""

    name: str
    #: Number of executions by the name of their status.
    executions: dict[str, int]
    events: int


class Life(StrEnum):
    """The state of a holder, by its presence."""

    ALIVE = "ALIVE"
    #: It went without giving back, but of its own will.
    LEFT = "LEFT"
    #: Its process has died.
    DEAD = "DEAD"
    #: There is no trace of it: not known.
    MISSING = "MISSING"
    #: It is where this process cannot look: another host, a mount that passes no locks.
    ELSEWHERE = "ELSEWHERE"


@attrs.frozen(kw_only=True, slots=True)
class HolderRow:
    """An engine whose workers may hold tasks.

    `place` says, in the backend's own words, where its presence is seen. `lease_until` (epoch ms) counts where that cannot be
    looked at; None: it has no lease, and is there until its presence shows otherwise.
    """

    holder: str
    place: str
    lease_until: int | None = None


T = TypeVar("T")

#: Shares at most: of more processes some have the same.
_SHARES: Final = 16


@attrs.frozen(kw_only=True, slots=True)
class Share:
    """The share of the queues that one of several polling processes looks at first: `number` of `count`."""

    count: int = 1
    number: int = 0

    @classmethod
    def of(cls, own: T, names: Sequence[T]) -> Share:
        """The share of one of them."""
        return cls(count=min(len(names), _SHARES), number=names.index(own) % _SHARES)

    def distance(self, workflow_id: str) -> int:
        """How far an execution is from this share: 0 in it."""
        return (crc32(workflow_id.encode()) - self.number) % self.count


@attrs.frozen(kw_only=True, slots=True)
class RelayItem:
    """One undelivered outgoing part: `item_id` orders the items of a store and makes a second delivery harmless."""

    item_id: int
    workflow_id: str
    outgoing: Outgoing


@attrs.frozen(slots=True)
class Size:
    """Rows of a kind, and the bytes of the texts in them: what they hold, not what the file needs to keep it."""

    rows: int
    bytes: int


@attrs.frozen(kw_only=True, slots=True)
class Sizes:
    """The sizes of a store, by kind of row, and by name and status of the execution (rows that belong to it included).

    `free_bytes` of `file_bytes` are kept for later rows: `compact` gives them back. Both are 0 for a store that is no file.
    """

    kinds: Mapping[str, Size]
    executions: Mapping[tuple[str, str], Size]
    file_bytes: int = 0
    free_bytes: int = 0
