"""A turn's rows: the workflow, its tasks, their counters and their journal; and the decision they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.decide.changeset.admissions import Admissions
from conductorlite.decide.changeset.view import SMALL
from conductorlite.decide.transitions import (
    attempt_id,
    begin_attempt,
    cancel_attempt,
    end_attempt,
    end_workflow,
    make_attempt,
    move_workflow_instants,
    record_report,
    reopen_workflow,
    reset_workflow,
    retry_attempt,
    start_workflow,
)
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import EMPTY, Payload, parse
from conductorlite.model.decisions import Decision, Event, EventKind, Outgoing, Renamed
from conductorlite.model.errors import InvariantBroken, PayloadTooLarge
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, own_task, printed_ref
from conductorlite.model.policies import derive_id
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
)
from conductorlite.plan.compile import Node

__all__ = ["PUT_OFF", "Changeset"]

#: Operators whose retries wait for their delay, SCHEDULED: those that wait for something once they have begun. The others are
#: evaluated in the decision itself, where Conductor knows no delay.
PUT_OFF: Final = frozenset({"WAIT", "HUMAN", "PULL_WORKFLOW_MESSAGES", "SUB_WORKFLOW", "START_WORKFLOW"})

#: What a task becomes that its worker puts back: its output so far is recorded.
_OFFERED_AGAIN: Final = frozenset({TaskStatus.SCHEDULED, TaskStatus.PENDING})

_NOTHING: Final = Outgoing()

#: Python finds a global faster than a member of an enumeration.
_SKIPPED: Final = TaskStatus.SKIPPED

#: What a row was before a change: its status (None: there was no row), its input, and whether it was live.
Before = tuple[TaskStatus | None, Payload | None, bool]

_NO_ROW: Final[Before] = (None, None, False)

#: Python finds a global faster than a member of an enumeration.
_TOTAL, _TASK, _POLL, _RESPONSE, _WAIT = (
    EventKind.TOTAL_TIMEOUT,
    EventKind.TASK_TIMEOUT,
    EventKind.POLL_TIMEOUT,
    EventKind.RESPONSE_TIMEOUT,
    EventKind.WAIT_ENDS,
)


class Changeset(Admissions):
    """One turn in the making. Not thread-safe."""

    def change(self, **fields: Any) -> None:
        """Change fields of the workflow row, save `status`."""
        for name, value in fields.items():
            setattr(self._row, name, value)

    def move_workflow(
        self, status: WorkflowStatus, *, reason: str | None = None, payload: Payload | None = None, verb: bool = False
    ) -> None:
        """Change the workflow's status and journal it; raises InvariantBroken when the table forbids it."""
        before = None if self._created and not self.history else self.workflow.status
        allowed = WORKFLOW_TRANSITIONS[before]
        if verb and before is not None:
            allowed = allowed | WORKFLOW_VERB_TRANSITIONS.get(before, frozenset())
        if status not in allowed:
            raise InvariantBroken(f"workflow {self.workflow.workflow_id}: {before} may not become {status}")
        self._row.status = status
        self.journal(HistoryKind.WORKFLOW, status, reason=reason, payload=payload)

    def start(self) -> None:
        """Begin the execution, unless it has begun before."""
        start_workflow(self._row, self.now)

    def end(self, reason: str | None) -> None:
        """End the execution; its status is `move_workflow`'s."""
        end_workflow(self._row, reason, self.now)

    def take_back_end(self) -> None:
        """Take back what reported the end of the execution."""
        reopen_workflow(self._row)

    def move_instants(self, by: int) -> None:
        """Put the instants of the execution to what a clock would have read that goes by so much more."""
        move_workflow_instants(self._row, by)

    def take_back_start(self) -> None:
        """Take the execution back to where nothing of it has begun."""
        reset_workflow(self._row)

    def journal(
        self,
        kind: HistoryKind,
        status: str,
        *,
        ref: str | None = None,
        attempt: int | None = None,
        number: int | None = None,
        reason: str | None = None,
        payload: Payload | None = None,
    ) -> None:
        """Add a line to the journal."""
        cause = self.cause
        if self.clock != self.now and (cause is not None or not self.history):
            self.noted["clock"] = self.clock
        if self.noted:
            cause = encoded({**({} if cause is None else parse(cause)), **self.noted})
            self.noted = {}
        self.cause = None
        self.history_seq = n = self.history_seq + 1
        self.history.append(
            HistoryEvent(
                n=n,
                at=self.now,
                kind=kind,
                status=status,
                ref=ref,
                attempt=attempt,
                number=number,
                reason=reason,
                payload=payload,
                cause=cause,
            )
        )

    def create(
        self,
        node: Node,
        iterations: tuple[int, ...],
        status: TaskStatus,
        *,
        previous: Task | None = None,
        input: Payload = EMPTY,
        in_order: bool = True,
        **fields: Any,
    ) -> Task:
        """Add the first attempt at a node, or the one after `previous`; `in_order=False` leaves its place in the order open.

        Raises PayloadTooLarge, with nothing changed, for an input past its barrier; such an output fails the attempt for good.
        """
        if self.lost is not None or input.text is None or len(input.text) > SMALL:
            problem = self.refusal("task_input", input)
            if problem is not None:
                raise PayloadTooLarge(problem)
        problem = self.refusal("task_output", fields["output"]) if "output" in fields else None
        if problem is not None:
            status = TaskStatus.FAILED_WITH_TERMINAL_ERROR
            fields |= {"output": EMPTY, "reason": problem}
        ref = printed_ref(node.ref, iterations) if iterations else node.ref
        if self.beginning is not None and self.beginning.ref == ref:
            return self._begin(self.beginning, status, input, fields)
        row = make_attempt(node, self.workflow, ref, iterations, status, self.now)
        if previous is not None:
            superseded, before = self.opened(previous)
            retry_attempt(row, superseded)
            self.settle(superseded, before)
        row.input = self.keep(input) if input.large else input
        for name, value in fields.items():
            setattr(row, name, value)
        if not row.task_id:
            row.task_id = self.task_id(ref, row.attempt)
        if in_order:
            row.seq = self.next_place(ref)
        self.inserted[ref, row.attempt] = self.last[ref] = row
        self.newest[node.ref] = ref
        self.settle(row, _NO_ROW)
        task: Task = row
        return task

    def adopt(self, row: Task) -> None:
        """Add an attempt that was copied from another execution, and journal it as such; it is not counted."""
        self.inserted[row.ref, row.attempt] = self.last[row.ref] = row
        self.newest[row.base_ref] = row.ref
        for digest in row.grafts:
            self._use(digest)
        self.keep(row.input)
        self.keep(row.output)
        self.journal(HistoryKind.COPIED, row.status, ref=row.ref, attempt=row.attempt, reason=row.reason, payload=row.output)
        if row.round:
            self.journal(HistoryKind.ROUND, row.status, ref=row.ref, attempt=row.attempt, number=row.round)

    def end_copy(self, status: WorkflowStatus, reason: str) -> None:
        """End an execution that is a copy as the other one has ended: nothing follows, and nobody is notified of it."""
        end_workflow(self._row, reason, self.now)
        self._row.status = status
        self.journal(HistoryKind.COPIED, status, reason=reason)

    def _begin(self, task: Task, status: TaskStatus, input: Payload, fields: dict[str, Any]) -> Task:
        """Begin an attempt whose row stands there already, for its delay is over."""
        row, before = self.opened(task)
        begin_attempt(row, status, self.now)
        row.input = self.keep(input)
        for name, value in fields.items():
            if name != "start_delay_ms":
                setattr(row, name, value)
        self.settle(row, before)
        begun: Task = row
        return begun

    def create_ended(self, node: Node, iterations: tuple[int, ...], status: TaskStatus, **fields: Any) -> Task:
        """Add an attempt that is over as soon as it is there, and put what follows from it on the work list."""
        task = self.create(node, iterations, status, **fields)
        self.queue.append(("advance", task.ref))
        return task

    def task_id(self, ref: str, attempt: int, generation: int | None = None) -> str:
        """Id of an attempt, by default of the present generation, derived from its identity."""
        key = (ref, attempt, self.workflow.generation if generation is None else generation)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = attempt_id(self.workflow, *key)
        return known

    def next_place(self, ref: str) -> int:
        """The next place in the order of scheduling, given to `ref`."""
        row = self._row
        number: int = row.task_seq + 1
        row.task_seq, row.last_ref = number, ref
        return number

    def own(self, task: Task) -> Task:
        """The row as the turn writes it: a copy of what the reader has answered, made once."""
        row, place = self.last.get(task.ref), (task.ref, task.attempt)
        if row is None and task.ref not in self._dropped:  # nothing of this reference is written yet
            self._as_read[place] = task
            owned: Task = own_task(task)
            self.updated[place] = self.last[task.ref] = owned
            return owned
        if row is not None and row.attempt == task.attempt:
            return row
        row = self.updated.get(place) or self.inserted.get(place)
        if row is None:
            raise InvariantBroken(f"task {task.ref!r}: attempt {task.attempt} is not the last one")
        return row

    def opened(self, task: Task) -> tuple[Any, Before]:
        """Return the row, to be written field by field, and what `settle` is to know of it as it was."""
        row: Any = self.last.get(task.ref)
        if row is None or row.attempt != task.attempt:
            row = self.own(task)
        status = row.status
        live = row.live if row.executed or row.retried or status is _SKIPPED else True
        return row, (status, row.input, live)

    def put(self, task: Task, *, verb: bool = False, because: str | None = None, **fields: Any) -> Task:
        """Change fields of a row, and settle it. Returns the row as it is now."""
        row, before = self.opened(task)
        for name, value in fields.items():
            setattr(row, name, value)
        self.settle(row, before, verb=verb, because=because)
        changed_row: Task = row
        return changed_row

    def settle(self, task: Task, before: Before, *, verb: bool = False, because: str | None = None) -> None:
        """Do what follows from a change of a row: check and journal its status, and count it.

        `before` is what `opened` has given. `because` is recorded for a change after which the attempt is open still, and kept in
        no row. Raises InvariantBroken.
        """
        was, given, was_live = before
        status = task.status
        if status is not was:
            if status not in TASK_TRANSITIONS[was] and not (verb and was and status in TASK_VERB_TRANSITIONS.get(was, ())):
                raise InvariantBroken(f"task {task.ref!r} attempt {task.attempt}: {was} may not become {status}")
            if status.terminal or (was is not None and status in _OFFERED_AGAIN and task.output != EMPTY):
                payload: Payload | None = task.output
            else:
                payload = None if task.input is given or (given is not None and task.input == given) else task.input
            self.journal(
                HistoryKind.TASK,
                status,
                ref=task.ref,
                attempt=task.attempt,
                reason=task.reason if status.terminal else because,
                payload=payload,
            )
        live = task.live if task.executed or task.retried or status is _SKIPPED else True
        if live is not was_live and self.counting:
            self.count(task, live - was_live)

    def count(self, task: Task, change: int) -> None:
        """Have what counts a task count as many live tasks more: a scope around it, or the workflow; raises InvariantBroken."""
        owner = self.owner(task) if task.grafts or self.plan.nodes[task.base_ref].scopes else None
        counter: Any = self._row if owner is None else self.own(owner)
        counter.open = count = counter.open + change
        if count < 0:
            raise InvariantBroken(f"{'workflow' if owner is None else owner.ref}: counts {count} live tasks")

    def execute(self, task: Task) -> Any:
        """Note that the successors of an ended task have their rows, and return its row; it is not live any more."""
        row: Any = self.own(task)
        was_live, row.executed = row.live, True
        if was_live and self.counting:
            self.count(row, -1)
        return row

    def drop(self, tasks: list[Task]) -> None:
        """Delete ended tasks that are kept no longer, with all their attempts; the journal still records them."""
        gone = {task.ref for task in tasks}
        for task in tasks:
            if task.live:
                raise InvariantBroken(f"task {task.ref!r} is dropped while it is live")
            self._dropped[task.ref] = None
            self.last.pop(task.ref, None)
            if self.newest.get(task.base_ref) == task.ref:
                del self.newest[task.base_ref]
        for place in [place for place in self.updated if place[0] in gone]:
            self._date_timers(self.updated.pop(place), self._as_read[place])
        for place in [place for place in self.inserted if place[0] in gone]:
            del self.inserted[place]

    def take_back(self, tasks: list[Task]) -> None:
        """Delete tasks that are to be run again, whatever they are at: what is open is canceled first."""
        for task in tasks:
            task = self.known(task.ref)
            if not task.status.terminal:
                task = self.cancel(task)
            self.cancel_timer(f"{EventKind.CONTINUE}:{task.ref}")
            if task.live:
                self.put(task, executed=True)
        self.drop([self.known(task.ref) for task in tasks])
        if self.workflow.last_ref in self._dropped:
            # An execution that fails before anything is scheduled again puts out what the last task left has put out.
            left = max((task for task in self.everything() if task.seq), key=lambda task: task.seq, default=None)
            self.change(last_ref=None if left is None else left.ref)

    def start_order_again(self) -> None:
        """Number tasks from 1 again: all that were have been taken back."""
        self.change(task_seq=0, last_ref=None)

    def recount(self) -> None:
        """Count again what is live in every scope; everything must be loaded."""
        self.counting = True
        live: dict[str | None, int] = {}
        rows = self.everything()
        for task in rows:
            if task.live:
                owner = self.owner(task)
                scope = None if owner is None else owner.ref
                live[scope] = live.get(scope, 0) + 1
        for task in rows:
            if task.open != live.get(task.ref, 0):
                self.put(task, open=live.get(task.ref, 0))
        self.change(open=live.get(None, 0))

    def close(
        self,
        task: Task,
        status: TaskStatus,
        *,
        output: Payload | None = None,
        reason: str | None = None,
        child_ended: bool = False,
        report: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Task:
        """End an attempt: its lease, timers and message go; what follows from it is put on the work list.

        The execution a SUB_WORKFLOW task has started is terminated, unless it is its end that ends the task. What a
        START_WORKFLOW was to start later is not started. An output past its barrier, or made of what cannot be read, fails the
        attempt for good.
        """
        problem = None
        if self.lost is not None or (output is not None and (output.text is None or len(output.text) > SMALL)):
            problem = self.refusal("task_output", output)
        if problem is not None:
            status, output, reason = TaskStatus.FAILED_WITH_TERMINAL_ERROR, EMPTY, problem
        row, before = self.opened(task)
        if not child_ended and (row.sub_workflow_id is not None or row.task_type == "START_WORKFLOW"):
            self._end_child(row, f"parent workflow {row.workflow_id}: {reason or f'its task {row.ref!r} is {status}'}")
        if row.status is not TaskStatus.IN_PROGRESS:
            self._leave_queue(row)
        if report is not None:
            record_report(row, report)
        end_attempt(row, status, reason, self.now)
        if output is not None:
            row.output = self.keep(output) if output.large else output
        for name, value in fields.items():
            setattr(row, name, value)
        self.settle(row, before)
        if row.limit_key is not None:
            self._leave_limit(row)
        self.queue.append(("advance", row.ref))
        ended: Task = row
        return ended

    def _leave_queue(self, task: Task) -> None:
        if task.status is TaskStatus.SCHEDULED:
            self.remove_message(task)
            if task.limit_key is not None:
                self.cancel_timer(f"{EventKind.OFFER_ENDS}:{task.ref}")
        if task.status is TaskStatus.PENDING or (task.status is TaskStatus.SCHEDULED and task.task_type in PUT_OFF):
            self.cancel_timer(f"{EventKind.ADMISSION}:{task.ref}")

    def _leave_limit(self, task: Task) -> Task:
        """Give back the slot of a task, or its place in the line."""
        if task.limit_key is None:
            return task
        self.give_back(task.limit_key, [task.task_id], of=task.ref)
        return self.put(task, limit_key=None)

    def take_place_of(self, task: Task) -> None:
        """Take out the PENDING row of the first task, for what it stands for is scheduled now, in its place."""
        self.change(open=self.workflow.open - 1, task_seq=task.seq - 1)
        self.last.pop(task.ref, None)
        self.newest.pop(task.base_ref, None)
        if self.inserted.pop((task.ref, task.attempt), None) is None:
            self._dropped[task.ref] = None
        self.updated.pop((task.ref, task.attempt), None)

    def started_id(self, task: Task) -> str:
        """Id of the execution that an attempt of START_WORKFLOW starts."""
        workflow = self.workflow
        return derive_id("started", workflow.seed, workflow.workflow_id, task.ref, task.attempt, task.generation)

    def _end_child(self, task: Task, reason: str) -> None:
        child = task.sub_workflow_id
        if task.task_type == "START_WORKFLOW" and task.due_at > self.clock and task.status is TaskStatus.IN_PROGRESS:
            child = self.started_id(task)
        if child is None:
            return
        self.post_to(
            child,
            f"{EventKind.TERMINATE}:{task.task_id}",
            EventKind.TERMINATE,
            {"reason": reason},
        )

    def cancel(self, task: Task, because: str | None = None) -> Task:
        """End an open attempt because its execution ends, or what is around it: nothing follows. `because` goes to its child."""
        self._end_child(task, because or f"parent workflow {task.workflow_id}: its task {task.ref!r} is canceled")
        self._leave_queue(task)
        row, before = self.opened(task)
        cancel_attempt(row, self.now)
        self.settle(row, before)
        return self._leave_limit(row)

    def rename(self, task: Task, new_ref: str, new_base_ref: str) -> None:
        """Give all attempts at a printed reference another name: ids, leases and generations stay, so reports still arrive.

        Its message is put under the new name; its events are the caller's to send on. To be done last in a turn.
        """
        self._renamed = (*self._renamed, Renamed(ref=task.ref, new_ref=new_ref, new_base_ref=new_base_ref))
        node = self.placed(task)
        if task.status is TaskStatus.SCHEDULED and not (node is not None and node.operator):
            self.remove_message(task)
            self.offer(changed(task, ref=new_ref, base_ref=new_base_ref))
        if task.limit_key is not None and not task.status.terminal:
            self.rename_member(task.limit_key, task.task_id, new_ref)

    def addressee(self, event: Event) -> Task | None:
        """The attempt that an event is about, whatever it was renamed to since; else what has its name, or nothing.

        An event names an attempt by its reference, and most by its id too, which is never changed. Where the id is not given, it
        is derived from the name under which the attempt began.
        """
        ref = event.ref or ""
        task = self.task(ref)
        # Every renaming begins a generation: what is of the present one has the name under which it began.
        if not ref or event.generation == self.workflow.generation:
            return task
        said = self.value(event.data)
        named = said.get("taskId") or said.get("holder")
        if task is not None and (_is_attempt(task, event) if named is None else task.task_id == named):
            return task
        wanted = named or self.task_id(ref, event.attempt, event.generation)
        moved = self.reader.ref_of(wanted)
        found = None if moved is None else self.task(moved)
        return found if found is not None and found.task_id == wanted else None

    def date_timers(self) -> None:
        """Have the timers of the rows that the turn has written follow from their deadlines.

        Each row is compared as it was read with what it is now, so a timer that is set and canceled within the turn leaves nothing.
        """
        for place, row in self.updated.items():
            self._date_timers(row, self._as_read[place])
        for row in self.inserted.values():
            if row.status.terminal:
                continue  # it has no deadline
            self._date_timers(row, self.plan.nodes[row.base_ref].blank if not row.grafts else self.node(row).blank)

    def _date_timers(self, row: Task, read: Task) -> None:
        """Set and cancel the timers of a row by its deadlines and those of the row as it was `read`.

        Of those due at one instant the total timeout takes effect first, then the task timeout, the poll timeout and the response
        timeout, as in Conductor; of two tasks those of the one that was scheduled first. Each was set when what it limits began.
        """
        if (at := row.total_timeout_at) != read.total_timeout_at:
            self._date_timer(row, "TOTAL_TIMEOUT", _TOTAL, at, row.scheduled_at, 0)
        if (at := row.timeout_at) != read.timeout_at:
            self._date_timer(row, "TASK_TIMEOUT", _TASK, at, row.started_at, 1)
        if (at := row.poll_timeout_at) != read.poll_timeout_at:
            self._date_timer(row, "POLL_TIMEOUT", _POLL, at, row.updated_at, 2)
        if (at := row.response_timeout_at) != read.response_timeout_at:
            self._date_timer(row, "RESPONSE_TIMEOUT", _RESPONSE, at, row.updated_at, 3)
        if row.wait_until is not None or read.wait_until is not None:
            at = None if row.status.terminal else row.wait_until
            if at != (None if read.status.terminal else read.wait_until):
                self._date_timer(row, "WAIT_ENDS", _WAIT, at, row.scheduled_at, 4)

    def _date_timer(self, row: Task, name: str, kind: EventKind, at: int | None, since: int, order: int) -> None:
        """Set a timer of a row that was set at an instant, or cancel it (None).

        One that no definition sets counts driven time; it says since when (epoch ms), how much, and whose drivers count.
        """
        event_id = f"{name}:{row.ref}"
        if at is None:
            if self._timers:
                self._timers.pop(event_id, None)
            self._cancelled[event_id] = None
            return
        policy, data = (self.node(row) if row.grafts else self.plan.nodes[row.base_ref]).policy, EMPTY
        span = policy.default_ms.get(kind, 0) if not self._lengths else self._lengths.get(event_id, policy.default_ms.get(kind, 0))
        if span > 0:
            owner, text = self.workflow.owner, f'"since":{at - span},"span":{span}'
            data = Payload(f'{{{text},"owner":{encoded(owner)}}}' if owner else f"{{{text}}}")
        self._timers[event_id] = Event(
            workflow_id=row.workflow_id,
            event_id=event_id,
            kind=kind,
            due_at=at,
            posted_at=since,
            sender=row.workflow_id,
            sender_seq=5 * (row.seq - 1) + order,  # after those of every task that was scheduled before
            ref=row.ref,
            attempt=row.attempt,
            generation=row.generation,
            data=data,
            stored=True,
        )

    def decision(self) -> Decision:
        """Everything the turn changes, grouped by where it goes."""
        self.date_timers()
        inserted = tuple(self.inserted.values()) if self.inserted else ()
        updated = tuple(self.updated.values()) if self.updated else ()
        workflow, row = self.workflow, self._row
        row.updated_at, row.history_seq = self.now, self.history_seq
        row.broken_turns, row.parked = 0, None
        timers = tuple(self._timers.values()) if self._timers else ()
        if self._limits:
            alarms = self._books.alarms.values()
            self._posted += [event for event in alarms if event.workflow_id != workflow.workflow_id]
            timers += tuple([event for event in alarms if event.workflow_id == workflow.workflow_id])
        return Decision(
            workflow=workflow,
            created=self._created,
            inserted=inserted,
            updated=updated,
            dropped=tuple(self._dropped) if self._dropped else (),
            renamed=self._renamed,
            texts=tuple(self._texts.values()) if self._texts else (),
            definitions=self._definitions,
            history=tuple(self.history),
            consumed=tuple(self._consumed) if self._consumed else (),
            cancelled=()
            if not self._cancelled
            else tuple(self._cancelled)
            if not self._timers
            else tuple([event_id for event_id in self._cancelled if event_id not in self._timers]),
            timers=timers,
            release_held=self._release_held,
            released_at=self.clock,
            outgoing=Outgoing(removed=tuple(self._removed), put=tuple(self._put.values()), posted=tuple(self._posted))
            if self._removed or self._put or self._posted
            else _NOTHING,
            more=self.more,
            replies=self.replies,
            limits=self.limit_changes() if self._limits else (),
            printed=self.printed,
            messages=tuple(self.messages.values()) if self.messages else (),
        )


def _is_attempt(task: Task, event: Event) -> bool:
    return (task.attempt, task.generation) == (event.attempt, event.generation)
