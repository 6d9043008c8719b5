"""Limits in SQLite: one row per limit, one per member; the line is an index. Owners, holders and driven time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.decisions import queue_prefix
from conductorlite.model.errors import FencedOut
from conductorlite.model.limits import FORGOTTEN, Limit, LimitChange, Line, Member, MemberState
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.mailboxes import RowInbox
from conductorlite.store.sqlite.rows import (
    STATUSES,
    Session,
    readable,
)
from conductorlite.store.tables import (
    HolderRow,
    OwnerRow,
)

if TYPE_CHECKING:
    pass

__all__ = ["RowLimits", "RowOwners", "RowTaskHolders"]

_COLUMNS: Final = tuple(field.name for field in attrs.fields(Member))
_MEMBER: Final = ", ".join(_COLUMNS)
_cells: Final[Callable[[Member], tuple[Any, ...]]] = attrgetter(*_COLUMNS)
_STATE: Final = _COLUMNS.index("state")

#: More than there are.
_ALL: Final = 2**31

_LIMIT: Final = "key, fence, in_use, reserved, log, depth, span_ms, number, alarm, alarm_at, unpolled, read_at, boot, steady, tags"
LIMIT: Final = f"SELECT {_LIMIT} FROM limits WHERE key = ?"
LIMITS: Final = f"SELECT {_LIMIT} FROM limits WHERE key > ? ORDER BY key LIMIT ?"
INSERT_LIMIT: Final = (
    f"INSERT INTO limits ({_LIMIT}) VALUES (?, 1 + coalesce((SELECT fence FROM limits WHERE key = '{FORGOTTEN}'), 0), ?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
FORGET_LIMIT: Final = "DELETE FROM limits WHERE key = ? AND fence = ? AND NOT EXISTS (SELECT 1 FROM limit_members WHERE key = ?)"
NOTE_FORGOTTEN: Final = (
    f"INSERT INTO limits ({_LIMIT}) VALUES ('{FORGOTTEN}', ?, 0, 0, '[]', 0, 0, 0, NULL, NULL, NULL, 0, '', 0, '')"
    " ON CONFLICT (key) DO UPDATE SET fence = excluded.fence WHERE excluded.fence > limits.fence"
)
UPDATE_LIMIT: Final = (
    "UPDATE limits SET fence = fence + 1, in_use = ?, reserved = ?, log = ?, depth = ?, span_ms = ?, number = ?, alarm = ?,"
    " alarm_at = ?, unpolled = ?, read_at = ?, boot = ?, steady = ?, tags = ? WHERE key = ? AND fence = ?"
)
#: Few limits have any: there is an index of them.
UNPOLLED: Final = (
    "SELECT key FROM limits WHERE unpolled IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(unpolled) WHERE value = ?) ORDER BY key"
)
LINE: Final = (
    f"SELECT {_MEMBER} FROM limit_members WHERE key = ? AND state = 'WAITING'"
    " ORDER BY priority DESC, start_tag, asked_at, created_at, workflow_id, seq, holder LIMIT ?"
)
#: Each lane of a line by one probe, then its heads.
LANES: Final = (
    "WITH RECURSIVE lanes (lane) AS (SELECT min(lane) FROM limit_members WHERE key = ?1 AND state = 'WAITING' UNION ALL"
    " SELECT (SELECT min(lane) FROM limit_members WHERE key = ?1 AND state = 'WAITING' AND lane > lanes.lane) FROM lanes"
    " WHERE lane IS NOT NULL) SELECT lane FROM lanes WHERE lane IS NOT NULL"
)
LANE: Final = LINE.replace("key = ?", "key = ? AND lane = ?")
MEMBER: Final = f"SELECT {_MEMBER} FROM limit_members WHERE key = ? AND holder = ?"
WITH_SLOT: Final = f"SELECT {_MEMBER} FROM limit_members WHERE key = ? AND state <> 'WAITING' ORDER BY holder"
MEMBERS_OF: Final = f"SELECT {_MEMBER} FROM limit_members WHERE workflow_id = ?"
PUT_MEMBER: Final = sql.replacing("limit_members", _COLUMNS, ("key", "holder"))
DROP_MEMBER: Final = "DELETE FROM limit_members WHERE key = ? AND holder = ?"
HOLDERS: Final = f"SELECT {_MEMBER} FROM limit_members WHERE key = ? AND holder > ? AND state <> 'WAITING' ORDER BY holder LIMIT ?"
WAITING: Final = "SELECT count(*) FROM limit_members WHERE key = ? AND state = 'WAITING'"
#: By the priority the index skips what is behind; of equal priority it is read to its end.
BEFORE: Final = (
    f"{WAITING} AND priority >= ?"
    " AND (-priority, start_tag, asked_at, created_at, workflow_id, seq, holder) < (?, ?, ?, ?, ?, ?, ?)"
)


def _row(member: Member) -> tuple[Any, ...]:
    cells = _cells(member)
    return (*cells[:_STATE], member.state.value, *cells[_STATE + 1 :])


@readable
def _member(row: tuple[Any, ...]) -> Member:
    fields = dict(zip(_COLUMNS, row, strict=True))
    return Member(**{**fields, "state": MemberState(fields["state"])})


@readable
def _limit(row: tuple[Any, ...]) -> Limit:
    fields = dict(zip(_LIMIT.split(", "), row, strict=True))
    return Limit(**{**fields, "log": tuple(json.loads(fields["log"])), "unpolled": tuple(json.loads(fields["unpolled"] or "[]"))})


class RowLimits:
    """Limits: who has a slot, and who waits in line."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def line(self, key: str, heads: int) -> Line:
        row = self._session.execute(LIMIT, (key,)).fetchone()
        if row is None:
            return Line(limit=Limit(key=key))
        found = [_member(cells) for cells in self._session.execute(LINE, (key, heads + 1))]
        if len(found) <= heads:
            return Line(limit=_limit(row), heads=tuple(found))
        lanes = [lane for (lane,) in self._session.execute(LANES, sql.numbered(key)).fetchall()]
        by_lane = {lane: [_member(cells) for cells in self._session.execute(LANE, (key, lane, heads + 1))] for lane in lanes}
        return Line(
            limit=_limit(row),
            heads=tuple(sorted((one for members in by_lane.values() for one in members[:heads]), key=lambda one: one.place)),
            more=frozenset(lane for lane, members in by_lane.items() if len(members) > heads),
        )

    def member(self, key: str, holder: str) -> Member | None:
        row = self._session.execute(MEMBER, (key, holder)).fetchone()
        return None if row is None else _member(row)

    def members(self, key: str) -> Sequence[Member]:
        with_slot = [_member(row) for row in self._session.execute(WITH_SLOT, (key,))]
        return with_slot + [_member(row) for row in self._session.execute(LINE, (key, _ALL))]

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        found = [_member(row) for row in self._session.execute(MEMBERS_OF, (workflow_id,))]
        return sorted(found, key=lambda member: (member.key, member.holder))

    def unpolled(self, lane: str) -> Sequence[str]:
        return [key for (key,) in self._session.execute(UNPOLLED, (lane,))]

    def page(self, after: str, limit: int) -> Sequence[Limit]:
        return [_limit(row) for row in self._session.execute(LIMITS, (after, limit))]

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        return [_member(row) for row in self._session.execute(HOLDERS, (key, after, limit))]

    def waiting(self, key: str, before: Member | None = None) -> int:
        found = (
            self._session.execute(WAITING, (key,))
            if before is None
            else self._session.execute(BEFORE, (key, before.priority, *before.place))
        )
        count: int = found.fetchone()[0]
        return count

    def put_limit(self, change: LimitChange) -> None:
        self._session.dirty = True
        self.change([change])

    def change(self, changes: Sequence[LimitChange]) -> None:
        """Set limits right, each under its fence; raises FencedOut."""
        for change in changes:
            limit = change.limit
            numbers = (limit.in_use, limit.reserved, json.dumps(limit.log), limit.depth, limit.span_ms, limit.number)
            unpolled = json.dumps(limit.unpolled) if limit.unpolled else None
            fields = (*numbers, limit.alarm, limit.alarm_at, unpolled, limit.read_at, limit.boot, limit.steady, limit.tags)
            refusal = FencedOut(f"limit {limit.key!r}: another turn committed after fence {limit.fence} was read")
            if limit.fence:
                self._session.change(UPDATE_LIMIT, (*fields, limit.key, limit.fence), refusal)
            else:
                self._session.change(INSERT_LIMIT, (limit.key, *fields), refusal)
            if change.gone:
                self._session.executemany(DROP_MEMBER, [(limit.key, holder) for holder in change.gone])
            if change.put:
                self._session.executemany(PUT_MEMBER, [_row(member) for member in change.put])
            if change.unused:
                self._forget_limit(limit.key)

    def _forget_limit(self, key: str) -> None:
        """Delete the row of a limit, unless an execution waits; a turn that read it is fenced out, also by one that comes back."""
        fence = self._session.execute(LIMIT, (key,)).fetchone()[1]
        if self._session.execute(FORGET_LIMIT, (key, fence, key)).rowcount:
            self._session.execute(NOTE_FORGOTTEN, (fence,))


