"""Pause, resume, terminate, retry and decide, on executions in every state; executions that are parked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, fork, join, noop, rounds, simple, switch, wait

import conductorlite.decide.operators.worker as worker
import conductorlite.decide.transitions as transitions
from conductorlite import (
    Bounds,
    HistoryEvent,
    ResultTimeout,
    Workflow,
    WorkflowFailed,
    WorkflowStatus,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)
from conductorlite.errors import AlreadyExists, Conflict, ExecutionNotFound, InvariantBroken

NEVER_RETRIED = {"retry_count": 0, "poll_timeout_s": 0, "response_timeout_s": 0, "timeout_s": 0}


def s(*refs: str, **fields: Any) -> list[WorkflowTask]:
    """SIMPLE tasks of these names, never tried again by themselves."""
    return [simple(ref, NEVER_RETRIED, **fields) for ref in refs]


def finish(bench: Bench, most: int = 100) -> None:
    """Complete whatever is offered until the execution ends."""
    for _ in range(most):
        bench.engine.settle()
        open_tasks = [task for task in bench.workflow.tasks if task.status == "SCHEDULED"]
        if bench.status_of_workflow().terminal or not open_tasks:
            break
        bench.report(open_tasks[0], lease=False)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED, bench.journal()


# -- pause and resume ----------------------------------------------------------------------------------------


@pytest.mark.trap("core-17")
def test_paused_tasks_are_handed_out(bench: Bench) -> None:
    """A queued task of a paused workflow is handed out, its report is taken, its successor waits for the resumption."""
    bench.start(flow(*s("a", "b")))
    bench.engine.pause(bench.workflow_id)
    bench.at(1)
    bench.do("a", output={"n": 1})
    bench.at(2)
    assert bench.statuses() == {"a": "COMPLETED"}
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    bench.do("b")
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 a SCHEDULED",
        "0 workflow PAUSED",
        "1 a IN_PROGRESS",
        "1 a COMPLETED",
        "2 workflow RUNNING",
        "2 b SCHEDULED",
        "2 b IN_PROGRESS",
        "2 b COMPLETED",
        "2 workflow COMPLETED",
    ]


def test_end_while_paused(bench: Bench) -> None:
    """The end of the last task while paused ends the workflow when it is resumed."""
    bench.start(flow(*s("a")))
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.PAUSED
    assert bench.engine.admin.check() == []
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("retries", [0, 1])
def test_failure_while_paused(bench: Bench, retries: int) -> None:
    """A failure while paused is retried, or fails the workflow, when resumed; the retry's delay counts from there."""
    bench.start(flow(simple("a", {**NEVER_RETRIED, "retry_count": retries, "retry_delay_s": 5})))
    task = bench.take("a")
    bench.engine.pause(bench.workflow_id)
    bench.at(10)
    bench.report(task, "FAILED")
    assert bench.journal()[-1] == "10 a FAILED"
    bench.at(20)
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    if not retries:
        assert bench.status_of_workflow() is WorkflowStatus.FAILED
        return
    assert bench.task("a").due_at == bench.clock.now() + 5_000


def test_wait_ends_while_paused(bench: Bench) -> None:
    """A WAIT ends at its instant also while paused; what follows is scheduled when resumed."""
    bench.start(flow(wait("w", duration="10s"), *s("z")))
    bench.engine.pause(bench.workflow_id)
    bench.at(30)
    assert bench.journal()[-1] == "10 w COMPLETED"
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.journal()[-1] == "30 z SCHEDULED"


def test_branches_end_while_paused(bench: Bench) -> None:
    """Branches of a fork and the round of a loop that end while paused are all followed up."""
    bench.start(flow(fork("f", s("a"), [rounds("l", s("b"), 2)], s("c", "d")), join("j", "a", "l", "d"), *s("z")))
    bench.engine.pause(bench.workflow_id)
    for ref in ("a", "b", "c"):
        bench.do(ref)
    assert bench.after(lambda: bench.engine.resume(bench.workflow_id)) == ["b__2", "d"]
    finish(bench)


def test_pause_before_a_delayed_start(bench: Bench) -> None:
    """A workflow paused before its delayed start begins when it is resumed."""
    bench.start(flow(*s("a")), delay="10s")
    bench.engine.pause(bench.workflow_id)
    bench.at(20)
    assert bench.statuses() == {}
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.journal()[-1] == "20 a SCHEDULED"


