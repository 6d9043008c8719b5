"""Answers at the seam with Conductor's data that a real server gives, each once found to differ here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    InvalidDefinition,
    Semantics,
    TaskDef,
    TaskResult,
    TaskStatus,
    TimeoutPolicy,
    VirtualClock,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.codec.executions import workflow_to_json

T0 = 1_900_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock, with a secret and a variable."""
    store = str(tmp_path / "a.db") if request.param == "sqlite" else None
    with Engine(store, clock=VirtualClock(T0), secrets={"API_KEY": "k"}, environment={"REGION": "us-east-1"}) as made:
        yield made


def flow(*tasks: dict[str, Any], name: str = "w", **fields: Any) -> WorkflowDef:
    """A definition of tasks in JSON."""
    given = [{"name": task["taskReferenceName"], "type": "SIMPLE", **task} for task in tasks]
    return WorkflowDef.from_json({"name": name, "tasks": given, **fields})


def test_output_signalled_to_a_wait_is_kept_when_it_ends(engine: Engine) -> None:
    """What a running WAIT was given stays its output when its time is over."""
    wait = {"taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "60 seconds"}}
    run = engine.start(flow(wait, outputParameters={"o": "${w.output.note}"}))
    engine.signal(run.workflow_id, {"note": "half way"}, task="w", status=TaskStatus.IN_PROGRESS)
    engine.advance("60s")
    assert (run.workflow.task("w").output_data, run.result()) == ({"note": "half way"}, {"o": "half way"})


@pytest.mark.parametrize(("until", "status"), [("2040-06-01", "IN_PROGRESS"), ("2040-06-01 ", "FAILED"), (" ", "IN_PROGRESS")])
def test_until_is_read_as_it_is(engine: Engine, until: str, status: str) -> None:
    """Blanks around the date of a WAIT are an error; a blank text is none."""
    wait = {"taskReferenceName": "w", "type": "WAIT", "inputParameters": {"until": "${workflow.input.u}"}}
    run = engine.start(flow(wait), {"u": until})
    assert str(run.workflow.task("w").status).startswith(status)


def test_a_child_does_not_say_which_execution_it_is(engine: Engine) -> None:
    """A `subWorkflowId` in the output of a child does not overwrite that of the child itself."""
    engine.register(flow({"taskReferenceName": "n", "type": "NOOP"}, name="inner"))
    engine.register(flow({"taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "inner"}}, name="mid"))
    run = engine.start(flow({"taskReferenceName": "m", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "mid"}}))
    engine.run_until_idle()
    assert engine.get(run.workflow.task("m").output_data["subWorkflowId"]).name == "mid"


def test_a_delayed_attempt_tells_when_it_is_offered(engine: Engine) -> None:
    """`callbackAfterSeconds` is the delay of a retry, or of a start, until the task is polled."""
    engine.register(TaskDef(name="a", retry_count=1, retry_delay_ms=60_000))
    run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="a", task_reference_name="a", start_delay_ms=5_000)]))

    def told() -> list[int]:
        return [task["callbackAfterSeconds"] for task in workflow_to_json(run.workflow)["tasks"]]

    assert told() == [5]
    engine.advance("5s")
    (task,) = engine.poll("a")
    assert told() == [0]
    failed = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.FAILED, lease=task.lease)
    engine.update_task(failed)
    assert told() == [0, 60]
    engine.advance("60s")
    engine.poll("a")
    assert told() == [0, 0]


def test_runtime_metadata_falls_back_to_the_environment(engine: Engine) -> None:
    """A name that is no secret is a variable of the engine's environment, which is not taken out of what comes back."""
    engine.register(TaskDef(name="a", retry_count=0, runtime_metadata=["API_KEY", "REGION"]))
    run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="a", task_reference_name="a")]))
    (task,) = engine.poll("a")
    assert task.runtime_metadata == {"API_KEY": "k", "REGION": "us-east-1"}
    engine.update_task(
        TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=TaskStatus.COMPLETED,
            lease=task.lease,
            output_data={"at": "us-east-1"},
        )
    )
    assert run.workflow.task("a").output_data == {"at": "us-east-1"}


