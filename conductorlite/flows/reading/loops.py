"""Loops of a flow: a DO_WHILE whose rounds hand their variables on as variables of the workflow.

A loop over what is known when the flow is compiled is written out. A variable of a loop has a key of its own among the workflow's
variables, set before the loop and at the end of each round, so that what was read of it in a round stays what it was.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from conductorlite.flows.build import Block, Reference, Step
from conductorlite.flows.reading.changing import Changes
from conductorlite.flows.reading.expressions import EXIT, RESULT, Expressions
from conductorlite.flows.reading.growth import growing, is_bounded
from conductorlite.flows.reading.names import bound_names
from conductorlite.flows.reading.sharing import SCALARS, copied, part_of
from conductorlite.flows.reading.steps import Steps
from conductorlite.flows.reading.values import (
    CaughtError,
    Later,
    Maybe,
    Now,
    Slot,
    Value,
    kind_of,
    later,
    nodes_of,
    path_of,
    same,
    shares_of,
    tree_of,
)
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvalidInput

__all__ = ["Loops", "ways_of"]

#: Most rounds that are written out of a loop over what is known when the flow is compiled.
_MOST_WRITTEN: Final = 50


class Body(Protocol):
    """Compiler of the statements of loops, see `statements.Statements`."""

    of: Expressions
    steps: Steps
    #: The statements around the present one that go round, the innermost last.
    around: list[ast.stmt]

    @property
    def exit(self) -> Value:
        """Value that says how the statements so far were left."""

    @property
    def result(self) -> Value:
        """Value that the function has returned so far."""

    #: What the statements change.
    changes: Changes

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements one after the other."""

    def join(self, chosen: ast.expr, one: dict[str, Any], other: dict[str, Any], last: ast.stmt) -> None:
        """Set the scope after two branches."""

    def is_read_after(self, name: str, last: ast.stmt, *, outside: bool = False) -> bool:
        """Return True if a name may be read after a statement."""


