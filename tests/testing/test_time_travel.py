"""An execution as it was, how two moments differ, histories as files, and exports as tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from designs import flow, fork, node, steps, work

from conductorlite import Engine, Run, SubWorkflowParams, WorkflowDef
from conductorlite.errors import InvalidInput
from conductorlite.testing import History, ScriptedWorkers, diff

pytest_plugins = ["pytester"]

CHILD = flow("child", steps("pack"))
SUB = node("SUB_WORKFLOW", "sub", sub_workflow_param=SubWorkflowParams(name="child"))
ORDER = flow(
    "order",
    [
        work("charge"),
        node("SET_VARIABLE", "keep", input_parameters={"paid": "${charge.output.id}"}),
        *fork(
            "both", [work("ship")], [node("SUB_WORKFLOW", "sub", sub_workflow_param=SubWorkflowParams(name="child"))], on=["ship"]
        ),
        node("WAIT", "later", input_parameters={"duration": "1 hours"}),
    ],
)


@pytest.fixture
def engine_store() -> str:
    """One store is enough."""
    return "memory"


@pytest.fixture
def run(engine: Engine, workers: ScriptedWorkers) -> Run:
    """One charge fails, the child is quick, the parcel takes a minute."""
    engine.register(CHILD)
    workers.charge.fails(1, reason="503").then.returns({"id": 7})
    workers.ship.takes("60s").returns({"parcel": "x"})
    workers.pack.returns()
    run = engine.start(ORDER, workflow_id="w-1")
    engine.run_until_idle()
    return run


def test_at_an_instant(run: Run) -> None:
    """The rows as they were: statuses, attempts, variables; the last moment is the execution as it is."""
    history = History(run)
    soon = history.at("1s")
    assert (soon.status, soon.task("charge").status, soon.task("ship").status) == ("RUNNING", "COMPLETED", "IN_PROGRESS")
    assert soon.variables.value == {"paid": 7}
    first = history.at("0s")
    assert [(task.ref, task.attempt, str(task.status)) for task in first.tasks] == [
        ("charge", 0, "FAILED"),
        ("charge", 1, "SCHEDULED"),
    ]
    assert history.at("2h").status == "COMPLETED"
    assert diff(history.at("2h"), run.workflow) == ""
    with pytest.raises(InvalidInput, match="had not begun"):
        history.at(0)


def test_before_and_after_a_line(run: Run) -> None:
    """By its words or its number; a turn is whole or not at all."""
    history = History(run)
    assert history.before("charge FAILED").task("charge").status == "IN_PROGRESS"
    assert history.after("charge FAILED").task("charge").attempt == 1
    assert history.before("workflow COMPLETED").task("later").status == "IN_PROGRESS"
    assert history.before("charge#2 COMPLETED").variables.value == {}
    assert history.before(len(history.lines)).status == "RUNNING"
    for event, text in (
        ("charge LOST", "no line 'charge LOST'"),
        (0, "has lines 1 to"),
        ("workflow RUNNING", "nothing of w-1 before"),
    ):
        with pytest.raises(InvalidInput, match=text):
            history.before(event)


def test_what_differs_is_said_in_words(run: Run) -> None:
    """Two moments, two definitions."""
    history = History(run)
    lines = diff(history.before("charge#2 COMPLETED"), history.at("2m")).splitlines()
    assert "  charge status: IN_PROGRESS → COMPLETED" in lines
    assert '  workflow variables: {} → {"paid":7}' in lines
    assert "+ ship: COMPLETED" in lines
    assert "charge" in diff(ORDER, flow("order", steps("other")))
    with pytest.raises(InvalidInput, match="two executions"):
        diff(ORDER, run.workflow)


@pytest.mark.parametrize("source", [3, [1], None, "[1]", b"{"])
def test_what_is_no_export(source: Any) -> None:
    """It is refused in words."""
    with pytest.raises(InvalidInput):
        History(source)


def test_a_file_holds_it_all(run: Run, tmp_path: Path) -> None:
    """Saved and read again, it is the same."""
    History(run).save(str(tmp_path / "w-1.json"))
    assert History(tmp_path / "w-1.json").lines == History(run).lines


SNAPSHOT = """
import pytest
from conductorlite import WorkflowDef, WorkflowTask

