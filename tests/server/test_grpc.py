"""Conductor's gRPC API: every RPC over a real channel, streams, payloads of a type, and codes of errors."""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Iterator
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import Engine, EngineConfig, EventHandler
from conductorlite.errors import InvalidInput
from conductorlite.model.handlers import ActionType

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

import grpc

from conductorlite.server.grpc import METHODS, grpc_served
from conductorlite.server.messages import filled, message_class, read
from conductorlite.server.safety import Role, Safety

SERVICES: Final = {method.service.rpartition(".")[2]: method.service for method in METHODS}

_STEP: Final = {"name": "greet", "taskReferenceName": "g", "type": "SIMPLE", "inputParameters": {"name": "${workflow.input.name}"}}
_FLOW: Final = {"name": "hello", "version": 1, "restartable": True, "tasks": [_STEP, {**_STEP, "taskReferenceName": "h"}]}


class Client:
    """Calls by name, with JSON in and out."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._metadata = None if token is None else (("x-authorization", token),)

    def __call__(self, service: str, name: str, asked: dict[str, Any] | None = None) -> Any:
        """The answer, or all of a stream."""
        method = next(one for one in METHODS if (one.service, one.name) == (SERVICES[service], name))
        takes, gives = message_class(method.takes), message_class(method.gives)
        kind = self._channel.unary_stream if method.stream else self._channel.unary_unary
        call = kind(f"/{method.service}/{name}", takes.SerializeToString, gives.FromString)
        answer = call(filled(takes(), asked or {}), timeout=20, metadata=self._metadata)
        return [read(one) for one in answer] if method.stream else read(answer)

    def code(self, service: str, name: str, asked: dict[str, Any] | None = None) -> str:
        """The name of the code with which a call ends."""
        try:
            self(service, name, asked)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    def close(self) -> None:
        """Let go of the channel."""
        self._channel.close()


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of an engine in memory."""
    with Engine(config=EngineConfig(semantics="OSS")) as engine, grpc_served(engine) as port:  # type: ignore[arg-type]
        made = Client(port)
        yield made
        made.close()
        assert engine.admin.check() == []


def test_every_rpc_of_conductor_is_there() -> None:
    """The 42 RPCs of its five services, and health; each is what it is called."""
    assert len(METHODS) == 43
    assert {name: sum(one.service == whole for one in METHODS) for name, whole in SERVICES.items()} == {
        "MetadataService": 8,
        "WorkflowService": 18,
        "TaskService": 11,
        "EventService": 5,
        "Health": 1,
    }
    assert {one.name for one in METHODS if one.stream} == {"BatchPoll", "GetEventHandlers", "GetEventHandlersForEvent"}
    for one in METHODS:
        assert message_class(one.takes).DESCRIPTOR.full_name == one.takes


