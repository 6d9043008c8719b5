"""Registration of definitions, and moving running executions to another definition: one, or all of a version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from conductorlite.decide.verbs import pending_of
from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.control import Control
from conductorlite.engine.loading import LoadReport, load_folder
from conductorlite.engine.registry import Embedded, registered, registered_schema
from conductorlite.engine.turn_types import messages_to, missing, stored_pages
from conductorlite.engine.turns import Turns
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import SchemaDef, TaskDef, WorkflowDef
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    Conflict,
    DefinitionNotFound,
    InvalidDefinition,
    Parked,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.plan.migration import MigrationPlan, plan_between
from conductorlite.plan.validate import validate_schema
from conductorlite.store.ports import ReadingTransaction

__all__ = ["Definitions"]

_NO_REFS: Final[Mapping[str, str]] = {}


class Definitions(Service):
    """Operations on registered definitions, and migration of executions."""

    def __init__(self, turns: Turns, config: EngineConfig, control: Control) -> None:
        super().__init__(turns, config)
        self._control = control

    def workflow(self, name: str, version: int | None = None) -> WorkflowDef:
        """Return a registered workflow definition, by default the highest version; raises DefinitionNotFound."""
        with self._backend.reading() as view:
            return WorkflowDef.from_json(registered(view, name, version))

    def task(self, name: str) -> TaskDef:
        """Return a registered task definition; raises DefinitionNotFound."""
        with self._backend.reading() as view:
            text = view.metadata.task_def(name)
        if text is None:
            raise DefinitionNotFound(f"no task definition {name!r} is registered")
        return TaskDef.from_json(text)

    def workflows(self) -> Sequence[tuple[str, int]]:
        """Return names and versions of the registered workflow definitions."""
        with self._backend.reading() as view:
            return view.metadata.workflow_defs()

    def tasks(self) -> Sequence[str]:
        """Names of the registered task definitions."""
        with self._backend.reading() as view:
            return view.metadata.task_defs()

    def unregister(self, name: str, version: int) -> None:
        """Delete a version of a registered workflow definition; executions keep theirs.

        Raises DefinitionNotFound.
        """
        with self._backend.writing() as tx:
            registered(tx, name, version)
            tx.metadata.drop_workflow_def(name, version)

    def unregister_task(self, name: str) -> None:
        """Delete a registered task definition; what runs keeps it. Raises DefinitionNotFound."""
        with self._backend.writing() as tx:
            if tx.metadata.task_def(name) is None:
                raise DefinitionNotFound(f"no task definition {name!r} is registered")
            tx.metadata.drop_task_def(name)

    def load(self, folder: str | os.PathLike[str], *, lenient: bool = False, overwrite: bool = True) -> LoadReport:
        """Register the definitions in the JSON files of a folder and its subfolders, in one write: workflows, tasks, event
        handlers, schemas.

        A file holds one definition, a list, a bundle of lists, or a request with a `workflowDef`; anything else is passed over,
        with a note. With `lenient` what a Conductor server takes is taken: the report says of each difference what happens, and
        what was refused. Otherwise all or none are registered. Raises InvalidDefinition with every error of all files (not with
        `lenient`), InvalidInput for a folder that is none, OSError for a file that cannot be read, and AlreadyExists for what is
        registered in another form when `overwrite` is False (with `lenient` it is reported, and stays as it is).
        """
        registry, environment = self._turns.lookups.registry, self._turns.lookups.environment
        return load_folder(
            self._backend, registry, environment, self._config.semantics, folder, lenient=lenient, overwrite=overwrite
        )

    def register_schema(self, *schemas: SchemaDef, overwrite: bool = True) -> None:
        """Register schemas by name and version, all or none: definitions then name them and hold no `data` of their own.

        Executions keep the schema they were started with. Raises InvalidDefinition (no name, no data, a JSON schema that is not
        sound, the extra `schema` missing), and AlreadyExists for the same name and version when `overwrite` is False.
        """
        problems = [problem for schema in schemas for problem in validate_schema(schema)]
        if problems:
            raise InvalidDefinition(problems)
        with self._backend.writing() as tx:
            for schema in schemas:
                if not overwrite and tx.metadata.schema_def(schema.name, schema.version) is not None:
                    raise AlreadyExists(f"schema {schema.name!r} version {schema.version} is registered already")
                tx.metadata.put_schema_def(schema.name, schema.version, definition_text(schema))

    def schema(self, name: str, version: int | None = None) -> SchemaDef:
        """A registered schema, the highest version by default; raises DefinitionNotFound."""
        with self._backend.reading() as view:
            return registered_schema(view, name, version)

    def schemas(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas."""
        with self._backend.reading() as view:
            return view.metadata.schema_defs()

    def migrate(
        self,
        workflow_id: str,
        to: WorkflowDef | int | None = None,
        *,
        refs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> MigrationPlan:
        """Move a running or paused execution to another definition of its workflow, and return the plan.

        `to` is a definition, which need not be registered, or a registered version (default: the highest). It is embedded
        as at a start: later registrations change nothing. `refs` maps references to those they are called in the new
        definition. What has ended stays; what is live must have its place in the new definition; what follows is the new
        one's. The plan is checked again in the turn that moves the execution; while another engine holds the execution's
        lock, the move waits in the inbox like any event. With `dry_run` nothing is changed, and a plan that is BLOCKED is
        returned. Raises ExecutionNotFound, DefinitionNotFound, InvalidDefinition, Conflict with the reasons when the
        plan is BLOCKED, and Parked.
        """
        # What is due comes first: it may move what the plan is about.
        self._control.row(workflow_id)
        if not dry_run:
            self._turns.run_turn(workflow_id)
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
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
        """Move every running or paused execution of a workflow's version, each as `migrate` does.

        Returns, by the execution's id, its plan, or in words why it was not moved; one that cannot be moved does not stop the
        others. Raises DefinitionNotFound and InvalidDefinition for `to`, before anything is changed.
        """
        with self._backend.reading() as view:
            self._target(view, name, to)
        found: dict[str, MigrationPlan | str] = {}
        for workflow_id in self._of_version(name, from_version):
            try:
                found[workflow_id] = self.migrate(workflow_id, to, refs=refs, dry_run=dry_run)
            except ConductorliteError as error:
                found[workflow_id] = str(error)
        return found

    def _target(self, view: ReadingTransaction, name: str, to: WorkflowDef | int | None) -> Embedded:
        embedded = self._turns.lookups.registry.embedded
        return embedded(view, to, None) if isinstance(to, WorkflowDef) else embedded(view, name, to)

    def _planned(self, view: ReadingTransaction, row: Workflow, target: Embedded, refs: Mapping[str, str]) -> MigrationPlan:
        rows = [task for task in view.executions.attempts(row.workflow_id) if not task.retried]
        cut = [event.data for event in view.inbox.events(row.workflow_id) if event.kind is EventKind.CONTINUE]
        texts = self._turns.lookups.texts(view, row.workflow_id, {data.digest for data in cut if data.absent})
        pending = [place for data in cut for place in pending_of(texts.get(data.digest, data).value)]
        messages = messages_to(view, row.workflow_id) if row.unreceived else ()
        return plan_between(row, rows, self._turns.lookups.plans.plan(view, row), target.plan, refs, pending, messages)

    def _move(self, row: Workflow, target: Embedded, refs: Mapping[str, str]) -> None:
        # Before the event, which may have to wait for its turn in the inbox; a text that no row refers to yet does no harm.
        new = self._turns.lookups.registry.not_stored(target)
        if new:
            with self._backend.writing() as tx:
                for digest, text in new.items():
                    tx.metadata.embed(digest, text)
            self._turns.lookups.registry.now_stored(new)
        data = {"definitionHash": target.digest, "version": target.version, "refs": dict(refs)}
        self._control.verb(row.workflow_id, EventKind.MIGRATE, data)

    def _of_version(self, name: str, version: int) -> Iterator[str]:
        for status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED):
            found = stored_pages(self._backend, partial(_rows, status), "", lambda one: one[0])
            for one, row in chain.from_iterable(found):
                if row is not None and (row.name, row.version) == (name, version):
                    yield one


def _rows(status: WorkflowStatus, view: ReadingTransaction, after: str, size: int) -> Sequence[tuple[str, Workflow | None]]:
    return [(one, view.executions.workflow(one)) for one in view.executions.workflow_ids(status, after, size)]
