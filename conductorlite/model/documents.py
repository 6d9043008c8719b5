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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args, get_origin

import attrs

from conductorlite.model.canonical import Payload, canonical, parse, present
from conductorlite.model.codec import fresh, properties, rows
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import WorkflowDef, WorkflowTask
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, TaskLog, Workflow
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.scalars import Wrong, json_names, whole_seconds
from conductorlite.model.statuses import shown_status
from conductorlite.model.streams import Chunk, Emission, LatestValue

__all__ = [
    "ARCHIVE_FORMAT",
    "EXPORT_FORMAT",
    "EXPORT_LINE",
    "EXPORT_ROW",
    "EXPORT_VERSION",
    "Unpacked",
    "archive_text",
    "definitions_in",
    "emitted_to_json",
    "export_to_json",
    "history_line_to_json",
    "task_from_cells",
    "task_to_cells",
    "task_to_json",
    "unpacked",
    "workflow_to_json",
]


#: Fields of an execution and of an attempt that are properties as they are.
_WORKFLOW: Final = (
    *("workflow_id", "name", "version", "status", "compensating", "created_at", "updated_at", "ended_at", "last_retried_at"),
    *("created_by", "correlation_id", "parent_workflow_id", "parent_task_id", "event", "idempotency_key", "priority"),
    *("rate_limited", "variables", "task_to_domain", "failed_refs", "failed_task_names"),
)
_TASK: Final = (
    *("task_id", "ref", "task_type", "status", "workflow_id", "attempt", "retried", "retried_task_id"),
    *("executed", "seq", "poll_count", "worker_id", "domain", "scheduled_at", "started_at", "updated_at", "ended_at"),
)


def workflow_to_json(workflow: Workflow) -> dict[str, Any]:
    """An execution as `Engine.get` returns it, with its tasks and its definition, as Conductor's `Workflow`."""
    nodes = _nodes_of(workflow)
    document = {
        **properties(workflow, _WORKFLOW),
        **_sides(workflow, "input", "output"),
        "startTime": workflow.created_at,
        "reasonForIncompletion": workflow.conductor_reason or workflow.reason,
        "rateLimitKey": None if workflow.rate_limit_key is None else workflow.rate_limit_key.partition(":")[2],
        "tasks": [_task(task, workflow, nodes.get((task.grafts[-1:], task.base_ref))) for task in workflow.tasks],
        "workflowDefinition": None if workflow.definition is None else workflow.definition.to_json(),
    }
    return present(document)


def task_to_json(task: Task, workflow: Workflow | None = None) -> dict[str, Any]:
    """An attempt as Conductor's `Task`; with its execution also what Conductor repeats from there and from the definition."""
    node = None if workflow is None else _nodes_of(workflow).get((task.grafts[-1:], task.base_ref))
    return _task(task, workflow, node)


def _task(task: Task, workflow: Workflow | None, node: WorkflowTask | None) -> dict[str, Any]:
    sides = _sides(task, "inputData", "outputData")
    document = {
        **properties(task, _TASK),
        **sides,
        "reasonForIncompletion": task.conductor_reason or task.reason,
        "taskDefName": task.name or task.task_type,
        "errorTypes": list(task.error_types) or None,
        "queueWaitTime": max(0, task.started_at - task.scheduled_at) if task.started_at else 0,
        "startDelayInSeconds": whole_seconds(task.start_delay_ms),
        "callbackAfterSeconds": whole_seconds(task.offered_after_ms),
        "callbackFromWorker": True,
        "iteration": task.iteration,
        "loopOverTask": task.iteration > 0,
        "subWorkflowId": task.sub_workflow_id or _child(sides["outputData"]) or _child(sides["inputData"]),
    }
    if workflow is not None:
        document |= {
            "status": shown_status(task.status, workflow.semantics).value,
            "workflowType": workflow.name,
            "workflowPriority": workflow.priority,
            "correlationId": workflow.correlation_id,
        }
    definition = None if node is None else node.task_definition
    if definition is not None:
        document |= {
            **properties(definition, ("rate_limit_per_frequency", "execution_name_space", "isolation_group_id")),
            "taskDefinition": definition.to_json(),
            "responseTimeoutSeconds": whole_seconds(definition.response_timeout_ms),
            "rateLimitFrequencyInSeconds": whole_seconds(definition.rate_limit_frequency_ms),
        }
    if node is not None:
        document["workflowTask"] = fresh(node)
    return present(document)


