"""Timeouts that nobody wrote count only time in which the store was driven; what is written counts by the clock."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import T0, flow, simple, task_def
from hypothesis import given, settings
from hypothesis import strategies as st

from conductorlite import Engine, EngineConfig, TaskStatus, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.engine.driven_time import Driven, measured
from conductorlite.errors import StorageBusy
from conductorlite.model.canonical import EMPTY
from conductorlite.model.executions import HistoryKind
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend, replay

HOUR = 3_600_000

#: Per default: what else is written of the task, so that it comes first; how long it is; whether a worker has the task.
KINDS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "poll_timeout": ({}, HOUR, False),
    "response_timeout": ({}, 600_000, True),
    "timeout": ({"response_timeout_s": 0}, HOUR, True),
}


def one(written: dict[str, Any]) -> WorkflowDef:
    """A workflow of one task of that definition."""
    return flow(simple("t", written or None))


def begun(engine: Engine, kind: str, **more: Any) -> None:
    """An execution `w` whose default deadline begins to count now."""
    written, _, polled = KINDS[kind]
    engine.start(one({**written, **more}), workflow_id="w")
    if polled:
        engine.settle()
        assert engine.poll("t")


def timed_out_at(engine: Engine) -> int | None:
    """When attempt 0 was TIMED_OUT; None when it was not."""
    lines = [line for line in engine.history("w") if line.ref == "t" and line.status == TaskStatus.TIMED_OUT]
    return lines[0].at if lines else None


def kept_open(store: Backend) -> FaultyBackend:
    """A way to the store that can be closed while the store lives on."""
    return FaultyBackend(store, keep_open=True)


class Machine:
    """A real clock set by hand."""

    virtual = False

    def __init__(self) -> None:
        self.at = T0

    def now(self) -> int:
        """Epoch ms."""
        return self.at

    def wait(self, wakeup: threading.Condition, until: int | None) -> None:
        """Time that is waited for has passed."""
        self.at = max(self.at, until or 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_night_times_nothing_out(store: Backend, kind: str) -> None:
    """Eight hours without a process: what is left is put off, the journal tells, and it fires when that has passed."""
    clock = VirtualClock(T0)
    _, length, _ = KINDS[kind]
    with Engine(kept_open(store), clock=clock) as engine:
        begun(engine, kind)
        engine.advance(f"{100_000}ms")
    clock.move_to(T0 + 8 * HOUR)
    with Engine(kept_open(store), clock=clock) as engine:
        assert f"comes in {'8 min 20 s' if length == 600_000 else '58 min 20 s'} of driven time" in str(engine.explain("w"))
        engine.settle()
        told = [line for line in engine.history("w") if line.kind is HistoryKind.POSTPONED]
        assert (kind, "t", length - 100_000) in [(line.status, line.ref, line.number) for line in told]
        assert engine.admin.check() == []
        engine.advance(f"{length - 100_001}ms")
        assert timed_out_at(engine) is None
        engine.advance(f"{1}ms")
        assert timed_out_at(engine) == T0 + 8 * HOUR + length - 100_000
        assert engine.admin.check() == []
        document = engine.admin.export("w")
        lines = len(engine.history("w"))
    again = replay(document)
    assert again.lines == lines
    again.engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_counts_by_the_clock(store: Backend, kind: str) -> None:
    """The same length, written: it is over when somebody comes again."""
    clock = VirtualClock(T0)
    _, length, _ = KINDS[kind]
    with Engine(kept_open(store), clock=clock) as engine:
        begun(engine, kind, **{f"{kind}_s": length / 1000})
    clock.move_to(T0 + 8 * HOUR)
    with Engine(kept_open(store), clock=clock) as engine:
        engine.settle()
        assert timed_out_at(engine) == T0 + 8 * HOUR


def test_registered_and_declared_timeouts_are_written(store: Backend) -> None:
    """Neither a registered definition nor a decorator is a default."""
    workers = Workers()

    @workers.task("t", poll_timeout_seconds=3600)
    def work() -> None:
        """Never called."""

    for registered in (False, True):
        clock = VirtualClock(T0)
        name = f"w{registered}"
        with Engine(kept_open(store), clock=clock, workers=None if registered else workers) as engine:
            if registered:
                engine.register(task_def("t", poll_timeout_s=3600))
            engine.start(one({}), workflow_id=name)
        clock.move_to(T0 + 8 * HOUR)
        with Engine(kept_open(store), clock=clock) as engine:
            engine.settle()
            assert engine.status(name) is WorkflowStatus.TIMED_OUT


def test_downtime_counts_if_asked(store: Backend) -> None:
    """The engine that takes the turn chooses: as on a server, nobody needs to drive for time to pass."""
    clock = VirtualClock(T0)
    with Engine(kept_open(store), clock=clock) as engine:
        begun(engine, "poll_timeout")
    clock.move_to(T0 + 8 * HOUR)
    with Engine(kept_open(store), clock=clock, config=EngineConfig(downtime_counts=True)) as engine:
        assert "overdue" in str(engine.explain("w"))
        engine.settle()
        assert timed_out_at(engine) == T0 + 8 * HOUR


def test_an_event_of_an_older_version_counts_by_the_clock(store: Backend) -> None:
    """It says nothing of driven time, and what was promised when it was set holds."""
    clock = VirtualClock(T0)
    with Engine(kept_open(store), clock=clock) as engine:
        begun(engine, "poll_timeout")
    with store.writing() as tx:
        timers = [attrs.evolve(event, data=EMPTY) for event in tx.inbox.events("w")]
        tx.inbox.post(timers)
    clock.move_to(T0 + 8 * HOUR)
    with Engine(kept_open(store), clock=clock) as engine:
        engine.settle()
        assert timed_out_at(engine) == T0 + 8 * HOUR


def test_a_paused_execution_is_put_off_when_resumed(store: Backend) -> None:
    """A default that came due at night while paused is held, and dated anew by the turn that releases it."""
    clock = VirtualClock(T0)
    with Engine(kept_open(store), clock=clock) as engine:
        begun(engine, "poll_timeout")
        engine.pause("w")
    clock.move_to(T0 + 8 * HOUR)
    with Engine(kept_open(store), clock=clock) as engine:
        engine.settle()
        engine.resume("w")
        engine.settle()
        assert timed_out_at(engine) is None
        assert engine.admin.check() == []
        engine.advance(f"{HOUR}ms")
        assert timed_out_at(engine) == T0 + 9 * HOUR


def test_a_retry_after_a_delay_counts_from_its_offer(store: Backend) -> None:
    """The poll timeout of an attempt that is offered later counts from then, also when nobody drives in between."""
    clock = VirtualClock(T0)
    with Engine(kept_open(store), clock=clock) as engine:
        engine.start(flow(simple("t", start_delay_ms=HOUR)), workflow_id="w")
        engine.advance(f"{HOUR // 2}ms")
    clock.move_to(T0 + 2 * HOUR)
    with Engine(kept_open(store), clock=clock) as engine:
        engine.advance(f"{HOUR - 1}ms")
        assert timed_out_at(engine) is None
        engine.advance(f"{1}ms")
        assert timed_out_at(engine) == T0 + 3 * HOUR


# ---------------------------------------------------------------------- any sequence


Segment = tuple[int, int, int]

segments = st.lists(
    st.tuples(st.integers(0, 40 * 60_000), st.integers(0, 3 * HOUR), st.integers(0, 20 * 60_000)), min_size=1, max_size=6
)


def lived(store: Backend, kind: str, parts: list[Segment], written: dict[str, Any]) -> tuple[int | None, list[tuple[int, int]]]:
    """For each part: an engine drives, a second one a little longer, then nobody; then one for three hours."""
    clock = VirtualClock(T0)
    driven: list[tuple[int, int]] = []
    first = True
    for drive, down, longer in [*parts, (3 * HOUR, 0, 0)]:
        at = clock.now()
        with Engine(kept_open(store), clock=clock) as other:
            with Engine(kept_open(store), clock=clock) as engine:
                if first:
                    begun(engine, kind, **written)
                first = False
                engine.advance(f"{drive}ms")
            other.advance(f"{longer}ms")
            driven.append((at, clock.now()))
            fired = timed_out_at(other)
        if fired is not None:
            return fired, driven
        clock.move_to(clock.now() + down)
    return None, driven


@pytest.mark.parametrize("kind", KINDS)
@given(parts=segments)
@settings(max_examples=12)
def test_it_fires_exactly_when_so_much_was_driven(kind: str, parts: list[Segment]) -> None:
    """Not a millisecond before driven time since its beginning reaches the default, nor after; in memory and in a file alike."""
    length = KINDS[kind][1]
    fired, driven = lived(MemoryBackend(), kind, parts, {})
    left, wanted = length, None
    for begin, end in driven:
        if end - begin >= left:
            wanted = begin + left
            break
        left -= end - begin
    assert fired == wanted


@pytest.mark.parametrize("kind", KINDS)
@given(parts=segments)
@settings(max_examples=8)
def test_a_written_one_fires_by_the_clock(kind: str, parts: list[Segment]) -> None:
    """At its instant, or as soon as somebody drives."""
    length = KINDS[kind][1]
    fired, driven = lived(MemoryBackend(), kind, parts, {f"{kind}_s": length / 1000})
    assert fired == next((max(begin, T0 + length) for begin, end in driven if end >= T0 + length), None)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_what_overlaps_counts_once(stretches: list[tuple[int, int]], begin: int, end: int) -> None:
    """The measure is that of the union."""
    covered = {at for since, until in stretches for at in range(since, until)}
    assert measured(stretches, begin, end) == len(covered & set(range(begin, end)))


# ---------------------------------------------------------------------- real time


def test_a_driver_that_is_killed_loses_less_than_thirty_seconds(store: Backend) -> None:
    """It notes its time as it goes; an engine that only starts, looks and reads notes nothing."""
    clock = Machine()
    engine = Engine(store, clock=clock)
    begun(engine, "poll_timeout")
    for _ in range(1000):
        clock.at += 1_000
        engine.settle()
    onlooker = Engine(kept_open(store), clock=clock)
    clock.at += HOUR
    assert onlooker.status("w") is WorkflowStatus.RUNNING
    onlooker.close()
    with store.reading() as view:
        known = measured(list(view.owners.driven("", 0)), 0, clock.at)
    assert 970_000 < known <= 1_000_000
    engine.close()


def test_who_starts_and_then_drives_puts_nothing_off(store: Backend) -> None:
    """The moment between a start and the first look of the driver is no time without a driver."""
    clock = Machine()
    engine = Engine(store, clock=clock)
    clock.at += HOUR
    begun(engine, "poll_timeout")
    clock.at += 7
    for _ in range(361):
        engine.settle()
        clock.at += 10_000
    assert timed_out_at(engine) == T0 + 2 * HOUR + 7
    assert not [line for line in engine.history("w") if line.kind is HistoryKind.POSTPONED]
    engine.close()


def test_a_machine_that_sleeps_drives_nothing(store: Backend) -> None:
    """A loop that did not look for hours was not there, though its process never ended."""
    clock = Machine()
    engine = Engine(store, clock=clock)
    begun(engine, "poll_timeout")
    engine.settle()
    clock.at += 8 * HOUR
    engine.settle()
    assert timed_out_at(engine) is None
    for _ in range(361):
        clock.at += 10_000
        engine.settle()
    assert timed_out_at(engine) is not None
    engine.close()


def test_a_clock_that_is_set_back_loses_nothing(store: Backend) -> None:
    """What was driven before and after both count."""
    clock = Machine()
    engine = Engine(kept_open(store), clock=clock)
    for step in (10_000, 10_000, -HOUR, 10_000, 10_000):
        clock.at += step
        engine.settle()
    engine.close()
    with store.reading() as view:
        assert sum(end - begin for begin, end in view.owners.driven("", 0)) == 30_000


def test_a_store_that_cannot_be_written_is_not_waited_for_all_the_time(store: Backend) -> None:
    """Noting that fails is tried again later, and costs the driver nothing."""
    clock = Machine()
    asked = 0

    def busy() -> None:
        nonlocal asked
        asked += 1
        raise StorageBusy("held")

    backend = kept_open(store)
    driven = Driven(backend, clock, "", downtime_counts=False)
    backend.on_writing = busy
    for _ in range(60):
        clock.at += 1_000
        driven.look(clock.now())
    assert 1 <= asked <= 3
    backend.on_writing = None
    driven.note()
    with store.reading() as view:
        assert list(view.owners.driven("", 0)) == [(T0 + 1_000, T0 + 60_000)]


# ---------------------------------------------------------------------- whose drivers count


def test_only_its_own_engine_drives_what_is_kept_to_itself(store: Backend) -> None:
    """While engine `a` is away, the work of `b` does not let the defaults of `a` run out; `b` takes over, and they begin anew."""
    clock = VirtualClock(T0)

    def named(name: str) -> Engine:
        return Engine(kept_open(store), clock=clock, config=EngineConfig(name=name, allocation="local"))

    with named("a") as engine:
        begun(engine, "poll_timeout")
    with named("b") as other:
        other.advance(f"{8 * HOUR}ms")
    with named("a") as engine:
        engine.settle()
        assert timed_out_at(engine) is None
    with named("b") as other:
        other.advance(f"{8 * HOUR}ms")
        other.admin.take_over("a")
        other.settle()
        assert timed_out_at(other) is None
        other.advance(f"{HOUR}ms")
        assert timed_out_at(other) == T0 + 17 * HOUR


def test_it_is_kept_in_the_file(tmp_path: Path) -> None:
    """Also by a copy: it goes on from what was driven when it was made."""
    clock = VirtualClock(T0)
    with Engine(tmp_path / "w.db", clock=clock) as engine:
        begun(engine, "poll_timeout")
        engine.advance(f"{HOUR // 2}ms")
    with Engine(tmp_path / "w.db", clock=clock) as engine:
        engine.admin.backup(tmp_path / "copy.db")
    clock.move_to(T0 + 8 * HOUR)
    with Engine(SQLiteBackend(tmp_path / "copy.db"), clock=clock) as engine:
        engine.run_until_idle()
        assert timed_out_at(engine) == T0 + 8 * HOUR + HOUR // 2
