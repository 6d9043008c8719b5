"""Who is at work on a store in PostgreSQL: each holder has a connection, which the system ends with its process."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from conductorlite.ext.postgres.wire import Connection
from conductorlite.model.errors import StorageError
from conductorlite.model.threads import Mutex
from conductorlite.store.tables import Life

__all__ = ["PostgresPresence", "Presences"]

#: The server's own start, and what distinguishes a connection from every other one of it.
_MINE: Final = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text || '/' || pid || '/' || extract(epoch FROM backend_start)::text"
    " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_LOOK: Final = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, EXISTS (SELECT 1 FROM pg_stat_activity"
    " WHERE pid = ? AND extract(epoch FROM backend_start)::text = ?), departed FROM presences WHERE place = ?"
)
_APPEAR: Final = "INSERT INTO presences (place) VALUES (?)"
_LEAVE: Final = "UPDATE presences SET departed = 1 WHERE place = ?"
_FORGET: Final = "DELETE FROM presences WHERE place = ?"


class PostgresPresence:
    """One connection. Leased: a server that was restarted knows of nobody, whether their processes live or not."""

    leased = True

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._pid = os.getpid()
        row = connection.execute(_MINE).fetchone()
        self.place = "" if row is None else str(row[0])
        connection.execute(_APPEAR, (self.place,)).fetchall()

    def leave(self) -> None:
        """End it, recording that the holder ended by itself. Its connection is used for nothing else: a signal handler may ask."""
        self._end(_LEAVE)

    def die(self) -> None:
        """End the connection; idempotent. A forked child leaves it to its parent."""
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._pid:
            connection.close(wait=True)

    def remove(self) -> None:
        """End it and leave no trace."""
        self._end(_FORGET)

    def _end(self, statement: str) -> None:
        if self._connection is not None and os.getpid() == self._pid:
            with suppress(StorageError):
                self._connection.execute(statement, (self.place,)).fetchall()
            self.die()


class Presences:
    """The holders of one store."""

    def __init__(self, connected: Callable[[], Connection]) -> None:
        self._connected = connected
        self._mutex = Mutex()
        self._asking: Connection | None = None
        self._appeared: list[PostgresPresence] = []

    def appear(self) -> PostgresPresence:
        """The presence of a new holder."""
        presence = PostgresPresence(self._connected())
        self._appeared.append(presence)
        return presence

    def look(self, place: str) -> Life:
        """Whether the holder's connection is there; ELSEWHERE when the server, or the way to it, was not there all the time."""
        server, _, rest = place.partition("/")
        process, _, since = rest.partition("/")
        if not process.isdecimal():
            return Life.ELSEWHERE
        row = self._asked(_LOOK, (int(process), since, place))
        if not row:
            return Life.MISSING if row is not None else Life.ELSEWHERE
        now, there, departed = row
        if departed:
            return Life.LEFT
        if now != server:
            return Life.ELSEWHERE
        return Life.ALIVE if there else Life.DEAD

    def forget(self, place: str) -> None:
        """Remove what a holder that is no more has left."""
        self._asked(_FORGET, (place,))

    def _asked(self, statement: str, cells: tuple[object, ...]) -> tuple[Any, ...] | None:
        """The row that answers, empty when there is none; None when the server does not answer."""
        with self._mutex.held():
            try:
                if self._asking is None:
                    self._asking = self._connected()
                return self._asking.execute(statement, cells).fetchone() or ()
            except StorageError:
                if self._asking is not None:
                    self._asking.close()
                self._asking = None
                return None

    def close(self) -> None:
        """End what is open."""
        for presence in self._appeared:
            presence.leave()
        with self._mutex.held():
            if self._asking is not None:
                self._asking.close()
                self._asking = None
