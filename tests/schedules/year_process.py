"""A process that lives through days of a virtual year with an engine of its own; told by lines what to do, it answers in lines."""

from __future__ import annotations

import sys

from conductorlite import Engine, VirtualClock
from conductorlite.store.sqlite.backend import SQLiteBackend


def main(path: str, start: str) -> None:
    """`<instant>` on a line of its input: advance to it, then write how many executions this process has begun so far."""
    begun: set[str] = set()
    store = SQLiteBackend(path, synchronous="NORMAL", busy_timeout_ms=60_000)
    with Engine(store, clock=VirtualClock(int(start))) as engine:
        engine.listen(lambda workflow, _: begun.add(workflow.workflow_id))
        for line in sys.stdin:
            engine.advance(to=int(line))
            print(len(begun), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
