"""Event handlers: registered by name, asked for each message, and their actions carried out once.

The record of an action is the gate: it is written in the commit that carries the action out, so a message that comes again, in
this process or another, after a crash or without one, finds it and does nothing but what is still missing. Source of the
rules: Conductor's DefaultEventProcessor; where it loses or doubles something, see the compatibility page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from conductorlite.engine.actions import Acting, carry_out
from conductorlite.engine.cache import Cache
from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.parking import DEATHS
from conductorlite.engine.turns import Turns
from conductorlite.language.conditions import compile_condition, is_true
from conductorlite.language.templates import expanded
from conductorlite.model.canonical import EMPTY, Payload, canonical, parse
from conductorlite.model.clock import Instant, to_instant
from conductorlite.model.codec import definition_text
from conductorlite.model.definitions import MAX_KEY
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    DefinitionNotFound,
    EngineClosed,
    ExpressionFailed,
    InvalidDefinition,
    InvalidInput,
    InvariantBroken,
    StorageError,
)
from conductorlite.model.handlers import EventExecution, EventHandler, EventStatus
from conductorlite.model.policies import derive_id
from conductorlite.model.texts import error_text
from conductorlite.plan.validate import validate_event_handler
from conductorlite.store.ports import EventMessage

__all__ = ["Events"]


#: Records deleted in one commit.
_PAGE: Final = 500

#: Whatever an action says wrong is its own failure; these are the store's.
_TRANSIENT: Final = (StorageError, EngineClosed, InvariantBroken)


class Events(Service):
    """Verbs on event handlers, and on messages."""

    def __init__(self, turns: Turns, config: EngineConfig, new_id: Callable[[], str]) -> None:
        super().__init__(turns, config)
        self._new_id = new_id
        self._known: Cache[str, EventHandler] = Cache(256)

    def register(self, handler: EventHandler, *, overwrite: bool = True) -> None:
        """Register an event handler under its name.

        Raises InvalidDefinition with every error of it, and AlreadyExists when `overwrite` is False and the name is taken.
        Warnings are on `conductorlite.validate_event_handler`.
        """
        problems = [problem for problem in validate_event_handler(handler) if problem.severity == "error"]
        if problems:
            raise InvalidDefinition(problems)
        text = definition_text(handler)
        with self._backend.writing() as tx:
            if not overwrite and tx.event_handler(handler.name) is not None:
                raise AlreadyExists(f"event handler {handler.name!r} is registered already")
            tx.put_event_handler(handler.name, handler.event, handler.active, text)

    def get(self, name: str) -> EventHandler:
        """A registered event handler; raises DefinitionNotFound."""
        with self._backend.reading() as view:
            text = view.event_handler(name)
        if text is None:
            raise DefinitionNotFound(f"no event handler {name!r} is registered")
        return EventHandler.from_json(text)

    def all(self, event: str | None = None, *, active_only: bool = False) -> list[EventHandler]:
        """The registered event handlers, or those of one event, in order of their names."""
        with self._backend.reading() as view:
            return self._handlers(view.event_handlers(event, active_only=active_only))

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
        """Delete an event handler; the records of what it did stay. Raises DefinitionNotFound."""
        with self._backend.writing() as tx:
            if tx.event_handler(name) is None:
                raise DefinitionNotFound(f"no event handler {name!r} is registered")
            tx.drop_event_handler(name)

    def publish(self, event: str, payload: Any = None, *, message_id: str | None = None) -> list[EventExecution]:
        """Hand a message to the active handlers of its event, and return what became of each action, in order.

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
            handlers = self._handlers(view.event_handlers(message.event, active_only=True))
        done: list[EventExecution] = []
        written: list[str] = []
        try:
            for handler in handlers:
                done += self._handled(handler, message, written)
        finally:
            # Also when the store fails on the way: what was written so far is due.
            if written:
                self._turns.wake()
        self._turns.run_related(list(dict.fromkeys(written)))
        return done

    def _handled(self, handler: EventHandler, message: EventMessage, written: list[str]) -> list[EventExecution]:
        """What became of a handler's actions for a message; `written` gets the executions that were written to."""
        identity = (handler.name, message.event, message.message_id)
        numbers = range(len(handler.actions))
        with self._backend.reading() as view:
            known = [view.event_execution(*identity, number) for number in numbers]
        first = known[0]
        if first is not None and first.action is None:
            return [first]  # what was decided about the condition once is not asked again
        if first is None:
            verdict = self._verdict(handler, message)
            if verdict is not None:
                return [self._kept(verdict)]
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
        marks = self._turns.marks
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
            known = tx.event_execution(*execution.key)
            if known is None:
                tx.add_event_execution(execution)
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
            embedded=self._turns.registry.embedded,
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
                known = tx.event_execution(*key)
                if known is not None:
                    return known
                said, workflow_id = carry_out(tx, acting)
                done = record(EventStatus.COMPLETED, Payload.of(said))
                tx.add_event_execution(done)
        except _TRANSIENT:
            raise
        except ConductorliteError as error:
            said = {"exception": error_text(error)}
            return self._kept(record(EventStatus.FAILED, Payload.of(said, bounded=False)))
        if workflow_id is not None:
            written.append(workflow_id)
        return done

    def executions(
        self,
        name: str | None = None,
        *,
        message_id: str | None = None,
        limit: int = 100,
        after: EventExecution | None = None,
    ) -> list[EventExecution]:
        """Up to `limit` records of what became of messages, newest first: of a handler, a message, or all.

        The next page begins `after` the last one. Raises InvalidInput when `limit` is below 1.
        """
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        with self._backend.reading() as view:
            return list(view.event_executions(name, message_id, None if after is None else after.place, limit))

    def remove_executions(self, before: Instant) -> int:
        """Delete the records of actions that were carried out before an instant; returns how many that were.

        A message whose records were removed is acted upon again when it comes again: keep them for as long as its source may
        repeat itself. Only `start_workflow` is still done once then, while the execution it began is there.
        """
        until, gone = to_instant(before), 0
        while True:
            with self._backend.writing() as tx:
                dropped = tx.drop_event_executions(until, _PAGE)
            gone += dropped
            if dropped < _PAGE:
                return gone
