"""`engine.transaction()`: an application's rows and what it has the engine do, in one commit or none."""

# ruff: noqa: PT012 — what is tried is that a block raises after several things were done in it

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import PATIENCE, T0, Bench, flow, simple, wait

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    TaskDef,
    TaskFailedTerminally,
    TaskResult,
    TaskStatus,
    Transaction,
    VirtualClock,
    Workers,
)
from conductorlite.model.errors import (
    Conflict,
    DefinitionNotFound,
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    KeyTaken,
    StaleLease,
    StorageBusy,
    WouldDeadlock,
)
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import Crash, FaultyBackend, lay_empty_store

ORDER = flow(simple("pay"), wait("shipped"), name="order")

PAYMENTS = "CREATE TABLE app_payments (orders TEXT PRIMARY KEY, amount REAL)"


class Halted(Exception):
    """What the application raises."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty store."""
    return lay_empty_store(tmp_path / "shop.db")


def opened(store: Any, **options: Any) -> Engine:
    """An engine with the table of the application."""
    engine = Engine(store, clock=VirtualClock(T0), **options)
    with engine.transaction() as tx:
        if not tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'app_payments'"):
            tx.execute(PAYMENTS)
    return engine


def paid(engine: Engine) -> list[tuple[Any, ...]]:
    """The application's rows."""
    with engine.transaction() as tx:
        return list(tx.execute("SELECT orders, amount FROM app_payments ORDER BY orders"))


# ---------------------------------------------------------------------- all or nothing


def test_rows_and_verbs_are_one_commit(file: Path) -> None:
    """A start, a report and a signal with rows between them: one commit, seen by nobody before."""
    with opened(file) as engine, Engine(file, clock=VirtualClock(T0)) as other:
        waiting = engine.start(ORDER, workflow_id="w")
        (held,) = engine.poll("pay")
        before = engine.backend.commits()
        with engine.transaction() as tx:
            tx.execute("INSERT INTO app_payments VALUES (?, ?)", ("w", 3.5))
            engine.update_task(completed(held))
            assert engine.signal("w", {"parcel": 7}).ref == "shipped"
            engine.start(ORDER, workflow_id="next")
            assert tx.execute("SELECT count(*) FROM app_payments") == [(1,)]
            assert waiting.status.terminal
            assert not other.status("w").terminal
            assert list(other.admin.workflow_ids()) == ["w"]
        assert engine.backend.commits() - before == 1
        assert waiting.result()["parcel"] == 7
        assert sorted(other.admin.workflow_ids()) == ["next", "w"]
        assert paid(engine) == [("w", 3.5)]
        assert not engine.admin.check()


def test_what_raises_leaves_nothing(bench: Bench) -> None:
    """On every store: neither executions, nor reports, nor definitions, nor what listeners heard; and the engine goes on."""
    engine, heard = bench.engine, []
    engine.start(ORDER, workflow_id="w")
    engine.settle()
    (held,) = engine.poll("pay")
    history = list(engine.history("w"))
    engine.listen(lambda workflow, _: heard.append(workflow.workflow_id))
    with pytest.raises(Halted), engine.transaction():
        engine.register(flow(simple("pay"), name="order", version=2))
        engine.start("order", workflow_id="v2")
        engine.update_task(completed(held))
        engine.pause("w")
        raise Halted
    assert list(engine.admin.workflow_ids()) == ["w"]
    assert list(engine.history("w")) == history
    assert heard == []
    with pytest.raises(DefinitionNotFound):
        engine.start("order")
    engine.update_task(completed(held))
    assert heard == ["w"]
    assert engine.get("w").task("shipped").status == "IN_PROGRESS"


def test_what_was_undone_is_not_remembered(bench: Bench) -> None:
    """A definition embedded in a transaction that came to nothing is stored by the next start, with what is registered then."""
    engine = bench.engine
    with pytest.raises(Halted), engine.transaction():
        engine.register(TaskDef(name="pay", retry_count=9))
        engine.register(ORDER)
        engine.start("order")
        raise Halted
    engine.register(TaskDef(name="pay", retry_count=1))
    engine.register(ORDER)
    run = engine.start("order")
    definition = run.workflow.definition
    assert definition is not None
    assert definition.tasks[0].task_definition is not None
    assert definition.tasks[0].task_definition.retry_count == 1


