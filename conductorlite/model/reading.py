"""JSON → definitions: cattrs structures, we say how each scalar is read and turn its errors into problems with paths.

The only module that imports cattrs; it is itself imported on first use. How deep a document nests tasks within tasks is found
without recursion, before anything recurses over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from functools import cache, partial
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from cattrs import Converter
from cattrs.errors import AttributeValidationNote, BaseValidationError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from conductorlite.model import attrs
from conductorlite.model.errors import InvalidDefinition, Problem
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


Hook = Callable[[Any, Any], Any]

#: The key under which unknown properties are handed to cattrs; no property has it, because all that are unknown are
#: below it.
_UNKNOWN = "(unknown)"


def structured(document: object, kind: Any) -> Any:
    """A parsed document as `kind`, or a list of `Sequence[kind]`; raises InvalidDefinition with all problems at once."""
    deep = too_deep(document)
    if deep:
        raise InvalidDefinition(deep)
    try:
        return _converter().structure(document, kind)
    except RecursionError:
        # Within MAX_NESTING this happens only to a caller who has used up most of the stack before.
        problem = Problem(path="$", message="nested too deeply for what is left of the stack")
        raise InvalidDefinition([problem]) from None
    except (BaseValidationError, Wrong) as error:
        raise InvalidDefinition(list(_problems(error))) from None


def _problems(error: BaseException) -> list[Problem]:
    """All leaves of cattrs' tree of errors, in document order, with the path each was raised at."""
    found: list[Problem] = []
    stack: list[tuple[BaseException, str]] = [(error, "$")]
    while stack:
        error, path = stack.pop()
        if isinstance(error, BaseValidationError):
            stack.extend((child, _child_path(child, path, error.cl)) for child in reversed(error.exceptions))
        elif isinstance(error, KeyError):
            found.append(Problem(path=path, message="is missing"))
        else:
            found.append(Problem(path=path, message=str(error)))
    return found


def _child_path(error: BaseException, path: str, kind: Any) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            return step_path(path, note.index)
        if isinstance(note, AttributeValidationNote):
            return step_path(path, json_names(kind)[note.name])
    return path


@cache
def _converter() -> Converter:
    converter = Converter(detailed_validation=True)
    for scalar, read in ((str, text), (bool, boolean), (int, integer)):
        converter.register_structure_hook(scalar, _ignoring_type(read))
    converter.register_structure_hook(StrEnum, choice)
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    converter.register_structure_hook_factory(_is(Sequence), _list_hook)
    converter.register_structure_hook_factory(_is(Mapping), _map_hook)
    converter.register_structure_hook_factory(lambda kind: _other_than_text(kind) is not None, _or_text_hook)
    return converter


def _ignoring_type(read: Callable[[Any], Any]) -> Hook:
    return lambda value, _: read(value)


def _is(origin: type) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _class_hook(kind: Any, converter: Converter) -> Hook:
    """The hook of a class, generated when its first value comes: the classes refer to each other in a circle."""
    made = cache(partial(_generated, kind, converter))
    return lambda value, _: made()(value, kind)


def _generated(kind: Any, converter: Converter) -> Hook:
    names = json_names(kind)
    strict = REQUIRED_TEXT.get(kind.__name__, frozenset())
    overrides: dict[str, Any] = {EXTRA: override(rename=_UNKNOWN)}
    for field, name in names.items():
        if field in DURATION_PROPERTIES:
            overrides[field] = override(rename=name, struct_hook=_ignoring_type(duration_ms))
        elif field in INSTANTS:
            overrides[field] = override(rename=name, struct_hook=_ignoring_type(instant))
        elif field in strict:
            overrides[field] = override(rename=name, struct_hook=_ignoring_type(strict_text))
        else:
            overrides[field] = override(rename=name)
    generated = make_dict_structure_fn(kind, converter, _cattrs_detailed_validation=True, **overrides)
    known = frozenset(names.values())
    dropped = ANSWERED.get(kind.__name__, frozenset())
    blank_is_absent = _numeric_properties(kind)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, got {shown(value)}")
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
        given[_UNKNOWN] = unknown
        return generated(given, kind)

    return structure


def _stand_in(given: dict[str, Any], unknown: dict[str, Any]) -> None:
    """Fill in a `type` that is only given as `workflowTaskType`, and the name an embedded definition leaves out."""
    if "type" not in given and unknown.get("workflowTaskType") is not None:
        given["type"] = unknown.pop("workflowTaskType")
    task_def = given.get("taskDefinition")
    if isinstance(task_def, dict) and task_def.get("name") is None and isinstance(given.get("name"), str):
        given["taskDefinition"] = {**task_def, "name": given["name"]}


def _numeric_properties(kind: Any) -> frozenset[str]:
    names = json_names(kind)
    attrs.resolve_types(kind)
    numeric = (int, bool, int | None, bool | None)
    return frozenset(names[field.name] for field in attrs.fields(kind) if field.type in numeric)


def _list_hook(kind: Any, converter: Converter) -> Hook:
    (entry_kind,) = get_args(kind)

    def structure(value: Any, _: Any) -> Any:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise Wrong(f"expected a list, got {shown(value)}")
        return tuple(_entries(enumerate(value), entry_kind, converter, kind))

    return structure


def _map_hook(kind: Any, converter: Converter) -> Hook:
    _, entry_kind = get_args(kind)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, got {shown(value)}")
        if entry_kind is Any:
            return value
        return dict(zip(value, _entries(value.items(), entry_kind, converter, kind), strict=True))

    return structure


def _entries(entries: Any, entry_kind: Any, converter: Converter, kind: Any) -> list[Any]:
    """Each entry structured; all errors are gathered, so that one bad entry does not hide the next."""
    read = converter.get_structure_hook(entry_kind)
    done: list[Any] = []
    errors: list[Exception] = []
    for key, entry in entries:
        try:
            done.append(read(entry, entry_kind))
        except (BaseValidationError, Wrong) as error:
            error.__notes__ = [*getattr(error, "__notes__", ()), IterableValidationNote(f"at {key!r}", key, entry_kind)]
            errors.append(error)
    if errors:
        raise IterableValidationError("entries", errors, kind)
    return done


#: What a text may stand for in the place of an object, and whether it is one that does.
_TEXT_FOR: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "WorkflowDef": ("an object or an expression ${…}", lambda value: value.startswith("${") and value.endswith("}")),
    "WorkflowTask": ("a task or the name of one", lambda value: True),
}


def _other_than_text(kind: Any) -> Any:
    """The enumeration or class in whose place a text may stand; None for any other type."""
    members = {*get_args(kind)} if get_origin(kind) in (Union, UnionType) else set()
    return next(iter(members - {str, type(None)}), None) if str in members else None


def _or_text_hook(kind: Any, converter: Converter) -> Hook:
    other = _other_than_text(kind)

    def enumerated(value: Any, _: Any) -> Any:
        if isinstance(value, str) and value in other.__members__:
            return other(value)
        return None if value is None else text(value)

    def structure(value: Any, _: Any) -> Any:
        expected, stands = _TEXT_FOR[other.__name__]
        if isinstance(value, dict):
            return converter.structure(value, other)
        if value is None or (isinstance(value, str) and stands(value)):
            return value
        raise Wrong(f"expected {expected}, got {shown(value)}")

    return enumerated if issubclass(other, Enum) else structure
