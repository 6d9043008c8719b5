"""The verbs on event handlers and messages, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conductorlite.clock import Instant
from conductorlite.driver import Engine
from conductorlite.handlers import EventExecution, EventHandler

if TYPE_CHECKING:
    # It imports asyncio, which is for whoever makes an AsyncEngine.
    from conductorlite.aio.bridge import Bridge

__all__ = ["AsyncEvents"]


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
