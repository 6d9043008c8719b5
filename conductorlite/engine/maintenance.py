"""Verbs on the store as a whole: whose executions are whose, and copies of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import attrs

from conductorlite.engine.core import checked_name
from conductorlite.engine.invariants import Finding, findings
from conductorlite.engine.queries import orphans, strangers
from conductorlite.engine.repairs import limit_mended, mended
from conductorlite.engine.retention import Keeping
from conductorlite.engine.turn_types import pages
from conductorlite.model.errors import InvalidInput, InvariantBroken, StorageCorrupt
from conductorlite.model.statuses import WorkflowStatus

__all__ = ["EngineShare", "RepairReport", "Upkeep"]

#: Executions that change their owner in one commit.
_PAGE: Final = 500


@attrs.frozen(kw_only=True, slots=True)
class EngineShare:
    """What belongs to one engine with `allocation="local"`: executions that are open and ended, events that wait for it.

    Events are timers, what others wrote, starts of children that have not begun, and the timers of schedules.
    """

    name: str
    open: int
    ended: int
    events: int


@attrs.frozen(kw_only=True, slots=True)
class RepairReport:
    """What `Engine.repair` did, and what is left: findings whose text says what was done, and those `check` still has."""

    done: tuple[Finding, ...]
    left: tuple[Finding, ...]


class Upkeep(Keeping):
    """Verbs on the store."""

    def engines(self) -> list[EngineShare]:
        """The engines that have executions or schedules of their own, in order of names; whether they live is not known."""
        with self.backend.reading() as view:
            rows = view.owners()
        shares = []
        for row in rows:
            ended = sum(number for status, number in row.executions.items() if WorkflowStatus(status).terminal)
            total = sum(row.executions.values())
            shares.append(EngineShare(name=row.name, open=total - ended, ended=ended, events=row.events))
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

        def change(after: str, size: int) -> Sequence[str]:
            with self.backend.writing() as tx:
                return tx.change_owner(old, self.owner, after, size)

        moved = sum(len(page) for page in pages(change, "", str, _PAGE))
        with self.backend.writing() as tx:
            tx.change_owner_of_the_rest(old, self.owner)
        self.turns.wake()
        return moved

    def repair(self, workflow_id: str | None = None) -> RepairReport:
        """Set right what `check` finds on one execution, or on all, as far as it follows from what is there; says what it did.

        Rows of tasks and the journal are taken for true. Made to follow from them: counters, timers, messages, leases of what
        has ended, the counts and places of limits, whose events and messages are; and SQLite's indexes from their tables.
        The index of searches is told anew of what it has wrong, and made anew when it is damaged.
        Statuses, outputs and the journal are never touched: what is wrong with those is left, and told. Each execution is
        set right in a commit of its own, and may be driven meanwhile. Raises ExecutionNotFound.
        """
        done: list[Finding] = []
        if workflow_id is None:
            done += self._indexes_made_anew()
        for one in [workflow_id] if workflow_id is not None else list(self.workflow_ids()):
            with self.backend.reading() as view:
                archived = self._unarchived(view, one)
            done += [] if archived else self._mended(one)
        if workflow_id is None:
            for key in list(self._limits()):
                done += self._limit_mended(key)
            done += self._orphans_discarded()
        done += self._index_mended(workflow_id)
        if done:
            self.turns.wake()
        return RepairReport(done=tuple(done), left=tuple(self.check(workflow_id)))

    def _indexes_made_anew(self) -> list[Finding]:
        faults = self.backend.faults()
        if not any("index" in fault for fault in faults):
            return []
        try:
            self.backend.rebuild_indexes()
        except (StorageCorrupt, InvariantBroken):
            return []  # the tables themselves are damaged; `check` tells
        text = f"every index was made anew from its table; it was found that {faults[0]}"
        return [Finding(law="the_store_is_sound", workflow_id="", text=text)]

    def _mended(self, workflow_id: str) -> tuple[Finding, ...]:
        with self.backend.reading() as view:
            if not findings(self._picture(view, workflow_id)):
                return ()
        with self.backend.writing() as tx:
            mending = mended(self._picture(tx, workflow_id), self.clock.now())
            if mending is None:
                return ()
            tx.apply(mending.decision)
        return mending.done

    def _limit_mended(self, key: str) -> tuple[Finding, ...]:
        with self.backend.writing() as tx:
            members = tx.members(key)
            mending = limit_mended(tx.line(key, 0).limit, members, strangers(tx, members), self.clock.now())
            if mending is None:
                return ()
            change, events, done = mending
            tx.put_limit(change)
            tx.post(events)
        return done

    def _orphans_discarded(self) -> list[Finding]:
        with self.backend.writing() as tx:
            found = orphans(tx)
            tx.discard(found)
        texts = [(one.workflow_id, f"{one.task_id!r}, which is gone, is taken out of queue {one.queue!r}") for one in found]
        return [Finding(law="nothing_of_the_ended", workflow_id=one, text=text) for one, text in texts]

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store, as it is at one instant, into the new file `path`, while engines go on with it.

        The file appears when it is complete. Documents in the payload storage beside the database are copied to
        `<path>.payloads`, before the file appears; a storage of your own (`payloads=`) is yours to copy, after this. Open the copy
        like any store. Raises InvalidInput for a store in memory, AlreadyExists when there is something at `path`.
        """
        self.backend.backup(os.fspath(path), documents=self._documents_beside)
