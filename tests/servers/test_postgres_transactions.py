"""`engine.transaction()` in PostgreSQL: an application's rows and what it has the engine do, in one commit or none."""

# ruff: noqa: PT012 — what is tried is that a block raises after several things were done in it

from __future__ import annotations

from collections.abc import Iterator

import pytest
from places import dropped, own_schema
from test_postgres import CHAIN, WAITS, end_connections

from conductorlite import Engine, TaskDef, Transaction, Workers
from conductorlite.errors import AlreadyExists, InvalidInput, StorageUnavailable


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    """The URL of an empty store, with a table `app_TEST` in the schema `public`."""
    import psycopg

    url = own_schema(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE public.{table(url)} (id text PRIMARY KEY, amount numeric)".encode())
        yield url
        connection.execute(f"DROP TABLE public.{table(url)}".encode())
    dropped(url)


def table(url: str) -> str:
    """The application's table."""
    return "app_" + url.rpartition("=")[2]


def rows(url: str) -> list[str]:
    """What is in it, as others see it."""
    import psycopg

    with psycopg.connect(url.partition("?")[0]) as connection:
        return [str(key) for (key,) in connection.execute(f"SELECT id FROM {table(url)} ORDER BY id".encode())]


def test_rows_and_verbs_are_one_commit(url: str) -> None:
    """Rows between a start, a poll and a signal are seen with them, or not at all; a block inside is undone by itself."""
    insert = f"INSERT INTO {table(url)} VALUES (%s, %s)"
    with Engine(url) as engine, Engine(url) as other:
        with engine.transaction() as tx:
            engine.start(WAITS, workflow_id="w")
            assert tx.execute(insert, ("a", 1.5)).rowcount == 1
            engine.signal("w", task="w")
            with pytest.raises(AlreadyExists):
                engine.start(WAITS, workflow_id="w")
            with pytest.raises(ValueError, match="inside"), engine.transaction() as inner:
                inner.execute(insert, ("inside", 1))
                engine.start(WAITS, workflow_id="inside")
                raise ValueError("inside")
            assert rows(url) == []
        assert (rows(url), str(other.status("w"))) == (["a"], "COMPLETED")
        with pytest.raises(ValueError, match="never mind"), engine.transaction() as tx:
            tx.executemany(insert, [("b", 1), ("c", 2)])
            engine.start(WAITS, workflow_id="v")
            raise ValueError("never mind")
        assert rows(url) == ["a"]
        assert [row.workflow_id for row in other.search().results] == ["w"]
        assert engine.admin.check() == []


def test_errors_of_the_server_are_the_applications(url: str) -> None:
    """One that is caught has undone its own statement; what ends the transaction or changes the engine's tables is refused."""
    import psycopg

    schema = url.rpartition("=")[2]
    with Engine(url) as engine:
        with engine.transaction() as tx:
            tx.execute(f"INSERT INTO {table(url)} VALUES ('a', 1)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                tx.execute(f"INSERT INTO {table(url)} VALUES ('a', 2)")
            for refused in (
                "COMMIT",
                " -- so\n rollback",
                "SET search_path = public",
                f"DELETE FROM {schema}.tasks",
                f'WITH gone AS (DELETE FROM "{schema}".tasks) SELECT 1',
            ):
                with pytest.raises(InvalidInput):
                    tx.execute(refused)
            with pytest.raises(psycopg.errors.UndefinedTable):
                tx.execute("SELECT * FROM workflows")
            with pytest.raises(psycopg.errors.SyntaxError):
                tx.execute("SELECT 1; COMMIT")
            engine.start(WAITS, workflow_id="w")
            found = tx.execute(f"SELECT id, amount FROM {table(url)}")
            assert (found, found.columns) == ([("a", 1)], ("id", "amount"))
        assert (rows(url), str(engine.status("w"))) == (["a"], "RUNNING")
        with pytest.raises(StorageUnavailable), engine.transaction() as tx:
            tx.execute(f"INSERT INTO {table(url)} VALUES ('b', 1)")
            end_connections(url)
            tx.execute(f"INSERT INTO {table(url)} VALUES ('c', 1)")
        assert rows(url) == ["a"]


def test_a_worker_writes_its_rows_with_its_report(url: str) -> None:
    """What a failed attempt has written is gone; of the one that is reported it is there once."""
    workers, tries = Workers(), iter(range(9))
    for name in "bc":
        workers.add(name, lambda: {"done": True})

    @workers.task("a")
    def book(tx: Transaction = Transaction.given) -> None:
        tx.execute(f"INSERT INTO {table(url)} VALUES (%s, 1)", (f"try {next(tries)}",))
        tx.execute(f"INSERT INTO {table(url)} VALUES ('once', 1)")
        if next(tries) < 2:
            raise RuntimeError("again")

    with Engine(url, workers=workers) as engine:
        engine.register(TaskDef.from_json({"name": "a", "retryCount": 2, "retryDelaySeconds": 0}))
        engine.start(CHAIN, workflow_id="w").result("30s")
        assert rows(url) == ["once", "try 2"]
        assert engine.admin.check() == []
