"""`try` of a flow.

Around one call the step is optional, and what follows asks how it has ended. Around more, the statements are a workflow of their
own (SUB_WORKFLOW, optional): it gets what they read, and puts out the names that they assign, and how they were left: a `return`,
`break` or `continue` within them is a value there, on which the statements after it act.

A name that had a value before and gets another one within is a variable of that workflow, put out also where it fails: the
handlers see what it had then. `finally` is what follows such a step, before its failure is raised again.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from conductorlite.flows.build import Block, Reference, Step
from conductorlite.flows.flow import Flow, human, receive, terminate, wait
from conductorlite.flows.forms import enclosed
from conductorlite.flows.reading.expressions import EXIT, RESULT, Tracked
from conductorlite.flows.reading.loops import Body, ways_of
from conductorlite.flows.reading.names import bound_names
from conductorlite.flows.reading.raising import class_name_of
from conductorlite.flows.reading.values import (
    CaughtError,
    Later,
    Maybe,
    Now,
    Slot,
    Value,
    later,
    nodes_of,
    path_of,
    shares_of,
    tree_of,
)
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.definitions import SubWorkflowParams, TaskType, TimeoutPolicy, WorkflowDef
from conductorlite.model.errors import InvalidInput
from conductorlite.plan.tree import walk

__all__ = ["Compiled", "Tries"]


class Compiled(ast.stmt):
    """A statement that stands for no text: `carry` compiles it, `body` is what it ends with."""

    _fields = ()

    def __init__(self, carry: Callable[[], None], body: Sequence[ast.stmt] = ()) -> None:
        super().__init__()
        self.carry, self.body = carry, list(body)


#: Types of steps that are not carried out again after their time, unless their call says so.
_ASKED_ONCE: Final = (TaskType.HUMAN, TaskType.WAIT, TaskType.PULL_WORKFLOW_MESSAGES)

#: What cannot stand in a workflow of its own, and what to write instead.
_NOT_WITHIN: Final[dict[str, str]] = {
    TaskType.TERMINATE: (
        "`terminate` in an `if`, a loop or a `finally` within a `try` would end those statements alone; write it after the `try`"
    ),
    TaskType.PULL_WORKFLOW_MESSAGES: (
        "a message is sent to the execution; an `if`, a loop or a `finally` within a `try` is one of its own, which gets none: "
        "receive it before, or as a statement of the `try`"
    ),
}


class Tries:
    """Compiles the `try` statements of one function."""

    def __init__(self, statements: Body) -> None:
        self._in = statements
        self._of = statements.of
        self._steps = statements.steps
        self._build = statements.steps.build
        #: Steps whose failures the handlers around the present statement handle, the innermost last.
        self._handled: list[Step] = []

    def opened(self, node: ast.Try) -> list[ast.stmt]:
        """Compile what is tried; gives the statements that come next."""
        names = [self._names_of(handler) for handler in node.handlers]  # refused before anything is compiled
        before = self._of.keys_raise
        self._of.keys_raise = before or any(one in ("KeyError", "LookupError") for kinds in names for one in kinds or ())
        try:
            return self._opened(node)
        finally:
            self._of.keys_raise = before

    def _opened(self, node: ast.Try) -> list[ast.stmt]:
        if node.finalbody and node.handlers:
            inner = ast.copy_location(ast.Try(body=node.body, handlers=node.handlers, orelse=node.orelse, finalbody=[]), node)
            inner.end_lineno = (node.orelse or node.handlers)[-1].end_lineno
            return self._finally([inner], node)
        if node.finalbody:
            return self._finally([*node.body, *node.orelse], node)
        place = next((place for place, one in enumerate(node.body) if self._stands_alone(one)), None)
        if place is not None and len(node.body) > 1:
            return self._opened(self._parted(node, max(place, 1)))
        if place is not None and self._calls(node.body[0], terminate):  # which nothing handles
            return [self.placed(Compiled(lambda: self._in.block(node.body), node.body), node), *node.orelse]
        call = self._one_call(node.body, node)
        if call is not None:
            step, done = call
            return [self._on_end(step, [done, *node.orelse], self._handling(step, node), node)]
        made = self._enclosed(node.body, node)
        return [self._on_end(made.step, [made.outcome, *node.orelse], self._handling(made.step, node), node)]

    def _stands_alone(self, statement: ast.stmt) -> bool:
        """Return True if a statement is one call that cannot be made in a workflow of its own."""
        return self._calls(statement, receive) or self._calls(statement, terminate)

    def _calls(self, statement: ast.stmt, form: Callable[..., Any]) -> bool:
        call = getattr(statement, "value", None)
        call = call.value if isinstance(call, ast.Await) else call
        return isinstance(call, ast.Call) and self._of.is_step(call) and self._of.callee(call.func) is form

    def _parted(self, node: ast.Try, place: int) -> ast.Try:
        """The same `try` as one of the first statements, with the others tried in its `else`."""
        rest = ast.Try(body=node.body[place:], handlers=node.handlers, orelse=node.orelse, finalbody=[])
        ast.copy_location(rest, node.body[place])
        rest.end_lineno = node.end_lineno
        first = ast.Try(body=node.body[:place], handlers=node.handlers, orelse=[rest], finalbody=[])
        return ast.copy_location(first, node)

    def raises_again(self, node: ast.Raise) -> bool:
        """Compile a `raise` of what is being handled, by itself or by its name; return True if it is one."""
        step = self._handled[-1] if self._handled else None
        if node.exc is not None:
            found = self._of.scope.get(node.exc.id) if isinstance(node.exc, ast.Name) else None
            if isinstance(found, Maybe):
                self._of.load(cast(ast.Name, node.exc))  # says why it cannot be read
            step = found.tree.reference._step if isinstance(found, Later) and found.kind is CaughtError else None  # type: ignore[attr-defined]
        if step is None:
            return False
        self._again(step, node)
        return True

    # ------------------------------------------------------------------ what follows

    def _finally(self, body: list[ast.stmt], node: ast.Try) -> list[ast.stmt]:
        """Compile what is tried; return its statements, those of `finally`, then how it has ended."""
        call = None if node.handlers else self._one_call(body, node)
        if call is not None:
            step, done = call
            return [self._final(node, frozenset()), self._on_end(step, [done], [self._reraise(step, node)], node)]
        made = self._enclosed(body, node)
        made.kept = frozenset(bound_names(node.finalbody))
        return [self._final(node, made.returned), self._on_end(made.step, [made.outcome], [self._reraise(made.step, node)], node)]

    def _final(self, node: ast.Try, returned: frozenset[str]) -> ast.stmt:
        """The statements of `finally`, which may not change what is returned."""

        def carry() -> None:
            self._in.changes.returned.append(returned)
            try:
                self._in.block(node.finalbody)
            finally:
                self._in.changes.returned.pop()

        return self.placed(Compiled(carry, node.finalbody), node)

    def _on_end(self, step: Step | None, done: list[ast.stmt], failed: list[ast.stmt], node: ast.Try) -> ast.stmt:
        """Statements for when a step has completed, and for when it has not. Without a step nothing can fail."""
        if step is None:
            return self.placed(Compiled(lambda: self._in.block(done), done), node)
        ended = Slot(Reference(f"{step.ref}.status", step), str, f"{step.ref}_status")
        test = ast.Compare(left=ended, ops=[ast.Eq()], comparators=[ast.Constant("COMPLETED")])
        return self.placed(ast.If(test=test, body=done, orelse=failed), node)

    def placed(self, made: ast.stmt, node: ast.AST) -> ast.stmt:
        """A statement at the end of another one."""
        end = node.end_lineno or node.lineno  # type: ignore[attr-defined]
        ast.copy_location(made, node)
        made.end_lineno = end
        for one in nodes_of(made):
            if isinstance(one, ast.expr | ast.stmt) and not hasattr(one, "lineno"):
                ast.copy_location(one, node)
        return made

    def _reraise(self, step: Step | None, node: ast.AST) -> ast.stmt:
        return self.placed(Compiled(lambda: self._again(cast(Step, step), node), [ast.Raise()]), node)

    def _again(self, step: Step, at: ast.AST) -> None:
        """Fail as a step has failed."""
        slots = [Slot(Reference(f"{step.ref}.{member}", step), Any, word) for member, word in _MEMBERS.items()]
        tree = ast.Call(func=ast.Name(id="reraise", ctx=ast.Load()), args=[*slots], keywords=[])
        self._steps.failing(ast.fix_missing_locations(ast.copy_location(tree, at)), at)
        self._of.scope[EXIT] = Now("raise")

    # ------------------------------------------------------------------ handlers

    def _handling(self, step: Step | None, node: ast.Try) -> list[ast.stmt]:
        """The handlers, one after the other, and the failure again where none is for it."""
        made: list[ast.stmt] = [self._reraise(step, node)]
        if step is None:
            return made
        for handler in reversed(node.handlers):
            names = self._names_of(handler)
            body: list[ast.stmt] = [self._handler(step, handler)]
            if names is None and self._build.task_of(step).type != TaskType.SUB_WORKFLOW:
                made = body
                continue
            error = Slot(Reference(f"{step.ref}.error", step), Any, f"{step.ref}_error")
            made = [self.placed(ast.If(test=_catches(error, names), body=body, orelse=made), handler)]
        return made

    def _handler(self, step: Step, handler: ast.ExceptHandler) -> ast.stmt:
        def carry() -> None:
            name = handler.name
            if name is not None:
                self._of.handles = True
                self._of.scope[name] = Later(Slot(Reference(f"{step.ref}.error", step), CaughtError, name))
            self._handled.append(step)
            try:
                self._in.block(handler.body)
            finally:
                self._handled.pop()
            if name is not None:
                self._of.scope[name] = Maybe("is gone after its `except`; assign what is needed of it to another name")

        return self.placed(Compiled(carry, handler.body), handler)

    def _names_of(self, handler: ast.ExceptHandler) -> tuple[str, ...] | None:
        """The names of the types that a handler is for; None: all."""
        if handler.type is None:
            return None
        listed = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        found: list[str] = []
        for one in listed:
            try:
                kind = self._of.callee(one)
            except LookupError:
                kind = None
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                raise self._steps.refuse(one, "a flow handles classes of exceptions that its module knows: `except ValueError:`")
            if kind in (Exception, BaseException):
                return None
            if not issubclass(kind, Exception):
                raise self._steps.refuse(
                    one,
                    f"no step raises {kind.__name__}: the termination of an execution is not handled; write `except Exception:`",
                )
            found.append(class_name_of(kind))
        return tuple(found)

    # ------------------------------------------------------------------ one call

    def _one_call(self, body: list[ast.stmt], node: ast.Try) -> tuple[Step, ast.stmt] | None:
        """The step of the one call that is tried, and the statement that takes its value; None where there is more."""
        statement = body[0]
        call = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) else None
        call = call.value if isinstance(call, ast.Await) else call
        if len(body) > 1 or not isinstance(call, ast.Call) or not self._is_one_step(call):
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        if any(one is not None and not isinstance(one, ast.Name) for one in targets) or _is_read(names, node.finalbody):
            return None
        for one in (*call.args, *(word.value for word in call.keywords)):
            if self._of.has_step(one):
                return None
            given = self._of.value(one)
            if isinstance(given, Later) and not self._of.is_template(given):
                return None
        self._build.target = names[0] if names else "result" if isinstance(statement, ast.Return) else None
        value = self._of.value(call)
        reference = path_of(value.tree) if isinstance(value, Later) else None
        step = None if reference is None else reference._step
        if step is None:
            raise self._steps.refuse(call, "a flow tries one call of a task or a flow, by itself")
        self._let_fail(step)
        done: Any = copy.copy(statement)
        done.value = self._of.leaf(value, call)
        return step, done

    def _is_one_step(self, call: ast.Call) -> bool:
        if not self._of.is_step(call) or any(isinstance(one, ast.Starred) for one in call.args):
            return False
        found = self._of.callee(call.func)
        return isinstance(found, TaskFunction | Flow) or any(found is one for one in (human, receive, wait))

    def _let_fail(self, step: Step) -> None:
        """Have a step fail by itself: also when it runs out of time, which mostly ends the whole execution."""
        task = self._build.task_of(step)
        defined = task.task_definition or self._build.workers.task_defs.get(task.name)
        if defined is not None and defined.timeout_policy in (None, TimeoutPolicy.TIME_OUT_WF):
            times = (defined.timeout_ms, defined.total_timeout_ms, defined.response_timeout_ms, defined.poll_timeout_ms)
            if any(times):
                retries = 0 if task.type in _ASKED_ONCE else defined.retry_count
                defined = attrs.evolve(defined, timeout_policy=TimeoutPolicy.RETRY, retry_count=retries)
                self._build.replace(step, task_definition=defined)
        self._build.replace(step, optional=True)

    # ------------------------------------------------------------------ several statements

    def _enclosed(self, body: Sequence[ast.stmt], node: ast.Try) -> _Enclosed:
        """Compile statements as a workflow of their own."""
        of, build = self._of, self._build
        body = self._after_known(body)
        before, outer = dict(of.scope), of.tracked
        assigned = list(dict.fromkeys(bound_names(list(body))))
        tracked = {name: Tracked(build.variable(name)) for name in assigned if self._is_tracked(name, body, node)}
        step = build.operator(TaskType.SUB_WORKFLOW, build.free("try"), None)
        block = Block(owner=step)
        try:
            with build.within(block):
                if tracked:
                    given = {one.key: self._steps.argument(cast(Value, before[name]), name, node) for name, one in tracked.items()}
                    base = build.free(f"{step.ref}_begins")
                    build.operator(TaskType.SET_VARIABLE, base, None, input_parameters=build.written(given))
                of.scope[EXIT], of.tracked = Now("next"), tracked
                self._in.block(body)
                of.tracked = {}
                made = _Enclosed(self, step, node, before)
                outputs = made.outputs(assigned, tracked, body[-1])
        finally:
            of.tracked = outer
        if all(task.type == TaskType.SET_VARIABLE for task in block.tasks):
            for one in (*reversed(block.steps), step):
                build.remove(one)
            made.step = None
            of.scope[EXIT] = Now("next")
            return made
        of.scope = before
        self._check_within(block, node)
        self._close(step, block, outputs)
        for name in assigned:
            self._bind_failed(step, name, tracked.get(name), before.get(name), node)
        return made

    def _after_known(self, body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
        """The statements after those at the beginning that assign what is known now, which cannot fail: they are compiled."""
        for place, one in enumerate(body[:-1]):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
            value = getattr(one, "value", None)
            if not targets or value is None or not all(isinstance(target, ast.Name) for target in targets):
                return body[place:]
            if self._of.has_step(value) or not isinstance(self._of.value(value), Now):
                return body[place:]
            self._in.block([one])
        return body[-1:]

    def _bind_failed(self, step: Step, name: str, one: Tracked | None, before: Any, node: ast.AST) -> None:
        """Bind what a name has after the statements, however they have ended."""
        if one is not None:
            kinds = {*one.kinds, type(before.value) if isinstance(before, Now) else before.kind}
            value = later(Reference(f"{step.ref}.output.{_key(name)}", step), _common(kinds), name)
            value = Later(value.tree, value.shares | one.shares | shares_of(before))
            self._of.bind(ast.copy_location(ast.Name(id=name, ctx=ast.Store()), node), value)
        elif before is None or isinstance(before, Maybe):
            self._of.scope[name] = Maybe(
                "may be unassigned here, as the `try` may fail before; assign it before the `try`, or in each `except`"
            )
        else:
            self._of.scope[name] = Maybe("is read where no value of it is kept")

    def _is_tracked(self, name: str, body: Sequence[ast.stmt], node: ast.Try) -> bool:
        """Return True if what a name has where a statement fails is read afterwards."""
        found = self._of.scope.get(name)
        if found is None or isinstance(found, Maybe) or (isinstance(found, Later) and found.kind is CaughtError):
            return False
        if isinstance(found, Now):
            try:
                tree_of(found, node)
            except InvalidInput:
                return False
        if name in self._of.tracked:
            return True
        handlers = [] if isinstance(body[0], ast.Try) and node.finalbody else node.handlers
        if _is_read([name], [*(statement for one in handlers for statement in one.body), *node.finalbody]):
            return True
        goes_on = not node.finalbody and not all(_leaves(one.body) for one in handlers)
        goes_on = goes_on or any(map(_jumps, (*(one.body for one in handlers), node.finalbody)))
        return goes_on and self._in.is_read_after(name, body[-1])

    def _check_within(self, block: Block, node: ast.Try) -> None:
        for place in walk(WorkflowDef(name="try", tasks=block.tasks)):
            if place.task.type in _NOT_WITHIN:
                raise self._steps.refuse(node.body[0], _NOT_WITHIN[place.task.type])

    def _close(self, step: Step, block: Block, outputs: dict[str, Any]) -> None:
        name = f"{self._build.name}_{step.ref}"
        inner = WorkflowDef(name=name, tasks=block.tasks, output_parameters=outputs)
        definition, given = enclosed(inner, set(self._build.steps_of(block)))
        param = SubWorkflowParams(name=name, version=definition.version, workflow_definition=definition)
        self._build.replace(step, input_parameters=given, sub_workflow_param=param, optional=True)


class _Enclosed:
    """Statements that are a workflow of their own: its step, None where they have none of their own, and what it leaves."""

    def __init__(self, tries: Tries, step: Step, node: ast.Try, before: Mapping[str, Any]) -> None:
        self.step: Step | None = step
        self._of = tries._of
        self._in = tries._in
        self._steps = tries._steps
        self._ref = step
        self._node = node
        self._before = before
        self._exit, self._result = cast(Value, self._of.scope[EXIT]), cast(Value, self._of.scope[RESULT])
        ways = ways_of(self._exit.tree) if isinstance(self._exit, Later) else frozenset((str(self._exit.value),))
        self._ways = sorted(ways)
        self._values: dict[str, Value | Maybe] = {}
        #: The lists and dicts that what they return may be or hold.
        self.returned = shares_of(self._result) if "return" in ways else frozenset()
        #: What they return, outside of their workflow.
        self._put_out: Value | None = None
        #: Names that `finally` assigns, which keep what they have after it.
        self.kept: frozenset[str] = frozenset()
        #: The statement that takes over names, and how the statements were left.
        self.outcome: ast.stmt = tries.placed(Compiled(self._take), node)

    def outputs(self, assigned: Sequence[str], tracked: Mapping[str, Tracked], last: ast.stmt) -> dict[str, Any]:
        """Return what the workflow puts out; called within its block."""
        made: dict[str, Any] = {}
        for name in assigned:
            value = self._of.scope.get(name)
            if name in tracked:
                made[_key(name)] = f"${{workflow.variables.{tracked[name].key}}}"
            if value is None or isinstance(value, Maybe | Now) or value is self._before.get(name):
                self._values[name] = Maybe("may be unassigned here") if value is None else value
            elif value.kind is CaughtError or not (name in tracked or self._in.is_read_after(name, last)):
                self._values[name] = Maybe("is read where no value of it is kept")
            else:
                if name not in tracked:
                    made[_key(name)] = self._written(value, name)
                self._values[name] = self._given(_key(name), value, name)
        if len(self._ways) > 1:
            made[_LEFT] = self._written(self._exit, "left")
        if "return" in self._ways and isinstance(self._result, Later):
            made[_RESULT] = self._written(self._result, "result")
            self._put_out = self._given(_RESULT, self._result, "result")
        return made

    def _written(self, value: Value, name: str) -> Any:
        return self._steps.build.written(self._steps.argument(value, name, self._node))

    def _given(self, key: str, value: Later, name: str) -> Later:
        """A value of the workflow outside of it."""
        unannotated = value.tree.unannotated if isinstance(value.tree, Slot) else None
        made = later(Reference(f"{self._ref.ref}.output.{key}", self._ref), value.kind, name, unannotated)
        return Later(made.tree, made.shares | value.shares)

    def _take(self) -> None:
        scope = self._of.scope
        if self.step is not None:
            self._result = self._put_out or self._result
            scope.update({name: value for name, value in self._values.items() if name not in self.kept})
        scope[RESULT] = self._result if "return" in self._ways else scope[RESULT]
        if self.step is None:
            scope[EXIT] = self._exit
            return
        left = Slot(Reference(f"{self._ref.ref}.output.{_LEFT}", self._ref), str, f"{self._ref.ref}_left")
        tree: ast.expr = ast.Constant(self._ways[0])
        for way in self._ways[1:]:
            test = ast.Compare(left=copy.copy(left), ops=[ast.Eq()], comparators=[ast.Constant(way)])
            tree = ast.IfExp(test=test, body=ast.Constant(way), orelse=tree)
        located = ast.fix_missing_locations(ast.copy_location(tree, self._node))
        scope[EXIT] = Now(self._ways[0]) if len(self._ways) == 1 else Later(located)


#: Under which keys a workflow of tried statements says how they were left, and what they returned.
_LEFT: Final = "_left"
_RESULT: Final = "_result"
_TAKEN: Final = frozenset({_LEFT, _RESULT, "subWorkflowId"})

#: What is read of a step that has failed, and what an expression calls it.
_MEMBERS: Final = {"error": "error", "reasonForIncompletion": "reason"}


def _key(name: str) -> str:
    """Under which key a name is put out."""
    return f"{name}_" if name.rstrip("_") in _TAKEN else name


def _common(kinds: set[Any]) -> Any:
    """The kind of what is of one of several kinds."""
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {int, float, bool}:
        return float
    return list if all(kind is list or getattr(kind, "__origin__", None) is list for kind in kinds) else Any


def _is_read(names: Sequence[str], body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for statement in body for one in nodes_of(statement))


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Return True if statements always leave the function."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def _jumps(body: Sequence[ast.stmt]) -> bool:
    """Return True if statements may leave a loop around them, or the round of it."""
    return any(isinstance(one, ast.Break | ast.Continue) for statement in body for one in nodes_of(statement))


def _catches(error: ast.expr, names: tuple[str, ...] | None) -> ast.expr:
    """Return a condition: a handler of these types is for what a step has raised; None: for all but an execution's termination."""
    classes = ast.Subscript(value=error, slice=ast.Constant("classes"), ctx=ast.Load())
    found: list[ast.expr] = [
        ast.Compare(left=ast.Constant(name), ops=[ast.In()], comparators=[classes]) for name in names or ("Exception",)
    ]
    one = found[0] if len(found) == 1 else ast.BoolOp(op=ast.Or(), values=found)
    is_none: ast.cmpop = ast.Is() if names is None else ast.IsNot()
    test = ast.Compare(left=error, ops=[is_none], comparators=[ast.Constant(None)])
    return ast.BoolOp(op=ast.Or() if names is None else ast.And(), values=[test, one])
