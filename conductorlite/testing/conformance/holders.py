"""The contract of holders: who has which attempts in hand, and how it is seen that one is no more."""

from __future__ import annotations

from contextlib import suppress

import pytest

from conductorlite.decisions import Decision
from conductorlite.executions import Task, TaskStatus
from conductorlite.ports import Backend, HolderRow, Life, Presence
from conductorlite.testing.conformance.samples import settle, started, task

__all__ = ["HolderConformance"]


class HolderConformance:
    """Rows of holders, what they hold, and their presences."""

    def test_holders_come_and_go(self, backend: Backend) -> None:
        """In order of names, renewed in place, forgotten once; nothing of it when the change is undone."""
        first, second = HolderRow(holder="b", place="p", lease_until=None), HolderRow(holder="a", place="ü/'1", lease_until=7)
        with backend.writing() as tx:
            tx.put_holder(first)
            tx.put_holder(second)
            assert list(tx.task_holders()) == [second, first]
        renewed = HolderRow(holder="a", place="q", lease_until=9)
        with backend.writing() as tx:
            tx.put_holder(renewed)
            tx.drop_holder("nobody")
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.drop_holder("a")
            tx.put_holder(HolderRow(holder="c", place="r"))
            raise ZeroDivisionError
        with backend.reading() as view:
            assert list(view.task_holders()) == [renewed, first]
        with backend.writing() as tx:
            tx.drop_holder("b")
        with backend.reading() as view:
            assert list(view.task_holders()) == [renewed]

    def test_what_a_holder_has(self, backend: Backend) -> None:
        """The attempts whose rows name it, of all executions, in order; what is given on, ended or removed is its no more."""

        def held(ref: str, workflow_id: str = "w", holder: str = "h", attempt: int = 0) -> Task:
            return task(ref, workflow_id, holder=holder, attempt=attempt, status=TaskStatus.IN_PROGRESS)

        rows = [held("b"), held("a"), held("c", holder="other"), task("d")]
        row = started(backend, "w", inserted=tuple(rows))
        started(backend, "v", inserted=(task("a", "v", status=TaskStatus.FAILED), held("a", "v", attempt=1)))

        def held_by(holder: str) -> list[tuple[str, str, int]]:
            with backend.reading() as view:
                return [(one.workflow_id, one.ref, one.attempt) for one in view.held_by(holder)]

        assert held_by("h") == [("v", "a", 1), ("w", "a", 0), ("w", "b", 0)]
        assert (held_by("other"), held_by("nobody")) == ([("w", "c", 0)], [])
        with backend.writing() as tx:
            tx.apply(Decision(workflow=row, updated=(held("a", holder="other"), task("b", status=TaskStatus.COMPLETED))))
        settle(backend)
        assert (held_by("h"), held_by("other")) == ([("v", "a", 1)], [("w", "a", 0), ("w", "c", 0)])
        with backend.writing() as tx:
            tx.remove("v")
            tx.drop_holder("other")
        assert (held_by("h"), held_by("other")) == ([], [("w", "a", 0), ("w", "c", 0)])

    def test_a_presence_ends_as_it_is_told_to(self, backend: Backend) -> None:
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
        """Whatever a row says, nobody is taken for alive, for dead or for having left who is not seen; to forget it is harmless."""
        for place in ("", "/", "nonsense", "a/b/c/d", "1/2/3/../../x", "ü" * 300):
            assert backend.look(place) in (Life.ELSEWHERE, Life.MISSING)
            backend.forget(place)

    def _seen(self, backend: Backend) -> Presence:
        presence = backend.appear()
        if presence.leased and backend.look(presence.place) is Life.ELSEWHERE:
            pytest.skip("here presences are not seen: only leases count")
        return presence
