"""What the memory backend holds, and the log by which a change is undone.

Every change goes through `put`, `drop`, `extend`, `add` or `discard`, which note its inverse; rolling back replays the notes
backwards. What every turn changes is noted (`note`) and changed in place, without the calls.

A sorted set: add, discard, first and ordered walks that stay cheap when it holds a million keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from conductorlite.model.canonical import EMPTY, ExternalPayload, Payload
from conductorlite.model.decisions import Event, Message
from conductorlite.model.executions import HistoryEvent, HistoryKind, PollData, Task, TaskLog, Workflow
from conductorlite.model.limits import Limit, Member
from conductorlite.store.tables import Archived, EventPlace, Feed, FeedKind, HolderRow, RelayItem, ScheduleRow

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.model.streams import Chunk, Emission, LatestValue

__all__ = [
    "ADDED",
    "APPENDED",
    "DISCARDED",
    "GROUPS",
    "MISSING",
    "NOBODY",
    "DueKey",
    "Emitted",
    "Execution",
    "KeptLine",
    "Ordered",
    "Store",
    "ordered",
    "packed",
    "unpacked",
]

#: Keys per block; a full block is cut in two.
_BLOCK: Final = 1024

Key = TypeVar("Key", bound=tuple[Any, ...])


class Ordered(Generic[Key]):
    """Distinct tuples in ascending order, kept in blocks so that no change moves more than `_BLOCK` of them."""

    __slots__ = ("_blocks", "_changing", "_tops")

    def __init__(self) -> None:
        self._blocks: list[list[Key]] = []
        #: The greatest key of each block.
        self._tops: list[Key] = []
        #: A change was begun and not ended.
        self._changing = False

    def add(self, key: Key) -> None:
        """Put a key in; it must not be there."""
        if self._changing:
            self._mend()
        self._changing = True
        tops = self._tops
        if not tops:
            self._blocks.append([key])
            tops.append(key)
        else:
            at = -1 if tops[-1] < key else 0 if tops[0] is tops[-1] else bisect_left(tops, key)
            block = self._blocks[at]
            insort(block, key)
            tops[at] = block[-1]
            if len(block) > _BLOCK:
                self._split(at % len(tops), block)
        self._changing = False

    def _split(self, at: int, block: list[Key]) -> None:
        self._blocks.insert(at + 1, block[_BLOCK // 2 :])
        del block[_BLOCK // 2 :]
        self._tops.insert(at, block[-1])

    def discard(self, key: Key) -> None:
        """Take a key out, if it is there."""
        if self._changing:
            self._mend()
        tops = self._tops
        if not tops or tops[-1] < key:
            return
        at = 0 if tops[0] is tops[-1] else bisect_left(tops, key)
        block = self._blocks[at]
        place = bisect_left(block, key)
        if block[place] != key:
            return
        self._changing = True
        del block[place]
        if block:
            tops[at] = block[-1]
        else:
            del self._blocks[at], tops[at]
        self._changing = False

    def _mend(self) -> None:
        """Rebuild the blocks after a change that was interrupted: its key is in or not, and no other one is lost."""
        keys = sorted({key for block in self._blocks for key in block})
        blocks = [keys[at : at + _BLOCK // 2] for at in range(0, len(keys), _BLOCK // 2)]
        self._tops = [block[-1] for block in blocks]
        self._blocks = blocks

    def first(self) -> Key | None:
        """The least key, or None."""
        return self._blocks[0][0] if self._blocks else None

    def head(self, limit: int) -> Sequence[Key]:
        """The least keys, up to so many, ascending."""
        blocks = self._blocks
        return [] if not blocks else blocks[0][:limit] if blocks[0] is blocks[-1] else list(islice(self, limit))

    def last(self) -> Key | None:
        """The greatest key, or None."""
        return self._tops[-1] if self._tops else None

    def after(self, key: tuple[Any, ...]) -> Iterator[Key]:
        """The keys greater than `key`, ascending; `key` may be a prefix."""
        at = bisect_right(self._tops, key)
        if at < len(self._blocks):
            block = self._blocks[at]
            yield from block[bisect_right(block, key) :]
            for block in self._blocks[at + 1 :]:
                yield from block

    def before(self, key: tuple[Any, ...] | None) -> Iterator[Key]:
        """The keys less than `key` (None: all), descending."""
        at = len(self._tops) if key is None else bisect_left(self._tops, key)
        if key is not None and at < len(self._blocks):
            block = self._blocks[at]
            yield from reversed(block[: bisect_left(block, key)])
        for block in reversed(self._blocks[:at]):
            yield from reversed(block)

    def __iter__(self) -> Iterator[Key]:
        for block in self._blocks:
            yield from block

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __len__(self) -> int:
        return sum(map(len, self._blocks))


K = TypeVar("K")
V = TypeVar("V")

#: What is noted for an entry that was not there.
MISSING: Any = object()

#: What was done to a list or an index.
APPENDED, ADDED, DISCARDED = object(), object(), object()

#: (due_at, workflow_id, posted_at, sender, sender_seq, event_id): place among all events of an owner.
DueKey = tuple[int, str, int, str, int, str]


#: A line of a journal as it is kept, in the order of its fields: a large payload is only a hash, any other its text. There are
#: more of them than of all else, and at a tuple of texts and numbers the garbage collector looks once.
KeptLine = tuple[int, int, str, str, str | None, int | None, int | None, str | None, str | Payload | None, str | None]


def packed(lines: Iterable[Any]) -> list[KeptLine]:
    """Lines as they are kept, of `HistoryEvent`s."""
    return [
        (
            line.n,
            line.at,
            line.kind._value_,  # a member is an object, its value a text
            line.status if line.status.__class__ is str else line.status._value_,
            line.ref,
            line.attempt,
            line.number,
            line.reason,
            payload if payload is None else payload.stored() if payload.large else payload.text,
            line.cause,
        )
        for line in lines
        for payload in (line.payload,)
    ]


_KINDS: Final = {member.value: member for member in HistoryKind}


def unpacked(lines: Iterable[KeptLine]) -> list[HistoryEvent]:
    """Lines that were kept."""
    return [
        HistoryEvent(
            n=n,
            at=at,
            kind=_KINDS[kind],
            status=status,
            ref=ref,
            attempt=attempt,
            number=number,
            reason=reason,
            payload=kept if kept.__class__ is not str else EMPTY if kept == "{}" else Payload(kept),  # type: ignore[arg-type]
            cause=cause,
        )
        for n, at, kind, status, ref, attempt, number, reason, kept, cause in lines
    ]


class Emitted:
    """The values that one execution has emitted."""

    def __init__(self) -> None:
        #: What calls have emitted, without chunks; chunks with their calls, by their last numbers, and these in order.
        self.emissions: dict[tuple[str, int], Emission] = {}
        self.chunks: dict[int, tuple[tuple[str, int], Chunk]] = {}
        self.chunk_ends: list[int] = []
        self.values: dict[tuple[str, str], LatestValue] = {}


class Execution:
    """All rows of one workflow id: of an execution, or of events to one that does not exist yet."""

    #: What it has emitted; None for nothing.
    emitted: Emitted | None = None

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        self.attempts: dict[tuple[str, int], Task] = {}
        #: The fence of the last turn that changed each attempt, or a later one.
        self.fences: dict[tuple[str, int], int] = {}
        #: Number of the last attempt of each printed reference.
        self.last: dict[str, int] = {}
        #: Keys of live and of failed rows.
        self.live: dict[tuple[str, int], bool] = {}
        self.failed: dict[tuple[str, int], bool] = {}
        #: (seq, attempt, ref) of the rows inside loops, by definition reference.
        self.loops: dict[str, Ordered[tuple[int, int, str]]] = {}
        self.history: list[KeptLine] = []
        self.texts: dict[str, str] = {}
        self.inbox: dict[str, Event] = {}
        self.held: dict[str, bool] = {}
        #: Messages by reference.
        self.offered: dict[str, Message] = {}
        #: Ids of the tasks with log lines.
        self.logged: dict[str, bool] = {}
        #: Messages to the execution by number, their numbers by topic and key, and of each topic those not received.
        self.mailbox: dict[int, WorkflowMessage] = {}
        self.mail_keys: dict[tuple[str, str], int] = {}
        self.unreceived: dict[str, Ordered[tuple[int]]] = {}


#: What there is of a workflow id of which there is nothing.
NOBODY: Final = Execution("")


def ordered(tables: dict[Any, Ordered[Any]], key: object) -> Ordered[Any]:
    """The index under a key, made on first use."""
    if key not in tables:
        tables[key] = Ordered()
    return tables[key]


class LimitTables:
    """Limits, those that pass over lanes, and members: by key and holder, by lane in the order of the line, by execution."""

    def __init__(self) -> None:
        self.rows: dict[str, Limit] = {}
        self.unpolled: dict[str, bool] = {}
        self.members: dict[str, dict[str, Member]] = {}
        self.lines: dict[str, dict[str, Ordered[tuple[Any, ...]]]] = {}
        self.members_of: dict[str, dict[tuple[str, str], bool]] = {}


class PayloadTables:
    """Keys in the payload storage by execution and hash, the executions that refer to each, and keys that nobody refers to, with
    the instant since when.
    """

    def __init__(self) -> None:
        self.externals: dict[str, dict[str, ExternalPayload]] = {}
        self.users: dict[str, frozenset[str]] = {}
        self.loose: dict[str, dict[str, int]] = {}


class OutboxTables:
    """Outgoing parts by number, and the last number."""

    def __init__(self) -> None:
        self.items: dict[int, RelayItem] = {}
        self.number = 0


class MetadataTables:
    """Definitions and schemas."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self.workflow_defs: dict[tuple[str, int], str] = {}
        self.workflow_versions: dict[str, Ordered[tuple[int]]] = {}
        self.task_defs: dict[str, str] = {}
        self.schema_defs: dict[tuple[str, int], str] = {}


