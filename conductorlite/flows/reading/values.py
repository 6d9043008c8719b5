"""Stand-ins for a value while a flow is compiled: known now, or later, when the flow runs.

A later value is an expression tree whose leaves are constants and slots, which are `${...}` references of the running workflow. A
path below a slot is a reference too; anything else is computed by a step.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args, get_origin

import attrs

from conductorlite.flows.build import Reference
from conductorlite.flows.reading.sharing import SCALARS, known_shares, reference_shares, shares_of_tree
from conductorlite.flows.schemas import fields_of, is_whole
from conductorlite.model.errors import InvalidInput
from conductorlite.model.typed import bare, field_kinds, is_record, is_union, plain

__all__ = [
    "CaughtError",
    "Known",
    "Later",
    "Maybe",
    "Now",
    "Slot",
    "Value",
    "add_below",
    "described",
    "field_names",
    "kind_of",
    "later",
    "may_raise",
    "nodes_of",
    "path_of",
    "same",
    "shares_in",
    "shares_of",
    "template_of",
    "tree_of",
    "twin",
]


class Slot(ast.Name):
    """A leaf: what a reference has when the flow runs; `kind` is its annotation, `name` what to call it in an expression.

    `unannotated` names the task without a return annotation whose whole output it is: that may be the value, or hold it.
    """

    def __init__(self, reference: Reference, kind: Any = Any, name: str | None = None, unannotated: str | None = None) -> None:
        super().__init__(id=name or "value", ctx=ast.Load())
        self.reference, self.kind, self.name, self.unannotated = reference, kind, name, unannotated
        self.shares = frozenset() if kind in SCALARS else reference_shares(reference._path)
        self.lineno = self.end_lineno = 1
        self.col_offset = self.end_col_offset = 0

    @property
    def empties(self) -> bool:
        """True if it is the whole output of a task that may return None, which is then an empty map."""
        path, union = self.reference._path, is_union(self.kind)
        return union and path.endswith(".output") and type(None) in get_args(self.kind) and is_whole(self.kind)

    def __copy__(self) -> Slot:
        return self.having(self.shares, self.name)

    def having(self, shares: frozenset[str], name: str | None) -> Slot:
        """Return an equal leaf, with what is known of the value that a name has."""
        made = Slot(self.reference, self.kind, name, self.unannotated)
        made.shares = shares if self.kind not in SCALARS else frozenset()
        return made


class Known(ast.Name):
    """A leaf that is known now."""

    def __init__(self, value: object) -> None:
        super().__init__(id="known", ctx=ast.Load())
        self.value = value
        self.lineno = self.end_lineno = 1
        self.col_offset = self.end_col_offset = 0

    def __copy__(self) -> Known:
        return Known(self.value)


class CaughtError:
    """The kind of what `except … as error` names."""


@attrs.frozen(slots=True, eq=False)
class Now:
    """A value that is known when the flow is compiled."""

    value: Any


@attrs.frozen(slots=True, eq=False)
class Later:
    """A value that is known when the flow runs. `shares` are the lists and dicts that it may be or hold, see `sharing`."""

    tree: ast.expr
    shares: frozenset[str] = frozenset()

    @property
    def kind(self) -> Any:
        """Its annotation, Any where nothing is known of it."""
        return kind_of(self.tree)


@attrs.frozen(slots=True, eq=False)
class Maybe:
    """Mark of a name whose value cannot be read: `why` completes "the name …".

    `broken` is what it has where the loop around is left by a `break`, if it has a value at each.
    """

    why: str
    broken: Later | Now | None = None


Value: TypeAlias = Now | Later

_Node = TypeVar("_Node", bound=ast.AST)

#: What functions of Python give, whatever they are given.
_GIVES: Final[dict[str, Any]] = {"len": int, "list": list, "sorted": list, "str": str, "repr": str, "bool": bool}


def later(reference: Reference, kind: Any = Any, name: str | None = None, unannotated: str | None = None) -> Later:
    """Return the value that a reference will have."""
    return Later(Slot(reference, kind, name, unannotated), frozenset() if kind in SCALARS else reference_shares(reference._path))


#: Fields of nodes that hold no node, or one that says nothing of its own.
_NO_NODES: Final = frozenset({"arg", "attr", "conversion", "ctx", "id", "kind", "level", "module", "names", "type_comment"})
#: The other fields by the class of a node, the last one first.
_HOLDING: Final[dict[type[ast.AST], tuple[str, ...]]] = {}


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """A tree's nodes in the order of the text, the tree first."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        one = waiting.pop()
        found.append(one)
        add_below(one, waiting)
    return found


