"""The forms of a flow that hold steps: forks, cases, loops, and attempts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar, cast, overload

import attrs

from conductorlite.flows.build import Block, Build, Comparison, More, Reference, Step, current, names_of
from conductorlite.flows.flow import Flow
from conductorlite.flows.schemas import is_whole
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.definitions import SubWorkflowParams, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError
from conductorlite.plan.tree import walk

__all__ = [
    "Attempt", "Case", "Loop", "Match", "Parallel", "attempt", "each", "enclosed", "join_branches", "match", "otherwise", "over",
    "parallel", "repeat", "when",
]  # fmt: skip

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")

#: `${...}` without another in it.
_PATH: Final = re.compile(r"(?<!\$)\$\{([^${}]+)\}")


# ---------------------------------------------------------------------- branches that run side by side


class Parallel:
    """A fork whose branches are written in `with` blocks; its JOIN stands after it."""

    def __init__(self, name: str | None, join: str | bool, fields: More) -> None:
        self._given = (name, fields)
        self._join = join
        self._branches: list[Block] = []

    def __enter__(self) -> Parallel:
        self._build = current("parallel()")
        self._fork = self._build.operator(TaskType.FORK_JOIN, "parallel", *self._given)
        self._inside = self._build.within(Block())
        self._gap = self._inside.__enter__()
        return self

    @contextmanager
    def branch(self) -> Iterator[None]:
        """One branch: its steps run one after the other, beside those of the other branches."""
        block = Block(owner=self._fork)
        self._branches.append(block)
        with self._build.within(block):
            yield

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._inside.__exit__(None, None, None)
        if kind is None:
            if self._gap.tasks:
                raise BuildError(f"{self._fork.ref}: write each step of a parallel() in `with ....branch():`")
            join_branches(self._build, self._fork, [block.tasks for block in self._branches], self._join)


def join_branches(build: Build, fork: Step, branches: list[list[WorkflowTask]], join: str | bool = True) -> None:
    """Put branches into a FORK_JOIN, and a JOIN after it, unless `join` is False; raises BuildError for an empty branch."""
    if not branches or not all(branches):
        raise BuildError(f"{fork.ref}: has {'a branch without a step' if branches else 'no branch'}")
    build.replace(fork, fork_tasks=branches)
    if join:
        ends = [tasks[-1].task_reference_name for tasks in branches]
        build.operator(TaskType.JOIN, f"{fork.ref}_join", None if join is True else join, join_on=ends)


@overload
def parallel(*, name: str | None = None, join: str | bool = True, fields: More = None) -> Parallel: ...


@overload
def parallel(a: A, b: B, /, *, name: str | None = None, join: str | bool = True) -> tuple[A, B]: ...


@overload
def parallel(a: A, b: B, c: C, /, *, name: str | None = None, join: str | bool = True) -> tuple[A, B, C]: ...


@overload
def parallel(a: A, b: B, c: C, d: D, /, *, name: str | None = None, join: str | bool = True) -> tuple[A, B, C, D]: ...


@overload
def parallel(*steps: A, name: str | None = None, join: str | bool = True) -> tuple[A, ...]: ...


def parallel(*steps: Any, name: str | None = None, join: str | bool = True, fields: More = None) -> Any:
    """Run steps side by side and wait for all: `mail, car = parallel(send_mail(to), reserve_car(to))` (FORK_JOIN and JOIN).

    Without steps it opens a block, for branches of several steps: `with parallel() as fork:`, and in it `with fork.branch():`.
    `join` names the JOIN; with False there is none, and a `join(...)` of your own waits for some of the steps.
    """
    if not steps:
        return Parallel(name, join, fields)
    build = current("parallel()")
    taken = [build.take(step, "parallel()") for step in steps]
    fork = build.operator(TaskType.FORK_JOIN, "parallel", name, fields)
    for _, moved in taken:
        block = Block(owner=fork, steps=moved)
        for step in moved:
            step.block = block
    join_branches(build, fork, [tasks for tasks, _ in taken], join)
    return steps


def each(
    items: Iterable[A], do: TaskFunction[[A], R] | Flow[[A], R], *, name: str | None = None, join: str | None = None
) -> list[R]:
    """Run a task or a flow for each item of a list, side by side, and wait for all: their results, in the items' order.

    The number of items is known when the workflow comes to it (FORK_JOIN_DYNAMIC and JOIN, which `name` and `join` name). The task
    takes one argument, the item.
    """
    build = current("each()")
    if not isinstance(do, TaskFunction | Flow):
        raise BuildError(f"each(): the second argument is a task or a flow, to be called for each item; not {do!r:.60}")
    build.workers.include(do.workers)
    if isinstance(do, TaskFunction):
        what = do.task_type
        given: dict[str, Any] = {"forkTaskName": what}
    else:
        what = do.definition.name
        wrapper = do.of_item()
        build.definitions |= {one.name: one for one in (*do.definitions, wrapper)}
        given = {"forkTaskWorkflow": wrapper.name, "forkTaskWorkflowVersion": str(wrapper.version)}
    whole = do.gives_whole if isinstance(do, Flow) else is_whole(do.returns)
    found = build.each(what, {**given, "forkTaskInputs": items}, whole=whole, name=name, join=join)
    return cast(list[R], found)


# ---------------------------------------------------------------------- cases


@attrs.define(slots=True, eq=False, repr=False)
class Case:
    """Context manager of a case: a `with` opens it."""

    ref: str


class Match:
    """A SWITCH over one value; see `match`."""

    def __init__(self, build: Build, step: Step) -> None:
        self._build = build
        self._step = step

    @contextmanager
    def case(self, value: str | int | bool) -> Iterator[Case]:
        """The steps for a value. For several values, write `when((x == "a") | (x == "b"))`."""
        with self._opened() as block:
            yield Case(self._step.ref)
        self._add(value, block)

    def _add(self, value: str | int | bool, block: Block) -> None:
        cases = dict(self._build.task_of(self._step).decision_cases)
        key = str(value).lower() if isinstance(value, bool) else str(value)
        if key in cases:
            raise BuildError(f"{self._step.ref}: there are two cases {key!r}")
        cases[key] = tuple(block.tasks)
        self._build.replace(self._step, decision_cases=cases)

    def nothing(self, value: str | int | bool) -> None:
        """No steps for a value, which is not among all others then."""
        with self._opened(empty=True) as block:
            pass
        self._add(value, block)

    @contextmanager
    def otherwise(self) -> Iterator[Case]:
        """The steps for every other value."""
        with self._opened() as block:
            yield Case(self._step.ref)
        if self._build.task_of(self._step).default_case:
            raise BuildError(f"{self._step.ref}: has two otherwise")
        self._build.replace(self._step, default_case=block.tasks)

    @contextmanager
    def _opened(self, *, empty: bool = False) -> Iterator[Block]:
        if self._build.block is not self._step.block or self._build.block.steps[-1] is not self._step:
            raise BuildError(f"{self._step.ref}: another step stands between its cases; write them one after the other")
        block = Block(owner=self._step)
        with self._build.within(block):
            yield block
        if not block.tasks and not empty:
            raise BuildError(f"{self._step.ref}: a case has no step; write `match(...).nothing(value)` if nothing is to be done")


def match(value: Any = None, *, name: str | None = None, fields: More = None, **given: Any) -> Match:
    """Choose by a value: `kind = match(order.kind)`, then `with kind.case("gift"):` and `with kind.otherwise():` (SWITCH).

    `match(which=order.kind)` says the name under which the value stands in the task's input too. Or choose by what a script makes
    of values with names: `match("$.sum > 9 ? 'big' : 'small'", sum=order.sum)`.
    """
    build = current("match()")
    if isinstance(value, Reference) and not given:
        given = {next(iter(names_of((value,)).values())): value}
    elif not (value is None and len(given) == 1) and not (isinstance(value, str) and (given or fields)):
        raise BuildError(f"match(): chooses by a value of a step, not by {value!r:.60}")
    how, what = ("javascript", value) if isinstance(value, str) else ("value-param", next(iter(given)))
    made = {"evaluator_type": how, "expression": what, "input_parameters": build.written(given)}
    return Match(build, build.operator(TaskType.SWITCH, f"match_{'_'.join(given)}", name, fields, **made))


@contextmanager
def when(condition: Any, *, name: str | None = None, fields: More = None, **given: Any) -> Iterator[Case]:
    """The steps for when a condition holds: `with when(order.amount > 100):` (SWITCH). A value by itself holds when it is true.
    A script over values with names is a condition too: `when("$.amount % 2 == 0", amount=order.amount)`.

    `with otherwise():` after it has the steps for when it does not.
    """
    build = current("when()")
    if isinstance(condition, Reference):
        word = next(iter(names_of((condition,)).values()))
        found = match(condition, name=name or build.free(f"when_{word}"), fields=fields)
    elif isinstance(condition, Comparison) or (isinstance(condition, str) and (given or fields)):
        made = _condition(build, condition, given)
        words = "_".join(made["input_parameters"])
        found = Match(build, build.operator(TaskType.SWITCH, build.free(f"when_{words}"), name, fields, **made))
    else:
        raise BuildError(f"when(): takes a condition on values of steps, not {condition!r:.60}, which is known now: use `if`")
    with found.case(True) as case:
        yield case


def otherwise() -> AbstractContextManager[Case]:
    """The steps for when the condition of the `when` before it does not hold."""
    build = current("otherwise()")
    last = build.block.steps[-1] if build.block.steps else None
    if last is None or build.task_of(last).type != TaskType.SWITCH or "true" not in build.task_of(last).decision_cases:
        raise BuildError("otherwise(): stands right after the block of a `with when(...):`")
    return Match(build, last).otherwise()


def _condition(build: Build, condition: Comparison | str, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a task that evaluates a condition."""
    if isinstance(condition, str):
        return {"evaluator_type": "javascript", "expression": condition, "input_parameters": build.written(given)}
    names = names_of(condition.references)
    given = {names[reference._path]: build.written(reference) for reference in condition.references}
    return {"evaluator_type": "javascript", "expression": condition.written(names), "input_parameters": given}


