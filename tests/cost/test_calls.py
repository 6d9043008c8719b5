"""How many calls a task costs, of Python's functions and of C's, from its start to its end, in memory and in SQLite.

Counts are the same on any machine. `budgets` says by how much a figure may exceed what was measured at the last release.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from budgets import assert_within
from shapes import chain, fork, loop, sorted_loop, step

from conductorlite import Engine, Run, TaskDef, VirtualClock, Workers, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import WorkflowFailed
from conductorlite.model.threads import Cache
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers, lognormal, what_if
from conductorlite.testing.faults import Store, counted
from conductorlite.testing.forecast import Distribution

DAY_MS: Final = 86_400_000

#: Per shape: what makes it, its worker tasks, and the calls that each of them takes, start and end included.
BUDGETS: Final = {"chain": (chain, 10, 433), "loop": (loop, 10, 547), "fork": (fork, 30, 518), "sorted": (sorted_loop, 10, 673)}

#: The same of a chain in a SQLite file.
STORED: Final = 522

#: The calls that the start of a chain of ten takes, by what is given; and per task, that of a new definition of 200.
STARTS: Final = {"name": 306, "definition": 317}
DEFINITIONS: Final = {"chain": (chain, 293), "fork": (fork, 367)}

#: The same in a SQLite file, in real time.
STARTED: Final = 405

#: The same of one of many that wait, begun together in a file.
WAITING: Final = 230

#: The calls that a retry takes which comes due later, and how many times those of a step a virtual attempt of `what_if` does.
RETRY: Final = 501
VIRTUAL: Final = 1.19

#: The same of a test with the kit: its engine and store, an attempt of a script, the laws of 21 attempts, and the end.
KIT: Final = {"engine": 219, "attempt": 464, "laws": 636, "end": 292}


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> Iterator[None]:
    """Nothing is remembered of the tests before, and what they left is not collected while calls are counted."""
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "conductorlite"]:
        for memory in list(vars(module).values()):
            if isinstance(memory, Cache):
                memory._held.clear()
            elif clear := getattr(type(memory), "cache_clear", None):
                clear(memory)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("shape", BUDGETS)
def test_a_task_takes_so_many_calls(shape: str) -> None:
    """Counted in the third execution: those before have compiled the definition, and made what is made at its first use."""
    make, tasks, budget = BUDGETS[shape]
    assert_within(budget, _calls(make, tasks) / tasks, f"calls a task of {shape}")


def test_a_task_in_a_file_takes_so_many_calls(tmp_path: Path) -> None:
    """What encodes rows, and opens and closes a write, is the rest of it."""
    assert_within(STORED, _calls(chain, 10, SQLiteBackend(tmp_path / "s.db")) / 10, "calls a task in a file")


def test_a_retry_takes_so_many_calls(caplog: pytest.LogCaptureFixture) -> None:
    """Of the engine, without logging: one that comes due a day later in virtual time, is called and fails again."""
    caplog.set_level(logging.ERROR, logger="conductorlite")
    workers = Workers()

    @workers.task("flaky", retry_count=20, retry_delay_seconds=86_400)
    def flaky() -> None:
        raise ConnectionError("not today")

    def failed(run: Run[dict[str, Any]]) -> None:
        with pytest.raises(WorkflowFailed):
            run.result()

    definition = WorkflowDef.from_json({"name": "flaky", "tasks": [{"name": "flaky", "taskReferenceName": "flaky"}]})
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        for _ in range(2):  # the first one learns where it fails
            taken = _counted(partial(failed, engine.start(definition))) / 20
    assert_within(RETRY, taken, "calls a retry")


def test_a_test_with_the_kit_takes_so_many_calls(caplog: pytest.LogCaptureFixture) -> None:
    """What the fixtures make, and what they do when the test is over; without logging."""
    caplog.set_level(logging.ERROR, logger="conductorlite")
    charge = TaskDef(name="charge", retry_count=20, retry_delay_ms=DAY_MS)
    definition = WorkflowDef(
        name="month", tasks=[WorkflowTask(name="charge", task_reference_name="charge", task_definition=charge)]
    )
    taken: dict[str, float] = {}
    for _ in range(3):  # a definition that comes for the third time is known, and where a retry goes
        store, workers, made = Store("memory", Path), ScriptedWorkers(), list[Engine]()

        def opened(store: Store = store, workers: ScriptedWorkers = workers, made: list[Engine] = made) -> None:
            backend = store.open()
            made.append(Engine(backend, clock=VirtualClock(), workers=workers, config=counted(backend, None)))

        taken["engine"] = _counted(opened)
        (engine,) = made
        workers.charge.fails(20).then.returns({})
        taken["attempt"] = _counted(engine.start(definition).result) / 21
        taken["laws"] = _counted(engine.core.audits.broken_laws)
        taken["end"] = _counted(engine.close) + _counted(store.close)
    for what, calls in taken.items():
        assert_within(KIT[what], calls, f"calls of the kit's {what}")


@pytest.mark.parametrize("takes", ["3s", lognormal("2s", "10s")], ids=["fixed", "drawn"])
def test_a_virtual_attempt_costs_little_more_than_a_step(takes: str | Distribution) -> None:
    """Of the same chain, which arrives twenty times, beside what its own functions take."""
    chains, definition = 20, chain(10)
    workers = Workers()
    workers.task("step")(step)

    def lived() -> None:
        with Engine(workers=workers, clock=VirtualClock()) as engine:
            for _ in range(chains):
                engine.start(definition, {"x": 1})
            engine.run_until_idle()

    def simulated() -> None:
        what_if(definition, {"x": 1}, tasks={"step": takes}, arrivals="60/m", runs=chains)

    for what in (lived, simulated):
        what()  # what is made at its first use is no part of it
    real, virtual = _counted(lived), _counted(simulated)
    assert_within(VIRTUAL, virtual / real, "calls of a virtual attempt, as a multiple of a step's")


@pytest.mark.parametrize("given", STARTS)
def test_a_start_takes_so_many_calls(given: str) -> None:
    """Of what was started before."""
    definition = chain(10)
    with Engine(clock=VirtualClock()) as engine:
        engine.register(definition)
        started = partial(engine.start, definition.name if given == "name" else definition, {"x": 1})
        started()
        started()  # what was in an object is remembered when it comes a second time
        taken = _counted(started)
    assert_within(STARTS[given], taken, f"calls of a start by {given}")


def test_a_start_in_a_file_takes_so_many_calls(tmp_path: Path) -> None:
    """Where those of several threads would share a commit, and none comes."""
    definition = chain(10)
    with Engine(SQLiteBackend(tmp_path / "s.db")) as engine:
        started = partial(engine.start, definition, {"x": 1})
        started()
        started()
        taken = min(_counted(started) for _ in range(3))  # a millisecond that ends meanwhile is read again
    assert_within(STARTED, taken, "calls of a start in a file")


def test_many_that_wait_take_so_many_calls_each(tmp_path: Path) -> None:
    """Begun together in a file: each of a hundred more."""
    task = {"name": "wait", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "30 days"}}
    definition = WorkflowDef.from_json({"name": "waits", "tasks": [task]})
    with Engine(SQLiteBackend(tmp_path / "s.db")) as engine:
        few, many = (partial(engine.start_many, definition, [{"x": n} for n in range(count)]) for count in (100, 200))
        few()
        few()
        taken = (_counted(many) - _counted(few)) / 100
    assert_within(WAITING, taken, "calls of one more that waits")


@pytest.mark.parametrize("shape", DEFINITIONS)
def test_a_new_definition_takes_so_many_calls(shape: str) -> None:
    """To read, examine and compile it, and to schedule what its first turn does."""
    make, budget = DEFINITIONS[shape]
    document = {**make(200).to_json(), "name": f"new_{shape}"}
    with Engine(clock=VirtualClock()) as engine:
        engine.start(WorkflowDef.from_json(make(2).to_json()), {"x": 1})  # what is made at its first use is no part of it
        taken = _counted(lambda: engine.start(WorkflowDef.from_json(document), {"x": 1})) / 200
    assert_within(budget, taken, f"calls a task of a new {shape}")


def _counted(what: Callable[[], object]) -> int:
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        what()
    finally:
        sys.setprofile(None)
    return counted


def _calls(make: Callable[[int], WorkflowDef], tasks: int, backend: SQLiteBackend | None = None) -> int:
    workers = Workers()
    workers.task("step")(step)
    with Engine(backend, workers=workers, clock=VirtualClock()) as engine:
        definition = make(tasks)
        engine.register(definition)

        def lived() -> None:
            run = engine.start(definition.name, {"x": 1})
            engine.run_until_idle()
            assert run.status is WorkflowStatus.COMPLETED

        lived()
        lived()
        return _counted(lived)
