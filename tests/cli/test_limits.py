"""Limits on the command line, and in the JSON of executions."""

from __future__ import annotations

import pytest
from cli_kit import Shell

from conductorlite import Engine, EngineConfig, RateLimitConfig, Semantics, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.model.documents import task_to_json, workflow_to_json

T0 = 1_900_000_000_000


def _pay() -> WorkflowDef:
    definition = TaskDef(name="pay", concurrent_exec_limit=1, rate_limit_per_frequency=5, rate_limit_frequency_ms=1_500)
    return WorkflowDef(name="order", tasks=[WorkflowTask(name="pay", task_reference_name="p", task_definition=definition)])


def _keyed() -> WorkflowDef:
    config = RateLimitConfig(rate_limit_key="${workflow.input.who}", concurrent_exec_limit=1)
    tasks = [WorkflowTask(name="a", task_reference_name="a")]
    return WorkflowDef(name="keyed", tasks=tasks, rate_limit_config=config)


def test_limits(shell: Shell) -> None:
    """`limits` lists them; with a key it tells who holds a slot and who waits, in order."""
    with shell.engine() as engine:
        for one in ("w1", "w2"):
            engine.start(_pay(), workflow_id=one)
            engine.start(_keyed(), {"who": "eu"}, workflow_id=f"{one}k", priority=3)
        engine.settle()
    lines = [line.split()[:4] for line in shell("limits").out.splitlines()[1:]]
    assert lines == [["task:pay", "1", "1", "1"], ["workflow:eu", "1", "0", "1"]]
    assert shell("limits", "--after", "task:pay").out.splitlines()[1].startswith("workflow:eu")
    said = shell("limits", "task:pay").out
    holds, waits = said.splitlines()[-2:]
    assert said.startswith("limit      task:pay\nin use     1\nin window  1\nwaiting    1\n")
    assert (holds.split()[:3], waits.split()[:5]) == (["holds", "w1", "p"], ["waits,", "number", "1", "w2", "p"])
    assert holds.endswith("1 at once, 5 in 1.5 s")
    assert shell("limits", "workflow:eu").out.splitlines()[-1].split()[:5] == ["waits,", "number", "1", "w2k", "3"]


def test_limits_as_json(shell: Shell) -> None:
    """`--json` has the names of definitions, and of members what their definitions allow."""
    with shell.engine() as engine:
        for one in ("w1", "w2"):
            engine.start(_pay(), workflow_id=one)
            engine.start(_keyed(), {"who": "eu"}, workflow_id=f"{one}k")
        engine.settle()
        engine.poll("pay")
        task_id = engine.get("w2").tasks[0].task_id
    first, second = shell("limits", "--json").json
    assert (first.pop("admittedAt")[0] > 0, second.pop("admittedAt")) == (True, [])
    assert first == {"key": "task:pay", "inUse": 1, "waiting": 1, "reserved": 0}
    assert second == {"key": "workflow:eu", "inUse": 1, "waiting": 1, "reserved": 0}
    found = shell("limits", "task:pay", "--json").json
    (waiter,) = found["line"]
    assert waiter.pop("askedAt") > 0
    assert waiter == {
        "workflowId": "w2",
        "referenceTaskName": "p",
        "taskId": task_id,
        "retryCount": 0,
        "priority": 0,
        "concurrentExecLimit": 1,
        "rateLimitPerFrequency": 5,
        "rateLimitFrequencyInSeconds": 1.5,
    }
    assert [holder["workflowId"] for holder in found["holders"]] == ["w1"]
    (execution,) = shell("limits", "workflow:eu", "--json").json["line"]
    assert execution.keys() == {"workflowId", "priority", "askedAt", "concurrentExecLimit"}


def test_a_key_that_is_none(shell: Shell) -> None:
    """A text that can be no key is a line on stderr."""
    shell("start", "hello.json", "--id", "h1")
    said = shell("limits", "pay")
    assert (said.code != 0, said.err) == (
        True,
        "conductorlite: 'pay' is no limit: its key is task:<name> or workflow:<rate limit key>\n",
    )


@pytest.mark.trap("core-38")
@pytest.mark.parametrize(("semantics", "status"), [(Semantics.ORKES, "PENDING"), (Semantics.OSS, "SCHEDULED")])
def test_the_status_of_a_limited_task(semantics: Semantics, status: str) -> None:
    """PENDING is Orkes' status; under OSS a document and an expression say SCHEDULED, and the engine's own rows PENDING."""
    engine = Engine(clock=VirtualClock(T0), config=EngineConfig(semantics=semantics))
    fork = WorkflowTask(
        name="f",
        task_reference_name="f",
        type="FORK_JOIN",
        fork_tasks=[
            _pay().tasks,
            [WorkflowTask(name="b", task_reference_name="b", input_parameters={"of": "${p.status}", "all": "${p}"})],
        ],
    )
    join = WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=["p", "b"])
    engine.start(_pay(), workflow_id="w1")
    engine.start(WorkflowDef(name="forked", tasks=[fork, join]), workflow_id="w2")
    engine.settle()
    workflow = engine.get("w2")
    rows = {task.ref: task for task in workflow.tasks}
    assert rows["p"].status == "PENDING"
    written = {task["referenceTaskName"]: task["status"] for task in workflow_to_json(workflow)["tasks"]}
    assert (written["p"], written["b"]) == (status, "SCHEDULED")
    assert task_to_json(rows["p"], workflow)["status"] == status
    assert (rows["b"].input_data["of"], rows["b"].input_data["all"]["status"]) == (status, status)


def test_the_limit_of_an_execution() -> None:
    """Conductor's rateLimitKey and rateLimited: the key while the execution holds a slot or waits, and whether it waits."""
    engine = Engine(clock=VirtualClock(T0))
    for one in ("w1", "w2"):
        engine.start(_keyed(), {"who": "eu:west"}, workflow_id=one)
    engine.settle()
    seen = [workflow_to_json(engine.get(one)) for one in ("w1", "w2")]
    assert [(one["rateLimitKey"], one["rateLimited"]) for one in seen] == [("eu:west", False), ("eu:west", True)]
    engine.terminate("w1")
    engine.settle()
    seen = [workflow_to_json(engine.get(one)) for one in ("w1", "w2")]
    assert [(one.get("rateLimitKey"), one["rateLimited"]) for one in seen] == [(None, False), ("eu:west", False)]


def test_queues_say_where_their_tasks_are(shell: Shell) -> None:
    """Offered, waiting for a slot, delayed and in progress, as text and as JSON."""
    with shell.engine() as engine:
        for one in ("w1", "w2"):
            engine.start(_pay(), workflow_id=one)
        engine.settle()
    (document,) = shell("queues", "--json").json
    (line,) = (line.split()[:5] for line in shell("queues").out.splitlines()[1:])
    assert line == ["pay", "1", "1", "0", "0"]
    oldest = document.pop("oldestDueAt")
    assert oldest > 0
    assert document == {"queue": "pay", "taskType": "pay", "offered": 1, "waiting": 1, "delayed": 0, "inProgress": 0}
