"""Elapsed time, where the clock or the process stood in its way: the clock was set, or a process that holds a task did not run.

A length of time (a WAIT's duration, a retry delay, a timeout, a lease) is as long as it was, whatever the clock was set to. An
instant (a WAIT's `until`, a start `at`, a schedule) stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.reports import held_attempt
from conductorlite.decide.transitions import move_deadlines, move_instants
from conductorlite.model.decisions import TIMERS, Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import span_in_words

__all__ = ["follow_clock", "on_clock_set", "on_suspended"]

#: Timers that follow from no deadline of an attempt, and are of lengths of time.
_LENGTHS: Final = frozenset({EventKind.WORKFLOW_TIMEOUT, EventKind.ADMISSION, EventKind.OFFER_ENDS})

#: A clock that is behind by less than this, ms, is another machine's.
_BEHIND_MS: Final = 1_000

#: Timers of the deadlines of attempts, which follow from their rows.
_OF_ROWS: Final = frozenset(TIMERS.values())


def on_clock_set(changeset: Changeset, event: Event) -> None:
    """Put the instants of an execution to what the clock would have read had it always gone as it goes now.

    Then all that is reckoned from them later comes out right, and the execution's time goes on with the clock.
    """
    by: int = changeset.documents.value(event.data)["by"]
    if changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.IGNORED, "the workflow has ended")
        return
    changeset.reader.prefetch(everything=True, inbox=True)
    if by < 0:
        changeset.moment.now = max(changeset.moment.clock, changeset.workflow.updated_at + by)
    _move_rows(changeset, by)
    for posted in changeset.reader.inbox():
        if posted.event_id != event.event_id and posted.kind not in _OF_ROWS:
            _move_event(changeset, posted, by)
    _journal(changeset, by)


def follow_clock(changeset: Changeset) -> None:
    """Have the time of an ended execution that is reopened go on with the clock, if that was set back since it ended."""
    by = changeset.moment.clock - changeset.moment.now
    if changeset.workflow.status.terminal and by <= -_BEHIND_MS:
        changeset.moment.now = changeset.moment.clock
        _move_rows(changeset, by)
        _journal(changeset, by)


def _move_rows(changeset: Changeset, by: int) -> None:
    changeset.move_instants(by)
    for task in changeset.rows.everything():
        _move_task(changeset, task, by)


def _journal(changeset: Changeset, by: int) -> None:
    direction = "back" if by < 0 else "forward"
    text = f"the clock was set {direction} by {span_in_words(abs(by))}; lengths of time are as long as they were"
    changeset.journal.add(HistoryKind.CLOCK, "SET", number=by, reason=text)


def _move_task(changeset: Changeset, task: Task, by: int) -> None:
    wait = task.wait_until is not None and not _names_instant(changeset.documents.value(task.input))
    row, before = changeset.rows.opened(task)
    move_instants(row, by, wait=wait)
    changeset.settle(row, before)
    node = changeset.rows.placed(row)
    if row.status is TaskStatus.SCHEDULED and not (node is not None and node.operator):
        changeset.queues.remove(row)
        changeset.queues.offer(row)


def _names_instant(values: Mapping[str, Any]) -> bool:
    """True if the input of a WAIT names an instant rather than a length of time."""
    return bool(str(values.get("until") or "").strip())


def _move_event(changeset: Changeset, event: Event, by: int) -> None:
    """Date an event of the inbox as the clock goes now, unless it waits for an instant."""
    clock, due_at = changeset.moment.clock, event.due_at
    delayed = event.kind is EventKind.START and changeset.documents.value(event.data).get("delay")
    if event.kind in _LENGTHS or delayed:
        due_at += by
    elif event.kind is not EventKind.START:  # it was due when it was posted, or looks itself whether it is (a window of a limit)
        due_at = min(due_at, clock)
    posted_at = event.posted_at + by if by > 0 else min(event.posted_at, clock)
    if due_at != event.due_at or posted_at != event.posted_at:
        changeset.events.send_on(event, event.event_id, due_at=due_at, posted_at=posted_at)


def on_suspended(changeset: Changeset, event: Event) -> None:
    """Give an attempt the time back in which the process that holds it did not run: that says nothing of its worker."""
    task = held_attempt(changeset, event)
    if task is None:
        return
    row, before = changeset.rows.opened(task)
    by: int = changeset.documents.value(event.data)["by"]
    move_deadlines(row, by)
    changeset.settle(row, before)
    text = f"the process that holds it did not run for {span_in_words(by)}, which its deadlines do not count"
    changeset.journal.add(HistoryKind.CLOCK, "SUSPENDED", ref=row.ref, attempt=row.attempt, number=by, reason=text)
