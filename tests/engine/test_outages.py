"""A driver and a store that cannot be used: every error × every place where the driver touches the store.

One program whose driving touches the store in every way: turns, timers, deliveries, polls, reports with and without lines, signs
of life, lost leases, a schedule, a source of messages, an index, looks at what others commit. It lives once undisturbed, which
tells the places; then once with each error raised at each place. The clock passes when nobody does anything, so nothing is waited
for.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    EngineConfig,
    ResultTimeout,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
)
from conductorlite.errors import (
    EngineClosed,
    PayloadUnavailable,
    SchemaTooNew,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
)
from conductorlite.ext.sinks import MemoryQueue
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.model.handlers import EventAction, EventHandler, StartWorkflow
from conductorlite.model.schedules import WorkflowSchedule
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend, MemoryIndex
from conductorlite.testing.faults import lay_empty_store

T0 = 1_900_000_000_000

#: Generous bound of every wait on the machine's clock, seconds.
PATIENCE = 20.0

PASSING = (StorageBusy, StorageFull, StorageReadOnly, StorageError, PayloadUnavailable)
LASTING = (StorageCorrupt, SchemaTooNew, EngineClosed)

#: Where a failure is nobody's business: it can wait, or it is the index's, which is told later; some depend on who is late.
QUIET = {"checkpoint", "note_driven", "forget_driven", "begin_feed", "end_feed", "mark_indexed", "record_polls"}


#: Methods of the backend itself; the others are writes inside a transaction.
USES = {"reading", "writing", "data_version", "commits", "checkpoint", "faults"}


class Hasty:
    """A real clock for the driver, which passes at once when nobody does anything but sleep."""

    virtual = False

    def __init__(self) -> None:
        self._now = T0
        self.engine: Engine | None = None
        self._asleep: dict[str, tuple[int, threading.Event]] = {}

    def now(self) -> int:
        """Epoch ms."""
        return self._now

    def sleep(self, context: TaskContext, span: int) -> None:
        """Let a worker's function take so long, ms."""
        woken = threading.Event()
        self._asleep[context.task_id] = (self._now + span, woken)
        woken.wait(PATIENCE)

    def wait(self, wakeup: threading.Condition, until: int | None) -> None:
        """Until somebody notifies, or at once when all that run are asleep."""
        assert self.engine is not None
        calls = [call for call in self.engine.driver.workshop if call.job is not None and not call.job.done]
        if any(call.task.task_id not in self._asleep for call in calls):
            wakeup.wait(0.05)
        elif until is not None:
            self._now = max(self._now, min([until, *(at for at, _ in self._asleep.values())]))
            for task_id, (at, woken) in tuple(self._asleep.items()):
                if at <= self._now:
                    del self._asleep[task_id]
                    woken.set()


class Faults:
    """Raises errors at places: each of a series, at each place, one after the other."""

    def __init__(self, errors: tuple[type[Exception], ...] = (), places: Callable[[str], bool] = lambda _: True) -> None:
        self._errors, self._places = errors, places
        self.on = False
        self.raised: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.made: list[Exception] = []
        self._thread = threading.get_ident()

    def __call__(self, place: str) -> None:
        """Note a place, and raise what is next there."""
        # Only what the driver does, and what feeds the index beside it; a worker's own verbs raise to the worker.
        if not self.on or (threading.get_ident() != self._thread and threading.current_thread().name != "conductorlite-index"):
            return
        self.seen.add(place)
        if self._places(place) and self.raised[place] < len(self._errors):
            self.raised[place] += 1
            self.made.append(self._errors[self.raised[place] - 1](f"at {place}"))
            raise self.made[-1]


def task(name: str, **fields: Any) -> dict[str, Any]:
    """A task whose reference is its name."""
    return {"name": name, "taskReferenceName": name, **fields}


