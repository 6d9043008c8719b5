"""What of Python a script may be written in: the nodes of its syntax tree, and the methods by type."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from conductorlite.errors import InvalidExpression

__all__ = ["METHODS", "check"]

_MAX_NESTING: Final = 60

_NODES: Final[tuple[type[ast.AST], ...]] = (
    ast.Module, ast.Expr, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.For, ast.While, ast.Break,
    ast.Continue, ast.Pass, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.List, ast.Tuple,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Compare, ast.Call, ast.keyword,
    ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.Name, ast.JoinedStr, ast.FormattedValue,
    ast.Lambda, ast.arguments, ast.arg, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(
        [
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "join",
            "replace",
            "startswith",
            "endswith",
            "find",
            "rfind",
            "index",
            "count",
            "title",
            "capitalize",
            "isdigit",
            "isalpha",
            "isalnum",
            "isspace",
            "isupper",
            "islower",
            "isnumeric",
            "removeprefix",
            "removesuffix",
            "partition",
            "rpartition",
            "casefold",
            "swapcase",
        ]
    ),
    list: frozenset({"append", "extend", "insert", "pop", "remove", "index", "count", "sort", "reverse", "copy", "clear"}),
    dict: frozenset({"get", "keys", "values", "items", "pop", "update", "setdefault", "copy", "clear"}),
    tuple: frozenset({"index", "count"}),
}
_ALL_METHODS: Final = frozenset().union(*METHODS.values())


def check(tree: ast.Module) -> None:
    """Raise InvalidExpression, with the line, for the first thing that is outside."""
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    called: set[int] = set()
    while stack:
        node, depth = stack.pop()
        place = f" at line {getattr(node, 'lineno', 1)}"
        if depth > _MAX_NESTING:
            raise InvalidExpression(f"the script is nested deeper than {_MAX_NESTING} levels{place}")
        if not isinstance(node, _NODES) or isinstance(node, ast.MatMult):
            raise InvalidExpression(f"`{type(node).__name__}` is outside the Python that scripts know{place}")
        if isinstance(node, ast.Call):
            called.add(id(node.func))
        if isinstance(node, ast.Attribute) and (node.attr not in _ALL_METHODS or id(node) not in called):
            raise InvalidExpression(f"the attribute .{node.attr[:60]} is outside the Python that scripts know{place}")
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            if name.startswith("__"):
                raise InvalidExpression(f"the name {name[:60]} is outside the Python that scripts know{place}")
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float | None):
            raise InvalidExpression(f"{node.value!r:.60} is no value of JSON{place}")
        if isinstance(node, ast.comprehension) and node.is_async:
            raise InvalidExpression(f"`async` is outside the Python that scripts know{place}")
        if isinstance(node, ast.Lambda) and (node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.defaults):
            raise InvalidExpression(f"a lambda takes plain parameters only{place}")
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
