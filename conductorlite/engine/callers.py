"""Whose code is running: a worker's function, a listener, a source. What it asks of the engine that runs it may wait for itself.

Kept in a context variable, so that it is known in the function's thread and in the coroutines it awaits or begins; a thread that a
function starts by itself is not known.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.errors import WouldDeadlock
from conductorlite.model.threads import Block, within

if TYPE_CHECKING:
    from conductorlite.model.executions import Task

__all__ = ["Caller", "called_by", "caller_of", "refuse_callers"]


@attrs.define(slots=True, eq=False)
class Caller:
    """Code of the user's that an engine has called and that has not returned yet."""

    #: The turns of the engine that runs it.
    turns: object
    what: str
    #: The task of a worker's function.
    task: Task | None = None
    #: Whether the thread that drives waits for it.
    inline: bool = False
    running: bool = True


_CALLERS: Final[ContextVar[tuple[Caller, ...]]] = ContextVar("conductorlite_callers", default=())


def called_by(caller: Caller) -> AbstractContextManager[Caller]:
    """While inside, that code is running in this thread or coroutine."""
    return within(_Called(caller))


class _Called(Block[Caller]):
    """The block of a call."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._token: Token[tuple[Caller, ...]] | None = None

    def begin(self) -> Caller:
        self._token = _CALLERS.set((*_CALLERS.get(), self._caller))
        return self._caller

    def end(self, error: BaseException | None) -> None:
        self.undo()

    def undo(self, error: BaseException | None = None) -> None:
        self._caller.running = False
        token, self._token = self._token, None
        if token is not None:
            try:
                _CALLERS.reset(token)
            except ValueError:
                return  # a coroutine that is dropped, by other code


def caller_of(turns: object) -> Caller | None:
    """The innermost code that this engine has called and that is running here; None when only the user's is."""
    for caller in reversed(_CALLERS.get()):
        if caller.turns is turns and caller.running:
            return caller
    return None


def refuse_callers(turns: object, verb: str) -> None:
    """Raise WouldDeadlock when a verb that waits for running functions is asked for by one of them."""
    caller = caller_of(turns)
    if caller is not None:
        text = "call it outside of workers, listeners and sources"
        raise WouldDeadlock(f"{verb}() inside {caller.what} would wait for itself: {text}")
