"""Several writers of one file: who waits for the other looks again soon, and no longer than the busy timeout."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conductorlite.model.executions import PollData
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.connections import begin_shared
from conductorlite.testing.faults import lay_empty_store


def test_a_shared_file_is_asked_for_again_soon(tmp_path: Path) -> None:
    """Many times within a timeout in which SQLite itself would look a few times; afterwards the timeout is as it was."""
    path = lay_empty_store(tmp_path / "store.db")
    tried: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as one, closing(sqlite3.connect(path, isolation_level=None)) as two:
        one.execute("BEGIN IMMEDIATE")
        two.set_trace_callback(tried.append)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            begin_shared(two, 100)
        assert tried.count("BEGIN IMMEDIATE") > 20
        assert two.execute("PRAGMA busy_timeout").fetchone() == (100,)
        one.execute("ROLLBACK")
        begin_shared(two, 100)
        assert two.in_transaction
        with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
            begin_shared(two, 100)


def test_a_file_is_shared_as_long_as_others_write_to_it(tmp_path: Path) -> None:
    """From the first change of another process that is found, until there was none between many of the own."""
    path = lay_empty_store(tmp_path / "store.db")
    one, two = (SQLiteBackend(path, synchronous="NORMAL") for _ in range(2))

    def write(backend: SQLiteBackend) -> bool:
        with backend.writing() as tx:
            tx.record_polls([PollData(queue_name=f"t{id(backend)}", last_poll_time=backend.commits())])
        return backend.commits() < backend._shared

    with closing(one), closing(two):
        assert not any(write(one) for _ in range(3))
        write(two)
        assert all(write(one) for _ in range(60))
        assert not [write(one) for _ in range(10)][-1]
