"""Shared parts of the checks: the list they add to, the scope they look names up in, questions about values; and those checks.

Names and types: present, unique, usable in `${…}`, no misspelling of a property, and carried out by an operator or a worker.

That excludes types that only Conductor's server carries out and, where the workers are known, any that none of them takes.

Forks and joins: what is forked is joined, and what is joined can be reached.

An EXCLUSIVE_JOIN also has to know what may still come: the tasks that, while they are live, may lead to one it names, its
predecessors. Usually there is none: what it names stands in cases of a SWITCH before it, and when the EXCLUSIVE_JOIN is scheduled,
those are through. Only a fork can let something come later: in another branch than the EXCLUSIVE_JOIN's, or in one that the fork's
JOIN did not wait for. Then they are the fork, the tasks before the named one in its branch and those around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from conductorlite.model.definitions import LOOP_DELIMITER, TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidExpression, InvalidInput, MissingExtra, Problem, Severity
from conductorlite.model.later import pattern
from conductorlite.model.scalars import camel_case, step_path
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.tree import (
    OPERATOR_TYPES,
    SHIPPED_TYPES,
    TreePosition,
    branches,
    holds_tasks,
    other_case,
    walk,
    where_parted,
)

__all__ = [
    "Findings",
    "Scope",
    "blank",
    "check_dynamic_fork",
    "check_exclusive_join",
    "check_extras",
    "check_fork",
    "check_join",
    "check_names",
    "check_served",
    "check_type_name",
    "conditional_on",
    "find_predecessors",
    "has_input",
    "input_value",
    "is_expression",
    "unserved",
    "worker_types",
]

T = TypeVar("T")


class Findings:
    """Problems in the order they were found.

    `lenient` is for a definition that a Conductor server takes at registration, or that was let in before: what shows only when an
    execution comes to it is a warning.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.problems: list[Problem] = []
        self.lenient = lenient

    def error(self, path: str, message: str) -> None:
        """Add a problem that prevents the definition from being used."""
        self.problems.append(Problem(path=path, message=message))

    def warn(self, path: str, message: str) -> None:
        """Add a problem that leaves the definition usable."""
        self.problems.append(Problem(path=path, message=message, severity=Severity.WARNING))

    def late(self, path: str, message: str, outcome: str) -> None:
        """Add a problem that a Conductor server finds at run time only; `outcome` says what happens there and here."""
        if self.lenient:
            self.warn(path, f"{message}; {outcome}")
        else:
            self.error(path, message)

    def tried(self, path: str, compile_: Callable[..., T], *given: Any, outcome: str = "") -> T | None:
        """Return the result of compiling something; if it fails, add a problem (one found late with an `outcome`), return None."""
        try:
            return compile_(*given)
        except (InvalidExpression, InvalidInput) as error:
            if outcome:
                self.late(path, str(error), outcome)
            else:
                self.error(path, str(error))
        except MissingExtra as error:
            self.error(path, str(error))
        return None


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Scope:
    """One workflow definition under check: its tasks in document order, and by reference name (the first of equals)."""

    defn: WorkflowDef
    path: str
    nodes: tuple[TreePosition, ...]
    by_ref: Mapping[str, TreePosition]
    #: Names that the engine's environment has; None where roots may be known that the definition does not show.
    environment: Collection[str] | None = None


def blank(text: str | None) -> bool:
    """Return True if a text is absent or holds nothing but white space."""
    return text is None or not text.strip()


def is_expression(value: object) -> bool:
    """Return True if the value is known only at run time: text that holds a `${` which is not escaped."""
    return isinstance(value, str) and "${" in value.replace("$${", "")


def input_value(task: WorkflowTask, key: str) -> Any:
    """Return what the input holds under `key` as far as the definition shows: a parameter, else the embedded template's."""
    value = task.input_parameters.get(key)
    if value is None and task.task_definition is not None:
        value = task.task_definition.input_template.get(key)
    return value


def has_input(task: WorkflowTask, *keys: str) -> bool:
    """Return True if any of the keys is present in the task's input, be it with null."""
    template: Mapping[str, Any] = {} if task.task_definition is None else task.task_definition.input_template
    return any(key in task.input_parameters or key in template for key in keys)


