"""Executions as text: one line per event of the journal, with seconds since the start.

+0s        workflow RUNNING
+0s        charge #1 SCHEDULED
+0s        charge #1 IN_PROGRESS
+12.5s     charge #1 FAILED: 503
+17.5s     charge #2 SCHEDULED
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from conductorlite.driver import Engine, Run
from conductorlite.engine import Queries
from conductorlite.errors import InvalidInput
from conductorlite.executions import HistoryEvent, HistoryKind

__all__ = ["assert_history", "render_history", "timeline"]

_COLUMN = 11


def timeline(engine: Queries, workflow_id: str, *, payloads: bool = False, reasons: bool = True) -> str:
    """What happened to an execution so far, as text; raises ExecutionNotFound.

    `payloads` adds inputs and outputs as JSON, `reasons` why something ended as it did.
    """
    return render_history(engine.history(workflow_id), payloads=payloads, reasons=reasons)


def render_history(history: Sequence[HistoryEvent], *, payloads: bool = False, reasons: bool = True) -> str:
    """Lines of the journal as text. Attempts are counted from 1, instants from the first line."""
    if not history:
        return ""
    start = history[0].at
    return "\n".join(_line(event, start, payloads, reasons) for event in history)


def _line(event: HistoryEvent, start: int, payloads: bool, reasons: bool) -> str:
    what = "workflow" if event.ref is None else event.ref
    if event.kind is HistoryKind.ROUND:
        text = f"{what} round {event.number}"
    else:
        attempt = "" if event.attempt is None else f" #{event.attempt + 1}"
        compensation = event.kind is HistoryKind.COMPENSATION and event.ref is None
        alert = "ALERT " if event.kind is HistoryKind.ALERT else "COMPENSATION " if compensation else ""
        text = f"{what}{attempt} {alert}{event.status}"
    if reasons and event.reason:
        text += f": {' '.join(event.reason.split())}"
    if payloads and event.payload is not None and not event.payload.absent:
        text += f" {event.payload.shown}"
    at = f"+{(event.at - start) / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{at:<{_COLUMN - 1}} {text}"


def assert_history(
    subject: Run | Engine,
    expected: str,
    workflow_id: str | None = None,
    *,
    payloads: bool = False,
    reasons: bool = False,
) -> None:
    """Fail with a readable difference unless the timeline of an execution is the expected text, spaces aside.

    `subject` is a run, or an engine with either `workflow_id` or just one execution. Blank lines are left out, so the
    text may be indented like the code around it. Raises InvalidInput when it is not clear which execution is meant.
    """
    engine, chosen = _subject(subject, workflow_id)
    actual = timeline(engine, chosen, payloads=payloads, reasons=reasons)
    if list(_plain(actual)) == list(_plain(expected)):
        return
    difference = difflib.unified_diff([*_plain(expected)], [*_plain(actual)], "expected", f"history of {chosen}", lineterm="", n=3)
    raise AssertionError("\n".join([*difference, "", "the whole history:", actual]))


def _plain(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip():
            yield " ".join(line.split())


def _subject(subject: Run | Engine, workflow_id: str | None) -> tuple[Queries, str]:
    if isinstance(subject, Run):
        return subject._engine, subject.workflow_id
    if workflow_id is not None:
        return subject, workflow_id
    known = list(subject.workflow_ids())
    if len(known) != 1:
        raise InvalidInput(f"the engine holds {len(known)} executions; say which one is meant")
    return subject, known[0]
