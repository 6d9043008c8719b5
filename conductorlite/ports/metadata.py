"""Registered and embedded definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = [
    "MetadataReads",
    "MetadataWrites",
]


class MetadataReads(Protocol):
    """Registered and embedded definitions, as canonical JSON text."""

    def registry_version(self) -> int:
        """A number that grows with every change of a registered definition."""
        ...

    def definition(self, digest: str) -> str | None:
        """An embedded definition by its hash."""
        ...

    def workflow_def(self, name: str, version: int | None) -> str | None:
        """A registered workflow definition; version None is the highest."""
        ...

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered workflow definitions, in order."""
        ...

    def task_def(self, name: str) -> str | None:
        """A registered task definition."""
        ...

    def task_defs(self) -> Sequence[str]:
        """Names of the registered task definitions, in order."""
        ...


class MetadataWrites(Protocol):
    """Registering definitions."""

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a workflow definition."""
        ...

    def put_task_def(self, name: str, text: str) -> None:
        """Register or replace a task definition."""
        ...

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""
        ...