CHILD = {"name": "child", "tasks": [task("inner")]}
MAIN = WorkflowDef.from_json(
    {
        "name": "main",
        "tasks": [
            task("wait", type="WAIT", inputParameters={"duration": "2 s"}),
            task(
                "fork",
                type="FORK_JOIN",
                forkTasks=[
                    [task("plain"), task("again")],
                    [task("slow", taskDefinition={"name": "slow", "responseTimeoutSeconds": 60, "timeoutSeconds": 3600})],
                    [
                        task(
                            "stuck",
                            optional=True,
                            taskDefinition={"name": "stuck", "retryCount": 0, "timeoutSeconds": 5, "timeoutPolicy": "RETRY"},
                        )
                    ],
                    [task("awaited")],
                    [task("kid", type="SUB_WORKFLOW", subWorkflowParam={"name": "child", "workflowDefinition": CHILD})],
                ],
            ),
            task("join", type="JOIN", joinOn=["again", "slow", "stuck", "awaited", "kid"]),
            task("quiet", type="WAIT", inputParameters={"duration": "2 s"}),
        ],
    }
)
SMALL = WorkflowDef.from_json({"name": "small", "tasks": [task("plain")]})


class Program:
    """The whole of it, on one store."""

    def __init__(self, backend: Backend, faults: Faults) -> None:
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.faults, self.clock, self.queue = faults, Hasty(), MemoryQueue()
        workers = Workers()

        def counted(context: TaskContext) -> dict[str, str]:
            self.calls[context.workflow_id, context.ref, context.attempt] += 1
            return {"by": context.ref}

        for name in ("plain", "inner"):
            workers.add(name, counted)

        @workers.task("again")
        def again(context: TaskContext) -> dict[str, str]:
            context.log("seen")
            return counted(context)

        @workers.task("slow")
        def slow(context: TaskContext) -> dict[str, str]:
            self.clock.sleep(context, 21_000)  # one sign of life
            return counted(context)

        @workers.task("stuck")
        def stuck(context: TaskContext) -> dict[str, str]:
            self.clock.sleep(context, 10**12)
            return counted(context)

        @workers.task("awaited")
        async def awaited(context: TaskContext) -> dict[str, str]:
            return counted(context)

        self.backend = FaultyBackend(backend, on_write=faults, on_use=faults)
        self.engine = Engine(
            self.backend,
            clock=self.clock,
            workers=workers,
            index=MemoryIndex(),
            config=EngineConfig(event_sources=[self.queue], ids=self._ids().__next__),
        )
        self.clock.engine = self.engine
        self.engine.register(MAIN, SMALL)
        action = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="small"))
        self.engine.events.register(EventHandler(name="h", event="q:e", actions=[action], active=True))
        request = StartWorkflowRequest(name="small", version=1)
        ends = {"schedule_start_time": T0, "schedule_end_time": T0 + 2_000}
        self.engine.schedules.save(WorkflowSchedule(name="s", interval_ms=2_000, start_workflow_request=request, **ends))
        self.queue.publish("q:e", {}, message_id="m")
        self.run = self.engine.start(MAIN)

    def _ids(self) -> Any:
        yield from (f"id{number}" for number in range(100))

    def live(self, verb: Callable[[], object]) -> None:
        """Drive to the end."""
        self.faults.on = True
        try:
            verb()
        finally:
            self.faults.on = False

    def end(self) -> dict[str, Any]:
        """What became of it; nothing is left to do and no law is broken."""
        assert self.engine.run_until_idle("1h")
        assert self.engine.admin.check() == []
        ends = {}
        for workflow_id in self.engine.admin.workflow_ids():
            row = self.engine.get(workflow_id)
            ends[row.name] = (str(row.status), {one.ref: str(one.status) for one in row.tasks})
        assert self.queue.messages == ()
        self.engine.close()
        return ends


