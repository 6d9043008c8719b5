"""What an operation is: a function whose signature says what the request gives it; and which operation a request means.

`engine` or `api` is given by the app, `body` is the parsed JSON of the request, what stands in braces in the path comes from there,
all else from the query. Names are Conductor's: `workflow_id` is `workflowId`. A parameter without a default is demanded.

An empty text is a field that a form has left blank: it was not given, in a query and in a body, save in what is the user's own
(input, output, variables) and in what names a thing. `Annotated[…, kind]` says of which kind a body is.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial, wraps
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote

import attrs

from conductorlite.model.codec import document_of
from conductorlite.model.errors import Conflict, ExecutionNotFound, InvalidInput, ScheduleNotFound
from conductorlite.model.scalars import camel_case, json_names
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean
from conductorlite.server.safety import Role

if TYPE_CHECKING:
    from conductorlite.runtime.engine import Engine

__all__ = [
    "ANY",
    "NO_BODY",
    "Found",
    "Operation",
    "Parameter",
    "Place",
    "Refused",
    "Text",
    "done_to_each",
    "find",
    "in_full",
    "no_such",
    "operation",
    "status_of",
    "table",
    "without_blanks",
]


class Refused(Exception):
    """Ends an operation with a status and Conductor's sentence for it; never leaves the app."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Text(str):
    """A body that is taken as text, whatever it says of itself."""

    __slots__ = ()


P = ParamSpec("P")


class Place(StrEnum):
    """The place of a parameter in a request."""

    PATH = "path"
    QUERY = "query"
    BODY = "body"


#: What the app gives to functions that ask for it.
_GIVEN: Final = frozenset({"engine", "api"})

#: Defaults: no body, and no value of a parameter that may be given several times.
NO_BODY: Final[dict[str, Any]] = {}
ANY: Final[list[str]] = []

_DEMANDED: Final = inspect.Parameter.empty

#: Statuses that may be reported.
_REPORTED: Final = frozenset({"IN_PROGRESS", "COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED"})

#: What the server takes for a boolean.
_BOOLEANS: Final = {**dict.fromkeys(("true", "on", "yes", "1"), True), **dict.fromkeys(("false", "off", "no", "0"), False)}


@attrs.frozen(kw_only=True, slots=True)
class Parameter:
    """One parameter: the function's name for it, Conductor's, where it stands, its type, and its default."""

    field: str
    name: str
    place: Place
    type: Any
    default: Any = _DEMANDED
    many: bool = False
    #: Of a body: the class whose fields it has, or each of its entries.
    kind: Any = None

    @property
    def demanded(self) -> bool:
        """True if a request without it is refused."""
        return self.default is _DEMANDED

    def read(self, texts: Sequence[str]) -> Any:
        """The value of what stands in the path or the query; raises Refused."""
        if self.many:
            return [one for text in texts for one in text.split(",") if one]
        text = texts[-1] if texts else ""
        if not text and self.default is not _DEMANDED:
            return self.default
        if self.type is bool and text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if self.type is int:
            try:
                number = int(text)
            except ValueError:
                number = 2**63
            if -(2**63) <= number < 2**63:
                return number
        if self.type is str:
            return text
        raise Refused(400, f"{self.name}: {text!r:.80} is no {'boolean' if self.type is bool else 'whole number'}")