def test_it(engine, workers, workflow_snapshot):
    workers.a.returns({"x": OUTPUT})
    run = engine.start(WorkflowDef(name="one", tasks=[WorkflowTask(name="a", task_reference_name="a")]))
    run.result()
    workflow_snapshot(run)
"""


@pytest.mark.slow
def test_snapshots_are_readable_files(pytester: pytest.Pytester) -> None:
    """Written when asked for, the same on both stores, compared with a difference in words."""
    pytester.makepyfile(SNAPSHOT.replace("OUTPUT", "1"))
    missing = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    missing.assert_outcomes(failed=2)
    missing.stdout.fnmatch_lines(["*there is no snapshot *run pytest with --workflow-snapshot-update*"])
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--workflow-snapshot-update").assert_outcomes(passed=2)
    (file,) = (pytester.path / "__snapshots__").rglob("*.txt")
    assert file.name == "test_it.txt"
    assert '+0s        a #1 COMPLETED {"x":1}' in file.read_text(encoding="utf-8")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
    pytester.makepyfile(SNAPSHOT.replace("OUTPUT", "2"))
    changed = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    changed.assert_outcomes(failed=2)
    changed.stdout.fnmatch_lines(['*-+0s        a #1 COMPLETED {"x":1}', '*++0s        a #1 COMPLETED {"x":2}'])


TODAY = """
from conductorlite import WorkflowDef, WorkflowTask, Workers, flow, task

@task
def greet(name: str) -> None: ...

@flow
def hello(name: str) -> None:
    greet(name=name)

@flow(name="hello")
def hello_twice(name: str) -> None:
    greet(name=name)
    greet.options(name="again")(name=name)

@task(name="greet")
def greet_in(name: str, language: str) -> None: ...

@flow(name="unlike")
def unlike(name: str) -> None:
    greet_in(name=name, language="fr")
"""


@pytest.mark.parametrize(
    ("more", "outcome", "text"),
    [
        ([], {"passed": 1}, ""),
        (["today:hello"], {"passed": 1}, ""),
        (["today:hello_twice"], {"failed": 1}, "*recorded: line *, workflow COMPLETED*"),
        (["today:unlike"], {"failed": 1}, "*today's worker 'greet' does not take*: it needs language*"),
    ],
)
def test_exports_are_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: list[str], outcome: dict[str, int], text: str
) -> None:
    """Replayed as they are, or against today's definition and workers; what differs is said in words."""
    today = pytester.makepyfile(today=TODAY)
    names: dict[str, object] = {}
    exec(compile(today.read_text(), str(today), "exec"), names)
    with Engine(workers=[names["hello"]]) as engine:  # type: ignore[list-item]
        run = engine.start(names["hello"], name="Ada")  # type: ignore[call-overload]
        run.result()
        (pytester.path / "exports").mkdir()
        History(run).save(pytester.path / "exports" / "ada.json")
    pytester.makepyfile("def test_other(): assert False")
    monkeypatch.syspath_prepend(pytester.path)
    options = [part for one in more for part in ("--conductorlite-replay-with", one)]
    found = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--conductorlite-replay", "exports", *options)
    found.assert_outcomes(**outcome)
    if text:
        found.stdout.fnmatch_lines([text])


