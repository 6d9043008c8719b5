"""DYNAMIC: what its name may be; and what a dynamic fork refuses, always with the place of the mistake."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench
from run_time_kit import Json, dynamic, forked, loop, node, static, workflow

from conductorlite import TaskDef, TaskStatus, TaskType, WorkflowDef, WorkflowStatus

# -- DYNAMIC -----------------------------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-1")
@pytest.mark.parametrize(("who", "name"), [("a", "a"), ("  a ", "a"), (5, "5"), ("a b", "a b"), ("MINE", "MINE")])
def test_it_is_a_workers_task(bench: Bench, who: Any, name: str) -> None:
    """The name in the input, as text, is that of a task which workers poll for; the input is passed on, the flow goes on."""
    bench.start(workflow(dynamic(inputs={"n": "${workflow.input.n}"}), node("z")), {"who": who, "n": 3})
    task = bench.do(name, output={"x": 1})
    assert (task.ref, task.task_type, task.name) == ("d", name, name)
    assert task.input_data == {"who": who, "n": 3}
    assert bench.statuses() == {"d": "COMPLETED", "z": "SCHEDULED"}


#: Per type what a DYNAMIC has among its inputs, and how it stands then.
STAND_INS: dict[str, tuple[Json, str]] = {
    "WAIT": ({}, "IN_PROGRESS"),
    "NOOP": ({}, "COMPLETED"),
    "HUMAN": ({}, "IN_PROGRESS"),
    "PULL_WORKFLOW_MESSAGES": ({}, "IN_PROGRESS"),
    "EMIT": ({"value": 1}, "COMPLETED"),
    "LAMBDA": ({"scriptExpression": "return 1"}, "COMPLETED"),
    "JSON_JQ_TRANSFORM": ({"queryExpression": "."}, "COMPLETED"),
    "EVENT": ({"sink": "conductor:${workflow.input.who}"}, "SCHEDULED"),
    "KAFKA_PUBLISH": ({"kafka_request": {"topic": "t", "value": 1, "bootStrapServers": "x"}}, "SCHEDULED"),
    "SUB_WORKFLOW": ({"subWorkflowName": "done"}, "COMPLETED"),
    "INLINE": ({"expression": "$.n + 1", "evaluatorType": "javascript", "n": 1}, "COMPLETED"),
    "SET_VARIABLE": ({"n": 1}, "COMPLETED"),
    "START_WORKFLOW": ({"startWorkflow": {"name": "one"}}, "COMPLETED"),
    "TERMINATE": ({"terminationStatus": "COMPLETED"}, "COMPLETED"),
    "HTTP": ({"uri": "http://localhost"}, "SCHEDULED"),
}


def _register(bench: Bench) -> None:
    """Register the workflows that are started."""
    done = {"name": "done", "tasks": [node("n", "NOOP")], "outputParameters": {"in": "${workflow.input}"}}
    bench.engine.register(*map(WorkflowDef.from_json, ({"name": "one", "tasks": [node("work")]}, done, {**done, "version": 2})))


#: Types that need tasks around them, or have names of their own.
NEVER = {
    "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION", "DO_WHILE", "DYNAMIC",
    "SIMPLE", "USER_DEFINED",
}  # fmt: skip


def test_each_type_is_known() -> None:
    """Each built-in type either stands in for a DYNAMIC here, or is refused."""
    assert STAND_INS.keys() | NEVER == set(TaskType)
    assert not STAND_INS.keys() & NEVER


@pytest.mark.parametrize("kind", STAND_INS)
def test_it_is_a_type_that_stands_alone(bench: Bench, kind: str) -> None:
    """The name of a built-in type that needs nothing around it makes the task one of that type."""
    given, status = STAND_INS[kind]
    _register(bench)
    bench.start(workflow(dynamic(inputs=given), node("z")), {"who": kind})
    bench.engine.settle()
    assert bench.task("d").task_type == kind
    assert bench.statuses()["d"] == status
    assert (bench.task("d").input_data == {}) == (kind == "NOOP")
    assert ("z" in bench.statuses()) == (status == "COMPLETED" and kind != "TERMINATE")


@pytest.mark.parametrize("kind", STAND_INS)
def test_it_is_found_when_it_is_tried_again(bench: Bench, kind: str) -> None:
    """Rerun with an input that names nothing it fails; the retry reads the definition's input again, and is what that names."""
    given, status = STAND_INS[kind]
    _register(bench)
    bench.start(workflow(dynamic(inputs=given), node("z")), {"who": kind})
    bench.engine.settle()
    bench.engine.rerun(bench.workflow_id, from_task="d", task_input={})
    bench.engine.settle()
    assert bench.statuses() == {"d": "FAILED_WITH_TERMINAL_ERROR"}
    bench.engine.retry(bench.workflow_id)
    bench.engine.settle()
    assert (bench.task("d").task_type, bench.statuses()["d"]) == (kind, status)
    assert ("z" in bench.statuses()) == (status == "COMPLETED" and kind != "TERMINATE")
    assert list(bench.engine.admin.check()) == []