# ---------------------------------------------------------------------- loops


class Loop:
    """The body of a DO_WHILE; see `repeat`."""

    def __init__(self, build: Build, step: Step, times: int | None) -> None:
        self._build = build
        self._step = step
        self._times = times
        self._condition: Comparison | str | None = None
        self._given: dict[str, Any] = {}

    @property
    def round(self) -> int:
        """The number of the present round, from 1."""
        return cast(int, Reference(f"{self._step.ref}.output.iteration", self._step))

    def again_if(self, condition: Any, **given: Any) -> None:
        """Go on with another round if a condition holds after this one; written within the loop, once.

        A script over values with names is a condition too: `loop.again_if("$.sum < $.limit", sum=total, limit=order.limit)`.
        """
        if isinstance(condition, Reference):
            condition = Comparison.of(condition, "==", True)
        if not isinstance(condition, Comparison | str):
            raise BuildError(f"{self._step.ref}: goes on by a condition on values of steps, not by {condition!r:.60}")
        if self._condition is not None:
            raise BuildError(f"{self._step.ref}: has two conditions; join them with `&` or `|`")
        self._condition, self._given = condition, self._build.written(given)

    def until(self, condition: Any) -> None:
        """End the loop when a condition holds after a round; written within the loop, once."""
        self.again_if(~condition)

    def written(self) -> dict[str, Any]:
        """The fields of the DO_WHILE."""
        if self._condition is None and self._times is None:
            raise BuildError(
                f"{self._step.ref}: never ends; write `repeat(10)`, or `loop.until(...)` or `loop.again_if(...)` within it"
            )
        given = self._given
        scripts: list[str] = []
        if self._times is not None:
            scripts.append(f"$.{self._step.ref}['iteration'] < {self._times}")
        if isinstance(self._condition, str):
            scripts.append(self._condition)
        elif self._condition is not None:
            names = names_of(self._condition.references)
            given = {names[one._path]: self._build.written(one) for one in self._condition.references}
            scripts.append(self._condition.written(names))
        return {
            "input_parameters": given,
            "loop_condition": " && ".join(f"({one})" for one in scripts) if len(scripts) > 1 else scripts[0],
        }


