"""An external index is rebuilt beside the one that is searched: with progress, without a gap, and by whoever has time."""

from __future__ import annotations

from typing import Any

import pytest
from orders import agrees, engine, place

from conductorlite.engine import index_feed as feeding
from conductorlite.errors import StorageUnavailable
from conductorlite.store.ports import Backend
from conductorlite.store.tables import FeedKind
from conductorlite.testing import MemoryIndex


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "_BATCH", 2)


class Stopped(Exception):
    """Ends a rebuild, as a death does."""


def test_searches_and_executions_go_on(store: Backend) -> None:
    """Until it is done the old index answers, and is fed; what changes meanwhile is in the new one too; the progress goes up."""
    index = MemoryIndex()
    with engine(store, index) as one:
        place(one, 0, 8)
        one.run_until_idle()
        one.admin.archive("o1")
        agrees(one)
        before, seen = index.standing()[0], []

        def look(done: int, total: int) -> None:
            seen.append((done, total))
            if len(seen) == 3:
                place(one, 20, 22)
                one.admin.remove("o3")
                assert index.standing()[0] == before
                assert one.search("status = RUNNING").total_hits == 2
                agrees(one)

        one.admin.rebuild_index(look)
        assert seen == sorted(seen)
        assert (seen[0], seen[-1]) == ((0, 8), (8, 8))
        assert index.standing()[0] != before
        agrees(one)
        assert one.admin.check() == []
        with one.backend.reading() as view:
            assert [view.feeds.feed(kind) is None for kind in FeedKind] == [True, True, False]
        one.admin.rebuild_index()
        agrees(one)
        with one.backend.reading() as view:
            assert [view.feeds.feed(kind) is None for kind in FeedKind] == [True, False, True]


def test_it_ends_though_there_is_always_something_new(store: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index that is built takes over when it lacks no more than the last changes, and gets these as before."""
    monkeypatch.setattr(feeding, "_BATCH", 4)
    index, numbers = MemoryIndex(), iter(range(20, 40))
    with engine(store, index) as one:
        place(one, 0, 8)
        one.run_until_idle()
        before = index.standing()[0]

        def go_on(done: int, total: int) -> None:
            number = next(numbers)
            place(one, number, number + 1)

        one.admin.rebuild_index(go_on)
        assert index.standing()[0] != before
        agrees(one)
        assert one.admin.check() == []


def test_the_first_is_built_once(store: Backend) -> None:
    """Of a store that was never indexed each execution is indexed once, and the progress is that of all of them."""
    index, seen = MemoryIndex(), list[tuple[int, int]]()
    with engine(store, index) as one:
        place(one, 0, 9)
        one.admin.rebuild_index(lambda done, total: seen.append((done, total)))
        assert seen == [(0, 9), (2, 9), (4, 9), (6, 9), (8, 9), (9, 9)]
        assert index.standing()[1] == 5
        assert len(index._shared.indexes) == 1
        agrees(one)


@pytest.mark.parametrize("by", ["a driver", "the verb"])
def test_one_that_was_begun_is_finished(store: Backend, by: str) -> None:
    """A process that dies while it rebuilds leaves that to the next driver, or to the next call, which begin nothing again."""
    index = MemoryIndex()
    with engine(store, index) as one:
        place(one, 0, 8)
        one.run_until_idle()

        def die(done: int, total: int) -> None:
            if done >= 4:
                raise Stopped

        with pytest.raises(Stopped):
            one.admin.rebuild_index(die)
        (half,) = set(index._shared.indexes) - {index.standing()[0]}
        one.run_until_idle() if by == "a driver" else one.admin.rebuild_index()
        assert index.standing()[0] == half
        agrees(one)
        assert one.admin.check() == []


def test_one_that_is_lost_meanwhile(store: Backend) -> None:
    """An index that goes while it is built is given up, not the one that is searched; the next call builds another."""
    index = MemoryIndex()
    with engine(store, index) as one:
        place(one, 0, 8)
        one.run_until_idle()
        searched = index.standing()[0]

        def lose(done: int, total: int) -> None:
            if done >= 4:
                index.switch(searched)

        with pytest.raises(Exception, match=r"there is no index|given up"):
            one.admin.rebuild_index(lose)
        assert index.standing()[0] == searched
        agrees(one)
        one.admin.rebuild_index()
        assert index.standing()[0] != searched
        agrees(one)


def test_an_index_that_cannot_be_reached(store: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised; the old index is searched on, and the rebuild is finished later."""
    index = MemoryIndex()
    with engine(store, index) as one:
        place(one, 0, 8)
        one.run_until_idle()
        agrees(one)

        def gone(*arguments: Any) -> None:
            raise StorageUnavailable("nobody is there")

        feed = MemoryIndex.feed
        monkeypatch.setattr(MemoryIndex, "feed", gone)
        with pytest.raises(StorageUnavailable):
            one.admin.rebuild_index()
        monkeypatch.setattr(MemoryIndex, "feed", feed)
        one.admin.rebuild_index()
        agrees(one)
