"""What a search finds, and that it finds nothing where there is nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from designs import DESIGNS, flow, fork, node, steps, switch, work
from hidden_designs import DESIGNS as HIDDEN
from late_designs import DESIGNS as LATE
from more_designs import DESIGNS as MORE

from conductorlite import Engine, EventHandler, TaskStatus, WorkflowDef, WorkflowTask, task
from conductorlite import flow as as_flow
from conductorlite.decide import messages
from conductorlite.decide.changeset.emissions import Emissions
from conductorlite.errors import InvalidInput
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.testing import ExplorationFailed, Outcome, RunState, conserved, eventually, explore, in_order, never, whenever

QUICK = (
    "lost_compensation",
    "double_charge",
    "retried_step",
    "approval_after_expiry",
    "unanswered",
    "undone_in_disorder",
    "orphan",
    "undone_by_failure_workflow",
    "refunded_twice",
    "waits_for_itself",
    "gave_up_but_had_it",
    "last_resort",
    "called_off_below",
)
LONG = ("join_that_hangs", "starvation", "stale_data", "stale_after_retry", "skipped_hour", "last_resort", "mailed_again")


ALL = {**DESIGNS, **MORE, **HIDDEN, **LATE}


TALKS = WorkflowDef.from_json(
    {
        "name": "talks",
        "tasks": [
            {
                "name": "p",
                "taskReferenceName": "p",
                "type": "PULL_WORKFLOW_MESSAGES",
                "inputParameters": {"topic": "x", "duration": "1 hour"},
            },
            {"name": "greet", "taskReferenceName": "greet", "taskDefinition": {"name": "greet", "retryCount": 1}},
            {"name": "e", "taskReferenceName": "e", "type": "EMIT", "inputParameters": {"value": "said"}},
        ],
    }
)


#: The laws of the engine itself.
LAWFUL = [never(lambda run: bool(run.engine.admin.check()))]


@pytest.mark.parametrize("said", [{"sends": {"x": 1}}, {"verbs": ["set_value mood"]}, {"verbs": ["emit from greet"]}], ids=str)
def test_messages_and_values_are_searched_too(said: dict[str, Any]) -> None:
    """At any moment; no law breaks, and each execution comes to its end."""
    may = {"greet": [{"text": "hi"}, "fails_always", "times_out"]}
    alone = explore(TALKS, may=may)
    more = explore(TALKS, may=may, **said)
    assert explore(TALKS, may=may, **said, invariants=LAWFUL, schedules=50).problems == ()
    assert (alone.exhausted, more.exhausted, more.problems) == (True, True, ())
    assert more.schedules > alone.schedules


@pytest.mark.parametrize(
    ("said", "plant"),
    [
        ({"sends": {"x": 1}}, (messages, "_take", lambda *_: None)),
        ({"verbs": ["emit from greet"]}, (Emissions, "settle", lambda *_: None)),
    ],
)
def test_mistakes_with_messages_and_values_are_found(
    said: dict[str, Any], plant: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that stays when it was received, and values of which nothing becomes with their attempt."""
    monkeypatch.setattr(*plant)
    with pytest.raises(ExplorationFailed, match="check"):
        explore(TALKS, may={"greet": [{"text": "hi"}]}, **said, invariants=LAWFUL)


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in ALL])
def test_planted_mistakes_are_found(name: str) -> None:
    """Each within 500 schedules, shrunk to a few choices; the schedule that is printed leads to it again."""
    design = ALL[name]()
    options = {"may": design.may, "invariants": design.invariants, **design.more}
    with pytest.raises(ExplorationFailed) as failed:
        explore(design.wrong, enough=1, **options)
    (problem,) = failed.value.explored.problems
    assert problem.number <= 500
    assert len(problem.schedule) <= 6
    again = explore(design.wrong, schedule=problem.schedule, check=False, **options)
    assert [one.name for one in again.problems] == [problem.name]
    assert again.problems[0].timeline == problem.timeline


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.deep if one in LONG else pytest.mark.slow) for one in ALL])
def test_nothing_is_found_in_the_twins(name: str) -> None:
    """The corrected definition passes the same search."""
    design = ALL[name]()
    assert name not in DESIGNS or design.right.tasks  # and it is no empty one
    options = {"may": design.may, "invariants": design.invariants, **design.more, **design.instead}
    explored = explore(design.right, **options)
    assert explored.unreached == () or name not in DESIGNS


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
    explored = explore(ORDER, may={"ship": ["ok", "fails_for_good"]}, others=["ok"], invariants=rules, check=False, enough=5)
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


