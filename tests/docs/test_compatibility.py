"""Rows of docs/reference/compatibility.md that no other test pins: where Conductor would do otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import (
    Engine,
    EngineConfig,
    Run,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    TimeoutPolicy,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.plan.validate import validate
from conductorlite.store.locks import InProcessLock


class _Bench:
    """An engine in memory on a virtual clock, and one execution."""

    def __init__(self, *tasks: WorkflowTask, lock: Any = None, **options: Any) -> None:
        self.engine = Engine(clock=VirtualClock(0), config=EngineConfig(lock=lock))
        self.run: Run = self.engine.start(WorkflowDef(name="w", tasks=tasks), **options)

    def take(self, name: str) -> Task:
        """Poll one task that must be there."""
        return self.engine.poll(name)[0]

    def report(self, task: Task, status: str = "COMPLETED", output: dict[str, Any] | None = None, **said: Any) -> Task:
        """Report on a task."""
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=TaskStatus(status),
            output_data=output or {},
            lease=task.lease,
            **said,
        )
        return self.engine.update_task(result)


def _simple(ref: str, **fields: Any) -> WorkflowTask:
    definition = TaskDef(name=ref, **{"retry_count": 0, **fields})
    return WorkflowTask(name=ref, task_reference_name=ref, task_definition=definition)


def _task(ref: str, kind: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)


@pytest.mark.trap("core-15")
def test_an_ended_task_was_updated_when_it_ended() -> None:
    """The end of a task is its last update, not the poll before it."""
    bench = _Bench(_simple("a"))
    task = bench.take("a")
    bench.engine.advance("5s")
    assert bench.report(task).updated_at == 5_000


@pytest.mark.trap("core-25")
def test_failed_names_are_those_of_final_failures() -> None:
    """A failure that a retry made good is not named; a timeout that ended the workflow is."""
    policy = {"timeout_policy": TimeoutPolicy.RETRY, "timeout_ms": 5_000, "response_timeout_ms": 0}
    bench = _Bench(_simple("a", retry_count=1, retry_delay_ms=0), _simple("b", **policy))
    bench.report(bench.take("a"), "FAILED")
    bench.report(bench.take("a"))
    bench.take("b")
    bench.engine.advance("5s")
    workflow = bench.run.workflow
    assert workflow.status is WorkflowStatus.TIMED_OUT
    assert (workflow.failed_refs, workflow.failed_task_names) == (("b",), ("b",))


@pytest.mark.trap("core-21")
def test_the_reason_quotes_the_tasks_own_status() -> None:
    """A workflow that failed over a task says with which status that task ended."""
    bench = _Bench(_simple("a"))
    task = bench.take("a")
    bench.report(task, "FAILED_WITH_TERMINAL_ERROR", reason="no such card")
    expected = f"Task {task.task_id} failed with status: FAILED_WITH_TERMINAL_ERROR and reason: 'no such card'"
    assert bench.run.workflow.conductor_reason == expected
    assert bench.run.workflow.reason == "a failed: no such card"


@pytest.mark.trap("core-15")
def test_retry_clears_what_told_of_the_failure() -> None:
    """An execution that is reopened has no end, no reason, no failed names and no output until it ends again."""
    bench = _Bench(_simple("a"))
    bench.report(bench.take("a"), "FAILED", {"half": True}, reason="no")
    before = bench.run.workflow
    assert (before.ended_at, before.failed_refs, before.output_data) == (before.updated_at, ("a",), {"half": True})
    bench.engine.retry(bench.run.workflow_id)
    after = bench.run.workflow
    assert (after.ended_at, after.reason, after.failed_refs, after.failed_task_id) == (0, None, (), None)
    assert after.output_data == {}


@pytest.mark.trap("core-35", "tasks-9", "tasks-71")
def test_a_join_ends_with_the_turn_of_its_last_branch() -> None:
    """A JOIN ends in the turn in which its last branch does; nothing polls it. Its output appears then, whole."""
    fork = _task("f", "FORK_JOIN", fork_tasks=[[_simple("a")], [_simple("b")]])
    bench = _Bench(fork, _task("j", "JOIN", join_on=["a", "b"]))
    bench.report(bench.take("a"), output={"n": 1})
    assert bench.run.workflow.task("j").output_data == {}
    bench.report(bench.take("b"), output={"n": 2})
    assert bench.run.status is WorkflowStatus.COMPLETED
    assert bench.run.workflow.task("j").output_data == {"a": {"n": 1}, "b": {"n": 2}}


def test_a_loops_rounds_are_in_its_output_when_it_ends() -> None:
    """A running loop's row tells its round; an expression that asks sees the past rounds; at the end all are there."""
    inputs = {"first": "${loop.output.1.a.n}", "all": "${loop.output}"}
    look = WorkflowTask(name="look", task_reference_name="look", input_parameters=inputs)
    loop = _task("loop", "DO_WHILE", loop_condition="$.loop['iteration'] < 2", loop_over=[_simple("a"), look])
    bench = _Bench(loop)
    bench.report(bench.take("a"), output={"n": 1})
    bench.report(bench.take("look"))
    bench.report(bench.take("a"), output={"n": 2})
    assert bench.run.workflow.task("loop").output_data == {"iteration": 2}
    asked = bench.take("look")
    assert asked.input_data["first"] == 1
    bench.report(asked)
    output = bench.run.workflow.task("loop").output_data
    assert (output["1"]["a"], output["2"]["a"], output["iteration"]) == ({"n": 1}, {"n": 2}, 2)


