"""The part of the suite about what an index is told, what is archived, and how much there is."""

from __future__ import annotations

import attrs

from conductorlite.model.decisions import Decision
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.bookkeeping import Change, Feed
from conductorlite.store.ports import Backend, ReadingTransaction
from conductorlite.store.tables import Archived
from conductorlite.testing.conformance.samples import task, workflow

__all__ = ["ChangeConformance"]


def _create(backend: Backend, workflow_id: str, *refs: str) -> None:
    with backend.writing() as tx:
        rows = tuple(attrs.evolve(task(ref), workflow_id=workflow_id, task_id=f"{workflow_id}-{ref}") for ref in refs)
        tx.apply(Decision(workflow=workflow(workflow_id), created=True, inserted=rows))


def _begin(backend: Backend) -> None:
    with backend.writing() as tx:
        tx.begin_feed("reader")
        for _ in range(9):
            tx.note_stored(2)


def _told(view: ReadingTransaction, limit: int = 99) -> list[tuple[str, list[tuple[str, int]], bool]]:
    return [(change.workflow_id, sorted(change.places), change.removed) for change in view.changes(limit)]


def _forget(backend: Backend, changes: list[Change] | None = None) -> None:
    with backend.writing() as tx:
        feed = tx.feed()
        assert feed is not None
        tx.forget(tx.changes(99) if changes is None else changes, feed)


def _archived(workflow_id: str) -> Archived:
    return Archived(
        workflow_id=workflow_id, name="order", status="COMPLETED", ended_at=7, archived_at=9, size=3, document=b"\0\xff"
    )