def test_forks_are_searched_too() -> None:
    """A new execution from a step, at any moment, beside the old one; no law breaks, and each comes to its end."""
    alone = explore(hello, {"name": "Ada"}, may={"greet": [{"text": "hi"}, "fails_always"]})
    forked = explore(hello, {"name": "Ada"}, may={"greet": [{"text": "hi"}, "fails_always"]}, verbs=["fork from greet"])
    assert (alone.exhausted, forked.exhausted, forked.problems) == (True, True, ())
    assert forked.schedules > alone.schedules


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"may": {"charge": ["okay"]}}, "'okay'"),
        ({"may": {"charge": []}}, "what 'charge' may do"),
        ({"verbs": ["explode"]}, "there is no verb 'explode'"),
        ({"verbs": ["rerun from"]}, "there is no verb"),
        ({"signals": {"x": ["soon"]}}, "a signal to 'x'"),
        ({"executions": 0}, "needs an execution"),
        ({"signals": {"nobody": [{}]}}, "there is no task 'nobody'"),
        ({"signals": {"charge": ["after nobody"]}}, "there is no task 'nobody'"),
        ({"signals": {"charge": None}}, "a list is needed"),
        ({"verbs": ["skip nobody"]}, "there is no task 'nobody'"),
        ({"idempotent": "charge"}, "a list is needed"),
        ({"idempotent": ["chrage"]}, "there is no task 'chrage'; did you mean 'charge'"),
        ({"invariants": [whenever("chrage").then("refund")]}, "there is no task 'chrage'"),
        ({"invariants": never(lambda run: False)}, "a list is needed"),
        ({"invariants": [len]}, "invariants are made by"),
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


def asks(name: str = "approval", **fields: object) -> WorkflowTask:
    """A person is asked."""
    return node("HUMAN", name, **fields)


def test_who_is_asked_again_answers_again() -> None:
    """In each round of a loop, in each execution, and in a child: nothing waits for ever for what the search never sends."""
    again = node("DO_WHILE", "talk", loop_condition="$.talk['iteration'] < 2", loop_over=[work("ask"), asks(), work("store")])
    child = flow("child", [work("ask"), asks()])
    below = node("SUB_WORKFLOW", "below", sub_workflow_param=SubWorkflowParams(name="child", workflow_definition=child))
    for tasks, executions in (([again], 1), ([work("ask"), asks()], 2), ([below], 1)):
        signals = {"approval": [{}, "after ask"]}
        explored = explore(flow("w", tasks), signals=signals, others=["ok"], executions=executions)
        assert explored.exhausted
    with pytest.raises(ExplorationFailed, match="no signal to approval__"):
        explore(flow("w", [again]), signals={"approval": [{}, "never", "after ask"]}, others=["ok"])


def test_what_stays_as_it_is_in_every_round_is_one_choice() -> None:
    """A server that is never ready keeps a loop going for ever; no six choices say so, one does."""
    loop = node("DO_WHILE", "poll", loop_condition="$.ask['ready'] != true", loop_over=[work("ask")])
    with pytest.raises(ExplorationFailed) as failed:
        explore(flow("w", [loop]), may={"ask": [{"ready": True}, {"ready": False}]}, steps=60)
    (problem,) = failed.value.explored.problems
    assert (problem.name, problem.schedule) == ("no end", ('ask__1#1 gives {"ready":false}, ever after',))


def handles(event: str, execution: str) -> Callable[[Engine], object]:
    """A handler that ends the WAIT `paid` of an execution."""
    action = {"workflowId": execution, "taskRefName": "paid", "output": {}}
    document = {"name": "pays", "event": event, "active": True, "actions": [{"action": "complete_task", "complete_task": action}]}
    return lambda engine: engine.events.register(EventHandler.from_json(document))


