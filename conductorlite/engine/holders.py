"""The tasks held by an engine's own workers, and by engines that have ended.

An engine that hands tasks to its own workers is a *holder*: registered in the store before it hands out the first one, and
present as long as it is open (`Presence`). An engine that opens or drives the store looks for holders that have ended, and gives
back what they held: events to the executions and the end of the holder are one commit, so nothing is given back twice. Where a
presence cannot be looked at, a holder counts as alive until its lease ends, which a thread of its own renews.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal

from conductorlite.engine.groups import Groups
from conductorlite.engine.logs import log_store
from conductorlite.engine.residents import TASKS
from conductorlite.engine.turn_types import Asked
from conductorlite.engine.turns import Turns
from conductorlite.language.haste import Haste
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind, Message
from conductorlite.model.errors import ConductorliteError, InvariantBroken, NotFound, StorageError
from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import Mutex, Waiter, started
from conductorlite.store.ports import Presence
from conductorlite.store.tables import HolderRow, Life, Share

__all__ = ["Holding", "leave_all"]

#: How long a holder counts as alive where no process can look, ms, and how often it says so, in seconds: two may be missed.
_LEASE_MS: Final = 30_000
_BEAT_S: Final = 10.0

#: When it is said again after the store was busy, in seconds.
_AGAIN_S: Final = 1.0

#: How often a driver looks for holders that have ended, ms.
_LOOK_MS: Final = 250

#: Executions whose turns are taken at once when their tasks are given back; the rest is the driver's.
_TURNS: Final = 64

#: Why a task is given back.
Why = Literal["stopped", "died", "silent"]

#: The holders of this process: a signal, like the death it announces, is the whole process's.
_open: Final[weakref.WeakSet[Holding]] = weakref.WeakSet()


def leave_all() -> None:
    """Have every holder of this process end its presence, as one that ends by itself: the process is about to end.

    Writes to no store, so that it can be done at any instant, in a signal handler too.
    """
    for holding in tuple(_open):
        holding.vanish()


class Holding:
    """One engine as a holder. Thread-safe."""

    def __init__(self, turns: Turns, groups: Groups, owner: str) -> None:
        self._turns, self._groups = turns, groups
        self._backend = turns.backend
        self._clock = turns.clock
        self._owner = owner
        #: Random: process ids and host names are not enough, two containers may share both. In virtual time, which is for tests,
        #: the lowest number that is free, so that the same program does the same again.
        self.name: str | None = None if self._clock.virtual else os.urandom(6).hex()
        self._presence: Presence | None = None
        self._mutex = Mutex()
        self._over = Waiter()
        self._looked_at: int | None = None
        #: The name of its workers, unless they are given another one: of no other process's.
        self.worker_id = "conductorlite" if self._clock.virtual else f"conductorlite-{self.name}"
        #: Its share among the holders there are, as it has last looked. They poll the same queues: each begins with its own of what
        #: is first. In virtual time, and where the store does that itself, one share is all.
        self._share = Share()
        #: How many times what is wanted is read of a queue, so that the own share of it is enough.
        self.ahead = 1
        self._shares = not (self._clock.virtual or getattr(self._backend, "shares_heads", False))

    # ------------------------------------------------------------------ to hold

    def begin(self) -> str:
        """Be a holder, from the first call on; returns its name. Raises StorageErrors and NoThread; it is no holder then."""
        if self._presence is None:
            with self._mutex.held():
                if self._presence is None:
                    self._register()
        return self.name or ""

    def _register(self) -> None:
        presence = self._backend.appear()
        try:
            with self._backend.writing() as tx:
                name = self.name or _free({row.holder for row in tx.task_holders.rows()})
                tx.task_holders.put_holder(self._row(name, presence))
            if presence.leased and not self._clock.virtual:
                started(_beats, weakref.ref(self), self._over, name="conductorlite-presence")
        except BaseException:
            presence.remove()
            raise
        self.name, self._presence = name, presence
        self._looked_at = None if self._shares else self._looked_at
        _open.add(self)
        # Also when the interpreter ends: a program that did not close its engine has not died of a task.
        weakref.finalize(self, presence.leave)

    def own(self, offered: Sequence[Message], wanted: int) -> Sequence[Message]:
        """Of what is offered the own share, while that is at least half of what is wanted; else all: others are behind, or rest.

        It is executions whose rows are known here, as the last turns were this engine's, and if these are too few, some by chance.
        """
        share, own = self._share, [one for one in offered if self.offers(one)]
        if 2 * len(own) < wanted:
            own = [one for one in offered if self.offers(one) or share.distance(one.workflow_id) == 0]
        return own if 2 * len(own) >= wanted and own[0].priority == offered[0].priority else offered

    def offers(self, message: Message) -> bool:
        """Return True if an execution is known that offers a message; one that another engine has continued is forgotten."""
        residents = self._turns.residents
        resident = residents.peek(message.workflow_id)
        if resident is None:
            return False
        task = resident.tasks.get(message.ref)
        if task is None:
            stands = len(resident.tasks) >= TASKS  # of so many not all are kept
        else:
            stands = task.status is TaskStatus.SCHEDULED and task.attempt == message.attempt
        if not stands:
            residents.take(message.workflow_id)
        return stands

    def _row(self, name: str, presence: Presence) -> HolderRow:
        leased = presence.leased and not self._clock.virtual
        return HolderRow(holder=name, place=presence.place, lease_until=self._clock.now() + _LEASE_MS if leased else None)

    def renew(self) -> None:
        """Say that it is alive, to those who cannot look; raises StorageErrors."""
        with self._mutex.held():
            if self._presence is not None and self.name is not None:
                with self._backend.writing() as tx:
                    tx.task_holders.put_holder(self._row(self.name, self._presence))

    # ------------------------------------------------------------------ to give back

    def give_back(self, tasks: Iterable[Task]) -> None:
        """Give back tasks that no thread works at any more, each in a turn of its own; raises StorageErrors."""
        now = self._clock.now()
        for task in tasks:
            # Removed meanwhile, or broken, which the turn has logged: its tasks end with their leases.
            with suppress(NotFound, InvariantBroken):
                event = give_back_event(task, "stopped", now)
                if self._turns.run_turn(task.workflow_id, [event]).parked is not None:
                    self._turns.parking.hold_inbox(task.workflow_id, [event])

    def give_back_all_but(self, kept: Container[tuple[str, int]]) -> None:
        """Give back what this holder has and no thread works at; `kept` are ids and leases. Raises StorageErrors."""
        if self._presence is not None and self.name is not None:
            with self._backend.reading() as view:
                held = view.executions.held_by(self.name)
            self.give_back(task for task in held if (task.task_id, task.lease) not in kept)

    def leave(self) -> None:
        """Give back all there is and be a holder no more; idempotent.

        When the store cannot be written, the engine that opens or drives it next gives back instead.
        """
        with self._mutex.held():
            presence, self._presence = self._presence, None
            self._over.wake()
        if presence is None or self.name is None:
            return
        try:
            addressed = self._returned(self.name, None, "stopped")
        except ConductorliteError as error:
            log_store("tasks could not be given back when the engine was closed, another engine does that", error)
            presence.leave()
            return
        except BaseException:
            presence.leave()
            raise
        presence.remove()
        self._follow(addressed)

    def vanish(self) -> None:
        """End its presence without a word to the store."""
        presence = self._presence
        if presence is not None:
            presence.leave()

    def look(self) -> bool:
        """As `recover`, if it is time to look again; when the store cannot be asked, later."""
        now = self._clock.now()
        if self._looked_at is not None and 0 <= now - self._looked_at < _LOOK_MS:
            return False
        self._looked_at = now
        try:
            return self.recover()
        except StorageError:
            return False  # the driver, which has work in this store too, reports that it cannot be used

    def recover(self) -> bool:
        """Give back what holders held that have ended; whether there was one. Raises StorageErrors."""
        with self._backend.reading() as view:
            rows = view.task_holders.rows()
        self._turns.quiet.beside = len(rows) > 1
        if self._shares:
            names = [row.holder for row in rows]
            self._share = Share.of(self.name, names) if self.name in names else Share()
            self.ahead = 1 if len(names) < 2 else 2 * self._share.count
        found = False
        for row in rows:
            why = None if row.holder == self.name and self._presence is not None else self._gone(row)
            if why is not None:
                addressed = self._returned(row.holder, row, why)
                self._backend.forget(row.place)
                self._follow(addressed)
                found = True
        return found

    def _gone(self, row: HolderRow) -> Why | None:
        """Why a holder counts as ended; None as long as it may be alive."""
        life = self._backend.look(row.place)
        if life is Life.LEFT:
            return "stopped"
        if life is Life.DEAD or (life is Life.MISSING and row.lease_until is None):
            return "died"
        if life is Life.ALIVE or row.lease_until is None:
            return None
        return "silent" if row.lease_until <= self._clock.now() else None

    def _returned(self, holder: str, judged: HolderRow | None, why: Why) -> Sequence[str]:
        """Write to all executions of which a holder had something, and forget it, in one commit; the executions.

        None of it when the holder is not the one that was judged any more: another engine was first, or it has renewed its lease.
        """
        now = self._clock.now()
        with self._backend.writing() as tx:
            if judged is not None and judged not in tx.task_holders.rows():
                return ()
            events = [give_back_event(task, why, now) for task in tx.executions.held_by(holder)]
            if events:
                tx.inbox.post(events)
            tx.task_holders.drop_holder(holder)
        return list(dict.fromkeys(event.workflow_id for event in events))

    def _follow(self, addressed: Sequence[str]) -> None:
        """Take the turns of the executions that were written to, of as many as need not be left to the driver."""
        if addressed:
            self._turns.committed.wake()
        # What goes wrong with one is reported by the next turn on it: the event stays until it was read.
        with suppress(StorageError):
            with self._backend.reading() as view:
                rows = [row for one in addressed[:_TURNS] if (row := view.executions.workflow(one)) is not None]
            mine, haste = [row.workflow_id for row in rows if row.owner == self._owner], None if self._clock.virtual else Haste()
            self._groups.run([Asked(workflow_id=one, events=(), haste=haste) for one in mine])


def _free(names: set[str]) -> str:
    number = 1
    while str(number) in names:
        number += 1
    return str(number)


def give_back_event(task: Task, why: Why, now: int) -> Event:
    """The event that gives a task back."""
    # Before its response timeout, also when that has passed while no engine looked: a holder that has ended sends nothing.
    due_at = now if task.response_timeout_at is None else min(now, task.response_timeout_at - 1)
    return Event(
        workflow_id=task.workflow_id,
        event_id=f"{EventKind.GIVE_BACK}:{task.task_id}:{task.lease}",
        kind=EventKind.GIVE_BACK,
        due_at=due_at,
        posted_at=now,
        ref=task.ref,
        attempt=task.attempt,
        generation=task.generation,
        data=Payload.of({"taskId": task.task_id, "lease": task.lease, "why": why}),
    )


def _beats(held: weakref.ref[Holding], over: Waiter) -> None:
    """Renew a holder's lease until it leaves; keeps nothing alive."""
    span = _BEAT_S
    while not over.wait(span):
        holding = held()
        if holding is None:
            return
        try:
            holding.renew()
            span = _BEAT_S
        except ConductorliteError as error:
            if span != _AGAIN_S:  # once until it is renewed again
                log_store("the lease on the tasks of this engine was not renewed, when it is over others get them", error)
            span = _AGAIN_S
        del holding
