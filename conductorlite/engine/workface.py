"""The worker's face: poll, update_task, extend_lease, log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import attrs

from conductorlite.canonical import Payload
from conductorlite.decisions import Decision, Event, EventKind, Message, Outcome, queue_name
from conductorlite.engine.archived import unarchived
from conductorlite.engine.asked import Along, Taken, letter
from conductorlite.engine.control import refuse_parked
from conductorlite.engine.domains import Rider
from conductorlite.engine.holding import Holding
from conductorlite.engine.logs import log_store
from conductorlite.engine.reruns import Reruns
from conductorlite.engine.results import cut_line, cut_result, kept_result, raw_lines
from conductorlite.errors import (
    Conflict,
    ExecutionArchived,
    ExecutionNotFound,
    InvalidInput,
    PayloadLost,
    PayloadUnavailable,
    StaleLease,
    StorageBusy,
    StorageCorrupt,
    StorageFull,
    TaskNotFound,
)
from conductorlite.executions import PollData, Task, TaskLog, TaskResult, TaskStatus, Workflow
from conductorlite.expressions.scrubbing import Scrubber
from conductorlite.plan import Node
from conductorlite.ports import WritingTransaction
from conductorlite.spans import Span, to_span

__all__ = ["Hand", "WorkerFace"]

#: Messages looked at for one that can be taken, beyond those asked for.
_SPARE = 8

#: When a task is offered again whose documents cannot be had at present.
_AGAIN_MS = 30_000

#: How long a long poll sleeps before it looks for commits of other processes.
_GLANCE_MS = 100


@attrs.define(slots=True)
class Hand:
    """By whose hand tasks are taken: an open engine's, for its own workers."""

    holding: Holding
    #: Nothing else runs there, and nothing else will until this task has ended.
    alone: bool = False
    #: What is offered to it only when it is alone.
    passed: list[Message] = attrs.field(factory=list)


