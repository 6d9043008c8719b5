"""Definitions: registered by name and version, embedded by content hash.

An execution runs on the definition it was started with, for ever: at the start every task definition is looked up once and put
into the workflow's definition, and the whole is kept under the hash of its text. Later registrations change nothing that runs.
Which task definition counts: the one in the WorkflowTask, then the registered one, then the worker's decorator, then none
(Conductor's defaults). Source of the rule: Conductor's technical details, "Dynamic Workflow Executions".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from types import MappingProxyType
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.turn_types import Joined
from conductorlite.model.canonical import canonical
from conductorlite.model.canonical import digest as digest_of
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import Embedding
from conductorlite.model.definitions import (
    DEFINITION_HASH,
    NAMED_BY_INPUT,
    SchemaDef,
    Semantics,
    SubWorkflowParams,
    TaskDef,
    TaskType,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.model.errors import (
    AlreadyExists,
    DefinitionNotFound,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MissingExtra,
    NotFound,
    Problem,
    StorageCorrupt,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.handlers import EventHandler
from conductorlite.model.scalars import MAX_NESTING
from conductorlite.model.texts import did_you_mean
from conductorlite.model.threads import Cache
from conductorlite.plan.compile import Plan, compile_plan, known_plan
from conductorlite.plan.tree import CHOOSES, OPERATOR_TYPES, TreePosition, changed_branches, holds_tasks
from conductorlite.plan.validate import checked, enforced, misshapen, validate_task_def
from conductorlite.store.ports import Backend, ReadingTransaction

__all__ = ["Embedded", "Notice", "Plans", "Registry", "registered", "registered_schema"]

_NOTHING_MADE: Final[Mapping[str, str]] = {}

#: Definitions whose warnings wait to be logged, and those remembered to have been.
_NOTICES: Final = 1_000


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Embedded:
    """A definition as executions keep it: hash, plan, and the texts by hash, those of its sub-workflows included."""

    name: str
    version: int
    digest: str
    texts: Mapping[str, str]
    plan: Plan


#: A definition that is new to an engine, with its warnings.
Notice = tuple[WorkflowDef | TaskDef | EventHandler, tuple[Problem, ...]]


class Plans:
    """Compiles each definition once; what programs are shown of it is another object, which they may change."""

    def __init__(self) -> None:
        self._shown: Cache[str, WorkflowDef] = Cache(256)
        self._plans: Cache[tuple[str, Semantics], Plan] = Cache(256)
        self._extended: Cache[tuple[str, Semantics, tuple[str, ...]], Plan] = Cache(64)
        #: Names of the task definitions that any plan limits by a rate.
        self.rated: set[str] = set()

    def plan(self, view: ReadingTransaction, workflow: Workflow) -> Plan:
        """The compiled plan of an execution's embedded definition; raises StorageCorrupt when that is missing."""
        kept = self._plans.get((workflow.definition_hash, workflow.semantics))
        return self._plan(view, workflow, workflow.definition_hash, {}) if kept is None else kept

    def shown(self, view: ReadingTransaction, workflow: Workflow, digest: str | None = None) -> WorkflowDef:
        """An execution's definition, or of this hash one that it made at run time; raises StorageCorrupt when it is missing."""
        digest = digest or workflow.definition_hash
        shown = self._shown.get(digest)
        if shown is None:
            shown = WorkflowDef.from_json(_stored(view, workflow, digest))
            self._shown.put(digest, shown)
        return shown

    def extended(
        self, view: ReadingTransaction, workflow: Workflow, chain: tuple[str, ...], made: Mapping[str, str] = _NOTHING_MADE
    ) -> Plan:
        """The plan with the definitions of these hashes grown into it; `made` are texts that are not stored yet."""
        plan = self.kept(workflow, chain)
        if plan is None:
            inner = self._plan(view, workflow, chain[-1] if chain else workflow.definition_hash, made)
            plan = self._grafted(workflow, chain, self.extended(view, workflow, chain[:-1], made), inner) if chain else inner
        return plan

    def kept(self, workflow: Workflow, chain: tuple[str, ...]) -> Plan | None:
        """Return the plan without a look into the store, if it was asked for before, or all that it is made of."""
        if not chain:
            return self._plans.get((workflow.definition_hash, workflow.semantics))
        plan = self._extended.get((workflow.definition_hash, workflow.semantics, chain))
        if plan is None:
            inner, outer = self._plans.get((chain[-1], workflow.semantics)), self.kept(workflow, chain[:-1])
            if inner is not None and outer is not None:
                plan = self._grafted(workflow, chain, outer, inner)
        return plan

    def _grafted(self, workflow: Workflow, chain: tuple[str, ...], outer: Plan, inner: Plan) -> Plan:
        from conductorlite.plan.grafts import grafted

        plan = grafted(outer, inner.definition.tasks[0].task_reference_name, chain[-1], inner)
        self.rated.update(plan.rated)
        self._extended.put((workflow.definition_hash, workflow.semantics, chain), plan)
        return plan

    def _plan(self, view: ReadingTransaction, workflow: Workflow, digest: str, made: Mapping[str, str]) -> Plan:
        plan = self._plans.get((digest, workflow.semantics))
        if plan is None:
            text = made.get(digest) or _stored(view, workflow, digest)
            plan, _ = known_plan(text, workflow.semantics, lenient=True)
            self.know(digest, plan)
        return plan

    def know(self, digest: str, plan: Plan) -> None:
        """Keep a plan."""
        self.rated.update(plan.rated)
        self._plans.put((digest, plan.semantics), plan)