def test_pause_and_resume_before_a_delayed_start(bench: Bench) -> None:
    """Resumed before its instant, a delayed start begins at that instant all the same."""
    bench.start(flow(*s("a")), delay="10s")
    bench.engine.pause(bench.workflow_id)
    bench.at(5)
    bench.engine.resume(bench.workflow_id)
    bench.at(9.999)
    assert bench.statuses() == {}
    bench.at(10)
    assert bench.journal()[-1] == "10 a SCHEDULED"


def test_pause_in_the_middle_of_long_work(new_bench: NewBench) -> None:
    """A pause between two turns of one wide fork holds the rest of it; resumed, nothing is lost or done twice."""
    bench = new_bench(bounds=Bounds(rows=5))
    refs = [f"n{number}" for number in range(30)]
    paused = []

    def pause_once(workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        if len(workflow.tasks or history) and workflow.task_seq > 5 and not paused:
            paused.append(workflow.task_seq)
            bench.engine.pause(workflow.workflow_id)

    bench.engine.listen(pause_once)
    bench.start(flow(fork("f", *[s(ref) for ref in refs]), join("j", *refs), *s("z")))
    bench.engine.settle()
    assert paused
    assert bench.status_of_workflow() is WorkflowStatus.PAUSED
    assert len(bench.workflow.tasks) < 32
    assert bench.engine.admin.check() == []
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.order() == ["f", *refs, "j"]
    finish(bench)


@pytest.mark.parametrize("then", ["terminate", "retry"])
def test_terminate_in_the_middle_of_long_work(new_bench: NewBench, then: str) -> None:
    """A wide fork that was paused half-way and terminated leaves nothing behind; a retry goes on with it."""
    bench = new_bench(bounds=Bounds(rows=5))
    refs = [f"n{number}" for number in range(30)]
    paused = []

    def pause_once(workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        if history and workflow.task_seq > 5 and not paused:
            paused.append(workflow.task_seq)
            bench.engine.pause(workflow.workflow_id)

    bench.engine.listen(pause_once)
    bench.start(flow(fork("f", *[s(ref) for ref in refs]), join("j", *refs), *s("z")))
    bench.engine.settle()
    bench.engine.terminate(bench.workflow_id)
    bench.engine.settle()
    assert bench.engine.admin.agenda() == []
    with bench.engine.backend.reading() as view:
        assert list(view.inbox.events(bench.workflow_id)) == []
    if then == "retry":
        bench.engine.retry(bench.workflow_id)
        finish(bench)
        assert set(bench.statuses()) == {"f", *refs, "j", "z"}


def test_pause_twice_and_resume_twice(bench: Bench) -> None:
    """A second pause changes nothing; resuming what is not paused is a Conflict."""
    run = bench.start(flow(*s("a")))
    bench.engine.pause(run.workflow_id)
    before = bench.journal()
    bench.engine.pause(run.workflow_id)
    assert bench.journal() == before
    bench.engine.resume(run.workflow_id)
    with pytest.raises(Conflict, match="RUNNING"):
        bench.engine.resume(run.workflow_id)


# -- terminate -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
def test_terminate(bench: Bench, paused: bool) -> None:
    """Everything open is CANCELED, every timer and message goes, the reason is kept; no task is blamed."""
    definition = flow(
        fork("f", [simple("a")], [wait("w", duration="1h")], [rounds("l", [wait("v")])], [simple("p")]),
        join("j", "a", "w", "l", "p"),
        timeout_ms=3_600_000,
    )
    bench.start(definition)
    held = bench.take("p")
    if paused:
        bench.engine.pause(bench.workflow_id)
    bench.at(5)
    bench.engine.terminate(bench.workflow_id, "enough")
    bench.engine.settle()
    assert bench.statuses() == {"f": "COMPLETED"} | dict.fromkeys(("a", "w", "l", "v__1", "p", "j"), "CANCELED")
    workflow = bench.workflow
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "enough")
    assert (workflow.failed_task_id, workflow.failed_refs) == (None, ())
    assert bench.engine.admin.agenda() == []
    assert bench.poll("a") is None
    assert bench.report(held).status == "CANCELED"


def test_terminate_after_ends_while_paused(bench: Bench) -> None:
    """What a pause held back is dropped by a termination, and leaves nothing in the inbox."""
    bench.start(flow(fork("f", s("a"), [simple("b", {"poll_timeout_s": 5, "timeout_policy": "RETRY"})]), join("j", "a", "b")))
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    bench.at(10)
    bench.engine.terminate(bench.workflow_id)
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        assert list(view.inbox.events(bench.workflow_id)) == []
    bench.engine.retry(bench.workflow_id)
    assert bench.statuses() == {"f": "COMPLETED", "a": "COMPLETED", "b": "SCHEDULED", "j": "IN_PROGRESS"}
    finish(bench)


def test_terminate_before_a_delayed_start(bench: Bench) -> None:
    """A delayed start can be terminated; it never begins. Retried, it begins at once."""
    bench.start(flow(*s("a")), delay="10s")
    bench.engine.terminate(bench.workflow_id)
    bench.at(20)
    assert bench.journal() == ["0 workflow RUNNING", "0 workflow TERMINATED"]
    bench.engine.retry(bench.workflow_id)
    assert bench.journal()[-1] == "20 a SCHEDULED"
    finish(bench)


# -- verbs against states ------------------------------------------------------------------------------------


def completed(bench: Bench) -> None:
    """An execution that is COMPLETED."""
    bench.start(flow(*s("a")))
    bench.do("a")


def failed(bench: Bench) -> None:
    """An execution that is FAILED."""
    bench.start(flow(*s("a")))
    bench.do("a", "FAILED")


def timed_out(bench: Bench) -> None:
    """An execution that is TIMED_OUT."""
    bench.start(flow(*s("a"), timeout_ms=5, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    bench.at(1)


def terminated(bench: Bench) -> None:
    """An execution that is TERMINATED."""
    bench.start(flow(*s("a")))
    bench.engine.terminate(bench.workflow_id)


def running(bench: Bench) -> None:
    """An execution that is RUNNING."""
    bench.start(flow(*s("a")))


def paused(bench: Bench) -> None:
    """An execution that is PAUSED."""
    bench.start(flow(*s("a")))
    bench.engine.pause(bench.workflow_id)


@pytest.mark.trap("core-42", "core-43", "tasks-47", "tasks-74")
@pytest.mark.parametrize(
    ("verb", "state"),
    [
        *[("pause", state) for state in (completed, failed, timed_out, terminated)],
        *[("resume", state) for state in (running, completed, failed, timed_out, terminated)],
        *[("terminate", state) for state in (completed, failed, timed_out)],
        *[("retry", state) for state in (running, paused, completed)],
    ],
)
def test_conflicts(bench: Bench, verb: str, state: Callable[[Bench], None]) -> None:
    """A verb that does not fit the status is a Conflict naming both the execution and the status; nothing changes."""
    state(bench)
    before, journal = bench.workflow, bench.journal()
    with pytest.raises(Conflict, match=rf"w1: .*{state.__name__.upper()}"):
        getattr(bench.engine, verb)(bench.workflow_id)
    assert bench.workflow == before
    assert bench.journal() == journal


@pytest.mark.trap("core-43")
def test_terminate_twice(bench: Bench) -> None:
    """Terminating what is terminated changes nothing, not even the reason."""
    bench.start(flow(*s("a")))
    bench.engine.terminate(bench.workflow_id, "first")
    before = bench.workflow
    bench.engine.terminate(bench.workflow_id, "second")
    assert bench.workflow == before


@pytest.mark.parametrize(
    "verb", ["pause", "resume", "terminate", "retry", "admin.decide", "get", "history", "status", "run", "admin.check", "result"]
)
def test_unknown_executions(bench: Bench, verb: str) -> None:
    """Every verb names the id that no execution has."""
    with pytest.raises(ExecutionNotFound, match="nobody"):
        attrgetter(verb)(bench.engine)("nobody")


def test_id_is_taken(bench: Bench) -> None:
    """A second start under the same id is AlreadyExists, and leaves the first alone."""
    bench.start(flow(*s("a")), {"n": 1}, workflow_id="mine")
    with pytest.raises(AlreadyExists, match="mine"):
        bench.engine.start(flow(*s("a")), {"n": 2}, workflow_id="mine")
    assert bench.workflow.input_data == {"n": 1}


@pytest.mark.trap("core-33")
@pytest.mark.parametrize("state", [running, paused, completed, failed, timed_out, terminated])
def test_decide_changes_nothing_by_itself(bench: Bench, state: Callable[[Bench], None]) -> None:
    """A turn over nothing that is due changes nothing."""
    state(bench)
    bench.engine.settle()
    before = bench.workflow
    for _ in range(3):
        bench.engine.admin.decide(bench.workflow_id)
    assert bench.workflow == before


def test_results(bench: Bench) -> None:
    """`result` gives the output, or WorkflowFailed with the execution, or says what it waits for."""
    run = bench.start(flow(*s("a")))
    with pytest.raises(ResultTimeout, match=r"a \(a\) is SCHEDULED"):
        run.result()
    with pytest.raises(ResultTimeout, match="cannot go on"):
        run.result(timeout="1h")
    bench.do("a", "FAILED", reason="no luck", traceback="Traceback: here")
    with pytest.raises(WorkflowFailed, match=r"(?s)no luck.*Traceback: here") as caught:
        run.result()
    assert caught.value.workflow.status is WorkflowStatus.FAILED
    assert caught.value.task is not None
    assert caught.value.task.ref == "a"


# -- retry ---------------------------------------------------------------------------------------------------


@pytest.mark.trap("core-1", "core-41")
def test_retry_in_a_sequence(bench: Bench) -> None:
    """The failed task gets a new attempt, at once, and the workflow forgets its failure; what succeeded stays."""
    bench.start(flow(*s("a", "b", "c"), output_parameters={"b": "${b.output.n}"}))
    bench.do("a")
    bench.do("b", "FAILED", {"n": 0}, reason="no luck")
    bench.at(7)
    bench.engine.retry(bench.workflow_id)
    workflow = bench.workflow
    assert (workflow.status, workflow.reason, workflow.failed_refs, workflow.ended_at) == ("RUNNING", None, (), 0)
    assert (workflow.failed_task_id, workflow.failed_task_names, workflow.output_data) == (None, (), {})
    assert (workflow.generation, workflow.last_retried_at) == (1, bench.clock.now())
    second = bench.take("b")
    assert (second.attempt, second.first_attempt, second.generation, second.reason) == (1, 1, 1, None)
    bench.report(second, output={"n": 1})
    finish(bench)
    assert bench.workflow.output_data == {"b": 1}
    assert [task.ref for task in bench.workflow.tasks] == ["a", "b", "b", "c"]


@pytest.mark.trap("core-41")
def test_retry_gives_a_fresh_budget(bench: Bench) -> None:
    """After the verb a task has its whole retry budget and its whole total timeout again."""
    definition = {"retry_count": 1, "retry_delay_s": 5, "total_timeout_s": 100, "timeout_policy": "RETRY"}
    bench.start(flow(simple("a", definition)))
    for _ in range(2):
        bench.at(bench.second + 5)
        bench.do("a", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.at(95)
    bench.engine.retry(bench.workflow_id)
    bench.do("a", "FAILED")
    assert bench.task("a").due_at == bench.clock.now() + 5_000
    bench.at(101)
    bench.do("a", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert [task.attempt for task in bench.workflow.tasks] == [0, 1, 2, 3]
    bench.engine.retry(bench.workflow_id)
    bench.at(200.999)
    assert bench.statuses() == {"a": "SCHEDULED"}
    bench.at(201)
    assert bench.statuses() == {"a": "TIMED_OUT"}


def test_retry_in_a_fork(bench: Bench) -> None:
    """Failed and canceled branches get new attempts; the JOIN goes on in place and joins old and new."""
    bench.start(flow(fork("f", s("a"), s("b"), s("c", "d")), join("j", "a", "b", "d"), *s("z")))
    bench.do("a", output={"n": 1})
    bench.do("c")
    bench.do("b", "FAILED")
    assert bench.statuses() == {"f": "COMPLETED", "a": "COMPLETED", "b": "FAILED", "c": "COMPLETED", "d": "CANCELED",
                                "j": "CANCELED"}  # fmt: skip
    bench.engine.retry(bench.workflow_id)
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.do("b", output={"n": 2})
    bench.do("d", output={"n": 3})
    assert bench.task("j").output_data == {"a": {"n": 1}, "b": {"n": 2}, "d": {"n": 3}}
    assert bench.task("j").attempt == 0
    finish(bench)


def test_retry_in_a_loop(bench: Bench) -> None:
    """The loop goes on in place, in the round in which it was; rounds before it are kept."""
    bench.start(flow(rounds("l", s("a", "b"), 3), *s("z")))
    bench.do("a", output={"n": 1})
    bench.do("b")
    bench.do("a", output={"n": 2})
    bench.do("b", "FAILED")
    assert bench.statuses()["l"] == "CANCELED"
    bench.engine.retry(bench.workflow_id)
    assert bench.task("l").output_data == {"iteration": 2}
    assert bench.after(lambda: bench.do("b")) == ["a__3"]
    bench.do("a", output={"n": 3})
    bench.do("b")
    assert {key: value["a"] for key, value in bench.task("l").output_data.items() if key != "iteration"} == {
        "1": {"n": 1},
        "2": {"n": 2},
        "3": {"n": 3},
    }
    finish(bench)


def test_retry_in_nested_loops(bench: Bench) -> None:
    """Both loops go on where they were."""
    bench.start(flow(rounds("l", [rounds("m", s("x"), 2), *s("y")], 2), *s("z")))
    for _ in range(2):
        bench.do("x")
    bench.do("y")
    bench.do("x")
    bench.do("x", "FAILED")
    assert (bench.statuses()["m__2"], bench.statuses()["x__2__2"]) == ("CANCELED", "FAILED")
    bench.engine.retry(bench.workflow_id)
    assert (bench.statuses()["l"], bench.statuses()["m__2"], bench.statuses()["m__1"]) == (
        "IN_PROGRESS",
        "IN_PROGRESS",
        "COMPLETED",
    )
    assert bench.after(lambda: bench.do("x")) == ["y__2"]
    assert bench.after(lambda: bench.do("y")) == ["z"]
    finish(bench)


def test_retry_in_a_fork_in_a_loop(bench: Bench) -> None:
    """Fork, JOIN and loop are reopened together, in their round."""
    bench.start(flow(rounds("l", [fork("f", s("a"), s("b")), join("j", "a", "b")], 2), *s("z")))
    bench.do("a")
    bench.do("b")
    bench.do("a")
    bench.do("b", "FAILED")
    bench.engine.retry(bench.workflow_id)
    assert bench.after(lambda: bench.do("b")) == ["z"]
    assert bench.statuses()["j__2"] == "COMPLETED"
    finish(bench)


def test_retry_of_permissive_failures(bench: Bench) -> None:
    """Permissive failures are tried again, their successors are not scheduled twice, and success forgives them."""
    bench.start(flow(*s("a", "b", permissive=True), *s("z")))
    bench.do("a", "FAILED")
    bench.do("b", "FAILED")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.after(lambda: bench.engine.retry(bench.workflow_id)) == ["a", "b"]
    bench.do("b")
    assert bench.after(lambda: bench.do("a")) == []
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_retry_of_a_permissive_failure_that_fails_again(bench: Bench) -> None:
    """A permissive task that fails again fails the workflow again, once counted."""
    bench.start(flow(*s("a", permissive=True), *s("z")))
    bench.do("a", "FAILED")
    bench.do("z")
    for _ in range(2):
        bench.engine.retry(bench.workflow_id)
        bench.do("a", "FAILED")
        assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_retry_of_a_permissive_failure_in_a_fork(bench: Bench) -> None:
    """A JOIN that failed for a permissive branch is reopened and waits for the new attempt."""
    bench.start(flow(fork("f", s("a", permissive=True), s("b")), join("j", "a", "b"), *s("z")))
    bench.do("a", "FAILED")
    bench.do("b")
    assert bench.statuses()["j"] == "FAILED"
    bench.engine.retry(bench.workflow_id)
    assert (bench.statuses()["j"], bench.task("j").waiting) == ("IN_PROGRESS", 1)
    assert bench.after(lambda: bench.do("a")) == ["z"]
    finish(bench)


def test_retry_of_a_permissive_failure_in_a_loop(bench: Bench) -> None:
    """A loop that failed for a permissive child is reopened in its round."""
    bench.start(flow(rounds("l", [*s("a", permissive=True), *s("b")], 2), *s("z")))
    bench.do("a", "FAILED")
    bench.do("b")
    assert bench.statuses()["l"] == "FAILED"
    assert bench.after(lambda: bench.engine.retry(bench.workflow_id)) == ["a__1"]
    assert bench.after(lambda: bench.do("a")) == ["a__2"]
    finish(bench)


def test_retry_with_an_optional_loop_that_bore_a_failure(bench: Bench) -> None:
    """A permissive failure in an optional loop does not leave the workflow with open tasks behind its end."""
    loop = rounds("l", s("a", permissive=True), 2, optional=True)
    bench.start(flow(loop, *s("z")))
    bench.do("a", "FAILED")
    assert bench.statuses() == {"l": "COMPLETED_WITH_ERRORS", "a__1": "FAILED", "z": "SCHEDULED"}
    bench.do("z", "FAILED")
    bench.engine.retry(bench.workflow_id)
    finish(bench)
    assert all(task.status.terminal for task in bench.workflow.tasks)


def test_canceled_permissive_task(bench: Bench) -> None:
    """A permissive task that ends CANCELED is unsuccessful: the flow goes on, the workflow ends FAILED."""
    bench.start(flow(*s("a", permissive=True), *s("z")))
    bench.do("a", "CANCELED", reason="gone")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert "'gone'" in (bench.workflow.conductor_reason or "")
    bench.engine.retry(bench.workflow_id)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_retry_after_terminate(bench: Bench) -> None:
    """WAITs, JOINs, loops and queued tasks that were canceled all go on; a WAIT waits for the instant it waited for."""
    bench.start(
        flow(
            fork("f", [wait("w", duration="60s")], [wait("v")], s("a"), [rounds("l", s("x"), 2)]),
            join("j", "w", "v", "a", "l"),
            *s("z"),
        )
    )
    bench.at(10)
    bench.engine.terminate(bench.workflow_id)
    bench.at(20)
    bench.engine.retry(bench.workflow_id)
    open_refs = {ref for ref, status in bench.statuses().items() if status in ("IN_PROGRESS", "SCHEDULED")}
    assert open_refs == {"w", "v", "a", "l", "x__1", "j"}
    bench.at(59.999)
    assert bench.statuses()["w"] == "IN_PROGRESS"
    bench.at(60)
    assert bench.statuses()["w"] == "COMPLETED"
    bench.report(bench.task("v"), lease=False)
    finish(bench)


def test_retry_after_a_wait_was_overdue(bench: Bench) -> None:
    """A WAIT whose instant passed while the execution was ended is over at once when it is retried."""
    bench.start(flow(wait("w", duration="60s"), *s("z")))
    bench.engine.terminate(bench.workflow_id)
    bench.at(100)
    bench.engine.retry(bench.workflow_id)
    bench.engine.settle()
    assert bench.statuses() == {"w": "COMPLETED", "z": "SCHEDULED"}


def test_retry_after_terminating_a_paused_execution(bench: Bench) -> None:
    """What ended while paused and was not followed up before the termination is followed up by the retry."""
    case = switch("S", {"x": s("c")})
    bench.start(flow(fork("f", s("a", "b"), [*s("p"), case]), join("j", "b", "S"), *s("z")), {"case": "x"})
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    bench.do("p")
    bench.engine.terminate(bench.workflow_id)
    assert bench.after(lambda: bench.engine.retry(bench.workflow_id)) == ["b", "S", "c"]
    finish(bench)


def test_retry_of_a_switch(bench: Bench) -> None:
    """A SWITCH whose expression failed is evaluated anew."""
    case = switch("S", {"x": s("a")}, evaluator_type="javascript", expression="$.v.deeper", value="x",
                  input_parameters={"v": "${b.output.v}"})  # fmt: skip
    bench.start(flow(*s("b"), case, *s("z")))
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.journal_of("S") == ["0 S FAILED", "0 S#1 FAILED"]


def test_retry_after_a_workflow_timeout(bench: Bench) -> None:
    """What the timeout canceled is tried again, with the whole timeout."""
    timeouts = {"timeout_ms": 30_000, "timeout_policy": WorkflowTimeoutPolicy.TIME_OUT_WF}
    bench.start(flow(*s("a", "b"), **timeouts))
    bench.do("a")
    bench.at(30)
    assert bench.statuses() == {"a": "COMPLETED", "b": "CANCELED"}
    bench.engine.retry(bench.workflow_id)
    bench.at(59)
    finish(bench)


def test_retry_twice(bench: Bench) -> None:
    """Every retry raises the generation, and attempts go on counting."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "b")))
    for number in (1, 2, 3):
        bench.do("a", "FAILED")
        bench.engine.retry(bench.workflow_id)
        assert (bench.workflow.generation, bench.task("a").attempt, bench.task("b").attempt) == (number, number, number)
    finish(bench)


def test_old_timers_and_messages_are_void(bench: Bench) -> None:
    """No timer of before the retry fires on a new attempt, no old lease counts, no message is left twice."""
    definition = {"response_timeout_s": 20, "timeout_s": 30, "poll_timeout_s": 40, "total_timeout_s": 50,
                  "timeout_policy": "TIME_OUT_WF", "retry_count": 0}  # fmt: skip
    bench.start(flow(simple("a", definition), timeout_ms=60_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    first = bench.take("a")
    bench.at(15)
    bench.engine.terminate(bench.workflow_id)
    bench.engine.retry(bench.workflow_id)
    bench.at(54.999)
    assert bench.statuses() == {"a": "SCHEDULED"}
    assert bench.engine.tasks.extend_lease(first) is False
    second = bench.take("a")
    assert bench.poll("a") is None
    bench.report(first)
    assert bench.statuses() == {"a": "IN_PROGRESS"}
    bench.report(second)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_retry_with_nothing_to_retry(bench: Bench) -> None:
    """A terminated execution in which everything had ended goes on with what follows."""
    bench.start(flow(*s("a", "b")))
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    bench.engine.terminate(bench.workflow_id)
    assert bench.after(lambda: bench.engine.retry(bench.workflow_id)) == ["b"]
    finish(bench)


def test_pause_after_retry(bench: Bench) -> None:
    """The verbs go on working on a reopened execution."""
    bench.start(flow(*s("a", "b")))
    bench.do("a", "FAILED")
    bench.engine.retry(bench.workflow_id)
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    assert "b" not in bench.statuses()
    bench.engine.resume(bench.workflow_id)
    finish(bench)


# -- parked executions ---------------------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches a fault in the decider on and off: the end of a task called `bad` breaks an invariant."""
    sound = transitions.retry_delay

    def breaking(*arguments: Any) -> int:
        if arguments[0].retry_delay_ms == 13_000:
            raise InvariantBroken("thirteen is an unlucky number")
        return sound(*arguments)

    def switch_to(on: bool) -> None:
        monkeypatch.setattr(transitions, "retry_delay", breaking if on else sound)

    switch_to(True)
    return switch_to


#: A delay that grows with the attempts is worked out for each; a fixed one is, once for a definition.
UNLUCKY = {
    "retry_count": 3,
    "retry_delay_s": 13,
    "retry_logic": "LINEAR_BACKOFF",
    "poll_timeout_s": 20,
    "timeout_policy": "RETRY",
}


@pytest.mark.trap("tasks-58")
def test_parked_after_three_turns(bench: Bench, broken: Callable[[bool], None]) -> None:
    """A turn that breaks an invariant is rolled back; the third parks the execution, with the reason, still RUNNING."""
    bench.start(flow(simple("bad", UNLUCKY)))
    task = bench.take("bad")
    before = bench.journal()
    for tries in (1, 2):
        with pytest.raises(InvariantBroken, match="thirteen"):
            bench.report(task, "FAILED")
        assert (bench.workflow.broken_turns, bench.workflow.parked) == (tries, None)
    with pytest.raises(InvariantBroken, match="thirteen"):
        bench.report(task, "FAILED")
    workflow = bench.workflow
    assert (workflow.status, workflow.parked) == (WorkflowStatus.RUNNING, "thirteen is an unlucky number")
    assert bench.journal() == before
    # Events for it are kept, and no turn is taken.
    bench.report(task, "FAILED")
    bench.at(100)
    assert bench.journal() == before

    broken(False)
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    workflow = bench.workflow
    assert (workflow.parked, workflow.broken_turns) == (None, 0)
    assert bench.task("bad", 0).status == "FAILED"
    bench.at(113)
    bench.do("bad")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-58")
def test_parked_by_a_timer(bench: Bench, broken: Callable[[bool], None]) -> None:
    """A timer that breaks an invariant parks its execution, neither stops the driver nor spins, and harms no other."""
    bench.start(flow(simple("good", {**UNLUCKY, "retry_delay_s": 12}), name="other"))
    other = bench.workflow_id
    run = bench.start(flow(simple("bad", UNLUCKY)))
    bench.at(40)
    assert "thirteen" in (bench.workflow.parked or "")
    assert [task.attempt for task in bench.engine.get(other).tasks] == [0, 1]
    assert bench.engine.get(other).parked is None
    with pytest.raises(ResultTimeout, match="parked: thirteen"):
        run.result()
    broken(False)
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert [task.status for task in bench.workflow.tasks] == ["TIMED_OUT", "SCHEDULED"]


def test_parked_can_be_terminated(bench: Bench, broken: Callable[[bool], None]) -> None:
    """A parked execution can be terminated without being unparked."""
    bench.start(flow(simple("bad", UNLUCKY)))
    bench.at(40)
    assert bench.workflow.parked is not None
    bench.report(bench.task("bad"), "FAILED", lease=False)
    bench.engine.terminate(bench.workflow_id)
    assert (bench.status_of_workflow(), bench.workflow.parked) == (WorkflowStatus.TERMINATED, None)
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        assert list(view.inbox.events(bench.workflow_id)) == []


def test_parked_again(bench: Bench, broken: Callable[[bool], None]) -> None:
    """Unparked while the fault is still there, the execution is parked again."""
    bench.start(flow(simple("bad", UNLUCKY)))
    bench.at(40)
    with pytest.raises(InvariantBroken, match="thirteen"):
        bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.workflow.parked is not None
    broken(False)
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.workflow.parked is None


def test_paused_and_parked(bench: Bench, broken: Callable[[bool], None]) -> None:
    """A paused execution that is parked is both no more once it was resumed."""
    bench.start(flow(simple("bad", UNLUCKY)))
    task = bench.take("bad")
    bench.engine.pause(bench.workflow_id)
    with bench.engine.backend.writing() as tx:
        tx.executions.park(bench.workflow_id, 3, "a law")
    broken(False)
    bench.engine.resume(bench.workflow_id)
    assert (bench.status_of_workflow(), bench.workflow.parked) == (WorkflowStatus.RUNNING, None)
    bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-58")
def test_any_error_in_a_turn_is_a_broken_invariant(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception nobody foresaw counts like a broken invariant of that execution, and is named."""
    bench.start(flow(*s("a", "b")))
    task = bench.take("a")

    def boom(*_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(worker, "attempt_id", boom)
    for _ in range(3):
        with pytest.raises(InvariantBroken, match=r"w1: ZeroDivisionError: boom"):
            bench.report(task)
    assert "ZeroDivisionError" in (bench.workflow.parked or "")
    monkeypatch.undo()
    bench.engine.resume(bench.workflow_id)
    bench.report(task)
    assert bench.statuses() == {"a": "COMPLETED", "b": "SCHEDULED"}


def test_a_good_turn_resets_the_count(bench: Bench, broken: Callable[[bool], None]) -> None:
    """Broken turns are counted in a row."""
    bench.start(flow(simple("bad", UNLUCKY)))
    task = bench.take("bad")
    for _ in range(3):
        with pytest.raises(InvariantBroken):
            bench.report(task, "FAILED")
        assert bench.engine.tasks.extend_lease(task)
    assert (bench.workflow.parked, bench.workflow.broken_turns) == (None, 0)
    bench.report(task)


def test_listener_can_be_stopped(bench: Bench) -> None:
    """A listener hears what was committed, and nothing after it was taken away."""
    heard: list[str] = []

    def listener(workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        heard.extend(f"{workflow.status} {line.ref} {line.status}" for line in history)

    stop = bench.engine.listen(listener)
    bench.start(flow(noop("n"), *s("a")))
    assert heard == ["RUNNING None RUNNING", "RUNNING n COMPLETED", "RUNNING a SCHEDULED"]
    stop()
    stop()
    bench.do("a")
    assert len(heard) == 3


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "TERMINATED"])
def test_the_variables_of_what_has_ended_stay(bench: Bench, end: str) -> None:
    """Setting them is refused, and nothing of it is kept, neither in the row nor in the history."""
    bench.start(flow(simple("a", {"retry_count": 0}), variables={"v": 1}))
    if end == "TERMINATED":
        bench.engine.terminate(bench.workflow_id)
    else:
        bench.do("a", end)
    before = bench.journal()
    with pytest.raises(Conflict, match=f"the variables of a {end} workflow cannot be changed"):
        bench.engine.update_variables(bench.workflow_id, {"v": 2})
    assert (bench.workflow.variables.fresh(), bench.journal()) == ({"v": 1}, before)


def test_variables_past_their_limit_stay(bench: Bench) -> None:
    """What would be too large is refused as a whole."""
    bench.start(flow(simple("a"), variables={"v": 1}))
    before = bench.journal()
    with pytest.raises(Conflict, match="the variables would have"):
        bench.engine.update_variables(bench.workflow_id, {"v": 2, "w": "x" * 300_000})
    assert (bench.workflow.variables.fresh(), bench.journal()) == ({"v": 1}, before)
