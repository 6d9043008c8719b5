"""Limits that cannot work, or that have no effect, are found before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from test_validate import found, task, workflow

from conductorlite import InvalidDefinition, WorkflowDef

INNER = "$.tasks[0].subWorkflowParam.workflowDefinition"


def _limit(key: str | None = None, count: int = 1) -> dict[str, Any]:
    config: dict[str, Any] = {"concurrentExecLimit": count}
    return {"rateLimitConfig": config if key is None else {"rateLimitKey": key, **config}}


def _calling(inner: dict[str, Any], ref: str = "s") -> dict[str, Any]:
    return task(ref, type="SUB_WORKFLOW", subWorkflowParam={"name": inner["name"], "workflowDefinition": inner})


def _named(name: str, *tasks: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**workflow(*tasks, **properties), "name": name}


NEVER = "whose slot is held until this sub-workflow has ended: it would never begin"


def test_a_sub_workflow_that_needs_the_key_of_its_parent() -> None:
    """It is an error at the key of the inner definition, and names the outer one's."""
    document = workflow(_calling(_named("inner", task("a"), **_limit("k"))), **_limit("k", 5))
    message = f"'k' is the key of $.rateLimitConfig.rateLimitKey, {NEVER}"
    assert found(document) == [("E", f"{INNER}.rateLimitConfig.rateLimitKey", message)]


def test_at_any_depth() -> None:
    """An execution two levels down may not need the key either; each level holds its own."""
    deepest = _named("deepest", task("a"), **_limit("k"))
    middle = _named("middle", _calling(deepest, "t"), **_limit("other"))
    document = workflow(_calling(middle), **_limit("k"))
    path = f"{INNER}.tasks[0].subWorkflowParam.workflowDefinition.rateLimitConfig.rateLimitKey"
    assert found(document) == [("E", path, f"'k' is the key of $.rateLimitConfig.rateLimitKey, {NEVER}")]
    document = workflow(_calling(_named("middle", _calling(deepest, "t"), **_limit("k"))), **_limit("other"))
    assert found(document) == [("E", path, f"'k' is the key of {INNER}.rateLimitConfig.rateLimitKey, {NEVER}")]


def test_without_a_key_it_is_the_name() -> None:
    """Two definitions of one name share a limit."""
    document = _named("w", _calling(_named("w", task("a"), **_limit())), **_limit())
    ((severity, path, message),) = found(document)
    assert (severity, path) == ("E", f"{INNER}.rateLimitConfig.rateLimitKey")
    assert message.startswith("'w' is the key of $.rateLimitConfig.rateLimitKey")


@pytest.mark.parametrize(
    "document",
    [
        workflow(_calling(_named("inner", task("a"), **_limit("k"))), **_limit("l")),
        workflow(_calling(_named("inner", task("a"), **_limit("k"))), _calling(_named("other", task("b"), **_limit("k")), "r")),
        workflow(_calling(_named("inner", task("a"), **_limit("${workflow.input.k}"))), **_limit("${workflow.input.k}")),
        workflow(_calling(_named("inner", task("a"))), **_limit("k")),
    ],
    ids=["another key", "one beside the other", "known when it starts", "no limit inside"],
)
def test_what_may_be(document: dict[str, Any]) -> None:
    """Other keys, equal keys beside each other, and keys that are expressions are no findings."""
    assert found(document) == []


@pytest.mark.parametrize("kind", ["WAIT", "SUB_WORKFLOW", "INLINE", "HUMAN"])
def test_limits_of_what_the_engine_carries_out(kind: str) -> None:
    """They have no effect, which is a warning at each of them; those of workers' tasks and of DYNAMIC have."""
    limits = {"name": "t", "concurrentExecLimit": 1, "rateLimitPerFrequency": 2, "rateLimitFrequencyInSeconds": 1}
    warnings = [row for row in found(workflow(task(type=kind, taskDefinition=limits))) if row[0] == "W" and "no effect" in row[2]]
    path = "$.tasks[0].taskDefinition"
    said = f"has no effect: {kind} is carried out by the engine, and limits are for workers"
    assert warnings == [("W", f"{path}.concurrentExecLimit", said), ("W", f"{path}.rateLimitPerFrequency", said)]
    dynamic = task(type="DYNAMIC", dynamicTaskNameParam="n", inputParameters={"n": "x"}, taskDefinition=limits)
    for other in (task(taskDefinition=limits), task(type="HTTP", inputParameters={"uri": "u"}, taskDefinition=limits), dynamic):
        assert not [row for row in found(workflow(other)) if "no effect" in row[2]]


def test_a_window_of_no_length() -> None:
    """A rate without a window limits nothing; without a word on the window it is a second."""
    path = "$.tasks[0].taskDefinition.rateLimitFrequencyInSeconds"
    limited = {"name": "t", "rateLimitPerFrequency": 2}
    assert found(workflow(task(taskDefinition=limited))) == []
    rows = found(workflow(task(taskDefinition={**limited, "rateLimitFrequencyInSeconds": 0})))
    assert rows == [("W", path, "is 0, so rateLimitPerFrequency has no effect")]


@pytest.mark.parametrize(("config", "where"), [({"concurrentExecLimit": 0}, "concurrentExecLimit"), ({}, "concurrentExecLimit")])
def test_no_slot_at_all(config: dict[str, Any], where: str) -> None:
    """A limit below 1 would let nothing begin."""
    assert found(workflow(task(), rateLimitConfig=config)) == [("E", f"$.rateLimitConfig.{where}", "must be at least 1")]


def test_a_policy_that_does_not_exist() -> None:
    """QUEUE and REJECT are all there are."""
    document = workflow(task(), rateLimitConfig={"concurrentExecLimit": 1, "policy": "DROP"})
    with pytest.raises(InvalidDefinition, match=r"\$\.rateLimitConfig\.policy"):
        WorkflowDef.from_json(document)
