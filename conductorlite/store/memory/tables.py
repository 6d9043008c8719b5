"""What stands in a memory store beside the executions, what is to be indexed, and how much there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import attrs

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import Task
from conductorlite.store.memory.rows import BaseReads, BaseWrites, Execution, Ordered
from conductorlite.store.tables import Archived, Change, EventPlace, Feed, FeedKind, OrphanPayload, ScheduleRow, Size, Sizes

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution

__all__ = ["TableReads", "TableWrites"]


class TableReads(BaseReads):
    """What stands beside the executions, what is to be indexed, and how much there is."""

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        held = self._store.externals.get(workflow_id, {})
        return {digest: held[digest] for digest in sorted(held if digests is None else digests) if digest in held}

    def external_used(self, key: str) -> bool:
        return bool(self._store.external_users.get(key))

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for key in keys if self.external_used(key) or key in self._store.loose)

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[OrphanPayload]:
        noted = (
            OrphanPayload(key=key, workflow_id=workflow_id, at=at)
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

    # -- what is to be indexed -----------------------------------------------------------------------------------------

    def index(self) -> None:
        """None: documents are matched one by one."""

    def feed(self, kind: FeedKind) -> Feed | None:
        return self._store.feeds.get(kind)

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """What is pending, then what was not indexed as it is now."""
        return list(islice(self._changes(kind), limit))

    def _changes(self, kind: FeedKind) -> Iterator[Change]:
        store = self._store
        if kind not in store.feeds:
            return
        pending: dict[str, tuple[int, ...]] = {}
        for n, (feed, workflow_id) in store.pending.items():
            if feed is kind:
                pending[workflow_id] = (*pending.get(workflow_id, ()), n)
        for workflow_id, numbers in pending.items():
            row = store.workflows.get(workflow_id) if (kind, workflow_id) in store.indexed else None
            fence = None if row is None else row.fence
            yield Change(workflow_id=workflow_id, fence=fence, pending=numbers, removed=store.counters["removed"])
        for workflow_id, row in store.workflows.items():
            since = store.indexed.get((kind, workflow_id))
            if since != row.fence and (since is None or workflow_id not in pending):
                yield Change(workflow_id=workflow_id, fence=row.fence, since=since)

    def behind(self, kind: FeedKind, limit: int) -> int:
        return len(self.changes(kind, 0, limit))

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        return any(change.workflow_id == workflow_id for change in self._changes(kind))

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        execution = self._store.executions.get(workflow_id)
        attempts = {} if execution is None else execution.attempts
        return [task for place, task in attempts.items() if execution is not None and execution.fences[place] > fence]

    # -- how much there is ---------------------------------------------------------------------------------------------

    def archived(self, workflow_id: str) -> Archived | None:
        return self._store.archive.get(workflow_id)

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        return [workflow_id for (workflow_id,) in islice(self._store.archived_ids.after((after,)), limit)]

    def sizes(self) -> Sizes:
        store = self._store
        logs = {task_id: _size((entry.text,) for entry in entries) for task_id, entries in store.logs.items()}
        kinds = dict.fromkeys(("executions", "tasks", "history", "texts", "logs", "events", "mailbox"), Size(0, 0))
        own: dict[tuple[str, str], Size] = {}
        for workflow_id, execution in store.executions.items():
            found = _kinds(execution, logs)
            row = store.workflows.get(workflow_id)
            if row is not None:
                found["executions"] = _size([(row.input, row.output, row.variables, row.task_to_domain, row.reason)])
                known = own.get((row.name, row.status.value), Size(0, 0))
                held = sum(size.bytes for size in found.values())
                own[row.name, row.status.value] = Size(known.rows + 1, known.bytes + held)
            for kind, size in found.items():
                kinds[kind] = Size(kinds[kind].rows + size.rows, kinds[kind].bytes + size.bytes)
        kinds["messages"] = Size(sum(len(execution.offered) for execution in store.executions.values()), 0)
        kinds["definitions"] = _size((text,) for text in store.definitions.values())
        kinds["archive"] = _size((archived.document,) for archived in store.archive.values())
        kinds["changes"] = Size(len(store.pending), 0)
        return Sizes(kinds=kinds, executions=own)


class TableWrites(TableReads, BaseWrites):
    """What stands beside the executions, and what was indexed, written."""

    # -- documents in the payload storage ------------------------------------------------------------------------------

    def mark_orphan(self, loose: Sequence[OrphanPayload]) -> None:
        for one in loose:
            self._noted(one.key, {**self._store.loose.get(one.key, {}), one.workflow_id: one.at})

    def unmark_orphan(self, key: str, until: int) -> None:
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

    def drop_event_executions(self, before: int, limit: int, message_id: str | None = None, without: str | None = None) -> int:
        store = self._store
        old = takewhile(lambda place: place[0] < before, store.event_places.get(("all", ""), Ordered()))
        meant = (place for place in old if message_id in (None, place[3]) and place[3] != without)
        places = list(islice(meant, limit))
        for place in places:
            execution = store.event_executions[place[1:]]
            store.drop(store.event_executions, execution.key)
            for index in _indexes(execution):
                store.discard(store.event_places[index], place)
        return len(places)

    # -- what is to be indexed -----------------------------------------------------------------------------------------

    def _pend(self, workflow_id: str) -> None:
        for kind in self._store.feeds:
            self._pend_for(kind, workflow_id)

    def _pend_for(self, kind: FeedKind, workflow_id: str) -> None:
        store = self._store
        store.pending_seq += 1  # not undone: a number is never used twice
        store.put(store.pending, store.pending_seq, (kind, workflow_id))

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        self.end_feed(kind)
        self._store.put(self._store.feeds, kind, Feed(reader=reader))
        self.mark_pending(kind, list(self._store.archive))

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        for workflow_id in workflow_ids if kind in self._store.feeds else ():
            self._pend_for(kind, workflow_id)

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        store = self._store
        for change in changes:
            for n in change.pending:
                store.drop(store.pending, n)
            if change.fence is not None and change.workflow_id in store.workflows:
                store.put(store.indexed, (kind, change.workflow_id), change.fence)
        feed = store.feeds[kind]
        store.put(store.feeds, kind, attrs.evolve(feed, position=feed.position + 1, complete=feed.complete or complete))

    def end_feed(self, kind: FeedKind) -> None:
        store = self._store
        store.drop(store.feeds, kind)
        for key in [key for key in store.indexed if key[0] is kind]:
            store.drop(store.indexed, key)
        for n in [n for n, entry in store.pending.items() if entry[0] is kind]:
            store.drop(store.pending, n)

    # -- the archive ---------------------------------------------------------------------------------------------------

    def archive(self, archived: Archived) -> None:
        self.drop_archived(archived.workflow_id)
        store = self._store
        store.put(store.archive, archived.workflow_id, archived)
        store.add(store.archived_ids, (archived.workflow_id,))
        self._pend(archived.workflow_id)

    def drop_archived(self, workflow_id: str) -> bool:
        store = self._store
        if store.drop(store.archive, workflow_id) is None:
            return False
        store.discard(store.archived_ids, (workflow_id,))
        self._pend(workflow_id)
        return True


def _size(rows: Iterable[tuple[str | bytes | Payload | None, ...]]) -> Size:
    count = held = 0
    for texts in rows:
        count += 1
        for one in texts:
            text = one.text if isinstance(one, Payload) else one
            held += 0 if text is None else len(text) if isinstance(text, bytes) else len(text.encode())
    return Size(count, held)


def _kinds(execution: Execution, logs: dict[str, Size]) -> dict[str, Size]:
    """By kind of row, all but the execution's own."""
    logged = [logs[task_id] for task_id in execution.logged]
    return {
        "tasks": _size((task.input, task.output, task.reason, task.traceback) for task in execution.attempts.values()),
        "history": _size(line[7:] for line in execution.history),
        "texts": _size((text,) for text in execution.texts.values()),
        "logs": Size(sum(size.rows for size in logged), sum(size.bytes for size in logged)),
        "events": _size((event.data,) for event in execution.inbox.values()),
        "mailbox": _size((message.value,) for message in execution.mailbox.values()),
    }


def _indexes(execution: EventExecution) -> tuple[tuple[str, str], ...]:
    return (("all", ""), ("name", execution.name), ("message", execution.message_id))
