"""The text of an expression as it is stored, made of its nodes.

The text is what `ast.unparse` writes of a tree that all Pythons read alike. Two things are changed before. An f-string whose braces
hold a text that needs a quote or a backslash becomes a sum of texts, because Python 3.11 cannot read it otherwise. And the stored
text never holds `${`, which would be an expression of Conductor's own: where it would, the dollar sign is written `\\x24`.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any, Final

from conductorlite.language.expressions.grammar import ExpressionRefused
from conductorlite.model.syntax import parse_expression

__all__ = ["parsed", "text_of_node"]

#: Longest text of an expression.
_MAX_TEXT: Final = 20_000


def text_of_node(node: ast.expr) -> str:
    """The text of an expression. Raises ExpressionRefused when it is too long, or cannot be written so that it is read alike."""
    tree = _Normalizer().visit(_copied(node))
    try:
        text = ast.unparse(tree).replace("${", "\\x24{")
    except (RecursionError, ValueError):
        raise ExpressionRefused(
            node, "the expression cannot be written as one text", "assign a part of it to a name before"
        ) from None
    if len(text) > _MAX_TEXT:
        raise ExpressionRefused(
            node, f"the expression is longer than {_MAX_TEXT:,} characters", "assign a part of it to a name before"
        )
    try:
        same = _alike(parsed(text), tree)
    except SyntaxError:
        same = False
    if not same:
        raise ExpressionRefused(
            node, f"the expression cannot be written as one text: {text[:200]}", "assign a part of it to a name before"
        )
    return text


#: The tree of a text, kept while the text that was just made is compiled.
parsed: Final = lru_cache(maxsize=8)(parse_expression)


def _copied(node: Any) -> Any:
    """A tree without positions, of nodes that are nobody else's."""
    if isinstance(node, ast.AST):
        return type(node)(**{name: _copied(getattr(node, name, None)) for name in node._fields if name != "kind"})
    if isinstance(node, list):
        return [_copied(item) for item in node]
    return node


def _alike(one: Any, other: Any) -> bool:
    """Return True if two trees are equal, positions aside."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is list:
        return len(one) == len(other) and all(map(_alike, one, other))
    if not isinstance(one, ast.AST):
        return bool(one == other) and repr(one) == repr(other)
    return all(_alike(getattr(one, name, None), getattr(other, name, None)) for name in kind._fields if name not in ("ctx", "kind"))


class _Normalizer(ast.NodeTransformer):
    """Makes of a tree what parsing its text gives."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value: Any = node.value
        if type(value) in (int, float) and (value < 0 or (value == 0 and str(value)[0] == "-")):
            return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=-value))
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.format_spec, ast.Constant):
            node.format_spec = ast.JoinedStr(values=[node.format_spec])
        elif isinstance(node.format_spec, ast.BinOp):
            # An f-string of its own that could not stay one.
            node.format_spec = ast.JoinedStr(values=[ast.FormattedValue(value=node.format_spec, conversion=-1, format_spec=None)])
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        values: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.Constant) and values and isinstance(values[-1], ast.Constant):
                values[-1] = ast.Constant(value=str(values[-1].value) + str(value.value))
            elif not isinstance(value, ast.Constant) or value.value != "":
                values.append(value)
        node.values = values
        if all(not isinstance(value, ast.FormattedValue) or _fits(value) for value in values):
            return node
        return _sum_of_texts(values)


def _fits(value: ast.FormattedValue) -> bool:
    """Return True if every Python reads it back within the braces of an f-string."""
    parts = [value.value, *([] if value.format_spec is None else [value.format_spec])]
    for part in parts:
        for inner in ast.walk(part):
            if part is value.value and isinstance(inner, ast.JoinedStr | ast.Lambda):
                return False
            if isinstance(inner, ast.Constant) and type(inner.value) is str:
                text = inner.value
                if not text.isprintable() or any(sign in text for sign in "\\'\"{}#$"):
                    return False
    return True


def _sum_of_texts(values: list[ast.expr]) -> ast.expr:
    """`'…' + format(value, spec) + …`, which means what the f-string of these parts means."""
    parts = [_as_text(value) for value in values]
    total = parts[0]
    for part in parts[1:]:
        total = ast.BinOp(left=total, op=ast.Add(), right=part)
    return total


def _as_text(value: ast.expr) -> ast.expr:
    if not isinstance(value, ast.FormattedValue):
        return value
    subject = value.value
    if value.conversion == ord("r"):
        subject = _call("repr", subject)
    elif value.conversion == ord("s"):
        subject = _call("str", subject)
    elif value.conversion == ord("a"):
        subject = _call("ascii", subject)
    spec = value.format_spec
    if isinstance(spec, ast.JoinedStr) and all(isinstance(part, ast.Constant) for part in spec.values):
        spec = ast.Constant(value="".join(str(part.value) for part in spec.values if isinstance(part, ast.Constant)))
    return _call("format", subject) if spec is None else _call("format", subject, spec)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])
