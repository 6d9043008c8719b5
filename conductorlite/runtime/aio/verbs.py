"""Verbs of the engine, awaited, one line each: on events, schedules, the archive and the store as a whole.

The verbs on event handlers and messages, awaited.

The verbs on schedules, awaited, one line each.

Searching, archiving and pruning, awaited: the part of `AsyncEngine` that is about the store as a whole.

The verbs on the store as a whole, awaited, one line each.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from conductorlite.engine.index_feed import IndexHealth
from conductorlite.engine.maintenance import EngineShare, RepairReport
from conductorlite.engine.retention import PruneReport
from conductorlite.model.clock import Instant
from conductorlite.model.handlers import EventExecution, EventHandler
from conductorlite.model.schedules import OverlapPolicy, Schedule, WorkflowSchedule
from conductorlite.model.texts import Span
from conductorlite.runtime.engine import Engine
from conductorlite.store.search import SearchResult, TaskSummary, WorkflowSummary
from conductorlite.store.tables import Sizes

if TYPE_CHECKING:
    from conductorlite.runtime.aio.bridge import Bridge

__all__ = ["AsyncEvents", "AsyncKeeping", "AsyncSchedules", "AsyncUpkeep"]


class AsyncEvents:
    """The part of `AsyncEngine` that is about events."""

    _engine: Engine
    _bridge: Bridge

    async def register_event_handler(self, handler: EventHandler, *, overwrite: bool = True) -> None:
        """`Engine.register_event_handler`, awaited."""
        await self._bridge.call(self._engine.register_event_handler, handler, overwrite=overwrite)

    async def event_handler(self, name: str) -> EventHandler:
        """`Engine.event_handler`, awaited."""
        return await self._bridge.call(self._engine.event_handler, name)

    async def event_handlers(self, event: str | None = None, *, active_only: bool = False) -> list[EventHandler]:
        """`Engine.event_handlers`, awaited."""
        return await self._bridge.call(self._engine.event_handlers, event, active_only=active_only)

    async def unregister_event_handler(self, name: str) -> None:
        """`Engine.unregister_event_handler`, awaited."""
        await self._bridge.call(self._engine.unregister_event_handler, name)

    async def publish(self, event: str, payload: Any = None, *, message_id: str | None = None) -> list[EventExecution]:
        """`Engine.publish`, awaited."""
        return await self._bridge.call(self._engine.publish, event, payload, message_id=message_id)

    async def event_executions(
        self,
        name: str | None = None,
        *,
        message_id: str | None = None,
        limit: int = 100,
        after: EventExecution | None = None,
    ) -> list[EventExecution]:
        """`Engine.event_executions`, awaited."""
        return await self._bridge.call(self._engine.event_executions, name, message_id=message_id, limit=limit, after=after)

    async def remove_event_executions(self, before: Instant) -> int:
        """`Engine.remove_event_executions`, awaited."""
        return await self._bridge.call(self._engine.remove_event_executions, before)


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


class AsyncKeeping:
    """Verbs on the store as a whole."""

    _engine: Engine
    _bridge: Bridge

    async def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """`Engine.search`, awaited."""
        return await self._bridge.call(self._engine.search, query, free_text=free_text, start=start, size=size, sort=sort)

    async def search_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[TaskSummary]:
        """`Engine.search_tasks`, awaited."""
        return await self._bridge.call(self._engine.search_tasks, query, free_text=free_text, start=start, size=size, sort=sort)

    async def search_by_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """`Engine.search_by_tasks`, awaited."""
        return await self._bridge.call(self._engine.search_by_tasks, query, free_text=free_text, start=start, size=size, sort=sort)

    async def relay(self, batches: int = 1_000) -> int:
        """`Engine.relay`, awaited."""
        return await self._bridge.call(self._engine.relay, batches)

    async def index_health(self) -> IndexHealth | None:
        """`Engine.index_health`, awaited."""
        return await self._bridge.call(self._engine.index_health)

    async def rebuild_index(self) -> None:
        """`Engine.rebuild_index`, awaited."""
        await self._bridge.call(self._engine.rebuild_index)

    async def forget_index(self) -> None:
        """`Engine.forget_index`, awaited."""
        await self._bridge.call(self._engine.forget_index)

    async def archive(self, workflow_id: str) -> None:
        """`Engine.archive`, awaited."""
        await self._bridge.call(self._engine.archive, workflow_id)

    def archived_ids(self) -> AsyncIterator[str]:
        """`Engine.archived_ids`, iterated with `async for`."""
        return self._bridge.each(self._engine.archived_ids())

    async def prune(
        self,
        older_than: Span,
        *,
        keep_failed: bool = False,
        archive: bool = False,
        name: str | None = None,
        limit: int | None = None,
    ) -> PruneReport:
        """`Engine.prune`, awaited."""
        return await self._bridge.call(
            self._engine.prune, older_than, keep_failed=keep_failed, archive=archive, name=name, limit=limit
        )

    async def compact(self) -> None:
        """`Engine.compact`, awaited."""
        await self._bridge.call(self._engine.compact)

    async def size_report(self) -> Sizes:
        """`Engine.size_report`, awaited."""
        return await self._bridge.call(self._engine.size_report)


class AsyncUpkeep:
    """What `AsyncEngine` can do with the store."""

    _engine: Engine
    _bridge: Bridge

    async def engines(self) -> list[EngineShare]:
        """`Engine.engines`, awaited."""
        return await self._bridge.call(self._engine.engines)

    async def take_over(self, name: str | None) -> int:
        """`Engine.take_over`, awaited."""
        return await self._bridge.call(self._engine.take_over, name)

    async def repair(self, workflow_id: str | None = None) -> RepairReport:
        """`Engine.repair`, awaited."""
        return await self._bridge.call(self._engine.repair, workflow_id)

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """`Engine.backup`, awaited."""
        await self._bridge.call(self._engine.backup, path)
