"""Small rows to test a store with, and a dump of all that can be read from it."""

from __future__ import annotations

from typing import Any, Final

from conductorlite.model.canonical import INLINE_LIMIT, Payload, attempt_head
from conductorlite.model.decisions import Decision, Event, EventKind, Message
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.streams import Chunk, Emission, EmissionState
from conductorlite.store.ports import Backend, ReadingTransaction
from conductorlite.store.tables import ExecutionFilter

__all__ = ["MANY", "dump", "event", "large", "line", "mail", "message", "settle", "started", "task", "task_id", "workflow"]

#: More rows than any test stores at once.
MANY: Final = 1000

_FILTERS: Final = (
    ExecutionFilter(),
    ExecutionFilter(name="order"),
    ExecutionFilter(status=WorkflowStatus.RUNNING),
    ExecutionFilter(name="order", status=WorkflowStatus.FAILED),
    ExecutionFilter(correlation_id="c1"),
    ExecutionFilter(correlation_id="c1", name="order", status=WorkflowStatus.RUNNING),
    ExecutionFilter(parent_workflow_id="w0"),
    ExecutionFilter(parent_workflow_id="w0", correlation_id="c1", name="other"),
)


def workflow(workflow_id: str = "w", **changes: Any) -> Workflow:
    """A small execution."""
    fields: dict[str, Any] = {"name": "order", "version": 1, "definition_hash": "d" * 64, "created_at": 5}
    return Workflow(workflow_id=workflow_id, **(fields | changes))


def task_id(ref: str = "a", workflow_id: str = "w", attempt: int = 0) -> str:
    """Id of an attempt at a printed reference; all of an execution begin alike."""
    return f"{attempt_head(workflow_id)}/{ref}/{attempt}"


def task(ref: str = "a", workflow_id: str = "w", *, rounds: tuple[int, ...] = (), **changes: Any) -> Task:
    """A small attempt at definition reference `ref`, in the given loop rounds."""
    printed = printed_ref(ref, rounds)
    fields: dict[str, Any] = {
        "task_id": task_id(printed, workflow_id, changes.get("attempt", 0)),
        "task_type": "charge",
        "name": "charge",
        "status": TaskStatus.SCHEDULED,
    }
    return Task(workflow_id=workflow_id, ref=printed, base_ref=ref, iterations=rounds, **(fields | changes))


def event(event_id: str = "e", due_at: int = 0, workflow_id: str = "w", **changes: Any) -> Event:
    """A small event."""
    fields: dict[str, Any] = {"kind": EventKind.CONTINUE, "posted_at": 0}
    return Event(workflow_id=workflow_id, event_id=event_id, due_at=due_at, **(fields | changes))


def message(ref: str = "a", due_at: int = 0, workflow_id: str = "w", **changes: Any) -> Message:
    """A small message in queue `charge`."""
    fields: dict[str, Any] = {"queue": "charge", "attempt": 0, "generation": 0, "task_id": f"{workflow_id}/{ref}"}
    return Message(workflow_id=workflow_id, ref=ref, due_at=due_at, **(fields | changes))


def mail(number: int, workflow_id: str = "w", **changes: Any) -> WorkflowMessage:
    """A small message to an execution."""
    fields: dict[str, Any] = {"topic": "news", "key": f"k{number}", "value": Payload.of({"n": number}), "sent_at": number}
    return WorkflowMessage(workflow_id=workflow_id, number=number, **(fields | changes))


def emission(lease: int, *chunks: tuple[str, int, int], workflow_id: str = "w", state: str = "OPEN") -> Emission:
    """Return what a call has emitted: streams with the first and the last number of their values, which are those numbers."""
    made = tuple(
        Chunk(stream=stream, first=first, last=last, at=first, values=Payload.of(list(range(first, last + 1))))
        for stream, first, last in chunks
    )
    call: dict[str, Any] = {"workflow_id": workflow_id, "task_id": f"{workflow_id}-a", "lease": lease, "ref": "a", "attempt": 0}
    call |= {"first": made[0].first, "last": made[-1].last} if made else {}
    return Emission(**call, state=EmissionState(state), chunks=made)


def large(event: str = "x") -> Payload:
    """A payload that is stored apart."""
    return Payload.of({"text": event * (INLINE_LIMIT + 1)})


