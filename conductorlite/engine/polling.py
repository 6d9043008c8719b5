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

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import cycle
from typing import Final

import attrs

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.groups import Groups, RunGroup
from conductorlite.engine.holders import Holding
from conductorlite.engine.keys import Polls, PollWrite
from conductorlite.engine.logs import log_store
from conductorlite.engine.reports import Reports, Secrecy
from conductorlite.engine.turn_types import Asked, ExtraWrite, Taking, TurnResult, new_event
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import EventKind, Message, Outcome, queue_name
from conductorlite.model.errors import (
    ConductorliteError,
    ExecutionNotFound,
    FencedOut,
    InvariantBroken,
    PayloadLost,
    PayloadUnavailable,
    StaleLease,
    StorageBusy,
    StorageFull,
    TaskNotFound,
)
from conductorlite.model.executions import PollData, Task, TaskResult, Workflow
from conductorlite.model.limits import NO_LIMIT, LimitChange, Terms
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.ports import Capability

__all__ = ["GLANCE_MS", "Asker", "Hand", "Polling", "said"]

#: Messages looked at for one that can be taken, beyond those asked for.
_SPARE = 8

#: Deliveries carried out in one write, and how often: a slot that is given, and the message of the task that has it.
_BATCH = 64
_RELAYS = 4
#: When a task is offered again whose documents cannot be read at present.
_AGAIN_MS = 30_000

#: How long a long poll sleeps before it looks for commits of other processes.
GLANCE_MS: Final = 100


@attrs.define(slots=True, eq=False, repr=False)
class Hand:
    """By whose hand tasks are taken: an open engine's, for its own workers."""

    holding: Holding
    #: Nothing else runs there, and nothing else will until this task has ended.
    alone: bool = False
    #: What is offered to it only when it is alone.
    passed: list[Message] = attrs.field(factory=list)


@attrs.define(slots=True, kw_only=True, eq=False, repr=False)
class Asker:
    """A worker that polls: how many tasks it takes, and what it gets, each with the row of its execution."""

    worker_id: str | None
    count: int
    #: What its polls say.
    data: Payload = EMPTY
    #: What was taken for it, and what of it can be carried out.
    taken: list[tuple[Task, Workflow]] = attrs.field(factory=list)
    given: list[tuple[Task, Workflow]] = attrs.field(factory=list)


