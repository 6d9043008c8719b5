"""The SQLite backend keeps the contract, on one thread's connection and on a pooled reader."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest

from conductorlite.errors import FencedOut, StorageBusy
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.model.executions import HistoryEvent
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.conformance import BackendConformance
from conductorlite.testing.conformance.samples import dump, event, large, line, message, started, task, workflow
from conductorlite.testing.faults import lay_empty_store


class TestSQLite(BackendConformance):
    """The conformance suite."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in a file; NORMAL, because durability is not tested here."""
        return SQLiteBackend(lay_empty_store(folder / "store.db"), synchronous="NORMAL")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    """A store with short waits."""
    backend = SQLiteBackend(tmp_path / "store.db", busy_timeout_ms=20)
    yield backend
    backend.close()


@contextmanager
def busy_writer(backend: SQLiteBackend) -> Iterator[None]:
    """Another thread holds the writing transaction, with an event posted and not committed."""
    inside, leave = threading.Event(), threading.Event()

    def write() -> None:
        with backend.writing() as tx:
            tx.inbox.post([event()])
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(10)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_reading_never_waits_for_a_writer(backend: SQLiteBackend) -> None:
    """While another thread writes, a view opens at once, sees the last commit, and holds none of the writer's locks."""
    with busy_writer(backend), backend.reading() as view:
        assert view.inbox.events("w") == []
    with backend.reading() as view:
        assert len(view.inbox.events("w")) == 1


def test_writing_waits_no_longer_than_the_timeout(backend: SQLiteBackend) -> None:
    """A second writer, in this process or through another backend, gives up with StorageBusy naming the file."""
    other = SQLiteBackend(backend.path, busy_timeout_ms=20)
    with busy_writer(backend):
        for store in (backend, other):
            with pytest.raises(StorageBusy, match=r"store\.db"), store.writing():
                pass
    with other.writing() as tx:
        assert len(tx.inbox.events("w")) == 1
    other.close()


def test_no_update_is_lost_between_backends(tmp_path: Path) -> None:
    """Two backends on one file, as two processes have, raise one fence fifty times each; every raise is counted."""
    first, second = (SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL") for _ in range(2))
    started(first)

    def climb(backend: SQLiteBackend) -> None:
        done = 0
        while done < 50:
            with backend.reading() as view:
                row = view.executions.workflow("w")
            assert row is not None
            with suppress(FencedOut), backend.writing() as tx:
                tx.decisions.apply(Decision(workflow=attrs.evolve(row, sequence=row.sequence + 1)))
                done += 1

    threads = [threading.Thread(target=climb, args=(backend,)) for backend in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with first.reading() as view:
        found = view.executions.workflow("w")
    assert found is not None
    assert (found.sequence, found.fence) == (100, 101)
    first.close()
    second.close()


def test_rows_survive_reopening(tmp_path: Path) -> None:
    """What was committed is there after close and open, and unchanged."""
    path = tmp_path / "store.db"
    store = SQLiteBackend(path)
    with store.writing() as tx:
        tx.decisions.apply(
            Decision(
                workflow=workflow(input=large()),
                created=True,
                inserted=(task(), task("b", rounds=(1, 2))),
                texts=(large(),),
                history=(line(1),),
                timers=(event(), event("held", held=True)),
                outgoing=Outgoing(put=(message(),)),
            )
        )
        before = dump(tx)
    store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.db"]  # close checkpoints the log away
    store = SQLiteBackend(path)
    with store.reading() as view:
        assert dump(view) == before
    store.close()


#: What lines of a journal say, short ones mostly: with what parts lines and fields, and more than the row of an execution keeps.
_REASONS = (None, None, "no", "no", "it was late", "\x1e, \x1f and \n", '"said"', "é" * 150, "x" * 700, "y" * 2_500)


@pytest.mark.parametrize("seed", range(6))
def test_every_line_of_a_journal_is_kept(tmp_path: Path, seed: int) -> None:
    """Few or many in a turn, short or long, alone or together with those of others, read anew or not, and when it has ended."""
    drawn, path = random.Random(seed), lay_empty_store(tmp_path / "store.db")
    store = SQLiteBackend(path, synchronous="NORMAL")
    rows = {name: started(store, name) for name in ("w0", "w1", "w2")}
    written: dict[str, list[HistoryEvent]] = {name: [] for name in rows}
    for turn in range(60):
        decisions = []
        status = WorkflowStatus.COMPLETED if turn == 59 else WorkflowStatus.RUNNING
        for name, row in rows.items():
            said = [drawn.choice(_REASONS) for _ in range(drawn.randrange(1, 5))]
            lines = [
                line(row.history_seq + n, attempt=turn % 3, reason=reason, payload=Payload.of({"n": n}))
                for n, reason in enumerate(said, 1)
            ]
            written[name] += lines
            after = attrs.evolve(row, history_seq=lines[-1].n, status=status)
            decisions.append(Decision(workflow=after, history=tuple(lines)))
        with store.writing() as tx:
            stored = tx.decisions.apply_some(decisions) if drawn.randrange(2) else ()
            for decision in decisions:
                if decision.workflow.workflow_id not in stored:
                    tx.decisions.apply(decision)
        if not drawn.randrange(6):
            store.close()
            store = SQLiteBackend(path, synchronous="NORMAL")
        with store.reading() as view:
            assert {name: [*view.history.lines(name)] for name in rows} == written
            rows = {name: row for name in rows if (row := view.executions.workflow(name)) is not None}
    store.close()


def test_data_version_shows_the_commits_of_others(backend: SQLiteBackend) -> None:
    """The number changes with a commit through another backend, and stays with one's own."""
    other = SQLiteBackend(backend.path)
    before = backend.data_version()
    with backend.writing() as tx:
        tx.inbox.post([event()])
    assert backend.data_version() == before
    with other.writing() as tx:
        tx.inbox.post([event()])
    assert backend.data_version() != before
    backend.checkpoint()
    other.close()


def test_the_number_of_a_connection_that_is_thrown_away_does_not_come_again(backend: SQLiteBackend) -> None:
    """SQLite counts for each connection from its beginning: as many commits of others later it would be the same one."""
    other, seen = SQLiteBackend(backend.path), list[int]()
    for _ in range(3):
        for _ in range(3):
            seen.append(backend.data_version())
            with other.writing() as tx:
                tx.inbox.post([event()])
        opened = backend._writer
        with suppress(StorageBusy), backend.writing():
            raise StorageBusy("a write that failed")
        with backend.writing():
            assert backend._writer is not opened
    other.close()
    assert len(set(seen)) == len(seen)


def test_views_return_their_connections(backend: SQLiteBackend) -> None:
    """Many views opened beside a writer leave no more than a few idle readers, and close() closes those."""
    with busy_writer(backend):
        for _ in range(20):
            with backend.reading() as view:
                view.inbox.events("w")
    assert len(backend._idle) == 1
    backend.close()
    assert backend._idle == []
