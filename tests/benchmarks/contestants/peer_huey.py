"""huey on SQLite: a queue; what is taken is deleted first, so that a kill loses it; no history."""
# mypy: ignore-errors

from __future__ import annotations

import logging
import time

from contest import Contest, step
from huey import SqliteHuey

logging.disable(logging.ERROR)
given = Contest()
queue = SqliteHuey(filename=given.path, fsync=given.store == "full")


@queue.task()
def done(previous=None, **more):
    """The step."""
    return step(1)


def pipeline(length: int):
    """So many steps one after another."""
    first = done.s()
    last = first
    for _ in range(length - 1):
        last = last.then(done)
    return first


def ended(result):
    """Wait for the last result."""
    results = getattr(result, "_results", result)
    last = results[-1] if isinstance(results, list) else results
    return last.get(blocking=True, backoff=1.0, max_delay=0.002)


consumer = queue.create_consumer(
    workers=2, periodic=False, initial_delay=0.001, max_delay=0.002, backoff=1.0, check_worker_health=False
)
consumer.start()
if given.work == "fork":
    with given.measured(given.count):
        results = [done() for _ in range(given.count)]
        for result in results:
            ended(result)
elif given.work == "cold":
    ended(queue.enqueue(pipeline(1)))
elif given.work == "disk":
    ended(queue.enqueue(pipeline(10)))
    before = given.disk()
    for result in [queue.enqueue(pipeline(10)) for _ in range(given.count)]:
        ended(result)
    time.sleep(0.3)
    given.tell(bytes=(given.disk() - before) / given.count)
given.tell()
