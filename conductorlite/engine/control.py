"""Run control: the verbs that start, hold, end and reopen executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.decide import DECIDER_VERSION
from conductorlite.engine.archive import missing
from conductorlite.engine.keys import checked_domains, checked_key, checked_strategy, replaced
from conductorlite.engine.metadata import Embedded, Metadata
from conductorlite.engine.payloads import given_path, uploaded
from conductorlite.engine.turn_types import Start, Taken, new_event
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.clock import Instant, to_instant
from conductorlite.model.decisions import EventKind, Outcome
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.errors import Conflict, InvalidInput, KeyTaken, Parked, PayloadTooLarge, TaskNotFound
from conductorlite.model.executions import Workflow
from conductorlite.model.schedules import name_at
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, to_span

__all__ = ["Control", "refuse_parked"]


def refuse_parked(workflow_id: str, taken: Taken) -> None:
    """Raise Parked when no turn was taken because the execution is parked."""
    if taken.parked is not None:
        raise Parked(f"{workflow_id}: is parked ({taken.parked}); resume it first, or terminate it")


def _given(input: Mapping[str, Any] | None, path: str | None) -> tuple[Payload, str | None]:
    """What an execution begins with, as given or (the path) as uploaded; raises InvalidInput, also when it is both."""
    given, path = Payload.of(dict(input) if input is not None else {}, where="input"), given_path(path)
    if path is not None and given != EMPTY:
        raise InvalidInput("give `input` or `external_input_payload_storage_path`, not both")
    return given, path


def _first(at: Instant | None, delay: Span | None, now: int) -> int | None:
    """When the first task is due, None: at once."""
    if at is not None and delay is not None:
        raise InvalidInput("give `at` or `delay`, not both")
    return to_instant(at) if at is not None else now + to_span(delay) if delay is not None else None


class Control(Metadata):
    """Verbs on executions."""

    def start_workflow(
        self,
        workflow: str | WorkflowDef,
        input: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        workflow_id: str | None = None,
        correlation_id: str | None = None,
        priority: int = 0,
        at: Instant | None = None,
        delay: Span | None = None,
        created_by: str | None = None,
        task_to_domain: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
        external_input_payload_storage_path: str | None = None,
    ) -> str:
        """Start an execution and return its id; `Engine.start` returns a handle instead.

        `workflow` is a registered name (the highest `version` by default) or a definition. `at` (epoch ms, datetime or ISO text)
        or `delay` (a timedelta, or text such as "90s") dates the first task. `priority` is 0–99, higher first.
        `task_to_domain` sends tasks to workers of a domain: task type, or `*` for all, to a domain or a list such as
        `"a,b,NO_DOMAIN"`, of which the first one that was polled for within 10 s counts, else the last.
        `idempotency_key` (1 to 255 characters) belongs to one execution of the workflow's name. When another one holds it:
        FAIL raises KeyTaken, RETURN_EXISTING returns that one's id, FAIL_ON_RUNNING raises KeyTaken while it runs or is paused, and
        else gives the key to the new one.
        `external_input_payload_storage_path` stands for an input that was uploaded where `external_storage_location` said.

        Raises DefinitionNotFound, InvalidDefinition, InvalidInput (input that is not JSON or breaks the inputSchema, something out
        of range, a path where nothing was uploaded), PayloadTooLarge, AlreadyExists when `workflow_id` is taken, KeyTaken,
        LimitReached, PayloadUnavailable; then nothing is stored.
        """
        key, strategy = checked_key(idempotency_key), checked_strategy(idempotency_strategy)
        if not 0 <= priority <= 99:
            raise InvalidInput(f"priority {priority} is not between 0 and 99")
        given, path = _given(input, external_input_payload_storage_path)
        if workflow_id is not None and name_at(workflow_id) is not None:
            raise InvalidInput(f"{workflow_id!r} is the inbox of a schedule, and no id for an execution")
        now = self.clock.now()
        first = _first(at, delay, now)
        asked = {
            "correlation_id": correlation_id,
            "priority": priority,
            "created_by": created_by,
            "idempotency_key": key,
            "task_to_domain": Payload.of(checked_domains(task_to_domain)),
        }
        try:
            with self.backend.reading() as view:
                embedded = self.embedded(view, workflow, version)
                replaced(view, embedded.name, key, strategy)
            if path is not None:
                given = Payload.of(uploaded(self.turns.outside, path, "WORKFLOW_INPUT"), where="input")
            row = self._new_row(embedded, workflow_id or self._ids(), given, now, asked)
            self._begin(row, embedded, first, strategy)
        except KeyTaken as taken:
            if strategy is IdempotencyStrategy.RETURN_EXISTING:
                return taken.workflow_id
            raise
        return row.workflow_id

    def _new_row(self, embedded: Embedded, workflow_id: str, given: Payload, now: int, asked: Mapping[str, Any]) -> Workflow:
        definition = embedded.plan.definition
        if definition.input_template:
            given = Payload.of(apply_workflow_input_template(given.fresh(), definition.input_template))
        check = embedded.plan.input_check
        broken = None if check is None else check.violation(given.value)
        if broken is not None:
            raise InvalidInput(f"the input breaks the inputSchema of {embedded.name!r}: {broken}")
        problem = self.turns.bounds.barriers.refusal("workflow_input", given)
        if problem is not None:
            raise PayloadTooLarge(f"{embedded.name!r} cannot be started: {problem}")
        return Workflow(
            workflow_id=workflow_id,
            name=embedded.name,
            version=embedded.version,
            definition_hash=embedded.digest,
            semantics=self.semantics,
            decider_version=DECIDER_VERSION,
            seed=self.seed,
            owner=self.owner,
            created_at=now,
            updated_at=now,
            input=given,
            variables=Payload.of(dict(definition.variables)),
            **asked,
        )

    def _begin(self, row: Workflow, embedded: Embedded, first: int | None, strategy: IdempotencyStrategy) -> None:
        """Take the first turn of a new execution, whose first task is due at `first` (None: now)."""
        event = new_event(row.workflow_id, EventKind.START, row.created_at, None if first is None else {"at": first})
        # Stored with the first execution that uses it, in the same commit.
        new = {digest: text for digest, text in embedded.texts.items() if digest not in self._stored_definitions}
        self.turns.take(row.workflow_id, [event], started=Start(workflow=row, definitions=new, strategy=strategy))
        self._stored_definitions.update(new)

    def pause(self, workflow_id: str) -> None:
        """Schedule nothing more until `resume`; tasks that are queued or with a worker go on, their reports are accepted.

        A paused execution stays as it is. Raises ExecutionNotFound, Conflict when it has ended, and Parked.
        """
        self._verb(workflow_id, EventKind.PAUSE)

    def resume(self, workflow_id: str) -> None:
        """Take up a paused or parked execution where it was held; its workflow timeout starts again.

        Raises ExecutionNotFound, and Conflict when it is neither paused nor parked.
        """
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
        if row is not None and row.parked is not None:
            now = self.clock.now()
            with self.backend.writing() as tx:
                tx.release(workflow_id, now)
            self.turns.wake()
            if row.status is not WorkflowStatus.PAUSED:
                self.decide(workflow_id)
                return
        self._verb(workflow_id, EventKind.RESUME)

    def terminate(self, workflow_id: str, reason: str | None = None) -> None:
        """End an execution TERMINATED: its open tasks are canceled. One that is terminated already stays as it is.

        One that has ended and waits for a slot to go on, after a retry, stays as it ended and waits no more.

        Raises ExecutionNotFound, and Conflict when it is COMPLETED, FAILED or TIMED_OUT.
        """
        self._verb(workflow_id, EventKind.TERMINATE, {} if reason is None else {"reason": reason})

    def decide(self, workflow_id: str) -> None:
        """Take the execution's turn now, if anything is due. Raises ExecutionNotFound, InvariantBroken, and Parked."""
        self._row(workflow_id)
        refuse_parked(workflow_id, self.turns.take(workflow_id))

    def _verb(self, workflow_id: str, kind: EventKind, data: Mapping[str, object] | None = None) -> Taken:
        event = new_event(workflow_id, kind, self.clock.now(), data)
        taken = self.turns.take(workflow_id, [event])
        refuse_parked(workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is not None and reply.outcome is Outcome.CONFLICT:
            raise Conflict(f"{workflow_id}: {reply.message}")
        if reply is not None and reply.outcome is Outcome.MISSING:
            raise TaskNotFound(f"{workflow_id}: {reply.message}")
        return taken

    def _row(self, workflow_id: str) -> Workflow:
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                raise missing(view, workflow_id)
        return row
