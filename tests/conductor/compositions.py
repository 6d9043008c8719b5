"""Random compositions: the library's own strategies, without what waits for a clock."""

from __future__ import annotations

import json
from typing import Any, Final

from cases import OWN, Case
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from conductorlite import WorkflowDef
from conductorlite.testing import strategies

#: A number of attempts that end somehow, the last one well.
_ENDS: Final = st.lists(st.sampled_from(["FAILED", "COMPLETED", "FAILED_WITH_TERMINAL_ERROR"]), max_size=2)
_TIMES: Final = (
    "timeoutSeconds",
    "responseTimeoutSeconds",
    "pollTimeoutSeconds",
    "totalTimeoutSeconds",
    "retryDelaySeconds",
    "maxRetryDelaySeconds",
    "backoffJitterMs",
    "startDelay",
    "timeoutPolicy",
)


def _timeless(value: Any) -> Any:
    """Without delays and timeouts; types of workers are the case's own, and a WAIT waits for somebody."""
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    if not isinstance(value, dict):
        return value
    known = {name: _timeless(each) for name, each in value.items() if name not in _TIMES}
    if known.get("name") in strategies.WORKER_TYPES:
        known["name"] = f"{OWN}{known['name']}"
    if "backoffScaleFactor" in known:
        known |= {"retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 3600}
    if known.get("type") == "DO_WHILE":
        known.setdefault("loopCondition", "true")
    if known.get("type") == "WAIT":
        known = {**known, "inputParameters": {}}
        known.pop("taskDefinition", None)
    return known


def _nested(value: Any, inside: bool) -> bool:
    """Whether a loop is inside a loop, which Conductor does not support."""
    if isinstance(value, list):
        return any(_nested(each, inside) for each in value)
    if not isinstance(value, dict):
        return False
    loop = value.get("type") == "DO_WHILE"
    return (loop and inside) or any(_nested(each, inside or loop) for each in value.values())


def _case(number: int, definition: WorkflowDef, given_input: dict[str, Any], ends: dict[str, list[Any]]) -> Case:
    document = _timeless(definition.to_json())
    document |= {"name": f"{OWN}flow", "timeoutSeconds": 0, "ownerEmail": "a@example.org", "version": 1, "schemaVersion": 2}
    document.pop("failureWorkflow", None)
    document.pop("inputTemplate", None)
    steps = [{"do": "drive", "times": 25, "outcomes": ends}]
    return Case(name=f"compositions/{number}", workflows=[document], input=given_input, steps=steps)


def cases(drawn: int, chance: int) -> list[Case]:
    """So many, the same for the same seed."""
    found: list[Case] = []
    seen: set[str] = set()

    def outcomes(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
        return st.tuples(_ENDS, strategies.outputs()).map(
            lambda both: [*({"status": each, "output": both[1]} for each in both[0]), {"status": "COMPLETED", "output": both[1]}]
        )

    @seed(chance)
    @settings(
        max_examples=max(1, drawn * 5),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        strategies.definitions(nodes=12),
        strategies.inputs(),
        st.fixed_dictionaries({kind: outcomes(kind) for kind in strategies.WORKER_TYPES}),
    )
    def draw(definition: WorkflowDef, given_input: dict[str, Any], ends: dict[str, list[Any]]) -> None:
        case = _case(len(found), definition, given_input, ends)
        known = json.dumps([case.workflows, case.input, case.steps])
        if known not in seen and len(found) < drawn and not _nested(case.workflows[0]["tasks"], False):
            seen.add(known)
            found.append(case)

    if drawn:
        draw()
    return found
