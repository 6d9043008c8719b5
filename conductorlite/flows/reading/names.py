"""Meanings of the names in a flow's function: its own variables, and what it finds around it."""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import enum
import os
import sys
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from conductorlite.flows.flow import (
    Flow,
    emit,
    event,
    human,
    inline,
    node,
    receive,
    start,
    sub,
    terminate,
    wait,
)  # fmt: skip
from conductorlite.flows.forms import each, parallel
from conductorlite.flows.reading.values import add_below
from conductorlite.flows.tasks import Backoff, TaskFunction
from conductorlite.model.typed import is_record

__all__ = [
    "BUILTINS", "FORMS", "MUTATING", "Surroundings", "bound_names", "changes", "is_clock", "is_constructor", "is_environment",
    "is_pure", "typed_argument",
]  # fmt: skip

#: What computes with later values and is part of an expression.
BUILTINS: Final = frozenset(
    {
        "abs", "all", "any", "bool", "dict", "enumerate", "float", "format", "int", "len", "list", "max", "min", "range", "repr",
        "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
    }
)  # fmt: skip

#: What is called in a flow that is read, and makes steps.
FORMS: Final[tuple[Any, ...]] = (each, parallel, human, receive, emit, wait, event, inline, sub, start, terminate, node)

#: Classes of which an object is made without an effect.
_CONSTRUCTORS: Final = (Backoff, dt.timedelta, dt.date, dt.datetime, dt.time, Decimal, Fraction)
#: Objects whose methods have no effect, but for the mutating ones of lists, dicts and sets, which `is_pure` leaves out.
_VALUES: Final = (
    str, bytes, int, float, bool, tuple, frozenset, list, dict, set, dt.timedelta, dt.date, dt.time, Decimal, range,
)  # fmt: skip
MUTATING: Final = frozenset(
    {
        "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort",
        "update",
    }
)  # fmt: skip
_CLOCKS: Final = frozenset({"now", "today", "utcnow"})


class Surroundings:
    """The names around a function: of the functions it stands in, of its module, and Python's own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._globals: dict[str, Any] = function.__globals__
        #: The name of the module in which the function stands.
        self.module: object = function.__module__
        self._cells: dict[str, Any] = {}
        code: types.CodeType = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._cells[name] = cell.cell_contents
            except ValueError:  # it is assigned below the flow
                continue

    def find(self, name: str) -> object:
        """Return what a name means; raises LookupError where it means nothing."""
        for names in (self._cells, self._globals, vars(builtins)):
            if name in names:
                return names[name]
        raise LookupError(name)

    def static(self, node: ast.expr, local: Any = None) -> object:
        """Return what an expression of names and attributes means; raises LookupError where it is anything else."""
        if isinstance(node, ast.Name):
            if local is not None and local(node.id):
                raise LookupError(node.id)
            return self.find(node.id)
        if isinstance(node, ast.Attribute):
            above = self.static(node.value, local)
            if isinstance(above, types.ModuleType | type | TaskFunction | Flow):
                try:
                    return getattr(above, node.attr)
                except AttributeError:
                    pass
        raise LookupError(ast.unparse(node))


def bound_names(nodes: list[ast.stmt], *, changed: bool = True) -> Iterator[str]:
    """The names that statements assign, in the order of the text; those of functions and comprehensions in them left out.

    With `changed` those too of which the value is changed, which gives them another one.
    """
    waiting: list[ast.AST] = list(reversed(nodes))
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del):
            yield one.id
        elif (isinstance(one, ast.ExceptHandler) and one.name) or (isinstance(one, ast.MatchAs | ast.MatchStar) and one.name):
            yield one.name
        elif changed and (name := _changed_name(one)) is not None:
            yield name
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield one.name
            continue
        if isinstance(one, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        add_below(one, waiting)


def typed_argument(found: object, call: ast.Call) -> ast.expr | None:
    """The value of a call that only type checkers look at: `cast(Offer, offer)`, `assert_type(offer, Offer)`."""
    if getattr(found, "__module__", None) not in ("typing", "typing_extensions") or call.keywords:
        return None
    place = {"cast": 1, "assert_type": 0, "reveal_type": 0}.get(getattr(found, "__name__", ""))
    return None if place is None or len(call.args) <= place else call.args[place]


def _changed_name(node: ast.AST) -> str | None:
    """The name of the list or dict that a part of a statement changes."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATING:
            return name
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            base: ast.expr = node
            while isinstance(base, ast.Subscript):
                base = base.value
            return base.id if isinstance(base, ast.Name) else None
    return None


def changes(node: ast.Expr) -> ast.Attribute | None:
    """The method by which a statement changes a value."""
    call = node.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MUTATING:
        return call.func
    return None


def is_constructor(found: object) -> bool:
    """Return True if what is called is a class whose objects are values."""
    return isinstance(found, type) and (found in _CONSTRUCTORS or issubclass(found, enum.Enum) or is_record(found))


def is_clock(found: object) -> bool:
    """Return True if a function gives the time."""
    owner, name = getattr(found, "__self__", None), getattr(found, "__name__", "")
    of_time = getattr(found, "__module__", None) == "time" and name in ("time", "time_ns")
    return of_time or (name in _CLOCKS and owner in (dt.date, dt.datetime))


def is_environment(found: object) -> bool:
    """Return True if a value is of the process that compiles, and another where the flow runs."""
    return found is os.environ or found is sys.argv


def is_pure(found: object) -> bool:
    """Return True if a call has no effect, and gives the same whenever it is made."""
    if is_constructor(found):
        return True
    if any(
        found is getattr(builtins, name) for name in (*BUILTINS, "frozenset", "isinstance", "hash", "ord", "chr", "divmod", "pow")
    ):
        return True
    name = getattr(found, "__name__", "")
    owner = getattr(found, "__self__", None)
    if name == "options":
        return isinstance(owner, TaskFunction | Flow)
    if isinstance(owner, type):
        return owner in (*_VALUES, dt.datetime) and name not in _CLOCKS
    return isinstance(found, types.BuiltinMethodType) and type(owner) in _VALUES and name not in MUTATING
