"""The turns that executions begin with: they hand their first tasks to workers of this engine that are free.

So does one whose caller is about to drive, if nobody else does; and one of any other thread beside a driver that rests, which
lends it a worker: then it hands over one task at most. That driver carries it out next; if it has ended, the task is given back.

What is handed over is what a poll at that instant would give, or less (`Taking`), and is leased when anybody learns of it. A worker
that is lent counts as one that runs, so that no more run than may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from conductorlite.engine.turn_types import Taking, caller_of
from conductorlite.engine.verbs import Verbs
from conductorlite.model.errors import EngineClosed, StorageError
from conductorlite.model.executions import Task
from conductorlite.model.threads import Block, Mutex, within
from conductorlite.runtime.registry import Worker
from conductorlite.runtime.workshop import BATCH, HandOut, Workshop

__all__ = ["Beginnings"]

#: Takes a first turn, with the workers that are free for what it offers.
_Turn = Callable[[Taking | None], object]


class Beginnings:
    """Begins executions of one engine. Thread-safe: one worker is lent at a time."""

    def __init__(self, engine: Verbs, handing: HandOut, workshop: Workshop) -> None:
        self.engine, self.handing, self.workshop = engine, handing, workshop
        self.mutex = Mutex()
        #: The driver's loop that is under way, another object each time; None: there is none. Whether it rests.
        self.loop: object | None = None
        self.rests = False

    def begin(self, turn: _Turn, drive: AbstractContextManager[bool] | None) -> None:
        """Take such a turn; `drive` is the block of a caller who will drive, or wait for who does, until it has ended."""
        turns = self.engine.core.turns
        if turns.joined.decisions is None:
            if drive is not None and caller_of(turns) is None:
                with drive as driving:
                    if driving:
                        virtual = self.engine.clock.virtual
                        self._take(turn, self._free(1 if virtual else BATCH, threads=not virtual), self.handing.handed.extend)
                        return
            if self.rests:
                with within(_Lent(self)) as taking:
                    self._take(turn, taking, partial(self._deposit, self.loop))
                return
        turn(None)

    def _free(self, most: int, *, threads: bool) -> Taking | None:
        self.handing.most, self.handing.threads, self.handing.until = most, threads, -1
        return self.handing.taking(())

    def lend(self, block: Block[Taking | None]) -> Taking | None:
        """The worker that a driver lends, if it does, for as long as a block lasts."""
        with self.mutex.held():
            taking = self._free(1, threads=True) if self.rests and self.loop is not None and not self.workshop.lends() else None
            if taking is not None:
                self.workshop.lent = block
            return taking

    def _take(self, turn: _Turn, taking: Taking | None, give: Callable[[list[tuple[Worker, Task]]], object]) -> None:
        given = False
        try:
            turn(taking)
            if taking is None or not (taking.taken or taking.write):
                return
            with suppress(StorageError):  # it has begun: what cannot be carried out now is given up
                found = self.handing.received(taking)
                given = True
                give(found)
        finally:
            if taking is not None and taking.taken and not given:
                self.engine.core.polling.give_up(task for task, _ in taking.taken)

    def _deposit(self, loop: object, found: list[tuple[Worker, Task]]) -> None:
        """Have the driver that has lent a worker carry out what was handed to it; give it back if that driver has ended."""
        with self.mutex.held():
            driven = loop is not None and self.loop is loop
            if driven:
                self.handing.handed.extend(found)
        if driven:
            self.engine.core.turns.wake()
        else:
            with suppress(EngineClosed):  # which has given back what it had
                self.engine.core.holding.give_back(task for _, task in found)

    def driven(self) -> AbstractContextManager[None]:
        """The block of a driver's loop on the system clock."""
        return within(_Loop(self))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """A block in which the driver rests; who is about to be lent a worker is so before the driver goes on."""
        self.rests = True
        try:
            yield
        finally:
            with self.mutex.held():
                self.rests = False


class _Lent(Block["Taking | None"]):
    """The block of a turn to which a driver may have lent a worker."""

    __slots__ = ("_beginnings",)

    def __init__(self, beginnings: Beginnings) -> None:
        self._beginnings = beginnings

    def begin(self) -> Taking | None:
        return self._beginnings.lend(self)

    def undo(self, error: BaseException | None = None) -> None:
        if self._beginnings.workshop.lent is self:
            self._beginnings.workshop.lent = None

    end = undo


class _Loop(Block[None]):
    """The block of a driver's loop."""

    __slots__ = ("_before", "_beginnings")

    def __init__(self, beginnings: Beginnings) -> None:
        self._beginnings, self._before = beginnings, beginnings.loop

    def begin(self) -> None:
        self._beginnings.loop = self

    def undo(self, error: BaseException | None = None) -> None:
        with self._beginnings.mutex.held():
            self._beginnings.loop = self._before

    end = undo
