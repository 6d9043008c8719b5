"""Hypothesis strategies: definitions that are valid, nested and end; inputs for them; outcomes of their workers.

    @given(definition=definitions(), input=inputs(), script=outcomes())
    def test_it_ends(definition, input, script): ...

Every definition passes `conductorlite.validate` without errors or warnings. Loops end after at most three rounds
whatever the workers return, provided the input comes from `inputs()`; a workflow ends by itself unless a WAIT without
an end is in it (`indefinite_waits`) or a worker hangs under no timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.definitions import (
    RetryLogic,
    TaskDef,
    TaskType,
    TimeoutPolicy,
    WorkflowDef,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)
from conductorlite.model.errors import MissingExtra
from conductorlite.testing.steps import Step, StepKind

__all__ = ["CASES", "COMPOUND", "LEAVES", "WORKER_TYPES", "definitions", "inputs", "outcomes", "outputs", "task_defs"]

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("testing", "conductorlite.testing.strategies") from error


#: Task types the generated SIMPLE tasks are of: few, so that executions compete for the same outcomes.
WORKER_TYPES: Final = ("alpha", "beta", "gamma")

#: Values a SWITCH may see; `outputs()` and `inputs()` hold them under "case".
CASES: Final = ("a", "b", "c")

#: Kinds with tasks inside, and without.
COMPOUND: Final = (
    TaskType.FORK_JOIN, TaskType.SWITCH, TaskType.DO_WHILE, TaskType.DECISION, TaskType.EXCLUSIVE_JOIN
)  # fmt: skip
LEAVES: Final = (TaskType.SIMPLE, TaskType.WAIT, TaskType.NOOP, TaskType.HUMAN, TaskType.LAMBDA)
#: Generated only when asked for: they need an extra.
_EXTRA_LEAVES: Final = (TaskType.JSON_JQ_TRANSFORM,)

#: Rounds of a generated loop, at most.
_ROUNDS: Final = 3

_SECOND: Final = 1000


def outputs() -> st.SearchStrategy[dict[str, Any]]:
    """Return what workers return: the names that generated expressions read, each now and then absent."""
    return st.fixed_dictionaries(
        {},
        optional={
            "value": st.integers(0, 9) | st.sampled_from(["x", "", "ü"]) | st.none(),
            "case": st.sampled_from(CASES),
            "more": st.booleans(),
            "list": st.lists(st.integers(0, 3), max_size=_ROUNDS),
        },
    )


def inputs() -> st.SearchStrategy[dict[str, Any]]:
    """Workflow inputs: the names that generated expressions read, each now and then absent."""
    return st.fixed_dictionaries(
        {},
        optional={
            "value": st.integers(0, 9) | st.sampled_from(["x", "long " * 300]),
            "case": st.sampled_from(CASES),
            "rounds": st.integers(0, _ROUNDS),
            "list": st.lists(st.integers(0, 3) | st.fixed_dictionaries({"n": st.integers(0, 3)}), max_size=_ROUNDS),
            "wait": st.sampled_from(["1s", "3 seconds", "2s"]),
        },
    )


def _seconds(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high).map(lambda seconds: seconds * _SECOND)


@st.composite
def task_defs(draw: st.DrawFn, name: str | None = None, *, operator: bool = False) -> TaskDef:
    """A task definition: any retry policy and any timeouts, in small seconds that do not contradict each other.

    With `operator` it is one for a WAIT, where only the timeouts that are written count.
    """
    timeout = draw(st.sampled_from([0, 0, 3, 8, 15]))
    response = draw(st.sampled_from([1, 2, 5, 8] if not operator else [0, 0, 2, 5]))
    total = draw(st.sampled_from([0, 0, 0, 6, 20]))
    logic = draw(st.sampled_from(RetryLogic))
    return TaskDef(
        name=name or draw(st.sampled_from(WORKER_TYPES)),
        retry_count=draw(st.integers(0, 3)),
        retry_logic=logic,
        retry_delay_ms=draw(_seconds(0, 3)),
        # An exponential backoff that never grows is something the validator warns of.
        backoff_scale_factor=draw(st.integers(2 if logic is RetryLogic.EXPONENTIAL_BACKOFF else 1, 3)),
        max_retry_delay_ms=draw(st.sampled_from([None, 4 * _SECOND])),
        backoff_jitter_ms=draw(st.sampled_from([None, 0, 700])),
        timeout_ms=timeout * _SECOND,
        response_timeout_ms=min(response, timeout or response) * _SECOND,
        total_timeout_ms=max(total, timeout if total else 0) * _SECOND,
        poll_timeout_ms=draw(st.sampled_from([0, 0, 1, 4])) * _SECOND,
        timeout_policy=draw(st.sampled_from(TimeoutPolicy)),
    )


@attrs.define(slots=True)
class _Scope:
    """Position of the generator: what may be read, and which loops are around."""

    #: References read by expressions: of every task that may have run before.
    visible: list[str]
    loops: tuple[str, ...] = ()


@attrs.define(slots=True)
class _Maker:
    """One definition in the making."""

    draw: st.DrawFn
    left: int
    length: int
    branches: int
    indefinite_waits: bool
    kinds: frozenset[str]
    counter: int = 0

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def ref(self, event: str) -> str:
        self.counter += 1
        return f"{event}{self.counter}"

    # ---------------------------------------------------------------- lists of tasks

    def tasks(self, scope: _Scope, spine: Sequence[str], depth: int) -> list[WorkflowTask]:
        """A list of tasks; the first kind of `spine` is in it, and the rest of the spine inside that."""
        plain = [kind for kind in (*LEAVES, *_EXTRA_LEAVES) if kind in self.kinds]
        if not self.indefinite_waits:
            plain = [kind for kind in plain if kind != TaskType.HUMAN]
        # Workers' tasks are what most flows consist of.
        plain = [*plain, *(kind for kind in plain if kind in (TaskType.SIMPLE, TaskType.WAIT))] or [TaskType.NOOP]
        nested = [kind for kind in COMPOUND if kind in self.kinds] if depth > 0 else []
        count = self.draw(st.integers(1, self.length))
        place = self.draw(st.integers(0, count - 1)) if spine else -1
        made: list[WorkflowTask] = []
        for index in range(count):
            if index == place:
                made += self.compound(spine[0], scope, spine[1:], depth - 1)
            elif self.left > 4 and nested and self.chance(4):
                made += self.compound(self.pick(nested), scope, (), depth - 1)
            elif self.left > 0 or not made:
                made.append(self.leaf(self.pick(plain), scope))
        return made

    def compound(self, kind: str, scope: _Scope, spine: Sequence[str], depth: int) -> list[WorkflowTask]:
        if kind == TaskType.FORK_JOIN:
            return self.fork(scope, spine, depth)
        if kind == TaskType.EXCLUSIVE_JOIN:
            return self.exclusive(scope, spine, depth)
        if kind in (TaskType.SWITCH, TaskType.DECISION):
            return [self.switch(scope, spine, depth, kind)]
        return [self.loop(scope, spine, depth)]

    # ---------------------------------------------------------------- leaves

    def leaf(self, kind: str, scope: _Scope) -> WorkflowTask:
        self.left -= 1
        if kind == TaskType.SIMPLE:
            return self.simple(scope)
        if kind in (TaskType.HUMAN, TaskType.LAMBDA, TaskType.JSON_JQ_TRANSFORM):
            return self.computed(kind, scope)
        ref = self.ref("w" if kind == TaskType.WAIT else "n")
        if kind == TaskType.NOOP:
            task = WorkflowTask(name="noop", task_reference_name=ref, type=TaskType.NOOP, optional=self.chance(6))
        else:
            task = self.wait(ref)
        scope.visible.append(ref)
        return task

    def simple(self, scope: _Scope) -> WorkflowTask:
        name, ref = self.pick(WORKER_TYPES), self.ref("t")
        task = WorkflowTask(
            name=name,
            task_reference_name=ref,
            # In a loop a task may read what it put out in the round before.
            input_parameters=self.parameters(_Scope([*scope.visible, ref] if scope.loops else scope.visible, scope.loops)),
            optional=self.chance(4),
            permissive=self.chance(5),
            start_delay_ms=self.pick([0, 0, 0, 2]) * _SECOND,
            retry_count=self.pick([None, None, 0, 1]),
            task_definition=None if self.chance(5) else self.draw(task_defs(name)),
        )
        scope.visible.append(ref)
        return task

    def computed(self, kind: str, scope: _Scope) -> WorkflowTask:
        """A HUMAN, or a script over its own input that may fail."""
        ref = self.ref({TaskType.HUMAN: "h", TaskType.LAMBDA: "y"}.get(TaskType(kind), "q"))
        given = self.parameters(scope)
        if kind == TaskType.LAMBDA:
            scripts = ["return {value: $.p, case: 'a'}", "return $.p", "return $.p.deeper.still"]
            given["scriptExpression"] = self.pick(scripts)
        elif kind == TaskType.JSON_JQ_TRANSFORM:
            given["queryExpression"] = self.pick(["{value: .p}", ".p", ".[]", ".p.deeper + 1"])
        task = WorkflowTask(
            name=str(kind).lower(),
            task_reference_name=ref,
            type=kind,
            input_parameters=given,
            optional=self.chance(3),
            permissive=self.chance(6),
        )
        scope.visible.append(ref)
        return task

    def wait(self, ref: str) -> WorkflowTask:
        ends: list[dict[str, str]] = [
            {"duration": "1s"},
            {"duration": "5 seconds"},
            {"duration": "0s"},
            {"until": "2030-01-01 00:01"},
            {"until": "2029-12-31 23:59 UTC"},
        ]
        if self.indefinite_waits:
            # Where the input has no such name, the expression gives null, and the task waits for ever too.
            ends += [{}, {"duration": "${workflow.input.wait}"}]
        given = self.pick(ends)
        return WorkflowTask(
            name="wait",
            task_reference_name=ref,
            type=TaskType.WAIT,
            input_parameters=given,
            optional=self.chance(5),
            permissive=self.chance(6),
            task_definition=self.draw(task_defs("wait", operator=True)) if self.chance(4) else None,
        )

    # ---------------------------------------------------------------- expressions

    def parameters(self, scope: _Scope) -> dict[str, Any]:
        names = self.draw(st.lists(st.sampled_from(["p", "q", "r"]), max_size=2, unique=True))
        return {name: self.value(scope) for name in names}

    def value(self, scope: _Scope) -> Any:
        expressions = ["${workflow.input.value}", "${workflow.input}", "${workflow.workflowId}"]
        for ref in scope.visible[-4:]:
            expressions += [f"${{{ref}.output.value}}", f"${{{ref}.output}}", f"<${{{ref}.output.value}}>"]
        expressions += [f"${{{loop}.output.iteration}}" for loop in scope.loops]
        one = self.pick(expressions)
        shape = self.draw(st.integers(0, 3))
        return [one, {"deep": [one, 1]}, self.pick([1, "text", None, True]), f"{one} and ${{workflow.input.case}}"][shape]

    # ---------------------------------------------------------------- compounds

    def fork(self, scope: _Scope, spine: Sequence[str], depth: int) -> list[WorkflowTask]:
        self.left -= 2
        ref, join = self.ref("f"), self.ref("j")
        count = self.draw(st.integers(1, self.branches))
        deep = self.draw(st.integers(0, count - 1))
        # A branch reads what came before the fork, and what it made itself.
        inside = [_Scope(list(scope.visible), scope.loops) for _ in range(count)]
        branches = [self.tasks(inside[i], spine if i == deep else (), depth) for i in range(count)]
        ends = [branch[-1].task_reference_name for branch in branches]
        others = [task.task_reference_name for branch in branches for task in branch[:-1]]
        joined = ends if not self.chance(4) else ends[: max(1, count - 1)]
        joined += [self.pick(others)] if others and self.chance(4) else []
        fork = WorkflowTask(
            name="fork", task_reference_name=ref, type=TaskType.FORK_JOIN, fork_tasks=[tuple(each) for each in branches]
        )
        end = WorkflowTask(
            name="join",
            task_reference_name=join,
            type=TaskType.JOIN,
            join_on=list(dict.fromkeys(joined)),
            optional=self.chance(6),
        )
        known = [each for one in inside for each in one.visible]
        scope.visible[:] = [*dict.fromkeys(known), join]
        return [fork, end]

    def exclusive(self, scope: _Scope, spine: Sequence[str], depth: int) -> list[WorkflowTask]:
        """A SWITCH or DECISION, and an EXCLUSIVE_JOIN of the ends of its cases."""
        choice = self.switch(scope, spine, depth, self.pick([TaskType.SWITCH, TaskType.DECISION]))
        self.left -= 1
        ends = [tasks[-1].task_reference_name for tasks in choice.decision_cases.values() if tasks]
        default = [task.task_reference_name for task in choice.default_case[-1:]]
        join = WorkflowTask(
            name="exclusive_join",
            task_reference_name=self.ref("e"),
            type=TaskType.EXCLUSIVE_JOIN,
            join_on=ends or default,
            default_exclusive_join_task=default if ends else [],
            optional=self.chance(4),
        )
        scope.visible.append(join.task_reference_name)
        return [choice, join]

    def switch(self, scope: _Scope, spine: Sequence[str], depth: int, kind: str) -> WorkflowTask:
        self.left -= 1
        ref = self.ref("s")
        choices = [f"${{{each}.output.case}}" for each in scope.visible[-3:]] + ["${workflow.input.case}", "a", "b"]
        if scope.loops:
            choices.append(f"${{{scope.loops[-1]}.output.iteration}}")
        cases = self.draw(st.lists(st.sampled_from([*CASES, "1", "null"]), min_size=1, max_size=2, unique=True))
        deep = self.draw(st.integers(0, len(cases)))
        decisions, inside = {}, []
        for index, case in enumerate(cases):
            inside.append(_Scope(list(scope.visible), scope.loops))
            empty = index != deep and self.chance(5)
            decisions[case] = [] if empty else self.tasks(inside[-1], spine if index == deep else (), depth)
        default: list[WorkflowTask] = []
        if deep == len(cases) or self.chance(2):
            inside.append(_Scope(list(scope.visible), scope.loops))
            default = self.tasks(inside[-1], spine if deep == len(cases) else (), depth)
        known = [each for one in inside for each in one.visible]
        scope.visible[:] = [*dict.fromkeys([*scope.visible, *known]), ref]
        chooser: dict[str, Any] = {"evaluator_type": "value-param", "expression": "which"}
        if kind == TaskType.DECISION:
            chooser = self.pick([{"case_value_param": "which"}, {"case_expression": "$.which"}])
        return WorkflowTask(
            name="switch",
            task_reference_name=ref,
            type=kind,
            **chooser,
            input_parameters={"which": self.pick(choices)},
            decision_cases=decisions,
            default_case=default,
            optional=self.chance(8),
        )

    def loop(self, scope: _Scope, spine: Sequence[str], depth: int) -> WorkflowTask:
        self.left -= 1
        ref = self.ref("l")
        visible = list(scope.visible)
        inside = _Scope([*visible], (*scope.loops, ref))
        body = self.tasks(inside, spine, depth)
        listed = self.chance(2)
        given: dict[str, Any] = {}
        items = None
        if listed:
            items = self.pick(["${workflow.input.list}", *[f"${{{each}.output.list}}" for each in visible[-2:]]])
            # Where the expression gives nothing, Conductor's `_items` is the list.
            given = {"_items": [1, 2]} if self.chance(3) else {}
        condition = None if listed and self.chance(2) else self.condition(ref, body, given)
        scope.visible[:] = [*dict.fromkeys([*visible, *inside.visible]), ref]
        return WorkflowTask(
            name="loop",
            task_reference_name=ref,
            type=TaskType.DO_WHILE,
            input_parameters=given,
            loop_condition=condition,
            items=items,
            loop_over=body,
            optional=self.chance(6),
        )

    def condition(self, ref: str, body: Sequence[WorkflowTask], given: dict[str, Any]) -> str:
        bound = f"$.{ref}['iteration'] < {self.draw(st.integers(1, _ROUNDS))}"
        first = body[0]
        shape = self.draw(st.integers(0, 3))
        if shape == 1 and first.type == TaskType.SIMPLE:
            return f"{bound} && $.{first.task_reference_name}['more'] != false"
        if shape == 2:
            given["rounds"] = "${workflow.input.rounds}"
            return f"if ($.{ref}['iteration'] < $.rounds && {bound}) {{ true; }} else {{ false; }}"
        return bound


@st.composite
def definitions(
    draw: st.DrawFn,
    *,
    depth: int = 3,
    length: int = 3,
    branches: int = 3,
    nodes: int = 18,
    kinds: Iterable[str] = (*COMPOUND, *LEAVES),
    indefinite_waits: bool = True,
) -> WorkflowDef:
    """A valid workflow definition of the given `kinds`.

    `depth` is how many compound kinds are nested at most (most examples go all the way), `length` the tasks of one
    list, `branches` those of a fork, `nodes` roughly all of them.
    """
    wanted = frozenset(str(kind) for kind in kinds)
    nested = [kind for kind in COMPOUND if kind in wanted]
    deep = draw(st.sampled_from([0, *range(1, depth + 1), depth, depth])) if nested else 0
    order = draw(st.permutations(nested)) if nested else []
    spine = [order[level % len(order)] for level in range(deep)]
    maker = _Maker(draw=draw, left=nodes, length=length, branches=branches, indefinite_waits=indefinite_waits, kinds=wanted)
    scope = _Scope([])
    tasks = maker.tasks(scope, spine, depth)
    read = draw(st.lists(st.sampled_from(scope.visible), max_size=2, unique=True))
    return WorkflowDef(
        name="generated",
        tasks=tasks,
        input_template=draw(st.sampled_from([{}, {"value": 5}])),
        output_parameters={ref: f"${{{ref}.output}}" for ref in read},
        timeout_ms=draw(st.sampled_from([0, 0, 0, 10, 40])) * _SECOND,
        timeout_policy=draw(st.sampled_from([None, WorkflowTimeoutPolicy.ALERT_ONLY, WorkflowTimeoutPolicy.TIME_OUT_WF])),
    )


def steps(*, hangs: bool = True) -> st.SearchStrategy[Step]:
    """One outcome of a worker's call. With `hangs` a call may go on giving signs of life and never report."""
    took = st.sampled_from([0, 0, 0, 1, 3, 6, 20]).map(lambda seconds: seconds * _SECOND)
    reason = st.sampled_from(["", "no money", "503"])
    return st.one_of(
        st.builds(Step, kind=st.just(StepKind.RETURNS), output=outputs(), takes_ms=took),
        st.builds(Step, kind=st.just(StepKind.FAILS), reason=reason, takes_ms=took, times=st.integers(1, 3)),
        st.builds(Step, kind=st.just(StepKind.FAILS_TERMINALLY), reason=reason, takes_ms=took),
        st.builds(Step, kind=st.just(StepKind.CALLS_BACK), output=outputs(), callback_ms=_seconds(0, 9), takes_ms=took),
        st.builds(Step, kind=st.just(StepKind.RETURNS), output=outputs(), takes_ms=took, silent=st.just(True)),
        st.builds(Step, kind=st.just(StepKind.RETURNS), output=outputs(), takes_ms=took, reports=st.just(2)),
        st.builds(Step, kind=st.sampled_from([StepKind.CRASHES, *([StepKind.HANGS] if hangs else [])])),
    )


def outcomes(
    names: Sequence[str] = WORKER_TYPES, *, most: int = 5, ends: bool = True
) -> st.SearchStrategy[dict[str, tuple[Step, ...]]]:
    """For each task type the outcomes of its calls, in order; give them to `ScriptedWorkers.follow`.

    With `ends` no call hangs and the last step returns for ever, so that every execution comes to an end. Without it a task that
    has no `timeoutSeconds` may never end, which `run_until_idle` refuses with ClockError.
    """
    last = st.builds(Step, kind=st.just(StepKind.RETURNS), output=outputs(), times=st.none())
    one = st.tuples(st.lists(steps(hangs=not ends), max_size=most), last).map(lambda parts: (*parts[0], parts[1]))
    some = one if ends else st.lists(steps(), max_size=most).map(tuple)
    return st.fixed_dictionaries(dict.fromkeys(names, some))
