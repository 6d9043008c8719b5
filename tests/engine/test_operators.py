"""Operators: what is scheduled after what, what they put out, and how they end.

Source of the rules: Conductor's next-task navigation and its FORK_JOIN, JOIN, SWITCH, DO_WHILE, WAIT and NOOP.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from engine_kit import T0, Bench, NewBench, flow, fork, join, noop, rounds, simple, switch, wait

from conductorlite import Bounds, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import InvalidInput

NEVER_RETRIED = {"retry_count": 0}


def s(*refs: str) -> list[WorkflowTask]:
    """SIMPLE tasks of these names."""
    return [simple(ref, NEVER_RETRIED) for ref in refs]


#: Conductor's own vectors of the next task, for the types there are: a tree, what its start schedules, and, for each
#: task that then completes, what that schedules. A loop's tasks carry the round; every loop here runs twice.
VECTORS: dict[str, tuple[list[WorkflowTask], dict[str, Any], list[str], list[tuple[str, list[str]]]]] = {
    "a, b": (s("a", "b"), {}, ["a"], [("a", ["b"]), ("b", [])]),
    "a, S{c1:[b1,b2], c2:[] | d1,d2}, e takes c1": (
        [*s("a"), switch("S", {"c1": s("b1", "b2"), "c2": []}, s("d1", "d2")), *s("e")],
        {"case": "c1"},
        ["a"],
        [("a", ["S", "b1"]), ("b1", ["b2"]), ("b2", ["e"]), ("e", [])],
    ),
    "a, S{c1:[b1,b2], c2:[] | d1,d2}, e takes the empty case": (
        [*s("a"), switch("S", {"c1": s("b1", "b2"), "c2": []}, s("d1", "d2")), *s("e")],
        {"case": "c2"},
        ["a"],
        [("a", ["S", "e"]), ("e", [])],
    ),
    "a, S{c1:[b1,b2], c2:[] | d1,d2}, e takes the default": (
        [*s("a"), switch("S", {"c1": s("b1", "b2"), "c2": []}, s("d1", "d2")), *s("e")],
        {"case": "c3"},
        ["a"],
        [("a", ["S", "d1"]), ("d1", ["d2"]), ("d2", ["e"]), ("e", [])],
    ),
    "F[[a,b],[c]], j, e": (
        [fork("F", s("a", "b"), s("c")), join("j", "b", "c"), *s("e")],
        {},
        ["F", "a", "c", "j"],
        [("a", ["b"]), ("b", []), ("c", ["e"]), ("e", [])],
    ),
    "F1[[a, F2[[b],[c]], j2, d],[e]], j1, z": (
        [
            fork("F1", [*s("a"), fork("F2", s("b"), s("c")), join("j2", "b", "c"), *s("d")], s("e")),
            join("j1", "d", "e"),
            *s("z"),
        ],
        {},
        ["F1", "a", "e", "j1"],
        [("a", ["F2", "b", "c", "j2"]), ("b", []), ("c", ["d"]), ("e", []), ("d", ["z"]), ("z", [])],
    ),
    "S{c:[F[[a,a2],[b]], j]}, z": (
        [switch("S", {"c": [fork("F", s("a", "a2"), s("b")), join("j", "a2", "b")]}), *s("z")],
        {"case": "c"},
        ["S", "F", "a", "b", "j"],
        [("a", ["a2"]), ("a2", []), ("b", ["z"]), ("z", [])],
    ),
    "F[[S{c1:[a,b] | d}],[c]], j, z": (
        [fork("F", [switch("S", {"c1": s("a", "b")}, s("d"))], s("c")), join("j", "S", "c"), *s("z")],
        {"case": "c1"},
        ["F", "S", "a", "c", "j"],
        [("a", ["b"]), ("c", ["z"]), ("b", []), ("z", [])],
    ),
    "S0{c:[F[[S1{c:[a,b]}],[c2]], j, y]}, z": (
        [
            switch("S0", {"c": [fork("F", [switch("S1", {"c": s("a", "b")})], s("c2")), join("j", "S1", "c2"), *s("y")]}),
            *s("z"),
        ],
        {"case": "c"},
        ["S0", "F", "S1", "a", "c2", "j"],
        [("a", ["b"]), ("b", []), ("c2", ["y"]), ("y", ["z"]), ("z", [])],
    ),
    "F1[[F2[[S{c:[a]}],[c]], j2],[e]], j1, z": (
        [
            fork("F1", [fork("F2", [switch("S", {"c": s("a")})], s("c")), join("j2", "S", "c")], s("e")),
            join("j1", "j2", "e"),
            *s("z"),
        ],
        {"case": "c"},
        ["F1", "F2", "S", "a", "c", "j2", "e", "j1"],
        [("a", []), ("c", []), ("e", ["z"]), ("z", [])],
    ),
    "W[a, S{c1:[b] | c}, d], z": (
        [rounds("W", [*s("a"), switch("S", {"c1": s("b")}, s("c")), *s("d")]), *s("z")],
        {"case": "c1"},
        ["W", "a__1"],
        [
            ("a", ["S__1", "b__1"]),
            ("b", ["d__1"]),
            ("d", ["a__2"]),
            ("a", ["S__2", "b__2"]),
            ("b", ["d__2"]),
            ("d", ["z"]),
            ("z", []),
        ],
    ),
    "W[a, S{c1:[b1,b2]}], z without a match": (
        [rounds("W", [*s("a"), switch("S", {"c1": s("b1", "b2")})]), *s("z")],
        {"case": "other"},
        ["W", "a__1"],
        [("a", ["S__1", "a__2"]), ("a", ["S__2", "z"]), ("z", [])],
    ),
    "F[[W[a,a2]],[b]], j, z": (
        [fork("F", [rounds("W", s("a", "a2"))], s("b")), join("j", "W", "b"), *s("z")],
        {},
        ["F", "W", "b", "j", "a__1"],
        [("a", ["a2__1"]), ("a2", ["a__2"]), ("a", ["a2__2"]), ("b", []), ("a2", ["z"]), ("z", [])],
    ),
    "S{c:[W[a], y]}, z": (
        [switch("S", {"c": [rounds("W", s("a")), *s("y")]}), *s("z")],
        {"case": "c"},
        ["S", "W", "a__1"],
        [("a", ["a__2"]), ("a", ["y"]), ("y", ["z"]), ("z", [])],
    ),
    "W[F[[a],[b,b2]], j], z": (
        [rounds("W", [fork("F", s("a"), s("b", "b2")), join("j", "a", "b2")]), *s("z")],
        {},
        ["W", "F__1", "a__1", "b__1", "j__1"],
        [
            ("a", []),
            ("b", ["b2__1"]),
            ("b2", ["F__2", "a__2", "b__2", "j__2"]),
            ("b", ["b2__2"]),
            ("b2", []),
            ("a", ["z"]),
            ("z", []),
        ],
    ),
    "W[F[[S{c:[a]}],[b]], j], z": (
        [rounds("W", [fork("F", [switch("S", {"c": s("a")})], s("b")), join("j", "S", "b")], 1), *s("z")],
        {"case": "c"},
        ["W", "F__1", "S__1", "a__1", "b__1", "j__1"],
        [("b", []), ("a", ["z"]), ("z", [])],
    ),
    "W1[a, W2[b], c], z": (
        [rounds("W1", [*s("a"), rounds("W2", s("b")), *s("c")]), *s("z")],
        {},
        ["W1", "a__1"],
        [
            ("a", ["W2__1", "b__1__1"]),
            ("b", ["b__1__2"]),
            ("b", ["c__1"]),
            ("c", ["a__2"]),
            ("a", ["W2__2", "b__2__1"]),
            ("b", ["b__2__2"]),
            ("b", ["c__2"]),
            ("c", ["z"]),
            ("z", []),
        ],
    ),
    "F1[[e],[F2[[a],[b]], j2, g]], j1, z": (
        [
            fork("F1", s("e"), [fork("F2", s("a"), s("b")), join("j2", "a", "b"), *s("g")]),
            join("j1", "e", "g"),
            *s("z"),
        ],
        {},
        ["F1", "e", "F2", "a", "b", "j2", "j1"],
        [("a", []), ("b", ["g"]), ("g", []), ("e", ["z"]), ("z", [])],
    ),
    "F1[[S{c:[F2[[a],[b]], j2]}, g],[e]], j1, z": (
        [
            fork("F1", [switch("S", {"c": [fork("F2", s("a"), s("b")), join("j2", "a", "b")]}), *s("g")], s("e")),
            join("j1", "g", "e"),
            *s("z"),
        ],
        {"case": "c"},
        ["F1", "S", "F2", "a", "b", "j2", "e", "j1"],
        [("e", []), ("b", []), ("a", ["g"]), ("g", ["z"]), ("z", [])],
    ),
}


@pytest.mark.trap("core-22", "tasks-25", "tasks-32", "tasks-77")
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("vector", list(VECTORS))
def test_next_task(new_bench: NewBench, vector: str, cut: bool) -> None:
    """Each completion schedules what Conductor's would, in its order; cutting turns after two rows changes nothing."""
    tasks, given, first, steps = VECTORS[vector]
    bench = new_bench(bounds=Bounds(rows=2)) if cut else new_bench()
    bench.start(flow(*tasks), given)
    assert bench.order() == first
    for ref, following in steps:
        assert bench.after(lambda ref=ref: bench.do(ref)) == following, ref
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


