"""Verbs on the store as a whole: whose executions are whose, and copies of it."""

from __future__ import annotations

import os
from typing import Final

import attrs

from conductorlite.engine.core import checked_name
from conductorlite.engine.queries import Queries
from conductorlite.errors import InvalidInput
from conductorlite.executions import WorkflowStatus

__all__ = ["EngineShare", "Upkeep"]

#: Executions that change their owner in one commit.
_PAGE: Final = 500


@attrs.frozen(kw_only=True, slots=True)
class EngineShare:
    """What belongs to one engine with `allocation="local"`: executions that are open and ended, letters that wait for it.

    Letters are timers, what others wrote, starts of children that have not begun, and the timers of schedules.
    """

    name: str
    open: int
    ended: int
    letters: int


class Upkeep(Queries):
    """Verbs on the store."""

    def engines(self) -> list[EngineShare]:
        """The engines that have executions or schedules of their own, in order of names; whether they live is not known."""
        with self.backend.reading() as view:
            rows = view.owners()
        shares = []
        for row in rows:
            ended = sum(number for status, number in row.executions.items() if WorkflowStatus(status).terminal)
            total = sum(row.executions.values())
            shares.append(EngineShare(name=row.name, open=total - ended, ended=ended, letters=row.letters))
        return shares

    def take_over(self, name: str | None) -> int:
        """Make this engine's own all that belongs to the engine `name`, with what is in progress; returns how many executions.

        None means what belongs to nobody. An engine with `allocation="shared"` makes it everybody's. Tasks that are with workers
        stay with them: their reports count, their leases run. An engine of that name that is still alive loses nothing but its
        turns: what it has decided and not committed is fenced out, and it finds nothing of this any more; what it starts later
        is its own again. Takes 500 executions at a time; after a crash call it again. Raises InvalidInput for what is no name,
        and for this engine's own.
        """
        old = checked_name(name, "shared") or ""
        if old == self.owner:
            raise InvalidInput(f"{name!r}: what belongs to an engine already cannot be taken over by it")
        after, moved = "", 0
        while True:
            with self.backend.writing() as tx:
                page = tx.change_owner(old, self.owner, after, _PAGE)
            moved += len(page)
            if len(page) < _PAGE:
                break
            after = page[-1]
        with self.backend.writing() as tx:
            tx.change_owner_of_the_rest(old, self.owner)
        self.turns.wake()
        return moved

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store, as it is at one instant, into the new file `path`, while engines go on with it.

        The file appears when it is complete. Documents in the payload storage beside the database are copied to
        `<path>.payloads`, before the file appears; a storage of your own (`payloads=`) is yours to copy, after this. Open the copy
        like any store. Raises InvalidInput for a store in memory, AlreadyExists when there is something at `path`.
        """
        self.backend.backup(os.fspath(path), documents=self._documents_beside)
