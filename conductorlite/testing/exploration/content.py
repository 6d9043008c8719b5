"""The content of a store in memory: a copy to return to, and what two moments that go on alike have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

import attrs

from conductorlite.model.canonical import EMPTY
from conductorlite.model.decisions import DEADLINES, TIMERS, Event, Message
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.limits import Limit, Member
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.memory.rows import GROUPS, Execution, Ordered, Store
from conductorlite.testing.exploration.reads import (
    COUNTERS_OF_TASKS,
    COUNTERS_OF_WORKFLOWS,
    INSTANTS_OF_TASKS,
    INSTANTS_OF_WORKFLOWS,
    Read,
    Reader,
)

__all__ = ["Contents", "copied"]

#: What has been done, and may have to be undone.
_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})

#: Of a task that is under way: instants from which further ones are counted, or by which places in lines and inboxes are given.
_SINCE: Final = attrgetter("scheduled_at", "first_scheduled_at", "started_at")

#: Instants of which a decision asks whether they were.
_HAPPENED: Final = frozenset({"scheduled_at", "due_at", "started_at", "ended_at", "last_retried_at"})

#: Rows whose numbers are kept.
_KEPT: Final = 50_000


def _others(kind: type, *without: str) -> Callable[[Any], tuple[object, ...]]:
    """Reads all fields of a row but these, and those that are filled in when it is shown."""
    left = {"tasks", "definition", "made", "stored", *without}
    values = attrgetter(*(one.name for one in attrs.fields(kind) if one.name not in left))
    happened = [name for name in without if name in _HAPPENED]
    return lambda row: (*values(row), *(getattr(row, name) > 0 for name in happened))


_TASK: Final = _others(Task, *INSTANTS_OF_TASKS, *COUNTERS_OF_TASKS)
_WORKFLOW: Final = _others(Workflow, *INSTANTS_OF_WORKFLOWS, *COUNTERS_OF_WORKFLOWS)
_EVENT: Final = _others(Event, "due_at", "posted_at", "sender_seq", "data")
_MESSAGE: Final = _others(Message, "due_at")
_MAIL: Final = _others(WorkflowMessage, "sent_at", "received_at")
_MEMBER: Final = _others(Member, "asked_at", "created_at")
_LIMIT: Final = _others(Limit, "fence", "log", "alarm_at", "read_at", "boot", "steady")

_DEADLINES: Final = attrgetter("due_at", *TIMERS)
_TIMES: Final = {Task: attrgetter(*INSTANTS_OF_TASKS), Workflow: attrgetter(*INSTANTS_OF_WORKFLOWS)}
_COUNTERS: Final = {Task: attrgetter(*COUNTERS_OF_TASKS), Workflow: attrgetter(*COUNTERS_OF_WORKFLOWS)}


def _said(held: Execution) -> tuple[object, ...]:
    """What an execution has emitted, and its latest values."""
    if held.emitted is None:
        return ()
    chunks = ((call, one.stream, one.first, one.values.text) for call, one in held.emitted.chunks.values())
    latest = ((place, one.value.text) for place, one in held.emitted.values.items())
    return tuple(held.emitted.emissions.values()), tuple(chunks), tuple(latest)


class Contents:
    """Makes the keys of moments: two moments with the same key have the same future.

    Every field of every row that a decision reads is in it. Instants to come are counted from now, and instants gone by are left
    out where nothing reads them, as counters are: see `reads`.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        #: Numbers of what rows hold beside instants and counters; rows by identity, for they are shared by all moments.
        self._numbers: dict[tuple[object, ...], int] = {}
        self._rows: dict[int, tuple[object, int]] = {}

    def key(self, store: Store, now: int) -> tuple[object, ...]:
        """The key of a moment, `now` (epoch ms)."""
        found = self.reader.found
        times, counters = Read.TIMES in found, Read.COUNTERS in found
        executions = frozenset(
            (name, *self._execution(store.workflows.get(name), held, now, times, counters, bool(store.limits.rows)))
            for name, held in store.executions.items()
        )
        lines = frozenset(
            (*_MEMBER(one), one.asked_at - now, one.created_at - now)
            for all_ in store.limits.members.values()
            for one in all_.values()
        )
        limits = frozenset(
            (*_LIMIT(one), None if one.alarm_at is None else one.alarm_at - now, *(at - now for at in one.log))
            for one in store.limits.rows.values()
        )
        schedules = frozenset((one.name, one.text, one.progress, one.waits) for one in store.beside.schedules.values())
        published = frozenset((place, str(one.status)) for place, one in store.events.executions.items())
        domains = any(row.task_to_domain is not EMPTY for row in store.workflows.values())
        polls = frozenset((place, one.last_poll_time - now) for place, one in store.beside.polls.items()) if domains else None
        registered = store.counters["registry"], frozenset(store.keys.items())
        return (now if times else None, executions, lines, limits, schedules, published, polls, registered)

    def _execution(
        self, row: Workflow | None, held: Execution, now: int, times: bool, counters: bool, limited: bool
    ) -> tuple[object, ...]:
        begun: tuple[object, ...] = ()
        if row is not None:
            live = limited and not row.status.terminal
            ends = row.timeout_at - now if row.timeout_at is not None and row.timeout_at > now else None
            begun = (
                self._number(row, _WORKFLOW),
                ends,
                row.created_at - now if live else None,
                self._beside(Workflow, row, times, counters),
            )
        tasks = frozenset(self._task(task, now, times, counters, limited) for task in held.attempts.values())
        events = tuple(_event(one, now) for one in sorted(held.inbox.values(), key=lambda one: one.order))
        kept = tuple(map(_MAIL, held.mailbox.values()))
        offers = frozenset((*_MESSAGE(one), max(0, one.due_at - now)) for one in held.offered.values())
        return begun, tasks, self._undone(held.attempts.values()), events, offers, kept, _said(held)

    def _task(self, task: Task, now: int, times: bool, counters: bool, limited: bool) -> tuple[object, ...]:
        to_come: tuple[object, ...] = ()
        timed = False
        for at in _DEADLINES(task):
            if at is not None:
                coming = at > now
                timed = timed or coming
                to_come = (*to_come, at - now if coming else 0)
            else:
                to_come = (*to_come, None)
        if (timed or limited) and task.live:
            to_come = (*to_come, *(at - now for at in _SINCE(task) if at))
        return self._number(task, _TASK), task.lease > 0, to_come, self._beside(Task, task, times, counters)

    def _beside(self, kind: type[Task | Workflow], row: Task | Workflow, times: bool, counters: bool) -> tuple[object, ...]:
        """Instants and counters of a row, where something reads them."""
        return (*(_TIMES[kind](row) if times else ()), *(_COUNTERS[kind](row) if counters else ()))

    def _undone(self, tasks: Iterable[Task]) -> tuple[str, ...]:
        """In which order what is done would be undone, where anything is; see `decide.endings`."""
        if not self.reader.compensates:
            return ()
        done = sorted((task for task in tasks if task.status in _DONE), key=lambda task: (task.ended_at, task.seq))
        return tuple(task.ref for task in done)

    def _number(self, row: object, fields: Callable[[Any], tuple[object, ...]]) -> int:
        known = self._rows.get(id(row))
        if known is None or known[0] is not row:
            if len(self._rows) > _KEPT:
                self._rows.clear()
            values = fields(row)
            known = self._rows[id(row)] = row, self._numbers.setdefault(values, len(self._numbers))
        return known[1]


#: Timers that count from an instant in their payload.
_COUNTED: Final = frozenset(DEADLINES.values())


def _event(event: Event, now: int) -> tuple[object, ...]:
    data: object = event.data
    if event.kind in _COUNTED and event.data is not EMPTY:
        value = event.data.value
        data = tuple(sorted((name, said - now if name == "since" else said) for name, said in value.items()))
    return (*_EVENT(event), event.due_at - now, data)


def copied(value: Any) -> Any:
    """A copy of what is changed in place; rows are immutable, and shared."""
    kind = type(value)
    if kind is dict:
        return {key: copied(one) for key, one in value.items()} if value else {}
    if kind is list:
        return [copied(one) for one in value] if value else []
    if kind is Ordered:
        made: Any = Ordered()
        made._blocks, made._tops = [list(block) for block in value._blocks], list(value._tops)
        return made
    if kind is Execution or kind is Store or kind in GROUPS:
        made = object.__new__(kind)
        for name, one in vars(value).items():
            setattr(made, name, copied(one))
        return made
    return value
