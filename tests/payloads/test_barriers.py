"""Sizes just below, at and above each barrier, in all four places, on every store and storage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from payload_kit import KB, Bench, bytes_of, flow, simple, sized

from conductorlite import (
    Barriers,
    StartWorkflowRequest,
    TaskStatus,
    VirtualClock,
    WorkflowSchedule,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import InvalidInput, PayloadTooLarge
from conductorlite.model.canonical import Payload
from conductorlite.runtime.engine import Engine
from conductorlite.store.payloads import MemoryPayloads
from conductorlite.store.ports import PayloadStorage

SOFT, HARD = 2 * KB, 4 * KB

#: Sizes around a barrier, and whether they are past it.
AROUND = [(-1, False), (0, False), (1, True)]


def passing(template: dict[str, Any]) -> WorkflowTask:
    """A task whose input is made from the workflow's."""
    return simple("a", input_parameters=template)


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_workflow_input_at_the_soft_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """An input past 2 KB lies in the storage, one of up to 2 KB does not; who reads it sees no difference."""
    bench: Bench = new_bench(storage)
    given = sized(SOFT + offset)
    bench.start(flow(simple("a", input_parameters={"y": "${workflow.input.x}"})), given)
    row = bench.workflow
    assert (row.input.external is not None) == past
    assert len(bench.keys()) == 2 * past  # the workflow's and the task's, which is as long and another document
    assert row.input_data == given
    assert bench.take("a").input_data == {"y": given["x"]}


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_workflow_input_at_the_hard_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """A start with an input past 4 KB is refused with both sizes, and nothing is stored; one of 4 KB begins."""
    bench: Bench = new_bench(storage)
    given = sized(HARD + offset)
    definition = flow(simple("a"))
    if past:
        with pytest.raises(PayloadTooLarge, match=f"workflow input has {HARD + 1} bytes, more than the {HARD} bytes"):
            bench.start(definition, given)
        assert list(bench.engine.admin.workflow_ids()) == []
        assert bench.keys() == []
    else:
        bench.start(definition, given)
        assert bench.workflow.input_data == given


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_task_input_at_the_soft_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """A task's input past 2 KB lies in the storage, and its worker is given it all the same."""
    bench: Bench = new_bench(storage, barriers={"workflow_input_payload_size_threshold": 4})
    given = sized(SOFT + offset)
    bench.start(flow(passing({"x": "${workflow.input.x}"})), given)
    assert (bench.task("a").input.external is not None) == past
    assert bench.take("a").input_data == given


@pytest.mark.trap("core-49")
@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_task_input_at_the_hard_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """An attempt with an input past 4 KB fails for good with both sizes, and the workflow with it, at once."""
    bench: Bench = new_bench(storage, barriers={"max_workflow_input_payload_size_threshold": 8})
    given = sized(HARD + offset)
    bench.start(flow(passing({"x": "${workflow.input.x}"})), given)
    task = bench.task("a")
    if past:
        assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
        assert f"task input has {HARD + 1} bytes, more than the {HARD} bytes (4 KB)" in str(task.reason)
        assert task.input_data == {}
        assert bench.workflow.status is WorkflowStatus.FAILED
        assert f"{HARD + 1} bytes" in str(bench.workflow.reason)
        assert bench.engine.poll("a") == []
    else:
        assert bench.take("a").input_data == given


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_task_output_at_the_soft_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """An output past 2 KB lies in the storage; expressions and conditions read it as any other."""
    bench: Bench = new_bench(storage)
    output = {"c": 1, **sized(SOFT + offset - len('"c":1,'))}
    assert bytes_of(output) == SOFT + offset
    case = WorkflowTask(
        name="s", task_reference_name="s", type="SWITCH", evaluator_type="value-param", expression="c",
        input_parameters={"c": "${a.output.c}"}, decision_cases={"1": [simple("b", input_parameters={"s": "${a.output.x}"})]},
    )  # fmt: skip
    bench.start(flow(simple("a"), case))
    bench.do("a", output)
    assert (bench.task("a").output.external is not None) == past
    assert bench.take("b").input_data == {"s": output["x"]}
    assert bench.task("a").output_data == output


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_task_output_at_the_hard_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """A report past 4 KB fails its attempt for good, with both sizes; nothing of it is kept."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a"), simple("b")))
    stored = bench.do("a", sized(HARD + offset))
    if past:
        assert stored.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
        assert f"task output has {HARD + 1} bytes, more than the {HARD} bytes" in str(stored.reason)
        assert stored.output_data == {}
        assert bench.workflow.status is WorkflowStatus.FAILED
        assert bench.keys() == []
    else:
        assert stored.status is TaskStatus.COMPLETED
        assert stored.output_data == sized(HARD + offset)


@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_workflow_output_at_the_soft_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """A workflow's output past 2 KB lies in the storage; its result is whole."""
    bench: Bench = new_bench(storage, barriers={"task_output_payload_size_threshold": 4})
    output = sized(SOFT + offset)
    run = bench.start(flow(simple("a"), output_parameters={"x": "${a.output.x}"}))
    bench.do("a", output)
    assert (bench.workflow.output.external is not None) == past
    assert len(bench.keys()) == past
    assert run.result() == output


@pytest.mark.trap("core-49")
@pytest.mark.parametrize(("offset", "past"), AROUND)
def test_workflow_output_at_the_hard_barrier(new_bench: Any, storage: PayloadStorage, offset: int, past: bool) -> None:
    """A workflow whose output is past 4 KB is FAILED with both sizes, also when its output is that of its last task."""
    for template in ({"x": "${a.output.x}"}, {}):
        bench: Bench = new_bench(storage, barriers={"max_task_output_payload_size_threshold": 8})
        bench.start(flow(simple("a"), output_parameters=template), workflow_id=f"w-{len(template)}")
        bench.do("a", sized(HARD + offset))
        row = bench.workflow
        if past:
            assert row.status is WorkflowStatus.FAILED
            assert f"workflow output has {HARD + 1} bytes, more than the {HARD} bytes" in str(row.reason)
            assert row.output_data == {}
            assert bench.task("a").status is TaskStatus.COMPLETED
        else:
            assert row.status is WorkflowStatus.COMPLETED
            assert row.output_data == sized(HARD + offset)


