"""Endings of a workflow: completed, failed, timed out, terminated; and what it undoes before.

The only place that looks at every live row; it happens once per end. Sources of the rules: Conductor's `completeWorkflow`,
`terminateWorkflow` and `updateWorkflowOutput`.

Compensation is beyond Conductor. When an execution fails, its completed tasks that have one are put in order once, last ended
first, and chained (`Task.compensation_next`): from a compensation to the task it undoes, to the next one to undo. So each step
looks at two rows, however many there are. The compensation of a round of a loop is a row of the same round, and reads that
round's tasks. The generation is raised at the beginning, so that whatever was left to do by then is void.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators import schedule
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.document import ExpressionContext
from conductorlite.decide.prefetch import prefetch_end
from conductorlite.decide.reasons import Reasons, end_of_parent, failed_with, in_both, terminated_by
from conductorlite.decide.sub_workflows import notify_parent, start_failure_workflow
from conductorlite.language.values import to_text
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvalidInput, InvariantBroken
from conductorlite.model.executions import HistoryKind, Task, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "begin_compensation",
    "complete_workflow",
    "end_compensated",
    "fail_workflow",
    "follow_compensation",
    "interrupted_compensation",
    "is_last_compensation",
    "leave_limit",
    "schedule_compensation",
    "set_workflow_timeout",
    "terminate_workflow",
    "was_compensated",
]


def complete_workflow(changeset: Changeset) -> None:
    """End a workflow in which nothing is live: COMPLETED, or FAILED for failures that were only permitted until now."""
    if changeset.workflow.permitted_failures:
        failed = [task for task in changeset.rows.all_failed() if _permitted(changeset, task)]
        if len(failed) < changeset.workflow.permitted_failures:
            # Some of them were canceled, which the failed rows do not show.
            ended = (task for task in changeset.rows.everything() if task.executed and not task.status.successful)
            failed = [task for task in ended if _permitted(changeset, task)]
        if failed:
            reason, sentence = failed_with(*failed)
            fail_workflow(changeset, WorkflowStatus.FAILED, reason, failed[-1], conductor_reason=sentence)
            return
    output = _output(changeset)
    problem = changeset.documents.refusal("workflow_output", output)
    if problem is not None:
        fail_workflow(changeset, WorkflowStatus.FAILED, problem, None, output=EMPTY)
    elif not _refused(changeset, output):
        _end(changeset, WorkflowStatus.COMPLETED, output=output)


def _refused(changeset: Changeset, output: Payload) -> bool:
    """Return True if the output breaks the outputSchema; the workflow has failed then, instead of being completed."""
    check = changeset.plan.output_check
    broken = None if check is None else check.violation(changeset.documents.value(output))
    if broken is None:
        return False
    fail_workflow(changeset, WorkflowStatus.FAILED, f"its output breaks outputSchema: {broken}", None, output=output)
    return True


def _permitted(changeset: Changeset, task: Task) -> bool:
    node = changeset.rows.node(task).task
    return node.permissive and not node.optional


def terminate_workflow(changeset: Changeset, task: Task) -> None:
    """End a workflow as a TERMINATE task says: its output replaces the workflow's, whatever else runs is canceled."""
    said = changeset.documents.value(task.input)
    status = WorkflowStatus(said["terminationStatus"])
    reason = said.get("terminationReason")
    if isinstance(reason, str) and not reason.strip():
        reason = None  # a form leaves it blank
    if status is WorkflowStatus.COMPLETED and changeset.workflow.permitted_failures:
        complete_workflow(changeset)
        return
    if status is WorkflowStatus.COMPLETED and _refused(changeset, task.output):
        return
    text, sentence = None if reason is None else to_text(reason), None
    if reason is None and (status is not WorkflowStatus.COMPLETED or changeset.workflow.semantics is Semantics.OSS):
        text, sentence = terminated_by(task, status)
    output = _bounded(changeset, task.output)
    problem = changeset.documents.refusal("workflow_output", output)
    if problem is not None:
        completed = status is WorkflowStatus.COMPLETED
        status, text, sentence = (WorkflowStatus.FAILED, problem, None) if completed else (status, text, sentence)
        output = EMPTY if completed else _problem_payload(problem)
    compensate = status is not WorkflowStatus.COMPLETED
    culprit = task if compensate else None
    fail_workflow(changeset, status, text, culprit, conductor_reason=sentence, output=output, compensate=compensate)


