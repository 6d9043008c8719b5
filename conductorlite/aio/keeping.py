"""Searching, archiving and pruning, awaited: the part of `AsyncEngine` that is about the store as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from conductorlite.driver import Engine
from conductorlite.engine import IndexHealth, PruneReport
from conductorlite.ports import Sizes
from conductorlite.search import SearchResult, TaskSummary, WorkflowSummary
from conductorlite.spans import Span

if TYPE_CHECKING:  # asyncio is imported by whoever makes an AsyncEngine
    from conductorlite.aio.bridge import Bridge

__all__ = ["AsyncKeeping"]


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

    async def relay(self, meals: int = 1_000) -> int:
        """`Engine.relay`, awaited."""
        return await self._bridge.call(self._engine.relay, meals)

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
