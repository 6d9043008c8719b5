"""Operators: the task types the decider carries out itself, one small pure function each.

An operator gets a changeset and returns nothing: what it schedules, ends or reads is in the changeset. It knows nothing of the
decider
that calls it. `schedule` and `reschedule` look the type up in two tables; every type that is not listed is a worker's.

The smallest operators stand here. SET_VARIABLE replaces top-level keys of the variables; past Conductor's limit it fails for good.
TERMINATE ends COMPLETED, and ending the workflow is what follows from it. WAIT is one dated event, without a date it waits for a
report; a date that cannot be read fails it for good (in Conductor it wedges the workflow). HUMAN waits for a report, NOOP for
nothing. Sources of the rules: Conductor's `SetVariable`, `Terminate`, `Wait`, `Human`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.changeset import PUT_OFF, Changeset
from conductorlite.decide.changeset.documents import LostInput
from conductorlite.decide.operators.do_while import go_round, schedule_loop
from conductorlite.decide.operators.document import rendered
from conductorlite.decide.operators.join import branches_ended, schedule_exclusive_join, schedule_fork, schedule_join
from conductorlite.decide.operators.worker import schedule_worker, start_deadlines, total_timeout_at
from conductorlite.decide.reasons import too_many_variables
from conductorlite.language.values import to_text
from conductorlite.model.decisions import EventKind
from conductorlite.model.errors import InvalidExpression, InvalidInput
from conductorlite.model.executions import Task, own_task, printed_ref
from conductorlite.model.later import functions
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node

if TYPE_CHECKING:
    from conductorlite.decide.operators.dynamic import resolve_dynamic, schedule_dynamic_fork
    from conductorlite.decide.operators.scripts import (
        schedule_decision,
        schedule_inline,
        schedule_lambda,
        schedule_switch,
        schedule_transform,
    )
    from conductorlite.decide.operators.sub_workflow import schedule_start_workflow, schedule_sub_workflow
    from conductorlite.decide.streams import schedule_emit
    from conductorlite.language.durations import parse_duration, parse_until
    from conductorlite.model.mailbox import topic_of
else:
    (topic_of,) = functions("conductorlite.model.mailbox", "topic_of")
    resolve_dynamic, schedule_dynamic_fork = functions(
        "conductorlite.decide.operators.dynamic", "resolve_dynamic", "schedule_dynamic_fork"
    )
    schedule_decision, schedule_inline, schedule_lambda, schedule_switch, schedule_transform = functions(
        "conductorlite.decide.operators.scripts",
        "schedule_decision",
        "schedule_inline",
        "schedule_lambda",
        "schedule_switch",
        "schedule_transform",
    )
    (schedule_emit,) = functions("conductorlite.decide.streams", "schedule_emit")
    schedule_start_workflow, schedule_sub_workflow = functions(
        "conductorlite.decide.operators.sub_workflow", "schedule_start_workflow", "schedule_sub_workflow"
    )
    parse_duration, parse_until = functions("conductorlite.language.durations", "parse_duration", "parse_until")

__all__ = ["VARIABLES_LIMIT", "begin_retry", "reschedule", "schedule", "scope_is_empty", "wait_until"]


def schedule_wait(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Start waiting. A WAIT that was canceled with its execution and is retried waits for the same instant as before.

    A PULL_WORKFLOW_MESSAGES waits for messages, and no longer than that.
    """
    ref = printed_ref(node.ref, iterations)
    task_id = changeset.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(changeset, node, iterations, task_id)
    until: int | None = None
    problem: str | None = None
    if previous is not None and previous.wait_until is not None:
        until = previous.wait_until
    else:
        try:
            until = wait_until(values, changeset.moment.now)
        except InvalidExpression as error:
            problem = str(error)
    pulls = node.task.type == "PULL_WORKFLOW_MESSAGES"
    if pulls and topic_of(values) is None:
        problem = f"{str(values.get('topic'))[:60]!r} is no topic: that is a text, and does not begin with 'task:'"
    given = changeset.documents.payload(values)
    if problem:
        failed = TaskStatus.FAILED_WITH_TERMINAL_ERROR
        changeset.create_ended(node, iterations, failed, previous=previous, input=given, reason=problem)
        return
    task = changeset.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=given,
        wait_until=until,
    )
    start_deadlines(changeset, node, task, previous)
    _receive(changeset, ref, at_once=pulls and values.get("blocking") is False)


