"""Rows of SQLite and the frozen values they stand for, both ways.

A payload cell holds the canonical text, or, for a large payload, `#` and the hash of the text, which no JSON begins
with; the text itself is stored once in `texts`. An event is an event and carries its text whole, however long: it is read
once and deleted.

What is nearly always as it begins is in one cell, `rest`. Instants are kept as their distance from the row's first one, nothing
for one that has not come; ids and hashes in hex as the bytes they stand for; a status as its number.

Column orders are chosen so that one tuple serves the INSERT and the UPDATE of a row: what may change first, identity
last.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event, EventKind, Message
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import ConductorliteError, InvalidInput, StorageCorrupt
from conductorlite.model.executions import PollData, Task, TaskRow, Workflow, WorkflowRow
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = [
    "EVENT_COLUMNS",
    "MAILBOX_COLUMNS",
    "MESSAGE_COLUMNS",
    "NULL",
    "STATUS",
    "STATUSES",
    "TASK_COLUMNS",
    "TASK_FIXED",
    "TASK_STATUS",
    "WORKFLOW_COLUMNS",
    "WORKFLOW_IDENTITY",
    "WORKFLOW_STATUS",
    "Row",
    "Session",
    "event_of",
    "event_row",
    "inbox_row",
    "mail_of",
    "mail_row",
    "message_of",
    "message_row",
    "packed_hex",
    "payload_of",
    "poll_of",
    "poll_row",
    "readable",
    "stored_text",
    "task_of",
    "task_row",
    "text_of",
    "workflow_of",
    "workflow_row",
]

#: Cells of a row, as sqlite3 takes and gives them.
Row = tuple[Any, ...]

#: Stands for None where a row is written: SQLite has no NaN and keeps NULL, and for a float sqlite3 looks for no adapter, which
#: takes it longer than all else it does to bind a cell.
NULL: Final = float("nan")

T = TypeVar("T")


def readable(read: Callable[..., T]) -> Callable[..., T]:
    """A row whose cells do not stand for what they should was not written by us: StorageCorrupt, not whatever trips over it.

    What is kept in bytes stands last.
    """

    @wraps(read)
    def reading(row: Row, *known: str) -> T:
        try:
            if bytes in map(type, row[:-1]):
                raise TypeError("a blob in the place of a text")
            return read(row, *known)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise StorageCorrupt(f"the database is damaged: a row cannot be read ({type(error).__name__}: {error})") from error

    return reading


def payload_of(cell: str) -> Payload:
    """The payload of a cell; a large one is absent."""
    if cell == "{}":
        return EMPTY
    if cell[0] == "#":
        return Payload(None, digest=cell[1:])
    return Payload(cell)


def packed_hex(text: str) -> bytes | str:
    """Lower-case hex digits as bytes, any other text as it is."""
    try:
        packed = bytes.fromhex(text)
    except ValueError:
        return text
    return packed if packed.hex() == text else text


#: Of few definitions there are many executions.
_packed_hash: Final = lru_cache(256)(packed_hex)
#: An attempt that has begun ends soon.
_packed_id: Final = lru_cache(256)(packed_hex)


def _hex(cell: bytes | str) -> str:
    return cell.hex() if isinstance(cell, bytes) else cell


@readable
def text_of(row: Row) -> str:
    """The only cell of a row, a text."""
    (text,) = row
    if not isinstance(text, str):
        raise TypeError("no text")
    return text


def stored_text(digest: str, text: str) -> Payload:
    """A large payload; raises StorageCorrupt when the text is not the one that was kept under this hash.

    Of one that is sealed only who opens it knows.
    """
    payload = Payload(text)
    if not isinstance(text, str) or (payload.digest != digest and text[:1] != "~"):
        raise StorageCorrupt(f"the database is damaged: the payload {digest} is another one")
    payload.digest = digest
    return payload


#: Types of fields that are in JSON what they are in a row.
_PLAIN: Final = (int, bool, str)


class _Rest:
    """The fields of a kind of row that are nearly always as they begin, in one cell: those that are not, as JSON."""

    def __init__(self, kind: type[attrs.AttrsInstance], apart: Sequence[str]) -> None:
        fields = [field for field in attrs.fields(kind) if field.name not in apart]
        self.names = tuple(field.name for field in fields)
        self._usual = tuple(field.default for field in fields)
        #: Of which type each value is in JSON; None where it may be absent, or is a name.
        self._types = {
            field.name: list if type(field.default) is tuple else type(field.default) if type(field.default) in _PLAIN else None
            for field in fields
        }
        self._of: Callable[[object], Row] = attrgetter(*self.names)

    def cell(self, row: object, null: float | None) -> str | float | None:
        values = self._of(row)
        if values == self._usual:
            return null
        found = {name: value for name, value, usual in zip(self.names, values, self._usual, strict=True) if value != usual}
        return encoded(found)

    def fields(self, cell: str | None) -> dict[str, Any]:
        if cell is None:
            return {}
        fields, types = json.loads(cell), self._types
        for name, value in fields.items():
            if types[name] is not None and type(value) is not types[name]:
                raise TypeError(f"{name} is {value!r}")
        return {name: tuple(value) if type(value) is list else value for name, value in fields.items()}


def _numbers(*cells: object) -> None:
    """Raise TypeError for what is no number, in a page that is damaged."""
    if {int} != set(map(type, cells)):
        raise TypeError("no number in the place of one")


def _at(apart: int | None, since: int) -> int:
    return 0 if apart is None else since + apart


# -- workflows ---------------------------------------------------------------------------------------------------------

#: What the usual turn does not change, beside the id, the first three never: an untouched index is an untouched page.
WORKFLOW_IDENTITY: Final = ("created_at", "parent_workflow_id", "owner", "name", "correlation_id")
_WORKFLOW_PLAIN: Final = ("version", "task_seq", "history_seq", "sequence", "open", "last_ref", "reason", "parked", "broken_turns")
_WORKFLOW_INSTANTS: Final = ("started_at", "updated_at", "ended_at")
_WORKFLOW_PAYLOADS: Final = ("input", "output", "variables", "task_to_domain")
WORKFLOW_COLUMNS: Final = (
    *(*_WORKFLOW_PLAIN, *_WORKFLOW_INSTANTS, *_WORKFLOW_PAYLOADS, "rest", *WORKFLOW_IDENTITY),
    *("workflow_id", "fence", "status", "definition_hash"),
)
_workflow_rest: Final = _Rest(Workflow, ("tasks", "definition", "made", *WORKFLOW_COLUMNS))
_workflow_numbers: Final[Callable[[Workflow], Row]] = attrgetter(*_WORKFLOW_PLAIN[:5])
_workflow_payloads: Final[Callable[[Workflow], Row]] = attrgetter(*(f"{name}.cell" for name in _WORKFLOW_PAYLOADS))
_SEMANTICS: Final = {member.value: member for member in Semantics}
WORKFLOW_STATUS: Final = {member.value: member for member in WorkflowStatus}
TASK_STATUS: Final = {member.value: member for member in TaskStatus}
#: What a status is kept as; never another number than it has.
STATUSES: Final = (
    *("SCHEDULED", "IN_PROGRESS", "COMPLETED", "RUNNING", "PENDING", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT"),
    *("CANCELED", "COMPLETED_WITH_ERRORS", "SKIPPED", "PAUSED", "TERMINATED"),
)
STATUS: Final = {name: number for number, name in enumerate(STATUSES)}


def workflow_row(workflow: Workflow, null: float | None = None) -> Row:
    """Cells in the order of WORKFLOW_COLUMNS; the last are WORKFLOW_IDENTITY, the id, the fence, the status and the definition.

    `null` is in the place of None.
    """
    since, last, reason, parked = workflow.created_at, workflow.last_ref, workflow.reason, workflow.parked
    parent, correlation = workflow.parent_workflow_id, workflow.correlation_id
    return (
        *_workflow_numbers(workflow),
        null if last is None else last,
        null if reason is None else reason,
        null if parked is None else parked,
        workflow.broken_turns,
        at - since if (at := workflow.started_at) else null,
        at - since if (at := workflow.updated_at) else null,
        at - since if (at := workflow.ended_at) else null,
        *_workflow_payloads(workflow),
        _workflow_rest.cell(workflow, null),
        since,
        null if parent is None else parent,
        workflow.owner,
        workflow.name,
        null if correlation is None else correlation,
        workflow.workflow_id,
        workflow.fence,
        STATUS[workflow.status],
        _packed_hash(workflow.definition_hash),
    )


@readable
def workflow_of(row: Row) -> Workflow:
    """The execution of a row in the order of WORKFLOW_COLUMNS."""
    fields = dict(zip(WORKFLOW_COLUMNS, row, strict=True))
    _numbers(*row[:5], fields["broken_turns"], fields["created_at"], fields["fence"])
    rest = _workflow_rest.fields(fields.pop("rest"))
    since = fields["created_at"]
    for name in _WORKFLOW_INSTANTS:
        fields[name] = _at(fields[name], since)
    for name in _WORKFLOW_PAYLOADS:
        fields[name] = payload_of(fields[name])
    if rest:
        fields |= rest
        if "semantics" in rest:
            fields["semantics"] = _SEMANTICS[rest["semantics"]]
        if "compensating" in rest:
            fields["compensating"] = WORKFLOW_STATUS[rest["compensating"]]
    fields["status"] = WORKFLOW_STATUS[STATUSES[fields["status"]]]
    fields["definition_hash"] = _hex(fields["definition_hash"])
    return WorkflowRow(**fields)


# -- tasks -------------------------------------------------------------------------------------------------------------

_TASK_PLAIN: Final = ("seq", "worker_id", "lease", "poll_count", "reason", "task_type", "scheduled_at")
_TASK_INSTANTS: Final = ("first_scheduled_at", "due_at", "started_at", "updated_at", "ended_at")
_TASK_DEADLINES: Final = ("poll_timeout_at", "response_timeout_at", "timeout_at")
#: How many columns an update never changes, at the end.
TASK_FIXED: Final = 5
TASK_COLUMNS: Final = (
    *(*_TASK_PLAIN, *_TASK_INSTANTS, *_TASK_DEADLINES, "name", "holder", "status", "live", "retried", "executed"),
    *("input", "output", "rest", "base_ref", "iterations", "ref", "attempt", "task_id"),
)
_task_rest: Final = _Rest(Task, ("workflow_id", *TASK_COLUMNS))


def task_row(task: Task, null: float | None = None) -> Row:
    """Cells in the order of TASK_COLUMNS; `null` is in the place of None."""
    since, worker_id, reason = task.scheduled_at, task.worker_id, task.reason
    return (
        task.seq,
        null if worker_id is None else worker_id,
        task.lease,
        task.poll_count,
        null if reason is None else reason,
        task.task_type,
        since,
        at - since if (at := task.first_scheduled_at) else null,
        at - since if (at := task.due_at) else null,
        at - since if (at := task.started_at) else null,
        at - since if (at := task.updated_at) else null,
        at - since if (at := task.ended_at) else null,
        null if (end := task.poll_timeout_at) is None else end - since,
        null if (end := task.response_timeout_at) is None else end - since,
        null if (end := task.timeout_at) is None else end - since,
        null if task.name == task.task_type else task.name,
        task.holder or "",
        STATUS[task.status],
        # Numbers, as they are kept: for a truth value Python looks for an adapter first.
        +task.live,
        +task.retried,
        +task.executed,
        task.input.cell,
        task.output.cell,
        _task_rest.cell(task, null),
        null if task.base_ref == task.ref else task.base_ref,
        ",".join(map(str, task.iterations)) if task.iterations else "",
        task.ref,
        task.attempt,
        _packed_id(task.task_id),
    )


@readable
def task_of(row: Row, workflow_id: str) -> Task:
    """The attempt of a row in the order of TASK_COLUMNS."""
    seq, worker_id, lease, poll_count, reason, task_type, since, first, due, began, updated, ended = row[:12]
    poll, response, timeout, name, holder, status, _, retried, executed, given, output, rest = row[12:24]
    base_ref, rounds, ref, attempt, task_id = row[24:]
    if not (type(seq) is type(lease) is type(poll_count) is type(since) is type(attempt) is int):
        raise TypeError("no number in the place of one")
    task: Task = TaskRow(
        workflow_id=workflow_id,
        ref=ref,
        base_ref=ref if base_ref is None else base_ref,
        task_id=_hex(task_id),
        task_type=task_type,
        name=task_type if name is None else name,
        status=TASK_STATUS[STATUSES[status]],
        iterations=tuple(map(int, rounds.split(","))) if rounds else (),
        attempt=attempt,
        seq=seq,
        input=payload_of(given),
        output=payload_of(output),
        reason=reason,
        worker_id=worker_id,
        lease=lease,
        holder=holder or None,
        poll_count=poll_count,
        scheduled_at=since,
        first_scheduled_at=0 if first is None else since + first,
        due_at=0 if due is None else since + due,
        started_at=0 if began is None else since + began,
        updated_at=0 if updated is None else since + updated,
        ended_at=0 if ended is None else since + ended,
        poll_timeout_at=None if poll is None else since + poll,
        response_timeout_at=None if response is None else since + response,
        timeout_at=None if timeout is None else since + timeout,
        retried=retried == 1,
        executed=executed == 1,
    )
    return task if rest is None else attrs.evolve(task, **_task_rest.fields(rest))


# -- inbox, messages ---------------------------------------------------------------------------------------------------

EVENT_COLUMNS: Final = (
    *("workflow_id", "event_id", "kind", "due_at", "posted_at", "sender", "sender_seq"),
    *("ref", "attempt", "generation", "data", "held", "owner"),
)
_EVENT_KIND: Final = {member.value: member for member in EventKind}


def event_row(event: Event) -> Row:
    """Cells in the order of EVENT_COLUMNS. A sender that writes to itself is not named."""
    data = event.data
    return (
        *(event.workflow_id, event.event_id, event.kind._value_, event.due_at, event.posted_at),
        None if event.sender == event.workflow_id else event.sender,
        *(event.sender_seq, event.ref, event.attempt, event.generation),
        data.text if data.text is not None else "#" + data.digest,
        event.held,
        event.owner,
    )


def inbox_row(event: Event) -> Row:
    """The cells of an event whose owner is asked for by its execution's id: that stands before the last cell."""
    row = event_row(event)
    return (*row[:-1], row[0], row[-1])


