"""Answers at the seam with Conductor's data that a real server gives, each once found to differ here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    EngineConfig,
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
from conductorlite.errors import Conflict
from conductorlite.model.documents import workflow_to_json

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
    assert [str(child.status) for child in engine.admin.children(run.workflow_id)] in ([], ["RUNNING"])


def test_a_response_timeout_that_an_earlier_version_gave_a_wait_is_void(tmp_path: Path) -> None:
    """Versions before stored one for operators: in a file of theirs it passes without a word."""
    definition = {"name": "o", "timeoutSeconds": 3600}
    clock = VirtualClock(T0)
    with Engine(tmp_path / "a.db", clock=clock) as engine:
        run = engine.start(flow({"taskReferenceName": "o", "type": "WAIT", "taskDefinition": definition}), workflow_id="w")
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE tasks SET response_timeout_at = timeout_at, timeout_at = NULL")
        changed = file.execute("UPDATE workflows SET timers = replace(timers, '[\"T\",', '[\"R\",') WHERE timers LIKE '%[\"T\",%'")
        assert changed.rowcount == 1
    file.close()
    with Engine(tmp_path / "a.db", clock=clock) as engine:
        engine.advance("2h")
        task = engine.get(run.workflow_id).task("o")
        assert (task.status, task.response_timeout_at, engine.admin.check("w")) == (TaskStatus.IN_PROGRESS, None, [])


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
    with Engine(clock=VirtualClock(T0), config=EngineConfig(semantics=semantics)) as engine:
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


def test_a_skipped_task_keeps_its_place(engine: Engine) -> None:
    """Its row is before all others, also when the flow has passed it, and never the one whose output is the workflow's."""
    run = engine.start(flow(*({"taskReferenceName": ref} for ref in ("t1", "t2", "t3", "t4"))))
    engine.skip_task(run.workflow_id, "t4", output={"of": "t4"})
    engine.skip_task(run.workflow_id, "t2")

    def rows() -> list[tuple[str, int]]:
        assert engine.admin.check(run.workflow_id) == []
        return [(task.ref, task.seq) for task in run.workflow.tasks]

    assert rows() == [("t2", 0), ("t4", 0), ("t1", 1)]
    for ref in ("t1", "t3"):
        complete(engine, ref)
    assert rows() == [("t2", 0), ("t4", 0), ("t1", 1), ("t3", 2)]
    assert (str(run.status), run.workflow.output_data) == ("COMPLETED", {"of": "t3"})


def complete(engine: Engine, ref: str, status: TaskStatus = TaskStatus.COMPLETED) -> None:
    """Have a worker end the task of a type, with its reference as output."""
    (task,) = engine.poll(ref)
    result = TaskResult(
        workflow_id=task.workflow_id, task_id=task.task_id, status=status, lease=task.lease, output_data={"of": task.ref}
    )
    engine.update_task(result)


