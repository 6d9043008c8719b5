"""Timeouts: when each of them fires, to the millisecond, and what its policy makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from engine_kit import T0, Bench, NewBench, flow, fork, join, noop, rounds, simple, switch, task_def, wait
from rerun_kit import sub

from conductorlite import Semantics, TaskStatus, WorkflowStatus, WorkflowTimeoutPolicy
from conductorlite.engine.config import EngineConfig
from conductorlite.errors import StaleLease
from conductorlite.runtime.engine import Engine

#: Per timeout: its option, and what is done at second 0 for it to be running; each is set to 20 s.
KINDS: dict[str, tuple[str, Callable[[Bench], object]]] = {
    "poll": ("poll_timeout_s", lambda bench: None),
    "response": ("response_timeout_s", lambda bench: bench.take("t")),
    "task": ("timeout_s", lambda bench: bench.take("t")),
    "total": ("total_timeout_s", lambda bench: bench.take("t")),
}


def begin(bench: Bench, kind: str, policy: str, **fields: Any) -> None:
    """An execution whose task `t` will run into that timeout at second 20."""
    option, step = KINDS[kind]
    others = {"poll_timeout_s": 0, "response_timeout_s": 0, "timeout_s": 0}
    definition = {**others, "retry_count": 1, "retry_delay_s": 5, option: 20, "timeout_policy": policy}
    bench.start(flow(simple("t", definition, **fields), simple("z", others)))
    step(bench)
    bench.at(19.999)
    assert bench.statuses()["t"] in ("SCHEDULED", "IN_PROGRESS"), "fired early"
    bench.at(20)


@pytest.mark.trap("core-5")
@pytest.mark.parametrize("kind", ["poll", "task"])
def test_retry(bench: Bench, kind: str) -> None:
    """RETRY: the attempt is TIMED_OUT at 20 s, not a millisecond early, and tried again after its delay."""
    begin(bench, kind, "RETRY")
    assert bench.journal_of("t")[-2:] == ["20 t TIMED_OUT", "20 t#1 SCHEDULED"]
    assert "20 s" in (bench.task("t", 0).reason or "")
    bench.at(24.999)
    assert bench.poll("t") is None
    bench.at(25)
    bench.do("t")
    assert bench.statuses() == {"t": "COMPLETED", "z": "SCHEDULED"}


@pytest.mark.trap("core-21")
@pytest.mark.parametrize("kind", ["poll", "task"])
def test_retry_exhausted(bench: Bench, kind: str) -> None:
    """RETRY without budget left ends the workflow TIMED_OUT."""
    begin(bench, kind, "RETRY", retry_count=0)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT
    assert bench.workflow.failed_task_id == bench.task("t").task_id
    assert bench.workflow.failed_refs == ("t",)


def test_total_timeout_leaves_nothing_to_retry(bench: Bench) -> None:
    """A total timeout under RETRY finds the budget of time used up: the workflow is TIMED_OUT."""
    begin(bench, "total", "RETRY")
    assert bench.journal()[-2:] == ["20 t TIMED_OUT", "20 workflow TIMED_OUT"]


@pytest.mark.trap("core-5", "tasks-73")
@pytest.mark.parametrize("kind", ["poll", "task", "total"])
@pytest.mark.parametrize("flags", [{}, {"optional": True}, {"permissive": True}])
def test_time_out_wf(bench: Bench, kind: str, flags: dict[str, Any]) -> None:
    """TIME_OUT_WF ends the workflow at once, whatever budget or flags the task has; the reason is the timeout's own."""
    begin(bench, kind, "TIME_OUT_WF", **flags)
    workflow = bench.workflow
    task = bench.task("t")
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TIMED_OUT, task.reason)
    assert (workflow.conductor_reason, task.task_id in (task.reason or "")) == (task.conductor_reason, False)
    assert bench.statuses() == {"t": "TIMED_OUT"}
    assert workflow.failed_task_id == bench.task("t").task_id


def test_time_out_wf_cancels_the_rest(bench: Bench) -> None:
    """What else is open is canceled."""
    bench.start(flow(fork("f", [simple("t", {"timeout_s": 20})], [simple("b")]), join("j", "t", "b")))
    bench.take("t")
    bench.at(20)
    assert bench.statuses() == {"f": "COMPLETED", "t": "TIMED_OUT", "b": "CANCELED", "j": "CANCELED"}
    assert bench.poll("b") is None