def test_messages_reach_event_handlers() -> None:
    """Of the world outside, and of EVENT tasks; one that comes before anything waits for it is kept."""
    tasks, setup = [work("bill"), node("WAIT", "paid"), work("ship")], handles("bank:paid", "${execution}")
    given = {"messages": {"bank:paid": {"execution": "run"}}, "others": ["ok"], "setup": setup}
    assert explore(flow("w", tasks), **given).exhausted  # type: ignore[arg-type]
    with pytest.raises(ExplorationFailed, match="can never end") as failed:
        explore(flow("w", tasks), **{**given, "messages": {"bank:other": {"execution": "run"}}})  # type: ignore[arg-type]
    assert "setup=SETUP" in failed.value.explored.problems[0].test
    event = node("EVENT", "tells", sink="conductor:paid")
    inner = {"setup": handles("conductor:w:paid", "${workflowInstanceId}"), "others": ["ok"]}
    assert explore(flow("w", both(event, node("WAIT", "paid"))), **inner, check=False).exhausted  # type: ignore[arg-type]
    assert explore(flow("w", [event, node("WAIT", "paid")]), **inner).exhausted  # type: ignore[arg-type]


def test_a_message_comes_more_than_once_and_not_before_its_time() -> None:
    """A list of payloads, and what must be done before they come."""
    tasks, setup = [work("bill"), node("WAIT", "paid"), work("ship")], handles("bank:paid", "${execution}")
    given = {"setup": setup, "others": ["ok"]}
    payload = {"execution": "run"}
    explored = explore(flow("w", tasks), messages={"bank:paid": [payload, payload, "after bill"]}, **given)  # type: ignore[arg-type]
    assert explored.exhausted
    with pytest.raises(InvalidInput, match="a message 'bank:paid' is a payload"):
        explore(flow("w", tasks), messages={"bank:paid": ["soon"]}, **given)  # type: ignore[arg-type]


def test_values_are_sent_to_the_mailbox_of_each_execution() -> None:
    """Each once, before anything waits for it and after; time may pass first; what comes after the end is refused."""
    wait = node("PULL_WORKFLOW_MESSAGES", "paid", input_parameters={"topic": "payments", "duration": "1 day"})
    ship = switch("came", "${paid.output.count}", {"1": [work("ship")]}, [work("cancel")])
    sale = flow("sale", [work("bill"), wait, ship])
    options = {"sends": {"payments": {"amount": 3}}, "others": ["ok"], "check": False}
    rules = [never(lambda run: run.acts("cancel") > 0, "canceled"), never(lambda run: run.acts("ship") > 0, "shipped")]
    found = explore(sale, invariants=rules, enough=3, **options)  # type: ignore[arg-type]
    assert found.exhausted
    assert {one.name: one.schedule for one in found.problems} == {
        "never: shipped": (),
        "never: canceled": ("time passes to WAIT_ENDS of paid, before send payments",),
    }
    both = never(lambda run: sum(one.acts("ship") for one in run.all) > 1, "each has its own")
    found = explore(sale, invariants=[both], executions=2, **options)  # type: ignore[arg-type]
    assert [one.schedule for one in found.problems] == [()]
    assert "sends={'payments': {'amount': 3}}" in found.problems[0].test
    twice = flow("w", [work("bill"), *(attrs.evolve(wait, name=one, task_reference_name=one) for one in ("paid", "rest"))])
    sends = {"payments": [7, 7, "after bill"]}
    assert explore(twice, sends=sends, others=["ok"]).exhausted
    with pytest.raises(InvalidInput, match="there is no task 'bil'; did you mean 'bill'"):
        explore(twice, sends={"payments": [7, "after bil"]})


def test_an_output_may_hang_on_what_has_happened() -> None:
    """Stock of one: whoever asks before it was taken hears that it is there."""
    left = switch("left", "${look.output.left}", {"true": [work("think"), work("take")]})
    shop = flow("shop", [work("look"), left])

    def left_now(run: RunState) -> dict[str, bool]:
        return {"left": sum(one.acts("take") for one in run.all) == 0}

    rule = never(lambda run: sum(one.acts("take") for one in run.all) > 1, "taken twice")
    options = {"may": {"look": left_now}, "others": ["ok"], "executions": 2, "invariants": [rule], "check": False}
    (problem,) = explore(shop, **options).problems  # type: ignore[arg-type]
    assert "may=MAY" in problem.test
    assert explore(shop, **{**options, "executions": 1}).exhausted  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="an output is a dict, not 7"):
        explore(shop, may={"look": lambda run: 7})


