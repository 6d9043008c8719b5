"""Feeding an index from the store: beside the executions, never in their way.

The store notes what has changed in the commit of the change; here it is read, made into documents, put into the index, and only
then forgotten. A crash in between gives the index the same again. Each batch has a number, kept on both sides: the index may be one
ahead (a crash before the store forgot), and any other difference means that one of them is an older copy or somebody else's: then
the index is emptied and fed anew.

Nothing that goes wrong with the index gets out of here: it is counted, told by `health`, and tried again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from conductorlite.engine.logs import log_store
from conductorlite.model.clock import Clock
from conductorlite.model.errors import ConductorliteError, EngineClosed, InvariantBroken, StorageBusy, StorageCorrupt, StorageError
from conductorlite.model.texts import error_text
from conductorlite.store.bookkeeping import Change, Feed
from conductorlite.store.documents import Document
from conductorlite.store.ports import Backend, IndexDAO, IndexWrites, ReadingTransaction, WritingTransaction

__all__ = ["Feeder", "IndexHealth", "belongs"]

#: Notes told in one meal, and executions noted at once when everything is told anew.
_NOTES: Final = 200
_STORED: Final = 200

#: After a failure the index is left alone for so long, ms, each time twice as long up to the second.
_FIRST_REST: Final = 1_000
_LONGEST_REST: Final = 60_000

#: How far `behind` is counted.
_COUNTED: Final = 1_000

#: The documents of a change.
Documents = Callable[[ReadingTransaction, Change], Sequence[Document]]


@attrs.frozen(kw_only=True, slots=True)
class IndexHealth:
    """How an index is. `complete`: it was told of everything that is stored, save for the `behind` last changes.

    `behind` counts notes of executions and of their attempts, up to 1,000. `error` is what went wrong last, `failures` how often
    in a row, and `retry_at` (epoch ms) when it is tried again; `damaged` is where a damaged file was put.
    """

    complete: bool
    behind: int
    error: str | None = None
    failures: int = 0
    retry_at: int | None = None
    damaged: str | None = None


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
        #: Whether the index was begun anew, and must be told so though nothing has changed.
        self._begun_anew = False

    def feed(self, *, patient: bool = True) -> bool:
        """Tell the index a little of what it does not know; whether anything was told. A `patient` feeder rests after failures."""
        if patient and self._failures and self._clock.now() < self._retry_at:
            return False
        try:
            told = self._meal()
        except InvariantBroken:
            raise
        except StorageBusy as error:
            # Somebody else feeds it, or looks into it.
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
        return told

    def _failed(self, error: Exception, rest: int) -> None:
        self._failures = min(self._failures + 1, 1_000)
        if type(error) is not type(self._raised):  # once, not at every try
            log_store("the index was not told of what changed", error)
        self._raised = error
        self._error = str(error) if isinstance(error, ConductorliteError) else error_text(error)
        self._retry_at = self._clock.now() + rest

    def _repair(self) -> None:
        try:
            self._damaged = self.index.start_over() or self._damaged
            self._begun_anew = True
        except Exception as error:
            self._failed(error, min(_LONGEST_REST, _FIRST_REST * 2**self._failures))

    def _meal(self) -> bool:
        feed = self._feed()
        if feed is not None and not self._begun_anew and not self._due(feed):
            return False
        changes: Sequence[Change] = ()
        found: list[Sequence[Document]] = []
        with self.index.changing() as tx:
            # Read inside the change: whoever comes later has read what is newer.
            with self._reading() as view:
                feed = view.feed()
                known = feed is not None and belongs(feed, tx.identity, tx.position)
                if feed is not None and known:
                    changes = view.changes(_NOTES)
                    found = [self._documents(view, change) for change in changes]
            if feed is not None and known:
                _put(tx, changes, found)
                tx.settle(feed.position + 1)
            if not known:
                tx.clear()
                identity = tx.identity
        self._begun_anew = False
        with self._writing() as store:
            if feed is None or not known:
                # Unless another process was first, with another index.
                if store.feed() == feed:
                    store.begin_feed(identity)
                return True
            store.forget(changes, feed)
            if feed.noting is not None:
                store.note_stored(_STORED)
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
            return view.feed()

    def _due(self, feed: Feed) -> bool:
        """Whether there is anything to tell: else neither side is written to."""
        if feed.noting is not None or feed.until or not feed.position:
            return True
        with self._reading() as view:
            return bool(view.behind(1))

    def answers(self) -> bool:
        """Whether the index knows of everything, save for the last changes. Raises what the index raises."""
        feed = self._feed()
        if feed is None or not feed.complete:
            return False
        return belongs(feed, *self.index.standing())

    def doubt(self, error: Exception) -> None:
        """Note that a search of the index went wrong."""
        self._failed(error, 0)
        if isinstance(error, StorageCorrupt):
            self._repair()

    def rebuild(self) -> None:
        """Empty the index and begin to tell it everything; raises what the index raises."""
        with self.index.changing() as tx:
            tx.clear()
            identity = tx.identity
        with self._backend.writing() as store:
            store.begin_feed(identity)
        self._failures, self._error, self._raised = 0, None, None

    @property
    def trouble(self) -> Exception | None:
        """What went wrong last; None when the index was fed since, or told everything."""
        return self._raised

    def check(self) -> None:
        """Raise what went wrong last."""
        if self._raised is not None:
            raise self._raised

    def behind(self) -> int:
        """Changes the index does not know, counted up to 1,000."""
        with self._backend.reading() as view:
            return view.behind(_COUNTED)

    def health(self) -> IndexHealth:
        """How the index is."""
        with self._backend.reading() as view:
            feed = view.feed()
            behind = view.behind(_COUNTED)
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


def _put(tx: IndexWrites, changes: Sequence[Change], found: Sequence[Sequence[Document]]) -> None:
    for change, documents in zip(changes, found, strict=True):
        if change.removed or not documents:
            tx.remove([change.workflow_id])
        there = {document.place for document in documents}
        gone = [] if change.removed or not documents else [place for place in change.places if place not in there]
        if gone:
            tx.remove_tasks(change.workflow_id, gone)
        tx.put(documents)