@pytest.mark.trap("core-5", "core-6")
@pytest.mark.parametrize("policy", ["RETRY", "TIME_OUT_WF", "ALERT_ONLY"])
def test_response_timeout_ignores_the_policy(bench: Bench, policy: str) -> None:
    """A response timeout means a dead worker: the retry rules apply, whatever the policy says."""
    begin(bench, "response", policy)
    assert bench.journal_of("t")[-2:] == ["20 t TIMED_OUT", "20 t#1 SCHEDULED"]


@pytest.mark.parametrize(("kind", "name"), [("poll", "poll_timeout"), ("task", "timeout"), ("total", "total_timeout")])
def test_alert_only(bench: Bench, kind: str, name: str) -> None:
    """ALERT_ONLY writes one line into the history, once, and the task goes on."""
    begin(bench, kind, "ALERT_ONLY")
    bench.at(200)
    for _ in range(3):
        bench.engine.admin.decide(bench.workflow_id)
    assert [line for line in bench.journal() if "ALERT" in line] == [f"20 t ALERT {name}"]
    if kind == "poll":
        bench.do("t")
    else:
        bench.report(bench.task("t"))
    assert bench.statuses() == {"t": "COMPLETED", "z": "SCHEDULED"}


def test_listeners_hear_an_alert_once(bench: Bench) -> None:
    """Who watches the engine is told of an alert exactly once."""
    heard: list[str] = []
    bench.engine.listen(lambda _, history: heard.extend(line.status for line in history if line.kind == "ALERT"))
    begin(bench, "task", "ALERT_ONLY")
    bench.at(100)
    assert heard == ["timeout"]


def test_total_alert_on_a_retry(bench: Bench) -> None:
    """A total timeout that has passed with an alert is not announced again by the next attempt."""
    definition = {"total_timeout_s": 20, "timeout_policy": "ALERT_ONLY", "retry_delay_s": 1, "poll_timeout_s": 0}
    bench.start(flow(simple("t", {**definition, "response_timeout_s": 0}, optional=True), simple("z")))
    task = bench.take("t")
    bench.at(20)
    bench.report(task, "FAILED")
    bench.at(100)
    assert [line for line in bench.journal() if "ALERT" in line] == ["20 t ALERT total_timeout"]


# -- from when a timeout counts ------------------------------------------------------------------------------


@pytest.mark.trap("core-9")
def test_poll_timeout_counts_from_the_offer(bench: Bench) -> None:
    """With a start delay the poll timeout begins when the task is offered, once."""
    bench.start(flow(simple("t", {"poll_timeout_s": 20, "timeout_policy": "RETRY", "retry_count": 0}, start_delay_ms=7_000)))
    bench.at(6.999)
    assert bench.poll("t") is None
    bench.at(26.999)
    assert bench.statuses() == {"t": "SCHEDULED"}
    bench.at(27)
    assert bench.statuses() == {"t": "TIMED_OUT"}


@pytest.mark.trap("core-11", "core-12")
def test_poll_timeout_after_a_callback(bench: Bench) -> None:
    """A task that puts itself off is offered anew: its poll timeout counts from there."""
    bench.start(flow(simple("t", {"poll_timeout_s": 20, "timeout_policy": "RETRY", "retry_count": 0})))
    bench.at(19)
    bench.do("t", "IN_PROGRESS", callback_s=30)
    bench.at(68.999)
    assert bench.statuses() == {"t": "SCHEDULED"}
    bench.at(69)
    assert bench.statuses() == {"t": "TIMED_OUT"}


@pytest.mark.trap("core-12")
def test_response_timeout_counts_from_each_poll(bench: Bench) -> None:
    """While a task waits out its callback nobody has to respond; each poll starts the response timeout again."""
    bench.start(flow(simple("t", {"response_timeout_s": 20, "timeout_s": 0, "retry_count": 0})))
    bench.do("t", "IN_PROGRESS", callback_s=100)
    bench.at(100)
    bench.take("t")
    bench.at(119.999)
    assert bench.statuses() == {"t": "IN_PROGRESS"}
    bench.at(120)
    assert bench.statuses() == {"t": "TIMED_OUT"}


