"""Python functions that SQLite calls.

An exception in such a function does not reach the caller of the statement: SQLite learns only that the function failed, and the
module `sqlite3` raises an error that says nothing of the exception. An interruption, such as Ctrl-C, would become a failure of the
database. So the exception is kept, and an interruption is raised in place of the error.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["callback", "raise_interruption"]

P = ParamSpec("P")
R = TypeVar("R")

#: Per thread, the exception of the last function that failed.
_failed: Final = threading.local()

#: Error texts of `sqlite3` for a function and for an authorizer that raised.
_TEXTS: Final = ("user-defined function raised exception", "not authorized")


def callback(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function for SQLite to call, whose exception is kept for `raise_interruption`."""

    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            _failed.error = error
            raise

    return called


def raise_interruption(failure: sqlite3.Error) -> None:
    """Raise the interruption that led to the failure of a statement, if there was one; MemoryError counts as one.

    A function that was interrupted before its first statement could keep nothing: KeyboardInterrupt is raised for it.
    """
    if str(failure) not in _TEXTS:
        return
    error: BaseException | None = getattr(_failed, "error", None)
    _failed.error = None
    if error is None:
        raise KeyboardInterrupt
    if not isinstance(error, Exception) or isinstance(error, MemoryError):
        try:
            raise error
        finally:
            del error  # or this frame and the exception would keep one another