# -- FORK_JOIN and JOIN --------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-12")
def test_join_output(bench: Bench) -> None:
    """A JOIN puts out what each joined task put out under its reference; tasks without output leave no key."""
    bench.start(flow(fork("f", s("a"), s("b"), s("c")), join("j", "a", "b", "c")))
    assert bench.task("f").task_type == "FORK"
    assert bench.task("j").input_data == {"joinOn": ["a", "b", "c"]}
    bench.do("c", output={"n": 3})
    bench.do("b")
    bench.do("a", output={"n": 1})
    assert bench.task("j").output_data == {"a": {"n": 1}, "c": {"n": 3}}
    # The JOIN was scheduled last, so its output is the workflow's.
    assert bench.workflow.output_data == {"a": {"n": 1}, "c": {"n": 3}}


@pytest.mark.trap("core-35")
def test_join_waits_for_retries(bench: Bench) -> None:
    """A failed attempt that is tried again is no arrival."""
    bench.start(flow(fork("f", [simple("a", {"retry_delay_s": 5})], s("b")), join("j", "a", "b")))
    bench.do("b")
    bench.do("a", "FAILED")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.at(5)
    bench.do("a", output={"n": 1})
    assert (bench.statuses()["j"], bench.task("j").output_data) == ("COMPLETED", {"a": {"n": 1}})