@pytest.mark.trap("core-9")
def test_task_timeout_counts_from_the_first_poll(bench: Bench) -> None:
    """timeoutSeconds counts from the first poll of an attempt, and anew for the next attempt, without its delay."""
    definition = {"timeout_s": 20, "timeout_policy": "RETRY", "retry_count": 1, "retry_delay_s": 5}
    bench.start(flow(simple("t", definition)))
    bench.at(100)
    bench.do("t", "FAILED")
    bench.at(105)
    bench.take("t")
    bench.at(124.999)
    assert bench.statuses() == {"t": "IN_PROGRESS"}
    bench.at(125)
    assert bench.statuses() == {"t": "TIMED_OUT"}


@pytest.mark.parametrize("kind", ["SUB_WORKFLOW", "START_WORKFLOW"])
def test_a_start_delay_is_no_part_of_the_task_timeout(bench: Bench, kind: str) -> None:
    """The timeout of a task that begins an execution later counts from when it is to begin."""
    definition = task_def("c", timeout_s=2, timeout_policy="RETRY", retry_count=0)
    late = {"start_delay_ms": 5_000, "task_definition": definition}
    if kind == "SUB_WORKFLOW":
        bench.start(flow(attrs.evolve(sub("c", flow(wait("w"), name="one")), **late)))
    else:
        bench.engine.register(flow(noop("n"), name="one"))
        starting = {"startWorkflow": {"name": "one", "version": 1}}
        bench.start(flow(attrs.evolve(simple("c"), type=kind, input_parameters=starting, **late)))
    assert bench.task("c").timeout_at == T0 + 7_000
    bench.at(6.999)
    assert bench.statuses() == {"c": "IN_PROGRESS" if kind == "SUB_WORKFLOW" else "COMPLETED"}
    bench.at(7)
    assert bench.statuses() == {"c": "TIMED_OUT" if kind == "SUB_WORKFLOW" else "COMPLETED"}


def test_task_timeout_while_waiting_for_a_callback(bench: Bench) -> None:
    """The task's timeout also ends an attempt that waits in its queue, and takes it out."""
    bench.start(flow(simple("t", {"timeout_s": 20, "timeout_policy": "RETRY", "retry_count": 0})))
    bench.do("t", "IN_PROGRESS", callback_s=15)
    bench.at(20)
    assert bench.statuses() == {"t": "TIMED_OUT"}
    assert bench.poll("t") is None


def test_task_timeout_before_response_timeout(bench: Bench) -> None:
    """Due at the same instant, the task's timeout and its policy come before the response timeout, as in Conductor."""
    definition = {"timeout_s": 20, "response_timeout_s": 20, "timeout_policy": "TIME_OUT_WF", "retry_count": 3}
    bench.start(flow(simple("t", definition)))
    bench.take("t")
    bench.at(20)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


def test_task_timeout_below_the_default_response_timeout(bench: Bench) -> None:
    """A short timeoutSeconds alone is not undercut by the default of the response timeout: its policy decides."""
    bench.start(flow(simple("t", {"timeout_s": 20, "timeout_policy": "TIME_OUT_WF", "retry_count": 3})))
    bench.take("t")
    bench.at(20)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


@pytest.mark.parametrize(
    ("timeout_s", "response_s", "expected_s"),
    [
        (20, None, 600),  # nobody wrote it to be shorter
        (1_000, None, 600),
        (0, None, 600),
        (20, 20, 20),
        (20, 40, 40),
        (20, 10, 10),
        (0, 30, 30),
    ],
)
def test_a_response_timeout_is_its_own_beside_one_that_alerts(
    bench: Bench, timeout_s: int, response_s: int | None, expected_s: int
) -> None:
    """Past an alert of the timeout a dead worker is found as if there were none, whether that was written or is the default."""
    options: dict[str, Any] = {"timeout_s": timeout_s, "timeout_policy": "ALERT_ONLY", "retry_count": 0}
    bench.start(flow(simple("t", options if response_s is None else {**options, "response_timeout_s": response_s})))
    bench.take("t")
    assert bench.task("t").response_timeout_at == T0 + expected_s * 1000
    bench.at(expected_s - 0.001)
    assert bench.task("t").status is TaskStatus.IN_PROGRESS
    bench.at(expected_s)
    assert bench.task("t").status is TaskStatus.TIMED_OUT