def test_it_is_a_sub_workflow(bench: Bench) -> None:
    """With subWorkflowParam on it a DYNAMIC may be a SUB_WORKFLOW."""
    bench.engine.register(WorkflowDef.from_json({"name": "one", "tasks": [node("work")]}))
    bench.start(workflow(dynamic(subWorkflowParam={"name": "one", "version": 1}), node("z")), {"who": "SUB_WORKFLOW"})
    bench.do("work")
    assert bench.statuses() == {"d": "COMPLETED", "z": "SCHEDULED"}


INNER: Json = {"name": "inner", "version": 3, "tasks": [node("n", "NOOP")], "outputParameters": {"in": "${workflow.input}"}}
STARTED: dict[str, tuple[Json, str, int, Any]] = {
    "name": ({"subWorkflowName": "done"}, "done", 2, ...),
    "number": ({"subWorkflowName": "done", "subWorkflowVersion": 1}, "done", 1, ...),
    "text": ({"subWorkflowName": "done", "subWorkflowVersion": " 1 "}, "done", 1, ...),
    "blank": ({"subWorkflowName": "done", "subWorkflowVersion": ""}, "done", 2, ...),
    "zero": ({"subWorkflowName": "done", "subWorkflowVersion": 0}, "done", 2, ...),
    "expression": ({"subWorkflowName": "${workflow.input.child}", "subWorkflowVersion": "${workflow.input.one}"}, "done", 1, ...),
    "input": ({"subWorkflowName": "done", "workflowInput": {"a": "${workflow.input.one}"}}, "done", 2, {"a": "1"}),
    "no input": ({"subWorkflowName": "done", "workflowInput": {}}, "done", 2, ...),
    "definition": ({"subWorkflowDefinition": INNER, "workflowInput": {"a": 1}}, "inner", 3, {"a": 1}),
    "both": ({"subWorkflowName": "done", "subWorkflowDefinition": INNER}, "inner", 3, ...),
    "definition read": ({"subWorkflowDefinition": "${workflow.input.inner}"}, "inner", 3, ...),
    "priority": ({"subWorkflowName": "done", "priority": 7}, "done", 2, ...),
}


