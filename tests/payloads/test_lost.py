"""A payload that is missing or damaged fails the task that needs it, with its key in the reason; nothing is parked or crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from payload_kit import KB, Bench, flow, simple, sized

from conductorlite import SubWorkflowParams, TaskResult, TaskStatus, WorkflowStatus, WorkflowTask
from conductorlite.errors import PayloadLost, PayloadUnavailable
from conductorlite.store.ports import PayloadStorage

#: Documents are lost in every test here: the check finds that, and nothing else.
LOSES_DOCUMENTS = True

#: What becomes of an object, and what the reason says of it.
HARM: list[tuple[str, Callable[[PayloadStorage, str], None]]] = [
    ("is missing", lambda storage, key: storage.delete(key)),
    ("is damaged", lambda storage, key: storage.put(key, storage.get(key)[:-9])),
    ("is damaged", lambda storage, key: storage.put(key, b"")),
]

BIG = sized(3 * KB)


def forget(bench: Bench) -> None:
    """Have the engine read from the storage again what it remembers."""
    bench.engine.core.turns.lookups.large = type(bench.engine.core.turns.lookups.large)(256)


def harmed(bench: Bench, harm: Callable[[PayloadStorage, str], None], ref: str) -> str:
    """Harm the output of a task; its key."""
    external = bench.task(ref).output.external
    assert external is not None
    harm(bench.storage, external.key)
    forget(bench)
    return external.key


def failed_of(bench: Bench, ref: str, key: str, words: str) -> None:
    """The task failed for good of that payload, and the workflow with it."""
    task = bench.task(ref)
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert f"payload {key} {words}" in str(task.reason)
    assert bench.workflow.status is WorkflowStatus.FAILED
    assert bench.workflow.parked is None
    assert key in str(bench.workflow.reason)


@pytest.mark.parametrize(("words", "harm"), HARM)
def test_a_task_that_is_made_of_it_fails(new_bench: Any, storage: PayloadStorage, words: str, harm: Any) -> None:
    """An input that is made of a lost output fails its task; who does not read it goes on."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a"), simple("b"), simple("c", input_parameters={"x": "${a.output.x}"})))
    bench.do("a", BIG)
    key = harmed(bench, harm, "a")
    bench.do("b")
    failed_of(bench, "c", key, words)
    with pytest.raises(PayloadLost, match=key) as lost:
        _ = bench.task("a").output_data
    assert lost.value.key == key


@pytest.mark.parametrize(("words", "harm"), HARM)
def test_a_task_that_is_polled_with_it_fails(new_bench: Any, storage: PayloadStorage, words: str, harm: Any) -> None:
    """A task whose own input is lost is not handed to a worker: it fails, and the next one is handed out."""
    bench: Bench = new_bench(storage)
    definition = flow(simple("a", input_parameters={"x": "${workflow.input.x}"}))
    bench.start(definition, BIG)
    external = bench.task("a").input.external
    assert external is not None
    harm(bench.storage, external.key)
    forget(bench)
    other = bench.engine.start(definition, {"x": 1})
    bench.engine.settle()
    polled = bench.engine.poll("a", count=2)
    assert [task.workflow_id for task in polled] == [other.workflow_id]
    bench.engine.settle()
    failed_of(bench, "a", external.key, words)


@pytest.mark.parametrize(("words", "harm"), HARM[:2])
def test_a_join_and_a_loop_fail(new_bench: Any, words: str, harm: Any) -> None:
    """A JOIN that collects a lost output, and a DO_WHILE that does, fail for good."""
    bench: Bench = new_bench()
    fork = WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=[[simple("a")], [simple("b")]])
    join = WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=["a", "b"])
    bench.start(flow(fork, join, simple("z")))
    bench.do("a", BIG)
    key = harmed(bench, harm, "a")
    bench.do("b")
    failed_of(bench, "j", key, words)
    loop = WorkflowTask(
        name="l", task_reference_name="l", type="DO_WHILE", loop_condition="$.l['iteration'] < 2", loop_over=[simple("a")]
    )
    bench.start(flow(loop, simple("z")))
    bench.do("a", BIG)
    key = harmed(bench, harm, "a__1")
    bench.do("a")
    failed_of(bench, "l", key, words)


def test_a_condition_on_it_fails_the_loop(new_bench: Any) -> None:
    """A loop whose condition reads a lost output fails for good: it neither ends nor goes on by mistake."""
    bench: Bench = new_bench()
    loop = WorkflowTask(
        name="l",
        task_reference_name="l",
        type="DO_WHILE",
        loop_condition="$.before != null && $.l['iteration'] < 2",
        input_parameters={"before": "${before.output.x}"},
        loop_over=[simple("a")],
    )
    bench.start(flow(simple("before"), loop))
    bench.do("before", BIG)
    key = harmed(bench, HARM[0][1], "before")
    bench.do("a")
    failed_of(bench, "l", key, "is missing")


