"""Executions and those they start: the end of a child, and the failure workflow of an execution that failed.

Sources of the rules: Conductor's `updateParentWorkflowTask` and `terminateWorkflow`; Orkes, "Workflow compensation flows".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import ExpressionContext
from conductorlite.decide.reasons import cause_below
from conductorlite.language.templates import compile_template
from conductorlite.language.values import to_text
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import CANCELED, TIMED_OUT, Task, Workflow, reason_data
from conductorlite.model.later import functions
from conductorlite.model.policies import derive_id
from conductorlite.model.scalars import MAX_EXECUTIONS
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

if TYPE_CHECKING:
    from conductorlite.decide.operators.sub_workflow import child_start
    from conductorlite.model.documents import task_to_json, workflow_to_json
    from conductorlite.model.raised import text_of
else:
    (child_start,) = functions("conductorlite.decide.operators.sub_workflow", "child_start")
    task_to_json, workflow_to_json = functions("conductorlite.model.documents", "task_to_json", "workflow_to_json")
    (text_of,) = functions("conductorlite.model.raised", "text_of")

__all__ = ["answer_start", "notify_parent", "on_child_ended", "on_started", "start_failure_workflow"]

_ENDS: Final[Mapping[str, TaskStatus]] = {
    WorkflowStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowStatus.FAILED: TaskStatus.FAILED,
    WorkflowStatus.TIMED_OUT: TaskStatus.TIMED_OUT,
    WorkflowStatus.TERMINATED: TaskStatus.CANCELED,
}


def notify_parent(changeset: Changeset) -> None:
    """Report the end of this execution to the task that started it."""
    workflow = changeset.workflow
    if workflow.parent_workflow_id is None:
        return
    failed = None
    if workflow.status is not WorkflowStatus.COMPLETED:
        failed = next((task for task in changeset.rows.all_failed() if task.task_id == workflow.failed_task_id), None)
    output = changeset.documents.value(changeset.workflow.output)
    problem, changeset.documents.lost = changeset.documents.lost, None
    changeset.events.post_to(
        workflow.parent_workflow_id,
        f"{EventKind.CHILD_ENDED}:{workflow.workflow_id}:{changeset.workflow.generation}",
        EventKind.CHILD_ENDED,
        {
            "workflowId": workflow.workflow_id,
            "taskId": workflow.parent_task_id,
            "name": f"{workflow.name}.{workflow.version}",
            "status": str(changeset.workflow.status),
            **reason_data(cause_below(workflow, failed), workflow.conductor_reason or workflow.reason),
            "output": output,
            **_raised(workflow, failed),
            **({"asked": True} if changeset.ended_by == workflow.parent_workflow_id else {}),
            **({"problem": problem} if problem else {}),
        },
        ref=workflow.parent_ref,
        attempt=workflow.parent_attempt,
        generation=workflow.parent_generation,
    )


def _raised(row: Workflow, failed: Task | None) -> dict[str, Any]:
    """Return what an execution raises to the `try` around the task that started it: what the task did that has `failed` it."""
    if row.status is WorkflowStatus.COMPLETED:
        return {}
    if row.status is WorkflowStatus.FAILED and failed is not None:
        types, bases = failed.error_types, failed.error_bases
        return {"raised": {"types": types, "bases": bases, "text": text_of(failed)}}
    types = {WorkflowStatus.TIMED_OUT: (TIMED_OUT,), WorkflowStatus.TERMINATED: (CANCELED,)}.get(row.status, ())
    return {"raised": {"types": types, "bases": (), "text": row.reason or str(row.status)}}


def on_child_ended(changeset: Changeset, event: Event) -> None:
    """End the SUB_WORKFLOW task whose child has ended; one that was superseded meanwhile is not touched."""
    task = changeset.addressee(event)
    said = changeset.documents.value(event.data)
    if changeset.workflow.status.terminal and changeset.workflow.rate_limited:
        changeset.events.hold(event)  # of a child that went on without it: it is read behind the event that reports that
        return
    if (
        task is None
        or changeset.workflow.status.terminal
        or task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or task.sub_workflow_id != said["workflowId"]
        # The answer to a TERMINATE, by a child that had not heard yet that it is to go on after all.
        or (said.get("asked") and task.lease)
    ):
        changeset.reply(event, Outcome.IGNORED, "the task does not wait for this execution any more")
        return
    _end_with(changeset, task, said)


def _end_with(changeset: Changeset, task: Task, said: Mapping[str, Any]) -> None:
    """End a SUB_WORKFLOW task as its child has ended, which an event reports."""
    status = _ENDS[said["status"]]
    if said.get("problem"):
        changeset.close(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=said["problem"], child_ended=True)
        return
    reason = sentence = None
    if not status.successful:
        reason = said["reason"]
        why = said.get("conductorReason", reason)
        sentence = f"Sub workflow {said['name']}/{said['workflowId']} failure reason: {'null' if why is None else why}"
    # What the child says of a `subWorkflowId` of its own is about another execution.
    output = {**changeset.documents.value(task.output), **said["output"], "subWorkflowId": said["workflowId"]}
    kept = changeset.documents.keep(Payload.of(output, bounded=False))
    raised = said.get("raised") or {}
    types, bases = tuple(raised.get("types", ())), tuple(raised.get("bases", ()))
    fields: dict[str, Any] = {"error_types": types, "error_bases": bases, "error_text": raised.get("text")}
    fields |= {"conductor_reason": sentence}
    changeset.close(task, status, output=kept, reason=reason, child_ended=True, **fields)


def on_started(changeset: Changeset, event: Event) -> None:
    """End the START_WORKFLOW task whose execution has begun, or could not; or a SUB_WORKFLOW task whose key is taken.

    The latter ends with the result of the execution that holds the key, if that has ended and the strategy is RETURN_EXISTING.
    """
    task = changeset.addressee(event)
    if (
        task is None
        or changeset.workflow.status.terminal
        or task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
    ):
        changeset.reply(event, Outcome.IGNORED, "the task does not wait for this execution any more")
        return
    said = changeset.documents.value(event.data)
    if "error" in said:
        changeset.close(task, TaskStatus.FAILED, reason=said["error"], child_ended=True)
    elif "status" in said:
        _end_with(changeset, task, said)
    else:
        changeset.close(task, TaskStatus.COMPLETED, output=changeset.documents.payload({"workflowId": said["workflowId"]}))


def answer_start(changeset: Changeset, event: Event) -> None:
    """Notify the START_WORKFLOW task that this execution has begun."""
    answer = dict(changeset.documents.value(event.data).get("answer") or {})
    if answer:
        event_id = f"{EventKind.STARTED}:{changeset.workflow.workflow_id}"
        said = {"workflowId": changeset.workflow.workflow_id, "taskId": answer.pop("taskId", None)}
        changeset.events.post_to(event.sender, event_id, EventKind.STARTED, said, **answer)


# ---------------------------------------------------------------------- failure workflow

#: Under which key of the failed execution's output its failure workflow is named.
_OUTPUT_KEY: Final = "conductor.failure_workflow"


def start_failure_workflow(changeset: Changeset, status: WorkflowStatus, output: Payload) -> dict[str, Any]:
    """Start the definition's failureWorkflow, with all that is known of the failure, and return what the `output` of the failed one
    says of it.

    A name that resolves to nothing, or to a workflow that is not registered, is named there; it is never an error.
    """
    definition = changeset.plan.definition
    wanted = (definition.failure_workflow or "").strip()
    if not wanted:
        return {}
    name = _name(changeset, wanted)
    if not name:
        return {_OUTPUT_KEY: f"Error: failureWorkflow {wanted!r} names nothing"}
    if changeset.workflow.depth >= MAX_EXECUTIONS:
        return {_OUTPUT_KEY: f"Error: failure workflow {name!r}: executions that start each other are nested too deep"}
    digest = changeset.documents.resolve(name, definition.failure_workflow_version)
    if digest is None:
        return {_OUTPUT_KEY: f"Error: failure workflow {name!r} is not registered or not valid"}
    workflow = changeset.workflow
    child_id = derive_id("failure", workflow.seed, workflow.workflow_id, changeset.workflow.generation)
    failed = changeset.workflow.failed_task_id
    values = {
        **changeset.documents.value(workflow.input),
        "workflowId": workflow.workflow_id,
        "reason": workflow.conductor_reason or workflow.reason,
        "failureStatus": str(status),
        **({"failureTaskId": failed} if failed is not None else {}),
        "failedWorkflow": _whole(changeset, status, output),
    }
    problem = _lightened(changeset, values)
    if problem is not None:
        return {_OUTPUT_KEY: f"Error: failure workflow {name!r}: {problem}"}
    start = child_start(changeset, digest, name, definition.failure_workflow_version or 0, values)
    start["taskToDomain"] = changeset.documents.value(workflow.task_to_domain)
    changeset.events.post_to(child_id, EventKind.START, EventKind.START, start)
    return {_OUTPUT_KEY: child_id}


def _lightened(changeset: Changeset, values: dict[str, Any]) -> str | None:
    """Make the input of a failure workflow smaller if it is too large: drop the tasks' inputs and outputs, then the definition.

    Return why it is too large even so, or None. What cannot be read is left out: it is not what the failure workflow is there for.
    """
    changeset.documents.lost = None
    barriers = changeset.bounds.barriers
    if barriers.refusal("workflow_input", Payload.of(values, bounded=False)) is None:
        return None
    for task in values["failedWorkflow"]["tasks"]:
        task |= {"inputData": {}, "outputData": {}}
    if barriers.refusal("workflow_input", Payload.of(values, bounded=False)) is None:
        return None
    for left_out in ("workflowDefinition", "input", "output"):
        values["failedWorkflow"].pop(left_out, None)
    return barriers.refusal("workflow_input", Payload.of(values, bounded=False))


def _name(changeset: Changeset, wanted: str) -> str:
    if not wanted.startswith("$"):
        return wanted
    text = wanted if wanted.startswith("${") else "${" + wanted[1:] + "}"
    template = compile_template(text)
    value = template.render(ExpressionContext(changeset, template.reads))
    return "" if value is None else to_text(value).strip()


def _whole(changeset: Changeset, status: WorkflowStatus, output: Payload) -> dict[str, Any]:
    """The failed execution as its failure workflow sees it: its JSON, with the definition once and payloads as they are."""
    row = changeset.workflow
    tasks = changeset.rows.everything()
    inputs = changeset.documents.values(task.input for task in tasks)
    outputs = changeset.documents.values(task.output for task in tasks)
    changes: dict[str, Any] = {
        "status": status,
        "compensating": None,
        "updated_at": changeset.moment.now,
        "input": EMPTY,
        "output": EMPTY,
        "definition": changeset.plan.definition,
    }
    return {
        **workflow_to_json(attrs.evolve(row, **changes)),
        "failedTaskId": changeset.workflow.failed_task_id,
        "input": changeset.documents.value(row.input),
        "output": changeset.documents.value(output),
        "tasks": [
            {**task_to_json(attrs.evolve(task, input=EMPTY, output=EMPTY)), "inputData": given, "outputData": put_out}
            for task, given, put_out in zip(tasks, inputs, outputs, strict=True)
        ],
    }
