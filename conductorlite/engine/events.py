"""Event handlers: registered by name, asked for each message, and their actions carried out once.

The record of an action is the gate: it is written in the commit that carries the action out, so a message that comes again, in
this process or another, after a crash or without one, finds it and does nothing but what is still missing. Source of the
rules: Conductor's DefaultEventProcessor; where it loses or doubles something, see the compatibility page.

The actions of event handlers: each is events to an execution, and what its record says.

An action looks and writes inside the transaction that keeps its record, so it is done once and on what is there then. Source of
the rules: Conductor's SimpleActionProcessor. What cannot be done because what it names is not there is FAILED with an `error`, what
was written wrongly with an `exception`. What reports on a WAIT or HUMAN that its execution can still come to is kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs

from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.control import unreachable
from conductorlite.engine.decisions import DEATHS
from conductorlite.engine.keys import checked_key, checked_strategy, replaced, start_event
from conductorlite.engine.logs import log_event_failure
from conductorlite.engine.registry import Embedded
from conductorlite.engine.schedule_records import RECORDS, is_record, remove_records
from conductorlite.engine.turn_types import notify_acted
from conductorlite.engine.turns import Turns
from conductorlite.language.conditions import compile_condition, is_true
from conductorlite.language.templates import compile_template, expanded
from conductorlite.language.values import MappingSource, to_text
from conductorlite.model.canonical import EMPTY, Payload, canonical, parse
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import MAX_KEY, IdempotencyStrategy, Semantics
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    DefinitionNotFound,
    EngineClosed,
    ExpressionFailed,
    InvalidDefinition,
    InvalidInput,
    InvariantBroken,
    KeyTaken,
    StorageError,
)
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.handlers import (
    ActionType,
    EventAction,
    EventExecution,
    EventHandler,
    EventStatus,
    SendMessage,
    StartWorkflow,
    TaskDetails,
    TerminateWorkflow,
    UpdateWorkflowVariables,
)
from conductorlite.model.mailbox import DEFAULT_TOPIC, MAX_MESSAGES, signal_topic, topic_problem
from conductorlite.model.policies import derive_id
from conductorlite.model.texts import REASON_LENGTH, Instant, error_text
from conductorlite.model.threads import Cache
from conductorlite.plan.validate import validate_event_handler
from conductorlite.store.ports import EventMessage, ReadingTransaction, WritingTransaction

__all__ = ["Acting", "Events"]

#: Whatever an action says wrong is its own failure; these are the store's.
_TRANSIENT: Final = (StorageError, EngineClosed, InvariantBroken)


class Events(Service):
    """Operations on event handlers and messages."""

    def __init__(self, turns: Turns, config: EngineConfig, new_id: Callable[[], str]) -> None:
        super().__init__(turns, config)
        self._new_id = new_id
        self._known: Cache[str, EventHandler] = Cache(256)

    def register(self, handler: EventHandler, *, overwrite: bool = True) -> None:
        """Register an event handler under its name.

        Raises InvalidDefinition with every error of it, and AlreadyExists when `overwrite` is False and the name is taken.
        Its warnings are logged, once; `conductorlite.validate_event_handler` returns them.
        """
        found = validate_event_handler(handler)
        problems = [problem for problem in found if problem.severity == "error"]
        if problems:
            raise InvalidDefinition(problems)
        text = definition_text(handler)
        with self._backend.writing() as tx:
            if not overwrite and tx.event_handlers.handler(handler.name) is not None:
                raise AlreadyExists(f"event handler {handler.name!r} is registered already")
            tx.event_handlers.put_event_handler(handler.name, handler.event, handler.active, text)
        self._turns.lookups.registry.notice(handler, text, found)

    def get(self, name: str) -> EventHandler:
        """Return a registered event handler; raises DefinitionNotFound."""
        with self._backend.reading() as view:
            text = view.event_handlers.handler(name)
        if text is None:
            raise DefinitionNotFound(f"no event handler {name!r} is registered")
        return EventHandler.from_json(text)

    def all(self, event: str | None = None, *, active_only: bool = False) -> list[EventHandler]:
        """Return the registered event handlers, or those of one event, in order of names."""
        with self._backend.reading() as view:
            return self._handlers(view.event_handlers.handlers(event, active_only=active_only))

    def _handlers(self, texts: Sequence[str]) -> list[EventHandler]:
        found = []
        for text in texts:
            handler = self._known.get(text)
            if handler is None:
                handler = EventHandler.from_json(text)
                self._known.put(text, handler)
            found.append(handler)
        return found

    def unregister(self, name: str) -> None:
        """Delete an event handler; its records stay. Raises DefinitionNotFound."""
        with self._backend.writing() as tx:
            if tx.event_handlers.handler(name) is None:
                raise DefinitionNotFound(f"no event handler {name!r} is registered")
            tx.event_handlers.drop_event_handler(name)

    def publish(self, event: str, payload: Any = None, *, message_id: str | None = None) -> list[EventExecution]:
        """Publish a message to the active handlers of its event, and return the outcome of each action, in order.

        Handlers are asked in order of their names, actions carried out in theirs, each in a commit of its own, once for each
        `message_id` (1 to 255 characters; drawn if not given): published again, what was done is returned as it was, and what
        was not is done. The payload is any JSON value. What one action does wrong is FAILED in its record and keeps no other
        from being done. Raises InvalidInput, and StorageErrors: publish again then, with the same id.
        """
        message_id = self._new_id() if message_id is None else message_id
        for name, text in (("event", event), ("message_id", message_id)):
            if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY:
                raise InvalidInput(f"{name}: {text!r:.80} is not a text of 1 to {MAX_KEY} characters")
            canonical(text, where=name)
        message = EventMessage(event=event, payload=parse(canonical(payload, where="payload")), message_id=message_id)
        with self._backend.reading() as view:
            handlers = self._handlers(view.event_handlers.handlers(message.event, active_only=True))
        done: list[EventExecution] = []
        written: list[str] = []
        try:
            for handler in handlers:
                done += self._handled(handler, message, written)
        finally:
            # Also when the store fails on the way: what was written so far is due.
            if written:
                self._turns.committed.wake()
        self._turns.run_related(list(dict.fromkeys(written)))
        return done

    def _handled(self, handler: EventHandler, message: EventMessage, written: list[str]) -> list[EventExecution]:
        """Return the results of a handler's actions for a message; `written` gets the executions that were written to."""
        identity = (handler.name, message.event, message.message_id)
        numbers = range(len(handler.actions))
        with self._backend.reading() as view:
            known = [view.event_handlers.event_execution(*identity, number) for number in numbers]
        first = known[0]
        if first is not None and first.action is None:
            return [first]  # what was decided about the condition once is not asked again
        if first is None:
            verdict = self._verdict(handler, message)
            if verdict is not None:
                return [self._announced(self._kept(verdict))]
        return [known[number] or self._acted(handler, number, message, written) for number in numbers]

    def _verdict(self, handler: EventHandler, message: EventMessage) -> EventExecution | None:
        """The record of a condition that does not hold or cannot be asked; None when the actions are to be carried out."""
        condition = handler.condition
        if condition is None or not condition.strip():
            return None
        evaluator = (handler.evaluator_type or "").strip() or "javascript"
        payload = expanded(message.payload)
        values = payload if isinstance(payload, dict) else {"value": payload}
        now = self._clock.now()
        try:
            with self._marked(f"{handler.name}\0{message.event}\0{message.message_id}"):
                script = compile_condition(condition, evaluator)
                if is_true(script.evaluate(values, now=now, seed=derive_id(handler.name, message.message_id))):
                    return None
            status, said = EventStatus.SKIPPED, {"msg": payload, "condition": condition}
        except ConductorliteError as error:
            status, said = EventStatus.FAILED, {"exception": error_text(error), "condition": condition}
        return EventExecution(
            name=handler.name,
            event=message.event,
            message_id=message.message_id,
            number=0,
            status=status,
            created=now,
            output=Payload.of(said, bounded=False),
        )

    @contextmanager
    def _marked(self, key: str) -> Iterator[None]:
        """Mark a condition that is asked, as turns are marked; raises ExpressionFailed when it has ended three processes."""
        marks = self._turns.deaths.marks
        if marks is None:
            yield
            return
        deaths = marks.deaths(key)
        if deaths >= DEATHS:
            marks.forget(key)
            raise ExpressionFailed("it ended the process three times running")
        try:
            marks.begin(key)
            yield
        finally:
            marks.end(key)
        if deaths:
            marks.forget(key)

    def _kept(self, execution: EventExecution) -> EventExecution:
        """A record, kept if there is none of that identity; else the one there is."""
        with self._backend.writing() as tx:
            known = tx.event_handlers.event_execution(*execution.key)
            if known is None:
                tx.event_handlers.add_event_execution(execution)
        return known or execution

    def _acted(self, handler: EventHandler, number: int, message: EventMessage, written: list[str]) -> EventExecution:
        """Carry out one action and keep its record in the same commit; or return the record there is."""
        action = handler.actions[number]
        now = self._clock.now()
        key = (handler.name, message.event, message.message_id, number)
        acting = Acting(
            action=action,
            message=message,
            identity=derive_id("event", *key),
            now=now,
            semantics=self._config.semantics,
            seed=self._config.seed,
            owner=self._owner,
            embedded=self._turns.lookups.registry.embedded,
            unreachable=partial(unreachable, self._turns.lookups.plans),
        )

        def record(status: EventStatus, output: Payload = EMPTY) -> EventExecution:
            return EventExecution(
                name=handler.name,
                event=message.event,
                message_id=message.message_id,
                number=number,
                status=status,
                action=action.action,
                created=now,
                output=output,
            )

        try:
            with self._backend.writing() as tx:
                known = tx.event_handlers.event_execution(*key)
                if known is not None:
                    return known
                kind = ActionType(action.action)
                said, workflow_id = _ACTIONS[kind](tx, acting, getattr(action, kind))  # it has a body, or was not registered
                done = record(EventStatus.FAILED if _ERROR in said else EventStatus.COMPLETED, Payload.of(said))
                tx.event_handlers.add_event_execution(done)
        except _TRANSIENT:
            raise
        except ConductorliteError as error:
            said, workflow_id = {"exception": error_text(error)}, None
            done = self._kept(record(EventStatus.FAILED, Payload.of(said, bounded=False)))
        if workflow_id is not None:
            written.append(workflow_id)
        return self._announced(done)

    def _announced(self, done: EventExecution) -> EventExecution:
        """A record that was kept, once observers know of it and a failure is logged."""
        if done.status is EventStatus.FAILED:
            log_event_failure(done)
        notify_acted(done, self._turns.observers, self._turns.lookups.failures)
        return done

    def executions(
        self,
        name: str | None = None,
        *,
        message_id: str | None = None,
        limit: int = 100,
        after: EventExecution | None = None,
    ) -> list[EventExecution]:
        """Return up to `limit` outcomes of messages, newest first: of a handler, a message, or all.

        The next page begins `after` the last one. Raises InvalidInput when `limit` is below 1.
        """
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        found: list[EventExecution] = []
        place = None if after is None else after.place
        with self._backend.reading() as view:
            while len(found) < limit:
                page = view.event_handlers.event_executions(name, message_id, place, limit)
                found += (one for one in page if not is_record(one))
                if len(page) < limit:
                    break
                place = page[-1].place
        return found[:limit]

    def remove_executions(self, before: Instant) -> int:
        """Delete the records of actions carried out before an instant; return their number.

        A message whose records were removed is acted upon again when it comes again: keep them for as long as its source may
        repeat itself. Only `start_workflow` is still done once then, while the execution it began is there.
        """
        return remove_records(self._backend, before, without=RECORDS)


