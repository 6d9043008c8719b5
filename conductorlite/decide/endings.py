"""How a workflow ends: completed, failed, timed out, terminated.

The only place that looks at every live row; it happens once per end. Sources of the rules: Conductor's `completeWorkflow`,
`terminateWorkflow` and `updateWorkflowOutput`.
"""

from __future__ import annotations

from conductorlite.decide.compensation import begin_compensation, follow_compensation, interrupted_compensation
from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.document import DraftSource
from conductorlite.decide.prefetch import prefetch_end
from conductorlite.decide.sub_workflows import start_failure_workflow, tell_parent
from conductorlite.language.values import to_text
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import EventKind
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task
from conductorlite.model.statuses import WorkflowStatus

__all__ = [
    "complete_workflow",
    "end_compensated",
    "fail_workflow",
    "failed_with",
    "in_seconds",
    "leave_limit",
    "out_of_time",
    "set_workflow_timeout",
    "terminate_workflow",
]


def complete_workflow(draft: Draft) -> None:
    """End a workflow in which nothing is live: COMPLETED, or FAILED for failures that were only permitted until now."""
    if draft.field("permitted_failures"):
        failed = [task for task in draft.all_failed() if _permitted(draft, task)]
        if len(failed) < draft.field("permitted_failures"):
            # Some of them were canceled, which the failed rows do not show.
            ended = (task for task in draft.everything() if task.executed and not task.status.successful)
            failed = [task for task in ended if _permitted(draft, task)]
        if failed:
            fail_workflow(draft, WorkflowStatus.FAILED, ". ".join(map(failed_with, failed)), failed[-1])
            return
    output = _output(draft)
    problem = draft.refusal("workflow_output", output)
    if problem is not None:
        fail_workflow(draft, WorkflowStatus.FAILED, problem, None, output=EMPTY)
    elif not _refused(draft, output):
        _end(draft, WorkflowStatus.COMPLETED, None, output=output)


def failed_with(task: Task) -> str:
    """What an execution says of the failure that ended it, in Conductor's words."""
    return f"Task {task.task_id} failed with status: {task.status} and reason: '{'null' if task.reason is None else task.reason}'"


def out_of_time(draft: Draft, task: Task) -> str:
    """The same of a failure after which attempts were left, but no time in which to make them."""
    limit, elapsed = draft.node(task).policy.total_timeout_ms, draft.now - task.first_scheduled_at
    return (
        f"Task {task.task_id}/{task.name} exceeded total timeout of {in_seconds(limit)} seconds "
        f"(elapsed {elapsed // 1000} seconds across all attempts). No further retries will be attempted."
    )


def in_seconds(span_ms: int) -> str:
    """A span in seconds, with a fraction only where there is one."""
    seconds, rest = divmod(span_ms, 1000)
    return str(span_ms / 1000 if rest else seconds)


def _refused(draft: Draft, output: Payload) -> bool:
    """Whether the output breaks the outputSchema; the workflow has failed then, instead of being completed."""
    check = draft.plan.output_check
    broken = None if check is None else check.violation(draft.value(output))
    if broken is None:
        return False
    fail_workflow(draft, WorkflowStatus.FAILED, f"its output breaks outputSchema: {broken}", None, output=output)
    return True


def _permitted(draft: Draft, task: Task) -> bool:
    node = draft.node(task).task
    return node.permissive and not node.optional


def terminate_workflow(draft: Draft, task: Task) -> None:
    """End a workflow as a TERMINATE task says: its output replaces the workflow's, whatever else runs is canceled."""
    said = draft.value(task.input)
    status = WorkflowStatus(said["terminationStatus"])
    reason = said.get("terminationReason")
    if status is WorkflowStatus.COMPLETED and draft.field("permitted_failures"):
        complete_workflow(draft)
        return
    if status is WorkflowStatus.COMPLETED and _refused(draft, task.output):
        return
    if reason is None and status is not WorkflowStatus.COMPLETED:
        reason = f"Workflow is {status} by TERMINATE task: {task.task_id}"
    text = None if reason is None else to_text(reason)
    output = _bounded(draft, task.output)
    problem = draft.refusal("workflow_output", output)
    if problem is not None:
        completed = status is WorkflowStatus.COMPLETED
        status, text = (WorkflowStatus.FAILED, problem) if completed else (status, text)
        output = EMPTY if completed else _told(problem)
    compensate = status is not WorkflowStatus.COMPLETED
    fail_workflow(draft, status, text, task if compensate else None, output=output, compensate=compensate)


