"""OpenTelemetry: spans of executions and of attempts at their tasks, and metrics, with the API alone.

A span is made when it is over, by the engine whose turn ends it, with the instants of the rows: a restart loses none, and virtual
time is kept. Its id follows from the execution's or the attempt's, so that what belongs below it knows it before it is there, in
whichever process. Ids are chosen through the tracer's `id_generator`, which the SDK's tracers have; with another implementation
spans have ids of its own: they are in one trace, but not below each other.

An execution carries the span under which it was started (`Workflow.trace_context`, a W3C `traceparent`), a sub-workflow that of its
task. Names are those of the semantic conventions for messaging where there are any, else begin with `conductorlite.`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final

from conductorlite.engine.queues import QueueDepth
from conductorlite.engine.verbs import Verbs
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, MissingExtra, StorageError
from conductorlite.model.executions import HistoryKind, Task, Workflow
from conductorlite.model.handlers import EventExecution
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.threads import carried
from conductorlite.runtime.aio import AsyncEngine

try:
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise MissingExtra("otel", "Tracing") from error

__all__ = ["instrument"]

_SCOPE: Final = "conductorlite"
_MS: Final = 1_000_000

#: For how long queues are not read again unless something was committed here, ms.
_MS_READ: Final = 1_000

_FAILED_TASKS: Final = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})
_FAILED: Final = frozenset({WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT, WorkflowStatus.TERMINATED})
_TASK_ENDS: Final = {status.value: status for status in TaskStatus if status.terminal}
_ENDS: Final = {status.value: status for status in WorkflowStatus if status.terminal}

_TRACEPARENT: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

#: Executions whose trace is remembered.
_KNOWN: Final = 10_000

#: The ids of the next span: of its trace, if it begins one, and its own.
_chosen: ContextVar[tuple[int, int] | None] = ContextVar("conductorlite.otel", default=None)


def instrument(
    engine: Verbs | AsyncEngine,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[], None]:
    """Trace and measure an engine; returns a function that ends it. By default with the global providers, set before.

    Raises MissingExtra without the package opentelemetry-api.
    """
    found = engine if isinstance(engine, Verbs) else engine._engine
    observer = _Telemetry(
        found,
        trace.get_tracer(_SCOPE, tracer_provider=tracer_provider),
        metrics.get_meter(_SCOPE, meter_provider=meter_provider),
    )
    observers = found.core.turns.observers
    observers.append(observer)

    def stop() -> None:
        observer.over = True
        with suppress(ValueError):
            observers.remove(observer)

    return stop


class _Ids:
    """An id generator that gives the ids that were chosen, else those of the one it stands for."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def generate_trace_id(self) -> int:
        """The id of a trace that begins."""
        chosen = _chosen.get()
        return self._inner.generate_trace_id() if chosen is None else chosen[0]

    def generate_span_id(self) -> int:
        """The id of a span."""
        chosen = _chosen.get()
        return self._inner.generate_span_id() if chosen is None else chosen[1]


def _derived(size: int, *parts: object) -> int:
    """A number of so many bytes that follows from texts, and is not zero."""
    found = sha256("\0".join(map(str, parts)).encode()).digest()[:size]
    return int.from_bytes(found, "big") or 1


