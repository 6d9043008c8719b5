"""Locks that save double work on one execution; a lock is never trusted for safety, that is the fence's.

A lock for engines of one process that share a store.

A lock for processes: one row per turn that is being taken, in a file of its own that is never synced.

Nothing of the store is committed for it, and nothing is lost with it: a power cut frees every turn.
"""

from __future__ import annotations

import os
import sqlite3
from itertools import count
from typing import Final, final

from conductorlite.model.errors import EngineClosed, InvalidInput, StorageBusy, StorageError
from conductorlite.model.texts import Milliseconds, Span, to_ms, to_span
from conductorlite.model.threads import Mutex
from conductorlite.store.payloads import make_private

__all__ = ["InProcessLock", "SQLiteLock", "drawn_token", "lease_ms"]


def drawn_token() -> int:
    """A token that no other holding has, of any process."""
    return int.from_bytes(os.urandom(8)) >> 2


#: A lease that ends later than so many leases of one's own was taken before the clock was set back: it is over.
_LONGEST: Final = 10


def lease_ms(lease: Span) -> int:
    """The lease in ms; raises InvalidInput when it is not positive."""
    found = to_span(lease)
    if found <= 0:
        raise InvalidInput(f"a lease of {found} ms is over at once")
    return found


@final
class InProcessLock:
    """One object, given to every engine of the process as `lock`. Thread-safe.

    A turn is lost when it is held for longer than `lease` (Conductor's 60 s by default): then another engine may take it, and the
    fence refuses what the slow one commits. With None it is held until it is given back, which an interruption between the taking
    and the turn (Ctrl-C, no memory) prevents for good.
    """

    def __init__(self, *, lease: Span | None = "60s") -> None:
        self._lease = None if lease is None else to_span(lease)
        self._held: dict[str, tuple[int, int | None]] = {}
        self._tokens = count(1)
        self._guard = Mutex()

    own_time = False

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None at once when another engine has it whose lease is not over at `now`."""
        with self._guard.held():
            held = self._held.get(workflow_id)
            if held is not None and (held[1] is None or now < held[1] <= now + _LONGEST * (self._lease or 0)):
                return None
            token = next(self._tokens)
            self._held[workflow_id] = (token, self._until(now))
            return token

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease again, also of a turn whose lease is over, as long as nobody has taken it; False when it was lost."""
        with self._guard.held():
            held = self._held.get(workflow_id, (0, None))[0] == token
            if held:
                self._held[workflow_id] = (token, self._until(now))
            return held

    def _until(self, now: int) -> int | None:
        return None if self._lease is None else now + self._lease

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost to another engine."""
        with self._guard.held():
            if self._held.get(workflow_id, (0, None))[0] == token:
                del self._held[workflow_id]

    def close(self) -> None:
        """Nothing: it belongs to all engines that share it."""


_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS locks (workflow_id TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, token INTEGER NOT NULL,"
    " until INTEGER NOT NULL) WITHOUT ROWID"
)
_ACQUIRE: Final = (
    "INSERT INTO locks (workflow_id, owner, token, until) VALUES (?, ?, ?, ?) ON CONFLICT (workflow_id) DO UPDATE"
    " SET owner = excluded.owner, token = excluded.token, until = excluded.until WHERE until <= ? OR until > ?"
)
_RENEW: Final = "UPDATE locks SET until = ? WHERE workflow_id = ? AND owner = ? AND token = ?"
_RELEASE: Final = "DELETE FROM locks WHERE workflow_id = ? AND owner = ? AND token = ?"


@final
class SQLiteLock:
    """A lock among the processes of one machine, kept in the file `path`, which is made when it is missing.

    A turn is lost when it is held for longer than `lease` (Conductor's 60 s by default): then another engine
    may take it, and the fence refuses what the slow one commits. `owner` names the holder to others; by default it is drawn.
    Thread-safe. Raises InvalidInput when the lease is not positive, and StorageError when the file cannot be used.
    """

    own_time = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        owner: str | None = None,
        lease: Span = "60s",
        busy_timeout_ms: Milliseconds = 5_000,
    ) -> None:
        self._lease = lease_ms(lease)
        from pathlib import Path

        self.path: Final = str(Path(os.fspath(path)).absolute())
        self.owner: Final = owner or f"{os.getpid()}-{os.urandom(6).hex()}"
        # Two objects that were given one name are still two.
        self._owner = f"{self.owner}#{os.urandom(4).hex()}"
        self._busy_timeout_ms = to_ms(busy_timeout_ms)
        self._tokens = count(1)
        self._guard = Mutex()
        self._pid = os.getpid()
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        make_private(self.path)
        try:
            connection = sqlite3.connect(
                self.path, timeout=self._busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = MEMORY")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(_TABLE)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: the locks could not be opened ({error})") from error
        return connection

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None when another engine has it whose lease is not over at `now`.

        Raises StorageBusy when the file is held for longer than the busy timeout, StorageError, and EngineClosed.
        """
        token = next(self._tokens)
        row = (workflow_id, self._owner, token, now + self._lease, now, now + _LONGEST * self._lease)
        return token if self._execute(_ACQUIRE, row) else None

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease again, also of a turn whose lease is over, as long as nobody has taken it. Raises as `try_acquire`."""
        return self._execute(_RENEW, (now + self._lease, workflow_id, self._owner, token)) > 0

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost to another engine. Raises as `try_acquire`."""
        self._execute(_RELEASE, (workflow_id, self._owner, token))

    def _execute(self, statement: str, row: tuple[object, ...]) -> int:
        if os.getpid() != self._pid:
            raise EngineClosed(f"{self.path}: the process was forked after the lock was opened; open one in the child process")
        try:
            with self._guard.held():
                return self._connection.execute(statement, row).rowcount
        except sqlite3.OperationalError as error:
            busy = "locked" in str(error)
            raise (StorageBusy if busy else StorageError)(f"{self.path}: the locks could not be used ({error})") from error
        except sqlite3.Error as error:
            closed = "closed" in str(error)
            raise (EngineClosed if closed else StorageError)(f"{self.path}: the locks could not be used ({error})") from error

    def close(self) -> None:
        """Release the file; idempotent. What is still held is free when its lease is over."""
        if os.getpid() == self._pid:
            with self._guard.held():
                self._connection.close()
