"""Conductor's protobuf messages: made of the facts in `contract.txt`, filled with JSON, and read as JSON.

No stubs, no compiler to agree with. They are in a pool of their own, so that a program may load Conductor's stubs beside
them. Between JSON and messages is one rule: a field of a message is a property of the JSON, in camel case. Zero stands for what was
not given, save booleans, enums, and the numbers that say that there is none (`retryCount` 0). Lists of tasks have a message of
their own on the wire, a message of an unknown type is a map with `@type` and `@value` in JSON. Numbers of JSON values are doubles:
whole ones come back as integers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from conductorlite.model.errors import InvalidInput, MissingExtra
from conductorlite.server.rest.documents import message_bytes

__all__ = ["filled", "message_class", "read"]

try:
    from google.protobuf import any_pb2, struct_pb2
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise MissingExtra("grpc", "A gRPC server") from error


_SCALARS: Final = {
    "s": FieldDescriptorProto.TYPE_STRING,
    "i": FieldDescriptorProto.TYPE_INT32,
    "l": FieldDescriptorProto.TYPE_INT64,
    "b": FieldDescriptorProto.TYPE_BOOL,
}
_KNOWN: Final = {"V": ".google.protobuf.Value", "A": ".google.protobuf.Any"}


@cache
def message_class(name: str) -> Any:
    """The class of a message by its whole name."""
    return GetMessageClass(_pool().FindMessageTypeByName(name))


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for known in (any_pb2, struct_pb2):
        file = FileDescriptorProto()
        known.DESCRIPTOR.CopyToProto(file)
        pool.Add(file)
    for file in _read(files(__package__).joinpath("contract.txt").read_text(encoding="utf-8")):
        pool.Add(file)
    return pool


def _read(text: str) -> list[FileDescriptorProto]:
    """The files of a contract, one for each package."""
    found: list[FileDescriptorProto] = []
    lines = text.replace("\n  ", " ").splitlines()
    enums = {f"{package}.{line.split()[0]}" for package, line in _by_package(lines) if " = " in line}
    for package, line in _by_package(lines):
        if not found or found[-1].package != package:
            found.append(FileDescriptorProto(name=f"conductorlite/{package}.proto", package=package, syntax="proto3"))
            found[-1].dependency.extend(["google/protobuf/any.proto", "google/protobuf/struct.proto"])
            found[-1].dependency.extend(one.name for one in found[:-1])
        if " = " in line:
            name, _, values = line.partition(" = ")
            *outer, own = name.split(".")
            enum = _message(found[-1], outer).enum_type.add(name=own)
            for number, value in enumerate(values.split()):
                word, _, ours = value.partition("=")
                enum.value.add(name=word, number=int(ours or number))
        else:
            name, _, fields = line.partition(":")
            message = _message(found[-1], name.split("."))
            for field in fields.split():
                _field(message, f".{package}.{name}", package, field, enums)
    return found


def _by_package(lines: list[str]) -> list[tuple[str, str]]:
    package, found = "", []
    for line in lines:
        if line.startswith("package "):
            package = line.removeprefix("package ")
        elif line and not line.startswith("#"):
            found.append((package, line))
    return found


def _message(file: FileDescriptorProto, path: list[str]) -> DescriptorProto:
    """A message of a file by its path, made where there is none."""
    within: Any = file.message_type
    message = None
    for name in path:
        message = next((one for one in within if one.name == name), None) or within.add(name=name)
        within = message.nested_type
    if message is None:
        raise ValueError("a message has a name")
    return message


def _field(message: DescriptorProto, owner: str, package: str, text: str, enums: set[str]) -> None:
    name, kind, number = text.split(":")
    if kind.startswith("{"):
        entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", "s", 1, package, enums)
        _add(entry, "value", kind[1:-1], 2, package, enums)
        field = message.field.add(name=name, number=int(number), type=FieldDescriptorProto.TYPE_MESSAGE)
        field.type_name = f"{owner}.{entry.name}"
        field.label = FieldDescriptorProto.LABEL_REPEATED
        return
    field = _add(message, name, kind.removeprefix("*"), int(number), package, enums)
    if kind.startswith("*"):
        field.label = FieldDescriptorProto.LABEL_REPEATED


def _add(message: DescriptorProto, name: str, kind: str, number: int, package: str, enums: set[str]) -> Any:
    field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return field
    whole = kind if kind.startswith("conductor.") else f"{package}.{kind}"
    field.type = FieldDescriptorProto.TYPE_ENUM if whole in enums else FieldDescriptorProto.TYPE_MESSAGE
    field.type_name = _KNOWN.get(kind, f".{whole}")
    return field


_ANY: Final = "google.protobuf.Any"
_VALUE: Final = "google.protobuf.Value"

#: Messages that are a list in JSON, by what it holds.
_LISTS: Final = {"conductor.proto.WorkflowTask.WorkflowTaskList": "tasks"}

#: Numbers whose zero is meant.
_ZEROS: Final = frozenset(f"conductor.proto.TaskDef.{name}" for name in ("retry_count", "retry_delay_seconds", "timeout_seconds"))

#: Numbers that Java's client sends as -1 when they were not given.
_NEGATIVE: Final = frozenset({"conductor.proto.WorkflowTask.retry_count"})

#: Properties that are not the field in camel case.
_NAMES: Final = {
    **{name: name for name in ("start_workflow", "complete_task", "fail_task", "terminate_workflow", "update_workflow_variables")},
    "expand_inline_json": "expandInlineJSON",
}


def _name(field: Any) -> str:
    inside = field.containing_type.full_name == "conductor.proto.EventHandler.Action"
    return _NAMES.get(field.name, field.json_name) if inside else str(field.json_name)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_list(field: Any) -> bool:
    """Older versions of protobuf have labels instead."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


