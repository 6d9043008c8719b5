"""The inputs and results of turns: an event handed in, a new execution's row, the answer; and who is notified.

What turns and verbs have in common. Reading what is stored page by page, each in a transaction of its own; what is archived.

Whose code is running: a worker's function, a listener, a source, a transaction. What it asks may wait for itself.

Kept in a context variable, so that it is known in the function's thread and in the coroutines it awaits or begins; a thread that a
function starts by itself is not known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from conductorlite.engine.logs import FailureLog
from conductorlite.language.haste import Haste
from conductorlite.model.canonical import EMPTY, Document, Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Reply
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.errors import (
    EngineClosed,
    ExecutionArchived,
    ExecutionNotFound,
    FencedOut,
    LimitReached,
    SchemaTooNew,
    StorageCorrupt,
    WouldDeadlock,
)
from conductorlite.model.executions import HistoryEvent, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.threads import Block, Waiters, within
from conductorlite.store.ports import Backend, ReadingTransaction, WritingTransaction
from conductorlite.store.tables import ExecutionFilter

if TYPE_CHECKING:
    from conductorlite.model.documents import Unpacked
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = [
    "LASTING",
    "PAGE",
    "UNLOCKED",
    "Asked",
    "Caller",
    "Commits",
    "Deadly",
    "ExtraWrite",
    "Joined",
    "Listener",
    "Observer",
    "Start",
    "Taking",
    "TurnLost",
    "TurnResult",
    "archived_workflow",
    "called_by",
    "caller_of",
    "execution_pages",
    "messages_to",
    "missing",
    "new_event",
    "notify",
    "notify_acted",
    "pages",
    "refuse_callers",
    "refuse_rejected",
    "status_of",
    "stored_pages",
    "unarchived",
]

#: What does not pass by itself: nothing is tried again in another way.
LASTING: Final = (StorageCorrupt, SchemaTooNew, EngineClosed)

#: In place of a token: a turn without the lock.
UNLOCKED: Final = object()

#: What is written in the same commit as a turn, which the decision names.
ExtraWrite = Callable[[WritingTransaction, Decision], None]


class Listener(Protocol):
    """Called after each commit with what happened in it, at most once; must be quick and must not raise."""

    def __call__(self, workflow: Workflow, history: Sequence[HistoryEvent], /) -> None: ...


class Commits(Waiters):
    """The commits of one engine: woken after each of them are all who wait for something to change."""

    __slots__ = ("__weakref__", "_numbers", "number")  # a store that watches others does not keep it

    def __init__(self) -> None:
        super().__init__()
        #: Another one after each of them.
        self.number = 0
        self._numbers = count(1)

    def wake(self) -> None:
        """Count one more, and wake all threads that wait."""
        self.number = next(self._numbers)
        super().wake()


class TurnLost(FencedOut):
    """The lease of a turn was over, and another engine may have taken one; never leaves the engine."""


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Start:
    """The row of a new execution, and the definitions the store may not have yet, by hash."""

    workflow: Workflow
    definitions: Mapping[str, str] = attrs.field(factory=dict)
    #: What happens when another execution holds the workflow's idempotency key.
    strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class TurnResult:
    """The result of a turn: the decision (None when there was nothing to do), and the answers to the events handed in."""

    decision: Decision | None
    replies: Mapping[str, Reply]
    #: The events could not be handled now and are stored in the inbox.
    posted: bool = False
    #: Why the workflow takes no turns; the events were neither handled nor kept.
    parked: str | None = None
    #: The executions that were notified that an execution could not begin.
    answered: tuple[str, ...] = ()

    @property
    def recipients(self) -> list[str]:
        """Other executions that the turn has written to, each once."""
        posted = () if self.decision is None else self.decision.outgoing.posted
        return list(dict.fromkeys((*self.answered, *(event.workflow_id for event in posted))))


def new_event(workflow_id: str, kind: EventKind, now: int, data: Mapping[str, object] | None = None) -> Event:
    """An event that is handed to a turn directly; it needs the disk only when the turn cannot be taken."""
    payload = EMPTY if not data else Payload.of(data if type(data) is Document else dict(data))
    digest = "" if not data else payload.digest[:16]
    return Event(
        workflow_id=workflow_id,
        event_id=f"{kind}@{now}{digest}",
        kind=kind,
        due_at=now,
        posted_at=now,
        data=payload,
    )


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Asked:
    """A turn that may share a write with those of other executions; see `Turns.run_turn`."""

    workflow_id: str
    events: Sequence[Event]
    extra_write: ExtraWrite | None = None
    taking: Taking | None = None
    haste: Haste | None = None


#: What is asked for in each turn: Python finds a global faster than a member of an enumeration.
_POLL, _IN_PROGRESS, _DONE = EventKind.POLL, TaskStatus.IN_PROGRESS, Outcome.DONE


@attrs.define(slots=True, kw_only=True, eq=False, repr=False)
class Taking:
    """The tasks that one turn hands to workers: noted in the commit that hands them out, before any caller has them.

    Either the turn's own events are the polls, or workers that are `free` take what it offers (`hand_out`): what a poll at that
    instant would give them, or less.
    """

    #: What each poll says, and whose tasks it takes.
    data: Payload
    owner: str
    #: What is written along with it, and where what it hands out is noted.
    write: ExtraWrite | None = None
    noted: list[Task] | None = None
    #: How many more tasks are taken of each queue, and of all together.
    free: Mapping[str, int] = attrs.field(factory=dict)
    most: int = 0
    #: Queues whose workers are free because of the turn: what was offered there before is looked at too.
    again: Collection[str] = frozenset()
    #: Nothing that comes after what another execution offers: a caller takes that, and the rest, by a poll.
    in_order: bool = False
    #: To which instant the caller may move the clock for the one task that is offered next, and what is written of a poll then.
    until: float = -1
    write_at: Callable[[int], ExtraWrite | None] | None = None
    #: The instant at which that task was handed out.
    at: int | None = None
    #: Of the last decision; once the turn has been taken, what was handed out.
    polls: dict[str, Event] = attrs.field(factory=dict)
    taken: list[tuple[Task, Workflow]] = attrs.field(factory=list)

    def poll(self, message: Message, now: int, data: Payload | None = None) -> Event:
        """The poll that takes an offered task; it says `data`, by default what the others do."""
        event = Event(
            workflow_id=message.workflow_id,
            event_id=f"{_POLL!s}@{now}:{message.task_id}",
            kind=_POLL,
            due_at=now,
            posted_at=now,
            ref=message.ref,
            attempt=message.attempt,
            generation=message.generation,
            data=self.data if data is None else data,
            owner=self.owner,
        )
        self.polls[message.ref] = event
        return event

    def hand_out(
        self,
        workflow_id: str,
        now: int,
        first: Callable[[str, int], Sequence[Message] | None],
        alone_until: Callable[[int, str, Collection[str]], Sequence[str] | None],
        offered: Sequence[Message],
        is_done_until: Callable[[int, Iterable[str]], bool],
    ) -> list[Event]:
        """The polls of free workers for what an execution offers in a turn at `now`, and has offered before.

        `first` says what a poll of a queue would find without the turn; None: more than it can say. `alone_until` says the same of
        the store, see `StoreReader.alone_until`, and `is_done_until` of the execution.
        """
        self.polls, self.taken, self.at = {}, [], None
        free = self.free
        if len(offered) == 1 and self.most > 0 and free.get(offered[0].queue, 0) > 0:
            (message,) = offered  # as mostly: what a turn offers is of the queue whose worker is free because of it
            if message.due_at <= now and (not self.again or self.again == {message.queue}):
                others = first(message.queue, 1)
                if not others:
                    return [] if others is None else [self.poll(message, now)]
            if now < message.due_at <= self.until:
                due = alone_until(message.due_at, message.queue, free)
                if due is not None and is_done_until(message.due_at, due):
                    self.at = message.due_at
                    self.write = self.write if self.write_at is None else self.write_at(self.at)
                    return [self.poll(message, self.at)]
        queues: dict[str, list[Message]] = {queue: [] for queue in self.again if queue in free}
        for message in offered:
            if message.due_at <= now and message.queue in free:
                queues.setdefault(message.queue, []).append(message)
        polls: list[Event] = []
        for queue, messages in queues.items():
            count = min(free[queue], self.most - len(polls))
            others = first(queue, count) if count > 0 else None
            if others is not None:
                best: Iterable[Message] = (
                    sorted((*others, *messages), key=_place)[:count] if others or len(messages) > 1 else messages[:count]
                )
                if self.in_order:
                    best = takewhile(lambda message: message.workflow_id == workflow_id, best)
                polls += [self.poll(message, now) for message in best if message.workflow_id == workflow_id]
        return polls

    def __call__(self, tx: WritingTransaction, decision: Decision) -> None:
        """Note what the decision hands out, in the write that commits it."""
        if self.write is not None:
            self.write(tx, decision)
        self.taken = []
        for task in (*decision.inserted, *decision.updated):
            event = self.polls.get(task.ref) if task.status is _IN_PROGRESS else None
            if event is not None and event.attempt == task.attempt:
                reply = decision.replies.get(event.event_id)
                if reply is not None and reply.outcome is _DONE:
                    self.taken.append((task, decision.workflow))
        if self.noted is not None:
            self.noted += [task for task, _ in self.taken]


def _place(message: Message) -> tuple[int, int, str, int, str]:
    """In which order a queue gives what it has; see `ReadingTransaction.offered`."""
    return (-message.priority, message.due_at, message.workflow_id, len(message.ref), message.ref)


class Deadly(Exception):
    """Internal: processes have died in a turn, too often for another one to try it."""

    def __init__(self, key: str, event: Event) -> None:
        self.key = key
        about = f" of {event.ref!r}" if event.ref else ""
        super().__init__(f"its turn over {event.kind}{about} ended the process three times running")


def refuse_rejected(decision: Decision | None, started: Start | None) -> None:
    """An execution that a limit refuses is not stored; raises LimitReached."""
    if started is not None and decision is not None:
        for reply in decision.replies.values():
            if reply.outcome is Outcome.REJECTED:
                raise LimitReached(f"{decision.workflow.name}: {reply.message}")


K = TypeVar("K")
T = TypeVar("T")

#: Entries of a page where nothing is said of it.
PAGE: Final = 500


def pages(read: Callable[[K, int], Sequence[T]], start: K, key: Callable[[T], K], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Pages of at most `size` entries, each read after the key of the last entry before; none of them is empty."""
    after = start
    while page := read(after, size):
        yield page
        if len(page) < size:
            return
        after = key(page[-1])


