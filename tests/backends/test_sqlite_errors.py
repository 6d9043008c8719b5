"""What SQLiteBackend says about files it cannot use, and that it leaves them as they were."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductorlite.errors import (
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    SchemaTooNew,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
)
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision
from conductorlite.store.sqlite import connections as opening
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.schema import APPLICATION_ID, VERSION
from conductorlite.testing.conformance.samples import dump, event, started, task, workflow

#: The user id of nobody, who may write nothing of ours.
_NOBODY = 65534


def not_a_database(path: Path) -> None:
    """A text file, longer than a header."""
    path.write_text("to be or not to be\n" * 20)


def short_file(path: Path) -> None:
    """Too short even for a header."""
    path.write_bytes(b"SQLite format 3\0")


def marked_by_another(path: Path) -> None:
    """A database with another application's mark."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 7")
        db.execute("CREATE TABLE theirs (x)")
    db.close()


def unmarked_tables(path: Path) -> None:
    """A database without a mark, with somebody's tables."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.execute("INSERT INTO theirs VALUES (1)")
    db.close()


def unmarked_in_wal(path: Path) -> None:
    """A database without a mark in WAL mode, as only others leave it."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE theirs (x)")
    db.close()


def own_version_only(path: Path) -> None:
    """A database with a user_version that is not ours."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()


def newer_schema(path: Path) -> None:
    """A store written by a later conductorlite, shut down properly."""
    SQLiteBackend(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()


def damaged(path: Path) -> None:
    """A store with its first tables overwritten."""
    SQLiteBackend(path).close()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (not_a_database, StorageCorrupt),
        (short_file, StorageCorrupt),
        (marked_by_another, StorageCorrupt),
        (unmarked_tables, StorageCorrupt),
        (unmarked_in_wal, StorageCorrupt),
        (own_version_only, StorageCorrupt),
        (newer_schema, SchemaTooNew),
    ],
)
def test_foreign_file_is_refused_untouched(tmp_path: Path, spoil: Callable[[Path], None], error: type[StorageError]) -> None:
    """A file that is not ours, or too new, is refused by name, and not a byte of it or beside it changes."""
    path = tmp_path / "store.db"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(error, match=r"store\.db"):
        SQLiteBackend(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


def test_newer_schema_in_the_log_is_refused(tmp_path: Path) -> None:
    """A newer schema is seen also while its commit lies only in the log."""
    path = tmp_path / "store.db"
    SQLiteBackend(path).close()
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew):
        SQLiteBackend(path)
    assert path.read_bytes() == before
    other.close()


def test_damaged_store(tmp_path: Path) -> None:
    """Damage inside our own file is StorageCorrupt, when opening or at the first use that meets it."""
    path = tmp_path / "store.db"
    damaged(path)

    def use() -> None:
        backend = SQLiteBackend(path)
        try:
            with backend.writing() as tx:
                tx.inbox.post([event()])
        finally:
            backend.close()

    with pytest.raises(StorageCorrupt, match=r"store\.db"):
        use()


def test_empty_file_is_taken(tmp_path: Path) -> None:
    """An empty file, as a failed start or `touch` leaves it, becomes a store."""
    path = tmp_path / "store.db"
    path.touch()
    backend = SQLiteBackend(path)
    assert started(backend).fence == 1
    backend.close()


def test_folder_as_path(tmp_path: Path) -> None:
    """A folder, or a file in a folder that is not there, raises StorageReadOnly naming it."""
    with pytest.raises(StorageReadOnly, match="folder"):
        SQLiteBackend(tmp_path)
    with pytest.raises(StorageReadOnly, match="nowhere"):
        SQLiteBackend(tmp_path / "nowhere" / "store.db")
    with pytest.raises(InvalidInput, match="MemoryBackend"):
        SQLiteBackend(":memory:")
    with pytest.raises(InvalidInput, match="synchronous"):
        SQLiteBackend(tmp_path / "store.db", synchronous="OFF")  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only_file_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A file or folder that may not be written raises StorageReadOnly naming it, before anything is touched."""
    path = tmp_path / "store.db"
    SQLiteBackend(path).close()
    refused = path if what == "file" else tmp_path
    monkeypatch.setattr(os, "access", lambda place, mode: place != refused)
    before = path.read_bytes()
    with pytest.raises(StorageReadOnly, match=str(refused)):
        SQLiteBackend(path)
    assert path.read_bytes() == before


def _open_as_nobody(path: str, answer: multiprocessing.SimpleQueue[str]) -> None:
    os.setuid(_NOBODY)
    try:
        SQLiteBackend(path).close()
        answer.put("opened")
    except StorageError as error:
        answer.put(f"{type(error).__name__} {error}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become nobody")
