"""Engine.definitions.migrate beside other verbs: what was skipped ahead, what was renamed twice, names that changed hands."""

from __future__ import annotations

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple

from conductorlite import SubWorkflowParams, TaskResult, TaskStatus, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import Conflict
from conductorlite.store.memory.backend import MemoryBackend


def version(number: int, *tasks: WorkflowTask) -> WorkflowDef:
    """One version of `flow`."""
    return flow(*tasks, version=number)


# ---------------------------------------------------------------------- skipped ahead


def test_a_join_still_waits_for_what_was_skipped_ahead(bench: Bench) -> None:
    """A joined task that was skipped ahead lies ahead, also for the JOIN that counts anew: it ended without the branch."""
    branches = (fork("f", [simple("a")], [simple("b"), simple("c")]), join("j", "a", "c"))
    bench.start(version(1, *branches))
    bench.engine.skip_task(bench.workflow_id, "c")
    bench.engine.definitions.migrate(bench.workflow_id, version(2, *branches, simple("z")))
    assert bench.engine.admin.check() == []
    bench.do("a")
    assert bench.task("j").status is TaskStatus.IN_PROGRESS
    bench.do("b")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_was_skipped_ahead_must_be_able_to_come(bench: Bench) -> None:
    """A JOIN would wait for ever for one that the new definition has where nothing leads to; where it has not begun, it may go."""
    joined = join("j", "a", "c")
    bench.start(version(1, fork("f", [simple("a")], [simple("b"), simple("c")]), joined))
    bench.engine.skip_task(bench.workflow_id, "c")
    behind = version(2, fork("f", [simple("a")], [simple("c"), simple("b")]), joined)
    with pytest.raises(Conflict, match="j: would wait for 'c', which never runs where the new definition has it"):
        bench.engine.definitions.migrate(bench.workflow_id, behind)
    gone = version(2, fork("f", [simple("a")], [simple("b")]), join("j", "a", "b"))
    assert bench.engine.definitions.migrate(bench.workflow_id, gone).waiting == {}
    bench.do("a")
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.admin.check() == []


# ---------------------------------------------------------------------- events to what has another name by now


def child(ref: str, *tasks: WorkflowTask) -> WorkflowTask:
    """A SUB_WORKFLOW with an inline definition."""
    params = SubWorkflowParams(workflow_definition=flow(*tasks, name="child"))
    return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=params)


def test_a_worker_that_polled_between_two_renamings(bench: Bench) -> None:
    """It knows the task by the second of three names: its signs of life and its report were lost."""
    timed = {"response_timeout_s": 60}
    bench.start(version(1, simple("a", timed)))
    bench.engine.definitions.migrate(bench.workflow_id, version(2, simple("b", timed)), refs={"a": "b"})
    held = bench.take("a")
    assert held.ref == "b"
    bench.engine.definitions.migrate(bench.workflow_id, version(3, simple("c", timed)), refs={"b": "c"})
    assert bench.engine.tasks.extend_lease(held)
    result = TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, status=TaskStatus.COMPLETED, lease=held.lease)
    bench.engine.core.reports.report(held, result)
    assert bench.task("c").status is TaskStatus.COMPLETED
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def late(task: WorkflowTask) -> WorkflowTask:
    """The same, begun after 5 seconds."""
    return attrs.evolve(task, start_delay_ms=5000)


def ended_and_resumed(bench: Bench) -> None:
    """What was terminated before its child began goes on, and writes to the child again."""
    bench.engine.terminate(bench.workflow_id)
    bench.engine.settle()
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)


