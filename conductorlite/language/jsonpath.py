"""JSONPath with the answers Conductor's library (Jayway 2.9.0) gives: paths are compiled once and evaluated on values.

A *definite* path names one place and answers a value, or None where nothing is; an *indefinite* one (`[*]`, `..`,
slices, unions of indexes, filters) answers a list. `['a','b']` at the end answers a map of those keys. What functions answer
stands below. Source: Jayway's README, and what its release answers.

`Reads` is what a path reads, known before it is evaluated: it lets the engine load no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.language.paths import Call, Indexes, Keys, Slice, Wild, split_path
from conductorlite.language.values import MISSING, double, to_text
from conductorlite.model.errors import ExpressionFailed, InvalidExpression
from conductorlite.model.later import module, pattern

if TYPE_CHECKING:
    from conductorlite.language import comparisons, filters
    from conductorlite.language.comparisons import Budget
    from conductorlite.language.paths import PathStep
    from conductorlite.language.values import Json, Missing
else:
    comparisons = module("conductorlite.language.comparisons")
    filters = module("conductorlite.language.filters")

__all__ = ["NOTHING", "Path", "Reads", "call", "compile_path", "reads_of_path", "reads_of_prefix", "walk"]

#: Where Java's search for the largest and the smallest number begins.
_LEAST: Final = 5e-324
_MOST: Final = 1.7976931348623157e308


def call(name: str, node: Json, arguments: list[Json]) -> Json:
    """Return what a function answers of a value and its arguments.

    Raises ExpressionFailed when it is not made for such a value, IndexError when there is no such item.
    """
    if name in ("length", "size"):
        return len(node) if isinstance(node, dict | list) else None
    if name == "keys":
        return list(node) if isinstance(node, dict) else None
    if name == "append":
        return [*node, *arguments] if isinstance(node, list) else node
    items = node if isinstance(node, list) else []
    if name == "concat":
        return "".join([item for item in items if isinstance(item, str)] + [to_text(item) for item in _all(arguments)])
    if name in ("first", "last", "index"):
        if not isinstance(node, list):
            raise ExpressionFailed(f".{name}() needs a list")
        return _item(node, {"first": 0, "last": -1}[name] if name != "index" else _numbers(_all(arguments))[0])
    return _aggregate(name, [double(number) for number in _numbers([*items, *_all(arguments)])])


def _all(arguments: list[Json]) -> list[Json]:
    """The arguments, and what the lists among them hold."""
    return [item for each in arguments for item in (each if isinstance(each, list) else [each]) if item is not None]


def _numbers(items: Iterable[Json]) -> list[int | float]:
    return [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]


def _item(items: list[Json], index: float) -> Json:
    at = int(index)
    if at < 0 and len(items) + at <= 0:  # Jayway does not reach the first item from the end
        raise ExpressionFailed(f"there is no item {at} in a list of {len(items)}")
    return items[at]


def _aggregate(name: str, numbers: list[float]) -> Json:
    if not numbers:
        raise ExpressionFailed(f".{name}() found no numbers")
    total = squares = 0.0
    for number in numbers:  # not sum(), which is more exact than Java from Python 3.12 on
        total += number
        squares += number * number
    count = len(numbers)
    if name == "sum":
        return _written(total)
    if name == "min":
        return _written(min(_MOST, *numbers))
    if name == "max":
        return _written(max(_LEAST, *numbers))
    if name == "avg":
        return _written(total / count)
    variance = squares / count - total * total / count / count
    return _written(math.sqrt(variance) if variance >= 0 else math.nan)


def _written(number: float) -> Json:
    """As Conductor's JSON has it: what is no number there is a text."""
    if math.isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


#: Values that one step may find: beyond any document the engine keeps in one piece, and still under a second.
_MAX_FOUND: Final = 500_000
#: Paths within filters and arguments within paths.
_MAX_NESTING: Final = 16


class _NotThere(Exception):
    """Signal that a path which must lead somewhere does not find its target; internal."""