class WorkerFace(Reruns):
    """Verbs of those who carry out tasks."""

    def poll(
        self,
        task_type: str,
        *,
        worker_id: str | None = None,
        count: int = 1,
        timeout: Span = "0s",
        domain: str | None = None,
    ) -> list[Task]:
        """Take up to `count` tasks of a type, each under a lease; the list may be shorter, or empty.

        Higher priorities come first, then those offered longest. With `timeout` (text or a timedelta) the call waits that
        long for a first task; on a virtual clock, where time does not pass by waiting, it returns at once. The input is
        `task.input_data`; the report must carry `task.lease`. The poll itself is recorded, see `poll_data`: at most once a
        second for a worker, type and domain. A task whose input is lost in the payload storage fails with that reason, and is
        not in the list; while the storage cannot be reached it goes back into its queue for 30 s. Raises InvalidInput
        when `count` is below 1.
        """
        if count < 1:
            raise InvalidInput(f"count {count} is below 1")
        queue = queue_name(task_type, domain or None, self.owner)
        until = self.clock.now() + to_span(timeout)
        while True:
            seen = self.turns.commits
            taken = self.take_offered(task_type, worker_id, count, domain)
            now = self.clock.now()
            if taken or now >= until or self.clock.virtual:
                return taken
            with self.backend.reading() as view:
                next_at = view.next_message_at([queue])
            with self.turns.committed:
                if self.turns.commits == seen:
                    wake_at = min(until, now + _GLANCE_MS, *([] if next_at is None or next_at <= now else [next_at]))
                    self.clock.wait(self.turns.committed, wake_at)

    def take_offered(
        self, task_type: str, worker_id: str | None, count: int, domain: str | None, hand: Hand | None = None
    ) -> list[Task]:
        """Take up to `count` tasks that are offered now: by a hand, which gives them back if it dies, or by somebody's own."""
        queue = queue_name(task_type, domain or None, self.owner)
        now = self.clock.now()
        poll = PollData(queue_name=task_type, domain=domain or None, worker_id=worker_id, last_poll_time=now)
        rider = Rider(self._polls.noted(poll))
        taken = self._take_offered(queue, worker_id, count, rider, hand)
        self._record(rider)
        return taken

    def _record(self, rider: Rider) -> None:
        """Write polls that no turn has taken along. A busy or full store is no error: a later poll is written instead."""
        if not rider.polls:
            return
        if not rider.aboard:
            try:
                with self.backend.writing() as tx:
                    rider(tx)
            except (StorageBusy, StorageFull):
                return
        self._polls.wrote(rider.polls)

    def _take_offered(self, queue: str, worker_id: str | None, count: int, along: Along, hand: Hand | None) -> list[Task]:
        taken: list[tuple[Task, Workflow]] = []
        passed: set[Message] = set()
        spare = 0
        while len(taken) < count:
            limit = count - len(taken) + spare
            with self.backend.reading() as view:
                offered = view.offered(queue, self.clock.now(), limit)
            before = len(taken)
            for message in offered:
                if len(taken) == count:
                    break
                found = None if message in passed else self.take_message(message, worker_id, along, hand)
                if found is not None:
                    taken.append(found)
                else:
                    passed.add(message)
            if len(taken) == before and len(offered) < limit:
                break
            # Others poll too, or what is offered is void or of parked executions: look further.
            spare = max(_SPARE, 2 * spare)
        return self._handed_whole(taken)

    def _handed_whole(self, taken: Sequence[tuple[Task, Workflow]]) -> list[Task]:
        whole: list[Task] = []
        for task, row in taken:
            with suppress(TaskNotFound):  # ended and removed by somebody else since
                near = self._at_hand(task)
                handed = near if self._secrecy is None or near is None else self._handed(near, row)
                whole += [] if handed is None else [handed]
        return whole

    def _at_hand(self, task: Task) -> Task | None:
        """A polled task with its documents; None when one of them is lost, which fails it.

        While one cannot be had the task goes back into its queue.
        """
        task = self._with_payloads(task)
        try:
            for payload in (task.input, task.output):
                payload.whole()
            return task
        except PayloadUnavailable as error:
            log_store(f"the documents of {task.ref!r} of {task.workflow_id} cannot be had, it is offered again in 30 s", error)
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
        event = self.report_event(task, result, merge=status is TaskStatus.IN_PROGRESS)
        # Where even its output cannot be had, it is left to its response timeout.
        with suppress(PayloadUnavailable):
            self.turns.take(task.workflow_id, [event])
        return None

    def _handed(self, task: Task, row: Workflow) -> Task | None:
        """A task with its secrets filled in; None when one of them is not to be had, which has failed it."""
        if self._secrecy is None:
            return task
        with self.backend.reading() as view:
            node = self.turns.grown(view, row, task.grafts).nodes[task.base_ref]
        handed = self._secrecy.handed(task, node)
        if isinstance(handed, Task):
            return handed
        with suppress(StaleLease):
            self.report(task, handed)
        return None

    def _scrubber(self, task: Task) -> Scrubber | None:
        """What takes the secrets of a task out of what is said about it; None when it has none, or the engine has none."""
        if self._secrecy is None:
            return None

        def node() -> Node | None:
            with self.backend.reading() as view:
                row, stored = view.workflow(task.workflow_id), view.task_by_id(task.task_id) or task
                return None if row is None else self.turns.grown(view, row, stored.grafts).nodes.get(stored.base_ref)

        return self._secrecy.scrubber(task, node)

    def take_alone(self, message: Message, worker_id: str | None, holding: Holding) -> Task | None:
        """Take one task that is offered only to a hand that is alone; None when it is offered no more."""
        found = self.take_message(message, worker_id, None, Hand(holding, alone=True))
        return None if found is None else next(iter(self._handed_whole([found])), None)

    def take_message(
        self, message: Message, worker_id: str | None, along: Along | None = None, hand: Hand | None = None
    ) -> tuple[Task, Workflow] | None:
        """Take one offered task, with its execution's row; None when somebody else has it, or it is void and dropped."""
        now = self.clock.now()
        said: dict[str, object] = {"workerId": worker_id} if worker_id else {}
        if hand is not None:
            said |= {"holder": hand.holding.begin(), "alone": hand.alone}
        event = attrs.evolve(
            letter(message.workflow_id, EventKind.POLL, now, said),
            ref=message.ref,
            attempt=message.attempt,
            generation=message.generation,
            owner=self.owner,
        )
        try:
            taken = self.turns.take(message.workflow_id, [event], along=along)
        except ExecutionNotFound:
            with self.backend.writing() as tx:
                tx.discard([message])
            return None
        reply = taken.replies.get(event.event_id)
        if hand is not None and reply is not None and reply.outcome is Outcome.ALONE:
            hand.passed.append(message)
        if reply is None or reply.outcome is not Outcome.DONE or taken.decision is None:
            return None
        for task in taken.decision.updated:
            if task.ref == message.ref and task.attempt == message.attempt and task.status is TaskStatus.IN_PROGRESS:
                return task, taken.decision.workflow
        return None

    def _with_payloads(self, task: Task) -> Task:
        absent = {payload.digest for payload in (task.input, task.output) if payload.absent}
        if not absent:
            return task
        with self.backend.reading() as view:
            try:
                texts = self.turns.texts(view, task.workflow_id, absent)
            except StorageCorrupt:
                if view.workflow(task.workflow_id) is not None:
                    raise
                raise TaskNotFound(f"execution {task.workflow_id!r} was removed") from None
        return attrs.evolve(
            task,
            input=texts.get(task.input.digest, task.input) if task.input.absent else task.input,
            output=texts.get(task.output.digest, task.output) if task.output.absent else task.output,
        )

    def update_task(self, result: TaskResult) -> Task:
        """Report on a task and return it as stored afterwards, or as reported if its loop keeps that round no longer.

        A report on an attempt that has ended, or whose execution has ended, changes nothing: the late COMPLETED of Conductor's
        task life cycle. While the execution is parked a report is kept, so that no work is lost, and taken when it is resumed.
        Raises TaskNotFound (also when the execution was removed), ExecutionArchived, InvalidInput (output that is not JSON, a
        status that cannot be reported), StaleLease when `result.lease` is older than the task's, and Conflict when its execution
        waits for a slot before it begins; then nothing is changed.
        """
        with self.backend.reading() as view:
            task = view.task_by_id(result.task_id)
            archived = task is None and view.archived(result.workflow_id) is not None
        if archived:
            raise ExecutionArchived(result.workflow_id)
        if task is None or task.workflow_id != result.workflow_id:
            raise TaskNotFound(f"execution {result.workflow_id!r} has no task {result.task_id!r}")
        try:
            self.report(task, result)
        except ExecutionArchived:
            raise
        except ExecutionNotFound:
            raise TaskNotFound(f"execution {result.workflow_id!r} was removed") from None
        with self.backend.reading() as view:
            after = view.task_by_id(result.task_id)
        if after is None:  # the report has ended its round, and the ones after it at once
            output = Payload.of(dict(result.output_data))
            after = attrs.evolve(task, status=result.status, output=output, reason=result.reason, lease=0)
        return self._with_payloads(after)

    def report(self, task: Task, result: TaskResult, *, at: int | None = None) -> Taken:
        """Report on a task that is at hand; raises as `update_task` does.

        `at` (epoch ms) is when the work ended, if that is not now: a deadline between then and now has not been missed.
        """
        event = self.report_event(task, result)
        if at is not None and at < event.due_at:
            event = attrs.evolve(event, due_at=at, posted_at=at)

        lines, kept = self._lines(task, result.logs), False

        def keep(tx: WritingTransaction, decision: Decision) -> None:
            nonlocal kept
            # A report that is refused or ignored leaves no lines.
            reply = decision.replies.get(event.event_id)
            kept = reply is not None and reply.outcome is Outcome.DONE
            if kept:
                tx.log(task.workflow_id, lines)

        taken = self.turns.take(task.workflow_id, [event], along=keep if lines else None)
        if taken.parked is not None:
            self.turns.keep(task.workflow_id, [event])
        reply = taken.replies.get(event.event_id)
        if reply is not None and reply.outcome is Outcome.STALE:
            raise StaleLease(f"{task.workflow_id}: {reply.message}")
        if reply is not None and reply.outcome is Outcome.CONFLICT:
            raise Conflict(f"{task.workflow_id}: {reply.message}")
        if lines and not kept and (reply is None or reply.outcome is Outcome.DONE):
            self.log(task, *raw_lines(result.logs))
        if self._secrecy is not None and result.status.terminal:
            self._secrecy.forget(task)
        return taken

    def report_event(self, task: Task, result: TaskResult, *, merge: bool = False) -> Event:
        """A report as a letter, its output laid over the task's with `merge`; raises InvalidInput."""
        try:
            result = kept_result(result)
        except InvalidInput as error:
            raise InvalidInput(f"task {task.ref!r}: {error}") from None
        scrubber = self._scrubber(task)
        if scrubber is not None:
            result = _scrubbed(task, result, scrubber)
        result = cut_result(result)
        data = {
            "taskId": task.task_id,
            "status": str(result.status),
            "output": result.output_data,
            "reason": result.reason,
            "traceback": result.traceback,
            "callbackAfterMs": result.callback_after_ms,
            "workerId": result.worker_id,
            "lease": result.lease,
            "merge": merge or None,
        }
        given = {name: value for name, value in data.items() if value is not None}
        return self._task_letter(task, EventKind.REPORT, Payload.of(given, where=f"report on {task.ref!r}"))

    def extend_lease(self, task: Task) -> bool:
        """Say that the worker of a polled task is alive: its response timeout starts again.

        Returns False when the attempt has ended or is not in progress any more. Raises TaskNotFound when the execution was
        removed, ExecutionArchived, StaleLease when somebody else holds it, and Parked: then nothing times out, and a report will
        be kept.
        """
        return self.sign_of_life(task, self.clock.now())

    def sign_of_life(self, task: Task, at: int) -> bool:
        """As `extend_lease`, for a worker that was alive at an instant (epoch ms), when that could not be written."""
        event = self._task_letter(task, EventKind.EXTEND_LEASE, Payload.of({"taskId": task.task_id, "lease": task.lease}))
        if at < event.due_at:
            event = attrs.evolve(event, due_at=at, posted_at=at)
        try:
            taken = self.turns.take(task.workflow_id, [event])
        except ExecutionArchived:
            raise
        except ExecutionNotFound:
            raise TaskNotFound(f"execution {task.workflow_id!r} was removed") from None
        refuse_parked(task.workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is not None and reply.outcome is Outcome.STALE:
            raise StaleLease(f"{task.workflow_id}: {reply.message}")
        return reply is not None and reply.outcome is Outcome.DONE

    def _task_letter(self, task: Task, kind: EventKind, data: Payload) -> Event:
        now = self.clock.now()
        return Event(
            workflow_id=task.workflow_id,
            event_id=f"{kind}@{now}:{task.ref}:{data.digest[:16]}",
            kind=kind,
            due_at=now,
            posted_at=now,
            ref=task.ref,
            attempt=task.attempt,
            generation=task.generation,
            data=data,
        )

    def log(self, task: Task, *lines: str) -> None:
        """Keep lines of text with a task, stamped now; for an execution that was removed or archived meanwhile they are dropped."""
        kept = self._lines(task, lines)
        with self.backend.writing() as tx:
            if tx.workflow(task.workflow_id) is not None:
                tx.log(task.workflow_id, kept)

    def _lines(self, task: Task, lines: Sequence[object]) -> list[TaskLog]:
        texts: Sequence[str] = raw_lines(lines)
        scrubber = self._scrubber(task) if texts else None
        if scrubber is not None:
            texts = [scrubber.text(text) for text in texts]
        now = self.clock.now()
        return [TaskLog(task_id=task.task_id, at=now, text=cut_line(text)) for text in texts]

    def task(self, task_id: str) -> Task:
        """One attempt by its id; raises TaskNotFound, also for one of an archived execution: `get` has those."""
        with self.backend.reading() as view:
            task = view.task_by_id(task_id)
        if task is None:
            raise TaskNotFound(f"there is no task {task_id!r} (those of an archived execution are in what `get` returns)")
        return self._with_payloads(task)

    def task_logs(self, task_id: str, *, workflow_id: str | None = None) -> Sequence[TaskLog]:
        """What workers logged for an attempt; for one of an archived execution its `workflow_id` is needed."""
        with self.backend.reading() as view:
            if workflow_id is None or view.workflow(workflow_id) is not None or view.archived(workflow_id) is None:
                return view.logs(task_id)
            return [entry for entry in unarchived(view, workflow_id).logs if entry.task_id == task_id]


def _scrubbed(task: Task, result: TaskResult, scrubber: Scrubber) -> TaskResult:
    return attrs.evolve(
        result,
        output_data=scrubber.document(result.output_data, where=f"report on {task.ref!r}.output"),
        reason=scrubber.text(result.reason) if result.reason else None,
        traceback=scrubber.text(result.traceback) if result.traceback else None,
        worker_id=scrubber.text(result.worker_id) if result.worker_id else None,
    )
