"""Documents that are too large for the store: the storage they lie in, and the store's account of what lies there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from conductorlite.canonical import ExternalPayload

__all__ = [
    "ExternalStorageLocation",
    "LoosePayload",
    "PayloadCodec",
    "PayloadReads",
    "PayloadStorage",
    "PayloadWrites",
    "StoredPayload",
]


@attrs.frozen(kw_only=True, slots=True)
class StoredPayload:
    """One object of a storage; `size` is what it takes there, in bytes."""

    key: str
    size: int


@attrs.frozen(kw_only=True, slots=True)
class ExternalStorageLocation:
    """Where an object can be read or written directly: `uri`, signed where the storage can; `path`, its key. Conductor's words."""

    uri: str
    path: str


class PayloadStorage(Protocol):
    """Bytes by key. It belongs to one store: what that store does not know of is swept. Thread-safe.

    Keys are texts of hex digits, `/`, `.`, `-` and `_`. Every method raises PayloadUnavailable when the storage cannot be
    reached or refuses.
    """

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes, whole or not at all, in place of what was there; durable when it returns."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        ...

    def size(self, key: str) -> int:
        """How many bytes there are, without reading them; raises PayloadLost when there are none."""
        ...

    def delete(self, key: str) -> None:
        """Forget the bytes; nothing happens when there are none."""
        ...

    def list(self) -> Iterator[StoredPayload]:
        """Every object there is, what an interrupted `put` has left included, in any order."""
        ...

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """Where to READ or WRITE the object of that key; raises InvalidInput for any other operation."""
        ...


class PayloadCodec(Protocol):
    """What is done to bytes on their way to a storage and back: compressing, encrypting. Pure, thread-safe.

    `key_id` (letters, digits, `-`, `_`) names how `encode` works at present, for one the key it encrypts with; it is kept
    beside each payload, and given to `decode` with it, so that keys can be changed while old payloads are read.
    """

    key_id: str

    def encode(self, data: bytes) -> bytes:
        """The bytes as they are stored."""
        ...

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The bytes as they were; may raise anything when they are damaged or the key is not known."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class LoosePayload:
    """An object that may be in the storage without a row that refers to it: put there for a turn of `workflow_id`, at `at`."""

    key: str
    workflow_id: str
    at: int


class PayloadReads(Protocol):
    """Which documents lie in the payload storage, and for whom."""

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents of an execution that lie in the storage, of these hashes or (None) all, by hash."""
        ...

    def external_used(self, key: str) -> bool:
        """Whether any execution refers to an object."""
        ...

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the keys that an execution refers to, or that are noted as loose."""
        ...

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[LoosePayload]:
        """A page of what was noted as loose at `until` or before, ascending by (key, workflow_id), greater than `after`."""
        ...

    def loosened_at(self, key: str) -> int | None:
        """When an object was last noted as loose; None when it is not."""
        ...


class PayloadWrites(Protocol):
    """Keeping account of the payload storage. A decision's `externals` are stored by `apply`, and are then not loose any more
    for their execution; what a removed execution referred to is loose, dated 0."""

    def loosen(self, loose: Sequence[LoosePayload]) -> None:
        """Note objects as loose, in place of what was noted for the same key and execution."""
        ...

    def tighten(self, key: str, until: int) -> None:
        """Forget that an object was noted as loose at `until` or before."""
        ...
