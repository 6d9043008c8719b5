"""Archived executions in a memory store, and how much it holds: `ports.Archive…` and `ports.UpkeepReads`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from conductorlite.backends.memory.changes import ROW, MemoryChangeWrites
from conductorlite.backends.memory.store import Execution, Store
from conductorlite.canonical import Payload
from conductorlite.ports import Archived, Size, Sizes

__all__ = ["MemoryArchiveWrites", "MemoryUpkeepReads"]


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


class MemoryUpkeepReads:
    """Finding archived executions; measuring."""

    _store: Store

    def archived(self, workflow_id: str) -> Archived | None:
        """An archived execution, or None."""
        return self._store.archive.get(workflow_id)

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        """A page of ids in ascending order, greater than `after`."""
        return [workflow_id for (workflow_id,) in islice(self._store.archived_ids.after((after,)), limit)]

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
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
        kinds["changes"] = Size(len(store.noted), 0)
        return Sizes(kinds=kinds, executions=own)


class MemoryArchiveWrites(MemoryChangeWrites):
    """Keeping archived executions."""

    def archive(self, archived: Archived) -> None:
        """Keep an execution, in the place of one of the same id."""
        self.drop_archived(archived.workflow_id)
        store = self._store
        store.put(store.archive, archived.workflow_id, archived)
        store.add(store.archived_ids, (archived.workflow_id,))
        self._note(archived.workflow_id)

    def drop_archived(self, workflow_id: str) -> bool:
        """Delete an archived execution; False when there is none."""
        store = self._store
        if store.drop(store.archive, workflow_id) is None:
            return False
        store.discard(store.archived_ids, (workflow_id,))
        self._removed(workflow_id, ROW)
        return True
