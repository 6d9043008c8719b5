"""Flows at run time: arguments are checked at the start, answers where they are sent, and a result has its type after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus, WorkflowTask, flow, task
from conductorlite.errors import AlreadyExists, InvalidInput
from conductorlite.flows import attempt, human, repeat


@dataclass
class Decision:
    """Of a person."""

    approved: bool
    note: str = ""


@dataclass
class Line:
    """Of an order."""

    sku: str
    count: int = 1


@task(retry=0)
def ship(lines: list[Line], days: int = 3) -> timedelta:
    """Takes long."""
    return timedelta(days=days * len(lines))


@flow
def order(lines: list[Line], days: int = 3) -> timedelta:
    """Its arguments are typed."""
    return ship(lines, days)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"lines": 5}, "flow 'order': lines: expected a list, got 5"),
    ({"lines": [{"sku": "a", "count": "2"}]}, "flow 'order': lines[0].count: expected int, got \"2\""),
    ({"lines": [Line("a"), {}]}, "flow 'order': lines[1].sku: is missing"),
    ({"lines": [], "days": "3"}, "flow 'order': days: expected int, got \"3\""),
    ({"lines": [Line(5)], "days": 1.5}, "flow 'order': lines[0].sku: expected str, got 5; days: expected int, got 1.5"),  # type: ignore[arg-type]
    ({"lines": None}, "flow 'order': lines: expected a list, got null"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said for _, said in WRONG])
def test_wrong_arguments_are_refused_before_anything_is_stored(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    """However the flow is started."""
    with Engine(tmp_path / "store.db", workers=[order], clock=VirtualClock(0)) as engine:
        starts: list[Callable[[], object]] = [
            lambda: engine.start(order, **given),
            lambda: engine.start_and_wait(order, **given),
            lambda: engine.start("order", given),
            lambda: engine.start(order.definition, given),
            lambda: engine.start_many("order", [given]),
        ]
        for start in starts:
            with pytest.raises(InvalidInput) as refused:
                start()
            assert str(refused.value).removeprefix("inputs[0]: ") == said
        with pytest.raises(InvalidInput, match="lines: is missing"):
            engine.start("order", {"days": 1})
        assert engine.search().total_hits == 0
        assert engine.start("order", {"lines": [], "days": None, "more": 1}).result() == {"result": "PT0S"}


def test_another_definition_of_the_name_takes_what_it_takes() -> None:
    """Only a flow's own definition is read by its annotations."""
    other = WorkflowDef(name="order", version=2, tasks=[WorkflowTask(name="ship", task_reference_name="s")])
    with Engine(workers=[order], clock=VirtualClock(0)) as engine:
        assert engine.start(other, {"lines": 5}).status is WorkflowStatus.RUNNING
        same = WorkflowDef(name="order", version=1, tasks=[WorkflowTask(name="ship", task_reference_name="other")])
        assert engine.start(same, {"lines": 5}).status is WorkflowStatus.RUNNING


def test_a_start_takes_what_workers_may_return() -> None:
    """In the same form, by every verb that takes a value."""
    echo = WorkflowDef(
        name="echo",
        tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")],
        output_parameters={"given": "${workflow.input.given}", "said": "${w.output.said}"},
    )
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(echo, {"given": [Decimal("1.10"), {1, 2}, Line("a"), float("nan")]})
        engine.run_until_idle()
        run.signal({"said": timedelta(seconds=5)})
        assert run.result() == {"given": ["1.10", [1, 2], {"sku": "a", "count": 1}, "NaN"], "said": "PT5S"}


def test_a_resumed_run_is_read_as_a_fresh_one(tmp_path: Path) -> None:
    """By its flow, or by the one among the workers; also of an engine that was given none, and of a step that is a flow."""

    @flow
    def outer(lines: list[Line]) -> dict[str, timedelta]:
        return {"took": order(lines)}

    with Engine(tmp_path / "store.db", clock=VirtualClock(0)) as engine:
        engine.start(order.options(workflow_id="one"), [Line("a"), Line("b")])
        engine.start(outer.options(workflow_id="two"), [Line("a")])
    with Engine(tmp_path / "store.db", workers=[order], clock=VirtualClock(0)) as engine:
        assert engine.run("one").result() == timedelta(days=6)
    with Engine(tmp_path / "store.db", clock=VirtualClock(0)) as engine:
        assert engine.run("one").result() == {"result": "P6D"}
        assert engine.run(order, "one").result() == timedelta(days=6)
        assert engine.run(outer, "two").result() == {"took": timedelta(days=3)}
        child = engine.run("two").workflow.tasks[0].sub_workflow_id or ""
        assert engine.run(order, child).result() == timedelta(days=3)
        with pytest.raises(InvalidInput, match="two is an execution of 'outer', and not of the flow 'order'"):
            engine.run(order, "two")
        with pytest.raises(InvalidInput, match=r"run\(\) takes a flow and an execution's id, or the id alone"):
            engine.run("order", "one")  # type: ignore[call-overload]


ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({}, "output.approved: is missing"),
    ({"aproved": True}, "output.approved: is missing; output.aproved: there is no such field; did you mean 'approved'?"),
    ({"approved": "true"}, 'output.approved: expected bool, got "true"'),
    ({"approved": 1}, "output.approved: expected bool, got 1"),
    ({"approved": True, "nte": "x"}, "output.nte: there is no such field; did you mean 'note'?"),
    ({"approved": None, "note": 5}, "output.approved: expected bool, got null; output.note: expected str, got 5"),
]


