"""`MemoryIndex`: an external index in memory, which answers by matching every document."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, final

from conductorlite.model import attrs
from conductorlite.model.errors import EngineClosed, StorageBusy
from conductorlite.store.documents import TASKS, Cell, Document
from conductorlite.store.search import Asked, SearchResult, TaskSummary, WorkflowSummary, answer, matches, summary, task_summary

__all__ = ["MemoryIndex"]

_INHERITED: Final = {"workflowType": "workflowType", "workflowPriority": "priority", "correlationId": "correlationId"}


@attrs.frozen(slots=True)
class _State:
    """What an index holds: its name, how often it was fed, and documents by id and place."""

    identity: str = attrs.field(factory=lambda: os.urandom(16).hex())
    position: int = 0
    documents: Mapping[tuple[str, tuple[str, int] | None], Document] = attrs.field(factory=dict)


class _Change:
    """One change: made on a copy, which is seen when its block ends."""

    def __init__(self, state: _State) -> None:
        self.identity = state.identity
        self.position = state.position
        self.documents = dict(state.documents)

    def put(self, documents: Iterable[Document]) -> None:
        """Index executions and attempts, in the place of what was known of them."""
        self.documents |= {(one.workflow_id, one.place): one for one in documents}

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""
        gone = set(workflow_ids)
        self.documents = {key: one for key, one in self.documents.items() if key[0] not in gone}

    def remove_tasks(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> None:
        """Forget attempts of an execution."""
        for place in places:
            self.documents.pop((workflow_id, place), None)

    def settle(self, position: int) -> None:
        """Keep how often the index was fed."""
        self.position = position

    def clear(self) -> None:
        """Forget everything, the position too; the index has a new name then."""
        state = _State()
        self.identity, self.position, self.documents = state.identity, 0, {}


@final
class MemoryIndex:
    """An `IndexDAO` for tests, and an example of one. With `beside` it is another handle on the same index."""

    def __init__(self, beside: MemoryIndex | None = None) -> None:
        self._held: list[_State] = [_State()] if beside is None else beside._held
        self._mutex: threading.Lock = threading.Lock() if beside is None else beside._mutex
        self._closed = False

    @property
    def _state(self) -> _State:
        if self._closed:
            raise EngineClosed("the index was closed")
        return self._held[0]

    @contextmanager
    def changing(self) -> Iterator[_Change]:
        """A change, one at a time; raises StorageBusy at once."""
        change = _Change(self._state)
        if not self._mutex.acquire(blocking=False):
            raise StorageBusy("the index in memory is being changed")
        try:
            change = _Change(self._state)
            yield change
            self._held[0] = _State(change.identity, change.position, change.documents)
        finally:
            self._mutex.release()

    def standing(self) -> tuple[str, int]:
        """Identity and position."""
        return self._state.identity, self._state.position

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        found = [one for one in self._state.documents.values() if one.place is None]
        if asked.with_task is not None:
            ids = {one.workflow_id for one in self._attempts() if matches(one, asked.with_task)}
            found = [one for one in found if one.workflow_id in ids]
        total, page = answer(found, asked)
        return SearchResult(total_hits=total, results=tuple(map(summary, page)))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        total, page = answer(self._attempts(), asked)
        return SearchResult(total_hits=total, results=tuple(task_summary(one.fields, one.input, one.output) for one in page))

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        return sorted({workflow_id for workflow_id, _ in self._state.documents if workflow_id > after})[:limit]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution."""
        executions = [one for one in self._state.documents.values() if one.place is None and one.workflow_id == workflow_id]
        return [*executions, *(one for one in self._attempts() if one.workflow_id == workflow_id)]

    def _attempts(self) -> list[Document]:
        known = self._state.documents
        return [_inheriting(one, known.get((one.workflow_id, None))) for one in known.values() if one.place is not None]

    def start_over(self) -> None:
        """Begin an empty index; nothing is set aside."""
        self._held[0] = _State()

    def close(self) -> None:
        """Refuse further use of this handle; idempotent."""
        self._closed = True


def _inheriting(attempt: Document, execution: Document | None) -> Document:
    above: Mapping[str, Cell] = {} if execution is None else execution.fields
    fields = {name: value for name, value in attempt.fields.items() if name not in TASKS.inherited}
    return attrs.evolve(attempt, fields=fields | {name: above[of] for name, of in _INHERITED.items() if of in above})
