"""Feeding the index in the store's own file: what has changed and that it is indexed are one commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from conductorlite.engine.index_feed import Batch, Documents, Progress, read
from conductorlite.engine.logs import log_store
from conductorlite.model.errors import StorageCorrupt, StorageError
from conductorlite.store.documents import Document
from conductorlite.store.ports import Backend, DocumentWrites
from conductorlite.store.tables import Change, Feed, FeedKind

__all__ = ["OwnFeeder"]

#: Documents of one commit.
_AT_ONCE: Final = 200


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
                total = view.behind(FeedKind.OWN, sys.maxsize)
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
