"""Mistakes planted in the compiler of flows, one by one: the random programs find each of them."""

from __future__ import annotations

import inspect
import itertools
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from typing import Any

import pytest

from conductorlite.decide.operators import do_while
from conductorlite.flows import Flow

from programs import Outcome, Program, as_flow, as_python, compiled, has_fork, program  # isort: skip

READING = "conductorlite.flows.reading."

#: Function or method, what stands there, and what is planted.
MISTAKES: list[tuple[str, str, str]] = [
    ("values:template_of", "if kind_of(only) is not str", "if False"),
    ("values:path_of", 'case Slot():\n            return tree.reference', 'case Slot():\n            return tree.reference["x"]'),
    ("expressions:Expressions._short", "ends_if = isinstance(node.op, ast.Or)", "ends_if = isinstance(node.op, ast.And)"),
    ("expressions:Expressions._short", "if bool(value.value) is ends_if else", "if bool(value.value) is not ends_if else"),
    ("expressions:Expressions._conditional", "self.value(node.body if test.value else node.orelse)", "self.value(node.body)"),
    ("expressions:Expressions._conditional", "lambda: self.value(node.body), lambda: self.value(node.orelse)",
     "lambda: self.value(node.orelse), lambda: self.value(node.body)"),
    ("expressions:Expressions._chained", "op=ast.And()", "op=ast.Or()"),
    ("expressions:Expressions._chained", "ast.Compare(middle[1], node.ops[1:]", "ast.Compare(node.comparators[0], node.ops[1:]"),
    ("expressions:Expressions._lifted", "place < last and (path_of(value.tree) is None or may_raise(value.tree))", "False"),
    ("expressions:Expressions.either", 'ast.Constant("true")', 'ast.Constant("false")'),
    ("expressions:Expressions.kept", "return self.steps.computed(value, name, at)", "return value"),
    ("expressions:Expressions.parts", "range(size)", "reversed(range(size))"),
    ("expressions:Expressions.bind", "if target.id in self.tracked:", "if False:"),
    ("calls:Calls._arguments", "place < last and path_of(value.tree) is None", "False"),
    ("calls:Calls._fork", "test.value for test in tests", "True for test in tests"),
    ("calls:_over", "ifs=part.ifs", "ifs=[]"),
    ("statements:Statements.guarded", 'ast.Constant("next")', 'ast.Constant("return")'),
    ("statements:Statements._if", '(("true", body), (None, orelse))', '((None, body), ("true", orelse))'),
    ("statements:Statements._if", "self.of.scope = dict(before)", "pass"),
    ("statements:Statements.join", "elif ended[0]:", "elif False:"),
    ("statements:Statements._if", "scopes[0], scopes[1]", "scopes[1], scopes[0]"),
    ("statements:Statements._return", 'self.scope[RESULT] = value', 'self.scope[RESULT] = Now(None)'),
    ("statements:Statements._match", "ast.And()", "ast.Or()"),
    ("statements:Statements._pattern", "ops=[ast.Eq()]", "ops=[ast.NotEq()]"),
    ("statements:Statements.is_read_after", "line > end", "line > end + 1"),
    ("loops:Loops._unroll", 'how.value in ("next", "continue")', 'how.value in ("next", "continue", "break")'),
    ("loops:Loops._later_exit", '{"continue": "next", "break": "next"}', '{"continue": "next"}'),
    ("loops:Loops._left", '{"continue": "next", "break": "next"}', '{"continue": "next", "break": "return"}'),
    ("loops:Loops._asked", 'return _is(chosen, "true")', 'return ast.copy_location(ast.Constant(True), node)'),
    ("loops:_Loop.enter", 'self._first[name] = self._also', 'self._also'),
    ("loops:_Loop.leave", "given[self.key(name)] = self._argument(value, name)", "pass"),
    ("loops:_Loop.going_on", '_in(how.tree, ("next", "continue"))', '_in(how.tree, ("next", "continue", "break"))'),
    ("loops:_Loop.close", "begin[self.key(name)] = self._argument(bound, name)", "pass"),
    ("loops:_Loop._else", '_in(kept, ("next", "continue"))', '_in(kept, ("next", "continue", "break"))'),
    ("loops:_Loop._collects", "return all(id(one) in appended for one in named)", "return True"),
    ("loops:_Loop._collection", ".output[*].", ".output['1']."),
    ("trying:Tries._on_end", "body=done, orelse=failed", "body=failed, orelse=done"),
    ("trying:Tries._finally", "self._final(node, made.returned), ", ""),
    ("trying:Tries._handling", "reversed(node.handlers)", "node.handlers"),
    ("trying:Tries._bind_failed", "if one is not None:", "if False:"),
    ("trying:_Enclosed._take", 'if name not in self.kept', 'if True'),
    ("trying:_Enclosed.outputs", "if len(self._ways) > 1:", "if False:"),
    ("trying:_catches", "ast.Or() if names is None else ast.And()", "ast.And() if names is None else ast.Or()"),
    ("trying:Tries.raises_again", "self._again(step, node)", 'self._of.scope[EXIT] = Now("next")'),
    ("changing:Changes._append", "left=_read(name), op=ast.Add(), right=more", "left=more, op=ast.Add(), right=_read(name)"),
    ("changing:Changes.unshared", "other not in (name, EXIT, RESULT) and not", "False and not"),
    ("changing:Changes.augmented", "op=node.op, right=right", "op=ast.Add(), right=right"),
    ("raising:raised", '"repr" if issubclass(kind, KeyError) else "str"', '"str"'),
    ("raising:asserted", "op=ast.Not()", "op=ast.UAdd()"),
]  # fmt: skip

