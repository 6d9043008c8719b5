"""Payloads in the storage are seen by nobody: families, loops, reruns, reports, exports, faces. And what is refused where."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from payload_kit import KB, SMALL, Bench, flow, simple, sized

from conductorlite import (
    AsyncEngine,
    Barriers,
    Engine,
    EngineConfig,
    SubWorkflowParams,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import Conflict
from conductorlite.model.documents import workflow_to_json
from conductorlite.store.payloads import MemoryPayloads
from conductorlite.testing import render_history
from conductorlite.testing.faults import lay_empty_store
from conductorlite.testing.replaying import replay

BIG = sized(3 * KB)
FAILED_FOR_GOOD = TaskStatus.FAILED_WITH_TERMINAL_ERROR


def system(ref: str, type: str, **fields: Any) -> WorkflowTask:
    """A task of a system type."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=type, **fields)


def child_of(name: str, ref: str = "s", **inputs: Any) -> WorkflowTask:
    """A SUB_WORKFLOW."""
    return system(ref, "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name=name), input_parameters=inputs)


def test_families_joins_and_loops(new_bench: Any) -> None:
    """Large documents go to children and back, through JOINs and loops, as small ones do; the storages hold no secret copy."""
    wide = {f"max_{place}_output_payload_size_threshold": 16 for place in ("task", "workflow")}
    bench: Bench = new_bench(barriers=wide)
    bench.engine.register(flow(simple("c", input_parameters={"x": "${workflow.input.x}"}), name="child"))
    fork = system("f", "FORK_JOIN", fork_tasks=[[child_of("child", x="${workflow.input.x}")], [simple("b")]])
    join = system("j", "JOIN", join_on=["s", "b"])
    loop = system("l", "DO_WHILE", loop_condition="$.a['x'] != null && $.l['iteration'] < 2", loop_over=[simple("a")])
    run = bench.start(flow(fork, join, loop, output_parameters={"x": "${l.output.2.a.x}", "j": "${j.output.s.x}"}), BIG)
    bench.do("b", BIG)
    bench.do("c", BIG)
    for _ in range(2):
        bench.do("a", BIG)
    assert run.result() == {"x": BIG["x"], "j": BIG["x"]}
    assert bench.task("j").output_data["b"] == BIG
    assert bench.task("l").output.external is not None


def test_reruns_and_retries_read_it_again(new_bench: Any) -> None:
    """A retried attempt and a rerun execution are given their large inputs again."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"}), simple("b")), BIG)
    bench.do("a", BIG, status="FAILED")
    bench.engine.retry(bench.workflow_id)
    assert bench.take("a").input_data == BIG
    bench.engine.terminate(bench.workflow_id)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    bench.do("a", BIG)
    bench.engine.rerun(bench.workflow_id, from_task="b", task_input={"y": BIG["x"]})
    assert bench.take("b").input_data == {"y": BIG["x"]}


def test_reports_in_parts(new_bench: Any) -> None:
    """A report that is laid over what was reported before reads it from the storage; together they may be too much."""
    bench: Bench = new_bench()
    bench.start(flow(system("h", "HUMAN"), simple("b")))
    bench.engine.signal(bench.workflow_id, sized(3 * KB, "one"), task="h", status=TaskStatus.IN_PROGRESS)
    assert bench.task("h").output.external is not None
    bench.engine.signal(bench.workflow_id, sized(3 * KB, "two"), task="h")
    task = bench.task("h")
    assert task.status is FAILED_FOR_GOOD
    assert "task output has" in str(task.reason)


def test_a_worker_that_reports_too_much_in_progress_has_failed(new_bench: Any) -> None:
    """Also an IN_PROGRESS report past the hard barrier fails its attempt for good, as in Conductor."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a")))
    bench.do("a", sized(5 * KB), status="IN_PROGRESS")
    assert bench.task("a").status is FAILED_FOR_GOOD
    assert bench.workflow.status is WorkflowStatus.FAILED