def test_an_output_that_is_a_function_is_that_of_a_late_call_too() -> None:
    """A name that completes the task puts out what the function gives."""
    explored = explore(ORDER, may={"charge": [lambda run: {"n": run.acts("charge")}, "late"]}, others=["ok"])
    assert explored.exhausted
    text = str(explore(ORDER, may={"charge": [lambda run: {}, "late"]}, others=["ok"], schedule=["charge#1 late gives {}"]))
    assert "0 problems" in text


def test_what_an_execution_has_started_counts_with_it() -> None:
    """Its failure workflow and what it set going: nothing is asked of those alone."""
    tidy, other = flow("tidy", steps("refund")), flow("other", steps("count"))
    begin = node("START_WORKFLOW", "begin", input_parameters={"startWorkflow": {"name": "other"}})
    order = WorkflowDef(name="order", tasks=[work("charge"), begin, work("ship")], failure_workflow="tidy")
    seen: set[tuple[str, bool, int]] = set()

    def looked_at(run: RunState) -> bool:
        seen.add((run.name, run.is_begun, run.acts("count")))
        return False

    rules = [conserved({"charge": 1, "refund": -1}), conserved({"count": 1}, completed=1, failed=(0, 1)), never(looked_at)]
    explored = explore(order, may={"ship": ["ok", "fails_for_good"]}, others=["ok"], registered=[tidy, other], invariants=rules)
    assert explored.exhausted
    assert {("order", False, 1), ("other", True, 1), ("tidy", True, 0)} <= seen


def test_each_execution_must_come_to_what_must_come_about() -> None:
    """That one of two has shipped is not enough; a child need not."""
    below = flow("below", steps("ask"))
    child = node("SUB_WORKFLOW", "below", sub_workflow_param=SubWorkflowParams(name="below", workflow_definition=below))
    options = {"others": ["ok"], "executions": 2, "invariants": [eventually(lambda run: run.acts("ship") > 0, "it is shipped")]}
    assert explore(flow("w", [child, work("ship")]), **options).exhausted  # type: ignore[arg-type]
    with pytest.raises(ExplorationFailed) as failed:
        explore(flow("w", [child, work("ship")]), may={"ship": ["ok", "fails_for_good"]}, **options)  # type: ignore[arg-type]
    assert [one.schedule for one in failed.value.explored.problems] == [("ship#1 fails_for_good",)]


def test_a_second_execution_may_be_started_later() -> None:
    """While the first one waits, say."""
    rest = flow("w", [work("begin"), node("WAIT", "rest", input_parameters={"duration": "1 day"}), work("end")])
    rule = never(lambda run: len(run.all) == 1 and run.acts("end") > 0, "it ends alone")
    with pytest.raises(ExplorationFailed, match="before start of run-2"):
        explore(rest, others=["ok"], executions=2, invariants=[rule])


def test_verbs_are_used_on_children_too() -> None:
    """By the reference of the task that has begun it; what is paused goes on."""
    below = flow("below", steps("ask", "tell"))
    child = node("SUB_WORKFLOW", "below", sub_workflow_param=SubWorkflowParams(name="below", workflow_definition=below))
    order, verbs = flow("w", [work("begin"), child, work("end")]), ["terminate below", "pause below"]
    rule = never(lambda run: run.name == "below" and run.status == "TERMINATED", "it is called off")
    (problem,) = explore(order, verbs=verbs, others=["ok"], invariants=[rule], check=False).problems
    assert problem.schedule[0].startswith("terminate below, before below/")
    explored = explore(order, verbs=["pause below", "retry below"], others=["ok"])
    assert explored.exhausted
    with pytest.raises(InvalidInput, match="there is no task 'belwo'; did you mean 'below'"):
        explore(order, verbs=["terminate belwo"])


def both(first: WorkflowTask, second: WorkflowTask) -> list[WorkflowTask]:
    """Side by side."""
    return fork("both", [second], [first], on=[first.task_reference_name, second.task_reference_name])


