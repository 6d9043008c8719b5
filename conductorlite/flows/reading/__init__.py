"""Flows in ordinary Python: the function of a `@flow` is read, not run, and its control flow becomes a Conductor definition.

`source` finds the function's text and compares it with the code that runs. `names` says what is found around the function,
and whether it is written in the forms of a flow that is built by calls. `expressions` and `calls` compile what has a value,
`statements` and `loops` what has an order. `values` are what stands for a value meanwhile, and `steps` is where they meet the
builder.

What does not depend on a value of a step is computed once, when the flow is compiled; the rest is an expression that is
computed when the flow runs. Whatever would mean something else than in Python is refused, with its place and with what to
write instead.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from conductorlite.flows.build import Build, Reference
from conductorlite.flows.flow import Flow
from conductorlite.flows.reading.by_calls import by_calls, check_calls, is_straight
from conductorlite.flows.reading.calls import READING, Calls
from conductorlite.flows.reading.expressions import EXIT, RESULT, Expressions
from conductorlite.flows.reading.names import Surroundings, bound_names
from conductorlite.flows.reading.source import Source, source_of
from conductorlite.flows.reading.statements import Statements
from conductorlite.flows.reading.steps import Steps
from conductorlite.flows.reading.values import Now, later
from conductorlite.flows.schemas import hints
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.errors import BuildError
from conductorlite.model.threads import carried

__all__ = ["read", "readable"]


def readable(name: str, function: Callable[..., Any]) -> Source | None:
    """The source of a flow that is read; None for one that is built by calls. Raises BuildError where there is no source."""
    around = Surroundings(function)
    source = source_of(name, function)
    if source is not None:
        if not by_calls(source, around):
            return source
        check_calls(source, around)
        return None
    if is_straight(function, around):
        return None
    raise BuildError(
        f"{name}: its function has no source here, and a flow is read, not run: put it into a file, or ship its definition as "
        "JSON, which `conductorlite compile module:flow` writes where the source is, or build it by calls: @flow(by_calls=True)"
    )


def read(build: Build, source: Source, function: Callable[..., Any], given: Mapping[str, Reference]) -> object:
    """Compile a function into a build; gives what it returns, known now or as references. Raises BuildError with the place."""
    build.reads = True
    steps = Steps(build, source)
    body = source.function.body
    statements_of = body if isinstance(body, list) else []
    local = frozenset((*given, *bound_names(statements_of, changed=False)))
    expressions = Expressions(steps, Surroundings(function), local)
    expressions.calls = Calls(expressions)
    kinds = hints(function)
    expressions.scope = {
        **{name: later(reference, kinds.get(name, Any), name) for name, reference in given.items()},
        EXIT: Now("next"),
        RESULT: Now(None),
    }
    statements = Statements(expressions, function)
    with carried(READING, (*READING.get(), function)):
        if isinstance(body, list):
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                found = next(one for one in source.nodes if isinstance(one, ast.Yield | ast.YieldFrom))
                raise steps.refuse(found, "a flow does not yield; return the values, or start a flow for each")
            statements.block(statements_of)
            result = statements.result
        else:
            result = expressions.value(body)
    if isinstance(result, Now) and isinstance(result.value, TaskFunction | Flow):
        name = result.value.function.__name__
        raise steps.refuse(statements_of[-1] if statements_of else source.function, f"{name!r} is not called: write `{name}(...)`")
    return steps.argument(result, "result", source.function)