class RowOwners:
    """The owners of executions, and the instants at which drivers looked at the store."""

    def __init__(self, session: Session, *, inbox: RowInbox) -> None:
        self._session, self._inbox = session, inbox

    def rows(self) -> Sequence[OwnerRow]:
        """Every owner of an execution or an event, in order of names; reads an index entry for each."""
        events = self._inbox.counts()
        executions: dict[str, dict[str, int]] = {}
        for name, status, number in self._session.execute(sql.OWNERS):
            executions.setdefault(name, {})[STATUSES[status]] = number
        names = sorted(events.keys() | executions.keys())
        return [OwnerRow(name=name, executions=executions.get(name, {}), events=events.get(name, 0)) for name in names]

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """The stretches of an owner's drivers that end after `since`; reads all there are of it."""
        return [(begin, end) for begin, end in self._session.execute(sql.DRIVEN, (owner, since))]

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, with their events and messages, and raise their fences."""
        asked = (old, after, limit) if old else (after, limit)
        moved = [workflow_id for (workflow_id,) in self._session.execute(sql.OWNED if old else sql.UNOWNED, asked)]
        owned = [(new, workflow_id) for workflow_id in moved]
        self._session.many(sql.OWN, owned)
        self._session.many(sql.OWN_EVENTS, owned)
        before, after = queue_prefix(old), queue_prefix(new)
        self._session.many(sql.OWN_MESSAGES, [sql.numbered(after, before, workflow_id) for workflow_id in moved])
        return moved

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        self._session.many(sql.OWN_THE_REST, [(new, old)])
        return self._session.execute(sql.OWN_SCHEDULES, (new, old)).rowcount

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        self._session.write(sql.NOTE_DRIVEN, (owner, begin, end))

    def forget_driven(self, owner: str, kept: int) -> None:
        self._session.write(sql.FORGET_DRIVEN, (owner, owner, kept))


class RowTaskHolders:
    """Engines whose workers may hold tasks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rows(self) -> Sequence[HolderRow]:
        return [HolderRow(holder=name, place=place, lease_until=until) for name, place, until in self._session.execute(sql.HOLDERS)]

    def put_holder(self, row: HolderRow) -> None:
        self._session.many(sql.PUT_HOLDER, [(row.holder, row.place, row.lease_until)])

    def drop_holder(self, holder: str) -> None:
        self._session.many(sql.DROP_HOLDER, [(holder,)])
