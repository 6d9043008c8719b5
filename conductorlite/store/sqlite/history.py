"""The journal in SQLite: the lines of one turn in one cell, and back, each as it was.

A line is its kind and status, its reference, attempt, number, reason, payload and cause, and how much later it is than the first
one; what is not there at the end is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

from conductorlite.model.executions import HistoryEvent, HistoryKind
from conductorlite.store.sqlite.rows import TASK_STATUS, WORKFLOW_STATUS, Row, payload_of, readable

__all__ = ["history_of", "history_rows", "line_of"]

#: The lines of one turn are one cell. No field has what parts lines and fields: a text that may is written as JSON.
_LINE: Final = "\x1e"
_FIELD: Final = "\x1f"
#: Kinds and statuses of the usual lines, and how their causes begin.
_SHORT: Final = {f"TASK {name}": name[0] for name in ("SCHEDULED", "IN_PROGRESS", "COMPLETED")} | {
    f"WORKFLOW {name}": name[0].lower() for name in ("RUNNING", "COMPLETED")
}
_LONG: Final = {short: long for long, short in _SHORT.items()}
_CAUSES: Final = {"\1": '{"kind":"REPORT"}', "\2": '{"kind":"POLL","worker":"', "\3": '{"kind":"START","definition":"'}
_BEGINS: Final = 14
_CAUSED: Final = {long[:_BEGINS]: short for short, long in _CAUSES.items()}
_HISTORY_KIND: Final = {member.value: member for member in HistoryKind}
#: Lines that record a change of status name a status there is.
_STATUS_RECORDED: Final[dict[HistoryKind, Mapping[str, object]]] = {
    HistoryKind.TASK: TASK_STATUS,
    HistoryKind.WORKFLOW: WORKFLOW_STATUS,
}


def _cell(text: str) -> str:
    return text if text.isprintable() and text and text[0] != '"' else json.dumps(text, ensure_ascii=False)


def _text(cell: str) -> str | None:
    if cell[:1] == '"':
        text: str = json.loads(cell)
        return text
    return cell or None


def _number(cell: str) -> int | None:
    return int(cell) if cell else None


def history_rows(execution: int, events: Sequence[HistoryEvent]) -> Iterable[Row]:
    """Rows of lines that follow each other: place and instant of the first line, all lines."""
    lines = sorted(events, key=attrgetter("n"))
    first = lines[0]
    if lines[-1].n - first.n + 1 != len(lines):
        return [row for line in lines for row in history_rows(execution, [line])]
    texts = [
        line_of(
            f"{line.kind} {line.status}",
            line.ref,
            line.attempt,
            line.number,
            line.reason,
            None if line.payload is None else line.payload.cell,
            line.cause,
            line.at - first.at or None,
        )
        for line in lines
    ]
    return [((execution << 28) + first.n, first.at, _LINE.join(texts))]


def line_of(
    head: str,
    ref: str | None,
    attempt: int | None,
    number: int | None,
    reason: str | None,
    payload: str | None,
    cause: str | None,
    apart: int | None,
) -> str:
    """A line as it is kept: its kind and status, and its other cells; `apart` is what it is later than the first one."""
    cells = (
        _SHORT.get(head) or _cell(head),
        "" if ref is None else _known_cell(ref),
        # Of what has a reference, the first attempt goes without saying; of what has none, that there is none.
        "" if attempt == (None if ref is None else 0) else "-" if attempt is None else str(attempt),
        payload or "",
        "" if cause is None else _known_cause(cause),
        "" if reason is None else _cell(reason),
        "" if number is None else str(number),
        "" if apart is None else str(apart),
    )
    return _FIELD.join(cells).rstrip(_FIELD)


def _caused(cause: str) -> str:
    short = _CAUSED.get(cause[:_BEGINS], "")
    long = _CAUSES.get(short, "")
    return short + cause[len(long) :] if cause.startswith(long) else cause


#: The same references, and the same causes, come again and again.
_known_cell: Final = lru_cache(4_096)(_cell)
_known_cause: Final = lru_cache(256)(lambda cause: _caused(_cell(cause)))


@readable
def history_of(row: Row) -> Sequence[HistoryEvent]:
    """The lines of the journal in a row: number and instant of the first, all of them."""
    first, since, lines = row
    return [_event(first + nth, since, line) for nth, line in enumerate(lines.split(_LINE))]


def _event(n: int, since: int, line: str) -> HistoryEvent:
    head, ref, tried, payload, cause, reason, number, apart = (line.split(_FIELD) + [""] * 7)[:8]
    kind, _, status = _LONG.get(head, _text(head) or "").partition(" ")
    line_kind = _HISTORY_KIND[kind]
    if line_kind in _STATUS_RECORDED:
        _STATUS_RECORDED[line_kind][status]
    return HistoryEvent(
        n=n,
        at=since + (_number(apart) or 0),
        kind=line_kind,
        status=status,
        ref=_text(ref),
        attempt=(0 if ref else None) if not tried else None if tried == "-" else int(tried),
        number=_number(number),
        reason=_text(reason),
        payload=payload_of(payload) if payload else None,
        cause=_text(_CAUSES.get(cause[:1], cause[:1]) + cause[1:]),
    )
