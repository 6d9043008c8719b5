"""Every column of every table of a store is altered in turn, each row is lost or doubled: a check finds it, or it is listed here.

Listed are columns of which every value is possible, because nothing else is stored by which it could be compared, with what such a
value does. A column that is not listed is compared: each alteration of it that is tried must be found.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from damaged_store import ENDS_AT, Alteration, alterations, altered, built, found

from conductorlite import Engine, VirtualClock
from conductorlite.errors import StorageCorrupt
from conductorlite.store.sqlite.backend import SQLiteBackend

#: What may be done to rows without a trace: the rows of whole tables, where one more or less is possible.
LEGAL_ROWS: Final = {
    "_sqlite_migrations": "people read which steps ran; what the file needs is in its user_version",
    "archive": "an archived execution may have been removed; a copy under another id is found",
    "counters": "`removed` is not there before something was removed; an unknown counter is read by nobody",
    "definitions": "one that no execution is of any more, as that of one that has moved; one that is needed is found",
    "driven": "a stretch in which nobody drove: default timeouts count less time",
    "event_executions": "records are removed by their age, and one that is lost makes its action happen once more",
    "event_handlers": "a handler may be unregistered; one that is stored twice is found",
    "feeds": "an index without a feed is built again",
    "inbox": "what others have sent may come at any time, and void events are dropped; own timers are found",
    "indexed": "an execution that is not noted as indexed is indexed again",
    "latest_values": "a value may not have been set, or by another task too; one of an execution that is not stored is found",
    "polls": "the last poll of workers, which people read",
    "schema_defs": "a schema may be unregistered",
    "search_tasks_texts": "the index is compared as a set; what is missing is found",
    "search_tasks_values": "the index is compared as a set; what is missing is found",
    "search_workflows_texts": "the index is compared as a set; what is missing is found",
    "search_workflows_values": "the index is compared as a set; what is missing is found",
    "schedules": "a schedule may be removed",
    "task_defs": "a definition may be dropped",
    "task_logs": "lines that people read",
    "workflow_defs": "a definition may be dropped; executions have their own copy",
}

#: Columns of which other values are possible, and what these do.
LEGAL: Final = {
    "_sqlite_migrations.applied_at": "people read it",
    "_sqlite_migrations.id": "people read it",
    "_sqlite_migrations.migration_set": "people read it",
    "_sqlite_migrations.name": "people read it",
    "archive.archived_at": "people read it; an instant before the end is found",
    "archive.size": "people read it",
    "counters.name": "a counter that is missing, see its row; `registry` is found",
    "counters.value": "compared with what it was: what is registered is read once more",
    "driven.owner": "whose driver it was, see its row",
    "driven.since": "how long somebody drove, within the instants that there are",
    "driven.until": "how long somebody drove, within the instants that there are",
    "event_executions.action": "people read it",
    "event_executions.created": "people read it, within the instants that there are",
    "event_executions.event": "another record, see its row",
    "event_executions.message_id": "another record, see its row",
    "event_executions.name": "another record, see its row",
    "event_executions.number": "another record, see its row",
    "event_executions.output": "people read it; what is no JSON is found",
    "event_executions.status": "one of those that there are",
    "event_handlers.text": "what was registered: another valid handler under that name",
    "feeds.complete": "the index is completed again",
    "feeds.n": "an index without a feed is built again",
    "feeds.position": "counts batches, for external indexes",
    "feeds.reader": "an index of another form is built again",
    "inbox.attempt": "of what others have sent: an event about another attempt is void",
    "inbox.data": "of what others have sent: recorded nowhere else before its turn",
    "inbox.due_at": "of what others have sent: when it is taken",
    "inbox.event_id": "of what others have sent: a name",
    "inbox.generation": "of what others have sent: an event about another generation is void",
    "inbox.held": "of the rest of a turn that was paused: it is done once the execution goes on",
    "inbox.kind": "of what others have sent: another event",
    "inbox.posted_at": "the order of events that are due together",
    "inbox.ref": "of what others have sent: an event about no task is void",
    "inbox.sender": "of what others have sent: the order of events that are due together",
    "inbox.sender_seq": "the order of events that are due together",
    "inbox.workflow_id": "of a start that was not made yet: it is made under that id",
    "indexed.feed": "an index that is not known, see its row",
    "indexed.fence": "an execution that is indexed once more",
    "indexed.live": "of an execution that has changed since: it is indexed once more",
    "indexed.place": "an execution that is not known, see its row",
    "limit_members.asked_at": "its place in the line",
    "limit_members.concurrent": "what its definition allowed when it asked, which may be another by now",
    "limit_members.generation": "a lower one: of an execution that was run again",
    "limit_members.number": "an admission that the limit has counted; only compared with events on their way",
    "limit_members.rate": "what its definition allowed when it asked, which may be another by now",
    "limit_members.seq": "its place in the line",
    "limit_members.window_ms": "what its definition allowed when it asked, which may be another by now",
    "limits.boot": "which clock was read: another one is not compared with",
    "limits.depth": "how much of the log is kept",
    "limits.fence": "compared with what was read",
    "limits.number": "how many were admitted, as long as no member is a later one",
    "limits.read_at": "when the clock was read, within the instants that there are",
    "limits.span_ms": "how much of the log is kept",
    "limits.steady": "what the clock read, see `boot`",
    "emissions.attempt": "of an attempt that was taken back",
    "emissions.ref": "the name that the attempt had then",
    "emitted.at": "people read it, within the instants that there are",
    "emitted.items": "as many other values",
    "emitted.stream": "another stream of the execution",
    "latest_values.at": "people read it, within the instants that there are",
    "latest_values.name": "what it was named",
    "latest_values.ref": "which task has set it",
    "latest_values.value": "what was said last",
    "mailbox.key": "what its sender named it; the journal has its value",
    "mailbox.received_at": "people read it",
    "mailbox.sent_at": "people read it",
    "mailbox.topic": "what its sender named; the journal has its value",
    "polls.domain": "the last poll of other workers",
    "polls.polled_at": "people read it, and domains are chosen by it within ten seconds",
    "polls.task_type": "the last poll of other workers",
    "polls.worker_id": "people read it",
    "schedules.fence": "compared with what was read",
    "schedules.name": "another schedule; where its events are is compared",
    "schema_defs.text": "what was registered: another valid schema under that name",
    "task_defs.text": "what was registered: another valid definition under that name",
    "task_logs.at": "people read it, within the instants that there are",
    "task_logs.n": "the order of lines",
    "task_logs.task_id": "of the same execution: another of its tasks, or one that was dropped",
    "task_logs.text": "people read it",
    "tasks.due_at": "when it was offered: compared as long as it is",
    "tasks.fence": "at which turn it changed: an index looks at more of it, or builds it again",
    "tasks.first_scheduled_at": "of an execution that was run again",
    "tasks.input": "of an operator that ended as it began: its line in the journal has its output",
    "tasks.lease": "a number that the execution has given out: a report under another one is refused, and the lease lapses",
    "tasks.output": "of an open operator: what a JOIN or a loop has gathered, which it gathers again when it ends",
    "tasks.poll_count": "people read it",
    "tasks.reason": "of an open attempt: what a worker said last",
    "tasks.rest": "see its fields",
    "tasks.rest.callback_after_ms": "people read it; when it is offered is compared",
    "tasks.rest.compensation_next": "of a task that was compensated: the order of all is compared",
    "tasks.rest.deaths": "how often its process died",
    "tasks.rest.domain": "of a task that is not offered any more",
    "tasks.rest.error_types": "people read it",
    "tasks.rest.first_attempt": "at which attempt its budget began",
    "tasks.rest.generation": "of an attempt whose id is of an earlier generation",
    "tasks.rest.start_delay_ms": "people read it; when it is offered is compared",
    "tasks.rest.succeeded_before": "whether what follows from it was done by an earlier attempt",
    "tasks.rest.traceback": "people read it",
    "tasks.rest.wait_until": "of a WAIT that has ended",
    "tasks.rest.waiting": "of a JOIN that has ended",
    "tasks.seq": "a place that no other attempt has: lists show attempts that were scheduled at one instant in this order",
    "tasks.started_at": "of what ended as it began, or waits for its retry",
    "tasks.worker_id": "people read it",
    "workflow_defs.text": "what was registered: another valid definition under that name",
    "workflows.alarm_at": "up to a quarter of a second before the first timer",
    "workflows.broken_turns": "how many turns broke a law, up to three",
    "workflows.correlation_id": "what the caller said",
    "workflows.created_at": "of an execution that is not compared with a limit: before its journal begins",
    "workflows.fence": "a higher one: compared with what was read",
    "workflows.input": "of an execution that was run again, or moved: the journal has the first one",
    "workflows.journal": "a cause, or a name in a text: the journal is what others are compared with",
    "workflows.last_ref": "of an execution whose last task was dropped",
    "workflows.owner": "of an execution that nothing is to happen to: another engine",
    "workflows.parked": "why it is parked, which people read",
    "workflows.rest": "see its fields",
    "workflows.rest.created_by": "people read it",
    "workflows.rest.decider_version": "there is one",
    "workflows.rest.depth": "of an execution whose parent is not stored",
    "workflows.rest.event": "people read it",
    "workflows.rest.failed_refs": "people read it",
    "workflows.rest.failed_task_names": "people read it",
    "workflows.rest.failed_task_id": "of an execution that was run again",
    "workflows.rest.generation": "a higher one: the next verb counts on from there",
    "workflows.rest.idempotency_key": "lost: the key is found",
    "workflows.rest.last_retried_at": "people read it",
    "workflows.rest.parent_task_id": "people read it; the parent's reference is compared",
    "workflows.rest.parent_attempt": "of a child whose parent has gone on",
    "workflows.rest.parent_generation": "of a child whose parent has gone on",
    "workflows.rest.permitted_failures": "counts failures of optional tasks",
    "workflows.rest.rate_limited": "compared with its place in the line",
    "workflows.rest.semantics": "another way of deciding that a definition may ask for",
    "workflows.rest.timeout_at": "of an execution that has ended",
    "workflows.rest.trace_context": "people read it",
    "workflows.sequence": "a higher one: numbers of leases and events are left out",
    "workflows.started_at": "of an execution that was run again",
    "workflows.task_seq": "a higher one: places in the order are left out",
    "workflows.task_to_domain": "what the caller said",
    "workflows.timers": "the order of timers that are due together, since when one counts; what it is about and when is compared",
    "workflows.updated_at": "a later one: when its last turn was",
    "workflows.variables": "of an execution in which a verb has set some, or a round was dropped",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in every table."""
    path = tmp_path_factory.mktemp("damage") / "store.db"
    built(path)
    return path


