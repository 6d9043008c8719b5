"""Between Conductor's JSON and its protobuf messages: one rule for all of them.

A field of a message is a property of the JSON, in camel case. Zero stands for what was not given, save booleans, enums, and the
numbers that say that there is none (`retryCount` 0). Lists of tasks have a message of their own on the wire, a message of an
unknown type is a map with `@type` and `@value` in JSON. Numbers of JSON values are doubles: whole ones come back as integers.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from conductorlite.model.errors import InvalidInput

__all__ = ["filled", "read"]

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

#: What a status of ours is on the wire, where there is none of its name.
_STATUSES: Final = {"PENDING": "SCHEDULED"}


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
                document[_name(field)] = {key: _read(kind, value[key]) for key in value}
        elif _is_list(field):
            if value:
                document[_name(field)] = [_read(field, one) for one in value]
        elif field.message_type is not None:
            if message.HasField(field.name):
                document[_name(field)] = _read(field, value)
        elif field.full_name in _NEGATIVE and value < 0:
            continue
        elif value or field.enum_type is not None or isinstance(value, bool) or field.full_name in _ZEROS:
            document[_name(field)] = _read(field, value)
    if message.DESCRIPTOR.full_name == "conductor.proto.EventHandler.Action":
        document["action"] = document["action"].lower()
    return document


def _read(field: Any, value: Any) -> Any:
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
        name = str(value).upper()
        found = field.enum_type.values_by_name.get(_STATUSES.get(name, name))
        return 0 if found is None else found.number
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
            message.type_url, message.value = value["@type"], b64decode(value["@value"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
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
