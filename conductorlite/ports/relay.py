"""Outgoing parts of stores that cannot commit them with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from conductorlite.decisions import Outgoing

__all__ = [
    "RelayItem",
    "RelayReads",
    "RelayWrites",
]


@attrs.frozen(kw_only=True, slots=True)
class RelayItem:
    """One undelivered outgoing part: `item_id` orders the items of a store and makes a second delivery harmless."""

    item_id: int
    workflow_id: str
    outgoing: Outgoing


class RelayReads(Protocol):
    """Outgoing parts a store without one commit has not delivered yet; empty for the others."""

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        """The oldest undelivered items, in order."""
        ...


class RelayWrites(Protocol):
    """Delivery of outgoing parts."""

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Carry out outgoing parts and forget them; an item already delivered changes nothing."""
        ...
