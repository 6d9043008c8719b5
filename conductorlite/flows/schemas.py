"""JSON Schemas of annotations, as inputSchema and outputSchema have them, and the contracts `lint` follows references with.

Both say what `model.typed` reads. Source of the form: JSON Schema 2020-12. A record that holds itself is a `$ref`; what has no
schema of its own allows anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from enum import Enum, Flag
from inspect import Parameter
from inspect import signature as signature_of
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

import attrs

from conductorlite.model.definitions import SchemaDef
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import TaskResult
from conductorlite.model.typed import (
    bare,
    field_kinds,
    is_definition,
    is_named_tuple,
    is_record,
    is_union,
    plain,
    reader,
    text_schema,
    typed_dict_fields,
    unknown_fields,
)
from conductorlite.runtime.registry import Worker, Workers, annotations_of, signature

if TYPE_CHECKING:
    from conductorlite.plan.lint import Contract

__all__ = [
    "answer_problem",
    "contracts_of",
    "fields_of",
    "hints",
    "input_schema",
    "is_whole",
    "output_schema",
    "read_output",
    "returnable",
    "returned",
    "schema_of",
]

_SCALARS: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    None: {"type": "null"},
}


def hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """A function's annotations by name, as they are; raises InvalidInput for one that cannot be resolved."""
    return {name: bare(kind) for name, kind in annotations_of(function).items()}


def returned(function: Callable[..., Any]) -> Any:
    """Return what a function's annotation says it returns; Any without one."""
    return hints(function).get("return", Any)


def returnable(kind: Any) -> tuple[Any, ...]:
    """The kinds of values that an annotation allows beside none and a `TaskResult`, which says an output itself."""
    kind = bare(kind)
    if not is_union(kind):
        return (kind,)
    return tuple(arm for arm in get_args(kind) if arm not in (type(None), TaskResult)) or (Any,)


def is_whole(kind: Any) -> bool:
    """Return True if an annotation names an output as a whole: a record, a map, nothing, anything, or one of several of these."""
    arms = returnable(kind)
    if arms != (kind,):
        return all(map(is_whole, arms))
    origin = get_origin(kind) or kind
    return kind in (Any, object, None, type(None)) or is_record(kind) or is_definition(kind) or origin in (dict, Mapping)


def read_output(kind: Any, output: Mapping[str, Any], where: str = "output", *, whole: bool | None = None) -> Any:
    """An output as what a function that is annotated to return `kind` returns; that of one that may return a TaskResult as it is.

    `whole` says whether what it returns is the output, or `result` in it, where the annotation does not. Raises InvalidInput that
    names each field which does not fit.
    """
    if kind is NoneType:
        return None
    if TaskResult in (kind, *get_args(kind)):
        return output
    value: Any = output.get("result")
    if is_whole(kind) if whole is None else whole:
        value = output
        if is_record(kind):
            absent = _absent(kind, output)
            value = {key: entry for key, entry in output.items() if key not in absent}
    read = reader(kind)
    return value if read is None else read(value, where)


def _absent(kind: Any, output: Mapping[str, Any]) -> set[str]:
    """The fields of a record that no step has given, to which a reference is null: their defaults hold."""
    nulls = {key for key, entry in output.items() if entry is None}
    if not nulls:
        return nulls
    if is_typeddict(get_origin(kind) or kind):
        return {key for key, (_, needed) in typed_dict_fields(kind).items() if key in nulls and not needed}
    return {key for key, hint in field_kinds(kind).items() if key in nulls and not _takes_null(hint)}


def _takes_null(kind: Any) -> bool:
    read = reader(kind)
    try:
        return read is None or read(None, "") is None
    except InvalidInput:
        return False


def answer_problem(kind: Any, before: Mapping[str, Any], output: Mapping[str, Any]) -> str | None:
    """Why an output does not fit what a person was asked for, given what the step has put out before; None when it does.

    An entry that no field of a record is made of is a slip of the pen, and refused too.
    """
    read = reader(kind)
    if read is None or kind in (None, NoneType):
        return None
    whole = {**before, **output}
    if is_whole(kind):
        value, path = whole, "output"
    elif "result" in whole:
        value, path = whole["result"], "output.result"
    else:
        return "output.result: is missing" + "".join(f"; output.{key}: is not looked at" for key in output)
    try:
        made, problems = read(value, path), []
    except InvalidInput as error:
        made, problems = None, [str(error)]
    if made is None and is_record(kind):
        names = fields_of(kind) or []
        made, value = dict.fromkeys(names), dict.fromkeys(output)
    problems += [] if made is None else unknown_fields(value, made, path)
    return "; ".join(problems) or None


