"""Why an execution waits or how it ended, word for word, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import attrs
import pytest
from reading_kit import T0, Case, choice, flow, node, retried

from conductorlite import Explanation, SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTimeoutPolicy
from conductorlite.engine.explain import Case as Explained
from conductorlite.engine.waits import Facts
from conductorlite.model.executions import ReasonKind
from conductorlite.model.texts import span_in_words


@pytest.mark.parametrize(
    ("span", "words"),
    [(0, "0 ms"), (999, "999 ms"), (3_000, "3 s"), (90_000, "1 min 30 s"), (3_600_000, "1 h"), (7_500_000, "2 h 5 min"),
     (86_400_000, "1 day"), (2_592_000_000 - 1, "29 days 23 h"), (864_000_000_000, "10000 days")],
)  # fmt: skip
def test_spans_in_words(span: int, words: str) -> None:
    """A length of time has at most two units."""
    assert span_in_words(span) == words


def test_waiting_for_a_worker() -> None:
    """A task that nobody polled names its type, how long it waits, and its next deadline."""
    case = Case(flow(node("a")))
    case.at(120)
    assert case.why() == (
        "flow (w1) is RUNNING for 2 min. a waits for a worker of type a for 2 min; its poll timeout comes in 58 min of driven time."
    )


def test_with_a_worker() -> None:
    """A polled task names its worker, the attempt of how many, and its next deadline."""
    case = Case(flow(retried("a")))
    case.take("a")
    case.at(2)
    assert (
        case.why("a")
        == "a is with worker worker-7 for 2 s, attempt 1 of 4; its response timeout comes in 9 min 58 s of driven time."
    )


def test_waiting_for_a_retry() -> None:
    """A retry that is due later says when, after which attempt of how many, and why that failed."""
    case = Case(flow(retried("a")))
    case.do("a", "FAILED", reason="no route\nto host")
    case.at(2)
    assert case.why() == (
        'flow (w1) is RUNNING for 2 s. a is due for retry in 3 s, after attempt 1 of 4 failed with "no route to host".'
    )
    case.at(6)
    assert "a waits for a worker of type a for 1 s, attempt 2 of 4; its poll" in case.why()


def test_start_and_callback_delays() -> None:
    """A task held back by its startDelay, or by its own worker, says which."""
    case = Case(flow(node("a", start_delay_ms=9_000)))
    assert case.why("a") == "a is offered to workers of type a in 9 s, after its start delay."
    case.at(9)
    case.do("a", "IN_PROGRESS", callback_after_ms=4_000)
    assert case.why("a") == "a is offered to workers of type a in 4 s, as its worker asked."


def test_a_wait() -> None:
    """A WAIT tells its instant and how far off it is; one without waits for somebody."""
    case = Case(flow(node("w", "WAIT", input_parameters={"duration": "30d"})))
    assert case.why("w") == "w (WAIT) ends its wait at 2030-04-16 17:46:40 UTC (in 30 days)."
    other = Case(flow(node("w", "WAIT")))
    other.at(5)
    assert other.why() == "flow (w1) is RUNNING for 5 s. w (WAIT) waits for somebody to complete it, for 5 s."


def test_a_join_and_a_loop() -> None:
    """A JOIN names what it waits for and counts what ended; a loop tells its round."""
    fork = node("f", "FORK_JOIN", fork_tasks=[[node("a")], [node("b")], [node("c")]])
    loop = node("l", "DO_WHILE", loop_over=[node("x")], loop_condition="$.l['iteration'] < 3")
    case = Case(flow(fork, node("j", "JOIN", join_on=["a", "b", "c"]), loop))
    case.do("b")
    assert case.why("j") == "j (JOIN) waits for a and c (1 of 3 ended)."
    case.do("a")
    case.do("c")
    case.do("x")
    assert case.why("l") == "l (DO_WHILE) is in round 2."


def test_a_human() -> None:
    """A HUMAN waits for somebody, until its deadline if it has one."""
    case = Case(flow(node("h", "HUMAN", task_definition=TaskDef(name="h", timeout_ms=60_000))))
    case.at(12)
    assert case.why("h") == "h (HUMAN) waits for somebody to complete it, for 12 s; its task timeout comes in 48 s."


def test_an_exclusive_join() -> None:
    """An EXCLUSIVE_JOIN names those that may end it, and those that may still be scheduled."""
    join = node("e", "EXCLUSIVE_JOIN", join_on=["a", "b", "c2"], default_exclusive_join_task=["d"])
    fork = node("f", "FORK_JOIN", fork_tasks=[[join], [node("a")], [node("b", permissive=True)], [node("c1"), node("c2")],
                                              [node("d")]])  # fmt: skip
    case = Case(flow(fork, node("j", "JOIN", join_on=["e"])))
    assert case.why("e") == "e (EXCLUSIVE_JOIN) waits for the first of a and b to end (c2 not scheduled yet)."
    assert case.why().index("a waits") < case.why().index("e (EXCLUSIVE_JOIN)")
    case.do("b", "FAILED_WITH_TERMINAL_ERROR")
    assert case.why("e") == "e (EXCLUSIVE_JOIN) waits for a to end (c2 not scheduled yet)."
    late = node("e", "EXCLUSIVE_JOIN", join_on=["b"])
    other = Case(flow(node("f", "FORK_JOIN", fork_tasks=[[late], [node("a"), node("b")]]), node("j", "JOIN", join_on=["e"])))
    assert other.why("e") == "e (EXCLUSIVE_JOIN) waits to see which of the tasks it joins will be scheduled."
    other.do("a")
    assert other.why("e") == "e (EXCLUSIVE_JOIN) waits for b to end."


def test_the_case_a_decision_took() -> None:
    """A task in a case that was not taken says which one was; an empty case of a DECISION is its default."""
    cases = {"x": [node("a")], "y": []}
    fields = {"case_value_param": "case", "input_parameters": {"case": "${workflow.input.case}"}, "decision_cases": cases}
    definition = flow(node("d", "DECISION", default_case=[node("z")], **fields))
    assert Case(definition, input={"case": "x"}).why("z") == (
        "z has not run yet: d took the case 'x', and this is in the default case."
    )
    taken = Case(definition, input={"case": "y"})
    assert taken.why("a") == "a has not run yet: d took the case 'y', and this is in the case 'x'."
    assert taken.why("z").startswith("z waits for a worker")


def test_a_sub_workflow() -> None:
    """A SUB_WORKFLOW names the execution it waits for."""
    child = SubWorkflowParams(name="child", workflow_definition=WorkflowDef(name="child", tasks=[node("a")]))
    case = Case(flow(node("s", "SUB_WORKFLOW", sub_workflow_param=child)))
    case.at(3)
    below = case.workflow.task("s").sub_workflow_id
    assert case.why("s") == (
        f"s (SUB_WORKFLOW) waits for its sub-workflow {below}, for 3 s; "
        "there a waits for a worker of type a for 3 s; its poll timeout comes in 59 min 57 s of driven time."
    )
    assert case.engine.get(below).name == "child"


def test_many_open_tasks() -> None:
    """Of many open tasks five are told, and the rest counted."""
    refs = [f"t{number}" for number in range(9)]
    fork = node("f", "FORK_JOIN", fork_tasks=[[node(ref)] for ref in refs])
    case = Case(flow(fork, node("j", "JOIN", join_on=refs)))
    assert case.why().endswith("5 more tasks are open.")
    assert case.why("j") == "j (JOIN) waits for t0, t1, t2, t3, t4 and 4 more (0 of 9 ended)."


def test_a_start_with_a_delay() -> None:
    """An execution that begins later says when."""
    case = Case(flow(node("a")), delay="10s")
    assert case.why().endswith("Its first task is scheduled at 2030-03-17 17:46:50 UTC (in 10 s).")
    assert case.why("a") == "a has not run yet: the execution has not begun."


def test_paused() -> None:
    """A paused execution says what holds it and what is still open."""
    case = Case(flow(node("a"), node("b")))
    case.engine.pause("w1")
    assert case.why().startswith("flow (w1) is PAUSED: nothing more is scheduled until it is resumed. a waits for a worker")
    case.do("a")
    assert case.why().endswith("1 event is held: what follows a.")


def test_parked() -> None:
    """A parked execution tells the reason and both ways out."""
    row = attrs.evolve(Case(flow(node("a"))).workflow, parked="a law does not hold")
    assert str(Explained(facts=Facts(workflow=row, inbox=(), now=T0)).explain()).startswith(
        "flow (w1) is parked: a law does not hold. No more turns are taken: resume tries again from the last good commit, "
        "terminate ends it."
    )


def test_due_and_not_driven() -> None:
    """Events that are due and not taken show that nobody drives the engine; the workflow's timeout is told."""
    case = Case(flow(node("w", "WAIT", input_parameters={"duration": "5s"}), timeout_ms=60_000))
    case.clock.move_to(T0 + 8_000)
    assert case.why() == (
        "flow (w1) is RUNNING for 8 s. w (WAIT) ends its wait at 2030-03-17 17:46:45 UTC (overdue for 3 s). "
        "1 event is due and nobody has taken the turn: drive the engine. "
        "The workflow passes its timeout, which only alerts, in 52 s."
    )


