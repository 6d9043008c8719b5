"""`${…}` everywhere a definition may hold one: it can be read, what it names is there to be read, and no secret would be stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from conductorlite.language.secrets import SECRETS
from conductorlite.language.templates import compile_template, compiled_text
from conductorlite.language.values import TASK_MEMBERS, WORKFLOW_MEMBERS
from conductorlite.model.definitions import TaskType, WorkflowTask
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.later import pattern
from conductorlite.model.scalars import step_path
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.findings import Findings, Scope, is_expression
from conductorlite.plan.tree import OPERATOR_TYPES, TreePosition, other_case, where_parted

__all__ = ["check_references", "check_secrets", "templates_of", "texts_of"]

V = TypeVar("V")

#: How the row of a round is called: `x__2`, `x__2__1`.
_ROUND: Final = pattern(r"(?:__[0-9]+)+\Z")

#: Roots of Java's system properties, which Conductor takes for known.
_JAVA: Final = frozenset({"java", "os", "user", "file", "path", "line", "sun", "jdk"})

#: Members that have a provider of their own.
_OTHERS: Final = frozenset({"env", "secrets"})

#: Names that are looked for among those known; a definition with more has other troubles.
_SUGGESTIONS: Final = 50

#: What of a sub-workflow's parameters is resolved.
_OF_SUB_WORKFLOW: Final = {
    "name": "name", "priority": "priority", "task_to_domain": "taskToDomain", "idempotency_key": "idempotencyKey",
}  # fmt: skip


def check_references(scope: Scope, findings: Findings) -> None:
    """Roots, members and places of what is read; what names nothing resolves to null at run time.

    An unknown root in a task's input is an error, as on Conductor, which looks at the inputs of the outermost tasks only.
    """
    defn, path = scope.defn, scope.path
    checks = _Reading(scope, findings)
    for node in scope.nodes:
        for value, at in templates_of(node):
            checks.look(value, at, node)
    checks.look(defn.output_parameters, f"{path}.outputParameters", None)
    checks.look(defn.failure_workflow, f"{path}.failureWorkflow", None)
    if defn.rate_limit_config is not None:
        checks.look(defn.rate_limit_config.rate_limit_key, f"{path}.rateLimitConfig.rateLimitKey", None)


def templates_of(node: TreePosition) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a task that are resolved, with their paths."""
    task, path = node.task, node.path
    if task.input_parameters:
        yield task.input_parameters, f"{path}.inputParameters"
    if task.items is not None:
        yield task.items, f"{path}.items"
    if task.sink is not None:
        yield task.sink, f"{path}.sink"
    if task.task_definition is not None:
        yield task.task_definition.input_template, f"{path}.taskDefinition.inputTemplate"
        yield task.task_definition.fairness_key, f"{path}.taskDefinition.fairnessKey"
    params = task.sub_workflow_param
    if params is not None:
        path = f"{path}.subWorkflowParam"
        for field, name in _OF_SUB_WORKFLOW.items():
            yield getattr(params, field), f"{path}.{name}"
        yield params.idempotency_strategy, f"{path}.idempotencyStrategy"
        if isinstance(params.workflow_definition, str):
            yield params.workflow_definition, f"{path}.workflowDefinition"


