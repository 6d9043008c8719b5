"""START_WORKFLOW: starts another execution by event and goes on as soon as it has begun.

Nothing ties the two together afterwards. Source of the rule: Conductor's `StartWorkflow`; idempotency keys, which it accepts and
ignores, hold here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.decide.operators.sub_workflow import child_start, key_problem, refuse_input
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.model.decisions import Embedding, EventKind
from conductorlite.model.definitions import MAX_NESTING
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["schedule_start_workflow"]


def schedule_start_workflow(
    draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None, delay_ms: int | None = None
) -> None:
    """Create the row and post the start, after the node's startDelay or the retry's delay; its answer ends the task."""
    ref = printed_ref(node.ref, iterations)
    attempt = 0 if previous is None else previous.attempt + 1
    values = rendered(draft, node, iterations, draft.task_id(ref, attempt))
    given = _with_numbers(values.get("startWorkflow"))
    problem = _problem(draft, given)
    request: dict[str, Any] = given if isinstance(given, dict) else {}
    found = Embedding(problem=problem) if problem else _definition(draft, request, f"{ref}#{attempt}")
    if found.digest is None:
        draft.create_ended(
            node,
            iterations,
            TaskStatus.FAILED,
            previous=previous,
            input=draft.payload(values),
            reason=found.problem,
        )
        return
    delay = node.task.start_delay_ms if delay_ms is None else delay_ms
    kept = draft.payload(values)
    refuse_input(draft, kept, request.get("input") or {})
    task = draft.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=kept,
        started_at=draft.now,
        due_at=draft.after(delay),
        start_delay_ms=delay,
    )
    task = start_deadlines(draft, node, task, previous)
    workflow = draft.workflow
    inherited = draft.value(workflow.task_to_domain)
    name, version = request.get("name") or "", request.get("version") or 0
    start = child_start(draft, found.digest, name, version, request.get("input") or {})
    start |= {
        "priority": request.get("priority") or 0,
        "correlationId": request.get("correlationId") or workflow.correlation_id,
        "taskToDomain": request.get("taskToDomain") or inherited,
        "createdBy": request.get("createdBy"),
        "idempotencyKey": request.get("idempotencyKey"),
        "idempotencyStrategy": request.get("idempotencyStrategy"),
        "answer": {"taskId": task.task_id, "ref": ref, "attempt": task.attempt, "generation": task.generation},
    }
    draft.post_to(draft.started_id(task), EventKind.START, EventKind.START, start, due_at=task.due_at)


def _definition(draft: Draft, request: dict[str, Any], key: str) -> Embedding:
    inline = request.get("workflowDef")
    if inline is not None:
        found = draft.embed(key, inline)
        return found if found.digest else Embedding(problem=f"startWorkflow.workflowDef: {found.problem}")
    name, version = request["name"], request.get("version")
    digest = draft.resolve(name, version)
    which = f"workflow {name!r}" if version is None else f"workflow {name!r} version {version}"
    return Embedding(digest=digest, problem="" if digest else f"startWorkflow: {which} is not registered or not valid")


def _with_numbers(request: Any) -> Any:
    """The request with numbers that were written as text, as Conductor's JSON reader takes them."""
    if not isinstance(request, dict):
        return request
    texts = {key: request.get(key) for key, kind in _KINDS.items() if kind is int}
    return {**request, **{key: int(text) for key, text in texts.items() if isinstance(text, str) and _NUMBER.fullmatch(text)}}


_NUMBER: Final = re.compile(r"\s*[0-9]{1,9}\s*")


def _problem(draft: Draft, request: Any) -> str:
    """What is wrong with a request; the empty text when nothing is."""
    if request is None:
        return "Missing 'startWorkflow' in input data."
    if not isinstance(request, dict):
        return "startWorkflow is not a map"
    if draft.workflow.depth >= MAX_NESTING:
        return f"startWorkflow: executions that start each other are nested deeper than {MAX_NESTING}"
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
