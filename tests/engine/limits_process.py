"""One of several processes that share a file: takes turns, polls, works and reports, until it is told to stop or is killed.

Run as `python limits_process.py <store> <seed> <seconds>`; it prints nothing and ends by itself.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress

from limits_traffic import DEFINITIONS

from conductorlite import ConductorliteError, Engine, SystemClock, TaskResult, TaskStatus
from conductorlite.errors import Conflict, NotFound, StorageBusy
from conductorlite.store.sqlite.backend import SQLiteBackend

_NAMES = ("two", "both", "mixed", "paced")
_REPORTS = ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "IN_PROGRESS")
_VERBS = (Engine.terminate, Engine.pause, Engine.resume, Engine.retry, Engine.restart)


def work(store: str, seed: int, seconds: float) -> None:
    """Start, poll, report and give verbs at random; what others did first is no error."""
    chance, clock = random.Random(seed), SystemClock()
    until = clock.now() + round(seconds * 1000)
    with Engine(SQLiteBackend(store, synchronous="NORMAL", busy_timeout_ms=20_000), clock=clock) as engine:
        while clock.now() < until:
            with suppress(Conflict, NotFound, StorageBusy):
                _once(engine, chance)
            engine.tick()


def _once(engine: Engine, chance: random.Random) -> None:
    what = chance.random()
    if what < 0.25:
        engine.start(chance.choice(DEFINITIONS), {"who": chance.choice("ab")}, priority=chance.randrange(3))
    elif what < 0.35:
        found = list(engine.admin.workflow_ids())
        if found:
            chance.choice(_VERBS)(engine, chance.choice(found))
    else:
        for task in engine.poll(chance.choice(_NAMES), worker_id=str(engine), count=2):
            result = TaskResult(
                workflow_id=task.workflow_id,
                task_id=task.task_id,
                status=TaskStatus(chance.choice(_REPORTS)),
                lease=task.lease,
            )
            with suppress(ConductorliteError):
                engine.update_task(result)


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
