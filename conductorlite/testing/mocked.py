"""A workflow run with outputs in place of workers, as Conductor's `POST /workflow/test` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.executions import Workflow
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.awaited import tried_out

__all__ = ["run_mocked"]


def run_mocked(
    workflow: WorkflowDef,
    input: Mapping[str, Any] | None = None,
    *definitions: WorkflowDef | TaskDef,
    task_ref_to_mock_output: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    sub_workflows: Mapping[str, Mapping[str, Any]] | None = None,
) -> Workflow:
    """Run a workflow in virtual time without workers; the execution, as far as it came.

    Each attempt at a reference ends as the next entry of its list says: `{"status": "FAILED"}`, `{"output": {...}}` (COMPLETED).
    A task without one waits until its timeouts end it. `sub_workflows` are such lists below a SUB_WORKFLOW's reference, in
    Conductor's form: `{"pay": {"taskRefToMockOutput": {...}}}`. `definitions` are what it names. Raises as `Engine.start` does,
    and InvalidInput for what is no list of objects. Source of the form: Conductor's WorkflowTestRequest.
    """
    request = {
        "name": workflow.name,
        "workflowDef": workflow.to_json(),
        "input": dict(input or {}),
        "taskRefToMockOutput": {ref: [dict(mock) for mock in mocks] for ref, mocks in (task_ref_to_mock_output or {}).items()},
        "subWorkflowTestRequest": {ref: dict(below) for ref, below in (sub_workflows or {}).items()},
    }
    with Engine() as engine:
        engine.register(*definitions)
        return tried_out(engine, request)
