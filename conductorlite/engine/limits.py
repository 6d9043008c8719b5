"""Limits as they stand: what is in use, who holds it, and who waits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from conductorlite.engine.config import Service
from conductorlite.engine.waits import Standing
from conductorlite.model import attrs
from conductorlite.model.clock import steady
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Workflow
from conductorlite.model.limits import Limit, Member, known_key, reread
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.ports import ReadingTransaction

__all__ = ["LimitMember", "LimitUse", "Limits", "standings"]

#: So many PENDING tasks of an execution are named with their place in the wait queue.
_SHOWN: Final = 50


@attrs.frozen(kw_only=True, slots=True)
class LimitMember:
    """Who holds a slot of a limit, or waits for one: an attempt at a task, or (without `ref` and `task_id`) an execution.

    What its own definition allows: `concurrent_exec_limit` at once, and `rate_limit_per_frequency` in any
    `rate_limit_frequency_ms`; 0 means without a limit.
    """

    workflow_id: str
    ref: str | None
    task_id: str | None
    attempt: int
    priority: int
    #: When it asked for its slot, epoch ms.
    asked_at: int
    concurrent_exec_limit: int
    rate_limit_per_frequency: int
    rate_limit_frequency_ms: int


@attrs.frozen(kw_only=True, slots=True)
class LimitUse:
    """How a limit stands.

    `in_use` counts the slots that are held at once, `waiting` those in the line. `admitted_at` are the instants (epoch ms,
    oldest first) of the polls whose tasks its window still holds, and `reserved` counts those that were let in and no poll has
    taken yet. `window_moves_at` is when the head of the line may go, if it waits for a window. `unpolled` are the queues whose
    tasks are passed over: one of them was offered for 5 s, and no worker has polled there since.
    """

    key: str
    in_use: int
    waiting: int
    admitted_at: tuple[int, ...] = ()
    reserved: int = 0
    window_moves_at: int | None = None
    unpolled: tuple[str, ...] = ()
    #: Who holds a slot, in order of task id or workflow id; only `get` fills it.
    holders: tuple[LimitMember, ...] = ()
    #: The line, the next one first; only `get` fills it.
    line: tuple[LimitMember, ...] = ()


class Limits(Service):
    """Verbs that look at limits."""

    def all(self, *, limit: int = 100, after: str = "") -> list[LimitUse]:
        """Up to `limit` limits in order of their keys, without their members; the next page begins `after` the last one's key.

        A limit is listed once an execution has asked it for a slot: `task:<name of the task definition>` for `concurrentExecLimit`
        and `rateLimitPerFrequency`; `workflow:<rate limit key>` for `rateLimitConfig`, which may be made of an input, only as long
        as an execution holds a slot or waits. Raises InvalidInput when `limit` is below 1.
        """
        _positive(limit)
        now, read = self._clock.now(), steady(self._clock)
        with self._backend.reading() as view:
            return [_use(reread(one, now, read), view.waiting(one.key), now) for one in view.limits(after, limit)]

    def get(self, key: str, *, limit: int = 100) -> LimitUse:
        """One limit with up to `limit` of those that hold a slot and up to `limit` of those that wait, the next one first.

        `key` is `task:<name>` or `workflow:<rate limit key>`; one that no execution has asked yet has nothing in use. Raises
        InvalidInput for another key, and when `limit` is below 1.
        """
        _positive(limit)
        if not known_key(key):
            raise InvalidInput(f"{key!r} is no limit: its key is task:<name> or workflow:<rate limit key>")
        with self._backend.reading() as view:
            line = view.line(key, limit)
            now, read = self._clock.now(), steady(self._clock)
            found = _use(reread(line.limit, now, read), view.waiting(key), now)
            holders = view.holders(key, "", limit)
        return attrs.evolve(found, holders=tuple(map(_shown, holders)), line=tuple(map(_shown, line.heads[:limit])))


def standings(view: ReadingTransaction, workflows: Iterable[Workflow], ref: str | None) -> dict[str, Standing]:
    """How executions, and the first of their PENDING tasks (or those at `ref`), stand to the limits they wait for; by id."""
    found: dict[str, Standing] = {}
    for row in workflows:
        waiting = [(row.rate_limit_key, row.workflow_id)] if row.rate_limited else []
        pending = (task for task in row.tasks if task.status is TaskStatus.PENDING and ref in (None, task.ref, task.base_ref))
        waiting += [(task.limit_key, task.task_id) for task in islice(pending, _SHOWN)]
        for key, holder in waiting:
            member = None if key is None else view.member(key, holder)
            if key is not None and member is not None:
                line = view.line(key, 1)
                before = view.waiting(key, member)
                found[holder] = Standing(limit=line.limit, member=member, before=before, head=line.head)
    return found


def _positive(limit: int) -> None:
    if limit < 1:
        raise InvalidInput(f"limit {limit} is below 1")


def _use(limit: Limit, waiting: int, now: int) -> LimitUse:
    return LimitUse(
        key=limit.key,
        in_use=limit.in_use,
        waiting=waiting,
        admitted_at=tuple(at for at in limit.log if at > now - limit.span_ms),
        reserved=limit.reserved,
        window_moves_at=limit.alarm_at if waiting else None,
        unpolled=limit.unpolled,
    )


def _shown(member: Member) -> LimitMember:
    return LimitMember(
        workflow_id=member.workflow_id,
        ref=member.ref,
        task_id=None if member.ref is None else member.holder,
        attempt=member.attempt,
        priority=member.priority,
        asked_at=member.asked_at,
        concurrent_exec_limit=member.concurrent,
        rate_limit_per_frequency=member.rate,
        rate_limit_frequency_ms=member.window_ms,
    )
