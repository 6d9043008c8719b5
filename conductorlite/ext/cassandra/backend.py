"""`SplitBackend`: the blocks of a store in two parts, delivery of what a turn has sent, and the sweep."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, final

from conductorlite.engine.invariants import slots_taken
from conductorlite.ext.cassandra.changes import SplitWrites
from conductorlite.ext.cassandra.partitions import (
    REMOVED,
    SHARDS,
    Asked,
    Head,
    Item,
    Partitions,
    Turn,
    item_of,
    member_of,
    thin,
    workflow_from,
)
from conductorlite.ext.cassandra.rows import Memory, SplitReads
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import ExternalPayload, Payload, attempt_head
from conductorlite.model.decisions import Decision, Outgoing
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
from conductorlite.model.handlers import EventExecution, EventStatus
from conductorlite.model.limits import Limit, LimitChange
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.threads import Block, within
from conductorlite.store.ports import Backend, Capability, Marks, PayloadStorage, Presence, WritingTransaction
from conductorlite.store.sqlite.rows import event_of
from conductorlite.store.tables import Life, ScheduleRow

__all__ = ["SplitBackend"]

#: Heads compared at once by the sweep, and in one idle moment.
_PAGE: Final = 100
_MOMENT: Final = 5_000


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
            if not tx.driven(identity, -1):
                if tx.workflow_ids(None, "", 1):
                    raise InvalidInput("the queue store belongs to other executions: give this keyspace one of its own")
                tx.note_driven(identity, 0, 0)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[Any]:
        """A view of the queue store, and the partitions as they are; inside another block of this thread, that one's view."""
        return within(_Split(self, writes=False))

    def writing(self) -> AbstractContextManager[Any]:
        """A change; raises InvariantBroken inside another block of this thread."""
        return within(_Split(self, writes=True))

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
        over: Head | None = None
        with self.queue.writing() as tx:
            head = self._partitions.heads([workflow_id], items=True).get(workflow_id)
            listed = tx.workflow(workflow_id)
            if head is None or head.turn == REMOVED:
                if head is None and listed is not None:
                    tx.remove(workflow_id)
                over = head if listed is None else None
            elif listed is None or listed.fence < head.fence:
                items = item_of(self._partitions.whole(workflow_id, head))
                for item in items:
                    self._partitions.write(workflow_id, item.cells)
                try:
                    if listed is None and items[0].decision.created and not again:
                        _apply(tx, changed(items[0].decision, workflow=_at(items[0], head.fence - len(items))))
                        items = items[1:]
                    elif listed is None or listed.fence + len(items) < head.fence:
                        self._restore(tx, head, items)
                    for item in items if listed is not None or not again else ():
                        self._apply_after(tx, item)
                except KeyTaken:  # a start that nobody was answered for, whose key another one has taken since
                    over = head
        if over is not None:
            mark = changed(over, turn=REMOVED, item="")
            self._partitions.take([Turn(workflow_id=workflow_id, created=False, fence=over.fence + 1, head=mark, cells=())])
            self._partitions.forget(workflow_id, over.fence)

    def _apply_after(self, tx: WritingTransaction, item: Item) -> None:
        """Carry out an item, if that was not done."""
        listed = tx.workflow(item.decision.workflow.workflow_id)
        if listed is not None and listed.fence < item.fence:
            _apply(tx, changed(item.decision, workflow=_at(item, listed.fence), created=False))

    def _restore(self, tx: WritingTransaction, head: Head, items: Sequence[Item]) -> None:
        """Put an execution back into a queue store that has lost it, or knows an older one; its inbox there is kept."""
        row, wide, _ = workflow_from(head.text)
        workflow_id = row.workflow_id
        inbox = tx.inbox(workflow_id)
        tx.remove(workflow_id)
        last = items[-1].decision
        holder = None if row.idempotency_key is None else tx.key_holder(row.name, row.idempotency_key)
        other = None if holder is None else tx.workflow(holder)
        if other is not None and other.created_at > row.created_at:
            row, holder = changed(row, idempotency_key=None), None
        shards = range(SHARDS + 1) if wide else (0,)
        asked = [Asked(workflow_id=workflow_id, shard=shard, entity=name) for name in ("far", "sent", "slot") for shard in shards]
        cells = [cell for found in self._partitions.read(asked) for cell in found if cell.text]
        far = [json.loads(cell.text or "") for cell in cells if cell.entity == "far"]
        children = self._partitions.heads([cell.key for cell in cells if cell.entity == "sent"])
        sent = [json.loads(cell.text or "") for cell in cells if cell.entity == "sent" and cell.key not in children]
        outgoing = Outgoing(put=last.outgoing.put, posted=last.outgoing.posted)
        decision = Decision(
            workflow=changed(row, fence=head.fence - 1),
            created=True,
            replaces=holder,
            externals=tuple(ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in far),
            timers=last.timers,
            outgoing=outgoing,
        )
        _apply(tx, thin(decision))
        tx.post([*inbox, *(event_of(tuple(event)) for event in sent)])
        for cell in cells:
            if cell.entity == "slot":
                member = member_of(json.loads(cell.text or ""))
                tx.put_limit(_merged(tx, LimitChange(limit=Limit(key=member.key, number=member.number), put=(member,))))

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
                    for one in view.workflow_ids(status, self._swept, _PAGE)
                )[:_PAGE]
                fences = {one: row.fence for one in ids if (row := view.workflow(one)) is not None}
            heads = self._partitions.heads(ids) if ids else {}
            self._behind.update(one for one in ids if (head := heads.get(one)) is None or head.fence > fences.get(one, 0))
            self._swept = ids[-1] if len(ids) == _PAGE else None
            seen += len(ids)
        self._settle()

    def faults(self) -> Sequence[str]:
        """What the queue store finds wrong with itself, and how many executions it lacks; walks every partition."""
        lost = sum(1 for _ in self._lost())
        said = [f"the index in the queue store lacks {lost} executions"] if lost else []
        return [*said, *self.queue.faults()]

    def _lost(self) -> Iterable[str]:
        for workflow_id in self._partitions.walk():
            with self.queue.reading() as view:
                known = view.workflow(workflow_id) is not None
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
                    _put_back(tx, key.partition("\x1f")[0] if table == "definitions" else "add_event_execution", json.loads(text))
        for workflow_id in self._lost():
            self._deliver(workflow_id, again=True)

    # -- what the queue store does -------------------------------------------------------------------------------------

    def data_version(self) -> int:
        """The queue store's: no turn is committed without it."""
        return self.queue.data_version()

    def commits(self) -> int:
        """How many changes were committed through this object."""
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
        """What is known of a holder by the place of its presence."""
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
        kind: Any = SplitWrites if self._writes else SplitReads
        self.view = kind(inner.__enter__(), backend._partitions, backend._behind, backend._memory)
        return self.view

    def end(self, error: BaseException | None) -> None:
        try:
            if self._inner is None:
                return
            if error is None and isinstance(self.view, SplitWrites):
                self._commit(self.view)
            else:
                self._over(error)
        finally:
            self.undo()

    def _over(self, error: BaseException | None) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)

    def _commit(self, tx: SplitWrites) -> None:
        changes = {*tx.pending, *tx.removed}
        try:
            _store(self._backend._partitions, tx)
        except BaseException as error:
            self._backend._behind |= changes
            self._over(error)
            raise
        try:
            self._over(None)
        except BaseException:
            self._backend._behind |= changes
            raise
        tx.committed()
        for workflow_id, head in tx.removed.items():
            if workflow_id not in tx.pending:
                with suppress(StorageError):  # the next look at it finishes it
                    self._backend._partitions.forget(workflow_id, head.fence)

    def undo(self, error: BaseException | None = None) -> None:
        backend = self._backend
        if backend._current.block is self:
            backend._current.block = None
        if self._inner is not None:
            if isinstance(self.view, SplitWrites):
                backend._behind |= self.view.pending.keys()
            self._over(KeyboardInterrupt())


