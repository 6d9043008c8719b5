"""The part of the suite about limits: their fences, their members, and the order of the line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import Workflow
from conductorlite.model.limits import Limit, LimitChange, Line, Member, MemberState
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, ReadingTransaction
from conductorlite.testing.conformance.samples import event, message, started, task

__all__ = ["LimitConformance"]

_HELD, _RESERVED, _WAITING = MemberState.HELD, MemberState.RESERVED, MemberState.WAITING


def _member(holder: str, key: str = "k", workflow_id: str = "w", **changes: Any) -> Member:
    fields: dict[str, Any] = {"ref": "a", "attempt": 0, "generation": 0, "state": _WAITING, "concurrent": 1}
    return Member(key=key, holder=holder, workflow_id=workflow_id, **(fields | changes))


def _change(backend: Backend, *changes: LimitChange, workflow_id: str = "w") -> None:
    """Change limits in a decision of an execution that is there."""
    with backend.writing() as tx:
        row = tx.executions.workflow(workflow_id)
        if row is None:
            raise AssertionError(f"{workflow_id} is not there")
        tx.decisions.apply(Decision(workflow=row, limits=changes))


def _put(backend: Backend, *members: Member, gone: Sequence[str] = (), key: str = "k") -> None:
    with backend.reading() as view:
        limit = view.limits.line(key, 0).limit
    _change(backend, LimitChange(limit=limit, put=members, gone=tuple(gone)))


def _all(view: ReadingTransaction) -> list[object]:
    """Everything that can be read of limits."""
    keys = [limit.key for limit in view.limits.page("", 100)]
    lines = [view.limits.line(key, heads) for key in keys for heads in (0, 1, 2, 100)]
    found = [view.limits.member(key, one.holder) for key in keys for one in view.limits.members(key)]
    unpolled = [list(view.limits.unpolled(lane)) for lane in _LANES]
    return [list(view.limits.page("", 100)), lines, [list(view.limits.members(key)) for key in keys], found, unpolled]


_LANES = ("", "a", "d:a")
_KEYS = st.sampled_from(("task:a", "task:b", "workflow:ä"))
_HOLDERS = st.sampled_from(("h1", "h2", "h3", "h4", "h5"))
_WORKFLOWS = st.sampled_from(("w", "v"))
_NUMBERS = st.integers(0, 2)
_MEMBERS = st.builds(
    _member,
    _HOLDERS,
    workflow_id=_WORKFLOWS,
    state=st.sampled_from(MemberState),
    ref=st.sampled_from((None, "a", "b__2")),
    priority=_NUMBERS,
    asked_at=_NUMBERS,
    created_at=_NUMBERS,
    seq=_NUMBERS,
    number=_NUMBERS,
    rate=_NUMBERS,
    window_ms=_NUMBERS,
    lane=st.sampled_from(_LANES),
    fairness_key=st.sampled_from(("", "t")),
    start_tag=_NUMBERS,
    cost=_NUMBERS,
)
_LIMITS = st.fixed_dictionaries(
    {
        "in_use": _NUMBERS,
        "reserved": _NUMBERS,
        "log": st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
        "depth": _NUMBERS,
        "span_ms": _NUMBERS,
        "number": _NUMBERS,
        "alarm": st.sampled_from((None, "h1")),
        "alarm_at": st.sampled_from((None, 5)),
        "unpolled": st.sampled_from(((), ("a",), ("a", "d:a"))),
        "tags": st.sampled_from(("", "{}")),
    }
)
_CHANGE = st.tuples(
    _KEYS, _LIMITS, st.lists(_MEMBERS, max_size=3, unique_by=lambda one: one.holder), st.lists(_HOLDERS, max_size=2), st.booleans()
)
#: A change, or the removal of an execution.
_STEPS = st.lists(st.one_of(_CHANGE, _WORKFLOWS), max_size=12)


class LimitConformance:
    """Limits as they are stored."""

    def make_backend(self, folder: Path) -> Backend:
        """A new, empty store; `folder` is there for it alone."""
        raise NotImplementedError

    def test_a_limit_nobody_has_asked_is_empty(self, backend: Backend) -> None:
        """It has the fence 0, no members and no line, and is in no page."""
        with backend.reading() as view:
            assert view.limits.line("k", 5) == Line(limit=Limit(key="k"))
            assert view.limits.member("k", "h") is None
            assert (list(view.limits.members("k")), list(view.limits.page("", 5))) == ([], [])

    def test_all_fields_of_a_limit_and_a_member_are_kept(self, backend: Backend) -> None:
        """Fields that were written are read, with the next fence; a page of limits is in order of keys."""
        started(backend)
        fields: dict[str, Any] = {"in_use": 2, "reserved": 1, "log": (3, 5), "depth": 2, "span_ms": 7, "number": 9}
        limit = Limit(key="k", alarm="h", alarm_at=8, unpolled=("@b/d:a", "ä"), read_at=3, boot="b", steady=4, **fields)
        names = ("attempt", "generation", "number", "priority", "asked_at", "created_at", "seq")
        numbers: dict[str, Any] = dict(zip(names, range(1, 8), strict=True))
        terms: dict[str, Any] = {"concurrent": 8, "rate": 9, "window_ms": 10}
        member = _member("h", ref=None, state=_RESERVED, lane="d:a", **numbers, **terms)
        _change(backend, LimitChange(limit=limit, put=(member,)), LimitChange(limit=Limit(key="b")))
        with backend.reading() as view:
            assert view.limits.line("k", 5).limit == attrs.evolve(limit, fence=1)
            assert view.limits.member("k", "h") == member
            assert [one.key for one in view.limits.page("", 5)] == ["b", "k"]
            assert [one.key for one in view.limits.page("b", 5)] == ["k"]
            assert [one.key for one in view.limits.page("", 1)] == ["b"]

    def test_the_line_is_in_order(self, backend: Backend) -> None:
        """Higher priority, then asked at, created at, execution, place in it and holder; a member with a slot is in no line."""
        started(backend)
        places: tuple[dict[str, Any], ...] = (
            {"priority": 2, "asked_at": 9},
            {"priority": 1, "asked_at": 1, "created_at": 9},
            {"priority": 1, "asked_at": 2, "created_at": 1, "workflow_id": "z"},
            {"priority": 1, "asked_at": 2, "created_at": 2, "workflow_id": "a", "seq": 9},
            {"priority": 1, "asked_at": 2, "created_at": 2, "workflow_id": "b", "seq": 1},
            {"priority": 1, "asked_at": 2, "created_at": 2, "workflow_id": "b", "seq": 2},
            {"priority": -1, "asked_at": 0},
        )
        line = [_member(f"h{9 - number}", **place) for number, place in enumerate(places)]
        holders = [_member("x", state=_HELD), _member("c", state=_RESERVED)]
        _put(backend, *line[::2], *holders, *line[1::2])
        _put(backend, _member("other", "k2"), key="k2")
        with backend.reading() as view:
            assert list(view.limits.members("k")) == [holders[1], holders[0], *line]
            found = [view.limits.line("k", heads) for heads in (0, 1, 6, 7, 8)]
        assert [list(one.heads) for one in found] == [line[:heads] for heads in (0, 1, 6, 7, 8)]
        assert [one.more for one in found] == [{""}, {""}, {""}, set(), set()]

    def test_the_line_has_the_heads_of_each_lane(self, backend: Backend) -> None:
        """So many of each, all in one order; the first not passed over is its head; and limits that pass over a lane are known."""
        started(backend)
        line = [_member(f"h{number}", lane="abab"[number % 4], asked_at=number) for number in range(8)]
        _put(backend, *line[::-1])
        _put(backend, _member("other", "k2", lane="b"), key="k2")
        with backend.reading() as view:
            found = view.limits.line("k", 1)
            assert (list(found.heads), sorted(found.more), found.head) == (line[:2], ["a", "b"], line[0])
            assert (list(view.limits.line("k", 4).heads), sorted(view.limits.line("k", 4).more)) == (line, [])
            limit = found.limit
        _change(backend, LimitChange(limit=attrs.evolve(limit, unpolled=("a", "c"))))
        with backend.reading() as view:
            assert view.limits.line("k", 1).head == line[1]
            assert [list(view.limits.unpolled(lane)) for lane in "abc"] == [["k"], [], ["k"]]
            limit = view.limits.line("k", 1).limit
        _change(backend, LimitChange(limit=attrs.evolve(limit, unpolled=())))
        with backend.reading() as view:
            assert not view.limits.unpolled("a")

    def test_a_member_that_is_put_again_or_gone_leaves_its_place(self, backend: Backend) -> None:
        """A member that gets a slot, moves or leaves is not where it was; one that was never there may be removed."""
        started(backend)
        _put(backend, _member("a", priority=1), _member("b"), _member("c"))
        _put(backend, _member("a", state=_HELD), _member("c", priority=3), gone=["b", "nobody"])
        with backend.reading() as view:
            assert [one.holder for one in view.limits.line("k", 9).heads] == ["c"]
            assert [one.holder for one in view.limits.members("k")] == ["a", "c"]
            assert view.limits.member("k", "b") is None
            assert view.limits.line("k", 9).limit.fence == 2

    @pytest.mark.parametrize("fence", [0, 1, 3])
    def test_a_change_under_another_fence_undoes_its_decision(self, backend: Backend, fence: int) -> None:
        """FencedOut, and nothing of the decision is stored: no row, event, message, or change of another limit."""
        row = started(backend)
        _put(backend, _member("a"))
        _put(backend, _member("b"))
        limits = (
            LimitChange(limit=Limit(key="first"), put=(_member("x", "first"),)),
            LimitChange(limit=Limit(key="k", fence=fence), put=(_member("y"),), gone=("a",)),
        )
        with backend.reading() as view:
            before = _all(view)
            fenced: Workflow | None = view.executions.workflow("w")
        assert fenced is not None
        sent = Outgoing(put=(message(),), posted=(event(workflow_id="v"),))
        with backend.writing() as tx:
            tx.inbox.post([event("kept")])
            with pytest.raises(FencedOut):
                tx.decisions.apply(
                    Decision(workflow=fenced, inserted=(task(),), timers=(event("own"),), outgoing=sent, limits=limits)
                )
            assert _all(tx) == before
            tx.decisions.apply(Decision(workflow=fenced, timers=(event("after"),)))
        with backend.reading() as view:
            assert _all(view) == before
            assert [one.event_id for one in view.inbox.events("w")] == ["after", "kept"]
            assert not view.executions.attempts("w")
            assert not view.outbox.items(9)
            assert not view.queue.messages(9)
            assert not view.inbox.events("v")
        assert row.fence < fenced.fence

    def test_two_who_read_one_fence(self, backend: Backend) -> None:
        """Of two decisions of different executions that read one limit, the second is refused, also on the first change of all."""
        started(backend)
        started(backend, "v")
        for known in (0, 1):
            change = LimitChange(limit=Limit(key="k", fence=known))
            _change(backend, change)
            with pytest.raises(FencedOut):
                _change(backend, change, workflow_id="v")

    def test_removing_an_execution_removes_its_members(self, backend: Backend) -> None:
        """Of every limit; those of others stay, and so do the limits."""
        started(backend)
        started(backend, "v")
        _put(backend, _member("a"), _member("b", state=_HELD), _member("c", workflow_id="v"))
        _put(backend, _member("d", "k2"), key="k2")
        with backend.writing() as tx:
            tx.executions.remove("w")
        with backend.reading() as view:
            assert [one.holder for one in view.limits.members("k")] == ["c"]
            assert [one.holder for one in view.limits.line("k", 9).heads] == ["c"]
            assert not view.limits.members("k2")
            assert [one.key for one in view.limits.page("", 9)] == ["k", "k2"]

    def test_a_change_that_is_refused_refuses_itself_only(self, backend: Backend) -> None:
        """A caller that takes the error goes on in the same transaction."""
        with backend.writing() as tx:
            tx.limits.put_limit(LimitChange(limit=Limit(key="k")))
        with backend.writing() as tx:
            with pytest.raises(FencedOut):
                tx.limits.put_limit(LimitChange(limit=Limit(key="k", in_use=5)))
            tx.limits.put_limit(LimitChange(limit=Limit(key="k2", in_use=1)))
        with backend.reading() as view:
            assert [(one.key, one.in_use) for one in view.limits.page("", 9)] == [("k", 0), ("k2", 1)]

    def test_a_transaction_that_fails_changes_no_limit(self, backend: Backend) -> None:
        """An error behind the change takes it back with all else."""
        row = started(backend)
        change = LimitChange(limit=Limit(key="k"), put=(_member("a"),))
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, limits=(change,)))
            assert len(tx.limits.members("k")) == 1
            raise ZeroDivisionError
        with backend.reading() as view:
            assert (list(view.limits.page("", 9)), list(view.limits.members("k"))) == ([], [])

    @settings(max_examples=min(25, settings().max_examples), deadline=None, suppress_health_check=list(HealthCheck))
    @given(_STEPS)
    def test_limits_are_as_in_memory(self, steps: list[Any]) -> None:
        """After random changes, some of them refused, and removals, all that can be read is what the memory backend reads."""
        with TemporaryDirectory() as folder:
            stores = [self.make_backend(Path(folder)), MemoryBackend()]
            for step in steps:
                answers = [_step(store, step) for store in stores]
                assert answers[0] == answers[1]
            for store in stores:
                store.close()


def _step(backend: Backend, step: Any) -> list[object]:
    with backend.writing() as tx:
        if isinstance(step, str):
            if tx.executions.workflow(step) is not None:
                tx.executions.remove(step)
            return _all(tx)
        key, fields, members, gone, stale = step
        for workflow_id in ("w", "v"):
            if tx.executions.workflow(workflow_id) is None:
                row = Workflow(workflow_id=workflow_id, name="n", version=1, definition_hash="d" * 64, created_at=5)
                tx.decisions.apply(Decision(workflow=row, created=True))
        row_of = tx.executions.workflow("w")
        if row_of is None:
            raise AssertionError("it was created above")
        limit = Limit(key=key, fence=tx.limits.line(key, 0).limit.fence + stale, **fields)
        put = tuple(attrs.evolve(one, key=key) for one in members)
        change = LimitChange(limit=limit, put=put, gone=tuple(set(gone) - {one.holder for one in put}))
        try:
            tx.decisions.apply(Decision(workflow=row_of, limits=(change,)))
        except FencedOut:
            return ["fenced out", *_all(tx)]
        return _all(tx)
