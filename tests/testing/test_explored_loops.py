"""A search finds a loop without an end in its first rounds, in one choice or two, and asks a script the same only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from designs import flow, node, switch, work

from conductorlite import WorkflowDef, WorkflowTask
from conductorlite.language import processes
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.testing import explore, never
from conductorlite.testing.exploration.rounds import repeated

MORE = [{"more": False}, {"more": True}]


def loop(condition: str, *body: WorkflowTask, least: str = "", **fields: Any) -> WorkflowTask:
    """A loop that goes on while a condition holds, and in which `least` holds as well."""
    return node("DO_WHILE", "rounds", loop_condition=f"{condition}{least}", loop_over=list(body), **fields)


def bounded(right: bool) -> str:
    """What makes a loop end."""
    return " && $.rounds['iteration'] < 4" if right else ""


def optional_task(right: bool) -> WorkflowDef:
    """The page that cannot be fetched is tried again in the next round."""
    return flow("w", [loop("$.ask['done'] != true", work("ask", optional=True), least=bounded(right)), work("close")])


def person(right: bool) -> WorkflowDef:
    """Somebody who always wants a change."""
    return flow("w", [loop("$.ask['more'] == true", work("draft"), node("HUMAN", "ask"), least=bounded(right)), work("close")])


def child(right: bool) -> WorkflowDef:
    """The answer of a child, which is another execution in each round."""
    below = WorkflowDef(name="below", tasks=[work("ask")], output_parameters={"more": "${ask.output.more}"})
    asks = node("SUB_WORKFLOW", "asks", sub_workflow_param=SubWorkflowParams(name="below", workflow_definition=below))
    return flow("w", [loop("$.asks['more'] == true", asks, least=bounded(right)), work("close")])


def changing(right: bool) -> WorkflowDef:
    """It ends when two answers after one another are the same: with two that take turns, it never does."""
    given = {"a": "${ask.output.more}", "b": "${workflow.variables.last}"}
    keep = node("SET_VARIABLE", "keep", input_parameters={"last": "${ask.output.more}"})
    same = node(
        "SWITCH", "same", evaluator_type="javascript", expression="$.a === $.b ? 'yes' : 'no'", input_parameters=given,
        decision_cases={"yes": [node("SET_VARIABLE", "done", input_parameters={"done": True})]}, default_case=[keep],
    )  # fmt: skip
    goes_on = {"done": "${workflow.variables.done}"}
    return flow("w", [loop("$.done != true", work("ask"), same, least=bounded(right), input_parameters=goes_on), work("close")])


def two_answers(right: bool) -> WorkflowDef:
    """It goes on only if both ask for more."""
    return flow("w", [loop("$.ask['more'] && $.tell['more']", work("ask"), work("tell"), least=bounded(right)), work("close")])


def inner_loop(right: bool) -> WorkflowDef:
    """The loop in a loop is what does not end."""
    inner = node("DO_WHILE", "inner", loop_condition=f"$.ask['more'] == true{' && $.inner.iteration < 3' if right else ''}",
                 loop_over=[work("ask")])  # fmt: skip
    return flow("w", [loop("$.rounds['iteration'] < 2", work("begin"), inner), work("close")])


def starts_itself(right: bool) -> WorkflowDef:
    """No loop, but an execution that starts the next one."""
    begin = node("START_WORKFLOW", "again", input_parameters={"startWorkflow": {"name": "w", "input": {}}})
    return flow("w", [work("ask"), *([] if right else [switch("more", "${ask.output.more}", {"true": [begin]})])])


LOOPS: Mapping[str, tuple[Callable[[bool], WorkflowDef], Mapping[str, Any]]] = {
    "optional": (optional_task, {"may": {"ask": [{"done": True}, "fails_for_good"]}}),
    "person": (person, {"signals": {"ask": MORE}}),
    "child": (child, {"may": {"ask": MORE}}),
    "changing": (changing, {"may": {"ask": MORE}}),
    "two": (two_answers, {"may": {"ask": MORE, "tell": MORE}}),
    "inner": (inner_loop, {"may": {"ask": MORE}}),
    "itself": (starts_itself, {"may": {"ask": MORE}}),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_without_end_is_found_in_its_first_rounds(name: str) -> None:
    """In a few schedules and choices, whoever keeps it going; its schedule leads to it again."""
    made, options = LOOPS[name]
    given: dict[str, Any] = {**options, "others": ["ok"], "steps": 60, "check": False}
    explored = explore(made(False), **given)
    (problem,) = explored.problems
    assert problem.name == "no end"
    assert len(problem.schedule) <= 2
    assert explored.schedules <= 12
    again = explore(made(False), schedule=problem.schedule, **given)
    assert [one.name for one in again.problems] == ["no end"]
    assert again.problems[0].timeline == problem.timeline


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_with_a_bound_is_no_problem(name: str) -> None:
    """What is tried in every round ends with the last one, and the search is exhausted as without it."""
    made, options = LOOPS[name]
    explored = explore(made(True), others=["ok"], steps=60, **options)
    assert explored.exhausted


def test_a_rule_is_broken_in_a_late_round() -> None:
    """One choice says it for all rounds, and what is enough once is said once."""
    often = never(lambda run: run.acts("ask") > 5, "asked often")
    asks = flow("w", [loop("$.ask['more'] && $.rounds['iteration'] < 8", work("ask"))])
    explored = explore(asks, may={"ask": MORE}, others=["ok"], invariants=[often], check=False)
    assert [one.schedule for one in explored.problems] == [('ask__1#1 gives {"more":true}, ever after',)]
    twice = never(lambda run: run.acts("ask") > 1, "asked twice")
    explored = explore(asks, may={"ask": MORE}, others=["ok"], invariants=[twice], check=False)
    assert [one.schedule for one in explored.problems] == [('ask__1#1 gives {"more":true}',)]


def test_choices_are_repeated_in_circles_of_up_to_three_rounds() -> None:
    """Each circle from where a round of it began; a choice that lasts already is left as it is."""
    marks = (("w loop", 0), ("w other", 0), ("w loop", 1), ("w loop", 1), ("w loop", 2))
    assert list(repeated(marks, "w loop", ("a", "b", "c"))) == [
        ("a", "b", "c, ever after"),
        ("a", "b, every 2 rounds after", "c, every 2 rounds after"),
        ("a", "b, every 3 rounds after", "c, every 3 rounds after"),
    ]
    assert list(repeated(marks, "w loop", ("a", "b, ever after"))) == []


SCRIPT = "(() => { let sum = $.u; for (const one of [parseInt($.s)]) sum += one; return sum })()"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Requests that processes have got."""
    found: list[bytes] = []
    real = processes._ask

    def ask(language: Any, line: bytes, *more: Any) -> str | None:
        if json.loads(line)["run"]:
            found.append(line)
        return real(language, line, *more)

    monkeypatch.setattr(processes, "_ask", ask)
    return found


