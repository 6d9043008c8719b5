"""The content of a store in memory: a copy to return to, and what two moments that go on alike have in common."""

from __future__ import annotations

from typing import Any

from conductorlite.model.executions import Workflow
from conductorlite.store.memory.rows import Execution, Ordered, Store

__all__ = ["content", "copied"]


def content(store: Store, now: int) -> tuple[object, ...]:
    """Rows, timers, offers and limits, with instants counted from `now` (epoch ms)."""
    rows = [_execution_key(store.workflows.get(one), held, now) for one, held in store.executions.items()]
    offered = [one for held in store.executions.values() for one in held.offered.values()]
    messages = [(one.queue, one.workflow_id, one.ref, one.attempt, one.due_at - now) for one in offered]
    limits = [(one.key, one.in_use, one.reserved, tuple(at - now for at in one.log), one.unpolled) for one in store.limits.values()]
    lines = [(key, who, one.state, one.number) for key, all_ in store.members.items() for who, one in all_.items()]
    schedules = [(one.name, one.progress) for one in store.schedules.values()]
    others = sorted(map(repr, (*lines, *schedules)))
    return (*(tuple(sorted(part)) for part in (rows, messages, limits)), tuple(others))


def _execution_key(row: Workflow | None, held: Execution, now: int) -> tuple[object, ...]:
    flow: tuple[object, ...] = ()
    if row is not None:
        flow = (str(row.status), row.generation, row.variables.digest, row.output.digest, row.open, str(row.parked))
    tasks = [
        (ref, attempt, one.generation, str(one.status), one.output.digest, one.input.digest, one.retried, one.executed, one.round)
        for (ref, attempt), one in held.attempts.items()
    ]
    events = [(one.event_id, one.due_at - now, one.held, one.attempt) for one in held.inbox.values()]
    return held.workflow_id, flow, tuple(tasks), tuple(sorted(events))


def copied(value: Any) -> Any:
    """A copy of what is changed in place; rows are immutable, and shared."""
    kind = type(value)
    if kind is dict:
        return {key: copied(one) for key, one in value.items()} if value else {}
    if kind is list:
        return [copied(one) for one in value] if value else []
    if kind is Ordered:
        made: Any = Ordered()
        made._blocks, made._tops = [list(block) for block in value._blocks], list(value._tops)
        return made
    if kind is Execution or kind is Store:
        made = object.__new__(kind)
        for name, one in vars(value).items():
            setattr(made, name, copied(one))
        return made
    return value
