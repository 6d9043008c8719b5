"""Tasks that no worker here carries out: who logs that, how often, and which caller need not wait for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    ResultTimeout,
    SubWorkflowParams,
    SystemClock,
    TaskDef,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.errors import NoWorker
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store


class Skipping(SystemClock):
    """The machine's clock, which passes at once when somebody waits for an instant and nothing happens."""

    def __init__(self) -> None:
        self.skipped = 0

    def now(self) -> int:
        return super().now() + self.skipped

    def elapsed(self) -> int:
        return super().elapsed() + self.skipped

    def wait(self, wakeup: Any, until: int | None) -> None:
        if not wakeup.wait(0.001) and until is not None:
            self.skipped += max(0, until - self.now())


def simple(ref: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, **fields)


def flow(*tasks: WorkflowTask, name: str = "w", **fields: Any) -> WorkflowDef:
    return WorkflowDef(name=name, tasks=tasks, **fields)


def fork(*branches: list[WorkflowTask]) -> tuple[WorkflowTask, ...]:
    """Branches, and the JOIN of their last tasks."""
    ends = [branch[-1].task_reference_name for branch in branches]
    return (simple("f", type="FORK_JOIN", fork_tasks=branches), simple("j", type="JOIN", join_on=ends))


def nothing() -> None:
    """Returns at once."""


def workers_of(*names: str, **options: Any) -> Workers:
    workers = Workers()
    for name in names:
        workers.task(name, **options)(nothing)
    return workers


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings about definitions so far."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    return lambda: [one.getMessage() for one in caplog.records if one.name == "conductorlite.definitions"]


# ---------------------------------------------------------------------- what is logged


@pytest.mark.parametrize("clock", [VirtualClock, Skipping])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_process_that_goes_on_with_an_execution_says_who_is_missing(
    store: str, clock: Callable[[], Any], tmp_path: Path, logged: Callable[[], list[str]]
) -> None:
    """As the one that has started it, and once; a type that has a worker is not named."""
    backend = MemoryBackend() if store == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "s.db"))
    at = clock()
    beginner = Engine(backend, clock=at)
    definition = flow(*fork([simple("missing")], [simple("here")], [simple("also")]))
    beginner.start(definition)
    assert logged() == []
    with Engine(backend, clock=at, workers=workers_of("here")) as engine:
        for _ in range(3):
            engine.run_until_idle(timeout="20s")
        assert sorted(logged()) == [
            "w: no worker here for 'also'; there are here",
            "w: no worker here for 'missing'; there are here",
        ]


def test_a_domain_without_a_worker_is_named(logged: Callable[[], list[str]]) -> None:
    """A worker of the type that takes from another domain is none."""
    backend, clock = MemoryBackend(), VirtualClock()
    Engine(backend, clock=clock).start(flow(simple("t")), task_to_domain={"t": "eu"})
    with Engine(backend, clock=clock, workers=workers_of("t")) as engine:
        engine.run_until_idle(timeout="1s")
    assert logged() == ["w: no worker here for 'eu:t'; there are t"]


def test_tasks_of_another_owner_or_polled_for_elsewhere_are_not_named(logged: Callable[[], list[str]]) -> None:
    """They are not this engine's, or have a worker."""
    backend, clock = MemoryBackend(), VirtualClock()
    other = Engine(backend, clock=clock, config=EngineConfig(name="other", allocation="local"))
    other.start(flow(simple("theirs")))
    beginner = Engine(backend, clock=clock)
    for _ in range(2):
        beginner.start(flow(simple("polled"), name="v"))
    assert beginner.poll("polled")
    with Engine(backend, clock=clock, workers=workers_of("mine")) as engine:
        engine.run_until_idle(timeout="1s")
    assert logged() == []


# ---------------------------------------------------------------------- who need not wait

CHILD = flow(simple("missing"), name="child")

