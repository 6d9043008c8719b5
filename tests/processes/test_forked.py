"""A forked child and its parent's engine: every verb refuses at once, whatever was going on at the fork."""

from __future__ import annotations

import inspect
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, Run, VirtualClock, Workers, WorkflowDef
from conductorlite.engine.config import services
from conductorlite.engine.control import ascending_ids
from conductorlite.errors import EngineClosed
from conductorlite.runtime.aio import AsyncRun

W = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})

#: How long the child may take for all verbs together, seconds; a verb that waits for a lock takes for ever.
PATIENCE = 20

#: What verbs that demand arguments are called with: positional ones, and others by name.
GIVEN: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "__exit__": ([None] * 3, {}),
    "__aexit__": ([None] * 3, {}),
    "poll": (["work"], {}),
    "send": (["news"], {}),
    "fork": ([], {"at": 0}),
    "get_value": (["x"], {}),
    "set_value": (["x", 1], {}),
}

BLOCKS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def verbs(face: type) -> list[str]:
    """All public methods and properties of a class, and its blocks."""
    members = [name for name, value in inspect.getmembers(face) if inspect.isfunction(value) or isinstance(value, property)]
    return [name for name in members if not name.startswith("_") or name in BLOCKS]


def outcome(owner: Any, name: str) -> str:
    """What a verb raises, whatever it is given."""
    try:
        value = getattr(owner, name)
        if callable(value):
            given, named = GIVEN.get(name, ([], {}))
            value = value(*given, **named)
        if inspect.isawaitable(value):
            value.__await__().send(None)
        return f"returned {value!r}"
    except EngineClosed as error:
        return "refused" if "forked" in str(error) else str(error)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def in_a_child(ask: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What a forked child finds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        try:
            os.write(write, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "a verb waited"
    found: dict[str, str] = json.loads(text)
    return found


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where an engine keeps what it has."""
    return tmp_path / "fork.db" if request.param == "sqlite" else None


@pytest.fixture
def engine(store: Path | None) -> Iterator[Engine]:
    """An engine of which another thread holds every lock there is."""
    engine = Engine(store, workers=Workers())
    held, released = threading.Event(), threading.Event()

    def hold() -> None:
        with engine.driver.drive(), engine.backend.writing():
            held.set()
            released.wait(PATIENCE)

    engine.start(W, workflow_id="w")
    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    yield engine
    released.set()
    thread.join()
    engine.close()


def test_every_verb_is_refused(engine: Engine) -> None:
    """Each method of Engine and of Run, found by looking, without waiting for anything."""
    run = Run(engine, "w")
    nouns = services(engine)
    assert nouns.keys() == {"definitions", "schedules", "events", "tasks", "limits", "payloads", "streams", "admin"}
    asked = {"Engine": (engine, verbs(Engine)), "Run": (run, verbs(Run))}
    asked |= {noun: (service, verbs(type(service))) for noun, service in nouns.items()}
    assert {"start", "stop", "close", "__exit__", "settle", "run_forever", "listen"} <= set(asked["Engine"][1])
    assert {"status", "result", "workflow"} <= set(asked["Run"][1])
    names = {f"{kind}.{name}": (owner, name) for kind, (owner, some) in asked.items() for name in some}
    found = in_a_child(lambda: {key: outcome(*one) for key, one in names.items()})
    assert {key: text for key, text in found.items() if text != "refused"} == {}
    assert found.keys() == names.keys()


def test_every_awaited_verb_is_refused(store: Path | None) -> None:
    """Each method of AsyncEngine and of AsyncRun."""
    engine = AsyncEngine(store)
    run = AsyncRun(engine, Run(engine._engine, "w"))
    names = {f"{type(owner).__name__}.{name}": (owner, name) for owner in (engine, run) for name in verbs(type(owner))}
    assert {"AsyncEngine.background", "AsyncEngine.__aexit__", "AsyncRun.result", "AsyncRun.status"} <= names.keys()
    found = in_a_child(lambda: {key: outcome(*one) for key, one in names.items()})
    assert {key: text for key, text in found.items() if text != "refused"} == {}
    engine._engine.close()


def test_what_was_begun_before_the_fork(store: Path | None) -> None:
    """An iterator that was begun, and a transaction, go no further in the child; an error that ends a block is not replaced."""
    engine = Engine(store, clock=VirtualClock(0))
    engine.start(W)
    ids = engine.admin.workflow_ids()

    def ask() -> dict[str, str]:
        def with_an_error() -> None:
            with engine:
                raise KeyError("of the block")

        engine.__class__.__enter__ = lambda self: self  # type: ignore[method-assign]
        found = {}
        for name, verb in {"next": lambda: next(ids), "block": with_an_error, "view": engine.backend.reading().__enter__}.items():
            try:
                found[name] = str(verb())
            except Exception as error:
                found[name] = type(error).__name__
        return found

    assert in_a_child(ask) == {"next": "EngineClosed", "block": "KeyError", "view": "EngineClosed"}
    assert len(list(ids)) == 1
    engine.close()


def test_the_parent_goes_on(store: Path | None) -> None:
    """A child that asked for everything has changed nothing for its parent."""
    workers = Workers()
    workers.add("a", lambda: {"x": 1})
    with Engine(store, workers=workers, clock=VirtualClock(0)) as engine:
        run = engine.start(W)
        in_a_child(lambda: {name: outcome(engine, name) for name in verbs(Engine)})
        assert run.result() == {"x": 1}
        assert engine.admin.check() == []


def test_ids_drawn_after_a_fork_are_others_than_the_parents() -> None:
    """Both go on counting from the same number at the same instant: only chance tells them apart."""
    new_id = ascending_ids(VirtualClock())
    new_id()
    child = set(in_a_child(lambda: {new_id(): "" for _ in range(200)}))
    assert len(child) == 200
    assert child.isdisjoint([new_id() for _ in range(200)])
