"""A process that stops itself (SIGSTOP) in the middle of a turn; run by `test_stale_holders.py`.

It writes variables into an execution, or, with `task`, gives a sign of life for that task. What it is told, as JSON: the store, the
execution, the variables or the task's id, where to stop (`locked`:
holding the lock, before anything is read; `decided`: when the turn is decided upon and nothing is written; `writing`: inside the
write transaction), whether it uses the fence, and a lock's file and lease. When it has gone on to its end it prints, as
JSON, how often its turn was decided upon.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from conductorlite import Engine, EngineConfig
from conductorlite.store.locks import SQLiteLock
from conductorlite.store.ports import Lock
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend


class Stopping:
    """A lock whose holder stops as soon as it has it."""

    def __init__(self, inner: Lock, stop: Stop) -> None:
        self.inner = inner
        self.stop = stop
        self.own_time = inner.own_time

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn, and stop."""
        token = self.inner.try_acquire(workflow_id, now)
        self.stop("locked")
        return token

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Keep the turn."""
        return self.inner.renew(workflow_id, token, now)

    def release(self, workflow_id: str, token: int) -> None:
        """Give the turn back."""
        self.inner.release(workflow_id, token)

    def close(self) -> None:
        """Close the lock's file."""
        self.inner.close()


class Stop:
    """Stops this process at one place, the first time it comes there."""

    def __init__(self, place: str) -> None:
        self.place: str | None = place

    def __call__(self, place: str) -> None:
        """Stop, if this is the place."""
        if place == self.place:
            self.place = None
            os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """Do as told on the command line."""
    told = json.loads(sys.argv[1])
    stop = Stop(told["stop"])
    lock = SQLiteLock(told["lock"], lease=f"{told['lease']}ms") if told["lock"] else None
    store = FaultyBackend(
        SQLiteBackend(told["store"]),
        on_writing=lambda: stop("decided"),
        on_write=lambda name: stop("writing") if name.startswith("apply") else None,
    )
    with Engine(store, config=EngineConfig(lock=None if lock is None else Stopping(lock, stop), fencing=told["fencing"])) as engine:
        if told["task"]:
            engine.tasks.extend_lease(engine.tasks.get(told["task"]))
        else:
            engine.update_variables(told["workflow"], told["variables"])
        decided = sum(write.startswith("apply") for write in store.journal)
    print(json.dumps({"decided": decided}))


if __name__ == "__main__":
    main()
