"""SUB_WORKFLOW: another execution, started by letter and heard of by letter.

The definition was pinned when the parent started: its hash stands in the embedded task. The child's id is derived from the
attempt, so deciding twice starts one child; every attempt starts a child of its own. Source of the rules: Conductor's
`SubWorkflow`; a child without inputParameters gets an empty input, and the parent's priority unless one is given.
"""

from __future__ import annotations

from typing import Any, Final

from conductorlite.decisions import EventKind
from conductorlite.draft import Draft
from conductorlite.executions import Task, TaskStatus, printed_ref
from conductorlite.operators.document import DraftSource
from conductorlite.operators.worker import start_deadlines
from conductorlite.plan import Node
from conductorlite.policies import derive_id

__all__ = ["DEFINITION_HASH", "child_start", "schedule_sub_workflow"]

#: Where an embedded task keeps the hash of the definition its child runs on.
DEFINITION_HASH: Final = "conductorlite:definitionHash"


def schedule_sub_workflow(
    draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None, delay_ms: int | None = None
) -> None:
    """Create the row and post the child's start, after the node's startDelay or the retry's delay."""
    ref = printed_ref(node.ref, iterations)
    attempt = 0 if previous is None else previous.attempt + 1
    params = node.task.sub_workflow_param
    if params is None:
        raise ValueError(f"{node.ref}: a SUB_WORKFLOW without subWorkflowParam got past the validator")
    values = node.template.render(DraftSource(draft, node.template.reads, draft.task_id(ref, attempt)))
    workflow = draft.workflow
    child_id = derive_id("child", workflow.seed, workflow.workflow_id, ref, attempt, draft.field("generation"))
    delay = node.task.start_delay_ms if delay_ms is None else delay_ms
    priority = params.priority if isinstance(params.priority, int) else workflow.priority
    domains = params.task_to_domain if params.task_to_domain is not None else draft.value(workflow.task_to_domain)
    task = draft.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=draft.payload(
            {
                "subWorkflowName": params.name,
                "subWorkflowVersion": params.version,
                "subWorkflowTaskToDomain": dict(domains),
                "priority": priority,
                "workflowInput": values,
            }
        ),
        output=draft.payload({"subWorkflowId": child_id}),
        started_at=draft.now,
        due_at=draft.after(delay),
        start_delay_ms=delay,
        sub_workflow_id=child_id,
    )
    task = start_deadlines(draft, node, task, previous)
    start = child_start(draft, params.extra[DEFINITION_HASH], params.name or "", params.version or 1, values)
    start |= {"priority": priority, "taskToDomain": dict(domains)}
    start["parent"] = {"taskId": task.task_id, "ref": ref, "attempt": attempt, "generation": task.generation}
    draft.post_to(child_id, EventKind.START, EventKind.START, start, due_at=task.due_at)


def child_start(draft: Draft, digest: str, name: str, version: int, values: Any) -> dict[str, Any]:
    """What a START letter says to bring an execution into being."""
    return {
        "definitionHash": digest,
        "name": name,
        "version": version,
        "input": values,
        "correlationId": draft.workflow.correlation_id,
        "priority": draft.workflow.priority,
        "semantics": str(draft.workflow.semantics),
        "seed": draft.workflow.seed,
    }