@attrs.frozen(kw_only=True, repr=False)
class Path:
    """A compiled path.

    `steps` is what to do after the `plain` prefix (keys and single indexes, resolved by `walk`); `scans[i]` says that
    steps[i] is preceded by `..`. `reads_document` says that a filter or an argument uses the root.
    """

    text: str
    plain: tuple[str | int, ...]
    steps: tuple[PathStep, ...]
    scans: tuple[bool, ...]
    definite: bool
    reads_document: bool

    @property
    def answers_list(self) -> bool:
        """True if the answer is the list of all that was found."""
        return not self.definite

    def evaluate(self, base: Json | Missing, skip: int, document: Callable[[], Json]) -> Json:
        """The answer, where `base` is the value that the first `skip` plain steps led to (MISSING: to nothing).

        Never raises: what cannot be evaluated answers None.
        """
        value = walk(base, self.plain[skip:])
        if not self.steps:
            return None if value is MISSING else value
        try:
            return self._answer(value, comparisons.Budget(document))
        except (ExpressionFailed, OverflowError, ValueError):
            return None

    def operand(self, base: Json, document: Budget) -> Json:
        """The answer within another path; raises ExpressionFailed when the whole cannot be evaluated."""
        last = self.steps[-1] if self.steps else None
        answer = self._answer(walk(base, self.plain), document)
        if isinstance(last, Call) and last.name == "keys" and answer is not None:
            raise ExpressionFailed("what keys() answers is compared with nothing")
        return answer

    def leads_somewhere(self, base: Json, document: Budget) -> bool:
        """Return True if all names of the path are there; an indefinite one need not find anything behind them."""
        value = walk(base, self.plain)
        if value is MISSING:
            return False
        try:
            return bool(not self.steps or self._run(value, document, strict=True) or not self.definite)
        except _NotThere:
            return False

    def children(self, base: Json, document: Budget) -> Json:
        """Return what `length()` counts of its argument: what is below all that is found, below one thing the last of it."""
        if self.steps and isinstance(self.steps[-1], Call):
            return self.operand(base, document)
        found = self.operand(base, document)
        if self.definite:
            below = list(_inner(found))
            return below[-1] if below else None
        return [child for each in found for child in _inner(each)]

    def _answer(self, value: Json | Missing, document: Budget) -> Json:
        if not self.steps:
            return None if value is MISSING else value
        found = [] if value is MISSING else self._run(value, document, strict=False)
        if self.definite:
            return found[-1] if found else None
        return found

    def _run(self, value: Json, document: Budget, *, strict: bool) -> list[Json]:
        nodes = [value]
        early: list[Json] = []
        definite = True
        for index, (step, scan) in enumerate(zip(self.steps, self.scans, strict=True)):
            last = index == len(self.steps) - 1
            document.spend(len(nodes))
            if isinstance(step, Call):
                nodes = _collect(_called(step, node, document, lenient=not self.definite) for node in ([] if scan else nodes))
                early += [] if last else nodes
            elif scan:
                nodes = _collect(_scanned(step, node, document, last=last) for node in nodes)
            else:
                nodes = _collect(_apply(step, node, document, last=last, definite=definite, strict=strict) for node in nodes)
            definite = definite and not scan and _single(step)
        return early + nodes


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


#: Paths of plain names alone, within what `split_path` takes.
_NAMES: Final = pattern(r"[\w-]{1,99}(?:\.[\w-]{1,99}){0,20}")


@lru_cache(maxsize=2048)
def compile_path(text: str) -> Path:
    """Compile a path, with or without a leading `$.`; raises InvalidExpression saying what is wrong and where."""
    return _compiled(text, 0)


def _compiled(text: str, depth: int) -> Path:
    if depth > _MAX_NESTING:
        raise InvalidExpression(f"paths nested deeper than {_MAX_NESTING} levels")
    if _NAMES.fullmatch(text) is not None:  # as most are
        names = tuple(text.split("."))
        return Path(text=text, plain=names, steps=(), scans=(), definite=True, reads_document=False)
    split = split_path(text, partial(_compiled, depth=depth + 1))
    count = next((at for at, (step, scan) in enumerate(split) if scan or _plain(step) is None), len(split))
    plain = tuple(one for step, _ in split[:count] if (one := _plain(step)) is not None)
    steps, scans = (tuple(each) for each in zip(*split[count:], strict=True)) if count < len(split) else ((), ())
    path = partial(Path, text=text, plain=plain)
    reads = any(isinstance(step, filters.Filter) and step.reads_document for step in steps)
    reads = reads or any(isinstance(step, Call) and any(isinstance(each, Path) for each in step.arguments) for step in steps)
    if len(steps) > 1 and not plain and scans[0] and isinstance(steps[-1], Call):
        # A function behind a scan from the root is given all that was found, and is asked of the root.
        at, name = next((index, step.name) for index, step in enumerate(steps) if isinstance(step, Call))
        found = path(steps=steps[:at], scans=scans[:at], definite=False, reads_document=reads)
        asked, definite = Call(name, (found,)), _definite(steps[at:], scans[at:])
        return path(steps=(asked, *steps[at + 1 :]), scans=(False, *scans[at + 1 :]), definite=definite, reads_document=True)
    return path(steps=steps, scans=scans, definite=_definite(steps, scans), reads_document=reads)


def _plain(step: PathStep) -> str | int | None:
    """The one key or index that a step is."""
    named = step.names if isinstance(step, Keys) else step.indexes if isinstance(step, Indexes) else ()
    return named[0] if len(named) == 1 else None


def _definite(steps: Sequence[PathStep], scans: Sequence[bool]) -> bool:
    return not any(scans) and all(_single(step) or (isinstance(step, Keys) and step is steps[-1]) for step in steps)


def _single(step: PathStep) -> bool:
    return isinstance(step, Call) or _plain(step) is not None