def messages_to(view: ReadingTransaction, workflow_id: str) -> list[WorkflowMessage]:
    """Every message to an execution that is stored, in order."""
    found = pages(view.executions.mailbox(workflow_id).messages, 0, lambda message: message.number)
    return [message for page in found for message in page]


def stored_pages(
    backend: Backend,
    read: Callable[[ReadingTransaction, K, int], Sequence[T]],
    start: K,
    key: Callable[[T], K],
    size: int = PAGE,
) -> Iterator[Sequence[T]]:
    """`pages` of a store; while the caller is at work on one no transaction is open."""

    def one(after: K, size: int) -> Sequence[T]:
        with backend.reading() as view:
            return read(view, after, size)

    return pages(one, start, key, size)


def execution_pages(
    backend: Backend, wanted: ExecutionFilter, start: tuple[int, str] | None = None, size: int = PAGE
) -> Iterator[Sequence[Workflow]]:
    """Rows of executions, from an instant and an id on, newest first."""
    return stored_pages(
        backend,
        lambda view, after, size: view.executions.page(wanted, after, size),
        start,
        lambda row: (row.created_at, row.workflow_id),
        size,
    )


@attrs.define(slots=True, eq=False, repr=False)
class Caller:
    """Code of the user's that an engine has called and that has not returned yet."""

    #: The turns of the engine that runs it.
    turns: object
    what: str
    #: The task of a worker's function.
    task: Task | None = None
    #: Whether the thread that drives waits for it.
    inline: bool = False
    running: bool = True