class Loops:
    """Compiles the loops of one function."""

    def __init__(self, statements: Body) -> None:
        self._in = statements
        self._of = statements.of
        self._steps = statements.steps
        self._build = statements.steps.build

    def loop(self, node: ast.For | ast.While) -> None:
        """Compile a loop."""
        if isinstance(node, ast.For):
            self.over(node)
        else:
            self.while_(node)

    # ------------------------------------------------------------------ for

    def over(self, node: ast.For) -> None:
        """`for x in values`."""
        items = self._of.value(node.iter)
        self._in.around.append(node)
        try:
            self._over(node, items)
        finally:
            self._in.around.pop()

    def _over(self, node: ast.For, items: Value) -> None:
        if isinstance(items, Now):
            try:
                fixed: list[Value] = [Now(one) for one in items.value]
            except TypeError as error:
                raise self._steps.refuse(node.iter, f"{error}") from None
        else:
            if isinstance(items.tree, ast.List | ast.Tuple):  # each of its parts is computed before the first round
                items = self._of.kept(items, "values", node.iter)
            found = self._of.calls.fixed(items)
            fixed = [] if found is None else found
            if found is None:
                self._rounds_over(node, cast(Later, items))
                return
        if len(fixed) > _MOST_WRITTEN:
            self._rounds_over(node, self._json(items, node.iter))
            return
        self._unroll(fixed, node)

    def _json(self, items: Value, at: ast.expr) -> Later:
        """A list that is known now, or written out, as the value of a step."""
        if isinstance(items, Now) and isinstance(items.value, range):  # a long one is not written out
            ends: list[ast.expr] = [ast.Constant(one) for one in (items.value.start, items.value.stop, items.value.step)]
            numbers = ast.Call(func=ast.Name(id="range", ctx=ast.Load()), args=ends, keywords=[])
            made = ast.Call(func=ast.Name(id="list", ctx=ast.Load()), args=[numbers], keywords=[])
            return self._steps.computed(Later(ast.fix_missing_locations(ast.copy_location(made, at))), "values", at)
        known: Value = Now(list(items.value)) if isinstance(items, Now) else items
        return self._steps.computed(self._of.closed(self._of.leaf(known, at)), "values", at)

    def _unroll(self, rounds: Sequence[Value], node: ast.For) -> None:
        """Each round by itself; a `break` or `continue` that may come puts what follows it into a case."""
        if not rounds:
            if node.orelse:
                self._in.block(node.orelse)
            return
        self._of.bind(node.target, rounds[0])
        self._in.block(node.body)
        how = self._in.exit
        if isinstance(how, Now):
            if how.value in ("next", "continue"):
                self._of.scope[EXIT] = Now("next")
                self._unroll(rounds[1:], node)
            elif how.value == "break":
                self._of.scope[EXIT] = Now("next")
            return
        self._later_exit(how, rounds[1:], node)

    def _later_exit(self, how: Later, rounds: Sequence[Value], node: ast.For) -> None:
        """Go on with the next rounds unless this one has ended them."""
        going = self._mapped(how.tree, {"continue": "next"})
        if rounds or node.orelse:
            test = _is(going, "next")
            step = self._steps.switch(test, "go_on", node.iter)
            before = dict(self._of.scope)
            block = Block(owner=step)
            with self._build.within(block):
                self._of.scope[EXIT] = Now("next")
                self._unroll(rounds, node)
            after = self._of.scope
            self._of.scope = before
            if not block.tasks and same(after[EXIT], Now("next")) and is_same_scope(after, before):
                self._build.remove(step)
            else:
                self._steps.case(step, "true", block)
                before[EXIT] = Later(self._mapped(how.tree, {"continue": "next", "break": "next"}))
                self._in.join(self._steps.chosen(step, node.iter), after, before, node)
                return
        self._of.scope[EXIT] = self._left(how.tree, node)

    def _left(self, tree: ast.expr, node: ast.stmt) -> Value:
        """Return how a loop is left for the statements around it."""
        if not _returns(node):
            return Now("next")
        return Later(self._mapped(tree, {"continue": "next", "break": "next"}))

    def _mapped(self, tree: ast.expr, words: dict[str, str]) -> ast.expr:
        """Return how statements are left, with other words for some ways."""
        if isinstance(tree, ast.Constant):
            return ast.copy_location(ast.Constant(words.get(str(tree.value), tree.value)), tree)
        if isinstance(tree, ast.IfExp):
            made = ast.IfExp(tree.test, self._mapped(tree.body, words), self._mapped(tree.orelse, words))
            return ast.copy_location(made, tree)
        test = ast.copy_location(_in(tree, tuple(words)), tree)
        return ast.copy_location(ast.IfExp(test, ast.copy_location(ast.Constant("next"), tree), tree), tree)

    def _rounds_over(self, node: ast.For, given_items: Later) -> None:
        items = self._as_list(given_items, node.iter)
        given = path_of(items.tree)
        base = f"for_{next((one.id for one in nodes_of(node.target) if isinstance(one, ast.Name)), 'item')}"
        loop = _Loop(self, node, base)
        loop.open()
        step = self._build.operator(TaskType.DO_WHILE, self._build.free(base), None, items=str(given), loop_condition="true")
        kind = kind_of(items.tree)
        block = Block(owner=step)
        with self._build.within(block):
            loop.enter(step)
            item = later(Reference(f"{step.ref}.output.loopItem", step), _item_kind(kind))
            self._bind_item(node, Later(item.tree, item.shares | part_of(items.shares)))
            self._in.block(node.body)
            loop.leave()
        going = loop.going_on(None)
        if block.tasks:
            fields = {} if going is None else self._steps.condition(going, node)
            self._build.replace(step, loop_over=block.tasks, **fields)
        else:  # nothing is done, and nothing is kept
            self._build.remove(step)
        loop.close(step)

    def _bind_item(self, node: ast.For, item: Later) -> None:
        """Give the names of a loop its item; pairs of `enumerate`, `zip` and `items` are known to have their parts."""
        match node.iter:
            case ast.Call(func=ast.Name(id="enumerate")) | ast.Call(func=ast.Attribute(attr="items"), args=[]):
                size = 2
            case ast.Call(func=ast.Name(id="zip"), args=lists):
                size = len(lists)
            case _:
                size = 0
        target = node.target
        if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == size:
            for one, part in zip(target.elts, self._of.parts(item, size), strict=True):
                self._of.bind(one, part)
            return
        self._of.bind(target, item)

    def _as_list(self, items: Later, at: ast.expr) -> Later:
        """Return what a `for` goes over as a list: the items of a list, the keys of a dict, the characters of a text."""
        if kind_of(items.tree) is list or getattr(kind_of(items.tree), "__origin__", None) is list:
            return self._steps.reference(items, "values", at)
        func = ast.copy_location(ast.Name(id="list", ctx=ast.Load()), at)
        tree = ast.copy_location(ast.Call(func=func, args=[items.tree], keywords=[]), at)
        return self._steps.computed(Later(tree, items.shares), "values", at)

    # ------------------------------------------------------------------ while

    def while_(self, node: ast.While) -> None:
        """`while test`: each round asks first, and has its statements in a case."""
        self._in.around.append(node)
        try:
            self._while(node)
        finally:
            self._in.around.pop()

    def _while(self, node: ast.While) -> None:
        known = None if self._of.has_step(node.test) else self._known_test(node)
        if known is False:
            self._in.block(node.orelse)
            return
        base = "while"
        loop = _Loop(self, node, base, endless=known is True)
        loop.open()
        step = self._build.operator(TaskType.DO_WHILE, self._build.free(base), None, loop_condition="true")
        block = Block(owner=step)
        asked: ast.expr | None = None
        with self._build.within(block):
            loop.enter(step)
            if known:
                self._in.block(node.body)
            else:
                asked = self._asked(node)
            loop.leave()
        going = loop.going_on(asked)
        if going is None and any(isinstance(one, ast.Raise) for one in nodes_of(node)):
            going = ast.copy_location(ast.Constant(True), node)
        if going is None:
            raise self._steps.refuse(node, "the loop never ends: write a condition, `break` or `return`")
        self._build.replace(step, loop_over=block.tasks, **self._steps.condition(going, node))
        loop.close(step)

    def _asked(self, node: ast.While) -> ast.expr:
        """The statements of a round in a case of what the loop asks; gives whether they were reached."""
        test = self._of.value(node.test)
        if isinstance(test, Now):
            raise self._steps.refuse(node.test, "the condition is known when the flow is compiled, so the loop never ends")
        inner = self._steps.switch(test.tree, "again", node.test)
        before = dict(self._of.scope)
        block = Block(owner=inner)
        with self._build.within(block):
            self._in.block(node.body)
        self._steps.case(inner, "true", block)
        chosen = self._steps.chosen(inner, node.test)
        after = self._of.scope
        self._of.scope = before
        self._in.join(chosen, after, before, node)
        return _is(chosen, "true")

    def _known_test(self, node: ast.While) -> bool | None:
        assigned = set(bound_names(node.body))
        if any(isinstance(one, ast.Name) and one.id in assigned for one in nodes_of(node.test)):
            return None
        value = self._of.value(node.test)
        return bool(value.value) if isinstance(value, Now) else None


