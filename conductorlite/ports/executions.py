"""Finding and changing executions: rows, inboxes, journals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from conductorlite.canonical import Payload
from conductorlite.decisions import Decision, Event
from conductorlite.executions import HistoryEvent, Task, TaskLog, Workflow, WorkflowStatus

__all__ = [
    "ExecutionFilter",
    "ExecutionReads",
    "ExecutionWrites",
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

        A letter to an execution that is stored belongs to its owner, whatever it says itself.
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
