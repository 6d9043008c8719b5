"""Expressions of a flow: what is known now is computed, what is known later becomes one expression, and calls become steps.

The order is Python's, left to right. Where a call that is a step follows another part of the same expression, that part is
computed in a step of its own before it. What may not be reached, behind `and`, `or` and in a conditional expression, stands in a
case of a SWITCH where it has steps.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, cast, get_origin

import attrs

from conductorlite.flows.build import Block, Reference
from conductorlite.flows.flow import Flow, now
from conductorlite.flows.reading.names import (
    BUILTINS,
    Surroundings,
    is_clock,
    is_constructor,
    is_environment,
    is_pure,
    typed_argument,
)
from conductorlite.flows.reading.sharing import SCALARS, part_of
from conductorlite.flows.reading.steps import Steps
from conductorlite.flows.reading.values import (
    CaughtError,
    Known,
    Later,
    Maybe,
    Now,
    Slot,
    Value,
    field_names,
    kind_of,
    later,
    may_raise,
    nodes_of,
    path_of,
    replaced,
    shares_in,
    shares_of,
    tree_of,
    twin,
)
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvalidInput
from conductorlite.model.texts import did_you_mean

__all__ = ["EXIT", "RESULT", "Caller", "Expressions", "Tracked"]

#: Under these a scope keeps how the function is left and with what; no variable has such a name.
EXIT: Final = "break"
RESULT: Final = "return"

#: Parts of an expression that have no value of their own.
_PARTS: Final = (ast.keyword, ast.Starred, ast.FormattedValue, ast.Slice)
#: What is known, and part of an expression only: it is gone through there.
_NOT_JSON: Final[tuple[type, ...]] = (
    range,
    set,
    frozenset,
    enumerate,
    zip,
    reversed,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

#: What to write instead of functions of Python that compute.
_INSTEAD: Final = {
    "map": "write a list: `[task(x) for x in values]`",
    "filter": "write a list: `[x for x in values if ...]`",
    "isinstance": "have the task say what it returns, or ask it in a @task",
    "divmod": "write `//` and `%`",
    "pow": "write `**`",
    "type": "ask it in a @task",
    "next": "write `values[0]`, or a `for` with `break`",
    "iter": "go through the values in a `for`",
    **dict.fromkeys(("ord", "chr", "hash", "hasattr", "getattr", "callable", "id"), "call it in a @task"),
}

_REFUSED: Final[dict[type[ast.AST], str]] = {
    ast.NamedExpr: "`:=` is not part of a flow; assign the name in a statement before",
    ast.Yield: "a flow does not yield; return the values, or start a flow for each",
    ast.YieldFrom: "a flow does not yield; return the values, or start a flow for each",
}


@attrs.define(slots=True, eq=False)
class Tracked:
    """A name of which each value is kept in a variable of the workflow, under `key`: what it has is read where a step fails."""

    key: str
    kinds: set[Any] = attrs.field(factory=set)
    shares: frozenset[str] = frozenset()


class Caller(Protocol):
    """Compiler of calls, see `calls.Calls`."""

    #: The forms whose calls are steps.
    forms: tuple[Any, ...]

    def step(self, call: ast.Call) -> Value:
        """Add the step that a call is."""

    def comprehension(self, made: Any) -> Value:
        """Add the fork that a list of calls is."""

    def computed_now(self, call: ast.Call) -> Now:
        """Return what `now(...)` gives."""

    def fixed(self, items: Value) -> list[Value] | None:
        """The items of what is known now or written out; None for any other."""

    def is_undecorated(self, found: object) -> bool:
        """Return True if a function would run while the flow is compiled."""

    def instead_of(self, found: object) -> str:
        """Return what to do about such a call."""


class Expressions:
    """Compiles the expressions of one function, in the scope as it is at that place."""

    def __init__(self, steps: Steps, around: Surroundings, local: frozenset[str]) -> None:
        self.steps = steps
        self.around = around
        #: The names that the function assigns anywhere.
        self.local = local
        #: What each name has now.
        self.scope: dict[str, Value | Maybe] = {}
        #: What was read of names, by identity: a loop keeps a name that is read in a round before it is assigned there.
        self.read: set[int] = set()
        #: Names that a `try` keeps.
        self.tracked: dict[str, Tracked] = {}
        #: Whether a handler for KeyError is around: a key by itself raises where it is missing, and is no reference.
        self.keys_raise = False
        #: Whether a handler that names its exception has been compiled.
        self.handles = False
        self._calls: dict[int, tuple[ast.AST, list[ast.AST]]] = {}
        #: Whether the function reads what is of the process; None: not known yet.
        self._reads_environment: bool | None = None
        self.calls: Caller

    # ------------------------------------------------------------------ names

    def load(self, node: ast.Name) -> Value:
        """Return what a name has; raises BuildError for one that may have nothing."""
        name = node.id
        if name in self.local:
            found = self.scope.get(name)
            if found is None:
                raise self.steps.refuse(node, f"the name {name!r} is read before it is assigned")
            if isinstance(found, Maybe):
                raise self.steps.refuse(node, f"the name {name!r} {found.why}")
            self.read.add(id(found))
            if isinstance(found, Later) and found.kind is CaughtError:
                raise self.steps.refuse(
                    node, f"{name!r} is an exception, which is no JSON: write `str({name})`, `type({name}).__name__`, or `raise`"
                )
            return found
        try:
            return Now(self.around.find(name))
        except LookupError:
            known = [*self.scope, *BUILTINS]
            raise self.steps.refuse(node, f"the name {name!r} is not defined{did_you_mean(name, known)}") from None

    def callee(self, node: ast.expr) -> object:
        """Return what is called, where names alone say it; raises LookupError."""
        if isinstance(node, ast.Name) and node.id in self.local:
            found = self.scope.get(node.id)
            if isinstance(found, Now):
                return found.value
            raise LookupError(node.id)
        if isinstance(node, ast.Call):  # task.options(...)
            made = self.callee(node.func)
            owner = getattr(made, "__self__", None)
            if isinstance(owner, TaskFunction | Flow) and getattr(made, "__name__", "") == "options":
                return owner
            raise LookupError(ast.unparse(node))
        if isinstance(node, ast.Attribute):
            try:
                above = self.callee(node.value)
            except LookupError:
                above = self.around.static(node.value, self.local.__contains__)
            if isinstance(above, TaskFunction | Flow) and node.attr == "options":
                return above.options
        return self.around.static(node, self.local.__contains__)

    def is_step(self, node: ast.AST) -> bool:
        """Return True if a node is a call that becomes a step."""
        if not isinstance(node, ast.Call):
            return False
        try:
            found = self.callee(node.func)
        except LookupError:
            return False
        if found is now:
            return not (node.args or node.keywords)
        return isinstance(found, TaskFunction | Flow) or any(found is one for one in self.calls.forms)

    def has_step(self, node: ast.AST) -> bool:
        """Return True if there is such a call in a node."""
        known = self._calls.get(id(node))
        if known is None:  # the node is kept, so that no other one gets its id
            known = self._calls[id(node)] = node, [one for one in nodes_of(node) if type(one) is ast.Call]
        return any(map(self.is_step, known[1]))

    # ------------------------------------------------------------------ values

    def value(self, node: ast.expr) -> Value:
        """Compile an expression: the steps in it are added, what is left is a value."""
        if self.handles:
            node = replaced(node, self._of_caught)
        inner = self._typed(node)
        if inner is not None:
            return self.value(inner)
        if isinstance(node, ast.Call) and self._is_now_form(node):
            return self.calls.computed_now(node)
        if self.has_step(node):
            return self._with_steps(node)
        return self.closed(node)

    def _of_caught(self, node: ast.AST) -> ast.AST | None:
        """Return what is read of an exception that is handled: its text, and the name of its class."""
        match node:
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name() as name], keywords=[]):
                made = self._caught(name, "text")
            case ast.FormattedValue(value=ast.Name() as name, conversion=-1 | 115, format_spec=None):
                text = self._caught(name, "text")
                made = None if text is None else ast.FormattedValue(value=text, conversion=-1)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="type"), args=[ast.Name() as name]), attr="__name__"):
                kind = self._caught(name, "classes[0]")
                made = None
                if kind is not None:
                    cut = ast.Attribute(value=kind, attr="rpartition", ctx=ast.Load())
                    parts = ast.Call(func=cut, args=[ast.Constant(".")], keywords=[])
                    made = ast.Subscript(value=parts, slice=ast.Constant(2), ctx=ast.Load())
            case _:
                made = None
        return None if made is None else ast.fix_missing_locations(ast.copy_location(made, node))

    def _caught(self, name: ast.Name, member: str) -> ast.expr | None:
        found = self.scope.get(name.id)
        if not isinstance(found, Later) or not isinstance(found.tree, Slot) or found.kind is not CaughtError:
            return None
        error = found.tree.reference
        return ast.copy_location(Slot(Reference(f"{error._path}.{member}", error._step), str, name.id), name)

    def _typed(self, node: ast.expr) -> ast.expr | None:
        """Return what stands in `await`, or in a call for type checkers."""
        if isinstance(node, ast.Await):
            return node.value
        if not isinstance(node, ast.Call):
            return None
        try:
            return typed_argument(self.callee(node.func), node)
        except LookupError:
            return None

    def closed(self, node: ast.expr) -> Value:
        """Compile an expression without steps."""
        if isinstance(node, Known):
            return Now(node.value)
        self._refuse_environment(node)
        if isinstance(node, ast.Name) and not isinstance(node, Slot):
            return self.load(node)
        if self._is_known(node, frozenset()):
            found = self._computed_now(node)
            if found is not None:
                return found
        tree = _Closing(self, frozenset()).visit(node)
        return Later(tree, shares_in(tree))

    def _refuse_environment(self, node: ast.expr) -> None:
        if self._reads_environment is None:
            self._reads_environment = any(map(self._is_environment, self.steps.source.nodes))
        if not self._reads_environment:
            return
        for one in nodes_of(node):
            if self._is_environment(one):
                raise self.steps.refuse(
                    one,
                    f"`{ast.unparse(one)}` is that of the process that compiles the flow; read it in a @task, give it as an "
                    f"argument, or write now(...) around it where that is meant",
                )

    def _is_environment(self, one: ast.AST) -> bool:
        if isinstance(one, ast.Attribute) or (type(one) is ast.Name and one.id not in self.local and one.id not in BUILTINS):
            try:
                return is_environment(self.around.static(one, self.local.__contains__))
            except LookupError:
                return False
        return False

    def _is_known(self, node: ast.AST, inner: frozenset[str]) -> bool:
        """Return True if all in an expression is known now, and computing it has no effect."""
        if isinstance(node, Slot):
            return False
        if isinstance(node, Known):
            return True
        if isinstance(node, ast.Name):
            return node.id in inner or isinstance(self.load(node), Now)
        if isinstance(node, ast.Lambda):
            inner |= {one.arg for one in node.args.args}
        if isinstance(node, _COMPREHENSIONS):
            inner |= _targets(node)
        if isinstance(node, ast.Call):
            return self._is_known_call(node, inner)
        if isinstance(node, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await):
            return False
        return all(self._is_known(one, inner) for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr_context))

    def _is_known_call(self, node: ast.Call, inner: frozenset[str]) -> bool:
        for one in (*node.args, *node.keywords):
            if not self._is_known(one, inner):
                return False
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id in inner:
            return True
        if not self._is_known(node.func, inner):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in inner:
            return False
        try:
            found = self.evaluated(node.func)
        except Exception:  # the call is refused, or fails when the flow runs, with its own words
            return False
        return is_pure(found)

    def _computed_now(self, node: ast.expr) -> Now | None:
        """Return what an expression gives now; None where it fails, which it has to do when the flow runs."""
        try:
            return Now(self.evaluated(node))
        except Exception:  # any that the flow's own expression raises
            return None

    def evaluated(self, node: ast.expr) -> object:
        """Return what an expression gives when it is computed now; raises what it raises."""
        if type(node) is ast.Constant:
            return node.value
        if type(node) is ast.Name and isinstance(found := self.load(node), Now):
            return found.value
        names: dict[str, Any] = {}
        held: list[Any] = []

        def now(one: ast.AST) -> ast.AST | None:
            if isinstance(one, Known):
                held.append(one.value)
                return ast.Name(id=f"_known_{len(held)}", ctx=ast.Load())
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                try:
                    found = self.load(one)
                except Exception:  # a name of a comprehension
                    return one
                if isinstance(found, Now):
                    names[one.id] = found.value
                return one
            return None

        expression = ast.fix_missing_locations(ast.Expression(replaced(node, now)))
        names |= {f"_known_{number}": value for number, value in enumerate(held, 1)}
        return eval(
            compile(expression, self.steps.source.file, "eval", dont_inherit=True), {"__builtins__": vars(builtins), **names}
        )

    # ------------------------------------------------------------------ steps in expressions

    def _with_steps(self, node: ast.expr) -> Value:
        problem = _REFUSED.get(type(node))
        if problem is not None:
            raise self.steps.refuse(node, problem)
        if isinstance(node, ast.Call) and self.is_step(node):
            return self.calls.step(node)
        if isinstance(node, ast.BoolOp):
            return self._short(node)
        if isinstance(node, ast.IfExp):
            return self._conditional(node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._chained(node)
        if isinstance(node, _COMPREHENSIONS):
            part = node.generators[0]
            inner = [
                *node.generators[1:],
                *part.ifs,
                *(getattr(node, key) for key in ("elt", "key", "value") if hasattr(node, key)),
            ]
            if any(map(self.has_step, inner)):
                return self.calls.comprehension(node)
            return self.closed(_replaced(node, {id(part.iter): self.leaf(self.value(part.iter), part.iter)}))
        if isinstance(node, ast.Lambda):
            raise self.steps.refuse(node, "a lambda has no steps: call the task in a statement")
        return self.closed(self._lifted(node))

    def _is_now_form(self, node: ast.Call) -> bool:
        try:
            return self.callee(node.func) is now and bool(node.args or node.keywords)
        except LookupError:
            return False

    def _lifted(self, node: ast.expr) -> ast.expr:
        """An expression with the values of its steps in their place."""
        parts = list(_parts_of(node))
        last = max(place for place, part in enumerate(parts) if self.has_step(part))
        made: dict[int, ast.expr] = {}
        for place, part in enumerate(parts):
            if isinstance(part, ast.Constant) or (place > last) or self._is_function(node, part):
                continue
            value = self.value(part)
            if isinstance(value, Later) and place < last and (path_of(value.tree) is None or may_raise(value.tree)):
                value = self.steps.computed(value, "value", part)
            made[id(part)] = self.leaf(value, part)
        return cast(ast.expr, _replaced(node, made))

    def _is_function(self, node: ast.expr, part: ast.expr) -> bool:
        return isinstance(node, ast.Call) and node.func is part and isinstance(part, ast.Name)

    @staticmethod
    def leaf(value: Value, at: ast.AST) -> ast.expr:
        """A value as a part of another expression."""
        if isinstance(value, Now):
            return ast.copy_location(Known(value.value), at)
        tree = value.tree
        return ast.copy_location(tree.having(value.shares, tree.name) if isinstance(tree, Slot) else copy.copy(tree), at)

    def branched(self, test: Later, at: ast.AST, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """One of two values with steps, each in its case of a SWITCH."""
        step = self.steps.switch(test.tree, "if", at)
        before = dict(self.scope)
        found: list[Value] = []
        for key, made in (("true", yes), (None, no)):
            block = Block(owner=step)
            with self.steps.build.within(block):
                found.append(made())
            self.steps.case(step, key, block)
            self.scope = dict(before)
        return self.either(self.steps.chosen(step, at), found[0], found[1], at)

    def either(self, chosen: ast.expr, one: Value, other: Value, at: ast.AST) -> Later:
        """The one value if the case "true" was chosen, else the other."""
        try:
            trees = [tree_of(value, at) for value in (one, other)]
        except InvalidInput as error:
            raise self.steps.refuse(at, f"one of two values is no JSON, so they cannot be chosen between later: {error}") from None
        test = ast.Compare(left=chosen, ops=[ast.Eq()], comparators=[ast.copy_location(ast.Constant("true"), at)])
        tree = ast.copy_location(ast.IfExp(test=ast.copy_location(test, at), body=trees[0], orelse=trees[1]), at)
        return Later(tree, shares_of(one) | shares_of(other))

    def _short(self, node: ast.BoolOp) -> Value:
        """`and`, `or`: what is not reached schedules nothing."""
        first, *rest = node.values
        value = self.value(first)
        if not rest:
            return value
        after = ast.copy_location(ast.BoolOp(op=node.op, values=rest), node) if len(rest) > 1 else rest[0]
        ends_if = isinstance(node.op, ast.Or)
        if isinstance(value, Now):
            return value if bool(value.value) is ends_if else self.value(after)
        if not self.has_step(after):
            return self.closed(ast.copy_location(ast.BoolOp(op=node.op, values=[self.leaf(value, first), *rest]), node))
        held = self.steps.reference(value, "value", first)
        cases: tuple[Callable[[], Value], Callable[[], Value]] = (lambda: held, lambda: self.value(after))
        return self.branched(held, node, *(cases if ends_if else reversed(cases)))

    def _conditional(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        if isinstance(test, Now):
            return self.value(node.body if test.value else node.orelse)
        if not self.has_step(node.body) and not self.has_step(node.orelse):
            return self.closed(ast.copy_location(ast.IfExp(self.leaf(test, node.test), node.body, node.orelse), node))
        return self.branched(test, node, lambda: self.value(node.body), lambda: self.value(node.orelse))

    def _chained(self, node: ast.Compare) -> Value:
        """`a() < b() < c()` is `a() < b() and b() < c()`, with `b` called once."""
        middle = self._held(node.left), self._held(node.comparators[0])
        first = ast.copy_location(ast.Compare(middle[0], node.ops[:1], [middle[1]]), node)
        rest = ast.copy_location(ast.Compare(middle[1], node.ops[1:], node.comparators[1:]), node)
        return self._short(ast.copy_location(ast.BoolOp(op=ast.And(), values=[first, rest]), node))

    def _held(self, node: ast.expr) -> ast.expr:
        value = self.value(node)
        if isinstance(value, Later):
            made = self.steps.computed if may_raise(value.tree) else self.steps.reference
            value = made(value, "value", node)
        return self.leaf(value, node)

    @contextmanager
    def bound(self, target: ast.expr, value: Value) -> Iterator[None]:
        """The names of a comprehension, which mean nothing outside."""
        before, local, tracked = dict(self.scope), self.local, self.tracked
        self.local = local | {one.id for one in nodes_of(target) if isinstance(one, ast.Name)}
        self.tracked = {}
        try:
            self.bind(target, value)
            self.tracked = tracked
            yield
        finally:
            self.local, self.tracked = local, tracked
            self.scope = before

    def bind(self, target: ast.expr, value: Value) -> None:
        """Give a name, or several, a value; raises BuildError for what is no name."""
        if isinstance(target, ast.Name):
            self.scope[target.id] = kept = self.kept(value, target.id, target)
            if target.id in self.tracked:
                self._track(self.tracked[target.id], target, kept)
            return
        if not isinstance(target, ast.Tuple | ast.List):
            raise self.steps.refuse(target, "assign to a name")
        for one, part in zip(target.elts, self.unpacked(target, value), strict=True):
            self.bind(one, part)

    def _track(self, one: Tracked, target: ast.Name, value: Value) -> None:
        """Keep what a name has got in its variable."""
        build = self.steps.build
        one.kinds.add(type(value.value) if isinstance(value, Now) else value.kind)
        one.shares |= shares_of(value)
        try:
            given = {one.key: build.written(self.steps.argument(value, target.id, target))}
        except InvalidInput as error:
            raise self.steps.refuse(target, f"{target.id!r} is read where the `try` has failed, and is no JSON: {error}") from None
        build.operator(TaskType.SET_VARIABLE, build.free(f"keep_{target.id}"), None, input_parameters=given)

    def unpacked(self, target: ast.Tuple | ast.List, value: Value) -> list[Value]:
        """The parts of a value for several names; a step checks how many there are where that is known later."""
        if any(isinstance(one, ast.Starred) for one in target.elts):
            raise self.steps.refuse(target, "a starred name is not part of a flow; cut the list: `rest = values[1:]`")
        size = len(target.elts)
        fixed = self.calls.fixed(value)
        if fixed is not None:
            if len(fixed) != size:
                raise self.steps.refuse(target, f"{size} names are assigned {len(fixed)} values")
            return fixed
        if isinstance(value, Now):
            raise self.steps.refuse(target, f"{value.value!r:.60} cannot be assigned to several names")
        func = ast.copy_location(ast.Name(id="unpack", ctx=ast.Load()), target)
        tree = ast.Call(func=func, args=[value.tree, ast.copy_location(ast.Constant(size), target)], keywords=[])
        names = "_".join(one.id for one in target.elts if isinstance(one, ast.Name))
        whole = self.steps.computed(Later(ast.copy_location(tree, target), value.shares), names or "values", target)
        return [*self.parts(whole, size)]

    def parts(self, whole: Later, size: int) -> list[Later]:
        """The first values of a list that is known to have them."""
        found = cast(Reference, path_of(whole.tree))
        made = [later(found[place]) for place in range(size)]
        return [Later(one.tree, one.shares | part_of(whole.shares)) for one in made]

    def closed_tree(self, tree: ast.expr) -> ast.expr:
        """A tree of values, with what is known now as constants."""

        def constant(one: ast.AST) -> ast.AST | None:
            if not isinstance(one, Known):
                return None
            try:
                return tree_of(Now(one.value), one)
            except InvalidInput as error:
                raise self.steps.refuse(one, f"what is known when the flow is compiled is no JSON here: {error}") from None

        return replaced(tree, constant)

    @staticmethod
    def of_kind(value: Later, kind: Any) -> Later:
        """A reference of which the kind is known."""
        found = cast(Reference, path_of(value.tree))
        return Later(Slot(found, kind), frozenset() if kind in SCALARS else value.shares)

    def kept(self, value: Value, name: str, at: ast.AST) -> Value:
        """A value as a name keeps it: computed once, where it is assigned."""
        if isinstance(value, Now) or self.is_template(value):
            if isinstance(value, Later) and path_of(value.tree) is not None:
                return self.steps.reference(value, name, at)
            return value
        return self.steps.computed(value, name, at)

    @staticmethod
    def is_template(value: Later) -> bool:
        """Return True if nothing in a value is computed: a reference, or a list or map written out with references in it."""

        def simple(tree: ast.expr | None) -> bool:
            if isinstance(tree, ast.List | ast.Tuple):
                return all(map(simple, tree.elts))
            if isinstance(tree, ast.Dict):
                return all(isinstance(key, ast.Constant) for key in tree.keys) and all(map(simple, tree.values))
            return isinstance(tree, ast.Constant) or (tree is not None and path_of(tree) is not None)

        return simple(value.tree)


class _Closing(ast.NodeTransformer):
    """Puts what names have in their place; refuses what an expression cannot have."""

    def __init__(self, expressions: Expressions, inner: frozenset[str]) -> None:
        self._expressions = expressions
        self._inner = inner
        self._refuse = expressions.steps.refuse

    def visit(self, node: ast.AST) -> Any:
        problem = _REFUSED.get(type(node))
        if problem is not None:
            raise self._refuse(node, problem)
        if isinstance(node, Slot):
            return node
        if isinstance(node, Known):
            return self._known(Now(node.value), node)
        ours = self._expressions
        if isinstance(node, ast.expr) and not isinstance(
            node, ast.Constant | ast.Name | ast.Starred | ast.FormattedValue | ast.Slice
        ):
            used = {one.id for one in nodes_of(node) if isinstance(one, ast.Name)} if self._inner else frozenset()
            if not used & self._inner and ours._is_known(node, frozenset()):
                found = ours._computed_now(node)
                if found is not None and not isinstance(found.value, _NOT_JSON):
                    return self._known(found, node)
        return super().visit(node)

    def _known(self, value: Now, node: ast.AST) -> ast.expr:
        try:
            return tree_of(value, node)
        except InvalidInput as error:
            raise self._refuse(node, f"{ast.unparse(node)} is known when the flow is compiled, and is no JSON: {error}") from None

    def generic_visit(self, node: ast.AST) -> ast.AST:
        made = twin(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(made, field, [self.visit(one) if isinstance(one, ast.AST) else one for one in value])
            elif isinstance(value, ast.AST):
                setattr(made, field, self.visit(value))
        return made

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._inner or not isinstance(node.ctx, ast.Load):
            return node
        value = self._expressions.load(node)
        if isinstance(value, Now):
            return self._known(value, node)
        tree = copy.copy(value.tree)
        if isinstance(tree, Slot):
            return ast.copy_location(tree.having(value.shares, node.id), node)
        return ast.copy_location(tree, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        inner = self.visit(node.value)
        fields = field_names(kind_of(inner))
        if fields is not None and node.attr not in fields:
            kind = getattr(kind_of(inner), "__name__", "record")
            known = hasattr(kind_of(inner), node.attr)
            more = "; what a class computes is computed in a @task" if known else did_you_mean(node.attr, fields)
            raise self._refuse(node, f"{kind} has no field {node.attr!r}{more}")
        kind = get_origin(kind_of(inner)) or kind_of(inner)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            if node.attr != "value":
                raise self._refuse(node, f"of a member of an Enum a flow has its value; ask {kind.__name__} in a @task")
            return inner  # type: ignore[no-any-return]
        if kind is dict:
            raise self._refuse(node, f"a value of the type dict has no attribute {node.attr!r}; write [{node.attr!r}]")
        if kind in (str, int) and node.attr in ("name", "value"):
            raise self._refuse(node, f"of a member of an Enum a flow has its value: leave out .{node.attr}, or ask it in a @task")
        return ast.copy_location(ast.Attribute(value=inner, attr=node.attr, ctx=node.ctx), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        made = self.generic_visit(node)
        if self._expressions.keys_raise and field_names(kind_of(made.value)) is None:  # type: ignore[attr-defined]
            made.raises = True  # type: ignore[attr-defined]
        return made

    def visit_Call(self, node: ast.Call) -> ast.expr:
        func = node.func
        inner = self._expressions._typed(node)
        if inner is not None:
            return self.visit(inner)  # type: ignore[no-any-return]
        if self._expressions._is_now_form(node):
            return self._known(self._expressions.calls.computed_now(node), node)
        if isinstance(func, ast.Attribute):
            found = self._static(func)
            if found is not None:
                return self._object_call(node, found)
            made = ast.Attribute(value=self.visit(func.value), attr=func.attr, ctx=func.ctx)
            return self._called(node, ast.copy_location(made, func))
        if isinstance(func, ast.Name) and func.id not in self._inner:
            found = self._expressions.load(func)
            if isinstance(found, Later):
                raise self._refuse(node, f"{func.id!r} is a value of a step, which cannot be called")
            if func.id in BUILTINS and found.value is getattr(builtins, func.id):
                return self._called(node, func)
            return self._object_call(node, found.value)
        raise self._refuse(
            node,
            f"`{ast.unparse(func)}` is called, which is not part of an expression; call a task or a flow by its name",
        )

    def _static(self, func: ast.Attribute) -> object:
        """The function that an attribute is, where it is none of a value."""
        base: ast.expr = func
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name) or base.id in self._inner or isinstance(base, Slot):
            return None
        if not self._expressions._is_known(func.value, frozenset()):
            return None
        try:
            found = self._expressions.evaluated(func)
        except AttributeError:
            return None
        return None if is_pure(found) and not isinstance(found, type) else found

    def _called(self, node: ast.Call, func: ast.expr) -> ast.expr:
        words = [ast.copy_location(ast.keyword(arg=one.arg, value=self._keyword(one)), one) for one in node.keywords]
        return ast.copy_location(ast.Call(func=func, args=[self.visit(one) for one in node.args], keywords=words), node)

    def _keyword(self, word: ast.keyword) -> ast.expr:
        """The value of a keyword; `key=` takes a function, which is no value."""
        if word.arg == "key" and isinstance(word.value, ast.Lambda):
            return self.visit_Lambda(word.value)
        if word.arg == "key" and isinstance(word.value, ast.Name | ast.Attribute):
            return word.value
        return cast(ast.expr, self.visit(word.value))

    def _object_call(self, node: ast.Call, found: object) -> ast.expr:
        """A call of a record's class is a map of its fields; that of any other function is refused."""
        if is_constructor(found):
            fields = field_names(found)
            if fields is not None and len(node.args) <= len(fields) and all(one.arg for one in node.keywords):
                given = [*zip(fields, node.args, strict=False), *((str(one.arg), one.value) for one in node.keywords)]
                missing = [key for key, _ in given if key not in fields]
                if not missing and not any(isinstance(one, ast.Starred) for one in node.args):
                    keys: list[ast.expr | None] = [ast.copy_location(ast.Constant(key), node) for key, _ in given]
                    made: Any = ast.copy_location(ast.Dict(keys=keys, values=[self.visit(one) for _, one in given]), node)
                    made.record = found
                    return cast(ast.expr, made)
        name = self._expressions.steps.source.text(node.func)
        if getattr(found, "__module__", None) == "builtins" and name in _INSTEAD:
            raise self._refuse(node, f"`{name}` is not part of an expression of a flow; {_INSTEAD[name]}")
        if self._expressions.calls.is_undecorated(found):
            instead = "write `now()` of conductorlite.flows for the time at which it runs, " if is_clock(found) else ""
            raise self._refuse(
                node,
                f"`{name}` would be called while the flow is compiled, not when it runs; {instead}"
                f"{self._expressions.calls.instead_of(found)}, or write now({name}(...)) where that is meant",
            )
        raise self._refuse(node, f"`{name}` is not part of an expression of a flow; call it in a @task")

    def _comprehension(self, node: Any) -> ast.expr:
        # The first list is computed outside, where the names of the comprehension mean nothing.
        inner = _Closing(self._expressions, self._inner | _targets(node))
        made = copy.copy(node)
        made.generators = []
        for place, one in enumerate(node.generators):
            if one.is_async:
                raise self._refuse(node, "`async for` is not part of a flow; write `for`")
            part = copy.copy(one)
            part.iter = (self if place == 0 else inner).visit(one.iter)
            part.ifs = [inner.visit(test) for test in one.ifs]
            made.generators.append(part)
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(made, field, inner.visit(getattr(node, field)))
        return made  # type: ignore[no-any-return]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        inner = _Closing(self._expressions, self._inner | {one.arg for one in node.args.args})
        return ast.copy_location(ast.Lambda(args=node.args, body=inner.visit(node.body)), node)


def _targets(node: ast.AST) -> frozenset[str]:
    return frozenset(
        one.id for part in getattr(node, "generators", []) for one in nodes_of(part.target) if isinstance(one, ast.Name)
    )


def _parts_of(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of which one consists, in the order in which Python computes them."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from [value] if key is None else [key, value]
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _PARTS):
            yield from _parts_of(child)
        elif isinstance(child, ast.expr):
            if isinstance(node, ast.Call) and child is node.func and isinstance(child, ast.Attribute):
                yield child.value
            else:
                yield child


def _replaced(node: Any, made: dict[int, ast.expr]) -> Any:
    """A copy of a node with other expressions in place of its parts."""
    if id(node) in made:
        return made[id(node)]
    if isinstance(node, list):
        return [_replaced(one, made) for one in node]
    if not isinstance(node, ast.AST) or isinstance(node, Slot | Known):
        return node
    new: ast.AST = twin(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list | ast.AST):
            setattr(new, field, _replaced(value, made))
    return new
