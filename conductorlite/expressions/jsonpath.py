"""JSONPath with the answers Conductor's library (Jayway) gives: paths are compiled once and evaluated on values.

A *definite* path names one place and answers a value, or None where nothing is; an *indefinite* one (`[*]`, `..`,
slices, unions of indexes, filters) answers a list. `['a','b']` at the end answers a map of those keys. Functions at
the end (`.length()`, `.sum()` …) apply to what the path before them found, each result by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.filters import Filter, compile_filter
from conductorlite.expressions.pathtext import (
    FilterText,
    Function,
    Indexes,
    Key,
    Keys,
    Segment,
    Slice,
    Wild,
    split_path,
)
from conductorlite.expressions.sources import MISSING, Json, Missing

__all__ = ["Path", "compile_path", "walk"]

_Step: TypeAlias = Key | Keys | Indexes | Slice | Wild | Function | Filter
#: Values that one step may find: beyond any document the engine keeps in one piece, and still under a second. It bounds
#: what repeated `..` and `[0,0]` would multiply.
_MAX_FOUND: Final = 500_000


@attrs.frozen(kw_only=True)
class Path:
    """A compiled path.

    `steps` is what to do after the `plain` prefix (keys and single indexes, resolved by `walk`); `scans[i]` says that
    steps[i] is preceded by `..`. `reads_document` says that a filter uses `$`.
    """

    text: str
    plain: tuple[str | int, ...]
    steps: tuple[_Step, ...]
    scans: tuple[bool, ...]
    definite: bool
    reads_document: bool

    @property
    def answers_list(self) -> bool:
        """Whether the answer is the list of all that was found."""
        return not self.definite and not self._folds

    @property
    def _folds(self) -> bool:
        # `$..x.sum()`: a scan at the very start hands its whole list to the function.
        return not self.plain and len(self.steps) > 1 and self.scans[0] and isinstance(self.steps[-1], Function)

    def evaluate(self, base: Json | Missing, skip: int, document: Callable[[], Json]) -> Json:
        """The answer, where `base` is the value that the first `skip` plain steps led to (MISSING: to nothing).

        Never raises: what cannot be evaluated answers None (definite path or function) or an empty list.
        """
        value = walk(base, self.plain[skip:])
        if not self.steps:
            return None if value is MISSING else value
        calls = isinstance(self.steps[-1], Function)
        try:
            found = [] if value is MISSING else self._run(value, document)
        except (ExpressionFailed, OverflowError, ValueError):
            return None if calls or self.definite else []
        if not found:
            return None if calls or self.definite else []
        return found if self.answers_list else found[-1]

    def leads_somewhere(self, base: Json, document: Callable[[], Json]) -> bool:
        """Whether the path finds anything, be it null."""
        value = walk(base, self.plain)
        try:
            return value is not MISSING and (not self.steps or bool(self._run(value, document)))
        except (ExpressionFailed, OverflowError, ValueError):
            return False

    def _run(self, value: Json, document: Callable[[], Json]) -> list[Json]:
        nodes = [value]
        last = len(self.steps) - 1
        for index, (step, scan) in enumerate(zip(self.steps, self.scans, strict=True)):
            if scan:
                nodes = _collect(_descendants(node) for node in nodes)
            if index == last and self._folds:
                nodes = [nodes]
            if isinstance(step, Keys) and index < last:
                nodes = _collect(map(node.get, filter(node.__contains__, step.names)) for node in _maps(nodes))
            else:
                nodes = _collect(_apply(step, node, document) for node in nodes)
        return nodes


def _maps(nodes: Iterable[Json]) -> Iterable[dict[str, Json]]:
    return (node for node in nodes if isinstance(node, dict))


def _collect(batches: Iterable[Iterable[Json]]) -> list[Json]:
    found: list[Json] = []
    for batch in batches:
        found.extend(batch)
        if len(found) > _MAX_FOUND:
            raise ExpressionFailed(f"a path finds more than {_MAX_FOUND:,} values")
    return found


def walk(value: Json | Missing, steps: Iterable[str | int]) -> Json | Missing:
    """Follow keys into maps and indexes into lists (negative ones from the end); MISSING where the way ends."""
    for step in steps:
        if type(step) is int:
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return MISSING
            value = value[step]
        else:
            if not isinstance(value, dict) or step not in value:
                return MISSING
            value = value[step]
    return value


@lru_cache(maxsize=2048)
def compile_path(text: str) -> Path:
    """Compile a path, with or without a leading `$.`; raises InvalidExpression saying what is wrong and where."""
    segments = split_path(text)
    count = 0
    while count < len(segments) and _plain(segments[count]) is not None:
        count += 1
    plain = tuple(step for segment in segments[:count] if (step := _plain(segment)) is not None)
    rest = segments[count:]
    steps = tuple(compile_filter(segment.text, compile_path) if isinstance(segment, FilterText) else segment for segment in rest)
    return Path(
        text=text,
        plain=plain,
        steps=steps,
        scans=tuple(segment.scan for segment in rest),
        definite=all(_definite(segment, segment is segments[-1]) for segment in rest),
        reads_document=any(isinstance(step, Filter) and step.reads_document for step in steps),
    )


def _plain(segment: Segment) -> str | int | None:
    if segment.scan:
        return None
    if isinstance(segment, Key):
        return segment.name
    if isinstance(segment, Indexes) and len(segment.indexes) == 1:
        return segment.indexes[0]
    return None


def _definite(segment: Segment, last: bool) -> bool:
    if segment.scan:
        return False
    if isinstance(segment, Keys):
        return last
    return isinstance(segment, Key | Function) or (isinstance(segment, Indexes) and len(segment.indexes) == 1)


def _descendants(node: Json) -> Iterable[Json]:
    """The node and all maps and lists below it, each before what it holds, in document order."""
    stack = [node]
    visited = 0
    while stack:
        item = stack.pop()
        yield item
        visited += 1
        if visited > _MAX_FOUND:
            raise ExpressionFailed(f"`..` visits more than {_MAX_FOUND:,} values")
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend(child for child in reversed(list(inner)) if isinstance(child, dict | list))


def _apply(step: _Step, node: Json, document: Callable[[], Json]) -> Iterable[Json]:
    if isinstance(step, Key):
        return [node[step.name]] if isinstance(node, dict) and step.name in node else []
    if isinstance(step, Wild):
        return node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    if isinstance(step, Keys):
        return [{name: node[name] for name in step.names if name in node}] if isinstance(node, dict) else []
    if isinstance(step, Filter):
        # On a map Jayway tests the map itself, where RFC 9535 tests its values.
        items = node if isinstance(node, list) else [node] if isinstance(node, dict) else []
        return step.select(items, document)
    if isinstance(step, Function):
        return [_call(step, node)]
    if not isinstance(node, list):
        return []
    if isinstance(step, Slice):
        return node[step.start : step.stop : step.step]
    return [node[index] for index in step.indexes if -len(node) <= index < len(node)]


def _call(function: Function, node: Json) -> Json:
    name = function.name
    if name in ("length", "size"):
        return len(node) if isinstance(node, dict | list) else None
    if name == "keys":
        return list(node) if isinstance(node, dict) else None
    if not isinstance(node, list):
        raise ExpressionFailed(f".{name}() needs a list")
    if name == "concat":
        return "".join(item for item in node if isinstance(item, str))
    if name in ("first", "last", "index"):
        index = {"first": 0, "last": -1}.get(name, function.argument)
        if not -len(node) <= index < len(node):
            raise ExpressionFailed(f".{name}() is out of range")
        return node[index]
    numbers = [float(item) for item in node if isinstance(item, int | float) and not isinstance(item, bool)]
    if not numbers:
        raise ExpressionFailed(f".{name}() found no numbers")
    return _aggregate(name, numbers)


def _aggregate(name: str, numbers: list[float]) -> float:
    if name == "sum":
        return sum(numbers)
    if name == "min":
        return min(numbers)
    if name == "max":
        return max(numbers)
    mean = sum(numbers) / len(numbers)
    if name == "avg":
        return mean
    return math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))
