"""What of a worker's report is kept: texts within their lengths, lines of a log, numbers and statuses that mean something."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

import attrs

from conductorlite.errors import InvalidInput
from conductorlite.executions import REPORTABLE, TaskResult, TaskStatus
from conductorlite.texts import REASON_LENGTH, cut, printable, type_name

__all__ = ["RAW_LENGTH", "cut_line", "cut_result", "kept_result", "raw_lines"]

#: Longest text that is looked at. What is kept is cut from it after secrets were taken out: a cut could hide one from that.
RAW_LENGTH: Final = 1_000_000

#: Longest traceback, and longest line of a log, of which the beginning and the end are kept; the most lines of one report.
_TRACEBACK_LENGTH: Final = 20_000
_LINE_LENGTH: Final = 10_000
_LINES: Final = 1_000

_WORKER_LENGTH: Final = 1_000
_LATEST_MS: Final = 2**53 - 1


def kept_result(result: TaskResult) -> TaskResult:
    """A report whose texts are texts of a bounded length; raises InvalidInput for a status or number that cannot be.

    Its output is looked at where it is made JSON.
    """
    try:
        return _kept(result)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # of values of classes of their own, whose methods may do anything
        raise InvalidInput(f"cannot be read: {type_name(error)}: {printable(error, RAW_LENGTH)}") from None


def _kept(result: TaskResult) -> TaskResult:
    status = result.status
    if not isinstance(status, str) or status not in REPORTABLE:
        usable = ", ".join(sorted(REPORTABLE))
        raise InvalidInput(f"{printable(status, 80)} cannot be reported; use one of {usable}")
    callback = result.callback_after_ms
    if type(callback) is not int:
        raise InvalidInput(f"callback_after_ms {printable(callback, 80)} is not a whole number")
    if callback < 0:
        raise InvalidInput(f"callback_after_ms {callback} is negative")
    if callback > _LATEST_MS:
        raise InvalidInput(f"callback_after_ms {printable(callback, 80)} is too long")
    if not isinstance(result.output_data, dict):
        raise InvalidInput(f"output_data must be a dict, not a {type(result.output_data).__name__}")
    return attrs.evolve(
        result,
        status=TaskStatus(status),
        reason=_raw(result.reason),
        traceback=_raw(result.traceback),
        worker_id=_raw(result.worker_id),
        logs=raw_lines(result.logs),
    )


def cut_result(result: TaskResult) -> TaskResult:
    """A report with its texts cut to their lengths; of a reason the beginning is kept, as in Conductor."""
    texts = (result.reason, result.traceback, result.worker_id)
    if not any(texts):
        return result
    return attrs.evolve(
        result,
        reason=None if result.reason is None else result.reason[:REASON_LENGTH],
        traceback=None if result.traceback is None else cut(result.traceback, _TRACEBACK_LENGTH),
        worker_id=None if result.worker_id is None else cut(result.worker_id, _WORKER_LENGTH),
    )


def raw_lines(lines: Sequence[object]) -> tuple[str, ...]:
    """Lines of a log as texts; of very many the first, and that there were more. One text is one line."""
    if not lines:
        return ()
    if isinstance(lines, str):
        return (printable(lines, RAW_LENGTH),)
    texts = [printable(line, RAW_LENGTH) for line in islice(lines, _LINES + 1)]
    if len(texts) > _LINES:
        texts[_LINES] = f"… more than {_LINES} lines in one report: the others are not kept"
    return tuple(texts)


def cut_line(line: str) -> str:
    """A line of a log, cut to its length."""
    return cut(line, _LINE_LENGTH)


def _raw(text: object) -> str | None:
    return None if text is None or text == "" else printable(text, RAW_LENGTH)