class _Telemetry:
    """The observer: see `conductorlite.engine.turn_types`."""

    def __init__(self, engine: Verbs, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._engine, self._tracer = engine, tracer
        #: Whether it is to say nothing more.
        self.over = False
        #: The queues, and when they were read: in which second, after how many commits.
        self._stood: Sequence[QueueDepth] = ()
        self._read_at: tuple[int, int] | None = None
        #: The trace of an execution, by its id.
        self._traces: OrderedDict[str, tuple[int, TraceFlags]] = OrderedDict()
        generator = getattr(tracer, "id_generator", None)
        if generator is not None:
            tracer.id_generator = _Ids(generator)  # type: ignore[attr-defined]
        self._started = meter.create_counter("conductorlite.workflow.started", "{execution}", "Executions that began")
        self._ended = meter.create_counter("conductorlite.workflow.ended", "{execution}", "Executions that ended, by status")
        self._lasted = meter.create_histogram("conductorlite.workflow.duration", "s", "From the start of an execution to its end")
        self._retries = meter.create_counter("conductorlite.task.retries", "{attempt}", "Attempts after the first")
        self._attempts = meter.create_histogram("conductorlite.task.duration", "s", "From when an attempt was scheduled to its end")
        self._processed = meter.create_histogram("messaging.process.duration", "s", "How long a worker's function took")
        self._waited = meter.create_histogram("conductorlite.queue.wait", "s", "From when a task was due to when a worker took it")
        self._actions = meter.create_counter("conductorlite.event.actions", "{action}", "Actions of event handlers, by status")
        meter.create_observable_gauge("conductorlite.queue.depth", [self._depths], "{task}", "Tasks that wait for a worker")
        meter.create_observable_gauge("conductorlite.queue.tasks", [self._states], "{task}", "Tasks that have not ended, by state")
        meter.create_observable_gauge("conductorlite.queue.oldest", [self._oldest], "s", "For how long the oldest task is due")
        meter.create_observable_counter("conductorlite.turn.fenced_out", [self._fenced], "{turn}", "Turns that came second")
        meter.create_observable_gauge("conductorlite.index.lag", [self._lag], "{execution}", "Changes the index does not know yet")

    # ------------------------------------------------------------------ the observer

    def carried(self) -> str | None:
        """The current span, as a `traceparent`."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"

    def headers(self) -> Mapping[str, str]:
        """The current span and whatever else the propagators carry."""
        found: dict[str, str] = {}
        propagate.inject(found)
        return found

    @contextmanager
    def working(self, task: Task) -> Iterator[None]:
        """A span around a worker's function, below that of its attempt."""
        clock = self._engine.clock
        begun = clock.now()
        about = {**_about_task(task), "messaging.operation.name": "process", "messaging.operation.type": "process"}
        queue = {"messaging.system": _SCOPE, "messaging.destination.name": task.task_type, "messaging.operation.name": "process"}
        self._waited.record(max(0, begun - max(task.due_at, task.scheduled_at)) / 1000, queue)
        span = self._tracer.start_span(
            f"process {task.task_type}",
            context=self._within(task.workflow_id, _attempt_id(task)),
            kind=SpanKind.CONSUMER,
            attributes=about,
            start_time=begun * _MS,
        )
        problem: dict[str, str] = {}
        try:
            with trace.use_span(span, record_exception=True, set_status_on_exception=True):
                yield
        except BaseException as error:
            problem = {"error.type": type(error).__qualname__}
            span.set_attributes(problem)
            raise
        finally:
            ended = clock.now()
            span.end(ended * _MS)
            self._processed.record(max(0, ended - begun) / 1000, queue | problem)

    def acted(self, execution: EventExecution) -> None:
        """Count an action of an event handler."""
        named = {"event_handler": execution.name, "status": str(execution.status)}
        self._actions.add(1, named if execution.action is None else {**named, "action": str(execution.action)})

    def committed(self, decision: Decision) -> None:
        """Spans of what a turn has ended, and what it counts."""
        row = decision.workflow
        named = {"conductorlite.workflow.name": row.name}
        rows = {(task.ref, task.attempt): task for task in (*decision.inserted, *decision.updated)}
        for task in decision.inserted:
            if task.attempt > task.first_attempt:
                self._retries.add(1, {**named, "messaging.destination.name": task.task_type})
        for line in decision.history:
            if line.kind is HistoryKind.WORKFLOW:
                if line.n == 1:
                    self._started.add(1, named)
                elif line.status in _ENDS:
                    self._end_workflow(row, named)
            elif line.kind is HistoryKind.TASK and line.status in _TASK_ENDS:
                task_row = rows.get((line.ref or "", line.attempt or 0))
                if task_row is not None:
                    self._end_attempt(row, task_row, _TASK_ENDS[line.status], line.at)

    # ------------------------------------------------------------------ spans

    def _end_workflow(self, row: Workflow, named: dict[str, str]) -> None:
        begun, ended = row.last_retried_at or row.created_at, row.ended_at or row.updated_at
        about = {**named, "conductorlite.workflow.status": str(row.status)}
        self._ended.add(1, about)
        self._lasted.record(max(0, ended - begun) / 1000, about)
        given: dict[str, str | int] = {
            **about,
            "conductorlite.workflow.id": row.workflow_id,
            "conductorlite.workflow.version": row.version,
            **({"conductorlite.workflow.correlation_id": row.correlation_id} if row.correlation_id else {}),
        }
        problem = row.reason or "" if row.status in _FAILED else None
        self._make(f"workflow {row.name}", self._above(row), row.workflow_id, _execution_id(row), (begun, ended), given, problem)

    def _end_attempt(self, row: Workflow, task: Task, status: TaskStatus, at: int) -> None:
        about: dict[str, str | int] = _about_task(task)
        about |= {"conductorlite.workflow.name": row.name, "conductorlite.task.status": str(status)}
        keys = ("messaging.destination.name", "conductorlite.workflow.name", "conductorlite.task.status")
        self._attempts.record(max(0, at - task.scheduled_at) / 1000, {key: about[key] for key in keys})
        within = self._within(row.workflow_id, _execution_id(row))
        problem = task.reason or "" if status in _FAILED_TASKS else None
        self._make(f"task {task.ref}", within, row.workflow_id, _attempt_id(task), (task.scheduled_at, at), about, problem)

    def _make(
        self,
        name: str,
        context: Context,
        workflow_id: str,
        span_id: int,
        lasted: tuple[int, int],
        about: Mapping[str, str | int],
        problem: str | None,
    ) -> None:
        """A span with an id that was known before it; `problem` is why it failed, None if it did not."""
        begun, ended = lasted
        with carried(_chosen, (self._trace(workflow_id)[0], span_id)):
            span = self._tracer.start_span(name, context=context, attributes=about, start_time=begun * _MS)
        if problem is not None:
            span.set_status(Status(StatusCode.ERROR, problem))
        span.end(max(begun, ended) * _MS)

    def _above(self, row: Workflow) -> Context:
        """Return the parent of an execution's span: the task of the execution above, or the span it was started under, or None."""
        if row.parent_workflow_id is not None and row.parent_task_id is not None:
            return self._within(row.parent_workflow_id, _derived(8, "task", row.parent_task_id))
        parent = _read(row.trace_context)
        return Context() if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())

    def _within(self, workflow_id: str, span_id: int) -> Context:
        """The context of a span of an execution, which may not be there yet."""
        trace_id, flags = self._trace(workflow_id)
        span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(span), Context())

    def _trace(self, workflow_id: str) -> tuple[int, TraceFlags]:
        """The trace of an execution, which is that of the one above all: what that was started under, or one of its own."""
        known = self._traces.get(workflow_id)
        if known is None:
            top, carried = self._top(workflow_id)
            known = (_derived(16, "trace", top), TraceFlags(TraceFlags.SAMPLED)) if carried is None else carried
            if carried is None:
                known = known[0], self._sampled(known[0])
            self._traces[workflow_id] = known
            while len(self._traces) > _KNOWN:
                self._traces.popitem(last=False)
        return known

    def _top(self, workflow_id: str) -> tuple[str, tuple[int, TraceFlags] | None]:
        """The execution above all others, and the trace it was started under."""
        with self._engine.backend.reading() as view:
            while True:
                row = view.executions.workflow(workflow_id)
                if row is None or row.parent_workflow_id is None:
                    parent = None if row is None else _read(row.trace_context)
                    return workflow_id, None if parent is None else (parent.trace_id, parent.trace_flags)
                workflow_id = row.parent_workflow_id

    def _sampled(self, trace_id: int) -> TraceFlags:
        """Return the sampler's decision on a trace that begins here: its spans are all made, or none."""
        sampler = getattr(self._tracer, "sampler", None)
        kept = sampler is None or sampler.should_sample(Context(), trace_id, _SCOPE).decision.is_sampled()
        return TraceFlags(TraceFlags.SAMPLED if kept else TraceFlags.DEFAULT)

    # ------------------------------------------------------------------ what is asked when it is exported

    def _depths(self, _: object) -> Iterable[metrics.Observation]:
        with suppress(EngineClosed, StorageError):  # nothing is measured where nothing can be read; the driver logs why
            for queue, number in () if self.over else self._engine.tasks.queue_sizes().items():
                yield metrics.Observation(number, {"messaging.system": _SCOPE, "messaging.destination.name": queue})

    def _states(self, _: object) -> Iterable[metrics.Observation]:
        for one in self._queues():
            place = {"messaging.system": _SCOPE, "messaging.destination.name": one.queue}
            for state in ("offered", "waiting", "delayed", "in_progress"):
                yield metrics.Observation(getattr(one, state), {**place, "conductorlite.state": state})

    def _oldest(self, _: object) -> Iterable[metrics.Observation]:
        now = self._engine.clock.now()
        for one in self._queues():
            waits = 0.0 if one.oldest_at is None else max(0, now - one.oldest_at) / 1000
            yield metrics.Observation(waits, {"messaging.system": _SCOPE, "messaging.destination.name": one.queue})

    def _queues(self) -> Sequence[QueueDepth]:
        """The queues as they stand: read once for what is exported together."""
        at = (self._engine.clock.now() // _MS_READ, self._engine.core.turns.committed.number)
        if self._read_at != at and not self.over:
            with suppress(EngineClosed, StorageError):  # nothing is measured where nothing can be read; the driver logs why
                self._stood = self._engine.tasks.queues()
                self._read_at = at
        return () if self.over else self._stood

    def _fenced(self, _: object) -> Iterable[metrics.Observation]:
        if not self.over:
            yield metrics.Observation(self._engine.core.turns.fenced_out)

    def _lag(self, _: object) -> Iterable[metrics.Observation]:
        with suppress(EngineClosed, StorageError):  # nothing is measured where nothing can be read; the driver logs why
            health = None if self.over else self._engine.admin.index_health()
            if health is not None:
                yield metrics.Observation(health.behind)


def _execution_id(row: Workflow) -> int:
    """The id of an execution's span: another one after a restart or a retry."""
    return _derived(8, "workflow", row.workflow_id, row.generation, row.last_retried_at)


def _attempt_id(task: Task) -> int:
    return _derived(8, "task", task.task_id)


def _about_task(task: Task) -> dict[str, str | int]:
    return {
        "messaging.system": _SCOPE,
        "messaging.destination.name": task.task_type,
        "messaging.message.id": task.task_id,
        "messaging.message.conversation_id": task.workflow_id,
        "conductorlite.workflow.id": task.workflow_id,
        "conductorlite.task.ref": task.ref,
        "conductorlite.task.attempt": task.attempt,
    }


def _read(traceparent: str | None) -> SpanContext | None:
    """The span that a `traceparent` names; None for what is none."""
    parts = _TRACEPARENT.fullmatch(traceparent or "")
    if parts is None:
        return None
    found = SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=TraceFlags(int(parts[3], 16)))
    return found if found.is_valid else None
