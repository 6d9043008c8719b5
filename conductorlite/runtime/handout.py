"""The choice of offered tasks that a driver takes for its workers: as many as may run, every type in its turn, and some alone.

What functions returned, kept until it is stored; its report may have the next task taken in the same commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from conductorlite.engine.groups import RunGroup, beside
from conductorlite.engine.keys import POLLS_MS, PollWrite
from conductorlite.engine.logs import about_task
from conductorlite.engine.polling import Asker, Hand, said
from conductorlite.engine.reports import Report
from conductorlite.engine.turn_types import LASTING, Taking, TurnResult
from conductorlite.engine.verbs import Verbs
from conductorlite.language.haste import Haste
from conductorlite.model.canonical import Payload
from conductorlite.model.clock import Deadline, VirtualClock
from conductorlite.model.decisions import Message, MessageKey, Outcome, queue_name
from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    NotFound,
    StaleLease,
    StorageError,
)
from conductorlite.model.executions import PollData, Task, TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.calls import refused
from conductorlite.runtime.pool import Call
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.workshop import Workshop

__all__ = ["AHEAD", "BATCH", "HandOut", "Reports"]

#: So many tasks more than there are threads are at hand at most, where the driver carries them out.
AHEAD: Final = 96

#: Offered tasks taken at once.
BATCH: Final = 64

#: Tasks handed over one after another before every worker is asked for in its turn.
_IN_A_ROW: Final = 64


class HandOut:
    """Takes tasks. One in whose hands processes have died is taken when nothing else runs here, and nothing else beside it."""

    def __init__(self, engine: Verbs, workers: Workers, workshop: Workshop) -> None:
        self._engine = engine
        self._workers = workers
        self._workshop = workshop
        self._rotation = 0
        #: Whether the last poll has given all that was asked for: then there may be more.
        self._plenty = False
        #: What is to be taken alone, and until when nothing else is taken so that it can be.
        self._waiting: dict[MessageKey, tuple[Worker, Message]] = {}
        self._until: Deadline | None = None
        #: What was taken alone.
        self._lone: Task | None = None
        #: What turns have handed over, to be carried out before anything else is taken.
        self.handed: deque[tuple[Worker, Task]] = deque()
        #: So many more of them than there are threads: the driver's own thread has carried out the last ones in next to no time.
        self.ahead = 0
        #: How many tasks a turn may hand over at most: none to a caller who may not drive on. In threads, or in the driver's own.
        self.most = 0
        self.threads = False
        #: To which instant the driver moves a virtual clock when nothing else is to be done before.
        self.until: float = -1
        self._in_a_row = 0
        self._noted_at = 0
        self._by_queue: dict[str, Worker] = {}
        #: Whose hand takes what is offered, and what turns hand over.
        self._hand = Hand(engine.core.holding)

    @property
    def worker_id(self) -> str:
        """The worker id that tasks show of their holder."""
        return self._workers.worker_id or self._engine.core.holding.worker_id

    def take(self, most: int, *, threads: bool = False) -> list[tuple[Worker, Task]]:
        """Up to `most` tasks for workers that may take one more; with `threads`, as many as there is room for."""
        self._in_a_row = 0
        if self._lone is not None:
            if any(running.task is self._lone for running in self._workshop):
                return []
            self._lone = None
        if self._waiting and (alone := self._alone()):
            return alone
        if self._waiting and self._until is not None and not self._until.passed:
            return []
        return self._offered(most, threads=threads) or (self._alone() if self._waiting else [])

    def _alone(self) -> list[tuple[Worker, Task]]:
        """The first of those that wait to be alone, if nothing runs."""
        while self._waiting and not (len(self._workshop) or self._workshop.lends()):
            worker, message = self._waiting.pop(next(iter(self._waiting)))
            self._lone = self._engine.core.polling.take_alone(message, self.worker_id, self._engine.core.holding)
            if self._lone is not None:
                return [(worker, self._lone)]
        return []

    def _offered(self, most: int, *, threads: bool) -> list[tuple[Worker, Task]]:
        found: list[tuple[Worker, Task]] = []
        workers = tuple(self.served().values())
        limit, hand, polling, left = self._workers.concurrency, self._hand, self._engine.core.polling, most
        worker_id, room = self._workers.worker_id or hand.holding.worker_id, self._room() if threads else {}
        lent = self._workshop.lent is not None and self._workshop.lends()
        if hand.passed:
            hand.passed.clear()  # of an attempt that has failed
        self._plenty = False
        for offset in range(len(workers)):
            worker, free = workers[(self._rotation + offset) % len(workers)], left
            if worker.concurrency is not None:
                free = min(free, (self._workshop.room_for(worker) or 0) - lent)
            free = min(free, room[worker.is_async] - lent) if room else free
            free = free if limit is None else min(free, limit - len(self._workshop) - lent - len(found))
            if free <= 0:
                continue
            try:
                tasks = polling.take_offered(worker.task_type, worker_id, free, worker.domain, hand)
            except StorageError:
                if found:  # what was taken is carried out; the error comes again
                    break
                raise
            if room:
                given = len(tasks)
                room[worker.is_async] -= given
                self._plenty = self._plenty or given == free
            if hand.passed:
                self._keep(worker, hand)
            found += [(worker, task) for task in tasks] if tasks else ()
            left = most - len(found)
            if left <= 0:
                break
        self._rotation += 1
        return found

    def _room(self) -> dict[bool, int]:
        """Return how many more functions may run in threads, coroutines or not; one that the driver runs itself takes no room."""
        return {kind: self._workshop.room(is_async=kind) for kind in (False, True)}

    # ------------------------------------------------------------------ handed over

    def take_beside(self, ended: Sequence[Call], run: RunGroup) -> bool:
        """Take the next tasks in one write with reports of many executions, whose turns `run` takes too; False when it does not.

        It is not done when what the reports offer might come first.
        """
        most, lent = self.most, self._workshop.lent is not None and self._workshop.lends()
        worker = self._next_offered() if self._plenty and self.threads else None
        if not most or self.handed or self._waiting or self._lone is not None or worker is None:
            return False
        freed = sum(one.worker.is_async is worker.is_async for one in ended) - lent
        most = min(most, self._workshop.room(is_async=worker.is_async) + freed)
        if self._workers.concurrency is not None:
            most = min(most, self._workers.concurrency - len(self._workshop) + len(ended) - lent)
        if worker.concurrency is not None:
            most = min(most, (self._workshop.room_for(worker) or 0) + sum(one.worker is worker for one in ended) - lent)
        if most <= 0:
            return False
        polling, hand, noted = self._engine.core.polling, Hand(self._engine.core.holding), list[Task]()
        asker = Asker(worker_id=self.worker_id, count=most)
        busy = {one.task.workflow_id for one in ended}
        try:
            return polling.take_first([asker], worker.task_type, worker.domain, busy, noted, run, hand)
        finally:
            self._plenty = len(asker.taken) == most
            self._in_a_row, self._rotation = 0, self._rotation + bool(asker.taken)
            self.handed.extend((worker, task) for task, _ in asker.given)
            self._keep(worker, hand)
            if len(asker.given) < len(noted):
                kept = {task.task_id for task, _ in asker.given}
                polling.give_up([task for task in noted if task.task_id not in kept])

    def _next_offered(self) -> Worker | None:
        """The next worker in turn whose queue is not known to be empty."""
        served, quiet, now = tuple(self.served().items()), self._engine.core.turns.quiet, self._engine.clock.now()
        for offset in range(len(served)):
            queue, worker = served[(self._rotation + offset) % len(served)]
            if quiet.offered_at(queue) <= now:
                return worker
        return None

    def taking(self, reports: Iterable[Report], ended: Sequence[Worker] = ()) -> Taking | None:
        """Return an object that has a turn over reports hand other tasks of their execution to workers that are free after it.

        The workers `ended` are among them.

        None when nothing is to be handed over: then, and after so many tasks in a row if a queue may offer something, every worker
        is asked for in its turn.
        """
        served = self.served()
        self._in_a_row += 1
        if not self.most or self.handed or self._waiting or self._lone is not None or not served:
            return None
        if self._in_a_row > _IN_A_ROW and len(served) > 1:
            mine, quiet, now = {one.queue for one in ended}, self._engine.core.turns.quiet, self._engine.clock.now()
            if any(worker.queue not in mine and quiet.offered_at(queue) <= now for queue, worker in served.items()):
                return None
            self._in_a_row = 0
        most, limit, lent = self.most, self._workers.concurrency, self._workshop.lent is not None and self._workshop.lends()
        if self.threads:
            seen: set[bool] = set()
            for worker in served.values():
                if worker.is_async not in seen:
                    seen.add(worker.is_async)
                    room = self._workshop.room(is_async=worker.is_async) - lent
                    for one in ended:
                        room += one.is_async is worker.is_async
                    most = room if room < most else most
        if limit is not None:
            most = min(most, limit - len(self._workshop) - lent + len(ended))
        if most <= 0:
            return None
        free = dict.fromkeys(served, most)
        ahead = self.ahead if self.threads and limit is None else 0
        for queue, worker in served.items():
            if worker.concurrency is not None:
                free[queue] = (self._workshop.room_for(worker) or 0) - lent + ended.count(worker)
            elif ahead and self._workshop.is_quick(worker, alone=False):
                free[queue] += ahead
        owner = self._engine.config.owner
        again: set[str] = set()
        for report in reports:
            task = report.task
            again.add(queue_name(task.task_type, task.domain, owner) if owner or task.domain else task.task_type)
        return Taking(
            data=said(self._workers.worker_id or self._hand.holding.worker_id, self._hand),
            owner=owner,
            write=None if 0 <= (now := self._engine.clock.now()) - self._noted_at < POLLS_MS else self._polled(now),
            free=free,
            most=most + ahead,
            again=again,
            until=self.until,
            write_at=self._polled,
        )

    def give_back(self) -> None:
        """Give back what was handed over and not begun: nobody drives on. What cannot be now, is when the engine is closed."""
        handed = [task for _, task in self.handed]
        self.handed.clear()
        with suppress(StorageError):  # `Holding.leave` tries again, and logs what it cannot give back
            self._engine.core.holding.give_back(handed)

    def served(self) -> dict[str, Worker]:
        """The workers by the queues of this engine's owner that they take from."""
        owner = self._engine.config.owner
        if not owner:
            return self._workers.by_queue
        if len(self._by_queue) != len(self._workers):
            self._by_queue = {queue_name(one.task_type, one.domain, owner): one for one in self._workers}
        return self._by_queue

    def _polled(self, at: int) -> PollWrite | None:
        """Return the write for the poll of workers that are free at an instant: as often as one is written."""
        if 0 <= at - self._noted_at < POLLS_MS:
            return None
        self._noted_at = at
        who = self.worker_id
        polls = [
            PollData(queue_name=worker.task_type, domain=worker.domain or None, worker_id=who, last_poll_time=at)
            for worker in self.served().values()
        ]
        return self._engine.core.polling.polls.write(polls)

    def receive(self, taking: Taking | None, into: list[tuple[Worker, Task]] | None = None) -> None:
        """Have what a turn has handed over carried out next, or put it into a list."""
        if taking is None or not (taking.taken or taking.write):
            return
        owner, served, handed = self._engine.config.owner, self.served(), self.handed if into is None else into
        self._in_a_row += max(0, len(taking.taken) - 1)  # the turn has counted as one
        for task, _ in self._engine.core.polling.received(taking):
            queue = queue_name(task.task_type, task.domain, owner) if owner or task.domain else task.task_type
            handed.append((served[queue], task))
        if taking.at is not None and taking.taken and isinstance(self._engine.clock, VirtualClock):
            self._in_a_row, self._rotation = 0, self._rotation + 2  # as after a poll in vain, and one at that instant
            self._engine.clock.move_to(max(taking.at, self._engine.clock.now()))

    def _keep(self, worker: Worker, hand: Hand) -> None:
        """Note what is to be taken alone. What runs is waited for, but not for longer than a stopping engine would."""
        while hand.passed:
            if (message := hand.passed.pop(0)).key not in self._waiting:
                self._waiting[message.key] = (worker, message)
                self._until = Deadline(self._engine.clock, self._workers.drain_ms)


