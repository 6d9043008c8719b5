"""A decision stored under its fence, and the timers of an execution in its own row.

The timers that an execution sets for itself stand in `workflows.timers` as long as they are few: a turn that takes one away and
sets the next writes no row of the inbox for it, and none of its indexes. `alarm_at` says when to look: no timer is due before that,
and the first one at most `SLACK_MS` later, so that a chain of quick tasks leaves the index of alarms alone. Who asks what is due
first reads the cells.

What does not fit stands in the inbox, as other events do; the cell then begins with a mark and takes no more. So a timer that is
not in a cell without the mark is nowhere.

Decisions of several executions, stored by one statement for each kind of row.

Most turns that share a write are over one task each, and change nothing but rows of their own execution. Written one by one, each
of them takes a savepoint and five statements; together they take one savepoint and as many statements as one. What asks for more
is left to `apply`. When a row is not as it is thought to be, nothing is stored here, and `apply` finds out whose fault that is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision, Event, Message, MessageKey, Outgoing
from conductorlite.model.errors import AlreadyExists, FencedOut, InvalidInput, InvariantBroken, KeyTaken
from conductorlite.model.later import functions
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.connections import FAILURES, translated
from conductorlite.store.sqlite.history import Cell, Tail, history_rows, packed_rows, tail_of, with_lines
from conductorlite.store.sqlite.limits import RowLimits
from conductorlite.store.sqlite.mailboxes import RowQueue
from conductorlite.store.sqlite.rows import (
    NULL,
    Row,
    Session,
    event_row,
    inbox_row,
    mail_row,
    message_row,
    task_row,
    workflow_row,
)
from conductorlite.store.sqlite.tables import RowDocuments
from conductorlite.store.sqlite.timers import (
    MARK,
    SHORT,
    Timers,
    timer_of,
    timers_of,
)

if TYPE_CHECKING:
    from conductorlite.store.sqlite.streams import put_emitted
else:
    (put_emitted,) = functions("conductorlite.store.sqlite.streams", "put_emitted")

__all__ = ["SLACK_MS", "GroupRows", "Known", "Others", "RowDecisions", "SQLiteDecisions", "is_usual"]

#: Of a decision's own events those that are the inbox's: ids to delete, events to put.
Others = tuple[Sequence[str], Sequence[Event]]

#: What is known of an execution: its number, when its alarm is, its cells of timers and of the last lines of its journal, and what
#: is in them where they have been read.
Known = tuple[int, int | None, str | None, Cell, Timers | None, Tail | None]


def is_usual(decision: Decision) -> bool:
    """Return True if a decision changes rows of tasks, timers, messages and lines of the journal, and nothing else."""
    more = decision.dropped or decision.renamed or decision.texts or decision.externals or decision.limits or decision.messages
    if decision.emissions or decision.values:
        return False
    return not (more or decision.created or decision.release_held or decision.outgoing.posted)


#: The lists of `GroupRows`.
_KINDS: Final = ("added", "alarmed", "changed", "dated", "ended", "gone", "history", "put", "read", "updated")


class GroupRows:
    """The rows that decisions write, by the statement that writes them."""

    __slots__ = (*_KINDS, "known")

    def __init__(self) -> None:
        #: Rows of executions: those that change as they mostly do, those whose alarm is another one, those that end.
        self.changed: list[Row] = []
        self.alarmed: list[Row] = []
        self.ended: list[Row] = []
        self.updated: list[Row] = []
        self.added: list[Row] = []
        self.history: list[Row] = []
        #: Of their own events those that are the inbox's.
        self.read: list[tuple[str, str]] = []
        self.dated: list[Row] = []
        self.gone: list[MessageKey] = []
        self.put: list[Row] = []
        #: What is known of the executions afterwards.
        self.known: dict[str, Known] = {}

    def add(self, decision: Decision, before: Known, after: Known, leaving: Iterable[Tail], others: Others) -> None:
        """Add what one decision writes, of an execution of which this is known before and after it.

        `leaving` leaves its row, and `others` are the inbox's.
        """
        workflow, (number, at, *_), alarm = decision.workflow, before, after[1]
        row, keys = workflow_row(workflow, NULL), before[:4]
        cells = (*row[: sql.CHANGING], *after[2:4])
        self.known[workflow.workflow_id] = after
        if workflow.status.terminal:
            self.ended.append((*cells, alarm, *row[-2:], *row[-6:-2], *keys))
        elif alarm == at:
            self.changed.append((*cells, *row[-6:], *keys))
        else:
            self.alarmed.append((*cells, alarm, *row[-6:], *keys))
        fence = workflow.fence + 1
        for task in decision.updated:
            self.updated.append((fence, *task_row(task, NULL), number))
        for task in decision.inserted:
            self.added.append((number, fence, *task_row(task, NULL)))
        self.history += packed_rows(number, leaving)
        if any(others):
            owner, (gone, put) = workflow.owner, others
            self.read += [(workflow.workflow_id, event_id) for event_id in gone]
            self.dated += [event_row(one if one.owner == owner else attrs.evolve(one, owner=owner)) for one in put]
        outgoing = decision.outgoing
        self.gone += outgoing.removed
        for message in outgoing.put:
            self.put.append(message_row(message))

    def join(self, other: GroupRows) -> None:
        """Add what another one holds."""
        self.known |= other.known
        for kind in _KINDS:
            getattr(self, kind).extend(getattr(other, kind))


#: Nothing that is known.
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

#: So many timers stand in a row at most.
_MOST: Final = 8

#: How much earlier than the first timer an alarm may be, ms.
SLACK_MS: Final = 250

#: Of a timer in a cell: when it is due, and its text.
_text: Final = itemgetter(1)

#: What is known of so many executions is remembered.
_KNOWN: Final = 5_000


def _is_plain(decision: Decision) -> bool:
    """Return True if a decision begins an execution, and compares nothing but its id."""
    row = decision.workflow
    changes = (
        decision.updated
        or decision.dropped
        or decision.renamed
        or decision.limits
        or decision.outgoing.removed
        or decision.messages
        or decision.emissions
    )
    return decision.created and row.idempotency_key is None and not changes


class _Refused(Exception):
    """Internal: a row is not as it is thought to be."""


class RowDecisions:
    """The rows of a decision, written in an open transaction."""

    #: What a store binds for an empty cell.
    _null: float | None = None

    def __init__(self, session: Session, *, queue: RowQueue, limits: RowLimits, payloads: RowDocuments) -> None:
        self._session, self._queue, self._limits, self._payloads = session, queue, limits, payloads

    def _claim(self, decision: Decision) -> None:
        """Take the idempotency key, or take it over from the execution the decision names; raises KeyTaken."""
        workflow = decision.workflow
        place = (workflow.name, workflow.idempotency_key)
        if self._session.execute(sql.CLAIM_KEY, (*place, workflow.workflow_id)).rowcount:
            return
        moved = (workflow.workflow_id, *place, decision.replaces)
        if decision.replaces is not None and self._session.execute(sql.MOVE_KEY, moved).rowcount:
            return
        holder = self._session.execute(sql.KEY_HOLDER, place).fetchone()[0]
        raise KeyTaken(holder, f"idempotency key {workflow.idempotency_key!r} of {workflow.name!r} belongs to {holder!r}")

    def _updated(self, decision: Decision, written: sqlite3.Cursor) -> None:
        changed = written.rowcount
        if changed != len(decision.updated):
            raise InvariantBroken(
                f"{decision.workflow.workflow_id}: {len(decision.updated) - changed} of {len(decision.updated)}"
                " updated tasks have no row like it"
            )

    def _rows(self, decision: Decision, execution: int) -> None:
        fence, null = decision.workflow.fence + 1, self._null
        if decision.dropped:
            self._session.executemany(sql.DELETE_TASK, [(execution, ref) for ref in decision.dropped])
        if decision.updated:
            self._updated(
                decision,
                self._session.executemany(
                    sql.UPDATE_TASK, [(fence, *task_row(task, null), execution) for task in decision.updated]
                ),
            )
        if decision.inserted:
            self._session.executemany(sql.INSERT_TASK, [(execution, fence, *task_row(task, null)) for task in decision.inserted])
        if decision.renamed:
            names = [
                (one.new_ref, None if one.new_base_ref == one.new_ref else one.new_base_ref, execution, one.ref)
                for one in decision.renamed
            ]
            self._session.executemany(sql.RENAME_TASK, names)
        if decision.texts or decision.externals:
            self._texts(decision, execution)
        if decision.messages:
            self._session.executemany(sql.PUT_MAIL, map(mail_row, decision.messages))
        if decision.emissions or decision.values:
            put_emitted(self._session.executemany, decision)
        self._journal(decision, execution)

    def _journal(self, decision: Decision, execution: int) -> None:
        if decision.history:
            self._session.executemany(sql.INSERT_HISTORY, history_rows(execution, decision.history))

    def _texts(self, decision: Decision, execution: int) -> None:
        if decision.texts:
            texts = [(execution, text.digest, text.text) for text in decision.texts if text.text is not None]
            self._session.executemany(sql.INSERT_TEXT, texts)
        if decision.externals:
            self._payloads.keep(decision.workflow.workflow_id, decision.externals)

    def _events(self, decision: Decision) -> None:
        workflow_id = decision.workflow.workflow_id
        outgoing = decision.outgoing
        gone, own = self._own_events(decision)
        if gone:
            self._session.executemany(sql.DELETE_EVENT, [(workflow_id, event_id) for event_id in gone])
        if decision.release_held:
            self._session.execute(sql.RELEASE_HELD, sql.numbered(decision.released_at, workflow_id))
        owner = decision.workflow.owner
        timers = [event if event.owner == owner else attrs.evolve(event, owner=owner) for event in own] if own else own
        if outgoing.posted:
            self._session.executemany(sql.PUT_INBOX_EVENT, map(inbox_row, (*timers, *outgoing.posted)))
        elif timers:
            self._session.executemany(sql.PUT_EVENT, map(event_row, timers))
        if outgoing.removed or outgoing.put:
            self._queue.carry_out(outgoing)

    def _own_events(self, decision: Decision) -> tuple[Sequence[str], Sequence[Event]]:
        """Return the part of an execution's own events that stands in the inbox: ids to delete, events to put."""
        return decision.consumed + decision.cancelled, decision.timers


