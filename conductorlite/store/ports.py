"""The protocols of what the engine stands on: a store, an index, a lock, a payload storage, secrets and sources of messages.

What executions are searched by is the index in the store's own file, or an external one, which may be lost at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import attrs

from conductorlite.model.decisions import Decision
from conductorlite.store.documents import Document
from conductorlite.store.tables import ExternalStorageLocation, Life, Parameters, Rows, StoredPayload
from conductorlite.store.transactions import DocumentWrites, IndexReads, OwnIndex, ReadingTransaction, WritingTransaction

__all__ = [
    "Backend",
    "Capability",
    "DocumentWrites",
    "EventMessage",
    "EventSource",
    "IndexDAO",
    "IndexEntry",
    "IndexReads",
    "JoinableBackend",
    "JoinedTransaction",
    "Lock",
    "Marks",
    "OwnIndex",
    "OwnRows",
    "PayloadCodec",
    "PayloadStorage",
    "Presence",
    "ReadingTransaction",
    "SecretProvider",
    "WritingTransaction",
]


class PayloadStorage(Protocol):
    """Bytes by key. It belongs to one store: what that store does not know of is swept. Thread-safe.

    Keys are texts of hex digits, `/`, `.`, `-` and `_`. Every method raises PayloadUnavailable when the storage cannot be
    reached or refuses.
    """

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes, whole or not at all, in place of what was there; durable when it returns."""

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""

    def size(self, key: str) -> int:
        """Return the number of bytes without reading them; raises PayloadLost if there are none."""

    def delete(self, key: str) -> None:
        """Forget the bytes; nothing happens when there are none."""

    def list(self) -> Iterator[StoredPayload]:
        """Every object there is, what an interrupted `put` has left included, in any order."""

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """Return where to READ or WRITE the object of a key; raises InvalidInput for other operations."""


class PayloadCodec(Protocol):
    """A conversion of payloads on their way to a store or a storage and back, such as encryption. Pure, thread-safe.

    `key_id` (ASCII letters, digits, `-`, `_`) names how `encode` works at present, for one the key it encrypts with; it is kept
    beside each payload, and given to `decode` with it, so that keys can be changed while old payloads are read.
    """

    key_id: str

    def encode(self, data: bytes) -> bytes:
        """The bytes as they are stored."""

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The bytes as they were; may raise anything when they are damaged or the key is not known."""


class Presence(Protocol):
    """The sign that a holder is alive. It ends with its process, whatever ends that."""

    @property
    def place(self) -> str:
        """The place where other processes look for this presence."""

    @property
    def leased(self) -> bool:
        """True if there may be a process that cannot look there, for which only a lease counts."""

    def leave(self) -> None:
        """End it, recording that the holder ended by itself; from another process than its own, nothing. Idempotent."""

    def die(self) -> None:
        """End it as the death of its process would; idempotent."""

    def remove(self) -> None:
        """End it and leave no trace: no process will look for it any more. Idempotent."""


class Marks(Protocol):
    """Marks of turns that may end their process. They survive the process, not the power. Thread-safe.

    No method raises: where nothing can be marked, nothing is.
    """

    def deaths(self, key: str) -> int:
        """Return how many processes have died in a turn of this key since the last one was forgotten."""

    def begin(self, key: str) -> None:
        """Mark that a turn of this key is under way in this process."""

    def end(self, key: str) -> None:
        """Take the mark back; nothing happens when there is none."""

    def forget(self, key: str) -> None:
        """Forget that processes have died in turns of this key."""

    def close(self) -> None:
        """Leave nothing behind but what the dead have left; idempotent."""


class Capability(StrEnum):
    """A capability that some stores have. An operation that needs a missing one raises MissingCapability."""

    #: Once a change is committed, what is addressed elsewhere has arrived there. Without it, it waits in the outbox: the engine's
    #: driver and its polls deliver it, at least once, and what follows in other executions is theirs.
    IMMEDIATE = "immediate"
    #: A change is committed whole. Without it only what belongs to one execution is; what is addressed elsewhere may come later,
    #: when the process dies in between. What is to be the queue of another store needs it.
    ONE_COMMIT = "one commit"
    #: A view is one state, however long it is read. Without it a turn is fenced out, and what is only looked at may be mixed.
    SNAPSHOTS = "snapshots"
    #: Changes are made one after another: what one has read stays as it is until it ends.
    SERIAL = "serial changes"
    #: An application's change, in which others are parts: `Engine.transaction`. See `JoinableBackend`.
    TRANSACTIONS = "transactions"
    #: Every process that uses it is on one machine: when the clock of that is set, timers are dated again.
    ONE_CLOCK = "one clock"
    #: A copy in one file while it is used: `Engine.admin.backup`.
    BACKUP = "backup"


class Backend(Protocol):
    """A store. Thread-safe; every instant it compares is an argument."""

    capabilities: frozenset[Capability]

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; released when the block ends, so keep blocks short."""

    def writing(self) -> AbstractContextManager[WritingTransaction]:
        """An atomic change: committed when the block ends, undone when it raises."""

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Have the next write of this thread, which will store these, work out what it can before it begins; mostly nothing."""

    def data_version(self) -> int:
        """A number that changes when another connection or process has committed."""

    def commits(self) -> int:
        """Number of changes committed through this object."""

    def checkpoint(self) -> None:
        """Put the store in order, as far as that keeps no process waiting; for idle moments."""

    def faults(self) -> Sequence[str]:
        """Return the faults that the store finds in itself, in words. Reads all of it."""

    def rebuild_indexes(self) -> None:
        """Rebuild every index from its rows."""

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Copy the whole store, as it is at one instant, into a new file that appears when it is complete.

        With `documents` those in the payload storage that is the store's own (see `payload_storage`) are copied too.

        Raises MissingCapability when the store has no such form, AlreadyExists when there is something at `path`, StorageErrors.
        """

    def payload_storage(self) -> PayloadStorage | None:
        """Default storage of payloads beyond the soft barrier; None keeps all of them in the store."""

    def marks(self) -> Marks | None:
        """The marks of turns that are under way; None where nothing outlives the process. Closed with the backend."""

    def appear(self) -> Presence:
        """The presence of an engine that is about to hand out tasks: it ends with the process, or with this store's closing."""

    def look(self, place: str) -> Life:
        """Return the state of a holder, by the place of its presence."""

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""

    def make_room(self) -> bool:
        """Give back whatever is kept so that a full store can be emptied; whether a removal that met StorageFull may do now.

        Outside every transaction.
        """

    def compact(self) -> None:
        """Give back the space of what was deleted, as far as the store can; outside every transaction."""

    def close(self) -> None:
        """Release files and connections; idempotent."""


