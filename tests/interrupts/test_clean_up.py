"""What ends a block is not replaced by what its clean-up raises: that is logged."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, EngineConfig, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import StorageUnavailable
from conductorlite.model.threads import Block, clean_up, within
from conductorlite.store.locks import InProcessLock
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.interrupts import Instants

ONE = WorkflowDef.from_json(
    {"name": "one", "tasks": [{"name": "a", "taskReferenceName": "a", "inputParameters": {"last": "${workflow.input.last}"}}]}
)


class Alarm(BaseException):
    """What a program's own signal handler raises."""


class Mistake(Exception):
    """An error of the program."""


ENDINGS = [KeyboardInterrupt, SystemExit, Alarm, GeneratorExit, Mistake, MemoryError]


def unavailable(*_: object, **__: object) -> Any:
    """Anything that asks a server which is down."""
    raise StorageUnavailable("the server is down")


def goes_down(engine: Engine) -> None:
    """The server of the store is down from now on."""
    for name in ("reading", "writing", "transaction", "close", "data_version", "appear", "peek"):
        setattr(engine.backend, name, unavailable)


#: What of an engine fails when it is closed.
BROKEN: dict[str, Callable[[Engine], object]] = {
    "the store": goes_down,
    "the driver": lambda engine: setattr(engine.driver, "close", unavailable),
    "the holder": lambda engine: setattr(engine.core.holding, "leave", unavailable),
    "the feeding of an index": lambda engine: setattr(engine.driver.feeding, "close", unavailable),
    "the workers' threads": lambda engine: setattr(engine.driver.workshop, "close", unavailable),
    "the lock": lambda engine: setattr(engine, "_own_lock", type("Lock", (), {"close": unavailable})()),
    "all of it": lambda engine: [breaks(engine) for name, breaks in BROKEN.items() if name != "all of it"],
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_the_block_of_an_engine(
    broken: str, ending: type[BaseException], clock: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left with what its body raised; without that, with the failure of closing."""

    def block(error: BaseException | None) -> None:
        with Engine(clock=VirtualClock(0) if clock == "virtual" else None) as engine:
            engine.start(ONE)
            BROKEN[broken](engine)
            if error is not None:
                raise error

    for error in (ending("the body"), None):
        with pytest.raises(ending if error else StorageUnavailable) as caught:
            block(error)
        if error is not None:
            assert caught.value is error
            assert any("the server is down" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, Alarm, Mistake])
@pytest.mark.parametrize("form", ["finally", "except", "awaited"])
def test_close_while_an_interruption_is_handled(form: str, ending: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """In a `finally` of the program, or where it is caught; an error of the body is not known to be on its way there."""
    engine = AsyncEngine() if form == "awaited" else Engine(clock=VirtualClock(0))
    goes_down(engine._engine if isinstance(engine, AsyncEngine) else engine)

    def body() -> None:
        try:
            raise ending("the body")
        finally:
            engine.close()

    def caught() -> None:
        try:
            raise ending("the body")
        except BaseException:
            engine.close()
            raise

    async def awaited() -> None:
        try:
            raise ending("the body")
        finally:
            await engine.close()  # type: ignore[misc]

    act = {"finally": body, "except": caught, "awaited": lambda: asyncio.run(awaited())}[form]
    with pytest.raises(StorageUnavailable if ending is Mistake else ending):
        act()
    assert ending is Mistake or any("the server is down" in record.getMessage() for record in caplog.records)


def test_what_follows_a_failed_step_is_done() -> None:
    """Each part of an engine is closed, whatever one before it has raised."""
    done: list[str] = []
    engine = Engine(clock=VirtualClock(0))
    for part, name in ((engine.core.holding, "leave"), (engine.driver.standby, "close"), (engine.backend, "close")):
        setattr(part, name, lambda name=name: done.append(name))
    engine.driver.feeding.close = engine.driver.workshop.close = unavailable  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        engine.close()
    assert done == ["close", "leave", "close"]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, asyncio.CancelledError, Mistake])
@pytest.mark.parametrize("block", ["engine", "background"])
def test_the_blocks_of_an_awaited_engine(block: str, ending: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """So are those of an AsyncEngine, whose driver may have failed meanwhile."""
    error = ending("the body")

    async def in_an_engine() -> None:
        async with AsyncEngine() as engine:
            goes_down(engine._engine)
            raise error

    async def in_the_background() -> None:
        engine = AsyncEngine()
        failed = asyncio.Event()

        async def driven(*_: object) -> None:
            failed.set()
            unavailable()

        engine._bridge._drive_until_stopped = driven  # type: ignore[method-assign,assignment]
        try:
            async with engine.background():
                await failed.wait()
                await asyncio.sleep(0)
                raise error
        finally:
            engine._engine.close()

    with pytest.raises(ending) as caught:
        asyncio.run({"engine": in_an_engine, "background": in_the_background}[block]())
    if ending is not asyncio.CancelledError:  # asyncio.run raises another one
        assert caught.value is error
    assert any("the server is down" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("then", ["the store", "the lock"])
def test_a_worker_that_is_interrupted(then: str, clock: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its task cannot be given back, and the interruption comes out all the same, of the verb and of the block."""
    workers = Workers()

    @workers.task("a")
    def act(last: bool) -> None:
        if not last:
            return
        goes_down(engine) if then == "the store" else setattr(lock, "try_acquire", unavailable)
        raise KeyboardInterrupt

    lock = InProcessLock()
    config = EngineConfig(lock=lock, lock_required=True)
    engine = Engine(workers=workers, clock=VirtualClock(0) if clock == "virtual" else None, config=config)
    engine.start(ONE, {"last": False}).result()  # then it is quick: carried out in the driver's own thread, also in real time
    with pytest.raises(KeyboardInterrupt), engine:
        engine.start(ONE, {"last": True}).result()
    assert any("giving back 'a'" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, Alarm])
def test_a_transaction_whose_end_fails(store: str, ending: type[BaseException], tmp_path: Path) -> None:
    """An interruption leaves it, and nothing of it is stored."""
    with Engine(None if store == "memory" else tmp_path / "s.db", clock=VirtualClock(0)) as engine:
        kind = type(engine.backend.writing().__exit__.__self__)  # type: ignore[attr-defined]
        end = kind.end

        def fails(block: Any, error: BaseException | None) -> None:
            end(block, error)
            if error is not None:
                unavailable()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "end", fails)
            with pytest.raises(ending), engine.transaction():
                raise ending(engine.start(ONE, workflow_id="never"))
        assert engine.search().total_hits == 0
        engine.start(ONE, workflow_id="then")
        assert engine.admin.check() == []


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a file that was open is closed when it is collected
@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(False, id="one block", marks=pytest.mark.slow),
        pytest.param(True, id="a block in a block", marks=pytest.mark.deep),
    ],
)
def test_a_transaction_that_is_interrupted_anywhere(inner: bool, tmp_path: Path) -> None:
    """While the interruption is still handled, another connection can write, and nothing of the block is stored."""
    path = tmp_path / "s.db"
    with Engine(SQLiteBackend(path, synchronous="NORMAL"), clock=VirtualClock(0)) as engine:
        with engine.transaction() as first:
            first.execute("CREATE TABLE own (n INTEGER)")

        def written() -> None:
            with engine.transaction() as tx:
                tx.execute("INSERT INTO own VALUES (1)")
                if inner:
                    with engine.transaction() as part:
                        part.execute("INSERT INTO own VALUES (2)")

        places: list[tuple[str | None, type[BaseException], int]] = []
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            for at in count():
                written()  # an interruption may close the connection, which takes long to open again
                other.execute("DELETE FROM own")
                try:
                    with Instants(at, Alarm) as instants:
                        written()
                except (Alarm, KeyboardInterrupt) as raised:
                    kept = raised  # so that nothing is collected
                    other.execute("BEGIN IMMEDIATE")
                    rows = other.execute("DELETE FROM own RETURNING n").fetchall()
                    other.execute("COMMIT")
                    places.append((instants.where, type(kept), len(rows)))
                assert engine.core.turns.joined.decisions is None, instants.where
                if instants.where is None:
                    break
    assert {rows for _, _, rows in places} == {0, 1 + inner}
    # An exception before the first statement of a function that SQLite calls is lost to everybody.
    assert {where for where, kind, _ in places if kind is KeyboardInterrupt} <= {
        where for where, _, _ in places if where is not None and "callbacks.py" in where
    }
    assert any(where is not None and "_authorized" in where for where, _, _ in places)


