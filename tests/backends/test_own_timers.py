"""Timers that stand in the row of their execution: whatever becomes of them, they are read as if each stood in the inbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.errors import FencedOut, StorageCorrupt
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, ReadingTransaction, WritingTransaction
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.conformance.samples import dump, event, started, workflow

IDS = ("w0", "w1", "w2")
KINDS = (EventKind.POLL_TIMEOUT, EventKind.RESPONSE_TIMEOUT, EventKind.WAIT_ENDS, EventKind.CONTINUE)


def timer(workflow_id: str, kind: EventKind, ref: str | None, due: int, **changes: object) -> Event:
    """An event of an execution to itself, as the decider makes them."""
    named = kind.value if ref is None else f"{kind}:{ref}"
    return event(named, due, workflow_id, **{"kind": kind, "ref": ref, "sender": workflow_id, "stored": True, **changes})


@st.composite
def timers(draw: st.DrawFn, workflow_id: str) -> Event:
    """A timer, rarely one that the inbox keeps."""
    due = draw(st.integers(0, 3)) * draw(st.sampled_from([1, 100, 1_000])) + 5
    changes: dict[str, object] = {"sender_seq": draw(st.integers(0, 3)), "attempt": draw(st.integers(0, 1))}
    data = draw(st.sampled_from(["{}", "{}", f'{{"since":5,"span":{due - 5}}}', '{"x":"é"}', '"' + "x" * 300 + '"']))
    changes |= {"data": Payload(data), "posted_at": 5}
    if draw(st.integers(0, 9)) == 0:
        changes |= draw(st.sampled_from([{"held": True}, {"sender": "w9"}]))
    return timer(workflow_id, draw(st.sampled_from(KINDS)), draw(st.sampled_from(["a", "é", None, *"bcdefg"])), due, **changes)


CHANGES = st.one_of(
    *(st.tuples(st.just("turn"), st.just(one), st.lists(timers(one), max_size=4), st.integers(0, 3), st.booleans()) for one in IDS),
    st.tuples(st.sampled_from(["park", "release", "post", "remove"]), st.sampled_from(IDS)),
    st.tuples(st.just("own"), st.sampled_from(["", "a"]), st.sampled_from(["", "a"])),
    st.tuples(st.just("other process")),
)


def carry_out(tx: WritingTransaction, change: tuple) -> None:
    """One change of a store."""
    match change:
        case ("turn", str(one), list(put), int(few), bool(consumes)):
            row = tx.executions.workflow(one)
            there = [found.event_id for found in tx.inbox.events(one)]
            new = {found.event_id: found for found in put}
            gone = tuple(found for found in there[:few] if found not in new)
            parts = {"consumed": gone} if consumes else {"cancelled": (*gone, "POLL_TIMEOUT:nowhere")}
            unknown = row is None
            tx.decisions.apply(
                Decision(workflow=workflow(one) if row is None else row, created=unknown, timers=tuple(new.values()), **parts)
            )
        case ("park", one):
            tx.executions.park(one, 3, "why")
        case ("release", one):
            tx.executions.release(one, 7)
        case ("post", one):
            tx.inbox.post([event("CHILD_ENDED:x", 4, one, sender="w7", kind=EventKind.CHILD_ENDED)])
        case ("remove", one):
            tx.executions.remove(one)
        case ("own", old, new):
            tx.owners.change_owner(old, new, "", 9)
            tx.owners.change_owner_of_the_rest(old, new)


def told(view: ReadingTransaction) -> Iterator[object]:
    """All that is asked about events."""
    for one in IDS:
        yield from (
            view.inbox.events(one),
            *(view.inbox.due_events(one, now, limit) for now in (5, 105, 9_999) for limit in (1, 3, 99)),
        )
    for owner in ("", "a"):
        yield from (view.inbox.next_event(owner), view.inbox.next_event_at(owner))
        yield from (view.inbox.due_workflows(now, limit, owner) for now in (0, 5, 105, 9_999) for limit in (1, 2, 9))
        yield from (view.inbox.upcoming_events(limit, owner) for limit in (1, 2, 99))
    yield from (view.inbox.next_event_at(), view.inbox.upcoming_events(3), view.owners.rows(), dump(view)["schedules"])
    yield {name: (size.rows if name == "events" else 0) for name, size in view.sizes().kinds.items()}


@given(st.lists(CHANGES, max_size=12))
def test_they_are_read_as_events_of_the_inbox(changes: list[tuple]) -> None:
    """After any turns, of two processes, the store in a file says what the one in memory says."""
    with TemporaryDirectory() as folder, closing(MemoryBackend()) as memory:
        path = Path(folder) / "store.db"
        with closing(SQLiteBackend(path)) as one, closing(SQLiteBackend(path)) as other:
            stores: list[Backend] = [one, other]
            for change in changes:
                if change[0] == "other process":
                    stores.reverse()
                    continue
                for store in (memory, stores[0]):
                    with store.writing() as tx:
                        carry_out(tx, change)
            with memory.reading() as expected, stores[0].reading() as found:
                assert list(told(found)) == list(told(expected))


def row_of(backend: SQLiteBackend) -> tuple[int | None, str | None]:
    """The alarm and the cell of `w`."""
    connection = backend._writer
    assert connection is not None
    row: tuple[int | None, str | None] = connection.execute("SELECT alarm_at, timers FROM workflows").fetchone()
    return row


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    """An empty store."""
    with closing(SQLiteBackend(tmp_path / "store.db", counting=True)) as backend:
        yield backend


def test_a_timer_for_another_takes_no_row(backend: SQLiteBackend) -> None:
    """A turn that takes timers away and sets others is one statement; its alarm is moved when it is late by too much."""
    row = started(backend, timers=(timer("w", EventKind.POLL_TIMEOUT, "a", 9_000),))
    counts = backend.counts
    assert counts is not None
    assert row_of(backend)[0] == 9_000
    for n, (due, alarm) in enumerate([(9_200, 9_000), (9_251, 9_251), (9_100, 9_100)]):
        counts.reset()
        with backend.writing() as tx:
            now = attrs.evolve(row, fence=row.fence + n)
            gone = ("POLL_TIMEOUT:a",) if n == 0 else ()
            tx.decisions.apply(Decision(workflow=now, cancelled=gone, timers=(timer("w", EventKind.RESPONSE_TIMEOUT, "a", due),)))
        assert counts.statements == 4
        assert row_of(backend)[0] == alarm
    with backend.reading() as view:
        assert [(found.event_id, found.due_at) for found in view.inbox.events("w")] == [("RESPONSE_TIMEOUT:a", 9_100)]


def test_an_alarm_that_is_early_wakes_nobody(backend: SQLiteBackend) -> None:
    """Nothing is due, and nothing comes next, before the timer itself."""
    row = started(backend, timers=(timer("w", EventKind.WAIT_ENDS, "a", 9_000),))
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=row, timers=(timer("w", EventKind.WAIT_ENDS, "a", 9_200),)))
    assert row_of(backend)[0] == 9_000
    with backend.reading() as view:
        assert (view.inbox.due_workflows(9_199, 1), view.inbox.due_events("w", 9_199, 1), view.inbox.next_event_at()) == (
            [],
            [],
            9_200,
        )
        assert view.inbox.due_workflows(9_200, 1) == ["w"]


def test_what_is_known_is_compared(backend: SQLiteBackend) -> None:
    """What was known of a turn that was undone is not written by the next one."""
    row = started(backend)
    block = backend.writing()
    block.__enter__().decisions.apply(Decision(workflow=row, timers=(timer("w", EventKind.WAIT_ENDS, "undone", 9_000),)))
    block.__exit__(KeyError, KeyError(), None)
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=row))
    with backend.writing() as tx:
        tx.decisions.apply(
            Decision(workflow=attrs.evolve(row, fence=row.fence + 1), timers=(timer("w", EventKind.WAIT_ENDS, "a", 9_000),))
        )
        with pytest.raises(FencedOut):
            tx.decisions.apply(Decision(workflow=row))
    with backend.reading() as view:
        assert [found.event_id for found in view.inbox.events("w")] == ["WAIT_ENDS:a"]


@pytest.mark.parametrize("cell", ["", "[", "{}", "[1]", '[["P",1,1,1,"a",0]]', '[["X",1,1,1,"a",0,0]]', '[["P","1",1,1,"a",0,0]]',
                                  '[["P",1,1,1,7,0,0]]', '[["P",1,1,1,"a",0,0,2]]'])  # fmt: skip
def test_a_damaged_cell_is_said_to_be_one(backend: SQLiteBackend, cell: str) -> None:
    """Not whatever trips over it."""
    started(backend, timers=(timer("w", EventKind.WAIT_ENDS, "a", 9_000),))
    assert backend._writer is not None
    backend._writer.execute("UPDATE workflows SET timers = ?", (cell,))
    with backend.reading() as view:
        with pytest.raises(StorageCorrupt):
            view.inbox.events("w")
        with pytest.raises(StorageCorrupt):
            view.inbox.next_event_at()
