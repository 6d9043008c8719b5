"""What an export is made of: executions as they were started, their journals, every definition they ran on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from conductorlite.decide.operators.sub_workflow import DEFINITION_HASH
from conductorlite.model.canonical import parse
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.model.exports import definitions_in
from conductorlite.model.policies import derive_id
from conductorlite.store.ports import ReadingTransaction

__all__ = ["below", "definitions_of", "first_row"]


def first_row(view: ReadingTransaction, row: Workflow, history: Sequence[HistoryEvent]) -> Workflow:
    """An execution's row as it was when it began: what changes later follows from its journal."""
    begun = history[0]
    cause = {} if begun.cause is None else parse(begun.cause)
    definition = WorkflowDef.from_json(_text(view, row, cause["definition"]))
    return attrs.evolve(
        row,
        name=definition.name,
        version=definition.version,
        definition_hash=cause["definition"],
        correlation_id=cause.get("correlationId"),
        input=begun.payload if begun.payload is not None else row.input,
    )


def below(row: Workflow, history: Sequence[HistoryEvent]) -> Iterator[str]:
    """Ids of executions that an execution may have started and that are not its children: those that mourn it, and others."""
    for generation in range(row.generation + 1):
        yield derive_id("failure", row.seed, row.workflow_id, generation)
    for line in history:
        cause = {} if line.cause is None else parse(line.cause)
        if cause.get("kind") == EventKind.STARTED:
            yield cause["from"]


def definitions_of(view: ReadingTransaction, row: Workflow, history: Sequence[HistoryEvent], known: dict[str, str]) -> None:
    """Add to `known` the text of every definition that an execution has run on or may still run on."""
    waiting = [row.definition_hash]
    for line in history:
        waiting += definitions_in(line)
        if line.kind is HistoryKind.MIGRATED and line.payload is not None:
            waiting.append(line.payload.value["from"]["definitionHash"])
    while waiting:
        hashed = waiting.pop()
        if hashed not in known:
            known[hashed] = text = _text(view, row, hashed)
            waiting += _pinned(text)


def _text(view: ReadingTransaction, row: Workflow, hashed: str) -> str:
    text = view.definition(hashed)
    if text is None:
        raise StorageCorrupt(f"the definition {hashed} of {row.workflow_id} is missing")
    return text


def _pinned(text: str) -> list[str]:
    """Hashes of the sub-workflows that a definition names."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(value for name, value in pairs if name == DEFINITION_HASH and isinstance(value, str))

    hook: Callable[[list[tuple[str, Any]]], None] = look
    json.loads(text, object_pairs_hook=hook)
    return found
