"""Event handlers: which messages they act upon, what each action does, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import T0, Bench, flow, rounds, simple, wait

from conductorlite import EventAction, EventHandler, InvalidDefinition, WorkflowStatus, WorkflowTask, validate_event_handler
from conductorlite.errors import AlreadyExists, DefinitionNotFound, InvalidInput
from conductorlite.model.handlers import (
    EventExecution,
    EventStatus,
    SendMessage,
    StartWorkflow,
    TaskDetails,
    TerminateWorkflow,
    UpdateWorkflowVariables,
)
from conductorlite.testing import replay

EVENT = "sqs:orders"


def start(name: str = "flow", **fields: Any) -> EventAction:
    """An action that starts a workflow."""
    expand = fields.pop("expand_inline_json", False)
    return EventAction(action="start_workflow", start_workflow=StartWorkflow(name=name, **fields), expand_inline_json=expand)


def complete(**fields: Any) -> EventAction:
    """An action that completes a task."""
    return EventAction(action="complete_task", complete_task=TaskDetails(**fields))


def fail(**fields: Any) -> EventAction:
    """An action that fails a task."""
    return EventAction(action="fail_task", fail_task=TaskDetails(**fields))


def handler(*actions: EventAction, name: str = "h", **fields: Any) -> EventHandler:
    """An active handler."""
    return EventHandler(name=name, actions=actions, **{"event": EVENT, "active": True, **fields})


def told(done: list[EventExecution]) -> list[tuple[str, str, str | None]]:
    """Ids, statuses and actions."""
    return [(one.id, str(one.status), one.action) for one in done]


def test_a_workflow_is_started(bench: Bench) -> None:
    """Name, version, correlation id, input and domains are given or filled in from the payload; the message is told in it."""
    engine = bench.engine
    engine.register(flow(simple("a"), version=1), flow(simple("b"), version=2))
    inputs = {"id": "${order.id}", "all": "${$.order}", "text": "no ${order.id}", "none": "${nothing}", "n": 1}
    action = start(version=1, correlation_id="c-${order.id}", input=inputs, task_to_domain={"a": "eu"})
    engine.events.register(handler(action))
    (done,) = engine.events.publish(EVENT, {"order": {"id": 7}}, message_id="m1")
    assert (done.status, done.action, done.created, done.name, done.event) == ("COMPLETED", "start_workflow", T0, "h", EVENT)
    workflow = engine.get(done.output_data["workflowId"])
    assert workflow.input_data == {
        "id": 7, "all": {"id": 7}, "text": "no 7", "none": None, "n": 1,
        "conductor.event.messageId": "m1", "conductor.event.name": EVENT,
    }  # fmt: skip
    assert (workflow.version, workflow.correlation_id, workflow.event) == (1, "c-7", EVENT)
    assert workflow.task_to_domain.value == {"a": "eu"}
    assert [task.ref for task in workflow.tasks] == ["a"]
    assert engine.admin.check() == []


def test_domains_of_the_payload(bench: Bench) -> None:
    """Without domains of its own the action takes the payload's `taskToDomain`, if it is one."""
    bench.engine.register(flow(simple("a")))
    bench.engine.events.register(handler(start()))
    for payload, expected in (({"taskToDomain": {"a": "x"}}, {"a": "x"}), ({"taskToDomain": [1]}, {}), ([1], {})):
        (done,) = bench.engine.events.publish(EVENT, payload)
        assert bench.engine.get(done.output_data["workflowId"]).task_to_domain.value == expected


