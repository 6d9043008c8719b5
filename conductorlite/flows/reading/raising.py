"""`raise` and `assert` of a flow: a step that fails with the type and the text of the exception, as a task's function would."""

from __future__ import annotations

import ast
import types

from conductorlite.flows.reading.expressions import Expressions
from conductorlite.flows.reading.values import CaughtError, Known, Later, tree_of
from conductorlite.model.errors import InvalidInput

__all__ = ["asserted", "class_name_of", "raised"]


def raised(of: Expressions, node: ast.Raise) -> ast.expr:
    """The expression that fails as a `raise` does. Raises BuildError for an exception that says its text by code of its own."""
    refuse = of.steps.refuse
    if node.exc is None:
        raise refuse(node, "a `raise` by itself stands in an `except`; name the exception: `raise ValueError(reason)`")
    if node.cause is not None and not _is_caught(of, node.cause):
        raise refuse(node.cause, "`from` is not part of a flow; raise the exception by itself")
    call = node.exc if isinstance(node.exc, ast.Call) else None
    given = [] if call is None else call.args
    if call is not None and (call.keywords or len(given) > 1 or any(isinstance(one, ast.Starred) for one in given)):
        raise refuse(node.exc, "an exception of a flow is given its text and nothing else: `raise ValueError(reason)`")
    kind = _class_of(of, node.exc if call is None else call.func)
    text: ast.expr = ast.Constant("")
    if given:
        try:
            inner = tree_of(of.value(given[0]), node)
        except InvalidInput as error:
            raise refuse(given[0], f"the text of the exception is no JSON: {error}") from None
        text = _called(ast.Name(id="repr" if issubclass(kind, KeyError) else "str", ctx=ast.Load()), [inner])
    above = [one for one in kind.__mro__[1:] if issubclass(one, BaseException) and one not in (Exception, BaseException)]
    names = [] if kind.__module__ == "builtins" else [class_name_of(one) for one in above]
    bases: list[ast.expr] = [ast.List(elts=[ast.Constant(one) for one in names], ctx=ast.Load())] if names else []
    named = ast.List(elts=[ast.Constant(class_name_of(kind))], ctx=ast.Load())
    made = _called(ast.Name(id="fail", ctx=ast.Load()), [named, text, *bases])
    return ast.fix_missing_locations(ast.copy_location(made, node))


def class_name_of(kind: type) -> str:
    """The name of a class of exceptions as attempts keep it."""
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"


def _is_caught(of: Expressions, cause: ast.expr) -> bool:
    """Return True if what an exception is raised from is what is handled, or None: which is not kept."""
    found = of.scope.get(cause.id) if isinstance(cause, ast.Name) else None
    return (isinstance(cause, ast.Constant) and cause.value is None) or (isinstance(found, Later) and found.kind is CaughtError)


def asserted(node: ast.Assert) -> ast.If:
    """`assert test, reason` as the `if` that says the same."""
    error = ast.Call(func=Known(AssertionError), args=[] if node.msg is None else [node.msg], keywords=[])
    statement = ast.Raise(exc=error, cause=None)
    test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    return ast.fix_missing_locations(ast.copy_location(ast.If(test=test, body=[statement], orelse=[]), node))


def _class_of(of: Expressions, node: ast.expr) -> type[Exception]:
    try:
        found = node.value if isinstance(node, Known) else of.callee(node)
    except LookupError:
        found = None
    if not isinstance(found, type) or not issubclass(found, Exception):
        raise of.steps.refuse(node, "a flow raises a class of exceptions that its module knows: `raise ValueError(reason)`")
    try:
        plain = isinstance(found.__init__, types.WrapperDescriptorType) and str(found("x")) in ("x", "'x'")
    except Exception:  # it takes more than a text
        plain = False
    if not plain:
        raise of.steps.refuse(node, f"{found.__name__} makes its text by code of its own; raise it in a @task")
    return found


def _called(function: ast.expr, given: list[ast.expr]) -> ast.Call:
    return ast.Call(func=function, args=given, keywords=[])
