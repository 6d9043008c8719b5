"""What the journal tells of an event that came from outside an execution: what its lines alone do not say.

With it, and with the lines, everything that ever came from outside can be done again: see `Engine.export`. Timers and the rest of
cut turns come by themselves and are not told. Nor are signs of life: they lead to no line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.model.decisions import Event, EventKind

__all__ = ["cause_of"]


def cause_of(draft: Draft, event: Event) -> dict[str, Any] | None:
    """What the next line says of an event; None when the execution wrote it to itself, or it leaves no line."""
    if event.sender == event.workflow_id or event.kind is EventKind.EXTEND_LEASE:
        return None
    # The line of an APPEND tells what the variables came to be.
    cause: dict[str, Any] = {"kind": str(EventKind.VARIABLES if event.kind is EventKind.APPEND else event.kind)}
    if event.sender:
        cause |= {"from": event.sender, "id": event.event_id}
    tell = _TOLD.get(event.kind)
    return cause if tell is None else {**cause, **tell(draft, event)}


def _given(draft: Draft, event: Event, names: Mapping[str, str]) -> dict[str, Any]:
    said = draft.value(event.data)
    return {told: said[name] for name, told in names.items() if said.get(name)}


def _start(draft: Draft, event: Event) -> dict[str, Any]:
    row = draft.workflow
    known = {"definition": row.definition_hash, "correlationId": row.correlation_id}
    told = {name: value for name, value in known.items() if value is not None}
    return told if event.sender else {**told, **_given(draft, event, {"at": "at"})}


def _poll(draft: Draft, event: Event) -> dict[str, Any]:
    return _given(draft, event, {"workerId": "worker"})


def _give_back(draft: Draft, event: Event) -> dict[str, Any]:
    return _given(draft, event, {"why": "why"})


def _report(draft: Draft, event: Event) -> dict[str, Any]:
    names = {"workerId": "worker", "callbackAfterMs": "callback"}
    if draft.value(event.data).get("status") == "IN_PROGRESS":
        names["reason"] = "reason"
    return _given(draft, event, names)


def _said(draft: Draft, event: Event) -> dict[str, Any]:
    names = ("reason", "resume", "parent", "workflowId", "error", "existing")
    return _given(draft, event, {name: name for name in names})


_TOLD: Final[Mapping[EventKind, Callable[[Draft, Event], dict[str, Any]]]] = {
    EventKind.START: _start,
    EventKind.POLL: _poll,
    EventKind.GIVE_BACK: _give_back,
    EventKind.REPORT: _report,
    EventKind.TERMINATE: _said,
    EventKind.RETRY: _said,
    EventKind.STARTED: _said,
}
