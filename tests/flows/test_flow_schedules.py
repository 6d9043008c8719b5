"""Schedules that a flow makes of itself."""

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import BuildError, InvalidInput


@task
def count(shop: str, days: int) -> str:
    return f"{shop} {days}"


@flow(version=3)
def report(shop: str, days: int = 7) -> str:
    return count(shop, days)


@pytest.fixture(params=["memory", "sqlite"])
def engine(request, tmp_path):
    """An engine on each store that has the flow."""
    path = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(path, workers=[report], clock=VirtualClock("2030-01-01T00:00:00Z")) as made:
        yield made


def test_a_flow_is_started_each_week(engine):
    """A saved schedule starts its flow at each instant, in its time zone and its version."""
    engine.schedules.save(report.schedule("0 9 * * MON", input={"shop": "Rome"}, zone_id="Europe/Rome"))
    engine.advance("14d")
    rows = engine.executions("report")
    assert [(row.version, engine.run(report, row.workflow_id).result()) for row in rows] == [(3, "Rome 7")] * 2
    assert sorted(row.workflow_id for row in rows) == ["report-20300107T080000Z", "report-20300114T080000Z"]


def test_a_schedule_says_what_a_start_says(engine):
    """Options of a start hold for the executions of a schedule."""
    made = report.options(correlation_id="c", priority=4).schedule(name="soon", at="2030-01-02T00:00:00Z", input={"shop": "Oslo"})
    engine.schedules.save(made)
    engine.advance("2d")
    (row,) = engine.executions("report")
    assert (row.correlation_id, row.priority, row.workflow_id.startswith("soon")) == ("c", 4, True)


@pytest.mark.parametrize(
    ("made", "error", "text"),
    [
        (lambda: report.schedule("0 9 * * MON"), InvalidInput, "flow 'report': shop: is missing"),
        (lambda: report.schedule("0 9 * * MON", input={"shop": 5}), InvalidInput, "shop: expected str, got 5"),
        (lambda: report.schedule("0 9 * * MON", input={"shp": "x"}), BuildError, "no argument 'shp'; did you mean 'shop'?"),
        (lambda: report.schedule("0 9 * * MON", zone="UTC"), BuildError, "no option 'zone'; did you mean 'zone_id'?"),
        (lambda: report.options(workflow_id="x").schedule("0 9 * * MON"), BuildError, "'workflow_id' is said of one start"),
    ],
)
def test_mistakes(made, error, text):
    """A wrong argument is refused with a text that says what is wrong."""
    with pytest.raises(error) as caught:
        made()
    assert text in str(caught.value)