_MESSAGE: Final = "conductor.event.messageId"
_EVENT: Final = "conductor.event.name"


@attrs.frozen(kw_only=True, slots=True)
class Acting:
    """One action on one message, and what it needs of the engine."""

    action: EventAction
    message: EventMessage
    #: Derived from handler, event, message and number: of the execution it starts, and of its events.
    identity: str
    now: int
    semantics: Semantics
    seed: str
    #: Whose what it starts is.
    owner: str
    #: The registered workflow that is to be started, if it is that; raises DefinitionNotFound and InvalidDefinition.
    embedded: Callable[[ReadingTransaction, str, int | None], Embedded]
    #: Why an execution does not come to a task any more; None when it may.
    unreachable: Callable[[ReadingTransaction, Workflow, str], str | None]

    def rendered(self, template: Any) -> Any:
        """A value with its `${…}` resolved on the payload."""
        payload = expanded(self.message.payload) if self.action.expand_inline_json else self.message.payload
        return compile_template(template).render(MappingSource(whole=payload))

    def name(self, template: str | None, field: str) -> str | None:
        """A text that names something; None when it is not given or resolves to nothing. Raises InvalidInput."""
        value = self.rendered(template)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{field} is {str(value)[:60]!r}, not a text")
        return value or None

    def event(self, workflow_id: str, kind: EventKind, data: Mapping[str, Any], task: Task | None = None) -> Event:
        """An event of its own to an execution; raises InvalidInput for data that is not JSON."""
        return Event(
            workflow_id=workflow_id,
            event_id=str(kind) if kind is EventKind.START else f"{kind}@{self.identity}",
            kind=kind,
            due_at=self.now,
            posted_at=self.now,
            ref=None if task is None else task.ref,
            attempt=0 if task is None else task.attempt,
            generation=0 if task is None else task.generation,
            owner=self.owner,
            data=Payload.of(dict(data), where=self.action.action),
        )