@pytest.mark.trap("tasks-16")
def test_join_with_an_optional_failure(bench: Bench) -> None:
    """An optional failure makes the JOIN COMPLETED_WITH_ERRORS, naming the task; the workflow completes."""
    bench.start(flow(fork("f", [simple("a", NEVER_RETRIED, optional=True)], s("b")), join("j", "a", "b"), *s("z")))
    bench.do("a", "FAILED", {"half": 1})
    bench.do("b")
    joined = bench.task("j")
    assert (joined.status, joined.output_data) == ("COMPLETED_WITH_ERRORS", {"a": {"half": 1}})
    assert joined.reason == "a completed with errors"
    assert joined.conductor_reason == f"a/{bench.task('a').task_id} completed with errors"
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-14")
def test_join_with_a_permissive_failure(bench: Bench) -> None:
    """A permissive failure lets other branches finish; then the JOIN is FAILED with its reason, the workflow too."""
    bench.start(flow(fork("f", [simple("a", NEVER_RETRIED, permissive=True)], s("b")), join("j", "a", "b"), *s("z")))
    bench.do("a", "FAILED", reason="no luck")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.do("b")
    assert (bench.task("j").status, bench.task("j").reason) == ("FAILED", "no luck")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert "z" not in bench.statuses()


@pytest.mark.trap("tasks-15")
def test_join_of_canceled_branches(bench: Bench) -> None:
    """When every weighty failure is a cancellation the JOIN is CANCELED and the workflow TERMINATED."""
    bench.start(flow(fork("f", [simple("a", NEVER_RETRIED, permissive=True)], s("b")), join("j", "a", "b")))
    bench.do("a", "CANCELED")
    bench.do("b")
    assert bench.task("j").status == "CANCELED"
    assert bench.status_of_workflow() is WorkflowStatus.TERMINATED


@pytest.mark.trap("tasks-14")
def test_failure_in_a_branch(bench: Bench) -> None:
    """A branch that fails for good ends the workflow at once: the other branch and the JOIN are CANCELED."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "b")))
    bench.do("a", "FAILED")
    assert bench.statuses() == {"f": "COMPLETED", "a": "FAILED", "b": "CANCELED", "j": "CANCELED"}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.workflow.failed_refs == ("a",)


@pytest.mark.trap("core-22")
def test_join_on_some(bench: Bench) -> None:
    """A JOIN waits for what it lists, once each; a branch it does not list goes on beside what follows."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "a"), *s("z")))
    assert bench.after(lambda: bench.do("a")) == ["z"]
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_join_that_is_behind_no_fork(bench: Bench) -> None:
    """A JOIN elsewhere waits for what it lists, and ends at once when all of that has ended."""
    bench.start(flow(*s("a"), *s("b"), join("j", "a", "b"), *s("z")))
    bench.do("a", output={"n": 1})
    assert bench.after(lambda: bench.do("b", output={"n": 2})) == ["j", "z"]
    assert bench.task("j").output_data == {"a": {"n": 1}, "b": {"n": 2}}


