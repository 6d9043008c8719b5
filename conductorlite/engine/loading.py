"""A folder of Conductor's JSON, read and registered together: workflows, tasks, event handlers, schemas.

A lenient load takes what a Conductor server takes at registration, and says of each difference what will happen; what even a server
refuses, or the engine cannot carry out, stays out and is reported. A file may hold one definition, a list of them, a bundle (lists
by name) or a request with a `workflowDef`. Which kind a document is follows from its properties.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.engine.registry import Registry
from conductorlite.model.codec import definition_text, document_of
from conductorlite.model.definitions import SchemaDef, Semantics, TaskDef, WorkflowDef
from conductorlite.model.errors import (
    AlreadyExists,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MissingExtra,
    NotFound,
    Problem,
    Severity,
)
from conductorlite.model.handlers import EventHandler
from conductorlite.model.scalars import json_names
from conductorlite.model.texts import printable
from conductorlite.plan.compile import compile_plan
from conductorlite.plan.findings import is_server_type
from conductorlite.plan.validate import checked, enforced, misshapen, validate_event_handler, validate_schema, validate_task_def
from conductorlite.store.ports import Backend, ReadingTransaction, WritingTransaction

__all__ = ["LoadFinding", "LoadReport", "LoadSeverity", "load_folder"]


class LoadSeverity(StrEnum):
    """The severity of a finding of a load, the least first."""

    #: Something to know; here and on a Conductor server the same happens.
    NOTE = "note"
    #: It came in, and something happens otherwise than one may expect, or than on a Conductor server.
    WARNING = "warning"
    #: It did not come in.
    ERROR = "error"


@attrs.frozen(kw_only=True, slots=True)
class LoadFinding:
    """One finding of a load: in which file, where in it (a JSON path), what happens, and how much it matters."""

    source: str
    path: str
    message: str
    severity: LoadSeverity

    def __str__(self) -> str:
        return f"{self.source}: {self.path}: {self.message} ({self.severity})"


@attrs.frozen(kw_only=True, slots=True)
class LoadReport:
    """The definitions, handlers and schemas that a load has registered, and its findings."""

    workflows: tuple[tuple[str, int], ...] = ()
    tasks: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    schemas: tuple[tuple[str, int], ...] = ()
    findings: tuple[LoadFinding, ...] = ()

    @property
    def severity(self) -> LoadSeverity | None:
        """The severity of the worst finding; None without findings."""
        order = list(LoadSeverity)
        return max((finding.severity for finding in self.findings), key=order.index, default=None)


#: Lists of definitions by which a bundle is known.
_BUNDLES: Final = frozenset(
    {"workflows", "workflowDefs", "tasks", "taskDefs", "eventHandlers", "handlers", "schemas", "schemaDefs"}
)
#: Properties of documents that are no bundles.
_OTHERS: Final = frozenset({"name", "workflowId", "cronExpression", "cronSchedules"})
#: Properties of a task definition that other documents have, too.
_COMMON: Final = frozenset(
    {"name", "description", "ownerEmail", "ownerApp", "createTime", "updateTime", "createdBy", "updatedBy", "accessPolicy"}
)
_SCHEMA_TYPES: Final = frozenset({"JSON", "AVRO", "PROTOBUF"})

_Key = tuple[str, int]


@attrs.frozen(kw_only=True, slots=True)
class _Found:
    """A definition, and where it was found."""

    source: str
    path: str
    definition: Any


class _Loading:
    """One load under way."""

    def __init__(
        self,
        backend: Backend,
        registry: Registry,
        environment: Iterable[str],
        semantics: Semantics,
        *,
        lenient: bool,
        overwrite: bool,
    ) -> None:
        self._backend, self._registry, self._semantics = backend, registry, semantics
        self._environment = frozenset(environment)
        self._lenient, self._overwrite = lenient, overwrite
        self.findings: list[LoadFinding] = []
        self.workflows: dict[_Key, _Found] = {}
        self.tasks: dict[str, _Found] = {}
        self.handlers: dict[str, _Found] = {}
        self.schemas: dict[_Key, _Found] = {}

    def report(self, source: str, path: str, message: str, severity: LoadSeverity) -> None:
        """Add a finding."""
        self.findings.append(LoadFinding(source=source, path=path, message=message, severity=severity))

    # ------------------------------------------------------------------ reading

    def read(self, folder: Path) -> None:
        """Read every file of a folder, in the order of their names."""
        for file in _files(folder):
            source = file.relative_to(folder).as_posix()
            try:
                document = document_of(file)
            except InvalidInput as error:
                self.report(source, "$", f"is no JSON: {printable(error, 200)}", LoadSeverity.ERROR)
                continue
            for path, one in _documents(document, "$"):
                self._read_one(source, path, one)

    def _read_one(self, source: str, path: str, document: Any) -> None:
        kind = _kind_of(document)
        if isinstance(kind, str):
            self.report(source, path, f"is {kind}, and passed over", LoadSeverity.NOTE)
            return
        try:
            definition = kind.from_json(document)
        except InvalidDefinition as error:
            self._refused(source, path, error.problems)
            return
        found = _Found(source=source, path=path, definition=definition)
        if isinstance(definition, WorkflowDef):
            self._keep(self.workflows, (definition.name, definition.version), found, self._wrong_in_workflow)
        elif isinstance(definition, TaskDef):
            self._keep(self.tasks, definition.name, found, lambda one: validate_task_def(one.definition))
        elif isinstance(definition, EventHandler):
            self._keep(self.handlers, definition.name, found, lambda one: validate_event_handler(one.definition))
        else:
            self._keep(self.schemas, (definition.name, definition.version), found, lambda one: validate_schema(one.definition))

    def _keep(self, known: dict[Any, _Found], key: Any, found: _Found, examine: Callable[[_Found], Iterable[Problem]]) -> None:
        """Keep a definition that is sound; of two with one key the later counts, as on a server that both are sent to."""
        problems = list(examine(found))
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        if errors:
            self._refused(found.source, found.path, errors)
            return
        for problem in problems:
            self.report(found.source, _below(found.path, problem.path), problem.message, LoadSeverity.NOTE)
        before = known.get(key)
        if before is not None and before.definition != found.definition:
            message = f"replaces that of {before.source}, which has the same name{' and version' if isinstance(key, tuple) else ''}"
            self.report(found.source, found.path, message, LoadSeverity.WARNING)
        known[key] = found

    def _refused(self, source: str, path: str, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if problem.severity is Severity.ERROR:
                self.report(source, _below(path, problem.path), problem.message, LoadSeverity.ERROR)

    def _wrong_in_workflow(self, found: _Found) -> list[Problem]:
        definition: WorkflowDef = found.definition
        problems = misshapen(definition)
        if problems:
            return problems
        problems, nodes = checked(definition, self._environment, lenient=self._lenient)
        if any(problem.severity is Severity.ERROR for problem in problems):
            return problems
        try:
            compile_plan(definition, self._semantics, tasks=nodes)
        except (InvalidExpression, InvalidInput, MissingExtra) as error:
            return [Problem(path="$", message=str(error))]
        # What is an error otherwise happens late; the rest is the same everywhere.
        strict = checked(definition, self._environment)[0] if self._lenient else ()
        late = {problem.path for problem in strict if problem.severity is Severity.ERROR}
        left = []
        for problem in problems:
            served = problem.path.endswith((".type", ".name")) and any(
                is_server_type(node.task.type) and problem.path.startswith(f"{node.path}.") for node in nodes
            )
            if problem.path in late or served:
                self.report(found.source, _below(found.path, problem.path), problem.message, LoadSeverity.WARNING)
            else:
                left.append(problem)
        return left

    # ------------------------------------------------------------------ registering

    def register(self) -> None:
        """Register what was kept, in one write."""
        with self._backend.reading() as view:
            if not self._overwrite:
                self._leave_registered(view)
            if self._lenient:
                self._resolve_schemas(view)
        with self._backend.writing() as tx:
            self._write(tx)
        for found in (*self.workflows.values(), *self.tasks.values(), *self.handlers.values()):
            self._registry.notice(found.definition, definition_text(found.definition), ())
        with self._backend.reading() as view:
            for (name, version), found in self.workflows.items():
                self._check_start(view, name, version, found)

    def _leave_registered(self, view: ReadingTransaction) -> None:
        """Leave out what is registered already under the same key."""
        there: tuple[tuple[dict[Any, _Found], Callable[[Any], str | None], str], ...] = (
            (self.workflows, lambda key: view.metadata.workflow_def(*key), "workflow"),
            (self.tasks, view.metadata.task_def, "task definition"),
            (self.handlers, view.event_handlers.handler, "event handler"),
            (self.schemas, lambda key: view.metadata.schema_def(*key), "schema"),
        )
        for known, text_of, what in there:
            for key, found in [*known.items()]:
                text = text_of(key)
                if text is None or text == definition_text(found.definition):
                    continue
                shown = f"{key[0]!r} version {key[1]}" if isinstance(key, tuple) else repr(key)
                message = f"{what} {shown} is registered already"
                if not self._lenient:
                    raise AlreadyExists(f"{found.source}: {message}")
                self.report(found.source, found.path, f"{message}, and stays as it is", LoadSeverity.ERROR)
                del known[key]

    def _resolve_schemas(self, view: ReadingTransaction) -> None:
        """Have no definition enforce a schema that is named and nowhere to be found, as an open-source server enforces none."""
        everywhere: tuple[dict[Any, _Found], ...] = (self.workflows, self.tasks)
        for known in everywhere:
            for key, found in known.items():
                missing = [
                    repr(schema.name)
                    for schema in (found.definition.input_schema, found.definition.output_schema)
                    if enforced(found.definition) and schema is not None and schema.data is None and not self._has(view, schema)
                ]
                if missing:
                    named = f"the schema {' and '.join(missing)} is registered nowhere"
                    message = f"{named}: nothing is checked by it (enforceSchema is set to false), as on an open-source server"
                    self.report(found.source, found.path, message, LoadSeverity.WARNING)
                    relaxed = attrs.evolve(found.definition, enforce_schema=False)
                    known[key] = attrs.evolve(found, definition=relaxed)

    def _has(self, view: ReadingTransaction, schema: SchemaDef) -> bool:
        place = (schema.name, schema.version)
        return place in self.schemas or view.metadata.schema_def(*place) is not None

    def _write(self, tx: WritingTransaction) -> None:
        for (name, version), found in self.schemas.items():
            tx.metadata.put_schema_def(name, version, definition_text(found.definition))
        for name, found in self.tasks.items():
            tx.metadata.put_task_def(name, definition_text(found.definition))
        for (name, version), found in self.workflows.items():
            tx.metadata.put_workflow_def(name, version, definition_text(found.definition))
        for name, found in self.handlers.items():
            handler: EventHandler = found.definition
            tx.event_handlers.put_event_handler(name, handler.event, handler.active, definition_text(handler))

    def _check_start(self, view: ReadingTransaction, name: str, version: int, found: _Found) -> None:
        """Say why an execution could not be started now: a workflow that it runs is missing, or runs it again."""
        try:
            self._registry.embedded(view, name, version)
        except (NotFound, InvalidDefinition, InvalidExpression, InvalidInput, MissingExtra) as error:
            problem = error.problems[0].message if isinstance(error, InvalidDefinition) else str(error)
            message = (
                f"a start is refused until this is mended: {problem}; a Conductor server fails the execution when it comes to it"
            )
            self.report(found.source, found.path, message, LoadSeverity.WARNING)


def load_folder(
    backend: Backend,
    registry: Registry,
    environment: Iterable[str],
    semantics: Semantics,
    folder: str | os.PathLike[str],
    *,
    lenient: bool,
    overwrite: bool,
) -> LoadReport:
    """Register the definitions of a folder; see `Definitions.load`."""
    place = Path(folder)
    if not place.is_dir():
        raise InvalidInput(f"{str(place)!r:.200} is no folder")
    loading = _Loading(backend, registry, environment, semantics, lenient=lenient, overwrite=overwrite)
    loading.read(place)
    errors = [finding for finding in loading.findings if finding.severity is LoadSeverity.ERROR]
    if errors and not lenient:
        raise InvalidDefinition([Problem(path=f"{one.source}: {one.path}", message=one.message) for one in errors])
    loading.register()
    return LoadReport(
        workflows=tuple(loading.workflows),
        tasks=tuple(loading.tasks),
        handlers=tuple(loading.handlers),
        schemas=tuple(loading.schemas),
        findings=tuple(loading.findings),
    )


def _files(folder: Path) -> list[Path]:
    """Every JSON file below a folder but hidden ones, in the order of their paths."""
    found = (file for file in folder.rglob("*.json") if file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(folder).parts))


def _documents(document: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The documents in a file, each with its path: entries of lists and bundles, the definition in a request."""
    pending = [(path, document)]
    while pending:
        at, one = pending.pop(0)
        if isinstance(one, list):
            pending[:0] = [(f"{at}[{index}]", entry) for index, entry in enumerate(one)]
        elif isinstance(one, dict) and _OTHERS.isdisjoint(one) and any(isinstance(one.get(key), list) for key in _BUNDLES):
            pending[:0] = [(f"{at}.{key}", one[key]) for key in one if key in _BUNDLES and isinstance(one[key], list)]
        elif isinstance(one, dict) and isinstance(one.get("workflowDef"), dict):
            pending[:0] = [(f"{at}.workflowDef", one["workflowDef"])]
        else:
            yield at, one


def _kind_of(document: Any) -> type[WorkflowDef | TaskDef | EventHandler | SchemaDef] | str:
    """The class that a document is one of; or in words what it is instead."""
    if not isinstance(document, Mapping):
        return "no definition"
    if "workflowId" in document and "status" in document:
        return "an execution"
    if "cronExpression" in document or "cronSchedules" in document:
        return "a schedule (`engine.schedules.save` takes it)"
    if isinstance(document.get("tasks"), list) and "name" in document:
        return WorkflowDef
    if "actions" in document and "event" in document:
        return EventHandler
    if "taskReferenceName" in document:
        return "a task of a workflow"
    if (
        "name" in document
        and str(document.get("type")).upper() in _SCHEMA_TYPES
        and ("data" in document or "externalRef" in document)
    ):
        return SchemaDef
    known = set(json_names(TaskDef).values())
    named = "name" in document and bool(known.intersection(document) - _COMMON or not document.keys() - _COMMON)
    return TaskDef if named else "no definition of Conductor's"


def _below(path: str, inner: str) -> str:
    """A path inside a document that is itself at a path."""
    return path + inner.removeprefix("$")
