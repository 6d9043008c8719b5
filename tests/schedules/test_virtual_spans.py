"""A month and a year of five expressions in three zones, with the changes of the clocks: started exactly when a walk over every
minute says, in memory and in a file, with crashes in between and two processes that compete."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from brute_force import EXPRESSIONS, SCHEDULES, Span

from conductorlite import Engine, StartWorkflowRequest, VirtualClock, WorkflowDef, WorkflowSchedule, WorkflowStatus, WorkflowTask
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import Crash, FaultyBackend

DAY = 86_400_000
ROOT = Path(__file__).parents[2]


def save_all(engine: Engine) -> None:
    """The five schedules of one workflow."""
    engine.register(WorkflowDef(name="report", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")]))
    for name, (key, zone_id) in SCHEDULES.items():
        request = StartWorkflowRequest(name="report")
        text = EXPRESSIONS[key].text
        engine.schedules.save(WorkflowSchedule(name=name, cron_expression=text, zone_id=zone_id, start_workflow_request=request))


def look(store: Backend, span: Span) -> None:
    """Every instant has its execution, which began at it; there is no other, and no event but the five timers."""
    with Engine(store, clock=VirtualClock(span.end)) as engine:
        rows = {one: engine.core.queries.execution(one) for one in engine.admin.workflow_ids()}
        assert Counter({one: row.created_at for one, row in rows.items()}) == Counter(span.expected)
        assert {row.status for row in rows.values()} == {WorkflowStatus.COMPLETED}
        assert len(engine.admin.agenda()) == len(SCHEDULES)


def test_the_span_is_what_it_should_be(span: Span) -> None:
    """The changes are in it: 8,760 hours, 365 nights, 12 months, 52 Sundays and their quarters, half an hour twice in spring."""
    counted = Counter(name.rpartition("-")[0] for name in span.expected)
    assert counted == (
        {"hourly": 8_760, "nightly": 365, "monthly": 12, "weekly": 52, "quarters": 52 * 16}
        if span.share == 1
        else {"hourly": 720, "nightly": 30, "monthly": 1, "weekly": 5, "quarters": 5 * 16 + 2}
    )


@pytest.mark.parametrize("relay", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_in_memory_with_crashes(span: Span, relay: bool) -> None:
    """Killed before a write and after one, twice each, it goes on where it was."""
    inner = MemoryBackend(relay=relay)
    clock = VirtualClock(span.start)
    save_all(Engine(inner, clock=clock))
    for trap in ({"crash_before": 3_001}, {"crash_after": 4_000}, {"crash_before": 2_222}, {"crash_after": 2_999}, {}):
        deaths = {side: round(write * span.share) for side, write in trap.items()}
        backend = FaultyBackend(inner, keep_open=True, **deaths)  # type: ignore[arg-type]
        engine = Engine(backend, clock=clock)
        save_all(engine)  # as a program does whenever it starts
        if deaths:
            with pytest.raises(Crash):
                engine.advance(to=span.end)
        else:
            engine.advance(to=span.end)
    look(inner, span)


@contextmanager
def process(path: Path, start: int) -> Iterator[subprocess.Popen[str]]:
    """A process that drives the store."""
    command = [sys.executable, str(Path(__file__).with_name("year_process.py")), str(path), str(start)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def tell(running: subprocess.Popen[str], until: int) -> None:
    """Have a process go on to an instant."""
    assert running.stdin is not None
    running.stdin.write(f"{until}\n")
    running.stdin.flush()


def answer(running: subprocess.Popen[str]) -> int:
    """How many executions a process has begun, once it is there."""
    assert running.stdout is not None
    return int(running.stdout.readline())


@pytest.mark.slow
def test_in_a_file_with_two_processes(span: Span, tmp_path: Path) -> None:
    """Both drive the same file, a seventieth of the span at a time; one is killed in the middle and another takes its place."""
    path = tmp_path / "span.db"
    with Engine(SQLiteBackend(path), clock=VirtualClock(span.start)) as engine:
        save_all(engine)
    step = (span.end - span.start) // 70
    instants = [span.end - step * left for left in range(69, -1, -1)]
    before, after = instants[:36], instants[36:]
    share = 200 * span.share
    with process(path, span.start) as one:
        with process(path, span.start) as two:
            for until in before:
                for each in (one, two):
                    tell(each, until)
                if until == before[-1]:
                    two.kill()
                    break
                counts = [answer(one), answer(two)]
            assert min(counts) > share  # both had their share
        assert answer(one) > 0
        with process(path, before[-1] - step) as three:
            for until in after:
                for each in (one, three):
                    tell(each, until)
                counts = [answer(one), answer(three)]
            assert counts[1] > share
    look(SQLiteBackend(path), span)
