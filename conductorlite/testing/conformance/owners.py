"""The parts of the suite about owners, holders and driven time.

The contract of what a store keeps of when it was driven.

The contract of holders: who holds which attempts, and how it is seen that a holder has ended.

The part of the suite about owners: which events are due for which owner, and how all that one owner has becomes another's.

The part of the suite about schedules: rows under a fence, each with an inbox.

The contract of a registry of schemas.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs
import pytest

from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.ports import Backend, Presence, WritingTransaction
from conductorlite.store.tables import HolderRow, Life, OwnerRow, ScheduleRow
from conductorlite.testing.conformance.samples import MANY, event, message, settle, started, task, workflow

__all__ = ["DrivenConformance", "HolderConformance", "OwnerConformance", "ScheduleConformance", "SchemaConformance"]


class DrivenConformance:
    """Stretches of driven time."""

    def test_driven(self, backend: Backend) -> None:
        """Stretches are kept by owner and beginning, the longest of one beginning, and found by their ends."""
        with backend.writing() as tx:
            for owner, begin, end in (("", 5, 9), ("", 1, 4), ("a", 1, 100), ("", 5, 7), ("", 1, 6)):
                tx.owners.note_driven(owner, begin, end)
        with backend.reading() as view:
            assert list(view.owners.driven("", 0)) == [(1, 6), (5, 9)]
            assert list(view.owners.driven("", 6)) == [(5, 9)]
            assert (list(view.owners.driven("a", 99)), list(view.owners.driven("a", 100)), list(view.owners.driven("b", 0))) == (
                [(1, 100)],
                [],
                [],
            )

    def test_the_oldest_stretches_are_forgotten(self, backend: Backend) -> None:
        """The newest of an owner stay, and those of others."""
        with backend.writing() as tx:
            tx.owners.note_driven("a", 0, 1)
            for begin in range(0, 30, 3):
                tx.owners.note_driven("", begin, begin + 1)
            tx.owners.forget_driven("", 10)
            assert len(tx.owners.driven("", 0)) == 10
            tx.owners.forget_driven("", 4)
        with backend.reading() as view:
            assert list(view.owners.driven("", 0)) == [(18, 19), (21, 22), (24, 25), (27, 28)]
            assert list(view.owners.driven("a", 0)) == [(0, 1)]


class HolderConformance:
    """Rows of holders, what they hold, and their presences."""

    def test_holders_come_and_go(self, backend: Backend) -> None:
        """In order of names, renewed in place, forgotten once; nothing of it when the change is undone."""
        first, second = HolderRow(holder="b", place="p", lease_until=None), HolderRow(holder="a", place="ü/'1", lease_until=7)
        with backend.writing() as tx:
            tx.task_holders.put_holder(first)
            tx.task_holders.put_holder(second)
            assert list(tx.task_holders.rows()) == [second, first]
        renewed = HolderRow(holder="a", place="q", lease_until=9)
        with backend.writing() as tx:
            tx.task_holders.put_holder(renewed)
            tx.task_holders.drop_holder("nobody")
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.task_holders.drop_holder("a")
            tx.task_holders.put_holder(HolderRow(holder="c", place="r"))
            raise ZeroDivisionError
        with backend.reading() as view:
            assert list(view.task_holders.rows()) == [renewed, first]
        with backend.writing() as tx:
            tx.task_holders.drop_holder("b")
        with backend.reading() as view:
            assert list(view.task_holders.rows()) == [renewed]

    def test_what_a_holder_has(self, backend: Backend) -> None:
        """The attempts whose rows name it, of all executions, in order; what is given on, ended or removed is its no more."""

        def held(ref: str, workflow_id: str = "w", holder: str = "h", attempt: int = 0) -> Task:
            return task(ref, workflow_id, holder=holder, attempt=attempt, status=TaskStatus.IN_PROGRESS)

        rows = [held("b"), held("a"), held("c", holder="other"), task("d")]
        row = started(backend, "w", inserted=tuple(rows))
        started(backend, "v", inserted=(task("a", "v", status=TaskStatus.FAILED), held("a", "v", attempt=1)))

        def held_by(holder: str) -> list[tuple[str, str, int]]:
            with backend.reading() as view:
                return [(one.workflow_id, one.ref, one.attempt) for one in view.executions.held_by(holder)]

        assert held_by("h") == [("v", "a", 1), ("w", "a", 0), ("w", "b", 0)]
        assert (held_by("other"), held_by("nobody")) == ([("w", "c", 0)], [])
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, updated=(held("a", holder="other"), task("b", status=TaskStatus.COMPLETED))))
        settle(backend)
        assert (held_by("h"), held_by("other")) == ([("v", "a", 1)], [("w", "a", 0), ("w", "c", 0)])
        with backend.writing() as tx:
            tx.executions.remove("v")
            tx.task_holders.drop_holder("other")
        assert (held_by("h"), held_by("other")) == ([], [("w", "a", 0), ("w", "c", 0)])

    def test_a_presence_ends_when_it_is_asked_to(self, backend: Backend) -> None:
        """Alive until it leaves, dies or is removed; the first end counts, each may come twice, and others stay as they are."""
        left, dead, removed, alive = (self._seen(backend) for _ in range(4))
        places = {one.place for one in (left, dead, removed, alive)}
        assert len(places) == 4
        assert {backend.look(place) for place in places} == {Life.ALIVE}
        for _ in range(2):
            left.leave()
            dead.die()
            removed.remove()
        left.die()
        dead.leave()
        seen = [backend.look(one.place) for one in (left, dead, removed, alive)]
        assert seen == [Life.LEFT, Life.DEAD, Life.MISSING, Life.ALIVE]
        for _ in range(2):
            backend.forget(left.place)
            backend.forget(dead.place)
        assert {backend.look(one.place) for one in (left, dead)} == {Life.MISSING}
        assert backend.look(alive.place) is Life.ALIVE
        alive.remove()

    def test_a_place_of_nobody(self, backend: Backend) -> None:
        """Whatever a row says, a holder that is not seen is taken neither for alive nor dead nor left; to forget it is harmless."""
        for place in ("", "/", "nonsense", "a/b/c/d", "1/2/3/../../x", "ü" * 300):
            assert backend.look(place) in (Life.ELSEWHERE, Life.MISSING)
            backend.forget(place)

    def _seen(self, backend: Backend) -> Presence:
        presence = backend.appear()
        if presence.leased and backend.look(presence.place) is Life.ELSEWHERE:
            pytest.skip("here presences are not seen: only leases count")
        return presence


def _owned(backend: Backend, workflow_id: str, owner: str) -> None:
    """An execution with a timer that is due at 5 and a task that is offered."""
    queue = f"@{owner}/charge" if owner else "charge"
    decision = Decision(
        workflow=workflow(workflow_id, owner=owner),
        created=True,
        timers=(event("timer", 5, workflow_id),),
        outgoing=Outgoing(put=(message("a", 0, workflow_id, queue=queue),)),
    )
    with backend.writing() as tx:
        tx.decisions.apply(decision)
    settle(backend)


def _change_and_fail(tx: WritingTransaction) -> None:
    tx.owners.change_owner("a", "z", "", 9)
    tx.owners.change_owner_of_the_rest("a", "z")
    raise InvariantBroken("on purpose")


class OwnerConformance:
    """Executions that belong to one engine."""

    def test_what_is_due_is_due_for_its_owner(self, backend: Backend) -> None:
        """Events of an execution are found by its owner alone; without one, by a reader that asks for those of every owner."""
        _owned(backend, "mine", "a")
        _owned(backend, "ours", "")
        with backend.reading() as view:
            assert list(view.inbox.due_workflows(9, 9)) == ["ours"]
            assert list(view.inbox.due_workflows(9, 9, "a")) == ["mine"]
            assert list(view.inbox.due_workflows(9, 9, "b")) == []
            assert (view.inbox.next_event_at(), view.inbox.next_event_at("a"), view.inbox.next_event_at("b")) == (5, 5, None)
            assert (view.inbox.next_event(), view.inbox.next_event("a"), view.inbox.next_event("b")) == (
                (5, "ours"),
                (5, "mine"),
                None,
            )
            assert [e.workflow_id for e in view.inbox.upcoming_events(9)] == ["mine", "ours"]
            assert [e.workflow_id for e in view.inbox.upcoming_events(1)] == ["mine"]
            assert [(e.workflow_id, e.owner) for e in view.inbox.upcoming_events(9, "a")] == [("mine", "a")]

    def test_an_event_belongs_to_its_addressee(self, backend: Backend) -> None:
        """Whatever it says, an event to an execution is its owner's; one to what has not begun is whose it says."""
        _owned(backend, "mine", "a")
        _owned(backend, "ours", "")
        with backend.writing() as tx:
            tx.inbox.post([event("x", 1, "mine", owner="b"), event("x", 2, "ours", owner="b"), event("x", 3, "unborn", owner="b")])
            tx.decisions.apply(
                Decision(
                    workflow=workflow("sender", owner="c"),
                    created=True,
                    timers=(event("own", 4, "sender"),),
                    outgoing=Outgoing(posted=(event("y", 1, "mine", owner="c"), event("y", 1, "new", owner="c"))),
                )
            )
        settle(backend)
        with backend.reading() as view:
            found = {(e.workflow_id, e.event_id): e.owner for e in view.inbox.upcoming_events(MANY)}
        assert found[("mine", "x")] == found[("mine", "y")] == "a"
        assert found[("ours", "x")] == ""
        assert found[("unborn", "x")] == "b"
        assert found[("new", "y")] == found[("sender", "own")] == "c"

    def test_changing_the_owner(self, backend: Backend) -> None:
        """Events, held ones too, and messages go along; the fence is raised; pages follow the ids."""
        for workflow_id in ("w1", "w2", "w3"):
            _owned(backend, workflow_id, "a")
        _owned(backend, "other", "b")
        with backend.writing() as tx:
            tx.inbox.post([event("held", 1, "w1", held=True)])
            read = tx.executions.workflow("w1")
            assert read is not None
            assert list(tx.owners.change_owner("a", "z", "", 2)) == ["w1", "w2"]
        with backend.writing() as tx:
            assert list(tx.owners.change_owner("a", "z", "w2", 2)) == ["w3"]
            assert list(tx.owners.change_owner("a", "z", "", 2)) == []
        with backend.reading() as view:
            row = view.executions.workflow("w1")
            assert row is not None
            assert (row.owner, row.fence) == ("z", read.fence + 1)
            assert {e.event_id: e.owner for e in view.inbox.events("w1")} == {"timer": "z", "held": "z"}
            assert dict(view.queue.queue_sizes()) == {"@z/charge": 3, "@b/charge": 1}
            assert [m.workflow_id for m in view.queue.offered("@z/charge", 9, 9)] == ["w1", "w2", "w3"]
            assert list(view.inbox.due_workflows(9, 9, "a")) == []
            assert list(view.inbox.due_workflows(9, 9, "z")) == ["w1", "w2", "w3"]
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=read))

    def test_from_everybody_and_back(self, backend: Backend) -> None:
        """The empty name means all engines: what was shared becomes one's, and the other way round."""
        _owned(backend, "w", "")
        _owned(backend, "x", "b")
        for old, new, queue in (("", "a", "@a/charge"), ("a", "", "charge")):
            with backend.writing() as tx:
                assert list(tx.owners.change_owner(old, new, "", 9)) == ["w"]
            with backend.reading() as view:
                row = view.executions.workflow("w")
                assert row is not None
                assert row.owner == new
                assert [m.queue for m in view.queue.messages(9) if m.workflow_id == "w"] == [queue]
                assert list(view.inbox.due_workflows(9, 9, new)) == ["w"]

    def test_the_rest_goes_too(self, backend: Backend) -> None:
        """Schedules under their fence with their timers, and events that will begin an execution."""
        row = ScheduleRow(name="s", address="schedule:s", text="{}", progress="[]", owner="a")
        with backend.writing() as tx:
            tx.schedules.put_schedule(row, [], [event("t", 5, "schedule:s", owner="a")])
            tx.inbox.post([event("START", 1, "unborn", owner="a")])
        with backend.writing() as tx:
            assert tx.owners.change_owner_of_the_rest("a", "z") == 1
            assert tx.owners.change_owner_of_the_rest("a", "z") == 0
        with backend.reading() as view:
            stored = view.schedules.schedule("s")
            assert stored is not None
            assert (stored.owner, stored.fence) == ("z", 2)
            assert list(view.inbox.due_workflows(9, 9, "z")) == ["unborn", "schedule:s"]
            assert list(view.inbox.due_workflows(9, 9, "a")) == []

    def test_owners(self, backend: Backend) -> None:
        """Every owner of an execution or an event, with how many; what is shared is not listed."""
        _owned(backend, "w1", "b")
        _owned(backend, "w2", "b")
        _owned(backend, "w3", "")
        with backend.writing() as tx:
            tx.inbox.post([event("START", 1, "unborn", owner="a")])
        with backend.reading() as view:
            assert list(view.owners.rows()) == [
                OwnerRow(name="a", executions={}, events=1),
                OwnerRow(name="b", executions={"RUNNING": 2}, events=2),
            ]

    def test_an_error_undoes_a_change_of_owners(self, backend: Backend) -> None:
        """Nothing of it is left when its transaction fails."""
        _owned(backend, "w", "a")
        with pytest.raises(InvariantBroken), backend.writing() as tx:
            _change_and_fail(tx)
        with backend.reading() as view:
            assert list(view.inbox.due_workflows(9, 9, "a")) == ["w"]
            assert dict(view.queue.queue_sizes()) == {"@a/charge": 1}
            assert [row.name for row in view.owners.rows()] == ["a"]


