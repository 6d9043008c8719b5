"""Statements of a flow: assignments, cases, loops, and how a function is left.

A name that branches assign differently has, after them, a value step that takes the one of the branch that was taken. A `return`,
`break` or `continue` ends the statements after it by their order: where one branch of an `if` ends them, what follows the `if`
stands in the other branch; where it only may, in a case that is taken if it did not. The execution itself always ends at its end.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, cast

from conductorlite.flows.build import Block
from conductorlite.flows.reading.changing import Changes, around_changed
from conductorlite.flows.reading.expressions import EXIT, RESULT, Expressions
from conductorlite.flows.reading.loops import Loops, is_same_scope, ways_of
from conductorlite.flows.reading.names import changes
from conductorlite.flows.reading.raising import asserted, raised
from conductorlite.flows.reading.trying import Compiled, Tries
from conductorlite.flows.reading.values import Later, Maybe, Now, Slot, Value, field_names, nodes_of, path_of, same
from conductorlite.flows.schemas import hints
from conductorlite.model.errors import BuildError

__all__ = ["Statements", "always_ends"]

#: Nodes of an expression for what is returned from which it is computed: with each join it would be twice as large.
_LARGE: Final = 40

_REFUSED: Final[dict[type[ast.AST], str]] = {
    ast.FunctionDef: "a function in a flow is not compiled; define it outside, with @task or @flow",
    ast.AsyncFunctionDef: "a function in a flow is not compiled; define it outside, with @task or @flow",
    ast.ClassDef: "a class in a flow is not compiled; define it outside",
    ast.Import: "import outside of the flow",
    ast.ImportFrom: "import outside of the flow",
    ast.Global: "a flow has no global variables: return the value, or give it to a task",
    ast.Nonlocal: "a flow has no variables of the function around it: return the value, or give it to a task",
    ast.AsyncFor: "`async for` is not part of a flow; write `for`",
    ast.AsyncWith: "`async with` is not part of a flow; do it in a @task",
    ast.With: "`with` is not part of a flow that is written in Python's statements; do it in a @task",
    ast.TryStar: "`except*` is not part of a flow; write `except`",
}


def always_ends(body: Sequence[ast.stmt]) -> bool:
    """Return True if no statement after these is reached."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_ends(last.body) and always_ends(last.orelse)
    if isinstance(last, Compiled):
        return always_ends(last.body)
    return isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue)


