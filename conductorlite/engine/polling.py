"""Polling: tasks that are offered, handed out under a lease.

What it guarantees. A task is handed to one worker at a time: it is taken in a turn, under the fence of its execution.
No task is lost between the commit and the caller: those taken are noted in the commit, and what an error or an interruption kept
from the caller is given back, at once or with the next poll.

How it works. A poll reads the first messages of its queue that are due, and takes a turn with a POLL event for each; neighbours
of one execution share a turn. The turn of a report gives an engine's own free workers what a poll of theirs would find
(`Taking`). A message that another poll was faster with, or that is void, is passed over, and more are read. After the turn the
documents of the task are fetched and its secrets filled in; a task whose document is lost, or whose secret is not available,
fails here, and one whose storage cannot be reached goes back for 30 s. A poll is recorded along with a turn; only a poll that
found nothing writes it alone. An engine's own workers take with a `Hand`, which names the holder that gives the task back if its
process dies.

What is not pretty. A lane of a rate limit that was passed over goes on with the next poll of its queue, so a poll may let tasks in
before it takes one (`_polled`). Where turns and deliveries are not one commit, it also has to deliver that itself.

Source of the rule: Conductor's `ExecutionService.poll`; a lease and a holder are ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.holders import Holding
from conductorlite.engine.keys import Polls, PollWrite
from conductorlite.engine.logs import log_store
from conductorlite.engine.reports import Reports, Secrecy
from conductorlite.engine.turn_types import Asked, ExtraWrite, Taking, TurnResult, new_event
from conductorlite.engine.turns import Turns
from conductorlite.model import attrs
from conductorlite.model.attrs import new
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import EventKind, Message, Outcome, Reply, queue_name
from conductorlite.model.errors import (
    ConductorliteError,
    ExecutionNotFound,
    FencedOut,
    InvariantBroken,
    PayloadLost,
    PayloadUnavailable,
    StaleLease,
    StorageBusy,
    StorageError,
    StorageFull,
    TaskNotFound,
)
from conductorlite.model.executions import PollData, Task, TaskResult, Workflow
from conductorlite.model.limits import LimitChange
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.ports import Capability

__all__ = ["GLANCE_MS", "Hand", "Polling", "said"]

#: Messages looked at for one that can be taken, beyond those asked for.
_SPARE = 8

#: Deliveries carried out in one write, and how often: a slot that is given, and the message of the task that has it.
_BATCH = 64
_RELAYS = 4

#: When a task is offered again whose documents cannot be read at present.
_AGAIN_MS = 30_000

#: How long a long poll sleeps before it looks for commits of other processes.
GLANCE_MS: Final = 100


@attrs.define(slots=True)
class Hand:
    """By whose hand tasks are taken: an open engine's, for its own workers."""

    holding: Holding
    #: Nothing else runs there, and nothing else will until this task has ended.
    alone: bool = False
    #: What is offered to it only when it is alone.
    passed: list[Message] = attrs.field(factory=list)