class _Reading:
    """Texts that the expressions of one definition read, and whether what they read is there."""

    def __init__(self, scope: Scope, findings: Findings) -> None:
        self._scope = scope
        self._findings = findings
        #: What is made at run time may be called anything.
        self._made = any(node.task.type == TaskType.FORK_JOIN_DYNAMIC for node in scope.nodes)
        self._inputs = frozenset((*scope.defn.input_parameters, *scope.defn.input_template))
        self._variables = frozenset(scope.defn.variables).union(
            *(node.task.input_parameters for node in scope.nodes if node.task.type == TaskType.SET_VARIABLE)
        )
        self._suggested: dict[str, str] = {}
        #: The loop whose inputs are looked at: they are resolved again after each round, with its output.
        self._own: str | None = None
        #: The tasks that texts read of which nothing is wrong but, perhaps, where they stand.
        self._sound: dict[str, Sequence[TreePosition]] = {}

    def look(self, value: Any, path: str, reader: TreePosition | None) -> None:
        """Add what is wrong with the expressions in a value that `reader` has; None for the workflow's own."""
        if reader is not None and reader.task.type == TaskType.DO_WHILE:
            self._own = reader.ref if path == f"{reader.path}.inputParameters" else None
        else:
            self._own = None
        if type(value) is dict and {*map(type, value.values())} == {str}:  # as mostly
            for key, text in value.items():
                if not self._is_sound(text, reader) and is_expression(text):
                    self._examine(text, step_path(path, str(key)), reader)
            return
        for text, at in texts_of(value, path):
            if not self._is_sound(text, reader):
                self._examine(text, at, reader)

    def _is_sound(self, text: str, reader: TreePosition | None) -> bool:
        """Return True if it is known that nothing is wrong with a text where it stands."""
        if "${" not in text:
            return True
        targets = self._sound.get(text)
        if not targets:
            return targets is not None
        return reader is None or all(self._out_of_reach(reader, target) is None for target in targets)

    def _out_of_reach(self, reader: TreePosition, target: TreePosition) -> str | None:
        return None if reader is target and reader.ref == self._own else _out_of_reach(reader, target)

    def _examine(self, text: str, at: str, reader: TreePosition | None) -> None:
        compiled = self._findings.tried(at, compiled_text, text)
        if compiled is None:
            return
        for message in compiled.problems:
            self._findings.warn(at, f"{message}; it resolves to null")
        reads, by_ref, before = compiled.reads, self._scope.by_ref, len(self._findings.problems)
        bare = reads.roots - {root for root, _ in reads.members} if reads.roots else reads.roots
        for root in _ordered(reads.names):
            self._root(root, at, reader, bare=root in bare)
        for root, member in _ordered(reads.members):
            self._member(root, member, at)
        for root, member, key in _ordered(reads.steps):
            if root == "workflow" and key is not None:
                self._key(member, key, at)
        if len(self._findings.problems) == before and not compiled.problems:
            others = [root for root in reads.names if root != "workflow"]
            if all(root in by_ref for root in others):
                self._sound[text] = [by_ref[root] for root in others]

    def _root(self, root: str, at: str, reader: TreePosition | None, *, bare: bool) -> None:
        scope = self._scope
        if root == "workflow" or (bare and root in (scope.environment or ())):
            return
        target = scope.by_ref.get(root)
        if target is not None:
            problem = None if reader is None else self._out_of_reach(reader, target)
            if problem is not None:
                self._findings.warn(at, f"${{{root}…}} is read too early: {root!r} {problem}; it resolves to null")
            return
        if _ROUND.sub("", root) in scope.by_ref:
            return
        message = f"${{{root}…}} names neither the workflow nor a task of this definition"
        hint = self._hint(root, (*scope.by_ref, "workflow"))
        # What its environment or Java itself may know on Conductor is accepted there.
        elsewhere = (bare and root.isupper()) or root in _JAVA
        in_input = reader is not None and at.startswith(f"{reader.path}.inputParameters")
        if not in_input or scope.environment is None or self._made or elsewhere:
            self._findings.warn(at, f"{message}{hint or '; it resolves to null'}")
        else:
            outermost = reader is not None and reader.depth == 1 and scope.path == "$"  # where a Conductor server looks
            if outermost:
                self._findings.error(at, f"{message}{hint}")
            else:
                self._findings.late(at, f"{message}{hint}", "it resolves to null")

    def _member(self, root: str, member: str, at: str) -> None:
        known: tuple[str, ...]
        if root == "workflow":
            known, whose = WORKFLOW_MEMBERS, "a workflow"
        elif root in self._scope.by_ref:
            known, whose = (*TASK_MEMBERS, "error"), "a task"
        else:
            return
        if member not in known and member not in _OTHERS:
            hint = self._hint(member, known) or "; it resolves to null"
            self._findings.warn(at, f"${{{root}.{member}…}}: {whose} has no {member!r}{hint}")

    def _key(self, member: str, key: str, at: str) -> None:
        """Inputs and variables need not be declared: only one that is like a declared one is worth a word."""
        declared = {"input": self._inputs, "variables": self._variables}.get(member, frozenset())
        if declared and key not in declared and (hint := self._hint(key, sorted(declared))):
            what = "among its inputParameters" if member == "input" else "a variable that it sets"
            self._findings.warn(at, f"${{workflow.{member}.{key}…}} is not {what}{hint}")

    def _hint(self, name: str, known: Iterable[str]) -> str:
        if name not in self._suggested:
            self._suggested[name] = did_you_mean(name, known) if len(self._suggested) < _SUGGESTIONS else ""
        return self._suggested[name]


def _ordered(found: Collection[V]) -> Iterable[V]:
    return found if len(found) < 2 else sorted(found, key=str)


def _out_of_reach(reader: TreePosition, target: TreePosition) -> str | None:
    """Why a task can have no row yet, or never, when another reads it; None if it may have one."""
    if reader.compensates is not None or target.compensates is not None:
        return None
    if reader.loops and not set(reader.loops).isdisjoint(target.loops):
        return None  # an earlier round has been there
    mine, other = where_parted(reader, target)
    if mine.branch != other.branch:
        return other_case(mine, other)
    if mine.index != other.index:
        return "comes later" if other.index > mine.index else None
    if reader.depth == target.depth:
        return "is this task itself"
    # One is in the other: what is around has begun; a loop's input is looked at again after each round.
    return "comes later" if target.depth > reader.depth and reader.task.type != TaskType.DO_WHILE else None