class SchemaConformance:
    """Registered schemas."""

    def test_schemas(self, backend: Backend) -> None:
        """Schemas are replaced by name and version, found by either or the highest, and are a change of the registry."""
        with backend.reading() as view:
            before = view.metadata.registry_version()
            assert (view.metadata.schema_def("order", None), list(view.metadata.schema_defs())) == (None, [])
        with backend.writing() as tx:
            for name, version, text in (("order", 2, "two"), ("order", 10, "ten"), ("a", 1, "a"), ("order", 2, "again")):
                tx.metadata.put_schema_def(name, version, text)
        with backend.reading() as view:
            assert (view.metadata.schema_def("order", None), view.metadata.schema_def("order", 2)) == ("ten", "again")
            assert (view.metadata.schema_def("order", 3), view.metadata.schema_def("x", None)) == (None, None)
            assert list(view.metadata.schema_defs()) == [("a", 1), ("order", 2), ("order", 10)]
            assert view.metadata.registry_version() > before

    def test_a_schema_that_is_not_committed_is_not_there(self, backend: Backend) -> None:
        """A change that raises leaves no schema behind."""
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.metadata.put_schema_def("order", 1, "one")
            raise ZeroDivisionError
        with backend.reading() as view:
            assert list(view.metadata.schema_defs()) == []


