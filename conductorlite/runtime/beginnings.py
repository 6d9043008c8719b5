"""The turns that executions begin with: they hand their first tasks to workers of this engine that are free.

So does one whose caller is about to drive, if nobody else does; and one of any other thread beside a driver that rests, which
lends it a worker: then it hands over one task at most. That driver carries it out next; if it has ended, the task is given back.

What is handed over is what a poll at that instant would give, or less (`Taking`), and is leased when anybody learns of it. A worker
that is lent counts as one that runs, so that no more run than may.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from conductorlite.engine.turn_types import Taking, caller_of
from conductorlite.engine.verbs import Verbs
from conductorlite.model.errors import EngineClosed, StorageError
from conductorlite.model.executions import Task
from conductorlite.model.threads import Block, Mutex, within
from conductorlite.runtime.handout import BATCH, HandOut
from conductorlite.runtime.registry import Worker
from conductorlite.runtime.workshop import Workshop

__all__ = ["Beginnings"]

#: Takes a first turn, with the workers that are free for what it offers.
_Turn = Callable[[Taking | None], object]


class Beginnings:
    """Begins executions of one engine. Thread-safe: one worker is lent at a time."""

    def __init__(
        self, engine: Verbs, handing: HandOut, workshop: Workshop, drive: Callable[[float], AbstractContextManager[bool]]
    ) -> None:
        self._engine, self._handing, self.workshop, self._drive = engine, handing, workshop, drive
        self._mutex = Mutex()
        #: The loop of a driver on the system clock, another object each time; None: none is under way. Whether it rests.
        self.loop: object | None = None
        self.rests = False

    def beginning(self, awaited: bool) -> Callable[[_Turn], None]:
        """Return a function that takes such a turn.

        `awaited`: for a caller who will drive, or wait for who does, until the execution has ended.
        """
        return partial(self._begin, awaited=awaited)

    def _begin(self, turn: _Turn, *, awaited: bool) -> None:
        turns = self._engine.core.turns
        if turns.joined.decisions is None:
            if awaited and caller_of(turns) is None:
                with self._drive(0) as driving:
                    if driving:
                        virtual = self._engine.clock.virtual
                        self._take(turn, self._free(1 if virtual else BATCH, threads=not virtual), self._handing.handed.extend)
                        return
            if self.rests:
                with within(_Lent(self)) as taking:
                    self._take(turn, taking, partial(self._deposit, self.loop))
                return
        turn(None)

    def _free(self, most: int, *, threads: bool) -> Taking | None:
        self._handing.most, self._handing.threads, self._handing.until = most, threads, -1
        return self._handing.taking(())

    def lend(self, block: Block[Taking | None]) -> Taking | None:
        """The worker that a driver lends, if it does, for as long as a block lasts."""
        with self._mutex.held():
            taking = self._free(1, threads=True) if self.rests and self.loop is not None and not self.workshop.lends() else None
            if taking is not None:
                self.workshop.lent = block
            return taking

    def _take(self, turn: _Turn, taking: Taking | None, give: Callable[[list[tuple[Worker, Task]]], object]) -> None:
        given, found = False, list[tuple[Worker, Task]]()
        try:
            turn(taking)
            try:
                self._handing.receive(taking, found)
                given = True
                give(found)
            except StorageError:
                return  # it has begun: what cannot be carried out now is given up
        finally:
            if taking is not None and taking.taken and not given:
                self._engine.core.polling.give_up(task for task, _ in taking.taken)

    def _deposit(self, loop: object, found: list[tuple[Worker, Task]]) -> None:
        """Have the driver that has lent a worker carry out what was handed to it; give it back if that driver has ended."""
        handed = self._handing.handed
        handed.extend(found)
        if loop is not None and self.loop is loop:
            self._engine.core.turns.committed.wake()
            return
        # It looks for what is left after it has ended: either finds it.
        with suppress(EngineClosed):
            self._engine.core.holding.give_back([one[1] for one in found if _withdrawn(handed, one)])

    @contextmanager
    def resting(self) -> Iterator[None]:
        """A block in which the driver rests; who is about to be lent a worker is so before the driver goes on."""
        self.rests = True
        try:
            yield
        finally:
            with self._mutex.held():
                self.rests = False


def _withdrawn(handed: deque[tuple[Worker, Task]], one: tuple[Worker, Task]) -> bool:
    """Take a task out again; False when another thread has taken it."""
    while True:
        try:
            handed.remove(one)
            return True
        except ValueError:
            return False
        except IndexError:  # another thread took one while this one was looked for
            continue


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
