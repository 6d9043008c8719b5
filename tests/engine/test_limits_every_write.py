"""Limits and crashes: whoever dies before or after any write leaves every slot with exactly one holder.

Three executions share one slot of a task and one of their key: one fails and is retried behind another, one is terminated while it
waits, one puts its task back. Killed at every write, the store at reopening is that of the last commit, limits and lines included,
and the end is the same. A second scenario is a window.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from crash_kit import EVERY_DEATH, STORES, crash_families
from engine_kit import flow, fork, join
from limits_kit import keyed, limited

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.model.executions import HistoryKind
from conductorlite.testing import ScriptedWorkers, start_once

_LIVES: dict[str, Any] = {"retry_count": 5, "retry_delay_s": 2, "response_timeout_s": 10}

#: One slot for two branches, so that a line forms whoever comes first.
CROWD = flow(
    fork("f", [limited("a", "work", k=1, **_LIVES)], [limited("b", "work", k=1, **_LIVES)]),
    join("j", "a", "b"),
    limited("last", k=1, **_LIVES),
    name="crowd",
    rate_limit_config=keyed(1, "k"),
)


def script(workers: ScriptedWorkers) -> None:
    """The world outside: the last task of the first fails for good once, that of the next comes back later."""
    workers.work.returns({})
    workers.last.fails_terminally("no", times=1).then.callback("3s", {"so": "far"}).then.returns({"done": True})


def scenario(engine: Engine) -> None:
    """Start three, terminate the one that waits in the middle, retry what failed; each step unless it was taken."""
    first, second, _ = [start_once(engine, CROWD, workflow_id=f"crowd-{number}") for number in range(3)]
    if second.status is WorkflowStatus.RUNNING and first.status is WorkflowStatus.RUNNING:
        engine.terminate("crowd-1")
    engine.settle()
    while first.status is WorkflowStatus.RUNNING:
        engine.advance("1s")
    retried = sum(line.kind is HistoryKind.WORKFLOW and line.status == "RUNNING" for line in engine.history("crowd-0")) > 1
    if not retried and not first.workflow.rate_limited:
        engine.retry("crowd-0")
    engine.run_until_idle()


WINDOW = WorkflowDef(
    name="window",
    tasks=[limited(f"t{number}", "beat", rate=1, per_s=5, retry_count=3, response_timeout_s=8) for number in range(2)],
)


def beat(workers: ScriptedWorkers) -> None:
    """The world outside."""
    workers.beat.returns({})


def windows(engine: Engine) -> None:
    """Two executions of two tasks, one of which may begin in any five seconds."""
    for number in range(2):
        start_once(engine, WINDOW, workflow_id=f"window-{number}")
    engine.run_until_idle()


def test_the_scenarios_take_every_way_they_should() -> None:
    """Undisturbed, there are lines for both limits, a slot that goes from one execution to another, and a retry that waits."""
    workers = ScriptedWorkers()
    script(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        waited = 0

        def look(*_: object) -> None:
            nonlocal waited
            first = engine.get("crowd-0") if "crowd-0" in engine.admin.workflow_ids() else None
            waited += first is not None and first.status.terminal and first.rate_limited

        engine.listen(look)
        scenario(engine)
        assert waited
        assert [str(engine.status(f"crowd-{number}")) for number in range(3)] == ["COMPLETED", "TERMINATED", "COMPLETED"]
        told = [str(line.status) for each in engine.admin.workflow_ids() for line in engine.history(each) if line.ref == "b"]
        assert "PENDING" in told
    workers = ScriptedWorkers()
    beat(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        windows(engine)
        instants = sorted(
            line.at for each in engine.admin.workflow_ids() for line in engine.history(each) if line.status == "SCHEDULED"
        )
        assert [later - earlier for earlier, later in pairwise(instants)] == [5_000] * 3


@pytest.mark.parametrize(("store", "every"), STORES)
def test_a_crowd_survives_a_crash_at_any_write(store: str, every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, with members and lines as they were; every execution ends as if nothing had happened."""
    points = crash_families(scenario, script, stores=[store], every=every)
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    assert points >= 80 // every


@pytest.mark.parametrize(("store", "every"), [pytest.param("relay", 13, marks=pytest.mark.slow), *EVERY_DEATH])
def test_a_window_survives_a_crash_at_any_write(store: str, every: int) -> None:
    """The alarm of a window is in the commit that needs it: nobody waits for an event that a dead process should have sent."""
    assert crash_families(windows, beat, stores=[store], every=every) >= 40 // every


#: Two tenants in turn at one slot, the second with three turns for one of the first.
TURNS = flow(limited("t", "serve", k=1, fairness_key="${workflow.input.tenant}", fairness_weights={"y": 3}, **_LIVES), name="turns")


def serve(workers: ScriptedWorkers) -> None:
    """The world outside: the first call fails once, and is tried again at its turn."""
    workers.serve.fails(times=1).then.returns({})


def turns(engine: Engine) -> None:
    """Start three of each tenant, and terminate one that waits."""
    for tenant in "xy":
        for number in range(3):
            start_once(engine, TURNS, {"tenant": tenant}, workflow_id=f"{tenant}-{number}")
    if engine.status("x-2") is WorkflowStatus.RUNNING and engine.status("x-1") is WorkflowStatus.RUNNING:
        engine.terminate("x-2")
    engine.run_until_idle()


@pytest.mark.parametrize(("store", "every"), [pytest.param("relay", 13, marks=pytest.mark.slow), *EVERY_DEATH])
def test_turns_survive_a_crash_at_any_write(store: str, every: int) -> None:
    """The tags of keys are in the commit that lets in: at reopening they are those of the last commit, and the laws hold."""
    assert crash_families(turns, serve, stores=[store], every=every) >= 40 // every
