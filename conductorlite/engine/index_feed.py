"""Feeding an index with what has changed in the store: beside the executions, never in their way.

Executions whose fence is not the one at which they were indexed are read, made into documents and put into the index, and only
then kept as indexed. The index in the store's own file takes both in one commit. An external one is fed at least once, by any
number of engines at a time: each document has the version of the state it was made of, and never takes the place of a later one.
Each batch has a number, kept on both sides: the index may be one ahead (a crash before the store kept it), and any other difference
means that one of them is an older copy or another program's: then an empty index is begun and fed with everything.

An index is rebuilt beside the one that is searched. That it is, stands in the store: every feeder goes on with it, and has it
searched when it knows everything.

Nothing that goes wrong with an external index gets out of here: it is counted, shown by `health`, and tried again later.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeVar

import attrs

from conductorlite.engine.logs import log_store
from conductorlite.model.clock import Clock, Deadline
from conductorlite.model.errors import (
    ConductorliteError,
    EngineClosed,
    InvariantBroken,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageUnavailable,
)
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Enclosing, Mutex, within
from conductorlite.store.documents import Document
from conductorlite.store.ports import Backend, IndexDAO, IndexEntry, ReadingTransaction
from conductorlite.store.tables import Change, Feed, FeedKind

__all__ = ["COUNTED", "Batch", "Documents", "Feeder", "IndexHealth", "OwnFeeder", "Progress", "read"]

T = TypeVar("T")

#: Executions indexed at once, and documents after which no further one is read.
_BATCH: Final = 200
_DOCUMENTS: Final = 1_000

#: After a failure the index is left alone for so long, ms, each time twice as long up to the second.
_FIRST_REST: Final = 1_000
_LONGEST_REST: Final = 60_000

#: How far `behind` is counted.
COUNTED: Final = 1_000

#: How long a search waits for what another thread feeds, seconds.
_PATIENCE_S: Final = 1.0

#: Seconds between tries of a rebuild while another process feeds the index.
_BETWEEN_TRIES: Final = 0.05

#: Called with how many executions of how many were indexed.
Progress = Callable[[int, int], None]

#: The documents of a change.
Documents = Callable[[ReadingTransaction, Change], Sequence[Document]]


@attrs.frozen(kw_only=True, slots=True)
class IndexHealth:
    """The state of an index. `complete`: it knows everything that is stored, except for the `behind` last changes.

    `behind` counts executions, up to 1,000. `error` is what went wrong last, `failures` how often
    in a row, and `retry_at` (epoch ms) when it is tried again.
    """

    complete: bool
    behind: int
    error: str | None = None
    failures: int = 0
    retry_at: int | None = None


@attrs.frozen(kw_only=True, slots=True)
class Batch:
    """Changes with their documents. `last`: there were no others; `after`: where the next batch begins."""

    changes: Sequence[Change] = ()
    documents: Sequence[Sequence[Document]] = ()
    last: bool = False
    after: int = 0


def read(view: ReadingTransaction, kind: FeedKind, after: int, documents: Documents) -> Batch:
    """The next changes, of so many executions that their documents are not too many."""
    changes = view.feeds.changes(kind, after, _BATCH)
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


class _StoreFailed(Exception):
    """Something is wrong with the store, not with the index; never leaves this file."""

    def __init__(self, cause: StorageError | EngineClosed) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _of_store(opened: Callable[[], AbstractContextManager[T]]) -> AbstractContextManager[T]:
    """Return the block of a view of the store, or of a change; a failure of the store is not the index's fault."""
    return within(_StoreBlock(opened))


class _StoreBlock(Enclosing[T, T]):
    """A block of the store, out of which a failure of the store comes as `_StoreFailed`."""

    __slots__ = ("_opened",)

    def __init__(self, opened: Callable[[], AbstractContextManager[T]]) -> None:
        super().__init__()
        self._opened = opened

    def begin(self) -> T:
        try:
            return self.enter(self._opened)
        except (StorageError, EngineClosed) as error:
            raise _StoreFailed(error) from error

    def end(self, error: BaseException | None) -> None:
        try:
            self.leave(error)
        except (StorageError, EngineClosed) as failure:
            raise _StoreFailed(failure) from failure
        finally:
            self.undo()
        if isinstance(error, (StorageError, EngineClosed)):
            raise _StoreFailed(error) from error


Feeds = dict[FeedKind, Feed]


