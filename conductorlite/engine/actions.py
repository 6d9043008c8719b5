"""The actions of event handlers: each is events to an execution, and what its record says.

An action looks and writes inside the transaction that keeps its record, so it is done once and on what is there then. Source of
the rules: Conductor's SimpleActionProcessor. What cannot be done because what it names is not there is recorded as `error`, and
counts as done; what was written wrongly is an `exception`, and FAILED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.registry import Embedded
from conductorlite.language.templates import compile_template, expanded
from conductorlite.language.values import MappingSource, to_text
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task
from conductorlite.model.handlers import (
    ActionType,
    EventAction,
    StartWorkflow,
    TaskDetails,
    TerminateWorkflow,
    UpdateWorkflowVariables,
)
from conductorlite.model.texts import REASON_LENGTH
from conductorlite.store.ports import EventMessage, ReadingTransaction, WritingTransaction

__all__ = ["Acting", "carry_out"]

_MESSAGE: Final = "conductor.event.messageId"
_EVENT: Final = "conductor.event.name"

T = TypeVar("T")


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


#: What an action says of itself, and to which execution it wrote.
_Done = tuple[dict[str, Any], str | None]


def carry_out(tx: WritingTransaction, acting: Acting) -> _Done:
    """Do what the action says; raises ConductorliteError, with nothing written, for what cannot be."""
    kind = ActionType(acting.action.action)
    if kind is ActionType.START_WORKFLOW:
        return _start(tx, acting, _body(acting.action.start_workflow))
    if kind is ActionType.COMPLETE_TASK:
        return _report(tx, acting, _body(acting.action.complete_task), "COMPLETED")
    if kind is ActionType.FAIL_TASK:
        return _report(tx, acting, _body(acting.action.fail_task), "FAILED")
    if kind is ActionType.TERMINATE_WORKFLOW:
        return _terminate(tx, acting, _body(acting.action.terminate_workflow))
    return _set_variables(tx, acting, _body(acting.action.update_workflow_variables))


def _body(body: T | None) -> T:
    if body is None:  # refused when the handler was registered
        raise InvalidInput("the action has no body")
    return body


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
    event = acting.event(acting.identity, EventKind.START, data)
    # It is there already when its record was deleted and the message came once more.
    if tx.workflow(acting.identity) is None:
        for digest, text in found.texts.items():
            tx.embed(digest, text)
        tx.post([event])
    return {"workflowId": acting.identity}, acting.identity


def _report(tx: WritingTransaction, acting: Acting, wanted: TaskDetails, status: str) -> _Done:
    task_id = acting.name(wanted.task_id, "taskId")
    workflow_id = acting.name(wanted.workflow_id, "workflowId")
    ref = acting.name(wanted.task_ref_name, "taskRefName")
    given = {"workflowId": workflow_id, "taskRefName": ref, "taskId": task_id}
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    task = _task(tx, task_id, workflow_id, ref)
    if task is None:
        return {**said, "error": f"no task found with reference name {ref}, task id {task_id}, workflow id {workflow_id}"}, None
    said = {"workflowId": task.workflow_id, "taskRefName": task.ref, "taskId": task.task_id}
    if task.status.terminal:
        return {**said, "error": f"task {task.ref!r} is {task.status} already"}, None
    reason = acting.rendered(wanted.reason_for_incompletion)
    output = {**acting.rendered(dict(wanted.output)), _MESSAGE: acting.message.message_id, _EVENT: acting.message.event}
    data = {"status": status, "output": output}
    if reason is not None:
        data["reason"] = to_text(reason)[:REASON_LENGTH]
    _post(tx, acting.event(task.workflow_id, EventKind.REPORT, data, task))
    return said, task.workflow_id


def _task(view: ReadingTransaction, task_id: str | None, workflow_id: str | None, ref: str | None) -> Task | None:
    """The attempt that is meant: by its id, else the last one at the reference, of the round scheduled last."""
    if task_id is not None:
        return view.task_by_id(task_id)
    if workflow_id is None or ref is None:
        return None
    return view.tasks(workflow_id, [ref])[ref] or view.latest(workflow_id, [ref])[ref]


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
    """What a record says of an execution, and whether it can still be written to."""
    row = None if workflow_id is None else view.workflow(workflow_id)
    said = {} if workflow_id is None else {"workflowId": workflow_id}
    if row is None:
        return {**said, "error": f"no workflow found with the id {workflow_id}"}, False
    if row.status.terminal:
        return {**said, "error": f"workflow {workflow_id} is {row.status} already"}, False
    return said, True


def _post(tx: WritingTransaction, event: Event) -> None:
    tx.post([event])
    row = tx.workflow(event.workflow_id)
    if row is not None and row.parked is not None:  # it is held with the rest of the inbox
        tx.park(row.workflow_id, row.broken_turns, row.parked)
