"""Names and values in the source of flows: what may be called how, and how any value of a definition is written.

Python source laid out: on one line where it fits, else a part on each, as formatters do it.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, count
from math import inf
from typing import Any, Final, Protocol

import attrs

from conductorlite.flows.build import Reference
from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.texts import to_span
from conductorlite.model.threads import cached_property
from conductorlite.plan.tree import walk

__all__ = ["PUBLIC", "WIDTH", "Call", "Code", "Group", "Names", "Plain", "Stub", "Text", "inner_definitions", "quoted", "span"]

#: Characters of a line, as formatters have it where nobody says otherwise.
WIDTH: Final = 88


class Code(Protocol):
    """An expression."""

    @property
    def flat(self) -> str:
        """It on one line."""

    def lines(self, indent: int, used: int) -> str:
        """It on as many lines as it takes, of which the first has `used` characters already; later ones are indented."""


@attrs.frozen(slots=True)
class Plain:
    """Text that stands on one line however long it is."""

    flat: str

    def lines(self, indent: int, used: int) -> str:
        """It as it is."""
        return self.flat


@attrs.frozen(slots=False)
class Text:
    """A text, of which a long one is cut between words and after line ends."""

    value: str

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return quoted(self.value)

    def lines(self, indent: int, used: int) -> str:
        """In brackets, a piece on each line."""
        if used + len(self.flat) <= WIDTH or not any(c in self.value for c in " \n"):
            return self.flat
        pieces = "\n".join(" " * (indent + 4) + quoted(piece) for piece in self._pieces(max(20, WIDTH - indent - 8)))
        return f"(\n{pieces}\n{' ' * indent})"

    def _pieces(self, width: int) -> Iterator[str]:
        piece = ""
        for line in self.value.splitlines(keepends=True):
            for word in re.findall("[^ ]* |[^ ]+", line):
                if piece and len(quoted(piece + word)) > width:
                    yield piece
                    piece = ""
                piece += word
            if piece:
                yield piece
                piece = ""


@attrs.frozen(slots=False)
class Group:
    """Parts in brackets, each with what comes before it: a key, the name of an argument."""

    head: str
    parts: Sequence[tuple[str, Code]]
    tail: str

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return f"{self.head}{', '.join(key + part.flat for key, part in self.parts)}{self.tail}"

    def lines(self, indent: int, used: int) -> str:
        """A part on each line, where one does not suffice."""
        if used + len(self.flat) <= WIDTH or not self.parts:
            return self.flat
        below, space = indent + 4, " " * (indent + 4)
        shown = [f"{space}{key}{part.lines(below, below + len(key) + 1)},\n" for key, part in self.parts]
        return f"{self.head}\n{''.join(shown)}{' ' * indent}{self.tail}"


@attrs.frozen(slots=False)
class Call:
    """Groups one after the other: `charge.options(name="deposit")(amount=10)`; the last one is broken first."""

    groups: Sequence[Group]

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return "".join(group.flat for group in self.groups)

    def lines(self, indent: int, used: int) -> str:
        """It on as many lines as it takes."""
        *first, last = self.groups
        text = "".join(group.flat for group in first)
        if first and used + len(text) + len(last.head) > WIDTH:
            text = "".join(group.lines(indent, used if group is first[0] else WIDTH) for group in first)
        return text + last.lines(indent, used + len(text.rpartition("\n")[2]))


def quoted(value: str) -> str:
    """A text as formatters write it: in double quotes, where that needs no more backslashes."""
    shown = repr(value)
    if shown[0] == "'" and '"' not in value:
        shown = f'"{shown[1:-1]}"'
    return shown


#: Where the names are imported from that a source may need; others are in `conductorlite.flows`.
PUBLIC: Final = {
    **dict.fromkeys(
        (
            "IdempotencyStrategy", "RateLimitConfig", "RateLimitPolicy", "RetryLogic", "SchemaDef", "SubWorkflowParams", "TaskDef",
            "TimeoutPolicy", "WorkflowDef", "WorkflowTask", "WorkflowTimeoutPolicy", "flow", "task",
        ),
        "conductorlite",
    ),
    **dict.fromkeys(("CacheConfig", "JoinMode", "StateChangeEvent"), "conductorlite.model.definitions"),
}  # fmt: skip

#: Names that a source uses itself, and names that linters take for other ones.
_TAKEN: Final = frozenset(
    {
        *PUBLIC, "json", "as_is", "each", "event", "human", "inline", "join", "match", "node", "otherwise", "over", "parallel",
        "repeat", "reason", "set_variables", "start", "status", "sub", "terminate", "variable", "wait", "when",
    }
)  # fmt: skip
_AMBIGUOUS: Final = frozenset({"l", "O", "I"})

#: Maps, lists and tasks within each other that are written as Python; deeper ones are written as JSON, for Python's own limits.
_DEEPEST: Final = 30

_INPUT: Final = re.compile(r"\$\{workflow\.input\.([A-Za-z_]\w*)")


@attrs.frozen(slots=True)
class Stub:
    """A function that a source calls: what it takes, and which of that always; None: anything."""

    name: str
    parameters: Sequence[str] = ()
    required: Sequence[str] = ()
    anything: bool = False

    def takes(self, given: Mapping[str, Any]) -> bool:
        """Return True if it can be called with that."""
        known = self.anything or given.keys() <= set(self.parameters)
        return "self" not in given and known and given.keys() >= set(self.required)


class Names:
    """Names in the source of a definition and of those in it."""

    def __init__(self, definition: WorkflowDef) -> None:
        self._calls: dict[str, list[tuple[str, ...]]] = {}
        self._stubs: dict[str, Stub] = {}
        self.taken = {*_TAKEN, *dir(builtins)}
        definitions = list(inner_definitions(definition))
        for one in definitions:
            self.taken |= set(self.inputs(one))
            for place in walk(one, deepest=inf):
                task = place.task
                if task.type == TaskType.SIMPLE or place.compensates is not None:
                    self._calls.setdefault(task.name, []).append(tuple(task.input_parameters))
                if task.type == TaskType.FORK_JOIN_DYNAMIC and isinstance(called := task.input_parameters.get("forkTaskName"), str):
                    self._calls.setdefault(called, [])
        self.flows = [self.fresh(one.name, self.taken, "_flow") for one in definitions]
        for name in self._calls:
            self.stub(name)

    def inputs(self, definition: WorkflowDef) -> dict[str, bool]:
        """The inputs of a definition that can be parameters, those that are declared, then those that are read."""
        texts = [
            json.dumps([place.task.input_parameters, place.task.items, place.task.sink]) for place in walk(definition, deepest=inf)
        ]
        read = _INPUT.findall(" ".join([*texts, json.dumps(definition.output_parameters)]))
        names = dict.fromkeys(definition.input_parameters, True) | {
            name: False for name in read if name not in definition.input_parameters
        }
        return {name: declared for name, declared in names.items() if self.argument(name) and name not in _TAKEN | _AMBIGUOUS}

    def stub(self, name: str) -> Stub | None:
        """The function for tasks of a name; None where there can be none."""
        if name not in self._stubs:
            if not name.strip() or not name.isprintable():
                return None
            calls = self._calls.get(name, [])
            keys = dict.fromkeys(key for call in calls for key in call)
            anything = not calls or any(not self.argument(key) or key in _AMBIGUOUS for key in keys)
            required = [key for key in keys if all(key in call for call in calls)]
            optional = [key for key in keys if key not in required]
            made = self.fresh(name, self.taken, "_task")
            self._stubs[name] = Stub(made, () if anything else (*required, *optional), () if anything else required, anything)
        return self._stubs[name]

    def fresh(self, text: str, taken: set[str], ending: str) -> str:
        """A name like a text, which is taken from now on."""
        name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "step"
        name = f"n{name}" if name[0].isdigit() else name
        tries = chain((name, name + ending), (f"{name}_{number}" for number in count(2)))
        found = next(one for one in tries if one not in taken and one not in _AMBIGUOUS and not keyword.iskeyword(one))
        taken.add(found)
        return found

    def argument(self, key: str) -> bool:
        """Return True if something can be given by that name."""
        normal = key.isidentifier() and unicodedata.normalize("NFKC", key) == key
        return normal and not keyword.iskeyword(key) and key != "self" and not key.startswith("__")

    def attribute(self, key: str) -> bool:
        """Return True if what a step gives can be asked for an attribute of that name."""
        return key.isidentifier() and key.isascii() and not keyword.iskeyword(key) and not hasattr(Reference, key) and key[0] != "_"

    def literal(self, value: Any, text: Callable[[str], Code], imports: set[str], inner: Callable[[WorkflowDef], Stub]) -> Code:
        """A value of a definition; `text` writes the texts in it that the workflow resolves, `inner` names a definition in it."""
        if isinstance(value, Enum):
            imports.add(type(value).__name__)
            return Plain(f"{type(value).__name__}.{value.name}")
        if isinstance(value, str):
            return text(value)
        if isinstance(value, WorkflowDef):
            return Plain(f"{inner(value).name}.definition")
        if isinstance(value, WorkflowTask) and _depth(value) > _DEEPEST:
            imports.add("WorkflowDef")
            document = json.dumps(WorkflowDef(name="", tasks=[value]).to_json())
            return Group("WorkflowDef.from_json(", [("", Text(document))], ").tasks[0]")
        if attrs.has(type(value)):
            imports.add(type(value).__name__)
            return Group(f"{type(value).__name__}(", list(self._fields(value, text, imports, inner)), ")")
        if isinstance(value, Mapping | list | tuple) and _nested(value) > _DEEPEST:
            imports.add("json")
            return Group("json.loads(", [("", Text(json.dumps(value)))], ")")
        if isinstance(value, Mapping):
            parts = [(f"{quoted(key)}: ", self.literal(entry, text, imports, inner)) for key, entry in value.items()]
            return Group("{", parts, "}")
        if isinstance(value, list | tuple):
            return Group("[", [("", self.literal(entry, text, imports, inner)) for entry in value], "]")
        return Plain(repr(value))

    def _fields(self, value: Any, *given: Any) -> Iterator[tuple[str, Code]]:
        """The fields of a record that are not as by default; only a task's input is resolved."""
        text, *others = given
        for field in attrs.fields(type(value)):
            default: Any = field.default
            default = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
            entry = getattr(value, field.name)
            if entry != default or (field.name == "type" and isinstance(value, WorkflowTask)):
                kept = text if field.name == "input_parameters" else Text
                yield f"{field.name}=", self.literal(str(entry) if field.name == "type" else entry, kept, *others)


def inner_definitions(definition: WorkflowDef) -> Iterator[WorkflowDef]:
    """A definition, and all that are written out in it, each once."""
    waiting, seen = [definition], []
    for one in waiting:
        if one in seen:
            continue
        seen.append(one)
        yield one
        params = [place.task.sub_workflow_param for place in walk(one, deepest=inf)]
        waiting += [param.workflow_definition for param in params if param and isinstance(param.workflow_definition, WorkflowDef)]


def span(milliseconds: int) -> str | None:
    """A length of time as a text with one unit; None where there is no such."""
    units = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
    if milliseconds <= 0 or milliseconds > 2**53 - 1:
        return None
    unit, size = next((unit, size) for unit, size in units.items() if milliseconds % size == 0)
    text = f"{milliseconds // size}{unit}"
    return text if to_span(text) == milliseconds else None


def _depth(task: WorkflowTask) -> int:
    return max(place.depth for place in walk(WorkflowDef(name="", tasks=[task]), deepest=inf))


def _nested(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, Mapping | list | tuple):
            deepest = max(deepest, depth)
            waiting += [(entry, depth + 1) for entry in (item.values() if isinstance(item, Mapping) else item)]
    return deepest
