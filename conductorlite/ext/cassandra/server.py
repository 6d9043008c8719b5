"""The partitions in a cluster of Cassandra. The only importer of cassandra-driver.

Reads and writes are at QUORUM, transactions at SERIAL (LOCAL_… with `?datacenter=`). A transaction whose answer did not come is
looked for with a SERIAL read, after which it has happened or never will: its head row says which turn has written it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, final

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    RequestExecutionException,
    WriteTimeout,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, tuple_factory

from conductorlite.ext.cassandra.backend import SplitBackend
from conductorlite.ext.cassandra.partitions import REMOVED, SHARDS, Asked, Cell, Head, Turn
from conductorlite.model.errors import AccessDenied, EngineClosed, InvalidInput, StorageError, StorageUnavailable
from conductorlite.model.texts import to_span
from conductorlite.store.places import opened, place_of
from conductorlite.store.ports import Backend

__all__ = ["CassandraBackend", "CassandraPartitions"]

_PORT: Final = 9042
_OPTIONS: Final = frozenset({"queue", "replication", "datacenter", "timeout"})
_KEYSPACE: Final = re.compile("[a-z][a-z0-9_]{0,46}")

#: Parts of a row that is larger than this are rows of their own, bytes at most four times this.
_PART: Final = 200_000
#: Where the parts of an outbox are: no shard has this number.
_PARTS: Final = -1
#: Rows of one plain write, and characters in them.
_ROWS: Final = 200
_WEIGHT: Final = 200_000
_AT_ONCE: Final = 64

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS workflows (workflow_id text, shard int, entity text, key text, fence bigint, data text, item text,"
    " turn text, PRIMARY KEY ((workflow_id, shard), entity, key))",
    "CREATE TABLE IF NOT EXISTS task_lookup (head text, workflow_id text, PRIMARY KEY (head, workflow_id))",
    "CREATE TABLE IF NOT EXISTS definitions (key text PRIMARY KEY, data text)",
    "CREATE TABLE IF NOT EXISTS event_executions (key text PRIMARY KEY, data text)",
)
_HEAD: Final = "workflow_id = ? AND shard = 0 AND entity = '' AND key = ''"
_ROW: Final = "SELECT entity, key, fence, data FROM workflows WHERE workflow_id = ? AND shard = ? AND"
_RANGE: Final = f"{_ROW} entity = ? AND key >= ? AND key < ?"
_CREATE: Final = (
    "INSERT INTO workflows (workflow_id, shard, entity, key, fence, data, item, turn) VALUES (?, 0, '', '', ?, ?, ?, ?)"
    " IF NOT EXISTS"
)
_PUT: Final = "INSERT INTO workflows (workflow_id, shard, entity, key, fence, data) VALUES (?, ?, ?, ?, ?, ?)"
_DROP: Final = "WHERE workflow_id = ? AND shard = ? AND entity = ? AND key = ?"

Answer = TypeVar("Answer")


@final
class CassandraPartitions:
    """The partitions in a keyspace: see `Partitions`. `url` as `CassandraBackend` has it."""

    def __init__(self, url: str) -> None:
        place = place_of(url, _PORT, _OPTIONS)
        self.path: Final = place.shown.partition("?")[0]
        if not _KEYSPACE.fullmatch(place.path):
            raise InvalidInput(f"{self.path}: a keyspace is 1 to 47 lower-case letters, digits and `_`, not {place.path!r:.80}")
        replication, datacenter = place.number("replication", 1, "copies"), place.options.get("datacenter")
        self._timeout = to_span(place.options.get("timeout", "5s")) / 1000
        policy = DCAwareRoundRobinPolicy(local_dc=datacenter) if datacenter else RoundRobinPolicy()
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(policy),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM if datacenter else ConsistencyLevel.QUORUM,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL if datacenter else ConsistencyLevel.SERIAL,
            request_timeout=self._timeout,
            row_factory=tuple_factory,
        )
        self._serial = profile.serial_consistency_level
        self._cluster = Cluster(
            list(place.hosts),
            port=place.hosts[0][1],
            auth_provider=PlainTextAuthProvider(place.user, place.password) if place.user else None,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=ConstantReconnectionPolicy(0.5, None),
            connect_timeout=self._timeout,
        )
        self._pid = os.getpid()
        self._closed = False
        self._known: dict[str, Any] = {}
        #: Statements sent, and partitions touched by them.
        self.statements = self.partitions = 0
        try:
            self._session: Any = self._asked(self._cluster.connect)
            self._asked(lambda: self._made(place.path, datacenter, replication))
        except BaseException:
            self._cluster.shutdown()
            raise

    def _made(self, keyspace: str, datacenter: str | None, replication: int) -> None:
        """Make what is missing; what is there is only looked at."""
        metadata = self._cluster.metadata.keyspaces
        if keyspace not in metadata:
            how = f"'NetworkTopologyStrategy', '{datacenter}'" if datacenter else "'SimpleStrategy', 'replication_factor'"
            self._session.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': {how}: {replication}}}", timeout=60
            )
        self._session.set_keyspace(keyspace)
        tables = metadata[keyspace].tables if keyspace in metadata else {}
        for text in _TABLES:
            if text.split()[5] not in tables:
                self._session.execute(text, timeout=60)

    # -- questions -----------------------------------------------------------------------------------------------------

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of the cluster, its errors as ours."""
        if self._closed or os.getpid() != self._pid:
            raise EngineClosed(f"{self.path}: the store was closed, or the process was forked after it was opened")
        try:
            return ask()
        except NoHostAvailable as error:
            errors = error.errors.values() if isinstance(error.errors, Mapping) else ()  # or the hosts alone
            if any(isinstance(one, AuthenticationFailed) for one in errors):
                raise AccessDenied(f"{self.path}: the server refuses the user or the password") from error
            raise StorageUnavailable(f"{self.path}: no server can be reached") from error
        except (OperationTimedOut, RequestExecutionException) as error:
            raise StorageUnavailable(f"{self.path}: the cluster did not answer in time ({type(error).__name__})") from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
        except (InvalidRequest, DriverException) as error:
            raise StorageError(f"{self.path}: {error}") from error

    def _prepared(self, text: str) -> Any:
        if text not in self._known:
            prepared = self._session.prepare(text)
            prepared.is_idempotent = " IF " not in text
            self._known[text] = prepared
        return self._known[text]

    def _send(self, text: str, *values: object) -> Any:
        self.statements += 1
        self.partitions += 1
        return self._session.execute_async(self._prepared(text), values)

    def _all(self, questions: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
        """The answers to many statements, so many of them at once."""

        def ask() -> list[list[Any]]:
            found, asked = [], list(questions)
            for at in range(0, len(asked), _AT_ONCE):
                sent = [self._send(*one) for one in asked[at : at + _AT_ONCE]]
                found += [list(one.result()) for one in sent]
            return found

        return self._asked(ask)

    def _each(self, text: str) -> Iterator[Any]:
        """The rows of a whole table; each page is asked for when it is come to."""
        rows = self._asked(lambda: iter(self._session.execute(text, timeout=60)))
        while (row := self._asked(lambda: next(rows, None))) is not None:
            yield row

    # -- executions ----------------------------------------------------------------------------------------------------

    def heads(self, workflow_ids: Sequence[str], *, items: bool = False) -> Mapping[str, Head]:
        """See `Partitions.heads`."""
        text = f"SELECT fence, data, turn{', item' if items else ''} FROM workflows WHERE {_HEAD}"
        answers = self._all((text, workflow_id) for workflow_id in workflow_ids)
        return {
            one: Head(fence=row[0], text=row[1], turn=row[2] or "", item=(row[3] or "") if items else "")
            for one, rows in zip(workflow_ids, answers, strict=True)
            for row in rows
        }

    def read(self, asked: Sequence[Asked]) -> Sequence[Sequence[Cell]]:
        """See `Partitions.read`."""
        return [[Cell(entity, key, data, fence) for entity, key, fence, data in rows] for rows in self._all(map(_question, asked))]

    def take(self, turns: Sequence[Turn]) -> Sequence[bool]:
        """See `Partitions.take`."""

        def ask() -> list[bool]:
            return [self._taken(turn, sent) for turn, sent in [(turn, self._begun(turn)) for turn in turns]]

        return self._asked(ask)

    def _begun(self, turn: Turn) -> Any:
        head, batch = turn.head, BatchStatement()
        item = self._parted(turn) if len(head.item) > _PART else head.item
        if turn.expected is None:
            batch.add(self._prepared(_CREATE), (turn.workflow_id, head.fence, head.text, item, head.turn))
        else:
            text = f"UPDATE workflows SET fence = ?, data = ?, item = ?, turn = ? WHERE {_HEAD} IF fence = ?"
            batch.add(self._prepared(text), (head.fence, head.text, item, head.turn, turn.workflow_id, turn.expected))
        for cell in turn.cells:
            if cell.text is None:
                batch.add(self._prepared(f"DELETE FROM workflows {_DROP}"), (turn.workflow_id, 0, cell.entity, cell.key))
            else:
                batch.add(self._prepared(_PUT), (turn.workflow_id, 0, cell.entity, cell.key, cell.fence, cell.text))
        self.statements += 1
        self.partitions += 1
        return self._session.execute_async(batch)

    def _parted(self, turn: Turn) -> str:
        """Write a very large outbox in parts, which nobody reads unless the transaction is applied."""
        parts = [turn.head.item[at : at + _PART] for at in range(0, len(turn.head.item), _PART)]
        cells = [(_PARTS, Cell(turn.head.turn, f"{n:06d}", part, turn.head.fence)) for n, part in enumerate(parts)]
        self.write(turn.workflow_id, cells)
        return f"@{len(parts)}"

    def _taken(self, turn: Turn, sent: Any) -> bool:
        """Return True if a transaction was applied.

        One of which no answer came is looked for; one that was refused too: it may be its own second copy, for the driver sends to
        another host what was under way on a connection that ends.
        """
        with suppress(OperationTimedOut, WriteTimeout):  # whether it was applied is read below
            if sent.result().was_applied:
                return True
        statement = self._prepared(f"SELECT turn, fence FROM workflows WHERE {_HEAD}").bind((turn.workflow_id,))
        statement.consistency_level = self._serial
        self.statements += 1
        return bool(self._session.execute(statement).one() == (turn.head.turn, turn.head.fence))

    def whole(self, workflow_id: str, head: Head) -> str:
        """See `Partitions.whole`."""
        if not head.item.startswith("@"):
            return head.item
        (cells,) = self.read([Asked(workflow_id=workflow_id, shard=_PARTS, entity=head.turn)])
        return "".join(cell.text or "" for cell in cells)

    def write(self, workflow_id: str, cells: Iterable[tuple[int, Cell]]) -> None:
        """See `Partitions.write`."""
        shards: dict[int, list[Cell]] = {}
        for shard, cell in cells:
            shards.setdefault(shard, []).append(cell)

        def ask() -> None:
            sent = [self._written(workflow_id, shard, some) for shard, found in shards.items() for some in _portions(found)]
            for one in sent:
                one.result()

        self._asked(ask)

    def _written(self, workflow_id: str, shard: int, cells: Sequence[Cell]) -> Any:
        batch = BatchStatement()
        for cell in cells:
            if cell.text is None:
                text = f"DELETE FROM workflows USING TIMESTAMP ? {_DROP}"
                batch.add(self._prepared(text), (cell.fence, workflow_id, shard, cell.entity, cell.key))
            else:
                text = f"{_PUT} USING TIMESTAMP ?"
                batch.add(self._prepared(text), (workflow_id, shard, cell.entity, cell.key, cell.fence, cell.text, cell.fence))
        batch.is_idempotent = True
        self.statements += 1
        self.partitions += 1
        return self._session.execute_async(batch)

    def forget(self, workflow_id: str, fence: int) -> None:
        """See `Partitions.forget`."""

        def ask() -> None:
            batch = BatchStatement()
            batch.add(self._prepared(f"DELETE FROM workflows WHERE {_HEAD} IF turn = '{REMOVED}'"), (workflow_id,))
            batch.add(self._prepared("DELETE FROM workflows WHERE workflow_id = ? AND shard = 0 AND entity > ''"), (workflow_id,))
            self.statements += 1
            if not self._session.execute(batch).was_applied:
                return
            text = "DELETE FROM workflows USING TIMESTAMP ? WHERE workflow_id = ? AND shard = ?"
            for sent in [self._send(text, fence, workflow_id, shard) for shard in (*range(1, SHARDS + 1), _PARTS)]:
                sent.result()

        self._asked(ask)

    # -- beside executions ---------------------------------------------------------------------------------------------

    def identity(self) -> str:
        """See `Partitions.identity`."""
        row = self._all([("SELECT data FROM definitions WHERE key = ?", "identity")])[0]
        if row:
            return str(row[0][0])
        self._all([("INSERT INTO definitions (key, data) VALUES (?, ?) IF NOT EXISTS", "identity", os.urandom(16).hex())])
        return self.identity()

    def register(self, head: str, workflow_id: str) -> None:
        """See `Partitions.register`."""
        self._all([("INSERT INTO task_lookup (head, workflow_id) VALUES (?, ?)", head, workflow_id)])

    def registered(self, head: str) -> Sequence[str]:
        """See `Partitions.registered`."""
        return [row[0] for row in self._all([("SELECT workflow_id FROM task_lookup WHERE head = ?", head)])[0]]

    def walk(self) -> Iterator[str]:
        """See `Partitions.walk`."""
        text = "SELECT DISTINCT workflow_id, shard FROM workflows"
        for workflow_id, shard in self._each(text):
            if shard == 0:
                yield workflow_id

    def keep(self, table: str, key: str, text: str | None) -> None:
        """See `Partitions.keep`."""
        if text is None:
            self._all([(f"DELETE FROM {table} WHERE key = ?", key)])
        else:
            self._all([(f"INSERT INTO {table} (key, data) VALUES (?, ?)", key, text)])

    def kept(self, table: str) -> Iterator[tuple[str, str]]:
        """See `Partitions.kept`."""
        for key, data in self._each(f"SELECT key, data FROM {table}"):
            if key != "identity":
                yield key, data

    def close(self) -> None:
        """Release the connections; idempotent."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            self._cluster.shutdown()


def _question(asked: Asked) -> tuple[Any, ...]:
    if asked.keys:
        return (f"{_ROW} (entity, key) IN ?", asked.workflow_id, asked.shard, list(asked.keys))
    text = f"{_RANGE} ORDER BY entity DESC, key DESC LIMIT 1" if asked.last else _RANGE
    return (text, asked.workflow_id, asked.shard, asked.entity, asked.begin, asked.end)


def _portions(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells in portions that are not too large for one write."""
    portion: list[Cell] = []
    weight = 0
    for cell in cells:
        size = len(cell.text or "")
        if portion and (len(portion) == _ROWS or weight + size > _WEIGHT):
            yield portion
            portion, weight = [], 0
        portion.append(cell)
        weight += size
    if portion:
        yield portion


def CassandraBackend(url: str, queue: str | os.PathLike[str] | Backend | None = None) -> SplitBackend:  # noqa: N802 - a store's
    """A store with its executions in Cassandra, and its queue, timers, limits and lists in another store.

    `url` is `cassandra://user:password@host:port,host/keyspace`; `?datacenter=` names the nearest one, `?replication=` (1) how many
    copies a keyspace has that is made here, `?timeout=` (5s) bounds each question, `?queue=` is a file or a URL, as `queue` is.
    Raises InvalidInput, StorageUnavailable, AccessDenied, MissingExtra, MissingCapability, and what opening the queue raises.
    """
    if queue is None:
        queue = place_of(url, _PORT, _OPTIONS).options.get("queue")
    if queue is None:
        raise InvalidInput(
            "a store in Cassandra needs a queue: Engine('cassandra://…', queue='queue.db') or queue='postgresql://…'"
        )
    partitions = CassandraPartitions(url)
    try:
        store, _, _ = opened(queue, None)
        try:
            return SplitBackend(partitions, store)
        except BaseException:
            store.close()
            raise
    except BaseException:
        partitions.close()
        raise