def fail_workflow(
    changeset: Changeset,
    status: WorkflowStatus,
    reason: str | None,
    task: Task | None,
    *,
    conductor_reason: str | None = None,
    output: Payload | None = None,
    compensate: bool = True,
) -> None:
    """End a workflow before its time: every open task is canceled, nothing that was to follow is done.

    `task` is the one whose failure ends it; `conductor_reason` is in Conductor's words if those are others; `output` replaces the
    workflow's own; `compensate` undoes what has completed, if the definition says how, and then starts its failure workflow. A
    compensation that fails ends nothing: the others follow it.
    """
    if changeset.workflow.compensating is not None:
        if compensate and task is not None:
            follow_compensation(changeset, task)
            return
        reason, conductor_reason = interrupted_compensation(changeset, reason, conductor_reason)
    undone = compensate and (changeset.plan.compensates or bool(changeset.plan.definition.failure_workflow))
    prefetch_end(changeset.plan, changeset.reader, everything=undone, output=output is None)
    because = end_of_parent(status, reason, conductor_reason)
    for loop in sorted((task for task in changeset.rows.all_live() if task.round), key=lambda task: -len(task.iterations)):
        if not loop.status.terminal:
            with_rounds(changeset, loop)
    for live in changeset.rows.all_live():
        if not live.status.terminal:
            changeset.cancel(live, because)
        # While paused, what followed from a task was held under this name.
        if changeset.workflow.status is WorkflowStatus.PAUSED:
            changeset.events.cancel(f"{EventKind.CONTINUE}:{live.ref}")
    if changeset.workflow.rate_limited:
        changeset.events.cancel(EventKind.ADMISSION)  # after a pause it would ask for the slot again
    if changeset.workflow.status is WorkflowStatus.PAUSED or changeset.workflow.parked is not None:
        # Whatever else was held, the rest of a cut turn or events to a parked workflow, comes due and is void.
        changeset.events.release_held()
    changeset.work.clear()
    failed = tuple(changeset.rows.all_failed())
    changeset.change(
        reason=reason,
        conductor_reason=conductor_reason,
        failed_refs=tuple(task.ref for task in failed),
        failed_task_names=tuple(dict.fromkeys(task.name for task in failed)),
        failed_task_id=None if task is None else task.task_id,
    )
    if compensate and changeset.plan.compensates and changeset.workflow.compensating is None:
        # What it puts out is settled here, as if it ended now.
        output = output if output is not None else _fitting(changeset)
        if begin_compensation(changeset, status):
            changeset.change(output=changeset.documents.keep(output))
            _stop_clock(changeset)
            return
    _end(changeset, status, output=output, compensate=compensate)


def end_compensated(changeset: Changeset) -> None:
    """End a workflow whose last compensation has ended, as it would have ended without any."""
    status = changeset.workflow.compensating
    if status is None:
        raise InvariantBroken(f"workflow {changeset.workflow.workflow_id} is not compensated")
    _end(changeset, status, output=changeset.workflow.output, compensate=True)


def _stop_clock(changeset: Changeset) -> None:
    if changeset.workflow.timeout_at is not None:
        changeset.events.cancel(EventKind.WORKFLOW_TIMEOUT)
    changeset.change(timeout_at=None)


def _end(
    changeset: Changeset,
    status: WorkflowStatus,
    *,
    output: Payload | None = None,
    compensate: bool = False,
) -> None:
    """End a workflow for the reason that its row has."""
    _stop_clock(changeset)
    workflow = changeset.workflow
    changeset.end(workflow.reason, workflow.conductor_reason)
    put_out = output if output is not None else _fitting(changeset)
    if compensate:
        started = start_failure_workflow(changeset, status, put_out)
        if started:
            put_out = Payload.of({**changeset.documents.value(put_out), **started}, bounded=False)
    changeset.change(output=changeset.documents.keep(put_out))
    changeset.move_workflow(status, reason=workflow.reason, payload=put_out)
    leave_limit(changeset)
    notify_parent(changeset)