class SQLiteDecisions(RowDecisions):
    """Decisions stored one by one, or several by one statement for each kind of row; see `groups`."""

    _null = NULL

    def __init__(
        self, session: Session, known: dict[str, Known], *, queue: RowQueue, limits: RowLimits, payloads: RowDocuments
    ) -> None:
        super().__init__(session, queue=queue, limits=limits, payloads=payloads)
        #: What is known of executions as they were once: each is compared before it is used.
        self._known = known
        #: What of a decision's own events is the inbox's: ids to delete, events to put.
        self._others: Others = ((), ())
        #: Lines of a journal for which a row has no room any more; whether there is one that was written before.
        self._leaving: Sequence[Tail] = ()
        self._repeats = False
        #: Whether other processes have written of late, and may have been first.
        self._shared = False
        #: What was looked up of executions where others write.
        self._found: Mapping[str, Known] = _NOTHING
        #: What decisions will write if this is what is known of their executions.
        self._prepared: Mapping[str, tuple[Decision, Known, GroupRows]] = _NOTHING

    def begin(self, *, shared: bool) -> None:
        """A transaction begins; `shared`: others have written of late."""
        self._shared, self._found = shared, _NOTHING

    def end(self) -> None:
        """The transaction is over."""
        self._prepared = _NOTHING

    def defer(self) -> None:
        """Nothing: what refuses a decision is known at once."""

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence: one statement per kind of row.

        Raises FencedOut, AlreadyExists, KeyTaken; InvariantBroken for rows that contradict the store; InvalidInput for text or
        numbers SQLite cannot keep; StorageError. When the disk is full SQLite may have undone the whole transaction:
        then its commit is refused.
        """
        # The first decision of a transaction needs no savepoint: to undo it is to begin the transaction again.
        alone = not self._session.dirty
        if not alone:
            self._session.execute("SAVEPOINT decision")
        written = False
        try:
            if decision.created and decision.workflow.idempotency_key is not None:
                self._claim(decision)
                written = self._session.dirty = True
            execution = self._fenced(decision)
            written = self._session.dirty = True
            self._rows(decision, execution)
            self._events(decision)
            if decision.limits:
                self._limits.change(decision.limits)
        except BaseException as error:
            if not alone or written:  # a decision that was fenced out has written nothing
                self._undo(alone)
            self._raise_known(error, decision.workflow.workflow_id)
            raise
        if not alone:
            self._session.execute("RELEASE decision")

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """Store decisions that begin executions: one statement for each kind of row, where there is nothing to be compared."""
        if not all(map(_is_plain, decisions)):
            for decision in decisions:
                self.apply(decision)
            return
        alone, self._session.dirty = not self._session.dirty, True
        if not alone:
            self._session.execute("SAVEPOINT decision")
        try:
            self._begin_all(decisions)
        except BaseException as error:
            self._undo(alone)
            if isinstance(error, sqlite3.IntegrityError):
                for decision in decisions:
                    if self._look(decision.workflow.workflow_id)[0]:
                        raise AlreadyExists(f"an execution {decision.workflow.workflow_id!r} exists already") from None
            self._raise_known(error, "one of several")
            raise
        if not alone:
            self._session.execute("RELEASE decision")

    def _begin_all(self, decisions: Sequence[Decision]) -> None:
        first = self._session.execute(sql.LAST_NUMBER).fetchone()[0] + 1
        history: list[Row] = []
        put: list[Message] = []
        late: list[tuple[Decision, int, Others]] = []

        def executions() -> Iterator[Row]:
            for number, decision in enumerate(decisions, first):
                workflow = decision.workflow
                alarm, cell, _ = self._settled(decision, None, None, {})
                lines, _ = self._journaled(decision, None, None)
                self._know(workflow.workflow_id, (number, alarm, cell, lines, None, None))
                if self._leaving:
                    history.extend(packed_rows(number, self._leaving))
                put.extend(decision.outgoing.put)
                gone, events = self._others
                if gone or events or decision.outgoing.posted or decision.texts or decision.externals:
                    late.append((decision, number, self._others))
                yield (number, *workflow_row(workflow, NULL), int(attempt_head(workflow.workflow_id), 16), alarm, cell, lines)

        # Row by row: of many, lists would be more for the collector to look at.
        self._session.executemany(sql.INSERT_NUMBERED, executions())
        numbered = enumerate(decisions, first)
        tasks = ((number, one.workflow.fence + 1, *task_row(task, NULL)) for number, one in numbered for task in one.inserted)
        self._session.executemany(sql.INSERT_TASK, tasks)
        if history:
            self._session.executemany(sql.INSERT_HISTORY, history)
        if put:
            self._queue.carry_out(Outgoing(put=tuple(put)))
        for decision, number, self._others in late:
            self._texts(decision, number)
            self._events(attrs.evolve(decision, outgoing=Outgoing(posted=decision.outgoing.posted)))

    def _raise_known(self, error: BaseException, whose: str) -> None:
        """Raise what an error of SQLite, or of a value for it, is to callers; return if it is another."""
        if isinstance(error, FAILURES):
            raise translated(error, self._session.path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise InvalidInput(f"{whose}: a value cannot be stored: {error}") from error

    def _undo(self, alone: bool) -> None:
        if not self._session.connection.in_transaction:
            return  # SQLite has already undone everything (disk full): the commit will refuse
        if alone:
            self._session.execute("ROLLBACK")
            self._session.dirty = False
            self._session.execute("BEGIN IMMEDIATE")
        else:
            self._session.execute("ROLLBACK TO decision")
            self._session.execute("RELEASE decision")

    def _fenced(self, decision: Decision) -> int:
        """Store the row of the execution, under its fence; the number by which its other rows are found."""
        workflow = decision.workflow
        workflow_id, row = workflow.workflow_id, workflow_row(workflow, NULL)
        known = self._known.get(workflow_id)
        if decision.created:
            after: Known | None = self._created(decision, row)
        else:
            after = None if known is None else self._changed(decision, row, known)
            if after is None and (now := self._look(workflow_id))[:4] != (None if known is None else known[:4]):
                after = self._changed(decision, row, now)
        if after is None:
            raise FencedOut(f"{workflow_id}: another turn committed after fence {workflow.fence} was read")
        self._know(workflow_id, after)
        return after[0]

    def _know(self, workflow_id: str, known: Known) -> None:
        if workflow_id not in self._known and len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[workflow_id] = known

    def _created(self, decision: Decision, row: Row) -> Known:
        workflow_id = decision.workflow.workflow_id
        alarm, cell, timers = self._settled(decision, None, None, {})
        lines, tail = self._journaled(decision, None, None)
        try:
            number = self._session.execute(
                sql.INSERT_WITH_TIMERS, (*row, int(attempt_head(workflow_id), 16), alarm, cell, lines)
            ).lastrowid
        except sqlite3.IntegrityError:
            if not self._look(workflow_id)[0]:
                raise
            raise AlreadyExists(f"an execution {workflow_id!r} exists already") from None
        return number or 0, alarm, cell, lines, timers, tail

    def _changed(self, decision: Decision, row: Row, known: Known) -> Known | None:
        """Write the row of an execution of which this is known; None when that, or the fence, is not as it is stored."""
        after = self._after(decision, known)
        at, alarm, keys = known[1], after[1], known[:4]
        cells = (*row[: sql.CHANGING], *after[2:4])
        # What the usual turn keeps is compared too, so that it changes nothing by this. The turn that ends an execution is another.
        if decision.workflow.status.terminal:
            written = 0
        elif alarm == at:
            written = self._session.execute(sql.UPDATE_WORKFLOW, (*cells, *row[-6:], *keys)).rowcount
        else:
            written = self._session.execute(sql.UPDATE_WORKFLOW_AND_ALARM, (*cells, alarm, *row[-6:], *keys)).rowcount
        if not written:
            written = self._session.execute(sql.UPDATE_WORKFLOW_AND_STATUS, (*cells, alarm, *row[-2:], *row[-6:-2], *keys)).rowcount
        return after if written else None

    def _after(self, decision: Decision, known: Known) -> Known:
        """Return the cached state of an execution after a decision; events and lines in other tables are kept beside it."""
        number, at, cell, lines, timers, tail = known
        at, cell, timers = self._settled(decision, at, cell, timers)
        lines, tail = self._journaled(decision, lines, tail)
        return number, at, cell, lines, timers, tail

    def _look(self, workflow_id: str) -> Known:
        found = self._session.execute(sql.KNOWN, (workflow_id,)).fetchone() or (0, None, None, None)
        return (*found, None, None)

    def _journaled(self, decision: Decision, was: Cell, known: Tail | None) -> tuple[Cell, Tail | None]:
        """The last lines of the journal after a decision; what does not stand with them any more is kept for `_journal`."""
        self._leaving, self._repeats = (), False
        if not decision.history:
            return was, known
        workflow, lines = decision.workflow, decision.history
        before = tail_of((workflow.created_at, was)) if known is None and was is not None else known
        cell, tail, self._leaving = with_lines(was, before, lines, workflow.created_at, ended=workflow.status.terminal)
        self._repeats = before is not None and lines[0].n < before[2]
        return cell, tail

    def _journal(self, decision: Decision, execution: int) -> None:
        if self._repeats:
            raise InvariantBroken(f"{decision.workflow.workflow_id}: line {decision.history[0].n} of the journal exists")
        if self._leaving:
            self._session.executemany(sql.INSERT_HISTORY, packed_rows(execution, self._leaving))

    def _settled(
        self, decision: Decision, at: int | None, was: str | None, known: Timers | None
    ) -> tuple[int | None, str | None, Timers | None]:
        """The alarm and the cell of an execution after a decision; what of its events is the inbox's is kept for `_events`."""
        self._others = ((), ())
        if not (decision.timers or decision.cancelled or decision.consumed):
            return at, was, known
        marked = was is not None and was[0] == MARK
        timers = timers_of(was) if known is None else known.copy()
        gone = [event_id for event_id in decision.consumed if timers.pop(event_id, None) is None] if decision.consumed else []
        for one in decision.cancelled:
            if timers.pop(one, None) is None and (marked or one.partition(":")[0] not in SHORT):
                gone.append(one)
        put: list[Event] = []
        for event in decision.timers:
            timers.pop(event.event_id, None)
            own = event.kind._value_ in SHORT
            timer = timer_of(event) if own and not marked and len(timers) < _MOST else None
            if timer is not None:
                timers[event.event_id] = timer
                continue
            marked |= own
            put.append(event)
        self._others = (gone, put)
        if not timers:
            return None, MARK if marked else None, timers
        first, texts = min(timers.values())[0], ",".join(map(_text, timers.values()))
        cell = f"{MARK}[{texts}]" if marked else f"[{texts}]"
        return at if at is not None and at <= first <= at + SLACK_MS else first, cell, timers

    def _own_events(self, decision: Decision) -> tuple[Sequence[str], Sequence[Event]]:
        return self._others

    def prepare(self, decisions: Iterable[Decision]) -> None:
        """Work out what decisions will write, before the transaction begins: other processes wait for its end."""
        self._prepared = prepared = {}
        for decision in filter(is_usual, decisions):
            workflow_id = decision.workflow.workflow_id
            known, rows = self._known.get(workflow_id), GroupRows()
            if known is not None and self._added(rows, decision, known):
                prepared[workflow_id] = (decision, known, rows)

    def _added(self, rows: GroupRows, decision: Decision, known: Known) -> bool:
        """Add what a decision writes, of an execution of which this is known; nothing of one that `apply` refuses."""
        after = self._after(decision, known)
        if self._repeats:
            return False
        rows.add(decision, known, after, self._leaving, self._others)
        return True

    def fenced(self, fences: Mapping[str, int]) -> Collection[str]:
        """See `DecisionDAO`: where others write, what is known is compared with the store once for all."""
        if not self._shared:
            return ()
        self._found = self._looked_up(fences)
        return fences.keys() - self._found.keys()

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """Store what there is of the usual kind, and say whose decisions that are; see `DecisionDAO`."""
        usual = [decision for decision in decisions if is_usual(decision)]
        if len(usual) < 2:
            return ()
        found = self._found if self._shared else self._known
        missing = {one.workflow.workflow_id: one.workflow.fence for one in usual if one.workflow.workflow_id not in found}
        if missing:
            found = {**found, **self._looked_up(missing)}
        rows = GroupRows()
        for decision in usual:
            workflow_id = decision.workflow.workflow_id
            known = found.get(workflow_id)
            if known is not None:
                of, when, prepared = self._prepared.get(workflow_id, (None, None, rows))
                if of is decision and when is known:
                    rows.join(prepared)
                else:
                    self._added(rows, decision, known)
        if not rows.known:
            return ()
        before, self._session.dirty = self._session.dirty, True
        self._session.execute("SAVEPOINT decision")
        try:
            self._store(rows)
        except BaseException as error:
            self._undo(False)
            if isinstance(error, _Refused | sqlite3.IntegrityError | UnicodeEncodeError | OverflowError):
                self._session.dirty = before
                return ()
            self._raise_known(error, "one of several")
            raise
        self._session.execute("RELEASE decision")
        for workflow_id, known in rows.known.items():
            self._know(workflow_id, known)
        return rows.known

    def _looked_up(self, fences: Mapping[str, int]) -> dict[str, Known]:
        """Return the cached states of executions whose fences are these."""
        found: dict[str, Known] = {}
        for workflow_id, *now in self._session.execute(sql.KNOWN_AT, (json.dumps(dict(fences)),)):
            known = self._known.get(workflow_id)
            found[workflow_id] = known if known is not None and known[:4] == tuple(now) else (*now, None, None)
        return found

    def _store(self, rows: GroupRows) -> None:
        """Raises _Refused when there is no row like one that is to be changed."""
        self._expect(sql.UPDATE_WORKFLOW, rows.changed)
        self._expect(sql.UPDATE_WORKFLOW_AND_ALARM, rows.alarmed)
        self._expect(sql.UPDATE_WORKFLOW_AND_STATUS, rows.ended)
        self._expect(sql.UPDATE_TASK, rows.updated)
        for statement, cells in (
            (sql.INSERT_TASK, rows.added),
            (sql.INSERT_HISTORY, rows.history),
            # What goes, before what is put in the place of it.
            (sql.DELETE_EVENT, rows.read),
            (sql.PUT_EVENT, rows.dated),
            (sql.DELETE_MESSAGE, rows.gone),
            (sql.PUT_MESSAGE, rows.put),
        ):
            if cells:
                self._session.executemany(statement, cells)

    def _expect(self, statement: str, rows: Sequence[Row]) -> None:
        if rows and self._session.executemany(statement, rows).rowcount != len(rows):
            raise _Refused
