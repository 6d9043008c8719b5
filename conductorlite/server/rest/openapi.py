"""The OpenAPI document of the operations, made of their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final, get_args, get_origin

import conductorlite
from conductorlite.server.rest.operations import Operation, Parameter, Place, Text

__all__ = ["document"]

_TYPES: Final = {str: "string", Text: "string", int: "integer", bool: "boolean", dict: "object", list: "array"}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Every operation by its path and method."""
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    info = {"title": "Conductor's REST API, by conductorlite", "version": conductorlite.__version__}
    return {"openapi": "3.0.1", "info": info, "paths": paths, "components": {"schemas": {"Error": _ERROR}}}


_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["status", "message", "retryable"],
    "properties": {
        "status": {"type": "integer"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "validationErrors": {
            "type": "array",
            "items": {"type": "object", "properties": {"path": {"type": "string"}, "message": {"type": "string"}}},
        },
    },
}


def _operation(one: Operation) -> dict[str, Any]:
    group = one.path.removeprefix("/api").strip("/").partition("/")[0]
    said: dict[str, Any] = {
        "tags": [group],
        "operationId": f"{one.name}_{one.method}" if group == "health" else one.name,
        "summary": inspect.getdoc(one.function),
        "parameters": [_parameter(each) for each in one.parameters if each.place is not Place.BODY],
        "responses": {
            "200": {"description": "OK", "content": {"*/*": {"schema": {}}}},
            **({str(one.empty): {"description": "Nothing"}} if one.empty != 200 else {}),
            "default": {
                "description": "What is wrong",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    for body in (each for each in one.parameters if each.place is Place.BODY):
        kind = "text/plain" if body.type is Text else "application/json"
        said["requestBody"] = {"required": body.demanded, "content": {kind: {"schema": _schema(body.type)}}}
    return said


def _parameter(one: Parameter) -> dict[str, Any]:
    schema = {"type": "array", "items": _schema(one.type)} if one.many else _schema(one.type)
    if not one.demanded and one.default is not None and not one.many:
        schema["default"] = one.default
    return {"name": one.name, "in": one.place.value, "required": one.demanded, "schema": schema}


def _schema(kind: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[get_origin(kind) or kind]}
    if schema["type"] == "array":
        schema["items"] = _schema(get_args(kind)[0]) if get_args(kind) and get_args(kind)[0] in _TYPES else {}
    if schema["type"] == "integer":
        schema["format"] = "int64"
    return schema
