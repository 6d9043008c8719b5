"""Executions as documents: Conductor's JSON, and the compressed JSON they are archived as.

Conductor's JSON is what its REST API answers for a workflow and a task, in its names and units: instants are epoch ms (0: not yet),
spans whole seconds, rounded up. What is null or unknown is left out, and so is what has no meaning inside one process (network
latencies, protobuf messages). A document in the payload storage is an empty map here, and the path says where it is. Every call
makes a fresh document. Source of the rule: Conductor's `Workflow` and `Task` as its JSON mapper writes them.

An archive holds an execution with all that belongs to it. Rows are written cell by cell, those that equal their default left out;
payloads as the text they are, so that nothing about them changes. What a later version adds is left out by an earlier one, and
what it lacks has its default.

An execution as one JSON document, with all that is needed to live it again.

The document holds the definitions by hash, what the execution and those below it were started with, and their journals, in
which each line that something from outside led to says so (`HistoryEvent.cause`). It holds no fence and no lease. Who reads it is
`conductorlite.testing.replay`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from conductorlite.model import attrs
from conductorlite.model.canonical import Payload, canonical, parse, present
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import Semantics, WorkflowDef, WorkflowTask
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, TaskLog, Workflow
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.scalars import whole_seconds
from conductorlite.model.statuses import TaskStatus, WorkflowStatus, shown_status

__all__ = [
    "ARCHIVE_FORMAT",
    "EXPORT_FORMAT",
    "EXPORT_LINE",
    "EXPORT_ROW",
    "EXPORT_VERSION",
    "Unpacked",
    "archive_text",
    "definitions_in",
    "export_to_json",
    "history_line_to_json",
    "task_from_cells",
    "task_to_cells",
    "task_to_json",
    "unpacked",
    "workflow_to_json",
]


def workflow_to_json(workflow: Workflow) -> dict[str, Any]:
    """An execution as `Engine.get` returns it, with its tasks and its definition, as Conductor's `Workflow`."""
    nodes = _nodes_of(workflow)
    document = {
        "workflowId": workflow.workflow_id,
        "workflowName": workflow.name,
        "workflowVersion": workflow.version,
        "status": workflow.status.value,
        "compensating": None if workflow.compensating is None else workflow.compensating.value,
        "createTime": workflow.created_at,
        "startTime": workflow.created_at,
        "updateTime": workflow.updated_at,
        "endTime": workflow.ended_at,
        "lastRetriedTime": workflow.last_retried_at,
        "createdBy": workflow.created_by,
        "correlationId": workflow.correlation_id,
        "parentWorkflowId": workflow.parent_workflow_id,
        "parentWorkflowTaskId": workflow.parent_task_id,
        "event": workflow.event,
        "idempotencyKey": workflow.idempotency_key,
        "priority": workflow.priority,
        "rateLimitKey": None if workflow.rate_limit_key is None else workflow.rate_limit_key.partition(":")[2],
        "rateLimited": workflow.rate_limited,
        "input": _shown(workflow.input),
        "output": _shown(workflow.output),
        "externalInputPayloadStoragePath": _path(workflow.input),
        "externalOutputPayloadStoragePath": _path(workflow.output),
        "variables": workflow.variables.fresh(),
        "taskToDomain": workflow.task_to_domain.fresh(),
        "reasonForIncompletion": workflow.conductor_reason or workflow.reason,
        "failedReferenceTaskNames": list(workflow.failed_refs),
        "failedTaskNames": list(workflow.failed_task_names),
        "tasks": [_task(task, workflow, nodes.get((task.grafts[-1:], task.base_ref))) for task in workflow.tasks],
        "workflowDefinition": None if workflow.definition is None else workflow.definition.to_json(),
    }
    return present(document)


def task_to_json(task: Task, workflow: Workflow | None = None) -> dict[str, Any]:
    """An attempt as Conductor's `Task`; with its execution also what Conductor repeats from there and from the definition."""
    node = None if workflow is None else _nodes_of(workflow).get((task.grafts[-1:], task.base_ref))
    return _task(task, workflow, node)


