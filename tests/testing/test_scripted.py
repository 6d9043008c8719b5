"""Scripted workers: each verb of a script does what it says, at the second it says."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import T0, flow, task

from conductorlite import (
    Engine,
    SystemClock,
    TaskContext,
    TaskFailedTerminally,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowFailed,
    WorkflowTask,
)
from conductorlite.errors import ClockError, InvalidInput
from conductorlite.runtime.registry import signature
from conductorlite.testing import ScriptedWorkers, Step, StepKind, assert_history


def test_returns(engine: Engine, workers: ScriptedWorkers) -> None:
    """A scripted output is the task's output, for every call."""
    workers.charge.returns({"id": 1})
    assert [engine.start(flow(task("charge"))).result() for _ in range(2)] == [{"id": 1}] * 2


def test_what_a_script_takes_is_what_its_function_shows(workers: ScriptedWorkers) -> None:
    """It is written down, so that no annotations are read for each script; a blank type is refused as for any worker."""
    workers.charge.returns()
    (worker,) = workers
    assert worker.signature == signature(worker.function)
    assert not worker.signature.readers
    with pytest.raises(InvalidInput, match="a worker's task type is a text"):
        _ = workers[" "]


def test_an_untouched_script_returns_nothing(engine: Engine, workers: ScriptedWorkers) -> None:
    """Naming a type is enough to give it a worker; it returns an empty output."""
    assert workers.charge.calls == []
    assert engine.start(flow(task("charge"))).result() == {}


def test_types_nobody_names_have_no_worker(engine: Engine, workers: ScriptedWorkers) -> None:
    """A task of a type the test did not touch stays in its queue."""
    workers.charge.returns()
    run = engine.start(flow(task("charge"), task("ship")))
    engine.run_until_idle(timeout="30s")
    assert run.workflow.task("ship").status is TaskStatus.SCHEDULED


def test_returns_in_order(engine: Engine, workers: ScriptedWorkers) -> None:
    """Outputs come one per call; the last one goes on."""
    workers.charge.returns_in_order([{"n": 1}, {"n": 2}])
    assert [engine.start(flow(task("charge"))).result()["n"] for _ in range(3)] == [1, 2, 2]


def test_fails_then_returns(engine: Engine, workers: ScriptedWorkers) -> None:
    """Two failures are retried after their delays, then the third attempt succeeds."""
    workers.charge.fails(2, reason="503").then.returns({"id": 1})
    run = engine.start(flow(task("charge")))
    assert run.result() == {"id": 1}
    assert_history(
        run,
        """
        +0s   workflow RUNNING
        +0s   charge #1 SCHEDULED
        +0s   charge #1 IN_PROGRESS
        +0s   charge #1 FAILED: 503
        +0s   charge #2 SCHEDULED
        +5s   charge #2 IN_PROGRESS
        +5s   charge #2 FAILED: 503
        +5s   charge #3 SCHEDULED
        +10s  charge #3 IN_PROGRESS
        +10s  charge #3 COMPLETED
        +10s  workflow COMPLETED
        """,
        reasons=True,
    )
    assert [(call.attempt, call.at - T0) for call in workers.charge.calls] == [(0, 0), (1, 5_000), (2, 10_000)]


def test_fails_for_ever(engine: Engine, workers: ScriptedWorkers) -> None:
    """A failure without a number goes on until the retries are used up."""
    workers.charge.fails()
    with pytest.raises(WorkflowFailed):
        engine.start(flow(task("charge"))).result()
    assert len(workers.charge.calls) == 3


def test_fails_with_an_error(engine: Engine, workers: ScriptedWorkers) -> None:
    """An error is raised as a worker function would, traceback and all."""
    workers.charge.fails(1, error=LookupError("no such card"))
    run = engine.start(flow(task("charge")))
    run.result()
    first = run.workflow.tasks[0]
    assert first.reason == "LookupError: no such card"
    assert "LookupError" in (first.traceback or "")


@pytest.mark.parametrize("by_error", [False, True])
def test_fails_terminally(engine: Engine, workers: ScriptedWorkers, by_error: bool) -> None:
    """A terminal failure is not retried, however it is said."""
    if by_error:
        workers.charge.fails(error=TaskFailedTerminally("stolen"))
    else:
        workers.charge.fails_terminally("stolen")
    with pytest.raises(WorkflowFailed, match="stolen"):
        engine.start(flow(task("charge"))).result()
    assert len(workers.charge.calls) == 1


def test_takes_virtual_time(engine: Engine, workers: ScriptedWorkers, clock: VirtualClock) -> None:
    """A call may take longer than the response timeout: its lease is extended while it runs."""
    workers.charge.takes("90s").returns({"id": 1})
    run = engine.start(flow(task("charge")))
    engine.settle()
    assert [(entry.at - T0) for entry in engine.admin.agenda() if entry.kind == "REPORT"] == [90_000]
    assert run.result() == {"id": 1}
    assert clock.now() - T0 == 90_000


