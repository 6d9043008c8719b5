"""Feeding an index with what has changed in the store: beside the executions, never in their way.

Executions whose fence is not the one at which they were indexed are read, made into documents and put into the index, and only
then kept as indexed. The index in the store's own file takes both in one commit. An external one is fed at least once: a crash in
between gives it the same again. Each batch has a number, kept on both sides: the index may be one ahead (a crash before the store
kept it), and any other difference means that one of them is an older copy or another program's: then the index is emptied and fed
again.

Nothing that goes wrong with an external index gets out of here: it is counted, shown by `health`, and tried again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from conductorlite.engine.logs import log_store
from conductorlite.model import attrs
from conductorlite.model.clock import Clock
from conductorlite.model.errors import ConductorliteError, EngineClosed, InvariantBroken, StorageBusy, StorageCorrupt, StorageError
from conductorlite.model.texts import error_text
from conductorlite.store.documents import Document
from conductorlite.store.ports import Backend, DocumentWrites, IndexDAO, ReadingTransaction, WritingTransaction
from conductorlite.store.tables import Change, Feed, FeedKind

__all__ = ["COUNTED", "Feeder", "IndexHealth", "OwnFeeder", "belongs"]

#: Executions indexed at once, documents after which no further one is read, and documents of one commit of the store's own index.
_BATCH: Final = 200
_DOCUMENTS: Final = 1_000
_AT_ONCE: Final = 200

#: After a failure the index is left alone for so long, ms, each time twice as long up to the second.
_FIRST_REST: Final = 1_000
_LONGEST_REST: Final = 60_000

#: How far `behind` is counted.
COUNTED: Final = 1_000

#: The documents of a change.
Documents = Callable[[ReadingTransaction, Change], Sequence[Document]]


@attrs.frozen(kw_only=True, slots=True)
class IndexHealth:
    """How an index is. `complete`: it knows everything that is stored, except for the `behind` last changes.

    `behind` counts executions, up to 1,000. `error` is what went wrong last, `failures` how often
    in a row, and `retry_at` (epoch ms) when it is tried again; `damaged` is where a damaged file was put.
    """

    complete: bool
    behind: int
    error: str | None = None
    failures: int = 0
    retry_at: int | None = None
    damaged: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class Batch:
    """Changes with their documents. `last`: there were no others; `after`: where the next batch begins."""

    changes: Sequence[Change] = ()
    documents: Sequence[Sequence[Document]] = ()
    last: bool = False
    after: int = 0


def read(view: ReadingTransaction, kind: FeedKind, after: int, documents: Documents) -> Batch:
    """The next changes, of so many executions that their documents are not too many."""
    changes = view.changes(kind, after, _BATCH)
    found: list[Sequence[Document]] = []
    left = _DOCUMENTS
    for change in changes:
        if left <= 0:
            break
        found.append(documents(view, change))
        left -= len(found[-1])
    last = len(found) == len(changes) < _BATCH
    return Batch(
        changes=changes[: len(found)], documents=found, last=last, after=0 if last or not found else changes[len(found) - 1].place
    )


def put(tx: DocumentWrites, change: Change, documents: Sequence[Document], *, first: bool = True) -> None:
    """Put one change into an index; what is no progress takes the place of all that is known."""
    if first and (change.since is None or not documents):
        tx.remove([change.workflow_id])
    tx.put(documents)


class OwnFeeder:
    """Feeds the index in the store's own file. Used by several threads and processes at once: the second one reads again."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend = backend
        self._documents = documents
        #: Whether it is fed when there is nothing else to do: from the first search on, until that fails.
        self.used = False

    def fill(self) -> None:
        """Index all that was committed before; raises StorageErrors."""
        try:
            self._fill()
        except StorageCorrupt as error:
            log_store("the store's own index is rebuilt", error)
            self.reset()
            self._fill()

    def _fill(self) -> None:
        batch = self._batch(0)
        while not batch.last:
            batch = self._batch(batch.after)

    def feed(self) -> bool:
        """Index a batch; whether there was anything. Raises StorageErrors."""
        batch = self._batch(0)
        return bool(batch.changes) or not batch.last

    def feed_when_idle(self) -> bool:
        """Index a batch, if it is searched; whether there was anything."""
        try:
            return self.used and self.feed()
        except StorageError as error:
            log_store("what has changed was not indexed", error)
            self.used = False
            return False

    def reset(self) -> None:
        """Empty it and begin again."""
        with self._backend.reading() as view:
            feed = view.feed(FeedKind.OWN)
        self._begin(feed)

    def _begin(self, feed: Feed | None) -> None:
        """Begin again, unless another engine has done so since that feed was read."""
        with self._backend.writing() as tx:
            index = tx.index()
            if index is not None and tx.feed(FeedKind.OWN) == feed:
                tx.begin_feed(FeedKind.OWN, index.form)

    def _batch(self, after: int) -> Batch:
        with self._backend.reading() as view:
            index, feed = view.index(), view.feed(FeedKind.OWN)
            if index is None:
                return Batch(last=True)
            begun = feed is not None and feed.reader == index.form
            batch = read(view, FeedKind.OWN, after, self._documents) if begun else Batch()
        if not begun:
            self._begin(feed)
        for part in _parts(batch):
            with self._backend.writing() as tx:
                index = tx.index()
                if index is None or tx.feed(FeedKind.OWN) != feed:  # another was first, with what may be newer
                    return Batch()
                for change, documents, first, _ in part:
                    # What was removed meanwhile is pending, and must not come back until then.
                    if change.fence is None or tx.workflow(change.workflow_id) is not None:
                        put(index, change, documents, first=first)
                tx.mark_indexed(FeedKind.OWN, [change for change, _, _, last in part if last], batch.last)
                feed = tx.feed(FeedKind.OWN)
        return batch