@pytest.mark.parametrize("around", ["alone", "loop", "fork"])
@pytest.mark.parametrize("form", STARTED)
def test_the_inputs_name_the_sub_workflow(bench: Bench, form: str, around: str) -> None:
    """Without subWorkflowParam the inputs name what is started: `workflowInput`, or all of the inputs, is the child's input."""
    given, name, version, expected = STARTED[form]
    _register(bench)
    task = dynamic(inputs=given)
    whole = {"alone": [task], "loop": [loop("l", task)], "fork": static("f", "j", [task], [node("m", "NOOP")])}[around]
    start = {
        "who": "SUB_WORKFLOW",
        "child": "done",
        "one": "1",
        "inner": {**INNER, "outputParameters": {"in": "${workflow.input}"}},
    }
    bench.start(workflow(*whole), start)
    bench.engine.advance("1m")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    rows = [task for task in bench.workflow.tasks if task.base_ref == "d"]
    assert len(rows) == (2 if around == "loop" else 1)
    for row in rows:
        child = bench.engine.get(row.sub_workflow_id or "")
        assert (child.name, child.version, child.parent_workflow_id) == (name, version, bench.workflow_id)
        assert child.priority == given.get("priority", 0)
        inputs = {key: value for key, value in row.input_data.items() if key in ("who", *given)}
        assert row.input_data["who"] == "SUB_WORKFLOW"
        if form not in ("definition", "both"):  # whose expressions are the parent's here
            assert child.input_data == ({**inputs, **_resolved(given)} if expected is ... else expected)
    bench.healthy()


def _resolved(given: Json) -> Json:
    """The inputs as the child has them."""
    values = {"${workflow.input.child}": "done", "${workflow.input.one}": "1", "${workflow.input.inner}": INNER}
    return {key: values.get(value, value) if isinstance(value, str) else value for key, value in given.items()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Input 'subWorkflowName' names no workflow"),
        ({"subWorkflowName": 5}, "Input 'subWorkflowName' names no workflow"),
        ({"subWorkflowName": "gone"}, "workflow 'gone' is not registered"),
        ({"subWorkflowName": "done", "subWorkflowVersion": "latest"}, "Input 'subWorkflowVersion' is 'latest', not a version"),
        ({"subWorkflowName": "done", "subWorkflowVersion": -1}, "Input 'subWorkflowVersion' is '-1', not a version"),
        ({"subWorkflowName": "done", "subWorkflowVersion": True}, "Input 'subWorkflowVersion' is 'True', not a version"),
        ({"subWorkflowName": "done", "subWorkflowVersion": 9}, "workflow 'done' version 9 is not registered"),
        ({"subWorkflowDefinition": "x"}, "Input 'subWorkflowDefinition' is not a definition"),
        ({"subWorkflowDefinition": {"name": "x"}}, "$.tasks"),
        ({"subWorkflowName": "done", "workflowInput": 3}, "Input 'workflowInput' is not a map"),
    ],
)
def test_inputs_that_name_no_sub_workflow(bench: Bench, given: Json, said: str) -> None:
    """They fail the task with a reason that names the input."""
    _register(bench)
    bench.start(workflow(dynamic(inputs=given), node("z")), {"who": "SUB_WORKFLOW"})
    bench.engine.settle()
    assert (bench.statuses(), said in (bench.task("d").reason or "")) == ({"d": "FAILED"}, True), bench.task("d").reason


def test_a_sub_workflow_that_is_tried_again_reads_its_inputs_again(bench: Bench) -> None:
    """Each attempt starts a child of its own, of what the inputs name by then; so does a rerun with other inputs."""
    _register(bench)
    given = {"subWorkflowName": "${workflow.variables.child}"}
    once = {"name": "d", "retryCount": 1, "retryDelaySeconds": 0}
    first = node("v", "SET_VARIABLE", inputParameters={"child": "one"})
    bench.start(workflow(first, dynamic(inputs=given, taskDefinition=once)), {"who": "SUB_WORKFLOW"})
    bench.do("work", "FAILED_WITH_TERMINAL_ERROR")
    bench.engine.update_variables(bench.workflow_id, {"child": "done"})
    bench.engine.advance("1m")
    attempts = [task for task in bench.workflow.tasks if task.ref == "d"]
    assert [bench.engine.get(task.sub_workflow_id or "").name for task in attempts] == ["one", "one"]
    bench.do("work", "FAILED_WITH_TERMINAL_ERROR")
    bench.engine.retry(bench.workflow_id)
    bench.engine.advance("1m")
    assert bench.engine.get(bench.task("d").sub_workflow_id or "").name == "done"
    bench.engine.rerun(
        bench.workflow_id, from_task="d", task_input={"who": "SUB_WORKFLOW", "subWorkflowName": "done", "workflowInput": {"a": 2}}
    )
    bench.engine.advance("1m")
    child = bench.engine.get(bench.task("d").sub_workflow_id or "")
    assert (child.name, child.input_data) == ("done", {"a": 2})
    bench.healthy()