def test_a_story_by_rpc(client: Client) -> None:
    """Defined, started, worked at, searched, paused, ended, run again: each RPC answers with what the engine did."""
    client("MetadataService", "CreateTasks", {"defs": [{"name": "greet", "retryCount": 0, "responseTimeoutSeconds": 60}]})
    client("MetadataService", "ValidateWorkflow", {"workflow": _FLOW})
    client("MetadataService", "CreateWorkflow", {"workflow": _FLOW})
    client("MetadataService", "UpdateWorkflows", {"defs": [_FLOW]})
    client("MetadataService", "UpdateTask", {"task": {"name": "greet", "description": "greets", "responseTimeoutSeconds": 60}})
    assert client("MetadataService", "GetTask", {"taskType": "greet"})["task"]["description"] == "greets"
    assert [
        one["taskReferenceName"] for one in client("MetadataService", "GetWorkflow", {"name": "hello"})["workflow"]["tasks"]
    ] == ["g", "h"]
    start = {"name": "hello", "version": 1, "input": {"name": "world", "n": 1.5}, "correlationId": "c"}
    run = client("WorkflowService", "StartWorkflow", start)["workflowId"]
    one = {"workflowId": run}
    assert client("TaskService", "GetQueueInfo")["queues"] == {"greet": 1}
    assert client("TaskService", "GetQueueSizesForTasks", {"taskTypes": ["greet"]})["queueForTask"] == {"greet": 1}
    assert client("TaskService", "GetQueueAllInfo")["queues"]["greet"]["shards"]["a"]["size"] == 1
    first = client("TaskService", "Poll", {"taskType": "greet", "workerId": "w"})["task"]
    assert (first["inputData"], first["status"], first["workflowTask"]["taskReferenceName"]) == (
        {"name": "world"},
        "IN_PROGRESS",
        "g",
    )
    client("TaskService", "AddLog", {"taskId": first["taskId"], "log": "a line"})
    assert client("TaskService", "GetTaskLogs", {"taskId": first["taskId"]})["logs"][0]["log"] == "a line"
    result = {
        "workflowInstanceId": run,
        "taskId": first["taskId"],
        "status": "COMPLETED",
        "outputData": {"n": 2, "l": [None, True]},
    }
    assert client("TaskService", "UpdateTask", {"result": result}) == {"taskId": first["taskId"]}
    assert client("TaskService", "GetTask", {"taskId": first["taskId"]})["task"]["outputData"] == {"n": 2, "l": [None, True]}
    (second,) = client("TaskService", "BatchPoll", {"taskType": "greet", "workerId": "w", "count": 5, "timeout": 1000})
    assert client("TaskService", "Poll", {"taskType": "greet"}) == {}
    for verb in ("PauseWorkflow", "ResumeWorkflow", "DecideWorkflow", "ResetWorkflowCallbacks"):
        assert client("WorkflowService", verb, one) == {}
    client("TaskService", "UpdateTask", {"result": result | {"taskId": second["taskId"], "status": "FAILED"}})
    whole = client("WorkflowService", "GetWorkflowStatus", {**one, "includeTasks": True})
    assert (whole["status"], [task["status"] for task in whole["tasks"]]) == ("FAILED", ["COMPLETED", "FAILED"])
    client("WorkflowService", "RetryWorkflow", one)
    assert client("WorkflowService", "GetRunningWorkflows", {"name": "hello"})["workflowIds"] == [run]
    client("WorkflowService", "TerminateWorkflow", {**one, "reason": "enough"})
    client("WorkflowService", "RestartWorkflow", one)
    client(
        "WorkflowService", "SkipTaskFromWorkflow", {**one, "taskReferenceName": "h", "request": {"taskOutput": {"skipped": True}}}
    )
    client("WorkflowService", "TerminateWorkflow", one)
    assert client("WorkflowService", "RerunWorkflow", {"reRunFromWorkflowId": run})["workflowId"] == run
    client("WorkflowService", "TerminateWorkflow", one)
    found = client("WorkflowService", "GetWorkflows", {"name": "hello", "correlationId": ["c", "d"], "includeClosed": True})
    assert [row["workflowId"] for row in found["workflowsById"]["c"]["workflows"]] == [run]
    for search in ("Search", "SearchV2", "SearchByTasks", "SearchByTasksV2"):
        (row,) = client("WorkflowService", search, {"query": "", "freeText": "*", "size": 5})["results"]
        assert (row["workflowId"], row["status"]) == (run, "TERMINATED")
    for search in ("Search", "SearchV2"):
        assert client("TaskService", search, {"query": "taskType='greet'"})["results"][0]["taskType"] == "greet"
    client("WorkflowService", "RemoveWorkflow", {"workflodId": run})
    client("MetadataService", "DeleteTask", {"taskType": "greet"})
    assert client("Health", "Check") == {"status": "SERVING"}


