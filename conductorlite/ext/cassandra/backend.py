"""`SplitBackend`: the blocks of a store in two parts, delivery of what a turn has sent, and the sweep."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, final

import attrs

from conductorlite.engine.logs import log_store
from conductorlite.ext.cassandra.changes import Change, SplitChange
from conductorlite.ext.cassandra.delivery import bring_up, carry_out, put_back
from conductorlite.ext.cassandra.limits import Undelivered, announce, confirm, forget_unused
from conductorlite.ext.cassandra.partitions import (
    REMOVED,
    Head,
    Item,
    Partitions,
    Turn,
    delivered,
    item_of,
    item_text,
    marked,
    thin,
)
from conductorlite.ext.cassandra.rows import Memory, Parts, SplitTransaction
from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import (
    ConductorliteError,
    EngineClosed,
    FencedOut,
    InvalidInput,
    InvariantBroken,
    KeyTaken,
    MissingCapability,
    StorageError,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.threads import Block, within
from conductorlite.store.ports import Backend, Capability, Marks, PayloadStorage, Presence, ReadingTransaction, WritingTransaction
from conductorlite.store.tables import Life

__all__ = ["SplitBackend"]

#: Heads compared at once by the sweep, and in one idle moment.
_PAGE: Final = 100
_MOMENT: Final = 5_000


#: What ends a change that was only tried.
_TRIED: Final = FencedOut("tried")


class _Current(threading.local):
    """The block this thread is in."""

    block: _Split | None = None


@final
class SplitBackend:
    """Executions in `partitions`, all else in the store `queue`, which must commit what it is given at once.

    Raises MissingCapability for another one, InvalidInput when it is the queue of other partitions.
    """

    capabilities: frozenset[Capability] = frozenset((Capability.IMMEDIATE,))

    def __init__(self, partitions: Partitions, queue: Backend) -> None:
        if Capability.ONE_COMMIT not in queue.capabilities:
            text = f"{type(queue).__name__} cannot be the queue of another store: it does not commit a change whole"
            raise MissingCapability(Capability.ONE_COMMIT, text)
        self._partitions = partitions
        self.queue: Final = queue
        #: Executions whose last turn may not have been delivered.
        self._behind: set[str] = set()
        #: How far the sweep after a death has come.
        self._swept: str | None = None
        self._memory = Memory()
        self._current = _Current()
        self._pid = os.getpid()
        self._bind()

    def _bind(self) -> None:
        """Compare whose queue it is, or make it that of these partitions while it is empty."""
        with self.queue.writing() as tx:
            identity = f"~{self._partitions.identity()}"
            if not tx.owners.driven(identity, -1):
                if tx.executions.workflow_ids(None, "", 1):
                    raise InvalidInput("the queue store belongs to other executions: give this keyspace one of its own")
                tx.owners.note_driven(identity, 0, 0)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A view of the queue store, and the partitions as they are; inside another block of this thread, that one's view."""
        return within(_Split(self, writes=False))

    def writing(self) -> AbstractContextManager[WritingTransaction]:
        """A change; raises InvariantBroken inside another block of this thread."""
        return within(_Split(self, writes=True))

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Nothing: partitions are written one by one."""

    def _settle(self) -> None:
        """Deliver what is known to be behind."""
        while self._behind:
            try:
                workflow_id = self._behind.pop()
            except KeyError:
                return  # another thread was first
            try:
                self._deliver(workflow_id)
            except StorageError:
                self._behind.add(workflow_id)
                raise
            except ConductorliteError:
                continue  # the next look at it notes it again

    # -- delivery ------------------------------------------------------------------------------------------------------

    def _deliver(self, workflow_id: str, *, again: bool = False) -> None:
        """Bring the queue store up to the head of an execution; with `again` one that it has lost."""
        head, items = self._sent(workflow_id)
        with self.queue.reading() as view:
            listed = view.executions.workflow(workflow_id)
        if head is not None and head.turn != REMOVED:
            if listed is not None and delivered(listed) >= head.fence:
                return
            for item in items:
                self._partitions.write(workflow_id, item.cells)
        over: Head | None = None
        with self.queue.writing() as tx:
            listed = tx.executions.workflow(workflow_id)
            if listed is None or head is None or head.turn == REMOVED:
                # It begins or is removed by somebody else: with the lock the two are looked at together.
                head, items = self._sent(workflow_id)
            if head is None:
                if listed is not None:
                    tx.executions.remove(workflow_id)
            elif head.turn == REMOVED:
                over = head if listed is None else None
                if listed is not None:
                    self._keep_on(tx, listed, head)
            elif listed is None or delivered(listed) < head.fence:
                try:
                    bring_up(tx, self._partitions, listed, head, items, again=again)
                except KeyTaken:  # a start that nobody was answered for, whose key another one has taken since
                    over = head
        if over is not None:
            self._undone(workflow_id, over)

    def _sent(self, workflow_id: str) -> tuple[Head | None, list[Item]]:
        """The head of an execution, and what its last turn has sent."""
        head = self._partitions.heads([workflow_id], items=True).get(workflow_id)
        sent = head is not None and head.turn != REMOVED
        return head, item_of(self._partitions.whole(workflow_id, head)) if sent and head is not None else []

    def _keep_on(self, tx: WritingTransaction, listed: Workflow, head: Head) -> None:
        """Have an execution go on whose removal a process has begun that died: one that lives lets nobody write its row."""
        tx.decisions.apply(marked(thin(Decision(workflow=listed)), head.fence))
        kept = attrs.evolve(head, turn=os.urandom(16).hex(), item=item_text(()))
        if not all(self._partitions.take([Turn(workflow_id=listed.workflow_id, expected=head.fence, head=kept)])):
            raise FencedOut(f"{listed.workflow_id}: another turn was first")

    def _undone(self, workflow_id: str, head: Head) -> None:
        """Forget an execution that the queue store does not have."""
        mark = attrs.evolve(head, fence=head.fence + 1, turn=REMOVED, item="")
        self._partitions.take([Turn(workflow_id=workflow_id, expected=head.fence, head=mark)])
        self._partitions.forget(workflow_id, head.fence)

    def _taken(self, tx: Change, asked: Collection[str]) -> list[str]:
        """Write what turns refer to, and take their transactions, all at once; those that were not refused."""
        for one in asked:
            pending = tx.pending[one]
            if pending.created:
                self._partitions.register(attempt_head(one), one)
            if pending.texts:
                self._partitions.write(one, pending.texts)
        answers = self._partitions.take([tx.turn_of(one) for one in asked]) if asked else ()
        self._late(one for one, applied in zip(asked, answers, strict=True) if not applied)
        return [one for one, applied in zip(asked, answers, strict=True) if applied]

    def _late(self, workflow_ids: Iterable[str]) -> None:
        """Look at executions again in which other turns were first."""
        for workflow_id in workflow_ids:
            self._memory.forget(workflow_id)
            self._behind.add(workflow_id)

    # -- the sweep -----------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Put the queue store in order; after a death, look for turns of the dead that were not delivered."""
        self.queue.checkpoint()
        seen = 0
        while self._swept is not None and seen < _MOMENT:
            with self.queue.reading() as view:
                ids = sorted(
                    one
                    for status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)
                    for one in view.executions.workflow_ids(status, self._swept, _PAGE)
                )[:_PAGE]
                fences = {one: delivered(row) for one in ids if (row := view.executions.workflow(one)) is not None}
            heads = self._partitions.heads(ids) if ids else {}
            self._behind.update(one for one in ids if (head := heads.get(one)) is None or head.fence > fences.get(one, 0))
            self._swept = ids[-1] if len(ids) == _PAGE else None
            seen += len(ids)
        self._settle()

    def faults(self) -> Sequence[str]:
        """Return the faults that the queue store finds in itself, and how many executions it lacks; walks every partition."""
        lost = sum(1 for _ in self._lost())
        return [*([f"the index in the queue store lacks {lost} executions"] if lost else ()), *self.queue.faults()]

    def _lost(self) -> Iterable[str]:
        for workflow_id in self._partitions.walk():
            with self.queue.reading() as view:
                known = view.executions.workflow(workflow_id) is not None
            if not known:
                yield workflow_id

    def rebuild_indexes(self) -> None:
        """Rebuild the queue store's indexes, and put back into it what it has lost: executions, definitions, records of messages.

        Timers and messages follow from their rows by `Engine.admin.repair`, which calls this.
        """
        self.queue.rebuild_indexes()
        for table in ("definitions", "event_executions"):
            for key, text in self._partitions.kept(table):
                with self.queue.writing() as tx:
                    put_back(tx, key.partition("\x1f")[0] if table == "definitions" else "add_event_execution", json.loads(text))
        for workflow_id in self._lost():
            self._deliver(workflow_id, again=True)

    # -- what the queue store does -------------------------------------------------------------------------------------

    def data_version(self) -> int:
        """The queue store's: no turn is committed without it."""
        return self.queue.data_version()

    def commits(self) -> int:
        """Number of changes committed through this object."""
        return self.queue.commits()

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Raises MissingCapability: Cassandra makes snapshots, and the queue store is rebuilt from them."""
        raise MissingCapability(Capability.BACKUP, "executions in Cassandra are copied by its snapshots (`nodetool snapshot`)")

    def payload_storage(self) -> PayloadStorage | None:
        """The queue store's."""
        return self.queue.payload_storage()

    def marks(self) -> Marks | None:
        """The queue store's."""
        return self.queue.marks()

    def appear(self) -> Presence:
        """The presence of an engine, at the queue store."""
        return self.queue.appear()

    def look(self, place: str) -> Life:
        """Return the state of a holder, by the place of its presence."""
        return self.queue.look(place)

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder; it may have died in the middle of a turn."""
        self.queue.forget(place)
        self._swept = ""

    def make_room(self) -> bool:
        """The queue store's."""
        return self.queue.make_room()

    def compact(self) -> None:
        """Have the queue store give back the space of what was deleted."""
        self.queue.compact()

    def close(self) -> None:
        """Release both; idempotent."""
        if os.getpid() == self._pid:
            self._partitions.close()
        self.queue.close()