@contextmanager
def repeat(times: int | None = None, *, name: str | None = None, fields: More = None) -> Iterator[Loop]:
    """Repeat steps: `with repeat(10) as loop:` ten times, or until `loop.until(...)`, or as long as `loop.again_if(...)`
    (DO_WHILE).

    The steps run once at least. With `times` and a condition the loop ends with whichever comes first.
    """
    build = current("repeat()")
    step = build.operator(TaskType.DO_WHILE, build.free("repeat"), name, fields)
    block = Block(owner=step)
    loop = Loop(build, step, times)
    with build.within(block):
        yield loop
        made = loop.written()
    _close(build, step, block, **{key: value for key, value in made.items() if key not in (fields or ())})


@contextmanager
def over(items: Iterable[A], *, again_if: str | None = "true", name: str | None = None, fields: More = None) -> Iterator[A]:
    """Run steps for each item of a list, one item after the other: `with over(order.lines) as line:` (DO_WHILE with items).

    `again_if` is a script that has to hold after an item for the next one to follow; None: the list alone decides.
    """
    build = current("over()")
    if not isinstance(items, Reference) and not (isinstance(items, str) and "${" in items):
        raise BuildError(f"over(): takes a list that a step gives, not {items!r:.60}; for what is known now write `for`")
    made = {"items": build.written(items), "loop_condition": again_if}
    step = build.operator(TaskType.DO_WHILE, build.free("over"), name, fields, **made)
    block = Block(owner=step)
    with build.within(block):
        yield cast(A, Reference(f"{step.ref}.output.loopItem", step))
    _close(build, step, block)