def test_second_join_on_a_slow_branch(bench: Bench) -> None:
    """A later JOIN waits for a branch that the fork's own JOIN let go on."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a"), join("k", "b", "j"), *s("z")))
    assert bench.after(lambda: bench.do("a", output={"n": 1})) == ["k"]
    assert bench.after(lambda: bench.do("b", output={"n": 2})) == ["z"]
    assert bench.task("k").output_data == {"b": {"n": 2}, "j": {"a": {"n": 1}}}


@pytest.mark.trap("tasks-11")
def test_join_in_a_loop(bench: Bench) -> None:
    """A JOIN in a loop joins the tasks of its own round, and puts out their printed references."""
    bench.start(flow(rounds("l", [fork("f", s("a"), s("b")), join("j", "a", "b")])))
    for number in (1, 2):
        bench.do("a", output={"n": number})
        bench.do("b")
        assert bench.task(f"j__{number}").output_data == {f"a__{number}": {"n": number}}
    assert bench.task("l").output_data == {
        "1": {"f": {}, "a": {"n": 1}, "b": {}, "j": {"a__1": {"n": 1}}},
        "2": {"f": {}, "a": {"n": 2}, "b": {}, "j": {"a__2": {"n": 2}}},
        "iteration": 2,
    }


def test_wide_fork_over_several_turns(new_bench: NewBench) -> None:
    """A fork wider than one turn may make rows is split over turns and joins all the same."""
    bench = new_bench(bounds=Bounds(rows=7))
    refs = [f"n{number}" for number in range(40)]
    bench.start(flow(fork("f", *[[noop(ref)] for ref in refs]), join("j", *refs), *s("z")))
    bench.engine.settle()
    assert bench.order() == ["f", *refs, "j", "z"]


# -- SWITCH --------------------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-22", "tasks-25", "tasks-77")
@pytest.mark.parametrize(
    ("value", "case", "following"),
    [
        ("x", "x", "a"),
        ("y", "y", "z"),
        ("other", "other", "d"),
        (None, "null", "n"),
        (True, "true", "t"),
        (1, "1", "one"),
        ("X", "X", "d"),
        ("", "", "d"),
    ],
)
def test_switch(bench: Bench, value: object, case: str, following: str) -> None:
    """The value is compared as text; an empty case selects nothing; the default is for values without a case."""
    cases = {"x": s("a"), "y": [], "null": s("n"), "true": s("t"), "1": s("one")}
    bench.start(flow(switch("S", cases, s("d")), *s("z")), {"case": value})
    assert bench.order() == ["S", following]
    task = bench.task("S")
    assert task.output_data == {"evaluationResult": [case], "selectedCase": case}
    assert task.input_data["case"] == case
    assert ("hasChildren" in task.input_data) == (following != "z")


@pytest.mark.trap("tasks-23")
def test_switch_on_a_missing_value(bench: Bench) -> None:
    """A parameter that is not given at all is the text `null`."""
    bench.start(flow(switch("S", {"null": s("n")}, s("d"), input_parameters={}), *s("z")))
    assert bench.order() == ["S", "n"]


@pytest.mark.parametrize(
    ("expression", "following"),
    [("$.case > 5 ? 'x' : 'y'", "a"), ("$.case == 5", "d"), ("$.case", "seven"), ("'y'", "z")],
)
def test_switch_with_a_script(bench: Bench, expression: str, following: str) -> None:
    """The safe evaluator takes conditions as they are written for JavaScript; the result is compared as text."""
    cases = {"x": s("a"), "y": [], "7": s("seven")}
    task = switch("S", cases, s("d"), evaluator_type="javascript", expression=expression)
    bench.start(flow(task, *s("z")), {"case": 7})
    assert bench.order() == ["S", following]


def test_switch_with_a_failing_script(bench: Bench) -> None:
    """An expression that fails fails its task, which is never tried again: the workflow is FAILED, naming it."""
    task = switch("S", {"x": s("a")}, evaluator_type="javascript", expression="$.nothing.deeper == 1")
    bench.start(flow(task, *s("z")), {"case": 7})
    assert bench.statuses() == {"S": "FAILED"}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert "nothing" in (bench.workflow.reason or "")


@pytest.mark.trap("tasks-24")
def test_optional_switch_with_a_failing_script(bench: Bench) -> None:
    """An optional SWITCH whose expression fails is passed over."""
    task = switch("S", {"x": s("a")}, evaluator_type="javascript", expression="$.nothing.deeper == 1", optional=True)
    bench.start(flow(task, *s("z")))
    assert bench.statuses() == {"S": "COMPLETED_WITH_ERRORS", "z": "SCHEDULED"}


# -- DO_WHILE ------------------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-29")
def test_loop_runs_at_least_once(bench: Bench) -> None:
    """The condition is asked after the round; a condition that is not positive ends the loop."""
    bench.start(flow(rounds("l", s("a"), loop_condition="false"), *s("z")))
    assert bench.after(lambda: bench.do("a", output={"n": 1})) == ["z"]
    assert bench.task("l").output_data == {"1": {"a": {"n": 1}}, "iteration": 1}


@pytest.mark.trap("tasks-28", "tasks-30")
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("$.l['iteration'] < 3", 3),
        ("if ($.l['iteration'] < $.most) { true; } else { false; }", 4),
        ("$.a['again']", 2),
        ("$.l.iteration < 3 && $.a.again == true", 2),
        ("3 - $.l['iteration']", 3),
        ("'text'", 1),
    ],
)
def test_loop_conditions(bench: Bench, condition: str, count: int) -> None:
    """The condition sees fresh inputs, the loop's output and each task's newest; a number means above zero."""
    loop = rounds("l", s("a"), loop_condition=condition, input_parameters={"most": "${workflow.input.most}"})
    bench.start(flow(loop), {"most": 4})
    done = 0
    while bench.status_of_workflow() is WorkflowStatus.RUNNING:
        done += 1
        bench.do("a", output={"again": done < 2})
    assert done == count
    assert bench.task("l").output_data["iteration"] == count


def test_loop_with_a_failing_condition(bench: Bench) -> None:
    """A condition that fails fails the loop for good, with the condition and the cause in the reason."""
    bench.start(flow(rounds("l", s("a"), loop_condition="$.nothing.deeper > 1")))
    bench.do("a", output={"n": 1})
    task = bench.task("l")
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "$.nothing.deeper > 1" in (task.reason or "")
    assert task.output_data == {"1": {"a": {"n": 1}}, "iteration": 1}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("tasks-33")
def test_loop_over_items(bench: Bench) -> None:
    """A loop over a list gives each round its item and index, to the body, and to itself."""
    body = simple("a", NEVER_RETRIED, input_parameters={"item": "${l.output.loopItem}", "n": "${l.output.loopIndex}",
                                                        "round": "${l.output.iteration}"})  # fmt: skip
    bench.start(flow(rounds("l", [body], items="${workflow.input.list}", loop_condition="")), {"list": ["x", {"y": 1}]})
    assert bench.do("a").input_data == {"item": "x", "n": 0, "round": 1}
    assert bench.do("a").input_data == {"item": {"y": 1}, "n": 1, "round": 2}
    output = bench.task("l").output_data
    assert output == {"1": {"a": {}}, "2": {"a": {}}, "iteration": 2, "loopIndex": 1, "loopItem": {"y": 1}}
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-36")
@pytest.mark.parametrize(("value", "count"), [([], 0), (None, 0), ("one", 1), ({"k": 1}, 1), ([None], 1), ([1, 2, 3], 3)])
def test_items(bench: Bench, value: object, count: int) -> None:
    """A list gives its length, null none, anything else one round; an empty loop puts out iteration 0."""
    bench.start(flow(rounds("l", [noop("n")], items="${workflow.input.list}", loop_condition=""), *s("z")), {"list": value})
    assert bench.task("l").output_data["iteration"] == count
    assert bench.statuses()["z"] == "SCHEDULED"


def test_items_with_a_condition(bench: Bench) -> None:
    """With a condition the list ends early when it does not hold; it sees the item."""
    loop = rounds("l", s("a"), items="${workflow.input.list}", loop_condition="$.loopItem < 2")
    bench.start(flow(loop), {"list": [1, 2, 3]})
    bench.do("a")
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.task("l").output_data["iteration"] == 2


def test_items_of_input_parameters(bench: Bench) -> None:
    """The list may also be given as `_items` among the inputParameters."""
    loop = rounds("l", [noop("n")], loop_condition="", input_parameters={"_items": "${workflow.input.list}"})
    bench.start(flow(loop), {"list": [1, 2]})
    assert bench.task("l").output_data["iteration"] == 2


@pytest.mark.trap("core-34", "tasks-32")
def test_nested_loops(bench: Bench) -> None:
    """Nested loops print both rounds, and each loop puts out its own rounds."""
    bench.start(flow(rounds("l", [rounds("inner", s("x"))])))
    for expected in ("x__1__1", "x__1__2", "x__2__1", "x__2__2"):
        assert bench.do("x", output={"at": expected}).ref == expected
    assert bench.order() == ["l", "inner__1", "x__1__1", "x__1__2", "inner__2", "x__2__1", "x__2__2"]
    inner = {"1": {"x": {"at": "x__2__1"}}, "2": {"x": {"at": "x__2__2"}}, "iteration": 2}
    assert bench.task("inner__2").output_data == inner
    assert bench.task("l").output_data["2"] == {"inner": inner}
    assert bench.task("x__2__1").iteration == 1
    assert bench.task("l").iteration == 2


@pytest.mark.trap("tasks-28")
def test_newest_round_is_seen(bench: Bench) -> None:
    """Inside and after a loop a task's own name means its newest round."""
    bench.start(
        flow(
            rounds("l", [*s("a"), simple("b", NEVER_RETRIED, input_parameters={"n": "${a.output.n}"})]),
            simple("z", NEVER_RETRIED, input_parameters={"n": "${a.output.n}", "first": "${l.output['1'].a.n}"}),
        )
    )
    for number in (1, 2):
        bench.do("a", output={"n": number})
        assert bench.do("b").input_data == {"n": number}
    assert bench.do("z").input_data == {"n": 2, "first": 1}


