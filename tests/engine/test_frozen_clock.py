"""A test that freezes the machine's clock, as freezegun and time-machine do, under an engine on the real one: nothing hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import flow, simple, wait

from conductorlite import AsyncEngine, Engine, VirtualClock, Workers, WorkflowTask
from conductorlite.errors import ResultTimeout
from conductorlite.model.clock import SystemClock, stands_still

PULL = WorkflowTask(name="p", task_reference_name="p", type="PULL_WORKFLOW_MESSAGES", input_parameters={"topic": "t"})


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's clock stands still; what counts elapsed time goes on."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    monkeypatch.setattr(time, "time", lambda: now / 1e9)


def awaited(engine: Engine) -> None:
    """With an AsyncEngine of its own."""

    async def result() -> None:
        async with AsyncEngine() as other:
            await (await other.start(flow(wait("w")))).result(timeout="100ms")

    asyncio.run(result())


VERBS: dict[str, Callable[[Engine], Any]] = {
    "result of a wait": lambda engine: engine.start(flow(wait("w"))).result(timeout="100ms"),
    "result of a receive": lambda engine: engine.start(flow(PULL)).result(timeout="100ms"),
    "result of what nobody works at": lambda engine: engine.start(flow(simple("nobody"))).result(timeout="100ms"),
    "start_and_wait": lambda engine: engine.start_and_wait(flow(wait("w")), timeout="100ms"),
    "awaited result": awaited,
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_waits_ends_at_its_timeout_and_says_why(verb: str, frozen: None) -> None:
    """The error names the clock, and what to use instead."""
    with Engine() as engine, pytest.raises(ResultTimeout, match="the clock stands still, as a test freezes it: use VirtualClock"):
        VERBS[verb](engine)


def test_what_comes_later_comes(frozen: None) -> None:
    """A retry and a poll count elapsed time."""
    calls: list[int] = []

    def fails_once() -> None:
        calls.append(1)
        if len(calls) < 2:
            raise ValueError("once")

    workers = Workers()
    workers.add("a", fails_once)
    with Engine(workers=workers) as engine:
        assert engine.start(flow(simple("a", {"retry_count": 1, "retry_delay_ms": 50}))).result(timeout="1m") == {}
        assert engine.poll("nobody", timeout="50ms") == []
        assert len(calls) == 2


def test_a_clock_that_ticks_is_not_blamed() -> None:
    """Neither is a virtual one, which moves by the program alone."""
    assert not stands_still(SystemClock())
    assert not stands_still(VirtualClock(0))
    with Engine() as engine, pytest.raises(ResultTimeout) as raised:
        engine.start(flow(wait("w"))).result(timeout="50ms")
    assert "stands still" not in str(raised.value)