class _Split(Block[Any]):
    """The block of a view or a change."""

    __slots__ = ("_backend", "_inner", "_writes", "view")

    def __init__(self, backend: SplitBackend, *, writes: bool) -> None:
        self._backend, self._writes = backend, writes
        self._inner: AbstractContextManager[Any] | None = None
        self.view: Any = None

    def begin(self) -> Any:
        backend = self._backend
        if os.getpid() != backend._pid:
            raise EngineClosed("the process was forked after the backend was opened; open one in the child process")
        outer = backend._current.block
        if outer is not None and outer.live and outer.view is not None:
            if self._writes:
                raise InvariantBroken("writing() inside another transaction of the same thread")
            return outer.view
        if backend._behind:
            backend._settle()
        backend._current.block = self
        self._inner = inner = backend.queue.writing() if self._writes else backend.queue.reading()
        tx: Any = inner.__enter__()
        parts = Parts(tx.executions, backend._partitions, backend._behind, backend._memory)
        self.view = SplitChange(tx, parts) if self._writes else SplitTransaction(tx, parts)
        return self.view

    def end(self, error: BaseException | None) -> None:
        try:
            if self._inner is None:
                return
            if error is None and isinstance(self.view, SplitChange):
                self._commit(self.view.change)
            else:
                mixed = isinstance(error, InvariantBroken) and not self._writes and self.view.parts.is_mixed()
                self._over(error)
                if mixed:
                    raise FencedOut("what was read was not of one state") from error
        finally:
            self.undo()

    def _over(self, error: BaseException | None) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)

    def _commit(self, tx: Change) -> None:
        partitions = self._backend._partitions
        if not (tx.pending or tx.removed):
            for table, key, text in tx.kept:
                partitions.keep(table, key, text)
            self._over(None)
            return
        tx.settled()
        if not (tx.alone and tx.foreseen):
            self._over(_TRIED)  # what was tried is undone, and the lock is free
        try:
            late = tx.contradicted()
            if late and tx.alone:
                raise FencedOut(f"{', '.join(late)}: another turn was first")
            for table, key, text in tx.kept:
                partitions.keep(table, key, text)
            if tx.embedded and self._inner is None:
                with self._backend.queue.writing() as queue:
                    for given in tx.embedded:
                        queue.metadata.embed(*given)
            stored = self._alone(tx) if tx.alone else self._apart(tx, late)
        except BaseException as error:
            self._backend._behind |= {*tx.pending, *tx.removed}
            self._over(error)
            raise
        tx.committed(stored)
        refused = [one for one in tx.pending if one not in stored]
        if refused:
            raise FencedOut(f"{', '.join(refused)}: another turn was first", stored=frozenset(stored))

    def _apart(self, tx: Change, late: Collection[str]) -> list[str]:
        """Take the transactions, then carry out what they send; those that were not refused."""
        backend = self._backend
        stored = backend._taken(tx, [one for one in tx.pending if one not in late])
        backend._late(late)
        taken: dict[str, Head] = {}
        try:
            for one in stored:
                for item in tx.pending[one].items:
                    if item.cells:
                        backend._partitions.write(one, item.cells)
            with backend.queue.writing() as queue:
                tx.write_extras(queue, None)
                for one, number in tx.order:
                    if one in stored and one not in taken:
                        try:
                            carry_out(queue, tx.pending[one].items[number])
                            tx.write_extras(queue, (one, number))
                        except KeyTaken:  # by another one, since it was tried
                            taken[one] = tx.pending[one].head
        except StorageError as error:
            log_store("what turns have sent is delivered later", error)
            backend._behind.update(stored)
        for one, head in taken.items():
            backend._undone(one, head)
        return [one for one in stored if one not in taken]

    def _alone(self, tx: Change) -> list[str]:
        """Take the transactions while nobody else writes to the queue store; raises FencedOut when one of them is refused."""
        backend = self._backend
        if self._inner is not None:
            self._take_all(tx)
            self._over(None)
        else:
            doubtful: Collection[str] = ()
            try:
                if tx.limited:
                    with backend.queue.writing() as queue:
                        doubtful = announce(queue, backend._partitions, tx.limited)
                with backend.queue.writing() as queue:
                    confirm(queue, backend._partitions, tx.limited, doubtful)
                    tx.again(queue)
                    forget_unused(queue, tx.limited)
                    self._take_all(tx)
            except Undelivered as error:
                backend._behind.update(error.workflow_ids)
                raise
        for one in tx.removed.keys() - tx.pending.keys():
            with suppress(StorageError):  # the next look at it finishes it
                backend._partitions.forget(one, tx.removed[one].fence)
        return list(tx.pending)

    def _take_all(self, tx: Change) -> None:
        backend = self._backend
        marks = [
            Turn(workflow_id=one, expected=head.fence, head=attrs.evolve(head, fence=head.fence + 1, turn=REMOVED, item=""))
            for one, head in tx.removed.items()
        ]
        if marks and not all(backend._partitions.take(marks)):
            raise FencedOut(f"{', '.join(tx.removed)}: another turn was first")
        for one in tx.removed.keys() & tx.pending.keys():
            backend._partitions.forget(one, tx.removed[one].fence)
        late = tx.pending.keys() - set(backend._taken(tx, tx.pending))
        if late:
            raise FencedOut(f"{', '.join(late)}: another turn was first")
        for one, pending in tx.pending.items():
            for item in pending.items:
                if item.cells:
                    backend._partitions.write(one, item.cells)

    def undo(self, error: BaseException | None = None) -> None:
        backend = self._backend
        if backend._current.block is self:
            backend._current.block = None
        if self._inner is not None:
            if isinstance(self.view, SplitChange):
                backend._behind |= self.view.change.pending.keys()
            self._over(KeyboardInterrupt())
