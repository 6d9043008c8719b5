"""Each rule of the validator, by the problem it reports and where."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from conductorlite.model.definitions import WorkflowDef, WorkflowTask
from conductorlite.model.errors import Problem, Severity
from conductorlite.model.scalars import MAX_NESTING
from conductorlite.plan.validate import validate


def task(ref: str = "t", **properties: Any) -> dict[str, Any]:
    """A task as JSON."""
    return {"name": ref, "taskReferenceName": ref, **properties}


def workflow(*tasks: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """A workflow as JSON."""
    return {"name": "w", "tasks": list(tasks), **properties}


def found(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(`E` or `W`, path, message) of all that is wrong with a document."""
    return [_row(problem) for problem in validate(WorkflowDef.from_json(document))]


def _row(problem: Problem) -> tuple[str, str, str]:
    return "E" if problem.severity is Severity.ERROR else "W", problem.path, problem.message


def only(document: dict[str, Any]) -> tuple[str, str, str]:
    """The one problem of a document."""
    rows = found(document)
    assert len(rows) == 1, rows
    return rows[0]


SWITCH: dict[str, Any] = {
    "type": "SWITCH",
    "evaluatorType": "value-param",
    "expression": "x",
    "inputParameters": {"x": 1},
}
LOOP: dict[str, Any] = {"type": "DO_WHILE", "loopCondition": "false"}
FORK: dict[str, Any] = {"type": "FORK_JOIN", "forkTasks": [[task("a")], [task("b")]]}
DYNAMIC_FORK: dict[str, Any] = {"type": "FORK_JOIN_DYNAMIC", "inputParameters": {"forkTaskInputs": []}}
JOIN: dict[str, Any] = {"type": "JOIN", "joinOn": ["a", "b"]}

VALID = [
    workflow(task()),
    workflow(task(**SWITCH, decisionCases={"a": [task("a")], "b": []})),
    workflow(task(**{**SWITCH, "evaluatorType": "javascript", "expression": "$.x > 1"}, decisionCases={"true": []})),
    workflow(task(**{**SWITCH, "evaluatorType": "python", "expression": "return 1"}, decisionCases={"1": []})),
    workflow(task("f", **FORK), task("j", **JOIN)),
    workflow(task("f", **DYNAMIC_FORK), task("j", type="JOIN", joinOn=["whatever"])),
    workflow(task("f", type="FORK_JOIN_DYNAMIC", dynamicForkJoinTasksParam="x"), task("j", type="JOIN")),
    workflow(task("l", **LOOP, loopOver=[task("f", **FORK), task("j", **JOIN)])),
    workflow(task("l", type="DO_WHILE", items="${workflow.input.list}", loopOver=[task("a")])),
    workflow(task("l", type="DO_WHILE", inputParameters={"_items": [1], "keepLastN": 2}, loopOver=[task("a")])),
    workflow(task("w", type="WAIT", inputParameters={"duration": "${workflow.input.d}"})),
    workflow(task("w", type="WAIT", inputParameters={"until": "2030-01-01 10:00", "duration": ""})),
    workflow(task("w", type="WAIT")),
    workflow(task("e", type="TERMINATE", inputParameters={"terminationStatus": "${workflow.input.s}"})),
    workflow(task("s", type="SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": workflow(task("t"))}), task("t")),
    workflow(task("h", type="HTTP", taskDefinition={"inputTemplate": {"http_request": {}}})),
    workflow(task("d", type="DYNAMIC", dynamicTaskNameParam="n", inputParameters={"n": "x"})),
    workflow(task("u", type="my_worker_type")),
    workflow(task("b"), task("a", inputParameters={"x": "${b.output} ${workflow.input.x} $${no} ${CPEWF_TASK_ID}"})),
    workflow(task(workflowTaskType="SIMPLE", type="SIMPLE")),
    workflow(task(), failureWorkflow="$workflow.input.onFailure"),
    workflow(task(), failureWorkflow="${workflow.input.onFailure}"),
    workflow(task(), rateLimitConfig={"rateLimitKey": "${workflow.input.x}", "concurrentExecLimit": 1}),
]