def test_a_child_whose_input_is_too_large(new_bench: Any) -> None:
    """A SUB_WORKFLOW or START_WORKFLOW whose child's input would be past its barrier fails for good; no child begins."""
    bench: Bench = new_bench(barriers={"max_task_input_payload_size_threshold": 9, "max_task_output_payload_size_threshold": 9})
    bench.engine.register(flow(simple("c"), name="child"))
    starter = system("st", "START_WORKFLOW", input_parameters={"startWorkflow": {"name": "child", "input": {"x": "${a.output.x}"}}})
    for task in (child_of("child", x="${a.output.x}"), starter):
        bench.start(flow(simple("a"), task))
        bench.do("a", sized(5 * KB))
        failed = bench.task(task.task_reference_name)
        assert failed.status is FAILED_FOR_GOOD
        assert f"workflow input has {5 * KB} bytes, more than the {4 * KB}" in str(failed.reason)
        assert bench.engine.admin.children(bench.workflow_id) == []
        assert bench.workflow.status is WorkflowStatus.FAILED
    assert len(list(bench.engine.admin.workflow_ids())) == 2


def test_a_child_whose_template_makes_it_too_large(new_bench: Any) -> None:
    """A child whose own inputTemplate makes its input too large does not begin, and the task that started it fails."""
    bench: Bench = new_bench(barriers={"max_task_input_payload_size_threshold": 9})
    bench.engine.register(flow(simple("c"), name="child", input_template=sized(3 * KB, "t")))
    bench.start(flow(child_of("child", x="${workflow.input.x}")), sized(2 * KB))
    bench.engine.settle()
    task = bench.task("s")
    assert task.status is TaskStatus.FAILED
    assert "workflow input has" in str(task.reason)
    assert bench.engine.admin.children(bench.workflow_id) == []
    assert bench.engine.admin.agenda() == []


def test_outputs_that_operators_make(new_bench: Any) -> None:
    """A JOIN, an INLINE and a SWITCH with too much to put out, or too much put in, fail for good with the size."""
    fork = system("f", "FORK_JOIN", fork_tasks=[[simple("a")], [simple("b")]])
    bench: Bench = new_bench()
    bench.start(flow(fork, system("j", "JOIN", join_on=["a", "b"])))
    bench.do("a", BIG)
    bench.do("b", BIG)
    assert bench.task("j").status is FAILED_FOR_GOOD
    assert "task output has" in str(bench.workflow.reason)
    case = system(
        "s", "SWITCH", evaluator_type="value-param", expression="c", decision_cases={"x": [simple("a")]},
        input_parameters={"c": "x", "y": "${workflow.input.x}", "z": "${workflow.input.x}"},
    )  # fmt: skip
    bench.start(flow(case), BIG)
    assert bench.task("s").status is FAILED_FOR_GOOD
    assert "task input has" in str(bench.task("s").reason)
    script = {"evaluatorType": "javascript", "expression": "$.x + $.x", "x": "${workflow.input.x}"}
    inline = system("i", "INLINE", input_parameters=script)
    bench.start(flow(inline), BIG)
    assert bench.task("i").status is FAILED_FOR_GOOD
    assert "task output has" in str(bench.task("i").reason)


def test_variables_stay_when_their_task_is_refused(new_bench: Any) -> None:
    """A SET_VARIABLE whose input is past the barrier fails, and sets nothing."""
    bench: Bench = new_bench()
    twice = {"x": "${workflow.input.x}", "y": "${workflow.input.x}"}
    setting = system("v", "SET_VARIABLE", input_parameters=twice, optional=True)
    bench.start(flow(setting, simple("b")), BIG)
    assert bench.task("v").status is TaskStatus.COMPLETED_WITH_ERRORS
    assert bench.workflow.variables.value == {}


def test_a_termination_that_puts_out_too_much(new_bench: Any) -> None:
    """A TERMINATE that completes with an output past the barrier fails the workflow; one that fails it says why in the output."""
    bench: Bench = new_bench(barriers={"max_task_input_payload_size_threshold": 9, "max_task_output_payload_size_threshold": 9})
    for status in ("COMPLETED", "TERMINATED"):
        given = {"terminationStatus": status, "terminationReason": "so be it", "workflowOutput": {"x": "${a.output.x}"}}
        bench.start(flow(simple("a"), system("t", "TERMINATE", input_parameters=given)))
        bench.do("a", sized(5 * KB))
        row = bench.workflow
        if status == "COMPLETED":
            assert row.status is WorkflowStatus.FAILED
            assert "workflow output has" in str(row.reason)
            assert row.output_data == {}
        else:
            assert (row.status, row.reason) == (WorkflowStatus.TERMINATED, "so be it")
            assert "workflow output has" in row.output_data["conductor.output_error"]


