"""What stands in a memory store beside the executions, what is to be indexed, and how much there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import attrs

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import HistoryEvent, TaskLog
from conductorlite.store.memory.mailboxes import MemoryInbox
from conductorlite.store.memory.rows import (
    Execution,
    Ordered,
    Store,
    unpacked,
)
from conductorlite.store.tables import (
    Archived,
    Change,
    EventPlace,
    Feed,
    FeedKind,
    OrphanPayload,
    ScheduleRow,
    Size,
    Sizes,
)

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution

__all__ = [
    "MemoryArchive",
    "MemoryDocuments",
    "MemoryEventHandlers",
    "MemoryFeeds",
    "MemoryHistory",
    "MemoryMetadata",
    "MemorySchedules",
    "sizes",
]


class MemoryDocuments:
    """Documents in the payload storage, and what is loose there."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        held = self._store.payloads.externals.get(workflow_id, {})
        return {digest: held[digest] for digest in sorted(held if digests is None else digests) if digest in held}

    def external_used(self, key: str) -> bool:
        return bool(self._store.payloads.users.get(key))

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for key in keys if self.external_used(key) or key in self._store.payloads.loose)

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[OrphanPayload]:
        noted = (
            OrphanPayload(key=key, workflow_id=workflow_id, at=at)
            for key, users in sorted(self._store.payloads.loose.items())
            for workflow_id, at in sorted(users.items())
            if at <= until and (key, workflow_id) > after
        )
        return list(islice(noted, limit))

    def loosened_at(self, key: str) -> int | None:
        return max(self._store.payloads.loose.get(key, {}).values(), default=None)

    def mark_orphan(self, loose: Sequence[OrphanPayload]) -> None:
        for one in loose:
            self._noted(one.key, {**self._store.payloads.loose.get(one.key, {}), one.workflow_id: one.at})

    def unmark_orphan(self, key: str, until: int) -> None:
        self._noted(key, {user: at for user, at in self._store.payloads.loose.get(key, {}).items() if at > until})

    def _noted(self, key: str, users: dict[str, int]) -> None:
        if users:
            self._store.put(self._store.payloads.loose, key, users)
        else:
            self._store.drop(self._store.payloads.loose, key)

    def keep(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        """Note documents that an execution refers to: loose for it no more."""
        store = self._store
        for one in externals:
            held = store.payloads.externals.get(workflow_id, {})
            if one.digest not in held:
                store.put(store.payloads.externals, workflow_id, {**held, one.digest: one})
                store.put(store.payloads.users, one.key, store.payloads.users.get(one.key, frozenset()) | {workflow_id})
            noted = store.payloads.loose.get(one.key, {})
            self._noted(one.key, {user: at for user, at in noted.items() if user != workflow_id})

    def forget(self, workflow_id: str) -> None:
        """Note as loose what an execution refers to that is removed."""
        store = self._store
        for one in (store.drop(store.payloads.externals, workflow_id) or {}).values():
            users = store.payloads.users[one.key] - {workflow_id}
            store.put(store.payloads.users, one.key, users)
            self._noted(one.key, {workflow_id: 0, **store.payloads.loose.get(one.key, {})})


class MemoryFeeds:
    """Entries that are to be indexed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def index(self) -> None:
        """None: documents are matched one by one."""

    def feed(self, kind: FeedKind) -> Feed | None:
        return self._store.feeds.rows.get(kind)

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """Return pending entries, then executions that have changed since they were indexed."""
        return list(islice(self._changes(kind), limit))

    def _changes(self, kind: FeedKind) -> Iterator[Change]:
        store = self._store
        if kind not in store.feeds.rows:
            return
        pending: dict[str, tuple[int, ...]] = {}
        for n, (feed, workflow_id) in store.feeds.pending.items():
            if feed is kind:
                pending[workflow_id] = (*pending.get(workflow_id, ()), n)
        for workflow_id, numbers in pending.items():
            row = store.workflows.get(workflow_id) if (kind, workflow_id) in store.feeds.indexed else None
            fence = None if row is None else row.fence
            yield Change(workflow_id=workflow_id, fence=fence, pending=numbers, removed=store.counters["removed"])
        for workflow_id, row in store.workflows.items():
            since = store.feeds.indexed.get((kind, workflow_id))
            if since != row.fence and (since is None or workflow_id not in pending):
                yield Change(workflow_id=workflow_id, fence=row.fence, since=since)

    def behind(self, kind: FeedKind, limit: int) -> int:
        return len(self.changes(kind, 0, limit))

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        return any(change.workflow_id == workflow_id for change in self._changes(kind))

    def pend(self, workflow_id: str) -> None:
        """Have an execution indexed again by every feed that is on."""
        for kind in self._store.feeds.rows:
            self._pend_for(kind, workflow_id)

    def _pend_for(self, kind: FeedKind, workflow_id: str) -> None:
        store = self._store
        store.feeds.number += 1  # not undone: a number is never used twice
        store.put(store.feeds.pending, store.feeds.number, (kind, workflow_id))

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        self.end_feed(kind)
        self._store.put(self._store.feeds.rows, kind, Feed(reader=reader))
        self.mark_pending(kind, list(self._store.beside.archive))

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        for workflow_id in workflow_ids if kind in self._store.feeds.rows else ():
            self._pend_for(kind, workflow_id)

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        store = self._store
        for change in changes:
            for n in change.pending:
                store.drop(store.feeds.pending, n)
            if change.fence is not None and change.workflow_id in store.workflows:
                store.put(store.feeds.indexed, (kind, change.workflow_id), change.fence)
        feed = store.feeds.rows[kind]
        store.put(store.feeds.rows, kind, attrs.evolve(feed, position=feed.position + 1, complete=feed.complete or complete))

    def end_feed(self, kind: FeedKind) -> None:
        store = self._store
        store.drop(store.feeds.rows, kind)
        for key in [key for key in store.feeds.indexed if key[0] is kind]:
            store.drop(store.feeds.indexed, key)
        for n in [n for n, entry in store.feeds.pending.items() if entry[0] is kind]:
            store.drop(store.feeds.pending, n)


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
        "tasks": _size(
            (task.input, task.output, task.reason, task.conductor_reason, task.traceback) for task in execution.attempts.values()
        ),
        "history": _size(line[7:] for line in execution.history),
        "texts": _size((text,) for text in execution.texts.values()),
        "logs": Size(sum(size.rows for size in logged), sum(size.bytes for size in logged)),
        "events": _size((event.data,) for event in execution.inbox.values()),
        "mailbox": _size((message.value,) for message in execution.mailbox.values()),
        "streams": _size(() if execution.emitted is None else [(chunk.values,) for _, chunk in execution.emitted.chunks.values()]),
    }


def sizes(store: Store) -> Sizes:
    """How much there is."""
    logs = {task_id: _size((entry.text,) for entry in entries) for task_id, entries in store.beside.logs.items()}
    kinds = dict.fromkeys(("executions", "tasks", "history", "texts", "logs", "events", "mailbox", "streams"), Size(0, 0))
    own: dict[tuple[str, str], Size] = {}
    for workflow_id, execution in store.executions.items():
        found = _kinds(execution, logs)
        row = store.workflows.get(workflow_id)
        if row is not None:
            found["executions"] = _size(
                [(row.input, row.output, row.variables, row.task_to_domain, row.reason, row.conductor_reason)]
            )
            known = own.get((row.name, row.status.value), Size(0, 0))
            held = sum(size.bytes for size in found.values())
            own[row.name, row.status.value] = Size(known.rows + 1, known.bytes + held)
        for kind, size in found.items():
            kinds[kind] = Size(kinds[kind].rows + size.rows, kinds[kind].bytes + size.bytes)
    kinds["messages"] = Size(sum(len(execution.offered) for execution in store.executions.values()), 0)
    kinds["definitions"] = _size((text,) for text in store.metadata.definitions.values())
    kinds["archive"] = _size((archived.document,) for archived in store.beside.archive.values())
    kinds["changes"] = Size(len(store.feeds.pending), 0)
    return Sizes(kinds=kinds, executions=own)


class MemoryHistory:
    """Journals, and what workers logged."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def lines(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        return unpacked(sorted([line for line in self._store.of(workflow_id).history if line[0] > after]))

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        return list(self._store.beside.logs.get(task_id, ()))

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        store = self._store
        for entry in entries:
            if entry.task_id not in store.beside.logs:
                store.put(store.beside.logs, entry.task_id, [])
            store.extend(store.beside.logs[entry.task_id], [entry])
            store.put(store.execution(workflow_id).logged, entry.task_id, True)


class MemoryMetadata:
    """Definitions and schemas."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def registry_version(self) -> int:
        return self._store.counters["registry"]

    def definition(self, digest: str) -> str | None:
        return self._store.metadata.definitions.get(digest)

    def workflow_def(self, name: str, version: int | None) -> str | None:
        if version is None:
            versions = self._store.metadata.workflow_versions.get(name)
            newest = versions.last() if versions is not None else None
            if newest is None:
                return None
            version = newest[0]
        return self._store.metadata.workflow_defs.get((name, version))

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        return sorted(self._store.metadata.workflow_defs)

    def task_def(self, name: str) -> str | None:
        return self._store.metadata.task_defs.get(name)

    def task_defs(self) -> Sequence[str]:
        return sorted(self._store.metadata.task_defs)

    def schema_def(self, name: str, version: int | None) -> str | None:
        table = self._store.metadata.schema_defs
        if version is None:
            version = max((number for known, number in table if known == name), default=None)
        return None if version is None else table.get((name, version))

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        return sorted(self._store.metadata.schema_defs)

    def embed(self, digest: str, text: str) -> None:
        if digest not in self._store.metadata.definitions:
            self._store.put(self._store.metadata.definitions, digest, text)

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        store = self._store
        if (name, version) not in store.metadata.workflow_defs:
            store.add(store.metadata.workflow_versions.setdefault(name, Ordered()), (version,))
        store.put(store.metadata.workflow_defs, (name, version), text)
        self._registry_changed()

    def drop_workflow_def(self, name: str, version: int) -> None:
        store = self._store
        if store.drop(store.metadata.workflow_defs, (name, version)) is not None:
            store.discard(store.metadata.workflow_versions[name], (version,))
        self._registry_changed()

    def put_task_def(self, name: str, text: str) -> None:
        self._store.put(self._store.metadata.task_defs, name, text)
        self._registry_changed()

    def drop_task_def(self, name: str) -> None:
        self._store.drop(self._store.metadata.task_defs, name)
        self._registry_changed()

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        store = self._store
        store.put(store.metadata.schema_defs, (name, version), text)
        store.put(store.counters, "registry", store.counters["registry"] + 1)

    def _registry_changed(self) -> None:
        counters = self._store.counters
        self._store.put(counters, "registry", counters["registry"] + 1)


class MemoryEventHandlers:
    """Event handlers, and what became of messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handler(self, name: str) -> str | None:
        found = self._store.events.handlers.get(name)
        return None if found is None else found[2]

    def handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        return [
            text
            for _, (its_event, active, text) in sorted(self._store.events.handlers.items())
            if (event is None or its_event == event) and (active or not active_only)
        ]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        return self._store.events.executions.get((name, event, message_id, number))

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        index = ("message", message_id) if message_id is not None else ("name", name) if name is not None else ("all", "")
        places = self._store.events.places.get((index[0], index[1] or ""))
        rows = (self._store.events.executions[place[1:]] for place in (() if places is None else places.before(after)))
        return list(islice((row for row in rows if name is None or row.name == name), limit))

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        self._store.put(self._store.events.handlers, name, (event, active, text))

    def drop_event_handler(self, name: str) -> None:
        self._store.drop(self._store.events.handlers, name)

    def add_event_execution(self, execution: EventExecution) -> None:
        store = self._store
        if execution.key in store.events.executions:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")
        store.put(store.events.executions, execution.key, execution)
        for index in _indexes(execution):
            store.add(store.events.places.setdefault(index, Ordered()), execution.place)

    def drop_event_executions(self, before: int, limit: int, message_id: str | None = None, without: str | None = None) -> int:
        store = self._store
        old = takewhile(lambda place: place[0] < before, store.events.places.get(("all", ""), Ordered()))
        meant = (place for place in old if message_id in (None, place[3]) and place[3] != without)
        places = list(islice(meant, limit))
        for place in places:
            execution = store.events.executions[place[1:]]
            store.drop(store.events.executions, execution.key)
            for index in _indexes(execution):
                store.discard(store.events.places[index], place)
        return len(places)


class MemorySchedules:
    """Schedules, each with an inbox."""

    def __init__(self, store: Store, *, inbox: MemoryInbox) -> None:
        self._store, self._inbox = store, inbox

    def schedule(self, name: str) -> ScheduleRow | None:
        return self._store.beside.schedules.get(name)

    def page(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        return [self._store.beside.schedules[name] for (name,) in islice(self._store.beside.schedule_names.after((after,)), limit)]

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        store = self._store
        stored = store.beside.schedules.get(row.name)
        if (0 if stored is None else stored.fence) != row.fence:
            raise FencedOut(f"schedule {row.name!r}: somebody else changed it after fence {row.fence} was read")
        if stored is None:
            store.add(store.beside.schedule_names, (row.name,))
        store.put(store.beside.schedules, row.name, attrs.evolve(row, fence=row.fence + 1))
        for event_id in consumed:
            self._inbox.drop_event(store.execution(row.address), event_id)
        self._inbox.post(events)

    def drop_schedule(self, name: str) -> None:
        store = self._store
        row = store.drop(store.beside.schedules, name)
        if row is not None:
            store.discard(store.beside.schedule_names, (name,))
            self._inbox.empty(row.address)


class MemoryArchive:
    """Executions that have left the store."""

    def __init__(self, store: Store, *, feeds: MemoryFeeds) -> None:
        self._store, self._feeds = store, feeds

    def archived(self, workflow_id: str) -> Archived | None:
        return self._store.beside.archive.get(workflow_id)

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        return [workflow_id for (workflow_id,) in islice(self._store.beside.archived_ids.after((after,)), limit)]

    def put_archived(self, archived: Archived) -> None:
        self.drop_archived(archived.workflow_id)
        store = self._store
        store.put(store.beside.archive, archived.workflow_id, archived)
        store.add(store.beside.archived_ids, (archived.workflow_id,))
        self._feeds.pend(archived.workflow_id)

    def drop_archived(self, workflow_id: str) -> bool:
        store = self._store
        if store.drop(store.beside.archive, workflow_id) is None:
            return False
        store.discard(store.beside.archived_ids, (workflow_id,))
        self._feeds.pend(workflow_id)
        return True


def _indexes(execution: EventExecution) -> tuple[tuple[str, str], ...]:
    return (("all", ""), ("name", execution.name), ("message", execution.message_id))
