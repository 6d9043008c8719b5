"""Changes that a flow makes to lists and dicts: the name has a new one then.

`x.append(v)`, `x[k] = v`, `x += v`, `x.pop()` and the like give the name `x` another value. That is what Python does where nothing
else has the same list or dict; a second name that has it, or another value that holds it, is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, cast, get_args, get_origin

from conductorlite.flows.build import Reference
from conductorlite.flows.reading.expressions import EXIT, RESULT, Expressions
from conductorlite.flows.reading.names import MUTATING
from conductorlite.flows.reading.sharing import SCALARS, conflicting, copied, part_of, reference_shares, wrapped
from conductorlite.flows.reading.values import Later, Maybe, Now, Value, field_names, kind_of, path_of, shares_in, shares_of

__all__ = ["Changes", "around_changed"]

#: A method that changes, and its arguments.
_Way = tuple[str, list[ast.expr]]
_NUMBERS: Final = (int, float, bool)


class Changes:
    """Compiles what changes values in one function; `hints` are the annotations of its names."""

    def __init__(self, of: Expressions, hints: dict[str, Any], around: Callable[[], Sequence[ast.stmt]]) -> None:
        self._of = of
        self._steps = of.steps
        self._hints = hints
        self._around = around
        #: What was changed so far: the name, what its value may have been, and where.
        self.done: list[tuple[str, frozenset[str], ast.AST]] = []
        #: Shares of the lists to which loops only append, by name: in a round the name has what the round has appended.
        self.collected: dict[str, frozenset[str]] = {}
        #: What is returned, and may still change in the `finally` that is compiled.
        self.returned: list[frozenset[str]] = []

    # ------------------------------------------------------------------ statements

    def called(self, node: ast.expr) -> Value | None:
        """Return what a call of a method that changes the value of a name gives; None for any other expression."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=method)) if method in MUTATING:
                before = self._of.scope.get(name.id) if name.id in self._of.local else None
            case _:
                return None
        if before is None or isinstance(before, Maybe):
            return None
        kind = self.kind_of(name.id, before)
        kinds = {list: _OF_LISTS, dict: _OF_DICTS}.get(kind, _OF_LISTS | _OF_DICTS)
        if method not in kinds or field_names(kind) is not None:
            return None
        if any(isinstance(one, ast.Starred) for one in node.args) or any(
            word.arg not in ("key", "reverse") for word in node.keywords
        ):
            raise self._steps.refuse(node, f"`{ast.unparse(node)}`: write out each argument, without names")
        if method in ("append", "extend") and kind is list and len(node.args) == 1 and not node.keywords:
            self._append(node, name, method)
            return Now(None)
        if method == "sort":
            self._sort(node, name)
            return Now(None)
        return self._changed(name, node, (method, node.args))

    def _append(self, node: ast.Call, name: ast.Name, method: str) -> None:
        """A longer list."""
        self.unshared(name.id, shares_of(self._of.load(name)), node)
        more: ast.expr = node.args[0]
        if method == "append":
            more = ast.List(elts=[more], ctx=ast.Load())
        else:
            more = ast.Call(func=ast.Name(id="list", ctx=ast.Load()), args=[more], keywords=[])
        self._set(name, ast.BinOp(left=_read(name), op=ast.Add(), right=more), node)

    def _sort(self, node: ast.Call, name: ast.Name) -> None:
        self.unshared(name.id, shares_of(self._of.load(name)), node)
        self._set(name, ast.Call(func=ast.Name(id="sorted", ctx=ast.Load()), args=[_read(name)], keywords=node.keywords), node)

    def augmented(self, node: ast.AugAssign) -> None:
        """`x += v`, `x[k] += v`."""
        if isinstance(node.target, ast.Subscript):
            key = self._held(node.target.slice)
            read = ast.Subscript(value=node.target.value, slice=key, ctx=ast.Load())
            left: ast.expr = ast.copy_location(read, node)
            if self._of.has_step(node.value):  # a missing key raises before
                left = self._of.leaf(self._steps.computed(self._of.value(left), "value", node), node)
            made = ast.BinOp(left=left, op=node.op, right=node.value)
            item = self._of.kept(self._of.value(ast.copy_location(made, node)), "value", node.value)
            target = ast.Subscript(value=node.target.value, slice=key, ctx=ast.Store())
            self.item_set(ast.copy_location(target, node.target), item)
            return
        if not isinstance(node.target, ast.Name):
            raise self._steps.refuse(node.target, "a field cannot be assigned: have a task return a record that has the new value")
        name = node.target
        before = self._of.load(_read(name))
        value = None if self._of.has_step(node.value) else self._of.closed(node.value)
        kind = Any if value is None else kind_of(self._of.leaf(value, node))
        mine = self.kind_of(name.id, before)
        if kind not in _NUMBERS:
            self.unshared(name.id, shares_of(before), node)
        right = node.value
        if isinstance(node.op, ast.Add) and kind not in _NUMBERS and not _is_list(kind):
            if mine is list:
                right = ast.Call(func=ast.Name(id="list", ctx=ast.Load()), args=[right], keywords=[])
            elif mine not in (*_NUMBERS, str):
                self._changed(name, node, ("+=", [right]))
                return
        self._set(name, ast.BinOp(left=_read(name), op=node.op, right=right), node)

    def item_set(self, target: ast.Subscript, value: Value) -> None:
        """`x[k] = v`, at any depth."""
        keys: list[ast.expr] = []
        base: ast.expr = target
        while isinstance(base, ast.Subscript):
            if isinstance(base.slice, ast.Slice):
                raise self._steps.refuse(base.slice, "a slice cannot be assigned: make a new list, `[*x[:2], *more]`")
            keys.insert(0, base.slice)
            base = base.value
        if isinstance(base, ast.Name) and base.id not in self._of.local:
            raise self._steps.refuse(target, around_changed(base.id))
        if not isinstance(base, ast.Name):
            raise self._steps.refuse(target, "a part of a value can be assigned where a name has the value: give it a name before")
        shares = shares_of(self._of.load(_read(base)))
        for _ in keys[1:]:
            shares = part_of(shares)
        self.unshared(base.id, shares, target)
        held = [self._of.leaf(self._of.value(key), key) for key in keys]
        wholes: list[ast.expr] = [self._of.leaf(self._of.load(_read(base)), base)]
        for key in held[:-1]:
            wholes.append(ast.copy_location(ast.Subscript(value=wholes[-1], slice=key, ctx=ast.Load()), target))
        made: ast.expr = self._of.leaf(value, target)
        for whole, key in zip(reversed(wholes), reversed(held), strict=True):
            made = _call("changed", [whole, ast.Constant("[]="), key, made], target)
            made = ast.copy_location(ast.Subscript(value=made, slice=ast.Constant(1), ctx=ast.Load()), target)
        tree = self._of.closed_tree(made)
        self._of.bind(ast.copy_location(ast.Name(id=base.id, ctx=ast.Store()), base), Later(tree, shares_in(tree)))

    def item_deleted(self, target: ast.Subscript) -> None:
        """`del x[k]`."""
        if not isinstance(target.value, ast.Name) or target.value.id not in self._of.local or isinstance(target.slice, ast.Slice):
            raise self._steps.refuse(target, "an entry can be deleted where a name has the list or dict: give it a name before")
        self._changed(target.value, target, ("del", [target.slice]))

    # ------------------------------------------------------------------ new values

    def _changed(self, name: ast.Name, node: ast.expr | ast.stmt, way: _Way) -> Value:
        """A new value by the method that changes a copy; gives what the method gives."""
        before = self._of.load(_read(name))
        self.unshared(name.id, shares_of(before), node)
        given = [self._of.leaf(self._of.kept(self._of.value(one), f"{name.id}_item", one), one) for one in way[1]]
        whole = self._of.leaf(self._of.load(_read(name)), name)
        tree = self._of.closed_tree(_call("changed", [whole, ast.Constant(way[0]), *given], node))
        step = self._steps.computed(Later(tree, shares_in(tree)), name.id, node)
        result, made = self._of.parts(step, 2)
        path = cast(Reference, path_of(made.tree))
        kind = before.kind if isinstance(before, Later) else type(before.value)
        held = [shares_in(one) for one in given]
        shares = (reference_shares(path._path) | copied(shares_of(before))).union(*(wrapped(one) | copied(one) for one in held))
        self._of.bind(
            ast.copy_location(ast.Name(id=name.id, ctx=ast.Store()), name), self._of.of_kind(Later(made.tree, shares), kind)
        )
        taken = self._entry_kind(name.id, before) if way[0] == "pop" and len(given) < 2 else Any
        return self._of.of_kind(result, taken) if taken in SCALARS else result

    def _entry_kind(self, name: str, value: Value) -> Any:
        """The kind of the entries of a list or dict by its annotation, else Any."""
        for kind in (self._hints.get(name, Any), value.kind if isinstance(value, Later) else Any):
            if get_origin(kind) in (list, dict):
                return get_args(kind)[-1]
        return Any

    def _set(self, name: ast.Name, made: ast.expr, at: ast.AST) -> None:
        ast.fix_missing_locations(ast.copy_location(made, at))
        self._steps.build.target = name.id
        value = self._of.kept(self._of.value(made), name.id, made)
        self._of.bind(ast.copy_location(ast.Name(id=name.id, ctx=ast.Store()), name), value)

    def _held(self, node: ast.expr) -> ast.expr:
        """A part of an expression that is computed once."""
        return self._of.leaf(self._of.kept(self._of.value(node), "key", node), node)

    def kind_of(self, name: str, value: Value) -> Any:
        """`list` or `dict` where that is known, else the kind as it is."""
        kind = type(value.value) if isinstance(value, Now) else value.kind
        kind = self._hints.get(name, Any) if kind is Any else kind
        return getattr(kind, "__origin__", None) or kind

    # ------------------------------------------------------------------ who else has it

    def unshared(self, name: str, changed: frozenset[str], at: ast.AST) -> None:
        """Refuse to change a list or a dict that another name has too."""
        changed |= self.collected.get(name, frozenset())
        self.done.append((name, changed, at))
        if not changed:
            return
        for loop in self._around():
            if isinstance(loop, ast.For) and name in _gone_over(loop.iter):
                raise self._steps.refuse(at, f"{name!r} would change while the loop goes over it; loop over a copy: `list({name})`")
        if any(conflicting(changed, returned) for returned in self.returned):
            raise self._steps.refuse(
                at, f"{name!r} may be what is returned, which would change with it; return a copy: `list({name})`"
            )
        for other, held in self._of.scope.items():
            # What has been returned is not reached any more where something else is.
            if other not in (name, EXIT, RESULT) and not isinstance(held, Maybe) and conflicting(changed, shares_of(held)):
                raise self._steps.refuse(
                    at,
                    f"{name!r} may be a list or dict that {other!r} has too, which would change with it; copy it: `list({name})`",
                )

    def recheck(self, name: str, first: Later, since: int) -> None:
        """Refuse what a loop has changed of a name if, after a round, another name has it too."""
        now = shares_of(self._of.scope.get(name))
        for one, changed, at in self.done[since:]:
            if one == name and first.shares & changed:
                self.unshared(name, now, at)


_OF_LISTS: Final = frozenset({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})
_OF_DICTS: Final = frozenset({"clear", "pop", "popitem", "setdefault", "update"})


def around_changed(name: str) -> str:
    """Return the problem with a change of what stands around a flow."""
    return f"{name!r} stands around the flow, which cannot change it: change it in a @task, or give the flow a value of its own"


def _read(name: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(id=name.id, ctx=ast.Load()), name)


def _call(function: str, given: list[ast.expr], at: ast.AST) -> ast.expr:
    made = ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=given, keywords=[])
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _is_list(kind: Any) -> bool:
    return kind is list or getattr(kind, "__origin__", None) is list


def _gone_over(node: ast.expr) -> frozenset[str]:
    """The names of values that a loop reads while it goes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed"):
        return frozenset().union(*map(_gone_over, node.args))
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else getattr(node, "value", node)
        if isinstance(node, ast.Call):
            return frozenset()
    return frozenset((node.id,)) if isinstance(node, ast.Name) else frozenset()
