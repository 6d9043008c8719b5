"""What a search finds, and that it finds nothing where there is nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from designs import DESIGNS, flow, node, steps, work

from conductorlite import flow as as_flow
from conductorlite import task
from conductorlite.errors import InvalidInput
from conductorlite.testing import ExplorationFailed, Outcome, conserved, eventually, explore, never, whenever

QUICK = (
    "lost_compensation",
    "double_charge",
    "retried_step",
    "approval_after_expiry",
    "lost_signal",
    "undone_in_disorder",
    "orphan",
)
LONG = ("join_that_hangs", "starvation", "stale_data")


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in DESIGNS])
def test_planted_mistakes_are_found(name: str) -> None:
    """Each within 500 schedules, shrunk to a few choices; the schedule that is printed leads to it again."""
    design = DESIGNS[name]()
    options = {"may": design.may, "invariants": design.invariants, **design.more}
    with pytest.raises(ExplorationFailed) as failed:
        explore(design.wrong, enough=1, **options)
    (problem,) = failed.value.explored.problems
    assert problem.number <= 500
    assert len(problem.schedule) <= 6
    again = explore(design.wrong, schedule=problem.schedule, check=False, **options)
    assert [one.name for one in again.problems] == [problem.name]
    assert again.problems[0].timeline == problem.timeline


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.deep if one in LONG else pytest.mark.slow) for one in DESIGNS]
)
def test_nothing_is_found_in_the_twins(name: str) -> None:
    """The corrected definition passes the same search."""
    design = DESIGNS[name]()
    assert design.right.tasks  # and it is no empty one
    explored = explore(design.right, may=design.may, invariants=design.invariants, **{**design.more, **design.instead})
    assert explored.unreached == ()


ORDER = flow("order", steps("reserve", "charge", "ship"))


def test_a_small_scope_is_searched_whole() -> None:
    """With all that is tried, the longest time and the most calls are those of the worst course."""
    slow = flow("slow", [work("a", task={"retry_count": 2, "retry_delay_ms": 60_000}), work("b")])
    explored = explore(slow, may={"a": ["ok", "fails", "times_out"]}, others=["ok"])
    assert explored.exhausted
    # Two response timeouts of 10 s and two delays of a minute before the third attempt, which times out too.
    assert explored.longest_ms == 3 * 10_000 + 2 * 60_000
    assert explored.most_calls == 4
    assert "all there are" in str(explored)


def test_a_test_to_paste_fails_when_it_is_pasted(tmp_path: Path) -> None:
    """What is printed is code that finds the problem again."""
    explored = explore(ORDER, may={"charge": ["ok", "acts_then_crashes"]}, invariants=[never(twice)], check=False, others=["ok"])
    (problem,) = explored.problems
    assert problem.schedule == ("charge#1 acts_then_crashes",)
    assert "charge#1 acts_then_crashes   <-- out of the ordinary" in problem.timeline
    names = {"explore": explore, "order": ORDER, "INVARIANTS": [never(twice)]}
    exec(problem.test, names)
    with pytest.raises(ExplorationFailed):
        names["test_order_never_twice"]()  # type: ignore[operator]


def twice(run: object) -> bool:
    """Whether a charge has acted twice."""
    return run.acts("charge") > 1  # type: ignore[attr-defined, no-any-return]


@pytest.mark.slow
def test_the_same_seed_finds_the_same_on_every_machine() -> None:
    """Nothing hangs on the hashes of a process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_explore import ORDER\nfrom conductorlite.testing import conserved, explore\n"
        "rule = [conserved({'reserve': 1, 'charge': -1})]\n"
        "print(explore(ORDER, verbs=['terminate'], invariants=rule, seed=3, schedules=60, check=False))"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    told = {subprocess.check_output(command, env={"PYTHONHASHSEED": seed}, text=True) for seed in ("1", "2")}
    assert len(told) == 1
    assert "1 problems" in told.pop()


