"""DBOS Transact on SQLite or PostgreSQL with its own defaults: workflow status and step outputs; recovery at launch."""
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
import time

from contest import Contest, gated, resident, step
from dbos import DBOS, SetWorkflowID

given = Contest()
DBOS(
    config={
        "name": "contest",
        "system_database_url": given.url or f"sqlite:///{given.path}",
        "log_level": "ERROR",
        "application_version": "1",
        "executor_id": f"local-{os.getpid()}" if given.beside else "local",
    }
)
done = DBOS.step()(step)


@DBOS.step()
async def done_soon(i: int) -> dict:
    return step(i)


@DBOS.step()
def held(i: int) -> dict:
    return gated(given.folder, i)


@DBOS.workflow()
def chain(length: int) -> dict:
    return [done(i) for i in range(length)][-1]


@DBOS.workflow()
def held_chain(length: int) -> dict:
    return [held(i) for i in range(length)][-1]


@DBOS.workflow()
async def fan(width: int) -> int:
    return len(await asyncio.gather(*[done_soon(i) for i in range(width)]))


@DBOS.workflow()
async def sleeper() -> None:
    await DBOS.sleep_async(30 * 86_400)


DBOS.launch()
if given.work == "chains":
    chain(10)
    with given.measured(given.count * 10):
        for _ in range(given.count):
            chain(10)
elif given.work == "crowd":
    with given.measured(given.count * 5):
        handles = [DBOS.start_workflow(chain, 5) for _ in range(given.count)]
        for handle in handles:
            handle.get_result(polling_interval_sec=0.02)
elif given.work == "fork":
    with given.measured(given.count):
        asyncio.run(fan(given.count))
elif given.work == "long":
    with given.measured(given.count):
        chain(given.count)
elif given.work == "cold":
    chain(1)
elif given.work == "hold":
    for n in range(given.count):
        with SetWorkflowID(f"w{n}"):
            DBOS.start_workflow(held_chain, 10)
    time.sleep(600)
elif given.work == "recover":
    begun = time.perf_counter()
    found = [DBOS.retrieve_workflow(f"w{n}").get_result(polling_interval_sec=0.02) for n in range(given.count)]
    given.tell(seconds=time.perf_counter() - begun, ended=sum(bool(one) for one in found))
elif given.work == "disk":
    chain(10)
    before = given.disk()
    for _ in range(given.count):
        chain(10)
    given.tell(bytes=(given.disk() - before) / given.count)
elif given.work == "park":
    memory, before = resident(), given.disk()

    async def park() -> None:
        for _ in range(given.count):
            await DBOS.start_workflow_async(sleeper)
        await asyncio.sleep(1)

    with given.measured(given.count):
        asyncio.new_event_loop().run_until_complete(park())
        grown = resident() - memory
    given.tell(memory=grown / given.count, bytes=(given.disk() - before) / given.count)
given.tell()
