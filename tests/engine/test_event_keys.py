"""Idempotency keys of workflows that event handlers start: one execution for each key, and a record of what each message did."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, simple, wait
from test_event_handlers import EVENT, handler, start

from conductorlite import EventHandler, InvalidDefinition, validate_event_handler

KEYED = {"idempotency_key": "${order.id}", "input": {"order": "${order}"}}


def publish(bench: Bench, message: str, order: Any, *, settle: bool = True) -> tuple[str, dict[str, Any]]:
    """Status and output of what a message did."""
    (done,) = bench.engine.events.publish(EVENT, {"order": order}, message_id=message)
    if settle:
        bench.engine.settle()
    return str(done.status), done.output_data


def started(bench: Bench) -> list[str]:
    """Ids of all executions."""
    return sorted(one.workflow_id for one in bench.engine.executions())


@pytest.mark.parametrize("settle", [True, False])
def test_return_existing_names_the_execution_there_is(bench: Bench, settle: bool) -> None:
    """A second message with the key starts nothing; its record names the execution of the first, also when that has ended."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(**KEYED, idempotency_strategy="RETURN_EXISTING")))
    status, first = publish(bench, "m1", {"id": 7}, settle=settle)
    assert status == "COMPLETED"
    assert publish(bench, "m2", {"id": 7}, settle=settle) == ("COMPLETED", {"workflowId": first["workflowId"], "existing": True})
    bench.engine.settle()
    bench.engine.signal(first["workflowId"])
    assert publish(bench, "m3", {"id": 7})[1] == {"workflowId": first["workflowId"], "existing": True}
    assert publish(bench, "m4", {"id": 8})[1]["workflowId"] != first["workflowId"]
    assert len(started(bench)) == 2
    assert bench.engine.get(first["workflowId"]).idempotency_key == "7"
    bench.healthy()


@pytest.mark.parametrize("strategy", [None, "", "FAIL", "FAIL_ON_RUNNING"])
def test_a_taken_key_fails_the_action(bench: Bench, strategy: str | None) -> None:
    """Without RETURN_EXISTING the record is FAILED and says whose key it is; FAIL_ON_RUNNING starts anew after the end."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(**KEYED, idempotency_strategy=strategy)))
    _, first = publish(bench, "m1", {"id": "a"})
    status, second = publish(bench, "m2", {"id": "a"})
    assert status == "FAILED"
    assert f"idempotency key 'a' of workflow 'flow' belongs to execution '{first['workflowId']}'" in second["exception"]
    bench.engine.signal(first["workflowId"])
    again, third = publish(bench, "m3", {"id": "a"})
    assert again == ("COMPLETED" if strategy == "FAIL_ON_RUNNING" else "FAILED")
    assert len(started(bench)) == (2 if strategy == "FAIL_ON_RUNNING" else 1)
    if strategy == "FAIL_ON_RUNNING":
        assert publish(bench, "m4", {"id": "a"})[0] == "FAILED"
        bench.engine.signal(third["workflowId"])
        assert publish(bench, "m5", {"id": "a"})[0] == "COMPLETED"
        assert len(started(bench)) == 3
    bench.healthy()


def test_a_start_by_hand_and_one_by_a_message_share_keys(bench: Bench) -> None:
    """The key of an execution that was started by hand is taken for messages, and the other way round; removed, it is free."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(**KEYED, idempotency_strategy="RETURN_EXISTING")))
    run = bench.engine.start("flow", idempotency_key="x")
    assert publish(bench, "m1", {"id": "x"})[1] == {"workflowId": run.workflow_id, "existing": True}
    _, by_message = publish(bench, "m2", {"id": "y"})
    again = bench.engine.start("flow", idempotency_key="y", idempotency_strategy="RETURN_EXISTING")
    assert again.workflow_id == by_message["workflowId"]
    bench.engine.signal(by_message["workflowId"])
    bench.engine.admin.archive(by_message["workflowId"])
    _, anew = publish(bench, "m3", {"id": "y"})
    assert anew["workflowId"] != by_message["workflowId"]
    assert "existing" not in anew
    bench.healthy()


@pytest.mark.parametrize("order", [{}, {"id": None}, {"id": ""}, {"id": "k" * 256}])
def test_a_key_that_is_none_fails_the_action(bench: Bench, order: dict[str, Any]) -> None:
    """A key that resolves to nothing, or is too long, never starts without a key."""
    bench.engine.register(flow(simple("a")))
    bench.engine.events.register(handler(start(**KEYED)))
    status, said = publish(bench, "m1", order)
    assert status == "FAILED"
    assert "idempotency" in said["exception"]
    assert started(bench) == []


def test_messages_at_once_start_one_execution(new_bench: NewBench) -> None:
    """Threads that publish messages with one key at once: each record names the one execution."""
    bench = new_bench()
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(**KEYED, idempotency_strategy="RETURN_EXISTING")))
    said: list[tuple[str, dict[str, Any]]] = []
    threads = [
        threading.Thread(target=lambda number=number: said.append(publish(bench, f"m{number}", {"id": "one"}, settle=False)))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.engine.settle()
    (only,) = started(bench)
    assert [status for status, _ in said] == ["COMPLETED"] * 8
    assert {output["workflowId"] for _, output in said} == {only}
    bench.healthy()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"idempotency_strategy": "RETURN_EXISTNG"}, "did you mean 'RETURN_EXISTING'?"),
        ({"idempotency_strategy": "return_existing"}, "did you mean"),
        ({"idempotency_key": "k" * 256}, "is longer than 255 characters"),
    ],
)
def test_what_is_refused(bench: Bench, fields: dict[str, str], said: str) -> None:
    """A strategy that is none, and a key that is too long."""
    with pytest.raises(InvalidDefinition, match=r"start_workflow\.idempotency") as refused:
        bench.engine.events.register(handler(start(**fields)))
    assert said in str(refused.value)


def test_what_is_warned_of(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A strategy without a key, a key that is the same for every message, and what Conductor does not know: once, in the log."""
    body = {"name": "flow", "idempotencyStrategy": "FAIL", "priorty": 5}
    given = {
        "name": "h",
        "event": EVENT,
        "active": True,
        "queue": "q",
        "actions": [{"action": "start_workflow", "start_workflow": body}],
    }
    warned = {f"{problem.path}: {problem.message}" for problem in validate_event_handler(EventHandler.from_json(given))}
    assert warned == {
        "$.queue: is not known, and has no effect",
        "$.actions[0].start_workflow.idempotencyStrategy: has no effect without an idempotencyKey",
        "$.actions[0].start_workflow.priorty: is not known, and has no effect",
    }
    (constant,) = validate_event_handler(handler(start(idempotency_key="one")))
    assert "it is the same for every message" in str(constant)
    bench.engine.events.register(EventHandler.from_json(given))
    bench.engine.settle()
    bench.engine.run_until_idle()
    assert sum("priorty" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(("action", "meant"), [("startWorkflow", "start_workflow"), ("complete-task", "complete_task")])
def test_an_action_that_is_none(bench: Bench, action: str, meant: str) -> None:
    """The error lists the actions and the nearest."""
    given = {"name": "h", "event": EVENT, "actions": [{"action": action}]}
    with pytest.raises(InvalidDefinition, match=f"did you mean '{meant}'"):
        bench.engine.events.register(EventHandler.from_json(given))
