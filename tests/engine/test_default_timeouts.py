"""Work that is to wait is not ended by a timeout that nobody wrote, and a reason says whose rule a timeout was."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, NewBench

from conductorlite import Semantics, Task, TaskDef, TaskResult, TaskStatus, WorkflowDef, WorkflowTask
from conductorlite.testing import replay

HOUR = 3_600
DAY = 24 * HOUR


def begun(bench: Bench, kind: str = "SIMPLE", written: dict[str, Any] | None = None, **fields: Any) -> Task:
    """An execution of one task, which is polled."""
    definition = None if written is None else TaskDef(name="t", retry_count=0, **written)
    task = WorkflowTask(name="t", task_reference_name="t", type=kind, task_definition=definition, **fields)
    bench.start(WorkflowDef(name="w", tasks=[task]))
    return polled(bench, "t" if kind == "SIMPLE" else kind)


def polled(bench: Bench, queue: str = "t") -> Task:
    return bench.take(queue)


def report(bench: Bench, task: Task, status: TaskStatus, *, callback: int = 0) -> None:
    bench.engine.update_task(
        TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            lease=task.lease,
            status=status,
            callback_after_ms=callback * 1_000,
        )
    )


def later(bench: Bench, seconds: float) -> None:
    bench.at(bench.second + seconds)


@pytest.mark.parametrize("semantics", Semantics)
def test_a_callback_of_days_outlasts_every_default(semantics: Semantics, new_bench: NewBench) -> None:
    """It is offered again when it was asked for, and the defaults begin again with the poll."""
    bench = new_bench(semantics=semantics)
    report(bench, begun(bench), TaskStatus.IN_PROGRESS, callback=3 * DAY)
    later(bench, 3 * DAY - 1)
    assert bench.task("t").status == "SCHEDULED"
    assert bench.poll("t") is None
    later(bench, 1)
    report(bench, polled(bench), TaskStatus.COMPLETED)
    assert bench.status_of_workflow() == "COMPLETED"
    assert bench.engine.admin.check() == []
    replay(bench.engine.admin.export(bench.workflow_id)).engine.close()


def test_many_callbacks_are_no_hour_together(new_bench: NewBench) -> None:
    """A worker that looks every ten minutes whether something is ready may do so for a day."""
    bench = new_bench()
    task = begun(bench)
    for _ in range(24 * 6):
        report(bench, task, TaskStatus.IN_PROGRESS, callback=600)
        later(bench, 600)
        task = polled(bench)
    report(bench, task, TaskStatus.COMPLETED)
    assert bench.status_of_workflow() == "COMPLETED"


def test_the_default_ends_a_worker_that_is_silent_after_a_callback(new_bench: NewBench) -> None:
    """It counts from the poll after the callback."""
    bench = new_bench()
    report(bench, begun(bench, retry_count=0), TaskStatus.IN_PROGRESS, callback=DAY)
    later(bench, DAY)
    task = polled(bench)
    for _ in range(8):
        later(bench, 449)
        bench.engine.tasks.extend_lease(task)
    assert bench.task("t").status == "IN_PROGRESS"
    later(bench, 8)
    assert bench.task("t").status == "TIMED_OUT"
    assert "is 3600 seconds: the default of ORKES semantics, as no definition sets it." in (bench.task("t").reason or "")


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("kind", ["HTTP", "KAFKA_PUBLISH", "my_own"])
def test_what_another_caller_completes_outlasts_every_default(kind: str, semantics: Semantics, new_bench: NewBench) -> None:
    """`asyncComplete`: the worker has done its part; who completes the task may take days."""
    bench = new_bench(semantics=semantics)
    http = {"http_request": {"uri": "http://localhost/", "method": "GET"}}
    kafka = {"kafka_request": {"topic": "t", "value": "v", "bootStrapServers": "localhost:1"}}
    given = {"HTTP": http, "KAFKA_PUBLISH": kafka}.get(kind, {})
    task = begun(bench, kind, async_complete=True, input_parameters=given)
    report(bench, task, TaskStatus.COMPLETED)
    later(bench, 3 * DAY)
    assert bench.task("t").status == "IN_PROGRESS"
    bench.engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
    assert bench.status_of_workflow() == "COMPLETED"


@pytest.mark.parametrize("callback", [True, False])
def test_a_timeout_that_is_written_holds(callback: bool, new_bench: NewBench) -> None:
    """What a definition says ends the task also while it waits, and the reason says that it is configured."""
    bench = new_bench()
    task = begun(bench, "SIMPLE" if callback else "my_own", {"timeout_ms": 1_000 * HOUR}, async_complete=not callback)
    report(bench, task, TaskStatus.IN_PROGRESS if callback else TaskStatus.COMPLETED, callback=DAY if callback else 0)
    later(bench, HOUR)
    assert bench.task("t").status == "TIMED_OUT"
    assert bench.task("t").reason == (
        "Task timed out after 3600 seconds. Timeout configured as 3600 seconds. Timeout policy configured to TIME_OUT_WF"
    )


@pytest.mark.parametrize("semantics", Semantics)
def test_a_reason_says_whose_rule_it_was(semantics: Semantics, new_bench: NewBench) -> None:
    """A response timeout and a poll timeout that no definition sets are defaults of the semantics."""
    bench = new_bench(semantics=semantics)
    begun(bench, retry_count=0)
    later(bench, HOUR)
    assert bench.task("t").status == "TIMED_OUT"
    assert f"(the default of {semantics} semantics, as no definition sets it)" in (bench.task("t").reason or "")


def test_a_poll_timeout_by_default(new_bench: NewBench) -> None:
    """Nobody wrote that a worker has to come within an hour."""
    bench = new_bench()
    bench.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t", retry_count=0)]))
    later(bench, HOUR)
    assert bench.task("t").reason == (
        "Task poll timed out after 3600 seconds. "
        "Poll timeout is 3600 seconds: the default of ORKES semantics, as no definition sets it. "
        "Timeout policy configured to TIME_OUT_WF"
    )


def test_a_written_response_timeout(new_bench: NewBench) -> None:
    """Its reason names the step, and Conductor's sentence is kept."""
    bench = new_bench()
    task = begun(bench, written={"response_timeout_ms": 5_000})
    later(bench, 5)
    told = f"responseTimeout: 5 exceeded for the taskId: {task.task_id} with Task Definition: t"
    assert (bench.task("t").reason, bench.task("t").conductor_reason) == ("responseTimeout: 5 exceeded by t", told)
