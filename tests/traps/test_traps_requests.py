"""What a request says is what the execution has: starts, reruns, reports, registrations."""

from __future__ import annotations

from engine_kit import Bench, flow, simple

from conductorlite import TaskDef


def test_every_argument_of_a_start_is_kept(bench: Bench) -> None:
    """Who started it, for what, how urgently and for whom."""
    bench.start(flow(simple("a")), {"x": 1}, workflow_id="mine", correlation_id="c", priority=7, created_by="me",
                task_to_domain={"a": "d"}, idempotency_key="k")  # fmt: skip
    row = bench.workflow
    assert (row.workflow_id, row.input_data, row.correlation_id, row.priority) == ("mine", {"x": 1}, "c", 7)
    assert (row.created_by, row.task_to_domain.fresh(), row.idempotency_key) == ("me", {"a": "d"}, "k")


def test_what_a_rerun_is_given(bench: Bench) -> None:
    """Another input for the workflow, and another correlation id."""
    bench.start(flow(simple("a", input_parameters={"n": "${workflow.input.n}"})), {"n": 1}, correlation_id="old")
    bench.do("a")
    bench.engine.rerun(bench.workflow_id, input={"n": 2}, correlation_id="new")
    bench.engine.settle()
    assert (bench.workflow.input_data, bench.workflow.correlation_id) == ({"n": 2}, "new")
    assert bench.do("a").input_data == {"n": 2}


def test_a_report_names_its_worker(bench: Bench) -> None:
    """The worker that a report names is the task's, not the one that polled it."""
    bench.start(flow(simple("a")))
    bench.do("a", worker_id="other")
    assert bench.task("a").worker_id == "other"


def test_definitions_are_listed(bench: Bench) -> None:
    """Names and versions of workflows, names of task definitions, in order."""
    bench.engine.register(flow(simple("a"), name="w", version=2), flow(simple("a"), name="w"), flow(simple("a"), name="v"))
    bench.engine.register(TaskDef(name="b"), TaskDef(name="a"))
    assert list(bench.engine.definitions.workflows()) == [("v", 1), ("w", 1), ("w", 2)]
    assert list(bench.engine.definitions.tasks()) == ["a", "b"]
