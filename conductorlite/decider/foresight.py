"""What a turn will need, guessed from its events, so that it usually loads once.

A guess may ask for too little (the decision then comes back with a Need) but never decides anything.
"""

from __future__ import annotations

from conductorlite.decisions import Event, EventKind, Need
from conductorlite.executions import Workflow, printed_ref
from conductorlite.expressions import Reads
from conductorlite.plan import Plan, split_ref

__all__ = ["foresee"]

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
