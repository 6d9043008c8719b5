"""The journal in SQLite: lines that follow each other in one cell, and back, each as it was.

A line is its kind and status, its reference, attempt, number, reason, payload and cause, and how much later it is than the first
one; what is not there at the end is left out.

The last lines of an execution stand in its row, which each of its turns writes anyway, until they are too many: then they are a
row of `history`, and others begin. All but the newest are compressed, for most of a line was said before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, is_
from typing import Final
from zlib import DEFLATED, compressobj, decompressobj, error

from conductorlite.model.executions import HistoryEvent, HistoryKind
from conductorlite.store.sqlite.rows import TASK_STATUS, WORKFLOW_STATUS, Row, payload_of, readable

__all__ = [
    "Cell",
    "Tail",
    "history_of",
    "history_rows",
    "journal_text",
    "journal_with",
    "line_of",
    "lines_with",
    "packed_rows",
    "tail_of",
    "with_lines",
]

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
#: The last lines of an execution are so many characters at most.
_MOST: Final = 2_000
#: So many of them are added before all are compressed again.
_PLAIN: Final = 200
#: How a text is compressed: with little effort, a window of so many bits and little memory, so that it begins at once.
_WINDOW: Final = 11
_MEMORY: Final = 4
_LEVEL: Final = 1
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


_by_number: Final = attrgetter("n")

#: Lines that follow each other: number and instant of the first one, the number after the last one, all of them, and how many
#: characters of their cell are compressed.
Tail = tuple[int, int, int, str, int]

#: The last lines of a journal, as the row of their execution has them: a text, or one that is compressed and what was added to it.
Cell = str | bytes | None


def with_lines(
    cell: Cell, tail: Tail | None, events: Sequence[HistoryEvent], since: int, *, ended: bool
) -> tuple[Cell, Tail, Sequence[Tail]]:
    """The cell of an execution that begins at an instant, with new lines; what is in it, and what leaves it for `history`."""
    lines = sorted(events, key=_by_number)
    first, after = lines[0].n, lines[-1].n + 1
    leaving: Sequence[Tail] = ()
    new = text = ""
    if tail is not None and tail[3] and first == tail[2] and after - first == len(lines):
        new = _LINE + _joined(lines, tail[1])
        text = tail[3] + new
    if tail is not None and text and not text[_MOST:]:
        tail = (tail[0], tail[1], after, text, tail[4])
    else:
        rows = [(n, at, n + text.count(_LINE) + 1, text, 0) for n, at, text in history_rows(0, lines)]
        last = rows.pop() if len(rows[-1][3]) <= _MOST else (after, lines[-1].at, after, "", 0)
        leaving = [one for one in (tail, *rows) if one is not None and one[3]]
        tail, cell = last, None
    whole = f"{tail[0]},{tail[1] - since}{_LINE}{tail[3]}"
    if ended or whole[tail[4] + _PLAIN :]:
        return _packed(whole), (*tail[:4], len(whole)), leaving
    return cell + new.encode() if type(cell) is bytes else whole, tail, leaving


@readable
def tail_of(row: Row) -> Tail:
    """The last lines of an execution: when it begins, and the cell in its row."""
    since, cell = row
    packed, rest = _unpacked(cell)
    head, _, text = (packed + rest).partition(_LINE)
    first, apart = map(int, head.split(","))
    return first, since + apart, first + (text.count(_LINE) + 1 if text else 0), text, len(packed)


def journal_text(cell: str | bytes) -> str | None:
    """The lines in a cell of `history` or of an execution, each but the last with a mark behind it; None where there are none."""
    text = "".join(_unpacked(cell))
    return (text.partition(_LINE)[2] if text[:1].isdigit() else text) or None


def _packed(text: str) -> str | bytes:
    packing = compressobj(_LEVEL, DEFLATED, _WINDOW, _MEMORY)
    try:
        return packing.compress(text.encode()) + packing.flush()
    except UnicodeEncodeError:
        return text  # SQLite refuses it


def _unpacked(cell: str | bytes) -> tuple[str, str]:
    """Return the text of a cell, decompressed if it is compressed."""
    if isinstance(cell, str):
        return "", cell
    unpacking = decompressobj()
    try:
        text = unpacking.decompress(cell)
    except error as damage:
        raise ValueError(f"a cell cannot be read: {damage}") from damage
    if not unpacking.eof:
        raise ValueError("a cell is cut off")
    return text.decode(), unpacking.unused_data.decode()


def history_rows(execution: int, events: Sequence[HistoryEvent]) -> Sequence[tuple[int, int, str]]:
    """Rows of lines that follow each other: place and instant of the first line, all lines."""
    lines = sorted(events, key=_by_number)
    first = lines[0]
    if lines[-1].n - first.n + 1 != len(lines):
        return [row for line in lines for row in history_rows(execution, [line])]
    return [((execution << 28) + first.n, first.at, _joined(lines, first.at))]


def packed_rows(execution: int, tails: Iterable[Tail]) -> list[Row]:
    """Rows of `history`."""
    return [((execution << 28) + first, at, _packed(text)) for first, at, _, text, _ in tails]


def _joined(lines: Sequence[HistoryEvent], since: int) -> str:
    return _LINE.join(
        [
            line_of(
                line.kind + " " + line.status,
                line.ref,
                line.attempt,
                line.number,
                line.reason,
                None if line.payload is None else line.payload.cell,
                line.cause,
                line.at - since or None,
            )
            for line in lines
        ]
    )


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
    kind = _SHORT.get(head) or _cell(head)
    name = "" if ref is None else _known_cell(ref)
    # Of what has a reference, the first attempt goes without saying; of what has none, that there is none.
    tried = "" if attempt == (None if ref is None else 0) else "-" if attempt is None else attempt
    begun_by = "" if cause is None else _known_cause(cause)
    why, count, later = "" if reason is None else _cell(reason), "" if number is None else number, "" if apart is None else apart
    usual = f"{kind}{_FIELD}{name}{_FIELD}{tried}{_FIELD}{payload or ''}{_FIELD}{begun_by}"
    return f"{usual}{_FIELD}{why}{_FIELD}{count}{_FIELD}{later}".rstrip(_FIELD)


def _caused(cause: str) -> str:
    short = _CAUSED.get(cause[:_BEGINS], "")
    long = _CAUSES.get(short, "")
    return short + cause[len(long) :] if cause.startswith(long) else cause


#: The same references, and the same causes, come again and again.
_known_cell: Final = lru_cache(4_096)(_cell)
_known_cause: Final = lru_cache(256)(lambda cause: _caused(_cell(cause)))


def lines_with(cell: str | bytes, at: int, convert: Callable[[HistoryEvent], HistoryEvent]) -> str | bytes:
    """A cell of `history` whose first line is of an instant, with other lines; as it is where none is another one."""
    before = history_of((1, at, cell))
    after = [convert(line) for line in before]
    if all(map(is_, before, after)):
        return cell
    text = _joined(after, at)
    return _packed(text) if isinstance(cell, bytes) else text


def journal_with(cell: str | bytes, since: int, convert: Callable[[HistoryEvent], HistoryEvent]) -> str | bytes:
    """The last lines of an execution that begins at an instant, with others in the place of them."""
    first, at, _, text, _ = tail_of((since, cell))
    made = lines_with(text, at, convert) if text else text
    return cell if made == text else _packed(f"{first},{at - since}{_LINE}{made!s}")


@readable
def history_of(row: Row) -> Sequence[HistoryEvent]:
    """The lines of the journal in a row: number and instant of the first, all of them."""
    first, since, lines = row
    return [_event(first + nth, since, line) for nth, line in enumerate("".join(_unpacked(lines)).split(_LINE))]


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