#: Texts of a definition that is stored.
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def _stored(view: ReadingTransaction, workflow: Workflow, digest: str) -> str:
    text = view.metadata.definition(digest)
    if text is None:
        raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is missing")
    if digest_of(text) != digest:
        raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is damaged")
    return text


class Registry:
    """Registers definitions, and embeds them."""

    def __init__(
        self,
        backend: Backend,
        environment: Mapping[str, str],
        semantics: Semantics,
        declared: Callable[[], Mapping[str, TaskDef]],
    ) -> None:
        self._backend = backend
        self._environment = environment
        self._semantics = semantics
        #: Task definitions of the workers' decorators, by name.
        self._declared = declared
        self.plans = Plans()
        #: Whether what is read may never be committed: nothing is remembered of it.
        self.joined = Joined()
        self._embedded: Cache[Any, Embedded] = Cache(256)
        self._stored: set[str] = set()
        #: Definitions that are new to this engine, each with its warnings, until they are logged.
        self.notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._noticed: Cache[str, bool] = Cache(_NOTICES)

    def register(self, definitions: Sequence[WorkflowDef | TaskDef], *, overwrite: bool) -> None:
        """Register definitions, all or none; raises InvalidDefinition and AlreadyExists."""
        if any(hasattr(definition, "starting") for definition in definitions):
            raise TypeError("a flow is no definition")  # the face says which argument it is
        found = [self._examined(definition) for definition in definitions]
        problems = [problem for of_one, _ in found for problem in of_one if problem.severity == "error"]
        if problems:
            raise InvalidDefinition(problems)
        for definition, (_, tasks) in zip(definitions, found, strict=True):
            if isinstance(definition, WorkflowDef):
                compile_plan(definition, self._semantics, tasks=tasks)
        with self._backend.writing() as tx:
            for definition in definitions:
                if isinstance(definition, TaskDef):
                    tx.metadata.put_task_def(definition.name, definition_text(definition))
                    continue
                if not overwrite and tx.metadata.workflow_def(definition.name, definition.version) is not None:
                    raise AlreadyExists(f"workflow {definition.name!r} version {definition.version} is registered already")
                tx.metadata.put_workflow_def(definition.name, definition.version, definition_text(definition))
        for definition, (warnings, _) in zip(definitions, found, strict=True):
            self.notice(definition, definition_text(definition), warnings)

    def ensure(self, definitions: Sequence[WorkflowDef]) -> None:
        """Register those definitions that are not registered as they are; raises as `register` does."""
        with self._backend.reading() as view:
            new = [one for one in definitions if view.metadata.workflow_def(one.name, one.version) != definition_text(one)]
        if new:
            self.register(new, overwrite=True)

    def _examined(self, definition: WorkflowDef | TaskDef) -> tuple[list[Problem], Sequence[TreePosition]]:
        if isinstance(definition, TaskDef):
            return validate_task_def(definition), ()
        problems = misshapen(definition)
        return (problems, ()) if problems else checked(definition, self._environment)

    def notice(self, definition: WorkflowDef | TaskDef | EventHandler, text: str, found: Sequence[Problem]) -> None:
        """Keep the warnings about a definition until they can be logged: each text once."""
        if self._noticed.get(text) is None:
            self._noticed.put(text, True)
            self.notices.append((definition, tuple(problem for problem in found if problem.severity != "error")))

    # ------------------------------------------------------------------ embedding

    def not_stored(self, embedded: Embedded) -> Mapping[str, str]:
        """The texts of a definition that the store may not have yet, by hash; see `now_stored`."""
        if self._stored.issuperset(embedded.texts):
            return _NONE
        return {digest: text for digest, text in embedded.texts.items() if digest not in self._stored}

    def now_stored(self, texts: Iterable[str]) -> None:
        """Texts of these hashes have been committed."""
        if self.joined.decisions is None:
            self._stored.update(texts)

    def embedded(
        self, view: ReadingTransaction, wanted: WorkflowDef | str, version: int | None, text: str | None = None
    ) -> Embedded:
        """The definition as a new execution keeps it; `text` is its own. Raises DefinitionNotFound, InvalidDefinition."""
        if not isinstance(wanted, WorkflowDef):
            text = registered(view, wanted, version)
        elif text is None:
            text = definition_text(wanted)
        key = (text, view.metadata.registry_version(), self._semantics)
        known = self._embedded.get(key)
        if known is None:
            written = wanted if isinstance(wanted, WorkflowDef) else None
            named = written is None
            # What is registered has been let in: it may have been by another version of this library, or by another engine.
            plan, found = known_plan(text, self._semantics, None if named else self._environment, written=written, lenient=named)
            known = self._embed(view, plan, self._semantics, text=None if named else text, named=named)
            self.notice(plan.definition, text, found)
            self._remember(key, known)
        return known

    def _remember(self, key: Any, known: Embedded) -> None:
        if self.joined.decisions is None:
            self._embedded.put(key, known)

    def resolve(self, view: ReadingTransaction, name: str, version: int | None) -> tuple[str, Mapping[str, str]]:
        """Hash of a registered definition and the texts to keep with it; raises as `embedded` does."""
        found = self.embedded(view, name, version)
        return found.digest, found.texts

    def embed(self, view: ReadingTransaction, definition: object, semantics: Semantics) -> Embedding:
        """A definition made at run time as an execution keeps it, or what is wrong with it."""
        try:
            if not isinstance(definition, WorkflowDef):
                # A text is a value here, not a document.
                source = definition if isinstance(definition, dict) else canonical(definition)
                definition = WorkflowDef.from_json(source)
            text = definition_text(definition)
            key = (text, view.metadata.registry_version(), semantics)
            known = self._embedded.get(key)
            if known is None:
                known = self._embed(view, known_plan(text, semantics)[0], semantics, text=text)
                self._remember(key, known)
        except (NotFound, InvalidDefinition, InvalidExpression, InvalidInput, MissingExtra) as error:
            return Embedding(problem=str(error))
        return Embedding(digest=known.digest, texts=known.texts)

    def _embed(
        self,
        view: ReadingTransaction,
        plan: Plan,
        semantics: Semantics,
        chain: tuple[str, ...] = (),
        text: str | None = None,
        *,
        named: bool = False,
        chosen: bool = False,
    ) -> Embedded:
        """A definition with all it needs inside; `text` is its own, if it is known already, `named`: it is a registered one.

        `chosen`: it, or one around it, is called in a case of a SWITCH only.
        """
        definition = plan.definition
        label = f"{definition.name}.{definition.version}{'' if named else ' (inline)'}"
        if named and label in chain:  # what is written into another has an end
            raise InvalidDefinition([Problem(path="$", message=f"sub-workflows in a circle: {' → '.join((*chain, label))}")])
        if len(chain) >= MAX_NESTING:
            raise InvalidDefinition([Problem(path="$", message=f"sub-workflows nested deeper than {MAX_NESTING}")])
        embedding = _Embedding(view, semantics, (*chain, label), self._declared(), chosen)
        tasks = self._with_task_defs(embedding, definition.tasks)
        whole = _with_schemas(view, definition if tasks is definition.tasks else attrs.evolve(definition, tasks=tasks))
        if text is None or whole is not definition:
            text = definition_text(whole)
            plan, _ = known_plan(text, semantics, lenient=True)
        hashed = digest_of(text)
        self.plans.know(hashed, plan)
        texts = {**embedding.texts, hashed: text}
        return Embedded(name=whole.name, version=whole.version, digest=hashed, texts=texts, plan=plan)

    def _with_task_defs(self, into: _Embedding, tasks: Sequence[WorkflowTask]) -> Sequence[WorkflowTask]:
        """Return the tree with a task definition in every task that has one: these very tasks if none has.

        Depth is bounded by the validator.
        """
        found = tuple([self._with_task_def(into, task) for task in tasks]) if tasks else ()
        return found if any(map(is_not, found, tasks)) else tasks

    def _with_task_def(self, into: _Embedding, task: WorkflowTask) -> WorkflowTask:
        given = task.task_definition or self._task_def_of(into, task)
        if given is None and task.sub_workflow_param is None and task.compensate is None and not holds_tasks(task):
            return task
        fields: dict[str, Any] = {
            "task_definition": _with_schemas(into.view, given),
            "sub_workflow_param": self._pinned(into, task),
        }
        inner = attrs.evolve(into, chosen=True) if task.type in CHOOSES else into
        fields |= changed_branches(task, lambda tasks: self._with_task_defs(inner, tasks))
        if task.compensation is not None:
            fields["compensate"] = self._with_task_def(into, task.compensation)
        changed = {name: value for name, value in fields.items() if value is not getattr(task, name)}
        return attrs.evolve(task, **changed) if changed else task

    def _pinned(self, into: _Embedding, task: WorkflowTask) -> SubWorkflowParams | None:
        """The parameters of a SUB_WORKFLOW with its version and the hash of its definition: what it is now, it stays."""
        params = task.sub_workflow_param
        if task.type != TaskType.SUB_WORKFLOW or params is None:
            return params
        inline = params.workflow_definition
        if isinstance(inline, str) or (inline is None and "${" in (params.name or "")) or NAMED_BY_INPUT in params.extra:
            return params  # known when it is scheduled
        named = inline is None
        if named and into.chosen and f"{params.name}.{params.version}" in into.chain:
            return params  # a recursion that a case ends: known when it is scheduled
        if inline is None:
            # Version 0 is the highest, as in Conductor's SubWorkflow.
            text = registered(into.view, params.name or "", params.version or None)
        else:
            text = definition_text(inline)
        child = self._embed(
            into.view,
            known_plan(text, into.semantics, lenient=True)[0],
            into.semantics,
            into.chain,
            named=named,
            chosen=into.chosen,
        )
        into.texts.update(child.texts)
        return attrs.evolve(params, name=child.name, version=child.version, extra={**params.extra, DEFINITION_HASH: child.digest})

    def _task_def_of(self, into: _Embedding, task: WorkflowTask) -> TaskDef | None:
        if task.type == TaskType.DYNAMIC:
            return None  # the name is a placeholder; that of what it turns out to be counts
        if task.name not in into.registered:
            text = into.view.metadata.task_def(task.name)
            into.registered[task.name] = None if text is None else TaskDef.from_json(text)
        registered = into.registered[task.name]
        if registered is not None or task.type in OPERATOR_TYPES:
            return registered
        return into.declared.get(task.name)


