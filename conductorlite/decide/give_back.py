"""A task that its holder gives back, or did not live to give back: the same attempt is offered again.

No retry is used up and no delay counts: nothing was reported. What the old holder may still say carries an old lease, and is
stale. A slot that the task has it keeps; where a rate limit counts begins, it waits for a place of the window once more. Who gives
back tells why; only a death counts. A task that was in hand when its holder died is handed out alone from the second death on
(`ALONE_AFTER`), so that nobody else's fault is taken for its own; when that kills its holder again, the attempt ends as by its
response timeout.
"""

from __future__ import annotations

from typing import Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.worker import ask_again, offer
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus

__all__ = ["ALONE_AFTER", "on_give_back"]

#: Deaths in hand after which an attempt is handed out alone.
ALONE_AFTER: Final = 2

#: Why a task is given back, as the event says it, in words for the journal.
_WHY: Final = {
    "stopped": "given back: {} stopped before it was done",
    "died": "given back: the process of {} died",
    "silent": "given back: nothing was heard from the process of {} within its lease",
}

#: Those after which nobody gave it back.
_DEATHS: Final = frozenset({"died", "silent"})


def on_give_back(draft: Draft, event: Event) -> None:
    """Offer an attempt again whose holder has it no longer, at its old place in the queue and under a lease to come."""
    said = draft.value(event.data)
    task = None if event.ref is None or draft.status.terminal else draft.addressee(event)
    if (
        task is None
        or task.status is not TaskStatus.IN_PROGRESS
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or said.get("lease", task.lease) != task.lease
    ):
        draft.reply(event, Outcome.IGNORED, "the attempt is not in those hands any more")
        return
    why = said.get("why")
    died = why in _DEATHS
    if died and task.deaths >= ALONE_AFTER:
        number = task.deaths + 1
        reason = f"its worker's process died {number} times, the last time while it ran alone"
        draft.close(task, TaskStatus.TIMED_OUT, reason=f"Task {task.name!r} ({task.ref}): {reason}", deaths=number)
        return
    if task.response_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.RESPONSE_TIMEOUT}:{task.ref}")
    text = _WHY.get(why, _WHY["stopped"]).format(f"worker {task.worker_id!r}" if task.worker_id else "its worker")
    node, given = draft.node(task), _offered(draft, task, task.deaths + died)
    if not node.limit.rate:
        offer(draft, node, draft.put(given, reason=text))
    elif ask_again(draft, node, given, reason=text):
        offer(draft, node, draft.known(task.ref))


def _offered(draft: Draft, task: Task, deaths: int) -> Task:
    return attrs.evolve(
        task,
        status=TaskStatus.SCHEDULED,
        lease=0,
        holder=None,
        deaths=deaths,
        updated_at=draft.now,
        response_timeout_at=None,
        poll_timeout_at=None,
    )
