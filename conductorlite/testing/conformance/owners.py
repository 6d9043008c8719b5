"""The part of the suite about owners: whose letters are due for whom, and how all that is somebody's becomes another's."""

from __future__ import annotations

import pytest

from conductorlite.decisions import Decision, Outgoing
from conductorlite.errors import FencedOut, InvariantBroken
from conductorlite.ports import Backend, OwnerRow, ScheduleRow, WritingTransaction
from conductorlite.testing.conformance.samples import MANY, event, message, settle, workflow

__all__ = ["OwnerConformance"]


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
        tx.apply(decision)
    settle(backend)


def _change_and_fail(tx: WritingTransaction) -> None:
    tx.change_owner("a", "z", "", 9)
    tx.change_owner_of_the_rest("a", "z")
    raise InvariantBroken("on purpose")


class OwnerConformance:
    """Executions that belong to one engine."""

    def test_what_is_due_is_due_for_its_owner(self, backend: Backend) -> None:
        """Letters of an execution are found by its owner alone; without one, by whoever asks for everybody's."""
        _owned(backend, "mine", "a")
        _owned(backend, "ours", "")
        with backend.reading() as view:
            assert list(view.due_workflows(9, 9)) == ["ours"]
            assert list(view.due_workflows(9, 9, "a")) == ["mine"]
            assert list(view.due_workflows(9, 9, "b")) == []
            assert (view.next_event_at(), view.next_event_at("a"), view.next_event_at("b")) == (5, 5, None)
            assert (view.next_letter(), view.next_letter("a"), view.next_letter("b")) == ((5, "ours"), (5, "mine"), None)
            assert [e.workflow_id for e in view.upcoming_events(9)] == ["mine", "ours"]
            assert [e.workflow_id for e in view.upcoming_events(1)] == ["mine"]
            assert [(e.workflow_id, e.owner) for e in view.upcoming_events(9, "a")] == [("mine", "a")]

    def test_a_letter_belongs_to_whom_it_is_written(self, backend: Backend) -> None:
        """Whatever it says, a letter to an execution is its owner's; one to what has not begun is whose it says."""
        _owned(backend, "mine", "a")
        _owned(backend, "ours", "")
        with backend.writing() as tx:
            tx.post([event("x", 1, "mine", owner="b"), event("x", 2, "ours", owner="b"), event("x", 3, "unborn", owner="b")])
            tx.apply(
                Decision(
                    workflow=workflow("sender", owner="c"),
                    created=True,
                    timers=(event("own", 4, "sender"),),
                    outgoing=Outgoing(posted=(event("y", 1, "mine", owner="c"), event("y", 1, "new", owner="c"))),
                )
            )
        settle(backend)
        with backend.reading() as view:
            found = {(e.workflow_id, e.event_id): e.owner for e in view.upcoming_events(MANY)}
        assert found[("mine", "x")] == found[("mine", "y")] == "a"
        assert found[("ours", "x")] == ""
        assert found[("unborn", "x")] == "b"
        assert found[("new", "y")] == found[("sender", "own")] == "c"

    def test_changing_the_owner(self, backend: Backend) -> None:
        """Letters, held ones too, and messages go along; the fence is raised; pages follow the ids."""
        for workflow_id in ("w1", "w2", "w3"):
            _owned(backend, workflow_id, "a")
        _owned(backend, "other", "b")
        with backend.writing() as tx:
            tx.post([event("held", 1, "w1", held=True)])
            read = tx.workflow("w1")
            assert read is not None
            assert list(tx.change_owner("a", "z", "", 2)) == ["w1", "w2"]
        with backend.writing() as tx:
            assert list(tx.change_owner("a", "z", "w2", 2)) == ["w3"]
            assert list(tx.change_owner("a", "z", "", 2)) == []
        with backend.reading() as view:
            row = view.workflow("w1")
            assert row is not None
            assert (row.owner, row.fence) == ("z", read.fence + 1)
            assert {e.event_id: e.owner for e in view.inbox("w1")} == {"timer": "z", "held": "z"}
            assert dict(view.queue_sizes()) == {"@z/charge": 3, "@b/charge": 1}
            assert [m.workflow_id for m in view.offered("@z/charge", 9, 9)] == ["w1", "w2", "w3"]
            assert list(view.due_workflows(9, 9, "a")) == []
            assert list(view.due_workflows(9, 9, "z")) == ["w1", "w2", "w3"]
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.apply(Decision(workflow=read))

    def test_from_everybody_and_back(self, backend: Backend) -> None:
        """The empty name is everybody: what was theirs becomes one's, and the other way round."""
        _owned(backend, "w", "")
        _owned(backend, "x", "b")
        for old, new, queue in (("", "a", "@a/charge"), ("a", "", "charge")):
            with backend.writing() as tx:
                assert list(tx.change_owner(old, new, "", 9)) == ["w"]
            with backend.reading() as view:
                row = view.workflow("w")
                assert row is not None
                assert row.owner == new
                assert [m.queue for m in view.messages(9) if m.workflow_id == "w"] == [queue]
                assert list(view.due_workflows(9, 9, new)) == ["w"]

    def test_the_rest_goes_too(self, backend: Backend) -> None:
        """Schedules under their fence with their timers, and letters that will begin an execution."""
        row = ScheduleRow(name="s", address="schedule:s", text="{}", progress="[]", owner="a")
        with backend.writing() as tx:
            tx.put_schedule(row, [], [event("t", 5, "schedule:s", owner="a")])
            tx.post([event("START", 1, "unborn", owner="a")])
        with backend.writing() as tx:
            assert tx.change_owner_of_the_rest("a", "z") == 1
            assert tx.change_owner_of_the_rest("a", "z") == 0
        with backend.reading() as view:
            stored = view.schedule("s")
            assert stored is not None
            assert (stored.owner, stored.fence) == ("z", 2)
            assert list(view.due_workflows(9, 9, "z")) == ["unborn", "schedule:s"]
            assert list(view.due_workflows(9, 9, "a")) == []

    def test_owners(self, backend: Backend) -> None:
        """Everybody who has an execution or a letter, with how many; what is everybody's is not listed."""
        _owned(backend, "w1", "b")
        _owned(backend, "w2", "b")
        _owned(backend, "w3", "")
        with backend.writing() as tx:
            tx.post([event("START", 1, "unborn", owner="a")])
        with backend.reading() as view:
            assert list(view.owners()) == [
                OwnerRow(name="a", executions={}, letters=1),
                OwnerRow(name="b", executions={"RUNNING": 2}, letters=2),
            ]

    def test_an_error_undoes_a_change_of_owners(self, backend: Backend) -> None:
        """Nothing of it is left when its transaction fails."""
        _owned(backend, "w", "a")
        with pytest.raises(InvariantBroken), backend.writing() as tx:
            _change_and_fail(tx)
        with backend.reading() as view:
            assert list(view.due_workflows(9, 9, "a")) == ["w"]
            assert dict(view.queue_sizes()) == {"@a/charge": 1}
            assert [row.name for row in view.owners()] == ["a"]