#: Under which name an action says why it could not be carried out.
_ERROR: Final = "error"

#: What an action says of itself, and to which execution it wrote.
_Done = tuple[dict[str, Any], str | None]


def _start(tx: WritingTransaction, acting: Acting, wanted: StartWorkflow) -> _Done:
    message = acting.message
    found = acting.embedded(tx, wanted.name or "", wanted.version)
    correlation = acting.rendered(wanted.correlation_id)
    payload: Any = message.payload if isinstance(message.payload, dict) else {}
    domains = wanted.task_to_domain or payload.get("taskToDomain")
    if not isinstance(domains, dict) or not all(isinstance(domain, str) for domain in domains.values()):
        domains = {}
    data = {
        "definitionHash": found.digest,
        "name": found.name,
        "version": found.version,
        "input": {**acting.rendered(dict(wanted.input)), _MESSAGE: message.message_id, _EVENT: message.event},
        "correlationId": None if correlation is None else to_text(correlation),
        "priority": 0,
        "depth": 0,
        "semantics": str(acting.semantics),
        "seed": acting.seed,
        "taskToDomain": domains,
        "event": message.event,
    }
    workflow_id = acting.identity
    key, strategy = _key(acting, wanted)
    if key is not None:
        claimed = derive_id("event", "idempotencyKey", found.name, key)
        holder = _holder(tx, found.name, key, strategy, claimed, acting.now)
        if holder is not None:
            return {"workflowId": holder, "existing": True}, None
        # Two messages at once name one execution: the second finds the start of the first, before that has begun.
        if tx.executions.workflow(claimed) is None and tx.archive.archived(claimed) is None:
            workflow_id = claimed
        data |= {"idempotencyKey": key, "idempotencyStrategy": str(strategy)}
    # It is there already when its record was deleted and the message came once more.
    if tx.executions.workflow(workflow_id) is None:
        for digest, text in found.texts.items():
            tx.metadata.embed(digest, text)
        tx.inbox.post([acting.event(workflow_id, EventKind.START, data)])
    return {"workflowId": workflow_id}, workflow_id


