"""How many calls a task costs, of Python's functions and of C's, from its start to its end, in memory and in SQLite.

Counts are the same on any machine. The ceilings only fall: who makes a step cheaper lowers them to what it costs then.
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
from shapes import chain, fork, loop, sorted_loop, step

from conductorlite import Engine, Run, TaskDef, VirtualClock, Workers, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import WorkflowFailed
from conductorlite.model.threads import Cache
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers, lognormal, what_if
from conductorlite.testing.faults import Store, counted
from conductorlite.testing.forecast import Distribution

DAY_MS: Final = 86_400_000

#: Per shape: what makes it, its worker tasks, and the most calls that each of them may take, start and end included.
CEILINGS: Final = {"chain": (chain, 10, 327), "loop": (loop, 10, 426), "fork": (fork, 30, 468), "sorted": (sorted_loop, 10, 588)}

#: The same of a chain in a SQLite file.
STORED: Final = 407

#: The most calls that the start of a chain of ten takes, by what is given; and per task, that of a new definition of 200.
STARTS: Final = {"name": 248, "definition": 259}
DEFINITIONS: Final = {"chain": (chain, 232), "fork": (fork, 297)}

#: The same in a SQLite file, in real time.
STARTED: Final = 345

#: The same of one of many that wait, begun together in a file.
WAITING: Final = 150

#: The most calls that a retry takes which comes due later, and how many times those of a step a virtual attempt of `what_if` does.
RETRY: Final = 374
VIRTUAL: Final = 1.2

#: The same of a test with the kit: its engine and store, an attempt of a script, the laws of 21 attempts, and the end.
KIT: Final = {"engine": 197, "attempt": 331, "laws": 636, "end": 277}


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


@pytest.mark.parametrize("shape", CEILINGS)
def test_a_task_takes_so_many_calls(shape: str) -> None:
    """Counted in the third execution: those before have compiled the definition, and made what is made at its first use."""
    make, tasks, ceiling = CEILINGS[shape]
    taken = _calls(make, tasks) / tasks
    assert taken <= ceiling, f"{taken:.0f} calls a task"


def test_a_task_in_a_file_takes_so_many_calls(tmp_path: Path) -> None:
    """What encodes rows, and opens and closes a write, is the rest of it."""
    taken = _calls(chain, 10, SQLiteBackend(tmp_path / "s.db")) / 10
    assert taken <= STORED, f"{taken:.0f} calls a task"


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
    assert taken <= RETRY, f"{taken:.0f} calls a retry"


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
        taken["laws"] = _counted(engine.admin.check)
        taken["end"] = _counted(engine.close) + _counted(store.close)
    assert {what: calls for what, calls in taken.items() if calls > KIT[what]} == {}


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
    assert virtual <= VIRTUAL * real, f"{virtual / real:.3f} times"


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
    assert taken <= STARTS[given], f"{taken} calls"


def test_a_start_in_a_file_takes_so_many_calls(tmp_path: Path) -> None:
    """Where those of several threads would share a commit, and none comes."""
    definition = chain(10)
    with Engine(SQLiteBackend(tmp_path / "s.db")) as engine:
        started = partial(engine.start, definition, {"x": 1})
        started()
        started()
        taken = min(_counted(started) for _ in range(3))  # a millisecond that ends meanwhile is read again
    assert taken <= STARTED, f"{taken} calls"


def test_many_that_wait_take_so_many_calls_each(tmp_path: Path) -> None:
    """Begun together in a file: each of a hundred more."""
    task = {"name": "wait", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "30 days"}}
    definition = WorkflowDef.from_json({"name": "waits", "tasks": [task]})
    with Engine(SQLiteBackend(tmp_path / "s.db")) as engine:
        few, many = (partial(engine.start_many, definition, [{"x": n} for n in range(count)]) for count in (100, 200))
        few()
        few()
        taken = (_counted(many) - _counted(few)) / 100
    assert taken <= WAITING, f"{taken} calls"


@pytest.mark.parametrize("shape", DEFINITIONS)
def test_a_new_definition_takes_so_many_calls(shape: str) -> None:
    """To read, examine and compile it, and to schedule what its first turn does."""
    make, ceiling = DEFINITIONS[shape]
    document = {**make(200).to_json(), "name": f"new_{shape}"}
    with Engine(clock=VirtualClock()) as engine:
        engine.start(WorkflowDef.from_json(make(2).to_json()), {"x": 1})  # what is made at its first use is no part of it
        taken = _counted(lambda: engine.start(WorkflowDef.from_json(document), {"x": 1})) / 200
    assert taken <= ceiling, f"{taken:.0f} calls a task"


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