# -- signs of life -------------------------------------------------------------------------------------------


@pytest.mark.trap("core-10")
def test_extend_lease(bench: Bench) -> None:
    """A sign of life starts the response timeout again, and nothing else: the task's timeout stays."""
    bench.start(flow(simple("t", {"response_timeout_s": 20, "timeout_s": 50, "timeout_policy": "RETRY", "retry_count": 0})))
    task = bench.take("t")
    for second in (15, 30, 45):
        bench.at(second)
        assert bench.engine.tasks.extend_lease(task) is True
    assert bench.journal()[-1] == "0 t IN_PROGRESS"
    bench.at(49.999)
    assert bench.statuses() == {"t": "IN_PROGRESS"}
    bench.at(50)
    assert bench.statuses() == {"t": "TIMED_OUT"}
    assert bench.engine.tasks.extend_lease(task) is False


def test_extend_lease_once(bench: Bench) -> None:
    """After the last sign of life the whole response timeout passes, and no more."""
    bench.start(flow(simple("t", {"response_timeout_s": 20, "retry_count": 0})))
    task = bench.take("t")
    bench.at(19.999)
    assert bench.engine.tasks.extend_lease(task)
    bench.at(39.998)
    assert bench.statuses() == {"t": "IN_PROGRESS"}
    bench.at(39.999)
    assert bench.statuses() == {"t": "TIMED_OUT"}


def test_extend_lease_of_another(bench: Bench) -> None:
    """Who lost the task to another worker cannot extend its lease; while nobody holds it the answer is False."""
    bench.start(flow(simple("t", {"response_timeout_s": 20})))
    mine = bench.take("t")
    bench.report(mine, "IN_PROGRESS")
    assert bench.engine.tasks.extend_lease(mine) is False
    bench.take("t")
    with pytest.raises(StaleLease, match="'t'"):
        bench.engine.tasks.extend_lease(mine)


# -- the workflow's own timeout ------------------------------------------------------------------------------


def timed(*tasks: Any, policy: str = "TIME_OUT_WF") -> Any:
    """A workflow with a timeout of 60 s, of which tasks never time out."""
    return flow(*tasks, timeout_ms=60_000, timeout_policy=WorkflowTimeoutPolicy(policy))


PATIENT = {"poll_timeout_s": 0, "response_timeout_s": 0, "timeout_s": 0, "retry_count": 0}


