"""A signal handler that interrupts a verb is refused every verb but `stop`, and what it has interrupted goes on."""

from __future__ import annotations

import functools
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import WouldDeadlock
from conductorlite.testing.faults import lay_empty_store
from conductorlite.testing.interrupts import Instants

TWO = WorkflowDef.from_json({"name": "two", "tasks": [{"name": "own", "taskReferenceName": ref} for ref in ("a", "b")]})
HAND = WorkflowDef.from_json({"name": "hand", "tasks": [{"name": "hand", "taskReferenceName": "h"}]})


def _result(engine: Engine, name: str) -> None:
    assert engine.start(TWO, workflow_id=name).result("20s") == {}


def _start(engine: Engine, name: str) -> None:
    assert engine.start(HAND, workflow_id=name).workflow_id == name


def _drive(engine: Engine, name: str) -> None:
    engine.start(TWO, workflow_id=name)
    assert engine.run_until_idle("20s")
    assert engine.status(name) is WorkflowStatus.COMPLETED


def _by_hand(engine: Engine, name: str) -> None:
    engine.start(HAND, workflow_id=name)
    (task,) = engine.poll("hand")
    done = TaskResult(workflow_id=name, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    engine.update_task(done)
    assert engine.status(name) is WorkflowStatus.COMPLETED


def _look(engine: Engine, name: str) -> None:
    run = engine.start(TWO, workflow_id=name)
    assert [line.kind for line in run.events()][-1] == run.history()[-1].kind
    assert not run.progress().fraction < 1
    assert engine.search(f"workflowId = '{name}'").total_hits == 1
    assert list(engine.admin.workflow_ids(WorkflowStatus.RUNNING)) == []
    assert run.explain()


#: What is interrupted.
VERBS: dict[str, Callable[[Engine, str], None]] = {
    "result": _result,
    "start": _start,
    "run_until_idle": _drive,
    "update_task": _by_hand,
    "events": _look,
}

#: What the handler asks for.
ASKED: dict[str, Callable[[Engine], object]] = {
    "start": lambda engine: engine.start(TWO),
    "result": lambda engine: engine.result("m0"),
    "start_and_wait": lambda engine: engine.start_and_wait(TWO),
    "run_until_idle": lambda engine: engine.run_until_idle("10ms"),
    "tick": lambda engine: engine.tick(),
    "poll": lambda engine: engine.poll("hand"),
    "get": lambda engine: engine.get("m0"),
    "events": lambda engine: engine.run("m0").events(),
    "a noun": lambda engine: engine.admin.check(),
    "a transaction": lambda engine: engine.transaction().__enter__(),
    "close": lambda engine: engine.close(),
    "the end of a block": lambda engine: engine.__exit__(None, None, None),
}

main_thread = pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="handlers run there only")


def _nothing() -> dict[str, Any]:
    return {}


def _opened(store: str, clock: str, folder: Path) -> Engine:
    workers = Workers(concurrency=2)
    workers.add("own", _nothing)
    path = None if store == "memory" else lay_empty_store(folder / "s.db")
    return Engine(path, workers=workers, clock=VirtualClock(0) if clock == "virtual" else None)


