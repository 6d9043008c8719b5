"""Limits: how many may be at work at once, and how many may begin in a window of time.

A limit is known by its key: `task:<name of the task definition>`, `workflow:<rate limit key>`. It is a small aggregate with a fence
of its own, changed in the commit of the execution that asks for a slot or gives one back. The asker becomes a *member*: HELD with a
slot, or WAITING in the line; the one that frees a slot gives it to the head of the line in the same commit, so no slot is idle
while an execution waits.

**The line** is strict: the head waits for a slot by its own definition's limits, and no member behind it goes first, else a
definition with a low limit would starve beside one with a high limit. Within a priority, members of a definition with a
fairness key take turns by their tags (`model.fairness`). **The window** slides, and counts what is handed to workers: the instants
of the last polls that took a task are kept, no more of them than the limit. Who is let in holds a place in every
window (RESERVED) from then on until a poll takes it, and is dated by that poll: no window ever holds more, however late it comes.

An offer that no poll takes for `OFFER_MS` goes back to its old place in the line. Its *lane*, the queue that its workers poll, is
`unpolled` then: the line goes on without all that wait in it, until a worker polls that queue. So no task waits for workers that
are not there, and a backlog of theirs is not let in while no worker takes it.

Sources of the rules: Orkes, "Task rate limits" and "Workflow rate limits": what is beyond the limit is PENDING.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

__all__ = [
    "FORGOTTEN",
    "HEAVIEST",
    "NO_LIMIT",
    "OFFER_MS",
    "Limit",
    "LimitChange",
    "Line",
    "Member",
    "MemberState",
    "Terms",
    "admission",
    "known_key",
    "reread",
    "task_key",
    "workflow_key",
]

#: How keys of executions begin: they may be made of an input, and so be as many as there are executions.
_EXECUTIONS: Final = "workflow:"

#: How long a place in a window waits for a poll.
OFFER_MS: Final = 5_000

#: The highest weight of a key that takes turns.
HEAVIEST: Final = 1_000

#: By how much two clocks that are read together may seem to have moved apart: each reading is cut to whole milliseconds.
_ROUNDING_MS: Final = 1

#: Where a store keeps the highest fence of the limits it has forgotten, so that one that comes back is taken for another one.
FORGOTTEN: Final = ""


def task_key(name: str) -> str:
    """The key under which the tasks of one definition name are limited."""
    return f"task:{name}"


def workflow_key(name: str) -> str:
    """The key under which executions that share a rate limit key are limited."""
    return f"{_EXECUTIONS}{name}"


@attrs.frozen(kw_only=True, slots=True)
class Terms:
    """Limits that one definition sets; 0 means without a limit."""

    #: How many at once.
    concurrent: int = 0
    #: How many may begin within any `window_ms`.
    rate: int = 0
    window_ms: int = 0

    def __bool__(self) -> bool:
        return self.concurrent > 0 or self.rate > 0


#: What most definitions allow.
NO_LIMIT: Final = Terms()


class MemberState(StrEnum):
    """State of a member of a limit."""

    WAITING = "WAITING"
    #: It has been let in and not begun: its instant in the window is open.
    RESERVED = "RESERVED"
    HELD = "HELD"


@attrs.frozen(kw_only=True, slots=True)
class Member:
    """Holder of a slot, or one that waits for it: a task's attempt (`holder` is its id), or an execution (`ref` is None)."""

    key: str
    holder: str
    workflow_id: str
    ref: str | None
    attempt: int
    generation: int
    state: MemberState
    #: Which admission of the limit this is; an event about another one is void.
    number: int = 0
    priority: int = 0
    #: When it asked, epoch ms.
    asked_at: int = 0
    #: When its execution was created, and its place in the order of scheduling there.
    created_at: int = 0
    seq: int = 0
    concurrent: int = 0
    rate: int = 0
    window_ms: int = 0
    #: The queue whose polls take it; empty for what counts in no window, which is never passed over.
    lane: str = ""
    #: Its key among those that take turns, its start tag, and what it has paid for it; no cost: it takes no turns.
    fairness_key: str = ""
    start_tag: int = 0
    cost: int = 0

    @property
    def terms(self) -> Terms:
        """Limits that its definition sets."""
        return Terms(concurrent=self.concurrent, rate=self.rate, window_ms=self.window_ms)

    @property
    def waits(self) -> bool:
        """True if it has no slot yet."""
        return self.state is MemberState.WAITING

    @property
    def place(self) -> tuple[int, int, int, int, str, int, str]:
        """Place in the line: the higher priority first, then whose turn it is, who asked first, whose execution began first."""
        return (-self.priority, self.start_tag, self.asked_at, self.created_at, self.workflow_id, self.seq, self.holder)


