"""Moving running executions to another definition: one, or all of a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from conductorlite.decide.verbs import pending_of
from conductorlite.engine.archive import missing
from conductorlite.engine.control import Control, refuse_parked
from conductorlite.engine.metadata import Embedded
from conductorlite.engine.turn_types import new_event, stored_pages
from conductorlite.model.decisions import EventKind, Outcome
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import ConductorliteError, Conflict, Parked
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.plan.migration import MigrationPlan, plan_between
from conductorlite.store.ports import ReadingTransaction

__all__ = ["Migrations"]

_NO_REFS: Final[Mapping[str, str]] = {}


class Migrations(Control):
    """Verbs that move executions to other definitions."""

    def migrate(
        self,
        workflow_id: str,
        to: WorkflowDef | int | None = None,
        *,
        refs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> MigrationPlan:
        """Move a running or paused execution to another definition of its workflow, and return what that does to it.

        `to` is a definition, which need not be registered, or a registered version (default: the highest). It is embedded
        as at a start: later registrations change nothing. `refs` maps references to those they are called in the new
        definition. What has ended stays; what is live must have its place in the new definition; what follows is the new
        one's. The plan is checked again in the turn that moves the execution; while another engine holds the execution's
        lock, the move waits in the inbox like any event. With `dry_run` nothing is changed, and a plan that is BLOCKED is
        returned. Raises ExecutionNotFound, DefinitionNotFound, InvalidDefinition, Conflict with the reasons when the
        plan is BLOCKED, and Parked.
        """
        # What is due comes first: it may move what the plan is about.
        self._row(workflow_id)
        if not dry_run:
            self.turns.take(workflow_id)
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                raise missing(view, workflow_id)
            target = self._target(view, row.name, to)
            plan = self._planned(view, row, target, refs or _NO_REFS)
        if dry_run:
            return plan
        if row.parked is not None:
            raise Parked(f"{workflow_id}: is parked ({row.parked}); resume it first, or terminate it")
        if plan.blocked:
            raise Conflict(f"{workflow_id}: {'; '.join(plan.reasons)}")
        self._move(row, target, refs or _NO_REFS)
        return plan

    def migrate_all(
        self,
        name: str,
        from_version: int,
        to: WorkflowDef | int | None = None,
        *,
        refs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> dict[str, MigrationPlan | str]:
        """Move every running or paused execution of a workflow's version, one after another, each as `migrate` does.

        Returns, by the execution's id, its plan, or in words why it was not moved; one that cannot be moved does not stop the
        others. Raises DefinitionNotFound and InvalidDefinition for `to`, before anything is changed.
        """
        with self.backend.reading() as view:
            self._target(view, name, to)
        found: dict[str, MigrationPlan | str] = {}
        for workflow_id in self._of_version(name, from_version):
            try:
                found[workflow_id] = self.migrate(workflow_id, to, refs=refs, dry_run=dry_run)
            except ConductorliteError as error:
                found[workflow_id] = str(error)
        return found

    def _target(self, view: ReadingTransaction, name: str, to: WorkflowDef | int | None) -> Embedded:
        return self.embedded(view, to, None) if isinstance(to, WorkflowDef) else self.embedded(view, name, to)

    def _planned(self, view: ReadingTransaction, row: Workflow, target: Embedded, refs: Mapping[str, str]) -> MigrationPlan:
        rows = [task for task in view.attempts(row.workflow_id) if not task.retried]
        cut = [event.data for event in view.inbox(row.workflow_id) if event.kind is EventKind.CONTINUE]
        texts = self.turns.texts(view, row.workflow_id, {data.digest for data in cut if data.absent})
        pending = [place for data in cut for place in pending_of(texts.get(data.digest, data).value)]
        return plan_between(row, rows, self.turns.plan(view, row), target.plan, refs, pending)

    def _move(self, row: Workflow, target: Embedded, refs: Mapping[str, str]) -> None:
        # Before the event, which may have to wait for its turn in the inbox; a text nobody refers to yet does no harm.
        new = {digest: text for digest, text in target.texts.items() if digest not in self._stored_definitions}
        if new:
            with self.backend.writing() as tx:
                for digest, text in new.items():
                    tx.embed(digest, text)
            self._stored_definitions.update(new)
        data = {"definitionHash": target.digest, "version": target.version, "refs": dict(refs)}
        event = new_event(row.workflow_id, EventKind.MIGRATE, self.clock.now(), data)
        taken = self.turns.take(row.workflow_id, [event])
        refuse_parked(row.workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is not None and reply.outcome is Outcome.CONFLICT:
            raise Conflict(f"{row.workflow_id}: {reply.message}")

    def _of_version(self, name: str, version: int) -> Iterator[str]:
        for status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED):
            found = stored_pages(self.backend, partial(_rows, status), "", lambda one: one[0])
            for one, row in chain.from_iterable(found):
                if row is not None and (row.name, row.version) == (name, version):
                    yield one


def _rows(status: WorkflowStatus, view: ReadingTransaction, after: str, size: int) -> Sequence[tuple[str, Workflow | None]]:
    return [(one, view.workflow(one)) for one in view.workflow_ids(status, after, size)]
