"""Fields of a document from outside: each is there and of its type, or an error names its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.model.errors import InvalidInput

__all__ = ["typed"]


def typed(document: Any, name: str, kind: type, where: str) -> Any:
    """Return a field of a map; raises InvalidInput when there is no map, no such field, or one of another type."""
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{where}: a map is needed, not a {type(document).__name__}")
    if name not in document:
        raise InvalidInput(f"{where}.{name} is missing")
    value = document[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInput(f"{where}.{name}: {str(value)[:60]!r} is a {type(value).__name__}, not a {kind.__name__}")
    return value
