"""The arrivals: plain tasks with which branches end are completed, their JOIN waits for so many less, and others are handed over.

Of a wide fork nearly every turn is this one, over many reports and as many polls, so it is written out as a whole: what is the same
for all of them is asked once, and the Decision is made of the rows themselves. What is decided is what the general way would
decide, field by field and in its order; whatever is not as it mostly is, the last arrival too, is left to that way, with nothing
changed. tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.plain import polled_by, reported_with
from conductorlite.decide.poll import take_row
from conductorlite.decide.step import STEPS, Handing, Rows, ended_row, ends, line, never, stands, timers_of
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind, MessageKey, Outcome, Outgoing, Reply
from conductorlite.model.executions import HistoryEvent, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Plan

__all__ = ["arrivals"]

#: What is asked for in each of them: Python finds a global faster than a member of an enumeration.
_SCHEDULED, _IN_PROGRESS, _COMPLETED = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED
_RUNNING, _REPORT, _DONE, _NOTHING = WorkflowStatus.RUNNING, EventKind.REPORT, REPLIES[Outcome.DONE], Outgoing()


def arrivals(
    plan: Plan, reader: Rows, events: Sequence[Event], now: int, bounds: Bounds, hand_out: Handing | None
) -> Decision | None:
    """The decision of such a turn, over reports; None for any other."""
    row = reader.workflow
    if (
        row.status is not _RUNNING
        or row.rate_limited
        or row.skips
        or row.updated_at > now
        or plan.limited
        or bounds.steps < STEPS
        or bounds.rows <= 1
    ):
        return None
    name = _joined(plan, events, now)
    if name is None:
        return None
    refs = [name, *[event.ref or "" for event in events]]
    if len(events) > 1:
        reader.prefetch(refs=refs)
    join, *tasks = [reader.task(ref) for ref in refs]
    if join is None or join.status is not _IN_PROGRESS or join.grafts or join.waiting <= len(events):
        return None
    turn = _Turn(row)
    for event, task in zip(events, tasks, strict=True):
        said = event.data.value
        output = Payload.of(said.get("output") or {})
        if task is None or not ends(said, event, task, row) or not stands(bounds, "task_output", output):
            return None
        turn.complete(event, task, ended_row(task, said, output, now, _COMPLETED))
    polls = () if hand_out is None else hand_out((), never)
    refs = [poll.ref or "" for poll in polls]
    if len(refs) > 1:
        reader.prefetch(refs=refs)
    for poll in polls:
        task = reader.task(poll.ref or "")
        if task is None or not _is_taken(poll, task, row, now):
            return None
        turn.take(plan, poll, task, now)
    around: Any = copied[Task](join)
    around.waiting -= len(events)
    around.__class__ = Task
    turn.after.open -= len(events)
    return turn.decision(around, now)


def _joined(plan: Plan, events: Sequence[Event], now: int) -> str | None:
    """The JOIN at which all of these tasks arrive, each of them once and as the last one of its branch; None for other events."""
    nodes, joins, seen = plan.nodes, None, set()
    for event in events:
        ref = event.ref or ""
        node = nodes.get(ref)
        if node is None or event.kind is not _REPORT or event.sender or event.stored or event.posted_at > now or ref in seen:
            return None
        if node.successor is not None or not node.plain or node.scopes or node.output_check is not None:
            return None
        if event.data.text is None or event.data.value["status"] != "COMPLETED":
            return None
        if joins is None:
            joins = node.joins
        elif node.joins != joins:
            return None
        seen.add(ref)
    if not joins or len(joins) > 1 or nodes[joins[0]].loops or nodes[joins[0]].task.type != "JOIN":
        return None
    return joins[0]


def _is_taken(poll: Event, task: Task, row: Workflow, now: int) -> bool:
    """Whether a poll takes an offered task as it mostly does."""
    return (
        task.status is _SCHEDULED
        and not (task.grafts or task.deaths)
        and task.limit_key is None
        and poll.due_at <= now
        and poll.posted_at <= now
        and task.due_at <= now
        and poll.attempt == task.attempt
        and poll.generation == task.generation
        and poll.owner == row.owner
        and poll.data.text is not None
    )


class _Turn:
    """What the turn writes, in its order."""

    __slots__ = ("_cancelled", "_history", "_number", "_removed", "_replies", "_timers", "_updated", "after")

    def __init__(self, row: Workflow) -> None:
        self.after: Any = copied[Workflow](row)
        self._number = row.history_seq
        self._updated: list[Task] = []
        self._history: list[HistoryEvent] = []
        self._cancelled: list[str] = []
        self._timers: list[Event] = []
        self._removed: list[MessageKey] = []
        self._replies: dict[str, Reply] = {}

    def complete(self, event: Event, task: Task, ended: Task) -> None:
        """An attempt is over."""
        said = event.data.value
        self._number = number = self._number + 1
        self._updated.append(ended)
        self._cancelled += timers_of(task)
        cause = reported_with(said.get("workerId"), said.get("callbackAfterMs"), ended.error_types)
        self._history.append(line(number, ended, _COMPLETED, ended.output, cause))
        self._replies[event.event_id] = _DONE

    def take(self, plan: Plan, poll: Event, task: Task, now: int) -> None:
        """An offered attempt is in the hands of who has polled for it."""
        self._number = number = self._number + 1
        if task.poll_timeout_at is not None:
            self._cancelled.append(f"POLL_TIMEOUT:{task.ref}")
        taken: Any = copied[Task](task)
        timers = take_row(plan, self.after, taken, poll, now)
        taken.__class__ = Task
        self._updated.append(taken)
        self._timers += timers
        self._history.append(line(number, taken, _IN_PROGRESS, None, polled_by(taken.worker_id)))
        self._removed.append((task.workflow_id, task.ref))
        self._replies[poll.event_id] = _DONE

    def decision(self, join: Task, now: int) -> Decision:
        """All of it; the row of the JOIN stands behind the first that arrives."""
        self._updated.insert(1, join)
        after = self.after
        after.history_seq, after.updated_at, after.broken_turns, after.parked = self._number, now, 0, None
        after.__class__ = Workflow
        fresh = {timer.event_id for timer in self._timers}
        return new[Decision](
            workflow=after,
            updated=tuple(self._updated),
            history=tuple(self._history),
            cancelled=tuple([one for one in self._cancelled if one not in fresh]),
            timers=tuple(self._timers),
            released_at=now,
            outgoing=new[Outgoing](removed=tuple(self._removed)) if self._removed else _NOTHING,
            replies=self._replies,
        )