@readable
def event_of(row: Row) -> Event:
    """The event of a row in the order of EVENT_COLUMNS."""
    workflow_id, event_id, kind, due_at, posted_at, sender, sender_seq, ref, attempt, generation, data, held, owner = row
    _numbers(due_at, posted_at, sender_seq, attempt, generation)
    return Event(
        workflow_id=workflow_id,
        event_id=event_id,
        kind=_EVENT_KIND[kind],
        due_at=due_at,
        posted_at=posted_at,
        sender=workflow_id if sender is None else sender,
        sender_seq=sender_seq,
        ref=ref,
        attempt=attempt,
        generation=generation,
        data=payload_of(data),
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


MAILBOX_COLUMNS: Final = ("workflow_id", "number", "topic", "receiver", "received_at", "key", "sent_at", "value")


def mail_row(message: WorkflowMessage) -> Row:
    """Cells in the order of MAILBOX_COLUMNS."""
    return (
        message.workflow_id,
        message.number,
        message.topic,
        message.receiver,
        message.received_at,
        message.key,
        message.sent_at,
        message.value.cell,
    )


@readable
def mail_of(row: Row) -> WorkflowMessage:
    """The message to an execution of a row in the order of MAILBOX_COLUMNS."""
    workflow_id, number, topic, receiver, received_at, key, sent_at, value = row
    _numbers(number, sent_at, 0 if received_at is None else received_at)
    from conductorlite.model.mailbox import WorkflowMessage

    return WorkflowMessage(
        workflow_id=workflow_id,
        number=number,
        topic=topic,
        key=key,
        value=payload_of(value),
        sent_at=sent_at,
        receiver=receiver,
        received_at=received_at,
    )


def poll_row(poll: PollData) -> Row:
    """Cells of a poll; no domain is the empty text."""
    return (poll.queue_name, poll.domain or "", poll.worker_id, poll.last_poll_time)


def poll_of(row: Row) -> PollData:
    """The poll of a row."""
    task_type, domain, worker_id, at = row
    return PollData(queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=at)


class Session:
    """The state that all nouns of a transaction share."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection, self.path = connection, path
        self.execute, self.executemany = connection.execute, connection.executemany
        #: Whether this transaction has written anything that a failing decision must not take along.
        self.dirty = False

    def change(self, statement: str, row: Row, refusal: ConductorliteError) -> None:
        """Write a row under its fence; raises `refusal` when there is none to be written."""
        self.dirty = True
        if self.execute(statement, row).rowcount == 0:
            raise refusal

    def many(self, statement: str, rows: Iterable[Row | dict[str, Any]]) -> None:
        """Carry out one statement for each of several rows; raises InvalidInput for what cannot be stored."""
        self.dirty = True
        try:
            self.executemany(statement, rows)
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error

    def write(self, statement: str, row: Row = ()) -> int:
        """Carry out one statement, and say how many rows it has changed; raises InvalidInput for what cannot be stored."""
        self.dirty = True
        try:
            return self.execute(statement, row).rowcount
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error

    def instant(self, statement: str, *parameters: str | int) -> int | None:
        """The only cell of the only row, a number."""
        number: int | None = self.execute(statement, parameters).fetchone()[0]
        return number

    def text(self, statement: str, *parameters: str | int) -> str | None:
        """The only cell of a row, a text; None where there is no row."""
        row = self.execute(statement, parameters).fetchone()
        return None if row is None else text_of(row)