def test_a_failure_workflow_of_a_large_execution(new_bench: Any) -> None:
    """A failure workflow is told of large executions without the tasks' documents; what is too large even so is said to be."""
    bench: Bench = new_bench()
    bench.engine.register(flow(simple("m"), name="mourner"))
    definition = flow(simple("a"), simple("b"), failure_workflow="mourner", name="dead")
    bench.start(definition)
    bench.do("a", BIG)
    bench.do("b", BIG, status="FAILED")
    bench.engine.settle()
    mourner = bench.engine.get(bench.workflow.output_data["conductor.failure_workflow"])
    tasks = mourner.input_data["failedWorkflow"]["tasks"]
    assert [(task["referenceTaskName"], task["outputData"]) for task in tasks] == [("a", {}), ("b", {})]
    bench.start(definition, BIG)
    bench.do("a", status="FAILED")
    assert "workflow input has" in bench.workflow.output_data["conductor.failure_workflow"]


def test_verbs_refuse_what_is_too_large(new_bench: Any) -> None:
    """Skipping, restarting and rerunning with documents past the barriers are refused, and change nothing."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a"), simple("b")))
    for given in ({"input": sized(5 * KB)}, {"output": sized(5 * KB)}):
        with pytest.raises(Conflict, match=f"has {5 * KB} bytes"):
            bench.engine.skip_task(bench.workflow_id, "b", **given)
    bench.do("a")
    bench.do("b")
    with pytest.raises(Conflict, match="workflow input has"):
        bench.engine.rerun(bench.workflow_id, input=sized(5 * KB))
    assert bench.workflow.status is WorkflowStatus.COMPLETED


# ---------------------------------------------------------------------- faces


def test_json_shows_the_path(new_bench: Any) -> None:
    """In Conductor's JSON a document of the storage is an empty map with its path beside it; what is small is there."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"})), BIG)
    bench.do("a", {"small": 1})
    row = bench.workflow
    document = workflow_to_json(row)
    assert row.input.external is not None
    assert (document["input"], document["externalInputPayloadStoragePath"]) == ({}, row.input.external.key)
    assert document["output"] == {"small": 1}
    assert "externalOutputPayloadStoragePath" not in document
    task = document["tasks"][0]
    assert (task["inputData"], task["externalInputPayloadStoragePath"]) == ({}, row.input.external.key)
    assert task["outputData"] == {"small": 1}
    assert len(json.dumps(document)) < 3 * KB
    assert f"{3 * KB} bytes at {row.input.external.key}" in render_history(bench.engine.history(bench.workflow_id), payloads=True)


def test_exports_are_whole_and_live_again(new_bench: Any) -> None:
    """An export holds every document, with the barriers it was decided under, and lives again elsewhere."""
    bench: Bench = new_bench()
    bench.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"}), simple("b")), BIG)
    bench.do("a", BIG)
    bench.do("b", sized(5 * KB))
    exported = bench.engine.admin.export(bench.workflow_id)
    assert exported["executions"][0]["input"] == BIG
    assert exported["bounds"]["barriers"]["max_task_output_payload_size_threshold"] == 4
    again = replay(json.dumps(exported))
    assert again.engine.get(again.workflow_id).input_data == BIG
    assert again.engine.get(again.workflow_id).status is WorkflowStatus.FAILED
    again.engine.close()


def test_functions_see_nothing_of_it(tmp_path: Path) -> None:
    """Worker functions are given and return large documents on the real clock, and a new engine reads them."""
    workers = Workers()

    @workers.task("grow")
    def grow(x: str) -> dict[str, str]:
        return {"x": x + x[:10]}

    definition = flow(WorkflowTask(name="grow", task_reference_name="g", input_parameters={"x": "${workflow.input.x}"}))
    barriers = Barriers(**SMALL)
    with Engine(tmp_path / "o.db", workers=workers, config=EngineConfig(bounds=Bounds(barriers=barriers))) as engine:
        run = engine.start(definition, BIG)
        assert run.result(timeout="20s") == {"x": BIG["x"] + BIG["x"][:10]}
    with Engine(tmp_path / "o.db", config=EngineConfig(bounds=Bounds(barriers=barriers))) as engine:
        row = engine.get(run.workflow_id)
        assert row.output.external is not None
        assert row.output_data == {"x": BIG["x"] + BIG["x"][:10]}