def external_feeds(view: ReadingTransaction) -> Feeds:
    """The feeds of external indexes: of the one that is searched, and of one that is built beside it."""
    return {kind: feed for kind in (FeedKind.EXTERNAL, FeedKind.BESIDE) if (feed := view.feeds.feed(kind)) is not None}


def searched(feeds: Feeds, identity: str, position: int) -> FeedKind | None:
    """The feed that goes on where the searched index stands."""
    found = (kind for kind, one in feeds.items() if one.reader == identity and position in (one.position, one.position + 1))
    return next(found, None)


class Feeder:
    """Feeds an external index from one store, beside any number of others that do; used by one thread at a time, or several."""

    def __init__(self, backend: Backend, clock: Clock, index: IndexDAO, documents: Documents) -> None:
        self.index = index
        self._backend = backend
        self._clock = clock
        self._documents = documents
        self._mutex = Mutex()
        self._error: str | None = None
        self._raised: Exception | None = None
        self._failures = 0
        self._retry: Deadline | None = None
        #: Whether the index has to be looked at though nothing has changed.
        self._unsure = False
        #: Up to where the batch before the next one went, by index.
        self._after: dict[str, int] = {}
        #: Of two feeds that both have something, the one that had its batch last.
        self._last: FeedKind | None = None
        #: The index that was searched when it was asked last.
        self._identity = ""
        #: How many executions this feeder has indexed, by index.
        self._done: Counter[str] = Counter()

    def catch_up(self, batches: int) -> None:
        """Index up to so many batches for one who waits for it: also while others feed, but not after failures.

        Of two indexes only the one that is searched.
        """
        for _ in range(batches):
            if not self.feed(backoff=not isinstance(self._raised, StorageBusy), wait=_PATIENCE_S, both=False):
                return

    def feed(self, *, backoff: bool = True, wait: float = 0, both: bool = True) -> bool:
        """Index a batch; whether there was anything. With `backoff` the index is left alone for a while after failures.

        What is built beside the index that is searched is fed too, unless `both` is False. A batch of another thread is waited for
        so many seconds, -1: for its end.
        """
        if backoff and self._failures and self._rests():
            return False
        try:
            with self._mutex.held(wait) as mine:
                if not mine:  # another thread feeds it
                    return False
                found = self._index_batch(both)
        except InvariantBroken:
            raise
        except Exception as error:
            cause = error.cause if isinstance(error, _StoreFailed) else error
            if isinstance(cause, EngineClosed):
                raise cause from None
            # Busy: another process feeds it, and what both make of the same changes is made in vain by one.
            brief = isinstance(error, StorageBusy | StorageCorrupt | _StoreFailed)
            self._failed(cause, _FIRST_REST if brief else None)
            if isinstance(error, StorageCorrupt):
                self._repair()
            return False
        self._failures, self._error, self._raised = 0, None, None
        return found

    def _failed(self, error: Exception, rest: int | None = None) -> None:
        """Note a failure, after which the index is left alone for a while: by default each time twice as long."""
        rest = min(_LONGEST_REST, _FIRST_REST * 2**self._failures) if rest is None else rest
        self._failures = min(self._failures + 1, 1_000)
        if type(error) is not type(self._raised):  # once, not at every try
            log_store("what has changed was not indexed", error)
        self._raised = error
        self._error = str(error) if isinstance(error, ConductorliteError) else error_text(error)
        self._retry = Deadline(self._clock, rest)

    def _repair(self) -> None:
        """Have an empty index searched in the place of one that is damaged; what was built beside it is dropped with it."""
        try:
            self.index.switch(self.index.begin())
            self._unsure = True
        except Exception as error:
            self._failed(error)

    def _index_batch(self, both: bool) -> bool:
        with _of_store(self._backend.reading) as view:
            feeds = external_feeds(view)
            behind = {kind: view.feeds.behind(kind, 1 if len(feeds) == 1 else _BATCH) for kind in feeds}
        due = {kind for kind, feed in feeds.items() if not feed.complete or behind[kind]}
        if len(feeds) == 1 and not due and not self._unsure:
            return False
        identity, position = self.index.standing()
        self._identity = identity
        kind = searched(feeds, identity, position)
        if kind is None:
            return self._begin_again(feeds, identity, position)
        self._unsure = False
        beside = next((one for one in feeds if one is not kind), None) if both else None
        # Not when it knows everything: where executions go on, there may be no such moment.
        if beside is not None and feeds[beside].complete and behind[beside] < _BATCH:
            return self._switch(kind, feeds[beside])
        chosen = beside if beside is not None and (kind not in due or self._last is kind) else kind
        self._last = chosen
        return chosen in due and self._feed(chosen, feeds[chosen])

    def _begin_again(self, feeds: Feeds, identity: str, position: int) -> bool:
        """Index everything: into the index that is searched if it is new, else into an empty one in its place."""
        if position:
            identity = self.index.begin()
            self.index.switch(identity)
        with _of_store(self._backend.writing) as store:
            if external_feeds(store) == feeds:  # else another process was first
                store.feeds.end_feed(FeedKind.BESIDE)
                store.feeds.begin_feed(FeedKind.EXTERNAL, identity)
        self._after.clear()
        return True

    def _switch(self, kind: FeedKind, beside: Feed) -> bool:
        """Have the index searched that was built beside, for it knows everything but the last changes."""
        self.index.switch(beside.reader)
        with _of_store(self._backend.writing) as store:
            store.feeds.end_feed(kind)
        self._after.clear()
        return True

    def _feed(self, kind: FeedKind, feed: Feed) -> bool:
        with _of_store(self._backend.reading) as view:
            now = view.feeds.feed(kind)
            batch = read(view, kind, self._after.get(feed.reader, 0), self._documents) if now == feed else Batch()
            entries = [_entry(view, *one) for one in zip(batch.changes, batch.documents, strict=True)]
        if now != feed:
            raise StorageBusy("another engine feeds the index, in this process or in another one")
        try:
            self.index.feed(feed.reader, feed.position + 1, entries)
        except StorageCorrupt:
            if searched({kind: feed}, *self.index.standing()) is kind:
                raise
            with _of_store(self._backend.writing) as store:  # it was built beside, and is gone
                store.feeds.end_feed(kind)
            return True
        with _of_store(self._backend.writing) as store:
            now = store.feeds.feed(kind)
            if now == feed:
                store.feeds.mark_indexed(kind, batch.changes, batch.last)
            elif now is not None and now.reader == feed.reader:
                # Another was first. What it took out meanwhile may have come back by this batch.
                fences = {
                    one.workflow_id: getattr(store.executions.workflow(one.workflow_id), "fence", -1) for one in batch.changes
                }
                moved = [one.workflow_id for one in batch.changes if one.fence != fences[one.workflow_id]]
                store.feeds.mark_pending(kind, moved)
        if now != feed:
            raise StorageBusy("another engine feeds the index, in this process or in another one")
        self._after[feed.reader] = batch.after
        self._done[feed.reader] += len(batch.changes)
        return True

    def answers(self) -> int | None:
        """Return how far the searched index is behind, counted up to 1,000; None when it does not know everything but that.

        Raises what the index raises.
        """
        identity, position = self.index.standing()
        self._identity = identity
        with self._backend.reading() as view:
            feeds = external_feeds(view)
            kind = searched(feeds, identity, position)
            return view.feeds.behind(kind, COUNTED) if kind is not None and feeds[kind].complete else None

    def is_out_of_reach(self) -> bool:
        """Return True if the index could not be reached, and is left alone for a while."""
        return isinstance(self._raised, StorageUnavailable) and self._rests()

    def _rests(self) -> bool:
        """True while the index is left alone after a failure."""
        return self._retry is not None and not self._retry.passed

    def record_failure(self, error: Exception) -> None:
        """Keep that a search of the index went wrong."""
        self._failed(error, 0)
        if isinstance(error, StorageCorrupt):
            self._repair()

    def rebuild(self, progress: Progress | None = None) -> None:
        """Build an index beside the one that is searched, and search it from then on; one that was begun is carried on.

        One that is searched and is not complete yet is completed.
        Raises what the index raises, and StorageBusy when it is given up because another one was begun.
        """
        built, total, before = "", 0, 0
        while True:
            identity, position = self.index.standing()
            with self._backend.reading() as view:
                feeds = external_feeds(view)
                kinds = {feed.reader: kind for kind, feed in feeds.items()}
                kind = searched(feeds, identity, position)
                total = total or (view.feeds.behind(kinds[built], sys.maxsize) if built in kinds else 0)
            if built and identity == built and kind is not None and feeds[kind].complete:
                break
            if built and built not in kinds:
                raise StorageBusy("the index that was built was given up: another one was begun")
            if kind is not None and not built:
                built = next((feed.reader for one, feed in feeds.items() if one is not kind), "")
                built = built or (self._built_beside(kind) if feeds[kind].complete else identity)
                before = self._done[built]
                continue
            if progress is not None and built:
                progress(min(self._done[built] - before, total), total)
            if not self.feed(backoff=False, wait=-1):
                if not isinstance(self._raised, StorageBusy):
                    self.check()
                threading.Event().wait(_BETWEEN_TRIES)
        if progress is not None:
            progress(total, total)

    def _built_beside(self, kind: FeedKind) -> str:
        """Begin an index beside the one that is searched; its identity."""
        made = self.index.begin()
        with self._backend.writing() as store:
            store.feeds.begin_feed(FeedKind.EXTERNAL if kind is FeedKind.BESIDE else FeedKind.BESIDE, made)
        return made

    @property
    def trouble(self) -> Exception | None:
        """The last error; None when the index was fed since, or knows everything."""
        return self._raised

    def check(self) -> None:
        """Raise what went wrong last."""
        if self._raised is not None:
            raise self._raised

    def health(self) -> IndexHealth:
        """Return the state of the index that is searched, as far as the store knows."""
        with self._backend.reading() as view:
            feeds = external_feeds(view)
            kind = next((kind for kind, feed in feeds.items() if feed.reader == self._identity), FeedKind.EXTERNAL)
            behind = view.feeds.behind(kind, COUNTED)
        return IndexHealth(
            complete=kind in feeds and feeds[kind].complete and not self._failures,
            behind=behind,
            error=self._error,
            failures=self._failures,
            retry_at=self._retry.instant if self._failures and self._retry is not None else None,
        )