def test_conductors_thresholds_in_force() -> None:
    """By default, as in Conductor: 5 and 10 MB for workflows, 3 and 10 MB for tasks; every place just past and just at them."""
    usual = Barriers()
    kb = {name: getattr(usual, name) for name in SMALL_NAMES}
    assert kb == dict(zip(SMALL_NAMES, (5120, 10240, 5120, 10240, 3072, 10240, 3072, 10240), strict=True))
    with Engine(clock=VirtualClock(0)) as engine:
        storage = engine.core.turns.lookups.payload_store.storage
        assert storage is not None
        definition = flow(simple("a", input_parameters={"n": 1}), output_parameters={})
        with pytest.raises(PayloadTooLarge, match="10485761 bytes"):
            engine.start(definition, sized(10240 * KB + 1))
        run = engine.start(definition, sized(5120 * KB))
        assert engine.get(run.workflow_id).input.external is None
        run = engine.start(definition, sized(5120 * KB + 1))
        assert engine.get(run.workflow_id).input.external is not None


PLACES = ("workflow_input", "workflow_output", "task_input", "task_output")
SMALL_NAMES = [f"{most}{place}_payload_size_threshold" for place in PLACES for most in ("", "max_")]


@pytest.mark.parametrize("kb", [0, -1, 16 * KB + 1, True, 1.5, "2"])
def test_barriers_that_cannot_be(kb: Any) -> None:
    """A threshold is a whole number of KB, no larger than what the engine can hold."""
    with pytest.raises(InvalidInput, match="task_input_payload_size_threshold is a number of KB"):
        Barriers(task_input_payload_size_threshold=kb)


@given(text=st.text(max_size=3 * KB), kb=st.integers(1, 6), place=st.sampled_from(PLACES))
def test_a_size_is_that_of_utf8(text: str, kb: int, place: str) -> None:
    """Whatever its characters, a document is refused exactly when its JSON as UTF-8 is larger than the barrier."""
    document = Payload.of({"x": text})
    size = bytes_of({"x": text})
    barriers = Barriers(**{f"max_{place}_payload_size_threshold": kb})
    refusal = barriers.refusal(place, document)
    assert (refusal is not None) == (size > kb * KB)
    assert refusal is None or f"{size} bytes" in refusal


@pytest.mark.parametrize(("offset", "past"), [(0, False), (1, True)])
def test_an_item_of_a_loop_at_the_hard_barrier(new_bench: Any, offset: int, past: bool) -> None:
    """A loop puts out the item of its round: past the barrier the loop fails for good, and the round does not begin."""
    bench: Bench = new_bench(barriers={f"max_{place}_payload_size_threshold": 16 for place in ("workflow_input", "task_input")})
    bare = bytes_of({"iteration": 1, "loopIndex": 0, "loopItem": {"x": "éé"}})
    item = {"x": "éé" + "a" * (HARD + offset - bare)}
    loop = WorkflowTask(name="l", task_reference_name="l", type="DO_WHILE", items="${workflow.input.all}", loop_over=[simple("a")])
    bench.start(flow(loop), {"all": [item]})
    if past:
        assert bench.task("l").status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
        assert f"has {HARD + 1} bytes" in str(bench.task("l").reason)
        assert (bench.workflow.status, [task.ref for task in bench.workflow.tasks]) == (WorkflowStatus.FAILED, ["l"])
    else:
        assert bench.task("l").output_data["loopItem"] == item
        assert bench.take("a").ref == "a__1"


def test_the_input_of_what_ends_at_once_lies_outside(new_bench: Any, storage: PayloadStorage) -> None:
    """No line of the history tells it, as that of a task that is scheduled: the row alone is its place."""
    bench: Bench = new_bench(storage, barriers={"workflow_input_payload_size_threshold": 4})
    switch = WorkflowTask(
        name="s",
        task_reference_name="s",
        type="SWITCH",
        evaluator_type="value-param",
        expression="case",
        decision_cases={"x": [simple("a")]},
        input_parameters={"case": "x", "y": "${workflow.input.x}"},
    )
    bench.start(flow(switch), sized(3 * KB))
    external = bench.task("s").input.external
    assert external is not None
    assert bench.keys() == [external.key]


def test_what_has_no_barrier_stays_inside(new_bench: Any, storage: PayloadStorage) -> None:
    """Variables, and the line of the history that tells of them, are kept in the store however large they are."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a")))
    bench.engine.update_variables(bench.workflow_id, sized(3 * KB))
    assert bench.keys() == []
    assert bench.workflow.variables.fresh() == sized(3 * KB)


def test_a_schedule_at_the_hard_barrier(new_bench: Any) -> None:
    """A schedule whose input is past the hard barrier has its starts refused with both sizes, and nothing is stored."""
    bench = new_bench(MemoryPayloads())
    request = StartWorkflowRequest(workflow_def=flow(simple("a")), input=sized(5_000))
    bench.engine.schedules.save(WorkflowSchedule(name="s", interval_ms=60_000, start_workflow_request=request))
    bench.engine.advance("2m")
    (run, *_) = bench.engine.schedules.get("s").recent
    assert run.outcome == "FAILED"
    assert "more than the 4096 bytes" in str(run.reason)
    assert bench.engine.executions() == []
