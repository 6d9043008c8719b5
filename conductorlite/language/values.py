"""Source protocol that an expression reads from (also one over a JSON document), and how the values it finds look as text.

Inside a text a value looks as Java prints it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

import attrs

from conductorlite.model.later import pattern
from conductorlite.model.scalars import shown

__all__ = [
    "MISSING",
    "SAFE_LIMIT",
    "TASK_MEMBERS",
    "WORKFLOW_MEMBERS",
    "AtOnce",
    "Json",
    "MappingSource",
    "Missing",
    "Outside",
    "Source",
    "double",
    "integer_text",
    "java_double",
    "json_text",
    "may_hold_wide",
    "name_wide_numbers",
    "to_text",
    "wide_numbers",
]

#: A JSON value: dict, list, str, int, float, bool or None.
Json: TypeAlias = Any

#: What answers a condition by closures of our own: soon, and by its values alone. Raises Outside.
AtOnce: TypeAlias = Callable[[Mapping[str, Json]], Json]


class Outside(Exception):
    """A text, or what it does with the values at hand, is its interpreter's; internal."""


#: What `${workflow.…}` and `${<task>.…}` can name, beside `workflow.env` and `workflow.secrets`.
WORKFLOW_MEMBERS: Final = (
    "input",
    "output",
    "status",
    "workflowId",
    "parentWorkflowId",
    "parentWorkflowTaskId",
    "workflowType",
    "version",
    "correlationId",
    "reasonForIncompletion",
    "schemaVersion",
    "variables",
)

TASK_MEMBERS: Final = (
    "input",
    "output",
    "taskType",
    "status",
    "referenceTaskName",
    "retryCount",
    "correlationId",
    "pollCount",
    "taskDefName",
    "scheduledTime",
    "startTime",
    "endTime",
    "workflowInstanceId",
    "taskId",
    "reasonForIncompletion",
    "callbackAfterSeconds",
    "workerId",
    "iteration",
)


class Missing(Enum):
    """The type of MISSING, which says "there is no such thing" where None would say "it is null"."""

    MISSING = "MISSING"


MISSING: Final = Missing.MISSING


