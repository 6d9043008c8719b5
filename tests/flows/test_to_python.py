"""JSON → Python → JSON unchanged: what is printed is readable, and builds the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from conductorlite import SubWorkflowParams, WorkflowDef, WorkflowTask, flow
from conductorlite.errors import InvalidDefinition
from conductorlite.flows import Flow, as_is, inline, over, to_python
from conductorlite.testing.strategies import COMPOUND, LEAVES, definitions

from trips import booking, notify  # isort: skip

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "codec"))  # its strategy for definitions that are anything but valid

from definition_strategies import workflow_defs  # noqa: E402  isort: skip

CORPUS = [
    entry["definition"] for name in ("quoted", "written") for entry in json.loads((TESTS / f"corpus/{name}.json").read_text())
]
EXAMPLES = [json.loads(path.read_text()) for path in sorted((TESTS.parent / "examples").glob("*/*.json"))]


def built(source: str) -> list[Flow[..., Any]]:
    """The flows of a source."""
    names: dict[str, Any] = {}
    exec(compile(source, "source", "exec"), names)
    return [value for value in names.values() if isinstance(value, Flow)]


def same(document: Any) -> str:
    """Write a definition as Python, and see that it builds the same bytes."""
    definition = document if isinstance(document, WorkflowDef) else WorkflowDef.from_json(document)
    source = to_python(definition)
    assert json.dumps(built(source)[-1].definition.to_json()) == json.dumps(definition.to_json()), source
    return source


@given(definitions(kinds=(*COMPOUND, *LEAVES, "JSON_JQ_TRANSFORM")))
def test_a_valid_definition(definition: WorkflowDef) -> None:
    """Nested forks, cases, loops; and no task of a type that has a form is written out."""
    source = same(definition)
    for kind in ("SIMPLE", "SWITCH", "DO_WHILE", "FORK_JOIN", "WAIT", "HUMAN", "DECISION"):
        assert f'type="{kind}"' not in source


@given(workflow_defs())
def test_any_definition(definition: WorkflowDef) -> None:
    """Any field, any text, any name, also where no flow could say it."""
    same(definition)


@pytest.mark.parametrize("kind", ["SIMPLE", "WAIT", "HUMAN", "TERMINATE", "SET_VARIABLE", "JOIN", "SUB_WORKFLOW", "NOOP"])
@pytest.mark.parametrize("held", [{"decisionCases": {"": []}}, {"loopOver": [{"name": "b", "taskReferenceName": "b"}]}])
def test_what_a_task_holds_that_has_no_steps(kind: str, held: dict[str, Any]) -> None:
    """It means nothing there, and is written all the same."""
    same({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a", "type": kind, **held}]})


@pytest.mark.parametrize(
    "documents", [[*EXAMPLES, *CORPUS[::5]], pytest.param(CORPUS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_definitions_of_others_are_written_as_linters_want_them(documents: list[Any], tmp_path: Path) -> None:
    """The corpus, the examples, and what flows build: without a finding of ruff."""
    for number, document in enumerate([*documents, booking.definition.to_json()]):
        (tmp_path / f"flow_{number}.py").write_text(same(document), encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "E,F", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def simple(ref: str, **given: Any) -> dict[str, Any]:
    """A task of the type `go`."""
    return {"name": "go", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": given}


def op(ref: str, kind: str, given: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A task of Conductor's own."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": given or {}, **fields}


def switch(ref: str, evaluator: str, expression: str, given: dict[str, Any], **cases: Any) -> dict[str, Any]:
    """A SWITCH."""
    default = cases.pop("default", [])
    fields = {"evaluatorType": evaluator, "expression": expression, "decisionCases": cases, "defaultCase": default}
    return op(ref, "SWITCH", given, **fields)


N, X = "${workflow.input.n}", simple("x", a=1)

FORMS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "call": ([simple("go", a=1)], "go(a=1)"),
    "options": (
        [{**simple("b", a=1), "optional": True, "retryCount": 2, "startDelay": 90, "description": "why"}],
        """
        go.options(name="b", description="why", optional=True, delay="90s", retry=2)(a=1)
        """,
    ),
    "undo": (
        [{**simple("b", a=1), "compensate": simple("b_undo", a="${b.output}")}],
        'go.options(name="b", undo=go)(a=1)',
    ),
    "references": (
        [X, simple("y", a="${x.output.deep[0]['no word'].class}")],
        """
        x = go.options(name="x")(a=1)
        go.options(name="y")(a=x.deep[0]["no word"]["class"])
        """,
    ),
    "status": (
        [X, simple("y", a="${x.status}")],
        """
        x = go.options(name="x")(a=1)
        go.options(name="y")(a=status(x))
        """,
    ),
    "text with references": (
        [X, simple("y", a="{${x.output.a}} of ${x.output}")],
        """
        x = go.options(name="x")(a=1)
        go.options(name="y")(a=f"{{{x.a}}} of {x}")
        """,
    ),
    "variables": (
        [op("set_n", "SET_VARIABLE", {"n": 1}), simple("y", a="${workflow.variables.n}")],
        """
        set_variables(n=1)
        go.options(name="y")(a=variable("n"))
        """,
    ),
    "parallel": (
        [
            op("f", "FORK_JOIN", forkTasks=[[X], [simple("y", a=2)]]),
            op("j", "JOIN", joinOn=["x", "y"]),
            simple("z", a="${y.output}"),
        ],
        """
        _, y = parallel(
            go.options(name="x")(a=1),
            go.options(name="y")(a=2),
            name="f",
            join="j",
        )
        go.options(name="z")(a=y)
        """,
    ),
    "branches": (
        [op("f", "FORK_JOIN", forkTasks=[[X, simple("y", a=2)]]), op("j", "JOIN", joinOn=["x"])],
        """
        with parallel(name="f", join=False) as fork:
            with fork.branch():
                go.options(name="x")(a=1)
                go.options(name="y")(a=2)
        join("x", name="j")
        """,
    ),
    "each": (
        [
            X,
            op("f", "FORK_JOIN_DYNAMIC", {"forkTaskName": "go", "forkTaskInputs": "${x.output.all}"}),
            op("f_join", "JOIN"),
            simple("z", a="${f_join.output[*]}"),
        ],
        """
        x = go.options(name="x")(a=1)
        f_join = each(x.all, go, name="f")
        go.options(name="z")(a=f_join)
        """,
    ),
    "when": (
        [X, switch("when_paid", "value-param", "paid", {"paid": "${x.output.paid}"}, true=[simple("y")], default=[simple("z")])],
        """
        x = go.options(name="x")(a=1)
        with when(x.paid):
            go.options(name="y")()
        with otherwise():
            go.options(name="z")()
        """,
    ),
    "when by a script": (
        [switch("when_n", "javascript", "$.n > 1", {"n": N}, true=[X])],
        """
        with when("$.n > 1", n=n):
            go.options(name="x")(a=1)
        """,
    ),
    "match": (
        [{**switch("chosen", "value-param", "kind", {"kind": N}, a=[X], b=[], default=[simple("y")]), "name": "choose"}],
        """
        chosen = match(kind=n, name="chosen", fields={"name": "choose"})
        with chosen.case("a"):
            go.options(name="x")(a=1)
        chosen.nothing("b")
        with chosen.otherwise():
            go.options(name="y")()
        """,
    ),
    "decision": (
        [op("d", "DECISION", {"k": "a"}, caseValueParam="k", decisionCases={"a": [X]})],
        """
        with match(
            "",
            k="a",
            name="d",
            fields={
                "type": "DECISION",
                "case_value_param": "k",
                "evaluator_type": None,
                "expression": None,
            },
        ).case("a"):
            go.options(name="x")(a=1)
        """,
    ),
    "repeat": (
        [
            op(
                "repeat",
                "DO_WHILE",
                loopCondition="$.repeat['iteration'] < 3",
                loopOver=[simple("x", a="${repeat.output.iteration}")],
            )
        ],
        """
        with repeat(3) as loop:
            go.options(name="x")(a=loop.round)
        """,
    ),
    "again_if": (
        [op("r", "DO_WHILE", {"n": N}, loopCondition="$.x.more", loopOver=[X])],
        """
        with repeat(name="r") as loop:
            go.options(name="x")(a=1)
            loop.again_if("$.x.more", n=n)
        """,
    ),
    "over": (
        [op("over", "DO_WHILE", items=N, loopOver=[simple("x", a="${over.output.loopItem.id}")])],
        """
        with over(n, again_if=None) as item:
            go.options(name="x")(a=item.id)
        """,
    ),
    "another case of an earlier round": (
        [
            op(
                "repeat",
                "DO_WHILE",
                loopCondition="$.repeat['iteration'] < 3",
                loopOver=[switch("k", "value-param", "k", {"k": N}, a=[X], b=[simple("y", a="${x.output.b}")])],
            )
        ],
        """
        with repeat(3):
            k = match(k=n, name="k")
            with k.case("a"):
                go.options(name="x")(a=1)
            with k.case("b"):
                go.options(name="y")(a=as_is("${x.output.b}"))
        """,
    ),
    "waits": (
        [op("wait", "WAIT", {"duration": "1 day"}), op("h", "HUMAN", {"for": 1, "who": "Ada"})],
        """
        wait("1 day")
        human("h", **{"for": 1, "who": "Ada"})
        """,
    ),
    "others": (
        [
            op("event_conductor_x", "EVENT", {"a": 1}, sink="conductor:x"),
            op("inline", "INLINE", {"evaluatorType": "javascript", "expression": "$.a", "a": 1}),
            simple("x", a="${inline.output.result}"),
            {**op("paid", "SUB_WORKFLOW", {"a": 1}, subWorkflowParam={"name": "pay", "version": 2}), "name": "pay"},
            op("start_pay", "START_WORKFLOW", {"startWorkflow": {"name": "pay", "input": {"a": 1}}}),
            op("terminate_failed", "TERMINATE", {"terminationStatus": "FAILED", "terminationReason": "why"}),
        ],
        """
        event("conductor:x", a=1)
        inline_output = inline("$.a", a=1)
        go.options(name="x")(a=inline_output)
        sub("pay", version=2, a=1, name="paid")
        start("pay", a=1)
        terminate("FAILED", "why")
        """,
    ),
    "written out": (
        [op("h", "HTTP", {"uri": N}, asyncComplete=True)],
        """
        node(
            WorkflowTask(
                name="h",
                task_reference_name="h",
                type="HTTP",
                input_parameters={"uri": n},
                async_complete=True,
            ),
        )
        """,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    """Each says what a user would have written."""
    tasks, expected = FORMS[form]
    source = same({"name": "w", "version": 1, "inputParameters": ["n"], "tasks": tasks})
    assert textwrap.dedent(source.split("def w(n):\n")[1]).strip() == textwrap.dedent(expected).strip()


def test_a_flow_within() -> None:
    """A definition in a definition is a flow of its own, once however often it is called."""
    inner = {"name": "inner", "version": 2, "inputParameters": ["a"], "tasks": [simple("x", a="${workflow.input.a}")]}
    params = {"name": "inner", "version": 2, "workflowDefinition": inner}
    calls = [
        {**op(ref, "SUB_WORKFLOW", subWorkflowParam=params, inputParameters={"a": 1}), "name": "inner"} for ref in ("one", "two")
    ]
    source = same({"name": "outer", "tasks": [*calls, {**calls[0], "taskReferenceName": "three", "description": "why"}]})
    assert source.count("@flow") == 2
    assert 'inner.options(name="two")(a=1)' in source
    assert "workflow_definition=inner.definition" in source


def test_what_deep_nesting_becomes() -> None:
    """Python takes no more than twenty blocks in each other: what is deeper is written out, or as JSON."""
    task = simple("t0", a=1)
    for depth in range(45):
        task = op(f"l{depth}", "DO_WHILE", loopCondition=f"$.l{depth}['iteration'] < 2", loopOver=[task])
    source = same({"name": "deep", "tasks": [task]})
    assert source.count("with repeat") > 10
    value: Any = 1
    for _ in range(100):
        value = [value]
    assert "json.loads(" in same({"name": "deep", "tasks": [simple("x", a=value)]})


def test_what_exhausts_the_stack_is_refused() -> None:
    """As by `to_json`."""
    definition = WorkflowDef(name="d", tasks=[WorkflowTask(name="go", task_reference_name="go")])
    for depth in range(600):
        param = SubWorkflowParams(name="d", workflow_definition=definition)
        definition = WorkflowDef(
            name=f"d{depth}", tasks=[WorkflowTask(name="d", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=param)]
        )
    with pytest.raises(InvalidDefinition, match="nested too deeply"):
        to_python(definition)


def test_a_step_of_another_case_can_be_read_as_it_is() -> None:
    """And what else the forms have come to say."""

    @flow
    def reads(rows: list[int]) -> None:
        with over(rows, fields={"description": "each"}) as row:
            notify(as_is("${nowhere.output}"))
            inline("$.a", a=row, fields={"optional": True})

    loop = reads.definition.tasks[0]
    assert (loop.description, loop.loop_over[0].input_parameters) == ("each", {"text": "${nowhere.output}"})
    assert loop.loop_over[1].optional
