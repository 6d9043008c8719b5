"""SUB_WORKFLOW and START_WORKFLOW: other executions, started by event and heard of by event.

The definition of a SUB_WORKFLOW was pinned when the parent started: its hash stands in the embedded task. Only one that an
expression names or holds is looked up when the task is scheduled. The child's id is derived from the attempt, so deciding twice
starts one child; every attempt starts a child of its own. Source of the rules: Conductor's `SubWorkflow`; a child without
inputParameters gets an empty input, and the parent's priority unless one is given. A DYNAMIC that has become a SUB_WORKFLOW names
what it starts among its inputs, each time it is scheduled; the child's input is `workflowInput`, or all of them.

START_WORKFLOW goes on as soon as the other execution has begun; nothing ties the two together afterwards. Source of the rule:
Conductor's `StartWorkflow`.

An idempotency key, which Conductor accepts and ignores, holds in both: the event carries it, and is answered when it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import ExpressionContext, rendered
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.decide.transitions import started_id
from conductorlite.language.values import to_text
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Embedding, EventKind
from conductorlite.model.definitions import (
    DEBOUNCED,
    DEFINITION_HASH,
    MAX_KEY,
    NAMED_BY_INPUT,
    IdempotencyStrategy,
    Semantics,
    SubWorkflowParams,
    debounce_key,
)
from conductorlite.model.errors import PayloadTooLarge
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.later import pattern
from conductorlite.model.policies import derive_id
from conductorlite.model.scalars import MAX_EXECUTIONS
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = [
    "child_start",
    "key_problem",
    "refuse_input",
    "schedule_start_workflow",
    "schedule_sub_workflow",
    "start_child",
]


def schedule_start_workflow(
    changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None, delay_ms: int | None = None
) -> None:
    """Create the row and post the start, after the node's startDelay or the retry's delay; its answer ends the task."""
    ref = printed_ref(node.ref, iterations)
    attempt = 0 if previous is None else previous.attempt + 1
    values = rendered(changeset, node, iterations, changeset.task_id(ref, attempt))
    given = _with_numbers(values.get("startWorkflow"))
    problem = _problem(changeset, given)
    request: dict[str, Any] = given if isinstance(given, dict) else {}
    found = Embedding(problem=problem) if problem else _started_definition(changeset, request, f"{ref}#{attempt}")
    if found.digest is None:
        changeset.create_ended(
            node,
            iterations,
            TaskStatus.FAILED,
            previous=previous,
            input=changeset.documents.payload(values),
            reason=found.problem,
        )
        return
    delay = node.task.start_delay_ms if delay_ms is None else delay_ms
    kept = changeset.documents.payload(values)
    refuse_input(changeset, kept, request.get("input") or {})
    task = changeset.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=kept,
        due_at=changeset.moment.after(delay),
        start_delay_ms=delay,
    )
    task = start_deadlines(changeset, node, task, previous)
    workflow = changeset.workflow
    inherited = changeset.documents.value(workflow.task_to_domain)
    name, version = request.get("name") or "", request.get("version") or 0
    start = child_start(changeset, found.digest, name, version, request.get("input") or {})
    start |= {
        "priority": request.get("priority") or 0,
        "correlationId": request["correlationId"] if (request.get("correlationId") or "").strip() else workflow.correlation_id,
        "taskToDomain": request.get("taskToDomain") or inherited,
        "createdBy": request.get("createdBy"),
        "idempotencyKey": request.get("idempotencyKey"),
        "idempotencyStrategy": request.get("idempotencyStrategy"),
        "answer": {"taskId": task.task_id, "ref": ref, "attempt": task.attempt, "generation": task.generation},
    }
    changeset.events.post_to(started_id(changeset.workflow, task), EventKind.START, EventKind.START, start, due_at=task.due_at)


def _started_definition(changeset: Changeset, request: dict[str, Any], key: str) -> Embedding:
    inline = request.get("workflowDef")
    if inline is not None:
        found = changeset.documents.embed(key, inline)
        return found if found.digest else Embedding(problem=f"startWorkflow.workflowDef: {found.problem}")
    name, version = request["name"], request.get("version")
    digest = changeset.documents.resolve(name, version)
    which = f"workflow {name!r}" if version is None else f"workflow {name!r} version {version}"
    return Embedding(digest=digest, problem="" if digest else f"startWorkflow: {which} is not registered or not valid")


def _with_numbers(request: Any) -> Any:
    """The request with numbers that were written as text, as Conductor's JSON reader takes them."""
    if not isinstance(request, dict):
        return request
    texts = {key: request.get(key) for key, kind in _KINDS.items() if kind is int}
    return {**request, **{key: int(text) for key, text in texts.items() if isinstance(text, str) and _NUMBER.fullmatch(text)}}