@pytest.fixture(params=["memory", pytest.param("relay", marks=pytest.mark.deep), pytest.param("sqlite", marks=pytest.mark.deep)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Backend]:
    """Opens an empty store."""
    if request.param == "sqlite":
        numbers = iter(range(9))
        return lambda: SQLiteBackend(lay_empty_store(tmp_path / f"{next(numbers)}.db"), synchronous="NORMAL")
    return lambda: MemoryBackend(relay=request.param == "relay")


def undisturbed(backend: Callable[[], Backend]) -> Program:
    """The life that tells the places."""
    calm = Program(backend(), Faults())
    calm.live(lambda: calm.engine.run_until_idle("1h"))
    return calm


@pytest.mark.parametrize("group", ["uses", "writes"])
def test_what_passes_is_waited_out(group: str, backend: Callable[[], Backend], caplog: pytest.LogCaptureFixture) -> None:
    """Each error that may pass, at each place: the driver goes on, each function is called once, nothing differs; it is told."""
    calm = undisturbed(backend)
    calls, places = calm.calls.copy(), calm.faults.seen.copy()
    wanted = calm.end()
    assert {"apply REPORT", "apply EXTEND_LEASE", "commit", "log", "reading", "writing", "data_version", "mark_indexed"} <= places
    shaken = Program(backend(), Faults(PASSING, lambda place: (place in USES) == (group == "uses")))
    with caplog.at_level(logging.WARNING, logger="conductorlite"):
        shaken.live(lambda: shaken.engine.run_until_idle("10h"))
    # Which events share a turn depends on who is late; the kinds of places do not.
    missed = {place for place in places - shaken.faults.raised.keys() - QUIET if (place in USES) == (group == "uses")}
    missed = {place for place in missed if "+" not in place}
    assert not missed
    assert all(
        count == len(PASSING) for place, count in shaken.faults.raised.items() if place not in QUIET and "apply" not in place
    )
    assert shaken.calls == calls
    assert shaken.end() == wanted
    texts = [record.getMessage() for record in caplog.records if record.name == "conductorlite" and "store" in record.getMessage()]
    firsts = [text for text in texts if text.startswith("the driver waits for the store: ")]
    assert firsts
    assert len([text for text in texts if "can be used again" in text]) == len(firsts)


def test_what_does_not_pass_ends_the_driver(backend: Callable[[], Backend]) -> None:
    """A damaged file, a newer schema, a closed store, at each place: that error ends the driver; what was in hand is kept."""
    calm = undisturbed(backend)
    calls = calm.calls.copy()
    wanted = calm.end()
    shaken = Program(backend(), Faults(LASTING, lambda place: place not in QUIET))

    def drive() -> None:
        raised: list[Exception] = []
        while True:
            try:
                assert shaken.engine.run_until_idle("10h")
                break
            except LASTING as error:
                raised.append(error)
        assert [id(error) for error in raised] == [id(error) for error in shaken.faults.made]
        assert len(raised) > 30

    shaken.live(drive)
    assert shaken.calls == calls
    assert shaken.end() == wanted


class Away:
    """A store that refuses every write while it is away."""

    def __init__(self, backend: Backend, error: StorageError) -> None:
        self.error: StorageError | None = None
        self._error = error
        self.backend = FaultyBackend(backend, on_use=self._use)

    def _use(self, use: str) -> None:
        if self.error is not None and use == "writing":
            raise self.error

    def go(self) -> None:
        """From now on."""
        self.error = self._error

    def come_back(self) -> None:
        """As if nothing had been."""
        self.error = None


def small(clock: Any, body: Callable[[], object], error: StorageError | None = None) -> tuple[Engine, Away, Counter[str]]:
    """An engine with one task, whose function does something and is counted."""
    away, calls = Away(MemoryBackend(), error or StorageBusy("somebody writes")), Counter[str]()
    workers = Workers()

    @workers.task("plain")
    def plain() -> dict[str, str]:
        calls["plain"] += 1
        body()
        return {}

    engine = Engine(away.backend, clock=clock, workers=workers)
    engine.register(SMALL)
    if isinstance(clock, Hasty):
        clock.engine = engine
    return engine, away, calls


@pytest.mark.parametrize("verb", ["result", "run_until_idle", "stop"])
def test_a_deadline_is_kept_while_the_store_is_away(verb: str) -> None:
    """Neither a deadline nor `stop` waits for the store; what was returned meanwhile is in hand, and stored by the next verb."""
    engine, away, calls = small(Hasty(), lambda: away.go())
    run = engine.start("small")
    if verb == "result":
        with pytest.raises(ResultTimeout):
            run.result(timeout="30s")
    elif verb == "run_until_idle":
        assert not engine.run_until_idle("30s")
    else:
        engine.driver.run(until=lambda: bool(calls) and engine.stop() is not None)
    assert T0 + 29_000 < engine.clock.now() < T0 + 40_000
    assert str(run.status) == "RUNNING"
    away.come_back()
    assert engine.run_until_idle("60s")
    assert (str(run.status), calls) == ("COMPLETED", {"plain": 1})


@pytest.mark.parametrize("clock", [Hasty, VirtualClock])
def test_what_is_in_hand_is_stored_by_close(clock: Callable[[], Any], tmp_path: Path) -> None:
    """A function returned while the store was away: `close` is the last chance, and takes it."""
    engine, away, calls = small(clock(), lambda: away.go())
    store = away.backend.inner
    run = engine.start("small")
    if clock is VirtualClock:
        with pytest.raises(StorageBusy):
            engine.run_until_idle()
    else:
        assert not engine.run_until_idle("1s")
    away.come_back()
    with Engine(FaultyBackend(store, keep_open=True)) as other:
        assert str(other.status(run.workflow_id)) == "RUNNING"
        engine.driver.close()
        assert (str(other.status(run.workflow_id)), calls) == ("COMPLETED", {"plain": 1})


def test_work_in_hand_is_dated_when_it_ended() -> None:
    """The store was away for longer than the task's response timeout: the work was in time, and is not done again."""
    definition = {"name": "plain", "responseTimeoutSeconds": 5, "retryCount": 3}
    flow = WorkflowDef.from_json({"name": "late", "tasks": [task("plain", taskDefinition=definition)]})
    engine, away, calls = small(Hasty(), lambda: away.go())
    run = engine.start(flow)
    assert not engine.run_until_idle("60s")
    away.come_back()
    assert engine.run_until_idle("60s")
    assert (str(run.status), calls, len(run.workflow.tasks)) == ("COMPLETED", {"plain": 1}, 1)


def test_one_that_cannot_go_on_keeps_nobody_else() -> None:
    """The documents of one execution cannot be fetched: it rests, and others come to their ends."""
    engine, _, _ = small(Hasty(), lambda: None)
    waits = WorkflowDef.from_json({"name": "waits", "tasks": [task("w", type="WAIT", inputParameters={"duration": "1 s"})]})
    bad, good = engine.start(waits, workflow_id="a"), engine.start(waits, workflow_id="b")
    prepare = engine.core.turns.decider.prepared

    def partly(view: Any, workflow_id: str, *args: Any) -> Any:
        if workflow_id == "a" and engine.clock.now() < T0 + 30_000:
            raise PayloadUnavailable("the bucket is away")
        return prepare(view, workflow_id, *args)

    engine.core.turns.decider.prepared = partly  # type: ignore[method-assign]
    assert not engine.run_until_idle("20s")
    assert (str(bad.status), str(good.status)) == ("RUNNING", "COMPLETED")
    assert good.workflow.ended_at == T0 + 1_000
    assert engine.run_until_idle("60s")
    assert str(bad.status) == "COMPLETED"


def test_lines_of_a_report_are_stored_with_it() -> None:
    """A report and its log lines are one commit: nobody can have one without the other."""
    backend = FaultyBackend(MemoryBackend())
    engine = Engine(backend, clock=VirtualClock(T0))
    run = engine.start(SMALL)
    (held,) = engine.poll("plain")
    before = backend.journal.count("commit")
    done = TaskResult(
        workflow_id=run.workflow_id, task_id=held.task_id, status=TaskStatus.COMPLETED, lease=held.lease, logs=["a", "b"]
    )
    engine.update_task(done)
    assert backend.journal.count("commit") == before + 1
    assert [line.text for line in engine.tasks.logs(held.task_id)] == ["a", "b"]
    engine.update_task(done)
    assert len(engine.tasks.logs(held.task_id)) == 2, "a late report leaves no lines"
