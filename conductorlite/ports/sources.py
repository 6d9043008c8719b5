"""Where messages come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

__all__ = ["EventMessage", "EventSource"]


@attrs.frozen(kw_only=True, slots=True)
class EventMessage:
    """One message: the name of its event, a JSON value, and the id that makes a second delivery harmless."""

    event: str
    payload: Any
    message_id: str


@runtime_checkable
class EventSource(Protocol):
    """What gives an engine the messages of a broker. Called by whoever drives, one call at a time; it must not wait."""

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """Up to `limit` messages, the oldest first; none when there is none now.

        Delivery is at least once: what is neither acknowledged nor rejected is to be given again, at once or later. Raise
        SourceError when the broker cannot be reached: it is asked again a second later, as after anything else that is raised.
        """
        ...

    def ack(self, message: EventMessage) -> None:
        """Forget a message that was handled: what it led to is stored."""
        ...

    def reject(self, message: EventMessage, reason: str) -> None:
        """Put away a message that can never be handled, because it is not JSON or has no name or id."""
        ...
