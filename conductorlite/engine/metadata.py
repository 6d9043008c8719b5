"""Definitions: registered by name and version, embedded by content hash.

An execution runs on the definition it was started with, for ever: at the start every task definition is looked up once and put
into the workflow's definition, and the whole is kept under the hash of its text. Later registrations change nothing that runs.
Which task definition counts: the one in the WorkflowTask, then the registered one, then the worker's decorator, then none
(Conductor's defaults). Source of the rule: Conductor's technical details, "Dynamic Workflow Executions".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from conductorlite import codec
from conductorlite.canonical import digest
from conductorlite.definitions import Semantics, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.engine.core import Core
from conductorlite.errors import AlreadyExists, DefinitionNotFound, InvalidDefinition
from conductorlite.plan import OPERATOR_TYPES, Plan, compile_plan, validate, validate_task_def
from conductorlite.ports import MetadataReads

__all__ = ["Embedded", "Metadata"]


@attrs.frozen(kw_only=True, slots=True)
class Embedded:
    """A definition as executions keep it: text, hash and plan."""

    name: str
    version: int
    digest: str
    text: str
    plan: Plan


class Metadata(Core):
    """Verbs on definitions."""

    def register(
        self, *definitions: WorkflowDef | TaskDef, overwrite: bool = True
    ) -> None:
        """Register workflow and task definitions, all or none.

        Raises InvalidDefinition with every error of all of them, and AlreadyExists for a workflow of the same name and version
        when `overwrite` is False. Warnings are on `conductorlite.validate`.
        """
        problems = []
        for definition in definitions:
            found = validate_task_def(definition) if isinstance(definition, TaskDef) else validate(definition)
            problems += [problem for problem in found if problem.severity == "error"]
        if problems:
            raise InvalidDefinition(problems)
        for definition in definitions:
            if isinstance(definition, WorkflowDef):
                compile_plan(definition, self.semantics)
        with self.backend.writing() as tx:
            for definition in definitions:
                if isinstance(definition, TaskDef):
                    tx.put_task_def(definition.name, codec.definition_text(definition))
                    continue
                if not overwrite and tx.workflow_def(definition.name, definition.version) is not None:
                    raise AlreadyExists(f"workflow {definition.name!r} version {definition.version} is registered already")
                tx.put_workflow_def(definition.name, definition.version, codec.definition_text(definition))

    def workflow_def(self, name: str, version: int | None = None) -> WorkflowDef:
        """A registered workflow definition, the highest version by default; raises DefinitionNotFound."""
        with self.backend.reading() as view:
            return codec.workflow_def_from_json(_registered(view, name, version))

    def task_def(self, name: str) -> TaskDef:
        """A registered task definition; raises DefinitionNotFound."""
        with self.backend.reading() as view:
            text = view.task_def(name)
        if text is None:
            raise DefinitionNotFound(f"no task definition {name!r} is registered")
        return codec.task_def_from_json(text)

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered workflow definitions."""
        with self.backend.reading() as view:
            return view.workflow_defs()

    def task_defs(self) -> Sequence[str]:
        """Names of the registered task definitions."""
        with self.backend.reading() as view:
            return view.task_defs()

    # ------------------------------------------------------------------ embedding

    def embedded(self, view: MetadataReads, wanted: WorkflowDef | str, version: int | None) -> Embedded:
        """The definition as a new execution keeps it; raises DefinitionNotFound, InvalidDefinition."""
        text = codec.definition_text(wanted) if isinstance(wanted, WorkflowDef) else _registered(view, wanted, version)
        key = (text, view.registry_version(), self.semantics)
        known = self._embedded.get(key)
        if known is None:
            definition = wanted if isinstance(wanted, WorkflowDef) else codec.workflow_def_from_json(text)
            known = self._embed(view, definition, self.semantics)
            self._embedded.put(key, known)
        return known

    def _embed(self, view: MetadataReads, definition: WorkflowDef, semantics: Semantics) -> Embedded:
        errors = [problem for problem in validate(definition) if problem.severity == "error"]
        if errors:
            raise InvalidDefinition(errors)
        whole = attrs.evolve(definition, tasks=self._with_task_defs(view, definition.tasks))
        plan = compile_plan(whole, semantics)
        text = codec.definition_text(whole)
        hashed = digest(text)
        self.turns.know(hashed, plan)
        return Embedded(name=whole.name, version=whole.version, digest=hashed, text=text, plan=plan)

    def _with_task_defs(self, view: MetadataReads, tasks: Iterable[WorkflowTask]) -> tuple[WorkflowTask, ...]:
        """The same tree with a task definition in every task that has one. Depth is bounded by the validator."""
        return tuple(
            attrs.evolve(
                task,
                task_definition=task.task_definition or self._task_def_of(view, task),
                decision_cases={case: self._with_task_defs(view, inner) for case, inner in task.decision_cases.items()},
                default_case=self._with_task_defs(view, task.default_case),
                fork_tasks=tuple(self._with_task_defs(view, branch) for branch in task.fork_tasks),
                loop_over=self._with_task_defs(view, task.loop_over),
            )
            for task in tasks
        )

    def _task_def_of(self, view: MetadataReads, task: WorkflowTask) -> TaskDef | None:
        text = view.task_def(task.name)
        if text is not None:
            return codec.task_def_from_json(text)
        return None if task.type in OPERATOR_TYPES else self.declared_task_defs.get(task.name)


def _registered(view: MetadataReads, name: str, version: int | None) -> str:
    text = view.workflow_def(name, version)
    if text is None:
        which = f"workflow {name!r}" if version is None else f"workflow {name!r} version {version}"
        raise DefinitionNotFound(f"no {which} is registered")
    return text