def _task(task: Task, workflow: Workflow | None, node: WorkflowTask | None) -> dict[str, Any]:
    output = _shown(task.output)
    given = _shown(task.input)
    definition = None if node is None else node.task_definition
    document: dict[str, Any] = {
        "taskId": task.task_id,
        "referenceTaskName": task.ref,
        "taskType": task.task_type,
        "taskDefName": task.name or task.task_type,
        "status": (task.status if workflow is None else shown_status(task.status, workflow.semantics)).value,
        "workflowInstanceId": task.workflow_id,
        "workflowType": None if workflow is None else workflow.name,
        "workflowPriority": None if workflow is None else workflow.priority,
        "correlationId": None if workflow is None else workflow.correlation_id,
        "inputData": given,
        "outputData": output,
        "externalInputPayloadStoragePath": _path(task.input),
        "externalOutputPayloadStoragePath": _path(task.output),
        "reasonForIncompletion": task.reason,
        "errorTypes": list(task.error_types) or None,
        "retryCount": task.attempt,
        "retried": task.retried,
        "retriedTaskId": task.retried_task_id,
        "executed": task.executed,
        "seq": task.seq,
        "pollCount": task.poll_count,
        "workerId": task.worker_id,
        "domain": task.domain,
        "scheduledTime": task.scheduled_at,
        "startTime": task.started_at,
        "updateTime": task.updated_at,
        "endTime": task.ended_at,
        "queueWaitTime": max(0, task.started_at - task.scheduled_at) if task.started_at else 0,
        "startDelayInSeconds": whole_seconds(task.start_delay_ms),
        "callbackAfterSeconds": whole_seconds(task.offered_after_ms),
        "callbackFromWorker": True,
        "iteration": task.iteration,
        "loopOverTask": task.iteration > 0,
        "subWorkflowId": task.sub_workflow_id or _text(output, "subWorkflowId") or _text(given, "subWorkflowId"),
    }
    if definition is not None:
        document["taskDefinition"] = definition.to_json()
        document["responseTimeoutSeconds"] = whole_seconds(definition.response_timeout_ms)
        document["rateLimitPerFrequency"] = definition.rate_limit_per_frequency
        document["rateLimitFrequencyInSeconds"] = whole_seconds(definition.rate_limit_frequency_ms)
        document["executionNameSpace"] = definition.execution_name_space
        document["isolationGroupId"] = definition.isolation_group_id
    if node is not None:
        # As a definition of one task, so that there is one writer of definitions.
        document["workflowTask"] = WorkflowDef(name="", tasks=[node]).to_json()["tasks"][0]
    return present(document)


def _shown(payload: Payload) -> Any:
    return {} if payload.external is not None else payload.fresh()


def _path(payload: Payload) -> str | None:
    return None if payload.external is None else payload.external.key


def _text(document: object, name: str) -> str | None:
    value = document.get(name) if isinstance(document, Mapping) else None
    return value if isinstance(value, str) else None


def _nodes_of(workflow: Workflow) -> dict[tuple[tuple[str, ...], str], WorkflowTask]:
    """Every task of an execution's definition, and of what it has made at run time, by where it is from and its reference."""
    found: dict[tuple[tuple[str, ...], str], WorkflowTask] = {((), ref): task for ref, task in _nodes(workflow.definition).items()}
    for digest, made in workflow.made.items():
        found |= {((digest,), ref): task for ref, task in _nodes(made).items()}
    return found


def _nodes(definition: WorkflowDef | None) -> dict[str, WorkflowTask]:
    """Every task of a definition by its reference. A stack, not recursion: definitions may nest deeper than Python's."""
    found: dict[str, WorkflowTask] = {}
    waiting = [] if definition is None else list(definition.tasks)
    while waiting:
        task = waiting.pop()
        found[task.task_reference_name] = task
        if task.compensation is not None:
            waiting.append(task.compensation)
        for branch in (*task.decision_cases.values(), task.default_case, *task.fork_tasks, task.loop_over):
            waiting.extend(branch)
    return found


#: What the document says it is, and its version; a later one is refused.
ARCHIVE_FORMAT: Final = "conductorlite/archive"
ARCHIVE_VERSION: Final = 1

R = TypeVar("R", Workflow, Task, HistoryEvent, TaskLog, WorkflowMessage)

#: The rows that an archive holds.
_ROWS: Final = (Workflow, Task, HistoryEvent, TaskLog, WorkflowMessage)

