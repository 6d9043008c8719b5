"""Limits where Orkes and Conductor's open-source engine say something, or do otherwise: what the compatibility pages name."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import T0, Bench, NewBench, flow, fork, join, simple, task_def, wait

from conductorlite import (
    Engine,
    RateLimitConfig,
    RateLimitPolicy,
    SubWorkflowParams,
    Task,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)
from conductorlite.errors import LimitReached, NotFound


def _limited(ref: str, name: str = "a", **limits: Any) -> WorkflowTask:
    return WorkflowTask(name=name, task_reference_name=ref, task_definition=task_def(name, **limits))


def _keyed(key: str | None = "k", count: int = 1, policy: RateLimitPolicy | None = None, **fields: Any) -> WorkflowDef:
    config = RateLimitConfig(rate_limit_key=key, concurrent_exec_limit=count, policy=policy)
    return flow(*fields.pop("tasks", [simple("a")]), rate_limit_config=config, **fields)


def _report(engine: Engine, task: Task, status: str = "COMPLETED") -> None:
    engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status)))
    engine.settle()


def _offered(engine: Engine, name: str) -> list[Task]:
    engine.settle()
    return list(engine.poll(name, count=5))


def _statuses(engine: Engine, *ids: str) -> list[str]:
    return [str(engine.get(one).tasks[0].status) for one in ids]


@pytest.mark.trap("core-38")
def test_a_freed_slot_is_given_on_at_once(bench: Bench) -> None:
    """No waiter is put off for a minute: it is offered at the instant at which the slot is free."""
    limits = {"concurrent_exec_limit": 1}
    bench.start(flow(fork("f", [_limited("a", **limits)], [_limited("b", **limits)]), join("j", "a", "b")))
    (task,) = _offered(bench.engine, "a")
    bench.at(3)
    _report(bench.engine, task)
    (task,) = _offered(bench.engine, "a")
    assert (task.ref, task.due_at) == ("b", T0 + 3_000)


@pytest.mark.trap("core-38")
def test_a_slot_is_held_from_the_offer_to_the_end(bench: Bench) -> None:
    """SCHEDULED tasks hold slots too, so none is handed out beyond the limit; a delayed retry holds none."""
    definition = flow(_limited("a", concurrent_exec_limit=1, retry_delay_s=10, retry_count=1))
    engine = bench.engine
    for one in ("w1", "w2"):
        engine.start(definition, workflow_id=one)
    assert _statuses(engine, "w1", "w2") == ["SCHEDULED", "PENDING"]
    _report(engine, _offered(engine, "a")[0], "FAILED")
    assert _statuses(engine, "w2") == ["SCHEDULED"]
    assert [str(task.status) for task in engine.get("w1").tasks] == ["FAILED", "PENDING"]


def test_the_window_slides(bench: Bench) -> None:
    """Two may be taken in any ten seconds; the third is offered when the first has left the window. Every store limits."""
    engine = bench.engine
    definition = flow(_limited("a", rate_limit_per_frequency=2, rate_limit_frequency_s=10))
    for second, one in enumerate(("w1", "w2", "w3", "w4")):
        bench.at(second)
        engine.start(definition, workflow_id=one)
        assert len(_offered(engine, "a")) == (second < 2)
    bench.at(9.999)
    assert _statuses(engine, "w1", "w2", "w3", "w4") == ["IN_PROGRESS", "IN_PROGRESS", "PENDING", "PENDING"]
    bench.at(10)
    assert _statuses(engine, "w3", "w4") == ["SCHEDULED", "PENDING"]
    bench.at(11)
    assert _statuses(engine, "w4") == ["SCHEDULED"]


def test_a_rate_without_a_window_is_per_second(bench: Bench) -> None:
    """Conductor's default of rateLimitFrequencyInSeconds is 1."""
    engine = bench.engine
    for one in ("w1", "w2"):
        engine.start(flow(_limited("a", rate_limit_per_frequency=1)), workflow_id=one)
    assert _statuses(engine, "w1", "w2") == ["SCHEDULED", "PENDING"]
    assert len(_offered(engine, "a")) == 1
    bench.at(1)
    assert _statuses(engine, "w2") == ["SCHEDULED"]


