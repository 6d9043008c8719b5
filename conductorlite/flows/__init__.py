"""Workflows written in Python: `@task` functions called in a `@flow` function, which becomes a Conductor definition."""

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
from conductorlite.flows.steps import event, human, inline, node, set_variables, start, sub, terminate, variable, wait
from conductorlite.flows.tasks import Backoff, TaskFunction, task

__all__ = [
    "Attempt",
    "Backoff",
    "Flow",
    "Loop",
    "Match",
    "Parallel",
    "TaskFunction",
    "attempt",
    "each",
    "event",
    "flow",
    "human",
    "inline",
    "match",
    "node",
    "otherwise",
    "over",
    "parallel",
    "repeat",
    "set_variables",
    "start",
    "sub",
    "task",
    "terminate",
    "variable",
    "wait",
    "when",
]