def test_runtime_metadata_that_is_nowhere_fails_the_task(engine: Engine) -> None:
    """A name that is neither is told."""
    engine.register(TaskDef(name="a", retry_count=0, runtime_metadata=["NOWHERE"]))
    run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="a", task_reference_name="a")]))
    assert engine.poll("a") == []
    assert "there is no secret 'NOWHERE'" in (run.workflow.task("a").reason or "")


#: A child, a body or a branch that waits for somebody.
HELD = {"name": "x", "taskReferenceName": "x", "type": "HUMAN"}
CHILD = {"name": "c", "workflowDefinition": {"name": "c", "tasks": [HELD]}}

#: What no worker holds, each under the reference `o`, and what has to stand around it.
OPERATORS: dict[str, list[dict[str, Any]]] = {
    "SUB_WORKFLOW": [{"taskReferenceName": "o", "subWorkflowParam": CHILD}],
    "START_WORKFLOW": [{"taskReferenceName": "o", "inputParameters": {"startWorkflow": {"name": "held"}}, "startDelay": 9_000}],
    "WAIT": [{"taskReferenceName": "o", "inputParameters": {"duration": "3 h"}}],
    "HUMAN": [{"taskReferenceName": "o"}],
    "DO_WHILE": [{"taskReferenceName": "o", "loopCondition": "false", "loopOver": [HELD]}],
    "JOIN": [{"taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[HELD]]}, {"taskReferenceName": "o", "joinOn": ["x"]}],
    "EXCLUSIVE_JOIN": [
        {
            "taskReferenceName": "f",
            "type": "FORK_JOIN",
            "forkTasks": [[HELD], [{"name": "o", "taskReferenceName": "o", "type": "EXCLUSIVE_JOIN", "joinOn": ["x"]}]],
        },
        {"taskReferenceName": "j", "type": "JOIN", "joinOn": ["x", "o"]},
    ],
}


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("kind", OPERATORS)
def test_no_response_timeout_of_what_no_worker_holds(engine: Engine, kind: str, embedded: bool) -> None:
    """Conductor writes 3600 s into every definition it exports: that ends no operator, nor what it waits for."""
    exported = {"name": "o", "timeoutSeconds": 0, "responseTimeoutSeconds": 3600, "retryCount": 0}
    if not embedded or kind == "EXCLUSIVE_JOIN":
        engine.register(TaskDef.from_json(exported))
    engine.register(flow(HELD, name="held"))
    tasks = [{"type": kind, **task, **({"taskDefinition": exported} if embedded else {})} for task in OPERATORS[kind]]
    run = engine.start(flow(*tasks))
    engine.advance("2h")
    assert run.workflow.task("o").status in (TaskStatus.IN_PROGRESS, TaskStatus.SCHEDULED)
    assert str(run.status) == "RUNNING"
    assert [str(child.status) for child in engine.children(run.workflow_id)] in ([], ["RUNNING"])


def test_a_response_timeout_that_an_earlier_version_gave_a_wait_is_void(tmp_path: Path) -> None:
    """Versions before stored one for operators: in a file of theirs it passes without a word."""
    definition = {"name": "o", "timeoutSeconds": 3600}
    clock = VirtualClock(T0)
    with Engine(tmp_path / "a.db", clock=clock) as engine:
        run = engine.start(flow({"taskReferenceName": "o", "type": "WAIT", "taskDefinition": definition}), workflow_id="w")
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE tasks SET response_timeout_at = timeout_at, timeout_at = NULL")
        file.execute("UPDATE inbox SET kind = 'RESPONSE_TIMEOUT', event_id = 'RESPONSE_TIMEOUT:o' WHERE kind = 'TASK_TIMEOUT'")
    file.close()
    with Engine(tmp_path / "a.db", clock=clock) as engine:
        engine.advance("2h")
        task = engine.get(run.workflow_id).task("o")
        assert (task.status, task.response_timeout_at, engine.check("w")) == (TaskStatus.IN_PROGRESS, None, [])


def test_what_was_handed_over_has_no_response_timeout(engine: Engine) -> None:
    """A worker's `asyncComplete` task that its worker has handed over is held by nobody."""
    definition = {"name": "o", "responseTimeoutSeconds": 60, "timeoutSeconds": 0, "retryCount": 0}
    run = engine.start(flow({"taskReferenceName": "o", "type": "LATER", "asyncComplete": True, "taskDefinition": definition}))
    (task,) = engine.poll("LATER")
    handed = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    engine.update_task(handed)
    engine.advance("2h")
    assert run.workflow.task("o").status is TaskStatus.IN_PROGRESS


@pytest.mark.parametrize(
    "timeouts",
    [
        {"timeoutSeconds": 120, "responseTimeoutSeconds": 3600},
        {"timeoutSeconds": 120, "totalTimeoutSeconds": 60},
        {"timeoutSeconds": 120, "responseTimeoutSeconds": 3600, "totalTimeoutSeconds": 60, "timeoutPolicy": "RETRY"},
    ],
)
def test_timeouts_that_contradict_each_other(engine: Engine, timeouts: dict[str, Any]) -> None:
    """Conductor refuses them when a definition is registered, and accepts them in a task: the shorter comes first."""
    definition = {"name": "a", "retryCount": 0, **timeouts}
    with pytest.raises(InvalidDefinition, match="always come first"):
        engine.register(TaskDef.from_json(definition))
    run = engine.start(flow({"taskReferenceName": "a", "taskDefinition": definition}))
    engine.poll("a")
    engine.advance(f"{min(120, timeouts.get('totalTimeoutSeconds', 120))}s")
    assert run.workflow.task("a").status is TaskStatus.TIMED_OUT


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("written", [{}, {"responseTimeoutSeconds": 3600}, {"totalTimeoutSeconds": 20}])
def test_alert_only_only_alerts(semantics: Semantics, registered: bool, written: dict[str, Any]) -> None:
    """Past its timeout under ALERT_ONLY a task goes on, whoever holds it gives no sign of life, and its report completes it."""
    with Engine(clock=VirtualClock(T0), semantics=semantics) as engine:
        definition = {"name": "a", "timeoutSeconds": 30, "timeoutPolicy": "ALERT_ONLY", "retryCount": 0, **written}
        if registered:
            engine.register(TaskDef.from_json(definition))
        run = engine.start(flow({"taskReferenceName": "a", **({} if registered else {"taskDefinition": definition})}))
        (task,) = engine.poll("a")
        engine.advance("9m")
        alerts = [line.at - T0 for line in engine.history(run.workflow_id) if line.kind == "ALERT"]
        assert alerts == ([20_000, 30_000] if "totalTimeoutSeconds" in written else [30_000])
        assert [str(each.status) for each in run.workflow.tasks] == ["IN_PROGRESS"]
        engine.update_task(
            TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
        )
        assert str(run.status) == "COMPLETED"


def test_the_default_response_timeout_finds_a_dead_worker_under_alert_only(engine: Engine) -> None:
    """An alert ends nothing, so who has died is found as always: by the default that the documents give."""
    engine.register(TaskDef(name="a", timeout_ms=30_000, timeout_policy=TimeoutPolicy.ALERT_ONLY, retry_count=0))
    run = engine.start(flow({"taskReferenceName": "a"}))
    engine.poll("a")
    engine.advance("599s")
    assert run.workflow.task("a").status is TaskStatus.IN_PROGRESS
    engine.advance("1s")
    assert run.workflow.task("a").status is TaskStatus.TIMED_OUT