def test_a_start_workflow_holds_its_definition(bench: Bench) -> None:
    """What a DYNAMIC starts by an inline definition is that definition, not the one the DYNAMIC has become."""
    bench.start(workflow(dynamic(inputs={"startWorkflow": {"workflowDef": INNER}})), {"who": "START_WORKFLOW"})
    bench.engine.settle()
    assert [one.name for one in bench.engine.executions() if one.workflow_id != bench.workflow_id] == ["inner"]


def test_an_event_has_its_sink_among_the_inputs(bench: Bench) -> None:
    """The sink is the input of that name, resolved once."""
    bench.start(workflow(dynamic(inputs={"sink": "conductor:${workflow.input.x}"})), {"who": "EVENT", "x": "${y}"})
    assert bench.task("d").input_data["sink"] == "conductor:${y}"


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (None, "names no task: it is missing"),
        ("", "names no task: it is empty"),
        ("  ", "names no task: it is empty"),
        *((kind, f"is '{kind}', a task type that cannot stand alone")
          for kind in ("FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION", "DO_WHILE", "DYNAMIC")),
        *((kind, f"is '{kind}', the type of a task, not its name") for kind in ("SIMPLE", "USER_DEFINED")),
        ("INLINE", "the task.inputParameters.expression: is missing"),
        ("HTTP", "the task.inputParameters: HTTP needs"),
        ("EVENT", "the task.sink: is missing"),
    ],
)  # fmt: skip
def test_names_that_stand_for_nothing(bench: Bench, who: Any, said: str) -> None:
    """They fail the task for good, and the reason names the input and what is wrong with it."""
    bench.start(workflow(dynamic(), node("z")), {"who": who})
    assert bench.statuses() == {"d": "FAILED_WITH_TERMINAL_ERROR"}
    assert (bench.task("d").reason or "").startswith("Input 'who' ")
    assert said in (bench.task("d").reason or "")


@pytest.mark.trap("tasks-6")
def test_the_definition_of_the_resolved_name_counts(bench: Bench) -> None:
    """Retries and templates are those registered for the name it has, not for the placeholder's."""
    placeholder = TaskDef(name="d", retry_count=0, input_template={"from": "placeholder"})
    resolved = TaskDef(name="a", retry_count=1, retry_delay_ms=0, input_template={"from": "resolved"})
    bench.engine.register(placeholder, resolved)
    bench.start(workflow(dynamic(who="a")))
    assert bench.do("a", "FAILED").input_data["from"] == "resolved"
    assert (bench.task("d").attempt, bench.task("d").status) == (1, TaskStatus.SCHEDULED)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_definition_written_in_the_task_counts_first(bench: Bench) -> None:
    """A taskDefinition in the DYNAMIC itself is that of whatever it turns out to be."""
    bench.engine.register(TaskDef(name="a", retry_count=0))
    bench.start(workflow(dynamic(who="a", taskDefinition={"name": "d", "retryCount": 1, "retryDelaySeconds": 0})))
    bench.do("a", "FAILED")
    assert bench.task("d").attempt == 1


def test_every_round_may_be_another(bench: Bench) -> None:
    """In a loop the name is found anew in each round."""
    items = node("l", "DO_WHILE", items="${workflow.input.all}", loopOver=[dynamic(who="${l.output.loopItem}"), node("y")])
    bench.start(workflow(items), {"all": ["a", "NOOP", "b"]})
    for name in ("a", "y", "y", "b", "y"):
        bench.do(name)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    kinds = {task.ref: task.task_type for task in bench.workflow.tasks if task.base_ref == "d"}
    assert kinds == {"d__1": "a", "d__2": "NOOP", "d__3": "b"}
    assert bench.task("l").output_data["3"]["d"] == {}