_ITERATION: Final = pattern(re.escape(LOOP_DELIMITER) + r"\d+\Z", re.ASCII)
_DOTTED_SAFELY: Final = pattern(r"[\w-]+\Z")


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).upper()


#: Length of the longest name that may be a slip of a built-in type, and of a type in which two characters may be wrong.
_LONGEST_TYPE: Final = 20
_LONG_TYPE: Final = 9
#: Length of a type whose first character is not wrong.
_SHORT_TYPE: Final = 5

_KNOWN_TYPES: Final = frozenset(str(member.value) for member in TaskType)
#: Known types without their underscores, and the names under which people look for them.
_MEANT: Final = {
    **{_folded(name): name for name in _KNOWN_TYPES},
    "FORK": "FORK_JOIN",
    "FORKDYNAMIC": "FORK_JOIN_DYNAMIC",
    "DYNAMICFORK": "FORK_JOIN_DYNAMIC",
    "LOOP": "DO_WHILE",
    "WHILE": "DO_WHILE",
    "JQ": "JSON_JQ_TRANSFORM",
}


def check_names(scope: Scope, served: Collection[str] | None, findings: Findings) -> None:
    """Every task has a name, a reference name of its own that expressions can use, and a type; see `check_type_name`."""
    for node in scope.nodes:
        task = node.task
        if not task.name.strip():
            findings.error(f"{node.path}.name", "is empty")
        _check_reference(node, scope, findings)
        if task.type not in _KNOWN_TYPES:
            check_type_name(task.type, f"{node.path}.type", findings, served)
        check_extras(task, node.path, findings)


def _check_reference(node: TreePosition, scope: Scope, findings: Findings) -> None:
    ref = node.task.task_reference_name
    if LOOP_DELIMITER not in ref and ref != "workflow" and scope.by_ref[ref] is node and _DOTTED_SAFELY.match(ref):
        return
    path = f"{node.path}.taskReferenceName"
    if not ref.strip():
        findings.error(path, "is empty")
        return
    first = scope.by_ref[ref]
    if first is not node:
        findings.error(path, f"{ref!r} is already the reference name of {first.path}")
    if ref == "workflow":
        findings.error(path, "'workflow' is the name under which expressions find the workflow itself")
    if _ITERATION.search(ref):
        findings.error(path, f"{ref!r} ends like an iteration of a loop ({LOOP_DELIMITER} and a number)")
    elif LOOP_DELIMITER in ref:
        findings.warn(path, f"{ref!r} contains {LOOP_DELIMITER}, which Conductor takes for the start of an iteration")
    if not _DOTTED_SAFELY.match(ref):
        findings.warn(path, f"{ref!r} cannot be written with a dot in expressions, only as ${{['{ref}']…}}")


def check_type_name(name: str, path: str, findings: Findings, served: Collection[str] | None = None) -> None:
    """A type is not empty, and is not a built-in one but for its spelling; any other text is a worker's type.

    With `served`, the types that workers carry out, a slip of one character is left to `check_served`.
    """
    if not name.strip():
        findings.error(path, "is empty")
    elif name not in _KNOWN_TYPES and name not in (served or ()):
        meant = _MEANT.get(_folded(name)) or (None if served is not None or name in _SERVERS else _nearest_type(name))
        if meant is not None:
            findings.warn(path, f"{name!r} is taken for the type of a worker; did you mean {meant!r}?")


def _nearest_type(name: str) -> str | None:
    """The built-in type that a name differs from by one or two characters that are wrong, missing, too many or exchanged."""
    folded = _folded(name)
    if not 3 <= len(folded) <= _LONGEST_TYPE:
        return None
    known = (other for other in map(_folded, sorted(_KNOWN_TYPES)) if abs(len(other) - len(folded)) <= 1)
    slips = {other: _slips(folded, other) for other in known if other[0] == folded[0] or len(other) > _SHORT_TYPE}
    nearest = min(slips, key=lambda other: slips[other], default=None)
    return None if nearest is None or slips[nearest] > (1 if len(nearest) < _LONG_TYPE else 2) else _MEANT[nearest]


