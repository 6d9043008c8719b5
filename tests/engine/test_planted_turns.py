"""Are the tests of turns any good? Mistakes of the kinds that speed invites are planted one by one; each must be found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import test_group_commit
import test_handed_over
import test_residents
from planted_turns import (
    Patch,
    acknowledged_before_the_commit,
    group_not_compared,
    leased_twice,
    one_of_a_group_lost,
    savepoint_lost,
    stale_row_used,
)

from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.conformance.groups import GroupConformance


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
