"""Mistakes of the kinds that speed invites in turns, planted one by one: tests of turns find them, and so does the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conductorlite.engine.groups import GroupTurns
from conductorlite.engine.polling import Polling
from conductorlite.engine.residents import Quiet
from conductorlite.engine.turn_types import Asked, TurnResult
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import StorageError
from conductorlite.store.memory.writes import MemoryWrites
from conductorlite.store.sqlite.groups import GroupRows, GroupWrites

Patch = pytest.MonkeyPatch


def stale_row_used(patch: Patch) -> None:
    """A turn on rows that are kept commits without a look at what the store has become."""
    patch.setattr(Quiet, "confirm", lambda *_: None)


def savepoint_lost(patch: Patch) -> None:
    """Of the turns that share a write the second is answered and not stored."""
    real, applied = MemoryWrites.apply, dict[int, int]()

    def apply(self: MemoryWrites, decision: Decision) -> None:
        applied[id(self)] = applied.get(id(self), 0) + 1
        if applied[id(self)] != 2:
            real(self, decision)

    patch.setattr(MemoryWrites, "apply", apply)


def one_of_a_group_lost(patch: Patch) -> None:
    """Of the decisions that are written by kind of row the second is said to be stored, and is not."""
    real, added = GroupRows.add, dict[int, int]()

    def add(self: GroupRows, decision: Decision, before: Any, after: Any, *more: Any) -> None:
        added[id(self)] = added.get(id(self), 0) + 1
        if added[id(self)] == 2:
            self.known[decision.workflow.workflow_id] = after
        else:
            real(self, decision, before, after, *more)

    patch.setattr(GroupRows, "add", add)


def group_not_compared(patch: Patch) -> None:
    """Decisions that are written by kind of row are not asked whether each has found its row."""
    patch.setattr(GroupWrites, "_expect", lambda self, statement, rows: rows and self._executemany(statement, rows))


def acknowledged_before_the_commit(patch: Patch) -> None:
    """Turns that share a write are answered, whatever becomes of it."""
    real = GroupTurns._committed_together

    def early(self: GroupTurns, asked: Sequence[Asked], results: dict[str, Any]) -> None:
        try:
            real(self, asked, results)
        except StorageError:
            results.update({one.workflow_id: TurnResult(decision=None, replies={}) for one in asked})
            raise

    patch.setattr(GroupTurns, "_committed_together", early)


def leased_twice(patch: Patch) -> None:
    """What a turn hands over is handed over twice."""
    real = Polling.received
    patch.setattr(Polling, "received", lambda self, taking: [*real(self, taking), *real(self, taking)])