def test_a_folder_that_is_not_there(pytester: pytest.Pytester) -> None:
    """Is an error of use, as is a name that cannot be loaded, and a flow that cannot be built."""
    assert pytester.runpytest_inprocess("--conductorlite-replay", "nowhere").ret == pytest.ExitCode.USAGE_ERROR
    (pytester.path / "here").mkdir()
    steps = "from conductorlite import flow, task\n@task\ndef x(): ...\n@flow\ndef steps():\n    yield x()\n"
    pytester.makepyfile(unbuilt=steps)
    pytester.syspathinsert()
    for name in ("json", "json:nothing", "no_such_module:x", "unbuilt:steps"):
        options = ("--conductorlite-replay", "here", "--conductorlite-replay-with", name)
        assert pytester.runpytest_inprocess(*options).ret == pytest.ExitCode.USAGE_ERROR
    assert isinstance(ORDER, WorkflowDef)


def test_files_that_hold_no_export_are_told(pytester: pytest.Pytester) -> None:
    """In a line each, not as a traceback of a reader of JSON; what is no flow is an error of use."""
    folder = pytester.mkdir("exports")
    for name, content in {"broken": b"{", "bytes": b"\xff\xfe\x00", "list": b"[]", "other": b'{"executions": 3}'}.items():
        (folder / f"{name}.json").write_bytes(content)
    found = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--conductorlite-replay", "exports")
    found.assert_outcomes(failed=4)
    found.stdout.fnmatch_lines(["$: broken JSON at line 1 *", "$: not UTF-8 at byte *", "$: an export is a map, *", "$.format: *"])
    found.stdout.no_fnmatch_line("*raw_decode*")
    other = pytester.runpytest_inprocess("--conductorlite-replay", "exports", "--conductorlite-replay-with", "os:sep")
    assert other.ret == pytest.ExitCode.USAGE_ERROR
    other.stderr.fnmatch_lines(["*takes a flow, a definition or workers, not '/'*"])


@pytest.mark.parametrize(
    ("option", "owner"),
    [
        ("--workflow-cov-fail-under=90", "--workflow-cov"),
        ("--workflow-cov-html=x.html", "--workflow-cov"),
        ("--workflow-cov-append", "--workflow-cov"),
        ("--workflow-mutate-fail-under=90", "--workflow-mutate"),
        ("--conductorlite-replay-with=a:b", "--conductorlite-replay"),
    ],
)
def test_an_option_without_its_owner(pytester: pytest.Pytester, option: str, owner: str) -> None:
    """A floor that nothing is measured against must not pass."""
    found = pytester.runpytest_inprocess(option)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines([f"*{option.partition('=')[0]} says nothing without {owner}"])


def test_each_test_has_a_snapshot_of_its_own(pytester: pytest.Pytester) -> None:
    """Those of two classes of the same name, and of parameters that no file can be called by."""
    pytester.makepyfile(
        """
        import pytest
        from conductorlite import WorkflowDef, WorkflowTask

        ONE = WorkflowDef(name="one", tasks=[WorkflowTask(name="a", task_reference_name="a")])

        def kept(engine, workers, workflow_snapshot, value):
            workers.a.returns({"x": value})
            run = engine.start(ONE)
            run.result()
            workflow_snapshot(run)

        class TestA:
            def test_it(self, engine, workers, workflow_snapshot):
                kept(engine, workers, workflow_snapshot, "A")

        class TestB:
            def test_it(self, engine, workers, workflow_snapshot):
                kept(engine, workers, workflow_snapshot, "B")

        @pytest.mark.parametrize("x", ["memory", "in memory", "in sqlite", "a/b", "a b", "n" * 300], ids=str)
        def test_them(engine, workers, workflow_snapshot, x):
            kept(engine, workers, workflow_snapshot, x)
        """
    )
    for options in (["--workflow-snapshot-update"], []):
        pytester.runpytest_inprocess("-p", "no:cacheprovider", *options).assert_outcomes(passed=16)
    names = sorted(file.name for file in (pytester.path / "__snapshots__").rglob("*.txt"))
    assert len(names) == 8
    assert {"TestA-test_it.txt", "TestB-test_it.txt", "test_them-memory.txt"} < {*names}