def test_awaited(tmp_path: Path) -> None:
    """The asynchronous engine takes the same arguments and verbs."""

    async def life() -> None:
        config = EngineConfig(bounds=Bounds(barriers=Barriers(**SMALL)))
        async with AsyncEngine(payloads=MemoryPayloads(), clock=VirtualClock(0), config=config) as engine:
            run = await engine.start(flow(simple("a")), BIG)
            row = await engine.get(run.workflow_id)
            assert row.input.external is not None
            assert (await engine.payloads.location(row.input.external.key)).uri.startswith("memory://")
            assert (await engine.payloads.sweep(0)).deleted == 0

    asyncio.run(life())


def test_off_when_the_soft_barrier_is_not_below_the_hard_one(new_bench: Any) -> None:
    """With a soft barrier as high as the hard one everything stays in the store."""
    bench: Bench = new_bench(barriers=dict.fromkeys(SMALL, 4))
    bench.start(flow(simple("a")), sized(4 * KB))
    bench.do("a", sized(4 * KB))
    assert bench.keys() == []
    assert bench.workflow.output_data == sized(4 * KB)


def test_the_same_is_decided_wherever_documents_lie(store: Any, tmp_path: Path) -> None:
    """With documents in the storage, or in the store, the journals of a family are the same, line by line and byte by byte."""
    from conductorlite.store.sqlite.backend import SQLiteBackend

    exports = []
    hard = {name: 16 for name in SMALL if name.startswith("max_")}
    for number, soft in enumerate((2, 16)):
        backend = store if number else SQLiteBackend(lay_empty_store(tmp_path / "twin.db"), synchronous="NORMAL")
        low = dict.fromkeys((name for name in SMALL if not name.startswith("max_")), soft)
        bench = Bench(backend, MemoryPayloads(), barriers={**low, **hard})
        bench.engine.register(flow(simple("c", input_parameters={"x": "${workflow.input.x}"}), name="child"))
        bench.engine.register(flow(simple("m"), name="mourner"))
        fork = system("f", "FORK_JOIN", fork_tasks=[[child_of("child", x="${workflow.input.x}")], [simple("b")]])
        loop = system("l", "DO_WHILE", loop_condition="$.a['x'] != null && $.l['iteration'] < 2", loop_over=[simple("a")])
        bench.start(
            flow(fork, system("j", "JOIN", join_on=["s", "b"]), loop, simple("z", input_parameters={"j": "${j.output}"}),
                 failure_workflow="mourner"),
            BIG,
        )  # fmt: skip
        for ref in ("b", "c", "a", "a"):
            bench.do(ref, BIG)
        bench.do("z", BIG, status="FAILED")
        bench.do("m", BIG)
        assert bool(bench.keys()) == (soft == 2)
        exports.append(bench.engine.admin.export(bench.workflow_id))
        assert bench.engine.admin.check() == []
        bench.engine.close()
    assert exports[0] == exports[1]
    assert len(exports[0]["executions"]) == 3


def test_small_turns_ask_nothing_more(tmp_path: Path) -> None:
    """A chain of small tasks costs as many statements and commits with low barriers as with none in reach."""
    from conductorlite.store.sqlite.backend import SQLiteBackend

    counts = []
    for barriers in (Barriers(), Barriers(**SMALL)):
        backend = SQLiteBackend(lay_empty_store(tmp_path / f"{len(counts)}.db"), counting=True)
        bench = Bench(backend, MemoryPayloads(), barriers={name: getattr(barriers, name) for name in SMALL})
        bench.start(flow(*(simple(f"t{n}") for n in range(5))))
        for number in range(5):
            bench.do(f"t{number}", {"n": "x" * 1500})
        assert backend.counts is not None
        counts.append((backend.counts.commits, backend.counts.statements))
        bench.engine.close()
    assert counts[0] == counts[1]
