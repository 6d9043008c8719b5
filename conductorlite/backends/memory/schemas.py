"""Registered schemas in a memory store."""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.backends.memory.store import Store

__all__ = ["MemorySchemaReads", "MemorySchemaWrites"]


class MemorySchemaReads:
    """The queries of `ports.SchemaReads`."""

    _store: Store

    def schema_def(self, name: str, version: int | None) -> str | None:
        """A registered schema; version None is the highest."""
        table = self._store.schema_defs
        if version is None:
            version = max((number for known, number in table if known == name), default=None)
        return None if version is None else table.get((name, version))

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas, in order."""
        return sorted(self._store.schema_defs)


class MemorySchemaWrites:
    """The changes of `ports.SchemaWrites`."""

    _store: Store

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""
        store = self._store
        store.put(store.schema_defs, (name, version), text)
        store.put(store.counters, "registry", store.counters["registry"] + 1)
