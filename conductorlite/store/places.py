"""Stores, locks and indexes by their URLs. An adapter is loaded by its URL: nothing below the room of adapters imports one."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final

import attrs

from conductorlite.model.errors import EngineClosed, InvalidInput, LockUnavailable, PayloadUnavailable, StorageCorrupt
from conductorlite.model.threads import Mutex
from conductorlite.store.ports import Backend, IndexDAO, Lock, PayloadCodec

__all__ = ["LateLock", "Place", "on_queue", "open_lock", "opened", "place_of"]

#: A lock of the store's own server.
_ADVISORY: Final = "advisory"

#: By the scheme of a URL: the module of `ext` and its class.
_LOCKS: Final = {
    "redis": ("redis_lock", "RedisLock"),
    "rediss": ("redis_lock", "RedisLock"),
    "zookeeper": ("zookeeper_lock", "ZooKeeperLock"),
    **dict.fromkeys(("postgresql", "postgres"), ("postgres", "PostgresLock")),
}
_STORES: Final = {
    "postgresql": ("postgres", "PostgresBackend"),
    "postgres": ("postgres", "PostgresBackend"),
    "cassandra": ("cassandra", "CassandraBackend"),
}
_INDEXES: Final = {
    "elasticsearch": ("search_server", "SearchServerIndex"),
    "opensearch": ("search_server", "SearchServerIndex"),
}


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """The parts of a URL of one or several servers, each decoded; `shown` is the URL without its password, for messages."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    user: str | None
    password: str | None = attrs.field(repr=False)
    path: str
    options: dict[str, str]
    shown: str

    def number(self, option: str, default: int, of: str = "", *, least: int = 1) -> int:
        """An option that is a whole number, of such things; raises InvalidInput."""
        text = self.options.get(option, str(default))
        if not text.isdecimal() or len(text) > 9 or int(text) < least:
            raise InvalidInput(f"{self.shown}: {option} is a number{of and f' of {of}'}, {least} or more, not {text!r:.80}")
        return int(text)


def place_of(url: str, port: int, options: frozenset[str]) -> Place:
    """A URL `scheme://user:password@host:port,host/path?option=value` in its parts; a host without a port has `port`.

    Raises InvalidInput for what is no such URL, and for options beside `options`.
    """
    from urllib.parse import parse_qsl, unquote, urlsplit

    split = urlsplit(url)
    account, _, places = split.netloc.rpartition("@")
    user, _, password = account.partition(":")
    shown = split._replace(netloc=f"{user}@{places}" if user else places).geturl()
    hosts = []
    for place in places.split(","):
        host, separator, number = place.rpartition(":")
        if not separator or number.endswith("]"):
            host, number = place, str(port)
        if not host or not number.isdecimal() or len(number) > 5 or not 0 < int(number) < 2**16:
            raise InvalidInput(f"{shown}: {place!r:.80} is no host or host:port")
        hosts.append((host.strip("[]"), int(number)))
    given = dict(parse_qsl(split.query, keep_blank_values=True))
    if unknown := given.keys() - options:
        raise InvalidInput(f"{shown}: there is no option {', '.join(sorted(unknown))}; there are {', '.join(sorted(options))}")
    return Place(
        scheme=split.scheme,
        hosts=tuple(hosts),
        user=unquote(user) or None,
        password=unquote(password) or None,
        path=unquote(split.path.strip("/")),
        options=given,
        shown=shown,
    )


def open_lock(url: str) -> Lock:
    """The lock at a URL, `redis://a,b,c`, `zookeeper://a,b,c` or `postgresql://user@host/database`.

    Raises InvalidInput for another URL, MissingExtra, LockUnavailable, AccessDenied.
    """
    lock: Lock = _adapter("a lock", url, _LOCKS).from_url(url)
    return lock


class LateLock:
    """A lock whose servers do not answer yet: each use tries to open it. Thread-safe; `problem` is why it is not open."""

    #: Those at a URL have servers, which say when a lease is over.
    own_time = True

    def __init__(self, url: str, problem: LockUnavailable) -> None:
        self._url = url
        self.problem: LockUnavailable | None = problem
        self._lock: Lock | None = None
        self._closed = False
        self._mutex = Mutex()

    def _opened(self) -> Lock:
        with self._mutex.held():
            if self._closed:
                raise EngineClosed("the lock was closed")
            if self._lock is None:
                self._lock = open_lock(self._url)
                self.problem = None
                if self._closed:  # meanwhile
                    self._lock.close()
            return self._lock

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """See `Lock`. Raises LockUnavailable, AccessDenied."""
        return self._opened().try_acquire(workflow_id, now)

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """See `Lock`."""
        return self._opened().renew(workflow_id, token, now)

    def release(self, workflow_id: str, token: int) -> None:
        """See `Lock`."""
        self._opened().release(workflow_id, token)

    def close(self) -> None:
        """Release what was opened; idempotent. Does not wait for one who is opening it: that one closes it."""
        self._closed = True
        if self._lock is not None:
            self._lock.close()