class Statements:
    """Compiles the statements of one function."""

    def __init__(self, expressions: Expressions, function: Any) -> None:
        self.of = expressions
        self.steps = expressions.steps
        self.function = function
        self.loops = Loops(self)
        self.tries = Tries(self)
        #: The lines in which each name is read.
        self._reads: dict[str, list[int]] = {}
        for one in self.steps.source.nodes:
            target = one.target if isinstance(one, ast.AugAssign) else one
            if isinstance(target, ast.Name) and (target is not one or not isinstance(target.ctx, ast.Store)):
                self._reads.setdefault(target.id, []).append(target.lineno)
        #: The annotations of parameters and of names.
        self._hints = dict(hints(function))
        #: The statements around the present one that go round, the innermost last.
        self.around: list[ast.stmt] = []
        self.changes = Changes(expressions, self._hints, lambda: self.around)

    @property
    def scope(self) -> dict[str, Value | Maybe]:
        """Values that each name has now."""
        return self.of.scope

    @property
    def exit(self) -> Value:
        """Value that says how the statements so far were left."""
        return cast(Value, self.of.scope[EXIT])

    @property
    def result(self) -> Value:
        """Value that the function has returned so far."""
        return cast(Value, self.of.scope[RESULT])

    # ------------------------------------------------------------------ sequences

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements one after the other, until one ends them."""
        for place, statement in enumerate(body):
            rest = body[place + 1 :]
            self.steps.build.line = getattr(statement, "lineno", self.steps.build.line)
            if isinstance(statement, ast.If):
                self._if(statement, rest)
                return
            if isinstance(statement, ast.Assert):
                self._if(asserted(statement), rest)
                return
            if isinstance(statement, ast.Try):
                self.block([*self.tries.opened(statement), *rest])
                return
            if isinstance(statement, ast.Match):
                self._if(self._match(statement), rest)
                return
            self.statement(statement)
            if self.proceed(rest, statement):
                return

    def proceed(self, rest: Sequence[ast.stmt], at: ast.AST) -> bool:
        """Return True if a statement has ended the ones after it, or taken them into a case."""
        how = self.exit
        if isinstance(how, Now):
            return bool(how.value != "next")
        if rest:
            self.guarded(rest, at)
        return True

    def guarded(self, rest: Sequence[ast.stmt], at: ast.AST) -> None:
        """Compile statements for when none before has ended them."""
        how = cast(Later, self.exit)
        test = ast.Compare(left=how.tree, ops=[ast.Eq()], comparators=[ast.copy_location(ast.Constant("next"), at)])
        step = self.steps.switch(ast.copy_location(test, at), "go_on", at)
        before = dict(self.scope)
        block = Block(owner=step)
        with self.steps.build.within(block):
            self.scope[EXIT] = Now("next")
            self.block(rest)
        if not block.tasks and same(self.scope[EXIT], Now("next")) and is_same_scope(self.scope, before):
            self.steps.build.remove(step)
            self.of.scope = before
            return
        self.steps.case(step, "true", block)
        after, self.of.scope = self.scope, before
        ways = ways_of(how.tree)
        if same(after[EXIT], Now("raise")) and len(ways - {"next"}) == 1:  # who comes past it has left
            before[EXIT] = Now(*(ways - {"next"}))
        if ways <= {"next", "return"}:  # where the rest was not reached, nothing is read any more
            before = {**after, EXIT: before[EXIT], RESULT: before[RESULT]}
        self.join(self.steps.chosen(step, at), after, before, rest[-1])

    def _if(self, node: ast.If, rest: Sequence[ast.stmt]) -> None:
        self.steps.build.target = None
        test = self.of.value(node.test)
        body, orelse = [*node.body], [*node.orelse]
        if isinstance(test, Now):
            self.block([*(body if test.value else orelse), *rest])
            return
        ends, others = always_ends(body), always_ends(orelse)
        if ends and not others:
            orelse, rest = [*orelse, *rest], ()
        elif others and not ends:
            body, rest = [*body, *rest], ()
        elif ends:
            rest = ()
        step = self.steps.switch(test.tree, _word("if", node.test), node.test)
        before = dict(self.scope)
        scopes = []
        for key, statements in (("true", body), (None, orelse)):
            self.of.scope = dict(before)
            block = Block(owner=step)
            with self.steps.build.within(block):
                self.block(statements)
            self.steps.case(step, key, block)
            scopes.append(self.scope)
        self.join(self.steps.chosen(step, node.test), scopes[0], scopes[1], (*body, *orelse)[-1])
        if rest and not self.proceed(rest, node):
            self.block(rest)

    def join(self, chosen: ast.expr, one: dict[str, Any], other: dict[str, Any], last: ast.stmt) -> None:
        """The scope after two branches of which the first was taken if `chosen` is "true"."""
        self.of.scope = scope = {}
        ended = [_has_left(branch) for branch in (one, other)]
        for failed, kept in ((one, other), (other, one)):
            if same(failed.get(EXIT), Now("raise")):  # nothing follows it at all
                self.of.scope = dict(kept)
                return
        for name in {**one, **other}:
            mine, there = one.get(name), other.get(name)
            if name in (EXIT, RESULT):
                mine, there = mine or Now(None), there or Now(None)
            elif ended[0]:
                mine = there
            elif ended[1]:
                there = mine
            if mine is not None and (same(mine, there)):
                scope[name] = mine
            elif name in (EXIT, RESULT):
                value = self.of.either(chosen, mine, there, last)  # type: ignore[arg-type]
                large = name == RESULT and len(nodes_of(value.tree)) > _LARGE
                scope[name] = self.steps.computed(value, "result", last) if large else value
            elif mine is None or there is None or isinstance(mine, Maybe) or isinstance(there, Maybe):
                bad = next((found for found in (mine, there) if isinstance(found, Maybe)), None)
                why = f"may be unassigned here: line {last.lineno} is one branch of several; assign it in each, or before"
                broken = self._broken(chosen, name, (one, other), last)
                scope[name] = Maybe(why if bad is None else bad.why, broken)
            elif self.is_read_after(name, last):
                scope[name] = self._chosen_value(chosen, name, mine, there, last)
            else:
                scope[name] = Maybe("is read where no value of it is kept")

    def _broken(self, chosen: ast.expr, name: str, branches: Sequence[dict[str, Any]], last: ast.stmt) -> Value | None:
        """The value that a name has at each `break` of two branches; None where it may have none at one, or nothing reads it."""
        loop = self.around[-1] if self.around else None
        endless = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        if loop is None or not endless or not self.is_read_after(name, loop, outside=True):
            return None
        values: list[Value] = []
        for branch in branches:
            found, how = branch.get(name), branch.get(EXIT)
            value = found.broken if isinstance(found, Maybe) else found
            breaks = how.value == "break" if isinstance(how, Now) else how is not None and "break" in ways_of(how.tree)
            if breaks and value is None:
                return None
            values.append(value if breaks and value is not None else Now(None))
        if all(same(value, Now(None)) for value in values):
            return None
        found = self._chosen_value(chosen, name, values[0], values[1], last)
        return None if isinstance(found, Maybe) else found

    def _chosen_value(self, chosen: ast.expr, name: str, mine: Value, there: Value, last: ast.stmt) -> Value | Maybe:
        self.of.read |= {id(mine), id(there)}
        self.steps.build.target = None
        try:
            value = self.of.either(chosen, mine, there, last)
        except BuildError:
            if not isinstance(mine, Now) and not isinstance(there, Now):
                raise
            return Maybe("has, in one branch, a value that is no JSON, so it cannot be read after the branches; read it in each")
        return self.steps.computed(value, name, last)

    def is_read_after(self, name: str, last: ast.stmt, *, outside: bool = False) -> bool:
        """Return True if a name may be read after a statement; all of a loop around it comes after it, too.

        `outside` leaves out the statement itself, a loop.
        """
        end = last.end_lineno or last.lineno
        rounds = [(one.lineno, one.end_lineno or one.lineno) for one in self.around if not (outside and one is last)]
        return any(line > end or any(first <= line <= until for first, until in rounds) for line in self._reads.get(name, ()))

    # ------------------------------------------------------------------ statements

    def statement(self, node: ast.stmt) -> None:
        """Compile one statement that is no `if`."""
        problem = _REFUSED.get(type(node))
        if problem is not None:
            raise self.steps.refuse(node, problem)
        self.steps.build.target = None
        match node:
            case ast.Expr():
                self._expression(node)
            case ast.Assign():
                self._assign(node.targets, node.value)
            case ast.AnnAssign(value=None) | ast.Pass():
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign([target], value)
                self._annotate(target, node.annotation)
            case ast.AugAssign():
                self.changes.augmented(node)
            case ast.Delete():
                self._delete(node)
            case ast.Return():
                self._return(node)
            case Compiled():
                node.carry()
            case ast.Raise():
                self._raise(node)
            case ast.Break() | ast.Continue():
                self.scope[EXIT] = Now("break" if isinstance(node, ast.Break) else "continue")
            case ast.For() | ast.While():
                self.loops.loop(node)
            case _:
                raise self.steps.refuse(node, f"`{type(node).__name__.lower()}` is not part of a flow; do it in a @task")

    def _delete(self, node: ast.Delete) -> None:
        for one in node.targets:
            if not isinstance(one, ast.Subscript):
                raise self.steps.refuse(node, "a flow does not delete names; leave the name as it is")
            self.changes.item_deleted(one)

    def _raise(self, node: ast.Raise) -> None:
        if not self.tries.raises_again(node):
            self.steps.failing(raised(self.of, node), node)
            self.scope[EXIT] = Now("raise")

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if self.changes.called(node.value) is not None:
            return
        changed = changes(node)
        if changed is not None and not self.of.is_step(node.value):
            self._refuse_change(node, changed)
        value = self.of.value(node.value)
        if isinstance(value, Later) and path_of(value.tree) is None and not isinstance(value.tree, ast.Tuple):
            self.steps.computed(value, "value", node.value)

    def _refuse_change(self, node: ast.Expr, method: ast.Attribute) -> None:
        try:
            self.of.callee(method)
        except LookupError:
            shown = ast.unparse(method.value)
            if not isinstance(method.value, ast.Name):
                raise self.steps.refuse(
                    node, f"`{method.attr}` changes a value that has no name: assign it to one before"
                ) from None
            found = self.scope.get(method.value.id) if isinstance(method.value, ast.Name) else None
            if isinstance(found, Later) and field_names(found.kind) is not None:
                raise self.steps.refuse(
                    node, f"`{ast.unparse(method)}` is a method of a record: call it in a @task that returns the record"
                ) from None
            if isinstance(method.value, ast.Name) and method.value.id not in self.of.local:
                raise self.steps.refuse(node, around_changed(shown)) from None
            raise self.steps.refuse(
                node, f"`{ast.unparse(method)}` changes a value; assign a new one: `{shown} = [*{shown}, x]`, `{{**{shown}, k: v}}`"
            ) from None

    def _assign(self, targets: Sequence[ast.expr], node: ast.expr) -> None:
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        self.steps.build.target = names[0] if len(targets) == 1 and names else None
        value = self.changes.called(node) or self.of.value(node)
        value = self.of.kept(value, names[0] if names else "value", node)
        for target in targets:
            if isinstance(target, ast.Attribute):
                raise self.steps.refuse(target, "a field cannot be assigned: have a task return a record that has the new value")
            if isinstance(target, ast.Subscript):
                self.changes.item_set(target, value)
            else:
                self.of.bind(target, value)

    def _annotate(self, target: ast.expr, annotation: ast.expr) -> None:
        """Take the kind of a value from its annotation, where nothing else says it."""
        if not isinstance(target, ast.Name):
            return
        try:
            kind = self._hints[target.id] = self.of.evaluated(annotation)
        except Exception:  # a name that is imported for type checkers only, for one
            return
        found = self.scope.get(target.id)
        if not isinstance(found, Later) or found.kind is not Any or not isinstance(found.tree, Slot):
            return
        tree = found.tree
        self.scope[target.id] = Later(Slot(tree.reference, kind, tree.name, tree.unannotated), found.shares)

    def _return(self, node: ast.Return) -> None:
        value: Value = Now(None)
        if node.value is not None:
            self.steps.build.target = "result"
            value = self.changes.called(node.value) or self.of.value(node.value)
            value = self.of.kept(value, "result", node.value)
        self.scope[RESULT] = value
        self.scope[EXIT] = Now("return")

    # ------------------------------------------------------------------ match

    def _match(self, node: ast.Match) -> ast.If:
        """`match` on values as the `if` that says the same."""
        subject = self.of.value(node.subject)
        if isinstance(subject, Later):
            subject = self.steps.reference(subject, "matched", node.subject)
        held = self.of.leaf(subject, node.subject)
        cases: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = self._pattern(case.pattern, held)
            if case.guard is not None:
                test = ast.copy_location(ast.BoolOp(op=ast.And(), values=[test, case.guard]), case.pattern)
            cases = [ast.copy_location(ast.If(test=test, body=case.body, orelse=cases), case.pattern)]
        return cast(ast.If, cases[0])

    def _pattern(self, pattern: ast.pattern, held: ast.expr) -> ast.expr:
        made: ast.expr
        match pattern:
            case ast.MatchValue(value=value):
                made = ast.Compare(left=held, ops=[ast.Eq()], comparators=[value])
            case ast.MatchSingleton(value=value):
                made = ast.Compare(left=held, ops=[ast.Is()], comparators=[ast.copy_location(ast.Constant(value), pattern)])
            case ast.MatchOr(patterns=patterns):
                made = ast.BoolOp(op=ast.Or(), values=[self._pattern(one, held) for one in patterns])
            case ast.MatchAs(pattern=None, name=None):
                made = ast.Constant(True)
            case _:
                raise self.steps.refuse(
                    pattern,
                    "a case of a flow is a value, several (`1 | 2`), or `_`; take a value apart by an assignment in the case",
                )
        return ast.copy_location(made, pattern)


def _has_left(scope: dict[str, Any]) -> bool:
    """Return True if nothing of a branch is read after it: it has returned, or raised."""
    how = scope.get(EXIT)
    return isinstance(how, Now) and how.value in ("return", "raise")


def _word(base: str, node: ast.expr) -> str:
    """A name for a case: after what it asks."""
    words = [
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    ]
    return f"{base}_{words[0]}" if words else base
