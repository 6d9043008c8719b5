"""`MemoryBackend`: transactions over a `Store`, serialised by one lock; their nouns are made once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, final

from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, InvalidInput, InvariantBroken, MissingCapability
from conductorlite.model.executions import Workflow
from conductorlite.model.later import functions
from conductorlite.model.threads import Block, Mutex, within
from conductorlite.store.memory.decisions import MemoryDecisions
from conductorlite.store.memory.executions import MemoryExecutions
from conductorlite.store.memory.limits import MemoryLimits, MemoryOwners, MemoryPresence, MemoryTaskHolders
from conductorlite.store.memory.mailboxes import MemoryInbox, MemoryOutbox, MemoryPollData, MemoryQueue
from conductorlite.store.memory.rows import Store
from conductorlite.store.memory.tables import (
    MemoryArchive,
    MemoryDocuments,
    MemoryEventHandlers,
    MemoryFeeds,
    MemoryHistory,
    MemoryMetadata,
    MemorySchedules,
    sizes,
)
from conductorlite.store.payloads import MemoryPayloads
from conductorlite.store.ports import Capability, JoinedTransaction, OwnRows, PayloadStorage, ReadingTransaction
from conductorlite.store.tables import Life, Sizes

if TYPE_CHECKING:
    from conductorlite.store.memory.streams import MemoryStreams
else:
    (MemoryStreams,) = functions("conductorlite.store.memory.streams", "MemoryStreams")

__all__ = ["MemoryBackend", "MemoryTransaction"]


class MemoryTransaction:
    """A view, or one atomic change, which sees its own writes; the backend's lock is held while its block lasts."""

    def __init__(self, store: Store, *, relay: bool) -> None:
        self._store = store
        self.inbox = inbox = MemoryInbox(store)
        self.queue = queue = MemoryQueue(store)
        self.outbox = outbox = MemoryOutbox(store, inbox=inbox, queue=queue)
        self.limits = limits = MemoryLimits(store)
        self.payloads = payloads = MemoryDocuments(store)
        self.feeds = feeds = MemoryFeeds(store)
        self.executions = executions = MemoryExecutions(
            store, inbox=inbox, queue=queue, limits=limits, payloads=payloads, feeds=feeds
        )
        self.decisions = MemoryDecisions(
            store,
            executions=executions,
            inbox=inbox,
            outbox=outbox,
            limits=limits,
            payloads=payloads,
            feeds=feeds,
            relay=relay,
        )
        self.history = MemoryHistory(store)
        self.poll_data = MemoryPollData(store)
        self.metadata = MemoryMetadata(store)
        self.event_handlers = MemoryEventHandlers(store)
        self.schedules = MemorySchedules(store, inbox=inbox)
        self.archive = MemoryArchive(store, feeds=feeds)
        self.owners = MemoryOwners(store, inbox=inbox, queue=queue)
        self.task_holders = MemoryTaskHolders(store)

    @property
    def streams(self) -> MemoryStreams:
        """See `StreamReads`."""
        return MemoryStreams(self._store)

    def sizes(self) -> Sizes:
        """Return the size of everything; reads everything."""
        return sizes(self._store)

    def own_rows(self) -> OwnRows:
        """Raises InvalidInput: there are no tables."""
        raise InvalidInput("a store in memory has no tables for rows of your own: open the engine on a file")


_RELAYING: Final = frozenset((Capability.SNAPSHOTS, Capability.SERIAL, Capability.TRANSACTIONS, Capability.ONE_CLOCK))
_WHOLE: Final = _RELAYING | {Capability.IMMEDIATE, Capability.ONE_COMMIT}


