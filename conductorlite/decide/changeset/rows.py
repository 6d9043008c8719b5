"""A turn's rows: the workflow, its tasks, their counters and their journal; and the decision they add up to."""

from __future__ import annotations

from typing import Any, Final

from conductorlite.decide.changeset.admissions import Admissions
from conductorlite.model.attrs import changed, copied, new, thaw
from conductorlite.model.canonical import EMPTY, Payload, attempt_head, encoded
from conductorlite.model.decisions import Decision, Event, EventKind, Outgoing, Renamed
from conductorlite.model.errors import InvariantBroken, PayloadTooLarge
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.later import hashlib
from conductorlite.model.policies import derive_id
from conductorlite.model.statuses import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
)
from conductorlite.model.threads import cached_property
from conductorlite.plan.compile import Node

__all__ = ["PUT_OFF", "Changeset", "attempt_id"]

#: Operators whose retries wait for their delay, SCHEDULED: those that wait for something once they have begun. The others are
#: evaluated in the decision itself, where Conductor knows no delay.
PUT_OFF: Final = frozenset({"WAIT", "HUMAN", "SUB_WORKFLOW", "START_WORKFLOW"})

#: What a task becomes that its worker puts back: its output so far is recorded.
_OFFERED_AGAIN: Final = frozenset({TaskStatus.SCHEDULED, TaskStatus.PENDING})

_NOTHING: Final = Outgoing()