_NUMBER: Final = pattern(r"\s*[0-9]{1,9}\s*")


def _problem(changeset: Changeset, request: Any) -> str:
    """Return what is wrong with a request; the empty text when nothing is."""
    if request is None:
        return "Missing 'startWorkflow' in input data."
    if not isinstance(request, dict):
        return "startWorkflow is not a map"
    if changeset.workflow.depth >= MAX_EXECUTIONS:
        return f"startWorkflow: executions that start each other are nested deeper than {MAX_EXECUTIONS}"
    if request.get("workflowDef") is None and not (isinstance(request.get("name"), str) and request["name"]):
        return "startWorkflow.name is missing"
    for key, kinds in _KINDS.items():
        value = request.get(key)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            return f"startWorkflow.{key} is {str(value)[:60]!r}, not {_NAMES[kinds]}"
    if not 0 <= (request.get("priority") or 0) <= 99:
        return f"startWorkflow.priority {request['priority']} is not between 0 and 99"
    if not all(isinstance(domain, str) for domain in (request.get("taskToDomain") or {}).values()):
        return "startWorkflow.taskToDomain is not a map of texts"
    if str(request.get("externalInputPayloadStoragePath") or "").strip():
        return "startWorkflow.externalInputPayloadStoragePath is not read here: give the input itself"
    if request.get("debounce") is not None:
        return "startWorkflow.debounce is not read here: it is an option of Engine.start, for a worker to use"
    problem = key_problem(request.get("idempotencyKey"), request.get("idempotencyStrategy"))
    return f"startWorkflow.{problem}" if problem else ""


_KINDS: dict[str, type] = {
    "name": str,
    "version": int,
    "correlationId": str,
    "input": dict,
    "taskToDomain": dict,
    "workflowDef": dict,
    "priority": int,
    "createdBy": str,
    "idempotencyKey": str,
    "idempotencyStrategy": str,
}
_NAMES: dict[type, str] = {str: "a text", int: "an integer", dict: "a map"}


#: What an expression for the definition has resolved to.
_INLINE: Final = "conductorlite:inline"

#: What an idempotency key and its strategy are called, in the task's input and in the event.
_KEYS: Final = ("idempotencyKey", "idempotencyStrategy")


def schedule_sub_workflow(
    changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None, delay_ms: int | None = None
) -> None:
    """Create the row and post the child's start, after the node's startDelay or the retry's delay."""
    ref = printed_ref(node.ref, iterations)
    attempt = 0 if previous is None else previous.attempt + 1
    workflow = changeset.workflow
    written = node.task.sub_workflow_param
    values = rendered(changeset, node, iterations, changeset.task_id(ref, attempt))
    own, problem = dict[str, Any](), ""
    if written is not None and NAMED_BY_INPUT in written.extra:
        own = values
        params, values, problem = _named_by_input(written, own)
    else:
        params = _resolved(changeset, node)
    found = Embedding(problem=problem) if problem else _definition(changeset, params, f"{ref}#{attempt}")
    if workflow.depth >= MAX_EXECUTIONS or found.digest is None:
        too_deep = workflow.depth >= MAX_EXECUTIONS
        changeset.create_ended(
            node,
            iterations,
            TaskStatus.FAILED_WITH_TERMINAL_ERROR if too_deep else TaskStatus.FAILED,
            previous=previous,
            input=changeset.documents.payload({**own, "subWorkflowName": params.name, "workflowInput": values}),
            reason=found.problem or f"RecursionError: executions are nested deeper than {MAX_EXECUTIONS}",
            error_types=("RecursionError",) if too_deep else (),
        )
        return
    child_id = derive_id("child", workflow.seed, workflow.workflow_id, ref, attempt, changeset.workflow.generation)
    delay = node.task.start_delay_ms if delay_ms is None else delay_ms
    priority = params.priority if isinstance(params.priority, int) else workflow.priority
    domains = params.task_to_domain if params.task_to_domain is not None else changeset.documents.value(workflow.task_to_domain)
    given = changeset.documents.payload(
        {
            **own,
            "subWorkflowName": params.name,
            "subWorkflowVersion": params.version,
            "subWorkflowTaskToDomain": dict(domains),
            "priority": priority,
            **_key(params),
            "workflowInput": values,
            DEFINITION_HASH: found.digest,
        }
    )
    refuse_input(changeset, given, values)
    task = changeset.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=given,
        output=changeset.documents.payload({"subWorkflowId": child_id}),
        due_at=changeset.moment.after(delay),
        start_delay_ms=delay,
        sub_workflow_id=child_id,
    )
    task = start_deadlines(changeset, node, task, previous)
    start_child(changeset, task, task.due_at)
    if changeset.workflow.unreceived:
        changeset.work.queue.append(("receive", ref))


