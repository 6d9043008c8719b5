"""The part of the suite about what an index is kind, what is archived, and how much there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from conductorlite.model.decisions import Decision, Renamed
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.ports import Backend, ReadingTransaction
from conductorlite.store.tables import Archived, Change, Feed, FeedKind
from conductorlite.testing.conformance.samples import task, workflow

__all__ = ["ChangeConformance"]


def _create(backend: Backend, workflow_id: str, *refs: str) -> None:
    with backend.writing() as tx:
        rows = tuple(attrs.evolve(task(ref), workflow_id=workflow_id, task_id=f"{workflow_id}-{ref}") for ref in refs)
        tx.decisions.apply(Decision(workflow=workflow(workflow_id), created=True, inserted=rows))


def _begin(backend: Backend, kind: FeedKind = FeedKind.EXTERNAL) -> None:
    with backend.writing() as tx:
        tx.feeds.begin_feed(kind, "reader")


def _changed(view: ReadingTransaction, kind: FeedKind = FeedKind.EXTERNAL) -> list[tuple[str, int | None, int | None]]:
    return [(change.workflow_id, change.fence, change.since) for change in view.feeds.changes(kind, 0, 99)]


def _mark(backend: Backend, changes: Sequence[Change] | None = None) -> None:
    with backend.writing() as tx:
        tx.feeds.mark_indexed(FeedKind.EXTERNAL, tx.feeds.changes(FeedKind.EXTERNAL, 0, 99) if changes is None else changes, False)


def _turn(backend: Backend, workflow_id: str, **parts: Any) -> None:
    with backend.writing() as tx:
        row = tx.executions.workflow(workflow_id)
        assert row is not None
        tx.decisions.apply(Decision(workflow=attrs.evolve(row, **parts.pop("row", {})), **parts))


def _archived(workflow_id: str) -> Archived:
    return Archived(
        workflow_id=workflow_id, name="order", status="COMPLETED", ended_at=7, archived_at=9, size=3, document=b"\0\xff"
    )


class ChangeConformance:
    """Tests of what an index is kind of, what is kept apart, and how much there is."""

    @pytest.mark.parametrize("kind", FeedKind)
    def test_without_a_feed(self, backend: Backend, kind: FeedKind) -> None:
        """Nothing is kind of, and nothing any more when it has ended; the other feed is not touched."""
        _create(backend, "a", "t")
        with backend.writing() as tx:
            assert (tx.feeds.feed(kind), tx.feeds.changes(kind, 0, 9), tx.feeds.behind(kind, 9)) == (None, [], 0)
            tx.feeds.mark_pending(kind, ["a"])
            tx.feeds.begin_feed(FeedKind.OWN, "mine")
            tx.feeds.begin_feed(FeedKind.EXTERNAL, "theirs")
            tx.feeds.begin_feed(FeedKind.BESIDE, "another")
            assert tx.feeds.feed(FeedKind.OWN) == Feed(reader="mine")
            assert (_changed(tx, kind), tx.feeds.behind(kind, 9)) == ([("a", 1, None)], 1)
            tx.feeds.end_feed(kind)
        _create(backend, "b", "t")
        with backend.writing() as tx:
            tx.executions.remove("b")
            assert (tx.feeds.feed(kind), tx.feeds.behind(kind, 9)) == (None, 0)
            other, _ = {*FeedKind} - {kind}
            assert [one[0] for one in _changed(tx, other)] == ["b", "a"]

    def test_versions_rise(self, backend: Backend) -> None:
        """Each state of an id has a higher version than those before it: removed, archived, and in another life."""
        _begin(backend)
        seen: list[int] = []
        for _ in range(2):
            _create(backend, "a", "t")
            _create(backend, "b", "t")
            for act in (None, lambda tx: tx.executions.remove("a")):
                with backend.writing() as tx:
                    act(tx) if act is not None else None
                    found = next(one for one in tx.feeds.changes(FeedKind.EXTERNAL, 0, 9) if one.workflow_id == "a")
                    seen.append(found.version)
                    tx.feeds.mark_indexed(FeedKind.EXTERNAL, [found], True)
            with backend.writing() as tx:
                tx.executions.remove("b")
        assert seen == sorted(set(seen))

    def test_everything_is_fed_once(self, backend: Backend) -> None:
        """Archived executions, then those that are stored, whole; page by page past a place; what was kind is not kind again."""
        for name in ("a", "b", "c"):
            _create(backend, name, "t", "u")
        with backend.writing() as tx:
            tx.archive.put_archived(_archived("z"))
            tx.feeds.begin_feed(FeedKind.EXTERNAL, "reader")
            assert _changed(tx) == [("z", None, None), *((name, 1, None) for name in ("a", "b", "c"))]
            page = tx.feeds.changes(FeedKind.EXTERNAL, 0, 2)
            assert [one.workflow_id for one in page] == ["z", "a"]
            tx.feeds.mark_indexed(FeedKind.EXTERNAL, page, False)
            assert tx.feeds.feed(FeedKind.EXTERNAL) == Feed(reader="reader", position=1)
            rest = tx.feeds.changes(FeedKind.EXTERNAL, page[-1].place, 9)
            assert [one.workflow_id for one in rest] == ["b", "c"]
            assert [tx.feeds.is_pending(FeedKind.EXTERNAL, name) for name in ("a", "b", "z", "nobody")] == [
                False,
                True,
                False,
                False,
            ]
            tx.feeds.mark_indexed(FeedKind.EXTERNAL, rest, True)
            assert tx.feeds.feed(FeedKind.EXTERNAL) == Feed(reader="reader", position=2, complete=True)
            assert (_changed(tx), tx.feeds.behind(FeedKind.EXTERNAL, 9)) == ([], 0)
            tx.feeds.mark_indexed(FeedKind.EXTERNAL, (), False)
            assert tx.feeds.feed(FeedKind.EXTERNAL) == Feed(reader="reader", position=3, complete=True)
            tx.feeds.begin_feed(FeedKind.EXTERNAL, "another")
            assert len(_changed(tx)) == 4

    def test_turns_are_known_by_their_fences(self, backend: Backend) -> None:
        """However many there were, once; with the attempts that they have changed, whatever these say of their instants."""
        _create(backend, "a", "t", "u")
        _create(backend, "b", "t")
        _begin(backend)
        _mark(backend)
        for _ in range(3):
            _turn(backend, "b")
        with backend.reading() as view:
            old = next(one for one in view.executions.attempts("a") if one.ref == "t")
        retried = attrs.evolve(old, status=TaskStatus.FAILED)
        _turn(backend, "a", updated=(retried,), inserted=(attrs.evolve(old, attempt=1, task_id="a-t-1"),))
        with backend.writing() as tx:
            assert sorted(_changed(tx)) == [("a", 2, 1), ("b", 4, 1)]
            assert (tx.feeds.behind(FeedKind.EXTERNAL, 9), tx.feeds.behind(FeedKind.EXTERNAL, 1)) == (2, 1)
            assert sorted((one.ref, one.attempt) for one in tx.executions.attempts_since("a", 1)) == [("t", 0), ("t", 1)]
            assert [len(tx.executions.attempts_since("a", fence)) for fence in (0, 2)] == [3, 0]
            assert tx.executions.attempts_since("b", 1) == tx.executions.attempts_since("nobody", 0) == []
        _mark(backend)
        with backend.reading() as view:
            assert _changed(view) == []

    def test_a_turn_on_what_has_ended(self, backend: Backend) -> None:
        """One that had ended when it was kind, and moves on, and one that ends, are kind of."""
        _create(backend, "a", "t")
        _create(backend, "b", "t")
        _turn(backend, "a", row={"status": WorkflowStatus.COMPLETED, "ended_at": 5})
        _begin(backend)
        _mark(backend)
        _turn(backend, "a", row={"status": WorkflowStatus.RUNNING, "ended_at": 0})
        _turn(backend, "a", row={"status": WorkflowStatus.FAILED, "ended_at": 6})
        _turn(backend, "b", row={"status": WorkflowStatus.FAILED, "ended_at": 6})
        with backend.reading() as view:
            assert sorted(one[:2] for one in _changed(view)) == [("a", 4), ("b", 2)]
        _mark(backend)
        with backend.reading() as view:
            assert _changed(view) == []

    def test_attempts_that_are_gone(self, backend: Backend) -> None:
        """An execution whose attempts were dropped or renamed is kind of whole."""
        for name in ("a", "b"):
            _create(backend, name, "t", "u")
        _begin(backend)
        _mark(backend)
        _turn(backend, "a", dropped=("t",))
        _turn(backend, "b", renamed=(Renamed(ref="t", new_ref="v", new_base_ref="v"),))
        with backend.reading() as view:
            assert sorted(_changed(view)) == [("a", 2, None), ("b", 2, None)]
        _mark(backend)
        with backend.reading() as view:
            assert _changed(view) == []

    def test_removals_whatever_comes_after(self, backend: Backend) -> None:
        """A removal is kind, and apart from it what was started again under the id, in the store or in the archive."""
        _create(backend, "a", "t")
        _begin(backend)
        _mark(backend)
        with backend.writing() as tx:
            tx.executions.remove("a")
            tx.executions.remove("a")
            assert _changed(tx) == [("a", None, None)]
        _create(backend, "a", "u")
        with backend.writing() as tx:
            assert _changed(tx) == [("a", None, None), ("a", 2, None)]
            tx.archive.put_archived(_archived("x"))
        _mark(backend)
        with backend.writing() as tx:
            assert _changed(tx) == []
            assert tx.archive.drop_archived("x")
            assert _changed(tx) == [("x", None, None)]
            tx.archive.put_archived(_archived("b"))
        _create(backend, "b", "t")
        with backend.reading() as view:
            assert _changed(view) == [("x", None, None), ("b", None, None), ("b", 2, None)]

    def test_what_changes_meanwhile_is_fed_again(self, backend: Backend) -> None:
        """A turn, a removal, or another life of an id between the look and the update."""
        for name in ("a", "b", "c", "d"):
            _create(backend, name, "t")
        _begin(backend)
        with backend.reading() as view:
            changes = view.feeds.changes(FeedKind.EXTERNAL, 0, 99)
        _turn(backend, "a")
        _turn(backend, "c", row={"status": WorkflowStatus.COMPLETED, "ended_at": 5})
        with backend.writing() as tx:
            tx.executions.remove("b")
            tx.executions.remove("d")
        _create(backend, "d", "u")
        _mark(backend, changes)
        with backend.reading() as view:
            assert {one[0] for one in _changed(view)} == {"a", "b", "c", "d"}
            assert ("a", 2, 1) in _changed(view)
        _mark(backend)
        _mark(backend)
        with backend.reading() as view:
            assert _changed(view) == []

    def test_what_is_noted_again(self, backend: Backend) -> None:
        """FeedKind whole, there or not."""
        for name in ("a", "b"):
            _create(backend, name, "t")
        _begin(backend)
        _mark(backend)
        with backend.writing() as tx:
            tx.feeds.mark_pending(FeedKind.EXTERNAL, ["b", "nobody"])
            tx.feeds.mark_pending(FeedKind.EXTERNAL, ["b"])
            assert _changed(tx) == [("b", 1, None), ("nobody", None, None)]
            assert [tx.feeds.is_pending(FeedKind.EXTERNAL, name) for name in ("nobody", "b", "a")] == [True, True, False]
        _mark(backend)
        with backend.reading() as view:
            assert (view.feeds.behind(FeedKind.EXTERNAL, 9), view.feeds.is_pending(FeedKind.EXTERNAL, "b")) == (0, False)

    def test_notes_are_undone_with_their_change(self, backend: Backend) -> None:
        """A transaction that fails leaves nothing to index."""
        _begin(backend)
        try:
            with backend.writing() as tx:
                tx.decisions.apply(Decision(workflow=workflow("a"), created=True))
                tx.archive.put_archived(_archived("z"))
                raise KeyError
        except KeyError:
            pass
        with backend.reading() as view:
            assert (view.feeds.behind(FeedKind.EXTERNAL, 9), view.archive.archived("z")) == (0, None)

    def test_the_archive(self, backend: Backend) -> None:
        """Bytes come back as they are, in the place of older ones; ids are listed in order."""
        with backend.writing() as tx:
            for name in ("b", "a", "c"):
                tx.archive.put_archived(_archived(name))
            tx.archive.put_archived(attrs.evolve(_archived("a"), document=b"new", size=99))
        with backend.writing() as tx:
            assert tx.archive.archived("b") == _archived("b")
            assert tx.archive.archived("a") == attrs.evolve(_archived("a"), document=b"new", size=99)
            assert [list(tx.archive.archived_ids("", 2)), list(tx.archive.archived_ids("b", 9))] == [["a", "b"], ["c"]]
            assert (tx.archive.drop_archived("b"), tx.archive.drop_archived("b"), tx.archive.archived("b")) == (True, False, None)
            assert tx.executions.workflow("a") is None

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
