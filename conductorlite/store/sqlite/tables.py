"""What stands in a SQLite store beside the executions: the archive, documents of the payload storage, schedules, schemas, handlers.

Schedules are rows under a fence, with events in their inboxes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import FencedOut, InvalidInput, InvariantBroken
from conductorlite.model.handlers import EventExecution, EventStatus
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.feed import FeedWrites
from conductorlite.store.sqlite.rows import BaseReads, Row, inbox_row
from conductorlite.store.sqlite.statements import REGISTRY_CHANGED
from conductorlite.store.tables import Archived, EventPlace, OrphanPayload, ScheduleRow

__all__ = ["REMOVE_EXTERNALS", "TableReads", "TableWrites"]

ARCHIVED: Final = "SELECT workflow_id, name, status, ended_at, archived_at, size, document FROM archive WHERE workflow_id = ?"
ARCHIVED_IDS: Final = "SELECT workflow_id FROM archive WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"
# Not OR REPLACE, which deletes without a trigger.
_ARCHIVE: Final = (
    "INSERT INTO archive (workflow_id, name, status, ended_at, archived_at, size, document) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_DROP: Final = "DELETE FROM archive WHERE workflow_id = ?"


_INSERT: Final = "INSERT INTO external_payloads (workflow_id, digest, size, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ALL_OF: Final = "SELECT digest, size, key FROM external_payloads WHERE workflow_id = ? ORDER BY digest"
_OF: Final = (
    "SELECT e.digest, e.size, e.key FROM json_each(?) AS wanted CROSS JOIN external_payloads AS e"
    " WHERE e.workflow_id = ? AND e.digest = wanted.value"
)
_USED: Final = "SELECT 1 FROM external_payloads WHERE key = ? LIMIT 1"
_KNOWN: Final = (
    "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM external_payloads WHERE key = value)"
    " OR EXISTS (SELECT 1 FROM loose_payloads WHERE key = value)"
)
#: Walks what is loose, which is little: what uploads under way, crashes and removals have left since the last sweep.
_LOOSE: Final = (
    "SELECT key, workflow_id, at FROM loose_payloads WHERE (key, workflow_id) > (?, ?) AND at <= ?"
    " ORDER BY key, workflow_id LIMIT ?"
)
_LOOSENED_AT: Final = "SELECT max(at) FROM loose_payloads WHERE key = ?"
_LOOSEN: Final = "INSERT OR REPLACE INTO loose_payloads (key, workflow_id, at) VALUES (?, ?, ?)"
_TIGHTEN: Final = "DELETE FROM loose_payloads WHERE key = ? AND at <= ?"
_TIGHTEN_FOR: Final = "DELETE FROM loose_payloads WHERE key = ? AND workflow_id = ?"

#: What an execution leaves in the storage when it is removed is loose, unless it is being put there again.
REMOVE_EXTERNALS: Final = (
    "INSERT INTO loose_payloads (key, workflow_id, at) SELECT DISTINCT key, workflow_id, 0 FROM external_payloads"
    " WHERE workflow_id = ? ON CONFLICT DO NOTHING",
    "DELETE FROM external_payloads WHERE workflow_id = ?",
)


def _schedule_of(row: Row) -> ScheduleRow:
    name, address, text, progress, waits, fence, owner = row
    return ScheduleRow(name=name, address=address, text=text, progress=progress, waits=waits == 1, fence=fence, owner=owner)


_PUT: Final = "INSERT OR REPLACE INTO schema_defs (name, version, text) VALUES (?, ?, ?)"
_ONE: Final = "SELECT text FROM schema_defs WHERE name = ? AND version = ?"
_NEWEST: Final = "SELECT text FROM schema_defs WHERE name = ? ORDER BY version DESC LIMIT 1"
_ALL: Final = "SELECT name, version FROM schema_defs ORDER BY name, version"


#: Later than every record.
_END: Final[EventPlace] = (2**63 - 1, "", "", "", 0)


def _execution_of(row: tuple[Any, ...]) -> EventExecution:
    name, event, message_id, number, created, status, action, output = row
    return EventExecution(
        name=name,
        event=event,
        message_id=message_id,
        number=number,
        created=created,
        status=EventStatus(status),
        action=action,
        output=Payload(output),
    )


class TableReads(BaseReads):
    """What stands beside the executions, read."""

    # -- the archive ---------------------------------------------------------------------------------------------------

    def archived(self, workflow_id: str) -> Archived | None:
        row = self._connection.execute(ARCHIVED, (workflow_id,)).fetchone()
        if row is None:
            return None
        return Archived(
            workflow_id=row[0], name=row[1], status=row[2], ended_at=row[3], archived_at=row[4], size=row[5], document=row[6]
        )

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        return [workflow_id for (workflow_id,) in self._connection.execute(ARCHIVED_IDS, (after, limit))]

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        if digests is None:
            rows = self._connection.execute(_ALL_OF, (workflow_id,))
        else:
            rows = self._connection.execute(_OF, (json.dumps(sorted(digests)), workflow_id))
        return {digest: ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in rows}

    def external_used(self, key: str) -> bool:
        return self._connection.execute(_USED, (key,)).fetchone() is not None

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for (key,) in self._connection.execute(_KNOWN, (json.dumps(list(keys)),)))

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[OrphanPayload]:
        """A page of what was noted as loose at `until` or before, ascending, greater than `after`."""
        rows = self._connection.execute(_LOOSE, (*after, until, limit))
        return [OrphanPayload(key=key, workflow_id=workflow_id, at=at) for key, workflow_id, at in rows]

    def loosened_at(self, key: str) -> int | None:
        at: int | None = self._connection.execute(_LOOSENED_AT, (key,)).fetchone()[0]
        return at

    # -- schedules -----------------------------------------------------------------------------------------------------

    def schedule(self, name: str) -> ScheduleRow | None:
        row = self._connection.execute(sql.SCHEDULE, (name,)).fetchone()
        return None if row is None else _schedule_of(row)

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        return [_schedule_of(row) for row in self._connection.execute(sql.SCHEDULES, (after, limit))]

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        found: tuple[int, str] | None = self._connection.execute(sql.NEXT_EVENT, (owner,)).fetchone()
        return found

    # -- schemas -------------------------------------------------------------------------------------------------------

    def schema_def(self, name: str, version: int | None) -> str | None:
        found = self._execute(_NEWEST, (name,)) if version is None else self._execute(_ONE, (name, version))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        return [(name, version) for name, version in self._execute(_ALL)]

    # -- event handlers and their records ------------------------------------------------------------------------------

    def event_handler(self, name: str) -> str | None:
        row = self._execute(sql.EVENT_HANDLER, (name,)).fetchone()
        return None if row is None else str(row[0])

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        rows = self._execute(sql.EVENT_HANDLERS) if event is None else self._execute(sql.EVENT_HANDLERS_OF, (event,))
        return [text for text, active in rows if active or not active_only]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        row = self._execute(sql.EVENT_EXECUTION, (name, event, message_id, number)).fetchone()
        return None if row is None else _execution_of(row)

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first; of both a handler and a message, along the message's."""
        place = after or _END
        if message_id is not None:
            rows = self._execute(sql.EVENT_EXECUTIONS_OF_MESSAGE, (message_id, name, *place, limit))
        elif name is not None:
            rows = self._execute(sql.EVENT_EXECUTIONS_OF_HANDLER, (name, *place, limit))
        else:
            rows = self._execute(sql.EVENT_EXECUTIONS, (*place, limit))
        return [_execution_of(row) for row in rows]


