"""The scratchpad that grows into one Decision.

A draft lays the changes of a turn over the snapshot it was given. It is the only writer of rows, and keeps what belongs to a
row beside it: its line in the journal, its timers, its message in the queue, the counters of the scope it lives in. Operators
and verbs say *what* happens to a task; that nothing is forgotten is settled here, once:

* every change of status is checked against the transition tables, and journalled;
* a row that becomes or ceases to be live moves the `open` counter of its scope (the workflow, or the DO_WHILE around it);
* a task that ends gives up its lease, its timers and its message.

The work list has two ends. `schedule` items are a stack, so that what a fork schedules comes out in Conductor's order (heads
depth first, then the JOIN); `advance` items are a queue, handled in the order in which tasks ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from conductorlite.canonical import EMPTY, Payload
from conductorlite.decisions import (
    Decision,
    Event,
    EventKind,
    Message,
    Need,
    NotLoaded,
    Outcome,
    Outgoing,
    Reply,
    Snapshot,
)
from conductorlite.errors import InvariantBroken
from conductorlite.executions import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    HistoryEvent,
    HistoryKind,
    Task,
    TaskStatus,
    Workflow,
    WorkflowStatus,
    printed_ref,
)
from conductorlite.plan import Node, Plan
from conductorlite.policies import derive_id

__all__ = ["Bounds", "Draft", "Item"]

#: One entry of the work list: what to do, and the JSON-able arguments to do it with.
Item = tuple[str, *tuple[Any, ...]]

#: Which field of a row holds the deadline of which timer.
_DEADLINES: Final[Mapping[EventKind, str]] = {
    EventKind.TOTAL_TIMEOUT: "total_timeout_at",
    EventKind.TASK_TIMEOUT: "timeout_at",
    EventKind.POLL_TIMEOUT: "poll_timeout_at",
    EventKind.RESPONSE_TIMEOUT: "response_timeout_at",
    EventKind.WAIT_ENDS: "wait_until",
}


@attrs.frozen(kw_only=True, slots=True)
class Bounds:
    """How much one turn may do before it is cut: steps of the work list, and new rows."""

    steps: int = 10_000
    rows: int = 5_000


class Draft:
    """One turn in the making. Not thread-safe; thrown away when the snapshot turns out to hold too little."""

    def __init__(
        self,
        plan: Plan,
        snapshot: Snapshot,
        now: int,
        environment: Mapping[str, str],
        bounds: Bounds,
    ) -> None:
        self.plan = plan
        self.snapshot = snapshot
        self.environment = environment
        self.bounds = bounds
        self.workflow: Workflow = snapshot.workflow
        self.now = max(now, self.workflow.updated_at)
        self.stack: list[Item] = []
        self.queue: deque[Item] = deque()
        self.replies: dict[str, Reply] = {}
        #: Set while an execution is being reopened: what is scheduled may exist already.
        self.reopening = False
        self.more = False
        self._created = self.workflow.history_seq == 0
        self._changes: dict[str, Any] = {}
        self._open = self.workflow.open
        self._task_seq = self.workflow.task_seq
        self._sequence = self.workflow.sequence
        self._rows: dict[tuple[str, int], Task] = {}
        self._last: dict[str, Task] = {}
        self._newest: dict[str, str] = {}
        self._inserted: set[tuple[str, int]] = set()
        self._texts: dict[str, Payload] = {}
        self._history: list[HistoryEvent] = []
        self._consumed: list[str] = []
        self._timers: dict[str, Event] = {}
        self._cancelled: dict[str, None] = {}
        self._put: dict[tuple[str, str], Message] = {}
        self._removed: dict[tuple[str, str], None] = {}
        self._release_held = False

    # ------------------------------------------------------------------ reading

    def task(self, ref: str) -> Task | None:
        """The last attempt at a printed reference as this turn sees it; None when there is none; raises NotLoaded."""
        found = self._last.get(ref)
        return found if found is not None else self.snapshot.task(ref)

    def known(self, ref: str) -> Task:
        """The last attempt at a printed reference that must exist; raises InvariantBroken, NotLoaded."""
        task = self.task(ref)
        if task is None:
            raise InvariantBroken(f"workflow {self.workflow.workflow_id}: task {ref!r} does not exist")
        return task

    def known_tasks(self, refs: Iterable[str]) -> list[Task | None]:
        """The last attempts at many printed references; what is missing is asked for at once."""
        found: list[Task | None] = []
        missing: set[str] = set()
        for ref in refs:
            try:
                found.append(self.task(ref))
            except NotLoaded:
                missing.add(ref)
        if missing:
            raise NotLoaded(Need(refs=frozenset(missing)))
        return found

    def latest(self, base_ref: str) -> Task | None:
        """The row of a definition reference that was scheduled last, of any round; None when there is none."""
        node = self.plan.nodes.get(base_ref)
        if node is None:
            return None
        if not node.loops:
            return self.task(base_ref)
        ref = self._newest.get(base_ref)
        if ref is not None:
            return self._last[ref]
        stored = self.snapshot.latest_of(base_ref)
        return None if stored is None else self._last.get(stored.ref, stored)

    def value(self, payload: Payload) -> Any:
        """The document of a payload, shared; raises NotLoaded when only its hash is here."""
        return self.snapshot.payload(payload).value

    def values(self, payloads: Iterable[Payload]) -> list[Any]:
        """The documents of many payloads; what is missing is asked for at once."""
        found: list[Any] = []
        missing: set[str] = set()
        for payload in payloads:
            try:
                found.append(self.value(payload))
            except NotLoaded as absent:
                missing |= absent.need.payloads
        if missing:
            raise NotLoaded(Need(payloads=frozenset(missing)))
        return found

    def all_live(self) -> list[Task]:
        """Every live row as this turn sees it, in order of scheduling."""
        return self._overlaid(self.snapshot.all_live(), lambda task: task.live)

    def all_failed(self) -> list[Task]:
        """Every row whose last attempt failed as this turn sees it, in order of scheduling."""
        return self._overlaid(self.snapshot.all_failed(), lambda task: task.failed)

    def everything(self) -> list[Task]:
        """Every last attempt as this turn sees it, in order of scheduling."""
        return self._overlaid(self.snapshot.everything(), lambda _: True)

    def _overlaid(self, stored: list[Task], wanted: Any) -> list[Task]:
        rows = {task.ref: task for task in stored}
        rows.update(self._last)
        return sorted((task for task in rows.values() if wanted(task)), key=lambda task: task.seq)

    def node(self, task: Task) -> Node:
        """The node a row was made from."""
        return self.plan.nodes[task.base_ref]

    def owner(self, task: Task) -> str | None:
        """Printed reference of the DO_WHILE whose round the task is in; None at the top."""
        if not task.iterations:
            return None
        return printed_ref(self.node(task).loops[-1], task.iterations[:-1])

    def joins_of(self, task: Task) -> list[str]:
        """Printed references of the JOINs that count the task."""
        joins = (self.plan.nodes[join] for join in self.node(task).joins)
        return [printed_ref(join.ref, task.iterations[: len(join.loops)]) for join in joins]

    @property
    def status(self) -> WorkflowStatus:
        """The workflow's status as this turn sees it."""
        status: WorkflowStatus = self._changes.get("status", self.workflow.status)
        return status

    def field(self, name: str) -> Any:
        """A field of the workflow row as this turn sees it."""
        return self._changes.get(name, getattr(self.workflow, name))

    @property
    def open(self) -> int:
        """Live tasks outside every loop as this turn sees it."""
        return self._open

    @property
    def full(self) -> bool:
        """Whether the turn has made as many rows as it may."""
        return len(self._inserted) >= self.bounds.rows

    # ------------------------------------------------------------------ the workflow row

    def change(self, **fields: Any) -> None:
        """Change fields of the workflow row, save `status`."""
        self._changes.update(fields)

    def payload(self, value: Any, *, where: str = "$") -> Payload:
        """Keep a computed or reported document; raises InvalidInput."""
        return self.keep(Payload.of(value, where=where))

    def keep(self, payload: Payload) -> Payload:
        """Note a payload that a row of this turn refers to, so that a large one is stored."""
        if payload.text is not None and payload.large:
            self._texts[payload.digest] = payload
        return payload

    def move_workflow(
        self, status: WorkflowStatus, *, reason: str | None = None, payload: Payload | None = None, verb: bool = False
    ) -> None:
        """Change the workflow's status and journal it; raises InvariantBroken when the table forbids it."""
        before = None if self._created and not self._history else self.status
        allowed = WORKFLOW_TRANSITIONS[before]
        if verb and before is not None:
            allowed = allowed | WORKFLOW_VERB_TRANSITIONS.get(before, frozenset())
        if status not in allowed:
            raise InvariantBroken(f"workflow {self.workflow.workflow_id}: {before} may not become {status}")
        self._changes["status"] = status
        self.journal(HistoryKind.WORKFLOW, status, reason=reason, payload=payload)

    def journal(self, kind: HistoryKind, status: str, **fields: Any) -> None:
        """Add a line to the journal."""
        n = self.workflow.history_seq + len(self._history) + 1
        self._history.append(HistoryEvent(n=n, at=self.now, kind=kind, status=status, **fields))

    def next_number(self) -> int:
        """The next value of the workflow's own sequence."""
        self._sequence += 1
        return self._sequence

    # ------------------------------------------------------------------ task rows

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
        """Add the first attempt at a node, or the one after `previous`; `in_order=False` leaves its place in the order open."""
        ref = printed_ref(node.ref, iterations)
        attempt = 0 if previous is None else previous.attempt + 1
        if previous is not None:
            fields.setdefault("first_scheduled_at", previous.first_scheduled_at)
            fields.setdefault("first_attempt", previous.first_attempt)
            fields["retried_task_id"] = previous.task_id
            fields["succeeded_before"] = previous.executed or previous.succeeded_before
            self.put(attrs.evolve(previous, retried=True))
        task = Task(
            workflow_id=self.workflow.workflow_id,
            ref=ref,
            base_ref=node.ref,
            task_id=self.task_id(ref, attempt),
            task_type=_task_type(node),
            name=node.task.name,
            status=status,
            iterations=iterations,
            attempt=attempt,
            generation=self.field("generation"),
            seq=self.next_place(ref) if in_order else 0,
            input=self.keep(input),
            scheduled_at=self.now,
            updated_at=self.now,
            **{"first_scheduled_at": self.now, **fields},
        )
        self._inserted.add((ref, attempt))
        self._newest[node.ref] = ref
        self._store(None, task)
        return task

    def task_id(self, ref: str, attempt: int) -> str:
        """Id of an attempt, derived from its identity. The head is the workflow's, so that ids of one execution lie together."""
        workflow = self.workflow
        head = derive_id("workflow", workflow.workflow_id)[:8]
        return head + derive_id(workflow.seed, workflow.workflow_id, ref, attempt, self.field("generation"))[:24]

    def next_place(self, ref: str) -> int:
        """The next place in the order of scheduling, given to `ref`."""
        self._task_seq += 1
        self._changes["last_ref"] = ref
        return self._task_seq

    def put(self, task: Task, *, verb: bool = False) -> Task:
        """Replace a row; a change of status is checked and journalled, counters follow. Returns the row as stored."""
        key = (task.ref, task.attempt)
        before = self._rows.get(key)
        if before is None:
            before = self.known(task.ref)
            if before.attempt != task.attempt:
                raise InvariantBroken(f"task {task.ref!r}: attempt {task.attempt} is not the last one")
        self._store(before, task, verb=verb)
        return task

    def _store(self, before: Task | None, task: Task, *, verb: bool = False) -> None:
        self._rows[(task.ref, task.attempt)] = task
        if not task.retried:
            self._last[task.ref] = task
        if before is None or before.status is not task.status:
            self._check(before, task, verb)
            payload = task.output if task.status.terminal else task.input if before is None else None
            self.journal(
                HistoryKind.TASK,
                task.status,
                ref=task.ref,
                attempt=task.attempt,
                reason=task.reason if task.status.terminal else None,
                payload=payload,
            )
        change = task.live - (before is not None and before.live)
        if change:
            self._count(task, change)

    def _check(self, before: Task | None, task: Task, verb: bool) -> None:
        allowed = TASK_TRANSITIONS[before.status if before else None]
        if verb and before is not None:
            allowed = allowed | TASK_VERB_TRANSITIONS.get(before.status, frozenset())
        if task.status not in allowed:
            name = before.status if before else None
            raise InvariantBroken(f"task {task.ref!r} attempt {task.attempt}: {name} may not become {task.status}")

    def _count(self, task: Task, change: int) -> None:
        owner = self.owner(task)
        if owner is None:
            self._open += change
            count = self._open
        else:
            loop = self.known(owner)
            count = loop.open + change
            self.put(attrs.evolve(loop, open=count))
        if count < 0:
            raise InvariantBroken(f"{owner or 'workflow'}: counts {count} live tasks")

    # ------------------------------------------------------------------ ends

    def close(
        self,
        task: Task,
        status: TaskStatus,
        *,
        output: Payload | None = None,
        reason: str | None = None,
        **fields: Any,
    ) -> Task:
        """End an attempt: its lease, timers and message go; what follows from it is put on the work list."""
        changes: dict[str, Any] = {
            "status": status,
            "ended_at": self.now,
            "updated_at": self.now,
            "lease": 0,
            "reason": reason,
            **self._drop_timers(task),
            **fields,
        }
        if output is not None:
            changes["output"] = self.keep(output)
        if task.status is TaskStatus.SCHEDULED:
            self.remove_message(task)
        task = self.put(attrs.evolve(task, **changes))
        self.queue.append(("advance", task.ref))
        return task

    def cancel(self, task: Task) -> Task:
        """End an open attempt because its execution ends: nothing follows from it."""
        if task.status is TaskStatus.SCHEDULED:
            self.remove_message(task)
        changes: dict[str, Any] = {"ended_at": self.now, "updated_at": self.now, "lease": 0, **self._drop_timers(task)}
        return self.put(attrs.evolve(task, status=TaskStatus.CANCELED, **changes))

    # ------------------------------------------------------------------ timers, messages, events

    def set_timer(self, task: Task, kind: EventKind, at: int) -> None:
        """Date an event about a task; the row's own deadline field is the caller's to set."""
        self.post(
            f"{kind}:{task.ref}", kind, at, ref=task.ref, attempt=task.attempt, generation=task.generation
        )

    def post(self, event_id: str, kind: EventKind, at: int, **fields: Any) -> None:
        """Put an event into the workflow's own inbox, replacing one of the same id."""
        number = self.next_number()
        workflow_id = self.workflow.workflow_id
        self._timers[event_id] = Event(
            workflow_id=workflow_id,
            event_id=event_id,
            kind=kind,
            due_at=at,
            posted_at=self.now,
            sender=workflow_id,
            sender_seq=number,
            **fields,
        )

    def cancel_timer(self, event_id: str) -> None:
        """Take an event out of the inbox."""
        self._timers.pop(event_id, None)
        self._cancelled[event_id] = None

    def _drop_timers(self, task: Task) -> dict[str, None]:
        dropped: dict[str, None] = {}
        for kind, name in _DEADLINES.items():
            if getattr(task, name) is not None:
                self.cancel_timer(f"{kind}:{task.ref}")
                dropped[name] = None
        # A WAIT keeps the instant it waited for: a retry of the execution waits for the same one.
        dropped.pop("wait_until", None)
        return dropped

    def offer(self, task: Task) -> None:
        """Put a task into its workers' queue, visible from `task.due_at` on."""
        queue = task.task_type if not task.domain else f"{task.domain}:{task.task_type}"
        message = Message(
            queue=queue,
            workflow_id=task.workflow_id,
            ref=task.ref,
            attempt=task.attempt,
            generation=task.generation,
            task_id=task.task_id,
            due_at=task.due_at,
            priority=self.workflow.priority,
        )
        self._put[message.key] = message

    def remove_message(self, task: Task) -> None:
        """Take a task out of its queue."""
        key = (task.workflow_id, task.ref)
        if self._put.pop(key, None) is None:
            self._removed[key] = None

    def drop_message(self, ref: str) -> None:
        """Take a leftover message out of its queue."""
        self._removed[(self.workflow.workflow_id, ref)] = None

    def consume(self, event: Event) -> None:
        """Note that an event was read."""
        if event.stored:
            self._consumed.append(event.event_id)

    def hold(self, event: Event) -> None:
        """Put a due event back until the workflow is resumed."""
        self._timers[event.event_id] = attrs.evolve(event, held=True, stored=False)

    def hold_item(self, item: Item) -> None:
        """Keep an entry of the work list until the workflow is resumed."""
        self.post(
            f"{EventKind.CONTINUE}:{item[1]}",
            EventKind.CONTINUE,
            self.now,
            held=True,
            ref=item[1],
            generation=self.field("generation"),
            data=Payload.of({"queue": [list(item)]}),
        )

    def continue_later(self) -> None:
        """Carry the work list over to the next turn."""
        work = {
            "stack": [list(item) for item in self.stack],
            "queue": [list(item) for item in self.queue],
            "reopening": self.reopening,
        }
        generation = self.field("generation")
        event_id = f"{EventKind.CONTINUE}#{self._sequence + 1}"
        self.post(event_id, EventKind.CONTINUE, self.now, generation=generation, data=self.keep(Payload.of(work)))

    def release_held(self) -> None:
        """Date every held event now."""
        self._release_held = True

    def reply(self, event: Event, outcome: Outcome, message: str = "") -> None:
        """Answer an event."""
        self.replies[event.event_id] = Reply(outcome=outcome, message=message)

    # ------------------------------------------------------------------ the result

    def decision(self) -> Decision:
        """Everything the turn changes, grouped by where it goes."""
        inserted = [self._rows[key] for key in self._rows if key in self._inserted]
        updated = [self._rows[key] for key in self._rows if key not in self._inserted]
        workflow = attrs.evolve(
            self.workflow,
            **self._changes,
            updated_at=self.now,
            open=self._open,
            task_seq=self._task_seq,
            sequence=self._sequence,
            history_seq=self.workflow.history_seq + len(self._history),
            broken_turns=0,
            parked=None,
        )
        return Decision(
            workflow=workflow,
            created=self._created,
            inserted=tuple(inserted),
            updated=tuple(updated),
            texts=tuple(self._texts.values()),
            history=tuple(self._history),
            consumed=tuple(self._consumed),
            cancelled=tuple(event_id for event_id in self._cancelled if event_id not in self._timers),
            timers=tuple(self._timers.values()),
            release_held=self._release_held,
            released_at=self.now,
            outgoing=Outgoing(removed=tuple(self._removed), put=tuple(self._put.values())),
            more=self.more,
            replies=self.replies,
        )


def _task_type(node: Node) -> str:
    kind = node.task.type
    if kind == "SIMPLE":
        return node.task.name
    return "FORK" if kind == "FORK_JOIN" else str(kind)
