"""What answers look like: Conductor's JSON with the defaults that its server fills in.

`conductorlite.model` leaves out what was not given; clients in other languages expect it. Times of summaries are texts in UTC.
Whole numbers are those of Conductor's types, which clients in other languages decode strictly: fractions of a second are rounded
up, and a number above the largest of its type is that largest.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import attrs

from conductorlite.model.definitions import Semantics, TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.documents import task_to_json, workflow_to_json
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, TaskLog, Workflow
from conductorlite.model.scalars import DurationMs, InstantMs, camel_case, json_names
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.tree import OPERATOR_TYPES
from conductorlite.store.search import SearchResult, TaskSummary, WorkflowSummary

__all__ = [
    "checked_message",
    "checked_output",
    "found",
    "in_conductors_types",
    "is_message",
    "log_lines",
    "message_bytes",
    "summary",
    "task",
    "task_def",
    "task_for_worker",
    "wire_status",
    "with_input",
    "workflow",
    "workflow_def",
]

_TASK_DEF: Final[Mapping[str, Any]] = {
    "createTime": 0,
    "updateTime": 0,
    "retryCount": 3,
    "timeoutSeconds": 0,
    "inputKeys": [],
    "outputKeys": [],
    "runtimeMetadata": [],
    "timeoutPolicy": "TIME_OUT_WF",
    "retryLogic": "FIXED",
    "retryDelaySeconds": 60,
    "responseTimeoutSeconds": 3600,
    "inputTemplate": {},
    "rateLimitPerFrequency": 0,
    "rateLimitFrequencyInSeconds": 1,
    "backoffScaleFactor": 1,
    "maxRetryDelaySeconds": 0,
    "backoffJitterMs": 0,
    "totalTimeoutSeconds": 0,
    "taskStatusListenerEnabled": True,
    "enforceSchema": False,
}

#: What Orkes' timeouts are where none is given.
_ORKES: Final = {**_TASK_DEF, "responseTimeoutSeconds": 600, "timeoutSeconds": 3600, "pollTimeoutSeconds": 3600}

#: What the engine carries out itself is not retried and has no timeout unless a definition says so.
_OPERATOR: Final = {**_TASK_DEF, "retryCount": 0, "responseTimeoutSeconds": 0}

_WORKFLOW_TASK: Final[Mapping[str, Any]] = {
    "inputParameters": {},
    "decisionCases": {},
    "defaultCase": [],
    "forkTasks": [],
    "startDelay": 0,
    "joinOn": [],
    "optional": False,
    "defaultExclusiveJoinTask": [],
    "asyncComplete": False,
    "loopOver": [],
    "onStateChange": {},
    "permissive": False,
    "metadata": {},
}

_WORKFLOW_DEF: Final[Mapping[str, Any]] = {
    "createTime": 0,
    "updateTime": 0,
    "tasks": [],
    "inputParameters": [],
    "outputParameters": {},
    "schemaVersion": 2,
    "restartable": True,
    "workflowStatusListenerEnabled": False,
    "timeoutPolicy": "ALERT_ONLY",
    "timeoutSeconds": 0,
    "variables": {},
    "inputTemplate": {},
    "enforceSchema": True,
    "metadata": {},
    "maskedFields": [],
}

_WORKFLOW: Final[Mapping[str, Any]] = {"ownerApp": "", "history": []}

_TASK: Final[Mapping[str, Any]] = {
    "responseTimeoutSeconds": 0,
    "rateLimitPerFrequency": 0,
    "rateLimitFrequencyInSeconds": 0,
    "workflowPriority": 0,
    "subworkflowChanged": False,
    "firstStartTime": 0,
    "executionMetadata": {"additionalContext": {}, "additionalContextMap": {}, "empty": True},
}

Json = dict[str, Any]


def task_def(definition: TaskDef, semantics: Semantics) -> Json:
    """A registered task definition."""
    return in_conductors_types({**_defaults(semantics), **definition.to_json()}, TaskDef)


#: The largest whole numbers of 32 and of 64 bits.
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1

#: Properties of a task that hold whole numbers out of definitions.
_TASK_NUMBERS: Final = ("rateLimitFrequencyInSeconds", "rateLimitPerFrequency", "startDelayInSeconds")

#: Whole numbers that have 64 bits in Conductor, by field; all others have 32.
_LONGS: Final = frozenset(
    {
        "create_time",
        "response_timeout_ms",
        "schedule_end_time",
        "schedule_start_time",
        "timeout_ms",
        "total_timeout_ms",
        "update_time",
    }
)

#: Numbers that Conductor does not have, in which a fraction does no harm.
_OWN_NUMBERS: Final = frozenset({"at", "interval_ms", "misfire_grace_ms"})


def in_conductors_types(document: Json, kind: Any) -> Json:
    """Return a copy of a definition's JSON object, with whole numbers of Conductor's types at every level."""
    for name, fit in _fits(kind):
        if document.get(name) is not None:
            document[name] = fit(document[name])
    return document


@cache
def _fits(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return the conversions of those properties of a kind of definition that are numbers, or that hold some."""
    attrs.resolve_types(kind)
    names = json_names(kind)
    fields = [field for field in attrs.fields(kind) if field.name in names and field.name not in _OWN_NUMBERS]
    found = ((names[field.name], _fit(field.type, field.name)) for field in fields)
    return tuple((name, fit) for name, fit in found if fit is not None)