def _slips(one: str, other: str) -> int:
    """Number of characters that have to be changed, added, left out or exchanged with the next to make one text of another."""
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for at, character in enumerate(one, 1):
        last = before
        before = row
        row = [at]
        for place, wanted in enumerate(other, 1):
            least = min(before[place] + 1, row[place - 1] + 1, before[place - 1] + (character != wanted))
            if at > 1 and place > 1 and character == other[place - 2] and one[at - 2] == wanted:
                least = min(least, last[place - 2] + 1)
            row.append(least)
    return row[-1]


#: Fields whose objects keep properties of their own that we do not know.
_PARTS: Final = ("input_schema", "output_schema", "rate_limit_config", "sub_workflow_param", "cache_config")


def check_extras(thing: WorkflowDef | TaskDef | WorkflowTask, path: str, findings: Findings) -> None:
    """Warn of each unknown property of a definition or a task, and of those of what is in it."""
    task = thing if isinstance(thing, WorkflowTask) else None
    if task is not None and not (task.extra or task.sub_workflow_param or task.cache_config or task.on_state_change):
        return  # as mostly
    # Conductor 2 wrote the type a second time under this name: an echo, not a mistake.
    echoed = task is not None and task.extra.get("workflowTaskType") == task.type
    _unknown([key for key in thing.extra if not (echoed and key == "workflowTaskType")], path, findings)
    for field in _PARTS:
        part = getattr(thing, field, None)
        if part is not None:
            _unknown(part.extra, f"{path}.{camel_case(field)}", findings)
    for status, events in task.on_state_change.items() if task is not None else ():
        for index, event in enumerate(events):
            _unknown(event.extra, step_path(step_path(f"{path}.onStateChange", status), index), findings)


def _unknown(extra: Iterable[str], path: str, findings: Findings) -> None:
    for key in extra:
        findings.warn(step_path(path, key), "is not a property Conductor knows; it is kept, without effect")


#: Types that Conductor's server, its modules or Orkes' carry out, and nothing here does.
_SERVERS: Final = frozenset(
    {
        "GENERATE_IMAGE", "GENERATE_AUDIO", "GENERATE_VIDEO", "GENERATE_PDF", "LLM_TEXT_COMPLETE",
        "LLM_CHAT_COMPLETE", "LLM_GENERATE_EMBEDDINGS", "LLM_INDEX_TEXT", "LLM_INDEX_DOCUMENT", "LLM_STORE_EMBEDDINGS",
        "LLM_SEARCH_EMBEDDINGS", "LLM_GET_EMBEDDINGS", "LLM_SEARCH_INDEX", "LIST_MCP_TOOLS", "CALL_MCP_TOOL", "AGENT",
        "GET_AGENT_CARD", "CANCEL_AGENT", "PLAN_AND_COMPILE", "LIST_API_TOOLS", "GET_WORKFLOW", "UPDATE_TASK", "YIELD",
        "HTTP_POLL", "WAIT_FOR_WEBHOOK", "BUSINESS_RULE", "OPS_GENIE", "UPDATE_SECRET", "QUERY_PROCESSOR", "GET_SIGNED_JWT",
        "GET_DOCUMENT", "SENDGRID", "JDBC",
    }
)  # fmt: skip

#: Most names that are listed.
_SHOWN: Final = 10


def _worker_type(task: WorkflowTask) -> str | None:
    """The type whose worker carries out a task; None for what the decider does itself, or what is known at run time."""
    if task.type in OPERATOR_TYPES:
        return None
    return task.name if task.type in (TaskType.SIMPLE, "") else task.type


def is_server_type(name: str) -> bool:
    """Return True if tasks of a type are carried out by a server of Conductor's, and by nothing here."""
    return name in _SERVERS


def check_served(nodes: Iterable[TreePosition], served: Collection[str] | None, findings: Findings) -> None:
    """Warn, at the first task of each type, of what no worker here would carry out."""
    seen: set[str] = set()
    for node in nodes:
        kind = _worker_type(node.task)
        if kind is None or kind in seen or (served is not None and kind in served):
            continue
        seen.add(kind)
        known = served is not None or (node.task.type == kind and kind in _SERVERS)
        if known:
            findings.warn(f"{node.path}.{'type' if node.task.type == kind else 'name'}", unserved(kind, served))