class _Loop:
    """The variables of one loop, from round to round."""

    def __init__(self, loops: Loops, node: ast.For | ast.While, base: str, *, endless: bool = False) -> None:
        self._loops = loops
        self._node = node
        self._of = loops._of
        self._steps = loops._steps
        self._build = loops._build
        self._base = base
        self._endless = endless
        self._assigned = list(dict.fromkeys(bound_names([node])))
        self._nodes = nodes_of(node)
        self._returns = any(isinstance(one, ast.Return) for one in self._nodes)
        self._flag = self._returns or bool(node.orelse)
        self._keys: dict[str, str] = {}
        self._start: Step
        self._before: dict[str, Any] = {}
        self._at_leave: dict[str, Any] = {}
        self._exit: Value = Now("next")
        self._read_outside: set[int] = set()
        #: Names of which a later round, or what follows the loop, reads what a round leaves.
        self._needed: list[str] = []
        #: What the names have at the beginning of a round.
        self._first: dict[str, Later] = {}
        self._collected_outside: dict[str, frozenset[str]] = {}
        #: Lists to which the rounds only append, and the step of a round that gives what it has appended.
        self._collected: dict[str, Reference | None] = {}

    def open(self) -> None:
        """Before the loop: the step that sets its variables, filled in when the loop has been read."""
        self._before = dict(self._of.scope)
        self._since = len(self._loops._in.changes.done)
        self._start = self._build.operator(TaskType.SET_VARIABLE, self._build.free(f"{self._base}_begins"), None)

    def key(self, name: str) -> str:
        """The variable of the workflow that keeps a name."""
        if name not in self._keys:
            self._keys[name] = self._build.variable(name)
        return self._keys[name]

    @staticmethod
    def _also(kept: Later, *values: Any) -> Later:
        """A variable that may be one of several values."""
        if kept.kind in SCALARS:
            return kept
        return Later(kept.tree, kept.shares.union(*map(shares_of, values)))

    def _kept(self, name: str, kind: Any = Any) -> Later:
        word = {EXIT: "left", RESULT: "result"}.get(name, name)
        return later(Reference(f"workflow.variables.{self.key(word)}", None), kind, word)

    def enter(self, step: Step) -> None:
        """At the beginning of a round."""
        self._read_outside, self._of.read = self._of.read, set()
        changes = self._loops._in.changes
        self._collected_outside = dict(changes.collected)
        for name in self._assigned:
            found = self._of.scope.get(name)
            if found is not None and not isinstance(found, Maybe) and self._collects(name, found):
                self._collected[name] = None
                changes.collected[name] = shares_of(found) | changes.collected.get(name, frozenset())
                self._of.scope[name] = Now([])
            elif isinstance(found, Later) and found.kind is CaughtError:
                self._of.scope[name] = Maybe("is gone after its `except`, one of the loop's; give one of them another name")
            elif found is not None and not isinstance(found, Maybe):
                self._of.scope[name] = self._first[name] = self._also(self._kept(name, self._kind(name, found)), found)
        self._of.scope[EXIT] = Now("next")
        if isinstance(self._node, ast.While):
            self._check_growth(self._node)

    def _check_growth(self, node: ast.While) -> None:
        """Refuse a variable that grows in each of any number of rounds."""
        if not self._first or is_bounded(node, self._assigned):
            return
        for name in self._first:
            found = self._before[name]
            at = growing(node, name, self._loops._in.changes.kind_of(name, found))
            if at is not None:
                raise self._steps.refuse(
                    at,
                    f"{name!r} grows in each round and is read there, in a loop without a limit of rounds: a variable of a loop "
                    "is copied in each round, and ends at 256 KB; append to a list that is read after the loop only, or limit the "
                    "rounds: `for _ in range(1000):`, with `break`",
                )

    def _collects(self, name: str, before: Value) -> bool:
        """Return True if the rounds do nothing with a list but append to it: then it is what they put out, and no variable."""
        if not _is_list(_kind_of_value(before)) or name in self._of.tracked or self._sites(name):
            return False
        appended = {
            id(one.value.func.value)
            for one in self._nodes
            if isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and isinstance(one.value.func, ast.Attribute)
            and one.value.func.attr in ("append", "extend")
            and len(one.value.args) == 1
            and not one.value.keywords
        }
        named = [one for one in self._nodes if isinstance(one, ast.Name) and one.id == name]
        gone_over = self._node.iter if isinstance(self._node, ast.For) else self._node.test
        if any(isinstance(one, ast.Name) and one.id == name for one in nodes_of(gone_over)):
            return False
        try:
            tree_of(before, self._node)
        except InvalidInput:
            return False
        return all(id(one) in appended for one in named)

    def _collect(self, name: str) -> None:
        """Have a round put out what it has appended to a list."""
        value = self._at_leave[name]
        if isinstance(value, Maybe) or (isinstance(value, Now) and value.value == []):
            return
        found = path_of(value.tree) if isinstance(value, Later) else None
        step = None if found is None else found._step
        if found is None or step is None or step.block is not self._build.block or found._path != f"{step.ref}.output.result":
            found = path_of(self._steps.computed(value, f"{name}_more", self._node).tree)
        self._collected[name] = found

    def _collection(self, name: str, before: Value, step: Step) -> Value:
        """A list with what all rounds have appended."""
        found = self._collected[name]
        if found is None or not self._loops._in.is_read_after(name, self._node, outside=True):
            return before if found is None else Maybe("is not kept")  # type: ignore[return-value]
        rounds = Slot(Reference(f"{step.ref}.output[*].{found._path.replace('.output.', '.', 1)}", step), list, f"{name}_rounds")
        part, item = ast.Name(id="part", ctx=ast.Load()), ast.Name(id="item", ctx=ast.Load())
        loops = [
            ast.comprehension(target=ast.Name(id="part", ctx=ast.Store()), iter=rounds, ifs=[], is_async=0),
            ast.comprehension(target=ast.Name(id="item", ctx=ast.Store()), iter=part, ifs=[], is_async=0),
        ]
        made = ast.BinOp(left=tree_of(before, self._node), op=ast.Add(), right=ast.ListComp(elt=item, generators=loops))
        tree = ast.fix_missing_locations(ast.copy_location(made, self._node))
        shares = copied(shares_of(before)) | copied(shares_of(self._at_leave.get(name)))
        return self._steps.computed(Later(tree, shares), name, self._node)

    def _kind(self, name: str, value: Value) -> Any:
        """The kind of a name in all rounds, where each value that it gets is of it; float stands for any number."""
        first = type(value.value) if isinstance(value, Now) else value.kind
        if _is_list(first):
            adding = {one.target for one in self._nodes if isinstance(one, ast.AugAssign)}
            return list if all(one in adding for one in self._sites(name)) else Any
        return self._scalar_kind(name, first)

    def _sites(self, name: str) -> list[ast.Name]:
        """Return the places where a loop assigns a name."""
        return [one for one in self._nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]

    def _scalar_kind(self, name: str, first: Any) -> Any:
        family = next((kinds for kinds in (_NUMBERS, (str,)) if first in kinds), None)
        if family is None:
            return Any
        given: dict[int, ast.expr] = {}
        for one in self._nodes:
            match one:
                case ast.Assign(targets=targets, value=made):
                    given |= {id(target): made for target in targets if isinstance(target, ast.Name)}
                case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as made):
                    given[id(target)] = made
                case ast.AugAssign(target=ast.Name() as target, op=op, value=more):
                    # A number times a text is a text.
                    number = family is _NUMBERS and type(op) is not ast.Mult
                    given[id(target)] = ast.Constant(0) if number else more
        sites = self._sites(name)
        if not all(id(one) in given and self._is_of(given[id(one)], name, family) for one in sites):
            return Any
        return float if family is _NUMBERS else str

    def _is_of(self, made: ast.expr, name: str, family: tuple[type, ...]) -> bool:
        """Return True if the value of an expression is certainly a number, or a text, if the name has one."""

        def of(one: ast.expr) -> bool:
            match one:
                case ast.Constant(value=value):
                    return type(value) in family
                case ast.Name(id=other):
                    if other == name:
                        return True
                    found = None if other in self._assigned else self._before.get(other)
                    return isinstance(found, Now | Later) and _kind_of_value(found) in family
                case ast.BinOp(left=left, op=ast.Add(), right=right) | ast.IfExp(body=left, orelse=right):
                    return of(left) and of(right)
                case ast.BinOp(op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Pow()) | ast.UnaryOp(op=ast.USub()):
                    return family is _NUMBERS
                case ast.JoinedStr():
                    return family == (str,)
                case ast.Call(func=ast.Name(id="len" | "int" | "float" | "abs" | "round")):
                    return family is _NUMBERS
                case ast.Call(func=ast.Name(id="str" | "repr")):
                    return family == (str,)
                case ast.Await(value=inner):
                    return of(inner)
                case ast.Call() if self._of.is_step(one):
                    return getattr(self._of.callee(one.func), "returns", None) in family
            return False

        return of(made)

    def leave(self) -> None:
        """At the end of a round: the step that hands the variables on."""
        scope = self._at_leave = self._of.scope
        read = self._of.read
        self._of.read = self._read_outside | read
        self._loops._in.changes.collected = self._collected_outside
        self._exit = self._loops._in.exit
        for name, first in self._first.items():
            self._loops._in.changes.recheck(name, first, self._since)
        for name in self._collected:
            self._collect(name)
        self._needed = [name for name in self._assigned if self._is_needed(name, read)]
        given: dict[str, Any] = {}
        for name in self._needed:
            value = scope.get(name)
            if isinstance(value, Maybe) and name not in self._first:
                value = value.broken
            if isinstance(value, Maybe) or value is None:
                ends = isinstance(self._exit, Now) and self._exit.value in ("return", "raise")
                if name in self._before and not isinstance(self._before[name], Maybe) and not ends:
                    raise self._steps.refuse(
                        self._node, f"the name {name!r} {value.why if isinstance(value, Maybe) else 'is lost'}"
                    )
                continue
            if not same(value, self._kept(name)):
                given[self.key(name)] = self._argument(value, name)
        if self._flag:
            given[self.key("left")] = self._argument(self._exit, "left")
        if self._returns:
            given[self.key("result")] = self._argument(self._loops._in.result, "result")
        if given:
            self._build.operator(
                TaskType.SET_VARIABLE, self._build.free(f"{self._base}_next"), None, input_parameters=self._build.written(given)
            )

    def _argument(self, value: Value, name: str) -> Any:
        if isinstance(value, Now):
            try:
                tree_of(value, self._node)
            except InvalidInput as error:
                raise self._steps.refuse(
                    self._node, f"the name {name!r} is assigned in the loop, and is no JSON: {error}"
                ) from None
        return self._steps.argument(value, name, self._node)

    def _is_needed(self, name: str, read: set[int]) -> bool:
        """Return True if the next round or what comes after the loop reads what a round leaves in a name."""
        if name in self._first:
            return id(self._first[name]) in read or self._loops._in.is_read_after(name, self._node, outside=True)
        return self._endless and self._loops._in.is_read_after(name, self._node, outside=True)

    def going_on(self, asked: ast.expr | None) -> ast.expr | None:
        """Return what has to be true after a round for the next one to follow; None: nothing."""
        parts: list[ast.expr] = [] if asked is None else [asked]
        how = self._exit
        if self._flag:
            tree = ast.copy_location(self._kept(EXIT, str).tree, self._node)
            if isinstance(how, Later) or how.value not in ("next", "continue"):
                parts.append(_in(tree, ("next", "continue")))
        elif isinstance(how, Later):
            if not ways_of(how.tree) <= {"next", "continue"}:
                parts.append(_in(how.tree, ("next", "continue")))
        elif how.value == "break":
            parts.append(ast.copy_location(ast.Constant(False), self._node))
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else ast.copy_location(ast.BoolOp(op=ast.And(), values=parts), self._node)

    def close(self, step: Step) -> None:
        """After the loop: what its variables have, its `else`, and whether the function has returned in it."""
        after = dict(self._before)
        begin: dict[str, Any] = {}
        end = self._at_leave
        for name in self._assigned:
            bound = self._before.get(name)
            if bound is None or isinstance(bound, Maybe):
                bound = end.get(name)
                bound = bound.broken if isinstance(bound, Maybe) and self._endless else bound
                if self._endless and bound is not None and not isinstance(bound, Maybe):
                    after[name] = (
                        self._kept(name) if self._loops._in.is_read_after(name, self._node, outside=True) else Maybe("is not kept")
                    )
                    begin[self.key(name)] = None
                else:
                    how = "be left by a `break` before" if self._endless else "have no round"
                    after[name] = Maybe(f"may be unassigned here: the loop may {how}; assign it before the loop")
            elif name in self._collected:
                self._of.read.add(id(bound))
                after[name] = self._collection(name, bound, step)
            elif name in self._first and name not in self._needed:
                after[name] = Maybe("is read where no value of it is kept")
            elif name in self._keys:
                self._of.read.add(id(bound))
                begin[self.key(name)] = self._argument(bound, name)
                after[name] = self._also(self._kept(name), bound, end.get(name))
        if self._flag:
            begin[self.key("left")] = "next"
        if self._returns:
            begin[self.key("result")] = None
        if begin:
            self._build.replace(self._start, input_parameters=self._build.written(begin))
        else:
            self._build.remove(self._start)
        self._of.scope = after
        after[EXIT] = Now("next")
        if self._returns:
            after[RESULT] = self._kept(RESULT)
        if self._node.orelse:
            self._else()
        elif self._returns:
            after[EXIT] = self._loops._left(self._kept(EXIT, str).tree, self._node)

    def _else(self) -> None:
        kept = self._kept(EXIT, str).tree
        before = dict(self._of.scope)
        step = self._steps.switch(_in(kept, ("next", "continue")), f"{self._base}_else", self._node.orelse[0])
        block = Block(owner=step)
        around = self._loops._in.around
        own = around.pop()  # the loop is over: nothing here is done in a round of it
        try:
            with self._build.within(block):
                self._loops._in.block(self._node.orelse)
        finally:
            around.append(own)
        self._steps.case(step, "true", block)
        after = self._of.scope
        before[EXIT] = self._loops._left(kept, self._node)
        self._loops._in.join(self._steps.chosen(step, self._node), after, before, self._node.orelse[-1])