def started(backend: Backend, workflow_id: str = "w", **parts: Any) -> Workflow:
    """Create an execution with the given parts of a decision, deliver what it sends, and return the stored row."""
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=workflow(workflow_id), created=True, **parts))
    settle(backend)
    with backend.reading() as view:
        row = view.executions.workflow(workflow_id)
    assert row is not None
    return row


def settle(backend: Backend) -> None:
    """Deliver every outgoing part that is still in the outbox."""
    with backend.writing() as tx:
        while items := tx.outbox.items(100):
            tx.outbox.deliver(items)


def dump(view: ReadingTransaction) -> dict[str, str]:
    """Everything that can be read, as text, so that an absent payload differs from a present one."""
    found: dict[str, object] = {
        "ids": [(status, view.executions.workflow_ids(status, "", MANY)) for status in (None, *WorkflowStatus)],
        "due": [(now, limit, view.inbox.due_workflows(now, limit)) for now in range(8) for limit in (1, 9)],
        "next": (view.inbox.next_event_at(), view.queue.next_message_at(None), view.queue.next_message_at(["q0", "charge"])),
        "upcoming": (view.inbox.upcoming_events(2), view.inbox.upcoming_events(MANY)),
        "messages": (view.queue.messages(2), view.queue.messages(MANY), sorted(view.queue.queue_sizes().items())),
        "offered": [(view.queue.offered(queue, now, n)) for queue in ("charge", "q0") for now in range(8) for n in (1, 99)],
        "outbox": view.outbox.items(MANY),
        "listed": [view.executions.page(wanted, after, n) for wanted in _FILTERS for after in (None, (6, "w1")) for n in (1, MANY)],
        "keys": [view.executions.key_holder(name, key) for name in ("order", "other") for key in ("k1", "k2")],
        "polls": [view.poll_data.polls(kind) for kind in (None, "t1", "t2")],
        "registry": view.metadata.registry_version(),
        "schedules": (
            view.schedules.page("", 9),
            view.schedules.page("w0", 1),
            view.schedules.schedule("w1"),
            view.inbox.next_event(),
        ),
        "defs": (
            view.metadata.workflow_defs(),
            view.metadata.task_defs(),
            [view.metadata.workflow_def(n, None) for n, _ in view.metadata.workflow_defs()],
        ),
    }
    for workflow_id in {*view.executions.workflow_ids(None, "", MANY), "w", "w0", "w1", "w2"}:
        attempts = view.executions.attempts(workflow_id)
        refs = frozenset({task.ref for task in attempts} | {task.base_ref for task in attempts} | {"nobody"})
        digests = frozenset({large(event).digest for event in "xyz"})
        found[f"{workflow_id} rows"] = (view.executions.workflow(workflow_id), attempts, view.history.lines(workflow_id))
        found[f"{workflow_id} inbox"] = [view.inbox.events(workflow_id)] + [
            view.inbox.due_events(workflow_id, now, n) for now in range(8) for n in (1, MANY)
        ]
        asked = (
            view.executions.tasks(workflow_id, refs),
            view.executions.tasks(workflow_id, refs & {"a"}),
            view.executions.latest(workflow_id, refs),
        )
        found[f"{workflow_id} tasks"] = [sorted(part.items(), key=lambda item: item[0]) for part in asked]
        found[f"{workflow_id} payloads"] = sorted(view.executions.payloads(workflow_id, digests).items())
        listed = (
            view.executions.live(workflow_id),
            view.executions.failed(workflow_id),
            view.executions.last_attempts(workflow_id),
        )
        found[f"{workflow_id} last"] = [sorted(rows, key=lambda row: (row.ref, row.attempt)) for rows in listed]
        found[f"{workflow_id} by id"] = [view.executions.task_by_id(task.task_id) for task in attempts]
        found[f"{workflow_id} keys"] = [view.queue.message((workflow_id, ref)) for ref in sorted(refs)]
        found[f"{workflow_id} mailbox"] = view.executions.mailbox(workflow_id).messages(0, MANY)
        streams = view.streams
        emitted = (streams.chunks(workflow_id, None, 0, MANY), streams.emissions(workflow_id), streams.values(workflow_id))
        found[f"{workflow_id} streams"] = emitted
        found[f"{workflow_id} logs"] = [view.history.logs(task.task_id) for task in attempts]
    return {key: repr(value) for key, value in found.items()}


def line(n: int, **changes: Any) -> HistoryEvent:
    """A small line of the journal."""
    return HistoryEvent(n=n, at=n, kind=HistoryKind.TASK, status="SCHEDULED", **({"ref": "a"} | changes))
