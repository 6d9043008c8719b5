"""Automatic retries: delays to the second, budgets, and what becomes of a task that failed for good."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from engine_kit import T0, Bench, NewBench, flow, simple, task_def
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import RetryLogic, Semantics, TaskDef, WorkflowStatus, WorkflowTask
from conductorlite.model.policies import LONGEST_DELAY_MS, TaskPolicy, jitter, retry_delay, task_policy


def fail_until_the_end(bench: Bench, status: str = "FAILED") -> list[float]:
    """Fail every attempt at `t` the moment it is offered; the seconds at which that was."""
    seconds: list[float] = []
    while bench.status_of_workflow() is WorkflowStatus.RUNNING:
        task = bench.poll("t")
        if task is None:
            at = bench.task("t").due_at
            bench.at((at - T0 - 1) / 1000)
            assert bench.poll("t") is None, "offered a millisecond early"
            bench.at((at - T0) / 1000)
            continue
        seconds.append(bench.second)
        bench.report(task, status, reason="no")
    return seconds


ORKES, OSS = Semantics.ORKES, Semantics.OSS


@pytest.mark.trap("core-2", "core-3")
@pytest.mark.parametrize(
    ("semantics", "logic", "scale", "seconds"),
    [
        (ORKES, "FIXED", 3, [0, 10, 20, 30]),
        (OSS, "FIXED", 3, [0, 10, 20, 30]),
        (ORKES, "LINEAR_BACKOFF", 1, [0, 10, 30, 60]),
        (OSS, "LINEAR_BACKOFF", 1, [0, 10, 30, 60]),
        (ORKES, "LINEAR_BACKOFF", 2, [0, 20, 60, 120]),
        (OSS, "LINEAR_BACKOFF", 2, [0, 20, 60, 120]),
        (ORKES, "EXPONENTIAL_BACKOFF", 1, [0, 10, 20, 30]),
        (ORKES, "EXPONENTIAL_BACKOFF", 2, [0, 20, 60, 140]),
        (ORKES, "EXPONENTIAL_BACKOFF", 3, [0, 30, 120, 390]),
        (OSS, "EXPONENTIAL_BACKOFF", 1, [0, 10, 30, 70]),
        (OSS, "EXPONENTIAL_BACKOFF", 3, [0, 10, 30, 70]),
    ],
)
def test_delays(new_bench: NewBench, semantics: Semantics, logic: str, scale: int, seconds: list[float]) -> None:
    """Each logic waits exactly what its formula says, and retryCount 3 makes four attempts."""
    bench = new_bench(semantics=semantics)
    definition = {"retry_count": 3, "retry_logic": logic, "retry_delay_s": 10, "backoff_scale_factor": scale}
    bench.start(flow(simple("t", definition)))
    assert fail_until_the_end(bench) == seconds
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("core-3")
@pytest.mark.parametrize(
    ("logic", "seconds"),
    [
        ("FIXED", [0, 7, 14, 21]),
        ("LINEAR_BACKOFF", [0, 7, 14, 21]),
        ("EXPONENTIAL_BACKOFF", [0, 7, 14, 21]),
    ],
)
def test_cap(bench: Bench, logic: str, seconds: list[float]) -> None:
    """maxRetryDelaySeconds bounds the delay of every logic."""
    definition = {"retry_count": 3, "retry_logic": logic, "retry_delay_s": 10, "backoff_scale_factor": 2,
                  "max_retry_delay_s": 7}  # fmt: skip
    bench.start(flow(simple("t", definition)))
    assert fail_until_the_end(bench) == seconds


def test_backoff_begins_anew_when_the_execution_is_retried(bench: Bench) -> None:
    """The delay grows with the attempts since then, not with all there were."""
    bench.start(flow(simple("t", {"retry_count": 2, "retry_logic": "LINEAR_BACKOFF", "retry_delay_s": 10})))
    assert fail_until_the_end(bench) == [0, 10, 30]
    bench.engine.retry(bench.workflow_id)
    assert fail_until_the_end(bench) == [30, 40, 60]


def test_cap_between(bench: Bench) -> None:
    """Delays below the cap are what they are."""
    definition = {"retry_count": 4, "retry_logic": "LINEAR_BACKOFF", "retry_delay_s": 10, "max_retry_delay_s": 25}
    bench.start(flow(simple("t", definition)))
    assert fail_until_the_end(bench) == [0, 10, 30, 55, 80]


@pytest.mark.trap("core-3")
def test_jitter(new_bench: NewBench) -> None:
    """Jitter is 0 to backoffJitterMs on top of the cap, differs by attempt, and is the same for the same seed."""
    definition = {"retry_count": 12, "retry_delay_s": 10, "max_retry_delay_s": 4, "backoff_jitter_ms": 1500}

    def delays(seed: str) -> list[int]:
        bench = new_bench(seed=seed)
        bench.start(flow(simple("t", definition)))
        seconds = fail_until_the_end(bench)
        return [round((later - sooner) * 1000) for sooner, later in itertools.pairwise(seconds)]

    once, again, other = delays("a"), delays("a"), delays("b")
    assert once == again != other
    assert len(once) == 12
    assert all(4_000 <= delay <= 5_500 for delay in once)
    assert len(set(once)) > 6
    # Derived from (seed, workflow, reference, attempt, generation): the same on every store and machine.
    policy = TaskPolicy(**{field: 0 for field in TaskPolicy.__slots__ if not field.startswith("__")} | {"backoff_jitter_ms": 1500})
    assert once == [4_000 + jitter(policy, "a", "w1", "t", attempt, 0) for attempt in range(12)]


@pytest.mark.trap("core-7")
def test_total_timeout_ends_retries(bench: Bench) -> None:
    """No retry is scheduled once totalTimeoutSeconds have passed since the first scheduling; the task's end decides."""
    definition = {"retry_count": 9, "retry_delay_s": 10, "total_timeout_s": 25}
    bench.start(flow(simple("t", definition)))
    bench.do("t", "FAILED")
    bench.at(10)
    second = bench.take("t")
    bench.at(24)
    bench.report(second, "FAILED")
    # Scheduled at 24 for 34, beyond the total: it ends at 25, unpolled.
    bench.at(100)
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 t SCHEDULED",
        "0 t IN_PROGRESS",
        "0 t FAILED",
        "0 t#1 SCHEDULED",
        "10 t#1 IN_PROGRESS",
        "24 t#1 FAILED",
        "24 t#2 SCHEDULED",
        "25 t#2 TIMED_OUT",
        "25 workflow TIMED_OUT",
    ]