def _type_of(hint: Any) -> tuple[Any, bool]:
    """Return the type of a parameter, and whether it takes several values."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not NoneType)
    return (get_args(hint)[0], True) if get_origin(hint) is list else (get_origin(hint) or hint, False)


def _parameters(function: Callable[..., Any], path: str) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for field, one in inspect.signature(function).parameters.items():
        if field in _GIVEN:
            continue
        name = camel_case(field)
        place = Place.BODY if field == "body" else Place.PATH if f"{{{name}}}" in path else Place.QUERY
        kind, many = _type_of(hints[field]) if place is not Place.BODY else (hints[field], False)
        kind, of = get_args(kind) if get_origin(kind) is Annotated else (kind, None)
        yield Parameter(field=field, name=name, place=place, type=kind, default=one.default, many=many, kind=of)


@attrs.frozen(kw_only=True, slots=True)
class Operation:
    """One operation: what is asked (`method`, `path`), what is called, and the status of an answer without a body."""

    method: str
    path: str
    function: Callable[..., Any]
    empty: int
    role: Role
    parameters: tuple[Parameter, ...]
    #: It waits: a coroutine function, canceled when the client goes away.
    waits: bool
    #: It is short, and answered in time however many others there are.
    prompt: bool

    @property
    def name(self) -> str:
        """The name in the OpenAPI document."""
        return camel_case(self.function.__name__.rstrip("_"))

    def arguments(self, path: Mapping[str, str], query: bytes, body: bytes) -> dict[str, Any]:
        """Return the arguments of the function; raises Refused, and InvalidInput for a body that is no JSON."""
        given: dict[str, list[str]] = {}
        for name, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            given.setdefault(name, []).append(text)
        found: dict[str, Any] = {}
        for one in self.parameters:
            if one.place is Place.BODY:
                found[one.field] = _body(one, body)
            elif one.place is Place.PATH:
                found[one.field] = one.read([path[one.name]])
            elif one.name in given:
                found[one.field] = one.read(given[one.name])
            elif one.demanded:
                raise Refused(400, f"the query parameter {one.name} is missing")
        return found


def _body(parameter: Parameter, body: bytes) -> Any:
    if parameter.type is Text:
        return Text(_text_of(body))
    if not body.strip():
        if parameter.demanded:
            raise Refused(400, "the request has no body")
        return parameter.default
    value = document_of(body)
    wanted = get_origin(parameter.type) or parameter.type
    if wanted in (dict, list) and not isinstance(value, wanted):
        raise Refused(400, f"the body is no JSON {'object' if wanted is dict else 'array'}")
    if wanted is list and get_args(parameter.type) == (str,) and not all(isinstance(one, str) for one in value):
        raise Refused(400, "the body is no array of texts")
    return value if parameter.kind is None else without_blanks(value, parameter.kind)


#: Fields of which an empty text says something: a blank condition is false.
_BLANK_COUNTS: Final = frozenset({"loop_condition"})


def without_blanks(value: Any, kind: Any) -> Any:
    """A JSON object of a kind, or a list of them, without the fields that are empty texts though they need not be given."""
    if isinstance(value, list):
        return [without_blanks(one, kind) for one in value]
    if not isinstance(value, dict):
        return value
    demanded, nested = _blanks(kind)
    kept = {name: one for name, one in value.items() if one != "" or name in demanded}
    for name, inner in nested.items():
        if kept.get(name):
            kept[name] = inner(kept[name])
    return kept


@cache
def _blanks(kind: Any) -> tuple[frozenset[str], dict[str, Callable[[Any], Any]]]:
    """The properties of a class that must not be left blank, and what is done to those that hold others."""
    attrs.resolve_types(kind)
    names = json_names(kind)
    fields = [(names[field.name], field) for field in attrs.fields(kind) if field.name in names]
    demanded = (name for name, field in fields if field.default is attrs.NOTHING or field.name in _BLANK_COUNTS)
    nested = ((name, _inner(field.type)) for name, field in fields)
    return frozenset(demanded), {name: inner for name, inner in nested if inner is not None}


def _inner(hint: Any) -> Callable[[Any], Any] | None:
    if get_origin(hint) in (Union, UnionType):
        hint = next((one for one in get_args(hint) if one not in (NoneType, str)), str)
    if get_origin(hint) is not None:
        inner = _inner(get_args(hint)[-1])
        return None if inner is None else partial(_each, inner)
    return partial(without_blanks, kind=hint) if isinstance(hint, type) and attrs.has(hint) else None


def _each(inner: Callable[[Any], Any], values: Any) -> Any:
    if isinstance(values, dict):
        return {name: inner(one) for name, one in values.items()}
    return [inner(one) for one in values] if isinstance(values, list) else values


def _text_of(body: bytes) -> str:
    """A body as text: a JSON text is what it says, as some clients send it."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is no UTF-8: {error}") from None
    if text[:1] == text[-1:] == '"':
        try:
            said = json.loads(text)
        except ValueError:
            return text
        return said if isinstance(said, str) else text
    return text


