"""Which turns are about to change a limit, kept in the queue store before they are taken.

A turn that changes a limit is committed in the partitions before it is in the queue store. When its process dies in between, the
limit does not show the slot that it has taken. So it is announced first, in a commit of its own; and the next turn that changes
that limit looks whether what was announced has been taken and not delivered, and has it delivered first.

The announcement is an event that is held, at an address of no execution: so nothing ever acts on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from conductorlite.ext.cassandra.partitions import REMOVED, Item, Partitions, delivered
from conductorlite.ext.cassandra.rows import NEVER
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import FencedOut
from conductorlite.store.ports import WritingTransaction

__all__ = ["announce", "confirm"]

_ADDRESS: Final = "~limit/"


def _announced(items: Iterable[Item]) -> dict[str, list[tuple[str, int]]]:
    """The turns that change a limit, by its key: their executions and fences."""
    found: dict[str, list[tuple[str, int]]] = {}
    for item in items:
        for change in item.decision.limits:
            found.setdefault(change.limit.key, []).append((item.decision.workflow.workflow_id, item.fence))
    return found


def _event(key: str, turns: list[tuple[str, int]]) -> Event:
    address = _ADDRESS + key
    data = Payload.of({"turns": [list(turn) for turn in turns]})
    return Event(
        workflow_id=address, event_id="turns", kind=EventKind.CONTINUE, due_at=NEVER, posted_at=0, data=data, held=True, stored=True
    )


def announce(tx: WritingTransaction, partitions: Partitions, items: Collection[Item]) -> Collection[str]:
    """Announce turns in a commit of their own; if there are any, nothing is, and the executions to be delivered first returned."""
    turns = _announced(items)
    own = {item.decision.workflow.workflow_id for item in items}
    doubtful: dict[str, int] = {}
    for key in turns:
        for event in tx.inbox(_ADDRESS + key):
            for workflow_id, fence in event.data.value["turns"]:
                listed = tx.workflow(workflow_id)
                known = -1 if listed is None else delivered(listed)
                if known < fence and workflow_id not in own:
                    doubtful[workflow_id] = known
    heads = partitions.heads(list(doubtful)) if doubtful else {}
    behind = [one for one, head in heads.items() if head.turn != REMOVED and head.fence > doubtful[one]]
    if not behind:
        tx.post([_event(key, some) for key, some in turns.items()])
    return behind


def confirm(tx: WritingTransaction, items: Collection[Item]) -> None:
    """In the write that changes the limits: nobody has announced another turn since, or FencedOut. Forgets it with its limit."""
    for key, turns in _announced(items).items():
        if [event.data for event in tx.inbox(_ADDRESS + key)] != [_event(key, turns).data]:
            raise FencedOut(f"another turn is about to change {key!r}")
    for change in [change for item in items for change in item.decision.limits]:
        if change.unused:
            tx.remove(_ADDRESS + change.limit.key)