class Polling(Part):
    """Hands out the tasks that are offered."""

    def __init__(
        self,
        turns: Turns,
        groups: Groups,
        config: EngineConfig,
        reports: Reports,
        holding: Holding,
        secrecy: Secrecy | None,
    ) -> None:
        super().__init__(turns, config)
        self._groups = groups
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
        queue = queue_name(task_type, domain or None, self._owner) if domain or self._owner else task_type
        now, quiet = self._clock.now(), self._turns.quiet
        if not self._owed and quiet.offers_nothing(queue, now):
            due = self.polls.noted(PollData(queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=now))
            if due:
                self._record(PollWrite(due))
            return []
        asker = Asker(worker_id=worker_id, count=count)
        self._take_for(queue, [asker], self.poll_write([asker], task_type, domain), hand, noted)
        return [task for task, _ in asker.given] if asker.given else []

    def take_for(
        self,
        askers: Sequence[Asker],
        task_type: str,
        domain: str | None,
        hand: Hand | None = None,
        noted: list[Task] | None = None,
    ) -> None:
        """Take tasks for several workers that poll one queue.

        The first of them gets what is first in it; few writes serve all.
        """
        queue, poll_write = queue_name(task_type, domain or None, self._owner), self.poll_write(askers, task_type, domain)
        if not self._owed and self._turns.quiet.offers_nothing(queue, self._clock.now()):
            self._record(poll_write)
        else:
            self._take_for(queue, askers, poll_write, hand, noted)

    def _take_for(
        self, queue: str, askers: Sequence[Asker], poll_write: PollWrite, hand: Hand | None, noted: list[Task] | None
    ) -> None:
        """Take what can be taken: fewer, when the store fails after the first."""
        if self._owed:
            self.give_up(())
        noted, before, given = ([], 0, 0) if noted is None else (noted, len(noted), 0)
        try:
            try:
                self._take_each(queue, askers, poll_write, hand, noted)
            except ConductorliteError:
                if not any(asker.taken for asker in askers):
                    raise
            for asker in askers:
                for found in asker.taken:
                    asker.given += self._handed_whole(found)
                given += len(asker.given)
            self._record(poll_write)
        except BaseException as error:
            if not any(asker.given for asker in askers) or not isinstance(error, ConductorliteError):
                self.give_up(noted[before:])
                raise
        if given < len(noted) - before:
            kept = {task.task_id for asker in askers for task, _ in asker.given}
            self.give_up([task for task in noted[before:] if task.task_id not in kept])

    def take_first(
        self,
        askers: Sequence[Asker],
        task_type: str,
        domain: str | None,
        busy: Collection[str],
        noted: list[Task],
        run: RunGroup,
        hand: Hand | None = None,
    ) -> bool:
        """Take what several workers poll for, in turns that `run` takes with those of `busy` executions; False when it does not.

        That is when what these turns offer might come first, or something else is not plain. What is taken may be less than wanted.
        """
        queue = queue_name(task_type, domain or None, self._owner)
        wanting = [asker for asker in askers for _ in range(asker.count)]
        known = [self._turns.residents.peek(workflow_id) for workflow_id in busy]
        if self._owed or None in known:
            return False
        highest = max((resident.row.priority for resident in known if resident is not None), default=0)
        limit = len(wanting) * (1 if hand is None else self._holding.ahead)
        now = self._clock.now()
        with self._backend.reading() as view:
            offered = () if view.limits.unpolled(queue) else view.queue.offered(queue, now, limit)
        if len(offered) < limit or not all(
            one.due_at < now and one.priority >= highest and one.workflow_id not in busy for one in offered
        ):
            return False
        offered = offered if limit == len(wanting) else self._holding.own(offered, len(wanting))
        poll_write = self.poll_write(askers, task_type, domain)
        for asker in askers:
            asker.data = said(asker.worker_id, hand)
        with suppress(InvariantBroken, FencedOut, StorageBusy, StorageFull):  # those are as they were
            self._take(zip(offered, wanting, strict=False), poll_write, hand, noted, run)
        for asker in askers:
            for found in asker.taken:
                asker.given += self._handed_whole(found)
        self._record(poll_write)
        return True

    def poll_write(self, askers: Iterable[Asker], task_type: str, domain: str | None) -> PollWrite:
        """Return the write that records polls that are made now."""
        now = self._clock.now()
        due: Sequence[PollData] = ()
        for asker in askers:
            poll = PollData(queue_name=task_type, domain=domain or None, worker_id=asker.worker_id, last_poll_time=now)
            due = self.polls.noted(poll) or due  # each time all that waits
        return PollWrite(due)

    def give_up(self, tasks: Iterable[Task]) -> None:
        """Give back tasks that may have been taken, and that no caller got; what cannot be now, at the next poll."""
        self._owed.extend(tasks)
        for task in self._owed.copy():
            try:
                with self._backend.reading() as view:
                    stored = view.executions.task_by_id(task.task_id)
                if stored is not None and stored.status is TaskStatus.IN_PROGRESS and _same_hand(stored, task):
                    self._holding.give_back([task])
            except ConductorliteError:
                return  # it stays owed: the next poll tries again, and reports that the store cannot be used
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
                return  # it is due to be written until it was
        self.polls.wrote(poll_write.polls)

    def _take_each(
        self, queue: str, askers: Sequence[Asker], extra_write: ExtraWrite, hand: Hand | None, noted: list[Task]
    ) -> None:
        passed: set[Message] = set()
        quiet, spare, wanted = self._turns.quiet, 0, 0
        for asker in askers:
            asker.data = said(asker.worker_id, hand)
            wanted += asker.count
        while wanted:
            limit = wanted * (1 if hand is None else self._holding.ahead) + spare
            commits = self._backend.commits()
            with self._backend.reading() as view:
                passed_over = () if spare else view.limits.unpolled(queue)
                offered = view.queue.offered(queue, self._clock.now(), limit)
                if not (spare or passed_over or offered):
                    quiet.found_nothing(queue, commits, view.queue.next_message_at((queue,)))
            if passed_over:
                self._polled(queue, passed_over)
                with self._backend.reading() as view:
                    offered = view.queue.offered(queue, self._clock.now(), limit)
            found = False
            fresh = [message for message in offered if message not in passed] if passed else offered
            fresh = fresh if hand is None or self._holding.ahead == 1 else self._holding.own(fresh, wanted)
            while fresh and wanted:
                some, fresh = fresh[:wanted], fresh[wanted:]
                wanting = askers if len(askers) == 1 else [one for one in askers for _ in range(one.count - len(one.taken))]
                taken = self._take(zip(some, cycle(wanting), strict=False), extra_write, hand, noted)
                wanted -= taken
                found = found or taken > 0
            if not wanted or (not found and len(offered) < limit):
                break
            # Others poll too, or what is offered is void or of parked executions: look further.
            passed.update(offered)
            spare = max(_SPARE, 2 * spare)

    def _polled(self, queue: str, keys: Sequence[str]) -> None:
        """Have the lines of rate limits go on with those that wait for polls of a queue: this is one."""
        for key in keys:
            with self._backend.reading() as view:
                line = view.limits.line(key, _SPARE)
            heads = [member for member in line.heads if member.lane == queue]
            for member in heads:
                event = new_event(member.workflow_id, EventKind.WINDOW_MOVES, self._clock.now(), {"key": key, "polled": queue})
                event = attrs.evolve(event, event_id=f"{EventKind.WINDOW_MOVES}:{key}:{queue}", sender=key)
                with suppress(ExecutionNotFound, InvariantBroken):  # the next in the line goes; the turn has logged what broke
                    if self._turns.run_turn(member.workflow_id, [event]).parked is None:
                        break
            if Capability.IMMEDIATE not in self._backend.capabilities:
                self._relayed()
            if not heads:
                unpolled = tuple(lane for lane in line.limit.unpolled if lane != queue)
                with suppress(FencedOut), self._backend.writing() as tx:
                    tx.limits.put_limit(LimitChange(limit=attrs.evolve(line.limit, unpolled=unpolled)))

    def _relayed(self) -> None:
        """Deliver what lines have let in, with the turns that follow: the worker polls now, and may be late the next time."""
        for _ in range(_RELAYS):
            with self._backend.reading() as view:
                items = view.outbox.items(_BATCH)
            if not items:
                return
            with self._backend.writing() as tx:
                tx.outbox.deliver(items)
            self._turns.run_related(list(dict.fromkeys(event.workflow_id for item in items for event in item.outgoing.posted)))

    def _handed_whole(self, found: tuple[Task, Workflow]) -> list[tuple[Task, Workflow]]:
        task, row = found
        if self._secrecy is None and task.input.text is not None and task.output.text is not None:
            return [found]
        try:
            memo = self._at_hand(task)
            handed = memo if self._secrecy is None or memo is None else self._handed(memo, row)
        except TaskNotFound:  # ended and removed by another process since
            return []
        return [] if handed is None else [(handed, row)]

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
            node = self._turns.lookups.plans.extended(view, row, task.grafts).nodes[task.base_ref]
        handed = self._secrecy.handed(task, node, row.semantics)
        if isinstance(handed, Task):
            return handed
        with suppress(StaleLease):
            self._reports.report(task, handed)
        return None

    def terms_of(self, task: Task) -> Terms:
        """Return the terms that the definition of a handed-out task sets.

        Nothing is limited where the execution was removed since.
        """
        with self._backend.reading() as view:
            row = view.executions.workflow(task.workflow_id)
            node = None if row is None else self._turns.lookups.plans.extended(view, row, task.grafts).nodes.get(task.base_ref)
        return NO_LIMIT if node is None else node.limit

    def take_alone(self, message: Message, worker_id: str | None, holding: Holding) -> Task | None:
        """Take one task that is offered only to a hand that is alone; None when it is offered no more."""
        noted: list[Task] = []
        try:
            found = self.take_message(message, worker_id, None, Hand(holding, alone=True), noted)
            return None if found is None else next((task for task, _ in self._handed_whole(found)), None)
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
        asker = Asker(worker_id=worker_id, count=1, data=said(worker_id, hand))
        self._take([(message, asker)], extra_write, hand, noted)
        return asker.taken[0] if asker.taken else None

    def _take(
        self,
        shares: Iterable[tuple[Message, Asker]],
        extra_write: ExtraWrite | None,
        hand: Hand | None,
        noted: list[Task] | None,
        run: RunGroup | None = None,
    ) -> int:
        """Take offered tasks, those of one execution in one turn, the turns in one write; how many were taken.

        Raises what the first bad turn does.
        """
        run = run or self._groups.run
        now = self._clock.now()
        groups: dict[str, list[tuple[Message, Asker]]] = {}
        takers: dict[tuple[str, str], Asker] = {}
        for message, asker in shares:
            groups.setdefault(message.workflow_id, []).append((message, asker))
            takers[message.workflow_id, message.ref] = asker
        takings: list[Taking] = []
        asked: list[Asked] = []
        for workflow_id, group in groups.items():
            taking = Taking(data=EMPTY, owner=self._owner, write=extra_write, noted=noted)
            events = [taking.poll(message, now, asker.data) for message, asker in group]
            takings.append(taking)
            asked.append(Asked(workflow_id=workflow_id, events=events, extra_write=taking))
        problem: ConductorliteError | None = None
        taken = 0
        for one, taking, result in zip(asked, takings, run(asked), strict=True):
            group = groups[one.workflow_id]
            if isinstance(result, TurnResult):
                outcomes = [reply.outcome for reply in result.replies.values()]
                if Outcome.DONE in outcomes:
                    taken += len(taking.taken)
                    for found in taking.taken:
                        takers[one.workflow_id, found[0].ref].taken.append(found)
                if hand is not None and Outcome.ALONE in outcomes:
                    answers = {event.ref: result.replies.get(event.event_id) for event in one.events}
                    alone = [ref for ref, reply in answers.items() if reply is not None and reply.outcome is Outcome.ALONE]
                    hand.passed += [message for message, _ in group if message.ref in alone]
            elif isinstance(result, ExecutionNotFound):
                with self._backend.writing() as tx:
                    tx.queue.discard([message for message, _ in group])
            else:
                problem = problem or result
        if problem is not None:
            raise problem
        return taken

    # ------------------------------------------------------------------ handed over

    def taking_next(self, asker: Asker, task_type: str, domain: str | None, noted: list[Task]) -> Taking:
        """Return an object that has the turn of a worker's report hand out its next tasks of a queue.

        It does so as far as its execution is first there.
        """
        queue = queue_name(task_type, domain or None, self._owner)
        return Taking(
            data=said(asker.worker_id, None),
            owner=self._owner,
            write=self.poll_write([asker], task_type, domain),
            noted=noted,
            free={queue: asker.count},
            most=asker.count,
            again={queue},
            in_order=True,
        )

    def received(self, taking: Taking) -> list[tuple[Task, Workflow]]:
        """Return the tasks that a turn has handed over, with documents and secrets, in the order of a poll.

        The caller carries them out.
        """
        if isinstance(taking.write, PollWrite) and taking.write.written:
            self.polls.wrote(taking.write.polls)
        if taking.in_order and len(taking.taken) > 1:
            places = [event.ref for event in taking.polls.values()]
            taking.taken.sort(key=lambda found: places.index(found[0].ref))
        whole: list[tuple[Task, Workflow]] = []
        try:
            for found in taking.taken:
                task = found[0]
                if self._secrecy is None and task.input.text is not None and task.output.text is not None:
                    whole.append(found)
                else:
                    whole += self._handed_whole(found)
        except BaseException:
            self.give_up(task for task, _ in taking.taken)
            raise
        return whole


def said(worker_id: str | None, hand: Hand | None) -> Payload:
    """Return the content of a poll."""
    return _words(worker_id, None if hand is None else hand.holding.begin(), hand is not None and hand.alone)


@lru_cache(maxsize=256)
def _words(worker_id: str | None, holder: str | None, alone: bool) -> Payload:
    words: dict[str, object] = {"workerId": worker_id} if worker_id else {}
    if holder is not None:
        words |= {"holder": holder, "alone": alone}
    return Payload.of(words)


def _same_hand(stored: Task, task: Task) -> bool:
    """Return True if a stored task is still held by who took it, and not, after a commit that came to nothing, by another."""
    taken = (task.lease, task.worker_id, task.holder, task.updated_at)
    return (stored.lease, stored.worker_id, stored.holder, stored.updated_at) == taken