@pytest.mark.parametrize("who", ["a", "", "JOIN"])
def test_an_optional_one(bench: Bench, who: str) -> None:
    """The failure of an optional DYNAMIC is borne, whether it ran or could not."""
    bench.engine.register(TaskDef(name="a", retry_count=0))
    bench.start(workflow(dynamic(optional=True), node("z")), {"who": who})
    if who == "a":
        bench.do("a", "FAILED")
    assert bench.statuses() == {"d": "COMPLETED_WITH_ERRORS", "z": "SCHEDULED"}


def test_retry_finds_the_name_again(bench: Bench) -> None:
    """A DYNAMIC that named nothing looks at its input again when the execution is retried; one that ran stays what it was."""
    bench.start(workflow(dynamic(who="${z.output.who}", permissive=True), node("z")))
    bench.do("z", output={"who": "a"})
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    bench.do("a", "FAILED_WITH_TERMINAL_ERROR")
    bench.engine.retry(bench.workflow_id)
    bench.do("a")
    assert [(task.attempt, task.task_type) for task in bench.workflow.tasks if task.ref == "d"] == [
        (0, "DYNAMIC"),
        (1, "a"),
        (2, "a"),
    ]
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


# -- what a dynamic fork refuses ---------------------------------------------------------------------------------------