def test_a_definition_that_was_undone_is_stored_again(file: Path) -> None:
    """By the next start with it: another engine finds it."""
    with opened(file) as engine:
        with pytest.raises(Halted), engine.transaction():
            engine.start(ORDER)
            raise Halted
        engine.start(ORDER, workflow_id="w")
    with Engine(file, clock=VirtualClock(T0)) as engine:
        assert len(engine.poll("pay")) == 1


def test_a_decision_that_cannot_be_stored_takes_no_rows_along(file: Path) -> None:
    """The first of a transaction has no savepoint of its own elsewhere."""
    with opened(file) as engine:
        with engine.transaction() as tx:
            tx.execute("INSERT INTO app_payments VALUES ('a', 1)")
            with pytest.raises(InvalidInput, match="cannot be stored"):
                engine.start(ORDER, idempotency_key="k", correlation_id="\ud800")
        assert paid(engine) == [("a", 1.0)]


def test_rows_of_executions_that_came_to_nothing_are_not_resident(file: Path) -> None:
    """The engine keeps rows of its last turns: not those of a transaction that was undone, under the same fence as the next."""
    with opened(file) as engine:
        engine.start(ORDER, workflow_id="w")
        (held,) = engine.poll("pay")
        with pytest.raises(Halted), engine.transaction():
            engine.update_task(completed(held, amount=1))
            raise Halted
        with engine.backend.writing() as tx:  # the next fence, and no turn
            tx.executions.park("w", 3, "broken")
            tx.executions.release("w", T0)
        engine.pause("w")
        engine.resume("w")
        engine.update_task(completed(held, amount=2))
        engine.signal("w")
        assert engine.get("w").task("pay").output_data == {"amount": 2}
        assert not engine.admin.check()


def test_listeners_hear_after_the_commit(bench: Bench) -> None:
    """In order, and by then everything is there."""
    engine, heard = bench.engine, []
    engine.listen(lambda workflow, _: heard.append((workflow.workflow_id, len(list(engine.admin.workflow_ids())))))
    with engine.transaction():
        engine.start(ORDER, workflow_id="a")
        engine.start(ORDER, workflow_id="b")
        assert heard == []
    assert heard == [("a", 2), ("b", 2)]


def test_a_verb_that_raises_is_undone_by_itself(bench: Bench) -> None:
    """The block may go on after it."""
    engine = bench.engine
    with engine.transaction():
        engine.start(ORDER, workflow_id="a", idempotency_key="k")
        with pytest.raises(KeyTaken):
            engine.start(ORDER, workflow_id="b", idempotency_key="k")
        with pytest.raises(Conflict):
            engine.resume("a")
        engine.start(ORDER, workflow_id="c")
    assert sorted(engine.admin.workflow_ids()) == ["a", "c"]


def test_a_block_inside_is_a_part(bench: Bench) -> None:
    """Undone by itself, committed with the whole."""
    engine = bench.engine
    with engine.transaction():
        engine.start(ORDER, workflow_id="a")
        with pytest.raises(Halted), engine.transaction():
            engine.start(ORDER, workflow_id="b")
            with engine.transaction():
                engine.start(ORDER, workflow_id="c")
            raise Halted
        with engine.transaction():
            engine.start(ORDER, workflow_id="d")
    assert sorted(engine.admin.workflow_ids()) == ["a", "d"]
    with pytest.raises(Halted), engine.transaction():
        with engine.transaction():
            engine.start(ORDER, workflow_id="e")
        raise Halted
    assert sorted(engine.admin.workflow_ids()) == ["a", "d"]


def test_parts_hold_rows_too(file: Path) -> None:
    """The application's rows of a part are undone with it."""
    with opened(file) as engine:
        with engine.transaction() as tx:
            tx.executemany("INSERT INTO app_payments VALUES (?, ?)", [("a", 1), ("b", 2)])
            with pytest.raises(Halted), engine.transaction() as part:
                part.execute("DELETE FROM app_payments")
                raise Halted
            assert tx.execute("DELETE FROM app_payments WHERE orders = :name", {"name": "b"}).rowcount == 1
        assert paid(engine) == [("a", 1.0)]