@pytest.mark.parametrize("document", VALID)
def test_a_good_definition_has_no_problems(document: dict[str, Any]) -> None:
    """What works is neither refused nor warned of."""
    assert found(document) == []


BAD: list[tuple[dict[str, Any], str, str, str]] = [
    # The workflow itself.
    (workflow(task(), name=" "), "E", "$.name", "is empty"),
    (workflow(), "E", "$.tasks", "is empty"),
    (workflow(task(), schemaVersion=1), "E", "$.schemaVersion", "must be 2"),
    (workflow(task(), timeoutSeconds=-1), "E", "$.timeoutSeconds", "is negative"),
    (workflow(task(), rateLimitConfig={}), "E", "$.rateLimitConfig.concurrentExecLimit", "at least 1"),
    (workflow(task(), failureWorkflow="$other.x"), "E", "$.failureWorkflow", "neither a name nor"),
    (workflow(task(), outputParameters={"o": ["${gone.output}"]}), "W", "$.outputParameters.o[0]", "names neither"),
    # Names.
    (workflow(task(name="")), "E", "$.tasks[0].name", "is empty"),
    (workflow(task(taskReferenceName="")), "E", "$.tasks[0].taskReferenceName", "is empty"),
    (workflow(task("workflow")), "E", "$.tasks[0].taskReferenceName", "the workflow itself"),
    (workflow(task("a__2")), "E", "$.tasks[0].taskReferenceName", "iteration of a loop"),
    (workflow(task("a__b")), "W", "$.tasks[0].taskReferenceName", "contains __"),
    (workflow(task("a.b")), "W", "$.tasks[0].taskReferenceName", "cannot be written with a dot"),
    (workflow(task("a b")), "W", "$.tasks[0].taskReferenceName", "cannot be written with a dot"),
    (workflow(task("a"), task("a")), "E", "$.tasks[1].taskReferenceName", "already the reference name of $.tasks[0]"),
    (
        workflow(task("a"), task("l", **LOOP, loopOver=[task("a")])),
        "E",
        "$.tasks[1].loopOver[0].taskReferenceName",
        "already the reference name of $.tasks[0]",
    ),
    (workflow(task(type="")), "E", "$.tasks[0].type", "is empty"),
    (workflow(task(type="switch")), "W", "$.tasks[0].type", "did you mean 'SWITCH'?"),
    *(
        (workflow(task(type=slip)), "W", "$.tasks[0].type", f"{slip!r} is taken for the type of a worker; did you mean {meant!r}?")
        for slip, meant in (
            ("SIMPEL", "SIMPLE"),
            ("HTPP", "HTTP"),
            ("Wiat", "WAIT"),
            ("SUB_WORKFLW", "SUB_WORKFLOW"),
            ("inlin", "INLINE"),
            ("FORK_JION_DYNAMIC", "FORK_JOIN_DYNAMIC"),
            ("JSON_JQ_TRANSFROM", "JSON_JQ_TRANSFORM"),
        )
    ),
    (workflow(task(type="DOWHILE")), "W", "$.tasks[0].type", "did you mean 'DO_WHILE'?"),
    (workflow(task(type="FORK")), "W", "$.tasks[0].type", "did you mean 'FORK_JOIN'?"),
    (workflow(task(startDelay=-1)), "E", "$.tasks[0].startDelay", "is negative"),
    (workflow(task(retryCount=-1)), "E", "$.tasks[0].retryCount", "is negative"),
    # Unknown properties, at every level.
    (workflow(task(), **{"a b": 1}), "W", "$['a b']", "not a property Conductor knows"),
    (workflow(task(retryLogic="FIXED")), "W", "$.tasks[0].retryLogic", "not a property"),
    (workflow(task(type="x", workflowTaskType="y")), "W", "$.tasks[0].workflowTaskType", "not a property"),
    (workflow(task(taskDefinition={"zz": 1})), "W", "$.tasks[0].taskDefinition.zz", "not a property"),
    (workflow(task(subWorkflowParam={"zz": 1})), "W", "$.tasks[0].subWorkflowParam.zz", "not a property"),
    (workflow(task(cacheConfig={"zz": 1})), "W", "$.tasks[0].cacheConfig.zz", "not a property"),
    (workflow(task(onStateChange={"s": [{"zz": 1}]})), "W", "$.tasks[0].onStateChange.s[0].zz", "not a property"),
    (workflow(task(), inputSchema={"name": "s", "zz": 1}), "W", "$.inputSchema.zz", "not a property"),
    (workflow(task(), cacheConfig={"zz": 1}), "W", "$.cacheConfig.zz", "not a property"),
    (workflow(task(), rateLimitConfig={"concurrentExecLimit": 1, "zz": 1}), "W", "$.rateLimitConfig.zz", "not a"),
    # SWITCH and DECISION.
    (workflow(task(**SWITCH)), "E", "$.tasks[0].decisionCases", "at least one case"),
    (
        workflow(task(**{**SWITCH, "evaluatorType": ""}, decisionCases={"1": []})),
        "E",
        "$.tasks[0].evaluatorType",
        "missing",
    ),
    (
        workflow(task(**{**SWITCH, "evaluatorType": "js"}, decisionCases={"1": []})),
        "E",
        "$.tasks[0].evaluatorType",
        "'js'",
    ),
    (
        workflow(task(**{**SWITCH, "expression": None}, decisionCases={"1": []})),
        "E",
        "$.tasks[0].expression",
        "is missing",
    ),
    (
        workflow(task(**{**SWITCH, "expression": "y"}, decisionCases={"1": []})),
        "W",
        "$.tasks[0].expression",
        "'y' is not",
    ),
    (
        workflow(task(**{**SWITCH, "expression": "${x}"}, decisionCases={"1": []})),
        "W",
        "$.tasks[0].expression",
        "literal",
    ),
    (
        workflow(task(**{**SWITCH, "evaluatorType": "graaljs", "expression": "$.x >"}, decisionCases={"1": []})),
        "E",
        "$.tasks[0].expression",
        "",
    ),
    (workflow(task(type="DECISION", decisionCases={"1": []})), "E", "$.tasks[0]", "caseValueParam or caseExpression"),
    (workflow(task(type="DECISION", caseValueParam="x")), "E", "$.tasks[0].decisionCases", "at least one case"),
    (
        workflow(task(type="DECISION", caseExpression="(", decisionCases={"1": []})),
        "E",
        "$.tasks[0].caseExpression",
        "",
    ),
    # DO_WHILE.
    (workflow(task(**LOOP)), "E", "$.tasks[0].loopOver", "at least one task"),
    (workflow(task("l", type="DO_WHILE", loopOver=[task("a")])), "E", "$.tasks[0].loopCondition", "is missing"),
    (
        workflow(task("l", **{**LOOP, "loopCondition": ""}, loopOver=[task("a")])),
        "W",
        "$.tasks[0].loopCondition",
        "once",
    ),
    (
        workflow(task("l", **{**LOOP, "loopCondition": "$.l <"}, loopOver=[task("a")])),
        "E",
        "$.tasks[0].loopCondition",
        "",
    ),
    (
        workflow(task("l", **{**LOOP, "loopCondition": "$.l.iteration < 3 && $.b"}, loopOver=[task("a")]), task("b")),
        "W",
        "$.tasks[0].loopCondition",
        "reads $.b",
    ),
    (
        workflow(task("l", **{**LOOP, "loopCondition": "$['a'] > 1 && $['q'] > 1"}, loopOver=[task("a")])),
        "W",
        "$.tasks[0].loopCondition",
        "reads $.q",
    ),
    (
        workflow(task("l", **LOOP, inputParameters={"keepLastN": "3"}, loopOver=[task("a")])),
        "E",
        "$.tasks[0].inputParameters.keepLastN",
        "positive integer",
    ),
    (
        workflow(task("l", **LOOP, inputParameters={"keepLastN": 0}, loopOver=[task("a")])),
        "E",
        "$.tasks[0].inputParameters.keepLastN",
        "positive integer",
    ),
    (
        workflow(task("l", **LOOP, loopOver=[task("h", type="HTTP")])),
        "E",
        "$.tasks[0].loopOver[0].inputParameters",
        "HTTP",
    ),
    # Inputs of single types.
    (workflow(task(type="HTTP")), "E", "$.tasks[0].inputParameters", "http_request or uri or method"),
    (workflow(task(type="KAFKA_PUBLISH")), "E", "$.tasks[0].inputParameters", "kafka_request"),
    (workflow(task(type="JSON_JQ_TRANSFORM")), "E", "$.tasks[0].inputParameters.queryExpression", "is missing"),
    (
        workflow(task(type="JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".a |"})),
        "E",
        "$.tasks[0].inputParameters.queryExpression",
        "syntax error",
    ),
    (
        workflow(task(type="JSON_JQ_TRANSFORM", inputParameters={"queryExpression": 3})),
        "E",
        "$.tasks[0].inputParameters.queryExpression",
        "must be a text",
    ),
    (workflow(task(type="LAMBDA")), "E", "$.tasks[0].inputParameters.scriptExpression", "is missing"),
    (
        workflow(task(type="LAMBDA", inputParameters={"scriptExpression": " "})),
        "E",
        "$.tasks[0].inputParameters.scriptExpression",
        "is empty",
    ),
    (
        workflow(task(type="LAMBDA", inputParameters={"scriptExpression": "return )"})),
        "E",
        "$.tasks[0].inputParameters.scriptExpression",
        "line 1 column 8",
    ),
    (workflow(task(type="EVENT")), "E", "$.tasks[0].sink", "is missing"),
    (workflow(task(type="DYNAMIC")), "E", "$.tasks[0].dynamicTaskNameParam", "is missing"),
    (workflow(task(type="DYNAMIC", dynamicTaskNameParam="n")), "W", "$.tasks[0].dynamicTaskNameParam", "'n' is not"),
    (
        workflow(task(type="WAIT", inputParameters={"duration": "1 s", "until": "${workflow.input.u}"})),
        "E",
        "$.tasks[0].inputParameters",
        "both duration and until",
    ),
    (workflow(task(type="WAIT", inputParameters={"duration": "5"})), "E", "$.tasks[0].inputParameters.duration", "5"),
    (workflow(task(type="WAIT", inputParameters={"duration": 5})), "E", "$.tasks[0].inputParameters.duration", "5"),
    (workflow(task(type="WAIT", inputParameters={"until": "soon"})), "E", "$.tasks[0].inputParameters.until", "soon"),
    (workflow(task(type="TERMINATE")), "E", "$.tasks[0].inputParameters.terminationStatus", "is missing"),
    (
        workflow(task(type="TERMINATE", inputParameters={"terminationStatus": "failed"})),
        "E",
        "$.tasks[0].inputParameters.terminationStatus",
        "'failed' is not one of",
    ),
    (
        workflow(task(type="TERMINATE", optional=True, inputParameters={"terminationStatus": "FAILED"})),
        "E",
        "$.tasks[0].optional",
        "cannot be optional",
    ),
    (workflow(task(type="SUB_WORKFLOW")), "E", "$.tasks[0].subWorkflowParam", "is missing"),
    (workflow(task(type="SUB_WORKFLOW", subWorkflowParam={})), "E", "$.tasks[0].subWorkflowParam", "needs a name"),
    (
        workflow(task(type="SUB_WORKFLOW", subWorkflowParam={"name": "c", "version": -1})),
        "E",
        "$.tasks[0].subWorkflowParam.version",
        "is negative",
    ),
    (
        workflow(task(type="SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": workflow(task(type="HTTP"))})),
        "E",
        "$.tasks[0].subWorkflowParam.workflowDefinition.tasks[0].inputParameters",
        "HTTP needs",
    ),
    # Expressions.
    (workflow(task(inputParameters={"x": "${gone.output.x}"})), "E", "$.tasks[0].inputParameters.x", "${gone…}"),
    (workflow(task(inputParameters={"a b": [0, "${a b.c}"]})), "W", "$.tasks[0].inputParameters['a b'][1]", "null"),
    (
        workflow(task(type="SUB_WORKFLOW", subWorkflowParam={"name": "${gone.output.n}"})),
        "W",
        "$.tasks[0].subWorkflowParam.name",
        "names neither",
    ),
    # An embedded task definition.
    (workflow(task(taskDefinition={"retryCount": -1})), "E", "$.tasks[0].taskDefinition.retryCount", "is negative"),
]


@pytest.mark.trap("core-51", "tasks-31")
@pytest.mark.parametrize(("document", "severity", "path", "message"), BAD)
def test_a_rule_is_reported_alone_and_at_its_place(document: Any, severity: str, path: str, message: str) -> None:
    """Each bad definition breaks one rule, and only that one is reported."""
    row = only(document)
    assert row[:2] == (severity, path)
    assert message in row[2]


@pytest.mark.trap("tasks-34")
def test_all_problems_are_reported_at_once() -> None:
    """Errors and warnings of several levels come in one list."""
    inner = workflow(task("x", type="EVENT"), schemaVersion=3)
    document = workflow(
        task("a", startDelay=-1, zz=1),
        task("a", type="SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": inner}),
        timeoutSeconds=-1,
    )
    inside = "$.tasks[1].subWorkflowParam.workflowDefinition"
    assert {row[:2] for row in found(document)} == {
        ("E", "$.timeoutSeconds"),
        ("E", "$.tasks[0].startDelay"),
        ("W", "$.tasks[0].zz"),
        ("E", "$.tasks[1].taskReferenceName"),
        ("E", f"{inside}.schemaVersion"),
        ("E", f"{inside}.tasks[0].sink"),
    }


