"""Writes the golden database of the present schema: `python tests/golden/golden_dump.py`.

A golden database is a store full of executions in the middle of their lives (`golden_lives.py`), as a dump in SQL, named after its
schema. It is written anew as long as its schema is not released, and never again afterwards: it then stands for the files that
users have. `python tests/golden/golden_dump.py FILE.sql` writes it elsewhere.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from golden_lives import STARTS_AT, begin

from conductorlite import Engine, VirtualClock
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.schema import APPLICATION_ID, VERSION

__all__ = ["FOLDER", "ddl", "dumped", "golden", "loaded", "main"]

FOLDER: Final = Path(__file__).parent


def golden(schema: int) -> Path:
    """Where the golden database of a schema lies."""
    return FOLDER / f"schema_{schema}.sql"


def dumped(path: Path) -> str:
    """A store that is closed, in SQL, with its mark and the number of its schema."""
    with closing(sqlite3.connect(path)) as connection:
        marks = [
            f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};" for name in ("application_id", "user_version")
        ]
        return "\n".join([*marks, *connection.iterdump()]) + "\n"


def loaded(text: str, path: Path) -> None:
    """A store as the dump has it, as one that was closed properly."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)
        connection.execute("PRAGMA journal_mode = WAL")


def ddl(path: Path) -> list[str]:
    """The schema of a file, in the order of names."""
    with closing(sqlite3.connect(path)) as connection:
        return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")]


def main(argv: Sequence[str]) -> int:
    """Make a store, fill it, write it down."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.db"
        with Engine(SQLiteBackend(path), clock=VirtualClock(STARTS_AT)) as engine:
            begin(engine, VERSION)
            findings = engine.admin.check()
        if findings:
            print("\n".join(map(str, findings)), file=sys.stderr)
            return 1
        target = Path(argv[0]) if argv else golden(VERSION)
        target.write_text(dumped(path), encoding="utf-8")
    print(f"{target.name}: schema {VERSION} of application {APPLICATION_ID:#x}, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
