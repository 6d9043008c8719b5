"""What annotations say: JSON Schemas, as inputSchema and outputSchema have it, and the contracts `lint` follows references with.

Both say what `runtime.values` reads. Source of the form: JSON Schema 2020-12. A record that holds itself is a `$ref`; what has no
schema of its own allows anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from inspect import Parameter
from inspect import signature as signature_of
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from conductorlite.model import attrs
from conductorlite.model.definitions import SchemaDef
from conductorlite.model.executions import TaskResult
from conductorlite.runtime.registry import Worker, Workers, signature
from conductorlite.runtime.values import is_record, is_union, is_uuid, plain, reader, typed_dict_fields

if TYPE_CHECKING:
    from conductorlite.plan.lint import Contract

__all__ = [
    "contracts_of", "fields_of", "hints", "input_schema", "is_whole", "output_schema", "read_output", "returnable", "returned",
    "schema_of",
]  # fmt: skip

_SCALARS: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    None: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    Decimal: {"type": ["string", "number"]},
}


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's annotations by name; none where they cannot be resolved here."""
    try:
        return get_type_hints(function)
    except Exception:  # a name that is imported for type checkers only, for one
        return {}


def returned(function: Callable[..., Any]) -> Any:
    """What a function's annotation says it returns; Any without one."""
    return hints(function).get("return", Any)


def returnable(kind: Any) -> tuple[Any, ...]:
    """The kinds of values that an annotation allows beside none and a `TaskResult`, which says an output itself."""
    if not is_union(kind):
        return (kind,)
    return tuple(arm for arm in get_args(kind) if arm not in (type(None), TaskResult)) or (Any,)


def is_whole(kind: Any) -> bool:
    """Whether what an annotation names is an output as a whole: a record, a map, nothing, anything, or one of several of these."""
    arms = returnable(kind)
    if arms != (kind,):
        return all(map(is_whole, arms))
    origin = get_origin(kind) or kind
    return kind in (Any, object, None, type(None)) or is_record(kind) or origin in (dict, Mapping)


def read_output(kind: Any, output: Mapping[str, Any], where: str = "output") -> Any:
    """An output as what a function that is annotated to return `kind` returns; that of one that may return a TaskResult as it is.

    Raises InvalidInput that names each field which does not fit.
    """
    if kind is NoneType:
        return None
    if TaskResult in (kind, *get_args(kind)):
        return output
    value = output if is_whole(kind) else output.get("result")
    read = reader(kind)
    return value if read is None else read(value, where)


