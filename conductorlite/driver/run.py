"""A handle on one execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conductorlite.executions import Workflow, WorkflowStatus
from conductorlite.spans import Span

if TYPE_CHECKING:
    from conductorlite.driver.engine import Engine

__all__ = ["Run"]


class Run:
    """One execution of an engine. Cheap: it holds the id, everything else is read when asked for."""

    __slots__ = ("_engine", "workflow_id")

    def __init__(self, engine: Engine, workflow_id: str) -> None:
        self._engine = engine
        self.workflow_id = workflow_id

    @property
    def workflow(self) -> Workflow:
        """The whole execution, read now."""
        return self._engine.get(self.workflow_id)

    @property
    def status(self) -> WorkflowStatus:
        """Where the execution stands, read now."""
        return self._engine.status(self.workflow_id)

    def result(self, timeout: Span | None = None) -> dict[str, Any]:
        """The workflow's output, once it has ended COMPLETED.

        If nobody in this process drives the engine, the calling thread does meanwhile: it takes turns and runs workers. On a
        virtual clock the timeout is virtual. Raises WorkflowFailed when the execution ended otherwise, ResultTimeout when it
        did not end in time, when the engine was told to stop meanwhile, or, on a virtual clock, with nothing left that could
        move it. Inside a worker's function it raises WouldDeadlock when the execution waits for that function, or needs room that
        only functions hold which wait too.
        """
        return self._engine.wait(self.workflow_id, timeout=timeout)

    def __repr__(self) -> str:
        return f"Run({self.workflow_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.workflow_id == self.workflow_id

    def __hash__(self) -> int:
        return hash(self.workflow_id)
