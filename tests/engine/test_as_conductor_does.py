"""Answers at the seam with Conductor's data that a real server gives, each once found to differ here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskDef, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowTask
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