def _lock_at(url: str, *, dispensable: bool) -> Lock:
    try:
        return open_lock(url)
    except LockUnavailable as error:
        if not dispensable:
            raise
        return LateLock(url, error)


def opened(
    store: str | os.PathLike[str] | Backend | None,
    lock: str | Lock | None,
    index: str | IndexDAO | None = None,
    *,
    dispensable: bool = False,
    codec: PayloadCodec | None = None,
    plain_index: bool = False,
) -> tuple[Backend, Lock | None, IndexDAO | None]:
    """A store by its path, by its URL `postgresql://user@host/database`, or (None) in memory, a lock and an index; all, or none.

    The lock "advisory" is one of the store's own server. A lock that is `dispensable` may be one that cannot be reached yet. With a
    codec the store is sealed by it, see `store.sealing`. Raises InvalidInput for another URL, MissingExtra, StorageErrors, and
    PayloadUnavailable for a sealed store without its codec.
    """
    if codec is not None and index is not None and not plain_index:
        raise InvalidInput("an index keeps payloads plain: with a payload codec and an index say plain_index=True in EngineConfig")
    with ExitStack() as made:
        searched: IndexDAO | None = _adapter("an index", index, _INDEXES).from_url(index) if isinstance(index, str) else index
        if searched is not None and searched is not index:
            made.callback(searched.close)
        held = None if lock == _ADVISORY else _lock_at(lock, dispensable=dispensable) if isinstance(lock, str) else lock
        if held is not None and held is not lock:
            made.callback(held.close)
        there = _opened_store(store)
        if there is not store:
            made.callback(there.close)
        if lock == _ADVISORY:
            held = _lock_of(there)
        if codec is not None:
            from conductorlite.store.sealing import sealed  # most stores are not

            there = sealed(there, codec, plain_index=plain_index)
        elif not getattr(there, "in_memory", False):
            _refuse_sealed(there)
        made.pop_all()
        return there, held, searched


def _refuse_sealed(store: Backend) -> None:
    """Raise PayloadUnavailable for a store in which payloads are sealed, before anything is read or written without the codec."""
    try:
        with store.reading() as view:
            record = view.metadata.definition("sealing/1")
    except StorageCorrupt:
        return  # a damaged store can be opened, so that `admin.check` lists the damage: who uses what is damaged hears of it
    if record is not None:
        raise PayloadUnavailable(
            f"payloads in this store are sealed, first by the key {record.split(':')[1]!r}: open it with"
            " EngineConfig(payload_codec=…), or on the command line with --codec"
        )


def on_queue(
    store: str | os.PathLike[str] | Backend | None, queue: str | os.PathLike[str] | Backend | None
) -> str | os.PathLike[str] | Backend | None:
    """A store with its queue in another one, opened if one is given: a file, a URL, a `Backend`.

    Raises InvalidInput for a store that has its queue with the rest, MissingExtra, StorageErrors.
    """
    if queue is None:
        return store
    if not isinstance(store, str) or not store.startswith("cassandra://"):
        raise InvalidInput("only a store in Cassandra (cassandra://host/keyspace) has its queue in another store")
    there: Backend = _adapter("a store", store, _STORES)(store, queue)
    return there


def _lock_of(store: Backend) -> Lock:
    made: Any = getattr(store, "advisory_lock", None)
    if made is None:
        raise InvalidInput("only a store in PostgreSQL has an advisory lock")
    held: Lock = made()
    return held


def _opened_store(store: str | os.PathLike[str] | Backend | None) -> Backend:
    # Imported on use: a program that keeps everything in memory never pays for sqlite3, and the other way round.
    if store is None:
        from conductorlite.store.memory.backend import MemoryBackend

        return MemoryBackend()
    if isinstance(store, str) and "://" in store:
        there: Backend = _adapter("a store", store, _STORES)(store)
        return there
    if isinstance(store, str | os.PathLike):
        from conductorlite.store.sqlite.backend import SQLiteBackend

        return SQLiteBackend(store)
    return store


def _adapter(what: str, url: str, known: dict[str, tuple[str, str]]) -> Any:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in known:
        raise InvalidInput(f"the URL of {what} begins with {', '.join(f'{one}://' for one in sorted(known))}, not {scheme!r:.80}")
    module, name = known[scheme]
    return getattr(import_module(f"conductorlite.ext.{module}"), name)