def _key(acting: Acting, wanted: StartWorkflow) -> tuple[str | None, IdempotencyStrategy]:
    """The idempotency key of a start, None if there is none, and its strategy; raises InvalidInput."""
    strategy = checked_strategy((wanted.idempotency_strategy or "").strip() or IdempotencyStrategy.FAIL)
    if not (wanted.idempotency_key or "").strip():
        return None, strategy
    value = acting.rendered(wanted.idempotency_key)
    if value is None or value == "":
        raise InvalidInput(f"idempotencyKey {wanted.idempotency_key!r} resolves to nothing")
    return checked_key(to_text(value)), strategy


def _holder(tx: WritingTransaction, name: str, key: str, strategy: IdempotencyStrategy, claimed: str, now: int) -> str | None:
    """The execution that a message with a taken key is about; None when one is to be started. Raises KeyTaken."""
    try:
        replaced(tx, name, key, strategy)
    except KeyTaken as taken:
        holder, problem = taken.workflow_id, taken
    else:
        if start_event(tx, claimed, now) is None:
            return None
        holder = claimed
        problem = KeyTaken(
            holder, f"idempotency key {key!r} of workflow {name!r} belongs to execution {holder!r}, which is to begin"
        )
    if strategy is IdempotencyStrategy.RETURN_EXISTING:
        return holder
    raise problem


