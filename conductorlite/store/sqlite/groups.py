"""Decisions of several executions, stored by one statement for each kind of row.

Most turns that share a write are over one task each, and change nothing but rows of their own execution. Written one by one, each
of them takes a savepoint and five statements; together they take one savepoint and as many statements as one. What asks for more
is left to `apply`. When a row is not as it is thought to be, nothing is stored here, and `apply` finds out whose fault that is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from conductorlite.model.decisions import Decision, MessageKey
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.changes import Known, Others, SQLiteWrites
from conductorlite.store.sqlite.history import Tail, packed_rows
from conductorlite.store.sqlite.rows import NULL, Row, event_row, message_row, task_row, workflow_row

__all__ = ["GroupRows", "GroupWrites"]


def _is_usual(decision: Decision) -> bool:
    """Whether a decision changes rows of tasks, timers, messages and lines of the journal, and nothing else."""
    more = decision.dropped or decision.renamed or decision.texts or decision.externals or decision.limits or decision.messages
    return not (more or decision.created or decision.release_held or decision.outgoing.posted)


class _Refused(Exception):
    """Internal: a row is not as it is thought to be."""


#: The lists of `GroupRows`.
_KINDS: Final = ("added", "alarmed", "changed", "dated", "ended", "gone", "history", "put", "read", "updated")


class GroupRows:
    """What decisions write, by the statement that writes it."""

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


class GroupWrites(SQLiteWrites):
    """The same, with what turns of several executions write together."""

    #: Whether other processes have written of late, and may have been first.
    shared = False
    #: What was looked up of executions where others write.
    _found: Mapping[str, Known] = MappingProxyType({})
    #: What decisions will write if this is what is known of their executions.
    _prepared: Mapping[str, tuple[Decision, Known, GroupRows]] = MappingProxyType({})

    def prepare(self, decisions: Iterable[Decision]) -> None:
        """Work out what decisions will write, before the transaction begins: other processes wait for its end."""
        self._prepared = prepared = {}
        for decision in filter(_is_usual, decisions):
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
        """See `WritingTransaction`: where others write, what is known is compared with the store once for all."""
        if not self.shared:
            return ()
        self._found = self._looked_up(fences)
        return fences.keys() - self._found.keys()

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """Store what there is of the usual kind, and say whose decisions that are; see `WritingTransaction`."""
        usual = [decision for decision in decisions if _is_usual(decision)]
        if len(usual) < 2:
            return ()
        found = self._found if self.shared else self._known
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
        before, self._dirty = self._dirty, True
        self._execute("SAVEPOINT decision")
        try:
            self._store(rows)
        except BaseException as error:
            self._undo(False)
            if isinstance(error, _Refused | sqlite3.IntegrityError | UnicodeEncodeError | OverflowError):
                self._dirty = before
                return ()
            self._raise_known(error, "one of several")
            raise
        self._execute("RELEASE decision")
        for workflow_id, known in rows.known.items():
            self._know(workflow_id, known)
        return rows.known

    def _looked_up(self, fences: Mapping[str, int]) -> dict[str, Known]:
        """What is known of executions whose fences are these."""
        found: dict[str, Known] = {}
        for workflow_id, *now in self._execute(sql.KNOWN_AT, (json.dumps(dict(fences)),)):
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
                self._executemany(statement, cells)

    def _expect(self, statement: str, rows: Sequence[Row]) -> None:
        if rows and self._executemany(statement, rows).rowcount != len(rows):
            raise _Refused
