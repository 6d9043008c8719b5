"""`run_mocked`: outputs in place of workers, as Conductor's POST /workflow/test has them."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import Engine, TaskDef, VirtualClock, WorkflowDef, flow, task
from conductorlite.model.errors import InvalidInput
from conductorlite.testing import ScriptedWorkers, mock_sub_workflows, run_mocked

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


def test_an_entry_for_a_sub_workflow_stands_for_all_of_it() -> None:
    """None of its tasks is carried out."""
    outputs = {"check": [{"output": {"to": "Rome"}}], "pay": [{"output": {"paid": 7}}], "ship": [{}]}
    done = run_mocked(ORDER, {"amount": 3}, *DEFINITIONS, task_ref_to_mock_output=outputs)
    assert (str(done.status), done.task("pay").output_data["paid"]) == ("COMPLETED", 7)


@task
def charge(amount: int) -> int:
    """Never called here."""
    raise AssertionError(amount)


@flow
def pay(amount: int) -> int:
    """A flow that another one calls."""
    return charge(amount)


@flow
def book(amount: int) -> int:
    """Calls a flow that calls one."""
    return pay(amount) + 1


@flow
def orders(amounts: list[int]) -> int:
    """Calls a flow in a choice."""
    total = 0
    if amounts[0] > 0:
        total = book(amounts[0])
    return total


def test_a_worker_stands_for_a_sub_workflow() -> None:
    """Its script has every verb of a script, also by input; wherever the sub-workflow stands."""
    workers = ScriptedWorkers()
    workers.pay.fails(1).then.returns(4)
    workers.pay.when(input={"amount": 9}).returns(10)
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        definition = mock_sub_workflows(orders, "pay")
        first = engine.start(definition, {"amounts": [3]})
        second = engine.start(definition, {"amounts": [9]})
        assert (first.result(), second.result()) == ({"result": 5}, {"result": 11})
        assert sorted(given["amount"] for given in workers.pay.inputs) == [3, 3, 9]
        workers.book.returns(1)
        assert engine.start(mock_sub_workflows(orders), {"amounts": [3]}).result() == {"result": 1}
        assert len(workers.pay.calls) == 3


def test_a_sub_workflow_that_there_is_not() -> None:
    """What could be meant is said; and what is no workflow is refused."""
    with pytest.raises(InvalidInput, match="'order' has no sub-workflow 'pya'; did you mean 'pay'"):
        mock_sub_workflows(ORDER, "pya")
    assert mock_sub_workflows(ORDER).tasks[1].type == "SIMPLE"
    with pytest.raises(InvalidInput, match="takes a flow or a definition"):
        mock_sub_workflows("order")  # type: ignore[arg-type]