def _fit(hint: Any, field: str) -> Callable[[Any], Any] | None:
    if get_origin(hint) in (Union, UnionType):
        hint = next((one for one in get_args(hint) if one not in (NoneType, str)), str)
    if hint in (int, DurationMs, InstantMs):
        return partial(_whole, _LONG if field in _LONGS else _INT)
    if get_origin(hint) is not None:
        inner = _fit(get_args(hint)[-1], field)
        return None if inner is None else partial(_each, inner)
    if isinstance(hint, type) and attrs.has(hint):
        return lambda value: in_conductors_types(value, hint) if isinstance(value, dict) else value
    return None


def _each(fit: Callable[[Any], Any], values: Any) -> Any:
    return {key: fit(value) for key, value in values.items()} if isinstance(values, dict) else [fit(value) for value in values]


def _whole(largest: int, value: Any) -> int:
    """A number as a whole one, rounded up, at most the largest; of a long one the codec has made a text."""
    whole = value if type(value) is int else int(Decimal(str(value)).to_integral_value(ROUND_CEILING))
    return max(-largest - 1, min(whole, largest))


def _defaults(semantics: Semantics) -> Mapping[str, Any]:
    return _ORKES if semantics is Semantics.ORKES else _TASK_DEF


def workflow_def(definition: WorkflowDef) -> Json:
    """A workflow definition."""
    return in_conductors_types(_workflow_def(definition.to_json(), None), WorkflowDef)


def _workflow_def(document: Json, embedded: Semantics | None) -> Json:
    """With the defaults of the workflow and all its tasks; of an execution each task has a definition, if only its name."""
    document = {**_WORKFLOW_DEF, **document}
    document["tasks"] = [_workflow_task(one, embedded) for one in document["tasks"]]
    return document


def _workflow_task(document: Json, embedded: Semantics | None) -> Json:
    """A task of a definition; those within it too. Depth is bounded by the validator."""
    document = {**_WORKFLOW_TASK, **document}
    given = document.get("taskDefinition")
    if given is not None or embedded is not None:
        operator = document["type"] in OPERATOR_TYPES or document["type"] == TaskType.DYNAMIC
        defaults = _defaults(embedded or Semantics.OSS) if given is not None or not operator else _OPERATOR
        document["taskDefinition"] = {**defaults, "name": document["name"], **(given or {})}
    if isinstance(params := document.get("subWorkflowParam"), dict) and isinstance(params.get("workflowDefinition"), dict):
        document["subWorkflowParam"] = {**params, "workflowDefinition": _workflow_def(params["workflowDefinition"], None)}

    def each(tasks: Sequence[Json]) -> list[Json]:
        return [_workflow_task(one, embedded) for one in tasks]

    return document | {
        "decisionCases": {case: each(tasks) for case, tasks in document["decisionCases"].items()},
        "defaultCase": each(document["defaultCase"]),
        "forkTasks": [each(branch) for branch in document["forkTasks"]],
        "loopOver": each(document["loopOver"]),
    }


def workflow(execution: Workflow, *, tasks: bool = True) -> Json:
    """An execution, with its tasks or without."""
    known = execution if tasks else attrs.evolve(execution, tasks=())
    document = {**_WORKFLOW, **workflow_to_json(known)}
    document["tasks"] = [_task(one, execution.semantics) for one in document["tasks"]]
    if "workflowDefinition" in document:
        whole = _workflow_def(document["workflowDefinition"], execution.semantics)
        document["workflowDefinition"] = in_conductors_types(whole, WorkflowDef)
    return document


def task(attempt: Task, execution: Workflow) -> Json:
    """An attempt at a task."""
    return _task(task_to_json(attempt, execution), execution.semantics)


def task_for_worker(attempt: Task, execution: Workflow, *, reads: Callable[[str], bool] | None = None) -> Json:
    """An attempt for the worker that takes it, with what it is to know of secrets.

    A large input is in it whole, or its path alone where the worker reads the payload storage itself: never both, for clients
    that find a path fetch what is there once more.
    """
    document = task(attempt, execution)
    path = document.pop("externalInputPayloadStoragePath", None)
    if path is not None and reads is not None and reads(path):
        document["externalInputPayloadStoragePath"] = path
    else:
        with_input(document, attempt)
    if attempt.runtime_metadata:
        document["runtimeMetadata"] = attempt.runtime_metadata
    return document


