"""DO_WHILE: runs its body again while the condition holds, or once per item of a list.

The row counts the live tasks of the present round; when none is left the round is over and the condition is asked. The
condition is given only the names, and the rounds of the loop, that occur in it, so a round costs the same at the tenth and at the
ten-thousandth. The output of all rounds is collected once, when the loop ends. Source of the rule: Conductor's `DoWhile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import ExpressionContext, loop_payload, output_with_rounds, rendered
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.language.conditions import is_true
from conductorlite.language.templates import Template
from conductorlite.language.values import MISSING, Json
from conductorlite.model.canonical import Payload
from conductorlite.model.errors import ExpressionFailed, InvalidInput, raised_by
from conductorlite.model.executions import HistoryKind, Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["go_round", "next_round", "reopened_loop", "resume_loop", "round_output", "schedule_loop", "set_round", "with_rounds"]

#: Rounds that may follow each other while nothing is waited for, of all loops together: past that they never end.
_MOST_AT_ONCE: Final = 10_000


def schedule_loop(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the row; its first round follows from the work list."""
    ref = printed_ref(node.ref, iterations)
    values = rendered(changeset, node, iterations, changeset.task_id(ref, 0))
    loop = changeset.create(node, iterations, TaskStatus.IN_PROGRESS, input=changeset.documents.payload(values))
    start_deadlines(changeset, node, loop)
    changeset.work.queue.append(("round", ref))


def next_round(changeset: Changeset, ref: str) -> None:
    """Enter the next round, or end the loop."""
    loop = changeset.rows.known(ref)
    go_round(changeset, changeset.rows.node(loop), loop)


def go_round(changeset: Changeset, node: Node, loop: Task) -> None:
    """Enter the next round of the loop that a row stands for, or end the loop."""
    if loop.status.terminal or loop.open:
        return
    if loop.failed_child is not None:
        _end(changeset, loop, TaskStatus.FAILED, loop.failed_child, {"conductor_reason": loop.conductor_failed_child})
        return
    changeset.documents.strict = True
    try:
        items = None if node.items is None else _items(changeset, node.items, node, loop)
        again = _again(changeset, node, loop, items)
    except (ExpressionFailed, InvalidInput) as error:
        changeset.documents.strict = False
        raised = raised_by(error)
        reason = str(error) if raised else f"Unable to evaluate condition {node.task.loop_condition}, exception {error}"
        _end(changeset, loop, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason, raised)
        return
    finally:
        changeset.documents.strict = False
    if "keepLastN" in node.task.input_parameters:
        _forget(changeset, node, loop)
    if not again:
        _end(changeset, loop, TaskStatus.COMPLETED, None)
        return
    changeset.work.rounds += 1
    if changeset.work.rounds > _MOST_AT_ONCE:
        _end(changeset, loop, TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"{_MOST_AT_ONCE:,} rounds without anything to wait for")
        return
    number = loop.round + 1
    if items is None and changeset.documents.lost is None:
        kept = round_output(number)
    else:
        output: dict[str, Any] = {"iteration": number}
        if items is not None:
            output |= {"loopIndex": number - 1, "loopItem": items[number - 1]}
        kept = changeset.documents.payload(output)
        problem = changeset.documents.refusal("task_output", kept)
        if problem is not None:
            _end(changeset, loop, TaskStatus.FAILED_WITH_TERMINAL_ERROR, problem)
            return
    row: Any = changeset.rows.own(loop)  # its status stays, and so does what counts it
    row.round, row.output = number, kept
    changeset.journal.add(HistoryKind.ROUND, "IN_PROGRESS", ref=loop.ref, attempt=loop.attempt, number=number)
    if node.body is not None:
        changeset.follow(loop, node.body, (*loop.iterations, number))


def round_output(number: int) -> Payload:
    """Return what a loop without a list shows of itself in a round."""
    kept = Payload(f'{{"iteration":{number}}}')
    kept.value, kept.flat = {"iteration": number}, True
    return kept


def _end(changeset: Changeset, loop: Task, status: TaskStatus, reason: str | None, fields: Mapping[str, Any] | None = None) -> None:
    """End a loop with what its rounds put out; more than can be kept fails it for good."""
    try:
        output = changeset.documents.payload({"iteration": 0}) if loop.round == 0 else loop_payload(changeset, loop)
    except InvalidInput as error:
        changeset.close(loop, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=f"its output cannot be kept: {error}")
    else:
        changeset.close(loop, status, output=output, reason=reason, **(fields or {}))


def with_rounds(changeset: Changeset, loop: Task) -> Task:
    """A loop that is ended from outside, with what its rounds have put out so far, if that can be kept; any other task as it is."""
    if loop.round == 0 or changeset.rows.node(loop).task.type != "DO_WHILE":
        return loop
    lost = changeset.documents.lost
    try:
        output = loop_payload(changeset, loop)
    except InvalidInput:
        return loop
    if changeset.documents.refusal("task_output", output) is not None:
        changeset.documents.lost = lost
        return loop
    return changeset.put(loop, output=changeset.documents.keep(output))


