"""Mistakes of the kinds that speed invites in turns, planted one by one: tests of turns find them, and so does the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from conductorlite.engine.decisions import TurnDecider
from conductorlite.engine.groups import Groups
from conductorlite.engine.payloads import TurnMemo
from conductorlite.engine.polling import Polling
from conductorlite.engine.residents import Quiet, Resident
from conductorlite.engine.turn_types import Asked, TurnResult
from conductorlite.model.decisions import Decision, Event
from conductorlite.model.errors import StorageError
from conductorlite.store.memory.decisions import MemoryDecisions
from conductorlite.store.sqlite.decisions import GroupRows, SQLiteDecisions

Patch = pytest.MonkeyPatch


def stale_row_used(patch: Patch) -> None:
    """A turn on rows that are kept commits without a look at what the store has become."""
    patch.setattr(Quiet, "confirm", lambda *_: None)


def stale_row_answers(patch: Patch) -> None:
    """A turn that would write nothing is answered by rows that are kept: no fence is compared."""
    real = TurnDecider.on_residents

    def on_residents(self: TurnDecider, resident: Resident, events: Sequence[Event], memo: TurnMemo) -> Decision | None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(Decision, "empty", False)
            return real(self, resident, events, memo)

    patch.setattr(TurnDecider, "on_residents", on_residents)


def stale_end_told(patch: Patch) -> None:
    """Whether an execution has ended is told by what was known once, whoever has written since."""
    patch.setattr(Quiet, "is_same_since", lambda _, commits: commits >= 0)


def idle_while_others_write(patch: Patch) -> None:
    """Whether anything is due is told by what was known once, whoever has written since."""
    patch.setattr(Quiet, "is_idle", lambda self, now: now < self.due_at and self._joined.decisions is None)


def others_not_counted(patch: Patch) -> None:
    """What was known before another process has written is known after the next write of this one, which counts its own only."""
    patch.setattr(Quiet, "is_same_since", lambda self, commits: commits >= self._since and self.is_unchanged())


def savepoint_lost(patch: Patch) -> None:
    """Of the turns that share a write the second is answered and not stored."""
    real, applied = MemoryDecisions.apply, Counter[MemoryDecisions]()

    def apply(self: MemoryDecisions, decision: Decision) -> None:
        applied[self] += 1
        if applied[self] != 2:
            real(self, decision)

    patch.setattr(MemoryDecisions, "apply", apply)


def one_of_a_group_lost(patch: Patch) -> None:
    """Of the decisions that are written by kind of row the second is said to be stored, and is not."""
    real = GroupRows.add

    def add(self: GroupRows, decision: Decision, before: Any, after: Any, *more: Any) -> None:
        if len(self.known) == 1:
            self.known[decision.workflow.workflow_id] = after
        else:
            real(self, decision, before, after, *more)

    patch.setattr(GroupRows, "add", add)


def group_not_compared(patch: Patch) -> None:
    """Decisions that are written by kind of row are not asked whether each has found its row."""
    patch.setattr(SQLiteDecisions, "_expect", lambda self, statement, rows: rows and self._session.executemany(statement, rows))


def acknowledged_before_the_commit(patch: Patch) -> None:
    """Turns that share a write are answered, whatever becomes of it."""
    real = Groups._committed_together

    def early(self: Groups, asked: Sequence[Asked], results: dict[str, Any]) -> None:
        try:
            real(self, asked, results)
        except StorageError:
            results.update({one.workflow_id: TurnResult(decision=None, replies={}) for one in asked})
            raise

    patch.setattr(Groups, "_committed_together", early)


def leased_twice(patch: Patch) -> None:
    """What a turn hands over is handed over twice."""
    real = Polling.received
    patch.setattr(Polling, "received", lambda self, taking: [*real(self, taking), *real(self, taking)])
