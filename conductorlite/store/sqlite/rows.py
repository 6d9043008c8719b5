"""Rows of SQLite and the frozen values they stand for, both ways.

A payload cell holds the canonical text, or, for a large payload, `#` and the hash of the text, which no JSON begins
with; the text itself is stored once in `texts`. An event is an event and carries its text whole, however long: it is read
once and deleted.

Column orders are chosen so that one tuple serves the INSERT and the UPDATE of a row: what may change first, identity
last.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

from conductorlite.model.canonical import EMPTY, INLINE_LIMIT, Payload
from conductorlite.model.decisions import Event, EventKind, Message
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvalidInput, StorageCorrupt
from conductorlite.model.executions import HistoryEvent, HistoryKind, PollData, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "EVENT_COLUMNS",
    "HISTORY_COLUMNS",
    "MESSAGE_COLUMNS",
    "TASK_COLUMNS",
    "TASK_IDENTITY",
    "WORKFLOW_COLUMNS",
    "WORKFLOW_IDENTITY",
    "Row",
    "event_of",
    "event_row",
    "history_of",
    "history_row",
    "inbox_row",
    "message_of",
    "message_row",
    "poll_of",
    "poll_row",
    "stored_text",
    "task_of",
    "task_row",
    "text_of",
    "workflow_of",
    "workflow_row",
]

#: Cells of a row, as sqlite3 takes and gives them.
Row = tuple[Any, ...]

T = TypeVar("T")


def _readable(read: Callable[[Row], T]) -> Callable[[Row], T]:
    """A row whose cells do not stand for what they should was not written by us: StorageCorrupt, not whatever trips over it."""

    @wraps(read)
    def reading(row: Row) -> T:
        try:
            if bytes in map(type, row):
                raise TypeError("a blob in the place of a text")
            return read(row)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise StorageCorrupt(f"the database is damaged: a row cannot be read ({type(error).__name__}: {error})") from error

    return reading


def _plain(kind: type[attrs.AttrsInstance], special: Sequence[str]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind) if field.name not in special)


def _cell(payload: Payload) -> str:
    text = payload.text
    if text is None or len(text) > INLINE_LIMIT:
        return "#" + payload.digest
    return text


def _payload(cell: str) -> Payload:
    if cell == "{}":
        return EMPTY
    if cell[0] == "#":
        return Payload(None, digest=cell[1:])
    return Payload(cell)


@_readable
def text_of(row: Row) -> str:
    """The only cell of a row, a text."""
    text: str = row[0]
    return text


def stored_text(digest: str, text: str) -> Payload:
    """A large payload; raises StorageCorrupt when the text is not the one that was kept under this hash."""
    payload = Payload(text)
    if not isinstance(text, str) or payload.digest != digest:
        raise StorageCorrupt(f"the database is damaged: the payload {digest} is another one")
    return payload


# -- workflows ---------------------------------------------------------------------------------------------------------

#: What the usual turn does not change, beside the id, the first four never: an untouched index is an untouched page.
WORKFLOW_IDENTITY: Final = ("created_at", "parent_workflow_id", "idempotency_key", "owner", "name", "correlation_id")
_WORKFLOW_SPECIAL: Final = (
    *("semantics", "input", "output", "variables", "task_to_domain", "failed_refs", "failed_task_names", "compensating"),
    *("outer_keys", "rate_limited"),
    *WORKFLOW_IDENTITY,
    *("workflow_id", "fence", "status"),
)
_WORKFLOW_PLAIN: Final = _plain(Workflow, (*_WORKFLOW_SPECIAL, "tasks", "definition", "made"))
WORKFLOW_COLUMNS: Final = _WORKFLOW_PLAIN + _WORKFLOW_SPECIAL
_workflow_plain: Final[Callable[[Workflow], Row]] = attrgetter(*_WORKFLOW_PLAIN)
_workflow_identity: Final[Callable[[Workflow], Row]] = attrgetter(*WORKFLOW_IDENTITY)
_SEMANTICS: Final = {member.value: member for member in Semantics}
_WORKFLOW_STATUS: Final = {member.value: member for member in WorkflowStatus}


def workflow_row(workflow: Workflow) -> Row:
    """Cells in the order of WORKFLOW_COLUMNS; the last are WORKFLOW_IDENTITY, the id, the fence and the status."""
    return (
        *_workflow_plain(workflow),
        workflow.semantics.value,
        _cell(workflow.input),
        _cell(workflow.output),
        _cell(workflow.variables),
        _cell(workflow.task_to_domain),
        json.dumps(workflow.failed_refs) if workflow.failed_refs else "",
        json.dumps(workflow.failed_task_names) if workflow.failed_task_names else "",
        None if workflow.compensating is None else workflow.compensating.value,
        json.dumps(workflow.outer_keys) if workflow.outer_keys else "",
        workflow.rate_limited,
        *_workflow_identity(workflow),
        workflow.workflow_id,
        workflow.fence,
        workflow.status.value,
    )


@_readable
def workflow_of(row: Row) -> Workflow:
    """The execution of a row in the order of WORKFLOW_COLUMNS."""
    plain = len(_WORKFLOW_PLAIN)
    semantics, given, output, variables, domains, refs, names, compensating, outer, limited = row[plain : plain + 10]
    workflow_id, fence, status = row[-3:]
    return Workflow(
        **dict(zip(_WORKFLOW_PLAIN, row, strict=False)),
        **dict(zip(WORKFLOW_IDENTITY, row[plain + 10 :], strict=False)),
        semantics=_SEMANTICS[semantics],
        input=_payload(given),
        output=_payload(output),
        variables=_payload(variables),
        task_to_domain=_payload(domains),
        failed_refs=tuple(json.loads(refs)) if refs else (),
        failed_task_names=tuple(json.loads(names)) if names else (),
        compensating=_WORKFLOW_STATUS.get(compensating),
        outer_keys=tuple(json.loads(outer)) if outer else (),
        rate_limited=bool(limited),
        workflow_id=workflow_id,
        fence=fence,
        status=_WORKFLOW_STATUS[status],
    )


# -- tasks -------------------------------------------------------------------------------------------------------------

#: What an update never changes: half of it is indexed, and an untouched index is an untouched page.
TASK_IDENTITY: Final = ("workflow_id", "ref", "attempt", "task_id", "base_ref", "iterations", "grafts")
_TASK_SPECIAL: Final = ("status", "input", "output", "retried", "executed", "succeeded_before")
_TASK_PLAIN: Final = _plain(Task, _TASK_SPECIAL + TASK_IDENTITY)
TASK_COLUMNS: Final = (*_TASK_PLAIN, "live", "failed", *_TASK_SPECIAL, *TASK_IDENTITY)
_task_plain: Final[Callable[[Task], Row]] = attrgetter(*_TASK_PLAIN)
_TASK_STATUS: Final = {member.value: member for member in TaskStatus}


def task_row(task: Task) -> Row:
    """Cells in the order of TASK_COLUMNS, which ends with TASK_IDENTITY."""
    return (
        *_task_plain(task),
        task.live,
        task.failed,
        task.status.value,
        _cell(task.input),
        _cell(task.output),
        task.retried,
        task.executed,
        task.succeeded_before,
        task.workflow_id,
        task.ref,
        task.attempt,
        task.task_id,
        task.base_ref,
        ",".join(map(str, task.iterations)) if task.iterations else "",
        ",".join(task.grafts),
    )


@_readable
def task_of(row: Row) -> Task:
    """The attempt of a row in the order of TASK_COLUMNS."""
    status, given, output, retried, executed, succeeded = row[-13:-7]
    workflow_id, ref, attempt, task_id, base, rounds, grafts = row[-7:]
    return Task(
        **dict(zip(_TASK_PLAIN, row, strict=False)),
        status=_TASK_STATUS[status],
        input=_payload(given),
        output=_payload(output),
        retried=retried == 1,
        executed=executed == 1,
        succeeded_before=succeeded == 1,
        workflow_id=workflow_id,
        ref=ref,
        attempt=attempt,
        task_id=task_id,
        base_ref=base,
        iterations=tuple(map(int, rounds.split(","))) if rounds else (),
        grafts=tuple(grafts.split(",")) if grafts else (),
    )


# -- history, inbox, messages ------------------------------------------------------------------------------------------

HISTORY_COLUMNS: Final = (*("workflow_id", "n", "at", "kind", "status", "ref", "attempt", "number", "reason", "payload", "cause"),)
_HISTORY_KIND: Final = {member.value: member for member in HistoryKind}
#: Lines that record a change of status name a status there is.
_STATUS_RECORDED: Final[dict[HistoryKind, Mapping[str, object]]] = {
    HistoryKind.TASK: _TASK_STATUS,
    HistoryKind.WORKFLOW: _WORKFLOW_STATUS,
}


def history_row(workflow_id: str, event: HistoryEvent) -> Row:
    """Cells in the order of HISTORY_COLUMNS."""
    payload = None if event.payload is None else _cell(event.payload)
    # `status` may be given as a member of an enum; the journal keeps its text
    return (
        *(workflow_id, event.n, event.at, event.kind.value, str(event.status)),
        *(event.ref, event.attempt, event.number, event.reason, payload, event.cause),
    )


@_readable
def history_of(row: Row) -> HistoryEvent:
    """The line of the journal of a row in the order of HISTORY_COLUMNS."""
    _, n, at, kind, status, ref, attempt, number, reason, payload, cause = row
    line_kind = _HISTORY_KIND[kind]
    if line_kind in _STATUS_RECORDED:
        _STATUS_RECORDED[line_kind][status]
    return HistoryEvent(
        n=n,
        at=at,
        kind=line_kind,
        status=status,
        ref=ref,
        attempt=attempt,
        number=number,
        reason=reason,
        payload=None if payload is None else _payload(payload),
        cause=cause,
    )


EVENT_COLUMNS: Final = (
    *("workflow_id", "event_id", "kind", "due_at", "posted_at", "sender", "sender_seq"),
    *("ref", "attempt", "generation", "data", "held", "owner"),
)
_EVENT_KIND: Final = {member.value: member for member in EventKind}


def event_row(event: Event) -> Row:
    """Cells in the order of EVENT_COLUMNS."""
    data = event.data
    return (
        *(event.workflow_id, event.event_id, event.kind.value, event.due_at, event.posted_at),
        *(event.sender, event.sender_seq, event.ref, event.attempt, event.generation),
        data.text if data.text is not None else "#" + data.digest,
        event.held,
        event.owner,
    )


def inbox_row(event: Event) -> Row:
    """The cells of an event whose owner is asked for by its execution's id: that stands before the last cell."""
    row = event_row(event)
    return (*row[:-1], row[0], row[-1])


