"""Flows that are built by calls: how they differ from those that are read, and what of Python they would pass over in silence.

Such a function is carried out once, with references in place of values. Its forms (`with when(...)`, `with repeat(...)`) stand for
Python's statements; a statement of Python's own that has a meaning only when the flow runs is refused here.
"""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from conductorlite.flows.build import as_is
from conductorlite.flows.flow import join, reason, set_variables, status, variable
from conductorlite.flows.forms import attempt, match, otherwise, over, parallel, repeat, when
from conductorlite.flows.reading.calls import calls_steps
from conductorlite.flows.reading.names import Surroundings, bound_names
from conductorlite.flows.reading.source import Source

__all__ = ["by_calls", "check_calls", "is_straight"]

#: What only a flow that is built by calls has: Python's own statements say these in one that is read.
_BY_CALLS: Final[tuple[Any, ...]] = (
    when, otherwise, match, repeat, over, attempt, set_variables, variable, status, reason, join, as_is,
)  # fmt: skip


def by_calls(source: Source, around: Surroundings) -> bool:
    """Return True if a function is written in the forms of flows that are built by calls."""
    for one in source.nodes:
        if isinstance(one, ast.With | ast.AsyncWith):
            callee = one.items[0].context_expr
            callee = callee.func if isinstance(callee, ast.Call) else callee
        elif isinstance(one, ast.Call):
            callee = one.func
        else:
            continue
        try:
            found = around.static(callee)
        except LookupError:
            continue
        if any(found is form for form in _BY_CALLS) or (found is parallel and isinstance(one, ast.With)):
            return True
    return False


def is_straight(function: Callable[..., Any], around: Surroundings) -> bool:
    """Return True if a function without source means the same built by calls: it has such flows' forms, or no control flow."""
    code: types.CodeType = function.__code__
    forms = {form.__name__ for form in _BY_CALLS}
    for name in code.co_names:
        if name in forms:
            try:
                if any(around.find(name) is form for form in _BY_CALLS):
                    return True
            except LookupError:
                continue
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return not code.co_exceptiontable and not any(one.opcode in jumps for one in dis.get_instructions(code))


def check_calls(source: Source, around: Surroundings) -> None:
    """Refuse what such a flow would pass over without a word; raises BuildError with the place."""
    for one in source.nodes:
        if isinstance(one, ast.Try | ast.TryStar):
            raise source.error(
                one,
                "`try` has no effect while a flow is built by calls, as no step has run yet; write the whole flow in Python's own "
                "statements, without forms such as `when`, or use `with attempt() as tried:`",
            )
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            _check_effect(source, around, one.value)
    _check_names(source, around)


def _check_effect(source: Source, around: Surroundings, call: ast.Call) -> None:
    try:
        found = around.static(call.func)
    except LookupError:
        return
    module = getattr(found, "__module__", "") or ""
    plain = isinstance(found, types.FunctionType) and not module.startswith(("conductorlite", "typing"))
    closes_over = bool(getattr(getattr(found, "__code__", None), "co_freevars", None))
    if (plain or found is print) and not calls_steps(found) and not closes_over:
        name = ast.unparse(call.func)
        raise source.error(
            call, f"`{name}` would be called once, while the flow is built, not when it runs; decorate it with @task"
        )


def _check_names(source: Source, around: Surroundings) -> None:
    """Refuse a name that several cases assign and that is read after them: it would be the last one's."""
    cases = [one for one in source.nodes if isinstance(one, ast.With) and _is_case(one, around)]
    stores = [one for one in source.nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    for place, first in enumerate(cases):
        for second in cases[place + 1 :]:
            end = second.end_lineno or second.lineno
            if second.lineno <= (first.end_lineno or first.lineno):
                continue
            both = set(bound_names(first.body)) & set(bound_names(second.body))
            for read in _reads_after(source, both, end):
                if not any(one.id == read.id and end < one.lineno <= read.lineno for one in stores):
                    raise source.error(
                        read,
                        f"{read.id!r} is assigned in several cases, and would be the step of the last one, whichever is taken; "
                        "give the steps names of their own, or write the whole flow with `if` and `else`, without forms",
                    )


def _is_case(one: ast.With, around: Surroundings) -> bool:
    made = one.items[0].context_expr
    if isinstance(made, ast.Attribute):
        return made.attr == "failed"
    if not isinstance(made, ast.Call):
        return False
    if isinstance(made.func, ast.Attribute) and made.func.attr in ("case", "otherwise"):
        return True
    try:
        found = around.static(made.func)
    except LookupError:
        return False
    return found is when or found is otherwise


def _reads_after(source: Source, names: set[str], line: int) -> Iterator[ast.Name]:
    for one in source.nodes:
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in names and one.lineno > line:
            yield one