def _kept(node: Node, loop: Task) -> int:
    """The first round whose tasks are still there: keepLastN keeps that many, the present one included."""
    last = node.task.input_parameters.get("keepLastN")
    return 1 if not isinstance(last, int) or isinstance(last, bool) or last < 1 else max(1, loop.round - last + 1)


def _forget(changeset: Changeset, node: Node, loop: Task) -> None:
    """Delete the tasks of the round that has just fallen behind keepLastN, with those of the loops inside it."""
    gone = _kept(node, loop) - 1
    if gone < 1:
        return
    found: list[Task] = []
    pending = [(member, (*loop.iterations, gone)) for member in node.members]
    while pending:
        refs = [printed_ref(member, place) for member, place in pending]
        tasks = [task for task in changeset.rows.known_tasks(refs) if task is not None]
        found += tasks
        pending = [
            (member, (*task.iterations, number))
            for task in tasks
            for number in range(1, task.round + 1)
            for member in changeset.rows.node(task).members
        ]
    if found:
        changeset.drop(found)
        refs_gone = changeset.documents.payload({"dropped": [task.ref for task in found]})
        changeset.journal.add(HistoryKind.ROUND, "DROPPED", ref=loop.ref, attempt=loop.attempt, number=gone, payload=refs_gone)


def _items(changeset: Changeset, items: Template, node: Node, loop: Task) -> list[Json]:
    """The list the loop runs over, resolved again as in Conductor."""
    value = items.render(ExpressionContext(changeset, items.reads, loop.task_id))
    if value is None and "_items" in node.task.input_parameters:
        value = changeset.documents.value(loop.input).get("_items")
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _again(changeset: Changeset, node: Node, loop: Task, items: list[Json] | None) -> bool:
    if items is not None and loop.round >= len(items):
        return False
    if loop.round == 0:
        return True
    if node.condition is None:
        return items is not None
    answer = changeset.documents.answer(node.condition, _values(changeset, node, loop, items), f"{loop.task_id}:{loop.round}")
    return answer if type(answer) is bool else is_true(answer)


def _values(changeset: Changeset, node: Node, loop: Task, items: list[Json] | None) -> dict[str, Any]:
    """Return what the condition sees: fresh inputParameters, the loop's output under its own name, each task's under its."""
    condition = node.condition
    values: dict[str, Any] = {}
    if node.task.input_parameters or node.task.task_definition is not None:
        values = node.template.render(ExpressionContext(changeset, node.template.reads, loop.task_id))
    if items is not None and loop.round:
        values |= {"loopIndex": loop.round - 1, "loopItem": items[loop.round - 1]}
    names = None if condition is None or condition.everything else condition.names
    if names is None or node.ref in names:
        keys = None if condition is None else condition.keys_of(node.ref)
        values[node.ref] = output_with_rounds(changeset, loop, keys) if loop.round else changeset.documents.value(loop.output)
    read = node.inside if names is None else node.inside & names
    if not read:
        return values
    source = ExpressionContext(changeset, node.template.reads)
    for ref in sorted(read):
        output = source.member(ref, "output")
        if output is not MISSING:
            values[ref] = output
    return values


def resume_loop(changeset: Changeset, loop: Task) -> None:
    """Go on with a loop that was reopened: with its body if the present round has not begun, else when the round is over."""
    node = changeset.rows.node(loop)
    members = changeset.rows.known_tasks(printed_ref(member, (*loop.iterations, loop.round)) for member in node.members)
    if loop.round and all(task is None for task in members):
        if node.body is not None:
            changeset.follow(loop, node.body, (*loop.iterations, loop.round))
    else:
        changeset.work.queue.append(("round", loop.ref))


def set_round(changeset: Changeset, loop: Task, number: int) -> dict[str, Any]:
    """Fields of a loop that goes on in a round that has begun already, as they were in that round."""
    node = changeset.rows.node(loop)
    output: dict[str, Any] = {"iteration": number}
    items = None if node.items is None else _items(changeset, node.items, node, loop)
    if items is not None and number <= len(items):
        output |= {"loopIndex": number - 1, "loopItem": items[number - 1]}
    if number != loop.round:
        changeset.journal.add(HistoryKind.ROUND, "IN_PROGRESS", ref=loop.ref, attempt=loop.attempt, number=number)
    return {"failed_child": None, "conductor_failed_child": None, "round": number, "output": changeset.documents.payload(output)}


def reopened_loop(changeset: Changeset, loop: Task) -> dict[str, Any]:
    """Fields a loop takes back when its execution is reopened: its present round goes on."""
    kept = {key: value for key, value in changeset.documents.value(loop.output).items() if key in ("loopIndex", "loopItem")}
    output = {"iteration": loop.round, **kept} if loop.round else {}
    return {"failed_child": None, "conductor_failed_child": None, "output": changeset.documents.payload(output)}
