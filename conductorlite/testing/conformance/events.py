"""The part of the suite about event handlers, and the records that make their actions happen once."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite.canonical import INLINE_LIMIT, Payload
from conductorlite.errors import InvariantBroken
from conductorlite.handlers import EventExecution, EventStatus
from conductorlite.ports import Backend

__all__ = ["EventConformance"]


def _record(name: str = "h", message_id: str = "m", number: int = 0, **fields: Any) -> EventExecution:
    given = {"event": "e", "status": EventStatus.COMPLETED, "action": "start_workflow"} | fields
    return EventExecution(name=name, message_id=message_id, number=number, **given)


class EventConformance:
    """Event handlers by name and event; records by identity, handler, message and age."""

    def test_event_handlers_by_name_and_event(self, backend: Backend) -> None:
        """They are listed in order of their names, and the last text put under a name counts, also for its event."""
        with backend.writing() as tx:
            tx.put_event_handler("b", "e", True, "first b")
            tx.put_event_handler("a", "e", False, "text a")
            tx.put_event_handler("c", "other", True, "text c")
            tx.put_event_handler("b", "e", True, "text b")
        with backend.reading() as view:
            assert [view.event_handler("b"), view.event_handler("x")] == ["text b", None]
            assert list(view.event_handlers(None, active_only=False)) == ["text a", "text b", "text c"]
            assert list(view.event_handlers(None, active_only=True)) == ["text b", "text c"]
            assert list(view.event_handlers("e", active_only=False)) == ["text a", "text b"]
            assert list(view.event_handlers("e", active_only=True)) == ["text b"]
            assert list(view.event_handlers("none", active_only=False)) == []
        with backend.writing() as tx:
            tx.put_event_handler("b", "other", False, "moved b")
            tx.drop_event_handler("a")
            tx.drop_event_handler("a")
            assert list(tx.event_handlers("e", active_only=False)) == []
            assert list(tx.event_handlers("other", active_only=False)) == ["moved b", "text c"]

    def test_a_record_is_kept_once(self, backend: Backend) -> None:
        """A second record of an identity raises InvariantBroken, and nothing of that transaction is stored."""
        large = Payload.of({"text": "x" * (INLINE_LIMIT + 1)})
        first = _record(output=large, created=5)
        skipped = _record(name="i", status=EventStatus.SKIPPED, action=None)
        with backend.writing() as tx:
            tx.add_event_execution(first)
            tx.add_event_execution(skipped)
            assert tx.event_execution(*first.key) == first
        with pytest.raises(InvariantBroken):
            self._put_and_add(backend, _record(created=6, status=EventStatus.FAILED))
        with backend.reading() as view:
            assert view.event_execution(*first.key) == first
            assert view.event_execution(*skipped.key) == skipped
            assert view.event_execution("h", "e", "m", 1) is None
            assert view.event_execution("h", "f", "m", 0) is None
            assert view.event_handler("b") is None
            assert [one.output.value for one in view.event_executions("h", None, None, 9)] == [large.value]

    def _put_and_add(self, backend: Backend, record: EventExecution) -> None:
        with backend.writing() as tx:
            tx.put_event_handler("b", "e", True, "text")
            tx.add_event_execution(record)

    def test_records_are_listed_newest_first_and_dropped_oldest_first(self, backend: Backend) -> None:
        """A page is in descending order of places, after a mark; the oldest before an instant are dropped."""
        records = [
            _record(name, message, number, created=created, event=event)
            for name, message, number, created, event in [
                ("a", "m1", 0, 3, "e"), ("a", "m1", 1, 3, "e"), ("b", "m1", 0, 2, "e"), ("b", "m2", 0, 5, "f"),
                ("a", "m2", 0, 1, "e"),
            ]
        ]  # fmt: skip
        newest = sorted(records, key=lambda one: one.place, reverse=True)
        with backend.writing() as tx:
            for record in records:
                tx.add_event_execution(record)
        with backend.reading() as view:
            assert list(view.event_executions(None, None, None, 9)) == newest
            assert list(view.event_executions(None, None, None, 2)) == newest[:2]
            assert list(view.event_executions(None, None, newest[1].place, 2)) == newest[2:4]
            assert list(view.event_executions("a", None, None, 9)) == [one for one in newest if one.name == "a"]
            assert list(view.event_executions("a", None, newest[1].place, 1)) == [newest[2]]
            assert list(view.event_executions(None, "m1", None, 9)) == [one for one in newest if one.message_id == "m1"]
            assert list(view.event_executions("b", "m1", None, 9)) == [records[2]]
            assert list(view.event_executions("b", "m1", records[2].place, 9)) == []
            assert list(view.event_executions("x", None, None, 9)) == []
        with backend.writing() as tx:
            assert tx.drop_event_executions(3, 1) == 1
            assert list(tx.event_executions(None, None, None, 9)) == newest[:4]
            assert tx.drop_event_executions(3, 9) == 1
            assert tx.drop_event_executions(3, 9) == 0
        with backend.reading() as view:
            assert list(view.event_executions(None, None, None, 9)) == newest[:3]
            assert list(view.event_executions("b", "m1", None, 9)) == []
