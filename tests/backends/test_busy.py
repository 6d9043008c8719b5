"""Who holds a file that is busy: another process is named when it is one."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from conductorlite.errors import StorageBusy
from conductorlite.store.sqlite.backend import SQLiteBackend

#: Holds the store until its input ends.
HOLDS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""

WHERE_LISTED = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not tell who has locked a file")


def refused(backend: SQLiteBackend) -> str:
    """What a write is refused with."""
    with pytest.raises(StorageBusy) as raised, backend.writing():
        pass
    return str(raised.value)


@pytest.fixture
def backend(tmp_path: Path) -> SQLiteBackend:
    return SQLiteBackend(tmp_path / "s.db", busy_timeout_ms=1)


@WHERE_LISTED
def test_another_process_is_named(backend: SQLiteBackend) -> None:
    """By its number."""
    command = [sys.executable, "-c", HOLDS, backend.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        assert f": another process ({holder.pid}) holds the database" in refused(backend)
        holder.stdin.close()
    with backend.writing():
        pass
    backend.close()


@WHERE_LISTED
@pytest.mark.parametrize("ours", [True, False], ids=["an engine's", "the application's"])
def test_another_connection_of_this_process_is_named(backend: SQLiteBackend, *, ours: bool) -> None:
    """Nobody looks for another process then."""
    if ours:
        with closing(SQLiteBackend(backend.path, busy_timeout_ms=1)) as other, other.writing():
            text = refused(backend)
    else:
        with closing(sqlite3.connect(backend.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            text = refused(backend)
    assert ": another connection of this process holds the database" in text
    backend.close()


@WHERE_LISTED
def test_who_waits_for_another_file_hides_nobody(backend: SQLiteBackend, tmp_path: Path) -> None:
    """The system lists those who wait for locks of any file among those who hold them: per processor, the newest first."""
    import fcntl

    def wait() -> None:
        with (tmp_path / "other").open("w") as second:
            fcntl.flock(second, fcntl.LOCK_EX)

    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        with closing(sqlite3.connect(backend.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with (tmp_path / "other").open("w") as first:
                fcntl.flock(first, fcntl.LOCK_EX)
                waiting = threading.Thread(target=wait)
                waiting.start()
                while " -> " not in Path("/proc/locks").read_text(encoding="ascii"):
                    threading.Event().wait(0.001)
                assert ": another connection of this process holds the database" in refused(backend)
            waiting.join()
    finally:
        os.sched_setaffinity(0, processors)
    backend.close()


def test_another_thread_is_named(backend: SQLiteBackend) -> None:
    """One that writes through the same engine."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with backend.writing():
            held.set()
            over.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    try:
        assert ": another thread held the database" in refused(backend)
    finally:
        over.set()
        thread.join()
    backend.close()


def test_where_it_is_not_known_both_are_named(backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system without such a list."""

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError("/proc/locks")

    with closing(sqlite3.connect(backend.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(Path, "read_text", missing)
        text = refused(backend)
    assert ": another process, or another connection of this one, holds the database" in text
    backend.close()