def test_event_handlers_by_rpc(client: Client) -> None:
    """Handlers are registered, streamed and removed; an action is what it was."""
    start = {"action": "start_workflow", "start_workflow": {"name": "hello", "version": 1, "input": {"a": "${b}"}}}
    handler = {"name": "h", "event": "conductor:orders", "active": True, "actions": [start]}
    client("EventService", "AddEventHandler", {"handler": handler})
    client("EventService", "UpdateEventHandler", {"handler": {**handler, "condition": "true"}})
    (known,) = client("EventService", "GetEventHandlersForEvent", {"event": "conductor:orders", "activeOnly": True})
    assert (known["condition"], known["actions"][0]["start_workflow"]) == ("true", start["start_workflow"])
    assert len(client("EventService", "GetEventHandlers")) == 1
    client("EventService", "RemoveEventHandler", {"name": "h"})
    assert client("EventService", "GetEventHandlers") == []


#: A body of each kind of action, with all of its properties.
_TASK: Final = {"workflowId": "${w}", "taskRefName": "g", "taskId": "t", "output": {"a": "${b}"}, "reasonForIncompletion": "why"}
_KEPT: Final = {"idempotencyKey": "${k}", "idempotencyStrategy": "FAIL"}
_BODIES: Final[dict[str, dict[str, Any]]] = {
    "start_workflow": {
        "name": "hello",
        "version": 1,
        "correlationId": "c",
        "input": {"a": "${b}"},
        "taskToDomain": {"*": "d"},
        **_KEPT,
    },
    "complete_task": _TASK,
    "fail_task": _TASK,
    "terminate_workflow": {"workflowId": "${w}", "terminationReason": "why"},
    "update_workflow_variables": {"workflowId": "${w}", "variables": {"a": "${b}"}, "appendArray": True},
    "send": {"workflowId": "${w}", "topic": "paid", "key": "${k}", "value": {"amount": [1, "${b}"]}},
}


@pytest.mark.parametrize("kind", ActionType)
def test_each_action_is_carried_whole(kind: ActionType, client: Client) -> None:
    """Its word and each property of its body arrive, and come back."""
    body = _BODIES[kind]
    parsed = getattr(EventHandler.from_json(_acting(kind)).actions[0], kind)
    assert len(attrs.fields(type(parsed))) == len(body) + 1, "all but `extra`"
    client("EventService", "AddEventHandler", {"handler": _acting(kind)})
    (action,) = client("EventService", "GetEventHandlers")[0]["actions"]
    assert action == {"action": str(kind), str(kind): body, "expandInlineJSON": False}


def _acting(kind: ActionType) -> dict[str, Any]:
    return {"name": "h", "event": "conductor:orders", "active": True, "actions": [{"action": str(kind), str(kind): _BODIES[kind]}]}


def test_a_word_that_grpc_does_not_have_is_refused_by_name() -> None:
    """Not taken for the enum's first."""
    handler = {"name": "h", "event": "conductor:orders", "actions": [{"action": "shout"}]}
    with pytest.raises(InvalidInput, match=r"gRPC has no word for 'shout' as conductor.proto.EventHandler.Action.action"):
        filled(message_class("conductor.proto.EventHandler")(), handler)


def test_a_payload_of_a_type_stays_what_it_is(client: Client) -> None:
    """A message of a type that nobody here knows is kept to the byte, can be read in expressions, and comes back as it went in."""
    message = {"@type": "type.example.com/a.Message", "@value": "AP8Q"}
    steps = [_STEP, {**_STEP, "taskReferenceName": "h", "inputParameters": {"inputMessage": "${g.output.outputMessage}"}}]
    client("MetadataService", "CreateWorkflow", {"workflow": {**_FLOW, "tasks": steps}})
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    task = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    result = {"workflowInstanceId": run, "taskId": task["taskId"], "status": "COMPLETED", "outputMessage": message}
    client("TaskService", "UpdateTask", {"result": result})
    assert client("TaskService", "GetTask", {"taskId": task["taskId"]})["task"]["outputMessage"] == message
    second = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    assert (second["inputMessage"], second["inputData"]) == (message, {"inputMessage": message})
    wire = filled(message_class("conductor.proto.Task")(), second)
    assert (wire.input_message.type_url, wire.input_message.value) == ("type.example.com/a.Message", b"\x00\xff\x10")