def _report(status: str, tx: WritingTransaction, acting: Acting, wanted: TaskDetails) -> _Done:
    task_id = acting.name(wanted.task_id, "taskId")
    workflow_id = acting.name(wanted.workflow_id, "workflowId")
    ref = acting.name(wanted.task_ref_name, "taskRefName")
    given = {"workflowId": workflow_id, "taskRefName": ref, "taskId": task_id}
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    task = _task(tx, task_id, workflow_id, ref)
    row = None if workflow_id is None or ref is None or task_id is not None else tx.executions.workflow(workflow_id)
    if row is None and task is None:
        return {**said, _ERROR: f"no task found with reference name {ref}, task id {task_id}, workflow id {workflow_id}"}, None
    reason = acting.rendered(wanted.reason_for_incompletion)
    output = {**acting.rendered(dict(wanted.output)), _MESSAGE: acting.message.message_id, _EVENT: acting.message.event}
    data: dict[str, Any] = {"status": status, "output": output}
    if reason is not None:
        data["reason"] = to_text(reason)[:REASON_LENGTH]
    if task is not None and not task.status.terminal:
        said = {"workflowId": task.workflow_id, "taskRefName": task.ref, "taskId": task.task_id}
        _post(tx, acting.event(task.workflow_id, EventKind.REPORT, data, task))
        return said, task.workflow_id
    if row is not None and (why := _why_not_kept(tx, acting, row, ref or "")) is None:
        kept = {"topic": signal_topic(ref or ""), "ref": ref, "key": acting.identity, "value": {**data, "merge": True}}
        _post(tx, acting.event(row.workflow_id, EventKind.SEND, {**kept, "posted": True}))
        return {**said, "kept": True}, row.workflow_id
    if task is not None:
        said = {"workflowId": task.workflow_id, "taskRefName": task.ref, "taskId": task.task_id}
        return {**said, _ERROR: f"task {task.ref!r} is {task.status} already"}, None
    return {**said, _ERROR: f"no task {ref!r} of workflow {workflow_id} is open: {why}"}, None


def _why_not_kept(view: ReadingTransaction, acting: Acting, row: Workflow, ref: str) -> str | None:
    """Why no message to a task can be kept; None when it can."""
    return _why_full(row) or acting.unreachable(view, row, ref)


def _why_full(row: Workflow) -> str | None:
    return f"{row.unreceived} messages are kept already" if row.unreceived >= MAX_MESSAGES else None


