"""attrs, and a copy of an object with other values in some of its fields."""

from __future__ import annotations

from attrs import (
    NOTHING,
    Attribute,
    AttrsInstance,
    Factory,
    asdict,
    define,
    evolve,
    field,
    fields,
    fields_dict,
    frozen,
    has,
    resolve_types,
)
from attrs import evolve as changed

__all__ = [
    "NOTHING",
    "Attribute",
    "AttrsInstance",
    "Factory",
    "asdict",
    "changed",
    "define",
    "evolve",
    "field",
    "fields",
    "fields_dict",
    "frozen",
    "has",
    "resolve_types",
]