def test_permissive_failure_in_a_loop(bench: Bench) -> None:
    """A permissive task that fails lets its round finish; then the loop is FAILED with its reason."""
    bench.start(flow(rounds("l", [simple("a", NEVER_RETRIED, permissive=True), *s("b")], 5)))
    bench.do("a", "FAILED", reason="no luck")
    bench.do("b")
    assert (bench.task("l").status, bench.task("l").reason) == ("FAILED", "no luck")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("tasks-35")
def test_failure_in_a_loop(bench: Bench) -> None:
    """A task that fails for good in a loop ends the workflow; the loop is CANCELED."""
    bench.start(flow(rounds("l", s("a"))))
    bench.do("a", "FAILED")
    assert bench.statuses() == {"l": "CANCELED", "a__1": "FAILED"}


@pytest.mark.trap("core-32", "tasks-37")
def test_long_loop_of_pure_operators(new_bench: NewBench) -> None:
    """A loop that never waits for anybody runs over many turns, one round after another."""
    bench = new_bench(bounds=Bounds(steps=50))
    bench.start(flow(rounds("l", [noop("n"), switch("S", {"x": [noop("m")]})], 60), *s("z")), {"case": "x"})
    bench.engine.settle()
    assert bench.statuses()["z"] == "SCHEDULED"
    assert sum(line.startswith("0 l round") for line in bench.journal()) == 60