def _send(tx: WritingTransaction, acting: Acting, wanted: SendMessage) -> _Done:
    workflow_id = acting.name(wanted.workflow_id, "workflowId")
    topic = acting.name(wanted.topic, "topic") or DEFAULT_TOPIC
    key = checked_key(acting.name(wanted.key, "key")) or acting.identity
    problem = topic_problem(topic)
    if problem is not None:
        raise InvalidInput(f"topic {topic[:80]!r} {problem}")
    said, open_ = _open(tx, workflow_id)
    said = {**said, "topic": topic, "key": key}
    row = None if workflow_id is None else tx.executions.workflow(workflow_id)
    if row is None:
        return said, None
    value = Payload.of(acting.rendered(wanted.value), where="value")
    event = acting.event(row.workflow_id, EventKind.SEND, {"topic": topic, "key": key, "value": value.value, "posted": True})
    # Of its key, so that what another action has posted is found before it has its number.
    event = attrs.evolve(event, event_id=f"{event.kind}@{derive_id('message', topic, key)}")
    there = tx.executions.mailbox(row.workflow_id).message(topic, key)
    posted = [one for one in tx.inbox.events(row.workflow_id) if one.event_id == event.event_id] if there is None else []
    if there is not None or posted:
        if all(one.data == event.data for one in posted) and (there is None or there.value == value):
            return {name: one for name, one in said.items() if name != _ERROR} | {"existing": True}, None
        return {**said, _ERROR: f"the message of topic {topic!r} with the key {key!r} has another value"}, None
    if not open_:
        return said, None
    full = _why_full(row)
    if full is not None:
        return {**said, _ERROR: full}, None
    _post(tx, event)
    return said, row.workflow_id


def _task(view: ReadingTransaction, task_id: str | None, workflow_id: str | None, ref: str | None) -> Task | None:
    """The attempt that is meant: by its id, else the last one at the reference, of the round scheduled last."""
    if task_id is not None:
        return view.executions.task_by_id(task_id)
    if workflow_id is None or ref is None:
        return None
    return view.executions.tasks(workflow_id, [ref])[ref] or view.executions.latest(workflow_id, [ref])[ref]


def _terminate(tx: WritingTransaction, acting: Acting, wanted: TerminateWorkflow) -> _Done:
    workflow_id = acting.name(wanted.workflow_id, "workflowId")
    said, open_ = _open(tx, workflow_id)
    if open_:
        reason = acting.rendered(wanted.termination_reason)
        data = {} if reason is None else {"reason": to_text(reason)}
        _post(tx, acting.event(workflow_id or "", EventKind.TERMINATE, data))
    return said, workflow_id if open_ else None


def _set_variables(tx: WritingTransaction, acting: Acting, wanted: UpdateWorkflowVariables) -> _Done:
    workflow_id = acting.name(wanted.workflow_id, "workflowId")
    said, open_ = _open(tx, workflow_id)
    if open_:
        kind = EventKind.APPEND if wanted.append_array else EventKind.VARIABLES
        _post(tx, acting.event(workflow_id or "", kind, acting.rendered(dict(wanted.variables))))
    return said, workflow_id if open_ else None


def _open(view: ReadingTransaction, workflow_id: str | None) -> tuple[dict[str, Any], bool]:
    """Return what a record says of an execution, and whether it can still be written to."""
    row = None if workflow_id is None else view.executions.workflow(workflow_id)
    said = {} if workflow_id is None else {"workflowId": workflow_id}
    if row is None:
        return {**said, _ERROR: f"no workflow found with the id {workflow_id}"}, False
    if row.status.terminal:
        return {**said, _ERROR: f"workflow {workflow_id} is {row.status} already"}, False
    return said, True


_ACTIONS: Final[Mapping[ActionType, Callable[[WritingTransaction, Acting, Any], _Done]]] = {
    ActionType.START_WORKFLOW: _start,
    ActionType.COMPLETE_TASK: partial(_report, "COMPLETED"),
    ActionType.FAIL_TASK: partial(_report, "FAILED"),
    ActionType.TERMINATE_WORKFLOW: _terminate,
    ActionType.UPDATE_WORKFLOW_VARIABLES: _set_variables,
    ActionType.SEND: _send,
}


def _post(tx: WritingTransaction, event: Event) -> None:
    tx.inbox.post([event])
    row = tx.executions.workflow(event.workflow_id)
    if row is not None and row.parked is not None:  # it is held with the rest of the inbox
        tx.executions.park(row.workflow_id, row.broken_turns, row.parked)