def _row(name: str = "s", **fields: Any) -> ScheduleRow:
    return attrs.evolve(ScheduleRow(name=name, address=f"schedule:{name}", text="{}", progress="[]"), **fields)


class ScheduleConformance:
    """Schedules, their fence, their events."""

    def test_a_schedule_is_stored_under_its_fence(self, backend: Backend) -> None:
        """Each write raises the fence; a writer that has read an older one, or none, changes nothing."""
        with backend.writing() as tx:
            assert tx.schedules.schedule("s") is None
            tx.schedules.put_schedule(_row(), [], [])
            assert tx.schedules.schedule("s") == _row(fence=1)
            tx.schedules.put_schedule(_row(fence=1, text="new", progress="far", waits=True), [], [])
        for fence in (0, 1, 3):
            with pytest.raises(FencedOut), backend.writing() as tx:
                tx.schedules.put_schedule(_row(fence=fence, text="late"), ["a"], [event("b", 1, "schedule:s")])
        with backend.reading() as view:
            assert view.schedules.schedule("s") == _row(fence=2, text="new", progress="far", waits=True)
            assert list(view.inbox.events("schedule:s")) == []

    def test_one_that_is_refused_refuses_itself_only(self, backend: Backend) -> None:
        """A caller that takes the error goes on in the same transaction."""
        with backend.writing() as tx:
            tx.schedules.put_schedule(_row(), [], [])
        with backend.writing() as tx:
            with pytest.raises(FencedOut):
                tx.schedules.put_schedule(_row(text="late"), [], [])
            tx.schedules.put_schedule(_row(fence=1, text="new"), [], [])
        with backend.reading() as view:
            assert view.schedules.schedule("s") == _row(fence=2, text="new")

    def test_a_schedule_that_is_not_there_has_no_fence(self, backend: Backend) -> None:
        """It can only be rebuilt."""
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.schedules.put_schedule(_row(fence=1), [], [])
        with backend.reading() as view:
            assert view.schedules.schedule("s") is None

    def test_its_events_are_due_like_others(self, backend: Backend) -> None:
        """Consumed events go, then others come, also under the same id; the first of all inboxes is known with its address."""
        with backend.writing() as tx:
            assert tx.inbox.next_event() is None
            tx.inbox.post([event("a", 7, "w"), event("h", 0, "w", held=True)])
            tx.schedules.put_schedule(_row(), ["t"], [event("t", 5, "schedule:s"), event("e", 6, "schedule:s")])
            assert tx.inbox.next_event() == (5, "schedule:s")
            assert list(tx.inbox.due_workflows(9, 9)) == ["schedule:s", "w"]
            tx.schedules.put_schedule(_row(fence=1), ["t", "e", "never there"], [event("t", 8, "schedule:s")])
            assert tx.inbox.next_event() == (7, "w")
            assert [(e.event_id, e.due_at) for e in tx.inbox.events("schedule:s")] == [("t", 8)]

    def _dropped_and_undone(self, tx: WritingTransaction) -> None:
        tx.schedules.drop_schedule("s")
        assert tx.schedules.schedule("s") is None
        tx.schedules.put_schedule(_row(fence=1), [], [])

    def test_they_are_listed_by_name(self, backend: Backend) -> None:
        """In pages, ascending, each greater than the mark."""
        with backend.writing() as tx:
            for name in ("c", "a", "b"):
                tx.schedules.put_schedule(_row(name), [], [])
            assert [row.name for row in tx.schedules.page("", 9)] == ["a", "b", "c"]
            assert [row.name for row in tx.schedules.page("a", 1)] == ["b"]
            assert tx.schedules.page("c", 9) == []

    def test_a_schedule_that_is_dropped_takes_its_inbox_along(self, backend: Backend) -> None:
        """Nothing of it is left; dropping it again changes nothing; undone, all is there again."""
        with backend.writing() as tx:
            tx.schedules.put_schedule(_row(), [], [event("t", 5, "schedule:s")])
        with pytest.raises(FencedOut), backend.writing() as tx:
            self._dropped_and_undone(tx)
        with backend.reading() as view:
            assert len(view.inbox.events("schedule:s")) == len(view.schedules.page("", 9)) == 1
        for _ in range(2):
            with backend.writing() as tx:
                tx.schedules.drop_schedule("s")
        with backend.reading() as view:
            assert (view.schedules.schedule("s"), list(view.schedules.page("", 9)), list(view.inbox.events("schedule:s"))) == (
                None,
                [],
                [],
            )
            assert view.inbox.next_event() is None
