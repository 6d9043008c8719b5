"""A process that dies before or after any write around a migration: it has moved wholly or not at all, and ends the same."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from crash_kit import STORES

from conductorlite import Bounds, Engine, SubWorkflowParams, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.engine.config import EngineConfig
from conductorlite.model.executions import HistoryKind
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once

PLACE = "order-9"


def _task(name: str) -> WorkflowTask:
    policy = TaskDef(name=name, retry_count=5, retry_delay_ms=5_000, response_timeout_ms=10_000, timeout_ms=120_000)
    return WorkflowTask(name="work", task_reference_name=name, task_definition=policy)


def _of(ref: str, type: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, type=type, **fields)


CHILD = WorkflowDef(name="child", tasks=[_of("nap", "WAIT", input_parameters={"duration": "40s"})])


def _child(ref: str) -> WorkflowTask:
    return _of(ref, "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=CHILD))


def _order(pause: str, child: str, *more: WorkflowTask) -> WorkflowDef:
    waits = _of(pause, "WAIT", input_parameters={"duration": "30s"})
    loop = _of("l", "DO_WHILE", loop_condition="$.l['iteration'] < 2", loop_over=[waits, *more])
    fork = _of("f", "FORK_JOIN", fork_tasks=[[loop], [_child(child)]])
    join = _of("j", "JOIN", join_on=["l", child])
    return WorkflowDef(name="order", version=1 + bool(more), tasks=[_of("begin", "NOOP"), fork, join, *more[1:]])


OLD = _order("pause", "first")
LONGER = _order("rest", "second", _task("look"), _task("thank"))
NEW = attrs.evolve(LONGER, tasks=[*LONGER.tasks[:-1], _task("bye")])


def script(workers: ScriptedWorkers) -> None:
    """Everything that is asked for is done."""
    workers.work.returns({"ok": True})


def scenario(engine: Engine) -> None:
    """Start, move to the new definition while a WAIT, a loop, a JOIN and a child are live, go on to the end."""
    run = start_once(engine, OLD, workflow_id=PLACE)
    engine.settle()
    while not any(task.base_ref in ("pause", "rest") for task in run.workflow.tasks):
        engine.advance("1s")
    if run.workflow.version == 1:
        engine.definitions.migrate(PLACE, NEW, refs={"pause": "rest", "first": "second"})
    engine.run_until_idle()


def test_the_scenario_moves() -> None:
    """The undisturbed run is moved once, and what was added runs in both rounds and behind."""
    workers = ScriptedWorkers()
    script(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        scenario(engine)
        assert [line.kind for line in engine.history(PLACE)].count(HistoryKind.MIGRATED) == 1
        assert {"rest__1", "rest__2", "look__1", "look__2", "second", "bye"} <= {task.ref for task in engine.get(PLACE).tasks}


@pytest.mark.parametrize("rows", [5_000, 1], ids=["whole turns", "turns cut at one row"])
@pytest.mark.parametrize(("store", "every"), STORES)
def test_a_crash_around_a_migration(store: str, every: int, rows: int) -> None:
    """Killed before and after each write, it ends with the same history, row by row."""
    assert (
        crash_everywhere(scenario, script, stores=[store], every=every, config=EngineConfig(bounds=Bounds(rows=rows)))
        >= 40 // every
    )