# -- WAIT and NOOP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("duration", "seconds"), [("5s", 5), ("1 day 2 hours", 93_600), ("2m 10s", 130)])
def test_wait_for_a_duration(bench: Bench, duration: str, seconds: int) -> None:
    """A WAIT ends exactly when its duration has passed, without output."""
    bench.start(flow(wait("w", duration=duration), *s("z")))
    bench.at(seconds - 0.001)
    assert bench.statuses() == {"w": "IN_PROGRESS"}
    bench.at(seconds)
    assert bench.statuses() == {"w": "COMPLETED", "z": "SCHEDULED"}
    assert bench.task("w").output_data == {}


def test_wait_until(bench: Bench) -> None:
    """A WAIT until an instant ends there."""
    instant = (T0 // 60_000 + 10) * 60_000
    text = datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    bench.start(flow(wait("w", until="${workflow.input.until}")), {"until": text})
    bench.engine.advance(to=instant - 1)
    assert bench.statuses() == {"w": "IN_PROGRESS"}
    bench.engine.advance(to=instant)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_wait_until_the_past(bench: Bench) -> None:
    """An instant that has passed is no wait."""
    bench.start(flow(wait("w", until="2001-01-01 00:00"), *s("z")))
    bench.engine.settle()
    assert bench.statuses() == {"w": "COMPLETED", "z": "SCHEDULED"}
    assert bench.journal()[2] == "0 w COMPLETED"


def test_wait_for_a_report(bench: Bench) -> None:
    """Without duration and until a WAIT waits until somebody ends it."""
    bench.start(flow(wait("w")))
    bench.at(10_000_000)
    assert bench.statuses() == {"w": "IN_PROGRESS"}
    bench.report(bench.task("w"), output={"go": True}, lease=False)
    assert bench.workflow.output_data == {"go": True}


@pytest.mark.trap("tasks-54")
@pytest.mark.parametrize(
    "inputs",
    [{"duration": "soon"}, {"until": "tomorrow"}, {"duration": 5}, {"duration": {"seconds": 5}}],
)
def test_bad_wait(bench: Bench, inputs: dict[str, Any]) -> None:
    """A WAIT that cannot be read at run time fails for good, with its text in the reason."""
    given = {key: f"${{workflow.input.{key}}}" for key in inputs}
    bench.start(flow(wait("w", **given)), inputs)
    assert bench.statuses() == {"w": "FAILED_WITH_TERMINAL_ERROR"}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    named = {"soon": "soon", "tomorrow": "tomorrow", "5": "5", "{'seconds': 5}": "seconds"}[str(next(iter(inputs.values())))]
    assert named in (bench.task("w").reason or "")


@pytest.mark.trap("core-29")
def test_noop(bench: Bench) -> None:
    """NOOPs are over at once; a workflow of nothing else completes with its start."""
    bench.start(flow(noop("a"), noop("b")))
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 a COMPLETED",
        "0 b COMPLETED",
        "0 workflow COMPLETED",
    ]


