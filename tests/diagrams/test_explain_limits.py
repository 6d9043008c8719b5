"""Why something PENDING waits, explained word for word: slots, windows, delays, pauses, an execution's own slot."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from reading_kit import T0, flow, node

from conductorlite import (
    Engine,
    RateLimitConfig,
    SubWorkflowParams,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.engine.explain import Case as Explained
from conductorlite.engine.waits import Facts, Standing
from conductorlite.model.limits import Limit, MemberState
from conductorlite.plan.diagrams import mermaid

ASKS = "a (pay) is PENDING"
POLLED = "its poll timeout comes in"


def _limited(name: str = "pay", **limits: Any) -> WorkflowDef:
    definition = TaskDef(name=name, retry_count=3, retry_delay_ms=5_000, **limits)
    return flow(WorkflowTask(name=name, task_reference_name="a", task_definition=definition))


def _keyed(count: int = 1) -> WorkflowDef:
    return flow(node("a"), rate_limit_config=RateLimitConfig(rate_limit_key="acme", concurrent_exec_limit=count))


def _engine(definition: WorkflowDef, ids: str = "w1 w2 w3") -> Engine:
    engine = Engine(clock=VirtualClock(T0))
    for one in ids.split():
        engine.start(definition, workflow_id=one)
    engine.settle()
    return engine


def _do(engine: Engine, name: str, status: str = "COMPLETED", **said: Any) -> None:
    task = engine.poll(name)[0]
    found = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status), **said)
    engine.update_task(found)
    engine.settle()


def test_a_slot_of_a_task() -> None:
    """How many of how many slots are in use, and the place in the line."""
    engine = _engine(_limited(concurrent_exec_limit=1))
    engine.advance("3s")
    assert str(engine.explain("w2", "a")) == f"{ASKS} for 3 s: 1 of 1 slot of task:pay is in use; it is next in the line."
    assert str(engine.explain("w3")) == (
        f"flow (w3) is RUNNING for 3 s. {ASKS} for 3 s: 1 of 1 slot of task:pay is in use; it is number 2 in the line."
    )
    _do(engine, "pay")
    assert str(engine.explain("w2", "a")) == f"a (pay) waits for a worker of type pay since just now; {POLLED} 1 h of driven time."


def test_a_definition_that_allows_less() -> None:
    """More slots may be in use, by another definition, than one's own allows."""
    engine = _engine(_limited(concurrent_exec_limit=3))
    engine.start(_limited(concurrent_exec_limit=2), workflow_id="w4")
    assert str(engine.explain("w4", "a")) == (
        f"{ASKS} since just now: 3 slots of task:pay are in use, and its definition allows 2; it is next in the line."
    )


def test_the_line_is_strict() -> None:
    """Who could have a slot waits all the same behind who could not."""
    engine = _engine(_limited(concurrent_exec_limit=2), "w1 w2 w3")
    engine.advance("1s")
    engine.start(_limited(concurrent_exec_limit=9), workflow_id="w4")
    assert str(engine.explain("w4", "a")) == (
        f"{ASKS} since just now: the line of task:pay is strict, and the first in it waits; it is number 2 in the line."
    )


def test_a_window() -> None:
    """How many have begun in the window, and when it moves."""
    engine = _engine(_limited("sms", rate_limit_per_frequency=2, rate_limit_frequency_ms=60_000), "w1 w2 w3 w4")
    engine.poll("sms")
    engine.advance("4s")
    offered = "a (sms) is PENDING for 4 s: 2 of 2 of task:sms have begun within 1 min or are offered; it is"
    assert str(engine.explain("w3", "a")) == f"{offered} next in the line, and the window moves in 56 s."
    engine.poll("sms")
    begun = offered.replace(" or are offered", "")
    assert str(engine.explain("w3", "a")) == f"{begun} next in the line, and the window moves in 56 s."
    assert str(engine.explain("w4", "a")) == f"{begun} number 2 in the line, and the window moves in 56 s."


def test_nobody_polls() -> None:
    """What was offered in vain says where nobody polls; so does who waits behind it."""
    engine = _engine(_limited("sms", rate_limit_per_frequency=1, rate_limit_frequency_ms=60_000), "w1 w2")
    engine.advance("5s")
    vain = "nobody takes what task:sms offers in queue 'sms'; its line goes on there with the next poll"
    assert str(engine.explain("w1", "a")).startswith(f"a (sms) is PENDING for 5 s: {vain}; {POLLED} 59 min 55 s")
    assert str(engine.explain("w2", "a")) == f"a (sms) is PENDING for 5 s: {vain}."


def test_a_delay() -> None:
    """A task that is not due has no place in a line: its delay is told, and why it has one."""
    engine = _engine(_limited(concurrent_exec_limit=1), "w1")
    _do(engine, "pay", "FAILED", reason="no")
    assert str(engine.explain("w1", "a")) == f'{ASKS} and asks for its slot in 5 s, after attempt 1 of 4 failed with "no".'
    engine.advance("5s")
    _do(engine, "pay", "IN_PROGRESS", callback_after_ms=60_000)
    asks = f"{ASKS} and asks for its slot in 1 min, as its worker asked"
    assert str(engine.explain("w1", "a")) == f"{asks}."  # a default timeout does not count while its worker has it wait
    definition = flow(node("b", start_delay_ms=7_000, task_definition=TaskDef(name="b", concurrent_exec_limit=1)))
    engine.start(definition, workflow_id="w2")
    assert str(engine.explain("w2", "b")) == "b is PENDING and asks for its slot in 7 s, after its start delay."