class EventTables:
    """Handlers (event, whether active, text) by name; records by handler, event, message, number of the action; their places.

    Places are of all, of a handler, of a message.
    """

    def __init__(self) -> None:
        self.handlers: dict[str, tuple[str, bool, str]] = {}
        self.executions: dict[tuple[str, str, str, int], EventExecution] = {}
        self.places: dict[tuple[str, str], Ordered[EventPlace]] = {}


class FeedTables:
    """Indexed executions, the fences at which they were indexed last, and other pending entries by number."""

    def __init__(self) -> None:
        self.rows: dict[FeedKind, Feed] = {}
        self.indexed: dict[tuple[FeedKind, str], int] = {}
        self.pending: dict[int, tuple[FeedKind, str]] = {}
        self.number = 0


class OtherTables:
    """Tables to which no other table refers."""

    def __init__(self) -> None:
        #: Last polls by task type and domain (no domain: the empty text).
        self.polls: dict[tuple[str, str], PollData] = {}
        self.logs: dict[str, list[TaskLog]] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.schedule_names: Ordered[tuple[str]] = Ordered()
        #: Ends of the stretches in which drivers drove, by owner and beginning.
        self.driven: dict[tuple[str, int], int] = {}
        self.holders: dict[str, HolderRow] = {}
        self.archive: dict[str, Archived] = {}
        self.archived_ids: Ordered[tuple[str]] = Ordered()