#: How often a report is tried whose turn breaks an invariant: the third one parks its execution, which keeps the fourth.
_TRIES: Final = 4

#: Between writes of what a running function logs, ms.
_LINES_MS: Final = 1_000


class Reports:
    """Reports results to an engine. One that cannot be stored at present is not lost: it goes first when it is tried again."""

    def __init__(self, engine: Verbs, handing: HandOut, haste: Haste | None = None) -> None:
        self._engine = engine
        self._handing = handing
        #: Whether turns wait only shortly for foreign code.
        self.haste = haste
        #: Results, and lines for the logs of tasks.
        self.in_hand: deque[tuple[Task, TaskResult | tuple[str, ...], int, bool]] = deque()

    def __len__(self) -> int:
        return len(self.in_hand)

    def add(self, task: Task, result: TaskResult, at: int, times: int = 1, *, lost: bool = False) -> None:
        """Take a result of an instant, and report all that is kept; raises as `flush` does. A lost lease was reported already."""
        self.in_hand.extend([(task, result, at, lost)] * times)
        self.flush()

    def tasks(self) -> list[Task]:
        """Of which something is kept."""
        return [task for task, *_ in self.in_hand.copy()]

    def log(self, task: Task, *lines: str) -> None:
        """Take lines for a task's log; they are stored with the next `flush`."""
        self.in_hand.append((task, lines, 0, True))

    def take_lines(self, calls: Iterable[Call], now: int) -> None:
        """Take what running functions have logged, of each once a second."""
        for running in calls:
            if running.context is not None and abs(now - running.lines_at) >= _LINES_MS and (lines := running.context.noted()):
                running.lines_at = now
                self.log(running.task, *lines)

    def take_emitted(self, calls: Iterable[Call], now: int) -> None:
        """Store what running functions have emitted, each once its first value has waited long enough."""
        for running in calls:
            context = running.context
            if context is not None and context.emitting is not None and (at := context.emitting.due_at) is not None and at <= now:
                try:
                    context.emitting.hand_over()
                except StaleLease:
                    context.lost = True  # the next sign of life says so
                except StorageError as error:  # it is tried again when as much time has passed
                    about_task(running.task, f"what it has emitted cannot be stored now: {error}")

    def flush(self) -> bool:
        """Report all that is kept, oldest first; whether there was anything.

        Raises StorageErrors and EngineClosed, with what is left kept.
        """
        found = bool(self.in_hand)
        while self.in_hand:
            try:
                task, said, at, lost = self.in_hand[0]
                if isinstance(said, tuple):
                    self._engine.tasks.log(task, *said)
                else:
                    self.report(task, said, at, lost=lost)
            except (StorageError, EngineClosed):
                raise  # kept: the store could not be written
            except Exception:
                self.in_hand.popleft()
                raise
            self.in_hand.popleft()
        return found

    def report(self, task: Task, result: TaskResult, at: int | None, *, lost: bool = False, ended: Sequence[Worker] = ()) -> None:
        """Report one result of a function that ended at an instant (epoch ms); one that the engine refuses for good is dropped.

        `ended` are workers that are free when it is reported. Raises StorageErrors: then it is to be kept.
        """
        core = self._engine.core.reports
        try:
            for tried in range(_TRIES):
                try:
                    return self._taken([core.prepared(task, result, at=at)], lost=lost, ended=ended)
                except InvariantBroken:
                    if tried + 1 == _TRIES:
                        raise
        except (Conflict, InvariantBroken, NotFound) as error:
            _dropped(task, error, lost=lost)
        except InvalidInput as error:
            try:
                core.report(task, refused(task, result, error), at=at)
            except (Conflict, InvariantBroken, NotFound) as dropped:
                _dropped(task, dropped, lost=lost)
        return None

    def together(self, groups: Iterable[Sequence[Call]]) -> Iterator[Call]:
        """Report what calls have returned, those of one execution in one turn, the turns in one write.

        Gives the calls that are reported; the others are to be reported one by one.
        """
        core, whole = self._engine.core.reports, []
        for calls in groups:
            try:
                whole.append((calls, [core.prepared(call.task, call.result(), at=call.ended_at) for call in calls]))
            except LASTING:
                raise
            except (StorageError, InvalidInput):
                continue  # it is reported alone, and raises or is refused there
        if len(whole) == 1:  # others wait longer than what one of several executions offers next, or it would have to look at all
            calls, found = whole[0]
            try:
                self._taken(found, ended=[call.worker for call in calls])
            except LASTING:
                raise
            except ConductorliteError:
                return  # each is reported alone, and raises or is refused there
            yield from calls
            return
        reports, ended = [found for _, found in whole], [call for calls, _ in whole for call in calls]
        haste, poll = self.haste, partial(self._handing.take_beside, ended)
        turns = beside(self._engine.core.groups, lambda run: core.taken_together(reports, run=run, haste=haste), poll)
        for (calls, found), taken in zip(whole, turns or core.taken_together(reports, haste=haste), strict=True):
            if isinstance(taken, TurnResult):
                self._answer(found, taken)
                yield from calls

    def _taken(self, found: Sequence[Report], *, lost: bool = False, ended: Sequence[Worker] = ()) -> None:
        taking = self._handing.taking(found, ended)
        try:
            taken = self._engine.core.reports.taken(found, taking, self.haste)
        except BaseException:
            if taking is not None and taking.taken:
                self._engine.core.polling.give_up(task for task, _ in taking.taken)
            raise
        self._handing.receive(taking)
        self._answer(found, taken, lost=lost)

    def _answer(self, found: Iterable[Report], taken: TurnResult, *, lost: bool = False) -> None:
        for one in found:
            reply = taken.replies.get(one.event.event_id)
            if reply is not None and reply.outcome is Outcome.IGNORED and not (lost or self._is_stored(one)):
                about_task(one.task, f"its report comes too late and is dropped: {reply.message}")
            try:
                self._engine.core.reports.answered(one, taken)
            except (Conflict, NotFound) as error:
                _dropped(one.task, error, lost=lost)

    def _is_stored(self, one: Report) -> bool:
        """Return True if this report ended an attempt: it was committed, and the answer did not come, so it was made again."""
        with self._engine.backend.reading() as view:
            stored = view.executions.task_by_id(one.task.task_id)
            if stored is None:  # the report has ended its round, which is not kept; one of a removed execution is reported as such
                return view.executions.workflow(one.task.workflow_id) is not None
        status, output = one.result.status, Payload.of(dict(one.result.output_data))
        same = stored.status is status or (status is not TaskStatus.COMPLETED and stored.status is TaskStatus.COMPLETED_WITH_ERRORS)
        return same and stored.poll_count == one.task.poll_count and stored.output.digest == output.digest


def _dropped(task: Task, error: ConductorliteError, *, lost: bool) -> None:
    # The lease is another worker's, or the execution was removed while the function ran.
    if not lost:
        about_task(task, f"its report is dropped: {error}")
