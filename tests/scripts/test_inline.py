"""INLINE, SWITCH and DO_WHILE with scripts, on memory and SQLite: what they put out, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, EngineConfig, InvalidDefinition, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.decide.operators import scripts as inline_module
from conductorlite.language.processes import ScriptTimedOut

T0 = 1_900_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock."""
    stores = [str(tmp_path / "scripts.db")] if request.param == "sqlite" else []
    with Engine(*stores, clock=VirtualClock(T0)) as made:
        yield made


def inline(ref: str = "i", **values: Any) -> WorkflowTask:
    """An INLINE task."""
    fields = {key: values.pop(key) for key in ("optional", "retry_count", "task_definition") if key in values}
    return WorkflowTask(name=ref, task_reference_name=ref, type="INLINE", input_parameters=values, **fields)


def run(engine: Engine, *tasks: WorkflowTask, workflow_id: str | None = None, **values: Any) -> Any:
    """Start the tasks as one workflow; the execution after all that is due was done."""
    started = engine.start(WorkflowDef(name="w", tasks=tasks), values, workflow_id=workflow_id)
    engine.run_until_idle()
    return engine.get(started.workflow_id)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"expression": "$.a + 1", "a": "${workflow.input.n}"}, 5),
        ({"expression": "(() => ({sum: $.a, all: [1, $.a]}))()", "a": 2}, {"sum": 2, "all": [1, 2]}),
        ({"expression": "${workflow.input.n} * 2"}, 8),
        ({"evaluatorType": "graaljs", "expression": "$.absent"}, None),
        ({"evaluatorType": "value-param", "expression": "a", "a": [1]}, [1]),
        ({"evaluatorType": "python", "expression": "return a * 2", "a": 3}, 6),
        ({"evaluatorType": "${workflow.input.language}", "expression": "a and 1", "a": 3}, 1),
    ],
)
def test_what_it_puts_out(engine: Engine, inputs: dict[str, Any], expected: Any) -> None:
    """The answer is the task's `result`."""
    workflow = run(engine, inline(**inputs), n=4, language="python")
    assert workflow.status == "COMPLETED"
    assert workflow.task("i").output.value == {"result": expected}


def test_the_task_id_and_the_template_are_known(engine: Engine) -> None:
    """`${CPEWF_TASK_ID}` is the id of the attempt, and the definition's inputTemplate is merged."""
    definition = TaskDef(name="i", input_template={"b": "x"})
    workflow = run(engine, inline(expression="$.id + $.b", id="${CPEWF_TASK_ID}", task_definition=definition))
    assert workflow.task("i").output.value == {"result": workflow.task("i").task_id + "x"}


@pytest.mark.trap("tasks-53")
@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"expression": "${workflow.input.n}"}, "expression is a number"),
        ({"expression": "${workflow.input.nothing}"}, "expression is missing"),
        ({"expression": "${workflow.input.blank}"}, "expression is empty"),
        ({"expression": "1", "evaluatorType": "${workflow.input.n}"}, "evaluatorType is a number"),
        ({"expression": "1", "evaluatorType": "${workflow.input.blank}"}, "evaluatorType is empty"),
        ({"expression": "1", "evaluatorType": "${workflow.input.word}"}, "No evaluator registered for type: lua"),
        ({"expression": "nope + 1"}, "nope is not defined"),
        ({"expression": "${workflow.input.n} +"}, "line 1"),
        ({"expression": "throw 'no'"}, "no"),
        ({"evaluatorType": "python", "expression": "1/0"}, "ZeroDivisionError"),
    ],
)
def test_errors_are_final(engine: Engine, inputs: dict[str, Any], reason: str) -> None:
    """A script that cannot be evaluated fails its task for good, with the reason in `error`."""
    workflow = run(engine, inline(**inputs, retry_count=3), n=4, blank=" ", word="lua")
    task = workflow.task("i")
    assert (workflow.status, task.status, task.attempt) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR", 0)
    assert reason in task.reason
    assert task.output.value == {"error": task.reason}


@pytest.mark.trap("tasks-53")
def test_a_time_out_is_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that ran out of time is FAILED, and evaluated again as often as the task may be retried."""
    calls: list[str] = []

    def evaluate(values: dict[str, Any], now: int, seed: str) -> Any:
        calls.append(seed)
        if len(calls) < 3:
            raise ScriptTimedOut("too slow")
        return "done"

    monkeypatch.setattr(inline_module, "_evaluate", evaluate)
    workflow = run(engine, inline(expression="1", retry_count=2))
    assert workflow.status == "COMPLETED"
    assert [str(task.status) for task in workflow.tasks] == ["FAILED", "FAILED", "COMPLETED"]
    assert len(set(calls)) == 3


def test_an_optional_one_does_not_stop_the_workflow(engine: Engine) -> None:
    """A failed INLINE that is optional counts as completed with errors."""
    workflow = run(engine, inline(expression="nope", optional=True), inline("next", expression="2"))
    assert (workflow.status, workflow.task("i").status) == ("COMPLETED", "COMPLETED_WITH_ERRORS")


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({}, "expression"), ({"expression": ""}, "expression"), ({"expression": 5}, "expression"),
        ({"expression": "1 +"}, "expression"), ({"expression": "1", "evaluatorType": "lua"}, "evaluatorType"),
        ({"expression": "1", "evaluatorType": ""}, "evaluatorType"),
        ({"expression": "import", "evaluatorType": "python"}, "expression"),
    ],
)  # fmt: skip
def test_what_is_known_to_be_wrong_is_refused(engine: Engine, inputs: dict[str, Any], path: str) -> None:
    """A script without `${…}` is compiled when its definition is registered."""
    with pytest.raises(InvalidDefinition, match=path):
        engine.register(WorkflowDef(name="w", tasks=[inline(**inputs)]))


def test_clock_and_chance_are_decided_once(tmp_path: Path) -> None:
    """Two stores decide the same execution alike, with `Date.now()` the instant of the turn."""
    answers = []
    for store in ([], [str(tmp_path / "twin.db")]):
        with Engine(*store, clock=VirtualClock(T0), config=EngineConfig(ids=lambda: "same")) as engine:
            answers.append(run(engine, inline(expression="[Math.random(), Date.now()]")).task("i").output.value)
    assert answers[0] == answers[1]
    assert answers[0]["result"][1] == T0


def test_full_javascript_in_switch_and_loop(engine: Engine) -> None:
    """SWITCH and DO_WHILE take all of JavaScript."""
    switch = WorkflowTask(
        name="s", task_reference_name="s", type="SWITCH", evaluator_type="javascript",
        expression="/^a/.test($.x) ? 'yes' : 'no'", input_parameters={"x": "abc"},
        decision_cases={"yes": [inline("taken", expression="1")]},
    )  # fmt: skip
    loop = WorkflowTask(
        name="d", task_reference_name="d", type="DO_WHILE", loop_over=[inline("body", expression="$.n", n="${d.output.iteration}")],
        loop_condition="let again = false; for (const n of [$.d.iteration]) again = n < 3; again;",
    )  # fmt: skip
    workflow = run(engine, switch, loop)
    assert workflow.status == "COMPLETED"
    assert workflow.task("taken").output.value == {"result": 1}
    assert workflow.task("d").output.value["iteration"] == 3