def _close(build: Build, step: Step, block: Block, **fields: Any) -> None:
    if not block.tasks:
        raise BuildError(f"{step.ref}: has no step")
    build.replace(step, loop_over=block.tasks, **fields)


# ---------------------------------------------------------------------- failures


class Attempt:
    """Steps whose failure the flow handles; see `attempt`."""

    def __init__(self, build: Build, name: str | None) -> None:
        self._build = build
        self._name = name
        self._step: Step

    @property
    @contextmanager
    def failed(self) -> Iterator[Any]:
        """The steps for when one of the attempt's failed: `with tried.failed as error:`, where `error.reason` says why."""
        build, step = self._build, self._step
        if build.block is not step.block or build.block.steps[-1] is not step:
            raise BuildError(f"{step.ref}: `with tried.failed` stands right after the block of the attempt")
        status = Reference(f"{step.ref}.status", step)
        with when(status != "COMPLETED", name=build.free(f"{step.ref}_failed")):
            yield _Failure(step)


class _Failure:
    """Known facts of a failed attempt."""

    def __init__(self, step: Step) -> None:
        self.reason = Reference(f"{step.ref}.reasonForIncompletion", step)
        self.status = Reference(f"{step.ref}.status", step)


@contextmanager
def attempt(*, name: str | None = None) -> Iterator[Attempt]:
    """Steps that may fail: `with attempt() as tried:`, then `with tried.failed as error:` handles it, and the flow goes on.

    They run in a SUB_WORKFLOW of their own, which is optional. A step in it is read within the attempt only.
    """
    build = current("attempt()")
    tried = Attempt(build, name)
    ref = build.named(build.free("attempt"), name)
    inner = Block()
    with build.within(inner):
        yield tried
    if not inner.tasks:
        raise BuildError(f"{ref}: has no step")
    tried._step = _attempted(build, ref, inner)


def _attempted(build: Build, ref: str, inner: Block) -> Step:
    """Put steps into a workflow of their own, which gets as input what they read of the flow around them."""
    lost = next(
        (place.task for place in walk(WorkflowDef(name=ref, tasks=inner.tasks)) if place.task.type == TaskType.SET_VARIABLE), None
    )
    if lost is not None:
        raise BuildError(
            f"{ref}: {lost.task_reference_name} sets a variable in an attempt, which runs as a workflow of its own and has its own "
            "variables: set it after the attempt"
        )
    definition, given = enclosed(WorkflowDef(name=f"{build.name}_{ref}", tasks=inner.tasks), set(build.steps_of(inner)))
    param = SubWorkflowParams(name=definition.name, version=definition.version, workflow_definition=definition)
    return build.operator(TaskType.SUB_WORKFLOW, ref, None, input_parameters=given, sub_workflow_param=param, optional=True)


def enclosed(inner: WorkflowDef, own: Collection[str]) -> tuple[WorkflowDef, dict[str, str]]:
    """Steps of a flow as a workflow of their own, and the input that it gets: what they read of the flow around them.

    `own` are their reference names. The variables that they set are their own too.
    """
    variables = {
        f"workflow.variables.{name}"
        for place in walk(inner)
        if place.task.type == TaskType.SET_VARIABLE
        for name in place.task.input_parameters
    }
    given: dict[str, str] = {}
    names: dict[str, str] = {}

    def moved(found: re.Match[str]) -> str:
        path = found[1]
        if re.split(r"[.\[]", path)[0] in own or any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in variables):
            return found[0]
        if path not in names:
            names.update(names_of(tuple(Reference(one, None) for one in (*names, path))))
            given[names[path]] = f"${{{path}}}"
        return f"${{workflow.input.{names[path]}}}"

    def through(value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return _PATH.sub(moved, value)
        if isinstance(value, dict) and key not in ("workflowDefinition", "workflowDef"):
            return {name: through(entry, name) for name, entry in value.items()}
        return [through(entry) for entry in value] if isinstance(value, list) else value

    return WorkflowDef.from_json(through(inner.to_json())), given