class Polling(Part):
    """Hands out the tasks that are offered."""

    def __init__(self, turns: Turns, config: EngineConfig, reports: Reports, holding: Holding, secrecy: Secrecy | None) -> None:
        super().__init__(turns, config)
        self._reports = reports
        self._holding = holding
        self._secrecy = secrecy
        #: Who polled.
        self.polls = Polls()
        #: Tasks that may have been taken, and that no caller got.
        self._owed: list[Task] = []

    def take_offered(
        self,
        task_type: str,
        worker_id: str | None,
        count: int,
        domain: str | None,
        hand: Hand | None = None,
        noted: list[Task] | None = None,
    ) -> list[Task]:
        """Take up to `count` tasks that are offered now: by a hand, which gives them back if it dies, or by the caller.

        Each is `noted` in the commit that takes it, before any caller gets it.
        """
        self.give_up(())
        queue = queue_name(task_type, domain or None, self._owner)
        now = self._clock.now()
        poll = PollData(queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=now)
        poll_write = PollWrite(self.polls.noted(poll))
        noted = [] if noted is None else noted
        whole: list[Task] = []
        try:
            for found in self._take_offered(queue, worker_id, count, poll_write, hand, noted):
                whole += self._handed_whole(found)
            self._record(poll_write)
        except BaseException as error:
            if not whole or not isinstance(error, ConductorliteError):
                self.give_up(noted)
                raise
        if len(whole) < len(noted):
            kept = {task.task_id for task in whole}
            self.give_up([task for task in noted if task.task_id not in kept])
        return whole

    def give_up(self, tasks: Iterable[Task]) -> None:
        """Give back tasks that may have been taken, and that no caller got; what cannot be now, at the next poll."""
        self._owed.extend(tasks)
        for task in self._owed.copy():
            try:
                with self._backend.reading() as view:
                    stored = view.task_by_id(task.task_id)
                if stored is not None and stored.status is TaskStatus.IN_PROGRESS and _same_hand(stored, task):
                    self._holding.give_back([task])
            except StorageError:
                return
            with suppress(ValueError):
                self._owed.remove(task)

    def _record(self, poll_write: PollWrite) -> None:
        """Write polls that no turn has taken along. A busy or full store is no error: a later poll is written instead."""
        if not poll_write.polls:
            return
        if not poll_write.written:
            try:
                with self._backend.writing() as tx:
                    poll_write(tx)
            except (StorageBusy, StorageFull):
                return
        self.polls.wrote(poll_write.polls)

    def _take_offered(
        self, queue: str, worker_id: str | None, count: int, extra_write: ExtraWrite, hand: Hand | None, noted: list[Task]
    ) -> list[tuple[Task, Workflow]]:
        """What could be taken: fewer, when the store fails after the first."""
        taken: list[tuple[Task, Workflow]] = []
        try:
            self._take_each(queue, worker_id, count, extra_write, hand, noted, taken)
        except ConductorliteError:
            if not taken:
                raise
        return taken

    def _take_each(
        self,
        queue: str,
        worker_id: str | None,
        count: int,
        extra_write: ExtraWrite,
        hand: Hand | None,
        noted: list[Task],
        taken: list[tuple[Task, Workflow]],
    ) -> None:
        passed: set[Message] = set()
        spare = 0
        quiet = self._turns.quiet
        if quiet.is_empty(queue) and quiet.is_unchanged():
            return
        while len(taken) < count:
            limit = count - len(taken) + spare
            commits = self._backend.commits()
            with self._backend.reading() as view:
                passed_over = () if spare else view.unpolled(queue)
                offered = view.offered(queue, self._clock.now(), limit)
                if not (spare or passed_over or offered) and view.next_message_at((queue,)) is None:
                    quiet.found_empty(queue, commits)
            if passed_over:
                self._polled(queue, passed_over)
                with self._backend.reading() as view:
                    offered = view.offered(queue, self._clock.now(), limit)
            before = len(taken)
            fresh = [message for message in offered if message not in passed]
            while fresh and len(taken) < count:
                some, fresh = fresh[: count - len(taken)], fresh[count - len(taken) :]
                passed.update(some)
                self._take(some, worker_id, extra_write, hand, noted, taken)
            if len(taken) == before and len(offered) < limit:
                break
            # Others poll too, or what is offered is void or of parked executions: look further.
            spare = max(_SPARE, 2 * spare)

    def _polled(self, queue: str, keys: Sequence[str]) -> None:
        """Have the lines of rate limits go on with those that wait for polls of a queue: this is one."""
        for key in keys:
            with self._backend.reading() as view:
                line = view.line(key, _SPARE)
            heads = [member for member in line.heads if member.lane == queue]
            for member in heads:
                event = new_event(member.workflow_id, EventKind.WINDOW_MOVES, self._clock.now(), {"key": key, "polled": queue})
                event = attrs.evolve(event, event_id=f"{EventKind.WINDOW_MOVES}:{key}:{queue}", sender=key)
                with suppress(ExecutionNotFound, InvariantBroken):
                    if self._turns.run_turn(member.workflow_id, [event]).parked is None:
                        break
            if Capability.IMMEDIATE not in self._backend.capabilities:
                self._relayed()
            if not heads:
                unpolled = tuple(lane for lane in line.limit.unpolled if lane != queue)
                with suppress(FencedOut), self._backend.writing() as tx:
                    tx.put_limit(LimitChange(limit=attrs.evolve(line.limit, unpolled=unpolled)))

    def _relayed(self) -> None:
        """Deliver what lines have let in, with the turns that follow: the worker polls now, and may be late the next time."""
        for _ in range(_RELAYS):
            with self._backend.reading() as view:
                items = view.outbox(_BATCH)
            if not items:
                return
            with self._backend.writing() as tx:
                tx.deliver(items)
            self._turns.run_related(list(dict.fromkeys(event.workflow_id for item in items for event in item.outgoing.posted)))

    def _handed_whole(self, found: tuple[Task, Workflow]) -> list[Task]:
        task = found[0]
        if self._secrecy is None and task.input.text is not None and task.output.text is not None:
            return [task]
        try:
            memo = self._at_hand(found[0])
            handed = memo if self._secrecy is None or memo is None else self._handed(memo, found[1])
        except TaskNotFound:  # ended and removed by another process since
            return []
        return [] if handed is None else [handed]

    def _at_hand(self, task: Task) -> Task | None:
        """A polled task with its documents; None when one of them is lost, which fails it.

        While one cannot be read the task goes back into its queue.
        """
        task = self._reports.with_payloads(task)
        try:
            for payload in (task.input, task.output):
                payload.whole()
            return task
        except PayloadUnavailable as error:
            log_store(f"the documents of {task.ref!r} of {task.workflow_id} cannot be read, it is offered again in 30 s", error)
            status, reason = TaskStatus.IN_PROGRESS, str(error)
        except PayloadLost as lost:
            status, reason = TaskStatus.FAILED_WITH_TERMINAL_ERROR, str(lost)
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=status,
            reason=reason,
            callback_after_ms=_AGAIN_MS if status is TaskStatus.IN_PROGRESS else 0,
            lease=task.lease,
        )
        event = self._reports.report_event(task, result, merge=status is TaskStatus.IN_PROGRESS)
        # Where even its output cannot be read, it is left to its response timeout.
        with suppress(PayloadUnavailable):
            self._turns.run_turn(task.workflow_id, [event])
        return None

    def _handed(self, task: Task, row: Workflow) -> Task | None:
        """A task with its secrets filled in; None when one of them is not available, which has failed it."""
        if self._secrecy is None:
            return task
        with self._backend.reading() as view:
            node = self._turns.plans.extended(view, row, task.grafts).nodes[task.base_ref]
        handed = self._secrecy.handed(task, node)
        if isinstance(handed, Task):
            return handed
        with suppress(StaleLease):
            self._reports.report(task, handed)
        return None

    def take_alone(self, message: Message, worker_id: str | None, holding: Holding) -> Task | None:
        """Take one task that is offered only to a hand that is alone; None when it is offered no more."""
        noted: list[Task] = []
        try:
            found = self.take_message(message, worker_id, None, Hand(holding, alone=True), noted)
            return None if found is None else next(iter(self._handed_whole(found)), None)
        except BaseException:
            self.give_up(noted)
            raise

    def take_message(
        self,
        message: Message,
        worker_id: str | None,
        extra_write: ExtraWrite | None = None,
        hand: Hand | None = None,
        noted: list[Task] | None = None,
    ) -> tuple[Task, Workflow] | None:
        """Take one offered task, with its execution's row; None when another poll has it, or it is void and dropped."""
        taken: list[tuple[Task, Workflow]] = []
        self._take([message], worker_id, extra_write, hand, noted, taken)
        return taken[0] if taken else None

    def _take(
        self,
        messages: Iterable[Message],
        worker_id: str | None,
        extra_write: ExtraWrite | None,
        hand: Hand | None,
        noted: list[Task] | None,
        taken: list[tuple[Task, Workflow]],
    ) -> None:
        """Take offered tasks, those of one execution in one turn, the turns in one write; raises what the first bad one does."""
        data, now = said(worker_id, hand), self._clock.now()
        groups: dict[str, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.workflow_id, []).append(message)
        takings = [Taking(data=data, owner=self._owner, write=extra_write, noted=noted) for _ in groups]
        asked = [
            Asked(workflow_id=workflow_id, events=[taking.poll(message, now) for message in some], extra_write=taking)
            for taking, (workflow_id, some) in zip(takings, groups.items(), strict=True)
        ]
        problem: ConductorliteError | None = None
        for one, taking, result in zip(asked, takings, self._turns.run_group(asked), strict=True):
            if isinstance(result, TurnResult):
                taken += taking.taken if any(reply.outcome is Outcome.DONE for reply in result.replies.values()) else ()
                alone = {event.ref for event in one.events if _is_alone(result.replies.get(event.event_id))}
                if hand is not None:
                    hand.passed += [message for message in groups[one.workflow_id] if message.ref in alone]
            elif isinstance(result, ExecutionNotFound):
                with self._backend.writing() as tx:
                    tx.discard(groups[one.workflow_id])
            else:
                problem = problem or result
        if problem is not None:
            raise problem

    # ------------------------------------------------------------------ handed over

    def hand_over(
        self, free: Mapping[str, int], most: int, again: Collection[str], polls: Sequence[PollData], data: Payload
    ) -> Taking:
        """What has a turn give tasks of its execution to an open engine's own workers that are `free`, by queue; see `Taking`.

        `polls` are recorded as if they had polled.
        """
        due = [one for poll in polls for one in self.polls.noted(poll)] if polls else ()
        write = PollWrite(due) if due else None
        return new[Taking](data=data, owner=self._owner, write=write, free=free, most=most, again=again)

    def report_and_take(self, task: Task, result: TaskResult, task_type: str, count: int, domain: str | None) -> list[Task]:
        """Report on a task and poll, in one turn as far as its execution is first in the queue; raises as a report does.

        When the report was taken and the poll fails, the list is shorter.
        """
        worker_id = result.worker_id
        poll = PollData(
            queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=self._clock.now()
        )  # fmt: skip
        queue = queue_name(task_type, domain or None, self._owner)
        taking = self.hand_over({queue: count}, count, {queue}, [poll], said(worker_id, None))
        taking.in_order, taking.noted = True, []
        try:
            report = self._reports.prepared(task, result)
            self._reports.answered(report, self._reports.taken([report], taking))
            places = [event.ref for event in taking.polls.values()]
            taking.taken.sort(key=lambda found: places.index(found[0].ref))
            whole = self.received(taking)
            if len(whole) < count:
                with suppress(ConductorliteError):
                    whole += self.take_offered(task_type, worker_id, count - len(whole), domain)
        except BaseException:
            self.give_up(taking.noted)
            raise
        return whole

    def received(self, taking: Taking) -> list[Task]:
        """The tasks that a turn has handed over, with their documents and secrets: for the caller to carry out."""
        if isinstance(taking.write, PollWrite) and taking.write.written:
            self.polls.wrote(taking.write.polls)
        whole: list[Task] = []
        try:
            for found in taking.taken:
                whole += self._handed_whole(found)
        except BaseException:
            self.give_up(task for task, _ in taking.taken)
            raise
        return whole


def _is_alone(reply: Reply | None) -> bool:
    return reply is not None and reply.outcome is Outcome.ALONE


def said(worker_id: str | None, hand: Hand | None) -> Payload:
    """What a poll says."""
    words: dict[str, object] = {"workerId": worker_id} if worker_id else {}
    if hand is not None:
        words |= {"holder": hand.holding.begin(), "alone": hand.alone}
    return Payload.of(words) if words else EMPTY


def _same_hand(stored: Task, task: Task) -> bool:
    """Whether a stored task is still in the hand that took it, and not, after a commit that came to nothing, in another one."""
    return (stored.lease, stored.worker_id, stored.holder, stored.updated_at) == (
        task.lease,
        task.worker_id,
        task.holder,
        task.updated_at,
    )
