"""Reports: which are taken, which are ignored, which are refused, and what they leave."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, noop, rounds, simple, switch, wait

from conductorlite import Task, TaskResult, TaskStatus, WorkflowStatus
from conductorlite.errors import InvalidInput, StaleLease, TaskNotFound

QUIET = {"retry_count": 1, "retry_delay_s": 5, "poll_timeout_s": 0, "timeout_s": 0, "response_timeout_s": 20}


def assert_ignored(bench: Bench, task: Task, status: str = "COMPLETED", *, lease: bool = True) -> None:
    """The report changes nothing at all, and is answered with the task as stored."""
    before, journal = bench.workflow, bench.journal()
    stored = bench.report(task, status, {"ignored": True}, lease=lease, logs=["ignored"])
    assert bench.workflow == before
    assert bench.journal() == journal
    assert stored == next(row for row in before.tasks if row.task_id == task.task_id)
    assert bench.engine.tasks.logs(task.task_id) == []


@pytest.mark.trap("core-14")
@pytest.mark.parametrize("lease", [True, False])
@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS", "CANCELED"])
def test_late(bench: Bench, status: str, lease: bool) -> None:
    """A report on an attempt that timed out is ignored, whatever it says, with its lease or without."""
    bench.start(flow(simple("t", QUIET)))
    task = bench.take("t")
    bench.at(20)
    assert_ignored(bench, task, status, lease=lease)


@pytest.mark.trap("core-14")
@pytest.mark.parametrize("lease", [True, False])
def test_duplicate(bench: Bench, lease: bool) -> None:
    """A second report on the same attempt is ignored."""
    bench.start(flow(simple("t", QUIET), simple("z")))
    task = bench.do("t", output={"n": 1})
    assert task.status is TaskStatus.COMPLETED
    assert_ignored(bench, task, "FAILED", lease=lease)


def test_late_for_a_superseded_attempt(bench: Bench) -> None:
    """A report on an earlier attempt does not reach the later one, even while that is in progress."""
    bench.start(flow(simple("t", QUIET)))
    first = bench.take("t")
    bench.at(25)
    bench.take("t")
    assert_ignored(bench, first)
    assert bench.task("t").status is TaskStatus.IN_PROGRESS


@pytest.mark.trap("core-14")
@pytest.mark.parametrize("how", ["COMPLETED", "TERMINATED", "FAILED"])
def test_for_an_ended_workflow(bench: Bench, how: str) -> None:
    """A report for an execution that has ended is ignored."""
    bench.start(flow(simple("t", {**QUIET, "retry_count": 0})))
    task = bench.take("t")
    if how == "TERMINATED":
        bench.engine.terminate(bench.workflow_id)
    else:
        bench.report(task, how)
    assert bench.status_of_workflow() == how
    assert_ignored(bench, task)


def test_stale_lease(bench: Bench) -> None:
    """Who put a task back, or lost it, cannot report under the old lease; nothing is changed or logged."""
    bench.start(flow(simple("t", QUIET)))
    first = bench.take("t")
    bench.report(first, "IN_PROGRESS")
    with pytest.raises(StaleLease, match="'t'"):
        bench.report(first, "COMPLETED", logs=["from the first"])
    second = bench.take("t")
    assert second.lease > first.lease
    before = bench.workflow
    with pytest.raises(StaleLease, match="'t'"):
        bench.report(first, "COMPLETED", logs=["from the first"])
    assert bench.workflow == before
    assert bench.engine.tasks.logs(first.task_id) == []
    bench.report(second)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_without_a_lease(bench: Bench) -> None:
    """A report without a lease is taken while the attempt is open, whoever holds it."""
    bench.start(flow(simple("t", QUIET)))
    bench.report(bench.take("t"), lease=False)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED_WITH_TERMINAL_ERROR"])
def test_never_polled(bench: Bench, status: str) -> None:
    """A task that nobody polled can be reported on; it leaves its queue."""
    bench.start(flow(simple("t")))
    bench.report(bench.task("t"), status, lease=False)
    assert bench.statuses() == {"t": status}
    assert bench.poll("t") is None
    assert bench.status_of_workflow().terminal


def test_never_polled_and_put_off(bench: Bench) -> None:
    """A task that nobody polled can be put off: it is offered after the callback, once."""
    bench.start(flow(simple("t", {**QUIET, "poll_timeout_s": 60})))
    bench.report(bench.task("t"), "IN_PROGRESS", lease=False, callback_s=30)
    bench.at(29.999)
    assert bench.poll("t") is None
    bench.at(30)
    bench.do("t")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_has_a_limit_and_is_put_off_has_no_poll_timeout_meanwhile(bench: Bench) -> None:
    """It waits to ask for a slot again, and is offered to nobody."""
    bench.start(flow(simple("t", {**QUIET, "poll_timeout_s": 60, "concurrent_exec_limit": 1})))
    bench.report(bench.task("t"), "IN_PROGRESS", lease=False, callback_s=90)
    with bench.engine.backend.reading() as view:
        assert [event.event_id for event in view.inbox.events(bench.workflow_id)] == ["ADMISSION:t"]
    bench.at(90)
    bench.do("t")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_poll_that_has_read_its_message_before_the_task_was_put_off(bench: Bench) -> None:
    """It takes nothing: the same attempt is offered later."""
    bench.start(flow(simple("t", QUIET)))
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        (message,) = view.queue.offered("t", bench.clock.now(), 1)
    bench.do("t", "IN_PROGRESS", callback_s=30)
    assert bench.engine.core.polling.take_message(message, "v") is None
    assert (bench.task("t").status, bench.task("t").lease) == ("SCHEDULED", 0)
    bench.at(30)
    assert bench.take("t").poll_count == 2


@pytest.mark.trap("core-10")
def test_in_progress_without_a_callback(bench: Bench) -> None:
    """IN_PROGRESS with callback 0 puts the task back at once, for any worker, with what was reported so far."""
    bench.start(flow(simple("t", QUIET)))
    first = bench.take("t")
    stored = bench.report(first, "IN_PROGRESS", {"done": 10}, reason="half", worker_id="w7")
    assert (stored.status, stored.lease, stored.output_data) == ("SCHEDULED", 0, {"done": 10})
    assert (stored.reason, stored.worker_id) == ("half", "w7")
    second = bench.take("t")
    assert (second.attempt, second.poll_count) == (0, 2)
    assert second.output_data == {"done": 10}


@pytest.mark.trap("core-10", "core-40", "tasks-70")
def test_in_progress_with_a_callback(bench: Bench) -> None:
    """IN_PROGRESS with a callback hides the task that long, to the millisecond."""
    bench.start(flow(simple("t", QUIET)))
    stored = bench.do("t", "IN_PROGRESS", callback_s=1.5)
    assert stored.callback_after_ms == 1_500
    bench.at(1.499)
    assert bench.poll("t") is None
    bench.at(1.5)
    assert bench.take("t").callback_after_ms == 0


@pytest.mark.trap("core-13", "tasks-70")
def test_outputs_are_replaced(bench: Bench) -> None:
    """Each report replaces the output of the one before."""
    bench.start(flow(simple("t", QUIET)))
    bench.do("t", "IN_PROGRESS", {"a": 1})
    bench.do("t", "COMPLETED", {"b": 2})
    assert bench.task("t").output_data == {"b": 2}


@pytest.mark.trap("core-20", "core-21")
def test_canceled(bench: Bench) -> None:
    """A worker that reports CANCELED ends the workflow TERMINATED, without a retry."""
    bench.start(flow(simple("t", QUIET)))
    bench.do("t", "CANCELED", reason="gone")
    workflow = bench.workflow
    assert workflow.status is WorkflowStatus.TERMINATED
    assert "'gone'" in (workflow.conductor_reason or "")
    assert bench.statuses() == {"t": "CANCELED"}


@pytest.mark.trap("core-17")
def test_reports_while_paused(bench: Bench) -> None:
    """A paused workflow takes reports; what follows from them waits."""
    bench.start(flow(simple("t", QUIET), simple("z")))
    task = bench.take("t")
    bench.engine.pause(bench.workflow_id)
    bench.report(task, output={"n": 1})
    assert bench.statuses() == {"t": "COMPLETED"}
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.statuses() == {"t": "COMPLETED", "z": "SCHEDULED"}


def test_after_the_retry_verb(bench: Bench) -> None:
    """A report of before the retry verb reaches neither the superseded attempt nor the new one."""
    bench.start(flow(simple("t", {**QUIET, "retry_count": 0})))
    first = bench.take("t")
    bench.engine.terminate(bench.workflow_id)
    bench.engine.retry(bench.workflow_id)
    assert_ignored(bench, first)
    second = bench.take("t")
    assert_ignored(bench, first)
    assert (second.attempt, second.generation) == (1, 1)
    bench.report(second)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_unknown_task(bench: Bench) -> None:
    """A task id that does not exist, or belongs to another execution, is TaskNotFound naming it."""
    bench.start(flow(simple("t")))
    task = bench.task("t")
    result = TaskResult(workflow_id=bench.workflow_id, task_id="nobody", status=TaskStatus.COMPLETED)
    with pytest.raises(TaskNotFound, match="nobody"):
        bench.engine.update_task(result)
    with pytest.raises(TaskNotFound, match=task.task_id):
        bench.engine.update_task(TaskResult(workflow_id="w99", task_id=task.task_id, status=TaskStatus.COMPLETED))
    with pytest.raises(TaskNotFound, match="nobody"):
        bench.engine.tasks.get("nobody")
    assert bench.statuses() == {"t": "SCHEDULED"}


@pytest.mark.parametrize("status", ["SCHEDULED", "TIMED_OUT", "SKIPPED", "COMPLETED_WITH_ERRORS"])
def test_what_cannot_be_reported(bench: Bench, status: str) -> None:
    """Statuses that only the engine gives cannot be reported."""
    bench.start(flow(simple("t")))
    with pytest.raises(InvalidInput, match=status):
        bench.do("t", status)
    assert bench.statuses() == {"t": "IN_PROGRESS"}


def test_negative_callback(bench: Bench) -> None:
    """A negative callback is refused."""
    bench.start(flow(simple("t")))
    with pytest.raises(InvalidInput, match="-1000"):
        bench.do("t", "IN_PROGRESS", callback_s=-1)


def test_logs(bench: Bench) -> None:
    """Log lines are kept with the attempt, in order, with their instants."""
    bench.start(flow(simple("t", QUIET)))
    task = bench.take("t")
    bench.engine.tasks.log(task, "one")
    bench.at(2)
    bench.report(task, "IN_PROGRESS", logs=["two", "three"])
    start = bench.clock.now() - 2_000
    assert [(line.at - start, line.text) for line in bench.engine.tasks.logs(task.task_id)] == [
        (0, "one"),
        (2_000, "two"),
        (2_000, "three"),
    ]


def test_traceback_is_kept_with_the_attempt(bench: Bench) -> None:
    """The traceback of a failure stays with the attempt that failed, and is not handed on to the retry."""
    bench.start(flow(simple("t", QUIET)))
    bench.do("t", "FAILED", reason="x", traceback="Traceback: here")
    assert bench.task("t", 0).traceback == "Traceback: here"
    assert (bench.task("t", 1).traceback, bench.task("t", 1).output_data) == (None, {})


def test_reason_is_truncated(bench: Bench) -> None:
    """A reason is cut after 500 characters, as in Conductor."""
    bench.start(flow(simple("t", QUIET)))
    bench.do("t", "FAILED", reason="x" * 499 + "yz")
    assert bench.task("t", 0).reason == "x" * 499 + "y"


def test_large_output(bench: Bench) -> None:
    """A large output is stored once and comes back whole in the task, in its successor's input and in the history."""
    text = "ö" * 5_000
    bench.start(flow(simple("t", QUIET), simple("z", QUIET, input_parameters={"all": "${t.output.text}"})))
    bench.do("t", output={"text": text})
    assert bench.task("t").output_data == {"text": text}
    assert bench.take("z").input_data == {"all": text}
    ended = [line for line in bench.engine.history(bench.workflow_id) if line.ref == "t" and line.status == "COMPLETED"]
    assert ended[0].payload is not None
    assert ended[0].payload.value == {"text": text}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED_WITH_TERMINAL_ERROR"])