def worker_types(definition: WorkflowDef) -> Iterator[str]:
    """The types that a definition needs workers for, those of inline sub-workflows included; most of them more than once."""
    waiting: list[Sequence[WorkflowTask]] = [definition.tasks]
    for tasks in waiting:
        for task in tasks:
            kind = _worker_type(task)
            if kind is not None:
                yield kind
            if holds_tasks(task):
                waiting += [inside for _, _, inside in branches(task)]
            if task.compensate is not None and (undo := task.compensation) is not None:
                waiting.append((undo,))
            params = task.sub_workflow_param
            if params is not None and isinstance(params.workflow_definition, WorkflowDef):
                waiting.append(params.workflow_definition.tasks)


def unserved(kind: str, served: Collection[str] | None) -> str:
    """Return a text saying that no worker is there for a task type, and which there are."""
    if kind in SHIPPED_TYPES and served is not None:
        return f"no worker here for {kind!r}: include those of conductorlite.ext.workers.system_workers()"
    if kind in _SERVERS:
        text = f"{kind!r} is carried out by a server of Conductor's, and by nothing here: it needs a worker of that name"
    else:
        text = f"no worker here for {kind!r}"
    if served is None:
        return text
    names = sorted(served)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there are {', '.join(names[:_SHOWN])}{more}" if names else "there are none"
    return f"{text}; {there}{did_you_mean(kind, [*names, *sorted(_KNOWN_TYPES - {'USER_DEFINED'})])}"


def find_predecessors(definition: WorkflowDef) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Per EXCLUSIVE_JOIN, per reference it names (also as a default), in its order: the references of its predecessors."""
    joins = [place for place in walk(definition) if place.task.type == TaskType.EXCLUSIVE_JOIN]
    if not joins:
        return {}
    places = {place.task.task_reference_name: place for place in walk(definition)}
    return {
        join.task.task_reference_name: {
            ref: frozenset(_predecessors(join, places[ref])) for ref in (*join.task.join_on, *join.task.default_exclusive_join_task)
        }
        for join in joins
    }


def _predecessors(join: TreePosition, target: TreePosition) -> Iterator[str]:
    around = {place.path for place in join.outwards}
    chain = list(target.outwards)
    forks = [index for index, place in enumerate(chain) if place.task.type == TaskType.FORK_JOIN and index]
    # The innermost fork around both is passed by both at once: what matters is inside it, and when it is still forking.
    inside = [index for index in forks if chain[index].path not in around]
    shared = next((index for index in forks if chain[index].path in around and _parts(join, target, chain[index])), None)
    last = shared if shared is not None else max(inside, default=None)
    if last is None:
        return
    for place in chain[: last + 1]:
        if place is not target:
            yield place.task.task_reference_name
        if place is not chain[last]:
            yield from _all_of(place.siblings[: place.index])


def _parts(join: TreePosition, target: TreePosition, fork: TreePosition) -> bool:
    """Return True if two positions below a fork are in different branches of it."""
    mine, its = where_parted(join, target)
    return mine.parent is not None and mine.parent.path == fork.path and mine.branch != its.branch


def _all_of(tasks: Sequence[WorkflowTask]) -> Iterator[str]:
    """Tasks and what is in them; a loop is live as long as anything in it, so what is in it need not be named."""
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        yield task.task_reference_name
        if task.type != TaskType.DO_WHILE:
            for _, _, inner in branches(task):
                waiting.extend(inner)


def check_fork(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A FORK_JOIN has branches, each with a task, and a JOIN right behind it."""
    if not node.task.fork_tasks:
        findings.error(f"{node.path}.forkTasks", "is empty: FORK_JOIN needs at least one branch")
    for index, branch in enumerate(node.task.fork_tasks):
        if not branch:
            findings.error(f"{node.path}.forkTasks[{index}]", "is empty: each branch needs at least one task")
    _check_followed_by_join(node, findings)


