"""OpenTelemetry: which spans and figures come out of an engine, kept by the SDK's exporters in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from conductorlite import AsyncEngine, Engine, SubWorkflowParams, TaskContext, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import WorkflowFailed
from conductorlite.ext.otel import instrument
from conductorlite.ext.workers import system_workers
from conductorlite.testing import replay


class Telemetry:
    """Providers that keep everything."""

    def __init__(self, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(**options), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.options = {"tracer_provider": self.tracers, "meter_provider": self.meters}

    @property
    def spans(self) -> dict[str, list[ReadableSpan]]:
        """The spans that have ended, by name."""
        found: dict[str, list[ReadableSpan]] = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    def figures(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Closed afterwards."""
    kept = Telemetry()
    yield kept
    kept.tracers.shutdown()
    kept.meters.shutdown()


def task(name: str, ref: str, kind: str = "SIMPLE", **options: Any) -> WorkflowTask:
    """A task."""
    return WorkflowTask(name=name, task_reference_name=ref, type=kind, **options)


def crew() -> Workers:
    """Functions that make spans of their own, the first attempt of one fails."""
    workers = Workers()

    @workers.task("work", retry_count=1, retry_delay_seconds=60)
    def work(context: TaskContext) -> None:
        with trace.get_tracer("users").start_as_current_span("within"):
            if context.attempt == 0:
                raise ValueError("no")

    return workers