class OwnRows(Protocol):
    """An application's statements in one transaction, on tables of its own."""

    def execute(self, statement: str, parameters: Parameters = ()) -> Rows:
        """Carry out one statement; raises InvalidInput for what would end the transaction or change a table of the store."""

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Rows:
        """Carry out one statement for each of several parameters."""


class JoinedTransaction(WritingTransaction, Protocol):
    """A change that an application shares."""

    def own_rows(self) -> OwnRows:
        """Return the object with which the application writes rows of its own; raises InvalidInput when the store has no tables."""


@runtime_checkable
class JoinableBackend(Protocol):
    """A store that an application's rows can be in."""

    def transaction(self) -> AbstractContextManager[JoinedTransaction]:
        """A change whose parts are the blocks of `writing` and `transaction` inside it, in the same thread.

        A part is undone by itself when it raises, and committed with the whole.
        """


@attrs.frozen(kw_only=True, slots=True)
class IndexEntry:
    """The documents of one execution for an index, as they were at `version`.

    `whole`: there are no others of it; without any, nothing is to be known of it.
    """

    workflow_id: str
    version: int
    documents: Sequence[Document]
    whole: bool = False


class IndexDAO(IndexReads, Protocol):
    """An external index. Whatever it raises stops no execution: the engine tries again later. Thread-safe.

    It is asked for nothing that a search server does not give: no change of several documents is atomic, and no feeder is alone.
    A name leads searches to one index; another may be filled beside it and take its place. Every method raises StorageErrors:
    StorageUnavailable when the server cannot be reached, StorageCorrupt when an index is not what was made here.
    """

    def standing(self) -> tuple[str, int]:
        """Identity and position of the index that is searched; an empty one, at 0, is made where there is none."""

    def feed(self, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
        """Take entries into the index of that identity, searched or not, and raise its position to `position`, never lower it.

        A document never takes the place of one of a higher version, in whatever order entries come and how often; nor does one
        come back that an entry of a higher version has taken out, for as long as a feeder may be late with it. Of a searched
        index, searches that begin after the return see it. Raises StorageCorrupt when there is no such index.
        """

    def begin(self) -> str:
        """Make an empty index that is not searched; returns its identity, which no index had before."""

    def switch(self, identity: str) -> None:
        """Search the index of that identity from now on, in one step; the others of this name go.

        Raises StorageCorrupt when there is no such index.
        """

    def close(self) -> None:
        """Release files and connections; idempotent."""


class Lock(Protocol):
    """Saves double work on one execution; never trusted for safety, which is the fence's. Thread-safe, never waits.

    A turn is held under a lease: when that is over, another engine may take it. A token distinguishes one holding from every
    other, so that an engine that has lost a turn cannot give back another's. Every method but `close` raises LockUnavailable when
    the lock cannot be reached; then the turn may be held until its lease is over.
    """

    #: Whether a server of the lock's own says when a lease is over, whatever `now` (epoch ms) is given; if not, `now` does.
    own_time: bool

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the execution's turn and return its token, or None at once when another turn has it."""

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease of a turn that is held again; False when it was lost, to another turn or with the lock's memory."""

    def release(self, workflow_id: str, token: int) -> None:
        """Give the turn back; nothing happens when it was lost to another turn."""

    def close(self) -> None:
        """Release what it holds of the system; idempotent."""


class SecretProvider(Protocol):
    """Looks secrets up by name, when a task that names them is handed to a worker. A dict of texts is one.

    Called from whatever thread polls or reports, never inside a transaction, and each time again: a value that was changed counts
    from the next attempt on.
    """

    def get(self, name: str, /) -> str | None:
        """The secret of that name, None when there is none. What it raises fails the attempt, which may be tried again."""


@attrs.frozen(kw_only=True, slots=True)
class EventMessage:
    """One message: the name of its event, a JSON value, and the id that makes a second delivery harmless."""

    event: str
    payload: Any
    message_id: str


@runtime_checkable
class EventSource(Protocol):
    """A source of a broker's messages. The driver calls it, one call at a time; it must not wait."""

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """Up to `limit` messages, the oldest first; none when there is none now.

        Delivery is at least once: what is neither acknowledged nor rejected is to be given again, at once or later. Raise
        SourceError when the broker cannot be reached: it is asked again a second later, as after anything else that is raised.
        """

    def ack(self, message: EventMessage) -> None:
        """Forget a message that was handled: what it led to is stored."""

    def reject(self, message: EventMessage, reason: str) -> None:
        """Put away a message that can never be handled, because it is not JSON or has no name or id."""
