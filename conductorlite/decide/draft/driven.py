"""What the timer of a timeout that nobody wrote carries: it counts only time in which the store was driven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind

__all__ = ["counted", "driven_time"]

#: The deadlines that have a default.
_KINDS: Final = frozenset({EventKind.POLL_TIMEOUT, EventKind.RESPONSE_TIMEOUT, EventKind.TASK_TIMEOUT})


def driven_time(since: int, span_ms: int, owner: str) -> Payload:
    """From when it counts (epoch ms), how much driven time, and whose drivers count."""
    if owner:
        return Payload.of({"since": since, "span": span_ms, "owner": owner})
    return Payload(f'{{"since":{since},"span":{span_ms}}}')


def counted(event: Event) -> Mapping[str, Any] | None:
    """What `driven_time` said; None for an event that counts by the clock."""
    return (event.data.value or None) if event.kind in _KINDS else None