def test_an_output_made_of_it_fails_the_workflow(new_bench: Any) -> None:
    """A workflow whose outputParameters read a lost output is FAILED; its failure workflow is told without that output."""
    bench: Bench = new_bench()
    mourner = flow(simple("m", input_parameters={"t": "${workflow.input.failedWorkflow.tasks}"}), name="mourner")
    bench.engine.register(mourner)
    definition = flow(simple("a"), simple("b"), output_parameters={"x": "${a.output.x}"}, failure_workflow="mourner", name="dead")
    bench.start(definition)
    bench.do("a", BIG)
    key = harmed(bench, HARM[0][1], "a")
    bench.do("b")
    row = bench.workflow
    assert row.status is WorkflowStatus.FAILED
    assert f"payload {key} is missing" in str(row.reason)
    told = bench.take("m").input_data["t"]
    assert [task["outputData"] for task in told] == [{}, {}]
    assert row.parked is None


def test_a_child_whose_output_is_lost_fails_its_parents_task(new_bench: Any) -> None:
    """A SUB_WORKFLOW whose child ended with a lost output fails for good."""
    bench: Bench = new_bench()
    bench.engine.register(flow(simple("a"), name="child"))
    sub = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="child"))
    bench.start(flow(sub))
    bench.engine.settle()
    parent, child = bench.workflow_id, str(bench.task("s").sub_workflow_id)
    task = bench.take("a")
    bench.engine.pause(child)
    bench.report(task, BIG)
    bench.workflow_id = child
    key = harmed(bench, HARM[0][1], "a")
    bench.engine.resume(child)
    bench.engine.settle()
    bench.workflow_id = parent
    failed_of(bench, "s", key, "is missing")


def test_verbs_on_what_is_lost(new_bench: Any) -> None:
    """An execution with a lost input is shown, explained, checked, terminated, restarted if nothing reads it, removed."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a"), input_template={"t": 1}), BIG)
    external = bench.workflow.input.external
    assert external is not None
    bench.storage.delete(external.key)
    forget(bench)
    assert "a" in str(bench.engine.explain(bench.workflow_id))
    assert [finding.law for finding in bench.engine.admin.check()] == ["documents_are_stored"]
    with pytest.raises(PayloadLost, match=external.key):
        _ = bench.workflow.input_data
    with pytest.raises(PayloadLost, match=external.key):
        bench.engine.admin.export(bench.workflow_id)
    bench.engine.terminate(bench.workflow_id)
    bench.engine.restart(bench.workflow_id)
    assert bench.engine.status(bench.workflow_id) is WorkflowStatus.RUNNING
    bench.engine.terminate(bench.workflow_id)
    bench.engine.admin.remove(bench.workflow_id)
    assert list(bench.engine.admin.workflow_ids()) == []
    assert bench.keys() == []


class Sulking:
    """A storage that refuses for a while."""

    def __init__(self, inner: PayloadStorage) -> None:
        self.inner = inner
        self.sulks = False

    def __getattr__(self, name: str) -> Any:
        if self.sulks:
            raise PayloadUnavailable("the storage sulks")
        return getattr(self.inner, name)


def test_a_storage_that_cannot_be_reached_is_no_loss(new_bench: Any, storage: PayloadStorage) -> None:
    """While the storage refuses, turns that need it raise and change nothing, and polled tasks go back; later all goes on."""
    moody = Sulking(storage)
    bench: Bench = new_bench(moody)
    bench.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"}), simple("b")), BIG)
    bench.engine.settle()
    forget(bench)
    moody.sulks = True
    assert bench.engine.poll("a") == []
    assert bench.task("a").status is TaskStatus.SCHEDULED
    assert bench.task("a").reason == "the storage sulks"
    assert bench.engine.status(bench.workflow_id) is WorkflowStatus.RUNNING
    with pytest.raises(PayloadUnavailable):
        bench.engine.start(flow(simple("z")), sized(3 * KB, "other"), workflow_id="never")
    assert list(bench.engine.admin.workflow_ids()) == [bench.workflow_id]
    moody.sulks = False
    bench.engine.advance("30s")
    bench.do("a", BIG)
    bench.do("b")
    assert bench.workflow.status is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("stricter", [True, False])
def test_an_output_that_is_lost_cannot_become_the_workflows(new_bench: Any, stricter: bool) -> None:
    """A workflow whose last task's output is lost is FAILED where that has to be looked at; where it stays as it is, it is kept."""
    bench: Bench = new_bench(
        barriers={
            "max_workflow_output_payload_size_threshold": 4,
            "max_task_output_payload_size_threshold": 8 if stricter else 4,
        }
    )
    bench.start(flow(simple("a"), WorkflowTask(name="w", task_reference_name="w", type="WAIT"), name="last"))
    bench.do("a")
    wait = bench.task("w")
    bench.engine.pause(bench.workflow_id)
    bench.engine.update_task(
        TaskResult(workflow_id=wait.workflow_id, task_id=wait.task_id, status=TaskStatus.COMPLETED, output_data=BIG)
    )
    key = harmed(bench, HARM[0][1], "w")
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.workflow.parked is None
    if stricter:
        assert bench.workflow.status is WorkflowStatus.FAILED
        assert f"payload {key} is missing" in str(bench.workflow.reason)
    else:
        assert bench.workflow.status is WorkflowStatus.COMPLETED
