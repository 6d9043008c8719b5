"""Are the tests of turns any good? Mistakes of the kinds that speed invites are planted one by one; each must be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import test_group_commit
import test_handed_over
import test_residents

from conductorlite.engine.groups import GroupTurns
from conductorlite.engine.polling import Polling
from conductorlite.engine.residents import Quiet
from conductorlite.engine.turn_types import Asked, TurnResult
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import StorageError
from conductorlite.store.memory.writes import MemoryWrites
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.groups import GroupRows, GroupWrites
from conductorlite.testing.conformance.groups import GroupConformance

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


def restored(folder: Path) -> None:
    """A file that is another one, under a running engine."""
    for beside in (False, True):
        (folder / str(beside)).mkdir()
        test_residents.test_a_file_that_was_restored_under_a_running_engine(folder / str(beside), beside=beside)


def shared(_: Path) -> None:
    """A write of several turns, of which one fails."""
    test_group_commit.test_a_write_that_fails_is_taken_turn_by_turn(1)


def alike(folder: Path) -> None:
    """Decisions of several executions, stored together and one by one."""
    for seed in range(3):
        with closing(SQLiteBackend(folder / f"{seed}.db")) as backend:
            GroupConformance().test_stored_together_is_stored_one_by_one(backend, seed)


def refused(_: Path) -> None:
    """A store that cannot be written."""
    test_group_commit.test_nothing_is_answered_that_is_not_committed()


def handed_over(_: Path) -> None:
    """Executions of all kinds, driven with turns that hand over and without."""
    test_handed_over.test_who_is_called_is_who_a_poll_would_find()


@pytest.mark.parametrize(
    ("plant", "guard"),
    [
        (stale_row_used, restored),
        (savepoint_lost, shared),
        (one_of_a_group_lost, alike),
        (group_not_compared, alike),
        (acknowledged_before_the_commit, refused),
        (leased_twice, handed_over),
    ],
    ids=lambda one: one.__name__,
)
def test_a_planted_mistake_is_found(
    plant: Callable[[Patch], None], guard: Callable[[Path], None], monkeypatch: Patch, tmp_path: Path
) -> None:
    """The guard passes without it, and fails with it."""
    (tmp_path / "sound").mkdir()
    guard(tmp_path / "sound")
    plant(monkeypatch)
    (tmp_path / "planted").mkdir()
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or what the engine says of it
        guard(tmp_path / "planted")
