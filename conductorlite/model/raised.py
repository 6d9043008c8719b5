"""Failure of a task as the `try` of a flow sees it: the class of an exception, the classes above it, and its text.

A worker reports the names of the classes; those above one of Python's own are known here. A task that ran out of time has raised
TimedOut, one that was canceled asyncio's CancelledError, which `except Exception` does not catch in Python either.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from conductorlite.model.executions import CANCELED, TIMED_OUT, Task

__all__ = ["bases_of", "error_of", "text_of"]

_BASES: Final[Mapping[str, tuple[str, ...]]] = {
    TIMED_OUT: ("conductorlite.model.errors.ConductorliteError", "TimeoutError", "OSError", "Exception"),
    CANCELED: ("BaseException",),
}


@lru_cache(maxsize=256)
def bases_of(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the classes above one, nearest first: those that are known, and those of Python's own classes."""
    if name in _BASES:
        return _BASES[name]
    found: dict[str, None] = {}
    for one in (name, *known):
        kind = getattr(builtins, one, None)
        above = kind.__mro__[1:-1] if isinstance(kind, type) and issubclass(kind, BaseException) else ()
        found |= dict.fromkeys((*(() if one == name else (one,)), *(base.__name__ for base in above)))
    if "BaseException" not in found and name != "BaseException":
        found |= {"Exception": None, "BaseException": None}
    return tuple(found)


def text_of(task: Task) -> str:
    """The text of what a task has raised."""
    if task.error_text is not None:
        return task.error_text
    reason = task.reason or str(task.status)
    head = f"{task.error_types[0].rpartition('.')[2]}: " if task.error_types else ""
    return reason[len(head) :] if head and reason.startswith(head) else reason


def error_of(task: Task) -> dict[str, Any] | None:
    """Return the value of `${task.error}`: `types`, `classes` from the first of them upwards, `text`; None without a failure."""
    if not task.status.terminal or task.status == "COMPLETED" or not (task.error_types or task.reason):
        return None
    types = task.error_types or ("Exception",)
    return {"types": list(types), "classes": [types[0], *bases_of(types[0], task.error_bases)], "text": text_of(task)}
