"""Messages and values of a simulation: what was acknowledged, and whether it is there.

An engine that dies may have stored what it did not acknowledge. So what was acknowledged must be there, and what is there must have
been said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from conductorlite.model.codec import definition_text
from conductorlite.model.definitions import TaskType, WorkflowDef
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine

__all__ = ["TOPICS", "Talk", "stored_of", "talks"]

#: Topics that messages are sent to.
TOPICS: Final = ("x", "y")

#: The name whose latest value is set.
_NAME: Final = "mood"

_MANY: Final = 100_000


def talks(definitions: Collection[WorkflowDef]) -> bool:
    """Return True if an execution of one of them receives messages or emits values."""
    kinds = {str(TaskType.PULL_WORKFLOW_MESSAGES), str(TaskType.EMIT)}
    return any(f'"{kind}"' in text for text in map(definition_text, definitions) for kind in kinds)


def stored_of(engine: Engine, workflow_id: str) -> list[object]:
    """All that is stored of an execution: to compare it with what it was."""
    with engine.backend.reading() as view:
        return [
            view.executions.workflow(workflow_id),
            view.executions.attempts(workflow_id),
            view.executions.mailbox(workflow_id).messages(0, _MANY),
            view.streams.emissions(workflow_id),
            view.streams.values(workflow_id),
            view.inbox.events(workflow_id),
            view.history.lines(workflow_id),
        ]


class Talk:
    """Says things to executions and emits values for them, and knows what was acknowledged. Every value is another number."""

    def __init__(self) -> None:
        self._number = 0
        #: By execution, topic and key: the number that was sent, and those of which the number is known.
        self._sent: dict[tuple[str, str, str], int] = {}
        self._acknowledged: dict[tuple[str, str, str], int] = {}
        #: Numbers that were emitted, by attempt and lease.
        self._emitted: dict[tuple[str, int], list[int]] = {}
        #: Numbers whose setting was acknowledged, by execution, in that order.
        self._set: dict[str, list[int]] = {}

    def _next(self) -> int:
        self._number += 1
        return self._number

    def send(self, workflow_id: str, chosen: int) -> Any:
        """Return a verb that sends a message, now and then one that was sent before."""
        topic, key = TOPICS[chosen % len(TOPICS)], f"k{chosen % 7 if chosen % 3 else self._number + 100}"
        place = workflow_id, topic, key
        value = self._sent.setdefault(place, self._next())

        def verb(engine: Engine) -> Any:
            message = engine.send(workflow_id, topic, value, key=key)
            if message.number:
                self._acknowledged[place] = value
            return message

        return verb

    def emit(self, task: Task, chosen: int) -> Any:
        """Return a verb that emits a value or two for an attempt that was given out."""
        values = [self._next() for _ in range(1 + chosen % 2)]

        def verb(engine: Engine) -> None:
            engine.streams.emit(task, *values, stream=TOPICS[chosen % len(TOPICS)])
            self._emitted.setdefault((task.task_id, task.lease), []).extend(values)

        return verb

    def set_value(self, workflow_id: str) -> Any:
        """Return a verb that sets the latest value of a name."""
        value = self._next()

        def verb(engine: Engine) -> None:
            engine.streams.set_value(workflow_id, _NAME, value)
            self._set.setdefault(workflow_id, []).append(value)

        return verb

    def problems(self, engine: Engine, row: Workflow, reported: Collection[tuple[str, int]]) -> Iterator[str]:
        """Yield what is not as it was acknowledged; `reported` are attempts that completed, with their leases."""
        yield from self._of_messages(engine, row)
        found = engine.streams.items(row.workflow_id, limit=_MANY)
        items = [(item.kept, item.value) for item in found if type(item.value) is int]  # others are a flow's
        there = {value for _, value in items}
        if len(there) < len(items):
            yield f"{row.workflow_id}: a value is emitted twice: {sorted(items)}"
        kept = {value for known, value in items if known}
        for call in reported:
            lost = set(self._emitted.get(call, ())) - kept
            if lost:
                yield f"{row.workflow_id}: {sorted(lost)} were emitted by an attempt that has completed, and are not kept"
        said = self._set.get(row.workflow_id, [])
        value = engine.streams.value(row.workflow_id, _NAME) if said else None
        if said and (value is None or value.value.value in said[:-1]):  # one that a dead engine has set was not acknowledged
            yield f"{row.workflow_id}: its value is {value}, and {said[-1]} was set last"

    def _of_messages(self, engine: Engine, row: Workflow) -> Iterator[str]:
        workflow_id = row.workflow_id
        there = {(workflow_id, one.topic, one.key): one.value.value for one in engine.messages(workflow_id)}
        for place, value in self._acknowledged.items():
            if place[0] == workflow_id and there.get(place) != value:
                yield f"{workflow_id}: {value} was sent as {place[1:]}, and {there.get(place)} is there"
        received: dict[tuple[object, str], str] = {}
        for task in row.tasks:
            if task.task_type != TaskType.PULL_WORKFLOW_MESSAGES or task.status is not TaskStatus.COMPLETED or task.retried:
                continue
            for message in task.output_data.get("messages", ()):
                place_of = task.input_data.get("topic"), message["id"]
                if place_of in received:
                    yield f"{workflow_id}: {message['id']} is received by {received[place_of]} and {task.ref}"
                received[place_of] = task.ref
