"""START_WORKFLOW, and sub-workflows that are known only when they are scheduled."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench
from run_time_kit import Json, loop, node, starting, workflow

from conductorlite import TaskStatus, Workflow, WorkflowDef, WorkflowStatus

ONE: Json = {"name": "one", "tasks": [node("work", inputParameters={"n": "${workflow.input.n}"})]}


@pytest.fixture
def ready(bench: Bench) -> Bench:
    """A bench with two versions of a workflow of one task registered."""
    bench.engine.register(WorkflowDef.from_json(ONE), WorkflowDef.from_json({**ONE, "version": 2}))
    return bench


def started(bench: Bench, ref: str = "s") -> Workflow:
    """The execution that a START_WORKFLOW has started."""
    return bench.engine.get(bench.task(ref).output_data["workflowId"])


def others(bench: Bench) -> list[str]:
    """Executions besides the one under test."""
    bench.engine.settle()
    return [one for one in bench.engine.admin.workflow_ids() if one != bench.workflow_id]


# -- START_WORKFLOW ----------------------------------------------------------------------------------------------------


def test_it_ends_when_the_other_has_begun(ready: Bench) -> None:
    """The task ends with the id of the execution it started, whose end it does not wait for; nothing ties the two."""
    ready.start(workflow(starting({"name": "one", "input": {"n": 1}}), node("z")))
    ready.engine.settle()
    assert ready.statuses() == {"s": "COMPLETED", "z": "SCHEDULED"}
    other = started(ready)
    assert (other.name, other.version, other.input_data) == ("one", 2, {"n": 1})
    assert (other.parent_workflow_id, other.status) == (None, WorkflowStatus.RUNNING)
    ready.engine.terminate(ready.workflow_id)
    ready.engine.settle()
    assert started(ready).status is WorkflowStatus.RUNNING


def test_every_field_of_the_request(ready: Bench) -> None:
    """Version, priority, ids and domains of the request are those of the execution."""
    request = {
        "name": "one",
        "version": "1",
        "correlationId": "C",
        "priority": 9,
        "createdBy": "me",
        "taskToDomain": {"work": "eu"},
        "input": {"n": "${workflow.input.n}"},
        "unknown": 1,
    }
    ready.start(workflow(starting(request)), {"n": 4})
    ready.engine.settle()
    other = started(ready)
    assert (other.version, other.correlation_id, other.priority, other.created_by) == (1, "C", 9, "me")
    assert (other.task_to_domain.value, other.input_data) == ({"work": "eu"}, {"n": 4})


def test_what_is_inherited(ready: Bench) -> None:
    """Correlation id and domains are the starter's unless given; the priority is not."""
    ready.start(workflow(starting({"name": "one"})), correlation_id="C", priority=7)
    ready.engine.settle()
    other = started(ready)
    assert (other.correlation_id, other.priority, other.input_data) == ("C", 0, {})


