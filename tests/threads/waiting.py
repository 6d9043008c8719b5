"""Ten thousand callers that wait at once: what they take of memory and of the processor, and whether each is answered.

python tests/threads/waiting.py [threads|coroutines|requests] [--count N] [--store memory|file|PATH] [--seconds S]

Each waits for the result of an execution of its own: in a thread, in a coroutine of one AsyncEngine, or in a call over REST of one
app in this process. First nothing happens for some seconds; then another execution is committed a hundred times a second for as
long; then each is signaled. Ends with status 1 when one has another answer than its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from conductorlite import AsyncEngine, Engine, WorkflowDef, WorkflowTask
from conductorlite.server.rest import rest_app
from conductorlite.server.safety import Role, Safety

HUMAN: Final = WorkflowDef(name="human", tasks=[WorkflowTask(name="h", task_reference_name="h", type="HUMAN")])
#: A call of `execute` does not wait for one that a HUMAN blocks.
HOUR: Final = {"duration": "1 hours"}
WAITS: Final = WorkflowDef(
    name="waits", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters=HOUR)]
)


def megabytes() -> float:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


class Report:
    """Prints what each phase took."""

    def __init__(self, count: int) -> None:
        self._count, self._before = count, megabytes()
        self._wall, self._cpu = time.time(), time.process_time()

    def phase(self, name: str) -> None:
        """One is over."""
        wall, cpu = time.time(), time.process_time()
        print(f"{name:32} {wall - self._wall:8.2f} s {cpu - self._cpu:8.2f} s of the processor {megabytes():8.0f} MB", flush=True)
        self._wall, self._cpu = time.time(), time.process_time()

    def each(self) -> None:
        """What one caller that waits takes."""
        print(f"{'a caller that waits':32} {1e3 * (megabytes() - self._before) / self._count:8.1f} kB", flush=True)


def in_threads(store: str | None, count: int, seconds: float) -> int:
    """In a thread each; how many had a wrong answer."""
    engine, found = Engine(store), dict[str, Any]()
    driver = threading.Thread(target=engine.run_forever)
    driver.start()
    other, *ids = engine.start_many(HUMAN, [{} for _ in range(count + 1)])
    report = Report(count)
    threading.stack_size(256 * 1024)

    def wait(one: str) -> None:
        try:
            found[one] = engine.result(one, "10m")
        except Exception as error:
            found[one] = repr(error)

    threads = [threading.Thread(target=wait, args=(one,)) for one in ids]
    for thread in threads:
        thread.start()
    while len(engine.core.turns.awaited.sleepers) < count:
        time.sleep(0.05)
    report.phase(f"{count} threads begin to wait")
    report.each()
    idle_and_busy(report, seconds, lambda n: engine.update_variables(other, {"n": n}))
    for one in ids:
        engine.signal(one, {"by": one})
    for thread in threads:
        thread.join()
    report.phase("each is answered")
    engine.stop()
    driver.join()
    engine.close()
    return sum(found.get(one) != {"by": one} for one in ids)


def idle_and_busy(report: Report, seconds: float, commit: Callable[[int], object]) -> None:
    """Nothing happens for a while; then another execution is committed a hundred times a second."""
    time.sleep(seconds)
    report.phase("nothing happens")
    for n in range(int(100 * seconds)):
        commit(n)
        time.sleep(0.01)
    report.phase("100 commits a second elsewhere")


async def in_coroutines(store: str | None, count: int, seconds: float) -> int:
    """In a coroutine each; how many had a wrong answer."""
    async with AsyncEngine(store) as engine, engine.background():
        other, *ids = await engine.start_many(HUMAN, [{} for _ in range(count + 1)])
        report = Report(count)
        waits = [asyncio.create_task(engine.result(one, "10m")) for one in ids]
        while len(engine._engine.core.turns.awaited.by_execution) < count or engine._bridge._verbs._jobs:
            await asyncio.sleep(0.05)
        report.phase(f"{count} coroutines begin to wait")
        report.each()
        await asyncio.to_thread(idle_and_busy, report, seconds, lambda n: engine._engine.update_variables(other, {"n": n}))
        for one in ids:
            await asyncio.to_thread(engine._engine.signal, one, {"by": one})
        found = [await wait for wait in waits]
        report.phase("each is answered")
    return sum(one != {"by": wanted} for one, wanted in zip(found, ids, strict=True))


async def in_requests(store: str | None, count: int, seconds: float) -> int:
    """In a call over REST each; how many had a wrong answer."""
    engine = Engine(store)
    engine.register(WAITS)
    driver = threading.Thread(target=engine.run_forever)
    driver.start()
    other = engine.start(HUMAN).workflow_id
    app = rest_app(engine, safety=Safety(anonymous=Role.ADMIN, concurrency=count + 10, answer_seconds=3_600))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080", timeout=None) as client:
        report = Report(count)

        async def call(number: int) -> Any:
            body = json.dumps({"correlationId": str(number)})
            sent = await client.post("/api/workflow/execute/waits/1?waitForSeconds=3600", content=body)
            return sent.json()

        calls = [asyncio.create_task(call(number)) for number in range(count)]
        while len(engine.core.turns.awaited.by_execution) < count:
            await asyncio.sleep(0.05)
        report.phase(f"{count} requests begin to wait")
        report.each()
        await asyncio.to_thread(idle_and_busy, report, seconds, lambda n: engine.update_variables(other, {"n": n}))
        for one in engine.executions(name="waits", limit=count):
            await asyncio.to_thread(engine.signal, one.workflow_id, {"by": one.correlation_id}, task="w")
        found = [await one for one in calls]
        report.phase("each is answered")
    engine.stop()
    driver.join()
    engine.close()
    return sum(one.get("output") != {"by": str(number)} for number, one in enumerate(found))


def main() -> int:
    """Carry out one kind, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=("threads", "coroutines", "requests"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--store", default="memory")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    kinds: dict[str, Callable[[str | None], int]] = {
        "threads": lambda store: in_threads(store, options.count, options.seconds),
        "coroutines": lambda store: asyncio.run(in_coroutines(store, options.count, options.seconds)),
        "requests": lambda store: asyncio.run(in_requests(store, options.count, options.seconds)),
    }
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, carry_out in kinds.items():
            if options.kind in (None, kind):
                path = None if options.store == "memory" else f"{folder}/{kind}.db" if options.store == "file" else options.store
                wrong += carry_out(path)
    print(f"{wrong} wrong answers")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
