"""Which fields executions and tasks are found by. Names are those of Conductor's WorkflowSummary and TaskSummary."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs

__all__ = ["IDS", "TASKS", "WORKFLOWS", "Cell", "Field", "Kind", "Subject", "cell"]

#: What a document holds in one place: bytes stand for true, false, a map or a list, which compare with nothing but themselves.
Cell = str | int | float | bytes

#: Characters of a text that are compared; what comes after them does not count.
MAX_TEXT: Final = 1_024

#: Fields that name something: whole, as they are, so that what is found by them is what they name.
IDS: Final = frozenset({"workflowId", "taskId", "referenceTaskName", "parentWorkflowId", "subWorkflowId"})

_INT64: Final = 2**63


class Kind(StrEnum):
    """What a field holds."""

    TEXT = "text"
    NUMBER = "number"
    #: Epoch ms; absent until it has come.
    TIME = "time"
    FLAG = "flag"
    #: Several texts.
    MANY = "texts"
    #: A value inside the input or the output.
    PATH = "path"


@attrs.frozen(slots=True)
class Field:
    """A field as a query names it; of a PATH or a MANY, `path` is where its values are."""

    name: str
    kind: Kind
    path: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Subject:
    """What is searched: executions or tasks."""

    name: str
    fields: Mapping[str, Kind]
    #: Other names of fields.
    aliases: Mapping[str, str]
    #: Fields of the execution a task belongs to: they may change without it.
    inherited: frozenset[str] = frozenset()
    #: What breaks ties: what identifies a document.
    key: tuple[str, ...] = ()

    def field(self, name: str) -> Field | None:
        """A field by its name or another name of it."""
        name = self.aliases.get(name, name)
        kind = self.fields.get(name)
        return None if kind is None else Field(name, kind, name if kind is Kind.MANY else "")


WORKFLOWS: Final = Subject(
    name="workflows",
    fields={
        "workflowId": Kind.TEXT,
        "workflowType": Kind.TEXT,
        "version": Kind.NUMBER,
        "status": Kind.TEXT,
        "correlationId": Kind.TEXT,
        "startTime": Kind.TIME,
        "updateTime": Kind.TIME,
        "endTime": Kind.TIME,
        "executionTime": Kind.NUMBER,
        "reasonForIncompletion": Kind.TEXT,
        "event": Kind.TEXT,
        "priority": Kind.NUMBER,
        "createdBy": Kind.TEXT,
        "idempotencyKey": Kind.TEXT,
        "parentWorkflowId": Kind.TEXT,
        "archived": Kind.FLAG,
        "failedReferenceTaskNames": Kind.MANY,
        "failedTaskNames": Kind.MANY,
    },
    aliases={"name": "workflowType", "workflowName": "workflowType", "workflowVersion": "version", "createTime": "startTime"},
    key=("workflowId",),
)

TASKS: Final = Subject(
    name="tasks",
    fields={
        "taskId": Kind.TEXT,
        "referenceTaskName": Kind.TEXT,
        "taskDefName": Kind.TEXT,
        "taskType": Kind.TEXT,
        "status": Kind.TEXT,
        "workflowId": Kind.TEXT,
        "workflowType": Kind.TEXT,
        "workflowPriority": Kind.NUMBER,
        "correlationId": Kind.TEXT,
        "scheduledTime": Kind.TIME,
        "startTime": Kind.TIME,
        "updateTime": Kind.TIME,
        "endTime": Kind.TIME,
        "executionTime": Kind.NUMBER,
        "queueWaitTime": Kind.NUMBER,
        "reasonForIncompletion": Kind.TEXT,
        "domain": Kind.TEXT,
        "workerId": Kind.TEXT,
        "retryCount": Kind.NUMBER,
        "iteration": Kind.NUMBER,
        "subWorkflowId": Kind.TEXT,
    },
    aliases={"workflowName": "workflowType", "workflowInstanceId": "workflowId", "name": "taskDefName"},
    inherited=frozenset({"workflowType", "workflowPriority", "correlationId"}),
    key=("workflowId", "referenceTaskName", "retryCount"),
)


def cell(value: object) -> Cell | None:
    """A JSON value as it is compared: texts cut, large integers as doubles; None for null and for what is no JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, str):
        return value[:MAX_TEXT].replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else _double(value)
    if isinstance(value, float):
        return value
    return b"{" if isinstance(value, Mapping) else b"["


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
