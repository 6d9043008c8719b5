"""That "exhausted" is a proof: what any schedule that is run straight can break, the search finds, or it does not say exhausted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import attrs
import pytest
from designs import flow, fork, node, switch, work
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import WorkflowTask
from conductorlite.errors import InvalidInput
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.testing import Outcome, RunState, conserved, eventually, explore, in_order, never, whenever
from conductorlite.testing.exploration.cases import BEGIN, END, Case, Endless
from conductorlite.testing.exploration.invariants import Invariant
from conductorlite.testing.exploration.outcomes import outcomes_of
from conductorlite.testing.exploration.sandbox import Sandbox

HOUR = 3_600_000

#: What calls may come to, beside "ok".
OUTCOMES = ["fails", "fails_for_good", "takes 2h", "takes 1m", "late", "times_out", "twice", "unpolled", "acts_then_fails"]


@attrs.frozen
class Drawn:
    """A definition with what may happen to it, and rules."""

    tasks: Sequence[WorkflowTask]
    names: Sequence[str]
    may: dict[str, list[Any]]
    rules: Sequence[Invariant]
    signals: dict[str, Any]
    verbs: Sequence[str]


class Names:
    """Names of tasks that were not used yet."""

    def __init__(self) -> None:
        self.given: list[str] = []
        #: Those of children: a reference of their parent does not reach them.
        self.below: list[str] = []

    @property
    def within_reach(self) -> list[str]:
        """Those that an input may refer to."""
        return [name for name in self.given if name not in self.below]

    def __call__(self) -> str:
        self.given.append("abcdefghijklmnop"[len(self.given)])
        return self.given[-1]


def single(draw: Any, names: Names) -> WorkflowTask:
    """One task of a worker."""
    name = names()
    retries = draw(st.integers(0, 1))
    undone = draw(st.sampled_from([None, None, f"undo_{name}"]))
    task = {"retry_count": retries, "retry_delay_ms": 60_000, "response_timeout_ms": HOUR // 2}
    return work(name, task=task, compensate=undone, optional=draw(st.booleans()))


def piece(draw: Any, names: Names, number: int) -> list[WorkflowTask]:
    """Some tasks that stand together."""
    kind = draw(st.sampled_from(["one", "one", "fork", "long fork", "wait", "human", "child", "loop", "times", "clock", "switch"]))
    at = f"{kind.replace(' ', '_')}_{number}"
    if kind in ("fork", "long fork"):
        left, right = [single(draw, names)], [single(draw, names)]
        if kind == "long fork":
            right.append(single(draw, names))
        return fork(at, left, right, on=[left[-1].task_reference_name, right[-1].task_reference_name])
    if kind == "wait":
        return [node("WAIT", at, input_parameters={"duration": "90 minutes"})]
    if kind == "human":
        return [node("HUMAN", f"asked_{number}")]
    if kind == "child":
        task = single(draw, names)
        names.below.append(task.task_reference_name)
        below = flow(f"child_{at}", [task])
        return [node("SUB_WORKFLOW", at, sub_workflow_param=SubWorkflowParams(name=below.name, workflow_definition=below))]
    if kind == "loop":
        return [node("DO_WHILE", at, loop_condition=f"$.{at}['iteration'] < 2", loop_over=[single(draw, names)])]
    if kind == "times" and names.within_reach:
        first = names.within_reach[0]
        given = {"t": f"${{{first}.endTime}}", "s": f"${{{first}.startTime}}", "expression": "$.t - $.s > 3600000"}
        return [node("INLINE", at, input_parameters={**given, "evaluatorType": "javascript"})]
    if kind == "clock":
        given = {"expression": f"Date.now() > {BEGIN + HOUR} ? 'later' : 'now'", "evaluatorType": "javascript"}
        return [node("INLINE", at, input_parameters=given)]
    if kind == "switch" and names.within_reach:
        return [switch(at, f"${{{names.within_reach[0]}.status}}", {"COMPLETED": [single(draw, names)]}, [single(draw, names)])]
    return [single(draw, names)]


def started_before(run: RunState, one: str, other: str) -> bool:
    """Whether the first has begun after the second has ended, by the order in which they were scheduled."""
    refs = [task.base_ref for task in run.tasks]
    return one in refs and other in refs and refs.index(one) > refs.index(other)


def ended_apart(run: RunState, one: str, other: str) -> bool:
    """Whether an hour lies between their ends."""
    first, second = run.task(one), run.task(other)
    return first is not None and second is not None and first.ended_at > 0 and second.ended_at - first.ended_at > HOUR


def rule(draw: Any, names: Sequence[str]) -> Invariant:
    """Something that may hold or not."""
    one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    status, second = (draw(st.sampled_from(["SCHEDULED", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELED"])) for _ in range(2))
    choices: list[Callable[[], Invariant]] = [
        lambda: in_order(one, other),
        lambda: in_order(f"undo_{one}", f"undo_{other}"),
        lambda: never(lambda run: run.status_of(one) == status and run.status_of(other) == second, "both"),
        lambda: never(lambda run: run.acts(one) > 0 and run.acts(other) == 0, "acts alone"),
        lambda: never(lambda run: run.acts(one) > 1, "acts twice"),
        lambda: never(lambda run: ended_apart(run, one, other), "ended apart"),
        lambda: never(lambda run: run.now - BEGIN > 2 * HOUR and run.running, "takes long"),
        lambda: never(lambda run: run.running and run.status_of(one) == "COMPLETED" and run.now - BEGIN > HOUR, "late"),
        lambda: never(lambda run: started_before(run, one, other), "scheduled in this order"),
        lambda: never(lambda run: any(task.poll_count > 1 for task in run.tasks), "polled twice"),
        lambda: never(lambda run: any(task.lease > 3 for task in run.tasks), "leases"),
        lambda: conserved({one: 1, other: -1}, completed=0, failed=(0, 1)),
        lambda: whenever(one, status).then(other, second),
        lambda: whenever(one, "ACTED").and_run_fails().then(f"undo_{one}", "ACTED"),
        lambda: eventually(lambda run: run.status_of(one) == status and run.acts(other) > 0, "some time"),
        lambda: eventually(lambda run: run.status_of(one) != "FAILED" or run.order[-1:] == [other], "in the end"),
        lambda: never(lambda run: any("later" in str(task.output_data) for task in run.tasks), "says later"),
        lambda: never(lambda run: any("true" in str(task.output_data).lower() for task in run.tasks), "says true"),
        lambda: never(lambda run: "FAILED" in str(run.engine.history(run.workflow_id)) and run.status == "COMPLETED", "journal"),
    ]
    return draw(st.sampled_from(choices))()


@st.composite
def drawn(draw: Any) -> Drawn:
    """A small definition, and a few rules of which some can be broken."""
    names = Names()
    tasks = [task for number in range(draw(st.integers(1, 2))) for task in piece(draw, names, number)]
    tasks.append(single(draw, names))
    may = {name: ["ok", *draw(st.lists(st.sampled_from(OUTCOMES), max_size=2, unique=True))] for name in names.given[:3]}
    verbs = draw(st.sampled_from([[], [], ["terminate"], ["pause"], ["retry"], ["restart"]]))
    rules = [rule(draw, names.given) for _ in range(draw(st.integers(1, 2)))]
    signals = {one.task_reference_name: [{}, *draw(st.sampled_from([[], ["never"]]))] for one in tasks if one.type == "HUMAN"}
    return Drawn(tasks=tasks, names=names.given, may=may, rules=rules, signals=signals, verbs=verbs)


def at_random(case: Case, rules: Sequence[Invariant], walks: int, seed: int, steps: int) -> dict[str, list[str]]:
    """What so many schedules break when each is run straight, with choices at random and nothing taken for anything else."""
    chance = random.Random(seed)
    found: dict[str, list[str]] = {}
    box = Sandbox(case)
    with closing(box):
        started = box.snapshot()
        for _ in range(walks):
            box.restore(started)
            held: set[tuple[int, str]] = set()
            labels: list[str] = []
            for _ in range(steps):
                choices = box.choices()
                # The ordinary course half of the time, or loops of verbs would never be left.
                action = choices[0] if chance.random() < 0.4 else chance.choice(choices)
                if action is END:
                    break
                labels.append(action.label)
                try:
                    box.do(action)
                except Endless:
                    break
                for run in runs(box):
                    for at, one in enumerate(rules):
                        if one.moment(run) is not None:
                            found.setdefault(one.name, list(labels))
                        if one.remembers(run):
                            held.add((at, run.workflow_id))
            else:
                continue
            for run in runs(box):
                for at, one in enumerate(rules):
                    forgotten = one.forgotten() if (at, run.workflow_id) not in held and not run.is_begun else None
                    if one.end(run) is not None or forgotten is not None:
                        found.setdefault(one.name, list(labels))
    return found


def runs(box: Sandbox) -> list[RunState]:
    """Every execution there is."""
    return [RunState(box.engine, one, box.acts, box.reader) for one in box.engine.admin.workflow_ids()]


def holds(design: Drawn, walks: int, seed: int, schedules: int) -> bool:
    """Check one design; whether its search was exhausted."""
    definition = flow("drawn", design.tasks)
    options: dict[str, Any] = {"may": design.may, "signals": design.signals, "verbs": design.verbs, "others": ["ok"]}
    explored = explore(
        definition, invariants=design.rules, enough=10, schedules=schedules, steps=100, check=False, seed=seed, **options
    )
    if not explored.exhausted:
        assert explored.bounds
        return False
    case = Case(
        start=lambda engine, workflow_id: engine.start(definition, {}, workflow_id=workflow_id),
        definitions=(definition,),
        may={name: outcomes_of(said, name) for name, said in design.may.items()},
        others=outcomes_of(["ok"], "others"),
        signals=design.signals,
        verbs=tuple(design.verbs),
        orders=True,
    )
    broken = at_random(case, design.rules, walks, seed, 100)
    names = {problem.name for problem in explored.problems}
    missed = {name: labels for name, labels in broken.items() if name not in names}
    assert not missed, f"exhausted after {explored.schedules} schedules, and missed {missed}: {design}"
    return True


@given(design=drawn(), seed=st.integers(0, 1_000))
def test_nothing_that_schedules_break_is_missed(design: Drawn, seed: int) -> None:
    """Over drawn definitions, outcomes, verbs and rules; a few dozen schedules of each."""
    holds(design, 30, seed, 120)


@pytest.mark.deep
@given(design=drawn(), seed=st.integers(0, 1_000))
def test_nothing_that_many_schedules_break_is_missed(design: Drawn, seed: int) -> None:
    """The same with two thousand schedules."""
    holds(design, 2_000, seed, 2_000)


def take(name: str, **fields: Any) -> WorkflowTask:
    """A task that is not tried again."""
    return work(name, task={"retry_count": 0}, **fields)


def old_quote(run: RunState) -> bool:
    """Whether it was charged more than an hour after the quote."""
    quote, charge = run.task("quote"), run.task("charge")
    return charge is not None and quote is not None and charge.status == "COMPLETED" and charge.ended_at - quote.ended_at > HOUR


def test_moments_differ_in_the_order_of_undoing() -> None:
    """The order of undoing hangs on it: the lock is given up before the money is back."""
    both = fork("both", [take("lock", compensate="unlock")], [take("charge", compensate="refund")], on=["lock", "charge"])
    may = {"lock": ["ok", "takes 1m"], "ship": ["ok", "fails_for_good"]}
    explored = explore(
        flow("order", [*both, take("ship")]), may=may, others=["ok"], invariants=[in_order("refund", "unlock")], check=False
    )
    assert [problem.schedule for problem in explored.problems] == [("lock#1 takes 1m", "ship#1 fails_for_good")]


def test_moments_differ_in_instants_that_a_rule_reads() -> None:
    """Only then; and the report says which."""
    order = flow("order", [take("quote"), work("approve", task={"timeout_ms": 24 * HOUR}), take("charge")])
    options: dict[str, Any] = {"may": {"approve": ["ok", "takes 2h"]}, "others": ["ok"], "check": False}
    explored = explore(order, invariants=[never(old_quote)], **options)
    assert [problem.schedule for problem in explored.problems] == [("approve#1 takes 2h",)]
    assert "when something happened" not in explored.merged
    blind = explore(order, invariants=[never(lambda run: run.status == "FAILED")], **options)
    assert (blind.exhausted, blind.bounds, len(blind.merged)) == (True, (), 3)
    assert "when something happened" in str(blind)
    whole = explore(order, invariants=[never(lambda run: run.engine.history("run") == ())], **options)
    assert (whole.exhausted, whole.merged, whole.problems) == (True, (), ())


@pytest.mark.parametrize(
    "reads",
    [
        {"expression": "$.t - $.s > 3600000 ? 'old' : 'new'", "t": "${slow.endTime}", "s": "${slow.startTime}"},
        {"expression": f"Date.now() > {BEGIN + HOUR} ? 'old' : 'new'"},
        {"expression": "$.whole.endTime - $.whole.startTime > 3600000 ? 'old' : 'new'", "whole": "${slow}"},
    ],
    ids=["instants", "clock", "whole"],
)
def test_moments_differ_in_times_that_a_definition_reads(reads: dict[str, str]) -> None:
    """By an expression, in a script, and as part of a whole task."""
    script = node("INLINE", "age", input_parameters={"evaluatorType": "javascript", **reads})
    slow = work("slow", task={"timeout_ms": 24 * HOUR})
    rule = [never(lambda run: run.output("age").get("result") == "old", "old")]
    explored = explore(
        flow("order", [slow, take("next"), script]), may={"slow": ["ok", "takes 2h"]}, others=["ok"], invariants=rule, check=False
    )
    assert [problem.schedule for problem in explored.problems] == [("slow#1 takes 2h",)]


def test_a_task_may_be_picked_up_after_another_has_been_reported() -> None:
    """What fails beside it ends the workflow before it has acted."""
    both = flow("both", [*fork("two", [take("first")], [take("second")], on=["first", "second"])])
    rule = [whenever("second", "FAILED_WITH_TERMINAL_ERROR").then("first", "ACTED")]
    explored = explore(both, may={"second": ["ok", "fails_for_good"]}, others=["ok"], invariants=rule, check=False)
    (problem,) = explored.problems
    again = explore(
        both, may={"second": ["ok", "fails_for_good"]}, others=["ok"], invariants=rule, schedule=problem.schedule, check=False
    )
    assert [one.name for one in again.problems] == [problem.name]


def test_what_is_wrong_after_a_problem_is_found_too() -> None:
    """A rule that is broken early hides none that is broken only behind it."""
    rules = [never(lambda run: run.acts("first") > 0, "early"), never(lambda run: run.acts("second") > 0, "later")]
    explored = explore(flow("w", [take("first"), take("second")]), others=["ok"], invariants=rules, enough=3, check=False)
    assert ([problem.name for problem in explored.problems], explored.exhausted) == (["never: early", "never: later"], True)
    first = explore(flow("w", [take("first"), take("second")]), invariants=rules, check=False)
    assert ([problem.name for problem in first.problems], first.exhausted) == (["never: early"], False)
    assert "schedules after 1 problem (enough=)" in first.bounds


def test_every_bound_that_was_reached_is_named() -> None:
    """Schedules, steps and time."""
    two = flow("w", [take("first"), take("second")])
    few = explore(two, schedules=1, check=False)
    assert (few.exhausted, few.bounds) == (False, ("schedules after the first 1 (schedules=)",))
    poll = node("DO_WHILE", "poll", loop_condition="$.ask['ready'] != true", loop_over=[take("ask")])
    endless = explore(flow("w", [poll]), may={"ask": [{"ready": False}]}, steps=20, enough=2, check=False)
    assert "steps after the first 20 of a schedule (steps=)" in endless.bounds
    assert not endless.exhausted


def test_a_schedule_that_is_run_again_is_counted() -> None:
    """Its moments, its length, its calls, and what it did not come to."""
    order = flow("o", [work("first", task={"timeout_ms": 24 * HOUR}), take("second")])
    again = explore(order, may={"first": ["ok", "takes 2h"]}, others=["ok"], schedule=["first#1 takes 2h"], check=False)
    assert (again.longest_ms, again.most_calls, again.unreached, again.exhausted) == (2 * HOUR, 2, (), False)
    assert again.moments > 5
    assert "every other schedule" in str(again)


def test_a_worker_that_lives_does_not_hide_the_deadline_of_another() -> None:
    """Nor of an attempt that came after its own; and the search goes on."""
    both = fork("two", [work("first")], [work("second")], on=["first", "second"])
    may = {"first": ["ok", "takes 1m"], "second": ["ok", "times_out", "takes 2m"]}
    explored = explore(flow("w", both), may=may, others=["ok"], verbs=["restart"], schedules=60, check=False)
    assert explored.schedules == 60
    assert explored.problems == ()


def test_two_outcomes_of_one_name_are_refused() -> None:
    """A schedule names what was chosen."""
    said = [Outcome(name="done", output={"n": 1}), Outcome(name="done", output={"n": True})]
    with pytest.raises(InvalidInput, match="two outcomes of 'first' are called 'done'"):
        explore(flow("w", [take("first")]), may={"first": said})
