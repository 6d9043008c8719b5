"""A workflow run with outputs in place of workers, as Conductor's `POST /workflow/test` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.executions import Workflow
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Startable
from conductorlite.server.rest.executions import tried_out
from conductorlite.testing.steps import starting

__all__ = ["run_mocked"]


def run_mocked(
    workflow: WorkflowDef | Startable[..., Any],
    input: Mapping[str, Any] | None = None,
    *definitions: WorkflowDef | TaskDef,
    task_ref_to_mock_output: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    sub_workflows: Mapping[str, Mapping[str, Any]] | None = None,
) -> Workflow:
    """Run a workflow (a definition or a flow) in virtual time without workers; the execution, as far as it came.

    Each attempt at a reference ends as the next entry of its list says: `{"status": "FAILED"}`, `{"output": {...}}` (COMPLETED).
    A task without one waits until its timeouts end it. `sub_workflows` are such lists below a SUB_WORKFLOW's reference, in
    Conductor's form: `{"pay": {"taskRefToMockOutput": {...}}}`. `definitions` are what it names. Raises as `Engine.start` does,
    and InvalidInput for what is no list of objects. Source of the form: Conductor's WorkflowTestRequest.
    """
    given, below = starting(workflow, input)
    definition = given["workflow"]
    request = {
        "name": definition.name,
        "workflowDef": definition.to_json(),
        "input": given["input"],
        "taskRefToMockOutput": task_ref_to_mock_output or {},
        "subWorkflowTestRequest": sub_workflows or {},
    }
    with Engine() as engine:
        engine.register(*below, *definitions)
        return tried_out(engine, request)
