"""What is made at run time, drawn, told and written: branches of dynamic forks, and what a DYNAMIC stands for."""

from __future__ import annotations

import re
from typing import Any

from reading_kit import Case

from conductorlite import WorkflowDef
from conductorlite.model.documents import workflow_to_json
from conductorlite.plan.diagrams import mermaid

FORKS = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}


def task(ref: str, type: str = "SIMPLE", **fields: Any) -> dict[str, Any]:
    """A task in JSON."""
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def forked(ref: str, join: str, tasks: list[Any]) -> list[dict[str, Any]]:
    """A dynamic fork and its JOIN."""
    return [task(ref, "FORK_JOIN_DYNAMIC", inputParameters={"t": tasks, "i": {}}, **FORKS), task(join, "JOIN")]


def case(*tasks: dict[str, Any]) -> Case:
    """An execution of these tasks."""
    return Case(WorkflowDef.from_json({"name": "flow", "tasks": list(tasks)}))


RETRIED = {"name": "c", "retryCount": 2, "retryDelaySeconds": 5}
NESTED = [
    task("p"),
    *forked("f", "j", [[task("a"), task("b")], forked("g", "k", [task("x")]), task("c", taskDefinition=RETRIED)]),
    task("d", "DYNAMIC", dynamicTaskNameParam="who", inputParameters={"who": "real"}),
]


def test_branches_are_drawn_in_their_place() -> None:
    """A dynamic fork of an execution is drawn like a static one, and a fork in its branch as well."""
    one = case(*NESTED)
    one.do("p")
    one.do("a")
    definition = one.workflow.definition
    assert definition is not None
    text = mermaid(definition, one.workflow)
    assert "subgraph" not in text
    drawn = [re.split(r"[\[{]", line)[0].strip() for line in text.splitlines() if '"' in line]
    refs = [line.split("<br/>")[0].split('"')[1] for line in text.splitlines() if '"' in line]
    names = dict(zip(refs, drawn, strict=True))
    arrows = {tuple(line.split(" --> ")) for line in text.replace("  ", "").splitlines() if " --> " in line}
    ways = ["pf", "fa", "ab", "bj", "fg", "gx", "xk", "kj", "fc", "cj", "jd"]
    assert {(names[source], names[target]) for source, target in ways} <= arrows
    assert (names["f"], names["j"]) not in arrows
    assert '["b<br/>SCHEDULED"]' in text
    # The definition alone knows of no branches.
    assert '"a' not in mermaid(definition)


def test_what_a_dynamic_stands_for_is_drawn() -> None:
    """A DYNAMIC that ran is drawn as what it was, by its reference."""
    one = case(task("d", "DYNAMIC", dynamicTaskNameParam="who", inputParameters={"who": "real"}))
    definition = one.workflow.definition
    assert definition is not None
    assert '  t1["d<br/>real<br/>SCHEDULED"]' in mermaid(definition, one.workflow)
    assert '  t1["d<br/>DYNAMIC"]' in mermaid(definition)


def test_of_a_loop_the_newest_round_is_drawn() -> None:
    """The branches are those of the newest round that had any."""
    fork, join = forked("f", "j", [])
    fork["inputParameters"]["t"] = "${l.output.loopItem}"
    loop = task("l", "DO_WHILE", items="${workflow.input.all}", loopOver=[fork, join])
    one = Case(WorkflowDef.from_json({"name": "flow", "tasks": [loop]}), input={"all": [[task("a")], [task("b"), task("c")]]})
    one.do("a")
    definition = one.workflow.definition
    assert definition is not None
    text = mermaid(definition, one.workflow)
    assert '["b<br/>SCHEDULED' in text
    assert '["c<br/>SCHEDULED' in text
    assert '  subgraph dynamic ["scheduled at run time"]\n    d1["a<br/>a<br/>COMPLETED' in text


def test_why_it_waits() -> None:
    """explain knows what the JOIN waits for, how often a branch is tried, and why a task behind a branch has not run."""
    one = case(*NESTED)
    one.do("p")
    one.do("c", "FAILED", reason="no")
    said = str(one.engine.explain("w1"))
    assert "c is due for retry in 5 s, after attempt 1 of 3 failed" in said
    assert "(JOIN) waits for b, k and c (0 of 3 ended)" in str(one.engine.explain("w1", "j"))
    assert str(one.engine.explain("w1", "b")) == "b has not run yet: a, before it, is SCHEDULED."


def test_the_json_has_the_task_it_was_made_from() -> None:
    """In an execution's JSON `workflowTask` and `taskDefinition` of a task made at run time are those it was given."""
    one = case(*NESTED)
    one.do("p")
    document = workflow_to_json(one.workflow)
    made = {each["referenceTaskName"]: each for each in document["tasks"]}
    assert made["c"]["workflowTask"]["taskReferenceName"] == "c"
    assert made["c"]["taskDefinition"]["retryCount"] == 2
    assert made["x"]["workflowTask"]["name"] == "x"
    assert made["g"]["workflowTask"]["type"] == "FORK_JOIN_DYNAMIC"