def test_terminating_by_rpc_can_start_the_failure_workflow(client: Client) -> None:
    """On request, and not otherwise."""
    client("MetadataService", "CreateWorkflow", {"workflow": {**_FLOW, "name": "undo"}})
    client("MetadataService", "CreateWorkflow", {"workflow": {**_FLOW, "failureWorkflow": "undo"}})
    for trigger, failures in ((False, 0), (True, 1)):
        run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
        client("WorkflowService", "TerminateWorkflow", {"workflowId": run, "triggerFailureWorkflow": trigger})
        assert len(client("WorkflowService", "GetRunningWorkflows", {"name": "undo"}).get("workflowIds", [])) == failures


@pytest.mark.parametrize("value", ["AP8QIA==", "AP8QIA", "-_8=", "-_8", ""])
def test_base64_of_either_alphabet(client: Client, value: str) -> None:
    """A message whose base64 is that of URLs, or is not padded, reaches the worker as its bytes."""
    steps = [_STEP, {**_STEP, "taskReferenceName": "h", "inputParameters": {"inputMessage": "${g.output.outputMessage}"}}]
    client("MetadataService", "CreateWorkflow", {"workflow": {**_FLOW, "tasks": steps}})
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    task = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    message = {"@type": "type.example.com/a", "@value": value}
    result = {"workflowInstanceId": run, "taskId": task["taskId"], "status": "COMPLETED", "outputData": {"outputMessage": message}}
    client("TaskService", "UpdateTask", {"result": result})
    second = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    padded = value + "=" * (-len(value) % 4)
    assert b64decode(second["inputMessage"]["@value"]) == urlsafe_b64decode(padded)
    assert second["inputData"] == {"inputMessage": message}


def test_broken_base64_is_refused_by_name(client: Client) -> None:
    """Where it is reported, with the place; nothing is stored, so that no worker misses a message."""
    client("MetadataService", "CreateWorkflow", {"workflow": _FLOW})
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    task = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    for value in ("A", "%%%%", "AP8Q\n", "AP 8", "é"):
        message = {"@type": "type.example.com/a", "@value": value}
        result = {
            "workflowInstanceId": run,
            "taskId": task["taskId"],
            "status": "COMPLETED",
            "outputData": {"outputMessage": message},
        }
        with pytest.raises(grpc.RpcError) as refused:
            client("TaskService", "UpdateTask", {"result": result})
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "$.outputData.outputMessage['@value']: is no base64" in str(refused.value.details())
    assert client("TaskService", "GetTask", {"taskId": task["taskId"]})["task"]["status"] == "IN_PROGRESS"


def test_a_skipped_task_has_its_messages(client: Client) -> None:
    """What stands beside the input and output of a skip on the wire is within them."""
    client("MetadataService", "CreateWorkflow", {"workflow": _FLOW})
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    message = {"@type": "type.example.com/a", "@value": "AP8Q"}
    asked = {"workflowId": run, "taskReferenceName": "h", "request": {"taskOutput": {"n": 1}, "taskOutputMessage": message}}
    client("WorkflowService", "SkipTaskFromWorkflow", asked)
    whole = client("WorkflowService", "GetWorkflowStatus", {"workflowId": run, "includeTasks": True})
    (skipped,) = (task for task in whole["tasks"] if task["referenceTaskName"] == "h")
    assert (skipped["outputMessage"], skipped["outputData"]) == (message, {"n": 1, "outputMessage": message})


