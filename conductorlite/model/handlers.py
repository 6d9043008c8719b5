"""Event handlers and their actions (EventHandler), and records of what they did (EventExecution).

Conductor's words and JSON: the bodies of actions are named in snake case there (`start_workflow`), all else in camelCase.
Source of the rule: Conductor's EventHandler and EventExecution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from conductorlite.model.canonical import EMPTY, Payload, present
from conductorlite.model.codec import Definition, properties
from conductorlite.model.scalars import NAMES, WRITTEN, in_json

__all__ = [
    "ActionType",
    "EventAction",
    "EventExecution",
    "EventHandler",
    "EventStatus",
    "SendMessage",
    "StartWorkflow",
    "TaskDetails",
    "TerminateWorkflow",
    "UpdateWorkflowVariables",
]


class ActionType(StrEnum):
    """Kind of an action; the body of the same name holds its parameters."""

    START_WORKFLOW = "start_workflow"
    COMPLETE_TASK = "complete_task"
    FAIL_TASK = "fail_task"
    TERMINATE_WORKFLOW = "terminate_workflow"
    UPDATE_WORKFLOW_VARIABLES = "update_workflow_variables"
    SEND = "send"


@attrs.frozen(kw_only=True, slots=True)
class StartWorkflow:
    """Registered workflow to start; texts but for its name and the strategy may hold `${…}` of the payload.

    Of all executions of a workflow one holds an `idempotency_key`. If it is taken, `idempotency_strategy` decides: the action fails
    (FAIL, the default, and FAIL_ON_RUNNING while that execution runs), or names the execution that holds it (RETURN_EXISTING).
    """

    name: str | None = None
    version: int | None = None
    correlation_id: str | None = None
    input: Mapping[str, Any] = attrs.field(factory=dict)
    task_to_domain: Mapping[str, str] = attrs.field(factory=dict)
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class TaskDetails:
    """Task to end, by `task_id`, or by workflow id and reference; texts may hold `${…}` of the payload."""

    workflow_id: str | None = None
    task_ref_name: str | None = None
    task_id: str | None = None
    output: Mapping[str, Any] = attrs.field(factory=dict)
    reason_for_incompletion: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class TerminateWorkflow:
    """Execution to terminate, and the reason; texts may hold `${…}` of the payload."""

    workflow_id: str | None = None
    termination_reason: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class UpdateWorkflowVariables:
    """Variables to set, and the execution they belong to; texts may hold `${…}` of the payload.

    With `append_array` a list is added to the end of the list that is there.
    """

    workflow_id: str | None = None
    variables: Mapping[str, Any] = attrs.field(factory=dict)
    append_array: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class SendMessage:
    """Message to send to an execution, on a `topic` (default: that of tasks which name none); all may hold `${…}` of the payload.

    A message with the `key` is sent once on the topic; without one it is sent once for each message that is published.
    """

    workflow_id: str | None = None
    topic: str | None = None
    key: str | None = None
    value: Any = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class EventAction:
    """One thing to do: `action` is an ActionType's text, and the field of that name its body.

    With `expand_inline_json` texts of the payload that are JSON objects or lists are read as such before `${…}` is resolved.
    """

    action: str = attrs.field(metadata=NAMES)
    start_workflow: StartWorkflow | None = attrs.field(default=None, metadata=in_json("start_workflow"))
    complete_task: TaskDetails | None = attrs.field(default=None, metadata=in_json("complete_task"))
    fail_task: TaskDetails | None = attrs.field(default=None, metadata=in_json("fail_task"))
    terminate_workflow: TerminateWorkflow | None = attrs.field(default=None, metadata=in_json("terminate_workflow"))
    update_workflow_variables: UpdateWorkflowVariables | None = attrs.field(
        default=None, metadata=in_json("update_workflow_variables")
    )
    send: SendMessage | None = None
    expand_inline_json: bool = attrs.field(default=False, metadata=in_json("expandInlineJSON"))
    extra: Mapping[str, Any] = attrs.field(factory=dict)


def _actions(given: Iterable[EventAction]) -> tuple[EventAction, ...]:
    return tuple(given)


@attrs.frozen(kw_only=True, slots=True)
class EventHandler(Definition):
    """Actions on the messages of one event. Off unless `active`, as in Conductor.

    `event` is the whole name under which they are published, such as `conductor:orders:paid`. Without a `condition` every
    message is acted upon; `evaluator_type` is its language (default: JavaScript, with the payload as `$`).
    """

    name: str = attrs.field(metadata=NAMES)
    event: str = attrs.field(metadata=NAMES)
    condition: str | None = None
    evaluator_type: str | None = None
    actions: Sequence[EventAction] = attrs.field(default=(), converter=_actions, metadata=WRITTEN)
    active: bool = attrs.field(default=False, metadata=WRITTEN)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


class EventStatus(StrEnum):
    """Status of an action."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@attrs.frozen(kw_only=True, slots=True)
class EventExecution:
    """Result of one action of one handler for one message: kept in the commit that carried it out, so it is done once.

    A handler whose condition does not hold has one, SKIPPED, with the number 0. `created` is epoch ms.
    """

    name: str
    event: str
    message_id: str
    #: Place of the action in its handler, from 0.
    number: int
    status: EventStatus
    action: str | None = None
    created: int = 0
    output: Payload = EMPTY

    @property
    def id(self) -> str:
        """Conductor's id: the message's, and the number of the action."""
        return f"{self.message_id}_{self.number}"

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Identity: handler, event, message, action."""
        return (self.name, self.event, self.message_id, self.number)

    @property
    def place(self) -> tuple[int, str, str, str, int]:
        """Sort key of listings."""
        return (self.created, *self.key)

    @property
    def output_data(self) -> dict[str, Any]:
        """A copy of what the action says of itself: ids, `error`, `exception`."""
        output: dict[str, Any] = self.output.fresh()
        return output

    def to_json(self) -> dict[str, Any]:
        """This record as Conductor's `EventExecution`, fresh."""
        fields = ("message_id", "name", "event", "created", "status", "action", "output")
        return present({"id": self.id, **properties(self, fields)})