INNER = WorkflowDef(name="inner", tasks=[task("work", "deep")])
OUTER = WorkflowDef(
    name="outer",
    tasks=[task("work", "w"), task("s", "sub", "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="inner"))],
)


def parent_of(span: ReadableSpan) -> int | None:
    """The id of the span above."""
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    """Its own id."""
    assert span.context is not None
    return span.context.span_id


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("called", [True, False])
def test_one_trace_from_the_start_to_the_last_worker(telemetry: Telemetry, store: str, called: bool, tmp_path: Path) -> None:
    """A span of each execution and attempt, each below what it belongs to, with the instants of the rows, over two engines."""
    tracer = telemetry.tracers.get_tracer("users")
    file = None if store == "memory" else tmp_path / "trace.db"
    clock = VirtualClock()
    with Engine(file, workers=crew(), clock=clock) as engine:
        instrument(engine, **telemetry.options)
        engine.register(INNER)
        with tracer.start_as_current_span("request") if called else trace.use_span(trace.INVALID_SPAN) as request:
            run = engine.start(OUTER, workflow_id="one")
        if store == "file":
            engine.settle()
            with Engine(file, workers=crew(), clock=clock) as other:
                instrument(other, **telemetry.options)
                other.run(run.workflow_id).result()
        else:
            run.result()
        spans = telemetry.spans
        [outer], [inner], [sub] = spans["workflow outer"], spans["workflow inner"], spans["task sub"]
        attempts = spans["task w"]
        assert {span.context.trace_id for some in spans.values() for span in some if span.context} == {
            request.get_span_context().trace_id if called else outer.context.trace_id  # type: ignore[union-attr]
        }
        assert parent_of(outer) == (request.get_span_context().span_id if called else None)
        assert {parent_of(span) for span in (*attempts, sub)} == {id_of(outer)}
        assert parent_of(inner) == id_of(sub)
        assert [parent_of(span) for span in spans["task deep"]] == [id_of(inner)] * 2
        ran = spans["process work"]
        assert {parent_of(span) for span in ran} == {id_of(span) for span in (*attempts, *spans["task deep"])}
        for row, span in zip(run.tasks[:2], attempts, strict=True):
            assert (span.start_time, span.end_time) == (row.scheduled_at * 1_000_000, row.ended_at * 1_000_000)
            assert span.attributes is not None
            assert span.attributes["messaging.message.id"] == row.task_id
        assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.UNSET]
        assert attempts[0].status.description == "ValueError: no"
        assert [event.name for event in ran[0].events] == ["exception"]
        assert engine.admin.check() == []
        replay(engine.admin.export("one"))


def test_figures(telemetry: Telemetry) -> None:
    """What began and ended, retries, how long things took and waited, how many wait, under their names."""
    clock = VirtualClock()
    with Engine(workers=crew(), clock=clock) as engine:
        stop = instrument(engine, **telemetry.options)
        engine.start(WorkflowDef(name="w", tasks=[task("work", "w")])).result()
        engine.start(WorkflowDef(name="waits", tasks=[task("nobody", "n")]))
        ends = task("t", "t", "TERMINATE", input_parameters={"terminationStatus": "FAILED"})
        with pytest.raises(WorkflowFailed):
            engine.start(WorkflowDef(name="fails", tasks=[ends])).result()
        figures = telemetry.figures()

        def by(metric: str, attribute: str) -> dict[Any, Any]:
            return {point.attributes[attribute]: point for point in figures[metric]}

        assert sum(point.value for point in figures["conductorlite.workflow.started"]) == 3
        assert sum(point.value for point in figures["conductorlite.task.retries"]) == 1
        ended = by("conductorlite.workflow.ended", "conductorlite.workflow.status")
        assert {status: point.value for status, point in ended.items()} == {"COMPLETED": 1, "FAILED": 1}
        lasted = by("conductorlite.workflow.duration", "conductorlite.workflow.name")["w"]
        assert (lasted.count, lasted.sum) == (1, 60)
        waiting = by("conductorlite.queue.depth", "messaging.destination.name")
        assert {queue: point.value for queue, point in waiting.items()} == {"nobody": 1}
        assert sum(one.count for one in figures["messaging.process.duration"]) == 2
        assert [one.attributes.get("error.type") for one in figures["messaging.process.duration"]] == ["ValueError", None]
        assert [one.sum for one in figures["conductorlite.queue.wait"]] == [0]
        assert [one.value for one in figures["conductorlite.turn.fenced_out"]] == [0]
        stop()
        before = len(telemetry.exporter.get_finished_spans())
        engine.start(WorkflowDef(name="w", tasks=[task("x", "x", "NOOP")])).result()
        assert len(telemetry.exporter.get_finished_spans()) == before
    telemetry.figures()


def test_turns_that_came_second_are_counted(telemetry: Telemetry) -> None:
    """Those that another turn of this engine's was first to."""
    with Engine(clock=VirtualClock()) as engine:
        instrument(engine, **telemetry.options)
        run = engine.start(WorkflowDef(name="w", tasks=[task("h", "h", "HUMAN")]))
        threads = [threading.Thread(target=engine.update_variables, args=(run.workflow_id, {str(n): n})) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [found] = telemetry.figures()["conductorlite.turn.fenced_out"]
        assert found.value == engine.core.turns.fenced_out


def test_restarts_and_retries_have_spans_of_their_own(telemetry: Telemetry) -> None:
    """No two spans have an id in common."""
    with Engine(workers=crew(), clock=VirtualClock()) as engine:
        instrument(engine, **telemetry.options)
        run = engine.start(WorkflowDef(name="w", tasks=[task("work", "w")]))
        run.result()
        engine.restart(run.workflow_id)
        run.result()
        spans = telemetry.exporter.get_finished_spans()
        assert len(telemetry.spans["workflow w"]) == 2
        assert len({id_of(span) for span in spans}) == len(spans)


def test_what_is_not_sampled_is_not_made() -> None:
    """The decision of the trace holds for all its spans."""
    kept = Telemetry(sampler=ParentBased(ALWAYS_OFF))
    with Engine(workers=crew(), clock=VirtualClock()) as engine:
        instrument(engine, **kept.options)
        engine.start(WorkflowDef(name="w", tasks=[task("work", "w")])).result()
    assert kept.exporter.get_finished_spans() == ()


def test_the_trace_goes_on_over_http_and_on_loops(telemetry: Telemetry) -> None:
    """An HTTP task sends the span of its call; a start that is awaited carries the span of the coroutine."""
    sent: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["traceparent"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    request = {"uri": f"http://127.0.0.1:{server.server_port}/", "method": "GET"}
    definition = WorkflowDef(name="w", tasks=[task("h", "h", "HTTP", input_parameters={"http_request": request})])

    async def main() -> trace.SpanContext:
        async with AsyncEngine(workers=Workers().include(system_workers())) as engine:
            instrument(engine, **telemetry.options)
            with telemetry.tracers.get_tracer("users").start_as_current_span("request") as span:
                run = await engine.start(definition)
            await run.result("20s")
            return span.get_span_context()

    try:
        context = asyncio.run(asyncio.wait_for(main(), 30))
    finally:
        server.shutdown()
        server.server_close()
    [ran] = telemetry.spans["process HTTP"]
    assert sent == [f"00-{context.trace_id:032x}-{id_of(ran):016x}-{context.trace_flags:02x}"]


def test_an_observer_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is logged; the execution goes on."""

    class Broken:
        def committed(self, decision: Any) -> None:
            raise ValueError("committed")

        def carried(self) -> None:
            return None

        def working(self, task: Any) -> Any:
            raise ValueError("working")

        def headers(self) -> dict[str, str]:
            return {}

    with Engine(workers=crew(), clock=VirtualClock()) as engine:
        engine.core.turns.observers.append(Broken())
        run = engine.start(WorkflowDef(name="w", tasks=[task("work", "w")]))
        run.result()
        assert [one.status.value for one in run.tasks] == ["FAILED", "COMPLETED"]
    assert "ValueError: working" in caplog.text
    assert "ValueError: committed" in caplog.text


def test_what_is_no_context_begins_a_trace(telemetry: Telemetry) -> None:
    """A row may hold what another program has written."""
    with Engine(clock=VirtualClock()) as engine:
        instrument(engine, **telemetry.options)
        wrongs = ("", "x", "00-1-2-3", f"00-{0:032x}-{1:016x}-01", f"01-{1:032x}-{1:016x}-01", f"00-{'g' * 32}-{1:016x}-01")
        for number, wrong in enumerate(wrongs):
            engine.core.turns.observers[:0] = [Carrying(wrong)]
            engine.start(WorkflowDef(name="w", tasks=[task("x", "x", "NOOP")]), workflow_id=str(number)).result()
            del engine.core.turns.observers[0]
        assert [parent_of(span) for span in telemetry.spans["workflow w"]] == [None] * 6


class Carrying:
    """An observer that has executions carry a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def carried(self) -> str:
        """The text."""
        return self.text

    def committed(self, decision: Any) -> None:
        """Nothing."""

    def headers(self) -> dict[str, str]:
        """None."""
        return {}