@pytest.mark.trap("core-47")
def test_a_task_is_completed_and_failed(bench: Bench) -> None:
    """By id or by reference; its output is what the action says, and which message it was."""
    run = bench.start(flow(wait("w"), simple("a", {"retry_count": 0})))
    by_ref = {"workflow_id": "${wf}", "task_ref_name": "${ref}", "output": {"x": "${x}"}}
    bench.engine.events.register(handler(complete(**by_ref), condition="$.ok"))
    by_id = handler(fail(task_id="${id}", output={"x": 2}, reason_for_incompletion="said ${x}"), name="g", condition="!$.ok")
    bench.engine.events.register(by_id)
    first, second = bench.engine.events.publish(EVENT, {"ok": True, "wf": run.workflow_id, "ref": "w", "x": 5}, message_id="m1")
    assert (first.status, second.status) == (EventStatus.SKIPPED, EventStatus.COMPLETED)
    assert second.output_data == {"workflowId": run.workflow_id, "taskRefName": "w", "taskId": bench.task("w").task_id}
    told_of = {"conductor.event.messageId": "m1", "conductor.event.name": EVENT}
    assert bench.task("w").output_data == {"x": 5, **told_of}
    bench.engine.events.publish(EVENT, {"ok": False, "id": bench.task("a").task_id, "x": 6}, message_id="m2")
    task = bench.task("a")
    assert (str(task.status), task.reason, task.output_data["x"]) == ("FAILED", "said 6", 2)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.engine.admin.check() == []


def test_the_last_round_is_meant(bench: Bench) -> None:
    """A reference inside a loop means the round that was scheduled last; a printed one its own."""
    run = bench.start(flow(rounds("loop", [wait("w")], times=3)))
    bench.engine.events.register(handler(complete(workflow_id=run.workflow_id, task_ref_name="${ref}")))
    assert bench.engine.events.publish(EVENT, {"ref": "w"})[0].output_data["taskRefName"] == "w__1"
    assert bench.engine.events.publish(EVENT, {"ref": "w"})[0].output_data["taskRefName"] == "w__2"
    again = bench.engine.events.publish(EVENT, {"ref": "w__1"})[0].output_data
    assert again["error"] == "task 'w__1' is COMPLETED already"
    assert bench.statuses() == {"loop": "IN_PROGRESS", "w__1": "COMPLETED", "w__2": "COMPLETED", "w__3": "IN_PROGRESS"}


def test_what_is_not_there_is_told(bench: Bench) -> None:
    """A task, an execution that does not exist, or has ended, is an `error` in the record, which is FAILED."""
    run = bench.start(flow(wait("w")))
    bench.engine.terminate(run.workflow_id)
    actions = [
        complete(workflow_id="${wf}", task_ref_name="w"),
        complete(workflow_id="${wf}", task_ref_name="nobody"),
        complete(task_id="nobody"),
        complete(workflow_id="${nothing}", task_ref_name="w"),
        EventAction(action="terminate_workflow", terminate_workflow=TerminateWorkflow(workflow_id="nobody")),
        EventAction(
            action="update_workflow_variables",
            update_workflow_variables=UpdateWorkflowVariables(workflow_id="${wf}", variables={"a": 1}),
        ),
    ]
    bench.engine.events.register(handler(*actions))
    done = bench.engine.events.publish(EVENT, {"wf": run.workflow_id})
    assert {str(one.status) for one in done} == {"FAILED"}
    assert [one.output_data["error"] for one in done] == [
        "task 'w' is CANCELED already",
        f"no task 'nobody' of workflow {run.workflow_id} is open: a TERMINATED workflow comes to no task any more",
        "no task found with reference name None, task id nobody, workflow id None",
        "no task found with reference name w, task id None, workflow id None",
        "no workflow found with the id nobody",
        f"workflow {run.workflow_id} is TERMINATED already",
    ]


def test_an_execution_is_terminated(bench: Bench) -> None:
    """With the reason of the payload."""
    run = bench.start(flow(wait("w")))
    body = TerminateWorkflow(workflow_id="${wf}", termination_reason="because of ${why}")
    bench.engine.events.register(handler(EventAction(action="terminate_workflow", terminate_workflow=body)))
    bench.engine.events.publish(EVENT, {"wf": run.workflow_id, "why": 3})
    assert (bench.workflow.status, bench.workflow.reason) == (WorkflowStatus.TERMINATED, "because of 3")


