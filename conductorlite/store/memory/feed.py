"""What an index is told of a memory store: `ChangeReads` and `ChangeWrites`.

Archived executions in a memory store, and how much it holds: `Archive…` and `UpkeepReads`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task
from conductorlite.store.bookkeeping import Change, Feed, Size, Sizes
from conductorlite.store.memory.rows import Execution, Store
from conductorlite.store.tables import Archived

__all__ = ["ROW", "MemoryArchiveWrites", "MemoryChangeReads", "MemoryChangeWrites", "MemoryUpkeepReads"]

#: The place of the execution's own row, and that of its deletion.
ROW: Final = ("", -1)
GONE: Final = ("", -2)

_STORED: Final = "stored:"
_ARCHIVED: Final = "archived:"


class MemoryChangeReads:
    """What was noted."""

    _store: Store

    def feed(self) -> Feed | None:
        """The feed, or None when nothing is noted."""
        return self._store.feed.get("feed")

    def changes(self, limit: int) -> Sequence[Change]:
        """What the oldest notes tell, by execution."""
        noted: dict[str, list[tuple[int, str, str, int]]] = {}
        for note in islice(self._store.notes, limit):
            noted.setdefault(note[1], []).append(note)
        return [
            Change(
                workflow_id=workflow_id,
                fence=self._fence(workflow_id),
                places=tuple((ref, attempt) for _, _, ref, attempt in notes if attempt >= 0),
                removed=any(note[3] < -1 for note in notes),
                numbers=tuple(note[0] for note in notes),
            )
            for workflow_id, notes in noted.items()
        ]

    def _fence(self, workflow_id: str) -> int | None:
        row = self._store.workflows.get(workflow_id)
        return None if row is None else row.fence

    def behind(self, limit: int) -> int:
        """Notes there are, counted up to `limit`."""
        return min(limit, len(self._store.noted))

    def noted(self, workflow_ids: Sequence[str]) -> frozenset[str]:
        """Those of the executions of which there are notes."""
        wanted = frozenset(workflow_ids)
        return frozenset(workflow_id for workflow_id, _, _ in self._store.noted if workflow_id in wanted)

    def attempts_at(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> Sequence[Task]:
        """The attempts at those places that exist."""
        execution = self._store.executions.get(workflow_id)
        attempts = {} if execution is None else execution.attempts
        return [attempts[place] for place in places if place in attempts]


class MemoryChangeWrites(MemoryChangeReads):
    """Noting."""

    def _changed(self, workflow_id: str, *, created: bool) -> None:
        """Note an execution; what is archived under the id of a new one is not found any more."""
        self._note(workflow_id)
        if created and workflow_id in self._store.archive:
            self._note(workflow_id, GONE)

    def _note(self, workflow_id: str, place: tuple[str, int] = ROW) -> None:
        """Note a change, if a feed is on and it is not noted yet."""
        store = self._store
        key = (workflow_id, *place)
        if store.feed and key not in store.noted:
            store.note_seq += 1  # not undone: a number is never used twice
            store.put(store.noted, key, store.note_seq)
            store.add(store.notes, (store.note_seq, *key))

    def _removed(self, workflow_id: str, place: tuple[str, int] = GONE) -> None:
        feed = self.feed()
        if feed is not None:
            self._store.put(self._store.feed, "feed", attrs.evolve(feed, removals=feed.removals + 1))
            self._note(workflow_id, place)

    def _drop_notes(self, numbers: Sequence[int]) -> None:
        store = self._store
        for n in numbers:
            note = next(iter(store.notes.after((n - 1, "\U0010ffff"))), None)
            if note is not None and note[0] == n:
                store.discard(store.notes, note)
                store.drop(store.noted, note[1:])

    def begin_feed(self, reader: str) -> None:
        """From now on note changes for this reader, and begin to note all that is stored and archived."""
        self.end_feed()
        self._store.put(self._store.feed, "feed", Feed(reader=reader, noting=_STORED))

    def note_stored(self, limit: int) -> None:
        """Note up to `limit` more of the executions that were there before, with all their attempts."""
        feed = self.feed()
        if feed is None or feed.noting is None:
            return
        store = self._store
        stored = feed.noting.startswith(_STORED)
        after = feed.noting.removeprefix(_STORED if stored else _ARCHIVED)
        ids = [found for (found,) in islice((store.ids if stored else store.archived_ids).after((after,)), limit)]
        for workflow_id in ids:
            self._note(workflow_id)
            for place in store.execution(workflow_id).attempts if stored else ():
                self._note(workflow_id, place)
        noting: str | None
        if len(ids) == limit:
            noting = (_STORED if stored else _ARCHIVED) + ids[-1]
        else:
            noting = _ARCHIVED if stored else None
        store.put(store.feed, "feed", attrs.evolve(feed, noting=noting, until=store.note_seq if store.noted else 0))

    def note_again(self, workflow_ids: Sequence[str]) -> None:
        """Note executions as if each had been deleted and begun anew."""
        for workflow_id in workflow_ids:
            self._note(workflow_id, GONE)

    def forget(self, changes: Sequence[Change], feed: Feed) -> None:
        """Drop what the reader of `feed` was told, and count it, if the feed still stands where it stood."""
        now = self.feed()
        if now is None or (now.reader, now.position) != (feed.reader, feed.position):
            return
        now = attrs.evolve(now, position=now.position + 1)
        if now.removals == feed.removals:
            for change in changes:
                if self._fence(change.workflow_id) == change.fence:
                    self._drop_notes(change.numbers)
            first = self._store.notes.first()
            if now.noting is None and (first is None or first[0] > now.until):
                now = attrs.evolve(now, until=0)
        self._store.put(self._store.feed, "feed", now)

    def end_feed(self) -> None:
        """Note nothing more, and drop what was noted."""
        self._store.drop(self._store.feed, "feed")
        self._drop_notes(list(self._store.noted.values()))


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