@pytest.mark.trap("core-7")
def test_total_timeout_is_not_restarted_by_retries(bench: Bench) -> None:
    """The total counts from the first scheduling over all attempts; policy RETRY finds no budget left."""
    definition = {"retry_count": 9, "retry_delay_s": 1, "total_timeout_s": 10, "timeout_policy": "RETRY"}
    bench.start(flow(simple("t", definition, optional=True), simple("z")))
    bench.do("t", "FAILED")
    bench.at(1)
    bench.take("t")
    bench.at(9.999)
    assert bench.statuses() == {"t": "IN_PROGRESS"}
    bench.at(10)
    assert bench.statuses() == {"t": "COMPLETED_WITH_ERRORS", "z": "SCHEDULED"}


@pytest.mark.parametrize(("override", "attempts"), [(0, 1), (1, 2), (5, 6)])
def test_override_of_the_workflow_task(bench: Bench, override: int, attempts: int) -> None:
    """retryCount of the WorkflowTask wins over the task definition's, 0 included."""
    bench.start(flow(simple("t", {"retry_count": 3, "retry_delay_s": 1}, retry_count=override)))
    assert len(fail_until_the_end(bench)) == attempts


@pytest.mark.trap("core-27")
def test_override_without_a_task_definition(bench: Bench) -> None:
    """The override also counts where no task definition is given: 60 s apart, as by default."""
    bench.start(flow(simple("t", retry_count=1)))
    assert fail_until_the_end(bench) == [0, 60]


@pytest.mark.trap("core-27", "tasks-5")
def test_defaults(bench: Bench) -> None:
    """Without any definition a task is tried four times, 60 s apart."""
    bench.start(flow(simple("t")))
    assert fail_until_the_end(bench) == [0, 60, 120, 180]


def test_no_retries(bench: Bench) -> None:
    """retryCount 0 fails the workflow with the first failure, which names the task, its status and its reason."""
    bench.start(flow(simple("t", {"retry_count": 0})))
    task = bench.do("t", "FAILED", {"half": 1}, reason="no luck")
    workflow = bench.workflow
    assert workflow.status is WorkflowStatus.FAILED
    assert task.task_id in (workflow.conductor_reason or "")
    assert "'no luck'" in (workflow.conductor_reason or "")
    assert workflow.failed_task_id == task.task_id
    assert (workflow.failed_refs, workflow.failed_task_names) == (("t",), ("t",))
    assert workflow.output_data == {"half": 1}


@pytest.mark.trap("core-20")
@pytest.mark.parametrize(
    ("status", "end"),
    [("FAILED_WITH_TERMINAL_ERROR", WorkflowStatus.FAILED), ("CANCELED", WorkflowStatus.TERMINATED)],
)
def test_never_retried(bench: Bench, status: str, end: WorkflowStatus) -> None:
    """A terminal error and a cancellation are not retried, whatever budget remains."""
    bench.start(flow(simple("t", {"retry_count": 5})))
    assert fail_until_the_end(bench, status) == [0]
    assert bench.status_of_workflow() is end