def _store(partitions: Partitions, tx: SplitWrites) -> None:
    """Store a change in the partitions; raises FencedOut when another turn was first in one of them."""
    for table, key, text in tx.kept:
        partitions.keep(table, key, text)
    marks = [
        Turn(workflow_id=one, created=False, fence=head.fence + 1, head=changed(head, turn=REMOVED, item=""), cells=())
        for one, head in tx.removed.items()
    ]
    if marks:
        partitions.take(marks)
    for one in tx.removed.keys() & tx.pending.keys():
        partitions.forget(one, tx.removed[one].fence)
    for workflow_id, pending in tx.pending.items():
        if pending.created:
            partitions.register(attempt_head(workflow_id), workflow_id)
        if pending.texts:
            partitions.write(workflow_id, pending.texts)
    turns = tx.turns()
    for turn, applied in zip(turns, partitions.take(turns) if turns else (), strict=True):
        if not applied:
            raise FencedOut(f"{turn.workflow_id}: another turn was first in its partition")
    for workflow_id, pending in tx.pending.items():
        for item in pending.items:
            if item.cells:
                partitions.write(workflow_id, item.cells)


def _at(item: Item, fence: int) -> Any:
    return changed(item.decision.workflow, fence=fence)


def _apply(tx: WritingTransaction, decision: Decision) -> None:
    """Carry out a thin decision that is committed already; its changes of limits count from what those are now."""
    try:
        tx.apply(decision)
    except FencedOut:
        tx.apply(changed(decision, limits=tuple(_merged(tx, change) for change in decision.limits)))


