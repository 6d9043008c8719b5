"""Workflows written in Python: `@task` functions called in a `@flow` function, which becomes a Conductor definition."""

from conductorlite.flows.build import as_is
from conductorlite.flows.flow import Flow, flow
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
from conductorlite.flows.source import to_python
from conductorlite.flows.steps import (
    event,
    human,
    inline,
    join,
    node,
    set_variables,
    start,
    status,
    sub,
    terminate,
    variable,
    wait,
)
from conductorlite.flows.tasks import Backoff, TaskFunction, task

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
    "each",
    "event",
    "flow",
    "human",
    "inline",
    "join",
    "match",
    "node",
    "otherwise",
    "over",
    "parallel",
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