@pytest.mark.trap("core-1")
def test_success_after_failures(bench: Bench) -> None:
    """A task that succeeds at last leaves no trace in the workflow's failed names, and its last output counts."""
    bench.start(flow(simple("t", {"retry_count": 2, "retry_delay_s": 1})))
    bench.do("t", "FAILED", {"try": 0})
    bench.at(1)
    bench.do("t", "COMPLETED", {"try": 1})
    workflow = bench.workflow
    assert workflow.status is WorkflowStatus.COMPLETED
    assert (workflow.output_data, workflow.failed_refs, workflow.reason) == ({"try": 1}, (), None)
    assert [task.attempt for task in workflow.tasks] == [0, 1]


@pytest.mark.trap("core-1", "core-52")
def test_input_of_a_retry(bench: Bench) -> None:
    """The input of a retry is resolved anew, `${CPEWF_TASK_ID}` with the new id, over the old one."""
    task = simple("t", {"retry_count": 1, "retry_delay_s": 0, "input_template": {"from_template": 1}},
                  input_parameters={"id": "${CPEWF_TASK_ID}", "other": "${a.output.n}"})  # fmt: skip
    bench.start(flow(simple("a"), task))
    bench.do("a", output={"n": 7})
    first = bench.do("t", "FAILED")
    second = bench.take("t")
    assert first.input_data == {"id": first.task_id, "other": 7, "from_template": 1}
    assert second.input_data == {"id": second.task_id, "other": 7, "from_template": 1}
    assert first.task_id != second.task_id


# -- optional and permissive ---------------------------------------------------------------------------------