def _input_of_child(changeset: Changeset, task: Task, said: Mapping[str, Any]) -> Any:
    """The child's input; with the semantics of Conductor's open-source server a child of an inline definition has its mark."""
    values = said["workflowInput"]
    if changeset.workflow.semantics is not Semantics.OSS:
        return values
    params = changeset.rows.node(task).task.sub_workflow_param
    named = params is not None and NAMED_BY_INPUT in params.extra
    inline = said.get("subWorkflowDefinition") if named else None if params is None else params.workflow_definition
    if inline is None:
        return values
    known = values.get("_systemMetadata")
    return {**values, "_systemMetadata": {**(known if isinstance(known, dict) else {}), "dynamic": True}}


def start_child(changeset: Changeset, task: Task, due_at: int, *, again: bool = False) -> None:
    """Post the start of the execution that a SUB_WORKFLOW row says; one that has begun already takes no notice.

    One that has ended already reports so, unless it is started `again` only in case it never began.
    """
    said = changeset.documents.value(task.input)
    version = said["subWorkflowVersion"] or 1
    start = child_start(
        changeset, said[DEFINITION_HASH], said["subWorkflowName"] or "", version, _input_of_child(changeset, task, said)
    )
    start |= {"priority": said["priority"], "taskToDomain": said["subWorkflowTaskToDomain"]}
    start |= {key: said[key] for key in _KEYS if key in said}
    outer = (*changeset.workflow.outer_keys, *filter(None, [changeset.workflow.rate_limit_key]))
    if outer:
        start["limitKeys"] = list(outer)
    start["parent"] = {
        "taskId": task.task_id,
        "ref": task.ref,
        "attempt": task.attempt,
        "generation": task.generation,
        "again": again,
    }
    changeset.events.post_to(str(task.sub_workflow_id), EventKind.START, EventKind.START, start, due_at=due_at)


def _resolved(changeset: Changeset, node: Node) -> SubWorkflowParams:
    """The parameters with their expressions resolved."""
    params = node.task.sub_workflow_param
    if params is None or node.params is None:
        raise ValueError(f"{node.ref}: a SUB_WORKFLOW without subWorkflowParam got past the validator")
    values = node.params.render(ExpressionContext(changeset, node.params.reads))
    priority, domains = values["priority"], values["taskToDomain"]
    if isinstance(priority, str) and priority.isdecimal():
        priority = int(priority)
    return attrs.evolve(
        params,
        name=None if values["name"] is None else to_text(values["name"]),
        priority=priority if isinstance(priority, int) and not isinstance(priority, bool) and 0 <= priority <= 99 else None,
        task_to_domain=domains,
        idempotency_key=to_text(values["key"]) if isinstance(values["key"], int) else values["key"],
        idempotency_strategy=values["strategy"],
        workflow_definition=None,
        extra={**params.extra, _INLINE: values["definition"]} if isinstance(params.workflow_definition, str) else params.extra,
    )