# ---------------------------------------------------------------------- from the wire


def read(message: Any) -> dict[str, Any]:
    """A message as Conductor's JSON."""
    document: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            if value:
                kind = field.message_type.fields_by_name["value"]
                document[_name(field)] = {key: _read_field(kind, value[key]) for key in value}
        elif _is_list(field):
            if value:
                document[_name(field)] = [_read_field(field, one) for one in value]
        elif field.message_type is not None:
            if message.HasField(field.name):
                document[_name(field)] = _read_field(field, value)
        elif field.full_name in _NEGATIVE and value < 0:
            continue
        elif value or field.enum_type is not None or isinstance(value, bool) or field.full_name in _ZEROS:
            document[_name(field)] = _read_field(field, value)
    if message.DESCRIPTOR.full_name == "conductor.proto.EventHandler.Action":
        document["action"] = document["action"].lower()
    return document


def _read_field(field: Any, value: Any) -> Any:
    kind = field.message_type
    if kind is None:
        known = field.enum_type.values_by_number.get(value) if field.enum_type is not None else None
        return value if field.enum_type is None else f"{value}" if known is None else known.name
    if kind.full_name == _VALUE:
        return _plain(value)
    if kind.full_name == _ANY:
        return {"@type": value.type_url, "@value": b64encode(value.value).decode()}
    if kind.full_name in _LISTS:
        return read(value).get(_LISTS[kind.full_name], [])
    return read(value)


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {key: _plain(one) for key, one in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_plain(one) for one in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return None if kind in (None, "null_value") else getattr(value, kind)


# ---------------------------------------------------------------------- to the wire


def filled(message: Any, document: Mapping[str, Any]) -> Any:
    """The message, with what the JSON says; properties that it has no field for are left out."""
    for field in message.DESCRIPTOR.fields:
        value = document.get(_name(field))
        if value is None:
            continue
        if _is_map(field):
            kind = field.message_type.fields_by_name["value"]
            for key, one in value.items():
                if kind.message_type is None:
                    getattr(message, field.name)[key] = _scalar(kind, one)
                else:
                    _fill(getattr(message, field.name)[key], one)
        elif _is_list(field):
            entries = getattr(message, field.name)
            for one in value:
                if field.message_type is None:
                    entries.append(_scalar(field, one))
                else:
                    _fill(entries.add(), one)
        elif field.message_type is not None:
            _fill(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _scalar(field, value))
    return message


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_name.get(str(value).upper())
        if found is None:
            raise InvalidInput(f"gRPC has no word for {value!r} as {field.full_name}: ask over REST")
        return found.number
    if isinstance(value, float):
        return int(value)
    return value


def _fill(message: Any, value: Any) -> None:
    kind = message.DESCRIPTOR.full_name
    message.SetInParent()
    if kind == _VALUE:
        _set(message, value)
    elif kind == _ANY:
        try:
            message.type_url, message.value = value["@type"], message_bytes(value["@value"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a message has a text `@type`, and a `@value` in base64: {error}") from None
    else:
        filled(message, {_LISTS[kind]: value} if kind in _LISTS else value)


def _set(message: Any, value: Any) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float):
        message.number_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, Mapping):
        message.struct_value.SetInParent()
        for key, one in value.items():
            _set(message.struct_value.fields[key], one)
    else:
        message.list_value.SetInParent()
        for one in value:
            _set(message.list_value.values.add(), one)