def test_the_line_is_strict(bench: Bench) -> None:
    """Nobody goes before the head of the line, though its own definition would let it in."""
    engine = bench.engine
    for one, limit in (("w1", 2), ("w2", 2), ("w3", 2), ("w4", 9)):
        engine.start(flow(_limited("a", concurrent_exec_limit=limit)), workflow_id=one)
        engine.advance("1s")
    assert _statuses(engine, "w3", "w4") == ["PENDING", "PENDING"]
    _report(engine, _offered(engine, "a")[0])
    assert _statuses(engine, "w3", "w4") == ["SCHEDULED", "SCHEDULED"]


def test_a_dynamic_task_is_limited(bench: Bench) -> None:
    """By the definition of the name that it turns out to have."""
    engine = bench.engine
    engine.register(task_def("a", concurrent_exec_limit=1))
    dynamic = WorkflowTask(
        name="d", task_reference_name="d", type="DYNAMIC", dynamic_task_name_param="n", input_parameters={"n": "a"}
    )
    for one in ("w1", "w2"):
        engine.start(flow(dynamic), workflow_id=one)
        engine.settle()
    assert _statuses(engine, "w1", "w2") == ["SCHEDULED", "PENDING"]
    assert engine.limits.get("task:a").waiting == 1


def test_an_operator_is_not_limited(bench: Bench) -> None:
    """What the engine carries out itself needs no slot."""
    engine = bench.engine
    waits = WorkflowTask(name="w", task_reference_name="w", type="WAIT", task_definition=task_def("w", concurrent_exec_limit=1))
    for one in ("w1", "w2"):
        engine.start(flow(waits), workflow_id=one)
    assert _statuses(engine, "w1", "w2") == ["IN_PROGRESS", "IN_PROGRESS"]
    assert engine.limits.all() == []


@pytest.mark.trap("core-50")
def test_a_workflow_beyond_its_limit_is_running_with_a_first_task_pending(bench: Bench) -> None:
    """As Orkes says; the end of one lets in the next in the order in which they were started."""
    engine = bench.engine
    for one in ("w1", "w2", "w3"):
        engine.start(_keyed(), workflow_id=one)
        engine.advance("1s")
    assert [str(engine.status(one)) for one in ("w1", "w2", "w3")] == ["RUNNING"] * 3
    assert _statuses(engine, "w1", "w2", "w3") == ["SCHEDULED", "PENDING", "PENDING"]
    assert [task.workflow_id for task in _offered(engine, "a")] == ["w1"]
    engine.terminate("w1")
    engine.settle()
    assert _statuses(engine, "w2", "w3") == ["SCHEDULED", "PENDING"]


def test_keys_are_constant_or_expressions(bench: Bench) -> None:
    """Executions with one key share a limit, also of several definitions; without a key those of one name do."""
    engine = bench.engine
    for one, who in (("w1", "x"), ("w2", "y"), ("w3", "x")):
        engine.start(_keyed("${workflow.input.who}"), {"who": who}, workflow_id=one)
    assert _statuses(engine, "w1", "w2", "w3") == ["SCHEDULED", "SCHEDULED", "PENDING"]
    engine.start(_keyed("${workflow.correlationId}", name="other"), workflow_id="w4", correlation_id="x")
    assert (_statuses(engine, "w4"), engine.limits.get("workflow:x").waiting) == (["PENDING"], 2)
    engine.start(_keyed(None), workflow_id="w5")
    assert engine.limits.get("workflow:flow").in_use == 1


def test_a_key_that_yields_nothing_limits_nothing(bench: Bench) -> None:
    """Executions without the value are not thrown together under an empty key."""
    engine = bench.engine
    for one, given in (("w1", {}), ("w2", {}), ("w3", {"who": ""}), ("w4", {"who": ""})):
        engine.start(_keyed("${workflow.input.who}"), given, workflow_id=one)
    assert _statuses(engine, "w1", "w2", "w3", "w4") == ["SCHEDULED"] * 4
    assert (engine.limits.all(), engine.get("w1").rate_limit_key) == ([], None)


