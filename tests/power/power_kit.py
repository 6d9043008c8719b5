"""A run on a file, what it had stored after each commit, and what a file that was cut off holds when it is opened again."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs
from golden_lives import STARTS_AT, begin, finish

from conductorlite import Engine, VirtualClock
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.schema import VERSION
from conductorlite.testing import FaultyBackend

__all__ = ["NAME", "Run", "Story", "content", "long_run", "reopened", "short_run"]

#: The name of every database file here.
NAME: Final = "store.db"

#: What is done on an engine.
Story = Callable[[Engine], object]


def long_run(engine: Engine) -> None:
    """Executions of every kind, begun and brought to their ends."""
    begin(engine, VERSION)
    finish(engine)


def short_run(engine: Engine) -> None:
    """The first commits of that."""
    begin(engine, 1)


def content(connection: sqlite3.Connection) -> str:
    """A digest of every row of every table."""
    digest = hashlib.sha256()
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    for (name,) in names:
        for row in sorted(map(repr, connection.execute(f"SELECT * FROM {name}"))):
            digest.update(f"{name} {row}\n".encode())
    return digest.hexdigest()


@attrs.define
class Run:
    """One run: the content after each commit, from 0, the store that has just been made."""

    contents: list[str] = attrs.field(factory=list)
    seen: dict[str, list[int]] = attrs.field(factory=dict)

    def told(self, connection: sqlite3.Connection) -> int:
        """Note the content after a commit that the engine has been told of, and return its number."""
        number = len(self.contents)
        self.contents.append(content(connection))
        self.seen.setdefault(self.contents[-1], []).append(number)
        return number

    def live(
        self,
        folder: Path,
        story: Story,
        synchronous: Literal["FULL", "NORMAL"],
        on_commit: Callable[[int], object],
        checkpoint_every: int | None = None,
    ) -> None:
        """Carry the story out, calling `on_commit` with the number of each commit; a checkpoint after so many pages of log."""
        inner = SQLiteBackend(folder / NAME, synchronous=synchronous)
        if checkpoint_every is not None:
            inner._writer.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_every}")
        on_commit(self.told(inner._writer))
        backend = FaultyBackend(inner, on_commit=lambda _: on_commit(self.told(inner._writer)))
        with Engine(backend, clock=VirtualClock(STARTS_AT)) as engine:
            story(engine)

    def place(self, found: str, least: int, most: int) -> int | None:
        """The latest commit between two whose content this is."""
        return max((number for number in self.seen.get(found, ()) if least <= number <= most), default=None)


def reopened(folder: Path, files: Mapping[str, bytes], *, check: bool) -> tuple[str, list[Any]]:
    """The content of a store that was cut off, as the engine opens it, and with `check` which laws do not hold."""
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    backend = SQLiteBackend(folder / NAME, synchronous="NORMAL")
    backend._writer.execute("PRAGMA synchronous = OFF")  # what happens to this copy later is of no interest
    try:
        found = content(backend._writer)
        if not check:
            return found, []
        whole = backend._writer.execute("PRAGMA integrity_check").fetchone()
        assert whole == ("ok",), whole
        engine = Engine(FaultyBackend(backend, keep_open=True), clock=VirtualClock(STARTS_AT))
        return found, list(engine.admin.check())
    finally:
        backend.close()