def unseen(store: Path, chosen: list[Alteration], folder: Path) -> Iterator[str]:
    """Those alterations that nothing finds, and that are not listed."""
    data = store.read_bytes()
    for one in chosen:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "store.db"
        path.write_bytes(data)
        if altered(path, one) and not found(path) and not is_listed(one):
            yield str(one)


def is_listed(one: Alteration) -> bool:
    """Whether the column of an alteration, or the table of a lost or doubled row, is listed."""
    return f"{one.table}.{one.column}" in LEGAL if one.column else one.table in LEGAL_ROWS


def by_column(store: Path) -> dict[tuple[str, str, str], list[Alteration]]:
    """All alterations by table, column and what is done."""
    grouped: dict[tuple[str, str, str], list[Alteration]] = {}
    for one in alterations(store):
        grouped.setdefault((one.table, one.column, one.what), []).append(one)
    return grouped


def test_the_store_is_sound_as_it_was_made(store: Path, tmp_path: Path) -> None:
    """Nothing is found before it is altered, and every table of the schema has a row."""
    shutil.copy(store, tmp_path / "store.db")
    assert found(tmp_path / "store.db") == []


def test_each_column_is_compared_or_listed(store: Path, tmp_path: Path) -> None:
    """Of a part of the columns, drawn anew with each store that is made: one alteration of one row each."""
    rng = random.Random(store.stat().st_size)
    groups = by_column(store)
    keys = [key for key in sorted(groups) if not is_listed(groups[key][0])]
    chosen = [rng.choice(groups[key]) for key in keys[:: max(1, len(keys) // 60)]]
    assert list(unseen(store, chosen, tmp_path / "altered")) == []


@pytest.mark.parametrize("part", [pytest.param(part, marks=pytest.mark.deep if part else pytest.mark.slow) for part in range(4)])
def test_each_alteration_of_each_column(store: Path, tmp_path: Path, part: int) -> None:
    """Every alteration of every column, of one row each."""
    rng = random.Random(part)
    chosen = [rng.choice(rows) for _, rows in sorted(by_column(store).items())]
    assert list(unseen(store, chosen[part::4], tmp_path / "altered")) == []


@pytest.mark.deep
@pytest.mark.parametrize("part", range(16))
def test_each_alteration_of_each_row(store: Path, tmp_path: Path, part: int) -> None:
    """Every alteration of every column of up to twelve rows."""
    rng = random.Random(part)
    chosen = [one for _, rows in sorted(by_column(store).items()) for one in rng.sample(rows, min(12, len(rows)))]
    assert list(unseen(store, chosen[part::16], tmp_path / "altered")) == []


def test_each_listed_column_is_there(store: Path) -> None:
    """No column is listed that is not one any more."""
    columns = {f"{one.table}.{one.column}" for one in alterations(store)}
    tables = {one.table for one in alterations(store)}
    assert {name for name in LEGAL if "rest." not in name} <= columns
    assert set(LEGAL_ROWS) <= tables


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("UPDATE workflows SET alarm_at = NULL", "alarm"),
        ("UPDATE workflows SET alarm_at = alarm_at + 4503599627370496", "alarm"),
        ("UPDATE tasks SET live = 1 - live", "marked as live"),
        ("UPDATE workflows SET head = head + 1", "head"),
        ("DELETE FROM counters WHERE name = 'registry'", "registry"),
        ("UPDATE workflows SET timers = NULL WHERE timers = '+'", "timers in their row alone"),
    ],
)
def test_what_follows_from_the_rows_is_repaired(store: Path, tmp_path: Path, damage: str, text: str) -> None:
    """Columns that are worked out from others are worked out again, and the engine goes on as if nothing had been."""
    path = tmp_path / "store.db"
    shutil.copy(store, path)
    assert altered(path, Alteration(table="", column="", what="", key=(), sql=damage, values=()))
    with Engine(SQLiteBackend(path), clock=VirtualClock(ENDS_AT)) as engine:
        assert any(text in finding.text for finding in engine.admin.check())
        report = engine.admin.repair()
        assert any(text in finding.text for finding in report.done)
        assert report.left == ()
        assert engine.admin.check() == []
        before = engine.admin.agenda(1)
        engine.advance("3h")
        assert engine.admin.agenda(1) != before


@pytest.mark.parametrize("later", [3_600_000, 1 << 52])
def test_time_does_not_stand_still_for_a_lost_alarm(store: Path, tmp_path: Path, later: int) -> None:
    """An alarm that is later than the timers is damage to whoever drives, not a wait without an end; repaired, time goes on."""
    path = tmp_path / "store.db"
    shutil.copy(store, path)
    sql = f"UPDATE workflows SET alarm_at = alarm_at + {later}"
    assert altered(path, Alteration(table="", column="", what="", key=(), sql=sql, values=()))
    with Engine(SQLiteBackend(path), clock=VirtualClock(ENDS_AT)) as engine:
        with pytest.raises(StorageCorrupt, match="alarm"):
            engine.advance("6h")
        assert engine.admin.repair().left == ()
        engine.advance("6h")