def leave_limit(changeset: Changeset) -> None:
    """Give back the slot of the execution itself, or its place in the line."""
    key = changeset.workflow.rate_limit_key
    if changeset.workflow.rate_limited:
        changeset.change(rate_limited=False)
    if key is not None:
        changeset.change(rate_limit_key=None)
        changeset.limits.give_back(key, [changeset.workflow.workflow_id])


def _output(changeset: Changeset) -> Payload:
    """outputParameters if there are any, else the output of the task that was scheduled last."""
    template = changeset.plan.output
    if template is not None:
        try:
            return Payload.of(template.render(ExpressionContext(changeset, template.reads)))
        except InvalidInput as error:
            # The workflow has ended all the same; Conductor fails to store it, and it stays RUNNING for ever.
            return _problem_payload(error)
    ref = changeset.workflow.last_ref
    return EMPTY if ref is None else _bounded(changeset, changeset.rows.known(ref).output)


def _bounded(changeset: Changeset, output: Payload) -> Payload:
    """A task's output as it may become the workflow's: with its text, if it may be too large for that."""
    barriers = changeset.bounds.barriers
    stricter = barriers.hard("workflow_output") < barriers.hard("task_output")
    return changeset.documents.whole(output) if stricter and output.absent else output


def _fitting(changeset: Changeset) -> Payload:
    """The output of a workflow that fails anyway: when it cannot be kept, it says why."""
    output = _output(changeset)
    problem = changeset.documents.refusal("workflow_output", output)
    return output if problem is None else _problem_payload(problem)


def _problem_payload(problem: object) -> Payload:
    return Payload.of({"conductor.output_error": f"Error: the output cannot be kept: {problem}"})


def set_workflow_timeout(changeset: Changeset) -> None:
    """Start the workflow's clock at this instant, or start it again. A workflow that is compensated has no timeout."""
    if changeset.workflow.compensating is not None:
        return
    span = changeset.plan.definition.timeout_ms
    if span > 0:
        changeset.change(timeout_at=changeset.moment.now + span)
        changeset.events.post(EventKind.WORKFLOW_TIMEOUT, EventKind.WORKFLOW_TIMEOUT, changeset.moment.now + span)


#: What has been done, if only in part, and is undone.
_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})

#: How many references a reason lists, and from which length on no more failures are added to it.
_LISTED: Final = 50
_LONG: Final = 8_000


def _reverse_order(changeset: Changeset) -> list[Task]:
    """The completed tasks that have a compensation, in the order of undoing: last ended first, of those last scheduled first."""
    rows = changeset.rows.everything()
    done = [
        task
        for task in rows
        if task.status in _DONE and (node := changeset.rows.placed(task)) is not None and node.compensation is not None
    ]
    return sorted(done, key=lambda task: (task.ended_at, task.seq), reverse=True)


def begin_compensation(changeset: Changeset, status: WorkflowStatus) -> bool:
    """Schedule the first compensation of an execution that would now end with `status`; False when there is none.

    Looks at every row, once. The open tasks must have been canceled before.
    """
    order = _reverse_order(changeset)
    nameless = _nameless(changeset, order)
    order = [task for task in order if task.ref not in nameless]
    for stuck, by in nameless.items():
        _refuse_for(changeset, stuck, f"the execution has another task {by!r}")
    if not order:
        return False
    following: list[str | None] = [task.ref for task in order[1:]]
    for task, after in zip(order, [*following, None], strict=True):
        changeset.put(task, compensation_next=after)
    changeset.change(compensating=status, generation=changeset.workflow.generation + 1)
    changeset.journal.add(HistoryKind.COMPENSATION, status, reason=changeset.workflow.reason)
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.work.queue.append(("compensate", order[0].ref))
    else:
        # At once: a permitted failure may have left nothing live that would hold the execution open until the next step.
        schedule_compensation(changeset, order[0].ref)
    return True