@pytest.mark.trap("core-19", "tasks-16")
@pytest.mark.parametrize("status", ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED"])
def test_optional(bench: Bench, status: str) -> None:
    """An optional task is retried first; then it is COMPLETED_WITH_ERRORS and the flow goes on."""
    bench.start(flow(simple("t", {"retry_count": 1, "retry_delay_s": 5}, optional=True), simple("z")))
    bench.do("t", status, {"half": 1}, reason="no")
    if status == "FAILED":
        assert bench.statuses() == {"t": "SCHEDULED"}
        bench.at(5)
        bench.do("t", status, {"half": 1}, reason="no")
    assert bench.statuses() == {"t": "COMPLETED_WITH_ERRORS", "z": "SCHEDULED"}
    assert (bench.task("t").output_data, bench.task("t").reason) == ({"half": 1}, "no")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-19", "tasks-72")
def test_permissive(bench: Bench) -> None:
    """A permissive task is retried first; then it stays FAILED, the flow goes on, the workflow ends FAILED."""
    bench.start(flow(simple("t", {"retry_count": 1, "retry_delay_s": 5}, permissive=True), simple("z")))
    bench.do("t", "FAILED", reason="first")
    bench.at(5)
    bench.do("t", "FAILED", reason="second")
    assert bench.statuses() == {"t": "FAILED", "z": "SCHEDULED"}
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.do("z")
    workflow = bench.workflow
    assert workflow.status is WorkflowStatus.FAILED
    assert workflow.failed_refs == ("t",)
    assert "second" in (workflow.reason or "")
    assert bench.statuses() == {"t": "FAILED", "z": "COMPLETED"}


def test_a_permissive_failure_that_is_tried_again_is_none_until_it_fails_again(bench: Bench) -> None:
    """It is not told any more, and a TERMINATE task, which goes on to ask for failures at the end, ends as it says."""
    never = {"retry_count": 0}
    said = {"terminationStatus": "COMPLETED", "workflowOutput": {"by": "the task"}}
    end = WorkflowTask(name="t", task_reference_name="t", type="TERMINATE", input_parameters=said)
    bench.start(flow(simple("a", never, permissive=True), simple("z", never), end))
    bench.do("a", "FAILED")
    bench.do("z", "FAILED")
    bench.engine.retry(bench.workflow_id)
    assert bench.workflow.permitted_failures == 0
    assert "permitted" not in str(bench.engine.explain(bench.workflow_id))
    bench.do("a")
    bench.do("z")
    assert (bench.status_of_workflow(), bench.workflow.output_data) == (WorkflowStatus.COMPLETED, {"by": "the task"})


@pytest.mark.trap("core-19", "tasks-72")
def test_permissive_failures_are_all_named(bench: Bench) -> None:
    """At the end the reason has a fragment for each permissive failure, separated by a full stop."""
    bench.start(flow(*[simple(ref, {"retry_count": 0}, permissive=True) for ref in ("a", "b")], simple("z")))
    bench.do("a", "FAILED", reason="one")
    bench.do("b", "FAILED_WITH_TERMINAL_ERROR", reason="two")
    bench.do("z")
    workflow = bench.workflow
    assert workflow.failed_refs == ("a", "b")
    assert [part.split(" and ")[-1] for part in (workflow.conductor_reason or "").split(". ")] == [
        "reason: 'one'",
        "reason: 'two'",
    ]


def test_permissive_that_recovers(bench: Bench) -> None:
    """A permissive task whose retry succeeds does not fail the workflow."""
    bench.start(flow(simple("t", {"retry_count": 1, "retry_delay_s": 0}, permissive=True)))
    bench.do("t", "FAILED")
    bench.do("t")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-19")
def test_both_flags(bench: Bench) -> None:
    """A task that is optional and permissive is treated as optional."""
    bench.start(flow(simple("t", {"retry_count": 0}, permissive=True, optional=True), simple("z")))
    bench.do("t", "FAILED")
    bench.do("z")
    assert bench.statuses() == {"t": "COMPLETED_WITH_ERRORS", "z": "COMPLETED"}
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


# -- saturation, and the arithmetic alone --------------------------------------------------------------------


@pytest.mark.trap("core-4")
def test_saturation(bench: Bench) -> None:
    """A delay too long for Conductor's 32-bit seconds saturates instead of wrapping to nothing."""
    definition = {"retry_count": 1, "retry_logic": "EXPONENTIAL_BACKOFF", "retry_delay_s": 2_000_000_000,
                  "backoff_scale_factor": 2_000_000_000, "poll_timeout_s": 0}  # fmt: skip
    bench.start(flow(simple("t", definition)))
    bench.do("t", "FAILED")
    assert bench.task("t").due_at == T0 + LONGEST_DELAY_MS


def policy(**options: Any) -> TaskPolicy:
    """The policy of a task with such a definition."""
    definition: TaskDef = task_def("t", **options)
    task = WorkflowTask(name="t", task_reference_name="t", task_definition=definition)
    return task_policy(task, Semantics.ORKES, operator=False)


policies = st.builds(
    policy,
    retry_logic=st.sampled_from(list(RetryLogic)),
    retry_delay_ms=st.integers(0, LONGEST_DELAY_MS),
    backoff_scale_factor=st.integers(1, 2**31 - 1),
    max_retry_delay_ms=st.one_of(st.just(0), st.integers(1, LONGEST_DELAY_MS)),
)
counts = st.integers(0, 10_000)


@given(policies, counts, st.sampled_from(list(Semantics)))
def test_delays_are_bounded_and_never_shrink(given_policy: TaskPolicy, retries: int, semantics: Semantics) -> None:
    """Delays lie between 0 and the cap (or the longest there is), and a later retry never waits less."""
    delay = retry_delay(given_policy, retries, semantics)
    assert 0 <= delay <= (given_policy.max_retry_delay_ms or LONGEST_DELAY_MS)
    assert delay <= retry_delay(given_policy, retries + 1, semantics)


@given(policies, counts, st.sampled_from(list(Semantics)))
def test_delays_are_the_formulae(given_policy: TaskPolicy, retries: int, semantics: Semantics) -> None:
    """The delay is what exact arithmetic gives for Orkes' formulae (and Conductor's exponential), then cut off."""
    retries = min(retries, 300)
    attempt, scale = retries + 1, given_policy.backoff_scale_factor
    growth = {
        RetryLogic.FIXED: 1,
        RetryLogic.LINEAR_BACKOFF: scale * attempt,
        RetryLogic.EXPONENTIAL_BACKOFF: scale**attempt if semantics is ORKES else 2**retries,
    }[given_policy.retry_logic]
    exact = given_policy.retry_delay_ms * growth
    expected = min(exact, given_policy.max_retry_delay_ms or LONGEST_DELAY_MS, LONGEST_DELAY_MS)
    assert retry_delay(given_policy, retries, semantics) == expected


@given(st.integers(0, 10_000), st.text(max_size=5), st.integers(0, 50))
def test_jitter_is_bounded_and_derived(most: int, ref: str, attempt: int) -> None:
    """Jitter is a function of the identity, from 0 to backoffJitterMs inclusive."""
    value = jitter(policy(backoff_jitter_ms=most), "seed", "w", ref, attempt, 0)
    assert 0 <= value <= most
    assert value == jitter(policy(backoff_jitter_ms=most), "seed", "w", ref, attempt, 0)


def test_jitter_reaches_both_ends() -> None:
    """Both 0 and the maximum occur."""
    drawn = {jitter(policy(backoff_jitter_ms=3), "seed", attempt) for attempt in range(200)}
    assert drawn == {0, 1, 2, 3}
