"""Searching: by the index in the store's own file, or an external one that is up to date, else by looking at what is stored.

What it guarantees. An index that is busy, damaged, incomplete or out of reach makes no search fail: what is stored is searched
then, with the same answer. The store's own index answers exactly, for all that was committed before is put into it first. An
external index may lag behind by what one search cannot feed; the result says by how much (`behind`).

How it works. Documents are made of what is stored or archived, the same for an index and for a search without one. A store in
memory has no index, and one that cannot be written at present does without: there each execution is looked at.

Whether an index agrees with its store is a comparison of documents, one execution at a time; nothing is locked on one side while
the other is read. An external index is fed by others meanwhile, and what is still to be indexed is no difference. So it is asked
where it stands before and after: only if it was not fed in between is a difference one; else the execution is looked at again.

What is not pretty. An external index may raise anything, so errors of any type are caught around it and noted with its feeder.

Source of the rule: Conductor's `IndexDAO`, which it fills while a workflow is stored; here no turn waits for an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import chain, groupby, islice
from typing import Final, TypeVar

import attrs

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.index_feed import COUNTED, Feeder, IndexHealth, OwnFeeder, Progress, external_feeds, searched
from conductorlite.engine.invariants import Finding
from conductorlite.engine.logs import log_store
from conductorlite.engine.turn_types import pages, stored_pages
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Payload
from conductorlite.model.documents import unpacked
from conductorlite.model.errors import (
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    PayloadUnavailable,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
)
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.texts import printable
from conductorlite.store.documents import Document, shown, task_document, workflow_document
from conductorlite.store.ports import Backend, IndexDAO, IndexReads, ReadingTransaction
from conductorlite.store.search import (
    Asked,
    SearchResult,
    TaskSummary,
    WorkflowSummary,
    matches,
    page_of,
    summary,
    task_summary,
)
from conductorlite.store.tables import Change, FeedKind

__all__ = ["Comparison", "Library", "Search"]

#: Executions read in one view, ids read at once.
_PAGE: Final = 200


R = TypeVar("R", Workflow, Task)


class Library:
    """Makes documents of the executions in one store."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def changed(self, view: ReadingTransaction, change: Change) -> Sequence[Document]:
        """The documents of a change: the execution's, and those of the attempts that have changed; none of what comes as new."""
        if change.fence is None and view.executions.workflow(change.workflow_id) is not None:
            return ()
        return self.of(view, change.workflow_id, change.since)

    def of(self, view: ReadingTransaction, workflow_id: str, since: int | None = None) -> Sequence[Document]:
        """The documents of one execution, stored or archived, of its attempts those that have changed since a fence."""
        row = view.executions.workflow(workflow_id)
        if row is None:
            return list(self._archived(view, workflow_id))
        attempts = view.executions.attempts(workflow_id) if since is None else view.executions.attempts_since(workflow_id, since)
        return list(self._stored(view, row, attempts))

    def all(self, backend: Backend, *, tasks: bool, wanted: Asked) -> Iterator[Document]:
        """The documents of all executions, stored and archived, or of all their attempts, that answer a search; reads everything.

        They hold what is shown of them, and no longer what they were found by.
        """
        for archived in (False, True):

            def page(
                view: ReadingTransaction, after: str, size: int, archived: bool = archived
            ) -> list[tuple[str, list[Document]]]:
                ids = view.archive.archived_ids(after, size) if archived else view.executions.workflow_ids(None, after, size)
                return [(one, list(self._answering(view, one, wanted, archived=archived, tasks=tasks))) for one in ids]

            for found in stored_pages(backend, page, "", lambda one: one[0], _PAGE):
                yield from chain.from_iterable(documents for _, documents in found)

    def _answering(
        self, view: ReadingTransaction, workflow_id: str, wanted: Asked, *, archived: bool, tasks: bool
    ) -> Iterator[Document]:
        for document in self._one(view, workflow_id, archived=archived, tasks=tasks, words=bool(wanted.phrases)):
            if matches(document, wanted):
                yield shown(document)

    def _one(self, view: ReadingTransaction, workflow_id: str, *, archived: bool, tasks: bool, words: bool) -> Iterator[Document]:
        row = view.executions.workflow(workflow_id)
        if archived:
            found = iter(()) if row is not None else self._archived(view, workflow_id, words=words)
        elif row is None:
            return
        else:
            found = self._stored(view, row, view.executions.attempts(workflow_id) if tasks else (), words=words)
        yield from (document for document in found if (document.place is not None) is tasks)

    def _stored(
        self, view: ReadingTransaction, row: Workflow, attempts: Sequence[Task], *, words: bool = True
    ) -> Iterator[Document]:
        absent = {p.digest for one in (row, *attempts) for p in (one.input, one.output) if p.absent}
        texts = self._texts(view, row.workflow_id, absent) if absent else {}

        def whole(one: R) -> R:
            given, output = (texts.get(p.digest, p) if p.absent else p for p in (one.input, one.output))
            return attrs.evolve(one, input=given, output=output) if texts else one

        row = whole(row)
        yield workflow_document(row, words=words)
        for task in attempts:
            yield task_document(whole(task), row, words=words)

    def _texts(self, view: ReadingTransaction, workflow_id: str, digests: set[str]) -> dict[str, Payload]:
        try:
            return self._turns.lookups.texts(view, workflow_id, digests)
        except StorageCorrupt:  # one that is lost is not looked into; `check` finds it
            return {}

    def _archived(self, view: ReadingTransaction, workflow_id: str, *, words: bool = True) -> Iterator[Document]:
        archived = view.archive.archived(workflow_id)
        if archived is None:
            return
        try:
            row = unpacked(archived.document).workflow
        except StorageCorrupt:
            return  # one that cannot be read is not found; `check` reports it
        yield workflow_document(row, archived=True, words=words)
        for task in row.tasks:
            yield task_document(task, row, words=words)


