"""The workers' mailbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from conductorlite.decisions import Message, MessageKey
from conductorlite.executions import PollData

__all__ = [
    "QueueReads",
    "QueueWrites",
]


class QueueReads(Protocol):
    """The workers' mailbox, read."""

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`: higher priority first, then earlier `due_at`, then workflow id and ref."""
        ...

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues (None: in any), or None."""
        ...

    def message(self, key: MessageKey) -> Message | None:
        """One message by its key."""
        ...

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any."""
        ...

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""
        ...

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        """The last polls of a task type (None: of all), in order of type and domain, no domain first."""
        ...


class QueueWrites(Protocol):
    """The workers' mailbox, written outside a decision."""

    def discard(self, messages: Sequence[Message]) -> None:
        """Delete messages that still stand exactly as given: leftovers of attempts that are gone."""
        ...

    def record_polls(self, polls: Sequence[PollData]) -> None:
        """Keep polls as the last of their type and domain, unless a later one is known."""
        ...
