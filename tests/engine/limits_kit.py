"""What must hold of limits after every commit, read from the store, and what the journals must tell when all is over.

Nothing here is taken from the code that grants: who holds a slot is counted from the rows of tasks and executions, who may go is
worked out from their terms, and windows are measured between the lines of the journals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from engine_kit import task_def

from conductorlite import HistoryEvent, TaskStatus, WorkflowDef, WorkflowTask
from conductorlite.decide.admissions import REOPENING
from conductorlite.model.canonical import parse
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import RateLimitConfig, RateLimitPolicy
from conductorlite.model.executions import HistoryKind, Task, Workflow
from conductorlite.model.limits import Line, Member, MemberState, Terms
from conductorlite.store.ports import Backend, ReadingTransaction

__all__ = ["Admitted", "Broken", "broken", "definition", "keyed", "limited", "occupied", "past_their_limits", "verify"]

_OPEN = (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS)
_MANY = 100_000


class Broken(AssertionError):
    """A law of limits that does not hold."""


def limited(ref: str, name: str | None = None, **options: Any) -> WorkflowTask:
    """A SIMPLE task with limits: `k` at once, `rate` in `per_s` seconds; other options are its definition's."""
    k, rate, per_s = (options.pop(key, None) for key in ("k", "rate", "per_s"))
    name = name or ref
    if rate is not None:
        options |= {"rate_limit_per_frequency": rate, "rate_limit_frequency_s": per_s}
    given = task_def(name, **{"retry_count": 0, "concurrent_exec_limit": k, **options})
    return WorkflowTask(name=name, task_reference_name=ref, task_definition=given)


def keyed(k: int, key: str | None = None, policy: str = "QUEUE") -> RateLimitConfig:
    """A limit on executions."""
    return RateLimitConfig(rate_limit_key=key, concurrent_exec_limit=k, policy=RateLimitPolicy(policy))


# ------------------------------------------------------------------ the store, after a commit


@attrs.frozen(kw_only=True)
class _Store:
    """All there is in a store that limits are about."""

    executions: Mapping[str, Workflow]
    tasks: Mapping[str, Sequence[Task]]
    #: Events by execution, those still in the outbox too.
    events: Mapping[str, Sequence[Event]]
    lines: Mapping[str, Line]
    members: Mapping[str, Sequence[Member]]

    @classmethod
    def of(cls, view: ReadingTransaction) -> _Store:
        rows = {each: view.executions.workflow(each) for each in view.executions.workflow_ids(None, "", _MANY)}
        events: dict[str, list[Event]] = defaultdict(list)
        for item in view.outbox.items(_MANY):
            for event in item.outgoing.posted:
                events[event.workflow_id].append(event)
        limits = view.limits.page("", _MANY)
        members = {limit.key: view.limits.members(limit.key) for limit in limits}
        for each in {*rows, *events, *(one.workflow_id for found in members.values() for one in found)}:
            events[each].extend(view.inbox.events(each))
        return cls(
            executions={each: row for each, row in rows.items() if row is not None},
            tasks={each: view.executions.attempts(each) for each in rows},
            events=events,
            lines={limit.key: view.limits.line(limit.key, _MANY) for limit in limits},
            members=members,
        )


def verify(backend: Backend, now: int, *, rounding_ms: int = 0) -> int:
    """Every law of limits, as the store is at this instant; raises Broken.

    Returns how many wait. Between processes, instants of windows are rounded: by as much the event that moves one may be late.
    """
    with backend.reading() as view:
        found = list(broken(view, now, rounding_ms))
        waiting = sum(len(view.limits.line(limit.key, _MANY).heads) for limit in view.limits.page("", _MANY))
    if found:
        raise Broken("\n".join(found))
    return waiting


def broken(view: ReadingTransaction, now: int, rounding_ms: int = 0) -> Iterator[str]:
    """Laws that do not hold, in words."""
    store = _Store.of(view)
    for key, line in store.lines.items():
        members = store.members[key]
        slots = sorted((one for one in members if one.state is not MemberState.WAITING), key=lambda one: one.number)
        waiting = [one for one in members if one.state is MemberState.WAITING]
        yield from _counts(key, line, slots, waiting)
        yield from _head_waits_for_good_reason(store, key, line, waiting, now, rounding_ms)
        for member in members:
            yield from _member_is_someone(store, member)
    yield from _everyone_is_member(store)


