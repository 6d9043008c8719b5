"""The retry: a plain task has failed, and its next attempt is offered, mostly later, and handed over where time passes by itself.

In tests on a virtual clock most turns are this one, so it is written out as a whole, as a step is: the Decision is made of the rows
themselves. What is decided is what the general way would decide, field by field and in its order; whatever is not as it mostly is,
is left to that way, with nothing changed. tests/oracle/test_plain.py compares.

Which turns are written out so: the first one, the poll, the step, the retry, the round, arrivals at a JOIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.first import first
from conductorlite.decide.plain import delay_after
from conductorlite.decide.poll import poll
from conductorlite.decide.rounds import next_round
from conductorlite.decide.step import Handing, Rows, Seen, Unusual, ended_row, ends, stands, step, timers_of, usual
from conductorlite.decide.whole import message_of, takes, whole
from conductorlite.model.attrs import copied
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.definitions import RetryLogic, Semantics
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.later import functions
from conductorlite.model.policies import retry_delay
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node, Plan

if TYPE_CHECKING:
    from conductorlite.decide.arrivals import arrivals
else:
    (arrivals,) = functions("conductorlite.decide.arrivals", "arrivals")

__all__ = ["again", "written_out"]

#: What is asked for in each of them: Python finds a global faster than a member of an enumeration.
_FAILED, _POLL, _REPORT, _START = TaskStatus.FAILED, EventKind.POLL, EventKind.REPORT, EventKind.START


class _Retried:
    """What is known of a retry when its definition is."""

    __slots__ = ("blank", "delay", "node", "reads")

    def __init__(self, node: Node, plan: Plan) -> None:
        self.node = node
        #: How long each retry is delayed, ms; None where that depends on the attempt.
        fixed = node.policy.retry_logic is RetryLogic.FIXED and not node.policy.backoff_jitter_ms
        self.delay = retry_delay(node.policy, 0, Semantics.ORKES) if fixed else None
        #: The next row, as far as it is the same in each execution.
        self.blank = Task(
            workflow_id="",
            ref=node.ref,
            base_ref=node.ref,
            task_id="",
            task_type=node.task_type,
            name=node.task.name,
            status=TaskStatus.SCHEDULED,
        )
        members = node.template.reads.members
        #: What its input reads, if that is more than one row.
        self.reads = [root for root, _ in members if root != node.ref and root in plan.nodes] if len(members) > 1 else []


def written_out(
    plan: Plan,
    reader: Rows,
    events: Sequence[Event],
    now: int,
    environment: Mapping[str, str],
    bounds: Bounds,
    hand_out: Handing | None,
) -> Decision | None:
    """The decision of a turn that is written out as a whole; None for any other."""
    event = events[0]
    if len(events) > 1:
        return arrivals(plan, reader, events, now, bounds, hand_out) if event.kind is _REPORT else None
    if event.kind is _POLL:
        return poll(plan, reader, event, now) if hand_out is None else None
    if event.kind is _START:
        return first(plan, reader, event, now, environment, bounds, hand_out)
    if event.kind is not _REPORT or event.stored:
        return None
    ref, failed = event.ref or "", event.data.value["status"] == "FAILED"
    if ref in plan.nodes and plan.nodes[ref].joins and not failed:
        return arrivals(plan, reader, events, now, bounds, hand_out)
    way = again if failed else step if ref in plan.nodes else next_round
    return way(plan, reader, event, now, environment, bounds, hand_out)


def again(
    plan: Plan,
    reader: Rows,
    event: Event,
    now: int,
    environment: Mapping[str, str],
    bounds: Bounds,
    hand_out: Handing | None,
) -> Decision | None:
    """The decision of such a turn, over a report; None for any other."""
    row, ref, said = reader.workflow, event.ref or "", event.data.value
    if said["status"] != "FAILED" or ref not in plan.nodes:
        return None
    name = f"again:{ref}"
    known = plan.steps[name] if name in plan.steps else _known(plan, name, plan.nodes[ref])
    if not isinstance(known, _Retried) or not usual(row, event, now, bounds):
        return None
    task, output = reader.task(ref), Payload.of(said.get("output") or {})
    if (
        task is None
        or task.input.text is None
        or task.attempt - task.first_attempt >= known.node.policy.retry_count
        or not ends(said, event, task, row)
        or not (output is EMPTY or stands(bounds, "task_output", output))
    ):
        return None
    failed = ended_row(task, said, output, now, _FAILED)
    attempt = task.attempt + 1
    task_id = attempt_id(row, ref, attempt, row.generation)
    if known.reads:
        reader.prefetch(refs=known.reads)
    try:
        values = known.node.template.render(Seen(plan, reader, environment, failed, task_id))
        given = Payload.of(values if task.input.text == "{}" else {**task.input.value, **values})
    except (Unusual, InvalidInput):
        return None
    if not (given is EMPTY or stands(bounds, "task_input", given)):
        return None
    made = _made(row, known, task, task_id, given, now)
    message, cancelled = message_of(row, made), timers_of(task)
    known_of = cancelled if made.poll_timeout_at is None else [*cancelled, f"POLL_TIMEOUT:{ref}"]

    def is_done_until(at: int, due: Iterable[str]) -> bool:
        return (made.poll_timeout_at is None or made.poll_timeout_at > at) and not set(due).difference(known_of)

    polls = () if hand_out is None else hand_out((message,), is_done_until)
    if polls and (len(polls) > 1 or not takes(polls[0], message, row)):
        return None
    return whole(row, plan, failed, made, event, polls[0] if polls else message, cancelled)


def _known(plan: Plan, name: str, node: Node) -> _Retried | None:
    found = plan.steps[name] = None if not node.plain or node.scopes or plan.limited else _Retried(node, plan)
    return found


def _made(row: Workflow, known: _Retried, task: Task, task_id: str, given: Payload, now: int) -> Task:
    """The row of the attempt after one that has failed: offered after its delay. It can be written still."""
    made = copied[Task](known.blank)
    new_row: Any = made
    delay, wait = known.delay, known.node.policy.poll_timeout_ms
    if delay is None:
        delay = delay_after(row, known.node, task)
    new_row.workflow_id, new_row.task_id, new_row.generation = row.workflow_id, task_id, row.generation
    new_row.attempt, new_row.first_attempt, new_row.retried_task_id = task.attempt + 1, task.first_attempt, task.task_id
    new_row.domain, new_row.seq, new_row.input = task.domain, row.task_seq + 1, given
    new_row.succeeded_before = task.executed or task.succeeded_before
    new_row.scheduled_at = new_row.updated_at = now
    new_row.first_scheduled_at = task.first_scheduled_at
    new_row.due_at, new_row.start_delay_ms = now + delay, delay
    if wait > 0:
        new_row.poll_timeout_at = now + delay + wait
    return made