def _named_by_input(written: SubWorkflowParams, given: Mapping[str, Any]) -> tuple[SubWorkflowParams, dict[str, Any], str]:
    """The parameters, as the input of a DYNAMIC gives them, and the child's input; and what is wrong with them, or the empty text.

    Source of the rule: Conductor's `SubWorkflow.start`.
    """
    name, version, definition = (given.get(key) for key in ("subWorkflowName", "subWorkflowVersion", "subWorkflowDefinition"))
    priority, domains, inner = given.get("priority"), given.get("subWorkflowTaskToDomain"), given.get("workflowInput")
    problem = ""
    if isinstance(version, str):
        version = int(version) if _NUMBER.fullmatch(version) else version.strip() or None
    elif isinstance(version, float) and version.is_integer():
        version = int(version)
    if definition is None and not (isinstance(name, str) and name.strip()):
        problem = "Input 'subWorkflowName' names no workflow: SUB_WORKFLOW needs it, or 'subWorkflowDefinition'"
    elif definition is not None and not isinstance(definition, dict):
        problem = "Input 'subWorkflowDefinition' is not a definition"
    elif version is not None and (type(version) is not int or version < 0):
        problem = f"Input 'subWorkflowVersion' is {str(version)[:60]!r}, not a version"
    elif inner is not None and not isinstance(inner, dict):
        problem = "Input 'workflowInput' is not a map"
    params = attrs.evolve(
        written,
        name=name if isinstance(name, str) else None,
        version=version if type(version) is int else None,
        priority=priority if type(priority) is int and 0 <= priority <= 99 else None,
        task_to_domain=domains if isinstance(domains, dict) else None,
        idempotency_key=given.get("idempotencyKey"),
        idempotency_strategy=given.get("idempotencyStrategy"),
        extra=written.extra if definition is None else {**written.extra, _INLINE: definition},
    )
    return params, inner if isinstance(inner, dict) and inner else dict(given), problem


def _definition(changeset: Changeset, params: SubWorkflowParams, name: str) -> Embedding:
    """Return the embedding of the child's definition: pinned when the parent started, or looked up now if an expression gives it.

    Its `problem` is also what else is wrong with the parameters.
    """
    if not all(isinstance(domain, str) for domain in (params.task_to_domain or {}).values()):
        return Embedding(problem="subWorkflowParam.taskToDomain does not resolve to a map of texts")
    problem = key_problem(params.idempotency_key, params.idempotency_strategy)
    if problem:
        return Embedding(problem=f"subWorkflowParam.{problem}")
    pinned = params.extra.get(DEFINITION_HASH)
    if pinned is not None:
        return Embedding(digest=pinned)
    if _INLINE in params.extra:
        given = params.extra[_INLINE]
        if not isinstance(given, dict):
            return Embedding(problem="subWorkflowParam.workflowDefinition does not resolve to a definition")
        found = changeset.documents.embed(name, given)
        return found if found.digest else attrs.evolve(found, problem=f"subWorkflowParam.workflowDefinition: {found.problem}")
    if not params.name:
        return Embedding(problem="subWorkflowParam.name resolves to nothing")
    digest = changeset.documents.resolve(params.name, params.version or None)
    version = "" if not params.version else f" version {params.version}"
    return Embedding(digest=digest, problem="" if digest else f"workflow {params.name!r}{version} is not registered or not valid")


def _key(params: SubWorkflowParams) -> dict[str, str]:
    """The idempotency key and its strategy; nothing without a key."""
    if not params.idempotency_key:
        return {}
    return dict(zip(_KEYS, (params.idempotency_key, str(params.idempotency_strategy or IdempotencyStrategy.FAIL)), strict=True))


def key_problem(key: Any, strategy: Any) -> str:
    """Return what is wrong with an idempotency key and its strategy, beginning with the field; the empty text when nothing is."""
    if key is not None and (not isinstance(key, str) or len(key) > MAX_KEY):
        return f"idempotencyKey {str(key)[:60]!r} is not a text of at most {MAX_KEY} characters"
    if key is not None and debounce_key(key) is not None:
        return f"idempotencyKey {key[:60]!r} begins with {DEBOUNCED!r}, as the keys of debounced starts do"
    if strategy is not None and strategy not in list(IdempotencyStrategy):
        return f"idempotencyStrategy {str(strategy)[:60]!r} is none of {', '.join(IdempotencyStrategy)}"
    return ""


def refuse_input(changeset: Changeset, holder: Payload, values: Any) -> None:
    """Raise PayloadTooLarge when `values`, part of what `holder` says, are past the barrier of a workflow's input."""
    barriers = changeset.bounds.barriers
    if barriers.refusal("workflow_input", holder) is not None:
        problem = barriers.refusal("workflow_input", Payload.of(values, bounded=False))
        if problem is not None:
            raise PayloadTooLarge(problem)


def child_start(changeset: Changeset, digest: str, name: str, version: int, values: Any) -> dict[str, Any]:
    """Return what a START event says to bring an execution into being."""
    return {
        "definitionHash": digest,
        "name": name,
        "version": version,
        "input": values,
        "correlationId": changeset.workflow.correlation_id,
        "priority": changeset.workflow.priority,
        "depth": changeset.workflow.depth + 1,
        "semantics": str(changeset.workflow.semantics),
        "seed": changeset.workflow.seed,
    }
