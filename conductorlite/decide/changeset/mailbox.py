"""The messages to an execution as a turn sees and leaves them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from conductorlite.decide.changeset.reader import Reader
from conductorlite.model.executions import Workflow

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["Mailbox"]

_number: Final = attrgetter("number")


class Mailbox:
    """Messages as the reader answers them, with the turn's own changes on top."""

    def __init__(self, workflow: Workflow, reader: Reader) -> None:
        self._workflow = workflow
        self._reader = reader
        #: Messages as the turn has made or changed them, by their numbers.
        self.changed: dict[int, WorkflowMessage] = {}

    def put(self, message: WorkflowMessage) -> None:
        """Keep a message, or what has become of one."""
        self.changed[message.number] = message

    def sent(self, topic: str, key: str) -> WorkflowMessage | None:
        """The message of a topic with that key; None when none was sent."""
        if not self._workflow.message_seq:
            return None
        own = (message for message in self.changed.values() if (message.topic, message.key) == (topic, key))
        return next(own, None) or self._reader.message(topic, key)

    def unreceived(self, topic: str, limit: int) -> list[WorkflowMessage]:
        """The first messages of a topic that no task has received, in order."""
        own = self.changed
        kept = [message for message in own.values() if message.receiver is None]
        found = [message for message in kept if message.topic == topic]
        if len(kept) < self._workflow.unreceived:  # else all of them are the turn's own
            found += [message for message in self._reader.unreceived(topic, limit + len(own)) if message.number not in own]
        return sorted(found, key=_number)[:limit]

    def everything(self) -> list[WorkflowMessage]:
        """Every message, in order."""
        return sorted(({message.number: message for message in self._reader.messages()} | self.changed).values(), key=_number)