@pytest.mark.trap("core-31")
def test_no_report_is_lost_to_a_busy_lock() -> None:
    """A report that finds the lock taken lies in the inbox until the execution's next turn."""
    lock = InProcessLock()
    bench = _Bench(_simple("a"), lock=lock)
    task = bench.take("a")
    token = lock.try_acquire(task.workflow_id, bench.engine.clock.now())
    assert token is not None
    assert bench.report(task).status is TaskStatus.IN_PROGRESS
    lock.release(task.workflow_id, token)
    bench.engine.settle()
    assert bench.run.status is WorkflowStatus.COMPLETED


def test_every_log_line_is_kept() -> None:
    """A report may bring any number of lines."""
    bench = _Bench(_simple("a"))
    task = bench.take("a")
    bench.report(task, logs=[f"line {n}" for n in range(25)])
    assert len(bench.engine.tasks.logs(task.task_id)) == 25


def test_an_execution_keeps_its_definition() -> None:
    """What is registered later changes nothing that runs, not even its task definitions."""
    engine = Engine(clock=VirtualClock(0))
    engine.register(TaskDef(name="a", retry_count=0), WorkflowDef(name="w", tasks=[_task("a", "SIMPLE")]))
    run = engine.start("w")
    engine.register(TaskDef(name="a", retry_count=5), WorkflowDef(name="w", tasks=[_task("b", "SIMPLE")]))
    task = engine.poll("a")[0]
    engine.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.FAILED))
    assert run.status is WorkflowStatus.FAILED


def test_deep_nesting_of_loops_prints_every_round() -> None:
    """A loop in a loop is allowed; a task in both is printed with both rounds."""
    inner = _task("inner", "DO_WHILE", loop_condition="$.inner['iteration'] < 2", loop_over=[_task("x", "NOOP")])
    bench = _Bench(_task("outer", "DO_WHILE", loop_condition="$.outer['iteration'] < 2", loop_over=[inner]))
    refs = [task.ref for task in bench.run.workflow.tasks]
    assert [ref for ref in refs if ref.startswith("x")] == ["x__1__1", "x__1__2", "x__2__1", "x__2__2"]


@pytest.mark.trap("core-42", "tasks-74")
@pytest.mark.parametrize("verb", ["retry", "resume"])
def test_a_verb_that_does_not_fit_is_a_conflict(verb: str) -> None:
    """A running execution can be neither retried nor resumed, and both are told apart from one that does not exist."""
    from conductorlite.errors import Conflict, ExecutionNotFound

    bench = _Bench(_simple("a"))
    with pytest.raises(Conflict):
        getattr(bench.engine, verb)(bench.run.workflow_id)
    with pytest.raises(ExecutionNotFound):
        getattr(bench.engine, verb)("nobody")


def test_a_new_attempt_has_no_reason() -> None:
    """Why an attempt failed is told of that attempt alone."""
    bench = _Bench(_simple("t", retry_count=1, retry_delay_ms=0))
    bench.report(bench.take("t"), "FAILED", reason="it failed")
    assert [task.reason for task in bench.engine.get(bench.run.workflow_id).tasks] == ["it failed", None]


def test_the_last_task_is_executed() -> None:
    """What follows the last task is settled when it ends."""
    bench = _Bench(_simple("t"), _task("n", "NOOP"))
    bench.report(bench.take("t"))
    assert [task.executed for task in bench.engine.get(bench.run.workflow_id).tasks] == [True, True]


def test_nobody_polls_an_operator() -> None:
    """A poll count counts what workers took."""
    fork = _task("f", "FORK_JOIN", fork_tasks=[[_simple("t")]])
    bench = _Bench(fork, _task("j", "JOIN", join_on=["t"]))
    bench.report(bench.take("t"))
    assert {task.ref: task.poll_count for task in bench.engine.get(bench.run.workflow_id).tasks} == {"f": 0, "t": 1, "j": 0}


def test_a_task_of_the_same_decision_can_be_read() -> None:
    """What is known of it when the next one is scheduled: its id and status, and no output yet."""
    reads = {name: f"${{h.{name}}}" for name in ("taskId", "status", "referenceTaskName", "output")}
    read = WorkflowTask(name="s", task_reference_name="s", input_parameters=reads)
    fork = _task("f", "FORK_JOIN", fork_tasks=((_task("h", "HUMAN"),), (read,)))
    bench = _Bench(fork, _task("j", "JOIN", join_on=("h", "s")))
    bench.engine.settle()
    human = bench.run.workflow.task("h")
    assert bench.run.workflow.task("s").input_data == {
        "taskId": human.task_id, "status": "IN_PROGRESS", "referenceTaskName": "h", "output": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "found"), [("${ workflow.input.a }", None), ("${workflow.input.a b}", None), ("x ${ workflow.input.a}", "x null")]
)
def test_blanks_in_an_expression(written: str, found: str | None) -> None:
    """It is null, and registering the definition says so."""
    task = WorkflowTask(name="s", task_reference_name="s", input_parameters={"x": written})
    bench = _Bench(task, input={"a": 1})
    assert bench.run.workflow.task("s").input_data == {"x": found}
    (problem,) = validate(WorkflowDef(name="w", tasks=(task,)))
    assert str(problem).startswith("$.tasks[0].inputParameters.x: path ")
    assert str(problem).endswith("it resolves to null (warning)")
