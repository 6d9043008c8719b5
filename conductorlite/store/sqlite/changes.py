"""A view and a change of a SQLite store: the timers of an execution in its own row, and a decision stored under its fence.

The timers that an execution sets for itself stand in `workflows.timers` as long as they are few: a turn that takes one away and
sets the next writes no row of the inbox for it, and none of its indexes. `alarm_at` says when to look: no timer is due before that,
and the first one at most `SLACK_MS` later, so that a chain of quick tasks leaves the index of alarms alone. Who asks what is due
first reads the cells.

What does not fit stands in the inbox, as other events do; the cell then begins with a mark and takes no more. So a timer that is
not in a cell without the mark is nowhere.
"""

from __future__ import annotations

import sqlite3
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

import attrs

from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision, Event, Message, Outgoing
from conductorlite.model.errors import AlreadyExists, FencedOut, InvalidInput, InvariantBroken, StorageCorrupt
from conductorlite.model.executions import HistoryEvent
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.connections import FAILURES, translated
from conductorlite.store.sqlite.history import Cell, Tail, history_of, packed_rows, tail_of, with_lines
from conductorlite.store.sqlite.rows import NULL, STATUSES, Row, event_row, task_row, workflow_row
from conductorlite.store.sqlite.timers import (
    MARK,
    SHORT,
    Entry,
    Timers,
    data_of,
    entries_of,
    event_of_entry,
    first_of,
    timer_of,
    timers_of,
)
from conductorlite.store.sqlite.transactions import RowReads, RowWrites, in_order
from conductorlite.store.tables import Size, Sizes

__all__ = ["SLACK_MS", "Known", "SQLiteReads", "SQLiteWrites", "kept_lines", "kept_timers", "mark_timers"]

#: So many timers stand in a row at most.
_MOST: Final = 8

#: How much earlier than the first timer an alarm may be, ms.
SLACK_MS: Final = 250

#: Of a timer in a cell: when it is due, and its text.
_text: Final = itemgetter(1)

#: What is known of so many executions is remembered.
_KNOWN: Final = 5_000

#: Of a decision's own events those that are the inbox's: ids to delete, events to put.
Others = tuple[Sequence[str], Sequence[Event]]

#: What is known of an execution: its number, when its alarm is, its cells of timers and of the last lines of its journal, and what
#: is in them where they have been read.
Known = tuple[int, int | None, str | None, Cell, Timers | None, Tail | None]


def kept_timers(view: RowReads) -> Iterator[Row]:
    """Every timer that stands in the row of its execution, as the inbox would have it."""
    for workflow_id, owner, cell in view._execute(sql.KEPT):
        yield from (event_row(event_of_entry(workflow_id, owner, entry)) for entry in entries_of(cell))


def kept_lines(view: RowReads) -> Iterator[Row]:
    """The last lines of every journal, which stand in the row of their execution, as `history` would have them."""
    for number, *row in view._execute(sql.LINES):
        first, at, _, text, _ = tail_of(tuple(row))
        if text:
            yield (number << 28) + first, at, text


def _when(event: Event) -> tuple[int, str, tuple[int, int, str, int], str]:
    return (event.due_at, event.workflow_id, event.order, event.event_id)


def _is_plain(decision: Decision) -> bool:
    """Whether a decision begins an execution, and compares nothing but its id."""
    row = decision.workflow
    changes = (
        decision.updated
        or decision.dropped
        or decision.renamed
        or decision.limits
        or decision.outgoing.removed
        or decision.messages
    )
    return decision.created and row.idempotency_key is None and not changes


