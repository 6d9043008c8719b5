"""One turn in the making: what happens to an execution and its tasks, and the decision that it adds up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.admissions import Admissions
from conductorlite.decide.changeset.deadlines import date_row, date_timers
from conductorlite.decide.changeset.documents import SMALL, Documents
from conductorlite.decide.changeset.events import REPLIES, Events
from conductorlite.decide.changeset.journal import Journal
from conductorlite.decide.changeset.mailbox import Mailbox
from conductorlite.decide.changeset.moment import Moment
from conductorlite.decide.changeset.queues import QueueChanges
from conductorlite.decide.changeset.reader import Bounds, Reader
from conductorlite.decide.changeset.rows import NO_ROW, Before, Rows
from conductorlite.decide.changeset.work_list import Item, WorkList
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
    started_id,
)
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Outcome, Outgoing, Renamed, Reply
from conductorlite.model.errors import InvariantBroken, PayloadTooLarge
from conductorlite.model.executions import HistoryKind, Task, Workflow, own_workflow, printed_ref, reason_data
from conductorlite.model.later import functions
from conductorlite.model.limits import LimitChange
from conductorlite.model.statuses import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
)
from conductorlite.plan.compile import Node, Plan

if TYPE_CHECKING:
    from conductorlite.decide.changeset.emissions import Emissions
else:
    (Emissions,) = functions("conductorlite.decide.changeset.emissions", "Emissions")

__all__ = ["PUT_OFF", "Changeset"]

#: Operators whose retries wait for their delay, SCHEDULED: those that wait for something once they have begun. The others are
#: evaluated in the decision itself, where Conductor knows no delay.
PUT_OFF: Final = frozenset({"WAIT", "HUMAN", "PULL_WORKFLOW_MESSAGES", "SUB_WORKFLOW", "START_WORKFLOW"})

#: What a task becomes that its worker puts back: its output so far is recorded.
_OFFERED_AGAIN: Final = frozenset({TaskStatus.SCHEDULED, TaskStatus.PENDING})

_NOTHING: Final = Outgoing()

#: Python finds a global faster than a member of an enumeration.
_SKIPPED: Final = TaskStatus.SKIPPED

#: A report that is refused frees no worker.
_REFUSED: Final = frozenset({Outcome.STALE, Outcome.CONFLICT})


def _emissions_of(changeset: Changeset) -> Emissions:
    if changeset._emissions is None:
        changeset._emissions = Emissions(changeset.workflow, changeset.moment)
    return changeset._emissions


class Changeset:
    """One turn in the making: its parts, each for what it writes, and the acts that touch several of them. Not thread-safe."""

    #: Cleared while a verb rearranges rows; then the counters are counted again.
    counting = True
    #: Whether the turn was cut, and another one is to go on.
    more = False
    #: Whether an event was refused.
    refused = False
    #: The retry of an operator that begins now, as the row it is.
    beginning: Task | None = None
    #: Which execution has this one end, at this moment.
    ended_by = ""
    #: Inputs that replace what would be rendered, by printed reference.
    given: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    _renamed: tuple[Renamed, ...] = ()
    _limits: Admissions | None = None
    _mailbox: Mailbox | None = None
    _emissions: Emissions | None = None
    #: Values that attempts have emitted, and latest values.
    emissions = property(_emissions_of)

    def __init__(self, plan: Plan, reader: Reader, now: int, environment: Mapping[str, str], bounds: Bounds) -> None:
        self.plan = plan
        self.reader = reader
        self.environment = environment
        self.bounds = bounds
        #: The execution's row as this turn sees it: written by `change` alone.
        self.workflow: Workflow = own_workflow(reader.workflow)
        self._row: Any = self.workflow
        self._created = self.workflow.history_seq == 0
        self.moment = moment = Moment(self.workflow, now)
        self.journal = Journal(moment, self.workflow.history_seq)
        self.rows = Rows(plan, reader, self.workflow)
        self.events = Events(self.workflow, moment, self.rows, reader)
        self.queues = QueueChanges(self.workflow, self.rows.inserted)
        self.documents = Documents(reader, self.journal, bounds.barriers)
        self.work = WorkList()
        #: What each event is answered, by its id.
        self.replies: dict[str, Reply] = {}
        #: Ids of attempts that were derived in this turn.
        self._ids: dict[tuple[str, int, int], str] = {}

    @property
    def limits(self) -> Admissions:
        """Requests of the turn to limits."""
        if self._limits is None:
            self._limits = Admissions(self.workflow, self.reader, self.journal, self.events, self.work)
        return self._limits

    @property
    def mailbox(self) -> Mailbox:
        """Messages to the execution."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self.workflow, self.reader)
        return self._mailbox

    def change(self, **fields: Any) -> None:
        """Change fields of the workflow row, save `status`."""
        for name, value in fields.items():
            setattr(self._row, name, value)

    def move_workflow(
        self, status: WorkflowStatus, *, reason: str | None = None, payload: Payload | None = None, verb: bool = False
    ) -> None:
        """Change the workflow's status and journal it; raises InvariantBroken when the table forbids it."""
        before = None if self._created and not self.journal.lines else self.workflow.status
        allowed = WORKFLOW_TRANSITIONS[before]
        if verb and before is not None:
            allowed = allowed | WORKFLOW_VERB_TRANSITIONS.get(before, frozenset())
        if status not in allowed:
            raise InvariantBroken(f"workflow {self.workflow.workflow_id}: {before} may not become {status}")
        self._row.status = status
        self.journal.add(HistoryKind.WORKFLOW, status, reason=reason, payload=payload)

    def start(self) -> None:
        """Begin the execution, unless it has begun before."""
        start_workflow(self._row, self.moment.now)

    def end(self, reason: str | None, conductor_reason: str | None = None) -> None:
        """End the execution; its status is `move_workflow`'s."""
        end_workflow(self._row, reason, self.moment.now, conductor_reason)

    def take_back_end(self) -> None:
        """Take back what reported the end of the execution."""
        reopen_workflow(self._row)

    def move_instants(self, by: int) -> None:
        """Put the instants of the execution to what a clock would have read that goes by so much more."""
        move_workflow_instants(self._row, by)

    def take_back_start(self) -> None:
        """Take the execution back to where nothing of it has begun."""
        reset_workflow(self._row)

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
        if self.documents.lost is not None or input.text is None or len(input.text) > SMALL:
            problem = self.documents.refusal("task_input", input)
            if problem is not None:
                raise PayloadTooLarge(problem)
        problem = self.documents.refusal("task_output", fields["output"]) if "output" in fields else None
        if problem is not None:
            status = TaskStatus.FAILED_WITH_TERMINAL_ERROR
            fields |= {"output": EMPTY, "reason": problem}
        ref = printed_ref(node.ref, iterations) if iterations else node.ref
        if self.beginning is not None and self.beginning.ref == ref:
            return self._begin(self.beginning, status, input, fields)
        row = make_attempt(node, self.workflow, ref, iterations, status, self.moment.now)
        if previous is not None:
            superseded, before = self.rows.opened(previous)
            retry_attempt(row, superseded)
            self.settle(superseded, before)
        row.input = self.documents.keep(input) if input.large else input
        for name, value in fields.items():
            setattr(row, name, value)
        if not row.task_id:
            row.task_id = self.task_id(ref, row.attempt)
        if in_order:
            row.seq = self.next_place(ref)
        self.rows.add(row)
        self.settle(row, NO_ROW)
        task: Task = row
        return task

    def adopt(self, row: Task) -> None:
        """Add an attempt that was copied from another execution, and journal it as such; it is not counted."""
        self.rows.add(row)
        for digest in row.grafts:
            self.journal.use(digest)
        self.documents.keep(row.input)
        self.documents.keep(row.output)
        self.journal.add(HistoryKind.COPIED, row.status, ref=row.ref, attempt=row.attempt, reason=row.reason, payload=row.output)
        if row.round:
            self.journal.add(HistoryKind.ROUND, row.status, ref=row.ref, attempt=row.attempt, number=row.round)

    def end_copy(self, status: WorkflowStatus, reason: str) -> None:
        """End an execution that is a copy as the other one has ended: nothing follows, and nobody is notified of it."""
        end_workflow(self._row, reason, self.moment.now)
        self._row.status = status
        self.journal.add(HistoryKind.COPIED, status, reason=reason)

    def _begin(self, task: Task, status: TaskStatus, input: Payload, fields: dict[str, Any]) -> Task:
        """Begin an attempt whose row stands there already, for its delay is over."""
        row, before = self.rows.opened(task)
        begin_attempt(row, status, self.moment.now)
        row.input = self.documents.keep(input)
        for name, value in fields.items():
            if name != "start_delay_ms":
                setattr(row, name, value)
        self.settle(row, before)
        begun: Task = row
        return begun

    def create_ended(self, node: Node, iterations: tuple[int, ...], status: TaskStatus, **fields: Any) -> Task:
        """Add an attempt that is over as soon as it is there, and put what follows from it on the work list."""
        task = self.create(node, iterations, status, **fields)
        self.work.queue.append(("advance", task.ref))
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

    def put(self, task: Task, *, verb: bool = False, because: str | None = None, **fields: Any) -> Task:
        """Change fields of a row, and settle it. Returns the row as it is now."""
        row, before = self.rows.opened(task)
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
            self.journal.add(
                HistoryKind.TASK,
                status,
                ref=task.ref,
                attempt=task.attempt,
                reason=task.reason if status.terminal else because,
                payload=payload,
            )
            if task.emitted and status.terminal:
                self.emissions.settle(task)
        live = task.live if task.executed or task.retried or status is _SKIPPED else True
        if live is not was_live and self.counting:
            self.count(task, live - was_live)

    def count(self, task: Task, change: int) -> None:
        """Have what counts a task count as many live tasks more: a scope around it, or the workflow; raises InvariantBroken."""
        owner = self.rows.owner(task) if task.grafts or self.plan.nodes[task.base_ref].scopes else None
        counter: Any = self._row if owner is None else self.rows.own(owner)
        counter.open = count = counter.open + change
        if count < 0:
            raise InvariantBroken(f"{'workflow' if owner is None else owner.ref}: counts {count} live tasks")

    def execute(self, task: Task) -> Any:
        """Note that the successors of an ended task have their rows, and return its row; it is not live any more."""
        row: Any = self.rows.own(task)
        was_live, row.executed = row.live, True
        if was_live and self.counting:
            self.count(row, -1)
        return row

    def drop(self, tasks: list[Task]) -> None:
        """Delete ended tasks that are kept no longer, with all their attempts; the journal still records them."""
        for task in tasks:
            if task.live:
                raise InvariantBroken(f"task {task.ref!r} is dropped while it is live")
        for row, read in self.rows.drop(tasks):
            date_row(self.rows, self.events, self.workflow.owner, row, read)

    def take_back(self, tasks: list[Task]) -> None:
        """Delete tasks that are to be run again, whatever they are at: what is open is canceled first."""
        for task in tasks:
            task = self.rows.known(task.ref)
            if not task.status.terminal:
                task = self.cancel(task)
            self.events.cancel(f"{EventKind.CONTINUE}:{task.ref}")
            if task.live:
                self.put(task, executed=True)
        gone = [self.rows.known(task.ref) for task in tasks]
        for task in gone:
            if task.emitted:
                self.emissions.drop(task)
        self.drop(gone)
        if self.workflow.last_ref in self.rows.dropped:
            # An execution that fails before anything is scheduled again puts out what the last task left has put out.
            left = max((task for task in self.rows.everything() if task.seq), key=lambda task: task.seq, default=None)
            self.change(last_ref=None if left is None else left.ref)

    def start_order_again(self) -> None:
        """Number tasks from 1 again: all that were have been taken back."""
        self.change(task_seq=0, last_ref=None)

    def recount(self) -> None:
        """Count again what is live in every scope; everything must be loaded."""
        self.counting = True
        live: dict[str | None, int] = {}
        rows = self.rows.everything()
        for task in rows:
            if task.live:
                owner = self.rows.owner(task)
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
        if self.documents.lost is not None or (output is not None and (output.text is None or len(output.text) > SMALL)):
            problem = self.documents.refusal("task_output", output)
        if problem is not None:
            status, output, reason = TaskStatus.FAILED_WITH_TERMINAL_ERROR, EMPTY, problem
        row, before = self.rows.opened(task)
        if not child_ended and (row.sub_workflow_id is not None or row.task_type == "START_WORKFLOW"):
            self._end_child(row, f"parent workflow {self.workflow.name!r}: {reason or f'its task {row.ref!r} is {status}'}")
        if row.status is not TaskStatus.IN_PROGRESS:
            self._leave_queue(row)
        if report is not None:
            record_report(row, report)
        end_attempt(row, status, reason, self.moment.now)
        if output is not None:
            row.output = self.documents.keep(output) if output.large else output
        for name, value in fields.items():
            setattr(row, name, value)
        self.settle(row, before)
        if row.limit_key is not None:
            self._leave_limit(row)
        self.work.queue.append(("advance", row.ref))
        ended: Task = row
        return ended

    def _leave_queue(self, task: Task) -> None:
        if task.status is TaskStatus.SCHEDULED:
            self.queues.remove(task)
            if task.limit_key is not None:
                self.events.cancel(f"{EventKind.OFFER_ENDS}:{task.ref}")
        if task.status is TaskStatus.PENDING or (task.status is TaskStatus.SCHEDULED and task.task_type in PUT_OFF):
            self.events.cancel(f"{EventKind.ADMISSION}:{task.ref}")

    def _leave_limit(self, task: Task) -> Task:
        """Give back the slot of a task, or its place in the line."""
        if task.limit_key is None:
            return task
        self.limits.give_back(task.limit_key, [task.task_id], of=task.ref)
        return self.put(task, limit_key=None)

    def take_place_of(self, task: Task) -> None:
        """Take out the PENDING row of the first task, for what it stands for is scheduled now, in its place."""
        self.change(open=self.workflow.open - 1, task_seq=task.seq - 1)
        self.rows.take_out(task)

    def _end_child(self, task: Task, reason: str, conductor_reason: str | None = None) -> None:
        child = task.sub_workflow_id
        if task.task_type == "START_WORKFLOW" and task.due_at > self.moment.clock and task.status is TaskStatus.IN_PROGRESS:
            child = started_id(self.workflow, task)
        if child is None:
            return
        self.events.post_to(
            child,
            f"{EventKind.TERMINATE}:{task.task_id}",
            EventKind.TERMINATE,
            reason_data(reason, conductor_reason),
        )

    def cancel(self, task: Task, because: tuple[str, str | None] | None = None) -> Task:
        """End an open attempt because its execution ends, or what is around it: nothing follows. `because` goes to its child."""
        self._end_child(task, *(because or (f"parent workflow {self.workflow.name!r}: its task {task.ref!r} is canceled",)))
        self._leave_queue(task)
        row, before = self.rows.opened(task)
        cancel_attempt(row, self.moment.now)
        self.settle(row, before)
        return self._leave_limit(row)

    def rename(self, task: Task, new_ref: str, new_base_ref: str) -> None:
        """Give all attempts at a printed reference another name: ids, leases and generations stay, so reports still arrive.

        Its message is put under the new name; its events are the caller's to send on. To be done last in a turn.
        """
        self._renamed = (*self._renamed, Renamed(ref=task.ref, new_ref=new_ref, new_base_ref=new_base_ref))
        node = self.rows.placed(task)
        if task.status is TaskStatus.SCHEDULED and not (node is not None and node.operator):
            self.queues.remove(task)
            self.queues.offer(attrs.evolve(task, ref=new_ref, base_ref=new_base_ref))
        if task.limit_key is not None and not task.status.terminal:
            self.limits.rename(task.limit_key, task.task_id, new_ref)

    def addressee(self, event: Event) -> Task | None:
        """The attempt that an event is about, whatever it was renamed to since; else what has its name, or nothing.

        An event names an attempt by its reference, and most by its id too, which is never changed. Where the id is not given, it
        is derived from the name under which the attempt began.
        """
        ref = event.ref or ""
        task = self.rows.task(ref)
        # Every renaming begins a generation: what is of the present one has the name under which it began.
        if not ref or event.generation == self.workflow.generation:
            return task
        said = self.documents.value(event.data)
        named = said.get("taskId") or said.get("holder")
        if task is not None and (_is_attempt(task, event) if named is None else task.task_id == named):
            return task
        wanted = named or self.task_id(ref, event.attempt, event.generation)
        moved = self.reader.ref_of(wanted)
        found = None if moved is None else self.rows.task(moved)
        return found if found is not None and found.task_id == wanted else None

    def follow(self, task: Task, ref: str, iterations: tuple[int, ...]) -> None:
        """Put the scheduling of a node on the work list; `ref` is as the plan of `task` knows it."""
        node = (self.rows.plan_of(task.grafts) if task.grafts else self.plan).nodes[ref]
        self.work.stack.append(("schedule", ref, list(iterations), *((list(node.grafts),) if node.grafts else ())))

    def hold_item(self, item: Item) -> None:
        """Keep an entry of the work list until the workflow is resumed."""
        self.events.post(
            f"{EventKind.CONTINUE}:{item[1]}",
            EventKind.CONTINUE,
            self.moment.now,
            held=True,
            ref=item[1],
            generation=self.workflow.generation,
            data=Payload.of({"queue": [list(item)]}),
        )

    def continue_later(self) -> None:
        """Carry the work list over to the next turn."""
        workflow = self.workflow
        self.more = True
        event_id = f"{EventKind.CONTINUE}#{workflow.sequence + 1}"
        left = self.documents.keep(self.work.kept())
        self.events.post(event_id, EventKind.CONTINUE, self.moment.clock, generation=workflow.generation, data=left)
        self.work.clear()

    def reply(self, event: Event, outcome: Outcome, message: str = "") -> None:
        """Answer an event."""
        if outcome in _REFUSED:
            self.refused = True
        self.replies[event.event_id] = Reply(outcome=outcome, message=message) if message else REPLIES[outcome]

    def is_done_until(self, at: int, due: Iterable[str]) -> bool:
        """Return True if nothing but what it put into queues is left to do about the execution until an instant, inclusive.

        `due` are the events of its inbox that come due until then.
        """
        events = self.events
        if events.posted or events.releases_held or (self._limits is not None and self._limits.limits):
            return False
        timers, cancelled = events.timers.copy(), events.cancelled.copy()
        date_timers(self.rows, events, self.workflow.owner)
        try:
            if any(timer.due_at <= at for timer in events.timers.values()):
                return False
            return all(event_id in events.cancelled or event_id in events.timers or event_id in events.consumed for event_id in due)
        finally:  # what rows' deadlines lead to is settled at the end of the turn
            events.timers, events.cancelled = timers, cancelled

    def decision(self) -> Decision:
        """Everything the turn changes, grouped by where it goes."""
        rows, events, queues, documents = self.rows, self.events, self.queues, self.documents
        workflow, row = self.workflow, self._row
        date_timers(rows, events, workflow.owner)
        row.updated_at, row.history_seq = self.moment.now, self.journal.number
        row.broken_turns, row.parked = 0, None
        timers = tuple(events.timers.values()) if events.timers else ()
        cancelled: tuple[str, ...] = ()
        if events.cancelled:
            cancelled = tuple([event_id for event_id in events.cancelled if event_id not in events.timers])
        limits: tuple[LimitChange, ...] = ()
        if self._limits is not None and self._limits.limits:
            limits, alarms = self._limits.changes(), self._limits.alarms
            events.posted += [event for event in alarms if event.workflow_id != workflow.workflow_id]
            timers += tuple([event for event in alarms if event.workflow_id == workflow.workflow_id])
        outgoing = _NOTHING
        if queues.removed or queues.put or events.posted:
            outgoing = Outgoing(removed=tuple(queues.removed), put=tuple(queues.put.values()), posted=tuple(events.posted))
        return Decision(
            workflow=workflow,
            created=self._created,
            inserted=tuple(rows.inserted.values()) if rows.inserted else (),
            updated=tuple(rows.updated.values()) if rows.updated else (),
            dropped=tuple(rows.dropped) if rows.dropped else (),
            renamed=self._renamed,
            texts=tuple(documents.texts.values()) if documents.texts else (),
            definitions=documents.definitions,
            history=tuple(self.journal.lines),
            consumed=tuple(events.consumed) if events.consumed else (),
            cancelled=cancelled,
            timers=timers,
            release_held=events.releases_held,
            released_at=self.moment.clock,
            outgoing=outgoing,
            more=self.more,
            replies=self.replies,
            limits=limits,
            printed=documents.printed,
            messages=() if self._mailbox is None else tuple(self._mailbox.changed.values()),
            emissions=() if self._emissions is None else tuple(self._emissions.changed.values()),
            values=() if self._emissions is None else tuple(self._emissions.values.values()),
        )


def _is_attempt(task: Task, event: Event) -> bool:
    return (task.attempt, task.generation) == (event.attempt, event.generation)
