"""SUB_WORKFLOW, failureWorkflow, TERMINATE, SET_VARIABLE, keepLastN and asyncComplete."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, noop, rounds, simple, switch, task_def, wait

from conductorlite import (
    InvalidDefinition,
    SubWorkflowParams,
    TaskResult,
    TaskStatus,
    Workflow,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import AlreadyExists, DefinitionNotFound


def sub(ref: str, child: WorkflowDef | str, version: int | None = None, **fields: Any) -> WorkflowTask:
    """A SUB_WORKFLOW of a definition, or of a registered name."""
    params = {"name": child} if isinstance(child, str) else {"workflow_definition": child}
    options = {key: fields.pop(key) for key in ("priority", "task_to_domain") if key in fields}
    return WorkflowTask(
        name=ref,
        task_reference_name=ref,
        type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(version=version, **params, **options),
        **fields,
    )


def terminate(ref: str, status: str, **inputs: Any) -> WorkflowTask:
    """A TERMINATE."""
    return WorkflowTask(
        name=ref, task_reference_name=ref, type="TERMINATE", input_parameters={"terminationStatus": status, **inputs}
    )


def set_variable(ref: str, **inputs: Any) -> WorkflowTask:
    """A SET_VARIABLE."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="SET_VARIABLE", input_parameters=inputs)


def child_of(bench: Bench, ref: str, workflow: Workflow | None = None) -> Workflow:
    """The execution that the last attempt at a SUB_WORKFLOW task started."""
    bench.engine.settle()
    task = (workflow or bench.workflow).task(ref)
    assert task.sub_workflow_id is not None
    return bench.engine.get(task.sub_workflow_id)


ONE = flow(
    simple("work", {"retry_count": 0}, input_parameters={"n": "${workflow.input.n}"}),
    name="one",
    output_parameters={"answer": "${work.output.answer}"},
)


@pytest.mark.trap("core-29", "tasks-39")
def test_a_child_runs_and_its_output_is_the_tasks(bench: Bench) -> None:
    """The child gets the task's input, its output is added to the task's, and the flow goes on."""
    bench.start(flow(sub("c", ONE, input_parameters={"n": "${workflow.input.n}"}), simple("z")), {"n": 3}, priority=7)
    child = child_of(bench, "c")
    assert (child.input_data, child.parent_workflow_id, child.priority) == ({"n": 3}, bench.workflow_id, 7)
    bench.do("work", output={"answer": 42})
    bench.engine.settle()
    assert bench.task("c").output_data == {"subWorkflowId": child.workflow_id, "answer": 42}
    assert bench.statuses() == {"c": "COMPLETED", "z": "SCHEDULED"}
    assert bench.engine.admin.check() == []


@pytest.mark.trap("tasks-38")
def test_three_deep(bench: Bench) -> None:
    """A child's child is heard of through every level."""
    middle = flow(sub("m", ONE), name="middle", output_parameters={"answer": "${m.output.answer}"})
    bench.start(flow(sub("c", middle), output_parameters={"answer": "${c.output.answer}"}))
    innermost = child_of(bench, "m", child_of(bench, "c"))
    assert innermost.tasks[0].ref == "work"
    bench.do("work", output={"answer": "deep"})
    bench.engine.settle()
    assert bench.workflow.output_data == {"answer": "deep"}


@pytest.mark.trap("core-28", "tasks-40")
def test_the_version_is_pinned_at_the_start(bench: Bench) -> None:
    """A version registered after the parent's start is not what its child runs on."""
    bench.engine.register(attrs.evolve(ONE, version=1))
    bench.start(flow(simple("first"), sub("c", "one")))
    bench.engine.register(attrs.evolve(ONE, version=2), attrs.evolve(ONE, version=1, tasks=(noop("other"),)))
    bench.do("first")
    bench.engine.settle()
    child = child_of(bench, "c")
    assert (child.version, child.tasks[0].ref) == (1, "work")


@pytest.mark.trap("core-30")
def test_what_cannot_be_started(bench: Bench) -> None:
    """A sub-workflow that is not registered, or in a circle, is refused at the parent's start."""
    with pytest.raises(DefinitionNotFound, match="nowhere"):
        bench.engine.start(flow(sub("c", "nowhere")))
    bench.engine.register(flow(sub("b", "ring_b"), name="ring_a"), flow(sub("a", "ring_a"), name="ring_b"))
    with pytest.raises(InvalidDefinition, match=r"ring_a\.1 → ring_b\.1 → ring_a\.1"):
        bench.engine.start("ring_a")
    assert list(bench.engine.admin.workflow_ids()) == []