def test_a_child_that_was_begun_between_two_renamings(bench: Bench) -> None:
    """It begins with what its parent wrote under the second name; its end was lost, and the parent waited for ever."""
    inner = simple("inner")
    bench.start(version(1, late(child("s", inner)), simple("z")))
    bench.engine.definitions.migrate(bench.workflow_id, version(2, late(child("t", inner)), simple("z")), refs={"s": "t"})
    ended_and_resumed(bench)
    bench.engine.definitions.migrate(bench.workflow_id, version(3, late(child("u", inner)), simple("z")), refs={"t": "u"})
    bench.do("inner", output={"x": 1})
    bench.do("z")
    assert bench.task("u").status is TaskStatus.COMPLETED
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_child_whose_key_is_taken_between_two_renamings() -> None:
    """The answer to what its parent wrote under the second name, relayed after the third was given: it cannot begin."""
    bench = Bench(MemoryBackend(relay=True))
    bench.engine.register(flow(simple("inner"), name="keyed"))
    bench.engine.start("keyed", idempotency_key="k")

    def keyed(ref: str) -> WorkflowTask:
        params = SubWorkflowParams(name="keyed", idempotency_key="k")
        return late(WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=params))

    bench.start(version(1, keyed("s")))
    bench.engine.definitions.migrate(bench.workflow_id, version(2, keyed("t")), refs={"s": "t"})
    ended_and_resumed(bench)
    bench.engine.definitions.migrate(bench.workflow_id, version(3, keyed("u")), refs={"t": "u"})
    bench.engine.settle()
    assert bench.task("u").status is TaskStatus.FAILED
    assert "idempotency key 'k'" in str(bench.task("u").reason)
    bench.engine.close()


def test_a_renamed_task_waits_again_for_a_child_that_is_rerun(bench: Bench) -> None:
    """A child that is run again by itself reopened its task only under the name it began with."""
    inner = simple("inner")
    bench.start(version(1, child("s", inner), simple("z")))
    bench.do("inner")
    bench.engine.definitions.migrate(bench.workflow_id, version(2, child("t", inner), simple("z")), refs={"s": "t"})
    bench.engine.rerun(str(bench.task("t").sub_workflow_id))
    bench.engine.settle()
    assert bench.task("t").status is TaskStatus.IN_PROGRESS
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.do("inner")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.admin.check() == []


def test_a_child_of_a_task_whose_name_another_one_has(bench: Bench) -> None:
    """Its end was read as one of a task that had been given the name anew, and thrown away."""
    inner = simple("inner")
    bench.start(version(1, fork("f", [child("s", inner)], [simple("a")]), join("j", "s", "a")))
    bench.engine.settle()
    renamed = [child("t", inner)]
    bench.engine.definitions.migrate(
        bench.workflow_id, version(2, fork("f", renamed, [simple("a")]), join("j", "t", "a")), refs={"s": "t"}
    )
    bench.engine.definitions.migrate(
        bench.workflow_id, version(3, fork("f", renamed, [simple("a"), simple("s")]), join("j", "t", "a", "s"))
    )
    bench.do("a")
    assert bench.task("s").status is TaskStatus.SCHEDULED
    bench.do("inner")
    assert bench.task("t").status is TaskStatus.COMPLETED
    bench.do("s")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_names_that_went_round(bench: Bench) -> None:
    """One task takes the name that another one has given up: whoever holds the latter reports on the latter."""
    bench.start(version(1, fork("f", [simple("x")], [simple("y")]), join("j", "x", "y")))
    x = bench.take("x")
    zed = simple("z")
    bench.engine.definitions.migrate(
        bench.workflow_id, version(2, fork("f", [zed], [simple("y")]), join("j", "z", "y")), refs={"x": "z"}
    )
    ex = simple("x")
    bench.engine.definitions.migrate(bench.workflow_id, version(3, fork("f", [zed], [ex]), join("j", "z", "x")), refs={"y": "x"})
    assert (bench.task("x").attempt, bench.task("x").generation) == (x.attempt, x.generation)
    result = TaskResult(workflow_id=x.workflow_id, task_id=x.task_id, status=TaskStatus.COMPLETED, lease=x.lease)
    bench.engine.core.reports.report(x, result)
    assert (bench.task("z").status, bench.task("x").status) == (TaskStatus.COMPLETED, TaskStatus.SCHEDULED)
    bench.do("y")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


# ---------------------------------------------------------------------- run again


def test_a_rerun_behind_a_new_head_of_its_round(bench: Bench) -> None:
    """A task that a migration has put before a round in progress is not run in that round, also if nothing else of it is left.

    It was scheduled beside the task that was run again, and the execution was parked when it came to that a second time.
    """
    bench.start(version(1, rounds("l", [simple("a"), simple("b")])))
    bench.do("a")
    bench.engine.definitions.migrate(bench.workflow_id, version(2, rounds("l", [simple("new"), simple("a"), simple("b")])))
    bench.engine.rerun(bench.workflow_id, from_task="a__1")
    for name in ("a", "b", "new", "a", "b"):
        bench.do(name)
    assert bench.order() == ["l", "a__1", "b__1", "new__2", "a__2", "b__2"]
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
