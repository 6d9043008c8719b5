"""The part of the suite about decisions on several executions that share a write: together they are as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, TypeVar

import attrs
import pytest

from conductorlite.model.canonical import digest
from conductorlite.model.decisions import Decision, EventKind, Outgoing
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, Capability, WritingTransaction
from conductorlite.testing.conformance.samples import dump, event, large, line, message, settle, started, task

__all__ = ["GroupConformance"]

_IDS = ("w0", "w1", "w2", "w3", "w4", "w5")


T = TypeVar("T")


class _Dice:
    """Numbers that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._texts = (f"{seed} {number}" for number in count())

    def below(self, end: int) -> int:
        return int(digest(next(self._texts))[:8], 16) % end

    def choice(self, things: Sequence[T]) -> T:
        return things[self.below(len(things))]


def _drawn(drawn: _Dice, row: Workflow, rows: dict[str, Task], refusals: bool) -> Decision:
    """A turn of an execution that has these rows: a small one mostly, and now and then one that is to be refused."""
    workflow_id, ref = row.workflow_id, f"b{row.fence}"
    kind = drawn.choice(("small", "small", "small", "new", "end", "inbox", "posted", "text", "dropped"))
    refused = drawn.choice(("late", "no row", "a row twice")) if refusals and drawn.below(5) == 0 else ""
    parts: dict[str, Any] = {"history": (line(row.history_seq + 1), line(row.history_seq + 2))}
    first = next(iter(rows.values()))
    parts["updated"] = (attrs.evolve(first, status=TaskStatus.IN_PROGRESS, lease=row.fence, worker_id="v"),)
    parts["timers"] = (event("WAIT_ENDS:a", drawn.below(900), workflow_id, kind=EventKind.WAIT_ENDS, ref="a", sender=workflow_id),)
    parts["consumed"] = drawn.choice(((), ("own",)))
    parts["cancelled"] = drawn.choice(((), ("TASK_TIMEOUT:a",), ("WAIT_ENDS:b",)))
    outgoing: dict[str, Any] = {"removed": drawn.choice(((), ((workflow_id, "a"),)))}
    status = WorkflowStatus.RUNNING
    if kind == "new":
        parts["inserted"] = (task(ref, workflow_id, seq=row.fence),)
        outgoing["put"] = (message(ref, drawn.below(7), workflow_id), message("a", 1, workflow_id))
    elif kind == "end":
        status, parts["timers"] = drawn.choice((WorkflowStatus.COMPLETED, WorkflowStatus.PAUSED)), ()
    elif kind == "inbox":
        parts["timers"] += (event("own", 4, workflow_id),)
    elif kind == "posted":
        outgoing["posted"] = (event(f"from {workflow_id}", 5, drawn.choice(_IDS), sender=workflow_id),)
    elif kind == "text":
        parts["texts"] = (large("y"),)
    elif kind == "dropped" and len(rows) > 1:
        parts["dropped"] = (list(rows)[-1],)
    if refused == "no row":
        parts["updated"] += (task("stranger", workflow_id),)
    elif refused == "a row twice":
        parts["inserted"] = (first,)
    changed = attrs.evolve(row, status=status, history_seq=row.history_seq + 2, updated_at=6, fence=row.fence - (refused == "late"))
    return Decision(workflow=changed, outgoing=Outgoing(**outgoing), **parts)


def _applied(tx: WritingTransaction, decisions: list[Decision]) -> list[str]:
    """Apply decisions; return the ids of those that are refused."""
    refused = []
    for decision in decisions:
        try:
            tx.decisions.apply(decision)
        except (FencedOut, InvariantBroken):
            refused.append(decision.workflow.workflow_id)
    return refused


class GroupConformance:
    """Decisions that share a write."""

    @pytest.mark.parametrize("seed", range(8))
    def test_stored_together_is_stored_one_by_one(self, backend: Backend, seed: int) -> None:
        """Whatever they write, and whichever of them is late or contradicts the store: the others are stored, and it is not."""
        drawn, other = _Dice(seed), MemoryBackend()
        refusals = Capability.ONE_COMMIT in backend.capabilities  # else it is refused when the block ends
        for store in (backend, other):
            for workflow_id in _IDS:
                offered = Outgoing(put=(message("a", 0, workflow_id),))
                started(store, workflow_id, inserted=(task("a", workflow_id),), outgoing=offered)
        for _ in range(8):
            with other.reading() as view:
                rows = [row for one in _IDS if drawn.below(3) and (row := view.executions.workflow(one)) is not None]
                decisions = [
                    _drawn(drawn, row, {one.ref: one for one in view.executions.attempts(row.workflow_id)}, refusals)
                    for row in rows
                ]
            if (prepare := getattr(backend, "prepare", None)) is not None and drawn.below(2):
                prepare(decisions)
            with backend.writing() as tx:
                stored = tx.decisions.apply_some(decisions)
                refused = _applied(tx, [one for one in decisions if one.workflow.workflow_id not in stored])
            with other.writing() as tx:
                assert _applied(tx, decisions) == refused
            assert not set(refused) & set(stored)
            for store in (backend, other):
                settle(store)
            with backend.reading() as found, other.reading() as expected:
                assert dump(found) == dump(expected)
        other.close()

    def test_what_was_stored_together_is_undone_with_the_block(self, backend: Backend) -> None:
        """An error after it leaves nothing of it, and what comes next is stored as if it had never been."""
        rows = [started(backend, one, inserted=(task("a", one),)) for one in _IDS]
        decisions = [Decision(workflow=row, history=(line(1),), timers=(event("own", 3, row.workflow_id),)) for row in rows]
        with backend.reading() as view:
            before = dump(view)

        def fails() -> None:
            with backend.writing() as tx:
                _applied(tx, [one for one in decisions if one.workflow.workflow_id not in tx.decisions.apply_some(decisions)])
                raise InvariantBroken("after all")

        with pytest.raises(InvariantBroken, match="after all"):
            fails()
        with backend.reading() as view:
            assert dump(view) == before
        with backend.writing() as tx:
            stored = tx.decisions.apply_some(decisions)
            assert _applied(tx, [one for one in decisions if one.workflow.workflow_id not in stored]) == []