def _entry(view: ReadingTransaction, change: Change, documents: Sequence[Document]) -> IndexEntry:
    """Return the index's entry for a change.

    A new one takes the place of nothing, unless one of its id is archived.
    """
    new = change.since is None and not change.pending
    replaced = not documents or bool(change.pending) or (new and view.archive.archived(change.workflow_id) is not None)
    return IndexEntry(workflow_id=change.workflow_id, version=change.version, documents=documents, whole=replaced)


#: Documents of one commit.
_AT_ONCE: Final = 200


class OwnFeeder:
    """Feeds the index in the store's own file. Used by several threads and processes at once: the second one reads again."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend = backend
        self._documents = documents
        #: Whether it is fed when there is nothing else to do: from the first search on, until that fails.
        self.used = False

    def fill(self, progress: Progress | None = None) -> None:
        """Index all that was committed before; raises StorageErrors."""
        try:
            self._fill(progress)
        except StorageCorrupt as error:
            log_store("the store's own index is rebuilt", error)
            self.reset()
            self._fill(progress)

    def _fill(self, progress: Progress | None) -> None:
        done, total = 0, 0
        if progress is not None:
            with self._backend.reading() as view:
                total = view.feeds.behind(FeedKind.OWN, sys.maxsize)
            progress(done, total)
        batch = self._batch(0)
        while not batch.last:
            done += len(batch.changes)
            if progress is not None:
                progress(min(done, total), total)
            batch = self._batch(batch.after)
        if progress is not None:
            progress(total, total)

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
            feed = view.feeds.feed(FeedKind.OWN)
        self._begin(feed)

    def _begin(self, feed: Feed | None) -> None:
        """Begin again, unless another engine has done so since that feed was read."""
        with self._backend.writing() as tx:
            index = tx.feeds.index()
            if index is not None and tx.feeds.feed(FeedKind.OWN) == feed:
                tx.feeds.begin_feed(FeedKind.OWN, index.form)

    def _batch(self, after: int) -> Batch:
        with self._backend.reading() as view:
            index, feed = view.feeds.index(), view.feeds.feed(FeedKind.OWN)
            if index is None:
                return Batch(last=True)
            begun = feed is not None and feed.reader == index.form
            batch = read(view, FeedKind.OWN, after, self._documents) if begun else Batch()
        if not begun:
            self._begin(feed)
        for part in _parts(batch):
            with self._backend.writing() as tx:
                index = tx.feeds.index()
                if index is None or tx.feeds.feed(FeedKind.OWN) != feed:  # another was first, with what may be newer
                    return Batch()
                for change, documents, first, _ in part:
                    # What was removed meanwhile is pending, and must not come back until then.
                    if change.fence is None or tx.executions.workflow(change.workflow_id) is not None:
                        if first and (change.since is None or not documents):  # it takes the place of all that is known
                            index.remove([change.workflow_id])
                        index.put(documents)
                tx.feeds.mark_indexed(FeedKind.OWN, [change for change, _, _, last in part if last], batch.last)
                feed = tx.feeds.feed(FeedKind.OWN)
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