def test_failed() -> None:
    """A failed execution names the task, its attempts and its last reason, and what never ran."""
    case = Case(flow(retried("a"), node("b"), node("c")))
    for second in (0, 5, 10, 15):
        case.at(second)
        case.do("a", "FAILED", reason="boom")
    case.at(20)
    assert case.why() == (
        'flow (w1) is FAILED: it ended 5 s ago after 15 s. a is FAILED at attempt 4 of 4 with "boom". '
        "Never scheduled: b and c. retry reopens it where it failed."
    )
    assert case.why("a") == 'a is FAILED at attempt 4 of 4 with "boom"; that was 5 s ago.'
    assert case.why("c") == 'c never ran: a, before it, is FAILED with "boom", and the execution is FAILED.'


def test_terminated_and_timed_out() -> None:
    """An execution ended from outside tells the reason it was given; one that timed out, its timeout."""
    case = Case(flow(node("a")))
    case.engine.terminate("w1", "no need")
    assert case.why() == ("flow (w1) is TERMINATED: it ended just now after 0 ms: no need. retry reopens it where it failed.")
    late = Case(flow(node("a"), timeout_ms=3_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    late.at(4)
    assert late.why().startswith("flow (w1) is TIMED_OUT: it ended 1 s ago after 3 s: ")
    policy = TaskDef(name="a", poll_timeout_ms=1_000)
    task = Case(flow(node("a", task_definition=policy)))
    task.at(1)
    assert "a is TIMED_OUT at attempt 1 of 4 with " in task.why()


def test_completed() -> None:
    """A completed execution tells how long it took and how many attempts it made; a task of it likewise."""
    case = Case(flow(retried("a")))
    case.do("a", "FAILED", reason="boom")
    case.at(5)
    case.do("a")
    assert case.why() == "flow (w1) is COMPLETED: it ended just now after 5 s, with 2 task attempts."
    assert case.why("a") == "a is COMPLETED: it ended just now after 0 ms."


def test_why_a_task_never_ran() -> None:
    """A task without a row is explained by the case that was taken, or the nearest thing before or around it."""
    case = Case(flow(choice("s", {"x": [node("a"), node("a2")]}, [node("b")]), node("c")), input={"case": "x"})
    assert case.why("b") == "b has not run yet: s took the case 'x', and this is in the default case."
    assert case.why("a2") == "a2 has not run yet: a, before it, is SCHEDULED."
    assert case.why("c") == "c has not run yet: s, before it, is COMPLETED; still open: a."
    assert case.why("nobody") == "nobody is not a task of flow."


def test_compensation() -> None:
    """While it is compensated: with what it will end and why; afterwards by what it was, and why a retry is refused."""
    once = TaskDef(name="b", retry_count=0)
    case = Case(flow(node("a", compensate="undo"), node("b", task_definition=once), node("c", compensate="undo")))
    case.do("a")
    assert case.why("a_compensation") == (
        "a_compensation has not run yet: it undoes a if the execution fails after that has completed."
    )
    case.do("b", "FAILED", reason="broken")
    assert case.why() == (
        "flow (w1) is RUNNING since just now. It is being compensated and will end FAILED: "
        "b failed: broken. "
        "a_compensation (undo) waits for a worker of type undo since just now; its poll timeout comes in 1 h of driven time."
    )
    case.do("undo")
    assert case.why() == (
        'flow (w1) is FAILED: it ended just now after 0 ms. b is FAILED at attempt 1 of 1 with "broken". '
        "Never scheduled: c. It was compensated by a_compensation: retry is refused, restart or rerun it."
    )


def test_reasons_are_data() -> None:
    """A program asks for kinds, tasks and instants, down through a sub-workflow; the text is made of the same reasons."""
    child = SubWorkflowParams(name="child", workflow_definition=WorkflowDef(name="child", tasks=[node("a")]))
    case = Case(flow(node("s", "SUB_WORKFLOW", sub_workflow_param=child)))
    case.at(3)
    below = case.workflow.task("s").sub_workflow_id
    explanation = case.engine.explain("w1")
    assert [(one.kind, one.workflow_id, one.ref, one.at) for one in explanation.reasons] == [
        ("RUNNING", "w1", None, T0),
        ("SUB_WORKFLOW", "w1", "s", T0),
        ("WORKER", below, "a", T0),
        ("DEADLINE", below, "a", T0 + 3_600_000),
    ]
    assert all(one.text in str(explanation) for one in explanation.reasons)
    assert {one.kind for one in explanation.reasons} <= set(get_args(ReasonKind))
    assert str(Explanation()) == ""


@pytest.mark.parametrize(
    ("do", "kinds"),
    [
        (lambda case: case.engine.pause("w1"), ["PAUSED", "WORKER", "DEADLINE"]),
        (lambda case: case.engine.terminate("w1"), ["ENDED", "NEVER_RAN", "RETRYABLE"]),
        (lambda case: case.do("a", "FAILED", reason="x"), ["RUNNING", "RETRY"]),
        (lambda case: case.do("a", "FAILED_WITH_TERMINAL_ERROR", reason="x"), ["ENDED", "FAILED", "NEVER_RAN", "RETRYABLE"]),
        (lambda case: case.take("a"), ["RUNNING", "WITH_WORKER", "DEADLINE"]),
    ],
)
def test_kinds_of_reasons(do: Callable[[Case], object], kinds: list[str]) -> None:
    """What an execution waits for, or ended of, is told apart without reading its text."""
    case = Case(flow(retried("a"), node("b")))
    do(case)
    assert [one.kind for one in case.engine.explain("w1").reasons] == kinds