@attrs.frozen(slots=True, repr=False)
class _Embedding:
    """The state of the embedding of a definition and those below it."""

    view: ReadingTransaction
    semantics: Semantics
    #: Name and version of the definition and of those around it.
    chain: tuple[str, ...]
    #: Task definitions of the workers' decorators, by name.
    declared: Mapping[str, TaskDef]
    #: Whether what is embedded is called in a case of a SWITCH only.
    chosen: bool = False
    #: The definitions of sub-workflows.
    texts: dict[str, str] = attrs.field(factory=dict)
    #: Registered task definitions by name, each read once; None where there is none.
    registered: dict[str, TaskDef | None] = attrs.field(factory=dict)


D = TypeVar("D", WorkflowDef, TaskDef, TaskDef | None)


def _with_schemas(view: ReadingTransaction, definition: D) -> D:
    """The definition with the schemas that it enforces and only names put in; raises DefinitionNotFound."""
    if definition is None or not enforced(definition):
        return definition
    found: dict[str, SchemaDef] = {}
    for side in ("input_schema", "output_schema"):
        schema: SchemaDef | None = getattr(definition, side)
        if schema is not None and schema.data is None and schema.type.upper() == "JSON":
            data = registered_schema(view, schema.name, schema.version).data
            found[side] = attrs.evolve(schema, data=data)
    return attrs.evolve(definition, **found) if found else definition  # type: ignore[arg-type]


def registered_schema(view: ReadingTransaction, name: str, version: int | None) -> SchemaDef:
    """A registered schema, the highest version by default; raises DefinitionNotFound."""
    text = view.metadata.schema_def(name, version)
    if text is None:
        raise DefinitionNotFound(f"no schema {name!r}{'' if version is None else f' version {version}'} is registered")
    return SchemaDef.from_json(text)


def registered(view: ReadingTransaction, name: str, version: int | None) -> str:
    """The text of a registered definition, the highest version by default; raises DefinitionNotFound."""
    text = view.metadata.workflow_def(name, version)
    if text is None:
        known = view.metadata.workflow_defs()
        if any(one == name for one, _ in known):
            versions = ", ".join(str(number) for one, number in known if one == name)
            raise DefinitionNotFound(f"no workflow {name!r} version {version} is registered; there is version {versions}")
        which = f"workflow {name!r}" if version is None else f"workflow {name!r} version {version}"
        said = did_you_mean(name, sorted({one for one, _ in known}))
        raise DefinitionNotFound(f"no {which} is registered{said}")
    return text