def _inner(node: Json) -> Iterable[Json]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _descendants(node: Json, document: Budget) -> Iterable[Json]:
    """The node and all maps and lists below it, each before what it holds, in document order."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, dict | list):
            document.spend(3)  # what looking into it takes, beside looking at it
            yield item
            stack.extend(child for child in reversed(list(_inner(item))) if isinstance(child, dict | list))


def _scanned(step: PathStep, node: Json, document: Budget, *, last: bool) -> Iterable[Json]:
    """Return what a step finds in a node and below. A filter looks at maps themselves, and into lists that pass it too."""
    for each in _descendants(node, document):
        if isinstance(step, filters.Filter):
            if step.passes(each, document):
                yield from [each] if isinstance(each, dict) else step.select(each, document)
        elif not (isinstance(step, Keys) and last and len(step.names) > 1) or (
            isinstance(each, dict) and all(name in each for name in step.names)
        ):
            yield from _apply(step, each, document, last=last)


def _called(step: Call, node: Json, document: Budget, *, lenient: bool) -> list[Json]:
    try:
        return [_answered(step, node, document)]
    except IndexError:
        if lenient:
            return []
        raise ExpressionFailed(f".{step.name}() is out of range") from None


def _answered(step: Call, node: Json, document: Budget) -> Json:
    if step.name in ("length", "size") and step.arguments:
        first = step.arguments[0]
        if not isinstance(first, Path):
            raise ExpressionFailed(f"{step.name}() takes a path")
        inner = first.children(node, document)
        if isinstance(inner, list):
            return len(inner)
    arguments = [each.operand(document(), document) if isinstance(each, Path) else each for each in step.arguments]
    return call(step.name, node, arguments)


def _apply(
    step: PathStep, node: Json, document: Budget, *, last: bool, definite: bool = False, strict: bool = False
) -> Iterable[Json]:
    """Return what a step finds in one value. A *strict* one raises when a name is missing, or, where the path so far names one
    (*definite*), when the value is of another kind."""
    if isinstance(step, Wild):
        return _inner(node)
    if isinstance(step, filters.Filter):
        if definite and not isinstance(node, dict | list):
            raise comparisons.Refused("a filter on what is neither a map nor a list")
        # On a map Jayway tests the map itself, where RFC 9535 tests its values.
        return step.select(node if isinstance(node, list) else [node] if isinstance(node, dict) else [], document)
    fits = isinstance(node, dict if isinstance(step, Keys) else list)
    if not fits:
        if strict and definite:
            raise _NotThere
        return []
    if isinstance(step, Keys):
        if strict and not all(name in node for name in step.names):
            raise _NotThere
        found = {name: node[name] for name in step.names if name in node}
        return [found] if len(step.names) > 1 and last else found.values()
    if isinstance(step, Slice):
        return _sliced(step, node)
    return [node[index] for index in step.indexes if -len(node) <= index < len(node)] if isinstance(step, Indexes) else []


def _sliced(step: Slice, node: list[Json]) -> list[Json]:
    if step.start is not None and step.stop is not None:
        # As Jayway: from one index to the other, negative ones among them counted from the end.
        return [node[index] for index in range(max(step.start, -len(node)), min(step.stop, len(node)))]
    return node[step.start : step.stop]


@attrs.frozen(kw_only=True, repr=False)
class Reads:
    """The parts of the document that templates read.

    `members` are (root, member) pairs; `steps` adds to each the first key below the member, None when the whole member
    or a place that is not a plain key is read. `roots` are needed whole, `everything` means all of them. `dynamic` says
    that a nested expression builds the start of a path, so that more is found out while rendering, through the Source.
    """

    members: frozenset[tuple[str, str]] = frozenset()
    steps: frozenset[tuple[str, str, str | None]] = frozenset()
    roots: frozenset[str] = frozenset()
    everything: bool = False
    dynamic: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every root of which anything is read."""
        return self.roots.union([root for root, _ in self.members])

    def union(self, *others: Reads) -> Reads:
        """Return what this or any of the others reads."""
        every = [reads for reads in (self, *others) if reads is not NOTHING]
        if len(every) < 2:
            return every[0] if every else NOTHING
        return Reads(
            members=frozenset().union(*(reads.members for reads in every)),
            steps=frozenset().union(*(reads.steps for reads in every)),
            roots=frozenset().union(*(reads.roots for reads in every)),
            everything=any(reads.everything for reads in every),
            dynamic=any(reads.dynamic for reads in every),
        )


NOTHING = Reads()


def reads_of_path(path: Path) -> Reads:
    """Return what one path reads."""
    plain = path.plain
    if path.reads_document or not plain or not isinstance(plain[0], str):
        return Reads(everything=True)
    if len(plain) < 2 or not isinstance(plain[1], str):
        return Reads(roots=frozenset((plain[0],)))
    key = plain[2] if len(plain) > 2 and isinstance(plain[2], str) else None
    return Reads(members=frozenset(((plain[0], plain[1]),)), steps=frozenset(((plain[0], plain[1], key),)))


def reads_of_prefix(text: str) -> Reads:
    """Return what a path reads of which only the start is known: `workflow.input.` in `${workflow.input.${x}}`."""
    end = max(text.rfind("."), text.rfind("["))
    known = text[:end] if end > 0 else ""
    if known.strip(" ") in ("", "$", "@"):
        return Reads(dynamic=True)
    try:
        reads = reads_of_path(compile_path(known))
    except InvalidExpression:
        return Reads(dynamic=True)
    return attrs.evolve(reads, dynamic=reads.everything)
