"""compile_plan(): a definition, indexed once, so that a turn never walks it.

A `Plan` is a dict of `Node`s. Everything a turn asks about a node is answered there: what follows it (`successor`), which loops are
around it (`loops`), which JOINs count it (`joins`), what its templates read. It is immutable and shared by all executions on the
same definition, of all engines of the process (`known_plan`). The rules of succession are Conductor's (`WorkflowDef.getNextTask`):
the next element of the same list; behind the last element of a SWITCH case, what follows the SWITCH; behind the last element of a
fork's branch, nothing (its JOIN exists since the fork); behind the last element of a loop's body, nothing (the loop counts its live
tasks).

How it works: the walk of the tree (`tree.walk`) that has examined the tasks is the only one; then one look at each for what is
around it, then one `Node` each. Lists that the type of their task does not use are left out: the flow never comes to them. A
compensation has a node, and no place.

`Plan.ahead` is what a turn will read when a node has ended. It is found out when it is first asked for and kept with the plan, for
most nodes of a large definition of operators are never asked about, and each looks many nodes ahead: this cache is the one thing
in a plan that changes. `Plan.foreign` says whether a turn may run code of another author, which may hang or take all memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.language.conditions import Condition, broken_condition, compile_condition
from conductorlite.language.jsonpath import NOTHING, Reads
from conductorlite.language.templates import InputTemplate, Template, compile_input, compile_template
from conductorlite.language.values import Json
from conductorlite.model.canonical import parse
from conductorlite.model.codec import structured
from conductorlite.model.definitions import PYTHON_KEY, SchemaDef, Semantics, TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidDefinition, InvalidExpression, InvalidInput, Problem
from conductorlite.model.executions import Task, TaskRow
from conductorlite.model.later import functions, pattern
from conductorlite.model.limits import NO_LIMIT, Terms
from conductorlite.model.policies import TaskPolicy, task_limit, task_policy
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import Cache
from conductorlite.plan.findings import find_predecessors
from conductorlite.plan.tree import EXPRESSED, OPERATOR_TYPES, Route, TreePosition, is_expressed, merges_template
from conductorlite.plan.validate import checked, enforced, misshapen, refuse_errors

if TYPE_CHECKING:
    from conductorlite.language.expressions.condition import compile_stored
    from conductorlite.language.schemas import SchemaCheck, compile_schema
else:
    (compile_stored,) = functions("conductorlite.language.expressions.condition", "compile_stored")
    (compile_schema,) = functions("conductorlite.language.schemas", "compile_schema")

__all__ = ["Ahead", "Node", "Plan", "compile_plan", "known_plan", "runs_foreign_code", "split_ref"]

#: Types that run a script, or may be anything.
_SCRIPTS: Final = frozenset(
    {TaskType.INLINE, TaskType.LAMBDA, TaskType.JSON_JQ_TRANSFORM, TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC}
)

#: Expressions that search their document: filters, wildcards, slices, functions, and what is put together of others. Some that
#: only look so are found too. Nothing is looked at twice: neither `${` nor `[` is passed over on the way.
_SEARCHES: Final = pattern(r"\$\{(?:[^}$]|\$(?!\{))*?(?:\.\.|\*|\?|\(|\$\{|\[[^\]\['\"]*[:,])")


def runs_foreign_code(definition: WorkflowDef, nodes: Iterable[Node], *, checked: bool) -> bool:
    """Return True if any task has a script or an expression that searches; `checked` says that schemas are enforced."""
    return checked or _searches(definition.output_parameters) or any(map(_foreign, nodes))


def _foreign(node: Node) -> bool:
    task = node.task
    if task.type in _SCRIPTS and node.condition is None:
        return True
    scripted = node.condition is not None and node.condition.foreign
    merged = None if task.task_definition is None else task.task_definition.input_template
    return scripted or _searches(task.input_parameters) or _searches(merged) or _searches(task.items)


def _searches(template: object) -> bool:
    return bool(template) and _SEARCHES.search(str(template)) is not None


#: How many nodes ahead are looked at.
_FAR: Final = 64


class Ahead(dict[str, Reads]):
    """Per reference the reads of what is scheduled next, through tasks that end at once; found when it is first asked for.

    Threads may ask at the same time: they find the same.
    """

    def __init__(self, nodes: Mapping[str, Node], output: Template | None, branches: frozenset[str]) -> None:
        super().__init__()
        self._nodes = nodes
        self._output = output
        #: Nodes inside forks: their end is not that of the workflow.
        self._branches = branches

    def __missing__(self, ref: str) -> Reads:
        found = self[ref] = self._look(self._nodes[ref])
        return found

    def _look(self, node: Node) -> Reads:
        found: list[Reads] = []
        pending = [node.successor] if node.successor else [node.loops[-1]] if node.loops else []
        if not pending and self._output is not None and node.ref not in self._branches:
            found.append(self._output.reads)
        seen: set[str] = set()
        for ref in pending:
            if ref in seen:
                continue
            if len(seen) == _FAR:
                break
            seen.add(ref)
            following = self._nodes[ref]
            found.append(following.template.reads)
            if following.items is not None:
                found.append(following.items.reads)
            if following.task.type == TaskType.FORK_JOIN:
                pending.extend(following.heads)
            elif following.task.type == TaskType.DO_WHILE and following.body:
                pending.append(following.body)
            elif following.task.type == TaskType.NOOP and following.successor:
                pending.append(following.successor)
        return NOTHING.union(*found)


#: What most nodes have inside.
_NONE: Final[frozenset[str]] = frozenset()

#: Whose tasks are made at run time.
_GROWING: Final = frozenset({TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC})


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Node:
    """One node of the definition with all that a turn asks about it."""

    ref: str
    task: WorkflowTask
    #: What workers poll for: the task's name for SIMPLE, else its type, as rows show it.
    task_type: str
    policy: TaskPolicy
    operator: bool
    template: InputTemplate
    #: The row of an attempt at it, as far as tasks of its type and name have the same: a copy is made faster than a new row.
    blank: Task
    #: Within what limits workers carry it out; an operator has none.
    limit: Terms = NO_LIMIT
    #: The key by which its tasks take turns in the line of their limit, and the weights of keys.
    fairness: tuple[Template, Mapping[str, int]] | None = None
    #: Enclosing DO_WHILE references, outermost first.
    loops: tuple[str, ...] = ()
    #: What counts the live tasks inside it, outermost first: loops and JOINs of dynamic forks, each with its number of loops.
    scopes: tuple[tuple[str, int], ...] = ()
    #: The way down from the workflow, this node's own place last.
    route: Route = ()
    #: Hashes of the definitions made at run time that hold this node, outermost first.
    grafts: tuple[str, ...] = ()
    successor: str | None = None
    #: JOIN references that count this node, in the order of the definition.
    joins: tuple[str, ...] = ()
    #: FORK_JOIN, FORK_JOIN_DYNAMIC: the JOIN behind it, the heads of its branches, and every node inside it.
    join: str | None = None
    #: JOIN: whether it is behind a fork, which makes it.
    behind_fork: bool = False
    #: JOIN: whether it is behind a dynamic fork, and counts what is live in the branches.
    collects: bool = False
    heads: tuple[str, ...] = ()
    inside: frozenset[str] = frozenset()
    #: EXCLUSIVE_JOIN: per joined reference, the nodes of which one that is live may still lead to it.
    predecessors: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    #: SWITCH, DECISION: head per case (None: the case is empty), and what is done without a match.
    cases: Mapping[str, str | None] = attrs.field(factory=dict)
    default_case: str | None = None
    #: DO_WHILE: first node of the body, the nodes directly in a round, and every node inside.
    body: str | None = None
    members: tuple[str, ...] = ()
    #: DO_WHILE: condition and list. SWITCH, DECISION: the expression.
    condition: Condition | None = None
    items: Template | None = None
    #: SUB_WORKFLOW: its parameters, as far as they may hold expressions.
    params: Template | None = None
    #: Reference of the node that undoes this one, and of the one that this node undoes.
    compensation: str | None = None
    compensates: str | None = None
    #: What its input and its output are checked against.
    input_check: SchemaCheck | None = None
    output_check: SchemaCheck | None = None

    @property
    def unreachable(self) -> bool:
        """True if the flow never comes to it by itself."""
        return not self.route


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Plan:
    """A compiled definition."""

    definition: WorkflowDef
    semantics: Semantics
    nodes: Mapping[str, Node]
    first: str
    output: Template | None
    #: Per node, what scheduling its successors will read: see `decide.prefetch`.
    ahead: Mapping[str, Reads] = attrs.field(factory=dict)
    #: Whether any node has a compensation, or may have one at run time.
    compensates: bool = False
    #: Whether any node is limited, or may be at run time; whether a limit may be asked, also that on executions.
    limited: bool = False
    asks_limits: bool = False
    #: Names of the task definitions of which only so many may begin within a window.
    rated: frozenset[str] = frozenset()
    #: Whether a turn may run code of another author: scripts, expressions that search, schemas.
    foreign: bool = False
    #: The limit on executions: the template of its key.
    rate_limit_key: Template | None = None
    #: What its input and its output are checked against.
    input_check: SchemaCheck | None = None
    output_check: SchemaCheck | None = None


def compile_plan(
    definition: WorkflowDef,
    semantics: Semantics = Semantics.ORKES,
    *,
    tasks: Iterable[TreePosition] | None = None,
    lenient: bool = False,
) -> Plan:
    """Validate a definition, unless its `tasks` are given, and index it; raises InvalidDefinition with every error there is.

    For `lenient` see `plan.findings.Findings`.
    """
    if tasks is None:
        refuse_errors(misshapen(definition))
        found, tasks = checked(definition, None, lenient=lenient)
        refuse_errors(found)
    places = dict(_flow(tasks))
    nodes = _nodes(definition, places, semantics)
    undoing = dict(_compensations(places, semantics))
    whole = {**nodes, **undoing}
    every = whole.values()
    input_check, output_check = (_checked(definition, schema) for schema in (definition.input_schema, definition.output_schema))
    enforces = any((input_check, output_check, *(node.input_check or node.output_check for node in every)))
    output = compile_template(dict(definition.output_parameters)) if definition.output_parameters else None
    grows = any(place.task.type in _GROWING for place in places.values())
    limited = grows or any(node.limit is not NO_LIMIT and bool(node.limit) for node in every)
    return Plan(
        definition=definition,
        semantics=semantics,
        nodes=whole,
        first=definition.tasks[0].task_reference_name,
        output=output,
        # The end of a branch is not the end of the workflow: the JOIN behind it reads on when all have arrived.
        ahead=Ahead(
            nodes, output, frozenset[str]().union(*[one.inside for one in nodes.values() if one.task.type == TaskType.FORK_JOIN])
        ),
        compensates=bool(undoing) or grows,
        limited=limited,
        asks_limits=limited or definition.rate_limit_config is not None,
        rated=frozenset(node.task.name for node in every if node.limit.rate),
        foreign=runs_foreign_code(definition, every, checked=enforces),
        rate_limit_key=_rate_limit_key(definition),
        input_check=input_check,
        output_check=output_check,
    )


#: How many nodes all the plans that are kept may have.
_NODES: Final = 20_000

#: Plans that were compiled, with the problems of their definitions, for all engines: a text never means anything else.
_KNOWN: Final[Cache[tuple[str, Semantics, bool, frozenset[str] | None], tuple[Plan, tuple[Problem, ...]]]] = Cache(
    256, weigh=lambda known: len(known[0].nodes), budget=_NODES
)


def known_plan(
    text: str,
    semantics: Semantics = Semantics.ORKES,
    environment: Collection[str] | None = None,
    *,
    written: WorkflowDef | None = None,
    lenient: bool = False,
) -> tuple[Plan, tuple[Problem, ...]]:
    """The plan of a definition by its text, and what it is warned of; compiled once a process. See `validate` for `environment`.

    `written` is the object that the text was made of, which the program may change at any time: the plan knows nothing of it.
    A text that is stored was let in, by `lenient` perhaps (`plan.findings.Findings`).
    Raises InvalidDefinition with every error there is.
    """
    key = (text, semantics, lenient, None if environment is None else frozenset(environment))
    known = _KNOWN.get(key)
    if known is None:
        definition = _read(text, written)
        found, tasks = checked(definition, environment, lenient=lenient)
        refuse_errors(found)
        known = (compile_plan(definition, semantics, tasks=tasks), tuple(found))
        _KNOWN.put(key, known)
    return known


def _read(text: str, written: WorkflowDef | None) -> WorkflowDef:
    """A definition by its text; an object that is not of the declared types is refused by what it holds, not by its text."""
    try:
        definition: WorkflowDef = structured(parse(text), WorkflowDef)  # which is canonical
    except (InvalidDefinition, InvalidInput):
        if written is not None:
            refuse_errors(misshapen(written))
        raise
    # What equals one that was read is of its types: to examine it takes ten times as long.
    if written is not None and written != definition:
        refuse_errors(misshapen(written))
    return definition


def _nodes(definition: WorkflowDef, places: Mapping[str, TreePosition], semantics: Semantics) -> dict[str, Node]:
    """The nodes of the flow, each with what it knows of those around it."""
    choosing = any(place.task.type == TaskType.EXCLUSIVE_JOIN for place in places.values())
    predecessors = find_predecessors(definition) if choosing else {}
    waiting: dict[str, list[str]] = {}
    inside: dict[str, set[str]] = {}
    members: dict[str, list[str]] = {}
    successors: dict[str, str | None] = {}
    for ref, place in places.items():
        if place.task.type == TaskType.JOIN:
            for joined in dict.fromkeys(place.task.join_on):
                waiting.setdefault(joined, []).append(ref)
        elif place.task.type == TaskType.EXCLUSIVE_JOIN:
            for joined in frozenset(predecessors[ref]).union(*predecessors[ref].values()):
                waiting.setdefault(joined, []).append(ref)
        for branch in place.around:
            if branch.kind in _COUNTED:
                inside.setdefault(branch.ref, set()).add(ref)
        if place.loops:
            members.setdefault(place.loops[-1], []).append(ref)
        following, branch_of = place.following, place.branch
        behind = None if place.parent is None or branch_of is None or branch_of.kind in _COUNTED else successors[place.parent.ref]
        successors[ref] = behind if following is None else following.task_reference_name
    nodes = {}
    for ref, place in places.items():
        task, previous = place.task, place.previous
        around: dict[str, Any] = {"successor": successors[ref], "route": place.route, "joins": tuple(waiting.get(ref, ()))}
        if place.loops:
            around["loops"], around["scopes"] = place.loops, tuple((loop, depth) for depth, loop in enumerate(place.loops))
        if task.type in OPERATOR_TYPES:
            around["previous"] = None if previous is None else previous.type
            around["inside"] = frozenset(inside[ref]) if ref in inside else _NONE
            around["predecessors"], around["members"] = predecessors.get(ref, {}), tuple(members.get(ref, ()))
        nodes[ref] = _node(task, semantics, **around)
    return nodes


def _rate_limit_key(definition: WorkflowDef) -> Template | None:
    """By default executions of one name share a limit."""
    config = definition.rate_limit_config
    return None if config is None else compile_template(config.rate_limit_key or definition.name)


def _checked(definition: WorkflowDef | TaskDef | None, schema: SchemaDef | None) -> SchemaCheck | None:
    """A schema that is enforced, compiled; one that is only named is found when an execution is started."""
    if definition is None or schema is None or schema.data is None or not enforced(definition):
        return None
    return compile_schema(schema) if schema.type.upper() == "JSON" else None


def _compensations(places: Mapping[str, TreePosition], semantics: Semantics) -> Iterator[tuple[str, Node]]:
    """The nodes that undo others: in the loops of what they undo, and otherwise nowhere in the flow."""
    for ref, place in places.items():
        task = place.task.compensation
        if task is not None:
            yield task.task_reference_name, _node(task, semantics, loops=place.loops, compensates=ref)


#: The lists that the flow goes through, by the type of the task they are in; those of other tasks it never comes to.
_USED: Final[Mapping[str, tuple[str, ...]]] = {
    TaskType.SWITCH: ("case", "default"),
    TaskType.DECISION: ("case", "default"),
    TaskType.FORK_JOIN: ("branch",),
    TaskType.DO_WHILE: ("body",),
}

#: Lists behind whose last element nothing follows: their task counts what is in them.
_COUNTED: Final = ("branch", "body")


def _flow(tasks: Iterable[TreePosition]) -> Iterator[tuple[str, TreePosition]]:
    """Every task that the flow may come to, by its reference, in document order."""
    used: set[str] = set()
    for position in tasks:
        above, branch, task = position.parent, position.branch, position.task
        if above is None or branch is None or (above.path in used and branch.kind in _USED.get(above.task.type, ())):
            if task.type in _USED:
                used.add(position.path)
            yield task.task_reference_name, position


def _node(task: WorkflowTask, semantics: Semantics, *, previous: str | None = None, **around: Any) -> Node:
    """The node of a task; `previous` is the type of what stands right before it in its list."""
    operator = task.type in OPERATOR_TYPES
    definition, policy = task.task_definition, task_policy(task, semantics, operator=operator)
    if task.compensate is not None:
        around["compensation"] = None if task.compensation is None else task.compensation.task_reference_name
    if operator:
        around |= _of_operator(task, previous, around.pop("successor", None))
    elif definition is not None:
        around |= {"limit": task_limit(task), "input_check": _checked(definition, definition.input_schema)}
        if definition.fairness_key is not None:
            around["fairness"] = compile_template(definition.fairness_key), definition.fairness_weights
    if definition is not None:
        around["output_check"] = _checked(definition, definition.output_schema)
    template = definition.input_template if definition is not None and merges_template(task) else None
    task_type = task.name if task.type == TaskType.SIMPLE else "FORK" if task.type in _FORKS else str(task.type)
    return Node(
        ref=task.task_reference_name,
        task=task,
        task_type=task_type,
        blank=_blank(task_type, task.name),
        policy=policy,
        operator=operator,
        template=compile_input(_inputs(task), template),
        **around,
    )


@lru_cache(maxsize=1_024)
def _blank(task_type: str, name: str) -> Task:
    """The row of an attempt, as far as tasks of one type and name have the same."""
    return TaskRow(workflow_id="", ref="", base_ref="", task_id="", task_type=task_type, name=name, status=TaskStatus.SCHEDULED)


#: Types behind which their JOIN stands.
_FORKS: Final = frozenset({TaskType.FORK_JOIN, TaskType.FORK_JOIN_DYNAMIC})


def _of_operator(task: WorkflowTask, previous: str | None, successor: str | None) -> dict[str, Any]:
    """Return what a node knows of the tasks inside it, of what it decides by, and of what follows."""
    fork = task.type in _FORKS
    return {
        "successor": None if fork else successor,
        "join": successor if fork else None,
        "heads": tuple(branch[0].task_reference_name for branch in task.fork_tasks) if task.type == TaskType.FORK_JOIN else (),
        "behind_fork": previous in _FORKS,
        "collects": previous == TaskType.FORK_JOIN_DYNAMIC,
        "cases": {case: _head(tasks) for case, tasks in task.decision_cases.items()},
        "default_case": _head(task.default_case),
        "body": _head(task.loop_over),
        "condition": _condition(task),
        "items": _items(task),
        "params": _params(task),
    }


#: Types whose input holds fields of the task.
_NAMING: Final = frozenset({TaskType.EVENT, TaskType.HTTP})
#: Entries of the input of a stored expression that are no values.
_NO_VALUES: Final = (PYTHON_KEY, "evaluatorType", "expression")


def _inputs(task: WorkflowTask) -> Mapping[str, Any]:
    """The input's templates. As Conductor's mappers do, fields of the task replace entries of the same name.

    Of a stored expression the input has the values alone: neither its text nor its JavaScript is stored with each attempt.
    """
    if task.type not in _NAMING and not is_expressed(task):
        return task.input_parameters
    inputs = dict(task.input_parameters)
    if task.type in EXPRESSED:
        for name in _NO_VALUES:
            inputs.pop(name, None)
        return inputs
    if task.type == TaskType.EVENT:
        inputs["sink"] = task.sink
    inputs["asyncComplete"] = task.async_complete
    return inputs


def _head(tasks: Sequence[WorkflowTask]) -> str | None:
    return tasks[0].task_reference_name if tasks else None


def _condition(task: WorkflowTask) -> Condition | None:
    if is_expressed(task):
        return _stored(task.input_parameters[PYTHON_KEY])
    if task.type == TaskType.SWITCH:
        kind, text = task.evaluator_type or "value-param", task.expression or ""
    elif task.type == TaskType.DECISION and (task.case_expression or "").strip():
        kind, text = "javascript", task.case_expression or ""
    elif task.type == TaskType.DECISION:
        kind, text = "value-param", task.case_value_param or ""
    elif task.type == TaskType.DO_WHILE and (task.loop_condition or "").strip():
        kind, text = task.evaluator_type or "javascript", task.loop_condition or ""
    else:
        return None
    try:
        return compile_condition(text, kind)
    except InvalidExpression as error:
        return broken_condition(text, str(error))  # of a definition that was let in nevertheless


def _stored(entry: Json) -> Condition:
    try:
        return compile_stored(entry)
    except InvalidExpression as error:
        return broken_condition(str(entry)[:200], str(error))


def _params(task: WorkflowTask) -> Template | None:
    params = task.sub_workflow_param
    if task.type != TaskType.SUB_WORKFLOW or params is None:
        return None
    return compile_template(
        {
            "name": params.name,
            "priority": params.priority,
            "taskToDomain": None if params.task_to_domain is None else dict(params.task_to_domain),
            "key": params.idempotency_key,
            "strategy": params.idempotency_strategy,
            "definition": params.workflow_definition if isinstance(params.workflow_definition, str) else None,
        }
    )


def _items(task: WorkflowTask) -> Template | None:
    if task.type != TaskType.DO_WHILE:
        return None
    if (task.items or "").strip():
        return compile_template(task.items)
    listed = task.input_parameters.get("_items")
    if isinstance(listed, list | tuple) or (isinstance(listed, str) and listed.strip()):
        return compile_template(listed)
    return None


def split_ref(plan: Plan, ref: str) -> tuple[str, tuple[int, ...]]:
    """A printed reference taken apart with the help of the plan, which knows every definition reference."""
    base = ref
    numbers: list[int] = []
    while base not in plan.nodes:
        head, delimiter, number = base.rpartition("__")
        if not delimiter or not number.isdigit():
            return ref, ()
        base, numbers = head, [int(number), *numbers]
    return base, tuple(numbers)
