"""What an execution hears of others, only if it is meant: an attempt that still waits, of this run, for that very execution."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, simple
from test_families import sub

from conductorlite import WorkflowStatus
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind

CHILD = flow(simple("work", {"retry_count": 0}), name="child")


@pytest.fixture
def parent(bench: Bench) -> Bench:
    """A parent whose attempt 1 at `c`, in generation 1, waits for a child: the first child failed, and the parent was retried."""
    bench.start(flow(sub("c", CHILD), simple("z")))
    bench.do("work", "FAILED")
    bench.engine.retry(bench.workflow_id)
    bench.engine.settle()
    task = bench.task("c")
    assert (task.attempt, task.generation) == (1, 1)
    return bench


def _tell(bench: Bench, kind: EventKind, said: dict[str, Any], **fields: Any) -> None:
    """An event about the present attempt at `c`, with some of it wrong."""
    task = bench.task("c")
    told = {"workflowId": task.sub_workflow_id, "taskId": task.task_id, "name": "child.1", "reason": None, "output": {}, **said}
    event = Event(
        workflow_id=bench.workflow_id,
        event_id=f"{kind}:stray",
        kind=kind,
        due_at=bench.clock.now(),
        posted_at=bench.clock.now(),
        sender="stranger",
        ref="c",
        attempt=task.attempt,
        generation=task.generation,
        data=Payload.of(told),
    )
    with bench.engine.backend.writing() as tx:
        tx.inbox.post([attrs.evolve(event, **fields)])
    bench.engine.settle()


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another child": ({"workflowId": "stranger"}, {}),
    "an earlier attempt": ({}, {"attempt": 0}),
    "a later attempt": ({}, {"attempt": 2}),
    "an earlier run": ({}, {"generation": 0}),
    "an attempt of an earlier run": ({"taskId": None}, {"generation": 0}),
    "a task that is not there": ({"taskId": None}, {"ref": "d"}),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_an_end_that_is_not_the_childs_own_ends_nothing(parent: Bench, wrong: str, status: str) -> None:
    """An event of another execution, or about another attempt, changes neither the task nor the workflow; the child's own does."""
    said, fields = WRONG[wrong]
    before = parent.journal()
    _tell(parent, EventKind.CHILD_ENDED, {"status": status, **said}, **fields)
    assert parent.journal() == before
    parent.do("work", output={"n": 1})
    assert (parent.statuses()["c"], parent.statuses()["z"]) == ("COMPLETED", "SCHEDULED")


@pytest.mark.parametrize("wrong", WRONG)
def test_a_stranger_that_goes_on_reopens_nothing(parent: Bench, wrong: str) -> None:
    """The task and its workflow stay as they ended, but for the event of the child itself."""
    child = str(parent.task("c").sub_workflow_id)
    parent.do("work", "FAILED")
    assert parent.status_of_workflow() is WorkflowStatus.FAILED
    said, fields = WRONG[wrong]
    before = parent.journal()
    _tell(parent, EventKind.CHILD_REOPENED, said, **fields)
    assert (parent.status_of_workflow(), parent.journal()) == (WorkflowStatus.FAILED, before)
    parent.engine.retry(child)
    parent.engine.settle()
    assert parent.status_of_workflow() is WorkflowStatus.RUNNING


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("said", [{"error": "no"}, {"status": "COMPLETED"}])
def test_an_answer_to_another_start_ends_nothing(parent: Bench, wrong: str, said: dict[str, Any]) -> None:
    """That a start was refused, or found somebody who has its key, counts for the attempt that asked."""
    if wrong == "another child" and "error" in said:
        pytest.skip("an error names no execution")
    other, fields = WRONG[wrong]
    before = parent.journal()
    _tell(parent, EventKind.STARTED, {**said, **other}, **fields)
    if wrong == "another child":
        assert parent.statuses()["c"] == "COMPLETED"  # the execution that has the key is another one
        return
    assert parent.journal() == before
