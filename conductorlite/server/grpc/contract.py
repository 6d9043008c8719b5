"""Conductor's protobuf messages, made of the facts in `contract.txt`: no generated code, no compiler to agree with.

They are in a pool of their own, so that a program may load Conductor's stubs beside them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

from conductorlite.model.errors import MissingExtra

try:
    from google.protobuf import any_pb2, struct_pb2
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise MissingExtra("grpc", "A gRPC server") from error

__all__ = ["message_class"]

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
                enum.value.add(name=value, number=number)
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