#: Cells of a row that `Engine.get` fills.
_FILLED: Final = frozenset({"tasks", "definition", "made"})


def _statuses(kind: Callable[[str], object]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else kind(value)


#: Types of fields as they are written. Not `field.type`: another library may have resolved that in this process.
_TYPES: Final[Mapping[type, Mapping[str, Any]]] = {kind: kind.__annotations__ for kind in _ROWS}

#: How a cell is made of JSON again, by the type of its field.
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Payload": Payload,
    "Payload | None": _statuses(Payload),
    "TaskStatus": TaskStatus,
    "WorkflowStatus": WorkflowStatus,
    "WorkflowStatus | None": _statuses(WorkflowStatus),
    "Semantics": Semantics,
    "HistoryKind": HistoryKind,
    "tuple[str, ...]": tuple,
    "tuple[int, ...]": tuple,
}


@attrs.frozen(kw_only=True, slots=True)
class Unpacked:
    """What an archive's document holds: `workflow` with its tasks; texts of the definitions by hash."""

    workflow: Workflow
    history: tuple[HistoryEvent, ...]
    logs: tuple[TaskLog, ...]
    definitions: Mapping[str, str]
    messages: tuple[WorkflowMessage, ...] = ()


def archive_text(
    workflow: Workflow,
    history: Sequence[HistoryEvent],
    logs: Sequence[TaskLog],
    definitions: Mapping[str, str],
    messages: Sequence[WorkflowMessage],
) -> str:
    """The JSON text of an execution with its tasks; every payload must be there."""
    document = {
        "format": ARCHIVE_FORMAT,
        "version": ARCHIVE_VERSION,
        "workflow": _cells(workflow),
        "tasks": [_cells(task) for task in workflow.tasks],
        "history": [_cells(line) for line in history],
        "logs": [_cells(entry) for entry in logs],
        "definitions": dict(definitions),
        **({"messages": [_cells(message) for message in messages]} if messages else {}),
    }
    return canonical(document, bounded=False)


