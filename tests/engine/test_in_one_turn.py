"""Events that meet in one turn: what an earlier one of them has made void does nothing, though it was due when the turn began."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_kit import T0, Bench, NewBench, flow, noop, simple, wait

from conductorlite import (
    Engine,
    EngineConfig,
    SubWorkflowParams,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.model.executions import Task
from conductorlite.store.locks import InProcessLock
from conductorlite.store.ports import Backend
from conductorlite.testing import FaultyBackend

#: A task that is tried again at once, and has none of the deadlines that are not set.
RETRIED = {"retry_count": 3, "retry_delay_s": 0, "timeout_policy": "RETRY", "poll_timeout_s": 0}

#: What happens at second 2 to an attempt whose deadline is second 3.
Step = Callable[[Bench, Task], object]


def _say(status: str) -> Step:
    def said(bench: Bench, task: Task) -> None:
        result = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status))
        bench.engine.update_task(result)

    return said


def _extend(bench: Bench, task: Task) -> None:
    bench.engine.tasks.extend_lease(task)


@pytest.mark.parametrize(
    ("deadline", "polled", "step", "becomes", "ends"),
    [
        ("response_timeout_s", True, _extend, "IN_PROGRESS 0", True),
        ("response_timeout_s", True, _say("IN_PROGRESS"), "SCHEDULED 0", False),
        ("response_timeout_s", True, _say("FAILED"), "SCHEDULED 1", False),
        ("poll_timeout_s", False, _say("FAILED"), "SCHEDULED 1", True),
        ("timeout_s", True, _say("FAILED"), "SCHEDULED 1", False),
        ("total_timeout_s", True, _say("COMPLETED"), "COMPLETED 0", False),
    ],
    ids=["a sign of life", "put back", "failed", "failed before it was polled", "failed in time", "completed"],
)
def test_a_deadline_that_was_due_with_what_has_moved_it(
    new_bench: NewBench, deadline: str, polled: bool, step: Step, becomes: str, ends: bool
) -> None:
    """The turn comes late: what happened at second 2 is read first, and the deadline of second 3 holds no more."""
    lock = InProcessLock(lease=None)
    bench = new_bench(lock=lock)
    bench.start(flow(simple("a", {**RETRIED, deadline: 3}), simple("b")))
    bench.engine.settle()
    task = bench.take("a") if polled else bench.task("a")
    bench.clock.move_to(T0 + 2_000)
    token = lock.try_acquire(bench.workflow_id, bench.clock.now())
    assert token is not None
    step(bench, task)
    bench.clock.move_to(T0 + 4_000)
    lock.release(bench.workflow_id, token)
    bench.engine.settle()
    row = bench.task("a")
    assert (f"{row.status} {row.attempt}", bench.workflow.parked) == (becomes, None)
    assert bench.engine.admin.check() == []
    bench.at(8)
    assert (bench.task("a", row.attempt).status is TaskStatus.TIMED_OUT) is ends


def test_the_rest_of_a_cut_turn_is_not_taken_up_by_a_later_run(store: Backend) -> None:
    """Run again from its first task while a turn has left something to do: that was of the run before, and nothing follows."""
    faulty, clock = FaultyBackend(store, keep_open=True), VirtualClock(T0)
    config = EngineConfig(bounds=Bounds(steps=1))
    one, two = Engine(faulty, clock=clock, config=config), Engine(store, clock=clock, config=config)
    one.start(flow(simple("a"), noop("n"), noop("m"), simple("b")), workflow_id="w")
    one.settle()
    (task,) = one.poll("a")
    seen: list[list[str]] = []

    def run_again(_: int) -> None:
        faulty._on_commit = None
        two.rerun("w", from_task="a")
        two.settle()
        seen.append([f"{row.ref} {row.status}" for row in two.get("w").tasks])

    faulty._on_commit = run_again
    one.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    one.settle()
    assert seen == [["a SCHEDULED"]]
    assert [f"{row.ref} {row.status}" for row in one.get("w").tasks] == ["a SCHEDULED"]
    assert one.admin.check() == []


def test_the_end_that_was_asked_of_a_child_which_goes_on_after_all(new_bench: NewBench) -> None:
    """Its parent was terminated and tried again before the child heard of either: the child's first end ends no task."""
    lock = InProcessLock(lease=None)
    bench = new_bench(lock=lock)
    child = flow(simple("inside"), wait("pause", duration="1s"), name="child")
    made = SubWorkflowParams(workflow_definition=child)
    task = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=made)
    bench.start(flow(task, name="parent"))
    bench.engine.settle()
    child_id = bench.task("s").sub_workflow_id
    assert child_id is not None
    bench.take("inside")
    token = lock.try_acquire(child_id, bench.clock.now())
    assert token is not None
    bench.engine.terminate(bench.workflow_id)
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    lock.release(child_id, token)
    bench.engine.settle()
    ends = [line.split(" ", 1)[1] for line in bench.journal() if line.startswith("0 s ") or "workflow" in line]
    assert ends[-2:] == ["workflow RUNNING", "s IN_PROGRESS"]
    assert ends.count("s CANCELED") == 1
    bench.do("inside")
    bench.at(1)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
