"""Messages and emitted values, as counts: a message costs what a signal does, a value little, and who uses neither pays nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from shapes import chain, engine_on, looped, step, workflow

from conductorlite import Engine, TaskContext, VirtualClock, Workers, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

#: How many times as many calls as a signal a message takes that a task waits for, and one that is kept.
RECEIVED: Final = {"memory": 1.18, "file": 1.15}
KEPT: Final = {"memory": 0.46, "file": 0.59}

#: Calls of one more value of a worker.
VALUE: Final = 40

#: Where messages and emitted values are handled.
FILES: Final = (
    *("decide/messages.py", "decide/streams.py", "changeset/mailbox.py", "changeset/emissions.py", "model/mailbox.py"),
    *("model/streams.py", "engine/streams.py", "sqlite/streams.py", "memory/streams.py"),
)


def waiting(kind: str, ref: str, **inputs: str) -> WorkflowDef:
    """A task without an end, in rounds of which two are kept."""
    body = {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs}
    return workflow(ref, {**looped("l", 100_000, body), "inputParameters": {"keepLastN": 2}})


SIGNALED, RECEIVES = waiting("WAIT", "w"), waiting("PULL_WORKFLOW_MESSAGES", "p", topic="x")

SAYS: Final = {"text": "twenty characters..."}


def calls(what: Callable[[], object], files: tuple[str, ...] = ("",)) -> int:
    """Calls of Python's functions and of C's from code in these files (all: `("",)`)."""
    counted = 0

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call") and frame.f_code.co_filename.endswith(files)

    sys.setprofile(count)
    try:
        what()
    finally:
        sys.setprofile(None)
    return counted


def begun(engine: Engine) -> tuple[str, dict[str, Callable[[], object]]]:
    """What signals an execution, what sends one a message that is received, and one that is kept; each has been done before."""
    signaled, receives = engine.start(SIGNALED).workflow_id, engine.start(RECEIVES).workflow_id
    verbs: dict[str, Callable[[], object]] = {
        "signal": partial(engine.signal, signaled, SAYS),
        "received": partial(engine.send, receives, "x", SAYS),
        "kept": partial(engine.send, receives, "y", SAYS),
    }
    for _ in range(5):
        for verb in verbs.values():
            verb()
    return receives, verbs


@pytest.mark.parametrize("store", RECEIVED)
def test_a_message_takes_as_many_calls_as_a_signal(store: str, tmp_path: Path) -> None:
    """In the same loop, by the same engine."""
    with Engine(None if store == "memory" else tmp_path / "s.db", clock=VirtualClock(0)) as engine:
        _, verbs = begun(engine)
        taken = {name: min(calls(verb) for _ in range(3)) for name, verb in verbs.items()}
    print(taken)
    assert taken["received"] <= taken["signal"] * RECEIVED[store]
    assert taken["kept"] <= taken["signal"] * KEPT[store]


def test_a_message_takes_fewer_statements_than_a_signal(tmp_path: Path) -> None:
    """One commit each; the thousandth one as many as the first."""
    with closing(engine_on(tmp_path / "s.db")) as engine:
        receives, verbs = begun(engine)
        backend = engine.backend
        assert isinstance(backend, SQLiteBackend)
        counts = backend.counts
        assert counts is not None

        def taken() -> dict[str, tuple[int, int]]:
            found = {}
            for name, verb in verbs.items():
                counts.reset()
                verb()
                found[name] = counts.statements, counts.commits
            return found

        early = taken()
        for _ in range(300):
            for name in ("received", "kept"):
                verbs[name]()
        assert taken() == early
        assert [commits for _, commits in early.values()] == [1, 1, 1]
        assert early["received"][0] < early["signal"][0]
        assert early["kept"][0] < early["received"][0]
        assert [message.number for message in engine.messages(receives)][-1] == 614


def test_values_take_few_calls_and_a_commit_a_hundred(tmp_path: Path) -> None:
    """Of a worker that emits a thousand more, with the same report."""
    workers, counted, commits = Workers(), list[int](), list[int]()

    @workers.task("says")
    def says(count: int, context: TaskContext = TaskContext.given) -> None:
        def emitted() -> None:
            for _ in range(count):
                context.emit("twenty characters...")

        before = backend.commits()
        counted.append(calls(emitted))
        commits.append(backend.commits() - before)

    backend = SQLiteBackend(tmp_path / "s.db")
    task = {"name": "says", "taskReferenceName": "says", "inputParameters": {"count": "${workflow.input.n}"}}
    with Engine(backend, workers=workers, clock=VirtualClock(0)) as engine:
        for count in (1_000, 1_000, 2_000):
            engine.start(workflow("says", task), {"n": count}).result()
    assert commits == [10, 10, 20]
    print(each := (counted[2] - counted[1]) / 1_000)
    assert each <= VALUE


def test_who_uses_neither_pays_nothing(tmp_path: Path) -> None:
    """A chain makes no statement about messages and values, and few of its calls are of what handles them."""
    workers = Workers()
    workers.task("step")(step)
    backend = SQLiteBackend(tmp_path / "s.db", counting=True)
    with Engine(backend, workers=workers, clock=VirtualClock(0)) as engine:

        def lived() -> None:
            engine.start(chain(10), {"x": 1}).result()

        lived()
        lived()
        counts = backend.counts
        assert counts is not None
        counts.reset()
        lived()
        tables = ("mailbox", "emitted", "emissions", "latest_values")
        assert not [one for one in counts.statements_by_sql if any(f" {name} " in f"{one} " for name in tables)]
        assert calls(lived, FILES) <= 0.02 * calls(lived)