def pull(ref: str, **given: Any) -> WorkflowTask:
    """A task that receives messages."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="PULL_WORKFLOW_MESSAGES", input_parameters=given)


def send(**given: Any) -> EventAction:
    """A message to the execution that the payload names."""
    return EventAction(action="send", send=SendMessage(workflow_id="${wf}", **given))


def test_a_message_is_sent(bench: Bench) -> None:
    """Before the task that receives it begins, and while it waits; once for the message's id; to the usual topic, too."""
    run = bench.start(flow(wait("w"), pull("p", topic="paid"), pull("q")))
    bench.engine.events.register(handler(send(topic="${topic}", value={"amount": "${n}"}), send(value="${n}")))
    message = {"wf": run.workflow_id, "topic": "paid", "n": 5}
    for _ in range(2):
        done = bench.engine.events.publish(EVENT, message, message_id="m")
        assert [(str(one.status), one.output_data["topic"]) for one in done] == [("COMPLETED", "paid"), ("COMPLETED", "messages")]
    assert [one.topic for one in bench.engine.messages(run.workflow_id)] == ["paid", "messages"]
    bench.engine.events.remove_executions(bench.engine.clock.now() + 1)
    again = bench.engine.events.publish(EVENT, message, message_id="m")
    assert [one.output_data["existing"] for one in again] == [True, True]
    bench.engine.signal(run.workflow_id, task="w")
    assert [bench.task(ref).output_data["messages"][0]["payload"] for ref in ("p", "q")] == [{"amount": 5}, 5]
    assert bench.engine.status(run.workflow_id) == "COMPLETED"
    assert bench.engine.admin.check() == []


