"""Executions as Conductor's JSON: names, units, what is left out."""

from __future__ import annotations

import json
from typing import Any

from conductorlite import Engine, EngineConfig, TaskDef, TaskResult, TaskStatus, VirtualClock, Workflow, WorkflowDef, WorkflowTask
from conductorlite.model.documents import task_to_json, workflow_to_json

T0 = 1_900_000_000_000

DEFINITION = WorkflowDef(
    name="order",
    version=2,
    tasks=[
        WorkflowTask(
            name="charge",
            task_reference_name="c",
            start_delay_ms=1_500,
            input_parameters={"n": "${workflow.input.n}"},
            task_definition=TaskDef(name="charge", retry_delay_ms=5_000, response_timeout_ms=20_000, timeout_ms=60_000),
        )
    ],
)


def _executed() -> Workflow:
    clock = VirtualClock(T0)
    engine = Engine(clock=clock, config=EngineConfig(ids=lambda: "w1"))
    engine.start(DEFINITION, {"n": None}, correlation_id="corr", priority=3)
    engine.advance("2s")
    (task,) = engine.poll("charge", worker_id="k")
    result = TaskResult(workflow_id="w1", task_id=task.task_id, status=TaskStatus.FAILED, reason="no", output_data={"a": [1]})
    engine.update_task(result)
    engine.settle()
    return engine.get("w1")


def test_a_workflow() -> None:
    """An execution has Conductor's fields: instants in epoch ms, nulls left out, the definition inside."""
    document = workflow_to_json(_executed())
    tasks: list[Any] = document.pop("tasks")
    definition: Any = document.pop("workflowDefinition")
    assert document == {
        "workflowId": "w1",
        "workflowName": "order",
        "workflowVersion": 2,
        "status": "RUNNING",
        "createTime": T0,
        "startTime": T0,
        "updateTime": T0 + 2_000,
        "endTime": 0,
        "lastRetriedTime": 0,
        "correlationId": "corr",
        "priority": 3,
        "rateLimited": False,
        "input": {"n": None},
        "output": {},
        "variables": {},
        "taskToDomain": {},
        "failedReferenceTaskNames": [],
        "failedTaskNames": [],
    }
    assert [task["retryCount"] for task in tasks] == [0, 1]
    assert WorkflowDef.from_json(definition) == DEFINITION


def test_a_task() -> None:
    """An attempt has Conductor's fields: spans in seconds, what Conductor repeats from the execution and the definition."""
    workflow = _executed()
    document = task_to_json(workflow.tasks[0], workflow)
    assert document.pop("workflowTask")["taskReferenceName"] == "c"
    assert TaskDef.from_json(document.pop("taskDefinition")) == DEFINITION.tasks[0].task_definition
    assert document == {
        "taskId": workflow.tasks[0].task_id,
        "referenceTaskName": "c",
        "taskType": "charge",
        "taskDefName": "charge",
        "status": "FAILED",
        "workflowInstanceId": "w1",
        "workflowType": "order",
        "workflowPriority": 3,
        "correlationId": "corr",
        "inputData": {"n": None},
        "outputData": {"a": [1]},
        "reasonForIncompletion": "no",
        "retryCount": 0,
        "retried": True,
        "executed": workflow.tasks[0].executed,
        "seq": 1,
        "pollCount": 1,
        "workerId": "k",
        "scheduledTime": T0,
        "startTime": T0 + 2_000,
        "updateTime": T0 + 2_000,
        "endTime": T0 + 2_000,
        "queueWaitTime": 2_000,
        "startDelayInSeconds": 2,
        "callbackAfterSeconds": 0,
        "callbackFromWorker": True,
        "iteration": 0,
        "loopOverTask": False,
        "responseTimeoutSeconds": 20,
    }


def test_a_task_alone() -> None:
    """Without its execution an attempt has what its row holds, and the document is plain JSON that nobody shares."""
    task = _executed().tasks[1]
    document = task_to_json(task)
    assert "workflowType" not in document
    assert json.loads(json.dumps(document)) == document
    document["inputData"]["n"] = 1
    assert task.input_data == {"n": None}
