"""Reads of a turn, as far as its events show: asked for in one batch, so that a slow reader is asked once.

A wrong guess costs a read, here or later; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.events import TIMEOUTS, counted
from conductorlite.decide.changeset.reader import Reader
from conductorlite.decide.changeset.work_list import Item
from conductorlite.decide.operators.join import branches_left
from conductorlite.decide.transitions import attempt_id
from conductorlite.language.jsonpath import Reads
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Workflow, printed_ref
from conductorlite.model.limits import task_key
from conductorlite.plan.compile import Node, Plan, split_ref

__all__ = ["prefetch", "prefetch_end", "prefetch_rest"]

#: Items of the work list that begin with the row they name.
_ABOUT_ROWS: Final = frozenset({"advance", "executed", "branch"})

#: Events after which a task may have ended, and its successors are scheduled.
_ENDING: Final = frozenset(
    {
        EventKind.REPORT,
        EventKind.CHILD_ENDED,
        EventKind.STARTED,
        EventKind.WAIT_ENDS,
        EventKind.POLL_TIMEOUT,
        EventKind.RESPONSE_TIMEOUT,
        EventKind.TASK_TIMEOUT,
        EventKind.TOTAL_TIMEOUT,
    }
)

#: Verbs that look at every row there is.
_WHOLE: Final = frozenset({EventKind.RETRY, EventKind.RESTART, EventKind.RERUN, EventKind.CHILD_REOPENED})

#: Events that a limit has written, which name it.
_OF_LIMITS: Final = frozenset({EventKind.GRANTED, EventKind.WINDOW_MOVES})


def prefetch(plan: Plan, reader: Reader, events: Sequence[Event]) -> None:
    """Have the reader load what these events are about, and what scheduling the successors of their tasks reads."""
    workflow = reader.workflow
    if workflow.history_seq == 0:
        return  # it has no rows yet
    wanted = _Wanted()
    extended: list[Event] = []
    for event in events:
        if event.kind is EventKind.TERMINATE and not workflow.status.terminal:
            _add_end(wanted, plan, workflow)
        elif event.kind in _WHOLE:
            wanted.everything = True
        elif event.kind is EventKind.CLOCK_SET or (event.kind is EventKind.MIGRATE and len(events) == 1):
            wanted.everything = wanted.inbox = True
        elif event.kind is EventKind.DEBOUNCE:
            wanted.inbox = True
        elif event.kind in _OF_LIMITS and not event.data.absent:
            _add_limit(wanted, event)
        if event.ref is None:
            continue
        wanted.refs.add(event.ref)
        if event.kind in TIMEOUTS and counted(event) is not None:
            wanted.left.append(event)
        if workflow.status.terminal or not (event.kind in _ENDING or plan.limited):
            continue
        base, iterations = (event.ref, ()) if event.ref in plan.nodes else split_ref(plan, event.ref)
        if base in plan.nodes:
            _add_task(wanted, plan, workflow, event, base, iterations)
        else:
            extended.append(event)
    reader.prefetch(**vars(wanted))
    if extended:
        _prefetch_grown(reader, extended)


def _prefetch_grown(reader: Reader, events: Sequence[Event]) -> None:
    """Have the reader load what events of tasks made at run time need: only their rows say which definition they have."""
    workflow = reader.workflow
    wanted = _Wanted()
    for event in events:
        task = reader.task(event.ref or "")
        if task is not None and task.grafts:
            plan = reader.plan(workflow.definition_hash, task.grafts)
            if task.base_ref in plan.nodes:
                _add_task(wanted, plan, workflow, event, task.base_ref, task.iterations)
    reader.prefetch(**vars(wanted))


class _Wanted:
    """References and other keys that are to be loaded."""

    def __init__(self) -> None:
        self.refs: set[str] = set()
        self.latest: set[str] = set()
        self.limits: set[str] = set()
        self.members: set[tuple[str, str]] = set()
        self.left: list[Event] = []
        self.live = self.failed = self.everything = self.inbox = False


def prefetch_end(plan: Plan, reader: Reader, *, everything: bool, output: bool) -> None:
    """Have the reader load what ending an execution before its time looks at; `output` if it puts out what it would at its end."""
    wanted = _Wanted()
    _add_end(wanted, plan, reader.workflow, output=output)
    wanted.everything = everything
    reader.prefetch(**vars(wanted))


def _add_end(wanted: _Wanted, plan: Plan, workflow: Workflow, *, output: bool = True) -> None:
    wanted.live = wanted.failed = True
    if output and plan.output is not None:
        _add_reads(wanted, plan, plan.output.reads)
    elif output and workflow.last_ref is not None:
        wanted.refs.add(workflow.last_ref)


def _add_limit(wanted: _Wanted, event: Event) -> None:
    said = event.data.value
    wanted.limits.add(said["key"])
    if "holder" in said:
        wanted.members.add((said["key"], said["holder"]))


def _add_task(wanted: _Wanted, plan: Plan, workflow: Workflow, event: Event, base: str, iterations: tuple[int, ...]) -> None:
    node = plan.nodes[base]
    if plan.limited and node.limit:
        key = task_key(node.task.name)
        wanted.limits.add(key)
        wanted.members.add((key, attempt_id(workflow, event.ref or "", event.attempt, event.generation)))
    if event.kind not in _ENDING:
        return
    if node.compensates is not None:
        wanted.refs.add(printed_ref(node.compensates, iterations))
        return
    if node.scopes or node.joins:
        _add_counting(wanted.refs, plan, node, iterations)
    _add_reads(wanted, plan, plan.ahead[base])
    if event.kind is not EventKind.REPORT or event.data.value.get("status") == "FAILED":
        _add_reads(wanted, plan, node.template.reads)
    successor = plan.nodes.get(node.successor or "") if plan.limited or node.grafts else None
    if successor is not None and successor.limit:
        wanted.limits.add(task_key(successor.task.name))
    if successor is not None and node.grafts:  # there may be another task of its name
        wanted.refs.add(printed_ref(successor.ref, iterations))


def _add_counting(refs: set[str], plan: Plan, node: Node, iterations: tuple[int, ...]) -> None:
    """Add what counts a task while it is live, and the JOINs it arrives at."""
    for scope, depth in node.scopes[-1:]:
        refs.add(printed_ref(scope, iterations[:depth]))
    for join in node.joins:
        refs.add(printed_ref(join, iterations[: len(plan.nodes[join].loops)]))


def _add_reads(wanted: _Wanted, plan: Plan, reads: Reads) -> None:
    for root in reads.names:
        node = plan.nodes.get(root)
        if node is not None:
            (wanted.latest if node.loops else wanted.refs).add(root)


def prefetch_rest(changeset: Changeset) -> None:
    """Have the reader load what the rest of a cut turn is about.

    Only for what this turn will come to: a fork with many branches left fills it.
    """
    refs: set[str] = set()
    unknown: list[Item] = []
    left = 0
    for item in changeset.work.stack:
        if item[0] != "branch":
            continue
        refs.add(item[1])
        base, iterations = split_ref(changeset.plan, item[1])
        node = changeset.plan.nodes.get(base)
        if node is None or node.task.type != TaskType.FORK_JOIN or changeset.work.reopening or changeset.workflow.skips:
            unknown.append(item)
            continue
        left += len(node.heads) - item[2]
        if node.join is not None:
            refs.add(printed_ref(node.join, iterations))
    if unknown:
        changeset.reader.prefetch(refs=refs)
        left += sum(len(branches_left(changeset, item[1], item[2])) for item in unknown)
    listed: list[str] = []
    if left < changeset.bounds.rows:
        listed = [
            item[1]
            for item in (*changeset.work.stack, *islice(changeset.work.queue, changeset.bounds.steps))
            if item[0] in _ABOUT_ROWS
        ]
        refs.update(listed)
        for ref in listed:
            base, iterations = split_ref(changeset.plan, ref)
            node = changeset.plan.nodes.get(base)
            if node is not None:
                _add_counting(refs, changeset.plan, node, iterations)
    changeset.reader.prefetch(refs=refs)
    _prefetch_counting(changeset, listed)


def _prefetch_counting(changeset: Changeset, refs: Iterable[str]) -> None:
    """Have the reader load what counts tasks that were made at run time."""
    tasks = [task for task in changeset.rows.known_tasks(refs) if task is not None and task.live and task.grafts]
    # Most of them are counted in the same places.
    places = {
        (node.joins, node.scopes, task.iterations): task for task in tasks if (node := changeset.rows.placed(task)) is not None
    }
    refs = {join for task in places.values() for join in changeset.rows.joins_of(task)}
    refs |= {printed_ref(scope, at[:depth]) for _, scopes, at in places for scope, depth in scopes[-1:]}
    changeset.reader.prefetch(refs=refs)
