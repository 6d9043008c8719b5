"""Growth of values in loops: which values of a `while` get larger in each round, and which loops have an end in sight.

The variables of a loop are copied in each round, and end at 256 KB. A list to which the rounds only append is none of them (see
`loops`); any other value that grows in a loop whose number of rounds nobody knows is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any, Final, get_origin

from conductorlite.flows.reading.values import nodes_of

__all__ = ["growing", "is_bounded"]

_ADDING: Final = frozenset({"append", "extend", "insert", "setdefault", "update"})
_TAKING: Final = frozenset({"clear", "pop", "popitem", "remove"})
_UP: Final = (ast.Lt, ast.LtE, ast.NotEq)
_DOWN: Final = (ast.Gt, ast.GtE, ast.NotEq)


def growing(loop: ast.While, name: str, kind: Any) -> ast.AST | None:
    """Return where a name of a kind gets a larger value in a round; None if it need not grow from round to round."""
    kind = get_origin(kind) or kind
    found: ast.AST | None = None
    for one in nodes_of(loop):
        larger = _larger(one, name, kind)
        if larger is False:
            return None
        if larger and found is None:
            found = one
    return found


def _larger(node: ast.AST, name: str, kind: Any) -> bool | None:
    """Return True if a statement makes the value of a name larger; False if it makes it smaller, or another one."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)) if owner == name:
            return True if method in _ADDING else False if method in _TAKING else None
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add()) if target == name:
            return True if kind in (list, str) else None
        case ast.Assign(targets=targets, value=value) if any(_is_name(one, name) for one in targets):
            return _holds(value, name, kind)
        case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
            return _holds(value, name, kind)
        case ast.Subscript(value=ast.Name(id=owner), slice=key, ctx=ast.Store()) if owner == name and kind is dict:
            return None if isinstance(key, ast.Constant) else True
        case ast.Delete(targets=targets):
            gone = any(isinstance(one, ast.Subscript) and _is_name(one.value, name) for one in targets)
            return False if gone else None
        case ast.For(target=target) if any(_is_name(one, name) for one in nodes_of(target)):
            return False
    return None


def _holds(made: ast.expr, name: str, kind: Any) -> bool:
    """Return True if an expression gives the value of a name and more."""
    match made:
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return any(isinstance(one, ast.Starred) and _is_name(one.value, name) for one in elts)
        case ast.Dict(keys=keys, values=values):
            return any(key is None and _is_name(one, name) for key, one in zip(keys, values, strict=True))
        case ast.BinOp(left=left, op=ast.Add(), right=right) if kind in (list, str):
            return any(_is_name(one, name) or _holds(one, name, kind) for one in (left, right))
        case ast.JoinedStr(values=parts):
            return any(isinstance(one, ast.FormattedValue) and _is_name(one.value, name) for one in parts)
    return False


def is_bounded(loop: ast.While, assigned: Collection[str]) -> bool:
    """Return True if a loop counts its rounds, or the items of a list, up to a value that it does not change."""
    steps = _counters(loop)
    if any(_bounds(one, assigned, steps) for one in _parts(loop.test, ast.And)):
        return True
    ends = [one for one in loop.body if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Break | ast.Return | ast.Raise)]
    return any(_bounds(_negated(part), assigned, steps) for one in ends for part in _parts(one.test, ast.Or))


def _parts(test: ast.expr, join: type[ast.boolop]) -> Sequence[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, join) else [test]


def _counters(loop: ast.While) -> dict[str, int]:
    """The numbers that a loop only counts up or down, by constant steps: +1 or -1 each."""
    stores = [one.id for one in nodes_of(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    found: dict[str, int] = {}
    for one in nodes_of(loop):
        match one:
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=ast.Constant(value=int() | float() as step)):
                sign = 1 if isinstance(op, ast.Add) else -1 if isinstance(op, ast.Sub) else 0
                if step > 0 and sign and found.get(name, sign) == sign:
                    found[name] = sign
                    stores.remove(name)
    return {name: sign for name, sign in found.items() if name not in stores}


def _bounds(test: ast.expr, assigned: Collection[str], steps: dict[str, int]) -> bool:
    """Return True if a condition ends by counting."""
    match test:
        case ast.Name(id=name):
            return steps.get(name) == -1
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _counts(left, op, right, assigned, steps) or _counts(right, _turned(op), left, assigned, steps)
    return False


def _counts(counted: ast.expr, op: ast.cmpop, until: ast.expr, assigned: Collection[str], steps: dict[str, int]) -> bool:
    if any(isinstance(one, ast.Name) and one.id in assigned for one in nodes_of(until)):
        return False
    match counted:
        case ast.Name(id=name):
            return (steps.get(name) == 1 and isinstance(op, _UP)) or (steps.get(name) == -1 and isinstance(op, _DOWN))
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return isinstance(op, _UP)
    return False


_OPPOSITE: Final[dict[type[ast.cmpop], ast.cmpop]] = {
    ast.Lt: ast.GtE(), ast.LtE: ast.Gt(), ast.Gt: ast.LtE(), ast.GtE: ast.Lt(), ast.Eq: ast.NotEq(),
}  # fmt: skip
_TURNED: Final[dict[type[ast.cmpop], ast.cmpop]] = {ast.Lt: ast.Gt(), ast.LtE: ast.GtE(), ast.Gt: ast.Lt(), ast.GtE: ast.LtE()}


def _turned(op: ast.cmpop) -> ast.cmpop:
    """The comparison with its sides exchanged."""
    return _TURNED.get(type(op), op)


def _negated(test: ast.expr) -> ast.expr:
    """Return the opposite of a comparison, and of `not x`; any other condition bounds nothing."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _OPPOSITE:
            return ast.Compare(left=left, ops=[_OPPOSITE[type(op)]], comparators=comparators)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
    return ast.Constant(None)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
