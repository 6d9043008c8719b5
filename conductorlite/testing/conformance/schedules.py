"""The part of the suite about schedules: rows under a fence, each with an inbox.

The contract of a registry of schemas.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from conductorlite.model import attrs
from conductorlite.model.errors import FencedOut
from conductorlite.store.ports import Backend, WritingTransaction
from conductorlite.store.tables import ScheduleRow
from conductorlite.testing.conformance.samples import event

__all__ = ["ScheduleConformance", "SchemaConformance"]


class SchemaConformance:
    """Registered schemas."""

    def test_schemas(self, backend: Backend) -> None:
        """Schemas are replaced by name and version, found by either or the highest, and are a change of the registry."""
        with backend.reading() as view:
            before = view.registry_version()
            assert (view.schema_def("order", None), list(view.schema_defs())) == (None, [])
        with backend.writing() as tx:
            for name, version, text in (("order", 2, "two"), ("order", 10, "ten"), ("a", 1, "a"), ("order", 2, "again")):
                tx.put_schema_def(name, version, text)
        with backend.reading() as view:
            assert (view.schema_def("order", None), view.schema_def("order", 2)) == ("ten", "again")
            assert (view.schema_def("order", 3), view.schema_def("x", None)) == (None, None)
            assert list(view.schema_defs()) == [("a", 1), ("order", 2), ("order", 10)]
            assert view.registry_version() > before

    def test_a_schema_that_is_not_committed_is_not_there(self, backend: Backend) -> None:
        """A change that raises leaves no schema behind."""
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.put_schema_def("order", 1, "one")
            raise ZeroDivisionError
        with backend.reading() as view:
            assert list(view.schema_defs()) == []


def _row(name: str = "s", **fields: Any) -> ScheduleRow:
    return attrs.evolve(ScheduleRow(name=name, address=f"schedule:{name}", text="{}", progress="[]"), **fields)


class ScheduleConformance:
    """Schedules, their fence, their events."""

    def test_a_schedule_is_stored_under_its_fence(self, backend: Backend) -> None:
        """Each write raises the fence; a writer that has read an older one, or none, changes nothing."""
        with backend.writing() as tx:
            assert tx.schedule("s") is None
            tx.put_schedule(_row(), [], [])
            assert tx.schedule("s") == _row(fence=1)
            tx.put_schedule(_row(fence=1, text="new", progress="far", waits=True), [], [])
        for fence in (0, 1, 3):
            with pytest.raises(FencedOut), backend.writing() as tx:
                tx.put_schedule(_row(fence=fence, text="late"), ["a"], [event("b", 1, "schedule:s")])
        with backend.reading() as view:
            assert view.schedule("s") == _row(fence=2, text="new", progress="far", waits=True)
            assert list(view.inbox("schedule:s")) == []

    def test_a_schedule_that_is_not_there_has_no_fence(self, backend: Backend) -> None:
        """It can only be rebuilt."""
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.put_schedule(_row(fence=1), [], [])
        with backend.reading() as view:
            assert view.schedule("s") is None

    def test_its_events_are_due_like_others(self, backend: Backend) -> None:
        """Those consumed go, then others come, also under the same id; the first of all inboxes is known with its address."""
        with backend.writing() as tx:
            assert tx.next_event() is None
            tx.post([event("a", 7, "w"), event("h", 0, "w", held=True)])
            tx.put_schedule(_row(), ["t"], [event("t", 5, "schedule:s"), event("e", 6, "schedule:s")])
            assert tx.next_event() == (5, "schedule:s")
            assert list(tx.due_workflows(9, 9)) == ["schedule:s", "w"]
            tx.put_schedule(_row(fence=1), ["t", "e", "never there"], [event("t", 8, "schedule:s")])
            assert tx.next_event() == (7, "w")
            assert [(e.event_id, e.due_at) for e in tx.inbox("schedule:s")] == [("t", 8)]

    def _dropped_and_undone(self, tx: WritingTransaction) -> None:
        tx.drop_schedule("s")
        assert tx.schedule("s") is None
        tx.put_schedule(_row(fence=1), [], [])

    def test_they_are_listed_by_name(self, backend: Backend) -> None:
        """In pages, ascending, each greater than the mark."""
        with backend.writing() as tx:
            for name in ("c", "a", "b"):
                tx.put_schedule(_row(name), [], [])
            assert [row.name for row in tx.schedules("", 9)] == ["a", "b", "c"]
            assert [row.name for row in tx.schedules("a", 1)] == ["b"]
            assert tx.schedules("c", 9) == []

    def test_a_schedule_that_is_dropped_takes_its_inbox_along(self, backend: Backend) -> None:
        """Nothing of it is left; dropping it again changes nothing; undone, all is there again."""
        with backend.writing() as tx:
            tx.put_schedule(_row(), [], [event("t", 5, "schedule:s")])
        with pytest.raises(FencedOut), backend.writing() as tx:
            self._dropped_and_undone(tx)
        with backend.reading() as view:
            assert len(view.inbox("schedule:s")) == len(view.schedules("", 9)) == 1
        for _ in range(2):
            with backend.writing() as tx:
                tx.drop_schedule("s")
        with backend.reading() as view:
            assert (view.schedule("s"), list(view.schedules("", 9)), list(view.inbox("schedule:s"))) == (None, [], [])
            assert view.next_event() is None