@pytest.mark.parametrize("name", ["one", "${workflow.input.name}"])
def test_version_0_of_a_sub_workflow_is_the_highest(bench: Bench, name: str) -> None:
    """As in Conductor, whether its name is written or an expression."""
    bench.engine.register(flow(simple("old"), name="one"), flow(simple("new"), name="one", version=2))
    bench.start(flow(sub("c", name, version=0)), {"name": "one"})
    bench.engine.settle()
    assert (child_of(bench, "c").version, child_of(bench, "c").tasks[0].ref) == (2, "new")


def test_definitions_of_one_name_within_each_other(bench: Bench) -> None:
    """Definitions that are written into one another are no circle, whatever they are called: they have an end."""
    inner = flow(simple("work"), name="same")
    bench.start(flow(sub("c", flow(sub("d", inner), name="same")), name="same"))
    bench.engine.settle()
    bench.do("work")
    bench.engine.settle()
    assert bench.status_of_workflow() == "COMPLETED"


@pytest.mark.trap("tasks-41")
@pytest.mark.parametrize(
    ("report", "status", "parent"),
    [("FAILED", "FAILED", "FAILED"), ("CANCELED", "CANCELED", "TERMINATED")],
)
def test_a_childs_failure_is_its_tasks(bench: Bench, report: str, status: str, parent: str) -> None:
    """FAILED fails the task, TERMINATED cancels it, and the reason is what happened in the child; Conductor's names it too."""
    bench.start(flow(sub("c", ONE), simple("z")))
    bench.do("work", report, reason="out of paper")
    bench.engine.settle()
    assert bench.statuses() == {"c": status}
    assert bench.status_of_workflow() == parent
    assert "one.1/" in (bench.task("c").conductor_reason or "")
    assert "out of paper" in (bench.task("c").reason or "")


@pytest.mark.trap("tasks-41", "tasks-42")
def test_every_attempt_has_a_child_of_its_own(bench: Bench) -> None:
    """A failed child is retried, after the delay, as a new execution; a late end of the old one changes nothing."""
    bench.start(flow(sub("c", ONE, retry_count=1, task_definition=task_def("c", retry_delay_s=5))))
    first = child_of(bench, "c")
    bench.do("work", "FAILED")
    bench.engine.settle()
    assert bench.statuses() == {"c": "SCHEDULED"}
    assert bench.engine.poll("work") == []
    bench.at(5)
    second = child_of(bench, "c")
    assert second.workflow_id != first.workflow_id
    bench.engine.retry(first.workflow_id)
    bench.do("work")
    bench.do("work")
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.statuses() == {"c": "COMPLETED"}


def test_the_end_of_the_parent_ends_the_family(bench: Bench) -> None:
    """Terminating a parent terminates its children at every depth before the verb returns, and says why."""
    middle = flow(fork("f", [sub("m", ONE)], [wait("w")]), join("j", "m", "w"), name="middle")
    bench.start(flow(sub("c", middle)))
    ids = [child_of(bench, "c").workflow_id, child_of(bench, "m", child_of(bench, "c")).workflow_id]
    bench.engine.terminate(bench.workflow_id, "enough")
    bench.engine.settle()
    for one in ids:
        assert bench.engine.status(one) is WorkflowStatus.TERMINATED
        assert "Parent workflow has been terminated with reason: " in (bench.engine.get(one).reason or "")
    assert bench.engine.poll("work") == []
    assert bench.engine.admin.check() == []


def test_a_task_that_times_out_ends_its_child(bench: Bench) -> None:
    """A SUB_WORKFLOW task past its own timeout is TIMED_OUT and its child is terminated; so is one not yet begun."""
    limit = task_def("c", timeout_s=10, timeout_policy="RETRY", retry_count=1, retry_delay_s=60)
    bench.start(flow(sub("c", ONE, task_definition=limit)))
    child = child_of(bench, "c")
    bench.at(10)
    assert bench.engine.status(child.workflow_id) is WorkflowStatus.TERMINATED
    assert bench.statuses() == {"c": "SCHEDULED"}
    bench.engine.terminate(bench.workflow_id)
    bench.at(100)
    assert sorted(bench.engine.admin.workflow_ids()) == sorted([bench.workflow_id, child.workflow_id])


