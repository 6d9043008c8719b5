"""Registered schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["SchemaReads", "SchemaWrites"]


class SchemaReads(Protocol):
    """Registered schemas, as canonical JSON text."""

    def schema_def(self, name: str, version: int | None) -> str | None:
        """A registered schema; version None is the highest."""
        ...

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas, in order."""
        ...


class SchemaWrites(Protocol):
    """Registering schemas; it is a change of the registry, so `registry_version` grows."""

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""
        ...