def _counts(key: str, line: Line, slots: Sequence[Member], waiting: Sequence[Member]) -> Iterator[str]:
    limit = line.limit
    concurrent = [one for one in slots if one.concurrent]
    if limit.in_use != len(concurrent):
        yield f"{key}: {limit.in_use} in use, {len(concurrent)} have a slot"
    if limit.reserved != sum(one.state is MemberState.RESERVED for one in slots):
        yield f"{key}: {limit.reserved} reserved, the members are {slots}"
    for place, one in enumerate(concurrent):
        # Who was admitted before it and is still there, was there when it was admitted.
        if place >= one.concurrent:
            yield f"{key}: {one.holder} of {one.concurrent} was let in beside {place} others"
    if list(line.heads) != sorted(waiting, key=lambda one: one.place):
        yield f"{key}: the line is {line.heads}"


def _may_go(line: Line, terms: Terms, now: int) -> int | None:
    """From when on somebody with these terms may go; None: when somebody has left. Written anew, to be compared."""
    limit = line.limit
    if terms.concurrent and limit.in_use >= terms.concurrent:
        return None
    if not terms.rate:
        return now
    if limit.reserved >= terms.rate:
        return None
    instants = [now, *(at + terms.window_ms for at in limit.log if at + terms.window_ms > now)]
    return next(at for at in sorted(instants) if _inside(limit.log, terms.window_ms, at) + limit.reserved < terms.rate)


def _inside(log: Sequence[int], window_ms: int, at: int) -> int:
    return sum(one > at - window_ms for one in log)


def _head_waits_for_good_reason(
    store: _Store, key: str, line: Line, waiting: Sequence[Member], now: int, rounding_ms: int
) -> Iterator[str]:
    # Who is passed over waits for somebody to poll, and for nothing else.
    first = sorted((one for one in waiting if one.lane not in line.limit.unpolled), key=lambda one: one.place)
    if not first:
        return
    head, limit = first[0], line.limit
    at = _may_go(line, head.terms, now)
    if at is None:
        return
    # Events of one id replace each other; those of the outbox come first here, and are still to be delivered.
    moves = (one for one in store.events[head.workflow_id] if one.kind is EventKind.WINDOW_MOVES)
    due = [one.due_at for one in moves if one.data.value["key"] == key]
    if not head.rate:
        yield f"{key}: {head.holder} waits beside {limit.in_use} in use, though it may have {head.concurrent}"
    elif limit.alarm != head.holder or not due:
        yield f"{key}: {head.holder} waits for a window that moves at {at}: the alarm is {limit.alarm}, events are due at {due}"
    elif max(due) > max(at, now) + rounding_ms:  # one that comes early looks again, and is written again
        yield f"{key}: {head.holder} may go at {at}, its events are due at {due}, now is {now}"


def _member_is_someone(store: _Store, member: Member) -> Iterator[str]:
    workflow = store.executions.get(member.workflow_id)
    if workflow is None:
        yield f"{member.key}: {member.holder} belongs to an execution that is not there"
        return
    on_its_way = any(
        one.kind is EventKind.GRANTED
        and (one.data.value["key"], one.data.value["holder"], one.data.value["number"])
        == (member.key, member.holder, member.number)
        for one in store.events[member.workflow_id]
    )
    if member.ref is None:
        waits = workflow.rate_limited
        if workflow.rate_limit_key != member.key:
            yield f"{member.key}: {member.holder} is a member, its own limit is {workflow.rate_limit_key}"
        goes_on = any(one.kind in REOPENING and not one.held for one in store.events[member.workflow_id])
        if workflow.status.terminal and not waits and not goes_on:
            yield f"{member.key}: {member.holder} has a slot though it is {workflow.status}"
    else:
        task = next((one for one in store.tasks[member.workflow_id] if one.task_id == member.holder), None)
        if task is None or task.limit_key != member.key:
            yield f"{member.key}: {member.state} {member.holder} belongs to {task}"
            return
        waits = task.status is TaskStatus.PENDING
        offered = task.status is TaskStatus.SCHEDULED
        if member.state is MemberState.RESERVED and not (on_its_way or offered):
            yield f"{member.key}: {member.holder} was let in and is not told, it is {task.status}"
        if member.rate and offered and member.state is not MemberState.RESERVED:
            yield f"{member.key}: {member.holder} is offered, and holds no place in the window"
        ends = [one.due_at for one in store.events[member.workflow_id] if one.event_id == f"OFFER_ENDS:{member.ref}"]
        if member.rate and offered and not (ends and ends[0] <= task.due_at + 5_000):
            yield f"{member.key}: {member.holder} is offered at {task.due_at}, until {ends}"
        if not waits and task.status not in _OPEN:
            yield f"{member.key}: {member.holder} has a slot though it is {task.status}"
    if waits is not (member.state is MemberState.WAITING or on_its_way):
        yield f"{member.key}: {member.holder} is {member.state}, its row says {'PENDING' if waits else 'in use'}"