def test_an_optional_child(bench: Bench) -> None:
    """The failure of an optional SUB_WORKFLOW is borne."""
    bench.start(flow(sub("c", ONE, optional=True), simple("z")))
    bench.do("work", "FAILED_WITH_TERMINAL_ERROR")
    bench.engine.settle()
    assert bench.statuses() == {"c": "COMPLETED_WITH_ERRORS", "z": "SCHEDULED"}


def test_children_of_a_loop(bench: Bench) -> None:
    """Each round starts a child of its own."""
    bench.start(flow(rounds("l", [sub("c", ONE)], 2)))
    bench.do("work", output={"answer": 1})
    bench.engine.settle()
    bench.do("work", output={"answer": 2})
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    output = bench.task("l").output_data
    assert [output[n]["c"]["answer"] for n in ("1", "2")] == [1, 2]


# -- failureWorkflow ---------------------------------------------------------------------------------------------------

MOURN = flow(simple("mourn", input_parameters={"all": "${workflow.input}"}), name="mourn")


@pytest.mark.trap("core-23", "core-44", "tasks-76")
@pytest.mark.parametrize("name", ["mourn", "$workflow.input.who", "${workflow.input.who}"])
def test_a_failed_execution_is_compensated(bench: Bench, name: str) -> None:
    """The failure workflow gets the input of the failed one, its id, reason, status, failed task, and all of it."""
    bench.engine.register(MOURN)
    bench.start(flow(simple("a"), simple("b", {"retry_count": 0}), failure_workflow=name), {"who": "mourn"})
    bench.do("a", output={"paid": True})
    bench.do("b", "FAILED", reason="no stock")
    bench.engine.settle()
    failed = bench.workflow
    other = bench.engine.get(failed.output_data["conductor.failure_workflow"])
    assert (other.name, other.correlation_id, other.parent_workflow_id) == ("mourn", failed.correlation_id, None)
    given = other.input_data
    assert given["workflowId"] == failed.workflow_id
    assert given["who"] == "mourn"
    assert given["failureStatus"] == "FAILED"
    assert given["failureTaskId"] == bench.task("b").task_id
    assert "no stock" in given["reason"]
    tasks = {task["referenceTaskName"]: task for task in given["failedWorkflow"]["tasks"]}
    assert tasks["a"]["outputData"] == {"paid": True}
    assert tasks["b"]["status"] == "FAILED"
    assert bench.take("mourn").input_data["all"]["workflowId"] == failed.workflow_id


@pytest.mark.parametrize("name", ["nobody", "${workflow.input.missing}"])
def test_a_failure_workflow_that_is_not_there_is_told(bench: Bench, name: str) -> None:
    """A name that resolves to nothing registered is recorded in the output; the execution has failed all the same."""
    bench.start(flow(simple("a", {"retry_count": 0}), failure_workflow=name))
    bench.do("a", "FAILED")
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert str(bench.workflow.output_data["conductor.failure_workflow"]).startswith("Error: ")
    assert list(bench.engine.admin.workflow_ids()) == [bench.workflow_id]


@pytest.mark.trap("core-43", "tasks-45")
def test_who_is_not_compensated(bench: Bench) -> None:
    """Neither the terminate verb nor the end of a parent starts a failure workflow."""
    bench.engine.register(MOURN)
    child = attrs.evolve(ONE, failure_workflow="mourn")
    bench.start(flow(sub("c", child), failure_workflow="mourn"))
    bench.engine.terminate(bench.workflow_id)
    bench.engine.settle()
    assert len(list(bench.engine.admin.workflow_ids())) == 2
    assert bench.engine.poll("mourn") == []


# -- TERMINATE and SET_VARIABLE ----------------------------------------------------------------------------------------


@pytest.mark.trap("core-22", "core-23", "tasks-45", "tasks-46", "tasks-77")
@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
def test_terminate(bench: Bench, status: str) -> None:
    """TERMINATE ends the workflow at once with its status, reason and output; what is open is canceled."""
    bench.engine.register(MOURN)
    end = terminate("end", status, terminationReason="because ${workflow.input.why}", workflowOutput={"z": 1})
    tree = flow(
        fork("f", [simple("a")], [noop("n"), end]),
        join("j", "a", "end"),
        failure_workflow="mourn",
        output_parameters={"not": "used"},
    )
    bench.start(tree, {"why": "so"})
    bench.engine.settle()
    workflow = bench.workflow
    assert (workflow.status, workflow.reason) == (status, "because so")
    assert workflow.output_data["z"] == 1
    assert "not" not in workflow.output_data
    assert bench.statuses()["a"] == bench.statuses()["j"] == "CANCELED"
    assert len(bench.engine.poll("mourn")) == (status != "COMPLETED")


