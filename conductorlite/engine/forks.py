"""New executions from a step of old ones: what `Engine.fork` stores, and what it would store.

The rows of the origin are read in one view. Copies of them, and the verb that says from where they go on, are the first turn of the
new execution (see `decide.forks`); nothing else is written, so the origin stays as it is. The turn is decided once before, on
nothing, to see whether the copy can go on there: what is refused is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.engine.causes import listed
from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.control import Control, raise_refusal, rerun_data
from conductorlite.engine.keys import checked_key
from conductorlite.engine.queries import Queries
from conductorlite.engine.starts import Starts
from conductorlite.engine.turn_types import Start, new_event
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import DEADLINES, Decision, Event, EventKind, name_at
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.documents import task_to_cells
from conductorlite.model.errors import Conflict, InvalidInput
from conductorlite.model.executions import HistoryKind, Workflow
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import as_text
from conductorlite.plan.migration import plan_between

__all__ = ["ForkPlan", "Forks"]


#: Fields of an attempt that are the origin's alone: ids, counters, who has it under which lease, its polls and its deadlines.
_OWN: Final = frozenset(
    {"workflow_id", "task_id", "retried_task_id", "generation", "lease", "holder", "deaths", "poll_count", "open", "waiting"}
    | {"limit_key", "compensation_next", *DEADLINES}
)


@attrs.frozen(kw_only=True, slots=True)
class ForkPlan:
    """The steps of a fork of an execution. `str()` says it in lines. References are printed ones, in order of scheduling."""

    #: The execution that is copied.
    workflow_id: str
    #: The task from which the copy goes on.
    at: str
    #: Tasks that the new execution has as the old one had them.
    kept: tuple[str, ...]
    #: Tasks that it begins with: the one it was asked for, what was open or had failed beside it, and JOINs and loops around it.
    again: tuple[str, ...]
    #: Tasks of the old one that come after, which the new one has not.
    dropped: tuple[str, ...]
    #: Executions below the old one that both name: by the task that has started each.
    shared: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, as the command line and REST answer it."""
        kept, again, dropped = list(self.kept), list(self.again), list(self.dropped)
        return {
            "workflowId": self.workflow_id,
            "at": self.at,
            "kept": kept,
            "again": again,
            "dropped": dropped,
            "shared": dict(self.shared),
        }

    def __str__(self) -> str:
        lines = [f"{self.workflow_id} from {self.at}"]
        for word, refs in (("kept", self.kept), ("again", self.again), ("dropped", self.dropped)):
            lines += [f"  {word}: {listed(refs)}"] if refs else []
        lines += [f"  shared: {child} of {ref}" for ref, child in self.shared.items()]
        return "\n".join(lines)


