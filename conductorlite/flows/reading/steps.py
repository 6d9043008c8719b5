"""The steps that a flow's text becomes where no task is called: values that are computed, cases, and what loops ask."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Sequence
from typing import Any, Final, get_args

from conductorlite.flows.build import Block, Build, Reference, Step, names_of
from conductorlite.flows.reading.names import BUILTINS
from conductorlite.flows.reading.source import Source
from conductorlite.flows.reading.values import (
    Later,
    Now,
    Slot,
    Value,
    field_names,
    kind_of,
    later,
    nodes_of,
    path_of,
    replaced,
    shares_of,
    template_of,
    tree_of,
)
from conductorlite.language.expressions import (
    Expression,
    ExpressionRefused,
    condition_fields,
    inline_fields,
    render,
    switch_fields,
    truth,
)
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import BuildError

__all__ = ["Steps"]

#: What stored expressions call beside Python's own functions.
_INTERNAL: Final = frozenset({"changed", "fail", "reraise", "unpack"})


class Steps:
    """Adds steps to a flow's definition, and says the place of what cannot be one."""

    def __init__(self, build: Build, source: Source) -> None:
        self.build = build
        self.source = source

    # ------------------------------------------------------------------ values

    def argument(self, value: Value, base: str, at: ast.AST) -> Any:
        """A value as the builder takes it: known now, a reference, or JSON with references in it; else a step computes it first."""
        if isinstance(value, Now):
            return value.value
        try:
            return template_of(value.tree)
        except LookupError:
            return path_of(self.computed(value, base, at).tree)

    def reference(self, value: Value, base: str, at: ast.AST) -> Later:
        """A later value as one reference; a step computes it where it is none."""
        if isinstance(value, Later):
            found = path_of(value.tree)
            if found is not None:
                one = value.tree
                unannotated = one.unannotated if isinstance(one, Slot) else None
                return Later(Slot(found, value.kind, base, unannotated), value.shares)
        return self.computed(value, base, at)

    def computed(self, value: Value, base: str, at: ast.AST) -> Later:
        """The value of an expression, computed by a step of its own (INLINE)."""
        tree = tree_of(value, at)
        expression, given = self._rendered(tree, at)
        step = self.build.operator(TaskType.INLINE, self.build.free(base), None, **inline_fields(expression, given))
        shares = shares_of(value)
        made = later(Reference(f"{step.ref}.output.result", step), kind_of(tree), base)
        return Later(made.tree, made.shares | shares)

    def failing(self, tree: ast.expr, at: ast.AST) -> None:
        """A step that fails as `raise` does."""
        expression, given = self._rendered(tree, at)
        self.build.operator(TaskType.INLINE, self.build.free("raise"), None, **inline_fields(expression, given))

    def _rendered(self, tree: ast.expr, at: ast.AST, *, apart: bool = False) -> tuple[Expression, dict[str, str]]:
        """An expression, and what its names stand for; `apart`: by names that are none of a step, which a loop's condition sees."""
        nodes = nodes_of(tree)
        slots = [one for one in nodes if isinstance(one, Slot)]
        self._check_annotated(nodes, slots, at)
        local = {one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one, Slot)}
        paths: dict[str, str] = {}
        names: dict[str, str] = {}
        for slot in slots:
            path = slot.reference._path
            if path not in paths:
                wanted = slot.name or next(iter(names_of((slot.reference,)).values()))
                if not wanted.isidentifier() or keyword.iskeyword(wanted) or wanted in BUILTINS or wanted in _INTERNAL:
                    wanted = f"{''.join(one if one.isalnum() else '_' for one in wanted)}_value"
                name, more = wanted, 2
                while name in names or name in local or (apart and self.build.has(name)):
                    name, more = f"{wanted}_{more}", more + 1
                paths[path] = name
                names[name] = self.build.written(slot.reference)
        try:
            return render(_named(tree, paths), names), names
        except ExpressionRefused as error:
            where = ast.Name(id="x", ctx=ast.Load())
            ast.copy_location(where, at)
            if error.lineno is not None and error.lineno > 1:
                where.lineno, where.col_offset = error.lineno, error.col_offset or 0
                where.end_lineno, where.end_col_offset = error.end_lineno, error.end_col_offset
            raise self.source.error(where, str(error)) from None

    def _check_annotated(self, nodes: Sequence[ast.AST], slots: Sequence[Slot], at: ast.AST) -> None:
        """Refuse to compute with what a task returns whose annotation does not say it."""
        inside = {
            id(one.value)
            for one in nodes
            if isinstance(one, ast.Attribute) or (isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant))
        }
        for slot in slots:
            if slot.empties and all(field_names(arm) is None for arm in get_args(slot.kind)):
                raise self.source.error(
                    at,
                    f"{ast.unparse(slot)} is a map or None, which are the same when the map is empty; "
                    "have the task return a record or None, or a list of no or one map",
                )
            if slot.unannotated is not None and id(slot) not in inside:
                raise self.source.error(
                    at,
                    f"{slot.unannotated} does not say what it returns, so its value cannot be computed with; "
                    f"annotate it: `def {slot.unannotated}(...) -> int:`",
                )

    # ------------------------------------------------------------------ cases

    def switch(self, tree: ast.expr, base: str, at: ast.AST) -> Step:
        """A SWITCH on the truth of an expression."""
        expression, given = self._rendered(truth(tree), at)
        return self.build.operator(TaskType.SWITCH, self.build.free(base), None, **switch_fields(expression, given))

    def case(self, step: Step, key: str | None, block: Block) -> None:
        """Put the steps of a block into a case of a SWITCH, None: into the default."""
        if key is None:
            self.build.replace(step, default_case=block.tasks)
        else:
            cases = dict(self.build.task_of(step).decision_cases)
            self.build.replace(step, decision_cases={**cases, key: tuple(block.tasks)})

    def chosen(self, step: Step, at: ast.AST) -> ast.expr:
        """Return the case that a SWITCH chose, as an expression."""
        slot = Slot(Reference(f"{step.ref}.output.selectedCase", step), str, step.ref)
        return ast.copy_location(slot, at)

    def condition(self, tree: ast.expr, at: ast.AST) -> dict[str, Any]:
        """The fields of a DO_WHILE that goes on while an expression is true."""
        expression, given = self._rendered(truth(tree), at, apart=True)
        return dict(condition_fields(expression, given))

    def refuse(self, at: ast.AST, problem: str) -> BuildError:
        """The error for what a flow cannot have."""
        return self.source.error(at, problem)


def _named(tree: ast.expr, paths: dict[str, str]) -> ast.expr:
    """A copy of a tree with names in place of slots."""

    def name_of(one: ast.AST) -> ast.AST | None:
        if not isinstance(one, Slot):
            return None
        name = ast.copy_location(ast.Name(id=paths[one.reference._path], ctx=ast.Load()), one)
        if not one.empties:
            return name
        nothing = ast.copy_location(ast.Constant(None), one)
        return ast.copy_location(ast.BoolOp(op=ast.Or(), values=[name, nothing]), one)

    return replaced(tree, name_of)
