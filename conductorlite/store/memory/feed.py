"""What is to be indexed of a memory store, what is archived, and how much it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task
from conductorlite.store.memory.rows import BaseReads, BaseWrites, Execution
from conductorlite.store.tables import Archived, Change, Feed, FeedKind, Size, Sizes

__all__ = ["FeedReads", "FeedWrites"]


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
        "history": _size((line.payload, line.cause, line.reason) for line in execution.history.values()),
        "texts": _size((text,) for text in execution.texts.values()),
        "logs": Size(sum(size.rows for size in logged), sum(size.bytes for size in logged)),
        "events": _size((event.data,) for event in execution.inbox.values()),
    }


class FeedReads(BaseReads):
    """What is to be indexed, what is archived, and how much there is."""

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
            yield Change(workflow_id=workflow_id, fence=None if row is None else row.fence, pending=numbers)
        for workflow_id, row in store.workflows.items():
            since = store.indexed.get((kind, workflow_id))
            if since != row.fence and (since is None or workflow_id not in pending):
                yield Change(workflow_id=workflow_id, fence=row.fence, since=since)

    def behind(self, kind: FeedKind, limit: int) -> int:
        return len(self.changes(kind, 0, limit))

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        """Whether an execution is among the changes."""
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
        kinds = dict.fromkeys(("executions", "tasks", "history", "texts", "logs", "events"), Size(0, 0))
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
        kinds["messages"] = Size(len(store.messages), 0)
        kinds["definitions"] = _size((text,) for text in store.definitions.values())
        kinds["archive"] = _size((archived.document,) for archived in store.archive.values())
        kinds["changes"] = Size(len(store.pending), 0)
        return Sizes(kinds=kinds, executions=own)


class FeedWrites(FeedReads, BaseWrites):
    """Keeping what was indexed and archived."""

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