@attrs.frozen(kw_only=True, slots=True)
class Limit:
    """The aggregate of one key. `in_use` counts members that hold a slot of a concurrency limit, given ones included."""

    key: str
    fence: int = 0
    in_use: int = 0
    #: Let in and not begun yet: each holds a place in every window.
    reserved: int = 0
    #: Instants of the last begins, oldest first, epoch ms.
    log: tuple[int, ...] = ()
    #: The largest rate and the longest window that were asked under this key: how much of the log is kept.
    depth: int = 0
    span_ms: int = 0
    #: Admissions so far.
    number: int = 0
    #: Who was notified to look again when the window has moved, and at which instant.
    alarm: str | None = None
    alarm_at: int | None = None
    #: Lanes in which an offer was not taken in time, and no worker has polled since.
    unpolled: tuple[str, ...] = ()
    #: What the clock read when the log was last put right, and what a clock that never jumps did (`clock.steady`): which, and ms.
    read_at: int = 0
    boot: str = ""
    steady: int = 0
    #: Tags of the keys that take turns (`model.fairness`).
    tags: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Line:
    """A limit as a turn has loaded it: the aggregate, and the heads of its line, lane by lane."""

    limit: Limit
    #: The first of each lane, all of them in order of the line.
    heads: tuple[Member, ...] = ()
    #: Lanes in which more of them wait.
    more: frozenset[str] = frozenset()

    @property
    def head(self) -> Member | None:
        """The first that is not passed over."""
        return next((member for member in self.heads if member.lane not in self.limit.unpolled), None)


@attrs.frozen(kw_only=True, slots=True)
class LimitChange:
    """Change that a turn makes to one limit, under the fence that was read."""

    limit: Limit
    put: tuple[Member, ...] = ()
    #: Holders that are members no longer.
    gone: tuple[str, ...] = ()
    #: What those that began in this turn are dated; the commit may come later.
    dated: int | None = None

    @property
    def unused(self) -> bool:
        """True if nothing of the limit needs to be kept, if no execution waits: its key may have been made for one execution."""
        limit = self.limit
        return limit.key.startswith(_EXECUTIONS) and not (self.put or limit.in_use or limit.reserved or limit.log)


def reread(limit: Limit, now: int, steady: tuple[str, int] | None, dated: int | None = None) -> Limit:
    """The limit with its log as the clock would have it that reads `now`: had it jumped, windows would end early or late.

    What was `dated` before has happened now: the commit has waited for the store. Without a steady clock, or on another
    machine, instants stand as they are.
    """
    jump = 0
    if known := steady is not None and limit.boot == steady[0]:
        jump = (now - limit.read_at) - (steady[1] - limit.steady)
        if abs(jump) <= _ROUNDING_MS:
            jump = 0
    log = limit.log
    if jump or dated is not None:
        log = tuple(sorted(max(at + jump, now) if at == dated else at + jump for at in log))
    if known and not jump:  # by the readings that were kept: with new ones, what each is cut by would add up
        return attrs.evolve(limit, log=log)
    boot, instant = steady or ("", 0)
    return attrs.evolve(limit, log=log, read_at=now if steady else 0, boot=boot, steady=instant)


def admission(limit: Limit, terms: Terms, now: int) -> int | None:
    """From which instant on a member with these terms may go: `now` if at once, None when a slot must be given back first."""
    if terms.concurrent > 0 and limit.in_use >= terms.concurrent:
        return None
    if terms.rate <= 0:
        return now
    inside = [at for at in limit.log if at > now - terms.window_ms]
    free = terms.rate - limit.reserved
    if free <= 0:
        return None  # a member that begins, or gives its place back, will look again
    if len(inside) < free:
        return now
    # The oldest that has to leave the window; one of a clock that is ahead counts as it is dated.
    return sorted(inside)[len(inside) - free] + terms.window_ms


def known_key(key: str) -> bool:
    """Return True if a text can be the key of a limit."""
    kind, colon, name = key.partition(":")
    return kind in ("task", "workflow") and bool(colon and name)
