"""Checks of what is allowed and cannot be meant, along the paths of a definition: more than `validate` says of each place.

What a worker takes and gives is known from its annotations, as a `Contract`; what a workflow in a workflow gives, from its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from conductorlite.language.durations import parse_duration
from conductorlite.language.jsonpath import Reads
from conductorlite.language.templates import compile_template
from conductorlite.model.definitions import (
    Semantics,
    TaskDef,
    TaskType,
    TimeoutPolicy,
    WorkflowDef,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)
from conductorlite.model.errors import InvalidExpression, InvalidInput, Problem
from conductorlite.model.later import pattern
from conductorlite.model.policies import retry_delay, task_policy
from conductorlite.model.scalars import DurationMs, is_of, json_names, step_path
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.expressions import check_portable_expression
from conductorlite.plan.findings import Findings, Scope, conditional_on, is_expression
from conductorlite.plan.references import templates_of, texts_of
from conductorlite.plan.tree import CHOOSES, OPERATOR_TYPES, Branch, TreePosition, branches, is_expressed, merges_template, walk
from conductorlite.plan.validate import validate

__all__ = ["Contract", "lint"]

#: What reads a value that was given: it raises InvalidInput for one that does not fit.
Reader = Callable[[Any, str], Any]


@attrs.frozen(kw_only=True, slots=True)
class Contract:
    """Input and output of what carries out tasks of one type, as far as they are known."""

    #: Inputs by name; None: any.
    takes: Collection[str] | None = None
    required: Collection[str] = ()
    readers: Mapping[str, Reader] = attrs.field(factory=dict)
    #: Fields of the output; None: any.
    gives: Collection[str] | None = None
    #: Fields that have one of a few values, as a SWITCH sees them.
    choices: Mapping[str, Collection[str]] = attrs.field(factory=dict)
    task_def: TaskDef | None = None


_NOTHING: Final = Contract()

_CONSOLE: Final = pattern(r"(?<![\w$.])console\s*[.?\[]")


def lint(
    definition: WorkflowDef,
    *,
    contracts: Mapping[str, Contract] | None = None,
    others: Mapping[str, WorkflowDef] | None = None,
    conductor: bool = False,
) -> list[Problem]:
    """All problems of a definition that `validate` finds, and those that only show along its paths.

    `contracts` are those of the workers, by task type; `others` are the workflows that it may run by name. With `conductor` what a
    Conductor server would silently ignore is an error, and a warning says what of an expression of Python it answers otherwise.
    Raises nothing.
    """
    known, workflows = contracts or {}, {**(others or {}), definition.name: definition}

    def further(scope: Scope, findings: Findings) -> None:
        _Linting(scope, findings, known, workflows, definition.name).all()
        if conductor:
            _check_conductor(scope, findings)

    return validate(definition, served=None if contracts is None else [*contracts], further=further)


class _Linting:
    """One definition under check, with what is known of the workers and of other workflows."""

    def __init__(
        self,
        scope: Scope,
        findings: Findings,
        contracts: Mapping[str, Contract],
        workflows: Mapping[str, WorkflowDef],
        outermost: str,
    ) -> None:
        self._scope = scope
        self._findings = findings
        self._contracts = contracts
        self._workflows = workflows
        self._outermost = outermost

    def all(self) -> None:
        """Every check."""
        self._check_reads()
        self._check_conditional()
        for node in self._scope.nodes:
            self._check_arguments(node)
            self._check_cases(node)
            self._check_spans(node)
        for path, tasks in self._lists():
            self._check_end(path, tasks)
        self._check_cycle()

    def _contract(self, task: WorkflowTask) -> Contract:
        """Return what is known of who carries out a task."""
        if task.type in (TaskType.SIMPLE, ""):
            found = self._contracts.get(task.name, _NOTHING)
        elif task.type == TaskType.SUB_WORKFLOW:
            found = self._of_workflow(task)
        else:
            found = Contract(gives=_GIVES.get(task.type))
        definition = task.task_definition or found.task_def
        schema = None if definition is None or definition.output_schema is None else definition.output_schema.data
        if found.gives is None and schema is not None and schema.get("additionalProperties") is False:
            found = attrs.evolve(found, gives=tuple(schema.get("properties", ())))
        return attrs.evolve(found, task_def=definition)

    def _of_workflow(self, task: WorkflowTask) -> Contract:
        params = task.sub_workflow_param
        inner = None if params is None else params.workflow_definition or self._workflows.get(params.name or "")
        if not isinstance(inner, WorkflowDef) or any(node.task.type == TaskType.TERMINATE for node in walk(inner)):
            return _NOTHING
        # Without outputParameters the output is that of the last task.
        return Contract(gives=(*inner.output_parameters, "subWorkflowId") if inner.output_parameters else None)

    # ------------------------------------------------------------------ what is read

    def _check_reads(self) -> None:
        defn = self._scope.defn
        inputs = {*defn.input_parameters, *defn.input_template}
        for node, at, reads in self._reads():
            for root, member, key in sorted(reads.steps, key=str):
                target = self._scope.by_ref.get(root)
                if target is not None and member == "output" and key is not None:
                    self._check_field(target, key, at)
                if target is not None and node is not None and self._beside(node, target):
                    message = f"${{{root}…}} is read in another branch of the fork than its own, which may not have come so far"
                    self._findings.warn(at, message)
                undeclared = root == "workflow" and member == "input" and key is not None and inputs and key not in inputs
                if undeclared and not did_you_mean(str(key), inputs):  # which has been said
                    self._findings.warn(at, f"${{workflow.input.{key}…}} is not among its inputParameters; it may be null")

    def _beside(self, reader: TreePosition, target: TreePosition) -> bool:
        """Return True if a step is in another branch of a fork, of which nothing in the reader's branch waits for it."""
        if not set(reader.loops).isdisjoint(target.loops) or reader.compensates is not None:
            return False  # an earlier round has been there; an undo comes when all is over
        pairs = zip(reader.around, target.around, strict=False)
        mine, other = next(((mine, other) for mine, other in pairs if mine != other), (None, None))
        if mine is None or other is None or mine.ref != other.ref or not mine.kind == other.kind == "branch":
            return False
        joins = (node for node in self._scope.nodes if mine in node.around)
        return not any(target.ref in (*node.task.join_on, *node.task.default_exclusive_join_task) for node in joins)

    def _check_field(self, target: TreePosition, key: str, at: str) -> None:
        contract = self._contract(target.task)
        gives = contract.gives
        declared = () if contract.task_def is None or target.task.type in OPERATOR_TYPES else contract.task_def.output_keys
        if gives is None and declared and key not in declared:
            hint = did_you_mean(key, declared) or f": {', '.join(sorted(declared))}"
            self._findings.warn(at, f"${{{target.ref}.output.{key}…}} is not among the outputKeys of {target.task.name!r}{hint}")
        if gives is not None and key not in gives:
            hint = did_you_mean(key, gives) or f"; it gives {', '.join(sorted(gives)) or 'nothing'}"
            self._findings.warn(at, f"${{{target.ref}.output.{key}…}}: {target.task.name!r} gives no {key!r}{hint}")

    def _reads(self) -> Iterator[tuple[TreePosition | None, str, Reads]]:
        places: list[tuple[TreePosition | None, Any, str]] = [
            (node, value, at) for node in self._scope.nodes for value, at in templates_of(node)
        ]
        for node, value, at in [*places, (None, self._scope.defn.output_parameters, f"{self._scope.path}.outputParameters")]:
            for text, where in texts_of(value, at):
                reads = _reads_of(text)
                if reads is not None:
                    yield node, where, reads

    # ------------------------------------------------------------------ what runs in one case only

    def _check_conditional(self) -> None:
        """Check what a task reads of one that runs in some cases of a switch only, where nothing says that null will do."""
        reads: dict[str, tuple[TreePosition, list[tuple[str, TreePosition]]]] = {}
        for node, at, found in self._reads():
            if node is None or node.compensates is not None or node.task.type in CHOOSES:
                continue
            targets = (self._scope.by_ref.get(root) for root in sorted(found.names))
            _, places = reads.setdefault(node.path, (node, []))
            places += [(at, target) for target in targets if target is not None and target.compensates is None]
        for node, places in reads.values():
            reported: set[tuple[str, str]] = set()
            for at, target in places:
                chosen = [] if (at, target.ref) in reported or self._takes_null(node, at) else self._chosen(node, target)
                reported.add((at, target.ref))
                if chosen and not any(_alternatives(chosen, other) for _, other in places):
                    cases = " and ".join(_taken(branch) for branch in chosen)
                    self._findings.warn(at, f"${{{target.ref}…}} is null unless {cases}")

    def _takes_null(self, node: TreePosition, at: str) -> bool:
        """Return True if null is known to do in a place, is replaced there, or is reported by the check of arguments."""
        inputs = f"{node.path}.inputParameters"
        contract = self._contract(node.task)
        template = contract.task_def.input_template if contract.task_def is not None and merges_template(node.task) else {}
        known = [*contract.readers, *(name for name, value in template.items() if value is not None)]
        places = [step_path(inputs, name) for name in known]
        return any(at == place or at.startswith((f"{place}.", f"{place}[")) for place in places)

    def _chosen(self, reader: TreePosition, target: TreePosition) -> list[Branch]:
        """The cases that must have been taken for a task to have run, and that nothing around the reader shows to have been."""
        mine = reader.around
        found = [branch for branch in target.around if branch.kind in ("case", "default") and branch not in mine]
        if _alternatives(found, reader):
            return []  # reported as another case of the same switch
        return [branch for branch in found if not self._only_way(branch) and not self._same_choice(branch, mine)]

    def _only_way(self, branch: Branch) -> bool:
        """Return True if the execution ends in every other case."""
        task = self._scope.by_ref[branch.ref].task
        others = [tasks for key, tasks in task.decision_cases.items() if (branch.kind, branch.key) != ("case", key)]
        others += [] if branch.kind == "default" else [task.default_case]
        return all(any(map(_ends, tasks)) for tasks in others)

    def _same_choice(self, branch: Branch, mine: Sequence[Branch]) -> bool:
        """Return True if the reader is in a case of the same key, of another switch on the same value."""
        value = _decides_by(self._scope.by_ref[branch.ref].task)
        return value is not None and any(
            other.kind == branch.kind == "case"
            and other.key == branch.key
            and _decides_by(self._scope.by_ref[other.ref].task) == value
            for other in mine
        )

    # ------------------------------------------------------------------ what is given

    def _check_arguments(self, node: TreePosition) -> None:
        task = node.task
        if task.type not in (TaskType.SIMPLE, "") or task.name not in self._contracts or node.compensates is not None:
            return
        contract = self._contract(task)
        template = {} if contract.task_def is None else contract.task_def.input_template
        given = {**template, **task.input_parameters}
        path = f"{node.path}.inputParameters"
        free = [name for name in contract.takes or () if name not in given]
        hints = {} if contract.takes is None else {name: did_you_mean(name, free) for name in given if name not in contract.takes}
        for name in contract.required:
            if name not in given and not any(repr(name) in hint for hint in hints.values()):
                self._findings.warn(path, f"{task.name!r} needs {name!r}")
        for name, value in given.items():
            if hints.get(name):  # what is given beside is ignored
                self._findings.warn(step_path(path, name), f"{task.name!r} takes no {name!r}{hints[name]}")
            if name in contract.readers:
                self._check_value(node, name, value, contract.readers[name])

    def _check_value(self, node: TreePosition, name: str, value: Any, read: Reader) -> None:
        """A value that is known does not fit, or one that may be null goes where null does not."""
        at = step_path(f"{node.path}.inputParameters", name)
        if not _has_expression(value):
            problem = _refused(read, value, name)
            if problem is not None:
                self._findings.warn(at, f"{node.task.name!r}: {problem}")
            return
        reads = _reads_alone(value)
        if reads is None or _refused(read, None, name) is None:
            return
        for root, member, _ in reads.steps:
            target = self._scope.by_ref.get(root)
            switch = None if target is None or member != "output" else conditional_on(node, target)
            if switch is not None:
                message = f"is null where {root!r} has not run, which is in one case of {switch!r} only"
                self._findings.warn(at, f"{message}; {node.task.name!r} takes no null for {name!r}")

    # ------------------------------------------------------------------ what is never reached

    def _lists(self) -> Iterator[tuple[str, Sequence[WorkflowTask]]]:
        yield f"{self._scope.path}.tasks", self._scope.defn.tasks
        for node in self._scope.nodes:
            for _, below, tasks in branches(node.task):
                yield node.path + below, tasks

    def _check_end(self, path: str, tasks: Sequence[WorkflowTask]) -> None:
        for at, task in enumerate(tasks[:-1]):
            if _ends(task):
                self._findings.warn(f"{path}[{at + 1}]", f"is never reached: {task.task_reference_name!r} ends the execution")
                return

    def _check_cases(self, node: TreePosition) -> None:
        task = node.task
        if task.type not in (TaskType.SWITCH, TaskType.DECISION):
            return
        name = task.expression if task.type == TaskType.SWITCH and task.evaluator_type == "value-param" else task.case_value_param
        value = task.input_parameters.get(name) if name else None
        possible = None if value is None else self._possible(value)
        for key in task.decision_cases:
            if possible is not None and key not in possible:
                hint = did_you_mean(key, possible) or f": the value is {' or '.join(map(repr, sorted(possible)))}"
                self._findings.warn(step_path(f"{node.path}.decisionCases", key), f"is never taken{hint}")

    def _possible(self, value: Any) -> Collection[str] | None:
        """The cases that a value may choose; None where it may be anything."""
        if not _has_expression(value):
            return {str(value).lower() if isinstance(value, bool) else str(value)}
        reads = _reads_alone(value)
        if reads is None or len(reads.members) != 1:
            return None
        [(root, member)] = reads.members
        target = self._scope.by_ref.get(root)
        if target is None:
            return None
        if value == f"${{{root}.status}}" and member == "status":
            return [str(status) for status in TaskStatus]
        choices = self._contract(target.task).choices
        return next((kinds for key, kinds in choices.items() if value == f"${{{root}.output.{key}}}"), None)

    # ------------------------------------------------------------------ time

    def _check_spans(self, node: TreePosition) -> None:
        defn, task = self._scope.defn, node.task
        own, names = task.task_definition, json_names(TaskDef)
        if own is not None and own.timeout_policy != TimeoutPolicy.ALERT_ONLY:
            for shorter, longer in (("timeout_ms", "response_timeout_ms"), ("total_timeout_ms", "timeout_ms")):
                if 0 < (getattr(own, shorter) or 0) < (getattr(own, longer) or 0):
                    message = f"is longer than {names[shorter]}, which always comes first"
                    self._findings.warn(f"{node.path}.taskDefinition.{names[longer]}", message)
        if defn.timeout_ms <= 0 or defn.timeout_policy == WorkflowTimeoutPolicy.ALERT_ONLY:
            return
        limit = f"longer than the workflow's timeout of {_seconds(defn.timeout_ms)}"
        duration = task.input_parameters.get("duration")
        if task.type == TaskType.WAIT and isinstance(duration, str) and not is_expression(duration):
            with suppress(InvalidExpression):  # reported by the check of the task
                if parse_duration(duration) > defn.timeout_ms:
                    self._findings.warn(f"{node.path}.inputParameters.duration", f"is {limit}")
        definition = self._contract(task).task_def
        if definition is None:
            return
        where = node.path if task.task_definition is None else f"{node.path}.taskDefinition"
        for field in ("timeout_ms", "total_timeout_ms"):
            if (getattr(definition, field) or 0) > defn.timeout_ms:
                self._findings.warn(f"{where}.{names[field]}", f"is {limit}")
        if definition.retry_count is None and task.retry_count is None:
            return
        policy = task_policy(attrs.evolve(task, task_definition=definition), Semantics.ORKES, operator=False)
        waits = sum(retry_delay(policy, retry, Semantics.ORKES) for retry in range(min(policy.retry_count, 1_000)))
        if waits > defn.timeout_ms:
            message = f"the {policy.retry_count} retries wait for {_seconds(waits)} in all, {limit}"
            self._findings.warn(f"{where}.retryCount", message)

    # ------------------------------------------------------------------ workflows that run each other

    def _check_cycle(self) -> None:
        """A definition that runs itself on every path, or others that run each other, never ends."""
        name = self._scope.defn.name
        for node in self._scope.nodes:
            params = node.task.sub_workflow_param
            holds = params is not None and params.workflow_definition is not None
            for called in _always_runs(node):
                trail = self._trail([name, called])
                # Those of others are reported where the name is written, which an inline definition is looked at for by itself.
                if trail is None or (trail[-1] != name and (holds or self._outermost in trail[1:])):
                    continue
                again = "itself" if trail[-1] == name else f"{trail[-1]!r}, which runs itself"
                self._findings.error(f"{node.path}.subWorkflowParam.name", f"runs {again} without end: {' → '.join(trail)}")
                break

    def _trail(self, start: list[str]) -> list[str] | None:
        """The way from a definition to one that is on it already."""
        waiting, seen = [start], set[str]()
        for trail in waiting:
            if trail[-1] in trail[:-1]:
                return trail
            other = self._workflows.get(trail[-1])
            if other is None or trail[-1] in seen:
                continue
            seen.add(trail[-1])
            waiting += [[*trail, inner] for node in walk(other) for inner in _always_runs(node)]
        return None