#: Per kind of mistake: the tasks, their inputs, and what the reason says.
MISTAKES: dict[str, tuple[Any, Any, str]] = {
    "no list": ({"a": 1}, {}, "Input 't' is a map, not a list of tasks"),
    "nothing": (None, {}, "Input 't' is missing, not a list of tasks"),
    "no task": ([1], {}, "Input 't'[0] is a number, not a task"),
    "a list in a list": ([[[node("a")]]], {}, "Input 't'[0] is a list, not a task"),
    "an empty branch": ([[]], {}, "Input 't'[0] is empty"),
    "no reference": ([node("a"), {"name": "a"}], {}, "Input 't'[1].taskReferenceName is missing"),
    "no name": ([{"taskReferenceName": "a"}], {}, "branches[0][0].name: is missing"),
    "inputs that are no map": ([node("a")], [], "Input 'i' is a list, not a map of inputs"),
    "inputs missing": ([node("a")], None, "Input 'i' is missing, not a map of inputs"),
    "an input that is no map": ([node("a")], {"a": 5}, "Input 'i'.a is a number, not a map"),
    "parameters that are no map": ([node("a", inputParameters=[1])], {}, "Input 't'[0].inputParameters is a list"),
    "a type that is no text": ([node("a", type=5)], {}, "branches[0][0].type: expected text, got 5"),
    "a field of the wrong type": ([node("a", retryCount="x")], {}, "branches[0][0].retryCount: expected an integer"),
    "a reference twice": ([node("a"), [node("b"), node("a")]], {}, "branches[1][1].taskReferenceName: 'a' is already"),
    "a reference of the definition": ([node("z")], {}, "the execution has another task 'z'"),
    "the fork's own reference": ([node("f")], {}, "branches[0][0].taskReferenceName: 'f' is already"),
    "a reference like a round's": ([node("a__1")], {}, "branches[0][0].taskReferenceName: 'a__1' ends like an iteration"),
    "a fork without a JOIN": ([node("g", "FORK_JOIN", forkTasks=[[node("a")]])], {}, "must be followed directly by a JOIN"),
    "a SWITCH without cases": ([node("s", "SWITCH")], {}, "branches[0][0].decisionCases: is empty"),
    "a JOIN on nothing": ([node("k", "JOIN", joinOn=["no"])], {}, "branches[0][0].joinOn[0]: 'no' is not the reference"),
    "a workflow nobody knows": ([node("s", "SUB_WORKFLOW", subWorkflowParam={"name": "no"})], {}, "no workflow 'no' is registered"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_malformed_branches(bench: Bench, mistake: str) -> None:
    """Each mistake fails the FORK for good with its place; nothing of the fork is scheduled."""
    tasks, inputs, said = MISTAKES[mistake]
    bench.start(workflow(*forked(inputs="${workflow.input.i}"), node("z")), {"t": tasks, "i": inputs})
    assert bench.statuses() == {"f": "FAILED_WITH_TERMINAL_ERROR"}
    assert said in (bench.task("f").reason or "")
    assert said in (bench.workflow.reason or "")


SAME_MISTAKES: dict[str, tuple[Json, str]] = {
    "no list": ({"forkTaskInputs": 5}, "Input 'forkTaskInputs' is a number, not a list"),
    "a name that is no text": ({"forkTaskName": 3}, "Input 'forkTaskName' is a number, not a text"),
    "a type that is no text": ({"forkTaskType": {}}, "Input 'forkTaskType' is a map, not a text"),
    "a version that is none": ({"forkTaskWorkflow": "one", "forkTaskWorkflowVersion": "x"}, "forkTaskWorkflowVersion' is 'x'"),
    "a workflow nobody knows": ({"forkTaskWorkflow": "no"}, "no workflow 'no' is registered"),
    "a type that needs more": ({"forkTaskType": "SWITCH"}, "branches[0][0].decisionCases: is empty"),
    "a name that makes a round's": ({"forkTaskName": "a_"}, "'_a__0' ends like an iteration"),
    "too many": ({"forkTaskInputs": [0] * 20_001}, "Input 'forkTaskInputs' has 20001 branches, more than 20000"),
}


@pytest.mark.parametrize("mistake", SAME_MISTAKES)
def test_malformed_inputs(bench: Bench, mistake: str) -> None:
    """What is wrong with the shape for one task fails the FORK for good, and the reason names the input."""
    given, said = SAME_MISTAKES[mistake]
    wanted = {key: f"${{workflow.input.{key}}}" for key in given}
    fork = node("f", "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskInputs": [1], **wanted})
    bench.start(workflow(fork, node("j", "JOIN")), given)
    assert bench.statuses() == {"f": "FAILED_WITH_TERMINAL_ERROR"}
    assert said in (bench.task("f").reason or "")


@pytest.mark.parametrize("said", [None, [], {"dynamicTasks": 1}, {"dynamicTasks": [1]}, {"dynamicTasks": [{"taskName": "a"}]},
                                  {"dynamicTasks": [{"taskName": "a", "referenceName": "r", "input": 1}]}])  # fmt: skip
def test_malformed_legacy_input(bench: Bench, said: Any) -> None:
    """The legacy shape is checked the same way."""
    fork = node("f", "FORK_JOIN_DYNAMIC", dynamicForkJoinTasksParam="all", inputParameters={"all": "${workflow.input.all}"})
    bench.start(workflow(fork, node("j", "JOIN")), {"all": said})
    assert bench.statuses() == {"f": "FAILED_WITH_TERMINAL_ERROR"}
    assert (bench.task("f").reason or "").startswith("Input 'all'")


def test_a_property_nobody_knows_is_kept(bench: Bench) -> None:
    """As in any definition, an unknown property of a branch's task is no error."""
    bench.start(workflow(*forked(tasks=[node("a", bogus=1)])))
    assert bench.statuses()["a"] == "SCHEDULED"


def test_an_optional_fork_that_is_malformed(bench: Bench) -> None:
    """Its failure is borne: the JOIN is passed over, in a loop as anywhere, and whoever waits for the JOIN goes on."""
    fork, join = forked(tasks=None)
    bench.start(workflow(loop("l", {**fork, "optional": True}, join), node("z")))
    assert bench.statuses() == {
        "l": "COMPLETED",
        "f__1": "COMPLETED_WITH_ERRORS",
        "j__1": "SKIPPED",
        "f__2": "COMPLETED_WITH_ERRORS",
        "j__2": "SKIPPED",
        "z": "SCHEDULED",
    }