class SQLiteReads(RowReads):
    """One consistent view of the store; valid until its block ends."""

    _journals = (
        "(SELECT place, journal_text(lines) AS lines FROM history UNION ALL"
        " SELECT execution << 28, journal_text(journal) FROM workflows WHERE journal IS NOT NULL)"
    )

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        found = super().due_events(workflow_id, now, limit)
        row = self._execute(sql.KEPT_DUE, (workflow_id, now)).fetchone()
        if row is None:
            return found
        kept = [event_of_entry(workflow_id, row[0], entry) for entry in entries_of(row[1]) if entry[1] <= now]
        return in_order([*found, *kept])[:limit]

    def history(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        """The journal of an execution, its last lines from its row."""
        found = super().history(workflow_id, after)
        row = self._execute(sql.LAST_LINES, (workflow_id,)).fetchone()
        if row is None:
            return found
        first, at, _, text, _ = tail_of(row)
        return [*found, *(line for line in history_of((first, at, text)) if line.n > after)] if text else found

    def inbox(self, workflow_id: str) -> Sequence[Event]:
        row = self._execute(sql.KEPT_OF, (workflow_id,)).fetchone()
        kept = () if row is None else [event_of_entry(workflow_id, row[0], entry) for entry in entries_of(row[1])]
        return in_order([*super().inbox(workflow_id), *kept])

    def _alarms(self, owner: str) -> Iterator[tuple[int, str, list[Entry]]]:
        """Executions of an owner with timers, and these, in order of alarms and ids."""
        for alarm, workflow_id, cell in self._execute(sql.ALARMS, (owner,)):
            entries = entries_of(cell)
            if not entries or alarm > first_of(entries):
                raise StorageCorrupt(f"the database is damaged: the alarm of {workflow_id} is not that of its timers; repair it")
            yield alarm, workflow_id, entries

    def _due(self, now: int, limit: int, owner: str) -> Iterable[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for alarm, workflow_id, entries in self._alarms(owner):
            if alarm > now or (len(found) >= limit and (alarm, workflow_id) >= found[limit - 1]):
                break
            if (at := first_of(entries)) <= now:
                insort(found, (at, workflow_id))
        return sorted([*super()._due(now, limit, owner), *found]) if found else super()._due(now, limit, owner)

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        found = super().next_event(owner)
        for alarm, workflow_id, entries in self._alarms(owner):
            kept = (first_of(entries), workflow_id)
            found = kept if found is None else min(found, kept)
            if found <= (alarm, workflow_id):
                break
        return found

    def next_event_at(self, owner: str | None = None) -> int | None:
        found = [self.next_event(one) for one in (self._event_owners() if owner is None else [owner])]
        return min((event[0] for event in found if event is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        found = list(super().upcoming_events(limit, owner))
        for one in self._event_owners() if owner is None else [owner]:
            kept: list[Event] = []
            for alarm, workflow_id, entries in self._alarms(one):
                if len(kept) >= limit and (alarm, workflow_id) >= (kept[limit - 1].due_at, kept[limit - 1].workflow_id):
                    break
                kept += [event_of_entry(workflow_id, one, entry) for entry in entries]
                kept.sort(key=_when)
            found += kept
        return sorted(found, key=_when)[:limit]

    def _event_owners(self) -> list[str]:
        found = {*super()._event_owners()}
        row = self._execute(sql.FIRST_ALARM_OWNER).fetchone()
        while row[0] is not None:
            found.add(row[0])
            row = self._execute(sql.NEXT_ALARM_OWNER, row).fetchone()
        return sorted(found)

    def _events_of_owners(self) -> dict[str, int]:
        found = super()._events_of_owners()
        for owner, number in self._execute(sql.OWNERS_OF_ALARMS):
            found[owner] = found.get(owner, 0) + number
        return found

    def sizes(self) -> Sizes:
        sizes = super().sizes()
        kinds, own = {**sizes.kinds}, {**sizes.executions}
        for name, status, cell in self._execute(sql.KEPT_SIZES):
            entries = entries_of(cell)
            held = sum(len(data_of(entry).encode()) for entry in entries)
            place = (name, STATUSES[status])
            kinds["events"] = Size(kinds["events"].rows + len(entries), kinds["events"].bytes + held)
            own[place] = Size(own[place].rows, own[place].bytes + held)
        return attrs.evolve(sizes, kinds=kinds, executions=own)


class SQLiteWrites(SQLiteReads, RowWrites):
    """One atomic change of the store; sees its own writes. Valid until its block ends."""

    _null = NULL

    def __init__(self, connection: sqlite3.Connection, path: str, known: dict[str, Known]) -> None:
        super().__init__(connection, path)
        #: What is known of executions as they were once: each is compared before it is used.
        self._known = known
        #: What of a decision's own events is the inbox's: ids to delete, events to put.
        self._others: Others = ((), ())
        #: Lines of a journal for which a row has no room any more; whether there is one that was written before.
        self._leaving: Sequence[Tail] = ()
        self._repeats = False

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence: one statement per kind of row.

        Raises FencedOut, AlreadyExists, KeyTaken; InvariantBroken for rows that contradict the store; InvalidInput for text or
        numbers SQLite cannot keep; StorageError. When the disk is full SQLite may have undone the whole transaction:
        then its commit is refused.
        """
        # The first decision of a transaction needs no savepoint: to undo it is to begin the transaction again.
        alone = not self._dirty
        if not alone:
            self._execute("SAVEPOINT decision")
        written = False
        try:
            if decision.created and decision.workflow.idempotency_key is not None:
                self._claim(decision)
                written = self._dirty = True
            execution = self._fenced(decision)
            written = self._dirty = True
            self._rows(decision, execution)
            self._events(decision)
            if decision.limits:
                self._change_limits(decision.limits)
        except BaseException as error:
            if not alone or written:  # a decision that was fenced out has written nothing
                self._undo(alone)
            self._raise_known(error, decision.workflow.workflow_id)
            raise
        if not alone:
            self._execute("RELEASE decision")

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """Store decisions that begin executions: one statement for each kind of row, where there is nothing to be compared."""
        if not all(map(_is_plain, decisions)):
            for decision in decisions:
                self.apply(decision)
            return
        alone, self._dirty = not self._dirty, True
        if not alone:
            self._execute("SAVEPOINT decision")
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
            self._execute("RELEASE decision")

    def _begin_all(self, decisions: Sequence[Decision]) -> None:
        first = self._execute(sql.LAST_NUMBER).fetchone()[0] + 1
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
        self._executemany(sql.INSERT_NUMBERED, executions())
        numbered = enumerate(decisions, first)
        tasks = ((number, one.workflow.fence + 1, *task_row(task, NULL)) for number, one in numbered for task in one.inserted)
        self._executemany(sql.INSERT_TASK, tasks)
        if history:
            self._executemany(sql.INSERT_HISTORY, history)
        if put:
            self._queue(Outgoing(put=tuple(put)))
        for decision, number, self._others in late:
            self._texts(decision, number)
            self._events(attrs.evolve(decision, outgoing=Outgoing(posted=decision.outgoing.posted)))

    def _raise_known(self, error: BaseException, whose: str) -> None:
        """Raise what an error of SQLite, or of a value for it, is to callers; return if it is another."""
        if isinstance(error, FAILURES):
            raise translated(error, self._path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise InvalidInput(f"{whose}: a value cannot be stored: {error}") from error

    def _undo(self, alone: bool) -> None:
        if not self._connection.in_transaction:
            return  # SQLite has already undone everything (disk full): the commit will refuse
        if alone:
            self._execute("ROLLBACK")
            self._dirty = False
            self._execute("BEGIN IMMEDIATE")
        else:
            self._execute("ROLLBACK TO decision")
            self._execute("RELEASE decision")

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
            number = self._execute(sql.INSERT_WITH_TIMERS, (*row, int(attempt_head(workflow_id), 16), alarm, cell, lines)).lastrowid
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
            written = self._execute(sql.UPDATE_WORKFLOW, (*cells, *row[-6:], *keys)).rowcount
        else:
            written = self._execute(sql.UPDATE_WORKFLOW_AND_ALARM, (*cells, alarm, *row[-6:], *keys)).rowcount
        if not written:
            written = self._execute(sql.UPDATE_WORKFLOW_AND_STATUS, (*cells, alarm, *row[-2:], *row[-6:-2], *keys)).rowcount
        return after if written else None

    def _after(self, decision: Decision, known: Known) -> Known:
        """What is known of an execution after a decision; what of its events and lines stands elsewhere is kept beside."""
        number, at, cell, lines, timers, tail = known
        at, cell, timers = self._settled(decision, at, cell, timers)
        lines, tail = self._journaled(decision, lines, tail)
        return number, at, cell, lines, timers, tail

    def _look(self, workflow_id: str) -> Known:
        found = self._execute(sql.KNOWN, (workflow_id,)).fetchone() or (0, None, None, None)
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
            self._executemany(sql.INSERT_HISTORY, packed_rows(execution, self._leaving))

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

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        """See `RowWrites`; what is held stands in the inbox."""
        row = None if reason is None else self._execute(sql.KEPT_OF, (workflow_id,)).fetchone()
        if row is not None and (entries := entries_of(row[1])):
            self._many(sql.PUT_EVENT, [event_row(event_of_entry(workflow_id, row[0], entry)) for entry in entries])
            self._execute(sql.SPILL, (MARK, workflow_id))
        super().park(workflow_id, broken_turns, reason)


def mark_timers(tx: RowWrites) -> None:
    """Have every execution that has events in the inbox look for its timers there."""
    tx._execute(sql.MARK, (MARK,))
