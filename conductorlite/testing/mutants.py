"""Small mistakes in a definition, of the kind people make: each is a mutant, and a test should fail for it.

A mutant is a place in the definition's JSON and what is put there. It can be made of any definition that has that place.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import attrs

from conductorlite.flows.tasks import retry_fields
from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.errors import ConductorliteError
from conductorlite.plan.validate import validate

__all__ = ["Mutant", "mutants_of"]

_Path = tuple[str | int, ...]

_DEADLINES: Final = ("responseTimeoutSeconds", "timeoutSeconds", "totalTimeoutSeconds")

#: A reference to what another task or the workflow has.
_REFERENCE: Final = re.compile(r"\$\{[^}]+\}")


@attrs.frozen(kw_only=True, slots=True)
class Mutant:
    """One mistake: at `path` in the JSON, about the task `ref` (empty: the workflow), in words, and how a test could see it."""

    ref: str
    path: _Path
    what: str
    try_this: str
    change: Callable[[Any], Any] = attrs.field(repr=False, eq=False)

    @property
    def place(self) -> str:
        """The path as it is written."""
        return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)

    def made_of(self, definition: WorkflowDef) -> WorkflowDef | None:
        """The definition with the mistake; None when it has no such place, or could not be started with it."""
        document = copy.deepcopy(definition.to_json())
        try:
            *above, last = self.path
            owner: Any = document
            for part in above:
                owner = owner[part]
            owner[last] = self.change(owner[last])
            made = WorkflowDef.from_json(document)
        except (KeyError, IndexError, TypeError, ConductorliteError):
            return None
        if made == definition or any(problem.severity == "error" for problem in validate(made)):
            return None
        return made


def mutants_of(definition: WorkflowDef) -> list[Mutant]:
    """Every mutant of a definition that could be started, in the order of its tasks."""
    document = definition.to_json()
    found = [*_of_tasks(document.get("tasks", []), ("tasks",)), *_of_workflow(document)]
    return [one for one in found if one.made_of(definition) is not None]


def _of_workflow(document: Mapping[str, Any]) -> Iterator[Mutant]:
    for name in document.get("outputParameters", {}):
        yield _mutant("", ("outputParameters", name), "is nothing", f"look at `{name}` of the result", lambda _: None)
    if document.get("timeoutSeconds"):
        yield _mutant("", ("timeoutSeconds",), "is 1 s", "let a run take nearly as long as it may", lambda _: 1)
    if document.get("failureWorkflow"):
        yield _mutant(
            "", ("failureWorkflow",), "is gone", "let a run fail, and look at what its failure workflow did", lambda _: None
        )


def _of_tasks(tasks: Sequence[Mapping[str, Any]], path: _Path) -> Iterator[Mutant]:
    for number, task in enumerate(tasks):
        here: _Path = (*path, number)
        ref = task["taskReferenceName"]
        if task.get("type") not in ("FORK_JOIN", "JOIN", "FORK_JOIN_DYNAMIC"):
            text = f"look at what {ref} does, or at what it puts out"
            yield _mutant(ref, path, f"goes on without {ref}", text, _dropping(number))
        yield from _of_task(ref, task, here)
        yield from _of_parts(ref, task, here)


def _of_task(ref: str, task: Mapping[str, Any], here: _Path) -> Iterator[Mutant]:
    """Yield what is wrong with a task by itself."""
    inputs = [
        name for name, value in task.get("inputParameters", {}).items() if isinstance(value, str) and _REFERENCE.search(value)
    ]
    for at, name in enumerate(inputs):
        yield _mutant(ref, (*here, "inputParameters", name), "is nothing", f"look at the input `{name}` of {ref}", lambda _: None)
        for other in inputs[at + 1 :]:
            text = f"give {name} and {other} values that differ, and look at the input of {ref}"
            yield _mutant(ref, (*here, "inputParameters"), f"{name} and {other} are swapped", text, _swapping(name, other))
    if "optional" in task or task.get("type", "SIMPLE") == "SIMPLE":
        text = f"let {ref} fail for good, and look at what follows"
        yield _mutant(ref, here, "is optional" if not task.get("optional") else "is not optional", text, _flipping("optional"))
    if "compensate" in task:
        text = f"let a task after {ref} fail for good, and look at what undoes it"
        yield _mutant(ref, here, "is not compensated", text, _without("compensate"))
    for owner in ((), ("taskDefinition",)):
        fields = dict(task.get("taskDefinition", {}) if owner else task)
        if owner and task.get("retryCount") is not None:
            fields.pop("retryCount", None)  # the task's own counts
        yield from _of_policy(ref, fields, (*here, *owner))
    if task.get("type") == "WAIT" and isinstance(task.get("inputParameters", {}).get("duration"), str):
        text = f"look at when {ref} ends, to the second"
        yield _mutant(ref, (*here, "inputParameters", "duration"), "is 1 s", text, lambda _: "1 seconds")
    if task.get("type") == "TERMINATE":
        text = f"let a run come to {ref}, and look at its status"
        flip = {"COMPLETED": "FAILED", "FAILED": "COMPLETED", "TERMINATED": "COMPLETED"}
        where = (*here, "inputParameters", "terminationStatus")
        yield _mutant(ref, where, "is another status", text, lambda value: flip.get(value, "FAILED"))


def _of_policy(ref: str, fields: Mapping[str, Any], here: _Path) -> Iterator[Mutant]:
    many, default = fields.get("retryCount"), _retries_of_a_task()
    if many and any(fields.get(name) != value for name, value in default.items()):  # a default that nobody wrote is no rule to test
        text = f"let {ref} fail {many} times, then {many + 1} times, and look at what follows"
        yield _mutant(ref, (*here, "retryCount"), "is 0", text, lambda _: 0)
        yield _mutant(ref, (*here, "retryCount"), f"is {many + 1}", text, lambda value: value + 1)
        if fields.get("retryDelaySeconds"):
            text = f"look at the instants of {ref}'s attempts"
            yield _mutant(ref, (*here, "retryDelaySeconds"), "is three times as long", text, lambda value: 3 * value)
    for name in _DEADLINES:
        if fields.get(name, 0) > 1:
            text = f"let {ref} take nearly {fields[name]} s" + (", without a sign of life" if name.startswith("resp") else "")
            yield _mutant(ref, (*here, name), "is 1 s", text, lambda _: 1)


@cache
def _retries_of_a_task() -> Mapping[str, Any]:
    """The fields of retries that `@task` gives a definition by itself."""
    written = TaskDef(name="task", **retry_fields(None)).to_json()
    return {name: value for name, value in written.items() if name != "name"}


def _of_parts(ref: str, task: Mapping[str, Any], here: _Path) -> Iterator[Mutant]:
    """Yield what is wrong with what is inside a task, or which tasks it waits for."""
    for at, joined in enumerate(task.get("joinOn", ())):
        text = f"let {joined} end last, and look at what comes after {ref}"
        yield _mutant(
            ref, (*here, "joinOn"), f"does not wait for {joined}", text, lambda value, at=at: [*value[:at], *value[at + 1 :]]
        )
    cases = [*task.get("decisionCases", {})]
    for at, case in enumerate(cases):
        other = cases[at + 1] if at + 1 < len(cases) else None
        text = f"let {ref} come to {case!r}, and look at what runs"
        shown = "the default" if other is None else repr(other)
        yield _mutant(ref, here, f"{case!r} and {shown} are swapped", text, _swapping_cases(case, other))
    if task.get("loopCondition"):
        text = f"count the rounds of {ref}"
        yield _mutant(ref, (*here, "loopCondition"), "is never true", text, lambda _: "false")
    for case in cases:
        yield from _of_tasks(task["decisionCases"][case], (*here, "decisionCases", case))
    for name in ("defaultCase", "loopOver"):
        yield from _of_tasks(task.get(name) or (), (*here, name))
    for at, branch in enumerate(task.get("forkTasks", ())):
        yield from _of_tasks(branch, (*here, "forkTasks", at))
    if isinstance(task.get("compensate"), dict):
        undo = task["compensate"]
        yield from _of_task(undo["taskReferenceName"], undo, (*here, "compensate"))


def _mutant(ref: str, path: _Path, what: str, try_this: str, change: Callable[..., Any]) -> Mutant:
    return Mutant(ref=ref, path=path, what=what, try_this=try_this, change=change)


def _dropping(at: int) -> Callable[[Any], Any]:
    return lambda value: [*value[:at], *value[at + 1 :]]


def _swapping(name: str, other: str) -> Callable[[Any], Any]:
    return lambda value: {**value, name: value[other], other: value[name]}


def _flipping(name: str) -> Callable[[Any], Any]:
    return lambda value: {**value, name: not value.get(name, False)}


def _without(name: str) -> Callable[[Any], Any]:
    return lambda value: {key: one for key, one in value.items() if key != name}


def _swapping_cases(case: str, other: str | None) -> Callable[[Any], Any]:
    def swapped(task: Any) -> Any:
        cases = task["decisionCases"]
        if other is not None:
            return {**task, "decisionCases": {**cases, case: cases[other], other: cases[case]}}
        return {**task, "decisionCases": {**cases, case: task.get("defaultCase", [])}, "defaultCase": cases[case]}

    return swapped
