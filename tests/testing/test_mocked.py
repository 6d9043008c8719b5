"""`run_mocked`: outputs in place of workers, as Conductor's POST /workflow/test has them."""

from __future__ import annotations

import pytest

from conductorlite import TaskDef, WorkflowDef
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