@flow
def ask() -> Decision:
    """At the top."""
    return human("ok", Decision)


@flow
def ask_within() -> None:
    """In an attempt, in a loop."""
    with attempt() as tried, repeat(1):
        human("ok", Decision)
    with tried.failed:
        ship([])


@flow
def ask_below() -> Decision:
    """In another flow; its own step of that name asks for something else."""
    human("first", bool)
    return ask()


@pytest.mark.parametrize("asking", [ask, ask_within, ask_below], ids=repr)
@pytest.mark.parametrize(("answer", "said"), ANSWERS, ids=[said for _, said in ANSWERS])
def test_an_answer_that_does_not_fit_is_refused_where_it_is_sent(asking: Any, answer: dict[str, Any], said: str) -> None:
    """By `signal` and by a report; the step goes on waiting, and takes the right one."""
    with Engine(workers=[asking], clock=VirtualClock(0)) as engine:
        run = engine.start(asking)
        engine.run_until_idle()
        if asking is ask_below:
            with pytest.raises(InvalidInput, match=r"output\.result: is missing; output\.approved: is not looked at"):
                run.signal({"approved": True})
            run.signal({"result": True})
            engine.run_until_idle()
        with pytest.raises(InvalidInput) as refused:
            run.signal(answer)
        assert str(refused.value).endswith(f"still waits, as this is not an answer to it: {said}")
        inner = run.workflow.tasks[-1].sub_workflow_id or run.workflow_id
        waiting = engine.get(inner).tasks[-1]
        report = TaskResult(workflow_id=inner, task_id=waiting.task_id, status=TaskStatus.COMPLETED, output_data=answer)
        with pytest.raises(InvalidInput, match="is not an answer to it"):
            engine.update_task(report)
        assert engine.get(inner).tasks[-1].status is TaskStatus.IN_PROGRESS
        run.signal({"approved": True})
        engine.run_until_idle()
        assert run.status is WorkflowStatus.COMPLETED


def test_an_answer_that_comes_early_is_checked_too() -> None:
    """Before the step has begun."""

    @task(retry=0)
    def first() -> None:
        """Takes its time."""

    @flow
    def later() -> Decision:
        first()
        return human("ok", Decision)

    with Engine(workers=[later], clock=VirtualClock(0)) as engine:
        run = engine.start(later)
        with pytest.raises(InvalidInput, match=r"output\.aproved: there is no such field"):
            run.signal({"aproved": True}, task="ok")
        run.signal({"approved": True}, task="ok")
        assert run.result() == Decision(approved=True)


def test_a_task_alone_is_checked_before_anything_is_stored() -> None:
    """One, and one of several rows."""
    with Engine(clock=VirtualClock(0)) as engine:
        with pytest.raises(InvalidInput, match=r"task 'ship': lines\[0\].sku: is missing; days: expected int, got \"x\""):
            engine.run_task(ship, lines=[{}], days="x")
        with pytest.raises(InvalidInput, match=r"task 'ship': rows\[1\]: days: expected int, got \"x\""):
            ship.map(engine, [{"lines": []}, {"lines": [], "days": "x"}])
        assert engine.search().total_hits == 0
        assert engine.run_task(ship, lines=[Line("a")]).result() == timedelta(days=3)


def test_what_was_noted_before_belongs_to_the_answer() -> None:
    """A note that a client has made on the step is a part of what completes it."""
    with Engine(workers=[ask], clock=VirtualClock(0)) as engine:
        run = engine.start(ask)
        engine.run_until_idle()
        engine.signal(run.workflow_id, {"approved": True}, status=TaskStatus.IN_PROGRESS)
        engine.signal(run.workflow_id, {"note": "yes"})
        assert run.result() == Decision(approved=True, note="yes")


def test_a_map_is_returned_whole() -> None:
    """Its keys are known when it runs; in another flow it is read by them."""

    @task(retry=0)
    def count(text: str) -> dict[str, int]:
        return {letter: text.count(letter) for letter in text}

    @task(retry=0)
    def twice(number: int) -> int:
        return number * 2

    @flow
    def counted(text: str) -> dict[str, int]:
        return count(text)

    @flow
    def both(text: str) -> int:
        return twice(counted(text)["a"])

    with Engine(workers=[counted, both], clock=VirtualClock(0)) as engine:
        assert engine.start(counted, "aab").result() == {"a": 2, "b": 1}
        assert engine.start(both, "aab").result() == 4


def test_two_flows_of_one_name_are_not_both_started() -> None:
    """Those of two places are named; a function that is defined again in its place is another version of it."""

    def made(days: int) -> Any:
        @flow(name="order")
        def again(lines: list[Line]) -> timedelta:
            return ship(lines, days)

        return again

    with Engine(clock=VirtualClock(0)) as engine:
        assert engine.start(made(1), [Line("a")]).result() == timedelta(days=1)
        assert engine.start(made(2), [Line("a")]).result() == timedelta(days=2)
        with pytest.raises(AlreadyExists, match=r"two flows are called 'order': .*again .*test_typed_edges.py:\d+. and .*order"):
            engine.start(order, [Line("a")])