def unpacked(document: bytes) -> Unpacked:
    """What was archived; raises StorageCorrupt for what cannot be read."""
    try:
        said = parse(zlib.decompress(document))
        if (said["format"], said["version"]) != (ARCHIVE_FORMAT, ARCHIVE_VERSION):
            raise StorageCorrupt(f"an archived execution is a {said['format']!r} of version {said['version']}")
        tasks = tuple(_row(Task, cells) for cells in said["tasks"])
        return Unpacked(
            workflow=attrs.evolve(_row(Workflow, said["workflow"]), tasks=tasks),
            history=tuple(_row(HistoryEvent, cells) for cells in said["history"]),
            logs=tuple(_row(TaskLog, cells) for cells in said["logs"]),
            definitions=said["definitions"],
            messages=tuple(_row(WorkflowMessage, cells) for cells in said.get("messages", ())),
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageCorrupt(f"an archived execution cannot be read: {error}") from error


_DOCUMENTS: Final = ("input", "output")


def task_to_cells(task: Task) -> dict[str, Any]:
    """An attempt as JSON that `task_from_cells` reads: what is as by default is left out. Its documents must have their texts.

    They are values, not texts, so that a mask finds their fields.
    """
    cells = _cells(task)
    return {**cells, **{name: getattr(task, name).value for name in _DOCUMENTS if name in cells}}


def task_from_cells(cells: Mapping[str, Any]) -> Task:
    """An attempt of what `task_to_cells` has written; raises ValueError, KeyError or TypeError for what cannot be one."""
    return _row(Task, {**cells, **{name: Payload.of(cells[name], bounded=False).text for name in _DOCUMENTS if name in cells}})


def _cells(row: Workflow | Task | HistoryEvent | TaskLog | WorkflowMessage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in attrs.fields(type(row)):
        value = getattr(row, field.name)
        if field.name in _FILLED or (field.default is not attrs.NOTHING and value == field.default):
            continue
        if isinstance(value, Payload):
            value = value.text
        found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def _row(kind: type[R], cells: Mapping[str, Any]) -> R:
    types = _TYPES[kind]
    known = {name: value for name, value in cells.items() if name in types}
    return kind(**{name: _READ[types[name]](value) if types[name] in _READ else value for name, value in known.items()})


#: What the document says it is.
EXPORT_FORMAT: Final = "conductorlite/execution"

#: Version of the document; another one is refused.
EXPORT_VERSION: Final = 1


#: Name in the document, field of the row, type of the value; those with a default may be absent.
EXPORT_ROW: Final[tuple[tuple[str, str, type], ...]] = (
    ("workflowId", "workflow_id", str),
    ("workflowName", "name", str),
    ("workflowVersion", "version", int),
    ("definitionHash", "definition_hash", str),
    ("semantics", "semantics", str),
    ("deciderVersion", "decider_version", int),
    ("seed", "seed", str),
    ("createTime", "created_at", int),
    ("correlationId", "correlation_id", str),
    ("priority", "priority", int),
    ("createdBy", "created_by", str),
    ("idempotencyKey", "idempotency_key", str),
    ("taskToDomain", "task_to_domain", dict),
    ("input", "input", dict),
    ("parentWorkflowId", "parent_workflow_id", str),
    ("parentWorkflowTaskId", "parent_task_id", str),
    ("parentReferenceName", "parent_ref", str),
    ("parentRetryCount", "parent_attempt", int),
    ("parentGeneration", "parent_generation", int),
    ("depth", "depth", int),
    ("event", "event", str),
    ("limitKeys", "outer_keys", list),
)
EXPORT_LINE: Final[tuple[tuple[str, str, type], ...]] = (
    ("n", "n", int),
    ("at", "at", int),
    ("kind", "kind", str),
    ("status", "status", str),
    ("ref", "ref", str),
    ("attempt", "attempt", int),
    ("number", "number", int),
    ("reason", "reason", str),
    ("cause", "cause", dict),
)


def export_to_json(
    rows: Iterable[tuple[Workflow, Iterable[HistoryEvent]]],
    definitions: Mapping[str, str],
    steps: int,
    limit: int,
    barriers: Mapping[str, int],
) -> dict[str, Any]:
    """The document of executions as they were started, the exported one first, with their journals; every payload has its text.

    `definitions` are texts by hash; `steps` and `limit` are the limits of one turn, `barriers` the hard barriers in KB by
    their names, those that are not as they are by default.
    """
    executions = [{**_of_row(row), "history": [history_line_to_json(line) for line in lines]} for row, lines in rows]
    return {
        "format": EXPORT_FORMAT,
        "formatVersion": EXPORT_VERSION,
        "workflowId": executions[0]["workflowId"],
        "bounds": {"steps": steps, "rows": limit, **({"barriers": dict(barriers)} if barriers else {})},
        "definitions": {hashed: parse(text) for hashed, text in sorted(definitions.items())},
        "executions": executions,
    }


def _of_row(row: Workflow) -> dict[str, Any]:
    values = ((name, getattr(row, field)) for name, field, _ in EXPORT_ROW)
    return {
        name: value.fresh() if isinstance(value, Payload) else str(value) if isinstance(value, str) else value
        for name, value in ((name, list(value) if isinstance(value, tuple) else value) for name, value in values)
        if value is not None and value != []
    }


def history_line_to_json(line: HistoryEvent) -> dict[str, Any]:
    """A line of a journal, in the words of the journal; what is None is left out."""
    document = {name: getattr(line, field) for name, field, _ in EXPORT_LINE if getattr(line, field) is not None}
    document |= {"kind": line.kind.value, "status": str(line.status)}
    if line.cause is not None:
        document["cause"] = parse(line.cause)
    if line.payload is not None:
        document["payload"] = line.payload.fresh()
    return document


def definitions_in(line: HistoryEvent) -> list[str]:
    """Hashes of the definitions that a line of a journal names: found at run time, moved to, restarted on."""
    cause = {} if line.cause is None else parse(line.cause)
    used = cause.get("used")
    found = [hashed for hashed in used if isinstance(hashed, str)] if isinstance(used, list) else []
    records = line.kind is HistoryKind.MIGRATED or (line.kind is HistoryKind.VERB and line.status == EventKind.RESTART)
    said = line.payload.value if records and line.payload is not None else {}
    places = (said, said.get("to") if isinstance(said, Mapping) else None, {"definitionHash": cause.get("definition")})
    named = (place.get("definitionHash") for place in places if isinstance(place, Mapping))
    return [*found, *(hashed for hashed in named if isinstance(hashed, str))]