def test_many_starts_are_part_of_it(bench: Bench) -> None:
    """`start_many` as well."""
    engine = bench.engine
    with pytest.raises(Halted), engine.transaction():
        assert len(engine.start_many(ORDER, [{}, {}])) == 2
        raise Halted
    assert list(engine.admin.workflow_ids()) == []
    with engine.transaction():
        engine.start_many(ORDER, [{}, {}])
    assert len(list(engine.admin.workflow_ids())) == 2


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("statement", "because"),
    [
        ("DELETE FROM workflows", "the table 'workflows' is the engine's"),
        ("UPDATE tasks SET status = 1", "the table 'tasks' is the engine's"),
        ("INSERT INTO inbox DEFAULT VALUES", "the table 'inbox' is the engine's"),
        ("DROP TABLE history", "the table 'history' is the engine's"),
        ("ALTER TABLE messages ADD COLUMN more", "the table 'messages' is the engine's"),
        ("CREATE INDEX mine ON workflows (status)", "the table 'workflows' is the engine's"),
        ("CREATE TRIGGER mine AFTER INSERT ON tasks BEGIN SELECT 1; END", "the table 'tasks' is the engine's"),
        ("COMMIT", "COMMIT cannot be carried out here"),
        ("ROLLBACK", "ROLLBACK cannot be carried out here"),
        ("SAVEPOINT mine", "a part that is undone by itself"),
        ("PRAGMA user_version = 99", "PRAGMA user_version cannot"),
        ("ATTACH 'other.db' AS other", "other files have no part"),
    ],
)
def test_the_engine_keeps_its_tables(file: Path, statement: str, because: str) -> None:
    """And the transaction its end; a refused statement changes nothing, and the block may go on."""
    with opened(file) as engine:
        with engine.transaction() as tx:
            engine.start(ORDER, workflow_id="w")
            with pytest.raises(InvalidInput, match=because):
                tx.execute(statement)
            tx.execute("INSERT INTO app_payments VALUES ('w', 1)")
        assert paid(engine) == [("w", 1.0)]
        assert not engine.admin.check()