def fail_workflow(
    draft: Draft,
    status: WorkflowStatus,
    reason: str | None,
    task: Task | None,
    *,
    output: Payload | None = None,
    compensate: bool = True,
) -> None:
    """End a workflow before its time: every open task is canceled, nothing that was to follow is done.

    `task` is the one whose failure ends it; `output` replaces the workflow's own; `compensate` undoes what has completed, if the
    definition says how, and then starts its failure workflow. A compensation that fails ends nothing: the others follow it.
    """
    if draft.field("compensating") is not None:
        if compensate and task is not None:
            follow_compensation(draft, task)
            return
        reason = interrupted_compensation(draft, reason)
    undone = compensate and (draft.plan.compensates or bool(draft.plan.definition.failure_workflow))
    prefetch_end(draft.plan, draft.reader, everything=undone, output=output is None)
    because = f"Parent workflow has been terminated with {f'reason: {reason}' if reason else f'status {status}'}"
    for loop in sorted((task for task in draft.all_live() if task.round), key=lambda task: -len(task.iterations)):
        if not loop.status.terminal:
            with_rounds(draft, loop)
    for live in draft.all_live():
        if not live.status.terminal:
            draft.cancel(live, because)
        # While paused, what followed from a task was held under this name.
        if draft.status is WorkflowStatus.PAUSED:
            draft.cancel_timer(f"{EventKind.CONTINUE}:{live.ref}")
    if draft.field("rate_limited"):
        draft.cancel_timer(EventKind.ADMISSION)  # after a pause it would ask for the slot again
    if draft.status is WorkflowStatus.PAUSED or draft.workflow.parked is not None:
        # Whatever else was held, the rest of a cut turn or events to a parked workflow, comes due and is void.
        draft.release_held()
    draft.stack.clear()
    draft.queue.clear()
    failed = tuple(draft.all_failed())
    draft.change(
        reason=reason,
        failed_refs=tuple(task.ref for task in failed),
        failed_task_names=tuple(dict.fromkeys(task.name for task in failed)),
        failed_task_id=None if task is None else task.task_id,
    )
    if compensate and draft.plan.compensates:
        # What it puts out is settled here, as if it ended now.
        output = output if output is not None else _fitting(draft)
        if begin_compensation(draft, status):
            draft.change(output=draft.keep(output))
            _stop_clock(draft)
            return
    _end(draft, status, draft.field("reason"), output=output, compensate=compensate)


def end_compensated(draft: Draft) -> None:
    """End a workflow whose last compensation has ended, as it would have ended without any."""
    status = draft.field("compensating")
    _end(draft, status, draft.field("reason"), output=draft.field("output"), compensate=True)


def _stop_clock(draft: Draft) -> None:
    if draft.field("timeout_at") is not None:
        draft.cancel_timer(EventKind.WORKFLOW_TIMEOUT)
    draft.change(timeout_at=None)


def _end(
    draft: Draft,
    status: WorkflowStatus,
    reason: str | None,
    *,
    output: Payload | None = None,
    compensate: bool = False,
) -> None:
    _stop_clock(draft)
    draft.change(reason=reason, ended_at=draft.now, compensating=None)
    put_out = output if output is not None else _fitting(draft)
    if compensate:
        told = start_failure_workflow(draft, status, put_out)
        if told:
            put_out = Payload.of({**draft.value(put_out), **told}, bounded=False)
    draft.change(output=draft.keep(put_out))
    draft.move_workflow(status, reason=reason, payload=put_out)
    leave_limit(draft)
    tell_parent(draft)


def leave_limit(draft: Draft) -> None:
    """Give back the slot of the execution itself, or its place in the line."""
    key = draft.field("rate_limit_key")
    if draft.field("rate_limited"):
        draft.change(rate_limited=False)
    if key is not None:
        draft.change(rate_limit_key=None)
        draft.give_back(key, [draft.workflow.workflow_id])


def _output(draft: Draft) -> Payload:
    """outputParameters if there are any, else the output of the task that was scheduled last."""
    template = draft.plan.output
    if template is not None:
        try:
            return Payload.of(template.render(DraftSource(draft, template.reads)))
        except InvalidInput as error:
            # The workflow has ended all the same; Conductor fails to store it, and it stays RUNNING for ever.
            return _told(error)
    ref = draft.field("last_ref")
    return EMPTY if ref is None else _bounded(draft, draft.known(ref).output)


def _bounded(draft: Draft, output: Payload) -> Payload:
    """A task's output as it may become the workflow's: with its text, if it may be too large for that."""
    barriers = draft.bounds.barriers
    stricter = barriers.hard("workflow_output") < barriers.hard("task_output")
    return draft.whole(output) if stricter and output.absent else output


def _fitting(draft: Draft) -> Payload:
    """The output of a workflow that fails anyway: when it cannot be kept, it says why."""
    output = _output(draft)
    problem = draft.refusal("workflow_output", output)
    return output if problem is None else _told(problem)


def _told(problem: object) -> Payload:
    return Payload.of({"conductor.output_error": f"Error: the output cannot be kept: {problem}"})


def set_workflow_timeout(draft: Draft) -> None:
    """Start the workflow's clock at this instant, or start it again. A workflow that is compensated has no timeout."""
    if draft.field("compensating") is not None:
        return
    span = draft.plan.definition.timeout_ms
    if span > 0:
        draft.change(timeout_at=draft.now + span)
        draft.post(EventKind.WORKFLOW_TIMEOUT, EventKind.WORKFLOW_TIMEOUT, draft.now + span)
