"""What may look at an engine's work from within: tracing, metrics. Nothing of it changes what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from conductorlite.engine.logs import log_listener
from conductorlite.engine.turn_types import Listener
from conductorlite.model.decisions import Decision
from conductorlite.model.executions import Task

__all__ = ["Observer", "notify"]


class Observer(Protocol):
    """Added to `Turns.observers`. Its methods are called in threads of the engine, and must be quick.

    What `committed` and the beginning of `working` raise is logged, and nothing else happens.
    """

    def committed(self, decision: Decision) -> None:
        """A turn was committed by this engine: its rows and history, once."""

    def carried(self) -> str | None:
        """The `traceparent` (W3C Trace Context) that an execution carries which the calling code starts."""

    def working(self, task: Task) -> AbstractContextManager[object]:
        """Around the function that carries out a task, in its thread or coroutine."""

    def headers(self) -> Mapping[str, str]:
        """What a request carries that the calling function makes."""


def notify(decision: Decision, listeners: Sequence[Listener], observers: Sequence[Observer]) -> None:
    """Have all see a turn that was committed; what one raises is logged."""
    calls = [partial(listener, decision.workflow, decision.history) for listener in listeners]
    for call in (*calls, *(partial(observer.committed, decision) for observer in observers)):
        try:
            call()
        except Exception as error:
            log_listener(decision.workflow, error)