def test_a_definition_in_the_request(bench: Bench) -> None:
    """`workflowDef` need not be registered, and may be computed by a task before."""
    bench.start(workflow(node("a"), starting({"workflowDef": "${a.output.made}", "input": {"n": 2}})))
    bench.do("a", output={"made": {**ONE, "name": "made"}})
    assert started(bench).name == "made"
    assert bench.take("work").input_data == {"n": 2}


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (None, "Missing 'startWorkflow' in input data."),
    "no map": (5, "startWorkflow is not a map"),
    "no name": ({}, "startWorkflow.name is missing"),
    "an empty name": ({"name": ""}, "startWorkflow.name is missing"),
    "an unknown name": ({"name": "no"}, "workflow 'no' is not registered or not valid"),
    "an unknown version": ({"name": "one", "version": 7}, "workflow 'one' version 7 is not registered"),
    "a version that is none": ({"name": "one", "version": "x"}, "startWorkflow.version is 'x', not an integer"),
    "a version that is a truth": ({"name": "one", "version": True}, "startWorkflow.version is 'True', not an integer"),
    "an input that is a list": ({"name": "one", "input": [1]}, "startWorkflow.input is '[1]', not a map"),
    "a priority too high": ({"name": "one", "priority": 100}, "startWorkflow.priority 100 is not between 0 and 99"),
    "a priority below": ({"name": "one", "priority": -1}, "startWorkflow.priority -1 is not between 0 and 99"),
    "a correlation id that is a number": ({"name": "one", "correlationId": 5}, "startWorkflow.correlationId is '5', not a text"),
    "domains that are a list": ({"name": "one", "taskToDomain": []}, "startWorkflow.taskToDomain is '[]', not a map"),
    "a domain that is a number": ({"name": "one", "taskToDomain": {"a": 5}}, "startWorkflow.taskToDomain is not a map of texts"),
    "an empty definition": ({"workflowDef": {}}, "startWorkflow.workflowDef: 1 problem:\n  $.name: is missing"),
    "a definition that is wrong": ({"workflowDef": {"name": "x", "tasks": [{"name": "a"}]}}, "taskReferenceName: is missing"),
    "a definition that is a number": ({"workflowDef": 5}, "startWorkflow.workflowDef is '5', not a map"),
    "an unknown strategy": ({"name": "one", "idempotencyStrategy": "X"}, "startWorkflow.idempotencyStrategy 'X' is none of FAIL"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_requests_that_are_refused(ready: Bench, mistake: str) -> None:
    """A request that cannot be carried out fails the task, saying which part of it is wrong; nothing is started."""
    request, said = REFUSED[mistake]
    ready.start(workflow(starting("${workflow.input.request}")), {"request": request})
    assert others(ready) == []
    assert ready.task("s").status is TaskStatus.FAILED
    assert said in (ready.task("s").reason or "")


def test_a_start_with_a_delay(ready: Bench) -> None:
    """With startDelay the other begins that much later, and so does what follows."""
    ready.start(workflow(starting({"name": "one"}, startDelay=5), node("z")))
    ready.at(4.9)
    assert (ready.statuses(), others(ready)) == ({"s": "IN_PROGRESS"}, [])
    ready.at(5)
    assert ready.statuses() == {"s": "COMPLETED", "z": "SCHEDULED"}
    assert ready.task("s").ended_at - ready.task("s").scheduled_at == 5_000


@pytest.mark.parametrize("how", ["terminate", "timeout", "report"])
def test_what_was_to_start_later_is_not_started(ready: Bench, how: str) -> None:
    """A task that ends before its delay is over starts nothing, however it ends."""
    limit = {"name": "s", "totalTimeoutSeconds": 2, "timeoutPolicy": "RETRY", "retryCount": 0}
    ready.start(workflow(starting({"name": "one"}, startDelay=5, **({"taskDefinition": limit} if how == "timeout" else {}))))
    if how == "terminate":
        ready.engine.terminate(ready.workflow_id)
    elif how == "report":
        ready.report(ready.task("s"), "COMPLETED", lease=False)
    ready.at(20)
    assert ready.status_of_workflow().terminal
    assert others(ready) == []


def test_one_for_each_round(ready: Bench) -> None:
    """Every round of a loop starts an execution of its own; deciding twice starts one."""
    ready.start(workflow(loop("l", starting({"name": "one"}), times=3)))
    assert len(others(ready)) == 3
    assert len({ready.task(f"s__{n}").output_data["workflowId"] for n in (1, 2, 3)}) == 3


def test_paused_while_it_starts(ready: Bench) -> None:
    """A paused workflow learns that the other has begun, and goes on when it is resumed."""
    ready.start(workflow(starting({"name": "one"}, startDelay=5), node("z")))
    ready.engine.pause(ready.workflow_id)
    ready.at(6)
    assert ready.statuses() == {"s": "COMPLETED"}
    ready.engine.resume(ready.workflow_id)
    ready.engine.settle()
    assert ready.statuses()["z"] == "SCHEDULED"


def test_executions_that_start_each_other(bench: Bench) -> None:
    """A workflow that starts itself comes to an end at a hundred."""
    bench.engine.register(workflow(starting({"name": "flow"})))
    bench.start("flow")
    bench.engine.run_until_idle()
    everyone = [bench.engine.get(one) for one in bench.engine.admin.workflow_ids()]
    assert len(everyone) == 101
    [last] = [one for one in everyone if one.status is WorkflowStatus.FAILED]
    assert (last.depth, "nested deeper than 100" in (last.reason or "")) == (100, True)


# -- SUB_WORKFLOW by expression ----------------------------------------------------------------------------------------


def sub(params: Json, **fields: Any) -> Json:
    """A SUB_WORKFLOW without retries."""
    return node("c", "SUB_WORKFLOW", subWorkflowParam=params, **{"retryCount": 0, **fields})


@pytest.mark.trap("tasks-40")
def test_a_sub_workflow_by_name(ready: Bench) -> None:
    """Name, priority and domains may be expressions; the version is the highest when it is scheduled."""
    params = {"name": "${a.output.which}", "priority": "${a.output.p}", "taskToDomain": {"work": "${a.output.d}"}}
    ready.start(workflow(node("a"), sub(params), node("z")))
    ready.engine.register(WorkflowDef.from_json({**ONE, "version": 3}))
    ready.do("a", output={"which": "one", "p": "8", "d": "eu"})
    child = ready.engine.get(str(ready.task("c").sub_workflow_id))
    assert (child.name, child.version, child.priority, child.task_to_domain.value) == ("one", 3, 8, {"work": "eu"})
    assert (child.parent_workflow_id, ready.task("c").input_data["subWorkflowName"]) == (ready.workflow_id, "one")
    ready.engine.terminate(child.workflow_id)
    ready.engine.settle()
    assert ready.task("c").status is TaskStatus.CANCELED


def test_a_sub_workflow_that_a_task_has_made(bench: Bench) -> None:
    """A definition may come out of a task; it is embedded like any other, and its end is the task's."""
    bench.start(workflow(node("a"), sub({"workflowDefinition": "${a.output.made}"}, inputParameters={"n": 5}), node("z")))
    bench.do("a", output={"made": {**ONE, "name": "made"}})
    assert bench.engine.get(str(bench.task("c").sub_workflow_id)).name == "made"
    assert bench.do("work").input_data == {"n": 5}
    bench.engine.settle()
    assert bench.statuses() == {"a": "COMPLETED", "c": "COMPLETED", "z": "SCHEDULED"}


WRONG: dict[str, tuple[Json, Any, str]] = {
    "no name": ({"name": "${workflow.input.x}"}, None, "subWorkflowParam.name resolves to nothing"),
    "not registered": ({"name": "${workflow.input.x}"}, "no", "workflow 'no' is not registered or not valid"),
    "no such version": ({"name": "${workflow.input.x}", "version": 3}, "one", "workflow 'one' version 3 is not registered"),
    "no definition": ({"workflowDefinition": "${workflow.input.x}"}, 5, "does not resolve to a definition"),
    "no valid definition": ({"workflowDefinition": "${workflow.input.x}"}, {"name": "x", "tasks": [{"name": "a"}]},
                            "workflowDefinition: 1 problem:\n  $.tasks[0].taskReferenceName: is missing"),
    "no domain": ({"name": "one", "taskToDomain": {"work": "${workflow.input.x}"}}, 5, "does not resolve to a map of texts"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_what_cannot_be_a_sub_workflow(ready: Bench, mistake: str) -> None:
    """It fails the task, which may be tried again; the execution is not parked."""
    params, value, said = WRONG[mistake]
    ready.start(workflow(sub(params)), {"x": value})
    assert others(ready) == []
    assert ready.task("c").status is TaskStatus.FAILED
    assert said in (ready.task("c").reason or "")


@pytest.mark.parametrize("task", [sub({"name": "${workflow.input.x}"}), starting({"name": "${workflow.input.x}"}, "c")])
def test_a_missing_name_is_tried_again(bench: Bench, task: Json) -> None:
    """Every attempt looks again when it is scheduled: what is registered by the time of a retry is found."""
    bench.start(workflow(task), {"x": "one"})
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.register(WorkflowDef.from_json(ONE))
    bench.engine.retry(bench.workflow_id)
    assert len(others(bench)) == 1
    assert bench.task("c").status in (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED)


def test_a_workflow_that_is_its_own_child(bench: Bench) -> None:
    """By expression a circle is not seen beforehand; it ends at a hundred, and the failure comes up through all of them."""
    bench.engine.register(workflow(sub({"name": "${workflow.input.who}"}, inputParameters={"who": "${workflow.input.who}"})))
    bench.start("flow", {"who": "flow"})
    bench.engine.run_until_idle()
    everyone = [bench.engine.get(one) for one in bench.engine.admin.workflow_ids()]
    assert (len(everyone), {one.status for one in everyone}) == (101, {WorkflowStatus.FAILED})
    assert "executions are nested deeper than 100" in (bench.workflow.reason or "")