def _parts(batch: Batch) -> Iterator[list[tuple[Change, Sequence[Document], bool, bool]]]:
    """A batch in short commits, with whether documents are the first, and the last, of their change."""
    part: list[tuple[Change, Sequence[Document], bool, bool]] = []
    size = 0
    for change, documents in zip(batch.changes, batch.documents, strict=True):
        cuts = [documents[n : n + _AT_ONCE] for n in range(0, len(documents), _AT_ONCE)] or [()]
        for n, cut in enumerate(cuts, 1):
            part.append((change, cut, n == 1, n == len(cuts)))
            size += len(cut)
            if size >= _AT_ONCE:
                yield part
                part, size = [], 0
    if part:
        yield part


class _StoreFailed(Exception):
    """Something is wrong with the store, not with the index; never leaves this file."""

    def __init__(self, cause: StorageError | EngineClosed) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Feeder:
    """Feeds one index from one store. Used by one thread at a time, or several: the index lets in one."""

    def __init__(self, backend: Backend, clock: Clock, index: IndexDAO, documents: Documents) -> None:
        self.index = index
        self._backend = backend
        self._clock = clock
        self._documents = documents
        self._error: str | None = None
        self._raised: Exception | None = None
        self._failures = 0
        self._retry_at = 0
        self._damaged: str | None = None
        #: Whether the index was begun again, and must be fed though nothing has changed.
        self._was_reset = False
        #: Up to where the batch before the next one went.
        self._after = 0

    def feed(self, *, backoff: bool = True) -> bool:
        """Index a batch; whether there was anything. With `backoff` the index is left alone for a while after failures."""
        if backoff and self._failures and self._clock.now() < self._retry_at:
            return False
        try:
            found = self._index_batch()
        except InvariantBroken:
            raise
        except StorageBusy as error:
            # Another thread or process feeds it, or looks into it.
            self._failed(error, _FIRST_REST // 10)
            return False
        except _StoreFailed as error:
            if isinstance(error.cause, EngineClosed):
                raise error.cause from None
            self._failed(error.cause, _FIRST_REST)
            return False
        except StorageCorrupt as error:
            self._failed(error, _FIRST_REST)
            self._repair()
            return False
        except Exception as error:
            self._failed(error, min(_LONGEST_REST, _FIRST_REST * 2**self._failures))
            return False
        self._failures, self._error, self._raised = 0, None, None
        return found

    def _failed(self, error: Exception, rest: int) -> None:
        self._failures = min(self._failures + 1, 1_000)
        if type(error) is not type(self._raised):  # once, not at every try
            log_store("what has changed was not indexed", error)
        self._raised = error
        self._error = str(error) if isinstance(error, ConductorliteError) else error_text(error)
        self._retry_at = self._clock.now() + rest

    def _repair(self) -> None:
        try:
            self._damaged = self.index.start_over() or self._damaged
            self._was_reset = True
        except Exception as error:
            self._failed(error, min(_LONGEST_REST, _FIRST_REST * 2**self._failures))

    def _index_batch(self) -> bool:
        with self._reading() as view:
            feed = view.feed(FeedKind.EXTERNAL)
            if feed is not None and feed.complete and not self._was_reset and not view.behind(FeedKind.EXTERNAL, 1):
                return False
        batch = Batch()
        with self.index.changing() as tx:
            # Read inside the change: a later reader has read what is newer.
            with self._reading() as view:
                feed = view.feed(FeedKind.EXTERNAL)
                known = feed is not None and belongs(feed, tx.identity, tx.position)
                if known:
                    batch = read(view, FeedKind.EXTERNAL, self._after, self._documents)
            if feed is not None and known:
                for change, documents in zip(batch.changes, batch.documents, strict=True):
                    put(tx, change, documents)
                tx.settle(feed.position + 1)
            else:
                tx.clear()
                identity = tx.identity
        self._was_reset = False
        with self._writing() as store:
            if store.feed(FeedKind.EXTERNAL) != feed:  # another process was first
                return True
            if known:
                store.mark_indexed(FeedKind.EXTERNAL, batch.changes, batch.last)
            else:
                store.begin_feed(FeedKind.EXTERNAL, identity)
        self._after = batch.after
        return True

    @contextmanager
    def _reading(self) -> Iterator[ReadingTransaction]:
        """A view; what is wrong with the store is not the index's fault."""
        try:
            with self._backend.reading() as view:
                yield view
        except (StorageError, EngineClosed) as error:
            raise _StoreFailed(error) from error

    @contextmanager
    def _writing(self) -> Iterator[WritingTransaction]:
        try:
            with self._backend.writing() as tx:
                yield tx
        except (StorageError, EngineClosed) as error:
            raise _StoreFailed(error) from error

    def _feed(self) -> Feed | None:
        with self._reading() as view:
            return view.feed(FeedKind.EXTERNAL)

    def answers(self) -> bool:
        """Whether the index knows of everything, except for the last changes. Raises what the index raises."""
        feed = self._feed()
        if feed is None or not feed.complete:
            return False
        return belongs(feed, *self.index.standing())

    def record_failure(self, error: Exception) -> None:
        """Keep that a search of the index went wrong."""
        self._failed(error, 0)
        if isinstance(error, StorageCorrupt):
            self._repair()

    def rebuild(self) -> None:
        """Empty the index and begin again; raises what the index raises."""
        with self.index.changing() as tx:
            tx.clear()
            identity = tx.identity
        with self._backend.writing() as store:
            store.begin_feed(FeedKind.EXTERNAL, identity)
        self._failures, self._error, self._raised = 0, None, None

    @property
    def trouble(self) -> Exception | None:
        """What went wrong last; None when the index was fed since, or knows everything."""
        return self._raised

    def check(self) -> None:
        """Raise what went wrong last."""
        if self._raised is not None:
            raise self._raised

    def behind(self) -> int:
        """Changes the index does not know, counted up to 1,000."""
        with self._backend.reading() as view:
            return view.behind(FeedKind.EXTERNAL, COUNTED)

    def health(self) -> IndexHealth:
        """How the index is."""
        with self._backend.reading() as view:
            feed = view.feed(FeedKind.EXTERNAL)
            behind = view.behind(FeedKind.EXTERNAL, COUNTED)
        return IndexHealth(
            complete=feed is not None and feed.complete and not self._failures,
            behind=behind,
            error=self._error,
            failures=self._failures,
            retry_at=self._retry_at if self._failures else None,
            damaged=self._damaged,
        )


def belongs(feed: Feed, identity: str, position: int) -> bool:
    """Whether a feed goes on where the index stands."""
    return feed.reader == identity and position in (feed.position, feed.position + 1)
