"""Starting executions, and handing them what verbs ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

import attrs

from conductorlite.decide import DECIDER_VERSION
from conductorlite.decide.verbs import pending_of
from conductorlite.engine.config import EngineConfig, Part, intercepted
from conductorlite.engine.keys import checked_domains, checked_key, put_off, replaced
from conductorlite.engine.payloads import given_path, uploaded
from conductorlite.engine.registry import Embedded, Plans
from conductorlite.engine.starts import Starts
from conductorlite.engine.turn_types import ExtraWrite, Start, Taking, TurnResult, missing, new_event
from conductorlite.engine.turns import Turns
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.clock import Clock
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import Decision, EventKind, Outcome, Reply, name_at
from conductorlite.model.definitions import IdempotencyStrategy, StartWorkflowRequest, WorkflowDef
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    Conflict,
    ExecutionEnded,
    ExecutionNotFound,
    InvalidInput,
    KeyTaken,
    MailboxFull,
    Parked,
    PayloadTooLarge,
    StorageBusy,
    TaskNotFound,
)
from conductorlite.model.executions import Task, Workflow, WorkflowRow
from conductorlite.model.later import functions
from conductorlite.model.scalars import is_integer
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import Instant, Span, as_map, as_text, printable, to_instant, to_span
from conductorlite.model.threads import Cache
from conductorlite.store.ports import ReadingTransaction, WritingTransaction

if TYPE_CHECKING:
    from conductorlite.decide.messages import why_unreachable
    from conductorlite.model.contents import Contents
    from conductorlite.model.debounce import Debounce
else:
    (why_unreachable,) = functions("conductorlite.decide.messages", "why_unreachable")

__all__ = [
    "Begin",
    "Control",
    "ascending_ids",
    "blocking_task",
    "open_task",
    "raise_refusal",
    "receiver_below",
    "refuse_parked",
    "rerun_data",
    "unreachable",
]

#: Has a first turn taken, with workers that are free for what it offers, if any are to have it.
Begin = Callable[[Callable[[Taking | None], object]], None]

#: Definitions remembered as they were started last.
_DEFINITIONS: Final = 100

#: How often a debounced start looks for the execution of its key again: each time another call was first, or it has begun.
_TRIES: Final = 64

#: Numbers of chance that are drawn at once.
_DRAWS: Final = 64

#: What waits for a person or another program.
_BLOCKING: Final = frozenset({"WAIT", "HUMAN"})


def refuse_parked(workflow_id: str, taken: TurnResult) -> None:
    """Raise Parked when no turn was taken because the execution is parked."""
    if taken.parked is not None:
        raise Parked(f"{workflow_id}: is parked ({taken.parked}); resume it first, or terminate it")


#: What a verb raises when the turn answers it with an outcome.
_REFUSALS: Final[Mapping[Outcome, type[ConductorliteError]]] = {
    Outcome.CONFLICT: Conflict,
    Outcome.MISSING: TaskNotFound,
    Outcome.ENDED: ExecutionEnded,
    Outcome.FULL: MailboxFull,
}


def raise_refusal(workflow_id: str, reply: Reply) -> None:
    """Raise the error for an answer that is a refusal: Conflict, TaskNotFound, ExecutionEnded or MailboxFull."""
    if reply.outcome in _REFUSALS:
        raise _REFUSALS[reply.outcome](f"{workflow_id}: {reply.message}")


def rerun_data(
    ref: str | None,
    input: Mapping[str, Any] | None,
    task_input: Mapping[str, Any] | None,
    correlation_id: str | None,
    *,
    where: str,
) -> dict[str, Any]:
    """Return the data of the event of a rerun; raises InvalidInput, which names the verb `where` it was given."""
    data = {
        "ref": ref,
        "input": None if input is None else as_map(input, "input"),
        "taskInput": None if task_input is None else as_map(task_input, "task_input"),
        "correlationId": None if correlation_id is None else as_text(correlation_id, "correlation_id"),
    }
    given = {name: value for name, value in data.items() if value is not None}
    Payload.of(given, where=where)
    return given


def _check(request: StartWorkflowRequest) -> None:
    """Refuse what is not of its declared type or out of range; raises InvalidInput."""
    priority, version, correlation, created_by = request.priority, request.version, request.correlation_id, request.created_by
    if (type(priority) is not int and not is_integer(priority)) or not 0 <= priority <= 99:
        raise InvalidInput(f"priority {printable(priority, 60)} is not a whole number between 0 and 99")
    if version is not None:
        _check_version(version, request.workflow_def)
    if correlation is not None and type(correlation) is not str:
        as_text(correlation, "correlation_id")
    if created_by is not None and type(created_by) is not str:
        as_text(created_by, "created_by")


def _checked_path(path: str, given: Payload) -> str | None:
    """The path of an input that was uploaded; raises InvalidInput when an input is given too."""
    found = given_path(path)
    if found is not None and given != EMPTY:
        raise InvalidInput("give `input` or `external_input_payload_storage_path`, not both")
    return found


def _check_debounced(request: StartWorkflowRequest, debounce: object) -> None:
    from conductorlite.model.debounce import Debounce

    if not isinstance(debounce, Debounce):
        raise InvalidInput(f"debounce is Debounce('30s', key='form-7'), not {printable(debounce, 80)!r}")
    if request.idempotency_key is not None:
        raise InvalidInput("give `debounce` or `idempotency_key`, not both: one puts off what the other refuses to start again")


def _check_version(version: object, definition: WorkflowDef | None) -> None:
    if not is_integer(version):
        raise InvalidInput(f"version {version!r:.60} is no whole number")
    if definition is not None and version != definition.version:
        raise InvalidInput(
            f"version {version} is asked for, and the definition given is version {definition.version} of {definition.name!r}; "
            f"give no version, or start {definition.name!r} by its name where version {version} is registered"
        )


def _check_alike(one: StartWorkflowRequest, request: StartWorkflowRequest) -> None:
    """Of those that start together a start's interceptors may change anything but which workflow it is."""
    if (one.name, one.version, one.workflow_def) != (request.name, request.version, request.workflow_def):
        raise InvalidInput(f"an interceptor has made {one.name!r} of {request.name!r}, with which others start")
    _check(one)