def with_input(document: Json, attempt: Task) -> Json:
    """The document of a task with its input whole, and no path."""
    document.pop("externalInputPayloadStoragePath", None)
    document["inputData"] = attempt.input_data
    message = document["inputData"].get("inputMessage")
    if is_message(message):
        document["inputMessage"] = message
    return document


def _task(document: Json, semantics: Semantics) -> Json:
    document = {**_TASK, **document}
    node = _workflow_task(
        document.get("workflowTask")
        or {"name": document["taskDefName"], "taskReferenceName": document["referenceTaskName"]} | {"type": document["taskType"]},
        semantics,
    )
    node = in_conductors_types(node, WorkflowTask)
    document["status"] = wire_status(document["status"])
    for name in _TASK_NUMBERS:
        document[name] = _whole(_INT, document[name])
    document["workflowTask"], document["taskDefinition"] = node, node["taskDefinition"]
    document["responseTimeoutSeconds"] = node["taskDefinition"]["responseTimeoutSeconds"]
    if document["taskType"] not in OPERATOR_TYPES:
        document["rateLimitFrequencyInSeconds"] = node["taskDefinition"]["rateLimitFrequencyInSeconds"]
    for side in ("input", "output"):
        message = document[f"{side}Data"].get(f"{side}Message")
        if is_message(message):
            document[f"{side}Message"] = message
    return document


def wire_status(status: str) -> str:
    """A task's status as clients know it: a task that waits for a slot of its limit is SCHEDULED."""
    return "SCHEDULED" if status == TaskStatus.PENDING else status


def is_message(value: object) -> bool:
    """Return True if a value stands for a protobuf message: its type, and its bytes in base64."""
    if (
        not isinstance(value, dict)
        or value.keys() != {"@type", "@value"}
        or not all(isinstance(one, str) for one in value.values())
    ):
        return False
    try:
        message_bytes(value["@value"])
    except ValueError:
        return False
    return True


def message_bytes(text: str) -> bytes:
    """The bytes of a protobuf message in base64 as its JSON has it: of either alphabet, padded or not; raises ValueError."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    return b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def checked_message(value: Any, path: str) -> Any:
    """A protobuf message as JSON; raises InvalidInput, which names the place."""
    if (
        not isinstance(value, dict)
        or value.keys() != {"@type", "@value"}
        or not all(isinstance(one, str) for one in value.values())
    ):
        raise InvalidInput(f"{path}: a text `@type` and a `@value` in base64 are expected")
    try:
        message_bytes(value["@value"])
    except ValueError as error:
        raise InvalidInput(f"{path}['@value']: is no base64: {error}") from None
    return value


def checked_output(output: Json, path: str = "$") -> Json:
    """The output of a task, whose `outputMessage`, if it is one, can be sent; raises InvalidInput, which names the place."""
    message = output.get("outputMessage")
    if isinstance(message, dict) and message.keys() == {"@type", "@value"}:
        checked_message(message, f"{path}.outputMessage")
    return output


def log_lines(lines: Sequence[TaskLog]) -> list[Json]:
    """Return the log lines of a task."""
    return [{"log": one.text, "taskId": one.task_id, "createdTime": one.at} for one in lines]


def found(result: SearchResult[Any], one: Any) -> Json:
    """A page of a search, each result as `one` makes it."""
    return {"totalHits": result.total_hits, "results": [one(each) for each in result.results]}


#: Instants of summaries, which are texts there.
_TIMES: Final = frozenset({"startTime", "updateTime", "endTime", "scheduledTime"})


def summary(one: WorkflowSummary | TaskSummary) -> Json:
    """Conductor's WorkflowSummary or TaskSummary."""
    document = {camel_case(field.name): getattr(one, field.name) for field in attrs.fields(type(one))}
    for name in _TIMES & document.keys():
        if document[name] is not None:
            document[name] = time_text(document[name])
    for side in ("input", "output"):
        document[side] = document[side] or ""
    if isinstance(one, WorkflowSummary):
        document |= {
            "failedReferenceTaskNames": ",".join(one.failed_reference_task_names),
            "failedTaskNames": list(one.failed_task_names),
            "parentWorkflowId": one.parent_workflow_id or "",
            "classifier": "workflow",
            "taskToDomain": {},
            "inputSize": len(document["input"]),
            "outputSize": len(document["output"]),
        }
        del document["archived"]
    if isinstance(one, TaskSummary):
        document["status"] = wire_status(document["status"])
    document["executionTime"] = document.get("executionTime") or 0
    return {name: value for name, value in document.items() if value is not None}


def time_text(instant: int) -> str:
    """An instant as text, in UTC to the millisecond."""
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
