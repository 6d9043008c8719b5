"""Every write: a process that dies before or after any of them leaves nothing half-written, and the next one comes to
the same end.

The scenario holds every operator, a failure with its retry, pause and resume over the end of a WAIT, a terminal
failure and the retry verb. `crash_everywhere` kills it at each write in turn and demands (see its docstring): the
store at reopening equals, row by row, that of the undisturbed run after its last commit; no law is broken; the ends
are equal; and the journal is equal line by line, with its instants and its order, unless a task was with a worker at
that moment. Then at-least-once is all there can be: that one call is repeated after its response timeout, and the
journal must be equal apart from it.

A second scenario is a family: sub-workflows three deep of which one fails and is tried again, one that ends with its
parent, TERMINATE, the failure workflow, SET_VARIABLE, a keepLastN loop around another loop, asyncComplete and a
sub-workflow that begins late. All of its executions are compared, each like the one of the first scenario.
"""

from __future__ import annotations

from typing import Any

import pytest
from crash_kit import STORES, timeless, without_poll_counts

from conductorlite import (
    Bounds,
    Engine,
    RetryLogic,
    SubWorkflowParams,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.engine.config import EngineConfig
from conductorlite.testing import ScriptedWorkers, assert_history, crash_everywhere, crashes, start_once

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
            +45s  ship #1 IN_PROGRESS
            +45s  ship #1 COMPLETED
            +45s  pack__1 #1 IN_PROGRESS
            +45s  pack__1 #1 COMPLETED
            +45s  parcels round 2
            +45s  pack__2 #1 SCHEDULED
            +45s  pack__2 #1 IN_PROGRESS
            +45s  pack__2 #1 COMPLETED
            +45s  parcels #1 COMPLETED
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


@pytest.mark.parametrize("every", [29, pytest.param(13, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("rows", [5_000, 1], ids=["whole turns", "turns cut at one row"])
@pytest.mark.parametrize("store", ["memory", "relay", "sqlite"])
def test_a_crash_at_any_write_loses_nothing(store: str, rows: int, every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, it ends with the same history, and nothing is half-written in between."""
    points = crash_everywhere(
        scenario, script, stores=[store], same_order=True, every=every, config=EngineConfig(bounds=Bounds(rows=rows))
    )
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    # At least one transaction, with a change and its commit, for each of the journal's turns.
    assert points >= 80 // every


# -- a family ----------------------------------------------------------------------------------------------------------

FAMILY_ID = "family-7"


def _of(ref: str, type: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, type=type, **fields)


def _sub(ref: str, child: WorkflowDef, **fields: Any) -> WorkflowTask:
    return _of(ref, "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=child), **fields)


LEAF = WorkflowDef(
    name="leaf",
    tasks=[_task("dig"), _of("found", "SET_VARIABLE", input_parameters={"what": "${dig.output.what}"})],
    output_parameters={"what": "${workflow.variables.what}"},
)

MIDDLE = WorkflowDef(
    name="middle",
    tasks=[_sub("late", LEAF, start_delay_ms=3_000, input_parameters={"orderId": "${workflow.input.orderId}"})],
    output_parameters={"what": "${late.output.what}"},
)

ENDLESS = WorkflowDef(name="endless", tasks=[_task("begin"), _of("for_ever", "WAIT")], failure_workflow="mourn")

MOURN = WorkflowDef(
    name="mourn", tasks=[_task("undo")], output_parameters={"of": "${workflow.input.workflowId}", "undone": "${undo.output}"}
)

FAMILY = WorkflowDef(
    name="family",
    failure_workflow="mourn",
    variables={"total": 0},
    tasks=[
        _of("set_up", "SET_VARIABLE", input_parameters={"order": "${workflow.input.orderId}"}),
        _sub(
            "house",
            MIDDLE,
            input_parameters={"orderId": "${workflow.variables.order}"},
            retry_count=1,
            task_definition=TaskDef(name="house", retry_delay_ms=5_000),
        ),
        _of(
            "fork",
            "FORK_JOIN",
            fork_tasks=[
                [_sub("with_parent", ENDLESS, input_parameters={"orderId": 8})],
                [
                    _of(
                        "ticket",
                        "CALL",
                        async_complete=True,
                        task_definition=TaskDef(
                            name="ticket", retry_count=5, retry_delay_ms=5_000, response_timeout_ms=10_000, timeout_ms=0
                        ),
                    ),
                    _of(
                        "outer",
                        "DO_WHILE",
                        loop_condition="$.outer['iteration'] < 3",
                        input_parameters={"keepLastN": 2},
                        loop_over=[
                            _task("pack"),
                            _of(
                                "inner",
                                "DO_WHILE",
                                loop_condition="$.inner['iteration'] < 2",
                                loop_over=[_of("count", "SET_VARIABLE", input_parameters={"total": "${outer.output.iteration}"})],
                            ),
                        ],
                    ),
                    _of(
                        "give_up",
                        "TERMINATE",
                        input_parameters={
                            "terminationStatus": "FAILED",
                            "terminationReason": "after ${workflow.variables.total} rounds",
                            "workflowOutput": {"found": "${house.output.what}", "ticket": "${ticket.output.number}"},
                        },
                    ),
                ],
            ],
        ),
        _of("join", "JOIN", join_on=["with_parent", "give_up"]),
    ],
)


def family_script(workers: ScriptedWorkers) -> None:
    """The world outside: the first dig is in vain; a ticket is asked for and comes later."""
    work = workers.work
    work.fails_terminally("rock").then.returns({"what": "gold"}, times=1)
    # Who is first of two that run side by side may change, so what they return must not depend on it.
    work.does(lambda who: {"by": who})
    workers.CALL.returns({"asked": True})


def family_scenario(engine: Engine) -> None:
    """Start, wait until all there is to wait for is the ticket, and hand it in; each step unless it was taken."""
    engine.register(MOURN)
    run = start_once(engine, FAMILY, {"orderId": 7}, workflow_id=FAMILY_ID)
    engine.run_until_idle()
    tickets = [task for task in run.workflow.tasks if task.ref == "ticket"]
    if tickets and tickets[-1].status is TaskStatus.IN_PROGRESS:
        done = TaskResult(
            workflow_id=FAMILY_ID, task_id=tickets[-1].task_id, status=TaskStatus.COMPLETED, output_data={"number": 3}
        )
        engine.update_task(done)
    engine.run_until_idle()


def test_the_family_takes_every_way_it_should() -> None:
    """The undisturbed run has a failed and a repeated child three deep, one ended with its parent, and a compensation."""
    workers = ScriptedWorkers()
    family_script(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        family_scenario(engine)
        found = [engine.get(workflow_id) for workflow_id in engine.admin.workflow_ids()]
        assert sorted((one.name, str(one.status)) for one in found) == [
            ("endless", "TERMINATED"),
            ("family", "FAILED"),
            ("leaf", "COMPLETED"),
            ("leaf", "FAILED"),
            ("middle", "COMPLETED"),
            ("middle", "FAILED"),
            ("mourn", "COMPLETED"),
        ]
        family = engine.get(FAMILY_ID)
        assert family.reason == "after 3 rounds"
        assert (family.output_data["found"], family.output_data["ticket"]) == ("gold", 3)
        assert {task.ref for task in family.tasks if task.ref.startswith(("pack", "count"))} == {
            *("pack__2", "pack__3"),
            *(f"count__{outer}__{inner}" for outer in (2, 3) for inner in (1, 2)),
        }
        late = {task.sub_workflow_id: task.scheduled_at for one in found for task in one.tasks if task.ref == "late"}
        assert [one.created_at - late[one.workflow_id] for one in found if one.name == "leaf"] == [3_000, 3_000]
        (mourned,) = (one for one in found if one.name == "mourn")
        assert mourned.output_data["of"] == FAMILY_ID
        assert engine.admin.check() == []


def _strict_by_family(calm: Any, shaken: Any, workflow_id: str, where: str, same_order: bool) -> None:
    """Compare a journal exactly, unless a call was lost in this execution or in one it waits for.

    Those go on as much later: they are compared without instants, like the one that lost the call, and so is what the
    failure workflow was told of the failed execution.
    """
    late = set()
    for lost_in, _, _ in shaken.lost:
        one: str | None = lost_in
        while one is not None:
            late.add(one)
            one = shaken.end.executions[one].workflow.parent_workflow_id
    told = shaken.lost, calm.histories, shaken.histories
    # With the family goes all that ends with it, or begins when it ends.
    if late & {workflow_id, FAMILY_ID}:
        shaken.lost = {*shaken.lost, (workflow_id, "", -1)}
        for life in (calm, shaken):
            life.histories = {**life.histories, workflow_id: timeless(life, workflow_id)}
    else:
        for life in (calm, shaken):
            life.histories = {**life.histories, workflow_id: without_poll_counts(life, workflow_id)}
    try:
        _COMPARE_HISTORIES(calm, shaken, workflow_id, where, same_order)
    finally:
        shaken.lost, calm.histories, shaken.histories = told


_COMPARE_HISTORIES = crashes._compare_histories


@pytest.mark.parametrize("rows", [5_000, pytest.param(1, marks=pytest.mark.deep)], ids=["whole turns", "turns cut at one row"])
@pytest.mark.parametrize(("store", "every"), STORES)
def test_a_family_survives_a_crash_at_any_write(
    store: str, every: int, rows: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before and after each write, every execution of a family ends as if nothing had happened."""
    compared: set[str] = set()

    def compare(calm: Any, shaken: Any, workflow_id: str, where: str, same_order: bool) -> None:
        compared.add(workflow_id)
        _strict_by_family(calm, shaken, workflow_id, where, same_order)

    monkeypatch.setattr(crashes, "_compare_histories", compare)
    points = crash_everywhere(
        family_scenario, family_script, stores=[store], same_order=True, every=every, config=EngineConfig(bounds=Bounds(rows=rows))
    )
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    assert points >= 120 // every
    assert len(compared) == 7
