"""A message to an execution, as it is kept: who sent what, and which task has received it.

A *topic* names what a message is about. A task that receives names a topic, and is given the messages of that topic in the order in
which they were sent. A signal that comes before its task is a message too: its topic is that of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import MAX_KEY

if TYPE_CHECKING:
    from conductorlite.model.executions import TaskResult

__all__ = [
    "DEFAULT_TOPIC",
    "MAX_BATCH",
    "MAX_MESSAGES",
    "SIGNAL",
    "WorkflowMessage",
    "sent_message",
    "signal_topic",
    "signal_value",
    "topic_of",
    "topic_problem",
]

#: So many messages are kept for an execution until a task receives them; Conductor's `maxQueueSize`.
MAX_MESSAGES: Final = 1_000

#: The topic of what Conductor's API sends, and of a task that names none.
DEFAULT_TOPIC: Final = "messages"

#: Most messages that a task receives at once; Conductor's `maxBatchSize`.
MAX_BATCH: Final = 100

#: What the topic of a signal begins with; no topic that is given does.
SIGNAL: Final = "task:"


def signal_topic(ref: str) -> str:
    """The topic of signals to a task, by its reference."""
    return SIGNAL + ref


def topic_of(values: Mapping[str, Any]) -> str | None:
    """The topic that the input of a receiving task names; None when that is no text, or is that of signals."""
    topic = values.get("topic")
    if topic is None or topic == "":
        return DEFAULT_TOPIC
    return topic if isinstance(topic, str) and not topic.startswith(SIGNAL) else None


def topic_problem(topic: str) -> str | None:
    """Why a text is no topic that can be sent to; None when it is one."""
    if not 0 < len(topic) <= MAX_KEY:
        return f"is not a text of 1 to {MAX_KEY} characters"
    return "is that of signals to a task" if topic.startswith(SIGNAL) else None


def signal_value(result: TaskResult, output: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a message that is a signal: what is reported on the task."""
    said = {"status": str(result.status), "output": dict(output), "merge": True}
    return said if result.reason is None else {**said, "reason": result.reason}


@attrs.frozen(kw_only=True, slots=True)
class WorkflowMessage:
    """One message in the mailbox of an execution. Instants are epoch ms.

    `number` counts the messages of the execution, in the order in which their commits were made. `key` is its id within the topic:
    the one that was given, or one that was drawn. `receiver` is the printed reference of the task that has received it, None while
    none has.
    """

    workflow_id: str
    number: int
    topic: str
    key: str
    value: Payload
    sent_at: int
    receiver: str | None = None
    received_at: int | None = None

    @property
    def signal_to(self) -> str | None:
        """The reference of the task that a signal is for; None for a message of a topic."""
        return self.topic.removeprefix(SIGNAL) if self.topic.startswith(SIGNAL) else None


def sent_message(workflow_id: str, number: int, topic: str, key: str, value: Payload, at: int) -> WorkflowMessage:
    """A message that no task has received, sent at an instant (epoch ms)."""
    return WorkflowMessage(workflow_id=workflow_id, number=number, topic=topic, key=key, value=value, sent_at=at)