def test_hangs_until_the_task_timeout(engine: Engine, workers: ScriptedWorkers) -> None:
    """A worker that lives but never reports is ended by `timeoutSeconds`, not by the response timeout."""
    workers.charge.hangs().then.returns({"id": 1})
    run = engine.start(flow(task("charge", timeout=60)))
    assert run.result() == {"id": 1}
    assert [(t.status, t.ended_at - T0) for t in run.workflow.tasks] == [("TIMED_OUT", 60_000), ("COMPLETED", 65_000)]


def test_hanging_for_ever_is_refused(engine: Engine, workers: ScriptedWorkers) -> None:
    """Where no timeout is to come, virtual time would go on for ever; a time that is given is run out."""
    workers.charge.hangs()
    engine.start(flow(task("charge", timeout=0)), workflow_id="w")
    assert engine.run_until_idle(timeout="1h") is False
    with pytest.raises(ClockError, match=r"'charge' gives signs of life and never reports on 'charge' of w.*timeoutSeconds"):
        engine.run_until_idle()
    assert engine.status("w") == "RUNNING"
    assert engine.admin.check() == []


def test_hanging_beside_something_that_comes_is_not_refused(engine: Engine, workers: ScriptedWorkers) -> None:
    """However long that takes: a WAIT of another execution."""
    workers.charge.hangs()
    engine.start(flow(task("charge", timeout=0)), workflow_id="w")
    waits = WorkflowTask(name="wait", task_reference_name="wait", type="WAIT", input_parameters={"duration": "2 hours"})
    other = engine.start(flow(waits), workflow_id="other")
    assert other.result() == {}
    with pytest.raises(ClockError):
        engine.run_until_idle()


def test_crashes_until_the_response_timeout(engine: Engine, workers: ScriptedWorkers) -> None:
    """A dead worker is noticed by the response timeout; the retry is pollable after its delay."""
    workers.charge.crashes().then.returns({"id": 1})
    run = engine.start(flow(task("charge", timeout=60)))
    assert run.result() == {"id": 1}
    assert [(t.status, t.ended_at - T0) for t in run.workflow.tasks] == [("TIMED_OUT", 20_000), ("COMPLETED", 25_000)]


def test_a_crashed_call_holds_no_slot() -> None:
    """With a concurrency of one, other tasks of a type go on while a crashed one waits for its timeout."""
    workers = ScriptedWorkers(concurrency=1)
    workers.charge.crashes().then.returns({"id": 1})
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        runs = [engine.start(flow(task("charge"))) for _ in range(3)]
        engine.settle()
        assert sorted(run.status for run in runs) == ["COMPLETED", "COMPLETED", "RUNNING"]
        engine.run_until_idle()
        assert {run.status for run in runs} == {"COMPLETED"}


def test_reports_late(engine: Engine, workers: ScriptedWorkers) -> None:
    """A report after the response timeout changes nothing: the second attempt counts."""
    workers.charge.reports_late("40s", {"from": "the dead"}).then.returns({"from": "the living"})
    run = engine.start(flow(task("charge", retry_delay=60)))
    assert run.result() == {"from": "the living"}
    engine.run_until_idle()
    assert_history(
        run,
        """
        +0s   workflow RUNNING
        +0s   charge #1 SCHEDULED
        +0s   charge #1 IN_PROGRESS
        +20s  charge #1 TIMED_OUT
        +20s  charge #2 SCHEDULED
        +80s  charge #2 IN_PROGRESS
        +80s  charge #2 COMPLETED
        +80s  workflow COMPLETED
        """,
    )
    assert run.workflow.tasks[0].output_data == {}


def test_a_quiet_report_in_time_counts(engine: Engine, workers: ScriptedWorkers) -> None:
    """Without a sign of life, but before the response timeout, the report is taken."""
    workers.charge.reports_late("19s", {"id": 1})
    assert engine.start(flow(task("charge"))).result() == {"id": 1}
    assert len(workers.charge.calls) == 1


def test_reports_twice(engine: Engine, workers: ScriptedWorkers) -> None:
    """The second of two equal reports changes nothing."""
    workers.charge.reports_twice({"id": 1})
    run = engine.start(flow(task("charge")))
    assert run.result() == {"id": 1}
    assert [line.status for line in engine.history(run.workflow_id) if line.ref] == [
        "SCHEDULED",
        "IN_PROGRESS",
        "COMPLETED",
    ]


