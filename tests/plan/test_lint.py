"""Planted faults, each found with the sentence it prints; and definitions that are right, about which nothing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from conductorlite import Workers, WorkflowDef, validate
from conductorlite.flows.schemas import contracts_of
from conductorlite.plan.lint import lint

TESTS = Path(__file__).parents[1]


@attrs.frozen
class Flight:
    """What `book` returns."""

    seat: str
    paid: bool
    kind: Literal["window", "aisle"]


workers = Workers()


@workers.task("book", retry_count=2, retry_delay_seconds=400)
def book(to: str, back: bool = False) -> Flight | None:
    """Takes a text, which is needed, and a boolean."""


@workers.task("note")
def note(text: str | None) -> str:
    """Takes null."""
    return str(text)


@workers.task("find")
def find() -> dict[str, Any]:
    """Gives anything."""
    return {}


@workers.task("drop")
def drop() -> None:
    """Gives nothing."""


def t(ref: str, name: str = "note", **given: Any) -> dict[str, Any]:
    """A worker's task; each has an argument, for the checks of others to be seen alone."""
    return {"name": name, "taskReferenceName": ref, "inputParameters": given or ({"text": "x"} if name == "note" else {})}


def op(ref: str, kind: str, given: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A task of Conductor's own."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": given or {}, **fields}


def switch(value: Any, default: list[Any] | None = None, **cases: Any) -> dict[str, Any]:
    """A SWITCH by a value."""
    given = {"evaluatorType": "value-param", "expression": "v", "decisionCases": cases, "defaultCase": default or []}
    return op("s", "SWITCH", {"v": value}, **given)


def sub(ref: str, name: str, **fields: Any) -> dict[str, Any]:
    """A SUB_WORKFLOW."""
    return op(ref, "SUB_WORKFLOW", subWorkflowParam={"name": name, **fields})


def asking(uri: str, **given: Any) -> dict[str, Any]:
    """A HUMAN, of whose arguments nothing is known."""
    return op("h", "HUMAN", {"uri": uri, **given})


B = t("b", "book", to="Rome")
END = op("end", "TERMINATE", {"terminationStatus": "FAILED"})
OTHERS = {
    "choosing": WorkflowDef.from_json({"name": "choosing", "tasks": [switch("${workflow.input.v}", a=[sub("y", "choosing")])]}),
    "pay": WorkflowDef.from_json({"name": "pay", "tasks": [t("x")], "outputParameters": {"receipt": "${x.output.result}"}}),
    "round": WorkflowDef.from_json({"name": "round", "tasks": [t("x"), sub("y", "about")]}),
    "about": WorkflowDef.from_json({"name": "about", "tasks": [sub("y", "round")]}),
    "ping": WorkflowDef.from_json({"name": "ping", "tasks": [t("x"), sub("y", "w")]}),
}
#: What runs with a limit of a minute.
MINUTE = {"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"}

Fault = tuple[list[dict[str, Any]], dict[str, Any], str]
FAULTS: dict[str, Fault] = {
    "an unknown step": (
        [t("x", text="${nobody.output.result}")],
        {},
        "$.tasks[0].inputParameters.text: ${nobody…} names neither the workflow nor a task of this definition",
    ),
    "a misspelt step": (
        [B, t("x", text="${bb.output.seat}")],
        {},
        "$.tasks[1].inputParameters.text: ${bb…} names neither the workflow nor a task of this definition; did you mean 'b'?",
    ),
    "a misspelt member": (
        [B, t("x", text="${b.outptu.seat}")],
        {},
        "$.tasks[1].inputParameters.text: ${b.outptu…}: a task has no 'outptu'; did you mean 'output'? (warning)",
    ),
    "a misspelt field of a record": (
        [B, t("x", text="${b.output.saet}")],
        {},
        "$.tasks[1].inputParameters.text: ${b.output.saet…}: 'book' gives no 'saet'; did you mean 'seat'? (warning)",
    ),
    "a field of no record": (
        [t("a"), t("x", text="${a.output.text}")],
        {},
        "$.tasks[1].inputParameters.text: ${a.output.text…}: 'note' gives no 'text'; it gives result (warning)",
    ),
    "a field of nothing": (
        [t("d", "drop"), t("x", text="${d.output.y}")],
        {},
        "$.tasks[1].inputParameters.text: ${d.output.y…}: 'drop' gives no 'y'; it gives nothing (warning)",
    ),
    "a field of a script": (
        [op("i", "INLINE", {"evaluatorType": "javascript", "expression": "1"}), t("x", text="${i.output.value}")],
        {},
        "$.tasks[1].inputParameters.text: ${i.output.value…}: 'i' gives no 'value'; it gives error, result (warning)",
    ),
    "a field of a schema": (
        [
            {
                **t("o", "find"),
                "taskDefinition": {
                    "name": "find",
                    "outputSchema": {"name": "o", "data": {"properties": {"id": {}}, "additionalProperties": False}},
                },
            },
            t("x", text="${o.output.ident}"),
        ],
        {},
        "$.tasks[1].inputParameters.text: ${o.output.ident…}: 'find' gives no 'ident'; it gives id (warning)",
    ),
    "a field in the workflow's output": (
        [B],
        {"outputParameters": {"seat": "${b.output.saet}"}},
        "$.outputParameters.seat: ${b.output.saet…}: 'book' gives no 'saet'; did you mean 'seat'? (warning)",
    ),
    "a field of a flow within": (
        [
            sub("p", "q", workflowDefinition={"name": "q", "tasks": [t("y")], "outputParameters": {"sum": 1}}),
            t("x", text="${p.output.total}"),
        ],
        {},
        "$.tasks[1].inputParameters.text: ${p.output.total…}: 'p' gives no 'total'; it gives subWorkflowId, sum (warning)",
    ),
    "a field of a registered workflow": (
        [sub("p", "pay"), t("x", text="${p.output.reciept}")],
        {},
        "$.tasks[1].inputParameters.text: ${p.output.reciept…}: 'p' gives no 'reciept'; did you mean 'receipt'? (warning)",
    ),
    "a fault in a flow within": (
        [sub("p", "q", workflowDefinition={"name": "q", "tasks": [B, t("y", text="${b.output.saet}")]})],
        {},
        "$.tasks[0].subWorkflowParam.workflowDefinition.tasks[1].inputParameters.text: ${b.output.saet…}: 'book' gives no 'saet'; did you mean 'seat'? (warning)",
    ),
    "a later step": (
        [t("x", text="${b.output.seat}"), B],
        {},
        "$.tasks[0].inputParameters.text: ${b…} is read too early: 'b' comes later; it resolves to null (warning)",
    ),
    "its own output": (
        [t("x", text="${x.output.result}")],
        {},
        "$.tasks[0].inputParameters.text: ${x…} is read too early: 'x' is this task itself; it resolves to null (warning)",
    ),
    "its own output as the list of a loop": (
        [op("l", "DO_WHILE", items="${l.output.all}", loopOver=[t("x")])],
        {},
        "$.tasks[0].items: ${l…} is read too early: 'l' is this task itself; it resolves to null (warning)",
    ),
    "another case": (
        [switch("${workflow.input.v}", a=[B], b=[t("x", text="${b.output.seat}")])],
        {},
        "$.tasks[0].decisionCases.b[0].inputParameters.text: ${b…} is read too early: 'b' is in another case of the same switch; it resolves to null (warning)",
    ),
    "another branch": (
        [op("f", "FORK_JOIN", forkTasks=[[B], [t("x", text="${b.output.seat}")]]), op("j", "JOIN", joinOn=["b", "x"])],
        {},
        "$.tasks[0].forkTasks[1][0].inputParameters.text: ${b…} is read in another branch of the fork than its own, which may not have come so far (warning)",
    ),
    "an undeclared input": (
        [t("x", text="${workflow.input.customer}")],
        {"inputParameters": ["order"]},
        "$.tasks[0].inputParameters.text: ${workflow.input.customer…} is not among its inputParameters; it may be null (warning)",
    ),
    "a misspelt input": (
        [t("x", text="${workflow.input.ordr}")],
        {"inputParameters": ["order"]},
        "$.tasks[0].inputParameters.text: ${workflow.input.ordr…} is not among its inputParameters; did you mean 'order'? (warning)",
    ),
    "a misspelt variable": (
        [op("v", "SET_VARIABLE", {"total": 1}), t("x", text="${workflow.variables.totl}")],
        {},
        "$.tasks[1].inputParameters.text: ${workflow.variables.totl…} is not a variable that it sets; did you mean 'total'? (warning)",
    ),
    "null for an argument": (
        [t("b", "book", to=None)],
        {},
        "$.tasks[0].inputParameters.to: 'book': to: expected str, got null (warning)",
    ),
    "what may be null for an argument": (
        [switch("${workflow.input.v}", a=[t("a")]), t("b", "book", to="${a.output.result}")],
        {},
        "$.tasks[1].inputParameters.to: is null where 'a' has not run, which is in one case of 's' only; 'book' takes no null for 'to' (warning)",
    ),
    "a value of another kind": (
        [t("b", "book", to=["Rome"])],
        {},
        "$.tasks[0].inputParameters.to: 'book': to: expected str, got a list (warning)",
    ),
    "a value of another kind, optional": (
        [t("b", "book", to="Rome", back="no")],
        {},
        "$.tasks[0].inputParameters.back: 'book': back: expected bool, got \"no\" (warning)",
    ),
    "a missing argument": (
        [t("b", "book", back=True)],
        {},
        "$.tasks[0].inputParameters: 'book' needs 'to' (warning)",
    ),
    "a misspelt argument": (
        [t("b", "book", too="Rome")],
        {},
        "$.tasks[0].inputParameters.too: 'book' takes no 'too'; did you mean 'to'? (warning)",
    ),
    "a misspelt optional argument": (
        [t("b", "book", to="Rome", bakc=True)],
        {},
        "$.tasks[0].inputParameters.bakc: 'book' takes no 'bakc'; did you mean 'back'? (warning)",
    ),
    "a case that no boolean takes": (
        [B, switch("${b.output.paid}", yes=[t("x")])],
        {},
        "$.tasks[1].decisionCases.yes: is never taken: the value is 'false' or 'true' (warning)",
    ),
    "a case that no choice takes": (
        [B, switch("${b.output.kind}", windw=[t("x")])],
        {},
        "$.tasks[1].decisionCases.windw: is never taken; did you mean 'window'? (warning)",
    ),
    "a case that no constant takes": (
        [switch("a", a=[t("x")], b=[t("y")])],
        {},
        "$.tasks[0].decisionCases.b: is never taken: the value is 'a' (warning)",
    ),
    "a status that there is not": (
        [B, switch("${b.status}", COMPLETE=[t("x")])],
        {},
        "$.tasks[1].decisionCases.COMPLETE: is never taken; did you mean 'COMPLETED'? (warning)",
    ),
    "a step after the end": (
        [t("x"), END, t("y")],
        {},
        "$.tasks[2]: is never reached: 'end' ends the execution (warning)",
    ),
    "a step after cases that all end": (
        [switch("${workflow.input.v}", a=[END], default=[{**END, "taskReferenceName": "end2"}]), t("y")],
        {},
        "$.tasks[1]: is never reached: 's' ends the execution (warning)",
    ),
    "a join of nobody": (
        [op("f", "FORK_JOIN", forkTasks=[[t("x")]]), op("j", "JOIN", joinOn=["z"])],
        {},
        "$.tasks[1].joinOn[0]: 'z' is not the reference name of any task of this definition",
    ),
    "a join of what comes later": (
        [op("f", "FORK_JOIN", forkTasks=[[t("x")]]), op("j", "JOIN", joinOn=["x", "y"]), t("y")],
        {},
        "$.tasks[1].joinOn[1]: 'y' comes after the join, so this JOIN would never complete",
    ),
    "a join of one case": (
        [op("f", "FORK_JOIN", forkTasks=[[switch("${workflow.input.v}", a=[t("x")])]]), op("j", "JOIN", joinOn=["x"])],
        {},
        "$.tasks[1].joinOn[0]: 'x' runs only in one case of 's'; if another is taken, this JOIN never completes (warning)",
    ),
    "timeouts in the wrong order": (
        [{**t("x"), "taskDefinition": {"name": "note", "timeoutSeconds": 5, "responseTimeoutSeconds": 9}}],
        {},
        "$.tasks[0].taskDefinition.responseTimeoutSeconds: is longer than timeoutSeconds, which always comes first (warning)",
    ),
    "a timeout beyond the workflow's": (
        [{**t("x"), "taskDefinition": {"name": "note", "timeoutSeconds": 90}}],
        MINUTE,
        "$.tasks[0].taskDefinition.timeoutSeconds: is longer than the workflow's timeout of 60 s (warning)",
    ),
    "a wait beyond the workflow's timeout": (
        [op("w", "WAIT", {"duration": "2 days"})],
        MINUTE,
        "$.tasks[0].inputParameters.duration: is longer than the workflow's timeout of 60 s (warning)",
    ),
    "a wait that cannot be read": (
        [op("w", "WAIT", {"duration": "soon"})],
        MINUTE,
        "$.tasks[0].inputParameters.duration: Not valid duration: soon",
    ),
    "retries beyond the workflow's timeout": (
        [
            {
                **t("x"),
                "taskDefinition": {
                    "name": "note",
                    "retryCount": 3,
                    "retryDelaySeconds": 10,
                    "retryLogic": "EXPONENTIAL_BACKOFF",
                    "backoffScaleFactor": 2,
                },
            }
        ],
        MINUTE,
        "$.tasks[0].taskDefinition.retryCount: the 3 retries wait for 140 s in all, longer than the workflow's timeout of 60 s (warning)",
    ),
    "a worker's retries beyond it": (
        [B],
        MINUTE,
        "$.tasks[0].retryCount: the 2 retries wait for 800 s in all, longer than the workflow's timeout of 60 s (warning)",
    ),
    "a workflow that runs itself": (
        [t("x"), sub("again", "w")],
        {},
        "$.tasks[1].subWorkflowParam.name: runs itself without end: w → w",
    ),
    "workflows that run each other": (
        [sub("other", "ping")],
        {},
        "$.tasks[0].subWorkflowParam.name: runs itself without end: w → ping → w",
    ),
    "a step of one case": (
        [switch("${workflow.input.v}", a=[t("a", "find")]), asking("${a.output.result}")],
        {},
        "$.tasks[1].inputParameters.uri: ${a…} is null unless 's' takes the case 'a' (warning)",
    ),
    "a step of the default, in a text": (
        [switch("${workflow.input.v}", [t("a", "find")], b=[t("y")]), asking("http://x/${a.output.result}")],
        {},
        "$.tasks[1].inputParameters.uri: ${a…} is null unless 's' takes its default (warning)",
    ),
    "the status of a step of one case": (
        [switch("${workflow.input.v}", a=[t("a", "find")]), asking("x", body={"deep": ["${a.status}"]})],
        {},
        "$.tasks[1].inputParameters.body.deep[0]: ${a…} is null unless 's' takes the case 'a' (warning)",
    ),
    "a step of a DECISION's case, read by an operator": (
        [
            op("s", "DECISION", {"v": "${workflow.input.v}"}, caseValueParam="v", decisionCases={"a": [t("a", "find")]}),
            op("v", "SET_VARIABLE", {"x": "${a.output.x}"}),
        ],
        {},
        "$.tasks[1].inputParameters.x: ${a…} is null unless 's' takes the case 'a' (warning)",
    ),
    "a step of a case of a case, read by a workflow": (
        [
            switch("${workflow.input.v}", a=[{**switch("${workflow.input.w}", b=[t("x", "find")]), "taskReferenceName": "i"}]),
            {**sub("p", "pay"), "inputParameters": {"x": "${x.output}"}},
        ],
        {},
        "$.tasks[1].inputParameters.x: ${x…} is null unless 's' takes the case 'a' and 'i' takes the case 'b' (warning)",
    ),
    "the join of a fork in a case": (
        [
            switch(
                "${workflow.input.v}",
                a=[op("f", "FORK_JOIN", forkTasks=[[t("x", "find")]]), op("j", "JOIN", joinOn=["x"])],
            ),
            asking("${j.output.x}"),
        ],
        {},
        "$.tasks[1].inputParameters.uri: ${j…} is null unless 's' takes the case 'a' (warning)",
    ),
    "a key outside outputKeys": (
        [{**t("o", "find"), "taskDefinition": {"name": "find", "outputKeys": ["id", "sum"]}}, t("x", text="${o.output.ident}")],
        {},
        "$.tasks[1].inputParameters.text: ${o.output.ident…} is not among the outputKeys of 'find': id, sum (warning)",
    ),
    "a misspelt key of outputKeys": (
        [{**t("o", "find"), "taskDefinition": {"name": "find", "outputKeys": ["customer"]}}],
        {"outputParameters": {"x": "${o.output.custmer.name}"}},
        "$.outputParameters.x: ${o.output.custmer…} is not among the outputKeys of 'find'; did you mean 'customer'? (warning)",
    ),
    "a workflow that runs itself by an inline one": (
        [sub("p", "q", workflowDefinition={"name": "q", "tasks": [sub("again", "w")]})],
        {},
        "$.tasks[0].subWorkflowParam.name: runs itself without end: w → w",
    ),
    "others that run each other": (
        [sub("other", "round")],
        {},
        "$.tasks[0].subWorkflowParam.name: runs 'round', which runs itself without end: w → round → about → round",
    ),
    "no worker": (
        [t("x", "nte")],
        {},
        "$.tasks[0].name: no worker here for 'nte'; there are book, drop, find, note; did you mean 'note'? (warning)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    """It alone, with this sentence."""
    tasks, fields, sentence = FAULTS[fault]
    definition = WorkflowDef.from_json({"name": "w", "tasks": tasks, **fields})
    assert [str(problem) for problem in lint(definition, contracts=contracts_of(workers), others=OTHERS)] == [sentence]


CONDUCTOR: dict[str, tuple[dict[str, Any], str]] = {
    "compensation": (
        {"tasks": [{**t("x"), "compensate": "drop"}]},
        "$.tasks[0].compensate: is ours alone: a Conductor server ignores it",
    ),
    "a delay": (
        {"tasks": [{**t("x"), "startDelay": 0.5}]},
        "$.tasks[0].startDelay: is no whole number of seconds, which Conductor takes alone",
    ),
    "a timeout": (
        {"tasks": [t("x")], "timeoutSeconds": 1.5},
        "$.timeoutSeconds: is no whole number of seconds, which Conductor takes alone",
    ),
    "a retry": (
        {"tasks": [{**t("x"), "taskDefinition": {"name": "note", "retryDelaySeconds": 0.5}}]},
        "$.tasks[0].taskDefinition.retryDelaySeconds: is no whole number of seconds, which Conductor takes alone",
    ),
    "a property of nobody's": (
        {"tasks": [{**t("x"), "undo": "y"}]},
        "$.tasks[0].undo: is no property of Conductor's, which ignores it",
    ),
    "a console": (
        {
            "tasks": [
                {**t("x"), "type": "INLINE", "inputParameters": {"evaluatorType": "javascript", "expression": "console.log(1); 1"}}
            ]
        },
        "$.tasks[0].inputParameters.expression: uses `console`, which a Conductor server does not have: the script fails there",
    ),
    "one in a condition": (
        {"tasks": [{**t("x"), "type": "DO_WHILE", "loopCondition": "console.log($.x); false", "loopOver": [t("y", "drop")]}]},
        "$.tasks[0].loopCondition: uses `console`, which a Conductor server does not have: the script fails there",
    ),
    "one of the workflow": ({"tasks": [t("x")], "undo": "y"}, "$.undo: is no property of Conductor's, which ignores it"),
}


@pytest.mark.parametrize("what", CONDUCTOR)
def test_what_conductor_would_ignore_is_refused(what: str) -> None:
    """As an error, and only when it is asked for."""
    fields, sentence = CONDUCTOR[what]
    definition = WorkflowDef.from_json({"name": "w", **fields})
    errors = [str(problem) for problem in lint(definition, conductor=True) if problem.severity == "error"]
    assert errors == [sentence]
    assert [problem for problem in lint(definition) if problem.severity == "error"] == []


#: What is found in definitions of the corpus, which show what Conductor does with it.
TRUE = {
    "tree_15": "$.tasks[0].decisionCases.c[1]: is never reached: 'T' ends the execution (warning)",
    "order_saga": "$.tasks[3].inputParameters.shipped: ${ship…} is null unless 'charged' takes the case 'COMPLETED' (warning)",
    "times_out": "$.tasks[0].inputParameters.duration: is longer than the workflow's timeout of 60 s (warning)",
    **dict.fromkeys(
        ("terminate_completed", "terminate_failed", "terminate_terminated"),
        "$.tasks[2]: is never reached: 't' ends the execution (warning)",
    ),
}


def test_nothing_is_said_of_what_is_right() -> None:
    """Of the corpus, the examples and their flows, beyond what `validate` says."""
    corpus = [
        entry["definition"] for name in ("quoted", "written") for entry in json.loads((TESTS / f"corpus/{name}.json").read_text())
    ]
    examples = [json.loads(path.read_text()) for path in sorted((TESTS.parent / "examples").glob("*/*.json"))]
    found: list[tuple[str, str]] = []
    for document in [*corpus, *examples]:
        definition = WorkflowDef.from_json(document)
        said = validate(definition)
        found += [(definition.name, str(problem)) for problem in lint(definition) if problem not in said]
    assert sorted(found) == sorted(TRUE.items())


RIGHT: dict[str, list[dict[str, Any]]] = {
    "null where null is taken": [switch("${workflow.input.v}", a=[B]), t("x", text="${b.output.seat}")],
    "in the same case": [switch("${workflow.input.v}", a=[t("a"), t("b", "book", to="${a.output.result}")])],
    "in a text": [switch("${workflow.input.v}", a=[t("a")]), t("b", "book", to="from ${a.output.result}")],
    "any field": [t("f", "find"), t("x", text="${f.output.anything}")],
    "all cases": [B, switch("${b.output.paid}", true=[t("x")], false=[t("y")])],
    "cases of a choice": [B, switch("${b.output.kind}", window=[t("x")], aisle=[t("y")])],
    "a part of a choice": [B, switch("${b.output.kind.deep}", other=[t("x")])],
    "a status": [B, switch("${b.status}", COMPLETED=[t("x")])],
    "one case ends": [switch("${workflow.input.v}", a=[END]), t("y")],
    "one case of several ends": [switch("${workflow.input.v}", a=[END], default=[t("x")]), t("y")],
    "a loop that chooses to go on": [switch("${workflow.input.v}", a=[sub("again", "w")])],
    "the same name with a definition in it": [sub("again", "w", workflowDefinition={"name": "w", "tasks": [t("x")]})],
    "branches joined": [
        op("f", "FORK_JOIN", forkTasks=[[B], [t("x")]]),
        op("j", "JOIN", joinOn=["b", "x"]),
        t("y", text="${b.output.seat}"),
    ],
    "a join within a branch": [
        op("f", "FORK_JOIN", forkTasks=[[B], [op("i", "JOIN", joinOn=["b"]), t("x", text="${b.output.seat}")]]),
        op("j", "JOIN", joinOn=["b", "x"]),
    ],
    "branches of different forks": [
        op("f", "FORK_JOIN", forkTasks=[[B]]),
        op("j", "JOIN", joinOn=["b"]),
        op("g", "FORK_JOIN", forkTasks=[[t("x", text="${b.output.seat}")]]),
        op("k", "JOIN", joinOn=["x"]),
    ],
    "the other case, too": [
        switch("${workflow.input.v}", [t("c", "find")], a=[t("a", "find")]),
        op("i", "INLINE", {"expression": "$.a || $.c", "evaluatorType": "javascript", "a": "${a.output.x}", "c": "${c.output.x}"}),
    ],
    "every other case ends": [switch("${workflow.input.v}", [END], a=[t("a", "find")]), asking("${a.output.x}")],
    "the same choice again": [
        switch("${workflow.input.v}", a=[t("a", "find")]),
        {**switch("${workflow.input.v}", a=[asking("${a.output.x}")]), "taskReferenceName": "again"},
    ],
    "a switch by a step of one case": [
        switch("${workflow.input.v}", a=[t("a", "find")]),
        {**switch("${a.output.x}", b=[t("y")]), "taskReferenceName": "again"},
    ],
    "a template in place of null": [
        switch("${workflow.input.v}", a=[t("a", "find")]),
        {
            **op("h", "INLINE", {"expression": "$.uri", "evaluatorType": "javascript", "uri": "${a.output.x}"}),
            "taskDefinition": {"name": "h", "inputTemplate": {"uri": "nobody"}},
        },
    ],
    "a loop that reads its own rounds": [
        op(
            "l",
            "DO_WHILE",
            {"last": "${l.output.1.x.result}"},
            loopCondition="$.last != 'no' && $.l['iteration'] < 2",
            loopOver=[t("x")],
        ),
    ],
    "a key of outputKeys": [
        {**t("o", "find"), "taskDefinition": {"name": "find", "outputKeys": ["id"]}},
        t("x", text="${o.output.id.deep}"),
    ],
    "another workflow that may run itself": [sub("p", "choosing")],
    "more than is taken": [t("b", "book", to="Rome", customer="Ada")],
    "the round before": [
        op("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[t("x", text="${y.output.result}"), t("y")]),
    ],
    "what a started workflow gives": [sub("p", "pay"), t("x", text="${p.output.subWorkflowId}")],
}


@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right(what: str) -> None:
    """Nothing is said of it."""
    definition = WorkflowDef.from_json({"name": "w", "tasks": RIGHT[what]})
    assert [str(problem) for problem in lint(definition, contracts=contracts_of(workers), others=OTHERS)] == []