def fields_of(kind: Any) -> list[str] | None:
    """The fields of a record, which may be none too; None for a map and for what is written as one."""
    kind = bare(kind)
    kind = returnable(kind)[0] if len(returnable(kind)) == 1 else kind
    kind = get_origin(kind) or kind
    if is_definition(kind):
        return None
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    if hasattr(kind, "model_fields"):
        return list(kind.model_fields)
    if is_named_tuple(kind):
        return list(kind._fields)
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


def output_schema(name: str, function: Callable[..., Any], *, maps: bool) -> SchemaDef:
    """The schema of what a task or flow puts out; without `maps`, a map may be one entry of it, as a flow's may."""
    kind = returned(function)
    anything = kind in (None, NoneType, Any, object) or (not maps and is_whole(kind) and fields_of(kind) is None)
    data = {"type": "object"} if anything else schema_of(kind)
    if not is_whole(kind):
        defs = data.pop("$defs", None)
        data = {"type": "object", "properties": {"result": data}, "required": ["result"]} | ({"$defs": defs} if defs else {})
    return SchemaDef(name=f"{name}_output", data=data)


def _schema(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    kind = bare(kind)
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if is_union(kind):
        return _any_of([_schema(arm, defs) for arm in args])
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        flags = isinstance(kind, type) and issubclass(kind, Flag)
        return {"type": "integer"} if flags else {"enum": [plain(value) for value in (args if origin is Literal else kind)]}
    if is_record(kind):
        return _record(kind, defs)
    if (text := text_schema(kind)) is not None:
        return text
    if isinstance(origin or kind, type):
        return _container(origin or kind, args, defs)
    return {}


def _any_of(arms: list[dict[str, Any]]) -> dict[str, Any]:
    return {} if {} in arms else {"anyOf": arms}


def _container(kind: type, args: tuple[Any, ...], defs: dict[str, Any]) -> dict[str, Any]:
    for base in (int, float, str):
        if issubclass(kind, base):
            return dict(_SCALARS[base])
    if issubclass(kind, Mapping):
        entry = _schema(args[1], defs) if len(args) == 2 else {}
        return {"type": "object", **({"additionalProperties": entry} if entry else {})}
    if not hasattr(kind, "__iter__"):
        return {}
    if kind is tuple and args and args[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [_schema(arg, defs) for arg in args], "minItems": len(args), "maxItems": len(args)}
    entry = _schema(args[0], defs) if args else {}
    return {"type": "array", **({"items": entry} if entry else {})}


def _record(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    origin = get_origin(kind) or kind
    name = "_".join([origin.__name__, *(getattr(one, "__name__", "any") for one in get_args(kind))])
    if name not in defs:
        defs[name] = {}  # before its fields: one of them may be of this kind
        if callable(model := getattr(kind, "model_json_schema", None)):
            schema = model()
            defs |= {name: schema, **schema.pop("$defs", {})}  # it is among them when it holds itself
        else:
            defs[name] = _of_fields(kind, defs)
    return {"$ref": f"#/$defs/{name}"}


def _of_fields(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    if is_named_tuple(kind if get_origin(kind) is None else get_origin(kind)):
        origin, kinds = get_origin(kind) or kind, field_kinds(kind)
        required = [name for name in origin._fields if name not in origin._field_defaults]
        known = {name: kinds.get(name, Any) for name in origin._fields}
    elif is_typeddict(get_origin(kind) or kind):
        members = typed_dict_fields(kind)
        required = [name for name, (_, needed) in members.items() if needed]
        known = {name: hint for name, (hint, _) in members.items()}
    else:
        kinds, origin = field_kinds(kind), get_origin(kind) or kind
        fields: list[Any] = [one for one in (attrs.fields(origin) if attrs.has(origin) else dataclasses.fields(origin)) if one.init]
        given = signature_of(origin).parameters
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
        known = field_kinds(arm)
        fields |= {name: known.get(name, Any) for name in names}
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
