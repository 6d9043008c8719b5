"""Functions that a virtual clock has called at instants: what people and other systems do, said before the run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import ClockError, InvalidInput, WouldDeadlock
from conductorlite.testing import ScriptedWorkers

HOUR = 3_600_000


def node(kind: str, ref: str, **fields: object) -> WorkflowTask:
    """A task of the decider's own."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)  # type: ignore[arg-type]


ASKED = WorkflowDef(name="asked", tasks=[node("HUMAN", "approval"), WorkflowTask(name="ship", task_reference_name="ship")])


def test_what_people_do_is_said_before_the_run(engine: Engine, clock: VirtualClock, workers: ScriptedWorkers) -> None:
    """A result is waited for through it; instants and lengths of time, in their order."""
    workers.ship.returns({"parcel": 7})
    began, done = clock.now(), []
    run = engine.start(ASKED)
    clock.at("3h", lambda: run.signal({"ok": True}, task="approval"))
    clock.at(timedelta(hours=1), lambda: done.append(clock.now() - began))
    clock.at(began + 2 * HOUR, lambda: clock.at("30m", lambda: done.append(clock.now() - began)))
    assert run.result() == {"parcel": 7}
    assert done == [HOUR, 5 * HOUR // 2]
    assert clock.now() - began == 3 * HOUR
    assert run.workflow.task("approval").ended_at - began == 3 * HOUR


def test_advancing_calls_what_lies_on_the_way(engine: Engine, clock: VirtualClock) -> None:
    """Each at its own instant, also with nothing else to do; what lies behind the end waits."""
    began, done = clock.now(), []
    for hours in (1, 2, 5):
        clock.at(f"{hours}h", lambda: done.append(clock.now() - began))
    engine.advance("4h")
    assert (done, clock.now() - began) == ([HOUR, 2 * HOUR], 4 * HOUR)
    engine.run_until_idle()
    assert (done[2:], clock.now() - began) == ([5 * HOUR], 5 * HOUR)


def test_what_is_due_at_that_instant_comes_first(engine: Engine, clock: VirtualClock, workers: ScriptedWorkers) -> None:
    """A wait that ends then has ended; calls of the same instant come in the order in which they were said."""
    workers.ship.returns({})
    wait = node("WAIT", "wait", input_parameters={"duration": "1 hour"})
    run = engine.start(WorkflowDef(name="w", tasks=[wait, WorkflowTask(name="ship", task_reference_name="ship")]))
    seen: list[object] = []
    clock.at("1h", lambda: seen.append(str(run.workflow.task("wait").status)))
    clock.at("1h", lambda: seen.append(2))
    run.result()
    engine.run_until_idle()
    assert seen == ["COMPLETED", 2]


def test_nothing_that_comes_later_is_done_before(engine: Engine, clock: VirtualClock, workers: ScriptedWorkers) -> None:
    """A retry that is due in two minutes is not handed out ahead of what happens in one."""
    retried = WorkflowDef.from_json(
        {
            "name": "w",
            "tasks": [{"name": "ship", "taskReferenceName": "ship", "taskDefinition": {"name": "ship", "retryDelaySeconds": 120}}],
        }
    )
    workers.ship.fails(1).then.returns({})
    run = engine.start(retried)
    began = clock.now()
    seen: list[tuple[int, int]] = []
    clock.at("1m", lambda: seen.append((clock.now() - began, len(workers.ship.calls))))
    run.result()
    assert seen == [(60_000, 1)]
    assert (clock.now() - began, len(workers.ship.calls)) == (120_000, 2)


def test_a_clock_that_is_set_moves_them(engine: Engine, clock: VirtualClock) -> None:
    """As every other duration: an hour stays an hour."""
    done: list[int] = []
    clock.at("2h", lambda: done.append(clock.now()))
    engine.advance("1h")
    clock.set_to(clock.now() - 10 * HOUR)
    left = clock.now()
    engine.run_until_idle()
    assert done == [left + HOUR]


def test_what_one_raises_is_raised_by_who_lets_time_pass(engine: Engine, clock: VirtualClock) -> None:
    """Once; time cannot be let pass inside, nor said of the past."""
    clock.at("1h", lambda: 1 / 0)
    clock.at("2h", engine.run_until_idle)
    with pytest.raises(ZeroDivisionError):
        engine.run_until_idle()
    with pytest.raises(WouldDeadlock):
        engine.run_until_idle()
    engine.run_until_idle()
    with pytest.raises(ClockError, match="time cannot go back"):
        clock.at(clock.now() - 1, engine.settle)
    with pytest.raises(InvalidInput):
        clock.at("soon", engine.settle)