def test_reject(bench: Bench) -> None:
    """A start beyond the limit is refused, and nothing of it is stored; when a slot is free it may be tried again."""
    engine = bench.engine
    definition = _keyed(policy=RateLimitPolicy.REJECT)
    engine.start(definition, workflow_id="w1")
    with pytest.raises(LimitReached, match="'workflow:k' has all its 1 slots in use, and its policy is REJECT"):
        engine.start(definition, workflow_id="w2")
    with pytest.raises(NotFound):
        engine.get("w2")
    engine.terminate("w1")
    engine.start(definition, workflow_id="w2")
    assert _statuses(engine, "w2") == ["SCHEDULED"]


def test_a_child_that_needs_its_parents_slot_fails(bench: Bench) -> None:
    """It could never begin: it fails at once, saying so, and does not wait for ever."""
    engine = bench.engine
    engine.register(_keyed(name="inner", tasks=[wait("w")]))
    params = SubWorkflowParams(name="inner")
    calls = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=params)
    engine.start(_keyed(name="outer", count=5, tasks=[calls]), workflow_id="w1")
    engine.settle()
    failed = engine.get("w1")
    assert failed.status is WorkflowStatus.FAILED
    reason = "it needs a slot of 'workflow:k', which an execution above it holds until this one has ended"
    assert reason in str(failed.tasks[0].reason)
    assert engine.limits.get("workflow:k").in_use == 0


@pytest.mark.parametrize("verb", ["retry", "rerun"])
def test_an_ended_execution_waits_for_a_slot_to_go_on(bench: Bench, verb: str) -> None:
    """It gave its slot back when it ended; beyond the limit the verb waits, and the execution stays as it ended."""
    engine = bench.engine
    definition = _keyed(tasks=[simple("a", {"retry_count": 0})])
    engine.start(definition, workflow_id="w1")
    _report(engine, _offered(engine, "a")[0], "FAILED")
    engine.start(definition, workflow_id="w2")
    engine.rerun("w1", from_task="a") if verb == "rerun" else engine.retry("w1")
    assert (engine.get("w1").status, engine.get("w1").rate_limited) == (WorkflowStatus.FAILED, True)
    _report(engine, _offered(engine, "a")[0])
    assert (engine.get("w1").status, engine.get("w1").rate_limited) == (WorkflowStatus.RUNNING, False)
    _report(engine, _offered(engine, "a")[0])
    assert engine.get("w1").status is WorkflowStatus.COMPLETED


def test_a_workflow_times_out_while_it_waits_for_its_slot(bench: Bench) -> None:
    """Its timeout counts from its start; a task's poll timeout from the instant at which it is offered."""
    engine = bench.engine
    definition = _keyed(timeout_ms=60_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF)
    engine.start(_keyed(), workflow_id="w1")
    engine.start(definition, workflow_id="w2")
    bench.at(60)
    assert (engine.status("w2"), engine.limits.get("workflow:k").waiting) == (WorkflowStatus.TIMED_OUT, 0)
    definition = flow(_limited("a", "b", concurrent_exec_limit=1, poll_timeout_s=5))
    for one in ("w3", "w4"):
        engine.start(definition, workflow_id=one)
    task = _offered(engine, "b")[0]
    bench.at(80)
    assert _statuses(engine, "w4") == ["PENDING"]
    _report(engine, task)
    (waited,) = engine.get("w4").tasks
    assert (waited.status, waited.poll_timeout_at) == (TaskStatus.SCHEDULED, T0 + 85_000)


def test_a_paused_execution_holds_up_nobody(new_bench: NewBench) -> None:
    """It leaves the line, and asks anew when it is resumed: then it is the last."""
    engine = new_bench().engine
    for one in ("w1", "w2", "w3"):
        engine.start(flow(_limited("a", concurrent_exec_limit=1)), workflow_id=one)
        engine.advance("1s")
    engine.pause("w2")
    assert [member.workflow_id for member in engine.limits.get("task:a").line] == ["w3"]
    engine.resume("w2")
    engine.settle()
    assert [member.workflow_id for member in engine.limits.get("task:a").line] == ["w3", "w2"]
