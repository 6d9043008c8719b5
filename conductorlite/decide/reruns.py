"""Executions that are run again, whole or from a task on: `restart` and `rerun`.

What comes after the task in the flow is taken back: what follows it in its list and in the lists around it, later rounds of the
loops around it, what is inside it. The other branches of a fork stay as they are, except that in an ended execution what failed
or was canceled there is tried again. JOINs of forks and loops around the task are reopened as the rows they are. (Conductor
deletes by order of scheduling instead, and so hits other branches; see the compatibility page.)
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from conductorlite.decide.admissions import reopens
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.endings import leave_limit, set_workflow_timeout, was_compensated
from conductorlite.decide.messages import give_back
from conductorlite.decide.operators.do_while import set_round
from conductorlite.decide.retries import follow_up_all, go_on, notify_parent_reopened, recount, reopen, reopen_workflow
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, Task, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.tree import levels

__all__ = ["on_rerun", "on_restart"]


def on_restart(changeset: Changeset, event: Event) -> None:
    """Run an ended workflow again from the start with the same input, on its definition or on the one the event names."""
    status = changeset.workflow.status
    if not status.terminal:
        changeset.reply(event, Outcome.CONFLICT, f"a {status} workflow cannot be restarted: terminate it first")
    elif status is WorkflowStatus.COMPLETED and not changeset.plan.definition.restartable:
        changeset.reply(event, Outcome.CONFLICT, "its definition says that a COMPLETED workflow is not restartable")
    elif (problem := _input_problem(changeset, changeset.documents.value(event.data))) is not None:
        changeset.reply(event, Outcome.CONFLICT, problem)
    else:
        _begin_again(changeset, "RESTART", changeset.documents.value(event.data))


def on_rerun(changeset: Changeset, event: Event) -> None:
    """Run a workflow again from a task on, or from the start, possibly with another input."""
    said = changeset.documents.value(event.data)
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.reply(event, Outcome.CONFLICT, "a PAUSED workflow cannot be rerun: resume it first")
        return
    problem = _input_problem(changeset, said)
    if problem is not None:
        changeset.reply(event, Outcome.CONFLICT, problem)
        return
    if said.get("ref") is None:
        _begin_again(changeset, "RERUN", said)
        return
    if was_compensated(changeset, changeset.rows.everything()):
        changeset.reply(event, Outcome.CONFLICT, "the workflow was compensated: restart it, or rerun it from the start")
        return
    target = changeset.rows.latest(said["ref"]) if changeset.rows.task(said["ref"]) is None else changeset.rows.known(said["ref"])
    if target is None:
        changeset.reply(event, Outcome.MISSING, f"the execution has no task {said['ref']!r}")
    elif target.skipped_ahead or (placed := changeset.rows.placed(target)) is None or placed.unreachable:
        changeset.reply(event, Outcome.CONFLICT, f"the flow does not come to {target.ref!r}")
    elif not _is_held(changeset, target):
        changeset.reply(event, Outcome.CONFLICT, f"{target.ref!r} is of a round whose fork `keepLastN` has dropped")
    elif target.status is TaskStatus.SKIPPED and changeset.rows.node(target).behind_fork:
        changeset.reply(event, Outcome.CONFLICT, f"{target.ref!r} was skipped with its fork: rerun the fork")
    elif changeset.workflow.rate_limited and not changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.CONFLICT, f"the execution waits for a slot of {changeset.workflow.rate_limit_key!r}")
    elif reopens(changeset, event):
        _run_from(changeset, target, said)


def _is_held(changeset: Changeset, target: Task) -> bool:
    """Return True if the loops and forks around a task remain: of a round that is dropped the branches made at run time stay."""
    scopes = changeset.rows.node(target).scopes
    return all(changeset.rows.task(printed_ref(scope, target.iterations[:depth])) is not None for scope, depth in scopes)


def _begin_again(changeset: Changeset, verb: str, said: dict[str, Any]) -> None:
    """Take everything back and start again, in a turn of its own, for the definition may be another one."""
    rows = changeset.rows.everything()
    leave_limit(changeset)  # it asks again when it starts, under the key of that definition
    changeset.counting = False
    changeset.take_back(_innermost_first(changeset, rows))
    give_back(changeset, {task.ref for task in rows})
    changeset.recount()
    _record_verb(changeset, verb, said, rows)
    reopen_workflow(changeset)
    changeset.work.reopening = False
    changeset.start_order_again()
    changeset.events.cancel(EventKind.WORKFLOW_TIMEOUT)
    changeset.take_back_start()
    changeset.change(
        variables=changeset.documents.payload(said.get("variables", dict(changeset.plan.definition.variables))),
        definition_hash=said.get("definitionHash", changeset.workflow.definition_hash),
        name=said.get("name", changeset.workflow.name),
        version=said.get("version", changeset.workflow.version),
    )
    _change_input(changeset, said)
    changeset.work.clear()
    changeset.events.post(EventKind.START, EventKind.START, changeset.moment.clock)
    changeset.more = True
    notify_parent_reopened(changeset)


def _input_problem(changeset: Changeset, said: dict[str, Any]) -> str | None:
    """Why the input a workflow would run again with cannot be: it is too large, or cannot be read; None when it stays as it is."""
    given = _new_input(changeset, said)
    return None if given is None else changeset.documents.refusal("workflow_input", given)


def _new_input(changeset: Changeset, said: dict[str, Any]) -> Payload | None:
    given = said.get("input")
    template = said.get("inputTemplate")
    if given is None and not template:
        return None
    values = changeset.documents.value(changeset.workflow.input) if given is None else given
    template = dict(changeset.plan.definition.input_template) if template is None else template
    return Payload.of(apply_workflow_input_template(dict(values), template))


def _change_input(changeset: Changeset, said: dict[str, Any]) -> None:
    if said.get("correlationId") is not None:
        changeset.change(correlation_id=said["correlationId"])
    given = _new_input(changeset, said)
    if given is not None:
        changeset.change(input=changeset.documents.keep(given))


def _record_verb(changeset: Changeset, verb: str, said: dict[str, Any], dropped: list[Task]) -> None:
    shown = {key: value for key, value in said.items() if key not in ("ref", "variables", "inputTemplate")}
    payload = Payload.of({**shown, "dropped": [task.ref for task in dropped]}, bounded=False)
    changeset.journal.add(HistoryKind.VERB, verb, ref=said.get("ref"), payload=changeset.documents.keep(payload))


# ---------------------------------------------------------------------- from a task on


class _Place(Enum):
    """Position of a task as seen from another."""

    BEFORE = auto()
    AFTER = auto()
    BESIDE = auto()
    INSIDE = auto()
    AROUND = auto()
    SAME = auto()


def _run_from(changeset: Changeset, target: Task, said: dict[str, Any]) -> None:
    ended = changeset.workflow.status.terminal
    in_place = changeset.rows.node(target).task.type == "JOIN"
    places = {task.ref: _place(changeset, target, task) for task in changeset.rows.everything()}
    around = [task for task in changeset.rows.everything() if places[task.ref] is _Place.AROUND]
    joins = {join.ref for join in _joins_of(changeset, around)} | ({target.ref} if in_place else set())
    gone = [
        task
        for task in changeset.rows.everything()
        if places[task.ref] in (_Place.AFTER, _Place.INSIDE, _Place.SAME) and task.ref not in joins
    ]
    failed = [
        task for task in changeset.rows.everything() if ended and task.ref not in joins and _tried_again(task, places[task.ref])
    ]
    changeset.counting = False
    origin = _origin(changeset, target)
    changeset.take_back(_innermost_first(changeset, gone))
    give_back(changeset, {task.ref for task in gone})
    _record_verb(changeset, "RERUN", said, gone)
    reopen_workflow(changeset)
    _change_input(changeset, said)
    if ended:
        set_workflow_timeout(changeset)
    for task in sorted(around, key=lambda task: len(task.iterations)):
        if changeset.rows.node(task).task.type == "DO_WHILE":
            round_of_target = target.iterations[len(task.iterations)]
            loop = changeset.rows.known(task.ref)
            _wait_again(changeset, loop, set_round(changeset, loop, round_of_target))
    for ref in sorted(joins):
        _wait_again(changeset, changeset.rows.known(ref), {"output": EMPTY})
    left = {task.ref for task in changeset.rows.everything() if task.live and task.status.terminal and not task.failed}
    left -= {task.ref for task in failed}
    if not ended:
        left |= {task.ref for task in changeset.rows.everything() if task.live and task.failed}
    reopen(changeset, failed)
    recount(changeset)
    changeset.change(skips=sum(task.skipped_ahead for task in changeset.rows.everything()))
    follow_up_all(changeset, left, around=frozenset(task.ref for task in around))
    if not in_place:
        item = ("schedule", origin.ref, list(target.iterations), list(origin.grafts))
        changeset.work.stack.append(item if said.get("taskInput") is None else (*item, said["taskInput"]))
    if ended:
        notify_parent_reopened(changeset)


def _tried_again(task: Task, place: _Place) -> bool:
    """Return True if a task that is not run again by itself is tried again: it failed the execution, or was canceled with it."""
    if place is _Place.BESIDE and task.failed:
        return True
    canceled = task.failed or task.status is TaskStatus.CANCELED
    return place in (_Place.BEFORE, _Place.BESIDE) and canceled and not task.executed


def _origin(changeset: Changeset, target: Task) -> Node:
    """The node of the definition that a row came from: for what a DYNAMIC stood for, the DYNAMIC."""
    outer = changeset.rows.plan_of(target.grafts[:-1]).nodes.get(target.base_ref) if target.grafts else None
    return changeset.rows.node(target) if outer is None else outer


def _joins_of(changeset: Changeset, around: list[Task]) -> list[Task]:
    """The JOINs of the forks around a task."""
    joins = ((changeset.rows.node(task).join, task.iterations) for task in around)
    found = [changeset.rows.task(printed_ref(ref, iterations)) for ref, iterations in joins if ref is not None]
    return [task for task in found if task is not None]


def _wait_again(changeset: Changeset, task: Task, fields: dict[str, Any]) -> None:
    """Have a loop or a JOIN wait again for what is in it; nothing has followed from it any more."""
    if task.status.terminal:
        changeset.events.cancel(f"{EventKind.CONTINUE}:{task.ref}")
        go_on(changeset, task, generation=changeset.workflow.generation, succeeded_before=False, **fields)
    else:
        changeset.put(task, updated_at=changeset.moment.now, reason=None, succeeded_before=False, **fields)


def _innermost_first(changeset: Changeset, tasks: list[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: -len(placed.scopes) if (placed := changeset.rows.placed(task)) is not None else 0)


def _place(changeset: Changeset, target: Task, task: Task) -> _Place:
    """Return the position of a task in the flow as seen from `target`."""
    placed = changeset.rows.placed(task)
    if placed is None or placed.unreachable:
        return _Place.BESIDE
    mine, other = changeset.rows.node(target).route, placed.route
    depth = 0
    for (my_list, my_index), (its_list, its_index) in zip(levels(mine), levels(other), strict=False):
        if my_list != its_list:
            return _Place.BESIDE
        if my_list[1] == "body":
            my_round, its_round = target.iterations[depth], task.iterations[depth]
            depth += 1
            if my_round != its_round:
                return _Place.AFTER if its_round > my_round else _Place.BEFORE
        if my_index != its_index:
            return _Place.AFTER if its_index > my_index else _Place.BEFORE
    if len(mine) == len(other):
        return _Place.SAME
    return _Place.INSIDE if len(other) > len(mine) else _Place.AROUND
