"""A journal cut into what led to its lines, and the events that do it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.canonical import Payload, parse
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task
from conductorlite.model.limits import workflow_key
from conductorlite.model.statuses import REPORTABLE, TaskStatus
from conductorlite.runtime.engine import Engine

__all__ = ["ReplayStep", "as_recorded", "reenacted", "steps_of", "window_event"]


@attrs.frozen(kw_only=True, slots=True)
class ReplayStep:
    """Lines of one journal that have one cause; without a `kind` in it they came by themselves."""

    at: int
    #: What the clock read.
    clock: int
    cause: Mapping[str, Any]
    lines: tuple[HistoryEvent, ...]

    def without(self, count: int) -> ReplayStep:
        """The step when its first lines are there already."""
        return attrs.evolve(self, cause={}, lines=self.lines[count:])


def steps_of(history: Sequence[HistoryEvent]) -> list[ReplayStep]:
    """A journal as steps: a new one begins with a cause, at another instant, or by another clock."""
    found: list[ReplayStep] = []
    for line in history:
        cause = {} if line.cause is None else parse(line.cause)
        begins = not found or "kind" in cause or "clock" in cause or line.at != found[-1].at
        if begins:
            found.append(ReplayStep(at=line.at, clock=cause.get("clock", line.at), cause=cause, lines=(line,)))
        else:
            found[-1] = attrs.evolve(found[-1], lines=(*found[-1].lines, line))
    return found


def as_recorded(events: Sequence[Event], lines: Sequence[HistoryEvent]) -> list[Event]:
    """The events of a turn in inbox order, response timeouts not before other timers whose lines come first.

    One that would fire too soon was set again by a sign of life, which no line records.
    """
    places = {(line.ref, line.attempt): place for place, line in reversed(list(enumerate(lines)))}

    def place(event: Event) -> int:
        return places.get((event.ref, event.attempt), len(lines))

    found = sorted(events, key=lambda event: event.order)
    for event in sorted((event for event in found if event.kind is EventKind.RESPONSE_TIMEOUT), key=place):
        timers = [other for other in found if other.sender == event.sender and place(other) < place(event)]
        last = max(timers, key=lambda other: other.order, default=event)
        if last.order > event.order:
            found.remove(event)
            again = attrs.evolve(event, due_at=last.due_at, posted_at=last.posted_at, sender_seq=last.sender_seq)
            found.insert(found.index(last) + 1, again)
    return found


def reenacted(engine: Engine, workflow_id: str, step: ReplayStep, definitions: Mapping[str, str]) -> Event | None:
    """The event that led to a step, written again; None when what it is about is not there."""
    cause, line = step.cause, step.lines[0]
    kind = EventKind(cause["kind"])
    fields: dict[str, Any] = {"data": {}}
    if kind is EventKind.WINDOW_MOVES or (kind is EventKind.GRANTED and cause["from"].startswith(workflow_key(""))):
        fields["data"] = {"key": cause["from"], "holder": workflow_id, "number": 0}
    elif kind in _ABOUT_TASKS:
        task = _newest(engine, workflow_id, line)
        if task is None or (kind is EventKind.REPORT and _status(line) not in REPORTABLE):
            return None
        fields = {"ref": task.ref, "attempt": task.attempt, "generation": task.generation}
        if kind is EventKind.GRANTED:
            fields["data"] = {"key": cause["from"], "holder": task.task_id, "number": 0}
        else:
            fields["data"] = _reported(cause, line, task) if kind is EventKind.REPORT else _said(cause)
        if kind is EventKind.POLL:
            fields["data"] = {"workerId": cause["worker"]} if "worker" in cause else {}
    elif kind is EventKind.START:
        fields["data"] = {"at": cause["at"]} if "at" in cause else {}
    elif kind in (EventKind.TERMINATE, EventKind.RETRY):
        fields["data"] = _said(cause)
    else:
        fields["data"] = _verb(kind, step, definitions)
    return Event(
        workflow_id=workflow_id,
        event_id=cause.get("id", f"{kind}@{line.n}"),
        kind=kind,
        due_at=step.clock,
        # A migration has a turn of its own: no other event can have it stamped later than the clock.
        posted_at=step.at if kind is EventKind.MIGRATE else step.clock,
        sender=cause.get("from", ""),
        **{**fields, "data": Payload.of(fields["data"], bounded=False)},
    )


_ABOUT_TASKS: Final = (
    *(EventKind.POLL, EventKind.REPORT, EventKind.GIVE_BACK, EventKind.GRANTED),
    *(EventKind.STARTED, EventKind.CHILD_ENDED, EventKind.CHILD_REOPENED),
)

#: What a task that is offered again becomes.
_AGAIN: Final = (TaskStatus.SCHEDULED, TaskStatus.PENDING)


def window_event(workflow_id: str, key: str, at: int) -> Event:
    """An event that has an execution look again at a limit."""
    return Event(
        workflow_id=workflow_id,
        event_id=f"{EventKind.WINDOW_MOVES}:{key}",
        kind=EventKind.WINDOW_MOVES,
        due_at=at,
        posted_at=at,
        sender=key,
        data=Payload.of({"key": key}),
    )


def _newest(engine: Engine, workflow_id: str, line: HistoryEvent) -> Task | None:
    with engine.backend.reading() as view:
        rows = [task for task in view.attempts(workflow_id) if (task.ref, task.attempt) == (line.ref, line.attempt)]
    return rows[-1] if rows else None


def _said(cause: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in cause.items() if name not in ("kind", "from", "id", "same", "clock", "used", "slots", "cut")
    }


def _reported(cause: Mapping[str, Any], line: HistoryEvent, task: Task) -> dict[str, Any]:
    moved = line.kind is HistoryKind.TASK
    waits = moved and line.status in _AGAIN
    said: dict[str, Any] = {
        "status": _status(line),
        "output": {} if line.payload is None else line.payload.fresh(),
        "reason": line.reason if moved and not waits else cause.get("reason"),
        "callbackAfterMs": cause.get("callback", 0),
        "workerId": cause.get("worker"),
        # A worker that only sets something going is distinguished from one that completes the task by its lease.
        "lease": task.lease if not moved and line.status == TaskStatus.COMPLETED else None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _status(line: HistoryEvent) -> str:
    """What was reported: a task that is offered again was said to be in progress."""
    offered = line.kind is HistoryKind.TASK and line.status in _AGAIN
    return str(TaskStatus.IN_PROGRESS) if offered else line.status


def _verb(kind: EventKind, step: ReplayStep, definitions: Mapping[str, str]) -> dict[str, Any]:
    """What was given to a verb: in the line of its own."""
    names = {EventKind.MIGRATE: "MIGRATED"}
    places = [line for line in step.lines if line.kind in (HistoryKind.VERB, HistoryKind.MIGRATED)]
    line = next((line for line in places if line.status == names.get(kind, str(kind))), None)
    said = None if line is None or line.payload is None else line.payload.fresh()
    if line is None or not isinstance(said, dict):
        return {}
    if kind is EventKind.MIGRATE:
        return {**(said.get("to") or {}), "refs": said.get("refs", {})}
    if kind in (EventKind.SKIP, EventKind.VARIABLES):
        return said
    said.pop("dropped", None)
    if line.ref is not None:
        said["ref"] = line.ref
    if "definitionHash" in said:
        definition = WorkflowDef.from_json(definitions[said["definitionHash"]])
        said |= {"variables": dict(definition.variables), "inputTemplate": dict(definition.input_template)}
    return said