def _always_runs(node: TreePosition) -> Iterator[str]:
    """The workflows that a task runs by name, whatever happens before; of an inline definition those that it always runs."""
    pending = [node]
    while pending:
        place = pending.pop(0)
        params = place.task.sub_workflow_param
        chosen = place.compensates is not None or any(branch.kind in ("case", "default", "compensation") for branch in place.around)
        if place.task.type != TaskType.SUB_WORKFLOW or params is None or chosen:
            continue
        inline = params.workflow_definition
        if isinstance(inline, WorkflowDef):
            pending += walk(inline)
        elif inline is None and params.name and not is_expression(params.name):
            yield params.name


def _alternatives(chosen: Sequence[Branch], other: TreePosition) -> bool:
    """Return True if a task is in another case of a switch that is chosen by: one of both has run."""
    return any(mine.ref == its.ref and mine != its and mine.excludes(its) for mine in chosen for its in other.around)


def _taken(branch: Branch) -> str:
    return f"{branch.ref!r} takes its default" if branch.kind == "default" else f"{branch.ref!r} takes the case {branch.key!r}"


def _decides_by(task: WorkflowTask) -> Any:
    """The value or the script by which a task chooses; None where that cannot be compared."""
    script = task.expression if task.evaluator_type not in (None, "value-param") else task.case_expression
    if script:
        return script, dict(task.input_parameters)
    name = task.expression if task.type == TaskType.SWITCH else task.case_value_param
    return task.input_parameters.get(name) if name else None


