"""Searching: by the index when it knows everything, else by looking at what is stored.

Whether an index agrees with its store: what it knows of each execution is compared with what is stored or archived.

An index lags behind, and others feed it meanwhile. So what is noted for it is no difference; and the index is asked where it stands
before and after: if it was not fed in between, and the store was read in between, then all that is not noted must be the same on
both sides. Else the execution is looked at again. Nothing is held of one side while the other is read, and one execution at a time.

What an index is told of a change, and what a search without an index looks at: documents made of what is stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.index_feed import Feeder, IndexHealth, belongs
from conductorlite.engine.invariants import Finding
from conductorlite.engine.queries import Queries
from conductorlite.engine.turn_types import pages, stored_pages
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Payload
from conductorlite.model.documents import unpacked
from conductorlite.model.errors import EngineClosed, InvalidInput, PayloadUnavailable, StorageCorrupt
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.texts import printable
from conductorlite.store.bookkeeping import Change
from conductorlite.store.documents import TASKS, WORKFLOWS, Document, shown, task_document, workflow_document
from conductorlite.store.ports import Backend, IndexDAO, ReadingTransaction
from conductorlite.store.search import (
    Asked,
    SearchResult,
    TaskSummary,
    WorkflowSummary,
    asked,
    matches,
    page_of,
    task_summary,
    workflow_summary,
)

__all__ = ["Comparison", "Library", "Searching", "Where", "index_of"]

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


_LAW: Final = "the_index_agrees"

#: Ids read at once.
_IDS_PAGE: Final = 200

#: How often an execution is looked at while others feed the index; then it is left to the next comparison.
_TRIES: Final = 20

T = TypeVar("T")
Place = tuple[str, int] | None


class _Hidden(Exception):
    """One side cannot be seen; never leaves this file."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(printable(cause, 200))
        self.cause = cause


@attrs.define(kw_only=True, slots=True)
class Comparison:
    """Compares an index with its store. While the index is not complete there is no difference: no search asks it then."""

    backend: Backend
    index: IndexDAO
    library: Library
    #: What kept the index, or a payload, from being read; what was found until then is true.
    error: Exception | None = None

    def findings(self, workflow_id: str | None = None) -> Iterator[Finding]:
        """Every difference, of one execution or of all that are stored, archived, or known to the index; raises StorageErrors."""
        try:
            for one in self._ids() if workflow_id is None else [workflow_id]:
                found = self._differences(one)
                if found is None:
                    return
                yield from (Finding(law=_LAW, workflow_id=one, text=text) for text in found)
        except _Hidden as hidden:
            self.error = hidden.cause
            yield Finding(law=_LAW, workflow_id="", text=f"the index cannot be compared: {hidden}")

    def _ids(self) -> Iterator[str]:
        """The ids of either side, each once."""

        stored = stored_pages(self.backend, lambda view, after, size: view.workflow_ids(None, after, size), "", str, _IDS_PAGE)
        archived = stored_pages(self.backend, lambda view, after, size: view.archived_ids(after, size), "", str, _IDS_PAGE)
        known = pages(lambda after, size: self._asked(lambda: self.index.known(after, size)), "", str, _IDS_PAGE)
        return (one for one, _ in groupby(merge(*map(chain.from_iterable, (stored, archived, known)))))

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except EngineClosed:
            raise
        except Exception as error:
            raise _Hidden(error) from error

    def _differences(self, workflow_id: str) -> list[str] | None:
        """How the index differs on one execution; None when it is not to be compared at all."""
        for _ in range(_TRIES):
            standing = self._asked(self.index.standing)
            known = self._asked(lambda: self.index.documents(workflow_id))
            with self.backend.reading() as view:
                feed = view.feed()
                if feed is None or not feed.complete:
                    return None
                if view.noted([workflow_id]):
                    return []
                followed = belongs(feed, *standing)
                try:
                    # As of one that was removed: all that there is of it.
                    stored = self.library.changed(view, Change(workflow_id=workflow_id, fence=None, removed=True))
                except PayloadUnavailable as error:
                    raise _Hidden(error) from error
            found = _told(stored, known)
            if followed and not found:
                return found
            if self._asked(self.index.standing) == standing:
                return found if followed else None
        return []