def test_orders_count_for_a_rule_that_asks_for_them_late() -> None:
    """A predicate that looks at the order of effects only now and then: what was searched before is searched again."""
    tasks = [work("begin"), *fork("undo", [work("refund")], [work("release")], on=["refund", "release"])]
    rule = never(lambda run: run.acts("release") > 0 and run.order[-2:] == ["release", "refund"], "released before refunded")
    with pytest.raises(ExplorationFailed, match="released before refunded"):
        explore(flow("w", tasks), others=["ok"], invariants=[rule])


def test_a_status_that_there_is_not() -> None:
    """It is refused where it is written."""
    for say in (lambda: whenever("a", "DONE"), lambda: whenever("a").then("b", "DONE"), lambda: whenever("a").and_run("DONE")):
        with pytest.raises(InvalidInput, match="there is no status 'DONE'"):
            say()


def test_compensations_are_in_order_by_their_task_type() -> None:
    """As in the page's table: what undoes has a reference of its own."""
    order = flow("undone", [work("reserve", compensate="release"), work("charge", compensate="refund"), work("ship")])
    may = {"ship": ["fails_for_good"]}
    found = explore(order, may=may, others=["ok"], invariants=[in_order("release", "refund")], check=False)
    assert [problem.name for problem in found.problems] == ["in order: release, refund"]
    assert not explore(order, may=may, others=["ok"], invariants=[in_order("refund", "release")]).problems


def test_what_is_pasted_is_python() -> None:
    """Whatever the workflow is called, and with an outcome of one's own."""
    own = Outcome(name="own", status=TaskStatus.FAILED_WITH_TERMINAL_ERROR)
    for name in ("2fa", "class", "naïve order"):
        rules = [never(lambda run: run.status == "FAILED", "it fails")]
        (problem,) = explore(flow(name, [work("a")]), may={"a": ["ok", own]}, others="ok", invariants=rules, check=False).problems
        compile(problem.test, name, "exec")
        assert "status=TaskStatus.FAILED_WITH_TERMINAL_ERROR" in problem.test


ENDS = ("charge", "ship")


def test_migrations_and_new_versions_may_come_at_any_moment() -> None:
    """A step that a move passes by is never done; what START_WORKFLOW names is of the newest version then."""
    old = flow("order", steps("charge", "ship"))
    first, last = (WorkflowDef(name="order", version=2, tasks=steps(*refs)) for refs in (["check", *ENDS], [*ENDS, "check"]))

    def unchecked(run: RunState) -> bool:
        return run.workflow.version == 2 and run.status == "COMPLETED" and run.acts("check") == 0

    options = {"others": ["ok"], "invariants": [never(unchecked)]}
    with pytest.raises(ExplorationFailed) as failed:
        explore(old, migrations=[first], **options)  # type: ignore[arg-type]
    (problem,) = failed.value.explored.problems
    assert [choice.partition(",")[0] for choice in problem.schedule] == ["migrate to version 2"]
    assert "migrations=MIGRATIONS" in problem.test
    assert explore(old, migrations=[last], **options).exhausted  # type: ignore[arg-type]
    child = node("START_WORKFLOW", "below", input_parameters={"startWorkflow": {"name": "below"}})
    second = WorkflowDef(name="below", version=2, tasks=steps("tell"))
    found = explore(
        flow("w", [work("begin"), child]),
        others=["ok"],
        registered=[flow("below", steps("ask"))],
        registrations=[second],
        invariants=[never(lambda run: run.acts("tell") > 0, "tells")],
        check=False,
    )
    assert [len(one.schedule) for one in found.problems] == [1]
    assert found.problems[0].schedule[0].startswith("register below version 2, before ")
    with pytest.raises(InvalidInput, match="same name and version"):
        explore(old, migrations=[last, last])


def test_an_answer_that_comes_before_its_wait_is_no_mistake() -> None:
    """Each round asks, then works, then waits: a signal to a WAIT that the execution can still reach is kept for it."""
    waits = node("WAIT", "answer", input_parameters={})
    body = [work("ask"), work("prepare"), waits, work("store")]
    loop = node("DO_WHILE", "talk", loop_condition="$.talk['iteration'] < 2", loop_over=body)
    explored = explore(flow("interview", [work("invite"), loop]), signals={"answer": [{}, "after ask"]}, others=["ok"])
    assert explored.exhausted
    assert explored.problems == ()
