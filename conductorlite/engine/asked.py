"""What is asked of a turn and what comes of it: a letter handed in, a new execution's row, the answer; and who is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from conductorlite.canonical import EMPTY, Payload
from conductorlite.decisions import Decision, Event, EventKind, Reply
from conductorlite.definitions import IdempotencyStrategy
from conductorlite.executions import HistoryEvent, Workflow
from conductorlite.ports import WritingTransaction

__all__ = ["Along", "Listener", "Start", "Taken", "letter"]

#: What is written in the same commit as a turn, of which the decision tells.
Along = Callable[[WritingTransaction, Decision], None]


class Listener(Protocol):
    """Told after each commit what happened in it, at most once; must be quick and must not raise."""

    def __call__(self, workflow: Workflow, history: Sequence[HistoryEvent], /) -> None: ...


@attrs.frozen(kw_only=True, slots=True)
class Start:
    """The row of a new execution, and the definitions the store may not have yet, by hash."""

    workflow: Workflow
    definitions: Mapping[str, str] = attrs.field(factory=dict)
    #: What happens when another execution holds the workflow's idempotency key.
    strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL


@attrs.frozen(kw_only=True, slots=True)
class Taken:
    """What became of a turn: the decision (None when there was nothing to do), and the answers to the events handed in."""

    decision: Decision | None
    replies: Mapping[str, Reply]
    #: The events could not be handled now and lie in the inbox.
    posted: bool = False
    #: Why the workflow takes no turns; the events were neither handled nor kept.
    parked: str | None = None
    #: Who was told that an execution could not begin.
    answered: tuple[str, ...] = ()


def letter(workflow_id: str, kind: EventKind, now: int, data: Mapping[str, object] | None = None) -> Event:
    """An event that is handed to a turn directly; it needs the disk only when the turn cannot be taken."""
    payload = EMPTY if not data else Payload.of(dict(data))
    digest = "" if not data else payload.digest[:16]
    return Event(
        workflow_id=workflow_id,
        event_id=f"{kind}@{now}{digest}",
        kind=kind,
        due_at=now,
        posted_at=now,
        data=payload,
    )
