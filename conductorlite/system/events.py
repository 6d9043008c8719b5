"""EVENT: publishes its input, and who it is, to the sink that the task names.

Source of the rule: Conductor's Event task. The destination `conductor` is made particular to the workflow and the task,
`conductor:x` to the workflow; every other one is taken as it is written. Without a sink for `conductor` the engine's own event
handlers get the message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from conductorlite.errors import SinkError, TaskFailedTerminally
from conductorlite.executions import TaskResult, TaskStatus
from conductorlite.system.sinks import Sink, sink_of
from conductorlite.worker import TaskContext

__all__ = ["destination_of", "event_worker"]

_OWN: Final = "conductor"


def event_worker(sinks: Mapping[str, Sink]) -> Callable[[TaskContext], TaskResult]:
    """The function that carries out EVENT tasks with these sinks, by scheme."""

    def event(context: TaskContext) -> TaskResult:
        workflow = context.workflow
        given = dict(context.input)
        destination = destination_of(given.get("sink"), workflow.name, context.ref)
        payload = {
            **given,
            "workflowInstanceId": workflow.workflow_id,
            "workflowType": workflow.name,
            "workflowVersion": workflow.version,
            "correlationId": workflow.correlation_id,
            "taskToDomain": workflow.task_to_domain.fresh(),
            "event_produced": destination,
        }
        status, reason = TaskStatus.COMPLETED, None
        try:
            if destination.partition(":")[0] == _OWN and _OWN not in sinks:
                context.publish(destination, payload, message_id=context.first_task_id)
            else:
                sink_of(sinks, destination).publish(destination, payload, message_id=context.first_task_id)
        except SinkError as error:
            status, reason = TaskStatus.FAILED, f"The event was not published to {destination}: {error}"
        return TaskResult(
            workflow_id=context.workflow_id, task_id=context.task_id, status=status, output_data=payload, reason=reason
        )

    return event


def destination_of(sink: Any, workflow_name: str, ref: str) -> str:
    """Where a sink's text leads; raises TaskFailedTerminally when it is no text."""
    if not isinstance(sink, str) or not sink.strip():
        raise TaskFailedTerminally(f"$.sink: is {_kind(sink)}; EVENT needs a destination such as conductor:name")
    scheme, colon, name = sink.partition(":")
    if scheme != _OWN:
        return sink
    return f"{_OWN}:{workflow_name}:{name if colon else ref}"


def _kind(value: Any) -> str:
    return "null" if value is None else "blank" if isinstance(value, str) else "not text"
