"""Domains seen from outside: what a start may ask for, and who polled last.

A poll is recorded even when it found nothing: that is how a scheduler knows that a domain has workers. It is written with the
turn that gives the task to the worker, else in a write of its own, and at most once a second for each worker, type and domain.
Source of the rule: Conductor's `ExecutionService.poll` and its poll data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from conductorlite.decisions import Decision
from conductorlite.errors import InvalidInput
from conductorlite.executions import PollData
from conductorlite.ports import QueueReads, WritingTransaction

__all__ = ["Polls", "Rider", "checked_domains", "last_polls"]

#: How long a poll of the same worker for the same type and domain is not written again, ms.
_INTERVAL: Final = 1_000

#: Workers, types and domains that are remembered before all are forgotten.
_KNOWN: Final = 10_000

_Key = tuple[str, str | None, str | None]


def checked_domains(given: Mapping[str, str] | None) -> dict[str, str]:
    """A mapping of task types to domains as it was given; raises InvalidInput when something in it is not text."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(f"task_to_domain is a mapping of task types to domains, not a {type(given).__name__}")
    domains = dict(given or {})
    for task_type, domain in domains.items():
        if not isinstance(task_type, str) or not isinstance(domain, str):
            raise InvalidInput(f"task_to_domain: {task_type!r}: {domain!r} is not a task type and a domain, both texts")
    return domains


def last_polls(view: QueueReads, task_type: str) -> dict[str, int]:
    """The instant of the last poll for a task type in each domain."""
    return {poll.domain: poll.last_poll_time for poll in view.poll_data(task_type) if poll.domain is not None}


class Polls:
    """The polls of one engine that are to be written. Thread-safe: of two at one instant one may be forgotten."""

    def __init__(self) -> None:
        self._written: dict[_Key, int] = {}
        self._waiting: dict[_Key, PollData] = {}

    def noted(self, poll: PollData) -> Sequence[PollData]:
        """What is to be written now that this poll was made: nothing, or it and all that has waited meanwhile."""
        key = (poll.queue_name, poll.domain, poll.worker_id)
        last = self._written.get(key)
        self._waiting[key] = poll
        # A clock that was set back must not silence a worker until it has caught up.
        if last is not None and 0 <= poll.last_poll_time - last < _INTERVAL:
            return ()
        return tuple(self._waiting.values())

    def types(self) -> frozenset[str]:
        """The task types that were polled for of late."""
        return frozenset(task_type for task_type, _, _ in (*self._written.copy(), *self._waiting.copy()))

    def wrote(self, polls: Sequence[PollData]) -> None:
        """Remember what was written."""
        if len(self._written) > _KNOWN:
            self._written.clear()
        for poll in polls:
            key = (poll.queue_name, poll.domain, poll.worker_id)
            self._written[key] = poll.last_poll_time
            if self._waiting.get(key) == poll:
                self._waiting.pop(key, None)


class Rider:
    """Polls that ride along in the commit of a turn, if one is taken."""

    def __init__(self, polls: Sequence[PollData]) -> None:
        self.polls = polls
        self.aboard = False

    def __call__(self, tx: WritingTransaction, _: Decision | None = None) -> None:
        """Write them, in whatever transaction comes first."""
        if self.polls and not self.aboard:
            tx.record_polls(self.polls)
            self.aboard = True
