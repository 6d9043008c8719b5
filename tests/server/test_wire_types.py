"""Every field that REST and gRPC give has Conductor's type: clients in Go, Java and C# refuse a whole answer for one fraction."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from decoder import ANSWERS, wrongs
from hypothesis import given
from hypothesis import strategies as st
from rest_kit import Ask, asking

from conductorlite import (
    Engine,
    EngineConfig,
    EventHandler,
    InvalidDefinition,
    Semantics,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowSchedule,
)
from conductorlite.errors import InvalidInput
from conductorlite.model.documents import task_to_json
from conductorlite.server.rest.documents import in_conductors_types, task_def, workflow_def
from conductorlite.server.rest.routes import OPERATIONS

sys.path.append(str(Path(__file__).parents[1] / "codec"))
from definition_strategies import task_defs, workflow_defs


def test_every_operation_has_a_type() -> None:
    """What an operation answers stands in the table; operations that are not in it answer nothing."""
    assert ANSWERS.keys() - {("GET", "/api-docs")} <= {(one.method, one.path) for one in OPERATIONS}
    silent = {one.name for one in OPERATIONS if (one.method, one.path) not in ANSWERS}
    assert {name for name in silent if name.startswith(("search", "execut", "poll", "start"))} == set()


def _wrongs(document: Any, kind: str) -> list[str]:
    """What a strict decoder refuses; texts that are kept whatever they are, because a template may stand there, are none of it."""
    return [one for one in wrongs(document, kind) if ".idempotencyStrategy:" not in one and "Schema.type:" not in one]


_NO_WORD: Final = re.compile(r"gRPC has no word for .* as \S*(SchemaDef\.type|[sS]trategy): ask over REST", re.DOTALL)


@given(workflow_defs(), task_defs(), st.sampled_from(Semantics))
def test_any_definition(definition: WorkflowDef, task: TaskDef, semantics: Semantics) -> None:
    """A definition with any values in any fields is decoded over REST, and goes into its message over gRPC."""
    messages = pytest.importorskip("conductorlite.server.messages")
    for kind, document in (("WorkflowDef", workflow_def(definition)), ("TaskDef", task_def(task, semantics))):
        assert _wrongs(document, kind) == []
        refused = ""
        try:
            messages.filled(messages.message_class(f"conductor.proto.{kind}")(), document)
        except InvalidInput as error:
            refused = str(error)
        # A text that is kept whatever it is may be none of an enumeration's words.
        assert not refused or _NO_WORD.fullmatch(refused)


@given(task_defs())
def test_whole_numbers_stay(task: TaskDef) -> None:
    """A number that Conductor's type can hold is not changed."""
    before = task.to_json()
    after = in_conductors_types(task.to_json(), TaskDef)
    assert {name for name in before if before[name] != after[name]} <= {
        name for name, value in before.items() if not isinstance(value, int) or abs(value) >= 2**31
    }


#: A task definition with a fraction in every span, and the nodes of a workflow with every kind of task.
_FRACTIONS: Final = {
    "retryCount": 5,
    "retryDelaySeconds": 0.5,
    "maxRetryDelaySeconds": 2.25,
    "backoffJitterMs": 900,
    "timeoutSeconds": 900.5,
    "totalTimeoutSeconds": 10_000.001,
    "responseTimeoutSeconds": 60.5,
    "pollTimeoutSeconds": 600.75,
    "rateLimitPerFrequency": 1_000,
    "rateLimitFrequencyInSeconds": 0.25,
}


