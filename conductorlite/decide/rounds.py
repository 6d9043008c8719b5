"""The round: the plain task that a loop repeats is completed, and the loop goes on with it, offered or handed over.

A loop of one task takes this turn in each of its rounds, so it is written out as a whole, as a step is. What is decided is what the
general way would decide, field by field and in its order; whatever is not as it mostly is, is left to that way, with nothing
changed. tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.operators.do_while import round_output
from conductorlite.decide.operators.document import LOOP_KEYS
from conductorlite.decide.step import Handing, Rows, Seen, Unusual, ended_row, ends, never, stands, timers_of, usual
from conductorlite.decide.whole import message_of, takes, whole
from conductorlite.language.conditions import is_true
from conductorlite.language.values import Json, Missing, Outside
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event
from conductorlite.model.definitions import LOOP_DELIMITER
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node, Plan

__all__ = ["next_round"]

#: What is asked for in each round: Python finds a global faster than a member of an enumeration.
_IN_PROGRESS, _COMPLETED, _ROUND = TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED, HistoryKind.ROUND


class _Looped:
    """What is known of a round when its definition is."""

    __slots__ = ("answer", "blank", "loop", "node", "reads")

    def __init__(self, node: Node, loop: Node, plan: Plan) -> None:
        self.node, self.loop = node, loop.ref
        #: The loop's condition, which reads nothing but the loop.
        self.answer: Any = None if loop.condition is None else loop.condition.at_once
        #: The next row, as far as it is the same in each execution.
        self.blank = Task(
            workflow_id="",
            ref="",
            base_ref=node.ref,
            task_id="",
            task_type=node.task_type,
            name=node.task.name,
            status=TaskStatus.SCHEDULED,
        )
        members = node.template.reads.members
        #: What its input reads beside the loop and itself.
        self.reads = [root for root, _ in members if root not in (node.ref, loop.ref) and root in plan.nodes]


class _InRound(Seen):
    """The same from within a loop, whose row it knows, and that of the round before."""

    __slots__ = ("_loop",)

    def __init__(self, plan: Plan, reader: Rows, environment: Mapping[str, str], ended: Task, task_id: str, loop: Task) -> None:
        super().__init__(plan, reader, environment, ended, task_id)
        self._loop = loop

    def member(self, root: str, member: str) -> Json | Missing:
        """See `Seen.member`."""
        ended = self._ended
        task = self._loop if root == self._loop.ref else ended if ended is not None and root == ended.base_ref else None
        if task is None:
            return super().member(root, member)
        if member != "output":
            raise Unusual
        return task.output.value


def next_round(
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
    base = ref.rpartition(LOOP_DELIMITER)[0]
    if said["status"] != "COMPLETED" or base not in plan.nodes:
        return None
    name = f"round:{base}"
    known = plan.steps[name] if name in plan.steps else _known(plan, name, plan.nodes[base])
    if not isinstance(known, _Looped) or not usual(row, event, now, bounds):
        return None
    task, loop, output = reader.task(ref), reader.task(known.loop), Payload.of(said.get("output") or {})
    if (
        task is None
        or loop is None
        or not ends(said, event, task, row)
        or not stands(bounds, "task_output", output)
        or not _goes_on(known, loop, task)
    ):
        return None
    number, ended = loop.round + 1, ended_row(task, said, output, now, _COMPLETED)
    around: Any = copied[Task](loop)
    around.round, around.output = number, round_output(number)
    around.__class__ = Task
    made_ref = printed_ref(base, (number,))
    task_id = attempt_id(row, made_ref, 0, row.generation)
    if known.reads:
        reader.prefetch(refs=known.reads)
    try:
        given = Payload.of(known.node.template.render(_InRound(plan, reader, environment, ended, task_id, around)))
    except (Unusual, InvalidInput):
        return None
    if not stands(bounds, "task_input", given):
        return None
    made = _made(row, known, number, made_ref, task_id, given, now)
    message = message_of(row, made)
    polls = () if hand_out is None else hand_out((message,), never)
    if polls and (len(polls) > 1 or polls[0].due_at > now or not takes(polls[0], message, row)):
        return None
    line = new[HistoryEvent](
        n=row.history_seq + 2,
        at=now,
        kind=_ROUND,
        status="IN_PROGRESS",
        ref=loop.ref,
        attempt=loop.attempt,
        number=number,
    )
    return whole(row, plan, ended, made, event, polls[0] if polls else message, timers_of(task), (around, line))


def _known(plan: Plan, name: str, node: Node) -> _Looped | None:
    """A loop around this task alone, whose condition follows from its own output, and which needs nothing else to go on."""
    found: _Looped | None = None
    if len(node.loops) == 1 and len(node.scopes) == 1 and node.plain and not (node.joins or node.output_check or plan.limited):
        loop = plan.nodes[node.loops[0]]
        asked, task = loop.condition, loop.task
        alone = loop.members == (node.ref,) and loop.body == node.ref and node.successor is None and loop.items is None
        itself = asked is not None and asked.at_once is not None and not asked.everything and asked.names == {loop.ref}
        itself = itself and asked is not None and (asked.keys_of(loop.ref) or frozenset()) <= LOOP_KEYS
        bare = not task.input_parameters and task.task_definition is None and node.grafts == loop.grafts == ()
        past = any(step[:2] == (loop.ref, "output") and step[2] not in LOOP_KEYS for step in node.template.reads.steps)
        if alone and itself and bare and not past:
            found = _Looped(node, loop, plan)
    plan.steps[name] = found
    return found


def _goes_on(known: _Looped, loop: Task, task: Task) -> bool:
    """Whether the task is the last of its round, and another one follows."""
    if (
        loop.status is not _IN_PROGRESS
        or loop.open != 1
        or loop.failed_child is not None
        or loop.grafts
        or loop.output.text is None
        or loop.round == 0
        or task.iterations != (loop.round,)
    ):
        return False
    try:
        return is_true(known.answer({known.loop: loop.output.value}))
    except Outside:
        return False


def _made(row: Workflow, known: _Looped, number: int, ref: str, task_id: str, given: Payload, now: int) -> Task:
    """The row of the first attempt of the round, which is offered. It can be written still."""
    made, wait = copied[Task](known.blank), known.node.policy.poll_timeout_ms
    written: Any = made
    written.workflow_id, written.ref, written.task_id, written.iterations = row.workflow_id, ref, task_id, (number,)
    written.generation, written.seq, written.input = row.generation, row.task_seq + 1, given
    written.scheduled_at = written.first_scheduled_at = written.due_at = written.updated_at = now
    if wait > 0:
        written.poll_timeout_at = now + wait
    return made
