"""The condition of a DO_WHILE reads the output of each task in each round of its loop, under the loop's own reference.

Source of the rule: Conductor's `DoWhile.evaluateCondition`.
"""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple, switch

from conductorlite import WorkflowStatus, WorkflowTask
from conductorlite.language.javascript import JavaScript
from conductorlite.language.subset import compile_subset

#: Rounds after which each of them is false, where the task `t` puts out its round as `n`.
CONDITIONS = {
    # the subset
    "$.l['2'].t.n != 2 || false": None,
    "!($.l['iteration'] >= 2 && $.l['2'].t.n === 2)": 2,
    "$.l['1'].t.n == 1 && $.l['iteration'] < 2": 2,
    "$.l[1].t.n == 1 && $.l.iteration < 3": 3,
    "if ($.l['3'] != null) { false; } else { true; }": 3,
    "$.l != null && $.l['2'] == undefined": 2,
    "$.l['1'].t.n == 1 && $.t.n < 2": 2,
    # all of JavaScript
    "(function () { var rounds = $.l; return rounds[rounds.iteration].t.n < 2; })()": 2,
    "Object.keys($.l).length < 4": 3,
    "$.l?.['2']?.t?.n === undefined": 2,
    "const {l} = $; l.iteration < 2 && l[1].t.n === 1": 2,
    "[1, 2, 3].every(n => $.l[n]?.t.n === n) === false": 3,
    "$['l']['1'].t.n + $.l[\"iteration\"] < 3": 2,
    "/^[12]$/.test(String($.l['1'].t.n)) && $.l.iteration < 2 // $ this": 2,
    "for (const key of ['1']) { $.l[key].t.n + $.l.iteration < 4 }": 3,
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_reads_the_rounds_of_its_loop(bench: Bench, condition: str) -> None:
    """The loop ends after as many rounds as the condition says, whatever carries it out; a round that is not there fails it."""
    bench.start(flow(rounds("l", [simple("t", {"retry_count": 0})], loop_condition=condition)))
    expected = CONDITIONS[condition]
    for number in range(1, (expected or 1) + 1):
        bench.do("t", output={"n": number})
    if expected is None:
        assert bench.task("l").status == "FAILED_WITH_TERMINAL_ERROR"
        assert "cannot read property 't' of undefined" in (bench.task("l").reason or "")
        return
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.task("l").output_data == {
        **{str(number): {"t": {"n": number}} for number in range(1, expected + 1)},
        "iteration": expected,
    }


def test_python_reads_them_too(bench: Bench) -> None:
    """A condition in Python has the loop under its reference, with its rounds."""
    pytest.importorskip("pydantic_monty")
    text = "return l['1']['t']['n'] == 1 and l['iteration'] < 3"
    bench.start(flow(rounds("l", [simple("t")], loop_condition=text, evaluator_type="python")))
    for number in (1, 2, 3):
        bench.do("t", output={"n": number})
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_is_in_branches_and_cases_is_in_the_round(bench: Bench) -> None:
    """Tasks of forks and of cases that were taken are in their round; those of other cases are not."""
    condition = "$.l['1'].x.n == 1 && $.l['1'].y.n == 2 && $.l['1'].no == undefined && $.l['iteration'] < 2"
    body = [fork("f", [simple("x")], [switch("s", {"c": [simple("y")]}, [simple("no")])]), join("j", "x", "s")]
    bench.start(flow(rounds("l", body, loop_condition=condition)), {"case": "c"})
    for _ in (1, 2):
        bench.do("x", output={"n": 1})
        bench.do("y", output={"n": 2})
        bench.engine.advance("10s")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.task("l").round == 2


@pytest.mark.parametrize(
    "inner", ["$.inner['1'].x.n == 1 && $.inner.iteration < 2", "(() => $.inner[1].x.n == 1 && $.inner.iteration < 2)()"]
)
def test_in_nested_loops_each_condition_reads_its_own_rounds(bench: Bench, inner: str) -> None:
    """The inner loop's rounds are those of the present outer round; the outer condition reads through both."""
    outer = "$.l['1'].inner['2'].x.n == 2 && $.inner['2'].x.n == 2 && $.l['iteration'] < 2"
    bench.start(flow(rounds("l", [rounds("inner", [simple("x")], loop_condition=inner)], loop_condition=outer)))
    for expected in ("x__1__1", "x__1__2", "x__2__1", "x__2__2"):
        assert bench.do("x", output={"n": int(expected[-1])}).ref == expected
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_loop_with_items_reads_its_rounds(bench: Bench) -> None:
    """The condition of a loop over a list stops it early by what an earlier round has put out."""
    loop = rounds("l", [simple("t")], loop_condition="$.l['2'] == null || $.l['2'].t.n != 'b'", items="${workflow.input.all}")
    bench.start(flow(loop), {"all": ["a", "b", "c"]})
    for letter in "ab":
        bench.do("t", output={"n": letter})
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.task("l").round == 2


def test_expressions_read_a_named_round_and_the_whole_loop(bench: Bench) -> None:
    """Inputs of a round name an earlier one, or take the root of the loop; each finds the rounds."""
    inputs = {"one": "${l.output['1'].t.n}", "whole": "${l}", "number": "${l.output.iteration}", "odd": "${l.output['01'].t.n}"}
    look = WorkflowTask(name="look", task_reference_name="look", input_parameters=inputs)
    bench.start(flow(rounds("l", [simple("t"), look])))
    bench.do("t", output={"n": 7})
    first = bench.do("look").input_data
    assert (first["one"], first["number"], first["odd"]) == (7, 1, None)
    assert first["whole"]["output"]["1"]["t"] == {"n": 7}
    bench.do("t", output={"n": 8})
    second = bench.do("look").input_data
    assert second["one"] == 7
    assert [second["whole"]["output"][key]["t"]["n"] for key in "12"] == [7, 8]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("$.l.iteration < 2", {"iteration"}),
        ("$.l && $.l['iteration'] < 2; new Date()", {"iteration"}),
        ("$.l != null && $.l[2].x == 1; new Date()", {"2"}),
        ("/* $.l */ $.other; new Date()", set()),
        ("'$.l'; $.other; new Date()", set()),
        ("/[$.l/']/.test($.other); $.l.iteration; new Date()", {"iteration"}),
        ("$.l; new Date()", None),
        ("f($.l && 1); '1' in $.l && 1", None),
        ("$.l[$.n]; new Date()", None),
        ("$.l.hasOwnProperty('1'); new Date()", None),
        ("!$.l.hasOwnProperty('1'); new Date()", None),
        ("$.l['1' + '']; new Date()", None),
        ("var {iteration} = $.l; new Date()", None),
        ("var all = $; new Date()", None),
        ("eval('$.l'); new Date()", None),
        ("`${$.l}`; new Date()", None),
        ("(1) / $.l / 1; new Date()", None),
        ("i++ / $.l / 1; new Date()", None),
        ("if (1) /'/.test(''); $.l; '/'; new Date()", None),
    ],
)
def test_keys_that_a_condition_reads_below_a_name(text: str, keys: set[str] | None) -> None:
    """Only what the text names is known to be read; in doubt, it may be any."""
    compiled = JavaScript().compile(text)
    assert compiled.keys_of("l") == (None if keys is None else frozenset(keys))
    assert compiled.keys_of("absent") in (None, frozenset())


def test_keys_that_the_subset_reads() -> None:
    """A name that is only compared or tested reads none."""
    found = compile_subset("$.l != null && $.l[2].x == $.m['a'].b || $.l.iteration")
    assert found is not None
    assert found.keys == {"l": frozenset({"2", "iteration"}), "m": frozenset({"a"})}