def schedule_compensation(changeset: Changeset, ref: str) -> None:
    """Schedule what undoes the task `ref` (as printed)."""
    if changeset.rows.inserted:
        # Compensations that need no worker follow each other within a turn: their rows are read in one batch.
        changeset.reader.prefetch(everything=True)
    undone = changeset.rows.known(ref)
    node = changeset.rows.plan_of(undone.grafts).nodes[str(changeset.rows.node(undone).compensation)]
    by = printed_ref(node.ref, undone.iterations)
    changeset.journal.add(HistoryKind.COMPENSATION, "COMPENSATING", ref=undone.ref, attempt=undone.attempt, reason=f"by {by!r}")
    schedule(changeset, node, undone.iterations)


def follow_compensation(changeset: Changeset, task: Task) -> None:
    """Go on behind a compensation that has ended, well or not; one that failed for good is named in the workflow's reason."""
    undone = _undone(changeset, task)
    if not task.status.successful:
        _refuse_for(changeset, undone.ref, task.reason or task.status, task.conductor_reason)
    changeset.work.queue.appendleft(("executed", task.ref))
    # Last in, first out, as with any task: this one stays live until the next one has its row.
    if undone.compensation_next is not None:
        changeset.work.stack.append(("compensate", undone.compensation_next))


def _refuse_for(changeset: Changeset, ref: str, reason: str, conductor_reason: str | None = None) -> None:
    """Name a task that could not be undone in the workflow's reason."""
    workflow = changeset.workflow
    before, said = workflow.reason or "", workflow.conductor_reason or workflow.reason or ""
    if len(said) > _LONG:
        return
    failure, sentence = in_both(lambda why: f"compensation of {ref!r} failed: {why}", reason, conductor_reason)
    reasons = ("; ".join(filter(None, one)) for one in ((before, failure), (said, sentence or failure)))
    whole, conductor_whole = reasons
    changeset.change(reason=whole, conductor_reason=None if whole == conductor_whole else conductor_whole)


def _nameless(changeset: Changeset, order: Iterable[Task]) -> dict[str, str]:
    """Tasks whose compensation has the name of something else, and that name: two that were made at run time may collide."""
    names = {task.ref for task in changeset.rows.everything()}
    found = {}
    for task in order:
        by = printed_ref(str(changeset.rows.node(task).compensation), task.iterations)
        if by in names:
            found[task.ref] = by
        names.add(by)
    return found


def is_last_compensation(changeset: Changeset, task: Task) -> bool:
    """Return True if nothing is left to undo behind this compensation."""
    return _undone(changeset, task).compensation_next is None


def _undone(changeset: Changeset, task: Task) -> Task:
    return changeset.rows.known(printed_ref(str(changeset.rows.node(task).compensates), task.iterations))


def interrupted_compensation(changeset: Changeset, reason: str | None, conductor_reason: str | None = None) -> Reasons:
    """The reason of an execution that is terminated while it is compensated: with what is left as it is."""
    left = [task.ref for task in _reverse_order(changeset) if not _is_undone(changeset, task)]
    shown = [repr(ref) for ref in left[:_LISTED]]
    if len(left) > _LISTED:
        shown.append(f"and {len(left) - _LISTED} more")
    before, sentence = changeset.workflow.reason, changeset.workflow.conductor_reason
    sentences = [
        f"{f'{why}; ' if why else ''}terminated while compensating ({failure}); not compensated: {', '.join(shown)}"
        for why, failure in ((reason, before), (conductor_reason or reason, sentence or before))
    ]
    return sentences[0], None if sentences[0] == sentences[1] else sentences[1]


def _is_undone(changeset: Changeset, task: Task) -> bool:
    compensation = changeset.rows.task(printed_ref(str(changeset.rows.node(task).compensation), task.iterations))
    if compensation is None or changeset.rows.node(compensation).compensates is None:
        return False
    return compensation.status in _DONE and _undone(changeset, compensation).ref == task.ref


def was_compensated(changeset: Changeset, rows: Iterable[Task]) -> bool:
    """Return True if anything of an execution was undone, or tried to be."""
    placed = (changeset.rows.placed(task) for task in rows)
    return any(node is not None and node.compensates is not None for node in placed)
