"""How deep a queue is, whoever asks: tasks that wait for a slot of their limit wait for a worker too."""

from __future__ import annotations

import asyncio

import pytest
from engine_kit import NewBench

from conductorlite import TaskDef, WorkflowDef, WorkflowTask

RATE = TaskDef(name="lim", rate_limit_per_frequency=3, rate_limit_frequency_ms=60_000)
CONCURRENT = TaskDef(name="lim", concurrent_exec_limit=3)
BOTH = TaskDef(name="lim", rate_limit_per_frequency=4, rate_limit_frequency_ms=60_000, concurrent_exec_limit=3)
ONE = WorkflowDef(name="w", tasks=[WorkflowTask(name="lim", task_reference_name="lim")])


@pytest.mark.parametrize("limit", [RATE, CONCURRENT, BOTH, TaskDef(name="lim")], ids=["rate", "concurrent", "both", "none"])
@pytest.mark.parametrize("domain", [None, "eu"])
def test_a_backlog_that_nobody_polls_stays_as_deep(new_bench: NewBench, limit: TaskDef, domain: str | None) -> None:
    """Ten tasks wait, at once and after the offers of the first have ended; one that a worker takes waits no more."""
    engine = new_bench().engine
    engine.register(limit)
    queue = "lim" if domain is None else f"{domain}:lim"
    to = {} if domain is None else {"lim": domain}
    runs = [engine.start(ONE, task_to_domain=to) for _ in range(10)]
    engine.settle()
    assert engine.tasks.queue_sizes() == {queue: 10}
    for span in ("5s", "55s", "10m"):
        engine.advance(span)
        assert engine.tasks.queue_sizes() == {queue: 10}, span
    engine.poll("lim", domain=domain)
    engine.settle()
    engine.poll("lim", domain=domain, count=2)
    engine.settle()
    taken = sum(task.status == "IN_PROGRESS" for run in runs for task in run.tasks)
    assert taken
    assert engine.tasks.queue_sizes() == {queue: 10 - taken}
    for run in runs:
        engine.terminate(run.workflow_id)
    engine.settle()
    assert engine.tasks.queue_sizes() == {}


def test_each_place_that_shows_a_depth_shows_the_same(new_bench: NewBench) -> None:
    """REST, the metric that an autoscaler reads, and the page of the store."""
    httpx, metrics = pytest.importorskip("httpx"), pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from conductorlite.ext.otel import instrument
    from conductorlite.server.rest import rest_app

    engine = new_bench().engine
    engine.register(RATE)
    reader = InMemoryMetricReader()
    stop = instrument(engine, meter_provider=metrics.MeterProvider([reader]))
    for _ in range(10):
        engine.start(ONE)
    engine.settle()
    engine.advance("5s")

    async def rest() -> list[object]:
        transport = httpx.ASGITransport(rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            paths = ("size?taskType=lim", "sizes?taskType=lim", "all", "all/verbose")
            return [(await client.get(f"/api/tasks/queue/{path}")).json() for path in paths]

    assert asyncio.run(rest()) == [10, {"lim": 10}, {"lim": 10}, {"lim": {"a": {"size": 10, "uacked": 0}}}]
    points = [
        (metric.name, point.attributes["messaging.destination.name"], point.value)
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "conductorlite.queue.depth"
        for point in metric.data.data_points
    ]
    assert points == [("conductorlite.queue.depth", "lim", 10)]
    assert ">10<" in engine.admin.page()
    stop()
