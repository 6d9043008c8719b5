"""A handle on one execution, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span

if TYPE_CHECKING:
    from conductorlite.runtime.aio.engine import AsyncEngine

__all__ = ["AsyncRun"]


class AsyncRun:
    """One execution of an AsyncEngine: `Run` with `await` before what it reads, the two properties included."""

    __slots__ = ("_engine", "workflow_id")

    def __init__(self, engine: AsyncEngine, workflow_id: str) -> None:
        self._engine = engine
        self.workflow_id = workflow_id

    @property
    async def workflow(self) -> Workflow:
        """The whole execution, read now: `await run.workflow`."""
        return await self._engine.get(self.workflow_id)

    @property
    async def status(self) -> WorkflowStatus:
        """Where the execution stands, read now: `await run.status`."""
        return await self._engine.status(self.workflow_id)

    async def result(self, timeout: Span | None = None) -> dict[str, Any]:
        """The workflow's output, once it has ended COMPLETED; raises as `Run.result` does.

        No thread waits: any number of these may be awaited at once. If nobody drives the engine, it is driven meanwhile.
        """
        return await self._engine.wait(self.workflow_id, timeout)

    def __repr__(self) -> str:
        return f"AsyncRun({self.workflow_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncRun) and other.workflow_id == self.workflow_id

    def __hash__(self) -> int:
        return hash(self.workflow_id)
