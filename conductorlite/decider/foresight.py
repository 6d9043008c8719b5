"""What a turn will need, guessed from its events, so that it usually loads once.

A guess may ask for too little (the decision then comes back with a Need) but never decides anything.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from conductorlite.decisions import Event, EventKind, Need, NotLoaded
from conductorlite.draft import Draft
from conductorlite.executions import Workflow, printed_ref
from conductorlite.expressions import Reads
from conductorlite.operators import branches_left
from conductorlite.plan import Plan, split_ref

__all__ = ["foresee", "foresee_rest"]

#: Items of the work list that begin with the row they name.
_ABOUT_ROWS: Final = frozenset({"advance", "executed", "branch"})

#: Events after which a task may have ended, and its successors are scheduled.
_ENDING = frozenset(
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


def foresee(plan: Plan, workflow: Workflow, events: tuple[Event, ...]) -> Need:
    """The Need a turn over these events begins with."""
    refs: set[str] = set()
    latest: set[str] = set()
    plans: set[str] = set()
    live = everything = inbox = False
    for event in events:
        if event.kind is EventKind.TERMINATE:
            live = True
        elif event.kind in (EventKind.RETRY, EventKind.RESTART, EventKind.RERUN, EventKind.CHILD_REOPENED):
            everything = True
        elif event.kind is EventKind.MIGRATE and len(events) == 1 and not event.data.absent:
            everything = inbox = True
            plans.add(event.data.value["definitionHash"])
        if event.ref is None:
            continue
        refs.add(event.ref)
        if event.kind in _ENDING and not workflow.status.terminal:
            _foresee_end(plan, event, refs, latest)
    return Need(
        refs=frozenset(refs),
        latest_of=frozenset(latest),
        live=live,
        everything=everything,
        plans=frozenset(plans),
        inbox=inbox,
    )


def _foresee_end(plan: Plan, event: Event, refs: set[str], latest: set[str]) -> None:
    base, iterations = split_ref(plan, event.ref or "")
    node = plan.nodes.get(base)
    if node is None:
        return
    if node.compensates is not None:
        refs.add(printed_ref(node.compensates, iterations))
        return
    if node.loops:
        refs.add(printed_ref(node.loops[-1], iterations[:-1]))
    for join in node.joins:
        refs.add(printed_ref(join, iterations[: len(plan.nodes[join].loops)]))
    _foresee_reads(plan, plan.ahead[base], refs, latest)
    if event.kind is not EventKind.REPORT or event.data.value.get("status") == "FAILED":
        _foresee_reads(plan, node.template.reads, refs, latest)


def _foresee_reads(plan: Plan, reads: Reads, refs: set[str], latest: set[str]) -> None:
    for root in {root for root, _ in reads.members} | reads.roots:
        node = plan.nodes.get(root)
        if node is None:
            continue
        if node.loops:
            latest.add(root)
        else:
            refs.add(root)


def foresee_rest(draft: Draft) -> None:
    """Ask for what the rest of a cut turn is about before any of it is done, since what is done first would be done again.

    Only for what this turn will come to: a fork with many branches left fills it. Raises NotLoaded.
    """
    draft.known_tasks(item[1] for item in draft.stack if item[0] in _ABOUT_ROWS)
    forking = [branches_left(draft, item[1], item[2]) for item in draft.stack if item[0] == "branch"]
    if sum(map(len, forking)) >= draft.bounds.rows:
        return
    refs = [item[1] for item in islice(draft.queue, draft.bounds.steps) if item[0] in _ABOUT_ROWS]
    tasks = [task for task in draft.known_tasks(refs) if task is not None and task.live]
    grafts = {task.grafts for task in tasks if task.grafts} - draft.grown.keys()
    if grafts:
        raise NotLoaded(Need(grafts=frozenset(grafts)))
    # Most of them are counted in the same places.
    places = {(node.joins, node.scopes, task.iterations): task for task in tasks if (node := draft.placed(task)) is not None}
    counting = {join for task in places.values() for join in draft.joins_of(task)}
    counting |= {printed_ref(scope, at[:depth]) for _, scopes, at in places for scope, depth in scopes[-1:]}
    draft.known_tasks(counting)
