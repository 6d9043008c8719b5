"""Several writers of one file: who waits for the other looks again soon, and no longer than the busy timeout."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conductorlite.model.decisions import Decision
from conductorlite.model.executions import PollData
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.connections import begin_shared
from conductorlite.testing.conformance.groups import GroupConformance
from conductorlite.testing.conformance.samples import line, started
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
            tx.poll_data.record_polls([PollData(queue_name=f"t{id(backend)}", last_poll_time=backend.commits())])
        return backend.commits() < backend._shared

    with closing(one), closing(two):
        assert not any(write(one) for _ in range(3))
        write(two)
        assert all(write(one) for _ in range(60))
        assert not [write(one) for _ in range(10)][-1]


def test_of_decisions_that_share_a_write_only_the_late_one_is_left_out(tmp_path: Path) -> None:
    """Another process was first with one of them: the others are stored together, what is known of them being looked up at once."""
    path = lay_empty_store(tmp_path / "store.db")
    one, two = (SQLiteBackend(path, synchronous="NORMAL", counting=True) for _ in range(2))
    with closing(one), closing(two):
        rows = [started(one, f"w{number}") for number in range(20)]
        decisions = [Decision(workflow=row, history=(line(1),)) for row in rows]
        with two.writing() as tx:
            tx.decisions.apply(decisions[7])
        assert one.counts is not None
        one.counts.reset()
        with one.writing() as tx:
            assert set(tx.decisions.apply_some(decisions)) == {row.workflow_id for row in rows} - {"w7"}
        assert one.counts.statements < 12
        with one.reading() as view:
            assert [row.fence for row in map(view.executions.workflow, (row.workflow_id for row in rows)) if row is not None] == [
                2
            ] * 20


def test_who_is_late_is_said_before_anything_is_applied(tmp_path: Path) -> None:
    """In one statement, which says at once what is known of the others."""
    path = lay_empty_store(tmp_path / "store.db")
    one, two = (SQLiteBackend(path, synchronous="NORMAL", counting=True) for _ in range(2))
    with closing(one), closing(two):
        rows = [started(one, f"w{number}") for number in range(9)]
        with one.writing() as tx:
            assert not tx.decisions.fenced({row.workflow_id: row.fence for row in rows})
        with two.writing() as tx:
            tx.decisions.apply(Decision(workflow=rows[7], history=(line(1),)))
        assert one.counts is not None
        with one.writing() as tx:
            one.counts.reset()
            assert set(tx.decisions.fenced({row.workflow_id: row.fence for row in rows})) == {"w7"}
            assert one.counts.statements == 1
            assert (
                len(
                    tx.decisions.apply_some([Decision(workflow=row, history=(line(1),)) for row in rows if row.workflow_id != "w7"])
                )
                == 8
            )
            assert one.counts.statements_by_sql["SAVEPOINT decision"] == 1


@pytest.mark.parametrize("seed", range(100, 108))
def test_what_is_worked_out_before_the_lock_is_compared_in_it(tmp_path: Path, seed: int) -> None:
    """Beside another process decisions that share a write are stored as one by one too, those that are late among them."""
    path = lay_empty_store(tmp_path / "store.db")
    one, two = (SQLiteBackend(path, synchronous="NORMAL") for _ in range(2))
    with closing(one), closing(two):
        for backend in (one, two):
            with backend.writing() as tx:
                tx.metadata.embed(str(id(backend)), "{}")
        with one.writing():
            assert one._commits < one._shared
        GroupConformance().test_stored_together_is_stored_one_by_one(one, seed)
        assert one._commits < one._shared