@_readable
def event_of(row: Row) -> Event:
    """The event of a row in the order of EVENT_COLUMNS."""
    workflow_id, event_id, kind, due_at, posted_at, sender, sender_seq, ref, attempt, generation, data, held, owner = row
    return Event(
        workflow_id=workflow_id,
        event_id=event_id,
        kind=_EVENT_KIND[kind],
        due_at=due_at,
        posted_at=posted_at,
        sender=sender,
        sender_seq=sender_seq,
        ref=ref,
        attempt=attempt,
        generation=generation,
        data=_payload(data),
        held=held == 1,
        owner=owner,
        stored=True,
    )


MESSAGE_COLUMNS: Final = ("queue", "workflow_id", "ref", "attempt", "generation", "task_id", "due_at", "priority")
message_row: Final[Callable[[Message], Row]] = attrgetter(*MESSAGE_COLUMNS)


def message_of(row: Row) -> Message:
    """The message of a row in the order of MESSAGE_COLUMNS."""
    queue, workflow_id, ref, attempt, generation, task_id, due_at, priority = row
    return Message(
        queue=queue,
        workflow_id=workflow_id,
        ref=ref,
        attempt=attempt,
        generation=generation,
        task_id=task_id,
        due_at=due_at,
        priority=priority,
    )


def poll_row(poll: PollData) -> Row:
    """Cells of a poll; no domain is the empty text."""
    return (poll.queue_name, poll.domain or "", poll.worker_id, poll.last_poll_time)


def poll_of(row: Row) -> PollData:
    """The poll of a row."""
    task_type, domain, worker_id, at = row
    return PollData(queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=at)


class BaseReads:
    """What every query of a view uses."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute


class BaseWrites(BaseReads):
    """What every change uses."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(connection)
        self._path = path
        self._executemany = connection.executemany
        #: Whether this transaction has written anything that a failing decision must not take along.
        self._dirty = False

    def _many(self, statement: str, rows: Iterable[Row]) -> None:
        self._dirty = True
        try:
            self._executemany(statement, rows)
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