def _swallowed(request: StartWorkflowRequest) -> InvalidInput:
    return InvalidInput(f"workflow {request.name!r}: an interceptor has swallowed why it was not started")


class _Chance:
    """Numbers of 44 random bits, none given twice: not to two threads, nor in a process and one forked from it. Thread-safe.

    Many are asked for at once: on some virtual machines the system takes half a millisecond for the first few bytes.
    """

    def __init__(self) -> None:
        #: The process that has drawn them, and those that are left.
        self._drawn: tuple[int, list[int]] = (0, [])

    def draw(self) -> int:
        """The next one."""
        process, left = self._drawn
        try:
            number = left.pop()
        except IndexError:
            number = process = 0
        if process != os.getpid():  # after it was taken: a fork until here has other ones drawn
            left = memoryview(os.urandom(8 * _DRAWS)).cast("Q").tolist()
            number = left.pop()
            self._drawn = (os.getpid(), left)
        return number & 0xFFFFFFFFFFF


def ascending_ids(clock: Clock) -> Callable[[], str]:
    """Return a function that draws UUIDs of version 7 (RFC 9562): the clock's ms, 30 bits that count on, 44 of chance.

    They ascend, so that new rows stand side by side in a store.
    """
    numbers, chance = count(int.from_bytes(os.urandom(4)) >> 3), _Chance()

    def new_id() -> str:
        number = next(numbers) & 0x3FFFFFFF
        high = (clock.now() & 0xFFFFFFFFFFFF) << 16 | 0x7000 | number >> 18
        low = 0b10 << 62 | (number & 0x3FFFF) << 44 | chance.draw()
        text = f"{high << 64 | low:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    return new_id


#: Definitions that were started as objects, by their ids; from the second time on with what was in them and their texts. For all
#: engines of the process: that of a test is a new one, its definition is not.
_TEXTS: Final[Cache[int, tuple[ref[WorkflowDef], Contents | None, str]]] = Cache(_DEFINITIONS)


def _text(definition: WorkflowDef) -> str:
    """The text of a definition, which is not written again as long as nothing in the same object has changed."""
    known, contents, text = _TEXTS.get(id(definition)) or (None, None, "")
    seen = known is not None and known() is definition
    if seen and contents is not None and contents.hold():
        return text
    contents = None
    if seen:  # for the second time; before it is written, so that a change until then is seen
        from conductorlite.model.contents import Contents

        contents = Contents.of(definition)
    text = definition_text(definition)
    _TEXTS.put(id(definition), (ref(definition), contents, "" if contents is None else text))
    return text