class Joined(threading.local):
    """The transaction of the application that a thread is in, if any; nothing in it is final before its end."""

    #: The decisions that are to be announced then; None outside.
    decisions: list[Decision] | None = None
    #: What the store gave for it.
    within: object = None

    def refuse(self, verb: str) -> None:
        """Raise WouldDeadlock for what needs other threads, or what is committed."""
        if self.decisions is not None:
            raise WouldDeadlock(f"{verb}() inside transaction() would wait for it: call it after the block")


_CALLERS: Final[ContextVar[tuple[Caller, ...]]] = ContextVar("conductorlite_callers", default=())


C = TypeVar("C", bound="Caller")


def called_by(caller: C, holding: set[object] | None = None) -> AbstractContextManager[C]:
    """While inside, that code is running in this thread or coroutine, and is in a set of what runs."""
    return within(_Called(caller, holding))


class _Called(Block[C]):
    """The block of a call."""

    __slots__ = ("_before", "_caller", "_holding", "_inside")

    def __init__(self, caller: C, holding: set[object] | None) -> None:
        self._caller, self._holding = caller, holding
        self._before = _CALLERS.get()
        self._inside: tuple[Caller, ...] = (*self._before, caller)

    def begin(self) -> C:
        if self._holding is not None:
            self._holding.add(self)
        _CALLERS.set(self._inside)
        return self._caller

    def undo(self, error: BaseException | None = None) -> None:
        self._caller.running = False
        if self._holding is not None:
            self._holding.discard(self)
        if _CALLERS.get() is self._inside:  # else this is the context of other code, which drops a coroutine
            _CALLERS.set(self._before)

    end = undo