def test_a_retry_that_waits_for_its_slot() -> None:
    """It says which attempt it is."""
    engine = _engine(_limited(concurrent_exec_limit=1), "w1 w2")
    _do(engine, "pay", "FAILED")
    engine.advance("5s")
    assert str(engine.explain("w1", "a")) == (
        f"{ASKS} since just now, attempt 2 of 4: 1 of 1 slot of task:pay is in use; it is next in the line."
    )


def test_a_paused_execution_asks_later() -> None:
    """It has left the line, and asks again when it is resumed."""
    engine = _engine(_limited(concurrent_exec_limit=1), "w1 w2")
    engine.pause("w2")
    assert str(engine.explain("w2")) == (
        "flow (w2) is PAUSED: nothing more is scheduled until it is resumed. 1 event is held: the slot or the retry of a. "
        f"{ASKS} and asks for its slot when the execution is resumed."
    )


def test_a_slot_that_was_given() -> None:
    """Between the commit that gives a slot and the turn that takes it up; and what is told without the limit."""
    engine = _engine(_limited(concurrent_exec_limit=1), "w1 w2")
    row = engine.get("w2")
    with engine.backend.reading() as view:
        (member,) = view.limits.line("task:pay", 1).heads
    given = Standing(limit=Limit(key="task:pay", in_use=1), member=attrs.evolve(member, state=MemberState.HELD))
    text = str(Explained(facts=Facts(workflow=row, inbox=(), now=T0, standings={row.tasks[0].task_id: given})).explain("a"))
    assert text == f"{ASKS} since just now: it was given a slot of task:pay and has not taken it up: drive the engine."
    assert str(Explained(facts=Facts(workflow=row, inbox=(), now=T0)).explain("a")) == f"{ASKS}: it waits for a slot of task:pay."


def test_an_execution_waits_for_its_own_slot() -> None:
    """The execution says so, and its first task is PENDING until then."""
    engine = _engine(_keyed(2))
    engine.advance("90s")
    assert str(engine.explain("w3")) == (
        "flow (w3) is RUNNING for 1 min 30 s. It waits for its slot for 1 min 30 s: 2 of 2 slots of workflow:acme are in use; "
        "it is next in the line. a is PENDING until its execution has a slot."
    )
    assert str(engine.explain("w3", "a")) == "a is PENDING until its execution has a slot."
    engine.pause("w3")
    assert str(engine.explain("w3")) == (
        "flow (w3) is PAUSED: nothing more is scheduled until it is resumed. 1 event is held: its own slot. "
        "It asks for its slot when it is resumed. a is PENDING until its execution has a slot."
    )


def test_below() -> None:
    """What a sub-workflow's task waits for is told above it."""
    inner = WorkflowDef(name="inner", tasks=_limited(concurrent_exec_limit=1).tasks)
    params = SubWorkflowParams(name="inner", workflow_definition=inner)
    engine = _engine(flow(node("s", "SUB_WORKFLOW", sub_workflow_param=params)), "w1 w2")
    child = engine.get("w2").task("s").sub_workflow_id
    waits = f"s (SUB_WORKFLOW) waits for its sub-workflow {child}, since just now; there {ASKS} since just now"
    assert str(engine.explain("w2", "s")) == f"{waits}: 1 of 1 slot of task:pay is in use; it is next in the line."


@pytest.mark.parametrize(("verb", "words"), [("retry", "retried"), ("rerun", "rerun")])
def test_an_ended_execution_waits_to_go_on(verb: str, words: str) -> None:
    """A verb that reopens an execution beyond its limit waits for a slot, and the execution stays as it ended."""
    engine = _engine(_keyed(), "w1")
    engine.terminate("w1", reason="stop")
    engine.start(_keyed(), workflow_id="w2")
    engine.advance("1s")
    engine.rerun("w1", from_task="a") if verb == "rerun" else engine.retry("w1")
    assert engine.get("w1").status == "TERMINATED"
    assert str(engine.explain("w1")) == (
        f"flow (w1) is TERMINATED: it ended 1 s ago after 0 ms: stop. It is to be {words} and waits for its slot since just now: "
        "1 of 1 slot of workflow:acme is in use; it is next in the line."
    )
    _do(engine, "a")
    assert str(engine.explain("w1")).startswith("flow (w1) is RUNNING for 1 s.")


def test_a_pending_task_is_drawn() -> None:
    """The picture of an execution tells PENDING from SCHEDULED."""
    engine = _engine(_limited(concurrent_exec_limit=1), "w1 w2")
    seen = [mermaid(row.definition, row) for row in (engine.get("w1"), engine.get("w2")) if row.definition is not None]
    assert ["  class t1 pending" in text for text in seen] == [False, True]
    assert "PENDING" in seen[1]
    assert "  classDef pending fill:" in seen[1]
