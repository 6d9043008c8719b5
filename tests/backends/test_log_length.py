"""How long the log of a store in a file is: where commits are synced it grows by many of them at once, and loses nothing by it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from conductorlite.model.decisions import Event
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.disk import Log
from conductorlite.testing.conformance.samples import event

KB = 1024


def log_of(backend: SQLiteBackend) -> Path:
    """Its log."""
    return Path(f"{backend.path}-wal")


def posted(backend: SQLiteBackend, numbers: range) -> list[int]:
    """Post an event with each number, in a commit of its own; how long the log is after each."""
    sizes = []
    for number in numbers:
        with backend.writing() as tx:
            tx.inbox.post([event(f"e{number}", number, "w")])
        sizes.append(log_of(backend).stat().st_size)
    return sizes


def found(backend: SQLiteBackend) -> Sequence[Event]:
    """What is in the inbox."""
    with backend.reading() as view:
        return view.inbox.events("w")


def lengths(sizes: list[int]) -> int:
    """How often a commit has changed the length of the log."""
    return sum(before != after for before, after in pairwise(sizes))


@pytest.mark.parametrize(("mode", "most", "least"), [("FULL", 10, 2), ("NORMAL", 100, 90)])
def test_it_grows_by_many_commits_at_once(tmp_path: Path, mode: Literal["FULL", "NORMAL"], most: int, least: int) -> None:
    """Each sync of a file that has grown writes its length, too; where no commit is synced it grows by what there is."""
    with closing(SQLiteBackend(tmp_path / "s.db", synchronous=mode)) as backend:
        sizes = posted(backend, range(120))
        assert least <= lengths(sizes[20:]) <= most
        assert sizes[10] < 128 * KB  # who commits seldom needs no more than that
        assert len(found(backend)) == 120


def test_it_is_no_longer_than_sqlite_lets_it_be(tmp_path: Path) -> None:
    """When it is as long as it was ever going to be, it is left alone; cut by someone else, it is made longer again."""
    with closing(SQLiteBackend(tmp_path / "s.db")) as backend:
        sizes = posted(backend, range(900))
        assert 4 * KB * KB <= max(sizes) <= 4.5 * KB * KB
        assert lengths(sizes[600:]) <= 1
        with closing(sqlite3.connect(backend.path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        again = posted(backend, range(900, 1_300))
        assert min(again) < 64 * KB
        assert lengths(again[-100:]) <= 12
        assert len(found(backend)) == 1_300


def test_several_that_write_in_turn_make_it_no_longer_than_one(tmp_path: Path) -> None:
    """What one has made longer is not made longer by the next, and nobody's commit is written over."""
    with closing(SQLiteBackend(tmp_path / "s.db")) as one, closing(SQLiteBackend(tmp_path / "s.db")) as other:
        sizes = [size for number in range(120) for size in posted((one, other)[number % 2], range(number, number + 1))]
        assert lengths(sizes[20:]) <= 12
        assert max(sizes) < 2 * KB * KB
        assert [waits.event_id for waits in found(one)] == [f"e{number}" for number in range(120)]


def test_what_stands_behind_the_commits_is_not_read(tmp_path: Path) -> None:
    """Copied as a dead process leaves it, and cut anywhere behind the last commit, it gives back every commit."""
    with closing(SQLiteBackend(tmp_path / "s.db")) as backend:
        posted(backend, range(40))
        size = log_of(backend).stat().st_size
        assert size % (256 * KB) == 0
        text = log_of(backend).read_bytes()
        last = len(text.rstrip(b"\0"))
        assert size - last > 4 * KB
        for number, length in enumerate((size, last + 3 * KB, size - 1)):
            for suffix in ("", "-wal"):
                shutil.copyfile(backend.path + suffix, tmp_path / f"copy{number}.db{suffix}")
            with Path(tmp_path / f"copy{number}.db-wal").open("rb+") as log:
                log.truncate(length)
            with closing(SQLiteBackend(tmp_path / f"copy{number}.db")) as copy:
                assert len(found(copy)) == 40
                assert copy.faults() == ()
                posted(copy, range(40, 80))
                assert len(found(copy)) == 80


def test_where_room_is_scarce_it_grows_by_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of a disk is for what is to be stored; and a log that cannot be opened is SQLite's to complain of."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=32 * KB * KB))
    with closing(SQLiteBackend(tmp_path / "s.db")) as backend:
        assert lengths(posted(backend, range(60))) >= 50
    Log(str(tmp_path / "none.db"), "FULL").grow(1)
    assert not (tmp_path / "none.db-wal").exists()