@pytest.fixture
def answered() -> Iterator[Callable[[Callable[..., object]], None]]:
    """What sets the handler of a signal for a test."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler) and None
    signal.signal(signal.SIGUSR1, before)


def _everywhere(act: Callable[[str], None], instants: int, fresh: Callable[[], object] = lambda: None) -> int:
    """Have the signal come before as many instructions of an act; returns how often it came."""
    for number in range(4):  # what is imported and compiled on first use is known from then on
        act(f"m{number}")
    with Instants() as calm:
        act("calm")
    came = 0
    for number, at in enumerate(range(0, calm.number, max(1, calm.number // instants))):
        fresh()
        with Instants(at, lambda: signal.raise_signal(signal.SIGUSR1)) as interrupted:
            act(f"n{number}")
        came += interrupted.where is not None
    return came


@main_thread
@pytest.mark.parametrize("instants", [12, pytest.param(40, marks=pytest.mark.slow), pytest.param(10**9, marks=pytest.mark.deep)])
@pytest.mark.parametrize("clock", ["virtual", "real"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_handler_is_refused_and_the_verb_goes_on(
    verb: str, store: str, clock: str, instants: int, tmp_path: Path, answered: Callable[[Callable[..., object]], None]
) -> None:
    """Whatever was interrupted, before whichever of its instructions, and whatever the handler asks for."""
    asked = list(ASKED.items())
    wrong: list[str] = []

    def handler(number: int, frame: FrameType | None) -> None:
        name, ask = asked[0]
        asked.append(asked.pop(0))
        try:
            ask(engine)
        except WouldDeadlock as error:
            if "stop() may be called" not in str(error):
                wrong.append(f"{name}: {error}")
        except BaseException as error:
            wrong.append(f"{name}: {error!r}")
        else:
            wrong.append(f"{name} was not refused")

    with _opened(store, clock, tmp_path) as engine:
        answered(handler)
        came = _everywhere(lambda name: VERBS[verb](engine, name), instants)
        assert wrong == []
        assert came >= min(instants, 10)
        assert engine.admin.check() == []


@main_thread
@pytest.mark.parametrize("instants", [30, pytest.param(10**9, marks=pytest.mark.deep)])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_stop_may_come_at_any_instant(
    store: str, instants: int, tmp_path: Path, answered: Callable[[Callable[..., object]], None]
) -> None:
    """A driver that is stopped by a handler returns, and the next one brings everything to its end."""
    with _opened(store, "real", tmp_path) as engine:

        def act(name: str) -> None:
            engine.start(TWO, workflow_id=name)
            engine.run_until_idle("20s")
            engine.run_until_idle("20s")
            assert engine.status(name) is WorkflowStatus.COMPLETED

        answered(lambda number, frame: engine.stop())
        assert _everywhere(act, instants) >= min(instants, 20)
        assert engine.admin.check() == []


class _Asks:
    """Handlers of other forms than a function."""

    def __init__(self, engine: Engine, said: list[str]) -> None:
        self.engine, self.said = engine, said

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.engine.status("m0")
        except WouldDeadlock:
            self.said.append("refused")
        else:
            self.said.append("answered")

    def with_more(self, more: object, number: int, frame: FrameType | None) -> None:
        """One that is given something of its own first."""
        self.called(number, frame)

    def called(self, *given: object) -> None:
        """One that takes anything, and calls others."""
        self(1, None)


@main_thread
@pytest.mark.parametrize("form", ["object", "method", "partial", "lambda", "wrapped"])
def test_a_handler_of_any_form(form: str, answered: Callable[[Callable[..., object]], None]) -> None:
    """It is known by how it is called; where nothing of ours was interrupted it may call what it wants."""
    said: list[str] = []
    with Engine(clock=VirtualClock(0)) as engine:
        engine.start(HAND, workflow_id="m0")
        asks = _Asks(engine, said)
        handlers: dict[str, Callable[..., object]] = {
            "object": asks,
            "method": asks.called,
            "partial": functools.partial(asks.with_more, "more"),
            "lambda": lambda *_: asks(1, None),
            "wrapped": functools.wraps(asks.called)(lambda *given, **more: asks.called(*given, **more)),
        }
        answered(handlers[form])
        signal.raise_signal(signal.SIGUSR1)
        assert said == ["answered"]
        with Instants(50, lambda: signal.raise_signal(signal.SIGUSR1)):
            engine.get("m0")
        assert said == ["answered", "refused"]


@main_thread
def test_a_handler_in_a_worker_function(answered: Callable[[Callable[..., object]], None]) -> None:
    """The driver's thread carries it out: the verb that drives was interrupted too."""
    said: list[str] = []
    workers = Workers()
    workers.add("own", lambda: signal.raise_signal(signal.SIGUSR1))
    with Engine(workers=workers, clock=VirtualClock(0)) as engine:
        answered(_Asks(engine, said))
        engine.start(TWO, workflow_id="m0").result()
    assert said == ["refused", "refused"]


class _Finalized:
    """Drives when it is collected."""

    def __init__(self, drive: Callable[[], object]) -> None:
        self.drive, self.itself = drive, self

    def __del__(self) -> None:
        self.drive()


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_finalizer_does_not_drive_inside_the_driver(store: str, step: int, tmp_path: Path) -> None:
    """The garbage collector calls it at any instant, as a signal handler is called; it is refused where it would drive."""
    said: list[str] = []
    with _opened(store, "virtual", tmp_path) as engine:

        def drive() -> None:
            try:
                engine.run_until_idle("1s")
            except WouldDeadlock as error:
                said.append(str(error))

        for number in range(0, 40, step):
            engine.start(TWO, workflow_id=f"m{number}")
            _Finalized(drive)
            with Instants(number * 97, lambda: gc.collect() and None):
                assert engine.run_until_idle("20s")
            assert engine.status(f"m{number}") is WorkflowStatus.COMPLETED
        assert said
        assert all("finalizer" in text for text in said)
        assert engine.admin.check() == []


def test_a_debugger_may_ask() -> None:
    """What looks at a frame of ours, and was given it otherwise than a signal handler is, is no handler."""
    import sys

    said: list[Any] = []
    with Engine(clock=VirtualClock(0)) as engine:
        engine.start(HAND, workflow_id="m0")

        def trace(frame: FrameType, event: str, argument: object) -> None:
            if frame.f_code.co_name == "get" and not said:
                said.append(engine.status("m0"))

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            engine.get("m0")
        finally:
            sys.settrace(before)
    assert said == [WorkflowStatus.RUNNING]
