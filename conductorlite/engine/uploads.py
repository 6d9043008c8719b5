"""Documents that clients put into the payload storage themselves: where, and what becomes of them once they are reported.

An upload is stored under a path of its own that no one can guess. What is reported by its path is read once, and is from then on a
document like any other: small, it stays in the store, large, it is stored in the payload storage under its hash, and no one can
change it any more. The upload itself is noted as loose when its path is given out, and swept after the grace time, reported or not:
a client whose report was lost can report again until then. Source of the rule: Conductor's external payload storage.
"""

from __future__ import annotations

import os
from typing import Any, Final

from conductorlite.engine.config import Service
from conductorlite.engine.payloads import PayloadStore, PayloadSweep, as_unavailable
from conductorlite.model.canonical import MAX_SIZE, parse
from conductorlite.model.errors import InvalidInput, PayloadLost, PayloadTooLarge, PayloadUnavailable
from conductorlite.model.later import pattern
from conductorlite.model.texts import Span, printable, to_span
from conductorlite.store.ports import PayloadStorage
from conductorlite.store.tables import ExternalStorageLocation, OrphanPayload

__all__ = ["Payloads", "given_path", "uploaded"]

#: Folders of Conductor's payload types.
_FOLDERS: Final = {
    "WORKFLOW_INPUT": "workflow/input",
    "WORKFLOW_OUTPUT": "workflow/output",
    "TASK_INPUT": "task/input",
    "TASK_OUTPUT": "task/output",
}

_NAME: Final = pattern(r"[0-9a-f]{32}\.json")


class Payloads(Service):
    """Verbs on the payload storage."""

    def sweep(self, grace: Span = "1d") -> PayloadSweep:
        """Delete what is in the payload storage and no execution refers to: what crashes and refused turns have left.

        What was put there, or noticed there for the first time, less than `grace` ago by the engine's
        clock stays: its turn may be about to be committed. `grace=0` is for when no other process uses the store. The storage must
        belong to this store alone. Raises PayloadUnavailable; what was deleted until then stays deleted.
        """
        return self._turns.payload_store.sweep(self._clock.now(), to_span(grace))

    def location(self, path: str = "", operation: str = "READ", payload_type: str | None = None) -> ExternalStorageLocation:
        """Where the payload of a `path` can be read, or with WRITE a new one uploaded: a URI, signed where the storage can.

        To upload, leave `path` empty and give the `payload_type`, WORKFLOW_INPUT for a start or TASK_OUTPUT for a report, write one
        JSON object to the URI, and report the path that is returned. It is read then, once; `sweep` deletes the upload
        when its grace time, counted from here, is over. With the path of an upload, WRITE gives a URI for it again; what is stored
        already cannot be overwritten. Raises InvalidInput for a path, operation or type that cannot be, PayloadUnavailable, also
        when the store keeps everything itself, and StorageErrors. Source of the rule: Conductor's `getExternalStorageLocation`.
        """
        payload_store = self._turns.payload_store
        storage = _storage(payload_store)
        if payload_type is not None and payload_type not in _FOLDERS:
            raise InvalidInput(f"payload type {printable(payload_type, 80)!r} is none of {', '.join(_FOLDERS)}")
        if operation != "WRITE":
            return storage.location(operation, path)
        if payload_type is None:
            raise InvalidInput(f"to WRITE a document say its payload type: {', '.join(_FOLDERS)}")
        # No one can guess it: a client that knows the path of an upload can report it.
        key = path or f"{_FOLDERS[payload_type]}/{os.urandom(16).hex()}.json"
        if not _is_upload(key, payload_type):
            raise InvalidInput(
                f"{printable(path, 80)!r} is no path of an upload ({payload_type}); with an empty path you are given one"
            )
        found = storage.location(operation, key)
        with self._backend.writing() as tx:
            tx.mark_orphan([OrphanPayload(key=key, workflow_id="", at=self._clock.now())])
        return found


def given_path(path: object) -> str | None:
    """The path in a report or a start, None for a blank one; raises InvalidInput when it is no text."""
    if path is None:
        return None
    if type(path) is not str:
        raise InvalidInput(f"the path of a payload is a text, not {printable(path, 80)}")
    return path.strip() or None


def uploaded(payload_store: PayloadStore, path: str, payload_type: str) -> dict[str, Any]:
    """The document that a client has put where a location said, for a start or report of that type.

    Raises InvalidInput when the path is none that is given out for the type, when nothing is stored there, or no JSON object,
    PayloadTooLarge when it is past what any barrier lets pass (`MAX_SIZE` bytes), and PayloadUnavailable.
    """
    if not _is_upload(path, payload_type):
        raise InvalidInput(
            f"{printable(path, 80)!r} is no path of an upload ({payload_type}): `engine.payloads.location` gives one"
        )
    storage = _storage(payload_store)
    try:
        with as_unavailable(f"upload {path} could not be fetched"):
            size = storage.size(path)
            data = b"" if size > MAX_SIZE else storage.get(path)
    except PayloadLost as lost:
        raise InvalidInput(f"nothing was uploaded: {lost}") from None
    if max(size, len(data)) > MAX_SIZE:
        limit = MAX_SIZE // 1024
        raise PayloadTooLarge(
            f"the upload {path} has {max(size, len(data))} bytes, more than the {MAX_SIZE} bytes ({limit} KB) that are read"
        )
    document = parse(data, where=f"upload {path}")
    if not isinstance(document, dict):
        raise InvalidInput(f"upload {path}: it must be a JSON object, not {type(document).__name__}")
    return document


def _is_upload(path: object, payload_type: str) -> bool:
    folder, _, name = path.rpartition("/") if type(path) is str else ("", "", "")
    return folder == _FOLDERS[payload_type] and _NAME.fullmatch(name) is not None


def _storage(payload_store: PayloadStore) -> PayloadStorage:
    if payload_store.storage is None:
        raise PayloadUnavailable("this engine has no payload storage")
    return payload_store.storage
