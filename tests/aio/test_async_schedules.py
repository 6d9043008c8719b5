"""Schedules on an event loop."""

from __future__ import annotations

import asyncio

from conductorlite import AsyncEngine, StartWorkflowRequest, VirtualClock, WorkflowDef, WorkflowSchedule, WorkflowTask

T0 = 1_893_456_000_000
FLOW = WorkflowDef(name="w", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")])


def test_every_verb_awaited() -> None:
    """Saved, looked at, fired on a virtual clock, paused, filled, removed."""

    async def main() -> None:
        async with AsyncEngine(clock=VirtualClock(T0)) as engine:
            request = StartWorkflowRequest(workflow_def=FLOW)
            await engine.schedules.save(WorkflowSchedule(name="s", interval_ms="1h", start_workflow_request=request))
            assert await engine.schedules.preview("s", 1) == [T0 + 3_600_000]
            await engine.advance("2h")
            await engine.schedules.pause("s", "why")
            assert (await engine.schedules.get("s")).paused_reason == "why"
            await engine.advance("2h")
            assert await engine.schedules.backfill("s", T0, T0 + 4 * 3_600_000) == 5
            await engine.settle()
            await engine.schedules.resume("s")
            assert [one.name for one in await engine.schedules.all()] == ["s"]
            assert len([one async for one in engine.admin.workflow_ids()]) == 5
            await engine.schedules.remove("s")
            assert await engine.schedules.all() == []

    asyncio.run(main())


def test_a_schedule_fires_in_the_background() -> None:
    """On the machine's clock, while the block lasts."""

    async def main() -> None:
        async with AsyncEngine() as engine, engine.background():
            now = engine.clock.now()
            request = StartWorkflowRequest(workflow_def=FLOW)
            await engine.schedules.save(WorkflowSchedule(name="s", at=now + 50, start_workflow_request=request))
            for _ in range(400):
                if (await engine.schedules.get("s")).recent:
                    break
                await asyncio.sleep(0.05)
            (run,) = (await engine.schedules.get("s")).recent
            assert (str(run.outcome), run.scheduled_time) == ("EXECUTED", now + 50)
            assert run.executed_time >= run.scheduled_time

    asyncio.run(main())