def is_same_scope(after: Mapping[str, Value | Maybe], before: Mapping[str, Value | Maybe]) -> bool:
    """Return True if statements have given no name another value, how they are left aside."""
    return all(name == EXIT or (name in before and same(value, before[name])) for name, value in after.items())


def ways_of(tree: ast.expr) -> frozenset[str]:
    """Return how statements may be left, by the expression that says it."""
    if isinstance(tree, ast.IfExp):
        return ways_of(tree.body) | ways_of(tree.orelse)
    return frozenset((str(tree.value),)) if isinstance(tree, ast.Constant) else frozenset(("return",))


_NUMBERS: Final = (int, float, bool)


def _is_list(kind: Any) -> bool:
    return kind is list or getattr(kind, "__origin__", None) is list


def _kind_of_value(value: Value) -> Any:
    return type(value.value) if isinstance(value, Now) else value.kind


def _item_kind(kind: Any) -> Any:
    arguments = getattr(kind, "__args__", ())
    return arguments[0] if getattr(kind, "__origin__", None) is list and arguments else Any


def _returns(node: ast.stmt) -> bool:
    """Return True if there is a `return` in a loop."""
    return any(isinstance(one, ast.Return) for one in nodes_of(node))


def _is(tree: ast.expr, word: str) -> ast.expr:
    made = ast.Compare(left=tree, ops=[ast.Eq()], comparators=[ast.copy_location(ast.Constant(word), tree)])
    return ast.copy_location(made, tree)


def _in(tree: ast.expr, words: tuple[str, ...]) -> ast.expr:
    listed = ast.copy_location(
        ast.Tuple(elts=[ast.copy_location(ast.Constant(word), tree) for word in words], ctx=ast.Load()), tree
    )
    return ast.copy_location(ast.Compare(left=tree, ops=[ast.In()], comparators=[listed]), tree)
