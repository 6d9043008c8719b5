"""`python`: the extra of that name, with Conductor's rule for scripts.

Every input key is a name of the script, the text is the body of a function, and what it returns is the result; a lone expression
is its own result. The result is written as JSON where it was made, so that nothing but a text comes back: a set is a list in the
order in which its items were added.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Mapping
from typing import Final

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.expressions.sources import Json
from conductorlite.sandbox.monty import PythonLimits, PythonRaised, PythonRefused, python_installed, run_python

__all__ = ["PythonScript", "compile_python"]

_MAX_TEXT: Final = 50_000
_MAX_OUTPUT: Final = 4 * 1024 * 1024
#: Written into the session after the script: makes JSON of its answer within the script's budget.
_JSON: Final = """
import json as __json
def __plain(value):
    if isinstance(value, (list, tuple, set, frozenset)):
        return [__plain(item) for item in value]
    if isinstance(value, dict):
        return {key: __plain(item) for key, item in value.items()}
    return value
__json.dumps(__plain(__script(**__values)), allow_nan=False)
"""
#: Names by which a script may look at all others.
_ALL: Final = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})


@attrs.frozen(kw_only=True)
class PythonScript:
    """A compiled script: a Condition."""

    body: str
    names: frozenset[str]
    everything: bool
    limits: PythonLimits

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """The result as JSON; see `Condition.evaluate`."""
        given = {
            name: value
            for name, value in values.items()
            if (self.everything or name in self.names) and name.isidentifier() and not name.startswith("__")
        }
        names = ", ".join(given)
        code = f"def __script({names}):\n{self.body}{_JSON}"
        try:
            answer = run_python(code, {"__values": given}, self.limits, now=now, seed=seed)
        except PythonRaised as error:
            line = min(max(1, error.line - 1), self.body.count("\n") + 1)
            raise ExpressionFailed(f"{error} at line {line}") from None
        if answer is None or len(answer) > _MAX_OUTPUT:
            raise ExpressionFailed(f"the result is longer than {_MAX_OUTPUT:,} characters")
        try:
            return json.loads(answer)
        except (RecursionError, ValueError) as error:
            raise ExpressionFailed(f"the result is no JSON: {error}") from None


def compile_python(text: str, limits: PythonLimits = PythonLimits()) -> PythonScript:  # noqa: B008 - frozen
    """Check a text; raises InvalidExpression with the place, MissingExtra without the extra."""
    if not python_installed():
        raise MissingExtra("python", "scripts in Python")
    if len(text) > _MAX_TEXT:
        raise InvalidExpression(f"a script of {len(text)} characters; {_MAX_TEXT} are allowed")
    source = textwrap.dedent(text).strip() or "pass"
    try:
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
    except SyntaxError as error:
        raise InvalidExpression(f"SyntaxError: {error.msg} at line {error.lineno} column {error.offset}") from None
    except (RecursionError, MemoryError):
        raise InvalidExpression("the script is nested too deeply") from None
    except ValueError as error:
        raise InvalidExpression(f"the script cannot be read: {error}") from None
    body = _indented(source, nodes, lone=len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr))
    try:
        run_python(f"def __script():\n{body}", {}, limits)
    except PythonRefused as error:
        raise InvalidExpression(f"{error} at line {max(1, error.line - 1)}") from None
    except PythonRaised as error:
        raise InvalidExpression(str(error)) from None
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    return PythonScript(body=body, names=names, everything=not _ALL.isdisjoint(names), limits=limits)


def _indented(source: str, nodes: list[ast.AST], *, lone: bool) -> str:
    """The text as a body; lines that begin inside a text of several lines stay as they are."""
    inside = {
        line
        for node in nodes
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    lines = source.split("\n")
    if lone:
        lines[0] = f"return {lines[0]}"
    return "\n".join(line if number in inside else f"    {line}" for number, line in enumerate(lines, 1))
