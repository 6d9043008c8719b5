"""Everything that can be known to be wrong with a definition before it runs, found at once.

Errors prevent a definition from being used; warnings name what is allowed and probably not meant. The rules are
Conductor's, applied everywhere (Conductor forgets the bodies of loops and inline definitions), and a few more for what
can never work. All functions here are pure and raise nothing, whatever a definition holds.

First comes the shape: whether all values are of the types their fields declare, for Python code need not have passed a type
checker. Then each rule has a `check_…` that adds to the findings: here those of workflows, event handlers and schemas, beside
this file those of names, tasks, references and joins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

import attrs

from conductorlite.language.conditions import EVALUATORS, compile_condition
from conductorlite.language.templates import compile_template
from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import MAX_KEY, IdempotencyStrategy, SchemaDef, TaskDef, TaskType, WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.later import functions, module, pattern
from conductorlite.model.mailbox import DEFAULT_TOPIC, topic_problem
from conductorlite.model.scalars import LARGEST_VERSION, MAX_NESTING, camel_case, json_names, step_path
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.findings import Findings, Scope, blank, check_extras, check_names, check_served, is_expression
from conductorlite.plan.references import check_references, check_secrets
from conductorlite.plan.tasks import check_task, check_task_def, check_workflow_limit
from conductorlite.plan.tree import OPERATOR_TYPES, TreePosition, walk

if TYPE_CHECKING:
    from conductorlite.language.schemas import compile_schema
    from conductorlite.model import handlers
    from conductorlite.model.handlers import EventAction, EventHandler
else:
    handlers = module("conductorlite.model.handlers")
    (compile_schema,) = functions("conductorlite.language.schemas", "compile_schema")

__all__ = [
    "Payload",
    "check_event_handler",
    "check_schemas",
    "check_schemas_of",
    "checked",
    "enforced",
    "examine",
    "misshapen",
    "refuse_errors",
    "validate",
    "validate_event_handler",
    "validate_schema",
    "validate_task_def",
]

_LONE_DOLLAR: Final = pattern(r"\$(?!\{)")
#: `$workflow.input.name`, as Conductor reads it; `${…}` and plain names are accepted as well.
_FAILURE_WORKFLOW: Final = pattern(r"\$workflow\.input\.[^.\s]+\Z")


def validate(
    defn: WorkflowDef,
    *,
    environment: Collection[str] | None = (),
    served: Collection[str] | None = None,
    further: Callable[[Scope, Findings], None] | None = None,
) -> list[Problem]:
    """All problems of a workflow definition and its inline ones, errors and warnings mixed.

    `environment` are the names that `${NAME}` may stand for besides tasks; with None unknown roots are only warned of, as in a
    definition that is made at run time and may name what is around it. `served` are the task types that workers carry out
    (`Workers.task_types`): with it, tasks are warned of that no worker there would carry out. `further`
    looks at each definition too.

    If values are not even of their declared types, or payloads are not JSON, or tasks are nested deeper than
    MAX_NESTING, only that is reported: everything else presumes it.
    """
    return misshapen(defn) or checked(defn, environment, served, further)[0]


def checked(
    defn: WorkflowDef,
    environment: Collection[str] | None,
    served: Collection[str] | None = None,
    further: Callable[[Scope, Findings], None] | None = None,
    *,
    lenient: bool = False,
) -> tuple[list[Problem], Sequence[TreePosition]]:
    """Return the problems of a definition whose values have their declared types, as one read from JSON has; and its tasks.

    For `lenient` see `Findings`.
    """
    findings = Findings(lenient=lenient)
    tasks: Sequence[TreePosition] = ()
    # Inline definitions wait here, with the nesting their sub-workflow task has already used up and the limits held around them.
    waiting: list[tuple[WorkflowDef, str, int, dict[str, str]]] = [(defn, "$", 0, {})]
    for definition, path, depth, around in waiting:
        held = check_workflow_limit(definition, path, around, findings)
        nodes = tuple(walk(definition, path, deepest=MAX_NESTING - depth))
        for node in nodes:
            if node.depth + depth > MAX_NESTING:
                return [Problem(path=node.path, message=f"tasks are nested deeper than {MAX_NESTING} levels")], ()
            params = node.task.sub_workflow_param
            if params is not None and isinstance(params.workflow_definition, WorkflowDef):
                inner = f"{node.path}.subWorkflowParam.workflowDefinition"
                needed = held if node.task.type == TaskType.SUB_WORKFLOW else {}  # another is not waited for
                waiting.append((params.workflow_definition, inner, depth + node.depth, needed))
        scope = _check_definition(definition, path, nodes, environment, served, findings)
        if further is not None:
            further(scope, findings)
        check_served(nodes, served, findings)
        tasks = tasks or nodes
    return findings.problems, tasks


def refuse_errors(found: Iterable[Problem]) -> None:
    """Raise InvalidDefinition with the errors among problems, if there are any."""
    errors = [problem for problem in found if problem.severity == "error"]
    if errors:
        raise InvalidDefinition(errors)


def validate_task_def(task_def: TaskDef, path: str = "$") -> list[Problem]:
    """All problems of a task definition that stands alone; paths start with `path`."""
    problems = misshapen(task_def, path, TaskDef)
    if problems:
        return problems
    findings = Findings()
    check_task_def(task_def, path, findings, embedded=False)
    check_schemas_of(task_def, path, findings)
    return findings.problems


def validate_event_handler(handler: EventHandler) -> list[Problem]:
    """All problems of an event handler, errors and warnings mixed."""
    problems = misshapen(handler, "$", handlers.EventHandler)
    if problems:
        return problems
    findings = Findings()
    check_event_handler(handler, "$", findings)
    return findings.problems


def misshapen(value: object, path: str = "$", kind: type[object] = WorkflowDef) -> list[Problem]:
    """Return what is not of its declared type, and payloads that are not JSON: all else presumes that there is nothing."""
    problems, payloads = examine(value, path, kind)
    if problems:
        return problems
    try:
        canonical([payload for payload, _ in payloads])
    except ValueError:
        pass  # each by itself: which it is, and whether it is more than that they are many
    else:
        return []
    for payload, where in payloads:
        try:
            canonical(payload, where=where)
        except InvalidInput as error:
            at, _, message = str(error).partition(": ")
            problems.append(Problem(path=at, message=message))
        except ValueError as error:
            problems.append(Problem(path=where, message=str(error)))
    return problems


def _check_definition(
    defn: WorkflowDef,
    path: str,
    nodes: tuple[TreePosition, ...],
    environment: Collection[str] | None,
    served: Collection[str] | None,
    findings: Findings,
) -> Scope:
    by_ref: dict[str, TreePosition] = {}
    for node in nodes:
        by_ref.setdefault(node.task.task_reference_name, node)
    scope = Scope(defn=defn, path=path, nodes=nodes, by_ref=by_ref, environment=environment)
    _check_workflow(defn, path, findings)
    check_extras(defn, path, findings)
    check_names(scope, served, findings)
    for node in nodes:
        check_task(node, scope, findings)
    check_references(scope, findings)
    check_secrets(scope, findings)
    check_schemas(scope, findings)
    return scope


def _check_workflow(defn: WorkflowDef, path: str, findings: Findings) -> None:
    if not defn.name.strip():
        findings.error(f"{path}.name", "is empty")
    if not defn.tasks:
        findings.error(f"{path}.tasks", "is empty")
    if defn.schema_version != 2:
        findings.error(f"{path}.schemaVersion", f"is {defn.schema_version}, but must be 2")
    if defn.version > LARGEST_VERSION:
        findings.error(f"{path}.version", f"is {defn.version}, but must be at most {LARGEST_VERSION}")
    if defn.timeout_ms < 0:
        findings.error(f"{path}.timeoutSeconds", "is negative")
    failure = defn.failure_workflow
    if failure is not None and _LONE_DOLLAR.match(failure) and not _FAILURE_WORKFLOW.match(failure):
        findings.error(f"{path}.failureWorkflow", f"{failure!r} is neither a name nor $workflow.input.<name>")


#: Containers on the way into one level of nested tasks, at most: task, params, definition, list.
_DEEPEST: Final = 4 * MAX_NESTING + 8

#: What a 64-bit column and a Java long hold.
_LARGEST: Final = 2**63 - 1


Payload = tuple[object, str]


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class _Form:
    """A declared type, taken apart once."""

    declared: Any
    #: What `isinstance` is asked; of a union, which has members, nothing.
    origin: Any
    members: tuple[_Form, ...] = ()
    #: Of a list or a mapping: what its entries are.
    entries: _Form | None = None
    #: Whether it is JSON, which is checked elsewhere.
    payload: bool = False
    #: Types of which every value is as declared; there may be others whose values must be looked at.
    fitting: frozenset[type] = frozenset()


def examine(value: object, path: str, kind: Any) -> tuple[list[Problem], list[Payload]]:
    """Every value within the attrs object `value` that is not of its declared type, and every JSON payload, with paths.

    Nesting far beyond MAX_NESTING (or a cycle) is one problem; nothing is raised.
    """
    problems: list[Problem] = []
    payloads: list[Payload] = []
    stack: list[tuple[object, str, _Form, int]] = [(value, path, _form(kind), 0)]
    while stack:
        item, where, wanted, depth = stack.pop()
        if depth > _DEEPEST:
            message = f"tasks are nested deeper than {MAX_NESTING} levels (or cyclic)"
            return [Problem(path=where[:200], message=message)], []
        found = _alternative(item, wanted)
        if found is None:
            problems.append(Problem(path=where, message=f"expected {_named(wanted.declared)}, got {_shown(item)}"))
        elif found.payload:
            payloads.append((item, where))
        else:
            stack.extend([(child, at, each, depth + 1) for child, at, each in _children(item, where, found)][::-1])
    return problems, payloads


@cache
def _form(declared: Any) -> _Form:
    declared = getattr(declared, "__supertype__", declared)  # milliseconds are numbers
    origin, arguments = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, UnionType):
        members = tuple(map(_form, arguments))
        fitting = frozenset().union(*(member.fitting for member in members))
        return _Form(declared=declared, origin=None, members=members, fitting=fitting)
    if declared is Any:
        return _Form(declared=declared, origin=object, payload=True)
    if origin is Sequence:
        return _Form(declared=declared, origin=tuple, entries=_form(arguments[0]))
    if origin is Mapping:
        return _Form(declared=declared, origin=Mapping, entries=_form(arguments[1]), payload=arguments[1] is Any)
    plain = declared in (str, bool, type(None)) or (isinstance(declared, type) and issubclass(declared, Enum))
    return _Form(declared=declared, origin=origin, fitting=frozenset({declared}) if plain else frozenset())


def _alternative(item: object, wanted: _Form) -> _Form | None:
    """The member of a union (or the type itself) that `item` is an instance of."""
    if wanted.members:
        return next((each for each in wanted.members if _alternative(item, each) is not None), None)
    if wanted.origin is int:
        return wanted if isinstance(item, int) and not isinstance(item, bool) and abs(item) <= _LARGEST else None
    return wanted if isinstance(item, wanted.origin) else None


def _children(item: Any, where: str, form: _Form) -> Iterator[tuple[object, str, _Form]]:
    if form.entries is None:
        if attrs.has(form.origin):
            yield from _given_fields(item, where, form.origin)
    elif form.origin is tuple:
        for index, entry in enumerate(item):
            yield entry, f"{where}[{index}]", form.entries
    else:
        for key, entry in item.items():
            if not isinstance(key, str):
                # Shown as a value of the wrong type: a path could not even be written down.
                yield key, f"{where} (key)", _form(str)
            else:
                yield entry, step_path(where, key), form.entries


def _given_fields(item: Any, where: str, kind: Any) -> Iterator[tuple[object, str, _Form]]:
    read, fields = _fields(kind)
    # Most fields of most tasks were never given, or hold a plain text: this keeps the check of a large definition cheap.
    for value, (name, form, default, fitting, mapping) in zip(read(item), fields, strict=True):
        if value is default or type(value) in fitting or (mapping and not value and type(value) is dict):
            continue
        # Unknown properties are beside the known ones in the JSON, not below a property of their own.
        yield value, step_path(where, name) if name else where, form


#: A field: its property's name (none: of those that are not known), form and default, the types of which every value fits, and
#: whether it is a mapping.
_Field = tuple[str, _Form, object, frozenset[type], bool]


@cache
def _fields(kind: Any) -> tuple[Callable[[Any], tuple[object, ...]], tuple[_Field, ...]]:
    """Return a function that reads all fields of a class at once, and what each field is."""
    attrs.resolve_types(kind)
    names = json_names(kind)
    declared = [(names.get(field.name, ""), _form(field.type), field.default) for field in attrs.fields(kind)]
    return attrgetter(*(field.name for field in attrs.fields(kind))), tuple(
        (name, form, default, form.fitting, form.origin is Mapping) for name, form, default in declared
    )


def _named(wanted: Any) -> str:
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_named(each) for each in get_args(wanted) if each is not type(None))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return f"a {wanted.__name__} ({', '.join(str(member.value) for member in wanted)})"
    if getattr(wanted, "__supertype__", wanted) is int:
        return "an integer of at most 64 bits"
    plain = {str: "text", bool: "True or False", Sequence: "a list", Mapping: "a mapping"}
    return plain.get(get_origin(wanted) or wanted) or f"a {wanted.__name__}"


def _shown(item: object) -> str:
    if isinstance(item, str):
        return f"the text {item[:60]!r}"
    if item is None or isinstance(item, bool | float):
        return repr(item)
    if isinstance(item, int):
        # The digits of a huge integer cannot even be printed.
        return str(item) if abs(item) < 10**20 else f"an integer of {item.bit_length()} bits"
    return f"a {type(item).__name__}"


def check_event_handler(handler: EventHandler, path: str, findings: Findings) -> None:
    """All problems of an event handler whose values are of their declared types."""
    for field, text in (("name", handler.name), ("event", handler.event)):
        if blank(text):
            findings.error(f"{path}.{field}", "is empty")
        elif len(text) > MAX_KEY:
            findings.error(f"{path}.{field}", f"is longer than {MAX_KEY} characters")
    _check_condition(handler, path, findings)
    if not handler.actions:
        findings.error(f"{path}.actions", "is empty")
    if not handler.active:
        findings.warn(f"{path}.active", "is false, which is the default: the handler does nothing")
    for key in handler.extra:
        findings.warn(f"{path}.{key}", "is not known, and has no effect")
    for number, action in enumerate(handler.actions):
        _check_action(action, f"{path}.actions[{number}]", findings)


def _check_condition(handler: EventHandler, path: str, findings: Findings) -> None:
    evaluator = handler.evaluator_type
    if not blank(evaluator) and evaluator not in EVALUATORS:
        findings.error(f"{path}.evaluatorType", _not_one_of(str(evaluator), sorted(EVALUATORS)))
        return
    condition = handler.condition
    if condition is None or blank(condition):
        return
    kind = evaluator if evaluator and not blank(evaluator) else "javascript"
    findings.tried(f"{path}.condition", compile_condition, condition, kind)


def _not_one_of(value: str, known: Sequence[str]) -> str:
    return f"{value[:60]!r} is not one of {', '.join(known)}{did_you_mean(value, known)}"


def _check_action(action: EventAction, path: str, findings: Findings) -> None:
    known = [str(kind) for kind in handlers.ActionType]
    if action.action not in known:
        findings.error(f"{path}.action", _not_one_of(action.action, known))
        return
    for key in action.extra:
        findings.warn(f"{path}.{key}", "is not known, and has no effect")
    bodies = {kind: getattr(action, kind) for kind in known}
    body = bodies.pop(action.action)
    for kind, other in bodies.items():
        if other is not None:
            findings.warn(f"{path}.{kind}", f"has no effect: the action is {action.action}")
    if body is None:
        findings.error(f"{path}.{action.action}", "is missing: it says what the action is about")
        return
    _check_body(body, f"{path}.{action.action}", findings)
    for key in body.extra:
        findings.warn(f"{path}.{action.action}.{key}", "is not known, and has no effect")


#: Fields of the bodies of actions that may hold `${…}`.
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "StartWorkflow": ("input", "correlation_id", "idempotency_key"),
    "TaskDetails": ("workflow_id", "task_ref_name", "task_id", "output", "reason_for_incompletion"),
    "TerminateWorkflow": ("workflow_id", "termination_reason"),
    "UpdateWorkflowVariables": ("workflow_id", "variables"),
    "SendMessage": ("workflow_id", "topic", "key", "value"),
}


def _check_body(body: Any, path: str, findings: Findings) -> None:
    if isinstance(body, handlers.StartWorkflow):
        if blank(body.name):
            findings.error(f"{path}.name", "is missing: the name of a registered workflow")
        _check_key(body, path, findings)
    elif isinstance(body, handlers.TaskDetails):
        if blank(body.task_id) and (blank(body.workflow_id) or blank(body.task_ref_name)):
            findings.error(path, "names no task: give taskId, or workflowId and taskRefName")
    elif blank(body.workflow_id):
        findings.error(f"{path}.workflowId", "is missing")
    if isinstance(body, handlers.UpdateWorkflowVariables) and not body.variables:
        findings.error(f"{path}.variables", "is empty")
    if isinstance(body, handlers.SendMessage) and not is_expression(body.topic or ""):
        problem = topic_problem(body.topic or DEFAULT_TOPIC)
        if problem is not None:
            findings.error(f"{path}.topic", problem)
    for field in _TEMPLATES[type(body).__name__]:
        _check_template(getattr(body, field), f"{path}.{camel_case(field)}", findings)


def _check_key(body: handlers.StartWorkflow, path: str, findings: Findings) -> None:
    """A strategy is one there is, and has a key; a key that is no expression is the same for every message."""
    key, strategy = body.idempotency_key, body.idempotency_strategy
    if strategy is not None and not blank(strategy):
        if strategy not in list(IdempotencyStrategy):
            known = [str(one) for one in IdempotencyStrategy]
            findings.error(f"{path}.idempotencyStrategy", _not_one_of(strategy, known))
        elif blank(key):
            findings.warn(f"{path}.idempotencyStrategy", "has no effect without an idempotencyKey")
    if key is not None and not blank(key):
        if len(key) > MAX_KEY and not is_expression(key):
            findings.error(f"{path}.idempotencyKey", f"is longer than {MAX_KEY} characters")
        elif not is_expression(key):
            findings.warn(f"{path}.idempotencyKey", "holds no ${…} of the payload: it is the same for every message")


def _check_template(value: Any, path: str, findings: Findings) -> None:
    template = findings.tried(path, compile_template, value)
    for where, message in template.problems if template is not None else ():
        findings.warn(path + where.removeprefix("$"), message)


_SIDES: Final = (("input_schema", "inputSchema"), ("output_schema", "outputSchema"))


def enforced(definition: WorkflowDef | TaskDef) -> bool:
    """Return True if its schemas are enforced: a workflow's unless it says no, a task's only if it says so (as in Conductor)."""
    said = definition.enforce_schema
    return isinstance(definition, WorkflowDef) if said is None else said


def check_schemas(scope: Scope, findings: Findings) -> None:
    """Add what is wrong with the schemas of a workflow and of the task definitions in it."""
    check_schemas_of(scope.defn, scope.path, findings)
    for node in scope.nodes:
        definition = node.task.task_definition
        if definition is None:
            continue
        path = f"{node.path}.taskDefinition"
        check_schemas_of(definition, path, findings)
        if node.task.type in OPERATOR_TYPES and enforced(definition) and definition.input_schema is not None:
            findings.warn(f"{path}.inputSchema", f"is not enforced for {node.task.type}: only for tasks that workers carry out")


def check_schemas_of(definition: WorkflowDef | TaskDef, path: str, findings: Findings) -> None:
    """Add what is wrong with the schemas that one definition has itself."""
    if not enforced(definition):
        return
    for field, name in _SIDES:
        schema: SchemaDef | None = getattr(definition, field)
        if schema is None:
            continue
        if schema.type.upper() != "JSON":
            findings.warn(f"{path}.{name}.type", f"is {schema.type[:40]!r}: kept, but only JSON schemas are enforced")
        elif schema.data is None and not schema.name.strip():
            findings.error(f"{path}.{name}", "has neither data nor the name of a registered schema")
        elif schema.data is not None:
            findings.tried(f"{path}.{name}.data", compile_schema, schema)


def validate_schema(schema: SchemaDef) -> list[Problem]:
    """All problems of a schema that stands alone."""
    findings = Findings()
    if not schema.name.strip():
        findings.error("$.name", "is empty")
    if schema.type.upper() == "JSON" and schema.data is None:
        findings.error("$.data", "is missing")
    elif schema.type.upper() == "JSON":
        findings.tried("$.data", compile_schema, schema)
    return findings.problems
