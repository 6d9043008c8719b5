"""The nightly batch: a week of nights under a virtual clock, and the script as it is run."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from scripts import load, run

from conductorlite import Engine, VirtualClock, WorkflowStatus
from conductorlite.testing import ScriptedWorkers

BATCH = load("nightly_batch/nightly_batch.py")
FIRST = date(2030, 1, 1)


@pytest.fixture
def workers() -> ScriptedWorkers:
    """The batch's own workers."""
    return ScriptedWorkers().include(BATCH.nightly_batch)


def _sales(folder: Path, *days: str) -> None:
    for day in days:
        (folder / f"sales-{day}.csv").write_text("tea,2\ncoffee,1\ntea,3\n", encoding="utf-8")


def _time(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(" ", "minutes")[:16]


def test_every_night_begins_at_two(engine: Engine, clock: VirtualClock, tmp_path: Path) -> None:
    """Each day is added up at 02:00 of the next, night after night."""
    _sales(tmp_path, *(f"2030-01-0{n}" for n in range(1, 8)))
    assert BATCH.go_through(engine, FIRST, 7, tmp_path) == 0
    assert _time(clock.now()) == "2030-01-08 02:00"
    begun = [_time(engine.get(name).task("collect").started_at) for name in engine.admin.workflow_ids()]
    assert begun == [f"2030-01-0{n} 02:00" for n in range(2, 9)]
    assert json.loads((tmp_path / "report-2030-01-07.json").read_text()) == {
        "day": "2030-01-07",
        "totals": {"coffee": 1, "tea": 5},
    }


def test_a_day_is_done_once(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """Going through the same nights again runs nothing again."""
    workers.publish.returns({"report": "r"})
    _sales(tmp_path, "2030-01-01")
    for _ in range(3):
        assert BATCH.go_through(engine, FIRST, 1, tmp_path) == 0
    assert len(workers.publish.calls) == 1


def test_a_file_that_is_late_is_waited_for(engine: Engine, clock: VirtualClock, tmp_path: Path) -> None:
    """When the day's file comes half an hour late, the retries find it; when it never comes, the night fails alone."""
    night = BATCH.night_of(engine, FIRST, tmp_path)
    engine.advance(to="2030-01-02T02:25:00Z")
    _sales(tmp_path, "2030-01-01", "2030-01-03")
    assert night.result()["totals"] == {"coffee": 1, "tea": 5}
    assert _time(clock.now()) == "2030-01-02 02:30"
    assert BATCH.go_through(engine, date(2030, 1, 2), 2, tmp_path) == 1
    assert [str(engine.status(f"nightly-2030-01-0{n}")) for n in (1, 2, 3)] == ["COMPLETED", "FAILED", "COMPLETED"]


@pytest.mark.parametrize("engine_store", ["sqlite"], indirect=True)
def test_another_process_goes_on(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    """A night that was planned by a process that is gone is done by the next one, even late."""
    _sales(tmp_path, "2030-01-01")
    first = make_engine()
    assert BATCH.night_of(first, FIRST, tmp_path).status is WorkflowStatus.RUNNING
    first.close()
    later = make_engine(clock=VirtualClock("2030-01-05T12:00:00Z"))
    assert BATCH.go_through(later, FIRST, 1, tmp_path) == 0
    assert _time(later.clock.now()) == "2030-01-05 12:00"


@pytest.mark.parametrize("engine_store", ["sqlite"], indirect=True)
def test_a_night_that_was_begun_is_gone_on_with(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    """A process that ends in the middle of a night leaves it to the next one, three days later."""
    first = make_engine()
    night = BATCH.night_of(first, FIRST, tmp_path)
    first.advance(to="2030-01-02T02:05:00Z")
    assert night.workflow.task("collect").attempt == 1
    first.close()
    _sales(tmp_path, "2030-01-01")
    later = make_engine(clock=VirtualClock("2030-01-05T12:00:00Z"))
    assert later.run(night.workflow_id).result()["totals"] == {"coffee": 1, "tea": 5}


@pytest.mark.parametrize(("step", "tries"), {"collect": 6, "add_up": 1, "publish": 6}.items())
def test_a_step_that_stays_broken_fails_the_night(
    engine: Engine, workers: ScriptedWorkers, tmp_path: Path, step: str, tries: int
) -> None:
    """What may be late is tried six times, ten minutes and more apart; what cannot be added up is not tried again."""
    _sales(tmp_path, "2030-01-01")
    workers[step].fails_terminally() if tries == 1 else workers[step].fails()
    night = BATCH.night_of(engine, FIRST, tmp_path)
    engine.run_until_idle()
    assert len(workers[step].calls) == tries
    assert (night.status, night.tasks[-1].ref) == (WorkflowStatus.FAILED, step)


def test_a_worker_may_be_silent_for_half_a_minute(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """What is reported after 29 s without a sign of life counts, and the night says what it published."""
    workers.collect.reports_late("29s", {"sales": [["tea", 1]]})
    workers.add_up.reports_late("29s", {"totals": {"tea": 1}})
    workers.publish.reports_late("29s", {"report": "r"})
    assert BATCH.night_of(engine, FIRST, tmp_path).result() == {"report": "r", "totals": {"tea": 1}}
    assert len(workers.calls) == 3


@pytest.mark.slow
def test_the_script_makes_up_for_past_nights(tmp_path: Path) -> None:
    """Run as its README says, the example does the nights that are past at once, and the same again changes nothing."""
    _sales(tmp_path, "2024-05-01", "2024-05-02", "2024-05-03")
    for _ in range(2):
        printed = run("nightly_batch/nightly_batch.py", ".", "--first", "2024-05-01", "--nights", "3", folder=tmp_path)
        assert printed == "".join(f"2024-05-0{n}: {{'coffee': 1, 'tea': 5}}\n" for n in (1, 2, 3))