class Source(Protocol):
    """The document an expression is resolved on, handed out in the smallest pieces that suffice.

    A *root* is a first-level name (`workflow` or a task reference), a *member* a name below it (`input`, `output`,
    `status` …). What is returned is shared: the resolver never changes it, and may put it into its result as it is.
    """

    @property
    def has_env(self) -> bool:
        """True if `${workflow.env.NAME}` has a provider; without one it is null."""

    def member(self, root: str, member: str) -> Json | Missing:
        """One member of one root; MISSING when the root or the member does not exist."""

    def root(self, root: str) -> Json | Missing:
        """The whole document of one root; MISSING when it does not exist."""

    def document(self) -> Json:
        """The whole document, every root of it: asked for only by paths that scan or filter across roots."""

    def variable(self, name: str) -> str | None:
        """A system parameter (`CPEWF_TASK_ID` …) or another name the engine was explicitly given; None if unknown.

        It is asked for every expression and wins over the document, as in Conductor.
        """

    def env(self, name: str) -> str | None:
        """The text behind `${workflow.env.NAME}`, None if unset; asked only when `has_env`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MappingSource:
    """A Source over one plain JSON document (usually a map of roots; a list works too, with `${$[0]…}`)."""

    whole: Json
    variables: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] | None = None

    @property
    def has_env(self) -> bool:
        """True if an environment was given, be it empty."""
        return self.environment is not None

    def member(self, root: str, member: str) -> Json | Missing:
        """One member of one root."""
        outer = self.root(root)
        return outer.get(member, MISSING) if isinstance(outer, dict) else MISSING

    def root(self, root: str) -> Json | Missing:
        """The value of one first-level name."""
        return self.whole.get(root, MISSING) if isinstance(self.whole, dict) else MISSING

    def document(self) -> Json:
        """The document itself."""
        return self.whole

    def variable(self, name: str) -> str | None:
        """A variable by exact name."""
        return self.variables.get(name)

    def env(self, name: str) -> str | None:
        """An environment value by exact name."""
        return None if self.environment is None else self.environment.get(name)


#: From here up to MAX Java writes plain digits, outside it scientific notation.
_JAVA_PLAIN_MIN: Final = 1e-3
_JAVA_PLAIN_MAX: Final = 1e7

#: A list that holds nothing else is written at once: it may be long.
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

#: Compact JSON text, the form of a list that an indefinite path (`[*]`, `..`, filter) found.
json_text: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def to_text(value: Json) -> str:
    """The text form Conductor gives a value in a string: `null`, `true`, `2.0`, `{a=1, b=x}`, `[1, two, null]`."""
    if type(value) is str:
        return value
    if not isinstance(value, dict | list | tuple):
        return _scalar(value)
    # An explicit stack, because the depth of a value is its sender's choice. A 1-tuple is text to write as it stands.
    parts: list[str] = []
    stack: list[tuple[str] | list[Json]] = [[value]]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            parts.append(top[0])
            continue
        item = top[0]
        if isinstance(item, dict):
            stack.append(("}",))
            for index, key in reversed(list(enumerate(item))):
                stack.append([item[key]])
                stack.append((f", {key}=" if index else f"{key}=",))
            stack.append(("{",))
        elif isinstance(item, list | tuple) and _SCALARS.issuperset(map(type, item)):
            parts.append(f"[{', '.join(map(_scalar, item))}]")
        elif isinstance(item, list | tuple):
            stack.append(("]",))
            for index in range(len(item) - 1, -1, -1):
                stack.append([item[index]])
                if index:
                    stack.append((", ",))
            stack.append(("[",))
        else:
            parts.append(_scalar(item))
    return "".join(parts)


def _scalar(value: Json) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, int):
        return integer_text(value)
    return str(value)


def integer_text(value: int) -> str:
    """Decimal digits of an integer of any size."""
    try:
        return str(value)
    except ValueError:  # Python refuses past 4,300 digits, to keep the conversion from being used as a brake
        return java_double(double(value))


#: Up to here, and as far below zero, a double holds every whole number.
SAFE_LIMIT: Final = 2**53 - 1

#: Such a number, also within JSON that a text holds; digits that are a text, or a fraction, are none.
_LONG: Final = pattern(r"[\[:,](?:\s|\\[nrt])*-?\d{16,}(?:\s|\\[nrt])*[,\]}]")
#: Every digit as a zero: looking for sixteen of them takes a fifth of what the pattern takes.
_ZEROS: Final = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else 0 for byte in range(256))
_SIXTEEN: Final = b"0" * 16
#: Numbers that the message of an error names.
_NAMED: Final = 3


def may_hold_wide(document: str) -> bool:
    """Return True if the compact JSON text of a list or map may hold whole numbers that a double cannot; False is certain."""
    return _SIXTEEN in document.encode(errors="replace").translate(_ZEROS) and _LONG.search(document) is not None


def wide_numbers(values: Json) -> Iterator[tuple[str, int]]:
    """Every whole number in a document beyond what a double holds exactly, with its path from `$`."""
    stack: list[tuple[str, Json]] = [("$", values)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend((f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]", value[key]) for key in reversed(value))
        elif isinstance(value, list | tuple):
            stack.extend((f"{path}[{at}]", value[at]) for at in range(len(value) - 1, -1, -1))
        elif isinstance(value, int) and not -SAFE_LIMIT <= value <= SAFE_LIMIT:
            yield path, value


def name_wide_numbers(values: Json) -> str:
    """The first whole numbers that a double cannot hold, with their paths, for the message of an error."""
    found = list(islice(wide_numbers(values), _NAMED + 1))
    named = ", ".join(f"{path[:200]} is {shown(value)}" for path, value in found[:_NAMED])
    return named + (", …" if len(found) > _NAMED else "")


def double(value: float) -> float:
    """A number as Java's double: one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _digits(value: float) -> tuple[str, int]:
    """Shortest digits that read back as the positive finite `value`, and the place of the decimal point among them."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + (int(exponent) if exponent else 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    return stripped.rstrip("0") or "0", point


def java_double(value: float) -> str:
    """Java's Double.toString: `2.0`, `1.0E7`, `1.5E-4`, `NaN`, `Infinity`."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if value < 0 or (value == 0 and str(value)[0] == "-") else ""
    value = abs(value)
    if value == math.inf:
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(value)
    if _JAVA_PLAIN_MIN <= value < _JAVA_PLAIN_MAX:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
