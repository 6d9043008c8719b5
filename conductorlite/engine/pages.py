"""The pages of an execution and of a store: what they show is gathered here, how they look is `pages`."""

from __future__ import annotations

from collections.abc import Iterable

from conductorlite.engine.causes import causes_of
from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.queries import Queries
from conductorlite.engine.turns import Turns
from conductorlite.model.errors import ExecutionNotFound
from conductorlite.model.executions import Workflow
from conductorlite.pages.execution import Due, ExecutionView, execution_page
from conductorlite.store.ports import ReadingTransaction

__all__ = ["Pages"]


class Pages(Part):
    """Makes pages."""

    def __init__(self, turns: Turns, config: EngineConfig, queries: Queries) -> None:
        super().__init__(turns, config)
        self._queries = queries

    def execution(self, workflow_id: str) -> str:
        """See `Admin.page`."""
        workflow = self._queries.get(workflow_id, masked=True)
        now = self._clock.now()
        with self._backend.reading() as view:
            due = sorted(self._due(view, workflow, now), key=lambda one: (one.at, one.kind, one.ref or ""))
            children = {one: _status(view, one) for task in workflow.tasks if (one := task.sub_workflow_id) is not None}
        shown = ExecutionView(
            workflow=workflow,
            history=self._queries.history(workflow_id, masked=True),
            explanation=self._queries.explain(workflow_id),
            causes=causes_of(workflow, self._child) if workflow.status.terminal else (),
            due=due,
            children=children,
            now=now,
        )
        return execution_page(shown)

    def _due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Iterable[Due]:
        for event in view.inbox(workflow.workflow_id):
            if not event.held:
                yield Due(at=event.due_at, kind=event.kind, ref=event.ref)
        for task in workflow.tasks:
            message = None if task.status.terminal else view.message((workflow.workflow_id, task.ref))
            if message is not None and message.due_at > now:
                yield Due(at=message.due_at, kind="OFFERED", ref=task.ref)

    def _child(self, workflow_id: str) -> Workflow | None:
        try:
            return self._queries.get(workflow_id, masked=True)
        except ExecutionNotFound:
            return None


def _status(view: ReadingTransaction, workflow_id: str) -> str:
    row = view.workflow(workflow_id)
    return str(row.status) if row is not None else "archived" if view.archived(workflow_id) is not None else "not there"
