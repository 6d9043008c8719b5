"""Every write: a process that dies before or after any of them starts nothing twice and passes over nothing."""

from __future__ import annotations

import pytest

from conductorlite import Engine, OverlapPolicy, StartWorkflowRequest, WorkflowDef, WorkflowSchedule, WorkflowTask
from conductorlite.testing import crash_everywhere

#: On three stores: some deaths in the fast run, together each death in CI, each store each death in the deep run.
EVERY = pytest.mark.parametrize("every", [19, pytest.param(3, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.deep)])

#: The virtual clock begins at 2030-01-01T00:00Z.
T0 = 1_893_456_000_000


def flow(name: str, *durations: str) -> WorkflowDef:
    """WAITs, one after another."""
    tasks = [
        WorkflowTask(name=f"w{n}", task_reference_name=f"w{n}", type="WAIT", input_parameters={"duration": duration})
        for n, duration in enumerate(durations)
    ]
    return WorkflowDef(name=name, tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP"), *tasks])


def schedule(name: str, definition: WorkflowDef, **fields: object) -> WorkflowSchedule:
    """Every minute for three minutes."""
    request = StartWorkflowRequest(workflow_def=definition)
    bounds = {"schedule_start_time": T0, "schedule_end_time": T0 + 180_000}
    return WorkflowSchedule(name=name, interval_ms=60_000, start_workflow_request=request, **{**bounds, **fields})  # type: ignore[arg-type]


def upto(engine: Engine, second: int) -> None:
    """Go on to a second of the scenario, if it is not later already."""
    if engine.clock.now() < T0 + second * 1000:
        engine.advance(to=T0 + second * 1000)
    else:
        engine.settle()


@pytest.mark.parametrize(
    ("policy", "runs"),
    [(OverlapPolicy.SKIP, 2), (OverlapPolicy.BUFFER_ONE, 3), (OverlapPolicy.BUFFER_ALL, 3), (OverlapPolicy.TERMINATE_OTHER, 3)],
)
@EVERY
def test_every_policy(policy: OverlapPolicy, runs: int, every: int) -> None:
    """A schedule with an overlap policy, of a workflow that takes longer than a minute."""

    def scenario(engine: Engine) -> None:
        engine.schedules.save(schedule("s", flow("f", "100s"), overlap_policy=policy))
        upto(engine, 1_000)
        assert len(list(engine.admin.workflow_ids())) == runs
        assert engine.admin.agenda() == []

    assert crash_everywhere(scenario, every=every) > 50 // every


def test_the_policies_are_all() -> None:
    """Only ALLOW_ALL, which starts whatever runs, is not among them."""
    assert len(OverlapPolicy) == 5


@EVERY
def test_pause_and_backfill(every: int) -> None:
    """Paused for all but the first instant, which are then started one after another."""

    def scenario(engine: Engine) -> None:
        engine.schedules.save(schedule("s", flow("f", "100s")))
        upto(engine, 61)
        if engine.clock.now() == T0 + 61_000:
            engine.schedules.pause("s", "for a while")
        upto(engine, 400)
        if engine.schedules.get("s").paused:
            if not engine.schedules.get("s").backfills:
                engine.schedules.backfill("s", T0 + 60_000, T0 + 180_000, overlap_policy=OverlapPolicy.BUFFER_ALL)
            engine.schedules.resume("s")
        upto(engine, 1_000)
        assert len(list(engine.admin.workflow_ids())) == 3
        assert engine.schedules.get("s").backfills == ()
        assert engine.admin.agenda() == []

    assert crash_everywhere(scenario, every=every) > 60 // every


@EVERY
def test_downtime(every: int) -> None:
    """Catch-up, coalescing and a grace, after a quarter of an hour without a driver."""

    def scenario(engine: Engine) -> None:
        for name, fields in (
            ("each", {"run_catchup_schedule_instances": True}),
            ("last", {}),
            ("none", {"misfire_grace_ms": 1_000}),
        ):
            engine.schedules.save(schedule(name, flow(name), **fields))
        if engine.clock.now() == T0:
            engine.clock.move_to(T0 + 900_000)  # type: ignore[attr-defined]
        engine.settle()
        assert [one.rpartition("-")[0] for one in engine.admin.workflow_ids()] == ["each"] * 3 + ["last"]
        assert engine.admin.agenda() == []

    assert crash_everywhere(scenario, every=every) > 60 // every
