"""A rate limit holds for the calls of worker functions, however late after its hand-out each is made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import Engine, TaskDef, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import StorageUnavailable
from conductorlite.model.limits import NO_LIMIT, Terms
from conductorlite.runtime.call_rates import CallRates
from conductorlite.runtime.pool import Call
from conductorlite.runtime.workshop import Workshop

START = 1_893_456_000_000
RATE, WINDOW = 3, 1_000


@given(
    rate=st.integers(1, 4),
    window=st.integers(1, 50),
    pauses=st.lists(st.integers(0, 60), max_size=40),
    patient=st.booleans(),
)
def test_no_window_has_more_calls_than_the_rate(rate: int, window: int, pauses: list[int], patient: bool) -> None:
    """Whether those that are early wait until they may begin, or ask again at some other time; none waits without need."""
    clock = VirtualClock(START)
    rates, begun = CallRates(clock), list[int]()
    for pause in pauses:
        clock.move_to(clock.now() + pause)
        while (allowed := rates.begin("charge", Terms(rate=rate, window_ms=window))) is not None:
            lately = [at for at in begun if at > clock.now() - window - 1]
            assert len(lately) >= rate
            assert allowed.instant == lately[-rate] + window + 1
            if not patient:
                break
            clock.move_to(allowed.instant)
        if allowed is None:
            begun.append(clock.now())
    for at in begun:
        assert sum(at <= other <= at + window for other in begun) <= rate


def test_what_has_no_rate_is_not_counted() -> None:
    """Nor do two definitions count for each other."""
    rates = CallRates(VirtualClock(START))
    assert all(rates.begin("free", NO_LIMIT) is None for _ in range(10))
    assert all(rates.begin("free", Terms(concurrent=1, rate=1)) is None for _ in range(10))
    assert rates.begin("one", Terms(rate=1, window_ms=10)) is None
    assert rates.begin("other", Terms(rate=1, window_ms=10)) is None
    assert rates.begin("one", Terms(rate=1, window_ms=10)) is not None


@pytest.fixture(autouse=True)
def _no_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows go by the clock of these tests, as on a machine that has no clock which nobody sets."""
    monkeypatch.setattr("conductorlite.model.clock.machine_boot", lambda: "")


class SteppedClock:
    """A clock that is not virtual, and passes by being waited for."""

    virtual = False

    def __init__(self) -> None:
        self.at = START

    def now(self) -> int:
        return self.at

    def elapsed(self) -> int:
        return self.at

    def wait(self, wakeup: Any, until: int | None) -> None:
        if until is not None:
            self.at = max(self.at, until)


def handed_out(store: str | None, clock: SteppedClock, *, asynchronous: bool) -> tuple[Engine, Workshop, list[Call], list[int]]:
    """Two windows' tasks with a rate limit, each handed out at its time, none of which was called; and when each is called."""
    workers, called = Workers(), list[int]()

    def charge() -> None:
        called.append(clock.now())

    async def charge_async() -> None:
        called.append(clock.now())

    workers.task("charge")(charge_async if asynchronous else charge)
    engine = Engine(store, clock=clock)
    engine.register(TaskDef(name="charge", rate_limit_per_frequency=RATE, rate_limit_frequency_ms=WINDOW))
    one = WorkflowDef(name="pay", tasks=[WorkflowTask(name="charge", task_reference_name="charge")])
    for _ in range(2 * RATE):
        engine.start(one)
    tasks = engine.poll("charge", count=2 * RATE)
    assert len(tasks) == RATE
    clock.at += WINDOW
    engine.settle()
    tasks += engine.poll("charge", count=2 * RATE)
    assert len(tasks) == 2 * RATE
    [worker] = list(workers)
    return engine, Workshop(engine, workers), [Call(worker, task) for task in tasks], called


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_calls_that_were_late_do_not_meet_those_of_the_next_window(store: str, tmp_path: Any) -> None:
    """The tasks of the first window are called when the second one is handed out: the second ones wait a whole window."""
    clock = SteppedClock()
    engine, workshop, calls, called = handed_out(None if store == "memory" else str(tmp_path / "w.db"), clock, asynchronous=False)
    late = clock.at
    for call in calls:
        workshop.run(call)
    assert called[:RATE] == [late] * RATE
    assert called[RATE:] == [late + WINDOW + 1] * RATE
    workshop.close()
    engine.close()


def test_coroutines_wait_on_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold no thread meanwhile."""
    clock, slept = SteppedClock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.at += round(1000 * seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    engine, workshop, calls, called = handed_out(None, clock, asynchronous=True)
    late = clock.at
    for call in calls:
        workshop.run(call)
    assert called == [late] * RATE + [late + WINDOW + 1] * RATE
    assert slept == [(WINDOW + 1) / 1000]
    workshop.close()
    engine.close()


def test_a_store_that_cannot_be_read_is_no_fault_of_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its hand-out was counted: it is called, and the log says what was not done."""
    clock = SteppedClock()
    engine, workshop, calls, called = handed_out(None, clock, asynchronous=False)

    def unavailable(_: object) -> Terms:
        raise StorageUnavailable("the store is away")

    monkeypatch.setattr(engine.core.polling, "terms_of", unavailable)
    workshop.run(calls[0])
    assert called == [clock.at]
    assert "the rate of 'charge' is not known" in caplog.text
    workshop.close()
    engine.close()
