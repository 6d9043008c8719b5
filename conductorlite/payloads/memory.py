"""Payloads in this process's memory: nothing survives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from conductorlite.errors import PayloadLost
from conductorlite.payloads.keys import checked_key, checked_operation
from conductorlite.ports import ExternalStorageLocation, StoredPayload

__all__ = ["MemoryPayloads"]


@final
class MemoryPayloads:
    """A payload storage in memory. Thread-safe, for each call is one step of a dict."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes in place of what was there."""
        self._held[checked_key(key)] = bytes(data)

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        try:
            return self._held[key]
        except KeyError:
            raise PayloadLost(key, "is missing in memory") from None

    def size(self, key: str) -> int:
        """How many bytes there are; raises PayloadLost when there are none."""
        try:
            return len(self._held[key])
        except KeyError:
            raise PayloadLost(key, "is missing in memory") from None

    def delete(self, key: str) -> None:
        """Forget the bytes, if there are any."""
        self._held.pop(key, None)

    def list(self) -> Iterator[StoredPayload]:
        """Every object there is."""
        return iter([StoredPayload(key=key, size=len(data)) for key, data in self._held.copy().items()])

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """A URI that only names the object: nobody else can reach it."""
        checked_operation(operation)
        return ExternalStorageLocation(uri=f"memory://{checked_key(path)}", path=path)