def test_a_message_that_is_not_taken_fails_the_action(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """FAILED with its reason, in the record and in the log: another value, no topic, a full mailbox, an end."""
    run = bench.start(flow(wait("w")))
    bench.engine.events.register(handler(send(topic="${topic}", key="${key}", value="${n}")))

    def published(**message: Any) -> str | None:
        (done,) = bench.engine.events.publish(EVENT, {"wf": run.workflow_id, "topic": "t", "n": 1, "key": None, **message})
        said = done.output_data
        assert str(done.status) == ("FAILED" if "error" in said or "exception" in said else "COMPLETED")
        why = said.get("error") or said.get("exception")
        assert why is None or why in caplog.messages[-1]
        return why

    assert published(key="k") is None
    assert published(key="k") is None
    assert published(key="k", n=2) == "the message of topic 't' with the key 'k' has another value"
    assert "topic 'task:w' is that of signals to a task" in str(published(topic="task:w"))
    assert "key is 5, not a text" in str(published(key=5)).replace("'", "")
    assert published(wf="nobody") == "no workflow found with the id nobody"
    assert [one.value.value for one in bench.engine.messages(run.workflow_id)] == [1]
    for n in range(999):
        bench.engine.send(run.workflow_id, "t", n)
    assert published() == "1000 messages are kept already"
    assert published(key="k") is None, "it is there"
    assert "could not send just now: 1000 messages are kept already" in str(bench.engine.explain(run.workflow_id))
    bench.engine.terminate(run.workflow_id)
    assert published() == f"workflow {run.workflow_id} is TERMINATED already"
    assert published(key="k") is None, "it is there"


def test_two_messages_with_one_key_before_a_turn(bench: Bench) -> None:
    """While the execution is parked: the second is found in its inbox, and is the first or fails."""
    run = bench.start(flow(wait("w")))
    for name, value in (("a", "${n}"), ("b", "${n}"), ("c", "other")):
        bench.engine.events.register(handler(send(topic="t", key="k", value=value), name=name))
    with bench.engine.backend.writing() as tx:
        tx.executions.park(run.workflow_id, 3, "it broke")
    done = bench.engine.events.publish(EVENT, {"wf": run.workflow_id, "n": 1})
    assert [str(one.status) for one in done] == ["COMPLETED", "COMPLETED", "FAILED"]
    assert done[1].output_data["existing"] is True
    assert "another value" in done[2].output_data["error"]
    bench.engine.resume(run.workflow_id)
    bench.engine.settle()
    assert [one.value.value for one in bench.engine.messages(run.workflow_id)] == [1]


def test_variables_are_set_and_appended_to(bench: Bench) -> None:
    """Those that are not given stay; with `appendArray` lists grow, also by messages whose turns come later."""
    run = bench.start(flow(wait("w"), variables={"list": [1], "kept": True}))
    for name, append in (("set", False), ("append", True)):
        body = UpdateWorkflowVariables(workflow_id=run.workflow_id, variables={"list": "${x}"}, append_array=append)
        action = EventAction(action="update_workflow_variables", update_workflow_variables=body)
        bench.engine.events.register(handler(action, name=name, event=name))
    bench.engine.events.publish("append", {"x": [2]})
    bench.engine.events.publish("append", {"x": [3, 4]})
    assert bench.workflow.variables.value == {"list": [1, 2, 3, 4], "kept": True}
    bench.engine.events.publish("append", {"x": "no list"})
    assert bench.workflow.variables.value == {"list": "no list", "kept": True}
    bench.engine.events.publish("set", {"x": [9]})
    assert bench.workflow.variables.value == {"list": [9], "kept": True}
    assert bench.engine.admin.check() == []


@pytest.mark.trap("core-47")
@pytest.mark.parametrize(
    ("condition", "evaluator", "holds"),
    [
        ("$.n > 4", None, True),
        ("$.n > 5", "javascript", False),
        ("$.n", "", True),
        ("0 - $.n", "graaljs", False),
        ("'true'", "javascript", False),
        ("$.list", "javascript", False),
        ("n", "value-param", True),
        ("text", "value-param", False),
        ("n == 5", "python", True),
        ("   ", None, True),
        ("$.inline.a == 1", None, True),
        ("$.list[0].b == 2", None, True),
    ],
)
def test_conditions(bench: Bench, condition: str, evaluator: str | None, holds: bool) -> None:
    """A boolean as it is, a number when above 0; JSON in texts is read, in lists too; nothing means always."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(), condition=condition, evaluator_type=evaluator))
    payload = {"n": 5, "text": "x", "inline": '{"a": 1}', "list": ['{"b": 2}']}
    (done,) = bench.engine.events.publish(EVENT, payload, message_id="m")
    assert done.status is (EventStatus.COMPLETED if holds else EventStatus.SKIPPED)
    if not holds:
        assert (done.id, done.action, done.output_data["condition"]) == ("m_0", None, condition)
        assert done.output_data["msg"]["inline"] == {"a": 1}


def test_a_condition_that_breaks_is_failed(bench: Bench) -> None:
    """What a script raises is told, nothing is done, and a message that comes again is not asked about again."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(), condition="$.a.b.c"))
    (done,) = bench.engine.events.publish(EVENT, {}, message_id="m")
    assert (done.status, done.output_data["exception"].partition(":")[0]) == (EventStatus.FAILED, "ExpressionFailed")
    assert bench.engine.events.publish(EVENT, {"a": {"b": {"c": 1}}}, message_id="m") == [done]


def test_inline_json_is_expanded_when_asked_for(bench: Bench) -> None:
    """Only an action with `expandInlineJSON` sees into texts."""
    bench.engine.register(flow(wait("w")))
    for expand in (False, True):
        action = start(input={"id": "${order.id}", "list": "${list}"}, expand_inline_json=expand)
        bench.engine.events.register(handler(action, name=f"h{expand}", event=f"e:{expand}"))
    payload = {"order": '{"id": 7}', "list": ["[1]", "{no json"]}
    inputs = [
        bench.engine.get(bench.engine.events.publish(f"e:{expand}", payload)[0].output_data["workflowId"]).input_data
        for expand in (False, True)
    ]
    assert [(one["id"], one["list"]) for one in inputs] == [(None, ["[1]", "{no json"]), (7, [[1], "{no json"])]


def test_order_failures_and_others(bench: Bench) -> None:
    """Handlers by name, actions in order; a failure keeps no other from being done; only active ones of the event are asked."""
    bench.engine.register(flow(wait("w")))
    actions = start("nobody"), complete(workflow_id="${n}", task_ref_name="w"), start()
    bench.engine.events.register(handler(*actions, name="b"))
    bench.engine.events.register(handler(start(), name="a"))
    bench.engine.events.register(handler(start(), name="c", active=False))
    bench.engine.events.register(handler(start(), name="d", event="sqs:other"))
    done = bench.engine.events.publish(EVENT, {"n": 5}, message_id="m")
    assert [(one.name, one.number, str(one.status)) for one in done] == [
        ("a", 0, "COMPLETED"), ("b", 0, "FAILED"), ("b", 1, "FAILED"), ("b", 2, "COMPLETED")
    ]  # fmt: skip
    assert done[1].output_data == {"exception": "DefinitionNotFound: no workflow 'nobody' is registered"}
    assert done[2].output_data == {"exception": "InvalidInput: workflowId is '5', not a text"}
    bench.engine.register(flow(wait("w"), name="nobody"))
    assert bench.engine.events.publish(EVENT, {"n": 5}, message_id="m") == done  # FAILED counts as done
    assert len(bench.engine.executions()) == 2


def test_records_are_listed_and_removed(bench: Bench) -> None:
    """Newest first, of a handler or a message, page by page; and deleted by age."""
    bench.engine.register(flow(wait("w")))
    for name in ("a", "b"):
        bench.engine.events.register(handler(start(), name=name))
    for number in range(3):
        bench.at(number)
        bench.engine.events.publish(EVENT, {}, message_id=f"m{number}")
    listed = bench.engine.events.executions()
    assert [(one.message_id, one.name) for one in listed] == [(f"m{n}", name) for n in (2, 1, 0) for name in ("b", "a")]
    assert bench.engine.events.executions(limit=2) + bench.engine.events.executions(after=listed[1]) == listed
    assert told(bench.engine.events.executions("a", message_id="m1")) == [("m1_0", "COMPLETED", "start_workflow")]
    assert [one.name for one in bench.engine.events.executions(message_id="m1")] == ["b", "a"]
    assert [one.message_id for one in bench.engine.events.executions("b", limit=2)] == ["m2", "m1"]
    assert listed[0].to_json() == {
        "id": "m2_0", "messageId": "m2", "name": "b", "event": EVENT, "created": T0 + 2000, "status": "COMPLETED",
        "action": "start_workflow", "output": listed[0].output_data,
    }  # fmt: skip
    assert bench.engine.events.remove_executions(T0 + 2000) == 4
    assert bench.engine.events.executions() == listed[:2]
    again = bench.engine.events.publish(EVENT, {}, message_id="m0")
    assert {one.created for one in again} == {T0 + 2000}
    assert len(bench.engine.executions()) == 6  # what was started is known by its id
    with pytest.raises(InvalidInput):
        bench.engine.events.executions(limit=0)


def test_handlers_are_registered(bench: Bench) -> None:
    """By name; listed by event and activity; replaced, or refused; deleted."""
    engine = bench.engine
    engine.events.register(handler(start(), name="b"))
    engine.events.register(handler(start(), name="a", active=False))
    engine.events.register(handler(start(), name="c", event="x"))
    assert [one.name for one in engine.events.all()] == ["a", "b", "c"]
    assert [one.name for one in engine.events.all(EVENT)] == ["a", "b"]
    assert [one.name for one in engine.events.all(EVENT, active_only=True)] == ["b"]
    with pytest.raises(AlreadyExists):
        engine.events.register(handler(start(), name="b"), overwrite=False)
    engine.events.register(handler(start(), name="b", active=False))
    assert engine.events.get("b").active is False
    engine.events.unregister("b")
    for verb in (engine.events.get, engine.events.unregister):
        with pytest.raises(DefinitionNotFound):
            verb("b")
    assert engine.events.publish(EVENT, {}) == []


def test_a_parked_execution_keeps_the_report(bench: Bench) -> None:
    """What is written to a parked execution is held with the rest of its inbox until it is resumed."""
    run = bench.start(flow(wait("w")))
    bench.engine.events.register(handler(complete(workflow_id=run.workflow_id, task_ref_name="w")))
    with bench.engine.backend.writing() as tx:
        tx.executions.park(run.workflow_id, 3, "broken")
    (done,) = bench.engine.events.publish(EVENT, {})
    assert "error" not in done.output_data
    bench.engine.settle()
    assert bench.statuses() == {"w": "IN_PROGRESS"}
    bench.engine.resume(run.workflow_id)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("payload", [None, 5, "text", [{"a": 1}], True])
def test_any_json_is_a_payload(bench: Bench, payload: Any) -> None:
    """A payload that is no object is `$.value` to a condition, and the document of `${…}`."""
    bench.engine.register(flow(wait("w")))
    bench.engine.events.register(handler(start(input={"x": "${a}", "y": "${$[0].a}"}), condition="'value' in $ || true"))
    bench.engine.events.register(handler(start(), name="i", condition="$.value === 5"))
    one, other = bench.engine.events.publish(EVENT, payload)
    given = bench.engine.get(one.output_data["workflowId"]).input_data
    assert (given["x"], given["y"]) == (None, 1 if isinstance(payload, list) else None)
    assert (other.status is EventStatus.COMPLETED) == (payload == 5 and payload is not True)


@pytest.mark.parametrize(
    ("event", "payload", "message_id"),
    [
        ("", {}, "m"), ("e", {}, ""), ("e", {}, "m" * 256), ("e", {1: 2}, "m"), ("e", float("nan"), "m"), (5, {}, "m"),
        ("e\ud800", {}, "m"),
    ],
)  # fmt: skip
def test_bad_messages(bench: Bench, event: Any, payload: Any, message_id: Any) -> None:
    """A message without a name or an id, or whose payload is no JSON, is refused with nothing done."""
    with pytest.raises(InvalidInput):
        bench.engine.events.publish(event, payload, message_id=message_id)
    assert bench.engine.events.executions() == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"name": "", "event": "e", "actions": [{"action": "fail_task", "fail_task": {"taskId": "f"}}]}, "$.name: is empty"),
        ({"name": "h", "event": " ", "actions": []}, "$.event: is empty; $.actions: is empty"),
        ({"name": "h", "event": "e", "actions": [{"action": "start_agent"}]}, "$.actions[0].action: 'start_agent' is not one of"),
        ({"name": "h", "event": "e", "actions": [{"action": "start_workflow"}]}, "$.actions[0].start_workflow: is missing"),
        (
            {"name": "h", "event": "e", "actions": [{"action": "start_workflow", "start_workflow": {}}]},
            "$.actions[0].start_workflow.name: is missing",
        ),
        (
            {"name": "h", "event": "e", "actions": [{"action": "fail_task", "fail_task": {"workflowId": "w"}}]},
            "$.actions[0].fail_task: names no task",
        ),
        (
            {"name": "h", "event": "e", "actions": [{"action": "terminate_workflow", "terminate_workflow": {}}]},
            "$.actions[0].terminate_workflow.workflowId: is missing",
        ),
        (
            {
                "name": "h", "event": "e",
                "actions": [{"action": "update_workflow_variables", "update_workflow_variables": {"workflowId": "w"}}],
            },
            "$.actions[0].update_workflow_variables.variables: is empty",
        ),
        (
            {"name": "h", "event": "e", "actions": [{"action": "send", "send": {"topic": "t"}}]},
            "$.actions[0].send.workflowId: is missing",
        ),
        (
            {"name": "h", "event": "e", "actions": [{"action": "send", "send": {"workflowId": "w", "topic": "task:w"}}]},
            "$.actions[0].send.topic: is that of signals to a task",
        ),
        (
            {
                "name": "h", "event": "e", "condition": "$.a ===", "evaluatorType": "javascript",
                "actions": [{"action": "start_workflow", "start_workflow": {"name": "f"}}],
            },
            "$.condition: ",
        ),
        (
            {
                "name": "h", "event": "e", "evaluatorType": "cobol",
                "actions": [{"action": "start_workflow", "start_workflow": {"name": "f"}}],
            },
            "$.evaluatorType: 'cobol' is not one of",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_handler(bench: Bench, document: dict[str, Any], problem: str) -> None:
    """Every error is told with its path, and nothing is registered."""
    wrong = EventHandler.from_json({**document, "active": True})
    errors = [str(found) for found in validate_event_handler(wrong)]
    assert "; ".join(errors).startswith(problem), errors
    with pytest.raises(InvalidDefinition):
        bench.engine.events.register(wrong)
    assert bench.engine.events.all() == []


def test_warnings() -> None:
    """Off, a body of another action, a property nobody reads: allowed, and told."""
    document = {
        "name": "h",
        "event": "e",
        "actions": [{"action": "start_workflow", "start_workflow": {"name": "f", "prio": 1}, "fail_task": {"taskId": "t"}}],
    }
    found = validate_event_handler(EventHandler.from_json(document))
    assert {str(problem.severity) for problem in found} == {"warning"}
    assert [problem.path for problem in found] == ["$.active", "$.actions[0].fail_task", "$.actions[0].start_workflow.prio"]
    assert validate_event_handler(EventHandler(name=5, event="e"))[0].path == "$.name"  # type: ignore[arg-type]


@pytest.mark.trap("core-47")
def test_json_goes_through_unharmed() -> None:
    """Conductor's JSON comes back as it was, unknown properties too; bodies keep their names."""
    document = {
        "name": "h",
        "event": "conductor:flow:x",
        "condition": "$.a == 1",
        "evaluatorType": "javascript",
        "actions": [
            {
                "action": "start_workflow",
                "start_workflow": {"name": "f", "version": 2, "correlationId": "c", "input": {"a": 1}, "taskToDomain": {"*": ""}},
                "expandInlineJSON": True,
            },
            {
                "action": "complete_task",
                "complete_task": {"workflowId": "w", "taskRefName": "r", "taskId": "i", "output": {}, "reasonForIncompletion": ""},
                "later": None,
            },
            {"action": "terminate_workflow", "terminate_workflow": {"workflowId": "w", "terminationReason": "r"}},
            {
                "action": "update_workflow_variables",
                "update_workflow_variables": {"workflowId": "w", "variables": {"a": []}, "appendArray": True},
            },
        ],
        "active": True,
        "tags": [{"key": "a"}],
    }
    read = EventHandler.from_json(document)
    document["actions"][1]["complete_task"].pop("output")  # type: ignore[index]
    assert read.to_json() == document
    assert EventHandler.from_json(read.to_json()) == read
    assert EventHandler.from_json({"name": "h", "event": "e", "actions": []}).active is False


def test_what_a_handler_did_can_be_replayed(bench: Bench) -> None:
    """An execution that messages started, appended to and completed is exported, and lives again line by line."""
    bench.engine.register(flow(wait("w"), variables={"list": [1]}))
    bench.engine.events.register(handler(start(input={"n": "${n}"}, correlation_id="c")))
    (done,) = bench.engine.events.publish(EVENT, {"n": 1})
    wf = done.output_data["workflowId"]
    body = UpdateWorkflowVariables(workflow_id=wf, variables={"list": [2]}, append_array=True)
    append = EventAction(action="update_workflow_variables", update_workflow_variables=body)
    ending = complete(workflow_id=wf, task_ref_name="w", output={"x": 1})
    bench.engine.events.register(handler(append, ending, name="i", event="other"))
    bench.engine.events.publish("other", {})
    replayed = replay(bench.engine.admin.export(wf))
    assert replayed.engine.history(wf) == bench.engine.history(wf)
    assert replayed.engine.get(wf).variables.value == {"list": [1, 2]}
    assert replayed.engine.get(wf).event == EVENT
