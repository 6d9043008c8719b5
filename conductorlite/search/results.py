"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from conductorlite.search.fields import Cell

__all__ = ["SearchResult", "TaskSummary", "WorkflowSummary", "task_summary", "workflow_summary"]


@attrs.frozen(kw_only=True, slots=True)
class WorkflowSummary:
    """Conductor's WorkflowSummary of an execution. Instants are epoch ms and None until they have come, spans ms.

    `input` and `output` are JSON, or None when they are longer than 4,096 characters. `archived`: it left the store.
    """

    workflow_id: str
    workflow_type: str
    version: int
    status: str
    correlation_id: str | None = None
    start_time: int | None = None
    update_time: int | None = None
    end_time: int | None = None
    execution_time: int | None = None
    reason_for_incompletion: str | None = None
    event: str | None = None
    priority: int = 0
    created_by: str | None = None
    idempotency_key: str | None = None
    parent_workflow_id: str | None = None
    failed_reference_task_names: tuple[str, ...] = ()
    failed_task_names: tuple[str, ...] = ()
    archived: bool = False
    input: str | None = None
    output: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class TaskSummary:
    """Conductor's TaskSummary of an attempt. Instants are epoch ms and None until they have come, spans ms.

    `input` and `output` are JSON, or None when they are longer than 4,096 characters.
    """

    task_id: str
    reference_task_name: str
    task_def_name: str
    task_type: str
    status: str
    workflow_id: str
    workflow_type: str
    workflow_priority: int = 0
    correlation_id: str | None = None
    scheduled_time: int | None = None
    start_time: int | None = None
    update_time: int | None = None
    end_time: int | None = None
    execution_time: int | None = None
    queue_wait_time: int | None = None
    reason_for_incompletion: str | None = None
    domain: str | None = None
    worker_id: str | None = None
    retry_count: int = 0
    iteration: int = 0
    sub_workflow_id: str | None = None
    input: str | None = None
    output: str | None = None


S = TypeVar("S", WorkflowSummary, TaskSummary)


@attrs.frozen(kw_only=True, slots=True)
class SearchResult(Generic[S]):
    """A page of what answers a search, and how much does in all.

    `behind` is how many executions have changed since the index last looked at them, counted up to 1,000; 0 when the answer
    is exact.
    """

    total_hits: int
    results: tuple[S, ...]
    behind: int = 0


def workflow_summary(
    fields: Mapping[str, Cell], failed: Mapping[str, tuple[str, ...]], input: str | None, output: str | None
) -> WorkflowSummary:
    """A summary of the fields of a document."""
    cells = {_snake(name): value for name, value in fields.items() if name != "archived"}
    more = {_snake(name): texts for name, texts in failed.items()}
    known: Any = {**cells, **more, "archived": fields.get("archived") == b"true", "input": input, "output": output}
    return WorkflowSummary(**known)


def task_summary(fields: Mapping[str, Cell], input: str | None, output: str | None) -> TaskSummary:
    """A summary of the fields of a document."""
    known: Any = {_snake(name): value for name, value in fields.items()}
    return TaskSummary(**known, input=input, output=output)


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)