def test_calls_back(engine: Engine, workers: ScriptedWorkers) -> None:
    """IN_PROGRESS three times, 9 s apart, then the outcome that follows: one attempt, four polls."""
    workers.charge.callback("9s", times=3).then.returns({"id": 1})
    run = engine.start(flow(task("charge")))
    assert run.result() == {"id": 1}
    assert [call.at - T0 for call in workers.charge.calls] == [0, 9_000, 18_000, 27_000]
    assert {call.attempt for call in workers.charge.calls} == {0}
    assert len({call.lease for call in workers.charge.calls}) == 4
    assert len({call.idempotency_key for call in workers.calls}) == 1


def test_does_a_real_function(engine: Engine, workers: ScriptedWorkers) -> None:
    """A real function gets keyword arguments and its context; its time may be scripted."""
    seen = []

    def charge(context: TaskContext, order: int) -> dict[str, int]:
        seen.append(context.attempt)
        context.log("charging")
        assert context.heartbeat()
        return {"order": order}

    workers.charge.takes("2s").does(charge)
    run = engine.start(flow(task("charge")), {"order": 7})
    assert run.result() == {"order": 7}
    assert seen == [0]
    assert [log.text for log in engine.tasks.logs(run.workflow.tasks[0].task_id)] == ["charging"]
    assert run.workflow.ended_at - T0 == 2_000


def test_inputs_are_kept(engine: Engine, workers: ScriptedWorkers) -> None:
    """Each call's input can be looked at, also one named like the worker's own parameter."""
    given = {"order": 7, "context": "mine"}
    step = task("charge")
    engine.register(flow(step))
    workers.charge.returns()
    for order in (7, 8):
        engine.start("flow", {**given, "order": order}).result()
    assert workers.charge.inputs == [{"order": 7}, {"order": 8}]
    assert [call.workflow_id for call in workers.calls] == ["wf-1", "wf-2"]


def test_a_script_takes_the_place_of_a_function(engine: Engine, workers: ScriptedWorkers) -> None:
    """A script replaces a function of the application and keeps its retry options, included before or after."""
    real = Workers()

    @real.task("charge", retry_count=0)
    def charge() -> dict[str, str]:
        return {"from": "real"}

    @real.task("ship", retry_count=0)
    def ship() -> dict[str, str]:
        return {"from": "real"}

    workers.ship.returns({"from": "script"})
    workers.include(real)
    assert workers.task_defs["ship"].retry_count == 0
    plain = flow(_plain("charge"), _plain("ship"))
    assert engine.start(plain).result() == {"from": "script"}
    workers.charge.fails()
    with pytest.raises(WorkflowFailed):
        engine.start(plain).result()
    assert len(workers.charge.calls) == 1


def _plain(name: str) -> WorkflowTask:
    return WorkflowTask(name=name, task_reference_name=name)


def test_steps_from_elsewhere(engine: Engine, workers: ScriptedWorkers) -> None:
    """Steps are plain values that a script follows."""
    workers.follow({"charge": [Step(kind=StepKind.FAILS, times=1), Step(kind=StepKind.RETURNS, output={"n": 2})]})
    assert engine.start(flow(task("charge"))).result() == {"n": 2}


def test_more_steps_during_a_test(engine: Engine, workers: ScriptedWorkers) -> None:
    """A step that was used gives way to one written later; `forget` drops what is left."""
    workers.charge.returns({"n": 1})
    assert engine.start(flow(task("charge"))).result() == {"n": 1}
    workers.charge.returns({"n": 2})
    assert engine.start(flow(task("charge"))).result() == {"n": 2}
    workers.charge.forget()
    assert engine.start(flow(task("charge"))).result() == {}
    assert len(workers.charge.calls) == 3


def test_names_that_are_no_attributes(workers: ScriptedWorkers) -> None:
    """Any task type can be had as an item; private names never make a worker."""
    assert workers["task"].task_type == "task"
    assert workers["odd name"] is workers["odd name"]
    with pytest.raises(AttributeError):
        _ = workers._repr_html_
    assert len(workers) == 2
    with pytest.raises(InvalidInput):
        workers.charge.fails(-1)


def test_virtual_time_needs_a_virtual_clock() -> None:
    """On the machine's clock a step that takes virtual time fails its task, and says why."""
    workers = ScriptedWorkers()
    workers.charge.takes("1s").returns()
    with Engine(clock=SystemClock(), workers=workers) as engine:
        run = engine.start(flow(task("charge", retry_count=0)))
        with pytest.raises(WorkflowFailed, match="the engine's clock is real"):
            run.result(timeout="20s")


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_use_each_step_as_often_as_it_says(workers: ScriptedWorkers) -> None:
    """Together: none is used once more, or once less, because two calls came at the same time."""
    script = workers.charge
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            script.forget().fails(300).then.returns(1).then.crashes(90).then.returns(2)
            used = Counter(pool.map(lambda _: (step := script._next()).kind + str(step.output or ""), range(500)))
            assert used == {"FAILS": 300, "RETURNS1": 1, "CRASHES": 90, "RETURNS2": 109}