class _Held(Block[None]):
    """A block whose beginning, end and undoing raise what they are given."""

    def __init__(self, *, begin: BaseException | None = None, undo: BaseException | None = None) -> None:
        self._begin, self._undo = begin, undo

    def begin(self) -> None:
        if self._begin is not None:
            raise self._begin

    def end(self, error: BaseException | None) -> None:
        self.undo(error)

    def undo(self, error: BaseException | None = None) -> None:
        if self._undo is not None:
            failure, self._undo = self._undo, None
            raise failure


def test_every_block(caplog: pytest.LogCaptureFixture) -> None:
    """An interruption of a body, or of a beginning, comes out; another one in the clean-up is logged."""
    for failure in (StorageUnavailable("down"), KeyboardInterrupt("again")):
        with pytest.raises(Alarm), within(_Held(undo=failure)):
            raise Alarm
        with pytest.raises(Alarm), within(_Held(begin=Alarm(), undo=failure)):
            raise AssertionError("not begun")
    with pytest.raises(KeyboardInterrupt), within(_Held(undo=KeyboardInterrupt())):
        raise Mistake
    assert len(caplog.records) == 4


def test_of_several_failures_the_first_and_an_interruption_before_them(caplog: pytest.LogCaptureFixture) -> None:
    """The others are logged, or are what the one that is raised came after."""
    done: list[int] = []

    def step(number: int, error: BaseException | None) -> Callable[[], None]:
        def act() -> None:
            done.append(number)
            if error is not None:
                raise error

        return act

    first, second, third = Mistake("first"), Mistake("second"), KeyboardInterrupt("third")
    with pytest.raises(Mistake, match="first"):
        clean_up(None, "it", step(1, first), step(2, second), step(3, None))
    with pytest.raises(KeyboardInterrupt, match="third") as caught:
        clean_up(None, "it", step(4, first), step(5, third), step(6, second))
    assert caught.value.__context__ is first
    clean_up(KeyboardInterrupt(), "it", step(7, first), step(8, third))
    assert done == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["second", "second", "first", "third"]
    assert all(record.levelno == logging.WARNING for record in caplog.records)