def callers() -> tuple[Caller, ...]:
    """The code of the user's that engines have called and that is running here, outermost first."""
    return _CALLERS.get()


def caller_of(turns: object) -> Caller | None:
    """The innermost code that this engine has called and that is running here; None when only the user's is."""
    for caller in reversed(_CALLERS.get()):
        if caller.turns is turns and caller.running:
            return caller
    return None


def refuse_callers(turns: object, verb: str) -> None:
    """Raise WouldDeadlock when a verb that waits for running functions is asked for by one of them."""
    caller = caller_of(turns)
    if caller is not None:
        text = "call it outside of workers, listeners and sources"
        raise WouldDeadlock(f"{verb}() inside {caller.what} would wait for itself: {text}")


def missing(view: ReadingTransaction, workflow_id: str) -> ExecutionNotFound:
    """Why an execution is not in the store: it is archived, or there is none."""
    if view.archive.archived(workflow_id) is not None:
        return ExecutionArchived(workflow_id)
    return ExecutionNotFound(f"no execution has the id {workflow_id!r}")


def status_of(view: ReadingTransaction, workflow_id: str) -> WorkflowStatus:
    """Return the status of an execution, stored or archived, without reading more of it; raises ExecutionNotFound."""
    row = view.executions.workflow(workflow_id)
    if row is not None:
        return row.status
    found = view.archive.archived(workflow_id)
    if found is None:
        raise missing(view, workflow_id)
    return WorkflowStatus(found.status)


def unarchived(view: ReadingTransaction, workflow_id: str) -> Unpacked:
    """Return the archived content of an execution.

    Raises ExecutionNotFound, and StorageCorrupt when it cannot be read.
    """
    found = view.archive.archived(workflow_id)
    if found is None:
        raise ExecutionNotFound(f"no execution has the id {workflow_id!r}")
    from conductorlite.model.documents import unpacked

    return unpacked(found.document)


def archived_workflow(found: Unpacked) -> Workflow:
    """An archived execution as `Engine.get` returns it: with its tasks and its definitions."""
    row = found.workflow
    grafts = sorted({digest for task in row.tasks for digest in task.grafts})
    absent = {row.definition_hash, *grafts} - found.definitions.keys()
    if absent:
        raise StorageCorrupt(f"the definition {min(absent)} of {row.workflow_id} is missing")
    made = {digest: WorkflowDef.from_json(found.definitions[digest]) for digest in grafts}
    return attrs.evolve(row, definition=WorkflowDef.from_json(found.definitions[row.definition_hash]), made=made)


class Observer(Protocol):
    """Added to `Turns.observers`. Its methods are called in threads of the engine, and must be quick.

    What `committed` and the beginning of `working` raise is logged, and nothing else happens.
    """

    def committed(self, decision: Decision) -> None:
        """A turn was committed by this engine: its rows and history, once."""

    def carried(self) -> str | None:
        """The `traceparent` (W3C Trace Context) that an execution carries which the calling code starts."""

    def acted(self, execution: EventExecution) -> None:
        """An action of an event handler was carried out, or could not be: its record, once it is kept."""

    def working(self, task: Task) -> AbstractContextManager[object]:
        """Around the function that carries out a task, in its thread or coroutine."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers of a request that the calling function makes."""


def notify_acted(execution: EventExecution, observers: Sequence[Observer], failures: FailureLog) -> None:
    """Have observers see the record of an action of an event handler; what one raises is logged."""
    for observer in tuple(observers):
        try:
            observer.acted(execution)
        except Exception as error:
            failures.listener(execution, error)


def notify(decision: Decision, listeners: Sequence[Listener], observers: Sequence[Observer], failures: FailureLog) -> None:
    """Have all see a turn that was committed; what one raises is logged."""
    calls = [partial(listener, decision.workflow, decision.history) for listener in tuple(listeners)]
    for call in (*calls, *(partial(observer.committed, decision) for observer in tuple(observers))):
        try:
            call()
        except Exception as error:
            failures.listener(decision.workflow, error)