def check_dynamic_fork(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A FORK_JOIN_DYNAMIC says in exactly one of three ways what to fork, and has a JOIN right behind it."""
    task = node.task
    legacy = task.dynamic_fork_join_tasks_param is not None
    pair = (task.dynamic_fork_tasks_param is not None, task.dynamic_fork_tasks_input_param_name is not None)
    if not has_input(task, "forkTaskInputs"):
        if legacy and any(pair):
            findings.error(node.path, "has both dynamicForkJoinTasksParam and dynamicForkTasksParam; give one of them")
        elif not legacy and not all(pair):
            findings.error(
                node.path,
                "needs inputParameters.forkTaskInputs, or dynamicForkTasksParam and dynamicForkTasksInputParamName",
            )
    _check_followed_by_join(node, findings)


def _check_followed_by_join(node: TreePosition, findings: Findings) -> None:
    following = node.following
    if following is None or following.type != TaskType.JOIN:
        found = "nothing" if following is None else f"a {following.type}"
        findings.error(node.path, f"{node.task.type} must be followed directly by a JOIN, not by {found}")


def check_join(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A JOIN waits for something, and for nothing that can never end before it."""
    previous = node.previous
    if previous is not None and previous.type == TaskType.FORK_JOIN_DYNAMIC:
        # Its own list is ignored: the fork supplies what was forked.
        return
    path = f"{node.path}.joinOn"
    if not node.task.join_on:
        findings.late(
            path, "is empty: JOIN must name the tasks it waits for", "it waits for nothing, and ends as soon as it is reached"
        )
    for index, target in _targets(node.task.join_on, path, scope, findings):
        reason = _unreachable(node, target)
        if reason is not None:
            at, ref = f"{path}[{index}]", node.task.join_on[index]
            findings.late(at, f"{ref!r} {reason}, so this JOIN would never complete", "the execution waits at it")
        elif (switch := conditional_on(node, target)) is not None:
            at, ref = f"{path}[{index}]", node.task.join_on[index]
            message = f"{ref!r} runs only in one case of {switch!r}; if another is taken, this JOIN never completes"
            findings.warn(at, message)


def check_exclusive_join(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """An EXCLUSIVE_JOIN has something to wait for, and everything it names can end before it."""
    task = node.task
    if not task.join_on and not task.default_exclusive_join_task:
        findings.error(f"{node.path}.joinOn", "is empty: EXCLUSIVE_JOIN must name the tasks it waits for")
    for name, refs in (("joinOn", task.join_on), ("defaultExclusiveJoinTask", task.default_exclusive_join_task)):
        path = f"{node.path}.{name}"
        for index, target in _targets(refs, path, scope, findings):
            reason = _unreachable(node, target)
            if reason is not None:
                findings.error(f"{path}[{index}]", f"{refs[index]!r} {reason}, so it is never joined")


def _targets(refs: Sequence[str], path: str, scope: Scope, findings: Findings) -> Iterator[tuple[int, TreePosition]]:
    """The joined tasks with their indices; unknown and repeated ones are reported and left out."""
    seen: set[str] = set()
    for index, ref in enumerate(refs):
        if ref in seen:
            findings.warn(f"{path}[{index}]", f"{ref!r} is listed twice")
        elif ref not in scope.by_ref:
            findings.late(
                f"{path}[{index}]",
                f"{ref!r} is not the reference name of any task of this definition",
                "it is never joined: a JOIN waits for it for good",
            )
        else:
            yield index, scope.by_ref[ref]
        seen.add(ref)


def _unreachable(join: TreePosition, target: TreePosition) -> str | None:
    """Why `target` can never have ended when `join` looks at it, or None if it can."""
    if target is join:
        return "is the join itself"
    if target.compensates is not None:
        return "is a compensation"
    mine, other = join.loops, target.loops
    if mine != other:
        if target.task.task_reference_name in mine:
            return "is the loop this join is in"
        # Each iteration has tasks of its own: a join sees those of its own iteration and no others.
        if len(other) > len(mine):
            return f"is in the loop {other[-1]!r}, and the join is not"
        return "is not in the join's loop"
    mine_at, other_at = where_parted(join, target)
    if mine_at.branch != other_at.branch:
        return other_case(mine_at, other_at)
    return "comes after the join" if other_at.index > mine_at.index else None


def conditional_on(join: TreePosition, target: TreePosition) -> str | None:
    """The reference of a switch around `target` that is not around `join`, if there is one."""
    if not any(branch.kind in ("case", "default") for branch in target.around):
        return None
    around = {above.path for above in join.outwards}
    switches = (above for above in target.outwards if above.task.type in (TaskType.SWITCH, TaskType.DECISION))
    return next((above.ref for above in switches if above.path not in around and above is not target), None)
