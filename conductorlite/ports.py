"""The seams: what the engine asks of a backend, a lock, a payload store. Protocols only.

**Storage has no opinion on workflows.** A backend stores the rows of a `Decision` and finds them again; it reads no clock
(instants are arguments), computes no status, raises no timer. Two transactions carry everything: `reading()` is one
consistent snapshot that takes no write lock; `writing()` is one atomic, serialised change that can also read.

Errors every implementation raises: `StorageBusy` when another writer holds the store for longer than its busy timeout,
`StorageFull`, `StorageReadOnly`, `StorageCorrupt`, `EngineClosed` after `close()`. After any error nothing of the transaction
is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

from conductorlite.canonical import Payload
from conductorlite.decisions import Decision, Event, Message, MessageKey, Need, Outgoing
from conductorlite.executions import HistoryEvent, PollData, Task, TaskLog, Workflow, WorkflowStatus

__all__ = [
    "Backend",
    "ExecutionFilter",
    "ExecutionReads",
    "ExecutionWrites",
    "Loaded",
    "Lock",
    "MetadataReads",
    "MetadataWrites",
    "QueueReads",
    "QueueWrites",
    "ReadingTransaction",
    "RelayItem",
    "RelayReads",
    "RelayWrites",
    "WritingTransaction",
]


@attrs.frozen(kw_only=True, slots=True)
class Loaded:
    """Rows answering a `Need`: requested keys that do not exist map to None."""

    tasks: Mapping[str, Task | None] = attrs.field(factory=dict)
    latest: Mapping[str, Task | None] = attrs.field(factory=dict)
    payloads: Mapping[str, Payload] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class ExecutionFilter:
    """Which executions to list; what is None does not matter."""

    name: str | None = None
    status: WorkflowStatus | None = None
    correlation_id: str | None = None
    parent_workflow_id: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class RelayItem:
    """One undelivered outgoing part: `item_id` orders the items of a store and makes a second delivery harmless."""

    item_id: int
    workflow_id: str
    outgoing: Outgoing


class ExecutionReads(Protocol):
    """Finding executions again. Large payloads come back *absent* (hash only) unless asked for by `Need.payloads`."""

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""
        ...

    def load(self, workflow_id: str, need: Need) -> Loaded:
        """The rows a need names. `live`, `failed` and `everything` add the last attempts they find to `tasks`."""
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

    def due_workflows(self, now: int, limit: int) -> Sequence[str]:
        """Ids of the workflows with events due at `now`, the longest due first, each once."""
        ...

    def next_event_at(self) -> int | None:
        """The earliest `due_at` of any event that is not held, or None."""
        ...

    def upcoming_events(self, limit: int) -> Sequence[Event]:
        """The next events of all inboxes that are not held, in order of `due_at`."""
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
        key, which else becomes its own). The stored fence becomes that number plus one. On an error inside a transaction only this
        decision is undone, so several may share one transaction.
        """
        ...

    def post(self, events: Iterable[Event]) -> None:
        """Put events into inboxes; an event of the same id is replaced. Never touches a fence."""
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


class RelayReads(Protocol):
    """Outgoing parts a store without one commit has not delivered yet; empty for the others."""

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        """The oldest undelivered items, in order."""
        ...


class RelayWrites(Protocol):
    """Delivery of outgoing parts."""

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Carry out outgoing parts and forget them; an item already delivered changes nothing."""
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


class ReadingTransaction(ExecutionReads, QueueReads, RelayReads, MetadataReads, Protocol):
    """One consistent view of the store."""


class WritingTransaction(ReadingTransaction, ExecutionWrites, QueueWrites, RelayWrites, MetadataWrites, Protocol):
    """One atomic, serialised change of the store; sees its own writes."""


class Backend(Protocol):
    """A store. Thread-safe; every instant it compares is an argument."""

    #: Whether `apply` commits the outgoing part with the rest; if not, it lies in the outbox until delivered.
    one_commit: bool

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; released when the block ends, so keep blocks short."""
        ...

    def writing(self) -> AbstractContextManager[WritingTransaction]:
        """An atomic change: committed when the block ends, undone when it raises."""
        ...

    def data_version(self) -> int:
        """A number that changes when another connection or process has committed."""
        ...

    def close(self) -> None:
        """Release files and connections; idempotent."""
        ...


class Lock(Protocol):
    """Saves double work on one workflow; never trusted for safety, which is the fence's."""

    def try_acquire(self, workflow_id: str) -> bool:
        """Take the workflow's turn, or return False at once when somebody has it."""
        ...

    def release(self, workflow_id: str) -> None:
        """Give the turn back; harmless when it is not held."""
        ...