def test_a_loop_around_a_dynamic_fork_may_read_unknown_names() -> None:
    """The references of dynamic branches exist only at run time, so its condition is not second-guessed."""
    body = [task("f", **DYNAMIC_FORK), task("j", type="JOIN")]
    assert found(workflow(task("l", **{**LOOP, "loopCondition": "$.later > 1"}, loopOver=body))) == []


def nested(levels: int) -> WorkflowTask:
    """Loops in loops, `levels` deep, built in Python where no codec counts."""
    inner = WorkflowTask(name="t", task_reference_name="t0")
    for level in range(1, levels):
        ref = f"t{level}"
        inner = WorkflowTask(name="t", task_reference_name=ref, type="DO_WHILE", loop_condition="false", loop_over=[inner])
    return inner


@pytest.mark.parametrize(("levels", "deep"), [(MAX_NESTING, False), (MAX_NESTING + 1, True), (5000, True)])
def test_nesting_is_bounded_without_recursion(levels: int, deep: bool) -> None:
    """Depth is one error, however deep."""
    problems = validate(WorkflowDef(name="w", tasks=[nested(levels)]))
    assert [f"deeper than {MAX_NESTING}" in problem.message for problem in problems] == ([True] if deep else [])


def test_inline_definitions_count_towards_the_nesting() -> None:
    """A chain of inline definitions is as deep as a chain of loops."""
    defn = WorkflowDef(name="w", tasks=[nested(1)])
    for _ in range(MAX_NESTING):
        params = {"name": "s", "workflowDefinition": None}
        inner = WorkflowDef.from_json(workflow(task("s", type="SUB_WORKFLOW", subWorkflowParam=params))).tasks[0]
        assert inner.sub_workflow_param is not None
        chained = attrs.evolve(inner.sub_workflow_param, workflow_definition=defn)
        defn = WorkflowDef(name="w", tasks=[attrs.evolve(inner, sub_workflow_param=chained)])
    [problem] = validate(defn)
    assert "nested deeper" in problem.message


@pytest.mark.parametrize("name", ["SMS", "EMAIL", "book", "WAITER", "COIN", "TASK", "GET_WORKFLOW", "x" * 5_000])
def test_types_of_ones_own(name: str) -> None:
    """A type that is no slip of a built-in one is a worker's, without a word; so is one that a worker here serves."""
    definition = WorkflowDef.from_json(workflow(task(type=name)))
    assert not [problem for problem in validate(definition) if "did you mean" in problem.message]
    served = WorkflowDef.from_json(workflow(task(type="SIMPEL")))
    assert not [problem for problem in validate(served, served=["SIMPEL"]) if "SIMPEL" in problem.message]
    (missing,) = [problem for problem in validate(served, served=["other"]) if "SIMPEL" in problem.message]
    assert "no worker here for 'SIMPEL'" in missing.message
    assert "did you mean 'SIMPLE'?" in missing.message
