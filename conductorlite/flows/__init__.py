"""Workflows written in Python: `@task` functions called in a `@flow` function, which becomes a Conductor definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conductorlite.flows.build import as_is
from conductorlite.flows.flow import (
    Flow,
    emit,
    event,
    flow,
    human,
    inline,
    join,
    node,
    now,
    reason,
    receive,
    set_variables,
    start,
    status,
    sub,
    terminate,
    variable,
    wait,
)
from conductorlite.flows.forms import (
    Attempt,
    Loop,
    Match,
    Parallel,
    attempt,
    each,
    match,
    otherwise,
    over,
    parallel,
    repeat,
    when,
)
from conductorlite.flows.tasks import Backoff, TaskFunction, task
from conductorlite.model.typed import converter

if TYPE_CHECKING:
    from conductorlite.flows.writers import to_python

__all__ = [
    "Attempt",
    "Backoff",
    "Flow",
    "Loop",
    "Match",
    "Parallel",
    "TaskFunction",
    "as_is",
    "attempt",
    "converter",
    "each",
    "emit",
    "event",
    "flow",
    "human",
    "inline",
    "join",
    "match",
    "node",
    "now",
    "otherwise",
    "over",
    "parallel",
    "reason",
    "receive",
    "repeat",
    "set_variables",
    "start",
    "status",
    "sub",
    "task",
    "terminate",
    "to_python",
    "variable",
    "wait",
    "when",
]


def __getattr__(name: str) -> Any:
    """`to_python`, which no program needs that only runs flows."""
    if name != "to_python":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from conductorlite.flows.writers import to_python

    return to_python
