"""Every write: a process that dies before or after any of them leaves nothing half-written, and the next one comes to
the same end.

The scenario holds every operator, a failure with its retry, pause and resume over the end of a WAIT, a terminal
failure and the retry verb. `crash_everywhere` kills it at each write in turn and demands (see its docstring): the
store at reopening equals, row by row, that of the undisturbed run after its last commit; no law is broken; the ends
are equal; and the journal is equal line by line, with its instants and its order, unless a task was with a worker at
that moment. Then at-least-once is all there can be: that one call is repeated after its response timeout, and the
journal must be equal apart from it.
"""

from __future__ import annotations

import pytest

from conductorlite import Bounds, Engine, RetryLogic, TaskDef, VirtualClock, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.testing import ScriptedWorkers, assert_history, crash_everywhere, start_once

ORDER_ID = "order-7"


def _task(name: str) -> WorkflowTask:
    policy = TaskDef(
        name=name,
        retry_count=5,
        retry_logic=RetryLogic.FIXED,
        retry_delay_ms=5_000,
        response_timeout_ms=10_000,
        poll_timeout_ms=60_000,
        timeout_ms=120_000,
    )
    return WorkflowTask(
        name="work",
        task_reference_name=name,
        task_definition=policy,
        input_parameters={"who": name, "order": "${workflow.input.orderId}"},
    )


ORDER = WorkflowDef(
    name="order",
    tasks=[
        _task("charge"),
        WorkflowTask(
            name="tier",
            task_reference_name="tier",
            type="SWITCH",
            evaluator_type="value-param",
            expression="is",
            input_parameters={"is": "${charge.output.tier}"},
            decision_cases={
                "gold": [
                    WorkflowTask(name="nothing", task_reference_name="nothing", type="NOOP"),
                    WorkflowTask(
                        name="cool_down",
                        task_reference_name="cool_down",
                        type="WAIT",
                        input_parameters={"duration": "30s"},
                    ),
                ]
            },
        ),
        WorkflowTask(
            name="fork",
            task_reference_name="fork",
            type="FORK_JOIN",
            fork_tasks=[
                [_task("ship")],
                [
                    WorkflowTask(
                        name="parcels",
                        task_reference_name="parcels",
                        type="DO_WHILE",
                        loop_condition="$.parcels['iteration'] < 2",
                        loop_over=[_task("pack")],
                    )
                ],
            ],
        ),
        WorkflowTask(name="join", task_reference_name="join", type="JOIN", join_on=["ship", "parcels"]),
        _task("thank"),
    ],
    output_parameters={"joined": "${join.output}", "thanks": "${thank.output.text}"},
    timeout_ms=3_600_000,
)


def script(workers: ScriptedWorkers) -> None:
    """The world outside: the charge fails once, thanking fails for good once."""
    work = workers.work
    work.fails(1, reason="503").then.returns({"tier": "gold"}, times=1)
    # Who is first of two that run side by side may change, so what they return must not depend on it.
    work.does(lambda who: {"by": who}, times=3)
    work.fails_terminally("nobody at home").then.returns({"text": "bye"})


def scenario(engine: Engine) -> None:
    """Start, pause while the WAIT runs, resume when it is over, retry what failed; each step unless it was taken."""
    run = start_once(engine, ORDER, {"orderId": 7}, workflow_id=ORDER_ID)
    engine.settle()
    while not any(task.ref == "cool_down" for task in run.workflow.tasks):
        engine.advance("1s")
    paused = [line.at for line in engine.history(ORDER_ID) if line.status == "PAUSED"]
    if not paused:
        engine.pause(ORDER_ID)
        paused = [engine.clock.now()]
    if run.status is WorkflowStatus.PAUSED:
        engine.advance(to=max(engine.clock.now(), paused[0] + 40_000))
        engine.resume(ORDER_ID)
    engine.run_until_idle()
    if run.status is WorkflowStatus.FAILED:
        engine.retry(ORDER_ID)
        engine.run_until_idle()


def test_the_scenario_takes_every_way_it_should() -> None:
    """The undisturbed run passes through each operator, a retry, a pause and a reopening."""
    workers = ScriptedWorkers()
    script(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        scenario(engine)
        assert_history(
            engine,
            """
            +0s   workflow RUNNING
            +0s   charge #1 SCHEDULED
            +0s   charge #1 IN_PROGRESS
            +0s   charge #1 FAILED
            +0s   charge #2 SCHEDULED
            +5s   charge #2 IN_PROGRESS
            +5s   charge #2 COMPLETED
            +5s   tier #1 COMPLETED
            +5s   nothing #1 COMPLETED
            +5s   cool_down #1 IN_PROGRESS
            +5s   workflow PAUSED
            +35s  cool_down #1 COMPLETED
            +45s  workflow RUNNING
            +45s  fork #1 COMPLETED
            +45s  join #1 IN_PROGRESS
            +45s  ship #1 SCHEDULED
            +45s  parcels #1 IN_PROGRESS
            +45s  parcels round 1
            +45s  pack__1 #1 SCHEDULED
            +45s  pack__1 #1 IN_PROGRESS
            +45s  pack__1 #1 COMPLETED
            +45s  parcels round 2
            +45s  pack__2 #1 SCHEDULED
            +45s  pack__2 #1 IN_PROGRESS
            +45s  pack__2 #1 COMPLETED
            +45s  parcels #1 COMPLETED
            +45s  ship #1 IN_PROGRESS
            +45s  ship #1 COMPLETED
            +45s  join #1 COMPLETED
            +45s  thank #1 SCHEDULED
            +45s  thank #1 IN_PROGRESS
            +45s  thank #1 FAILED_WITH_TERMINAL_ERROR
            +45s  workflow FAILED
            +45s  workflow RUNNING
            +45s  thank #2 SCHEDULED
            +45s  thank #2 IN_PROGRESS
            +45s  thank #2 COMPLETED
            +45s  workflow COMPLETED
            """,
        )


@pytest.mark.parametrize("rows", [5_000, 1], ids=["whole turns", "turns cut at one row"])
@pytest.mark.parametrize("store", ["memory", "relay", "sqlite"])
def test_a_crash_at_any_write_loses_nothing(store: str, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, it ends with the same history, and nothing is half-written in between."""
    points = crash_everywhere(scenario, script, stores=[store], same_order=True, bounds=Bounds(rows=rows))
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    # At least one transaction, with a change and its commit, for each of the journal's turns.
    assert points >= 80
