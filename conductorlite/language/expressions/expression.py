"""An expression: its text, the JavaScript that means the same, and its answer.

The text is compiled once a process. What an evaluation answers follows from the text and the values alone: it reads no clock and no
chance, and changes nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.language.expressions.budget import Budget, BudgetSpent
from conductorlite.language.expressions.closures import Run, compile_closure
from conductorlite.language.expressions.grammar import check, kind_of
from conductorlite.language.expressions.operations import Raised
from conductorlite.language.expressions.texts import parsed, text_of_node
from conductorlite.language.values import Json
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, TakesLong
from conductorlite.model.later import functions
from conductorlite.model.texts import REASON_LENGTH, printable

if TYPE_CHECKING:
    from conductorlite.language.expressions.javascript import write_javascript
else:
    # To carry out an expression needs no JavaScript.
    (write_javascript,) = functions("conductorlite.language.expressions.javascript", "write_javascript")

__all__ = [
    "CompiledExpression",
    "Expression",
    "ExpressionRaised",
    "compile_expression",
    "evaluate",
    "javascript_of",
    "render",
    "truth",
]

#: Compiled texts that are kept.
_KEPT: Final = 2_048
#: Longest text that is compiled, in characters.
_MAX_TEXT: Final = 20_000
#: Deepest nesting of an answer, as that of every document.
_MAX_DEPTH: Final = 200


class ExpressionRaised(ExpressionFailed):
    """An expression raised an exception of Python: `error_types` names its class, the message begins with it; internal."""

    def __init__(self, error_types: tuple[str, ...], text: str, error_bases: tuple[str, ...] = ()) -> None:
        text = printable(text, REASON_LENGTH)
        self.error_types, self.text, self.error_bases = error_types, text, error_bases
        name = error_types[0].rpartition(".")[2] if error_types else "Exception"
        super().__init__(f"{name}: {text}")


@attrs.frozen(kw_only=True, slots=True)
class Expression:
    """An expression as it is stored, see `render`."""

    #: The text in Python, as `ast.unparse` writes it.
    python: str
    #: The same meaning for a Conductor server, which reads its values as `$.name`.
    javascript: str
    #: The names of values that it reads, in the order of their first occurrence.
    names: tuple[str, ...]
    #: What its value is, where that is certain: see `kind_of`.
    kind: str | None


@attrs.frozen(kw_only=True, slots=True)
class CompiledExpression:
    """A text, compiled."""

    text: str
    names: tuple[str, ...]
    #: What its answer is, where that is certain.
    kind: str | None
    #: Whether it goes through a list that may be long.
    repeats: bool
    tree: ast.expr = attrs.field(eq=False, repr=False)
    _run: Run = attrs.field(eq=False, repr=False)
    _places: int = attrs.field(eq=False, repr=False)

    def evaluate(self, values: Mapping[str, Json]) -> Json:
        """The answer as JSON, tuples as lists.

        Raises ExpressionRaised for what the expression raises, an answer that is no JSON included, and ExpressionFailed when the
        budget is spent; in haste TakesLong.
        """
        budget = Budget()
        try:
            frame: list[Any] = [budget, *[values[name] for name in self.names]]
        except KeyError as error:
            raise ExpressionRaised(("NameError",), f"name {error.args[0]!r} is not defined") from None
        frame += [None] * (self._places - len(frame))
        try:
            answer = self._run(frame)
            kind = type(answer)
            if answer is None or kind is bool or kind is int or kind is str:
                return answer
            return _json(answer, budget, _MAX_DEPTH)
        except (TakesLong, ExpressionFailed):
            raise
        except BudgetSpent as error:
            raise ExpressionFailed(str(error)) from None
        except Raised as error:
            raise ExpressionRaised(error.types, error.text, error.bases) from None
        except Exception as error:
            raise ExpressionRaised((type(error).__name__,), str(error)) from None


def _json(value: Any, budget: Budget, depth: int) -> Json:
    """A value as JSON: a tuple becomes a list. Raises TypeError and ValueError in the words of Python's json."""
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"Out of range float values are not JSON compliant: {value!r}")
        return value
    if depth == 0:
        raise ValueError(f"the answer is nested deeper than {_MAX_DEPTH} levels")
    if kind is list or kind is tuple:
        budget.spend(len(value))
        return [_json(item, budget, depth - 1) for item in value]
    if kind is dict:
        budget.spend(len(value))
        for key in value:
            if type(key) is not str:
                raise TypeError(f"keys must be str, not {type(key).__name__}")
        return {key: _json(item, budget, depth - 1) for key, item in value.items()}
    raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")


def render(node: ast.expr, names: Collection[str]) -> Expression:
    """Make of the tree of an expression what is stored; `names` are the values that it may read.

    Raises ExpressionRefused, with the position of the node, for what is not in the grammar.
    """
    check(node, names)
    text = text_of_node(node)
    compiled = compile_expression(text)
    return Expression(python=text, javascript=javascript_of(compiled), names=compiled.names, kind=kind_of(node))


def truth(node: ast.expr) -> ast.expr:
    """The node of Python's truth of a value: the node itself where it is certain to give a bool."""
    if kind_of(node) == "bool":
        return node
    called = ast.Call(func=ast.Name(id="bool", ctx=ast.Load()), args=[node], keywords=[])
    return ast.fix_missing_locations(ast.copy_location(called, node))


def javascript_of(compiled: CompiledExpression) -> str:
    """Return what a Conductor server carries out in place of a text."""
    return _javascript(compiled.text)


@lru_cache(maxsize=_KEPT)
def _javascript(text: str) -> str:
    compiled = compile_expression(text)
    return write_javascript(compiled.tree, compiled.names)


@lru_cache(maxsize=_KEPT)
def compile_expression(text: str) -> CompiledExpression:
    """Compile a stored text; raises InvalidExpression with the place and the reason."""
    if len(text) > _MAX_TEXT:
        raise InvalidExpression(f"the expression is longer than {_MAX_TEXT:,} characters")
    try:
        tree = parsed(text)
    except SyntaxError as error:
        raise InvalidExpression(f"SyntaxError: {error.msg} at line {error.lineno} column {error.offset}") from None
    except (RecursionError, MemoryError):
        raise InvalidExpression("the expression is nested too deeply") from None
    except ValueError as error:
        raise InvalidExpression(f"the expression cannot be read: {error}") from None
    names = check(tree)
    run, places = compile_closure(tree, names)
    return CompiledExpression(
        text=text, names=names, kind=kind_of(tree), repeats=_repeats(ast.walk(tree)), tree=tree, run=run, places=places
    )


def _repeats(nodes: Iterable[ast.AST]) -> bool:
    return any(isinstance(node, ast.comprehension | ast.Lambda) for node in nodes)


def evaluate(text: str, values: Mapping[str, Json]) -> Json:
    """The answer of an expression; raises InvalidExpression, and as `CompiledExpression.evaluate`."""
    return compile_expression(text).evaluate(values)
