"""Folders of Conductor's JSON that are registered together: what comes in, what is said of it, and what stays out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_kit import Bench, NewBench

from conductorlite import InvalidDefinition, SchemaDef, TaskDef, WorkflowDef, WorkflowStatus
from conductorlite.engine.loading import LoadReport
from conductorlite.errors import AlreadyExists, InvalidInput

Json = dict[str, Any]


def node(ref: str, type: str = "NOOP", **fields: Any) -> Json:
    """A task."""
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def workflow(name: str, *tasks: Json, **fields: Any) -> Json:
    """A workflow."""
    return {"name": name, "schemaVersion": 2, "tasks": list(tasks) or [node("n")], **fields}


def sub(ref: str, name: str, **fields: Any) -> Json:
    """A SUB_WORKFLOW."""
    return node(ref, "SUB_WORKFLOW", subWorkflowParam={"name": name, **fields})


def laid(folder: Path, files: dict[str, Any]) -> Path:
    """A folder with these files: JSON values, or texts as they are."""
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def said(report: LoadReport, *, notes: bool = False) -> list[str]:
    """The findings as text."""
    return [str(finding) for finding in report.findings if notes or finding.severity != "note"]


SET: dict[str, Any] = {
    "a.json": workflow("a", sub("s", "b")),
    "deep/b.json": [workflow("b"), workflow("b", version=2)],
    "tasks.json": [{"name": "t", "retryCount": 1}, {"name": "u", "description": "only a name"}],
    "bundle.json": {"workflows": [workflow("c")], "taskDefs": [{"name": "v", "timeoutSeconds": 9}]},
    "request.json": {"name": "d", "input": {}, "workflowDef": workflow("d")},
    "handler.json": {
        "name": "h",
        "event": "e",
        "active": True,
        "actions": [{"action": "start_workflow", "start_workflow": {"name": "a"}}],
    },
    "schema.json": {"name": "s", "version": 1, "type": "JSON", "data": {"type": "object"}},
    "execution.json": {"workflowId": "x", "status": "COMPLETED", "tasks": []},
    "package.json": {"name": "npm", "scripts": {}},
    "schedule.json": {"name": "daily", "cronExpression": "0 0 * * * *", "startWorkflowRequest": {"name": "a"}},
    ".hidden/x.json": "not looked at",
    "README.md": "nor this",
}


@pytest.mark.parametrize("lenient", [True, False])
def test_a_sound_set_comes_in_whole(bench: Bench, tmp_path: Path, lenient: bool) -> None:
    """Every kind, in lists, bundles and requests; what is no definition is passed over with a note."""
    report = bench.engine.definitions.load(laid(tmp_path, SET), lenient=lenient)
    assert sorted(report.workflows) == [("a", 1), ("b", 1), ("b", 2), ("c", 1), ("d", 1)]
    assert sorted(bench.engine.definitions.workflows()) == sorted(report.workflows)
    assert (sorted(report.tasks), report.handlers, report.schemas) == (["t", "u", "v"], ("h",), (("s", 1),))
    assert said(report, notes=True) == [
        "execution.json: $: is an execution, and passed over (note)",
        "package.json: $: is no definition of Conductor's, and passed over (note)",
        "schedule.json: $: is a schedule (`engine.schedules.save` takes it), and passed over (note)",
    ]
    assert report.severity == "note"
    assert bench.engine.definitions.task("t").retry_count == 1
    assert bench.engine.definitions.schema("s").version == 1
    bench.start("a")
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.definitions.load(tmp_path, lenient=lenient) == report


READING = node("x", inputParameters={"a": "${no.output}"})
NOBODY = "${no…} names neither the workflow nor a task of this definition; it resolves to null"
BY_CASE = {"evaluatorType": "value-param", "expression": "v", "inputParameters": {"v": "a"}}
INNER = {"name": "i", "workflowDefinition": workflow("i", READING)}
#: Per case a workflow, where the finding is, and what it says.
LENIENT: dict[str, tuple[Json, str, str]] = {
    "a root in a loop": (
        workflow("w", node("l", "DO_WHILE", loopCondition="$.l.iteration < 1", loopOver=[READING])),
        "$.tasks[0].loopOver[0].inputParameters.a",
        NOBODY,
    ),
    "a root in a case": (
        workflow("w", node("s", "SWITCH", **BY_CASE, decisionCases={"a": [READING]})),
        "$.tasks[0].decisionCases.a[0].inputParameters.a",
        NOBODY,
    ),
    "a root in an inline child": (
        workflow("w", node("s", "SUB_WORKFLOW", subWorkflowParam=INNER)),
        "$.tasks[0].subWorkflowParam.workflowDefinition.tasks[0].inputParameters.a",
        NOBODY,
    ),
    "a join of nothing": (
        workflow("w", node("x"), node("j", "JOIN")),
        "$.tasks[1].joinOn",
        "is empty: JOIN must name the tasks it waits for; it waits for nothing, and ends as soon as it is reached",
    ),
    "a schema by name": (
        workflow("w", inputSchema={"name": "gone", "version": 1, "type": "JSON"}),
        "$",
        "the schema 'gone' is registered nowhere: "
        "nothing is checked by it (enforceSchema is set to false), as on an open-source server",
    ),
    "a type of a server": (
        workflow("w", node("x"), node("y", "HTTP_POLL")),
        "$.tasks[1].type",
        "'HTTP_POLL' is carried out by a server of Conductor's, and by nothing here: it needs a worker of that name",
    ),
}


@pytest.mark.parametrize("what", LENIENT)
def test_what_a_server_takes_is_taken(new_bench: NewBench, tmp_path: Path, what: str) -> None:
    """A warning says what happens, and that happens: an execution runs to its end, or waits for its worker."""
    bench = new_bench()
    definition, path, message = LENIENT[what]
    report = bench.engine.definitions.load(laid(tmp_path, {"w.json": definition}), lenient=True)
    assert said(report) == [f"w.json: {path}: {message} (warning)"]
    assert report.workflows == (("w", 1),)
    run = bench.start("w", {"x": 1})
    bench.engine.advance("1m")
    assert run.status is (WorkflowStatus.RUNNING if what == "a type of a server" else WorkflowStatus.COMPLETED)
    assert all(task.input_data.get("a") in (None, [None]) for task in run.workflow.tasks)


FAILING: dict[str, tuple[Json, str, str]] = {
    "an empty script": (
        node("x", "LAMBDA", inputParameters={"scriptExpression": ""}),
        "scriptExpression: is empty",
        "scriptExpression is empty",
    ),
    "no script": (node("x", "INLINE"), "expression: is missing", "expression is missing"),
    "a script that is none": (node("x", "INLINE", inputParameters={"expression": "1 +"}), "expression: ", "SyntaxError"),
    "a language that is none": (
        node("x", "INLINE", inputParameters={"expression": "1", "evaluatorType": "cobol"}),
        "evaluatorType: 'cobol' is not one of",
        "No evaluator registered for type: cobol",
    ),
    "a condition that is none": (
        node("x", "DO_WHILE", loopCondition="$.x.iteration <", loopOver=[node("y")]),
        "loopCondition: ",
        "Unable to evaluate condition $.x.iteration <, exception",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILING)
def test_what_fails_when_it_is_reached(bench: Bench, tmp_path: Path, what: str) -> None:
    """The definition comes in, the warning says that the task fails, and so it does; a plain registration refuses it."""
    task, message, reason = FAILING[what]
    folder = laid(tmp_path, {"w.json": workflow("w", node("first"), task)})
    with pytest.raises(InvalidDefinition):
        bench.engine.register(WorkflowDef.from_json(workflow("w", node("first"), task)))
    with pytest.raises(InvalidDefinition, match=r"w\.json: \$\.tasks\[1\]"):
        bench.engine.definitions.load(folder)
    report = bench.engine.definitions.load(folder, lenient=True)
    (warning,) = said(report)
    assert message in warning
    assert "fails" in warning
    bench.start("w")
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.statuses()["first"] == "COMPLETED"
    assert reason in (bench.task("x").reason or "")


REFUSED: dict[str, tuple[Any, str]] = {
    "an old schema version": (workflow("w", schemaVersion=1), "x.json: $.schemaVersion: is 1, but must be 2 (error)"),
    "a root at the top": (
        workflow("w", node("x", inputParameters={"a": "${no.output}"})),
        "x.json: $.tasks[0].inputParameters.a: ${no…} names neither the workflow nor a task of this definition (error)",
    ),
    "text that is no JSON": ("{", "x.json: $: is no JSON: "),
    "a WAIT of both": (
        [workflow("v"), workflow("w", node("x", "WAIT", inputParameters={"duration": "1 s", "until": "2030-01-01"}))],
        "x.json: $[1].tasks[0].inputParameters: has both duration and until; WAIT takes one of them (error)",
    ),
    "no task": (workflow("w") | {"tasks": []}, "x.json: $.tasks: is empty (error)"),
    "a handler without an action": ({"name": "h", "event": "e", "actions": []}, "x.json: $.actions: is empty (error)"),
    "a task definition": ({"name": "t", "retryCount": -1}, "x.json: $.retryCount: is negative (error)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_stays_out(bench: Bench, tmp_path: Path, what: str) -> None:
    """What even a server refuses is an error; the rest comes in, or, strictly, nothing does."""
    value, expected = REFUSED[what]
    folder = laid(tmp_path, {"x.json": value, "sound.json": workflow("sound")})
    with pytest.raises(InvalidDefinition, match=r"x\.json"):
        bench.engine.definitions.load(folder)
    assert bench.engine.definitions.workflows() == []
    report = bench.engine.definitions.load(folder, lenient=True)
    (error,) = (text for text in said(report) if text.endswith("(error)"))
    assert error.startswith(expected)
    assert report.severity == "error"
    assert ("sound", 1) in report.workflows
    assert ("w", 1) not in report.workflows


def test_starts_that_would_be_refused_are_named(bench: Bench, tmp_path: Path) -> None:
    """A workflow that runs one that is not there, or itself by way of another, comes in with a warning."""
    files = {
        "a.json": workflow("a", sub("s", "gone", version=3)),
        "b.json": workflow("b", sub("s", "c")),
        "c.json": workflow("c", sub("s", "b")),
    }
    report = bench.engine.definitions.load(laid(tmp_path, files), lenient=True)
    found = said(report)
    assert "a.json: $: a start is refused until this is mended: no workflow 'gone' version 3 is registered" in found[0]
    assert "sub-workflows in a circle: b.1 → c.1 → b.1" in found[1]
    bench.engine.register(WorkflowDef.from_json(workflow("gone", version=3)))
    bench.start("a")
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_two_of_one_name(bench: Bench, tmp_path: Path) -> None:
    """The later file counts, and says so; two that are the same are one."""
    files = {
        "a.json": workflow("w", description="first"),
        "b.json": workflow("w", description="second"),
        "c.json": workflow("w", description="second"),
    }
    report = bench.engine.definitions.load(laid(tmp_path, files), lenient=True)
    assert said(report) == ["b.json: $: replaces that of a.json, which has the same name and version (warning)"]
    assert bench.engine.definitions.workflow("w").description == "second"


def test_what_is_registered_already(bench: Bench, tmp_path: Path) -> None:
    """It is replaced, or stays: an error of a strict load, a finding of a lenient one; what is the same is no matter."""
    bench.engine.register(WorkflowDef.from_json(workflow("w", description="old")), TaskDef(name="t"))
    folder = laid(tmp_path, {"w.json": workflow("w", description="new"), "t.json": {"name": "t", "retryCount": 3}})
    bench.engine.register(TaskDef.from_json({"name": "t", "retryCount": 3}))
    with pytest.raises(AlreadyExists, match=r"w\.json: workflow 'w' version 1 is registered already"):
        bench.engine.definitions.load(folder, overwrite=False)
    report = bench.engine.definitions.load(folder, lenient=True, overwrite=False)
    assert said(report) == ["w.json: $: workflow 'w' version 1 is registered already, and stays as it is (error)"]
    assert bench.engine.definitions.workflow("w").description == "old"
    bench.engine.definitions.load(folder)
    assert bench.engine.definitions.workflow("w").description == "new"


def test_a_schema_that_is_there_is_enforced(bench: Bench, tmp_path: Path) -> None:
    """One of the folder, or one that was registered before."""
    demanding = {"type": "object", "required": ["n"]}
    schema = {"name": "s", "version": 1, "type": "JSON"}
    other = {"name": "other", "version": 1, "type": "JSON"}
    bench.engine.definitions.register_schema(SchemaDef.from_json({**other, "data": demanding}))
    files = {
        "s.json": {**schema, "data": demanding},
        "v.json": workflow("v", inputSchema=other),
        "w.json": workflow("w", inputSchema=schema),
    }
    assert said(bench.engine.definitions.load(laid(tmp_path, files), lenient=True)) == []
    for name in ("v", "w"):
        with pytest.raises(InvalidInput, match="breaks the inputSchema"):
            bench.engine.start(name)
        bench.engine.start(name, {"n": 1})


def test_a_folder_that_is_none(bench: Bench, tmp_path: Path) -> None:
    """A path that is not there, or a file, is refused by name; an empty folder has nothing."""
    for path in (tmp_path / "gone", laid(tmp_path, {"x.json": {}}) / "x.json"):
        with pytest.raises(InvalidInput, match="is no folder"):
            bench.engine.definitions.load(path)
    (tmp_path / "empty").mkdir()
    assert bench.engine.definitions.load(tmp_path / "empty") == LoadReport()
