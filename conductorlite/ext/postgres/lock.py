"""A lock among engines on several hosts, kept by PostgreSQL: advisory locks of a session, whatever store the engines have.

A turn is held for as long as its engine lives and its connection stands, however long it takes: the server frees it when the
connection ends. What it does not promise: a process that is stopped, or whose host is gone without a word, holds its turns until
the server finds out (`tcp_keepalives_idle`, `tcp_user_timeout`); one whose connection was ended has lost them, and may not know it
yet. The fence of the store is what nothing is lost by.

Source of the rule: PostgreSQL's documentation, "Advisory Locks".
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Final, final

from conductorlite.ext.postgres.wire import Connection, connect, milliseconds, parted
from conductorlite.model.errors import EngineClosed, LockUnavailable, StorageError
from conductorlite.model.threads import Mutex
from conductorlite.store.locks import drawn_token

__all__ = ["PostgresLock"]

_TAKE: Final = "SELECT pg_try_advisory_lock(?)"
_GIVE: Final = "SELECT pg_advisory_unlock(?)"
_STANDS: Final = "SELECT 1"


@final
class PostgresLock:
    """A lock kept by the server at `url`; `?schema=` names the turns it is about, as it names a store. Thread-safe.
    `?answer_timeout_ms=` bounds the wait for an answer (5 s).

    Raises MissingExtra without psycopg, LockUnavailable when the server does not answer, AccessDenied, InvalidInput.
    """

    own_time: Final = True

    def __init__(self, url: str) -> None:
        self._url, options, self._shown = parted(url, "schema", "busy_timeout_ms", "answer_timeout_ms")
        self._answer_timeout_ms = milliseconds(options, "answer_timeout_ms", 5_000)
        self._about = options.get("schema", "conductorlite")
        self._pid = os.getpid()
        self._closed = False
        self._mutex = Mutex()
        self._held: dict[str, int] = {}
        self._connection: Connection | None = None
        with self._mutex.held():
            self._ask(_STANDS)

    @classmethod
    def from_url(cls, url: str) -> PostgresLock:
        """The lock at `postgresql://user@host/database?schema=orders`. Raises as the class does."""
        return cls(url)

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None when another holding has it. Raises LockUnavailable, EngineClosed."""
        with self._mutex.held():
            # A session may take its own again: here it is looked at first, if it still has it.
            if (workflow_id in self._held and self._ask(_STANDS) and workflow_id in self._held) or not self._ask(
                _TAKE, self._key(workflow_id)
            ):
                return None
            self._held[workflow_id] = token = drawn_token()
            return token

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Return True if the turn is still held: for as long as the connection stands. Raises as `try_acquire`."""
        with self._mutex.held():
            return self._held.get(workflow_id) == token and self._ask(_STANDS) and self._held.get(workflow_id) == token

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost. Raises as `try_acquire`: then it has ended with the connection."""
        with self._mutex.held():
            self._check()
            if self._held.get(workflow_id) == token and self._ask(_STANDS) and self._held.pop(workflow_id, None) == token:
                self._ask(_GIVE, self._key(workflow_id))

    def close(self) -> None:
        """End the connection, and with it every turn that is held; idempotent."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            with self._mutex.held():
                self._held.clear()
                if self._connection is not None:
                    self._connection.close()

    def _key(self, workflow_id: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._about}\0{workflow_id}".encode()).digest()[:8], signed=True)

    def _check(self) -> None:
        if self._closed or os.getpid() != self._pid:
            raise EngineClosed(f"the lock at {self._shown} was closed, or belongs to the process that this one was forked from")

    def _ask(self, statement: str, *cells: Any) -> bool:
        """Return the answer of the server; on a new connection, which holds nothing, where the last one has ended."""
        self._check()
        if self._connection is not None and not self._connection.usable:
            self._lost()
        try:
            if self._connection is None:
                self._connection = connect(
                    self._url,
                    self._shown,
                    f"conductorlite lock {self._about}",
                    lambda: None,
                    answer_timeout_ms=self._answer_timeout_ms,
                )
            row = self._connection.execute(statement, cells).fetchone()
        except StorageError as error:
            self._lost()
            raise LockUnavailable(f"the lock at {self._shown} cannot be reached: {error}") from error
        return bool(row and row[0])

    def _lost(self) -> None:
        self._held.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
