"""Reading what is archived."""

from __future__ import annotations

import attrs

from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.documents import Unpacked, unpacked
from conductorlite.model.errors import ExecutionArchived, ExecutionNotFound, StorageCorrupt
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.ports import ReadingTransaction

__all__ = ["archived_workflow", "missing", "status_of", "unarchived"]


def missing(view: ReadingTransaction, workflow_id: str) -> ExecutionNotFound:
    """Why an execution is not in the store: it is archived, or there is none."""
    if view.archived(workflow_id) is not None:
        return ExecutionArchived(workflow_id)
    return ExecutionNotFound(f"no execution has the id {workflow_id!r}")


def status_of(view: ReadingTransaction, workflow_id: str) -> WorkflowStatus:
    """Where an execution stands, stored or archived, without reading more of it; raises ExecutionNotFound."""
    row = view.workflow(workflow_id)
    if row is not None:
        return row.status
    found = view.archived(workflow_id)
    if found is None:
        raise missing(view, workflow_id)
    return WorkflowStatus(found.status)


def unarchived(view: ReadingTransaction, workflow_id: str) -> Unpacked:
    """What is archived of an execution; raises ExecutionNotFound, and StorageCorrupt when it cannot be read."""
    found = view.archived(workflow_id)
    if found is None:
        raise ExecutionNotFound(f"no execution has the id {workflow_id!r}")
    return unpacked(found.document)


def archived_workflow(found: Unpacked) -> Workflow:
    """An archived execution as `Engine.get` returns it: with its tasks and its definitions."""
    row = found.workflow
    grafts = sorted({digest for task in row.tasks for digest in task.grafts})
    absent = {row.definition_hash, *grafts} - found.definitions.keys()
    if absent:
        raise StorageCorrupt(f"the definition {min(absent)} of {row.workflow_id} is missing")
    made = {digest: WorkflowDef.from_json(found.definitions[digest]) for digest in grafts}
    return attrs.evolve(row, definition=WorkflowDef.from_json(found.definitions[row.definition_hash]), made=made)