class Forks(Part):
    """Begins executions with the rows of others."""

    def __init__(self, turns: Turns, starts: Starts, config: EngineConfig, control: Control, queries: Queries) -> None:
        super().__init__(turns, config)
        self._starts = starts
        self._control = control
        self._queries = queries

    def fork(
        self,
        workflow_id: str,
        at: str,
        *,
        input: Mapping[str, Any] | None,
        task_input: Mapping[str, Any] | None,
        definition: WorkflowDef | None,
        new_id: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> tuple[str, ForkPlan]:
        """The id of the new execution, and what was done; see `Engine.fork`."""
        if new_id is not None and name_at(as_text(new_id, "new_id")) is not None:
            raise InvalidInput(f"{new_id!r} is the inbox of a schedule, and no id for an execution")
        if idempotency_key is not None:
            checked_key(idempotency_key)
        origin, messages = self._origin(workflow_id)
        ref = self._ref(origin, as_text(at, "at"))
        verb = rerun_data(ref, input, task_input, correlation_id, where="fork")
        begins = self._begins(origin, new_id or self._control.new_id(), idempotency_key)
        if definition is not None:
            begins = self._moved(origin, messages, begins, definition, verb)
        events = self._events(origin, messages, begins, verb)
        plan = _plan_of(origin, ref, self._decided(origin, events, begins))
        if not dry_run:
            self._turns.run_turn(begins.workflow.workflow_id, events, started=begins)
            self._turns.lookups.registry.now_stored(begins.definitions)
        return begins.workflow.workflow_id, plan

    def _origin(self, workflow_id: str) -> tuple[Workflow, list[WorkflowMessage]]:
        """An execution, whole, and the messages that its tasks had received then."""
        while True:
            self._control.row(workflow_id)
            origin = self._queries.get(workflow_id)
            if not origin.message_seq:
                return origin, []
            messages = self._queries.messages(workflow_id)
            if self._control.row(workflow_id).fence == origin.fence:  # else it has moved since
                return origin, [message for message in messages if message.receiver is not None]

    @staticmethod
    def _ref(origin: Workflow, at: str) -> str:
        """The printed reference that a task id or a reference stands for."""
        return next((task.ref for task in origin.tasks if task.task_id == at), at)

    def _begins(self, origin: Workflow, workflow_id: str, key: str | None) -> Start:
        now = self._clock.now()
        row = Workflow(
            workflow_id=workflow_id,
            name=origin.name,
            version=origin.version,
            definition_hash=origin.definition_hash,
            semantics=origin.semantics,
            decider_version=origin.decider_version,
            seed=self._config.seed,
            owner=self._owner,
            created_at=now,
            updated_at=now,
            input=origin.input,
            correlation_id=origin.correlation_id,
            priority=origin.priority,
            created_by=origin.created_by,
            idempotency_key=key,
            task_to_domain=origin.task_to_domain,
        )
        return Start(workflow=row)

    def _events(self, origin: Workflow, messages: Iterable[WorkflowMessage], begins: Start, verb: Mapping[str, Any]) -> list[Event]:
        """The two events of the first turn: a copy is made, and goes on."""
        row = begins.workflow
        moved = row.definition_hash != origin.definition_hash
        about = {
            "workflowId": origin.workflow_id,
            "status": origin.status.value,
            # Of the definition that the rows were made from, where the new execution has another one.
            "definitionHash": origin.definition_hash if moved else None,
        }
        received = [
            {
                "topic": message.topic,
                "key": message.key,
                "value": message.value.value,
                "sentAt": message.sent_at,
                "receiver": message.receiver,
                "receivedAt": message.received_at,
            }
            for message in messages
        ]
        tasks = [{name: cell for name, cell in task_to_cells(task).items() if name not in _OWN} for task in origin.tasks]
        data = {"origin": about, "variables": origin.variables.value, "tasks": tasks, "messages": received}
        event = attrs.evolve(new_event(row.workflow_id, EventKind.FORK, row.created_at), data=Payload.of(data, bounded=False))
        return [event, new_event(row.workflow_id, EventKind.RERUN, row.created_at, verb)]

    def _decided(self, origin: Workflow, events: list[Event], begins: Start) -> Decision:
        """Return the decision of the first turn; raises Conflict and TaskNotFound."""
        decision = self._starts.decided(events, begins)
        raise_refusal(origin.workflow_id, decision.replies[events[-1].event_id])
        return decision

    def _moved(
        self,
        origin: Workflow,
        messages: Sequence[WorkflowMessage],
        begins: Start,
        definition: WorkflowDef,
        verb: Mapping[str, Any],
    ) -> Start:
        """The beginning on another definition; raises Conflict when what the copy would go on with has no place in it."""
        with self._backend.reading() as view:
            target = self._turns.lookups.registry.embedded(view, definition, None)
            plan = self._turns.lookups.plans.plan(view, begins.workflow)
        decision = self._decided(origin, self._events(origin, messages, begins, verb), begins)
        rows = [task for task in decision.inserted if not task.retried]
        running = attrs.evolve(decision.workflow, status=WorkflowStatus.RUNNING)
        move = plan_between(running, rows, plan, target.plan)
        if move.blocked:
            raise Conflict(f"{origin.workflow_id}: {'; '.join(move.reasons)}")
        row = attrs.evolve(begins.workflow, definition_hash=target.digest, version=target.version)
        return Start(workflow=row, definitions=self._turns.lookups.registry.not_stored(target))


def _plan_of(origin: Workflow, at: str, decision: Decision) -> ForkPlan:
    lines = decision.history
    copied = {(line.ref, line.attempt): line for line in lines if line.kind is HistoryKind.COPIED}
    changed_since = {(line.ref, line.attempt) for line in lines if line.kind is HistoryKind.TASK}
    rows = sorted((task for task in decision.inserted if not task.retried), key=lambda task: (task.seq, task.ref))
    again = {task.ref for task in rows if (task.ref, task.attempt) not in copied or (task.ref, task.attempt) in changed_since}
    dropped = {ref for line in lines for ref in line.dropped}
    return ForkPlan(
        workflow_id=origin.workflow_id,
        at=at,
        kept=tuple(task.ref for task in rows if task.ref not in again),
        again=tuple(task.ref for task in rows if task.ref in again),
        dropped=tuple(task.ref for task in origin.tasks if task.ref in dropped and not task.retried and task.ref not in again),
        shared={task.ref: task.sub_workflow_id for task in rows if task.sub_workflow_id is not None and task.ref not in again},
    )
