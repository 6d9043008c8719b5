"""What an index is told of a change, and what a search without an index looks at: documents made of what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import attrs

from conductorlite.canonical import Payload
from conductorlite.codec.archives import unpacked
from conductorlite.engine.paging import stored_pages
from conductorlite.engine.turns import Turns
from conductorlite.errors import StorageCorrupt
from conductorlite.executions import Task, Workflow
from conductorlite.ports import Backend, Change, ReadingTransaction
from conductorlite.search import Asked, Document, matches, task_document, workflow_document
from conductorlite.search.documents import shown

__all__ = ["Library"]

#: Executions read in one view.
_PAGE: Final = 200


class Library:
    """Makes documents of the executions in one store."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def changed(self, view: ReadingTransaction, change: Change) -> Sequence[Document]:
        """The documents of a change: the execution's, and those of the attempts it names; none when it is gone."""
        row = view.workflow(change.workflow_id)
        if row is None:
            return list(self._archived(view, change.workflow_id))
        if change.removed:
            attempts = view.attempts(change.workflow_id)
        else:
            attempts = view.attempts_at(change.workflow_id, change.places) if change.places else ()
        return list(self._stored(view, row, attempts))

    def all(self, backend: Backend, *, tasks: bool, wanted: Asked) -> Iterator[Document]:
        """The documents of all executions, stored and archived, or of all their attempts, that answer a search; reads everything.

        They hold what is shown of them, and no longer what they were found by.
        """
        for archived in (False, True):

            def page(
                view: ReadingTransaction, after: str, size: int, archived: bool = archived
            ) -> list[tuple[str, list[Document]]]:
                ids = view.archived_ids(after, size) if archived else view.workflow_ids(None, after, size)
                return [(one, list(self._answering(view, one, wanted, archived=archived, tasks=tasks))) for one in ids]

            for found in stored_pages(backend, page, "", lambda one: one[0], _PAGE):
                yield from chain.from_iterable(documents for _, documents in found)

    def _answering(
        self, view: ReadingTransaction, workflow_id: str, wanted: Asked, *, archived: bool, tasks: bool
    ) -> Iterator[Document]:
        for document in self._one(view, workflow_id, archived=archived, tasks=tasks):
            if matches(document, wanted):
                yield shown(document)

    def _one(self, view: ReadingTransaction, workflow_id: str, *, archived: bool, tasks: bool) -> Iterator[Document]:
        row = view.workflow(workflow_id)
        if archived:
            found = iter(()) if row is not None else self._archived(view, workflow_id)
        elif row is None:
            return
        else:
            found = self._stored(view, row, view.attempts(workflow_id) if tasks else ())
        yield from (document for document in found if (document.place is not None) is tasks)

    def _stored(self, view: ReadingTransaction, row: Workflow, attempts: Sequence[Task]) -> Iterator[Document]:
        absent = {p.digest for task in attempts for p in (task.input, task.output) if p.absent}
        absent |= {p.digest for p in (row.input, row.output) if p.absent}
        texts = self._texts(view, row.workflow_id, absent) if absent else {}
        given, output = (texts.get(p.digest, p) if p.absent else p for p in (row.input, row.output))
        row = attrs.evolve(row, input=given, output=output)
        yield workflow_document(row)
        for task in attempts:
            given, output = (texts.get(p.digest, p) if p.absent else p for p in (task.input, task.output))
            yield task_document(attrs.evolve(task, input=given, output=output), row)

    def _texts(self, view: ReadingTransaction, workflow_id: str, digests: set[str]) -> dict[str, Payload]:
        try:
            return self._turns.texts(view, workflow_id, digests)
        except StorageCorrupt:  # one that is lost is not looked into; `check` tells of it
            return {}

    def _archived(self, view: ReadingTransaction, workflow_id: str) -> Iterator[Document]:
        archived = view.archived(workflow_id)
        if archived is None:
            return
        try:
            row = unpacked(archived.document).workflow
        except StorageCorrupt:
            return
        yield workflow_document(row, archived=True)
        for task in row.tasks:
            yield task_document(task, row)
