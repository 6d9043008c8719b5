"""Who is at work on a store in PostgreSQL: each holder has a connection, which the system ends with its process.

`Peers` are the processes that commit to the store of late. Several that poll one queue would all decide on what is first in it, and
all but one in vain. So each begins with its own share of what is best, by the hash of the execution, and goes on with that of the
others: nothing is left out, and nobody is waited for. Who the others are is known from their notifications; a process that has not
been heard of for a while has no share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import itemgetter
from typing import Any, Final, TypeVar

from conductorlite.ext.postgres.wire import Connection
from conductorlite.model.errors import StorageError
from conductorlite.model.threads import Mutex
from conductorlite.store.tables import Life, Share

__all__ = ["Peers", "PostgresPresence", "Presences"]

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
            with suppress(StorageError):  # the server ends it with the connection
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
        """Return whether the holder's connection is there; ELSEWHERE when the server could not be reached all the time."""
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
            except StorageError:  # not known now: the holder counts as living elsewhere, and its lease decides
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


T = TypeVar("T")

#: After so many changes of its own a process forgets others that have been silent meanwhile.
_WINDOW: Final = 64


class Peers:
    """The processes of one store, as one of them knows them; what it notes in one thread others may read meanwhile."""

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._heard: dict[bytes, None] = {}
        self._before: dict[bytes, None] = {}
        self._changes = 0
        #: That of this process.
        self.share = Share()

    def changed(self) -> None:
        """Note a change of this process."""
        self._changes += 1
        if self._changes % _WINDOW == 0:
            self._before, self._heard = self._heard, {}
            self._reckon()

    def heard(self, tokens: Iterable[bytes]) -> int:
        """Note who has committed; how many of them were others."""
        others = [token for token in tokens if token != self._own]
        new = set(others) - self._heard.keys()
        if new:
            self._heard = self._heard | dict.fromkeys(new)
            self._reckon()
        return len(others)

    def _reckon(self) -> None:
        self.share = Share.of(self._own, sorted({self._own, *self._heard, *self._before}))

    def own_first(self, found: list[T], workflow_id: Callable[[T], str], rank: Callable[[T], int] = lambda _: 0) -> list[T]:
        """Return the found rows, of each rank the own share first; otherwise in the order in which they came."""
        if self.share.count == 1:
            return found
        placed = [(rank(one), self.share.distance(workflow_id(one)), one) for one in found]
        return [one for _, _, one in sorted(placed, key=itemgetter(0, 1))]