#: Programs that each mistake may take to be found.
_MOST = 500


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, logger="conductorlite"):
        yield


@contextmanager
def planted(target: str, old: str, new: str) -> Iterator[None]:
    """Carry out a block with a function of the compiler whose text is another one."""
    home, _, path = target.partition(":")
    module = import_module(READING + home)
    *owners, name = path.split(".")
    owner: Any = reduce(getattr, owners, module)
    whole = vars(owner)[name]
    function = whole.__func__ if isinstance(whole, staticmethod) else whole
    text = textwrap.dedent(inspect.getsource(function)).replace("@staticmethod\n", "")
    assert old in text, f"{target}: there is no {old!r}"
    names: dict[str, Any] = {}
    exec(
        compile(f"from __future__ import annotations\n{text.replace(old, new)}", target, "exec", dont_inherit=True),
        vars(module),
        names,
    )
    made = names[name]
    setattr(owner, name, staticmethod(made) if isinstance(whole, staticmethod) else made)
    others = [other for other in _modules() if other is not module and vars(other).get(name) is function]
    for other in others:
        setattr(other, name, made)
    try:
        yield
    finally:
        setattr(owner, name, whole)
        for other in others:
            setattr(other, name, function)


def _modules() -> list[Any]:
    words = ("calls", "changing", "expressions", "loops", "raising", "statements", "steps", "trying", "values")
    return [import_module(READING + word) for word in words]


def _compiled(made: Program) -> Flow[..., Any] | None:
    """A program as a flow; None where it is refused."""
    try:
        return compiled(made)
    except Exception:
        return None


class Endless(BaseException):
    """A program goes round more often than any does."""


def _outcome(made: Any, flow: Flow[..., Any], monkeypatch: pytest.MonkeyPatch) -> Outcome | str:
    """How a program ends as a flow; a text where the engine refuses it, or it does not end."""
    again, rounds = do_while._again, itertools.count()

    def counted(*given: Any) -> bool:
        if next(rounds) > 1_000:
            raise Endless
        return again(*given)

    with monkeypatch.context() as patch:
        patch.setattr(do_while, "_again", counted)
        try:
            return as_flow(made, flow)
        except (Exception, Endless) as error:
            return type(error).__name__


@pytest.mark.deep
@pytest.mark.parametrize(("target", "old", "new"), MISTAKES, ids=[f"{one[0]} {number}" for number, one in enumerate(MISTAKES)])
def test_a_mistake_is_found(target: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is compiled otherwise than Python means it, or not compiled."""
    for seed in range(_MOST):
        made = program(seed, 5 + seed % 12)
        with planted(target, old, new):
            flow = _compiled(made)
            found = None if flow is None else _outcome(made, flow, monkeypatch)
        if found is None:
            if _compiled(made) is not None:
                return
            continue
        if isinstance(found, str) or not found.agrees(as_python(made), forks=has_fork(made)):
            return
    pytest.fail(f"not found by {_MOST} programs")