def _told(stored: Sequence[Document], known: Sequence[Document]) -> list[str]:
    """The differences, in words."""
    ours: Mapping[Place, Document] = {one.place: one for one in stored}
    theirs: Mapping[Place, Document] = {one.place: one for one in known}
    if not ours:
        return ["the index knows it, and it is neither stored nor archived"] if theirs else []
    if not theirs:
        return ["the index does not know it"]
    found = []
    for place in sorted(ours.keys() | theirs.keys(), key=lambda one: one or ("", -1)):
        name = "" if place is None else f"{place[0]} attempt {place[1]}: "
        one, other = ours.get(place), theirs.get(place)
        if other is None:
            found.append(f"{name}the index does not know it")
        elif one is None:
            found.append(f"{name}the index knows it, and there is no such attempt")
        elif names := _differing(one, other):
            found.append(f"{name}the index has another {', '.join(names)}")
    return found


def _differing(one: Document, other: Document) -> list[str]:
    """Names of the fields, and of what else a document holds, in which two differ."""
    fields = one.fields.keys() | other.fields.keys()
    found = sorted(name for name in fields if one.fields.get(name) != other.fields.get(name))
    found += [name for name in ("input", "output", "words") if getattr(one, name) != getattr(other, name)]
    return found + (["values"] if set(one.values) != set(other.values) else [])


#: What `Engine(index=…)` takes.
Where = str | os.PathLike[str] | bool | IndexDAO | None

#: Meals an index is given before it answers.
_CATCHING_UP: Final = 5

#: Differences that are noted in one commit.
_MENDED: Final = 200

S = TypeVar("S", WorkflowSummary, TaskSummary)


def index_of(where: Where, backend: Backend) -> IndexDAO | None:
    """The index of a store: none, one in a file, one of the caller's, or (True) in the file that goes with the store."""
    if where is None or (isinstance(where, bool) and not where):
        return None
    if not isinstance(where, bool | str | os.PathLike):
        return where
    # Imported on use: who has no index never pays for sqlite3.
    from conductorlite.store.index.index import SQLiteIndex

    if not isinstance(where, bool):
        return SQLiteIndex(where)
    store = getattr(backend, "path", None)
    return SQLiteIndex(None if store is None else Path(store).with_suffix(f".index{Path(store).suffix}"))