class StartDomains(Protocol):
    """The domains of executions that are started, by task type."""

    start_domains: Mapping[str, str]


class Control(Part):
    """The verbs that start and change executions."""

    def __init__(self, turns: Turns, starts: Starts, config: EngineConfig) -> None:
        super().__init__(turns, config)
        self._starts = starts
        #: Definitions as they were started last, and after how many commits: they hold while nobody else has written.
        self._last: dict[tuple[str, bool, int | None], tuple[int, Embedded]] = {}
        self.new_id = config.ids or ascending_ids(turns.clock)
        #: Raises InvalidInput where a function says what the input of a definition, with its hash, has to be.
        self.check_input: Callable[[WorkflowDef, str, Payload], None] | None = None
        #: Says to which domains the tasks go of what is started, where the start does not.
        self.domains: StartDomains | None = None

    def start(
        self,
        request: StartWorkflowRequest,
        *,
        workflow_id: str | None,
        at: Instant | None,
        delay: Span | None,
        path: str | None = None,
        begin: Begin | None = None,
        debounce: Debounce | None = None,
        message: Mapping[str, Any] | None = None,
    ) -> str:
        """Start an execution whose first task is due `at` an instant, or after a `delay`; returns its id. See `Engine.start`.

        `path` is what was uploaded as its input. `begin` is called with what takes the first turn. `message` is the data of an
        event SEND that belongs to that turn, or to the execution which holds the idempotency key.
        """
        if debounce is not None:
            if at is not None or delay is not None or workflow_id is not None or message is not None:
                said = "`debounce` says which execution begins, and when"
                raise InvalidInput(f"{said}: give no `at`, `delay`, `workflow_id` or `message`")
            with intercepted(self._config.start_interceptors, request) as request:
                return self._debounced(request, debounce, path)
            raise _swallowed(request)
        now = self._clock.now()
        if at is not None and delay is not None:
            raise InvalidInput("give `at` or `delay`, not both")
        first: dict[str, Any] | None = None
        if at is not None:
            first = {"at": to_instant(at)}
        elif delay is not None:
            first = {"at": now + to_span(delay), "delay": True}
        if not self._config.start_interceptors:
            return self._started(request, workflow_id, first, now, path, begin, message)
        with intercepted(self._config.start_interceptors, request) as request:
            return self._started(request, workflow_id, first, now, path, begin, message)
        raise _swallowed(request)

    def _started(
        self,
        request: StartWorkflowRequest,
        workflow_id: str | None,
        first: dict[str, Any] | None,
        now: int,
        path: str | None,
        begin: Begin | None,
        message: Mapping[str, Any] | None,
    ) -> str:
        values = request.input
        if type(values) is not dict:
            values = as_map(values, "input")
        given = Payload.of(values, where="input") if values else EMPTY
        path = None if path is None else _checked_path(path, given)
        _check(request)
        if workflow_id is not None and name_at(as_text(workflow_id, "workflow_id")) is not None:
            raise InvalidInput(f"{workflow_id!r} is the inbox of a schedule, and no id for an execution")
        try:
            embedded = self._embedded(request)
            if path is not None:
                given = self._uploaded(path)
            begins = self._begins(request, embedded, workflow_id or self.new_id(), given, now)
            row = begins.workflow
            event = new_event(row.workflow_id, EventKind.START, now, first)
            if message is None:
                turn = partial(self._starts.begin, event, begins, own_id=workflow_id is None and self._config.ids is None)
            else:
                sent = new_event(row.workflow_id, EventKind.SEND, now, message)
                turn = partial(self._starts.begin_with, [event, sent], begins)
            if begin is None:
                turn()
            else:
                begin(turn)
        except KeyTaken as taken:
            if request.idempotency_strategy is IdempotencyStrategy.RETURN_EXISTING:
                if message is not None:
                    self.verb(taken.workflow_id, EventKind.SEND, message)
                return taken.workflow_id
            raise
        self._turns.lookups.registry.now_stored(begins.definitions)
        return row.workflow_id

    def _debounced(self, request: StartWorkflowRequest, debounce: Debounce, path: str | None) -> str:
        """Store an execution that begins later, or put off the one of the key that has not begun; returns its id."""
        _check_debounced(request, debounce)
        given = Payload.of(as_map(request.input, "input"), where="input")
        path = None if path is None else _checked_path(path, given)
        _check(request)
        if path is not None:
            given = self._uploaded(path)
        for _ in range(_TRIES):
            embedded, now = self._embedded(request), self._clock.now()
            begins = self._begins(attrs.evolve(request, idempotency_key=debounce.stored_key), embedded, self.new_id(), given, now)
            with self._backend.reading() as view:
                found = put_off(view, embedded.name, debounce.stored_key)
            if found is not None and self._is_put_off(found, begins, debounce, now):
                return found
            row = begins.workflow
            first = {"at": now + debounce.quiet, "delay": True, "since": debounce.quiet}
            try:
                self._starts.begin(new_event(row.workflow_id, EventKind.START, now, first), begins, own_id=False)
            except KeyTaken:  # another call was first, whose execution has not begun
                continue
            self._turns.lookups.registry.now_stored(begins.definitions)
            return row.workflow_id
        raise StorageBusy(f"{request.name!r}: others with key {debounce.key!r} were first {_TRIES} times; nothing was changed")

    def _uploaded(self, path: str) -> Payload:
        """The input that was uploaded to a path."""
        return Payload.of(uploaded(self._turns.lookups.payload_store, path, "WORKFLOW_INPUT"), where="input")

    def _is_put_off(self, workflow_id: str, begins: Start, debounce: Debounce, now: int) -> bool:
        """Have an execution that has not begun be another one, later; False when it has begun, or is gone."""
        row = begins.workflow
        said = {
            "quiet": debounce.quiet,
            "maxWait": debounce.max_wait,
            "input": row.input.fresh(),
            "variables": row.variables.fresh(),
            "definitionHash": row.definition_hash,
            "version": row.version,
            "correlationId": row.correlation_id,
            "priority": row.priority,
            "taskToDomain": row.task_to_domain.fresh(),
        }
        data = Payload.of({name: value for name, value in said.items() if value is not None}, bounded=False)
        event = attrs.evolve(new_event(workflow_id, EventKind.DEBOUNCE, now), data=data)

        def embed(tx: WritingTransaction, _: Decision) -> None:
            for digest, text in begins.definitions.items():
                tx.metadata.embed(digest, text)

        try:
            taken = self._turns.run_turn(workflow_id, [event], extra_write=embed if begins.definitions else None)
        except ExecutionNotFound:
            return False
        refuse_parked(workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is None or reply.outcome is not Outcome.DONE:
            return False
        self._turns.lookups.registry.now_stored(begins.definitions)
        return True

    def start_many(self, request: StartWorkflowRequest, inputs: Iterable[Mapping[str, Any]], now: int) -> list[str]:
        """Start an execution of each input, all in one commit or none; returns their ids, in order. See `Engine.start_many`."""
        with ExitStack() as around:
            return self._started_together(request, inputs, now, around)
        raise _swallowed(request)

    def _started_together(
        self, request: StartWorkflowRequest, inputs: Iterable[Mapping[str, Any]], now: int, around: ExitStack
    ) -> list[str]:
        _check(request)
        embedded, interceptors = self._embedded(request), self._config.start_interceptors
        starts: list[Start] = []
        for number, data in enumerate(inputs):
            if type(data) is not dict and not isinstance(data, Mapping):
                raise InvalidInput(f"inputs[{number}] is no mapping, but {data!r:.80}")
            one = request
            if interceptors:
                one = around.enter_context(intercepted(interceptors, attrs.evolve(request, input=data)))
                data = one.input
            try:
                if interceptors:
                    _check_alike(one, request)
                given = Payload.of(dict(data), where="input") if data else EMPTY
                begins = self._begins(one, embedded, self.new_id(), given, now)
            except (InvalidInput, PayloadTooLarge) as error:
                raise type(error)(f"inputs[{number}]: {error}") from error
            # The definitions are stored with the first one.
            starts.append(attrs.evolve(begins, definitions={}) if starts and begins.definitions else begins)
        if starts:
            self._starts.start_together(starts)
            self._turns.lookups.registry.now_stored(starts[0].definitions)
        return [begins.workflow.workflow_id for begins in starts]

    def start_along(self, request: StartWorkflowRequest, workflow_id: str, now: int, address: str, extra_write: ExtraWrite) -> None:
        """Start an execution in one commit with `extra_write`, or not at all; its end is reported to an `address`.

        Raises AlreadyExists, KeyTaken, and what refuses a start.
        """
        given = Payload.of(dict(request.input), where="input")
        begins = self._begins(request, self._embedded(request, workflow_id), workflow_id, given, now, address)
        self._turns.start_atomically(new_event(workflow_id, EventKind.START, now), begins, extra_write)
        self._turns.lookups.registry.now_stored(begins.definitions)

    def _embedded(self, request: StartWorkflowRequest, absent: str | None = None) -> Embedded:
        """The definition that is to be started; raises KeyTaken when another execution holds the key.

        Raises AlreadyExists when there is an execution of the id that is to be `absent`.
        """
        key, quiet = request.idempotency_key, self._turns.quiet
        if key is not None:
            checked_key(key)
        wanted = request.workflow_def or request.name
        text = wanted if isinstance(wanted, str) else _text(wanted)
        asked = (text, wanted is request.name, request.version)
        last = self._last.get(asked) if key is None and absent is None else None
        if last is not None and quiet.is_same_since(last[0]):
            return last[1]
        commits = quiet.commits
        with self._backend.reading() as view:
            embedded = self._turns.lookups.registry.embedded(view, wanted, request.version, text)
            if absent is not None and view.executions.workflow(absent) is not None:
                raise AlreadyExists(f"an execution {absent!r} exists already")
            replaced(view, embedded.name, key, request.idempotency_strategy)
        if len(self._last) > _DEFINITIONS:
            self._last.clear()
        self._last[asked] = (commits, embedded)
        return embedded

    def _begins(
        self,
        request: StartWorkflowRequest,
        embedded: Embedded,
        workflow_id: str,
        given: Payload,
        now: int,
        address: str | None = None,
    ) -> Start:
        definition = embedded.plan.definition
        if definition.input_template:
            given = Payload.of(apply_workflow_input_template(given.fresh(), definition.input_template))
        if self.check_input is not None:
            self.check_input(embedded.plan.definition, embedded.digest, given)
        check = embedded.plan.input_check
        broken = None if check is None else check.violation(given.value)
        if broken is not None:
            raise InvalidInput(f"the input breaks the inputSchema of {embedded.name!r}: {broken}")
        problem = self._turns.lookups.bounds.barriers.refusal("workflow_input", given)
        if problem is not None:
            raise PayloadTooLarge(f"{embedded.name!r} cannot be started: {problem}")
        domains, observers = request.task_to_domain, self._turns.observers
        if self.domains is not None and self.domains.start_domains:
            domains = {**self.domains.start_domains, **checked_domains(domains)}
        row: Workflow = WorkflowRow(
            workflow_id=workflow_id,
            name=embedded.name,
            version=embedded.version,
            definition_hash=embedded.digest,
            semantics=self._config.semantics,
            decider_version=DECIDER_VERSION,
            seed=self._config.seed,
            owner=self._owner,
            created_at=now,
            updated_at=now,
            input=given,
            variables=Payload.of(dict(definition.variables)) if definition.variables else EMPTY,
            correlation_id=request.correlation_id,
            priority=request.priority,
            created_by=request.created_by,
            trace_context=next(filter(None, (one.carried() for one in tuple(observers))), None) if observers else None,
            idempotency_key=request.idempotency_key,
            task_to_domain=Payload.of(checked_domains(domains)) if domains or type(domains) is not dict else EMPTY,
            event=address,
        )
        # Stored with the first execution that uses it, in the same commit.
        return Start(
            workflow=row, definitions=self._turns.lookups.registry.not_stored(embedded), strategy=request.idempotency_strategy
        )

    def verb(self, workflow_id: str, kind: EventKind, data: Mapping[str, Any] | None = None) -> TurnResult:
        """Hand an execution an event; raises ExecutionNotFound, Parked, Conflict, and TaskNotFound."""
        event = new_event(workflow_id, kind, self._clock.now(), data)
        taken = self._turns.run_turn(workflow_id, [event])
        refuse_parked(workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is not None:
            raise_refusal(workflow_id, reply)
        return taken

    def resume(self, workflow_id: str) -> None:
        """Take up a paused or parked execution; raises ExecutionNotFound and Conflict."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
        if row is not None and row.parked is not None:
            now = self._clock.now()
            with self._backend.writing() as tx:
                tx.executions.release(workflow_id, now)
            self._turns.committed.wake()
            if row.status is not WorkflowStatus.PAUSED:
                self.take_turn(workflow_id)
                return
        self.verb(workflow_id, EventKind.RESUME)

    def take_turn(self, workflow_id: str) -> None:
        """Take the execution's turn now, if anything is due. Raises ExecutionNotFound, InvariantBroken, and Parked."""
        self.row(workflow_id)
        refuse_parked(workflow_id, self._turns.run_turn(workflow_id))

    def row(self, workflow_id: str) -> Workflow:
        """An execution's row; raises ExecutionNotFound."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            if row is None:
                raise missing(view, workflow_id)
        return row


def open_task(view: ReadingTransaction, workflow_id: str, wanted: str, seen: dict[str, None]) -> Task | None:
    """The open task of a task id or a reference: the printed one, or the definition's for its first open round.

    If the execution has none, it is that of the first of its open sub-workflows that has one, depth first. The ids of all that were
    looked at are put into `seen`, in that order.
    """
    by_id = view.executions.task_by_id(wanted)
    pending = [workflow_id]
    while pending:
        one = pending.pop(0)
        seen[one] = None
        if by_id is not None and by_id.workflow_id == one:
            return None if by_id.status.terminal else by_id
        rows = _open_rows(view, one)
        found = next((row for row in rows if row.ref == wanted), next((row for row in rows if row.base_ref == wanted), None))
        if found is not None:
            return found
        pending[:0] = [row.sub_workflow_id for row in rows if row.sub_workflow_id is not None]
    return None


def receiver_below(plans: Plans, view: ReadingTransaction, ids: Iterable[str], ref: str) -> str | None:
    """The execution, of some from the outermost inwards, that is to keep a signal to a task to come; None when there is none.

    It is the first that has such a task, unless what ends the task is kept already: then that in whose `try` it begins once more.
    """
    rows = [row for one in ids if (row := view.executions.workflow(one)) is not None]
    own = [row for row in rows if unreachable(plans, view, row, ref, held=False) is None]
    held = (row for row in reversed(rows) if row not in own and unreachable(plans, view, row, ref) is None)
    free = (row for row in own if not _is_answered(view, row, ref))
    found = next(free, None) or next(held, None) or next(iter(own), None)
    return None if found is None else found.workflow_id


def _is_answered(view: ReadingTransaction, row: Workflow, ref: str) -> bool:
    """Return True if a signal is kept that ends a task, or is too large to be looked into."""
    from conductorlite.model.mailbox import MAX_MESSAGES, signal_topic

    kept = view.executions.mailbox(row.workflow_id).unreceived(signal_topic(ref), MAX_MESSAGES) if row.unreceived else ()
    return any(one.value.absent or TaskStatus(one.value.value["status"]).terminal for one in kept)


def blocking_task(view: ReadingTransaction, workflow_id: str, seen: set[str] | None = None) -> Task | None:
    """The first open WAIT or HUMAN of an execution, else that of the first of its sub-workflows that has one, depth first.

    The ids of all that were looked at are put into `seen`.
    """
    pending = [workflow_id]
    while pending:
        one = pending.pop(0)
        if seen is not None:
            seen.add(one)
        rows = _open_rows(view, one)
        for row in rows:
            if row.task_type in _BLOCKING:
                return row
        pending[:0] = [row.sub_workflow_id for row in rows if row.sub_workflow_id is not None]
    return None


def unreachable(plans: Plans, view: ReadingTransaction, row: Workflow, ref: str, *, held: bool = True) -> str | None:
    """Why the execution does not come to a task any more, of which there is no open attempt; None when it may."""
    continued = (event.data.value for event in view.inbox.events(row.workflow_id) if event.kind is EventKind.CONTINUE)
    pending = [place for work in continued for place in pending_of(work)]
    rows = view.executions.last_attempts(row.workflow_id)
    return why_unreachable(row, rows, lambda grafts: plans.extended(view, row, tuple(grafts)), ref, pending, held=held)


def _open_rows(view: ReadingTransaction, workflow_id: str) -> list[Task]:
    return sorted((row for row in view.executions.live(workflow_id) if not row.status.terminal), key=lambda row: row.seq)
