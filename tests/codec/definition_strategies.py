"""Hypothesis strategies for definitions: as attrs objects, as JSON, and as JSON with one spot broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from conductorlite.model.definitions import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask

__all__ = ["broken_documents", "json_values", "spots", "task_defs", "workflow_defs", "workflow_documents"]

_characters = st.characters(codec="utf-8")
texts = st.text(_characters, max_size=8)
names = st.text(_characters, min_size=1, max_size=8)
integers = st.integers(-(2**63) + 1, 2**63 - 1)
#: Milliseconds, whole seconds and not, up to the largest that Conductor's seconds in a long can express.
durations = st.one_of(st.integers(0, 10**6), st.integers(-(2**62), 2**62), st.integers(0, 10**9).map(lambda n: n * 1000))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=4,
)
#: Properties nobody knows: their names never meet a known one.
extras = st.dictionaries(names.map(lambda name: f"x-{name}"), json_values, max_size=1)


def _of_type(kind: Any, nested: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    kind = getattr(kind, "__supertype__", kind)  # milliseconds are numbers
    if kind in nested:
        return nested[kind]
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*(_of_type(each, nested) for each in get_args(kind)))
    if get_origin(kind) is Sequence:
        entries = _of_type(get_args(kind)[0], nested)
        return st.just(()) if entries.is_empty else st.lists(entries, max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        entries = _of_type(get_args(kind)[1], nested)
        return st.just({}) if entries.is_empty else st.dictionaries(texts, entries, max_size=2)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    plain = {str: texts, bool: st.booleans(), int: integers, type(None): st.none(), Any: json_values}
    return plain[kind] if kind in plain else _objects(kind, nested)


def _objects(kind: Any, nested: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Objects of an attrs class: its required fields, and any few of the others."""
    attrs.resolve_types(kind)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in attrs.fields(kind):
        strategy = _of_type(field.type, nested)
        if field.name == "extra":
            strategy = extras
        elif field.name.endswith("_ms") and field.name != "backoff_jitter_ms":
            strategy = durations if field.default == 0 else st.none() | durations
        (required if field.default is attrs.NOTHING else optional)[field.name] = strategy
    return _some_fields(kind, required, optional)


@st.composite
def _some_fields(draw: st.DrawFn, kind: Any, required: Mapping[str, Any], optional: Mapping[str, Any]) -> Any:
    # All fields at once would make examples of thousands of parts, of which Hypothesis could only try a handful.
    chosen = draw(st.lists(st.sampled_from(sorted(optional)), max_size=6, unique=True))
    return kind(**{name: draw({**required, **optional}[name]) for name in (*required, *chosen)})


def task_defs() -> st.SearchStrategy[TaskDef]:
    """Task definitions with any of their fields."""
    return _objects(TaskDef, {})


def _params(inline: st.SearchStrategy[Any]) -> st.SearchStrategy[SubWorkflowParams]:
    expressions = texts.map(lambda text: f"${{{text}}}")
    definition = WorkflowDef | str | None
    return _objects(SubWorkflowParams, {definition: st.none() | expressions | inline})


def workflow_defs() -> st.SearchStrategy[WorkflowDef]:
    """Workflow definitions with any of their fields, a few levels deep, inline definitions included."""
    leaves = _objects(WorkflowTask, {WorkflowTask: st.nothing(), SubWorkflowParams: _params(st.nothing())})
    shallow = _objects(WorkflowDef, {WorkflowTask: leaves})
    tasks = leaves
    for _ in range(2):
        tasks = _objects(WorkflowTask, {WorkflowTask: tasks, SubWorkflowParams: _params(shallow)})
    return _objects(WorkflowDef, {WorkflowTask: tasks})


def workflow_documents() -> st.SearchStrategy[dict[str, Any]]:
    """Workflow definitions as JSON, valid for the codec (not necessarily for the validator)."""
    return workflow_defs().map(WorkflowDef.to_json)


def spots(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a JSON value something could be replaced: the keys that lead to each part of it."""
    found = [path]
    if isinstance(document, dict):
        for key, entry in document.items():
            found += spots(entry, (*path, key))
    elif isinstance(document, list):
        for index, entry in enumerate(document):
            found += spots(entry, (*path, index))
    return found


@st.composite
def broken_documents(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document with one random part replaced by any JSON value, or removed."""
    document = draw(documents)
    where = draw(st.sampled_from(spots(document)))
    if not where:
        return draw(json_values)
    *above, last = where
    holder = document
    for key in above:
        holder = holder[key]
    if draw(st.booleans()):
        holder[last] = draw(json_values)
    else:
        del holder[last]
    return document
