"""How deep a queue is, whoever asks: tasks that wait for a slot of their limit wait for a worker too."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from engine_kit import NewBench

from conductorlite import TaskDef, TaskResult, TaskStatus, WorkflowDef, WorkflowTask

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

    (one,) = engine.tasks.queues()
    states = {"offered": one.offered, "waiting": one.waiting, "delayed": 0, "oldestDueAt": one.oldest_at}
    assert asyncio.run(rest()) == [10, {"lim": 10}, {"lim": 10}, {"lim": {"a": {"size": 10, "uacked": 0, **states}}}]
    points = [
        (metric.name, point.attributes["messaging.destination.name"], point.value)
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "conductorlite.queue.depth"
        for point in metric.data.data_points
    ]
    assert points == [("conductorlite.queue.depth", "lim", 10)]
    engine.poll("lim")
    (one,) = engine.tasks.queues()
    figures = {
        (metric.name, point.attributes.get("conductorlite.state")): point.value
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name in ("conductorlite.queue.tasks", "conductorlite.queue.oldest")
        for point in metric.data.data_points
    }
    assert figures == {
        ("conductorlite.queue.tasks", "offered"): one.offered,
        ("conductorlite.queue.tasks", "waiting"): one.waiting,
        ("conductorlite.queue.tasks", "delayed"): 0,
        ("conductorlite.queue.tasks", "in_progress"): 1,
        ("conductorlite.queue.oldest", None): 5.0,
    }
    states = {"offered": one.offered, "waiting": one.waiting, "delayed": 0, "oldestDueAt": one.oldest_at}
    assert asyncio.run(rest())[-1] == {"lim": {"a": {"size": 9, "uacked": 1, **states}}}
    assert ">10<" in engine.admin.page()
    stop()


def test_a_queue_says_which_of_its_tasks_are_where(new_bench: NewBench) -> None:
    """Offered, waiting in line, delayed and in progress, with the oldest; a depth is all but those in progress."""
    engine = new_bench().engine
    engine.register(CONCURRENT, TaskDef(name="free", retry_count=1, retry_delay_ms=60_000))
    for _ in range(10):
        engine.start(ONE)
    free = WorkflowDef(name="v", tasks=[WorkflowTask(name="free", task_reference_name="free")])
    engine.start(WorkflowDef(name="late", tasks=[attrs.evolve(free.tasks[0], start_delay_ms=3_600_000)]))
    run = engine.start(free, task_to_domain={"free": "eu"})
    engine.settle()
    engine.advance("2s")
    (task,) = engine.poll("free", domain="eu")
    taken = engine.poll("lim", count=2)
    eu, later, limited = engine.tasks.queues()
    assert (eu.queue, eu.task_type, eu.domain) == ("eu:free", "free", "eu")
    assert (eu.offered, eu.waiting, eu.delayed, eu.in_progress, eu.oldest_at) == (0, 0, 0, 1, None)
    assert (later.offered, later.delayed, later.in_progress, later.oldest_at) == (0, 1, 0, None)
    assert limited.in_progress == len(taken) == 2
    assert limited.offered + limited.waiting == limited.depth == 8
    assert limited.waiting >= 7
    assert limited.oldest_at == engine.get(run.workflow_id).created_at
    engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.FAILED, lease=task.lease))
    engine.settle()
    (eu,) = (one for one in engine.tasks.queues() if one.queue == "eu:free")
    assert (eu.offered, eu.delayed, eu.in_progress, eu.depth) == (0, 1, 0, 1)
    assert {one.queue: one.depth for one in engine.tasks.queues() if one.depth} == engine.tasks.queue_sizes()