_LAW: Final = "the_index_agrees"

#: How often an execution is looked at while others feed the index; then it is left to the next comparison.
_TRIES: Final = 20

T = TypeVar("T")
DocumentKey = tuple[str, int] | None


class _Hidden(Exception):
    """One side cannot be seen; never leaves this file."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(printable(cause, 200))
        self.cause = cause


@attrs.define(kw_only=True, slots=True)
class Comparison:
    """Compares an index, the store's own (None) or one elsewhere, with its store.

    While it does not know everything there is no difference: no search asks it then.
    """

    backend: Backend
    index: IndexDAO | None
    library: Library
    #: What kept the index, or a payload, from being read; what was found until then is true.
    error: Exception | None = None

    def findings(self, workflow_id: str | None = None) -> Iterator[Finding]:
        """Every difference, of one execution or of all that are stored, archived, or known to the index; raises StorageErrors."""
        look = self._own_differences if self.index is None else partial(self._differences, self.index)
        try:
            if self._stands_alone():
                return
            for one in self._ids() if workflow_id is None else [workflow_id]:
                found = look(one)
                if found is None:
                    return
                yield from (Finding(law=_LAW, workflow_id=one, text=text) for text in found)
        except _Hidden as hidden:
            self.error = hidden.cause
            yield Finding(law=_LAW, workflow_id="", text=f"the index cannot be compared: {hidden}")

    def _ids(self) -> Iterator[str]:
        """The ids of either side, each once."""

        stored = stored_pages(
            self.backend, lambda view, after, size: view.executions.workflow_ids(None, after, size), "", str, _PAGE
        )
        archived = stored_pages(self.backend, lambda view, after, size: view.archive.archived_ids(after, size), "", str, _PAGE)
        known = pages(lambda after, size: self._asked(lambda: self._known(after, size)), "", str, _PAGE)
        return (one for one, _ in groupby(merge(*map(chain.from_iterable, (stored, archived, known)))))

    def _known(self, after: str, size: int) -> Sequence[str]:
        if self.index is not None:
            return self.index.known(after, size)
        with self.backend.reading() as view:
            index = view.feeds.index()
            return () if index is None or view.feeds.feed(FeedKind.OWN) is None else index.known(after, size)

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except EngineClosed:
            raise
        except Exception as error:
            raise _Hidden(error) from error

    def _stands_alone(self) -> bool:
        """Return True if there is no index, here or elsewhere."""
        if self.index is not None:
            return False
        with self.backend.reading() as view:
            return view.feeds.index() is None

    def _own_differences(self, workflow_id: str) -> list[str] | None:
        with self.backend.reading() as view:
            index, feed = view.feeds.index(), view.feeds.feed(FeedKind.OWN)
            if index is None or feed is None or feed.reader != index.form:
                return None
            if view.feeds.is_pending(FeedKind.OWN, workflow_id):
                return []
            return _compared(self._stored(view, workflow_id), self._asked(lambda: index.documents(workflow_id)))

    def _stored(self, view: ReadingTransaction, workflow_id: str) -> Sequence[Document]:
        try:
            return self.library.of(view, workflow_id)
        except PayloadUnavailable as error:
            raise _Hidden(error) from error

    def _differences(self, index: IndexDAO, workflow_id: str) -> list[str] | None:
        """Return how the index differs on one execution; None when it is not to be compared at all."""
        for _ in range(_TRIES):
            standing = self._asked(index.standing)
            known = self._asked(lambda: index.documents(workflow_id))
            with self.backend.reading() as view:
                feeds = external_feeds(view)
                kind = searched(feeds, *standing)
                if not any(feed.complete for feed in feeds.values()) or (kind is not None and not feeds[kind].complete):
                    return None
                if kind is not None and view.feeds.is_pending(kind, workflow_id):
                    return []
                stored = self._stored(view, workflow_id)
            found = _compared(stored, known)
            if kind is not None and not found:
                return found
            if self._asked(index.standing) == standing:
                return None if kind is None else found
        return []


def _compared(stored: Sequence[Document], known: Sequence[Document]) -> list[str]:
    """The differences, in words."""
    ours: Mapping[DocumentKey, Document] = {one.place: one for one in stored}
    theirs: Mapping[DocumentKey, Document] = {one.place: one for one in known}
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


#: Batches an external index is given before it answers.
_CATCHING_UP: Final = 5

#: Differences that are set right in one commit.
_MENDED: Final = 200

S = TypeVar("S", WorkflowSummary, TaskSummary)


class Search(Part):
    """Answers searches, and keeps the indexes."""

    def __init__(self, turns: Turns, config: EngineConfig, index: IndexDAO | None) -> None:
        super().__init__(turns, config)
        if index is not None and not hasattr(index, "feed"):
            raise InvalidInput(f"index={printable(index, 80)} is no IndexDAO; the store's own index needs none")
        self._library = Library(self._turns)
        #: What feeds the index in the store's own file.
        self.own_feeder = OwnFeeder(self._backend, self._library.changed)
        #: What feeds the external index, if there is one.
        self.feeder = None if index is None else Feeder(self._backend, self._clock, index, self._library.changed)

    def workflows(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        return self._found(lambda index: index.workflows(wanted), lambda: self._looked_at(wanted))

    def tasks(self, wanted: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        return self._found(lambda index: index.tasks(wanted), lambda: self._looked_at_tasks(wanted))

    def _found(self, ask: Callable[[IndexReads], SearchResult[S]], look: Callable[[], SearchResult[S]]) -> SearchResult[S]:
        self._turns.joined.refuse("search")  # an index would be fed with what may never be committed
        feeder = self.feeder
        if feeder is None:
            return self._own_found(ask, look)
        feeder.catch_up(_CATCHING_UP)
        if feeder.is_out_of_reach():
            return self._own_found(ask, look)
        try:
            behind = feeder.answers()
            if behind is not None:
                return attrs.evolve(ask(feeder.index), behind=behind)
        except EngineClosed:
            raise
        except Exception as error:  # whatever it is, the store can still be asked
            feeder.record_failure(error)
        return self._own_found(ask, look)

    def _own_found(self, ask: Callable[[IndexReads], SearchResult[S]], look: Callable[[], SearchResult[S]]) -> SearchResult[S]:
        try:
            self.own_feeder.fill()
            with self._backend.reading() as view:
                if (index := view.feeds.index()) is not None:
                    self.own_feeder.used = True
                    return ask(index)
        except (StorageBusy, StorageFull, StorageCorrupt, PayloadUnavailable) as error:
            log_store("the store's own index was not asked", error)
            if isinstance(error, StorageCorrupt):
                with suppress(StorageError):  # the next search finds it damaged, logs that and tries again
                    self.own_feeder.reset()
        return look()

    def _looked_at(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        """Every execution, looked at."""
        documents = self._library.all(self._backend, tasks=False, wanted=wanted)
        if wanted.with_task is not None:
            ids = {document.workflow_id for document in self._library.all(self._backend, tasks=True, wanted=wanted.with_task)}
            documents = (document for document in documents if document.workflow_id in ids)
        total, found = page_of(documents, wanted)
        return SearchResult(total_hits=total, results=tuple(map(summary, found)))

    def _looked_at_tasks(self, wanted: Asked) -> SearchResult[TaskSummary]:
        total, found = page_of(self._library.all(self._backend, tasks=True, wanted=wanted), wanted)
        results = tuple(task_summary(document.fields, document.input, document.output) for document in found)
        return SearchResult(total_hits=total, results=results)

    def relay(self, batches: int = 1_000) -> int:
        """Index what has changed; see `Admin.relay`."""
        if batches < 1:
            raise InvalidInput(f"batches {batches} is below 1")
        done = 0
        while done < batches and (self.own_feeder.feed() if self.feeder is None else self.feeder.feed(backoff=False, wait=-1)):
            done += 1
        return done

    def health(self) -> IndexHealth | None:
        """Return the state of the index that is searched; see `Admin.index_health`."""
        if self.feeder is not None:
            return self.feeder.health()
        with self._backend.reading() as view:
            if view.feeds.index() is None:
                return None
            return IndexHealth(complete=view.feeds.feed(FeedKind.OWN) is not None, behind=view.feeds.behind(FeedKind.OWN, COUNTED))

    def rebuild(self, progress: Progress | None) -> None:
        """Fill the index again; see `Admin.rebuild_index`."""
        if self.feeder is not None:
            self.feeder.rebuild(progress)
            return
        with self._backend.reading() as view:
            if view.feeds.index() is None:
                raise InvalidInput("there is no index: in a store in memory every execution is looked at")
        self.own_feeder.reset()
        self.own_feeder.fill(progress)

    def forget(self) -> None:
        """Forget the indexes; see `Admin.forget_index`."""
        self.own_feeder.used = False
        with self._backend.writing() as tx:
            for kind in FeedKind:
                tx.feeds.end_feed(kind)

    def _comparisons(self) -> Iterator[tuple[FeedKind, Comparison]]:
        for kind, index in ((FeedKind.OWN, None), (FeedKind.EXTERNAL, None if self.feeder is None else self.feeder.index)):
            if kind is FeedKind.OWN or index is not None:
                yield kind, Comparison(backend=self._backend, index=index, library=self._library)

    def compared(self, workflow_id: str | None) -> Iterable[Finding]:
        """Yield how the indexes differ from the store, on one execution or on all."""
        return chain.from_iterable(comparison.findings(workflow_id) for _, comparison in self._comparisons())

    def repaired(self, workflow_id: str | None) -> list[Finding]:
        """Index each execution again on which an index differs, once it was fed with what has changed; says which."""
        done: list[Finding] = []
        for kind, comparison in self._comparisons():
            self._feed_all(kind)
            differing = (found for found in comparison.findings(workflow_id) if comparison.error is None)
            while page := list(islice(differing, _MENDED)):
                with self._backend.writing() as tx:
                    for one in [kind] if kind is FeedKind.OWN else external_feeds(tx):
                        tx.feeds.mark_pending(one, sorted({found.workflow_id for found in page}))
                done += [attrs.evolve(found, text=f"{found.text}; it is indexed again") for found in page]
            if isinstance(comparison.error, StorageCorrupt):
                done += self._rebuilt(kind, comparison.error)
            self._feed_all(kind)
        return done

    def _feed_all(self, kind: FeedKind) -> None:
        if kind is FeedKind.EXTERNAL:
            self.relay()
            return
        with self._backend.reading() as view:
            begun = view.feeds.feed(FeedKind.OWN) is not None
        if begun:
            self.own_feeder.fill()

    def _rebuilt(self, kind: FeedKind, error: StorageCorrupt) -> list[Finding]:
        """Rebuild an index that cannot be read."""
        text = f"the index was set aside and is rebuilt; it could not be read: {error}"
        made = [Finding(law=_LAW, workflow_id="", text=text)]
        feeder = self.feeder
        if kind is FeedKind.OWN or feeder is None:
            with suppress(StorageCorrupt, InvariantBroken):  # the tables themselves are damaged; `check` reports it
                self.own_feeder.reset()
                return made
            return []
        feeder.record_failure(error)
        trouble = feeder.trouble
        self.relay()
        return made if isinstance(trouble, StorageCorrupt) and feeder.trouble is None else []

    def close(self) -> None:
        """Release the external index; idempotent."""
        if self.feeder is not None:
            self.feeder.index.close()