def quota(script: str) -> WorkflowDef:
    """A quota that is used up in steps that a script adds."""
    values = {"u": "${workflow.variables.used}", "s": "${take.output.n}", "evaluatorType": "javascript", "expression": script}
    keep = node("SET_VARIABLE", "keep", input_parameters={"used": "${add.output.result}"})
    body = [work("take"), node("INLINE", "add", input_parameters=values), keep]
    used = {"used": "${workflow.variables.used}"}
    zero = node("SET_VARIABLE", "zero", input_parameters={"used": 0})
    return flow("quota", [zero, loop("!($.used >= 3)", *body, input_parameters=used), work("report")])


def test_a_script_is_asked_the_same_once(asked: list[bytes]) -> None:
    """In all moments of a search together; nothing that others have asked for is forgotten for it."""
    kept = dict(processes._answers)
    explored = explore(
        quota(SCRIPT), may={"take": [{"n": 1}, {"n": 0}]}, others=["ok"], check=False, steps=60, enough=2, schedules=20
    )
    assert "no end" in [one.name for one in explored.problems]
    assert len(asked) == len(set(asked)) <= 6
    assert kept == {key: processes._answers[key] for key in kept}


def test_chance_is_drawn_for_each_task(asked: list[bytes]) -> None:
    """A script that may draw is asked for each of them."""
    drawn = [f"{SCRIPT} + 0 * {chance}()" for chance in ("Math.random", "Math['ran' + 'dom']", "(({Math: M}) => M.random)({Math})")]
    for script in drawn:
        asked.clear()
        explore(quota(script), may={"take": [{"n": 1}]}, others=["ok"])
        assert len({json.loads(line)["chance"][0] for line in asked}) == 3
    asked.clear()
    explore(quota(f"Math.max({SCRIPT}, 0)"), may={"take": [{"n": 1}]}, others=["ok"])
    assert len({json.loads(line)["chance"][0] for line in asked}) == 1