def test_errors_are_codes(client: Client) -> None:
    """What is not there, cannot be done, or makes no sense ends with its code, and never with a traceback."""
    assert client.code("WorkflowService", "GetWorkflowStatus", {"workflowId": "x"}) == "NOT_FOUND"
    assert client.code("WorkflowService", "StartWorkflow", {"name": "x"}) == "NOT_FOUND"
    assert client.code("TaskService", "GetTask", {"taskId": "x"}) == "NOT_FOUND"
    assert client.code("MetadataService", "CreateWorkflow", {}) == "INVALID_ARGUMENT"
    assert client.code("MetadataService", "CreateWorkflow", {"workflow": {"name": ""}}) == "INVALID_ARGUMENT"
    client("MetadataService", "CreateWorkflow", {"workflow": _FLOW})
    assert client.code("MetadataService", "CreateWorkflow", {"workflow": _FLOW}) == "ALREADY_EXISTS"
    assert client.code("TaskService", "BatchPoll", {"taskType": "x", "count": 1, "timeout": 60_000}) == "INVALID_ARGUMENT"
    assert client.code("WorkflowService", "Search", {"size": 5_001}) == "INVALID_ARGUMENT"
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    assert client.code("WorkflowService", "RestartWorkflow", {"workflowId": run}) == "FAILED_PRECONDITION"
    with pytest.raises(grpc.RpcError, match="'workflow' is missing"):
        client("MetadataService", "CreateWorkflow", {})
    for one in METHODS:
        service = one.service.rpartition(".")[2]
        assert client.code(service, one.name) not in ("UNKNOWN", "INTERNAL", "UNIMPLEMENTED"), one.name


def test_who_may_call() -> None:
    """Without a token nobody, with one what its role may; a server that others reach takes a token."""
    roles = {"a-token-that-only-looks": Role.READ, "a-token-that-does-all": Role.ADMIN}
    safety = Safety(token=roles.get, anonymous=None)
    with Engine() as engine:
        with grpc_served(engine, safety=safety) as port:
            for token, codes in (
                (None, ["UNAUTHENTICATED"] * 2),
                ("a-token-that-only-looks", ["OK", "PERMISSION_DENIED"]),
                ("a-token-that-does-all", ["OK", "OK"]),
            ):
                client = Client(port, token)
                assert [
                    client.code("EventService", "GetEventHandlers"),
                    client.code("TaskService", "Poll", {"taskType": "x"}),
                ] == codes
                client.close()
        with pytest.raises(Exception, match="needs a token"), grpc_served(engine, "0.0.0.0:0"):
            pass


def test_zero_is_not_given(client: Client) -> None:
    """Zero on the wire, where proto3 has no absence, is what nobody wrote, save numbers of retries, their delay, and timeouts."""
    steps = [{**_STEP, "retryCount": 0}, {**_STEP, "taskReferenceName": "h", "retryCount": -1}]
    client("MetadataService", "CreateTasks", {"defs": [{"name": "greet", "retryCount": 1, "backoffScaleFactor": 0}]})
    client("MetadataService", "CreateWorkflow", {"workflow": {**_FLOW, "tasks": steps}})
    run = client("WorkflowService", "StartWorkflow", {"name": "hello"})["workflowId"]
    task = client("TaskService", "Poll", {"taskType": "greet"})["task"]
    result = {"workflowInstanceId": run, "taskId": task["taskId"], "status": "FAILED"}
    client("TaskService", "UpdateTask", {"result": result})
    assert client("TaskService", "Poll", {"taskType": "greet"})["task"]["retryCount"] == 1
    client("MetadataService", "CreateTasks", {"defs": [{"name": "greet"}]})
    known = client("MetadataService", "GetTask", {"taskType": "greet"})["task"]
    assert (known["retryCount"], known["retryDelaySeconds"], known["responseTimeoutSeconds"]) == (0, 0, 3600)


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.binary())
def test_values_come_back_as_they_went(values: dict[str, Any], content: bytes) -> None:
    """JSON of any form, and a message of a type of its own, is the same after the wire."""
    kind = message_class("conductor.proto.TaskResult")
    message = {"@type": "type.example.com/T", "@value": b64encode(content).decode()}
    wire = filled(kind(), {"outputData": values, "outputMessage": message, "status": "COMPLETED"}).SerializeToString()
    assert read(kind.FromString(wire)) == {
        **({"outputData": values} if values else {}),
        "outputMessage": message,
        "status": "COMPLETED",
        "extendLease": False,
        "supportsCancellation": False,
    }
