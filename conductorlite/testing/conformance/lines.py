"""The part of the suite about looking at limits: who holds a slot, page by page, and how long the line is."""

from __future__ import annotations

from typing import Any

from conductorlite.decisions import Decision
from conductorlite.limits import Limit, LimitChange, Member, MemberState
from conductorlite.ports import Backend
from conductorlite.testing.conformance.samples import workflow

__all__ = ["LineConformance"]


def _member(holder: str, state: MemberState, **changes: Any) -> Member:
    fields: dict[str, Any] = {"key": "task:a", "workflow_id": "w", "ref": "a", "attempt": 0, "generation": 0, "concurrent": 2}
    return Member(holder=holder, state=state, **(fields | changes))


class LineConformance:
    """Limits as those see them who only look."""

    def test_holders_and_the_line_are_counted(self, backend: Backend) -> None:
        """Holders come in pages in order of holder; the line is counted whole, and up to a member by its place."""
        line = [
            _member("p", MemberState.WAITING, priority=3, asked_at=9),
            _member("r", MemberState.WAITING, asked_at=1, workflow_id="b"),
            _member("q", MemberState.WAITING, asked_at=1, workflow_id="c"),
            _member("o", MemberState.WAITING, asked_at=2, created_at=1),
            _member("n", MemberState.WAITING, asked_at=2, created_at=1, seq=5),
        ]
        holders = [_member("x", MemberState.RESERVED), _member("a", MemberState.HELD), _member("m", MemberState.HELD)]
        other = _member("a", MemberState.HELD, key="task:b")
        with backend.writing() as tx:
            changes = (
                LimitChange(limit=Limit(key="task:a", in_use=3), put=(*reversed(line), *holders)),
                LimitChange(limit=Limit(key="task:b", in_use=1), put=(other,)),
            )
            tx.apply(Decision(workflow=workflow("w"), created=True, limits=changes))
        with backend.reading() as view:
            assert [one.holder for one in view.holders("task:a", "", 2)] == ["a", "m"]
            assert [one.holder for one in view.holders("task:a", "m", 2)] == ["x"]
            assert list(view.holders("task:b", "", 9)) == [other]
            assert (view.waiting("task:a"), view.waiting("task:b"), view.waiting("task:c")) == (5, 0, 0)
            assert [view.waiting("task:a", member) for member in line] == [0, 1, 2, 3, 4]
            assert list(view.line("task:a", 9).heads) == line