def _sides(row: Workflow | Task, given: str, put_out: str) -> dict[str, Any]:
    """The input and the output of a row; of one that is in the payload storage an empty map, and the path."""
    found: dict[str, Any] = {given: {}, put_out: {}}
    for name, side, payload in ((given, "Input", row.input), (put_out, "Output", row.output)):
        if payload.external is None:
            found[name] = payload.fresh()
        else:
            found[f"external{side}PayloadStoragePath"] = payload.external.key
    return found


def _child(document: object) -> str | None:
    value = document.get("subWorkflowId") if isinstance(document, Mapping) else None
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

#: Cells of a row that `Engine.get` fills.
_FILLED: Final = frozenset({"tasks", "definition", "made"})


@attrs.frozen(kw_only=True, slots=True)
class Unpacked:
    """Contents of an archive's document: `workflow` with its tasks; texts of the definitions by hash."""

    workflow: Workflow
    history: tuple[HistoryEvent, ...]
    logs: tuple[TaskLog, ...]
    definitions: Mapping[str, str]
    messages: tuple[WorkflowMessage, ...] = ()
    emissions: tuple[Emission, ...] = ()
    values: tuple[LatestValue, ...] = ()


def archive_text(
    workflow: Workflow,
    history: Sequence[HistoryEvent],
    logs: Sequence[TaskLog],
    definitions: Mapping[str, str],
    messages: Sequence[WorkflowMessage],
    emissions: Sequence[Emission] = (),
    values: Sequence[LatestValue] = (),
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
        **({"emissions": [_emission_cells(one) for one in emissions]} if emissions else {}),
        **({"values": [_cells(value) for value in values]} if values else {}),
    }
    return canonical(document, bounded=False)


def unpacked(document: bytes) -> Unpacked:
    """Return what was archived; raises StorageCorrupt for what cannot be read."""
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
            emissions=tuple(_emission(cells) for cells in said.get("emissions", ())),
            values=tuple(_row(LatestValue, cells) for cells in said.get("values", ())),
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, Wrong) as error:
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
    made: Task = _row(
        Task, {**cells, **{name: Payload.of(cells[name], bounded=False).text for name in _DOCUMENTS if name in cells}}
    )
    return made


def _emission_cells(one: Emission) -> dict[str, Any]:
    return {**_cells(attrs.evolve(one, chunks=())), "chunks": [_cells(chunk) for chunk in one.chunks]}


def _emission(cells: Mapping[str, Any]) -> Emission:
    one: Emission = _row(Emission, {**cells, "chunks": []})
    return attrs.evolve(one, chunks=tuple(_row(Chunk, chunk) for chunk in cells["chunks"]))


def _cells(row: Any) -> dict[str, Any]:
    kind: Any = type(row)
    return rows(kind, _FILLED)[0](row)


def _row(kind: Any, cells: Any) -> Any:
    return rows(kind, _FILLED)[1](cells, kind)


#: What the document says it is.
EXPORT_FORMAT: Final = "conductorlite/execution"

#: Version of the document; another one is refused.
EXPORT_VERSION: Final = 1


def _table(kind: Any, *fields: str) -> tuple[tuple[str, str, type], ...]:
    """Name in the document, field of the row, type of the value; those with a default may be absent."""
    names = json_names(kind)
    return tuple((names[field], field, _json_type(getattr(attrs.fields(kind), field).type)) for field in fields)


def _json_type(hint: Any) -> type:
    origin = get_origin(hint)
    if origin is tuple:
        return list
    kind: type = hint if origin is None else get_args(hint)[0]
    return dict if kind is Payload else str if issubclass(kind, str) else kind