def status_of(text: str) -> TaskStatus:
    """A status that may be reported; raises InvalidInput."""
    if text not in _REPORTED:
        raise InvalidInput(f"status: {text!r:.60} is none of {', '.join(sorted(_REPORTED))}{did_you_mean(text, _REPORTED)}")
    return TaskStatus(text)


def no_such(workflow_id: object) -> str:
    """Return Conductor's answer for an execution that does not exist."""
    return f"No such workflow found by id: {workflow_id}"


def done_to_each(names: Iterable[str], verb: Callable[[str], Any]) -> dict[str, Any]:
    """Do something to each execution or schedule; an error of one does not keep the others from being done."""
    done: list[Any] = []
    failed: dict[str, str] = {}
    for one in names:
        try:
            answer = verb(one)
        except (Refused, Conflict, ExecutionNotFound, ScheduleNotFound) as error:
            failed[one] = no_such(one) if type(error) is ExecutionNotFound else str(error)
        else:
            done.append(one if answer is None else answer)
    return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}


def in_full(
    search: Callable[Concatenate[Engine, P], dict[str, Any]],
    name: str,
    purpose: str,
    whole: Callable[[Engine, dict[str, Any]], dict[str, Any] | None],
) -> Callable[Concatenate[Engine, P], dict[str, Any]]:
    """Return a search that replaces each summary by `whole` of it; executions removed meanwhile are left out."""

    @wraps(search)
    def searched(engine: Engine, /, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        page = search(engine, *args, **kwargs)
        wholes = (whole(engine, one) for one in page["results"])
        return page | {"results": [one for one in wholes if one is not None]}

    searched.__name__, searched.__doc__ = name, purpose
    return searched


@attrs.frozen(slots=True)
class Found:
    """The operations on a path, by method, and the values of its braces."""

    operations: Mapping[str, Operation]
    path: Mapping[str, str]


@attrs.define(slots=True)
class Table:
    """Operations by the segments of their paths: what follows each literal one, and what follows braces."""

    literal: dict[str, Table] = attrs.field(factory=dict)
    braces: Table | None = None
    #: Those whose path ends here, by method.
    operations: dict[str, Operation] = attrs.field(factory=dict)


def table(operations: Sequence[Operation]) -> Table:
    """Operations, to be found by their paths."""
    root = Table()
    for one in operations:
        at = root
        for part in one.path.split("/"):
            if part.startswith("{"):
                at.braces = at.braces or Table()
                at = at.braces
            else:
                at = at.literal.setdefault(part, Table())
        at.operations[one.method] = one
    return root


def _ends(at: Table, parts: Sequence[str], begun: int) -> Iterator[Table]:
    """Return the patterns that a path may match, the most literal first."""
    if begun == len(parts):
        if at.operations:
            yield at
        return
    if (next_one := at.literal.get(parts[begun])) is not None:
        yield from _ends(next_one, parts, begun + 1)
    if at.braces is not None and parts[begun]:
        yield from _ends(at.braces, parts, begun + 1)


def find(among: Table, path: str, method: str) -> Found | None:
    """Find the operations on a percent-encoded path; of several patterns, the most literal that has the method."""
    parts = path.split("/")
    first: Table | None = None
    for end in _ends(among, parts, 0):
        first = first or end
        if method in end.operations:
            first = end
            break
    if first is None:
        return None
    asked = first.operations.get(method)
    named = () if asked is None else zip(asked.path.split("/"), parts, strict=True)
    return Found(first.operations, {name[1:-1]: unquote(part) for name, part in named if name.startswith("{")})


def operation(
    method: str, path: str, function: Callable[..., Any], *, empty: int = 200, role: Role | None = None, prompt: bool = False
) -> Operation:
    """A row of the table: by default a GET needs READ, all else WRITE."""
    return Operation(
        method=method,
        path=path,
        function=function,
        empty=empty,
        role=role or (Role.READ if method == "GET" else Role.WRITE),
        parameters=tuple(_parameters(function, path)),
        waits=inspect.iscoroutinefunction(function),
        prompt=prompt,
    )
