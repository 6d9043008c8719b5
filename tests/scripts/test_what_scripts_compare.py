"""What `${…}` gives a script is a value of JSON, of JSON's own types: `===` looks at them."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef
from conductorlite.language.values import TASK_MEMBERS, WORKFLOW_MEMBERS

MEMBERS = [*(f"t.{member}" for member in TASK_MEMBERS), *(f"workflow.{member}" for member in WORKFLOW_MEMBERS)]


def _switch(ref: str, expression: str, **given: str) -> dict[str, Any]:
    switch = {"type": "SWITCH", "evaluatorType": "javascript", "expression": expression, "inputParameters": given}
    cases = {"true": [{"name": f"n_{ref}", "taskReferenceName": f"n_{ref}", "type": "NOOP"}]}
    return {"name": ref, "taskReferenceName": ref, **switch, "decisionCases": cases}


def _selected(tasks: list[dict[str, Any]]) -> dict[str, str]:
    workers = Workers()
    workers.task("t")(lambda: {"a": 1})
    given = {"name": "t", "taskReferenceName": "t"}
    with Engine(workers=workers, clock=VirtualClock(1_000)) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": [given, *tasks]}), correlation_id="c")
        engine.run_until_idle()
        return {task.ref: task.output_data["selectedCase"] for task in run.tasks if task.task_type == "SWITCH"}


@pytest.mark.parametrize("member", [one for one in MEMBERS if not one.endswith((".input", ".output", ".variables"))])
def test_a_member_equals_what_is_kept_of_it(member: str) -> None:
    """As it is now, and as it was put into a variable, which is kept as text."""
    keep = {"name": "s", "taskReferenceName": "s", "type": "SET_VARIABLE", "inputParameters": {"kept": f"${{{member}}}"}}
    switch = _switch("same", "$.now === $.kept", now=f"${{{member}}}", kept="${workflow.variables.kept}")
    assert _selected([keep, switch]) == {"same": "true"}


def test_a_status_equals_its_name() -> None:
    """As `when(status(step) == "COMPLETED")` and the failure of an `attempt()` ask."""
    same, other = _switch("same", '$.s === "COMPLETED"', s="${t.status}"), _switch("other", '$.s !== "COMPLETED"', s="${t.status}")
    assert _selected([same, other]) == {"same": "true", "other": "false"}
