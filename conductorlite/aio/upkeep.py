"""The verbs on the store as a whole, awaited, one line each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from conductorlite.driver import Engine
from conductorlite.engine import EngineShare, RepairReport

if TYPE_CHECKING:
    from conductorlite.aio.bridge import Bridge

__all__ = ["AsyncUpkeep"]


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
