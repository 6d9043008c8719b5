"""Limits in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import attrs

from conductorlite.backends.memory.ordered import Ordered
from conductorlite.backends.memory.store import Store
from conductorlite.errors import FencedOut
from conductorlite.limits import FORGOTTEN, Limit, LimitChange, Line, Member, MemberState

__all__ = ["LimitRows", "LimitRowsWritten"]


class LimitRows:
    """Reading limits."""

    _store: Store

    def line(self, key: str, heads: int) -> Line:
        """A limit with up to so many heads of each lane of its line."""
        lanes = {lane: list(islice(waiting, heads + 1)) for lane, waiting in self._store.lines.get(key, {}).items()}
        members = self._store.members.get(key, {})
        found = [members[place[-1]] for places in lanes.values() for place in places[:heads]]
        return Line(
            limit=self._store.limits.get(key) or Limit(key=key),
            heads=tuple(sorted(found, key=lambda one: one.place)),
            more=frozenset(lane for lane, places in lanes.items() if len(places) > heads),
        )

    def member(self, key: str, holder: str) -> Member | None:
        """One member of a limit, or None."""
        return self._store.members.get(key, {}).get(holder)

    def members(self, key: str) -> Sequence[Member]:
        """All members of a limit: those with a slot in order of holder, then the line."""
        found = self._store.members.get(key, {}).values()
        return sorted(found, key=lambda one: (one.state is MemberState.WAITING, one.place if _waits(one) else (one.holder,)))

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        """What an execution and its tasks hold and wait for, in order of key, then holder."""
        return [self._store.members[key][holder] for key, holder in sorted(self._store.members_of.get(workflow_id, {}))]

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane until somebody polls it, in order."""
        return sorted(key for key in self._store.unpolled if lane in self._store.limits[key].unpolled)

    def limits(self, after: str, limit: int) -> Sequence[Limit]:
        """A page of limits in order of their keys, greater than `after`."""
        return [self._store.limits[key] for key in sorted(key for key in self._store.limits if key > after)[:limit]]

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        """A page of the members of a limit that have a slot, in order of holder, greater than `after`."""
        found = self._store.members.get(key, {}).values()
        return sorted((one for one in found if not _waits(one) and one.holder > after), key=lambda one: one.holder)[:limit]

    def waiting(self, key: str, before: Member | None = None) -> int:
        """How many wait in the line of a limit; with `before`, how many of them come before it."""
        lanes = self._store.lines.get(key, {}).values()
        return sum(1 for line in lanes for place in (line if before is None else line.before(before.place)))


class LimitRowsWritten(LimitRows):
    """Changing limits."""

    def _change_limits(self, changes: Sequence[LimitChange]) -> None:
        store = self._store
        for change in changes:
            key = change.limit.key
            stored = store.limits.get(key)
            if (0 if stored is None else stored.fence) != change.limit.fence:
                raise FencedOut(f"limit {key!r}: another turn committed after fence {change.limit.fence} was read")
            fence = stored.fence if stored is not None else store.limits.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits, key, attrs.evolve(change.limit, fence=fence + 1))
            if change.limit.unpolled:
                store.put(store.unpolled, key, True)
            else:
                store.drop(store.unpolled, key)
            for holder in change.gone:
                self._drop_member(key, holder)
            for member in change.put:
                self._drop_member(key, member.holder)
                store.put(store.members.setdefault(key, {}), member.holder, member)
                store.put(store.members_of.setdefault(member.workflow_id, {}), (key, member.holder), True)
                if _waits(member):
                    store.add(store.lines.setdefault(key, {}).setdefault(member.lane, Ordered()), member.place)
            if change.unused and not store.members.get(key):
                self._forget_limit(key)

    def _forget_limit(self, key: str) -> None:
        """Delete the row of a limit; whoever has read it is fenced out, also by one that comes back."""
        store = self._store
        limit = store.drop(store.limits, key)
        if limit is not None:
            known = store.limits.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits, FORGOTTEN, Limit(key=FORGOTTEN, fence=max(known, limit.fence)))
        store.drop(store.members, key)
        store.drop(store.lines, key)
        store.drop(store.unpolled, key)

    def _drop_member(self, key: str, holder: str) -> None:
        store = self._store
        member = store.drop(store.members.get(key, {}), holder)
        if member is not None:
            store.drop(store.members_of[member.workflow_id], (key, holder))
            if _waits(member):
                store.discard(store.lines[key][member.lane], member.place)

    def _drop_members_of(self, workflow_id: str) -> None:
        for key, holder in list(self._store.members_of.get(workflow_id, {})):
            self._drop_member(key, holder)


def _waits(member: Member) -> bool:
    return member.state is MemberState.WAITING
