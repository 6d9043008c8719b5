"""Operators that are tried again: the delay of a retry holds for each type, and no timeout of the task runs meanwhile."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, simple, task_def, wait

from conductorlite import TaskStatus, WorkflowStatus, WorkflowTask
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.model.documents import workflow_to_json

#: What fails, or times out after 2 s, by itself; under the reference `o`.
OPERATORS: dict[str, dict[str, Any]] = {
    "WAIT": {},
    "HUMAN": {},
    "SUB_WORKFLOW": {"sub_workflow_param": SubWorkflowParams(workflow_definition=flow(simple("h"), name="c"))},
    "START_WORKFLOW": {"input_parameters": {"startWorkflow": {"name": "nowhere"}}},
}


def operator(kind: str, **fields: Any) -> WorkflowTask:
    """A task of a type, retried once after 10 s."""
    limit = task_def("o", timeout_s=2, timeout_policy="RETRY", retry_count=1, retry_delay_s=10)
    return WorkflowTask(name="o", task_reference_name="o", type=kind, task_definition=limit, **OPERATORS[kind], **fields)


def fail(bench: Bench, kind: str) -> int:
    """Start, and let the first attempt end; the second at which it did."""
    bench.start(flow(operator(kind), simple("z")))
    bench.at(2)
    return 2 if kind in ("WAIT", "HUMAN", "SUB_WORKFLOW") else 0


@pytest.mark.parametrize("kind", OPERATORS)
def test_the_delay_holds(bench: Bench, kind: str) -> None:
    """The second attempt is SCHEDULED until its delay is over, and has its whole timeout from there."""
    ended = fail(bench, kind)
    assert [str(task.status) for task in bench.workflow.tasks][1:] == ["SCHEDULED"]
    told = workflow_to_json(bench.workflow)["tasks"][1]
    assert (told["callbackAfterSeconds"], told["startDelayInSeconds"], told["startTime"]) == (10, 10, 0)
    assert "due for retry" in str(bench.engine.explain(bench.workflow_id))
    assert bench.engine.admin.check() == []
    bench.at(ended + 9.999)
    assert bench.task("o").status is TaskStatus.SCHEDULED
    bench.at(ended + 10)
    lasts = ended > 0
    assert bench.task("o").status.terminal is not lasts
    if lasts:
        assert bench.task("o").status is TaskStatus.IN_PROGRESS
        bench.at(ended + 11.999)
        assert bench.status_of_workflow() is WorkflowStatus.RUNNING
        bench.at(ended + 12)
    assert bench.status_of_workflow() in (WorkflowStatus.TIMED_OUT, WorkflowStatus.FAILED)
    first, second = bench.workflow.tasks
    assert (second.attempt, second.retried_task_id, second.seq) == (1, first.task_id, 2)
    assert bench.engine.admin.check() == []


@pytest.mark.parametrize("kind", ["WAIT", "HUMAN", "SUB_WORKFLOW", "START_WORKFLOW"])
def test_a_pause_holds_what_is_put_off(bench: Bench, kind: str) -> None:
    """A delay that is over in a paused execution begins the attempt when it is resumed."""
    ended = fail(bench, kind)
    bench.engine.pause(bench.workflow_id)
    bench.at(100)
    assert bench.task("o").status is TaskStatus.SCHEDULED
    assert "due for retry" in str(bench.engine.explain(bench.workflow_id))
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.task("o").status is (TaskStatus.IN_PROGRESS if ended else TaskStatus.FAILED)
    assert bench.engine.admin.check() == []


@pytest.mark.parametrize("kind", OPERATORS)
def test_the_end_of_the_execution_takes_it_back(bench: Bench, kind: str) -> None:
    """What is put off is canceled like all that is open, leaves nothing behind, and a `retry` begins it at once."""
    fail(bench, kind)
    bench.engine.terminate(bench.workflow_id)
    bench.at(100)
    assert bench.task("o").status is TaskStatus.CANCELED
    assert bench.engine.admin.agenda() == []
    assert bench.engine.admin.check() == []
    bench.engine.retry(bench.workflow_id)
    assert bench.task("o", 2).scheduled_at == bench.clock.now()
    lasts = bench.task("o").attempt == 2  # else it has failed already, and the next is put off
    assert bench.task("o", 2).status is (TaskStatus.IN_PROGRESS if lasts else TaskStatus.FAILED)


@pytest.mark.parametrize("kind", ["WAIT", "HUMAN"])
def test_what_is_put_off_is_signaled(bench: Bench, kind: str) -> None:
    """Somebody who completes it need not wait for its delay."""
    fail(bench, kind)
    bench.engine.signal(bench.workflow_id, {"by": "hand"})
    assert bench.statuses() == {"o": "COMPLETED", "z": "SCHEDULED"}
    bench.at(50)
    assert bench.task("o", 1).output_data == {"by": "hand"}
    assert bench.engine.admin.check() == []


def test_a_wait_waits_for_the_same_instant(bench: Bench) -> None:
    """A WAIT that is tried again ends when it would have, but not before the delay of its retry is over."""
    limit = task_def("w", timeout_s=4, timeout_policy="RETRY", retry_count=3, retry_delay_s=3)
    bench.start(flow(attrs.evolve(wait("w", duration="9 s"), task_definition=limit), simple("z")))
    bench.at(8.999)
    assert (bench.task("w").attempt, bench.statuses()) == (1, {"w": "IN_PROGRESS"})
    bench.at(9)
    assert bench.statuses() == {"w": "COMPLETED", "z": "SCHEDULED"}


def test_a_wait_whose_instant_passes_while_it_is_put_off(bench: Bench) -> None:
    """It ends with the delay of its retry."""
    limit = task_def("w", timeout_s=4, timeout_policy="RETRY", retry_count=3, retry_delay_s=3)
    bench.start(flow(attrs.evolve(wait("w", duration="5 s"), task_definition=limit), simple("z")))
    bench.at(6.999)
    assert bench.statuses() == {"w": "SCHEDULED"}
    bench.at(7)
    assert bench.statuses() == {"w": "COMPLETED", "z": "SCHEDULED"}
    assert bench.engine.admin.check() == []


def test_the_total_timeout_runs_meanwhile(bench: Bench) -> None:
    """It bounds all attempts together, and so their delays."""
    limit = task_def("w", timeout_s=4, total_timeout_s=9, timeout_policy="RETRY", retry_count=3, retry_delay_s=30)
    bench.start(flow(attrs.evolve(wait("w"), task_definition=limit)))
    bench.at(8.999)
    assert bench.statuses() == {"w": "SCHEDULED"}
    bench.at(9)
    assert bench.statuses() == {"w": "TIMED_OUT"}


def test_other_verbs_leave_it_waiting(bench: Bench) -> None:
    """Beside it, in another branch, an execution is run again: the attempt that is put off begins when it would have."""
    branches = fork("f", [operator("HUMAN")], [simple("b", {"retry_count": 0}, optional=True)])
    bench.start(flow(branches, join("j", "o", "b")))
    bench.do("b")
    bench.at(3)
    bench.engine.rerun(bench.workflow_id, from_task="b")
    assert bench.statuses()["o"] == "SCHEDULED"
    bench.at(12)
    assert bench.statuses()["o"] == "IN_PROGRESS"
    assert bench.engine.admin.check() == []