def test_every_table_of_a_store_is_protected(file: Path) -> None:
    """Also those of the next schema: what a new store has is what is refused."""
    with opened(file) as engine:
        engine.start(ORDER)
        engine.search("status = 'RUNNING'")
        with engine.transaction() as tx:
            tables = [name for (name,) in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            assert len(tables) > 30
            for name in tables:
                if not name.startswith(("app_", "sqlite_")):
                    with pytest.raises(InvalidInput):
                        tx.execute(f"DELETE FROM {name}")


def test_an_error_of_sqlite_is_the_applications_to_handle(file: Path) -> None:
    """It is raised as it is, undoes its statement only, and ends the block as any other exception."""
    with opened(file) as engine:
        with engine.transaction() as tx:
            tx.execute("INSERT INTO app_payments VALUES ('a', 1)")
            with pytest.raises(sqlite3.IntegrityError):
                tx.execute("INSERT INTO app_payments VALUES ('a', 2)")
        with pytest.raises(sqlite3.IntegrityError), engine.transaction() as tx:
            engine.start(ORDER, workflow_id="w")
            tx.execute("INSERT INTO app_payments VALUES ('a', 2)")
        with pytest.raises(sqlite3.OperationalError), engine.transaction(), engine.transaction() as tx:
            tx.execute("SELECT nonsense")
        assert paid(engine) == [("a", 1.0)]
        assert list(engine.admin.workflow_ids()) == []


def test_a_statement_that_undoes_everything_is_noticed(file: Path) -> None:
    """`OR ROLLBACK` ends SQLite's transaction: nothing more is written in it, and its end raises."""
    with opened(file) as engine:
        with engine.transaction() as tx:
            tx.execute("INSERT INTO app_payments VALUES ('a', 1)")
        with pytest.raises(Exception, match="undone by an earlier error"), engine.transaction() as tx:
            tx.execute("INSERT INTO app_payments VALUES ('b', 1)")
            with pytest.raises(sqlite3.IntegrityError):
                tx.execute("INSERT OR ROLLBACK INTO app_payments VALUES ('a', 2)")
            with pytest.raises(Exception, match="undone by an earlier error"):
                tx.execute("INSERT INTO app_payments VALUES ('c', 1)")
            with pytest.raises(Exception, match="undone by an earlier error"):
                engine.start(ORDER)
        assert paid(engine) == [("a", 1.0)]


@pytest.mark.parametrize(
    "verb",
    [
        lambda engine: engine.settle(),
        lambda engine: engine.tick(),
        lambda engine: engine.run_until_idle(),
        lambda engine: engine.run("w").result(),
        lambda engine: engine.poll("pay"),
        lambda engine: engine.search("status = 'RUNNING'"),
        lambda engine: engine.close(),
    ],
)
def test_what_waits_for_others_is_refused(bench: Bench, verb: Callable[[Engine], object]) -> None:
    """They hold the store, or look at what is committed; the block goes on."""
    engine = bench.engine
    engine.start(ORDER, workflow_id="w")
    with engine.transaction():
        with pytest.raises(WouldDeadlock, match="inside transaction"):
            verb(engine)
        engine.start(ORDER, workflow_id="x")
    assert engine.status("x") == "RUNNING"


def test_the_store_cannot_be_put_in_order_meanwhile(file: Path) -> None:
    """What takes the writing connection for itself raises, and does not end the transaction."""
    with opened(file) as engine:
        with engine.transaction():
            engine.start(ORDER, workflow_id="w")
            for verb in (engine.backend.checkpoint, engine.backend.rebuild_indexes, engine.backend.compact, engine.backend.close):
                with pytest.raises(InvariantBroken):
                    verb()
        assert engine.status("w") == "RUNNING"


def test_a_late_report_undoes_the_block(bench: Bench) -> None:
    """Outside it is ignored; with rows of the application it must not seem to be taken."""
    engine = bench.engine
    engine.start(ORDER, workflow_id="w")
    engine.settle()
    (held,) = engine.poll("pay")
    engine.update_task(completed(held))
    with pytest.raises(Conflict, match="the attempt has ended"), engine.transaction():
        engine.start(ORDER, workflow_id="x")
        engine.update_task(completed(held))
    engine.start(ORDER, workflow_id="y")
    engine.settle()
    (task,) = engine.poll("pay")
    with pytest.raises(StaleLease), engine.transaction():
        engine.start(ORDER, workflow_id="x")
        engine.update_task(TaskResult(workflow_id="y", task_id=task.task_id, status=completed(task).status, lease=task.lease - 1))
    assert sorted(engine.admin.workflow_ids()) == ["w", "y"]


# ---------------------------------------------------------------------- stores, threads, coroutines


def test_a_store_in_memory_has_the_verbs_only() -> None:
    """And says so where rows are asked for."""
    with Engine(clock=VirtualClock(T0)) as engine, engine.transaction() as tx:
        with pytest.raises(InvalidInput, match="has no tables for rows of your own: open the engine on a file"):
            tx.execute("SELECT 1")
        engine.start(ORDER)


def test_a_store_without_transactions_says_so() -> None:
    """One that others have written."""

    class Other:
        capabilities, in_memory = frozenset(), True

        def __getattr__(self, name: str) -> Any:
            if name == "transaction":
                raise AttributeError(name)
            return getattr(inner, name)

    inner = MemoryBackend()
    store: Any = Other()
    with Engine(store, clock=VirtualClock(T0)) as engine, pytest.raises(InvalidInput, match="Other takes no transactions"):
        engine.in_transaction(lambda tx: None)


def test_it_is_its_threads(file: Path) -> None:
    """Another thread's verbs wait for its end, its `tx` is refused there, and after the block."""
    with opened(file) as engine:
        errors: list[BaseException] = []
        done = threading.Event()

        def elsewhere(tx: Transaction) -> None:
            try:
                tx.execute("DELETE FROM app_payments")
            except EngineClosed as error:
                errors.append(error)
            done.set()
            engine.start(ORDER, workflow_id="later")

        with engine.transaction() as tx:
            thread = threading.Thread(target=elsewhere, args=(tx,))
            thread.start()
            assert done.wait(PATIENCE)
            engine.start(ORDER, workflow_id="first")
            assert list(engine.admin.workflow_ids()) == ["first"]
        thread.join(PATIENCE)
        assert len(errors) == 1
        assert sorted(engine.admin.workflow_ids()) == ["first", "later"]
        with pytest.raises(EngineClosed):
            tx.execute("SELECT 1")


def test_another_engine_waits_and_gives_up(file: Path) -> None:
    """Other processes too, within their busy timeout; reading goes on."""
    with opened(file) as engine:
        hasty = SQLiteBackend(file, busy_timeout_ms=1)
        with Engine(hasty, clock=VirtualClock(T0)) as other:
            with engine.transaction():
                engine.start(ORDER, workflow_id="w")
                assert list(other.admin.workflow_ids()) == []
                with pytest.raises(StorageBusy):
                    other.start(ORDER)
            assert other.status("w") == "RUNNING"


def test_coroutines_hand_over_a_function(file: Path) -> None:
    """`await engine.in_transaction(work)`: in one thread, with the engine at hand."""
    with opened(file):
        pass

    def work(tx: Transaction) -> str:
        tx.execute("INSERT INTO app_payments VALUES ('a', 1)")
        return tx.engine.start(ORDER, workflow_id="w").workflow_id

    def failing(tx: Transaction) -> None:
        work(tx)

    async def main() -> None:
        async with AsyncEngine(file, clock=VirtualClock(T0)) as engine:
            assert await engine.in_transaction(work) == "w"
            with pytest.raises(sqlite3.IntegrityError):
                await engine.in_transaction(failing)
            assert await engine.status("w") == "RUNNING"

    asyncio.run(main())


# ---------------------------------------------------------------------- workers


def completed(task: Any, **output: Any) -> TaskResult:
    """A report that a task is done."""
    return TaskResult(
        workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, output_data=output, lease=task.lease
    )


def cashier(seen: list[str], *, fails: int = 0) -> Workers:
    """A worker that writes a row with its report; it fails so often first, after it has written."""
    workers = Workers()

    @workers.task(retry_count=3, retry_delay_seconds=1)
    def pay(tx: Transaction) -> dict[str, int]:
        seen.append("pay")
        tx.execute("INSERT INTO app_payments VALUES (?, ?)", (f"{len(seen)}", len(seen)))
        tx.engine.start(flow(wait("thanks"), name="thanks"), workflow_id=f"thanks {len(seen)}")
        if len(seen) <= fails:
            raise RuntimeError("no connection")
        return {"number": len(seen)}

    return workers


@pytest.mark.parametrize("clock", [lambda: VirtualClock(T0), lambda: None])
def test_a_worker_writes_its_rows_with_its_report(file: Path, clock: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    """Once: what a failed attempt wrote is undone, the failure is reported, and the next attempt's rows come with its report."""
    seen: list[str] = []
    opened(file).close()
    with Engine(file, clock=clock(), workers=cashier(seen, fails=1)) as engine:
        run = engine.start(flow(simple("pay", {"retry_delay_s": 0})))
        assert run.result() == {"number": 2}
        assert paid(engine) == [("2", 2.0)]
        assert [str(task.status) for task in run.tasks] == ["FAILED", "COMPLETED"]
        assert run.tasks[0].reason == "RuntimeError: no connection"
        assert "too late" not in caplog.text  # it is reported once
        assert sorted(engine.admin.workflow_ids()) == sorted([run.workflow_id, "thanks 2"])
        assert not engine.admin.check()


def test_a_worker_that_is_too_late_leaves_nothing(file: Path) -> None:
    """Its execution was terminated while it ran."""
    workers = Workers()

    @workers.task
    def pay(tx: Transaction) -> None:
        tx.execute("INSERT INTO app_payments VALUES ('a', 1)")
        tx.engine.terminate("w")

    @workers.task
    def other(tx: Transaction) -> None:
        raise TaskFailedTerminally("never")

    with opened(file, workers=workers) as engine:
        run = engine.start(flow(simple("pay")), workflow_id="w")
        engine.run_until_idle()
        assert str(run.tasks[0].status) == "FAILED"  # what it did was undone with it
        assert paid(engine) == []
        failed = engine.start(flow(simple("other")))
        engine.run_until_idle()
        assert str(failed.tasks[0].status) == "FAILED_WITH_TERMINAL_ERROR"


def test_a_coroutine_function_takes_none() -> None:
    """Its thread is the loop's."""

    async def pay(tx: Transaction) -> None: ...

    with pytest.raises(InvalidInput, match="cannot be a coroutine function"):
        Workers().add("pay", pay)


# ---------------------------------------------------------------------- deaths

#: Every fifth death in the fast run, each in CI.
EVERY = [5, pytest.param(1, marks=pytest.mark.slow)]


@pytest.mark.parametrize("every", EVERY)
def test_a_death_at_any_write_leaves_all_or_nothing(tmp_path: Path, every: int) -> None:
    """A program killed before and after each write of a transaction, reopened: its rows are there exactly if its verbs are."""
    points = 0
    for side in ("crash_before", "crash_after"):
        number = 1 - every
        while True:
            number += every
            file = lay_empty_store(tmp_path / f"{side}{number}.db")
            opened(file, config=ids()).close()
            with Engine(file, clock=VirtualClock(T0), config=ids()) as engine:
                engine.start(ORDER, workflow_id="w")
            inner = SQLiteBackend(file)
            faulty = FaultyBackend(inner, keep_open=True)
            engine = Engine(faulty, clock=VirtualClock(T0), config=ids())
            (held,) = engine.poll("pay")
            faulty.die_at(number, after=side == "crash_after")
            try:
                with engine.transaction() as tx:
                    tx.execute("INSERT INTO app_payments VALUES ('w', 1)")
                    engine.update_task(completed(held))
                    with pytest.raises(Conflict), engine.transaction():
                        engine.signal("w")
                        engine.resume("w")
                    engine.start(ORDER, workflow_id="next")
                    tx.execute("INSERT INTO app_payments VALUES ('x', 1)")
            except Crash:
                pass
            inner.close()
            with Engine(file, clock=VirtualClock(T0)) as engine:
                rows, ids_now = len(paid(engine)), sorted(engine.admin.workflow_ids())
                status = str(engine.get("w").task("pay").status)
                assert (rows, ids_now, status) in [
                    (0, ["w"], "SCHEDULED"),
                    (0, ["w"], "IN_PROGRESS"),
                    (2, ["next", "w"], "COMPLETED"),
                ]
                assert not engine.admin.check()
            if not faulty.dead:
                assert rows == 2
                break
            points += 1
    assert points >= 10 // every


@pytest.mark.parametrize("every", EVERY)
def test_a_worker_killed_at_any_write_counts_once(tmp_path: Path, every: int) -> None:
    """Killed at each write of its life and driven again: one row, whatever was lost."""
    for side in ("crash_before", "crash_after"):
        number, died = 1 - every, True
        while died:
            number += every
            file = lay_empty_store(tmp_path / f"{side}{number}.db")
            opened(file).close()
            died, calls = False, []
            inner = SQLiteBackend(file)
            faulty = FaultyBackend(inner, keep_open=True)
            faulty.die_at(number, after=side == "crash_after")
            try:
                with Engine(faulty, clock=VirtualClock(T0), workers=counter(calls)) as engine:
                    once(engine)
            except Crash:
                died = True
            inner.close()
            with Engine(file, clock=VirtualClock(T0), workers=counter(calls)) as engine:
                once(engine)
                assert engine.get("w").output_data == {"result": 1}
                assert paid(engine) == [("w", 1.0)]
                assert len(calls) <= 2


def once(engine: Engine) -> None:
    """The program that is killed."""
    if "w" not in engine.admin.workflow_ids():
        engine.start(flow(simple("pay", {"response_timeout_s": 5, "retry_delay_s": 0})), workflow_id="w")
    engine.run_until_idle()


def counter(calls: list[int]) -> Workers:
    """A worker that counts in a row of its own, which need not be one that may be written twice."""
    workers = Workers()

    @workers.task
    def pay(tx: Transaction) -> int:
        calls.append(1)
        tx.execute("INSERT INTO app_payments VALUES ('w', 0) ON CONFLICT DO NOTHING")
        tx.execute("UPDATE app_payments SET amount = amount + 1")
        return int(tx.execute("SELECT amount FROM app_payments")[0][0])

    return workers


def ids() -> EngineConfig:
    """Ids that are the same in each life."""
    numbers = iter(range(1_000))
    return EngineConfig(ids=lambda: f"i{next(numbers)}", resident_bytes=0)
