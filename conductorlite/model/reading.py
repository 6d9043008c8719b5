"""JSON → definitions: what each type is read by, and all that is wrong, with its path.

Readers are made of the annotations of a class when its first value comes. How deep a document nests tasks within tasks is found
without recursion, before anything recurses over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial, reduce
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from conductorlite.model import attrs
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import (
    ANSWERED,
    DURATION_PROPERTIES,
    EXTRA,
    INSTANTS,
    MAX_NESTING,
    REQUIRED_TEXT,
    Wrong,
    boolean,
    choice,
    duration_ms,
    instant,
    integer,
    json_names,
    shown,
    step_path,
    strict_text,
    text,
)

__all__ = ["structured", "too_deep"]


def too_deep(document: object) -> list[Problem]:
    """One problem at the first task deeper than MAX_NESTING, or none; anything misshapen is left to the reader."""
    stack: list[tuple[object, str, int]] = [(task, path, 1) for task, path in _of_workflow(document, "$")]
    while stack:
        task, path, depth = stack.pop()
        if depth > MAX_NESTING:
            return [Problem(path=path, message=f"tasks are nested deeper than {MAX_NESTING} levels")]
        stack.extend((child, child_path, depth + 1) for child, child_path in _of_task(task, path))
    return []


def _of_workflow(document: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(document, dict):
        yield from _of_list(document.get("tasks"), step_path(path, "tasks"))
        request = document.get("startWorkflowRequest")
        if isinstance(request, dict):
            yield from _of_workflow(request.get("workflowDef"), f"{path}.startWorkflowRequest.workflowDef")


def _of_task(task: object, path: str) -> Iterator[tuple[object, str]]:
    if not isinstance(task, dict):
        return
    for name in ("defaultCase", "loopOver"):
        yield from _of_list(task.get(name), step_path(path, name))
    cases = task.get("decisionCases")
    if isinstance(cases, dict):
        for key, tasks in cases.items():
            yield from _of_list(tasks, step_path(step_path(path, "decisionCases"), key))
    branches = task.get("forkTasks")
    if isinstance(branches, list):
        for index, branch in enumerate(branches):
            yield from _of_list(branch, step_path(step_path(path, "forkTasks"), index))
    if isinstance(task.get("compensate"), dict):
        yield task["compensate"], step_path(path, "compensate")
    params = task.get("subWorkflowParam")
    if isinstance(params, dict):
        yield from _of_workflow(params.get("workflowDefinition"), f"{path}.subWorkflowParam.workflowDefinition")


def _of_list(tasks: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(tasks, list):
        for index, task in enumerate(tasks):
            yield task, step_path(path, index)


class _Wrongs(list[tuple[list[str | int], str]]):
    """What is wrong: the steps to where it is, the last one first, and a message."""

    def say(self, message: object, *steps: str | int) -> object:
        self.append(([*steps], str(message)))
        return None

    def below(self, since: int, step: str | int) -> None:
        """What was said since then is below this step."""
        for steps, _ in self[since:]:
            steps.append(step)

    def problems(self) -> list[Problem]:
        return [Problem(path=reduce(step_path, reversed(steps), "$"), message=message) for steps, message in self]


#: Reads a value; what it gives where it has said that something is wrong is of no use.
_Reader = Callable[[Any, _Wrongs], Any]


def structured(document: object, kind: Any) -> Any:
    """A parsed document as `kind`, or a list of `Sequence[kind]`; raises InvalidDefinition with all problems at once."""
    deep = too_deep(document)
    if deep:
        raise InvalidDefinition(deep)
    wrongs = _Wrongs()
    try:
        value = _reader(kind)(document, wrongs)
    except RecursionError:
        # Within MAX_NESTING this happens only to a caller who has used up most of the stack before.
        problem = Problem(path="$", message="nested too deeply for what is left of the stack")
        raise InvalidDefinition([problem]) from None
    if wrongs:
        raise InvalidDefinition(wrongs.problems())
    return value


@cache
def _reader(kind: Any) -> _Reader:
    """What reads values of a type."""
    if kind is Any:
        return lambda value, _: value
    if attrs.has(kind):
        return _later(kind)
    if get_origin(kind) in (Union, UnionType):
        return _of_union(kind, {*get_args(kind)} - {type(None)})
    if get_origin(kind) is Sequence:
        return _of_lists(*get_args(kind))
    if get_origin(kind) is Mapping:
        return _of_maps(get_args(kind)[1])
    if kind in _SCALARS:
        return _of_scalars(_SCALARS[kind])
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise TypeError(f"nothing here reads a {kind}")
    return _of_scalars(partial(choice, kind=kind))


_SCALARS: Final[dict[Any, Callable[[Any], object]]] = {str: text, bool: boolean, int: integer}


def _of_scalars(read: Callable[[Any], object]) -> _Reader:
    def structure(value: Any, wrongs: _Wrongs) -> object:
        try:
            return read(value)
        except Wrong as error:
            return wrongs.say(error)

    return structure


def _later(kind: Any) -> _Reader:
    """The reader of a class, made when its first value comes: the classes refer to each other in a circle."""
    made = cache(partial(_of_class, kind))
    return lambda value, wrongs: made()(value, wrongs)


def _of_class(kind: Any) -> _Reader:
    attrs.resolve_types(kind)
    names = json_names(kind)
    fields = [(names[field.name], field) for field in attrs.fields(kind) if field.name != EXTRA]
    readers = [(name, field.name, _of_field(kind, field), field.default is attrs.NOTHING) for name, field in fields]
    blank_is_absent = {name for name, field in fields if field.type in (int, bool, int | None, bool | None)}
    known, dropped = frozenset(names.values()), ANSWERED.get(kind.__name__, frozenset())
    keeps = EXTRA in attrs.fields_dict(kind)

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if not isinstance(value, dict):
            return wrongs.say(f"expected an object, got {shown(value)}")
        given: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, entry in value.items():
            if key not in known:
                if key not in dropped:
                    unknown[key] = entry
            elif entry is not None and not (key in blank_is_absent and isinstance(entry, str) and not entry.strip()):
                given[key] = entry
        if kind.__name__ == "WorkflowTask":
            _stand_in(given, unknown)
        values: dict[str, Any] = {EXTRA: unknown} if keeps else {}
        begun = len(wrongs)
        for name, field, read, required in readers:
            if name in given:
                before = len(wrongs)
                values[field] = read(given[name], wrongs)
                wrongs.below(before, name)
            elif required:
                wrongs.say("is missing", name)
        if len(wrongs) > begun:
            return None
        try:
            return kind(**values)
        except InvalidInput as error:
            return wrongs.say(error)

    return structure


def _of_field(kind: Any, field: attrs.Attribute[Any]) -> _Reader:
    if field.name in DURATION_PROPERTIES:
        return _of_scalars(duration_ms)
    if field.name in INSTANTS:
        return _of_scalars(instant)
    if field.name in REQUIRED_TEXT.get(kind.__name__, ()):
        return _of_scalars(strict_text)
    wanted: Any = field.type
    return _reader(wanted)


def _stand_in(given: dict[str, Any], unknown: dict[str, Any]) -> None:
    """Fill in a `type` that is only given as `workflowTaskType`, and the name an embedded definition leaves out."""
    if "type" not in given and unknown.get("workflowTaskType") is not None:
        given["type"] = unknown.pop("workflowTaskType")
    task_def = given.get("taskDefinition")
    if isinstance(task_def, dict) and task_def.get("name") is None and isinstance(given.get("name"), str):
        given["taskDefinition"] = {**task_def, "name": given["name"]}


def _of_lists(entry_kind: Any) -> _Reader:
    read = _reader(entry_kind)

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if value is None:
            return ()
        if not isinstance(value, list):
            return wrongs.say(f"expected a list, got {shown(value)}")
        return tuple(_entries(enumerate(value), read, wrongs))

    return structure


def _of_maps(entry_kind: Any) -> _Reader:
    read = _reader(entry_kind)

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if not isinstance(value, dict):
            return wrongs.say(f"expected an object, got {shown(value)}")
        return value if entry_kind is Any else dict(zip(value, _entries(value.items(), read, wrongs), strict=True))

    return structure


def _entries(entries: Iterable[tuple[Any, Any]], read: _Reader, wrongs: _Wrongs) -> Iterator[Any]:
    """Each entry read: one bad entry does not hide the next."""
    for key, entry in entries:
        before = len(wrongs)
        yield read(entry, wrongs)
        wrongs.below(before, key)


#: What a text may stand for in the place of an object, and whether it is one that does.
_TEXT_FOR: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "WorkflowDef": ("an object or an expression ${…}", lambda value: value.startswith("${") and value.endswith("}")),
    "WorkflowTask": ("a task or the name of one", lambda value: True),
}


def _of_union(kind: Any, members: set[Any]) -> _Reader:
    """Of one type or null; or of a text that may stand in the place of a member of an enumeration, or of an object."""
    if len(members) == 1:
        read = _reader(*members)
        return lambda value, wrongs: None if value is None else read(value, wrongs)
    (other,) = members - {str}
    if issubclass(other, Enum):
        return _of_scalars(lambda value: None if value is None else other(value) if value in [*other] else text(value))
    read, (expected, stands) = _reader(other), _TEXT_FOR[other.__name__]

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if isinstance(value, dict):
            return read(value, wrongs)
        if value is None or (isinstance(value, str) and stands(value)):
            return value
        return wrongs.say(f"expected {expected}, got {shown(value)}")

    return structure
