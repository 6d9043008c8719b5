"""Unit tests of the order saga, under a virtual clock and with scripted workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import load, run

from conductorlite import Engine, Run, TaskStatus, VirtualClock, WorkflowStatus
from conductorlite.testing import ScriptedWorkers

SAGA = load("order_saga/order_saga.py")
SECOND, DAY = 1_000, 86_400_000


@pytest.fixture
def workers() -> ScriptedWorkers:
    """The saga's own workers; a test scripts those that it wants to fail."""
    return ScriptedWorkers().include(SAGA.order_saga)


def _begin(engine: Engine) -> Run:
    return engine.start(SAGA.order_saga, order="kettle", amount=30)


def _refs(run: Run) -> list[str]:
    """References of the worker's tasks, in the order in which they were first scheduled."""
    operators = ("SWITCH", "WAIT")
    return list(dict.fromkeys(task.ref for task in run.workflow.tasks if task.task_type not in operators))


def test_an_order_is_closed_after_thirty_days(engine: Engine, clock: VirtualClock) -> None:
    """A shipped order is open for thirty days to the millisecond, and then fulfilled."""
    run = _begin(engine)
    engine.advance(f"{30 * DAY - 1}ms")
    assert run.status is WorkflowStatus.RUNNING
    engine.advance("1ms")
    assert run.result() == {"outcome": "fulfilled"}
    assert _refs(run) == ["reserve", "charge", "ship", "close"]


def test_a_bank_that_does_not_answer_is_asked_again(engine: Engine, workers: ScriptedWorkers) -> None:
    """Two failed charges cost 20 s and 40 s, and every attempt has the same idempotency key."""
    workers.charge_card.fails(2, reason="503").then.returns({"receipt": "r"})
    run = _begin(engine)
    engine.settle()
    first = workers.charge_card.calls[0].at
    engine.advance("60s")
    assert [one.at - first for one in workers.charge_card.calls] == [0, 20 * SECOND, 60 * SECOND]
    assert len({one.idempotency_key for one in workers.charge_card.calls}) == 1
    assert run.workflow.task("ship").status is TaskStatus.COMPLETED


def test_a_charge_that_hangs_is_timed_out_and_repeated(engine: Engine, workers: ScriptedWorkers) -> None:
    """A charge that lives but does not end is given up after 60 s and tried again 20 s later."""
    workers.charge_card.hangs(1).then.returns({"receipt": "r"})
    run = _begin(engine)
    engine.advance("79s")
    assert len(workers.charge_card.calls) == 1
    engine.advance("1s")
    assert len(workers.charge_card.calls) == 2
    assert [t.status for t in run.workflow.tasks if t.ref == "charge"] == [TaskStatus.TIMED_OUT, TaskStatus.COMPLETED]


def test_a_lost_worker_is_missed(engine: Engine, workers: ScriptedWorkers) -> None:
    """A worker that dies while it ships is missed after 30 s, and the parcel goes an hour later."""
    workers.ship_parcel.crashes(1).then.returns({"parcel": "p"})
    run = _begin(engine)
    engine.advance("30s")
    assert run.workflow.task("ship").status is TaskStatus.SCHEDULED
    engine.advance("1h")
    assert run.workflow.task("ship").status is TaskStatus.COMPLETED
    assert [one.attempt for one in workers.ship_parcel.calls] == [0, 1]


def test_what_cannot_be_shipped_is_refunded_and_released(engine: Engine, workers: ScriptedWorkers) -> None:
    """When shipping fails for good, the money goes back first, then the stock, and the order is cancelled."""
    workers.ship_parcel.fails_terminally("nothing left")
    workers.refund.returns()
    workers.release_stock.returns()
    run = _begin(engine)
    assert run.result() == {"outcome": "cancelled"}
    assert _refs(run) == ["reserve", "charge", "ship", "refund", "release_unshipped", "close"]
    assert workers.refund.inputs == [{"receipt": "r-kettle"}]
    assert workers.release_stock.inputs == [{"order": "kettle"}]


@pytest.mark.parametrize("how", ["fails", "hangs", "crashes"])
def test_what_cannot_be_charged_is_released(engine: Engine, workers: ScriptedWorkers, how: str) -> None:
    """However four charges come to nothing, the stock is released, nothing is shipped and nothing refunded."""
    getattr(workers.charge_card, how)()
    run = _begin(engine)
    assert run.result() == {"outcome": "cancelled"}
    assert _refs(run) == ["reserve", "charge", "release_unpaid", "close"]
    assert len(workers.charge_card.calls) == 4


def test_a_compensation_is_tried_until_it_succeeds(engine: Engine, workers: ScriptedWorkers, clock: VirtualClock) -> None:
    """A refund that fails for two days is made in the end, before the stock is released."""
    workers.ship_parcel.fails_terminally()
    workers.refund.fails(48).then.returns()
    began = clock.now()
    run = _begin(engine)
    assert run.result() == {"outcome": "cancelled"}
    assert clock.now() - began == 2 * DAY
    assert _refs(run)[-2:] == ["release_unshipped", "close"]


#: Tasks with how often each is tried again, after how long, and what is to fail for the saga to come to it.
TRIED = {
    "reserve_stock": (3, 5, None),
    "charge_card": (3, 20, None),
    "ship_parcel": (2, 3600, None),
    "refund": (168, 3600, "ship_parcel"),
    "release_stock": (168, 3600, "ship_parcel"),
    "release_stock unpaid": (168, 3600, "charge_card"),
    "close_order": (3, 5, None),
}


@pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
@pytest.mark.parametrize("step", [pytest.param(one, marks=pytest.mark.slow if TRIED[one][0] > 100 else ()) for one in TRIED])
def test_every_step_is_tried_as_often_as_it_says(engine: Engine, workers: ScriptedWorkers, step: str) -> None:
    """And no oftener; then a step that must succeed has failed the saga, and one that may fail leads to another end."""
    retries, delay, broken = TRIED[step]
    name = step.partition(" ")[0]
    for undo in ("refund", "release_stock"):
        workers[undo].returns().optional() if undo != name else None
    if broken is not None:
        workers[broken].fails_terminally()
    workers[name].fails()
    run = _begin(engine)
    engine.run_until_idle()
    assert len(workers[name].calls) == retries + 1
    first, second, *_ = (one.at for one in workers[name].calls)
    assert second - first == delay * SECOND
    ended = WorkflowStatus.COMPLETED if name in ("charge_card", "ship_parcel") else WorkflowStatus.FAILED
    assert run.status is ended


@pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
def test_a_worker_may_be_silent_for_half_a_minute(engine: Engine, workers: ScriptedWorkers) -> None:
    """A charge and a shipment that report after 29 s without a sign of life count."""
    workers.charge_card.reports_late("29s", {"receipt": "r"})
    workers.ship_parcel.reports_late("29s", {"parcel": "p"})
    assert _begin(engine).result() == {"outcome": "fulfilled"}
    assert len(workers.charge_card.calls) == len(workers.ship_parcel.calls) == 1


def test_the_script_tells_both_stories(tmp_path: Path) -> None:
    """The example, run as its README says, fulfils one order and cancels the other."""
    warning = (
        "order_saga (teapot): ship (order_saga.py:58), attempt 1, FAILED_WITH_TERMINAL_ERROR: the last teapot fell off the shelf"
    )
    printed = run("order_saga/order_saga.py", folder=tmp_path, logged=warning)
    assert "kettle: fulfilled after 30 days" in printed
    assert "refunded r-teapot\nteapot: back in stock\nteapot: cancelled after 0 days" in printed
