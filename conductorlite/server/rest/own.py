"""Operations of ours, that Conductor has not: what an execution emits, latest values, messages of any topic, forks."""

from __future__ import annotations

from typing import Any, Final

import attrs

from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import InvalidInput
from conductorlite.model.streams import STREAM
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.operations import NO_BODY
from conductorlite.server.streams import Events, values
from conductorlite.server.waiting import Waiting

__all__ = ["emit", "fork", "plan_fork", "run_task", "send_to_topic", "set_value", "stream", "value_of", "values_of"]

Json = dict[str, Any]


async def stream(api: Waiting, workflow_id: str, stream: str | None = None, after: int = 0, kept_only: bool = False) -> Events:
    """Send the values of an execution as Server-Sent Events: those after a number, then new ones."""
    reading = api.engine.core.readers.reading(workflow_id, stream, after, kept_only=kept_only)
    await api.call(api.engine.status, workflow_id)
    return Events(values(api.engine, api.call, reading))


def values_of(engine: Engine, workflow_id: str) -> list[Json]:
    """The latest values of an execution."""
    found = engine.streams.values(workflow_id, masked=True)
    return [{"name": one.name, "ref": one.ref or None, "at": one.at, "value": one.value.fresh()} for one in found]


def value_of(engine: Engine, workflow_id: str, name: str, ref: str = "") -> Json:
    """The latest value of a name; an empty object while there is none."""
    found = engine.streams.value(workflow_id, name, ref=ref, masked=True)
    return {} if found is None else {"at": found.at, "value": found.value.fresh()}


def set_value(engine: Engine, workflow_id: str, name: str, body: Json) -> None:
    """Set the latest value of a name: the `value` of the body."""
    engine.streams.set_value(workflow_id, name, _given(body, "value"))


def emit(engine: Engine, task_id: str, body: Json) -> None:
    """Emit the `values` of the body for a task, which its worker has polled, into a `stream`; the `lease` is the task's."""
    lease, found = _given(body, "lease"), _given(body, "values")
    if type(lease) is not int or not isinstance(found, list):
        raise InvalidInput("`values` is a list, and `lease` a whole number")
    task = attrs.evolve(engine.tasks.get(task_id), lease=lease)
    engine.streams.emit(task, *found, stream=body.get("stream", STREAM))


def send_to_topic(engine: Engine, workflow_id: str, topic: str, body: Json, key: str | None = None) -> str:
    """Send an execution the `value` of the body as a message of a topic, once for each key; the message's id."""
    return engine.send(workflow_id, topic, _given(body, "value"), key=key or None).key


#: What the start of a task alone takes, by its name in the body.
_RUN: Final = {
    "input": "input",
    "workflowId": "workflow_id",
    "correlationId": "correlation_id",
    "priority": "priority",
    "createdBy": "created_by",
    "taskToDomain": "task_to_domain",
    "delay": "delay",
    "idempotencyKey": "idempotency_key",
    "idempotencyStrategy": "idempotency_strategy",
}


def run_task(engine: Engine, task_type: str, body: Json = NO_BODY) -> str:
    """Start a task alone, with the `input` of the body; the id of its execution, or of the one that holds the key."""
    unknown = sorted(body.keys() - _RUN.keys())
    if unknown:
        raise InvalidInput(f"the start of a task takes no {unknown[0]!r}")
    return engine.run_task(task_type, **{_RUN[name]: value for name, value in body.items() if value is not None}).workflow_id


#: What a fork takes, by its name in the body.
_FORKED: Final = {
    "at": "at",
    "input": "input",
    "taskInput": "task_input",
    "newId": "new_id",
    "correlationId": "correlation_id",
    "idempotencyKey": "idempotency_key",
    "definition": "definition",
}

#: What a plan of a fork takes.
_PLANNED: Final = frozenset({"at", "input", "task_input", "definition"})


def fork(engine: Engine, workflow_id: str, body: Json) -> str:
    """Start a new execution from the task `at` of this one, which stays as it is; its id."""
    return engine.fork(workflow_id, **_forked(body)).workflow_id


def plan_fork(engine: Engine, workflow_id: str, body: Json) -> Json:
    """What a fork with this body would do, which is not done: the tasks that are kept, run again and dropped."""
    given = _forked(body)
    return engine.plan_fork(workflow_id, **{name: given[name] for name in given if name in _PLANNED}).to_json()


def _forked(body: Json) -> Json:
    unknown = sorted(body.keys() - _FORKED.keys())
    if unknown:
        raise InvalidInput(f"a fork takes no {unknown[0]!r}")
    _given(body, "at")
    given = {_FORKED[name]: value for name, value in body.items() if value is not None}
    if "definition" in given:
        given["definition"] = WorkflowDef.from_json(given["definition"])
    return given


def _given(body: Json, name: str) -> Any:
    if name not in body:
        raise InvalidInput(f"the body has no {name!r}")
    return body[name]
