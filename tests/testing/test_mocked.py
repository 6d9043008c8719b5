"""`run_mocked`: outputs in place of workers, as Conductor's POST /workflow/test has them."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import TaskDef, WorkflowDef, flow, task
from conductorlite.model.errors import InvalidInput
from conductorlite.testing import run_mocked

PAY = {"name": "pay", "tasks": [{"name": "charge", "taskReferenceName": "charge"}]}

ORDER = WorkflowDef.from_json(
    {
        "name": "order",
        "inputParameters": ["amount"],
        "tasks": [
            {"name": "check", "taskReferenceName": "check", "inputParameters": {"amount": "${workflow.input.amount}"}},
            {
                "name": "pay",
                "taskReferenceName": "pay",
                "type": "SUB_WORKFLOW",
                "inputParameters": {},
                "subWorkflowParam": {"name": "pay", "version": 1},
            },
            {"name": "ship", "taskReferenceName": "ship", "inputParameters": {"to": "${check.output.to}"}},
        ],
    }
)
DEFINITIONS = (WorkflowDef.from_json(PAY), TaskDef(name="check", retry_count=2, retry_delay_ms=60_000))


@pytest.mark.parametrize("mocks", ["x", None, {"output": {}}, ["x"]])
def test_what_is_no_list_of_objects(mocks: Any) -> None:
    """It is said, whatever it is instead."""
    with pytest.raises(InvalidInput, match="lists of objects"):
        run_mocked(ORDER, {}, *DEFINITIONS, task_ref_to_mock_output={"check": mocks})
    below = {"taskRefToMockOutput": {"charge": mocks}}
    with pytest.raises(InvalidInput, match="lists of objects"):
        run_mocked(ORDER, {}, *DEFINITIONS, task_ref_to_mock_output={"check": [{}]}, sub_workflows={"pay": below})


def test_a_flow_is_run_as_a_definition_is() -> None:
    """With its input by name; anything else is refused."""

    @task
    def greet(name: str) -> str:
        return name

    @flow
    def greeting(name: str) -> str:
        return greet(name)

    done = run_mocked(greeting, {"name": "Ada"}, task_ref_to_mock_output={"greet": [{"output": {"result": "hello"}}]})
    assert done.output_data["result"] == "hello"
    with pytest.raises(InvalidInput, match="takes a flow or a definition"):
        run_mocked("greeting")  # type: ignore[arg-type]


def test_each_attempt_ends_as_its_entry_says() -> None:
    """A failure and its retry, a sub-workflow's own outputs, and the end."""
    done = run_mocked(
        ORDER,
        {"amount": 3},
        *DEFINITIONS,
        task_ref_to_mock_output={"check": [{"status": "FAILED"}, {"output": {"to": "Rome"}}], "ship": [{"output": {"parcel": 7}}]},
        sub_workflows={"pay": {"taskRefToMockOutput": {"charge": [{"output": {"paid": True}}]}}},
    )
    assert str(done.status) == "COMPLETED"
    assert [str(task.status) for task in done.tasks if task.ref == "check"] == ["FAILED", "COMPLETED"]
    assert done.task("ship").input_data == {"to": "Rome"}
    assert done.task("pay").output_data["paid"] is True


def test_what_has_no_entry_waits_until_its_timeouts_end_it() -> None:
    """As a task without a worker does."""
    done = run_mocked(ORDER, {"amount": 3}, *DEFINITIONS, task_ref_to_mock_output={"check": [{"output": {"to": "Rome"}}]})
    assert str(done.status) == "TIMED_OUT"
    assert done.reason is not None
    assert "poll timed out" in done.reason


def test_what_is_no_list_of_objects_is_refused() -> None:
    """As Conductor refuses it."""
    with pytest.raises(InvalidInput):
        run_mocked(ORDER, {}, *DEFINITIONS, task_ref_to_mock_output={"check": [{"status": "DONE"}]})
