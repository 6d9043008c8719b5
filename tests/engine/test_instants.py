"""Every place where a point in time enters takes what names its time zone, and refuses what does not."""

from __future__ import annotations

import asyncio
import time as machine
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.cli import main
from conductorlite.flows import flow, wait
from conductorlite.model.errors import BuildError, InvalidDefinition, InvalidInput
from conductorlite.model.schedules import StartWorkflowRequest, WorkflowSchedule
from conductorlite.model.texts import to_instant
from conductorlite.testing.history import History
from conductorlite.testing.server import ConductorServer

#: 2029-12-31T22:00Z: before the clock of these tests, so that what may lie in the past only takes it too.
AT = 1_893_448_800_000

NOOP = WorkflowDef(name="w", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")])
REQUEST = StartWorkflowRequest(name="w")


class Nowhere(tzinfo):
    """A zone that does not say how far it is from UTC: by Python's rule the datetime is naive."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def __repr__(self) -> str:
        return "Nowhere()"


class NotATime(datetime):
    """As pandas' NaT: a datetime that is none, and whose methods answer something else."""

    def utcoffset(self) -> Any:
        return self

    def timestamp(self) -> float:
        return float("nan")


class Timestamp(datetime):
    """As pandas' Timestamp: differences of it are no timedeltas."""

    def __sub__(self, other: Any) -> Any:
        raise TypeError("a Timedelta")


NAIVE = [
    datetime(2029, 12, 31, 22),
    datetime(2029, 12, 31, 22, tzinfo=Nowhere()),
    Timestamp(2029, 12, 31, 22),
    NotATime(1, 1, 1),
    date(2029, 12, 31),
    time(22),
    time(22, tzinfo=UTC),
    "2029-12-31T22:00:00",
    "2029-12-31 22:00",
    "2029-12-31",
    "22:00",
    "2029-12-31 22:00 America/New_York",
    "2029-12-31T22:00[Europe/Berlin]",
]

AWARE = [
    AT,
    datetime(2029, 12, 31, 22, tzinfo=UTC),
    Timestamp(2029, 12, 31, 17, tzinfo=timezone(timedelta(hours=-5))),
    "2029-12-31T22:00:00Z",
    "2029-12-31T17:00-05:00",
]


def started(engine: Engine, at: Any) -> None:
    engine.start(NOOP, at=at)


def started_by_options(engine: Engine, at: Any) -> None:
    engine.start_and_wait(NOOP, at=at)


def awaited(engine: Engine, at: Any) -> None:
    async def start() -> None:
        async with AsyncEngine(clock=VirtualClock(AT)) as other:
            await other.start(NOOP, at=at)

    asyncio.run(start())


def advanced(engine: Engine, at: Any) -> None:
    with Engine(clock=VirtualClock(0)) as other:
        other.advance(to=at)


def served(engine: Engine, at: Any) -> None:
    with Engine(clock=VirtualClock(0)) as other:
        ConductorServer(other).advance(to=at)


def made(engine: Engine, at: Any) -> None:
    assert VirtualClock(at).now() == AT


def moved(engine: Engine, at: Any) -> None:
    VirtualClock(0).move_to(at)


def previewed(engine: Engine, at: Any) -> None:
    engine.schedules.preview("@daily", 1, after=at)


def filled_from(engine: Engine, at: Any) -> None:
    engine.schedules.backfill("s", at, AT + 1)


def filled_to(engine: Engine, at: Any) -> None:
    engine.schedules.backfill("s", AT - 1, at)


def scheduled(engine: Engine, at: Any) -> None:
    assert WorkflowSchedule(name="o", at=at, start_workflow_request=REQUEST).at == AT


def scheduled_from(engine: Engine, at: Any) -> None:
    WorkflowSchedule(name="o", interval_ms=1_000, schedule_start_time=at, start_workflow_request=REQUEST)


def scheduled_to(engine: Engine, at: Any) -> None:
    WorkflowSchedule(name="o", interval_ms=1_000, schedule_end_time=at, start_workflow_request=REQUEST)


def forgotten(engine: Engine, at: Any) -> None:
    engine.events.remove_executions(at)


def searched(engine: Engine, at: Any) -> None:
    engine.search(f"startTime >= '{at}'" if isinstance(at, str) else f"startTime >= {to_instant(at)}")


def searched_between(engine: Engine, at: Any) -> None:
    engine.tasks.search(f"endTime BETWEEN 0 AND '{at if isinstance(at, str) else to_instant(at)}'")


def looked_back(engine: Engine, at: Any) -> None:
    with Engine(clock=VirtualClock(AT)) as other:
        run = other.start(NOOP)
        assert History(run).at(at).status == "COMPLETED"


def waited(engine: Engine, at: Any) -> None:
    @flow
    def late() -> None:
        wait(until=at)

    assert late.definition.tasks[0].input_parameters["until"] == "2029-12-31 22:00 UTC"


ENTRIES: list[Callable[[Engine, Any], None]] = [
    started, started_by_options, awaited, advanced, served, made, moved, previewed, filled_from, filled_to, scheduled,
    scheduled_from, scheduled_to, forgotten, searched, searched_between, looked_back, waited,
]  # fmt: skip

#: Conductor's own text of a WAIT, in which a zone may be left out: it is UTC.
WAITS = {"2029-12-31 22:00", "2029-12-31"}


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose wall clock shows New York's time."""
    monkeypatch.setenv("TZ", "America/New_York")
    machine.tzset()
    yield
    monkeypatch.undo()
    machine.tzset()


@pytest.fixture
def engine(in_new_york: None) -> Iterator[Engine]:
    with Engine(clock=VirtualClock(AT + 7_200_000)) as engine:
        engine.register(NOOP)
        engine.schedules.save(WorkflowSchedule(name="s", interval_ms=60_000, start_workflow_request=REQUEST))
        yield engine


@pytest.mark.parametrize("value", NAIVE, ids=repr)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
def test_what_names_no_zone_is_refused(entry: Callable[[Engine, Any], None], value: Any, engine: Engine) -> None:
    """Nothing is read as UTC or as local time, and the error says what to write."""
    if entry is waited and isinstance(value, str) and value in WAITS:
        pytest.skip("Conductor's own form of a WAIT")
    kind = BuildError if entry is waited else InvalidInput  # of a flow, with the line
    with pytest.raises(kind, match=r"give epoch ms or ISO 8601 text with an offset .* or a datetime with a time zone"):
        entry(engine, value)


@pytest.mark.parametrize("value", AWARE, ids=repr)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
def test_what_names_a_zone_is_the_instant_it_names(entry: Callable[[Engine, Any], None], value: Any, engine: Engine) -> None:
    """An offset and a zone count, whatever the machine's zone is."""
    entry(engine, value)


@pytest.mark.parametrize("value", [value for value in NAIVE if isinstance(value, str)])
def test_texts_from_documents_and_commands(
    value: str, in_new_york: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule as JSON, and the command line, by the same rule."""
    with pytest.raises((InvalidInput, InvalidDefinition), match="ISO 8601 text with an offset"):
        WorkflowSchedule.from_json({"name": "s", "scheduleStartTime": value, "startWorkflowRequest": {"name": "w"}})
    store = str(tmp_path / "s.db")
    with Engine(store) as engine:
        engine.register(NOOP)
        engine.schedules.save(WorkflowSchedule(name="s", interval_ms=60_000, start_workflow_request=REQUEST))
    for arguments in (["schedule", "backfill", "s", value, "0"], ["search", f"startTime > '{value}'"]):
        assert main([*arguments, "--db", store]) == 2
        assert "ISO 8601 text with an offset" in capsys.readouterr().err


def test_a_datetime_of_now_starts_in_an_hour(engine: Engine) -> None:
    """What `astimezone` makes of a local reading is the instant that was meant; the naive reading is refused."""
    now = datetime.fromtimestamp(engine.clock.now() / 1_000)
    assert now.hour == 19  # in New York
    with pytest.raises(InvalidInput, match="astimezone"):
        engine.start(NOOP, at=now + timedelta(hours=1))
    run = engine.start(NOOP, at=now.astimezone() + timedelta(hours=1))
    engine.advance("59m")
    assert run.status == "RUNNING"
    engine.advance("1m")
    assert run.status == "COMPLETED"


def test_a_wait_of_a_flow_is_a_whole_minute(engine: Engine) -> None:
    """Conductor's WAIT knows no seconds: they are refused while the flow is built, never dropped."""

    @flow
    def late() -> None:
        wait(until=AT + 1_000)

    with pytest.raises(BuildError, match="no whole minute"):
        _ = late.definition