def _merged(tx: WritingTransaction, change: LimitChange) -> LimitChange:
    """A change of a limit that others have changed since: who is in and who is gone counts, and is counted again."""
    key = change.limit.key
    stored = tx.line(key, 0).limit
    put = {member.holder: member for member in change.put}
    stay = [member for member in tx.members(key) if member.holder not in change.gone and member.holder not in put]
    in_use, reserved = slots_taken([*stay, *put.values()])
    limit = changed(
        stored,
        in_use=in_use,
        reserved=reserved,
        log=tuple(sorted({*stored.log, *change.limit.log})),
        depth=max(stored.depth, change.limit.depth),
        span_ms=max(stored.span_ms, change.limit.span_ms),
        number=max(stored.number, change.limit.number),
    )
    return changed(change, limit=limit)


def _put_back(tx: WritingTransaction, verb: str, said: list[Any]) -> None:
    """Keep again what the queue store has lost, unless it has it."""
    if verb == "add_event_execution":
        *key, status, action, created, text = said
        name, event, message_id, number = key
        if tx.event_execution(name, event, message_id, number) is None:
            record = EventExecution(
                name=name,
                event=event,
                message_id=message_id,
                number=number,
                status=EventStatus(status),
                action=action,
                created=created,
                output=Payload(text),
            )
            tx.add_event_execution(record)
    elif verb == "put_schedule":
        name, address, text, progress, waits, owner, events = said
        if tx.schedule(name) is None:
            row = ScheduleRow(name=name, address=address, text=text, progress=progress, waits=waits, owner=owner)
            tx.put_schedule(row, (), [event_of(tuple(event)) for event in events])
    else:
        known: dict[str, Any] = {
            "embed": lambda digest, _: tx.definition(digest),
            "put_workflow_def": lambda name, version, _: tx.workflow_def(name, version),
            "put_task_def": lambda name, _: tx.task_def(name),
            "put_schema_def": lambda name, version, _: tx.schema_def(name, version),
            "put_event_handler": lambda name, *_: tx.event_handler(name),
        }
        if known[verb](*said) is None:
            getattr(tx, verb)(*said)
