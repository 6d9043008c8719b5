"""INLINE, SWITCH and DO_WHILE that hold an expression of Python beside its JavaScript, on memory and SQLite."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, InvalidDefinition, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.language import processes
from conductorlite.language.expressions import (
    GENERATOR,
    Expression,
    condition_fields,
    inline_fields,
    input_key,
    render,
    switch_fields,
    truth,
)
from conductorlite.language.haste import Haste, in_haste
from conductorlite.model.codec import definition_text
from conductorlite.model.definitions import PYTHON_KEY
from conductorlite.model.errors import TakesLong
from conductorlite.plan.compile import compile_plan
from conductorlite.plan.diagrams import mermaid
from conductorlite.plan.lint import lint

T0 = 1_900_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock."""
    stores = [str(tmp_path / "expressions.db")] if request.param == "sqlite" else []
    with Engine(*stores, clock=VirtualClock(T0)) as made:
        yield made


def expression(text: str, *names: str, asked: bool = False) -> Expression:
    """An expression; one that is `asked` gives its truth."""
    node = ast.parse(text, mode="eval").body
    return render(truth(node) if asked else node, names)


def step(ref: str, kind: str, **fields: Any) -> WorkflowTask:
    """A task."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)


def inline(ref: str, text: str, **given: Any) -> WorkflowTask:
    """An INLINE that gives what an expression answers."""
    more = {name: given.pop(name) for name in ("optional",) if name in given}
    return step(ref, "INLINE", **inline_fields(expression(text, *given), given), **more)


def run(engine: Engine, *tasks: WorkflowTask, **values: Any) -> Any:
    """Start the tasks as one workflow; the execution after all that is due was done."""
    started = engine.start(WorkflowDef(name="w", tasks=tasks), values)
    engine.run_until_idle()
    return engine.get(started.workflow_id)


def test_an_inline_gives_what_the_python_answers(engine: Engine) -> None:
    """A whole number of any size, with no helper process; its row keeps the values and neither of the scripts."""
    workflow = run(engine, inline("a", "x ** 2 / 4 if x > 2 else f'{x}'", x="${workflow.input.n}"), n=10)
    assert workflow.status == "COMPLETED"
    assert workflow.task("a").output.value == {"result": 25.0}
    assert isinstance(workflow.task("a").output.value["result"], float)
    assert workflow.task("a").input.value == {"x": 10}
    wide = run(engine, inline("a", "x * 10 ** 30 + 1", x="${workflow.input.n}"), n=7)
    assert wide.task("a").output.value == {"result": 7 * 10**30 + 1}


def test_a_loop_and_a_choice_over_expressions(engine: Engine) -> None:
    """A while loop over a variable, whose condition reads it anew each round, and an if behind it."""
    add = inline("add", "total + 3", total="${workflow.variables.total}")
    keep = step("keep", "SET_VARIABLE", input_parameters={"total": "${add.output.result}"})
    loop = step(
        "loop",
        "DO_WHILE",
        loop_over=(add, keep),
        **condition_fields(
            expression("total < limit", "total", "limit"),
            {"total": "${workflow.variables.total}", "limit": "${workflow.input.limit}"},
        ),
    )
    choice = step(
        "choice",
        "SWITCH",
        decision_cases={"true": (inline("odd", "'odd'"),), "false": (inline("even", "'even'"),)},
        **switch_fields(expression("total % 2", "total", asked=True), {"total": "${workflow.variables.total}"}),
    )
    first = step("first", "SET_VARIABLE", input_parameters={"total": 0})
    workflow = run(engine, first, loop, choice, limit=10)
    assert workflow.status == "COMPLETED"
    assert workflow.variables.value == {"total": 12}
    assert workflow.task("loop").output.value["iteration"] == 4
    assert workflow.task("choice").output.value["selectedCase"] == "false"
    assert workflow.task("even").output.value == {"result": "even"}


def test_a_choice_by_text_and_by_number(engine: Engine) -> None:
    """The cases of a SWITCH are the answers as texts."""
    for text, case in (("'gold' if x > 1 else 'none'", "gold"), ("[0, 1, 2].index(x)", "2")):
        choice = step(
            "s",
            "SWITCH",
            decision_cases={case: (inline("a", "x", x=1),)},
            **switch_fields(expression(text, "x"), {"x": "${workflow.input.x}"}),
        )
        workflow = run(engine, choice, x=2)
        assert workflow.task("s").output.value["selectedCase"] == case
        assert workflow.task("a").status == "COMPLETED"


def test_what_raises_fails_the_task_as_a_workers_exception_does(engine: Engine) -> None:
    """Its type is recorded and searched for, its text is the reason; the task has failed for good, unless it is optional."""
    workflow = run(engine, inline("a", "1 / x", x="${workflow.input.n}"), n=0)
    task = workflow.task("a")
    assert (workflow.status, task.status) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    assert task.reason == "ZeroDivisionError: division by zero"
    assert task.error_types == ("ZeroDivisionError",)
    assert task.output.value == {"error": "ZeroDivisionError: division by zero"}
    after = run(engine, inline("a", "x['k']", optional=True, x="${workflow.input.n}"), inline("b", "1"), n={})
    assert (after.status, after.task("a").reason, after.task("b").status) == ("COMPLETED", "KeyError: 'k'", "COMPLETED")
    spent = run(engine, inline("a", "'x' * x", x="${workflow.input.n}"), n=10**9)
    assert spent.task("a").reason == "the expression makes more than 16 MB"
    assert spent.task("a").error_types == ()


def test_a_condition_that_raises_fails_its_task(engine: Engine) -> None:
    """A SWITCH and a DO_WHILE say what the Python said."""
    choice = step(
        "s",
        "SWITCH",
        decision_cases={"true": (inline("b", "1"),)},
        **switch_fields(expression("x > 1", "x"), {"x": "${workflow.input.x}"}),
    )
    workflow = run(engine, choice, x="a")
    assert workflow.task("s").reason == "TypeError: '>' not supported between instances of 'str' and 'int'"
    assert workflow.task("s").error_types == ("TypeError",)
    loop = step(
        "l",
        "DO_WHILE",
        loop_over=(inline("b", "1"),),
        **condition_fields(expression("x.more", "x", asked=True), {"x": "${workflow.input.x}"}),
    )
    workflow = run(engine, loop, x=None)
    assert workflow.task("l").reason == "AttributeError: 'NoneType' object has no attribute 'more'"
    assert workflow.task("l").error_types == ("AttributeError",)
    assert workflow.task("l").status == "FAILED_WITH_TERMINAL_ERROR"


def test_names_that_conductor_reserves_have_keys_of_their_own(engine: Engine) -> None:
    """A value may be called as an entry of inputParameters is that means something."""
    given = {name: index for index, name in enumerate(("expression", "evaluatorType", "items", "items_", "iteration", "x"))}
    text = " + ".join(f"10 ** {at} * {name}" for at, name in enumerate(given))
    task = inline("a", text, **given)
    assert [key for key in task.input_parameters if key.startswith("items")] == ["items_", "items__"]
    assert len({input_key(name) for name in given}) == len(given)
    assert run(engine, task).task("a").output.value == {"result": 543210}


def test_it_comes_back_from_json(engine: Engine) -> None:
    """The definition as a server has it means the same."""
    definition = WorkflowDef(name="w", tasks=(inline("a", "f'${x}' + ' {y}'", x="${workflow.input.x}"),))
    text = definition_text(definition)
    assert PYTHON_KEY in text
    engine.register(WorkflowDef.from_json(text))
    started = engine.start("w", {"x": 5})
    engine.run_until_idle()
    assert engine.get(started.workflow_id).task("a").output.value == {"result": "$5 {y}"}


def changed(task: WorkflowTask, **inputs: Any) -> WorkflowTask:
    """A task with other entries in its inputParameters; None removes one."""
    merged = {key: value for key, value in {**task.input_parameters, **inputs}.items() if value is not None}
    fields = {
        name: getattr(task, name)
        for name in (
            "name",
            "task_reference_name",
            "type",
            "expression",
            "evaluator_type",
            "loop_condition",
            "decision_cases",
            "loop_over",
        )
    }
    return WorkflowTask(**{**fields, "input_parameters": merged})


SUM = inline("a", "x + 1", x=1)
CHOICE = step("s", "SWITCH", decision_cases={"true": (inline("c", "1"),)}, **switch_fields(expression("x > 1", "x"), {"x": 1}))
LOOP = step("l", "DO_WHILE", loop_over=(inline("b", "1"),), **condition_fields(expression("x > 1", "x"), {"x": 1}))


@pytest.mark.parametrize(
    ("task", "path", "message"),
    [
        (changed(SUM, expression="$.x + 2"), "inputParameters.expression", "is not what is made of the Python 'x + 1'"),
        (
            changed(SUM, **{PYTHON_KEY: {"text": "x + 2", "generator": GENERATOR}}),
            "inputParameters.expression",
            "is not what is made of",
        ),
        (
            changed(SUM, **{PYTHON_KEY: {"text": "x + 1", "generator": GENERATOR + 1}}),
            PYTHON_KEY,
            "update conductorlite, or compile the flow again",
        ),
        (changed(SUM, **{PYTHON_KEY: {"text": "x + 1", "generator": "1"}}), PYTHON_KEY, "was written by the generator '1'"),
        (changed(SUM, **{PYTHON_KEY: "x + 1"}), PYTHON_KEY, 'must be {"text": …, "generator": …}'),
        (changed(SUM, **{PYTHON_KEY: {"text": "x +", "generator": 1}}), PYTHON_KEY, "SyntaxError: invalid syntax at line 1"),
        (
            changed(SUM, **{PYTHON_KEY: {"text": "open('x')", "generator": 1}}),
            PYTHON_KEY,
            "the function open is not part of the language",
        ),
        (changed(SUM, **{PYTHON_KEY: {"text": "f'${x}'", "generator": 1}}), PYTHON_KEY, "which Conductor would replace"),
        (changed(SUM, x=None), PYTHON_KEY, "reads x, which is no input parameter"),
        (
            changed(SUM, evaluatorType="graaljs"),
            "inputParameters.evaluatorType",
            "must be 'javascript' beside @python, not 'graaljs'",
        ),
        (changed(SUM, expression=None), "inputParameters.expression", "is missing: it must be the JavaScript of the Python"),
        (
            step(
                "s",
                "SWITCH",
                decision_cases=CHOICE.decision_cases,
                expression="$.x > 1",
                evaluator_type="javascript",
                input_parameters=CHOICE.input_parameters,
            ),
            "expression",
            "is not what is made of",
        ),
        (
            step("s", "SWITCH", decision_cases=CHOICE.decision_cases, **switch_fields(expression("[x]", "x"), {"x": 1})),
            PYTHON_KEY,
            "gives a list, which no case can be",
        ),
        (
            step("l", "DO_WHILE", loop_over=LOOP.loop_over, loop_condition="$.x > 1", input_parameters=LOOP.input_parameters),
            "loopCondition",
            "is not what is made of",
        ),
        (
            step("l", "DO_WHILE", loop_over=LOOP.loop_over, **condition_fields(expression("x", "x"), {"x": 1})),
            PYTHON_KEY,
            "write bool(x)",
        ),
        (
            step("l", "DO_WHILE", loop_over=LOOP.loop_over, **condition_fields(expression("b > 1", "b"), {"b": 1})),
            PYTHON_KEY,
            "reads b, which is a task of the loop too",
        ),
        (
            step("l", "DO_WHILE", loop_over=LOOP.loop_over, **condition_fields(expression("l > 1", "l"), {"l": 1})),
            PYTHON_KEY,
            "reads l, which is a task of the loop too",
        ),
    ],
)
def test_what_does_not_match_is_refused(task: WorkflowTask, path: str, message: str) -> None:
    """A definition is registered with both meanings alike, or not at all; the error names the place and what to do."""
    with Engine() as engine, pytest.raises(InvalidDefinition) as refused:
        engine.start(WorkflowDef(name="w", tasks=(task,)))
    found = [problem for problem in refused.value.problems if message in problem.message]
    assert found, refused.value
    assert found[0].path.endswith(path) or path in found[0].path


def test_lint_for_a_server_finds_what_is_not_portable() -> None:
    """Constants that JavaScript does not have, and floats that are made; nothing of what is portable."""
    task = inline("a", "[x + 2.0, 10 ** 3, 9007199254740993, float(x), 0.5, 2]", x=1)
    found = lint(WorkflowDef(name="w", tasks=(task,)), conductor=True)
    assert [problem.message for problem in found if PYTHON_KEY in problem.path] == [
        "holds 9007199254740993, a whole number beyond 2^53, which fails on a Conductor server",
        "calls float(), and a Conductor server has no float that is integral: float(2) is 2 there",
        "holds 2.0, which is the whole number 2 on a Conductor server",
    ]
    assert not [problem for problem in lint(WorkflowDef(name="w", tasks=(task,))) if PYTHON_KEY in problem.path]


def test_a_picture_shows_the_python() -> None:
    """The JavaScript is for servers."""
    drawn = mermaid(WorkflowDef(name="w", tasks=(CHOICE, LOOP)))
    assert "function" not in drawn
    assert "x #62; 1" in drawn


def test_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to register nor to carry out an expression."""

    def refuse(*given: Any, **options: Any) -> str:
        raise AssertionError("a helper process was asked")

    monkeypatch.setattr(processes, "run_script", refuse)
    monkeypatch.setattr("conductorlite.language.javascript.run_script", refuse)
    with Engine() as engine:
        assert run(engine, inline("a", "sorted(x)", x=[2, 1]), CHOICE).status == "COMPLETED"


def test_only_what_goes_through_lists_may_take_long() -> None:
    """A plan without comprehensions is decided on as any other; one with them tells a turn in haste that it takes long."""
    assert not compile_plan(WorkflowDef(name="w", tasks=(SUM, CHOICE, LOOP))).foreign
    long = inline("a", "sum([i for i in range(x)])", x=100_000)
    plan = compile_plan(WorkflowDef(name="w", tasks=(long,)))
    assert plan.foreign
    condition = plan.nodes["a"].condition
    assert condition is not None
    with in_haste(Haste()), pytest.raises(TakesLong):
        condition.evaluate({"x": 100_000})
    assert condition.evaluate({"x": 100_000}) == sum(range(100_000))


def test_a_long_comprehension_ends_in_a_driven_engine(tmp_path: Path) -> None:
    """A turn that is put aside for it is taken all the same."""
    with Engine(str(tmp_path / "aside.db")) as engine:
        started = engine.start(WorkflowDef(name="w", tasks=(inline("a", "sum([i for i in range(x)])", x=100_000),)))
        engine.run_until_idle()
        assert engine.get(started.workflow_id).task("a").output.value == {"result": sum(range(100_000))}
