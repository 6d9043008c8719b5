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

__all__ = ["Undelivered", "announce", "confirm", "forget_unused"]

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
    """Announce turns in a commit of their own; the executions whose turns were announced before, and are not known to be over.

    Raises Undelivered, with nothing announced, for those that have been taken and not delivered.
    """
    turns = _announced(items)
    own = {item.decision.workflow.workflow_id for item in items}
    found = [turn for key in turns for event in tx.inbox.events(_ADDRESS + key) for turn in event.data.value["turns"]]
    doubtful = {one for one, fence in found if one not in own and _known(tx, one) < fence}
    _look(tx, partitions, doubtful)
    tx.inbox.post([_event(key, some) for key, some in turns.items()])
    return doubtful


def confirm(tx: WritingTransaction, partitions: Partitions, items: Collection[Item], doubtful: Collection[str]) -> None:
    """Begin the write that changes the limits: nobody has announced another turn since, or FencedOut. Raises Undelivered.

    To announce it once more keeps others from it until the write ends, also where changes are not made one after another.
    """
    turns = _announced(items)
    for key, some in turns.items():
        if [event.data for event in tx.inbox.events(_ADDRESS + key)] != [_event(key, some).data]:
            raise FencedOut(f"another turn is about to change {key!r}")
    tx.inbox.post([_event(key, some) for key, some in turns.items()])
    _look(tx, partitions, doubtful)


def forget_unused(tx: WritingTransaction, items: Iterable[Item]) -> None:
    """Forget what was announced of limits that are forgotten."""
    for change in [change for item in items for change in item.decision.limits]:
        if change.unused:
            tx.executions.remove(_ADDRESS + change.limit.key)


class Undelivered(FencedOut):
    """Internal: turns that have changed the same limits are to be delivered first."""

    def __init__(self, workflow_ids: Collection[str]) -> None:
        super().__init__(f"what turns of {', '.join(workflow_ids)} have sent was not delivered")
        self.workflow_ids = workflow_ids


def _known(tx: WritingTransaction, workflow_id: str) -> int:
    listed = tx.executions.workflow(workflow_id)
    return -1 if listed is None else delivered(listed)


def _look(tx: WritingTransaction, partitions: Partitions, doubtful: Collection[str]) -> None:
    heads = partitions.heads(list(doubtful)) if doubtful else {}
    behind = [one for one, head in heads.items() if head.turn != REMOVED and head.fence > _known(tx, one)]
    if behind:
        raise Undelivered(behind)
