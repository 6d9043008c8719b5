"""A report that comes at the instant of a deadline, to a parked execution, or after a restart."""

from __future__ import annotations

import attrs

from conductorlite import Engine, Run, TaskResult, TaskStatus, VirtualClock, WorkflowDef


def begin(engine: Engine) -> tuple[Run[object], TaskResult]:
    """Start a chain, and return it with what the worker of its first task will report."""
    first = {"name": "n0", "taskReferenceName": "a", "taskDefinition": {"name": "n0", "responseTimeoutSeconds": 5, "retryCount": 0}}
    run = engine.start(WorkflowDef.from_json({"name": "chain", "tasks": [first, {"name": "n0", "taskReferenceName": "b"}]}))
    (task,) = engine.poll("n0", worker_id="w")
    result = TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    return run, result


def test_a_report_does_not_overtake_a_deadline_that_is_due() -> None:
    """A deadline that has come at the instant of the report takes effect first."""
    clock = VirtualClock()
    with Engine(clock=clock) as engine:
        run, result = begin(engine)
        clock.move_to(clock.now() + 5_000)
        engine.update_task(result)
        assert run.workflow.task("a").status is TaskStatus.TIMED_OUT


def test_a_report_to_a_parked_execution_is_kept() -> None:
    """The report takes effect when the execution is resumed."""
    with Engine(clock=VirtualClock()) as engine:
        run, result = begin(engine)
        with engine.backend.writing() as tx:
            tx.executions.park(run.workflow_id, 3, "a law")
        begin(engine)  # a turn of another execution: after it the engine knows again that nothing is due
        engine.update_task(result)
        assert run.workflow.task("a").status is TaskStatus.IN_PROGRESS
        engine.resume(run.workflow_id)
        assert [task.status for task in run.workflow.tasks] == [TaskStatus.COMPLETED, TaskStatus.SCHEDULED]


def test_a_report_from_before_a_restart_is_ignored() -> None:
    """A report that was made before a restart, and names no lease, does not end the attempt that runs since."""
    with Engine(clock=VirtualClock()) as engine:
        run, result = begin(engine)
        report = engine.core.reports.prepared(run.workflow.task("a"), attrs.evolve(result, lease=None))
        engine.terminate(run.workflow_id)
        engine.restart(run.workflow_id)
        assert engine.poll("n0", worker_id="w")
        engine.core.turns.run_turn(run.workflow_id, [report.event])
        assert [task.status for task in run.workflow.tasks] == [TaskStatus.IN_PROGRESS]