# -- starts, inputs, outputs ---------------------------------------------------------------------------------


def test_start_delay(bench: Bench) -> None:
    """startDelay hides the first attempt that long, and no retry."""
    bench.start(flow(simple("t", {"retry_delay_s": 2}, start_delay_ms=10_000)))
    bench.at(9.999)
    assert bench.poll("t") is None
    bench.at(10)
    bench.do("t", "FAILED")
    bench.at(12)
    bench.do("t")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("how", [{"delay": "90s"}, {"at": T0 + 90_000}, {"delay": timedelta(seconds=90)}])
def test_delayed_start(bench: Bench, how: dict[str, Any]) -> None:
    """A start with `at` or `delay` is RUNNING at once, and schedules its first task at that instant."""
    bench.start(flow(*s("t")), **how)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(89.999)
    assert bench.statuses() == {}
    bench.at(90)
    assert bench.journal() == ["0 workflow RUNNING", "90 t SCHEDULED"]
    assert (bench.workflow.created_at, bench.workflow.started_at) == (T0, T0 + 90_000)


def test_start_at_the_past(bench: Bench) -> None:
    """An instant that has passed starts at once."""
    bench.start(flow(*s("t")), at=T0 - 1)
    assert bench.statuses() == {"t": "SCHEDULED"}


@pytest.mark.trap("core-30")
def test_bad_starts(bench: Bench) -> None:
    """Both `at` and `delay`, a priority out of range and an unreadable instant are refused; nothing is stored."""
    for options in ({"at": T0, "delay": 1}, {"priority": 100}, {"priority": -1}, {"at": "soon"}, {"delay": -5}):
        with pytest.raises(InvalidInput):
            bench.engine.start(flow(*s("t")), **options)
    assert list(bench.engine.admin.workflow_ids()) == []


def test_empty_definition_is_refused(bench: Bench) -> None:
    """What cannot be a workflow is refused before anything is stored."""
    with pytest.raises(Exception, match="tasks"):
        bench.engine.start(WorkflowDef(name="empty"))
    assert list(bench.engine.admin.workflow_ids()) == []


def test_output_parameters(bench: Bench) -> None:
    """outputParameters are resolved at the end; what is missing is null."""
    output = {"n": "${a.output.n}", "all": "${a.output}", "missing": "${b.output.n}", "id": "${workflow.workflowId}"}
    bench.start(flow(*s("a"), output_parameters=output))
    bench.do("a", output={"n": 1})
    assert bench.workflow.output_data == {"n": 1, "all": {"n": 1}, "missing": None, "id": "w1"}


def test_output_parameters_of_a_failed_workflow(bench: Bench) -> None:
    """A failed workflow resolves them as well, with what there is."""
    bench.start(flow(*s("a", "b"), output_parameters={"a": "${a.output.n}", "b": "${b.output.n}", "why": "${b.status}"}))
    bench.do("a", output={"n": 1})
    bench.do("b", "FAILED")
    assert bench.workflow.output_data == {"a": 1, "b": None, "why": "FAILED"}