def test_what_can_not_be_reached_is_named() -> None:
    """A case that no output chooses is never reached; with all tried, it cannot be."""
    dead = node(
        "SWITCH", "kind", evaluator_type="value-param", expression="on", input_parameters={"on": "${quote.output.kind}"},
        decision_cases={"a": steps("one"), "b": steps("two")},
    )  # fmt: skip
    explored = explore(flow("w", [work("quote"), dead]), may={"quote": [{"kind": "a"}, {"kind": "c"}]})
    assert explored.exhausted
    assert explored.unreached == ("two",)


def test_every_rule_tells_what_is_wrong() -> None:
    """`eventually`, `whenever` with each end, `conserved` with choices."""
    rules = [
        eventually(lambda run: run.acts("ship") > 0, "it is shipped"),
        whenever("charge", "ACTED").and_run("FAILED").then("refund"),
        conserved({"charge": 1}, completed=(1, 2), failed=0),
        whenever("ship").and_run_completes().then("charge"),
    ]
    explored = explore(ORDER, may={"ship": ["ok", "fails_for_good"]}, others=["ok"], invariants=rules, check=False)
    assert {problem.name: problem.text for problem in explored.problems} == {
        "eventually: it is shipped": "it never came about",
        rules[1].name: "refund COMPLETED never came about, and the run is FAILED",
        "conserved: +1 charge": "{'charge': 1} come to 1 instead of 0 in a run that is FAILED",
    }


def test_a_status_is_that_of_the_last_attempt() -> None:
    """What failed and was tried again with success has not failed."""
    rule = whenever("ship", "FAILED").then("refund")
    assert explore(ORDER, may={"ship": ["ok", "fails"]}, others=["ok"], invariants=[rule], schedule=["ship#1 fails"]).problems == ()
    with pytest.raises(ExplorationFailed):
        explore(ORDER, may={"ship": ["ok", "fails_always"]}, others=["ok"], invariants=[rule])


@task
def greet(name: str) -> dict[str, str]:
    """Greets."""
    return {"text": name}


@as_flow
def hello(name: str) -> dict[str, str]:
    """One greeting."""
    return {"text": greet(name=name)["text"]}


def test_flows_are_searched_like_definitions() -> None:
    """With their input as arguments, and tasks by type or reference."""
    explored = explore(hello, {"name": "Ada"}, may={"greet": [{"text": "hi"}, "fails_always", "twice", "takes 5m", "unpolled"]})
    assert explored.exhausted
    assert explored.problems == ()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"may": {"charge": ["okay"]}}, "'okay'"),
        ({"may": {"charge": []}}, "what 'charge' may do"),
        ({"verbs": ["explode"]}, "there is no verb 'explode'"),
        ({"verbs": ["rerun from"]}, "there is no verb"),
        ({"signals": {"x": ["soon"]}}, "a signal to 'x'"),
        ({"executions": 0}, "needs an execution"),
        ({"schedule": ["charge#1 late"]}, "it never comes to 'charge#1 late'"),
    ],
)
def test_what_cannot_happen_is_refused(options: dict[str, object], text: str) -> None:
    """With the place and what could be meant."""
    with pytest.raises(InvalidInput, match=text):
        explore(ORDER, **options)  # type: ignore[arg-type]


def test_what_is_no_workflow_is_refused() -> None:
    """A dict is no definition."""
    with pytest.raises(InvalidInput, match="takes a flow or a definition"):
        explore({"name": "order"})


def test_what_never_comes_to_rest_is_found_too() -> None:
    """A loop that waits for no time at all: time never passes, and no worker is ever asked."""
    wait = node("WAIT", "pause", input_parameters={"duration": "0 seconds"})
    loop = node("DO_WHILE", "loop", loop_condition="true", loop_over=[wait])
    explored = explore(flow("w", [loop]), check=False)
    assert [problem.name for problem in explored.problems] == ["no end"]


def test_an_outcome_of_ones_own() -> None:
    """What the names do not cover is put together."""
    slow = Outcome(name="acts and is slow", takes_ms=1_800_000, alive=True)
    explored = explore(ORDER, may={"charge": ["ok", slow]}, others=["ok"])
    assert explored.longest_ms == 1_800_000