class TableWrites(TableReads, FeedWrites):
    """What stands beside the executions, written."""

    # -- the archive ---------------------------------------------------------------------------------------------------

    def archive(self, archived: Archived) -> None:
        self.drop_archived(archived.workflow_id)
        self._connection.execute(
            _ARCHIVE,
            (
                archived.workflow_id,
                archived.name,
                archived.status,
                archived.ended_at,
                archived.archived_at,
                archived.size,
                archived.document,
            ),
        )

    def drop_archived(self, workflow_id: str) -> bool:
        self._dirty = True
        dropped = self._connection.execute(_DROP, (workflow_id,)).rowcount > 0
        self._unindex(workflow_id)
        return dropped

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def mark_orphan(self, loose: Sequence[OrphanPayload]) -> None:
        self._dirty = True
        self._connection.executemany(_LOOSEN, [(one.key, one.workflow_id, one.at) for one in loose])

    def unmark_orphan(self, key: str, until: int) -> None:
        self._dirty = True
        self._connection.execute(_TIGHTEN, (key, until))

    def _keep_externals(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        self._connection.executemany(_INSERT, [(workflow_id, one.digest, one.size, one.key) for one in externals])
        self._connection.executemany(_TIGHTEN_FOR, [(one.key, workflow_id) for one in externals])

    # -- schedules -----------------------------------------------------------------------------------------------------

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        cells: Row = (row.text, row.progress, row.waits, row.owner, row.name, row.address)
        statement = sql.UPDATE_SCHEDULE if row.fence else sql.INSERT_SCHEDULE
        if self._connection.execute(statement, (*cells, row.fence) if row.fence else cells).rowcount == 0:
            raise FencedOut(f"schedule {row.name!r}: another process changed it after fence {row.fence} was read")
        self._many(sql.DELETE_EVENT, [(row.address, event_id) for event_id in consumed])
        self._many(sql.PUT_INBOX_EVENT, map(inbox_row, events))

    def drop_schedule(self, name: str) -> None:
        gone = self._connection.execute(sql.DELETE_SCHEDULE, (name,)).fetchall()
        self._many(sql.EMPTY_INBOX, gone)

    # -- schemas -------------------------------------------------------------------------------------------------------

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        self._many(_PUT, [(name, version, text)])
        self._execute(REGISTRY_CHANGED)

    # -- event handlers and their records ------------------------------------------------------------------------------

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        self._write(sql.PUT_EVENT_HANDLER, (name, event, int(active), text))

    def drop_event_handler(self, name: str) -> None:
        self._write(sql.DROP_EVENT_HANDLER, (name,))

    def add_event_execution(self, execution: EventExecution) -> None:
        row = (
            *execution.key,
            *(execution.created, execution.status.value, execution.action, execution.output.text),
        )
        if self._write(sql.ADD_EVENT_EXECUTION, row) == 0:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")

    def drop_event_executions(self, before: int, limit: int) -> int:
        return self._write(sql.DROP_EVENT_EXECUTIONS, (before, limit))

    def _write(self, statement: str, row: tuple[Any, ...]) -> int:
        self._dirty = True
        try:
            return self._execute(statement, row).rowcount
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