#: What built-in types put out.
_GIVES: Final[Mapping[str, Collection[str]]] = {
    TaskType.INLINE: ("result", "error"),
    TaskType.LAMBDA: ("result", "error"),
    TaskType.START_WORKFLOW: ("workflowId",),
}


def _ends(task: WorkflowTask) -> bool:
    """Return True if nothing comes after a task: a TERMINATE, or a choice of which every case ends so."""
    if task.type == TaskType.TERMINATE:
        return True
    if task.type not in (TaskType.SWITCH, TaskType.DECISION) or not task.default_case or task.optional:
        return False
    return all(any(map(_ends, tasks)) for tasks in (*task.decision_cases.values(), task.default_case))


def _reads_of(text: str) -> Reads | None:
    try:
        return compile_template(text).reads
    except InvalidExpression:
        return None  # reported by the check of references


def _reads_alone(value: Any) -> Reads | None:
    """Return what a value reads that is one expression and nothing else."""
    alone = isinstance(value, str) and value.startswith("${") and value.endswith("}") and value.count("${") == 1
    return _reads_of(value) if alone else None


def _has_expression(value: Any) -> bool:
    return any(True for _ in texts_of(value, ""))


def _refused(read: Reader, value: Any, name: str) -> str | None:
    try:
        read(value, name)
    except InvalidInput as error:
        return str(error)
    return None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def _check_conductor(scope: Scope, findings: Findings) -> None:
    """Check for what Conductor's parser drops without a word."""
    dropped = "is no property of Conductor's, which ignores it"
    for extra in scope.defn.extra:
        findings.error(step_path(scope.path, extra), dropped)
    _check_seconds(scope.defn, scope.path, findings)
    for node in scope.nodes:
        task = node.task
        if task.compensate is not None:
            findings.error(f"{node.path}.compensate", "is ours alone: a Conductor server ignores it")
        for extra in task.extra:
            if extra != "workflowTaskType":
                findings.error(step_path(node.path, extra), dropped)
        if is_expressed(task):
            check_portable_expression(node, findings)
        for place, script in _scripts(task):
            if isinstance(script, str) and _CONSOLE.search(script):
                findings.error(
                    f"{node.path}.{place}", "uses `console`, which a Conductor server does not have: the script fails there"
                )
        _check_seconds(task, node.path, findings)
        _check_seconds(task.task_definition, f"{node.path}.taskDefinition", findings)


def _scripts(task: WorkflowTask) -> Iterator[tuple[str, object]]:
    """The scripts of JavaScript of a task, with the property that holds each."""
    if task.type in (TaskType.INLINE, TaskType.LAMBDA):
        name = "expression" if task.type == TaskType.INLINE else "scriptExpression"
        if task.input_parameters.get("evaluatorType") != "python":
            yield f"inputParameters.{name}", task.input_parameters.get(name)
    if task.evaluator_type != "python":
        yield "expression", task.expression
        yield "loopCondition", task.loop_condition
    yield "caseExpression", task.case_expression


def _check_seconds(thing: WorkflowDef | WorkflowTask | TaskDef | None, path: str, findings: Findings) -> None:
    kind: Any = type(thing)
    for field in () if thing is None else attrs.fields(kind):
        if is_of(field, DurationMs) and (getattr(thing, field.name) or 0) % 1000:
            findings.error(f"{path}.{json_names(kind)[field.name]}", "is no whole number of seconds, which Conductor takes alone")