def add_below(node: ast.AST, waiting: list[ast.AST]) -> None:
    """Add the nodes right below one to a list, the last one first."""
    fields = _HOLDING.get(type(node))
    if fields is None:
        fields = _HOLDING[type(node)] = tuple(field for field in reversed(node._fields) if field not in _NO_NODES)
    for field in fields:
        value = getattr(node, field, None)
        if type(value) is list:
            waiting += [part for part in reversed(value) if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            waiting.append(value)


def replaced(tree: ast.expr, other: Callable[[ast.AST], ast.AST | None]) -> ast.expr:
    """A copy of a tree in which a node for which there is another one is that; None: it is copied."""

    def copied(one: Any) -> Any:
        if isinstance(one, list):
            return [copied(entry) for entry in one]
        if not isinstance(one, ast.AST):
            return one
        found = other(one)
        if found is not None:
            return found
        made = twin(one)
        for field in one._fields:
            value = getattr(one, field, None)
            if isinstance(value, list | ast.AST):
                setattr(made, field, copied(value))
        return made

    return copied(tree)  # type: ignore[no-any-return]


def twin(node: _Node) -> _Node:
    """Return a node with the same fields; those of lists are the same lists."""
    if isinstance(node, Slot | Known):
        return copy.copy(node)
    made = node.__class__.__new__(node.__class__)
    made.__dict__.update(node.__dict__)
    return made


def described(value: object) -> str:
    """A value in a message."""
    text = ast.unparse(value.tree) if isinstance(value, Later) else repr(value.value if isinstance(value, Now) else value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def kind_of(tree: ast.expr) -> Any:
    """Return what is known of the kind of an expression's value: an annotation, or Any."""
    match tree:
        case Slot():
            return tree.kind
        case ast.Constant() | Known():
            return type(tree.value)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="changed"), args=[whole, *_]), slice=ast.Constant(value=1)):
            kind = kind_of(whole)
            return get_origin(kind) or kind
        case ast.Attribute(value=inner, attr=key) | ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
            return _key_kind(kind_of(inner), key)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return bool
        case ast.JoinedStr():
            return str
        case ast.IfExp(body=body, orelse=orelse):
            one, other = kind_of(body), kind_of(orelse)
            if {one, other} <= {int, float, bool}:
                return one if one is other else float
            lists = all(kind is list or get_origin(kind) is list for kind in (one, other))
            return one if one == other else list if lists else Any
        case ast.BinOp(left=left, op=op, right=right):
            return _computed_kind({kind_of(left), kind_of(right)}, op)
        case ast.List() | ast.ListComp():
            return list
        case ast.Dict():  # that of a record is marked
            return getattr(tree, "record", dict)
        case ast.DictComp():
            return dict
        case ast.Call(func=ast.Name(id=name)):
            return _GIVES.get(name, Any)
    return Any


def _computed_kind(kinds: set[Any], op: ast.operator) -> Any:
    """The kind of a result of arithmetic; float stands for any number."""
    if kinds <= {int, bool} and isinstance(op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod):
        return int
    if kinds and all(kind is list or get_origin(kind) is list for kind in kinds) and isinstance(op, ast.Add):
        return list
    if kinds <= {int, bool, float} or isinstance(op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow):
        return float
    return float if isinstance(op, ast.Add) and kinds & {int, bool, float} else Any


#: The annotations of a record's fields: what a flow reads of one record, it reads more than once.
_kinds_of_fields: Final = lru_cache(maxsize=128)(field_kinds)


def _key_kind(kind: Any, key: str | int) -> Any:
    kind = bare(kind)
    if is_union(kind):
        arms = [arm for arm in get_args(kind) if arm is not type(None)]
        kind = arms[0] if len(arms) == 1 else Any
    if is_record(kind) and isinstance(key, str):
        return bare(_kinds_of_fields(kind).get(key, Any))
    arguments = get_args(kind)
    if get_origin(kind) is list and isinstance(key, int) and arguments:
        return arguments[0]
    if get_origin(kind) in (dict, Mapping) and isinstance(key, str) and len(arguments) == 2:
        return arguments[1]
    return Any