def _node(ref: str, kind: str = "SIMPLE", **more: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": kind, **more}


_SECOND: Final = _node("right", "WAIT", inputParameters={"duration": "1s"})
_ROUND: Final = _node("round", "INLINE", inputParameters={"evaluatorType": "javascript", "expression": "1.5"})
_HALF: Final = {"startDelay": 0.5, "cacheConfig": {"key": "k", "ttlInSecond": 0.5}, "inputParameters": {"half": 0.5}}
_WHOLE: Final = {
    "name": "whole",
    "version": 3,
    "ownerApp": "app",
    "timeoutSeconds": 86_400.5,
    "timeoutPolicy": "ALERT_ONLY",
    "cacheConfig": {"key": "k", "ttlInSecond": 1.5},
    "rateLimitConfig": {"rateLimitKey": "k", "concurrentExecLimit": 50},
    "variables": {"x": 1.5},
    "outputParameters": {"x": "${workflow.variables.x}", "half": 0.5},
    "tasks": [
        _node("work", **_HALF),
        _node("inner", taskDefinition={"name": "inner", **_FRACTIONS}),
        _node("set", "SET_VARIABLE", inputParameters={"x": 2.5}),
        _node("fork", "FORK_JOIN", forkTasks=[[_node("left", "NOOP")], [_SECOND]]),
        _node("join", "JOIN", joinOn=["left", "right"]),
        _node("loop", "DO_WHILE", loopCondition="$.loop['iteration'] < 2", loopOver=[_ROUND]),
        _node("sub", "SUB_WORKFLOW", subWorkflowParam={"name": "child", "version": 1, "taskToDomain": {"*": "d"}}),
        _node("case", "SWITCH", evaluatorType="value-param", expression="v", inputParameters={"v": "a"})
        | {"decisionCases": {"a": [_node("human", "HUMAN")]}},
    ],
}
_CHILD: Final = {"name": "child", "version": 1, "tasks": [_node("step")], "timeoutSeconds": 0.5, "timeoutPolicy": "ALERT_ONLY"}


def _engine(semantics: str) -> Engine:
    """An engine with executions in many states, all of whose spans are fractions."""
    engine = Engine(clock=VirtualClock(0), config=EngineConfig(semantics=Semantics(semantics)), environment={"E": "1"})
    engine.register(*(TaskDef.from_json({"name": name, **_FRACTIONS}) for name in ("work", "step")))
    engine.register(WorkflowDef.from_json(_CHILD), WorkflowDef.from_json(_WHOLE))
    request = {"name": "whole", "version": 3, "input": {"x": 0.5}, "workflowDef": None}
    for schedule in (
        {"name": "often", "cronExpression": "0 * * * * ?"},
        {"name": "never", "intervalSeconds": 1.5, "paused": True},
    ):
        engine.schedules.save(WorkflowSchedule.from_json({**schedule, "startWorkflowRequest": request}))
    action = {"action": "start_workflow", "start_workflow": {"name": "whole", "version": 3}}
    engine.events.register(EventHandler.from_json({"name": "h", "event": "conductor:e", "actions": [action], "active": True}))
    for number in range(3):
        ids = {"workflow_id": f"run{number}", "correlation_id": "c", "idempotency_key": f"{number}"}
        engine.start("whole", {"x": 0.5}, priority=number, **ids)
    engine.settle()
    for _ in range(10):
        for kind in ("work", "inner", "step"):
            for one in engine.poll(kind, count=10, domain="d" if kind == "step" else None):
                status = TaskStatus.FAILED if one.attempt < 2 else TaskStatus.COMPLETED
                if one.attempt == 0:
                    engine.update_task(_result(one, TaskStatus.IN_PROGRESS, callback_after_ms=1_500))
                    continue
                engine.update_task(_result(one, status, output_data={"half": 0.5}))
        engine.advance("1s")
    for _ in range(4):  # whose first task is to be polled
        engine.start("whole", {"x": 0.5})
    engine.settle()
    engine.advance("1s")
    return engine


def _result(task: Any, status: TaskStatus, **more: Any) -> TaskResult:
    return TaskResult(
        workflow_id=task.workflow_id, task_id=task.task_id, status=status, reason="x", lease=task.lease, logs=["a"], **more
    )


@pytest.mark.parametrize("semantics", ["OSS", "ORKES"])
def test_every_document(semantics: str) -> None:
    """Each operation that answers documents, asked of executions in many states; `asking` decodes each answer strictly."""
    engine = _engine(semantics)
    seen: set[str] = set()

    async def test(ask: Ask) -> None:
        tasks = (await ask("GET", "/api/workflow/run0")).json()["tasks"]
        for one in OPERATIONS:
            if one.method != "GET" or one.path.endswith("/stream"):  # which lasts as long as the execution
                continue
            for run in ("run0", "run1"):
                path = one.path
                for name, value in {
                    "workflowId": run, "taskId": tasks[0]["taskId"], "correlationId": "c", "event": "conductor:e", "key": "E",
                    "name": "never" if "/schedules/" in path else "whole", "tasktype": "work",
                }.items():  # fmt: skip
                    path = path.replace(f"{{{name}}}", value)
                known = {"taskType": "work", "cronExpression": "0 * * * * ?", "version": 3, "includeOutput": True} | {
                    "includeVariables": True, "includeTasks": True, "includeClosed": True, "verbose": True, "activeOnly": False,
                }  # fmt: skip
                query = {each.name: known[each.name] for each in one.parameters if each.name in known}
                answer = await ask("GET", path, params=query)
                if answer.status_code == 200:
                    seen.add(one.path)
        await ask("POST", "/api/workflow/bulk/search", ["run0", "run1", "nobody"])
        await ask("POST", "/api/workflow/whole/correlated?includeClosed=true&includeTasks=true", ["c"])
        for strategy in ("TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT"):
            query = f"returnStrategy={strategy}&waitForSeconds=-1"
            await ask("POST", f"/api/workflow/execute/child/1?{query}", {"name": "child"})
            await ask("POST", f"/api/tasks/run1/COMPLETED/signal/sync?returnStrategy={strategy}&timeoutMillis=0", {})
        mock = {"taskRefToMockOutput": {"step": [{"status": "COMPLETED", "output": {"x": 0.5}}]}}
        assert (await ask("POST", "/api/workflow/test", {"name": "child", "version": 1, **mock})).json()["status"] == "COMPLETED"
        for verb, path in (("PUT", "pause"), ("PUT", "resume"), ("POST", "terminate"), ("POST", "restart"), ("DELETE", "remove")):
            await ask(verb, f"/api/workflow/bulk/{path}", ["run1", "nobody"])

    asking(engine, test)
    missing = {path for method, path in ANSWERS if method == "GET"} - seen
    assert missing == {
        "/api/workflow/external-storage-location",
        "/api/workflow/externalstoragelocation",
        "/api/tasks/external-storage-location",
        "/api/tasks/externalstoragelocation",
        "/api-docs",
    }


def test_every_message() -> None:
    """The same executions over gRPC: each document goes into its message, and none of its numbers changes on the way."""
    messages = pytest.importorskip("conductorlite.server.messages")
    from conductorlite.server.grpc import METHODS

    engine = _engine("OSS")
    task = engine.get("run0").tasks[0].task_id
    asked: dict[str, Any] = {"name": "whole", "version": 3, "includeTasks": True, "workflowId": "run0", "taskId": task}
    asked |= {"taskType": "work", "correlationId": ["c"], "includeClosed": True, "activeOnly": True, "event": "conductor:e"}
    seen = 0
    for method in METHODS:
        if method.call is None or not method.name.startswith(("Get", "Search")):
            continue
        search = {"size": 50, "query": "", "freeText": "*"}
        answer = method.call(engine, search if method.name.startswith("Search") else asked)
        for one in answer if method.stream else [answer]:
            message = messages.filled(messages.message_class(method.gives)(), one)
            seen += bool(_compared(messages.read(message), one, method.name))
    assert seen == 18


def _compared(message: Any, document: Any, path: str) -> bool:
    """Compare what a message says with the document that it was made of, where it says anything."""
    if isinstance(message, dict) and isinstance(document, dict):
        for name, value in message.items():
            if name in document:
                _compared(value, document[name], f"{path}.{name}")
    elif isinstance(message, list) and isinstance(document, list):
        assert len(message) == len(document), path
        for place, (one, other) in enumerate(zip(message, document, strict=True)):
            _compared(one, other, f"{path}[{place}]")
    elif isinstance(document, int | float):
        assert message == document, path
    return True


def test_a_version_fits_its_type() -> None:
    """A version is no length of time: one that clients could not read is refused, wherever it stands."""
    sub = _node("sub", "SUB_WORKFLOW", subWorkflowParam={"name": "x", "version": 2**31})
    definition = WorkflowDef.from_json({"name": "w", "version": 2**31, "tasks": [sub]})
    with Engine() as engine, pytest.raises(InvalidDefinition) as refused:
        engine.register(definition)
    assert [one.path for one in refused.value.problems] == ["$.version", "$.tasks[0].subWorkflowParam.version"]


def test_short_spans_are_not_none() -> None:
    """A fraction of a second is rounded up: 0 would mean that there is no delay, no limit, no timeout."""
    document = task_def(TaskDef.from_json({"name": "x", **_FRACTIONS}), Semantics.OSS)
    assert {name: document[name] for name in _FRACTIONS if name.endswith("Seconds")} == {
        "retryDelaySeconds": 1,
        "maxRetryDelaySeconds": 3,
        "timeoutSeconds": 901,
        "totalTimeoutSeconds": 10_001,
        "responseTimeoutSeconds": 61,
        "pollTimeoutSeconds": 601,
        "rateLimitFrequencyInSeconds": 1,
    }
    with _engine("OSS") as engine:
        row = engine.get("run0")
        assert {type(task_to_json(one, row)["callbackAfterSeconds"]) for one in row.tasks} == {int}