def test_on_a_wait(bench: Bench, status: str) -> None:
    """A WAIT is ended by a report, with its output, and its timer goes."""
    bench.start(flow(wait("w", duration="1h"), simple("z")))
    bench.report(bench.task("w"), status, {"who": "me"}, lease=False)
    assert bench.task("w").output_data == {"who": "me"}
    assert not [entry for entry in bench.engine.admin.agenda() if entry.ref == "w"]


def test_in_progress_on_a_wait(bench: Bench) -> None:
    """IN_PROGRESS on a WAIT keeps it waiting for the same instant, with the output so far."""
    bench.start(flow(wait("w", duration="60s")))
    bench.at(10)
    bench.report(bench.task("w"), "IN_PROGRESS", {"seen": 1}, lease=False)
    assert (bench.statuses(), bench.task("w").output_data) == ({"w": "IN_PROGRESS"}, {"seen": 1})
    bench.at(60)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_on_an_operator(bench: Bench) -> None:
    """An operator that is in progress can be ended by a report; what is open inside it must not be left behind."""
    bench.start(flow(rounds("l", [wait("w")], 2), simple("z")))
    bench.report(bench.task("l"), "FAILED", lease=False)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.statuses() == {"l": "FAILED", "w__1": "CANCELED"}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_on_a_running_loop(bench: Bench, status: str) -> None:
    """A loop that is ended from outside takes what is open inside it along."""
    loop = rounds("l", [wait("w"), rounds("m", [wait("v")], 2)], 2, optional=True)
    bench.start(flow(loop, simple("z")))
    bench.report(bench.task("w__1"), lease=False)
    assert bench.statuses()["v__1__1"] == "IN_PROGRESS"
    bench.report(bench.task("l"), status, lease=False)
    assert bench.statuses()["v__1__1"] == "CANCELED"
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_poll_order(bench: Bench) -> None:
    """Higher priorities come first, then those offered longest; count bounds how many."""
    definition = flow(simple("t"))
    for second, priority in enumerate([0, 5, 0, 99]):
        bench.at(second)
        bench.start(definition, {"n": second}, priority=priority)
    bench.engine.settle()
    taken = [task.workflow_id for task in bench.engine.poll("t", count=3)]
    assert taken == ["w4", "w2", "w1"]
    assert [task.workflow_id for task in bench.engine.poll("t", count=10)] == ["w3"]
    assert bench.engine.poll("t", timeout="1h") == []
    with pytest.raises(InvalidInput, match="0"):
        bench.engine.poll("t", count=0)


def test_poll_shows_the_worker(bench: Bench) -> None:
    """A polled task shows who has it, since when, and how often it was polled."""
    bench.start(flow(simple("t")))
    bench.at(3)
    task = bench.poll("t", worker_id="me")
    assert task is not None
    assert (task.worker_id, task.poll_count, task.started_at) == ("me", 1, bench.clock.now())
    assert task.lease > 0
    assert task == bench.task("t")


def test_on_a_task_whose_round_is_dropped_at_once(bench: Bench) -> None:
    """A report after which the loop goes on and keeps the round no longer is answered with what was reported."""
    body = switch("s", {"1": [simple("a", input_parameters={"big": "${workflow.input.big}"})]}, [noop("n")],
                  value="${l.output.iteration}")  # fmt: skip
    bench.start(flow(rounds("l", [body], 3, input_parameters={"keepLastN": 1})), {"big": "x" * 5_000})
    answer = bench.do("a", output={"x": 1})
    assert (answer.ref, answer.status, answer.output_data) == ("a__1", TaskStatus.COMPLETED, {"x": 1})
    assert answer.input_data == {"big": "x" * 5_000}
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
