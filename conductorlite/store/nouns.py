"""The nouns of a transaction, and a transaction in which each change of the store goes through something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from conductorlite.store.transactions import (
    ArchiveDAO,
    DecisionDAO,
    EventHandlerDAO,
    ExecutionDAO,
    FeedDAO,
    HistoryDAO,
    InboxDAO,
    LimitDAO,
    MetadataDAO,
    OutboxDAO,
    OwnerDAO,
    PayloadDAO,
    PollDataDAO,
    QueueDAO,
    ScheduleDAO,
    StreamDAO,
    TaskHolderDAO,
)

__all__ = ["CHANGES", "NOUNS", "QUESTIONS", "Watched", "Wrap"]

#: What a transaction hands out, by name.
NOUNS: Final[Mapping[str, type]] = {
    "archive": ArchiveDAO,
    "decisions": DecisionDAO,
    "event_handlers": EventHandlerDAO,
    "executions": ExecutionDAO,
    "feeds": FeedDAO,
    "history": HistoryDAO,
    "inbox": InboxDAO,
    "limits": LimitDAO,
    "metadata": MetadataDAO,
    "outbox": OutboxDAO,
    "owners": OwnerDAO,
    "payloads": PayloadDAO,
    "poll_data": PollDataDAO,
    "queue": QueueDAO,
    "schedules": ScheduleDAO,
    "streams": StreamDAO,
    "task_holders": TaskHolderDAO,
}

#: What a `…DAO` says itself and changes nothing.
_HARMLESS: Final = {"defer", "fenced"}


def _named(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


#: Of each noun what asks, and what changes something: that is what its `…DAO` says itself.
QUESTIONS: Final[Mapping[str, list[str]]] = {
    noun: [*(name for base in kind.__mro__[1:] for name in _named(base)), *(_HARMLESS & {*_named(kind)})]
    for noun, kind in NOUNS.items()
}
CHANGES: Final[Mapping[str, list[str]]] = {
    noun: [name for name in _named(kind) if name not in _HARMLESS] for noun, kind in NOUNS.items()
}

#: What is called instead of a change: of which noun, its name, and the change itself.
Wrap = Callable[[str, str, Callable[..., Any]], Callable[..., Any]]


class Watched:
    """A noun as it is, but for its changes: each is what `wrap` makes of it."""

    def __init__(self, noun: str, inner: object, wrap: Wrap) -> None:
        found = vars(self)
        for name in QUESTIONS[noun]:
            found[name] = getattr(inner, name)
        for name in CHANGES[noun]:
            found[name] = wrap(noun, name, getattr(inner, name))
