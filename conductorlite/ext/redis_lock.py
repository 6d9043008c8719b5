"""A lock among engines on several hosts, kept by Redis: one server, or Redlock over several. The only importer of redis.

A turn is a key with a lifetime, which the server ends by its own clock (`SET NX PX`). Over several independent servers a turn is
held by the one who has it on more than half of them with some of the lease left (Redlock): one that is down, or has forgotten its
keys in a restart, hands out no turn by itself. Keys are given back and renewed by scripts that compare the token.

What it does not promise: a server that forgets (a restart without persistence, a fail-over to a replica that was behind) lets a
second holder in, as does a holder that is paused for longer than the lease. The fence of the store is what nothing is lost by.

Source of the rule: the Redis documentation, "Distributed Locks with Redis".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from conductorlite.model.clock import SystemClock, steady
from conductorlite.model.errors import AccessDenied, EngineClosed, InvalidInput, LockUnavailable, MissingExtra
from conductorlite.model.texts import Span
from conductorlite.store.locks import drawn_token, lease_ms
from conductorlite.store.places import place_of

__all__ = ["RedisLock"]

_OPTIONS: Final = frozenset({"lease", "prefix", "timeout"})
_PORT: Final = 6379

_COMPARED: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call({}) else return 0 end"
_RELEASE: Final = _COMPARED.format("'del', KEYS[1]")
_RENEW: Final = _COMPARED.format("'pexpire', KEYS[1], ARGV[2]")

#: How far the clocks of servers may drift apart during a lease: a hundredth of it, and this many ms.
_DRIFT_MS: Final = 2


@final
class RedisLock:
    """A lock kept by the Redis servers `clients`, each its own and none a replica of another.

    A turn is lost when it is held for longer than `lease` by the servers' time (Conductor's 60 s by default). `prefix` begins the
    keys. Thread-safe. Raises InvalidInput when the lease is not positive or there is no client, LockUnavailable when more than half
    of the servers cannot be reached, AccessDenied when one refuses the user or the password.
    """

    own_time: Final = True

    def __init__(self, clients: Sequence[Any], *, lease: Span = "60s", prefix: str = "conductorlite:turn:") -> None:
        self._redis = _imported()
        if not clients:
            raise InvalidInput("a lock of Redis needs at least one server")
        self._clients = tuple(clients)
        self._quorum: Final = len(self._clients) // 2 + 1
        self._lease = lease_ms(lease)
        self._prefix = prefix
        self._clock = SystemClock()
        self._pid = os.getpid()
        self._closed = False
        self._asked(lambda client: client.ping())

    @classmethod
    def from_url(cls, url: str) -> RedisLock:
        """The lock at `redis://user:password@a:6379,b,c/0?lease=60s&timeout=200&prefix=…`; `rediss://` with TLS.

        `timeout` bounds the wait for each server, ms (200); a server that does not answer in time counts as down. Raises
        MissingExtra without redis, InvalidInput, LockUnavailable, AccessDenied.
        """
        redis = _imported()
        place = place_of(url, _PORT, _OPTIONS)
        database = place.path or "0"
        if not database.isdecimal():
            raise InvalidInput(f"{place.shown}: the number of a database stands behind the hosts, not {place.path!r:.80}")
        timeout = place.number("timeout", 200, "milliseconds") / 1000
        clients = [
            redis.Redis(
                host=host,
                port=port,
                db=int(database),
                username=place.user,
                password=place.password,
                ssl=place.scheme == "rediss",
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=None,
                retry_on_error=None,
            )
            for host, port in place.hosts
        ]
        options = {name: place.options[name] for name in ("lease", "prefix") if name in place.options}
        try:
            return cls(clients, **options)
        except BaseException:
            for client in clients:
                client.close()
            raise

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None when another holding has it. Raises LockUnavailable, EngineClosed."""
        token = drawn_token()
        key = self._prefix + workflow_id
        began = self._read()
        try:
            taken = self._asked(lambda client: client.set(key, token, nx=True, px=self._lease))
        except LockUnavailable:
            self._given_back(key, token)
            raise
        left = self._lease - (self._read() - began) - self._lease // 100 - _DRIFT_MS
        if sum(map(bool, taken)) >= self._quorum and left > 0:
            return token
        self._given_back(key, token)
        return None

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease again on every server; False when fewer than a majority still have the turn. Raises as `try_acquire`."""
        key = self._prefix + workflow_id
        renewed = self._asked(lambda client: client.eval(_RENEW, 1, key, token, self._lease))
        return sum(map(bool, renewed)) >= self._quorum

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost. Raises as `try_acquire`: then it ends with its lease."""
        key = self._prefix + workflow_id
        self._asked(lambda client: client.eval(_RELEASE, 1, key, token))

    def close(self) -> None:
        """Release the connections; idempotent. What is still held ends with its lease."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            for client in self._clients:
                client.close()

    def _given_back(self, key: str, token: int) -> None:
        """Take back what was taken in part, on every server that can be reached."""
        for client in self._clients:
            try:
                client.eval(_RELEASE, 1, key, token)
            except self._redis.RedisError:
                continue  # there it ends with its lease

    def _asked(self, ask: Callable[[Any], Any]) -> list[Any]:
        """The answers of the servers that gave one, more than half."""
        if self._closed or os.getpid() != self._pid:
            raise EngineClosed("the lock of Redis was closed, or opened before the process was forked")
        answers, problems = [], []
        for client in self._clients:
            try:
                answers.append(ask(client))
            except self._redis.AuthenticationError as error:
                raise AccessDenied(f"{_name(client)} refuses the user or the password: {error}") from error
            except self._redis.RedisError as error:
                problems.append(f"{_name(client)}: {error or type(error).__name__}")
        if len(answers) < self._quorum:
            raise LockUnavailable(f"{len(problems)} of {len(self._clients)} Redis servers do not answer ({'; '.join(problems)})")
        return answers

    def _read(self) -> int:
        """What a clock reads that runs on whatever the machine's time is set to, where there is one, ms."""
        read = steady(self._clock)
        return self._clock.now() if read is None else read[1]


def _name(client: Any) -> str:
    options = client.connection_pool.connection_kwargs
    return f"{options.get('host')}:{options.get('port')}"


def _imported() -> Any:
    try:
        import redis
    except ImportError:
        raise MissingExtra("redis", "a lock of Redis") from None
    return redis