STOP = {"taskReferenceName": "stop", "type": "TERMINATE"}
ENDINGS: dict[str, list[dict[str, Any]]] = {
    "alone": [{**STOP, "inputParameters": {"terminationStatus": "FAILED"}}],
    "terminated": [{**STOP, "inputParameters": {"terminationStatus": "TERMINATED"}}],
    "another task canceled": [
        {
            "taskReferenceName": "f",
            "type": "FORK_JOIN",
            "forkTasks": [[HELD], [{**STOP, "name": "stop", "inputParameters": {"terminationStatus": "FAILED"}}]],
        },
        {"taskReferenceName": "j", "type": "JOIN", "joinOn": ["x"]},
    ],
    "in a loop": [
        {
            "taskReferenceName": "l",
            "type": "DO_WHILE",
            "loopCondition": "true",
            "loopOver": [{**STOP, "name": "stop", "inputParameters": {"terminationStatus": "FAILED"}}],
        }
    ],
    "with a child": [
        {
            "taskReferenceName": "f",
            "type": "FORK_JOIN",
            "forkTasks": [
                [{"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": CHILD}],
                [{**STOP, "name": "stop", "inputParameters": {"terminationStatus": "FAILED"}}],
            ],
        },
        {"taskReferenceName": "j", "type": "JOIN", "joinOn": ["c"]},
    ],
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_terminate_ended_is_not_retried(engine: Engine, ending: str, resume: bool) -> None:
    """It would end at once again, and start its failure workflow a second time, whatever else it had canceled."""
    engine.register(flow({"taskReferenceName": "z", "type": "NOOP"}, name="undo"))
    run = engine.start(flow(*ENDINGS[ending], failureWorkflow="undo"))
    engine.run_until_idle()
    assert run.status.terminal
    with pytest.raises(Conflict, match="its TERMINATE task 'stop"):
        engine.retry(run.workflow_id, resume_subworkflow_tasks=resume)
    for child in engine.admin.children(run.workflow_id):
        if child.name == "c":  # it goes on by itself, and nobody waits for it
            engine.retry(child.workflow_id)
            engine.run_until_idle()
            assert str(engine.status(child.workflow_id)) == "RUNNING"
    assert run.status.terminal
    assert len(engine.executions("undo")) == 1
    engine.restart(run.workflow_id)
    engine.run_until_idle()
    assert len(engine.executions("undo")) == 2


def test_a_failure_that_a_terminate_only_brought_to_light_is_retried(engine: Engine) -> None:
    """A TERMINATE that completes an execution finds a failure that was permitted: that is what is tried again."""
    tried = {"taskReferenceName": "a", "permissive": True, "taskDefinition": {"name": "a", "retryCount": 0}}
    run = engine.start(flow(tried, {**STOP, "inputParameters": {"terminationStatus": "COMPLETED"}}))
    complete(engine, "a", TaskStatus.FAILED)
    assert str(run.status) == "FAILED"
    engine.retry(run.workflow_id)
    assert str(run.status) == "COMPLETED"


LOOP = {"taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 3"}
INNER = {"name": "k", "taskReferenceName": "k", "type": "DO_WHILE", "loopCondition": "$.k.iteration < 2"}
BODY = [{"name": "a", "taskReferenceName": "a", "taskDefinition": {"name": "a", "retryCount": 0}}]


@pytest.mark.parametrize("end", ["a task inside", "the loop's timeout", "the workflow's timeout", "terminate", "nested"])
def test_a_loop_that_does_not_end_by_itself_keeps_its_rounds(engine: Engine, end: str) -> None:
    """Whatever ends it, what its rounds have put out is its output, and what the workflow's output is made of."""
    limit = {"name": "l", "timeoutSeconds": 60 if end == "the loop's timeout" else 0}
    body = [{**INNER, "loopOver": BODY}] if end == "nested" else BODY
    loop = {**LOOP, "loopOver": body, "taskDefinition": limit}
    timeout = {"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"} if end == "the workflow's timeout" else {}
    run = engine.start(flow(loop, outputParameters={"l": "${l.output}"}, **timeout))
    complete(engine, "a")
    if end in ("a task inside", "nested"):
        complete(engine, "a", TaskStatus.FAILED)
    elif end == "terminate":
        engine.terminate(run.workflow_id)
    else:
        engine.advance("60s")
    assert run.status.terminal
    output = run.workflow.output_data["l"]
    inner = output["1"]["k"] if end == "nested" else output
    assert (inner["1"], sorted(inner)) == ({"a": {"of": "a__1__1" if end == "nested" else "a__1"}}, ["1", "2", "iteration"])
    assert run.workflow.task("l").output_data == output
    assert engine.admin.check(run.workflow_id) == []


def test_a_retried_loop_goes_on_in_its_round(engine: Engine) -> None:
    """Its rounds are in its output only once it has ended; a loop over items still has its item."""
    loop = {"taskReferenceName": "l", "type": "DO_WHILE", "items": "${workflow.input.of}", "loopOver": BODY}
    run = engine.start(flow(loop), {"of": ["p", "q"]})
    complete(engine, "a")
    complete(engine, "a", TaskStatus.FAILED)
    assert sorted(run.workflow.task("l").output_data) == ["1", "2", "iteration", "loopIndex", "loopItem"]
    engine.retry(run.workflow_id)
    assert run.workflow.task("l").output_data == {"iteration": 2, "loopIndex": 1, "loopItem": "q"}
    complete(engine, "a")
    assert str(run.status) == "COMPLETED"
