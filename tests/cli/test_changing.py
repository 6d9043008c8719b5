"""`restart`, `rerun`, `skip`, `signal`, `set-variables`, and the commands that take several ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_kit import Shell

from conductorlite import SubWorkflowParams, WorkflowDef, WorkflowTask
from conductorlite.testing import replay

TWO = WorkflowDef.from_json(
    {
        "name": "two",
        "schemaVersion": 2,
        "tasks": [
            {"name": "w", "taskReferenceName": "w", "type": "WAIT"},
            {"name": "greet", "taskReferenceName": "g", "inputParameters": {"name": "${workflow.input.name}"}},
        ],
        "outputParameters": {"text": "${g.output.text}", "said": "${w.output}"},
    }
)


@pytest.fixture
def two(shell: Shell) -> Shell:
    """Two executions of TWO that wait, and the definition registered."""
    with shell.engine() as engine:
        engine.register(TWO)
        for one in ("a", "b"):
            engine.start("two", {"name": "Ada"}, workflow_id=one)
    return shell


def statuses(shell: Shell, workflow_id: str) -> dict[str, str]:
    """Where the tasks of an execution stand."""
    with shell.engine() as engine:
        return {task.ref: str(task.status) for task in engine.get(workflow_id).tasks}


def test_signal(two: Shell) -> None:
    """It goes to what waits, or to the task that is named; the line says where it went."""
    assert two("signal", "a", '{"by": "Bo"}').out == "a: w is COMPLETED\n"
    assert statuses(two, "a") == {"w": "COMPLETED", "g": "SCHEDULED"}
    said = two("signal", "b", "--task", "w", "--status", "failed", "--reason", "nobody came", "--json")
    assert said.json["referenceTaskName"] == "w"
    assert said.json["status"] == "FAILED"
    assert "nobody came" in two("explain", "b").out
    assert (two("signal", "a").code, two("signal", "b").code, two("signal", "nobody").code) == (3, 4, 3)


def test_restart_and_rerun(two: Shell) -> None:
    """From the start, or from a task with inputs of its own; `run --id` drives on."""
    two("signal", "a")
    assert two("run", "--id", "a", "--workers", "crew:workers").code == 0
    again = two("rerun", "a", "--from", "g", "--task-input", '{"name": "Bo"}', "--json")
    assert again.json == {"workflowId": "a", "status": "RUNNING"}
    assert two("run", "--id", "a", "--workers", "crew:workers", "--json").json["output"]["text"] == "Hello, Bo!"
    assert two("rerun", "a", "--input", '{"name": "Cy"}', "--correlation-id", "c9").out == "a is RUNNING\n"
    assert statuses(two, "a") == {"w": "IN_PROGRESS"}
    shown = two("show", "a", "--json").json
    assert (shown["input"], shown["correlationId"]) == ({"name": "Cy"}, "c9")
    two("terminate", "a")
    assert two("restart", "a").out == "a is RUNNING\n"
    two("terminate", "a")
    with two.engine() as engine:
        engine.register(WorkflowDef.from_json({**TWO.to_json(), "version": 2}))
    assert two("restart", "a", "--latest").code == 0
    assert two("show", "a", "--json").json["workflowVersion"] == 2


def test_fork_of_an_export(two: Shell, tmp_path: Path) -> None:
    """What was replayed into another store is forked there; the store that it is from is as it was."""
    two("signal", "a")
    two("export", "a", "-o", str(tmp_path / "a.json"))
    before = two("history", "a").out
    store = tmp_path / "laptop.db"
    replay((tmp_path / "a.json").read_text(), store=store).engine.close()
    there = ("--db", str(store))
    assert two("fork", "a", "--at", "g", "--dry-run", "--json", *there).json["kept"] == ["w"]
    assert two("fork", "a", "--at", "g", "--id", "new", "--task-input", '{"name": "Bo"}', *there).out == "new is RUNNING\n"
    assert two("run", "--id", "new", "--workers", "crew:workers", "--json", *there).json["output"]["text"] == "Hello, Bo!"
    assert two("history", "a").out == before
    assert two("show", "new").code == 3


def test_fork(two: Shell) -> None:
    """What would be done, then it: the old one stays, the new one has a definition and an input of its own."""
    two("signal", "a")
    planned = two("fork", "a", "--at", "g", "--dry-run")
    assert (planned.code, planned.out) == (0, "a from g\n  kept: w\n  again: g\n")
    asked = two("fork", "a", "--at", "g", "--dry-run", "--json").json
    assert asked == {"workflowId": "a", "at": "g", "kept": ["w"], "again": ["g"], "dropped": [], "shared": {}}
    given = ("--task-input", '{"name": "Bo"}', "--correlation-id", "c9", "--idempotency-key", "k")
    assert two("fork", "a", "--at", "g", "--id", "new", *given, "--json").json == {"workflowId": "new", "status": "RUNNING"}
    assert (statuses(two, "a"), two("show", "new", "--json").json["correlationId"]) == ({"w": "COMPLETED", "g": "SCHEDULED"}, "c9")
    assert two("run", "--id", "new", "--workers", "crew:workers", "--json").json["output"]["text"] == "Hello, Bo!"
    (two.folder / "other.json").write_text(json.dumps({**TWO.to_json(), "version": 2}), encoding="utf-8")
    assert two("fork", "a", "--at", "w", "--id", "other", "--definition", "other.json").out == "other is RUNNING\n"
    assert two("show", "other", "--json").json["workflowVersion"] == 2


def test_what_does_not_fit(two: Shell) -> None:
    """No such task, a status that does not fit, options that do not go together: one line and a code."""
    for arguments, code, text in (
        (("rerun", "a", "--from", "nothing"), 3, "no task 'nothing'"),
        (("restart", "a"), 4, "cannot be restarted"),
        (("rerun", "a", "--task-input", "{}"), 2, "--task-input needs --from"),
        (("rerun", "a", "--input", "[1]"), 2, ""),
        (("fork", "a"), 2, "--at"),
        (("fork", "a", "--at", "nothing"), 3, "no task 'nothing'"),
        (("fork", "a", "--at", "w", "--id", "b"), 4, "exists already"),
        (("signal", "a", "--status", "done"), 2, "--status"),
        (("skip", "a", "w"), 4, "has been scheduled already"),
        (("skip", "a", "nothing"), 3, "no task 'nothing'"),
        (("set-variables", "a", "7"), 2, ""),
        (("set-variables", "nobody", "{}"), 3, "nobody"),
        (("retry",), 2, "ID"),
    ):
        said = two(*arguments)
        assert (said.code, said.out) == (code, ""), arguments
        assert text in said.err


def test_skip(two: Shell) -> None:
    """What was not come to yet is passed over, its output given."""
    assert two("skip", "a", "g", "--output", '{"text": "no words"}').out == "a: g is SKIPPED\n"
    assert two("skip", "b", "g", "--json").json == {"workflowId": "b", "referenceTaskName": "g", "status": "SKIPPED"}
    two("signal", "a")
    assert two("show", "a", "--json").json["output"]["text"] == "no words"


def test_set_variables(two: Shell) -> None:
    """Laid over those there are; all of them are printed."""
    (two.folder / "v.json").write_text('{"x": 1}', encoding="utf-8")
    assert two("set-variables", "a", "@v.json").out == '{"x":1}\n'
    assert two("set-variables", "a", '{"y": [2]}', "--json").json == {"workflowId": "a", "variables": {"x": 1, "y": [2]}}


def test_several_ids(two: Shell) -> None:
    """Each is tried; a line per success, an error per failure, and the code of the first that failed."""
    said = two("pause", "a", "nobody", "b")
    assert (said.code, said.out) == (3, "a is PAUSED\nb is PAUSED\n")
    assert said.err.startswith("conductorlite: ")
    assert "nobody" in said.err
    said = two("resume", "a", "b")
    assert (said.code, said.out, said.err) == (0, "a is RUNNING\nb is RUNNING\n", "")
    said = two("terminate", "a", "nobody", "--json")
    assert said.code == 3
    assert said.json["bulkSuccessfulResults"] == [{"workflowId": "a", "status": "TERMINATED"}]
    assert list(said.json["bulkErrorResults"]) == ["nobody"]
    assert (two("restart", "b", "a").code, two("rerun", "a", "b").code) == (4, 0)
    two("terminate", "a", "b")
    assert two("retry", "a", "b").code == 0
    two("terminate", "a", "b")
    assert two("remove", "a", "b", "--json").json["bulkSuccessfulResults"] == [
        {"workflowId": "a", "removed": True},
        {"workflowId": "b", "removed": True},
    ]


@pytest.mark.parametrize("resume", [True, False])
def test_retry_goes_down(shell: Shell, resume: bool) -> None:
    """With --resume-subworkflow-tasks the failed child goes on, without it there is a new one."""
    child = WorkflowDef.from_json(shell.folder / "broken.json")
    params = SubWorkflowParams(workflow_definition=child)
    above = WorkflowDef(
        name="above",
        tasks=(WorkflowTask(name="c", task_reference_name="c", type="SUB_WORKFLOW", sub_workflow_param=params),),
    )
    with shell.engine() as engine:
        engine.start(above, workflow_id="top")
        engine.settle()
        first = engine.get("top").task("c").sub_workflow_id
        assert first is not None
        engine.terminate(first)
        engine.settle()
        assert engine.status("top") == "TERMINATED"
    assert shell("retry", "top", *(["--resume-subworkflow-tasks"] if resume else [])).code == 0
    with shell.engine() as engine:
        engine.settle()
        assert (engine.get("top").task("c").sub_workflow_id == first) is resume