class ChangeConformance:
    """What was noted, what is kept apart, how much there is."""

    def test_nothing_is_noted_without_a_feed(self, backend: Backend) -> None:
        """No feed, no notes; and none any more when it has ended."""
        _create(backend, "a", "t")
        with backend.writing() as tx:
            assert (tx.feed(), tx.changes(9), tx.behind(9)) == (None, [], 0)
            tx.note_stored(5)
            assert tx.behind(9) == 0
            tx.begin_feed("reader")
            tx.note_stored(5)
            assert tx.behind(9) == 2
            tx.end_feed()
        _create(backend, "b", "t")
        with backend.reading() as view:
            assert (view.feed(), view.behind(9)) == (None, 0)

    def test_what_was_there_before_is_noted_page_by_page(self, backend: Backend) -> None:
        """Executions with their attempts, then archived ones; the feed is complete once its reader was told of them."""
        for name in ("a", "b", "c"):
            _create(backend, name, "t", "u")
        with backend.writing() as tx:
            tx.archive(_archived("z"))
            tx.begin_feed("reader")
            feed = tx.feed()
            assert feed == Feed(reader="reader", noting=feed.noting if feed else None)
            tx.note_stored(2)
            assert [one[0] for one in _told(tx)] == ["a", "b"]
            for _ in range(2):
                tx.note_stored(2)
            assert _told(tx) == [(name, [("t", 0), ("u", 0)], False) for name in ("a", "b", "c")] + [("z", [], False)]
            feed = tx.feed()
            assert feed is not None
            assert (feed.noting, feed.complete) == (None, False)
            tx.forget(tx.changes(4), feed)
        with backend.reading() as view:
            feed = view.feed()
            assert feed is not None
            assert (feed.complete, feed.position) == (False, 1)
        _forget(backend)
        with backend.reading() as view:
            assert view.feed() == Feed(reader="reader", position=2)
            assert view.behind(9) == 0

    def test_changes_are_noted_once_each(self, backend: Backend) -> None:
        """A start, a turn, an attempt that changes, comes or is dropped; in the order of what was noted first."""
        _create(backend, "a", "t")
        _create(backend, "b", "t")
        _begin(backend)
        _forget(backend)
        with backend.writing() as tx:
            for _ in range(3):
                row = tx.workflow("b")
                assert row is not None
                tx.apply(Decision(workflow=row))
            row = tx.workflow("a")
            (old,) = tx.attempts("a")
            assert row is not None
            retried = attrs.evolve(old, status=TaskStatus.FAILED)
            tx.apply(Decision(workflow=row, updated=(retried,), inserted=(attrs.evolve(old, attempt=1, task_id="a-t-1"),)))
            assert _told(tx) == [("b", [], False), ("a", [("t", 0), ("t", 1)], False)]
            assert _told(tx, 1) == [("b", [], False)]
            assert tx.behind(9) == 4
            assert tx.behind(2) == 2
            found = tx.attempts_at("a", [("t", 0), ("t", 1), ("t", 2), ("x", 0)])
            assert sorted(one.attempt for one in found) == [0, 1]
        _forget(backend)
        with backend.writing() as tx:
            row = tx.workflow("a")
            assert row is not None
            tx.apply(Decision(workflow=row, dropped=("t",)))
            assert _told(tx) == [("a", [("t", 0), ("t", 1)], False)]
            assert tx.attempts_at("a", [("t", 0)]) == []

    def test_a_removal_is_told_whatever_comes_after_it(self, backend: Backend) -> None:
        """An id that lives again, in the store or in the archive, is told as one that was removed."""
        _create(backend, "a", "t")
        _begin(backend)
        _forget(backend)
        with backend.writing() as tx:
            tx.remove("a")
            tx.remove("a")
            assert [(change.fence, change.removed) for change in tx.changes(9)] == [(None, True)]
        _create(backend, "a", "u")
        with backend.writing() as tx:
            assert _told(tx) == [("a", [("u", 0)], True)]
            feed = tx.feed()
            assert feed is not None
            assert feed.removals == 1
            tx.archive(_archived("x"))
            tx.forget(tx.changes(9), feed)
            assert tx.drop_archived("x")
            assert _told(tx) == [("x", [], False)]
        _forget(backend)
        with backend.writing() as tx:
            tx.archive(_archived("b"))
        _forget(backend)
        _create(backend, "b", "t")
        with backend.reading() as view:
            assert _told(view) == [("b", [("t", 0)], True)]

    def test_what_changed_meanwhile_is_not_forgotten(self, backend: Backend) -> None:
        """Another fence, a removal anywhere, another reader or position: the notes stay."""
        _create(backend, "a", "t")
        _create(backend, "b", "t")
        _begin(backend)
        with backend.reading() as view:
            changes, feed = view.changes(99), view.feed()
        assert feed is not None
        with backend.writing() as tx:
            tx.forget(changes, attrs.evolve(feed, reader="another"))
            tx.forget(changes, attrs.evolve(feed, position=4))
            assert tx.feed() == feed
            row = tx.workflow("a")
            assert row is not None
            tx.apply(Decision(workflow=row))
            tx.forget(changes, feed)
            assert [one[0] for one in _told(tx)] == ["a"]
            again, feed = tx.changes(99), tx.feed()
            assert feed is not None
            tx.remove("b")
            tx.forget(again, feed)
            assert [one[0] for one in _told(tx)] == ["a", "b"]

    def test_what_is_noted_again(self, backend: Backend) -> None:
        """Told as what was removed and begun anew, there or not, once each; `noted` says of which executions there are notes."""
        with backend.writing() as tx:
            tx.note_again(["a"])
            assert (tx.behind(9), tx.noted(["a"]), tx.noted([])) == (0, frozenset(), frozenset())
        for name in ("a", "b"):
            _create(backend, name, "t")
        _begin(backend)
        _forget(backend)
        with backend.writing() as tx:
            tx.note_again(["b", "nobody"])
            tx.note_again(["b"])
            assert [(one.workflow_id, one.fence is None, one.removed) for one in tx.changes(9)] == [
                ("b", False, True), ("nobody", True, True)
            ]  # fmt: skip
            row = tx.workflow("a")
            assert row is not None
            tx.apply(Decision(workflow=row))
            assert tx.noted(["nobody", "a", "x"]) == {"a", "nobody"}
            assert tx.noted(["b"]) == {"b"}
        _forget(backend)
        with backend.reading() as view:
            assert (view.behind(9), view.noted(["a", "b", "nobody"])) == (0, frozenset())

    def test_notes_are_undone_with_their_change(self, backend: Backend) -> None:
        """A transaction that fails leaves no note."""
        _begin(backend)
        try:
            with backend.writing() as tx:
                tx.apply(Decision(workflow=workflow("a"), created=True))
                tx.archive(_archived("z"))
                raise KeyError
        except KeyError:
            pass
        with backend.reading() as view:
            assert (view.behind(9), view.archived("z")) == (0, None)

    def test_the_archive(self, backend: Backend) -> None:
        """Bytes come back as they are, in the place of older ones; ids are listed in order."""
        with backend.writing() as tx:
            for name in ("b", "a", "c"):
                tx.archive(_archived(name))
            tx.archive(attrs.evolve(_archived("a"), document=b"new", size=99))
        with backend.writing() as tx:
            assert tx.archived("b") == _archived("b")
            assert tx.archived("a") == attrs.evolve(_archived("a"), document=b"new", size=99)
            assert [list(tx.archived_ids("", 2)), list(tx.archived_ids("b", 9))] == [["a", "b"], ["c"]]
            assert (tx.drop_archived("b"), tx.drop_archived("b"), tx.archived("b")) == (True, False, None)
            assert tx.workflow("a") is None

    def test_sizes(self, backend: Backend) -> None:
        """Rows are counted by kind and by name and status; compacting changes none of it."""
        _create(backend, "a", "t", "u")
        _create(backend, "b")
        backend.compact()
        with backend.reading() as view:
            sizes = view.sizes()
        assert (sizes.kinds["executions"].rows, sizes.kinds["tasks"].rows, sizes.kinds["archive"].rows) == (2, 2, 0)
        ((_, size),) = sizes.executions.items()
        assert size.rows == 2
        assert 0 < size.bytes == sum(one.bytes for one in sizes.kinds.values())
