"""What a SQLite store knows of the payload storage: `ports.PayloadReads` and `ports.PayloadWrites`, with their SQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from conductorlite.canonical import ExternalPayload
from conductorlite.ports import LoosePayload

__all__ = ["REMOVE_EXTERNALS", "SQLitePayloadReads", "SQLitePayloadWrites"]

_INSERT: Final = "INSERT INTO external_payloads (workflow_id, digest, size, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ALL_OF: Final = "SELECT digest, size, key FROM external_payloads WHERE workflow_id = ? ORDER BY digest"
_OF: Final = (
    "SELECT e.digest, e.size, e.key FROM json_each(?) AS wanted CROSS JOIN external_payloads AS e"
    " WHERE e.workflow_id = ? AND e.digest = wanted.value"
)
_USED: Final = "SELECT 1 FROM external_payloads WHERE key = ? LIMIT 1"
_KNOWN: Final = (
    "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM external_payloads WHERE key = value)"
    " OR EXISTS (SELECT 1 FROM loose_payloads WHERE key = value)"
)
#: Walks what is loose, which is little: what uploads under way, crashes and removals have left since the last sweep.
_LOOSE: Final = (
    "SELECT key, workflow_id, at FROM loose_payloads WHERE (key, workflow_id) > (?, ?) AND at <= ?"
    " ORDER BY key, workflow_id LIMIT ?"
)
_LOOSENED_AT: Final = "SELECT max(at) FROM loose_payloads WHERE key = ?"
_LOOSEN: Final = "INSERT OR REPLACE INTO loose_payloads (key, workflow_id, at) VALUES (?, ?, ?)"
_TIGHTEN: Final = "DELETE FROM loose_payloads WHERE key = ? AND at <= ?"
_TIGHTEN_FOR: Final = "DELETE FROM loose_payloads WHERE key = ? AND workflow_id = ?"

#: What an execution leaves in the storage when it is removed is loose, unless it is being put there anew.
REMOVE_EXTERNALS: Final = (
    "INSERT INTO loose_payloads (key, workflow_id, at) SELECT DISTINCT key, workflow_id, 0 FROM external_payloads"
    " WHERE workflow_id = ? ON CONFLICT DO NOTHING",
    "DELETE FROM external_payloads WHERE workflow_id = ?",
)


class SQLitePayloadReads:
    """The store's account of the payload storage, read."""

    _connection: sqlite3.Connection

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents of an execution that lie in the storage, of these hashes or (None) all, by hash."""
        if digests is None:
            rows = self._connection.execute(_ALL_OF, (workflow_id,))
        else:
            rows = self._connection.execute(_OF, (json.dumps(sorted(digests)), workflow_id))
        return {digest: ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in rows}

    def external_used(self, key: str) -> bool:
        """Whether any execution refers to an object."""
        return self._connection.execute(_USED, (key,)).fetchone() is not None

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the keys that an execution refers to, or that are noted as loose."""
        return frozenset(key for (key,) in self._connection.execute(_KNOWN, (json.dumps(list(keys)),)))

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[LoosePayload]:
        """A page of what was noted as loose at `until` or before, ascending, greater than `after`."""
        rows = self._connection.execute(_LOOSE, (*after, until, limit))
        return [LoosePayload(key=key, workflow_id=workflow_id, at=at) for key, workflow_id, at in rows]

    def loosened_at(self, key: str) -> int | None:
        """When an object was last noted as loose; None when it is not."""
        at: int | None = self._connection.execute(_LOOSENED_AT, (key,)).fetchone()[0]
        return at


class SQLitePayloadWrites(SQLitePayloadReads):
    """The store's account of the payload storage, written."""

    _dirty: bool

    def loosen(self, loose: Sequence[LoosePayload]) -> None:
        """Note objects as loose, in place of what was noted for the same key and execution."""
        self._dirty = True
        self._connection.executemany(_LOOSEN, [(one.key, one.workflow_id, one.at) for one in loose])

    def tighten(self, key: str, until: int) -> None:
        """Forget that an object was noted as loose at `until` or before."""
        self._dirty = True
        self._connection.execute(_TIGHTEN, (key, until))

    def _keep_externals(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        self._connection.executemany(_INSERT, [(workflow_id, one.digest, one.size, one.key) for one in externals])
        self._connection.executemany(_TIGHTEN_FOR, [(one.key, workflow_id) for one in externals])