def field_names(kind: Any) -> list[str] | None:
    """The fields of a record; None for what is none."""
    return fields_of(kind) if is_record(kind) else None


def path_of(tree: ast.expr) -> Reference | None:
    """The reference that a tree is: a slot, or an attribute or a constant key below one; None for anything else.

    An index is none: beyond the end of a list it has to raise. Nor is a key marked as one that `raises` where it is missing.
    """
    match tree:
        case Slot():
            return tree.reference
        case ast.Attribute(value=inner, attr=str(key)) | ast.Subscript(value=inner, slice=ast.Constant(value=str(key))):
            above = None if getattr(tree, "raises", False) else path_of(inner)
        case _:
            return None
    if above is None or not above._whole or (isinstance(key, str) and ("'" in key or "\\" in key or not key)):
        return None
    return above[key]


def may_raise(tree: ast.expr) -> bool:
    """Return True if a reference is a key that may be missing, which raises in an expression."""
    while isinstance(tree, ast.Attribute | ast.Subscript):
        if isinstance(tree, ast.Subscript) and field_names(kind_of(tree.value)) is None:
            return True
        tree = tree.value
    return False


def template_of(tree: ast.expr) -> Any:
    """The value as JSON with references in it, where that says all; raises LookupError where a step has to compute it."""
    found = path_of(tree)
    if found is not None and not (isinstance(tree, Slot) and tree.empties):
        return found
    match tree:
        case ast.Constant(value=str() | int() | float() | bool() | None):
            return tree.value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [template_of(one) for one in elements]
        case ast.Dict(keys=keys, values=values):
            if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
                raise LookupError
            return {key.value: template_of(one) for key, one in zip(keys, values, strict=True)}  # type: ignore[union-attr]
        case ast.JoinedStr(values=[ast.FormattedValue(value=only)]) if kind_of(only) is not str:
            raise LookupError  # a reference by itself is the value, and no text
        case ast.JoinedStr(values=parts):
            return "".join(_text_of(one) for one in parts)
    raise LookupError


def _text_of(part: ast.expr) -> str:
    """A part of an f-string that Conductor's `${...}` writes as Python does: a text or a whole number."""
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part.value
    if isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None:
        found = path_of(part.value)
        if found is not None and kind_of(part.value) in (str, int):
            return str(found)
    raise LookupError


def tree_of(value: Value, at: ast.AST) -> ast.expr:
    """A value as an expression; raises InvalidInput for one that is known now and is not JSON."""
    if isinstance(value, Later):
        return value.tree
    made = plain(value.value)
    try:
        json.dumps(made, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from None
    node: Any = _constant(made, at)
    node.shares = known_shares(value.value)
    if is_record(type(value.value)) and isinstance(node, ast.Dict):
        node.record = type(value.value)  # type: ignore[attr-defined]
    return cast(ast.expr, node)


def _constant(value: Any, at: ast.AST) -> ast.expr:
    node: ast.expr
    if isinstance(value, list):
        node = ast.List(elts=[_constant(one, at) for one in value], ctx=ast.Load())
    elif isinstance(value, tuple):
        node = ast.Tuple(elts=[_constant(one, at) for one in value], ctx=ast.Load())
    elif isinstance(value, Mapping):
        node = ast.Dict(keys=[_constant(key, at) for key in value], values=[_constant(one, at) for one in value.values()])
    else:
        node = ast.Constant(value=value)
    return ast.copy_location(node, at)


def same(one: object, other: object) -> bool:
    """Return True if two values of a name are the same one."""
    if one is other:
        return True
    if isinstance(one, Now) and isinstance(other, Now):
        mine, there = one.value, other.value
        return mine is there or (isinstance(mine, SCALARS) and type(mine) is type(there) and mine == there)
    if isinstance(one, Later) and isinstance(other, Later):
        found = path_of(one.tree)
        return found is not None and str(found) == str(path_of(other.tree))
    return False


def shares_of(value: Value | Maybe | None) -> frozenset[str]:
    """Return what a value may be and hold, see `sharing`."""
    if isinstance(value, Now):
        return known_shares(value.value)
    return value.shares if isinstance(value, Later) else frozenset()


def shares_in(tree: ast.expr) -> frozenset[str]:
    """Return what the value of an expression may be and hold."""
    return shares_of_tree(tree, kind_of)