@final
class MemoryBackend:
    """A store in memory; with `relay=True` one that cannot commit the outgoing part with the rest."""

    #: Its rows are at hand: nobody need keep them.
    in_memory = True

    def __init__(self, *, relay: bool = False) -> None:
        self.capabilities = _RELAYING if relay else _WHOLE
        self._store = Store()
        self._mutex = Mutex()
        self._transaction = MemoryTransaction(self._store, relay=relay)
        self._commits = 0
        self._closed = False
        self._pid = os.getpid()
        self._payloads = MemoryPayloads()
        self._present: dict[str, Life] = {}
        self._appeared = 0
        #: How many engines were made on it: no other process can use it.
        self.engines = 0

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; inside another transaction of this thread, that one's view."""
        return within(_Reading(self))

    def writing(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change; inside one of `transaction`, in its thread, a part of that.

        Raises InvariantBroken inside another transaction of this thread.
        """
        return within(_Writing(self))

    def transaction(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change of the application's, in which other changes of this thread are parts."""
        return within(_Writing(self, joinable=True))

    def peek(self, workflow_id: str) -> Workflow | None:
        """The row of an execution at this instant, outside of any transaction."""
        return self._store.workflows.get(workflow_id)

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Nothing: nobody waits long for a write."""

    def data_version(self) -> int:
        """Always the same: nothing else can commit to a store in memory."""
        return 0

    def commits(self) -> int:
        """Number of commits so far."""
        return self._commits

    def checkpoint(self) -> None:
        """Nothing: there is no file."""

    def faults(self) -> Sequence[str]:
        """None: there is no file that could be damaged."""
        return ()

    def rebuild_indexes(self) -> None:
        """Nothing: they are changed with their rows, in one process."""

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Raises MissingCapability: a store in memory has no form that could be copied."""
        text = f"{path}: a store in memory cannot be copied into a file; open the engine on a file instead"
        raise MissingCapability(Capability.BACKUP, text)

    def payload_storage(self) -> PayloadStorage:
        """One in memory, that belongs to this store."""
        return self._payloads

    def marks(self) -> None:
        """None: a store in memory ends with its process."""

    def appear(self) -> MemoryPresence:
        """The presence of an engine that is about to hand out tasks: it is one of this process."""
        self._appeared += 1
        return MemoryPresence(self._present, self._appeared)

    def look(self, place: str) -> Life:
        """Return the state of a holder, by the place of its presence."""
        return self._present.get(place, Life.MISSING)

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""
        self._present.pop(place, None)

    def make_room(self) -> bool:
        """False: no disk is full."""
        return False

    def compact(self) -> None:
        """Nothing: what was deleted is gone."""

    def close(self) -> None:
        """Refuse every further transaction; idempotent. What it holds is let go at once, unless a transaction is open."""
        self._closed = True
        if not self._mutex.owned():
            with self._mutex.held(0) as free:
                if free:
                    self._store.forget()

    def _begin(self, block: _Reading | _Writing) -> _Reading | _Writing:
        """Have the store for a block of this thread, unless another one has it, which is returned."""
        if os.getpid() != self._pid:  # before the lock: the thread that held it at the fork gives it back in the parent only
            raise EngineClosed("the process was forked after the memory backend was made; a store in memory belongs to one process")
        holder: Any = self._mutex.enter(block)
        if holder is block:
            if self._closed:
                raise EngineClosed("the engine was closed, and its store in memory with it; use it inside its `with` block")
            if self._store.undo_log:
                self._store.undo()  # what one left that was interrupted twice
        found: _Reading | _Writing = holder
        return found


@final
class _Reading(Block[MemoryTransaction]):
    """The block of one view."""

    __slots__ = ("_backend", "view")
    joinable = False

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self.view = backend._transaction

    def begin(self) -> MemoryTransaction:
        return self._backend._begin(self).view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        written = len(backend._store.undo_log) > 0 and backend._mutex.mine(self)
        if written:
            backend._store.undo()
        backend._mutex.give(self)
        if written and error is None:
            raise InvariantBroken("a view was written to: what changes the store is a block of `writing()`")

    def undo(self, error: BaseException | None = None) -> None:
        self._backend._mutex.give(self)


@final
class _Writing(Block[MemoryTransaction]):
    """The block of one change."""

    __slots__ = ("_backend", "_mark", "joinable", "view")

    def __init__(self, backend: MemoryBackend, *, joinable: bool = False) -> None:
        self._backend = backend
        self.view = backend._transaction
        #: Whether others of this thread are parts of it.
        self.joinable = joinable
        #: Of a part: what was changed before it.
        self._mark: int | None = None

    def begin(self) -> MemoryTransaction:
        holder = self._backend._begin(self)
        if holder is not self:
            if not holder.joinable:
                raise InvariantBroken("writing() inside another transaction of the same thread")
            self._mark = self._backend._store.mark()
        return self.view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        if error is not None:
            self.undo()
        elif self._mark is not None:
            self._mark = None
        else:
            if backend._store.undo_log:
                backend._commits += 1
                backend._store.undo_log.clear()  # every change is final
            backend._mutex.give(self)

    def undo(self, error: BaseException | None = None) -> None:
        backend, mark = self._backend, self._mark
        if mark is not None:
            self._mark = None
            backend._store.undo(mark)
        elif backend._mutex.mine(self):
            backend._store.undo()
            backend._mutex.give(self)