@pytest.mark.trap("core-8")
def test_workflow_timeout(bench: Bench) -> None:
    """TIME_OUT_WF ends the workflow to the second; no task is blamed, open ones are canceled."""
    bench.start(timed(simple("t", PATIENT)))
    bench.take("t")
    bench.at(59.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(60)
    workflow = bench.workflow
    assert (workflow.status, workflow.failed_task_id) == (WorkflowStatus.TIMED_OUT, None)
    assert "60 s" in (workflow.reason or "")
    assert bench.statuses() == {"t": "CANCELED"}


def test_workflow_timeout_alert(bench: Bench) -> None:
    """ALERT_ONLY writes one line, and the workflow goes on."""
    bench.start(timed(simple("t", PATIENT), policy="ALERT_ONLY"))
    task = bench.take("t")
    bench.at(500)
    assert [line for line in bench.journal() if "ALERT" in line] == ["60 workflow ALERT workflow_timeout"]
    bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_workflow_timeout_without_a_policy(bench: Bench) -> None:
    """Without a policy the workflow only alerts, as in Conductor."""
    bench.start(flow(simple("t", PATIENT), timeout_ms=60_000))
    bench.at(61)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    assert bench.journal()[-1] == "60 workflow ALERT workflow_timeout"


def test_workflow_timeout_counts_from_a_delayed_start(bench: Bench) -> None:
    """The workflow's clock starts with its first task."""
    bench.start(timed(simple("t", PATIENT)), delay="100s")
    bench.at(159.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(160)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


def test_workflow_timeout_while_paused(bench: Bench) -> None:
    """A paused workflow times out like a running one."""
    bench.start(timed(simple("t", PATIENT)))
    bench.engine.pause(bench.workflow_id)
    bench.at(60)
    assert bench.journal()[-3:] == ["0 workflow PAUSED", "60 t CANCELED", "60 workflow TIMED_OUT"]


@pytest.mark.trap("core-18")
def test_workflow_timeout_restarts_with_resume(bench: Bench) -> None:
    """Resuming starts the workflow's clock again."""
    bench.start(timed(simple("t", PATIENT)))
    bench.at(50)
    bench.engine.pause(bench.workflow_id)
    bench.at(55)
    bench.engine.resume(bench.workflow_id)
    bench.at(114.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(115)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


@pytest.mark.trap("core-18")
def test_workflow_timeout_restarts_with_retry(bench: Bench) -> None:
    """Retrying starts the workflow's clock again, also after it had run out."""
    bench.start(timed(simple("t", PATIENT)))
    bench.at(60)
    bench.engine.retry(bench.workflow_id)
    bench.at(119.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(120)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


def test_workflow_timeout_of_an_ended_workflow(bench: Bench) -> None:
    """The clock of a workflow that ended is taken down with it."""
    bench.start(timed(simple("t", PATIENT)))
    bench.do("t")
    assert bench.engine.admin.agenda() == []


# -- while paused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS))
def test_task_timeouts_wait_for_resume(bench: Bench, kind: str) -> None:
    """A deadline that passes while paused takes effect when resumed, not before."""
    option, step = KINDS[kind]
    bench.start(flow(simple("t", {**PATIENT, option: 20, "timeout_policy": "TIME_OUT_WF"})))
    step(bench)
    bench.engine.pause(bench.workflow_id)
    bench.at(50)
    assert bench.statuses()["t"] in ("SCHEDULED", "IN_PROGRESS")
    assert bench.engine.admin.check() == []
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.journal()[-2:] == ["50 t TIMED_OUT", "50 workflow TIMED_OUT"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_deadline_still_ahead_at_resume(bench: Bench, kind: str) -> None:
    """A pause does not stretch deadlines: one that is still ahead fires at its own instant."""
    option, step = KINDS[kind]
    bench.start(flow(simple("t", {**PATIENT, option: 20, "timeout_policy": "TIME_OUT_WF"})))
    step(bench)
    bench.engine.pause(bench.workflow_id)
    bench.at(10)
    bench.engine.resume(bench.workflow_id)
    bench.at(19.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(20)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


# -- defaults ------------------------------------------------------------------------------------------------


def test_orkes_defaults(new_bench: NewBench) -> None:
    """Orkes: response 600 s, poll 3600 s, task 3600 s."""
    bench = new_bench(semantics=Semantics.ORKES)
    bench.start(flow(simple("t")))
    start = bench.clock.now()
    assert bench.task("t").poll_timeout_at == start + 3_600_000
    task = bench.take("t")
    assert (task.response_timeout_at, task.timeout_at) == (start + 600_000, start + 3_600_000)


@pytest.mark.trap("core-27")
def test_oss_defaults(new_bench: NewBench) -> None:
    """Conductor OSS: response 3600 s, no poll and no task timeout."""
    bench = new_bench(semantics=Semantics.OSS)
    bench.start(flow(simple("t")))
    start = bench.clock.now()
    assert bench.task("t").poll_timeout_at is None
    task = bench.take("t")
    assert (task.response_timeout_at, task.timeout_at) == (start + 3_600_000, None)


@pytest.mark.trap("core-16")
@pytest.mark.parametrize("semantics", list(Semantics))
def test_zero_means_never(new_bench: NewBench, semantics: Semantics) -> None:
    """A timeout of 0 is none, under either semantics."""
    bench = new_bench(semantics=semantics)
    bench.start(flow(simple("t", PATIENT)))
    bench.take("t")
    assert bench.engine.admin.agenda() == []


def test_semantics_stay_with_the_execution(new_bench: NewBench) -> None:
    """An execution keeps the semantics it was started with, also under an engine that has others."""
    bench = new_bench(semantics=Semantics.OSS)
    bench.start(flow(simple("t", {"retry_delay_s": 10, "retry_logic": "EXPONENTIAL_BACKOFF", "backoff_scale_factor": 5})))
    bench.engine = Engine(bench.engine.backend, clock=bench.clock, config=EngineConfig(semantics=Semantics.ORKES))
    bench.do("t", "FAILED")
    assert bench.task("t").due_at == bench.clock.now() + 10_000


@pytest.mark.trap("tasks-7")
def test_operators_never_time_out_by_themselves(bench: Bench) -> None:
    """Without a definition of their name operators have no timers but the end of a WAIT, whatever the semantics."""
    tasks = [noop("n"), switch("s", {"x": [noop("in")]}), rounds("l", [noop("body")], 2), wait("w")]
    bench.start(flow(fork("f", [noop("a")], tasks), join("j", "a", "w")), {"case": "x"})
    assert bench.engine.admin.agenda() == []
    assert bench.statuses()["w"] == "IN_PROGRESS"


@pytest.mark.trap("tasks-7")
def test_an_operator_with_a_definition(bench: Bench) -> None:
    """A WAIT whose name has a registered definition has the timeouts written there."""
    bench.engine.register(task_def("w", timeout_s=20, timeout_policy="RETRY", retry_count=0))
    bench.start(flow(wait("w")))
    bench.at(19.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(20)
    assert bench.statuses() == {"w": "TIMED_OUT"}
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


@pytest.mark.parametrize("kind", ["JOIN", "DO_WHILE"])
def test_operators_with_a_definition_time_out(bench: Bench, kind: str) -> None:
    """A JOIN and a DO_WHILE whose own definition has a timeout end TIMED_OUT at it, with what is inside canceled."""
    limit = task_def("limited", timeout_s=10, timeout_policy="TIME_OUT_WF")
    if kind == "JOIN":
        tasks = [fork("f", [simple("a")]), join("it", "a", task_definition=limit)]
    else:
        tasks = [rounds("it", [simple("a")], 3, task_definition=limit)]
    bench.start(flow(*tasks))
    bench.at(9.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(10)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT
    statuses = {task.base_ref: task.status for task in bench.workflow.tasks}
    assert statuses["it"] is TaskStatus.TIMED_OUT
    assert statuses["a"] is TaskStatus.CANCELED


@pytest.mark.parametrize("polled", [True, False])
def test_a_task_that_is_put_back_has_no_deadline_but_its_poll(bench: Bench, polled: bool) -> None:
    """Neither that of its last worker, nor that of the offer before: one begins with the new offer."""
    bench.start(flow(simple("t", {"response_timeout_s": 10, "poll_timeout_s": 100, "timeout_s": 0})))
    task = bench.take("t") if polled else bench.task("t")
    bench.at(5)
    bench.report(task, "IN_PROGRESS", callback_s=20, lease=polled)
    assert [(entry.kind, entry.at) for entry in bench.engine.admin.agenda()] == [
        ("OFFERED", T0 + 25_000),
        ("POLL_TIMEOUT", T0 + 125_000),
    ]
    bench.at(24)
    assert bench.poll("t") is None
    bench.at(25)
    again = bench.take("t")
    assert (again.lease > task.lease, again.started_at) == (True, T0 + (0 if polled else 25_000))


def test_what_was_put_back_is_nobodys(bench: Bench) -> None:
    """Its last worker is told that it does not hold the task, before and after somebody else has taken it."""
    bench.start(flow(simple("t", {"response_timeout_s": 10})))
    task = bench.take("t")
    bench.report(task, "IN_PROGRESS")
    with pytest.raises(StaleLease):
        bench.report(task)
    other = bench.take("t")
    with pytest.raises(StaleLease):
        bench.report(task)
    with pytest.raises(StaleLease):
        bench.engine.tasks.extend_lease(task)
    bench.report(other)
    assert bench.task("t").status is TaskStatus.COMPLETED


def test_time_may_pass_in_many_small_steps(bench: Bench) -> None:
    """A timer that is far off is not taken for one that no turn takes, however often time is moved before it."""
    bench.start(flow(simple("a", {"response_timeout_ms": 3_600_000, "retry_count": 0})))
    bench.take("a")
    for _ in range(300):
        bench.engine.advance("1s")
    assert bench.task("a").status is TaskStatus.IN_PROGRESS
    bench.at(3_601)
    assert bench.task("a").status is TaskStatus.TIMED_OUT