#: What waits for nobody but a worker that is missing.
STUCK = {
    "a task": flow(simple("missing")),
    "after another one": flow(simple("here"), simple("missing")),
    "in a branch": flow(*fork([simple("here")], [simple("missing")])),
    "two kinds": flow(*fork([simple("missing")], [simple("missing too")])),
    "in a loop": flow(simple("l", type="DO_WHILE", loop_condition="$.l.iteration < 2", loop_over=[simple("missing")])),
    "in a child": flow(simple("s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=CHILD))),
    "by a name at run time": flow(
        simple("d", type="DYNAMIC", dynamic_task_name_param="n", input_parameters={"n": "missing"}),
    ),
    "a limited one": flow(simple("missing", task_definition=TaskDef(name="missing", concurrent_exec_limit=1))),
}

#: What may go on by itself, or ends by itself.
MOVES = {
    "a wait beside it": flow(*fork([simple("w", type="WAIT", input_parameters={"duration": "1 d"})], [simple("missing")])),
    "somebody may signal": flow(*fork([simple("h", type="HUMAN")], [simple("missing")])),
    "a timeout of the task": flow(simple("missing", task_definition=TaskDef(name="missing", poll_timeout_ms=60_000))),
    "a timeout of the execution": flow(simple("missing"), timeout_ms=60_000),
}


@pytest.fixture
def engine() -> Any:
    with Engine(clock=Skipping(), workers=workers_of("here")) as engine:
        yield engine


def drive(engine: Engine) -> None:
    engine.run_until_idle(timeout="2s")


def refused(engine: Engine, workflow_id: str | None) -> str | None:
    """Why a caller that waits is refused, after nothing was committed for long; None when it is not."""
    clock = engine.clock
    assert isinstance(clock, Skipping)
    for _ in range(3):
        try:
            engine.driver.refuse_missing(workflow_id)
        except NoWorker as error:
            return str(error)
        clock.skipped += 10_000
    return None


@pytest.mark.parametrize("shape", STUCK)
def test_a_caller_that_waits_for_a_missing_worker_is_refused(engine: Engine, shape: str) -> None:
    """It would wait for ever; every verb that waits without a timeout says which type has no worker, and what to do."""
    run = engine.start(STUCK[shape])
    with pytest.raises(NoWorker, match=r"Give the engine its workers.*: .*no worker here for 'missing'"):
        run.result()
    with pytest.raises(NoWorker, match="no worker here for 'missing'"):
        list(run.events())
    if shape != "a limited one":  # its offer ends and comes again
        with pytest.raises(NoWorker, match="no worker here for 'missing'"):
            engine.run_until_idle()


@pytest.mark.parametrize("shape", MOVES)
def test_a_caller_waits_for_what_may_happen(engine: Engine, shape: str) -> None:
    """A timer, a signal, a timeout that a definition sets."""
    run = engine.start(MOVES[shape])
    drive(engine)
    assert refused(engine, run.workflow_id) is None
    if shape != "somebody may signal":  # nothing is ready, running or on the agenda then
        assert refused(engine, None) is None


def test_an_execution_beside_a_stuck_one_is_waited_for(engine: Engine) -> None:
    """Each caller is judged by what it waits for itself."""
    stuck, moves = engine.start(STUCK["a task"]), engine.start(MOVES["a wait beside it"])
    drive(engine)
    assert refused(engine, stuck.workflow_id)
    assert refused(engine, moves.workflow_id) is None
    assert refused(engine, None) is None


def test_it_takes_a_few_seconds_in_which_nothing_happens(engine: Engine) -> None:
    """A thread that is about to poll has time to."""
    run = engine.start(STUCK["a task"])
    drive(engine)
    engine.driver.refuse_missing(run.workflow_id)
    engine.clock.skipped += 4_000  # type: ignore[attr-defined]
    engine.driver.refuse_missing(run.workflow_id)
    engine.start(flow(simple("here"), name="another"))
    engine.clock.skipped += 4_000  # type: ignore[attr-defined]
    engine.driver.refuse_missing(run.workflow_id)


def test_a_type_that_is_polled_for_by_hand_has_a_worker(engine: Engine) -> None:
    """Also while the one who polls is at work for long."""
    engine.poll("missing")
    run = engine.start(STUCK["a task"])
    drive(engine)
    assert refused(engine, run.workflow_id) is None


def test_other_processes_and_clients_may_have_workers(tmp_path: Path) -> None:
    """Nobody is refused on a store that others can open, in an engine with a server, or beside another engine."""
    pytest.importorskip("starlette")
    from conductorlite.server.rest.app import rest_app

    with Engine(SQLiteBackend(tmp_path / "s.db"), clock=Skipping()) as engine:
        run = engine.start(STUCK["a task"])
        drive(engine)
        assert refused(engine, run.workflow_id) is refused(engine, None) is None
    with Engine(clock=Skipping()) as engine:
        run = engine.start(STUCK["a task"])
        drive(engine)
        assert refused(engine, run.workflow_id)
        rest_app(engine)
        assert refused(engine, run.workflow_id) is refused(engine, None) is None
    backend = MemoryBackend()
    with Engine(backend, clock=Skipping()) as engine:
        other = Engine(backend, clock=engine.clock, workers=workers_of("missing"))
        run = engine.start(STUCK["a task"])
        drive(engine)
        assert refused(engine, run.workflow_id) is refused(engine, None) is None
        assert other.workers


def test_who_waits_with_a_timeout_waits(engine: Engine) -> None:
    """The call ends by itself, and says the same in its explanation."""
    run = engine.start(STUCK["a task"])
    with pytest.raises(ResultTimeout, match="waits for a worker of type missing") as raised:
        run.result(timeout="30s")
    assert type(raised.value) is ResultTimeout
    assert engine.run_until_idle(timeout="30s") is False


def test_who_waits_while_another_thread_drives_is_refused(engine: Engine) -> None:
    """A caller that does not drive itself is no worse off."""
    run = engine.start(STUCK["a task"])
    thread = threading.Thread(target=engine.run_forever)
    thread.start()
    try:
        with pytest.raises(NoWorker):
            run.result()
    finally:
        engine.stop()
        thread.join()


def test_who_awaits_a_missing_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine too, unless it has a timeout."""
    monkeypatch.setattr("conductorlite.runtime.missing._PATIENCE_MS", 50)

    async def main() -> None:
        async with AsyncEngine() as engine:
            run = await engine.start(STUCK["a task"])
            with pytest.raises(NoWorker, match="no worker here for 'missing'"):
                await run.result()
            with pytest.raises(NoWorker, match="no worker here for 'missing'"):
                await engine.run_until_idle()
            with pytest.raises(NoWorker, match="no worker here for 'missing'"):
                async for _ in run.events():
                    pass
            with pytest.raises(ResultTimeout) as raised:
                await run.result(timeout="500ms")
            assert type(raised.value) is ResultTimeout

    asyncio.run(main())
