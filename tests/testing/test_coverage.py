"""Coverage of workflows: what there is to come to, what was come to, and the options of pytest."""

from __future__ import annotations

import json

import pytest
from designs import flow, node, steps, switch, work

from conductorlite import Engine, TaskStatus, VirtualClock
from conductorlite.errors import Conflict, TaskNotFound
from conductorlite.testing import ScriptedWorkers
from conductorlite.testing.coverage import WorkflowCoverage, goals_met, goals_of

pytest_plugins = ["pytester"]

WAITS = ("runs", "signal", "signal too early", "signal too late", "time is over")
WAIT = {"duration": "1 hours"}
LOOP = node("DO_WHILE", "loop", loop_condition="$.loop['iteration'] < 2", loop_over=steps("page"))
ALL = flow(
    "all",
    [
        work("charge", task={"retry_count": 1, "timeout_ms": 60_000}, compensate="refund"),
        switch("kind", "${charge.output.kind}", {"card": steps("card"), "cash": []}),
        LOOP,
        node("WAIT", "pause", input_parameters=WAIT),
        node("HUMAN", "answer"),
        work("ship", task={"retry_count": 0}),
    ],
)


@pytest.fixture
def engine_store() -> str:
    """One store is enough."""
    return "memory"


def test_goals_of_a_definition() -> None:
    """Everything there is to come to, task by task."""
    goals = goals_of(ALL)
    assert goals["charge"] == [
        f"charge: {goal}" for goal in ("runs", "fails", "is retried", "retries used up", "response timeout", "timeout")
    ]
    assert goals["charge_compensation"] == ["charge_compensation: undoes", "charge_compensation: fails"]
    assert goals["kind"] == ["kind: runs", "kind: case card", "kind: case cash", "kind: default"]
    assert goals["loop"] == ["loop: runs", "loop: ends after one round", "loop: ends after more"]
    assert goals["pause"] == [
        f"pause: {goal}" for goal in ("runs", "signal", "signal too early", "signal too late", "time is over")
    ]
    assert goals["ship"] == ["ship: runs", "ship: fails", "ship: response timeout"]
    assert "" not in goals


def test_what_a_run_has_come_to(engine: Engine, workers: ScriptedWorkers, clock: VirtualClock) -> None:
    """Each kind of goal, from the journal of one execution and its signals."""
    workers.charge.fails(1).then.returns({"kind": "cash"})
    workers.ship.crashes()
    for name in ("page", "refund"):
        workers[name].returns()
    counted = WorkflowCoverage()
    counted.begin()
    try:
        run = engine.start(ALL)
        engine.settle()
        assert engine.signal(run.workflow_id, task="pause", status=TaskStatus.IN_PROGRESS) is None
        engine.advance("61m")
        with pytest.raises(TaskNotFound):
            engine.signal(run.workflow_id, task="pause")
        engine.signal(run.workflow_id, task="answer")
        engine.run_until_idle()
        with pytest.raises(Conflict):
            engine.signal(run.workflow_id, task="answer")
    finally:
        counted.end()
    assert run.workflow.task("ship").status is TaskStatus.TIMED_OUT
    (data,) = counted.data().values()
    wanted = {
        *("charge: runs", "charge: is retried", "charge_compensation: undoes", "page: runs"),
        *("kind: runs", "kind: case cash", "loop: runs", "loop: ends after more"),
        *("pause: runs", "pause: signal too early", "pause: signal too late", "pause: time is over"),
        *("answer: runs", "answer: signal", "answer: signal too late"),
        *("ship: runs", "ship: fails", "ship: response timeout"),
    }
    assert {goal for goals in goals_of(ALL).values() for goal in goals} & set(data["met"]) == wanted
    assert goals_met(ALL, run.history()) == set(data["met"]) - {goal for goal in data["met"] if "too" in goal}
    page = counted.html()
    assert "4 of 6" not in page
    assert "2 of 6" in page
    assert "<li>charge: fails</li>" in page


TESTS = """
import pytest
from conductorlite import WorkflowDef, WorkflowTask

ONE = WorkflowDef(name="one", tasks=[WorkflowTask(name="a", task_reference_name="a")])

@pytest.fixture
def engine_store():
    return "memory"

def test_good(engine, workers):
    workers.a.returns()
    engine.start(ONE).result()

@pytest.mark.parametrize("n", range(3))
def test_bad(engine, workers, n):
    workers.a.fails_terminally()
    engine.start(ONE)
    engine.run_until_idle()
"""


def test_the_options(pytester: pytest.Pytester) -> None:
    """A report, a page, a floor, and what earlier runs have counted."""
    pytester.makepyfile(TESTS)
    run = pytester.runpytest_inprocess("--workflow-cov", "-k", "good", "--workflow-cov-fail-under", "80", "-p", "no:cacheprovider")
    assert run.ret == 1
    run.stdout.fnmatch_lines(["one * 2 * 1 * 50%   a: fails", "in all 50.0%", "FAIL workflow coverage of 50.0% is below 80%"])
    assert list(pytester.path.glob(".workflow-coverage.json")) == []
    options = ("--workflow-cov", "--workflow-cov-append", "--workflow-cov-fail-under", "50", "-p", "no:cacheprovider")
    assert pytester.runpytest_inprocess(*options, "-k", "bad").ret == 0
    last = pytester.runpytest_inprocess(*options, "-k", "good", "--workflow-cov-html", "page.html")
    last.stdout.fnmatch_lines(["one * 2 * 0 * 100%", "in all 100.0%", "page: page.html"])
    assert "Nothing was missed" in (pytester.path / "page.html").read_text(encoding="utf-8")
    assert json.loads((pytester.path / ".workflow-coverage.json").read_text(encoding="utf-8"))


@pytest.mark.deep
def test_processes_of_xdist_are_merged(pytester: pytest.Pytester) -> None:
    """Each counts, the first process reports."""
    pytest.importorskip("xdist")
    pytester.makepyfile(TESTS)
    run = pytester.runpytest_subprocess("--workflow-cov", "-n", "2", "-p", "no:cacheprovider")
    run.stdout.fnmatch_lines(["one * 2 * 0 * 100%", "in all 100.0%"])


def test_nothing_was_counted(pytester: pytest.Pytester) -> None:
    """A run that starts no workflow does not reach any floor."""
    pytester.makepyfile("def test_other(): pass")
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--workflow-cov", "--workflow-cov-fail-under", "1")
    run.stdout.fnmatch_lines(["in all 0.0%", "FAIL workflow coverage of 0.0% is below 1%"])
    assert run.ret == pytest.ExitCode.TESTS_FAILED


def test_a_reference_with_the_sign_of_rounds_in_it(engine: Engine, workers: ScriptedWorkers) -> None:
    """Only what ends like a round of a loop is one."""
    workers.page.returns()
    loop = node("DO_WHILE", "all__pages", loop_condition="$.all__pages['iteration'] < 2", loop_over=[work("page", "the__page")])
    definition = flow("odd", [loop])
    run = engine.start(definition)
    run.result()
    assert {"the__page: runs", "all__pages: ends after more"} <= goals_met(definition, engine.history(run.workflow_id))
