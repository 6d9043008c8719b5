"""What is asked of a turn and what comes of it: an event handed in, a new execution's row, the answer; and who is notified.

Reading what is stored page by page, each in a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Outcome, Reply
from conductorlite.model.definitions import IdempotencyStrategy
from conductorlite.model.errors import LimitReached
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.store.ports import Backend, ReadingTransaction, WritingTransaction
from conductorlite.store.tables import ExecutionFilter

__all__ = [
    "PAGE",
    "Deadly",
    "ExtraWrite",
    "Listener",
    "Start",
    "TurnResult",
    "execution_pages",
    "new_event",
    "pages",
    "refuse_rejected",
    "stored_pages",
]

#: What is written in the same commit as a turn, which the decision names.
ExtraWrite = Callable[[WritingTransaction, Decision], None]


class Listener(Protocol):
    """Called after each commit with what happened in it, at most once; must be quick and must not raise."""

    def __call__(self, workflow: Workflow, history: Sequence[HistoryEvent], /) -> None: ...


@attrs.frozen(kw_only=True, slots=True)
class Start:
    """The row of a new execution, and the definitions the store may not have yet, by hash."""

    workflow: Workflow
    definitions: Mapping[str, str] = attrs.field(factory=dict)
    #: What happens when another execution holds the workflow's idempotency key.
    strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL


@attrs.frozen(kw_only=True, slots=True)
class TurnResult:
    """What became of a turn: the decision (None when there was nothing to do), and the answers to the events handed in."""

    decision: Decision | None
    replies: Mapping[str, Reply]
    #: The events could not be handled now and are stored in the inbox.
    posted: bool = False
    #: Why the workflow takes no turns; the events were neither handled nor kept.
    parked: str | None = None
    #: The executions that were notified that an execution could not begin.
    answered: tuple[str, ...] = ()


def new_event(workflow_id: str, kind: EventKind, now: int, data: Mapping[str, object] | None = None) -> Event:
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


class Deadly(Exception):
    """Internal: processes have died in a turn, too often for another one to try it."""

    def __init__(self, key: str, event: Event) -> None:
        self.key = key
        about = f" of {event.ref!r}" if event.ref else ""
        super().__init__(f"its turn over {event.kind}{about} ended the process three times running")


def refuse_rejected(decision: Decision | None, started: Start | None) -> None:
    """An execution that a limit refuses is not stored; raises LimitReached."""
    if started is not None and decision is not None:
        for reply in decision.replies.values():
            if reply.outcome is Outcome.REJECTED:
                raise LimitReached(f"{decision.workflow.name}: {reply.message}")


K = TypeVar("K")
T = TypeVar("T")

#: Entries of a page where nothing is said of it.
PAGE: Final = 500


def pages(read: Callable[[K, int], Sequence[T]], start: K, key: Callable[[T], K], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Pages of at most `size` entries, each read after the key of the last entry before; none of them is empty."""
    after = start
    while page := read(after, size):
        yield page
        if len(page) < size:
            return
        after = key(page[-1])


def stored_pages(
    backend: Backend,
    read: Callable[[ReadingTransaction, K, int], Sequence[T]],
    start: K,
    key: Callable[[T], K],
    size: int = PAGE,
) -> Iterator[Sequence[T]]:
    """`pages` of a store; while the caller is at work on one no transaction is open."""

    def one(after: K, size: int) -> Sequence[T]:
        with backend.reading() as view:
            return read(view, after, size)

    return pages(one, start, key, size)


def execution_pages(
    backend: Backend, wanted: ExecutionFilter, start: tuple[int, str] | None = None, size: int = PAGE
) -> Iterator[Sequence[Workflow]]:
    """Rows of executions, from an instant and an id on, newest first."""
    return stored_pages(
        backend,
        lambda view, after, size: view.executions(wanted, after, size),
        start,
        lambda row: (row.created_at, row.workflow_id),
        size,
    )
