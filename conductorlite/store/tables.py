"""What is asked of the tables of a store: a protocol of reads and one of writes for each.

Finding and changing executions: rows, inboxes, journals.

Registered and embedded definitions.

The workers' mailbox.

Event handlers, and what became of messages.

Schedules: rows with a fence of their own, each with an inbox like an execution's.

Registered schemas.

Limits. They change with the decisions that name them, see `ExecutionWrites.apply`.

Executions that have left the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, Message, MessageKey
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.handlers import EventExecution
from conductorlite.model.limits import Limit, LimitChange, Line, Member
from conductorlite.model.statuses import WorkflowStatus

__all__ = [
    "ArchiveReads",
    "ArchiveWrites",
    "Archived",
    "EventPlace",
    "EventReads",
    "EventWrites",
    "ExecutionFilter",
    "ExecutionReads",
    "ExecutionWrites",
    "LimitReads",
    "LimitWrites",
    "MetadataReads",
    "MetadataWrites",
    "QueueReads",
    "QueueWrites",
    "ScheduleReads",
    "ScheduleRow",
    "ScheduleWrites",
    "SchemaReads",
    "SchemaWrites",
]


@attrs.frozen(kw_only=True, slots=True)
class ExecutionFilter:
    """Which executions to list; what is None does not matter."""

    name: str | None = None
    status: WorkflowStatus | None = None
    correlation_id: str | None = None
    parent_workflow_id: str | None = None


class ExecutionReads(Protocol):
    """Finding executions again. Large payloads come back *absent* (hash only) unless asked for by `payloads`."""

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""
        ...

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references; None for those that do not exist."""
        ...

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round; None for those that do not exist."""
        ...

    def live(self, workflow_id: str) -> Sequence[Task]:
        """Every live last attempt."""
        ...

    def failed(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt that ended in failure."""
        ...

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt."""
        ...

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes; those that are not in the store are left out."""
        ...

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every attempt of an execution, in order of scheduling, then attempt."""
        ...

    def task_by_id(self, task_id: str) -> Task | None:
        """The attempt with that id, of any execution, or None."""
        ...

    def history(self, workflow_id: str) -> Sequence[HistoryEvent]:
        """The journal of an execution, in order."""
        ...

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        """What workers logged for an attempt, in order of arrival."""
        ...

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        """Events of one inbox that are due at `now` and not held, in inbox order, `stored` set."""
        ...

    def inbox(self, workflow_id: str) -> Sequence[Event]:
        """Every event of one inbox, held ones too, in inbox order."""
        ...

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Ids of an owner's workflows with events due at `now`, the longest due first, each once."""
        ...

    def next_event_at(self, owner: str | None = None) -> int | None:
        """The earliest `due_at` of any event of an owner (None: of all) that is not held, or None."""
        ...

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        """The next events of an owner (None: of all) that are not held, in order of `due_at`, workflow and event id."""
        ...

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        """A page of workflow ids in ascending order, greater than `after`, of one status or all."""
        ...

    def executions(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first: descending (created_at, workflow_id), less than `after` if that is given."""
        ...

    def key_holder(self, name: str, key: str) -> str | None:
        """Id of the execution that holds an idempotency key of a workflow name, or None."""
        ...


class ExecutionWrites(Protocol):
    """Changing executions."""

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence.

        Raises FencedOut when the stored fence differs from `decision.workflow.fence` (or, for a created one, AlreadyExists
        when the id exists, and KeyTaken when another execution than `decision.replaces` holds the workflow's idempotency
        key, which else becomes its own), and FencedOut when the fence of one of
        `decision.limits` differs. The stored fences become that number plus one. On an error inside a transaction only this
        decision is undone, so several may share one transaction.
        """
        ...

    def post(self, events: Iterable[Event]) -> None:
        """Put events into inboxes; an event of the same id is replaced. Never touches a fence.

        An event to an execution that is stored belongs to its owner, whatever it says itself.
        """
        ...

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        """Record that turns of a workflow broke an invariant; with a reason, hold its whole inbox. Never touches a fence."""
        ...

    def release(self, workflow_id: str, now: int) -> None:
        """Let every held event of an inbox go, due `now` or at its own later instant, and forget that turns were broken."""
        ...

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        """Append log lines."""
        ...

    def remove(self, workflow_id: str) -> None:
        """Delete an execution with all that belongs to it, its idempotency key included."""
        ...


class MetadataReads(Protocol):
    """Registered and embedded definitions, as canonical JSON text."""

    def registry_version(self) -> int:
        """A number that grows with every change of a registered definition."""
        ...

    def definition(self, digest: str) -> str | None:
        """An embedded definition by its hash."""
        ...

    def workflow_def(self, name: str, version: int | None) -> str | None:
        """A registered workflow definition; version None is the highest."""
        ...

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered workflow definitions, in order."""
        ...

    def task_def(self, name: str) -> str | None:
        """A registered task definition."""
        ...

    def task_defs(self) -> Sequence[str]:
        """Names of the registered task definitions, in order."""
        ...


class MetadataWrites(Protocol):
    """Registering definitions."""

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a workflow definition."""
        ...

    def put_task_def(self, name: str, text: str) -> None:
        """Register or replace a task definition."""
        ...

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""
        ...


class QueueReads(Protocol):
    """The workers' mailbox, read."""

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`: higher priority first, then earlier `due_at`, then workflow id and ref."""
        ...

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues (None: in any), or None."""
        ...

    def message(self, key: MessageKey) -> Message | None:
        """One message by its key."""
        ...

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any."""
        ...

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""
        ...

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        """The last polls of a task type (None: of all), in order of type and domain, no domain first."""
        ...


class QueueWrites(Protocol):
    """The workers' mailbox, written outside a decision."""

    def discard(self, messages: Sequence[Message]) -> None:
        """Delete messages that still stand exactly as given: leftovers of attempts that are gone."""
        ...

    def record_polls(self, polls: Sequence[PollData]) -> None:
        """Keep polls as the last of their type and domain, unless a later one is known."""
        ...


#: Place in listings: instant, handler, event, message, number of the action.
EventPlace = tuple[int, str, str, str, int]


class EventReads(Protocol):
    """Event handlers as canonical JSON text, and the records of what they did."""

    def event_handler(self, name: str) -> str | None:
        """The event handler of that name, or None."""
        ...

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        """The event handlers of an event (None: of all), in order of their names."""
        ...

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        """What became of one action for one message, or None when nothing did yet."""
        ...

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first: of a handler, a message, both or all, in descending order of their places."""
        ...


class EventWrites(Protocol):
    """Registering handlers and recording what they did."""

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""
        ...

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler; nothing happens when there is none. Its records stay."""
        ...

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record; raises InvariantBroken when there is one of that identity."""
        ...

    def drop_event_executions(self, before: int, limit: int) -> int:
        """Delete the oldest records created before an instant, at most `limit`; returns how many that were."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class ScheduleRow:
    """One schedule as it is kept: two texts that mean nothing to the store."""

    name: str
    #: The inbox its events lie in.
    address: str
    #: What is wanted.
    text: str
    #: How far it has come.
    progress: str
    #: Whether the end of an execution it has started is to be told to it.
    waits: bool = False
    #: The fence that was read; 0 for one that is not stored yet.
    fence: int = 0
    #: The engine that alone drives it; empty: any.
    owner: str = ""


class ScheduleReads(Protocol):
    """Finding schedules."""

    def schedule(self, name: str) -> ScheduleRow | None:
        """A schedule by its name, or None."""
        ...

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        """A page of schedules in ascending order of names, greater than `after`."""
        ...

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        """`due_at` and address of the first event of an owner that is not held, or None."""
        ...


class ScheduleWrites(Protocol):
    """Changing schedules."""

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence; its inbox loses the events `consumed`, by id, then gets `events`.

        Raises FencedOut, and changes nothing, when the stored fence differs from `row.fence` (0: there is none yet). The stored
        fence becomes that number plus one.
        """
        ...

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox; nothing happens when it is not there."""
        ...


class SchemaReads(Protocol):
    """Registered schemas, as canonical JSON text."""

    def schema_def(self, name: str, version: int | None) -> str | None:
        """A registered schema; version None is the highest."""
        ...

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas, in order."""
        ...


class SchemaWrites(Protocol):
    """Registering schemas; it is a change of the registry, so `registry_version` grows."""

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""
        ...


class LimitReads(Protocol):
    """Who holds slots of limits, and who waits."""

    def line(self, key: str, heads: int) -> Line:
        """A limit (one that nobody has asked yet is empty, with fence 0) with up to so many heads of each lane of its line."""
        ...

    def member(self, key: str, holder: str) -> Member | None:
        """One member of a limit, or None."""
        ...

    def members(self, key: str) -> Sequence[Member]:
        """All members of a limit: those with a slot in order of holder, then the line."""
        ...

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        """What an execution and its tasks hold and wait for, in order of key, then holder."""
        ...

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane until somebody polls it, in order."""
        ...

    def limits(self, after: str, limit: int) -> Sequence[Limit]:
        """A page of limits in order of their keys, greater than `after`."""
        ...

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        """A page of the members of a limit that have a slot, given ones included, in order of holder, greater than `after`."""
        ...

    def waiting(self, key: str, before: Member | None = None) -> int:
        """How many wait in the line of a limit; with `before`, how many of them come before it. Reads that part of the line."""
        ...


class LimitWrites(Protocol):
    """Changing limits outside a decision."""

    def put_limit(self, change: LimitChange) -> None:
        """Set one limit right; raises FencedOut when its fence differs. An unused one (`LimitChange.unused`) is forgotten.

        One that comes back under a key that was forgotten has a higher fence than any there was.
        """
        ...


@attrs.frozen(kw_only=True, slots=True)
class Archived:
    """An archived execution: `document` is its compressed JSON, `size` the bytes of that JSON. Instants are epoch ms."""

    workflow_id: str
    name: str
    status: str
    ended_at: int
    archived_at: int
    size: int
    document: bytes


class ArchiveReads(Protocol):
    """Finding archived executions."""

    def archived(self, workflow_id: str) -> Archived | None:
        """An archived execution, or None."""
        ...

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        """A page of ids in ascending order, greater than `after`."""
        ...


class ArchiveWrites(Protocol):
    """Keeping and deleting archived executions."""

    def archive(self, archived: Archived) -> None:
        """Keep an execution, in the place of one of the same id."""
        ...

    def drop_archived(self, workflow_id: str) -> bool:
        """Delete an archived execution; False when there is none."""
        ...
