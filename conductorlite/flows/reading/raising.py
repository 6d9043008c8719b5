"""`raise`, `assert` and `try` of a flow.

`raise` is a step that fails with the type and the text of the exception, as a task's function would. `try` is around one task,
which is optional then, and `except Exception` the case in which it has not completed after its last attempt.
"""

from __future__ import annotations

import ast
import copy
import types
from typing import Any

from conductorlite.flows.build import Reference, Step
from conductorlite.flows.reading.expressions import Expressions
from conductorlite.flows.reading.values import Known, Later, Slot, path_of, tree_of
from conductorlite.model import attrs
from conductorlite.model.definitions import TaskType, TimeoutPolicy
from conductorlite.model.errors import InvalidInput

__all__ = ["asserted", "raised", "tried"]


def raised(of: Expressions, node: ast.Raise) -> ast.expr:
    """The expression that fails as a `raise` does. Raises BuildError for an exception that says its text by code of its own."""
    refuse = of.steps.refuse
    if node.exc is None:
        raise refuse(node, "a `raise` by itself stands in an `except`; name the exception: `raise ValueError(reason)`")
    if node.cause is not None:
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
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    named = ast.List(elts=[ast.Constant(f"{module}{kind.__qualname__}")], ctx=ast.Load())
    made = _called(ast.Name(id="fail", ctx=ast.Load()), [named, text])
    return ast.fix_missing_locations(ast.copy_location(made, node))


def tried(of: Expressions, node: ast.Try) -> ast.If:
    """`try` around one task as the `if` on how it ended: it is optional, so that the flow goes on when it has failed."""
    handler, statement, call = _parts_of(of, node)
    for one in (*call.args, *(word.value for word in call.keywords)):
        given = of.value(one)
        if isinstance(given, Later) and not of.is_template(given):
            raise of.steps.refuse(
                one, "what the task is given is computed, which may raise by itself: assign it to a name before the `try`"
            )
    value = of.value(call)
    found = path_of(value.tree) if isinstance(value, Later) else None
    step = None if found is None else found._step
    if step is None:
        raise of.steps.refuse(call, "a flow tries one call of a task or a flow, by itself")
    _let_fail(of, step)
    ended = Slot(Reference(f"{step.ref}.status", step), str, f"{step.ref}_status")
    test = ast.Compare(left=ended, ops=[ast.Eq()], comparators=[ast.Constant("COMPLETED")])
    done: Any = copy.copy(statement)
    done.value = of.leaf(value, call)
    made = ast.If(test=test, body=[done, *node.orelse], orelse=handler.body)
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _parts_of(of: Expressions, node: ast.Try) -> tuple[ast.ExceptHandler, ast.stmt, ast.Call]:
    """The `except`, the statement that is tried, and the call in it; raises BuildError for what a flow cannot have."""
    refuse = of.steps.refuse
    if node.finalbody:
        raise refuse(node.finalbody[0], "`finally` is not part of a flow; write what it does after the `try`")
    handler = node.handlers[0]
    if len(node.handlers) > 1 or not _catches_all(of, handler):
        raise refuse(
            node.handlers[-1],
            "a flow catches all that a task raises by one `except Exception:`; let the task return which error it was",
        )
    if handler.name is not None:
        raise refuse(handler, "the exception has no name in a flow: write `except Exception:`")
    statement = node.body[0]
    call = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) else None
    call = call.value if isinstance(call, ast.Await) else call
    if len(node.body) > 1 or not isinstance(call, ast.Call) or not of.is_step(call):
        raise refuse(
            node.body[-1],
            "a flow tries one call of a task or a flow: write what follows it in `else`, several steps as a flow that is called",
        )
    return handler, statement, call


def _let_fail(of: Expressions, step: Step) -> None:
    """Have a step fail by itself: also when it runs out of time, which mostly ends the whole execution."""
    build = of.steps.build
    task = build.task_of(step)
    defined = task.task_definition or build.workers.task_defs.get(task.name)
    if defined is not None and defined.timeout_policy in (None, TimeoutPolicy.TIME_OUT_WF):
        times = (defined.timeout_ms, defined.total_timeout_ms, defined.response_timeout_ms, defined.poll_timeout_ms)
        if any(times):
            retries = 0 if task.type == TaskType.HUMAN else defined.retry_count
            defined = attrs.evolve(defined, timeout_policy=TimeoutPolicy.RETRY, retry_count=retries)
            build.replace(step, task_definition=defined)
    build.replace(step, optional=True)


def _catches_all(of: Expressions, handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    try:
        return of.callee(handler.type) is Exception
    except LookupError:
        return False


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
