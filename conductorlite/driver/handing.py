"""Which offered tasks a driver takes for its workers: as many as may run, every type in its turn, and some alone."""

from __future__ import annotations

from conductorlite.decisions import Message, MessageKey
from conductorlite.driver.workshop import Workshop
from conductorlite.engine import Hand, Keeping
from conductorlite.errors import StorageError
from conductorlite.executions import Task
from conductorlite.worker import Worker, Workers

__all__ = ["Handing"]


class Handing:
    """Takes tasks. One in whose hands processes have died is taken when nothing else runs here, and nothing else beside it."""

    def __init__(self, engine: Keeping, workers: Workers, workshop: Workshop) -> None:
        self._engine = engine
        self._workers = workers
        self._workshop = workshop
        self._rotation = 0
        #: What is to be taken alone, and until when nothing else is taken so that it can be.
        self._waiting: dict[MessageKey, tuple[Worker, Message]] = {}
        self._until = 0
        #: What was taken alone.
        self._lone: Task | None = None

    @property
    def worker_id(self) -> str:
        """What tasks show of who has them."""
        return self._workers.worker_id or self._engine.holding.worker_id

    def take(self, most: int, *, threads: bool = False) -> list[tuple[Worker, Task]]:
        """Up to `most` tasks for workers that may take one more; with `threads`, as many as there is room for."""
        if self._lone is not None:
            if any(running.task is self._lone for running in self._workshop):
                return []
            self._lone = None
        if alone := self._alone():
            return alone
        if self._waiting and self._engine.clock.now() < self._until:
            return []
        return self._offered(most, threads=threads) or self._alone()

    def _alone(self) -> list[tuple[Worker, Task]]:
        """The first of those that wait to be alone, if nothing runs."""
        while self._waiting and not len(self._workshop):
            worker, message = self._waiting.pop(next(iter(self._waiting)))
            self._lone = self._engine.take_alone(message, self.worker_id, self._engine.holding)
            if self._lone is not None:
                return [(worker, self._lone)]
        return []

    def _offered(self, most: int, *, threads: bool) -> list[tuple[Worker, Task]]:
        found: list[tuple[Worker, Task]] = []
        workers = list(self._workers)
        limit = self._workers.concurrency
        room = {kind: self._workshop.room(is_async=kind) for kind in (False, True)} if threads else {}
        for offset in range(len(workers)):
            worker = workers[(self._rotation + offset) % len(workers)]
            own = self._workshop.room_for(worker)
            free = min(most - len(found), room.get(worker.is_async, most), most if own is None else own)
            if limit is not None:
                free = min(free, limit - len(self._workshop) - len(found))
            if free <= 0:
                continue
            hand = Hand(self._engine.holding)
            try:
                tasks = self._engine.take_offered(worker.task_type, self.worker_id, free, worker.domain, hand)
            except StorageError:
                if found:  # what was taken is carried out; the error comes again
                    break
                raise
            found += [(worker, task) for task in tasks]
            if room:
                room[worker.is_async] -= len(tasks)
            self._keep(worker, hand)
            if len(found) >= most:
                break
        self._rotation += 1
        return found

    def _keep(self, worker: Worker, hand: Hand) -> None:
        """Note what is to be taken alone. What runs is waited for, but not for longer than a stopping engine would."""
        for message in hand.passed:
            if message.key not in self._waiting:
                self._waiting[message.key] = (worker, message)
                self._until = self._engine.clock.now() + self._workers.drain_ms
