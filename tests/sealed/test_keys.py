"""Keys that are changed: a store sealed again, in parts, by who dies in between; and deaths at every write."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sealing_kit import CANARY, Codec, plain_in
from test_no_byte_plain import FLOW, LARGE, engine_in, everything, holding, workers

from conductorlite import Engine, EngineConfig, TaskStatus, VirtualClock, WorkflowStatus
from conductorlite.errors import InvalidInput, PayloadUnavailable
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import Crash, FaultyBackend, lay_empty_store


def shown(engine: Engine) -> dict[str, Any]:
    """What can be read of every execution."""
    ids = sorted([*engine.admin.workflow_ids(), *engine.admin.archived_ids()])
    found = {one: repr([(t.ref, t.input_data, t.output_data, t.reason, t.grafts) for t in engine.get(one).tasks]) for one in ids}
    rows = {one: engine.get(one) for one in ids}
    lines = {one: [(line.payload and line.payload.whole(), line.reason, line.cause) for line in engine.history(one)] for one in ids}
    given = {one: (row.input_data, row.output_data, row.variables.value, row.reason) for one, row in rows.items()}
    return {"tasks": found, "rows": given, "lines": lines, "schedule": repr(engine.schedules.get("s"))}


def key_ids(folder: Path) -> set[str]:
    """The keys by which anything in the file is sealed, but for the records of keys."""
    found = set()
    with closing(sqlite3.connect(folder / "e.db")) as connection:
        connection.execute("DELETE FROM definitions WHERE digest LIKE 'sealing/%'")
        dump = "\n".join(connection.iterdump())
        cells = connection.execute("SELECT lines FROM history UNION ALL SELECT journal FROM workflows").fetchall()
    for (blob,) in cells:
        if isinstance(blob, bytes):
            unpacking = zlib.decompressobj()
            dump += (unpacking.decompress(blob) + unpacking.unused_data).decode()
    for part in dump.split("sealed:")[1:]:
        found.add(part.partition(":")[0])
    return found


class _Died(Exception):
    """The process has ended."""


def sealed_again(folder: Path, codec: Codec, limit: int = 7) -> tuple[str, ...]:
    """Seal a store again, dying after each part that has changed something."""
    seen = [0]

    def die(done: int) -> None:
        seen.append(done)
        raise _Died

    for _ in range(1_000):
        with engine_in(folder, codec) as engine:
            try:
                keys = engine.admin.reseal(limit, die)
            except _Died:
                continue
        assert len(seen) > 10
        return keys
    raise AssertionError("it never ends")


@pytest.mark.slow
def test_a_plain_store_is_sealed_and_its_key_changed(tmp_path: Path) -> None:
    """Resumed after each part; afterwards no byte is plain, and the old key is needed no more."""
    with engine_in(tmp_path, None) as engine:
        everything(engine)
        before = shown(engine)
    assert holding(tmp_path)
    assert sealed_again(tmp_path, Codec("a")) == ()
    with engine_in(tmp_path, Codec("a")) as engine:
        engine.payloads.sweep("0s")
        engine.admin.compact()
        assert (shown(engine), engine.admin.check()) == (before, [])
    assert (list(plain_in(tmp_path)), holding(tmp_path), key_ids(tmp_path)) == ([], set(), {"a"})
    with pytest.raises(PayloadUnavailable, match="'a'"):
        engine_in(tmp_path, Codec("b"))
    assert sealed_again(tmp_path, Codec("a", "b")) == ("a",)
    assert key_ids(tmp_path) == {"b"}
    with engine_in(tmp_path, Codec("b")) as engine:
        assert (shown(engine), engine.admin.check()) == (before, [])
        assert engine.admin.reseal(100) == ()
        engine.advance("1d")
        assert engine.status("paused") is WorkflowStatus.RUNNING
    with pytest.raises(PayloadUnavailable, match="'b'"):
        engine_in(tmp_path, Codec("a"))
    with engine_in(tmp_path, Codec("b", "a")) as engine:  # a key may come back
        assert engine.admin.reseal() == ("b",)
    assert key_ids(tmp_path) == {"a"}


def test_sealing_again_is_refused_where_it_cannot_be_done() -> None:
    """Without a codec, in memory, with no rows at once."""
    with Engine() as engine, pytest.raises(InvalidInput, match="there is no payload codec"):
        engine.admin.reseal()
    with Engine(config=EngineConfig(payload_codec=Codec("k"))) as engine:
        with pytest.raises(InvalidInput, match="SQLite and in PostgreSQL"):
            engine.admin.reseal()
        with pytest.raises(InvalidInput, match="limit 0 is below 1"):
            engine.admin.reseal(0)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first", range(1, 8))
def test_death_at_every_write(tmp_path: Path, first: int, after: bool) -> None:
    """The next process goes on where the last one died, and nothing stands plain."""
    died, number, clock = True, first, VirtualClock(0)
    while died:
        path = lay_empty_store(tmp_path / f"{number}.db")
        faulty = FaultyBackend(SQLiteBackend(path, synchronous="NORMAL"))
        faulty.die_at(number, after=after)
        died = False
        for store in (faulty, str(path)):
            try:
                with Engine(store, workers=workers(), clock=clock, config=EngineConfig(payload_codec=Codec("k"))) as engine:
                    if "w" not in engine.admin.workflow_ids():
                        engine.start(FLOW, {"small": CANARY, "large": LARGE}, workflow_id="w")
                    engine.advance("1s")
                    engine.send("w", "news", CANARY, key="k")
                    if engine.get("w").task("wait").status is TaskStatus.IN_PROGRESS:
                        engine.signal("w", {"said": CANARY}, task="wait")
                    engine.advance("1m")
                    assert engine.get("w").task("made").output_data == {"z": CANARY * 2}
                    assert engine.admin.check() == []
            except Crash:
                died = True
        assert list(plain_in(tmp_path)) == []
        number += 7
    assert number > 7