EXPORT_ROW: Final = _table(
    Workflow,
    *("workflow_id", "name", "version", "definition_hash", "semantics", "decider_version", "seed", "created_at", "correlation_id"),
    *("priority", "created_by", "idempotency_key", "task_to_domain", "input", "parent_workflow_id", "parent_task_id", "parent_ref"),
    *("parent_attempt", "parent_generation", "depth", "event", "outer_keys"),
)
EXPORT_LINE: Final = (
    *_table(HistoryEvent, "n", "at", "kind", "status", "ref", "attempt", "number", "reason"),
    ("cause", "cause", dict),
)


def emitted_to_json(emissions: Iterable[Emission], values: Iterable[LatestValue], leases: Mapping[str, int]) -> dict[str, Any]:
    """Values that an execution has emitted, by the calls of its attempts, and its latest values; nothing of what there is none.

    Calls are counted from 1 in each attempt, 0 is that of the flow; `leases` says which call has an attempt now, by task id.
    """
    calls: list[dict[str, Any]] = []
    counted: dict[str, int] = {}
    for one in sorted(emissions, key=lambda one: one.first):
        number = counted[one.task_id] = 0 if not one.lease else counted.get(one.task_id, 0) + 1
        chunks = [
            {"stream": chunk.stream, "first": chunk.first, "at": chunk.at, "values": chunk.values.fresh()} for chunk in one.chunks
        ]
        call = {"taskId": one.task_id, "ref": one.ref, "attempt": one.attempt, "call": number, "state": one.state.value}
        held = {"held": True} if one.lease and leases.get(one.task_id) == one.lease else {}
        calls.append({**call, **held, "chunks": chunks})
    latest = [{"name": one.name, "ref": one.ref, "at": one.at, "value": one.value.fresh()} for one in values]
    return {**({"emitted": calls} if calls else {}), **({"values": latest} if latest else {})}


def export_to_json(
    given: Iterable[tuple[Workflow, Iterable[HistoryEvent], Mapping[str, Any]]],
    definitions: Mapping[str, str],
    steps: int,
    limit: int,
    barriers: Mapping[str, int],
) -> dict[str, Any]:
    """The document of executions as they were started, the exported one first, with their journals and what else is said of them
    (see `emitted_to_json`); every payload has its text.

    `definitions` are texts by hash; `steps` and `limit` are the limits of one turn, `barriers` the hard barriers in KB by
    their names, those that are not as they are by default.
    """
    fields = [field for _, field, _ in EXPORT_ROW]
    executions = [
        {
            **{name: value for name, value in properties(row, fields).items() if value is not None and value != []},
            "history": [history_line_to_json(line) for line in lines],
            **more,
        }
        for row, lines, more in given
    ]
    return {
        "format": EXPORT_FORMAT,
        "formatVersion": EXPORT_VERSION,
        "workflowId": executions[0]["workflowId"],
        "bounds": {"steps": steps, "rows": limit, **({"barriers": dict(barriers)} if barriers else {})},
        "definitions": {hashed: parse(text) for hashed, text in sorted(definitions.items())},
        "executions": executions,
    }


def history_line_to_json(line: HistoryEvent) -> dict[str, Any]:
    """A line of a journal, in the words of the journal; what is None is left out."""
    document = properties(line, ("n", "at", "kind", "status", "ref", "attempt", "number", "reason", "cause", "payload"))
    return present(document if line.cause is None else {**document, "cause": parse(line.cause)})


#: Verbs that may have an execution run on another definition, which their lines name.
_MOVING: Final = frozenset({EventKind.RESTART, EventKind.DEBOUNCE})


def definitions_in(line: HistoryEvent) -> list[str]:
    """Hashes of the definitions that a line of a journal names: found at run time, moved to, restarted on."""
    cause = {} if line.cause is None else parse(line.cause)
    used = cause.get("used")
    found = [hashed for hashed in used if isinstance(hashed, str)] if isinstance(used, list) else []
    records = line.kind is HistoryKind.MIGRATED or (line.kind is HistoryKind.VERB and line.status in _MOVING)
    said = line.payload.value if records and line.payload is not None else {}
    places = (said, said.get("to") if isinstance(said, Mapping) else None, {"definitionHash": cause.get("definition")})
    named = (place.get("definitionHash") for place in places if isinstance(place, Mapping))
    return [*found, *(hashed for hashed in named if isinstance(hashed, str))]
