"""The verbs on schedules, awaited, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductorlite.clock import Instant
from conductorlite.driver import Engine
from conductorlite.schedules import OverlapPolicy, Schedule, WorkflowSchedule

if TYPE_CHECKING:
    from conductorlite.aio.bridge import Bridge

__all__ = ["AsyncSchedules"]


class AsyncSchedules:
    """What `AsyncEngine` can do with schedules."""

    _engine: Engine
    _bridge: Bridge

    async def save_schedule(self, schedule: WorkflowSchedule) -> Schedule:
        """`Engine.save_schedule`, awaited."""
        return await self._bridge.call(self._engine.save_schedule, schedule)

    async def schedule(self, name: str) -> Schedule:
        """`Engine.schedule`, awaited."""
        return await self._bridge.call(self._engine.schedule, name)

    async def schedules(self, workflow_name: str | None = None) -> list[Schedule]:
        """`Engine.schedules`, awaited."""
        return await self._bridge.call(self._engine.schedules, workflow_name)

    async def pause_schedule(self, name: str, reason: str | None = None) -> None:
        """`Engine.pause_schedule`, awaited."""
        await self._bridge.call(self._engine.pause_schedule, name, reason)

    async def resume_schedule(self, name: str) -> None:
        """`Engine.resume_schedule`, awaited."""
        await self._bridge.call(self._engine.resume_schedule, name)

    async def remove_schedule(self, name: str) -> None:
        """`Engine.remove_schedule`, awaited."""
        await self._bridge.call(self._engine.remove_schedule, name)

    async def preview(
        self, schedule: str | WorkflowSchedule, count: int = 5, *, zone_id: str = "UTC", after: Instant | None = None
    ) -> list[int]:
        """`Engine.preview`, awaited."""
        return await self._bridge.call(self._engine.preview, schedule, count, zone_id=zone_id, after=after)

    async def backfill(self, name: str, start: Instant, end: Instant, *, overlap_policy: OverlapPolicy | None = None) -> int:
        """`Engine.backfill`, awaited."""
        return await self._bridge.call(self._engine.backfill, name, start, end, overlap_policy=overlap_policy)