def texts_of(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text with an expression within a JSON value, in document order, with its path."""
    stack: list[tuple[Any, str]] = [(value, path)]
    while stack:
        item, at = stack.pop()
        if isinstance(item, str):
            if is_expression(item):
                yield item, at
        elif isinstance(item, Mapping):
            # Most values hold no expression, and their paths need not be written.
            entries = [(key, entry) for key, entry in item.items() if _worth_a_look(entry)]
            stack.extend((entry, step_path(at, str(key))) for key, entry in reversed(entries))
        elif isinstance(item, list | tuple):
            indices = [index for index, entry in enumerate(item) if _worth_a_look(entry)]
            stack.extend((item[index], step_path(at, index)) for index in reversed(indices))


def _worth_a_look(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    return type(value) not in _PLAIN and isinstance(value, Mapping | list | tuple)


#: Types of values that hold nothing: of a long list most are.
_PLAIN: Final = frozenset({int, float, bool, type(None)})


_MISPLACED: Final = (
    "names a secret where it cannot be filled in without being stored: only the input of a task that a worker carries out can"
)
_BURIED: Final = "the name of a secret is written out, in an expression of its own"


def check_secrets(scope: Scope, findings: Findings) -> None:
    """Refuse secrets outside the inputs of workers' tasks, and those whose names are made at run time."""
    defn, path = scope.defn, scope.path
    for node in scope.nodes:
        for value, at, filled in _texts_of(node):
            _check(value, at, filled, findings)
    limit = defn.rate_limit_config
    for value, at in (
        (defn.output_parameters, "outputParameters"),
        (defn.failure_workflow, "failureWorkflow"),
        (defn.input_template, "inputTemplate"),
        (defn.variables, "variables"),
        (None if limit is None else limit.rate_limit_key, "rateLimitConfig.rateLimitKey"),
    ):
        _check(value, f"{path}.{at}", False, findings)


def _texts_of(node: TreePosition) -> Iterator[tuple[Any, str, bool]]:
    """Yield the texts that a task holds, where, and whether secrets in them are filled in."""
    task, path = node.task, node.path
    worker = task.type not in OPERATOR_TYPES
    for key, value in task.input_parameters.items():
        if not _mentions(value):
            continue  # here already: most have none, and their paths need not be written
        if task.type == TaskType.START_WORKFLOW and isinstance(value, Mapping):
            # A definition in there has inputs of its own, and is checked when it is embedded.
            value = {name: entry for name, entry in value.items() if name != "workflowDef"}
        yield value, step_path(f"{path}.inputParameters", key), worker or _reaches_workers(task, key)
    if task.task_definition is not None:
        yield task.task_definition.input_template, f"{path}.taskDefinition.inputTemplate", worker
        yield task.task_definition.fairness_key, f"{path}.taskDefinition.fairnessKey", False
    if task.sink is not None:
        yield task.sink, f"{path}.sink", task.type == TaskType.EVENT
    for text, name in (
        (task.items, "items"),
        (task.expression, "expression"),
        (task.case_expression, "caseExpression"),
        (task.loop_condition, "loopCondition"),
        (task.script_expression, "scriptExpression"),
    ):
        if text is not None:
            yield text, f"{path}.{name}", False
    if task.sub_workflow_param is not None:
        for field, name in _OF_SUB_WORKFLOW.items():
            yield getattr(task.sub_workflow_param, field), f"{path}.subWorkflowParam.{name}", False


def _reaches_workers(task: WorkflowTask, key: str) -> bool:
    """Return True if a parameter of an operator is a template again for the tasks it makes at run time."""
    if task.type == TaskType.DYNAMIC:
        return key != task.dynamic_task_name_param
    return task.type == TaskType.FORK_JOIN_DYNAMIC and key == task.dynamic_fork_tasks_param


def _check(value: Any, path: str, filled: bool, findings: Findings) -> None:
    if not _mentions(value):
        return
    try:
        template = compile_template(value)
    except InvalidExpression:
        return  # reported by the check of references
    for at in template.buried:
        findings.error(f"{path}{at[1:]}", _BURIED)
    if not filled:
        for site in template.secrets:
            at = path
            for step in site.steps:
                at = step_path(at, step)
            findings.error(at, f"${{{SECRETS}{site.names[0]}}} {_MISPLACED}")


def _mentions(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if SECRETS in item:
                return True
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif type(item) not in _PLAIN and isinstance(item, Mapping):
            pending.extend(item.values())
    return False
