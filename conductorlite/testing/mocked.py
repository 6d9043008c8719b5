"""Outputs in place of workers, as Conductor's `POST /workflow/test` has it; and scripts in place of whole sub-workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from conductorlite.model.definitions import TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Workflow
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.tree import changed_branches
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Startable
from conductorlite.server.rest.executions import tried_out
from conductorlite.testing.steps import starting

__all__ = ["mock_sub_workflows", "run_mocked"]


def run_mocked(
    workflow: WorkflowDef | Startable[..., Any],
    input: Mapping[str, Any] | None = None,
    *definitions: WorkflowDef | TaskDef,
    task_ref_to_mock_output: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    sub_workflows: Mapping[str, Mapping[str, Any]] | None = None,
) -> Workflow:
    """Run a workflow (a definition or a flow) in virtual time without workers; the execution, as far as it came.

    Each attempt at a reference ends as the next entry of its list says: `{"status": "FAILED"}`, `{"output": {...}}` (COMPLETED).
    A task without one waits until its timeouts end it. An entry for a SUB_WORKFLOW stands for all of it; `sub_workflows` are such
    lists below its reference, in Conductor's form: `{"pay": {"taskRefToMockOutput": {...}}}`. `definitions` are what it names.
    Raises as `Engine.start` does, and InvalidInput for what is no list of objects. Source of the form: Conductor's
    WorkflowTestRequest.
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


def mock_sub_workflows(workflow: WorkflowDef | Startable[..., Any], *names: str) -> WorkflowDef:
    """Make a definition of a workflow (a definition or a flow) in which a worker stands for each sub-workflow of these names, or
    of all.

    Such a SUB_WORKFLOW becomes a SIMPLE task of the same reference and input, whose type is the sub-workflow's name:
    `engine.start(mock_sub_workflows(order, "pay"), {...})` with `workers.pay.returns({"paid": True})`. Raises InvalidInput for a
    name that no sub-workflow has.
    """
    definition = workflow if isinstance(workflow, WorkflowDef) else _compiled(workflow)
    known: set[str] = set()
    made = _mocked(definition, frozenset(names), known)
    for name in names:
        if name not in known:
            raise InvalidInput(f"{definition.name!r} has no sub-workflow {name!r}{did_you_mean(name, known)}")
    return made


def _compiled(workflow: object) -> WorkflowDef:
    found = getattr(workflow, "definition", None)
    if not isinstance(found, WorkflowDef):
        raise InvalidInput(f"it takes a flow or a definition, not {workflow!r:.80}")
    return found


def _mocked(definition: WorkflowDef, names: frozenset[str], known: set[str]) -> WorkflowDef:
    return attrs.evolve(definition, tasks=_mocked_tasks(definition.tasks, names, known))


def _mocked_tasks(tasks: Sequence[WorkflowTask], names: frozenset[str], known: set[str]) -> list[WorkflowTask]:
    return [_mocked_task(task, names, known) for task in tasks]


def _mocked_task(task: WorkflowTask, names: frozenset[str], known: set[str]) -> WorkflowTask:
    below = task.sub_workflow_param
    if task.type != TaskType.SUB_WORKFLOW or below is None:
        return attrs.evolve(task, **changed_branches(task, lambda inner: _mocked_tasks(inner, names, known)))
    inline = below.workflow_definition
    name = inline.name if isinstance(inline, WorkflowDef) else below.name or task.name
    known.add(name)
    if not names or name in names:
        return attrs.evolve(task, type=TaskType.SIMPLE, name=name, sub_workflow_param=None)
    if isinstance(inline, WorkflowDef):
        below = attrs.evolve(below, workflow_definition=_mocked(inline, names, known))
    return attrs.evolve(task, sub_workflow_param=below)