class Changeset(Admissions):
    """One turn in the making. Not thread-safe."""

    @cached_property
    def _ids(self) -> dict[tuple[str, int, int], str]:
        return {}

    def change(self, **fields: Any) -> None:
        """Change fields of the workflow row, save `status`."""
        for name, value in fields.items():
            setattr(self.workflow, name, value)

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
        self.change(status=status)
        self.journal(HistoryKind.WORKFLOW, status, reason=reason, payload=payload)

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
        if self.clock != self.now and ("kind" in cause or not self.history):
            cause["clock"] = self.clock
        self.cause = {}
        self.history_seq += 1
        self.history.append(
            new[HistoryEvent](
                n=self.history_seq,
                at=self.now,
                kind=kind,
                status=status,
                ref=ref,
                attempt=attempt,
                number=number,
                reason=reason,
                payload=payload,
                cause=encoded(cause) if cause else None,
            )
        )

    def caused_by(self, cause: dict[str, Any] | None) -> None:
        """Have the next line of the journal record what led to it; what the turn does by itself has no cause."""
        before = self.cause
        self.cause = {} if cause is None else cause
        if "used" in before:
            self.cause["used"] = before["used"]

    def create(
        self,
        node: Node,
        iterations: tuple[int, ...],
        status: TaskStatus,
        *,
        previous: Task | None = None,
        input: Payload = EMPTY,
        in_order: bool = True,
        task_id: str | None = None,
        **fields: Any,
    ) -> Task:
        """Add the first attempt at a node, or the one after `previous`; `in_order=False` leaves its place in the order open.

        Raises PayloadTooLarge, with nothing changed, for an input past its barrier; such an output fails the attempt for good.
        """
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
        attempt = 0 if previous is None else previous.attempt + 1
        if previous is not None:
            fields.setdefault("first_scheduled_at", previous.first_scheduled_at)
            fields.setdefault("first_attempt", previous.first_attempt)
            fields["retried_task_id"] = previous.task_id
            fields["succeeded_before"] = previous.executed or previous.succeeded_before
            self.put(previous, retried=True)
        elif "first_scheduled_at" not in fields:
            fields["first_scheduled_at"] = self.now
        task = new[Task](
            workflow_id=self.workflow.workflow_id,
            ref=ref,
            base_ref=node.ref,
            task_id=self.task_id(ref, attempt) if task_id is None else task_id,
            task_type=node.task_type,
            name=node.task.name,
            status=status,
            iterations=iterations,
            grafts=node.grafts,
            attempt=attempt,
            generation=self.workflow.generation,
            seq=self.next_place(ref) if in_order else 0,
            input=self.keep(input),
            scheduled_at=self.now,
            updated_at=self.now,
            **fields,
        )
        self.inserted[ref, attempt] = self.last[ref] = thaw(task)
        self.newest[node.ref] = ref
        self.settle(task, None, None, False)
        return task

    def _begin(self, task: Task, status: TaskStatus, input: Payload, fields: dict[str, Any]) -> Task:
        """What would be created stands there already, and its delay is over."""
        if status.terminal:
            self.drop_timers(self.own(task))
        changes = {**fields, "status": status, "input": self.keep(input), "updated_at": self.now}
        return self.put(task, **{**changes, "start_delay_ms": task.start_delay_ms})

    def create_ended(self, node: Node, iterations: tuple[int, ...], status: TaskStatus, **fields: Any) -> Task:
        """Add an attempt that is over as soon as it is there, and put what follows from it on the work list."""
        task = self.create(node, iterations, status, started_at=self.now, ended_at=self.now, **fields)
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
        if row is None:  # nothing of this reference is written yet
            row = self.known(task.ref)
            if row.attempt == task.attempt:
                row = self.updated[place] = self.last[row.ref] = copied[Task](row)
                return row
        elif row.attempt == task.attempt:
            return row
        row = self.updated.get(place) or self.inserted.get(place)
        if row is None:
            raise InvariantBroken(f"task {task.ref!r}: attempt {task.attempt} is not the last one")
        return row

    def opened(self, task: Task) -> tuple[Any, tuple[TaskStatus, Payload, bool]]:
        """The row, to be written field by field, and what `settle` is to know of it as it was."""
        row = self.own(task)
        return row, (row.status, row.input, row.live)

    def put(self, task: Task, *, verb: bool = False, because: str | None = None, **fields: Any) -> Task:
        """Change fields of a row; a change of status is checked and journalled, counters follow. Returns the row as it is now.

        `because` is recorded for a change after which the attempt is open still, and kept in no row.
        """
        row = self.own(task)
        status, given, was_live = row.status, row.input, row.live
        for name, value in fields.items():
            setattr(row, name, value)
        self.settle(row, status, given, was_live, verb=verb, because=because)
        return row

    def settle(
        self,
        task: Task,
        before: TaskStatus | None,
        given: Payload | None,
        was_live: bool,
        *,
        verb: bool = False,
        because: str | None = None,
    ) -> None:
        """Journal a change of status, and count; `before` is the status (None: no row), `given` the input it had."""
        status = task.status
        if before is not status:
            by_verb = TASK_VERB_TRANSITIONS.get(before) if verb and before is not None else None
            if status not in TASK_TRANSITIONS[before] and status not in (by_verb or ()):
                raise InvariantBroken(f"task {task.ref!r} attempt {task.attempt}: {before} may not become {status}")
            if status.terminal or (before is not None and status in _OFFERED_AGAIN and task.output != EMPTY):
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
        live = task.live
        if live is not was_live and self.counting:
            self.count(task, live - was_live)

    def count(self, task: Task, change: int) -> Task | None:
        """Have what counts a task count as many live tasks more: a scope around it, which is answered, or the workflow (None).

        Raises InvariantBroken.
        """
        owner = self.owner(task) if task.grafts or self.plan.nodes[task.base_ref].scopes else None
        row: Any = self._row if owner is None else self.own(owner)
        count = row.open = row.open + change
        if count < 0:
            raise InvariantBroken(f"{'workflow' if owner is None else owner.ref}: counts {count} live tasks")
        return None if owner is None else row

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
        for rows in (self.inserted, self.updated):
            for key in [key for key in rows if key[0] in gone]:
                del rows[key]

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
        **fields: Any,
    ) -> Task:
        """End an attempt: its lease, timers and message go; what follows from it is put on the work list.

        The execution a SUB_WORKFLOW task has started is terminated, unless it is its end that ends the task. What a
        START_WORKFLOW was to start later is not started. An output past its barrier, or made of what cannot be read, fails the
        attempt for good.
        """
        problem = self.refusal("task_output", output)
        if problem is not None:
            status, output, reason = TaskStatus.FAILED_WITH_TERMINAL_ERROR, EMPTY, problem
        row, before = self.opened(task)
        self.drop_timers(row)
        if not child_ended and (row.sub_workflow_id is not None or row.task_type == "START_WORKFLOW"):
            self._end_child(row, f"parent workflow {row.workflow_id}: {reason or f'its task {row.ref!r} is {status}'}")
        if row.status is not TaskStatus.IN_PROGRESS:
            self._leave_queue(row)
        row.status, row.reason = status, reason
        row.ended_at = row.updated_at = self.now
        row.lease, row.holder = 0, None
        if output is not None:
            row.output = self.keep(output)
        for name, value in fields.items():
            setattr(row, name, value)
        self.settle(row, *before)
        task = self._leave_limit(row)
        self.queue.append(("advance", task.ref))
        return task

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
        self.drop_timers(self.own(task))
        gone: dict[str, Any] = {"lease": 0, "holder": None, "ended_at": self.now, "updated_at": self.now}
        return self._leave_limit(self.put(task, status=TaskStatus.CANCELED, **gone))

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

    def decision(self) -> Decision:
        """Everything the turn changes, grouped by where it goes."""
        inserted = tuple(self.inserted.values()) if self.inserted else ()
        updated = tuple(self.updated.values()) if self.updated else ()
        for task in inserted + updated:
            task.__class__ = Task
        workflow, row = self.workflow, self._row
        row.updated_at, row.history_seq = self.now, self.history_seq
        row.broken_turns, row.parked = 0, None
        row.__class__ = Workflow
        timers: tuple[Event, ...] = ()
        if self._timers:
            timers = tuple([self.event_of(event_id, timer) for event_id, timer in self._timers.items()])
        if self._limits:
            alarms = self._books.alarms.values()
            self._posted += [event for event in alarms if event.workflow_id != workflow.workflow_id]
            timers += tuple([event for event in alarms if event.workflow_id == workflow.workflow_id])
        return new[Decision](
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
            cancelled=tuple([event_id for event_id in self._cancelled if event_id not in self._timers]) if self._cancelled else (),
            timers=timers,
            release_held=self._release_held,
            released_at=self.clock,
            outgoing=new[Outgoing](removed=tuple(self._removed), put=tuple(self._put.values()), posted=tuple(self._posted))
            if self._removed or self._put or self._posted
            else _NOTHING,
            more=self.more,
            replies=self.replies,
            limits=self.limit_changes() if self._limits else (),
        )


def attempt_id(workflow: Workflow, ref: str, attempt: int, generation: int) -> str:
    """Id of an attempt. The head is the workflow's."""
    workflow_id = workflow.workflow_id
    identity = f"{workflow.seed}\x1f{workflow_id}\x1f{ref}\x1f{attempt}\x1f{generation}"  # as `derive_id` puts it together
    return attempt_head(workflow_id) + hashlib.sha256(identity.encode()).hexdigest()[:24]


def _is_attempt(task: Task, event: Event) -> bool:
    return (task.attempt, task.generation) == (event.attempt, event.generation)
