"""Lists and dicts that a value may be, and those it may hold: what changes when another name's value is changed.

`=p` among the shares of a value says that it may be the list or dict `p`, `~p` that it may hold it, at any depth. `p` is the path
of a reference, or a number for one that is known when the flow is compiled; `p*` are all that `p` itself holds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    pass

__all__ = ["SCALARS", "conflicting", "copied", "known_shares", "part_of", "reference_shares", "shares_of_tree", "wrapped"]

Shares = frozenset[str]

#: Kinds of values that nothing can change.
SCALARS: Final = (str, int, float, bool, type(None))
_DEEPEST: Final = 20


def reference_shares(path: str) -> Shares:
    """Return what a reference may be and hold."""
    return frozenset((f"={path}", f"~{path}*"))


def known_shares(value: object, depth: int = 0) -> Shares:
    """Return what a value that is known now is and holds."""
    if not isinstance(value, list | dict | tuple | set) or depth > _DEEPEST:
        return frozenset()
    inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    held = wrapped(frozenset().union(*(known_shares(one, depth + 1) for one in inner)))
    return held | {f"={id(value)}"}


def wrapped(shares: Shares) -> Shares:
    """Return what a new list or dict holds that has such a value in it."""
    return frozenset(f"~{one[1:]}" for one in shares)


def copied(shares: Shares) -> Shares:
    """Return what a new list or dict holds that has the parts of such a value."""
    return frozenset(one for one in shares if one[0] == "~")


def part_of(shares: Shares) -> Shares:
    """Return what a part of such a value may be and hold."""
    held = copied(shares)
    return held | {f"={one[1:]}" for one in held}


def conflicting(changed: Shares, other: Shares) -> bool:
    """Return True if a value may be or hold what another one is that is changed."""
    return any(one[0] == "=" and (one in other or f"~{one[1:]}" in other) for one in changed)


def shares_of_tree(tree: ast.AST, kind_of: Callable[[ast.expr], Any]) -> Shares:
    """Return what the value of an expression may be and hold; `kind_of` says the kind of one, where that is known."""

    def of(node: ast.AST) -> Shares:
        kept: Shares | None = getattr(node, "shares", None)
        if kept is not None:
            return kept
        if isinstance(node, ast.expr) and kind_of(node) in SCALARS:
            return frozenset()
        made = _of_new(node, of)
        if made is not None:
            return made
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                return part_of(of(inner))
            case ast.IfExp(body=body, orelse=orelse):
                return of(body) | of(orelse)
            case ast.BoolOp(values=values):
                return frozenset().union(*map(of, values))
        inside: Shares = frozenset().union(*map(of, ast.iter_child_nodes(node)))
        return inside | part_of(inside) | wrapped(inside)

    return of(tree)


def _of_new(node: ast.AST, of: Callable[[ast.AST], Shares]) -> Shares | None:
    """Return what a list or dict holds that an expression makes; None for any other expression."""
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return frozenset().union(*(copied(of(one.value)) if isinstance(one, ast.Starred) else wrapped(of(one)) for one in elts))
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return frozenset().union(*(copied(of(one)) if key is None else wrapped(of(one)) for key, one in pairs))
        case ast.BinOp(left=left, right=right):
            return copied(of(left)) | copied(of(right))
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "dict" | "reversed"), args=args):
            return frozenset().union(*(copied(of(one)) for one in args))
        case ast.Call(func=ast.Name(id="sum" | "max" | "min"), args=[items], keywords=words):
            return part_of(of(items)).union(*(of(one.value) for one in words))
        case ast.Call(func=ast.Name(id="abs" | "all" | "any" | "float" | "int" | "round")):
            return frozenset()
        case ast.Call(func=ast.Attribute(value=inner, attr="copy")) | ast.Subscript(value=inner, slice=ast.Slice()):
            return copied(of(inner))
        case ast.Subscript(value=ast.Call(func=ast.Name(id="changed"), args=[whole, _, *given]), slice=ast.Constant(value=1)):
            return copied(of(whole)).union(*(wrapped(of(one)) | copied(of(one)) for one in given))
        case ast.Compare() | ast.UnaryOp() | ast.JoinedStr() | ast.Constant():
            return frozenset()
    return None