def _everyone_is_member(store: _Store) -> Iterator[str]:
    members = {(one.key, one.holder): one for found in store.members.values() for one in found}
    for each, workflow in store.executions.items():
        key = workflow.rate_limit_key
        if key is not None and (key, each) not in members:
            yield f"{each}: belongs to {key}, which does not know it"
        asks = [one.ref for one in store.events[each] if one.kind is EventKind.ADMISSION]
        if workflow.rate_limited and key is None and None not in asks:
            yield f"{each}: waits for no limit, and will not ask"
        for task in store.tasks[each]:
            member = None if task.limit_key is None else members.get((task.limit_key, task.task_id))
            if task.status is TaskStatus.PENDING and task.limit_key is not None and member is None:
                yield f"{each}: {task.ref} waits for {task.limit_key}, which does not know it"
            stranded = task.limit_key is None and not workflow.rate_limited and task.ref not in asks
            if task.status is TaskStatus.PENDING and stranded:
                yield f"{each}: {task.ref} is PENDING, and will not ask"
            if task.status.terminal and task.limit_key is not None:
                yield f"{each}: {task.ref} is {task.status} and belongs to {task.limit_key}"
            if task.status in _OPEN and member is None and task.limit_key is not None:
                yield f"{each}: {task.ref} is {task.status} without the slot of {task.limit_key} that it says it has"


# ------------------------------------------------------------------ the journals, when all is over


#: Name of the limit, and terms, of a printed reference of an execution; None when it has none.
TermsOf = Callable[[str, str], tuple[str, Terms] | None]


@attrs.frozen(kw_only=True)
class Admitted:
    """One attempt that was offered: when, until when it kept its slot, and when a poll took it."""

    at: int
    until: int
    began: int | None
    who: str
    name: str
    terms: Terms


def occupied(histories: Mapping[str, Sequence[HistoryEvent]], terms_of: TermsOf) -> list[Admitted]:
    """When which attempts were offered, and until when they had their slots."""
    found = []
    for workflow_id, history in histories.items():
        offered: dict[tuple[str, int], int] = {}
        began: dict[tuple[str, int], int] = {}
        for line in history:
            told = line.kind in (HistoryKind.TASK, HistoryKind.REPORT)
            limit = terms_of(workflow_id, line.ref or "") if told else None
            # A report on what is offered still, that puts it back: it has asked anew, and has a slot again.
            again = line.kind is HistoryKind.REPORT
            if limit is None:
                continue
            key = (line.ref or "", line.attempt or 0)
            if line.status == TaskStatus.IN_PROGRESS and not again:
                began[key] = parse(line.cause or "{}").get("clock", line.at)  # a window is counted by the clock
                continue
            about: dict[str, Any] = {"name": limit[0], "terms": limit[1], "who": f"{workflow_id} {key[0]}#{key[1]}"}
            if key in offered:  # put back, or ended
                found.append(Admitted(at=offered.pop(key), until=line.at, began=began.pop(key, None), **about))
            elif again:
                continue  # it waits
            if again or line.status == TaskStatus.SCHEDULED:
                offered[key] = line.at
        for key, at in offered.items():
            limit = terms_of(workflow_id, key[0])
            assert limit is not None
            about = {"name": limit[0], "terms": limit[1], "who": f"{workflow_id} {key[0]}"}
            found.append(Admitted(at=at, until=2**62, began=began.get(key), **about))
    return found


def past_their_limits(found: Sequence[Admitted], *, beside: bool = True) -> list[str]:
    """Attempts that began though their window was full, or were offered `beside` too many others."""
    told = []
    for one in found:
        others = [other for other in found if other.name == one.name]
        if one.terms.rate and one.began is not None:
            instants = [other.began for other in others if other.began is not None]
            alike = sum(other.terms == one.terms and other.began == one.began for other in others)
            before = sum(one.began - one.terms.window_ms < at < one.began for at in instants)
            if before + alike > one.terms.rate:
                told.append(f"{one.who} began at {one.began} as one of {before + alike} in {one.terms}")
        most = one.terms.concurrent
        there = sum(other.at < one.at < other.until for other in others if other.terms.concurrent)
        if beside and most and there >= most:
            told.append(f"{one.who} was offered at {one.at} beside {there} others: {one.terms}")
    return told


def definition(name: str, *tasks: WorkflowTask, limit: RateLimitConfig | None = None, **fields: Any) -> WorkflowDef:
    """A definition with a limit on its executions."""
    return WorkflowDef(name=name, tasks=tasks, rate_limit_config=limit, **fields)