@pytest.mark.trap("core-24")
def test_output_of_the_task_scheduled_last(bench: Bench) -> None:
    """Without outputParameters it is the output of the task scheduled, not ended, last."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a"), *s("z")))
    bench.do("a")
    bench.do("z", output={"from": "z"})
    bench.do("b", output={"from": "b"})
    assert bench.workflow.output_data == {"from": "z"}


def test_input_template(bench: Bench) -> None:
    """The workflow's inputTemplate fills in what the input does not give."""
    inputs = {"x": "${workflow.input.x}", "y": "${workflow.input.y}"}
    definition = flow(simple("t", NEVER_RETRIED, input_parameters=inputs), input_template={"x": 1, "y": 2})
    bench.start(definition, {"y": 3})
    assert bench.workflow.input_data == {"x": 1, "y": 3}
    assert bench.take("t").input_data == {"x": 1, "y": 3}


def test_variables(bench: Bench) -> None:
    """The definition's variables are there from the start."""
    task = simple("t", NEVER_RETRIED, input_parameters={"v": "${workflow.variables.v}", "all": "${workflow.variables}"})
    bench.start(flow(task, variables={"v": [1]}))
    assert bench.take("t").input_data == {"v": [1], "all": {"v": [1]}}
    assert bench.workflow.variables.fresh() == {"v": [1]}


@pytest.mark.trap("tasks-60")
def test_task_id_and_what_is_known_of_the_workflow(bench: Bench) -> None:
    """`${CPEWF_TASK_ID}` is the attempt's id; the workflow tells its id, name, version, status and correlation."""
    wanted = ("workflowId", "workflowType", "version", "status", "correlationId", "parentWorkflowId")
    inputs = {"id": "${CPEWF_TASK_ID}", **{key: f"${{workflow.{key}}}" for key in wanted}}
    bench.start(flow(simple("t", NEVER_RETRIED, input_parameters=inputs), name="mine", version=7), correlation_id="c1")
    task = bench.take("t")
    values = ("w1", "mine", 7, "RUNNING", "c1", None)
    assert task.input_data == {"id": task.task_id, **dict(zip(wanted, values, strict=True))}


@pytest.mark.trap("tasks-59")
def test_environment(new_bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names resolve to what the engine was given; nothing of the process environment ever does."""
    monkeypatch.setenv("LEAK", "secret")
    bench = new_bench(environment={"REGION": "eu"})
    inputs = {
        "region": "${REGION}",
        "env": "${workflow.env.REGION}",
        "leak": "${LEAK}",
        "leak2": "${workflow.env.LEAK}",
    }
    bench.start(flow(simple("t", NEVER_RETRIED, input_parameters=inputs)))
    given = bench.take("t").input_data
    assert (given["region"], given["env"]) == ("eu", "eu")
    assert "secret" not in str(given)


def test_other_types_are_workers_tasks(bench: Bench) -> None:
    """A type nobody built in is queued under its own name."""
    bench.start(flow(WorkflowTask(name="anything", task_reference_name="t", type="MY_TYPE")))
    assert bench.take("MY_TYPE").name == "anything"


def test_ids_are_derived(new_bench: NewBench) -> None:
    """The same execution has the same task ids on every store; another seed gives others."""

    def ids(seed: str) -> list[str]:
        bench = new_bench(seed=seed)
        bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "b")))
        return [task.task_id for task in bench.workflow.tasks]

    once = ids("s")
    assert once == ids("s")
    assert not set(once) & set(ids("other"))
    assert len(set(once)) == 4


@pytest.mark.parametrize(
    "task", [noop("n"), switch("n", {"y": [noop("y")]}, value="x"), wait("n", duration="${workflow.input.no} words")]
)
def test_what_ends_at_once_ends_at_its_instant(bench: Bench, task: WorkflowTask) -> None:
    """Well or not: its times are those of its scheduling."""
    bench.at(7)
    bench.start(flow(task))
    row = bench.task("n")
    assert (row.scheduled_at, row.started_at, row.ended_at, row.updated_at) == (T0 + 7_000,) * 4


def test_what_is_not_begun_has_no_times(bench: Bench) -> None:
    """Neither when it began nor when it ended."""
    bench.start(flow(simple("a")))
    row = bench.task("a")
    assert (row.scheduled_at, row.started_at, row.ended_at, row.lease, row.poll_count) == (T0, 0, 0, 0, 0)