def fields_of(kind: Any) -> list[str] | None:
    """The fields of a record, which may be none too; None for a map."""
    kind = returnable(kind)[0] if len(returnable(kind)) == 1 else kind
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    if hasattr(kind, "model_fields"):
        return list(kind.model_fields)
    return list(get_type_hints(kind)) if isinstance(kind, type) and get_type_hints(kind) else None


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of values that are annotated `kind`."""
    defs: dict[str, Any] = {}
    schema = _schema(kind, defs)
    return schema | ({"$defs": defs} if defs else {})


def input_schema(name: str, function: Callable[..., Any], *, nulls: bool) -> SchemaDef:
    """The schema of the input of a task or flow; with `nulls`, null stands for the default of a parameter that has one."""
    takes, kinds = signature(function), hints(function)
    defs: dict[str, Any] = {}
    if takes.whole is not None:
        schema = _schema(kinds[takes.whole], defs)
    else:
        named = {one: _schema(kinds.get(one, Any), defs) for one in sorted(takes.parameters or ())}
        for one in (named.keys() - takes.required) if nulls else ():
            named[one] = _any_of([named[one], {"type": "null"}])
        schema = {"type": "object", "properties": named}
        if takes.required and takes.item is None:
            schema["required"] = sorted(takes.required)
        elif takes.required:  # a dynamic fork gives its item otherwise: see Signature.item
            schema["anyOf"] = [{"required": sorted(takes.required)}, {"required": ["__index"]}]
    return SchemaDef(name=f"{name}_input", data=schema | ({"$defs": defs} if defs else {}))


def output_schema(name: str, function: Callable[..., Any]) -> SchemaDef:
    """The schema of what a task or flow puts out."""
    kind = returned(function)
    data = {"type": "object"} if kind in (None, NoneType, Any, object) else schema_of(kind)
    if not is_whole(kind):
        defs = data.pop("$defs", None)
        data = {"type": "object", "properties": {"result": data}, "required": ["result"]} | ({"$defs": defs} if defs else {})
    return SchemaDef(name=f"{name}_output", data=data)


def _schema(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if is_union(kind):
        return _any_of([_schema(arm, defs) for arm in args])
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return {"enum": [plain(value) for value in (args if origin is Literal else kind)]}
    if is_record(kind):
        return _record(origin or kind, defs)
    if isinstance(origin or kind, type):
        return _container(origin or kind, args, defs)
    return {}


def _any_of(arms: list[dict[str, Any]]) -> dict[str, Any]:
    return {} if {} in arms else {"anyOf": arms}


def _container(kind: type, args: tuple[Any, ...], defs: dict[str, Any]) -> dict[str, Any]:
    if is_uuid(kind):
        return {"type": "string", "format": "uuid"}
    if issubclass(kind, Mapping):
        entry = _schema(args[1], defs) if len(args) == 2 else {}
        return {"type": "object", **({"additionalProperties": entry} if entry else {})}
    if not hasattr(kind, "__iter__") or issubclass(kind, str | bytes):
        return {}
    if kind is tuple and args and args[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [_schema(arg, defs) for arg in args], "minItems": len(args), "maxItems": len(args)}
    entry = _schema(args[0], defs) if args else {}
    return {"type": "array", **({"items": entry} if entry else {})}


def _record(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in defs:
        defs[name] = {}  # before its fields: one of them may be of this kind
        if callable(model := getattr(kind, "model_json_schema", None)):
            schema = model()
            defs |= {name: schema, **schema.pop("$defs", {})}  # it is among them when it holds itself
        else:
            defs[name] = _of_fields(kind, defs)
    return {"$ref": f"#/$defs/{name}"}


def _of_fields(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    if is_typeddict(kind):
        members = typed_dict_fields(kind)
        required = [name for name, (_, needed) in members.items() if needed]
        known = {name: hint for name, (hint, _) in members.items()}
    else:
        kinds = get_type_hints(kind)
        fields: list[Any] = [one for one in (attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)) if one.init]
        given = signature_of(kind).parameters
        required = [one.name for one in fields if given[getattr(one, "alias", one.name)].default is Parameter.empty]
        known = {one.name: kinds.get(one.name, Any) for one in fields}
    schema = {"type": "object", "properties": {name: _schema(hint, defs) for name, hint in known.items()}}
    return schema | ({"required": required} if required else {})


def contracts_of(workers: Workers) -> dict[str, Contract]:
    """A contract for each task type that a set of workers carries out."""
    return {worker.task_type: _contract(worker) for worker in workers}


def _contract(worker: Worker) -> Contract:
    from conductorlite.plan.lint import Contract

    signature = worker.signature
    kind = returned(worker.function)
    anything = signature.whole is not None or signature.parameters is None
    fields = _fields(kind)
    return Contract(
        takes=None if anything else sorted(signature.parameters or ()),
        required=sorted(signature.required),
        readers=signature.readers if signature.whole is None else {},
        gives=None if fields is None else list(fields),
        choices={name: found for name, kind in (fields or {}).items() if (found := _choices(kind)) is not None},
        task_def=worker.task_def,
    )


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of an output and their kinds; None where there may be any."""
    if kind is type(None):
        return {}
    if kind is Any or TaskResult in (kind, *get_args(kind)):
        return None
    if not is_whole(kind):
        return {"result": kind}
    fields: dict[str, Any] = {}
    for arm in returnable(kind):
        names = None if arm is Any else fields_of(arm)
        if names is None:
            return None
        fields |= {name: hints(arm).get(name, Any) for name in names}
    return fields


def _choices(kind: Any) -> Collection[str] | None:
    """The texts by which a SWITCH knows the values of a kind; None where there are too many."""
    found: list[str] = []
    for arm in get_args(kind) if is_union(kind) else (kind,):
        if arm is bool:
            found += ["true", "false"]
        elif arm is type(None):
            found.append("null")
        elif get_origin(arm) is Literal:
            found += [str(plain(value)) for value in get_args(arm)]
        elif isinstance(arm, type) and issubclass(arm, Enum):
            found += [str(plain(value)) for value in arm]
        else:
            return None
    return found
