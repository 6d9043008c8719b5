"""WorkflowFailed and ResultTimeout begin with the root cause and its address, through whatever is between; `causes` is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from conductorlite import (
    AsyncEngine,
    Engine,
    ResultTimeout,
    SubWorkflowParams,
    SystemClock,
    TaskFailedTerminally,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowFailed,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import Cause
from conductorlite.store.ports import Backend


def simple(ref: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=fields.pop("name", ref), task_reference_name=ref, **fields)


def flow(name: str, *tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    return WorkflowDef(name=name, tasks=tasks, **fields)


def sub(ref: str, definition: WorkflowDef, **fields: Any) -> WorkflowTask:
    return simple(ref, type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=definition), **fields)


def loop(ref: str, *tasks: WorkflowTask) -> WorkflowTask:
    return simple(ref, type="DO_WHILE", loop_condition=f"$.{ref}.iteration < 3", loop_over=tasks)


def fork(ref: str, *branches: list[WorkflowTask]) -> list[WorkflowTask]:
    return [
        simple(ref, type="FORK_JOIN", fork_tasks=branches),
        simple(f"{ref}_join", type="JOIN", join_on=[branch[-1].task_reference_name for branch in branches]),
    ]


CAPTURE = simple("capture")
OK = simple("ok", type="NOOP")

SHAPES: dict[str, tuple[WorkflowDef, str]] = {
    "plain": (flow("booking", CAPTURE), "booking › capture"),
    "below": (flow("booking", sub("payment", flow("pay", CAPTURE))), "booking › payment › capture"),
    "far below": (
        flow("booking", sub("a", flow("x", sub("b", flow("y", sub("c", flow("z", CAPTURE))))))),
        "booking › a › b › c › capture",
    ),
    "in a fork": (flow("booking", *fork("f", [OK], [CAPTURE])), "booking › capture"),
    "in a loop": (flow("booking", loop("l", CAPTURE)), "booking › capture__1"),
    "all": (
        flow("booking", loop("l", *fork("f", [OK], [sub("payment", flow("pay", *fork("g", [CAPTURE])))]))),
        "booking › payment__1 › capture",
    ),
    "in a case": (
        flow(
            "booking",
            simple("s", type="SWITCH", evaluator_type="value-param", expression="v", input_parameters={"v": "a"},
                   decision_cases={"a": [sub("payment", flow("pay", CAPTURE))]}),
        ),
        "booking › payment › capture",
    ),
}  # fmt: skip


def engine_with(function: Callable[..., Any], *, clock: Any = None) -> Engine:
    workers = Workers()
    workers.task("capture", retry_count=1, retry_delay_seconds=0)(function)
    return Engine(workers=workers, clock=clock or VirtualClock())


def over_the_limit() -> None:
    raise TaskFailedTerminally("over the limit")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clock", [VirtualClock, SystemClock])
def test_a_failure_begins_with_its_root(shape: str, clock: Any) -> None:
    """The first line is the address and the reason, then comes the innermost traceback; the data say the same."""
    definition, address = SHAPES[shape]
    with engine_with(over_the_limit, clock=clock()) as engine:
        run = engine.start(definition)
        with pytest.raises(WorkflowFailed) as caught:
            run.result(timeout="20s")
        lines = str(caught.value).splitlines()
        assert lines[:2] == [f"{address}: over the limit", "Traceback (most recent call last):"]
        assert any("in over_the_limit" in line for line in lines)
        (cause,) = caught.value.causes
        assert " › ".join(cause.address) == address
        assert (cause.reason, cause.status, cause.optional) == ("over the limit", TaskStatus.FAILED_WITH_TERMINAL_ERROR, False)
        assert engine.tasks.get(cause.task_id or "").workflow_id == cause.workflow_id
        assert f"workflow 'booking' ({run.workflow_id}) is FAILED" in str(caught.value)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_that_is_late_begins_with_what_it_waits_for(shape: str) -> None:
    """An open task that nobody takes, and, once one has failed, why; with what `explain` says."""
    definition, address = SHAPES[shape]
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(definition)
        with pytest.raises(ResultTimeout) as caught:
            run.result(timeout="1s")
        assert str(caught.value).splitlines()[0] == f"{address}: SCHEDULED"
        assert caught.value.causes[0].status is TaskStatus.SCHEDULED
        assert caught.value.explain == engine.explain(run.workflow_id)
        assert str(caught.value.explain) in str(caught.value)


def test_a_result_that_is_late_tells_the_attempt_before() -> None:
    """A retry that waits is no reason, what it waits after is."""

    def fails() -> None:
        raise ValueError("over the limit")

    workers = Workers()
    workers.task("capture", retry_count=3, retry_delay_seconds=60)(fails)
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        with pytest.raises(ResultTimeout) as caught:
            engine.start(SHAPES["below"][0]).result(timeout="1s")
        first = "booking › payment › capture: ValueError: over the limit (attempt 1; attempt 2 is SCHEDULED)"
        assert str(caught.value).splitlines()[:2] == [first, "Traceback (most recent call last):"]


def test_each_failure_of_a_join_has_its_own_address() -> None:
    """The one that ended the execution first; then the others, those that were optional last."""
    branches = [[simple(f"b{number}", name="b", optional=number < 2)] for number in range(2)]
    inner = flow("pay", *fork("g", [simple("o", name="b", optional=True)]))
    definition = flow("booking", *fork("f", *branches, [sub("payment", inner)]), CAPTURE)
    workers = Workers()
    workers.task("capture", retry_count=0)(over_the_limit)

    @workers.task("b", retry_count=0)
    def b() -> None:
        raise ValueError("not now")

    with Engine(workers=workers, clock=VirtualClock()) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            engine.start(definition).result()
        root, *others = caught.value.causes
        assert root.address == ("booking", "capture")
        assert {(cause.address, cause.optional) for cause in others} == {
            (("booking", "b0"), True), (("booking", "b1"), True),
        }  # fmt: skip
        assert "also, optional: booking › b0: ValueError: not now" in str(caught.value).splitlines()


def test_without_a_task_to_blame(store: Backend) -> None:
    """Of an execution that somebody has ended the address is its own."""
    with Engine(store, clock=VirtualClock()) as engine:
        run = engine.start(flow("booking", simple("a")))
        engine.terminate(run.workflow_id, "enough")
        with pytest.raises(WorkflowFailed, match=r"\Abooking: enough") as caught:
            run.result()
    (cause,) = caught.value.causes
    assert (cause.status, cause.ref, cause.address) == (WorkflowStatus.TERMINATED, None, ("booking",))


def test_a_child_that_is_gone_leaves_the_task_above() -> None:
    """What can still be told is."""
    with engine_with(over_the_limit) as engine:
        run = engine.start(SHAPES["below"][0])
        engine.run_until_idle()
        (child,) = engine.admin.children(run.workflow_id)
        try:
            engine.admin.remove(child.workflow_id)
        except Exception:  # it is kept with its parent
            pytest.skip("a child is removed with its parent only")
        with pytest.raises(WorkflowFailed, match=r"\Abooking › payment: "):
            run.result()


def test_many_failures_are_bounded() -> None:
    """A wide fork that fails everywhere does not fill a screen without end."""
    branches = [[simple(f"b{number}", name="capture", optional=True)] for number in range(60)]
    with engine_with(over_the_limit) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            engine.start(flow("booking", *fork("f", *branches), CAPTURE)).result()
        assert caught.value.causes[0].address == ("booking", "capture")
        assert len(caught.value.causes) == 20


def test_the_same_of_an_async_engine() -> None:
    """AsyncEngine raises the same errors."""

    async def live() -> tuple[WorkflowFailed, ResultTimeout]:
        workers = Workers()
        workers.task("capture", retry_count=0)(over_the_limit)
        async with AsyncEngine(workers=workers) as engine:
            run = await engine.start(SHAPES["below"][0])
            with pytest.raises(WorkflowFailed) as failed:
                await run.result(timeout="20s")
        async with AsyncEngine() as engine:
            run = await engine.start(SHAPES["below"][0])
            with pytest.raises(ResultTimeout) as late:
                await run.result(timeout="10ms")
        return failed.value, late.value

    failed, late = asyncio.run(live())
    assert str(failed).startswith("booking › payment › capture: over the limit\nTraceback")
    assert str(late).startswith("booking › payment › capture: SCHEDULED")
    assert "payment" in str(late.explain)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${gone.output.y}", "x came from `${gone.output.y}`, and there is no gone"),
        ("${before.output.z}", "x came from `${before.output.z}`, and the output of before has no z"),
        ("${before.output.nil}", "x came from `${before.output.nil}`, and the output of before has null there"),
        ("${capture2.output.y}", "x came from `${capture2.output.y}`, and capture2 has not run"),
        ("${workflow.input.y}", "x came from `${workflow.input.y}`, and the workflow's input has no y, or it is null"),
        ("${workflow.variables.y}", "x came from `${workflow.variables.y}`, and the workflow has no variable y, or it is null"),
    ],
)
def test_a_null_says_where_it_came_from(text: str, told: str) -> None:
    """In WorkflowFailed and in `explain`, where a task fails over it."""
    workers = Workers()

    @workers.task("capture", retry_count=0)
    def capture(x: int | None) -> int:
        return x + 1  # type: ignore[operator]

    @workers.task
    def before() -> dict[str, Any]:
        return {"a": 1, "nil": None}

    case = simple("case", type="SWITCH", evaluator_type="value-param", expression="v", input_parameters={"v": "a"},
                  decision_cases={"a": [simple("before"), simple("capture", input_parameters={"x": text})]},
                  default_case=[simple("capture2", type="NOOP")])  # fmt: skip
    made = simple("made", type="FORK_JOIN_DYNAMIC", input_parameters={"forkTaskInputs": [], "forkTaskName": "before"})
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        run = engine.start(flow("booking", case, made, simple("j", type="JOIN")))
        with pytest.raises(WorkflowFailed) as caught:
            run.result()
        assert told in str(caught.value).splitlines()[0]
        assert caught.value.causes[0].nulls == (told,)
        assert told in str(engine.explain(run.workflow_id))
        assert told in str(engine.explain(run.workflow_id, task="capture"))


def test_a_null_within_says_so_too() -> None:
    """At its place in the input; what is written as null, or found, is not told of."""
    workers = Workers()

    @workers.task("capture", retry_count=0)
    def capture(**given: Any) -> None:
        raise ValueError(str(given))

    given = {"a": {"b": [1, "${workflow.input.y}"]}, "c": None, "d": "${workflow.input.z}", "e": "is ${workflow.input.y}"}
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            engine.start(flow("booking", simple("capture", input_parameters=given)), {"z": 0}).result()
        assert caught.value.causes[0].nulls == (
            "e holds the null of `${workflow.input.y}`, and the workflow's input has no y, or it is null",
            "a.b[1] came from `${workflow.input.y}`, and the workflow's input has no y, or it is null",
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("it is ${gone.output.y}.", "holds the null of `${gone.output.y}`, and there is no gone"),
        ("${a.output.y}${a.output.x}", "holds the null of `${a.output.y}`, and the output of a has no y"),
        ("is ${a.output.nil}", "holds the null of `${a.output.nil}`, and the output of a has null there"),
        (
            "v ${workflow.variables.v}",
            "holds the null of `${workflow.variables.v}`, and the workflow has no variable v, or it is null",
        ),
        ("${a.output.y}", "came from `${a.output.y}`, and the output of a has no y"),
        ("is ${a.output.x} of ${workflow.input.n} $${a.output.y}", None),
        ("${a.output.x}", None),
        ("is ${a.output}", None),
        ("is ${a.status}", None),
    ],
)
def test_a_null_in_an_output_says_where_it_came_from(text: str, told: str | None) -> None:
    """Of an execution that has completed; at its place, also within a text."""
    workers = Workers()

    @workers.task("a")
    def a() -> dict[str, Any]:
        return {"x": 1, "nil": None}

    with Engine(workers=workers, clock=VirtualClock()) as engine:
        run = engine.start(flow("booking", simple("a"), output_parameters={"o": {"p": [text]}, "c": None}), {"n": 0})
        run.result()
        explained = str(engine.explain(run.workflow_id))
    assert ("Of its output, " in explained) is (told is not None)
    assert told is None or f"Of its output, o.p[0] {told}." in explained


def test_a_cause_as_text() -> None:
    """One line for a log or a page of one's own."""
    cause = Cause(address=("booking", "payment"), workflow_id="w", status=TaskStatus.FAILED, reason="no", nulls=("x is null",))
    assert str(cause) == "booking › payment: no; x is null"
