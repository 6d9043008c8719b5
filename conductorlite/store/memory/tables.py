"""What stands in a memory store beside the executions: documents of the payload storage, schedules, schemas, event handlers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import attrs

from conductorlite.model.canonical import ExternalPayload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.handlers import EventExecution
from conductorlite.store.memory.rows import BaseReads, BaseWrites, Ordered
from conductorlite.store.tables import EventPlace, LoosePayload, ScheduleRow

__all__ = ["TableReads", "TableWrites"]


def _indexes(execution: EventExecution) -> tuple[tuple[str, str], ...]:
    return (("all", ""), ("name", execution.name), ("message", execution.message_id))


class TableReads(BaseReads):
    """What stands beside the executions, read."""

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        held = self._store.externals.get(workflow_id, {})
        return {digest: held[digest] for digest in sorted(held if digests is None else digests) if digest in held}

    def external_used(self, key: str) -> bool:
        return bool(self._store.external_users.get(key))

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for key in keys if self.external_used(key) or key in self._store.loose)

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[LoosePayload]:
        """A page of what was noted as loose at `until` or before, ascending, greater than `after`."""
        noted = (
            LoosePayload(key=key, workflow_id=workflow_id, at=at)
            for key, users in sorted(self._store.loose.items())
            for workflow_id, at in sorted(users.items())
            if at <= until and (key, workflow_id) > after
        )
        return list(islice(noted, limit))

    def loosened_at(self, key: str) -> int | None:
        return max(self._store.loose.get(key, {}).values(), default=None)

    # -- schedules -----------------------------------------------------------------------------------------------------

    def schedule(self, name: str) -> ScheduleRow | None:
        return self._store.schedules.get(name)

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        return [self._store.schedules[name] for (name,) in islice(self._store.schedule_names.after((after,)), limit)]

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        keys = self._store.due.get(owner)
        key = None if keys is None else keys.first()
        return None if key is None else (key[0], key[1])

    # -- schemas -------------------------------------------------------------------------------------------------------

    def schema_def(self, name: str, version: int | None) -> str | None:
        table = self._store.schema_defs
        if version is None:
            version = max((number for known, number in table if known == name), default=None)
        return None if version is None else table.get((name, version))

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        return sorted(self._store.schema_defs)

    # -- event handlers and their records ------------------------------------------------------------------------------

    def event_handler(self, name: str) -> str | None:
        found = self._store.event_handlers.get(name)
        return None if found is None else found[2]

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        return [
            text
            for _, (its_event, active, text) in sorted(self._store.event_handlers.items())
            if (event is None or its_event == event) and (active or not active_only)
        ]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        return self._store.event_executions.get((name, event, message_id, number))

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        index = ("message", message_id) if message_id is not None else ("name", name) if name is not None else ("all", "")
        places = self._store.event_places.get((index[0], index[1] or ""))
        rows = (self._store.event_executions[place[1:]] for place in (() if places is None else places.before(after)))
        return list(islice((row for row in rows if name is None or row.name == name), limit))


class TableWrites(TableReads, BaseWrites):
    """What stands beside the executions, written."""

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def loosen(self, loose: Sequence[LoosePayload]) -> None:
        for one in loose:
            self._noted(one.key, {**self._store.loose.get(one.key, {}), one.workflow_id: one.at})

    def tighten(self, key: str, until: int) -> None:
        self._noted(key, {user: at for user, at in self._store.loose.get(key, {}).items() if at > until})

    def _noted(self, key: str, users: dict[str, int]) -> None:
        if users:
            self._store.put(self._store.loose, key, users)
        else:
            self._store.drop(self._store.loose, key)

    def _keep_externals(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        store = self._store
        for one in externals:
            held = store.externals.get(workflow_id, {})
            if one.digest not in held:
                store.put(store.externals, workflow_id, {**held, one.digest: one})
                store.put(store.external_users, one.key, store.external_users.get(one.key, frozenset()) | {workflow_id})
            noted = store.loose.get(one.key, {})
            self._noted(one.key, {user: at for user, at in noted.items() if user != workflow_id})

    def _remove_externals(self, workflow_id: str) -> None:
        store = self._store
        for one in (store.drop(store.externals, workflow_id) or {}).values():
            users = store.external_users[one.key] - {workflow_id}
            store.put(store.external_users, one.key, users)
            self._noted(one.key, {workflow_id: 0, **store.loose.get(one.key, {})})

    # -- schedules -----------------------------------------------------------------------------------------------------

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        store = self._store
        stored = store.schedules.get(row.name)
        if (0 if stored is None else stored.fence) != row.fence:
            raise FencedOut(f"schedule {row.name!r}: somebody else changed it after fence {row.fence} was read")
        if stored is None:
            store.add(store.schedule_names, (row.name,))
        store.put(store.schedules, row.name, attrs.evolve(row, fence=row.fence + 1))
        for event_id in consumed:
            self._drop_event(store.execution(row.address), event_id)
        self.post(events)

    def drop_schedule(self, name: str) -> None:
        store = self._store
        row = store.drop(store.schedules, name)
        if row is not None:
            store.discard(store.schedule_names, (name,))
            self.remove(row.address)

    # -- schemas -------------------------------------------------------------------------------------------------------

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        store = self._store
        store.put(store.schema_defs, (name, version), text)
        store.put(store.counters, "registry", store.counters["registry"] + 1)

    # -- event handlers and their records ------------------------------------------------------------------------------

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        self._store.put(self._store.event_handlers, name, (event, active, text))

    def drop_event_handler(self, name: str) -> None:
        self._store.drop(self._store.event_handlers, name)

    def add_event_execution(self, execution: EventExecution) -> None:
        store = self._store
        if execution.key in store.event_executions:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")
        store.put(store.event_executions, execution.key, execution)
        for index in _indexes(execution):
            store.add(store.event_places.setdefault(index, Ordered()), execution.place)

    def drop_event_executions(self, before: int, limit: int) -> int:
        store = self._store
        places = list(islice(store.event_places.get(("all", ""), Ordered()), limit))
        places = [place for place in places if place[0] < before]
        for place in places:
            execution = store.event_executions[place[1:]]
            store.drop(store.event_executions, execution.key)
            for index in _indexes(execution):
                store.discard(store.event_places[index], place)
        return len(places)
