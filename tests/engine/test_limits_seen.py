"""How limits stand, as `Engine.limits` and `Engine.limits.get` tell it, on every store."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import T0, NewBench, flow, task_def

from conductorlite import Engine, RateLimitConfig, TaskResult, TaskStatus, WorkflowDef, WorkflowTask
from conductorlite.engine.queries import LimitUse
from conductorlite.errors import InvalidInput


def _limited(name: str = "pay", **limits: Any) -> WorkflowTask:
    return WorkflowTask(name=name, task_reference_name="a", task_definition=task_def(name, **limits))


def _started(engine: Engine, definition: WorkflowDef, ids: str, **options: Any) -> None:
    for one in ids.split():
        engine.start(definition, workflow_id=one, **options)
    engine.settle()


def _line(found: LimitUse) -> list[str]:
    return [member.workflow_id for member in found.line]


def test_slots_that_are_held_and_the_line(new_bench: NewBench) -> None:
    """Two hold a slot, three wait: by priority, then by when they asked; and what ends lets in the first."""
    engine = new_bench().engine
    definition = flow(_limited(concurrent_exec_limit=2))
    _started(engine, definition, "w1 w2 w3")
    engine.advance("1s")
    _started(engine, definition, "w4")
    _started(engine, definition, "w5", priority=7)
    found = engine.limits.get("task:pay")
    assert (found.key, found.in_use, found.waiting, found.admitted_at, found.window_moves_at) == ("task:pay", 2, 3, (), None)
    assert sorted(member.workflow_id for member in found.holders) == ["w1", "w2"]
    assert _line(found) == ["w5", "w3", "w4"]
    first = found.line[0]
    assert (first.ref, first.attempt, first.priority, first.asked_at) == ("a", 0, 7, T0 + 1_000)
    assert (first.concurrent_exec_limit, first.rate_limit_per_frequency, first.rate_limit_frequency_ms) == (2, 0, 0)
    assert first.task_id == engine.get("w5").tasks[0].task_id
    (task,) = engine.poll("pay")
    engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
    engine.settle()
    after = engine.limits.get("task:pay")
    assert (after.in_use, after.waiting, _line(after)) == (2, 2, ["w3", "w4"])


def test_a_window(new_bench: NewBench) -> None:
    """The instants that the window holds, and when it lets in the next; those that have left it are not shown."""
    engine = new_bench().engine
    definition = flow(_limited("sms", rate_limit_per_frequency=2, rate_limit_frequency_s=60))
    _started(engine, definition, "w1")
    found = engine.limits.get("task:sms")
    assert (found.in_use, found.reserved, found.admitted_at, [one.workflow_id for one in found.holders]) == (0, 1, (), ["w1"])
    engine.poll("sms")
    engine.advance("10s")
    _started(engine, definition, "w2 w3")
    engine.poll("sms", count=9)
    found = engine.limits.get("task:sms")
    assert (found.in_use, found.waiting, found.holders) == (0, 1, ())
    assert (found.admitted_at, found.window_moves_at) == ((T0, T0 + 10_000), T0 + 60_000)
    engine.advance("50s")
    assert engine.get("w3").tasks[0].status is TaskStatus.SCHEDULED
    found = engine.limits.get("task:sms")
    assert (found.waiting, found.reserved, found.admitted_at, found.window_moves_at) == (0, 1, (T0 + 10_000,), None)
    engine.advance("5s")
    found = engine.limits.get("task:sms")
    assert (found.waiting, found.reserved, found.unpolled) == (1, 0, ("sms",))


def test_limits_of_executions(new_bench: NewBench) -> None:
    """Holders and waiters are executions, without a task; each key is a limit."""
    engine = new_bench().engine
    config = RateLimitConfig(rate_limit_key="${workflow.input.who}", concurrent_exec_limit=1)
    definition = flow(WorkflowTask(name="b", task_reference_name="b"), rate_limit_config=config)
    for who, ids in (("y", "w1 w2"), ("x", "w3")):
        for one in ids.split():
            engine.start(definition, {"who": who}, workflow_id=one)
    engine.settle()
    found = engine.limits.all()
    assert [(one.key, one.in_use, one.waiting) for one in found] == [("workflow:x", 1, 0), ("workflow:y", 1, 1)]
    assert [(one.holders, one.line) for one in found] == [((), ()), ((), ())]
    (waiter,) = engine.limits.get("workflow:y").line
    assert (waiter.workflow_id, waiter.ref, waiter.task_id) == ("w2", None, None)


def test_pages(new_bench: NewBench) -> None:
    """Limits come in pages after a key; of one limit so many of each kind are shown, and all are counted."""
    engine = new_bench().engine
    for name in "cab":
        _started(engine, flow(_limited(name, concurrent_exec_limit=3)), " ".join(f"{name}{n}" for n in range(8)))
    assert [one.key for one in engine.limits.all(limit=2)] == ["task:a", "task:b"]
    assert [one.key for one in engine.limits.all(limit=2, after="task:b")] == ["task:c"]
    found = engine.limits.get("task:a", limit=2)
    assert (found.in_use, len(found.holders), found.waiting, _line(found)) == (3, 2, 5, ["a3", "a4"])


def test_what_nobody_has_asked(new_bench: NewBench) -> None:
    """A limit that nobody has asked has nothing in use; a text that can be no key is refused."""
    engine = new_bench().engine
    assert engine.limits.all() == []
    assert engine.limits.get("task:pay") == LimitUse(key="task:pay", in_use=0, waiting=0)
    for key in ("pay", "task:", "queue:pay", ""):
        with pytest.raises(InvalidInput, match="is no limit"):
            engine.limits.get(key)
    with pytest.raises(InvalidInput, match="below 1"):
        engine.limits.get("task:pay", limit=0)
    with pytest.raises(InvalidInput, match="below 1"):
        engine.limits.all(limit=0)
