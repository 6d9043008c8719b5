"""SUB_WORKFLOW with an idempotency key: a child is begun once, or the task says who has the key, or takes its result over."""

from __future__ import annotations

from typing import Any

import pytest
from crash_kit import crash_families
from engine_kit import Bench, flow, simple

from conductorlite import (
    IdempotencyStrategy,
    SubWorkflowParams,
    TaskDef,
    TaskStatus,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.testing import ScriptedWorkers, start_once

ORDER = flow(simple("a"), name="order", output_parameters={"paid": "${a.output.paid}"})
EXISTING = IdempotencyStrategy.RETURN_EXISTING
UNLESS_RUNNING = IdempotencyStrategy.FAIL_ON_RUNNING


def below(strategy: Any = None, key: Any = "k", retries: int = 0, **fields: Any) -> WorkflowDef:
    """A workflow with an order as its child `c`, and then a task `z`."""
    params = SubWorkflowParams(name="order", idempotency_key=key, idempotency_strategy=strategy)
    policy = TaskDef(name="c", retry_count=retries, retry_delay_ms=5_000)
    child = WorkflowTask(
        name="c", task_reference_name="c", type="SUB_WORKFLOW", sub_workflow_param=params, task_definition=policy, **fields
    )
    return flow(child, simple("z"), name="parent")


@pytest.fixture
def ready(bench: Bench) -> Bench:
    """A bench with the child's definition registered."""
    bench.engine.register(ORDER)
    return bench


@pytest.mark.trap("tasks-44")
def test_the_child_claims_its_key(ready: Bench) -> None:
    """The key, filled in from an expression, is the child's, and another start with it is refused or gets the child."""
    ready.start(below("${workflow.input.how}", "order-${workflow.input.n}"), {"n": 7, "how": "FAIL"})
    ready.healthy()
    child = str(ready.task("c").sub_workflow_id)
    assert ready.engine.get(child).idempotency_key == "order-7"
    assert ready.task("c").input_data["idempotencyKey"] == "order-7"
    assert ready.task("c").input_data["idempotencyStrategy"] == "FAIL"
    again = ready.engine.start("order", idempotency_key="order-7", idempotency_strategy=EXISTING).workflow_id
    assert again == child


@pytest.mark.parametrize("key", ["", None, "${workflow.input.none}"])
def test_no_key(ready: Bench, key: str | None) -> None:
    """An empty key, and one that resolves to nothing, is none: two children begin."""
    for _ in range(2):
        ready.start(below("FAIL", key))
        ready.healthy()
        child = str(ready.task("c").sub_workflow_id)
        assert ready.engine.get(child).idempotency_key is None
        assert "idempotencyKey" not in ready.task("c").input_data


@pytest.mark.parametrize("strategy", [*IdempotencyStrategy, None])
def test_the_key_of_one_that_runs(ready: Bench, strategy: IdempotencyStrategy | None) -> None:
    """Whatever the strategy, the task fails and names the execution that holds the key; nothing is begun."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.start(below(strategy))
    ready.healthy()
    reason = ready.task("c").reason or ""
    assert ready.task("c").status is TaskStatus.FAILED
    assert f"'k' of workflow 'order' belongs to execution {first.workflow_id!r}, which is RUNNING" in reason
    assert ("one parent" in reason) is (strategy is EXISTING)
    assert (ready.status_of_workflow(), first.status) == (WorkflowStatus.FAILED, WorkflowStatus.RUNNING)
    assert list(ready.engine.admin.workflow_ids()) == [first.workflow_id, ready.workflow_id]
    assert first.workflow_id in str(ready.engine.explain(ready.workflow_id))


@pytest.mark.parametrize("size", [1, 5_000])
def test_the_result_of_one_that_has_ended_is_taken_over(ready: Bench, size: int) -> None:
    """RETURN_EXISTING: the task ends as the execution with the key has ended, with its output, and nothing is begun."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.do("a", output={"paid": "x" * size})
    ready.start(below(EXISTING))
    ready.healthy()
    assert ready.task("c").status is TaskStatus.COMPLETED
    assert ready.task("c").output_data == {"subWorkflowId": first.workflow_id, "paid": "x" * size}
    ready.do("z")
    assert ready.status_of_workflow() is WorkflowStatus.COMPLETED
    assert list(ready.engine.admin.workflow_ids()) == [first.workflow_id, ready.workflow_id]
    assert ready.engine.get(first.workflow_id).parent_workflow_id is None


@pytest.mark.parametrize(("end", "status"), [("FAILED_WITH_TERMINAL_ERROR", TaskStatus.FAILED), ("terminate", TaskStatus.CANCELED)])
def test_a_bad_result_is_taken_over_too(ready: Bench, end: str, status: TaskStatus) -> None:
    """RETURN_EXISTING of an execution that failed or was terminated ends the task so, with its reason."""
    first = ready.engine.start("order", idempotency_key="k")
    if end == "terminate":
        ready.engine.terminate(first.workflow_id, "not today")
    else:
        ready.do("a", end, reason="not today")
    ready.start(below(EXISTING))
    ready.healthy()
    assert ready.task("c").status is status
    assert f"order.1/{first.workflow_id} failure reason" in (ready.task("c").conductor_reason or "")
    assert "not today" in (ready.task("c").reason or "")


@pytest.mark.parametrize(("strategy", "begins"), [("FAIL", False), ("FAIL_ON_RUNNING", True)])
def test_the_key_of_one_that_has_ended(ready: Bench, strategy: str, begins: bool) -> None:
    """FAIL refuses it even so; FAIL_ON_RUNNING begins a child, which holds the key from then on."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.do("a")
    ready.start(below(strategy))
    ready.healthy()
    holder = ready.engine.start("order", idempotency_key="k", idempotency_strategy=EXISTING).workflow_id
    assert ready.task("c").status is (TaskStatus.IN_PROGRESS if begins else TaskStatus.FAILED)
    assert holder == (ready.task("c").sub_workflow_id if begins else first.workflow_id)


def test_retries_wait_for_the_key(ready: Bench) -> None:
    """A task that is retried asks again: once the execution with the key has ended, its result is there."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.start(below(EXISTING, retries=3))
    ready.healthy()
    assert ready.task("c").attempt == 1
    ready.do("a", output={"paid": 3})
    ready.at(5)
    ready.healthy()
    assert ready.statuses() == {"c": "COMPLETED", "z": "SCHEDULED"}
    assert ready.task("c").output_data == {"subWorkflowId": first.workflow_id, "paid": 3}
    assert ready.journal_of("c") == ["0 c IN_PROGRESS", "0 c FAILED", "0 c#1 SCHEDULED", "5 c#1 IN_PROGRESS", "5 c#1 COMPLETED"]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("strategy", list(IdempotencyStrategy))
def test_retry_after_the_child_failed(ready: Bench, strategy: IdempotencyStrategy, resume: bool) -> None:
    """The failed child keeps its key: resumed it goes on itself; a new one begins only with FAIL_ON_RUNNING."""
    ready.start(below(strategy))
    child = str(ready.task("c").sub_workflow_id)
    ready.do("a", "FAILED_WITH_TERMINAL_ERROR")
    ready.healthy()
    ready.engine.retry(ready.workflow_id, resume_subworkflow_tasks=resume)
    ready.healthy()
    if not resume and strategy is not UNLESS_RUNNING:
        assert (ready.task("c").attempt, ready.task("c").status) == (1, TaskStatus.FAILED)
        task = ready.task("c")
        assert child in (task.conductor_reason or task.reason or "")
        return
    assert (ready.task("c").sub_workflow_id == child) is resume
    ready.do("a", output={"paid": 1})
    ready.do("z")
    ready.healthy()
    assert ready.status_of_workflow() is WorkflowStatus.COMPLETED


def test_resuming_one_that_never_began_asks_again(ready: Bench) -> None:
    """`retry` with its children resumed, where the key was taken: the task asks anew and gets the result there is by now."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.start(below(EXISTING))
    ready.healthy()
    ready.do("a", output={"paid": 1})
    ready.engine.retry(ready.workflow_id, resume_subworkflow_tasks=True)
    ready.healthy()
    assert ready.task("c").output_data == {"subWorkflowId": first.workflow_id, "paid": 1}
    assert ready.statuses() == {"c": "COMPLETED", "z": "SCHEDULED"}


def test_restarted_its_child_is_the_one_it_had(ready: Bench) -> None:
    """A parent that is restarted takes over what its child of the first run has put out, under RETURN_EXISTING."""
    ready.start(below(EXISTING))
    child = str(ready.task("c").sub_workflow_id)
    ready.do("a", output={"paid": 1})
    ready.do("z")
    ready.engine.restart(ready.workflow_id)
    ready.healthy()
    assert ready.task("c").output_data == {"subWorkflowId": child, "paid": 1}
    assert ready.statuses() == {"c": "COMPLETED", "z": "SCHEDULED"}
    assert set(ready.engine.admin.workflow_ids()) == {child, ready.workflow_id}


def test_removed_the_key_is_free(ready: Bench) -> None:
    """When the execution with the key is removed, the next attempt begins a child."""
    first = ready.engine.start("order", idempotency_key="k")
    ready.engine.terminate(first.workflow_id)
    ready.start(below("FAIL", retries=1))
    ready.healthy()
    ready.engine.admin.remove(first.workflow_id)
    ready.at(5)
    ready.do("a")
    assert ready.statuses() == {"c": "COMPLETED", "z": "SCHEDULED"}
    assert ready.engine.admin.check() == []


@pytest.mark.parametrize("strategy", ["FAIL", EXISTING])
def test_the_answer_comes_while_the_parent_is_paused(ready: Bench, strategy: str) -> None:
    """The task ends then, and what follows is held until the parent is resumed."""
    ready.engine.start("order", idempotency_key="k")
    ready.do("a")
    ready.start(below(strategy, start_delay_ms=5_000))
    ready.engine.pause(ready.workflow_id)
    ready.at(5)
    ready.healthy()
    assert ready.task("c").status is (TaskStatus.COMPLETED if strategy is EXISTING else TaskStatus.FAILED)
    assert ready.status_of_workflow() is WorkflowStatus.PAUSED
    ready.engine.resume(ready.workflow_id)
    ready.healthy()
    assert ready.status_of_workflow() is (WorkflowStatus.RUNNING if strategy is EXISTING else WorkflowStatus.FAILED)


def test_terminated_before_its_child_was_to_begin(ready: Bench) -> None:
    """No child begins and no key is claimed when the parent ends before the child's delay is over."""
    ready.start(below("FAIL", start_delay_ms=5_000))
    ready.engine.terminate(ready.workflow_id)
    ready.at(6)
    ready.healthy()
    assert list(ready.engine.admin.workflow_ids()) == [ready.workflow_id]
    ready.engine.start("order", idempotency_key="k")


@pytest.mark.parametrize(
    ("key", "strategy", "said"),
    [
        ("${workflow.input.long}", None, "idempotencyKey 'xxxx"),
        ("${workflow.input.list}", None, "idempotencyKey '[1]' is not a text"),
        ("k", "${workflow.input.list}", r"idempotencyStrategy '[1]' is none of FAIL, RETURN_EXISTING, FAIL_ON_RUNNING"),
        ("k", "${workflow.input.word}", r"idempotencyStrategy 'NEVER' is none of"),
    ],
)
def test_keys_and_strategies_that_cannot_be(ready: Bench, key: str, strategy: str | None, said: str) -> None:
    """What does not resolve to a key of at most 255 characters, or to a strategy, fails the task and is named."""
    ready.start(below(strategy, key), {"long": "x" * 256, "list": [1], "word": "NEVER"})
    ready.healthy()
    assert ready.task("c").status is TaskStatus.FAILED
    assert f"subWorkflowParam.{said}" in (ready.task("c").reason or "")


def test_a_number_is_a_key(ready: Bench) -> None:
    """A key that resolves to a number is its text; 255 characters are not too many."""
    for given in (7, "x" * 255):
        ready.start(below(None, "${workflow.input.key}"), {"key": given})
        ready.healthy()
        assert ready.engine.get(str(ready.task("c").sub_workflow_id)).idempotency_key == str(given)


@pytest.mark.parametrize(
    ("store", "every"),
    [("sqlite", 7), *(pytest.param(store, 1, marks=pytest.mark.slow) for store in ("memory", "relay"))],
)
def test_a_crash_at_any_write(store: str, every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, one child begins, and the second parent has its result."""
    first, second = below("FAIL"), below(EXISTING, retries=9)

    def scenario(engine: Any) -> None:
        engine.register(ORDER)
        start_once(engine, first, workflow_id="first")
        engine.run_until_idle()
        start_once(engine, second, workflow_id="second")
        engine.run_until_idle()
        assert engine.get("second").task("c").output_data == engine.get("first").task("c").output_data

    def script(workers: ScriptedWorkers) -> None:
        workers.a.returns({"paid": 3})
        workers.z.returns({})

    points = crash_families(scenario, script, stores=[store], every=every)
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    assert points >= 30 // every