def test_somebody_elses_store(tmp_path: Path) -> None:
    """A user without rights on the file really gets StorageReadOnly from the operating system's answer."""
    path = tmp_path / "store.db"
    SQLiteBackend(path).close()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_open_as_nobody, args=(str(path), answer))
    child.start()
    child.join()
    assert answer.get().startswith("StorageReadOnly")


def test_full_disk_undoes_the_transaction(tmp_path: Path) -> None:
    """When the quota is reached StorageFull is raised, nothing of the transaction is stored, and small work goes on."""
    backend = SQLiteBackend(tmp_path / "store.db", max_size_bytes=200_000)
    row = started(backend)
    with backend.reading() as view:
        before = dump(view)
    big = [Payload.of({"n": n, "text": "x" * 50_000}) for n in range(10)]

    def fill() -> None:
        with backend.writing() as tx:
            tx.inbox.post([event("first")])
            tx.decisions.apply(Decision(workflow=row, texts=tuple(big)))

    with pytest.raises(StorageFull, match=r"store\.db"):
        fill()
    with backend.reading() as view:
        assert dump(view) == before
    with backend.writing() as tx:
        tx.inbox.post([event("still works")])
    backend.close()


def test_swallowed_full_disk_is_not_committed(tmp_path: Path) -> None:
    """A block that swallows StorageFull can commit only what other decisions stored, never half of the failed one."""
    backend = SQLiteBackend(tmp_path / "store.db", max_size_bytes=200_000)
    row = started(backend)
    big = [Payload.of({"n": n, "text": "x" * 50_000}) for n in range(10)]
    try:
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=workflow("v"), created=True))
            with pytest.raises(StorageFull):
                tx.decisions.apply(Decision(workflow=row, inserted=(task(),), texts=tuple(big)))
    except StorageError:
        pass  # SQLite undid the whole transaction by itself
    with backend.reading() as view:
        assert view.executions.workflow("w") == row
        assert view.executions.attempts("w") == []
    backend.close()


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    """A store with short waits."""
    backend = SQLiteBackend(tmp_path / "store.db", busy_timeout_ms=10)
    yield backend
    backend.close()


def test_values_sqlite_cannot_keep(backend: SQLiteBackend) -> None:
    """A lone surrogate or a number beyond 64 bits is InvalidInput, and only that decision is undone."""
    row = started(backend)
    for spoilt in (task(reason="\ud800"), task(due_at=2**63)):
        with backend.writing() as tx:
            with pytest.raises(InvalidInput):
                tx.decisions.apply(Decision(workflow=row, inserted=(spoilt,)))
            tx.inbox.post([event()])
        with backend.reading() as view:
            assert view.executions.workflow("w") == row
            assert len(view.inbox.events("w")) == 1


def test_opening_a_store_that_is_being_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds an unfinished first migration for too long, opening gives up with StorageBusy."""
    monkeypatch.setattr(opening, "_MAKING_MS", 10)
    path = tmp_path / "store.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageBusy, match=r"store\.db"):
        SQLiteBackend(path, busy_timeout_ms=10)
    other.execute("ROLLBACK")
    other.close()
    SQLiteBackend(path).close()


def test_close_inside_a_transaction(backend: SQLiteBackend) -> None:
    """Closing inside a block of the same thread is refused instead of waiting for oneself."""
    with backend.writing(), pytest.raises(InvariantBroken):
        backend.close()


def _use_in_child(backend: SQLiteBackend, answer: multiprocessing.SimpleQueue[str]) -> None:
    for use in (backend.reading, backend.writing):
        try:
            with use():
                answer.put("worked")
        except EngineClosed as error:
            answer.put(str(error))
    backend.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_is_refused(backend: SQLiteBackend) -> None:
    """A child forked after opening gets EngineClosed saying so, and its close() leaves the parent's store alone."""
    started(backend)
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_use_in_child, args=(backend, answer))
    child.start()
    child.join()
    assert all("forked" in answer.get() for _ in range(2))
    with backend.writing() as tx:
        assert tx.executions.workflow("w") is not None


def test_mark_of_the_application(backend: SQLiteBackend) -> None:
    """The file says whose it is and which schema it has, also to tools that read only its header."""
    backend.checkpoint()
    header = Path(backend.path).read_bytes()[:100]
    assert int.from_bytes(header[68:72]) == APPLICATION_ID
    assert int.from_bytes(header[60:64]) == VERSION