def test_terminate_with_a_status_that_is_none(bench: Bench) -> None:
    """A status out of an expression that is none of the three fails the task, quoting it."""
    bench.start(flow(terminate("end", "${workflow.input.status}")), {"status": "DONE"})
    assert bench.task("end").status is TaskStatus.FAILED
    assert "'DONE'" in (bench.workflow.reason or "")


def test_set_variable(bench: Bench) -> None:
    """Variables keep what is not set again, replace what is, and are seen by everything after."""
    tree = flow(
        set_variable("v1", a=1, b={"c": 2}),
        set_variable("v2", b="${workflow.variables.a}"),
        output_parameters={"all": "${workflow.variables}"},
        variables={"given": True},
    )
    bench.start(tree)
    assert bench.workflow.output_data == {"all": {"given": True, "a": 1, "b": 1}}
    assert bench.workflow.variables.value == {"given": True, "a": 1, "b": 1}


def test_variables_have_a_limit(bench: Bench) -> None:
    """Variables past 256 KB fail the task for good and stay as they were."""
    bench.start(flow(set_variable("v1", a=1), set_variable("v2", b="${workflow.input.big}")), {"big": "x" * 300_000})
    assert bench.task("v2").status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert "bytes" in (bench.task("v2").reason or "")
    assert bench.workflow.variables.value == {"a": 1}


# -- keepLastN and asyncComplete ---------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-31")
def test_keep_last_n(bench: Bench) -> None:
    """Of a loop with keepLastN only the last rounds stay, in the rows and in the output, inner loops included."""
    inner = rounds("i", [noop("q")], 2)
    cases = switch("s", {"1": [noop("only_once")]}, [], value="${l.output.iteration}")
    tree = flow(rounds("l", [simple("p"), inner, cases], 5, input_parameters={"keepLastN": 2}))
    bench.start(tree)
    for number in range(5):
        bench.do("p", output={"n": number})
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    refs = {task.ref for task in bench.workflow.tasks}
    assert {ref for ref in refs if ref.startswith("p")} == {"p__4", "p__5"}
    assert {ref for ref in refs if ref.startswith("q")} == {"q__4__1", "q__4__2", "q__5__1", "q__5__2"}
    assert "only_once__1" not in refs
    output = bench.task("l").output_data
    assert (sorted(output), output["4"]["p"]) == (["4", "5", "iteration"], {"n": 3})
    assert bench.engine.admin.check() == []


def test_async_complete(bench: Bench) -> None:
    """With asyncComplete a worker only sets the task going: it stays open, without a response timeout, until reported.

    Nor does a task timeout hold that no definition sets: see test_default_timeouts.py.
    """
    limit = task_def("it", response_timeout_s=10)
    task = WorkflowTask(name="it", task_reference_name="it", type="CALL", async_complete=True, task_definition=limit)
    bench.start(flow(task, simple("z")))
    bench.do("CALL", output={"ticket": 7})
    assert bench.statuses() == {"it": "IN_PROGRESS"}
    assert [entry.kind for entry in bench.engine.admin.agenda()] == []
    bench.at(30000)
    assert bench.statuses() == {"it": "IN_PROGRESS"}
    it = bench.task("it")
    assert it.output_data == {"ticket": 7}
    done = TaskResult(workflow_id=it.workflow_id, task_id=it.task_id, status=TaskStatus.COMPLETED, output_data={"ok": True})
    bench.engine.update_task(done)
    assert bench.statuses() == {"it": "COMPLETED", "z": "SCHEDULED"}


def test_an_id_that_is_taken(bench: Bench) -> None:
    """Starting an id that exists is AlreadyExists, whatever lies in the inbox of the execution that has it."""
    bench.start(flow(wait("w", duration="5s")))
    bench.clock.move_to(bench.clock.now() + 6000)
    with pytest.raises(AlreadyExists):
        bench.engine.start(flow(noop("n")), workflow_id=bench.workflow_id)
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