#: The tables of `Store` that stand in groups.
GROUPS: Final = (LimitTables, PayloadTables, OutboxTables, MetadataTables, EventTables, FeedTables, OtherTables)


class Store:
    """All rows of a memory backend, their indexes and the undo log of the open transaction."""

    def __init__(self) -> None:
        self.workflows: dict[str, Workflow] = {}
        self.ids: Ordered[tuple[str]] = Ordered()
        self.by_status: dict[str, Ordered[tuple[str]]] = {}
        #: (created_at, workflow_id) of all executions, and of those of a name, a status, a correlation id, a parent.
        self.created: dict[tuple[str, str], Ordered[tuple[int, str]]] = {}
        #: Holders of idempotency keys, by workflow name and key; and the place of the key an execution holds.
        self.keys: dict[tuple[str, str], str] = {}
        self.key_of: dict[str, tuple[str, str]] = {}
        self.executions: dict[str, Execution] = {}
        self.task_ids: dict[str, tuple[str, str, int]] = {}
        #: Every event that is not held, by its owner.
        self.due: dict[str, Ordered[DueKey]] = {"": Ordered()}
        #: Ids of the executions of each owner; those without an owner are not listed.
        self.owned: dict[str, Ordered[tuple[str]]] = {}
        #: Of every message, by queue, then by negated priority: (due_at, workflow_id, length of ref, ref).
        self.queues: dict[str, dict[int, Ordered[tuple[int, str, int, str]]]] = {}
        self.counters: dict[str, int] = {"registry": 0, "removed": 0}
        self.limits, self.payloads, self.outbox = LimitTables(), PayloadTables(), OutboxTables()
        self.metadata, self.events, self.feeds, self.beside = MetadataTables(), EventTables(), FeedTables(), OtherTables()
        #: What was changed, where in it, and what was there: a tuple each, for there are thousands in a large commit.
        self.undo_log: list[tuple[Any, Any, object]] = []
        self.note: Final = self.undo_log.append

    def forget(self) -> None:
        """Let all rows go: nobody looks at them any more."""
        for tables in (self, self.limits, self.payloads, self.outbox, self.metadata, self.events, self.feeds, self.beside):
            for rows in tables.__dict__.values():
                if rows and isinstance(rows, dict | list):
                    rows.clear()

    def become(self, other: Store) -> None:
        """Hold what another one holds; nothing is to be undone."""
        self.undo_log.clear()
        for name, rows in vars(other).items():
            if name not in ("undo_log", "note"):
                setattr(self, name, rows)

    # -- changes that can be undone ------------------------------------------------------------------------------------

    # What is noted is noted before it is done, and taking it back is the same whether it was done, begun, or taken back already:
    # an interruption may come in between.

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set one entry."""
        self.undo_log.append((table, key, table.get(key, MISSING)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> V | None:
        """Delete one entry, if it is there, and return it."""
        old = table.get(key, MISSING)
        if old is MISSING:
            return None
        self.undo_log.append((table, key, old))
        del table[key]
        value: V = old
        return value

    def extend(self, entries: list[V], more: Iterable[V]) -> None:
        """Add to the end of a list."""
        self.undo_log.append((entries, len(entries), APPENDED))
        entries.extend(more)

    def add(self, index: Ordered[Any], key: tuple[Any, ...]) -> None:
        """Put a key into an index it is not in."""
        self.undo_log.append((index, key, ADDED))
        index.add(key)

    def discard(self, index: Ordered[Any], key: tuple[Any, ...]) -> None:
        """Take a key out of an index it is in."""
        self.undo_log.append((index, key, DISCARDED))
        index.discard(key)

    def mark(self) -> int:
        """A place to return to."""
        return len(self.undo_log)

    def undo(self, mark: int = 0) -> None:
        """Take back every change since `mark`."""
        while len(self.undo_log) > mark:
            changed, key, old = self.undo_log[-1]
            if old is MISSING:
                changed.pop(key, None)
            elif old is APPENDED:
                del changed[key:]
            elif old is ADDED:
                changed.discard(key)
            elif old is DISCARDED:
                changed.discard(key)
                changed.add(key)
            else:
                changed[key] = old
            del self.undo_log[-1]

    # -- places --------------------------------------------------------------------------------------------------------

    def of(self, workflow_id: str) -> Execution:
        """The rows of a workflow id, to be read only: those of nobody where there are none."""
        return self.executions.get(workflow_id, NOBODY)

    def execution(self, workflow_id: str) -> Execution:
        """The rows of a workflow id, made on first use."""
        found = self.executions.get(workflow_id)
        if found is None:
            found = Execution(workflow_id)
            self.put(self.executions, workflow_id, found)
        return found