def schedule_human(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Wait for a report on the task; it times out only if its definition says so."""
    ref = printed_ref(node.ref, iterations)
    task_id = changeset.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(changeset, node, iterations, task_id)
    task = changeset.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=changeset.documents.payload(values),
    )
    start_deadlines(changeset, node, task, previous)
    _receive(changeset, ref)


def _receive(changeset: Changeset, ref: str, *, at_once: bool = False) -> None:
    """Have a task that has begun receive what was sent before, when its row is settled; with `at_once` it ends with that."""
    if changeset.workflow.unreceived or at_once:
        changeset.work.queue.append(("receive", ref))


def wait_until(values: Mapping[str, object], now: int) -> int | None:
    """The instant that the input of a WAIT names, if it does; raises InvalidExpression."""
    duration, until = _as_text(values.get("duration")).strip(), _as_text(values.get("until"))
    dated = bool(until.strip())
    if duration and dated:
        raise InvalidExpression("Both 'duration' and 'until' specified. Please provide only one input")
    if duration:
        return now + parse_duration(duration)
    # Conductor reads the text as it is: blanks around a date are an error.
    return parse_until(until, "UTC") if dated else None


def _as_text(value: object) -> str:
    return "" if value is None else to_text(value)


def schedule_noop(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over. What is tried again is the DYNAMIC that stands for it."""
    changeset.create_ended(node, iterations, TaskStatus.COMPLETED, previous=previous)


_STATUSES: Final = (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED)


def schedule_terminate(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over."""
    task_id = changeset.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
    values = rendered(changeset, node, iterations, task_id)
    status = values.get("terminationStatus")
    problem = None
    if status not in _STATUSES:
        problem = f"given termination status is not valid: {status!r} is none of {', '.join(_STATUSES)}"
    changeset.create_ended(
        node,
        iterations,
        TaskStatus.FAILED if problem else TaskStatus.COMPLETED,
        previous=previous,
        input=changeset.documents.payload(values),
        output=changeset.documents.payload({} if problem else _output(values.get("workflowOutput"))),
        reason=problem,
    )


def _output(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"output": value}


#: Bytes of JSON that all variables of a workflow may have together.
VARIABLES_LIMIT: Final = 256 * 1024


def schedule_set_variable(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over, and change the variables."""
    values = rendered(changeset, node, iterations)
    variables = changeset.documents.payload({**changeset.documents.value(changeset.workflow.variables), **values})
    size = len((variables.text or "").encode())
    problem: str | None = None
    sentence: str | None = None
    if size > VARIABLES_LIMIT:
        problem, sentence = too_many_variables(changeset.workflow, size, VARIABLES_LIMIT)
    changeset.create_ended(
        node,
        iterations,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR if problem else TaskStatus.COMPLETED,
        previous=previous,
        input=changeset.documents.payload(values),
        reason=problem,
        conductor_reason=sentence,
    )
    if problem is None:
        changeset.change(variables=variables)


_FIRST: Final[Mapping[str, Callable[[Changeset, Node, tuple[int, ...]], None]]] = {
    "FORK_JOIN": schedule_fork,
    "JOIN": schedule_join,
    "SWITCH": schedule_switch,
    "DO_WHILE": schedule_loop,
    "WAIT": schedule_wait,
    "NOOP": schedule_noop,
    "INLINE": schedule_inline,
    "SET_VARIABLE": schedule_set_variable,
    "SUB_WORKFLOW": schedule_sub_workflow,
    "TERMINATE": schedule_terminate,
    "FORK_JOIN_DYNAMIC": schedule_dynamic_fork,
    "START_WORKFLOW": schedule_start_workflow,
    "DECISION": schedule_decision,
    "EXCLUSIVE_JOIN": schedule_exclusive_join,
    "HUMAN": schedule_human,
    "PULL_WORKFLOW_MESSAGES": schedule_wait,
    "LAMBDA": schedule_lambda,
    "JSON_JQ_TRANSFORM": schedule_transform,
    "EMIT": schedule_emit,
}

#: Those that are tried again as the operators they are.
_AGAIN: Final[Mapping[str, Callable[[Changeset, Node, tuple[int, ...], Task], None]]] = {
    "SWITCH": schedule_switch,
    "WAIT": schedule_wait,
    "NOOP": schedule_noop,
    "INLINE": schedule_inline,
    "SET_VARIABLE": schedule_set_variable,
    "TERMINATE": schedule_terminate,
    "FORK_JOIN_DYNAMIC": schedule_dynamic_fork,
    "DECISION": schedule_decision,
    "HUMAN": schedule_human,
    "PULL_WORKFLOW_MESSAGES": schedule_wait,
    "LAMBDA": schedule_lambda,
    "JSON_JQ_TRANSFORM": schedule_transform,
    "EMIT": schedule_emit,
    "SUB_WORKFLOW": lambda changeset, node, iterations, previous: schedule_sub_workflow(changeset, node, iterations, previous, 0),
    "START_WORKFLOW": lambda changeset, node, iterations, previous: schedule_start_workflow(
        changeset, node, iterations, previous, 0
    ),
}


def schedule(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """Schedule the first attempt at a node. One whose input would be too large has failed for good."""
    changeset.documents.strict = True
    if node.compensates is not None:
        _look_from(changeset, node, iterations)
    try:
        if node.task.type == "DYNAMIC":
            resolve_dynamic(changeset, node, iterations, None, lambda found: schedule(changeset, found, iterations))
        else:
            _FIRST.get(node.task.type, schedule_worker)(changeset, node, iterations)
    except InvalidInput as error:
        _fail(changeset, node, iterations, None, error)
    finally:
        changeset.documents.strict, changeset.rows.standpoint = False, None


def reschedule(changeset: Changeset, node: Node, previous: Task, delay_ms: int) -> None:
    """Schedule the attempt after `previous`, to begin or be offered `delay_ms` from now."""
    _look_from(changeset, node, previous.iterations)
    try:
        _schedule_again(changeset, node, previous, delay_ms)
    except InvalidInput as error:
        _fail(changeset, node, previous.iterations, previous, error)
    finally:
        changeset.documents.strict, changeset.rows.standpoint = False, None


def _look_from(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """A compensation reads the round it undoes, not the newest one. What an input is made of must be there."""
    changeset.documents.strict = True
    if node.compensates is not None:
        changeset.rows.standpoint = (node.loops, iterations)


def _fail(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None, error: InvalidInput) -> None:
    changeset.create_ended(
        node,
        iterations,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        previous=previous,
        reason=f"its input cannot be {'read' if isinstance(error, LostInput) else 'kept'}: {error}",
    )


def _schedule_again(changeset: Changeset, node: Node, previous: Task, delay_ms: int) -> None:
    again = _AGAIN.get(node.task.type)
    if node.task.type == "DYNAMIC":  # nothing it could stand for was found
        resolve_dynamic(
            changeset,
            node,
            previous.iterations,
            previous,
            lambda found: _schedule_again(changeset, found, previous, delay_ms),
        )
    elif delay_ms > 0 and node.task.type in PUT_OFF:
        _put_off(changeset, node, previous, delay_ms)
    elif again is not None:
        again(changeset, node, previous.iterations, previous)
    else:
        schedule_worker(changeset, node, previous.iterations, previous, delay_ms)


def _put_off(changeset: Changeset, node: Node, previous: Task, delay_ms: int) -> None:
    """Create the row of a retry that begins later: SCHEDULED, and of its deadlines only the total one runs meanwhile."""
    at = changeset.moment.after(delay_ms)
    task = changeset.create(
        node,
        previous.iterations,
        TaskStatus.SCHEDULED,
        previous=previous,
        input=previous.input,
        start_delay_ms=delay_ms,
        due_at=at,
        total_timeout_at=total_timeout_at(changeset, node, previous),
        # A WAIT waits for the same instant as before.
        wait_until=None if previous.wait_until is None else max(previous.wait_until, at),
    )
    changeset.events.date(task, EventKind.ADMISSION, at)


def begin_retry(changeset: Changeset, task: Task) -> None:
    """Begin a retry of an operator whose delay is over, as the row it is."""
    changeset.beginning = task
    try:
        before = own_task(task)
        before.attempt, before.task_id = task.attempt - 1, task.retried_task_id or ""
        reschedule(changeset, changeset.rows.node(task), before, 0)
    finally:
        changeset.beginning = None


def scope_is_empty(changeset: Changeset, task: Task) -> None:
    """Nothing is live any more in a loop's round, or in the branches of a dynamic fork: go on."""
    node = changeset.rows.node(task)
    if node.collects:
        branches_ended(changeset, task)
    else:
        go_round(changeset, node, task)
