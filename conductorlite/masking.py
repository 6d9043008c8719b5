"""`maskedFields`: what a workflow's definition has hidden wherever its values are shown to people.

A masked field is a key, at any depth, of the inputs, outputs and variables of the execution and its tasks; its whole value is
shown as `***`. Workers, expressions and programs get the values. Source of the word: Orkes' documentation of `maskedFields`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import attrs

from conductorlite.canonical import Payload
from conductorlite.executions import HistoryEvent, Workflow

__all__ = ["masked", "masked_history", "masked_value"]

_MASK: Final = "***"


def masked(workflow: Workflow) -> Workflow:
    """The execution as `Engine.get` returns it, with the fields its definition masks hidden."""
    fields = _fields(workflow)
    if not fields:
        return workflow
    return attrs.evolve(
        workflow,
        input=_payload(workflow.input, fields),
        output=_payload(workflow.output, fields),
        variables=_payload(workflow.variables, fields),
        tasks=tuple(
            attrs.evolve(task, input=_payload(task.input, fields), output=_payload(task.output, fields)) for task in workflow.tasks
        ),
    )


def masked_history(lines: Iterable[HistoryEvent], fields: Collection[str]) -> list[HistoryEvent]:
    """The journal of an execution with these fields hidden."""
    hidden = frozenset(fields)
    return [
        attrs.evolve(line, payload=_payload(line.payload, hidden)) if hidden and line.payload is not None else line
        for line in lines
    ]


def masked_value(value: Any, fields: Collection[str]) -> Any:
    """A copy of a JSON value with the entries of these names hidden, at any depth."""
    if isinstance(value, dict):
        return {key: _MASK if key in fields else masked_value(entry, fields) for key, entry in value.items()}
    return [masked_value(entry, fields) for entry in value] if isinstance(value, list) else value


def _fields(workflow: Workflow) -> frozenset[str]:
    return frozenset() if workflow.definition is None else frozenset(workflow.definition.masked_fields)


def _payload(payload: Payload, fields: frozenset[str]) -> Payload:
    return Payload.of(masked_value(payload.fresh(), fields), bounded=False)