class Searching(Queries):
    """Verbs that search."""

    def __init__(self, *arguments: Any, index: Where = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._library = Library(self.turns)
        found = index_of(index, self.backend)
        #: What feeds the index, if there is one.
        self.feeder = None if found is None else Feeder(self.backend, self.clock, found, self._library.changed)

    def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Executions that answer a query and hold the words of a free text, archived ones included.

        `query` is Conductor's: `workflowType = 'order' AND (status IN (FAILED, TIMED_OUT) OR endTime > '2030-01-01')`, with =, !=,
        <, <=, >, >=, IN, BETWEEN, STARTS_WITH, IS NULL, NOT, and paths such as `input.order.id = 7`. `free_text` is words,
        `"phrases"` and `beginnings*`, all of which must be there. `sort` is `field:ASC|field:DESC`, by default the newest first.
        A page begins at `start` and holds up to `size`, at most 5,000. What can be asked: the how-to Search executions.

        With an index it answers; it is told of changes first, up to about a thousand, and `behind` says how many are left. Without
        one, and while it is built or does not work, every execution is looked at: the same answer, in time that grows with the
        store. Raises InvalidQuery, and InvalidInput for what is no text and for a page out of range.
        """
        return self._workflows(asked(WORKFLOWS, query, free_text, start, size, sort))

    def search_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[TaskSummary]:
        """Attempts that answer a query, of all executions: as `search`, with the fields of tasks; raises as it does."""
        wanted = asked(TASKS, query, free_text, start, size, sort)
        return self._found(wanted, lambda index: index.tasks(wanted), self._looked_at_tasks)

    def search_by_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Executions of which some attempt answers a query on the fields of tasks; `sort` is by fields of executions.

        Raises as `search` does.
        """
        within = asked(TASKS, query, free_text, 0, 0, "")
        return self._workflows(attrs.evolve(asked(WORKFLOWS, "", "*", start, size, sort), with_task=within))

    def _workflows(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        return self._found(wanted, lambda index: index.workflows(wanted), self._looked_at)

    def _found(
        self,
        wanted: Asked,
        ask: Callable[[IndexDAO], SearchResult[S]],
        look: Callable[[Asked], SearchResult[S]],
    ) -> SearchResult[S]:
        feeder = self.feeder
        if feeder is None:
            return look(wanted)
        for _ in range(_CATCHING_UP):
            if not feeder.feed():
                break
        try:
            if feeder.answers():
                behind = feeder.behind()
                return attrs.evolve(ask(feeder.index), behind=behind)
        except EngineClosed:
            raise
        except Exception as error:  # whatever it is, the store can still be asked
            feeder.doubt(error)
        return look(wanted)

    def _looked_at(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        """Every execution, looked at."""
        documents = self._library.all(self.backend, tasks=False, wanted=wanted)
        if wanted.with_task is not None:
            ids = {document.workflow_id for document in self._library.all(self.backend, tasks=True, wanted=wanted.with_task)}
            documents = (document for document in documents if document.workflow_id in ids)
        total, found = page_of(documents, wanted)
        return SearchResult(total_hits=total, results=tuple(_workflow(document) for document in found))

    def _looked_at_tasks(self, wanted: Asked) -> SearchResult[TaskSummary]:
        total, found = page_of(self._library.all(self.backend, tasks=True, wanted=wanted), wanted)
        results = tuple(task_summary(document.fields, document.input, document.output) for document in found)
        return SearchResult(total_hits=total, results=results)

    def relay(self, meals: int = 1_000) -> int:
        """Tell the index what has changed, up to so many meals of about 200 changes each; returns how many there were.

        The driver does this when nothing else is ready, so a program that is driven need not. Also tries an index that has failed,
        at once. Nothing is raised for what is wrong with the index: see `index_health`. Without an index nothing happens.
        """
        if meals < 1:
            raise InvalidInput(f"meals {meals} is below 1")
        told = 0
        while self.feeder is not None and told < meals and self.feeder.feed(patient=False):
            told += 1
        return told

    def index_health(self) -> IndexHealth | None:
        """How the index is: complete, how far behind, what went wrong; None without an index."""
        return None if self.feeder is None else self.feeder.health()

    def rebuild_index(self) -> None:
        """Empty the index and tell it everything that is stored and archived anew; raises what is wrong with it.

        Returns when it is done. Until then searches look at the store. Raises InvalidInput without an index, and StorageErrors.
        """
        if self.feeder is None:
            raise InvalidInput("there is no index: Engine(…, index=True) has one")
        self.feeder.rebuild()
        while self.feeder.feed(patient=False):
            pass
        self.feeder.check()

    def forget_index(self) -> None:
        """Note no more what an index would have to be told; for a store that is used without one from now on.

        Without an index the store goes on noting, one row for each execution and attempt that changes. The index's file may be
        deleted afterwards; an engine that has an index again builds it anew.
        """
        with self.backend.writing() as tx:
            tx.end_feed()

    def _comparison(self, index: IndexDAO) -> Comparison:
        return Comparison(backend=self.backend, index=index, library=self._library)

    def _index_compared(self, workflow_id: str | None) -> Iterable[Finding]:
        return () if self.feeder is None else self._comparison(self.feeder.index).findings(workflow_id)

    def _index_mended(self, workflow_id: str | None) -> list[Finding]:
        """Have the index told anew of each execution on which it differs, once it was told what was noted; says of which."""
        feeder = self.feeder
        if feeder is None:
            return []
        self.relay()
        done: list[Finding] = []
        comparison = self._comparison(feeder.index)
        differing = (found for found in comparison.findings(workflow_id) if comparison.error is None)
        while page := list(islice(differing, _MENDED)):
            with self.backend.writing() as tx:
                tx.note_again(sorted({found.workflow_id for found in page}))
            done += [attrs.evolve(found, text=f"{found.text}; the index is told anew") for found in page]
        if isinstance(comparison.error, StorageCorrupt):
            feeder.doubt(comparison.error)
        trouble = feeder.trouble
        self.relay()
        if isinstance(trouble, StorageCorrupt) and feeder.trouble is None:
            text = f"the index was set aside and is made anew; it could not be read: {trouble}"
            done.append(Finding(law="the_index_agrees", workflow_id="", text=text))
        return done

    def close(self) -> None:
        """Release the index and the backend; idempotent."""
        if self.feeder is not None:
            self.feeder.index.close()
        super().close()


def _workflow(document: Document) -> WorkflowSummary:
    names = ("failedReferenceTaskNames", "failedTaskNames")
    failed = {name: _texts(document, name) for name in names}
    return workflow_summary(document.fields, failed, document.input, document.output)


def _texts(document: Document, name: str) -> tuple[str, ...]:
    texts: Sequence[str] = [str(value) for path, value in document.values if path == name]
    return tuple(sorted(texts))
