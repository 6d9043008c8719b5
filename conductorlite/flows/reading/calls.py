"""Calls in a flow: tasks, other flows and forms become steps; comprehensions of such calls become forks."""

from __future__ import annotations

import ast
import asyncio
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, cast, get_args

from conductorlite.flows.build import Block, Reference, current
from conductorlite.flows.flow import Flow, human, inline, now, receive
from conductorlite.flows.forms import each, join_branches, parallel
from conductorlite.flows.reading.expressions import Expressions
from conductorlite.flows.reading.names import FORMS, is_constructor
from conductorlite.flows.reading.values import Later, Now, Slot, Value, later, nodes_of, path_of, shares_in
from conductorlite.flows.schemas import is_whole
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import BuildError, ConductorliteError
from conductorlite.model.executions import TaskResult

__all__ = ["READING", "Calls", "calls_steps"]

#: The functions of the flows that are being read, the innermost last: a call of one of them is made by its name.
READING: Final[ContextVar[tuple[Callable[..., Any], ...]]] = ContextVar("conductorlite_reading", default=())


class Calls:
    """Compiles calls in one function."""

    def __init__(self, expressions: Expressions) -> None:
        self._of = expressions
        self._steps = expressions.steps
        self._build = expressions.steps.build
        self.forms: tuple[Any, ...] = (*FORMS, asyncio.gather)

    def is_undecorated(self, found: object) -> bool:
        """Return True if what is called is a function that would run while the flow is compiled."""
        return callable(found) and not is_constructor(found)

    def instead_of(self, found: object) -> str:
        """Return what to do about the call of a function that would run while the flow is compiled."""
        if calls_steps(found):
            return "it calls tasks, so decorate it with @flow"
        mine = getattr(found, "__module__", None) == self._of.around.module
        return "decorate it with @task" if mine else "call it in a function of yours, and decorate it with @task"

    # ------------------------------------------------------------------ steps

    def step(self, call: ast.Call) -> Value:
        """Add the step that a call is; gives what it will return."""
        found = self._of.callee(call.func)
        if found is now:
            return self._time(call)
        if any(found is one for one in (parallel, asyncio.gather)):
            return self._parallel(call)
        if isinstance(found, TaskFunction | Flow):
            return self._decorated(call, found)
        args, named = self._arguments(call, getattr(found, "__name__", "form"), list(_names_of_parameters(found)))
        reference = self._placed(call, cast(Callable[..., Any], found), args, named)
        if reference is None:
            return Now(None)
        if found is human or found is receive:
            kind = args[1] if len(args) > 1 else named.get("returns", dict)
            return later(reference, kind)
        if found is each:
            do = args[1] if len(args) > 1 else named.get("do")
            return later(reference, list[do.returns])  # type: ignore[name-defined]
        return later(reference, Any if found is inline else dict[str, Any])

    def _time(self, call: ast.Call) -> Value:
        """The time of a step that does nothing else, in seconds."""
        given = {"evaluatorType": "value-param", "expression": "now", "now": 0}
        step = self._build.operator(TaskType.INLINE, self._build.free("now"), None, input_parameters=given)
        began = Slot(Reference(f"{step.ref}.startTime", step), int, step.ref)
        return Later(ast.fix_missing_locations(ast.copy_location(ast.BinOp(began, ast.Div(), ast.Constant(1000.0)), call)))

    def _decorated(self, call: ast.Call, found: TaskFunction[..., Any] | Flow[..., Any]) -> Value:
        if isinstance(call.func, ast.Call):
            for one in (*call.func.args, *(word.value for word in call.func.keywords)):
                if not isinstance(self._of.value(one), Now):
                    raise self._steps.refuse(
                        one, "the options of a call are known when the flow is compiled; give values of steps as arguments"
                    )
        made = self._of.value(call.func)
        callee = cast(Now, made).value
        name = callee.task_type if isinstance(callee, TaskFunction) else callee.name
        args, named = self._arguments(call, name, list(callee.parameters))
        again = isinstance(callee, Flow) and is_read(callee)
        reference = self._placed(call, callee.called_again if again else callee, args, named)
        kind = callee.returns
        unannotated = name if kind in (Any, object) else None
        if TaskResult in (kind, *get_args(kind)):  # the output is whatever the result says
            kind = Any
        return later(reference, kind, None, unannotated)

    def _placed(self, call: ast.Call, made: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
        try:
            return made(*args, **named)
        except BuildError as error:
            said = str(error).removeprefix(f"{self._build.name}: ")
            raise (error if "\n  file " in str(error) else self._steps.refuse(call, said)) from None
        except (ConductorliteError, TypeError, ValueError) as error:
            raise self._steps.refuse(call, str(error)) from None

    def _arguments(self, call: ast.Call, base: str, parameters: list[str]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call as the builder takes them, computed in their order."""
        parts: list[tuple[str | None, ast.expr]] = []
        for one in call.args:
            if isinstance(one, ast.Starred):
                raise self._steps.refuse(one, "write out each argument: how many there are is known when the flow is compiled")
            parts.append((None, one))
        for given in call.keywords:
            if given.arg is None:
                raise self._steps.refuse(given.value, "write out each argument by its name, instead of **")
            parts.append((given.arg, given.value))
        last = max((place for place, (_, one) in enumerate(parts) if self._of.has_step(one)), default=-1)
        values: list[tuple[str | None, Value, str, ast.expr]] = []
        for place, (name, one) in enumerate(parts):
            value = self._of.value(one)
            word = name or (parameters[place] if place < len(parameters) else "value")
            if isinstance(value, Later) and place < last and path_of(value.tree) is None:
                value = self._steps.computed(value, f"{base}_{word}", one)
            values.append((name, value, word, one))
        made = [(name, self._steps.argument(value, f"{base}_{word}", one)) for name, value, word, one in values]
        return [value for name, value in made if name is None], {name: value for name, value in made if name is not None}

    def computed_now(self, call: ast.Call) -> Now:
        """`now(...)`: whatever it is, computed when the flow is compiled; `now()`: the time."""
        if len(call.args) != 1 or call.keywords:
            raise self._steps.refuse(call, "now(...) takes one value, to be computed when the flow is compiled")
        if self._of.has_step(call):
            raise self._steps.refuse(call, "now(...) is computed when the flow is compiled, so it has no steps in it")
        for one in nodes_of(call.args[0]):
            if isinstance(one, ast.Name) and one.id in self._of.local and isinstance(self._of.load(one), Later):
                raise self._steps.refuse(one, f"{one.id!r} is known when the flow runs, and now(...) is computed before")
        try:
            return Now(self._of.evaluated(call.args[0]))
        except Exception as error:  # whatever the program's own function raises
            raise self._steps.refuse(call, f"{type(error).__name__}: {error}") from error

    # ------------------------------------------------------------------ side by side

    def _parallel(self, call: ast.Call) -> Value:
        values: list[Value] = []
        given: list[Reference] = []
        for one in call.args:
            inner = one.value if isinstance(one, ast.Await) else one
            if isinstance(inner, ast.Starred) or not self._of.is_step(inner):
                raise self._steps.refuse(
                    one,
                    "takes calls of tasks and flows, made in its brackets; `[task(x) for x in xs]` is all at once by itself",
                )
            value = self._of.value(inner)
            reference = path_of(value.tree) if isinstance(value, Later) else None
            if reference is None:
                raise self._steps.refuse(one, "takes calls that give a value of one step")
            values.append(value)
            given.append(reference)
        options = {word.arg: word.value for word in call.keywords}
        made: dict[str, Any] = {}
        for key, node_of in options.items():
            known = self._of.value(node_of)
            if key is None or not isinstance(known, Now):
                raise self._steps.refuse(node_of, "is known when the flow is compiled")
            made[key] = known.value
        self._placed(call, parallel, list(given), made)
        tree = ast.Tuple(elts=[self._of.leaf(value, call) for value in values], ctx=ast.Load())
        return Later(ast.copy_location(tree, call), shares_in(tree))

    def comprehension(self, made: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Value:
        """A list of calls: all at once, in a fork."""
        if not isinstance(made, ast.ListComp):
            raise self._steps.refuse(made, "calls of tasks are made in a list: write `[...]`, whose calls are made all at once")
        if len(made.generators) > 1:
            raise self._steps.refuse(made, "a list of calls has one `for`: write a flow for the inner one, or a `for` statement")
        part = made.generators[0]
        if part.is_async:
            raise self._steps.refuse(made, "`async for` is not part of a flow; write `for`")
        if any(self._of.has_step(test) for test in part.ifs):
            raise self._steps.refuse(
                part.ifs[0], "a task is called in the condition of a list of calls; call it in a `for` statement"
            )
        items = self._of.value(part.iter)
        fixed = self.fixed(items)
        if fixed is not None and len(fixed) <= _MOST_BRANCHES and all(self._is_decided(part, one) for one in fixed):
            return self._fork(made, part, fixed)
        return self._dynamic(made, part, items)

    def fixed(self, items: Value) -> list[Value] | None:
        """The items of what is known now, or of a list that is written out; None for any other."""
        if isinstance(items, Now):
            try:
                return [Now(one) for one in items.value]
            except TypeError:
                return None
        if isinstance(items.tree, ast.List | ast.Tuple) and not any(isinstance(one, ast.Starred) for one in items.tree.elts):
            return [Now(one.value) if isinstance(one, ast.Constant) else Later(one, shares_in(one)) for one in items.tree.elts]
        return None

    def _is_decided(self, part: ast.comprehension, item: Value) -> bool:
        with self._of.bound(part.target, item):
            return all(isinstance(self._of.value(test), Now) for test in part.ifs)

    def _fork(self, made: ast.ListComp, part: ast.comprehension, items: list[Value]) -> Value:
        taken: list[Value] = []
        for item in items:
            with self._of.bound(part.target, item):
                tests = [self._of.value(test) for test in part.ifs]
            if all(isinstance(test, Now) and test.value for test in tests):
                taken.append(item)
        fork = self._build.operator(TaskType.FORK_JOIN, self._build.free("parallel"), None)
        branches, values = [], []
        for item in taken:
            block = Block(owner=fork)
            with self._of.bound(part.target, item), self._build.within(block):
                value = self._of.value(made.elt)
                if isinstance(value, Later) and block.tasks:
                    value = self._steps.reference(value, "value", made.elt)
                values.append(value)
            if block.tasks:
                branches.append(block.tasks)
        if not branches:
            self._build.remove(fork)
        else:
            join_branches(self._build, fork, branches)
        tree = ast.List(elts=[self._of.leaf(value, made) for value in values], ctx=ast.Load())
        if all(isinstance(value, Now) for value in values):
            return Now([value.value for value in values if isinstance(value, Now)])
        return self._of.closed(ast.copy_location(tree, made))

    def _dynamic(self, made: ast.ListComp, part: ast.comprehension, items: Value) -> Value:
        """A dynamic fork: the input of each call is computed before, the calls are made all at once."""
        call = made.elt.value if isinstance(made.elt, ast.Await) else made.elt
        if not isinstance(call, ast.Call) or not self._of.is_step(call):
            raise self._steps.refuse(
                made.elt, "each item of a list of calls is one call of a task or a flow: write a flow for more"
            )
        found = self._of.callee(call.func)
        if not isinstance(found, TaskFunction | Flow) or isinstance(call.func, ast.Call):
            raise self._steps.refuse(call, "each item of a list of calls is one call of a task or a flow, without options")
        if any(self._of.has_step(one) for one in (*call.args, *(word.value for word in call.keywords))):
            raise self._steps.refuse(
                call, "a call within a call of each item: write a flow that makes both, and call that for each item"
            )
        given = self._input_of(call, found)
        listed = ast.copy_location(ast.ListComp(elt=given, generators=[_over(part, self._of.leaf(items, part.iter))]), made)
        name = found.task_type if isinstance(found, TaskFunction) else found.name
        inputs = self._steps.reference(self._of.closed(listed), f"{name}_inputs", made)
        reference = self._placed(call, _forked, [found, path_of(inputs.tree)], {})
        return later(reference, list[found.returns])  # type: ignore[name-defined]

    def _input_of(self, call: ast.Call, found: TaskFunction[..., Any] | Flow[..., Any]) -> ast.Dict:
        names = list(found.parameters)
        if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
            raise self._steps.refuse(call, "write out each argument by its name")
        given = [*zip(names, call.args, strict=False), *((str(word.arg), word.value) for word in call.keywords)]
        try:
            found.bound([None for _ in call.args], {str(word.arg): None for word in call.keywords})
        except BuildError as error:
            raise self._steps.refuse(call, str(error)) from None
        keys: list[ast.expr | None] = [ast.copy_location(ast.Constant(key), call) for key, _ in given]
        return ast.copy_location(ast.Dict(keys=keys, values=[value for _, value in given]), call)


#: Most branches that a list known when the flow is compiled becomes; a longer one is forked when the flow runs.
_MOST_BRANCHES: Final = 50


def is_read(flow: Flow[..., Any]) -> bool:
    """Return True if a flow is being read: then its definition is not known yet, and a call of it is a recursion."""
    return any(flow.function is one for one in READING.get())


def _forked(do: TaskFunction[..., Any] | Flow[..., Any], inputs: Reference) -> Reference:
    """A dynamic fork whose items are the inputs of the calls."""
    build = current("each()")
    whole = is_whole(do.returns)
    if isinstance(do, TaskFunction):
        build.workers.include(do.workers)
        return build.each(do.task_type, {"forkTaskName": do.task_type, "forkTaskInputs": inputs}, whole=whole, name=None)
    if is_read(do):
        do.note_again(build)
    else:
        build.workers.include(do.workers)
        build.definitions |= {one.name: one for one in (*do.definitions, do.definition)}
    how = {"forkTaskWorkflow": do.name, "forkTaskWorkflowVersion": str(do.version)}
    return build.each(do.name, {**how, "forkTaskInputs": inputs}, whole=whole, name=None)


def calls_steps(found: object) -> bool:
    """Return True if a function calls tasks, flows or forms: it adds steps to the flow that calls it."""
    code = getattr(found, "__code__", None)
    names = getattr(found, "__globals__", {})
    if not isinstance(code, types.CodeType):
        return False
    called = [names.get(name) for name in (*code.co_names, *code.co_freevars)]
    modules = ("conductorlite.flows.flow", "conductorlite.flows.forms")
    return any(isinstance(one, TaskFunction | Flow) or getattr(one, "__module__", "") in modules for one in called)


def _over(part: ast.comprehension, items: ast.expr) -> ast.comprehension:
    return ast.comprehension(target=part.target, iter=items, ifs=part.ifs, is_async=0)


def _names_of_parameters(found: object) -> tuple[str, ...]:
    code = getattr(found, "__code__", None)
    return code.co_varnames[: code.co_argcount] if isinstance(code, types.CodeType) else ()
